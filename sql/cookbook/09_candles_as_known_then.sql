-- Which candles did the exchange change after the fact? A backtest must not see what came later.
SELECT open_at, earlier.volume AS volume_then, newest.volume AS volume_now, newest.known_from
FROM analytics.klines('BTC_USD', '1 hour', '2026-01-15 12:00Z', '2026-01-15 14:00Z',
                      as_of => '2026-01-15 14:15Z') earlier
JOIN analytics.klines('BTC_USD', '1 hour', '2026-01-15 12:00Z', '2026-01-15 14:00Z') newest USING (open_at)
WHERE earlier.revision IS DISTINCT FROM newest.revision
ORDER BY open_at;
