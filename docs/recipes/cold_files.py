"""Lists the cold files that count, one JSON object a line. Needs psycopg2 and pyarrow.

python cold_files.py "$(npx tapekeep url)" s3://bucket/cold trades > trades.jsonl

The second is cold.dir or cold.url. A bucket elsewhere than at AWS is named by AWS_ENDPOINT_URL_S3.
"""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg2
from pyarrow import fs, parquet, types

TABLES = {
    "trades": "trade",
    "klines": "kline",
    "kline_revisions": "kline_revision",
    "tickers": "ticker",
    "depth": "depth",
    "states": "market_state",
}


def open_place(place):
    """The file system of a folder or bucket, its path there, and what makes a URI of such a path."""
    if not place.startswith("s3://"):
        return fs.LocalFileSystem(), str(Path(place).resolve()), ""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3")
    bucket = fs.S3FileSystem(endpoint_override=endpoint, region=os.environ.get("AWS_REGION", "us-east-1"))
    return bucket, place.removeprefix("s3://").rstrip("/"), "s3://"


def files_of(archive_url, place, kind):
    """Entries of the manifests of archived partitions, oldest first. A file that no such manifest names is nothing."""
    system, root, scheme = open_place(place)
    with psycopg2.connect(archive_url) as archive, archive.cursor() as rows:
        rows.execute(
            "SELECT uri FROM partition_state WHERE state = 'archived' AND table_name = %s ORDER BY span",
            [TABLES[kind]],
        )
        manifests = [f"{root}/{uri}" for (uri,) in rows if uri]
    archive.close()

    def read(manifest):
        with system.open_input_file(manifest) as file:
            return json.loads(file.read())["files"]

    with ThreadPoolExecutor(32) as pool:
        for files in pool.map(read, manifests):
            for file in files:
                yield {**file, "path": f"{root}/{file['path']}", "uri": f"{scheme}{root}/{file['path']}"}


def digits_of(schema):
    """Of each decimal column, lists of them included, the digits before and after the point; null where it is text."""
    digits = {}
    for column in schema:
        one = column.type.value_type if types.is_list(column.type) else column.type
        if types.is_decimal(one):
            digits[column.name] = [one.precision - one.scale, one.scale]
        elif types.is_string(one) and column.name not in ("side", "origin"):
            digits[column.name] = None
    return digits


def main(archive_url, place, kind):
    system, _, _ = open_place(place)

    def look(file):
        with system.open_input_file(file["path"]) as opened:
            content = parquet.ParquetFile(opened)
            if content.metadata.num_rows != file["rows"]:
                sys.exit(f"{file['uri']}: {content.metadata.num_rows} rows, and {file['rows']} in its manifest")
            known = {name: file[name] for name in ("uri", "market", "date", "rows", "bytes")}
            return {**known, "digits": digits_of(content.schema_arrow)}

    with ThreadPoolExecutor(32) as pool:
        for file in pool.map(look, list(files_of(archive_url, place, kind))):
            print(json.dumps(file))


if __name__ == "__main__":
    main(*sys.argv[1:])
