import { nearestName } from '../../kernel/nearest.js';
import type { Span } from '../../kernel/span.js';
import { UsageError } from '../failure.js';
import { type Moment, resolveMoment } from './moments.js';

/** What the options `--market`, `--from` and `--to` of several commands select. */

/**
 * Those that were named, in the order of `known`; all when none was named.
 *
 * @throws UsageError naming an unknown market, and the nearest known one
 */
export function selectMarkets<T extends { readonly market: string }>(
  names: readonly string[] | undefined,
  known: readonly T[],
  option = '--market',
): T[] {
  if (names === undefined || names.length === 0) return [...known];
  const knownNames = new Set(known.map(({ market }) => market));
  for (const name of names) {
    if (knownNames.has(name)) continue;
    const nearest = nearestName(name, knownNames);
    const advice =
      nearest === undefined
        ? 'the archive holds nothing of such a market; "tapekeep status" lists what it holds'
        : `the archive holds nothing of such a market. Did you mean ${nearest}?`;
    throw new UsageError(option, name, advice);
  }
  return known.filter(({ market }) => names.includes(market));
}

/**
 * The bounds of a span, as far as they are given.
 *
 * @throws UsageError when the span is empty or ends before it begins
 */
export function selectSpan(
  options: { readonly from?: Moment; readonly to?: Moment },
  nowMs: number,
): Partial<Span> {
  const fromMs = options.from === undefined ? undefined : resolveMoment(options.from, nowMs);
  const toMs = options.to === undefined ? undefined : resolveMoment(options.to, nowMs);
  if (fromMs !== undefined && fromMs >= (toMs ?? nowMs)) {
    const end = toMs === undefined ? "the exchange's time now" : '--to';
    const at = new Date(toMs ?? nowMs).toISOString();
    throw new UsageError(
      '--from',
      new Date(fromMs).toISOString(),
      `it must be before ${end}, ${at}`,
    );
  }
  return { ...(fromMs === undefined ? {} : { fromMs }), ...(toMs === undefined ? {} : { toMs }) };
}
