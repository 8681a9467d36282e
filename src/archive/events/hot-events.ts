import { DAY_US } from '../../kernel/durations.js';
import type { ArchiveSnapshot } from '../../store/index.js';
import type { ArchiveEvent } from './event.js';
import { eventMaker, LineRow, TIME_AT } from './event-rows.js';
import { InOrder } from './in-order.js';
import type { Batches } from './merge.js';
import { compareWithin, type EventOrder } from './order.js';
import type { EventSlice } from './slice.js';

/** Days that one statement reads at most; its plan has a branch for each market and partition. */
const DAYS_MAX = 32;
/** Rows below which the next statement reads twice as many days. */
const FEW_ROWS = 50_000;

/**
 * Events of one source that are made before those of another. Events that wait long are moved by the
 * garbage collector, which costs more than making them.
 */
export const MADE_TOGETHER = 32;

/** A part of the rows' own time, UNIX microseconds, half-open. */
export interface RowSpan {
  readonly fromUs: number;
  readonly toUs: number;
}

/**
 * Events of rows in the database. Days are asked for one after the other, so that no statement grows
 * with the span and the first event of a year comes as soon as that of a day; in the order of receipt
 * there is one statement, whose rows the database sorts.
 */
export async function* hotEvents(
  snapshot: ArchiveSnapshot,
  slice: EventSlice,
  span: RowSpan,
  order: EventOrder,
  signal: AbortSignal,
): Batches {
  if (order === 'received') {
    yield* statement(snapshot, slice, span, order, signal);
    return;
  }
  let days = 1;
  for (let fromUs = span.fromUs; fromUs < span.toUs; ) {
    const endUs = Math.floor(fromUs / DAY_US) * DAY_US + days * DAY_US;
    const toUs = Math.min(endUs, span.toUs);
    let rows = 0;
    for await (const batch of statement(snapshot, slice, { fromUs, toUs }, order, signal)) {
      rows += batch.length;
      yield batch;
    }
    days = rows < FEW_ROWS ? Math.min(days * 2, DAYS_MAX) : Math.max(1, Math.floor(days / 2));
    fromUs = toUs;
  }
}

async function* statement(
  snapshot: ArchiveSnapshot,
  { kind, variantS, markets }: EventSlice,
  { fromUs, toUs }: RowSpan,
  order: EventOrder,
  signal: AbortSignal,
): Batches {
  const isByReceipt = order === 'received';
  const marketIds = markets.map(({ marketId }) => marketId);
  const names = markets.map(({ market }) => market);
  const read = eventMaker(kind, names, variantS);
  const row = new LineRow();
  const settling = new InOrder<ArchiveEvent>(compareWithin(order));
  // The time of a row, or that of its receipt, which is the last field.
  const keyOf = isByReceipt
    ? (event: ArchiveEvent) => event.receivedAtUs
    : (_: ArchiveEvent, fields: readonly string[]) => fields[TIME_AT] ?? '';
  let open = '';
  const pieces = snapshot.merged({ kind, marketIds, variantS, fromUs, toUs, isByReceipt }, signal);
  for await (const piece of pieces) {
    const lines = (open + piece.toString('latin1')).split('\n');
    open = lines.pop() ?? '';
    for (let at = 0; at < lines.length; ) {
      const end = Math.min(at + MADE_TOGETHER, lines.length);
      for (; at < end; at += 1) {
        const fields = (lines[at] ?? '').split('\t');
        row.fields = fields;
        const event = read(row);
        settling.push(keyOf(event, fields), event);
      }
      const settled = settling.take();
      if (settled.length > 0) yield settled;
    }
  }
  const rest = settling.end();
  if (rest.length > 0) yield rest;
}
