import { DAY_MS, intervalText, MINUTE_MS } from '../kernel/durations.js';
import { floorToMs, isEmptySpan, normalizeSpans, overlapOf, type Span } from '../kernel/span.js';
import { formatInstant, isoMs, isoSpan } from '../kernel/timestamp.js';
import type { StartReason, StreamRef } from './batch.js';
import type { GapMemory } from './gap-memories.js';
import { GAP_REASONS, type GapReason } from './gap-reasons.js';
import { MOMENT_STREAMS, SERIES, tableOfStream } from './series.js';

/**
 * Why a time range of a stream is there or missing, and what to do about it. The only place that decides this:
 * commands, the page, exports and replays print its pieces.
 */

/** Tries to find the start of history that led no further. */
export interface StartTries {
  readonly attempts: number;
  readonly reason: GapReason;
  readonly note: string;
  /** Exchange time. */
  readonly nextAttemptAtMs: number;
}

/** A stream with what its coverage reaches. */
export interface KnownStream extends StreamRef {
  readonly market: string;
  /** When the exchange's list lacked the market; null while it is listed. */
  readonly delistedAtMs: number | null;
  readonly oldestCoveredMs: number | null;
  readonly newestCoveredMs: number | null;
  /** End of the time in which gaps are counted; newer time is lag. The newest covered or unsuccessfully requested timestamp. */
  readonly countedUntilMs: number | null;
  readonly startTries: StartTries | null;
  /** Null where the start was chosen, or is not known. */
  readonly startReason: StartReason | null;
  /** Rows from before it are expired, of all markets; null: none are. */
  readonly expiredUntilMs: number | null;
}

/** A gap as the ledger remembers it, or as it follows from what is expected: then without an id and tries. */
export interface KnownGap
  extends Pick<GapMemory, 'gapId' | 'span' | 'reason' | 'note' | 'attempts' | 'nextAttemptAtMs'> {
  readonly state: Exclude<GapMemory['state'], 'filled'>;
  readonly firstSeenAtMs: number | null;
}

/** The ledger of a stream within a time range; lists are sorted by their start. */
export interface StreamFacts {
  readonly stream: KnownStream;
  readonly covered: readonly Span[];
  readonly remembered: readonly KnownGap[];
  /** Asked for by a person, beyond what the settings expect. */
  readonly wanted: readonly Span[];
  /** The exchange's time now. */
  readonly nowMs: number;
}

/** A part of a time range that is alike in all of it. Open, filling and unfillable ones are gaps. */
export interface Piece extends Omit<KnownGap, 'state'> {
  readonly state:
    | KnownGap['state']
    | 'covered'
    | 'expired'
    | 'before history'
    | 'before collecting'
    | 'not listed'
    | 'later';
}

/** The gap that a piece is, or is remembered as; null for any other. */
export function gapOf({ state, ...rest }: Piece): KnownGap | null {
  if (state === 'open' || state === 'filling' || state === 'unfillable') return { ...rest, state };
  return rest.gapId === null ? null : { ...rest, state: 'unfillable' };
}

/**
 * Names a gap for people: by the number of what is remembered, or, where nothing is remembered, by
 * stream and start (`12@2026-01-31T12:00:00Z`). The start stays while a gap is filled from above.
 */
export function gapIdOf({
  gapId,
  streamId,
  span,
}: Pick<KnownGap, 'gapId' | 'span'> & Pick<StreamRef, 'streamId'>): string {
  if (gapId !== null) return String(gapId);
  return `${streamId}@${isoMs(span.fromMs).replace('.000Z', 'Z')}`;
}

/** The pieces that are not covered. */
export function missingOf(pieces: readonly Piece[]): Piece[] {
  return pieces.filter(({ state }) => state !== 'covered');
}

type Layer = readonly (Partial<Piece> & Pick<Piece, 'span' | 'state' | 'reason'>)[];

const BLANK = { gapId: null, note: null, attempts: 0, nextAttemptAtMs: null, firstSeenAtMs: null };
const UNKNOWN: GapReason = 'not collected';
const OLDER: GapReason = 'beyond history';

/** Cuts a time range into pieces, oldest first. What stands first in its layers holds. */
export function explain(facts: StreamFacts, span: Span): Piece[] {
  const { stream } = facts;
  const { kind, collectFromMs, oldestCoveredMs, startReason, expiredUntilMs } = stream;
  // Data that exists only while it happens begins with the first that was seen.
  const unknownMs = MOMENT_STREAMS.has(kind) ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY;
  const startMs = collectFromMs ?? oldestCoveredMs ?? unknownMs;
  const oldestMs = oldestCoveredMs ?? Number.POSITIVE_INFINITY;
  const after = (fromMs: number) => [{ fromMs, toMs: Number.POSITIVE_INFINITY }];
  const before = (toMs: number) => [{ fromMs: Number.NEGATIVE_INFINITY, toMs }];
  const all = after(Number.NEGATIVE_INFINITY);
  const as = (state: Piece['state'], reason: string, spans: readonly Span[]): Layer =>
    spans.map((one) => ({ span: one, state, reason }));
  const lagMs = lagFromMs(stream, facts.nowMs);
  const isWalkedDown = isWalked(stream) && collectFromMs === null;
  // Cut where coverage begins, so that a part means the same in whichever time range it is seen.
  const cutAtOldest = (one: KnownGap): Layer => {
    if (one.reason !== OLDER) return [one];
    const { fromMs, toMs } = one.span;
    const older = { fromMs, toMs: Math.min(toMs, oldestMs) };
    const newer = { fromMs: Math.max(fromMs, oldestMs), toMs };
    const parts: Layer = [
      { ...one, span: older, state: 'before history' },
      { ...one, span: newer },
    ];
    return parts.filter(({ span: part }) => !isEmptySpan(part));
  };
  const layers: readonly Layer[] = [
    as('covered', 'covered', facts.covered),
    facts.remembered.flatMap(cutAtOldest),
    as('expired', 'expired', before(expiredUntilMs ?? Number.NEGATIVE_INFINITY)),
    as('not listed', 'delisted', after(goneAtMs(stream))),
    as('later', UNKNOWN, [
      { fromMs: lagMs, toMs: Math.max(lagMs, facts.nowMs) },
      ...after(Math.max(lagMs, facts.nowMs)),
    ]),
    as(
      'open',
      UNKNOWN,
      normalizeSpans([...facts.wanted, ...(isWalkedDown ? all : after(startMs))]),
    ),
    startReason === null || MOMENT_STREAMS.has(kind)
      ? as('before collecting', 'before collecting', all)
      : as('before history', OLDER, all),
  ];
  let rest: Span[] = [span];
  const pieces = layers.flatMap((layer) => {
    const [taken, left] = take(rest, layer);
    rest = left;
    return taken;
  });
  return pieces.sort((a, b) => a.span.fromMs - b.span.fromMs);
}

/** Splits sorted spans into what lies in a layer and what does not. */
function take(rest: readonly Span[], layer: Layer): [Piece[], Span[]] {
  const taken: Piece[] = [];
  const left: Span[] = [];
  let at = 0;
  for (const { fromMs, toMs } of rest) {
    let lowMs = fromMs;
    while ((layer[at]?.span.toMs ?? toMs) <= fromMs) at += 1;
    for (let next = at; (layer[next]?.span.fromMs ?? toMs) < toMs; next += 1) {
      const one = layer[next] as Layer[number];
      const span = overlapOf(one.span, { fromMs: lowMs, toMs });
      if (isEmptySpan(span)) continue;
      if (lowMs < span.fromMs) left.push({ fromMs: lowMs, toMs: span.fromMs });
      taken.push({ ...BLANK, ...one, span });
      lowMs = span.toMs;
    }
    if (lowMs < toMs) left.push({ fromMs: lowMs, toMs });
  }
  return [taken, left];
}

/** A candle that was open when its market left never closed. */
function goneAtMs({ kind, variant, delistedAtMs: ms }: KnownStream): number {
  if (ms === null) return Number.POSITIVE_INFINITY;
  const stepMs = variant * 1000;
  // Longer ones may begin at any hour or weekday.
  return kind === 'candles' && stepMs < DAY_MS ? floorToMs(ms, stepMs) : ms;
}

/** The newest candle is final, and requested, some time after its end. */
const SETTLING_MS = MINUTE_MS;

/** Time of a stream after which the exchange has nothing to give yet: a candle that is not closed is not missing. */
export function availableUntilMs(
  { kind, variant, newestCoveredMs }: Pick<KnownStream, 'kind' | 'variant' | 'newestCoveredMs'>,
  nowMs: number,
): number {
  if (kind !== 'candles') return nowMs;
  // Slots of more than a day begin where the exchange has them.
  const knownMs = newestCoveredMs ?? 0;
  return knownMs + floorToMs(nowMs - SETTLING_MS - knownMs, variant * 1000);
}

const lagFromMs = (stream: KnownStream, nowMs: number) =>
  stream.countedUntilMs ?? availableUntilMs(stream, nowMs);

/** True if the history of a stream is walked down page by page, until its start is found. */
const isWalked = ({ kind }: { readonly kind: string }) => kind === 'trades';

/** True if the exchange has, or may have, more of a stream than what lies above its start. */
export function isPartOfHistory({
  kind,
  collectFromMs,
  startReason,
}: Pick<KnownStream, 'collectFromMs'> & { kind: string; startReason: string | null }): boolean {
  return isWalked({ kind }) && (collectFromMs === null || startReason === 'history horizon');
}

/** Says what is known of the time before all that a stream has. */
export function startText(stream: KnownStream, nowMs: number): string {
  const { oldestCoveredMs, collectFromMs, startReason, startTries: tries } = stream;
  const startMs = collectFromMs ?? oldestCoveredMs;
  const at = startMs === null ? 'nothing is covered yet' : formatInstant(startMs);
  if (startReason === 'history horizon') {
    return `older history than ${at} exists, but the exchange no longer serves it`;
  }
  if (startReason === 'history begins') return `the exchange's history starts at ${at}`;
  if (!isWalked(stream) || collectFromMs !== null) return `collecting starts at ${at}`;
  const next =
    tries === null
      ? ''
      : `; ${tries.attempts === 1 ? 'the last try' : `the last ${tries.attempts} tries`} led no further (${tries.reason}: ${tries.note}), next try ${tries.nextAttemptAtMs <= nowMs ? 'now' : `at ${formatInstant(Math.floor(tries.nextAttemptAtMs))}`}`;
  return `older history is still being fetched; reached: ${at}${next}`;
}

/** Facts beside the ledger that decide when a gap is tried again. */
export interface Surroundings {
  readonly nowMs: number;
  /** A program writes to the archive. */
  readonly isWritten?: boolean;
  /** Why a daemon with these settings does not collect the stream. */
  readonly leftOut?: string | undefined;
  /** Rows of its time are in files, where none can be added. */
  readonly isArchived?: boolean;
}

/** Names what a gap is of; a text from outside may be in the market. */
type Named = Pick<KnownStream, 'kind' | 'market'>;

/** When a gap is tried again without a person. */
export function nextTryOf({ kind }: Named, gap: Omit<KnownGap, 'span'>, by: Surroundings): string {
  const { state, reason, nextAttemptAtMs: atMs } = gap;
  if (MOMENT_STREAMS.has(kind) || by.isArchived || by.leftOut !== undefined) return 'none';
  if (state === 'unfillable') {
    if (reason === 'delisted') return 'when it is listed';
    return reason === OLDER || kind === 'candles' ? 'hourly' : 'none';
  }
  if (atMs !== null && atMs > by.nowMs) return formatInstant(Math.floor(atMs));
  return by.isWritten === false ? 'at the next start' : 'soon';
}

/** It was, and cannot be asked for later. */
const IS_GONE = 'This data exists only while it happens: it cannot be fetched again.';

/** Says what one piece means, as sentences. @param id of a gap, where it has one by which it is named */
export function whyOf(stream: KnownStream, { span, state, reason }: Piece, nowMs: number): string {
  const { variant, newestCoveredMs, countedUntilMs } = stream;
  const endMs = Math.max(newestCoveredMs ?? 0, countedUntilMs ?? 0);
  switch (state) {
    case 'covered': {
      const isAhead = span.toMs > nowMs + SETTLING_MS;
      const ahead = ' It ends in the future of the exchange clock, and will be revoked.';
      return `Nothing is missing.${isAhead ? ahead : ''}`;
    }
    case 'expired':
      return `Expired: retention deletes all before ${formatInstant(stream.expiredUntilMs ?? span.toMs)}.`;
    case 'before history':
    case 'before collecting':
      return sentence(startText(stream, nowMs));
    case 'later': {
      const candle = openCandle(stream, nowMs);
      if (candle !== undefined && span.fromMs >= candle.fromMs && span.fromMs < nowMs) {
        return `The candle of ${intervalText(variant)} ends at ${formatInstant(Math.floor(candle.toMs))}.`;
      }
      if (span.fromMs >= nowMs) return 'This time has not come yet at the exchange.';
      return `Newer than all that is collected, which ends at ${formatInstant(Math.floor(endMs))}.`;
    }
    default:
      if (reason === UNKNOWN && isWalked(stream) && span.toMs <= (stream.oldestCoveredMs ?? 0)) {
        return sentence(startText(stream, nowMs));
      }
      return GAP_REASONS[(state === 'not listed' ? 'delisted' : reason) as GapReason] ?? '';
  }
}

/** Says what a person can do about a piece; null where nothing helps. @param named how a command names the gap */
export function adviceOn(
  stream: Named,
  { span, state, reason }: Pick<Piece, 'span' | 'state' | 'reason'>,
  by: Surroundings,
  named = `--market ${stream.market}`,
): string | null {
  const { kind, market } = stream;
  const isGone = MOMENT_STREAMS.has(kind);
  const series = SERIES[tableOfStream(kind)];
  const range = () => {
    const { from, to } = isoSpan({ fromMs: Math.floor(span.fromMs), toMs: Math.ceil(span.toMs) });
    return `--from ${from} --to ${to}`;
  };
  if (state === 'covered' || state === 'expired' || state === 'before history') return null;
  if (state === 'not listed' || reason === 'delisted') {
    return `Wait until the exchange lists ${market} again.`;
  }
  if (state === 'later') {
    if (span.fromMs >= by.nowMs) return null;
    return isGone ? `Run a daemon. ${IS_GONE}` : 'A daemon that collects it continues from there.';
  }
  if (isGone) return IS_GONE;
  if (state === 'before collecting') {
    return `Fetch it: tapekeep backfill --market ${market} --kinds ${series.kind} ${range()}`;
  }
  if (by.isArchived) {
    const restore = `Restore its rows first: tapekeep restore --kind ${series.retention} ${range()}`;
    return state === 'unfillable' ? null : restore;
  }
  if (reason === 'refused rows') return `See the rows: tapekeep quarantine --market ${market}`;
  if (state === 'unfillable') return `Try once more: tapekeep gaps fill ${named} --again`;
  const fill = `tapekeep gaps fill ${named}`;
  return by.leftOut === undefined
    ? `A running daemon fetches it. To fetch it now: ${fill}`
    : `${by.leftOut}. Without a daemon: ${fill}`;
}

const sentence = (text: string) => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}.`;

/** The candle that is not complete yet; undefined for another kind, and where no slot of such a length is known. */
function openCandle(
  stream: Pick<KnownStream, 'kind' | 'variant' | 'newestCoveredMs'>,
  nowMs: number,
): Span | undefined {
  const stepMs = stream.variant * 1000;
  const isSlotKnown = stream.newestCoveredMs !== null || DAY_MS % stepMs === 0;
  if (stream.kind !== 'candles' || !isSlotKnown) return undefined;
  const fromMs = availableUntilMs(stream, nowMs);
  return { fromMs, toMs: fromMs + stepMs };
}
