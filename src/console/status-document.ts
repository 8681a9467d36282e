import { z } from 'zod';
import { shownDuration } from '../kernel/durations.js';
import { EXCHANGE_KINDS, exchangeKindOf } from '../kernel/exchange-kind.js';
import { formatInstant } from '../kernel/timestamp.js';
import { isPartOfHistory } from '../model/explain.js';
import { incidentsOf } from '../model/incidents.js';
import { MOMENT_STREAMS, type StreamKind, streamsOf, WRITTEN_SERIES } from '../model/series.js';
import { verifiedLagOf } from '../observe/collect-events.js';
import type { RunCountsSnapshot } from '../observe/run-counts.js';
import type {
  ArchiveIdentity,
  CheckTotals,
  Gap,
  GapTotals,
  Holders,
  StreamStatus,
} from '../store/index.js';
import { STATE } from './api/documents.js';
import { REPORT } from './health.js';
import { SHARES, sharesOf } from './shares.js';

/**
 * The status as one document, of a running daemon and of an archive alone: figures are numbers, names
 * end in their unit, times are UNIX milliseconds by the clock of the exchange.
 */

const count = () => z.number().int().min(0);
const seconds = () => z.number().min(0);
const ratio = () => z.number().min(0).max(1);
const KINDS = WRITTEN_SERIES.flatMap(streamsOf).join(', ');
const kind = () => z.string().describe(`one of ${KINDS}`);
const timeMs = () => z.number();

const STREAM = z.object({
  market: z.string().describe('* for a stream of all markets together'),
  kind: kind(),
  intervalS: count().nullable().describe('of candles and states'),
  rows: count().describe('stored'),
  coveredFromMs: timeMs().nullable().describe('start of the oldest covered time range'),
  coveredUntilMs: timeMs().nullable().describe('end of the newest one'),
  lagS: seconds()
    .nullable()
    .describe('time since then; only unsuccessfully requested parts of it count as missing'),
  coveredS: seconds(),
  missingS: seconds().describe(
    'expected and not covered, up to the newest covered or unsuccessfully requested timestamp',
  ),
  unfillableS: seconds().describe('the part of it that cannot be fetched any more'),
  coverageRatio: ratio().nullable().describe('coveredS by coveredS + missingS'),
  gaps: count(),
  openGaps: count().describe('those that may still be filled'),
  beforeHistoryS: seconds().describe('asked for from before the history of the exchange begins'),
  neverAskedS: seconds().describe(
    'between covered spans, and never asked for: what is stored of it is not complete',
  ),
  collectFromMs: timeMs().nullable(),
  isStartKnown: z.boolean().describe('false while the walk back through history goes on'),
  startReason: z.string().nullable(),
  verifiedUntilMs: timeMs().nullable().describe('of candles: held against the trades up to here'),
  mismatches: count().describe('of candles: with which the stored trades do not agree'),
});

const KIND = z.object({
  kind: kind(),
  streams: count(),
  partialStreams: count().describe(
    'of trades: those whose history is not walked back to its start, or cannot be; their share is that of the time since',
  ),
  coverageRatio: ratio().nullable().describe('of all its streams together'),
  lowestCoverageRatio: ratio().nullable().describe('of its least covered stream'),
  timedRatio: ratio().nullable().describe('share of trades with exact time; else null'),
  missingS: seconds(),
  openS: seconds().describe('the part of it that can still be fetched'),
  firstHistory: z
    .object({
      streams: count(),
      fromMs: timeMs().nullable().describe('null: the start of history is not known yet'),
      reachedMs: timeMs().nullable().describe('of the stream that is furthest behind'),
      secondsPerS: seconds().describe('fetched since the archive was made'),
      leftS: seconds().nullable().describe('at this rate'),
    })
    .nullable()
    .describe('while history is fetched for the first time, newest first'),
  expiredUntilMs: timeMs()
    .nullable()
    .describe('older rows are expired, and no share and no gap counts them; null: none'),
});

const GAPS_BY_REASON = z.object({
  kind: kind(),
  reason: z.string(),
  lengthS: seconds(),
  oldestAgeS: seconds(),
});

const LEDGER = z.object({
  atMs: timeMs().describe('when it was read'),
  markets: count(),
  rows: count(),
  coveredS: seconds(),
  missingS: seconds(),
  coverageRatio: ratio()
    .nullable()
    .describe('of all streams together: long histories outweigh what is short'),
  lowestCoverageRatio: ratio().nullable().describe('of the least covered stream'),
  kinds: z.array(KIND).describe('the least covered first'),
  openGaps: z.array(GAPS_BY_REASON).describe('by kind and reason, the longest first'),
  lostGaps: z
    .array(GAPS_BY_REASON)
    .describe('the same of what can never be had, but for what is older than the history'),
  incidents: z
    .array(
      z.object({
        cause: z.string(),
        state: z.string(),
        fromMs: timeMs(),
        toMs: timeMs(),
        streams: count(),
        markets: count(),
      }),
    )
    .describe('the newest gaps of a daemon, those of one cause and time as one'),
  heldPartitions: z
    .array(z.object({ partition: z.string(), heldBy: z.array(z.string()) }))
    .describe('due to be archived or deleted, and held by the transactions of others'),
  shares: SHARES,
  oldestOpenGapAgeS: seconds().nullable(),
  mismatches: count().describe('candles with which the stored trades do not agree'),
  verifiedLagS: seconds()
    .nullable()
    .describe('of the listed market whose shortest candles are furthest behind'),
  streams: z.array(STREAM).describe('the least covered first if their number is limited'),
  streamsLeftOut: count().describe('not listed, by a limit; the figures above count them all'),
});

const ROWS = z.object({
  kind: kind(),
  markets: count().nullable().describe('null for a stream of all markets together'),
  received: count(),
  stored: count(),
  duplicate: count(),
  refused: count().describe(
    'in quarantine: no valid row, or in conflict with what was stored first',
  ),
  lost: count(),
  inFlight: z.number().int(),
  lagS: seconds().nullable().describe('from the newest stored row to now'),
  slowestLagS: seconds().nullable().describe('the same of the market that is furthest behind'),
  openGaps: count(),
  openGapS: seconds(),
  lostGaps: count().describe('of the whole archive, which can never be filled'),
});

const DAEMON = z.object({
  phase: z.string(),
  share: z.string().nullable().describe('of the markets, such as 2/3; null: all of them'),
  heldBy: z.string().nullable().describe('the other daemon that holds the archive; null: this one'),
  standbys: z.array(z.string()).describe('daemons that stand by for this one'),
  isTimeSettled: z.boolean().describe('while false nothing new is covered'),
  isTimeDisputed: z
    .boolean()
    .describe('answers contradict each other: nothing is covered beyond the earlier of the times'),
  timeBasis: z.enum(['exchange', 'local']).describe("local: the exchange's answers carry no Date"),
  markets: count().describe('collected now'),
  wantedMarkets: count().describe('0 until the exchange has listed them'),
  leftOutMarkets: count().describe('listed, but more than streams.markets.max'),
  missingMarkets: z.array(z.string()).describe('named in the settings and not listed'),
  requests: count(),
  requestsPerS: z
    .number()
    .min(0)
    .describe('that go out at most now, by the settings and the exchange'),
  requestsWaiting: count().describe(
    'for their turn; many of them: the settings ask for more than is allowed',
  ),
  stretched: z
    .array(z.object({ stream: z.string(), scheduleS: seconds(), paceS: seconds() }))
    .describe('streams that the request budget lets be polled less often than scheduled'),
  failedRequests: count(),
  lastFailedRequest: z
    .object({
      endpoint: z.string(),
      outcome: z.string(),
      message: z.string(),
      inARow: count().describe('0 when one was answered afterwards'),
    })
    .nullable(),
  standing: z
    .array(
      z.object({
        market: z.string(),
        kind: kind(),
        intervalS: count().nullable(),
        standingS: seconds(),
        reason: z.string(),
        note: z.string(),
      }),
    )
    .describe('streams whose coverage does not grow, the longest first, 100 at most'),
  standingStreams: count().describe('all such streams'),
  rows: z.array(ROWS).describe('since the start, by kind'),
  health: REPORT,
  ready: REPORT,
});

export const STATUS = z.object({
  format: z.literal(1).describe('grows when a name is removed or changes its meaning'),
  version: z.string().describe('of the program'),
  exchange: z.string().nullable(),
  isSandbox: z.boolean().nullable().describe('what it has is made up, or of the past'),
  exchangeKind: z
    .enum(EXCHANGE_KINDS)
    .nullable()
    .describe('null before its first answer, as isSandbox'),
  atMs: timeMs().describe("the exchange's time now"),
  leftOut: z
    .string()
    .nullable()
    .describe(
      'in words: markets and streams of the archive that these settings leave out, so that a daemon with them collects nothing more of them; null: none',
    ),
  archive: LEDGER.nullable().describe('what the archive holds; null until it was counted'),
  daemon: DAEMON.nullable().describe('null when the archive alone was asked'),
  state: STATE.describe('all of it in one sentence'),
});

/** The document but for its headline, which is made of the rest. */
export type StatusDocument = Omit<z.infer<typeof STATUS>, 'state'>;
export type DaemonStatus = z.infer<typeof DAEMON>;
export type ArchiveStatus = z.infer<typeof LEDGER>;
export type StatusStream = z.infer<typeof STREAM>;
/** What a daemon says of itself when asked. */
export type StatusReports = Pick<DaemonStatus, 'health' | 'ready'>;
export type StatusRows = z.infer<typeof ROWS>;

/** The document's own description, as JSON Schema. */
export function statusSchema(): object {
  return { title: 'Status of tapekeep', ...z.toJSONSchema(STATUS, { io: 'input' }) };
}

/** What the ledger says at one time, as it is read. */
export interface LedgerCount {
  readonly atMs: number;
  readonly streams: readonly StreamStatus[];
  readonly gaps: readonly GapTotals[];
  readonly checks: readonly CheckTotals[];
  /** The newest ones; where left out, no incidents are told. */
  readonly newestGaps?: readonly Gap[];
  /** Partitions that others keep from changing their place. */
  readonly held?: readonly { readonly partition: string; readonly heldBy: readonly string[] }[];
  /** Daemons that collect; left out: not looked for. */
  readonly holders?: Holders;
}

/** What of it is wanted. */
export interface StatusSelection {
  readonly markets?: readonly string[] | undefined;
  readonly kinds?: readonly string[] | undefined;
  /** Lists only so many streams, the least covered first; 0: none. */
  readonly worst?: number | undefined;
}

/** Seconds to the millisecond: sums of floats end in others. */
const toMilliseconds = (seconds: number) => Math.round(seconds * 1000) / 1000;
/** Cut, so that whole seconds of it are rounded as those of the milliseconds would be. */
const tenths = (ms: number) => Math.floor(Math.max(0, ms) / 100) / 10;

/** The exchange of an archive; of one that has not answered yet only the name is known. */
export type KnownExchange = Pick<ArchiveIdentity, 'name'> & Partial<ArchiveIdentity>;

/** Program, exchange and time: what stands above all. */
export function statusOf(
  program: string,
  identity: KnownExchange | null,
  atMs: number,
  leftOut: string | undefined,
): Omit<StatusDocument, 'archive' | 'daemon'> {
  const exchange = identity?.name ?? null;
  const isSandbox = identity?.isSandbox ?? null;
  const exchangeKind = isSandbox === null ? null : exchangeKindOf(identity?.identity);
  const of = { format: 1, version: program, exchange, isSandbox, exchangeKind } as const;
  return { ...of, atMs: Math.floor(atMs), leftOut: leftOut ?? null };
}

/** The exchange's name, and what it is where it is no real one. */
export function exchangeText({
  exchange,
  exchangeKind,
}: Pick<StatusDocument, 'exchange' | 'exchangeKind'>): string {
  const isReal = exchangeKind === null || exchangeKind === 'exchange';
  return isReal ? `${exchange}` : `${exchange} (${exchangeKind})`;
}

/** Part of a count, added up; lags are as of the count. */
interface CountedPart
  extends Pick<
    ArchiveStatus,
    'markets' | 'rows' | 'coveredS' | 'missingS' | 'coverageRatio' | 'lowestCoverageRatio'
  > {
  readonly streams: readonly StatusStream[];
  /** The same by {@link byNeed}, once that was asked for. */
  ordered?: readonly StatusStream[];
  readonly kinds: ArchiveStatus['kinds'];
  readonly openGaps: readonly GapsByReason[];
  readonly lostGaps: readonly GapsByReason[];
  readonly incidents: ArchiveStatus['incidents'];
}

function addUp(counted: LedgerCount, { markets, kinds }: StatusSelection): CountedPart {
  const isWanted = ({ market, kind }: { readonly market: string; readonly kind: StreamKind }) =>
    (markets?.includes(market) ?? true) && (kinds?.includes(kind) ?? true);
  const found = counted.streams.filter(isWanted);
  const checkOf = checksByStream(counted);
  const streams = found.map((one) => streamOf(one, checkOf(one), counted.atMs));
  const gaps = counted.gaps.filter(isWanted);
  return {
    streams,
    markets: new Set(streams.map(({ market }) => market)).size,
    rows: streams.reduce((sum, { rows }) => sum + rows, 0),
    ...figuresOf(streams),
    kinds: kindsOf(streams, found),
    openGaps: gapsByReason(gaps, 'open'),
    lostGaps: gapsByReason(gaps, 'unfillable'),
    incidents: shownIncidents((counted.newestGaps ?? []).filter(isWanted)),
  };
}

/** Whole counts that were added up: a daemon shows one many times. */
const wholeCounts = new WeakMap<LedgerCount, CountedPart>();

function partOf(counted: LedgerCount, selection: StatusSelection): CountedPart {
  if (selection.markets !== undefined || selection.kinds !== undefined) {
    return addUp(counted, selection);
  }
  const part = wholeCounts.get(counted) ?? addUp(counted, selection);
  wholeCounts.set(counted, part);
  return part;
}

function listedOf(part: CountedPart, worst: number | undefined): readonly StatusStream[] {
  if (worst === undefined) return part.streams;
  if (worst === 0) return [];
  part.ordered ??= [...part.streams].sort(byNeed);
  return part.ordered.slice(0, worst);
}

const lagOf = (newestCoveredMs: number | null, nowMs: number) =>
  newestCoveredMs === null ? null : tenths(nowMs - newestCoveredMs);

/** Reads off the ledger's count what is wanted. The count is not changed afterwards. */
export function archiveStatus(
  counted: LedgerCount,
  nowMs: number,
  selection: StatusSelection = {},
): ArchiveStatus {
  const part = partOf(counted, selection);
  const { streams, ordered: _, openGaps, lostGaps, ...sums } = part;
  const checks = checksOf(counted, selection);
  const oldestMs = lowest(openGaps.map((one) => one.oldestMs));
  const listed = listedOf(part, selection.worst);
  return {
    atMs: Math.floor(counted.atMs),
    ...sums,
    openGaps: openGaps.map((one) => shownGaps(one, nowMs)),
    lostGaps: lostGaps.map((one) => shownGaps(one, nowMs)),
    heldPartitions: (counted.held ?? []).map((one) => ({ ...one, heldBy: [...one.heldBy] })),
    shares: counted.holders === undefined ? null : sharesOf(counted.holders),
    oldestOpenGapAgeS: oldestMs === null ? null : tenths(nowMs - oldestMs),
    mismatches: checks.reduce((all, one) => all + one.mismatches, 0),
    verifiedLagS: verifiedLagS(checks, nowMs),
    streams: listed.map((one) => ({ ...one, lagS: lagOf(one.coveredUntilMs, nowMs) })),
    streamsLeftOut: streams.length - listed.length,
  };
}

/** Results of holding trades against candles: they speak of both kinds. */
export function checksOf(
  { checks }: LedgerCount,
  { markets, kinds }: Omit<StatusSelection, 'worst'>,
): readonly CheckTotals[] {
  const isOfKinds = kinds?.some((kind) => kind === 'trades' || kind === 'candles') ?? true;
  return isOfKinds ? checks.filter(({ market }) => markets?.includes(market) ?? true) : [];
}

/** Each kind by itself: what is long of one must not hide what is missing of another. */
function kindsOf(
  streams: readonly StatusStream[],
  counted: readonly StreamStatus[],
): ArchiveStatus['kinds'] {
  const kinds = [...new Set(streams.map((one) => one.kind))].map((kind) => {
    const own = streams.filter((one) => one.kind === kind);
    const { coverageRatio, lowestCoverageRatio, missingS } = figuresOf(own);
    const openS = own.reduce((sum, one) => sum + openOf(one), 0);
    const stored = counted.filter((one) => one.kind === kind);
    const rows = stored.reduce((sum, one) => sum + one.rows, 0);
    const timed = stored.reduce((sum, one) => sum + one.timed, 0);
    return {
      ...{ kind, streams: own.length, partialStreams: own.filter(isPartOfHistory).length },
      ...{ coverageRatio, lowestCoverageRatio, missingS, openS: toMilliseconds(openS) },
      firstHistory: firstHistoryOf(own, stored[0]?.ageS ?? 0),
      timedRatio: kind === 'trades' && rows > 0 ? timed / rows : null,
      expiredUntilMs: stored[0]?.expiredUntilMs ?? null,
    };
  });
  return kinds.sort((a, b) => (a.coverageRatio ?? 2) - (b.coverageRatio ?? 2));
}

/** Open time of a stream; what floats leave is none. */
const openOf = ({ missingS, unfillableS }: StatusStream) => Math.max(0, missingS - unfillableS);

/** Shorter ones are no walk through history. */
const WALK_LEAST_S = 60;

/** True if the history of a stream is fetched for the first time: open time lies below all covered time. */
function isFirstWalk(one: StatusStream): boolean {
  const { collectFromMs, coveredFromMs, coveredUntilMs, beforeHistoryS } = one;
  if (MOMENT_STREAMS.has(one.kind as StreamKind)) return false;
  if (collectFromMs === null) return isPartOfHistory(one) && coveredFromMs !== null;
  const reachedMs = coveredFromMs ?? coveredUntilMs ?? Number.POSITIVE_INFINITY;
  const belowS = (reachedMs - collectFromMs) / 1000 - beforeHistoryS;
  return openOf(one) > WALK_LEAST_S && belowS > WALK_LEAST_S;
}

/** How far the first walk through the history of a kind has come. */
function firstHistoryOf(streams: readonly StatusStream[], ageS: number) {
  const own = streams.filter(isFirstWalk);
  if (own.length === 0) return null;
  const froms = own.map(({ collectFromMs }) => collectFromMs);
  const fromMs = froms.includes(null) ? null : lowest(froms.flatMap((ms) => ms ?? []));
  const reached = own.map(({ coveredFromMs }) => coveredFromMs);
  const reachedMs = reached.includes(null) ? null : Math.max(...reached.flatMap((ms) => ms ?? []));
  const secondsPerS = own.reduce((sum, one) => sum + one.coveredS, 0) / Math.max(1, ageS);
  const openS = own.reduce((sum, one) => sum + openOf(one), 0);
  const leftS = fromMs === null || secondsPerS === 0 ? null : openS / secondsPerS;
  return { streams: own.length, fromMs, reachedMs, secondsPerS, leftS };
}

/** Says that, for people. */
export function firstHistoryText({ kind, firstHistory, coverageRatio }: z.infer<typeof KIND>) {
  if (firstHistory === null) return undefined;
  const { fromMs, reachedMs, secondsPerS, leftS } = firstHistory;
  const share = ratioText(coverageRatio);
  return [
    `${kind}: first history is being fetched`,
    fromMs === null ? 'its start is not known yet' : `${share} from ${formatInstant(fromMs)}`,
    reachedMs !== null && `reached ${formatInstant(Math.floor(reachedMs))}`,
    secondsPerS > 0 && `${shownDuration(secondsPerS * 1000)} each second`,
    leftS !== null && `about ${shownDuration(leftS * 1000)} left`,
  ]
    .filter((part) => part !== false)
    .join(', ');
}

const ratioText = (ratio: number | null) =>
  `${(Math.floor((ratio ?? 0) * 10_000) / 100).toFixed(2)}%`;

/** How much of some streams is covered, all together, and of the least covered one. */
function figuresOf(streams: readonly StatusStream[]) {
  const coveredS = toMilliseconds(streams.reduce((sum, one) => sum + one.coveredS, 0));
  const missingS = toMilliseconds(streams.reduce((sum, one) => sum + one.missingS, 0));
  const lowestCoverageRatio = lowest(streams.flatMap(({ coverageRatio }) => coverageRatio ?? []));
  return { coveredS, missingS, coverageRatio: ratioOf(coveredS, missingS), lowestCoverageRatio };
}

const lowest = (figures: readonly number[]) =>
  figures.length === 0 ? null : figures.reduce((a, b) => Math.min(a, b));

function shownGaps({ kind, reason, lengthMs, oldestMs }: GapsByReason, nowMs: number) {
  return { kind, reason, lengthS: tenths(lengthMs), oldestAgeS: tenths(nowMs - oldestMs) };
}

/** Incidents that are listed. */
const INCIDENTS_MAX = 10;

function shownIncidents(gaps: readonly Gap[]): ArchiveStatus['incidents'] {
  const within = gaps.filter(({ isBeforeHistory }) => !isBeforeHistory);
  return incidentsOf(within)
    .slice(0, INCIDENTS_MAX)
    .map(({ cause, state, span, streams, markets }) => ({
      ...{ cause, state, fromMs: Math.floor(span.fromMs), toMs: Math.floor(span.toMs) },
      ...{ streams, markets },
    }));
}

/** A share is cut and not rounded: only what is whole is 1. */
function ratioOf(coveredS: number, missingS: number): number | null {
  const all = coveredS + missingS;
  return all === 0 ? null : Math.floor((coveredS / all) * 1e6) / 1e6;
}

/** Finds the checks of a stream of candles; other streams have none. */
function checksByStream({ checks }: LedgerCount) {
  const found = new Map(checks.map((one) => [`${one.marketId} ${one.intervalS}`, one]));
  return ({ kind, marketId, variant }: StreamStatus): CheckTotals | undefined =>
    kind === 'candles' ? found.get(`${marketId} ${variant}`) : undefined;
}

function streamOf(one: StreamStatus, check: CheckTotals | undefined, nowMs: number): StatusStream {
  const { kind, variant, collectFromMs, newestCoveredMs } = one;
  const coveredS = toMilliseconds(one.coveredS);
  const missingS = toMilliseconds(Math.max(0, one.gapS - one.beforeHistoryS));
  // One literal: an object that is spread together takes several times as long, and there are thousands.
  return {
    market: one.market,
    kind,
    intervalS: variant === 0 ? null : variant,
    rows: one.rows,
    coveredFromMs: one.oldestCoveredMs,
    coveredUntilMs: newestCoveredMs,
    lagS: lagOf(newestCoveredMs, nowMs),
    coveredS,
    missingS,
    unfillableS: toMilliseconds(one.unfillableS),
    coverageRatio: ratioOf(coveredS, missingS),
    gaps: one.gapsWithinHistory,
    openGaps: one.openGaps,
    beforeHistoryS: toMilliseconds(one.beforeHistoryS),
    neverAskedS: toMilliseconds(one.neverAskedS),
    collectFromMs,
    isStartKnown: collectFromMs !== null,
    startReason: one.startReason,
    verifiedUntilMs: check?.judgedUntilMs ?? null,
    mismatches: check?.mismatches ?? 0,
  };
}

/** What needs an eye first: little of it covered, then far behind. What has no share comes last. */
function byNeed(a: StatusStream, b: StatusStream): number {
  const of = ({ coverageRatio, lagS }: StatusStream) => [coverageRatio ?? 2, -(lagS ?? 0)] as const;
  const [[first, behind], [second, than]] = [of(a), of(b)];
  return first - second || behind - than || a.mismatches - b.mismatches;
}

/** How far checks are behind; of a market that is not listed any more nothing is checked, and nothing lags. */
export function checksLagMs(
  { isListed, judgedUntilMs }: CheckTotals,
  nowMs: number,
): number | null {
  return isListed && judgedUntilMs !== null ? Math.max(0, nowMs - judgedUntilMs) : null;
}

function verifiedLagS(totals: readonly CheckTotals[], nowMs: number): number | null {
  const listed = totals.filter(({ isListed }) => isListed);
  const lagMs = verifiedLagOf(listed.map((one) => ({ ...one, lagMs: checksLagMs(one, nowMs) })));
  return lagMs === null ? null : tenths(lagMs);
}

/** Turns the running totals into rows of the status. */
export function statusRows(snapshot: RunCountsSnapshot, exchangeNowMs: number): StatusRows[] {
  const lagS = (ms: number | null) => (ms === null ? null : tenths(exchangeNowMs - ms));
  return snapshot.streams.map((totals) => ({
    kind: totals.stream,
    markets: totals.markets,
    received: totals.received,
    stored: totals.stored + totals.updated,
    duplicate: totals.duplicate + totals.unchanged,
    refused: totals.conflict + totals.rejected,
    lost: totals.lost,
    inFlight: totals.inFlight,
    lagS: lagS(totals.newestMs),
    slowestLagS: lagS(totals.slowestMs),
    openGaps: totals.openGaps,
    openGapS: tenths(totals.openGapMs),
    lostGaps: totals.lostGaps,
  }));
}

/** Missing time of one kind of stream, by why it is missing. */
export type GapsByReason = Pick<GapTotals, 'kind' | 'reason' | 'lengthMs' | 'oldestMs'>;

/** Says who keeps a partition where it is. */
export const heldText = ({ partition, heldBy }: ArchiveStatus['heldPartitions'][number]) =>
  `${partition} cannot be moved or deleted while it is in use by ${heldBy.join('; ')}`;

/** Says what of a kind is expired. */
export const expiredText = ([kind, ms]: readonly [kind: string, untilMs: number]) =>
  `${kind} before ${formatInstant(ms)}`;

/** Gaps by kind and reason, over all markets: those that may still be filled, or those that were given up. */
export function gapsByReason(
  totals: readonly GapTotals[],
  ofState: GapTotals['state'],
): GapsByReason[] {
  const sums = new Map<string, GapsByReason>();
  for (const { kind, state, reason, lengthMs, oldestMs } of totals) {
    if (state !== ofState || lengthMs < 1) continue;
    const key = `${kind} ${reason}`;
    const sum = sums.get(key) ?? { kind, reason, lengthMs: 0, oldestMs };
    sums.set(key, {
      ...sum,
      lengthMs: sum.lengthMs + lengthMs,
      oldestMs: Math.min(sum.oldestMs, oldestMs),
    });
  }
  return [...sums.values()].sort((a, b) => b.lengthMs - a.lengthMs);
}
