#!/usr/bin/env python3
"""Views joined and grouped at cluster size: Spark shuffles by key, ctrkit's filters do the work of a partition, with the whole group present.

    shuffle.py IMPRESSIONS CLICKS OUT [PARTITIONS]       folders or files of Parquet, at a path that all workers see

OUT/rows.parquet are impressions with their click and the ads that their user had clicked before, OUT/ads.parquet counts by ad. On one machine
that is `shuffle.sh IMPRESSIONS CLICKS OUT`, whose rows have the same digest.
"""
import sys

from pyspark.sql import SparkSession

import ctrkit

impressions, clicks, out = sys.argv[1:4]
partitions = int(sys.argv[4]) if len(sys.argv) > 4 else 200
spark = SparkSession.builder.appName("shuffle").config("spark.sql.session.timeZone", "UTC").config("spark.sql.shuffle.partitions", partitions).getOrCreate()
views = [spark.read.parquet(p) for p in (impressions, clicks)]

# Both views meet by id; then a user's rows by user, in order of time; then an ad's by ad.
joined = ctrkit.through([["ctr-join", "-q", "-k", "id", "{}"], ["ctr-select", "--add", "click = not is_null(click_time)"]])
past = ctrkit.through(["ctr-history", "-q", "--user", "user", "--time", "time", "-c", "ad", "--where", "click"])
counts = ctrkit.through(["ctr-group", "-q", "-k", "ad", "--add", "shown=count()", "--add", "clicked=sum(click)"])

by_user = joined.spark(views[0], right=views[1], on="id").repartition("user").sortWithinPartitions("time", "id")
past.spark(by_user).write.mode("overwrite").parquet(f"{out}/rows.parquet")
rows = spark.read.parquet(f"{out}/rows.parquet").select("ad", "click")
counts.spark(rows.repartition("ad")).write.mode("overwrite").parquet(f"{out}/ads.parquet")
