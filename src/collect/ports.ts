import type { EndpointName, ParamsOf, ResultOf } from '../contract/endpoints.js';
import type { Market, StateRecord } from '../contract/resources.js';
import type { RejectedRow } from '../contract/shape.js';
import type { Span } from '../kernel/span.js';
import type { Batch, CommitResult, Island, StreamKind, StreamRef } from '../ledger/batch.js';

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
}

export interface CallOptions {
  /** Lower goes first when the budget is short. */
  readonly priority?: number;
  readonly signal?: AbortSignal;
}

export interface ExchangePort {
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
  | {
      readonly kind: 'closed';
      readonly code: number;
      readonly reason: string;
      readonly lastAliveExchangeMs: number | null;
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
}

export interface ArchivePort {
  /** Waits while the archive is away or busy; resolves once everything is durable. */
  commit(batch: Batch, options?: { signal?: AbortSignal }): Promise<CommitResult>;
  /** @param list whether the list is complete, so that what it leaves out is delisted */
  ensureMarkets(
    markets: readonly Market[],
    atMs: number,
    list: { readonly isComplete: boolean },
  ): Promise<MarketChanges>;
  ensureStream(stream: {
    kind: StreamKind;
    marketId: number;
    variant: number;
    collectFromMs?: number;
  }): Promise<StreamRef>;
  setCollectFrom(streamId: number, fromMs: number): Promise<void>;
  islands(stream: StreamRef, limit: number): Promise<Island[]>;
  recordGap(gap: {
    stream: StreamRef;
    span: Span;
    state: 'open' | 'unfillable';
    reason: string;
    /** When it was seen, exchange time. */
    atMs: number;
  }): Promise<void>;
  openSession(stream: StreamRef, atMs: number): Promise<number>;
  touchSession(sessionId: number, lastMessageAtMs: number): Promise<void>;
  closeSession(
    sessionId: number,
    end: { atMs: number; code: number; reason: string },
  ): Promise<void>;
}

/**
 * Order in which work may use the request budget; lower goes ahead by some seconds, and filling
 * waits for all others (kernel, `turnOf`).
 */
export const PRIORITY = { markets: 0, head: 0, snapshot: 1, klines: 2, fill: 3 } as const;
