import { BoundedMap } from '../kernel/bounded.js';
import type { Clock } from '../kernel/clock.js';
import type { FillRequests } from '../store/index.js';
import type { CandleCollector } from './candles/candles.js';

/** A filler of one stream's gaps: a walk through trades, or a collector of candles. */
export type StreamFiller = Pick<
  CandleCollector,
  'streamId' | 'backfill' | 'invalidate' | 'retry' | 'keepFrom'
>;

/** The part of a market's collectors that a review speaks to. */
export interface ReviewedUnit {
  readonly trades: StreamFiller | undefined;
  readonly candles: readonly (StreamFiller & Pick<CandleCollector, 'leaveOut'>)[];
}

export function fillersOf({ trades, candles }: ReviewedUnit): StreamFiller[] {
  return [...(trades === undefined ? [] : [trades]), ...candles];
}

/**
 * A request that was passed on is not passed on again within this time: the archive closes memories
 * of filled gaps only now and then, and meanwhile goes on asking.
 */
const REPEAT_MS = 60_000;
/** Requests that are remembered as passed on; beyond it the oldest are passed on once more. */
const PASSED_MAX = 10_000;
const REVOKE_NOTE = 'taken back to be fetched again, because trades and candles disagree';

/**
 * Passes what others ask for (persons by command, the verification) on to the collectors. The same
 * requests come again and again; passing them on twice changes nothing.
 */
export class FillReview {
  readonly #clock: Clock;
  /** When each request was passed on, by its kind and gap. */
  readonly #passedAtMs = new BoundedMap<string, number>(PASSED_MAX);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Streams without a collector here are left alone.
   *
   * @returns the units that have something to work on now
   * @throws the first error of the archive, after all requests were tried
   */
  async review<T extends ReviewedUnit>(
    { wanted, suspects, due, expired, candlesInFiles }: FillRequests,
    all: readonly T[],
  ): Promise<ReadonlySet<T>> {
    const touched = new Set<T>();
    this.limit({ expired, candlesInFiles }, all);
    const suspectKey = ({ gapId }: FillRequests['suspects'][number]) => `suspect ${gapId}`;
    // After another try, or when its pause was ended, it is another request.
    const dueKey = ({ gapId, attempts, nextAttemptAtMs }: FillRequests['due'][number]) =>
      `due ${gapId} ${attempts} ${nextAttemptAtMs}`;
    this.#keepOnly([...suspects.map(suspectKey), ...due.map(dueKey)]);
    if (wanted.length + suspects.length + due.length === 0) return touched;
    const fillers = new Map<number, { readonly filler: StreamFiller; readonly unit: T }>();
    for (const unit of all) {
      for (const filler of fillersOf(unit)) fillers.set(filler.streamId, { filler, unit });
    }
    /** The filler of a request's stream, unless the request was just passed on. */
    const fillerOf = (streamId: number, key?: string): StreamFiller | undefined => {
      const found = fillers.get(streamId);
      if (found === undefined || (key !== undefined && !this.#isNew(key))) return undefined;
      touched.add(found.unit);
      return found.filler;
    };
    for (const { streamId, span } of wanted) fillerOf(streamId)?.backfill(span);
    const revocations: Promise<void>[] = [];
    for (const suspect of suspects) {
      const { streamId, span } = suspect;
      const key = suspectKey(suspect);
      const revoked = fillerOf(streamId, key)?.invalidate(span, REVOKE_NOTE);
      // Taken back is remembered in the archive: if it asks once more, that is another request.
      if (revoked !== undefined)
        revocations.push(revoked.then(() => void this.#passedAtMs.delete(key)));
    }
    for (const one of due) fillerOf(one.streamId, dueKey(one))?.retry(one.span);
    const failed = (await Promise.allSettled(revocations)).find(
      ({ status }) => status === 'rejected',
    );
    if (failed?.status === 'rejected') throw failed.reason;
    return touched;
  }

  /** Says what nothing can be added to: to be called before a unit asks for anything. */
  limit(
    { expired, candlesInFiles }: Pick<FillRequests, 'expired' | 'candlesInFiles'>,
    all: readonly ReviewedUnit[],
  ): void {
    for (const { trades, candles } of all) {
      trades?.keepFrom(expired.trades ?? Number.NEGATIVE_INFINITY);
      for (const one of candles) {
        one.keepFrom(expired.candles ?? Number.NEGATIVE_INFINITY);
        one.leaveOut(candlesInFiles);
      }
    }
  }

  /** What is not asked for any more was done: the next time it is another request. */
  #keepOnly(asked: readonly string[]): void {
    const left = new Set(asked);
    for (const key of [...this.#passedAtMs.keys()]) {
      if (!left.has(key)) this.#passedAtMs.delete(key);
    }
  }

  #isNew(key: string): boolean {
    const nowMs = this.#clock.monotonicMs();
    const passedAtMs = this.#passedAtMs.get(key);
    if (passedAtMs !== undefined && nowMs - passedAtMs < REPEAT_MS) return false;
    this.#passedAtMs.set(key, nowMs);
    return true;
  }
}
