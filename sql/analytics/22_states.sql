CREATE OR REPLACE VIEW analytics.states AS
SELECT m.name AS market, s.period_s, s.observed_at, s.seq, s.origin, s.last, s.open, s.close, s.high,
       s.low, s.quote_volume, s.volume, s.change, s.session_id, s.received_at, s.market_id
FROM market_state s JOIN market m ON m.market_id = s.market_id;
COMMENT ON VIEW analytics.states IS 'Market status over the last period_s seconds, as the real-time interface pushed it. Always give a span of observed_at. Example: SELECT market, last, volume FROM analytics.states WHERE period_s = 86400 AND observed_at >= ''2026-01-15 12:00Z'' AND observed_at < ''2026-01-15 12:01Z''';
COMMENT ON COLUMN analytics.states.market IS 'Name of the market: ''BTC_USDT''.';
COMMENT ON COLUMN analytics.states.period_s IS 'Seconds that it sums up: 86400.';
COMMENT ON COLUMN analytics.states.observed_at IS 'When it came, exchange time: 2026-01-15 12:00:01.5+00.';
COMMENT ON COLUMN analytics.states.seq IS 'Orders records of one session and millisecond: 0.';
COMMENT ON COLUMN analytics.states.origin IS '''update'' pushed by the exchange, or ''query'' an answer.';
COMMENT ON COLUMN analytics.states.last IS 'Price of the last trade: 100.5.';
COMMENT ON COLUMN analytics.states.open IS 'Price at the start of the period: 99.';
COMMENT ON COLUMN analytics.states.close IS 'Price at its end: 100.5.';
COMMENT ON COLUMN analytics.states.high IS 'Highest price of the period: 102.';
COMMENT ON COLUMN analytics.states.low IS 'Lowest price of the period: 98.';
COMMENT ON COLUMN analytics.states.quote_volume IS 'Traded in the period, quote currency: 120600.';
COMMENT ON COLUMN analytics.states.volume IS 'Traded in the period, base currency: 1200.';
COMMENT ON COLUMN analytics.states.change IS 'Per cent; null in updates: 1.52.';
COMMENT ON COLUMN analytics.states.session_id IS 'Connection that brought it: 7.';
COMMENT ON COLUMN analytics.states.received_at IS 'When it was received, clock of the collecting machine: 2026-01-15 12:00:01.7+00.';
COMMENT ON COLUMN analytics.states.market_id IS 'Key of the market, as in analytics.markets: 1.';

CREATE OR REPLACE FUNCTION analytics.state_period(market_id integer, step interval)
RETURNS integer
LANGUAGE plpgsql STABLE PARALLEL SAFE COST 10
SET search_path FROM CURRENT
AS $$
DECLARE
  asked_s integer := analytics.seconds(step);
BEGIN
  PERFORM 1 FROM stream s
  WHERE s.market_id = state_period.market_id AND s.kind = 'states' AND s.variant = asked_s;
  IF FOUND THEN
    RETURN asked_s;
  END IF;
  RAISE EXCEPTION 'states over % s were never collected of this market', asked_s
    USING ERRCODE = 'invalid_parameter_value',
          HINT = coalesce((SELECT 'There are those over ' || string_agg(s.variant::text, ', ' ORDER BY s.variant) || ' s.'
                           FROM stream s WHERE s.market_id = state_period.market_id AND s.kind = 'states'),
                          'There are none of any period.');
END
$$;
COMMENT ON FUNCTION analytics.state_period IS 'Helper: the seconds of a period of which states of a market are collected; any other is refused, and those that there are named. Example: SELECT analytics.state_period(analytics.market_id(''BTC_USDT''), ''1 day'')';

CREATE OR REPLACE FUNCTION analytics.states(market text, step interval, from_at timestamptz, to_at timestamptz)
RETURNS SETOF analytics.states
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT states.market, s.period_s, s.observed_at, s.seq, s.origin, s.last, s.open, s.close, s.high,
         s.low, s.quote_volume, s.volume, s.change, s.session_id, s.received_at, s.market_id
  FROM market_state s
  WHERE s.market_id = (SELECT analytics.market_id(states.market))
    AND s.period_s = (SELECT analytics.state_period(analytics.market_id(states.market), states.step))
    AND s.observed_at >= analytics.span_start(from_at, to_at)
    AND s.observed_at < to_at
    AND (SELECT analytics.market_id(states.market)) IS NOT NULL;
END;
COMMENT ON FUNCTION analytics.states(text, interval, timestamptz, timestamptz) IS 'Market status of one market and period, observed in [from_at, to_at), with the columns of the view states. Example: SELECT observed_at, last FROM analytics.states(''BTC_USDT'', ''1 day'', ''2026-01-15'', ''2026-01-16'') ORDER BY observed_at, seq';
