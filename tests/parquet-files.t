#!/bin/sh
# Parquet as people have it: many files whose columns are matched by name, folders, partitions, patterns in plans; row groups that a
# condition leaves out, against the same rows filtered behind (tests/parquet_prune.py).
. "${0%/*}/lib.sh"
make() { # make FILE JSON LINES… : a Parquet file of these rows
    mkdir -p "$(dirname "$W/$1")"
    printf '%s\n' "$2" | ctr-import -q -f jsonl ${3:+-c "$3"} - | ctr-export -o "$W/$1"
}
rows() { ctr-import -q "$@" | ctr-export -f jsonl; }
make 'log/day=2026-11-01/hour=3/a.parquet' '{"id":1,"ad":"a"}
{"id":2,"ad":null}' id:int32,ad
make 'log/day=2026-11-02/hour=4/b.parquet' '{"new":1.5,"ad":"b","id":1099511627776}' new:float64,ad,id
make 'log/day=2026-11-02/hour=4/_temporary.parquet' '{"id":9}'
make 'log/day=2026-11-02/hour=4/.c.parquet' '{"id":9}'
echo no >"$W/log/day=2026-11-02/_SUCCESS"

# ---- by name
both='{"id":1,"ad":"a","new":null}
{"id":2,"ad":null,"new":null}
{"id":1099511627776,"ad":"b","new":1.5}'
is 'a folder: files sorted, columns of all by name, the wider type' "$(rows "$W/log")" "$both"
is 'the same by their names' "$(rows "$W"/log/*/*/[ab].parquet)" "$both"
exits 'a column that a file lacks' 0 ctr-import -o "$W/x.arrows" "$W/log"
err_like 'is said' 'column new: 1 of 2 files lack it, and are null there \(the first: .*a.parquet\)'
is 'also where it comes later' "$(rows -c new:utf8,id "$W/log/day=2026-11-02/hour=4/b.parquet" "$W/log/day=2026-11-01/hour=3/a.parquet")" \
    '{"new":"1.5","id":1099511627776}
{"new":null,"id":1}
{"new":null,"id":2}'
printf 'ad,x\n1,2\n' | ctr-import -q -f csv --header - | ctr-export -o "$W/r1.parquet"
printf 'ad,c,x\n1,0,2\n' | ctr-import -q -f csv --header --label c - | ctr-export -o "$W/r2.parquet"
is 'a column that comes later has its role' "$(ctr-import -q "$W/r1.parquet" "$W/r2.parquet" | ctr-info | grep -c '^c .*label')" 1
ln -s nothing "$W/log/day=2026-11-01/hour=3/gone.parquet"
exits 'a file of a folder that is not there' 1 ctr-import -o "$W/x.arrows" "$W/log"
err_like 'is an error' 'gone.parquet: .*No such file'
rm "$W/log/day=2026-11-01/hour=3/gone.parquet"
ln -s ../.. "$W/log/day=2026-11-01/hour=3/up"
exits 'a link to a folder above it' 1 ctr-import -o "$W/x.arrows" "$W/log"
err_like 'is an error' 'hour=3/up: is a link to a folder that it lies in, whose files would be read again$'
rm "$W/log/day=2026-11-01/hour=3/up"
exits '--schema first' 0 ctr-import --schema first -c id:int64,ad -o "$W/first.arrows" "$W/log"
is 'has the columns of the first' "$(ctr-export -f jsonl "$W/first.arrows" | tail -n 1)" '{"id":1099511627776,"ad":"b"}'
make log2/1.parquet '{"id":1}'
make log2/2.parquet '{"id":2,"more":3}'
exits 'what it leaves out' 0 ctr-import --schema first -o "$W/x.arrows" "$W/log2"
err_like 'is said too' '1 file has columns that .*1.parquet lacks, which are left out \(the first: .*2.parquet\): more'
is 'and is no row less' "$(rows --schema first "$W/log2")" '{"id":1}
{"id":2}'
exits '--schema strict' 1 ctr-import -q --schema strict "$W/log2/2.parquet" "$W/log2/1.parquet"
err_like 'wants each column' '1.parquet: there is no column more, which .*2.parquet has'
exits 'of the first file' 0 ctr-import --schema strict -o "$W/x.arrows" "$W/log2"
err_like 'others are said' '1 file has columns that .*1.parquet lacks, which are left out \(the first: .*2.parquet\): more'
make log3/1.parquet '{"id":1}'
make log3/2.parquet '{"id":"x1"}'
exits 'types without a wider one' 1 ctr-import "$W/log3"
err_like 'are told of both files' 'column id is int64 in .*1.parquet, and utf8 in .*2.parquet: --columns id:TYPE names one for all'
is 'which is settled so' "$(rows -c id:utf8 "$W/log3")" '{"id":"1"}
{"id":"x1"}'
for s in union first strict; do # of one file they are the same
    is "one file, $s" "$(rows --schema $s "$W/log2/2.parquet")" '{"id":2,"more":3}'
done
digests() { for j in 1 3; do for b in 1 7 8192; do ctr-import -q -j $j --batch $b "$W/log" | ctr-info --digest; done; done; }
is 'the same rows for any -j and --batch' "$(digests | sort -u | wc -l)" 1
mkdir "$W/empty"
exits 'a folder without files' 1 ctr-import "$W/empty"
err_like 'is an error' 'empty: is a folder without a file \*.parquet in it or below'

# ---- partitions
is 'partitions are columns, behind the others' "$(rows --partitions "$W/log" | sed 1d)" \
    '{"id":2,"ad":null,"new":null,"day":"2026-11-01","hour":3}
{"id":1099511627776,"ad":"b","new":1.5,"day":"2026-11-02","hour":4}'
is 'with types and roles as others' "$(rows --partitions -c hour:utf8,day --time day "$W/log" | tail -n 1)" \
    '{"hour":"4","day":"2026-11-02T00:00:00Z"}'
make 'part/k=__HIVE_DEFAULT_PARTITION__/1.parquet' '{"id":1}'
make 'part/k=a%2Fb/2.parquet' '{"id":2}'
make part/3.parquet '{"id":3}'
is 'null, coded and absent ones' "$(rows --partitions "$W/part")" '{"id":3,"k":null}
{"id":1,"k":null}
{"id":2,"k":"a/b"}'
make 'same/id=1/1.parquet' '{"id":1}'
exits 'a column that is in the file, too' 2 ctr-import --partitions "$W/same"
err_like 'is an error' 'the partition id of the path is also a column of the file: read the files without partitions'
exits 'a value that does not fit' 1 ctr-import --partitions -c k:int8 "$W/part"
err_like 'is named' "column k: 'a/b', in the path, is not int8"

# ---- features of two plans are not one log
for f in ad day; do
    printf "label click = id > 1\nfeature ad = $f\n" >"$W/$f.plan"
    ctr-import -q --partitions "$W/log" | ctr-extract -q "$W/$f.plan" | ctr-export -o "$W/$f.parquet"
done
is 'features of one plan' "$(ctr-import -q "$W/ad.parquet" "$W/ad.parquet" | ctr-export --no-header | wc -l)" 6
exits 'of two' 1 ctr-import -q "$W/ad.parquet" "$W/day.parquet"
err_like 'are refused' 'day.parquet: cannot be joined with .*ad.parquet: .*plan'

# ---- plans
view() { # view FROM MORE LOG=FILE
    printf 'from log%s\nlabel click = fill(id, 0) > 1\nfeature ad\ndense new = fill(new, 0)\n%s' "$1" "${2:-}" >"$W/v.plan"
    ctr-extract "$W/v.plan" ${3:-} | ctr-info --digest
}
ctr-import -q --partitions "$W/log" >"$W/log.arrows"
want=$(view '' '' "log=$W/log.arrows")
is 'a folder as a view' "$(view '' '' "log=$W/log" 2>/dev/null)" "$want"
is 'a folder named by the plan' "$(view ' = parquet("log")' 2>/dev/null)" "$want"
is 'a pattern' "$(view ' = parquet("log/day=*/hour=*/[ab].parquet")' 2>/dev/null)" "$want"
view ' = parquet("log/nothing-*.parquet")' >"$W/out" 2>"$W/err"
err_like 'that finds nothing' 'nothing-\*.parquet: no file has such a name'
view ' = parquet("log", schema="any")' >"$W/out" 2>"$W/err"
err_like 'a schema that is none' 'schema "any" is none of union, first and strict'
printf 'id,ad\n1,a\n' >"$W/log.csv"
view ' = csv("log.csv", header=true, partitions=true)' >"$W/out" 2>"$W/err"
err_like 'partitions of text' 'schema="…" and partitions=true are about Parquet'
want=$(view '' 'feature hour
feature day' "log=$W/log.arrows")
is 'with partitions' "$(view ' = parquet("log", partitions=true)' 'feature hour
feature day' 2>/dev/null)" "$want"
printf 'from log = parquet("log", partitions=true)\nwhere hour >= 4\nlabel click = id > 1\nfeature ad\n' >"$W/w.plan"
exits 'a plan with a condition' 0 ctr-extract -v -o "$W/x.arrows" "$W/w.plan"
err_like 'leaves out row groups' 'view log: .* of .* columns, 1 row group of 2 rows left out'
is 'and has the rows' "$(ctr-info "$W/x.arrows" | grep -c '^rows  *1$')$(ctr-export "$W/x.arrows" | wc -l)" "$(ctr-info "$W/x.arrows" | grep -c '^rows  *1$')2"

# ---- streams of a view, likewise
printf '{"id":1,"ad":"a"}\n{"id":2,"ad":null}\n' | ctr-import -q -f jsonl - >"$W/1.arrows"
printf '{"new":1.5,"ad":"b","id":7,"un":3}\n' | ctr-import -q -f jsonl - | ctr-cat --to file >"$W/2.arrow"
printf '{"ad":"c"}\n' | ctr-import -q -f jsonl - | ctr-cat --share ad >"$W/3.arrows"
printf 'from log\nlabel click = fill(id, 0) > 1\nfeature ad\ndense new = fill(new, 0)\n' >"$W/s.plan"
exits 'streams whose columns differ, in a view' 0 ctr-extract -o "$W/s.arrows" "$W/s.plan" log="$W/1.arrows" log="$W/2.arrow" log="$W/3.arrows"
err_like 'are matched by name' 'view log: column new: 2 of 3 files lack it, and are null there \(the first: .*1.arrows\)'
is 'with each row' "$(ctr-export -c click,new "$W/s.arrows" | tr '\n' ' ')" 'click,new 0,0 1,0 1,1.5 0,0 '
printf '{"id":1,"ad":"a","new":null}\n{"id":2,"ad":null,"new":null}\n{"id":7,"ad":"b","new":1.5}\n{"id":null,"ad":"c","new":null}\n' |
    ctr-import -q -f jsonl - >"$W/all.arrows"
is 'and keys' "$(ctr-info --digest "$W/s.arrows")" "$(ctr-extract "$W/s.plan" log="$W/all.arrows" | ctr-info --digest)"
printf 'from log\nkeep n = 1\nlabel x = 1\n' >"$W/none.plan"
is 'also where nothing is read of them' "$(ctr-extract -q "$W/none.plan" log="$W/1.arrows" log="$W/3.arrows" | ctr-export --no-header | wc -l)" 3
printf '{"id":"x"}\n' | ctr-import -q -f jsonl - >"$W/4.arrows"
exits 'another type' 1 ctr-extract "$W/s.plan" log="$W/1.arrows" log="$W/4.arrows" log="$W/3.arrows"
err_like 'is an error' "4.arrows: column id is utf8 here, and int64 in a file before it"

# ---- conditions
exits '--where' 0 ctr-import -v --partitions --where 'day == "2026-11-01" and id > 1' -o "$W/x.arrows" "$W/log"
is 'keeps the rows' "$(ctr-export -f jsonl "$W/x.arrows")" '{"id":2,"ad":null,"new":null,"day":"2026-11-01","hour":3}'
err_like 'and says what was not read' '2 rows of 1 row groups, .* read$'
err_like 'by statistics' 'where left out 1 row groups of 1 rows by what the files say of them'
is 'nothing left' "$(rows --where 'id < 0' "$W/log")" ''
exits 'a column that is not there' 2 ctr-import --where 'idd > 1' "$W/log"
err_like 'is told the nearest' "idd.*'id'"
echo 'a' >"$W/a.csv"
for o in '--where a' --partitions '--schema first'; do
    exits "${o%% *} of text" 2 ctr-import --header $o "$W/a.csv"
    err_like 'is refused' "${o%% *} is about Parquet"
done
"$PY" "$CTR_TOP/tests/parquet_raw.py" "$W"
out() { ctr-import -v --where "$2" -o "$W/x.arrows" "$W/$1.parquet" 2>&1 | sed -n 's/.*left out \([0-9]*\) row.*/\1/p'; ctr-export --no-header "$W/x.arrows" | tr '\n' ' '; }
is 'bounds' "$(out bounds 'n > 7')$(out bounds 'n < -5')$(out bounds 'is_null(n)')" '111'
is 'which hold' "$(out bounds 'n >= 7')" "$(printf '0\n7 ')"
is 'deprecated bounds of signed numbers' "$(out bounds-old 'n > 7')$(out bounds-old 'n == 7')" "$(printf '10\n7 ')"
is 'but not of unsigned ones' "$(out bounds-unsigned 'n > 7')" "$(printf '0\n4294967291 ')"
for f in unordered reversed short nulls; do
    is "bounds-$f bound nothing" "$(out bounds-$f 'n == 7 and not is_null(n)')" "$(printf '0\n7 ')"
done
if has_python pyarrow numpy; then
    few=--few
    [ -n "${CTR_LONG:-}" ] && few=
    "$PY" "$CTR_TOP/tests/parquet_prune.py" "$W" $few >"$W/pruned" 2>&1
    is 'row groups left out never have a row that is kept' "$(sed 's/^[0-9]* conditions/conditions/' "$W/pruned" | tail -n 5)" \
        'conditions, row groups were left out: True'
else
    skip 'row groups left out never have a row that is kept' 'no pyarrow'
fi
if has_python pyarrow; then
    "$PY" - "$W" <<'EOF'
import sys, datetime as d, pyarrow as pa, pyarrow.parquet as pq
for unit, kind, day in ("us", pa.float32(), 1), ("ms", pa.float64(), 2):
    pq.write_table(pa.table({"t": pa.array([d.datetime(2020, 1, day)], pa.timestamp(unit)), "f": pa.array([0.1], kind)}), f"{sys.argv[1]}/{unit}.parquet")
EOF
    is 'units of time, and numbers that widen without loss' "$(ctr-import -q "$W/us.parquet" "$W/ms.parquet" | ctr-export --no-header)" \
        '2020-01-01T00:00:00Z,0.10000000149011612
2020-01-02T00:00:00Z,0.1'
fi

# ---- a list of files
printf '# days\n\nlog2/1.parquet\r\nlog2/2.parquet\n' >"$W/list.txt"
both='{"id":1,"more":null}
{"id":2,"more":3}'
is 'the files that a list names' "$(rows "@$W/list.txt")" "$both"
printf 'log2' >"$W/folder.txt"
{ printf '\357\273\277'; cat "$W/list.txt"; } >"$W/bom.txt"
is 'a list with a byte order mark' "$(rows "@$W/bom.txt")" "$both"
is 'or folders' "$(rows "@$W/folder.txt")" "$both"
is 'relative to the list' "$(cd / && rows "@$W/list.txt" "$W/log2/1.parquet" | tail -n 1)" '{"id":1,"more":null}'
printf '%s\n' "$W/log2/2.parquet" >"$W/log/whole.txt"
is 'or whole names' "$(rows "@$W/log/whole.txt")" '{"id":2,"more":3}'
printf 'log\n' >"$W/logs.txt"
want=$(view '' '' "log=$W/log.arrows")
is 'in a plan' "$(view ' = parquet("@logs.txt")' 2>/dev/null)" "$want"
is 'as a view' "$(view '' '' "log=@$W/logs.txt" 2>/dev/null)" "$want"
printf '1.arrows\n2.arrow\n3.arrows\n' >"$W/streams.txt"
is 'of streams' "$(ctr-extract -q "$W/s.plan" log=@"$W/streams.txt" | ctr-info --digest)" "$(ctr-info --digest "$W/s.arrows")"
printf 'x\n1\n' >"$W/t1.csv"
printf 't1.csv\nt1.csv\n' >"$W/texts.txt"
is 'of text' "$(ctr-import -q -f csv --header "@$W/texts.txt" | ctr-export | tr '\n' ' ')" 'x 1 1 '
echo '# none' >"$W/no.txt"
exits 'a list without a file' 1 ctr-import "@$W/no.txt"
err_like 'is told' 'no.txt: is a list without a file'
exits 'a list that is not there' 1 ctr-import "@$W/gone.txt"
err_like 'is told' 'gone.txt: .*No such file'
printf 'log2/1.parquet\n@list.txt\n' >"$W/at.txt"
exits 'a list of lists' 1 ctr-import "@$W/at.txt"
err_like 'is told with its line' 'at.txt: line 2: @list.txt is no file or folder'
head -c 9000 /dev/zero | tr '\0' x >"$W/long.txt"
exits 'no list at all' 1 ctr-import "@$W/long.txt"
err_like 'is told' 'long.txt: line 1 is no name of a file'
printf 't1.csv\rt2.csv\n' >"$W/mac.txt"
exits 'two names in a line' 1 ctr-import -f csv --header "@$W/mac.txt"
err_like 'are told, and none is passed over' 'mac.txt: line 1 is no name of a file'
exits 'a list as output' 2 ctr-import -o "$W/list.txt" "@$W/list.txt"
exits 'a file that is not there' 1 ctr-import "$W/gone.log"
err_like 'is told, not that its format is not known' 'gone.log: cannot open it: No such file'

# ---- zeros in front of partitions
make 'zero/hour=03/1.parquet' '{"id":1}'
make 'zero/hour=10/2.parquet' '{"id":2}'
exits 'integers with zeros in front' 0 ctr-import --partitions -o "$W/x.arrows" "$W/zero"
is 'are integers' "$(ctr-export -f jsonl "$W/x.arrows" | tail -n 1)$(ctr-info "$W/x.arrows" | awk '$1 == "hour" { print $2 }')" '{"id":2,"hour":10}int64'
ok 'without a word where they have one width' sh -c '! grep -q zeros "$1"' - "$W/err"
is 'as a condition has them' "$(rows --partitions --where 'hour == 3' "$W/zero")" '{"id":1,"hour":3}'
make 'zero/hour=3/3.parquet' '{"id":3}'
exits 'two spellings' 0 ctr-import --partitions -o "$W/x.arrows" "$W/zero"
err_like 'are told' 'column hour: folders write its integers with and without zeros in front, which are one: --columns hour:utf8 keeps them apart'
is 'and are one' "$(ctr-select -q --where 'hour == 3' "$W/x.arrows" | ctr-export -f jsonl -c id | tr '\n' ' ')" '{"id":1} {"id":3} '
is 'or texts' "$(rows --partitions -c hour:utf8 "$W/zero" | tr '\n' ' ')" '{"hour":"03"} {"hour":"10"} {"hour":"3"} '
make 'zero/hour=x/4.parquet' '{"id":4}'
is 'as they are where one is no integer' "$(rows --partitions -c hour "$W/zero" | head -n 1)" '{"hour":"03"}'
make 'wide/n=1234567890123456789/1.parquet' '{"id":1}'
make 'wide/n=0000000000000000000/1.parquet' '{"id":1}'
is 'and where they have more than 18 digits' "$(rows --partitions -c n "$W/wide" | head -n 1)" '{"n":"0000000000000000000"}'

# ---- rows behind rows
printf 'id,ad,w\n1,a,2\n3,b,4\n' >"$W/u1.csv"
printf 'w,id,more\n5,2,x\n6,,y\n' >"$W/u2.csv"
for n in 1 2; do
    ctr-import -q --header "$W/u$n.csv" >"$W/u$n.arrows"
    ctr-export -o "$W/u$n.parquet" "$W/u$n.arrows"
done
cat >"$W/u.plan" <<'END_PLAN'
from a = csv(header=true)
where id > 1
union b = csv(header=true)
label click = fill(w, 0) > 4
keep id, ad, more
feature ad
END_PLAN
ids() { ctr-extract -q "$@" | ctr-export -c id,more | tr '\n' ' '; }
is 'union: rows behind rows, by name' "$(ids "$W/u.plan" a="$W/u1.csv" b="$W/u2.csv")" 'id,more 3, 2,x ,y '
want=$(ctr-extract -q "$W/u.plan" a="$W/u1.csv" b="$W/u2.csv" | ctr-info --digest)
is 'of Parquet and streams' "$(ctr-extract -q "$W/u.plan" a="$W/u1.parquet" b="$W/u2.arrows" | ctr-info --digest)" "$want"
is 'by threads' "$(ctr-extract -q -j 3 "$W/u.plan" a="$W/u1.csv" b="$W/u2.parquet" | ctr-info --digest)" "$want"
is 'from pipes' "$(ctr-extract -q "$W/u.plan" a=- b="$W/u2.csv" <"$W/u1.csv" | ctr-info --digest)" "$want"
sed 's/^label/sort id desc\n&/' "$W/u.plan" >"$W/us.plan"
is 'statements below it' "$(ids "$W/us.plan" a="$W/u1.csv" b="$W/u2.csv")" 'id,more 3, 2,x ,y '
head -n 1 "$W/u2.csv" >"$W/u0.csv"
is 'a header alone takes the types of the rows before' "$(ids "$W/u.plan" a="$W/u1.csv" b="$W/u0.csv")" 'id,more 3, '
sed 's/^5/five/' "$W/u2.csv" >"$W/u3.csv"
exits 'two types' 2 ctr-extract "$W/u.plan" a="$W/u1.csv" b="$W/u3.csv"
err_like 'are an error' 'u.plan:3:1: column w is utf8, and int64 in the rows before: give both one type, as columns="w:int64" of a view'
is '--explain' "$(ctr-extract --explain "$W/u.plan" a="$W/u1.csv" b="$W/u2.csv" 2>/dev/null | grep -c "^stage 3 .*ctr-cat - <(ctr-import --format=csv --header b)")" 1
ctr-import -q --user id --header "$W/u2.csv" >"$W/role.arrows"
for type in float32 float64; do printf '.1\n' | ctr-import -q -f csv -c "x:$type" -o "$W/x.$type" -; done
printf 'from a\nunion b\nfeature x\n' >"$W/x.plan"
is 'a float32 of .1 is another key beside float64' "$(ctr-extract -q "$W/x.plan" a="$W/x.float32" b="$W/x.float64" | ctr-export --no-header | sort -u | wc -l)" 2
is 'that of its value' "$(printf '0.10000000149011612\n' | ctr-import -q -f csv -c x:float64 - | ctr-extract -q --table "$W/x.plan" | ctr-export --no-header)" \
    "$(ctr-extract -q "$W/x.plan" a="$W/x.float32" b="$W/x.float64" | ctr-export --no-header | head -n 1)"
printf 'from a\nunion b\nkeep id, w\nlabel click = fill(w, 0) > 4\nfeature w\n' >"$W/r.plan"
is 'a role of one side is that of both' "$(ctr-extract -q "$W/r.plan" a="$W/u1.arrows" b="$W/role.arrows" | ctr-export --no-header -c id | tr '\n' ' ')" '1 3 2 "" '
ctr-import -q --label w --header "$W/u1.csv" >"$W/label1.arrows"
ctr-import -q -f csv --label click --header - >"$W/label2.arrows" <<'END_CSV'
id,click
7,1
END_CSV
printf 'from a\nunion b\nkeep id, w, click\n' >"$W/l.plan"
is 'a role of two columns is that of the rows before' "$(ctr-extract -q "$W/l.plan" a="$W/label1.arrows" b="$W/label2.arrows" | ctr-info - | awk '$3 == "label" { print $1 }')" w
printf 'from a\nkeep id, w, click\n' >"$W/l.plan"
is 'and of files whose columns differ' "$(ctr-extract -q "$W/l.plan" a="$W/label1.arrows" a="$W/label2.arrows" | ctr-info - | awk '$3 == "label" { print $1 }')" w
printf 'id,ad,w\n6,b,.5\n' >"$W/u4.csv"
exits 'integers and fractions' 2 ctr-extract "$W/u.plan" a="$W/u1.csv" b="$W/u4.csv"
err_like 'are told with the type that has both' 'column w is float64, and int64 in the rows before: .* columns="w:float64" of a view'
# Types that hold the values of both sides: integers, floats, nulls of no type.
if has_python pyarrow; then
    "$PY" - "$W" <<'END_PY'
import sys, pyarrow as pa, pyarrow.parquet as pq
W = sys.argv[1]
a = pa.table({"i": pa.array([-1, None], pa.int32()), "u": pa.array([7, 8], pa.uint32()), "f": pa.array([.5, None], pa.float32()),
              "n": pa.nulls(2), "m": pa.array([3, None], pa.int16()), "d": pa.array(["x", "y"]).dictionary_encode(), "z": pa.nulls(2), "s": pa.nulls(2)})
b = pa.table({"i": pa.array([2**40, 1], pa.int64()), "u": pa.array([-5, 6], pa.int32()), "f": pa.array([.1, 2], pa.float64()),
              "n": pa.array([1.5, None]), "m": pa.nulls(2), "d": pa.array(["z", None]), "z": pa.nulls(2), "s": pa.array(["t", "u"]).dictionary_encode()})
for name, t in (("wa", a), ("wb", b)):
    with pa.ipc.new_stream(f"{W}/{name}.arrows", t.schema) as w:
        w.write_table(t)
    pq.write_table(t, f"{W}/{name}.parquet")
END_PY
    wide='{"i":-1,"u":7,"f":0.5,"n":null,"m":3,"d":"x","z":null,"s":null}
{"i":null,"u":8,"f":null,"n":null,"m":null,"d":"y","z":null,"s":null}
{"i":1099511627776,"u":-5,"f":0.1,"n":1.5,"m":null,"d":"z","z":null,"s":"t"}
{"i":1,"u":6,"f":2,"n":null,"m":null,"d":null,"z":null,"s":"u"}'
    printf 'from a\nunion b\nkeep i, u, f, n, m, d, z, s\n' >"$W/w.plan"
    printf 'from a\nkeep i, u, f, n, m, d, z, s\n' >"$W/one.plan"
    for x in arrows parquet; do
        sed "s/^from a/& = parquet()/; s/^union b/& = parquet()/" "$W/w.plan" >"$W/p.plan"
        p=$W/p.plan
        [ $x = parquet ] || p=$W/w.plan
        is "wider types, $x" "$(ctr-extract -q "$p" a="$W/wa.$x" b="$W/wb.$x" | ctr-export -f jsonl)" "$wide"
        is 'their names' "$(ctr-extract -q "$p" a="$W/wa.$x" b="$W/wb.$x" | ctr-info - | awk '$1 ~ /^[iufnmdzs]$/ { printf "%s ", $2 }')" 'int64 int64 float64 float64 int16 utf8 utf8 utf8 '
        is 'the other way round' "$(ctr-extract -q "$p" a="$W/wb.$x" b="$W/wa.$x" | ctr-export -f jsonl)" "$(printf '%s\n' "$wide" | tail -n 2; printf '%s\n' "$wide" | head -n 2)"
    done
    is 'files of a view, likewise' "$(ctr-extract -q "$W/one.plan" a="$W/wa.arrows" a="$W/wb.arrows" | ctr-export -f jsonl)" "$wide"
else
    skip 'wider types' 'no pyarrow'
fi
printf 'union b\nlabel click\n' >"$W/bad.plan"
exits 'without rows before' 2 ctr-extract "$W/bad.plan"
err_like 'is told' '`union` stands below `from VIEW`'
done_testing
