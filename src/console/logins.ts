import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { BoundedMap } from '../kernel/bounded.js';
import type { Clock } from '../kernel/clock.js';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../kernel/durations.js';
import type { DaemonEvents } from '../observe/events.js';
import type { Role } from './api/endpoints.js';

/** Tokens, sessions of browsers, and the limit of attempts. */

/** Secrets of the settings; null where they are not set. */
export interface Tokens {
  readonly operator: string | null;
  readonly viewer: string | null;
}

/** Caller of a request: a role, nobody, or one who has tried too often. */
export type Caller = Role | 'nobody' | 'limited';

export const SESSION_COOKIE = 'tapekeep_session';
/** Longest life of a session, and its longest pause. */
export const SESSION_MS = 7 * DAY_MS;
const IDLE_MS = 12 * HOUR_MS;
const SESSIONS_MAX = 256;

/** Wrong tokens within a minute: of one address, and of all that are typed by people. */
const WRONG_MAX = 10;
const WRONG_MAX_ALL = 60;
const ADDRESSES_MAX = 1000;

interface Session {
  readonly role: Role;
  readonly startedMs: number;
  usedMs: number;
}

const digest = (text: string) => createHash('sha256').update(text).digest();

/** Times of wrong tokens, the newest `max` of them. */
class Wrongs {
  readonly #max: number;
  #times: number[] = [];

  constructor(max: number) {
    this.#max = max;
  }

  note(nowMs: number): void {
    this.#times = [...this.#times, nowMs].slice(-this.#max);
  }

  /** Time until the next attempt is allowed; 0: now. */
  waitMs(nowMs: number): number {
    const [oldest] = this.#times;
    if (oldest === undefined || this.#times.length < this.#max) return 0;
    return Math.max(0, oldest + MINUTE_MS - nowMs);
  }
}

/** Reads a login of HTTP: the token of Bearer, or the password of Basic. */
function secretOf(authorization: string): { readonly secret: string; readonly isTyped: boolean } {
  const [, scheme = '', value = ''] = /^(Bearer|Basic) +(\S{1,2048})$/i.exec(authorization) ?? [];
  if (scheme.toLowerCase() !== 'basic') return { secret: value, isTyped: false };
  const login = Buffer.from(value, 'base64').toString('utf8');
  return { secret: login.slice(login.indexOf(':') + 1), isTyped: true };
}

function sessionIdOf({ cookie = '' }: IncomingHttpHeaders): string | undefined {
  return new RegExp(`(?:^|;\\s*)${SESSION_COOKIE}=([\\w-]{43})(?:;|$)`).exec(cookie)?.[1];
}

/** Decides who a caller is. Sessions end with the process. */
export class Logins {
  readonly #clock: Clock;
  readonly #tokens: readonly (readonly [Role, Buffer])[];
  readonly #telemetry: Pick<DaemonEvents, 'loginTried'> | undefined;
  /** By the digest of their id: a copy of the memory opens no session. */
  readonly #sessions = new BoundedMap<string, Session>(SESSIONS_MAX);
  readonly #wrong = new BoundedMap<string, Wrongs>(ADDRESSES_MAX);
  readonly #wrongOfAll = new Wrongs(WRONG_MAX_ALL);

  constructor(
    clock: Clock,
    { operator, viewer }: Tokens,
    telemetry?: Pick<DaemonEvents, 'loginTried'>,
  ) {
    this.#clock = clock;
    this.#telemetry = telemetry;
    const tokens = [['operator', operator] as const, ['viewer', viewer] as const];
    this.#tokens = tokens.flatMap(([role, token]) =>
      token === null ? [] : [[role, digest(token)] as const],
    );
  }

  /** False: no token is set, and whoever reaches the port is operator. */
  get isNeeded(): boolean {
    return this.#tokens.length > 0;
  }

  /** Recognises the caller by the login of HTTP, else by the cookie. */
  callerOf(headers: IncomingHttpHeaders, address: string): Caller {
    if (!this.isNeeded) return 'operator';
    const { authorization } = headers;
    if (authorization === undefined) return this.#sessionOf(headers)?.role ?? 'nobody';
    const { secret, isTyped } = secretOf(authorization);
    return this.#roleOf(secret, address, isTyped);
  }

  /** Opens a session with a token that a person typed. @returns its id, or why there is none */
  open(secret: string, address: string): { readonly id: string } | 'nobody' | 'limited' {
    const role = this.#roleOf(secret, address, true);
    if (role === 'limited' || role === 'nobody') return role;
    this.#telemetry?.loginTried({ outcome: 'ok' });
    const id = randomBytes(32).toString('base64url');
    const nowMs = this.#clock.monotonicMs();
    this.#sessions.set(digest(id).toString('hex'), { role, startedMs: nowMs, usedMs: nowMs });
    return { id };
  }

  /** Ends the session of a browser, if there is one. */
  close(headers: IncomingHttpHeaders): void {
    const id = sessionIdOf(headers);
    if (id !== undefined) this.#sessions.delete(digest(id).toString('hex'));
  }

  /** Seconds after which an address may try again. */
  retryAfterS(address: string): number {
    const nowMs = this.#clock.monotonicMs();
    const waitMs = Math.max(
      this.#wrong.get(address)?.waitMs(nowMs) ?? 0,
      this.#wrongOfAll.waitMs(nowMs),
    );
    return Math.max(1, Math.ceil(waitMs / 1000));
  }

  /** Compares a secret with the tokens, unless too many were wrong of late. */
  #roleOf(secret: string, address: string, isTyped: boolean): Caller {
    const nowMs = this.#clock.monotonicMs();
    const own = this.#wrong.get(address) ?? new Wrongs(WRONG_MAX);
    // Programs send their token with each request: strangers elsewhere must not lock them out.
    if (own.waitMs(nowMs) > 0 || (isTyped && this.#wrongOfAll.waitMs(nowMs) > 0)) {
      this.#telemetry?.loginTried({ outcome: 'limited' });
      return 'limited';
    }
    const given = digest(secret);
    const [role] = this.#tokens.filter(([, token]) => timingSafeEqual(token, given)).flat();
    if (typeof role === 'string') return role;
    own.note(nowMs);
    this.#wrong.set(address, own);
    if (isTyped) this.#wrongOfAll.note(nowMs);
    this.#telemetry?.loginTried({ outcome: 'wrong' });
    return 'nobody';
  }

  #sessionOf(headers: IncomingHttpHeaders): Session | undefined {
    const id = sessionIdOf(headers);
    if (id === undefined) return undefined;
    const key = digest(id).toString('hex');
    const session = this.#sessions.get(key);
    if (session === undefined) return undefined;
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - session.usedMs > IDLE_MS || nowMs - session.startedMs > SESSION_MS) {
      this.#sessions.delete(key);
      return undefined;
    }
    session.usedMs = nowMs;
    this.#sessions.set(key, session);
    return session;
  }
}
