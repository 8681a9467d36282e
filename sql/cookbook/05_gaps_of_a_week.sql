-- What of the week is missing, why, and can it still be had? Trades that the exchange no longer gave when they were
-- first asked for ('history horizon') are no gap, as nothing expects them: they have a row of their own.
WITH week AS (SELECT now() - interval '7 days' AS from_at, now() AS to_at)
SELECT g.kind, g.variant, g.starts_at, g.ends_at, g.state, g.reason
FROM week, analytics.gaps('BTC_USDT', NULL, week.from_at, week.to_at) g
WHERE NOT g.is_lag
UNION ALL
SELECT s.kind, s.variant, week.from_at, least(s.collect_from, week.to_at), 'unfillable', s.start_reason
FROM week, stream s
WHERE s.market_id = analytics.market_id('BTC_USDT')
  AND s.start_reason = 'history horizon' AND s.collect_from > week.from_at
ORDER BY starts_at, kind, variant;
