-- What did each hour return, and how did the price swing? Gaps have no return: they are not zero.
-- Asked an hour earlier: the first hour of a span has no close before it, and is left out.
SELECT open_at, close, round(simple_return, 6) AS simple_return,
       round(sqrt(avg(log_return * log_return) OVER ()), 6) AS hourly_volatility
FROM analytics.returns('BTC_USDT', '1 hour', now() - interval '5 hours', now())
ORDER BY open_at OFFSET 1;
