"""Keeps Iceberg tables of archived days. Needs pyiceberg[sql-postgres,sql-sqlite,pyarrow].

python pyiceberg_days.py "$(npx tapekeep url)" data/cold trades iceberg
python pyiceberg_days.py "$(npx tapekeep url)" s3://bucket/cold trades s3://bucket/iceberg postgresql+psycopg2://…

The second is cold.dir or cold.url; the fourth is a place for Iceberg's metadata. In a folder the catalog is a file of
SQLite, unless a fifth argument names another in the way of SQLAlchemy. Run it again when days were archived, restored or
expired. Its list of files is that of cold_files.py.
"""

import os
import sys
from pathlib import Path

from cold_files import files_of, open_place
from pyarrow.parquet import read_schema
from pyiceberg.catalog.sql import SqlCatalog

archive_url, cold, kind, place, *other = sys.argv[1:]
system, _, _ = open_place(cold)
if not place.startswith("s3://"):
    place = str(Path(place).resolve())
    Path(place).mkdir(parents=True, exist_ok=True)
uri = other[0] if other else f"sqlite:///{place}/catalog.db"
bucket = {"s3.endpoint": "AWS_ENDPOINT_URL_S3", "s3.region": "AWS_REGION"}
settings = {name: os.environ[variable] for name, variable in bucket.items() if variable in os.environ}
catalog = SqlCatalog("tapekeep", uri=uri, warehouse=place, **settings)
catalog.create_namespace_if_not_exists(kind)


def schema_of(file):
    with system.open_input_file(file["path"]) as opened:
        return read_schema(opened)


def types_of(file):
    return schema_of(file).to_string(show_schema_metadata=False)


# Oldest first. The market is in the path alone, so each has a table.
markets = {market: {} for _, market in catalog.list_tables(kind)}
for file in files_of(archive_url, cold, kind):
    markets.setdefault(file["market"], {})[file["uri"]] = file

left_out = []
for market, files in sorted(markets.items()):
    if not catalog.table_exists((kind, market)):
        newest = list(files.values())[-1]
        # The second property tells other programs to leave the files alone when they expire snapshots.
        properties = {"types": types_of(newest), "gc.enabled": "false"}
        catalog.create_table((kind, market), schema_of(newest), properties=properties)
    table = catalog.load_table((kind, market))
    held = {task.file.file_path: task.file for task in table.scan().plan_files()}
    new, gone = [one for one in files if one not in held], held.keys() - files.keys()
    # Iceberg allows one scale for a decimal column; add_files does not check that in lists.
    fits = [one for one in new if types_of(files[one]) == table.properties["types"]]
    left_out += [one for one in new if one not in fits]
    with table.transaction() as change:
        if fits:
            change.add_files(fits)
        if gone:
            with change.update_snapshot().overwrite() as removal:
                for one in gone:
                    removal.delete_data_file(held[one])
    print(f"{kind} {market}: {len(fits)} added, {len(gone)} removed")
if left_out:
    sys.exit("\n".join(["skipped, with other types than the table's:", *left_out]))
