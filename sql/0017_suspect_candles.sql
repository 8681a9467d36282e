-- After an outage longer than the exchange keeps its candles, versions before this one covered the time
-- that was gone as time without candles. Where it may have been so the candles are asked for once more:
-- what the exchange shows again is covered again, what lies before its history is named as that.
--
-- It may have been so where trades are missing between two covered spans, from the first whole slot on
-- up to the next candle. What is in files is left as it is: it cannot be asked for there.
INSERT INTO gap (market_id, stream_id, span, state, reason, first_seen_at, note)
WITH lost AS (
  SELECT c.market_id, upper(c.span) AS since,
         lead(lower(c.span)) OVER (PARTITION BY c.market_id, c.stream_id ORDER BY lower(c.span)) AS until
  FROM coverage c JOIN stream t ON t.stream_id = c.stream_id AND t.market_id = c.market_id
  WHERE t.kind = 'trades'),
-- Candles of days and weeks may begin at any hour, and are kept for years.
slots AS (
  SELECT l.market_id, s.stream_id, s.variant, l.until,
         to_timestamp(ceil(extract(epoch FROM l.since) / s.variant) * s.variant) AS since
  FROM lost l JOIN stream s ON s.market_id = l.market_id
  WHERE s.kind = 'candles' AND s.variant < 86400),
claimed AS (
  SELECT c.market_id, c.stream_id, tstzrange(l.since, least(
           upper(c.span), to_timestamp(floor(extract(epoch FROM l.until) / l.variant) * l.variant),
           (SELECT min(k.open_at) FROM kline k
            WHERE k.market_id = l.market_id AND k.interval_s = l.variant
              AND k.open_at >= l.since AND k.open_at < l.until))) AS span
  FROM slots l JOIN coverage c
    ON c.market_id = l.market_id AND c.stream_id = l.stream_id AND c.span @> l.since
  WHERE l.since + l.variant * interval '1 second' <= l.until),
gone AS (
  SELECT coalesce(range_agg(span), '{}') AS spans FROM partition_state
  WHERE table_name = 'kline' AND state IN ('archived', 'expired'))
SELECT market_id, stream_id, part, 'open', 'suspect', now(),
       'covered as without candles, though the trades of this time are missing'
FROM claimed CROSS JOIN gone CROSS JOIN LATERAL unnest(tstzmultirange(claimed.span) - gone.spans) AS part
ON CONFLICT DO NOTHING;

COMMENT ON COLUMN coverage.row_count IS 'Trades, times and candles: exact number of such rows in the span; of candles that were covered before migration 0017 it can differ. Other kinds: rows stored under these claims.';
