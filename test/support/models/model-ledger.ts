import type { Span } from '../../../src/kernel/span.js';
import type { GapState } from '../../../src/store/index.js';
import { NOON_S } from '../postgres/postgres-rows.js';

/** The naive ledger of one stream: everything second by second, counted from noon. */
export class ModelStream {
  collectFromS: number | null = null;
  readonly #covered = new Set<number>();
  readonly #wanted = new Set<number>();
  readonly #memories = new Map<number, ModelMemory>();

  cover(fromS: number, toS: number): void {
    for (let s = fromS; s < toS; s += 1) this.#covered.add(s);
  }

  want(fromS: number, toS: number): void {
    for (let s = fromS; s < toS; s += 1) this.#wanted.add(s);
  }

  remember(startS: number, endS: number, finding: ModelFinding): void {
    if (finding.state !== 'open' || !/^(exchange failed|walk stalled)$/.test(finding.reason)) {
      this.#place(startS, endS, finding);
      return;
    }
    // A try that failed says nothing of the history.
    for (let [fromS, toS] = [startS, startS]; fromS < endS; fromS = toS) {
      const memory = this.#beyondHistory(fromS);
      while (toS < endS && this.#beyondHistory(toS) === memory) toS += 1;
      if (memory === undefined) this.#place(fromS, toS, finding);
      else if (memory.state !== 'unfillable')
        this.#place(fromS, toS, { ...finding, reason: memory.reason });
    }
  }

  #beyondHistory(s: number): ModelMemory | undefined {
    const memory = this.#memories.get(s);
    return memory?.reason === 'beyond history' ? memory : undefined;
  }

  #place(startS: number, endS: number, { state, reason, isAttempt }: ModelFinding): void {
    let [fromS, toS] = [startS, endS];
    // What was given up beside it for the same reason is one memory with it.
    const isAlike = (s: number) => {
      const near = this.#memories.get(s);
      return state === 'unfillable' && near?.state === state && near.reason === reason;
    };
    while (isAlike(fromS - 1)) fromS -= 1;
    while (isAlike(toS)) toS += 1;
    // Of what is one with it, only the lowest piece is another try.
    let begunToS = startS;
    while (fromS === startS && begunToS < endS && isAlike(begunToS)) begunToS += 1;
    let attempts = isAttempt ? 1 : 0;
    for (let s = fromS; s < toS; s += 1) {
      const isTried = s >= startS && s < endS && (s < begunToS || !isAlike(s));
      attempts = Math.max(
        attempts,
        (this.#memories.get(s)?.attempts ?? 0) + (isAttempt && isTried ? 1 : 0),
      );
    }
    const memory = { state, reason, attempts };
    for (let s = fromS; s < toS; s += 1) {
      if (state === 'filled') this.#memories.delete(s);
      else this.#memories.set(s, memory);
    }
  }

  isCovered(s: number): boolean {
    return this.#covered.has(s);
  }

  isRemembered(s: number): boolean {
    return this.#memories.has(s);
  }

  isExpected(s: number, untilS: number): boolean {
    const fromS = this.collectFromS ?? Math.min(...this.#covered, ...this.#wanted);
    return s < untilS && (s >= fromS || this.#wanted.has(s));
  }

  /** Newest first: what is expected and not covered, cut where the memory changes. */
  gaps(fromS: number, untilS: number): ModelGap[] {
    const gaps: ModelGap[] = [];
    let last: { readonly memory: ModelMemory | undefined; gap: ModelGap } | undefined;
    for (let s = fromS; s < untilS; s += 1) {
      if (!this.isExpected(s, untilS) || this.#covered.has(s)) {
        last = undefined;
        continue;
      }
      const memory = this.#memories.get(s);
      if (last !== undefined && last.memory === memory) {
        last.gap.toS = s + 1;
        continue;
      }
      const { state, reason, attempts } = memory ?? NOTHING;
      last = { memory, gap: { fromS: s, toS: s + 1, state, reason, attempts } };
      gaps.push(last.gap);
    }
    return gaps.reverse();
  }
}

export interface ModelFinding {
  readonly state: GapState;
  readonly reason: string;
  readonly isAttempt: boolean;
}

interface ModelMemory {
  readonly state: GapState;
  readonly reason: string;
  readonly attempts: number;
}

export interface ModelGap extends ModelMemory {
  readonly fromS: number;
  toS: number;
}

const NOTHING: ModelMemory = { state: 'open', reason: 'not collected', attempts: 0 };

/** Seconds after noon as a span. */
export function spanOf(fromS: number, toS: number): Span {
  return { fromMs: (NOON_S + fromS) * 1_000, toMs: (NOON_S + toS) * 1_000 };
}

/** A gap of the archive in the terms of the model. */
export function inSeconds<T extends { readonly span: Span }>({ span }: T) {
  return { fromS: span.fromMs / 1_000 - NOON_S, toS: span.toMs / 1_000 - NOON_S };
}
