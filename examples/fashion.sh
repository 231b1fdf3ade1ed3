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
VECTORS=${VECTORS:-vectors.arrow}
from=2020-03-23 until=2020-09-23
[ -z "${TUNE:-}" ] || from=2019-12-23 until=2020-03-23
settings='-q --minibatch 100 --hidden 32,16 --embedding 4 --rate 0.001 --l2 100 --passes 3'

# Each photograph as 128 numbers of length 1; the network and photo_vectors.py never saw a purchase.
ctr-select -q --columns vector "$VECTORS" | ctr-export -f npy -o raw.npy
python3 "$here/photo_vectors.py" 128 raw.npy unit.npy
ctr-select -q --columns key "$VECTORS" -o keys.arrows
ctr-import -q -f npy unit.npy | ctr-select -q --columns vector=value | ctr-join -q --by-row keys.arrows | ctr-cat --to file --key key -o photos.arrow

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

# model NAME PLAN OPTION…: five seeds, and their mean score in NAME.arrows; a line a seed in seeds.tsv: name, seed, AUC, GAUC, AUC of never-bought.
rm -f seeds.tsv
model() {
    name=$1 plan=$2
    shift 2
    ctr-extract -q "$plan" history.arrows -o features.arrows
    ctr-select -q --where "time < ts\"${from}T00:00Z\"" features.arrows -o train.arrows
    ctr-select -q --where "time >= ts\"${from}T00:00Z\" and time < ts\"${until}T00:00Z\"" features.arrows -o test.arrows
    images=
    case " $* " in *' --images '*) images='--images photos.arrow' ;; esac
    sum=0 n=0
    for seed in $SEEDS; do
        # shellcheck disable=SC2086
        ctr-train dicm $settings --seed "$seed" "$@" -o model.arrows train.arrows
        # shellcheck disable=SC2086
        ctr-predict -q $images model.arrows test.arrows -o scored.arrows
        ctr-eval --by first --metrics auc,gauc scored.arrows | awk -v OFS='\t' -v m="$name" -v s="$seed" \
            '$1 == "total" { a = $4; g = $5 } $1 == "first=true" { print m, s, a, g, $4 }' >>seeds.tsv
        n=$((n + 1)) sum="$sum + s$seed"
        ctr-select -q --columns "s$seed=score" scored.arrows -o "s$seed.arrows"
        if [ $n = 1 ]; then ctr-select -q --columns time,customer,first,bought scored.arrows -o all.arrows; fi
        ctr-join -q --by-row "s$seed.arrows" all.arrows -o more.arrows
        mv more.arrows all.arrows
    done
    ctr-select -q --add "score=($sum) / $n" all.arrows -o "$name.arrows"
}
grep -v like "$here/hm.plan" | grep -v photo_vector >without.plan
cp "$here/hm.plan" with.plan
model ids without.plan --images-as-ids
model tower without.plan --images photos.arrow --images-tower 0 --images-pool attentive --attention-hidden 8
model cosine with.plan --images-as-ids
model images with.plan --images photos.arrow --images-tower 0 --images-pool attentive --attention-hidden 8

echo '| model | AUC, mean of seeds | GAUC | AUC, never bought | AUC of the mean score | never bought |'
echo '|---|---|---|---|---|---|'
for m in ids tower cosine images; do
    together=$(ctr-eval --score score --by first --metrics auc $m.arrows | awk '$1 == "total" { a = $NF } $1 == "first=true" { printf "%.4f | %.4f", a, $NF }')
    awk -F '\t' -v m=$m -v t="$together" '$1 == m { for (i = 3; i <= 5; i++) { s[i] += $i; q[i] += $i * $i } n++ }
        END { printf "| %s", m
              for (i = 3; i <= 5; i++) { d = q[i] / n - s[i] / n * (s[i] / n); printf " | %.4f ± %.4f", s[i] / n, 2.776 * sqrt(d > 0 ? d / (n > 1 ? n - 1 : 1) : 0) }
              printf " | %s |\n", t }' seeds.tsv
done
echo
echo 'Gains of the mean scores over ids, in per cent of its AUC, with 95% intervals of 1000 bootstrap samples of customers:'
for m in tower cosine images; do
    printf '\n%s\n' $m
    ctr-eval --score score --by first --metrics auc,gauc --control ids.arrows --bootstrap 1000 $m.arrows
done
