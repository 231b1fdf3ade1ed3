#!/bin/sh
# ctr-export of Parquet: read back with the same digest, the same bytes for any -j and batches, failed outputs, and every type and null
# pattern as pyarrow, DuckDB and Polars read it (tests/export_parquet.py).
. "${0%/*}/lib.sh"
awk 'BEGIN { srand(1); for (i = 0; i < 30000; i++) printf "{\"n\":%d,\"x\":%s,\"s\":\"u%d\",\"t\":\"w %d\",\"l\":[%s]}\n", i * 7, rand(), i % 50, i,
    i % 3 ? i ",null" : "" }' | ctr-import -q -f jsonl - >"$W/in.arrows"
back() { ctr-import -q "$1" | ctr-info --digest; }
want=$(ctr-info --digest "$W/in.arrows")
for o in '' '--codec none' '-j 3' '--memory 1M'; do
    exits "written ($o)" 0 ctr-export $o -o "$W/o.parquet" "$W/in.arrows"
    is "and read back with the same digest" "$(back "$W/o.parquet")" "$want"
done
ctr-export -j 1 -o "$W/1.parquet" "$W/in.arrows"
ctr-cat --batch 777 "$W/in.arrows" | ctr-export -j 3 -f parquet >"$W/3.parquet"
ok 'the same bytes for any -j and batches, to a pipe' cmp "$W/1.parquet" "$W/3.parquet"
ctr-select --where 'n < 0' "$W/in.arrows" >"$W/none.arrows"
ctr-export -o "$W/none.parquet" "$W/none.arrows"
is 'no rows' "$(back "$W/none.parquet")" "$(ctr-info --digest "$W/none.arrows")"
ctr-export -c n,s -o "$W/two.parquet" "$W/in.arrows"
is '--columns' "$(ctr-import -q "$W/two.parquet" | ctr-export | head -n 2)" 'n,s
0,u0'

printf '{"n":1,"s":"a","t":"x y"}\n{"n":0,"s":"b","t":null}\n' |
    ctr-import -q -f jsonl --label n --user s --id t -o "$W/roles.arrows"
ctr-export -o "$W/roles.parquet" "$W/roles.arrows"
is 'roles come back' "$(back "$W/roles.parquet")" "$(ctr-info --digest "$W/roles.arrows")"
is 'an option goes before them' "$(ctr-import -q --user t "$W/roles.parquet" | ctr-info | awk '$3 == "user" { print $1 }')" t
is 'and by another name' "$(ctr-import -q -c 'who=s,click=n' "$W/roles.parquet" | ctr-info | awk '$3 == "user" || $3 == "label" { print $1, $3 }' | tr '\n' ' ')" \
    'who user click label '
printf 'label n\nfeature s\nfeature l\n' >"$W/f.plan"
ctr-select --columns 'n,s,l' "$W/in.arrows" | ctr-select --add 'n=n%2' | ctr-extract -q "$W/f.plan" -o "$W/f.arrows"
ctr-export -o "$W/f.parquet" "$W/f.arrows"
is 'features come back, with their tables and their plan' "$(back "$W/f.parquet")" "$(ctr-info --digest "$W/f.arrows")"
ctr-train lr -q -o "$W/m1" "$W/f.arrows"
ctr-import -q "$W/f.parquet" | ctr-train lr -q -o "$W/m2"
scores() { ctr-predict -q "$1" "$W/f.arrows" | ctr-info --digest; }
is 'and are learned alike' "$(scores "$W/m2")" "$(scores "$W/m1")"

# ---- lists of one length and weighted keys come back as such
printf '{"v":[1,2,3],"n":1}\n{"v":null,"n":2}\n{"v":[4,null,6],"n":3}\n' | ctr-import -q -f jsonl -c 'v:fixed_size_list<float32>[3],n' - >"$W/fixed.arrows"
ctr-export -o "$W/fixed.parquet" "$W/fixed.arrows"
is 'fixed_size_list' "$(back "$W/fixed.parquet")" "$(ctr-info --digest "$W/fixed.arrows")"
is 'also by batches, and another name' "$(ctr-import -q --batch 1 -c w=v "$W/fixed.parquet" | ctr-export -f jsonl | tr '\n' ' ')" \
    '{"w":[1,2,3]} {"w":null} {"w":[4,null,6]} '
printf '1 1:.5 4:2\n0\n1 9:-1\n' | ctr-import -q -f libsvm --keys key - >"$W/keys.arrows"
ctr-export -o "$W/keys.parquet" "$W/keys.arrows"
is 'weighted keys' "$(back "$W/keys.parquet")" "$(ctr-info --digest "$W/keys.arrows")"
is 'whatever the batches and threads' "$(ctr-import -q --batch 1 -j 3 "$W/keys.parquet" | ctr-info --digest)" "$(ctr-info --digest "$W/keys.arrows")"
is 'of two files' "$(ctr-import -q "$W/keys.parquet" "$W/keys.parquet" | ctr-info --digest)" "$(ctr-cat "$W/keys.arrows" "$W/keys.arrows" | ctr-info --digest)"
exits 'a plan reads them' 0 ctr-train lr -q -o "$W/k.model" "$W/keys.arrows"

# ---- failures
head -c 3000 "$W/in.arrows" >"$W/cut.arrows"
exits 'a truncated input fails' 1 ctr-export -o "$W/cut.parquet" "$W/cut.arrows"
ok 'and leaves no file' test ! -e "$W/cut.parquet"
ctr-export -f parquet "$W/cut.arrows" >"$W/cut.parquet" 2>/dev/null
exits 'nor a footer on stdout' 1 ctr-import -q -f parquet "$W/cut.parquet"
exits '/dev/full' 1 sh -c 'ctr-export -f parquet "$1" >/dev/full' - "$W/in.arrows"
exits 'a name that ends in .gz' 2 ctr-export -o "$W/x.parquet.gz" "$W/in.arrows"
exits 'options of text' 2 ctr-export -f parquet --null x "$W/in.arrows"
exits '--keys elsewhere' 2 ctr-export -f csv --keys int64 "$W/in.arrows"
err_like 'says where' 'are of --format parquet'

if has_python pyarrow; then
    ok 'every type and null pattern, value by value' "$PY" "$CTR_TOP/tests/export_parquet.py" "$W"
else
    skip 'other programs' 'no pyarrow'
fi
done_testing
