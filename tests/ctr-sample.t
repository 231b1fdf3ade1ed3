#!/bin/sh
# ctr-sample: which queries stay, their weights, and that the expected weighted loss and calibration stay what they were.
. "${0%/*}/lib.sh"
awk 'BEGIN { srand(7); print "q,y,x"; for (i = 0; i < 60000; i++) print int(rand() * 20000) "," (rand() < .05) "," i % 10 }' >"$W/log.csv"
ctr-import --format csv --header --query q --label y "$W/log.csv" >"$W/log.arrows"
ctr-sample -q --share 0.25 --seed 3 "$W/log.arrows" >"$W/s.arrows"
ctr-export --format csv "$W/s.arrows" >"$W/s.csv"

rule() { # every row of a clicked query, weight 1; of the others whole queries or nothing, weight 4
    awk -F, 'NR == FNR { if (FNR > 1) { n[$1]++; if ($2 > 0) c[$1] = 1 } next }
        FNR > 1 { m[$1]++; if ($4 != (c[$1] ? 1 : 4)) { print "weight of", $0; bad = 1 } }
        END { for (q in n) { if (c[q] && m[q] != n[q]) bad = 1; if (!c[q]) { all++; if (m[q]) { some++; if (m[q] != n[q]) bad = 1 } } }
              print some / all; exit bad || some / all < .23 || some / all > .27 }' "$W/log.csv" "$W/s.csv"
}
ok 'clicked queries stay, others by share, whole, with their weights' rule
order() { awk -F, 'NR == FNR { at[FNR] = $0; next } FNR > 1 { sub(/,[^,]*$/, ""); n++; while (at[++i] != $0) if (i > 70000) exit 1 } END { exit n < 1000 }' "$W/log.csv" "$W/s.csv"; }
ok 'rows keep their order' order
total() { awk -F, 'NR > 1 { s += $4 } END { print s; exit !(s > 57000 && s < 63000) }' "$W/s.csv"; }
ok 'the weights add up to about the rows' total

# The expected loss: over many seeds the weighted loss of a fixed score meets the loss of all rows.
ctr-select --add 'score=fill(0.02 + x * 0.005, 0.02)' --columns 'q,y,score' "$W/log.arrows" >"$W/scored.arrows"
loss() { ctr-eval --label y --score score --metrics log_loss,calibration "$@" | awk '$1 == "total" { print $(NF - 1), $NF }'; }
full=$(loss "$W/scored.arrows")
for seed in 1 2 3 4 5 6 7 8; do
    ctr-sample -q --share 0.1 --seed $seed --query q --label y "$W/scored.arrows" | loss
done >"$W/losses"
expected() {
    echo "all rows: $full"
    awk -v full="$full" '{ a += $1; b += $2 } END { split(full, f, " "); print a / NR, b / NR
        exit !(a / NR > f[1] * .99 && a / NR < f[1] * 1.01 && b / NR > f[2] * .99 && b / NR < f[2] * 1.01) }' "$W/losses"
}
ok 'expected weighted loss and calibration are those of all rows' expected

# A model trained on the sample stays calibrated on all rows.
printf 'label y\nweight weight\nfeature x\n' >"$W/s.plan"
printf 'label y\nfeature x\n' >"$W/all.plan"
calibrated() {
    ctr-extract "$W/s.plan" "$W/s.arrows" | ctr-select --columns '-weight' | ctr-train lr -q -o "$W/unweighted" || return 1
    ctr-extract "$W/s.plan" "$W/s.arrows" | ctr-train lr -q -o "$W/weighted" || return 1
    ctr-select --add 'weight=1.0' "$W/log.arrows" | ctr-extract "$W/s.plan" >"$W/all.arrows"
    for m in weighted unweighted; do ctr-predict "$W/$m" "$W/all.arrows" | ctr-eval --metrics calibration | awk '$1 == "total" { print $NF }'; done >"$W/cal"
    cat "$W/cal"
    awk '{ c[NR] = $1 } END { exit !(c[1] > .97 && c[1] < 1.03 && c[2] > 1.2) }' "$W/cal"
}
ok 'a model of the sample is calibrated, and would not be without the weights' calibrated

ok 'batches do not matter' sh -c "ctr-cat --batch 99 '$W/log.arrows' | ctr-sample -q --share .25 --seed 3 | ctr-info --digest | grep -qx $(ctr-info --digest "$W/s.arrows")"
shards() { # sampling shards by query is sampling the whole
    ctr-split --shards 3 --by q -o "$W/part-%d.arrows" "$W/log.arrows" && rm -f "$W/parts.csv"
    for i in 0 1 2; do ctr-sample -q --share .25 --seed 3 "$W/part-$i.arrows" | ctr-export --format csv | tail -n +2; done | sort >"$W/parts.csv"
    [ -s "$W/parts.csv" ] && tail -n +2 "$W/s.csv" | sort | diff - "$W/parts.csv"
}
ok 'shards draw alike' shards
ctr-select --add 'w=2.0' "$W/log.arrows" >"$W/w.arrows"
is 'a weight that is there is multiplied' "$(ctr-sample -q --share 0.25 --seed 3 --weight w "$W/w.arrows" | ctr-export --format csv | tail -n +2 | cut -d, -f4 | sort -u | tr '\n' ' ')" '2 8 '
is 'part of a click is one' "$(printf 'q,y\n1,0.5\n1,0\n2,0\n' | ctr-import --format csv --header --query q --label y |
    ctr-sample -q --share 0.001 | ctr-export --no-header | tr '\n' ' ')" '1,0.5,1 1,0,1 '
# Negatives, against loops that follow the definition.
cd "$W" || exit 1
awk 'BEGIN { srand(3); print "user,item,kind,time,label"; for (i = 0; i < 700; i++) { t += int(rand() * 3); v = int(rand() * rand() * 14)
    print int(rand() * 30) "," v "," v % 4 "," t "," (rand() < .6) } }' >neg.csv
awk 'BEGIN { print "item,kind,time,price"; for (i = 0; i < 12; i++) print i "," i % 4 "," (i % 5 ? i * 29 % 300 : "") "," i * .5 }' >items.csv
ctr-import --format csv --header --label label neg.csv >neg.arrows
ctr-import --format csv --header --null '' --columns item:int64,kind:int64,time:int64,price:float64 items.csv >items.arrows
ctr-select --columns '-time' items.arrows >untimed.arrows
if has_python csv; then
    for case in '3 1 0 none' '3 2 0.75 none' '12 3 1 none' '2 1 0 before' '3 5 0.75 before' '1 1 1 before'; do
        set -- $case
        "$PY" "$CTR_TOP/tests/negatives_reference.py" neg.csv items.csv "$@" >want.csv || exit 1
        o="--negatives $1 --items items.arrows --by user --seed $2 --popular $3"
        [ "$4" = before ] && o="$o --before time" || o="$(echo "$o" | sed s/items.arrows/untimed.arrows/)"
        ctr-sample -q $o neg.arrows >got.arrows
        ok "negatives: $case" sh -c 'ctr-export --format csv got.arrows | diff - want.csv'
        for b in '--batch 7' '--batch 1000 -j 4' '--batch 1'; do
            is "in any batches: $case, $b" "$(ctr-cat $b neg.arrows | ctr-sample -q $o $b | ctr-info --digest)" "$(ctr-info --digest got.arrows)"
        done
    done
else
    skip 'negatives against the reference' 'no Python'
fi
N='--negatives 2 --items untimed.arrows --by user'
negs() { ctr-sample -q $N "$@" | ctr-export --format csv --no-header; }
is 'a seed of its own draws others' "$([ "$(negs --seed 1 neg.arrows | cksum)" = "$(negs --seed 2 neg.arrows | cksum)" ] && echo same)" ''
printf 'user,item\n1,a\n1,b\n2,c\n2,z\n' | ctr-import -q --format csv --header >plain.arrows
printf 'item\na\nb\nc\n' | ctr-import -q --format csv --header >abc.arrows
ctr-sample --negatives 2 --items abc.arrows --by user plain.arrows 2>said | ctr-export --format csv >plain.csv
is 'a log without labels gets one; fewer negatives than asked for' "$(sort plain.csv | tr '\n' ' ')" '1,a,1 1,b,1 1,c,0 1,c,0 2,a,0 2,a,0 2,b,0 2,b,0 2,c,1 2,z,1 user,item,label '
is 'all that is counted' "$(cat said)" "ctr-sample: 4 of 4 rows took an item, and got 6 negatives of 3 items
ctr-sample: 2 of them got fewer than 2: there are no more items that the user did not take
ctr-sample: 1 rows took an item that abc.arrows does not have"
ctr-select --where false neg.arrows >none.arrows
is 'no rows' "$(ctr-sample -q $N none.arrows | ctr-info | sed -n 1p)" 'rows: 0'
ctr-select --where false untimed.arrows >noitems.arrows
ctr-import -q --format csv --header --label label --time time:unix neg.csv | ctr-sample -q --negatives 1 --items items.arrows --by user >role.arrows
is 'the time of a row stays, by its role' "$(ctr-export --format csv -c time role.arrows | awk -F, 'NR > 1 { if ($1 != last) n++; last = $1 } END { print n < 500 }')" 1
is 'no items' "$(ctr-sample -q --negatives 2 --items noitems.arrows --by user neg.arrows | ctr-info | sed -n 1p)" 'rows: 700'
ctr-import --format csv --header --label label --columns user:int64,item:int64,kind:utf8,time:int64,label:int64 neg.csv | ctr-cat -q --share kind >texts.arrows
cut -d, -f1,2 items.csv | ctr-import --format csv --header --columns item:int64,kind:utf8 >textitems.arrows
is 'texts and dictionaries' "$(ctr-sample -q --negatives 2 --items textitems.arrows --by user texts.arrows | ctr-export --format csv | cksum)" "$(ctr-sample -q $N neg.arrows | ctr-export --format csv | cksum)"
exits 'rows out of time order' 1 sh -c "ctr-sort -k time:desc neg.arrows | ctr-sample --negatives 2 --items items.arrows --by user --before time"
err_like 'name row and remedy' 'row [0-9]+: its time .* runs backwards.*ctr-sort -k time'
ctr-cat items.arrows items.arrows >twice.arrows
exits 'an item twice' 1 ctr-sample --negatives 2 --items twice.arrows --by user neg.arrows
err_like 'is named' 'twice.arrows: rows 1 and 13 are one item, by item'
exits 'items of another type' 2 ctr-sample --negatives 2 --items abc.arrows --by user neg.arrows
err_like 'say both types' 'item is int64, and utf8 in abc.arrows'
exits 'without --items' 2 ctr-sample --negatives 2 --by user neg.arrows
exits 'with --share' 2 ctr-sample --share .5 $N neg.arrows
exits 'no user' 2 ctr-sample --negatives 2 --items items.arrows neg.arrows
err_like 'says which option names it' '--by COL says which column is the user'
exits '--by without --negatives' 2 ctr-sample --share .5 --by user neg.arrows
exits 'a user that is null' 1 sh -c "printf 'user,item\n,1\n' | ctr-import -q --format csv --header --null '' --columns user:int64,item:int64 | ctr-sample $N"
err_like 'is named' 'row 1: the user \(column user\) is null; --bad-rows'
exits 'memory' 1 ctr-sample --memory 1K $N neg.arrows
err_like 'says what it needs' 'what each user took needs .* and --memory allows'
exits 'truncated items' 1 sh -c 'head -c 300 items.arrows >cut.arrows; ctr-sample --negatives 2 --items cut.arrows --by user -o out.arrows neg.arrows'
ok 'leave no output' test ! -e out.arrows
# Queries are values: these texts have one XXH3-64.
is 'a query with the hash of a clicked one has no click' "$(printf 'q,y\nvictim000033801,1\nqIk8.C33,0\nvictim000033801,0\n' |
    ctr-import --format csv --header --query q --label y | ctr-sample -q --share 0.001 | ctr-export --no-header | tr '\n' ' ')" \
    'victim000033801,1,1 victim000033801,0,1 '
printf 'q,y\n' >"$W/texts.csv"
seq 4000 | sed 's/.*/query &,0/' >>"$W/texts.csv"
ctr-import --format csv --header --query q --label y "$W/texts.csv" >"$W/texts.arrows"
drawn() { ctr-sample -q --share .25 --seed "$1" "$W/texts.arrows" | ctr-export --no-header --columns q; }
drawn 1 >"$W/drawn"
drawn 2 >"$W/others"
some() { test "$n" -gt 900 -a "$n" -lt 1100 -a "$both" -gt 200 -a "$both" -lt 300; }
n=$(wc -l <"$W/drawn") both=$(sort "$W/drawn" "$W/others" | uniq -d | wc -l)
ok 'the same by the same seed' sh -c "ctr-sample -q --share .25 --seed 1 '$W/texts.arrows' | ctr-export --no-header --columns q | cmp - '$W/drawn'"
ok 'texts are drawn by the seed: another draws others' some
printf 'q,y\n[1],0\n' | ctr-import -f csv --header -c 'q:list<int32>,y:int8' --label y >"$W/lists.arrows"
exits 'a list as query' 2 ctr-sample --share .5 --query q "$W/lists.arrows"
err_like 'says the remedy' 'a list cannot be a query: take an element with at'
ok 'share 1 keeps all' sh -c "ctr-sample -q --share 1 '$W/log.arrows' | ctr-select --columns q,y,x | ctr-info --digest | grep -qx \$(ctr-info --digest '$W/log.arrows')"
exits 'memory' 1 ctr-sample --share .5 --memory 1K "$W/log.arrows"
err_like 'says what it needs' 'needs [0-9.]+ KiB and --memory allows 1 KiB'
exits 'no share' 2 ctr-sample "$W/log.arrows"
err_like 'says what it is' '^ctr-sample: --share R, above 0 and up to 1, says how many'
exits 'a share of 2' 2 ctr-sample --share 2 "$W/log.arrows"
printf 'q,y\n1,0\n' | ctr-import --format csv --header --label y >"$W/norole.arrows"
exits 'no query' 2 ctr-sample --share .5 "$W/norole.arrows"
err_like 'names the option' '--query NAME'
printf 'q,y\n1,0\n,1\n' | ctr-import --format csv --header --query q --label y >"$W/null.arrows"
exits 'a null query' 1 ctr-sample --share .5 "$W/null.arrows"
err_like 'names the row' 'null.arrows: row 2: the query .column q. is null; --bad-rows'
printf 'q,y\n1,0\n2,\n' | ctr-import --format csv --header --query q --label y >"$W/null.arrows"
printf 'q,w,t,weight\n1,2.5,no,1\n1,,yes,1\n' | ctr-import --format csv --header --query q >"$W/nullw.arrows"
exits 'a null label' 1 ctr-sample --share .5 "$W/null.arrows"
exits 'a null weight' 1 ctr-sample --share .5 --label q --weight w "$W/nullw.arrows"
err_like 'names the row and the column' 'nullw.arrows: row 2: the weight [(]column w[)] is null'
exits 'a label of text' 2 ctr-sample --share .5 --label t "$W/nullw.arrows"
err_like 'is no row without a click' 'column t is utf8, but a label must be a bool or a number'
exits 'a column weight that has not the role' 2 ctr-sample --share .5 --label q "$W/nullw.arrows"
err_like 'says how it gets it' '--weight weight multiplies it'
ok 'no rows' sh -c "printf 'q,y\n' | ctr-import --format csv --header --columns q:int32,y:int8 --query q --label y | ctr-sample -q --share .5 | ctr-info | grep -qx 'rows: 0'"
full_tmp() { ( ulimit -f 1; trap - XFSZ; exec ctr-sample --share .5 "$W/log.arrows" >/dev/null ) }
exits 'a TMPDIR that is full' 1 full_tmp
err_like 'is named' '^ctr-sample: temporary file .see TMPDIR.: write failed'
# ---- --permute: the columns, and nothing else, move; what that costs a model is what an independent loop says
PERMUTE="$CTR_TOP/tests/permute_reference.py"
awk 'BEGIN { srand(5); print "n,site,ad,kind,click,tags"; for (i = 0; i < 3000; i++) { a = int(rand() * 12); s = i % 3
    print i ",s" s "," (a ? "ad" a : "") "," (a ? "k" a % 4 : "") "," (rand() < (s ? a % 4 + 1 : 2) / 10) "," (i % 7 ? "x y" : "") } }' >p.csv
ctr-import -q -f csv --header --columns n:int64,site:utf8,ad:utf8,kind:utf8,click:int8,tags:utf8 p.csv | ctr-select -q --add 'tags = split(tags, " ")' -o p.arrows
csv() { ctr-export -q -f csv "$1" >"$2"; }
csv p.arrows was.csv
moves() { # moves COLUMN… : these, by one call
    ctr-sample -q --permute "$(echo "$*" | tr ' ' ,)" --seed 4 p.arrows -o moved.arrows && csv moved.arrows moved.csv && "$PY" "$PERMUTE" moved was.csv moved.csv "$@"
}
if has_python csv; then
    ok '--permute: a column' moves n
    ok 'columns that move together, nulls too' moves ad kind
    ok 'lists, texts and numbers' moves tags n site
    apart() { ! "$PY" "$PERMUTE" moved was.csv moved.csv n; }
    ok 'the check can fail' apart
    printf 'label click\nkeep site\nfeature ad\nfeature kind\nfeature site\n' >p.plan
    ctr-extract -q --names p.names p.plan p.arrows | ctr-train lr -q --alpha .3 -o p.model
    ctr-model top -n 0 --names p.names -f stream p.model | ctr-select -q --columns table,name,weight --add 'name = if(name == "(missing)", "", name)' | ctr-export -q -f csv >p.weights
    ctr-extract -q p.model p.arrows | ctr-predict -q p.model -o p.base
    worth() { # the loss by slice of a column that is shuffled: ctr-eval's and the reference's
        ctr-sample -q --permute "$1" --seed 2 p.arrows -o moved.arrows && csv moved.arrows moved.csv && ctr-extract -q p.model moved.arrows | ctr-predict -q p.model |
            ctr-eval -q --control p.base --by site -m log_loss | awk 'NR > 1 { print $1, $3 }' >eval.txt && "$PY" "$PERMUTE" worth moved.csv p.weights click site ad kind site >ref.txt &&
            LC_ALL=C sort eval.txt >e && LC_ALL=C sort ref.txt >r && awk 'NR == FNR { v[$1] = $2; n++; next } { d = v[$1] - $2; if (!($1 in v) || d > 2e-6 || d < -2e-6) bad = 1; m++ } END { exit bad || n != m || n != 4 }' e r
    }
    ok 'loss when a column is shuffled, by slice' worth ad
    ok 'of two columns together' worth ad,kind
else
    skip '--permute' 'no python'
fi
is 'schema and roles stay' "$(ctr-sample -q --permute ad p.arrows | ctr-info --json | grep -o '"columns":.*')" "$(ctr-cat p.arrows | ctr-info --json | grep -o '"columns":.*')"
is 'the same bytes for any -j, batch and memory, file or pipe' "$(ctr-cat -q --batch 7 p.arrows | ctr-sample -q --permute 'ad,k*' --memory 1M -j 3 --seed 9 | ctr-info --digest)" \
    "$(ctr-sample -q --permute ad,kind --seed 9 -j 1 p.arrows | ctr-info --digest)"
ok 'another seed, another permutation' sh -c '! [ "$(ctr-sample -q --permute ad --seed 1 p.arrows | ctr-info --digest)" = "$(ctr-sample -q --permute ad --seed 2 p.arrows | ctr-info --digest)" ]'
ok 'columns of two calls move independently' sh -c '! [ "$(ctr-sample -q --permute ad p.arrows | ctr-sample -q --permute kind | ctr-info --digest)" = "$(ctr-sample -q --permute ad,kind p.arrows | ctr-info --digest)" ]'
is 'no rows' "$(ctr-select -q --head 0 p.arrows | ctr-sample -q --permute ad | ctr-info | sed -n 's/^rows: //p')" 0
is 'one row' "$(ctr-select -q --head 1 p.arrows | ctr-sample -q --permute ad | ctr-info --digest)" "$(ctr-select -q --head 1 p.arrows | ctr-info --digest)"
exits 'a column that is not there' 2 ctr-sample --permute nosuch p.arrows
err_like 'is named' 'nosuch'
exits 'all columns' 2 ctr-sample --permute '*' p.arrows
err_like 'is a shuffle of rows' 'names every column: rows change places by ctr-sort --shuffle'
exits 'no column' 2 ctr-sample --permute '*,-*' p.arrows
err_like 'is told of this option' '^ctr-sample: --permute [*],-[*] names no column$'
exits 'a new name' 2 ctr-sample --permute x=ad p.arrows
err_like 'is none' 'renames none: write ad'
exits '--permute with --share' 2 ctr-sample --permute ad --share .5 p.arrows
err_like 'is a usage error' 'goes with none of --share, --negatives and --bad-rows'
head -c 3000 p.arrows >p.cut
exits 'truncated rows' 1 ctr-sample --permute ad -o never p.cut
ok 'leave no output' test ! -e never
# A weight that its type cannot hold.
heavy() { awk -v w="$2" 'BEGIN { print "q,click,w"; for (i = 0; i < 2000; i++) print i ",0," w }' |
    ctr-import -q --header -f csv -c "w:$1" --query q --label click --weight w -o "$W/heavy.arrows"; }
for kind in 'float16 40000' 'float32 3e38'; do
    heavy $kind
    exits "a weight beyond ${kind% *}" 1 ctr-sample --share 0.5 -o "$W/heavier.arrows" "$W/heavy.arrows"
    err_like 'is an error with its row' "row [0-9]*: its weight over --share is more than ${kind% *} holds: ctr-select --add 'w=w \* 1.0'"
    ok 'as float64 it goes' sh -c "ctr-select --add 'w=w * 1.0' '$W/heavy.arrows' | ctr-sample -q --share 0.5 --weight w | ctr-stats | ctr-export -f csv --columns name,max | grep -q '^w,[68]'"
done
done_testing
