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
  inStoreWords,
  type Runner,
  sessionSettings,
} from './connection.js';
import { sqlstateOf } from './errors.js';

/** A connection within a transaction. */
export interface TransactionRunner extends Runner {
  /**
   * Runs one statement that comes from outside. Several in one text are refused by the protocol
   * itself, so that none can end the transaction it runs in.
   *
   * @throws {@link StoreError}
   */
  single<Row extends object>(sql: string, values?: readonly unknown[]): Promise<Row[]>;
  /** As {@link single}, with the columns in their order, whatever they are called. */
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

interface DatabaseOptions extends ConnectionOptions {
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

  /** @throws {@link StoreError} when the server cannot be reached or is too old. */
  async check(): Promise<void> {
    await checkServerVersion(this, this.#databaseUrl);
  }

  rows<Row extends object>(sql: string, values: readonly unknown[] = []): Promise<Row[]> {
    return this.#repeating((client) => runOn(client).rows<Row>(sql, values));
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
      throw inStoreWords(error);
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

/** A column of a statement's answer, as the server describes it. */
interface DescribedColumn {
  readonly name: string;
  /** OID of its type. */
  readonly type: number;
}

/** What the driver calls while the server answers; its types know the first one only. */
interface Handlers extends pg.Submittable {
  callback: (error: Error | null) => void;
  handleRowDescription(message: { readonly fields: readonly pg.FieldDef[] }): void;
  handleReadyForQuery(): void;
  handleError(error: Error): void;
}

/** Messages of the protocol that the driver's types leave out. */
interface Wire {
  parse(message: { readonly name: string; readonly text: string }): void;
  describe(message: { readonly type: 'S'; readonly name: string }): void;
  sync(): void;
}

/**
 * Asks the server what the answer to a statement will look like, without running it. A text of several
 * statements is refused by the protocol itself.
 *
 * @throws the error of the server or the driver
 */
function describe(client: pg.PoolClient, text: string): Promise<DescribedColumn[]> {
  return new Promise((resolve, reject) => {
    let columns: DescribedColumn[] = [];
    const handlers: Handlers = {
      // The driver puts its own in front of this one, which ends its deadline.
      callback: (error) => {
        if (error === null) resolve(columns);
        else reject(error);
      },
      submit(connection) {
        const wire = connection as unknown as Wire;
        wire.parse({ name: '', text });
        wire.describe({ type: 'S', name: '' });
        wire.sync();
      },
      handleRowDescription({ fields }) {
        columns = fields.map(({ name, dataTypeID }) => ({ name, type: dataTypeID }));
      },
      handleReadyForQuery() {
        this.callback(null);
      },
      handleError(error) {
        this.callback(error);
      },
    };
    client.query(handlers);
  });
}

/** Types that the driver would make into something less exact than their text. */
const KEPT_AS_TEXT: ReadonlySet<number> = new Set([
  1082, // date
  1114, // timestamp
  1184, // timestamptz: a JavaScript date has no microseconds
  1186, // interval
]);
const NUMERIC_ARRAY = 1231;
const TEXT_ARRAY = 1009;

/** How the values of an answer are read: no number on the way through a float. */
const ANSWER_TYPES: pg.CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: 'text' | 'binary') => {
    if (KEPT_AS_TEXT.has(oid)) return timestamp;
    return pg.types.getTypeParser(oid === NUMERIC_ARRAY ? TEXT_ARRAY : oid, format);
  }) as pg.CustomTypesConfig['getTypeParser'],
};

/** `2026-01-31T12:00:00.000Z`, with microseconds where there are any. */
function timestamp(text: string): string {
  const [, day, time, fraction = ''] =
    /^(\d{4,}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d+))?(?:\+00)?$/.exec(text) ?? [];
  if (day === undefined) return text;
  const zone = text.endsWith('+00') ? 'Z' : '';
  return `${day}T${time}.${fraction.padEnd(fraction.length > 3 ? 6 : 3, '0')}${zone}`;
}
