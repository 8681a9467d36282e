import { Socket } from 'node:net';
import pg from 'pg';
import { messageOf, TapekeepError } from '../kernel/errors.js';
import type { Random } from '../kernel/random.js';
import { retry } from '../kernel/retry.js';
import type { StoreEvents } from '../observe/events.js';
import { Client, type ConnectionOptions, clientConfig, connectFailure } from './address.js';
import { Connection, inStoreWords, type Runner } from './connection.js';
import { isState, sqlstateOf } from './errors.js';
import { sessionSettings } from './session-settings.js';

const REPEATS = { maxAttempts: 6, baseMs: 20, capMs: 1_000 };
/** What is under way at the end gets this long; then its wire is cut. */
const CLOSE_GRACE_MS = 500;

interface DatabaseOptions extends ConnectionOptions {
  readonly poolSize: number;
  readonly random: Random;
  readonly telemetry: Pick<StoreEvents, 'commitFailed'>;
}

/**
 * The pool behind everything but the writer. A connection that failed is never lent again: after
 * a timeout the answer to the old question would arrive as the answer to the next.
 */
export class Database implements Runner {
  readonly #pool: pg.Pool;
  readonly #options: DatabaseOptions;
  readonly #connections = new WeakMap<pg.PoolClient, Connection>();
  readonly #sockets = new Set<Socket>();

  constructor(options: DatabaseOptions) {
    this.#options = options;
    this.#pool = new pg.Pool({
      ...clientConfig(options),
      Client: Client as unknown as typeof pg.Client,
      max: options.poolSize,
      stream: () => this.#newSocket(),
      idleTimeoutMillis: 30_000,
      onConnect: (client) =>
        client.query(sessionSettings(options.statementTimeoutMs)) as unknown as undefined,
    });
    // An idle connection that breaks is removed by the pool; the next query opens another.
    this.#pool.on('error', () => undefined);
  }

  rows<Row extends object>(sql: string, values: readonly unknown[] = []): Promise<Row[]> {
    return this.#repeating((connection) => connection.rows<Row>(sql, values));
  }

  /** Runs `work` on one connection, without a transaction. */
  session<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
    return this.#lend(work);
  }

  /**
   * Runs `work` between BEGIN and COMMIT on one connection; any failure rolls back. After a deadlock or
   * a serialization failure it runs again from its start, some times.
   */
  transaction<T>(work: (connection: Connection) => Promise<T>, mode = ''): Promise<T> {
    return this.#repeating(async (connection) => {
      await connection.rows(`BEGIN ${mode}`);
      try {
        const result = await work(connection);
        await connection.rows('COMMIT');
        return result;
      } catch (error) {
        // The reason is the first error; a rollback that fails as well adds nothing to it.
        await connection.rows('ROLLBACK').catch(() => undefined);
        throw error;
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
    this.#options.clock.after(CLOSE_GRACE_MS, cut, { background: true });
    return this.#pool.end();
  }

  #newSocket(): Socket {
    const socket = new Socket();
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    return socket;
  }

  #repeating<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
    const { clock, random, telemetry } = this.#options;
    const options = {
      ...{ ...REPEATS, clock, random },
      isRetryable: (error: unknown) => isState(error, 'undone for others'),
      onRetry: (error: unknown) =>
        telemetry.commitFailed({
          ...{ code: sqlstateOf(error) ?? '', message: messageOf(error), willRetry: true },
        }),
    };
    return retry(options, () => this.#lend(work));
  }

  async #lend<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
    let client: pg.PoolClient;
    try {
      client = await this.#pool.connect();
    } catch (error) {
      throw connectFailure(error, this.#options.databaseUrl);
    }
    const connection =
      this.#connections.get(client) ??
      new Connection(client, this.#options, { explain: inStoreWords });
    this.#connections.set(client, connection);
    let failure: Error | undefined;
    try {
      return await work(connection);
    } catch (error) {
      failure = error as Error;
      throw error;
    } finally {
      const isHealthy = failure instanceof TapekeepError && failure.action !== 'retry';
      client.release(isHealthy ? undefined : failure);
    }
  }
}
