-- In which seconds was most traded?
SELECT traded_at, count(*) AS trades, sum(amount) AS volume, max(price) - min(price) AS range
FROM analytics.trades('BTC_USD', '2026-01-15', '2026-01-16')
GROUP BY traded_at
ORDER BY trades DESC, volume DESC
LIMIT 3;
