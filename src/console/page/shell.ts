import type { VNode } from 'preact';
import { useEffect, useErrorBoundary, useState } from 'preact/hooks';
import type { Answer } from '../api/endpoints.js';
import { ask, useAsk } from './api.js';
import { clockTime, duration, instant } from './format.js';
import { classes, html } from './html.js';
import { useAway, useEvents, useNow } from './live.js';
import type { Place } from './router.js';
import { LEVEL_TEXTS, type Level } from './widgets.js';

/** Frame of every page: navigation, state of the daemon, clock, and whether it answers. */

type State = Answer<'status'>['state'];

const MENU: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  Now: { '/': 'Overview', '/markets': 'Markets', '/gaps': 'Gaps' },
  Archive: {
    ...{ '/calendar': 'Calendar', '/sql': 'SQL', '/partitions': 'Partitions' },
    '/quarantine': 'Quarantine',
  },
  Daemon: { '/log': 'Log', '/settings': 'Settings' },
};
const FOR_OPERATORS: ReadonlySet<string> = new Set(['/quarantine', '/log', '/settings']);

/** State of the daemon as it was last told, by an event or once by the status. */
function useDaemonState(): State | undefined {
  const [state, setState] = useState<State>();
  useEvents('state', setState);
  useEffect(() => {
    ask('status', { worst: 1 }).then(
      ({ state: asked }) => setState((known) => known ?? asked),
      // The documents of the page say why there is no answer.
      () => undefined,
    );
  }, []);
  return state;
}

const ICON_COLORS: Readonly<Record<Level, string>> = {
  ...{ good: '#1f9d63', busy: '#d08a00', bad: '#d33a2f', idle: '#8a94a6' },
};

/** Shows the state in the tab: its icon has the colour, its title the word. */
function useTab(title: string, level: Level): void {
  useEffect(() => {
    const mark = level === 'bad' ? '● ' : level === 'idle' ? '○ ' : '';
    document.title = `${mark}${title} · tapekeep`;
    const icon = document.querySelector<HTMLLinkElement>('link[rel=icon]');
    if (icon === null) return;
    const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="8" fill="${ICON_COLORS[level]}"/><path d="M8 22V13M14 22V8M20 22v-6M26 22V11" transform="translate(-1)" stroke="#fff" stroke-width="3" stroke-linecap="round"/></svg>`;
    icon.href = `data:image/svg+xml,${encodeURIComponent(svg)}`;
  }, [title, level]);
}

function Clock(): VNode {
  const now = useNow(1);
  return html`<span class="clock" title="Time of this machine">${clockTime(now)} UTC</span>`;
}

function Away(): VNode | null {
  const since = useAway();
  const now = useNow(1);
  if (since === null) return null;
  return html`<p class="away" role="alert">
    No answer since ${instant(since)} (${duration((now - since) / 1000)}).
    The page continues when the daemon answers.
  </p>`;
}

const isWithin = (path: string, entry: string) =>
  path === entry || (entry === '/markets' && path.startsWith('/market/'));

function menu({ path: here }: Place, isOperator: boolean): VNode {
  return html`<nav class="menu" aria-label="Pages">
    ${Object.entries(MENU).map(([title, entries]) => {
      const allowed = Object.entries(entries).filter(
        ([path]) => isOperator || !FOR_OPERATORS.has(path),
      );
      const link = ([path, name]: readonly [string, string]) =>
        html`<a href=${path} aria-current=${isWithin(here, path) ? 'page' : undefined}>${name}</a>`;
      return (
        allowed.length > 0 &&
        html`<div><span class="group">${title}</span>${allowed.map(link)}</div>`
      );
    })}
  </nav>`;
}

/** Shown instead of a page that failed. */
function broken(fault: unknown): VNode {
  return html`<h1>This page failed</h1>
    <p class="notice bad" role="alert">${String(fault)}</p>
    <p><button type="button" onClick=${() => location.reload()}>Load it again</button></p>`;
}

interface ShellProps {
  readonly place: Place;
  readonly title: string;
  /** Draws the page for who looks at it. */
  readonly page: (isOperator: boolean) => unknown;
}

export function Shell({ place, title, page }: ShellProps): VNode {
  const who = useAsk('who', {});
  const state = useDaemonState();
  const isAway = useAway() !== null;
  const [isOpen, setOpen] = useState(false);
  const level: Level = isAway ? 'idle' : (state?.level ?? 'idle');
  useTab(title, level);
  const [fault, forget] = useErrorBoundary();
  useEffect(() => {
    setOpen(false);
    forget();
  }, [place.path]);
  const isOperator = who.data?.role === 'operator';
  return html`
    <a class="skip" href="#main">Skip to the page</a>
    <div class="frame">
      <header class=${classes('side', isOpen && 'open')}>
        <div class="brand">
          <a href="/"><span class=${`logo ${level}`} aria-hidden="true"></span>tapekeep</a>
          <button type="button" class="quiet menu-button" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>
            Menu
          </button>
        </div>
        <a class=${`state-link ${level}`} href="/">
          <span class="dot-state" aria-hidden="true"></span>
          ${state === undefined && !isAway ? 'Asking…' : LEVEL_TEXTS[level]}
        </a>
        ${menu(place, isOperator)}
        <div class="foot">
          <${Clock} />
          ${
            who.data !== undefined &&
            html`<span>${who.data.role} · ${who.data.version}</span>
              ${
                who.data.isLoginNeeded &&
                html`<form method="post" action="/logout"><button class="quiet">Log out</button></form>`
              }`
          }
        </div>
      </header>
      <main id="main" tabindex="-1">
        <${Away} />
        ${fault === undefined ? page(isOperator) : broken(fault)}
      </main>
    </div>
  `;
}
