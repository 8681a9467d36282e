-- One word for a kind, here as in settings, metrics, commands and files: trades, times, depth, tickers,
-- candles, states. Tables and views keep their names.

ALTER TABLE stream DROP CONSTRAINT stream_kind_known;
UPDATE stream SET kind = CASE kind WHEN 'kline' THEN 'candles' ELSE kind || 's' END
WHERE kind IN ('kline', 'ticker', 'state');
ALTER TABLE stream ADD CONSTRAINT stream_kind_known
  CHECK (kind IN ('trades', 'times', 'depth', 'tickers', 'candles', 'states'));
COMMENT ON COLUMN stream.variant IS 'Interval of candles or period of states in seconds; 0 for the other kinds.';

CREATE OR REPLACE FUNCTION streams_of(for_table text) RETURNS text[]
LANGUAGE sql IMMUTABLE
AS $$
  SELECT CASE for_table
    WHEN 'trade' THEN ARRAY['trades', 'times'] WHEN 'kline' THEN ARRAY['candles']
    WHEN 'ticker' THEN ARRAY['tickers'] WHEN 'depth' THEN ARRAY['depth']
    WHEN 'market_state' THEN ARRAY['states'] ELSE '{}' END
$$;
