import type { MergedKind } from '../../model/kinds.js';
import { type ArchiveEvent, EVENT_KINDS } from './event.js';

/** By what events are ordered: when they happened, or when the collector received them. */
export type EventOrder = 'happened' | 'received';

/** Negative when `a` comes first; of one source both are of the same kind and length. */
export type Compare = (a: ArchiveEvent, b: ArchiveEvent) => number;

const byMarket = (a: ArchiveEvent, b: ArchiveEvent) =>
  a.market < b.market ? -1 : a.market > b.market ? 1 : 0;

/** What tells rows of one market at one moment apart. */
function numberOf(event: ArchiveEvent): number {
  if (event.kind === 'trade') return event.id;
  if (event.kind === 'state') return event.seq;
  return event.kind === 'kline' ? event.revision : 0;
}

const happened: Compare = (a, b) => a.atUs - b.atUs || byMarket(a, b) || numberOf(a) - numberOf(b);

const received: Compare = (a, b) =>
  a.receivedAtUs - b.receivedAtUs || byMarket(a, b) || a.atUs - b.atUs || numberOf(a) - numberOf(b);

/** The order of events of one kind and length: moment, market by name, then id, sequence or revision. */
export function compareWithin(order: EventOrder): Compare {
  return order === 'happened' ? happened : received;
}

/** The moment that an event has in an order, UNIX microseconds. */
export function timeOf(order: EventOrder): (event: ArchiveEvent) => number {
  return order === 'happened' ? (event) => event.atUs : (event) => event.receivedAtUs;
}

const KIND_STEP = 10_000_000;

/**
 * The place of a kind and length among events of the same moment, lowest first. Gaps come before all
 * (below zero), then candles (what closed at a moment was made of what came before it), trades, states,
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
