import { Connection, type ConnectionOptions, refuseReadOnly } from '../connection.js';
import { StoreError } from '../errors.js';
import { holdLock, TAKE_EARLIER_LOCK } from '../locks.js';
import { WRITE_COVERAGE } from './coverage-rows.js';
import { READ_COVERAGE } from './held-coverage.js';
import { prepareSql } from './script.js';
import { CREATE_STAGES } from './staging.js';
import { FIND_STORED } from './trade-rows.js';

/** Run once on each connection of the writer. */
const PREPARE = [
  CREATE_STAGES,
  ...[FIND_STORED, ...READ_COVERAGE, ...WRITE_COVERAGE].map(prepareSql),
];

/**
 * The writer's one connection, opened when needed and again after a failure.
 *
 * The lock that makes a daemon the only writer belongs to this same connection: when the
 * connection is lost the lock is lost with it, and nothing can be written before a new connection
 * has the lock again. So a daemon that was paused for long can not write over its successor.
 */
export class WriterSession {
  readonly #options: ConnectionOptions;
  #connection: Connection | undefined;
  #mustHoldLock = false;
  #isClosed = false;

  constructor(options: ConnectionOptions) {
    this.#options = options;
  }

  /** @throws {@link StoreError} `writer_lock_held` */
  async acquireLock(): Promise<void> {
    const connection = await this.connection();
    if (this.#mustHoldLock) return;
    await this.#lock(connection, 'fatal');
    this.#mustHoldLock = true;
  }

  /** The open connection, or a new one that holds the lock if it must. */
  async connection(): Promise<Connection> {
    if (this.#connection !== undefined && !this.#connection.isLost) return this.#connection;
    const connection = await Connection.open(this.#options);
    try {
      const run = async <Row extends object>(sql: string) => ({
        rows: await connection.query<Row>(sql),
      });
      await refuseReadOnly(run, this.#options.databaseUrl);
      await connection.query(PREPARE.join(';\n'));
      if (this.#mustHoldLock) await this.#lock(connection, 'retry');
      if (this.#isClosed) throw new StoreError('database_unreachable', 'retry', 'closed');
    } catch (error) {
      connection.destroy();
      throw error;
    }
    this.#connection = connection;
    return connection;
  }

  /** After a failed try: ends the transaction, or the connection where that is in doubt. */
  async reset(canKeep: boolean): Promise<void> {
    const connection = this.#connection;
    if (connection === undefined) return;
    try {
      if (!canKeep) throw new Error('in doubt');
      await connection.query('ROLLBACK');
    } catch {
      connection.destroy();
      this.#connection = undefined;
    }
  }

  /** Cuts the wire: whatever waits for an answer fails now. */
  destroy(): void {
    this.#isClosed = true;
    this.#connection?.destroy();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#connection?.close();
  }

  async #lock(connection: Connection, action: 'fatal' | 'retry'): Promise<void> {
    await holdLock((sql, values) => connection.query(sql, values), 'writer', {
      ...{ code: 'writer_lock_held', action },
      text: (heldBy) =>
        `another tapekeep writes to this database (${heldBy}): stop it first, or give each its own database`,
    });
    await connection.query(TAKE_EARLIER_LOCK);
  }
}
