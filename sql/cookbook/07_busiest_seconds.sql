-- In which seconds was most traded?
SELECT traded_at, count(*) AS trades, sum(amount) AS volume, max(price) - min(price) AS range
FROM analytics.trades('BTC_USDT', now() - interval '24 hours', now())
GROUP BY traded_at
ORDER BY trades DESC, volume DESC
LIMIT 3;
