import type { StateEvent, StateFeed } from '../../client/index.js';
import { endsInTime, sleep } from '../../kernel/clock.js';
import { codeOf, messageOf } from '../../kernel/errors.js';
import { Mutex } from '../../kernel/mutex.js';
import { BoundedQueue } from '../../kernel/queue.js';
import type { Store } from '../../store/index.js';
import { isSwitchedOn } from '../gaps.js';
import { shareOf } from '../opening/database.js';
import {
  type ExchangeAccess,
  type ExchangeAddress,
  firstAnswer,
  openExchange,
  settleTime,
} from '../opening/exchange.js';
import type { Session } from '../opening/session.js';

/** Events that a feed keeps until it is taken; then its connection ends, as for any slow reader. */
const KEPT_EVENTS = 2_000;
/** Older events are dropped while a daemon stands by: no takeover takes so long. */
const KEPT_MS = 30_000;
/** Two machines read the exchange's time so differently at most: what is taken reaches back by that much. */
const OVERLAP_MS = 2_000;
/** A feed that brings no update for so long is not waited for: its market may be delisted. */
const READY_LIMIT_MS = 8_000;
/** The list of markets is asked for so often: without its answers the exchange's time is unknown after a minute. */
const ASK_EVERY_MS = 30_000;

type Time = Pick<ExchangeAccess['time'], 'jumps' | 'nowMs'>;

const isUpdate = (event: StateEvent) => event.kind === 'record' && event.origin === 'update';

/** Index of the last update before an instant; -1 where there is none. */
function updateBefore(events: readonly StateEvent[], atMs: number): number {
  return events.findLastIndex(
    (event) => event.kind === 'record' && isUpdate(event) && event.exchangeMs < atMs,
  );
}

/**
 * Reads a feed, and keeps what its connection brought last until somebody takes it: its opening, and updates without
 * a hole, of which one is older than what is taken: from it on coverage is proven.
 *
 * States: *kept* → *taken*.
 */
export class KeptFeed {
  readonly #feed: StateFeed;
  readonly #time: Time;
  readonly #queue = new BoundedQueue<StateEvent>(KEPT_EVENTS);
  readonly #pumped: Promise<void>;
  #kept: StateEvent[] | undefined = [];
  #jumps: number;
  #prove: () => void = () => undefined;
  /** Resolves with the first pushed state: from there on the feed can be covered. */
  readonly isProven = new Promise<void>((resolve) => {
    this.#prove = resolve;
  });

  constructor(feed: StateFeed, time: Time) {
    this.#feed = feed;
    this.#time = time;
    this.#jumps = time.jumps;
    // A feed that fails is as one that ended: its reader opens another.
    this.#pumped = this.#pump()
      .catch(() => undefined)
      .finally(() => this.#queue.close());
  }

  /**
   * Returns the feed from now on, with what was kept.
   *
   * @param coveredUntilMs exchange time up to which another daemon stored it
   */
  take(coveredUntilMs = 0): StateFeed {
    const { market, periodS } = this.#feed;
    const provenMs = Math.floor(coveredUntilMs) - OVERLAP_MS;
    const [opened, ...kept] = this.#lived();
    const before = updateBefore(kept, provenMs);
    if (opened?.kind === 'opened') this.#queue.offer(before < 0 ? opened : { ...opened, provenMs });
    for (const event of kept.slice(before + 1)) this.#queue.offer(event);
    this.#kept = undefined;
    return {
      ...{ market, periodS },
      ask: () => this.#feed.ask(),
      stop: () => this.stop(),
      [Symbol.asyncIterator]: () => this.#queue[Symbol.asyncIterator](),
    };
  }

  /** Events that were kept since the exchange's clock jumped last. */
  #lived(): readonly StateEvent[] {
    const kept = this.#kept ?? [];
    const [opened] = kept;
    if (this.#time.jumps === this.#jumps || opened?.kind !== 'opened') return kept;
    return [{ ...opened, exchangeMs: this.#time.nowMs() }];
  }

  async stop(): Promise<void> {
    this.#queue.close();
    await this.#feed.stop();
    await this.#pumped;
  }

  async #pump(): Promise<void> {
    for await (const event of this.#feed) {
      if (isUpdate(event)) this.#prove();
      if (this.#kept === undefined) await this.#queue.put(event);
      else this.#kept = this.#with(this.#kept, event);
    }
  }

  #with(kept: StateEvent[], event: StateEvent): StateEvent[] {
    if (event.kind === 'opened') return [event];
    const [opened] = kept;
    // Behind an ended connection there is a gap.
    if (opened?.kind !== 'opened' || event.kind === 'closed' || event.kind === 'retrying')
      return [];
    const { jumps } = this.#time;
    const isLost = jumps !== this.#jumps || kept.length >= KEPT_EVENTS;
    this.#jumps = jumps;
    const from = isLost ? [{ ...opened, exchangeMs: event.exchangeMs }] : kept;
    // Nothing before the first update can be covered.
    if (from.length === 1 && !isUpdate(event)) return from;
    from.push(event);
    const before = updateBefore(from, this.#time.nowMs() - KEPT_MS);
    return before <= 1 ? from : [from[0] ?? event, ...from.slice(before)];
  }
}

/**
 * The real-time connections of a daemon that stands by: subscribed to the states that the archive has, keeping what is
 * pushed. So the states of both daemons overlap, and none is missing between the two.
 */
export class WarmFeeds {
  readonly #options: Session;
  readonly #access: ExchangeAccess;
  readonly #kept = new Map<string, KeptFeed>();
  readonly #turn = new Mutex();
  readonly #ending = new AbortController();
  #keeping: Promise<void> = Promise.resolve();

  constructor(options: Session, address: ExchangeAddress) {
    this.#options = options;
    // The holder uses what the limit allows: few requests come on top of its own.
    this.#access = openExchange(options, address, { firstTokens: 1, isHeldBack: () => false });
  }

  /** Keeps them open until they are taken or released, also for markets that come later. */
  keepOpen(store: Store): void {
    if (!this.#options.config.streams.states.enabled) return;
    this.#keeping = this.#keepOpen(store).catch(() => undefined);
  }

  /** Learns the exchange's time, and subscribes what is not subscribed yet. @throws as {@link firstAnswer} */
  async open(store: Store): Promise<void> {
    await this.#turn.run(() => this.#open(store));
  }

  /** Resolves when each feed brought an update, or after a time. */
  async untilProven(): Promise<void> {
    const proven = Promise.all([...this.#kept.values()].map(({ isProven }) => isProven));
    await endsInTime(this.#options.clock, READY_LIMIT_MS, proven);
  }

  /** An access whose feeds of states go on with the connections that are open here. */
  over(access: ExchangeAccess): ExchangeAccess {
    this.#ending.abort();
    return {
      ...access,
      openStateFeed: (market, periodS, coveredUntilMs) => {
        const key = `${market} ${periodS}`;
        const kept = this.#kept.get(key);
        this.#kept.delete(key);
        return kept?.take(coveredUntilMs) ?? access.openStateFeed(market, periodS);
      },
      [Symbol.asyncDispose]: async () => {
        await this.release();
        await access[Symbol.asyncDispose]();
      },
    };
  }

  /** Closes the feeds that nobody took. */
  async release(): Promise<void> {
    this.#ending.abort();
    await this.#keeping;
    const left = [...this.#kept.values()];
    this.#kept.clear();
    await Promise.all(left.map((feed) => feed.stop()));
    await this.#access[Symbol.asyncDispose]();
  }

  async #keepOpen(store: Store): Promise<void> {
    const { clock, telemetry } = this.#options;
    const { signal } = this.#ending;
    let isTold = false;
    for (;;) {
      try {
        await this.open(store);
        isTold = false;
      } catch (error) {
        signal.throwIfAborted();
        const message = `real-time connections of a standby: ${messageOf(error)}`;
        if (!isTold) telemetry.daemon.warned({ code: codeOf(error), message });
        isTold = true;
      }
      await sleep(clock, ASK_EVERY_MS, signal);
    }
  }

  async #open(store: Store): Promise<void> {
    const { config } = this.#options;
    const { openStateFeed, time } = this.#access;
    const { signal } = this.#ending;
    await firstAnswer(this.#access, signal, this.#options, 1);
    const share = shareOf(config);
    const streams = config.streams.states.enabled ? await store.inspection.streams() : [];
    signal.throwIfAborted();
    for (const stream of streams) {
      const { kind, market, variant } = stream;
      const isNamed = config.markets.length === 0 || config.markets.includes(market);
      if (kind !== 'states' || !isNamed || !share.has(market) || !isSwitchedOn(config, stream))
        continue;
      const key = `${market} ${variant}`;
      if (this.#kept.has(key)) continue;
      this.#kept.set(key, new KeptFeed(openStateFeed(market, variant), time));
    }
    // A takeover need not wait for it then.
    await settleTime(this.#access, signal, this.#options);
  }
}
