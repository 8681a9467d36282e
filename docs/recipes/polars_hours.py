"""Prints hours of trades as CSV: python polars_hours.py trades.parquet. Needs polars."""

import sys

import polars

price = polars.col("price")
hours = (
    polars.scan_parquet(sys.argv[1])
    .group_by(polars.col("traded_at").dt.truncate("1h").alias("hour"))
    .agg(
        price.first().alias("open"),
        price.max().alias("high"),
        price.min().alias("low"),
        price.last().alias("close"),
        polars.col("amount").sum(),
        polars.col("total").sum(),
        polars.len().alias("trades"),
    )
    .sort("hour")
    .collect()
)
print(hours.write_csv(datetime_format="%Y-%m-%dT%H:%M:%SZ"), end="")
