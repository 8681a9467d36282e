-- What every question needs: its market, its length of a slot, its span, and what the ledger knows
-- of it. Names of tables are bound when these definitions are made: nobody's search_path matters.

CREATE OR REPLACE FUNCTION analytics.span_start(from_at timestamptz, to_at timestamptz)
RETURNS timestamptz
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 10
AS $$
BEGIN
  -- Compared with NULL no row is within: an answer without rows would look like a quiet market.
  IF from_at IS NULL OR to_at IS NULL THEN
    RAISE EXCEPTION 'a span needs a begin and an end: NULL is no moment'
      USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF from_at > to_at THEN
    RAISE EXCEPTION 'the span ends at %, before it begins at %', to_at, from_at
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Write the earlier moment first.';
  END IF;
  RETURN from_at;
END
$$;
COMMENT ON FUNCTION analytics.span_start IS 'Helper: the start of a span; one that ends before it begins is refused, and so is NULL for either. Example: SELECT analytics.span_start(''2026-01-15'', ''2026-01-16'')';

CREATE OR REPLACE FUNCTION analytics.finite(argument text, at timestamptz)
RETURNS timestamptz
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 10
AS $$
BEGIN
  IF isfinite(at) THEN
    RETURN at;
  END IF;
  RAISE EXCEPTION '% is %, and no moment to count from or to', argument, coalesce(at::text, 'NULL')
    USING ERRCODE = 'invalid_parameter_value',
          HINT = 'Write a moment; analytics.coverage shows where stored time begins and ends.';
END
$$;
COMMENT ON FUNCTION analytics.finite IS 'Helper: the moment of an argument; NULL and infinity are refused by the name of the argument. Example: SELECT analytics.finite(''from_at'', ''2026-01-15'')';

CREATE OR REPLACE FUNCTION analytics.market_id(market text, from_at timestamptz DEFAULT NULL, to_at timestamptz DEFAULT NULL)
RETURNS integer
LANGUAGE plpgsql STABLE PARALLEL SAFE COST 10
SET search_path FROM CURRENT
AS $$
DECLARE
  id integer;
  nearest text;
BEGIN
  IF from_at > to_at THEN
    PERFORM analytics.span_start(from_at, to_at);
  END IF;
  SELECT m.market_id INTO id FROM market m WHERE m.name = market_id.market;
  IF FOUND THEN
    RETURN id;
  END IF;
  SELECT m.name INTO nearest FROM market m, LATERAL (
    SELECT count(*) AS pairs FROM generate_series(0, length(market_id.market)) AS i
    WHERE position(substr(upper(' ' || market_id.market || ' '), i + 1, 2) IN upper(' ' || m.name || ' ')) > 0) alike
  ORDER BY pairs DESC, abs(length(m.name) - length(market_id.market)), m.name LIMIT 1;
  RAISE EXCEPTION 'there is no market %', coalesce(quote_literal(market), 'NULL')
    USING ERRCODE = 'invalid_parameter_value',
          HINT = coalesce('The nearest name is ' || nearest || '; ', '')
                 || 'SELECT market FROM analytics.markets lists all.';
END
$$;
COMMENT ON FUNCTION analytics.market_id IS 'The id of a market by its name. An unknown name is refused and the nearest named, and so is a span that ends before it begins. Example: SELECT analytics.market_id(''BTC_USDT'')';

CREATE OR REPLACE FUNCTION analytics.kind(name text)
RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 10
AS $$
DECLARE
  word text := lower(btrim(name));
BEGIN
  IF word IS NULL OR word IN ('trades', 'depth', 'tickers', 'candles', 'states') THEN
    RETURN word;
  END IF;
  -- In the singular, and by the name of the view klines.
  IF word IN ('kline', 'klines') THEN
    RETURN 'candles';
  ELSIF word IN ('trade', 'ticker', 'candle', 'state') THEN
    RETURN word || 's';
  END IF;
  RAISE EXCEPTION 'there is no kind %', quote_literal(name)
    USING ERRCODE = 'invalid_parameter_value',
          HINT = 'There are trades, candles, depth, tickers and states.';
END
$$;
COMMENT ON FUNCTION analytics.kind IS 'Helper: the kind of a stream as the ledger writes it, by its name in the singular or plural; any other name is refused. Example: SELECT analytics.kind(''kline'')';

CREATE OR REPLACE FUNCTION analytics.seconds(step interval)
RETURNS integer
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 10
AS $$
BEGIN
  IF step IS NULL OR extract(year FROM step) <> 0 OR extract(month FROM step) <> 0
     OR extract(epoch FROM step) < 1 OR extract(epoch FROM step) > 31622400
     OR extract(epoch FROM step) % 1 <> 0 THEN
    RAISE EXCEPTION 'a slot of % is not a whole number of seconds of one fixed length', coalesce(quote_literal(step), 'NULL')
      USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Write ''1 minute'', ''4 hours'', ''7 days'' or seconds such as 900; months differ in length.';
  END IF;
  RETURN extract(epoch FROM step)::integer;
END
$$;
COMMENT ON FUNCTION analytics.seconds IS 'Helper: the seconds of a slot: whole, from 1 to 366 days; months are refused, because they differ in length. Example: SELECT analytics.seconds(''15 minutes'')';

CREATE OR REPLACE FUNCTION analytics.span(from_at timestamptz, to_at timestamptz)
RETURNS tstzrange
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT CASE WHEN from_at > to_at THEN 'empty' ELSE tstzrange(from_at, to_at) END;
END;
COMMENT ON FUNCTION analytics.span IS 'Helper: the span [from_at, to_at); null is without end, and empty is what ends before it begins. Example: SELECT analytics.span(''2026-01-15'', ''2026-01-16'')';

CREATE OR REPLACE FUNCTION analytics.exchange_now()
RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT max(upper(c.span) + (now() - c.updated_at)) FROM coverage c;
END;
COMMENT ON FUNCTION analytics.exchange_now IS 'The time of the exchange now, as far as the ledger tells: its newest covered moment, and what has passed since that was written. Null while nothing is covered. Example: SELECT analytics.exchange_now()';

CREATE OR REPLACE FUNCTION analytics.covered(market_id integer, kind text, variant integer, from_at timestamptz, to_at timestamptz)
RETURNS tstzmultirange
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT coalesce(range_agg(c.span), '{}')
  FROM stream s JOIN coverage c ON c.market_id = s.market_id AND c.stream_id = s.stream_id
  WHERE s.kind = analytics.kind(covered.kind) AND s.variant = covered.variant
    AND s.market_id = covered.market_id AND c.market_id = covered.market_id
    AND c.span && analytics.span(from_at, to_at);
END;
COMMENT ON FUNCTION analytics.covered IS 'Helper: spans that are proven complete and touch [from_at, to_at), whole. variant: seconds of candles and states, else 0. Example: SELECT analytics.covered(analytics.market_id(''BTC_USDT''), ''trades'', 0, ''2026-01-15'', ''2026-01-16'')';

CREATE OR REPLACE FUNCTION analytics.expected(stream_id integer, from_at timestamptz, to_at timestamptz, until timestamptz DEFAULT analytics.exchange_now())
RETURNS tstzmultirange
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT (CASE WHEN limits.from_at < limits.until_at
               THEN tstzmultirange(tstzrange(limits.from_at, limits.until_at)) ELSE '{}' END
          + coalesce((SELECT range_agg(w.span * tstzrange(NULL, limits.until_at)) FROM wanted w
                      WHERE w.market_id = s.market_id AND w.stream_id = s.stream_id), '{}'))
         * tstzmultirange(analytics.span(expected.from_at, expected.to_at))
  FROM stream s, LATERAL (
    SELECT coalesce(s.collect_from, least((
             SELECT lower(c.span) FROM coverage c
             WHERE c.market_id = s.market_id AND c.stream_id = s.stream_id
             ORDER BY lower(c.span) LIMIT 1), (
             SELECT min(lower(w.span)) FROM wanted w
             WHERE w.market_id = s.market_id AND w.stream_id = s.stream_id))) AS from_at,
           -- Of a market that is delisted nothing is expected from when it was missing from the list, nor the
           -- candle that was open then.
           least(until, (
             SELECT CASE s.kind WHEN 'candles'
                    THEN date_bin(s.variant * interval '1 second', m.delisted_at, coalesce((
                      SELECT lower(c.span) FROM coverage c
                      WHERE c.market_id = s.market_id AND c.stream_id = s.stream_id
                      ORDER BY lower(c.span) LIMIT 1), 'epoch'))
                    ELSE m.delisted_at END
             FROM market m
             WHERE m.market_id = s.market_id AND m.delisted_at IS NOT NULL)) AS until_at OFFSET 0) limits
  WHERE s.stream_id = expected.stream_id;
END;
COMMENT ON FUNCTION analytics.expected IS 'Helper: what of [from_at, to_at) is expected of a stream until a moment (now): everything from its beginning on, and what was asked for. Example: SELECT analytics.expected(1, ''2026-01-15'', ''2026-01-16'')';

CREATE OR REPLACE FUNCTION analytics.slots(step interval, from_at timestamptz, to_at timestamptz, origin timestamptz DEFAULT 'epoch')
RETURNS TABLE (open_at timestamptz, end_at timestamptz)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 1000
BEGIN ATOMIC
  SELECT origin + (origin_s + place * step_s) * interval '1 second',
         origin + (origin_s + (place + 1) * step_s) * interval '1 second'
  FROM (SELECT analytics.seconds(slots.step)::bigint AS step_s OFFSET 0) asked, LATERAL (
    SELECT ceil(extract(epoch FROM analytics.finite('from_at', analytics.span_start(from_at, to_at))
                                   - analytics.finite('origin', origin)) / step_s)::bigint * step_s AS origin_s,
           extract(epoch FROM analytics.finite('to_at', to_at) - origin) AS end_s OFFSET 0) span, LATERAL (
    SELECT generate_series(0, ceil((end_s - origin_s) / step_s)::bigint - 1) AS place) places;
END;
COMMENT ON FUNCTION analytics.slots IS 'Slots [open_at, end_at) that open in [from_at, to_at), counted from an origin. Example: SELECT open_at FROM analytics.slots(''15 minutes'', ''2026-01-15'', ''2026-01-16'')';
