import { multiplyDecimals } from '../../kernel/decimal.js';
import { SECOND_US } from '../../kernel/durations.js';
import { type MergedKind, rowPlaces, tableOfKind, timeColumnOf } from '../../model/kinds.js';
import { shortest } from '../parquet/texts.js';
import { type ArchiveRow, receivedAt as receiptOf, rowMaker } from '../row-blocks.js';
import type { ArchiveEvent, PriceLevel } from './event.js';
import type { KnownMarket } from './plan.js';

/** Makes the events of the rows of a series. @param markets in their order in the slice */
export function eventMaker(
  kind: MergedKind,
  markets: readonly KnownMarket[],
  variantS: number,
): (row: ArchiveRow) => ArchiveEvent {
  const places = rowPlaces(tableOfKind(kind));
  const at = (name: string) => places.get(name) ?? 0;
  const marketOf = (row: ArchiveRow) => markets[row.number(0)]?.market ?? '';
  const text = (row: ArchiveRow, place: number) => shortest(row.text(place));
  const [openAt, high, low, close] = [at('open'), at('high'), at('low'), at('close')];
  const [volumeAt, amountAt, dealAt, lastAt] = [at('volume'), at('amount'), at('deal'), at('last')];
  const [receivedAt, seqAt, changeAt] = [at('received_at'), at('seq'), at('change')];
  // One literal for each: this runs for every row, and putting objects together takes most of the time.
  switch (kind) {
    case 'trades': {
      const [second, exact, id] = [at('traded_at'), at('executed_at'), at('tid')];
      const [priceAt, totalAt, side] = [at('price'), at('total'), at('side')];
      return (row) => {
        const isExactTime = !row.isNull(exact);
        const [price, amount] = [text(row, priceAt), text(row, amountAt)];
        return {
          kind: 'trade',
          market: marketOf(row),
          atUs: isExactTime ? row.us(exact) : row.us(second) + SECOND_US - 1,
          receivedAtUs: row.us(receivedAt),
          id: row.number(id),
          price,
          amount,
          // Files leave it out where it is the product.
          total: row.isNull(totalAt) ? multiplyDecimals(price, amount) : text(row, totalAt),
          side: row.text(side) === 'buy' ? 'buy' : 'sell',
          isExactTime,
        };
      };
    }
    case 'klines':
    case 'kline_revisions': {
      const [opened, revision] = [at('open_at'), at('revision')];
      const known = kind === 'klines' ? receivedAt : at('known_from');
      return (row) => {
        const openAtUs = row.us(opened);
        return {
          kind: 'kline',
          market: marketOf(row),
          atUs: openAtUs + variantS * SECOND_US,
          receivedAtUs: row.us(known),
          openAtUs,
          intervalS: variantS,
          open: text(row, openAt),
          high: text(row, high),
          low: text(row, low),
          close: text(row, close),
          volume: text(row, volumeAt),
          amount: text(row, amountAt),
          revision: row.number(revision),
        };
      };
    }
    case 'tickers': {
      const [observed, written, bid, ask] = [at('observed_at'), at('at'), at('bid'), at('ask')];
      return (row) => ({
        kind: 'ticker',
        market: marketOf(row),
        atUs: row.us(observed),
        receivedAtUs: row.us(receivedAt),
        tickerAtUs: row.us(written),
        bid: text(row, bid),
        ask: text(row, ask),
        open: text(row, openAt),
        high: text(row, high),
        low: text(row, low),
        last: text(row, lastAt),
        volume: text(row, volumeAt),
        deal: text(row, dealAt),
        change: text(row, changeAt),
      });
    }
    case 'depth': {
      const [observed, lists] = [at('observed_at'), at('bid_prices')];
      return (row) => {
        const [bidPrices = '', bidAmounts = '', askPrices = '', askAmounts = ''] = row
          .text(lists)
          .split('|');
        return {
          kind: 'depth',
          market: marketOf(row),
          atUs: row.us(observed),
          receivedAtUs: row.us(receivedAt),
          bids: levels(bidPrices, bidAmounts),
          asks: levels(askPrices, askAmounts),
        };
      };
    }
    case 'states': {
      const [observed, origin, session] = [at('observed_at'), at('origin'), at('session_id')];
      return (row) => ({
        kind: 'state',
        market: marketOf(row),
        atUs: row.us(observed),
        receivedAtUs: row.us(receivedAt),
        periodS: variantS,
        origin: row.text(origin) === 'query' ? 'query' : 'update',
        last: text(row, lastAt),
        open: text(row, openAt),
        close: text(row, close),
        high: text(row, high),
        low: text(row, low),
        deal: text(row, dealAt),
        volume: text(row, volumeAt),
        change: row.isNull(changeAt) ? null : text(row, changeAt),
        seq: row.number(seqAt),
        sessionId: row.number(session),
      });
    }
    default: {
      const timeAt = at(timeColumnOf(tableOfKind(kind)));
      const received = receiptOf(kind);
      const marketIds = markets.map(({ marketId }) => marketId);
      const { make } = rowMaker(kind, marketIds, variantS, (_, digits) => shortest(digits));
      return (row) => ({
        kind,
        market: marketOf(row),
        atUs: row.us(timeAt),
        receivedAtUs: row.us(received),
        row: { ...make(row) },
      });
    }
  }
}

/** A side of a book: prices and amounts with spaces between, best first, none for an empty side. */
export function levels(prices: string, amounts: string): PriceLevel[] {
  if (prices === '') return [];
  const ofPrices = prices.split(' ');
  const ofAmounts = amounts.split(' ');
  const count = ofPrices.length;
  const made: PriceLevel[] = new Array(count);
  for (let at = 0; at < count; at += 1) {
    made[at] = [shortest(ofPrices[at] ?? ''), shortest(ofAmounts[at] ?? '')];
  }
  return made;
}
