CREATE OR REPLACE VIEW analytics.depth_levels AS
SELECT m.name AS market, d.observed_at, l.side, l.level::integer AS level, l.price, l.amount,
       d.received_at, d.market_id
FROM depth d JOIN market m ON m.market_id = d.market_id, LATERAL (
  SELECT 'bid' AS side, b.level, b.price, b.amount
  FROM ROWS FROM (unnest(d.bid_prices), unnest(d.bid_amounts)) WITH ORDINALITY AS b(price, amount, level)
  UNION ALL
  SELECT 'ask', a.level, a.price, a.amount
  FROM ROWS FROM (unnest(d.ask_prices), unnest(d.ask_amounts)) WITH ORDINALITY AS a(price, amount, level)
) l;
COMMENT ON VIEW analytics.depth_levels IS 'Levels of observed order books, a row for each. Unchanged books are not stored again: the function depth_at tells what held at a moment. Always give a span of observed_at. Example: SELECT * FROM analytics.depth_levels WHERE market = ''BTC_USDT'' AND observed_at >= ''2026-01-15 12:00Z'' AND observed_at < ''2026-01-15 12:01Z''';
COMMENT ON COLUMN analytics.depth_levels.market IS 'Name of the market: ''BTC_USDT''.';
COMMENT ON COLUMN analytics.depth_levels.observed_at IS 'When it was looked at, exchange time: 2026-01-15 12:00:01.5+00.';
COMMENT ON COLUMN analytics.depth_levels.side IS '''bid'' or ''ask''.';
COMMENT ON COLUMN analytics.depth_levels.level IS 'Place on its side, 1 is the best: 1.';
COMMENT ON COLUMN analytics.depth_levels.price IS 'In the quote currency: 100.4.';
COMMENT ON COLUMN analytics.depth_levels.amount IS 'In the base currency: 3.';
COMMENT ON COLUMN analytics.depth_levels.received_at IS 'When it was received, clock of the collecting machine: 2026-01-15 12:00:01.7+00.';
COMMENT ON COLUMN analytics.depth_levels.market_id IS 'Key of the market, as in analytics.markets: 1.';

CREATE OR REPLACE FUNCTION analytics.depth_levels(market text, from_at timestamptz, to_at timestamptz)
RETURNS SETOF analytics.depth_levels
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT depth_levels.market, d.observed_at, l.side, l.level::integer, l.price, l.amount,
         d.received_at, d.market_id
  FROM depth d, LATERAL (
    SELECT 'bid' AS side, b.level, b.price, b.amount
    FROM ROWS FROM (unnest(d.bid_prices), unnest(d.bid_amounts)) WITH ORDINALITY AS b(price, amount, level)
    UNION ALL
    SELECT 'ask', a.level, a.price, a.amount
    FROM ROWS FROM (unnest(d.ask_prices), unnest(d.ask_amounts)) WITH ORDINALITY AS a(price, amount, level)
  ) l
  WHERE d.market_id = (SELECT analytics.market_id(depth_levels.market))
    AND d.observed_at >= analytics.span_start(from_at, to_at)
    AND d.observed_at < to_at
    AND (SELECT analytics.market_id(depth_levels.market)) IS NOT NULL;
END;
COMMENT ON FUNCTION analytics.depth_levels IS 'Levels of one market observed in [from_at, to_at), with the columns of the view depth_levels. Example: SELECT * FROM analytics.depth_levels(''BTC_USDT'', ''2026-01-15 12:00Z'', ''2026-01-15 12:01Z'') ORDER BY observed_at, side, level';

CREATE OR REPLACE FUNCTION analytics.book_watched(market_id integer, at timestamptz)
RETURNS tstzrange
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT c.span FROM (
    SELECT n.span, n.stream_id FROM stream s
    JOIN coverage n ON n.market_id = s.market_id AND n.stream_id = s.stream_id
    WHERE s.kind = 'depth' AND s.variant = 0 AND s.market_id = book_watched.market_id
      AND n.market_id = book_watched.market_id AND lower(n.span) <= book_watched.at
    ORDER BY lower(n.span) DESC LIMIT 1) c
  WHERE c.span @> book_watched.at OR NOT EXISTS (
    SELECT FROM coverage l WHERE l.market_id = book_watched.market_id
      AND l.stream_id = c.stream_id AND lower(l.span) > book_watched.at
    UNION ALL
    SELECT FROM gap g WHERE g.market_id = book_watched.market_id AND g.stream_id = c.stream_id
      AND g.state <> 'filled' AND g.span && tstzrange(book_watched.at, NULL)
    UNION ALL
    SELECT FROM market m WHERE m.market_id = book_watched.market_id AND m.delisted_at IS NOT NULL);
END;
COMMENT ON FUNCTION analytics.book_watched IS 'Helper: the span without a break in which the book that counts at a moment was watched: the one around it, or the newest of all where the moment is newer than all that is known of it. Null within a gap, and after the last look at a market that is delisted. Example: SELECT analytics.book_watched(analytics.market_id(''BTC_USDT''), now())';

CREATE OR REPLACE FUNCTION analytics.book_watched_from(market_id integer, at timestamptz)
RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT lower(c.span) FROM stream s
  JOIN coverage c ON c.market_id = s.market_id AND c.stream_id = s.stream_id
  WHERE s.kind = 'depth' AND s.variant = 0 AND s.market_id = book_watched_from.market_id
    AND c.market_id = book_watched_from.market_id AND c.span @> book_watched_from.at;
END;
COMMENT ON FUNCTION analytics.book_watched_from IS 'Helper: the start of the span around a moment in which books were watched without a break; null within a gap. Example: SELECT analytics.book_watched_from(analytics.market_id(''BTC_USDT''), ''2026-01-15 12:00Z'')';

-- Functions and no parts of the statement, whose partitions are then chosen as it starts. A look takes a day at first and then
-- ever more: the book is nearly always a recent one, and days before it may be archived, or be many.
CREATE OR REPLACE FUNCTION analytics.book_seen(market_id integer, from_at timestamptz, to_at timestamptz)
RETURNS timestamptz
LANGUAGE plpgsql STABLE PARALLEL SAFE COST 100
SET search_path FROM CURRENT
AS $$
DECLARE
  seen timestamptz;
  since timestamptz := greatest(from_at, date_trunc('day', to_at, 'UTC'));
  width interval := '1 day';
BEGIN
  WHILE seen IS NULL AND from_at <= to_at LOOP
    SELECT d.observed_at INTO seen FROM depth d
    WHERE d.market_id = book_seen.market_id AND d.observed_at >= since AND d.observed_at <= to_at
    ORDER BY d.observed_at DESC LIMIT 1;
    EXIT WHEN since <= from_at;
    to_at := since;
    since := greatest(from_at, since - width);
    width := width * 8;
  END LOOP;
  RETURN seen;
END
$$;
COMMENT ON FUNCTION analytics.book_seen IS 'Helper: when the newest book between two moments, both included, was observed; null without one. Example: SELECT analytics.book_seen(1, ''2026-01-15'', ''2026-01-15 12:00Z'')';

CREATE OR REPLACE FUNCTION analytics.spread(market text, from_at timestamptz, to_at timestamptz)
RETURNS TABLE (held_from timestamptz, held_to timestamptz, held_s numeric, bid numeric,
               bid_amount numeric, ask numeric, ask_amount numeric, spread numeric, mid numeric,
               observed_at timestamptz)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT greatest(h.observed_at, from_at), h.held_to,
         extract(epoch FROM h.held_to - greatest(h.observed_at, from_at)), h.bid, h.bid_amount,
         h.ask, h.ask_amount, h.ask - h.bid, (h.ask + h.bid) / 2, h.observed_at
  FROM (
    SELECT d.observed_at, d.bid, d.bid_amount, d.ask, d.ask_amount,
           greatest(d.observed_at, least(
             lead(d.observed_at) OVER (ORDER BY d.observed_at), spread.to_at, (
             SELECT upper(c.span) FROM coverage c
             WHERE c.market_id = d.market_id AND c.stream_id = d.stream_id
               AND lower(c.span) <= d.observed_at
             ORDER BY lower(c.span) DESC LIMIT 1))) AS held_to
    FROM (
      SELECT n.observed_at, n.bid_prices[1] AS bid, n.bid_amounts[1] AS bid_amount,
             n.ask_prices[1] AS ask, n.ask_amounts[1] AS ask_amount, n.market_id, s.stream_id
      FROM (
        SELECT i.observed_at, i.bid_prices, i.bid_amounts, i.ask_prices, i.ask_amounts, i.market_id
        FROM depth i
        WHERE i.market_id = (SELECT analytics.market_id(spread.market))
          AND i.observed_at >= analytics.span_start(spread.from_at, spread.to_at)
          AND i.observed_at < spread.to_at
        UNION ALL
        SELECT f.observed_at, f.bid_prices, f.bid_amounts, f.ask_prices, f.ask_amounts, f.market_id
        FROM (
         SELECT b.observed_at, b.bid_prices, b.bid_amounts, b.ask_prices, b.ask_amounts, b.market_id
         FROM depth b
         WHERE b.market_id = (SELECT analytics.market_id(spread.market, spread.from_at, spread.to_at))
           AND b.observed_at = analytics.book_seen(
             analytics.market_id(spread.market, spread.from_at, spread.to_at), analytics.book_watched_from(
             analytics.market_id(spread.market, spread.from_at, spread.to_at), spread.from_at),
             spread.from_at) OFFSET 0) f
        WHERE f.observed_at < spread.from_at
      ) n LEFT JOIN stream s ON s.kind = 'depth' AND s.variant = 0 AND s.market_id = n.market_id
      UNION ALL
      SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL
      WHERE analytics.market_id(spread.market, spread.from_at, spread.to_at) IS NULL
    ) d
  ) h;
END;
COMMENT ON FUNCTION analytics.spread IS 'Best bid and ask of [from_at, to_at), a row for each observed book with the time for which it held by the looks at it: up to the next one, or to where looks ended. spread is ask less bid, mid their mean; null where a side is empty. Means over time weigh with the held_s of rows that have a spread; time that no row holds is a gap. Example: SELECT sum(spread * held_s) / sum(held_s) FILTER (WHERE spread IS NOT NULL) FROM analytics.spread(''BTC_USDT'', ''2026-01-15'', ''2026-01-16'')';

CREATE OR REPLACE FUNCTION analytics.depth_at(market text, at timestamptz)
RETURNS TABLE (side text, level integer, price numeric, amount numeric, total_amount numeric, observed_at timestamptz, age interval)
LANGUAGE plpgsql STABLE PARALLEL SAFE ROWS 100
SET search_path FROM CURRENT
AS $$
DECLARE
  id CONSTANT integer := analytics.market_id(market);
  until CONSTANT timestamptz := analytics.span_start(at, at);
  watched CONSTANT tstzrange := analytics.book_watched(id, until);
  seen CONSTANT timestamptz := analytics.book_seen(id, lower(watched), until);
BEGIN
  IF seen IS NULL THEN
    RETURN;
  END IF;
  RETURN QUERY EXECUTE format(
    $sql$
    SELECT l.side, l.level::integer, l.price, l.amount, sum(l.amount) OVER (PARTITION BY l.side ORDER BY l.level),
           d.observed_at, greatest(%2$L - %4$L::timestamptz, interval '0')
    FROM (
      SELECT b.observed_at, b.bid_prices, b.bid_amounts, b.ask_prices, b.ask_amounts FROM depth b
      WHERE b.market_id = %1$s AND b.observed_at = %3$L) d, LATERAL (
      SELECT 'bid' AS side, p.level, p.price, p.amount
      FROM ROWS FROM (unnest(d.bid_prices), unnest(d.bid_amounts)) WITH ORDINALITY AS p(price, amount, level)
      UNION ALL
      SELECT 'ask', p.level, p.price, p.amount
      FROM ROWS FROM (unnest(d.ask_prices), unnest(d.ask_amounts)) WITH ORDINALITY AS p(price, amount, level)) l
    $sql$,
    id, until, seen, upper(watched));
END
$$;
COMMENT ON FUNCTION analytics.depth_at IS 'The order book of a market as it held at a moment, best level first; total_amount is the amount up to and with the level. A moment after the newest look, such as now(), gets the last book: age is the time since the newest look, zero before that look. What the book was between two looks is not known: it is taken to be that of the earlier one. No rows within a gap that is no lag, nor after the last look at a market that is delisted. Example: SELECT * FROM analytics.depth_at(''BTC_USDT'', ''2026-01-15 12:00Z'') ORDER BY side, level';
