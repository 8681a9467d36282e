-- Which trades of the week are missing, why, and can they still be had?
SELECT starts_at, ends_at, state, reason
FROM analytics.gaps('BTC_USDT', 'trades', now() - interval '7 days', now())
WHERE NOT is_lag
ORDER BY starts_at;
