/** One reading of the exchange's clock. */
export interface ExchangeTimeSample {
  /** What the exchange said, UNIX milliseconds, cut down to a multiple of `resolutionMs`. */
  readonly dateMs: number;
  /** When the request left and when the answer came, on this machine's monotonic clock. */
  readonly sentMonotonicMs: number;
  readonly receivedMonotonicMs: number;
  /** 1000 for the Date header. */
  readonly resolutionMs: number;
}

/** What time it is at the exchange. */
export interface ExchangeClock {
  /** Exchange time now, UNIX milliseconds (whole). Rather a little behind than ahead. */
  nowMs(): number;
  /** Exchange time at a moment of the recent past on this machine's monotonic clock. */
  atMonotonicMs(monotonicMs: number): number;
  /** Exchange time minus this machine's wall clock; 0 while the local clock is used. */
  readonly offsetMs: number;
  /** How many exchange seconds pass in one second here; 1 for every exchange but a played tape. */
  readonly pace: number;
  /** Whether the exchange has been heard at all; until then {@link nowMs} is the local clock. */
  readonly isSynced: boolean;
  observe(sample: ExchangeTimeSample): void;
}
