import type { Span } from '../kernel/span.js';
import type { StateRow } from '../model/batch.js';
import type { StateFeedEvent } from './ports.js';

/** A connection while it lives, as the ledger sees it. */
export interface Session {
  readonly sessionId: number;
  readonly openedMs: number;
  /** A replay says itself when it knows states: there an answer to a query proves something. */
  readonly isVouchedFor: boolean;
  /** End of what is committed; coverage grows from here. */
  coveredUntilMs: number;
  seq: number;
  /** Monotonic time of the last note of life in the archive. */
  touchedAtMs: number;
  /** Whether coverage has begun: nothing is covered before the first update. */
  hasData: boolean;
  /** Answers to queries since the last that was proven. */
  unproven: number;
  /** Whether the last that was covered ends where a replayed archive knows no more. */
  isAtGap: boolean;
}

/** What one commit proves: from its first proof to its last sign of life. */
export interface Proof {
  /** Undefined: only the end of what is covered already moves. */
  readonly fromMs: number | undefined;
  readonly aliveMs: number;
}

/** What a commit covers; undefined while nothing was pushed on this connection. */
export function spanOf(session: Session, proof: Proof | undefined): Span | undefined {
  if (proof === undefined) return undefined;
  const fromMs = session.hasData ? session.coveredUntilMs : proof.fromMs;
  return fromMs === undefined ? undefined : { fromMs, toMs: Math.max(proof.aliveMs + 1, fromMs) };
}

/** A record as a row of its session, which counts it. It never goes back into what is covered. */
export function rowOf(
  session: Session,
  event: Extract<StateFeedEvent, { kind: 'record' }>,
  { marketId, periodS }: Pick<StateRow, 'marketId' | 'periodS'>,
): StateRow {
  const { last, open, close, high, low, deal, volume, change } = event.record;
  session.seq += 1;
  return {
    marketId,
    periodS,
    observedAtMs: Math.max(Math.floor(event.exchangeMs), session.coveredUntilMs),
    seq: session.seq,
    receivedAtMs: event.receivedAtMs,
    last,
    open,
    close,
    high,
    low,
    deal,
    volume,
    change: change ?? null,
    origin: event.origin,
    sessionId: session.sessionId,
  };
}
