"""Prints hours of trades as CSV: python pandas_hours.py trades.parquet. Needs pandas and pyarrow."""

import sys

import pandas

trades = pandas.read_parquet(sys.argv[1])
# Prices, amounts and totals are decimal.Decimal: exact, and slow. astype(float) makes doubles of them.
hours = trades.groupby(trades["traded_at"].dt.floor("h")).agg(
    open=("price", "first"),
    high=("price", "max"),
    low=("price", "min"),
    close=("price", "last"),
    amount=("amount", "sum"),
    total=("total", "sum"),
    trades=("tid", "count"),
)
hours.to_csv(sys.stdout, index_label="hour", date_format="%Y-%m-%dT%H:%M:%SZ")
