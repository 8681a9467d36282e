-- Which candles did the exchange change after the fact? A backtest must not see what came later.
SELECT open_at, earlier.volume AS volume_then, newest.volume AS volume_now, newest.known_from
FROM analytics.klines('BTC_USDT', '1 hour', now() - interval '2 hours', now(),
                      as_of => now() - interval '15 minutes') earlier
JOIN analytics.klines('BTC_USDT', '1 hour', now() - interval '2 hours', now()) newest USING (open_at)
WHERE earlier.revision IS DISTINCT FROM newest.revision
ORDER BY open_at;
