import type { StateRecord } from '../../contract/resources.js';
import type { ReconnectingOptions } from './reconnecting.js';

/** A state as it came: the family's updates carry no period, updates of the contract no change. */
export type FeedRecord = Omit<StateRecord, 'period'> & {
  /** Length of the period in seconds, where the record has it. */
  readonly period: number | undefined;
};

/** Why a connection ended. A small fixed set, fit for a metric label. */
export type CloseReason =
  /** {@link StateFeed.stop} was called. */
  | 'stopped'
  /** No connection came about: refused, unreachable, not a WebSocket server. */
  | 'connect_failed'
  | 'connect_timeout'
  /** The server answered state.subscribe with an error, or not with success. */
  | 'subscribe_refused'
  /** The server never acknowledged state.subscribe. */
  | 'subscribe_ignored'
  /** The server takes a list of markets and so reports one period only, which is another one. */
  | 'period_not_offered'
  /** The server answered several state.query in a row with errors. */
  | 'query_refused'
  /** No answer to a state.query within its deadline. */
  | 'silent'
  /** Queries show a state that the updates never reported: the subscription is dead. */
  | 'stalled'
  /** This process stood still for seconds: when what waited meanwhile came is not known. */
  | 'stood_still'
  /** The consumer is too slow: the queue is full. */
  | 'overflow'
  /** Too many frames that mean nothing. */
  | 'garbage'
  /** A frame above the limit. */
  | 'oversized'
  /** The frames broke the WebSocket protocol, or were not UTF-8. */
  | 'protocol_error'
  /** The server or the network ended it. */
  | 'remote';

/**
 * Reports of a feed, in order. All `…ExchangeMs` are estimates of exchange time, and this machine's time while the
 * exchange has not said any (in answers, or with the handshake).
 */
export type StateEvent =
  /** The subscription was acknowledged. `atMs` is this machine's wall clock. */
  | {
      readonly kind: 'opened';
      /** The header `x-tapekeep-exchange` of the handshake; null elsewhere. */
      readonly identity: string | null;
      readonly atMs: number;
      readonly exchangeMs: number;
      /** Nothing is missing from here on: the connection pushed states before. */
      readonly provenMs?: number;
    }
  | {
      readonly kind: 'record';
      /** `query` is a full record with `change`; `update` was pushed. */
      readonly origin: 'query' | 'update';
      readonly record: FeedRecord;
      /** This machine's wall clock. */
      readonly receivedAtMs: number;
      readonly exchangeMs: number;
    }
  /** Nothing was missed up to `exchangeMs`: a query's answer equals the last update. */
  | { readonly kind: 'alive'; readonly exchangeMs: number }
  /**
   * The connection ended. Comes without an `opened` before it when it ended earlier than that.
   * After `lastAliveExchangeMs`, the last update or answer equal to it, nothing is confirmed; null when
   * nothing ever was.
   */
  | {
      readonly kind: 'closed';
      readonly code: number;
      readonly reason: CloseReason;
      readonly lastAliveExchangeMs: number | null;
      /** When it ended. */
      readonly exchangeMs: number;
      readonly livedMs: number;
      /** Why it could not be made, of reason `connect_failed`. */
      readonly detail?: string;
    }
  /** The next connection is tried after `waitMs`; `attempts` failed in a row. */
  | { readonly kind: 'retrying'; readonly waitMs: number; readonly attempts: number };

/** Options of {@link openStateFeed}. */
export interface StateFeedOptions extends ReconnectingOptions {
  /** Name of the pair. */
  readonly market: string;
  /** Period of the state in seconds (contract, Real-time methods). */
  readonly periodS: number;
}

/**
 * The states of one market and period, over one connection at a time that is renewed for ever.
 * Iterate once; leaving the loop stops the feed.
 */
export interface StateFeed extends AsyncIterable<StateEvent> {
  /** Name of the pair. */
  readonly market: string;
  /** Period of the state in seconds. */
  readonly periodS: number;
  /** Asks for a sign of life now: an `alive` follows if nothing was missed. Does nothing while no connection is open. */
  ask(): void;
  /** Closes the connection and ends the iteration after the events that are queued. Idempotent. */
  stop(): Promise<void>;
}
