#!/bin/sh
# ctr-sort: order, uniqueness, shuffling, errors; against plain Python loops for any memory, batch size and thread count.
. "${0%/*}/lib.sh"
cd "$W" || exit 1

cat >a.csv <<'CSV'
id,n,x,s
1,3,1.5,b
2,,nan,a
3,1,,b
4,3,-2,
5,2,inf,ab
6,1,nan,a
CSV
ctr-import --format csv --header --columns id:int32,n:int64,x:float64,s:utf8 --null '' a.csv >a.arrows
ids() { ctr-sort -q "$@" a.arrows | ctr-select --columns id | ctr-export --format csv | tail -n +2 | tr '\n' ' '; }
is "one key, stable, nulls last" "$(ids -k n)" "3 6 5 1 4 2 "
is "descending: nulls last all the same" "$(ids -k n:desc)" "1 4 5 3 6 2 "
is "NaN after numbers, then nulls" "$(ids -k x)" "4 1 5 2 6 3 "
is "NaN after numbers in descending order, too" "$(ids -k x:desc)" "5 1 4 2 6 3 "
is "texts by bytes, a prefix first" "$(ids -k s)" "2 6 5 1 3 4 "
is "several keys" "$(ids -k s:desc,n)" "3 1 5 6 2 4 "
is "several -k" "$(ids -k s:desc -k n)" "3 1 5 6 2 4 "
is "--unique keeps the first" "$(ids -k n --unique)" "3 5 1 2 "
ctr-sort -k n --unique a.arrows 2>said >/dev/null
is "--unique says what it dropped" "$(cat said)" "ctr-sort: 2 of 6 rows dropped, their keys came before"
ctr-sort -q -k n --unique a.arrows 2>said >/dev/null
is "-q: it does not" "$(cat said)" ""
is "--shuffle is a permutation" "$(ids --shuffle | tr ' ' '\n' | sort | tr '\n' ' ')" "1 2 3 4 5 6 "
ctr-select --where false a.arrows >none.arrows
is "no rows" "$(ctr-sort -k n none.arrows | ctr-info --digest)" "$(ctr-info --digest none.arrows)"
is "a sorted stream is the same stream" "$(ctr-sort -k id a.arrows | ctr-info --digest)" "$(ctr-info --digest a.arrows)"

printf 'a,b,c\n1,2,3\n1,2,1\n1,2,2\n' | ctr-import --format csv --header --columns a:int64,b:int32,c:int8 >sixteen.arrows
is "keys that fill the prefix of 16 bytes: the last byte counts" "$(ctr-sort -k a,b,c sixteen.arrows | ctr-export --no-header | tr '\n' ' ')" \
    "1,2,1 1,2,2 1,2,3 "
exits "no key is a usage error" 2 ctr-sort a.arrows
err_like "that names the options" "say what to sort by: -k COLUMN, or --shuffle"
exits "an unknown column" 2 ctr-sort -k idd a.arrows
err_like "and the nearest" "idd.*nearest.*id"
exits "a column twice" 2 ctr-sort -k n,n:desc a.arrows
err_like "is named" "n is named twice"
exits "--shuffle with a key" 2 ctr-sort --shuffle -k n a.arrows
exits "--shuffle with --unique" 2 ctr-sort --shuffle --unique a.arrows
cp a.arrows b.arrows
exits "input and output are the same file" 2 ctr-sort -k n -o b.arrows b.arrows
err_like "said so" "b.arrows is both input and output"
ctr-select --add 'l=split(s, "x")' a.arrows >l.arrows
exits "a list is no key" 2 ctr-sort -k l l.arrows
err_like "said with the type" "l is list<utf8>.*cannot be a key"
head -c $(($(wc -c <a.arrows) - 30)) a.arrows >cut.arrows
exits "a truncated input" 1 ctr-sort -k n -o out.arrows cut.arrows
ok "leaves no output" test ! -e out.arrows

mkdir ref
if ! has_python pyarrow; then
    skip "against the reference" "no pyarrow"
    done_testing
    exit 0
fi
"$PY" "$CTR_TOP/tests/relation-reference.py" sort ref || exit 1
while IFS="$(printf '\t')" read -r name args; do
    want=$(ctr-info --digest "ref/$name.want")
    args=$(echo "$args" | sed 's#OUT#ref#g')
    for o in "--memory 1" "--memory 1M --batch 100 -j 1" "--memory 1M -j 4" "--memory 1G --batch 70000" "-j 1"; do
        is "reference: $name, $o" "$(ctr-sort -q $o $args | ctr-info --digest)" "$want"
    done
done <ref/cases
one=$(ctr-sort --shuffle --seed 5 ref/log | ctr-info --digest)
for o in "--memory 1" "--memory 1M --batch 99 -j 4" "-j 1"; do
    is "--shuffle --seed 5 $o" "$(ctr-sort --shuffle --seed 5 $o ref/log | ctr-info --digest)" "$one"
done
is "a shuffled log sorts back" "$(ctr-sort --shuffle --memory 1 ref/log | ctr-sort -k row | ctr-info --digest)" "$(ctr-sort -k row ref/log | ctr-info --digest)"
ctr-sort -k user --memory 1M -j 1 ref/log >j1
ctr-sort -k user --memory 1M -j 4 ref/log >j4
ok "-j 1 and -j 4: the same bytes" cmp j1 j4
ctr-sort -v -k user --memory 1M ref/log 2>said >/dev/null
err_spill() { grep -Eq '[0-9]+ runs, [0-9]+ passes, [0-9.]+ [KM]?i?B spilled' said; }
ok "-v tells of the runs" err_spill
no_tmp() { TMPDIR=$W/nowhere ctr-sort -k user --memory 1 ref/log >no.arrows 2>no.err; }
exits "a missing TMPDIR" 1 no_tmp
ok "is named" grep -q "nowhere" no.err
# ctr-info and plans write such names in back quotes, so they are understood.
printf 'a b,c\n2,x\n1,y\n' | ctr-import -f csv --header -o quoted.arrows
is "a name in back quotes" "$(ctr-sort -k '`a b`' quoted.arrows | ctr-export -c '`a b`,c')" 'a b,c
1,y
2,x'
case $CTR_BUILD in
*san*) skip "--memory is kept" "sanitizers have allocators of their own" ;;
*)
    awk 'BEGIN { for (i = 0; i < 400000; i++) printf "%d,%0300d\n", i * 7919 % 400009, i }' | ctr-import -f csv --columns k:int32,pad:utf8 -o large.arrows
    for j in 1 2; do
        ok "--memory 64M -j $j is kept within 5%, and 5 MB of program" below 73000 ctr-sort -q -j $j -k k --memory 64M large.arrows
    done
    awk 'BEGIN { for (i = 0; i < 5000; i++) printf "%d,%020000d\n", i * 7919 % 5003, i }' | ctr-import -q -f csv --columns k:int32,pad:utf8 | ctr-cat --batch 50 -o wide.arrows
    for j in 1 2; do
        ok "also of wide rows, -j $j" below 73000 ctr-sort -q -j $j -k k --memory 64M wide.arrows
    done
    ;;
esac
done_testing
