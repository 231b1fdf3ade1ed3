#!/bin/sh
# shuffle.sh IMPRESSIONS CLICKS OUT: what shuffle.py does, on one machine. `shuffle.sh --digest OUT` prints the digests of the rows of either, in
# the order of their keys, which partitions do not have. A column that is computed has no role: roles do not come through an engine.
set -eu
if [ "$1" = --digest ]; then
    ctr-import -q -f parquet "$2"/rows.parquet/*.parquet | ctr-select --add 'past = history.ad' |
        ctr-select --columns id,user,ad,time,click_time,click,past | ctr-sort -k id | ctr-info --digest
    ctr-import -q -f parquet "$2"/ads.parquet/*.parquet | ctr-sort -k ad | ctr-info --digest
    exit
fi
mkdir -p "$3/rows.parquet" "$3/ads.parquet"
ctr-import -q -f parquet -o "$3/clicks.arrows" "$2"/*.parquet
ctr-import -q -f parquet "$1"/*.parquet | ctr-join -q -k id "$3/clicks.arrows" | ctr-select --add 'click = not is_null(click_time)' |
    ctr-sort -k time,id | ctr-history -q --user user --time time -c ad --where click -o "$3/rows.arrows"
ctr-export -q -f parquet -o "$3/rows.parquet/all.parquet" "$3/rows.arrows"
ctr-group -q -k ad --add 'shown=count()' --add 'clicked=sum(click)' "$3/rows.arrows" | ctr-export -q -f parquet -o "$3/ads.parquet/all.parquet"
