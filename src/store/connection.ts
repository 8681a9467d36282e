import type { Socket } from 'node:net';
import { finished } from 'node:stream/promises';
import type pg from 'pg';
import { from as copyFrom, to as copyTo } from 'pg-copy-streams';
import { type Clock, startDeadline } from '../kernel/clock.js';
import { AbortedError, messageOf } from '../kernel/errors.js';
import {
  Client,
  type ConnectionOptions,
  clientConfig,
  connectFailure,
  describeAddress,
} from './address.js';
import { actionOf, StoreError, sqlstateOf, toStoreError } from './errors.js';
import { sessionSettings } from './session-settings.js';
import { namedRows, ROW_TYPES } from './sql.js';

/** The oldest server whose SQL we speak (multiranges, NULLS NOT DISTINCT, MERGE). */
const OLDEST_SERVER = 15;
/** The client gives up a little after the server should have, so that the server's answer comes first. */
const CLIENT_GRACE_MS = 5_000;
/** Read ahead of a slow reader, bytes. */
const READ_AHEAD = 256 * 1024;
/**
 * Refuses a server that is too old, and a database whose texts are not Unicode: it could not hold the name of every
 * market.
 *
 * @throws {@link StoreError} `database_too_old`, `database_encoding`
 */
export async function checkDatabase(runner: Runner, databaseUrl: string): Promise<void> {
  const [row] = await runner.rows<{ version: string; encoding: string }>(
    `SELECT current_setting('server_version_num') AS version,
       current_setting('server_encoding') AS encoding`,
  );
  const major = Math.floor(Number(row?.version ?? 0) / 10_000);
  if (major < OLDEST_SERVER) {
    throw new StoreError(
      'database_too_old',
      `Postgres at ${describeAddress(databaseUrl)} is version ${major}; tapekeep needs ${OLDEST_SERVER} or newer`,
    );
  }
  if (row?.encoding === 'UTF8') return;
  throw new StoreError(
    'database_encoding',
    `the database at ${describeAddress(databaseUrl)} has the encoding ${row?.encoding}, and tapekeep needs UTF8: make another one by "CREATE DATABASE name ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0" and name it in database.url (TAPEKEEP_DATABASE_URL)`,
  );
}

/**
 * Refuses a session that cannot write: of a standby, as the old address after a failover may lead to,
 * or one that a setting makes read-only.
 *
 * @throws {@link StoreError} `database_read_only`
 */
export async function refuseReadOnly(runner: Runner, databaseUrl: string): Promise<void> {
  const [row] = await runner.rows<Record<'isStandby' | 'isReadOnly', boolean>>(
    `SELECT pg_is_in_recovery() AS "isStandby",
       current_setting('transaction_read_only') = 'on' AS "isReadOnly"`,
  );
  if (row?.isReadOnly !== true) return;
  const why = row.isStandby
    ? 'is a standby, which takes no rows: promote it, or set database.url to the primary'
    : 'makes this login read-only (default_transaction_read_only is on for the server, the database or the role): set it to off';
  throw new StoreError('database_read_only', `Postgres at ${describeAddress(databaseUrl)} ${why}`, {
    sqlstate: '25006',
  });
}

/** Runs statements: a connection, and the pool. */
export interface Runner {
  /** @throws {@link StoreError} */
  rows<Row extends object>(sql: string, values?: readonly unknown[]): Promise<Row[]>;
}

/** Asks a question of yes or no; an answer without a row, or with null, is no. */
export async function isTrue(
  runner: Runner,
  sql: string,
  values: readonly unknown[] = [],
): Promise<boolean> {
  const [row] = await runner.rows<Record<string, boolean | null>>(sql, values);
  return Object.values(row ?? {})[0] === true;
}

/** How a connection is used, where that is not for short statements. */
export interface ConnectionUse {
  /**
   * How long the server may be silent while it owes an answer; null: as long as it takes. Default: a
   * little longer than a statement may take there.
   */
  readonly silenceMs?: number | null;
  /** Ends the connection: what runs on it fails with its reason. */
  readonly signal?: AbortSignal;
  /** What a failure is thrown as. Default: what the driver throws. */
  readonly explain?: (error: unknown) => Error;
  /** Error text when it is used after it was lost; the reason is added. */
  readonly lostText?: string;
  /** Called with the bytes of each piece that comes in after the login. */
  readonly onReceived?: (bytes: number) => void;
}

/** A failure in the store's words, for {@link ConnectionUse.explain}. */
export function inStoreWords(error: unknown): Error {
  return toStoreError(
    error,
    actionOf(error) === 'retry' ? 'the database is in trouble' : 'refused',
  );
}

/**
 * One connection. A server that stops answering (half-open connection, paused machine) costs its time,
 * not for ever.
 *
 * States: *open* → *lost*. Any failure of the wire, a missed deadline or the signal ends it; it is never
 * used again after that.
 */
export class Connection implements Runner {
  readonly #client: pg.ClientBase;
  readonly #clock: Clock;
  readonly #use: ConnectionUse;
  readonly #silenceMs: number | null;
  readonly #onAbort = () => this.destroy();
  #isLost = false;
  /** What ended it, where that was not its owner. */
  #lostBy: unknown;
  /** Resolves at its end, for any reason. */
  readonly ended: Promise<void>;

  /** @param client on its way to the server, or connected */
  constructor(
    client: pg.ClientBase,
    { clock, statementTimeoutMs }: ConnectionOptions,
    use: ConnectionUse = {},
  ) {
    this.#client = client;
    this.#clock = clock;
    this.#use = use;
    this.#silenceMs =
      use.silenceMs === undefined ? statementTimeoutMs + CLIENT_GRACE_MS : use.silenceMs;
    this.ended = new Promise((resolve) => this.#socket.once('close', () => resolve()));
    client.on('error', (error) => this.#lose(error));
    client.on('end', () => this.#lose(new Error('the server closed it')));
    use.signal?.addEventListener('abort', this.#onAbort, { once: true });
  }

  /** @throws {@link StoreError} naming host, port and database; the signal's reason */
  static async open(options: ConnectionOptions, use: ConnectionUse = {}): Promise<Connection> {
    use.signal?.throwIfAborted();
    const client = new Client(clientConfig(options));
    const connection = new Connection(client, options, use);
    try {
      await client.connect();
      await client.query(sessionSettings(options.statementTimeoutMs));
      connection.#watch();
      return connection;
    } catch (error) {
      connection.destroy();
      use.signal?.throwIfAborted();
      throw connectFailure(error, options.databaseUrl);
    }
  }

  /** The driver has it; its types do not. */
  get #socket(): Socket {
    return (this.#client as unknown as { connection: { stream: Socket } }).connection.stream;
  }

  #watch(): void {
    const { onReceived } = this.#use;
    if (onReceived !== undefined) {
      this.#socket.on('data', (piece: Buffer) => onReceived(piece.length));
    }
  }

  get isLost(): boolean {
    return this.#isLost;
  }

  /** Of the server's process behind it. */
  get pid(): number {
    // The driver has it; its types do not.
    return (this.#client as pg.ClientBase & { readonly processID: number }).processID;
  }

  /** For a library that takes no other; statements run through it have no deadline. */
  get driver(): pg.ClientBase {
    return this.#client;
  }

  /** Whether an open connection keeps this process alive, as it does at first. */
  keepAlive(isKept: boolean): void {
    if (isKept) this.#socket.ref();
    else this.#socket.unref();
  }

  /** @param values none: there may be several statements in the text */
  async rows<Row extends object>(sql: string, values: readonly unknown[] = []): Promise<Row[]> {
    const [rows] = await this.#results({ text: sql, values: [...values] });
    return (rows ?? []) as Row[];
  }

  /**
   * Runs one statement that comes from outside. Several in one text are refused by the protocol
   * itself, so that none can end the transaction it runs in.
   */
  single<Row extends object>(sql: string, values: readonly unknown[]): Promise<Row[]> {
    return this.#query<Row>({ text: sql, values: [...values], queryMode: 'extended' });
  }

  /** Rows of one statement that comes from outside, as lists, each value as `types` reads it. */
  table(sql: string, types: pg.CustomTypesConfig): Promise<pg.QueryArrayResult> {
    const query = { text: sql, types, rowMode: 'array' as const, queryMode: 'extended' };
    return this.#run(() => this.#client.query(query));
  }

  /** Several statements in one message, without values; answers with the rows of each. */
  script(statements: readonly string[]): Promise<object[][]> {
    return this.#results({ text: statements.join(';\n') });
  }

  /**
   * Feeds one buffer to `COPY … FROM STDIN`.
   *
   * @param sql after the COPY there may be more statements, which answer with no rows
   * @param whenSent called when the data have left: for a while now the server has work to do
   */
  copyIn(sql: string, data: Buffer, whenSent?: () => void): Promise<void> {
    return this.#run(async () => {
      const copy = this.#client.query(copyFrom(sql));
      copy.write(data, (error) => {
        if (error == null) whenSent?.();
      });
      copy.end();
      await finished(copy);
    });
  }

  /**
   * What `COPY … TO STDOUT` writes, at the reader's pace. A reader that leaves before the end ends the
   * connection, and so does the signal.
   *
   * @param how.silenceMs in place of that of the connection
   */
  async *copyOut(
    sql: string,
    how: { readonly signal?: AbortSignal | undefined; readonly silenceMs?: number } = {},
  ): AsyncGenerator<Buffer> {
    const { signal, silenceMs = this.#silenceMs } = how;
    signal?.throwIfAborted();
    this.#check();
    signal?.addEventListener('abort', this.#onAbort, { once: true });
    let isWhole = false;
    try {
      const copied = this.#client.query(copyTo(sql, { highWaterMark: READ_AHEAD }));
      const pieces = copied[Symbol.asyncIterator]() as AsyncIterator<Buffer, undefined>;
      for (;;) {
        const piece = await this.#inTime(pieces.next(), silenceMs);
        if (piece.done === true) break;
        yield piece.value;
      }
      isWhole = true;
    } catch (error) {
      signal?.throwIfAborted();
      this.#use.signal?.throwIfAborted();
      this.#lose(error);
      throw this.#explain(error);
    } finally {
      signal?.removeEventListener('abort', this.#onAbort);
      if (!isWhole) this.destroy();
    }
  }

  /** Says goodbye within a moment, or cuts the wire. Safe to call twice. */
  async close(): Promise<void> {
    const isOpen = !this.#isLost;
    this.#isLost = true;
    if (isOpen) {
      const ending = (this.#client as pg.Client).end();
      await this.#inTime(ending, this.#silenceMs).catch(() => undefined);
    }
    this.destroy();
  }

  destroy(): void {
    this.#isLost = true;
    this.#use.signal?.removeEventListener('abort', this.#onAbort);
    this.#socket.destroy();
  }

  #lose(reason: unknown): void {
    if (!this.#isLost) this.#lostBy = reason;
    this.#isLost = true;
  }

  #check(): void {
    this.#use.signal?.throwIfAborted();
    if (!this.#isLost) return;
    if (this.#lostBy === undefined) throw new AbortedError('the connection is closed');
    const cause = this.#lostBy;
    const { lostText = 'the connection to Postgres is lost' } = this.#use;
    throw new StoreError('database_unreachable', `${lostText} (${messageOf(cause)})`, {
      ...{ cause, sqlstate: sqlstateOf(cause) },
    });
  }

  #explain(error: unknown): Error {
    return this.#use.explain?.(error) ?? (error as Error);
  }

  /** @param query also with settings that the driver knows and its types do not */
  #query<Row>(query: pg.QueryConfig & { readonly queryMode?: string }): Promise<Row[]> {
    return this.#run(async () => (await this.#client.query(query)).rows as Row[]);
  }

  /** Of each statement in a text its rows, in the form of {@link namedRows}. */
  #results(query: pg.QueryConfig): Promise<object[][]> {
    return this.#run(async () => {
      // With more than one statement the driver answers with a list, which its types do not show.
      const answer = (await this.#client.query({ ...query, types: ROW_TYPES })) as
        | pg.QueryResult
        | pg.QueryResult[];
      return [answer].flat().map(namedRows);
    });
  }

  async #run<T>(work: () => Promise<T>): Promise<T> {
    this.#check();
    try {
      return await this.#inTime(work(), this.#silenceMs);
    } catch (error) {
      this.#use.signal?.throwIfAborted();
      throw this.#explain(error);
    }
  }

  /** Waits for the server, but not for ever. */
  async #inTime<T>(work: Promise<T>, silenceMs: number | null): Promise<T> {
    if (silenceMs === null) return await work;
    using deadline = startDeadline(this.#clock, silenceMs, () => silent(silenceMs));
    const missed = new Promise<never>((_, reject) => {
      deadline.signal.addEventListener('abort', () => {
        this.#lose(deadline.signal.reason);
        this.destroy();
        reject(deadline.signal.reason as Error);
      });
    });
    return await Promise.race([work, missed]);
  }
}

function silent(afterMs: number): StoreError {
  const text = `the connection to Postgres did not answer within ${afterMs} ms`;
  return new StoreError('database_unreachable', text);
}

/** Tables and views of anybody, but for those of extensions. */
const IS_EMPTY = `
  SELECT NOT EXISTS (
    SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
      AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e'))`;

/** Returns true if a database holds nothing yet. @throws {@link StoreError} when it cannot be reached */
export async function isEmptyDatabase(databaseUrl: string, clock: Clock): Promise<boolean> {
  const limits = { connectTimeoutMs: 10_000, statementTimeoutMs: 30_000 };
  const connection = await Connection.open({ databaseUrl, clock, ...limits });
  try {
    return await isTrue(connection, IS_EMPTY);
  } finally {
    await connection.close();
  }
}

/**
 * Asks the server for one answer on a connection of its own.
 *
 * @throws {@link StoreError} when it cannot be reached, refuses, or does not answer in time
 */
export async function pingPostgres(options: {
  readonly databaseUrl: string;
  readonly clock: Clock;
  readonly timeoutMs: number;
}): Promise<void> {
  const { databaseUrl, clock, timeoutMs } = options;
  const limits = { connectTimeoutMs: timeoutMs, statementTimeoutMs: timeoutMs };
  const connection = await Connection.open({ databaseUrl, clock, ...limits });
  await connection.close();
}
