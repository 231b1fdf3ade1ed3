#!/bin/sh
# Common features: columns that ctr-cat --share encoded are the same rows to every tool, in fewer bytes, and the same models.
. "${0%/*}/lib.sh"
cd "$W" || exit 1
# Impressions of 8 ads each; a user's columns are equal in them. Some lists are empty, some values null.
awk 'BEGIN { print "user,time,age,past,ad,click"
    for (i = 0; i < 3000; i++) {
        u = i % 90; past = ""
        for (k = 0; k < u % 7; k++) past = past (k ? " " : "") "a" (u * 3 + k) % 40
        for (j = 0; j < 8; j++)
            printf "%s,%d,%s,%s,a%d,%d\n", u ? u : "", i * 60, u % 5 ? u : "", past, (i * 7 + j * j) % 40, (i * 13 + j * 5 + u) % 11 < 3
    } }' | ctr-import --format csv --header --null '' --time time:unix --user user --label click \
    --columns user:int64,time:timestamp,age:float64,past:utf8,ad:utf8,click:int8 - | ctr-history -q -c ad --age --where 'click == 1' --last 5 |
    ctr-select --add 'list=split(fill(past, ""), " ")' -o plain.arrows
ctr-cat --share 'user,time,age,past,list,history.*' plain.arrows -o shared.arrows
digest() { ctr-info --digest "$@"; }
is 'the digest stays' "$(digest shared.arrows)" "$(digest plain.arrows)"
bytes() { wc -c <"$1"; }
ok 'in less than two fifths of the bytes' test $((5 * $(bytes shared.arrows))) -lt $((2 * $(bytes plain.arrows)))
is 'the same bytes from any batches' "$(ctr-cat --batch 7 plain.arrows | ctr-cat --share 'user,time,age,past,list,history.*' | cksum)" "$(cksum <shared.arrows)"
ok 'shared again: nothing changes' sh -c "ctr-cat --share 'user,time,age,past,list,history.*' shared.arrows | cmp - shared.arrows"
is 'few rows a batch' "$(ctr-cat --batch 16 --share 'list,age' plain.arrows | digest)" "$(digest plain.arrows)"
printf '%s\n' 'label click' 'user user' 'time time' 'feature ad in ad' 'feature list in ad' 'feature age' 'feature old = age // 10' 'feature past = length(past)' \
    'feature seen in ad = history.ad' 'feature pair = cross(ad, list)' 'feature none = fill(age, -1)' 'dense years = age / 10' 'keep raw = list' >f.plan
for kind in plain shared; do ctr-extract f.plan $kind.arrows -o $kind.f; done
is 'ctr-extract: the same features' "$(digest shared.f)" "$(digest plain.f)"
ok 'which stay encoded' test $((10 * $(bytes shared.f))) -lt $((8 * $(bytes plain.f)))
ctr-extract --names names.plain f.plan plain.arrows -o /dev/null
ctr-extract --names names.shared f.plan shared.arrows -o named.f
is 'and names' "$(digest names.shared)" "$(digest names.plain)"
is 'beside which rows are looked at one by one' "$(digest named.f)" "$(digest plain.f)"
ctr-extract -j 3 f.plan shared.arrows -o shared3.f
ok 'threads change no byte' cmp shared.f shared3.f
{ cat f.plan; printf '%s\n' 'feature known = vocab(age, min=5)' 'feature quarter = quantiles(fill(age, 0.0), 4)' 'feature words = vocab(past, min=2)'; } >fit.plan
for kind in plain shared; do
    ctr-extract -q --fit fit.plan -o $kind.fitted $kind.arrows
    ctr-extract $kind.fitted $kind.arrows -o $kind.ff 2>$kind.said
done
is 'fitted alike' "$(for f in plain shared; do ctr-select --only vocab.known $f.fitted | digest; done | sort -u | wc -l)" 1
is 'what is unknown is counted by rows' "$(cat shared.said)" "$(cat plain.said)"
is 'and applied' "$(digest shared.ff)" "$(digest plain.ff)"
for model in 'lr --alpha .1' 'lr --minibatch 50' 'mlp --embedding 3 --hidden 4 --minibatch 100' 'din --embedding 3 --hidden 4 --minibatch 100' \
    'mlp --user-features list,old,past,none,years --embedding 3 --hidden 4,3 --minibatch 100' 'mlp --user-features l*,years --activation dice --batch-norm --embedding 3 --hidden 4 --minibatch 100' \
    'din --user-features list,age,old,none,years --embedding 3 --hidden 4 --minibatch 100' \
    'two-tower --user-features list,age,old,past,seen,pair,none,years --ad-features ad --embedding 3 --hidden 4 --vector 3 --minibatch 100'; do
    for kind in plain shared; do
        # shellcheck disable=SC2086
        ctr-train ${model%% *} -q ${model#* } -o $kind.m --progressive $kind.p $kind.f
        # shellcheck disable=SC2086
        ctr-train ${model%% *} -q ${model#* } -o $kind.of-log f.plan $kind.arrows
    done
    ok "$model: the same model" cmp plain.m shared.m
    is "$model: the same predictions on the way" "$(digest shared.p)" "$(digest plain.p)"
    ok "$model: from a plan and the log" cmp plain.of-log shared.of-log
    is "$model: the same scores" "$(ctr-predict -q plain.m shared.f | digest)" "$(ctr-predict -q plain.m plain.f | digest)"
    is "$model: also row by row, where rows share nothing" "$(ctr-select --head 3000 plain.f | ctr-cat --batch 1 | ctr-predict -q plain.m | digest)" "$(ctr-select --head 3000 plain.f | ctr-predict -q plain.m | digest)"
    [ -z "$SAN" ] || [ "$model" = 'lr --minibatch 50' ] || break
done
# Equal lists of a minibatch are pooled once and learned from once: what the plain definition, row by row, gives. Eight rows a list;
# minibatches of 12 rows cut the runs, and a pipe of small batches cuts the minibatches.
if has_python json; then
    printf '%s\n' 'label click' 'feature ad in ad' 'feature list in ad' 'feature seen in ad = history.ad' >small.plan
    ctr-select --tail 400 shared.arrows | ctr-select --head 36 | ctr-extract small.plan -o small.f
    for o in '' '--l2 .5' '--pooling mean' '--pooling max'; do
        # shellcheck disable=SC2086
        small() { ctr-train mlp -q --embedding 2 --hidden 3 --minibatch 12 --rate .01 $o "$@" small.f; }
        small --rate 1e-35 -o start.m
        small -o got.m --progressive got.p
        ok "mlp $o: agrees with the reference" "$PY" "$CTR_TOP/tests/deep_reference.py" mlp small.f start.m got.m got.p hidden=3 minibatch=12 \
            rate=.01 $(echo "$o" | sed 's/--\([a-z0-9]*\) \([^ ]*\)/\1=\2/g')
        # shellcheck disable=SC2086
        small_batches small.f ctr-train mlp -q --embedding 2 --hidden 3 --minibatch 12 --rate .01 $o -o piped.m
        ok "mlp $o: the same from small batches" "$PY" "$CTR_TOP/tests/deep_reference.py" same got.m piped.m
        [ -z "$SAN" ] || [ -z "$o" ] || break
    done
    # Rows that are equal on a side have one vector of a tower, which is made and learned from once: lists, single keys and numbers tell them.
    printf '%s\n' 'label click' 'feature ad in ad' 'feature list in ad' 'feature old = age // 10' 'dense years = fill(age, 0.0) / 10' 'dense odd = length(ad) % 2' >sides.plan
    ctr-select --tail 400 shared.arrows | ctr-select --head 36 | ctr-extract sides.plan -o small.f
    for o in '' '--activation dice' '--l2 .5 --pooling max --passes 2' '--hidden 0'; do
        # shellcheck disable=SC2086
        towers() { ctr-train two-tower -q --user-features list,old,years --ad-features ad,odd --embedding 2 --hidden 3 --vector 2 --minibatch 12 --rate .01 $o "$@"; }
        towers --rate 1e-35 -o start.m small.f
        towers -o got.m --progressive got.p small.f
        ok "two-tower $o: agrees with the reference" "$PY" "$CTR_TOP/tests/deep_reference.py" two-tower small.f start.m got.m got.p user=list,old,years ad=ad,odd hidden=3 \
            minibatch=12 rate=.01 $(echo "$o" | sed 's/--\([a-z0-9]*\) \([^ ]*\)/\1=\2/g')
        ctr-cat --batch 5 small.f >batches.f
        towers -o piped.m --progressive piped.p batches.f
        ok "two-tower $o: the same from small batches" "$PY" "$CTR_TOP/tests/deep_reference.py" same got.m piped.m
        is "two-tower $o: the same predictions" "$(digest piped.p)" "$(digest got.p)"
        ctr-predict -q got.m small.f >all.p
        while read -r from; do ctr-select --head $((from + 1)) small.f | ctr-select --tail 1 | ctr-predict -q got.m | ctr-export -f csv --no-header --columns score; done <<END >alone.csv
0
7
8
35
END
        is "two-tower $o: a row alone has the same score" "$(ctr-export -f csv --no-header --columns score all.p | sed -n '1p;8p;9p;36p')" "$(cat alone.csv)"
        [ -z "$SAN" ] || [ -z "$o" ] || break
    done
    repeated() { [ "$(ctr-export -q -f jsonl --flat small.f | sed 's/.*"list":\(\[[^]]*\]\).*/\1/' | sort | uniq -c | sort -rn | awk 'NR == 1 { print $1 }')" -ge 8 ]; }
    ok 'lists repeat' repeated
fi
n=0
while read -r command; do
    n=$((n + 1))
    is "$command" "$(sh -c "$command" sh shared.arrows | digest)" "$(sh -c "$command" sh plain.arrows | digest)"
done <<'LIST'
ctr-select --head 9001 "$1"
ctr-select --tail 9001 "$1"
ctr-select --tail 40% "$1"
ctr-select --where 'age > 30' --add 'n=length(list)' "$1"
ctr-select --explode list "$1" 2>/dev/null
ctr-select --columns 'list,ad,a=age' "$1"
ctr-sort -k ad,user "$1"
ctr-sort --shuffle --seed 3 "$1"
ctr-sample -q --share .5 --query user --label click "$1" 2>/dev/null || ctr-select --where 'user > 0' "$1" | ctr-sample -q --share .5 --query user --label click
ctr-history -q --group h -c ad,past --age --count user,age --where 'click == 1' "$1"
ctr-history -q --group h -c ad,past --lateness 1h --count user,age --where 'click == 1' "$1"
ctr-join -q -k ad --multi --prefix r_ --columns list,age "$1" "$1" | ctr-select --head 5000
ctr-cat --batch 100 "$1"
ctr-cat -z zstd "$1"
ctr-cat --to file "$1"
ctr-export --format csv --columns user,ad,age "$1" | ctr-import --format csv --header --columns user:int64,ad:utf8,age:float64 -
LIST
if has_python pyarrow; then
    is 'pyarrow reads it' "$("$PY" -c "
import pyarrow as pa
s = pa.ipc.open_stream('shared.arrows'); t = s.read_all(); p = pa.ipc.open_stream('plain.arrows').read_all()
print(s.schema.field('list').type, [n for n in t.column_names if t[n].to_pylist() != p[n].to_pylist()])")" \
        'dictionary<values=list<item: string>, indices=int32, ordered=0> []'
fi
printf 'x\n0\n-0\nnan\n0\n' | ctr-import --format csv --header --columns x:float64 - >zeros
is 'values are told apart by their bits' "$(ctr-cat --share x zeros | ctr-export --format csv | tr '\n' ' ')" "$(ctr-export --format csv zeros | tr '\n' ' ')"
exits 'an unknown column' 2 ctr-cat --share nothing plain.arrows
err_like 'is named' "nothing"
exits 'no IPC file' 2 ctr-cat --to file --share age plain.arrows
err_like 'says why' '^ctr-cat: --share is for streams: an IPC file has one dictionary a column'
done_testing
