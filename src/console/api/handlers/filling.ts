import { isoMs } from '../../../kernel/timestamp.js';
import { countOf } from '../../../kernel/words.js';
import type { Gap } from '../../../store/index.js';
import type { Handlers } from '../endpoints.js';
import {
  FILLED_MAX,
  type FillSelection,
  gapsNamed,
  noteOn,
  rangeIdOf,
  readNote,
  readProgress,
  selectFilling,
  sizeOf,
} from '../filling.js';
import { selectGaps } from '../selection.js';
import { type GapDeps, type GapInput, questionOf } from './gaps.js';

/** Needs of the answers about filling. */
export interface FillDeps extends GapDeps {
  /** Requests that the limit of the settings allows. */
  readonly requestsPerS: number;
}

/** Gaps whose ids are given to follow their progress: they are the parts of an address. */
const FOLLOWED_MAX = 100;

interface FillInput extends GapInput {
  readonly ids?: readonly string[] | undefined;
  readonly again: boolean;
}

/** Answers about filling, and notes. */
export function fillHandlers({
  store: open,
  nowMs: now,
  leftOut,
  requestsPerS,
}: FillDeps): Pick<Handlers, 'fill' | 'fillProgress' | 'note'> {
  const select = async (
    { ids, again, ...input }: FillInput,
    nowMs: number,
    signal: AbortSignal,
  ) => {
    const store = open();
    const isNamed = ids !== undefined && ids.length > 0;
    const found = isNamed
      ? await gapsNamed(store, ids, nowMs, 'ids', signal)
      : await selectGaps(store, questionOf(input, nowMs), nowMs, FILLED_MAX);
    return await selectFilling(store, found, { again, isNamed });
  };
  /** The daemon does not fill what its settings leave out. */
  const collected = ({ due, ...selection }: FillSelection) => {
    const isLeftOut = new Map<string, string | undefined>();
    const sentenceOf = (gap: Gap) => {
      const key = `${gap.market} ${gap.kind} ${gap.variant}`;
      if (!isLeftOut.has(key)) isLeftOut.set(key, leftOut([gap]));
      return isLeftOut.get(key);
    };
    const away = due.filter((gap) => sentenceOf(gap) !== undefined);
    const sentence = away.length === 0 ? undefined : leftOut(away);
    return { ...selection, due: due.filter((gap) => !away.includes(gap)), sentence };
  };

  return {
    async fill({ isPreview, ...input }, signal) {
      const store = open();
      const nowMs = now();
      const { due, sentence, unfillable, ...selection } = collected(
        await select(input, nowMs, signal),
      );
      signal.throwIfAborted();
      const { lengthMs, requests } = await sizeOf(store, due);
      if (!isPreview) await store.retryMemories(due, input.again);
      const longest = [...due].sort((a, b) => lengthOf(b) - lengthOf(a)).slice(0, FOLLOWED_MAX);
      return {
        ...{ isPreview, gaps: due.length, lengthMs, requests },
        seconds: Math.ceil(requests / requestsPerS),
        leftOut: [
          ...selection.leftOut,
          ...(sentence === undefined ? [] : [`${sentence}.`]),
          ...(unfillable === 0
            ? []
            : [`Skipped: ${countOf(unfillable, 'unfillable gap')}, unless tried again.`]),
          ...(selection.isCut ? [`The newest ${FILLED_MAX} gaps first; ask again for more.`] : []),
        ],
        ids: longest.map(rangeIdOf),
      };
    },

    async fillProgress({ id }, signal) {
      const nowMs = now();
      return { at: isoMs(nowMs), ...(await readProgress(open(), id, nowMs, signal)) };
    },

    async note({ id, note }, signal) {
      const store = open();
      const nowMs = now();
      await noteOn(store, [id], note, nowMs, 'id', signal);
      return await readNote(store, id, nowMs, signal);
    },
  };
}

const lengthOf = ({ span }: Gap) => span.toMs - span.fromMs;
