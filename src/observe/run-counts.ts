import { obtain } from '../kernel/bounded.js';

/** How an HTTP request ended; the values of the metric label `outcome`. */
export type RequestOutcome =
  | 'ok'
  | 'rejected_rows'
  | 'client_error'
  | 'server_error'
  | 'rate_limited'
  | 'timeout'
  | 'network'
  | 'malformed'
  | 'aborted';

/** Outcomes of a received row; every row comes to exactly one of these. */
export const ROW_OUTCOMES = [
  'stored',
  'updated',
  'duplicate',
  'conflict',
  'rejected',
  'unchanged',
  'lost',
] as const;
export type RowOutcome = (typeof ROW_OUTCOMES)[number];

/** The counts of one stream since the program started. */
export interface StreamCounts extends Readonly<Record<RowOutcome, number>> {
  readonly stream: string;
  readonly received: number;
  /** Received and not settled yet. Below zero would mean rows out of nowhere. */
  readonly inFlight: number;
  /** Newest stored time over all markets, exchange time; null before the first. */
  readonly newestMs: number | null;
  /** Lag of the market that is furthest behind. */
  readonly slowestMs: number | null;
  readonly openGaps: number;
  readonly openGapMs: number;
  readonly lostGaps: number;
  /** Markets of which something was stored; null for a stream that covers all together. */
  readonly markets: number | null;
}

/** The request to the exchange that failed last. */
export interface FailedRequests {
  readonly endpoint: string;
  readonly outcome: RequestOutcome;
  readonly message: string;
  /** So many have failed since one was answered; 0 when one was answered afterwards. */
  readonly inARow: number;
}

export interface RunCountsSnapshot {
  /** In the order in which the streams first showed up. */
  readonly streams: readonly StreamCounts[];
  readonly requests: number;
  readonly failedRequests: number;
  /** Null when none has failed. */
  readonly lastFailure: FailedRequests | null;
  readonly openSockets: number;
  /** Committed transactions of received data. */
  readonly commits: number;
}

/** Ends of a request that say nothing against the exchange or the way to it. */
const NOT_FAILED: ReadonlySet<RequestOutcome> = new Set(['ok', 'rejected_rows', 'aborted']);

/** Removed markets that are remembered. */
const GONE_MAX = 10_000;

interface StreamState {
  received: number;
  readonly outcomes: Record<RowOutcome, number>;
  readonly newestMs: Map<string, number>;
  openGaps: number;
  openGapMs: number;
  lostGaps: number;
}

const NO_GAPS = { openGaps: 0, openGapMs: 0, lostGaps: 0 };

/** The gaps of one stream, over all markets. */
export interface GapSums {
  readonly count: number;
  readonly lengthMs: number;
  /** Those that can never be filled. */
  readonly lostCount: number;
}

function emptyState(): StreamState {
  const none = Object.fromEntries(ROW_OUTCOMES.map((name) => [name, 0]));
  const outcomes = none as Record<RowOutcome, number>;
  return { received: 0, outcomes, newestMs: new Map(), ...NO_GAPS };
}

/**
 * Running totals for the terminal's summary and the console, so that neither asks the database.
 * Stream and market names must be bounded before they come here.
 */
export class RunCounts {
  readonly #streams = new Map<string, StreamState>();
  /** Markets that the exchange removed: a late word of them is no progress any more. */
  readonly #gone = new Set<string>();
  #requests = 0;
  #commits = 0;
  #failedRequests = 0;
  #lastFailure: FailedRequests | null = null;
  /** Connections to the exchange, by what they are for. */
  readonly openSockets = new Set<string>();

  received(stream: string, count: number): void {
    this.#of(stream).received += count;
  }

  settled(stream: string, outcome: RowOutcome, count: number): void {
    this.#of(stream).outcomes[outcome] += count;
  }

  /** Moves the newest stored time forward; older times (filled gaps) change nothing. */
  progressed(stream: string, market: string, newestMs: number): void {
    if (this.#gone.has(market)) return;
    const known = this.#of(stream).newestMs;
    known.set(market, Math.max(newestMs, known.get(market) ?? newestMs));
  }

  /** Drops a market that the exchange removed, so that it does not lag for ever. */
  forgetMarket(market: string): void {
    if (this.#gone.size >= GONE_MAX) this.#gone.clear();
    this.#gone.add(market);
    for (const { newestMs } of this.#streams.values()) newestMs.delete(market);
  }

  /** A market is listed, for the first time or again. */
  welcomeMarket(market: string): void {
    this.#gone.delete(market);
  }

  gaps(totals: ReadonlyMap<string, GapSums>): void {
    for (const stream of totals.keys()) this.#of(stream);
    for (const [stream, state] of this.#streams) {
      const { count = 0, lengthMs = 0, lostCount = 0 } = totals.get(stream) ?? {};
      Object.assign(state, { openGaps: count, openGapMs: lengthMs, lostGaps: lostCount });
    }
  }

  committed(): void {
    this.#commits += 1;
  }

  requestEnded(endpoint: string, outcome: RequestOutcome, message: string): void {
    this.#requests += 1;
    const before = this.#lastFailure;
    if (NOT_FAILED.has(outcome)) {
      if (before !== null && before.inARow > 0 && outcome !== 'aborted') {
        this.#lastFailure = { ...before, inARow: 0 };
      }
      return;
    }
    this.#failedRequests += 1;
    this.#lastFailure = { endpoint, outcome, message, inARow: (before?.inARow ?? 0) + 1 };
  }

  /** Newest stored time by stream and market. */
  *newest(): Iterable<{ stream: string; market: string; newestMs: number }> {
    for (const [stream, state] of this.#streams) {
      for (const [market, newestMs] of state.newestMs) yield { stream, market, newestMs };
    }
  }

  /** Newest stored time of a market in a stream. */
  newestOf(stream: string, market: string): number | undefined {
    return this.#streams.get(stream)?.newestMs.get(market);
  }

  snapshot(): RunCountsSnapshot {
    return {
      streams: [...this.#streams].map(([stream, state]) => {
        const settled = ROW_OUTCOMES.reduce((sum, name) => sum + state.outcomes[name], 0);
        const { received, outcomes, openGaps, openGapMs, lostGaps } = state;
        const times = [...state.newestMs.values()].sort((a, b) => a - b);
        return {
          ...{ stream, received, ...outcomes, openGaps, openGapMs, lostGaps },
          inFlight: received - settled,
          newestMs: times.at(-1) ?? null,
          slowestMs: times[0] ?? null,
          markets: state.newestMs.has('*') ? null : state.newestMs.size,
        };
      }),
      requests: this.#requests,
      failedRequests: this.#failedRequests,
      lastFailure: this.#lastFailure,
      openSockets: this.openSockets.size,
      commits: this.#commits,
    };
  }

  #of(stream: string): StreamState {
    return obtain(this.#streams, stream, emptyState);
  }
}
