import { SECOND_US } from '../../kernel/durations.js';
import {
  type MergedKind,
  rowPlaces,
  type SeriesKind,
  tableOfKind,
  timeColumnOf,
} from '../../model/kinds.js';
import { seriesOf } from '../../model/series.js';
import type { RowOrder } from '../merge.js';
import { shortest } from '../parquet/values.js';
import { type ArchiveRow, receivedAt as receiptOf, rowMaker } from '../row-blocks.js';
import {
  type ArchiveEvent,
  EVENT_KINDS,
  type EventOrder,
  type PriceLevel,
  type RowEvent,
} from './event.js';
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
  const [volumeAt, quoteVolumeAt, lastAt] = [at('volume'), at('quote_volume'), at('last')];
  const [receivedAt, seqAt, changeAt] = [at('received_at'), at('seq'), at('change')];
  // One literal for each: this runs for every row, and putting objects together takes most of the time.
  switch (kind) {
    case 'trades': {
      const [second, exact, id] = [at('traded_at'), at('executed_at'), at('tid')];
      const [priceAt, amountAt, totalAt] = [at('price'), at('amount'), at('total')];
      const side = at('side');
      return (row) => {
        const isExactTime = !row.isNull(exact);
        return {
          kind: 'trade',
          market: marketOf(row),
          atUs: isExactTime ? row.us(exact) : row.us(second) + SECOND_US - 1,
          receivedAtUs: row.us(receivedAt),
          id: row.number(id),
          price: text(row, priceAt),
          amount: text(row, amountAt),
          total: text(row, totalAt),
          side: row.text(side) === 'buy' ? 'buy' : 'sell',
          isExactTime,
        };
      };
    }
    case 'candles':
    case 'candle_revisions': {
      const [opened, revision] = [at('open_at'), at('revision')];
      const known = kind === 'candles' ? receivedAt : at('known_from');
      return (row) => {
        const openAtUs = row.us(opened);
        return {
          kind: 'candle',
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
          quoteVolume: text(row, quoteVolumeAt),
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
        quoteVolume: text(row, quoteVolumeAt),
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
        quoteVolume: text(row, quoteVolumeAt),
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

type Compare = RowOrder<ArchiveEvent>['compare'];

const byMarket = (a: ArchiveEvent, b: ArchiveEvent) =>
  a.market < b.market ? -1 : a.market > b.market ? 1 : 0;

function numberOfRow({ kind, row }: RowEvent<SeriesKind>): number {
  const { columns, number } = seriesOf(tableOfKind(kind));
  const field = columns.find(({ name }) => name === number)?.field ?? '';
  return Number(row[field] ?? 0);
}

/** Distinguishes rows of one market at one instant. */
export function numberOf(event: ArchiveEvent): number {
  if (event.kind === 'trade') return event.id;
  if (event.kind === 'state') return event.seq;
  if ('row' in event) return numberOfRow(event as unknown as RowEvent<SeriesKind>);
  return event.kind === 'candle' ? event.revision : 0;
}

const happened: Compare = (a, b) => a.atUs - b.atUs || byMarket(a, b) || numberOf(a) - numberOf(b);

const received: Compare = (a, b) =>
  a.receivedAtUs - b.receivedAtUs || byMarket(a, b) || a.atUs - b.atUs || numberOf(a) - numberOf(b);

/** Events of one kind and length at one time: by market, then by id, sequence or revision. */
export function orderOf(order: EventOrder): RowOrder<ArchiveEvent> {
  return order === 'happened'
    ? { timeOf: ({ atUs }) => atUs, compare: happened }
    : { timeOf: ({ receivedAtUs }) => receivedAtUs, compare: received };
}

const KIND_STEP = 10_000_000;

/**
 * The place of a kind and length among events of the same instant, lowest first. Gaps come before all
 * (below zero), then candles (what closed at an instant was made of what came before it), trades, states,
 * tickers and depth (what was looked at shows what came before); shorter intervals before longer ones.
 */
export function rankOf(kind: MergedKind, variantS: number): number {
  const place = EVENT_KINDS.findIndex(
    (one) => one === (kind === 'candle_revisions' ? 'candles' : kind),
  );
  return place * KIND_STEP + variantS;
}

/** The place of gaps. */
export const GAP_RANK = -1;
