import type { EndpointName, ParamsOf, ResultOf } from '../contract/endpoints.js';
import type { Market, StateRecord } from '../contract/resources.js';
import type { RejectedRow } from '../contract/shape.js';
import type { ToldGap } from '../contract/told-gaps.js';
import type { Span } from '../kernel/span.js';
import type {
  Batch,
  CommitResult,
  IdEpoch,
  Island,
  StartReason,
  StreamRef,
  TradeExposure,
} from '../ledger/batch.js';
import type { GapReason } from '../ledger/gap-reasons.js';
import type { PageRow } from '../ledger/order.js';
import type { StreamKind } from '../model/series.js';

/**
 * What the collectors need from the other rooms, and nothing more. The client and the store fit
 * these shapes; the composition root hands them in.
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
   * Whoever gets the turn uses it or gives it back at once.
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

export interface MarketChanges {
  readonly ids: ReadonlyMap<string, number>;
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly changed: readonly string[];
  /** Known from before and not listed now, whenever they left the list. */
  readonly delisted: readonly string[];
}

/** How a server understands `since` and `lastId` (field notes, since / lastId). */
export type SinceMode = 'skip' | 'id';
/** The endpoints that page through trades. */
export type PagedEndpoint = 'history' | 'historyResult';

/** A gap that the archive remembers something of. */
export interface RememberedGap {
  readonly streamId: number;
  readonly span: Span;
  readonly state: 'open' | 'filling' | 'unfillable';
  readonly reason: string;
  readonly attempts: number;
  /** Exchange time; null: at once, or never for what is unfillable. */
  readonly nextAttemptAtMs: number | null;
}

/** What one try at filling a gap came to. */
export interface GapAttempt {
  readonly stream: StreamRef;
  readonly span: Span;
  readonly state: 'open' | 'unfillable';
  readonly reason: GapReason;
  readonly note?: string;
  /** Exchange time, as all moments here. */
  readonly atMs: number;
  readonly nextAttemptAtMs: number | null;
}

/** A try to go below the lowest that is covered, while the start of history is not known. */
export interface StartTry {
  readonly reason: GapReason;
  readonly note: string;
  /** Exchange time. */
  readonly nextAttemptAtMs: number;
}

/** What others ask of whoever fills gaps: read from the archive again and again. */
export interface FillRequests {
  readonly wanted: readonly { readonly streamId: number; readonly span: Span }[];
  readonly suspects: readonly GapRequest[];
  readonly due: readonly DueGap[];
}

export interface GapRequest {
  readonly gapId: number;
  readonly streamId: number;
  readonly span: Span;
}

/** A gap that may be tried now; tries and pause tell one request for it from the next. */
export interface DueGap extends GapRequest {
  readonly attempts: number;
  readonly nextAttemptAtMs: number | null;
}

/** The part of the archive that knows what is complete, beyond what commits say. */
export interface CompletenessPort {
  /** Gaps up to a moment, with what is remembered of them, newest first. */
  listGaps(
    filter: {
      readonly marketIds: readonly number[];
      readonly kinds: readonly StreamKind[];
      readonly limit: number;
    },
    untilMs: number,
  ): Promise<readonly RememberedGap[]>;
  recordAttempt(attempt: GapAttempt): Promise<void>;
  /** Tries to find the start of history that led no further; null for none. */
  startTries(
    streamId: number,
  ): Promise<{ readonly attempts: number; readonly nextAttemptAtMs: number } | null>;
  /** Counts such a try; null when one led further. */
  noteStartTry(streamId: number, failed: StartTry | null): Promise<void>;
  fillRequests(nowExchangeMs: number): Promise<FillRequests>;
  /** Takes back coverage of a span; answers with what is left of the islands that it cut. */
  uncover(
    stream: StreamRef,
    span: Span,
    gap: { readonly reason: GapReason; readonly note: string; readonly atMs: number },
  ): Promise<Island[]>;
  /**
   * Takes back what any stream covers after a moment, as a gap of its own reason.
   *
   * @param isStart whether it was covered by an earlier run
   */
  revokeBeyond(
    presentMs: number,
    how: { readonly isStart: boolean },
  ): Promise<
    readonly (Pick<StreamRef, 'streamId' | 'kind'> & {
      readonly market: string;
      readonly span: Span;
    })[]
  >;
  /** Notes the exchange's time, so that readers of the archive know what was past by then. */
  notePresent(presentMs: number, pace: number): Promise<void>;
  /**
   * Where the slots begin, of spans of whole ones, in which a trade is stored and all trades are proven
   * to be; milliseconds.
   */
  tradedSlots(marketId: number, spans: readonly Span[], stepMs: number): Promise<number[]>;
  /** Stored trades of a span, oldest first; its end may be infinite. */
  storedTrades(marketId: number, span: Span, limit: number): Promise<PageRow[]>;
  /**
   * Moves rows that never were trades to quarantine, and takes back what is covered around them, in
   * one transaction.
   */
  exposeTrades(exposure: TradeExposure): Promise<void>;
  /** @returns whether it was not known before */
  recordIdEpoch(epoch: IdEpoch): Promise<boolean>;
  sinceModes(): Promise<Partial<Record<PagedEndpoint, SinceMode>>>;
  rememberSinceMode(endpoint: PagedEndpoint, mode: SinceMode): Promise<void>;
}

/** Markets that are to be known: an exchange may list any number of others. */
export interface MarketChoice {
  /** None: all of them. */
  readonly wanted: readonly string[];
  /** Of those that are listed now. */
  readonly max: number;
}

export interface ArchivePort extends CompletenessPort {
  /** Waits while the archive is away or busy; resolves once everything is durable. */
  commit(batch: Batch, options?: { signal?: AbortSignal }): Promise<CommitResult>;
  /** @param list whether it is complete, so that what it leaves out is delisted, and what to take of it */
  ensureMarkets(
    markets: readonly Market[],
    atMs: number,
    list: { readonly isComplete: boolean; readonly take?: MarketChoice },
  ): Promise<MarketChanges>;
  ensureStream(stream: {
    kind: StreamKind;
    marketId: number;
    variant: number;
    collectFromMs?: number;
  }): Promise<StreamRef>;
  setCollectFrom(streamId: number, fromMs: number, reason?: StartReason): Promise<void>;
  /** Expects a span of a stream besides what is collected anyway. */
  want(stream: StreamRef, span: Span): Promise<unknown>;
  islands(stream: StreamRef, limit: number): Promise<Island[]>;
  recordGap(gap: {
    stream: StreamRef;
    span: Span;
    state: 'open' | 'unfillable';
    reason: GapReason;
    /** When it was seen, exchange time. */
    atMs: number;
    note?: string;
    /** Exchange time; left out or null: as soon as possible. */
    nextAttemptAtMs?: number | null;
  }): Promise<void>;
  openSession(stream: StreamRef, atMs: number): Promise<number>;
  touchSession(sessionId: number, lastMessageAtMs: number): Promise<void>;
  closeSession(
    sessionId: number,
    end: { atMs: number; code: number; reason: string },
  ): Promise<void>;
}

/**
 * Order in which work may use the request budget (kernel, `turnOf`): heads of trades and the tickers
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
