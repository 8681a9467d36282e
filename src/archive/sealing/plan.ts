import { formatInstant, isoMs } from '../../kernel/timestamp.js';
import { type SeriesTable, streamName } from '../../model/series.js';
import {
  findMiscount,
  findUnsettled,
  type PartitionInfo,
  type SealingAdmin,
  type SealNeeds,
} from '../../store/index.js';

/** Ages count from the end of a partition, in the exchange's time. */
export interface LifeRules extends SealNeeds {
  /** Null: nothing is sealed. */
  readonly sealAfterMs: number | null;
  /** Null: nothing is archived. */
  readonly coldAfterMs: number | null;
  /** So long after it was restored, by this machine's clock, a partition is left alone. */
  readonly restMs: number;
  /** How long rows of a table are kept; none when left out: for ever. */
  readonly retentionMs: Partial<Readonly<Record<SeriesTable, number>>>;
}

/** When a partition is due for what is still before it, in the exchange's time; null: never. */
export interface LifeDates {
  readonly sealsAtMs: number | null;
  readonly archivesAtMs: number | null;
  readonly expiresAtMs: number | null;
}

const after = ({ span }: PartitionInfo, ageMs: number | null | undefined) =>
  ageMs === null || ageMs === undefined ? null : span.toMs + ageMs;

/** The dates that the rules set. The work itself may find reasons to wait longer. */
export function lifeDates(partition: PartitionInfo, rules: LifeRules): LifeDates {
  const { state, table } = partition;
  const isHere = state === 'hot' || state === 'sealed';
  const expiresAtMs = state === 'expired' ? null : after(partition, rules.retentionMs[table]);
  // Partitions that expire first do not come to it.
  const inTime = (atMs: number | null) =>
    atMs !== null && atMs < (expiresAtMs ?? Number.POSITIVE_INFINITY) ? atMs : null;
  const sealsAtMs = state === 'hot' ? inTime(after(partition, rules.sealAfterMs)) : null;
  // Only a sealed partition can leave.
  const canLeave = state === 'sealed' || sealsAtMs !== null;
  const archivesAtMs = isHere && canLeave ? after(partition, rules.coldAfterMs) : null;
  const movesAtMs =
    archivesAtMs === null || sealsAtMs === null ? archivesAtMs : Math.max(archivesAtMs, sealsAtMs);
  return { sealsAtMs, archivesAtMs: inTime(movesAtMs), expiresAtMs };
}

/** Until when a partition that was restored is left alone, by this machine's clock, unlike the dates; 0: none was. */
export function restsUntilMs({ restoredAtMs }: PartitionInfo, { restMs }: LifeRules): number {
  return restoredAtMs === null ? 0 : restoredAtMs + restMs;
}

/** Due partitions by the rules; the work itself may find reasons against it. */
interface LifePlan {
  readonly expire: readonly PartitionInfo[];
  readonly seal: readonly PartitionInfo[];
  readonly archive: readonly PartitionInfo[];
}

/** Due partitions, oldest first within each table. */
export function planLife(
  partitions: readonly PartitionInfo[],
  rules: LifeRules,
  { nowMs, wallMs }: { readonly nowMs: number; readonly wallMs: number },
): LifePlan {
  const plan = { expire: [], seal: [], archive: [] } as Record<keyof LifePlan, PartitionInfo[]>;
  for (const one of partitions) {
    const { sealsAtMs, archivesAtMs, expiresAtMs } = lifeDates(one, rules);
    const isDue = (atMs: number | null) => atMs !== null && atMs <= nowMs;
    const hasRested = restsUntilMs(one, rules) <= wallMs;
    if (isDue(expiresAtMs)) plan.expire.push(one);
    else if (isDue(sealsAtMs)) plan.seal.push(one);
    else if (one.state === 'sealed' && isDue(archivesAtMs) && hasRested) plan.archive.push(one);
  }
  return plan;
}

/** Returns what keeps a partition from being sealed, in words for people; undefined when nothing does. */
export async function findObstacle(
  admin: SealingAdmin,
  partition: PartitionInfo,
  needs: SealNeeds,
): Promise<string | undefined> {
  const unsettled = await unsettledNote(admin, partition, needs);
  if (unsettled !== undefined) return unsettled;
  const wrong = await findMiscount(admin.connection, partition);
  if (wrong === undefined) return undefined;
  const { market, known, counted } = wrong;
  return `${known} rows of ${market} were stored in ${partition.name}, and there are ${counted}: somebody changed them by hand. Check them, then correct the table rows_by_day`;
}

/** Describes what is missing or suspect in one partition; undefined when nothing is. */
export async function unsettledNote(
  admin: SealingAdmin,
  partition: PartitionInfo,
  needs: SealNeeds,
): Promise<string | undefined> {
  const found = await findUnsettled(admin.connection, partition, needs);
  if (found === undefined) return undefined;
  const { why, kind, market, variantS, span } = found;
  const at = formatInstant(span.fromMs);
  const of = `${streamName({ kind, variant: variantS })} of ${market}`;
  switch (why) {
    case 'gap':
      return `an open gap of ${of} from ${at} on`;
    case 'history': {
      const reached = isoMs(span.toMs);
      return `the walk back through the history of ${of} has not come to its start, and may bring more from before ${reached}: collect on, then seal it`;
    }
    case 'suspect':
      return `${of} are doubted from ${at} on, and not fetched again yet`;
    case 'times':
      return `trades of ${market} lack exact times from ${at} on; they are waited for at most a day after the trades were received`;
    case 'mismatch':
      return `${of} are not verified yet from ${at} on, which a running daemon does within minutes`;
  }
}
