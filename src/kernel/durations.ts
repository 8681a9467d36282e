/** Lengths of time; days are of 24 hours, as UTC has them. */
export const SECOND_MS = 1000;
export const MINUTE_MS = 60_000;
export const HOUR_MS = 3_600_000;
export const DAY_MS = 86_400_000;

export const DAY_S = 86_400;

export const SECOND_US = 1_000_000;
export const DAY_US = 86_400_000_000;
