import { type SeriesKind, seriesColumns } from '../../store/index.js';

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

/** Up to here rows next to each other are usually the same: `2026-01-31 12:00`. */
const MINUTE_LENGTH = 16;
const MICROSECOND_DIGITS = 6;

/** Reads the moments of rows, `2026-01-31 12:00:00.25+00`, which mostly are close together. */
export class MomentReader {
  #minute = '';
  #minuteMs = 0;

  /** @returns UNIX microseconds. @throws RangeError for any other text */
  us(text: string): number {
    const minute = text.slice(0, MINUTE_LENGTH);
    if (minute !== this.#minute) {
      this.#minuteMs = Date.parse(`${minute.replace(' ', 'T')}:00Z`);
      this.#minute = minute;
    }
    const end = text.indexOf('+', MINUTE_LENGTH);
    const seconds = Number(text.slice(MINUTE_LENGTH + 1, MINUTE_LENGTH + 3));
    const fraction = text.slice(MINUTE_LENGTH + 4, end).padEnd(MICROSECOND_DIGITS, '0');
    const us = (this.#minuteMs + seconds * 1000) * 1000 + Number(fraction);
    const isUtc = end > 0 && /^[+0:]+$/.test(text.slice(end));
    if (!isUtc || !Number.isSafeInteger(us)) throw new RangeError(`no moment in UTC: "${text}"`);
    return us;
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
    yield lines.map((line) => {
      const fields = line.split(',');
      const text = (at: number) => fields[at] ?? '';
      const secondUs = seconds.us(text(tradedAt));
      const isExact = text(executedAt) !== '';
      return {
        ...{ tid: text(tid), side: text(side), price: text(price), amount: text(amount) },
        ...{ total: text(total), receivedUs: received.us(text(receivedAt)), secondUs, isExact },
        atUs: isExact ? exact.us(text(executedAt)) : secondUs,
      };
    });
  }
}
