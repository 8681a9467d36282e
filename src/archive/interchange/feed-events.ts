import { SECOND_US } from '../../kernel/durations.js';
import type { RowOf } from '../../model/series.js';

/**
 * The events of hftbacktest, as its documentation of data has them: what a row is in the low bits of
 * `ev`, whom it concerns and when in the high ones.
 */
export const FEED = {
  depth: 1,
  trade: 2,
  depthClear: 3,
  depthSnapshot: 4,
  /** A buyer took it, or a bid changed. */
  buy: 2 ** 29,
  sell: 2 ** 28,
  /** Seen by the exchange at `exch_ts`, and by the local side at `local_ts`. */
  exchange: 2 ** 31,
  local: 2 ** 30,
} as const;

/** A row before it is known in which order the two sides see it. Decimals are text. */
export interface FeedEvent {
  readonly ev: number;
  readonly exchUs: number;
  readonly localUs: number;
  readonly price: string;
  readonly amount: string;
}

/** The book of one instant; levels best first, decimals as text. */
export type BookSides = Pick<
  RowOf<'depth'>,
  'bidPrices' | 'bidAmounts' | 'askPrices' | 'askAmounts'
>;

type Change = Pick<FeedEvent, 'ev' | 'price' | 'amount'>;
type Levels = Map<number, { readonly price: string; readonly amount: string }>;

const NOTHING = '0';

/**
 * Makes of books what changed between them: the first as a whole, in place of whatever the reader
 * has, the others level by level. A level that leaves the depth that is observed goes to zero, so the
 * reader has what the archive has and nothing else.
 */
export class BookChanges {
  #bids: Levels | undefined;
  #asks: Levels | undefined;

  of({ bidPrices, bidAmounts, askPrices, askAmounts }: BookSides): Change[] {
    const [bids, asks] = [levelsOf(bidPrices, bidAmounts), levelsOf(askPrices, askAmounts)];
    const [before, beforeAsks] = [this.#bids, this.#asks];
    this.#bids = bids;
    this.#asks = asks;
    if (before === undefined || beforeAsks === undefined) {
      return [...whole(bids, FEED.buy), ...whole(asks, FEED.sell)];
    }
    // First what is gone: a new level must not meet an old one of the other side.
    return [
      ...gone(before, bids, FEED.buy),
      ...gone(beforeAsks, asks, FEED.sell),
      ...changed(before, bids, FEED.buy),
      ...changed(beforeAsks, asks, FEED.sell),
    ];
  }
}

/** By the number that the reader will see. */
function levelsOf(prices: readonly string[], amounts: readonly string[]): Levels {
  return new Map(
    prices.map((price, index) => [Number(price), { price, amount: amounts[index] ?? NOTHING }]),
  );
}

function whole(levels: Levels, side: number): Change[] {
  const worst = [...levels.values()].at(-1);
  if (worst === undefined) return [];
  const clear = { ev: FEED.depthClear + side, price: worst.price, amount: NOTHING };
  return [
    clear,
    ...[...levels.values()].map((level) => ({ ev: FEED.depthSnapshot + side, ...level })),
  ];
}

function gone(before: Levels, now: Levels, side: number): Change[] {
  return [...before]
    .filter(([key]) => !now.has(key))
    .map(([, { price }]) => ({ ev: FEED.depth + side, price, amount: NOTHING }));
}

function changed(before: Levels, now: Levels, side: number): Change[] {
  return [...now]
    .filter(([key, { amount }]) => Number(before.get(key)?.amount ?? NOTHING) !== Number(amount))
    .map(([, level]) => ({ ev: FEED.depth + side, ...level }));
}

/** Trades as events: the side is the taker's. */
export async function* tradeEvents(
  trades: AsyncIterable<readonly RowOf<'trade'>[]>,
): AsyncGenerator<FeedEvent[]> {
  for await (const batch of trades) {
    yield batch.map(({ side, executedAtUs, tradedAtS, receivedAtMs, price, amount }) => ({
      ev: FEED.trade + (side === 'buy' ? FEED.buy : FEED.sell),
      exchUs: executedAtUs ?? tradedAtS * SECOND_US,
      localUs: Math.round(receivedAtMs * 1000),
      price,
      amount,
    }));
  }
}

/** Observations of the book as events: what changed since the one before. */
export async function* depthEvents(
  books: AsyncIterable<readonly RowOf<'depth'>[]>,
): AsyncGenerator<FeedEvent[]> {
  const changes = new BookChanges();
  for await (const batch of books) {
    for (const book of batch) {
      const exchUs = Math.round(book.observedAtMs * 1000);
      const localUs = Math.round(book.receivedAtMs * 1000);
      yield changes.of(book).map((change) => ({ ...change, exchUs, localUs }));
    }
  }
}
