-- When a market was away was only to be guessed from the gaps of what can be seen at its time alone: they begin where
-- it was seen last, which may be long before it left, and where none of that is collected there are none.
CREATE TABLE market_absence (
  market_id integer NOT NULL REFERENCES market,
  span tstzrange NOT NULL CHECK (NOT isempty(span)),
  PRIMARY KEY (market_id, span)
);
COMMENT ON TABLE market_absence IS 'When a market was missing from the complete list and came back: from the first list that lacked it to the first that had it again. It left some time after market.last_seen_at of then, and may have been back before.';

-- The note of such a gap says when the market was missing first; those of earlier versions have none. Gaps of tickers
-- without one are of migration 0019, and end with the first ticker after the return.
INSERT INTO market_absence (market_id, span)
SELECT g.market_id, tstzrange(max(coalesce(known.missing_at, lower(g.span))), upper(g.span))
FROM gap g
JOIN stream s ON s.stream_id = g.stream_id AND s.market_id = g.market_id
JOIN market m ON m.market_id = g.market_id,
LATERAL (SELECT substring(g.note FROM ', missing from it at ([-0-9T:.]+Z), and back at ')::timestamptz AS missing_at) known
WHERE g.reason = 'delisted' AND g.state = 'unfillable' AND s.kind IN ('depth', 'tickers', 'states')
  AND upper(g.span) IS DISTINCT FROM m.delisted_at
  AND (s.kind <> 'tickers' OR known.missing_at IS NOT NULL)
  AND coalesce(g.note, '') NOT LIKE 'missing when the market was found delisted%'
GROUP BY g.market_id, upper(g.span)
HAVING max(coalesce(known.missing_at, lower(g.span))) < upper(g.span);
