import { expiredOf, gapSums, gapsDocument, SUMMED_MAX } from '../../console/api/gaps.js';
import { shownDuration } from '../../kernel/durations.js';
import type { Span } from '../../kernel/span.js';
import { formatInstant, formatSpan } from '../../kernel/timestamp.js';
import {
  gapIdOf,
  isPartOfHistory,
  type KnownStream,
  nextTryOf,
  startText,
} from '../../model/explain.js';
import { type Incident, incidentsOf } from '../../model/incidents.js';
import { streamName } from '../../model/series.js';
import type { Gap } from '../../store/index.js';
import { command, flag, option, type Values } from '../command.js';
import { expiredLine, leftOutText, notCollecting, streamText } from '../gaps.js';
import { archive } from '../opening/database.js';
import { countArgument, JSON_DOCUMENT } from '../options.js';
import {
  type Column,
  countOf,
  figure,
  formatTable,
  type Lines,
  marketNames,
  printable,
  printReport,
  whole,
} from '../output.js';
import { GAP_SELECTION, gapsSelected } from '../selection.js';

/** Lists what is expected and not covered, the newest first. */
export default command({
  options: {
    ...GAP_SELECTION,
    limit: option('--limit <count>', 'show at most this many', countArgument, 50),
    all: flag('--all', 'list each gap, also those before the history of the exchange'),
    json: JSON_DOCUMENT,
  },
  needs: archive(),
  async run({ session, store, nowMs }, { limit, all, json, ...selected }) {
    const found = await gapsSelected(store, selected, nowMs, Math.max(limit, SUMMED_MAX));
    const { gaps, isAll, streams, cutTo } = found;
    const isWritten = await store.inspection.isWritten();
    const isCollecting = await store.inspection.isCollecting();
    const document = gapsDocument(found, { nowMs, isWritten, isCollecting }, limit);
    const older = streams.filter(isPartOfHistory);
    const isEach = all === true || selected.reason !== undefined;
    const before = isEach ? [] : gaps.filter(({ isBeforeHistory }) => isBeforeHistory);
    const listed = isEach ? gaps : gaps.filter(({ isBeforeHistory }) => !isBeforeHistory);
    const rows = isEach ? listed : incidentsOf(listed);
    const left = leftOutText(session.config, streams);
    const nextTry = (gap: Gap) =>
      nextTryOf(gap, gap, { nowMs, isWritten, leftOut: leftOutText(session.config, [gap]) });
    const rest = rows.length - Math.min(rows.length, limit);
    printReport(json, document, () => [
      listed.length === 0 && nothing(selected, streams),
      isEach && formatTable(gapColumns(nextTry), listed.slice(0, limit)),
      !isEach &&
        rows.length > 0 &&
        formatTable(INCIDENT_COLUMNS, incidentsOf(listed).slice(0, limit)),
      (rest > 0 || !isAll) &&
        `… and ${isAll ? whole(rest) : 'more'} more; see --limit, --from and --to.`,
      cutTo !== undefined && listed.length > 0 && `Cut to ${formatSpan(cutTo)}, as asked.`,
      sumLines(listed, isAll),
      before.length > 0 && beforeLine(before),
      expiredLine(expiredOf(streams, cutTo?.fromMs)),
      older.map((one) => `${streamText(one)}: ${printable(startText(one, nowMs))}.`),
      !isCollecting && `${notCollecting(isWritten)} Time since a stream ends is not listed.`,
      left && `${left}.`,
    ]);
  },
});

function beforeLine(gaps: readonly Gap[]): string {
  const names = [...new Set(gaps.map(streamName))].sort().join(', ');
  const markets = marketNames([...new Set(gaps.map(({ market }) => market))].sort());
  return `Before the history of the exchange, not counted as missing: ${names} of ${markets}. See --all.`;
}

function nothing(selected: Values<typeof GAP_SELECTION>, streams: readonly KnownStream[]): string {
  if (Object.values(selected).some((one) => one !== undefined)) return 'No gaps of that sort.';
  const isEmpty = streams.every(({ newestCoveredMs }) => newestCoveredMs === null);
  return isEmpty ? 'Nothing is covered yet.' : 'No gaps.';
}

function sumLines(gaps: readonly Gap[], isAll: boolean): Lines {
  const of = (isUnfillable: boolean) =>
    gapSums(gaps)
      .filter(({ state }) => (state === 'unfillable') === isUnfillable)
      .map(({ reason, lengthMs }) => `${shownDuration(lengthMs)} ${reason}`)
      .join(', ');
  const part = isAll ? '' : ` (of the newest ${whole(gaps.length)})`;
  const [open, unfillable] = [of(false), of(true)];
  return [
    open !== '' && `Open${part}: ${open}.`,
    unfillable !== '' && `Unfillable${part}: ${unfillable}.`,
  ];
}

const from = <Row extends { readonly span: Span }>(): Column<Row> => ({
  ...figure('from', ({ span }: Row) => formatInstant(span.fromMs)),
});
const to = <Row extends { readonly span: Span }>(): Column<Row> => ({
  ...{ title: 'to', text: ({ span }) => formatInstant(span.toMs), rank: 2 },
});
const length = <Row extends { readonly span: Span }>(): Column<Row> =>
  figure('length', ({ span }) => shownDuration(span.toMs - span.fromMs));

const INCIDENT_COLUMNS: readonly Column<Incident<Gap>>[] = [
  {
    title: 'id',
    text: ({ gaps }) => (gaps[0] && gaps.length === 1 ? gapIdOf(gaps[0]) : '–'),
    rank: 1,
  },
  ...[from<Incident<Gap>>(), to<Incident<Gap>>(), length<Incident<Gap>>()],
  { title: 'state', text: ({ state }) => state },
  { title: 'cause', text: ({ cause }) => cause },
  {
    title: 'of',
    text: ({ gaps: [first], streams, markets }) =>
      streams === 1 && first !== undefined
        ? `${first.market} ${streamName(first)}`
        : `${countOf(markets, 'market')}, ${countOf(streams, 'stream')}`,
  },
];

const gapColumns = (nextTry: (gap: Gap) => string): readonly Column<Gap>[] => [
  { title: 'id', text: gapIdOf },
  { title: 'market', text: ({ market }) => market },
  { title: 'stream', text: streamName },
  ...[from<Gap>(), to<Gap>(), length<Gap>()],
  { title: 'state', text: ({ state }) => state },
  { title: 'reason', text: ({ reason }) => reason },
  { ...figure('tries', ({ attempts }) => String(attempts)), rank: 4 },
  { title: 'next try', text: nextTry, rank: 3 },
  { title: 'note', text: ({ note }) => note?.replaceAll('\n', '; ') ?? '', rank: 5 },
];
