import type { CloseReason, StateEvent, StateFeedOptions } from './state-feed.js';
import type { SubscriptionForm } from './subscription-form.js';

/** The options of a feed with everything filled in that a connection needs. */
export interface SessionSettings
  extends Pick<
    StateFeedOptions,
    'url' | 'market' | 'periodS' | 'clock' | 'telemetry' | 'exchangeClock'
  > {
  readonly subscriptionForm: SubscriptionForm;
  readonly acknowledgeTimeoutMs: number;
  readonly queryEveryMs: number;
  readonly maxFrameBytes: number;
}

export type ClosedEvent = Extract<StateEvent, { kind: 'closed' }>;

/** Where a connection reports its events. */
export interface SessionSink {
  /** Everything but `closed`; false when there is no room, which ends the connection. */
  offer(event: StateEvent): boolean;
  /** Called exactly once, as the last thing, synchronously at the end. */
  closed(event: ClosedEvent): void;
}

/** Close code of an end that we wish for (RFC 6455, 7.4.1). */
export const NORMAL_CLOSURE = 1000;

/** Why a connection ends whose library gave up, by the library's own code. */
export function reasonOfFailure(code: string, isOpen: boolean): CloseReason {
  if (code === 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH') return 'oversized';
  if (code.startsWith('WS_ERR_')) return 'protocol_error';
  return isOpen ? 'remote' : 'connect_failed';
}
