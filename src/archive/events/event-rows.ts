import type { MergedKind } from '../../model/kinds.js';
import type { RowVectors } from '../parquet/session.js';
import { shortest } from '../parquet/texts.js';
import { levels, product } from './decimals.js';
import type { ArchiveEvent } from './event.js';

/**
 * A row of a series: the place of its market, then its columns as `eventColumns` has them, lists as one
 * text with `|` between. Values are made when they are asked for.
 */
interface EventRow {
  isNull(at: number): boolean;
  /** A moment, UNIX microseconds. */
  us(at: number): number;
  number(at: number): number;
  text(at: number): string;
}

/** Where the time of a row is. */
export const TIME_AT = 1;
/** The last microsecond of a second. */
const SECOND_END_US = 999_999;
const NULL = '\\N';

/**
 * Reads `2026-01-31 12:00:00.5+00`, UTC. Rows that follow each other are mostly of the same minute,
 * which is taken apart once.
 */
class Instants {
  #minute = '';
  #minuteUs = 0;

  us(text: string): number {
    if (!text.startsWith(this.#minute) || this.#minute === '') {
      this.#minute = text.slice(0, 16);
      this.#minuteUs = Date.parse(`${this.#minute.replace(' ', 'T')}Z`) * 1000;
    }
    const ten = text.charCodeAt(17) - 48;
    const seconds = ten * 10 + text.charCodeAt(18) - 48;
    let us = this.#minuteUs + seconds * 1_000_000;
    if (text.charCodeAt(19) !== 46) return us;
    for (let at = 20, unit = 100_000; unit >= 1; at += 1, unit /= 10) {
      const digit = text.charCodeAt(at) - 48;
      if (!(digit >= 0)) break;
      us += digit * unit;
    }
    return us;
  }
}

/** A row of the database: the fields of a line. */
export class LineRow implements EventRow {
  fields: readonly string[] = [];
  // Rows next to each other are of one minute, and were received in another.
  readonly #instants = new Instants();
  readonly #received = new Instants();

  isNull(at: number): boolean {
    return this.fields[at] === NULL;
  }

  us(at: number): number {
    const instants = at === this.fields.length - 1 ? this.#received : this.#instants;
    return instants.us(this.fields[at] ?? '');
  }

  number(at: number): number {
    return Number(this.fields[at]);
  }

  text(at: number): string {
    return this.fields[at] ?? '';
  }
}

/** A row of files: a place in columns. */
export class VectorRow implements EventRow {
  columns: RowVectors['columns'] = [];
  row = 0;

  isNull(at: number): boolean {
    return (this.columns[at]?.getItem(this.row) ?? null) === null;
  }

  us(at: number): number {
    return this.columns[at]?.getItem(this.row) as number;
  }

  number(at: number): number {
    return this.us(at);
  }

  text(at: number): string {
    return this.columns[at]?.getItem(this.row) as string;
  }
}

/** Makes the events of the rows of a series. */
export function eventMaker(
  kind: MergedKind,
  markets: readonly string[],
  variantS: number,
): (row: EventRow) => ArchiveEvent {
  const marketOf = (row: EventRow) => markets[row.number(0)] ?? '';
  const of = (row: EventRow, at: number) => shortest(row.text(at));
  switch (kind) {
    case 'trades':
      return (row) => {
        const isExactTime = !row.isNull(3);
        const [price, amount] = [of(row, 5), of(row, 6)];
        return {
          kind: 'trade',
          market: marketOf(row),
          atUs: isExactTime ? row.us(3) : row.us(1) + SECOND_END_US,
          receivedAtUs: row.us(8),
          id: row.number(2),
          price,
          amount,
          // Files leave it out where it is the product.
          total: row.isNull(7) ? product(price, amount) : of(row, 7),
          side: row.text(4) === 'buy' ? 'buy' : 'sell',
          isExactTime,
        };
      };
    case 'klines':
    case 'kline_revisions':
      return (row) => {
        const openAtUs = row.us(1);
        return {
          kind: 'kline',
          market: marketOf(row),
          atUs: openAtUs + variantS * 1_000_000,
          receivedAtUs: row.us(9),
          openAtUs,
          intervalS: variantS,
          open: of(row, 3),
          high: of(row, 4),
          low: of(row, 5),
          close: of(row, 6),
          volume: of(row, 7),
          amount: of(row, 8),
          revision: row.number(2),
        };
      };
    case 'tickers':
      return (row) => ({
        kind: 'ticker',
        market: marketOf(row),
        atUs: row.us(1),
        receivedAtUs: row.us(12),
        tickerAtUs: row.us(2),
        bid: of(row, 3),
        ask: of(row, 4),
        open: of(row, 5),
        high: of(row, 6),
        low: of(row, 7),
        last: of(row, 8),
        volume: of(row, 9),
        deal: of(row, 10),
        change: of(row, 11),
      });
    case 'depth':
      return (row) => {
        const [bidPrices = '', bidAmounts = '', askPrices = '', askAmounts = ''] = row
          .text(2)
          .split('|');
        return {
          kind: 'depth',
          market: marketOf(row),
          atUs: row.us(1),
          receivedAtUs: row.us(3),
          bids: levels(bidPrices, bidAmounts),
          asks: levels(askPrices, askAmounts),
        };
      };
    case 'states':
      return (row) => ({
        kind: 'state',
        market: marketOf(row),
        atUs: row.us(1),
        receivedAtUs: row.us(13),
        periodS: variantS,
        origin: row.text(3) === 'query' ? 'query' : 'update',
        last: of(row, 4),
        open: of(row, 5),
        close: of(row, 6),
        high: of(row, 7),
        low: of(row, 8),
        deal: of(row, 9),
        volume: of(row, 10),
        change: row.isNull(11) ? null : of(row, 11),
        seq: row.number(2),
        sessionId: row.number(12),
      });
  }
}
