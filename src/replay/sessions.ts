import type { TimeNotice } from '../contract/extensions.js';
import type { Clock } from '../kernel/clock.js';
import {
  type ClockControl,
  type ClockReading,
  type PlaySpeed,
  RefusedError,
  type StateFollower,
} from '../server/backend.js';
import { type ReplayContext, ReplayError } from './context.js';
import { Playback } from './playback.js';
import { VirtualClock } from './virtual-clock.js';

/** Close code of a connection whose session has ended (RFC 6455, 7.4.1). */
const GOING_AWAY = 1001;
const SESSION_ENDED = 'the session has ended';

/** A time of its own, with those who live in it. */
export class ReplaySession {
  readonly name: string | undefined;
  readonly time: VirtualClock;
  readonly #clock: Clock;
  readonly #context: ReplayContext;
  readonly #playback: Playback;
  readonly #followers = new Set<StateFollower>();
  readonly #timeWatchers = new Set<(time: TimeNotice) => void>();
  #connections = 0;
  #usedAtMs: number;
  #isStopped = false;

  /** @param name undefined for the one that all share who name none */
  constructor(name: string | undefined, context: ReplayContext) {
    const { clock, span, speed } = context.options;
    this.name = name;
    this.#clock = clock;
    this.#context = context;
    this.#usedAtMs = clock.monotonicMs();
    this.time = new VirtualClock(clock, span, speed, () => {
      const { notice } = this.time;
      if (notice !== undefined) for (const watcher of this.#timeWatchers) watcher(notice);
      this.#playback.changed();
    });
    this.#playback = new Playback(context, this.time);
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

  watchTime(watcher: (time: TimeNotice) => void): () => void {
    this.#timeWatchers.add(watcher);
    const { notice } = this.time;
    if (notice !== undefined) watcher(notice);
    return () => void this.#timeWatchers.delete(watcher);
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
}

/** How often idle sessions are looked for. */
const LOOK_EVERY_MS = 15_000;
const NAME = /^[A-Za-z0-9_.-]{1,64}$/;
/** Sessions named in a refusal. */
const NAMES_SHOWN = 10;
const NAME_FORM = '1 to 64 letters, digits, dots, dashes or underscores';

const DEFAULT_MAX_SESSIONS = 1000;
const DEFAULT_IDLE_MS = 600_000;

/** The sessions of a replay: one that is shared, and those that clients name. */
export class Sessions implements ClockControl {
  readonly shared: ReplaySession;
  readonly #context: ReplayContext;
  readonly #max: number;
  readonly #idleMs: number;
  readonly #named = new Map<string, ReplaySession>();
  #cancelLook: (() => void) | undefined;
  #isStopped = false;

  constructor(context: ReplayContext) {
    const { maxSessions, sessionIdleMs } = context.options;
    this.#context = context;
    this.#max = maxSessions ?? DEFAULT_MAX_SESSIONS;
    this.#idleMs = sessionIdleMs ?? DEFAULT_IDLE_MS;
    this.shared = new ReplaySession(undefined, context);
  }

  /** The session of a client, made if need be. @throws RefusedError */
  of(name: string | undefined): ReplaySession {
    if (name === undefined) return this.shared;
    const known = this.#named.get(name);
    if (known !== undefined) return known;
    if (!NAME.test(name)) {
      throw new RefusedError('badSession', `the name of a session is ${NAME_FORM}`);
    }
    if (this.#isStopped || this.#named.size >= this.#max) {
      throw new RefusedError(
        'unavailable',
        `there are ${this.#max} sessions; one ends after no use for ${this.#idleMs / 1000} s`,
      );
    }
    const session = new ReplaySession(name, this.#context);
    this.#named.set(name, session);
    this.#cancelLook ??= this.#lookLater();
    return session;
  }

  begin(name: string): ClockReading {
    try {
      return this.of(name).read();
    } catch (error) {
      if (error instanceof RefusedError) throw new ReplayError(error.message);
      throw error;
    }
  }

  read(name: string | undefined): ClockReading {
    return this.#known(name).read();
  }

  sessions(): readonly ClockReading[] {
    return [this.shared, ...this.#named.values()].map((session) => session.read());
  }

  pause(name: string | undefined): ClockReading {
    return this.#change(name, (session) => session.time.pause());
  }

  resume(name: string | undefined): ClockReading {
    return this.#change(name, (session) => session.time.resume());
  }

  seek(name: string | undefined, atMs: number): ClockReading {
    return this.#change(name, (session) => session.seek(atMs));
  }

  setSpeed(name: string | undefined, speed: PlaySpeed): ClockReading {
    return this.#change(name, (session) => session.time.setSpeed(speed));
  }

  async step(name: string | undefined, ms: number | undefined): Promise<ClockReading> {
    const session = this.#known(name);
    await session.step(ms);
    return session.read();
  }

  end(name: string): ClockReading {
    const session = this.#known(name);
    const reading = session.read();
    this.#named.delete(name);
    void session.stop();
    return reading;
  }

  /** Ends all. Safe to call twice. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancelLook?.();
    const all = [this.shared, ...this.#named.values()];
    this.#named.clear();
    await Promise.all(all.map((session) => session.stop()));
  }

  /** @throws ReplayError for a name that none has: made here, a misspelt one would seem to be steered */
  #known(name: string | undefined): ReplaySession {
    if (name === undefined) return this.shared;
    const known = this.#named.get(name);
    if (known !== undefined) return known;
    if (!NAME.test(name)) throw new ReplayError(`the name of a session is ${NAME_FORM}`);
    const names = [...this.#named.keys()].slice(0, NAMES_SHOWN);
    const rest = this.#named.size - names.length;
    const there =
      names.length === 0
        ? 'there is only the shared one'
        : `there are ${names.join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
    throw new ReplayError(
      `no session of the name ${name}; ${there}. One begins with the first request of a client that names it, or by POST /replay/sessions, and ends after no use for ${this.#idleMs / 1000} s`,
    );
  }

  #change(name: string | undefined, change: (session: ReplaySession) => void): ClockReading {
    const session = this.#known(name);
    change(session);
    return session.read();
  }

  #lookLater(): () => void {
    const look = () => {
      this.#cancelLook = undefined;
      for (const [name, session] of this.#named) {
        if (session.idleMs < this.#idleMs) continue;
        this.#named.delete(name);
        void session.stop();
      }
      if (this.#named.size > 0 && !this.#isStopped) this.#cancelLook = this.#lookLater();
    };
    const everyMs = Math.min(LOOK_EVERY_MS, this.#idleMs);
    return this.#context.options.clock.after(everyMs, look, { background: true });
  }
}
