import {
  holdsSpan,
  isEmptySpan,
  normalizeSpans,
  overlapOf,
  type Span,
  spanContains,
  subtractSpans,
  totalLengthMs,
} from '../../kernel/span.js';
import type { ArchivePort } from '../ports.js';

/** @param openMs where they begin */
export function slotsOf(openMs: readonly number[], stepMs: number): Span[] {
  return openMs.map((fromMs) => ({ fromMs, toMs: fromMs + stepMs }));
}

/** Runs of slots that are remembered; of forgotten ones it takes two more looks. */
const RUNS_MAX = 5000;

/**
 * Slots of which one answer held no candle. That they were quiet is believed when a second answer
 * agrees, because a page that was cut on its way looks just like a quiet market.
 *
 * The second look costs hardly anything: what is not covered is asked for by the next poll anyway,
 * together with the candles that closed since. So a quiet minute is covered one poll later than a
 * lively one, and only older history takes one more request for each page with absent candles, once.
 * (Coverage of trades could prove the same without a look, but not more cheaply: it would have to be
 * read from the archive minute by minute.)
 */
export class CandleAbsences {
  #seen: readonly Span[] = [];

  /** Slots that were absent once. */
  get seen(): readonly Span[] {
    return this.#seen;
  }

  /**
   * Takes note of an answer.
   *
   * @param believed what the answer proves if it is whole
   * @param heldMs open times of which it speaks
   * @param covered what needs no proof any more
   * @returns what it proves in any case: slots of which it speaks, and those that were absent before
   */
  confirmed(
    believed: readonly Span[],
    heldMs: readonly number[],
    covered: readonly Span[],
    stepMs: number,
  ): Span[] {
    const proven = normalizeSpans([...slotsOf(heldMs, stepMs), ...covered, ...this.#seen]);
    const open = subtractSpans(believed, proven);
    // What the answer settles is done with; what it leaves open it was the first to be asked about.
    const left = subtractSpans(this.#seen, believed);
    this.#seen = normalizeSpans([...left, ...open]).slice(-RUNS_MAX);
    return subtractSpans(believed, open);
  }

  /** Forgets a suspect span. */
  forget(suspect: Span): void {
    this.#seen = subtractSpans(this.#seen, [suspect]);
  }
}

/** What is said of slots that cannot be without a candle. */
export const CONTRADICTED_NOTE =
  'trades of this time are stored, but the answers held no candle of it';

/** What an answer is believed to prove, and what of that the stored trades contradict. */
interface CrossChecked {
  readonly believed: readonly Span[];
  /** Slots without a candle in which trades are stored. */
  readonly contradicted: readonly Span[];
  /** Slots without a candle whose trades cannot be looked at: they are in files, or no longer kept. */
  readonly unseen: readonly Span[];
}

/**
 * Lets the stored trades speak before a slot counts as one without a candle: however many answers
 * agree that it has none, they were cut if something was traded in it. Where no trade is stored the
 * answers stand: it was quiet, or its trades are not collected yet; then verification checks the slot as
 * soon as they are.
 *
 * @param believed whole slots
 * @param heldMs open times of which the answer speaks
 * @param covered what is proven already and not asked about again
 */
export async function crossCheckWithTrades(
  archive: Pick<ArchivePort, 'tradedSlots'>,
  marketId: number,
  stepMs: number,
  {
    believed,
    heldMs,
    covered,
  }: {
    readonly believed: readonly Span[];
    readonly heldMs: readonly number[];
    readonly covered: Iterable<Span>;
  },
): Promise<CrossChecked> {
  const known = normalizeSpans([...slotsOf(heldMs, stepMs), ...covered]);
  const absent = subtractSpans(believed, known);
  if (absent.length === 0) return { believed, contradicted: [], unseen: [] };
  const { traded, left } = await archive.tradedSlots(marketId, absent, stepMs);
  const contradicted = normalizeSpans(slotsOf(traded, stepMs));
  const unseen = normalizeSpans(slotsOf(left, stepMs));
  return { believed: subtractSpans(believed, contradicted), contradicted, unseen };
}

/** So many answers without the candle of a traded slot, a pause apart, show that it is not to be had. */
const CONTRADICTIONS_MAX = 3;

/** Counts answers that have no candle of slots in which trades are stored. */
export class CandleContradictions {
  /** Slots that this many answers lacked: one, two, and so on. */
  #lacked: readonly (readonly Span[])[];

  /** @param givenUp slots of which it had gone on for so long before */
  constructor(givenUp: readonly Span[]) {
    const known = normalizeSpans(givenUp).slice(-RUNS_MAX);
    this.#lacked = Array.from({ length: CONTRADICTIONS_MAX - 1 }, () => known);
  }

  /** Takes note of an answer. @returns those of the slots of which it has gone on for so long */
  lasting(contradicted: readonly Span[]): Span[] {
    let again = normalizeSpans(contradicted);
    this.#lacked = this.#lacked.map((known) => {
      const added = again;
      again = subtractSpans(again, subtractSpans(again, known));
      return normalizeSpans([...known, ...added]).slice(-RUNS_MAX);
    });
    return again;
  }

  /** Forgets slots that are suspect, or of which an answer has said more. */
  forget(spans: readonly Span[]): void {
    this.#lacked = this.#lacked.map((known) => subtractSpans(known, spans));
  }
}

/** Slots in one run at an end of an answer that even a lively market may leave out. */
const QUIET_SLOTS_MAX = 5;

/** An end of an answer that holds nothing: the market was quiet, or the answer is not whole. */
export interface EmptyEnd {
  readonly span: Span;
  /**
   * What to ask so that a second answer shows which: the run and the candle beside it, which has to
   * show up again. Its bounds are never those of the first question, so that no cache answers it.
   */
  readonly question: Span;
  /** What is asked in its place where candles below it matter, too. */
  readonly asked?: Span;
}

/**
 * The runs without a candle at either end of what was answered. A server that caps its replies,
 * and a page that was cut on its way, both leave long ones; a gap between two candles is neither.
 *
 * @param answered whole slots
 * @param heldMs open times that the answer speaks of
 */
export function emptyEnds(answered: Span, heldMs: readonly number[], stepMs: number): EmptyEnd[] {
  const { fromMs, toMs } = answered;
  const inside = heldMs.filter((ms) => spanContains(answered, ms)).sort((a, b) => a - b);
  const [oldestMs, newestMs] = [inside[0], inside.at(-1)];
  if (oldestMs === undefined || newestMs === undefined) {
    return [{ span: answered, question: { fromMs, toMs: toMs - stepMs } }];
  }
  const older = { fromMs, toMs: oldestMs };
  const newer = { fromMs: newestMs + stepMs, toMs };
  return [
    { span: newer, question: { fromMs: newestMs, toMs } },
    { span: older, question: { fromMs, toMs: oldestMs + stepMs } },
  ].filter(({ span }) => !isEmptySpan(span));
}

/** An end is worth a second question where more than a few slots of it are not known already. */
export function isWorthAsking({ span }: EmptyEnd, known: Iterable<Span>, stepMs: number): boolean {
  return totalLengthMs(subtractSpans(span, known)) > QUIET_SLOTS_MAX * stepMs;
}

/**
 * What may be believed of an empty end after it was asked for once more.
 *
 * Where the second answer shows the candle beside the run and nothing in it, both agree: all of it is
 * quiet. Where it brings candles, or misses the one that was seen, one of the two was cut: then what
 * lies between its candles is believed, and its own empty ends are not.
 *
 * @param heldMs open times that the second answer speaks of
 */
export function believedOf(
  { span, question }: EmptyEnd,
  heldMs: readonly number[],
  stepMs: number,
): Span[] {
  const isFound = heldMs.some((ms) => spanContains(span, ms));
  const hasNeighbour = !holdsSpan(span, question);
  const isSeenAgain = heldMs.some((ms) => spanContains(question, ms) && !spanContains(span, ms));
  if (!isFound && isSeenAgain === hasNeighbour) return [span];
  const suspect = emptyEnds(question, heldMs, stepMs).map((end) => end.span);
  // The first answer alone has spoken of what the second was not asked for.
  return subtractSpans(overlapOf(span, question), suspect);
}
