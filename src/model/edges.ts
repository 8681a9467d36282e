import { BoundedMap } from '../kernel/bounded.js';
import type { Random } from '../kernel/random.js';

interface BlockedEdge {
  attempts: number;
  retryAtMs: number;
}

/** Edges remembered at most; beyond it the oldest is forgotten, and is then simply tried again. */
const EDGES_MAX = 1000;

/**
 * Upper edges of gaps below which a walk could not get on, each with the time of its next try.
 * Without it a gap that the server will not fill would be asked for in a hot loop, and would keep
 * the walk from the gaps further down.
 *
 * Times are of a monotonic clock, milliseconds.
 */
export class BlockedEdges {
  readonly #edges = new BoundedMap<number, BlockedEdge>(EDGES_MAX);
  readonly #random: Random;
  readonly #baseMs: number;
  readonly #capMs: number;

  constructor(random: Random, baseMs: number, capMs: number) {
    this.#random = random;
    this.#baseMs = baseMs;
    this.#capMs = capMs;
  }

  /**
   * Puts the next try off, twice as long as the last time, at least `atLeastMs` (infinite: for good).
   *
   * @param capMs longest wait, where it is shorter than for other edges
   * @returns how long from now the next try is
   */
  block(edgeMs: number, nowMs: number, atLeastMs = 0, capMs = this.#capMs): number {
    const attempts = this.attempts(edgeMs) + 1;
    const ceilingMs = Math.min(capMs, this.#baseMs * 2 ** Math.min(attempts, 20));
    const waitMs = Math.max(atLeastMs, ceilingMs / 2 + (this.#random() * ceilingMs) / 2);
    this.restore(edgeMs, attempts, nowMs + waitMs);
    return waitMs;
  }

  /** Takes over what was remembered of an edge elsewhere. */
  restore(edgeMs: number, attempts: number, retryAtMs: number): void {
    this.#edges.set(edgeMs, { attempts, retryAtMs });
  }

  /** Tries in a row that led nowhere. */
  attempts(edgeMs: number): number {
    return this.#edges.get(edgeMs)?.attempts ?? 0;
  }

  isBlocked(edgeMs: number, nowMs: number): boolean {
    const edge = this.#edges.get(edgeMs);
    return edge !== undefined && nowMs < edge.retryAtMs;
  }

  /** Lets edges in `(fromMs, toMs]` be tried at once; how often they failed is kept. */
  release(fromMs: number, toMs: number, nowMs: number): void {
    for (const [edgeMs, edge] of this.#edges) {
      if (edgeMs > fromMs && edgeMs <= toMs) edge.retryAtMs = nowMs;
    }
  }

  /** Forgets an edge below which the walk has got on. */
  clear(edgeMs: number): void {
    this.#edges.delete(edgeMs);
  }
}
