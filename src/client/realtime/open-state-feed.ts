import { LIST_PERIOD_S } from '../../contract/realtime.js';
import { BudgetOverrunError } from '../../kernel/budget.js';
import { sleep } from '../../kernel/clock.js';
import { AbortedError } from '../../kernel/errors.js';
import { BoundedQueue } from '../../kernel/queue.js';
import { Backoff } from '../../kernel/retry.js';
import { InvalidAddressError } from '../errors.js';
import { DEFAULT_PRIORITY } from '../exchange-client.js';
import { readAddress } from '../http-transport.js';
import type { StateEvent, StateFeed, StateFeedOptions } from './state-feed.js';
import {
  type ClosedEvent,
  NORMAL_CLOSURE,
  type SessionSettings,
  type SessionSink,
  StateSession,
} from './state-session.js';
import { SubscriptionForm } from './subscription-form.js';

const DEFAULT_ACKNOWLEDGE_TIMEOUT_MS = 10_000;
const DEFAULT_QUERY_EVERY_MS = 20_000;
const DEFAULT_BACKOFF = { baseMs: 500, capMs: 60_000 };
const DEFAULT_MAX_FRAME_BYTES = 64 * 1024;
const DEFAULT_QUEUE_LIMIT = 1000;
/** Between two looks at whether a period is offered by now; most of them send nothing. */
const NOT_OFFERED_WAIT_MS = 60_000;

/**
 * Opens the feed of one market and period and starts to connect at once.
 *
 * @throws InvalidAddressError when `url` is not a plain ws or wss address
 */
export function openStateFeed(options: StateFeedOptions): StateFeed {
  const url = readAddress('realtimeUrl', options.url, ['ws:', 'wss:']);
  if (url.hash !== '') {
    throw new InvalidAddressError('realtimeUrl', options.url, 'it must not have a fragment');
  }
  return new ReconnectingFeed(options);
}

/**
 * States: *connected* (a {@link StateSession} runs) ⇄ *waiting* (back-off, or the connect budget)
 * → *stopped*. It never gives up by itself: attempts are bounded in rate, not in number.
 *
 * The queue has one place more than data may take. So the `closed` of a connection that was open,
 * hence had room, always finds one, even while the feed is being stopped. Nothing else is reported
 * while the consumer lags: the next connection waits until `retrying` has found room.
 */
class ReconnectingFeed implements StateFeed {
  readonly market: string;
  readonly periodS: number;
  readonly #options: StateFeedOptions;
  readonly #settings: SessionSettings;
  readonly #queueLimit: number;
  readonly #queue: BoundedQueue<StateEvent>;
  readonly #stopping = new AbortController();
  readonly #done: Promise<void>;
  readonly #onSignal = () => void this.stop();
  readonly #sink: SessionSink = {
    offer: (event) => this.#queue.size < this.#queueLimit && this.#queue.offer(event),
    closed: (event) => {
      if (!this.#queue.offer(event)) this.#unreported = event;
    },
  };
  /** The end of a connection that never opened, while there was no room to report it. */
  #unreported: ClosedEvent | undefined;
  #failure: unknown;

  constructor(options: StateFeedOptions) {
    this.market = options.market;
    this.periodS = options.periodS;
    this.#options = options;
    this.#settings = {
      ...options,
      subscriptionForm: options.subscriptionForm ?? new SubscriptionForm(options.clock),
      acknowledgeTimeoutMs: options.acknowledgeTimeoutMs ?? DEFAULT_ACKNOWLEDGE_TIMEOUT_MS,
      queryEveryMs: options.queryEveryMs ?? DEFAULT_QUERY_EVERY_MS,
      maxFrameBytes: options.maxFrameBytes ?? DEFAULT_MAX_FRAME_BYTES,
    };
    this.#queueLimit = options.queueLimit ?? DEFAULT_QUEUE_LIMIT;
    this.#queue = new BoundedQueue(this.#queueLimit + 1);
    options.signal?.addEventListener('abort', this.#onSignal, { once: true });
    if (options.signal?.aborted) this.#stopping.abort(new AbortedError());
    this.#done = this.#run();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<StateEvent, void, undefined> {
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
    const { clock, random, telemetry, backoff: limits } = this.#options;
    const backoff = new Backoff(limits ?? DEFAULT_BACKOFF, random);
    const { signal } = this.#stopping;
    const { market, periodS } = this;
    try {
      while (!signal.aborted) {
        const isOffered = await this.#follow(backoff);
        if (this.#unreported !== undefined) await this.#queue.put(this.#unreported);
        this.#unreported = undefined;
        const waitMs = isOffered ? backoff.nextMs() : NOT_OFFERED_WAIT_MS;
        telemetry.socketRetry({ market, periodS, waitMs });
        await this.#queue.put({ kind: 'retrying', waitMs, attempts: backoff.attempts });
        await sleep(clock, waitMs, signal);
      }
    } catch (error) {
      if (!signal.aborted) this.#failure = error;
    } finally {
      this.#options.signal?.removeEventListener('abort', this.#onSignal);
      this.#queue.close();
    }
  }

  /**
   * One connection, from beginning to end.
   *
   * @returns false where the exchange does not offer this period
   */
  async #follow(backoff: Backoff): Promise<boolean> {
    const { subscriptionForm } = this.#settings;
    if (subscriptionForm.isList && this.periodS !== LIST_PERIOD_S) {
      this.#unreported = this.#notOffered();
      return false;
    }
    if (!(await this.#mayConnect())) return true;
    const session = new StateSession(this.#settings, this.#sink);
    await session.run(this.#stopping.signal);
    if (session.hadData) backoff.reset();
    return session.endReason !== 'period_not_offered';
  }

  /** Reported in place of a connection that would end at once. */
  #notOffered(): ClosedEvent {
    const exchangeMs = this.#options.exchangeClock.nowMs();
    const reason = 'period_not_offered';
    const nothing = { lastAliveExchangeMs: null, livedMs: 0 };
    return { kind: 'closed', code: NORMAL_CLOSURE, reason, exchangeMs, ...nothing };
  }

  /** Waits for a connection token. A line that is too long counts as a failed attempt. */
  async #mayConnect(): Promise<boolean> {
    try {
      await this.#options.connectBudget?.take(DEFAULT_PRIORITY, this.#stopping.signal);
      return true;
    } catch (error) {
      if (error instanceof BudgetOverrunError) return false;
      throw error;
    }
  }
}
