import type { TimeNotice } from '../contract/extensions.js';
import type {
  ActiveOrder,
  Balance,
  BookOrder,
  Candle,
  CreatedOrder,
  Depth,
  Market,
  StateRecord,
  Ticker,
  TickerEntry,
} from '../contract/resources.js';
import type { Side } from '../contract/values.js';

/** Answers may come at once (an engine in memory) or later (an archive in a database). */
export type Awaitable<T> = T | Promise<T>;

/** A trade as a backend knows it. Both history endpoints are views of it. */
export interface BackendTrade {
  readonly id: number;
  /** Execution time, UNIX microseconds. */
  readonly timeUs: number;
  readonly price: string;
  readonly amount: string;
  /** price × amount, exactly. */
  readonly total: string;
  /** The taker's side. */
  readonly side: Side;
}

/** The two history endpoints: they show the same trades with other names and times. */
export type TradeForm = 'history' | 'historyResult';

export interface KlineQuery {
  readonly market: string;
  /** Both ends inclusive, UNIX seconds. */
  readonly startS: number;
  readonly endS: number;
  readonly intervalS: number;
}

export interface NewOrder {
  readonly market: string;
  readonly price: string;
  readonly amount: string;
  readonly side: Side;
}

/** A page of something countable. */
export interface Slice<T> {
  readonly total: number;
  readonly rows: readonly T[];
}

/**
 * A backend refuses a well-formed request. The server turns it into the contract's error body.
 */
export type Refusal =
  | 'invalidInput'
  | 'operationBlocked'
  /** The client asks for a session that cannot be; the message is shown. */
  | 'badSession'
  /** There is nothing to answer with, now or at all; the message is shown. */
  | 'unavailable';

export class RefusedError extends Error {
  readonly refusal: Refusal;

  constructor(refusal: Refusal, message: string) {
    super(message);
    this.name = 'RefusedError';
    this.refusal = refusal;
  }
}

/** A client of a backend that differs by client. */
export interface ClientSession {
  /** A request is answered as of one instant; on a connection time goes on. */
  readonly kind: 'request' | 'connection';
  /** Session that the client named, in a header or as a parameter; undefined: none. */
  readonly session: string | undefined;
  /** Adds a header to the reply to a request. Does nothing on a connection. */
  note(header: string, value: string): void;
}

/** An update of a state, written: of one that thousands follow the text is the same for all. */
export interface WrittenUpdate {
  /** The record of the contract's `state.update` in JSON: all but the change. */
  readonly recordText: string;
}

/** Who follows the states of a market. */
export interface StateFollower {
  /** Takes one update; a promise resolves once there is room for more, or the client is gone. */
  send(update: WrittenUpdate): Promise<void> | undefined;
  /** Ends the connection; codes that no frame may carry cut it. */
  close(code: number, reason: string): void;
}

/**
 * Backend of the served contract: a sandbox exchange or a replayed archive.
 *
 * Market names given to these methods are known ones: the server asks {@link Backend.hasMarket}
 * first. All times are the exchange's own.
 */
export interface Backend {
  /**
   * Names this exchange's history: the same text means the same trades. Sent as the header
   * `x-tapekeep-exchange`, so that an archive never mixes two sandboxes, or a sandbox with a real
   * exchange.
   */
  readonly identity: string;
  /** The exchange's time, UNIX milliseconds; shown in the Date header and in tickers' `at`. */
  nowMs(): number;
  /** The last jump of its time and where it led, another object for each; left out: time never jumps. */
  readonly jump?: { readonly toMs: number } | undefined;
  /** @throws RefusedError to a request when the answer is not known yet */
  hasMarket(market: string): boolean;
  markets(): Awaitable<Market[]>;
  tickers(): Awaitable<Record<string, TickerEntry>>;
  ticker(market: string): Awaitable<Ticker>;
  kline(query: KlineQuery): Awaitable<Candle[]>;
  /** Newest first, after skipping the `skip` most recent. */
  trades(market: string, skip: number, limit: number): Awaitable<readonly BackendTrade[]>;
  /**
   * Returns the page as the JSON text of the contract's array, to the byte what the server would write
   * of `trades`, from a backend that has the texts of its trades at hand; in parts, which callers
   * must not change. Left out by others.
   */
  tradesText?(form: TradeForm, market: string, skip: number, limit: number): readonly Uint8Array[];
  /** Best first on both sides, at most `limit` levels a side. */
  depth(market: string, limit: number): Awaitable<Depth>;
  book(market: string, side: Side, offset: number, limit: number): Awaitable<Slice<BookOrder>>;
  /** True if states of this period are served; left out: of any. */
  hasPeriod?(market: string, periodS: number): boolean;
  /** The state over the last `periodS` seconds, with `change`. */
  state(market: string, periodS: number): Awaitable<StateRecord>;
  /**
   * Calls `listener` whenever the state of the market may have changed, never within the call
   * itself. Returns a function that ends it.
   */
  watch(market: string, listener: () => void): () => void;
  /**
   * Sends every update of the state, from a backend that knows when each came; the server then
   * neither paces nor compares them. Left out by others. Returns a function that ends it.
   */
  follow?(market: string, periodS: number, follower: StateFollower): () => void;
  /**
   * The backend as this client is to see it. Left out where it is the same for all clients.
   *
   * @throws RefusedError `badSession`, `unavailable`
   */
  sessionFor?(client: ClientSession): Backend;
  /**
   * Reports how the time of this client's session goes on: at once, and whenever that changes. Left out: time
   * goes on by itself. Returns a function that ends it.
   */
  watchTime?(listener: (time: TimeNotice) => void): () => void;
  /** Called when the connection of this session has ended. */
  leave?(): void;
  /** Left out where there are none: then no signature is right. */
  readonly accounts?: Accounts;
  /** Steers its time while it is served; left out: it cannot be steered. */
  readonly clockControl?: ClockControl;
  /** Changes its markets while it is served; left out: nothing can be changed. */
  readonly marketControl?: MarketControl;
  /**
   * Every trade of a market until now and from a time (UNIX microseconds) on, oldest first, also
   * those not served any more, and of markets that are gone. Read at once. Left out where not all that
   * was ever issued is known.
   *
   * @throws TapekeepError when there never was such a market, or not all of it is known any more
   */
  truth?(market: string, fromUs: number): Iterable<BackendTrade>;
}

/** The accounts of a served exchange, by their API keys. */
export interface Accounts {
  /** The secret of an activated API key, or undefined. */
  secretOf(apiKey: string): string | undefined;
  balances(apiKey: string): Awaitable<Record<string, Balance>>;
  /** @throws RefusedError */
  placeOrder(apiKey: string, order: NewOrder): Awaitable<CreatedOrder>;
  activeOrders(
    apiKey: string,
    market: string,
    offset: number,
    limit: number,
  ): Awaitable<Slice<ActiveOrder>>;
}

/** Seconds of the exchange per second of this machine, as fast as followers read, or by hand. */
export type PlaySpeed = number | 'max' | 'step';

/** How the time of a session stands. */
export interface ClockReading {
  /** Null for the one that all share who name none. */
  readonly session: string | null;
  /** UNIX milliseconds, as all times here. */
  readonly nowMs: number;
  readonly fromMs: number;
  readonly toMs: number;
  /** `waiting` for its first client, `ended` at the end of the span. */
  readonly state: 'waiting' | 'running' | 'paused' | 'ended';
  readonly speed: PlaySpeed;
  /** Real-time connections. */
  readonly connections: number;
}

/**
 * The time of a served recording, steered from outside its contract. Each method throws a
 * TapekeepError, naming what was wrong and what is allowed, when it cannot do what is asked for;
 * then nothing has changed.
 */
export interface ClockControl {
  read(session: string | undefined): ClockReading;
  /** All sessions, the shared one first. */
  sessions(): readonly ClockReading[];
  /** Makes a session before its first client comes; one that there is stays as it is. */
  begin(session: string): ClockReading;
  pause(session: string | undefined): ClockReading;
  resume(session: string | undefined): ClockReading;
  seek(session: string | undefined, atMs: number): ClockReading;
  /** Goes ahead by `ms`, or, left out, to the next thing that was recorded. */
  step(session: string | undefined, ms: number | undefined): Promise<ClockReading>;
  setSpeed(session: string | undefined, speed: PlaySpeed): ClockReading;
  /** Forgets a session: its connections are closed, and its name is free again. */
  end(session: string): ClockReading;
}

/**
 * Changes of a served exchange from outside its contract. What is handed in is as it was written, in
 * JSON; what comes back is shown as JSON.
 *
 * Each method but `describe` throws a TapekeepError, naming field, value and what is allowed, when
 * it cannot do what is asked for; then nothing has changed.
 */
export interface MarketControl {
  /** True if anything can be changed at all. */
  readonly isOpen: boolean;
  /** The markets that are listed, and those that were, with all that describes them. */
  describe(): object;
  /** Lists a market, a new one or one that was delisted. */
  create(description: unknown): object;
  delist(market: string): object;
  /** Blocks the creation of orders in a market, or allows it again. */
  block(market: string, isBlocked: boolean): object;
  /** Gives funds to the account of an API key, by the key or by its name. */
  deposit(account: string, currency: string, amount: string): object;
}
