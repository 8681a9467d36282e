import type { PastUpdate, StateRow } from './past.js';

/** Pushed states on their way to those who follow them. */

const US_PER_MS = 1000;

/** A line of `UPDATES_AFTER`. */
export function readUpdate(line: string): PastUpdate {
  const seqAt = line.indexOf('\t') + 1;
  const receivedAt = line.indexOf('\t', seqAt) + 1;
  const recordAt = line.indexOf('\t', receivedAt) + 1;
  return {
    observedAtMs: Number(line.slice(0, seqAt - 1)) / US_PER_MS,
    seq: Number(line.slice(seqAt, receivedAt - 1)),
    receivedAtMs: Number(line.slice(receivedAt, recordAt - 1)) / US_PER_MS,
    recordText: line.slice(recordAt),
  };
}

/** A row of a file, as the database would have written it. */
export function writeUpdate(row: StateRow): PastUpdate {
  const { periodS: period, last, open, close, high, low, deal, volume } = row;
  const { observedAtMs, seq, receivedAtMs } = row;
  const recordText = JSON.stringify({ period, last, open, close, high, low, deal, volume });
  return { observedAtMs, seq, receivedAtMs, recordText };
}
