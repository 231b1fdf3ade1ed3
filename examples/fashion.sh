#!/bin/sh
# Photographs of fashion articles beside ids, attributes and histories: does a model that sees them tell better what a customer buys?
# Purchases until 2020-03-22 to learn from, the last six months to test; five seeds, whose mean scores are compared by a bootstrap
# over customers. DATA= has hm_small, OUT= the products, VECTORS= a keyed file of ctr-embed-images for its photographs.
# TUNE=1 tests on the three months before instead, learns from what lies before them, and so chose the settings.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
DATA=$(cd "${DATA:-$here/../../shared/data}" && pwd)
OUT=${OUT:-$here/out}
SEEDS=${SEEDS:-1 2 3 4 5}
mkdir -p "$OUT/fashion"
cd "$OUT/fashion"
# shellcheck disable=SC2034
VECTORS=${VECTORS:-vectors.arrow}
from=2020-03-23 until=2020-09-23
[ -z "${TUNE:-}" ] || from=2019-12-23 until=2020-03-23
settings='-q --minibatch 100 --hidden 32,16 --embedding 4 --rate 0.001 --l2 100 --passes 3'

learn="time < ts\"${from}T00:00Z\"" test="time >= ts\"${from}T00:00Z\" and time < ts\"${until}T00:00Z\""
slice=first slice_name='never bought' kept=time,customer,first,bought
. "$here/photos.sh"
short "$VECTORS"

attributes=product,type,kind,colour,department,index,section,garment
ctr-import -q -f csv --header "$DATA/hm_small/articles.csv.gz" --columns article_id:utf8,product_type_name:utf8,product_group_name:utf8,colour_group_name:utf8,department_name:utf8,index_name:utf8,section_name:utf8,garment_group_name:utf8,detail_desc:utf8 |
    ctr-select -q --columns 'article=article_id,type=product_type_name,kind=product_group_name,colour=colour_group_name,department=department_name,index=index_name,section=section_name,garment=garment_group_name' |
    ctr-select -q --add 'product=substr(article, 0, length(article) - 3)' -o articles.arrows
ctr-import -q -f csv --header "$DATA/hm_small/purchases.csv.gz" --columns customer_id:int64,article_id:utf8,date:timestamp,price:float64,sales_channel:int32 |
    ctr-select -q --columns time=date,customer=customer_id,article=article_id | ctr-sort -q -k time,customer,article --unique |
    ctr-join -q -k article articles.arrows -o purchases.arrows
python3 "$here/hm_pairs.py" "$DATA/hm_small/purchases.csv.gz" |
    ctr-import -q -f csv --header --label bought --user customer --time time --columns time:timestamp,customer:int64,article:utf8,first:bool,bought:bool |
    ctr-join -q -k article articles.arrows -o pairs.arrows
history() { ctr-history -q --user customer --time time --behaviours purchases.arrows --window 800d "$@" pairs.arrows; }
history -c article --group recent --last 5 | ctr-select -q --columns recent.article -o recent.arrows
history -c article,type,colour,department --last 50 --where true --count "customer,$(echo "$attributes" | sed 's/[a-z]*/customer+&/g')" |
    ctr-join -q --by-row recent.arrows -o history.arrows

cp "$here/hm.plan" with.plan # whose embedding() reads photos.arrow beside it
grep -v like with.plan | grep -v photo_vector >without.plan
compare without.plan with.plan

# Which photographs of a customer's past attention weighs highest beside that of the article: attention.html, of twelve purchases by
# customers with ten photographs or more, by the last model that was trained.
ctr-select -q --where "$test and bought and length(history.article) >= 10" history.arrows | ctr-sort -q -k customer,time --unique | ctr-sort -q --shuffle --seed 4 |
    ctr-select -q --head 12 -o shown.arrows
ctr-export -q -f jsonl shown.arrows >shown.jsonl
ctr-model explain -q --attention --images photos.arrow -n 7 --format stream model.arrows shown.arrows | ctr-export -q -f jsonl >weights.jsonl
python3 "$here/attention.py" shown.jsonl weights.jsonl "$DATA/hm_small/images.tar" customer bought >attention.html
printf '\nPictures: %s\n' "$PWD/attention.html"
