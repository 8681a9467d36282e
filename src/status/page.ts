import { createHash } from 'node:crypto';
import { SECOND_MS, shownDuration } from '../kernel/durations.js';
import { formatInstant } from '../kernel/timestamp.js';
import { isPartOfHistory } from '../model/explain.js';
import { streamName } from '../model/series.js';
import {
  type ArchiveStatus,
  type DaemonStatus,
  exchangeText,
  expiredText,
  firstHistoryText,
  type StatusDocument,
  type StatusRows,
  type StatusStream,
} from './document.js';
import type { HealthReport } from './health.js';

/** The document of a daemon, which is the one that is served. */
export type ServedDocument = StatusDocument & { readonly daemon: DaemonStatus };
type Shown = string | number | null;

/** Streams that the page lists. */
export const PAGE_STREAMS = 20;
/** How often the page loads itself again, seconds. */
const REFRESH_S = 5;

const STYLE = `
:root { color-scheme: light dark; font: 15px/1.45 system-ui, sans-serif; }
body { margin: 2rem auto; max-width: 78rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .5rem; border-bottom: 1px solid #8885; text-align: right; vertical-align: bottom; overflow-wrap: anywhere; }
th { font-weight: 600; overflow-wrap: normal; }
.text { text-align: left; }
.good { color: #187a3c; } .busy { color: #8a5a00; } .bad { color: #c62828; font-weight: 600; }
dl { display: grid; grid-template-columns: minmax(8rem, max-content) minmax(0, 1fr); gap: .2rem 1rem; }
dt { opacity: .7; } dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 52rem) {
  body { margin: 1rem auto; }
  dl { grid-template-columns: minmax(0, 1fr); gap: 0; } dd { margin: 0 0 .5rem; }
  thead { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden; }
  table, tbody { display: block; }
  tr { display: grid; grid-template-columns: repeat(auto-fill, minmax(12rem, 1fr)); gap: .1rem 1rem; padding: .5rem 0; border-bottom: 1px solid #8885; }
  td { display: flex; justify-content: space-between; gap: .5rem; border: 0; padding: 0; }
  td::before { content: attr(data-title); flex: none; opacity: .7; overflow-wrap: normal; text-align: left; }
  td:first-child { grid-column: 1 / -1; font-weight: 600; } td:first-child::before { content: none; }
}
@media (prefers-color-scheme: dark) { .good { color: #6fd08c; } .busy { color: #e0b050; } .bad { color: #ff8a80; } }
`;

const STYLE_HASH = createHash('sha256').update(STYLE).digest('base64');

/** Allows this page's own style and nothing else: no script, no other origin, no frame. */
export const PAGE_POLICY = `default-src 'none'; style-src 'sha256-${STYLE_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;

type Columns<Row> = ReadonlyArray<readonly [keyof Row & string, string]>;

const STREAM_COLUMNS: Columns<StatusStream & { covered: string; stream: string }> = [
  ['market', 'market'],
  ['stream', 'stream'],
  ['rows', 'rows'],
  ['lagS', 'lag'],
  ['covered', 'covered'],
  ['missingS', 'missing'],
  ['gaps', 'gaps'],
  ['openGaps', 'open gaps'],
  ['mismatches', 'mismatches'],
];

const ROW_COLUMNS: Columns<StatusRows> = [
  ['kind', 'kind'],
  ['markets', 'markets'],
  ['received', 'received'],
  ['stored', 'stored'],
  ['duplicate', 'duplicate'],
  ['refused', 'refused'],
  ['lost', 'lost rows'],
  ['inFlight', 'in flight'],
  ['lagS', 'lag'],
  ['slowestLagS', 'slowest market'],
  ['openGaps', 'open gaps'],
  ['openGapS', 'their length'],
  ['lostGaps', 'lost gaps'],
];

const GAP_COLUMNS: Columns<ArchiveStatus['openGaps'][number]> = [
  ['kind', 'kind'],
  ['reason', 'reason'],
  ['lengthS', 'length'],
  ['oldestAgeS', 'age of the oldest'],
];

const INCIDENT_COLUMNS: Columns<
  Omit<ArchiveStatus['incidents'][number], 'fromMs' | 'toMs'> & { from: string; lengthS: number }
> = [
  ['from', 'from'],
  ['lengthS', 'length'],
  ['cause', 'cause'],
  ['state', 'state'],
  ['streams', 'streams'],
  ['markets', 'markets'],
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

/** Figures are shown as their names say: seconds as durations, ratios as shares, which are cut and not rounded. */
function show(value: Shown, name: string): string {
  if (value === null) return '–';
  if (typeof value === 'string') return escapeHtml(value);
  if (name.endsWith('S')) return shownDuration(value * SECOND_MS);
  if (name.endsWith('Ratio')) return share(value);
  return value.toLocaleString('en-US');
}

const share = (ratio: number) => `${(Math.floor(ratio * 10_000) / 100).toFixed(2)} %`;
const ago = (seconds: number) => `${shownDuration(seconds * SECOND_MS)} ago`;

function reasonsOf({ checks }: HealthReport): string {
  return checks
    .filter(({ ok }) => !ok)
    .map(({ name, detail }) => (detail === undefined ? name : `${name}: ${detail}`))
    .join('; ');
}

/** In the words of the alert TapekeepClockDisputed. */
const TIME_DISPUTED =
  'Answers of the exchange contradict each other about the time. While it lasts nothing is covered beyond the earlier of the times. The log names both times; check the Date headers of the exchange and of caches before it, and the time synchronisation of this machine.';

/** Open gaps of a kind that come and go while all is well, seconds. */
const OPEN_MAX_S = 600;

/** The whole in one sentence: what is wrong, or that all is well. */
function headline({ archive, daemon }: ServedDocument): string {
  const { health, ready, markets, isTimeDisputed } = daemon;
  if (!health.ok) return `<p class="bad">Not alive: ${escapeHtml(reasonsOf(health))}</p>`;
  if (!ready.ok) return `<p class="bad">Not ready: ${escapeHtml(reasonsOf(ready))}</p>`;
  if (isTimeDisputed) return `<p class="bad">Ready, but not covering all: ${TIME_DISPUTED}</p>`;
  const kinds = archive?.kinds ?? [];
  const collected = markets === 1 ? '1 market is' : `${markets} markets are`;
  const walked = kinds.flatMap((one) => firstHistoryText(one) ?? []);
  if (walked.length > 0) {
    return `<p class="busy">Ready: ${collected} collected; ${escapeHtml(walked.join('; '))}.</p>`;
  }
  const open = kinds.filter(({ openS }) => openS > OPEN_MAX_S).map(({ kind }) => kind);
  const lacks = open.length === 0 ? '' : `; gaps are open in ${open.join(', ')}`;
  return `<p class="${open.length === 0 ? 'good' : 'busy'}">Ready: ${collected} collected${lacks}.</p>`;
}

function factsOf(document: ServedDocument): [string, string | number][] {
  const { daemon, archive } = document;
  const { markets, wantedMarkets, leftOutMarkets, missingMarkets, lastFailedRequest } = daemon;
  const isOpening = markets < wantedMarkets;
  const facts: [string, string | number | false][] = [
    ['exchange', exchangeText(document)],
    ['version', document.version],
    ['phase', daemon.phase],
    ['markets', isOpening ? `${markets} of ${wantedMarkets}` : markets],
    ['named, but not listed', missingMarkets.length > 0 && firstOf(missingMarkets)],
    ['listed, but beyond streams.markets.max', leftOutMarkets > 0 && leftOutMarkets],
    ['left out by the settings', document.leftOut ?? false],
    ['coverage does not grow', daemon.standing.length > 0 && standingText(daemon.standing)],
    ['requests', requestsText(daemon)],
    ['polled less often than scheduled', daemon.stretched.length > 0 && stretchedText(daemon)],
    ['exchange time', timeText(document)],
    ['last failed request', lastFailedRequest !== null && failureText(lastFailedRequest)],
  ];
  if (archive !== null) {
    const { lowestCoverageRatio: low, oldestOpenGapAgeS: oldest, verifiedLagS: lag } = archive;
    const expired = archive.kinds.flatMap(({ kind, expiredUntilMs: ms }) =>
      ms === null ? [] : [expiredText([kind, ms])],
    );
    facts.push(
      ['expired', expired.length > 0 && expired.join(', ')],
      ['least covered stream', low !== null && share(low)],
      ['oldest open gap', oldest === null ? 'none' : ago(oldest)],
      ['candles that do not match the trades', archive.mismatches],
      ['verified until', lag !== null && ago(lag)],
      ['coverage and gaps counted', ago((document.atMs - archive.atMs) / SECOND_MS)],
    );
  }
  return facts.flatMap(([name, value]) => (value === false ? [] : [[name, value]]));
}

/** Names that are shown of a list; the number of all of them is said. */
const NAMES_MAX = 5;

function firstOf(names: readonly string[]): string {
  const shown = names.slice(0, NAMES_MAX).join('; ');
  return names.length > NAMES_MAX ? `${shown}; and ${names.length - NAMES_MAX} more` : shown;
}

/** Which streams stand, for how long, and why. */
function stretchedText({ stretched }: DaemonStatus): string {
  const texts = stretched.map(
    ({ stream, scheduleS, paceS }) =>
      `${stream} every ${shownDuration(paceS * 1000)} instead of ${shownDuration(scheduleS * 1000)}`,
  );
  return `${texts.join(', ')}: exchange.requestsPerS is too small for the markets and schedules`;
}

export function standingText(streams: DaemonStatus['standing']): string {
  const texts = streams.map(({ market, kind, intervalS, standingS, reason, note }) => {
    const stream = streamName({ kind, variant: intervalS ?? 0 });
    return `${market} ${stream} for ${show(standingS, 'standingS')} (${reason}: ${note})`;
  });
  return firstOf(texts);
}

/** More requests than these wait only where more is asked for than the exchange allows (as the alert has it). */
const WAITING_MAX = 50;

function requestsText({ requestsPerS, requestsWaiting }: DaemonStatus): string {
  const rate = `${requestsPerS.toFixed(1)} a second at most`;
  if (requestsWaiting <= WAITING_MAX) return rate;
  const waiting = show(requestsWaiting, 'requests');
  return `${rate}, and ${waiting} wait: the settings ask for more than is allowed (fewer markets, slower schedules of depth and candles, or exchange.requestsPerS)`;
}

/** What time it is at the exchange, and what that rests on. */
function timeText({ atMs, daemon }: ServedDocument): string {
  const at = new Date(atMs).toISOString();
  if (!daemon.isTimeSettled) return `${at} (not settled: nothing new is covered yet)`;
  if (daemon.timeBasis === 'exchange') return at;
  return `${at} (by this machine's clock: answers of the exchange carry no Date)`;
}

function failureText(failed: NonNullable<DaemonStatus['lastFailedRequest']>): string {
  const { endpoint, outcome, message, inARow } = failed;
  const since =
    inARow === 0 ? 'others were answered since' : `${inARow} in a row, and none answered since`;
  return `${endpoint}: ${outcome}: ${message} (${since})`;
}

/** Columns of words, which stand on the left. */
const TEXTS: ReadonlySet<string> = new Set([
  'market',
  'kind',
  'stream',
  'reason',
  'cause',
  'from',
  'state',
]);

function table<Row extends object>(columns: Columns<Row>, rows: readonly Row[]): string {
  const align = (key: string) => (TEXTS.has(key) ? ' class="text"' : '');
  const head = columns.map(([key, title]) => `<th scope="col"${align(key)}>${title}</th>`).join('');
  const cell = (row: Row, key: keyof Row & string, title: string) =>
    `<td${align(key)} data-title="${title}">${show(row[key] as Shown, key)}</td>`;
  const body = rows.map(
    (row) => `<tr>${columns.map(([key, title]) => cell(row, key, title)).join('')}</tr>`,
  );
  return `<table><thead><tr>${head}</tr></thead><tbody>${body.join('\n')}</tbody></table>`;
}

function coveredText(stream: StatusStream): string {
  const { coverageRatio } = stream;
  if (coverageRatio === null) return '–';
  return `${share(coverageRatio)}${isPartOfHistory(stream) ? ' of part' : ''}`;
}

const PART = 'Of part: older history is still being fetched, or is no longer served.';

function streamPart(archive: ArchiveStatus | null): string {
  if (archive === null) return '<p>Not counted yet.</p>';
  if (archive.streams.length === 0) return '<p>Nothing was covered when it was counted.</p>';
  const left = archive.streamsLeftOut;
  const more = left === 0 ? '' : `<p>… and ${left.toLocaleString('en-US')} more.</p>`;
  const rows = archive.streams.map((one) => ({
    ...one,
    covered: coveredText(one),
    stream: streamName({ kind: one.kind, variant: one.intervalS ?? 0 }),
  }));
  const isPart = archive.kinds.some(({ partialStreams }) => partialStreams > 0);
  const note = isPart ? `<p>${PART}</p>` : '';
  return `${table(STREAM_COLUMNS, rows)}${more}${note}`;
}

function rowPart(rows: readonly StatusRows[]): string {
  return rows.length === 0 ? '<p>Nothing has been received yet.</p>' : table(ROW_COLUMNS, rows);
}

function gapPart(gaps: ArchiveStatus['openGaps'] | undefined): string {
  if (gaps === undefined) return '<p>Not counted yet.</p>';
  if (gaps.length === 0) return '<p>None.</p>';
  return `${table(GAP_COLUMNS, gaps)}
<p><code>tapekeep gaps</code> lists them by cause, <code>tapekeep gaps explain</code> tells more.</p>`;
}

function incidentPart(incidents: ArchiveStatus['incidents'] | undefined): string {
  if (incidents === undefined) return '<p>Not counted yet.</p>';
  if (incidents.length === 0) return '<p>None.</p>';
  const rows = incidents.map(({ fromMs, toMs, ...one }) => ({
    ...{ ...one, from: formatInstant(fromMs), lengthS: (toMs - fromMs) / SECOND_MS },
  }));
  return table(INCIDENT_COLUMNS, rows);
}

/** Draws the status page. It needs no script: the browser loads it again by itself. */
export function renderPage(document: ServedDocument): string {
  const facts = factsOf(document)
    .map(([name, value]) => `<dt>${escapeHtml(name)}</dt><dd>${show(value, '')}</dd>`)
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
${headline(document)}
<dl>
${facts}
</dl>
<h2>Newest gaps by cause</h2>
${incidentPart(document.archive?.incidents)}
<h2>Open gaps by reason</h2>
${gapPart(document.archive?.openGaps)}
<h2>Unfillable gaps by reason</h2>
${gapPart(document.archive?.lostGaps)}
<h2>Least covered streams</h2>
${streamPart(document.archive)}
<h2>Rows since the start</h2>
${rowPart(document.daemon.rows)}
<p><a href="/metrics">metrics</a> · <a href="/status">status as JSON</a> (<a href="/status/schema">schema</a>) · <a href="/readyz">readiness</a></p>
</body>
</html>
`;
}
