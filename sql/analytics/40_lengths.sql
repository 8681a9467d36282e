-- The length of a slot as text ('1 hour', '3600') and as a number of seconds. Without the first, a
-- literal without a type would fit more than one of the others, and none would be chosen.

CREATE OR REPLACE FUNCTION analytics.klines(market text, step text, from_at timestamptz, to_at timestamptz, as_of timestamptz DEFAULT NULL)
RETURNS TABLE (open_at timestamptz, open numeric, high numeric, low numeric, close numeric,
               volume numeric, quote_volume numeric, state text, revision integer, known_from timestamptz)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT * FROM analytics.klines(klines.market, klines.step::interval, klines.from_at, klines.to_at, klines.as_of);
END;
COMMENT ON FUNCTION analytics.klines(text, text, timestamptz, timestamptz, timestamptz) IS 'klines with the length as text. Example: SELECT * FROM analytics.klines(''BTC_USDT'', ''1 hour'', ''2026-01-15'', ''2026-01-16'')';

CREATE OR REPLACE FUNCTION analytics.klines(market text, step integer, from_at timestamptz, to_at timestamptz, as_of timestamptz DEFAULT NULL)
RETURNS TABLE (open_at timestamptz, open numeric, high numeric, low numeric, close numeric,
               volume numeric, quote_volume numeric, state text, revision integer, known_from timestamptz)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT * FROM analytics.klines(klines.market, make_interval(secs => klines.step), klines.from_at, klines.to_at, klines.as_of);
END;
COMMENT ON FUNCTION analytics.klines(text, integer, timestamptz, timestamptz, timestamptz) IS 'klines with the length as seconds. Example: SELECT * FROM analytics.klines(''BTC_USDT'', 3600, ''2026-01-15'', ''2026-01-16'')';

CREATE OR REPLACE FUNCTION analytics.candles(market text, step text, from_at timestamptz, to_at timestamptz, origin timestamptz DEFAULT 'epoch', from_trades boolean DEFAULT false)
RETURNS TABLE (open_at timestamptz, open numeric, high numeric, low numeric, close numeric,
               volume numeric, quote_volume numeric, trades bigint, is_complete boolean, source text)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT * FROM analytics.candles(candles.market, candles.step::interval, candles.from_at, candles.to_at, candles.origin, candles.from_trades);
END;
COMMENT ON FUNCTION analytics.candles(text, text, timestamptz, timestamptz, timestamptz, boolean) IS 'candles with the length as text. Example: SELECT * FROM analytics.candles(''BTC_USDT'', ''1 hour'', ''2026-01-15'', ''2026-01-16'')';

CREATE OR REPLACE FUNCTION analytics.candles(market text, step integer, from_at timestamptz, to_at timestamptz, origin timestamptz DEFAULT 'epoch', from_trades boolean DEFAULT false)
RETURNS TABLE (open_at timestamptz, open numeric, high numeric, low numeric, close numeric,
               volume numeric, quote_volume numeric, trades bigint, is_complete boolean, source text)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT * FROM analytics.candles(candles.market, make_interval(secs => candles.step), candles.from_at, candles.to_at, candles.origin, candles.from_trades);
END;
COMMENT ON FUNCTION analytics.candles(text, integer, timestamptz, timestamptz, timestamptz, boolean) IS 'candles with the length as seconds. Example: SELECT * FROM analytics.candles(''BTC_USDT'', 3600, ''2026-01-15'', ''2026-01-16'')';

CREATE OR REPLACE FUNCTION analytics.vwap(market text, step text, from_at timestamptz, to_at timestamptz, origin timestamptz DEFAULT 'epoch', from_trades boolean DEFAULT false)
RETURNS TABLE (open_at timestamptz, vwap numeric, volume numeric, buy_volume numeric,
               sell_volume numeric, trades bigint, is_complete boolean, source text)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT * FROM analytics.vwap(vwap.market, vwap.step::interval, vwap.from_at, vwap.to_at, vwap.origin, vwap.from_trades);
END;
COMMENT ON FUNCTION analytics.vwap(text, text, timestamptz, timestamptz, timestamptz, boolean) IS 'vwap with the length as text. Example: SELECT * FROM analytics.vwap(''BTC_USDT'', ''1 hour'', ''2026-01-15'', ''2026-01-16'')';

CREATE OR REPLACE FUNCTION analytics.vwap(market text, step integer, from_at timestamptz, to_at timestamptz, origin timestamptz DEFAULT 'epoch', from_trades boolean DEFAULT false)
RETURNS TABLE (open_at timestamptz, vwap numeric, volume numeric, buy_volume numeric,
               sell_volume numeric, trades bigint, is_complete boolean, source text)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT * FROM analytics.vwap(vwap.market, make_interval(secs => vwap.step), vwap.from_at, vwap.to_at, vwap.origin, vwap.from_trades);
END;
COMMENT ON FUNCTION analytics.vwap(text, integer, timestamptz, timestamptz, timestamptz, boolean) IS 'vwap with the length as seconds. Example: SELECT * FROM analytics.vwap(''BTC_USDT'', 3600, ''2026-01-15'', ''2026-01-16'')';

CREATE OR REPLACE FUNCTION analytics.returns(market text, step text, from_at timestamptz, to_at timestamptz, origin timestamptz DEFAULT 'epoch')
RETURNS TABLE (open_at timestamptz, close numeric, simple_return numeric, log_return numeric, is_complete boolean, source text)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT * FROM analytics.returns(returns.market, returns.step::interval, returns.from_at, returns.to_at, returns.origin);
END;
COMMENT ON FUNCTION analytics.returns(text, text, timestamptz, timestamptz, timestamptz) IS 'returns with the length as text. Example: SELECT * FROM analytics.returns(''BTC_USDT'', ''1 hour'', ''2026-01-15'', ''2026-01-16'')';

CREATE OR REPLACE FUNCTION analytics.returns(market text, step integer, from_at timestamptz, to_at timestamptz, origin timestamptz DEFAULT 'epoch')
RETURNS TABLE (open_at timestamptz, close numeric, simple_return numeric, log_return numeric, is_complete boolean, source text)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT * FROM analytics.returns(returns.market, make_interval(secs => returns.step), returns.from_at, returns.to_at, returns.origin);
END;
COMMENT ON FUNCTION analytics.returns(text, integer, timestamptz, timestamptz, timestamptz) IS 'returns with the length as seconds. Example: SELECT * FROM analytics.returns(''BTC_USDT'', 3600, ''2026-01-15'', ''2026-01-16'')';

CREATE OR REPLACE FUNCTION analytics.states(market text, step text, from_at timestamptz, to_at timestamptz)
RETURNS SETOF analytics.states
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT * FROM analytics.states(states.market, states.step::interval, states.from_at, states.to_at);
END;
COMMENT ON FUNCTION analytics.states(text, text, timestamptz, timestamptz) IS 'states with the length as text. Example: SELECT * FROM analytics.states(''BTC_USDT'', ''1 day'', ''2026-01-15'', ''2026-01-16'')';

CREATE OR REPLACE FUNCTION analytics.states(market text, step integer, from_at timestamptz, to_at timestamptz)
RETURNS SETOF analytics.states
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT * FROM analytics.states(states.market, make_interval(secs => states.step), states.from_at, states.to_at);
END;
COMMENT ON FUNCTION analytics.states(text, integer, timestamptz, timestamptz) IS 'states with the length as seconds. Example: SELECT * FROM analytics.states(''BTC_USDT'', 86400, ''2026-01-15'', ''2026-01-16'')';
