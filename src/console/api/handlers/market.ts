import { subtractDecimals } from '../../../kernel/decimal.js';
import { intervalText } from '../../../kernel/durations.js';
import { UsageError } from '../../../kernel/errors.js';
import type { Span } from '../../../kernel/span.js';
import { isoMs, isoSpan } from '../../../kernel/timestamp.js';
import { type KnownStream, missingOf } from '../../../model/explain.js';
import { type Store, timestampSql } from '../../../store/index.js';
import type { Answer, Handlers } from '../endpoints.js';
import { archivedMarkets, type NamedMarket, selectMarkets, spanOf } from '../selection.js';

/** Rows of one market: candles, trades and its order book. */

/** Needs of the answers about one market. */
export interface MarketDeps {
  /** The archive. @throws TapekeepError while it is not open */
  readonly store: () => Store;
  /** Exchange time. */
  readonly nowMs: () => number;
}

const UNIT_S = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 } as const;
const LONGEST_INTERVAL_S = 366 * UNIT_S.d;
/** Slots of weeks open on Monday. */
const MONDAY_MS = 4 * UNIT_S.d * 1000;
/** Missing time ranges in one answer, the newest ones. */
const MISSING_MAX = 2000;

/** @throws UsageError */
function readInterval(text: string): number {
  const [, count, unit] = /^(\d{1,5})([smhdw])$/.exec(text) ?? [];
  const seconds = Number(count) * UNIT_S[unit as keyof typeof UNIT_S];
  if (seconds >= 1 && seconds <= LONGEST_INTERVAL_S) return seconds;
  throw new UsageError('interval', text, 'write 1s to 366d, such as 1m, 4h, 1d or 1w');
}

/** @throws UsageError for a market that the archive does not know */
async function marketNamed(store: Store, name: string): Promise<NamedMarket> {
  const [found] = selectMarkets([name], await archivedMarkets(store), 'market');
  if (found === undefined) throw new UsageError('market', name, 'unknown market');
  return found;
}

interface CandleRow {
  readonly openAtMs: number;
  readonly open: string;
  readonly high: string;
  readonly low: string;
  readonly close: string;
  readonly volume: string;
  readonly isComplete: boolean;
  readonly source: 'candles' | 'trades' | 'exchange';
}

const candlesSql = (columns: string, from: string, condition: string) => `
  SELECT open_at, trim_scale(open)::text AS open, trim_scale(high)::text AS high, trim_scale(low)::text AS low,
         trim_scale(close)::text AS close, trim_scale(volume)::text AS volume, ${columns}
  FROM ${from} WHERE ${condition} ORDER BY open_at`;
const ASKED = `$1::text, make_interval(secs => $2::float8), ${timestampSql('$3')}, ${timestampSql('$4')}`;
const CANDLES_OF_TRADES = candlesSql(
  'is_complete, source',
  `analytics.candles(${ASKED}, ${timestampSql('$5')})`,
  'open IS NOT NULL',
);
const CANDLES_OF_EXCHANGE = candlesSql(
  `true AS is_complete, 'exchange' AS source`,
  `analytics.klines(${ASKED})`,
  `state = 'candle'`,
);

type Trades = Answer<'trades'>['trades'];

const tradesSql = (from: string, order: string, limit: string) => `
  SELECT coalesce(executed_at, traded_at) AS at, tid::text AS id, side::text,
         trim_scale(price)::text AS price, trim_scale(amount)::text AS amount
  FROM ${from} ORDER BY ${order} LIMIT ${limit}`;
const NEWEST_TRADES = tradesSql(
  'analytics.trades($1::text)',
  'traded_at DESC, tid DESC',
  '$2::int',
);
const TRADES_BETWEEN = tradesSql(
  `analytics.trades($1::text, ${timestampSql('$2')}, ${timestampSql('$3')})`,
  'traded_at, tid',
  '$4::int',
);

interface StoredTrade extends Omit<Trades[number], 'timeMs'> {
  readonly atMs: number;
}
const shown = ({ atMs, ...trade }: StoredTrade) => ({ timeMs: atMs, ...trade });

/** Runs a statement: of the pool for what is live, else on a connection of its own. */
type Read = <Row extends object>(
  sql: string,
  values: readonly (string | number)[],
) => Promise<Row[]>;
const live =
  (store: Store, signal: AbortSignal): Read =>
  async (sql, values) => {
    signal.throwIfAborted();
    return await store.queryQuick(sql, values);
  };
const alone =
  (store: Store, signal: AbortSignal): Read =>
  async (sql, values) =>
    await store.queryLong(sql, values, signal);

async function readNewest(read: Read, market: string, limit: number): Promise<Trades> {
  return (await read<StoredTrade>(NEWEST_TRADES, [market, limit])).reverse().map(shown);
}

/**
 * The newest trades of a market that trades at present, in the order of time.
 *
 * @throws StoreError for a market that the archive does not know
 */
export async function newestTrades(
  store: Store,
  market: string,
  limit: number,
  signal: AbortSignal,
): Promise<Trades> {
  return await readNewest(live(store, signal), market, limit);
}

interface LevelRow {
  readonly side: 'bid' | 'ask';
  readonly price: string;
  readonly amount: string;
  readonly observedAtMs: number;
}

const levelsSql = (at: string) => `
  SELECT side, trim_scale(price)::text AS price, trim_scale(amount)::text AS amount, observed_at
  FROM analytics.depth_at($1::text, ${at}) WHERE level <= $3::int ORDER BY side, level`;
const BOOK_AT = levelsSql(timestampSql('$2'));
/** The newest book of a week, where nobody looks any more. */
const BOOK_LAST_SEEN = levelsSql(`
  coalesce(analytics.book_seen(analytics.market_id($1::text), ${timestampSql('$2')} - interval '7 days',
                               ${timestampSql('$2')}), 'epoch')`);

/**
 * The order book as it held at a time, or, where nobody looked then, as it was last seen in the week before.
 *
 * @param levels most levels of each side
 * @throws StoreError for a market that the archive does not know
 */
export async function bookOf(
  store: Store,
  market: string,
  atMs: number,
  levels: number,
  signal: AbortSignal,
): Promise<Answer<'book'>> {
  return await readBook(live(store, signal), market, atMs, levels);
}

async function readBook(
  run: Read,
  market: string,
  atMs: number,
  levels: number,
): Promise<Answer<'book'>> {
  const read = (sql: string) => run<LevelRow>(sql, [market, atMs, levels]);
  const held = await read(BOOK_AT);
  const rows = held.length > 0 ? held : await read(BOOK_LAST_SEEN);
  const of = (wanted: LevelRow['side']) =>
    rows.flatMap(({ side, price, amount }): [string, string][] =>
      side === wanted ? [[price, amount]] : [],
    );
  const [bids, asks] = [of('bid'), of('ask')];
  const [bid, ask] = [bids[0]?.[0], asks[0]?.[0]];
  return {
    ...{ market, timeMs: rows[0]?.observedAtMs ?? null, bids, asks },
    spread: bid === undefined || ask === undefined ? null : subtractDecimals(ask, bid),
  };
}

/**
 * The stream of which candles are made: trades, or where none are collected the candles of the exchange.
 *
 * @throws UsageError where neither is collected
 */
async function candleStream(store: Store, { market, marketId }: NamedMarket, intervalS: number) {
  const streams = (await store.inspection.streams()).filter((one) => one.marketId === marketId);
  const candles = streams.filter(({ kind }) => kind === 'candles');
  const found =
    streams.find(({ kind }) => kind === 'trades') ??
    candles.find(({ variant }) => variant === intervalS);
  if (found !== undefined) return found;
  const known = candles.map(({ variant }) => intervalText(variant)).join(', ') || 'none';
  const text = `no trades of ${market} are collected; its candles: ${known}`;
  throw new UsageError('interval', intervalText(intervalS), text);
}

/** Missing time of a stream. */
async function missingOfStream(store: Store, stream: KnownStream, span: Span, nowMs: number) {
  const pieces = await store.inspection.pieces(stream, span, nowMs);
  // Newer time is not missing: it comes.
  const missing = missingOf(pieces).filter(({ state }) => state !== 'later');
  return missing.slice(-MISSING_MAX).map(({ span: { fromMs, toMs }, state, reason }) => ({
    ...{ fromMs, toMs, state, reason },
  }));
}

/** Answers about the rows of one market. */
export function marketHandlers({
  store: open,
  nowMs: now,
}: MarketDeps): Pick<Handlers, 'candles' | 'trades' | 'book'> {
  return {
    async candles({ market, interval, limit, ...bounds }, signal) {
      const store = open();
      const nowMs = now();
      const intervalS = readInterval(interval);
      const named = await marketNamed(store, market);
      const { fromMs: askedMs = 0, toMs = nowMs } = spanOf(bounds, nowMs);
      const fromMs = Math.max(askedMs, toMs - limit * intervalS * 1000);
      const stream = await candleStream(store, named, intervalS);
      const originMs = intervalS % UNIT_S.w === 0 ? MONDAY_MS : 0;
      const values = [market, intervalS, fromMs, toMs];
      const rows =
        stream.kind === 'trades'
          ? await store.queryLong<CandleRow>(CANDLES_OF_TRADES, [...values, originMs], signal)
          : await store.queryLong<CandleRow>(CANDLES_OF_EXCHANGE, values, signal);
      const gaps = await missingOfStream(store, stream, { fromMs, toMs }, nowMs);
      return {
        ...{ market, ...isoSpan({ fromMs, toMs }), intervalS, gaps, isCut: fromMs > askedMs },
        candles: rows.map(({ openAtMs, isComplete, source, ...figures }) => ({
          ...{ timeMs: openAtMs, ...figures },
          isVerified: source === 'candles' ? true : isComplete ? null : false,
        })),
      };
    },

    async trades({ market, limit, ...bounds }, signal) {
      const store = open();
      const nowMs = now();
      await marketNamed(store, market);
      const { fromMs, toMs = nowMs } = spanOf(bounds, nowMs);
      if (fromMs === undefined && bounds.to === undefined) {
        const found = await readNewest(alone(store, signal), market, limit + 1);
        const trades = found.slice(-limit);
        const from = isoMs(Math.floor(trades[0]?.timeMs ?? nowMs));
        return { market, from, to: isoMs(nowMs), trades, isCut: found.length > limit };
      }
      const values = [market, fromMs ?? 0, toMs, limit + 1];
      const found = await store.queryLong<StoredTrade>(TRADES_BETWEEN, values, signal);
      return {
        ...{ market, ...isoSpan({ fromMs: fromMs ?? 0, toMs }), isCut: found.length > limit },
        trades: found.slice(0, limit).map(shown),
      };
    },

    async book({ market, at, levels }, signal) {
      const store = open();
      await marketNamed(store, market);
      const nowMs = now();
      const atMs = at === undefined ? nowMs : (spanOf({ to: at }, nowMs).toMs ?? nowMs);
      return await readBook(alone(store, signal), market, atMs, levels);
    },
  };
}
