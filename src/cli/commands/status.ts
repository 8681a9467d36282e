import { shownDuration } from '../../kernel/durations.js';
import { streamName } from '../../model/series.js';
import {
  type ArchiveStatus,
  archiveStatus,
  checksOf,
  exchangeText,
  isPartOfHistory,
  reasonText,
  type StatusStream,
  statusOf,
} from '../../status/document.js';
import type { CheckTotals, KnownStream } from '../../store/index.js';
import { command, flag, option, VERSION } from '../command.js';
import { givenUpLine, givenUpOf, HORIZON_WHY, leftOutText, notCollecting } from '../gaps.js';
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
import { marketsOf, selectMarkets } from '../selection.js';

export default command({
  options: {
    markets: MARKETS,
    kinds: option('--kind <list>', 'only these; separate several by commas', kindsArgument),
    worst: option(
      '--worst <number>',
      'list only so many streams, the least covered first; 0: none',
      limitOrNoneArgument,
    ),
    isSummary: flag('--summary', 'only the figures of all together'),
    json: JSON_DOCUMENT,
  },
  help: `
covered   the share of what is expected that is proven complete, up to the newest time that is covered or was asked
          for in vain
verified until
          held against the trades up to there; what does not match is named below the table
lag       what is newer than "covered until": it is part of the share only as far as it was asked for in vain

  tapekeep status --summary
  tapekeep status --worst 20 --kind trades,candles
  tapekeep status --json | jq '.archive.streams[] | select(.coverageRatio != null and .coverageRatio < 1)'

The JSON is the document that a daemon serves as /status, whose daemon is null here; its JSON Schema is
docs/reference/status.schema.json, and /status/schema of a daemon.`,
  needs: archive(),
  async run({ session, store, nowMs }, { markets, kinds, worst, isSummary, json }) {
    const [identity, isWritten, isCollecting, known, streams, gaps, checks] = await Promise.all([
      store.archive(),
      store.inspection.isWritten(),
      store.inspection.isCollecting(),
      store.inspection.streams(),
      store.statusRows(nowMs),
      store.gapTotals(nowMs),
      store.checks.totals(),
    ]);
    const configured = session.config.markets.map((market) => ({ market }));
    selectMarkets(markets, [...marketsOf(streams), ...configured]);
    const counted = { atMs: nowMs, streams, gaps, checks };
    const limit = isSummary === true ? 0 : worst;
    const status = archiveStatus(counted, nowMs, { markets, kinds, worst: limit });
    const all = archiveStatus(counted, nowMs, { markets, kinds }).streams;
    const shown = new Set(all.map(({ market }) => market));
    const left = leftOutText(
      session.config,
      streams.filter(({ market, kind }) => shown.has(market) && kinds?.includes(kind) !== false),
    );
    const of = statusOf(VERSION, identity, nowMs, left);
    const title =
      identity === null
        ? 'The archive is empty: nothing was collected yet.'
        : `Archive of ${exchangeText(of)}`;
    printReport(json, { ...of, archive: status, daemon: null }, () => [
      title,
      tableLines(status),
      summaryLine(status, all),
      gapLines(status),
      givenUpLine(givenUpOf(status.kinds)),
      apartLines(all),
      historyLines(status.streams, all),
      mismatchLine(checksOf(counted, { markets, kinds })),
      identity !== null && absentLines(session.config.markets, known, shown),
      left !== undefined && `${left}.`,
      !isCollecting && notCollecting(isWritten),
    ]);
  },
});

function tableLines({ streams, streamsLeftOut }: ArchiveStatus): Lines {
  if (streams.length === 0 && streamsLeftOut > 0) return undefined;
  const more = `… and ${countOf(streamsLeftOut, 'more stream')}.`;
  return [formatTable(COLUMNS, streams), streamsLeftOut > 0 && more];
}

function summaryLine(status: ArchiveStatus, streamsOfAll: readonly StatusStream[]): string {
  const { markets, rows, kinds, lowestCoverageRatio } = status;
  const of = `${countOf(markets, 'market')}, ${countOf(streamsOfAll.length, 'stream')}, ${countOf(rows, 'row')} covered`;
  const shares = kinds.flatMap(({ kind, coverageRatio, partialStreams }) =>
    coverageRatio === null
      ? []
      : [`${kind} ${percent(coverageRatio, 2)}${partialStreams > 0 ? ' of part' : ''}`],
  );
  if (shares.length === 0) return `All: ${of}.`;
  const lowest = percent(lowestCoverageRatio ?? 0, 2);
  return `All: ${of}; of the time ${shares.join(', ')}; the least covered stream ${lowest}.`;
}

function gapLines({ openGaps, lostGaps, markets }: ArchiveStatus): Lines {
  const together = markets > 1 ? ', all markets together' : '';
  const linesOf = (what: string, gaps: ArchiveStatus['openGaps']) =>
    gaps.map(({ lengthS, oldestAgeS, ...gap }) => {
      const age = shownDuration(oldestAgeS * 1000);
      return `${what}: ${shownDuration(lengthS * 1000)} of ${gap.kind}, ${reasonText(gap)}${together}; the oldest of it is ${age} old.`;
    });
  return [linesOf('Open', openGaps), linesOf('Lost', lostGaps)];
}

/** What no share counts: what was asked for and never existed, and what lies between covered spans unasked. */
const APART = {
  beforeHistoryS: [
    'Never to be had',
    "that were asked for from before the exchange's history begins; it does not lower the share",
  ],
  neverAskedS: [
    'Never asked for',
    'between covered spans: what is stored of it is not complete; "tapekeep backfill" asks for it',
  ],
} as const;

function apartLines(streams: readonly StatusStream[]): Lines {
  return (['beforeHistoryS', 'neverAskedS'] as const).map((field) => {
    const [what, why] = APART[field];
    const found = streams.filter((one) => one[field] > 0);
    return [...new Set(found.map(({ kind }) => kind))].map((kind) => {
      const own = found.filter((one) => one.kind === kind);
      const longest = shownDuration(Math.max(...own.map((one) => one[field])) * 1000);
      const markets = new Set(own.map(({ market }) => market)).size;
      return `${what}: ${kind} of ${countOf(markets, 'market')}, for up to ${longest} ${why}.`;
    });
  });
}

/** What exists below the oldest row, and is not counted by any share. */
function historyLines(
  streams: readonly StatusStream[],
  streamsOfAll: readonly StatusStream[],
): Lines {
  const listed = streams.filter(isPartOfHistory);
  const others = streamsOfAll.filter(isPartOfHistory).length - listed.length;
  const lines = listed.map((stream) => {
    const name = `${printable(stream.market)} ${stream.kind}`;
    if (stream.startReason !== 'history horizon') {
      return `Not reached: the start of the history of ${name}; the share is that of the time down to where the walk is.`;
    }
    const start = instant(stream.collectFromMs);
    return `Cannot be had: history of ${name} before ${start}: ${HORIZON_WHY}. The share is that of the time since.`;
  });
  const more = countOf(others, listed.length === 0 ? 'stream' : 'more stream');
  return [
    lines,
    others > 0 &&
      `Not reached, or not to be had: the start of the history of ${more}; the share is that of the time since. "tapekeep status --kind trades,times" names them.`,
  ];
}

/**
 * Markets that the settings name and the exchange does not list: misspelt, not listed yet, or no more; and of those
 * that are shown the others that it lists no more.
 */
function absentLines(
  wanted: readonly string[],
  known: readonly KnownStream[],
  shown: ReadonlySet<string>,
): Lines {
  const away = new Set(known.flatMap(({ market, isListed }) => (isListed ? [] : [market])));
  const others = [...shown].filter((name) => away.has(name) && !wanted.includes(name));
  const lines = wanted.map((name) => {
    const stream = known.find(({ market }) => market === name);
    if (stream?.isListed === true) return undefined;
    const [more, when] =
      stream === undefined
        ? ['', 'did not list it so far']
        : ['more ', 'does not list it any more'];
    return `Nothing ${more}of ${printable(name)} is collected, though the setting "markets" names it: the exchange ${when}.`;
  });
  const them = others.length === 1 ? 'it' : 'them';
  return [
    lines,
    others.length > 0 &&
      `Nothing more of ${marketNames(others)} is collected: the exchange does not list ${them} any more.`,
  ];
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
        `${countOf(mismatches, 'slot')} of ${intervalS} s of ${printable(market)}`,
    );
  const left = bad.length - named.length;
  if (left > 0) named.push(countOf(left, 'more stream'));
  return `Mismatch: the stored trades do not match the candles of ${named.join(', ')}; "tapekeep verify" names them (docs/runbook.md says what to do).`;
}

const instant = (ms: number | null) =>
  ms === null ? '–' : new Date(ms).toISOString().slice(0, 19).replace('T', ' ');

const COLUMNS: readonly Column<StatusStream>[] = [
  { title: 'market', text: (line) => line.market },
  {
    title: 'stream',
    text: ({ kind, intervalS }) => streamName({ kind, variant: intervalS ?? 0 }),
  },
  figure('rows covered', (line) => whole(line.rows)),
  { title: 'covered until', text: ({ coveredUntilMs: ms }) => instant(ms) },
  figure('lag', ({ lagS }) => (lagS === null ? '–' : shownDuration(lagS * 1000))),
  figure('covered', (line) =>
    line.coverageRatio === null
      ? '–'
      : `${percent(line.coverageRatio, 2)}${isPartOfHistory(line) ? ' of part' : ''}`,
  ),
  figure('gaps', (line) => whole(line.gaps)),
  figure('missing', ({ missingS }) => shownDuration(missingS * 1000)),
  { title: 'verified until', text: ({ verifiedUntilMs: ms }) => instant(ms) },
];
