#!/bin/sh
# The files of views: other ones than the plan was made with. Next month's text has columns without values, ids without leading zeros, or
# a header alone; a stream stands in the place of text; a file has no byte.
. "${0%/*}/lib.sh"
cd "$W" || exit 1

# log FIRST FORM : ids from FIRST in this form, a site, a price and a flag.
log() {
    awk -v first="$1" -v form="$2" -v site="$3" 'BEGIN {
        print "click,id,site,price,ok"
        for (i = 0; i < 200; i++) printf "%d," form ",%s,%d,%s\n", i % 3 == 0, first + i % 50, site == "" ? "" : site i % 5, i, i % 2 ? "true" : "false"
    }'
}
log 1 %03d s >log.csv
awk 'BEGIN { print "id,city"; for (i = 1; i <= 50; i++) printf "%03d,c%d\n", i, i % 7 }' >users.csv
log 100 %d '' >log2.csv
awk 'BEGIN { print "id,city"; for (i = 100; i < 150; i++) printf "%d,\n", i }' >users2.csv
head -n 1 log.csv >log0.csv
head -n 1 users.csv >users0.csv
cat >raw.plan <<'E2'
from log = csv(header=true)
join users = csv(header=true) on id prefix "u."
label click
feature id
feature site = vocab(site)
feature u.city
feature price
feature ok
E2

# ---- types ----

sed 's/vocab(site)/site/' raw.plan >one.plan
ok 'a model of raw views' ctr-train lr -q -o model.arrows one.plan log=log.csv users=users.csv
ok 'a fitted plan of them' ctr-extract -q --fit raw.plan log=log.csv users=users.csv -o fitted.arrows
rows() { ctr-info "$1" | sed -n 's/^rows: //p'; }
for plan in model fitted; do
    for views in 'log2 users2 200' 'log0 users2 0' 'log2 users0 200' 'log users0 200' 'log users2 200' 'log0 users0 0'; do
        # shellcheck disable=SC2086
        set -- $views
        ok "$plan: views $1, $2" ctr-extract -q $plan.arrows log="$1".csv users="$2".csv -o got.arrows
        is "$plan: rows of $1, $2" "$(rows got.arrows)" "$3"
    done
done
typed='columns="id:utf8,site:utf8'
sed "s/log = csv(header=true/&, $typed,price:int64,ok:bool\"/; s/users = csv(header=true/&, columns=\"id:utf8,city:utf8\"/" one.plan >typed.plan
ok 'with columns=: a model' ctr-train lr -q -o typed.model typed.plan log=log.csv users=users.csv
ok 'with columns=: features' ctr-extract -q typed.model log=log2.csv users=users2.csv -o want.arrows
ctr-extract -q model.arrows log=log2.csv users=users2.csv -o got.arrows
ctr-predict -q typed.model want.arrows | ctr-export -f csv >want.csv
ctr-predict -q model.arrows got.arrows | ctr-export -f csv >got.csv
ok 'predictions are those of a plan that names its types' cmp want.csv got.csv
ok 'from pipes' sh -c 'cat log2.csv | ctr-extract -q model.arrows log=- users=users2.csv -o piped.arrows'
ok 'from pipes: the same' same_rows got.arrows piped.arrows
sed 's/^\([^,]*,[^,]*,[^,]*\),[0-9]*,/\1,x,/' log2.csv >words.csv
exits 'a text where the plan knows a number' 1 ctr-extract -q model.arrows log=words.csv users=users2.csv
ok 'is told with its line' grep -qF "words.csv: line 2: column price: 'x' is not int64, as which the plan knows the column" err

# A header without rows: keys have the type of the other side.
awk 'BEGIN { print "click,user,t"; for (i = 0; i < 100; i++) printf "%d,%d,%d\n", i % 3 == 0, i % 9, 1000 + i }' >n.csv
awk 'BEGIN { print "user,t,buy"; for (i = 0; i < 9; i++) printf "%d,%d,b%d\n", i, 1000 + i, i }' >r.csv
head -n 1 n.csv >n0.csv
head -n 1 r.csv >r0.csv
header() {
    _name=$1 _rows=$2
    printf '%s\nkeep user\n' "$3" >header.plan
    shift 3
    ok "$_name" ctr-extract -q header.plan "$@" -o header.arrows
    is "$_name: rows" "$(rows header.arrows)" "$_rows"
}
header 'a join with a header' 100 'from n = csv(header=true)
join r = csv(header=true) on user' n=n.csv r=r0.csv
header 'a header joined' 0 'from n = csv(header=true)
join r = csv(header=true) on user' n=n0.csv r=r.csv
header 'a header of another name' 100 'from n = csv(header=true)
join r = csv(header=true, columns="key=user,t,buy") on user = key prefix "r."' n=n.csv r=r0.csv
printf 'from n = csv(header=true, columns="click:int8,user,time")\nkeep user\n' >mixed.plan
exits 'some names of columns= are in the header, one is not' 2 ctr-extract -q mixed.plan n=n.csv
err_like 'which is told' "the input has no column 'time'; there is t; time=OLD renames column OLD"
printf 'from n = csv(header=true, columns="user,click,time")\nkeep user\n' >swapped.plan
exits 'a list as long as the header exchanges none' 2 ctr-extract -q swapped.plan n=n.csv
header 'names that replace all of the header' 100 'from n = csv(header=true, columns="y,who,when")
add user = who' n=n.csv
header 'a key that a statement makes' 100 'from n = csv(header=true)
add k = user % 3
join r = csv(header=true) on k = user prefix "r."' n=n.csv r=r0.csv
header 'times of a header' 100 'from n = csv(header=true, time="t:unix")
join r = csv(header=true) on user as-of t prefix "r."' n=n.csv r=r0.csv
header 'behaviours of a header' 100 'from n = csv(header=true, time="t:unix")
history buy from r = csv(header=true) by user at t' n=n.csv r=r0.csv
header 'a header, then rows' 100 'from n = csv(header=true)
join r = csv(header=true) on user prefix "r."' n=n.csv r=r0.csv r=r.csv

# ---- a stream in the place of text ----

printf 'from n = csv(header=true, time="t:unix", user="user")\nlabel click\ntime t\nuser user\nfeature user_key = user\n' >text.plan
ctr-extract -q text.plan n=n.csv -o want.arrows
ctr-import -q -f csv --header --time t:unix n.csv -o n.arrows
ctr-cat -q --to file n.arrows -o n.arrow
for file in n.arrows n.arrow; do
    ok "$file for text" ctr-extract -q text.plan n=$file -o got.arrows
    ok "$file for text: the same rows" same_rows want.arrows got.arrows
done
ok 'a stream on stdin for text' sh -c 'ctr-extract -q text.plan n=- <n.arrows -o got.arrows'
ok 'a stream on stdin for text: the same rows' same_rows want.arrows got.arrows
ok 'a piped stream for text' sh -c 'cat n.arrows | ctr-extract -q text.plan n=- -o got.arrows'
ok 'a piped stream for text: the same rows' same_rows want.arrows got.arrows
printf 'from n = csv(header=true, time="t:unix", user="user")\nhistory click\nkeep history.click\n' >roles.plan
ok 'its columns have the roles of the plan' ctr-extract -q roles.plan n=n.arrows -o roles.arrows
exits 'a stream beside text' 1 ctr-extract -q text.plan n=n.arrows n=n.csv
ok 'is told with the file' grep -qF 'n.csv: is text, and another file of the view an Arrow stream' err

# ---- without a byte ----

: >none.csv
gzip -c none.csv >none.csv.gz
for format in csv tsv jsonl; do
    printf 'from n = %s(columns="click:int64,user:int64")\nlabel click\nfeature user\n' $format >none.plan
    for file in none.csv none.csv.gz /dev/null; do
        exits "$format of $file" 1 ctr-train lr -q -o none.model none.plan n=$file
        ok "$format of $file: told with the file" grep -qF "$file: is empty, without a byte" err
    done
    exits "$format of an empty stdin" 1 sh -c 'ctr-train lr -q -o none.model none.plan n=- </dev/null'
    ok "$format of an empty stdin: told" grep -qF 'stdin: is empty, without a byte' err
done
exits 'a file without a byte among others' 1 ctr-extract -q text.plan n=n.csv n=none.csv
ok 'no model appears' test ! -e none.model
done_testing
