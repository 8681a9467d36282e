import type { PastMarket } from '../archive/past.js';
import { Wakeup } from '../kernel/clock.js';
import type { StateFollower } from '../server/backend.js';
import type { ReplayContext } from './context.js';
import { type ChannelEvent, StateChannel } from './state-channel.js';
import type { VirtualClock } from './virtual-clock.js';

/** Without anything to do it looks again after this: recorded things may have come to be. */
const REST_MS = 60_000;
/** Records sent in a row before others of the process have their turn. */
const EVENTS_AT_ONCE = 64;
/** After a failure of the archive. */
const RETRY_MS = 1000;

/**
 * Plays the recorded updates of one session to those who follow them, all channels in one order of time.
 *
 * States: *resting* (no followers) → *playing* → *stopped*. While time is driven by its
 * followers, it goes from record to record as fast as all of them have room; without any it stands.
 */
export class Playback {
  readonly #context: ReplayContext;
  readonly #time: VirtualClock;
  readonly #channels = new Map<string, StateChannel>();
  readonly #wakeup: Wakeup;
  readonly #stopping = new AbortController();
  #running: Promise<void> | undefined;
  /** Counts what makes a look at the channels outdated. */
  #changes = 0;
  /** Counts jumps of time. */
  #laps = 0;

  constructor(context: ReplayContext, time: VirtualClock) {
    this.#context = context;
    this.#time = time;
    this.#wakeup = new Wakeup(context.options.clock);
  }

  /** Sends the last update, if there is one, and every later one in its time. Returns what ends it. */
  follow(market: string, periodS: number, follower: StateFollower): () => void {
    const key = `${market} ${periodS}`;
    let isEnded = false;
    // Taken at once: what happens while the channel is made is sent.
    const sinceMs = this.#time.nowMs();
    const laps = this.#laps;
    const start = async () => {
      const channel =
        this.#channels.get(key) ?? (await this.#makeChannel(market, periodS, sinceMs));
      // Another one may have made it meanwhile.
      const known = this.#channels.get(key) ?? channel;
      if (isEnded || this.#stopping.signal.aborted) return;
      if (known === channel && laps !== this.#laps) channel.unset(this.#time.nowMs());
      this.#channels.set(key, known);
      this.#changes += 1;
      known.add(follower, this.#time.nowMs());
      this.#running ??= this.#run();
      this.#wakeup.notify();
    };
    start().catch((error: unknown) => {
      this.#context.options.onFailure(error);
      follower.close(1011, 'the archive failed');
    });
    return () => {
      isEnded = true;
      const channel = this.#channels.get(key);
      channel?.remove(follower);
      if (channel?.isFollowed === false) this.#channels.delete(key);
    };
  }

  /** Time passes otherwise than before. */
  changed(): void {
    this.#wakeup.notify();
  }

  /** Time has jumped. */
  jumped(): void {
    this.#changes += 1;
    this.#laps += 1;
    for (const channel of this.#channels.values()) channel.unset(this.#time.nowMs());
    this.#wakeup.notify();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#channels.clear();
    await this.#running;
  }

  async #makeChannel(name: string, periodS: number, sinceMs: number): Promise<StateChannel> {
    const { options, sight, catalog } = this.#context;
    const { marketId } = catalog.market(name) as PastMarket;
    const { span, hasDisconnects } = options;
    const stream = catalog.stream('states', marketId, periodS);
    const isCut = hasDisconnects && stream !== undefined;
    const sessions = isCut ? await sight.past.sessions(stream, span) : undefined;
    return new StateChannel({ ...sight, marketId, periodS, sessions }, sinceMs);
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        await this.#play(signal);
      } catch (error) {
        if (signal.aborted) return;
        this.#context.options.onFailure(error);
        await this.#wakeup.wait(RETRY_MS, signal);
      }
    }
  }

  async #play(signal: AbortSignal): Promise<void> {
    const time = this.#time;
    let sent = 0;
    while (!signal.aborted) {
      const changes = this.#changes;
      const isFollowed = this.#channels.size > 0;
      // Without a promise where all is prepared: it would cost as much as the sending.
      const found = this.#peek() ?? (await this.#next());
      if (signal.aborted) return;
      if (found === undefined) {
        // Followers that came meanwhile, or from another time, are checked first.
        if (changes !== this.#changes) continue;
        // All that was recorded is sent.
        if (time.isDriven && isFollowed) time.advanceTo(time.span.toMs);
        await this.#wakeup.wait(REST_MS, signal);
        continue;
      }
      const { channel, event } = found;
      if (event.atMs > time.nowMs()) {
        if (!time.isDriven) {
          const delayMs = time.delayMs(event.atMs) ?? REST_MS;
          await this.#wakeup.wait(Math.min(delayMs, REST_MS), signal);
          continue;
        }
        time.advanceTo(event.atMs);
      }
      const room = channel.report(event);
      if (room !== undefined && time.isDriven) await room;
      sent += 1;
      if (sent % EVENTS_AT_ONCE === 0) await new Promise<void>((resolve) => setImmediate(resolve));
    }
  }

  /** The next event of all channels, when every channel is prepared. */
  #peek(): Found | undefined {
    let next: Found | undefined;
    for (const channel of this.#channels.values()) {
      const event = channel.next();
      if (event === undefined) return undefined;
      next = earlier(next, { channel, event });
    }
    return next;
  }

  async #next(): Promise<Found | undefined> {
    let next: Found | undefined;
    for (const channel of [...this.#channels.values()]) {
      if (channel.next() === undefined) await channel.prepare();
      const event = channel.next();
      if (event !== undefined) next = earlier(next, { channel, event });
    }
    return next;
  }
}

interface Found {
  readonly channel: StateChannel;
  readonly event: ChannelEvent;
}

/** The older channel comes first at the same time. */
function earlier(known: Found | undefined, other: Found): Found {
  return known === undefined || other.event.atMs < known.event.atMs ? other : known;
}
