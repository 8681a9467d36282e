import { FILLED_MAX, gapsNamed, gapsText, selectFilling } from '../../console/api/filling.js';
import { expiredOf } from '../../console/api/gaps.js';
import { argument, command, flag } from '../command.js';
import { filling } from '../fill/filling.js';
import { assertCollected, fill } from '../fill/outcome.js';
import { expiredLine } from '../gaps.js';
import { JSON_DOCUMENT } from '../options.js';
import { countOf } from '../output.js';
import { GAP_SELECTION, gapsSelected } from '../selection.js';

/** Makes gaps due at once and sees to it that they are filled. */
export default command({
  args: { ids: argument<string[]>('gaps; without any, all that the options select') },
  options: {
    ...GAP_SELECTION,
    again: flag('--again', 'also unfillable ones'),
    json: JSON_DOCUMENT,
  },
  needs: filling('existing'),
  async run(filling, { ids, again = false, json, ...selected }) {
    const { store, session, signal } = filling;
    const select = async (nowMs: number) => {
      const isNamed = ids.length > 0;
      const found = isNamed
        ? await gapsNamed(store, ids, nowMs, '<id>', signal)
        : await gapsSelected(store, selected, nowMs, FILLED_MAX);
      return await selectFilling(store, found, { again, isNamed });
    };
    // Mistakes are reported before the exchange is asked.
    await select(await filling.nowMs());
    const isOwn = await filling.begin();
    signal.throwIfAborted();
    const nowMs = await filling.nowMs();
    const { due, isCut, isAll, leftOut, unfillable, streams, cutTo } = await select(nowMs);
    for (const sentence of leftOut) filling.say(sentence);
    if (due.length === 0) {
      // Expired time has no gap, so nothing else names it.
      const expired = expiredLine(expiredOf(streams, cutTo?.fromMs));
      if (expired !== undefined) filling.say(expired);
      return await fill(filling, nothing(unfillable), json, isAll);
    }
    if (isCut) filling.say(`The newest ${FILLED_MAX} gaps first; run it again for more.`);
    if (!isOwn) for (const gap of due) assertCollected(session.config, gap.market, [gap]);
    // Ends their pauses.
    await store.retryMemories(due, again);
    if (isOwn) filling.say('No daemon writes to this archive: this program does the work itself.');
    filling.say(`Filling ${gapsText(due)}.`);
    return await fill(filling, due, json, isAll);
  },
});

function nothing(unfillable: number): string {
  if (unfillable === 0) return 'Nothing to fill.';
  const [are, them] = unfillable === 1 ? ['is', 'it'] : ['are', 'them'];
  return `Nothing to fill. ${countOf(unfillable, 'gap')} ${are} unfillable. Retry ${them} with --again.`;
}
