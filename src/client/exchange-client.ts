import type { DialectName } from '../contract/dialects.js';
import type { RejectedRow } from '../contract/shape.js';
import type { SignedContent } from '../contract/signing.js';
import type { RequestBudget } from '../kernel/budget.js';
import type { Clock } from '../kernel/clock.js';
import type { Random } from '../kernel/random.js';
import type { ClientEvents } from '../observe/events.js';
import type { ExchangeClock } from './exchange-clock.js';

/** An answer of the exchange, with everything needed to judge how old and how complete it is. */
export interface Reply<T> {
  /** Result: the rows that fit the contract. */
  readonly data: T;
  /** Rows that did not fit the contract. They are not in `data`; put them into quarantine. */
  readonly rejected: readonly RejectedRow[];
  /**
   * Exchange time when the request left, UNIX milliseconds, estimated with the knowledge of this
   * very answer. What the answer shows is at least as new as this.
   */
  readonly sentAtMs: number;
  /** Exchange time when the answer was complete, whole UNIX milliseconds, estimated likewise. */
  readonly answeredAtMs: number;
  /** The answer's Date header, UNIX milliseconds (whole seconds); null when it has none. */
  readonly dateMs: number | null;
  /**
   * When a cache took up the answer, UNIX milliseconds, where the answer says so (`cache_time`); null
   * elsewhere. It shows that time; `sentAtMs` is not later.
   */
  readonly cachedAtMs: number | null;
  /**
   * True if the exchange refuses an offset of 0 (`since`, `lastId`), so that 1 was sent. Where the
   * offset counts trades, the newest one is then missing.
   */
  readonly isRaised: boolean;
  /** The header `x-tapekeep-exchange`: names the history that is served; null elsewhere. */
  readonly identity: string | null;
  /** This machine's wall clock when the answer was complete. */
  readonly receivedAtMs: number;
  /** From sending to the last byte, milliseconds; waiting for the budget is not in it. */
  readonly durationMs: number;
  /** Size of the body. */
  readonly bytes: number;
}

/** How one call is made. Everything may be left out. */
export interface CallOptions {
  /** Place in the request budget's line: lower goes first. Default {@link DEFAULT_PRIORITY}. */
  readonly priority?: number;
  /**
   * Gives the call up: it fails with the signal's reason. An order that had left by then fails with
   * UnknownOutcomeError.
   */
  readonly signal?: AbortSignal;
  /**
   * `get` (default for public endpoints) needs no credentials; `post` is the signed form. Private
   * endpoints are always `post`.
   */
  readonly form?: 'get' | 'post';
  /** A turn of {@link ExchangeApi.reserve}: the call waits for nothing, and uses the turn up. */
  readonly turn?: RequestTurn;
}

/** The right to send one request now: for a call's options, or to be given back. */
export interface RequestTurn {
  /** Lets others have it; does nothing once the turn is used. */
  giveBack(): void;
}

/** Priority of calls that name none. */
export const DEFAULT_PRIORITY = 10;

/** Credentials of signed calls (contract, Authentication). */
export interface Credentials {
  /** Public part of the key, sent with each signed call. */
  readonly apiKey: string;
  /** Its secret part: signs, and is never sent or logged. */
  readonly secret: string;
}

/** A proxy in front of an exchange. */
export interface ProxyAddress {
  /** `http://host:port` or `https://…`; user and password in it are sent to the proxy. */
  readonly url: string;
  /** Name for messages, such as `HTTPS_PROXY`. */
  readonly setting: string;
}

/** Keeps the last nonce over restarts, so that a wall clock set back does not lock the key out. */
export interface NonceStore {
  /** Place where it is kept, such as the path of a file, for errors. */
  readonly place?: string | undefined;
  /**
   * Waits until no other request is signed with this key, and keeps it so until the function
   * returned is called, which never fails. Held from before the nonce is taken until the answer is
   * there. Left out where this client is the only one that uses the key.
   */
  lock?(signal?: AbortSignal): Promise<() => Promise<void>>;
  /** The last saved nonce, or undefined. Asked before every request: others may have moved it. */
  load(): Promise<number | undefined>;
  /** Called before the request with this nonce leaves. */
  save(nonce: number): Promise<void>;
}

/**
 * Options of {@link createExchangeClient}: a client in parts, for programs that share budget and clock
 * among several. {@link ExchangeClient} brings all of it by itself.
 */
export interface ExchangeClientOptions {
  /** `http:` or `https:`, a path prefix is allowed. */
  readonly baseUrl: string;
  /** Time for deadlines and nonces; {@link systemClock} outside of tests. */
  readonly clock: Clock;
  /** Spreads the waits that the exchange asks for. */
  readonly random: Random;
  /** Hears of every request. */
  readonly telemetry: ClientEvents;
  /** Shared by everything that speaks HTTP to this exchange. */
  readonly budget: RequestBudget;
  /** Fed with the Date header of every answer. */
  readonly exchangeClock: ExchangeClock;
  /** For private endpoints and signed forms; without them those are refused before anything is sent. */
  readonly credentials?: Credentials;
  /** How the exchange wants to be asked; default as the contract says. */
  readonly dialect?: DialectName;
  /** Text that a signature covers (contract, Authentication); default `payload`, as servers of the family do. */
  readonly signedContent?: SignedContent;
  /** Keeps nonces over restarts; without it they are the time, and grow in this process only. */
  readonly nonceStore?: NonceStore;
  /** Deadline of a whole request, from the first byte sent to the last received. Default 10,000. */
  readonly timeoutMs?: number;
  /** Largest accepted body. Default 4 MiB. */
  readonly maxBodyBytes?: number;
  /** Kept-alive connections, and so requests under way at the same time. Default 8. */
  readonly connections?: number;
  /** Proxy of requests; default none. */
  readonly proxy?: ProxyAddress | undefined;
}
