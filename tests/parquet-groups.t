#!/bin/sh
# Row groups of Parquet: read by threads with the same bytes for any -j, larger than --memory, many small files, left out by bloom filters.
. "${0%/*}/lib.sh"
cd "$W" || exit 1

# ---- bloom filters (tests/parquet_bloom.py): two row groups of the same bounds, which only their filters tell apart
"$PY" "$CTR_TOP/tests/parquet_bloom.py" "$W"
read_of() { # read_of WHERE : row groups left out, and the rows
    ctr-import -v --where "$1" -o x.arrows bloom.parquet 2>words || cat words
    sed -n 's/.*left out \([0-9]*\) row groups of.*/\1/p' words
    ctr-export --no-header x.arrows
}
read_bytes() { sed -n 's/.* columns, \([0-9.]*\) \([KM]*\)i*B of .* read$/\1 \2/p' words | awk '{ print $1 * ($2 == "K" ? 1024 : $2 == "M" ? 1048576 : 1) }'; }
rows() { read_of "$1" | tr '\n' ' '; }
is 'a number of the first group' "$(rows 'n == 5')" '1 5,five,0.5,2020-01-06T00:00:00Z '
is 'of the second' "$(rows 'n == 6')" '1 6,six,0.75,2020-01-07T00:00:00Z '
is 'of neither' "$(rows 'n == 7')" '2 '
is 'a text' "$(rows 's == "six"')" '1 6,six,0.75,2020-01-07T00:00:00Z '
is 'a text of neither' "$(rows 's == "seven"')" '2 '
is 'a float' "$(rows 'f == 0.5')" '1 5,five,0.5,2020-01-06T00:00:00Z '
is 'a day' "$(rows 'd == ts"2020-01-07T00:00Z"')" '1 6,six,0.75,2020-01-07T00:00:00Z '
is 'a time within a day, which no day is' "$(rows 'd == ts"2020-01-07T00:01Z"' | sed 's/^[0-9]* //')" ''
is 'either of two' "$(rows 'n == 5 or n == 6' | cut -c 1)" 0
is 'both of two' "$(rows 'n == 5 and s == "six"')" '2 '
is 'other than' "$(rows 'n != 5' | cut -c 1)" 0
for f in kind hash packed short far; do
    cp "bloom-$f.parquet" bloom.parquet
    is "a filter that is not known or damaged ($f) leaves nothing out" "$(rows 'n == 5')" '0 5,five,0.5,2020-01-06T00:00:00Z '
done
if has_python duckdb; then
    "$PY" -c 'import duckdb
duckdb.sql("copy (select (i * 7919 % 100000) * 10 as n, (i * 7919 % 100000)::varchar as s from range(20000) t(i)) to '"'duck.parquet'"' (format parquet, row_group_size 2048)")'
    bloomed=$("$PY" -c 'import duckdb
print(duckdb.sql("select count(*) from parquet_metadata('"'duck.parquet'"') where bloom_filter_offset is not null").fetchall()[0][0])')
    if [ "$bloomed" -gt 0 ]; then
        for n in 5 79190; do
            ctr-import -v --where "n == $n" -o x.arrows duck.parquet 2>words
            is "DuckDB's: n == $n" "$(ctr-export --no-header x.arrows | wc -l)" "$((n == 79190))"
            ok "and row groups are left out" grep -Eq 'left out [1-9][0-9]* row groups' words
            bytes=$(read_bytes)
            ctr-import -v --where 'n >= 0' -o x.arrows duck.parquet 2>words
            ok '-v tells how few bytes were read' awk "BEGIN { exit !($bytes > 0 && $bytes < $(read_bytes) / 2) }"
        done
    else
        skip "DuckDB's filters" 'this DuckDB writes none for it'
    fi
else
    skip "DuckDB's filters" 'no duckdb'
fi

if ! has_python pyarrow numpy; then
    skip 'row groups by threads' 'no pyarrow'
    done_testing
    exit
fi

# ---- the same bytes for any -j: small row groups, large ones with and without dictionaries, lists, conversions, files of one row group
"$PY" - "$W" ${SAN:+1} <<'END'
import sys, numpy as np, pyarrow as pa, pyarrow.parquet as pq
r = np.random.default_rng(5)
scale = 10 if len(sys.argv) > 2 else 1
def table(n, dictionary):
    few = pa.array([f"word {i}" for i in r.zipf(1.5, n) % 300], pa.string())
    many = pa.array([None if x % 11 == 0 else f"https://h{x % 97}.example/{x:x}" for x in r.integers(0, 1 << 40, n)])
    lists = pa.array([None if k == 5 else list(range(k)) for k in r.integers(0, 6, n)], pa.list_(pa.int32()))
    f = pa.array(r.normal(size=n), mask=r.random(n) < .1)
    return pa.table({"id": pa.array(range(n)), "few": few if dictionary else many, "many": many, "l": lists, "f": f, "b": pa.array(r.random(n) < .5),
                     "t": pa.array(r.integers(0, 2**41, n) * 1000, pa.timestamp("us"))})
for name, n, group, how in [("small", 60000, 500, False), ("plain", 300000, 150000, False), ("dict", 200000, 20000, True), ("mixed", 100000, 30000, True),
                            ("empty", 0, 10, False), ("one", 9000, 9000, True)]:
    t = table(n // scale, how)
    pq.write_table(t, f"{name}.parquet", row_group_size=max(group // scale, 50), use_dictionary=how, compression="zstd" if how else "snappy",
                   dictionary_pagesize_limit=2000 if name == "mixed" else 1 << 20, data_page_size=20000)
for i in range(200 // scale):
    pq.write_table(table(int(r.integers(1, 40)), False), f"many-{i:03d}.parquet")
END
for f in small plain dict mixed empty one 'many-*'; do
    for j in 1 2 3 8; do
        # shellcheck disable=SC2086
        ctr-import -q -j $j $f.parquet >"j$j" 2>err || cat err
    done
    ok "$f: -j 1 and 2" cmp j1 j2
    ok "$f: -j 1 and 3" cmp j1 j3
    ok "$f: -j 1 and 8" cmp j1 j8
    mv j3 "rows.$f"
done
for f in small plain dict mixed empty one 'many-*'; do # one process for all
    printf '%s\n' "$f"
done | "$PY" -c 'import sys, glob, pyarrow as pa, pyarrow.parquet as pq
def same(f):
    got = pa.ipc.open_stream(open("rows." + f, "rb").read()).read_all()
    want = pa.concat_tables([pq.read_table(f, use_threads=False) for f in sorted(glob.glob(f + ".parquet"))])
    assert got.num_rows == want.num_rows and got.column_names == want.column_names
    for c in want.column_names:
        g, w = got.column(c), want.column(c)
        g = pa.chunked_array([x.dictionary_decode() if isinstance(x, pa.DictionaryArray) else x for x in g.chunks], w.type if not len(g.chunks) else None)
        if pa.types.is_timestamp(w.type):
            w = w.cast(pa.timestamp("ms", "UTC"), safe=False)
        if pa.types.is_list(w.type): # whatever the item is called
            g = g.cast(w.type)
        assert not len(w) and not len(g) or g.equals(w), c
for f in sys.stdin.read().split("\n")[:-1]:
    try:
        same(f)
        print("ok - %s: the rows are those of pyarrow" % f)
    except Exception as e:
        print("not ok - %s: the rows are those of pyarrow: %r" % (f, e))' >checks
is 'all were read by pyarrow' "$? $(grep -c ok checks)" '0 7'
tap_of checks
for j in 1 2 5; do
    ctr-import -q -j $j -c id:utf8,f:float32,l,t:utf8 plain.parquet >"c$j"
    ctr-import -q -j $j --batch 1000 --where 'id >= 15000 and id % 7 == 0' plain.parquet >"w$j"
    ctr-import -v -j $j -c 'id,t,f:int8' dict.parquet >"e$j" 2>"e$j.err"
done
ok 'columns as other types' cmp c1 c5
ok '--where' cmp w1 w5
ok 'and --batch' cmp w1 w2
ok 'the rows before an error' cmp e1 e5
ok 'and the error' cmp e1.err e5.err
ok 'which names row and file' grep -Eq "dict.parquet: column f: '[-0-9.e]*' \(row [0-9]+\) is not int8" e2.err
# A page that is damaged, in a row group behind the first: what comes before it is the same.
"$PY" - <<'END'
import pyarrow.parquet as pq
m = pq.read_metadata("plain.parquet")
c = m.row_group(m.num_row_groups - 1).column(2)
d = bytearray(open("plain.parquet", "rb").read())
at = c.data_page_offset + c.total_compressed_size // 2
d[at:at + 64] = bytes(64)
open("flip.parquet", "wb").write(d)
END
for j in 1 2 5; do ctr-import -q -j $j small.parquet flip.parquet one.parquet >"f$j" 2>"f$j.err"; done
ok 'a damaged page' grep -q 'flip.parquet: column many' f1.err
ok 'is told the same by threads' cmp f1.err f5.err
ok 'behind the same rows' cmp f1 f5
ok 'by two, too' cmp f1 f2
cp small.parquet last.parquet && truncate -s -1 last.parquet
for j in 1 4; do ctr-import -q -j $j --schema first plain.parquet last.parquet >"f$j" 2>"f$j.err"; done
ok 'a file that cannot be opened' cmp f1.err f4.err
ok 'is an error behind the rows before it' cmp f1 f4

# ---- a row group that is larger than --memory is read by pages
"$PY" - <<'END'
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
r = np.random.default_rng(6)
n = 700000
t = pa.table({"id": r.integers(0, 2**62, n), "text": pa.array([f"{a:016x}{b:016x}{a ^ b:016x}" for a, b in r.integers(0, 2**62, (n, 2))]), "x": r.normal(size=n)})
pq.write_table(t, "group.parquet", row_group_size=n, data_page_size=16384, use_dictionary=False, compression="none", write_batch_size=512)
assert pq.read_metadata("group.parquet").num_row_groups == 1
END
is 'a row group of 46 MB' "$(ctr-import -q group.parquet | ctr-info --digest)" "$(ctr-import -q --memory 8M group.parquet | ctr-info --digest)"
if [ -z "$SAN" ]; then
    ok 'read within --memory 8M' below 14000 ctr-import -q -j 1 --memory 8M -o x.arrows group.parquet
    ok 'also by threads' below 14000 ctr-import -q -j 4 --memory 8M -o x.arrows group.parquet
    ok 'of which there are more where it allows' below 64000 ctr-import -q -j 4 --memory 64M -o x.arrows group.parquet
    ok 'many row groups by threads, within --memory' below 100000 ctr-import -q -j 8 --memory 100M -o x.arrows plain.parquet
fi
done_testing
