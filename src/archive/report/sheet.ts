import { intervalText, shownDuration } from '../../kernel/durations.js';
import { CONDITIONS } from '../../model/day-conditions.js';
import { streamName } from '../../model/series.js';
import type { Continuity, QualityReport } from './quality.js';

/** The report as a sheet of tables, which each form writes in its way. Cells are plain text. */

export interface SheetTable {
  readonly title: string;
  /** Sentence above the table. */
  readonly about: string;
  readonly columns: readonly { readonly title: string; readonly isFigure: boolean }[];
  readonly rows: readonly (readonly string[])[];
  /** Stands in place of a table without rows. */
  readonly nothing: string;
}

export interface Sheet {
  readonly title: string;
  readonly facts: readonly string[];
  readonly tables: readonly SheetTable[];
}

const text = (...titles: readonly string[]) => titles.map((title) => ({ title, isFigure: false }));
const figures = (...titles: readonly string[]) =>
  titles.map((title) => ({ title, isFigure: true }));

/** A number with a comma between thousands; a dash for one that is not known. */
const shown = (value: number | null, digits = 0) =>
  value === null
    ? '–'
    : value.toLocaleString('en-US', {
        maximumFractionDigits: digits,
        minimumFractionDigits: digits,
      });
const time = (iso: string) => iso.replace('T', ' ').replace(/(\.000)?Z$/, '');

const CONTINUITY = figures(
  ...['rows', 'gaps', 'gaps per million rows', 'missing time', 'not fetchable', 'missing s a year'],
  ...CONDITIONS.map((name) => `days ${name}`),
);

function continuityCells(one: Continuity): string[] {
  return [
    ...[shown(one.rows), shown(one.gaps), shown(one.gapsPerMillionRows, 2)],
    ...[shownDuration(one.missingS * 1000), shownDuration(one.unfillableS * 1000)],
    shown(one.missingSPerYear),
    ...CONDITIONS.map((name) => shown(one.days[name])),
  ];
}

/** Lays out a report as tables. */
export function sheetOf(report: QualityReport): Sheet {
  const { month, exchange, isSandbox, hasEnded, isAll } = report;
  return {
    title: `Data quality of ${exchange ?? 'an archive'}, ${month}`,
    facts: [
      `Time range: ${time(report.from)} to ${time(report.to)} UTC, exchange time.`,
      `Made ${time(report.madeAt)} UTC by tapekeep ${report.version}.`,
      ...(isSandbox ? ['The exchange is a sandbox: its data is made up.'] : []),
      ...(hasEnded ? [] : ['The month has not ended: the figures are of its time so far.']),
      ...(isAll
        ? []
        : ['There are more gaps than were read: counts of gaps and incidents are too low.']),
    ],
    tables: [
      {
        title: 'Continuity by kind',
        about:
          'Missing is expected time without proof that everything is stored. Days are counted by their condition.',
        columns: [...text('kind'), ...figures('streams'), ...CONTINUITY],
        rows: report.kinds.map((one) => [one.kind, shown(one.streams), ...continuityCells(one)]),
        nothing: 'Nothing was expected in this month.',
      },
      {
        title: 'Continuity by market',
        about: 'The same for each market and stream.',
        columns: [...text('market', 'stream'), ...CONTINUITY],
        rows: report.streams.map((one) => [one.market, streamName(one), ...continuityCells(one)]),
        nothing: 'Nothing was expected in this month.',
      },
      {
        title: 'Incidents',
        about: 'Gaps of one cause and one time, the newest first.',
        columns: [
          ...text('from', 'to', 'cause', 'state'),
          ...figures('length', 'markets', 'streams'),
        ],
        rows: report.incidents.map((one) => [
          ...[time(one.from), time(one.to), one.cause, one.state],
          ...[shownDuration(one.lengthMs), shown(one.markets), shown(one.streams)],
        ]),
        nothing: 'There were none.',
      },
      {
        title: 'Checks against candles',
        about: 'Candles of the exchange compared with the sums of stored trades.',
        columns: [...text('market', 'interval'), ...figures('match', 'mismatch')],
        rows: report.checks.map((one) => [
          ...[one.market, intervalText(one.intervalS)],
          ...[shown(one.verified), shown(one.mismatches)],
        ]),
        nothing: 'No candle was checked.',
      },
      {
        title: 'Provenance',
        about: 'Programs that collected in this time, by the clock of the database.',
        columns: text('from', 'to', 'host', 'version', 'configuration', 'changed'),
        rows: report.runs.map((one) => [
          ...[time(one.startedAt), one.endedAt === null ? 'running' : time(one.endedAt)],
          ...[one.host, one.version, one.configHash.slice(0, 12), one.changed.join(', ') || '–'],
        ]),
        nothing: 'No run is recorded.',
      },
    ],
  };
}

/** Characters that steer a display or are not seen; names of markets come from outside. */
const STEERING = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;
const visible = (cell: string) => cell.replace(STEERING, '\uFFFD');

const ENTITIES: Readonly<Record<string, string>> = {
  ...{ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' },
};
const html = (cell: string) => visible(cell).replace(/[&<>"']/g, (one) => ENTITIES[one] ?? one);

const STYLE = `
:root { color-scheme: light dark; --line: #d0d7de; --soft: #57606a; --ground: #ffffff; --ink: #1f2328; }
@media (prefers-color-scheme: dark) {
  :root { --line: #3d444d; --soft: #9198a1; --ground: #0d1117; --ink: #f0f6fc; }
}
body { background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 90rem; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
p, li { color: var(--soft); } .table { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: 0.3rem 0.8rem; text-align: left; white-space: nowrap; }
.figure { text-align: right; }
`;

/** Writes a sheet as a page of its own, without script. */
export function htmlOf({ title, facts, tables }: Sheet): string {
  const sections = tables.map(({ title: heading, about, columns, rows, nothing }) => {
    const classOf = (at: number) => (columns[at]?.isFigure ? ' class="figure"' : '');
    const head = columns.map((one, at) => `<th scope="col"${classOf(at)}>${html(one.title)}</th>`);
    const body = rows.map(
      (row) => `<tr>${row.map((cell, at) => `<td${classOf(at)}>${html(cell)}</td>`).join('')}</tr>`,
    );
    const table = `<div class="table" tabindex="0"><table>
<thead><tr>${head.join('')}</tr></thead>
<tbody>
${body.join('\n')}
</tbody></table></div>`;
    return `<section>
<h2>${html(heading)}</h2>
<p>${html(about)}</p>
${rows.length === 0 ? `<p>${html(nothing)}</p>` : table}
</section>`;
  });
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${html(title)}</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>${html(title)}</h1>
<ul>
${facts.map((fact) => `<li>${html(fact)}</li>`).join('\n')}
</ul>
${sections.join('\n')}
</main>
</body>
</html>
`;
}

const markdown = (cell: string) =>
  visible(cell)
    .replace(/[\\`*[\]|]/g, '\\$&')
    .replace(/[&<>]/g, (one) => ENTITIES[one] ?? one);

/** Writes a sheet as Markdown. */
export function markdownOf({ title, facts, tables }: Sheet): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  const sections = tables.map(({ title: heading, about, columns, rows, nothing }) => {
    const table = [
      line(columns.map((one) => markdown(one.title))),
      line(columns.map(({ isFigure }) => (isFigure ? '---:' : '---'))),
      ...rows.map((row) => line(row.map(markdown))),
    ];
    const content = rows.length === 0 ? markdown(nothing) : table.join('\n');
    return `## ${markdown(heading)}\n\n${markdown(about)}\n\n${content}\n`;
  });
  const list = facts.map((fact) => `- ${markdown(fact)}`).join('\n');
  return [`# ${markdown(title)}\n`, `${list}\n`, ...sections].join('\n');
}
