import { useLayoutEffect, useState } from 'preact/hooks';

/** Page and everything that is chosen on it. It is the address, so that a link shows the same. */
export interface Place {
  readonly path: string;
  readonly query: URLSearchParams;
}

type Changes = Readonly<Record<string, string | number | null | undefined>>;

/** Paths that the server answers itself. */
const SERVED = /^\/(api|assets|metrics|healthz|readyz|status|login|logout)(\/|$)/;

const listeners = new Set<() => void>();

const placeNow = (): Place => ({
  path: location.pathname,
  query: new URLSearchParams(location.search),
});

/** Goes to an address of the console. `isReplaced` keeps it out of the history, for typing. */
export function go(url: string, isReplaced = false): void {
  if (url === location.pathname + location.search) return;
  const isOtherPage = new URL(url, location.href).pathname !== location.pathname;
  if (isReplaced) history.replaceState(null, '', url);
  else history.pushState(null, '', url);
  for (const tell of listeners) tell();
  if (!isOtherPage) return;
  scrollTo(0, 0);
  document.querySelector<HTMLElement>('main')?.focus({ preventScroll: true });
}

/** Address of the same page with some of the query changed; null removes a name. */
export function changed({ path, query }: Place, changes: Changes): string {
  const next = new URLSearchParams(query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === '') next.delete(name);
    else next.set(name, String(value));
  }
  const text = next.toString();
  return text === '' ? path : `${path}?${text}`;
}

/** Address with a query of what is given. */
export const address = (path: string, query: Changes = {}) =>
  changed({ path, query: new URLSearchParams() }, query);

export function usePlace(): Place {
  const [place, setPlace] = useState(placeNow);
  useLayoutEffect(() => {
    const tell = () => setPlace(placeNow());
    listeners.add(tell);
    return () => void listeners.delete(tell);
  }, []);
  return place;
}

/** Makes links of the console change the page without loading it, and `/` focus its search. */
export function followLinks(): void {
  addEventListener('popstate', () => {
    for (const tell of listeners) tell();
  });
  document.addEventListener('click', (event) => {
    const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey;
    const link = event.target instanceof Element ? event.target.closest('a') : null;
    if (!isPlain || event.defaultPrevented || link === null) return;
    if (link.origin !== location.origin || link.target !== '' || link.download !== '') return;
    if (SERVED.test(link.pathname)) return;
    event.preventDefault();
    go(link.pathname + link.search);
  });
  document.addEventListener('keydown', (event) => {
    const isTyping = event.target instanceof Element && event.target.closest(TYPED) !== null;
    if (event.key !== '/' || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    const search = document.querySelector<HTMLInputElement>('input[type=search]');
    if (search === null) return;
    event.preventDefault();
    search.focus();
    search.select();
  });
}

const TYPED = 'input, textarea, select, [contenteditable], .editor';
