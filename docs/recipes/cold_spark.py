"""Prints hours of trades as CSV, by Spark, from a list of cold_files.py. Needs pyspark 4 and Java 17.

spark-submit --packages org.apache.hadoop:hadoop-aws:3.5.0 cold_spark.py trades.jsonl

hadoop-aws has to be of Spark's own Hadoop. A second argument are the digits after the point, where 18 are too few.
"""

import csv
import json
import os
import sys
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

after_point = int(sys.argv[2]) if len(sys.argv) > 2 else 18
files = [json.loads(line) for line in open(sys.argv[1])]
FIGURES = ("price", "amount", "total")


def widest(name):
    """A type that holds the decimals of all files. Left to itself, Spark refuses files whose types differ."""
    digits = [file["digits"][name] for file in files if file["digits"][name]] or [[20, 18]]
    before, after = (max(numbers) for numbers in zip(*digits))
    return f"DECIMAL({before + after},{after})"


TYPES = {
    **{"traded_at": "TIMESTAMP", "tid": "BIGINT", "executed_at": "TIMESTAMP", "side": "STRING"},
    **{name: widest(name) for name in FIGURES},
    **{"received_at": "TIMESTAMP", "market": "STRING", "date": "DATE"},
}

spark = SparkSession.builder.appName("tapekeep").config("spark.sql.session.timeZone", "UTC")
if "AWS_ENDPOINT_URL_S3" in os.environ:
    spark = spark.config("spark.hadoop.fs.s3a.endpoint", os.environ["AWS_ENDPOINT_URL_S3"])
    spark = spark.config("spark.hadoop.fs.s3a.path.style.access", "true")
    spark = spark.config("spark.hadoop.fs.s3a.endpoint.region", os.environ.get("AWS_REGION", "us-east-1"))
spark = spark.getOrCreate()


def read(files, text):
    """Rows of files that have the same columns as text: numbers too long for a decimal of a file."""
    uris = [file["uri"].replace("s3://", "s3a://") for file in files]
    types = {**TYPES, **dict.fromkeys(text, "STRING")}
    rows = spark.read.schema(", ".join(f"{name} {one}" for name, one in types.items()))
    rows = rows.option("basePath", uris[0].partition("/kind=")[0]).parquet(*uris)
    for name in text:
        # A cast of text rounds.
        after = F.length(F.regexp_extract(name, r"\.(\d*?)0*$", 1))
        refusal = F.raise_error(F.concat(F.lit("too many digits: "), name))
        rows = rows.withColumn(name, F.when(after <= after_point, F.col(name)).otherwise(refusal))
    return rows.withColumns({name: F.col(name).cast(f"DECIMAL(38,{after_point})") for name in long})


groups = {}
for file in files:
    groups.setdefault(tuple(name for name in FIGURES if file["digits"][name] is None), []).append(file)
long = set().union(*groups)
trades = reduce(DataFrame.unionByName, [read(some, text) for text, some in groups.items()])

order = F.struct("traded_at", "tid")
hours = trades.groupBy("market", F.date_trunc("hour", "traded_at").alias("hour")).agg(
    F.min_by("price", order).alias("open"),
    F.max("price").alias("high"),
    F.min("price").alias("low"),
    F.max_by("price", order).alias("close"),
    F.sum("amount").alias("amount"),
    F.sum("total").alias("total"),
    F.count("*").alias("trades"),
)
hours = hours.withColumn("hour", F.date_format("hour", "yyyy-MM-dd'T'HH:mm:ss'Z'"))
out = csv.writer(sys.stdout)
out.writerow(hours.columns)
for market, at, *figures, count in hours.orderBy("market", "hour").collect():
    out.writerow([market, at, *(format(one, "f") for one in figures), count])
