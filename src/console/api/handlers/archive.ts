import {
  isOfKind,
  LIFE_KINDS,
  type LifeDates,
  type LifeKind,
  type LifeRules,
  lifeDates,
  restsUntilMs,
} from '../../../archive/sealing/plan.js';
import { UsageError } from '../../../kernel/errors.js';
import { nearestName } from '../../../kernel/nearest.js';
import { isoMs } from '../../../kernel/timestamp.js';
import { nameMeant } from '../../../model/kinds.js';
import { SERIES_TABLES } from '../../../model/series.js';
import type {
  PartitionInfo,
  QuarantineCount,
  QuarantinedRow,
  Store,
} from '../../../store/index.js';
import type { Answer, Handlers } from '../endpoints.js';
import { marketsOf, selectMarkets } from '../selection.js';

/** Partitions of the archive, and what was refused, as commands and the API print them. */

/** A partition with what is before it. */
export interface DatedPartition {
  readonly partition: PartitionInfo;
  readonly dates: LifeDates;
}

/** Partitions of some kinds with the dates that the rules set. */
export async function readPartitions(
  store: Store,
  kinds: readonly LifeKind[] | undefined,
  rules: LifeRules,
): Promise<DatedPartition[]> {
  const all = await store.sealing.partitions();
  const chosen = all.filter((one) => isOfKind(one, kinds));
  return chosen.map((partition) => ({ partition, dates: datesOf(partition, rules) }));
}

/** Dates of a partition; a restored one is left alone for a while first. */
function datesOf(partition: PartitionInfo, rules: LifeRules): LifeDates {
  const { archivesAtMs, ...dates } = lifeDates(partition, rules);
  if (archivesAtMs === null) return { ...dates, archivesAtMs };
  const atMs = Math.max(archivesAtMs, restsUntilMs(partition, rules));
  const isInTime = dates.expiresAtMs === null || atMs < dates.expiresAtMs;
  return { ...dates, archivesAtMs: isInTime ? atMs : null };
}

/** End of the unbroken partitions from now on. */
function leadsOf(dated: readonly DatedPartition[], nowMs: number) {
  return SERIES_TABLES.flatMap((table) => {
    const own = dated.filter(({ partition }) => partition.table === table);
    if (own.length === 0) return [];
    let endMs = nowMs;
    for (const { partition } of own) {
      const { fromMs, toMs } = partition.span;
      if (fromMs <= endMs && endMs < toMs) endMs = toMs;
    }
    return [{ table, leadMs: endMs - nowMs }];
  });
}

/** Partitions for programs. */
export function partitionsDocument(
  dated: readonly DatedPartition[],
  nowMs: number,
): Answer<'partitions'> {
  return {
    at: isoMs(nowMs),
    partitions: dated.map(partitionDocument),
    leads: leadsOf(dated, nowMs),
  };
}

function partitionDocument({ partition, dates }: DatedPartition) {
  const { span, sealedAtMs, archivedAtMs, restoredAtMs, ...facts } = partition;
  const iso = (ms: number | null) => (ms === null ? null : isoMs(ms));
  return {
    ...facts,
    ...{ from: isoMs(span.fromMs), to: isoMs(span.toMs), sealedAt: iso(sealedAtMs) },
    ...{ archivedAt: iso(archivedAtMs), restoredAt: iso(restoredAtMs) },
    due: {
      ...{ seal: iso(dates.sealsAtMs), archive: iso(dates.archivesAtMs) },
      expire: iso(dates.expiresAtMs),
    },
  };
}

/** Selection of refused data. */
export interface QuarantineQuestion {
  readonly endpoint?: string | undefined;
  readonly market?: string | undefined;
  /** Part of the reason, in any case. */
  readonly reason?: string | undefined;
  /** Most samples. */
  readonly limit: number;
}

/** Refused data: counts of all of it, and the newest samples. */
export interface Refused {
  readonly counts: readonly QuarantineCount[];
  readonly rows: readonly QuarantinedRow[];
}

/**
 * Reads what was refused. Counts are of all markets.
 *
 * @param called names of the fields or options, for errors
 * @throws UsageError for an unknown endpoint or market
 */
export async function readRefused(
  { inspection }: Store,
  { endpoint, market, reason, limit }: QuarantineQuestion,
  called: Readonly<Record<'endpoint' | 'market', string>>,
): Promise<Refused> {
  const all = await inspection.quarantineCounts();
  if (endpoint !== undefined && all.length > 0) checkEndpoint(endpoint, all, called.endpoint);
  if (market !== undefined) {
    selectMarkets([market], marketsOf(await inspection.streams()), called.market);
  }
  const given = Object.entries({ endpoint, market, reason });
  const asked = Object.fromEntries(given.filter(([, value]) => value !== undefined));
  const rows = await inspection.quarantined({ ...asked, limit });
  const counts = all.filter(
    (count) =>
      (endpoint === undefined || count.endpoint === endpoint) &&
      (reason === undefined || count.reason.toLowerCase().includes(reason.toLowerCase())),
  );
  return { counts, rows };
}

function checkEndpoint(endpoint: string, counts: readonly QuarantineCount[], called: string): void {
  const known = new Set(counts.map((one) => one.endpoint));
  if (known.has(endpoint)) return;
  const nearest = nearestName(endpoint, known);
  const advice = nearest === undefined ? '' : ` Did you mean ${nearest}?`;
  const there = `nothing of it was refused.${advice} There is: ${[...known].join(', ')}`;
  throw new UsageError(called, endpoint, there);
}

/** One refused piece of data for programs. */
export function refusedDocument({ quarantineId: id, receivedAtMs, ...rest }: QuarantinedRow) {
  return { id, receivedAt: isoMs(receivedAtMs), ...rest };
}

/** Refused data for programs. */
export function quarantineDocument({ counts, rows }: Refused): Answer<'quarantine'> {
  return {
    counts: counts.map(({ lastAtMs, ...count }) => ({ ...count, lastAt: isoMs(lastAtMs) })),
    rows: rows.map(refusedDocument),
  };
}

/** Needs of the answers about the archive as a whole. */
export interface ArchiveDeps {
  /** The archive. @throws TapekeepError while it is not open */
  readonly store: () => Store;
  /** Exchange time. */
  readonly nowMs: () => number;
  /** That the settings make. */
  readonly rules: LifeRules;
}

const FIELDS = { endpoint: 'endpoint', market: 'market' };

/** Answers about partitions and refused data. */
export function archiveHandlers({
  store,
  nowMs,
  rules,
}: ArchiveDeps): Pick<Handlers, 'partitions' | 'quarantine'> {
  return {
    async partitions({ kind }, signal) {
      const dated = await readPartitions(store(), kind?.map(lifeKindOf), rules);
      signal.throwIfAborted();
      return partitionsDocument(dated, nowMs());
    },
    async quarantine(input, signal) {
      const refused = await readRefused(store(), input, FIELDS);
      signal.throwIfAborted();
      return quarantineDocument(refused);
    },
  };
}

function lifeKindOf(word: string): LifeKind {
  const kind = nameMeant(word, LIFE_KINDS);
  if (kind !== undefined) return kind;
  throw new UsageError('kind', word, `write one of ${LIFE_KINDS.join(', ')}`);
}
