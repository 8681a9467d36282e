import type { DepthRow, Seen, StateRow, TickerRow } from '../archive/as-of/reader.js';
import type { BookOrder, Depth, StateRecord, Ticker, TickerEntry } from '../contract/resources.js';
import type { Side } from '../contract/values.js';
import { percentChange } from '../kernel/decimal.js';
import { SECOND_MS } from '../kernel/durations.js';
import { type Holding, SeenCache } from './caches.js';
import type { Sight } from './catalog.js';

/** Sets of tickers that are remembered, and snapshots of depth, which may be large. */
const TICKERS_MAX = 64;
const DEPTHS_MAX = 256;
const STATES_MAX = 2048;

interface SeenRow<T> extends Holding {
  readonly row: T | undefined;
}

interface SeenTickers extends Holding {
  readonly rows: ReadonlyMap<number, TickerRow>;
}

export type Observations = ReturnType<typeof observations>;

/** Latest observations, at some times: tickers, depth and states. */
export function observations(sight: Sight) {
  const { asOf } = sight;
  const allTickers = new SeenCache<SeenTickers>(sight, TICKERS_MAX);
  const depths = new SeenCache<SeenRow<DepthRow>>(sight, DEPTHS_MAX);
  const states = new SeenCache<SeenRow<StateRow>>(sight, STATES_MAX);
  return {
    /** The last tickers of these markets, by their ids. */
    async tickers(
      marketIds: readonly number[],
      nowMs: number,
    ): Promise<ReadonlyMap<number, TickerRow>> {
      const seen = await allTickers.get(marketIds.join(' '), nowMs, async (atMs) => {
        const found = await asOf.lastTickers(marketIds, atMs);
        const rows = new Map(found.rows.map((row) => [row.marketId, row]));
        const newestMs = Math.max(0, ...found.rows.map(({ observedAtMs }) => observedAtMs));
        const isWhole = rows.size === marketIds.length;
        return { rows, sinceMs: isWhole ? newestMs : atMs, nextAtMs: found.nextAtMs };
      });
      return seen.rows;
    },
    async depth(marketId: number, nowMs: number): Promise<DepthRow | undefined> {
      const seen = await depths.get(String(marketId), nowMs, async (atMs) => {
        return heldRow(await asOf.lastDepth(marketId, atMs), atMs);
      });
      return seen.row;
    },
    /** @param isUpdate only what the exchange pushed */
    async state(
      marketId: number,
      periodS: number,
      nowMs: number,
      isUpdate: boolean,
    ): Promise<StateRow | undefined> {
      const key = `${marketId} ${periodS} ${isUpdate}`;
      const seen = await states.get(key, nowMs, async (atMs) => {
        return heldRow(await asOf.lastState(marketId, periodS, atMs, isUpdate), atMs);
      });
      return seen.row;
    },
  };
}

/** From when until when a row is the last; where there is none, at the instant asked about. */
function heldRow<T extends { readonly observedAtMs: number }>(
  { row, nextAtMs }: Seen<T>,
  atMs: number,
): SeenRow<T> {
  return { row, sinceMs: row?.observedAtMs ?? atMs, nextAtMs };
}

function figuresOf({ bid, ask, open, high, low, last }: TickerRow, name: string) {
  return { name, bid, ask, open, high, low, last };
}

export function tickerOf(name: string, row: TickerRow): Ticker {
  const { volume, quoteVolume: deal, change } = row;
  return { ...figuresOf(row, name), volume, deal, change };
}

/** With the time that the exchange wrote into it then. */
export function tickerEntryOf(name: string, row: TickerRow): TickerEntry {
  const { atMs, volume: vol, quoteVolume: deal, change } = row;
  return { at: atMs / SECOND_MS, ticker: { ...figuresOf(row, name), vol, deal, change } };
}

export function depthOf(row: DepthRow, limit: number): Depth {
  const side = (prices: readonly string[], amounts: readonly string[]) =>
    prices.slice(0, limit).map((price, at): [string, string] => [price, amounts[at] ?? '0']);
  return {
    asks: side(row.askPrices, row.askAmounts),
    bids: side(row.bidPrices, row.bidAmounts),
  };
}

/**
 * One side of a snapshot as orders. Single orders are not recorded: every price level stands for one,
 * with its place as its id, and without fees or fills.
 */
export function ordersOf(row: DepthRow, market: string, side: Side): BookOrder[] {
  const isBuy = side === 'buy';
  const prices = isBuy ? row.bidPrices : row.askPrices;
  const amounts = isBuy ? row.bidAmounts : row.askAmounts;
  return prices.map((price, at) => {
    const amount = amounts[at] ?? '0';
    return {
      id: 2 * at + (isBuy ? 1 : 2),
      ...{ market, price, amount, left: amount, type: 'limit', side },
      timestamp: row.observedAtMs / SECOND_MS,
      ...{ takerFee: '0', makerFee: '0', dealStock: '0', dealMoney: '0' },
    };
  });
}

/** A record as it was pushed. */
export function updateOf(row: StateRow): StateRecord {
  const { periodS: period, last, open, close, high, low, quoteVolume: deal, volume } = row;
  return { period, last, open, close, high, low, deal, volume };
}

/** A whole record. Updates carried no change: it is what open and last say, in percent. */
export function recordOf(row: StateRow): StateRecord {
  return { ...updateOf(row), change: row.change ?? percentChange(row.open, row.last) };
}
