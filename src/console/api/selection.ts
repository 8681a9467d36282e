import { UsageError } from '../../kernel/errors.js';
import { type Instant, readInstant, resolveSpan } from '../../kernel/instants.js';
import { nearestName } from '../../kernel/nearest.js';
import { type Span, spanContains } from '../../kernel/span.js';
import { gapOf, type KnownStream, type Piece, whyOf } from '../../model/explain.js';
import type { StreamKind } from '../../model/series.js';
import type { Gap, GapDetail, Store } from '../../store/index.js';

/** Markets, times and gaps as commands and the API select them. */

/** A market, by its name and by its number in the archive. */
export type NamedMarket = Pick<KnownStream, 'market' | 'marketId'>;

/** One entry for every market that the archive has streams of. */
export function marketsOf(streams: readonly NamedMarket[]): NamedMarket[] {
  const markets = new Map<string, NamedMarket>();
  for (const { market, marketId } of streams) markets.set(market, { market, marketId });
  return [...markets.values()];
}

/**
 * Those that were named, in the order of `known`; all when none was named.
 *
 * @param called the option or field, for errors
 * @throws UsageError naming an unknown market, and the nearest known one
 */
export function selectMarkets<T extends { readonly market: string }>(
  names: readonly string[] | undefined,
  known: readonly T[],
  called: string,
): T[] {
  if (names === undefined || names.length === 0) return [...known];
  const knownNames = new Set(known.map(({ market }) => market));
  for (const name of names) {
    if (knownNames.has(name)) continue;
    const nearest = nearestName(name, knownNames);
    const shown = name.includes(',')
      ? `: name one with each ${called}`
      : '; "tapekeep status" lists what it holds';
    const advice = nearest === undefined ? shown : `. Did you mean ${nearest}?`;
    throw new UsageError(called, name, `unknown market${advice}`);
  }
  return known.filter(({ market }) => names.includes(market));
}

/** All markets that the archive knows, listed now or not, by name. */
export async function archivedMarkets(store: Store): Promise<readonly NamedMarket[]> {
  return await store.query(
    `SELECT market_id AS "marketId", name AS market FROM market ORDER BY name`,
  );
}

/** Names of the fields of a request, for errors. */
const FIELDS = { from: 'from', to: 'to', market: 'market' } as const;

/** @throws UsageError for a text that is no time */
function instantOf(name: string, text: string): Instant {
  const instant = readInstant(text);
  if (instant !== undefined) return instant;
  const form = 'write a time such as 2026-01-31T12:00:00Z, a day, or a duration back from now';
  throw new UsageError(name, text, form);
}

/**
 * The bounds of a request, as far as they are given.
 *
 * @throws UsageError when the span is empty or ends before it begins
 */
export function spanOf(
  { from, to }: { readonly from?: string | undefined; readonly to?: string | undefined },
  nowMs: number,
): Partial<Span> {
  const read = (name: string, text: string | undefined) =>
    text === undefined ? undefined : instantOf(name, text);
  return resolveSpan({ from: read('from', from), to: read('to', to) }, nowMs, FIELDS);
}

/** Selection of gaps; a field that is left out selects all. */
export interface GapQuestion {
  readonly markets?: readonly string[] | undefined;
  readonly kinds?: readonly StreamKind[] | undefined;
  readonly states?: readonly Gap['state'][] | undefined;
  readonly reasons?: readonly string[] | undefined;
  readonly bounds: Partial<Span>;
}

/** Gaps that were found, the newest first. */
export interface SelectedGaps {
  readonly gaps: readonly Gap[];
  /** True: there are no others. */
  readonly isAll: boolean;
  /** That are meant, with or without gaps. */
  readonly streams: readonly KnownStream[];
  /** Gaps are cut to it; undefined: they are whole. */
  readonly cutTo: Span | undefined;
}

/**
 * The newest gaps that a question selects, and the streams that are meant.
 *
 * @param limit most gaps
 * @param called the option or field that names a market, for errors
 * @throws UsageError for an unknown market
 */
export async function selectGaps(
  store: Store,
  { markets, kinds, states, reasons, bounds: { fromMs, toMs } }: GapQuestion,
  nowMs: number,
  limit: number,
  called: string = FIELDS.market,
): Promise<SelectedGaps> {
  const all = await store.inspection.streams();
  const chosen = selectMarkets(markets, marketsOf(all), called).map(({ marketId }) => marketId);
  const isBounded = fromMs !== undefined || toMs !== undefined;
  const span = { fromMs: fromMs ?? 0, toMs: Math.min(nowMs, toMs ?? nowMs) };
  const cutTo = isBounded ? span : undefined;
  const streams = all.filter(
    ({ marketId, kind }) => chosen.includes(marketId) && (kinds?.includes(kind) ?? true),
  );
  const marketIds = markets === undefined || markets.length === 0 ? undefined : chosen;
  const filter = { marketIds, span: cutTo, kinds, states, reasons, limit: limit + 1 };
  const found = await store.listGaps(filter, nowMs);
  return { gaps: found.slice(0, limit), isAll: found.length <= limit, streams, cutTo };
}

/** A number; or a stream and a start, after which an end is ignored. */
const ID = /^(\d{1,15})(?:@(\S{1,30}?)(?:\.\.\S{1,30})?)?$/;

/** Gap that an id stands for now. */
export interface NamedGap {
  readonly stream: KnownStream;
  /** Missing parts; none when it was filled meanwhile. */
  readonly gaps: readonly Gap[];
  /** Memory of it, also of a gap that is filled. */
  readonly memory: GapDetail | null;
}

/** All that the ledger has of a stream, oldest first, so that each piece has its neighbours. */
export async function allPieces(store: Store, stream: KnownStream, atMs: number, nowMs: number) {
  const span = { fromMs: 0, toMs: Math.max(atMs, nowMs) + 1 };
  return await store.inspection.pieces(stream, span, nowMs);
}

/**
 * Gaps by their ids. Each stream is read once.
 *
 * @param called the option or field that has the ids, for errors
 * @throws UsageError for an id that is none, or stands for nothing
 */
export async function findGaps(
  store: Store,
  ids: readonly string[],
  nowMs: number,
  called: string,
  signal: AbortSignal,
): Promise<NamedGap[]> {
  const known = new Map(
    (await store.inspection.streams()).map((stream) => [stream.streamId, stream]),
  );
  const read = new Map<number, readonly Piece[]>();
  const found: NamedGap[] = [];
  for (const id of ids) {
    signal.throwIfAborted();
    const [, number, start] = ID.exec(id.trim()) ?? [];
    if (number === undefined) {
      const form = 'write an id as "tapekeep gaps" shows it: 17, or 12@2026-01-31T12:00:00Z';
      throw new UsageError(called, id, form);
    }
    const memory = start === undefined ? await store.inspection.gap(Number(number)) : null;
    const stream = known.get(start === undefined ? (memory?.streamId ?? 0) : Number(number));
    const atMs = memory === null ? Date.parse(start ?? '') : memory.span.fromMs;
    if (stream === undefined || Number.isNaN(atMs)) {
      const advice = 'no such gap; "tapekeep gaps --all" lists those that are left';
      throw new UsageError(called, id, advice);
    }
    const isPast = atMs <= nowMs;
    const pieces =
      (isPast ? read.get(stream.streamId) : undefined) ??
      (await allPieces(store, stream, atMs, nowMs));
    if (isPast) read.set(stream.streamId, pieces);
    const at = pieces.find(({ span }) => spanContains(span, atMs));
    const own = memory ? pieces.filter(({ gapId }) => gapId === memory.gapId) : at ? [at] : [];
    const gaps = own.flatMap((one): Gap[] => {
      const gap = gapOf(one);
      return gap === null
        ? []
        : [{ ...stream, ...gap, isBeforeHistory: one.state === 'before history' }];
    });
    if (memory === null && gaps.length === 0) {
      const why = at === undefined ? 'no such gap' : whyOf(stream, at, nowMs);
      throw new UsageError(called, id, why);
    }
    found.push({ stream, gaps, memory });
  }
  return found;
}
