-- Condition of each day. What a piece of time is, is decided as model/explain.ts decides it; a test holds both equal.
CREATE OR REPLACE FUNCTION analytics.pieces(from_at timestamptz, to_at timestamptz, of_markets integer[] DEFAULT NULL, of_kind text DEFAULT NULL, of_variant integer DEFAULT NULL, until timestamptz DEFAULT analytics.exchange_now())
RETURNS TABLE (stream_id integer, state text, starts_at timestamptz, ends_at timestamptz, reason text, changed_at timestamptz)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  WITH own AS MATERIALIZED (
    SELECT s.stream_id, s.market_id, s.kind, s.variant, s.collect_from, kept.expired_until,
           -- What exists only while it happens cannot be fetched later.
           CASE WHEN s.kind IN ('trades', 'candles') THEN 'open' ELSE 'unfillable' END AS missing,
           CASE WHEN s.kind = 'candles' AND s.variant < 86400
                THEN date_bin(s.variant * interval '1 second', m.delisted_at, 'epoch') ELSE m.delisted_at END AS gone_at
    FROM stream s JOIN market m ON m.market_id = s.market_id JOIN (
      SELECT k.kind, (SELECT max(upper(p.span)) FROM partition_state p
                      WHERE p.state = 'expired' AND k.kind = ANY (streams_of(p.table_name))) AS expired_until
      FROM (SELECT unnest(ARRAY['trades', 'candles', 'depth', 'tickers', 'states']) AS kind) k OFFSET 0) kept
      ON kept.kind = s.kind
    WHERE (of_markets IS NULL OR s.market_id = ANY (of_markets))
      AND (of_kind IS NULL OR s.kind = of_kind) AND (of_variant IS NULL OR s.variant = of_variant)),
  claimed AS MATERIALIZED (
    SELECT c.stream_id, c.span * analytics.span(from_at, to_at) AS span,
           CASE WHEN upper(c.span) <= to_at THEN c.updated_at END AS changed_at
    FROM own o JOIN coverage c ON c.market_id = o.market_id AND c.stream_id = o.stream_id
     AND c.span && analytics.span(from_at, to_at)),
  -- Its part below all that is covered is before history, as far as nothing older was served.
  remembered AS MATERIALIZED (
    SELECT g.stream_id, g.span * analytics.span(from_at, to_at) AS span, g.state, g.reason,
           greatest(g.first_seen_at, g.closed_at) AS changed_at,
           CASE WHEN g.reason = 'beyond history' THEN coalesce((
             SELECT lower(c.span) FROM coverage c WHERE c.stream_id = g.stream_id
             ORDER BY lower(c.span) LIMIT 1), 'infinity') END AS older_until
    FROM own o JOIN gap g ON g.market_id = o.market_id AND g.stream_id = o.stream_id
     AND g.state <> 'filled' AND g.span && analytics.span(from_at, to_at)),
  known AS MATERIALIZED (
    SELECT o.*, coalesce(c.spans, '{}') AS covered, coalesce(r.spans, '{}') AS remembered,
           coalesce(w.spans, '{}') AS wanted,
           coalesce(o.collect_from, CASE WHEN o.kind = 'trades' THEN '-infinity' ELSE coalesce((
             SELECT lower(c.span) FROM coverage c WHERE c.stream_id = o.stream_id
             ORDER BY lower(c.span) LIMIT 1), CASE o.missing WHEN 'open' THEN '-infinity' ELSE 'infinity' END::timestamptz)
             END) AS start_at,
           -- End of what is covered, or was requested without success; newer time is lag.
           coalesce(greatest(n.covered_until, g.until), n.available_until) AS lag_at, n.available_until
    FROM (SELECT coalesce(until, now()) AS now OFFSET 0) t, own o
    LEFT JOIN (SELECT c.stream_id, range_agg(c.span) AS spans, max(upper(c.span)) AS until
               FROM claimed c GROUP BY c.stream_id) c ON c.stream_id = o.stream_id
    LEFT JOIN (SELECT r.stream_id, range_agg(r.span) AS spans
               FROM remembered r GROUP BY r.stream_id) r ON r.stream_id = o.stream_id
    LEFT JOIN (SELECT g.stream_id, max(upper(g.span)) AS until
               FROM gap g WHERE g.state <> 'filled' GROUP BY g.stream_id) g ON g.stream_id = o.stream_id
    LEFT JOIN (SELECT w.stream_id, range_agg(w.span) AS spans
               FROM wanted w WHERE w.span && analytics.span(from_at, to_at) GROUP BY w.stream_id) w
      ON w.stream_id = o.stream_id, LATERAL (
      -- What is on its way is not missing yet.
      SELECT a.covered_until, CASE WHEN a.available_until <= a.covered_until + interval '5 minutes'
               THEN least(a.covered_until, a.available_until) ELSE a.available_until END AS available_until
      -- Nor is a candle that is not closed. Slots of more than a day begin where the exchange has them.
      FROM (SELECT e.covered_until, CASE o.kind WHEN 'candles'
               THEN date_bin(o.variant * interval '1 second', t.now - interval '1 minute', coalesce(e.covered_until, 'epoch'))
               ELSE t.now END AS available_until
      -- In a range that reaches the present the newest is found without a search.
            FROM (SELECT coalesce(CASE WHEN to_at >= t.now THEN c.until END, (
                    SELECT upper(c.span) FROM coverage c WHERE c.stream_id = o.stream_id
                    ORDER BY lower(c.span) DESC LIMIT 1)) AS covered_until OFFSET 0) e OFFSET 0) a OFFSET 0) n)
  SELECT c.stream_id, 'covered', lower(c.span), upper(c.span), NULL::text, c.changed_at FROM claimed c
  UNION ALL
  SELECT k.stream_id, CASE r.state WHEN 'unfillable' THEN r.state ELSE k.missing END, lower(part), upper(part),
         r.reason, r.changed_at
  FROM remembered r JOIN known k ON k.stream_id = r.stream_id, LATERAL unnest(
    tstzmultirange(r.span * tstzrange(r.older_until, NULL)) - k.covered) AS part
  UNION ALL
  SELECT k.stream_id, k.missing, lower(part), upper(part), 'not collected', NULL
  FROM known k, LATERAL unnest(
    (tstzmultirange(analytics.span(from_at, to_at)) - k.covered - k.remembered)
    * tstzmultirange(analytics.span(k.expired_until, k.gone_at))
    * (tstzmultirange(analytics.span(k.lag_at, k.available_until))
       + (k.wanted + tstzmultirange(tstzrange(k.start_at, NULL))) * tstzmultirange(tstzrange(NULL, k.lag_at)))) AS part
  UNION ALL
  SELECT o.stream_id, 'mismatch', lower(v.span), upper(v.span), 'mismatch', v.checked_at
  FROM analytics.mismatches(from_at, to_at) v JOIN own o ON o.market_id = v.market_id
   AND (o.kind = 'trades' OR o.kind = 'candles' AND o.variant = v.interval_s)
  UNION ALL
  SELECT g.stream_id, 'filled', lower(g.span * analytics.span(from_at, to_at)), upper(g.span * analytics.span(from_at, to_at)),
         g.reason, g.closed_at
  FROM gap g JOIN own o ON o.stream_id = g.stream_id
  WHERE g.state = 'filled' AND g.span && analytics.span(from_at, to_at);
END;
COMMENT ON FUNCTION analytics.pieces IS 'Helper: the expected time of [from_at, to_at) cut into pieces, of some markets or (null) of all. state: covered; open, which can be fetched; unfillable. Beside them mismatch, a candle that contradicts the trades, and filled, a gap that was filled. What is not expected has no piece. Example: SELECT state, starts_at, ends_at FROM analytics.pieces(''2026-01-15'', ''2026-01-16'', NULL, ''trades'')';

CREATE OR REPLACE FUNCTION analytics.day_conditions(first_day date, last_day date, of_market text, of_kind text, until timestamptz)
RETURNS TABLE (market text, kind text, variant integer, day date, condition text, expected_s numeric,
               covered_s numeric, open_s numeric, unfillable_s numeric, mismatches bigint,
               reasons text[], changed_at timestamptz, rows bigint)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT m.name, s.kind, s.variant, d.day,
         CASE WHEN d.open_s > 0 OR d.now < d.ends_at THEN 'pending'
              WHEN d.covered_s = 0 THEN 'missing'
              WHEN d.unfillable_s > 0 OR d.mismatches > 0 THEN 'degraded'
              ELSE 'available' END,
         trim_scale(d.covered_s + d.open_s + d.unfillable_s), trim_scale(d.covered_s), trim_scale(d.open_s),
         trim_scale(d.unfillable_s), d.mismatches, d.reasons, d.changed_at,
         coalesce((SELECT r.rows FROM rows_by_day r
                   WHERE r.market_id = s.market_id AND r.variant = s.variant AND r.day = d.day
                     AND s.kind = ANY (streams_of(r.series)) LIMIT 1), 0)
  FROM (
    SELECT p.stream_id, c.day, c.ends_at, min(asked.now) AS now,
           coalesce(sum(c.length_s) FILTER (WHERE p.state = 'covered'), 0) AS covered_s,
           coalesce(sum(c.length_s) FILTER (WHERE p.state = 'open'), 0) AS open_s,
           coalesce(sum(c.length_s) FILTER (WHERE p.state = 'unfillable'), 0) AS unfillable_s,
           count(*) FILTER (WHERE p.state = 'mismatch') AS mismatches,
           coalesce(array_agg(DISTINCT p.reason ORDER BY p.reason)
                      FILTER (WHERE p.state IN ('open', 'unfillable', 'mismatch')), '{}') AS reasons,
           -- A covered range grows at its end: of the days before that it tells nothing new.
           max(p.changed_at) FILTER (WHERE p.state <> 'covered' OR p.ends_at <= c.ends_at) AS changed_at
    FROM (
      SELECT analytics.finite('first_day', first_day::timestamp AT TIME ZONE 'UTC') AS from_at,
             analytics.finite('last_day', (last_day + 1)::timestamp AT TIME ZONE 'UTC') AS to_at,
             CASE WHEN of_market IS NOT NULL THEN ARRAY[analytics.market_id(of_market)] END AS markets,
             analytics.kind(of_kind) AS kind, coalesce(until, now()) AS now OFFSET 0) asked,
      LATERAL analytics.pieces(asked.from_at, asked.to_at, asked.markets, asked.kind, NULL, asked.now) p, LATERAL (
        SELECT (p.starts_at AT TIME ZONE 'UTC')::date AS first,
               ((p.ends_at - interval '1 microsecond') AT TIME ZONE 'UTC')::date AS last OFFSET 0) reach, LATERAL (
        SELECT first + n AS day, (first + n + 1)::timestamp AT TIME ZONE 'UTC' AS ends_at,
               extract(epoch FROM least(p.ends_at, (first + n + 1)::timestamp AT TIME ZONE 'UTC')
                                  - greatest(p.starts_at, (first + n)::timestamp AT TIME ZONE 'UTC')) AS length_s
        FROM generate_series(0, last - first) n) c
    GROUP BY p.stream_id, c.day, c.ends_at) d
  JOIN stream s ON s.stream_id = d.stream_id JOIN market m ON m.market_id = s.market_id
  WHERE d.covered_s + d.open_s + d.unfillable_s > 0;
END;
COMMENT ON FUNCTION analytics.day_conditions IS 'Helper: what the view and the function days are made of; ask these. Example: SELECT day, condition FROM analytics.day_conditions(''2026-01-01'', ''2026-01-31'', NULL, ''trades'', now())';

CREATE OR REPLACE VIEW analytics.days AS
SELECT d.market, d.kind, d.variant, d.day, d.condition, d.expected_s, d.covered_s, d.open_s, d.unfillable_s,
       d.mismatches, d.reasons, d.changed_at, d.rows
FROM (SELECT (analytics.exchange_now() AT TIME ZONE 'UTC')::date AS day, analytics.exchange_now() AS now OFFSET 0) today,
  LATERAL analytics.day_conditions(today.day - 365, today.day, NULL, NULL, today.now) d;
COMMENT ON VIEW analytics.days IS 'The condition of each day (UTC) of the last year, for each market and kind; a day without expected time has no row. The function days answers for other days, and sooner for fewer. Example: SELECT market, kind, day FROM analytics.days WHERE condition = ''missing'' ORDER BY day DESC';
COMMENT ON COLUMN analytics.days.market IS 'Name of the market: ''BTC_USDT''.';
COMMENT ON COLUMN analytics.days.kind IS 'trades, depth, tickers, candles or states: ''trades''.';
COMMENT ON COLUMN analytics.days.variant IS 'Seconds of candles and states, else 0: 60.';
COMMENT ON COLUMN analytics.days.day IS 'Day in UTC, exchange time: 2026-01-15.';
COMMENT ON COLUMN analytics.days.condition IS 'pending while a part of it can still be fetched, or the day has not ended; missing where nothing expected is covered; degraded where a part cannot be fetched, or a candle contradicts the trades; else available: ''available''.';
COMMENT ON COLUMN analytics.days.expected_s IS 'Expected seconds: the next three together. Not expected are times before history, before collecting, after a market was delisted, expired ones, and that of a candle that is not closed, and up to five minutes that are on their way: 86400.';
COMMENT ON COLUMN analytics.days.covered_s IS 'Seconds that are proven complete: 86100.';
COMMENT ON COLUMN analytics.days.open_s IS 'Missing seconds that can be fetched: 0.';
COMMENT ON COLUMN analytics.days.unfillable_s IS 'Missing seconds that cannot be fetched: 300.';
COMMENT ON COLUMN analytics.days.mismatches IS 'Candles that contradict the trades, of candles and trades alike: 0.';
COMMENT ON COLUMN analytics.days.reasons IS 'Why time is missing, as gaps has it, and ''mismatch'': {not observed}.';
COMMENT ON COLUMN analytics.days.changed_at IS 'Newest change that the ledger knows: a gap was first seen, filled or found unfillable, in exchange time; a mismatch was found, or coverage that ends on that day grew, by the clock of the database. Null where it knows none: 2026-01-16 00:00:05+00.';
COMMENT ON COLUMN analytics.days.rows IS 'Stored rows: 86400.';

CREATE OR REPLACE FUNCTION analytics.days(first_day date, last_day date, market text DEFAULT NULL, kind text DEFAULT NULL)
RETURNS SETOF analytics.days
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT d.market, d.kind, d.variant, d.day, d.condition, d.expected_s, d.covered_s, d.open_s, d.unfillable_s,
         d.mismatches, d.reasons, d.changed_at, d.rows
  FROM (SELECT analytics.exchange_now() AS now OFFSET 0) today,
    LATERAL analytics.day_conditions(first_day, last_day, days.market, days.kind, today.now) d;
END;
COMMENT ON FUNCTION analytics.days IS 'The condition of each day (UTC) from first_day to last_day, both included, of one market and kind, or of all where null, with the columns of the view days. A day without expected time has no row. Archived days keep their condition. Example: SELECT day, condition, reasons FROM analytics.days(''2026-01-01'', ''2026-01-31'', ''BTC_USDT'', ''trades'') ORDER BY day';
