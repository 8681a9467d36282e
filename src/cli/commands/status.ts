import { findHeld } from '../../archive/sealing/plan.js';
import { expiredOf } from '../../console/api/gaps.js';
import { marketsOf, selectMarkets } from '../../console/api/selection.js';
import { stateOf } from '../../console/state.js';
import {
  type ArchiveStatus,
  archiveStatus,
  checksOf,
  firstHistoryText,
  heldText,
  type StatusStream,
  statusOf,
} from '../../console/status-document.js';
import { intervalText, shownDuration } from '../../kernel/durations.js';
import { isPartOfHistory, type KnownStream, startText } from '../../model/explain.js';
import type { GapReason } from '../../model/gap-reasons.js';
import { streamName } from '../../model/series.js';
import type { CheckTotals, StreamStatus } from '../../store/index.js';
import { command, flag, option, VERSION } from '../command.js';
import {
  expiredLine,
  holderLines,
  leftOutText,
  notCollecting,
  standbyText,
  streamText,
} from '../gaps.js';
import { lifeRulesOf } from '../life.js';
import { archive } from '../opening/database.js';
import { JSON_DOCUMENT, kindsArgument, limitOrNoneArgument, MARKETS } from '../options.js';
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
import { percent } from '../progress.js';

/** Streams that are listed without --all. */
const LISTED_STREAMS = 20;

export default command({
  options: {
    markets: MARKETS,
    kinds: option('--kind <list>', 'only these; separate several by commas', kindsArgument),
    worst: option(
      '--worst <number>',
      `list this many streams, the least covered first (default: ${LISTED_STREAMS})`,
      limitOrNoneArgument,
    ),
    all: flag('--all', 'list every stream'),
    isSummary: flag('--summary', 'list no stream'),
    json: JSON_DOCUMENT,
  },
  help: `
covered   share of the expected time that is complete, up to the newest covered timestamp
lag       time since "covered until"
verified until
          stored trades were compared with stored candles up to there

  tapekeep status
  tapekeep status --all --kind trades,candles
  tapekeep status --json | jq '.archive.streams[] | select(.coverageRatio != null and .coverageRatio < 1)'

The JSON lists every stream. It is the document that a daemon serves as /status; its JSON Schema is
docs/reference/status.schema.json.`,
  needs: archive(),
  async run({ session, store, nowMs }, { markets, kinds, worst, all: isAll, isSummary, json }) {
    const [identity, isWritten, isCollecting, holders, standbys, known, streams, gaps, checks] =
      await Promise.all([
        store.archive(),
        store.inspection.isWritten(),
        store.inspection.isCollecting(),
        store.holders(),
        store.standbys(),
        store.inspection.streams(),
        store.statusRows(nowMs),
        store.gapTotals(nowMs),
        store.checks.totals(),
      ]);
    const wallMs = session.clock.wallMs();
    const held = await findHeld(store, lifeRulesOf(session.config), { nowMs, wallMs });
    const configured = session.config.markets.map((market) => ({ market }));
    selectMarkets(markets, [...marketsOf(streams), ...configured], '--market');
    const counted = { atMs: nowMs, streams, gaps, checks, held, holders };
    const isEach = isAll || json || streams.length <= LISTED_STREAMS;
    const limit = isSummary ? 0 : (worst ?? (isEach ? undefined : LISTED_STREAMS));
    const status = archiveStatus(counted, nowMs, { markets, kinds, worst: limit });
    const isShown = ({ market, kind }: Pick<KnownStream, 'market' | 'kind'>) =>
      markets?.includes(market) !== false && kinds?.includes(kind) !== false;
    const left = leftOutText(session.config, known.filter(isShown));
    const of = statusOf(VERSION, identity, nowMs, left);
    const document = { ...of, archive: status, daemon: null };
    const { level, text, command: help } = stateOf(document);
    const state = { level, text, sinceMs: null, command: help };
    printReport(json, { ...document, state }, () => [
      text,
      status.kinds.length > 0 && formatTable(KIND_COLUMNS, status.kinds),
      streamLines(status),
      status.kinds.map((kind) => firstHistoryText(kind)),
      status.kinds.map(
        ({ timedRatio }) =>
          timedRatio !== null && `Trades with exact time: ${percent(timedRatio, 1)}`,
      ),
      gapLines(status),
      expiredLine(expiredOf(status.kinds)),
      status.heldPartitions.map((one) => `${heldText(one)}.`),
      apartLines(streams.filter(isShown)),
      olderLines(known.filter(isShown), nowMs),
      mismatchLine(checksOf(counted, { markets, kinds })),
      identity !== null && absentLine(session.config.markets, known.filter(isShown)),
      left !== undefined && `${left}.`,
      !isCollecting && notCollecting(isWritten),
      holderLines(holders),
      standbys.map((one) => `Standing by: ${standbyText(one)}.`),
    ]);
  },
});

/** Streams that have not begun, such as the first candle of a day, are counted alone. */
function streamLines({ streams, streamsLeftOut }: ArchiveStatus): Lines {
  const begun = streams.filter((one) => one.coverageRatio !== null || one.missingS > 0);
  const idle = streams.length - begun.length;
  return [
    begun.length > 0 && ['', formatTable(COLUMNS, begun)],
    idle > 0 && `${countOf(idle, 'stream')} not begun yet`,
    begun.length > 0 &&
      streamsLeftOut > 0 &&
      `… and ${countOf(streamsLeftOut, 'more stream')}; --all lists them`,
  ];
}

function gapLines({ openGaps, lostGaps, kinds }: ArchiveStatus): Lines {
  const walked = new Set(kinds.flatMap((one) => (one.firstHistory === null ? [] : [one.kind])));
  const open = openGaps.filter(({ kind, reason }) => reason !== UNKNOWN || !walked.has(kind));
  const linesOf = (what: string, gaps: ArchiveStatus['openGaps']) =>
    gaps.map(
      ({ kind, reason, lengthS, oldestAgeS }) =>
        `${what}: ${shownDuration(lengthS * 1000)} of ${kind}, ${reason}; oldest ${shownDuration(oldestAgeS * 1000)} ago`,
    );
  return [linesOf('Open', open), linesOf('Unfillable', lostGaps)];
}

const UNKNOWN: GapReason = 'not collected';

/** Time that no share counts: before the history of the exchange, and between covered time ranges. */
const APART = {
  beforeHistoryS: 'Before the history of the exchange, not counted as missing',
  neverAskedS: 'Never requested, between covered times ("tapekeep backfill" fetches it)',
} as const;

function apartLines(streams: readonly StreamStatus[]): Lines {
  return (['beforeHistoryS', 'neverAskedS'] as const).map((field) => {
    const found = streams.filter((one) => one[field] > 0);
    return [...new Set(found.map(({ kind }) => kind))].map((kind) => {
      const own = found.filter((one) => one.kind === kind);
      const longest = shownDuration(Math.max(...own.map((one) => one[field])) * 1000);
      const markets = countOf(new Set(own.map(({ market }) => market)).size, 'market');
      return `${APART[field]}: ${kind} of ${markets}, up to ${longest}`;
    });
  });
}

/** Streams whose older history is named; the others are counted. */
const OLDER_MAX = 3;

function olderLines(streams: readonly KnownStream[], nowMs: number): Lines {
  const found = streams.filter(isPartOfHistory);
  const rest = found.length - OLDER_MAX;
  return [
    found
      .slice(0, OLDER_MAX)
      .map((one) => `${streamText(one)}: ${printable(startText(one, nowMs))}`),
    rest > 0 && `… and so ${countOf(rest, 'more stream')}`,
  ];
}

/** Markets that the exchange does not list, or no more. */
function absentLine(wanted: readonly string[], known: readonly KnownStream[]): Lines {
  const listed = new Set(known.flatMap((one) => (one.delistedAtMs === null ? [one.market] : [])));
  const away = [...new Set([...wanted, ...known.map(({ market }) => market)])].filter(
    (market) => !listed.has(market),
  );
  return away.length > 0 && `Not listed by the exchange, so not collected: ${marketNames(away)}`;
}

/** Markets and lengths of candles that are named; the others are counted. */
const MISMATCHED_MAX = 3;

/** Of all that is asked for, also where the table lists less. */
function mismatchLine(checks: readonly CheckTotals[]): Lines {
  const bad = checks
    .filter(({ mismatches }) => mismatches > 0)
    .sort((a, b) => b.mismatches - a.mismatches);
  if (bad.length === 0) return undefined;
  const named = bad
    .slice(0, MISMATCHED_MAX)
    .map(
      ({ market, intervalS, mismatches }) =>
        `${countOf(mismatches, 'slot')} of ${intervalText(intervalS)} of ${printable(market)}`,
    );
  const left = bad.length - named.length;
  if (left > 0) named.push(countOf(left, 'more stream'));
  return `Mismatch: stored trades do not match the candles of ${named.join(', ')}; "tapekeep verify" lists them`;
}

const instant = (ms: number | null) =>
  ms === null ? '–' : new Date(ms).toISOString().slice(0, 19).replace('T', ' ');

const shareText = (ratio: number | null, isPart: boolean) =>
  ratio === null ? '–' : `${percent(ratio, 2)}${isPart ? ' of part' : ''}`;

const KIND_COLUMNS: readonly Column<ArchiveStatus['kinds'][number]>[] = [
  { title: 'kind', text: ({ kind }) => kind },
  figure('streams', ({ streams }) => whole(streams)),
  figure('covered', (one) => shareText(one.coverageRatio, one.partialStreams > 0)),
  figure('least covered', ({ lowestCoverageRatio: ratio }) => shareText(ratio, false)),
  figure('missing', ({ missingS }) => shownDuration(missingS * 1000)),
  figure('unfillable', ({ missingS, openS }) => shownDuration((missingS - openS) * 1000)),
];

const COLUMNS: readonly Column<StatusStream>[] = [
  { title: 'market', text: (line) => line.market },
  { title: 'stream', text: ({ kind, intervalS }) => streamName({ kind, variant: intervalS ?? 0 }) },
  { ...figure('rows', (line) => whole(line.rows)), rank: 2 },
  { title: 'covered until', text: ({ coveredUntilMs: ms }) => instant(ms), rank: 1 },
  figure('lag', ({ lagS }) => (lagS === null ? '–' : shownDuration(lagS * 1000))),
  figure('covered', (line) => shareText(line.coverageRatio, isPartOfHistory(line))),
  figure('gaps', (line) => whole(line.gaps)),
  figure('missing', ({ missingS }) => shownDuration(missingS * 1000)),
  { title: 'verified until', text: ({ verifiedUntilMs: ms }) => instant(ms), rank: 3 },
];
