#!/bin/sh
# The public logs as streams of features, in the order of time where they have one: tests/bench/logs.sh DATA TO. Plans are those of examples/.
set -eu
data=$1 to=$2 plans=$(cd "$(dirname "$0")/../../examples" && pwd)
mkdir -p "$to/tmp"
exec 2>"$to/tmp/said"
tsv='ctr-import --format tsv' csv='ctr-import --format csv'
in_tmp() { echo "$to/tmp/$1.arrows"; }

$csv --header --columns 'row:int64,click:int8,I[1..13]:float64,C[1..26]:utf8' "$data"/criteo_small_20k/*.csv.gz | ctr-sort -k row |
    ctr-extract "$plans/criteo.plan" -o "$to/criteo.arrows"
$csv --header --time 'hour:%y%m%d%H' "$data/avazu_10k/train.csv.gz" | ctr-extract "$plans/avazu.plan" -o "$to/avazu.arrows"
$tsv --columns impression_id:int64,user_id:utf8,time:timestamp,history:utf8,impressions:utf8 --time 'time:%m/%d/%Y %I:%M:%S %p' \
    "$data/mind_5k/behaviors.tsv.gz" | ctr-sort -k time | ctr-select --add 'item=split(impressions, " ")' --explode item |
    ctr-extract "$plans/mind.plan" -o "$to/mind.arrows"
$csv --columns is_click:int8 "$data/amex2018_ctr/y_test_1st.csv" -o "$(in_tmp labels)"
$csv --header --time DateTime "$data/amex2018_ctr/X_test_1st_new.csv.gz" | ctr-join --by-row "$(in_tmp labels)" | ctr-sort -k DateTime |
    ctr-extract "$plans/amex.plan" -o "$to/amex.arrows"
$csv --delimiter :: --columns user_id:int32,gender:utf8,age:int32,occupation:int32,zip:utf8 "$data/ml1m_half/users.dat" -o "$(in_tmp users)"
$csv --delimiter :: --encoding latin1 --columns movie_id:int32,title:utf8,genres:utf8 "$data/ml1m_half/movies.dat.gz" -o "$(in_tmp movies)"
$csv --delimiter :: --columns user_id:int32,movie_id:int32,rating:int8,time:timestamp --time time:unix "$data/ml1m_half/ratings.dat.gz" |
    ctr-sort -k time | ctr-join -k user_id "$(in_tmp users)" | ctr-join -k movie_id "$(in_tmp movies)" |
    ctr-extract "$plans/ml1m.plan" -o "$to/ml1m.arrows"
printf '%s\n' 'label liked = rating >= 4' 'time time' 'feature user = user_id' 'feature movie = movie_id' >"$to/tmp/ml100k.plan"
$tsv --columns user_id:int32,movie_id:int32,rating:int8,time:timestamp --time time:unix "$data/ml100k/u.data.gz" | ctr-sort -k time |
    ctr-extract "$to/tmp/ml100k.plan" -o "$to/ml100k.arrows"
printf '%s\n' 'label is_attributed' 'time click_time' 'feature ip' 'feature app' 'feature device' 'feature os' 'feature channel' \
    'feature app_channel = cross(app, channel)' >"$to/tmp/talking.plan"
unzip -p "$data/talkingdata_100k/train_sample.csv.zip" | $csv --header --time click_time | ctr-sort -k click_time |
    ctr-extract "$to/tmp/talking.plan" -o "$to/talking.arrows"
printf '%s\n' 'label click' 'time timestamp' 'feature item = item_id' 'feature position' 'feature user_feature_[0..3]' >"$to/tmp/obd.plan"
for log in random/men random/women bts/men bts/women; do
    $csv --header --time timestamp "$data/obd_small/$log/${log#*/}.csv.gz" | ctr-sort -k timestamp |
        ctr-extract "$to/tmp/obd.plan" -o "$to/obd-$(echo "$log" | tr / -).arrows"
done
