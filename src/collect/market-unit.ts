import type { Clock } from '../kernel/clock.js';
import type { Random } from '../kernel/random.js';
import { floorToMs } from '../kernel/span.js';
import type { StreamRef } from '../model/batch.js';
import { RANGES_MAX } from '../model/covered-ranges.js';
import type { StreamKind } from '../model/series.js';
import { Share } from '../model/share.js';
import type { CollectEvents } from '../observe/events.js';
import { CandleCollector } from './candles/candles.js';
import type { Ledgers } from './ledgers.js';
import type { ArchivePort, ClaimTime, ExchangePort, OpenStateFeed } from './ports.js';
import { DepthCollector } from './snapshot.js';
import { StateCollector, type StateWatch } from './states.js';
import type { MarketTicker, TickerCollector } from './tickers.js';
import type { TradeEvidence } from './trades/evidence.js';
import type { OffsetKnowledge } from './trades/offset-mode.js';
import { PushedTrades } from './trades/pushed.js';
import { historySource, resultSource } from './trades/source.js';
import type { Traits } from './trades/walk.js';
import { TradeWalker } from './trades/walker.js';

/** What collecting needs of the rest of a daemon. */
export interface CollectPorts {
  readonly settings: CollectSettings;
  readonly exchange: ExchangePort;
  readonly archive: ArchivePort;
  readonly openStateFeed: OpenStateFeed;
  readonly time: ClaimTime;
  readonly clock: Clock;
  readonly random: Random;
  readonly telemetry: CollectEvents;
  /**
   * Restricts collecting to requests: of these streams only what is requested is filled, whatever the ledger expects.
   * New streams are made as the settings say all the same: a later start expects the same of them. Left out: everything
   * that the settings name is collected.
   */
  readonly only?: StreamFilter | undefined;
  /** Share of the markets that is collected. The first one keeps the tickers of all. Left out: all markets. */
  readonly share?: Share | undefined;
}

type StreamFilter = (market: string, kind: StreamKind, variant: number) => boolean;

/** What every collector of one daemon shares. */
export interface CollectContext extends CollectPorts {
  /** Called when a page shows a trade that should have been pushed; left out: none are. */
  readonly onUnpushed?: ((market: string, tradedMs: number) => void) | undefined;
  readonly ledgers: Ledgers;
  readonly traits: Traits;
  readonly offsets: OffsetKnowledge;
  /** What other sources show of each market's newest trades. */
  readonly evidenceOf: (market: string) => TradeEvidence;
  /** Called with what the state feeds report of trades. */
  readonly watch: StateWatch;
  /** Longest time between two depth snapshots that still counts as on schedule. */
  readonly depthToleranceMs: number;
  /** Asks for the tickers of all markets; left out: none are collected. */
  readonly tickers?: TickerCollector | undefined;
}

/** Everything that is collected of one market. */
export interface MarketUnit {
  readonly market: string;
  readonly marketId: number;
  readonly trades: TradeWalker | undefined;
  /** Pushed trades of the market. */
  readonly pushed: PushedTrades | undefined;
  readonly depth: DepthCollector | undefined;
  readonly ticker: MarketTicker | undefined;
  readonly candles: readonly CandleCollector[];
  readonly states: readonly StateCollector[];
}

/** Age up to which a response may come from a cache: exchanges cache for a second. This much is not claimed yet. */
const CACHE_MARGIN_MS = 2000;
/**
 * Time that an exchange keeps a trade in its history at least. A market without trades is covered between two empty
 * responses no further apart than this: a restart fits in, a night does not.
 */
const KEPT_AT_LEAST_MS = 900_000;
/** Final candles that are read again: exchanges correct the newest minutes. */
const REREADS = 3;

/** Prepares the collectors of one market: its streams in the archive and what they hold already. */
export async function openMarketUnit(
  context: CollectContext,
  market: string,
  marketId: number,
): Promise<MarketUnit> {
  const { settings, archive, ledgers, time, only, share = Share.whole } = context;
  const isOnRequest = only !== undefined;
  const isOwn = share.has(market);
  const isChosen = (kind: StreamKind, variant: number) =>
    share.keeps({ kind, market }) && (only?.(market, kind, variant) ?? true);
  const { trades, depth, states } = settings.streams;
  const openStream = async (kind: StreamKind, variant: number, collectFromMs?: number) => {
    const key = { kind, marketId, variant, ...(collectFromMs !== undefined && { collectFromMs }) };
    const expected = isOnRequest ? { collectFromMs: kind === 'candles' ? null : nowMs } : {};
    const ledger = await ledgers.open(market, key, expected);
    const { stream, covered } = ledger;
    return { ledger, stream, archive: ledger.archive, ranges: covered.all };
  };
  /** Opens what can only be observed live. Nothing covered yet: what passes before the first look is missed. */
  const openLive = async (kind: 'depth' | 'tickers' | 'states', variant: number) => {
    const { ledger } = await openStream(kind, variant, nowMs);
    const backMs = await listedAgainMs(archive, ledger.stream, nowMs);
    if (backMs !== undefined) ledger.missedUntil(backMs);
    return { ledger };
  };
  const shared = { ...context, market, marketId };
  const nowMs = Math.floor(time.nowMs());

  let walker: TradeWalker | undefined;
  let pushed: PushedTrades | undefined;
  if (trades.enabled && isChosen('trades', 0)) {
    const { exchange, onUnpushed, traits } = context;
    // Trades are covered in whole seconds.
    const floorMs = trades.history === 'all' ? undefined : floorToMs(nowMs - trades.history, 1000);
    const isAllWanted = floorMs === undefined && !isOnRequest;
    const { ranges, ...own } = await openStream('trades', 0, floorMs);
    pushed = onUnpushed && new PushedTrades((tradedMs) => onUnpushed(market, tradedMs));
    const history = historySource(exchange);
    const hasResult = exchange.offers('historyResult');
    const options = {
      ...{ ...shared, ...own, pushed, traits, isAllWanted, isOnRequest },
      source: hasResult ? resultSource(exchange) : history,
      timed: hasResult && trades.exactTimes ? history : undefined,
      evidence: context.evidenceOf(market),
      ...{ cacheMarginMs: CACHE_MARGIN_MS, keptAtLeastMs: KEPT_AT_LEAST_MS },
    };
    const hasTrades = (await archive.storedAbove(marketId, 0)) > 0;
    walker = new TradeWalker(options, ranges, hasTrades);
  }

  let depthCollector: DepthCollector | undefined;
  if (depth.enabled && isOwn) {
    const own = { ...(await openLive('depth', 0)), levels: depth.levels };
    const toleranceMs = context.depthToleranceMs;
    depthCollector = new DepthCollector({ ...shared, ...own, toleranceMs });
  }

  const tickers = share.keeps({ kind: 'tickers', market }) ? context.tickers : undefined;
  const ticker = tickers?.follow({ market, marketId, ...(await openLive('tickers', 0)) });

  const candles: CandleCollector[] = [];
  const coveredTrades = walker && (() => walker.covered);
  const collected = settings.streams.candles;
  const filter = { marketIds: [marketId], kinds: ['candles'] as const, limit: RANGES_MAX };
  const stalled = { states: ['unfillable'], reasons: ['walk stalled'] } as const;
  const lost =
    collected.enabled && isOwn ? await archive.listGaps({ ...filter, ...stalled }, nowMs) : [];
  // The shortest first: no long wait for a longer one stands before it.
  const intervalsS = [...(collected.enabled ? collected.intervalsS : [])]
    .filter((intervalS) => isChosen('candles', intervalS))
    .sort((a, b) => a - b);
  for (const intervalS of intervalsS) {
    const fromMs = floorToMs(nowMs - collected.history, intervalS * 1000);
    const { ranges, ...opened } = await openStream('candles', intervalS, fromMs);
    const { stream } = opened;
    const { grace: graceMs } = collected;
    const isFinest = intervalS === intervalsS[0];
    const ofStream = lost.filter(({ streamId }) => streamId === stream.streamId);
    const givenUp = ofStream.map(({ span }) => span);
    const own = { intervalS, coveredTrades, givenUp, graceMs, rereads: REREADS, isFinest };
    candles.push(new CandleCollector({ ...shared, ...opened, ...own }, ranges));
  }

  const stateCollectors: StateCollector[] = [];
  // In the longest window the fewest trades leave it: its changes show new ones most surely.
  const watchedS = Math.max(...states.periodsS);
  for (const periodS of states.enabled && isOwn ? states.periodsS : []) {
    const opened = await openLive('states', periodS);
    const openFeed = (coveredUntilMs?: number) =>
      context.openStateFeed(market, periodS, coveredUntilMs);
    const watch = periodS === watchedS ? context.watch : undefined;
    const own = { ...opened, periodS, openFeed, watch };
    stateCollectors.push(new StateCollector({ ...shared, ...own }));
  }
  return {
    market,
    marketId,
    trades: walker,
    pushed,
    depth: depthCollector,
    ticker,
    candles,
    states: stateCollectors,
  };
}

/** Newest gaps of one stream that are looked through for the end of a delisting. */
const NEWEST_GAPS = 10;

/** When a stream's market came back to the list, as far as is remembered; exchange milliseconds. */
async function listedAgainMs(
  archive: ArchivePort,
  { streamId, marketId, kind }: StreamRef,
  nowMs: number,
): Promise<number | undefined> {
  const filter = { marketIds: [marketId], kinds: [kind], limit: NEWEST_GAPS };
  const gaps = await archive.listGaps(filter, nowMs);
  const away = gaps.find((gap) => gap.streamId === streamId && gap.reason === 'delisted');
  return away?.span.toMs;
}

/**
 * What the collectors need to know from the configuration. The composition root passes the sections
 * of the same shape. All durations in milliseconds.
 */
export interface CollectSettings {
  /** Markets to collect; empty for all that the exchange lists. */
  readonly markets: readonly string[];
  readonly streams: {
    readonly markets: { readonly schedule: string; readonly max: number };
    readonly trades: {
      readonly enabled: boolean;
      readonly schedule: string;
      readonly exactTimes: boolean;
      /** How far back history is walked from the first start; 0 for not at all. */
      readonly history: number | 'all';
    };
    readonly depth: {
      readonly enabled: boolean;
      readonly schedule: string;
      readonly levels: number;
    };
    readonly tickers: { readonly enabled: boolean; readonly schedule: string };
    readonly candles: {
      readonly enabled: boolean;
      readonly schedule: string;
      readonly intervalsS: readonly number[];
      readonly history: number;
      readonly grace: number;
    };
    readonly states: { readonly enabled: boolean; readonly periodsS: readonly number[] };
  };
}
