import { setMaxListeners } from 'node:events';
import type { RequestTurn } from '../../client/index.js';
import { type Clock, Wakeup } from '../../kernel/clock.js';
import { isAborted } from '../../kernel/errors.js';
import type { CollectEvents } from '../../observe/events.js';
import { type ExchangePort, PRIORITY } from '../ports.js';
import { streamReport } from '../reports.js';
import type { PendingGap } from './chains.js';
import type { TradeWalker } from './walker.js';

export interface FillerOptions {
  readonly exchange: Pick<ExchangePort, 'reserve'>;
  readonly clock: Clock;
  readonly telemetry: CollectEvents;
  /** How many walkers may be a page deeper at the same time; default 4. */
  readonly concurrency?: number;
  /** Called after every step: the walk that made it is free for others. */
  readonly onStepped?: () => void;
}

/** How often gaps that were put off are looked at again when nothing else wakes the filler. */
const RECHECK_MS = 1000;
/** Steps in a row before a walk lets all others with a gap go first. */
const TURN_STEPS = 20;

/**
 * Works on gaps in trade history in the background, with what the request budget leaves over, or keeps for it:
 * first where the walk has lost touch with the head, then what is in work already, then the newest
 * gap of all. After {@link TURN_STEPS} steps a walk stands back until every other had its turn, so
 * that a gap without end starves none. Exact times that rows lack are brought besides, one request at a time.
 *
 * States: *new* → *running* ({@link GapFiller.start}) → *stopped*. Gaps are not kept here: they
 * are read from the walkers, which read them from the ledger.
 */
export class GapFiller {
  readonly #options: FillerOptions;
  readonly #walkers = new Set<TradeWalker>();
  readonly #busy = new Set<TradeWalker>();
  /** The step under way that brings exact times, one over all markets. */
  #timing: Promise<void> | undefined;
  /** Steps that each walk had in this round of turns. */
  readonly #steps = new Map<TradeWalker, number>();
  readonly #wakeup: Wakeup;
  readonly #stopping = new AbortController();
  #running: Promise<void> | undefined;

  constructor(options: FillerOptions) {
    this.#options = options;
    this.#wakeup = new Wakeup(options.clock);
    setMaxListeners(0, this.#stopping.signal);
  }

  add(walker: TradeWalker): void {
    this.#walkers.add(walker);
  }

  remove(walker: TradeWalker): void {
    this.#walkers.delete(walker);
    this.#steps.delete(walker);
  }

  /** Says that there may be a new gap. */
  wake(): void {
    this.#wakeup.notify();
  }

  start(): void {
    this.#running ??= this.#run(this.#stopping.signal);
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { concurrency = 4 } = this.#options;
    const steps = new Set<Promise<void>>();
    while (!signal.aborted) {
      this.#timing ??= this.#startTimes(signal);
      const next = steps.size < concurrency ? this.#pick() : undefined;
      // A walk that waited for its request would keep its head from being polled meanwhile.
      const turn = next && (await this.#reserve(next, signal));
      const walker = turn && this.#pick();
      if (turn === undefined || walker === undefined || signal.aborted) {
        turn?.giveBack();
        await this.#wakeup.wait(RECHECK_MS, signal);
        continue;
      }
      const step = this.#step(walker, signal, turn).finally(() => {
        turn.giveBack();
        steps.delete(step);
        this.#wakeup.notify();
        this.#options.onStepped?.();
      });
      steps.add(step);
    }
    await Promise.all([...steps, this.#timing]);
  }

  /** Exact times are brought beside the gaps, a page of one market after the other. */
  #startTimes(signal: AbortSignal): Promise<void> | undefined {
    const walker = [...this.#walkers].find(({ times }) => times?.isDue === true);
    if (walker === undefined) return undefined;
    // The next turn is that of another market.
    this.#walkers.delete(walker);
    this.#walkers.add(walker);
    const step = walker.times?.fillStep(signal).catch((error: unknown) => {
      if (signal.aborted || isAborted(error)) return;
      streamReport(this.#options.telemetry, 'trades', walker.market).failed(error);
    });
    return step?.finally(() => {
      this.#timing = undefined;
      this.#wakeup.notify();
    });
  }

  async #reserve({ endpoint }: TradeWalker, signal: AbortSignal): Promise<RequestTurn | undefined> {
    try {
      return await this.#options.exchange.reserve(endpoint, PRIORITY.fill, signal);
    } catch (error) {
      if (!signal.aborted && !isAborted(error)) {
        streamReport(this.#options.telemetry, 'trades', '*').failed(error);
      }
      return undefined;
    }
  }

  async #step(walker: TradeWalker, signal: AbortSignal, turn: RequestTurn): Promise<void> {
    this.#busy.add(walker);
    if (this.#walkers.has(walker)) this.#steps.set(walker, this.#stepsOf(walker) + 1);
    try {
      await walker.fillStep(signal, turn);
    } catch (error) {
      if (signal.aborted || isAborted(error)) return;
      streamReport(this.#options.telemetry, 'trades', walker.market).failed(error);
    } finally {
      this.#busy.delete(walker);
    }
  }

  #stepsOf(walker: TradeWalker): number {
    return this.#steps.get(walker) ?? 0;
  }

  #pick(): TradeWalker | undefined {
    let best: Candidate | undefined;
    for (const walker of this.#walkers) {
      if (this.#busy.has(walker) || walker.isBusy) continue;
      const gap = walker.pendingGap();
      if (gap === undefined) {
        // Its gap is closed, or put off: the next one is another turn.
        this.#steps.delete(walker);
        continue;
      }
      const steps = this.#stepsOf(walker);
      const isServed = steps >= TURN_STEPS;
      const candidate = { walker, isServed, isInWork: steps > 0, ...gap };
      if (best === undefined || goesBefore(candidate, best)) best = candidate;
    }
    // Only walks that had their turn are left: a new round begins.
    if (best?.isServed === true) this.#steps.clear();
    return best?.walker;
  }
}

interface Candidate extends PendingGap {
  readonly walker: TradeWalker;
  readonly isServed: boolean;
  readonly isInWork: boolean;
}

function goesBefore(a: Candidate, b: Candidate): boolean {
  if (a.isServed !== b.isServed) return b.isServed;
  if (a.isTop !== b.isTop) return a.isTop;
  if (a.isInWork !== b.isInWork) return a.isInWork;
  return a.edgeMs > b.edgeMs;
}
