/**
 * Rows of a reading in the form `csv`, whole lines, some hundred at a time. They hold digits, moments
 * and sides only, so a byte is a character.
 */
export async function* linesOf(pieces: AsyncIterable<Buffer>): AsyncGenerator<string[]> {
  let open = '';
  for await (const piece of pieces) {
    const lines = (open + piece.toString('latin1')).split('\n');
    open = lines.pop() ?? '';
    if (lines.length > 0) yield lines;
  }
}

/** At which place of a line a column stands. */
export function placesOf(kind: SeriesKind): (name: string) => number {
  const names = seriesColumns(kind, false).map(({ name }) => name);
  return (name) => {
    const place = names.indexOf(name);
    if (place < 0) throw new RangeError(`${kind} have no column ${name}`);
    return place;
  };
}

/** Up to here rows next to each other are usually the same: `2026-01-31 12:00:`. */
const MINUTE_LENGTH = 17;
const ZERO = 48;
const POINT = 46;
const ZONE = /^\+00(?::00)?$/;
/** What one more digit after the point is worth, in microseconds. */
const FRACTION_US = [100_000, 10_000, 1000, 100, 10, 1];

/**
 * Reads the moments of rows, `2026-01-31 12:00:00.25+00`, which mostly are close together. Digit by
 * digit: it is what takes the time of reading a row.
 */
export class MomentReader {
  #minute = 'none';
  #minuteUs = Number.NaN;
  #zone = '+00';

  /** @returns UNIX microseconds. @throws RangeError for any other text */
  us(text: string): number {
    if (!text.startsWith(this.#minute)) this.#readMinute(text);
    const digit = (at: number) => {
      const value = text.charCodeAt(at) - ZERO;
      return value >= 0 && value <= 9 ? value : Number.NaN;
    };
    let us = this.#minuteUs + (digit(MINUTE_LENGTH) * 10 + digit(MINUTE_LENGTH + 1)) * 1_000_000;
    let at = MINUTE_LENGTH + 2;
    if (text.charCodeAt(at) === POINT) {
      at += 1;
      for (const worth of FRACTION_US) {
        const value = digit(at);
        if (Number.isNaN(value)) break;
        us += value * worth;
        at += 1;
      }
    }
    const isUtc = text.length === at + this.#zone.length && text.endsWith(this.#zone);
    if (!Number.isSafeInteger(us) || !(isUtc || this.#readZone(text.slice(at)))) {
      throw new RangeError(`no moment in UTC: "${text}"`);
    }
    return us;
  }

  #readMinute(text: string): void {
    this.#minute = text.slice(0, MINUTE_LENGTH);
    this.#minuteUs = Date.parse(`${this.#minute.replace(' ', 'T')}00Z`) * 1000;
  }

  #readZone(zone: string): boolean {
    if (!ZONE.test(zone)) return false;
    this.#zone = zone;
    return true;
  }
}

/** A trade of a line; decimals are text. */
export interface TradeLine {
  readonly tid: string;
  /** The exact time where it is known, else the whole second; UNIX microseconds. */
  readonly atUs: number;
  /** The whole second. */
  readonly secondUs: number;
  readonly isExact: boolean;
  readonly side: string;
  readonly price: string;
  readonly amount: string;
  readonly total: string;
  readonly receivedUs: number;
}

/** Trades of lines, in their order. */
export async function* tradesOf(pieces: AsyncIterable<Buffer>): AsyncGenerator<TradeLine[]> {
  const place = placesOf('trades');
  const [tradedAt, tid, executedAt] = [place('traded_at'), place('tid'), place('executed_at')];
  const [side, price, amount] = [place('side'), place('price'), place('amount')];
  const [total, receivedAt] = [place('total'), place('received_at')];
  const [seconds, exact, received] = [new MomentReader(), new MomentReader(), new MomentReader()];
  for await (const lines of linesOf(pieces)) {
    yield lines.map((line): TradeLine => {
      const fields = line.split(',');
      const secondUs = seconds.us(fields[tradedAt] ?? '');
      const executed = fields[executedAt] ?? '';
      const isExact = executed !== '';
      // One literal: this runs for every row, and putting objects together takes most of the time.
      return {
        tid: fields[tid] ?? '',
        atUs: isExact ? exact.us(executed) : secondUs,
        secondUs,
        isExact,
        side: fields[side] ?? '',
        price: fields[price] ?? '',
        amount: fields[amount] ?? '',
        total: fields[total] ?? '',
        receivedUs: received.us(fields[receivedAt] ?? ''),
      };
    });
  }
}

import { type SeriesKind, seriesColumns } from '../../model/kinds.js';
