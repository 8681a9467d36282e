import type { Clock } from '../../kernel/clock.js';
import { comparePlaces, orderPage } from '../../model/order.js';
import type { CollectEvents } from '../../observe/events.js';
import type { OffsetMode, PagedEndpoint } from '../../store/index.js';
import { type ArchivePort, PRIORITY } from '../ports.js';
import type { TradeSource } from './source.js';

/** What the walkers know together of how the server understands `since` and `lastId`. */
export type OffsetKnowledge = Pick<OffsetModes, 'of' | 'look' | 'invalidate'>;

export interface OffsetModesOptions {
  readonly archive: Pick<ArchivePort, 'offsetModes' | 'rememberOffsetMode'>;
  readonly clock: Clock;
  readonly telemetry: CollectEvents;
}

interface Endpoint {
  mode: OffsetMode | undefined;
  /** Not settled, or suspect. */
  isOpen: boolean;
  isLooking: boolean;
  dueAtMs: number;
  tries: number;
  settledAtMs: number;
}

/** Rows of a page at the first try; each further one takes twice as many, as trades may come too fast for fewer. */
const SAMPLE = 100;
const SAMPLE_MAX = 1000;
const RETRY_BASE_MS = 1000;
const RETRY_CAP_MS = 60_000;
/** Shortest pause between two invalidations of a settled mode. */
const SUSPECT_PAUSE_MS = 600_000;

const unsettled = (): Endpoint => ({
  mode: undefined,
  isOpen: true,
  isLooking: false,
  dueAtMs: Number.NEGATIVE_INFINITY,
  tries: 0,
  settledAtMs: Number.NEGATIVE_INFINITY,
});

/**
 * Finds out, once per endpoint and archive, whether the server counts the offset as trades to skip
 * or as an id (field notes, since / lastId).
 *
 * States per endpoint: *open* → *settled* (three agreeing observations, kept in the archive) →
 * *suspect* (answers that only the other mode explains; the known mode stays in force) → *settled*.
 */
export class OffsetModes {
  readonly #options: OffsetModesOptions;
  readonly #endpoints: Readonly<Record<PagedEndpoint, Endpoint>> = {
    history: unsettled(),
    historyResult: unsettled(),
  };
  #loading: Promise<void> | undefined;

  constructor(options: OffsetModesOptions) {
    this.#options = options;
  }

  /** Undefined while it is not settled: then only the head may be asked for. */
  of(endpoint: PagedEndpoint): OffsetMode | undefined {
    return this.#endpoints[endpoint].mode;
  }

  /** Answers do not fit what is known. It is looked at anew, unless that was done just now. */
  invalidate(endpoint: PagedEndpoint): void {
    const state = this.#endpoints[endpoint];
    const nowMs = this.#options.clock.monotonicMs();
    if (state.isOpen || nowMs - state.settledAtMs < SUSPECT_PAUSE_MS) return;
    state.isOpen = true;
    state.dueAtMs = nowMs;
    state.tries = 0;
  }

  /**
   * Tries to settle what is open with a market that has trades; does nothing when nothing is open,
   * or when it is not yet time for another try.
   *
   * @throws the errors of the exchange and of the archive
   */
  async look(source: TradeSource, market: string, signal: AbortSignal): Promise<void> {
    await this.#load();
    const state = this.#endpoints[source.endpoint];
    const nowMs = this.#options.clock.monotonicMs();
    if (!state.isOpen || state.isLooking || nowMs < state.dueAtMs) return;
    state.isLooking = true;
    try {
      const sample = Math.min(SAMPLE_MAX, SAMPLE * 2 ** state.tries);
      const mode = await agreement(source, market, sample, signal);
      if (mode !== undefined) await this.#settle(source.endpoint, mode);
    } finally {
      state.isLooking = false;
      state.tries += 1;
      const waitMs = Math.min(RETRY_CAP_MS, RETRY_BASE_MS * 2 ** Math.min(state.tries - 1, 10));
      state.dueAtMs = this.#options.clock.monotonicMs() + waitMs;
    }
  }

  async #settle(endpoint: PagedEndpoint, mode: OffsetMode): Promise<void> {
    const { archive, clock, telemetry } = this.#options;
    const state = this.#endpoints[endpoint];
    const before = state.mode;
    if (before !== mode) {
      await archive.rememberOffsetMode(endpoint, mode);
      telemetry.offsetModeSettled({ endpoint, mode, before: before ?? null });
    }
    state.mode = mode;
    state.isOpen = false;
    state.settledAtMs = clock.monotonicMs();
  }

  /** Reads once what an earlier run found out; a failure is repeated at the next call. */
  #load(): Promise<void> {
    this.#loading ??= this.#options.archive
      .offsetModes()
      .then((modes) => {
        for (const endpoint of ['history', 'historyResult'] as const) {
          const mode = modes[endpoint];
          const state = this.#endpoints[endpoint];
          if (mode === undefined) continue;
          state.mode = mode;
          state.isOpen = false;
        }
      })
      .catch((error: unknown) => {
        this.#loading = undefined;
        throw error;
      });
    return this.#loading;
  }
}

/** What all of several observations say, each in another size so that no cache answers for it. */
async function agreement(
  source: TradeSource,
  market: string,
  sample: number,
  signal: AbortSignal,
): Promise<OffsetMode | undefined> {
  const first = await observe(source, market, sample, 0, signal);
  if (first === undefined) return undefined;
  if ((await observe(source, market, sample, 7, signal)) !== first) return undefined;
  // One request between: of servers that answer in turn, another one gets the next question.
  await source.fetch(market, 0, 1, { priority: PRIORITY.head, signal });
  return (await observe(source, market, sample, 13, signal)) === first ? first : undefined;
}

/**
 * One observation: the head, then the offset that skips all of that page but its last row, then the
 * head again to see what arrived in between. Undefined when the answers allow more than one
 * reading: too few trades, too many new ones, or an answer from a cache.
 */
async function observe(
  source: TradeSource,
  market: string,
  sample: number,
  less: number,
  signal: AbortSignal,
): Promise<OffsetMode | undefined> {
  const size = sample - less;
  const page = async (skip: number, limit: number) => {
    const options = { priority: PRIORITY.head, signal };
    const { trades, rowCount } = await source.fetch(market, skip, limit, options);
    // A server that gives more than was asked for did not read the question.
    return rowCount > limit ? [] : orderPage(trades);
  };
  const before = await page(0, size);
  // Another depth for another size, also where all of history is shorter than a page.
  const offset = before.length - 1 - (less > 0 && before.length > 2 ? 1 : 0);
  const [newest, target] = [before[0], before[offset]];
  if (newest === undefined || target === undefined || offset < 1 || newest.tid <= offset) return;
  const [shifted] = await page(offset, Math.min(offset, sample / 2));
  const after = await page(0, size - 1);
  const arrived = after.filter((row) => comparePlaces(row, newest) > 0).length;
  const isThere = after.some((row) => comparePlaces(row, newest) === 0);
  if (shifted === undefined || !isThere || arrived * 2 >= offset) return;
  if (comparePlaces(shifted, newest) >= 0) return 'id';
  const at = before.findIndex((row) => comparePlaces(row, shifted) === 0);
  return at * 2 > offset && at <= offset ? 'skip' : undefined;
}
