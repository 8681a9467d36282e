import { subtractSpans } from '../../kernel/span.js';
import type { StreamKind } from '../../model/series.js';
import type { Gap, Store } from '../../store/index.js';
import { argument, command, flag } from '../command.js';
import { assertCollected, type FillContext, filling } from '../fill/with-filling.js';
import type { FillTask } from '../fill/worker.js';
import { findGap } from '../gaps.js';
import { JSON_DOCUMENT } from '../options.js';
import { countOf } from '../output.js';
import { GAP_SELECTION, type GapOptions, gapFilterOf, readGaps } from '../selection.js';

/** Gaps of one run; the others are named by the next. */
const FILLED_MAX = 2000;
/** What can be fetched later. */
const FETCHABLE: readonly StreamKind[] = ['trades', 'times', 'candles'];

/** Makes gaps due at once and sees to it that they are filled. */
export default command({
  args: { ids: argument<string[]>('gaps; without any, all that the options select') },
  options: {
    ...GAP_SELECTION,
    again: flag('--again', 'also those that were given up'),
    json: JSON_DOCUMENT,
  },
  needs: filling('existing'),
  async run(context, { ids, again = false, json, ...selected }) {
    const { filling, store, session, say, signal } = context;
    const knownMs = Math.floor((await store.exchangeNowMs()) ?? (await filling.nowMs()));
    // Mistakes are reported before the exchange is asked.
    await select(context, ids, selected, knownMs);
    const isOwn = await filling.begin();
    signal.throwIfAborted();
    const nowMs = await filling.nowMs();
    const found = await select(context, ids, selected, nowMs);
    const fetchable = found.filter(({ kind }) => FETCHABLE.includes(kind));
    const passed = found.length - fetchable.length;
    if (passed > 0) {
      say(
        `Left out: ${countOf(passed, 'gap')} of depth, tickers or states, which nothing brings back.`,
      );
    }
    const present = await withoutArchived(store, fetchable);
    const away = fetchable.length - present.length;
    if (away > 0) {
      say(
        `Left out: ${countOf(away, 'gap')}; nothing can be added to partitions that are archived or expired; "tapekeep restore" brings archived ones back.`,
      );
    }
    const due = present.filter(({ state }) => again || state !== 'unfillable');
    if (due.length === 0) return await context.fill(nothing(present.length, ids.length), json);
    if (due.length >= FILLED_MAX)
      say(`The newest ${FILLED_MAX} gaps first; run it again for more.`);
    if (!isOwn) for (const { market, kind } of due) assertCollected(session.config, market, [kind]);
    await makeDue(store, due, nowMs, again);
    if (isOwn) say('No daemon writes to this archive: this program does the work itself.');
    say(`Filling ${due.length} ${due.length === 1 ? 'gap' : 'gaps'}.`);
    return await context.fill(due.map(taskOf), json);
  },
});

/** Gaps of which at least a part lies where rows can be added. */
async function withoutArchived(store: Store, gaps: readonly Gap[]): Promise<readonly Gap[]> {
  const partitions = await store.sealing.partitions();
  const gone = partitions.filter(({ state }) => state === 'archived' || state === 'expired');
  return gaps.filter(({ kind, span }) => {
    const table = kind === 'candles' ? 'kline' : 'trade';
    const spans = gone.filter((one) => one.table === table).map((one) => one.span);
    return subtractSpans(span, spans).length > 0;
  });
}

function nothing(unfillable: number, ids: number): string {
  if (unfillable === 0) return 'Nothing to fill.';
  const what =
    ids === 0 ? `${countOf(unfillable, 'gap')} ${unfillable === 1 ? 'was' : 'were'}` : 'It was';
  return `Nothing to fill. ${what} given up; --again tries once more.`;
}

async function select(
  { store }: FillContext,
  ids: readonly string[],
  selected: GapOptions,
  nowMs: number,
): Promise<readonly Gap[]> {
  if (ids.length > 0) {
    const gaps: Gap[] = [];
    for (const id of ids) gaps.push(...(await findGap(store, id, nowMs)).gaps);
    return gaps;
  }
  const streams = await store.inspection.streams();
  const filter = gapFilterOf(selected, streams, nowMs, FILLED_MAX);
  return (await readGaps(store, filter, streams, nowMs)).gaps;
}

function taskOf({ streamId, kind, marketId, variant, market, span }: Gap): FillTask {
  return { market, stream: { streamId, kind, marketId, variant, collectFromMs: null }, span };
}

/** Ends the pauses of these gaps; a neighbour of the same market and time may come along. */
async function makeDue(
  store: Store,
  gaps: readonly Gap[],
  nowMs: number,
  isUnfillableToo: boolean,
): Promise<void> {
  for (const { gapId, marketId, kind, span } of gaps) {
    if (gapId === null) continue;
    const filter = { marketIds: [marketId], kinds: [kind], span, limit: FILLED_MAX };
    await store.retryGaps(filter, nowMs, isUnfillableToo);
  }
}
