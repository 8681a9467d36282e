import { normalizeSpans, type Span, subtractSpans } from '../../kernel/span.js';
import type { ArchivePort } from '../ports.js';

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
  weigh(
    believed: readonly Span[],
    heldMs: readonly number[],
    covered: readonly Span[],
    stepMs: number,
  ): Span[] {
    const held = heldMs.map((fromMs) => ({ fromMs, toMs: fromMs + stepMs }));
    const proven = normalizeSpans([...held, ...covered, ...this.#seen]);
    const open = believed.flatMap((span) => subtractSpans(span, proven));
    // What the answer settles is done with; what it leaves open it was the first to be asked about.
    const left = this.#seen.flatMap((span) => subtractSpans(span, believed));
    this.#seen = normalizeSpans([...left, ...open]).slice(-RUNS_MAX);
    return believed.flatMap((span) => subtractSpans(span, open));
  }

  /** Forgets a suspect span. */
  forget(suspect: Span): void {
    this.#seen = this.#seen.flatMap((span) => subtractSpans(span, [suspect]));
  }
}

/** What is said of slots that cannot be without a candle. */
export const CONTRADICTED_NOTE =
  'trades of this time are stored, but the answers held no candle of it';

/** What an answer is believed to prove, and what of that the stored trades contradict. */
interface Weighed {
  readonly believed: readonly Span[];
  /** Slots without a candle in which trades are stored. */
  readonly contradicted: readonly Span[];
}

/**
 * Lets the stored trades speak before a slot counts as one without a candle: however many answers
 * agree that it has none, they were cut if something was traded in it. Where no trade is stored, or not
 * all of the slot's are proven to be, the answers stand: it was quiet, it lies where history begins, or
 * its trades are not collected yet; then the verification judges the slot as soon as they are.
 *
 * @param believed whole slots
 * @param heldMs open times of which the answer speaks
 * @param covered what is proven already and not asked about again
 */
export async function hearTrades(
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
): Promise<Weighed> {
  const slotAt = (fromMs: number) => ({ fromMs, toMs: fromMs + stepMs });
  const known = normalizeSpans([...heldMs.map(slotAt), ...covered]);
  const absent = believed.flatMap((span) => subtractSpans(span, known));
  if (absent.length === 0) return { believed, contradicted: [] };
  const contradicted = normalizeSpans(
    (await archive.tradedSlots(marketId, absent, stepMs)).map(slotAt),
  );
  if (contradicted.length === 0) return { believed, contradicted };
  return { believed: believed.flatMap((span) => subtractSpans(span, contradicted)), contradicted };
}
