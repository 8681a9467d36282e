import type { ErrorAction, StoreErrorCode } from '../kernel/errors.js';
import type { Share } from '../model/share.js';
import type { Runner } from './connection.js';
import { StoreError } from './errors.js';

/**
 * Locks that only logins with the writer's rights can take: rows of `exclusive_lock`, in place of
 * advisory locks, which any login may hold.
 */

/** Names of what is locked by rows until the end of a transaction, most of them a market each. */
type RowLock = 'catalog' | 'gaps' | 'market' | 'checks';
/** Names of what one connection holds until it ends. */
type HeldLock = 'sealing' | 'writer';

/**
 * A statement that waits for rows, in the order of their ids: two callers of one name cannot lock
 * each other out.
 *
 * @param ids SQL of an array
 */
export const lockRowsSql = (name: RowLock, ids = `'{0}'`) => `SELECT lock_rows('${name}', ${ids})`;

/**
 * A process that stores trades of markets ($1) or claims coverage of them holds this until COMMIT, so that
 * counts are exact. Taken in the order of the ids by everybody: no deadlock.
 */
export const LOCK_MARKETS = lockRowsSql('market', '$1::int[]');

/** Taken by a transaction that changes partitions, before anything that a commit of a writer may wait for. */
export const LOCK_WRITERS = 'SELECT lock_writers()';

/** Held by readers until their transaction ends: partitions on their way out wait for it. */
export const LOCK_READING = 'LOCK TABLE reader_lock IN ACCESS SHARE MODE';

/** What the server calls a program that fills what was asked for, and collects nothing of the time that passes. */
export const FILLER = 'tapekeep fill';

/** Who writes: one, or one of each share. */
export const FIND_WRITERS = `SELECT pid FROM lock_holders('writer')`;

const HOLD = 'SELECT got, held_by_other AS held_by, held_shares FROM hold_lock($1, $2, $3)';

interface Refusal {
  readonly code: StoreErrorCode;
  readonly action: ErrorAction;
  /** What to write of another holder. */
  readonly text: (heldBy: string) => string;
  /** Share of the lock; left out: all of it, however others divide it. */
  readonly share?: Share | undefined;
}

/**
 * Takes a lock for as long as a connection lives, without waiting.
 *
 * @throws StoreError as `refusal` says, while another connection has it; `shares_differ` while another one has a share of
 *   another number
 */
export async function holdLock(
  connection: Runner,
  name: HeldLock,
  { code, action, text, share }: Refusal,
): Promise<void> {
  const values = [name, share?.number ?? 0, share?.of ?? null];
  const [row] = await connection.rows<Answer>(HOLD, values);
  if (row?.got === true) return;
  const { heldBy = 'unknown', heldShares = null } = row ?? {};
  if (share !== undefined && heldShares !== null) throw sharesDiffer(share, heldBy, heldShares);
  throw new StoreError(code, text(heldBy), { action });
}

/** @param heldShares into how many shares another one divides the archive */
export function sharesDiffer(share: Share, heldBy: string, heldShares: number): StoreError {
  return new StoreError(
    'shares_differ',
    `this daemon collects ${share} (collector.share), and another one holds the archive (${heldBy}), which is divided into ${heldShares}: give all daemons the same number of shares, or stop all others first`,
    { action: 'fatal' },
  );
}

interface Answer {
  readonly got: boolean;
  readonly heldBy: string;
  /** Into how many shares the other one divides it, where that is the reason; else null. */
  readonly heldShares: number | null;
}

/** A session that has a lock which another one wants. */
export interface LockHolder {
  /** 0 is a prepared transaction. */
  readonly pid: number;
  readonly user: string | null;
  readonly application: string | null;
  readonly state: string | null;
  readonly since: string | null;
  /** Null where this login may not see it. */
  readonly query: string | null;
  readonly isWaiting: boolean;
}

/** Of `a`, a row of pg_stat_activity. */
export const HOLDER_COLUMNS = `a.usename AS user, a.application_name AS application, a.state,
    to_char(coalesce(a.xact_start, a.backend_start) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS since,
    nullif(a.query, '<insufficient privilege>') AS query`;

/** Of the statement of another session. */
const QUERY_LETTERS = 80;

/** The start of a statement without the texts in it, which may be secret. */
function startOf(query: string): string {
  const plain = query
    .replace(/\$(\w*)\$.*?(\$\1\$|$)/gs, '$$…$$')
    .replace(/'[^']*('|$)/g, "'…'")
    .replace(/\s+/g, ' ')
    .trim();
  const letters = [...plain];
  return letters.length <= QUERY_LETTERS ? plain : `${letters.slice(0, QUERY_LETTERS).join('')} …`;
}

export function describeHolder(holder: LockHolder): string {
  const { pid, user, application, state, since, query, isWaiting } = holder;
  if (pid === 0) return 'a prepared transaction (see pg_prepared_xacts)';
  const doing =
    query === null
      ? 'the rest is for members of pg_read_all_stats'
      : `${state ?? 'at work'} since ${since}: "${startOf(query)}"`;
  const parts = [application ?? '', user === null ? '' : `user ${user}`, doing].filter(Boolean);
  return `process ${pid} (${parts.join(', ')})${isWaiting ? ', which waits itself' : ''}`;
}
