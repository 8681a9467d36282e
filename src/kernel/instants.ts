import { parseDuration } from './durations.js';
import { UsageError } from './errors.js';
import type { Span } from './span.js';

/** Times as people write them: fixed, or counted back from now. */
export type Instant = ({ readonly atMs: number } | { readonly backMs: number }) & {
  readonly text: string;
};

const FORM = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?)(Z|[+-]\d\d:\d\d)?)?$/;

/** `now`, or a duration back from it such as `5m` or `-5m`, in milliseconds; undefined for anything else. */
export function backFromNow(text: string): number | undefined {
  const given = text.trim();
  return given === 'now' ? 0 : parseDuration(given.replace(/^-/, ''));
}

/**
 * Reads a day or a time in ISO 8601 (UTC unless it names its zone), a duration back from now, or `now`.
 *
 * @returns undefined for anything else
 */
export function readInstant(text: string): Instant | undefined {
  const backMs = backFromNow(text);
  if (backMs !== undefined) return { backMs, text };
  const [, day, time, zone] = FORM.exec(text.trim()) ?? [];
  if (day === undefined) return undefined;
  const ms = Date.parse(`${day}T${time ?? '00:00'}${zone ?? 'Z'}`);
  const isDay = new Date(Date.parse(`${day}T00:00Z`)).toJSON()?.slice(0, 10) === day;
  return Number.isNaN(ms) || !isDay ? undefined : { atMs: ms, text };
}

/** The time in UNIX milliseconds, with the exchange's time as now. */
export function resolveInstant(instant: Instant, nowMs: number): number {
  return 'atMs' in instant ? instant.atMs : nowMs - instant.backMs;
}

/** One end of a span, and how its author calls it. */
interface SpanEnd {
  readonly name: string;
  /** Text that was written, if any was. */
  readonly given: Instant | undefined;
  readonly atMs: number;
}

const textOf = ({ given, atMs }: SpanEnd) => given?.text ?? new Date(atMs).toISOString();

/** Time that a duration back from now means. */
const timeOf = ({ given, atMs }: SpanEnd) =>
  given !== undefined && 'backMs' in given ? ` (${new Date(atMs).toISOString()})` : '';

/**
 * Refuses a span in which nothing lies.
 *
 * @param isInclusive whether the end belongs to the span, so that it may be where it begins
 * @throws UsageError when nothing lies between its ends
 */
export function refuseEmptySpan(from: SpanEnd, to: SpanEnd, isInclusive = false): void {
  if (from.atMs < to.atMs || (isInclusive && from.atMs === to.atMs)) return;
  const rule = isInclusive ? 'must not be after' : 'must be before';
  const advice = `it${timeOf(from)} ${rule} ${to.name}, ${textOf(to)}${timeOf(to)}`;
  throw new UsageError(from.name, textOf(from), advice);
}

/**
 * The bounds of a span, as far as they are given.
 *
 * @param names of both ends, as their author knows them
 * @throws UsageError when the span is empty or ends before it begins
 */
export function resolveSpan(
  given: { readonly from: Instant | undefined; readonly to: Instant | undefined },
  nowMs: number,
  names: Readonly<Record<'from' | 'to', string>>,
): Partial<Span> {
  const givenMs = given.from === undefined ? undefined : resolveInstant(given.from, nowMs);
  const fromMs = givenMs === Number.NEGATIVE_INFINITY ? undefined : givenMs;
  const toMs = given.to === undefined ? undefined : resolveInstant(given.to, nowMs);
  if (fromMs !== undefined) {
    const end = toMs === undefined ? "the exchange's time now" : names.to;
    refuseEmptySpan(
      { name: names.from, given: given.from, atMs: fromMs },
      { name: end, given: given.to, atMs: toMs ?? nowMs },
    );
  }
  return { ...(fromMs === undefined ? {} : { fromMs }), ...(toMs === undefined ? {} : { toMs }) };
}
