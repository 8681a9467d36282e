import { type DialectName, dialectNames } from './dialects.js';

/** Requests that one remote address may send in a window, and whether more are refused. */
export interface RateLimitVariant {
  /** Requests per window. */
  readonly limit: number;
  readonly windowMs: number;
  /** True: requests beyond the limit get 429 with Retry-After. False: only the headers are sent. */
  readonly enforce: boolean;
}

const choice = <const Words extends readonly [string, ...string[]]>(
  about: string,
  ...words: Words
) => ({ about, words });

/**
 * Behaviours that the contract leaves open, or servers of the family change (field notes, Our defaults): each
 * word is a behaviour that a client must survive, the first one ours. Options of the
 * command line come from this table.
 */
const VARIANT_CHOICES = {
  /** With it goes all else that is known of the exchange, where no other is named. */
  dialect: choice('how it is asked', ...dialectNames),
  signedContent: choice('what is signed', 'payload', 'body'),
  /** `skip`: the number of most recent trades to leave out. `id`: only trades with a greater id. */
  sinceMode: choice('what since and lastId mean', 'skip', 'id'),
  historyTotal: choice('total of trades in history', 'sent', 'omitted'),
  tickerName: choice('name in tickers', 'sent', 'omitted'),
  /** `swapped`: what is due in an envelope comes bare, and the other way round. */
  envelopes: choice('which answers have one', 'contract', 'swapped'),
  precisions: choice('form of the precisions of markets', 'number', 'text'),
  bookFees: choice('fees of orders in the book', 'sent', 'omitted'),
  bidsOrder: choice('order of bids in the depth', 'best', 'ascending'),
  /**
   * `family`: an unknown market is HTTP 200 with code 500 on depth, and so on. `ok`: every refusal is
   * HTTP 200 with `success: false`. `numbered`: by numbers of its own.
   */
  errorShapes: choice('bodies of errors', 'contract', 'family', 'ok', 'numbered'),
  /** `markets`: states are those of a day then, and each update names its market. */
  subscribeForm: choice('what state.subscribe takes: one market, or a list', 'market', 'markets'),
  /** `family` names the market and carries `change`. */
  updateShape: choice('form of state.update', 'contract', 'family'),
  /** By the words of the dialect. `silent`: a subscription is acknowledged, and nothing follows. */
  tradeFeed: choice('whether trades are pushed', 'none', 'pushed', 'silent'),
  unknownMethod: choice('reaction to an unknown real-time method', 'error', 'silent'),
  unknownMarket: choice('reaction to an unknown market in a subscribed list', 'ignore', 'refuse'),
  badJson: choice('reaction to a real-time frame that is not JSON', 'ignore', 'close'),
};
/** Variants of candles, which are made before they are served (field notes, kline). */
export const CANDLE_CHOICES = {
  emptyCandles: choice('where nothing was traded', 'omitted', 'filled'),
  /** `previous` widens high and low accordingly. */
  candleOpen: choice('what candles open with', 'first', 'previous'),
};
type Choices = typeof VARIANT_CHOICES;
/** A word for each of them. */
export type ChosenVariants = { readonly [Name in keyof Choices]: Choices[Name]['words'][number] };

/** Something made of each choice. */
export function ofChoices<Made>(
  make: (name: string, about: string, words: readonly string[]) => Made,
) {
  const made = Object.entries(VARIANT_CHOICES).map(([name, { about, words }]) => {
    return [name, make(name, about, words)] as const;
  });
  return Object.fromEntries(made) as { readonly [Name in keyof Choices]: Made };
}

export interface ServerVariants extends ChosenVariants {
  /** Smallest `since` and `lastId` that is taken; a smaller one is refused by name. */
  readonly sinceMin: 0 | 1;
  /** Most trades in one page, whatever limit was asked for; undefined: the limit asked for. */
  readonly pageCap: number | undefined;
  /** Shortest time between two updates of one subscription. */
  readonly updateIntervalMs: number;
  /** A connection that sent no data frame for this long is closed. */
  readonly idleTimeoutMs: number;
  /**
   * Rate-limit headers and enforcement; `dialect`: no headers, and the limits that the dialect's row has;
   * false: neither.
   */
  readonly rateLimit: RateLimitVariant | 'dialect' | false;
}

export const DEFAULT_VARIANTS: ServerVariants = {
  ...(ofChoices((_name, _about, [first]) => first) as unknown as ChosenVariants),
  sinceMin: 0,
  pageCap: undefined,
  updateIntervalMs: 1000,
  idleTimeoutMs: 60_000,
  rateLimit: { limit: 500, windowMs: 60_000, enforce: false },
};

/** Behaviour common to all exchanges whose documents are one text (docs/reference/exchanges.md). */
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
    tradeFeed: 'pushed',
    unknownMethod: 'silent',
  },
  pointpay: DOCUMENTED,
  coinsbit: DOCUMENTED,
  'c-patex': DOCUMENTED,
  localtrade: DOCUMENTED,
  whitebit: {
    dialect: 'whitebit',
    sinceMode: 'id',
    sinceMin: 1,
    historyTotal: 'omitted',
    tickerName: 'omitted',
    precisions: 'text',
    errorShapes: 'ok',
    pageCap: 100,
    subscribeForm: 'markets',
    tradeFeed: 'pushed',
    unknownMarket: 'refuse',
    badJson: 'close',
    rateLimit: 'dialect',
  },
  p2b: {
    dialect: 'p2b',
    sinceMode: 'id',
    sinceMin: 1,
    historyTotal: 'omitted',
    tickerName: 'omitted',
    bookFees: 'omitted',
    errorShapes: 'numbered',
    pageCap: 100,
    subscribeForm: 'markets',
    unknownMethod: 'silent',
    rateLimit: 'dialect',
  },
} as const satisfies Readonly<Record<string, Partial<ServerVariants>>> &
  Readonly<Record<DialectName, Partial<ServerVariants>>>;
export type KnownExchange = keyof typeof KNOWN_EXCHANGES;

export const knownExchanges = Object.keys(KNOWN_EXCHANGES) as KnownExchange[];

/**
 * Departures from the contract: those of an exchange, and what is chosen besides.
 *
 * @param like undefined: the exchange whose dialect is chosen
 */
export function variantsLike(
  like: KnownExchange | undefined,
  chosen: Partial<ServerVariants>,
): Partial<ServerVariants> {
  return { ...KNOWN_EXCHANGES[like ?? chosen.dialect ?? 'contract'], ...chosen };
}
