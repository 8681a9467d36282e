"""Prints hours of trades as CSV: python duckdb_hours.py trades.parquet. Needs duckdb."""

import sys

import duckdb

hours = duckdb.sql(
    """
    SELECT strftime(date_trunc('hour', traded_at) AT TIME ZONE 'UTC', '%Y-%m-%dT%H:%M:%SZ') AS hour,
           first(price ORDER BY traded_at, tid) AS open, max(price) AS high, min(price) AS low,
           last(price ORDER BY traded_at, tid) AS close, sum(amount) AS amount, sum(total) AS total,
           count(*) AS trades
    FROM read_parquet($file) GROUP BY 1 ORDER BY 1
    """,
    params={"file": sys.argv[1]},
)
print(",".join(hours.columns))
for row in hours.fetchall():
    print(",".join(map(str, row)))
