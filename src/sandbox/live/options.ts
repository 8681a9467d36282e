import type { CandleOpen, EmptyCandles } from '../candles.js';
import type { LiveMarketDescription } from './market-description.js';

/** An API key with the account behind it. */
export interface LiveKey {
  /** What people call it; deposits may go by it. */
  readonly name?: string;
  readonly key: string;
  readonly secret: string;
  /**
   * What the account has at the start: plain decimal texts by currency; default: 10,000 of every
   * currency that is traded.
   */
  readonly balances?: Readonly<Record<string, string>>;
  /** Whether it is activated; default true. What is signed with another fails to authenticate. */
  readonly isActive?: boolean;
}

/** What a live exchange trades, and how its time runs. */
export interface LiveOptions {
  /** Draws everything that the simulated traders do; default 7. */
  readonly seed?: number;
  /** Markets by name, or described in full; default: four, from busy to quiet. */
  readonly markets?: readonly (string | LiveMarketDescription)[];
  /** Seconds of the exchange per second of this machine; default 1, at most 1000. */
  readonly pace?: number;
  /** The exchange's time at the start, UNIX milliseconds; default: this machine's wall time. */
  readonly startMs?: number;
  /** Trading begins here, UNIX milliseconds; default: `startOffsetS` before the start. */
  readonly originMs?: number;
  /** How much history lies before the start, seconds; default 900. Left out when there is an origin. */
  readonly startOffsetS?: number;
  /** Most trades of a market that are served; default 100,000. */
  readonly historyMax?: number;
  /** Fee rates of all orders; default 0.002 and 0.001. */
  readonly takerFee?: string;
  readonly makerFee?: string;
  /** Default `omitted`. */
  readonly emptyCandles?: EmptyCandles;
  /** Default `first`. */
  readonly candleOpen?: CandleOpen;
  /**
   * Names this run of the exchange, and so allows what cannot be repeated: orders and funds from
   * outside, markets that come and go. It becomes part of the identity. Without it clients from
   * outside cannot change anything, and the same options show the same exchange after every start.
   */
  readonly runId?: string;
  /** API keys; they need a `runId`. Default none. */
  readonly keys?: readonly LiveKey[];
  /**
   * Nothing is ever forgotten, so that `truth` stays whole however long the exchange runs. For
   * tests: memory grows with every trade.
   */
  readonly keepAll?: boolean;
}
