-- Candles, averages and returns of any step. Both engines of sums are here: stored candles of a minute where they equal
-- their trades, and the trades.

CREATE OR REPLACE FUNCTION analytics.exact_minutes(market_id integer, from_at timestamptz, to_at timestamptz)
RETURNS tstzmultirange
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT (coalesce((
           SELECT range_agg(v.span) FROM candle_check v
           WHERE v.market_id = exact_minutes.market_id AND v.interval_s = 60 AND v.is_exact
             AND v.span && analytics.span(from_at, to_at)), '{}')
         - coalesce((
           SELECT range_agg(d.span) FROM candle_recheck d
           WHERE d.market_id = exact_minutes.market_id AND d.interval_s IN (0, 60)
             AND d.span && analytics.span(from_at, to_at)), '{}'))
         * analytics.covered(market_id, 'trades', 0, from_at, to_at)
         * analytics.covered(market_id, 'candles', 60, from_at, to_at);
END;
COMMENT ON FUNCTION analytics.exact_minutes IS 'Helper: where the stored candles of a minute are verified and equal their trades in all values, so that they can stand for them. Example: SELECT analytics.exact_minutes(analytics.market_id(''BTC_USDT''), ''2026-01-15'', ''2026-01-16'')';

-- Times are written into the statements: then the planner opens the partitions of these times and no others.
CREATE OR REPLACE FUNCTION analytics.rows_within(relation text, columns text, condition text, time_column text, spans tstzmultirange)
RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
  most CONSTANT integer := 16;
  pieces tstzmultirange := spans;
  filter text := '';
BEGIN
  IF isempty(spans) THEN
    RETURN format('SELECT %s FROM %s WHERE false', columns, relation);
  END IF;
  IF (SELECT count(*) > most FROM unnest(spans)) THEN
    pieces := tstzmultirange(range_merge(spans));
    filter := format(' AND %L::tstzmultirange @> %I', spans, time_column);
  END IF;
  RETURN (SELECT string_agg(
            format('SELECT %s FROM %s WHERE %s AND %I >= %L AND %I < %L%s', columns, relation, condition,
                   time_column, lower(one), time_column, upper(one), filter), ' UNION ALL ')
          FROM unnest(pieces) AS one);
END
$$;
COMMENT ON FUNCTION analytics.rows_within IS 'Helper: the statement that reads the rows of some spans, with their times as constants. Example: SELECT analytics.rows_within(''trade'', ''price'', ''market_id = 1'', ''traded_at'', ''{["2026-01-15","2026-01-16")}'')';

CREATE OR REPLACE FUNCTION analytics.slot_sums(market text, step interval, from_at timestamptz, to_at timestamptz, origin timestamptz, from_trades boolean)
RETURNS TABLE (open_at timestamptz, open numeric, high numeric, low numeric, close numeric,
               volume numeric, quote_volume numeric, paid numeric, bought numeric, sold numeric,
               trades bigint, is_complete boolean, source text)
LANGUAGE plpgsql STABLE PARALLEL SAFE ROWS 1000
SET search_path FROM CURRENT
AS $$
DECLARE
  id CONSTANT integer := analytics.market_id(market, from_at, to_at);
  length CONSTANT interval := make_interval(secs => analytics.seconds(step));
  tick CONSTANT interval := '1 microsecond';
  first_at CONSTANT timestamptz := date_bin(length, analytics.finite('from_at', analytics.span_start(from_at, to_at))
                                                    + length - tick, analytics.finite('origin', origin));
  end_at CONSTANT timestamptz := date_bin(length, analytics.finite('to_at', to_at) - tick, origin) + length;
  whole CONSTANT tstzmultirange := CASE WHEN first_at < end_at THEN tstzmultirange(tstzrange(first_at, end_at)) ELSE '{}' END;
  by_candles tstzmultirange := '{}';
BEGIN
  IF NOT from_trades AND extract(epoch FROM length) % 60 = 0 AND extract(epoch FROM origin) % 60 = 0 THEN
    -- Whole slots only.
    SELECT coalesce(range_agg(tstzrange(slot.from_at, slot.to_at)), '{}') * whole INTO by_candles
    FROM unnest(analytics.exact_minutes(id, first_at, end_at)) AS one, LATERAL (
      SELECT date_bin(length, lower(one) + length - tick, origin) AS from_at, date_bin(length, upper(one), origin) AS to_at) slot
    WHERE slot.from_at < slot.to_at;
  END IF;
  RETURN QUERY EXECUTE format(
    $sql$
    SELECT slot.open_at, trim_scale(s.open), trim_scale(s.high), trim_scale(s.low), trim_scale(s.close),
           trim_scale(s.volume), trim_scale(s.quote_volume), trim_scale(s.paid), trim_scale(s.bought), trim_scale(s.sold),
           s.trades, tstzrange(slot.open_at, slot.end_at) <@ %3$L::tstzmultirange,
           CASE WHEN tstzrange(slot.open_at, slot.end_at) <@ %4$L::tstzmultirange THEN 'candles' ELSE 'trades' END
    FROM analytics.slots(%1$L, %7$L, %8$L, %2$L) slot LEFT JOIN (
      SELECT date_bin(%1$L, k.open_at, %2$L) AS open_at, (array_agg(k.open ORDER BY k.open_at))[1] AS open,
             max(k.high) AS high, min(k.low) AS low, (array_agg(k.close ORDER BY k.open_at DESC))[1] AS close,
             sum(k.volume) AS volume, sum(k.quote_volume) AS quote_volume, sum(k.quote_volume) AS paid,
             NULL::numeric AS bought, NULL::numeric AS sold, NULL::bigint AS trades
      FROM (%5$s) k GROUP BY 1
      UNION ALL
      -- First and last by time and id, without sorting: of arrays the first different element decides.
      SELECT date_bin(%1$L, t.traded_at, %2$L),
             (min(ARRAY[extract(epoch FROM t.traded_at), t.tid, t.price]))[3], max(t.price), min(t.price),
             (max(ARRAY[extract(epoch FROM t.traded_at), t.tid, t.price]))[3],
             sum(t.amount), sum(t.total), sum(t.price * t.amount),
             coalesce(sum(t.amount) FILTER (WHERE t.side = 'buy'), 0),
             coalesce(sum(t.amount) FILTER (WHERE t.side = 'sell'), 0), count(*)
      FROM (%6$s) t GROUP BY 1) s USING (open_at)
    $sql$,
    length, origin, analytics.covered(id, 'trades', 0, first_at, end_at), by_candles,
    analytics.rows_within('kline', 'open_at, open, high, low, close, volume, quote_volume',
                          format('market_id = %s AND interval_s = 60 AND volume > 0', id), 'open_at', by_candles),
    analytics.rows_within('trade', 'traded_at, tid, side, price, amount, total', format('market_id = %s', id),
                          'traded_at', whole - by_candles),
    from_at, to_at);
END
$$;
COMMENT ON FUNCTION analytics.slot_sums IS 'Helper: what candles and vwap are made of. Example: SELECT open_at, source FROM analytics.slot_sums(''BTC_USDT'', ''1 hour'', ''2026-01-15'', ''2026-01-16'', ''epoch'', false)';

CREATE OR REPLACE FUNCTION analytics.candles(market text, step interval, from_at timestamptz, to_at timestamptz, origin timestamptz DEFAULT 'epoch', from_trades boolean DEFAULT false)
RETURNS TABLE (open_at timestamptz, open numeric, high numeric, low numeric, close numeric,
               volume numeric, quote_volume numeric, trades bigint, is_complete boolean, source text)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT s.open_at, s.open, s.high, s.low, s.close,
         CASE WHEN s.is_complete THEN coalesce(s.volume, 0) ELSE s.volume END,
         CASE WHEN s.is_complete THEN coalesce(s.quote_volume, 0) ELSE s.quote_volume END,
         CASE WHEN s.is_complete AND s.volume IS NULL THEN 0 ELSE s.trades END, s.is_complete, s.source
  FROM analytics.slot_sums(candles.market, candles.step, candles.from_at, candles.to_at, candles.origin, candles.from_trades) s;
END;
COMMENT ON FUNCTION analytics.candles(text, interval, timestamptz, timestamptz, timestamptz, boolean) IS 'Candles of any step, one row for every slot that opens in [from_at, to_at). is_complete: all trades of the slot are proven stored; only then does no trade mean zero. A slot that is not complete shows what is stored of it, or null. open is the first trade, never the close before; origin: a moment at which a slot opens. source: trades, or candles where the step is a multiple of a minute and the minutes of the exchange are verified to equal the trades in all values; these do not tell the number of trades, which is null then. from_trades => true always counts trades. Example: SELECT * FROM analytics.candles(''BTC_USDT'', ''15 minutes'', ''2026-01-15'', ''2026-01-16'') ORDER BY open_at';

CREATE OR REPLACE FUNCTION analytics.vwap(market text, step interval, from_at timestamptz, to_at timestamptz, origin timestamptz DEFAULT 'epoch', from_trades boolean DEFAULT false)
RETURNS TABLE (open_at timestamptz, vwap numeric, volume numeric, buy_volume numeric,
               sell_volume numeric, trades bigint, is_complete boolean, source text)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT s.open_at, s.paid / s.volume,
         CASE WHEN s.is_complete THEN coalesce(s.volume, 0) ELSE s.volume END,
         CASE WHEN s.is_complete AND s.volume IS NULL THEN 0 ELSE s.bought END,
         CASE WHEN s.is_complete AND s.volume IS NULL THEN 0 ELSE s.sold END,
         CASE WHEN s.is_complete AND s.volume IS NULL THEN 0 ELSE s.trades END, s.is_complete, s.source
  FROM analytics.slot_sums(vwap.market, vwap.step, vwap.from_at, vwap.to_at, vwap.origin, vwap.from_trades) s;
END;
COMMENT ON FUNCTION analytics.vwap(text, interval, timestamptz, timestamptz, timestamptz, boolean) IS 'Volume-weighted average price of every slot that opens in [from_at, to_at): the sum of price × amount by the sum of amount; null without trades. buy_volume and sell_volume by the side of the taker, in the base currency: null, like trades, where source is candles; from_trades => true always tells them. is_complete and source as in candles. Example: SELECT open_at, vwap FROM analytics.vwap(''BTC_USDT'', ''1 hour'', ''2026-01-15'', ''2026-01-16'') ORDER BY open_at';

CREATE OR REPLACE FUNCTION analytics.returns(market text, step interval, from_at timestamptz, to_at timestamptz, origin timestamptz DEFAULT 'epoch')
RETURNS TABLE (open_at timestamptz, close numeric, simple_return numeric, log_return numeric, is_complete boolean, source text)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT p.open_at, p.price, p.price / p.before - 1, ln(p.price / p.before), p.is_complete, p.source
  FROM (
    SELECT k.open_at, k.price, k.is_complete, k.source, lag(k.price) OVER (ORDER BY k.open_at) AS before
    FROM (
      SELECT h.open_at, h.is_complete, h.source, first_value(CASE WHEN h.is_complete THEN h.close END)
               OVER (PARTITION BY h.run ORDER BY h.open_at) AS price
      FROM (
        SELECT c.open_at, c.close, c.is_complete, c.source,
               count(*) FILTER (WHERE c.close IS NOT NULL OR NOT c.is_complete)
                 OVER (ORDER BY c.open_at) AS run
        FROM analytics.candles(returns.market, returns.step, returns.from_at, returns.to_at,
                               returns.origin) c) h) k) p;
END;
COMMENT ON FUNCTION analytics.returns(text, interval, timestamptz, timestamptz, timestamptz) IS 'Returns from close to close of the slots that open in [from_at, to_at). A complete slot without trades keeps the price before; at the edge of a gap there is no return, because the price there is not known, and the first slot of the span has none: begin one slot earlier. source as in candles. Example: SELECT open_at, simple_return FROM analytics.returns(''BTC_USDT'', ''1 hour'', ''2026-01-15'', ''2026-01-16'') ORDER BY open_at';
