import { obtain } from '../../kernel/bounded.js';
import { shownDuration } from '../../kernel/durations.js';
import { hullOf, type Span } from '../../kernel/span.js';
import { formatInstant, formatSpan, isoSpan } from '../../kernel/timestamp.js';
import { streamName } from '../../model/series.js';
import { isPartOfHistory } from '../../status/document.js';
import type { Gap, KnownStream } from '../../store/index.js';
import { command, flag, option, type Values } from '../command.js';
import { gapDocument } from '../fill/with-filling.js';
import {
  gapIdOf,
  givenUpLine,
  givenUpOf,
  HORIZON_WHY,
  leftOutText,
  nextTryText,
  notCollecting,
  unreachedText,
} from '../gaps.js';
import { archive } from '../opening/database.js';
import { countArgument, JSON_DOCUMENT } from '../options.js';
import {
  type Column,
  countOf,
  figure,
  formatTable,
  type Lines,
  marketNames,
  printReport,
  whole,
} from '../output.js';
import { GAP_SELECTION, selectGaps } from '../selection.js';

/** Gaps that are looked at for the sums, beyond those that are shown. */
const SUMMED_MAX = 5000;

/** Lists what is expected and not covered, the newest first. */
export default command({
  options: {
    ...GAP_SELECTION,
    limit: option('--limit <count>', 'show at most this many', countArgument, 50),
    all: flag('--all', "also list one by one what lies before the exchange's history"),
    json: JSON_DOCUMENT,
  },
  needs: archive(),
  async run({ session, store, nowMs }, { limit, all, json, ...selected }) {
    const most = Math.max(limit, SUMMED_MAX);
    const { gaps, isAll, streams, cutTo } = await selectGaps(store, selected, nowMs, most);
    const unreached = streams.filter(isPartOfHistory);
    const isWritten = await store.inspection.isWritten();
    const isCollecting = await store.inspection.isCollecting();
    const givenUp = givenUpOf(streams, cutTo?.fromMs);
    const document = {
      at: new Date(nowMs),
      isWritten,
      isCollecting,
      cutTo: cutTo === undefined ? null : isoSpan(cutTo),
      gaps: gaps.slice(0, limit).map(gapDocument),
      sums: sumsOf(gaps),
      isSumOfAll: isAll,
      historyNotReached: unreached.map(unreachedDocument),
      givenUp: givenUp.map(([kind, untilMs]) => ({ kind, until: new Date(untilMs) })),
    };
    const isEach = all === true || selected.reason !== undefined;
    const older = gaps.filter(({ isBeforeHistory }) => isBeforeHistory);
    const before = isEach ? [] : older;
    const listed = isEach ? gaps : gaps.filter(({ isBeforeHistory }) => !isBeforeHistory);
    const shown = listed.slice(0, limit);
    const left = leftOutText(session.config, streams);
    const isAllKnown =
      unreached.length === 0 && before.length === 0 && isCollecting && left === undefined;
    printReport(json, document, () => [
      shown.length === 0
        ? nothing(selected, streams, isAllKnown)
        : formatTable(columns({ config: session.config, isWritten }, nowMs), shown),
      (listed.length > shown.length || !isAll) && more(listed.length, shown.length, isAll),
      cutLine(shown, cutTo),
      sumLines(listed, isAll),
      beforeHistoryLines(before),
      givenUpLine(givenUp),
      unreached.map((stream) => `${unreachedText(stream, nowMs, older)}.`),
      !isCollecting && lagLine(streams, isWritten, nowMs),
      left && `${left}; what is missed meanwhile is listed once it is collected again.`,
    ]);
  },
});

function unreachedDocument({
  market,
  kind,
  oldestCoveredMs,
  startReason,
  startTries,
}: KnownStream) {
  const reached = oldestCoveredMs === null ? null : new Date(oldestCoveredMs);
  const cannotBeHad = startReason === 'history horizon';
  const { attempts, reason, note, nextAttemptAtMs = 0 } = startTries ?? {};
  const tries = startTries && { attempts, reason, note, nextTry: new Date(nextAttemptAtMs) };
  return { market, kind, reached, cannotBeHad, why: cannotBeHad ? HORIZON_WHY : null, tries };
}

/** Says no more than is known: outside of what was collected there may be anything. */
function nothing(
  selected: Values<typeof GAP_SELECTION>,
  streams: readonly KnownStream[],
  isAllKnown: boolean,
): string {
  const isAny = Object.values(selected).every((one) => one === undefined);
  if (!isAny) return 'No gaps of that sort.';
  if (streams.every(({ newestCoveredMs }) => newestCoveredMs === null)) {
    return 'Nothing is covered yet.';
  }
  return isAllKnown
    ? 'No gaps: all that is expected is covered.'
    : 'No gaps within what was collected; what is outside of it is listed below.';
}

function more(found: number, shown: number, isAll: boolean): string {
  const count = isAll ? whole(found - shown) : 'many';
  return `… and ${count} more; --limit shows more, --from and --to other times.`;
}

/** Only the part of a gap is known that lies in the span asked about. */
function cutLine(shown: readonly Gap[], cutTo: Span | undefined): Lines {
  const cut = shown.filter(
    ({ span }) => span.fromMs === cutTo?.fromMs || span.toMs === cutTo?.toMs,
  );
  if (cutTo === undefined || cut.length === 0) return undefined;
  return `Cut to ${formatSpan(cutTo)}, as asked: ${cut.length} of these may go on outside of it; without --from and --to they are listed whole.`;
}

/** Time by state and reason, the longest first. */
function sumsOf(gaps: readonly Gap[]) {
  const sums = new Map<
    string,
    { state: string; reason: string; count: number; lengthMs: number }
  >();
  for (const { state, reason, span } of gaps) {
    const none = () => ({ state, reason, count: 0, lengthMs: 0 });
    const sum = obtain(sums, `${state} ${reason}`, none);
    sum.count += 1;
    sum.lengthMs += span.toMs - span.fromMs;
  }
  return [...sums.values()].sort((a, b) => b.lengthMs - a.lengthMs);
}

function sumLines(gaps: readonly Gap[], isAll: boolean): Lines {
  const of = (isLost: boolean) =>
    sumsOf(gaps)
      .filter(({ state }) => (state === 'unfillable') === isLost)
      .map(({ reason, lengthMs }) => `${shownDuration(lengthMs)} ${reason}`)
      .join(', ');
  const part = isAll ? '' : ` (of the newest ${whole(gaps.length)})`;
  const [open, lost] = [of(false), of(true)];
  return [open !== '' && `Open${part}: ${open}.`, lost !== '' && `Lost${part}: ${lost}.`];
}

/** A line for each kind and length: what was asked for and was never there to be had. */
function beforeHistoryLines(gaps: readonly Gap[]): Lines {
  const groups = new Map<string, Gap[]>();
  const byStream = (a: Gap, b: Gap) =>
    (a.kind + a.market).localeCompare(b.kind + b.market) || a.variant - b.variant;
  for (const gap of gaps.toSorted(byStream)) obtain(groups, streamName(gap), () => []).push(gap);
  const lines = [...groups].map(([name, own]) => {
    const { fromMs, toMs } = hullOf(own.map(({ span }) => span));
    const markets = [...new Set(own.map(({ market }) => market))];
    // Where it begins differs from market to market.
    const most = markets.length > 1 ? ' at most' : '';
    return `Never to be had: ${name} of ${marketNames(markets)} from ${formatInstant(fromMs)} to ${formatInstant(toMs)}${most}, before the exchange's history begins (${countOf(own.length, 'gap')}).`;
  });
  return [lines, groups.size > 0 && '--all lists these one by one, as far as --limit goes.'];
}

/** Without a collector the time since is missing as well, without being a gap yet. */
function lagLine(streams: readonly KnownStream[], isWritten: boolean, nowMs: number): Lines {
  const why = notCollecting(isWritten);
  const newest = streams.flatMap(({ newestCoveredMs: ms }) => (ms === null ? [] : [ms]));
  if (newest.length === 0) return why;
  const ms = Math.max(...newest);
  const ago = shownDuration(nowMs - ms);
  return `${why} What happened since a stream ends (the newest at ${formatInstant(ms)}, ${ago} ago) is not listed.`;
}

const columns = (by: Parameters<typeof nextTryText>[1], nowMs: number): readonly Column<Gap>[] => [
  { title: 'id', text: gapIdOf },
  { title: 'market', text: ({ market }) => market },
  { title: 'stream', text: streamName },
  { title: 'from', text: ({ span }) => formatInstant(span.fromMs) },
  { title: 'to', text: ({ span }) => formatInstant(span.toMs) },
  figure('length', ({ span }) => shownDuration(span.toMs - span.fromMs)),
  { title: 'state', text: ({ state }) => state },
  { title: 'reason', text: ({ reason }) => reason },
  figure('tries', ({ attempts }) => String(attempts)),
  { title: 'next try', text: (gap) => nextTryText(gap, by, nowMs) },
  { title: 'note', text: ({ note }) => note?.replaceAll('\n', '; ') ?? '' },
];
