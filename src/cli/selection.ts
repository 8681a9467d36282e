import { nearestName } from '../kernel/nearest.js';
import { isEmptySpan, overlapOf, type Span } from '../kernel/span.js';
import type { KnownStream } from '../model/explain.js';
import type { Store } from '../store/index.js';
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
    throw new UsageError(option, name, `unknown market${advice}`);
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

/**
 * The newest gaps that the options select, and the streams that are meant.
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
  const marketIds = market === undefined ? undefined : chosen;
  const filter = { marketIds, span: cutTo, kinds, states, reasons, limit: limit + 1 };
  const found = await store.listGaps(filter, nowMs);
  return { gaps: found.slice(0, limit), isAll: found.length <= limit, streams, cutTo };
}
