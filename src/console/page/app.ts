import { render } from 'preact';
import { Calendar } from './calendar.js';
import { Gaps } from './gaps.js';
import { html } from './html.js';
import { Market } from './market.js';
import { Markets } from './markets.js';
import { Overview } from './overview.js';
import { followLinks, type Place, usePlace } from './router.js';
import { Shell } from './shell.js';
import { Sql } from './sql.js';
import { Log, Partitions, Quarantine, Settings } from './tables.js';
import { empty, heading } from './widgets.js';

/** Pages by address. */

interface Page {
  readonly title: string;
  readonly body: (place: Place, isOperator: boolean) => unknown;
}

const PAGES: Readonly<Record<string, Page>> = {
  '/': { title: 'Overview', body: () => html`<${Overview} />` },
  '/markets': { title: 'Markets', body: (place) => html`<${Markets} place=${place} />` },
  '/calendar': { title: 'Calendar', body: (place) => html`<${Calendar} place=${place} />` },
  '/gaps': {
    title: 'Gaps',
    body: (place, isOperator) => html`<${Gaps} place=${place} isOperator=${isOperator} />`,
  },
  '/sql': { title: 'SQL', body: (place) => html`<${Sql} place=${place} />` },
  '/partitions': { title: 'Partitions', body: (place) => html`<${Partitions} place=${place} />` },
  '/quarantine': { title: 'Quarantine', body: (place) => html`<${Quarantine} place=${place} />` },
  '/log': { title: 'Log', body: (place) => html`<${Log} place=${place} />` },
  '/settings': { title: 'Settings', body: (place) => html`<${Settings} place=${place} />` },
};

const MARKET = /^\/market\/([^/]+)$/;

function pageOf({ path }: Place): Page {
  const [, market] = MARKET.exec(path) ?? [];
  if (market !== undefined) {
    const name = decodeURIComponent(market);
    return {
      title: name,
      body: (place) => html`<${Market} key=${name} place=${place} market=${name} />`,
    };
  }
  const unknown: Page = {
    title: 'No such page',
    body: () => [
      heading('No such page'),
      empty(html`Nothing is at <code>${path}</code>. <a href="/">Go to the overview</a>.`),
    ],
  };
  return PAGES[path.replace(/(.)\/$/, '$1')] ?? unknown;
}

function App() {
  const place = usePlace();
  const { title, body } = pageOf(place);
  const page = (isOperator: boolean) => body(place, isOperator);
  return html`<${Shell} place=${place} title=${title} page=${page} />`;
}

const root = document.querySelector('#app');
if (root !== null) {
  followLinks();
  root.replaceChildren();
  render(html`<${App} />`, root);
}
