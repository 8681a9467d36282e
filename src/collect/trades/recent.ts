import { hashText } from '../../kernel/random.js';
import type { SourceTrade } from './source.js';

/**
 * Remembers the trades of the last page that was stored, to drop their repetition at the next poll
 * without asking the archive. A trade with the same id and *other* fields is let through: the
 * archive decides on conflicts.
 */
export class RecentTrades {
  #hashes = new Map<number, number>();

  /** The trades that are not known to be stored just so. */
  fresh<T extends SourceTrade>(trades: readonly T[]): T[] {
    return trades.filter((trade) => this.#hashes.get(trade.tid) !== hashOf(trade));
  }

  /** Call only after the commit: what is remembered here is not sent again. */
  remember(trades: readonly SourceTrade[]): void {
    this.#hashes = new Map(trades.map((trade) => [trade.tid, hashOf(trade)]));
  }
}

function hashOf({ tradedAtS, executedAtUs, price, amount, total, side }: SourceTrade): number {
  return hashText(`${tradedAtS}|${executedAtUs}|${price}|${amount}|${total}|${side}`);
}
