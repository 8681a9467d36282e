import { type SelectedGaps, selectGaps } from '../console/api/selection.js';
import { type Instant, resolveSpan } from '../kernel/instants.js';
import { isEmptySpan, overlapOf, type Span } from '../kernel/span.js';
import type { Store } from '../store/index.js';
import { option, type Values } from './command.js';
import { kindsArgument, MARKETS, reasonsArgument, SPAN, statesArgument } from './options.js';

/** What the options `--market`, `--from` and `--to` of several commands select. */

/**
 * The bounds of a span, as far as they are given.
 *
 * @throws UsageError when the span is empty or ends before it begins
 */
export function selectSpan(
  options: { readonly from: Instant | undefined; readonly to: Instant | undefined },
  nowMs: number,
): Partial<Span> {
  return resolveSpan(options, nowMs, { from: '--from', to: '--to' });
}

/** The bounds, moved in to what is covered; undefined where none of it lies between them. */
export function clampedTo(bounds: Partial<Span>, covered: Span): Span | undefined {
  const span = overlapOf({ fromMs: -Infinity, toMs: Infinity, ...bounds }, covered);
  return isEmptySpan(span) ? undefined : span;
}

/** The options by which several commands select gaps. */
export const GAP_SELECTION = {
  market: MARKETS,
  kinds: option('--kind, --kinds <list>', 'only these; separate several by commas', kindsArgument),
  ...SPAN,
  state: option('--state <list>', 'only these; separate several by commas', statesArgument),
  reason: option('--reason <list>', 'only these; separate several by commas', reasonsArgument),
};
type GapOptions = Values<typeof GAP_SELECTION>;

/**
 * The newest gaps that the options select, and the streams that are meant.
 *
 * @returns no more than `limit`
 * @throws UsageError for an unknown market, or a span that ends before it begins
 */
export async function gapsSelected(
  store: Store,
  options: GapOptions,
  nowMs: number,
  limit: number,
): Promise<SelectedGaps> {
  const { market: markets, kinds, state: states, reason: reasons } = options;
  const question = { markets, kinds, states, reasons, bounds: selectSpan(options, nowMs) };
  return await selectGaps(store, question, nowMs, limit, '--market');
}
