import type { ExportGapsError } from '../../archive/export/errors.js';
import type { SeriesGaps } from '../../archive/export/manifest.js';
import { tableOfKind } from '../../model/kinds.js';
import { SERIES } from '../../model/series.js';
import type { MissingPart } from '../../store/index.js';
import { roughDuration } from '../daemon/summary.js';
import { formatMoment } from '../options/moments.js';
import { printable } from '../output/printable.js';
import { type Column, formatTable } from '../output/table.js';

/** Gaps that are shown; a manifest with --allow-gaps lists more. */
const SHOWN = 20;

type Line = MissingPart & { readonly market: string };

const COLUMNS: readonly Column<Line>[] = [
  { title: 'market', text: ({ market }) => market },
  { title: 'from', text: ({ span }) => formatMoment(Math.floor(span.fromMs)) },
  { title: 'to', text: ({ span }) => formatMoment(Math.floor(span.toMs)) },
  { title: 'length', align: 'right', text: ({ span }) => roughDuration(span.toMs - span.fromMs) },
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
    `  "tapekeep gaps${market}" tells what is missing and why`,
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
  const begins = gaps.flatMap(({ span, missing: [first] }) =>
    first?.span.fromMs === span.fromMs ? [first.span.toMs] : [],
  );
  const ends = gaps.flatMap(({ span, missing }) => {
    const last = missing.at(-1);
    return last?.span.toMs === span.toMs ? [last.span.fromMs] : [];
  });
  const [fromMs, toMs] = [Math.max(...begins), Math.min(...ends)];
  // A market of which nothing is covered leaves no such span.
  if (fromMs >= toMs || gaps.some(({ span }) => fromMs >= span.toMs || toMs <= span.fromMs))
    return [];
  const iso = (ms: number) => new Date(ms).toISOString();
  return [
    ...(begins.length === 0
      ? []
      : [`  --from ${iso(Math.ceil(fromMs))} begins where coverage does`]),
    ...(ends.length === 0 ? [] : [`  --to ${iso(Math.floor(toMs))} ends where coverage does`]),
  ];
}
