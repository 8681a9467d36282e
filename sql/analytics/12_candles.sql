CREATE OR REPLACE FUNCTION analytics.candles(market text, step interval, from_at timestamptz, to_at timestamptz, origin timestamptz DEFAULT 'epoch')
RETURNS TABLE (open_at timestamptz, open numeric, high numeric, low numeric, close numeric,
               volume numeric, quote_volume numeric, trades bigint, is_complete boolean)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT slot.open_at, sums.open, sums.high, sums.low, sums.close,
         CASE WHEN slot.is_complete THEN coalesce(sums.volume, 0) ELSE sums.volume END,
         CASE WHEN slot.is_complete THEN coalesce(sums.quote_volume, 0) ELSE sums.quote_volume END,
         CASE WHEN slot.is_complete THEN coalesce(sums.trades, 0) ELSE sums.trades END,
         slot.is_complete
  FROM (
    SELECT one.open_at, tstzrange(one.open_at, one.end_at) <@ asked.covered AS is_complete
    FROM (
      SELECT analytics.covered(m.market_id, 'trades', 0, candles.from_at,
                               candles.to_at + candles.step)
               - (SELECT coalesce(range_agg(e.spans), '{}')
                  FROM analytics.elsewhere('trade', candles.from_at, candles.to_at + candles.step) e) AS covered
      FROM (SELECT analytics.market_id(candles.market, candles.from_at, candles.to_at) AS market_id
            WHERE analytics.is_here('trade', candles.from_at, candles.to_at + candles.step)) m
      OFFSET 0) asked,
      analytics.slots(candles.step, candles.from_at, candles.to_at, candles.origin) one
  ) slot LEFT JOIN (
    SELECT s.open_at, s.high, s.low, s.volume, s.quote_volume, s.trades,
           first.price AS open, last.price AS close
    FROM (
      SELECT date_bin(candles.step, t.traded_at, candles.origin) AS open_at,
             max(t.price) AS high, min(t.price) AS low, sum(t.amount) AS volume,
             sum(t.total) AS quote_volume, count(*) AS trades,
             min(t.traded_at) AS first_at, max(t.traded_at) AS last_at
      FROM trade t
      WHERE t.market_id = analytics.market_id(candles.market)
        AND t.traded_at >= candles.from_at AND t.traded_at < candles.to_at + candles.step
      GROUP BY 1) s, LATERAL (
      SELECT t.price FROM trade t
      WHERE t.market_id = analytics.market_id(candles.market) AND t.traded_at = s.first_at
        AND t.traded_at >= candles.from_at AND t.traded_at < candles.to_at + candles.step
      ORDER BY t.tid LIMIT 1) first, LATERAL (
      SELECT t.price FROM trade t
      WHERE t.market_id = analytics.market_id(candles.market) AND t.traded_at = s.last_at
        AND t.traded_at >= candles.from_at AND t.traded_at < candles.to_at + candles.step
      ORDER BY t.tid DESC LIMIT 1) last
  ) sums ON sums.open_at = slot.open_at;
END;
COMMENT ON FUNCTION analytics.candles(text, interval, timestamptz, timestamptz, timestamptz) IS 'Candles computed from trades, one row for every slot that opens in [from_at, to_at). is_complete: all trades of the slot are proven stored; only then does no trade mean zero. A slot that is not complete shows what is stored of it, or null. open is the first trade, never the close before; origin: a moment at which a slot opens. Example: SELECT * FROM analytics.candles(''BTC_USDT'', ''15 minutes'', ''2026-01-15'', ''2026-01-16'') ORDER BY open_at';

CREATE OR REPLACE FUNCTION analytics.vwap(market text, step interval, from_at timestamptz, to_at timestamptz, origin timestamptz DEFAULT 'epoch')
RETURNS TABLE (open_at timestamptz, vwap numeric, volume numeric, buy_volume numeric,
               sell_volume numeric, trades bigint, is_complete boolean)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT slot.open_at, sums.paid / sums.volume,
         CASE WHEN slot.is_complete THEN coalesce(sums.volume, 0) ELSE sums.volume END,
         CASE WHEN slot.is_complete OR sums.trades > 0 THEN coalesce(sums.bought, 0) END,
         CASE WHEN slot.is_complete OR sums.trades > 0 THEN coalesce(sums.sold, 0) END,
         CASE WHEN slot.is_complete THEN coalesce(sums.trades, 0) ELSE sums.trades END,
         slot.is_complete
  FROM (
    SELECT one.open_at, tstzrange(one.open_at, one.end_at) <@ asked.covered AS is_complete
    FROM (
      SELECT analytics.covered(m.market_id, 'trades', 0, vwap.from_at,
                               vwap.to_at + vwap.step)
               - (SELECT coalesce(range_agg(e.spans), '{}')
                  FROM analytics.elsewhere('trade', vwap.from_at, vwap.to_at + vwap.step) e) AS covered
      FROM (SELECT analytics.market_id(vwap.market, vwap.from_at, vwap.to_at) AS market_id
            WHERE analytics.is_here('trade', vwap.from_at, vwap.to_at + vwap.step)) m
      OFFSET 0) asked,
      analytics.slots(vwap.step, vwap.from_at, vwap.to_at, vwap.origin) one
  ) slot LEFT JOIN (
    SELECT date_bin(vwap.step, t.traded_at, vwap.origin) AS open_at,
           sum(t.price * t.amount) AS paid, sum(t.amount) AS volume, count(*) AS trades,
           sum(t.amount) FILTER (WHERE t.side = 'buy') AS bought,
           sum(t.amount) FILTER (WHERE t.side = 'sell') AS sold
    FROM trade t
    WHERE t.market_id = analytics.market_id(vwap.market)
      AND t.traded_at >= vwap.from_at AND t.traded_at < vwap.to_at + vwap.step
    GROUP BY 1
  ) sums ON sums.open_at = slot.open_at;
END;
COMMENT ON FUNCTION analytics.vwap(text, interval, timestamptz, timestamptz, timestamptz) IS 'Volume-weighted average price of every slot that opens in [from_at, to_at): the sum of price × amount by the sum of amount; null without trades. buy_volume and sell_volume by the side of the taker, in the base currency; is_complete as in candles. Example: SELECT open_at, vwap FROM analytics.vwap(''BTC_USDT'', ''1 hour'', ''2026-01-15'', ''2026-01-16'') ORDER BY open_at';

CREATE OR REPLACE FUNCTION analytics.returns(market text, step interval, from_at timestamptz, to_at timestamptz, origin timestamptz DEFAULT 'epoch')
RETURNS TABLE (open_at timestamptz, close numeric, simple_return numeric, log_return numeric, is_complete boolean)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT p.open_at, p.price, p.price / p.before - 1, ln(p.price / p.before), p.is_complete
  FROM (
    SELECT k.open_at, k.price, k.is_complete, lag(k.price) OVER (ORDER BY k.open_at) AS before
    FROM (
      SELECT h.open_at, h.is_complete, first_value(CASE WHEN h.is_complete THEN h.close END)
               OVER (PARTITION BY h.run ORDER BY h.open_at) AS price
      FROM (
        SELECT c.open_at, c.close, c.is_complete,
               count(*) FILTER (WHERE c.close IS NOT NULL OR NOT c.is_complete)
                 OVER (ORDER BY c.open_at) AS run
        FROM analytics.candles(returns.market, returns.step, returns.from_at, returns.to_at,
                               returns.origin) c) h) k) p;
END;
COMMENT ON FUNCTION analytics.returns(text, interval, timestamptz, timestamptz, timestamptz) IS 'Returns from close to close of the slots that open in [from_at, to_at). A complete slot without trades keeps the price before; at the edge of a gap there is no return, because the price there is not known, and the first slot of the span has none: begin one slot earlier. Example: SELECT open_at, simple_return FROM analytics.returns(''BTC_USDT'', ''1 hour'', ''2026-01-15'', ''2026-01-16'') ORDER BY open_at';
