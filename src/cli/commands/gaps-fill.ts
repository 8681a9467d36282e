import { type Span, subtractSpans } from '../../kernel/span.js';
import { MOMENT_STREAMS, type StreamKind, streamName } from '../../model/series.js';
import type { Gap, Store } from '../../store/index.js';
import { argument, command, flag } from '../command.js';
import { assertCollected, type FillContext, filling } from '../fill/with-filling.js';
import type { FillTask } from '../fill/worker.js';
import { expiredLine, expiredOf, findGap } from '../gaps.js';
import { partitionSpans } from '../life.js';
import { JSON_DOCUMENT } from '../options.js';
import { countOf, marketNames } from '../output.js';
import { GAP_SELECTION, selectGaps } from '../selection.js';

/** Gaps of one run; the others are named by the next. */
const FILLED_MAX = 2000;

/** Makes gaps due at once and sees to it that they are filled. */
export default command({
  args: { ids: argument<string[]>('gaps; without any, all that the options select') },
  options: {
    ...GAP_SELECTION,
    again: flag('--again', 'also unfillable ones'),
    json: JSON_DOCUMENT,
  },
  needs: filling('existing'),
  async run(context, { ids, again = false, json, ...selected }) {
    const { filling, store, session, say, signal } = context;
    const select = async (nowMs: number) =>
      ids.length === 0
        ? await selectGaps(store, selected, nowMs, FILLED_MAX)
        : { gaps: await gapsNamed(store, ids, nowMs), streams: [], cutTo: undefined };
    // Mistakes are reported before the exchange is asked.
    await select(await filling.nowMs());
    const isOwn = await filling.begin();
    signal.throwIfAborted();
    const nowMs = await filling.nowMs();
    const { gaps: found, streams, cutTo } = await select(nowMs);
    const fetchable = found.filter(({ kind }) => !MOMENT_STREAMS.has(kind));
    const passed = found.filter(({ kind }) => MOMENT_STREAMS.has(kind));
    if (passed.length > 0) {
      say(`Not filled: ${gapsOf(passed)}, which could be seen only at the moment.`);
    }
    const askable = await withoutUnlisted(context, fetchable);
    const present = await withoutArchived(store, askable);
    const away = askable.filter((gap) => !present.includes(gap));
    if (away.length > 0) {
      say(
        `Left out: ${gapsOf(away)}; nothing can be added to partitions that are archived or expired; "tapekeep restore" brings archived ones back.`,
      );
    }
    const isOpen = ({ state }: Gap) => again || state !== 'unfillable';
    const due = present.filter(isOpen);
    const isCut = due.length >= FILLED_MAX;
    // What was given up is meant where it is named, or with --again.
    const meant = ids.length > 0 ? found : found.filter(isOpen);
    const isAll = !isCut && due.length === meant.length;
    if (due.length === 0) {
      // Expired time has no gap, so nothing else names it.
      const expired = expiredLine(expiredOf(streams, cutTo?.fromMs));
      if (expired !== undefined) say(expired);
      return await context.fill(nothing(present.length), json, isAll);
    }
    if (isCut) say(`The newest ${FILLED_MAX} gaps first; run it again for more.`);
    if (!isOwn) for (const gap of due) assertCollected(session.config, gap.market, [gap]);
    // Ends their pauses; a neighbour of the same market and time may come along.
    for (const { gapId, marketId, kind, span } of due) {
      if (gapId === null) continue;
      const filter = { marketIds: [marketId], kinds: [kind], span, limit: FILLED_MAX };
      await store.retryGaps(filter, nowMs, again);
    }
    if (isOwn) say('No daemon writes to this archive: this program does the work itself.');
    say(`Filling ${gapsOf(due)}.`);
    return await context.fill(due.map(taskOf), json, isAll);
  },
});

/** How many, and of which streams: a run has several numbers of gaps, and these are others each time. */
function gapsOf(gaps: readonly Gap[]): string {
  return `${countOf(gaps.length, 'gap')} of ${[...new Set(gaps.map(streamName))].sort().join(', ')}`;
}

/** Of a market that is not listed nothing can be asked: a gap made due there would stay open. */
async function withoutUnlisted(
  { store, say }: FillContext,
  gaps: readonly Gap[],
): Promise<readonly Gap[]> {
  const streams = await store.inspection.streams();
  const unlisted = new Set(
    streams.filter((one) => one.delistedAtMs !== null).map(({ marketId }) => marketId),
  );
  const away = gaps.filter(({ marketId }) => unlisted.has(marketId));
  if (away.length > 0) {
    const names = marketNames([...new Set(away.map(({ market }) => market))]);
    say(
      `Left out: ${gapsOf(away)} of ${names}, which the exchange does not list now; a daemon fills what can be fetched once it is listed again.`,
    );
  }
  return gaps.filter(({ marketId }) => !unlisted.has(marketId));
}

/** Gaps of which at least a part lies where rows can be added. */
async function withoutArchived(store: Store, gaps: readonly Gap[]): Promise<readonly Gap[]> {
  const gone = new Map<StreamKind, readonly Span[]>();
  for (const kind of new Set(gaps.map((gap) => gap.kind))) {
    gone.set(kind, await partitionSpans(store, kind, 'archived', 'expired'));
  }
  return gaps.filter(({ kind, span }) => subtractSpans(span, gone.get(kind) ?? []).length > 0);
}

function nothing(unfillable: number): string {
  if (unfillable === 0) return 'Nothing to fill.';
  const [are, them] = unfillable === 1 ? ['is', 'it'] : ['are', 'them'];
  return `Nothing to fill. ${countOf(unfillable, 'gap')} ${are} unfillable. Retry ${them} with --again.`;
}

async function gapsNamed(store: Store, ids: readonly string[], nowMs: number): Promise<Gap[]> {
  const gaps: Gap[] = [];
  for (const id of ids) gaps.push(...(await findGap(store, id, nowMs)).gaps);
  return gaps;
}

function taskOf({ streamId, kind, marketId, variant, market, span }: Gap): FillTask {
  return { market, stream: { streamId, kind, marketId, variant, collectFromMs: null }, span };
}
