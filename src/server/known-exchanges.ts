import type { ServerVariants } from './variants.js';

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
