import { BoundedMap } from '../../kernel/bounded.js';
import { SECOND_MS } from '../../kernel/durations.js';
import type { Span } from '../../kernel/span.js';
import type { Gap } from '../../model/gaps.js';
import type { PageRow } from '../../model/order.js';
import { latestMs, type ReplyTimes } from '../../model/proof.js';

/** A gap below an edge of coverage: what the walk would fill next. */
export interface PendingGap {
  readonly edgeMs: number;
  /** Directly below the newest coverage: the walk has lost touch with the head. */
  readonly isTop: boolean;
}

/** The lowest trade of a contiguous chain below an edge of coverage. */
export interface ChainCursor extends PageRow {
  /** Where the coverage above begins. */
  readonly edgeMs: number;
  /**
   * From here on the chain holds whole seconds: the second after that trade's, because its own may go
   * on below it. Of a covered range this is its edge.
   */
  readonly wholeFromMs: number;
  /** Estimated number of trades from the head down to this one: rather too few than too many. */
  readonly depth: number;
  /**
   * Until when (exchange time) new trades are part of the depth already, because it was seen deep in
   * history; undefined when it is reckoned from the newest trade that is known.
   */
  readonly seenUntilMs?: number | undefined;
}

/** How deep a trade was seen to lie, and until when new trades are part of that. */
export type SeenDepth = Pick<ChainCursor, 'depth' | 'seenUntilMs'>;

/**
 * A depth that a page deep in history showed. Whatever happened before the page was read is part of
 * it, known or not; that was a little after the page was asked for.
 */
export function seenDepth(depth: number, page: ReplyTimes): SeenDepth {
  return { depth, seenUntilMs: latestMs(page) + SECOND_MS };
}

/** Of trades that are new at the head, those that a depth does not contain yet. */
export function countAfter(
  fresh: readonly PageRow[],
  seenUntilMs: number = Number.NEGATIVE_INFINITY,
): number {
  return fresh.filter(({ tradedAtS }) => tradedAtS * SECOND_MS > seenUntilMs).length;
}

/** Chains that are remembered; a forgotten one costs some repeated pages. */
const CHAINS_MAX = 100;

/**
 * The lower ends of chains by the edge above them, which go deeper than their coverage shows: inside a second that is longer
 * than a page, and in depths that the ledger's counts do not reach. All of it can be found again
 * from the ledger; it is lost with the process.
 */
export class Chains extends BoundedMap<number, ChainCursor> {
  constructor() {
    super(CHAINS_MAX);
  }

  /** Drops chains that rest on trades of a span, because these are suspect. */
  dropWithin({ fromMs, toMs }: Span): void {
    for (const { edgeMs, wholeFromMs } of this.values()) {
      if (wholeFromMs - SECOND_MS < toMs && fromMs <= edgeMs) this.delete(edgeMs);
    }
  }

  /** New trades at the head push all chains deeper. */
  push(fresh: readonly PageRow[]): void {
    for (const [edgeMs, { seenUntilMs, ...chain }] of [...this]) {
      const depth = chain.depth + countAfter(fresh, seenUntilMs);
      this.set(edgeMs, { ...chain, depth });
    }
  }

  /** Drops chains whose edge no longer lies in or at the top of a gap. */
  keepWithin(gaps: readonly Gap[]): void {
    for (const edgeMs of this.keys()) {
      const isOpen = gaps.some((gap) => gap.fromMs < edgeMs && edgeMs <= gap.edgeMs);
      if (!isOpen) this.delete(edgeMs);
    }
  }
}
