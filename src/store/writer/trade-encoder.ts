import { DAY_S } from '../../kernel/durations.js';
import { isoMs } from '../../kernel/timestamp.js';
import type { TradeRow } from '../../model/batch.js';

/** Room for one line; screening has bounded the length of everything in it. */
const MAX_LINE_BYTES = 512;
const USUAL_LINE_BYTES = 160;
/** Longer decimals are left to the slow way. */
const MAX_USUAL_DECIMAL = 40;
const DATE_CHARS = 'YYYY-MM-DDT'.length;
const SECOND_CHARS = 'YYYY-MM-DDTHH:MM:SS'.length;
/** What is written at once as a whole number: it and its digits fit into 32 bits. */
const BILLION = 1_000_000_000;

const TAB = 9;
const LINE_FEED = 10;
const POINT = 46;
const ZERO = 48;
const NINE = 57;
const COLON = 58;
const UPPER_Z = 90;

/** Copies ASCII text. Returns where it ends. */
function fill(bytes: Buffer, at: number, text: string): number {
  for (let index = 0; index < text.length; index += 1) bytes[at + index] = text.charCodeAt(index);
  return at + text.length;
}

/** A number below 10⁹ in so many digits. */
function fillDigits(bytes: Buffer, at: number, value: number, digits: number): number {
  let rest = value;
  for (let index = at + digits - 1; index >= at; index -= 1) {
    const tenth = Math.trunc(rest / 10);
    bytes[index] = ZERO + rest - tenth * 10;
    rest = tenth;
  }
  return at + digits;
}

/** A whole number from zero on, exactly. */
function fillWhole(bytes: Buffer, at: number, value: number): number {
  if (value >= BILLION) {
    const high = Math.floor(value / BILLION);
    return fillDigits(bytes, fillWhole(bytes, at, high), value - high * BILLION, 9);
  }
  let digits = 1;
  for (let bound = 10; value >= bound; bound *= 10) digits += 1;
  return fillDigits(bytes, at, value, digits);
}

/** A decimal as nearly all are: digits, at most one point between them, a value above zero; else -1. */
function fillUsualDecimal(bytes: Buffer, at: number, text: string): number {
  const { length } = text;
  if (length > MAX_USUAL_DECIMAL) return -1;
  let pointAt = -1;
  let hasValue = false;
  for (let index = 0; index < length; index += 1) {
    const code = text.charCodeAt(index);
    if (code === POINT && pointAt === -1) pointAt = index;
    else if (code < ZERO || code > NINE) return -1;
    else if (code !== ZERO) hasValue = true;
    bytes[at + index] = code;
  }
  return !hasValue || pointAt === 0 || pointAt === length - 1 ? -1 : at + length;
}

/**
 * Trades as lines of COPY, in the columns of the trades' shape, numbered as they came.
 *
 * Each is read once and written as bytes: joining strings and encoding them afterwards takes several
 * times as long as the server takes for the rows.
 */
export class TradeEncoder {
  #bytes: Buffer;
  #at = 0;
  #count = 0;
  readonly #ends: Uint32Array;
  /** The day whose date is `#date`. */
  #day = Number.NaN;
  #date = '';

  /** @param most lines that there will be at most */
  constructor(most: number) {
    this.#ends = new Uint32Array(most);
    this.#bytes = Buffer.allocUnsafe(most * USUAL_LINE_BYTES + MAX_LINE_BYTES);
  }

  /**
   * Adds a row of which everything but its decimals was screened.
   *
   * @returns false, and nothing is added, where a decimal is not of the usual form
   */
  addUsual(row: TradeRow): boolean {
    const bytes = this.#room();
    let at = fillUsualDecimal(bytes, this.#fillBeforeDecimals(bytes, row), row.price);
    if (at < 0) return false;
    bytes[at] = TAB;
    at = fillUsualDecimal(bytes, at + 1, row.amount);
    if (at < 0) return false;
    bytes[at] = TAB;
    at = fillUsualDecimal(bytes, at + 1, row.total);
    if (at < 0) return false;
    this.#end(bytes, at);
    return true;
  }

  /** Adds a row that was screened whole: in decimals is nothing then that must be escaped. */
  add(row: TradeRow): void {
    const bytes = this.#room();
    const at = this.#fillBeforeDecimals(bytes, row);
    this.#end(bytes, fill(bytes, at, `${row.price}\t${row.amount}\t${row.total}`));
  }

  /** The lines of some numbers, in that order. */
  pick(numbers: Uint32Array): Buffer {
    const picked = Buffer.allocUnsafe(this.#at);
    let at = 0;
    for (const number of numbers) at += this.#copy(picked, at, number);
    return picked.subarray(0, at);
  }

  /** The same for the stage: each with its place among them before it. */
  pickNumbered(numbers: Uint32Array): Buffer {
    const picked = Buffer.allocUnsafe(this.#at + numbers.length * MAX_PLACE_BYTES);
    let at = 0;
    let place = 0;
    for (const number of numbers) {
      at = fillWhole(picked, at, place);
      picked[at] = TAB;
      at += 1 + this.#copy(picked, at + 1, number);
      place += 1;
    }
    return picked.subarray(0, at);
  }

  #copy(target: Buffer, at: number, number: number): number {
    return this.#bytes.copy(target, at, this.#ends[number - 1] ?? 0, this.#ends[number]);
  }

  #room(): Buffer {
    if (this.#bytes.length - this.#at < MAX_LINE_BYTES) {
      const larger = Buffer.allocUnsafe(this.#bytes.length * 2);
      this.#bytes.copy(larger, 0, 0, this.#at);
      this.#bytes = larger;
    }
    return this.#bytes;
  }

  #fillBeforeDecimals(bytes: Buffer, row: TradeRow): number {
    const secondAt = this.#at;
    let at = this.#fillSecond(bytes, secondAt, row.tradedAtS);
    bytes[at] = UPPER_Z;
    bytes[at + 1] = TAB;
    at = fillWhole(bytes, at + 2, row.tid);
    bytes[at] = TAB;
    at += 1;
    if (row.executedAtUs === null) {
      at = fill(bytes, at, '\\N');
    } else {
      for (let index = 0; index < SECOND_CHARS; index += 1) {
        bytes[at + index] = bytes[secondAt + index] ?? ZERO;
      }
      bytes[at + SECOND_CHARS] = POINT;
      const fractionUs = row.executedAtUs - row.tradedAtS * 1_000_000;
      at = fillDigits(bytes, at + SECOND_CHARS + 1, fractionUs, 6);
      bytes[at] = UPPER_Z;
      at += 1;
    }
    bytes[at] = TAB;
    const receivedAtS = Math.floor(row.receivedAtMs / 1_000);
    at = this.#fillSecond(bytes, at + 1, receivedAtS);
    bytes[at] = POINT;
    at = fillDigits(bytes, at + 1, row.receivedAtMs - receivedAtS * 1_000, 3);
    bytes[at] = UPPER_Z;
    bytes[at + 1] = TAB;
    at = fillWhole(bytes, at + 2, row.marketId);
    return fill(bytes, at, row.side === 'buy' ? '\tbuy\t' : '\tsell\t');
  }

  #fillSecond(bytes: Buffer, at: number, unixS: number): number {
    const day = Math.floor(unixS / DAY_S);
    if (day !== this.#day) {
      this.#date = isoMs(day * DAY_S * 1_000).slice(0, DATE_CHARS);
      this.#day = day;
    }
    const ofDayS = unixS - day * DAY_S;
    const hour = Math.trunc(ofDayS / 3_600);
    const minute = Math.trunc(ofDayS / 60) - hour * 60;
    const timeAt = fill(bytes, at, this.#date);
    fillDigits(bytes, timeAt, hour, 2);
    bytes[timeAt + 2] = COLON;
    fillDigits(bytes, timeAt + 3, minute, 2);
    bytes[timeAt + 5] = COLON;
    return fillDigits(bytes, timeAt + 6, ofDayS - hour * 3_600 - minute * 60, 2);
  }

  #end(bytes: Buffer, at: number): void {
    bytes[at] = LINE_FEED;
    this.#at = at + 1;
    this.#ends[this.#count] = this.#at;
    this.#count += 1;
  }
}

/** Digits and tab before a line. */
const MAX_PLACE_BYTES = 11;
