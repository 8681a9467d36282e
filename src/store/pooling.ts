import { randomUUID } from 'node:crypto';
import { type ConnectionOptions, describeAddress } from './address.js';
import { Connection } from './connection.js';
import { StoreError, sqlstateOf } from './errors.js';

/**
 * A pooler in transaction or statement mode lends a process of the server for one transaction at a time. Settings,
 * temporary tables, prepared statements and the writer's lock belong to such a process: they would be gone, or those of
 * another program.
 */

/** Each round asks a pooler that picks processes at random twice; the usual ones are found out by the first. */
const ROUNDS = 4;
const MARK = 'tapekeep.session';
const SET_MARK = `SELECT pg_backend_pid() AS pid, set_config('${MARK}', $1, false) AS mark`;
const READ_MARK = `SELECT pg_backend_pid() AS pid, current_setting('${MARK}', true) AS mark`;
/** What a pooler in statement mode answers to BEGIN: a protocol violation, which no server calls it. */
const REFUSES_TRANSACTIONS = '08P01';

interface Marked {
  readonly pid: number;
  readonly mark: string | null;
}

/**
 * Refuses a connection that is no session of its own. A pooler need not move a connection while nobody else wants its
 * process: so a second connection wants one, in the pauses of the first. Whichever idle process it gets, one of them
 * gives it away: that of the first connection, or another one the next time.
 *
 * @param connection not in a transaction
 * @throws {@link StoreError} `database_pooled`
 */
export async function refuseSharedSession(
  connection: Connection,
  options: ConnectionOptions,
): Promise<void> {
  const other = await Connection.open(options);
  try {
    const [mark, otherMark] = [randomUUID(), randomUUID()];
    const [first, second] = [await markOf(connection, mark), await markOf(other, otherMark)];
    if (first.pid === second.pid) throw sharedSession(options.databaseUrl);
    for (let round = 0; round < ROUNDS; round += 1) {
      await whileBusy(other, second, () => refuseMoved(connection, first, options));
      await whileBusy(connection, first, () => refuseMoved(other, second, options));
    }
  } catch (error) {
    throw sqlstateOf(error) === REFUSES_TRANSACTIONS
      ? sharedSession(options.databaseUrl, error)
      : error;
  } finally {
    await other.close();
  }

  /** Takes a process for a transaction, which must be the connection's own. */
  async function whileBusy(one: Connection, own: Marked, work: () => Promise<void>): Promise<void> {
    const [, [found]] = (await one.script(['BEGIN', READ_MARK])) as [unknown, [Marked | undefined]];
    try {
      refuseOther(found, own, options.databaseUrl);
      await work();
    } finally {
      await one.rows('ROLLBACK');
    }
  }
}

async function markOf(connection: Connection, mark: string): Promise<Marked> {
  const [row] = await connection.rows<Marked>(SET_MARK, [mark]);
  return row ?? { pid: 0, mark };
}

async function refuseMoved(
  one: Connection,
  own: Marked,
  options: ConnectionOptions,
): Promise<void> {
  const [found] = await one.rows<Marked>(READ_MARK);
  refuseOther(found, own, options.databaseUrl);
}

function refuseOther(found: Marked | undefined, own: Marked, databaseUrl: string): void {
  if (found?.pid !== own.pid || found.mark !== own.mark) throw sharedSession(databaseUrl);
}

/** The error of a connection that is no session of its own. */
export function sharedSession(databaseUrl: string, cause?: unknown): StoreError {
  return new StoreError(
    'database_pooled',
    `at ${describeAddress(databaseUrl)} a pooler in transaction or statement mode (PgBouncer or another) lies between tapekeep and Postgres, and a session there lasts no longer than a transaction: connect to Postgres directly, or to a pool in session mode (pool_mode = session)`,
    { cause },
  );
}
