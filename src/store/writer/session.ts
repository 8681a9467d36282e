import type { Share } from '../../model/share.js';
import type { StoreEvents } from '../../observe/events.js';
import type { ConnectionOptions } from '../address.js';
import { MARK_SUSPECTS } from '../checks/results.js';
import { Connection, inStoreWords, refuseReadOnly } from '../connection.js';
import { isState, StoreError, sqlstateOf } from '../errors.js';
import { ADD_ENTRIES } from '../journal.js';
import { describeHolder, HOLDER_COLUMNS, holdLock, type LockHolder } from '../locks.js';
import { refuseSharedSession } from '../pooling.js';
import { prepareSql } from '../sql.js';
import { CommitNumber, WentBackError } from './commit-number.js';
import { COVERAGE_STATEMENTS } from './coverage.js';
import { ADD_ROWS } from './outcomes.js';
import { CREATE_STAGES } from './staging.js';
import { FIND_STORED } from './trade-rows.js';

const NAME_HOLDER = `SELECT set_config('application_name', $1, false)`;

/** Run once on each connection of the writer. */
const PREPARE = [
  CREATE_STAGES,
  ...[FIND_STORED, ADD_ROWS, ADD_ENTRIES, MARK_SUSPECTS, ...COVERAGE_STATEMENTS].map(prepareSql),
];

/**
 * The writer's one connection, opened when needed and again after a failure.
 *
 * The lock that makes a daemon the only writer belongs to this same connection: when the
 * connection is lost the lock is lost with it, and nothing can be written before a new connection
 * has the lock again. So a daemon that was paused for long cannot write over its successor.
 */
export class WriterSession {
  readonly #options: ConnectionOptions;
  readonly #share: Share | undefined;
  readonly number: CommitNumber;
  #connection: Connection | undefined;
  #mustHoldLock = false;
  #application: string | undefined;
  #isClosed = false;

  /** @param share that it writes; left out: all markets, however daemons divide them */
  constructor(options: ConnectionOptions, share?: Share) {
    this.#options = options;
    this.#share = share;
    this.number = new CommitNumber(options.databaseUrl, share);
  }

  /**
   * To take it again changes nothing.
   *
   * @param application what the server is to call the holder. Default: as any other of its connections
   * @throws {@link StoreError} `writer_lock_held`, `shares_differ`
   */
  async acquireLock(application?: string): Promise<void> {
    this.#application = application;
    try {
      const connection = await this.connection();
      await this.number.settle(connection, () => this.#lock(connection, 'fatal'));
    } catch (error) {
      // The lock is held, and is taken again after the new era has begun.
      if (error instanceof WentBackError) throw error;
      // Who stands by must not find a connection here later that has died meanwhile.
      await this.reset(false);
      throw inStoreWords(error);
    }
    this.#mustHoldLock = true;
  }

  /**
   * The open connection, or a new one that holds the lock if it must.
   *
   * @throws WentBackError when a new one finds the database at another number than the last one left it
   */
  async connection(): Promise<Connection> {
    if (this.#connection !== undefined && !this.#connection.isLost) return this.#connection;
    const connection = await Connection.open(this.#options);
    try {
      await refuseReadOnly(connection, this.#options.databaseUrl);
      await refuseSharedSession(connection, this.#options);
      await connection.rows(PREPARE.join(';\n'));
      if (this.#mustHoldLock) {
        await this.number.settle(connection, () => this.#lock(connection, 'retry'));
      }
      if (this.#isClosed) throw new StoreError('database_unreachable', 'closed');
    } catch (error) {
      connection.destroy();
      throw error;
    }
    this.#connection = connection;
    return connection;
  }

  /** After a failed try: ends the transaction, or the connection where its state is unknown. */
  async reset(canKeep: boolean): Promise<void> {
    const connection = this.#connection;
    if (connection === undefined) return;
    try {
      if (!canKeep) throw new Error('state unknown');
      await connection.rows('ROLLBACK');
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
    if (this.#application !== undefined) await connection.rows(NAME_HOLDER, [this.#application]);
    await holdLock(connection, 'writer', {
      ...{ code: 'writer_lock_held', action, share: this.#share },
      text: (heldBy) =>
        `another tapekeep writes to this database (${heldBy}): stop it first, or give each its own database`,
    });
  }
}

/** A commit takes no longer than this, unless it waits for a lock or the server is slow. */
const LOOK_AFTER_MS = 5_000;
/** The look is no more important than what it looks at. */
const LOOK_TIMEOUT_MS = 5_000;
const BLOCKERS_MAX = 4;

/** The sessions that block one, and those that block them; first the ones that wait for no lock. */
const FIND_BLOCKERS = `
  WITH RECURSIVE blocker (pid, steps) AS (
    SELECT unnest(pg_blocking_pids($1)), 1
    UNION
    SELECT unnest(pg_blocking_pids(pid)), steps + 1 FROM blocker WHERE steps < 4
  )
  SELECT b.pid, ${HOLDER_COLUMNS}, cardinality(pg_blocking_pids(b.pid)) > 0 AS is_waiting
  FROM (SELECT pid, max(steps) AS steps FROM blocker GROUP BY pid) b
  LEFT JOIN pg_stat_activity a ON a.pid = b.pid
  ORDER BY is_waiting, steps DESC, pid LIMIT ${BLOCKERS_MAX}`;

/**
 * Looks, from a connection of its own, for who holds what a commit waits for: once in a try that takes
 * long, since afterwards nothing waits any more.
 */
export class BlockerWatch implements Disposable {
  readonly #options: ConnectionOptions;
  readonly #telemetry: StoreEvents;
  readonly #startedMs: number;
  readonly #cancel: () => void;
  #isOver = false;
  #seen: string | undefined;

  /** @param pid server process of the connection that commits */
  constructor(options: ConnectionOptions, telemetry: StoreEvents, pid: number) {
    this.#options = options;
    this.#telemetry = telemetry;
    this.#startedMs = options.clock.monotonicMs();
    const afterMs = Math.min(LOOK_AFTER_MS, options.statementTimeoutMs / 4);
    const look = () => void this.#look(pid).catch(() => undefined);
    this.#cancel = options.clock.after(afterMs, look, { background: true });
  }

  /** The error of a try that ended for its time, with who it waited for. */
  explain(error: unknown): unknown {
    const isTimedOut = isState(error, 'out of time') || isState(error, 'lock not available');
    if (this.#seen === undefined || !isTimedOut) return error;
    const said = error instanceof Error ? error.message : 'timeout';
    return new StoreError(
      'database_failed',
      `${said}: a lock was waited for that is held by ${this.#seen}; end its transaction, or it by pg_terminate_backend`,
      { action: 'retry', cause: error, sqlstate: sqlstateOf(error) },
    );
  }

  [Symbol.dispose](): void {
    this.#isOver = true;
    this.#cancel();
  }

  async #look(pid: number): Promise<void> {
    const limits = { connectTimeoutMs: LOOK_TIMEOUT_MS, statementTimeoutMs: LOOK_TIMEOUT_MS };
    const connection = await Connection.open({ ...this.#options, ...limits });
    try {
      const blockers = await connection.rows<LockHolder>(FIND_BLOCKERS, [pid]);
      if (this.#isOver || blockers.length === 0) return;
      this.#seen = blockers.map(describeHolder).join('; ');
      const waitedMs = this.#options.clock.monotonicMs() - this.#startedMs;
      this.#telemetry.commitBlocked({ by: this.#seen, waitedMs });
    } finally {
      await connection.close();
    }
  }
}
