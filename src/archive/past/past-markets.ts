import type { PastMarket } from './past.js';

export interface MarketRecord extends Omit<PastMarket, 'terms'> {
  readonly stock: string;
  readonly money: string;
  readonly stockPrec: number;
  readonly moneyPrec: number;
  readonly feePrec: number;
  readonly minAmount: string;
}

export interface FormerTerms
  extends Pick<MarketRecord, 'marketId' | 'stockPrec' | 'moneyPrec' | 'feePrec' | 'minAmount'> {
  readonly untilMs: number;
}

/** A market with its former terms, of all that there are. */
export function marketOf(row: MarketRecord, former: readonly FormerTerms[]): PastMarket {
  const { marketId, name, stock, money, firstSeenMs, delistedMs, oldestCoveredMs } = row;
  const termsOf = ({ stockPrec, moneyPrec, feePrec, minAmount }: Omit<FormerTerms, 'untilMs'>) => ({
    ...{ name, stock, money, stockPrec, moneyPrec, feePrec, minAmount },
  });
  const earlier = former
    .filter((one) => one.marketId === marketId)
    .map((one) => ({ market: termsOf(one), untilMs: one.untilMs }));
  const terms = [...earlier, { market: termsOf(row), untilMs: null }];
  return { marketId, name, firstSeenMs, delistedMs, oldestCoveredMs, terms };
}
