import { type MergedKind, type SeriesKind, tableOfKind } from '../../model/kinds.js';
import { seriesOf } from '../../model/series.js';
import type { RowOrder } from '../merge.js';
import { type ArchiveEvent, EVENT_KINDS, type RowEvent } from './event.js';

/** By what events are ordered: when they happened, or when the collector received them. */
export type EventOrder = 'happened' | 'received';

type Compare = RowOrder<ArchiveEvent>['compare'];

const byMarket = (a: ArchiveEvent, b: ArchiveEvent) =>
  a.market < b.market ? -1 : a.market > b.market ? 1 : 0;

function numberOfRow({ kind, row }: RowEvent<SeriesKind>): number {
  const { columns, number } = seriesOf(tableOfKind(kind));
  const field = columns.find(({ name }) => name === number)?.field ?? '';
  return Number(row[field] ?? 0);
}

/** Distinguishes rows of one market at one instant. */
function numberOf(event: ArchiveEvent): number {
  if (event.kind === 'trade') return event.id;
  if (event.kind === 'state') return event.seq;
  if ('row' in event) return numberOfRow(event as unknown as RowEvent<SeriesKind>);
  return event.kind === 'kline' ? event.revision : 0;
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
    (one) => one === (kind === 'kline_revisions' ? 'klines' : kind),
  );
  return place * KIND_STEP + variantS;
}

/** The place of gaps. */
export const GAP_RANK = -1;
