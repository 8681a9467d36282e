import { Socket } from 'node:net';
import pg from 'pg';
import type { Clock } from '../kernel/clock.js';
import { messageOf, TapekeepError } from '../kernel/errors.js';
import type { Random } from '../kernel/random.js';
import { retry } from '../kernel/retry.js';
import type { StoreEvents } from '../observe/events.js';
import {
  type ConnectionOptions,
  checkServerVersion,
  clientConfig,
  connectFailure,
  sessionSettings,
} from './connection.js';
import { ANSWER_TYPES } from './reading/answer-types.js';
import { type DescribedColumn, describe } from './reading/described.js';
import { actionOf, sqlstateOf, toStoreError } from './sqlstate.js';

/** Runs statements; both a pooled connection inside a transaction and the pool itself are one. */
export interface Runner {
  /** @throws {@link StoreError} */
  rows<Row extends object>(sql: string, values?: readonly unknown[]): Promise<Row[]>;
  /**
   * Runs one statement that comes from outside. Several in one text are refused by the protocol
   * itself, so that none can end the transaction it runs in.
   *
   * @throws {@link StoreError}
   */
  single<Row extends object>(sql: string, values?: readonly unknown[]): Promise<Row[]>;
}

/** A connection within a transaction. */
export interface TransactionRunner extends Runner {
  /** As {@link Runner.single}, with the columns in their order, whatever they are called. */
  table(sql: string, values: readonly unknown[]): Promise<{ readonly rows: unknown[][] }>;
  /** The columns of what a statement from outside would answer; it is not run. */
  describe(sql: string): Promise<DescribedColumn[]>;
}

/** A little more than the server's own timeout, so that its word is heard first. */
const CLIENT_GRACE_MS = 5_000;
/** A serialization failure or a deadlock: what was undone for others succeeds when it is repeated. */
const UNDONE_FOR_OTHERS: ReadonlySet<string> = new Set(['40001', '40P01']);
const REPEATS = { maxAttempts: 6, baseMs: 20, capMs: 1_000 };
/** What is under way at the end gets this long; then its wire is cut. */
const CLOSE_GRACE_MS = 500;

export interface DatabaseOptions extends ConnectionOptions {
  readonly poolSize: number;
  readonly random: Random;
  readonly telemetry: Pick<StoreEvents, 'commitFailed'>;
}

/**
 * The pool behind everything but the writer. A client that failed is never handed out again: after
 * a timeout the answer to the old question would arrive as the answer to the next.
 */
export class Database implements Runner {
  readonly #pool: pg.Pool;
  readonly #databaseUrl: string;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #telemetry: Pick<StoreEvents, 'commitFailed'>;
  readonly #sockets = new Set<Socket>();

  constructor(options: DatabaseOptions) {
    this.#databaseUrl = options.databaseUrl;
    this.#clock = options.clock;
    this.#random = options.random;
    this.#telemetry = options.telemetry;
    this.#pool = new pg.Pool({
      ...clientConfig(options),
      max: options.poolSize,
      query_timeout: options.statementTimeoutMs + CLIENT_GRACE_MS,
      stream: () => this.#newSocket(),
      idleTimeoutMillis: 30_000,
      onConnect: (client) =>
        client.query(sessionSettings(options.statementTimeoutMs)) as unknown as undefined,
    });
    // An idle connection that breaks is removed by the pool; the next query opens another.
    this.#pool.on('error', () => undefined);
  }

  /** @throws {@link StoreError} when the server can not be reached or is too old. */
  async check(): Promise<void> {
    await checkServerVersion(
      async (sql) => ({ rows: await this.rows<{ server_version_num: string }>(sql) }),
      this.#databaseUrl,
    );
  }

  rows<Row extends object>(sql: string, values: readonly unknown[] = []): Promise<Row[]> {
    return this.#repeating((client) => runOn(client).rows<Row>(sql, values));
  }

  single<Row extends object>(sql: string, values: readonly unknown[] = []): Promise<Row[]> {
    return this.#repeating((client) => runOn(client).single<Row>(sql, values));
  }

  /**
   * Runs `work` between BEGIN and COMMIT on one connection; any failure rolls back. After a deadlock or
   * a serialization failure it runs again from its start, some times.
   */
  transaction<T>(work: (runner: TransactionRunner) => Promise<T>, mode = ''): Promise<T> {
    return this.#repeating(async (client) => {
      const runner = runOn(client);
      await runner.rows(`BEGIN ${mode}`);
      try {
        const result = await work(runner);
        await runner.rows('COMMIT');
        return result;
      } catch (error) {
        // The reason is the first error; a rollback that fails as well adds nothing to it.
        await client.query('ROLLBACK').catch(() => undefined);
        throw error;
      }
    });
  }

  /**
   * Runs `work` in a transaction that only reads and is rolled back: what a statement from outside has
   * set, such as a search path, goes with it.
   *
   * @param timeoutMs deadline of each statement at the client, a little later than at the server
   */
  reading<T>(timeoutMs: number, work: (runner: TransactionRunner) => Promise<T>): Promise<T> {
    return this.#withClient(async (client) => {
      const runner = runOn(client, timeoutMs + CLIENT_GRACE_MS);
      await runner.rows('BEGIN READ ONLY');
      try {
        return await work(runner);
      } finally {
        await client.query('ROLLBACK').catch(() => undefined);
      }
    });
  }

  /**
   * Ends the pool. The driver waits for lent connections and for the server's goodbye, which may
   * never come from a table that is locked or a server that hangs: after a moment all are cut.
   */
  close(): Promise<void> {
    const cut = () => {
      for (const socket of this.#sockets) socket.destroy();
    };
    this.#clock.after(CLOSE_GRACE_MS, cut, { background: true });
    return this.#pool.end();
  }

  #newSocket(): Socket {
    const socket = new Socket();
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    return socket;
  }

  #repeating<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    const options = {
      ...{ ...REPEATS, clock: this.#clock, random: this.#random },
      isRetryable: (error: unknown) => UNDONE_FOR_OTHERS.has(sqlstateOf(error) ?? ''),
      onRetry: (error: unknown) =>
        this.#telemetry.commitFailed({
          ...{ code: sqlstateOf(error) ?? '', message: messageOf(error), willRetry: true },
        }),
    };
    return retry(options, () => this.#withClient(work));
  }

  async #withClient<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    let client: pg.PoolClient;
    try {
      client = await this.#pool.connect();
    } catch (error) {
      throw connectFailure(error, this.#databaseUrl);
    }
    // A connection that breaks while it is lent reports to the statement, and once more here.
    client.on('error', ignore);
    let failure: Error | undefined;
    try {
      return await work(client);
    } catch (error) {
      failure = error as Error;
      throw error;
    } finally {
      client.off('error', ignore);
      const isHealthy =
        failure === undefined || (failure instanceof TapekeepError && failure.action !== 'retry');
      if (isHealthy) client.release();
      else client.release(failure);
    }
  }
}

const ignore = () => undefined;

/** The driver knows the mode and the deadline; its types do not. */
type StatementQuery = pg.QueryConfig & {
  readonly queryMode?: 'extended';
  readonly query_timeout?: number;
};

/** @param deadlineMs of each statement; default: that of the pool */
function runOn(client: pg.PoolClient, deadlineMs?: number): TransactionRunner {
  const deadline = deadlineMs === undefined ? {} : { query_timeout: deadlineMs };
  const asking = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      const doing = actionOf(error) === 'retry' ? 'the database is in trouble' : 'refused';
      throw toStoreError(error, doing);
    }
  };
  const run = async <Row extends object>(query: StatementQuery) =>
    await asking(async () => (await client.query<Row>({ ...query, ...deadline })).rows);
  return {
    rows: (sql, values = []) => run({ text: sql, values: [...values] }),
    single: (sql, values = []) => run({ text: sql, values: [...values], queryMode: 'extended' }),
    table: (text, values) =>
      asking(async () => {
        const form = { rowMode: 'array', queryMode: 'extended', types: ANSWER_TYPES };
        const query = { text, values: [...values], ...form, ...deadline };
        const { rows } = await client.query<unknown[]>(query as pg.QueryArrayConfig);
        return { rows };
      }),
    describe: (text) => asking(() => describe(client, text)),
  };
}
