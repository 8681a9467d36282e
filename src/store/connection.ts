import { Socket } from 'node:net';
import { finished } from 'node:stream/promises';
import pg from 'pg';
import { from as copyFrom, to as copyTo } from 'pg-copy-streams';
import { type Clock, startDeadline } from '../kernel/clock.js';
import { AbortedError, messageOf } from '../kernel/errors.js';
import { tlsRefusal } from '../kernel/tls-refusal.js';
import { actionOf, StoreError, sqlstateOf, toStoreError } from './errors.js';

/** The oldest server whose SQL we speak (multiranges, NULLS NOT DISTINCT, MERGE). */
const OLDEST_SERVER = 15;
/** The client gives up a little after the server should have, so that the server's word is heard. */
const CLIENT_GRACE_MS = 5_000;
/** TCP keepalive finds a server that vanished without a word. */
const KEEPALIVE_AFTER_MS = 10_000;
/** Read ahead of a slow reader, bytes. */
const READ_AHEAD = 256 * 1024;
/** Wrong password, no right to log in or to connect, no such database. */
const LOGIN_REFUSED = /^(28...|3D...|42501)$/;

export interface ConnectionOptions {
  readonly databaseUrl: string;
  readonly clock: Clock;
  readonly connectTimeoutMs: number;
  readonly statementTimeoutMs: number;
}

/** Where a connection string leads, for messages: never with the password. */
export function describeAddress(databaseUrl: string): string {
  try {
    const { host, port, database } = new pg.Client({ connectionString: databaseUrl });
    return `${host}:${port}, database ${database ?? '(none)'}`;
  } catch {
    return 'the address given';
  }
}

/**
 * Runs on every new connection. The server's own defaults may be anything. Compiling a plan takes
 * longer than any question of the ledger. What waits for a lock must see what its last holder wrote,
 * which stricter isolation would hide.
 */
export function sessionSettings(statementTimeoutMs: number): string {
  return `SET statement_timeout = ${Math.trunc(statementTimeoutMs)};
    SET idle_in_transaction_session_timeout = ${Math.trunc(statementTimeoutMs * 2)};
    SET synchronous_commit = on;
    SET default_transaction_isolation = 'read committed';
    SET jit = off;
    SET timezone = 'UTC';
    SET datestyle = 'ISO, YMD';
    SET client_min_messages = warning`;
}

/** @throws {@link StoreError} `bad_database_url` */
export function clientConfig(
  options: Pick<ConnectionOptions, 'databaseUrl' | 'connectTimeoutMs'>,
): pg.ClientConfig {
  const { databaseUrl } = options;
  if (!/^postgres(ql)?:\/\//.test(databaseUrl) || !URL.canParse(databaseUrl)) {
    throw new StoreError(
      'bad_database_url',
      'the database URL is not of the form postgres://user:password@host:port/database',
    );
  }
  try {
    // It reads the files that the address names.
    new pg.Client({ connectionString: databaseUrl });
  } catch (error) {
    throw connectFailure(error, databaseUrl);
  }
  return {
    connectionString: databaseUrl,
    application_name: 'tapekeep',
    connectionTimeoutMillis: options.connectTimeoutMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEPALIVE_AFTER_MS,
  };
}

/** What keeps a connection from being encrypted as database.url asks, and what to do. */
function tlsFailure(error: unknown): string | undefined {
  const { syscall, path } = error as NodeJS.ErrnoException;
  if (syscall === 'open' && path !== undefined) {
    return `the file ${path}, which database.url names, cannot be read (${messageOf(error)})`;
  }
  if (/does not support SSL/.test(messageOf(error))) {
    return 'it is not set up for TLS: set ssl = on there, or sslmode=disable in database.url';
  }
  const refusal = tlsRefusal(error);
  if (refusal === undefined) return undefined;
  return `${refusal}; for Postgres sslrootcert=FILE in database.url names an authority as well`;
}

/** A failed connect in words that name where it went. Refusals by the server keep their action. */
export function connectFailure(error: unknown, databaseUrl: string): Error {
  if (error instanceof StoreError) return error;
  const where = describeAddress(databaseUrl);
  const refused = tlsFailure(error);
  if (refused !== undefined) {
    return new StoreError(
      'database_tls_refused',
      `no TLS connection to Postgres at ${where}: ${refused}`,
      { cause: error },
    );
  }
  const sqlstate = sqlstateOf(error);
  const inner = error instanceof AggregateError ? error.errors.map(messageOf).join('; ') : '';
  const detail = messageOf(error) || inner || 'no reason given';
  const text = `cannot connect to Postgres at ${where} (${detail})`;
  const context = { cause: error, sqlstate };
  if (sqlstate !== undefined && LOGIN_REFUSED.test(sqlstate)) {
    const advice = 'check the user, the password and the database name';
    // As with a certificate: a password is changed back while rows wait; a start does not wait for it.
    return new StoreError('database_login_refused', `${text}: ${advice}`, context);
  }
  return sqlstate?.startsWith('42') === true
    ? new StoreError('database_failed', text, { ...context, action: 'fatal' })
    : new StoreError('database_unreachable', text, context);
}

/** @throws {@link StoreError} `database_too_old` */
export async function checkServerVersion(runner: Runner, databaseUrl: string): Promise<void> {
  const [row] = await runner.rows<{ server_version_num: string }>('SHOW server_version_num');
  const major = Math.floor(Number(row?.server_version_num ?? 0) / 10_000);
  if (major >= OLDEST_SERVER) return;
  throw new StoreError(
    'database_too_old',
    `Postgres at ${describeAddress(databaseUrl)} is version ${major}; tapekeep needs ${OLDEST_SERVER} or newer`,
  );
}

interface SessionKind {
  readonly isStandby: boolean;
  readonly isReadOnly: boolean;
}

/**
 * Refuses a session that cannot write: of a standby, as the old address after a failover may lead to,
 * or one that a setting makes read-only.
 *
 * @throws {@link StoreError} `database_read_only`
 */
export async function refuseReadOnly(runner: Runner, databaseUrl: string): Promise<void> {
  const [row] = await runner.rows<SessionKind>(
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

/** Runs statements: a connection, a transaction on one, and the pool. */
export interface Runner {
  /** @throws {@link StoreError} */
  rows<Row extends object>(sql: string, values?: readonly unknown[]): Promise<Row[]>;
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
  readonly #client: pg.Client;
  readonly #socket: Socket;
  readonly #clock: Clock;
  readonly #use: ConnectionUse;
  readonly #silenceMs: number | null;
  readonly #onAbort = () => this.destroy();
  /** Names of statements by their text; texts are constants of this program. */
  readonly #prepared = new Map<string, string>();
  #isLost = false;
  /** What ended it, where that was not its owner. */
  #lostBy: unknown;

  private constructor(
    client: pg.Client,
    socket: Socket,
    { clock, statementTimeoutMs }: ConnectionOptions,
    use: ConnectionUse,
  ) {
    this.#client = client;
    this.#socket = socket;
    this.#clock = clock;
    this.#use = use;
    this.#silenceMs =
      use.silenceMs === undefined ? statementTimeoutMs + CLIENT_GRACE_MS : use.silenceMs;
    client.on('error', (error) => this.#lose(error));
    client.on('end', () => this.#lose(new Error('the server closed it')));
    use.signal?.addEventListener('abort', this.#onAbort, { once: true });
  }

  /** @throws {@link StoreError} naming host, port and database; the signal's reason */
  static async open(options: ConnectionOptions, use: ConnectionUse = {}): Promise<Connection> {
    use.signal?.throwIfAborted();
    const socket = new Socket();
    try {
      const client = new pg.Client({ ...clientConfig(options), stream: () => socket });
      const connection = new Connection(client, socket, options, use);
      await client.connect();
      await client.query(sessionSettings(options.statementTimeoutMs));
      return connection;
    } catch (error) {
      socket.destroy();
      use.signal?.throwIfAborted();
      throw connectFailure(error, options.databaseUrl);
    }
  }

  get isLost(): boolean {
    return this.#isLost;
  }

  /** Of the server's process behind it. */
  get pid(): number {
    // The driver has it; its types do not.
    return (this.#client as pg.Client & { readonly processID: number }).processID;
  }

  rows<Row extends object>(sql: string, values: readonly unknown[] = []): Promise<Row[]> {
    return this.#run(async () => {
      const { rows } =
        values.length === 0
          ? await this.#client.query<Row>(sql)
          : await this.#client.query<Row>(sql, [...values]);
      return rows;
    });
  }

  /** Several statements in one message, without values; answers with the rows of each. */
  script(statements: readonly string[]): Promise<object[][]> {
    return this.#run(async () => {
      // With more than one statement the driver answers with a list, which its types do not show.
      const answer = (await this.#client.query<object>(statements.join(';\n'))) as
        | pg.QueryResult<object>
        | pg.QueryResult<object>[];
      return [answer].flat().map(({ rows }) => rows);
    });
  }

  /** A statement that comes again and again: the server reads its text but once. */
  rowsAgain<Row extends object>(sql: string, values: readonly unknown[]): Promise<Row[]> {
    return this.#run(async () => {
      const name = this.#prepared.get(sql) ?? `tapekeep_${this.#prepared.size + 1}`;
      this.#prepared.set(sql, name);
      const { rows } = await this.#client.query<Row>({ name, text: sql, values: [...values] });
      return rows;
    });
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
    if (isOpen) await this.#inTime(this.#client.end(), this.#silenceMs).catch(() => undefined);
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

/**
 * Several statements in one message, because each message costs the way to the server and back, and
 * the server waits meanwhile.
 */

/** A statement that a connection of the writer knows by name, so that it can stand in a script. */
export interface NamedStatement {
  readonly name: string;
  /** Of its parameters, in order. */
  readonly types: readonly string[];
  readonly sql: string;
}

type Scalar = string | number | null;

/** SQL that makes a connection know the statement. */
export function prepareSql({ name, types, sql }: NamedStatement): string {
  return `PREPARE ${name} (${types.join(', ')}) AS ${sql}`;
}

/** SQL that runs it. Values are written as hexadecimal digits: whatever is in them, it stays a value. */
export function executeSql(
  { name, types }: NamedStatement,
  values: readonly (string | readonly Scalar[])[],
): string {
  const given = values.map((value, index) => {
    const text = typeof value === 'string' ? value : arrayText(value);
    const digits = Buffer.from(text, 'utf8').toString('hex');
    return `convert_from(decode('${digits}', 'hex'), 'UTF8')::${types[index] ?? 'text'}`;
  });
  return `EXECUTE ${name}(${given.join(', ')})`;
}

/** The text form of an array (Postgres manual, Arrays). */
function arrayText(values: readonly Scalar[]): string {
  const elements = values.map((value) => {
    if (typeof value === 'string') return `"${value.replace(/[\\"]/g, '\\$&')}"`;
    return value === null ? 'NULL' : `${value}`;
  });
  return `{${elements.join(',')}}`;
}
