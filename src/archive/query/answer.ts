import { join } from 'node:path';
import { messageOf } from '../../kernel/errors.js';
import type { Span } from '../../kernel/span.js';
import type { SeriesKind } from '../../model/kinds.js';
import type { LedgerTable } from '../../store/index.js';
import { assertColdDir } from '../cold/files.js';
import { asDiskFull, DiskFullError } from '../export/errors.js';
import { Scratch } from '../parquet/scratch.js';
import { DuckSession, identifier, literal, ParquetError } from '../parquet/session.js';
import { jsonOf } from '../parquet/values.js';
import type { Reading } from '../reading.js';
import { assertMarkets, assertWhole, type Bounds, boundsOf, type Selection } from './bounds.js';
import { archiveSource, type ColdSource, FolderSource } from './cold-sources.js';
import { NoSuchTableError, QueryResourcesError, StatementRefusedError } from './errors.js';
import { stageHotRows, stagePieces } from './hot-rows.js';
import { needsOf } from './needs.js';
import { isQuestion, QUESTION_TABLES, questionSql } from './questions.js';
import { seriesViewSql } from './sources.js';
import { parseStatement, type Syntax } from './syntax.js';
import {
  DEPTH_LEVELS,
  isQueryTable,
  LEDGER_COLUMNS,
  QUERY_TABLES,
  type QueryTable,
  seriesBehind,
} from './tables.js';

export interface Question {
  readonly sql: string;
  /** The archive; null to ask the files of {@link coldDir} alone. */
  readonly reading: Reading | null;
  readonly coldDir: string;
  readonly selection: Selection;
  readonly signal: AbortSignal;
  /** What is done now that may take a while. */
  readonly onPhase: (phase: string) => void;
  /** What the asker should know beside the answer. */
  readonly onNote: (note: string) => void;
}

/** The answer as it comes: some thousand rows at a time, values as for JSON. */
export interface QueryAnswer {
  readonly names: readonly string[];
  readonly chunks: AsyncIterable<ReadonlyArray<readonly unknown[]>>;
}

/**
 * Answers a statement over rows in the database and rows in files together. DuckDB runs it, in memory
 * and on scratch files; it can reach nothing else: no other file, no network, no extension.
 *
 * @param take gets the answer once; all of it is gone when it returns
 * @throws StatementRefusedError, QueryResourcesError, ColdError, StoreError, the signal's reason
 */
export async function answerQuestion(
  question: Question,
  take: (answer: QueryAnswer) => Promise<void>,
): Promise<void> {
  assertColdDir(question.coldDir);
  const scratch = await Scratch.make('query');
  let duck: DuckSession | undefined;
  try {
    duck = await DuckSession.open(join(scratch.path, 'spill'), {}, question.signal);
    const syntax = await parseStatement(duck, question.sql);
    await new World(question, duck, scratch.path).prepare(syntax);
    const { names, chunks } = await duck.result('answering', question.sql);
    await take({ names, chunks: rowsOf(chunks) });
  } catch (error) {
    throw told(error);
  } finally {
    duck?.close();
    await scratch.remove();
  }
}

async function* rowsOf(chunks: Awaited<ReturnType<DuckSession['result']>>['chunks']) {
  for await (const columns of chunks) {
    const length = columns[0]?.length ?? 0;
    yield Array.from({ length }, (_, row) => columns.map((values) => jsonOf(values[row] ?? null)));
  }
}

const TOO_MANY_DIGITS =
  /Overflow in (multiplication|addition|subtraction|HUGEINT)|Needed scale \d+/;

/** Errors of a statement in words for whoever wrote it. */
function told(error: unknown): unknown {
  if (error instanceof DiskFullError) return new QueryResourcesError('the disk is full', error);
  if (!(error instanceof ParquetError)) return error;
  const said = messageOf(error.cause);
  const full = asDiskFull(error.cause, '');
  if (full instanceof DiskFullError) return new QueryResourcesError('the disk is full', error);
  if (/^Out of Memory/i.test(said))
    return new QueryResourcesError('there is not enough memory', error);
  if (/^(IO|Internal|Fatal|Serialization) Error/.test(said)) return error;
  const [first = ''] = said.split('\n');
  if (TOO_MANY_DIGITS.test(first)) {
    return new StatementRefusedError(
      `a result has more than 38 digits (${first}): the column total has the product of price and amount; give a factor of another product fewer digits after the point where it has no more, such as price::DECIMAL(38,8)`,
      error,
    );
  }
  return new StatementRefusedError(`the statement is refused: ${said}`, error);
}

/** Makes the tables that a statement names, and shuts the door. */
class World {
  readonly #question: Question;
  readonly #duck: DuckSession;
  readonly #scratch: string;
  /** Files that the statement may read. */
  readonly #allowed: string[] = [];

  constructor(question: Question, duck: DuckSession, scratch: string) {
    this.#question = question;
    this.#duck = duck;
    this.#scratch = scratch;
  }

  async prepare(syntax: Syntax): Promise<void> {
    const tables = knownTables(syntax);
    assertWhole(syntax, this.#question.selection);
    const source = await this.#openSource(tables);
    assertMarkets(this.#question.selection, source.ids);
    const needs = needsOf(syntax.root);
    for (const kind of new Set(tables.flatMap((table) => seriesBehind(table) ?? []))) {
      const need = needs.get(kind);
      if (need === undefined) continue;
      const bounds = await boundsOf(this.#duck, need, this.#question.selection);
      await this.#makeSeries(kind, bounds, source);
    }
    if (tables.includes('depth_levels')) await this.#view('depth_levels', DEPTH_LEVELS);
    await this.#run('CREATE SCHEMA analytics');
    for (const table of tables) {
      const name = identifier(table);
      await this.#run(`CREATE VIEW analytics.${name} AS FROM main.${name}`);
    }
    if (syntax.functions.some(({ name }) => isQuestion(name))) await this.#makeQuestions();
    await this.#shut();
  }

  async #makeQuestions(): Promise<void> {
    const columns = await this.#duck.rows('looking at trades', 'DESCRIBE trades');
    const types = new Map(columns.map(([name, type]) => [String(name), String(type)]));
    for (const sql of questionSql(types)) await this.#run(sql);
  }

  /** Opens what the tables come from, and makes those of the ledger. */
  async #openSource(tables: readonly QueryTable[]): Promise<Source> {
    const { reading, coldDir, signal } = this.#question;
    if (reading === null) {
      const folder = await FolderSource.open(coldDir, signal);
      const ids = await this.#makeFolderTables(folder, tables);
      return { files: (kind, bounds) => folder.files(kind, bounds), ids };
    }
    for (const table of ['markets', 'coverage', 'gaps'] as const) {
      if (table === 'markets' || tables.includes(table)) await this.#makeLedger(table, reading);
    }
    const rows = await this.#duck.rows('reading markets', 'SELECT market, market_id FROM markets');
    const ids = new Map(rows.map(([name, id]) => [String(name), Number(id)]));
    return { ...archiveSource(reading, ids), ids };
  }

  async #makeSeries(kind: SeriesKind, bounds: Bounds, source: Source): Promise<void> {
    const { reading, selection, signal, onPhase, onNote } = this.#question;
    const span: Span = bounds;
    let hot: string | null = null;
    let cold: readonly string[] = [];
    if (span.toMs > span.fromMs) {
      const unknown = [...(bounds.markets ?? [])].filter((name) => !source.ids.has(name));
      for (const name of unknown) onNote(`the archive has no market ${name}`);
      onPhase(`looking at ${kind} in cold files`);
      cold = (await source.files(kind, bounds)).map(({ absolutePath }) => absolutePath);
      if (reading !== null) {
        const gone = reading.parts(kind, span).filter(({ state }) => state === 'expired');
        for (const { span: part } of gone) onNote(`${kind} ${spanText(part)} are no longer kept`);
        onPhase(`reading ${kind} from the database`);
        const marketIds =
          bounds.markets === null
            ? null
            : [...bounds.markets].flatMap((name) => source.ids.get(name) ?? []);
        const stage = { duck: this.#duck, reading, scratch: this.#scratch, signal };
        hot = await stageHotRows(stage, kind, span, marketIds).catch((error: unknown) => {
          throw asDiskFull(error, this.#scratch);
        });
      }
    }
    this.#allowed.push(...cold, ...(hot === null ? [] : [hot]));
    const markets = selection.markets;
    const view = await seriesViewSql(this.#duck, kind, { cold, hot }, selection);
    const where =
      markets === undefined ? '' : ` WHERE market IN (${markets.map(literal).join(', ')})`;
    await this.#view(kind, `SELECT * FROM (${view})${where}`);
  }

  async #makeLedger(table: LedgerTable, reading: Reading): Promise<void> {
    const path = join(this.#scratch, `${table}.csv`);
    const { signal } = this.#question;
    await stagePieces(path, [() => reading.snapshot.ledger(table, signal)]);
    const columns = LEDGER_COLUMNS[table].map(
      ([name, type]) => `${identifier(name)}: ${literal(type)}`,
    );
    const more = table === 'gaps' ? ', ends_at - starts_at AS length' : '';
    await this.#run(
      `CREATE TABLE ${table} AS SELECT *${more} FROM read_csv(${literal(path)},
         auto_detect = false, header = false, delim = ',', quote = '"', escape = '"', nullstr = '',
         columns = {${columns.join(', ')}})`,
    );
  }

  /** What the manifests of a folder tell of markets and coverage. */
  async #makeFolderTables(
    { manifests }: FolderSource,
    tables: readonly QueryTable[],
  ): Promise<Ids> {
    this.#question.onNote(
      'only the cold files are asked: nothing that is in a database is in the answer',
    );
    const old = manifests.filter(({ sha256 }) => sha256 === null).length;
    if (old > 0) {
      this.#question.onNote(
        `${old} of ${manifests.length} manifests carry no checksum of themselves, as they were written by an earlier version: damage to them shows only where it breaks their form`,
      );
    }
    if (tables.includes('gaps')) {
      throw new StatementRefusedError(
        'gaps are known to the database alone: ask it, without --cold',
      );
    }
    const markets = new Map(
      manifests.flatMap(({ files }) => files.map(({ market, marketId }) => [market, marketId])),
    );
    await this.#fill('markets', ['market VARCHAR', 'market_id INTEGER'], [...markets]);
    const covered = manifests.flatMap(({ coverage }) =>
      coverage.flatMap(({ kind, market, variantS, spans }) =>
        spans.map(({ from, to }) => [market, kind, variantS, from, to]),
      ),
    );
    const columns = ['market VARCHAR', 'kind VARCHAR', 'variant INTEGER'];
    const times = ['starts_at TIMESTAMPTZ', 'ends_at TIMESTAMPTZ'];
    await this.#fill('coverage', [...columns, ...times], covered);
    return markets;
  }

  async #fill(
    table: string,
    columns: readonly string[],
    rows: ReadonlyArray<readonly (string | number)[]>,
  ): Promise<void> {
    await this.#run(`CREATE TABLE ${table} (${columns.join(', ')})`);
    for (let at = 0; at < rows.length; at += FILLED_AT_ONCE) {
      const values = rows
        .slice(at, at + FILLED_AT_ONCE)
        .map((row) => `(${row.map((value) => literal(String(value))).join(', ')})`);
      await this.#run(`INSERT INTO ${table} VALUES ${values.join(', ')}`);
    }
  }

  async #shut(): Promise<void> {
    const paths = this.#allowed.map(literal).join(', ');
    await this.#run(`SET allowed_paths = [${paths}]`);
    await this.#run('SET enable_external_access = false');
    await this.#run('SET lock_configuration = true');
  }

  async #view(name: string, sql: string): Promise<void> {
    await this.#run(`CREATE VIEW ${identifier(name)} AS ${sql}`);
  }

  async #run(sql: string): Promise<void> {
    await this.#duck.run('making the tables', sql);
  }
}

/** Markets by their names. */
type Ids = ReadonlyMap<string, number>;
type Source = ColdSource & { readonly ids: Ids };

const FILLED_AT_ONCE = 1_000;

const day = (ms: number) => new Date(ms).toISOString();
const spanText = ({ fromMs, toMs }: Span) => `from ${day(fromMs)} to ${day(toMs)}`;

/** The tables of ours that a statement names. @throws StatementRefusedError for others */
function knownTables({ tables, functions }: Syntax): QueryTable[] {
  const asked = functions.some(({ name }) => isQuestion(name));
  const known = new Set<QueryTable>(asked ? QUESTION_TABLES : []);
  for (const { schema, name } of tables) {
    if (['information_schema', 'pg_catalog', 'system'].includes(schema)) continue;
    if (schema === '' && /^(duckdb|pg|pragma)_/.test(name)) continue;
    if (!isQueryTable(name) || !['', 'main', 'analytics'].includes(schema)) {
      throw new NoSuchTableError(
        name,
        `there is no table ${schema === '' ? name : `${schema}.${name}`} here; there are ${QUERY_TABLES.join(', ')}. The tables of the database are asked with --engine postgres`,
      );
    }
    known.add(name);
  }
  return [...known];
}
