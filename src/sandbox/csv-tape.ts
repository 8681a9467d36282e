import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { messageOf } from '../kernel/errors.js';
import { parseScaled } from './scaled.js';
import { TapeError } from './tape-error.js';
import { TradeColumns } from './trade-columns.js';

/** The first line of a tape file. */
export const TAPE_HEADER = 'id,time_ms,price,amount,side';

const COLUMN_NAMES = TAPE_HEADER.split(',');
const MAX_LINE_LENGTH = 400;
const ID = /^[1-9]\d{0,15}$/;
const TIME = /^\d{1,14}$/;
const DECIMAL = /^\d{1,18}(?:\.(\d{1,18}))?$/;
/** Digits that a 64-bit integer always holds. */
const MAX_DIGITS = 18;
const DECIMAL_RULE = `a decimal above zero with at most ${MAX_DIGITS} digits`;

/** A tape file as read: its trades, and what it shows about the market. */
export interface ReadTape {
  readonly columns: TradeColumns;
  /** SHA-256 of the file, hex. */
  readonly digest: string;
  /** Most places after the point that any price has once its closing zeros are left out. */
  readonly tickDigits: number;
}

/** Places after the point, as written and without closing zeros. */
interface Places {
  written: number;
  significant: number;
}

/** One column of decimals whose number of places is known only at the end. */
class DecimalColumn {
  readonly places: Places = { written: 0, significant: 0 };
  #values = new BigInt64Array(1024);
  #digits: number[] = [];
  #count = 0;

  /** @returns false when the text is not allowed. */
  add(text: string): boolean {
    const match = DECIMAL.exec(text);
    const fraction = match?.[1] ?? '';
    const digits = text.replace('.', '').replace(/^0+/, '').length;
    const isAllowed = match !== null && digits > 0 && digits <= MAX_DIGITS;
    if (!isAllowed) return false;
    if (this.#count === this.#values.length) {
      const wider = new BigInt64Array(this.#count * 2);
      wider.set(this.#values);
      this.#values = wider;
    }
    this.#values[this.#count] = parseScaled(text, fraction.length);
    this.#digits.push(fraction.length);
    this.#count += 1;
    this.places.written = Math.max(this.places.written, fraction.length);
    const significant = fraction.replace(/0+$/, '').length;
    this.places.significant = Math.max(this.places.significant, significant);
    return true;
  }

  /** The value at `index`, scaled by the places of the whole column. */
  at(index: number): bigint {
    const missing = this.places.written - (this.#digits[index] ?? 0);
    return (this.#values[index] ?? 0n) * 10n ** BigInt(missing);
  }
}

/** Collects the lines of one file; every fault is thrown with its place and what is allowed. */
class TapeReader {
  readonly #path: string;
  readonly #ids: number[] = [];
  readonly #timesMs: number[] = [];
  readonly #sells: boolean[] = [];
  readonly #prices = new DecimalColumn();
  readonly #amounts = new DecimalColumn();
  #line = 0;

  constructor(path: string) {
    this.#path = path;
  }

  readLine(text: string): void {
    this.#line += 1;
    if (this.#line === 1) {
      if (text.replace(/^\uFEFF/, '') !== TAPE_HEADER) {
        throw this.#fault('header', text, `the line "${TAPE_HEADER}"`);
      }
      return;
    }
    const values = text.split(',');
    if (values.length !== COLUMN_NAMES.length) {
      throw this.#fault('line', text, `${COLUMN_NAMES.length} columns: ${TAPE_HEADER}`);
    }
    const [id = '', timeMs = '', price = '', amount = '', side = ''] = values;
    this.#readId(id);
    this.#readTime(timeMs);
    if (!this.#prices.add(price)) throw this.#fault('price', price, DECIMAL_RULE);
    if (!this.#amounts.add(amount)) throw this.#fault('amount', amount, DECIMAL_RULE);
    if (side !== 'buy' && side !== 'sell') throw this.#fault('side', side, 'buy or sell');
    this.#sells.push(side === 'sell');
  }

  finish(digest: string): ReadTape {
    if (this.#ids.length === 0) throw new TapeError(`tape ${this.#path} holds no trade`);
    const columns = new TradeColumns(this.#prices.places.written, this.#amounts.places.written);
    for (const [index, id] of this.#ids.entries()) {
      const timeUs = (this.#timesMs[index] ?? 0) * 1000;
      const isSell = this.#sells[index] === true;
      columns.append(
        id,
        timeUs,
        this.#scaled('price', index),
        this.#scaled('amount', index),
        isSell,
      );
    }
    return { columns, digest, tickDigits: this.#prices.places.significant };
  }

  #scaled(column: 'price' | 'amount', index: number): bigint {
    const value = (column === 'price' ? this.#prices : this.#amounts).at(index);
    if (value === BigInt.asIntN(64, value)) return value;
    // Line 1 is the header, so the first trade stands in line 2.
    this.#line = index + 2;
    throw this.#fault(column, `${value}`, 'at most 18 digits with all places of the column');
  }

  #readId(text: string): void {
    const id = Number(text);
    const last = this.#ids.at(-1) ?? 0;
    if (!ID.test(text) || !Number.isSafeInteger(id) || id <= last) {
      throw this.#fault('id', text, `a whole number above ${last} and below 2^53`);
    }
    this.#ids.push(id);
  }

  #readTime(text: string): void {
    const timeMs = Number(text);
    const last = this.#timesMs.at(-1) ?? 0;
    // Microseconds of a trade's time must stay exact.
    if (!TIME.test(text) || timeMs < last || timeMs > Number.MAX_SAFE_INTEGER / 1000) {
      throw this.#fault('time_ms', text, `UNIX milliseconds, not before ${last}`);
    }
    this.#timesMs.push(timeMs);
  }

  #fault(column: string, value: string, allowed: string): TapeError {
    return new TapeError(
      `tape ${this.#path}, line ${this.#line}, column ${column}: ` +
        `${JSON.stringify(value.slice(0, 80))} is not allowed; expected ${allowed}`,
    );
  }

  lineTooLong(): TapeError {
    this.#line += 1;
    return this.#fault('line', '(too long)', `at most ${MAX_LINE_LENGTH} characters`);
  }
}

/**
 * Reads a tape file: a header line, then one trade a line, ids increasing and times not decreasing.
 * The file is read as a stream.
 *
 * @throws TapeError naming file, line, column, value and what is allowed.
 */
export async function readCsvTape(path: string): Promise<ReadTape> {
  const reader = new TapeReader(path);
  const hash = createHash('sha256');
  const decoder = new TextDecoder('utf-8');
  let rest = '';
  try {
    for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) {
      hash.update(chunk);
      const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) reader.readLine(line.endsWith('\r') ? line.slice(0, -1) : line);
      if (rest.length > MAX_LINE_LENGTH) throw reader.lineTooLong();
    }
  } catch (error) {
    if (error instanceof TapeError) throw error;
    // Node's own texts begin with their codes.
    throw new TapeError(`tape ${path} cannot be read (${messageOf(error)})`, { cause: error });
  }
  if (rest.trim() !== '') reader.readLine(rest.replace(/\r$/, ''));
  return reader.finish(hash.digest('hex'));
}
