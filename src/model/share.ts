import { createHash } from 'node:crypto';
import type { StreamKind } from './series.js';

/** More daemons than that gain nothing: one of them stores more than any exchange serves. */
export const SHARES_MAX = 64;

/**
 * The markets that one daemon collects. Share `2/3` has every market whose name hashes to the second of three classes,
 * on every machine and for ever.
 *
 * Share 1 does as well what is needed once: the list of markets, tickers, and the life of partitions.
 */
export class Share {
  /** 0 is all markets. */
  readonly number: number;
  /** How many shares there are. */
  readonly of: number;

  private constructor(number: number, of: number) {
    this.number = number;
    this.of = of;
  }

  /** All markets. */
  static readonly whole = new Share(0, 1);

  /** Reads `2/3`; undefined: it is no share. */
  static parse(text: string): Share | undefined {
    const [, number, of] = (/^([1-9]\d?)\/([1-9]\d?)$/.exec(text) ?? []).map(Number);
    if (number === undefined || of === undefined || number > of || of > SHARES_MAX)
      return undefined;
    return of === 1 ? Share.whole : new Share(number, of);
  }

  get isWhole(): boolean {
    return this.of === 1;
  }

  /** Returns true if it does what is needed once. */
  get isFirst(): boolean {
    return this.number <= 1;
  }

  /** Returns true if a market belongs to it. */
  has(market: string): boolean {
    if (this.isWhole) return true;
    return (
      createHash('sha256').update(market).digest().readUInt32BE() % this.of === this.number - 1
    );
  }

  /** Returns true if it keeps a stream. Tickers of all markets come in one answer. */
  keeps({ kind, market }: { readonly kind: StreamKind; readonly market: string }): boolean {
    return kind === 'tickers' ? this.isFirst : this.has(market);
  }

  toString(): string {
    return this.isWhole ? 'all markets' : `${this.number}/${this.of}`;
  }
}
