import type { VNode } from 'preact';
import { useMemo } from 'preact/hooks';
import type { Answer } from '../api/endpoints.js';
import { Chart } from './charts.js';
import { short } from './format.js';
import { html } from './html.js';
import { figures, table, texts } from './widgets.js';

/** Result of a query: its rows as they came, and a chart where there is something to draw. */

type Result = Answer<'query'>;
type Row = Result['rows'][number];

const TIME = /^(timestamp|date|timestamptz)/i;
const NUMBER = /^(int|bigint|smallint|numeric|decimal|double|real|float|hugeint)/i;
const MOST_SERIES = 5;

function cellText(value: unknown): string {
  if (value === null || value === undefined) return '';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

export function resultTable({ columns, rows }: Result): VNode {
  return table<Row>({
    caption: 'Result',
    rows,
    isCards: false,
    columns: columns.map(({ name, type }, at) => {
      const make = NUMBER.test(type) ? figures<Row> : texts<Row>;
      return make(name, (row) =>
        row[at] === null ? html`<span class="muted">null</span>` : cellText(row[at]),
      );
    }),
  });
}

/** Columns that a chart can have: one to go along, others against it. */
function drawn({ columns, rows }: Result) {
  const times = columns.findIndex(({ type }) => TIME.test(type));
  const numbers = columns.flatMap(({ type }, at) => (NUMBER.test(type) ? [at] : []));
  const along = times >= 0 ? times : (numbers.shift() ?? -1);
  const against = numbers.filter((at) => at !== along).slice(0, MOST_SERIES);
  if (along < 0 || against.length === 0 || rows.length < 3) return undefined;
  const isTime = times >= 0;
  const place = (row: Row) =>
    isTime ? Date.parse(utcText(cellText(row[along]))) : Number(row[along]);
  const points = rows.map((row) => ({ x: place(row), row })).filter(({ x }) => Number.isFinite(x));
  if ((points[0]?.x ?? 0) > (points.at(-1)?.x ?? 0)) points.reverse();
  const x = points.map((one) => one.x);
  // Rows in another order, or several of one time, are no line.
  if (x.some((one, at) => at > 0 && one <= (x[at - 1] ?? 0))) return undefined;
  const series = against.map((at, index) => ({
    name: columns[at]?.name ?? '',
    color: `c${index + 1}`,
    values: points.map(({ row }) => (row[at] === null ? null : Number(row[at]))),
  }));
  return { x, series, isTime };
}

/** Times of Postgres without a zone are UTC here. */
function utcText(text: string): string {
  const iso = text.replace(' ', 'T').replace(/\+00$/, 'Z');
  return /(Z|[+-]\d\d(:?\d\d)?)$/.test(iso) || iso.length <= 10 ? iso : `${iso}Z`;
}

export function ResultChart({ result }: { result: Result }): VNode | null {
  const found = useMemo(() => drawn(result), [result]);
  if (found === undefined) return null;
  return html`<details class="result-chart" open>
    <summary>Chart</summary>
    <${Chart} key=${result} title="Columns of figures" x=${found.x} series=${found.series} isTime=${found.isTime} text=${short} height=${220} />
  </details>`;
}
