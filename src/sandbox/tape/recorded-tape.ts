import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { messageOf } from '../../kernel/errors.js';
import { parseScaled } from '../amounts.js';
import { TapeError } from '../errors.js';
import { TradeColumns } from '../trade-columns.js';

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

/** Facts about the texts of one column of decimals. */
class DecimalColumn {
  /** Most places after the point, as written. */
  digits = 0;
  /** Removes closing zeros. */
  tickDigits = 0;
  #largest = 0n;
  #largestLine = 0;

  /** The value of a text, scaled by {@link DecimalColumn.digits}; undefined when it is not allowed. */
  read(text: string, line: number): bigint | undefined {
    const match = DECIMAL.exec(text);
    const length = text.replace('.', '').replace(/^0+/, '').length;
    if (match === null || length === 0 || length > MAX_DIGITS) return undefined;
    const fraction = match[1] ?? '';
    if (fraction.length > this.digits) {
      this.#largest *= 10n ** BigInt(fraction.length - this.digits);
      this.digits = fraction.length;
    }
    this.tickDigits = Math.max(this.tickDigits, fraction.replace(/0+$/, '').length);
    const value = parseScaled(text, this.digits);
    if (value > this.#largest) {
      this.#largest = value;
      this.#largestLine = line;
    }
    return value;
  }

  /** The line of a value that 64 bits do not hold with all places of the column. */
  get overflow(): { readonly line: number; readonly value: bigint } | undefined {
    const value = this.#largest;
    return value === BigInt.asIntN(64, value) ? undefined : { line: this.#largestLine, value };
  }
}

/** Collects the lines of one file; every fault is thrown with its place and what is allowed. */
class TapeReader {
  readonly #path: string;
  readonly #prices = new DecimalColumn();
  readonly #amounts = new DecimalColumn();
  #columns = new TradeColumns(0, 0);
  #lastId = 0;
  #lastTimeMs = 0;
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
    const scaledPrice = this.#readDecimal('price', this.#prices, price);
    const scaledAmount = this.#readDecimal('amount', this.#amounts, amount);
    if (side !== 'buy' && side !== 'sell') throw this.#fault('side', side, 'buy or sell');
    this.#columns = this.#columns.withDigits(this.#prices.digits, this.#amounts.digits);
    const timeUs = this.#lastTimeMs * 1000;
    this.#columns.append(this.#lastId, timeUs, scaledPrice, scaledAmount, side === 'sell');
  }

  finish(digest: string): ReadTape {
    if (this.#columns.end === 0) throw new TapeError(`tape ${this.#path} holds no trade`);
    return { columns: this.#columns, digest, tickDigits: this.#prices.tickDigits };
  }

  #readId(text: string): void {
    const id = Number(text);
    if (!ID.test(text) || !Number.isSafeInteger(id) || id <= this.#lastId) {
      throw this.#fault('id', text, `a whole number above ${this.#lastId} and below 2^53`);
    }
    this.#lastId = id;
  }

  #readTime(text: string): void {
    const timeMs = Number(text);
    // Microseconds of a trade's time must stay exact.
    const isPossible = timeMs >= this.#lastTimeMs && timeMs <= Number.MAX_SAFE_INTEGER / 1000;
    if (!TIME.test(text) || !isPossible) {
      throw this.#fault('time_ms', text, `UNIX milliseconds, not before ${this.#lastTimeMs}`);
    }
    this.#lastTimeMs = timeMs;
  }

  #readDecimal(name: 'price' | 'amount', column: DecimalColumn, text: string): bigint {
    const value = column.read(text, this.#line);
    if (value === undefined) throw this.#fault(name, text, DECIMAL_RULE);
    const { overflow } = column;
    if (overflow === undefined) return value;
    this.#line = overflow.line;
    throw this.#fault(name, `${overflow.value}`, 'at most 18 digits with all places of the column');
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
