import { createHash } from 'node:crypto';
import { SECOND_MS, shownDuration } from '../kernel/durations.js';
import type { StatusDocument, StatusGap, StatusStream, StatusValue } from './document.js';
import type { HealthReport } from './health.js';

/** How often the page loads itself again, seconds. */
const REFRESH_S = 5;

const STYLE = `
:root { color-scheme: light dark; font: 15px/1.45 system-ui, sans-serif; }
body { margin: 2rem auto; max-width: 78rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .5rem; border-bottom: 1px solid #8885; text-align: right; vertical-align: bottom; overflow-wrap: anywhere; }
th { font-weight: 600; overflow-wrap: normal; }
th:first-child, td:first-child { text-align: left; }
.good { color: #187a3c; } .bad { color: #c62828; font-weight: 600; }
dl { display: grid; grid-template-columns: minmax(8rem, max-content) minmax(0, 1fr); gap: .2rem 1rem; }
dt { opacity: .7; } dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 52rem) {
  body { margin: 1rem auto; }
  dl { grid-template-columns: minmax(0, 1fr); gap: 0; } dd { margin: 0 0 .5rem; }
  thead { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden; }
  table, tbody { display: block; }
  tr { display: grid; grid-template-columns: repeat(auto-fill, minmax(12rem, 1fr)); gap: .1rem 1rem; padding: .5rem 0; border-bottom: 1px solid #8885; }
  td { display: flex; justify-content: space-between; gap: .5rem; border: 0; padding: 0; }
  td::before { content: attr(data-title); opacity: .7; text-align: left; }
  td:first-child { grid-column: 1 / -1; font-weight: 600; } td:first-child::before { content: none; }
}
@media (prefers-color-scheme: dark) { .good { color: #6fd08c; } .bad { color: #ff8a80; } }
`;

const STYLE_HASH = createHash('sha256').update(STYLE).digest('base64');

/** Allows this page's own style and nothing else: no script, no other origin, no frame. */
export const PAGE_POLICY = `default-src 'none'; style-src 'sha256-${STYLE_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;

const COLUMNS: ReadonlyArray<readonly [keyof StatusStream, string]> = [
  ['stream', 'stream'],
  ['received', 'received'],
  ['stored', 'stored'],
  ['duplicate', 'duplicate'],
  ['refused', 'refused'],
  ['lost', 'lost'],
  ['inFlight', 'in flight'],
  ['lagS', 'lag'],
  ['slowestLagS', 'slowest market'],
  ['openGaps', 'open gaps'],
  ['openGapS', 'gap length'],
];

const GAP_COLUMNS: ReadonlyArray<readonly [keyof StatusGap, string]> = [
  ['stream', 'stream'],
  ['reason', 'reason'],
  ['lengthS', 'length'],
  ['oldestAgeS', 'age of the oldest'],
];

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Text made safe for HTML, in content and in quoted attributes. */
function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => ENTITIES[character] ?? '');
}

/** Figures of seconds, whose names end so, are shown as durations. */
function show(value: StatusValue, name: string): string {
  if (value === null) return '–';
  if (typeof value === 'number' && name.endsWith('S')) return shownDuration(value * SECOND_MS);
  return escapeHtml(typeof value === 'number' ? value.toLocaleString('en-US') : String(value));
}

function reportHtml(title: string, report: HealthReport): string {
  const state = report.ok ? '<b class="good">yes</b>' : '<b class="bad">no</b>';
  const reasons = report.checks
    .filter((check) => !check.ok)
    .map(({ name, detail }) => (detail === undefined ? name : `${name}: ${detail}`));
  const list = reasons.length === 0 ? '' : ` (${escapeHtml(reasons.join('; '))})`;
  return `<dt>${title}</dt><dd>${state}${list}</dd>`;
}

function table<Row extends object>(
  columns: ReadonlyArray<readonly [keyof Row & string, string]>,
  rows: readonly Row[],
  value: (row: Row, key: keyof Row & string) => StatusValue,
): string {
  const head = columns.map(([, title]) => `<th scope="col">${title}</th>`).join('');
  const body = rows.map(
    (row) =>
      `<tr>${columns.map(([key, title]) => `<td data-title="${title}">${show(value(row, key), key)}</td>`).join('')}</tr>`,
  );
  return `<table><thead><tr>${head}</tr></thead><tbody>${body.join('\n')}</tbody></table>`;
}

function streamTable(streams: readonly StatusStream[]): string {
  if (streams.length === 0) return '<p>Nothing has been received yet.</p>';
  return table(COLUMNS, streams, (stream, key) => stream[key]);
}

function gapTable(gaps: readonly StatusGap[] | null): string {
  if (gaps === null) return '<p>Not counted yet.</p>';
  if (gaps.length === 0) return '<p>None.</p>';
  return `${table(GAP_COLUMNS, gaps, (gap, key) => gap[key])}
<p><code>tapekeep gaps</code> lists them one by one, <code>tapekeep gaps explain</code> tells more.</p>`;
}

/** Draws the status page. It needs no script: the browser loads it again by itself. */
export function renderPage(
  document: StatusDocument,
  health: HealthReport,
  ready: HealthReport,
): string {
  const facts = Object.entries(document.facts)
    .map(([name, value]) => `<dt>${escapeHtml(name)}</dt><dd>${show(value, name)}</dd>`)
    .join('\n');
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="${REFRESH_S}">
<title>tapekeep</title>
<style>${STYLE}</style>
</head>
<body>
<h1>tapekeep</h1>
<dl>
${reportHtml('alive', health)}
${reportHtml('ready', ready)}
${facts}
</dl>
<h2>Streams since the start</h2>
${streamTable(document.streams)}
<h2>Open gaps by reason</h2>
${gapTable(document.gaps)}
<p><a href="/metrics">metrics</a> · <a href="/status">status as JSON</a> · <a href="/readyz">readiness</a></p>
</body>
</html>
`;
}
