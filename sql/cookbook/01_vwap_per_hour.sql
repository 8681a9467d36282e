-- What was the volume-weighted price of each hour?
-- A price of an hour that is not complete is that of the trades stored so far.
SELECT open_at, trim_scale(vwap) AS vwap, volume, is_complete
FROM analytics.vwap('BTC_USDT', '1 hour', now() - interval '4 hours', now())
ORDER BY open_at;
