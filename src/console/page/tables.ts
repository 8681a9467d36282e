import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { Answer, Asked } from '../api/endpoints.js';
import { useAsk } from './api.js';
import { bytes, counted, duration, grouped, short, stamp } from './format.js';
import { html } from './html.js';
import { changed, type Place } from './router.js';
import { choose, empty, figures, heading, pill, Search, shown, table, texts } from './widgets.js';

/** Pages that are one table each: partitions, quarantine, log, settings. */

type Partition = Answer<'partitions'>['partitions'][number];
type Refused = Answer<'quarantine'>['rows'][number];
type Count = Answer<'quarantine'>['counts'][number];
type Entry = Answer<'log'>['entries'][number];
type Setting = Answer<'settings'>['settings'][number];

/** The next change of a partition, and when it is due. */
function dueText({ due }: Partition): string {
  const next = (['seal', 'archive', 'expire'] as const).find((one) => due[one] !== null);
  return next === undefined ? '–' : `${next} ${stamp(due[next]).slice(0, 16)}`;
}

export function Partitions({ place }: { place: Place }): VNode {
  const found = useAsk('partitions', {}, { everyS: 60 });
  const { query } = place;
  const [name, state, search] = [query.get('table'), query.get('state'), query.get('search') ?? ''];
  const isWanted = (one: Partition) =>
    (name === null || one.table === name) &&
    (state === null || one.state === state) &&
    one.name.includes(search.toLowerCase());
  return html`
    ${heading('Partitions', 'Each table is divided by time. A partition is hot, then sealed, then archived to Parquet.')}
    ${shown(found, ({ partitions, leads }) => {
      const of = (name: 'table' | 'state') =>
        Object.fromEntries(partitions.map((one) => [one[name], one[name]]));
      const rows = partitions.filter(isWanted).sort((a, b) => (a.from < b.from ? 1 : -1));
      const sum = (pick: (one: Partition) => number | null) =>
        rows.reduce((all, one) => all + (pick(one) ?? 0), 0);
      const late = leads.filter(({ leadMs }) => leadMs < 86_400_000);
      return html`
        <div class="filters">
          <${Search} place=${place} label="Name" />
          ${choose(place, 'table', 'Table', { '': 'all tables', ...of('table') })}
          ${choose(place, 'state', 'State', { '': 'all states', ...of('state') })}
        </div>
        ${late.map(
          ({ table: one, leadMs }) =>
            html`<p class="notice bad">The newest partition of ${one} ends in ${duration(leadMs / 1000)}.</p>`,
        )}
        <p class="summary"><b>${counted(rows.length, 'partition')}</b>${`, ${short(sum((one) => one.rows))} rows, ${bytes(sum(({ heapBytes, indexBytes }) => (heapBytes ?? 0) + (indexBytes ?? 0)))} in Postgres, ${bytes(sum((one) => one.coldBytes))} in files`}</p>
        ${table<Partition>({
          caption: 'Partitions, the newest first',
          none: html`No partition matches. <a href="/partitions">Show all</a>`,
          rows: rows.slice(0, 1000),
          keyOf: (one) => one.name,
          columns: [
            texts('Partition', (one) => html`<code>${one.name}</code>`, 'wide first'),
            texts('State', (one) => pill(one.state)),
            texts('From, UTC', ({ from }) => stamp(from).slice(0, 16), 'stamp'),
            texts('To, UTC', ({ to }) => stamp(to).slice(0, 16), 'stamp'),
            figures('Rows', (one) => grouped(one.rows)),
            figures('Table', ({ heapBytes }) => bytes(heapBytes)),
            figures('Indexes', ({ indexBytes }) => bytes(indexBytes)),
            figures('Files', ({ coldBytes }) => bytes(coldBytes)),
            texts('Next, UTC', dueText),
          ],
        })}`;
    })}
  `;
}

export function Quarantine({ place }: { place: Place }): VNode {
  const chosen = Object.fromEntries(place.query);
  const found = useAsk('quarantine', { ...chosen, limit: 200 }, { everyS: 30 });
  const isFiltered = place.query.size > 0;
  return html`
    ${heading('Quarantine', 'Responses and rows that were refused, with the reason. They are not part of the archive.')}
    <div class="filters">
      <${Search} place=${place} name="market" label="Market, exact" />
      ${isFiltered && html`<a class="button" href="/quarantine">Show all</a>`}
    </div>
    ${shown(found, ({ counts, rows }) =>
      rows.length === 0 && counts.length === 0
        ? empty('Nothing was refused.')
        : html`
            <ul class="sums" aria-label="Counts by reason">${counts.slice(0, 12).map(
              ({ endpoint, reason, count }: Count) => html`<li>
                <a href=${changed(place, { endpoint, reason })}><span>${endpoint}</span> <span>${reason}</span> <b>${grouped(count)}</b></a>
              </li>`,
            )}</ul>
            ${table<Refused>({
              caption: 'Refused rows, the newest first',
              rows,
              keyOf: ({ id }) => id,
              columns: [
                texts('Received, UTC', ({ receivedAt }) => stamp(receivedAt), 'stamp'),
                texts('Endpoint', ({ endpoint }) => endpoint),
                texts('Market', ({ market }) => market ?? '–'),
                texts('Reason', ({ reason }) => reason, 'wide'),
                figures('Times', ({ count }) => grouped(count)),
                texts(
                  'Content',
                  ({ payload }) =>
                    html`<details><summary><code>${payload.slice(0, 60)}</code></summary><pre>${payload}</pre></details>`,
                  'wide',
                ),
              ],
            })}
          `,
    )}
  `;
}

const LEVELS = { info: 'all lines', warn: 'warnings and errors', error: 'errors' };

export function Log({ place }: { place: Place }): VNode {
  const level = (place.query.get('level') ?? 'info') as NonNullable<Asked<'log'>['level']>;
  const search = (place.query.get('search') ?? '').toLowerCase();
  const [isFollowed, setFollowed] = useState(true);
  const found = useAsk('log', { level, limit: 500 }, { everyS: isFollowed ? 5 : 0 });
  const textOf = ({ fields }: Entry) =>
    Object.entries(fields)
      .map(([name, value]) => `${name}=${valueText(value)}`)
      .join(' ');
  return html`
    ${heading('Log', 'The newest lines of the daemon, since its start. All of them are on its stderr.')}
    <div class="filters">
      <${Search} place=${place} label="Text" />
      ${choose(place, 'level', 'Level', LEVELS, 'info')}
      <label class="check"><input type="checkbox" checked=${isFollowed} onChange=${() => setFollowed(!isFollowed)} /> follow</label>
    </div>
    ${shown(found, ({ entries }) => {
      const rows = entries.filter((one) =>
        `${one.event} ${one.message} ${textOf(one)}`.toLowerCase().includes(search),
      );
      return table<Entry>({
        caption: 'Log, the newest first',
        none: search === '' ? 'No lines of this level yet.' : 'No line matches.',
        rows,
        columns: [
          texts('Time, UTC', ({ atMs }) => stamp(atMs), 'stamp'),
          texts('Level', (one) => pill(one.level)),
          texts(
            'Message',
            ({ message, event }) => html`${message} <span class="muted">${event}</span>`,
            'wide',
          ),
          texts('Fields', (one) => html`<code>${textOf(one)}</code>`, 'wide fields'),
        ],
      });
    })}
  `;
}

const valueText = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value));

export function Settings({ place }: { place: Place }): VNode {
  const found = useAsk('settings', {});
  const search = (place.query.get('search') ?? '').toLowerCase();
  const isSetOnly = place.query.get('only') === 'set';
  return html`
    ${heading('Settings', 'The settings in force. Secrets are hidden. They change in the configuration file or the environment, with a restart.')}
    <div class="filters">
      <${Search} place=${place} label="Setting" />
      ${choose(place, 'only', 'Show', { '': 'all settings', set: 'those that are set' })}
    </div>
    ${shown(found, ({ settings }) => {
      const rows = settings.filter(
        ({ name, about, isDefault }) =>
          `${name} ${about}`.toLowerCase().includes(search) && !(isSetOnly && isDefault),
      );
      return table<Setting>({
        caption: 'Settings',
        none: html`No setting matches. <a href="/settings">Show all</a>`,
        rows,
        keyOf: ({ name }) => name,
        columns: [
          texts('Setting', ({ name }) => html`<code>${name}</code>`, 'wide first'),
          texts('Value', ({ value }) => html`<code>${valueText(value)}</code>`, 'wide value'),
          texts('From', ({ source, isDefault }) =>
            isDefault ? html`<span class="muted">default</span>` : html`<b>${source}</b>`,
          ),
          texts('Meaning', ({ about }) => about, 'wide'),
        ],
      });
    })}
  `;
}
