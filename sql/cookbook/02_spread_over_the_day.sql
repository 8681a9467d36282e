-- How wide was the spread over the day, and how much of each hour was somebody looking?
-- The mean weighs each book that has both sides with the time for which it held by the looks at it,
-- and has two digits more than prices of the market.
SELECT slot.open_at,
       trim_scale(round(sum(s.spread * s.held_s) / sum(s.held_s) FILTER (WHERE s.spread IS NOT NULL),
                        (SELECT quote_prec + 2 FROM analytics.markets WHERE market = 'BTC_USDT'))) AS mean_spread,
       min(s.spread) AS least, max(s.spread) AS most,
       round(coalesce(sum(s.held_s), 0) / 3600, 4) AS watched
FROM analytics.slots('1 hour', now() - interval '3 hours', now()) slot
LEFT JOIN LATERAL analytics.spread('BTC_USDT', slot.open_at, slot.end_at) s ON s.held_s > 0
GROUP BY slot.open_at
ORDER BY slot.open_at;
