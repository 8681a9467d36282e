import type { TradeRow } from '../../ledger/batch.js';
import { timestampTextMs } from '../instants.js';
import type { Candidate } from './candidate.js';

/**
 * Trades as lines of COPY. They are filled in as bytes: joining strings and encoding them afterwards
 * takes several times as long, and would be most of what a large batch costs on this side.
 */
export interface TradeLines {
  readonly bytes: Buffer;
  /** Where each line ends. */
  readonly ends: Uint32Array;
}

/** Room for one line; screening has bounded the length of everything in it. */
const MAX_LINE_BYTES = 512;
const USUAL_LINE_BYTES = 192;
const MICROSECONDS = 6;
const TAB = 9;

/** Text of a moment, calculated once for moments that follow each other and are the same. */
function remembered(textOf: (moment: number) => string): (moment: number) => string {
  let last = Number.NaN;
  let text = '';
  return (moment) => {
    if (moment !== last) {
      text = textOf(moment);
      last = moment;
    }
    return text;
  };
}

/** Copies ASCII text. Returns where it ends. */
function fill(bytes: Buffer, at: number, text: string): number {
  for (let index = 0; index < text.length; index += 1) bytes[at + index] = text.charCodeAt(index);
  return at + text.length;
}

/**
 * The lines of screened trades, in the columns of the trades' shape. Screening has left nothing in
 * them but ASCII, and nothing that must be escaped.
 */
export function tradeLines(candidates: readonly Candidate<TradeRow>[]): TradeLines {
  const secondText = remembered((second) => timestampTextMs(second * 1_000).slice(0, 19));
  const receivedText = remembered(timestampTextMs);
  const ends = new Uint32Array(candidates.length);
  let bytes = Buffer.allocUnsafe(candidates.length * USUAL_LINE_BYTES + MAX_LINE_BYTES);
  let at = 0;
  let index = 0;
  for (const { row } of candidates) {
    if (bytes.length - at < MAX_LINE_BYTES) {
      const larger = Buffer.allocUnsafe(bytes.length * 2);
      bytes.copy(larger, 0, 0, at);
      bytes = larger;
    }
    const second = secondText(row.tradedAtS);
    at = fill(bytes, at, second);
    at = fill(bytes, at, `Z\t${row.tid}\t`);
    if (row.executedAtUs === null) {
      at = fill(bytes, at, '\\N\t');
    } else {
      const fraction = `${row.executedAtUs - row.tradedAtS * 1_000_000}`;
      at = fill(bytes, at, second);
      at = fill(bytes, at, `.${fraction.padStart(MICROSECONDS, '0')}Z\t`);
    }
    at = fill(bytes, at, receivedText(row.receivedAtMs));
    at = fill(bytes, at, `\t${row.marketId}\t${row.side}\t`);
    at = fill(bytes, at, row.price);
    bytes[at] = TAB;
    at = fill(bytes, at + 1, row.amount);
    bytes[at] = TAB;
    at = fill(bytes, at + 1, row.total);
    at = fill(bytes, at, '\n');
    ends[index] = at;
    index += 1;
  }
  return { bytes: bytes.subarray(0, at), ends };
}

const startOf = ({ ends }: TradeLines, position: number) => ends[position - 1] ?? 0;

/** The lines at some positions, in their order. */
export function linesAt(lines: TradeLines, positions: readonly number[]): Buffer {
  const picked = Buffer.allocUnsafe(lines.bytes.length);
  let at = 0;
  for (const position of positions) {
    at += lines.bytes.copy(picked, at, startOf(lines, position), lines.ends[position]);
  }
  return picked.subarray(0, at);
}

/** Digits and tab before each line. */
const MAX_NUMBER_BYTES = 11;

/** The lines at some positions for the stage: each with its number among them before it. */
export function numberedLinesAt(lines: TradeLines, positions: readonly number[]): Buffer {
  const room = lines.bytes.length + positions.length * MAX_NUMBER_BYTES;
  const picked = Buffer.allocUnsafe(room);
  let at = 0;
  for (const [ord, position] of positions.entries()) {
    at = fill(picked, at, `${ord}\t`);
    at += lines.bytes.copy(picked, at, startOf(lines, position), lines.ends[position]);
  }
  return picked.subarray(0, at);
}
