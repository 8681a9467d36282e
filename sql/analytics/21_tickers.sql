CREATE OR REPLACE VIEW analytics.tickers AS
SELECT m.name AS market, t.observed_at, t.bid, t.ask, t.open, t.high, t.low, t.last, t.volume,
       t.quote_volume, t.change, t.at, t.received_at, t.market_id
FROM ticker t JOIN market m ON m.market_id = t.market_id;
COMMENT ON VIEW analytics.tickers IS 'Tickers of the last 24 hours, a row where one changed. Always give a span of observed_at. Example: SELECT market, last FROM analytics.tickers WHERE observed_at >= ''2026-01-15 12:00Z'' AND observed_at < ''2026-01-15 12:01Z''';
COMMENT ON COLUMN analytics.tickers.market IS 'Name of the market: ''BTC_USDT''.';
COMMENT ON COLUMN analytics.tickers.observed_at IS 'When it was looked at, exchange time: 2026-01-15 12:00:01.5+00.';
COMMENT ON COLUMN analytics.tickers.bid IS 'Best price to sell at: 100.4.';
COMMENT ON COLUMN analytics.tickers.ask IS 'Best price to buy at: 100.6.';
COMMENT ON COLUMN analytics.tickers.open IS 'Price 24 hours ago: 99.';
COMMENT ON COLUMN analytics.tickers.high IS 'Highest price of 24 hours: 102.';
COMMENT ON COLUMN analytics.tickers.low IS 'Lowest price of 24 hours: 98.';
COMMENT ON COLUMN analytics.tickers.last IS 'Price of the last trade: 100.5.';
COMMENT ON COLUMN analytics.tickers.volume IS 'Traded in 24 hours, base currency: 1200.';
COMMENT ON COLUMN analytics.tickers.quote_volume IS 'Traded in 24 hours, quote currency: 120600.';
COMMENT ON COLUMN analytics.tickers.change IS 'Per cent, from open to last: 1.52.';
COMMENT ON COLUMN analytics.tickers.at IS 'Time that the exchange wrote into it: 2026-01-15 12:00:01+00.';
COMMENT ON COLUMN analytics.tickers.received_at IS 'When it was received, clock of the collecting machine: 2026-01-15 12:00:01.7+00.';
COMMENT ON COLUMN analytics.tickers.market_id IS 'Key of the market, as in analytics.markets: 1.';

CREATE OR REPLACE FUNCTION analytics.tickers(market text, from_at timestamptz, to_at timestamptz)
RETURNS SETOF analytics.tickers
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT tickers.market, t.observed_at, t.bid, t.ask, t.open, t.high, t.low, t.last, t.volume,
         t.quote_volume, t.change, t.at, t.received_at, t.market_id
  FROM ticker t
  WHERE t.market_id = (SELECT analytics.market_id(tickers.market))
    AND t.observed_at >= analytics.span_start(from_at, to_at)
    AND t.observed_at < to_at
    AND (SELECT analytics.market_id(tickers.market)) IS NOT NULL;
END;
COMMENT ON FUNCTION analytics.tickers IS 'Tickers of one market observed in [from_at, to_at), with the columns of the view tickers. Example: SELECT observed_at, bid, ask FROM analytics.tickers(''BTC_USDT'', ''2026-01-15'', ''2026-01-16'') ORDER BY observed_at';
