import type { Market } from '../contract/resources.js';
import type { Span } from '../kernel/span.js';
import { LAST_SEEN_ALIVE, millisSql, type Store, timestampSql } from '../store/index.js';

/** Facts of the archive beside rows: its exchange, its markets with all their terms, its connections. */

/** A market with all the terms that it ever had. */
export interface PastMarket {
  readonly marketId: number;
  readonly name: string;
  /** Oldest first; each holds up to `untilMs`, the last one (null) until now. */
  readonly terms: ReadonlyArray<{ readonly market: Market; readonly untilMs: number | null }>;
  readonly firstSeenMs: number;
  readonly delistedMs: number | null;
  /** When it was away and came back: from the first list that lacked it to the first that had it again. */
  readonly away: readonly Span[];
}

/** A connection that once brought states. */
export interface PastSession {
  readonly openedMs: number;
  /** Its end, or where it was last seen alive if it never was closed. */
  readonly endedMs: number;
  readonly closeCode: number | null;
  readonly reason: string;
}

/** Whose archive it is. */
export interface PastIdentity {
  readonly name: string;
  readonly baseUrl: string;
  readonly identity: string | null;
  readonly createdAt: string;
}

export const IDENTITY = `
  SELECT name, base_url AS "baseUrl", identity, created_at::text AS "createdAt" FROM archive`;

const ENDED = `coalesce(closed_at, ${LAST_SEEN_ALIVE})`;

/** $1 stream, $2 market, $3 $4 span */
export const SESSIONS = `
  SELECT ${millisSql('connected_at')} AS "openedMs",
         ${millisSql(ENDED)} AS "endedMs",
         close_code AS "closeCode", coalesce(reason, 'not closed') AS reason
  FROM session
  WHERE stream_id = $1 AND market_id = $2 AND connected_at < ${timestampSql('$4')}
    AND ${ENDED} >= ${timestampSql('$3')}
  ORDER BY connected_at LIMIT 100000`;

const TERMS = `base_prec AS "stockPrec", quote_prec AS "moneyPrec", fee_prec AS "feePrec",
  min_amount AS "minAmount"`;
const MARKETS = `
  SELECT market_id AS "marketId", name, base AS stock, quote AS money, ${TERMS},
         ${millisSql('first_seen_at')} AS "firstSeenMs", ${millisSql('delisted_at')} AS "delistedMs"
  FROM market ORDER BY name`;
const AWAY = `
  SELECT market_id AS "marketId", ${millisSql('lower(span)')} AS "fromMs",
         ${millisSql('upper(span)')} AS "toMs"
  FROM market_absence`;
const FORMER_TERMS = `
  SELECT market_id AS "marketId", ${TERMS}, ${millisSql('upper(span)')} AS "untilMs"
  FROM market_history ORDER BY market_id, lower(span)`;

type Terms = Omit<Market, 'name' | 'stock' | 'money'>;
type MarketRecord = Omit<PastMarket, 'terms' | 'away'> & Market;

/** All markets by name, each with its former terms. */
export async function readMarketsWithTerms(store: Pick<Store, 'query'>): Promise<PastMarket[]> {
  const rows = await store.query<MarketRecord>(MARKETS);
  const former = await store.query<Terms & { marketId: number; untilMs: number }>(FORMER_TERMS);
  const gone = await store.query<Span & { marketId: number }>(AWAY);
  return rows.map((row) => {
    const { marketId, name, stock, money, firstSeenMs, delistedMs } = row;
    const marketOf = ({ stockPrec, moneyPrec, feePrec, minAmount }: Terms): Market => ({
      ...{ name, stock, money, stockPrec, moneyPrec, feePrec, minAmount },
    });
    const earlier = former
      .filter((one) => one.marketId === marketId)
      .map((one) => ({ market: marketOf(one), untilMs: one.untilMs }));
    const terms = [...earlier, { market: marketOf(row), untilMs: null }];
    const away = gone.filter((one) => one.marketId === marketId);
    return { marketId, name, firstSeenMs, delistedMs, away, terms };
  });
}
