import type { RealtimeWords } from '../../contract/realtime.js';
import { BudgetOverrunError, type RequestBudget } from '../../kernel/budget.js';
import { type Clock, sleep } from '../../kernel/clock.js';
import { AbortedError } from '../../kernel/errors.js';
import { BoundedQueue } from '../../kernel/queue.js';
import type { Random } from '../../kernel/random.js';
import { Backoff, type BackoffOptions } from '../../kernel/retry.js';
import type { ClientEvents } from '../../observe/events.js';
import { InvalidAddressError } from '../errors.js';
import { DEFAULT_PRIORITY, type ProxyAddress } from '../exchange-client.js';
import type { ExchangeClock } from '../exchange-clock.js';
import { proxyAt } from '../http-proxy.js';
import { readAddress } from '../http-transport.js';

/** Options of all feeds. */
export interface ReconnectingOptions {
  /** `ws:` or `wss:`. */
  readonly url: string;
  /** Time for deadlines; {@link systemClock} outside of tests. */
  readonly clock: Clock;
  /** Spreads the waits between connections. */
  readonly random: Random;
  /** Proxy of connections; default none. */
  readonly proxy?: ProxyAddress | undefined;
  /** Shared by all feeds, so that a reconnect storm stays a trickle. One token a connection. */
  readonly connectBudget?: RequestBudget;
  /** Between connections: full jitter, reset only by data. Default 0.5 s doubling up to 60 s. */
  readonly backoff?: BackoffOptions;
  /** Events that may wait for the consumer. Default 1000. */
  readonly queueLimit?: number;
  /** Ends the feed like its `stop`. */
  readonly signal?: AbortSignal;
  /** Hears of connections and frames. */
  readonly telemetry: ClientEvents;
  /** Gives events the exchange's time. */
  readonly exchangeClock: ExchangeClock;
  /** How the exchange speaks, as its dialect says; default the contract's words. */
  readonly words?: RealtimeWords;
  /** Deadline of connecting, of each acknowledgement and each answer. Default 10 s. */
  readonly acknowledgeTimeoutMs?: number;
  /** How often a state.query, or a ping, keeps the connection open. Default 20 s. */
  readonly queryEveryMs?: number;
  /** Largest frame that is read. Default 64 KiB of states, 1 MiB of trades. */
  readonly maxFrameBytes?: number;
}

type Filled = 'words' | 'acknowledgeTimeoutMs' | 'queryEveryMs' | 'maxFrameBytes';
/** The options with everything filled in that a connection needs. */
export type FeedSettings = ReconnectingOptions & Required<Pick<ReconnectingOptions, Filled>>;

/** Target of a connection's events. */
export interface FeedSink<Event> {
  /** Everything but the end; false when there is no room, which ends the connection. */
  offer(event: Event): boolean;
  /** Called once a connection, as the last thing, synchronously at its end. */
  closed(event: Event): void;
}

/** Results of one connection. */
export interface Followed {
  /** It brought data: the next wait is short again. */
  readonly hadData: boolean;
  /** In [0, 1): where in the growing wait the next is tried; default by chance. */
  readonly draw?: number;
  /** The next is tried after this wait, in place of a growing one. */
  readonly waitMs?: number;
}

/** How one kind of feed connects, and what it says of the waits between. */
export interface Following<Event> {
  /** One connection, from beginning to end. */
  follow(sink: FeedSink<Event>, signal: AbortSignal): Promise<Followed>;
  /** True if a token of the connect budget is to be taken before; false: `follow` makes no connection, or sees to it. */
  readonly needsConnection: () => boolean;
  retrying(waitMs: number, attempts: number): Event;
}

const DEFAULT_BACKOFF = { baseMs: 500, capMs: 60_000 };
const DEFAULT_QUEUE_LIMIT = 1000;
const DEFAULT_ACKNOWLEDGE_TIMEOUT_MS = 10_000;
const DEFAULT_QUERY_EVERY_MS = 20_000;

/** @throws InvalidAddressError when `url` is not a plain ws or wss address */
function assertFeedAddress(url: string): void {
  if (readAddress('realtimeUrl', url, ['ws:', 'wss:']).hash !== '') {
    throw new InvalidAddressError('realtimeUrl', url, 'it must not have a fragment');
  }
}

/** @throws InvalidAddressError when `url` is not a plain ws or wss address, or `proxy` none of a proxy */
export function filledIn<Options extends ReconnectingOptions>(
  options: Options,
  maxFrameBytes: number,
): Options & FeedSettings {
  assertFeedAddress(options.url);
  proxyAt(options.proxy);
  return {
    ...options,
    words: options.words ?? {},
    acknowledgeTimeoutMs: options.acknowledgeTimeoutMs ?? DEFAULT_ACKNOWLEDGE_TIMEOUT_MS,
    queryEveryMs: options.queryEveryMs ?? DEFAULT_QUERY_EVERY_MS,
    maxFrameBytes: options.maxFrameBytes ?? maxFrameBytes,
  };
}

/**
 * A feed over one connection at a time that is renewed for ever.
 *
 * States: *connected* ⇄ *waiting* (back-off, or the connect budget) → *stopped*. It never gives up by
 * itself: attempts are bounded in rate, not in number.
 *
 * The queue has one place more than data may take. So the end of a connection that was open, hence had
 * room, always finds one, even while the feed is being stopped. Nothing else is reported while the
 * consumer lags: the next connection waits until `retrying` has found room.
 */
export class ReconnectingFeed<Event> implements AsyncIterable<Event> {
  readonly #options: ReconnectingOptions;
  readonly #following: Following<Event>;
  readonly #queueLimit: number;
  readonly #queue: BoundedQueue<Event>;
  readonly #stopping = new AbortController();
  readonly #done: Promise<void>;
  readonly #onSignal = () => void this.stop();
  readonly #sink: FeedSink<Event> = {
    offer: (event) => this.#queue.size < this.#queueLimit && this.#queue.offer(event),
    closed: (event) => {
      if (!this.#queue.offer(event)) this.#unreported = event;
    },
  };
  /** The end of a connection that never opened, while there was no room to report it. */
  #unreported: Event | undefined;
  #failure: unknown;

  constructor(options: ReconnectingOptions, following: Following<Event>) {
    this.#options = options;
    this.#following = following;
    this.#queueLimit = options.queueLimit ?? DEFAULT_QUEUE_LIMIT;
    this.#queue = new BoundedQueue(this.#queueLimit + 1);
    options.signal?.addEventListener('abort', this.#onSignal, { once: true });
    if (options.signal?.aborted) this.#stopping.abort(new AbortedError());
    this.#done = this.#run();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Event, void, undefined> {
    try {
      yield* this.#queue;
      if (this.#failure !== undefined) throw this.#failure as Error;
    } finally {
      await this.stop();
    }
  }

  async stop(): Promise<void> {
    // A running session reports its end within this call, before the queue closes behind it.
    this.#stopping.abort(new AbortedError());
    this.#queue.close();
    await this.#done;
  }

  async #run(): Promise<void> {
    const { clock, random, backoff: limits } = this.#options;
    const backoff = new Backoff(limits ?? DEFAULT_BACKOFF, random);
    const { signal } = this.#stopping;
    try {
      while (!signal.aborted) {
        const followed = await this.#follow(signal);
        if (followed?.hadData) backoff.reset();
        if (this.#unreported !== undefined) await this.#queue.put(this.#unreported);
        this.#unreported = undefined;
        const waitMs = followed?.waitMs ?? backoff.nextMs(followed?.draw);
        await this.#queue.put(this.#following.retrying(waitMs, backoff.attempts));
        await sleep(clock, waitMs, signal);
      }
    } catch (error) {
      if (!signal.aborted) this.#failure = error;
    } finally {
      this.#options.signal?.removeEventListener('abort', this.#onSignal);
      this.#queue.close();
    }
  }

  async #follow(signal: AbortSignal): Promise<Followed | undefined> {
    const following = this.#following;
    if (following.needsConnection() && !(await this.#mayConnect(signal))) return undefined;
    return following.follow(this.#sink, signal);
  }

  /** Waits for a connection token. A line that is too long counts as a failed attempt. */
  async #mayConnect(signal: AbortSignal): Promise<boolean> {
    try {
      await this.#options.connectBudget?.take(DEFAULT_PRIORITY, signal);
      return true;
    } catch (error) {
      if (error instanceof BudgetOverrunError) return false;
      throw error;
    }
  }
}
