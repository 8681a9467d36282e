import { sharesOf } from '../kernel/waiting-line.js';
import type { CollectEvents } from '../observe/events.js';
import type { MarketUnit } from './market-unit.js';
import { PRIORITY } from './ports.js';

/** A stream that is polled less often than its schedule says, because the request budget is too small. */
export interface StretchedStream {
  readonly stream: PacedStream;
  /** Time between two runs of its schedule. */
  readonly scheduleMs: number;
  /** Time between two polls of one market that the budget allows. */
  readonly paceMs: number;
}

const STREAM_PRIORITY = {
  trades: PRIORITY.head,
  tickers: PRIORITY.sweep,
  depth: PRIORITY.snapshot,
  candles: PRIORITY.klines,
} as const;
export type PacedStream = keyof typeof STREAM_PRIORITY;

/** Up to this factor a schedule counts as kept: polls wait for each other. */
const KEPT_FACTOR = 1.25;
/** A pace is reported again once it has changed by this factor. */
const CHANGED_FACTOR = 2;

interface PacesOptions {
  /** Requests a second of all endpoints, and of one of them. */
  readonly requestsPerS: () => number;
  readonly endpointRequestsPerS: () => number;
  /** Lengths of the candles that are collected of each market. */
  readonly intervalsS: readonly number[];
  readonly telemetry: Pick<CollectEvents, 'pacesStretched'>;
}

/**
 * Works out which streams cannot keep their schedule with the request budget, by the same shares that the line
 * of the budget gives, and reports it once for each change.
 */
export class Paces {
  readonly #options: PacesOptions;
  readonly #schedulesMs = new Map<PacedStream, number>();
  #reported: readonly StretchedStream[] = [];

  constructor(options: PacesOptions) {
    this.#options = options;
  }

  /** @param periodMs longest time between two runs of the schedule */
  keepsTo(stream: PacedStream, periodMs: number): void {
    this.#schedulesMs.set(stream, periodMs);
  }

  /** Streams that are polled less often than their schedule says. */
  stretched(units: Iterable<MarketUnit>): StretchedStream[] {
    const { requestsPerS, endpointRequestsPerS } = this.#options;
    const asked = this.#askedPerS([...units]);
    const shares = sharesOf(
      requestsPerS(),
      new Map([...asked].map(([stream, perS]) => [STREAM_PRIORITY[stream], perS])),
    );
    return [...asked].flatMap(([stream, perS]) => {
      const scheduleMs = this.#schedulesMs.get(stream) ?? 0;
      const share = Math.min(shares.get(STREAM_PRIORITY[stream]) ?? 0, endpointRequestsPerS());
      const factor = perS / share;
      // Without any market nothing is asked for.
      if (!(factor > KEPT_FACTOR)) return [];
      return [{ stream, scheduleMs, paceMs: Math.round(scheduleMs * factor) }];
    });
  }

  /** Reports what is stretched, where that is news. To be called once all markets are open. */
  review(units: Iterable<MarketUnit>): void {
    const streams = this.stretched(units);
    const isKnown =
      streams.length === this.#reported.length &&
      streams.every(({ stream, paceMs }) => {
        const before = this.#reported.find((one) => one.stream === stream)?.paceMs ?? 0;
        return Math.max(paceMs / before, before / paceMs) < CHANGED_FACTOR;
      });
    if (isKnown) return;
    this.#reported = streams;
    this.#options.telemetry.pacesStretched({ streams });
  }

  /** Requests a second that the schedules ask for. */
  #askedPerS(units: readonly MarketUnit[]): Map<PacedStream, number> {
    const perS = (stream: PacedStream, requests: number) =>
      (requests * 1000) / (this.#schedulesMs.get(stream) ?? Number.POSITIVE_INFINITY);
    const polled = units.filter(({ trades }) => trades?.isPushed === false);
    // A candle is asked for once it has ended, at the run after that.
    const runS = (this.#schedulesMs.get('candles') ?? 0) / 1000;
    const { intervalsS } = this.#options;
    const perRun = intervalsS.reduce((sum, intervalS) => sum + Math.min(1, runS / intervalS), 0);
    const withCandles = units.filter(({ candles }) => candles.length > 0).length;
    return new Map<PacedStream, number>([
      ['trades', perS('trades', polled.length)],
      ['tickers', perS('tickers', units.some(({ ticker }) => ticker !== undefined) ? 1 : 0)],
      ['depth', perS('depth', units.filter(({ depth }) => depth !== undefined).length)],
      ['candles', perS('candles', withCandles * perRun)],
    ]);
  }
}
