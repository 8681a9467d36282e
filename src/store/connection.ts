import { Socket } from 'node:net';
import { finished } from 'node:stream/promises';
import pg from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { type Clock, startDeadline } from '../kernel/clock.js';
import { messageOf } from '../kernel/errors.js';
import { tlsRefusal } from '../kernel/tls-refusal.js';
import { StoreError } from './errors.js';
import { sqlstateOf } from './sqlstate.js';

/** The oldest server whose SQL we speak (multiranges, NULLS NOT DISTINCT, MERGE). */
const OLDEST_SERVER = 15;
/** The client gives up a little after the server should have, so that the server's word is heard. */
const CLIENT_GRACE_MS = 5_000;
/** TCP keepalive finds a server that vanished without a word. */
const KEEPALIVE_AFTER_MS = 10_000;
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
      'fatal',
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
function tlsTrouble(error: unknown): string | undefined {
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
  const refused = tlsTrouble(error);
  if (refused !== undefined) {
    return new StoreError(
      'database_tls_refused',
      // A certificate is renewed while rows wait; a start does not wait for it.
      'retry',
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
    return new StoreError('database_login_refused', 'retry', `${text}: ${advice}`, context);
  }
  return sqlstate?.startsWith('42') === true
    ? new StoreError('database_failed', 'fatal', text, context)
    : new StoreError('database_unreachable', 'retry', text, context);
}

/** @throws {@link StoreError} `database_too_old` */
export async function checkServerVersion(
  run: (sql: string) => Promise<{ rows: { server_version_num: string }[] }>,
  databaseUrl: string,
): Promise<void> {
  const { rows } = await run('SHOW server_version_num');
  const major = Math.floor(Number(rows[0]?.server_version_num ?? 0) / 10_000);
  if (major >= OLDEST_SERVER) return;
  throw new StoreError(
    'database_too_old',
    'fatal',
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
export async function refuseReadOnly(
  run: (sql: string) => Promise<{ rows: SessionKind[] }>,
  databaseUrl: string,
): Promise<void> {
  const { rows } = await run(
    `SELECT pg_is_in_recovery() AS "isStandby",
       current_setting('transaction_read_only') = 'on' AS "isReadOnly"`,
  );
  if (rows[0]?.isReadOnly !== true) return;
  const why = rows[0].isStandby
    ? 'is a standby, which takes no rows: promote it, or set database.url to the primary'
    : 'makes this login read-only (default_transaction_read_only is on for the server, the database or the role): set it to off';
  throw new StoreError(
    'database_read_only',
    'retry',
    `Postgres at ${describeAddress(databaseUrl)} ${why}`,
    { sqlstate: '25006' },
  );
}

/**
 * One connection with a deadline on everything: a server that stops answering (half-open
 * connection, paused machine) costs a statement's time, not for ever.
 *
 * States: *open* → *lost*. Any failure of the wire or a missed deadline ends it; it is never
 * used again after that.
 */
export class Connection {
  readonly #client: pg.Client;
  readonly #socket: Socket;
  readonly #options: ConnectionOptions;
  /** Names of statements by their text; texts are constants of this program. */
  readonly #prepared = new Map<string, string>();
  #isLost = false;

  private constructor(client: pg.Client, socket: Socket, options: ConnectionOptions) {
    this.#client = client;
    this.#socket = socket;
    this.#options = options;
    client.on('error', () => {
      this.#isLost = true;
    });
    client.on('end', () => {
      this.#isLost = true;
    });
  }

  /** @throws {@link StoreError} naming host, port and database. */
  static async open(options: ConnectionOptions): Promise<Connection> {
    const socket = new Socket();
    try {
      const client = new pg.Client({ ...clientConfig(options), stream: () => socket });
      const connection = new Connection(client, socket, options);
      await client.connect();
      await connection.query(sessionSettings(options.statementTimeoutMs));
      return connection;
    } catch (error) {
      socket.destroy();
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

  query<Row extends object>(sql: string, values: readonly unknown[] = []): Promise<Row[]> {
    return this.#guard(async () => {
      const { rows } =
        values.length === 0
          ? await this.#client.query<Row>(sql)
          : await this.#client.query<Row>(sql, [...values]);
      return rows;
    });
  }

  /** Several statements in one message, without values; answers with the rows of each. */
  queryScript(statements: readonly string[]): Promise<object[][]> {
    return this.#guard(async () => {
      // With more than one statement the driver answers with a list, which its types do not tell.
      const answer = (await this.#client.query<object>(statements.join(';\n'))) as
        | pg.QueryResult<object>
        | pg.QueryResult<object>[];
      return [answer].flat().map(({ rows }) => rows);
    });
  }

  /** A statement that comes again and again: the server reads its text but once. */
  queryAgain<Row extends object>(sql: string, values: readonly unknown[]): Promise<Row[]> {
    return this.#guard(async () => {
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
    return this.#guard(async () => {
      const copy = this.#client.query(copyFrom(sql));
      copy.write(data, (error) => {
        if (error == null) whenSent?.();
      });
      copy.end();
      await finished(copy);
    });
  }

  /** Says goodbye within a moment, or cuts the wire. Safe to call twice. */
  async close(): Promise<void> {
    if (!this.#isLost) await this.#guard(() => this.#client.end()).catch(() => undefined);
    this.destroy();
  }

  destroy(): void {
    this.#isLost = true;
    this.#socket.destroy();
  }

  async #guard<T>(work: () => Promise<T>): Promise<T> {
    if (this.#isLost) throw lost();
    const ms = this.#options.statementTimeoutMs + CLIENT_GRACE_MS;
    using deadline = startDeadline(this.#options.clock, ms, () => lost(ms));
    const missed = new Promise<never>((_, reject) => {
      deadline.signal.addEventListener('abort', () => {
        this.destroy();
        reject(deadline.signal.reason as Error);
      });
    });
    return await Promise.race([work(), missed]);
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

function lost(afterMs?: number): StoreError {
  const why = afterMs === undefined ? 'was lost' : `did not answer within ${afterMs} ms`;
  return new StoreError('database_unreachable', 'retry', `the connection to Postgres ${why}`);
}
