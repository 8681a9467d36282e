-- May a day be used? How much of what was to be collected is proven complete.
SELECT kind, variant, round(expected_s / 3600, 2) AS expected_h,
       round(missing_s / 3600, 2) AS missing_h, gaps, share, is_complete
FROM analytics.completeness('BTC_USDT', current_date)
ORDER BY kind, variant;
