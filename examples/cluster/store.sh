#!/bin/bash
# Features of days whose logs lie in an object store, through the store's own command line tool:
#     GET='aws s3 cp s3://ads/logs/{} -' PUT='aws s3 cp - s3://ads/features/{}' PLAN=ads.plan ./store.sh 2026-11-01 2026-11-02 …
# {} is the name of the object. GET='hdfs dfs -cat /ads/logs/{}' PUT='hdfs dfs -put -f - /ads/features/{}' for HDFS, rclone cat and rcat for others.
#
# Nothing marks the end of a text, so a log that came in part is known by GET's exit status alone (pipefail), and nothing is put until all have ended well.
# Features are a stream with an end mark: an object that was put in part is refused by every tool that reads it.
set -euo pipefail
kept=$(mktemp -d)
trap 'rm -rf "$kept"' EXIT
for day; do
    bash -c "${GET//\{\}/$day.csv.gz}" | ctr-import -q ${IMPORT:--f csv --header} | ctr-extract -q "$PLAN" -o "$kept/features"
    ctr-cat -q --compress zstd "$kept/features" | bash -c "${PUT//\{\}/$day.arrows}"
done
