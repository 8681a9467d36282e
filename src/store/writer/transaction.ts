import type { Span } from '../../kernel/span.js';
import type { CommitResult } from '../../model/batch.js';
import { recordFindings } from '../completeness/gaps.js';
import { revokeAll } from '../completeness/revocation.js';
import type { Connection } from '../connection.js';
import { entriesOfChanges, type StreamChange } from '../journal.js';
import { lockRowsSql } from '../locks.js';
import { executeSql } from '../sql.js';
import type { CommitNumber } from './commit-number.js';
import { type Held, settleCoverage } from './coverage.js';
import { CONFLICT, type PreparedGroup, refusedRow } from './groups.js';
import { tally } from './outcomes.js';
import type { Quarantine, RefusedCount } from './refused-rows.js';
import { TRADE } from './series.js';
import { copySql, type Stretches, storeAll } from './staging.js';
import { findStoredSql, joinStored, nearSpans, type Stored, sortOutTrades } from './trade-rows.js';

/**
 * One try at committing a group in one transaction: what it revokes, its rows, the coverage that they prove, what was
 * learned of gaps, and what was refused. It either commits all of it or leaves no trace.
 */

/** Index probes only: temporary tables have no statistics, and the series are large. */
const BEGIN = [
  'BEGIN ISOLATION LEVEL READ COMMITTED',
  'SET LOCAL enable_hashjoin = off',
  'SET LOCAL enable_mergejoin = off',
  'SET LOCAL enable_seqscan = off',
  'SET LOCAL jit = off',
];

interface GroupContext {
  readonly connection: Connection;
  readonly number: CommitNumber;
  readonly quarantine: Quarantine;
  readonly stretches: Stretches;
  /** Called when the server has got the larger part of its work and is busy with it. */
  readonly whenSent: () => void;
}

export interface GroupResult {
  readonly results: readonly CommitResult[];
  readonly refused: readonly RefusedCount[];
}

/**
 * @throws WentBackError; the database's error as it came. The connection may be inside a failed transaction.
 */
export async function commitGroup(
  context: GroupContext,
  group: PreparedGroup,
): Promise<GroupResult> {
  const { connection, quarantine, stretches, whenSent } = context;
  const near = nearSpans(group.trades, stretches.get('trade') ?? []);
  const { held, stored, changes } = await begin(context, group, near);
  const trades = await sortOutTrades(connection, group.trades, stored, near, whenSent);
  const others = await storeAll(connection, group.passes, stretches);
  const isKnown = (place: number) => trades.outcomes.has(place);
  const { ranges, calls } = settleCoverage(group, held, isKnown);
  await recordFindings(connection, group.batches);
  const { counts, conflicts, calls: more } = tally(group, trades, others);
  const conflicting = conflicts.map(({ table, row }) => refusedRow(table, CONFLICT, row));
  const refused = await quarantine.keep(connection, [...group.refused, ...conflicting]);
  // The last rows, what they prove, and COMMIT, in one message. Entries of the journal come last: other writers wait for them.
  const { rows, entries } = more;
  const ending = [...calls, ...rows, ...entriesOfChanges(changes), ...entries];
  const last = [...ending.map((call) => executeSql(...call)), 'COMMIT'];
  const { copyText } = trades;
  if (copyText === undefined) await connection.script(last);
  else await connection.copyIn([copySql(TRADE), ...last].join(';\n'), copyText, whenSent);
  const results = counts.map((outcomes, index) => ({ outcomes, ranges: ranges[index] ?? [] }));
  return { results, refused };
}

/** What is there before a group. */
interface Found {
  readonly held: readonly Held[];
  readonly stored: readonly Stored[];
  /** Revoked and exposed, for the journal. */
  readonly changes: readonly StreamChange[];
}

/** Advances the number, takes the locks of the markets, revokes, and asks then for all that the rest is decided by. */
async function begin(
  { connection, number }: GroupContext,
  group: PreparedGroup,
  near: readonly Span[],
): Promise<Found> {
  const { batches, marketIds, isRevoking, trades } = group;
  const finding = findStoredSql(trades, near);
  const reads = [...group.reads, ...finding];
  const lock = lockRowsSql('market', `'{${marketIds.join(',')}}'::int[]`);
  const opening = [...BEGIN, number.advanceSql, ...(marketIds.length > 0 ? [lock] : [])];
  const first = await connection.script(isRevoking ? opening : [...opening, ...reads]);
  await number.begun(connection, first[BEGIN.length]);
  const changes = isRevoking ? await revokeAll(connection, batches) : [];
  const later = isRevoking && reads.length > 0 ? await connection.script(reads) : [];
  const answers = [...first.slice(opening.length), ...later];
  const stored = answers.splice(answers.length - finding.length) as Stored[][];
  return { held: answers.flat() as Held[], stored: joinStored(stored), changes };
}
