import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { Answer, Asked } from '../api/endpoints.js';
import { ask, useAsk } from './api.js';
import { coverageBar } from './bar.js';
import { clockTime, counted, duration, percent, streamName } from './format.js';
import { html } from './html.js';
import { address, type Place } from './router.js';
import { choose, figures, heading, KINDS, pill, Search, shown, table, texts } from './widgets.js';

/** Every stream over the last 24 hours, the worst first. */

type Question = Asked<'markets'>;
type Document = Answer<'markets'>;
type Row = Document['rows'][number];

const PAGE_ROWS = 100;
const SORTS = { worst: 'worst first', name: 'by name', lag: 'longest lag first' };

export const marketUrl = (market: string, query = {}) =>
  address(`/market/${encodeURIComponent(market)}`, query);

/** Newest day of a stream in the calendar. */
const dayUrl = ({ market, kind, variant }: Row, toMs: number) =>
  address('/calendar', {
    kind,
    search: market === '*' ? '' : market,
    market,
    day: new Date(toMs).toISOString().slice(0, 10),
    variant: variant || null,
  });

function nameCell({ market, kind, variant, isListed }: Row): VNode {
  const name = market === '*' ? 'all markets' : market;
  const link =
    market === '*'
      ? html`<b>${name}</b>`
      : html`<a class="name" href=${marketUrl(market)}>${name}</a>`;
  return html`${link} <span class="muted">${streamName(kind, variant)}</span>
    ${!isListed && pill('delisted', 'idle')}`;
}

function missingCell({ openS, lostS }: Row): unknown {
  if (openS === 0 && lostS === 0) return null;
  return html`${openS > 0 && html`<span class="busy">${duration(openS)} open</span>`}
    ${openS > 0 && lostS > 0 && ', '}${lostS > 0 && html`<span class="bad">${duration(lostS)} unfillable</span>`}`;
}

export function marketsTable(rows: readonly Row[], toMs: number, none: unknown): VNode {
  return table<Row>({
    ...{ caption: 'Streams over the last 24 hours', rows, none },
    keyOf: ({ market, kind, variant }) => `${market} ${kind} ${variant}`,
    columns: [
      texts('Market', nameCell, 'wide first'),
      texts(
        'Last 24 h',
        (row) => {
          const label = `${row.market} ${row.kind}: ${percent(row.coverageRatio)} of 24 hours covered`;
          return html`<a href=${dayUrl(row, toMs)}>${coverageBar(row.bar, label)}</a>`;
        },
        'wide bars',
      ),
      figures('Coverage', ({ coverageRatio }) => percent(coverageRatio)),
      figures('Lag', ({ lagS }) => duration(lagS)),
      texts('Missing', (row) => missingCell(row) as VNode, 'missing'),
      figures('Open gaps', ({ market, kind, openGaps }) =>
        openGaps === 0
          ? html`<span class="muted">0</span>`
          : html`<a href=${address('/gaps', { market, kind, state: 'open' })}>${openGaps}</a>`,
      ),
      texts('Trouble', ({ trouble }) => trouble, 'wide trouble'),
    ],
  });
}

function questionOf({ query }: Place): Question {
  const kind = query.get('kind');
  return {
    search: query.get('search') ?? undefined,
    ...(kind !== null && { kind: [kind as NonNullable<Question['kind']>[number]] }),
    sort: (query.get('sort') ?? 'worst') as NonNullable<Question['sort']>,
    limit: PAGE_ROWS,
  };
}

/** Further pages below the first, which alone is loaded again as time goes by. */
function useMore(question: Question, first: Document | undefined) {
  const key = JSON.stringify(question);
  const [more, setMore] = useState<{ key: string; rows: readonly Row[] }>({ key, rows: [] });
  const [isLoading, setLoading] = useState(false);
  const rows = more.key === key ? more.rows : [];
  useEffect(() => setLoading(false), [key]);
  const load = async () => {
    setLoading(true);
    const offset = (first?.rows.length ?? 0) + rows.length;
    const next = await ask('markets', { ...question, offset }).catch(() => undefined);
    if (next !== undefined) setMore({ key, rows: [...rows, ...next.rows] });
    setLoading(false);
  };
  return { rows, isLoading, load };
}

export function Markets({ place }: { place: Place }): VNode {
  const question = questionOf(place);
  const first = useAsk('markets', question, { everyS: 30, isFollowed: true });
  const more = useMore(question, first.data);
  const about = html`Coverage of the last 24 hours, worst first. Select a name for candles and the book, a bar for its day.`;
  return html`
    ${heading('Markets', about)}
    <div class="filters">
      <${Search} place=${place} label="Market" />
      ${choose(place, 'kind', 'Kind', { '': 'all kinds', ...KINDS })}
      ${choose(place, 'sort', 'Order', SORTS, 'worst')}
    </div>
    ${shown(first, (document) => {
      const rows = [...document.rows, ...more.rows];
      const { total, markets, toMs } = document;
      const none = html`No market matches. <a href="/markets">Show all</a>`;
      return html`
        <p class="summary">
          <b>${counted(total, 'stream')}</b> of ${counted(markets, 'market')} ·
          together ${percent(document.coverageRatio)} ·
          24 hours to ${clockTime(toMs).slice(0, 5)} UTC
          <span class="legend">
            <i class="key full"></i>covered <i class="key most"></i>small hole
            <i class="key some"></i>in part <i class="key gap"></i>missing <i class="key none"></i>not expected
          </span>
        </p>
        ${marketsTable(rows, toMs, none)}
        ${
          rows.length < total &&
          html`<p class="more">
            <span class="muted">${rows.length} of ${counted(total, 'stream')}</span>
            <button type="button" disabled=${more.isLoading} onClick=${more.load}>
              ${more.isLoading ? 'Loading…' : 'Show more'}
            </button>
          </p>`
        }
      `;
    })}
  `;
}
