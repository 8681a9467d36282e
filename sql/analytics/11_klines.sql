CREATE OR REPLACE VIEW analytics.klines AS
SELECT m.name AS market, k.interval_s, k.open_at, k.open, k.high, k.low, k.close, k.volume, k.quote_volume,
       k.revision, k.received_at, k.market_id
FROM kline k JOIN market m ON m.market_id = k.market_id;
COMMENT ON VIEW analytics.klines IS 'Closed candles as the exchange gave them, newest version. What is missing does not show here: the function klines shows it. Example: SELECT open_at, close FROM analytics.klines WHERE market = ''BTC_USDT'' AND interval_s = 3600 AND open_at >= ''2026-01-15'' AND open_at < ''2026-01-16''';
COMMENT ON COLUMN analytics.klines.market IS 'Name of the market: ''BTC_USDT''.';
COMMENT ON COLUMN analytics.klines.interval_s IS 'Length of the candle in seconds: 60.';
COMMENT ON COLUMN analytics.klines.open_at IS 'Start of the candle, exchange time: 2026-01-15 12:00:00+00.';
COMMENT ON COLUMN analytics.klines.open IS 'Price at the start; may be the close before: 100.5.';
COMMENT ON COLUMN analytics.klines.high IS 'Highest price: 101.';
COMMENT ON COLUMN analytics.klines.low IS 'Lowest price: 100.';
COMMENT ON COLUMN analytics.klines.close IS 'Price of the last trade: 100.7.';
COMMENT ON COLUMN analytics.klines.volume IS 'Traded, in the base currency: 12.5.';
COMMENT ON COLUMN analytics.klines.quote_volume IS 'Traded, in the quote currency: 1256.25.';
COMMENT ON COLUMN analytics.klines.revision IS 'How often the exchange changed it after the first telling: 0.';
COMMENT ON COLUMN analytics.klines.received_at IS 'When this version became known, clock of the collecting machine: 2026-01-15 12:01:30+00.';
COMMENT ON COLUMN analytics.klines.market_id IS 'Key of the market, as in analytics.markets: 1.';

-- Candles of days and weeks may begin at another hour or weekday, as the exchange has it.
CREATE OR REPLACE FUNCTION analytics.kline_origin(market_id integer, step interval, from_at timestamptz, to_at timestamptz)
RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT coalesce((
    SELECT k.open_at FROM kline k
    WHERE k.market_id = kline_origin.market_id AND k.interval_s = analytics.seconds(kline_origin.step)
      AND k.open_at >= from_at AND k.open_at < to_at
    ORDER BY k.open_at LIMIT 1), (
    SELECT lower(c.span) FROM stream s
    JOIN coverage c ON c.market_id = s.market_id AND c.stream_id = s.stream_id
    WHERE s.kind = 'candles' AND s.market_id = kline_origin.market_id
      AND s.variant = analytics.seconds(kline_origin.step)
      AND c.market_id = kline_origin.market_id AND c.span && analytics.span(from_at, to_at)
    ORDER BY lower(c.span) LIMIT 1), 'epoch');
END;
COMMENT ON FUNCTION analytics.kline_origin IS 'Helper: a moment at which a candle of the exchange opens: the first one of a span, or where coverage begins; 1970-01-01 without either. Example: SELECT analytics.kline_origin(analytics.market_id(''BTC_USDT''), ''1 day'', ''2026-01-01'', ''2026-02-01'')';

CREATE OR REPLACE FUNCTION analytics.klines(market text, step interval, from_at timestamptz, to_at timestamptz, as_of timestamptz DEFAULT NULL)
RETURNS TABLE (open_at timestamptz, open numeric, high numeric, low numeric, close numeric,
               volume numeric, quote_volume numeric, state text, revision integer, known_from timestamptz)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT coalesce(k.open_at, slot.open_at), k.open, k.high, k.low, k.close, k.volume, k.quote_volume,
         CASE WHEN k.open_at IS NOT NULL THEN 'candle'
              WHEN tstzrange(slot.open_at, slot.end_at) <@ slot.covered
                AND (as_of IS NULL OR slot.end_at <= as_of AND NOT EXISTS (
                  SELECT FROM kline later
                  WHERE later.market_id = (SELECT analytics.market_id(klines.market))
                    AND later.interval_s = analytics.seconds(klines.step)
                    AND later.open_at = slot.open_at
                    AND later.open_at >= klines.from_at AND later.open_at < klines.to_at)) THEN 'no candle'
              ELSE 'gap' END,
         k.revision, k.known_from
  FROM (
    SELECT one.open_at, one.end_at, known.covered
    FROM (
      SELECT analytics.covered(asked.market_id, 'candles', analytics.seconds(klines.step),
                               klines.from_at, klines.to_at + klines.step) AS covered,
             analytics.kline_origin(asked.market_id, klines.step, klines.from_at, klines.to_at) AS origin
      FROM (SELECT analytics.market_id(klines.market, klines.from_at, klines.to_at) AS market_id OFFSET 0) asked
      OFFSET 0) known, analytics.slots(klines.step, klines.from_at, klines.to_at, known.origin) one
  ) slot FULL JOIN (
    SELECT n.open_at, n.open, n.high, n.low, n.close, n.volume, n.quote_volume, n.revision,
           n.received_at AS known_from
    FROM kline n
    WHERE n.market_id = (SELECT analytics.market_id(klines.market))
      AND n.interval_s = analytics.seconds(klines.step)
      AND n.open_at >= klines.from_at AND n.open_at < klines.to_at
      AND (as_of IS NULL OR n.received_at <= as_of)
    UNION ALL
    SELECT r.open_at, r.open, r.high, r.low, r.close, r.volume, r.quote_volume, r.revision, r.known_from
    FROM kline_revision r
    WHERE r.market_id = (SELECT analytics.market_id(klines.market))
      AND r.interval_s = analytics.seconds(klines.step)
      AND r.open_at >= klines.from_at AND r.open_at < klines.to_at
      AND as_of IS NOT NULL AND r.known_from <= as_of AND r.known_to > as_of
  ) k ON k.open_at = slot.open_at;
END;
COMMENT ON FUNCTION analytics.klines(text, interval, timestamptz, timestamptz, timestamptz) IS 'Candles of the exchange that open in [from_at, to_at), one row for every slot. state: candle; no candle (asked for, the exchange has none); gap (not known); a length that is not collected is all gap, and candles computes it from trades. as_of: as the archive knew them then; what came later was a gap, and so was what had not ended; no candle is what has none to this day. revision and known_from: which version that is, and since when it was known. Example: SELECT * FROM analytics.klines(''BTC_USDT'', ''1 hour'', ''2026-01-15'', ''2026-01-16'', as_of => ''2026-01-15 18:00Z'') ORDER BY open_at';
