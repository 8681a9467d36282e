import { ExportGapsError, type SeriesGaps } from '../../archive/errors.js';
import { isStoredOnChange, type MarketPart } from '../../archive/export/manifest.js';
import { MINUTE_MS, shownDuration } from '../../kernel/durations.js';
import { normalizeSpans, type Span, totalLengthMs } from '../../kernel/span.js';
import { formatInstant, isoSpan } from '../../kernel/timestamp.js';
import { adviceOn, type KnownStream, type Piece, whyOf } from '../../model/explain.js';
import type { SeriesKind } from '../../model/kinds.js';
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

type Line = Piece & { readonly market: string };

const COLUMNS: readonly Column<Line>[] = [
  { title: 'market', text: ({ market }) => market },
  { title: 'from', text: ({ span }) => formatInstant(Math.floor(span.fromMs)) },
  { title: 'to', text: ({ span }) => formatInstant(Math.floor(span.toMs)) },
  figure('length', ({ span }) => shownDuration(span.toMs - span.fromMs)),
  { title: 'state', text: ({ state }) => state },
  { title: 'reason', text: ({ reason }) => reason, rank: 1 },
];

/** Says why an export was refused, and what can be done about it. */
function gapLines(error: ExportGapsError, streams: readonly KnownStream[], nowMs: number): Lines {
  const lines = error.gaps.flatMap(({ market, missing }) =>
    missing.map((one): Line => ({ ...one, market })),
  );
  const rest = lines.length - Math.min(lines.length, SHOWN);
  const advice = error.gaps.flatMap(({ stream, missing }) => {
    const known = streams.find(({ streamId }) => streamId === stream.streamId);
    if (known === undefined) return [];
    return missing.flatMap((one) => {
      const what = adviceOn(known, one, { nowMs });
      const isSaid = one.state === 'open' || one.state === 'filling';
      return [...(isSaid ? [] : [whyOf(known, one, nowMs)]), ...(what === null ? [] : [what])];
    });
  });
  const shown = [...new Set(advice)].slice(0, SHOWN).map((line) => `  ${printable(line)}`);
  return [
    `tapekeep: ${printable(error.message)}`,
    formatTable(COLUMNS, lines.slice(0, SHOWN)).map((line) => `  ${line}`),
    rest > 0 && `  … and ${whole(rest)} more; "tapekeep gaps" lists them`,
    'What can be done:',
    wholeSpans(error.gaps),
    shown,
    '  --allow-gaps writes what there is, and lists the gaps in the manifest',
  ];
}

/** Spans within the refused one that are whole: as options, to be copied. */
function wholeSpans(gaps: readonly SeriesGaps[]): Lines {
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
    return ['  --clamp starts and ends where coverage does', advice(last, 'what is covered of it')];
  }
  const longest = whole.reduce((a, b) => (b.toMs - b.fromMs >= a.toMs - a.fromMs ? b : a));
  return [
    advice(last, 'the last time range of it without a gap'),
    longest !== last && advice(longest, 'the longest one'),
  ];
}

/** Says why nothing was written of a market: nothing happened, nothing changed, or it is missing. */
export function emptyReason(
  kind: SeriesKind,
  { market, from, to, gaps }: Pick<MarketPart, 'market' | 'from' | 'to' | 'gaps'>,
  nowMs: number,
): string {
  const name = printable(market);
  const [fromText, toText] = [from, to].map((at) => formatInstant(new Date(at).getTime()));
  const nothing = `${name}: no ${kind} from ${fromText} to ${toText}`;
  if (gaps.count > 0) return `${nothing}; "tapekeep gaps explain ${name} ${kind} ${from}" says why`;
  if (new Date(to).getTime() > nowMs) {
    return `${nothing}: this time has not come yet at the exchange; "tapekeep verify" lists what is covered of it`;
  }
  return isStoredOnChange(kind)
    ? `${nothing}: nothing changed, the row before still held (start earlier to have it)`
    : `${nothing}: all of it is covered, and there were none`;
}
