import type { RowKey } from './manifest.js';

const LINE_FEED = 10;
const CARRIAGE_RETURN = 13;

/**
 * Puts something before every line of a text that comes in pieces, ends the lines as asked, and
 * counts them. What a piece becomes is valid until the next one is given.
 */
export class LineRewriter {
  readonly #prefix: Buffer;
  readonly #skip: number;
  readonly #isCrLf: boolean;
  #out = Buffer.allocUnsafe(256 * 1024);
  /** Bytes of the line that has not ended yet. */
  #open: Buffer = Buffer.alloc(0);
  #first: string | null = null;
  #last: Buffer | null = null;
  #rows = 0;

  /** @param options.skip bytes at the begin of each line that are left out */
  constructor(prefix: string, options: { readonly skip: number; readonly isCrLf: boolean }) {
    this.#prefix = Buffer.from(prefix);
    this.#skip = options.skip;
    this.#isCrLf = options.isCrLf;
  }

  /** Whole lines so far. */
  get rows(): number {
    return this.#rows;
  }

  /** The first and the last whole line, as they came; null before there was one. */
  get first(): string | null {
    return this.#first;
  }

  get last(): string | null {
    return this.#last?.toString() ?? null;
  }

  /** The whole lines of what came so far, rewritten; the rest waits for the next piece. */
  push(piece: Buffer): Buffer {
    const end = piece.lastIndexOf(LINE_FEED) + 1;
    if (end === 0) {
      this.#open = Buffer.concat([this.#open, piece]);
      return this.#out.subarray(0, 0);
    }
    let at = 0;
    let from = 0;
    if (this.#open.length > 0) {
      from = piece.indexOf(LINE_FEED) + 1;
      const line = Buffer.concat([this.#open, piece.subarray(0, from)]);
      at = this.#rewrite(line, 0, line.length, 0);
      this.#note(line, line.length);
    }
    at = this.#rewrite(piece, from, end, at);
    this.#note(piece, end, from);
    this.#open = Buffer.from(piece.subarray(end));
    return this.#out.subarray(0, at);
  }

  /** Copies whole lines byte by byte: for lines of this length quicker than calls that copy. */
  #rewrite(source: Buffer, from: number, to: number, start: number): number {
    const prefix = this.#prefix;
    const skip = this.#skip;
    let out = this.#room(start, to - from);
    let at = start;
    let index = from;
    while (index < to) {
      if (out.length - at < prefix.length + (to - index) + 2) out = this.#room(at, to - index);
      for (let byte = 0; byte < prefix.length; byte += 1) out[at + byte] = prefix[byte] ?? 0;
      at += prefix.length;
      index += skip;
      let value = source[index] ?? LINE_FEED;
      while (value !== LINE_FEED) {
        out[at] = value;
        at += 1;
        index += 1;
        value = source[index] ?? LINE_FEED;
      }
      if (this.#isCrLf) {
        out[at] = CARRIAGE_RETURN;
        at += 1;
      }
      out[at] = LINE_FEED;
      at += 1;
      index += 1;
      this.#rows += 1;
    }
    return at;
  }

  /** Makes room for so many bytes of lines and what stands before some of them. */
  #room(used: number, bytes: number): Buffer {
    if (this.#out.length - used < bytes + this.#prefix.length + 2) {
      const grown = Buffer.allocUnsafe(2 * (used + bytes + this.#prefix.length + 2));
      this.#out.copy(grown, 0, 0, used);
      this.#out = grown;
    }
    return this.#out;
  }

  #note(source: Buffer, end: number, from = 0): void {
    if (from >= end) return;
    this.#first ??= source.toString('utf8', from, source.indexOf(LINE_FEED, from));
    const begin = end >= 2 ? source.lastIndexOf(LINE_FEED, end - 2) + 1 : 0;
    this.#last = Buffer.from(source.subarray(Math.max(begin, from), end - 1));
  }
}

const MOMENT = /\d{4,}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?/;

/** What orders a row, from its line. */
export function keyOfLine(line: string, isJson: boolean, hasId: boolean): RowKey {
  const [moment] = MOMENT.exec(line) ?? [''];
  const at = `${moment.replace(' ', 'T')}Z`;
  if (!hasId) return { at };
  const id = isJson ? Object.values(JSON.parse(line) as object)[1] : line.split(',', 2)[1];
  return { at, id: Number(id) };
}

/** The moment of the row of a line, UNIX milliseconds. */
export function momentOfLine(line: string): number {
  return Date.parse(`${MOMENT.exec(line)?.[0].replace(' ', 'T') ?? ''}Z`);
}
