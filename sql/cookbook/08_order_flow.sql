-- Who was in a hurry: buyers or sellers? Volume of takers by side, and what is left of it over time.
SELECT open_at, buy_volume, sell_volume, buy_volume - sell_volume AS net,
       sum(buy_volume - sell_volume) OVER (ORDER BY open_at) AS net_so_far
FROM analytics.vwap('BTC_USDT', '1 hour', now() - interval '4 hours', now(), from_trades => true)
WHERE is_complete
ORDER BY open_at;
