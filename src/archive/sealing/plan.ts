import type { Span } from '../../kernel/span.js';
import { formatInstant, isoMs } from '../../kernel/timestamp.js';
import {
  SERIES,
  SERIES_TABLES,
  type SeriesTable,
  type StreamKind,
  streamName,
  tableOfStream,
} from '../../model/series.js';
import {
  type ClaimedSpan,
  findMiscount,
  findUnsettled,
  type PartitionInfo,
  type SealingAdmin,
  type SealNeeds,
  type Store,
} from '../../store/index.js';

/** Kinds of partitions, as the settings and the command line call them. */
export type LifeKind = (typeof SERIES)[SeriesTable]['retention'];
export const LIFE_KINDS = [...new Set(SERIES_TABLES.map((table) => SERIES[table].retention))];

/** Returns true if a partition belongs to one of these kinds, or none is named. */
export function isOfKind(
  { table }: PartitionInfo,
  kinds: readonly LifeKind[] | undefined,
): boolean {
  return kinds?.includes(SERIES[table].retention) ?? true;
}

/** Time of a kind of stream whose partitions are in one of these states. */
export async function partitionSpans(
  { sealing }: Pick<Store, 'sealing'>,
  kind: StreamKind,
  ...states: readonly PartitionInfo['state'][]
): Promise<Span[]> {
  const table = tableOfStream(kind);
  const partitions = await sealing.partitions();
  return partitions
    .filter((one) => one.table === table && states.includes(one.state))
    .map(({ span }) => span);
}

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

const after = ({ span }: Pick<PartitionInfo, 'span'>, ageMs: number | null | undefined) =>
  ageMs === null || ageMs === undefined ? null : span.toMs + ageMs;

/** The dates that the rules set. The work itself may find reasons to wait longer. */
export function lifeDates(
  partition: Pick<PartitionInfo, 'table' | 'span' | 'state'>,
  rules: LifeRules,
): LifeDates {
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
  /** To be written to files, and to stay in the database. */
  readonly write: readonly PartitionInfo[];
  readonly archive: readonly PartitionInfo[];
}

/** Due partitions, oldest first within each table. */
export function planLife(
  partitions: readonly PartitionInfo[],
  rules: LifeRules,
  { nowMs, wallMs }: { readonly nowMs: number; readonly wallMs: number },
): LifePlan {
  const plan = { expire: [], seal: [], write: [], archive: [] } as Record<
    keyof LifePlan,
    PartitionInfo[]
  >;
  for (const one of partitions) {
    const { sealsAtMs, archivesAtMs, expiresAtMs } = lifeDates(one, rules);
    const isDue = (atMs: number | null) => atMs !== null && atMs <= nowMs;
    const hasRested = restsUntilMs(one, rules) <= wallMs;
    if (isDue(expiresAtMs)) plan.expire.push(one);
    else if (isDue(sealsAtMs)) plan.seal.push(one);
    else if (one.state === 'sealed' && rules.coldAfterMs !== null && hasRested) {
      if (isDue(archivesAtMs)) plan.archive.push(one);
      else if (one.uri === null) plan.write.push(one);
    }
  }
  return plan;
}

/** A partition that is due to change its place, and whose transactions keep it from that. */
export interface HeldPartition {
  readonly partition: string;
  /** Sessions in words, the oldest transaction first. */
  readonly heldBy: readonly string[];
}

/** Returns the oldest partition of each series that cannot change its place, because somebody has used the series for long. */
export async function findHeld(
  { sealing }: Pick<Store, 'sealing'>,
  rules: LifeRules,
  times: { readonly nowMs: number; readonly wallMs: number },
): Promise<HeldPartition[]> {
  const { expire, archive } = planLife(await sealing.partitions(), rules, times);
  const held: HeldPartition[] = [];
  const seen = new Set<SeriesTable>();
  for (const { table, name } of [...expire, ...archive]) {
    if (seen.has(table)) continue;
    seen.add(table);
    const heldBy = await sealing.longHolders(table);
    if (heldBy.length > 0) held.push({ partition: name, heldBy });
  }
  return held;
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

/**
 * Describes what is missing or suspect in one partition; undefined when nothing is.
 *
 * @param claimed what is as good as covered
 */
export async function unsettledNote(
  admin: SealingAdmin,
  partition: Pick<PartitionInfo, 'table' | 'span'>,
  needs: SealNeeds,
  claimed?: ClaimedSpan,
): Promise<string | undefined> {
  const found = await findUnsettled(admin.connection, partition, needs, claimed);
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
    case 'share':
      return `${of} are not collected yet: start the daemon of its share (collector.share)`;
    case 'suspect':
      return `${of} are doubted from ${at} on, and not fetched again yet`;
    case 'times':
      return `trades of ${market} lack exact times from ${at} on; they are waited for at most a day after the trades were received`;
    case 'mismatch':
      return `${of} are not verified yet from ${at} on, which a running daemon does within minutes`;
  }
}
