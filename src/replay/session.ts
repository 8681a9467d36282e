import type { PastMarket } from '../archive/past/past.js';
import type { Clock } from '../kernel/clock.js';
import { normalizeSpans, type Span } from '../kernel/span.js';
import type { StateFollower } from '../server/backend.js';
import type { ClockReading, PlaySpeed } from '../server/control/clock-control.js';
import type { ReplayContext } from './library.js';
import { Playback } from './player.js';
import { ReplayError } from './replay-error.js';
import { StateChannel } from './state-track.js';
import { VirtualClock } from './virtual-clock.js';

/** Of a connection whose session has ended (RFC 6455, 7.4.1). */
const GOING_AWAY = 1001;
const SESSION_ENDED = 'the session has ended';

export interface SessionOptions {
  /** Undefined for the one that all share who name none. */
  readonly name: string | undefined;
  readonly clock: Clock;
  readonly span: Span;
  readonly speed: PlaySpeed;
  readonly context: ReplayContext;
  readonly hasDisconnects: boolean;
  readonly onFailure: (error: unknown) => void;
}

/** A time of its own, with those who live in it. */
export class ReplaySession {
  readonly name: string | undefined;
  readonly time: VirtualClock;
  readonly #clock: Clock;
  readonly #context: ReplayContext;
  readonly #playback: Playback;
  readonly #followers = new Set<StateFollower>();
  #connections = 0;
  #usedAtMs: number;
  #isStopped = false;

  constructor(options: SessionOptions) {
    const { clock, context } = options;
    this.name = options.name;
    this.#clock = clock;
    this.#context = context;
    this.#usedAtMs = clock.monotonicMs();
    this.time = new VirtualClock(clock, options.span, options.speed, () =>
      this.#playback.changed(),
    );
    this.#playback = new Playback({
      clock,
      time: this.time,
      onFailure: options.onFailure,
      makeTrack: (market, periodS, sinceMs) => this.#makeChannel(market, periodS, sinceMs, options),
    });
  }

  /** A client asks: time begins if it has not begun, and the session is not idle. */
  use(): void {
    this.#usedAtMs = this.#clock.monotonicMs();
    this.time.start();
  }

  connect(): void {
    this.#connections += 1;
    this.use();
  }

  disconnect(): void {
    this.#connections -= 1;
    this.#usedAtMs = this.#clock.monotonicMs();
  }

  /** Milliseconds since the last request; 0 while a client is connected. */
  get idleMs(): number {
    return this.#connections > 0 ? 0 : this.#clock.monotonicMs() - this.#usedAtMs;
  }

  follow(market: string, periodS: number, follower: StateFollower): () => void {
    // A connection may outlive its session without having followed anything until now.
    if (this.#isStopped) {
      follower.close(GOING_AWAY, SESSION_ENDED);
      return () => undefined;
    }
    this.#followers.add(follower);
    const end = this.#playback.follow(market, periodS, follower);
    return () => {
      this.#followers.delete(follower);
      end();
    };
  }

  seek(atMs: number): void {
    const { fromMs, toMs } = this.time.span;
    if (!(atMs >= fromMs && atMs <= toMs)) {
      const [from, to] = [new Date(fromMs).toISOString(), new Date(toMs).toISOString()];
      const asked = Math.abs(atMs) <= 8.64e15 ? new Date(atMs).toISOString() : String(atMs);
      throw new ReplayError(`to ${asked} is not allowed; this replay goes from ${from} to ${to}`);
    }
    this.time.seek(atMs);
    this.#playback.jumped();
  }

  /** Goes ahead by `ms`, or to the next recorded thing; what lies between is sent on the way. */
  async step(ms: number | undefined): Promise<void> {
    const { toMs } = this.time.span;
    const nowMs = this.time.nowMs();
    const aheadMs =
      ms === undefined ? ((await this.#context.nextTimeMs(nowMs)) ?? toMs) : nowMs + ms;
    this.time.advanceTo(Math.ceil(aheadMs));
    this.#playback.changed();
  }

  read(): ClockReading {
    return {
      session: this.name ?? null,
      nowMs: this.time.nowMs(),
      ...this.time.span,
      state: this.time.state,
      speed: this.time.speed,
      connections: this.#connections,
    };
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const follower of [...this.#followers]) follower.close(GOING_AWAY, SESSION_ENDED);
    await this.#playback.stop();
  }

  async #makeChannel(
    name: string,
    periodS: number,
    sinceMs: number,
    { clock, span, hasDisconnects }: SessionOptions,
  ): Promise<StateChannel> {
    const { asOf, catalog, gaps, observations, isKnownOnly } = this.#context;
    const market = catalog.market(name) as PastMarket;
    const { marketId } = market;
    const stream = catalog.stream('state', marketId, periodS);
    const sessions =
      hasDisconnects && stream !== undefined ? await asOf.sessions(stream, span) : undefined;
    const lastUpdate = (nowMs: number) => observations.state(marketId, periodS, nowMs, true);
    const { toMs } = span;
    const found = await gaps.touched('state', stream, { fromMs: 0, toMs }, toMs);
    const missing = normalizeSpans(found.map((gap) => gap.span));
    return new StateChannel(
      { asOf, clock, marketId, periodS, isKnownOnly, sessions, missing, toMs, lastUpdate },
      sinceMs,
    );
  }
}
