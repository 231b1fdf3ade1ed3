#!/bin/sh
# Dictionaries as others read them: whatever tool writes one, entries occur once, nulls are those of the rows, and pyarrow, pandas,
# Parquet, Polars, DuckDB and clickhouse-local (each where it is installed) take the stream. tests/dictionaries.py does the reading.
. "${0%/*}/lib.sh"
cd "$W" || exit 1
awk 'BEGIN { print "user,time,age,past,ad,ok,click"
    for (i = 0; i < 2000; i++) {
        u = int(i / 8) % 90; past = ""
        for (k = 0; k < u % 7; k++) past = past (k ? " " : "") "a" (u * 3 + k) % 40
        printf "%s,%d,%s,%s,a%d,%s,%d\n", u ? "u" u : "", i * 60, u % 5 ? u / 4 : "", u % 3 ? past : "", (i * 7) % 40, u % 4 ? u % 2 : "", i % 11 < 3
    } }' | ctr-import --format csv --header --null '' --time time:unix --user user --label click \
    --columns user:utf8,time:timestamp,age:float64,past:utf8,ad:utf8,ok:bool,click:int8 - |
    ctr-select --add 'list=split(past, " ")' --add 'none=if(age > 1e9, age, null)' --add 'n=int(age)' -o plain.arrows
ctr-cat --share 'user,time,age,past,list,ok,none,n' plain.arrows -o shared.arrows
exits 'a column twice' 2 ctr-cat --share user,time --share user plain.arrows
err_like 'is named' 'user is named twice$'
is 'the rows stay' "$(ctr-info --digest shared.arrows)" "$(ctr-info --digest plain.arrows)"
printf '%s\n' 'label click' 'user user' 'time time' 'feature ad' 'feature list in ad' 'feature age' 'feature old = age // 10' 'feature ok' 'feature user_key = user' \
    'feature long = length(past) > 3' 'feature known = vocab(past, min=2)' 'dense years = n // 10' 'keep raw_age = age, raw_list = list' >f.plan
ctr-extract -q --fit f.plan -o fitted shared.arrows
ctr-extract -q --names names fitted shared.arrows -o named.f
ctr-extract -q fitted shared.arrows -o shared.f
ctr-extract -q fitted plain.arrows -o plain.f
is 'features of shared columns' "$(ctr-info --digest shared.f)" "$(ctr-info --digest plain.f)"
ctr-train lr -q --alpha .1 -o lr.m --progressive progressive shared.f 2>said
ctr-train mlp -q --embedding 2 --hidden 2 -o mlp.m shared.f 2>said
ctr-model merge lr.m lr.m -o merged.m 2>said || ctr-cat lr.m -o merged.m
ctr-predict -q lr.m shared.f -o scores
ctr-history -q -c ad --age shared.arrows -o history
ctr-select -q --add 'later=age + 1' --where 'n > 3 or n < 2' shared.arrows -o selected
ctr-select -q --columns age,user,list,past shared.arrows | ctr-cat --batch 100 -o small
ctr-sort -q -k user shared.arrows | ctr-cat --share '*' -o all
# ---- plans run in threads, which are batches ahead: each batch keeps the dictionary that it came with
awk 'BEGIN { print "click,city,n"; for (i = 0; i < 60000; i++) printf "%d,c%d_%d,%d\n", i * 7 % 3 == 0, i / 3000, i * 7919 % 211, i }' |
    ctr-import -q -f csv --header --label click -o log.arrows
awk 'BEGIN { print "n,v"; for (i = 0; i < 60000; i += 7) print i "," i % 5 }' | ctr-import -q -f csv --header -o side.arrows
ctr-cat --batch 1000 --share city log.arrows -o dict.arrows
for plan in 'join side on n' 'join (group city, seen = count()) on city' 'sort n'; do
    printf '%s\n' 'from log' "$plan" 'label click' 'feature city' 'keep n' >views.plan
    case $plan in *side*) side=side=side.arrows ;; *) side= ;; esac
    ctr-extract -q -j 1 views.plan log=log.arrows $side 2>err | ctr-export -f csv >want.csv
    is "all rows come through '$plan'" "$(wc -l <want.csv)" 60001
    for j in 1 2 3; do
        ctr-extract -q -j $j views.plan log=dict.arrows $side 2>err | ctr-export -f csv >got.csv
        ok "dictionaries of each batch through '$plan', -j $j" cmp want.csv got.csv
    done
    ctr-train lr -q -j 1 -o want.m views.plan log=log.arrows $side 2>err
    ctr-train lr -q -j 3 -o got.m views.plan log=dict.arrows $side 2>err
    ok 'and learning from them' same_rows want.m got.m
done

if has_python pyarrow pandas; then
    "$PY" "$CTR_TOP/tests/dictionaries.py" foreign foreign.arrows
    ctr-cat foreign.arrows -o passed
    is 'a foreign dictionary with nulls and repetitions is passed on' "$(ctr-export --format csv passed | tr '\n' ' ')" 'd,l b,"[""x""]" , a,[] b,"[""x""]" , a,[] '
    # One process for all: pandas, Polars and DuckDB take a second to load.
    "$PY" "$CTR_TOP/tests/dictionaries.py" check shared.arrows shared.f names fitted lr.m mlp.m merged.m scores history selected small all passed >checks
    is 'all were read' "$? $(grep -c ok checks)" '0 13'
    tap_of checks
    is 'nulls are counted' "$("$PY" "$CTR_TOP/tests/dictionaries.py" nulls shared.arrows)" "$("$PY" "$CTR_TOP/tests/dictionaries.py" nulls plain.arrows)"
else
    skip 'dictionaries as pyarrow and others read them' "no pyarrow and pandas for $PY"
fi
done_testing
