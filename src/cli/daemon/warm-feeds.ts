import type { StateEvent, StateFeed } from '../../client/index.js';
import { endsInTime } from '../../kernel/clock.js';
import { BoundedQueue } from '../../kernel/queue.js';
import type { Store } from '../../store/index.js';
import { isSwitchedOn } from '../gaps.js';
import { shareOf } from '../opening/database.js';
import {
  type ExchangeAccess,
  type ExchangeAddress,
  firstAnswer,
  openExchange,
  type Sending,
} from '../opening/exchange.js';
import type { Session } from '../opening/session.js';

/** Events that a feed keeps until it is taken; then its connection ends, as for any slow reader. */
const KEPT_EVENTS = 2_000;
/** A feed that brings no update for so long is not waited for: its market may be delisted. */
const READY_LIMIT_MS = 8_000;

interface KeptFeed {
  readonly feed: StateFeed;
  /** Resolves with the first pushed state: from there on the feed can be covered. */
  readonly isProven: Promise<void>;
}

/** Starts to read a feed, and keeps what it brings until it is iterated. */
function keep(feed: StateFeed): KeptFeed {
  const queue = new BoundedQueue<StateEvent>(KEPT_EVENTS);
  let prove: () => void = () => undefined;
  const isProven = new Promise<void>((resolve) => {
    prove = resolve;
  });
  const pump = async () => {
    for await (const event of feed) {
      await queue.put(event);
      if (event.kind === 'record' && event.origin === 'update') prove();
    }
  };
  // A feed that fails is as one that ended: whoever reads it opens another.
  const pumped = pump()
    .catch(() => undefined)
    .finally(() => queue.close());
  const stop = async () => {
    queue.close();
    await feed.stop();
    await pumped;
  };
  const { market, periodS } = feed;
  return {
    feed: {
      market,
      periodS,
      ask: () => feed.ask(),
      stop,
      [Symbol.asyncIterator]: () => iterate(queue),
    },
    isProven,
  };
}

async function* iterate(queue: BoundedQueue<StateEvent>): AsyncGenerator<StateEvent> {
  yield* queue;
}

/**
 * The exchange as a standby opens it before the archive is handed over: connected, subscribed to the states that the
 * archive has, and keeping what is pushed. So the states of both daemons overlap.
 */
export class WarmExchange {
  readonly access: ExchangeAccess;
  readonly #options: Session;
  readonly #kept = new Map<string, KeptFeed>();

  constructor(options: Session, address: ExchangeAddress, sending: Sending) {
    this.#options = options;
    const opened = openExchange(options, address, sending);
    this.access = {
      ...opened,
      openStateFeed: (market, periodS) => {
        const key = `${market} ${periodS}`;
        const kept = this.#kept.get(key);
        this.#kept.delete(key);
        return kept?.feed ?? opened.openStateFeed(market, periodS);
      },
      [Symbol.asyncDispose]: async () => {
        await this.release();
        await opened[Symbol.asyncDispose]();
      },
    };
  }

  /** Learns the exchange's time, subscribes, and waits for an update of each feed. @throws as {@link firstAnswer} */
  async open(store: Store, signal: AbortSignal): Promise<void> {
    const { config, clock } = this.#options;
    const { client, openStateFeed } = this.access;
    await firstAnswer(this.access, signal, this.#options, 1);
    // A second answer confirms the time of the first.
    await client.call('markets', {}, { signal, priority: 0 });
    if (!config.streams.states.enabled) return;
    const share = shareOf(config);
    for (const stream of await store.inspection.streams()) {
      const { kind, market, variant } = stream;
      const isNamed = config.markets.length === 0 || config.markets.includes(market);
      if (kind !== 'states' || !isNamed || !share.has(market) || !isSwitchedOn(config, stream))
        continue;
      this.#kept.set(`${market} ${variant}`, keep(openStateFeed(market, variant)));
    }
    const proven = Promise.all([...this.#kept.values()].map(({ isProven }) => isProven));
    await endsInTime(clock, READY_LIMIT_MS, proven);
  }

  /** Closes the feeds that nobody took. */
  async release(): Promise<void> {
    const left = [...this.#kept.values()];
    this.#kept.clear();
    await Promise.all(left.map(({ feed }) => feed.stop()));
  }
}
