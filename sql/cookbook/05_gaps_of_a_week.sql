-- Which trades of the week are missing, why, and can they still be had?
SELECT starts_at, ends_at, state, reason
FROM analytics.gaps('BTC_USD', 'trades', '2026-01-09', '2026-01-16')
WHERE NOT is_lag
ORDER BY starts_at;
