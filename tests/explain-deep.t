#!/bin/sh
# ctr-model explain of deep models: contributions are those of an independent integral, whose gradients are differences of the whole
# forward pass; they, the bias and the residual add up to the log odds, for every kind of model; raw rows have names; batches do not matter.
. "${0%/*}/lib.sh"
has_python json || skip_all "no python"
REF="$CTR_TOP/tests/deep_reference.py"
MAKE="$CTR_TOP/tests/model_reference.py"
cd "$W" || exit 1

n=4
"$PY" "$MAKE" make mixed 600 rows.arrows && ctr-select -q --head "$n" rows.arrows -o few.arrows || exit 1
train() { _kind=$1; shift; ctr-train "$_kind" -q --embedding 3 --minibatch 50 --rate .02 --passes 3 "$@"; }
explained() { ctr-model explain -q -n 0 --format stream "$@"; }

# explains KIND OPTION… -- REFERENCE-OPTION… : a model of rows.arrows that learned with OPTIONs, and what is said of few.arrows
explains() {
    _kind=$1 _o=
    shift
    while [ "$1" != -- ]; do _o="$_o $1"; shift; done
    shift
    # shellcheck disable=SC2086
    train "$_kind" $_o -o m.model rows.arrows && explained m.model few.arrows -o got.explained && ref explain m.model few.arrows got.explained "$@"
}
ok 'mlp: the integrated gradients of the reference' explains mlp --hidden 6,4 -- hidden=6,4
other() { ! ref explain m.model few.arrows got.explained hidden=6,4 activation=relu; }
[ "$SAN" ] || ok 'the check can fail' other
ok 'mlp: relu, lists pooled by their largest' explains mlp --hidden 6,4 --activation relu --pooling max -- hidden=6,4 activation=relu pooling=max
ok 'mlp: dice, batch normalization, dropout, means' explains mlp --hidden 6,4 --activation dice --batch-norm --dropout .2 --pooling mean -- \
    hidden=6,4 activation=dice batch-norm=1 pooling=mean
ok 'mlp: without hidden layers' explains mlp --hidden 0 -- hidden=0
ok 'fm: every pair is halved' explains fm --
ok 'dcnv2: parallel' explains dcnv2 --hidden 6,4 -- hidden=6,4
ok 'dcnv2: stacked, of low rank' explains dcnv2 --hidden 6,4 --structure stacked --cross-rank 2 -- hidden=6,4 structure=stacked cross-rank=2
ok 'dlrm' explains dlrm --hidden 6,4 --bottom 4 -- hidden=6,4 bottom=4
U=a,age,past,item A='b,text,vec,word'
ok 'two-tower' explains two-tower --user-features $U --ad-features $A --hidden 6,4 --vector 4 -- user=$U ad=$A hidden=6,4
ok 'two-tower: dice and batch normalization' explains two-tower --user-features $U --ad-features $A --hidden 6 --vector 4 --activation dice --batch-norm -- \
    user=$U ad=$A hidden=6 activation=dice batch-norm=1

# ---- rows that share one side: each has parts of its own
ctr-cat -q few.arrows few.arrows -o twice.arrows
train two-tower --user-features $U --ad-features $A --hidden 6,4 --vector 4 -o tt.model rows.arrows
is 'equal rows have equal parts' "$(explained tt.model twice.arrows | ctr-select -q --where "row > $n" --add "row = row - $n" | ctr-info --digest)" \
    "$(explained tt.model few.arrows | ctr-select -q --add 'row = row - 0' | ctr-info --digest)"

# ---- histories, images
cat >raw.awk <<'END'
BEGIN { srand(7); for (i = 0; i < 600; i++) { n = i % 5; it = ""; ca = ""
    for (k = 0; k < n; k++) { p = int(rand() * 9); it = it (k ? " p" : "p") p; ca = ca (k ? " c" : "c") p % 3 }
    a = int(rand() * 9); split(it, h, " "); like = 0; for (k in h) like += substr(h[k], 2) % 3 == a % 3
    printf "{\"click\":%d,\"item\":\"p%d\",\"cat\":\"c%d\",\"photo\":\"p%d\",\"past\":\"%s\",\"pcat\":\"%s\",\"age\":%.2f}\n", rand() < (like + 1) / 5, a, a % 3, a, it, ca, rand() } }
END
awk -f raw.awk | ctr-import -q -f jsonl --columns click:int8,item:utf8,cat:utf8,photo:utf8,past:utf8,pcat:utf8,age:float64 >log.arrows
awk 'BEGIN { srand(2); for (i = 0; i < 9; i++) printf "{\"key\": \"p%d\", \"vector\": [%.3f, %.3f, %.3f]}\n", i, i % 3 == 0, i % 3 == 1, rand() - .5 }' | ctr-import -q -f jsonl >images.arrows
printf 'image key in photo\nkeep vector\n' >keys.plan
ctr-extract -q keys.plan images.arrows >keys.arrows
ctr-select -q --head "$n" log.arrows -o few.log
# learns PLAN-LINES KIND OPTION… : din.model, its features in few.f
learns() {
    printf 'label click\n%b' "$1" >h.plan
    _kind=$2
    shift 2
    ctr-extract -q h.plan log.arrows -o h.f && train "$_kind" "$@" -o h.model h.f && ctr-extract -q --names h.names h.plan few.log -o few.f
}
HISTORY='feature item\nfeature past in item of item = split(past, " ")\nfeature cat\nfeature seen in cat of cat = split(pcat, " ")\ndense age\n'
din() { learns "$HISTORY" din --hidden 6 --attention-hidden 4 "$@" && explained h.model few.f -o h.explained; }
ok 'din learns' din
ok 'din: items of histories have parts' ref explain h.model few.f h.explained hidden=6 attention-hidden=4 activation=dice
ok 'din learns by softmax' din --attention softmax --activation prelu
ok 'din: softmax' ref explain h.model few.f h.explained hidden=6 attention-hidden=4 attention=softmax activation=prelu
is 'raw rows have the parts of their features, and names' "$(explained h.model few.log | ctr-info --digest)" "$(explained --names h.names h.model few.f | ctr-info --digest)"
is 'each item has its name' "$(explained h.model few.log | ctr-select -q --where 'row == 4 and table == "past"' --columns name | ctr-export -q -f csv --no-header | sort | tr '\n' ' ')" \
    "$(ctr-select -q --where 'true' --columns past few.log | ctr-export -q -f csv --no-header | sed -n 4p | tr ' ' '\n' | sort | tr '\n' ' ')"
is '--attention tells what attention weighs' "$(ctr-model explain -q --attention -n 0 --format stream h.model few.log | ctr-info --json | grep -o '"name":"place"')" '"name":"place"'
exits '--attention of a model without' 2 ctr-model explain --attention m.model few.arrows
err_like 'says who has it' "m.model: a model of kind '.*' without attention units weighs no items: leave --attention out"
exits '--attention --by-table' 2 ctr-model explain --attention --by-table h.model few.log
err_like 'exclude each other' 'attention weighs items, which --by-table does not sum'
# dicm POOL OPTION… : of images; every base
dicm() {
    _pool=$1
    shift
    learns 'feature item\nfeature cat\nfeature seen in cat of cat = split(pcat, " ")\nimage photo\nimage past in photo of photo = split(past, " ")\ndense age\n' dicm --images images.arrows \
        --images-pool "$_pool" --images-tower 4 --hidden 6 --attention-hidden 4 "$@" && explained --images images.arrows h.model few.f -o h.explained
}
D="images=keys.arrows images-tower=4 hidden=6 attention-hidden=4"
for how in sum mean max; do
    dicm "$how"
    # shellcheck disable=SC2086
    ok "dicm: images, $how" ref explain h.model few.f h.explained $D images-pool="$how"
done
dicm concat --images-last 2
# shellcheck disable=SC2086
ok 'dicm: the newest of a list have parts, older ones none' ref explain h.model few.f h.explained $D images-pool=concat images-last=2
dicm attentive --base din
# shellcheck disable=SC2086
ok 'dicm: attention, base din' ref explain h.model few.f h.explained $D images-pool=attentive base=din
dicm multi-query --base lr --ad-features item,cat
# shellcheck disable=SC2086
ok 'dicm: queries of ids, base lr' ref explain h.model few.f h.explained $D images-pool=multi-query base=lr ad=item,cat
dicm sum --images-scale standard
ctr-embed-images -q --tower h.model --vectors -o values.arrow images.arrows
is 'images that the tower made have the same parts' "$(explained --images values.arrow h.model few.f | ctr-info --digest)" "$(ctr-info --digest h.explained)"

# ---- sums, for every kind: parts, bias and residual are the log odds of ctr-predict's score
sums() { # STREAM SCORED
    ctr-export -q -f csv --columns score "$2" >scores.csv
    ctr-export -q -f csv --columns row,score,table,contribution "$1" | awk -F, 'NR == FNR { if (FNR > 1) s[FNR - 1] = $1; next }
        FNR > 1 { sum[$1] += $4; n = $1 > n ? $1 : n; if ($2 != s[$1]) bad++; left[$1] += $3 == "(residual)"; if ($3 == "(residual)" && ($4 > 1e-3 || $4 < -1e-3)) bad++ }
        END { for (i = 1; i <= n; i++) { d = 1 / (1 + exp(-sum[i])) - s[i]; if (d > 1e-9 || d < -1e-9 || left[i] != 1) bad++ } print n, bad + 0 }' scores.csv -
}
k=${SAN:+20} k=${k:-150}
ctr-select -q --head $k rows.arrows -o some.arrows
for kind in mlp fm dcnv2 dlrm "two-tower --user-features $U --ad-features $A"; do
    # shellcheck disable=SC2086
    train $kind -o s.model rows.arrows && explained s.model some.arrows -o s.explained
    ctr-predict -q s.model some.arrows -o s.scored
    is "${kind%% *}: the sum is the log odds" "$(sums s.explained s.scored)" "$k 0"
done
ctr-cat -q --batch 7 some.arrows | explained -j 2 s.model -o t.explained
is 'whatever batches and threads are' "$(ctr-info --digest t.explained)" "$(ctr-info --digest s.explained)"
explained --by-table s.model some.arrows -o by.explained
is '--by-table: the sums of the columns' "$(ctr-select -q --columns row,table,contribution by.explained | ctr-sort -q -k row,table | ctr-export -q -f csv | awk -F, 'NR > 1 { printf "%s %s %.9f\n", $1, $2, $3 }' | md5sum)" \
    "$(ctr-export -q -f csv --columns row,table,contribution s.explained | awk -F, 'NR > 1 { k = $1 " " $2; s[k] += $3 } END { for (k in s) printf "%s %.9f\n", k, s[k] }' | LC_ALL=C sort -k1,1n -k2,2 | md5sum)"
exits 'a table for people' 0 ctr-model explain -n 2 s.model few.arrows
err_like 'says how' 'contributions are integrated gradients from vectors and numbers of 0, over up to [0-9]* points; they and \(bias\) add up to the log odds within [0-9.e-]*$'
is 'the strongest, the rest, the residual' "$(awk '$NF == "(residual)" || /\(rest\)/ { n++ } END { print n }' out)" "$((2 * n))"
# Rows without features, a stream without rows
printf 'label click\nfeature tag = split(t, " ")\ndense x\n' >none.plan
printf 'click,t,x\n1,a b,1\n0,b,2\n1,,\n0,,0\n' | ctr-import -q -f csv --header --columns click:int8,t:utf8,x:float64 >none.log
ctr-extract -q none.plan none.log >none.f
ctr-train mlp -q --embedding 2 --hidden 2 --minibatch 2 -o none.model none.f
is 'a number that is null or 0 has no line' "$(explained none.model none.log | ctr-select -q --where 'row > 2 and table == "x"' | ctr-info | sed -n 's/^rows: //p')" 0
is 'no rows: no lines' "$(ctr-select -q --head 0 none.log | explained none.model | ctr-info | sed -n 's/^rows: //p')" 0

# ---- raw views: the model's plan makes the rows
cat >views.plan <<'END'
from log
join ads on ad
label click
feature ad
feature kind
dense price
END
printf 'ad,click\n1,1\n2,0\n1,0\n3,1\n' >log.csv
printf 'ad,kind,price\n1,shoe,2.5\n2,hat,1\n3,shoe,4\n' >ads.csv
for v in log ads; do ctr-import -q -f csv --header $v.csv -o $v.view; done
ctr-train mlp -q --embedding 2 --hidden 2 --minibatch 2 views.plan log=log.view ads=ads.view -o v.model
ctr-extract -q --names v.names v.model log=log.view ads=ads.view -o v.f
is 'explain MODEL VIEW=FILE' "$(explained v.model log=log.view ads=ads.view | ctr-info --digest)" "$(explained --names v.names v.model v.f | ctr-info --digest)"
is 'names columns and values' "$(explained v.model log=log.view ads=ads.view | ctr-select -q --where 'row == 2' --columns table,name | ctr-export -q -f csv --no-header | LC_ALL=C sort | tr '\n' ' ')" \
    '(bias),"" (residual),"" ad,2 kind,hat price,"" '
exits 'a view that is none' 2 ctr-model explain v.model nosuch=log.view
err_like 'is named' "nosuch"
exits 'a plan without statements' 2 ctr-model explain none.model log=log.view
err_like 'is told' 'the plan in none.model has no statements'
exits 'a view that is missing' 2 ctr-model explain v.model log=log.view
err_like 'is named' 'ads'
done_testing
