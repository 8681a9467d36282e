"""Prints hours of trades as CSV, by DuckDB, from a list of cold_files.py.

python cold_duckdb.py trades.jsonl

Needs duckdb, and duckdb-extension-httpfs of the same version; without that, DuckDB downloads its extension httpfs.
A second argument are the digits after the point, where 18 are too few.
"""

import csv
import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path

import duckdb

after_point = int(sys.argv[2]) if len(sys.argv) > 2 else 18
files = [json.loads(line) for line in open(sys.argv[1])]
db = duckdb.connect()
if files[0]["uri"].startswith("s3://"):
    wheel = find_spec("duckdb_extension_httpfs")
    if wheel:
        (extension,) = Path(wheel.submodule_search_locations[0]).glob("extensions/*/httpfs.duckdb_extension")
        db.execute(f"LOAD '{extension}'")
    else:
        db.execute("INSTALL httpfs; LOAD httpfs")
    scheme, _, host = os.environ.get("AWS_ENDPOINT_URL_S3", "").partition("://")
    elsewhere = f"ENDPOINT '{host}', URL_STYLE 'path', USE_SSL {scheme == 'https'}," if host else ""
    db.execute(
        f"""CREATE SECRET (TYPE s3, {elsewhere} REGION '{os.environ.get("AWS_REGION", "us-east-1")}',
            KEY_ID '{os.environ["AWS_ACCESS_KEY_ID"]}', SECRET '{os.environ["AWS_SECRET_ACCESS_KEY"]}')"""
    )


def number(name):
    """A column; where a file has text in it, all of them are read as text, and a cast of text rounds."""
    if not any(file["digits"][name] is None for file in files):
        return name
    after = f"length(regexp_extract({name}, '\\.(\\d*?)0*$', 1))"
    return f"CASE WHEN {after} <= {after_point} THEN {name}::DECIMAL(38,{after_point}) ELSE error('too many digits: ' || {name}) END"


hours = db.execute(
    f"""
    WITH rows AS (
      SELECT market, traded_at, tid, {", ".join(f"{number(one)} AS {one}" for one in ("price", "amount", "total"))}
      -- By name, or numbers are rounded to the digits of the first file.
      FROM read_parquet($files, union_by_name = true, hive_partitioning = true, hive_types = {{'market': VARCHAR}})
    )
    SELECT market, strftime(date_trunc('hour', traded_at) AT TIME ZONE 'UTC', '%Y-%m-%dT%H:%M:%SZ') AS hour,
           arg_min(price, (traded_at, tid)) AS open, max(price) AS high, min(price) AS low,
           arg_max(price, (traded_at, tid)) AS close, sum(amount) AS amount, sum(total) AS total, count(*) AS trades
    FROM rows GROUP BY 1, 2 ORDER BY 1, 2
    """,
    {"files": [file["uri"] for file in files]},
)
out = csv.writer(sys.stdout)
out.writerow(name for name, *_ in hours.description)
for market, hour, *figures, trades in hours.fetchall():
    out.writerow([market, hour, *(format(one, "f") for one in figures), trades])
