import type { CheckTotals, StreamStatus } from '../../store/index.js';
import { command } from '../command.js';
import { HORIZON_WHY, type OpenGaps, openGapsOf } from '../gaps.js';
import { archive } from '../opening/database.js';
import { JSON_DOCUMENT, streamName } from '../options.js';
import { type Column, formatTable, printable, roughDuration } from '../output.js';
import { percent } from '../progress.js';

/** One line of the status, with the ratio that people look for first. */
interface StatusLine extends StreamStatus {
  /** Seconds from the newest covered time to the exchange's now. */
  readonly lagS: number | null;
  /**
   * Covered part of what is expected up to the newest covered time, 0 to 1; what the exchange never
   * had to give is left out.
   */
  readonly coverage: number | null;
  /** Of candles: end of the newest that was held against the trades. */
  readonly verifiedUntilMs: number | null;
  readonly mismatches: number;
}

export default command({
  options: { json: JSON_DOCUMENT },
  needs: archive(),
  async run({ session, store, nowMs }, { json }) {
    const [identity, streams, totals, checks] = await Promise.all([
      store.archive(),
      store.statusRows(nowMs),
      store.gapTotals(nowMs),
      store.checks.totals(),
    ]);
    const openGaps = openGapsOf(totals, streams, nowMs);
    const lines = streams.map((stream) => toLine(stream, checks, nowMs));
    if (json === true) {
      const document = {
        archive: identity,
        at: new Date(nowMs),
        streams: lines,
        openGaps,
        verdicts: checks,
      };
      process.stdout.write(`${JSON.stringify(document)}\n`);
      return;
    }
    const title =
      identity === null
        ? 'The archive is empty: nothing was collected yet.'
        : `Archive of ${identity.name}${identity.isSandbox ? ' (sandbox)' : ''}`;
    const table = formatTable(COLUMNS, lines);
    const foot = [
      ...gapLines(openGaps, nowMs),
      ...beforeHistoryLines(streams),
      ...historyLines(streams),
      ...mismatchLines(checks),
      ...(identity === null ? [] : absentLines(session.config.markets, streams)),
    ];
    process.stdout.write(`${[title, ...table, ...foot].join('\n')}\n`);
  },
});

function gapLines(gaps: readonly OpenGaps[], nowMs: number): string[] {
  return gaps.map(({ stream, reason, lengthMs, oldestMs }) => {
    const age = roughDuration(nowMs - oldestMs);
    return `Open: ${roughDuration(lengthMs)} of ${stream}, ${reason}; the oldest of it is ${age} old.`;
  });
}

/** What was asked for and never existed: listed, but no shortfall of the archive. */
function beforeHistoryLines(streams: readonly StreamStatus[]): string[] {
  const sums = new Map<string, number>();
  for (const { kind, market, beforeHistoryS } of streams) {
    const key = `${market} ${kind}`;
    if (beforeHistoryS > 0) sums.set(key, (sums.get(key) ?? 0) + beforeHistoryS);
  }
  return [...sums].map(
    ([stream, seconds]) =>
      `Never to be had: ${roughDuration(seconds * 1000)} of ${stream}, asked for, from before the exchange's history begins; it does not lower the share.`,
  );
}

/** Streams of which "all" is less than the exchange has. */
function isPartOfHistory({ kind, collectFromMs, startReason }: StreamStatus): boolean {
  if (kind !== 'trades' && kind !== 'times') return false;
  return collectFromMs === null || startReason === 'history horizon';
}

/** What exists below the oldest row, and is not counted by any share. */
function historyLines(streams: readonly StreamStatus[]): string[] {
  return streams.filter(isPartOfHistory).map((stream) => {
    const name = `${printable(stream.market)} ${stream.kind}`;
    if (stream.startReason !== 'history horizon') {
      return `Not reached: the start of the history of ${name}; the share is that of the time down to where the walk is.`;
    }
    const start = instant(stream.collectFromMs);
    return `Cannot be had: history of ${name} before ${start}, which exists: ${HORIZON_WHY}. The share is that of the time since.`;
  });
}

/** Markets that the settings name and nothing was ever collected of: misspelt, or not listed yet. */
function absentLines(wanted: readonly string[], streams: readonly StreamStatus[]): string[] {
  const known = new Set(streams.map(({ market }) => market));
  return wanted
    .filter((name) => !known.has(name))
    .map(
      (name) =>
        `Nothing of ${printable(name)} is collected, though the setting "markets" names it: the exchange did not list it so far.`,
    );
}

function mismatchLines(checks: readonly CheckTotals[]): string[] {
  const bad = checks.filter(({ mismatches }) => mismatches > 0);
  return bad.map(
    ({ market, intervalS, mismatches }) =>
      `${market}: the stored trades do not add up to ${whole(mismatches)} of its candles of ${intervalS} s; "tapekeep verify --market ${market}" names them.`,
  );
}

function toLine(stream: StreamStatus, checks: readonly CheckTotals[], nowMs: number): StatusLine {
  const { newestCoveredMs, coveredS, gapS, beforeHistoryS } = stream;
  const expectedS = coveredS + gapS - beforeHistoryS;
  const check =
    stream.kind === 'kline'
      ? checks.find(
          ({ marketId, intervalS }) => marketId === stream.marketId && intervalS === stream.variant,
        )
      : undefined;
  return {
    ...stream,
    verifiedUntilMs: check?.judgedUntilMs ?? null,
    mismatches: check?.mismatches ?? 0,
    lagS: newestCoveredMs === null ? null : Math.max(0, nowMs - newestCoveredMs) / 1000,
    coverage: expectedS === 0 ? null : coveredS / expectedS,
  };
}

const right = 'right' as const;
const whole = (value: number) => value.toLocaleString('en-US');
const instant = (ms: number | null) =>
  ms === null ? '–' : new Date(ms).toISOString().slice(0, 19).replace('T', ' ');

const COLUMNS: readonly Column<StatusLine>[] = [
  { title: 'market', text: (line) => line.market },
  { title: 'stream', text: streamName },
  { title: 'rows covered', align: right, text: (line) => whole(line.rows) },
  {
    title: 'covered until',
    text: ({ newestCoveredMs: ms }) => instant(ms),
  },
  {
    title: 'lag',
    align: right,
    text: ({ lagS }) => (lagS === null ? '–' : roughDuration(lagS * 1000)),
  },
  {
    title: 'covered',
    align: right,
    text: (line) =>
      line.coverage === null
        ? '–'
        : `${percent(line.coverage, 2)}${isPartOfHistory(line) ? ' of part' : ''}`,
  },
  { title: 'gaps', align: right, text: (line) => whole(line.gapsWithinHistory) },
  {
    title: 'missing',
    align: right,
    text: ({ gapS, beforeHistoryS }) =>
      gapS === beforeHistoryS ? '–' : roughDuration((gapS - beforeHistoryS) * 1000),
  },
  { title: 'verified until', text: ({ verifiedUntilMs: ms }) => instant(ms) },
];
