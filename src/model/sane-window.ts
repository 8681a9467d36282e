/**
 * Times that can be real, exchange time: readers of answers and the store refuse what
 * lies outside, so that a mistake of unit or clock makes neither rows nor partitions.
 */

/** The first exchanges opened in 2009. */
export const OLDEST_SANE_MS = Date.UTC(2009, 0, 1);
/** How far past the exchange's present an instant may lie. */
export const SANE_AHEAD_MS = 86_400_000;
