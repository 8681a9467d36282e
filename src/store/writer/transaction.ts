import type { CommitResult } from '../../model/batch.js';
import { markSuspects } from '../checks/results.js';
import { recordFindings } from '../completeness/gaps.js';
import { revokeAll } from '../completeness/revocation.js';
import type { Connection } from '../connection.js';
import { lockRowsSql } from '../locks.js';
import type { Partitions } from '../schema/partitions.js';
import type { CommitNumber } from './commit-number.js';
import { type Held, lateTrades, mergeClaims, writeRangesSql } from './coverage.js';
import { addRowsSql, type SettledRow } from './day-counts.js';
import { CONFLICT, type PreparedGroup, type Refused, refusedRow } from './groups.js';
import type { Quarantine, RefusedCount } from './refused-rows.js';
import { SHAPES, TRADE } from './series.js';
import { copySql, storeRows } from './staging.js';
import { type Stored, type StoredTrades, sortOutTrades } from './trade-rows.js';

/**
 * One try at committing a group: partitions, then in one transaction what it revokes, its rows, the coverage that
 * they prove, what was learned of gaps, and what was refused. It either commits all of it or leaves no trace.
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
  readonly partitions: Partitions;
  readonly quarantine: Quarantine;
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
  const { connection, partitions, quarantine, whenSent } = context;
  for (const [table, times] of group.times) await partitions.ensureTimes(table, times);
  const { held, stored } = await begin(context, group);
  const trades = await sortOutTrades(connection, group.trades, stored, whenSent);
  const others = await storeOthers(connection, group.passes);
  const isKnown = (place: number) => trades.outcomes.has(place);
  await markSuspects(connection, lateTrades(group.trades, held, isKnown));
  const { ranges, changed } = mergeClaims(group.batches, held);
  await recordFindings(connection, group.batches);
  const { counts, conflicts } = countOutcomes(group, trades, others);
  const refused = await quarantine.keep(connection, [...group.refused, ...conflicts]);
  const statements = [...writeRangesSql(changed), ...addRowsSql(group.trades, trades, others)];
  await end(context, trades.copyText, [...statements, 'COMMIT']);
  const results = counts.map((outcomes, index) => ({ outcomes, ranges: ranges[index] ?? [] }));
  return { results, refused };
}

/** What is there before a group. */
interface Found {
  readonly held: readonly Held[];
  readonly stored: readonly Stored[];
}

/** Advances the number, takes the locks of the markets, revokes, and asks then for all that the rest is decided by. */
async function begin({ connection, number }: GroupContext, group: PreparedGroup): Promise<Found> {
  const { batches, marketIds, isRevoking, reads, trades } = group;
  const lock = lockRowsSql('market', `'{${marketIds.join(',')}}'::int[]`);
  const opening = [...BEGIN, number.advanceSql, ...(marketIds.length > 0 ? [lock] : [])];
  const first = await connection.script(isRevoking ? opening : [...opening, ...reads]);
  await number.begun(connection, first[BEGIN.length]);
  if (isRevoking) await revokeAll(connection, batches);
  const later = isRevoking && reads.length > 0 ? await connection.script(reads) : [];
  const answers = [...first.slice(opening.length), ...later];
  const stored = trades.length > 0 ? answers.splice(-1).flat() : [];
  return { held: answers.flat() as Held[], stored: stored as Stored[] };
}

/** The last rows, what they prove, and COMMIT, in one message. */
async function end(
  { connection, whenSent }: GroupContext,
  copyText: Buffer | undefined,
  statements: readonly string[],
): Promise<void> {
  if (copyText === undefined) await connection.script(statements);
  else await connection.copyIn([copySql(TRADE), ...statements].join(';\n'), copyText, whenSent);
}

/** All rows but trades. */
async function storeOthers(
  connection: Connection,
  passes: PreparedGroup['passes'],
): Promise<SettledRow[]> {
  const settled: SettledRow[] = [];
  for (const [table, shape] of SHAPES) {
    for (const pass of passes.get(table) ?? []) {
      const outcomes = await storeRows(connection, shape, pass);
      for (const [index, one] of pass.entries()) {
        settled.push({ ...one, table, outcome: outcomes[index] ?? 'stored' });
      }
    }
  }
  return settled;
}

function countOutcomes(
  group: PreparedGroup,
  trades: StoredTrades,
  others: readonly SettledRow[],
) {
  const counts = group.settled.map((one) => structuredClone(one));
  const conflicts: Refused[] = [];
  for (const [place, outcome] of trades.outcomes) {
    const ofBatch = counts[group.trades.batches[place] ?? 0];
    const row = group.trades.rows[place];
    if (ofBatch === undefined || row === undefined) continue;
    ofBatch.trade.stored -= 1;
    ofBatch.trade[outcome] += 1;
    if (outcome === 'conflict') conflicts.push(refusedRow('trade', CONFLICT, row));
  }
  for (const { table, row, batch, outcome } of others) {
    const ofBatch = counts[batch];
    if (ofBatch !== undefined) ofBatch[table][outcome] += 1;
    if (outcome === 'conflict') conflicts.push(refusedRow(table, CONFLICT, row));
  }
  return { counts, conflicts };
}
