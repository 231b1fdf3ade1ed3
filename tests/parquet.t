#!/bin/sh
# ctr-import of Parquet: golden files, options, what is refused, damaged files, and every combination of type, encoding, codec, page
# version and null pattern against pyarrow (tests/parquet.py).
. "${0%/*}/lib.sh"
G=$CTR_TOP/tests/golden/parquet

# ---- files of three writers: gzip with pages of version 2 and three encodings, zstd, snappy, brotli
same_as() { ctr-import -q "$G/$1.parquet" | ctr-export -f jsonl | cmp "$2" -; }
codec() { # codec NAME REST… : skips where the library of the codec is missing
    if ctr-import -q "$G/$1.parquet" 2>&1 >/dev/null | grep -q 'install lib'; then
        skip "$1: its rows" 'no library'
    else
        ok "$1: its rows" same_as "$1" "$2"
    fi
}
sed 's/,"u":.*/}/' "$G/rows.jsonl" >"$W/five.jsonl"
sed 's/,"p":.*/}/' "$G/rows.jsonl" >"$W/two.jsonl"
ok 'pyarrow, gzip, version 2, deltas: its rows' same_as arrow "$G/rows.jsonl"
ok 'Polars, zstd: its rows' same_as polars "$W/five.jsonl"
codec duckdb "$W/five.jsonl"
codec brotli "$W/two.jsonl"
cp "$G/arrow.parquet" "$W/log.bin"
is 'known by content' "$(ctr-import -q "$W/log.bin" | ctr-info --digest)" "$(ctr-import -q "$G/arrow.parquet" | ctr-info --digest)"
is 'by --format, and from a file as stdin' "$(ctr-import -q --format parquet <"$G/arrow.parquet" | ctr-info --digest)" \
    "$(ctr-import -q "$G/arrow.parquet" | ctr-info --digest)"
digests() { for o in '-j 1' '-j 3' '--batch 1' '--batch 2' '--batch 100'; do ctr-import -q $o "$G/arrow.parquet" | ctr-info --digest; done; }
is 'the same rows for any -j and --batch' "$(digests | sort -u | wc -l)" 1
for j in 1 3; do ctr-import -q -j $j "$G/arrow.parquet" >"$W/j$j"; done
ok 'and the same bytes for any -j' cmp "$W/j1" "$W/j3"
ok 'two files, one after the other' sh -c 'test "$(ctr-import -q "$1" "$1" | ctr-export --no-header | wc -l)" = 10' - "$G/arrow.parquet"

# ---- options
is '--columns picks, renames and types, in its order' "$(ctr-import -q -c 'price=p:float64,u.age,n=id:utf8' "$G/arrow.parquet" | ctr-export)" \
    'price,u.age,n
0.5,30,1
-1.25,,2
,,3
2,1,
0,2,5'
exits 'a note of digits that are lost' 0 ctr-import -v -o "$W/a.arrows" "$G/arrow.parquet"
err_like 'says how many' 'column at: 3 values had digits below a millisecond'
err_like '-v says how much was read' '5 rows of 2 row groups, 7 of 7 columns, [0-9.]+ KiB of 1.6 KiB read'
exits 'fewer columns' 0 ctr-import -v -c id -o "$W/a.arrows" "$G/brotli.parquet"
err_like 'are fewer bytes' '1 of 2 columns, [0-9]+ B of 349 B read'
printf 'label u.age\nfeature ad\n' >"$W/two.plan"
is '--for a plan' "$(ctr-import -q --for "$W/two.plan" --keep id "$G/arrow.parquet" | ctr-export | head -n 2)" 'id,ad,u.age
1,a,30'
is 'roles' "$(ctr-import -q -c id,ad --user id "$G/arrow.parquet" | ctr-info | awk '$3 == "user" { print $1 }')" id
is 'a number as a time' "$(ctr-import -q -c id --time id:unix "$G/arrow.parquet" | ctr-export | sed -n 2p)" 1970-01-01T00:00:01Z
is '--like' "$(ctr-import -q -c id:int8,ad "$G/arrow.parquet" >"$W/like.arrows"; ctr-import -q --like "$W/like.arrows" "$G/arrow.parquet" | ctr-info --digest)" \
    "$(ctr-info --digest "$W/like.arrows")"
for o in --header '--null NA' '--delimiter ,' '--encoding latin1' '--bad-rows skip=1' '--keys hash' --binary; do
    exits "no ${o%% *}" 2 ctr-import $o "$G/arrow.parquet"
    err_like 'which is said' "${o%% *} is about text: Parquet"
done
exits 'a column that is not there' 2 ctr-import -c id,add "$G/arrow.parquet"
err_like 'is told the nearest' "--columns: the input has no column 'add'; the nearest is 'ad'"
exits 'a value that does not fit' 1 ctr-import -c p:int8 "$G/arrow.parquet"
err_like 'is named with its row' "arrow.parquet: column p: '0.5' \(row 1\) is not int8"
pipe() { cat "$G/arrow.parquet" | ctr-import --format parquet; }
exits 'a pipe' 1 pipe
err_like 'is refused with the remedy' 'stdin: is a pipe or a device, and Parquet is read from its end: write it to a file first'
exits 'Parquet as text' 1 ctr-import -f csv "$G/arrow.parquet"
err_like 'is told' 'is Parquet, not text: ctr-import reads it by the name of its file'
exits 'Parquet as a stream' 1 ctr-cat "$G/arrow.parquet"
err_like 'is told too' 'is Parquet, not a stream: ctr-import FILE.parquet makes one of it'

# ---- views of plans: named by the plan, or by content in the place of a stream or of text
printf 'ad,w\na,1\nb,2\n' | ctr-import -qf csv --header >"$W/ads.arrows"
ctr-import -q "$G/arrow.parquet" >"$W/log.arrows"
view() { # view FROM ARGUMENT… : the digest of what a plan makes of the view
    printf 'from log%s\njoin ads on ad\nlabel click = fill(p, 0) > 0\nfeature ad\nfeature tags\nfeature u.age\ndense w = fill(w, 0)\n' "$1" >"$W/view.plan"
    shift
    ctr-extract -q "$W/view.plan" ads="$W/ads.arrows" "$@" | ctr-info --digest
}
cp "$G/arrow.parquet" "$W/log.parquet"
want=$(view '' log="$W/log.arrows")
is 'a view by content' "$(view '' log="$G/arrow.parquet")" "$want"
is 'in a plan, beside it' "$(view ' = parquet("log.parquet")')" "$want"
is 'on three threads' "$(view ' = parquet()' -j 3 log="$G/arrow.parquet")" "$want"
is 'a stream in its place' "$(view ' = parquet("log.parquet")' log="$W/log.arrows")" "$want"
is 'it in the place of text' "$(view ' = csv(header=true)' log="$G/arrow.parquet")" "$want"
is 'columns of the plan' "$(view ' = parquet("log.parquet", columns="id,ad,p,tags,u.age:uint8")')" "$want"
exits 'what is read' 0 ctr-extract -v -o "$W/x.arrows" "$W/view.plan" ads="$W/ads.arrows"
err_like 'is said by -v' 'view log: .* read, 5 of 5 columns|view log: .* read, [0-9] of [0-9] columns'
printf 'from log = parquet("log.parquet", header=true)\nfeature ad\n' >"$W/text.plan"
exits 'options about text' 2 ctr-extract "$W/text.plan"
err_like 'are refused' 'parquet\(…\) takes columns="…", schema="…", partitions=true and roles'

# ---- damage
printf 'PAR1%0100dPARE' 0 >"$W/secret.parquet"
exits 'an encrypted file' 1 ctr-import "$W/secret.parquet"
err_like 'is refused by that name' 'secret.parquet: is encrypted Parquet'
head -c 900 "$G/arrow.parquet" >"$W/cut.parquet"
exits 'a file that is cut' 1 ctr-import "$W/cut.parquet"
err_like 'is called truncated' 'cut.parquet: is truncated: it does not end with PAR1'
# A byte of a page: the checksum says so. Bytes anywhere: never a crash, never too much memory or time.
flip() { "$PY" -c 'import sys
d = bytearray(open(sys.argv[1], "rb").read()); d[int(sys.argv[3])] ^= 64; open(sys.argv[2], "wb").write(d)' "$@"; }
flip "$G/arrow.parquet" "$W/flip.parquet" 45
exits 'a page that was changed' 1 ctr-import "$W/flip.parquet"
err_like 'has a wrong checksum' 'column id: the checksum of a page is wrong'
mutants=150
[ -n "$SAN" ] && mutants=30
mutations() { "$PY" - "$1" "$2" "$W/m.parquet" <<'EOT'
import random, subprocess, sys
data, n, path = open(sys.argv[1], "rb").read(), int(sys.argv[2]), sys.argv[3]
r = random.Random(7)
codes = set()
for i in range(n):
    d = bytearray(data)
    for _ in range(r.choice([1, 1, 2, 5])):
        at = r.randrange(4, len(d) - 8)
        d[at] = r.choice([d[at] ^ 1 << r.randrange(8), 0, 255, 127, r.randrange(256)])
    open(path, "wb").write(d)
    run = subprocess.run(["ctr-import", "-q", "--memory", "256M", path], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60)
    codes.add(run.returncode)
    if run.returncode not in (0, 1, 2) or b"Sanitizer" in run.stderr or b"runtime error" in run.stderr:
        open("/tmp/parquet-mutation", "wb").write(d)
        sys.exit(f"mutation {i}: exit {run.returncode}\n{run.stderr.decode()[-2000:]}")
sys.exit(0 if codes <= {0, 1, 2} else 1)
EOT
}
for f in arrow polars duckdb brotli; do ok "$f: changed bytes" mutations "$G/$f.parquet" $mutants; done

# ---- shapes that no installed writer makes, and lies
"$PY" "$CTR_TOP/tests/parquet_raw.py" "$W"
for f in repeated two three tuple packed struct clock number unknown; do
    is "$f" "$(ctr-import -q "$W/$f.parquet" | ctr-export -f jsonl)" "$(cat "$W/$f.jsonl")"
done
is 'decimals of bytes with common beginnings left out' "$(ctr-import -qc d:utf8 "$W/decimals.parquet" | ctr-export -f jsonl)" "$(cat "$W/decimals.jsonl")"
exits 'a number that is a time of day in the next file' 1 ctr-import -q "$W/number.parquet" "$W/clock.parquet"
err_like 'is refused' 'column t is a plain value in .*number.parquet, and a time of day in .*clock.parquet: import the files one by one'
exits 'items of a list as another type' 2 ctr-import -qc 'l:list<utf8>' "$W/two.parquet"
err_like 'are refused' 'column l is a list, whose items keep the type that they have in the file'
is 'a map is left out' "$(ctr-import -qc n "$W/map.parquet" | ctr-export | tr '\n' ' ')" 'n 7 '
lie() { # lie FILE WORDS
    exits "$1" 1 ctr-import --memory 64M "$W/$1.parquet"
    err_like 'says what' "$1.parquet: $2"
}
lie map 'column k.key_value.key belongs to the map k, and a map is no type here: leave it out'
lie deep 'column l.x is a list of lists, which is deeper than a column can be: leave it out'
lie invalid 'column t: .*, near row 1, is not UTF-8: leave the column out'
lie cycle 'the footer is damaged: the tree of its schema breaks off'
lie childless 'the footer is damaged: the tree of its schema breaks off'
lie more 'column n: it has fewer rows than its row group'
lie fewer 'column n: it has more rows than its row group'
lie empty 'column n: a page has fewer values than levels'
lie twice 'has two columns called a.b, such as a column of that name and a member of a struct: neither can be named'
lie filled 'column u: its type is that of nothing but nulls, and it has values \(near row 1\)'
lie huge 'column n: the header of a page is damaged'

lie bomb 'a page needs 64 MiB'
if [ -z "$SAN" ]; then
    ok 'a page that is said to unpack to 1 GiB takes no memory for that' below 30000 sh -c '! ctr-import "$1"' - "$W/announced.parquet"
fi

# ---- against pyarrow
if has_python pyarrow polars duckdb numpy; then
    n=60
    [ -n "${CTR_LONG:-}" ] && n=1000
    [ -n "$SAN" ] && n=12
    "$PY" "$CTR_TOP/tests/parquet.py" "$W" 0 $n >"$W/files" 2>&1
    is "$n files of pyarrow, Polars and DuckDB, value by value" "$(tail -n 30 "$W/files")" "$n of $n files"
    is 'dictionary columns' "$("$PY" "$CTR_TOP/tests/parquet.py" --dictionaries "$W" 2>&1)" ''
    is 'durations' "$("$PY" "$CTR_TOP/tests/parquet.py" --durations "$W" 2>&1)" ''
    is 'decimals and UUIDs' "$("$PY" "$CTR_TOP/tests/parquet.py" --decimals "$W" 2>&1)" ''
else
    skip 'files of pyarrow, Polars and DuckDB, value by value' 'no pyarrow, polars or duckdb'
fi
done_testing
