import { hashText } from '../../kernel/random.js';
import type { QuarantineRow } from '../../ledger/batch.js';
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

/** Refused rows that are remembered: those of a few pages. */
const REFUSALS_MAX = 5000;

/**
 * Remembers refused rows that are in quarantine, because a refused row comes again with every page
 * until newer trades have pushed it out. Bounded: the oldest is forgotten, and then kept once more.
 */
export class RecentRefusals {
  readonly #hashes = new Set<number>();

  /** The rows that are not known to be in quarantine just so. */
  fresh(rows: readonly QuarantineRow[]): QuarantineRow[] {
    return rows.filter((row) => !this.#hashes.has(refusalHashOf(row)));
  }

  /** Call only after the commit. */
  remember(rows: readonly QuarantineRow[]): void {
    for (const row of rows) this.#hashes.add(refusalHashOf(row));
    for (const hash of this.#hashes) {
      if (this.#hashes.size <= REFUSALS_MAX) break;
      this.#hashes.delete(hash);
    }
  }
}

function refusalHashOf({ reason, payload }: QuarantineRow): number {
  return hashText(`${reason}|${payload}`);
}
