#!/bin/sh
# ctr-eval --at (ndcg, recall of one ranking against another) and --propensity (the value of another policy), against numpy; the
# logs of obd_small.
. "${0%/*}/lib.sh"
cd "$W" || exit 1

cat >rows.csv <<'CSV'
query,ad,click,score,final
1,a,0,0.9,0.2
1,b,1,0.8,0.9
1,c,0,0.1,0.8
2,a,0,0.5,0.5
2,b,0,0.4,0.6
CSV
ctr-import -q -f csv --header --query query --id ad --label click --score score rows.csv >rows.arrows
# query 1: the click has rank 2: 1 / log2(3) = .630930; query 2 has no click
is 'ndcg' "$(ctr-eval --at 1,2 rows.arrows 2>said | tr -s ' ' | sed 's/ $//')" 'metric value low high queries
ndcg@1 0.000000 - - 1
ndcg@2 0.630930 - - 1'
ok 'queries without a click are told' grep -q '1 queries have no positive label: ndcg leaves them out' said
# query 1: best two by final b, c; by score a, b: 1 of 2. query 2: both.
is 'recall of one ranking against another' "$(ctr-eval -q --at 2 --reference final rows.arrows | awk '/recall/ { print $1, $2, $5 }')" 'recall@2 0.750000 2'
is 'of its best row' "$(ctr-eval -q --at 1,2 --reference final --reference-top 1 rows.arrows | awk '/recall/ { print $1, $2 }' | tr '\n' ' ')" 'recall@1 0.000000 recall@2 1.000000 '
is 'without labels recall alone' "$(ctr-select -c query,ad,score,final rows.arrows | ctr-eval --at 2 --reference final | awk 'NR > 1 { print $1 }')" 'recall@2'
is 'no rows' "$(ctr-select --where false rows.arrows | ctr-eval --at 2 | tail -1 | tr -s ' ')" 'ndcg@2 - - - 0'
printf 'click,shown,target\n1,0.5,1\n0,0.5,0\n1,0.25,0.5\n0,1,0.5\n' | ctr-import -q -f csv --header --label click >log.arrows
# weights 2 0 2 .5: ips (2 + 2) / 4; snips 4 / 4.5
is 'ips and snips' "$(ctr-eval --propensity shown --target target log.arrows | awk '{ print $1, $2 }' | tr '\n' ' ')" \
    'metric value logged 0.500000 ips 1.000000 snips 0.888889 mean_weight 1.125000 effective_rows 2.454545 '

# slices a: .2 0, .4 1; b: .5 0. A bin a score: (.2 + .6 + .5) / 3; gaps of the slices: .2, .5, and (2 x .2 + .5) / 3
printf 'click,score,s\n0,0.2,a\n1,0.4,a\n0,0.5,b\n' | ctr-import -q -f csv --header --label click --score score >slices.arrows
is 'ece and field_ece by slice' "$(ctr-eval -q --by s --metrics ece,field_ece slices.arrows | awk 'NR > 1 { print $1, $4, $5 }' | tr '\n' ' ')" \
    'total 0.433333 0.300000 s=a 0.400000 0.200000 s=b 0.500000 0.500000 '
is 'field_ece without slices is undefined' "$(ctr-eval -q --metrics field_ece slices.arrows | awk 'NR > 1 { print $4 }')" '-'

exits 'no target' 2 ctr-eval --propensity shown log.arrows
err_like 'says what is missing' '--target EXPR'
exits 'both' 2 ctr-eval --at 1 --propensity shown --target 1 rows.arrows
exits 'a metric' 2 ctr-eval --at 1 --metrics auc rows.arrows
err_like 'does nothing' 'metrics does nothing with --at'
exits 'no number of rows' 2 ctr-eval --at 1,x rows.arrows
exits 'nor 0' 2 ctr-eval --at 0 rows.arrows
exits 'no query' 2 sh -c "ctr-import -q -f csv --header --label click --score score rows.csv | ctr-eval --at 1"
err_like 'names the option' 'query'
exits 'a propensity of 0' 1 sh -c "ctr-select --add 'shown=shown - 0.25' log.arrows | ctr-eval --propensity shown --target target"
err_like 'names row and column' 'stdin: row 3: the propensity \(column shown\) is 0, and must be above 0 and at most 1'
exits 'a target above 1' 1 ctr-eval --propensity shown --target '2 * target' log.arrows
err_like 'too' 'row 1: --target is 2, and must be in \[0, 1\]'
exits 'a null reference' 1 ctr-eval --at 1 --reference 'if(final > 0.5, final, null)' rows.arrows
err_like 'names the option' 'of query 1, ad a: --reference is null'
exits 'a text is no reference' 2 ctr-eval --at 1 --reference ad rows.arrows

if ! has_python pyarrow numpy; then
    skip 'against the reference' 'no pyarrow or numpy'
    done_testing
    exit 0
fi
ref() { "$PY" "$CTR_TOP/tests/ranking_reference.py" "$@"; }
ref data . || exit 1
eval_to() { ctr-eval -q --format stream "$@" >e.arrows; } # and other ways give the same
ranks() { # ranks OPTIONS OF THE REFERENCE -- OPTION…
    _ref=$1
    shift
    eval_to "$@" rows.arrows || return 1
    # shellcheck disable=SC2086
    ref ranking rows.arrows e.arrows $_ref || return 1
    ctr-eval -q --format stream --memory 64K -j 3 "$@" rows.arrows | cmp - e.arrows || return 1
    ctr-cat --batch 5 rows.arrows | ctr-eval -q --format stream "$@" | cmp - e.arrows
}
ok 'reference: ndcg' ranks '1 5 10 1000' --at 1,5,10,1000
ok 'reference: recall' ranks '1 7 20 --reference other' --at 1,7,20 --reference other
ok 'reference: by a column called rank' ranks '7 --reference rank --top 3' --at 7 --reference rank --reference-top 3
policies() {
    _ref=$1
    shift
    eval_to --propensity prop --target t "$@" rows.arrows || return 1
    # shellcheck disable=SC2086
    ref policy rows.arrows e.arrows $_ref || return 1
    ctr-cat --batch 5 rows.arrows | ctr-eval -q --format stream --propensity prop --target t "$@" | cmp - e.arrows
}
ok 'reference: clicks' policies ''
ok 'reference: revenue' policies '--value v' --value v
ok 'reference: doubly robust' policies '--value v --direct d' --value v --direct d

# A planted world: 5 arms, a logging policy that is known and another one. What the other one would earn is known, too, and the
# intervals hold it about 95 times of 100.
cat >world.py <<'PY'
import sys
import numpy as np, pyarrow as pa
for seed in range(1, int(sys.argv[1]) + 1):
    rng = np.random.default_rng(seed)
    n, k = 3000, 5
    x = rng.random(n)
    rate = np.stack([.1 + .5 * np.abs(x - a / 4) for a in range(k)], 1)
    log = np.exp(rng.random((1, k)) * 0 + np.linspace(0, 1.5, k)); log = np.repeat(log / log.sum(), n, 0)
    new = np.exp(3 * rate); new /= new.sum(1, keepdims=True)
    a = (rng.random((n, 1)) > np.cumsum(log, 1)).sum(1)
    pick = lambda m: m[np.arange(n), a]
    y = (rng.random(n) < pick(rate)).astype(float)
    q = np.clip(rate + .05, 0, 1) # a model that is wrong
    t = pa.table({"y": y, "p": pick(q), "shown": pick(log), "t": pick(new), "d": (new * q).sum(1)})
    with pa.OSFile(f"world{seed}.arrows", "wb") as f, pa.ipc.new_stream(f, t.schema) as w:
        w.write_table(t)
    print(seed, (new * rate).sum(1).mean())
PY
covered() {
    _runs=40
    "$PY" world.py $_runs >truths || return 1
    while read -r _s _true; do
        ctr-eval --label y --score p --propensity shown --target t --direct d world$_s.arrows >w.txt || return 1
        awk -v t="$_true" '$1 == "ips" || $1 == "snips" || $1 == "dr" { if (!(t >= $3 && t <= $4)) miss = miss " " $1 } END { print miss }' w.txt >>missed
    done <truths
    [ "$(wc -l <missed)" = $_runs ] || return 1
    for _e in ips snips dr; do
        _m=$(grep -ow "$_e" missed | wc -l)
        echo "$_e missed $_m of $_runs"
        [ "$_m" -le 7 ] || return 1
    done
}
[ -n "$SAN" ] || ok 'a planted world: the intervals hold the truth' covered

D=$DATA/obd_small
if [ -d "$D" ]; then
    # The click rates of the logs are published; what a uniform policy would have earned, from the other policy's log, is as numpy says.
    for p in random bts; do
        for c in men women; do
            ctr-import -q -f csv --header --label click "$D/$p/$c/$c.csv.gz" >obd.arrows
            n=$(($(wc -l <"$D/$p/$c/item_context.csv") - 1))
            eval_to --propensity propensity_score --target "1 / $n" obd.arrows
            ok "obd_small $p/$c: a uniform policy" ref obd "$D/$p/$c/$c.csv.gz" "$n" e.arrows
            echo "$p/$c $(ctr-export -f csv e.arrows | awk -F, '$1 == "logged" || $1 == "ips" { printf "%.4f ", $2 }')"
        done
    done >obd.txt
    grep -E '^(not )?ok|^#' obd.txt
    is 'obd_small: clicks and ips, the random logs give the same' "$(grep -E '^(random|bts)' obd.txt)" 'random/men 0.0046 0.0046 
random/women 0.0046 0.0046 
bts/men 0.0069 0.0030 
bts/women 0.0046 0.0074 '
    # The random log tells what the other policy earned: its chance of an item at a position is how often it showed it there, and the
    # click rate of its own log lies in the intervals.
    told() {
        for p in random bts; do ctr-import -q -f csv --header --label click "$D/$p/$1/$1.csv.gz" >"$p.arrows" || return 1; done
        ctr-group -k position --add 'all=count()' bts.arrows >all.arrows
        ctr-group -k item_id,position --add 'n=count()' bts.arrows | ctr-join -q -k position all.arrows | ctr-select --add 'target=n * 1.0 / all' -c item_id,position,target >target.arrows
        ctr-join -q -k item_id,position target.arrows random.arrows | ctr-eval --propensity propensity_score --target 'fill(target, 0.0)' >told.txt || return 1
        _earned=$(ctr-eval --propensity propensity_score --target 1 bts.arrows 2>/dev/null | awk '$1 == "logged" { print $2 }')
        awk -v t="$_earned" '{ print } $1 == "ips" || $1 == "snips" { bad += !($3 < t && t < $4) } END { print "earned", t; exit bad || !(t > 0) }' told.txt
    }
    ok 'obd_small: the random log of men tells what bts earned' told men
    ok 'obd_small: and that of women' told women
else
    skip 'obd_small' "no $D"
fi
done_testing
