import type { VNode } from 'preact';
import { useLayoutEffect, useState } from 'preact/hooks';
import type { Asked } from '../api/endpoints.js';
import { useAsk } from './api.js';
import { CalendarGrid, type Days } from './calendar-grid.js';
import { DayPanel } from './day.js';
import { counted, dayAfter } from './format.js';
import { html } from './html.js';
import { changed, go, type Place } from './router.js';
import { choose, empty, heading, KINDS, Search, shown, tabs } from './widgets.js';

/** Market × day: which days are whole, and a click that opens one. */

type Kind = NonNullable<Asked<'days'>['kind']>;

/** Days back from today; a phone has no room for a year. */
const SPANS = { 30: 'a month', 91: 'three months', 365: 'a year' };
const PHONE = '(max-width: 640px)';
const PAGE_MARKETS = 500;

export function Calendar({ place }: { place: Place }): VNode {
  const [standard] = useState(() => (matchMedia(PHONE).matches ? '91' : '365'));
  const { query } = place;
  const kind = (query.get('kind') ?? 'trades') as Kind;
  const span = query.get('span') ?? standard;
  const [today] = useState(() => new Date().toISOString().slice(0, 10));
  const from = new Date(Date.parse(today) - (Number(span) - 1) * 86_400_000);
  const offset = Number(query.get('offset') ?? 0);
  const days = useAsk(
    'days',
    {
      ...{ kind, from: from.toISOString().slice(0, 10), to: today },
      search: query.get('search') ?? undefined,
      ...{ limit: PAGE_MARKETS, offset: offset || undefined },
    },
    { everyS: 60, isFollowed: true },
  );
  const [market, day] = [query.get('market'), query.get('day')];
  const close = () => go(changed(place, { market: null, day: null, variant: null }));
  const isOpen = market !== null && day !== null;
  // Before the panel is painted: who sees it can close it.
  useLayoutEffect(() => {
    if (!isOpen) return;
    const leave = (event: KeyboardEvent) => {
      if (event.key === 'Escape') close();
    };
    addEventListener('keydown', leave);
    return () => removeEventListener('keydown', leave);
  });
  const open = (row: Days['rows'][number], date: string) =>
    go(changed(place, { market: row.market, day: date, variant: row.variant || null }));
  return html`
    ${heading('Calendar', 'The condition of each day (UTC). Select a day for its gaps, checks and commands.')}
    <div class="filters">
      <${Search} place=${place} label="Market" />
      ${choose(place, 'kind', 'Kind', KINDS, 'trades')}
      ${tabs(place, 'span', 'Time range', SPANS, standard)}
    </div>
    <div class=${isOpen ? 'beside open' : 'beside'}>
      <div>
        ${legend()}
        ${shown(days, (document) =>
          document.rows.length === 0
            ? empty('No market has days of this kind yet. Days appear as they are collected.')
            : html`
                <${CalendarGrid} days=${query.has('span') ? document : trimmed(document)} market=${market} day=${day} onOpen=${open} />
                ${pages(place, document, offset)}
              `,
        )}
      </div>
      ${
        isOpen &&
        html`<${DayPanel} key=${`${market} ${kind} ${day}`} market=${market} kind=${kind} day=${day}
          variant=${query.get('variant')} onClose=${close} />`
      }
    </div>
  `;
}

/** Days that are shown at least. */
const LEAST_DAYS = 30;

/** Leaves out the days before any market was expected: a young archive is not one line at the edge. */
function trimmed(days: Days): Days {
  const firsts = days.rows.map(({ conditions }) => conditions.search(/[^-]/));
  const first = Math.min(...firsts.filter((at) => at >= 0), days.days);
  const cut = Math.max(0, Math.min(first, days.days - LEAST_DAYS));
  if (cut === 0) return days;
  const rows = days.rows.map((row) => ({
    ...row,
    conditions: row.conditions.slice(cut),
    missing: row.missing.map(([at, seconds]): [number, number] => [at - cut, seconds]),
  }));
  return { ...days, rows, from: dayAfter(days.from, cut), days: days.days - cut };
}

function legend(): VNode {
  return html`<p class="summary"><span class="legend">
    <i class="key full"></i>available <i class="key pending"></i>pending
    <i class="key scale"></i>degraded, by the share that is missing
    <i class="key gap"></i>missing <i class="key none"></i>not expected
  </span></p>`;
}

function pages(place: Place, { total, rows }: Days, offset: number): unknown {
  if (total <= PAGE_MARKETS) return html`<p class="muted">${counted(total, 'market')}</p>`;
  const link = (to: number, text: string) =>
    html`<a href=${changed(place, { offset: to || null })}>${text}</a>`;
  return html`<p class="more">
    <span class="muted">${offset + 1} to ${offset + rows.length} of ${counted(total, 'market')}</span>
    ${offset > 0 && link(Math.max(0, offset - PAGE_MARKETS), 'Previous')}
    ${offset + rows.length < total && link(offset + PAGE_MARKETS, 'Next')}
  </p>`;
}
