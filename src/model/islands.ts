import type { Span } from '../kernel/span.js';
import type { Island } from './batch.js';

/**
 * What the walk remembers of a stream's coverage: its islands, newest first, as the archive last
 * reported them. Bounded: beyond the limit the oldest are forgotten, which only makes the walk
 * repeat work.
 */
export class IslandList {
  readonly #limit: number;
  #islands: readonly Island[];
  #isCut = false;

  constructor(islands: readonly Island[], limit = 1000) {
    this.#limit = limit;
    this.#islands = [];
    this.replace(islands);
  }

  /** Whether the archive may hold older islands than these. */
  get isCut(): boolean {
    return this.#isCut;
  }

  get top(): Island | undefined {
    return this.#islands[0];
  }

  get all(): readonly Island[] {
    return this.#islands;
  }

  get spans(): Span[] {
    return this.#islands.map((island) => island.span);
  }

  /** Takes an island as the archive now has it: it replaces every island that it swallowed. */
  absorb(island: Island): void {
    const apart = this.#islands.filter(
      (known) => known.span.toMs < island.span.fromMs || known.span.fromMs > island.span.toMs,
    );
    const all = [...apart, island].sort(newestFirst);
    if (all.length > this.#limit) this.#isCut = true;
    this.#islands = all.slice(0, this.#limit);
  }

  /** Forgets what was known: the archive was read anew. */
  replace(islands: readonly Island[]): void {
    // The archive was asked for no more than the limit: so many may be all, or not.
    this.#isCut = islands.length >= this.#limit;
    this.#islands = [...islands].sort(newestFirst).slice(0, this.#limit);
  }

  /** Stored rows in islands that lie above a moment. */
  rowsAbove(instantMs: number): number {
    return this.#islands
      .filter((island) => island.span.fromMs >= instantMs)
      .reduce((rows, island) => rows + island.rowCount, 0);
  }

  /** Stored rows from the head down to the lower edge of `island`. */
  rowsDownTo(island: Island): number {
    let rows = 0;
    for (const known of this.#islands) {
      if (known.span.fromMs < island.span.fromMs) break;
      rows += known.rowCount;
    }
    return rows;
  }
}

function newestFirst(a: Island, b: Island): number {
  return b.span.fromMs - a.span.fromMs;
}
