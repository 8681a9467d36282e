CREATE OR REPLACE VIEW analytics.coverage AS
SELECT m.name AS market, s.kind, s.variant, lower(c.span) AS starts_at, upper(c.span) AS ends_at,
       c.evidence, c.updated_at
FROM coverage c JOIN stream s ON s.stream_id = c.stream_id AND s.market_id = c.market_id
JOIN market m ON m.market_id = c.market_id;
COMMENT ON VIEW analytics.coverage IS 'Spans of which all that the exchange had is stored, with the evidence. Example: SELECT * FROM analytics.coverage WHERE market = ''BTC_USDT'' AND kind = ''trades'' ORDER BY starts_at DESC LIMIT 10';
COMMENT ON COLUMN analytics.coverage.market IS 'Name of the market: ''BTC_USDT''.';
COMMENT ON COLUMN analytics.coverage.kind IS 'trades, depth, tickers, candles or states: ''trades''.';
COMMENT ON COLUMN analytics.coverage.variant IS 'Seconds of candles and states, else 0: 60.';
COMMENT ON COLUMN analytics.coverage.starts_at IS 'Start, exchange time: 2026-01-15 12:00:00+00.';
COMMENT ON COLUMN analytics.coverage.ends_at IS 'End, not included: 2026-01-15 13:00:00+00.';
COMMENT ON COLUMN analytics.coverage.evidence IS 'What the newest answer showed that proves it: {"page": 3}.';
COMMENT ON COLUMN analytics.coverage.updated_at IS 'When it was written: 2026-01-15 13:00:02+00.';

CREATE OR REPLACE VIEW analytics.rows_by_day AS
SELECT m.name AS market,
       CASE r.series WHEN 'trade' THEN 'trades' WHEN 'kline' THEN 'candles' WHEN 'kline_revision' THEN 'candle revisions'
         WHEN 'ticker' THEN 'tickers' WHEN 'market_state' THEN 'states' ELSE r.series END AS kind,
       r.variant, r.day, r.rows, r.timed
FROM rows_by_day r JOIN market m USING (market_id);
COMMENT ON VIEW analytics.rows_by_day IS 'Stored rows of each day, archived ones included. Example: SELECT day, rows FROM analytics.rows_by_day WHERE market = ''BTC_USDT'' AND kind = ''trades'' ORDER BY day DESC LIMIT 10';
COMMENT ON COLUMN analytics.rows_by_day.market IS 'Name of the market: ''BTC_USDT''.';
COMMENT ON COLUMN analytics.rows_by_day.kind IS 'trades, depth, tickers, candles, candle revisions or states: ''trades''.';
COMMENT ON COLUMN analytics.rows_by_day.variant IS 'Seconds of candles and states, else 0: 60.';
COMMENT ON COLUMN analytics.rows_by_day.day IS 'Day in UTC, exchange time: 2026-01-15.';
COMMENT ON COLUMN analytics.rows_by_day.rows IS 'Stored rows: 86400.';
COMMENT ON COLUMN analytics.rows_by_day.timed IS 'Trades whose exact time is known: 86392.';

CREATE OR REPLACE FUNCTION analytics.coverage(market text, kind text, from_at timestamptz DEFAULT NULL, to_at timestamptz DEFAULT NULL)
RETURNS TABLE (variant integer, starts_at timestamptz, ends_at timestamptz, length interval)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT s.variant, lower(part), upper(part), upper(part) - lower(part)
  FROM (SELECT analytics.market_id(coverage.market, from_at, to_at) AS market_id,
               analytics.kind(coverage.kind) AS kind OFFSET 0) asked
  JOIN stream s ON s.market_id = asked.market_id AND s.kind = asked.kind
  JOIN coverage c ON c.market_id = s.market_id AND c.stream_id = s.stream_id
   AND c.span && analytics.span(from_at, to_at), LATERAL (
    SELECT c.span * analytics.span(from_at, to_at) AS part) cut;
END;
COMMENT ON FUNCTION analytics.coverage IS 'Spans of [from_at, to_at) that are proven complete for one market and kind (trades, candles, depth, tickers, states), cut to it; left out or null, an end of the span is without end. variant: seconds of candles and states, else 0. Example: SELECT starts_at, ends_at FROM analytics.coverage(''BTC_USDT'', ''trades'', ''2026-01-15'', ''2026-01-16'') ORDER BY starts_at';

-- Expected less covered, cut along what is remembered of it: what the view and the function gaps are made of.
-- Its arguments have names of their own, as no column may be called like an argument.
CREATE OR REPLACE FUNCTION analytics.missing_spans(of_market text, of_kind text, from_at timestamptz, to_at timestamptz)
RETURNS TABLE (market text, kind text, variant integer, starts_at timestamptz,
               ends_at timestamptz, length interval, state text, reason text, is_lag boolean,
               attempts integer, first_seen_at timestamptz, next_attempt_at timestamptz, note text,
               is_before_history boolean)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT m.name, s.kind, s.variant, lower(p.part), upper(p.part), upper(p.part) - lower(p.part),
         p.state, p.reason, coalesce(lower(p.part) >= counted.until, false), p.attempts, p.first_seen_at,
         p.next_attempt_at, p.note,
         p.is_beyond AND lower(p.part) < coalesce(counted.oldest, 'infinity')
  FROM (SELECT CASE WHEN of_market IS NOT NULL OR from_at > to_at
                    THEN analytics.market_id(of_market, from_at, to_at) END AS market_id,
               analytics.kind(of_kind) AS kind,
               analytics.exchange_now() AS now OFFSET 0) asked
  JOIN stream s ON (asked.market_id IS NULL OR s.market_id = asked.market_id)
   AND (asked.kind IS NULL OR s.kind = asked.kind)
  JOIN market m ON m.market_id = s.market_id, LATERAL (
    SELECT analytics.expected(s.stream_id, from_at, to_at, asked.now) - coalesce((
      SELECT range_agg(c.span) FROM coverage c
      WHERE c.market_id = s.market_id AND c.stream_id = s.stream_id
        AND c.span && analytics.span(from_at, to_at)), '{}') AS spans OFFSET 0) missing, LATERAL (
    -- What is newer is lag: than all that is covered, or was asked for in vain; where there is neither, the
    -- candle that is not closed and final yet.
    SELECT coalesce(greatest(
      (SELECT upper(c.span) FROM coverage c
       WHERE c.market_id = s.market_id AND c.stream_id = s.stream_id
       ORDER BY lower(c.span) DESC LIMIT 1),
      (SELECT max(upper(g.span)) FROM gap g
       WHERE g.market_id = s.market_id AND g.stream_id = s.stream_id AND g.state <> 'filled')),
      CASE s.kind WHEN 'candles'
        THEN date_bin(make_interval(secs => s.variant), asked.now - interval '1 minute', 'epoch') END)
      AS until, (
      SELECT lower(c.span) FROM coverage c
      WHERE c.market_id = s.market_id AND c.stream_id = s.stream_id
      ORDER BY lower(c.span) LIMIT 1) AS oldest OFFSET 0) counted, LATERAL (
    -- Lag is a piece of its own.
    SELECT unnest(missing.spans * tstzmultirange(tstzrange(NULL, counted.until))) AS span
    UNION ALL
    SELECT unnest(missing.spans * tstzmultirange(tstzrange(coalesce(counted.until, 'infinity'), NULL)))) one, LATERAL (
    SELECT g.span * one.span AS part, g.state, g.reason, g.attempts, g.first_seen_at,
           g.next_attempt_at, nullif(concat_ws(E'\n', g.note, g.remarks), '') AS note,
           g.reason = 'beyond history' AND g.revoked_at IS NULL AS is_beyond
    FROM gap g
    WHERE g.market_id = s.market_id AND g.stream_id = s.stream_id AND g.state <> 'filled'
      AND g.span && one.span
    UNION ALL
    SELECT unnest(tstzmultirange(one.span) - coalesce((
             SELECT range_agg(g.span) FROM gap g
             WHERE g.market_id = s.market_id AND g.stream_id = s.stream_id
               AND g.state <> 'filled' AND g.span && one.span), '{}')),
           'open', 'not collected', 0, NULL, NULL, NULL, false) p;
END;
COMMENT ON FUNCTION analytics.missing_spans IS 'Helper: what the view and the function gaps are made of; ask these. Example: SELECT market, kind, starts_at FROM analytics.missing_spans(NULL, ''trades'', ''2026-01-15'', ''2026-01-16'')';

CREATE OR REPLACE VIEW analytics.gaps AS
SELECT g.market, g.kind, g.variant, g.starts_at, g.ends_at, g.length, g.state, g.reason, g.is_lag,
       g.attempts, g.first_seen_at, g.next_attempt_at, g.note, g.is_before_history
FROM analytics.missing_spans(NULL, NULL, NULL, NULL) g;
COMMENT ON VIEW analytics.gaps IS 'Everything that is expected and not proven complete, of all markets and of all time; the function gaps answers for a span. Example: SELECT market, kind, sum(length) FROM analytics.gaps WHERE state = ''open'' AND NOT is_lag GROUP BY market, kind';
COMMENT ON COLUMN analytics.gaps.market IS 'Name of the market: ''BTC_USDT''.';
COMMENT ON COLUMN analytics.gaps.kind IS 'trades, depth, tickers, candles or states: ''trades''.';
COMMENT ON COLUMN analytics.gaps.variant IS 'Seconds of candles and states, else 0: 0.';
COMMENT ON COLUMN analytics.gaps.starts_at IS 'Start of the missing time, exchange time: 2026-01-15 12:00:00+00.';
COMMENT ON COLUMN analytics.gaps.ends_at IS 'End, not included: 2026-01-15 12:05:00+00.';
COMMENT ON COLUMN analytics.gaps.length IS 'How long it is: 00:05:00.';
COMMENT ON COLUMN analytics.gaps.state IS '''open'' and ''filling'' may still be had, ''unfillable'' may not.';
COMMENT ON COLUMN analytics.gaps.reason IS 'Why it is missing: ''not collected''.';
COMMENT ON COLUMN analytics.gaps.is_lag IS 'Newer than anything of the stream that is covered or was asked for in vain, or of a candle that is not closed yet: false.';
COMMENT ON COLUMN analytics.gaps.attempts IS 'How often filling was tried: 2.';
COMMENT ON COLUMN analytics.gaps.first_seen_at IS 'When it was first noticed; null when nothing is remembered of it: 2026-01-15 12:06:00+00.';
COMMENT ON COLUMN analytics.gaps.next_attempt_at IS 'When it is tried again: 2026-01-15 12:30:00+00.';
COMMENT ON COLUMN analytics.gaps.note IS 'What the last try found, and what people wrote: ''the page was empty''.';
COMMENT ON COLUMN analytics.gaps.is_before_history IS 'Older than all that is covered of the stream, because the history of the exchange begins later: it lowers no share: false.';

CREATE OR REPLACE FUNCTION analytics.gaps(market text DEFAULT NULL, kind text DEFAULT NULL, from_at timestamptz DEFAULT NULL, to_at timestamptz DEFAULT NULL)
RETURNS SETOF analytics.gaps
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT * FROM analytics.missing_spans(gaps.market, gaps.kind, gaps.from_at, gaps.to_at);
END;
COMMENT ON FUNCTION analytics.gaps IS 'What of [from_at, to_at) is expected and not proven complete, of one market and kind or (null, or left out) of all, in a span without end where it is null or left out, with the columns of the view gaps. state: open, filling or unfillable. reason: as tapekeep gaps explain tells. is_lag: newer than anything of its stream that is covered or was asked for in vain, such as a candle that is not closed yet, and not late enough to be called missing. is_before_history: older than all that is covered, because the history of the exchange begins later; it lowers no share. Example: SELECT * FROM analytics.gaps(''BTC_USDT'', ''trades'', now() - interval ''7 days'', now()) WHERE NOT is_lag ORDER BY starts_at';

CREATE OR REPLACE FUNCTION analytics.mismatches(from_at timestamptz, to_at timestamptz)
RETURNS TABLE (market_id integer, interval_s integer, span tstzrange, checked_at timestamptz)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT v.market_id, v.interval_s, v.span, v.checked_at FROM candle_check v
  WHERE v.outcome = 'mismatch' AND v.span && analytics.span(from_at, to_at)
    AND NOT EXISTS (
      SELECT FROM stream r WHERE r.market_id = v.market_id
        AND (r.kind = 'candles' AND r.variant = v.interval_s
          OR r.kind = 'trades' AND NOT coalesce(v.detail @> '{"differences": [{"figure": "candle"}]}', false))
        AND NOT EXISTS (SELECT FROM coverage c WHERE c.market_id = r.market_id
                          AND c.stream_id = r.stream_id AND c.span @> v.span));
END;
COMMENT ON FUNCTION analytics.mismatches IS 'Helper: candles that touch [from_at, to_at) and contradict the trades, of what is covered. Example: SELECT * FROM analytics.mismatches(''2026-01-15'', ''2026-01-16'')';

CREATE OR REPLACE FUNCTION analytics.completeness(market text, day date)
RETURNS TABLE (kind text, variant integer, expected_s numeric, covered_s numeric, missing_s numeric,
               unfillable_s numeric, gaps bigint, share numeric, is_complete boolean,
               mismatches bigint, lag_s numeric, before_history_s numeric)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT f.kind, f.variant, trim_scale(f.expected_s), trim_scale(f.expected_s - f.missing_s),
         trim_scale(f.missing_s), trim_scale(f.unfillable_s), f.gaps, trunc((f.expected_s - f.missing_s) / nullif(f.expected_s, 0), 6),
         f.is_whole AND f.expected_s > 0 AND f.missing_s = 0 AND f.lag_s = 0 AND f.before_history_s = 0, (
           SELECT count(*) FROM analytics.mismatches(lower(f.span), upper(f.span)) v
           WHERE v.market_id = f.market_id AND v.interval_s = f.variant AND f.kind = 'candles'), trim_scale(f.lag_s),
         trim_scale(f.before_history_s)
  FROM (
    SELECT s.kind, s.variant, s.market_id, asked.span,
           -- What lies before a stream begins is not expected; the day is not whole without it.
           tstzrange(lower(asked.span), upper(expected.spans)) <@ expected.spans AS is_whole,
           (SELECT coalesce(sum(extract(epoch FROM upper(one) - lower(one))), 0)
            FROM unnest(expected.spans) one)
             - coalesce(sum(extract(epoch FROM g.length)) FILTER (WHERE NOT part.is_missing), 0) AS expected_s,
           coalesce(sum(extract(epoch FROM g.length)) FILTER (WHERE part.is_lag), 0) AS lag_s,
           coalesce(sum(extract(epoch FROM g.length)) FILTER (WHERE part.is_missing), 0) AS missing_s,
           coalesce(sum(extract(epoch FROM g.length)) FILTER (WHERE part.is_missing AND g.state = 'unfillable'), 0) AS unfillable_s,
           count(g.starts_at) FILTER (WHERE part.is_missing) AS gaps,
           coalesce(sum(extract(epoch FROM g.length)) FILTER (WHERE g.is_before_history), 0) AS before_history_s
    FROM (
      SELECT analytics.market_id(completeness.market) AS market_id,
             tstzrange(analytics.finite('day', completeness.day::timestamp AT TIME ZONE 'UTC'),
                       (completeness.day + 1)::timestamp AT TIME ZONE 'UTC') AS span,
             analytics.exchange_now() AS now OFFSET 0) asked
    JOIN stream s ON s.market_id = asked.market_id
    JOIN market m ON m.market_id = s.market_id
    CROSS JOIN LATERAL (
      SELECT analytics.expected(s.stream_id, lower(asked.span), upper(asked.span), asked.now) AS spans OFFSET 0) expected
    LEFT JOIN analytics.gaps(completeness.market, NULL,
                             completeness.day::timestamp AT TIME ZONE 'UTC',
                             (completeness.day + 1)::timestamp AT TIME ZONE 'UTC') g
      ON g.kind = s.kind AND g.variant = s.variant AND g.market = m.name
    -- While a day goes on, what no collector has come to yet is lag; of a day that is over it is missing.
    CROSS JOIN LATERAL (SELECT g.is_lag IS TRUE AND asked.now < upper(asked.span) AS is_lag) later
    CROSS JOIN LATERAL (SELECT later.is_lag, NOT later.is_lag AND g.is_before_history IS NOT TRUE AS is_missing) part
    GROUP BY s.stream_id, s.kind, s.variant, s.market_id, asked.span, asked.now, expected.spans) f;
END;
COMMENT ON FUNCTION analytics.completeness IS 'How much of a day (UTC) is proven complete, a row for each kind. expected_s, covered_s, missing_s: seconds up to now, of a day that goes on up to the newest covered timestamp as in tapekeep status; lag_s: from there to now; unfillable_s: those of the missing that cannot be fetched; gaps: how many; before_history_s: requested seconds before the history of the exchange starts, which are counted in none of these, as in tapekeep status; share: covered by expected, cut and not rounded; is_complete: all of the day is covered; false, although the share may be 1, of a day that goes on, and of one that began before the stream did, or before what the exchange still serves of its history (before_history_s); mismatches: candles that contradict the trades, of what is covered. Example: SELECT kind, variant, share FROM analytics.completeness(''BTC_USDT'', ''2026-01-15'') ORDER BY kind, variant';

CREATE OR REPLACE VIEW analytics.candle_checks AS
SELECT m.name AS market, v.interval_s, lower(v.span) AS starts_at, upper(v.span) AS ends_at,
       v.outcome, v.detail, v.tries, v.next_try_at, v.checked_at, v.is_exact
FROM candle_check v JOIN market m ON m.market_id = v.market_id;
COMMENT ON VIEW analytics.candle_checks IS 'Whether stored trades add up to the candles of the exchange: runs that match, and each candle that does not. Example: SELECT * FROM analytics.candle_checks WHERE outcome = ''mismatch'' ORDER BY starts_at DESC';
COMMENT ON COLUMN analytics.candle_checks.market IS 'Name of the market: ''BTC_USDT''.';
COMMENT ON COLUMN analytics.candle_checks.interval_s IS 'Length of the candles in seconds: 60.';
COMMENT ON COLUMN analytics.candle_checks.starts_at IS 'Start of the first candle: 2026-01-15 12:00:00+00.';
COMMENT ON COLUMN analytics.candle_checks.ends_at IS 'End of the last candle: 2026-01-15 13:00:00+00.';
COMMENT ON COLUMN analytics.candle_checks.outcome IS '''match'', ''mismatch'' or ''unproven''.';
COMMENT ON COLUMN analytics.candle_checks.detail IS 'Of a mismatch: what differs, with the figure of either side: {"differences": []}.';
COMMENT ON COLUMN analytics.candle_checks.tries IS 'How often a mismatch was fetched again: 1.';
COMMENT ON COLUMN analytics.candle_checks.next_try_at IS 'When a mismatch is checked again; null when it is settled: 2026-01-15 13:10:00+00.';
COMMENT ON COLUMN analytics.candle_checks.checked_at IS 'When it was written: 2026-01-15 13:01:00+00.';
COMMENT ON COLUMN analytics.candle_checks.is_exact IS 'Of a run that matches: each candle equals its trades in all six values and can answer instead of them: true.';

CREATE OR REPLACE VIEW analytics.refusals AS
SELECT q.endpoint, q.reason, q.count, q.last_at FROM quarantine_count q;
COMMENT ON VIEW analytics.refusals IS 'How many rows were refused since the archive began. Example: SELECT * FROM analytics.refusals ORDER BY count DESC';
COMMENT ON COLUMN analytics.refusals.endpoint IS 'Where they came from: ''history/result''.';
COMMENT ON COLUMN analytics.refusals.reason IS 'What was wrong: ''conflict''.';
COMMENT ON COLUMN analytics.refusals.count IS 'How many: 3.';
COMMENT ON COLUMN analytics.refusals.last_at IS 'When the last one came: 2026-01-15 12:00:00+00.';
