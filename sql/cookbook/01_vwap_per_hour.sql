-- What was the volume-weighted price of each hour?
-- A price of an hour that is not complete is that of the trades stored so far.
SELECT open_at, round(vwap, 4) AS vwap, volume, is_complete
FROM analytics.vwap('BTC_USD', '1 hour', '2026-01-15 12:00Z', '2026-01-15 16:00Z')
ORDER BY open_at;
