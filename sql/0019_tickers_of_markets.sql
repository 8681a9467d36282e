-- One stream covered the tickers of all markets, also the time before the archive knew of a market and while the
-- exchange did not list it. Each market has its own now, as of every other kind, and what was covered
-- goes over: of each market from its first ticker on, as long as it was listed as far as that is remembered.
--
-- Where the first ticker is in files, its time is not known here: then from the begin of those files, but
-- not from before the archive knew of the market.
CREATE TEMPORARY TABLE ticker_time ON COMMIT DROP AS
WITH filed AS (
  SELECT p.span, one.key::integer AS market_id
  FROM partition_state p, jsonb_each(p.market_rows) AS one
  WHERE p.table_name = 'ticker' AND p.state = 'archived'),
first AS (
  SELECT m.market_id, m.first_seen_at, m.delisted_at, (
           SELECT t.observed_at FROM ticker t WHERE t.market_id = m.market_id
           ORDER BY t.observed_at LIMIT 1) AS here, (
           SELECT min(lower(f.span)) FROM filed f WHERE f.market_id = m.market_id) AS in_files
  FROM market m WHERE m.market_id <> 0),
begun AS (
  SELECT f.market_id, f.delisted_at,
         CASE WHEN f.in_files IS NULL OR f.here < f.in_files THEN f.here
              ELSE greatest(f.in_files, f.first_seen_at, o.collect_from) END AS from_at
  FROM first f JOIN stream o ON o.kind = 'tickers' AND o.market_id = 0),
-- Of a market that came back other streams that can only be seen at their time remember when it was away: the gap of
-- each begins where its coverage ended, and all end with the return. Of trades any old gap may have that reason.
returned AS (
  SELECT b.market_id, upper(g.span) AS until, max(lower(g.span)) AS since
  FROM begun b JOIN gap g ON g.market_id = b.market_id
  JOIN stream s ON s.stream_id = g.stream_id AND s.market_id = g.market_id
  WHERE b.delisted_at IS NULL AND s.kind IN ('depth', 'states') AND g.reason = 'delisted' AND g.state <> 'filled'
    AND upper(g.span) > b.from_at
  GROUP BY b.market_id, upper(g.span)),
-- What was stored of it was there; and after its return it is known from its next ticker on.
away AS (
  SELECT r.market_id, greatest(r.since, (
           SELECT t.observed_at + interval '1 ms' FROM ticker t
           WHERE t.market_id = r.market_id AND t.observed_at < r.until
           ORDER BY t.observed_at DESC LIMIT 1)) AS since,
         CASE WHEN after.at IS NULL OR EXISTS (
                SELECT FROM filed f WHERE f.market_id = r.market_id AND f.span && tstzrange(r.until, after.at, '[]'))
              THEN r.until ELSE after.at END AS until
  FROM returned r LEFT JOIN LATERAL (
    SELECT t.observed_at AS at FROM ticker t WHERE t.market_id = r.market_id AND t.observed_at >= r.until
    ORDER BY t.observed_at LIMIT 1) after ON true)
SELECT b.market_id, b.from_at, unlisted.spans AS unlisted,
       tstzmultirange(tstzrange(b.from_at, CASE WHEN b.delisted_at IS NOT NULL
                                           THEN greatest(b.from_at, b.delisted_at) END)) - unlisted.spans AS listed
FROM begun b, LATERAL (
  SELECT coalesce(range_agg(tstzrange(greatest(a.since, b.from_at), a.until)), '{}') AS spans
  FROM away a WHERE a.market_id = b.market_id AND greatest(a.since, b.from_at) < a.until) unlisted
WHERE b.from_at IS NOT NULL;

INSERT INTO stream (kind, market_id, variant, collect_from)
SELECT 'tickers', t.market_id, 0, t.from_at FROM ticker_time t;

-- How many rows of each market a span has was not kept: an even share of them.
INSERT INTO coverage (stream_id, market_id, span, row_count, evidence, updated_at)
SELECT s.stream_id, s.market_id, part,
       round(c.row_count * extract(epoch FROM upper(part) - lower(part))
             / extract(epoch FROM upper(c.span) - lower(c.span)) / count(*) OVER (PARTITION BY c.span)),
       c.evidence - 'markets' - 'withoutTicker', c.updated_at
FROM ticker_time t
JOIN stream s ON s.kind = 'tickers' AND s.market_id = t.market_id
JOIN stream o ON o.kind = 'tickers' AND o.market_id = 0
JOIN coverage c ON c.market_id = o.market_id AND c.stream_id = o.stream_id,
LATERAL unnest(tstzmultirange(c.span) * t.listed) AS part;

INSERT INTO gap (stream_id, market_id, span, state, reason, first_seen_at, attempts, next_attempt_at, closed_at,
                 note, remarks)
SELECT s.stream_id, s.market_id, part, g.state, g.reason, g.first_seen_at, g.attempts, g.next_attempt_at,
       g.closed_at, g.note, g.remarks
FROM ticker_time t
JOIN stream s ON s.kind = 'tickers' AND s.market_id = t.market_id
JOIN stream o ON o.kind = 'tickers' AND o.market_id = 0
JOIN gap g ON g.market_id = o.market_id AND g.stream_id = o.stream_id AND g.state <> 'filled',
LATERAL unnest(tstzmultirange(g.span) * t.listed) AS part
UNION ALL
SELECT s.stream_id, s.market_id, part, 'unfillable', 'delisted', lower(part), 0, NULL, lower(part), NULL, NULL
FROM ticker_time t JOIN stream s ON s.kind = 'tickers' AND s.market_id = t.market_id,
LATERAL unnest(t.unlisted) AS part;

-- A delisted market may have been there until it was found missing: the next list of markets gives that up.
INSERT INTO gap (market_id, stream_id, span, state, reason, first_seen_at)
SELECT s.market_id, s.stream_id, tstzrange(known.until, m.delisted_at), 'open', 'not collected', now()
FROM ticker_time t JOIN market m ON m.market_id = t.market_id
JOIN stream s ON s.kind = 'tickers' AND s.market_id = t.market_id CROSS JOIN LATERAL (
  SELECT greatest(t.from_at, (
           SELECT max(upper(c.span)) FROM coverage c
           WHERE c.market_id = s.market_id AND c.stream_id = s.stream_id), (
           SELECT max(upper(g.span)) FROM gap g
           WHERE g.market_id = s.market_id AND g.stream_id = s.stream_id AND g.state <> 'filled')) AS until) known
WHERE known.until < m.delisted_at;

DELETE FROM gap WHERE market_id = 0 AND stream_id IN (SELECT stream_id FROM stream WHERE kind = 'tickers');
DELETE FROM wanted WHERE market_id = 0 AND stream_id IN (SELECT stream_id FROM stream WHERE kind = 'tickers');
DELETE FROM coverage WHERE market_id = 0 AND stream_id IN (SELECT stream_id FROM stream WHERE kind = 'tickers');
DELETE FROM stream WHERE kind = 'tickers' AND market_id = 0;

COMMENT ON COLUMN coverage.row_count IS 'Trades and times: exact number of such rows in the span. Candles: the same, but for what was covered before migration 0017, and where rows of both sides of a cut were in files. Other kinds: rows stored under these claims; of tickers before migration 0019 an even share of those of all markets.';

-- The rest of it stays, with its settings: tickers are counted of their market, like other rows.
DO $$
BEGIN
  EXECUTE replace(pg_get_functiondef('stream_rows'::regproc), 'WHEN ''ticker'' THEN ''$1 = 0'' ELSE', 'ELSE');
END
$$;
