#!/bin/sh
# The funnel of a request, offline: all 5,613 articles of hm_small for each customer; a two-tower model keeps the best TOP by inner products,
# a logistic regression scores them, and ctr-rank orders them by expected revenue. Then: how much of the last order does the
# first stage keep, and what would exploration cost? DATA= has hm_small, OUT= the products.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
DATA=$(cd "${DATA:-$here/../../shared/data}" && pwd)
OUT=${OUT:-$here/out}
TOP=${TOP:-400}
mkdir -p "$OUT/funnel"
cd "$OUT/funnel"
from='ts"2020-03-23T00:00Z"'

# The catalogue, with the mean price at which an article was sold, which stands for a bid; purchases; and pairs to learn from.
ctr-import -q -f csv --header "$DATA/hm_small/purchases.csv.gz" --columns customer_id:int64,article_id:utf8,date:timestamp,price:float64,sales_channel:int32 |
    ctr-select -q --columns time=date,customer=customer_id,article=article_id,price -o sales.arrows
ctr-select -q --where "time < $from" sales.arrows | ctr-group -q -k article --add 'bid=mean(price)' -o bids.arrows
ctr-import -q -f csv --header "$DATA/hm_small/articles.csv.gz" --columns article_id:utf8,product_type_name:utf8,product_group_name:utf8,colour_group_name:utf8,department_name:utf8,index_name:utf8,section_name:utf8,garment_group_name:utf8,detail_desc:utf8 |
    ctr-select -q --columns 'article=article_id,type=product_type_name,colour=colour_group_name,department=department_name,section=section_name,garment=garment_group_name' |
    ctr-select -q --add 'product=substr(article, 0, length(article) - 3)' | ctr-join -q -k article bids.arrows |
    ctr-select -q --add 'bid=fill(bid, 0.0)' -o articles.arrows
ctr-sort -q -k time,customer,article --unique sales.arrows | ctr-select -q -c time,customer,article |
    ctr-join -q -k article articles.arrows -o purchases.arrows
python3 "$here/hm_pairs.py" "$DATA/hm_small/purchases.csv.gz" |
    ctr-import -q -f csv --header --label bought --user customer --time time --columns time:timestamp,customer:int64,article:utf8,first:bool,bought:bool |
    ctr-join -q -k article articles.arrows |
    ctr-history -q --user customer --time time --behaviours purchases.arrows --window 800d -c article,type,colour,department --last 20 |
    ctr-select -q --add 'request=customer' --add 'prerank=0.0' -o history.arrows

# The second stage learns what was bought; the towers of the first one learn the second one's scores of the same pairs, which they are to find.
ctr-select -q --where "time < $from" history.arrows -o learn.arrows
ctr-extract -q "$here/funnel.plan" learn.arrows | ctr-train lr -q --alpha 0.05 --l2 1 -o rank.model
grep -v cross "$here/funnel.plan" >towers.plan
ctr-extract -q rank.model learn.arrows | ctr-predict -q rank.model | ctr-select -q -c teacher=score -o teacher.arrows
ctr-extract -q towers.plan learn.arrows | ctr-join -q --by-row teacher.arrows | ctr-select -q --add bought=teacher -c -teacher -o towers.arrows
ctr-train two-tower -q --minibatch 100 --embedding 8 --hidden 32 --vector 16 --rate 0.003 --l2 10 --passes 2 \
    --user-features 'past*' --ad-features article,product,type,colour,department,section,garment -o towers.model towers.arrows

# A request is a customer of the last six months, as of his first day in them. Vectors of requests and of the catalogue:
ctr-select -q --where "time >= $from and bought" history.arrows | ctr-sort -q -k request,time | ctr-sort -q -k request --unique -o requests.arrows
ctr-extract -q towers.model requests.arrows | ctr-select -q -c 'request,past*' | ctr-predict -q --tower user towers.model -o users.vec
ctr-select -q --add 'customer=0' --add "time=$from" --add 'request=0' --add 'prerank=0.0' --add 'bought=false' --add '`history.article`=split("", " ")' \
    --add '`history.type`=split("", " ")' --add '`history.colour`=split("", " ")' --add '`history.department`=split("", " ")' articles.arrows |
    ctr-extract -q towers.model | ctr-select -q -c item,article,product,type,colour,department,section,garment | ctr-predict -q --tower ad towers.model -o ads.vec
ctr-select -q -c 'request,customer,time,history.*' requests.arrows -o context.arrows
# What the customer bought from then on is the label.
ctr-select -q --where "time >= $from" --add 'hit=true' -c request=customer,article,hit sales.arrows | ctr-sort -q -k request,article --unique -o hits.arrows

candidates() { # candidates K: the best K articles of each request, as the first stage has them, with all that the second one reads
    ctr-predict -q --dot --top "$1" users.vec ads.vec | ctr-select -q -c request,article=item,prerank=score |
        ctr-join -q -k article articles.arrows | ctr-join -q -k request context.arrows | ctr-join -q -k request,article hits.arrows |
        ctr-select -q --add 'bought=not is_null(hit)' | ctr-extract -q rank.model
}

# The funnel is one pipe. What a click costs is the second price.
candidates "$TOP" | ctr-predict -q rank.model | ctr-rank --bid bid --price second --slots 1,0.7,0.5,0.4,0.3 -o shown.arrows
echo "$(ctr-info requests.arrows | sed -n 's/^rows: //p') requests, the first three:"
ctr-select --head 15 shown.arrows | ctr-select -c request,rank,item,score,bid,ecpm,price,slot_factor | ctr-export -q

# How many of the ten that the second stage likes best of 4,000 does the first one keep, if it keeps K?
printf '\nRecall of the second stage'\''s best 10 of 4,000 among the first stage'\''s best K:\n'
candidates 4000 | ctr-predict -q rank.model -o all.arrows
ctr-select -q -c -bought all.arrows | ctr-eval --at 50,100,200,400,1000,2000 --score prerank --reference score --reference-top 10
printf '\nWhat was bought, in the order of the first and of the second stage:\n'
ctr-eval -q --at 10,100 --score prerank all.arrows
ctr-eval -q --at 10,100 all.arrows

# Exploration: candidates whose weights are hardly known get a better place; what it costs in expected revenue.
printf '\nExpected revenue a request of five slots, without and with exploration:\n'
candidates "$TOP" | ctr-predict -q --uncertainty rank.model -o scored.arrows
for explore in '' 'ucb=0.5' thompson 'epsilon=0.1'; do
    ctr-rank -q --bid bid --slots 1,0.7,0.5,0.4,0.3 ${explore:+--explore "$explore"} scored.arrows |
        ctr-select -q --add 'all=1' --add 'revenue=bid * score * slot_factor' | ctr-group -q -k all --add 'r=sum(revenue)' --add 'n=max(request)' --add 'shown=count()' |
        ctr-export -q -f csv --no-header --columns r,shown | awk -F, -v e="${explore:-none}" '{ printf "%-12s %.6f\n", e, $1 / ($2 / 5) }'
done
