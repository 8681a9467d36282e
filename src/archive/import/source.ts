import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { multiplyDecimals } from '../../kernel/decimal.js';
import { SECOND_US } from '../../kernel/durations.js';
import { codeOf } from '../../kernel/errors.js';
import type { Span } from '../../kernel/span.js';
import type { KlineRow, TradeRow } from '../../model/batch.js';
import { ImportRefusedError } from '../errors.js';
import {
  type DuckSession,
  isPattern,
  literal,
  openDuck,
  type ScratchDuck,
} from '../parquet/session.js';
import { type ImportedKind, NUMBERS, type Recognised, recognise, typedRowsSql } from './columns.js';

export interface SourceOptions {
  readonly path: string;
  readonly format: 'csv' | 'parquet';
  readonly kind: ImportedKind;
  /** Length of candles. */
  readonly intervalS: number;
  /** Name of the market of all rows; undefined if a column has it. */
  readonly market: string | undefined;
  /** Field → column; names in order, without a column, are those of a file without a heading. */
  readonly columns: ReadonlyMap<string, string | null>;
  readonly signal: AbortSignal;
}

/** Sums of a source. */
export interface SourceFacts {
  readonly rows: number;
  /** Names of the markets in it. */
  readonly markets: readonly string[];
  /** First and last time, UNIX microseconds; null without rows. */
  readonly fromUs: number | null;
  readonly toUs: number | null;
  readonly sha256: string;
  readonly recognised: Recognised;
}

/** A row of a file; the market goes by name. */
export type ImportedRow = { readonly market: string } & (
  | { readonly trade: Omit<TradeRow, 'marketId'> }
  | { readonly kline: Omit<KlineRow, 'marketId'> }
);

/** SQL for the shortest text of a decimal. */
const shortestText = (text: string) =>
  `CASE WHEN contains(${text}, '.') THEN rtrim(rtrim(${text}, '0'), '.') ELSE ${text} END`;

/** The order of the rows, in which those of one identity lie together. */
const keyOf = (kind: ImportedKind) => [
  ...['market', `at_us // ${SECOND_US}`],
  ...(kind === 'trades' ? ['tid'] : []),
];

/** SQL that tells whether a row belongs before the one that it follows. */
function beforeSql([one, ...more]: readonly string[], at = 0): string {
  if (one === undefined) return 'false';
  return `(${one} < before_${at} OR (${one} = before_${at} AND ${beforeSql(more, at + 1)}))`;
}

const withinSql = (spans: readonly Span[]) =>
  `(${spans.map(({ fromMs, toMs }) => `at_us >= ${fromMs * 1000} AND at_us < ${toMs * 1000}`).join(' OR ') || 'false'})`;

/** Faults that are shown. */
const SHOWN_FAULTS = 3;
/** Rows that are made together. */
const ROWS_TOGETHER = 2_048;

/**
 * A file of rows of another maker, sorted by market and time. It is read once, into a scratch file.
 *
 * States: *open* → *closed*.
 */
export class ImportSource {
  readonly facts: SourceFacts;
  /** Some trade has a fraction of a second: all have their exact time. */
  readonly isExact: boolean;
  readonly options: SourceOptions;
  readonly #duck: ScratchDuck;
  /** False where no two rows can have one identity. */
  readonly #mayRepeat: boolean;
  /** SQL of the rows in the order of the key. */
  readonly #sorted: string;
  /** The rows of spans in which some are repeated. */
  #once: string | undefined;

  private constructor(
    options: SourceOptions,
    duck: ScratchDuck,
    sorted: string,
    facts: SourceFacts,
    { isExact, mayRepeat }: { readonly isExact: boolean; readonly mayRepeat: boolean },
  ) {
    this.#mayRepeat = mayRepeat;
    this.options = options;
    this.#duck = duck;
    this.#sorted = sorted;
    this.facts = facts;
    this.isExact = isExact;
  }

  /**
   * Reads, checks and sorts a file.
   *
   * @throws ImportRefusedError naming the file, and the rows and columns that cannot be read; ParquetError for what is no
   *   such file; the signal's reason
   */
  static async open(options: SourceOptions): Promise<ImportSource> {
    const { path, kind, market, signal } = options;
    if (isPattern(path))
      throw new ImportRefusedError(`${path}: name one file, without * ? [ ] { }`);
    const digest = digestOf(path, signal);
    // Awaited below, whatever becomes of the reading.
    digest.catch(() => undefined);
    const duck = await openDuck('import', {}, signal);
    try {
      const { session } = duck;
      const { from, recognised } = await readColumns(options, duck);
      const typed = typedRowsSql(kind, recognised, from, market);
      const order = keyOf(kind);
      const write = async (name: string, sql: string) => {
        const place = duck.scratch(`${name}.parquet`);
        const how = '(FORMAT parquet)';
        await session.run(`reading ${path}`, `COPY (${sql}) TO ${literal(place)} ${how}`);
        return place;
      };
      const read = await write('read', typed);
      const lags = order.map((one, at) => `lag(${one}) OVER () AS before_${at}`).join(', ');
      const [row] = await session.rows(
        `checking ${path}`,
        `SELECT count(*), count(fault), min(at_us)::DOUBLE, max(at_us)::DOUBLE,
           coalesce(bool_or(at_us % ${SECOND_US} <> 0), false), coalesce(list_sort(list(DISTINCT market)), []),
           count(*) FILTER (${beforeSql(order)}),
           count(*) FILTER (${order.map((one, at) => `${one} = before_${at}`).join(' AND ')})
         FROM (SELECT *, ${lags} FROM read_parquet(${literal(read)}))`,
      );
      const [count, faults, fromUs, toUs, isExact, markets, turns, same] = row ?? [];
      // Numbering rows while they are read would keep all but one thread from it.
      const rows = `(SELECT *, file_row_number + 1 AS row FROM read_parquet(${literal(read)}, file_row_number = true))`;
      if (Number(faults) > 0) throw await faultsOf(options, duck, rows, Number(faults), recognised);
      // Files of exchanges nearly always are in order.
      const sorted =
        Number(turns) === 0
          ? rows
          : `read_parquet(${literal(await write('sorted', `SELECT * EXCLUDE file_row_number FROM ${rows} ORDER BY ${order.join(', ')}`))})`;
      const sha256 = await digest;
      const names = (markets as { readonly items: readonly unknown[] }).items.map(String);
      const edge = (value: unknown) => (value === null ? null : Number(value));
      const facts = {
        rows: Number(count),
        markets: names,
        fromUs: edge(fromUs),
        toUs: edge(toUs),
        sha256,
        recognised,
      };
      const mayRepeat = Number(turns) + Number(same) > 0;
      return new ImportSource(options, duck, sorted, facts, {
        isExact: isExact === true,
        mayRepeat,
      });
    } catch (error) {
      await duck.close();
      // A file that is not there is named by it.
      await digest;
      throw error;
    }
  }

  /** For work on {@link ImportSource.relation}. */
  get session(): DuckSession {
    return this.#duck.session;
  }

  /** SQL of the typed rows, in the order of market, second and id. */
  get relation(): string {
    return this.#once === undefined
      ? this.#sorted
      : `(FROM read_parquet(${literal(this.#once)}) WHERE place = 1)`;
  }

  /**
   * Looks for rows of one identity within spans, and drops all but the first of each there.
   *
   * @returns how many were dropped
   * @throws ImportRefusedError where their content is not the same
   */
  async dropRepeated(spans: readonly Span[]): Promise<number> {
    if (!this.#mayRepeat) return 0;
    const { kind, path } = this.options;
    const key = keyOf(kind).join(', ');
    const numbers = NUMBERS[kind];
    const content = [...(kind === 'trades' ? ['side'] : []), ...numbers.map(shortestText)];
    const within = withinSql(spans);
    const exact = this.isExact && kind === 'trades' ? ['at_us'] : [];
    const again = `SELECT *, row_number() OVER same AS place, first_value(row) OVER same AS first_row,
        concat_ws(' ', ${[...content, ...exact].join(', ')}) AS content,
        first_value(concat_ws(' ', ${[...content, ...exact].join(', ')})) OVER same AS first_content
      FROM ${this.relation} WHERE ${within} WINDOW same AS (PARTITION BY ${key} ORDER BY row)`;
    const once = this.#duck.scratch('once.parquet');
    await this.session.run(
      `checking ${path}`,
      `COPY (${again} ORDER BY ${key}) TO ${literal(once)} (FORMAT parquet)`,
    );
    const [found] = await this.session.rows(
      `checking ${path}`,
      `SELECT count(*) FILTER (place > 1), count(*) FILTER (content <> first_content),
         arg_min([first_row, row], row) FILTER (content <> first_content) FROM read_parquet(${literal(once)})`,
    );
    const [repeated, conflicts, rows] = found ?? [];
    if (Number(conflicts) > 0) {
      const [first, second] = (rows as { readonly items: readonly unknown[] }).items;
      throw new ImportRefusedError(
        `${path}: row ${second} has the ${kind === 'trades' ? 'id and second' : 'time'} of row ${first}, and other content (${conflicts} such rows). Nothing was stored; mend the file`,
      );
    }
    this.#once = once;
    return Number(repeated);
  }

  /**
   * The rows by market and time, some at a time.
   *
   * @param receivedAtMs clock of this machine
   * @param except spans whose rows are left out
   */
  async *rows(receivedAtMs: number, except: readonly Span[] = []): AsyncGenerator<ImportedRow[]> {
    const { kind, path, intervalS } = this.options;
    const columns =
      kind === 'trades'
        ? 'market, at_us::DOUBLE, tid::DOUBLE, side, price, amount, total'
        : 'market, at_us::DOUBLE, open, high, low, close, volume, quote_volume';
    const sql = `SELECT ${columns} FROM ${this.#sorted} WHERE NOT ${withinSql(except)}`;
    const make = kind === 'trades' ? this.#trade : candleOf(intervalS);
    for await (const { rows, columns: vectors } of this.#duck.session.vectors(
      `reading ${path}`,
      sql,
      ROWS_TOGETHER,
    )) {
      yield Array.from({ length: rows }, (_, row) =>
        make(
          vectors.map((vector) => vector.getItem(row)),
          receivedAtMs,
        ),
      );
    }
  }

  /** Safe to call twice. */
  async close(): Promise<void> {
    await this.#duck.close();
  }

  readonly #trade = (values: readonly unknown[], receivedAtMs: number): ImportedRow => {
    const [market, atUs, tid, side, price, amount, total] = values;
    const [priceText, amountText] = [String(price), String(amount)];
    const trade = {
      tradedAtS: Math.floor(Number(atUs) / 1e6),
      // Whole seconds throughout say nothing of the exact time.
      executedAtUs: this.isExact ? Number(atUs) : null,
      tid: Number(tid),
      side: side === 'buy' ? ('buy' as const) : ('sell' as const),
      ...{ price: priceText, amount: amountText, receivedAtMs },
      total: total === null ? multiplyDecimals(priceText, amountText) : String(total),
    };
    return { market: String(market), trade };
  };
}

const candleOf =
  (intervalS: number) =>
  (values: readonly unknown[], receivedAtMs: number): ImportedRow => {
    const [
      market,
      atUs,
      open = '',
      high = '',
      low = '',
      close = '',
      volume = '',
      quoteVolume = '',
    ] = values.map(String);
    const kline = {
      openAtS: Math.floor(Number(atUs) / 1e6),
      ...{ intervalS, open, high, low, close, volume, quoteVolume, receivedAtMs },
    };
    return { market: String(market), kline };
  };

/** Finds the columns of the file, and the SQL that reads it: all of a CSV as text. */
async function readColumns(
  { path, format, kind, columns }: SourceOptions,
  { session }: ScratchDuck,
) {
  const ordered = [...columns].filter(([, column]) => column === null).map(([name]) => name);
  const named = new Map(
    [...columns].flatMap(([name, column]) => (column === null ? [] : [[name, column]])),
  );
  if (ordered.length > 0 && (named.size > 0 || format === 'parquet')) {
    throw new ImportRefusedError(
      '--columns: give either NAME=COLUMN pairs, or the names of all columns of a CSV without a heading, in their order',
    );
  }
  const from =
    format === 'parquet'
      ? `read_parquet(${literal(path)}, hive_partitioning = false)`
      : `read_csv(${literal(path)}, all_varchar = true, ${
          ordered.length === 0
            ? 'header = true'
            : `header = false, names = [${ordered.map(literal).join(', ')}]`
        })`;
  const types = await session.types(`reading ${path}`, from);
  const given = new Map([
    ...named,
    ...ordered
      .filter((name) => !name.startsWith('_'))
      .map((name): [string, string] => [name, name]),
  ]);
  return { from, recognised: recognise(kind, [...types.keys()], given) };
}

/** Error about rows that cannot be read; names the first of them. */
async function faultsOf(
  { path, kind }: SourceOptions,
  { session }: ScratchDuck,
  rows: string,
  count: number,
  recognised: Recognised,
): Promise<ImportRefusedError> {
  const found = await session.rows(
    `checking ${path}`,
    `SELECT row, fault FROM ${rows} WHERE fault IS NOT NULL ORDER BY row LIMIT ${SHOWN_FAULTS}`,
  );
  const shown = found.map(
    ([row, fault]) => `row ${row}: ${fault} (column ${recognised.get(String(fault)) ?? fault})`,
  );
  const more = count > shown.length ? `, and ${count - shown.length} more` : '';
  return new ImportRefusedError(
    `${path}: ${count === 1 ? 'one row' : `${count} rows`} cannot be read as ${kind}: ${shown.join('; ')}${more}. Nothing was stored; mend the file, or name the right columns by --columns`,
  );
}

async function digestOf(path: string, signal: AbortSignal): Promise<string> {
  const hash = createHash('sha256');
  try {
    for await (const piece of createReadStream(path, { signal })) hash.update(piece as Buffer);
  } catch (error) {
    signal.throwIfAborted();
    const why = codeOf(error) === 'ENOENT' ? 'there is no such file' : codeOf(error);
    throw new ImportRefusedError(`${path} cannot be read: ${why}`, error);
  }
  return hash.digest('hex');
}
