CREATE OR REPLACE VIEW analytics.trades AS
SELECT m.name AS market, t.traded_at, t.tid, t.executed_at, t.side, t.price, t.amount, t.total,
       t.received_at, t.market_id
FROM trade t JOIN market m ON m.market_id = t.market_id
WHERE analytics.is_here('trade');
COMMENT ON VIEW analytics.trades IS 'Executed trades, each once. While a part of them is in cold files (analytics.partitions) it is an error that says what to do. Always give a span of traded_at; or name a market in the function trades, which has its newest ones in milliseconds: here all trades of the market are sorted for that. Example: SELECT market, count(*) FROM analytics.trades WHERE traded_at >= ''2026-01-15'' AND traded_at < ''2026-01-16'' GROUP BY market';
COMMENT ON COLUMN analytics.trades.market IS 'Name of the market: ''BTC_USDT''.';
COMMENT ON COLUMN analytics.trades.traded_at IS 'Whole second of the execution, exchange time: 2026-01-15 12:00:00+00.';
COMMENT ON COLUMN analytics.trades.tid IS 'Id that the exchange gave; orders trades of one second, and is not contiguous: 4711.';
COMMENT ON COLUMN analytics.trades.executed_at IS 'Exact time of the execution, null while unknown: 2026-01-15 12:00:00.25+00.';
COMMENT ON COLUMN analytics.trades.side IS 'Side of the taker: ''buy'' or ''sell''.';
COMMENT ON COLUMN analytics.trades.price IS 'In the quote currency, exact: 100.5.';
COMMENT ON COLUMN analytics.trades.amount IS 'In the base currency, exact: 2.';
COMMENT ON COLUMN analytics.trades.total IS 'In the quote currency, as the exchange reports it: 201.';
COMMENT ON COLUMN analytics.trades.received_at IS 'When it was received, clock of the collecting machine: 2026-01-15 12:00:00.9+00.';
COMMENT ON COLUMN analytics.trades.market_id IS 'Key of the market, as in analytics.markets: 1.';

-- The last condition is asked once, before any row: so that a wrong name is an error also where there
-- is nothing to find. Only beyond all partitions it is not. The bounds refuse a span of which rows
-- have left the database.
CREATE OR REPLACE FUNCTION analytics.trades(market text, from_at timestamptz DEFAULT '-infinity', to_at timestamptz DEFAULT 'infinity')
RETURNS SETOF analytics.trades
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT trades.market, t.traded_at, t.tid, t.executed_at, t.side, t.price, t.amount, t.total,
         t.received_at, t.market_id
  FROM trade t
  WHERE t.market_id = analytics.market_id(trades.market)
    AND t.traded_at >= analytics.hot_from('trade', from_at, to_at)
    AND t.traded_at < analytics.hot_to('trade', from_at, to_at)
    AND analytics.market_id(trades.market) IS NOT NULL;
END;
COMMENT ON FUNCTION analytics.trades IS 'Trades of one market in [from_at, to_at), with the columns of the view trades. A span of which rows have left the database is refused. Whether they are all: analytics.coverage. The newest ones: SELECT * FROM analytics.trades(''BTC_USDT'') ORDER BY traded_at DESC, tid DESC LIMIT 10, with a span where a part of the archive has moved to files. Example: SELECT * FROM analytics.trades(''BTC_USDT'', ''2026-01-15 12:00Z'', ''2026-01-15 13:00Z'') ORDER BY traded_at, tid';
