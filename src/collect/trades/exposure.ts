import type { CallOptions } from '../../client/index.js';
import { SECOND_MS } from '../../kernel/durations.js';
import type { Span } from '../../kernel/span.js';
import { lackedRule } from '../../model/agreement.js';
import { type PageRow, placeKey } from '../../model/order.js';
import { isUnread } from './known.js';
import { PAGE_MAX } from './pace.js';
import type { TradePage } from './source.js';
import type { Walk } from './walk.js';

/** Stored rows that a page is held against. */
const STORED_MAX = 2 * PAGE_MAX;
/** Exposed rows that a note names. */
const NAMED_MAX = 5;

/** How an answer that lacks rows was asked for, and what it takes to expose them. */
interface Asked {
  /** Rows of the answer, newest first. */
  readonly rows: readonly PageRow[];
  readonly skip: number;
  /** The answers are pages of a step into a gap, not of the head. */
  readonly isDeep: boolean;
  /** The answers hold trades later than the rows, or than those that showed them. */
  readonly isLater: boolean;
  /** End of what is taken back where the answer shows no row above. */
  readonly toMs: number;
}

/**
 * Stored rows between the first and the last second of a page, and those of them that it does not show.
 *
 * @param all rows of the page, newest first
 * @param sure those that are believed
 */
export async function storedWithin(
  walk: Walk,
  page: TradePage,
  all: readonly PageRow[],
  sure: readonly PageRow[],
): Promise<{ stored: PageRow[]; strangers: PageRow[]; span: Span }> {
  const [newest, oldest] = [sure[0], sure.at(-1)];
  const fromMs = ((oldest?.tradedAtS ?? 0) + 1) * SECOND_MS;
  const span = { fromMs, toMs: (newest?.tradedAtS ?? 0) * SECOND_MS };
  if (span.fromMs >= span.toMs) return { stored: [], strangers: [], span };
  const { archive, marketId } = walk.options;
  const stored = await archive.storedTrades(marketId, span, STORED_MAX);
  const held = new Set(all.map(placeKey));
  const strangers = stored.filter((row) => !held.has(placeKey(row)) && !isUnread(page, row));
  return { stored, strangers, span };
}

/**
 * Counts one answer.
 *
 * @param lacked rows that it reaches and does not show
 * @param shown rows that it shows
 */
export function noteLacked(
  { lacked: said, options }: Walk,
  lacked: readonly PageRow[],
  shown: readonly PageRow[],
): void {
  said.contradict(shown.map(placeKey));
  const nowMs = options.clock.monotonicMs();
  for (const row of lacked) said.say(placeKey(row), nowMs);
}

/**
 * Exposes those of some rows that enough answers lack, and that the other endpoint does not show.
 *
 * @param lacked newest first
 * @returns the exposed rows
 */
export async function exposeLacked(
  walk: Walk,
  lacked: readonly PageRow[],
  { rows, skip, isDeep, isLater, toMs }: Asked,
  options: CallOptions,
): Promise<readonly PageRow[]> {
  const rule = lackedRule(lacked.length, isDeep, isLater);
  const nowMs = walk.options.clock.monotonicMs();
  const isLacked = (row: PageRow) => walk.lacked.agrees(placeKey(row), nowMs, rule);
  const ripe = rule === undefined ? [] : lacked.filter(isLacked);
  const exposed = await unshown(walk, ripe, skip, options);
  if (exposed.length > 0) await expose(walk, exposed, walk.known.spanAround(exposed, rows, toMs));
  return exposed;
}

/**
 * Those of some rows that the other endpoint does not show; all, where it says nothing of that time. What it shows
 * is stored, and no page has to show it any more: what both endpoints have together is covered.
 */
async function unshown(
  walk: Walk,
  rows: readonly PageRow[],
  skip: number,
  options: CallOptions,
): Promise<readonly PageRow[]> {
  const { market, offsets } = walk.options;
  const witness = walk.proving?.other;
  if (rows.length === 0 || witness === undefined) return rows;
  if (skip > 0 && offsets.of(witness.endpoint) !== 'skip') return rows;
  const page = await witness.fetch(market, skip, PAGE_MAX, options).catch((error: unknown) => {
    if (options.signal?.aborted === true) throw error;
    // An endpoint that fails must not stop the other one.
    return undefined;
  });
  if (page === undefined) return rows;
  const shown = new Set(page.trades.map(placeKey));
  const disputed = rows.filter((row) => shown.has(placeKey(row)));
  if (disputed.length === 0) return rows;
  const { first, last } = page.ends;
  await walk.pages.commit({ ...page, held: [first, last].filter((end) => end !== undefined) });
  walk.forget(disputed);
  walk.disputed();
  return rows.filter((row) => !shown.has(placeKey(row)));
}

/** Exposes rows that one answer alone showed, newest first. */
export async function exposeShown(walk: Walk, rows: readonly PageRow[]): Promise<void> {
  const lowestS = rows.at(-1)?.tradedAtS ?? 0;
  const highestS = rows[0]?.tradedAtS ?? 0;
  await expose(walk, rows, { fromMs: lowestS * SECOND_MS, toMs: (highestS + 1) * SECOND_MS });
}

/**
 * Takes rows that never were trades out of the archive, and takes back what it claims around them.
 */
async function expose(walk: Walk, rows: readonly PageRow[], { fromMs, toMs }: Span): Promise<void> {
  const { archive, marketId, market, source, telemetry, time } = walk.options;
  const topMs = walk.pages.ranges.top?.span.toMs ?? fromMs;
  const lastS = Math.max(...rows.map(({ tradedAtS }) => tradedAtS));
  const leastMs = Math.max(fromMs, lastS * SECOND_MS) + SECOND_MS;
  const span = { fromMs, toMs: Math.max(leastMs, Math.min(toMs, topMs)) };
  const ids = rows.slice(0, NAMED_MAX).map(({ tid }) => tid);
  const others = rows.length > NAMED_MAX ? ` and ${rows.length - NAMED_MAX} more` : '';
  const note = `trade ${ids.join(', ')}${others} is not among those that ${source.endpoint} shows of that time`;
  const exposure = { marketId, rows, span, note, atMs: Math.floor(time.nowMs()) };
  await archive.commit({ expose: [exposure] });
  telemetry.tradesExposed({ stream: 'trades', market, count: rows.length, note });
  walk.forget(rows);
  await walk.revoked(span);
}
