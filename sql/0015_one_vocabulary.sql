-- One word for a kind, here as in settings, metrics, commands and files: trades, times, depth, tickers,
-- candles, states, balances, orders. Tables and views keep their names.

ALTER TABLE stream DROP CONSTRAINT stream_kind_known;
UPDATE stream SET kind = CASE kind WHEN 'kline' THEN 'candles' ELSE kind || 's' END
WHERE kind IN ('kline', 'ticker', 'state', 'balance');
ALTER TABLE stream ADD CONSTRAINT stream_kind_known
  CHECK (kind IN ('trades', 'times', 'depth', 'tickers', 'candles', 'states', 'balances', 'orders'));
COMMENT ON COLUMN stream.variant IS 'Interval of candles or period of states in seconds; 0 for the other kinds.';

CREATE OR REPLACE FUNCTION streams_of(for_table text) RETURNS text[]
LANGUAGE sql IMMUTABLE
AS $$
  SELECT CASE for_table
    WHEN 'trade' THEN ARRAY['trades', 'times'] WHEN 'kline' THEN ARRAY['candles']
    WHEN 'ticker' THEN ARRAY['tickers'] WHEN 'depth' THEN ARRAY['depth']
    WHEN 'market_state' THEN ARRAY['states'] WHEN 'balance' THEN ARRAY['balances']
    WHEN 'active_order' THEN ARRAY['orders'] ELSE '{}' END
$$;

CREATE OR REPLACE FUNCTION balances_at(moment timestamptz)
RETURNS TABLE (currency text, available numeric, frozen numeric, known_since timestamptz, is_observed boolean)
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
BEGIN
  PERFORM analytics.in_database('balance', '-infinity', moment);
  RETURN QUERY
  SELECT b.currency, b.available, b.frozen, b.observed_at,
         EXISTS (SELECT FROM coverage c JOIN stream s USING (stream_id)
                 WHERE s.kind = 'balances' AND c.market_id = 0 AND c.span @> moment)
  FROM (SELECT DISTINCT ON (o.currency) o.* FROM balance o
        WHERE o.market_id = 0 AND o.observed_at <= moment
        ORDER BY o.currency, o.observed_at DESC) b
  WHERE b.available IS NOT NULL
  ORDER BY b.currency;
END
$$;
