import { InvalidArgumentError } from 'commander';
import { DURATION_FORM, parseDuration } from '../../config/durations.js';

/** Readers of option values; each refusal says what is allowed. Commander adds option and value. */

export function durationArgument(text: string): number {
  const ms = parseDuration(text);
  if (ms === undefined) throw new InvalidArgumentError(`Write ${DURATION_FORM}.`);
  return ms;
}

const LONGEST_TIMEOUT_MS = 86_400_000;

/** A time limit: there is none without an end. */
export function timeoutArgument(text: string): number {
  const ms = durationArgument(text);
  if (ms >= 1 && ms <= LONGEST_TIMEOUT_MS) return ms;
  throw new InvalidArgumentError('Write a duration above 0 and up to 24h.');
}

/** A duration, or 0. */
export function waitArgument(text: string): number {
  return text === '0' ? 0 : durationArgument(text);
}

export function portArgument(text: string): number {
  return wholeArgument(0, 65_535, text);
}

export function seedArgument(text: string): number {
  return wholeArgument(0, 4_294_967_295, text);
}

export function countArgument(text: string): number {
  return wholeArgument(1, 1_000_000, text);
}

function wholeArgument(min: number, max: number, text: string): number {
  const value = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN;
  if (!(value >= min && value <= max)) {
    throw new InvalidArgumentError(`Write a whole number from ${min} to ${max}.`);
  }
  return value;
}

export function speedArgument(text: string): number | 'instant' {
  if (text === 'instant') return text;
  const value = /^\d{1,6}(\.\d{1,3})?$/.test(text) ? Number(text) : Number.NaN;
  if (!(value > 0 && value <= 100_000)) {
    throw new InvalidArgumentError('Write a factor such as 1, 20 or 0.5, or "instant".');
  }
  return value;
}

/** How fast a recording plays: a factor, as fast as it is read, or by hand. */
export function playSpeedArgument(text: string): number | 'max' | 'step' {
  if (text === 'max' || text === 'step') return text;
  const value = /^\d{1,6}(\.\d{1,3})?$/.test(text) ? Number(text) : Number.NaN;
  if (value > 0 && value <= 100_000) return value;
  throw new InvalidArgumentError('Write a factor such as 1, 100 or 0.5, or "max" or "step".');
}

export function instantArgument(text: string): number {
  const ms = Date.parse(text);
  if (!/^\d{4}-\d\d-\d\dT.*Z$/.test(text) || Number.isNaN(ms)) {
    throw new InvalidArgumentError('Write a UTC time such as 2026-01-31T12:00:00Z.');
  }
  return ms;
}

const ISO_TIME = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.0+)?)?(Z|[+-]\d\d:\d\d))?$/;

/** A moment as whole UNIX seconds; a day alone is its begin, UTC. */
export function timeArgument(text: string): number {
  if (/^\d{1,12}$/.test(text)) return Number(text);
  const seconds = ISO_TIME.test(text) ? Date.parse(text) / 1000 : Number.NaN;
  if (Number.isInteger(seconds) && seconds >= 0) return seconds;
  throw new InvalidArgumentError(
    'Write UNIX seconds such as 1767225600, or a time with its zone such as 2026-01-01T00:00:00Z.',
  );
}

/** A period in seconds, up to a week. */
export function periodArgument(text: string): number {
  return wholeArgument(1, 604_800, text);
}

/** Gathers a repeatable option. */
export function gather(text: string, earlier: readonly string[] = []): string[] {
  return [...earlier, text];
}
