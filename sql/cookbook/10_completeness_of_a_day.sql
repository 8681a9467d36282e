-- May a day (of UTC) be used? How much of what was to be collected is proven complete.
SELECT kind, variant, round(expected_s / 3600, 2) AS expected_h,
       round(missing_s / 3600, 2) AS missing_h, gaps, share, is_complete
FROM analytics.completeness('BTC_USDT', (now() AT TIME ZONE 'UTC')::date)
ORDER BY kind, variant;
