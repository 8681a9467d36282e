import { ExportGapsError, type SeriesGaps } from '../../archive/errors.js';
import type { MarketPart } from '../../archive/export/manifest.js';
import { MINUTE_MS, shownDuration } from '../../kernel/durations.js';
import { normalizeSpans, type Span, totalLengthMs } from '../../kernel/span.js';
import { tableOfKind } from '../../model/kinds.js';
import { SERIES } from '../../model/series.js';
import type { KnownStream, MissingPart } from '../../store/index.js';
import type { Need } from '../command.js';
import { commandEnding } from '../ending.js';
import { EXIT_CODES } from '../failure.js';
import { archive, type Left, type Look, stoppable } from '../opening/database.js';
import { formatInstant } from '../options.js';
import { type Column, formatTable, printable } from '../output.js';
import { CountProgress } from '../progress.js';

/**
 * The need of a command that exports. Gaps, and being stopped, have exit codes of their own.
 *
 * @param left notice about the files when it is stopped at once
 */
export function exporting(left: string): Need<Look & Left> {
  const need = stoppable(left, archive('by itself'));
  return async (common, use) => {
    try {
      return await need(common, use);
    } catch (error) {
      if (commandEnding.outputCode !== undefined || !(error instanceof ExportGapsError))
        throw error;
      process.stderr.write(`${gapLines(error).join('\n')}\n`);
      return EXIT_CODES.gaps;
    }
  };
}

/** Progress in minutes of the spans that are written, over all markets. */
export class SpanProgressBar {
  readonly #progress: CountProgress;
  readonly #doneMs = new Map<string, number>();
  readonly #rows = new Map<string, number>();
  #shown = 0;

  constructor(parts: readonly { readonly span: Span }[]) {
    const totalMs = parts.reduce((sum, { span }) => sum + totalLengthMs([span]), 0);
    const minutes = Math.ceil(totalMs / MINUTE_MS);
    this.#progress = new CountProgress('minutes of', minutes);
  }

  advance(market: string, rows: number, doneMs: number): void {
    this.#doneMs.set(market, Math.max(this.#doneMs.get(market) ?? 0, doneMs));
    const minutes = Math.floor([...this.#doneMs.values()].reduce((a, b) => a + b, 0) / MINUTE_MS);
    this.#rows.set(market, rows);
    const allRows = [...this.#rows.values()].reduce((a, b) => a + b, 0);
    const detail = `${printable(market)}: ${rows.toLocaleString('en-US')} rows`;
    this.#progress.advance(minutes - this.#shown, detail, [allRows, 'rows']);
    this.#shown = minutes;
  }

  say(phase: string): void {
    this.#progress.say(`${phase} …`);
  }

  end(): void {
    this.#progress.end();
  }
}

/** Gaps that are shown; a manifest with --allow-gaps lists more. */
const SHOWN = 20;

type Line = MissingPart & { readonly market: string };

const COLUMNS: readonly Column<Line>[] = [
  { title: 'market', text: ({ market }) => market },
  { title: 'from', text: ({ span }) => formatInstant(Math.floor(span.fromMs)) },
  { title: 'to', text: ({ span }) => formatInstant(Math.floor(span.toMs)) },
  { title: 'length', align: 'right', text: ({ span }) => shownDuration(span.toMs - span.fromMs) },
  { title: 'state', text: ({ state }) => state },
  { title: 'reason', text: ({ reason }) => reason },
];

/** Why an export was refused, and what can be done about it. */
export function gapLines(error: ExportGapsError): string[] {
  const lines = error.gaps.flatMap(({ market, missing }) =>
    missing.map((one): Line => ({ ...one, market })),
  );
  const count = error.gaps.reduce((sum, { missingCount }) => sum + missingCount, 0);
  const shown = formatTable(COLUMNS, lines.slice(0, SHOWN)).map((line) => `  ${line}`);
  const rest = count - Math.min(count, SHOWN);
  return [
    `tapekeep: ${printable(error.message)}`,
    ...shown,
    ...(rest === 0 ? [] : [`  … and ${rest.toLocaleString('en-US')} more`]),
    'What can be done:',
    ...advice(error.gaps),
  ];
}

function advice(gaps: readonly SeriesGaps[]): string[] {
  const [first] = gaps;
  const market = first === undefined ? '' : ` --market ${printable(first.market)}`;
  return [
    ...wholeSpan(gaps),
    `  "tapekeep gaps${market}" lists what is missing and why`,
    ...(gaps.some(({ kind }) => SERIES[tableOfKind(kind)].isFetchable)
      ? [
          '  "tapekeep gaps fill" has it fetched; "tapekeep backfill" does so of a time before collecting began',
        ]
      : []),
    '  --allow-gaps writes what there is, and lists the gaps in the manifest',
  ];
}

/** Where coverage begins and ends, if it is only the ends of the span that are missing somewhere. */
function wholeSpan(gaps: readonly SeriesGaps[]): string[] {
  const missing = gaps.map((one) => ({
    span: one.span,
    // Pieces that lie beside each other, each with a reason of its own, are one hole.
    holes: normalizeSpans(one.missing.map((piece) => piece.span)),
  }));
  const starts = missing.flatMap(({ span, holes: [first] }) =>
    first?.fromMs === span.fromMs ? [first.toMs] : [],
  );
  const ends = missing.flatMap(({ span, holes }) => {
    const last = holes.at(-1);
    return last?.toMs === span.toMs ? [last.fromMs] : [];
  });
  const [fromMs, toMs] = [Math.max(...starts), Math.min(...ends)];
  // A market of which nothing is covered leaves no such span.
  if (fromMs >= toMs || gaps.some(({ span }) => fromMs >= span.toMs || toMs <= span.fromMs))
    return [];
  const iso = (ms: number) => new Date(ms).toISOString();
  return [
    ...(starts.length + ends.length === 0 ? [] : ['  --clamp begins and ends where coverage does']),
    ...(starts.length === 0
      ? []
      : [`  --from ${iso(Math.ceil(fromMs))} begins where coverage does`]),
    ...(ends.length === 0 ? [] : [`  --to ${iso(Math.floor(toMs))} ends where coverage does`]),
  ];
}

/** What a file without a row was asked for. */
interface EmptyPart extends Pick<MarketPart, 'coverage'> {
  /** What was read, in the plural. */
  readonly what: string;
  readonly market: string;
  readonly from: string;
  readonly to: string;
  /** The stream that covers it. */
  readonly streamId: number | undefined;
}

/** Why nothing was written of a market: there was nothing, or it was not collected. */
export function emptyReason(
  { what, market, from, to, coverage, streamId }: EmptyPart,
  streams: readonly KnownStream[],
  nowMs: number,
): string {
  const name = printable(market);
  const at = (instant: string | number) => formatInstant(Math.floor(new Date(instant).getTime()));
  const span = `${at(from)} to ${at(to)}`;
  const [first] = coverage.list;
  const isWhole = coverage.count === 1 && first?.from === from && first.to === to;
  if (isWhole && new Date(to).getTime() > nowMs) {
    return `none so far: ${what} of ${name} from ${span} are covered, but that time has not come, at the exchange it is ${at(nowMs)}: a clock has lied, "tapekeep verify" names what is suspect`;
  }
  if (isWhole) return `none, because there were none: ${what} of ${name} are covered from ${span}`;
  if (coverage.count > 0) {
    return `none in what is covered of ${what} of ${name} from ${span}; "tapekeep gaps --market ${name}" lists what is missing`;
  }
  const stream = streams.find((one) => one.streamId === streamId);
  const [oldestMs, newestMs] = [stream?.oldestCoveredMs, stream?.newestCoveredMs];
  const known =
    typeof oldestMs === 'number' && typeof newestMs === 'number'
      ? `the archive covers them from ${at(oldestMs)} to ${at(newestMs)}`
      : 'the archive covers none of them at all';
  return `none, because nothing is stored of ${what} of ${name} from ${span}; ${known} ("tapekeep status" shows what it holds)`;
}
