/** Lengths of time; days are of 24 hours, as UTC has them. */
export const SECOND_MS = 1000;
export const MINUTE_MS = 60_000;
export const HOUR_MS = 3_600_000;
export const DAY_MS = 86_400_000;

export const DAY_S = 86_400;

export const SECOND_US = 1_000_000;
export const DAY_US = 86_400_000_000;

const UNITS = [
  ['d', DAY_MS],
  ['h', HOUR_MS],
  ['m', MINUTE_MS],
  ['s', SECOND_MS],
] as const;

/** A length of time as people say it, in its two largest units: `0.4s`, `46s`, `3m 5s`, `7d 8h`; `0s` where there is none. */
export function shownDuration(ms: number): string {
  if (ms <= 0) return '0s';
  if (ms < 9950) return `${(ms / SECOND_MS).toFixed(1)}s`;
  const at = UNITS.findIndex(([, unitMs]) => Math.round(ms / SECOND_MS) * SECOND_MS >= unitMs);
  const [large, largeMs] = UNITS[at] ?? UNITS[3];
  const small = UNITS[at + 1];
  if (small === undefined) return `${Math.round(ms / largeMs)}${large}`;
  const [name, smallMs] = small;
  const count = Math.round(ms / smallMs);
  const per = largeMs / smallMs;
  const rest = count % per;
  return `${Math.floor(count / per)}${large}${rest === 0 ? '' : ` ${rest}${name}`}`;
}

/** A length of whole seconds as the command line takes it: `1m`, `1h`, `1d`. */
export function intervalText(seconds: number): string {
  const [name, ms] = UNITS.find(([, unitMs]) => (seconds * SECOND_MS) % unitMs === 0) ?? UNITS[3];
  return `${(seconds * SECOND_MS) / ms}${name}`;
}

/** Milliseconds of each unit that a duration may carry. */
const UNIT_MS = { ms: 1, s: SECOND_MS, m: MINUTE_MS, h: HOUR_MS, d: DAY_MS } as const;
type Unit = keyof typeof UNIT_MS;

const DURATION_PATTERN = /^(\d{1,9}(?:\.\d{1,3})?)(ms|s|m|h|d)$/;

/** Longest duration that is accepted: a hundred years. Beyond it a typing error is more likely. */
export const MAX_DURATION_MS = 36_525 * UNIT_MS.d;

/** How a duration is written, for messages. */
export const DURATION_FORM = 'a duration such as 500ms, 10s, 5m, 2h or 7d';

/**
 * Reads a duration: a number directly followed by `ms`, `s`, `m`, `h` or `d` (`500ms`, `1.5h`).
 *
 * @returns whole milliseconds, or undefined when the text is no duration or exceeds a century.
 */
export function parseDuration(text: string): number | undefined {
  const match = DURATION_PATTERN.exec(text.trim());
  if (match === null) return undefined;
  const ms = Math.round(Number(match[1]) * UNIT_MS[match[2] as Unit]);
  return ms <= MAX_DURATION_MS ? ms : undefined;
}

/** Writes milliseconds as the shortest exact duration: 90000 becomes `90s`, 7200000 `2h`. */
export function formatDuration(ms: number): string {
  const units: readonly Unit[] = ['d', 'h', 'm', 's'];
  const unit = ms === 0 ? 's' : units.find((candidate) => ms % UNIT_MS[candidate] === 0);
  return unit === undefined ? `${ms}ms` : `${ms / UNIT_MS[unit]}${unit}`;
}
