CREATE OR REPLACE VIEW analytics.trades AS
SELECT m.name AS market, t.traded_at, t.tid, t.executed_at, t.side, t.price, t.amount, t.total,
       t.received_at, t.market_id
FROM trade t JOIN market m ON m.market_id = t.market_id;
COMMENT ON VIEW analytics.trades IS 'Executed trades, each once. Always give a span of traded_at; or name a market in the function trades, which has its newest ones in milliseconds: here all trades of the market are sorted for that. Example: SELECT market, count(*) FROM analytics.trades WHERE traded_at >= ''2026-01-15'' AND traded_at < ''2026-01-16'' GROUP BY market';
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

-- The id is looked up once, as a parameter of the plan: only so the condition goes to archived rows too. The last
-- condition is asked once, before any row: so that a wrong name is an error also where there is nothing to find. Only
-- beyond all partitions it is not.
CREATE OR REPLACE FUNCTION analytics.trades(market text, from_at timestamptz DEFAULT '-infinity', to_at timestamptz DEFAULT 'infinity')
RETURNS SETOF analytics.trades
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT trades.market, t.traded_at, t.tid, t.executed_at, t.side, t.price, t.amount, t.total,
         t.received_at, t.market_id
  FROM trade t
  WHERE t.market_id = (SELECT analytics.market_id(trades.market))
    AND t.traded_at >= analytics.span_start(from_at, to_at)
    AND t.traded_at < to_at
    AND (SELECT analytics.market_id(trades.market)) IS NOT NULL;
END;
COMMENT ON FUNCTION analytics.trades IS 'Trades of one market in [from_at, to_at), with the columns of the view trades. Whether they are all: analytics.coverage. The newest ones: SELECT * FROM analytics.trades(''BTC_USDT'') ORDER BY traded_at DESC, tid DESC LIMIT 10. Example: SELECT * FROM analytics.trades(''BTC_USDT'', ''2026-01-15 12:00Z'', ''2026-01-15 13:00Z'') ORDER BY traded_at, tid';

-- The newest day with rows is counted: no older partition is opened.
CREATE OR REPLACE FUNCTION analytics.last_trades()
RETURNS SETOF analytics.trades
LANGUAGE plpgsql STABLE PARALLEL SAFE ROWS 100
SET search_path FROM CURRENT
AS $$
DECLARE
  newest record;
BEGIN
  FOR newest IN
    SELECT n.day::timestamp AT TIME ZONE 'UTC' AS from_at, (n.day + 1)::timestamp AT TIME ZONE 'UTC' AS to_at,
           array_agg(n.market_id) AS markets
    FROM (SELECT m.market_id, (
            SELECT r.day FROM rows_by_day r
            WHERE r.market_id = m.market_id AND r.series = 'trade' AND r.variant = 0 AND r.rows > 0
            ORDER BY r.day DESC LIMIT 1) AS day FROM market m) n
    WHERE n.day IS NOT NULL GROUP BY n.day ORDER BY n.day
  LOOP
    RETURN QUERY EXECUTE format(
      $sql$
      SELECT m.name, t.traded_at, t.tid, t.executed_at, t.side, t.price, t.amount, t.total, t.received_at, t.market_id
      FROM market m, LATERAL (
        SELECT * FROM trade o
        WHERE o.market_id = m.market_id AND o.traded_at >= %L AND o.traded_at < %L
        ORDER BY o.traded_at DESC, o.tid DESC LIMIT 1) t
      WHERE m.market_id = ANY (%L::int[])
      $sql$, newest.from_at, newest.to_at, newest.markets);
  END LOOP;
END
$$;
COMMENT ON FUNCTION analytics.last_trades IS 'The last stored trade of each market, with the columns of the view trades, in milliseconds. Example: SELECT market, price, now() - traded_at AS age FROM analytics.last_trades() ORDER BY market';
