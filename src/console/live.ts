import type { ServerResponse } from 'node:http';
import type { Clock } from '../kernel/clock.js';
import { HOUR_MS, SECOND_MS } from '../kernel/durations.js';
import { messageOf } from '../kernel/errors.js';
import type { DaemonEvents } from '../observe/events.js';
import type { ActivityColumns } from './activity.js';
import type { Answer } from './api/endpoints.js';
import { Refusal } from './api/refusal.js';
import type { State } from './state.js';

type Trade = Answer<'trades'>['trades'][number];
type Book = Answer<'book'>;

/** Sources of what pages are told. */
export interface LiveSources {
  readonly state: () => Promise<State>;
  readonly activity: () => ActivityColumns | undefined;
  /** Something that changes with each count of the ledger, and the kinds whose gaps differ from `before`. */
  readonly changed: (before: unknown) => { readonly mark: unknown; readonly kinds: string[] };
  /** Newest stored time of a market; without it every second is asked. */
  readonly newestMs?: (kind: 'trades' | 'depth', market: string) => number | undefined;
  /** Trades of a market from a time on, in their order; some of them may have been there before. */
  readonly trades?: (
    market: string,
    sinceMs: number,
    signal: AbortSignal,
  ) => Promise<readonly Trade[]>;
  readonly book?: (market: string, signal: AbortSignal) => Promise<Book | null>;
}

export interface LiveOptions {
  readonly clock: Clock;
  readonly sources: LiveSources;
  /** The exchange's time now. */
  readonly nowMs: () => number;
  readonly telemetry?: Pick<DaemonEvents, 'warned'> | undefined;
}

const TICK_MS = SECOND_MS;
/** Ticks between two looks at what concerns the whole daemon. */
const SLOW_TICKS = 2;
const HEARTBEAT_TICKS = 15;
const LISTENERS_MAX = 64;
const TOPICS_MAX = 12;
/** Markets that are polled at once, for all pages together. */
const WATCHED_MAX = 32;
/** A page that has not read so many bytes is dropped; it asks again by itself. */
const WAITING_BYTES_MAX = 256 * 1024;
/** A stream ends after this time, so that a login that has ended is noticed. */
const LIFE_MS = HOUR_MS;
/** Trades that are remembered, to send none twice. */
const REMEMBERED_MAX = 2000;

/** Trades are stored so much later than they happen. */
const LATE_MS = 30 * SECOND_MS;

const WHOLE = ['state', 'activity', 'changed'] as const;

/** Page that listens. */
interface Listener {
  readonly response: ServerResponse;
  readonly topics: ReadonlySet<string>;
  readonly sinceMs: number;
}

/** Topic that somebody listens to, with what was told last. */
interface Told {
  /** Newest text, for pages that come later. */
  text: string | undefined;
  isAsking: boolean;
  /** Time from which trades are asked for. */
  sinceMs: number;
  readonly ids: Set<string>;
  mark: unknown;
}

const eventText = (name: string, data: unknown) =>
  `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;

/**
 * Checks the topics of a request.
 *
 * @throws Refusal that names the one that there is not
 */
export function topicsOf(given: readonly string[]): Set<string> {
  const topics = new Set(given.flatMap((text) => text.split(',')).map((text) => text.trim()));
  const isKnown = (topic: string) =>
    WHOLE.some((name) => name === topic) || /^(?:trades|book):.{1,200}$/.test(topic);
  const unknown = [...topics].find((topic) => !isKnown(topic));
  if (topics.size === 0 || unknown === '') {
    throw new Refusal(400, 'topics is missing; it must be a list such as state,trades:BTC_USDT');
  }
  if (unknown !== undefined) {
    const all = [...WHOLE, 'trades:MARKET', 'book:MARKET'].join(', ');
    throw new Refusal(400, `topics has ${JSON.stringify(unknown)}; known are ${all}`);
  }
  if (topics.size > TOPICS_MAX) {
    throw new Refusal(400, `topics has ${topics.size} names; ${TOPICS_MAX} are the most`);
  }
  return topics;
}

/**
 * Tells pages of changes: one producer for all, which works while somebody listens. Each text is made once. A page
 * that does not read is dropped and never waited for.
 */
export class Live {
  readonly #options: LiveOptions;
  readonly #listeners = new Set<Listener>();
  readonly #told = new Map<string, Told>();
  readonly #stopping = new AbortController();
  #ticks = 0;
  #cancel: (() => void) | undefined;

  constructor(options: LiveOptions) {
    this.#options = options;
  }

  get listeners(): number {
    return this.#listeners.size;
  }

  /** @throws Refusal where too many listen already */
  refuseMore(topics: ReadonlySet<string>): void {
    if (this.#listeners.size >= LISTENERS_MAX) {
      throw new Refusal(503, `${LISTENERS_MAX} pages listen already; close some`, 30);
    }
    const watched = [...this.#told.keys(), ...topics].filter((topic) => topic.includes(':'));
    if (new Set(watched).size > WATCHED_MAX) {
      throw new Refusal(503, `${WATCHED_MAX} markets are watched already; close some pages`, 30);
    }
  }

  /** Writes events to a response whose head is written, until either side ends it. */
  listen(response: ServerResponse, topics: ReadonlySet<string>): void {
    const { clock, nowMs } = this.#options;
    const listener = { response, topics, sinceMs: clock.monotonicMs() };
    this.#listeners.add(listener);
    response.once('close', () => this.#leave(listener));
    response.write(': tapekeep\n\n');
    for (const topic of topics) {
      const told = this.#told.get(topic);
      if (told?.text !== undefined) response.write(told.text);
      if (told !== undefined) continue;
      const ids = new Set<string>();
      const mark = this.#options.sources.changed(undefined).mark;
      const fresh = { text: undefined, isAsking: false, sinceMs: nowMs() - LATE_MS, ids, mark };
      this.#told.set(topic, fresh);
      this.#look(topic, fresh);
    }
    this.#cancel ??= this.#wait();
  }

  /** Ends all streams. */
  stop(): void {
    this.#stopping.abort();
    for (const { response } of this.#listeners) response.destroy();
  }

  #wait(): () => void {
    return this.#options.clock.after(TICK_MS, () => this.#tick(), { background: true });
  }

  #leave(listener: Listener): void {
    this.#listeners.delete(listener);
    const heard = new Set([...this.#listeners].flatMap(({ topics }) => [...topics]));
    for (const topic of this.#told.keys()) if (!heard.has(topic)) this.#told.delete(topic);
    if (this.#listeners.size > 0) return;
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #tick(): void {
    this.#ticks += 1;
    this.#cancel = this.#wait();
    const endMs = this.#options.clock.monotonicMs() - LIFE_MS;
    for (const { response, sinceMs } of this.#listeners) {
      if (sinceMs <= endMs) response.end();
      else if (this.#ticks % HEARTBEAT_TICKS === 0) this.#write(response, ':\n\n');
    }
    for (const [topic, told] of this.#told) {
      if (topic.includes(':') || this.#ticks % SLOW_TICKS === 0) this.#look(topic, told);
    }
  }

  /** Asks for what is new of a topic, unless the question before has no answer yet. */
  #look(topic: string, told: Told): void {
    if (told.isAsking) return;
    told.isAsking = true;
    this.#ask(topic, told)
      .then((text) => {
        if (text === undefined || text === told.text) return;
        if (topic !== 'changed') told.text = text;
        this.#tell(topic, text);
      })
      .catch((error: unknown) => {
        if (this.#stopping.signal.aborted) return;
        const message = `console: events of ${topic}: ${messageOf(error)}`;
        this.#options.telemetry?.warned({ code: 'live_failed', message });
      })
      .finally(() => {
        told.isAsking = false;
      });
  }

  async #ask(topic: string, told: Told): Promise<string | undefined> {
    const { sources } = this.#options;
    const [name = '', ...rest] = topic.split(':');
    const market = rest.join(':');
    if (name === 'state') return eventText(name, await sources.state());
    if (name === 'activity') {
      const step = sources.activity();
      return step && eventText(name, step);
    }
    if (name === 'changed') {
      const { mark, kinds } = sources.changed(told.mark);
      told.mark = mark;
      return kinds.length === 0 ? undefined : eventText(name, { kinds });
    }
    const newestMs = sources.newestMs?.(name === 'book' ? 'depth' : 'trades', market);
    if (sources.newestMs !== undefined && told.mark === newestMs) return undefined;
    told.mark = newestMs;
    if (name === 'book') {
      const book = await sources.book?.(market, this.#stopping.signal);
      return book ? eventText(name, book) : undefined;
    }
    const found = (await sources.trades?.(market, told.sinceMs, this.#stopping.signal)) ?? [];
    const trades = found.filter(({ id }) => !told.ids.has(id));
    if (trades.length === 0) return undefined;
    // Trades of one time may be stored one after the other: that time is asked for again.
    told.sinceMs = Math.max(told.sinceMs, ...trades.map(({ timeMs }) => Math.floor(timeMs)));
    for (const { id } of trades) told.ids.add(id);
    for (const id of told.ids) {
      if (told.ids.size <= REMEMBERED_MAX) break;
      told.ids.delete(id);
    }
    return eventText(name, { market, trades });
  }

  #tell(topic: string, text: string): void {
    for (const { response, topics } of this.#listeners) {
      if (topics.has(topic)) this.#write(response, text);
    }
  }

  #write(response: ServerResponse, text: string): void {
    if (response.writableLength > WAITING_BYTES_MAX) response.destroy();
    else response.write(text);
  }
}
