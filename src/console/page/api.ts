import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import type { Answer, Asked, ENDPOINTS, EndpointName } from '../api/endpoints.js';
import { onChange } from './live.js';

/** Client of `/api/v1`. Names, paths, questions and answers have the types of its table. */

type Paths = { readonly [Name in EndpointName]: (typeof ENDPOINTS)[Name]['path'] };

const PATHS: Paths = {
  ...{ who: '/who', status: '/status', activity: '/activity', storage: '/storage' },
  ...{ markets: '/markets', coverage: '/coverage', days: '/days' },
  ...{ gaps: '/gaps', gap: '/gaps/{id}', incidents: '/incidents' },
  ...{ fill: '/fill', fillProgress: '/fill', note: '/gaps/{id}/note' },
  day: '/days/{market}/{kind}/{day}',
  ...{ candles: '/candles', trades: '/trades', book: '/book' },
  ...{ query: '/query', cookbook: '/cookbook' },
  ...{ partitions: '/partitions', quarantine: '/quarantine', log: '/log', settings: '/settings' },
};

/** Answer that is none: what was wrong, and what to do. `status` 0: nobody answered. */
export class Refusal extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

/** Path with its parts put in, and what is left of the question. */
function placed(path: string, input: object): [string, Record<string, unknown>] {
  const rest: Record<string, unknown> = { ...input };
  const full = path.replace(/\{(\w+)\}/g, (_all, name: string) => {
    const part = encodeURIComponent(String(rest[name]));
    delete rest[name];
    return part;
  });
  return [`/api/v1${full}`, rest];
}

/** Address of a GET. */
function urlOf<Name extends EndpointName>(name: Name, input: Asked<Name>): string {
  const [path, rest] = placed(PATHS[name], input);
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(rest)) {
    const values = Array.isArray(value) ? value : [value];
    for (const one of values) if (one !== undefined && one !== '') query.append(key, String(one));
  }
  const text = query.toString();
  return text === '' ? path : `${path}?${text}`;
}

async function answered(url: string, init: RequestInit): Promise<Response> {
  const response = await fetch(url, { ...init, credentials: 'same-origin' }).catch(
    (error: unknown) => {
      if (init.signal?.aborted === true) throw error;
      throw new Refusal('The daemon does not answer. Is it running?', 0);
    },
  );
  if (response.ok) return response;
  if (response.status === 401) location.assign(`/login?next=${encodeURIComponent(hereText())}`);
  const said = (await response.json().catch(() => ({}))) as { readonly error?: string };
  throw new Refusal(said.error ?? `The daemon answered ${response.status}.`, response.status);
}

const hereText = () => location.pathname + location.search;

/** Reads a document. */
export async function ask<Name extends EndpointName>(
  name: Name,
  input: Asked<Name>,
  signal: AbortSignal | null = null,
): Promise<Answer<Name>> {
  const response = await answered(urlOf(name, input), { signal });
  return (await response.json()) as Answer<Name>;
}

/** Sends a POST. `accept` asks for another format than JSON. */
export async function send<Name extends EndpointName>(
  name: Name,
  input: Asked<Name>,
  { signal = null, accept }: { signal?: AbortSignal | null; accept?: string } = {},
): Promise<Response> {
  const [path, rest] = placed(PATHS[name], input);
  return await answered(path, {
    method: 'POST',
    signal,
    headers: { 'content-type': 'application/json', accept: accept ?? 'application/json' },
    body: JSON.stringify(rest),
  });
}

/** Does something, and returns what came of it. */
export async function act<Name extends EndpointName>(
  name: Name,
  input: Asked<Name>,
  signal: AbortSignal | null = null,
): Promise<Answer<Name>> {
  return (await (await send(name, input, { signal })).json()) as Answer<Name>;
}

/** Document as it is loaded. Old data stay while newer are asked for. */
export interface Loaded<T> {
  readonly data?: T;
  readonly fault?: Refusal;
  readonly reload: () => void;
}

/** Least time between two loads for changes that the daemon reports. */
const LEAST_MS = 5000;

/**
 * Loads a document, again each `everyS`, after a failure, and if `isFollowed` when coverage or gaps
 * changed. A hidden page asks for nothing.
 */
export function useAsk<Name extends EndpointName>(
  name: Name,
  input: Asked<Name>,
  { everyS = 0, isFollowed = false }: { everyS?: number; isFollowed?: boolean } = {},
): Loaded<Answer<Name>> {
  const [state, setState] = useState<Omit<Loaded<Answer<Name>>, 'reload'>>({});
  const [turn, setTurn] = useState(0);
  const reload = useCallback(() => setTurn((last) => last + 1), []);
  const isDown = useRef(false);
  const key = urlOf(name, input);
  useEffect(() => {
    const stop = new AbortController();
    ask(name, input, stop.signal).then(
      (data) => {
        isDown.current = false;
        setState({ data });
      },
      (error: unknown) => {
        if (stop.signal.aborted) return;
        const fault = error instanceof Refusal ? error : new Refusal(String(error), 0);
        isDown.current = fault.status === 0 || fault.status > 501;
        setState(({ data }) => ({ ...(data && { data }), fault }));
      },
    );
    return () => stop.abort();
  }, [key, turn]);
  useEffect(() => {
    let lastMs = Date.now();
    let isStale = false;
    const timer = setInterval(() => {
      const pausedMs = Date.now() - lastMs;
      const isDue = isStale || isDown.current || (everyS > 0 && pausedMs >= everyS * 1000);
      if (document.hidden || pausedMs < LEAST_MS || !isDue) return;
      lastMs = Date.now();
      isStale = false;
      reload();
    }, 1000);
    const mark = () => {
      isStale = true;
    };
    const forget = isFollowed ? onChange(mark) : undefined;
    return () => {
      clearInterval(timer);
      forget?.();
    };
  }, [everyS, isFollowed, reload]);
  return { ...state, reload };
}
