import { hashText, type Random, seededRandom } from '../../kernel/random.js';
import type { HttpReply } from '../../server/faults.js';
import type { FaultRule } from './script.js';

/** Counts of one rule. */
export interface FaultCount {
  readonly rule: string;
  readonly kind: string;
  /** Opportunities: events that the rule is about, at a time at which it holds. */
  readonly offered: number;
  readonly fired: number;
}

/**
 * Decides for one rule, opportunity by opportunity. The n-th decision depends on seed, rule id and
 * n alone, so other rules and other traffic do not change a rule's luck.
 */
export class RuleState {
  readonly rule: FaultRule;
  readonly #seed: number;
  readonly #startedAtMs: number;
  #offered = 0;
  #fired = 0;
  /** Memory of a rule about stale responses: replies, the first date, and frames by connection. */
  readonly replies: ReplyCache<HttpReply>;
  readonly #frames = new WeakMap<object, ReplyCache<string>>();
  #date: string | undefined;

  /** @param startedAtMs monotonic time at which the script took effect */
  constructor(rule: FaultRule, seed: number, startedAtMs: number) {
    this.rule = rule;
    this.#seed = seed;
    this.#startedAtMs = startedAtMs;
    this.replies = new ReplyCache(rule.ms ?? 0);
  }

  /** The first date that the rule was shown. */
  firstDate(date: string): string {
    this.#date ??= date;
    return this.#date;
  }

  /** Frames that were sent by, or over, something. */
  framesOf(sender: object): ReplyCache<string> {
    const cache = this.#frames.get(sender) ?? new ReplyCache<string>(this.rule.ms ?? 0);
    this.#frames.set(sender, cache);
    return cache;
  }

  /**
   * Offers an opportunity. Returns undefined when the rule lets it pass; else it is counted as
   * fired, and what comes back draws the particulars of the fault.
   *
   * @param atMs the exchange's time
   * @param nowMs monotonic time of this machine
   */
  offer(atMs: number, nowMs: number): Random | undefined {
    const { id, probability, after, every, from, to, firstS, maxCount } = this.rule;
    const sinceMs = nowMs - this.#startedAtMs;
    if (atMs < from || atMs >= to || sinceMs >= firstS * 1000) return undefined;
    this.#offered += 1;
    const random = seededRandom(hashText(`${this.#seed}/${id}/${this.#offered}`));
    const isLucky = random() < probability;
    const position = this.#offered - after;
    if (!isLucky || position <= 0 || position % every !== 0 || this.#fired >= maxCount)
      return undefined;
    this.#fired += 1;
    return random;
  }

  get count(): FaultCount {
    const { id, kind } = this.rule;
    return { rule: id, kind, offered: this.#offered, fired: this.#fired };
  }
}

/** A whole number in `[0, below)`. */
export function drawBelow(random: Random, below: number): number {
  return Math.floor(random() * below);
}

/** How much later an answer of a rule about latency comes, milliseconds. */
export function drawLatency({ ms = 0, jitterMs = 0 }: FaultRule, random: Random): number {
  return ms + drawBelow(random, jitterMs + 1);
}

interface Kept<T> {
  readonly value: T;
  readonly weight: number;
  readonly untilMs: number;
}

const MAX_ENTRIES = 256;
/** Characters kept in all. */
const MAX_WEIGHT = 16 * 1024 * 1024;

/**
 * Keeps the first value seen under each key for a time, as a cache in front of a server does: what
 * comes within that time may be answered by the kept one. Bounded; the oldest make room.
 */
class ReplyCache<T> {
  readonly #keepMs: number;
  readonly #kept = new Map<string, Kept<T>>();
  #weight = 0;

  constructor(keepMs: number) {
    this.#keepMs = keepMs;
  }

  /** The kept value of `key`; when there is none, `value` is kept from now on. */
  take(key: string, value: T, weight: number, nowMs: number): T | undefined {
    const known = this.#kept.get(key);
    if (known !== undefined && nowMs < known.untilMs) return known.value;
    this.#forget(key);
    this.#kept.set(key, { value, weight, untilMs: nowMs + this.#keepMs });
    this.#weight += weight;
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size <= MAX_ENTRIES && this.#weight <= MAX_WEIGHT) break;
      this.#forget(oldest);
    }
    return undefined;
  }

  #forget(key: string): void {
    this.#weight -= this.#kept.get(key)?.weight ?? 0;
    this.#kept.delete(key);
  }
}
