CREATE OR REPLACE VIEW analytics.markets AS
SELECT m.name AS market, m.base, m.quote, m.base_prec, m.quote_prec, m.fee_prec, m.min_amount,
       m.first_seen_at, m.last_seen_at, m.delisted_at, m.market_id
FROM market m;
COMMENT ON VIEW analytics.markets IS 'Trading pairs. Example: SELECT market, quote_prec FROM analytics.markets WHERE delisted_at IS NULL ORDER BY market';
COMMENT ON COLUMN analytics.markets.market IS 'Name, as every function here takes it: ''BTC_USDT''.';
COMMENT ON COLUMN analytics.markets.base IS 'Currency that is traded; amounts are in it: ''BTC''.';
COMMENT ON COLUMN analytics.markets.quote IS 'Currency that is paid; prices and totals are in it: ''USD''.';
COMMENT ON COLUMN analytics.markets.base_prec IS 'Digits after the point of amounts: 8.';
COMMENT ON COLUMN analytics.markets.quote_prec IS 'Digits after the point of prices and totals: 2.';
COMMENT ON COLUMN analytics.markets.fee_prec IS 'Digits after the point of fees: 4.';
COMMENT ON COLUMN analytics.markets.min_amount IS 'Smallest amount of an order: 0.001.';
COMMENT ON COLUMN analytics.markets.first_seen_at IS 'When it was first listed: 2026-01-01 00:00:00+00.';
COMMENT ON COLUMN analytics.markets.last_seen_at IS 'When it was last listed: 2026-01-31 00:00:00+00.';
COMMENT ON COLUMN analytics.markets.delisted_at IS 'Since when it is missing from the list; null while it is listed.';
COMMENT ON COLUMN analytics.markets.market_id IS 'Key in the tables of the archive: 1.';
