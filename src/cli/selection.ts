import { DAY_MS, shownDuration } from '../kernel/durations.js';
import { nearestName } from '../kernel/nearest.js';
import { floorToMs, isEmptySpan, overlapOf, type Span } from '../kernel/span.js';
import { formatInstant } from '../kernel/timestamp.js';
import type { Gap, KnownStream, Store } from '../store/index.js';
import { option, type Values } from './command.js';
import { UsageError } from './failure.js';
import {
  type Instant,
  kindsArgument,
  MARKETS,
  reasonsArgument,
  resolveInstant,
  SPAN,
  statesArgument,
} from './options.js';

/** What the options `--market`, `--from` and `--to` of several commands select. */

/**
 * Those that were named, in the order of `known`; all when none was named.
 *
 * @throws UsageError naming an unknown market, and the nearest known one
 */
export function selectMarkets<T extends { readonly market: string }>(
  names: readonly string[] | undefined,
  known: readonly T[],
  option = '--market',
): T[] {
  if (names === undefined || names.length === 0) return [...known];
  const knownNames = new Set(known.map(({ market }) => market));
  for (const name of names) {
    if (knownNames.has(name)) continue;
    const nearest = nearestName(name, knownNames);
    const shown = name.includes(',')
      ? `: name one with each ${option}`
      : '; "tapekeep status" lists what it holds';
    const advice = nearest === undefined ? shown : `. Did you mean ${nearest}?`;
    throw new UsageError(option, name, `the archive holds nothing of such a market${advice}`);
  }
  return known.filter(({ market }) => names.includes(market));
}

/** One end of a span, and how the command line names it. */
interface SpanEnd {
  readonly name: string;
  /** What was typed, if anything was. */
  readonly given: Instant | undefined;
  readonly atMs: number;
}

const textOf = ({ given, atMs }: SpanEnd) => given?.text ?? new Date(atMs).toISOString();

/** What counts back from now does not say itself which time that is. */
const timeOf = ({ given, atMs }: SpanEnd) =>
  given !== undefined && 'backMs' in given ? ` (${new Date(atMs).toISOString()})` : '';

/**
 * Every span of the command line is looked at here.
 *
 * @param isInclusive whether the end belongs to the span, so that it may be where it begins
 * @throws UsageError when nothing lies between its ends
 */
export function refuseEmptySpan(from: SpanEnd, to: SpanEnd, isInclusive = false): void {
  if (from.atMs < to.atMs || (isInclusive && from.atMs === to.atMs)) return;
  const rule = isInclusive ? 'must not be after' : 'must be before';
  const advice = `it${timeOf(from)} ${rule} ${to.name}, ${textOf(to)}${timeOf(to)}`;
  throw new UsageError(from.name, textOf(from), advice);
}

/**
 * The bounds of a span, as far as they are given.
 *
 * @throws UsageError when the span is empty or ends before it begins
 */
export function selectSpan(
  options: { readonly from: Instant | undefined; readonly to: Instant | undefined },
  nowMs: number,
): Partial<Span> {
  const givenMs = options.from === undefined ? undefined : resolveInstant(options.from, nowMs);
  const fromMs = givenMs === Number.NEGATIVE_INFINITY ? undefined : givenMs;
  const toMs = options.to === undefined ? undefined : resolveInstant(options.to, nowMs);
  if (fromMs !== undefined) {
    const end = toMs === undefined ? "the exchange's time now" : '--to';
    refuseEmptySpan(
      { name: '--from', given: options.from, atMs: fromMs },
      { name: end, given: options.to, atMs: toMs ?? nowMs },
    );
  }
  return { ...(fromMs === undefined ? {} : { fromMs }), ...(toMs === undefined ? {} : { toMs }) };
}

/** The bounds, moved in to what is covered; undefined where none of it lies between them. */
export function clampedTo(bounds: Partial<Span>, covered: Span): Span | undefined {
  const span = overlapOf({ fromMs: -Infinity, toMs: Infinity, ...bounds }, covered);
  return isEmptySpan(span) ? undefined : span;
}

/** The options by which several commands select gaps. */
export const GAP_SELECTION = {
  market: MARKETS,
  kinds: option('--kind, --kinds <list>', 'only these; separate several by commas', kindsArgument),
  ...SPAN,
  state: option('--state <list>', 'only these; separate several by commas', statesArgument),
  reason: option('--reason <list>', 'only these; separate several by commas', reasonsArgument),
};
type GapOptions = Values<typeof GAP_SELECTION>;

/** A market, by its name and by its number in the archive. */
export type NamedMarket = Pick<KnownStream, 'market' | 'marketId'>;

/** One entry for every market that the archive has streams of. */
export function marketsOf(streams: readonly NamedMarket[]): NamedMarket[] {
  const markets = new Map<string, NamedMarket>();
  for (const { market, marketId } of streams) markets.set(market, { market, marketId });
  return [...markets.values()];
}

/** All markets that the archive knows, listed now or not, by name. */
export async function archivedMarkets(store: Store): Promise<readonly NamedMarket[]> {
  return await store.query(
    `SELECT market_id AS "marketId", name AS market FROM market ORDER BY name`,
  );
}

/** The newest candle is final, and asked for, only some time after its end. */
const SETTLING_MS = 60_000;

/** The candle that is not complete yet; undefined for another kind, and where no slot of such a length is known. */
export function openCandle(
  { kind, variant, newestCoveredMs }: Pick<KnownStream, 'kind' | 'variant' | 'newestCoveredMs'>,
  nowMs: number,
): Span | undefined {
  const stepMs = variant * 1000;
  // Slots of more than a day begin where the exchange has them.
  const knownMs = newestCoveredMs ?? (DAY_MS % stepMs === 0 ? 0 : undefined);
  if (kind !== 'candles' || knownMs === undefined) return undefined;
  const fromMs = knownMs + floorToMs(nowMs - SETTLING_MS - knownMs, stepMs);
  return { fromMs, toMs: fromMs + stepMs };
}

/** That a candle is only not complete yet, and until when. */
export function openCandleText({ fromMs, toMs }: Span): string {
  const [from, to] = [fromMs, toMs].map((ms) => formatInstant(Math.floor(ms)));
  return `the candle of ${shownDuration(toMs - fromMs)} that begins at ${from} is not complete before ${to}, and is asked for some time after`;
}

/** A gap without what of it a stream has only not reached yet; undefined where that is all of it. */
export function withoutLag(
  gap: Gap,
  { countedUntilMs, kind, variant }: Pick<KnownStream, 'countedUntilMs' | 'kind' | 'variant'>,
  nowMs: number,
): Gap | undefined {
  const openMs =
    kind === 'candles' ? floorToMs(nowMs - SETTLING_MS, variant * 1000) : Number.POSITIVE_INFINITY;
  const lagFromMs = countedUntilMs ?? openMs;
  const { fromMs, toMs } = gap.span;
  if (gap.gapId !== null || toMs <= lagFromMs) return gap;
  return fromMs >= lagFromMs ? undefined : { ...gap, span: { fromMs, toMs: lagFromMs } };
}

/**
 * The newest gaps that the options select, and the streams that are meant. Those that are only lag are left out: what
 * is newer than all that is covered of a stream, or was asked for in vain, has not been asked for yet, and is no gap.
 *
 * @returns no more than `limit`; `isAll`: whether there are no others
 * @throws UsageError for an unknown market, or a span that ends before it begins
 */
export async function selectGaps(store: Store, options: GapOptions, nowMs: number, limit: number) {
  const { market, kinds, state: states, reason: reasons } = options;
  const all = await store.inspection.streams();
  const chosen = selectMarkets(market, marketsOf(all)).map(({ marketId }) => marketId);
  const { fromMs, toMs } = selectSpan(options, nowMs);
  const isBounded = fromMs !== undefined || toMs !== undefined;
  const span = { fromMs: fromMs ?? 0, toMs: Math.min(nowMs, toMs ?? nowMs) };
  const cutTo = isBounded ? span : undefined;
  const streams = all.filter(
    ({ marketId, kind }) => chosen.includes(marketId) && (kinds?.includes(kind) ?? true),
  );
  const streamOf = new Map(all.map((one) => [one.streamId, one]));
  // Each stream has at most one lag.
  const asked = limit + all.length + 1;
  const marketIds = market === undefined ? undefined : chosen;
  const filter = { marketIds, span: cutTo, kinds, states, reasons, limit: asked };
  const found = await store.listGaps(filter, nowMs);
  const gaps = found.flatMap((gap) => {
    const stream = streamOf.get(gap.streamId);
    return stream === undefined ? [gap] : (withoutLag(gap, stream, nowMs) ?? []);
  });
  // What was cut ends earlier than what it came before.
  gaps.sort((a, b) => b.span.toMs - a.span.toMs);
  const isAll = found.length < asked && gaps.length <= limit;
  return { gaps: gaps.slice(0, limit), isAll, streams, cutTo };
}
