import type { Config } from '../config/schema.js';
import { spanContains } from '../kernel/span.js';
import { formatInstant } from '../kernel/timestamp.js';
import type { StreamRef } from '../model/batch.js';
import { GAP_REASONS } from '../model/gap-reasons.js';
import {
  MOMENT_STREAMS,
  type StreamKind,
  seriesOf,
  streamName,
  tableOfStream,
} from '../model/series.js';
import { givenUpText } from '../status/document.js';
import type {
  BeyondPresent,
  CoverageNeighbour,
  Gap,
  GapDetail,
  KnownStream,
  Store,
} from '../store/index.js';
import { UsageError } from './failure.js';
import { marketNames, printable } from './output.js';
import { openCandle, openCandleText, withoutLag } from './selection.js';

/**
 * How people name gaps: by the number of what is remembered, or, where nothing is remembered, by
 * stream and start (`12@2026-01-31T12:00:00Z`). The start stays while a gap is filled from above.
 */
export function gapIdOf({ gapId, streamId, span }: Pick<Gap, 'gapId' | 'streamId' | 'span'>) {
  if (gapId !== null) return String(gapId);
  return `${streamId}@${new Date(span.fromMs).toISOString().replace('.000Z', 'Z')}`;
}

const ID = /^(\d{1,15})(?:@(\S+))?$/;
/** Pieces of one gap that are looked at. */
const PIECES_MAX = 1000;

/** What an id stands for now. */
export interface NamedGap {
  /** What is missing of it; empty when it was filled meanwhile. */
  readonly gaps: readonly Gap[];
  /** What is remembered, also of a gap that is filled. */
  readonly memory: GapDetail | null;
}

/** @throws UsageError for an id that is none, or stands for nothing */
export async function findGap(store: Store, id: string, nowMs: number): Promise<NamedGap> {
  const [, number, start] = ID.exec(id.trim()) ?? [];
  if (number === undefined) {
    const form = 'write an id as "tapekeep gaps" shows it: 17, or 12@2026-01-31T12:00:00Z';
    throw new UsageError('<id>', id, form);
  }
  if (start === undefined) {
    const memory = await store.inspection.gap(Number(number));
    if (memory === null) throw noSuchGap(id);
    const { marketId, span } = memory;
    const gaps = await store.listGaps({ marketIds: [marketId], span, limit: PIECES_MAX }, nowMs);
    return { gaps: gaps.filter(({ gapId }) => gapId === memory.gapId), memory };
  }
  const atMs = Date.parse(start);
  const streams = await store.inspection.streams();
  const stream = streams.find(({ streamId }) => streamId === Number(number));
  if (Number.isNaN(atMs) || stream === undefined) throw noSuchGap(id);
  const shown = (one: Gap) => withoutLag(one, stream, nowMs) ?? one;
  const gap = await gapAt(store, stream, atMs, nowMs, shown);
  if (typeof gap === 'string') throw new UsageError('<id>', id, gap);
  return { gaps: [gap], memory: gap.gapId === null ? null : await store.inspection.gap(gap.gapId) };
}

function noSuchGap(id: string): UsageError {
  const advice = 'there is no such gap; "tapekeep gaps --all" lists those that are left';
  return new UsageError('<id>', id, advice);
}

/** The gap of one stream that holds a time; why there is none, when nothing is missing there. */
async function gapAt(
  store: Store,
  stream: KnownStream,
  atMs: number,
  nowMs: number,
  meant: (gap: Gap) => Gap | undefined,
): Promise<Gap | string> {
  const { marketId, streamId, kind } = stream;
  const instant = { fromMs: atMs + 1, toMs: atMs + 1 };
  const { before, after } = await store.inspection.neighbours({ ...stream, span: instant });
  const span = { fromMs: before?.span.toMs ?? 0, toMs: after?.span.fromMs ?? nowMs };
  if (span.fromMs <= atMs && span.fromMs < span.toMs) {
    const filter = { marketIds: [marketId], kinds: [kind], span, limit: PIECES_MAX };
    const gaps = await store.listGaps(filter, nowMs);
    const gap = gaps
      .flatMap((one) => (one.streamId === streamId ? (meant(one) ?? []) : []))
      .find((one) => spanContains(one.span, atMs));
    if (gap !== undefined) return gap;
  }
  return `${streamText(stream)}: ${await whyNoGap(store, stream, before, atMs, nowMs)}`;
}

/** The gaps at a time, one for each stream that has one; and of the other streams, why they have none. */
export async function findGapsAt(
  store: Store,
  streams: readonly KnownStream[],
  atMs: number,
  nowMs: number,
): Promise<{ readonly gaps: readonly Gap[]; readonly others: readonly string[] }> {
  const gaps: Gap[] = [];
  const others: string[] = [];
  for (const stream of streams) {
    const gap = await gapAt(store, stream, atMs, nowMs, (one) => withoutLag(one, stream, nowMs));
    if (typeof gap === 'string') others.push(gap);
    else gaps.push(gap);
  }
  return { gaps, others };
}

/** What a reason means; undefined for one that is not known here. */
export function reasonWords(reason: string): string | undefined {
  return (GAP_REASONS as Readonly<Record<string, string>>)[reason];
}

/** Whether a daemon with these settings collects a stream, if it collects its market. */
export function isSwitchedOn(
  { streams }: Pick<Config, 'streams'>,
  { kind, variant }: Pick<StreamRef, 'kind' | 'variant'>,
): boolean {
  const { trades, candles, states } = streams;
  const isOn: Readonly<Partial<Record<StreamKind, boolean>>> = {
    trades: trades.enabled,
    candles: candles.enabled && candles.intervalsS.includes(variant),
    states: states.enabled && states.periodsS.includes(variant),
    depth: streams.depth.enabled,
    tickers: streams.tickers.enabled,
  };
  // A series that no setting knows is collected by what made it.
  return isOn[kind] ?? true;
}

/** What of the archive the settings leave out: a daemon with them does not go on with it. */
export function leftOutText(
  settings: Pick<Config, 'markets' | 'streams'>,
  known: readonly Pick<KnownStream, 'market' | 'kind' | 'variant'>[],
): string | undefined {
  const { markets } = settings;
  const isNamed = (market: string) => markets.length === 0 || markets.includes(market);
  const others = new Set(known.flatMap(({ market }) => (isNamed(market) ? [] : [market])));
  const off = known.filter((one) => isNamed(one.market) && !isSwitchedOn(settings, one));
  const parts = [
    ...(others.size === 0 ? [] : [`do not name ${marketNames([...others])} (setting "markets")`]),
    ...(off.length === 0 ? [] : [`switch off ${[...new Set(off.map(streamName))].join(', ')}`]),
  ];
  if (parts.length === 0) return undefined;
  return `The settings ${parts.join(', and ')}: a daemon with these settings collects nothing more of that`;
}

/** Why an archive does not grow. @param isWritten whether a daemon holds it all the same */
export function notCollecting(isWritten: boolean): string {
  return isWritten
    ? 'Nothing collects at present: a program holds the archive that does not collect, or not yet; a daemon that waits for the exchange says so in its log and on its status page.'
    : 'Nothing collects at present.';
}

/** Kinds of streams of which retention gave up something from `fromMs` on, with until when. */
export function givenUpOf(
  streams: readonly (Pick<KnownStream, 'givenUpUntilMs'> & { readonly kind: string })[],
  fromMs = Number.NEGATIVE_INFINITY,
): readonly (readonly [kind: string, untilMs: number])[] {
  const found = streams.flatMap(({ kind, givenUpUntilMs: ms }) =>
    ms !== null && fromMs < ms ? [[kind, ms] as const] : [],
  );
  return [...new Map(found)];
}

/** Says that of what was given up nothing is missed. */
export function givenUpLine(givenUp: ReturnType<typeof givenUpOf>): string | undefined {
  if (givenUp.length === 0) return undefined;
  return `Given up by retention: ${givenUp.map(givenUpText).join(', ')}; no gap and no share counts that time.`;
}

/** A stream and whose it is. */
export function streamText(stream: Pick<KnownStream, 'kind' | 'variant' | 'market'>) {
  return `${streamName(stream)} of ${printable(stream.market)}`;
}

/** Why history that exists cannot be asked for. */
export const HORIZON_WHY =
  'the exchange serves only its newest trades, those that it has not forgotten or those of its newest page (docs/guides/gaps.md)';

/** What became of going on down while the start of history is not known: the rest of a sentence, or nothing. */
function startTriesText({ startTries }: Pick<KnownStream, 'startTries'>, nowMs: number): string {
  if (startTries === null) return '';
  const { attempts, reason, note, nextAttemptAtMs } = startTries;
  const tries = attempts === 1 ? 'the last try' : `the last ${attempts} tries`;
  const next =
    nextAttemptAtMs <= nowMs
      ? 'another is due'
      : `next try at ${formatInstant(Math.floor(nextAttemptAtMs))}`;
  return `; ${tries} led no further (${printable(reason)}: ${printable(note)}), ${next}`;
}

/**
 * What the exchange has of a stream before all that is covered: see {@link isPartOfHistory}.
 *
 * @param before gaps from before history, as a backfill finds them where the walk has not come to yet
 */
export function unreachedText(
  stream: KnownStream,
  nowMs: number,
  before: readonly Pick<Gap, 'streamId'>[] = [],
): string {
  const { market, kind, oldestCoveredMs: ms, collectFromMs } = stream;
  const name = `${printable(market)} ${kind}`;
  if (stream.startReason === 'history horizon') {
    const edge = formatInstant(collectFromMs ?? ms ?? 0);
    return `${name}: history before ${edge} exists and cannot be had: ${HORIZON_WHY}`;
  }
  if (ms !== null && before.some(({ streamId }) => streamId === stream.streamId)) {
    return `${name}: the start of history is not certain yet: nothing was shown below ${formatInstant(ms)} when that was asked for, and the walk of a daemon looks there again${startTriesText(stream, nowMs)}`;
  }
  const where =
    ms === null
      ? 'nothing is covered yet'
      : `the walk is at ${formatInstant(ms)}, and a daemon goes on down from there`;
  return `${name}: the start of history is not reached yet: ${where}; how much is before that is not known${startTriesText(stream, nowMs)}`;
}

/**
 * When a gap is tried again without a person. No process tries while nothing collects.
 *
 * @param by the settings with which a daemon would try it, and whether one collects now
 */
export function nextTryText(
  gap: Pick<Gap, 'market' | 'kind' | 'variant' | 'state' | 'reason' | 'nextAttemptAtMs'>,
  by: { readonly config: Config; readonly isWritten: boolean },
  nowMs: number,
): string {
  const { kind, state, reason, nextAttemptAtMs } = gap;
  if (MOMENT_STREAMS.has(kind)) return 'none';
  if (leftOutText(by.config, [gap]) !== undefined) return 'none with these settings';
  if (state === 'unfillable') {
    if (reason === 'delisted') return 'once the market is listed again';
    const isAsked = reason === 'beyond history' || kind === 'candles';
    return isAsked ? 'every hour while a daemon runs' : 'none';
  }
  if (nextAttemptAtMs !== null && nextAttemptAtMs > nowMs) {
    return formatInstant(Math.floor(nextAttemptAtMs));
  }
  return by.isWritten ? 'when the rate limit allows' : 'at the next start';
}

/** What is covered beyond the exchange's present, in words. */
export function suspectText({ span }: Pick<BeyondPresent, 'span'>): string {
  const [from, to] = [span.fromMs, span.toMs].map(formatInstant);
  return `covered from ${from} to ${to}, and that time had not come at the exchange when its collector last noted it: suspect, a clock has lied; a running daemon takes it back`;
}

/** What becomes of time that a stream has not reached. */
function goesOnText({ isListed, kind }: KnownStream): string {
  if (!isListed) return 'a daemon goes on once the exchange lists the market again';
  return MOMENT_STREAMS.has(kind)
    ? 'what no daemon sees of it is lost, and is listed once one collects it again'
    : 'a daemon that collects it goes on from there';
}

/**
 * Why a stream has no gap at a time: the time is covered, or newer than all that is collected,
 * or was never asked for. Each calls for something else.
 */
async function whyNoGap(
  store: Store,
  stream: KnownStream,
  before: CoverageNeighbour | null,
  atMs: number,
  nowMs: number,
): Promise<string> {
  const { streamId, newestCoveredMs, oldestCoveredMs, collectFromMs, kind } = stream;
  if (before !== null && before.span.toMs > atMs) {
    const { fromMs, toMs } = before.span;
    const beyond = await store.beyondPresent();
    const future = beyond.find((one) => one.streamId === streamId && one.span.toMs > atMs);
    if (future !== undefined && future.span.fromMs <= atMs) return suspectText(future);
    return `nothing is missing there, all is covered from ${formatInstant(fromMs)} to ${formatInstant(toMs)}`;
  }
  const candle = openCandle(stream, nowMs);
  if (candle && atMs <= nowMs && spanContains(candle, atMs)) return openCandleText(candle);
  if (newestCoveredMs !== null && atMs >= newestCoveredMs) {
    const endMs = Math.max(newestCoveredMs, stream.countedUntilMs ?? 0);
    if (atMs > nowMs || atMs < endMs) {
      const listed = endMs > atMs ? `; it is listed as missing up to ${formatInstant(endMs)}` : '';
      return `that time has not come yet at the exchange${listed}`;
    }
    const whole = endMs > newestCoveredMs ? 'is collected or listed as missing' : 'is collected';
    return `that is newer than all that ${whole}, which ends at ${formatInstant(endMs)}; ${goesOnText(stream)}`;
  }
  const { givenUpUntilMs } = stream;
  if (givenUpUntilMs !== null && atMs < givenUpUntilMs) {
    return `given up by retention, which keeps nothing from before ${formatInstant(givenUpUntilMs)}; it is not collected again`;
  }
  if (oldestCoveredMs === null) return 'nothing is covered yet';
  const start = formatInstant(oldestCoveredMs);
  if (kind === 'trades' && collectFromMs === null) {
    return `not collected as far back as that yet; a running daemon goes on down from ${start}${startTriesText(stream, nowMs)}`;
  }
  if (stream.startReason === 'history horizon') {
    return `history before ${start} exists and cannot be had: ${HORIZON_WHY}`;
  }
  if (stream.startReason === 'history begins') {
    return `the exchange's history begins at ${formatInstant(collectFromMs ?? oldestCoveredMs)}`;
  }
  const series = seriesOf(tableOfStream(kind));
  const advice = series.isFetchable
    ? `"tapekeep backfill --market ${printable(stream.market)} --kinds ${series.kind} --from …" asks for it`
    : 'it could only be seen at its moment';
  return `never collected of that time, collecting begins at ${formatInstant(collectFromMs ?? oldestCoveredMs)}; ${advice}`;
}
