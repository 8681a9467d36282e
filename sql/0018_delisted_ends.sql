-- Versions before this one expected nothing of a delisted market after it was last seen on the list. It may have been
-- traded until it was found missing: that time is an open gap, which the next list of markets gives up. The candle that
-- was open then never closed.
INSERT INTO gap (market_id, stream_id, span, state, reason, first_seen_at)
SELECT s.market_id, s.stream_id, tstzrange(known.until, missed.at), 'open', 'not collected', now()
FROM market m JOIN stream s ON s.market_id = m.market_id CROSS JOIN LATERAL (
  SELECT coalesce(greatest((
           SELECT max(upper(c.span)) FROM coverage c
           WHERE c.market_id = s.market_id AND c.stream_id = s.stream_id), (
           SELECT max(upper(g.span)) FROM gap g
           WHERE g.market_id = s.market_id AND g.stream_id = s.stream_id AND g.state <> 'filled')),
         s.collect_from) AS until) known
CROSS JOIN LATERAL (
  SELECT CASE s.kind WHEN 'candles'
         THEN date_bin(s.variant * interval '1 second', m.delisted_at, coalesce((
           SELECT min(lower(c.span)) FROM coverage c
           WHERE c.market_id = s.market_id AND c.stream_id = s.stream_id), 'epoch'))
         ELSE m.delisted_at END AS at) missed
WHERE m.delisted_at IS NOT NULL AND known.until < missed.at;
