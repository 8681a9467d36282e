import { doOverlap, type Span } from '../../kernel/span.js';
import { formatInstant } from '../../kernel/timestamp.js';
import { type SeriesKind, seriesColumns, tableOfKind, timeColumnOf } from '../../model/kinds.js';
import { viewOf } from '../../model/series.js';
import type { LedgerTable } from '../../store/index.js';
import { usualForms } from '../cold/decimals.js';
import type { ColdStorage } from '../cold/storage.js';
import { StatementRefusedError } from '../errors.js';
import { fillFile } from '../files.js';
import { csvSql } from '../parquet/columns.js';
import { type DuckSession, identifier, literals, type RowVectors } from '../parquet/session.js';
import { jsonOf } from '../parquet/values.js';
import type { ArchiveReader } from '../reading.js';
import { type Group, loadTail, relationSql } from '../relation.js';
import { statementBounds } from './bounds.js';
import { folderFiles, folderManifests } from './cold-folder.js';
import { asStatementError, unknownTable } from './refusals.js';
import {
  assertMarkets,
  assertWhole,
  type Bounds,
  EVER,
  intersect,
  type Selection,
  selected,
} from './selection.js';
import type { Statement, Syntax } from './statement.js';
import {
  DEPTH_LEVELS,
  isQueryTable,
  isQuestion,
  LEDGER_COLUMNS,
  QUESTION_TABLES,
  type QueryTable,
  questionSql,
  seriesBehind,
} from './tables.js';

/** Sources of a statement. */
export interface Question {
  /** The archive; null to ask the files of {@link cold} alone. */
  readonly reader: ArchiveReader | null;
  readonly cold: ColdStorage;
  readonly selection: Selection;
  /** Current step that may take a while. */
  readonly onPhase: (phase: string) => void;
  /** Notes beside the result. */
  readonly onNote: (note: string) => void;
}

/** Rows whose values are made together: few, as a text or a list of one may be large. */
const ROWS_TOGETHER = 128;

/** The answer as it comes: some rows at a time, values as for JSON. */
/** DuckDB calls `count(*)` by the function behind it. */
const shortName = (name: string) => (name === 'count_star()' ? 'count' : name);

export interface QueryAnswer {
  readonly names: readonly string[];
  readonly chunks: AsyncIterable<ReadonlyArray<readonly unknown[]>>;
}

/**
 * Answers a statement over rows in the database and rows in files together, and closes it. DuckDB runs
 * it, in memory and on scratch files; it can reach nothing else: no other file, no network, no extension.
 *
 * @param take gets the answer once; all of it is gone when it returns
 * @throws StatementRefusedError, QueryResourcesError, ColdError, StoreError, the signal's reason
 */
export async function answerQuestion(
  statement: Statement,
  question: Question,
  take: (answer: QueryAnswer) => Promise<void>,
): Promise<void> {
  try {
    question.cold.assertReadable();
    const unknown = await new World(statement, question).prepare();
    const { duck, sql } = statement;
    const { names, pieces } = await duck.answer('answering', sql, ROWS_TOGETHER);
    await take({ names: names.map(shortName), chunks: rowsOf(pieces) });
    // An unknown market that is an error says so itself.
    for (const name of unknown) question.onNote(`the archive has no market ${name}`);
  } catch (error) {
    throw asStatementError(error);
  } finally {
    await statement.close();
  }
}

async function* rowsOf(pieces: AsyncIterable<RowVectors>) {
  for await (const { rows, columns } of pieces) {
    yield Array.from({ length: rows }, (_, row) =>
      columns.map((vector) => jsonOf(vector.getItem(row))),
    );
  }
}

/** Rows of a series. */
interface Found extends Awaited<ReturnType<ArchiveReader['scan']>> {
  /** Null for all. */
  readonly marketIds: readonly number[] | null;
}

/** Markets by their names, and the places of rows. */
interface Source {
  readonly ids: ReadonlyMap<string, number>;
  /** @throws ColdError */
  find(
    kind: SeriesKind,
    bounds: Bounds,
    marketIds: readonly number[] | undefined,
  ): ReturnType<ArchiveReader['scan']>;
}

const FILLED_AT_ONCE = 1_000;

/** Makes the tables that a statement names, and shuts the door. */
class World {
  readonly #statement: Statement;
  readonly #question: Question;
  readonly #duck: DuckSession;
  /** Files that the statement may read. */
  readonly #allowed: string[] = [];
  /** Markets that it asks for and that there are not. */
  readonly #unknown = new Set<string>();

  constructor(statement: Statement, question: Question) {
    this.#statement = statement;
    this.#question = question;
    this.#duck = statement.duck;
  }

  /** @returns markets that the statement asks for and that there are not */
  async prepare(): Promise<ReadonlySet<string>> {
    const { syntax } = this.#statement;
    const { selection } = this.#question;
    const tables = knownTables(syntax);
    assertWhole(syntax, selection);
    const source = await this.#openSource(tables);
    assertMarkets(selection, source.ids);
    const kinds = new Set(tables.flatMap((table) => seriesBehind(table) ?? []));
    const found = new Map<SeriesKind, Found>();
    for (const kind of kinds) {
      const one = await this.#find(kind, source);
      found.set(kind, one);
      await this.#makeSeries(kind, one, []);
    }
    await this.#makeViews(tables);
    // A mistake is reported before rows are copied. No file is opened for that.
    if (syntax.isPlain) await this.#duck.check('looking at the statement', this.#statement.sql);
    for (const [kind, one] of found) {
      const copied = await this.#copy(kind, one);
      if (copied.length > 0) await this.#makeSeries(kind, one, copied);
    }
    await this.#makeViews(tables);
    await this.#shut();
    return this.#unknown;
  }

  /** Views over the series: levels, the other schema, and the questions. */
  async #makeViews(tables: readonly QueryTable[]): Promise<void> {
    if (tables.includes('depth_levels')) await this.#view('depth_levels', DEPTH_LEVELS);
    await this.#run('CREATE SCHEMA IF NOT EXISTS analytics');
    for (const table of tables)
      await this.#view(table, `FROM main.${identifier(table)}`, 'analytics');
    if (!this.#statement.syntax.functions.some(({ name }) => isQuestion(name))) return;
    const types = await this.#duck.types('looking at trades', 'trades');
    for (const sql of questionSql(types)) await this.#run(sql);
  }

  /** Opens what the tables come from, and makes those of the ledger. */
  async #openSource(tables: readonly QueryTable[]): Promise<Source> {
    const { reader } = this.#question;
    if (reader === null) return await this.#openFolder(tables);
    for (const table of ['markets', 'coverage', 'gaps'] as const) {
      if (table === 'markets' || tables.includes(table)) await this.#makeLedger(table, reader);
    }
    const rows = await this.#duck.rows('reading markets', 'SELECT market, market_id FROM markets');
    return {
      ids: new Map(rows.map(([name, id]) => [String(name), Number(id)])),
      find: (kind, bounds, marketIds) => reader.scan(kind, bounds, marketIds),
    };
  }

  /** Tables of a folder alone: markets and coverage are those of its manifests. */
  async #openFolder(tables: readonly QueryTable[]): Promise<Source> {
    const { cold, onNote } = this.#question;
    const manifests = await folderManifests(cold);
    onNote('only the cold files are asked: nothing that is in a database is in the answer');
    if (tables.includes('gaps')) {
      throw new StatementRefusedError(
        'gaps are known to the database alone: ask it, without --cold',
      );
    }
    const ids = new Map(
      manifests.flatMap(({ files }) => files.map(({ market, marketId }) => [market, marketId])),
    );
    await this.#fill('markets', 'market VARCHAR, market_id INTEGER', [...ids]);
    const covered = manifests.flatMap(({ coverage }) =>
      coverage.flatMap(({ kind, market, variantS, spans }) =>
        spans.map(({ from, to }) => [market, kind, variantS, from, to]),
      ),
    );
    const key = 'market VARCHAR, kind VARCHAR, variant INTEGER';
    await this.#fill('coverage', `${key}, starts_at TIMESTAMPTZ, ends_at TIMESTAMPTZ`, covered);
    const { signal } = this.#statement;
    return {
      ids,
      find: async (kind, bounds) => ({
        files: await folderFiles(cold, signal, manifests, kind, bounds),
        hot: [],
      }),
    };
  }

  async #makeSeries(kind: SeriesKind, { files }: Found, others: readonly Group[]): Promise<void> {
    const { markets, ...span } = this.#question.selection;
    const cold = files.map(({ absolutePath }) => absolutePath);
    const sql = await relationSql(this.#duck, kind, { cold, others }, span);
    const where = markets === undefined ? '' : ` WHERE market IN (${literals(markets)})`;
    await this.#view(viewOf(tableOfKind(kind)), `SELECT * FROM (${sql})${where}`);
  }

  /** Finds the rows of a series that the statement may see. */
  async #find(kind: SeriesKind, source: Source): Promise<Found> {
    const { reader, onPhase, onNote, selection } = this.#question;
    const bounds = intersect(await statementBounds(this.#statement, kind), selected(selection));
    const names = bounds.markets === null ? null : [...bounds.markets];
    for (const name of names ?? []) if (!source.ids.has(name)) this.#unknown.add(name);
    const marketIds = names?.flatMap((name) => source.ids.get(name) ?? []) ?? null;
    const isNone = bounds.toMs <= bounds.fromMs || marketIds?.length === 0;
    if (isNone) return { files: [], hot: [], marketIds };
    // By its own limits, as the statement may compare with an instant that is none.
    for (const { span, state } of reader?.segments(kind, EVER) ?? []) {
      if (state !== 'expired' || !doOverlap(span, bounds)) continue;
      onNote(`${kind} ${spanText(span)} are no longer kept`);
    }
    onPhase(`looking at ${kind} in cold files`);
    const { files, hot } = await source.find(kind, bounds, marketIds ?? undefined);
    this.#allowed.push(...files.map(({ absolutePath }) => absolutePath));
    return { files, hot, marketIds };
  }

  /** Copies the rows that only the database has, with the columns that the statement names. */
  async #copy(kind: SeriesKind, { hot: spans, marketIds }: Found): Promise<Group[]> {
    const { reader, onPhase, selection } = this.#question;
    const { sql, syntax, signal, scratch } = this.#statement;
    if (reader === null || spans.length === 0) return [];
    const isAll =
      syntax.isOfAll ||
      (kind === 'trades' && syntax.functions.length > 0) ||
      (kind === 'depth' && syntax.tables.some(({ name }) => name === 'depth_levels'));
    const words = new Set(sql.toLowerCase().match(/\w+/g));
    if ((selection.fromMs ?? selection.toMs) !== undefined)
      words.add(timeColumnOf(tableOfKind(kind)));
    const named = seriesColumns(kind).filter(({ name }) => isAll || words.has(name));
    const slice = { kind, marketIds, columns: named };
    const precisions = 'SELECT max(base_prec), max(quote_prec) FROM markets';
    const [row = []] = await this.#duck.rows('reading markets', precisions);
    const [base, quote] = row.map((one) => (one === null ? null : Number(one)));
    const usual = usualForms(tableOfKind(kind), base ?? null, quote ?? null);
    onPhase(`reading ${kind} from the database`);
    const place = { path: scratch(`${kind}.csv`), forms: Object.fromEntries(usual), signal };
    return [await loadTail(this.#duck, reader, slice, spans, place)];
  }

  async #makeLedger(table: LedgerTable, reader: ArchiveReader): Promise<void> {
    const path = this.#statement.scratch(`${table}.csv`);
    await fillFile(path, async (add) => {
      for await (const piece of reader.snapshot.ledger(table, this.#statement.signal)) {
        await add(piece);
      }
    });
    const more = table === 'gaps' ? ', ends_at - starts_at AS length' : '';
    await this.#run(
      `CREATE TABLE ${table} AS SELECT *${more} FROM ${csvSql(path, LEDGER_COLUMNS[table])}`,
    );
  }

  async #fill(
    table: LedgerTable,
    columns: string,
    rows: ReadonlyArray<readonly (string | number)[]>,
  ): Promise<void> {
    await this.#run(`CREATE TABLE ${table} (${columns})`);
    for (let at = 0; at < rows.length; at += FILLED_AT_ONCE) {
      const values = rows
        .slice(at, at + FILLED_AT_ONCE)
        .map((row) => `(${literals(row.map(String))})`);
      await this.#run(`INSERT INTO ${table} VALUES ${values.join(', ')}`);
    }
  }

  async #shut(): Promise<void> {
    await this.#run(`SET allowed_paths = [${literals(this.#allowed)}]`);
    await this.#run('SET enable_external_access = false');
    await this.#run('SET lock_configuration = true');
  }

  async #view(name: string, sql: string, schema = 'main'): Promise<void> {
    await this.#run(`CREATE OR REPLACE VIEW ${schema}.${identifier(name)} AS ${sql}`);
  }

  async #run(sql: string): Promise<void> {
    await this.#duck.run('making the tables', sql);
  }
}

const spanText = ({ fromMs, toMs }: Span) =>
  `from ${formatInstant(fromMs)} to ${formatInstant(toMs)}`;

/** The tables of ours that a statement names. @throws StatementRefusedError for others */
function knownTables({ tables, functions }: Syntax): QueryTable[] {
  const asked = functions.some(({ name }) => isQuestion(name));
  const known = new Set<QueryTable>(asked ? QUESTION_TABLES : []);
  for (const { schema, name } of tables) {
    if (['information_schema', 'pg_catalog', 'system'].includes(schema)) continue;
    if (schema === '' && /^(duckdb|pg|pragma)_/.test(name)) continue;
    if (!isQueryTable(name) || !['', 'main', 'analytics'].includes(schema)) {
      throw unknownTable(name, schema === '' ? name : `${schema}.${name}`);
    }
    known.add(name);
  }
  return [...known];
}
