import { BoundedMap } from '../kernel/bounded.js';
import { normalizeSpans, type Span, subtractSpans } from '../kernel/span.js';

/** Answers that must agree before a statement of the exchange is believed. */
export interface Rule {
  readonly answers: number;
  /** Least time between two answers that count. */
  readonly apartMs?: number;
  /** Most time between two answers that count. */
  readonly withinMs?: number;
  /** Least time since the first answer. */
  readonly lastingMs?: number;
  /** Statements that are remembered; of a forgotten one all answers are needed again. */
  readonly kept?: number;
}

/**
 * Rules for all statements that one answer alone does not prove: it may be cut, capped, or come from a cache.
 * Documented in docs/concepts/completeness.md.
 */
export const BELIEVED = {
  /** The row at an end of a page has the id and the time that it shows. */
  pageEnd: { answers: 2, kept: 200 },
  /** Newer pages lack a known row: it never was, or is no more. Up to {@link FEW} of them. */
  lacked: { answers: 3, kept: 5000 },
  lackedMany: { answers: 3, lastingMs: 20_000 },
  /** Pages that may be old lack known rows. */
  lackedOld: { answers: 3, lastingMs: 120_000 },
  /** Deep pages of both endpoints lack a row that an earlier run stored. */
  lackedDeep: { answers: 2 },
  /** History ends below a row. */
  historyEnd: { answers: 2, apartMs: 1000, withinMs: 1_800_000, kept: 100 },
  /** A gap lies below the newest page, and no deeper one is served. Growing pauses keep the answers apart. */
  pageHorizon: { answers: 4 },
  /** Nothing is served below all that is covered, where history is forgotten as fast as it is walked. */
  historyStart: { answers: 2, apartMs: 30_000 },
  /** A market has no trade at all. */
  emptyMarket: { answers: 3, apartMs: 1000 },
  /** The exchange has no candle of a slot. */
  candleAbsent: { answers: 2, kept: 5000 },
  /** It has no candle of a slot in which trades are stored. The pause of the gap keeps the answers apart. */
  candleOfTrades: { answers: 3, kept: 5000 },
} as const satisfies Readonly<Record<string, Rule>>;

/** Lacked rows that may be a slip of one answer. */
export const FEW = 5;
/** Lacked rows that pages which may be old can expose. */
const LACKED_OLD_MAX = 100;

/** Rule that exposes rows which pages lack; undefined where it is too many for such pages. */
export function lackedRule(count: number, isDeep: boolean, isLater: boolean): Rule | undefined {
  const { lacked, lackedMany, lackedOld, lackedDeep } = BELIEVED;
  if (!isLater) return count <= LACKED_OLD_MAX ? lackedOld : undefined;
  if (count > FEW) return lackedMany;
  return isDeep ? lackedDeep : lacked;
}

interface Said<S> {
  readonly statement: S | undefined;
  readonly answers: number;
  readonly firstMs: number;
  readonly lastMs: number;
}

/**
 * Counts answers that say the same about a key. Another statement begins the count again. Callers ask in another way
 * (page size, one slot more) wherever a cache might repeat an answer. Times are of a monotonic clock.
 */
export class Agreement<K, S = never> {
  readonly #rule: Rule;
  readonly #said: BoundedMap<K, Said<S>>;

  constructor(rule: KeptRule) {
    this.#rule = rule;
    this.#said = new BoundedMap(rule.kept);
  }

  /** Counts one answer. @returns whether it is believed now */
  say(key: K, atMs = 0, statement?: S): boolean {
    const { apartMs = 0, withinMs = Number.POSITIVE_INFINITY } = this.#rule;
    const known = this.#said.get(key);
    const ageMs = atMs - (known?.lastMs ?? Number.NEGATIVE_INFINITY);
    if (known === undefined || known.statement !== statement || ageMs > withinMs) {
      this.#said.set(key, { statement, answers: 1, firstMs: atMs, lastMs: atMs });
    } else if (ageMs >= apartMs) {
      this.#said.set(key, { ...known, answers: known.answers + 1, lastMs: atMs });
    }
    return this.agrees(key, atMs);
  }

  agrees(key: K, atMs = 0, { answers, lastingMs = 0 }: Rule = this.#rule): boolean {
    const known = this.#said.get(key);
    return known !== undefined && known.answers >= answers && atMs - known.firstMs >= lastingMs;
  }

  /** An answer contradicts what was said of some keys. */
  contradict(keys: Iterable<K>): void {
    for (const key of keys) this.#said.delete(key);
  }
}

type KeptRule = Rule & { readonly kept: number };

/** Time ranges that at least one answer has said, at least two, and so on. */
export type SaidSpans = ReadonlyArray<readonly Span[]>;

/** Counts one answer, range by range. @returns with `agreed`, what is believed now of what it says */
export function sayOf(
  said: SaidSpans,
  spans: readonly Span[],
  { answers, kept }: KeptRule,
): { readonly said: SaidSpans; readonly agreed: readonly Span[] } {
  let agreed: readonly Span[] = normalizeSpans(spans);
  const levels: Span[][] = [];
  for (let level = 0; level < answers - 1; level += 1) {
    const known = said[level] ?? [];
    levels.push(normalizeSpans([...known, ...agreed]).slice(-kept));
    agreed = subtractSpans(agreed, subtractSpans(agreed, known));
  }
  return { said: levels, agreed };
}

/** Time ranges of which one answer less than needed has said it. */
export function saidOf(spans: readonly Span[], { answers, kept }: KeptRule): SaidSpans {
  const known = normalizeSpans(spans).slice(-kept);
  return Array.from({ length: answers - 1 }, () => known);
}

/** Begins the count of some time ranges again. */
export function contradictOf(said: SaidSpans, spans: readonly Span[]): SaidSpans {
  return said.map((known) => subtractSpans(known, spans));
}
