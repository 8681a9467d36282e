import type { Clock } from '../kernel/clock.js';
import { RefusedError } from '../server/backend.js';
import type { ClockControl, ClockReading, PlaySpeed } from '../server/control/clock-control.js';
import { ReplayError } from './replay-error.js';
import type { ReplaySession } from './session.js';

/** How often idle sessions are looked for. */
const LOOK_EVERY_MS = 15_000;
const NAME = /^[A-Za-z0-9_.-]{1,64}$/;
const NAME_FORM = '1 to 64 letters, digits, dots, dashes or underscores';

export interface SessionsOptions {
  readonly clock: Clock;
  readonly make: (name: string | undefined) => ReplaySession;
  /** Named sessions that there may be at once. */
  readonly max: number;
  /** An unused named session is forgotten after this time. */
  readonly idleMs: number;
}

/** The sessions of a replay: one that is shared, and those that clients name. */
export class Sessions implements ClockControl {
  readonly #options: SessionsOptions;
  readonly #named = new Map<string, ReplaySession>();
  readonly #shared: ReplaySession;
  #cancelLook: (() => void) | undefined;
  #isStopped = false;

  constructor(options: SessionsOptions) {
    this.#options = options;
    this.#shared = options.make(undefined);
  }

  get shared(): ReplaySession {
    return this.#shared;
  }

  /** The session of a client, made if need be. @throws RefusedError */
  of(name: string | undefined): ReplaySession {
    if (name === undefined) return this.#shared;
    const known = this.#named.get(name);
    if (known !== undefined) return known;
    if (!NAME.test(name)) {
      throw new RefusedError('badSession', `the name of a session is ${NAME_FORM}`);
    }
    const { max, idleMs, make } = this.#options;
    if (this.#isStopped || this.#named.size >= max) {
      throw new RefusedError(
        'unavailable',
        `there are ${max} sessions; one ends when nobody uses it for ${idleMs / 1000} s`,
      );
    }
    const session = make(name);
    this.#named.set(name, session);
    this.#cancelLook ??= this.#lookLater();
    return session;
  }

  read(name: string | undefined): ClockReading {
    return this.#known(name).read();
  }

  sessions(): readonly ClockReading[] {
    return [this.#shared, ...this.#named.values()].map((session) => session.read());
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
    const all = [this.#shared, ...this.#named.values()];
    this.#named.clear();
    await Promise.all(all.map((session) => session.stop()));
  }

  /** It may be steered before the first client comes. */
  #known(name: string | undefined): ReplaySession {
    if (name === undefined) return this.#shared;
    const known = this.#named.get(name);
    if (known !== undefined) return known;
    try {
      return this.of(name);
    } catch (error) {
      if (error instanceof RefusedError) throw new ReplayError(error.message);
      throw error;
    }
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
        if (session.idleMs < this.#options.idleMs) continue;
        this.#named.delete(name);
        void session.stop();
      }
      if (this.#named.size > 0 && !this.#isStopped) this.#cancelLook = this.#lookLater();
    };
    const everyMs = Math.min(LOOK_EVERY_MS, this.#options.idleMs);
    return this.#options.clock.after(everyMs, look, { background: true });
  }
}
