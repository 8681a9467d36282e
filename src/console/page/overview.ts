import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { Answer, Sent } from '../api/endpoints.js';
import { useAsk } from './api.js';
import { attentionOf } from './attention.js';
import { Chart } from './charts.js';
import { counted, duration, grouped, instant, NONE, percent, short, stamp } from './format.js';
import { html } from './html.js';
import { useEvents, useNow } from './live.js';
import { address } from './router.js';
import { storageCard } from './storage.js';
import {
  Command,
  card,
  empty,
  figures,
  LEVEL_TEXTS,
  type Level,
  meter,
  pill,
  shown,
  table,
  texts,
} from './widgets.js';

type Status = Answer<'status'>;
type Activity = Answer<'activity'>;
type Kind = NonNullable<Status['archive']>['kinds'][number];
type Row = NonNullable<Status['daemon']>['rows'][number];
type Incident = Answer<'incidents'>['incidents'][number];

/** Steps that a page keeps: as many as the daemon does. */
const HOUR_S = 3600;

/** Colours of the kinds, everywhere. */
const COLORS: Readonly<Record<string, string>> = {
  ...{ trades: 'c1', candles: 'c2', tickers: 'c3', depth: 'c4', states: 'c5' },
};

/** The hour with one more step at its end. */
function followed(hour: Activity, step: Sent<'activity'>): Activity {
  if ((step.atMs[0] ?? 0) <= (hour.atMs.at(-1) ?? 0)) return hour;
  const most = Math.ceil(HOUR_S / hour.stepS);
  const join = <T>(one: readonly T[], other: readonly T[]) => [...one, ...other].slice(-most);
  const unknown = hour.atMs.map(() => null);
  const kinds = new Set([...Object.keys(hour.rowsPerS), ...Object.keys(step.rowsPerS)]);
  const rows = [...kinds].map(
    (kind) => [kind, join(hour.rowsPerS[kind] ?? unknown, step.rowsPerS[kind] ?? [null])] as const,
  );
  return {
    stepS: hour.stepS,
    atMs: join(hour.atMs, step.atMs),
    rowsPerS: Object.fromEntries(rows),
    lagS: join(hour.lagS, step.lagS),
    requestsPerS: join(hour.requestsPerS, step.requestsPerS),
    commitsPerS: join(hour.commitsPerS, step.commitsPerS),
    sockets: join(hour.sockets, step.sockets),
  };
}

function useActivity(): Activity | undefined {
  const { data } = useAsk('activity', {}, { everyS: 300 });
  const [hour, setHour] = useState<Activity>();
  useEffect(() => setHour((last) => data ?? last), [data]);
  useEvents('activity', (step) => setHour((last) => last && followed(last, step)));
  return hour;
}

function Headline({ status }: { status: Status }): VNode {
  const { state, exchange, exchangeKind, archive, daemon } = status;
  const now = useNow(5);
  const since =
    state.sinceMs === null
      ? null
      : `for ${duration((now - state.sinceMs) / 1000)}, since ${instant(state.sinceMs)}`;
  const isPlain = exchangeKind === null || ['exchange', exchange].includes(exchangeKind);
  const kind = isPlain ? '' : ` (${exchangeKind})`;
  const markets = daemon?.markets ?? archive?.markets;
  return html`<section class=${`headline ${state.level}`} aria-live="polite">
    <div>
      <p class="about">${pill(LEVEL_TEXTS[state.level], state.level)}
        <span class="muted">
          ${exchange ?? 'no exchange yet'}${kind}${markets !== undefined && ` · ${counted(markets, 'market')}`}
        </span>
      </p>
      <p class="sentence">${state.text}</p>
      ${since !== null && html`<p class="muted">${since}</p>`}
    </div>
    ${
      state.command !== null &&
      html`<div class="help"><span class="muted">This helps</span><${Command} text=${state.command} /></div>`
    }
  </section>`;
}

function figure(title: string, value: string, about: unknown, level: Level, extra: unknown = null) {
  return html`<section class=${`figure-card ${level}`}>
    <h2>${title}</h2>
    <p class="value">${value}</p>
    ${extra}
    <p class="muted">${about}</p>
  </section>`;
}

/** Has no colour: markets may be quiet. The list below has streams whose coverage does not grow. */
function newestFigure(daemon: Status['daemon'], activity: Activity | undefined): VNode {
  const trades = daemon?.rows.find(({ kind }) => kind === 'trades');
  const ageS = activity?.lagS.findLast((one) => one !== null) ?? trades?.lagS ?? null;
  const quietest = trades?.slowestLagS ?? null;
  const about =
    ageS === null
      ? 'No trade was stored yet.'
      : `Age of the newest stored trade${quietest === null ? '' : `; of the quietest market ${duration(quietest)}`}`;
  return figure('Newest trade', duration(ageS), about, 'idle');
}

function coverageFigure(markets: Answer<'markets'> | undefined): VNode {
  const ratio = markets?.coverageRatio ?? null;
  const level = ratio === null ? 'idle' : ratio >= 0.999 ? 'good' : ratio >= 0.95 ? 'busy' : 'bad';
  const worst = markets?.rows[0];
  const about =
    markets === undefined
      ? 'Asking…'
      : worst === undefined || worst.coverageRatio === null || worst.coverageRatio >= 1
        ? `${counted(markets.total, 'stream')} of the last 24 hours`
        : html`Least: <a href=${`/market/${encodeURIComponent(worst.market)}`}>${worst.market}</a>
          ${` ${worst.kind}, ${percent(worst.coverageRatio)}`}`;
  return figure(
    'Coverage of 24 hours',
    percent(ratio),
    about,
    level,
    meter(ratio, 'Coverage', level),
  );
}

function requestsFigure(daemon: Status['daemon'], activity: Activity | undefined): VNode {
  const now = activity?.requestsPerS.findLast((one) => one !== null) ?? null;
  const limit = daemon?.requestsPerS ?? null;
  const share = now === null || limit === null || limit === 0 ? null : now / limit;
  const value = now === null ? NONE : `${short(now)}/s`;
  const about =
    limit === null
      ? 'No daemon collects.'
      : `of ${short(limit)}/s allowed, ${grouped(daemon?.requestsWaiting)} waiting`;
  // The headline says whether too many wait.
  const bar = meter(share, 'Requests of the budget', 'idle');
  return figure('Requests', value, about, 'idle', bar);
}

const perSecond = (value: number) => `${short(value)}/s`;

function charts(activity: Activity, limit: number | null): VNode {
  const x = activity.atMs;
  const rows = Object.entries(activity.rowsPerS).map(([name, values], at) => ({
    ...{ name, values, color: COLORS[name] ?? `c${(at % 5) + 1}` },
  }));
  const one = (
    title: string,
    values: readonly (number | null)[],
    text: (value: number) => string,
  ) =>
    html`<${Chart} title=${title} x=${x} series=${[{ name: title, color: 'c1', values }]} text=${text} />`;
  const requests = [
    { name: 'sent', color: 'c1', values: activity.requestsPerS },
    ...(limit === null
      ? []
      : [{ name: 'limit', color: 'bad', isDashed: true, values: x.map(() => limit) }]),
  ];
  return html`<div class="charts">
    <${Chart} title="Rows stored" x=${x} series=${rows} text=${perSecond} />
    ${one('Age of the newest trade', activity.lagS, duration)}
    <${Chart} title="Requests" x=${x} series=${requests} text=${perSecond} />
    ${one('Commits', activity.commitsPerS, perSecond)}
    ${one('Sockets', activity.sockets, (value) => grouped(Number(value.toFixed(1))))}
  </div>`;
}

function historyText({ firstHistory }: Kind): VNode | null {
  if (firstHistory === null) return null;
  const { leftS, reachedMs } = firstHistory;
  const left = leftS === null ? 'time left is not known yet' : `about ${duration(leftS)} left`;
  return html`<span class="history">${pill('fetching history', 'busy')} ${left}
    ${reachedMs !== null && `, reached ${stamp(reachedMs).slice(0, 16)}`}</span>`;
}

function kindsTable({ archive, daemon }: Status): VNode {
  const rowsOf = (kind: string): Row | undefined => daemon?.rows.find((row) => row.kind === kind);
  const levelOf = (ratio: number | null): Level => {
    if (ratio === null) return 'idle';
    return ratio >= 0.999 ? 'good' : ratio >= 0.9 ? 'busy' : 'bad';
  };
  return table<Kind>({
    caption: 'Kinds of data',
    rows: archive?.kinds ?? [],
    keyOf: ({ kind }) => kind,
    below: historyText,
    columns: [
      texts('Kind', ({ kind }) => html`<a href=${address('/markets', { kind })}>${kind}</a>`),
      figures('Streams', ({ streams }) => grouped(streams)),
      texts(
        'Coverage',
        (kind) =>
          html`<span class="metered">${meter(kind.coverageRatio, 'Coverage', kind.firstHistory === null ? levelOf(kind.coverageRatio) : 'busy')}
            <span>${percent(kind.coverageRatio)}</span></span>`,
        'wide',
      ),
      figures('Can be filled', ({ openS }) => duration(openS)),
      figures('Newest row', ({ kind }) => duration(rowsOf(kind)?.lagS)),
      figures('Stored', ({ kind }) => short(rowsOf(kind)?.stored)),
    ],
  });
}

export function incidentsTable(incidents: readonly Incident[], none: unknown): VNode {
  return table<Incident>({
    caption: 'Incidents',
    rows: incidents,
    none,
    columns: [
      texts('From, UTC', ({ from }) => stamp(from), 'stamp'),
      figures('Length', ({ lengthMs }) => duration(lengthMs / 1000)),
      texts('Cause', ({ cause }) => cause, 'wide'),
      texts('State', ({ state }) => pill(state)),
      texts(
        'Touches',
        ({ streams, markets }) => `${counted(streams, 'stream')} of ${counted(markets, 'market')}`,
      ),
      texts('', ({ from, to }) => html`<a href=${address('/gaps', { from, to })}>Its gaps</a>`),
    ],
  });
}

const NO_INCIDENTS = 'No incidents. Gaps of one cause and time appear here as one.';

export function Overview(): VNode {
  const status = useAsk('status', { worst: 1 }, { everyS: 10, isFollowed: true });
  const markets = useAsk('markets', { limit: 1 }, { everyS: 60, isFollowed: true });
  const storage = useAsk('storage', {}, { everyS: 300 });
  const incidents = useAsk('incidents', { limit: 8 }, { everyS: 60, isFollowed: true });
  const activity = useActivity();
  return html`
    <h1 class="hidden">Overview</h1>
    ${shown(status, (document) => {
      const { daemon } = document;
      const notes = attentionOf(document, storage.data);
      return html`
        <${Headline} status=${document} />
        <div class="figures">
          ${newestFigure(daemon, activity)} ${coverageFigure(markets.data)} ${requestsFigure(daemon, activity)}
        </div>
        ${notes.length > 0 && card('To look at', html`<ul class="notes">${notes}</ul>`)}
        ${activity !== undefined && card('Last hour', charts(activity, daemon?.requestsPerS ?? null), html`<span class="muted">times in UTC</span>`)}
        <div class="two">
          ${card('Kinds', document.archive === null ? empty('The archive is being counted.') : kindsTable(document), html`<a href="/markets">All markets</a>`)}
          ${card('Storage', shown(storage, storageCard), html`<a href="/partitions">Partitions</a>`)}
        </div>
      `;
    })}
    ${card(
      'Incidents',
      shown(incidents, (found) => incidentsTable(found.incidents, NO_INCIDENTS)),
      html`<a href=${address('/gaps', { view: 'incidents' })}>All incidents</a>`,
    )}
  `;
}
