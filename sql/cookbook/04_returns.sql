-- What did each hour return, and how did the price swing? Gaps have no return: they are not zero.
SELECT open_at, close, round(simple_return, 6) AS simple_return,
       round(sqrt(avg(log_return * log_return) OVER ()), 6) AS hourly_volatility
FROM analytics.returns('BTC_USD', '1 hour', '2026-01-15 12:00Z', '2026-01-15 16:00Z')
ORDER BY open_at;
