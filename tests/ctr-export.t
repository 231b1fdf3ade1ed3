#!/bin/sh
# ctr-export: the text of every format, what it refuses, and that other programs read the same values.
. "${0%/*}/lib.sh"
command -v ctr-import >/dev/null || skip_all "ctr-import is not built"

cat >"$W/rows.csv" <<'EOT'
click,user.id,price,ad,time
1,7,0.1,"one, two",2019-11-14T00:00:00Z
0,8,,"say ""hi""",2019-11-14T00:00:01.500Z
1,,1e+300,,
EOT
ctr-import --format csv --header --label click --time time "$W/rows.csv" >"$W/rows.arrows"

is "csv: what came in goes out" "$(ctr-export "$W/rows.arrows")" "$(cat "$W/rows.csv")"
is "stdin works too" "$(ctr-export <"$W/rows.arrows")" "$(cat "$W/rows.csv")"
is "csv: --delimiter, --null, --no-header, --columns" \
    "$(ctr-export --no-header --delimiter '::' --null '\N' --columns price,click "$W/rows.arrows")" '0.1::1
\N::0
1e+300::1'
raw() { printf '{"t":"%s"}\n' "$1" | ctr-import -f jsonl -c t:utf8 | ctr-export --no-header -d "$2" 2>/dev/null; }
is "a cell is raw before a delimiter of several bytes" "$(raw 'a:b' ::; raw xa ab; raw b aab; raw a aab)" 'a:b
xa
b
a'
for cell in a::b a: : 'a:\nb' 'a:\rb'; do
    ok "unless that would be read otherwise: $cell" [ -z "$(raw "$cell" ::)" ]
done
is "tsv" "$(ctr-export -f tsv -c ad,click "$W/rows.arrows" | tr '\t' '|')" 'ad|click
one, two|1
say "hi"|0
|1'
is "jsonl" "$(ctr-export -f jsonl "$W/rows.arrows")" \
    '{"click":1,"user":{"id":7},"price":0.1,"ad":"one, two","time":"2019-11-14T00:00:00Z"}
{"click":0,"user":{"id":8},"price":null,"ad":"say \"hi\"","time":"2019-11-14T00:00:01.500Z"}
{"click":1,"user":{"id":null},"price":1e+300,"ad":null,"time":null}'
is "jsonl --flat" "$(ctr-export -f jsonl --flat -c user.id "$W/rows.arrows" | head -1)" '{"user.id":7}'

# ---- table
has() { COLUMNS=$1 ctr-export -q -f table "$2"; }
printf 'n\tl\tt\n1\t[1,2,null]\tx\033[31my\n22\t[]\t日本語テキスト\n-3.5\t\t\n' | ctr-import -q -f tsv --header -c 'n:float64,l:list<int32>,t:utf8' -o "$W/shown.arrows"
is "table: numbers right, lists readable, wide characters, and no escape sequence" "$(has 80 "$W/shown.arrows")" '   n  l             t
   1  [1, 2, null]  $'"'"'x\x1b[31my'"'"'
  22  []            日本語テキスト
-3.5  null          null'
is "table: what is too long is cut" "$(has 24 "$W/shown.arrows")" '   n  l         t
   1  [1, 2, …  $'"'"'x\x1b…
  22  []        日本語…
-3.5  null      null'
is "table: no line is wider than the terminal, by any width" "$(for w in 20 21 22 23 25 30 40; do has $w "$W/shown.arrows" | "$PY" -c "
import sys, unicodedata
print(max(sum(2 if unicodedata.east_asian_width(c) in 'WF' else 1 for c in l.rstrip('\n')) for l in sys.stdin) - $w > 0)"; done | sort -u)" False
printf '%s\n%s\n' "$(seq -s , 30)" "$(seq -s , 100000 100029)" | ctr-import -q -f csv --header -o "$W/many.arrows"
is "table: columns without room are left out with a sign" "$(COLUMNS=40 ctr-export -f table "$W/many.arrows" 2>"$W/note")" '     1       2       3       4  …
100000  100001  100002  100003  …'
ok "and stderr says how many" grep -q '^ctr-export: 26 columns have no room: --columns chooses, --vertical shows all$' "$W/note"
is "table on a terminal: no progress on the line of the first row" "$("$PY" "$CTR_TOP/tests/term.py" 40 ctr-export --head 1 -c 1,2 "$W/many.arrows" | cat -v)" '     1       2
100000  100001'
is "table: --null, --no-header, --columns" "$(ctr-export -f table --null - --no-header -c l,n "$W/shown.arrows")" '[1, 2, -]     1
[]           22
-          -3.5'
is "--vertical shows all, whole" "$(ctr-export --vertical -c t,n "$W/shown.arrows" | sed -n '4,7p')" '
row 2
  t  日本語テキスト
  n  22'
is "table: no rows" "$(ctr-select --where false "$W/shown.arrows" | ctr-export -f table)" 'n  l  t'
seq 3000 | sed 's/^/x/; 2500s/.*/much longer than before/; 1i t' | ctr-import -q -f csv --header -o "$W/rows3000.arrows"
ctr-export -f table "$W/rows3000.arrows" >"$W/one.txt"
is "table: widths are those of the first 1,000 rows" "$(sed -n '1p;2p;1001p;2501p;3001p' "$W/one.txt")" 't
x1
x1000
much…
x3000'
ctr-cat --batch 7 "$W/rows3000.arrows" | ctr-export -f table -j 3 >"$W/other.txt"
ok "table: whatever the batches and threads" cmp "$W/one.txt" "$W/other.txt"
is "every row is there" "$(wc -l <"$W/one.txt")" 3001
exits "--vertical has no lines of names" 2 ctr-export --vertical --no-header "$W/shown.arrows"
exits "--vertical is of tables" 2 ctr-export -f csv --vertical "$W/shown.arrows"
exits "a table has no delimiter" 2 ctr-export -f table -d ';' "$W/shown.arrows"
for f in csv tsv jsonl; do
    is "--head 2 in $f" "$(ctr-export -f $f --head 2 -c n "$W/shown.arrows")" "$(ctr-select -q --head 2 "$W/shown.arrows" | ctr-export -f $f -c n)"
done
is "--head of batches" "$(ctr-cat --batch 7 "$W/rows3000.arrows" | ctr-export --head 8 | tail -1)" x8
is "--head 0" "$(ctr-export --head 0 -c n "$W/shown.arrows")" n
ctr-export -q -f npy --head 2 -c n -o "$W/two.npy" "$W/shown.arrows"
ctr-select --head 2 "$W/shown.arrows" | ctr-export -q -f npy -c n -o "$W/want.npy"
ok "--head in npy" cmp "$W/two.npy" "$W/want.npy"
exits "--head in parquet" 2 ctr-export -f parquet --head 2 -o "$W/two.parquet" "$W/shown.arrows"
err_like "names what does it" 'ctr-select --head 2'
head -c $(($(wc -c <"$W/rows3000.arrows") - 100)) "$W/rows3000.arrows" >"$W/cut.arrows"
exits "a table of an input that is cut" 1 ctr-export -f table -o "$W/none.txt" "$W/cut.arrows"
ok "is no file" [ ! -e "$W/none.txt" ]
if has_python pty; then
    is "a terminal is given a table of its width" "$("$PY" "$CTR_TOP/tests/term.py" 24 ctr-export -q --progress never "$W/shown.arrows")" "$(has 24 "$W/shown.arrows")"
    is "or csv, if asked for" "$("$PY" "$CTR_TOP/tests/term.py" 24 ctr-export -f csv --progress never -c n "$W/shown.arrows")" "$(ctr-export -c n "$W/shown.arrows")"
else
    skip "a terminal is given a table" "no python"
fi
is "libsvm: numbers count as indices" "$(ctr-export -q -f libsvm -c click,price,user.id "$W/rows.arrows")" '1 1:0.1 2:7
0 2:8
1 1:1e+300'
is "vw: numbers stand in one namespace" "$(ctr-export -q -f vw -c click,price,user.id "$W/rows.arrows")" \
    '1 |dense price:0.1 user.id:7
0 |dense user.id:8
1 |dense price:1e+300'

# Whose weights a list holds is asked of each column among all columns.
seq -s , 5000 | sed 's/^/y,/' >"$W/wide.csv"
seq -s , 5000 | sed 's/[0-9]*/1/g; s/^/1,/' >>"$W/wide.csv"
ctr-import -q --format csv --header --label y "$W/wide.csv" >"$W/wide.arrows"
is "vw: 5000 columns" "$(timeout 120 ctr-export -q -f vw "$W/wide.arrows" | wc -w)" 5002

printf 'a\n\nb\n' | ctr-import --format csv --columns x:utf8 - >"$W/one.arrows" 2>"$W/err"
is "a single empty cell is no empty line" "$(printf '[{"x":"p"},{"x":null}]' | tr -d '[]' | tr ',' '\n' | ctr-import -f jsonl - | ctr-export --no-header)" 'p
""'

printf '{"y":1,"k":["5:1","2:1","5:1e16","5:-1e16"]}\n' | ctr-import -f jsonl -c 'y,k:list<weighted key>' - >"$W/sum.arrows"
is "libsvm: a repeated index has the sum in the order of the row" "$(ctr-export -f libsvm --label y -c y,k "$W/sum.arrows")" '1 2:1 5:0'

# what it says
exits "an unknown column" 2 ctr-export -c prise "$W/rows.arrows"
err_like "names the nearest" 'price'
exits "a column twice" 2 ctr-export -c price,price "$W/rows.arrows"
err_like "is named" 'price is named twice$'
exits "an option of another format" 2 ctr-export -f jsonl --null x "$W/rows.arrows"
err_like "is named" --format jsonl takes no --null
exits "libsvm without a label" 2 ctr-export -f libsvm -c price "$W/rows.arrows"
err_like "says how to name one" '--label NAME'
exits "npy of a null integer" 1 ctr-export -f npy -c user.id -o "$W/x.npy" "$W/rows.arrows"
err_like "names row and column" 'row 3: column user.id'
ok "and leaves no file" test ! -e "$W/x.npy"
printf 'y,x,w\n1,1,1\n1,1,1\n0,nan,1\n' | ctr-import --format csv --header --label y --weight w - >"$W/nan.arrows"
for f in libsvm libffm vw; do
    exits "$f of a NaN" 1 ctr-export -f $f -o "$W/nan.$f" "$W/nan.arrows"
    err_like "names row and column" 'row 3: column x: a value that is no finite number'
done
ok "and leaves no file" test ! -e "$W/nan.vw"
ctr-select --add 'z=1 / 0.0' "$W/nan.arrows" >"$W/inf.arrows"
exits "libsvm of an infinite label" 1 ctr-export -f libsvm --label z "$W/inf.arrows"
err_like "names row and column" 'row 1: column z: no finite number'
exits "vw of an infinite importance" 1 ctr-export -f vw --weight z "$W/inf.arrows"
exits "npy of texts" 2 ctr-export -f npy -c ad "$W/rows.arrows"
printf '{"x":"a\\tb"}\n' | ctr-import -f jsonl - >"$W/tab.arrows"
exits "tsv of a tab" 1 ctr-export -f tsv "$W/tab.arrows"
err_like "names row, column and remedy" 'row 1: column x: .*--format csv'
exits "a bad delimiter" 2 ctr-export -d '"' "$W/rows.arrows"
ctr-export -q -f libsvm "$W/rows.arrows" >"$W/out"
ctr-export -f libsvm "$W/rows.arrows" 2>&1 >/dev/null | grep -q 'not written: ad, time' && left=yes || left=no
is "a column that is left out is named" $left yes

# empty input, threads
head -1 "$W/rows.csv" | ctr-import --format csv --header --columns click:int8,user.id:utf8,price:float32,ad:utf8,time:timestamp - >"$W/none.arrows"
is "no rows: the header" "$(ctr-export "$W/none.arrows")" "$(head -1 "$W/rows.csv")"
is "no rows: jsonl" "$(ctr-export -f jsonl "$W/none.arrows")" ""
awk 'BEGIN { srand(1); print "a,b"; for (i = 0; i < 50000; i++) print rand() "," i }' >"$W/big.csv"
ctr-import --format csv --header "$W/big.csv" >"$W/big.arrows"
for f in csv tsv jsonl npy; do
    ctr-export -f $f -j 1 "$W/big.arrows" >"$W/1.$f"
    ctr-cat --batch 1000 "$W/big.arrows" | ctr-export -f $f -j 4 >"$W/4.$f"
    ok "$f: the same bytes with four threads and other batches" cmp "$W/1.$f" "$W/4.$f"
done
{ seq 30000 && printf 'a\tb\n' && seq 30000; } | ctr-import --format csv --columns a:utf8 >"$W/tab.arrows"
for j in 1 4; do ctr-export -f tsv -j $j "$W/tab.arrows" >"$W/tab.$j" 2>"$W/tab.$j.err"; done
is "a row that cannot be written" "$(grep -c 'row 30001: column a' "$W/tab.1.err")" 1
ok "four threads say the same" cmp "$W/tab.1.err" "$W/tab.4.err"
{ echo a && seq 30000; } >"$W/tab.want"
ok "all rows before it are written" cmp "$W/tab.want" "$W/tab.1"
ok "by four threads the same" cmp "$W/tab.want" "$W/tab.4"
for f in libsvm libffm vw; do
    is "$f: the rows before it, and no part of it" "$(ctr-export -f $f "$W/nan.arrows" 2>/dev/null | wc -l)" 2
done
mkfifo "$W/fifo.tsv.gz"
for j in 1 4; do
    cat "$W/fifo.tsv.gz" >"$W/tab.gz" &
    exits "gzip of a row that cannot be written ($j)" 1 ctr-export -j $j -o "$W/fifo.tsv.gz" "$W/tab.arrows"
    wait $!
    gzip -dc "$W/tab.gz" >"$W/tab.$j" 2>"$W/tab.err"
    is "has no end, as gzip tells ($j)" "$? $(grep -c 'unexpected end' "$W/tab.err")" '1 1'
    ok "but all rows before it ($j)" cmp "$W/tab.want" "$W/tab.$j"
done
seq 500 | ctr-import -f csv -c n:int64 | ctr-cat --batch 10 | head -c 20000 >"$W/short.arrows"
for f in csv table; do
    rows=$(ctr-export -f $f "$W/short.arrows" 2>"$W/short.err" | sed 1d | wc -l)
    is "$f of a stream that breaks off: the rows before" "$(grep -c "after batch [0-9]* .row $rows)" "$W/short.err") $((rows > 100))" '1 1'
done
exits "npy of it" 1 ctr-export -f npy "$W/short.arrows"
err_like "says how many rows are good" "; there is no array, but --head $rows makes one of the rows before\$"
ok "which it does" ctr-export -f npy --head "$rows" -o "$W/short.npy" "$W/short.arrows"
exits "npy of a pipe with a row that cannot be written" 1 sh -c 'ctr-export -f npy -c user.id <"$1"' - "$W/rows.arrows"
err_like "likewise" 'row 3: column user.id: .*; there is no array, but --head 2 makes one'
is "nothing is written" "$(wc -c <"$W/out")" 0
ctr-cat --to file -o "$W/rows.arrow" "$W/rows.arrows"
exits "npy: a row that cannot be written" 1 ctr-export -f npy -c user.id "$W/rows.arrow"
is "the two numbers before it" "$(tail -c 16 "$W/out" | od -An -t d8 | tr -s ' ')" ' 7 8'
ctr-cat --batch 1000 "$W/big.arrows" 2>"$W/cut.err" | head -c 30000 >"$W/cut.arrows"
for j in 1 4; do
    exits "rows that cannot be written, then a stream cut short ($j)" 1 sh -c "ctr-export -j $j '$W/cut.arrows' >/dev/full"
    err_like "the first is said ($j)" 'stdout: write failed: No space'
done
mkfifo "$W/slow"
ctr-export -j 4 <"$W/slow" >/dev/full 2>"$W/slow.err" &
exec 9>"$W/slow"
cat "$W/rows.arrows" >&9
ok "while no input comes, it is said, too" until_true grep -q 'No space' "$W/slow.err"
exec 9>&-
wait $!
ok "csv: 50000 rows come back" cmp "$W/big.csv" "$W/1.csv"
ctr-export -o "$W/s.jsonl" "$W/rows.arrows"
ok "the suffix of -o decides" grep -q '^{' "$W/s.jsonl"
ctr-export -o "$W/s.ndjson" "$W/rows.arrows"
ok "jsonl by its other name" cmp "$W/s.ndjson" "$W/s.jsonl"
for f in '' '-f csv'; do
    exits "a name of another packing is refused ($f)" 2 ctr-export $f -o "$W/s.csv.zst" "$W/rows.arrows"
    err_like "which says how it is made" 's.csv.zst: text is written plain, or as .gz; pipe it: ctr-export … . zstd >'
done
for j in 1 4; do ctr-export -j $j -o "$W/z$j.jsonl.gz" "$W/big.arrows"; done
ok "a name in .gz is gzip of the format before it" sh -c 'gzip -dc "$1/z1.jsonl.gz" | cmp - "$1/1.jsonl"' - "$W"
ok "the same with four threads" cmp "$W/z1.jsonl.gz" "$W/z4.jsonl.gz"
is "and is read back" "$(ctr-import "$W/z1.jsonl.gz" | ctr-info --digest)" "$(ctr-import "$W/1.jsonl" | ctr-info --digest)"
ctr-export -o "$W/none.csv.gz" "$W/none.arrows"
is "gzip without rows" "$(gzip -dc "$W/none.csv.gz")" "$(head -1 "$W/rows.csv")"
exits "no gzip of npy" 2 ctr-export -c b -o "$W/b.npy.gz" "$W/big.arrows"
err_like "which says so" 'npy is not written as gzip'
exits "a suffix that promises another format is refused" 2 ctr-export -o "$W/s.feather" "$W/rows.arrows"
err_like "which says what to do" 's.feather: the suffix is that of no format written here: name one with --format$'
exits "but not when the format is named" 0 ctr-export -f csv -o "$W/s.json" "$W/rows.arrows"
head -c 500 "$W/big.arrows" >"$W/cut.arrows"
exits "a truncated input fails" 1 ctr-export -o "$W/cut.csv" "$W/cut.arrows"
ok "and leaves no file either" test ! -e "$W/cut.csv"

# other programs
if has_python numpy; then
    ok "numpy reads the npy" "$PY" -c "
import numpy as np
a = np.load('$W/1.npy'); assert a.shape == (50000, 2) and a.dtype == np.float64, a.shape
b = np.loadtxt('$W/big.csv', delimiter=',', skiprows=1); assert (a == b).all()"
    ctr-export -f npy -c b -o "$W/b.npy" "$W/big.arrows"
    ok "numpy reads a vector of integers" "$PY" -c "
import numpy as np
b = np.load('$W/b.npy'); assert b.dtype == np.int64 and (b == np.arange(50000)).all()"
else
    skip "npy" "no numpy"
fi
if has_python pyarrow; then
    ok "every float32 and float64 reads back to its bits, through csv and jsonl" "$PY" -c "
import numpy as np, pyarrow as pa, subprocess as s, json, csv, io
r = np.random.default_rng(1)
d = r.integers(0, 2**64, 20000, dtype=np.uint64).view(np.float64); f = r.integers(0, 2**32, 20000, dtype=np.uint32).view(np.float32)
ok = np.isfinite(d) & np.isfinite(f); d = d[ok]; f = f[ok]
t = pa.table({'d': d, 'f': f}); o = io.BytesIO()
with pa.ipc.new_stream(o, t.schema) as w: w.write_table(t)
x = s.run(['ctr-export', '-f', 'csv'], input=o.getvalue(), stdout=s.PIPE, check=True).stdout.decode()
rows = list(csv.reader(io.StringIO(x)))[1:]
assert (np.array([float(q[0]) for q in rows]).view(np.uint64) == d.view(np.uint64)).all()
assert (np.array([q[1] for q in rows]).astype(np.float32).view(np.uint32) == f.view(np.uint32)).all()
x = s.run(['ctr-export', '-f', 'jsonl'], input=o.getvalue(), stdout=s.PIPE, check=True).stdout.decode()
assert (np.array([json.loads(l)['d'] for l in x.splitlines()], dtype=np.float64).view(np.uint64) == d.view(np.uint64)).all()"
else
    skip "floats" "no pyarrow"
fi
# ---- cells that spreadsheets run ----
printf '%s\n' 't,n' '=1+1,-5' '+1,1' '-1,2' '@x,3' "'=1+1,4" "''@,5" 'a=1,6' "'a,7" ',8' '＝1,9' >"$W/formulas.csv"
ctr-import --format csv --header "$W/formulas.csv" >"$W/formulas.arrows"
is "formulas are data: the default keeps them" "$(ctr-export "$W/formulas.arrows")" "$(cat "$W/formulas.csv")"
is "--formulas escape: a ' before them, and before those that look escaped" "$(ctr-export --formulas escape "$W/formulas.arrows" | tail -n +2 | cut -d, -f1 | tr '\n' ' ')" \
    "'=1+1 '+1 '-1 '@x ''=1+1 '''@ a=1 'a  '＝1 "
is "and numbers stay" "$(ctr-export --formulas escape "$W/formulas.arrows" | sed -n 2p)" "'=1+1,-5"
is "a tab and a line end begin one too" "$(printf '{"t":"\\t=1"}\n{"t":"\\r=1"}\n{"t":"\\n=1"}\n' | ctr-import -f jsonl | ctr-export --formulas escape --no-header | od -An -c | tr -d ' \n')" \
    "'\\t=1\\n\"'\\r=1\"\\n\"'\\n=1\"\\n"
is "tsv too" "$(ctr-export -f tsv --formulas escape -c t --no-header "$W/formulas.arrows" | head -2 | tr '\n' ' ')" "'=1+1 '+1 "
is "names of columns too" "$(printf '{"=a":1}\n' | ctr-import -f jsonl | ctr-export --formulas escape | head -1)" "'=a"
exits "--formulas fail" 1 ctr-export --formulas fail "$W/formulas.arrows"
err_like "names row, column and remedy" "row 1: column t: begins with .*--formulas escape"
printf '{"@a":1}\n' | ctr-import -f jsonl -o "$W/name.arrows"
exits "--formulas fail, of a name" 1 ctr-export --formulas fail "$W/name.arrows"
exits "jsonl has no formulas" 2 ctr-export -f jsonl --formulas escape "$W/formulas.arrows"

# Denormals are data: on every thread, and through a plan.
awk 'BEGIN { for (i = 1; i <= 5000; i++) print i % 3 ? "-4.9e-324" : "1e-310" }' >"$W/small.txt"
for j in 1 4; do
    is "denormals, -j $j" "$(ctr-import -j $j --format csv --columns x:float64 "$W/small.txt" | ctr-select -j $j --add 'y=x * 1' | ctr-export -j $j -c y --no-header | sort | uniq -c |
        tr -s ' ' | tr '\n' ';')" ' 3334 -5e-324; 1666 1e-310;'
done
done_testing
