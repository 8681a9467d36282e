import type { Span } from './span.js';

/**
 * Timestamps as text: UTC, ISO 8601, as Postgres and the files write and read them. Numbers are whole UNIX
 * milliseconds or microseconds.
 */

/** `2026-01-31T12:00:00.000001Z`, of UNIX microseconds. */
export function isoUs(us: number): string {
  const seconds = Math.floor(us / 1_000_000);
  const fraction = String(us - seconds * 1_000_000).padStart(6, '0');
  return `${new Date(seconds * 1_000).toISOString().slice(0, 19)}.${fraction}Z`;
}

/** `2026-01-31T12:00:00.001Z`, of UNIX milliseconds. */
export function isoMs(ms: number): string {
  return new Date(ms).toISOString();
}

/** Both ends of a span like that, as documents have them. */
export function isoSpan({ fromMs, toMs }: Span): { from: string; to: string } {
  return { from: isoMs(fromMs), to: isoMs(toMs) };
}

/** As people read it: `2026-01-31 12:00:00`, UTC; milliseconds only where there are any. */
export function formatInstant(ms: number): string {
  const text = new Date(ms).toISOString().replace('T', ' ').slice(0, -1);
  return text.endsWith('.000') ? text.slice(0, -4) : text;
}

/** `2026-01-31 12:00:00 – 2026-01-31 13:00:00` */
export function formatSpan({ fromMs, toMs }: Span): string {
  return `${formatInstant(fromMs)} – ${formatInstant(toMs)}`;
}

const TIMESTAMP = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?/;

/** UNIX microseconds of such a text, with `T` or a space between day and time; NaN for any other. */
export function timestampUs(text: string): number {
  const [, day, time, fraction = ''] = TIMESTAMP.exec(text) ?? [];
  return Date.parse(`${day}T${time}Z`) * 1000 + Number(fraction.padEnd(6, '0'));
}
