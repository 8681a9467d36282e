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

/** One HTTP request, however it ended. */
export interface RequestEnded {
  /** Name of the endpoint, such as `depth`. */
  readonly endpoint: string;
  /** How it ended. */
  readonly outcome: RequestOutcome;
  /** From sending to the end, milliseconds. */
  readonly durationMs: number;
  /** Size of the answer's body. */
  readonly bytes: number;
  /** Present on failure: the error's stable code and message. */
  readonly error?: { readonly code: string; readonly message: string };
}

/** The request budget at one moment. */
export interface BudgetState {
  /** Requests per second that are allowed now. */
  readonly ratePerS: number;
  /** Requests that may start at once. */
  readonly tokens: number;
  /** Callers that wait. */
  readonly waiting: number;
}

/** Two courses of the exchange's time that answers speak for. UNIX milliseconds. */
export interface ClockDispute {
  /** Now, by the course in use before. */
  readonly fromMs: number;
  /** Now, by the answers that contradict it. */
  readonly toMs: number;
  /** Share of the last answers that do, 0 to 1. */
  readonly share: number;
  /** Whether they are followed from now on. */
  readonly isFollowed: boolean;
}

/** What a client tells while it works, for logs and metrics. None may throw or take long. */
export interface ClientEvents {
  /** An HTTP request ended, well or not. */
  requestEnded(event: RequestEnded): void;
  /** The request budget changed. */
  budgetChanged(event: BudgetState): void;
  /** The exchange asked us to wait (429, Retry-After, exhausted headers). */
  budgetPaused(event: { readonly reason: string; readonly waitMs: number }): void;
  /** Exchange time minus this machine's time, and how fast it runs (1 is real time). */
  exchangeClock(event: { readonly offsetMs: number; readonly pace: number }): void;
  /** Answers contradict the course of the exchange's time that is in use. */
  exchangeClockDisputed(event: ClockDispute): void;
  /** A connection for states is open, and subscribed. */
  socketOpened(event: { readonly market: string; readonly periodS: number }): void;
  /** A connection for states ended: WebSocket close code, reason, and how long it had lived. */
  socketClosed(event: {
    readonly market: string;
    readonly periodS: number;
    readonly code: number;
    readonly reason: string;
    readonly livedMs: number;
    /** Why no connection came about, where that is how it ended. */
    readonly detail?: string;
  }): void;
  /** The next connection for states is tried after this wait. */
  socketRetry(event: {
    readonly market: string;
    readonly periodS: number;
    readonly waitMs: number;
  }): void;
  /** A WebSocket frame came, and what became of it. */
  frameReceived(event: {
    readonly outcome: 'update' | 'response' | 'unrecognised' | 'dropped';
  }): void;
}
