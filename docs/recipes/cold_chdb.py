"""Prints hours of trades as CSV, by ClickHouse in Python, from a list of cold_files.py. Needs chdb.

python cold_chdb.py trades.jsonl

A ClickHouse server takes the same statement. Digits beyond 38 after the point would be cut off.
"""

import json
import os
import sys

import chdb

# 38 digits on both sides of the point: what is text for lack of digits fits as well.
STRUCTURE = r"""traded_at DateTime64(6, \'UTC\'), tid Int64, price Decimal(76, 38), amount Decimal(76, 38),
    total Decimal(76, 38)"""

files = [json.loads(line)["uri"] for line in open(sys.argv[1])]
root, _, _ = files[0].partition("/kind=")
names = ",".join(file.removeprefix(f"{root}/") for file in files)
if root.startswith("s3://"):
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3", "https://s3.amazonaws.com")
    # Names with special characters: ClickHouse decodes what it takes for an address.
    names = names.replace("%", "%25")
    key, secret = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
    place = f"s3('{endpoint}/{root.removeprefix('s3://')}/{{{names}}}', '{key}', '{secret}'"
else:
    place = f"file('{root}/{{{names}}}'"
hours = chdb.query(
    f"""
    SELECT decodeURLComponent(market) AS market,
           formatDateTime(toStartOfHour(traded_at), '%Y-%m-%dT%H:%i:%SZ', 'UTC') AS hour,
           argMin(price, (traded_at, tid)) AS open, max(price) AS high, min(price) AS low,
           argMax(price, (traded_at, tid)) AS close, sum(amount) AS amount, sum(total) AS total, count() AS trades
    FROM {place}, 'Parquet', '{STRUCTURE}') GROUP BY 1, 2 ORDER BY 1, 2
    SETTINGS use_hive_partitioning = 1, max_query_size = 100000000
    """,
    "CSVWithNames",
)
print(hours, end="")
