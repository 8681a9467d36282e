import type { SignedContent } from '../contract/signing.js';

/** Requests that one remote address may send in a window, and whether more are refused. */
export interface RateLimitVariant {
  /** Requests per window. */
  readonly limit: number;
  readonly windowMs: number;
  /** True: requests beyond the limit get 429 with Retry-After. False: only the headers are sent. */
  readonly enforce: boolean;
}

/**
 * What the contract leaves open, or servers of the family do otherwise (field notes, Our defaults).
 * Each value is a behaviour that a client must survive; {@link DEFAULT_VARIANTS} are ours.
 */
export interface ServerVariants {
  /** What a request's signature is computed over. */
  readonly signedContent: SignedContent;
  /**
   * Meaning of `since` and `lastId`. `skip`: the number of most recent trades to leave out. `id`:
   * only trades with a greater id are returned.
   */
  readonly sinceMode: 'skip' | 'id';
  /** Smallest `since` and `lastId` that is taken; a smaller one is refused by name. */
  readonly sinceMin: 0 | 1;
  /** Whether `history` has the total of a trade. */
  readonly historyTotal: 'told' | 'omitted';
  /** Whether a ticker has its market's name. */
  readonly tickerName: 'told' | 'omitted';
  /** `swapped`: what is due in an envelope comes bare, and the other way round. */
  readonly envelopes: 'contract' | 'swapped';
  /** How precisions of markets are carried. */
  readonly precisions: 'number' | 'text';
  /** Whether an order of the book has its fees. */
  readonly bookFees: 'told' | 'omitted';
  /** Most trades in one page, whatever limit was asked for; undefined: the limit asked for. */
  readonly pageCap: number | undefined;
  /** Order of bids in depth/result. */
  readonly bidsOrder: 'best' | 'ascending';
  /**
   * `family`: an unknown market is HTTP 200 with code 500 on depth, and so on. `ok`: every refusal is
   * HTTP 200 with `success: false`.
   */
  readonly errorShapes: 'contract' | 'family' | 'ok';
  /**
   * What `state.subscribe` takes: one `market` with a period, or a list of `markets`. Their states are
   * those of a day then, and each update names its market.
   */
  readonly subscribeForm: 'market' | 'markets';
  /** Shape of state.update: `family` names the market and carries `change`. */
  readonly updateShape: 'contract' | 'family';
  /** Shortest time between two updates of one subscription. */
  readonly updateIntervalMs: number;
  /** A connection that sent no data frame for this long is closed. */
  readonly idleTimeoutMs: number;
  /** Whether an unknown real-time method is answered. */
  readonly unknownMethod: 'error' | 'silent';
  /** What happens on a real-time frame that is not JSON. */
  readonly badJson: 'ignore' | 'close';
  /** Rate-limit headers and enforcement; false: neither. */
  readonly rateLimit: RateLimitVariant | false;
}

export const DEFAULT_VARIANTS: ServerVariants = {
  signedContent: 'payload',
  sinceMode: 'skip',
  sinceMin: 0,
  historyTotal: 'told',
  tickerName: 'told',
  envelopes: 'contract',
  precisions: 'number',
  bookFees: 'told',
  pageCap: undefined,
  bidsOrder: 'best',
  errorShapes: 'contract',
  subscribeForm: 'market',
  updateShape: 'contract',
  updateIntervalMs: 1000,
  idleTimeoutMs: 60_000,
  unknownMethod: 'error',
  badJson: 'ignore',
  rateLimit: { limit: 500, windowMs: 60_000, enforce: false },
};

/** What all exchanges have in common whose documents are one text (docs/reference/exchanges.md). */
const DOCUMENTED = {
  sinceMode: 'id',
  sinceMin: 1,
  historyTotal: 'omitted',
  errorShapes: 'family',
  unknownMethod: 'silent',
} as const satisfies Partial<ServerVariants>;

/**
 * The exchanges that speak this contract, each as it was recorded or documented: how it departs from the
 * contract. What is known of each, and from where, stands in docs/reference/exchanges.md.
 */
export const KNOWN_EXCHANGES = {
  contract: {},
  // Recorded from the running exchange.
  earnbit: {
    sinceMode: 'id',
    bidsOrder: 'ascending',
    errorShapes: 'family',
    subscribeForm: 'markets',
    updateShape: 'family',
    unknownMethod: 'silent',
  },
  pointpay: { ...DOCUMENTED, bidsOrder: 'ascending' },
  coinsbit: DOCUMENTED,
  'c-patex': DOCUMENTED,
  localtrade: DOCUMENTED,
} as const satisfies Readonly<Record<string, Partial<ServerVariants>>>;
export type KnownExchange = keyof typeof KNOWN_EXCHANGES;

export const knownExchanges = Object.keys(KNOWN_EXCHANGES) as KnownExchange[];
