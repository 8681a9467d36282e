/** Milliseconds of each unit that a duration may carry. */
const UNIT_MS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
type Unit = keyof typeof UNIT_MS;

const DURATION_PATTERN = /^(\d{1,9}(?:\.\d{1,3})?)(ms|s|m|h|d)$/;

/** Longest duration that is accepted: a hundred years. Beyond it a typing error is more likely. */
const MAX_DURATION_MS = 36_525 * UNIT_MS.d;

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
