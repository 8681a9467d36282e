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
 * What the contract leaves open, or servers of the family do otherwise (field notes, Our defaults), as
 * ours do it. Each value of a type is a behaviour that a client must survive.
 */
export const DEFAULT_VARIANTS = {
  /** What a request's signature is computed over. */
  signedContent: 'payload' as SignedContent,
  /**
   * Meaning of `since` and `lastId`. `skip`: the number of most recent trades to leave out. `id`:
   * only trades with a greater id are returned.
   */
  sinceMode: 'skip' as 'skip' | 'id',
  /** Smallest `since` and `lastId` that is taken; a smaller one is refused by name. */
  sinceMin: 0 as 0 | 1,
  /** Whether `history` has the total of a trade. */
  historyTotal: 'told' as 'told' | 'omitted',
  /** Whether a ticker has its market's name. */
  tickerName: 'told' as 'told' | 'omitted',
  /** `swapped`: what is due in an envelope comes bare, and the other way round. */
  envelopes: 'contract' as 'contract' | 'swapped',
  /** How precisions of markets are carried. */
  precisions: 'number' as 'number' | 'text',
  /** Whether an order of the book has its fees. */
  bookFees: 'told' as 'told' | 'omitted',
  /** Most trades in one page, whatever limit was asked for; undefined: the limit asked for. */
  pageCap: undefined as number | undefined,
  /** Order of bids in depth/result. */
  bidsOrder: 'best' as 'best' | 'ascending',
  /**
   * `family`: an unknown market is HTTP 200 with code 500 on depth, and so on. `ok`: every refusal is
   * HTTP 200 with `success: false`.
   */
  errorShapes: 'contract' as 'contract' | 'family' | 'ok',
  /**
   * What `state.subscribe` takes: one `market` with a period, or a list of `markets`. Their states are
   * those of a day then, and each update names its market.
   */
  subscribeForm: 'market' as 'market' | 'markets',
  /** Shape of state.update: `family` names the market and carries `change`. */
  updateShape: 'contract' as 'contract' | 'family',
  /** Shortest time between two updates of one subscription. */
  updateIntervalMs: 1000,
  /** A connection that sent no data frame for this long is closed. */
  idleTimeoutMs: 60_000,
  /** Whether an unknown real-time method is answered. */
  unknownMethod: 'error' as 'error' | 'silent',
  /** What happens on a real-time frame that is not JSON. */
  badJson: 'ignore' as 'ignore' | 'close',
  /** Rate-limit headers and enforcement; false: neither. */
  rateLimit: { limit: 500, windowMs: 60_000, enforce: false } as RateLimitVariant | false,
};

export type ServerVariants = Readonly<typeof DEFAULT_VARIANTS>;

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
