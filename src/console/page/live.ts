import { useEffect, useRef, useState } from 'preact/hooks';
import type { EVENTS } from '../api/documents.js';
import type { Sent } from '../api/endpoints.js';

/** One stream of events for the whole page. It is opened again, less and less often, when it breaks. */

type Topic = keyof typeof EVENTS;
type Listener = (data: never) => void;

const FIRST_WAIT_MS = 1000;
const LAST_WAIT_MS = 30_000;

/** By the topic, which of trades and books names the market: `trades:BTC_USDT`. */
const listeners = new Map<string, Set<Listener>>();
const watchers = new Set<() => void>();
let source: EventSource | undefined;
let openedFor = '';
let waitMs = FIRST_WAIT_MS;
let timer: ReturnType<typeof setTimeout> | undefined;
/** Time at which the stream broke, while it is broken. */
let brokenMs: number | null = null;
/** That time once a second attempt failed too: a restart of a second is not worth a word. */
let awaySinceMs: number | null = null;

function setAway(sinceMs: number | null): void {
  if (awaySinceMs === sinceMs) return;
  awaySinceMs = sinceMs;
  for (const tell of watchers) tell();
}

/** Tells that the daemon is away, unless only the stream of events is refused. */
async function tellAway(sinceMs: number): Promise<void> {
  const isThere = await fetch('/api/v1/who').then(
    ({ status }) => status < 500,
    () => false,
  );
  if (brokenMs !== null) setAway(isThere ? null : sinceMs);
}

function wantedUrl(): string {
  const topics = [...listeners].filter(([, set]) => set.size > 0).map(([topic]) => topic);
  if (topics.length === 0) return '';
  return `/api/v1/events?${new URLSearchParams({ topics: topics.sort().join(',') })}`;
}

function open(): void {
  clearTimeout(timer);
  timer = undefined;
  const url = wantedUrl();
  if (url === openedFor && source !== undefined) return;
  source?.close();
  source = undefined;
  openedFor = url;
  if (url === '' || document.hidden) return;
  const opened = new EventSource(url);
  source = opened;
  opened.onopen = () => {
    brokenMs = null;
    setAway(null);
  };
  opened.onerror = () => {
    opened.close();
    if (source !== opened) return;
    source = undefined;
    if (brokenMs !== null) void tellAway(brokenMs);
    brokenMs ??= Date.now();
    timer = setTimeout(open, waitMs);
    waitMs = Math.min(waitMs * 2, LAST_WAIT_MS);
  };
  for (const [topic, set] of listeners) {
    opened.addEventListener(topic.replace(/:.*/, ''), (event) => {
      waitMs = FIRST_WAIT_MS;
      const data = JSON.parse(event.data as string) as never;
      for (const listen of set) listen(data);
    });
  }
}

/** Waits until all parts of a page have said what they want. */
function openSoon(): void {
  if (brokenMs === null) timer ??= setTimeout(open, 50);
}

document.addEventListener('visibilitychange', () => {
  if (!document.hidden) return open();
  // A page that nobody sees costs the daemon nothing.
  source?.close();
  source = undefined;
});

function subscribe(topic: string, listen: Listener): () => void {
  const set = listeners.get(topic) ?? new Set();
  listeners.set(topic, set.add(listen));
  openSoon();
  return () => {
    set.delete(listen);
    openSoon();
  };
}

/** Calls `listen` with each message of a topic, while the component is shown. */
export function useEvents<T extends Topic>(
  topic: T,
  listen: (data: Sent<T>) => void,
  ofMarket = '',
): void {
  const latest = useRef(listen);
  latest.current = listen;
  useEffect(() => {
    const name = ofMarket === '' ? topic : `${topic}:${ofMarket}`;
    return subscribe(name, (data) => latest.current(data as Sent<T>));
  }, [topic, ofMarket]);
}

/** Calls `tell` when coverage or gaps changed, until the function returned is called. */
export function onChange(tell: () => void): () => void {
  return subscribe('changed', tell);
}

/** Time of the last answer if the daemon is silent, else null. */
export function useAway(): number | null {
  const [since, setSince] = useState(awaySinceMs);
  useEffect(() => {
    const tell = () => setSince(awaySinceMs);
    watchers.add(tell);
    return () => void watchers.delete(tell);
  }, []);
  return since;
}

/** Time of this machine, again each so many seconds, for what is told as "since". */
export function useNow(everyS: number): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const ticking = setInterval(() => setNow(Date.now()), everyS * 1000);
    return () => clearInterval(ticking);
  }, [everyS]);
  return now;
}
