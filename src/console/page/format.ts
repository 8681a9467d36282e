/** Texts of figures: each has its unit, and each time its zone, which is UTC. */

export const NONE = '–';

const UNITS = [
  ['d', 86_400],
  ['h', 3600],
  ['min', 60],
  ['s', 1],
] as const;

/** `3 h 12 min`: the two largest units. */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return NONE;
  if (seconds > 0 && seconds < 1) return `${Math.max(1, Math.round(seconds * 1000))} ms`;
  if (seconds < 10) return `${Number(seconds.toFixed(1))} s`;
  let rest = Math.round(seconds);
  const parts: string[] = [];
  for (const [unit, size] of UNITS) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count > 0) parts.push(`${grouped(count)} ${unit}`);
    else if (parts.length > 0) break;
    if (parts.length === 2) break;
  }
  return parts.join(' ') || '0 s';
}

export function grouped(value: number | null | undefined): string {
  return value === null || value === undefined ? NONE : value.toLocaleString('en-US');
}

/** `1 market`, `4 markets`. */
export function counted(value: number, one: string, many = `${one}s`): string {
  return `${grouped(value)} ${value === 1 ? one : many}`;
}

/** Three digits and a letter: `12.3 k`. */
export function short(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  const [size, letter] = scaleOf(Math.abs(value), 1000, ['', ' k', ' M', ' G', ' T']);
  const scaled = value / size;
  const digits = Math.abs(scaled) >= 100 || Number.isInteger(scaled) ? 0 : 1;
  return `${Number(scaled.toFixed(Math.abs(scaled) < 1 ? 2 : digits))}${letter}`;
}

export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  const [size, unit] = scaleOf(Math.abs(value), 1000, [' B', ' kB', ' MB', ' GB', ' TB', ' PB']);
  const scaled = value / size;
  return `${scaled.toFixed(size === 1 || Math.abs(scaled) >= 100 ? 0 : 1)}${unit}`;
}

function scaleOf(value: number, base: number, units: readonly string[]): [number, string] {
  let at = 0;
  while (at < units.length - 1 && value >= base ** (at + 1)) at += 1;
  return [base ** at, units[at] ?? ''];
}

/** Cut and never rounded up: 100 % means that nothing is missing. */
export function percent(ratio: number | null | undefined): string {
  if (ratio === null || ratio === undefined) return NONE;
  if (ratio >= 1) return '100 %';
  return `${(Math.floor(ratio * 10_000) / 100).toFixed(2)} %`;
}

type Time = number | string | null | undefined;

const dateOf = (time: number | string) => new Date(time);
const isMissing = (time: Time): time is null | undefined =>
  time === null || time === undefined || Number.isNaN(dateOf(time).getTime());

/** `2026-11-29 08:41:10 UTC` */
export function instant(time: Time): string {
  return isMissing(time) ? NONE : `${stamp(time)} UTC`;
}

/** `2026-11-29 08:41:10`, where a heading says the zone. */
export function stamp(time: Time): string {
  return isMissing(time) ? NONE : dateOf(time).toISOString().slice(0, 19).replace('T', ' ');
}

/** `08:41:10`, of a day that is known. */
export function clockTime(time: Time): string {
  return isMissing(time) ? NONE : dateOf(time).toISOString().slice(11, 19);
}

/** `candles 1 h` */
export function streamName(kind: string, variant: number | null | undefined): string {
  return variant ? `${kind} ${interval(variant)}` : kind;
}

/** `1m`, `4h`, `1d`: an interval as the command line takes it. */
export function interval(seconds: number): string {
  for (const [letter, size] of [
    ['w', 604_800],
    ['d', 86_400],
    ['h', 3600],
    ['m', 60],
  ] as const) {
    if (seconds >= size && seconds % size === 0) return `${seconds / size}${letter}`;
  }
  return `${seconds}s`;
}

const DAY_MS = 86_400_000;

/** `2026-11-29` of so many days later. */
export function dayAfter(day: string, days: number): string {
  return new Date(Date.parse(day) + days * DAY_MS).toISOString().slice(0, 10);
}
