import type { DepthJson } from '../../store/index.js';
import { BookChanges, FEED, type FeedEvent } from './feed-events.js';
import { linesOf, MomentReader, type TradeLine } from './text-rows.js';

/** Trades as events: the side is the taker's. */
export async function* tradeEvents(
  trades: AsyncIterable<readonly TradeLine[]>,
): AsyncGenerator<FeedEvent[]> {
  for await (const batch of trades) {
    yield batch.map(({ side, atUs, receivedUs, price, amount }) => ({
      ev: FEED.trade + (side === 'buy' ? FEED.buy : FEED.sell),
      exchUs: atUs,
      localUs: receivedUs,
      price,
      amount,
    }));
  }
}

/** Observations of the book as events: what changed since the one before. @param pieces form `json` */
export async function* depthEvents(pieces: AsyncIterable<Buffer>): AsyncGenerator<FeedEvent[]> {
  const changes = new BookChanges();
  const [observed, received] = [new MomentReader(), new MomentReader()];
  for await (const lines of linesOf(pieces)) {
    for (const line of lines) {
      const row = JSON.parse(line) as DepthJson;
      const exchUs = observed.us(row.observed_at);
      const localUs = received.us(row.received_at);
      const sides = { bidPrices: row.bid_prices, bidAmounts: row.bid_amounts };
      const book = { ...sides, askPrices: row.ask_prices, askAmounts: row.ask_amounts };
      yield changes.of(book).map((change) => ({ ...change, exchUs, localUs }));
    }
  }
}
