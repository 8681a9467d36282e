import type pg from 'pg';
import type { Clock } from '../../kernel/clock.js';
import { addedByServer, messageOf, TapekeepError } from '../../kernel/errors.js';
import { Slots } from '../../kernel/mutex.js';
import { describeAddress } from '../address.js';
import { Connection, inStoreWords } from '../connection.js';
import { isState, StoreError, sqlstateOf } from '../errors.js';

/** Statements that may take long, each on a connection of its own: the pool stays free for collecting. */

/** Limits of statements. */
export interface StatementLimits {
  /** That run at the same time. */
  readonly atOnce: number;
  /** That wait for their turn; more are refused. */
  readonly waiting: number;
  readonly timeoutMs: number;
  /** Most bytes of one answer, as the server sends it. */
  readonly bytes: number;
}

const CONNECT_TIMEOUT_MS = 5_000;
/** How soon the server ends a statement whose asker has gone. */
const CHECK_INTERVAL = `SET client_connection_check_interval = '500ms'`;

/** Opens a connection for each statement, in a transaction that only reads. */
export class OwnStatements {
  readonly #databaseUrl: string;
  readonly #clock: Clock;
  readonly #limits: StatementLimits;
  readonly #slots: Slots;

  constructor(databaseUrl: string, clock: Clock, limits: StatementLimits) {
    this.#databaseUrl = databaseUrl;
    this.#clock = clock;
    this.#limits = limits;
    const { atOnce } = limits;
    const text = `${atOnce} statements run at the same time, and others wait: ask again later`;
    this.#slots = new Slots(atOnce, limits.waiting, () => {
      return new TapekeepError('query_resources', text, { action: 'retry' });
    });
  }

  /**
   * Runs work between BEGIN READ ONLY and ROLLBACK.
   *
   * @param signal ends the connection, and with it the statement at the server
   * @param prepare statements before BEGIN
   * @throws {@link StoreError}; TapekeepError `query_resources` for too many statements or bytes; the signal's reason
   */
  async run<T>(
    signal: AbortSignal,
    work: (connection: Connection) => Promise<T>,
    prepare: (connection: Connection) => Promise<void> = async () => undefined,
  ): Promise<T> {
    return await this.#slots.run(signal, async () => {
      const excess = new AbortController();
      let left = this.#limits.bytes;
      const onReceived = (bytes: number) => {
        left -= bytes;
        if (left < 0) excess.abort(tooLarge(this.#limits.bytes));
      };
      const ending = AbortSignal.any([signal, excess.signal]);
      const connection = await Connection.open(
        {
          ...{ databaseUrl: this.#databaseUrl, clock: this.#clock },
          ...{ connectTimeoutMs: CONNECT_TIMEOUT_MS, statementTimeoutMs: this.#limits.timeoutMs },
        },
        { signal: ending, onReceived },
      );
      try {
        // Not every system can look: there the time limit alone ends it.
        await connection.rows(CHECK_INTERVAL).catch(() => undefined);
        await prepare(connection);
        await connection.rows('BEGIN READ ONLY');
        return await work(connection);
      } finally {
        if (ending.aborted) connection.destroy();
        await connection.close();
      }
    });
  }

  /** Rows of a statement of this program. @throws as {@link OwnStatements.run} */
  async rows<Row extends object>(
    sql: string,
    values: readonly unknown[],
    signal: AbortSignal,
  ): Promise<Row[]> {
    return await this.run(signal, async (connection) => {
      try {
        return await connection.rows<Row>(sql, values);
      } catch (error) {
        throw timedOut(error, this.#limits.timeoutMs) ?? inStoreWords(error);
      }
    });
  }
}

function tooLarge(bytes: number): TapekeepError {
  const text = `the answer is larger than ${Math.floor(bytes / 1_048_576)} MB: ask for fewer rows or columns, or use "tapekeep export"`;
  return new TapekeepError('query_resources', text, { action: 'skip' });
}

function timedOut(error: unknown, limitMs: number): TapekeepError | undefined {
  if (!isState(error, 'out of time')) return undefined;
  const text = `the statement took longer than ${limitMs / 1000} s: ask for less time, or use "tapekeep query"`;
  return new TapekeepError('query_timeout', text, { cause: error });
}

/** Rows of a statement of a person. */
export interface StatementRows {
  readonly columns: readonly { readonly name: string; readonly type: string }[];
  /** Numbers of up to 32 bits and floats as numbers, truth as booleans, all else as Postgres writes it. */
  readonly rows: readonly (readonly unknown[])[];
  /** There are more rows than were asked for. */
  readonly isCut: boolean;
}

const READER = 'tapekeep_reader';
/** Nothing that a reader of rows needs: they end or block the work of others, or run a text under other rights. */
const REFUSED =
  /\b(set_config|(?:query|cursor)_to_xml\w*|ts_stat|ts_rewrite|dblink\w*|crosstab\w*|connectby|pg_(?:cancel|terminate)_backend|pg_(?:try_)?advisory_\w+)\b|\bu&"/i;
const FIRST_WORD = /^(?:\s|--[^\n]*(?:\n|$)|\/\*(?:[^*]|\*(?!\/))*\*\/)*(\(|\w+)?/;
const ROWS_WORDS: ReadonlySet<string> = new Set(['(', 'select', 'with', 'values', 'table']);
const SHOW = /^show\s+[\w.]+(?:\s+\w+)*\s*;?\s*$/i;
const EXPLAIN =
  /^explain\b(?:\s*\(\s*(?!select|with|values|table)\w[^()]*\)|(?:\s+(?:analyze|verbose)\b)*)/i;
const DECLARE = 'DECLARE answer NO SCROLL CURSOR FOR ';

/** Types whose text is a number that a float holds, or a truth. */
const VALUE_READERS = new Map<number, (text: string) => unknown>([
  [16, (text) => text === 't'],
  ...[21, 23, 26].map((oid) => [oid, Number] as const),
  ...[700, 701].map((oid) => [oid, finiteOf] as const),
]);
/** JSON has no infinity and no NaN: those stay texts. */
function finiteOf(text: string): unknown {
  const value = Number(text);
  return Number.isFinite(value) ? value : text;
}
const VALUE_TYPES = {
  getTypeParser: (oid: number) => VALUE_READERS.get(oid) ?? ((text: string) => text),
} as pg.CustomTypesConfig;

const TYPE_NAMES = `
  SELECT oid::int, format_type(oid, NULL) AS name FROM pg_catalog.pg_type WHERE oid = ANY ($1::oid[])`;

/** Addresses and limits of statements of people. */
export interface ReaderOptions {
  readonly databaseUrl: string;
  /** Address of a login that only reads; the same as `databaseUrl` where none is known. */
  readonly readerUrl: string;
  readonly clock: Clock;
  readonly limits: StatementLimits;
}

/**
 * Answers statements of people with the rights of a reader: by a login that only reads, or else by a login that takes
 * the role `tapekeep_reader` for a connection.
 */
export class ReaderStatements {
  readonly #own: OwnStatements;
  readonly #options: ReaderOptions;

  constructor(options: ReaderOptions) {
    this.#options = options;
    this.#own = new OwnStatements(options.readerUrl, options.clock, options.limits);
  }

  /**
   * Runs one statement that reads.
   *
   * @param limit most rows
   * @throws TapekeepError `usage` for a statement that is wrong or not allowed, with its place; `query_timeout`,
   *   `query_resources`; {@link StoreError} where the database cannot be reached; the signal's reason
   */
  async query(sql: string, limit: number, signal: AbortSignal): Promise<StatementRows> {
    const [begin = '', first = ''] = FIRST_WORD.exec(sql) ?? [];
    const word = first.toLowerCase();
    const rest = sql.slice(begin.length - first.length);
    const isShown = word === 'show' || word === 'explain';
    refuseWords(sql, word, rest);
    const answer = await this.#own.run(
      signal,
      async (connection) => {
        const run = async (text: string, lead: number) => {
          try {
            return await connection.table(text, VALUE_TYPES);
          } catch (error) {
            throw timedOut(error, this.#options.limits.timeoutMs) ?? inWords(error, sql, lead);
          }
        };
        const before = word === 'explain' ? (EXPLAIN.exec(rest)?.[0].length ?? 0) : 0;
        const lead = isShown ? sql.length - rest.length + before : 0;
        // Also of what is explained: only a statement that reads has a cursor.
        if (word !== 'show') await run(`${DECLARE}${sql.slice(lead)}`, DECLARE.length - lead);
        const { fields, rows } = isShown
          ? await run(rest, rest.length - sql.length)
          : await run(`FETCH ${limit + 1} FROM answer`, 0);
        const oids = [...new Set(fields.map(({ dataTypeID }) => dataTypeID))];
        const types = await connection.rows<{ oid: number; name: string }>(TYPE_NAMES, [oids]);
        return { fields, rows, types: new Map(types.map(({ oid, name }) => [oid, name])) };
      },
      async (connection) => await this.#asReader(connection),
    );
    const { fields, rows, types } = answer;
    return {
      columns: fields.map(({ name, dataTypeID }) => ({
        ...{ name, type: types.get(dataTypeID) ?? String(dataTypeID) },
      })),
      rows: rows.slice(0, limit),
      isCut: rows.length > limit,
    };
  }

  async #asReader(connection: Connection): Promise<void> {
    const { databaseUrl, readerUrl } = this.#options;
    if (readerUrl !== databaseUrl) return;
    try {
      await connection.rows(`SET ROLE ${READER}; SET search_path = analytics, public`);
    } catch (error) {
      const text = `SQL runs with the rights of ${READER}, which the login of ${describeAddress(databaseUrl)} cannot take: run "GRANT ${READER} TO" that login there (${messageOf(error)})`;
      throw new StoreError('database_login_refused', text, {
        ...{ cause: error, sqlstate: sqlstateOf(error) },
      });
    }
  }
}

/** @throws TapekeepError `usage` */
function refuseWords(sql: string, word: string, rest: string): void {
  const refuse = (text: string) => {
    throw new TapekeepError('usage', text);
  };
  if (sql.includes('\0')) refuse('sql: a statement has no character of code 0');
  const isShow = word === 'show' && SHOW.test(rest);
  if (!ROWS_WORDS.has(word) && word !== 'explain' && !isShow) {
    const named = word === '' ? 'there is no statement' : `${word.toUpperCase()} is not allowed`;
    refuse(`sql: ${named}; write one SELECT, WITH, VALUES, TABLE, EXPLAIN or SHOW`);
  }
  const refused = REFUSED.exec(sql)?.[0];
  if (refused !== undefined) refuse(`sql: ${refused} is not allowed here; use "tapekeep psql"`);
}

/** A failure of a statement in words for its author. @param lead characters that were sent before the statement */
function inWords(error: unknown, sql: string, lead: number): Error {
  const sqlstate = sqlstateOf(error);
  // The connection failed, and not the statement.
  if (sqlstate === undefined || /^(?:08|53|57|58|XX)/.test(sqlstate)) return inStoreWords(error);
  const { position } = error as { readonly position?: string };
  const place = position === undefined ? '' : placeOf(sql, Number(position) - 1 - lead);
  const advice = isState(error, 'not allowed') ? ': readers have no right to it' : '';
  const text =
    sqlstate === '42601' && /multiple commands/.test(messageOf(error))
      ? 'write one statement'
      : `${messageOf(error)}${advice}${addedByServer(error)}`;
  return new TapekeepError('usage', `sql${place}: ${text}`, { cause: error });
}

/** `, line 2, column 5`; nothing for a place outside of the statement. */
function placeOf(sql: string, at: number): string {
  if (at < 0 || at > sql.length) return '';
  const before = [...sql].slice(0, at).join('').split('\n');
  return `, line ${before.length}, column ${[...(before.at(-1) ?? '')].length + 1}`;
}
