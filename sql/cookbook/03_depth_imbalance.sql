-- Which side of the book was heavier? 1: only bids, -1: only asks; over the two best levels.
SELECT observed_at,
       round((bids - asks) / (bids + asks), 4) AS imbalance
FROM (
  SELECT observed_at, coalesce(sum(amount) FILTER (WHERE side = 'bid'), 0) AS bids,
         coalesce(sum(amount) FILTER (WHERE side = 'ask'), 0) AS asks
  FROM analytics.depth_levels('BTC_USDT', now() - interval '1 hour', now())
  WHERE level <= 2
  GROUP BY observed_at) sums
ORDER BY observed_at;
