import type { GeneratedMarket } from '../markets.js';

/** A market of a live exchange. */
export interface LiveMarketDescription extends GeneratedMarket {
  /** Fee rates of orders in this market; default: those of the exchange. */
  readonly takerFee?: string;
  readonly makerFee?: string;
}
