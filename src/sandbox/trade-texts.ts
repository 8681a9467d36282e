import { obtain } from '../kernel/bounded.js';
import { SECOND_US } from '../kernel/durations.js';
import type { TradeForm } from '../server/backend.js';
import type { TradeColumns } from './trade-columns.js';

/** Trades of a block. A longer one costs more whenever the newest trade changes it. */
const BLOCK = 64;
/** Characters that are kept at most, half of them for certain; a trade has some 115. */
const KEPT_LENGTH_MAX = 32 * 1024 * 1024;

/** The rows of the positions `[from, to)`, newest first, with a comma after each. */
interface Block {
  readonly from: number;
  readonly to: number;
  /** Bytes are sent as they are, while a text has to be encoded each time. */
  readonly text: Buffer;
  /** End of each row in the text. */
  readonly ends: Uint32Array;
}

type Blocks = Map<TradeColumns, Map<number, Block>>;

function writeRow(form: TradeForm, columns: TradeColumns, position: number): string {
  const { id, timeUs, price, side, amount, total } = columns.tradeAt(position);
  const head =
    form === 'history'
      ? `{"id":${id},"time":${timeUs / SECOND_US}`
      : `{"tid":${id},"date":${Math.floor(timeUs / SECOND_US)}`;
  return `${head},"price":"${price}","type":"${side}","amount":"${amount}","total":"${total}"}`;
}

function writeBlock(form: TradeForm, columns: TradeColumns, from: number, to: number): Block {
  const ends = new Uint32Array(to - from);
  let text = '';
  for (let position = to - 1; position >= from; position -= 1) {
    text += `${writeRow(form, columns, position)},`;
    ends[to - 1 - position] = text.length;
  }
  return { from, to, text: Buffer.from(text, 'latin1'), ends };
}

/** The rows of the positions `[from, to)`, which the block holds. */
function rowsOf(block: Block, from: number, to: number): Buffer {
  if (from === block.from && to === block.to) return block.text;
  const start = to === block.to ? 0 : block.ends[block.to - to - 1];
  return block.text.subarray(start, block.ends[block.to - from - 1]);
}

const OPENING = Buffer.from('[');
const CLOSING = Buffer.from(']');

/**
 * The JSON texts of trades. To write a page of 1000 trades takes ten times as long as all else that
 * a reply needs; but a trade never changes and is asked for many times, at another place of another
 * page each time. So blocks of rows are kept, and a page is cut and put together from them.
 *
 * Bounded: when the blocks written or used lately have half the length allowed, those not used since
 * the last such time go.
 */
export class TradeTexts {
  readonly #keptLengthMax: number;
  #recent: Record<TradeForm, Blocks> = { history: new Map(), historyResult: new Map() };
  #older: Record<TradeForm, Blocks> = { history: new Map(), historyResult: new Map() };
  #recentLength = 0;

  /** @param keptLengthMax characters that are kept at most */
  constructor(keptLengthMax = KEPT_LENGTH_MAX) {
    this.#keptLengthMax = keptLengthMax;
  }

  /** A JSON array of the positions `[from, to)`, all of which must be held, newest first; in parts. */
  page(form: TradeForm, columns: TradeColumns, from: number, to: number): Buffer[] {
    const parts: Buffer[] = [OPENING];
    let end = to;
    while (end > from) {
      const index = Math.floor((end - 1) / BLOCK);
      const start = Math.max(from, index * BLOCK);
      parts.push(rowsOf(this.#block(form, columns, index), start, end));
      end = start;
    }
    // The closing bracket takes the place of the last comma.
    const last = parts.length - 1;
    if (last > 0) parts[last] = parts[last]?.subarray(0, -1) ?? CLOSING;
    parts.push(CLOSING);
    return parts;
  }

  #block(form: TradeForm, columns: TradeColumns, index: number): Block {
    const to = Math.min((index + 1) * BLOCK, columns.end);
    const recent = this.#recent[form].get(columns)?.get(index);
    // The block of the newest trade is written anew when there is a newer one.
    if (recent?.to === to) return recent;
    const older = this.#older[form].get(columns)?.get(index);
    const from = Math.max(index * BLOCK, columns.base);
    const block = older?.to === to ? older : writeBlock(form, columns, from, to);
    this.#keep(form, columns, index, block, recent?.text.length ?? 0);
    return block;
  }

  #keep(
    form: TradeForm,
    columns: TradeColumns,
    index: number,
    block: Block,
    replacedLength: number,
  ): void {
    this.#recentLength += block.text.length - replacedLength;
    if (this.#recentLength > this.#keptLengthMax / 2) {
      this.#older = this.#recent;
      this.#recent = { history: new Map(), historyResult: new Map() };
      this.#recentLength = block.text.length;
    }
    obtain(this.#recent[form], columns, () => new Map<number, Block>()).set(index, block);
  }
}
