import { normalizeSpans, type Span, subtractSpans } from '../../kernel/span.js';
import type { ArchivePort } from '../ports.js';

/** What is said of slots that can not be without a candle. */
export const CONTRADICTED_NOTE =
  'trades of this time are stored, but the answers held no candle of it';

/** What an answer is believed to prove, and what of that the stored trades contradict. */
export interface Weighed {
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
