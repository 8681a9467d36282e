-- After an outage longer than the exchange keeps its candles, versions before this one covered the time
-- that was gone as time without candles. Where it may have been so the candles are asked for once more:
-- what the exchange shows again is covered again, what lies before its history is named as that.
--
-- It may have been so where trades are missing between two covered spans: in every run of more than ten
-- slots without a candle, because no shorter outage outlasts what an exchange keeps. Candles of days and
-- weeks are kept for years. What is in files cannot be asked for, nor what a market had that is delisted.
ANALYZE coverage;
ANALYZE stream;

-- What coverage holds by now is no memory of a gap any more, and keeps none from being made.
UPDATE gap g SET state = 'filled', closed_at = now()
WHERE g.state IN ('open', 'filling', 'unfillable')
  AND NOT (g.state = 'open' AND g.reason = 'suspect' AND g.uncovered_at IS NULL)
  AND g.stream_id IN (SELECT stream_id FROM stream WHERE kind = 'candles')
  AND EXISTS (SELECT FROM coverage c WHERE c.market_id = g.market_id
                AND c.stream_id = g.stream_id AND c.span @> g.span);

INSERT INTO gap (market_id, stream_id, span, state, reason, first_seen_at, note)
WITH lost AS (
  SELECT c.market_id, upper(c.span) AS since,
         lead(lower(c.span)) OVER (PARTITION BY c.market_id, c.stream_id ORDER BY lower(c.span)) AS until
  FROM coverage c JOIN stream t ON t.stream_id = c.stream_id AND t.market_id = c.market_id
  WHERE t.kind = 'trades'),
lacking AS (
  SELECT l.market_id, s.stream_id, s.variant,
         tstzrange(to_timestamp(ceil(extract(epoch FROM l.since) / s.variant) * s.variant),
                   to_timestamp(floor(extract(epoch FROM l.until) / s.variant) * s.variant)) AS span
  FROM lost l JOIN stream s ON s.market_id = l.market_id JOIN market m ON m.market_id = l.market_id
  WHERE s.kind = 'candles' AND s.variant < 86400 AND m.delisted_at IS NULL
    AND l.until - l.since > 10 * s.variant * interval '1 second'),
claimed AS (
  SELECT l.market_id, l.stream_id, l.variant, c.span * l.span AS span
  FROM lacking l JOIN coverage c
    ON c.market_id = l.market_id AND c.stream_id = l.stream_id AND c.span && l.span),
gone AS (
  SELECT coalesce(range_agg(span), '{}') AS spans FROM partition_state
  WHERE table_name = 'kline' AND state IN ('archived', 'expired'))
SELECT c.market_id, c.stream_id, run, 'open', 'suspect', now(),
       'covered as without candles, though the trades of this time are missing'
FROM claimed c CROSS JOIN gone CROSS JOIN LATERAL unnest(
  tstzmultirange(c.span) - gone.spans
  - coalesce((
      SELECT range_agg(tstzrange(k.open_at, k.open_at + c.variant * interval '1 second')) FROM kline k
      WHERE k.market_id = c.market_id AND k.interval_s = c.variant
        AND k.open_at >= lower(c.span) AND k.open_at < upper(c.span)), '{}')
  - coalesce((
      SELECT range_agg(g.span) FROM gap g
      WHERE g.market_id = c.market_id AND g.stream_id = c.stream_id AND g.state <> 'filled'
        AND g.span && c.span), '{}')) AS run
WHERE upper(run) - lower(run) > 10 * c.variant * interval '1 second';

COMMENT ON COLUMN coverage.row_count IS 'Trades and times: exact number of such rows in the span. Candles: the same, but for what was covered before migration 0017, and where rows of both sides of a cut were in files. Other kinds: rows stored under these claims.';
