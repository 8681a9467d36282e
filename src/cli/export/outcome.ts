import { ExportGapsError, type SeriesGaps } from '../../archive/errors.js';
import { isStoredOnChange, type MarketPart } from '../../archive/export/manifest.js';
import { MINUTE_MS, shownDuration } from '../../kernel/durations.js';
import { normalizeSpans, type Span, totalLengthMs } from '../../kernel/span.js';
import { formatInstant, isoMs, isoSpan } from '../../kernel/timestamp.js';
import type { GapReason } from '../../model/gap-reasons.js';
import { type SeriesKind, tableOfKind } from '../../model/kinds.js';
import { SERIES } from '../../model/series.js';
import type { KnownStream, MissingPart } from '../../store/index.js';
import type { Need } from '../command.js';
import { commandEnding } from '../ending.js';
import { EXIT_CODES } from '../failure.js';
import { type Left, type Look, stoppable } from '../opening/database.js';
import {
  type Column,
  countOf,
  figure,
  formatTable,
  type Lines,
  printable,
  textOf,
  whole,
} from '../output.js';
import { Progress } from '../progress.js';
import { openCandle, openCandleText } from '../selection.js';

/**
 * The need of a command that exports. Gaps, and being stopped, have exit codes of their own.
 *
 * @param left notice about the files when it is stopped at once
 */
export function exporting(left: string): Need<Look & Left> {
  const need = stoppable(left);
  return async (common, use) =>
    await need(common, async (look) => {
      try {
        return await use(look);
      } catch (error) {
        if (commandEnding.outputCode !== undefined || !(error instanceof ExportGapsError))
          throw error;
        const lines = gapLines(error, await look.store.inspection.streams(), look.nowMs);
        process.stderr.write(textOf(lines));
        return EXIT_CODES.gaps;
      }
    });
}

/** Progress in minutes of the spans that are written, over all markets. */
export class SpanProgressBar extends Progress {
  readonly #done = new Map<string, { readonly ms: number; readonly rows: number }>();

  constructor(parts: readonly { readonly span: Span }[]) {
    const totalMs = parts.reduce((sum, { span }) => sum + totalLengthMs([span]), 0);
    super('minutes of', Math.ceil(totalMs / MINUTE_MS));
  }

  /** How far one of them has come. */
  of(market: string, rows: number, doneMs: number): void {
    this.#done.set(market, { ms: Math.max(this.#done.get(market)?.ms ?? 0, doneMs), rows });
    const sum = (name: 'ms' | 'rows') =>
      [...this.#done.values()].reduce((all, one) => all + one[name], 0);
    const detail = `${printable(market)}: ${countOf(rows, 'row')}`;
    this.at(Math.floor(sum('ms') / MINUTE_MS), detail, [sum('rows'), 'rows']);
  }
}

/** Gaps that are shown; a manifest with --allow-gaps lists more. */
const SHOWN = 20;

type Line = Pick<MissingPart, 'span'> & Record<'market' | 'state' | 'reason', string>;

const COLUMNS: readonly Column<Line>[] = [
  { title: 'market', text: ({ market }) => market },
  { title: 'from', text: ({ span }) => formatInstant(Math.floor(span.fromMs)) },
  { title: 'to', text: ({ span }) => formatInstant(Math.floor(span.toMs)) },
  figure('length', ({ span }) => shownDuration(span.toMs - span.fromMs)),
  { title: 'state', text: ({ state }) => state },
  { title: 'reason', text: ({ reason }) => reason },
];

const NOT_COLLECTED: GapReason = 'not collected';

/** Where a stream begins: what is older was never expected. */
function startOf(stream: KnownStream | undefined): number {
  return stream?.collectFromMs ?? stream?.oldestCoveredMs ?? Number.NEGATIVE_INFINITY;
}

/** Whether a missing part was not even expected, because the stream begins later. */
function isBeforeStart(
  { state, reason, span }: MissingPart,
  stream: KnownStream | undefined,
): boolean {
  if (state !== 'open') return state === 'before history' || state === 'before collecting';
  // The walk of trades has not found the start, and goes on down.
  const isUnknown = stream?.collectFromMs === null && reason === NOT_COLLECTED;
  return isUnknown && span.toMs <= startOf(stream);
}

const NOT_LISTED = 'the exchange does not list the market any more';

/** Whether a missing part is newer than all that is collected, and was never asked for. */
function isAfterEnd(
  { state, reason, span }: MissingPart,
  stream: KnownStream | undefined,
): boolean {
  const newestMs = stream?.newestCoveredMs ?? Number.POSITIVE_INFINITY;
  return state === 'not listed' || (reason === NOT_COLLECTED && span.fromMs >= newestMs);
}

/** Why an export was refused, and what can be done about it. */
function gapLines(error: ExportGapsError, streams: readonly KnownStream[], nowMs: number): Lines {
  const lines = error.gaps.flatMap(({ market, missing }) =>
    missing.map((one): Line => ({ ...one, market })),
  );
  const count = error.gaps.reduce((sum, { missingCount }) => sum + missingCount, 0);
  const shown = formatTable(COLUMNS, lines.slice(0, SHOWN)).map((line) => `  ${line}`);
  const rest = count - Math.min(count, SHOWN);
  return [
    `tapekeep: ${printable(error.message)}`,
    shown,
    rest > 0 && `  … and ${whole(rest)} more`,
    'What can be done:',
    wholeSpans(error.gaps),
    [...new Set(error.gaps.flatMap((one) => remedies(one, streams, nowMs)))],
    '  --allow-gaps writes what there is, and lists the gaps in the manifest',
  ];
}

/** What can be done about what one stream lacks; nothing is advised that would not help. */
function remedies(gaps: SeriesGaps, streams: readonly KnownStream[], nowMs: number) {
  const { kind, market, missing, stream } = gaps;
  const known = streams.find(({ streamId }) => streamId === stream.streamId);
  const name = printable(market);
  const { isFetchable } = SERIES[tableOfKind(kind)];
  const givenUpMs = known?.givenUpUntilMs ?? null;
  const untouched = missing.filter(({ reason }) => reason === NOT_COLLECTED);
  const isGivenUp = missing.some(({ state }) => state === 'given up');
  const before = missing.find((one) => isBeforeStart(one, known));
  const candle = known && openCandle(known, nowMs);
  const open = candle && untouched.find(({ span }) => span.toMs > candle.fromMs);
  const isOnlyOpen = candle && open && open.span.fromMs >= candle.fromMs;
  const after = isOnlyOpen ? undefined : missing.find((one) => isAfterEnd(one, known));
  const listed = missing.filter(
    (one) =>
      one !== before &&
      !isAfterEnd(one, known) &&
      !(isOnlyOpen && one === open) &&
      one.state !== 'given up',
  );
  const canBeFetched = isFetchable && listed.some(({ state }) => state !== 'unfillable');
  return [
    listed.length > 0 && `  "tapekeep gaps --market ${name}" lists what is missing and why`,
    canBeFetched && `  "tapekeep gaps fill --market ${name}" has it fetched`,
    isGivenUp &&
      givenUpMs !== null &&
      `  ${kind} from before ${formatInstant(givenUpMs)} were given up by retention, and are not collected again`,
    candle && open && `  ${openCandleText(candle)}`,
    before && beforeStart(gaps, known, before.span),
    after &&
      `  ${collectedUntil(kind, name, known)}; ${known?.isListed === false ? NOT_LISTED : 'a daemon goes on from there'}`,
  ];
}

function collectedUntil(kind: SeriesKind, name: string, stream: KnownStream | undefined): string {
  const newestMs = stream?.newestCoveredMs ?? null;
  return newestMs === null
    ? `none of the ${kind} of ${name} were collected`
    : `${kind} of ${name} are collected up to ${formatInstant(newestMs)}`;
}

/** What came before a stream was collected is no gap, and no command lists it as one. */
function beforeStart(
  { kind, market }: SeriesGaps,
  stream: KnownStream | undefined,
  { fromMs, toMs }: Span,
): string {
  const name = printable(market);
  const begins = `  ${kind} of ${name} begin at ${formatInstant(Math.ceil(startOf(stream)))}`;
  if (!SERIES[tableOfKind(kind)].isFetchable) return `${begins}; what was before was not seen`;
  if (kind === 'trades' && stream?.collectFromMs === null) {
    return `${begins}; a daemon goes on down from there`;
  }
  if (stream?.startReason !== null) return `${begins}; the exchange serves nothing older`;
  const [from, to] = [Math.floor(fromMs), Math.ceil(toMs)].map(isoMs);
  return `  "tapekeep backfill --market ${name} --kinds ${kind} --from ${from} --to ${to}" asks for what was before`;
}

/** Spans within the refused one that are whole: as options, to be copied. */
function wholeSpans(gaps: readonly SeriesGaps[]): Lines {
  // What is not listed might lie in any of them.
  if (gaps.some(({ missing, missingCount }) => missing.length < missingCount)) return undefined;
  const fromMs = Math.max(...gaps.map(({ span }) => span.fromMs));
  const toMs = Math.min(...gaps.map(({ span }) => span.toMs));
  // Pieces that lie beside each other, each with a reason of its own, are one hole.
  const holes = normalizeSpans(gaps.flatMap(({ missing }) => missing.map(({ span }) => span)));
  const edges = [{ fromMs, toMs: fromMs }, ...holes, { fromMs: toMs, toMs }];
  const whole = edges.flatMap((hole, at): Span[] => {
    const nextMs = Math.min(edges[at + 1]?.fromMs ?? toMs, toMs);
    const one = { fromMs: Math.ceil(Math.max(hole.toMs, fromMs)), toMs: Math.floor(nextMs) };
    return one.fromMs < one.toMs ? [one] : [];
  });
  const last = whole.at(-1);
  if (last === undefined) return undefined;
  const advice = (span: Span, what: string) => {
    const { from, to } = isoSpan(span);
    return `  --from ${from} --to ${to} is ${what}, ${shownDuration(span.toMs - span.fromMs)}`;
  };
  if (whole.length === 1) {
    return ['  --clamp begins and ends where coverage does', advice(last, 'what is covered of it')];
  }
  const longest = whole.reduce((a, b) => (b.toMs - b.fromMs >= a.toMs - a.fromMs ? b : a));
  return [
    advice(last, 'the last span of it without a gap'),
    longest !== last && advice(longest, 'the longest one'),
  ];
}

/** What a file without a row was asked for. */
interface EmptyPart extends Pick<MarketPart, 'coverage'> {
  readonly kind: SeriesKind;
  readonly market: string;
  readonly from: string;
  readonly to: string;
  /** The stream that covers it. */
  readonly streamId: number | undefined;
}

/** Why nothing was written of a market: there was nothing, nothing changed, or it was not collected. */
export function emptyReason(
  { kind, market, from, to, coverage, streamId }: EmptyPart,
  streams: readonly KnownStream[],
  nowMs: number,
): string {
  const name = printable(market);
  const at = (instant: string | number) => formatInstant(Math.floor(new Date(instant).getTime()));
  const span = `from ${at(from)} to ${at(to)}`;
  const [first] = coverage.list;
  const isWhole = coverage.count === 1 && first?.from === from && first.to === to;
  if (isWhole && new Date(to).getTime() > nowMs) {
    return `${name}: no ${kind} so far ${span}; they are covered, but that time has not come, at the exchange it is ${at(nowMs)}: a clock has lied, "tapekeep verify" names what is suspect`;
  }
  if (isWhole) {
    const why = isStoredOnChange(kind)
      ? 'because nothing changed: what was stored last before still held (begin the span earlier)'
      : 'because there were none';
    return `${name}: no ${kind} ${span}, ${why}; all of it is covered`;
  }
  if (coverage.count > 0) {
    return `${name}: no ${kind} in what is covered ${span}; "tapekeep gaps --market ${name}" lists what is missing`;
  }
  const stream = streams.find((one) => one.streamId === streamId);
  const [oldestMs, newestMs] = [stream?.oldestCoveredMs, stream?.newestCoveredMs];
  const nothing = `${name}: no ${kind} ${span}, because none are stored`;
  const shown = '("tapekeep status" shows what it holds)';
  if (typeof oldestMs !== 'number' || typeof newestMs !== 'number') {
    return `${nothing}; the archive covers none of them at all ${shown}`;
  }
  if (oldestMs <= new Date(from).getTime() && new Date(to).getTime() <= newestMs) {
    return `${nothing}: all of it is missing, "tapekeep gaps --market ${name}" says why`;
  }
  return `${nothing}; the archive covers them from ${at(oldestMs)} to ${at(newestMs)} ${shown}`;
}
