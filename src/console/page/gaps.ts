import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { Answer, Asked } from '../api/endpoints.js';
import { act, Refusal, useAsk } from './api.js';
import { explained } from './day.js';
import { FillPanel } from './fill.js';
import { duration, grouped, stamp, streamName } from './format.js';
import { html } from './html.js';
import { marketUrl } from './markets.js';
import { incidentsTable } from './overview.js';
import { changed, type Place } from './router.js';
import {
  type Choices,
  choose,
  figures,
  heading,
  KINDS,
  pill,
  Search,
  shown,
  table,
  tabs,
  texts,
} from './widgets.js';

/** Gaps and incidents: what is missing, why, and the button that fetches it. */

type Question = Asked<'gaps'>;
type Gap = Answer<'gaps'>['gaps'][number];

const STATES: Choices = {
  ...{ '': 'all states', open: 'open', filling: 'filling', unfillable: 'unfillable' },
};
const SINCE: Choices = {
  ...{ '': 'all time', '1h': 'last hour', '24h': 'last 24 hours', '7d': 'last 7 days' },
  '30d': 'last 30 days',
};
const VIEWS: Choices = { gaps: 'Gaps', incidents: 'Incidents' };
const PAGE_GAPS = 200;

/** Selection of the address, which lists gaps and fills them. */
function selectionOf({ query }: Place): Question {
  const list = (name: string) => {
    const all = query
      .getAll(name)
      .flatMap((one) => one.split(','))
      .filter((one) => one !== '');
    return all.length === 0 ? undefined : all;
  };
  return {
    ...{ market: list('market'), kind: list('kind'), state: list('state'), reason: list('reason') },
    ...{ from: query.get('from') ?? undefined, to: query.get('to') ?? undefined },
  } as Question;
}

export function Gaps({ place, isOperator }: { place: Place; isOperator: boolean }): VNode {
  const view = place.query.get('view') ?? 'gaps';
  const selection = selectionOf(place);
  return html`
    ${heading('Gaps', 'Time that is expected and not covered. Gaps of one cause and time are an incident.', tabs(place, 'view', 'View', VIEWS, 'gaps'))}
    ${filters(place)}
    ${
      view === 'incidents'
        ? html`<${Incidents} selection=${selection} />`
        : html`<${GapList} place=${place} selection=${selection} isOperator=${isOperator} />`
    }
  `;
}

function filters(place: Place): VNode {
  const { query } = place;
  const [reason, from, to] = [query.get('reason'), query.get('from'), query.get('to')];
  const isOwnTime = from !== null && !(from in SINCE);
  const chip = (name: string, text: string, gone: Record<string, null>) =>
    html`<a class="chip" href=${changed(place, gone)} aria-label=${`Remove the filter ${name}`}>${text} <span aria-hidden="true">×</span></a>`;
  return html`<div class="filters">
    <${Search} place=${place} name="market" label="Market, exact" />
    ${choose(place, 'kind', 'Kind', { '': 'all kinds', ...KINDS })}
    ${choose(place, 'state', 'State', STATES)}
    ${!isOwnTime && choose(place, 'from', 'Since', SINCE)}
    ${reason !== null && chip('reason', `reason: ${reason}`, { reason: null })}
    ${isOwnTime && chip('time', `${from}${to === null ? '' : ` to ${to}`}`, { from: null, to: null })}
  </div>`;
}

function Incidents({ selection }: { selection: Question }): VNode {
  const found = useAsk('incidents', { ...selection, limit: 200 }, { everyS: 60, isFollowed: true });
  const none = html`No incident matches. <a href="/gaps?view=incidents">Show all</a>`;
  return shown(
    found,
    ({ incidents, isAll }) => html`${incidentsTable(incidents, none)}
      ${!isAll && html`<p class="muted">Only the newest are listed. Choose a shorter time range for older ones.</p>`}`,
  );
}

interface ListProps {
  readonly place: Place;
  readonly selection: Question;
  readonly isOperator: boolean;
}

function GapList({ place, selection, isOperator }: ListProps): VNode {
  const limit = Number(place.query.get('limit') ?? PAGE_GAPS);
  const found = useAsk('gaps', { ...selection, limit }, { everyS: 30, isFollowed: true });
  const opened = place.query.get('gap');
  const below = ({ id }: Gap) =>
    id === opened
      ? html`<${GapDetail} id=${id} isOperator=${isOperator} onNoted=${found.reload} />`
      : null;
  return html`
    ${isOperator && html`<${FillPanel} selection=${selection} onDone=${found.reload} />`}
    ${shown(found, (document) => {
      const { gaps, isWritten } = document;
      const isFiltered = Object.values(selection).some((one) => one !== undefined);
      const none = isFiltered
        ? html`No gap matches. <a href="/gaps">Show all gaps</a>`
        : 'No gaps: all that was expected is covered.';
      return html`
        ${sums(place, document)}
        ${!isWritten && html`<p class="notice">No daemon collects. Open gaps wait until one does.</p>`}
        ${table<Gap>({ ...{ caption: 'Gaps, the newest first', rows: gaps, none, below }, columns: columnsOf(place, document.at), keyOf: ({ id }) => id })}
        ${
          gaps.length >= limit &&
          html`<p class="more"><span class="muted">The newest ${grouped(gaps.length)}</span>
            <a class="button" href=${changed(place, { limit: Math.min(5000, limit * 2) })}>Show more</a></p>`
        }
      `;
    })}
  `;
}

/** Sums by state and reason, each a link that narrows the list. */
function sums(place: Place, { sums: all, isSumOfAll }: Answer<'gaps'>): VNode {
  return html`<ul class="sums" aria-label="Sums by state and reason">
    ${all.slice(0, 8).map(
      ({ state, reason, count, lengthMs }) => html`<li>
        <a href=${changed(place, { state, reason, gap: null })}>
          ${reason === 'beyond history' ? pill('before history') : pill(state)} <span>${reason}</span>
          <b>${grouped(count)}</b> <span class="muted">${duration(lengthMs / 1000)}</span>
        </a>
      </li>`,
    )}
    ${!isSumOfAll && html`<li class="muted">of the listed ones</li>`}
  </ul>`;
}

function columnsOf(place: Place, at: string) {
  const opened = place.query.get('gap');
  const toggle = (id: string) => changed(place, { gap: opened === id ? null : id });
  const next = ({ state, nextAttemptAt }: Gap) => {
    if (nextAttemptAt === null) return state === 'unfillable' ? '–' : 'when the limit allows';
    const waitMs = Date.parse(nextAttemptAt) - Date.parse(at);
    return waitMs > 0 ? `in ${duration(waitMs / 1000)}` : 'due';
  };
  return [
    texts(
      'Market',
      ({ market, kind, variant }: Gap) => html`
        ${market === '*' ? html`<b>all markets</b>` : html`<a class="name" href=${marketUrl(market)}>${market}</a>`}
        <span class="muted"> ${streamName(kind, variant)}</span>`,
      'wide first',
    ),
    texts('From, UTC', ({ from }: Gap) => stamp(from), 'stamp'),
    figures('Length', ({ lengthMs }: Gap) => duration(lengthMs / 1000)),
    texts('State', (one: Gap) => (one.isBeforeHistory ? pill('before history') : pill(one.state))),
    texts(
      'Reason',
      ({ reason, note }: Gap) =>
        html`${reason}${note !== null && html` <span class="muted">· ${note}</span>`}`,
      'wide',
    ),
    figures('Attempts', ({ attempts }: Gap) => attempts),
    texts('Next attempt', next),
    texts(
      '',
      ({ id }: Gap) =>
        html`<a href=${toggle(id)} aria-expanded=${opened === id}>${opened === id ? 'Close' : 'Explain'}</a>`,
    ),
  ];
}

interface DetailProps {
  readonly id: string;
  readonly isOperator: boolean;
  readonly onNoted: () => void;
}

function GapDetail({ id, isOperator, onNoted }: DetailProps): VNode {
  const found = useAsk('gap', { id });
  const [note, setNote] = useState('');
  const [fault, setFault] = useState('');
  const add = async (event: Event) => {
    event.preventDefault();
    try {
      await act('note', { id, note });
      setNote('');
      setFault('');
      onNoted();
      found.reload();
    } catch (error) {
      setFault(error instanceof Refusal ? error.message : String(error));
    }
  };
  return html`<div class="detail">
    ${shown(
      found,
      ({ streams }) =>
        html`<ul class="pieces">${streams.flatMap(({ pieces }) => pieces.map(explained))}</ul>`,
    )}
    ${
      isOperator &&
      html`<form class="inline" onSubmit=${add}>
        <label class="field grow"><span>Note</span>
          <input required maxlength="1000" value=${note} onInput=${(event: Event) => setNote((event.currentTarget as HTMLInputElement).value)} />
        </label>
        <button>Add note</button>
        ${fault !== '' && html`<span class="bad" role="alert">${fault}</span>`}
      </form>`
    }
  </div>`;
}
