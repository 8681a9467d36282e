import { SECOND_MS } from '../../kernel/durations.js';
import { placeKey, type Seam, seamsOf } from '../../ledger/order.js';
import type { PageStoreOptions } from './page-store.js';
import type { SourceTrade } from './source.js';

/** Seams that are remembered as recorded; beyond it they are recorded once more, which changes nothing. */
const RECORDED_MAX = 100;

/**
 * Records where the exchange began the ids of a market anew. Nothing else depends on it: trades are
 * ordered by time first, so that the walk and the archive go on over a seam as over any second.
 */
export class IdEpochs {
  readonly #options: PageStoreOptions;
  readonly #recorded = new Set<string>();

  constructor(options: PageStoreOptions) {
    this.#options = options;
  }

  /**
   * Looks for seams in what one page, or a page and what is known below it, shows.
   *
   * @param rows newest first
   */
  async look(rows: readonly SourceTrade[]): Promise<void> {
    for (const seam of seamsOf(rows)) await this.#record(seam);
  }

  async #record({ first, last }: Seam): Promise<void> {
    const key = placeKey(first);
    if (this.#recorded.has(key)) return;
    const { archive, marketId, market, source, telemetry, time } = this.#options;
    const beginsMs = first.tradedAtS * SECOND_MS;
    const isNew = await archive.recordIdEpoch({
      ...{ marketId, beginsMs, firstId: first.tid, lastIdBefore: last.tid },
      lastBeforeMs: last.tradedAtS * SECOND_MS,
      ...{ endpoint: source.endpoint, atMs: Math.floor(time.nowMs()) },
    });
    if (this.#recorded.size >= RECORDED_MAX) this.#recorded.clear();
    this.#recorded.add(key);
    if (!isNew) return;
    telemetry.idsBegunAnew({ market, firstId: first.tid, lastIdBefore: last.tid, atMs: beginsMs });
  }
}
