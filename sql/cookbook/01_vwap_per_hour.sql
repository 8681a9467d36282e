-- What was the volume-weighted price of each hour, with two digits more than prices of the market?
-- A price of an hour that is not complete is that of the trades stored so far.
SELECT open_at,
       trim_scale(round(vwap, (SELECT quote_prec + 2 FROM analytics.markets WHERE market = 'BTC_USDT'))) AS vwap,
       volume, is_complete
FROM analytics.vwap('BTC_USDT', '1 hour', now() - interval '4 hours', now())
ORDER BY open_at;
