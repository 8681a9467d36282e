import type { Config } from '../config/schema.js';
import { spanContains } from '../kernel/span.js';
import type { StreamRef } from '../model/batch.js';
import { gapOf, type KnownStream, whyOf } from '../model/explain.js';
import { type StreamKind, streamName } from '../model/series.js';
import { expiredText } from '../status/document.js';
import type { Gap, GapDetail, Store } from '../store/index.js';
import { UsageError } from './failure.js';
import { marketNames, printable } from './output.js';

/**
 * How people name gaps: by the number of what is remembered, or, where nothing is remembered, by
 * stream and start (`12@2026-01-31T12:00:00Z`). The start stays while a gap is filled from above.
 */
export function gapIdOf({ gapId, streamId, span }: Pick<Gap, 'gapId' | 'streamId' | 'span'>) {
  if (gapId !== null) return String(gapId);
  return `${streamId}@${new Date(span.fromMs).toISOString().replace('.000Z', 'Z')}`;
}

const ID = /^(\d{1,15})(?:@(\S+))?$/;

/** What an id stands for now. */
export interface NamedGap {
  readonly stream: KnownStream;
  /** What is missing of it; empty when it was filled meanwhile. */
  readonly gaps: readonly Gap[];
  /** What is remembered, also of a gap that is filled. */
  readonly memory: GapDetail | null;
}

/** All that the ledger has of a stream, oldest first, so that each piece has its neighbours. */
export async function allPieces(store: Store, stream: KnownStream, atMs: number, nowMs: number) {
  const span = { fromMs: 0, toMs: Math.max(atMs, nowMs) + 1 };
  return await store.inspection.pieces(stream, span, nowMs);
}

/** @throws UsageError for an id that is none, or stands for nothing */
export async function findGap(store: Store, id: string, nowMs: number): Promise<NamedGap> {
  const [, number, start] = ID.exec(id.trim()) ?? [];
  if (number === undefined) {
    const form = 'write an id as "tapekeep gaps" shows it: 17, or 12@2026-01-31T12:00:00Z';
    throw new UsageError('<id>', id, form);
  }
  const memory = start === undefined ? await store.inspection.gap(Number(number)) : null;
  const streamId = start === undefined ? memory?.streamId : Number(number);
  const stream = (await store.inspection.streams()).find((one) => one.streamId === streamId);
  const atMs = memory === null ? Date.parse(start ?? '') : memory.span.fromMs;
  if (stream === undefined || Number.isNaN(atMs)) {
    throw new UsageError(
      '<id>',
      id,
      'no such gap; "tapekeep gaps --all" lists those that are left',
    );
  }
  const pieces = await allPieces(store, stream, atMs, nowMs);
  const at = pieces.find(({ span }) => spanContains(span, atMs));
  const found = memory ? pieces.filter(({ gapId }) => gapId === memory.gapId) : at ? [at] : [];
  const gaps = found.flatMap((one): Gap[] => {
    const gap = gapOf(one);
    return gap === null
      ? []
      : [{ ...stream, ...gap, isBeforeHistory: one.state === 'before history' }];
  });
  if (memory === null && gaps.length === 0) {
    const why = at === undefined ? 'no such gap' : whyOf(stream, at, nowMs);
    throw new UsageError('<id>', id, why);
  }
  return { stream, gaps, memory };
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
  return `The settings ${parts.join(', and ')}: a daemon with these settings does not collect that`;
}

/** Why an archive does not grow. @param isWritten whether a daemon holds it all the same */
export function notCollecting(isWritten: boolean): string {
  return isWritten
    ? 'Not collecting: another tapekeep holds the archive and has not started to; see its log.'
    : 'Not collecting: no daemon runs.';
}

/** Kinds of streams of which something from `fromMs` on is expired, with until when. */
export function expiredOf(
  streams: readonly (Pick<KnownStream, 'expiredUntilMs'> & { readonly kind: string })[],
  fromMs = Number.NEGATIVE_INFINITY,
): readonly (readonly [kind: string, untilMs: number])[] {
  const found = streams.flatMap(({ kind, expiredUntilMs: ms }) =>
    ms !== null && fromMs < ms ? [[kind, ms] as const] : [],
  );
  return [...new Map(found)];
}

/** Says that nothing of expired time counts as missing. */
export function expiredLine(expired: ReturnType<typeof expiredOf>): string | undefined {
  if (expired.length === 0) return undefined;
  return `Expired: ${expired.map(expiredText).join(', ')}. No gap and no share counts that time.`;
}

/** A stream and whose it is. */
export function streamText(stream: Pick<KnownStream, 'kind' | 'variant' | 'market'>) {
  return `${streamName(stream)} of ${printable(stream.market)}`;
}
