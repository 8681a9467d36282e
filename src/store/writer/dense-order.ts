import type { TradeRun } from './outcomes.js';

/**
 * The order in which new trades fill their index.
 *
 * A full page of an index is split in two halves, and trades that only ever follow each other never
 * come back to the left one: it stays half empty, 67 bytes a trade instead of 40. (Postgres fills up
 * the last page of an index, where the market with the highest id is, and pages of keys of up to 16
 * bytes; ours are 24: market, time and id.) So of many trades of one market a little more than every
 * second one goes first. That leaves pages half full all over their span, and the others fill
 * them up.
 *
 * It takes effect from several hundred trades of a market at once, as a walk through history brings
 * them. What comes in drops stays half empty until its partition is sealed.
 */

/** Share that goes first. At one half the others fit in exactly, or just not: that costs a split. */
const FIRST_SHARE = 0.53;
/** Below, all of them fit into a page or two. */
const LEAST_RUN = 256;

/** @returns the same places of a sheet whose markets are these runs; they are in the order of the key. */
export function denseOrder(runs: readonly TradeRun[], places: Uint32Array): Uint32Array {
  if (places.length < LEAST_RUN) return places;
  const ordered = new Uint32Array(places.length);
  let start = 0;
  for (const run of runs) {
    let end = start;
    while (end < places.length && (places[end] ?? 0) < run.end) end += 1;
    const ofRun = places.subarray(start, end);
    if (ofRun.length < LEAST_RUN) ordered.set(ofRun, start);
    else ordered.set(firstThenOthers(ofRun), start);
    start = end;
  }
  return ordered;
}

function firstThenOthers(places: Uint32Array): Uint32Array {
  const firstCount = Math.floor(places.length * FIRST_SHARE);
  const ordered = new Uint32Array(places.length);
  let first = 0;
  let other = firstCount;
  for (const place of places) {
    const index = first + other - firstCount;
    if (Math.floor((index + 1) * FIRST_SHARE) > first) {
      ordered[first] = place;
      first += 1;
    } else {
      ordered[other] = place;
      other += 1;
    }
  }
  return ordered;
}
