import type { Market } from '../../../src/contract/resources.js';
import type { Span } from '../../../src/kernel/span.js';
import type {
  CoverageClaim,
  Revocation,
  StartReason,
  StreamRef,
  TickerRow,
  TradeExposure,
  TradeRow,
} from '../../../src/model/batch.js';
import type { Store } from '../../../src/store/index.js';
import { runSql } from './postgres-server.js';

/** A round second that tests count from: 2026-01-15 12:00:00 UTC. */
export const NOON_S = Date.UTC(2026, 0, 15, 12) / 1_000;
/** All time. */
export const ALWAYS = { fromMs: 0, toMs: Number.POSITIVE_INFINITY };

/** A market as the exchange lists it, with its own terms over the usual ones. */
export function marketOf(name: string, terms: Partial<Market> = {}): Market {
  const [stock = '', money = ''] = name.split('_');
  const usual = { stockPrec: 8, moneyPrec: 2, feePrec: 4, minAmount: '0.001' };
  return { name, stock, money, ...usual, ...terms };
}

/** A storable trade of market 1, `atS` seconds after noon, with its own values over it. */
export function trade(tid: number, atS: number, values: Partial<TradeRow> = {}): TradeRow {
  return {
    marketId: 1,
    tid,
    tradedAtS: NOON_S + atS,
    executedAtUs: null,
    price: '100.5',
    amount: '2',
    total: '201',
    side: 'buy',
    receivedAtMs: (NOON_S + atS) * 1_000 + 250,
    ...values,
  };
}

export function ticker(marketId: number, atS: number, values: Partial<TickerRow> = {}): TickerRow {
  const ms = (NOON_S + atS) * 1_000;
  const one = { bid: '1', ask: '2', open: '1', high: '3', low: '1', last: '2' };
  const rest = { volume: '10', quoteVolume: '20', change: '-1.5' };
  return { marketId, observedAtMs: ms, atMs: ms, receivedAtMs: ms, ...one, ...rest, ...values };
}

/** A claim of `[fromS, toS)`, seconds after noon. */
export function claim(stream: StreamRef, fromS: number, toS: number): CoverageClaim {
  const span = { fromMs: (NOON_S + fromS) * 1_000, toMs: (NOON_S + toS) * 1_000 };
  return { stream, span, evidence: { fromS, toS } };
}

/** Days of which rows_by_day does not say what the tables hold. */
export async function miscountedDays(url: string): Promise<object[]> {
  return await runSql(
    url,
    `WITH counted AS (
       SELECT market_id, 'trade' AS series, 0 AS variant, (traded_at AT TIME ZONE 'UTC')::date AS day,
              count(*) AS rows, count(executed_at) AS timed
       FROM trade GROUP BY 1, 2, 3, 4
       UNION ALL SELECT market_id, 'kline', interval_s, (open_at AT TIME ZONE 'UTC')::date, count(*), 0
       FROM kline GROUP BY 1, 2, 3, 4
       UNION ALL SELECT market_id, 'kline_revision', interval_s, (open_at AT TIME ZONE 'UTC')::date, count(*), 0
       FROM kline_revision GROUP BY 1, 2, 3, 4
       UNION ALL SELECT market_id, 'ticker', 0, (observed_at AT TIME ZONE 'UTC')::date, count(*), 0
       FROM ticker GROUP BY 1, 2, 3, 4
       UNION ALL SELECT market_id, 'depth', 0, (observed_at AT TIME ZONE 'UTC')::date, count(*), 0
       FROM depth GROUP BY 1, 2, 3, 4
       UNION ALL SELECT market_id, 'market_state', period_s, (observed_at AT TIME ZONE 'UTC')::date, count(*), 0
       FROM market_state GROUP BY 1, 2, 3, 4)
     SELECT * FROM counted c FULL JOIN rows_by_day r USING (market_id, series, variant, day)
     WHERE coalesce(c.rows, 0) <> coalesce(r.rows, 0) OR coalesce(c.timed, 0) <> coalesce(r.timed, 0)`,
  );
}

type Committing = Pick<Store, 'commit'>;

/** Counts states and trades that a test has put into their tables by SQL, as the writer would have. */
export const COUNT_ROWS = `
  INSERT INTO rows_by_day (market_id, series, variant, day, rows)
  SELECT market_id, 'market_state', period_s, (observed_at AT TIME ZONE 'UTC')::date, count(*)
  FROM market_state GROUP BY 1, 2, 3, 4
  UNION ALL SELECT market_id, 'trade', 0, (traded_at AT TIME ZONE 'UTC')::date, count(*)
  FROM trade GROUP BY 1, 2, 3, 4
  ON CONFLICT (market_id, series, variant, day) DO UPDATE SET rows = excluded.rows`;

/**
 * Where the journal does not say what became of trades: a number that is missing, a trade in no entry, an entry whose
 * ends are no trades.
 */
export async function journalFaults(url: string): Promise<object[]> {
  return await runSql(
    url,
    `SELECT 'numbers' AS fault, count(*)::text AS detail FROM journal
     HAVING count(*) <> (SELECT entry_no FROM journal_end) OR count(*) <> coalesce(max(entry_no), 0)
     UNION ALL
     SELECT 'trade in no entry', t.tid::text FROM trade t
     WHERE NOT EXISTS (SELECT FROM journal j WHERE j.series = 'trade' AND j.market_id = t.market_id AND j.span @> t.traded_at)
     UNION ALL
     SELECT 'entry without trades', j.entry_no::text FROM journal j
     WHERE j.series = 'trade' AND j.change = 'rows' AND (
       NOT EXISTS (SELECT FROM trade t WHERE t.market_id = j.market_id AND t.traded_at = lower(j.span))
       OR NOT EXISTS (SELECT FROM trade t WHERE t.market_id = j.market_id AND t.traded_at = upper(j.span) - interval '1 s'))`,
  );
}

export const revoke = (
  store: Committing,
  stream: StreamRef,
  span: Span,
  why: Omit<Revocation, 'stream' | 'span'>,
) => store.commit({ revoke: [{ stream, span, ...why }] });

export const setCollectFrom = (
  store: Committing,
  streamId: number,
  fromMs: number,
  reason: StartReason | null = null,
) => store.commit({ begins: [{ streamId, fromMs, reason }] });

export const exposeTrades = (store: Committing, exposure: TradeExposure) =>
  store.commit({ expose: [exposure] });
