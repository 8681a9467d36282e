import { type Batch, type CommitResult, NO_OUTCOMES, rowsIn } from '../../model/batch.js';
import { SERIES, type Series, WRITTEN_SERIES } from '../../model/series.js';
import type { SessionClosing, StreamPlace } from '../completeness/ledger.js';
import type { DatabaseIdentity } from '../identity.js';
import type { Acknowledged } from '../writer/commit-number.js';

/** Contents of the frames: JSON, as a batch holds nothing but texts, numbers, lists and objects. */

/** Owner of a file, and what its database had confirmed at its start. */
export interface SpoolHeader {
  readonly form: 1;
  readonly owner: DatabaseIdentity;
  /** Null: not known. */
  readonly acknowledged: Acknowledged | null;
}

/**
 * A session that was opened while the database was away. Its number is below zero; the row of the ledger is found by
 * the rest of it.
 */
export interface OpenedSession {
  readonly id: number;
  readonly stream: StreamPlace;
  readonly atMs: number;
}

interface WithSessions {
  /** Those that it names and that the database does not know by their number. */
  readonly sessions: readonly OpenedSession[];
}

/** One commit. */
export interface SpooledBatch extends WithSessions {
  readonly batch: Batch;
  readonly era: number;
  /** Stream of its rows; undefined: of pushed trades. */
  readonly stream?: StreamPlace | undefined;
}

/** The end of a session. */
export interface SpooledEnd extends WithSessions {
  readonly session: number;
  readonly end: SessionClosing;
}

export type SpoolRecord = SpooledBatch | SpooledEnd;

export function encode(value: SpoolHeader | SpoolRecord): Buffer {
  return Buffer.from(JSON.stringify(value));
}

/** The checksum has shown that it is what this program wrote. */
export function decode(payload: Buffer): SpoolRecord {
  return JSON.parse(payload.toString()) as SpoolRecord;
}

/** Undefined: written by another version, or by no tapekeep. */
export function decodeHeader(payload: Buffer | undefined): SpoolHeader | undefined {
  if (payload === undefined) return undefined;
  const found = JSON.parse(payload.toString()) as Partial<SpoolHeader>;
  return found.form === 1 ? (found as SpoolHeader) : undefined;
}

/** Numbers of the sessions that a batch names. */
export function sessionsOf(batch: Batch): Set<number> {
  const ids = new Set<number>();
  for (const { sessionId } of batch.states ?? []) ids.add(sessionId);
  for (const { evidence } of batch.claims ?? []) {
    if (typeof evidence.session === 'number') ids.add(evidence.session);
  }
  return ids;
}

/** Returns the batch with the numbers that the database gave. */
export function renumbered(batch: Batch, numberOf: (session: number) => number): Batch {
  const states = batch.states?.map((row) => ({ ...row, sessionId: numberOf(row.sessionId) }));
  const claims = batch.claims?.map((claim) => {
    const { session } = claim.evidence;
    if (typeof session !== 'number') return claim;
    return { ...claim, evidence: { ...claim.evidence, session: numberOf(session) } };
  });
  return { ...batch, ...(states && { states }), ...(claims && { claims }) };
}

export function countRows(batch: Batch): number {
  return WRITTEN_SERIES.reduce((sum, series) => sum + rowsIn(batch, series).length, 0);
}

/** Result for the collector of a spooled batch: it is on the disk, and will be stored as it is. */
export function keptResult(batch: Batch): CommitResult {
  const outcomes = Object.keys(SERIES).map((series) => {
    const stored = rowsIn(batch, series as Series).length;
    return [series, { ...NO_OUTCOMES, stored }];
  });
  const ranges = (batch.claims ?? []).map(({ stream, span }) => ({
    streamId: stream.streamId,
    span,
  }));
  return { outcomes: Object.fromEntries(outcomes) as CommitResult['outcomes'], ranges };
}
