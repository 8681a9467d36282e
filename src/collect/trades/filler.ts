import { setMaxListeners } from 'node:events';
import type { Clock } from '../../kernel/clock.js';
import { codeOf, isAborted, messageOf, TapekeepError } from '../../kernel/errors.js';
import { Wakeup } from '../../kernel/wakeup.js';
import type { CollectEvents } from '../../observe/events.js';
import type { TradeWalker } from './walker.js';

export interface FillerOptions {
  readonly clock: Clock;
  readonly telemetry: CollectEvents;
  /** How many walkers may be a page deeper at the same time. */
  readonly concurrency: number;
}

/** How often holes that were put off are looked at again when nothing else wakes the filler. */
const RECHECK_MS = 1000;

/**
 * Works on holes in trade history in the background, with whatever the request budget leaves over:
 * first where the walk has lost touch with the head, then the newest hole of all.
 *
 * States: *stopped* → *running* ({@link GapFiller.start}) → *stopped*. Holes are not kept here: they
 * are read from the walkers, which read them from the ledger.
 */
export class GapFiller {
  readonly #options: FillerOptions;
  readonly #walkers = new Set<TradeWalker>();
  readonly #busy = new Set<TradeWalker>();
  readonly #wakeup: Wakeup;
  #workers: Promise<void>[] = [];
  #stopping = new AbortController();

  constructor(options: FillerOptions) {
    this.#options = options;
    this.#wakeup = new Wakeup(options.clock);
  }

  add(walker: TradeWalker): void {
    this.#walkers.add(walker);
  }

  remove(walker: TradeWalker): void {
    this.#walkers.delete(walker);
  }

  /** Says that there may be a new hole. */
  wake(): void {
    this.#wakeup.notify();
  }

  start(): void {
    if (this.#workers.length > 0) return;
    this.#stopping = new AbortController();
    setMaxListeners(0, this.#stopping.signal);
    this.#workers = [this.#run(this.#stopping.signal)];
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.all(this.#workers);
    this.#workers = [];
  }

  async #run(signal: AbortSignal): Promise<void> {
    const steps = new Set<Promise<void>>();
    while (!signal.aborted) {
      const walker = steps.size < this.#options.concurrency ? this.#pick() : undefined;
      if (walker === undefined) {
        await this.#wakeup.wait(RECHECK_MS, signal);
        continue;
      }
      const step = this.#step(walker, signal).finally(() => {
        steps.delete(step);
        this.#wakeup.notify();
      });
      steps.add(step);
    }
    await Promise.all(steps);
  }

  async #step(walker: TradeWalker, signal: AbortSignal): Promise<void> {
    this.#busy.add(walker);
    try {
      await walker.fillStep(signal);
    } catch (error) {
      if (signal.aborted || isAborted(error)) return;
      this.#options.telemetry.pollFailed({
        stream: walker.kind,
        market: walker.market,
        code: codeOf(error),
        message: messageOf(error),
        action: error instanceof TapekeepError ? error.action : 'retry',
      });
    } finally {
      this.#busy.delete(walker);
    }
  }

  #pick(): TradeWalker | undefined {
    let best: { walker: TradeWalker; isTop: boolean; edgeMs: number } | undefined;
    for (const walker of this.#walkers) {
      if (this.#busy.has(walker)) continue;
      const gap = walker.pendingGap();
      if (gap === undefined) continue;
      const isBetter =
        best === undefined ||
        (gap.isTop && !best.isTop) ||
        (gap.isTop === best.isTop && gap.edgeMs > best.edgeMs);
      if (isBetter) best = { walker, ...gap };
    }
    return best?.walker;
  }
}
