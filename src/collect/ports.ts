import type { EndpointName, ParamsOf, ResultOf } from '../contract/endpoints.js';
import type { StateRecord } from '../contract/resources.js';
import type { RejectedRow } from '../contract/shape.js';
import type { ToldGap } from '../contract/told-gaps.js';
import { codeOf, type ErrorAction, messageOf, TapekeepError } from '../kernel/errors.js';
import type { Span } from '../kernel/span.js';
import type { QuarantineRow } from '../model/batch.js';
import type { CollectEvents } from '../observe/events.js';
import type { Store } from '../store/index.js';

/**
 * What the collectors need from the other rooms, and nothing more. The client fits these shapes, and
 * the store has more than {@link ArchivePort}; the composition root hands them in.
 */

/** An answer of the exchange with what is needed to judge it. */
export interface ExchangeReply<T> {
  readonly data: T;
  readonly rejected: readonly RejectedRow[];
  /** Exchange time when the request was sent, milliseconds. */
  readonly sentAtMs: number;
  /** The server's Date header, milliseconds; null when absent. */
  readonly dateMs: number | null;
  /** Wall time of this machine when the answer was complete, milliseconds. */
  readonly receivedAtMs: number;
  /** When a cache took up the answer, exchange time, where it says so. */
  readonly cachedAtMs?: number | null;
  /** Whether the server refuses an offset of 0, so that 1 was sent. */
  readonly isRaised?: boolean;
  /** Time of which the answer speaks and the server does not know all; only a replay has such. */
  readonly gaps?: readonly ToldGap[];
  /**
   * Since when the server knows all that could be seen until this look, which was at the end of the span;
   * null or left out: nothing is said of it. Only a replay says it.
   */
  readonly covered?: Span | null;
}

export interface CallOptions {
  /** Lower goes first when the budget is short. */
  readonly priority?: number;
  readonly signal?: AbortSignal;
  /** A turn that was reserved: the call goes out at once, and the turn is used up. */
  readonly turn?: RequestTurn;
}

/** The right to send one request now. It is handed to a call, or given back; nothing else. */
export interface RequestTurn {
  /** Does nothing once the turn is used or given back. */
  giveBack(): void;
}

export interface ExchangePort {
  /**
   * Waits until one request may start, so that what to ask for can be chosen then and not before.
   * The holder of the turn uses it or gives it back at once.
   */
  reserve(priority: number, signal: AbortSignal): Promise<RequestTurn>;
  call<N extends EndpointName>(
    name: N,
    params: ParamsOf<N>,
    options?: CallOptions,
  ): Promise<ExchangeReply<ResultOf<N>>>;
}

/** The exchange's time (never this machine's, unless both agree). */
export interface ExchangeTime {
  nowMs(): number;
}

/** The exchange's time as far as coverage may be claimed of it. */
export interface ClaimTime extends ExchangeTime {
  /** Changes whenever {@link nowMs} moves to another course. */
  readonly jumps: number;
  /**
   * Exchange time that this process has been through without a break, milliseconds; undefined until
   * several answers agree about the time.
   */
  readonly lived: { readonly sinceMs: number; readonly untilMs: number } | undefined;
  /** How many exchange seconds pass in one second here. */
  readonly pace: number;
  /** Takes the time of something that has happened at the exchange. */
  witness(happenedMs: number): void;
}

/** What a feed of market states reports, in order. */
export type StateFeedEvent =
  | { readonly kind: 'opened'; readonly exchangeMs: number; readonly identity?: string | null }
  | {
      readonly kind: 'record';
      readonly origin: 'query' | 'update';
      readonly record: Omit<StateRecord, 'period'>;
      readonly receivedAtMs: number;
      readonly exchangeMs: number;
    }
  | { readonly kind: 'alive'; readonly exchangeMs: number }
  /** Of a replay: the archive behind it knows no states from then on, until the next record. */
  | { readonly kind: 'gap'; readonly fromExchangeMs: number }
  | {
      readonly kind: 'closed';
      readonly code: number;
      readonly reason: string;
      readonly lastAliveExchangeMs: number | null;
      /** When it ended. */
      readonly exchangeMs: number;
    }
  | { readonly kind: 'retrying'; readonly waitMs: number };

export interface StateFeedPort extends AsyncIterable<StateFeedEvent> {
  stop(): Promise<void>;
}

export type OpenStateFeed = (market: string, periodS: number) => StateFeedPort;

export type { Gap as RememberedGap, OffsetMode, PagedEndpoint } from '../store/index.js';

/** What collectors ask of the store, and nothing more. */
export const ARCHIVE_METHODS = [
  ...(['commit', 'ensureMarkets', 'ensureStream', 'setCollectFrom', 'coveredRanges'] as const),
  ...(['want', 'fillRequests', 'listGaps', 'recordGap'] as const),
  ...(['startTries', 'noteStartTry', 'revoke', 'revokeBeyond', 'notePresent'] as const),
  ...(['storedTrades', 'tradedSlots', 'exposeTrades', 'recordIdEpoch'] as const),
  ...([
    'offsetModes',
    'rememberOffsetMode',
    'openSession',
    'touchSession',
    'closeSession',
  ] as const),
] as const;

/** The store as collectors see it. The tests' model of an archive stands in for it. */
export type ArchivePort = Pick<Store, (typeof ARCHIVE_METHODS)[number]>;

/**
 * Order in which work may use the request budget (kernel, `queueKeyOf`): heads of trades and the tickers
 * that tell which of them moved get every other turn; the rest goes ahead by some seconds for each
 * step; filling waits for all others.
 */
export const PRIORITY = {
  head: -1,
  sweep: -1,
  markets: 0,
  snapshot: 1,
  klines: 2,
  fill: 3,
} as const;

/**
 * Reports a failed piece of collecting.
 *
 * @param stream what was asked for: the name of a stream, or of the work
 * @param market `*` when it was none in particular
 * @param action what follows, where the error itself does not say; by default it is tried again
 */
export function reportFailure(
  telemetry: Pick<CollectEvents, 'pollFailed'>,
  stream: string,
  market: string,
  error: unknown,
  action: ErrorAction = error instanceof TapekeepError ? error.action : 'retry',
): void {
  const [code, message] = [codeOf(error), messageOf(error)];
  telemetry.pollFailed({ stream, market, code, message, action });
}

/** Longest text of a refused row that is kept. */
const PAYLOAD_MAX_LENGTH = 4000;
const REASON_MAX_LENGTH = 300;

/** Refused rows of a reply in the form in which the archive keeps them. */
export function quarantineRows(
  endpoint: string,
  market: string | null,
  rejected: readonly RejectedRow[],
  receivedAtMs: number,
): QuarantineRow[] {
  return rejected.map(({ reason, payload }) => ({
    receivedAtMs,
    endpoint,
    market,
    reason: reason.slice(0, REASON_MAX_LENGTH),
    payload: toText(payload),
  }));
}

/** JSON with what Postgres cannot hold in text (NUL) made visible, cut to a bound. */
function toText(payload: unknown): string {
  const text = JSON.stringify(payload) ?? String(payload);
  return text.slice(0, PAYLOAD_MAX_LENGTH).replaceAll('\u0000', '\\u0000');
}
