-- Do the candles of the exchange say what the trades add up to? Only complete hours can tell.
SELECT open_at, k.volume AS told_volume, c.volume AS traded_volume,
       k.quote_volume - c.quote_volume AS amount_off, k.close = c.close AS is_same_close
FROM analytics.klines('BTC_USDT', '1 hour', now() - interval '4 hours', now()) k
JOIN analytics.candles('BTC_USDT', '1 hour', now() - interval '4 hours', now()) c USING (open_at)
WHERE k.state = 'candle' AND c.is_complete
ORDER BY open_at;
