#!/bin/sh
# ctr-import, csv and tsv: what every option does, every error, the quarantine, and the public data sets.
. "${0%/*}/lib.sh"
# Read at "A disk that fails": older than 3 s by then, so that its end is not read beforehand.
awk 'BEGIN { for (i = 0; i < 200000; i++) printf "%d,%d\n", i % 7, i * i }' >"$W/disk.csv"
schema() { # NAME:TYPE[@ROLE] of every column, on one line
    ctr-info "$@" | awk '/^column/ { on = 1; next } on && NF { printf "%s%s:%s%s", s, $1, $2, $3 == "-" ? "" : "@" $3; s = " " }
        END { print "" }'
}
text() { ctr-export --format csv "$@"; }

# ---- options
cat >"$W/log.csv" <<'EOT'
user,when,price,text
al,2017-07-03 9:03,0.25,"one, ""two"""
bo,2017-07-03 14:21,,"line
break"
,2017-07-04 00:00,1e3,""
EOT
ctr-import --header --time when --user user "$W/log.csv" >"$W/log.arrows"
is "types and roles" "$(schema "$W/log.arrows")" "user:utf8@user when:timestamp@time price:float64 text:utf8"
is "values" "$(text "$W/log.arrows")" 'user,when,price,text
al,2017-07-03T09:03:00Z,0.25,"one, ""two"""
bo,2017-07-03T14:21:00Z,,"line
break"
,2017-07-04T00:00:00Z,1000,""'
is "stdin, and - for it" "$(ctr-import -f csv --header --time when --user user - <"$W/log.csv" | ctr-info --digest)" \
    "$(ctr-info --digest "$W/log.arrows")"
gzip -c "$W/log.csv" >"$W/log.csv.gz"
is "gzip is known by content" "$(cat "$W/log.csv.gz" | ctr-import -f csv --header --time when --user user | ctr-info --digest)" \
    "$(ctr-info --digest "$W/log.arrows")"
cat "$W/log.csv.gz" "$W/log.csv.gz" >"$W/two.gz"
exits "the second header of a gzip of two members is a row" 1 ctr-import -f csv --header --time when "$W/two.gz"
err_like "that does not fit" "two.gz: line 6: column when: 'when' is no time"
is "--like" "$(ctr-import --header --like "$W/log.arrows" "$W/log.csv" | ctr-info --digest)" "$(ctr-info --digest "$W/log.arrows")"
is "--like leaves out what it lacks, and finds by name" \
    "$(printf 'x,text,price,when,user\n9,t,1,2000-01-01,u\n' | ctr-import -f csv --header --like "$W/log.arrows" - | text)" \
    'user,when,price,text
u,2000-01-01T00:00:00Z,1,t'
is "--like beside --columns of the same type" \
    "$(ctr-import --header --like "$W/log.arrows" -c user,when,price:float64,text "$W/log.csv" | ctr-info --digest)" "$(ctr-info --digest "$W/log.arrows")"
exits "--like beside --columns of another" 2 ctr-import --header --like "$W/log.arrows" -c user,when,price:utf8,text "$W/log.csv"
err_like "names column and types" 'column price is to be utf8, and float64 with --like: drop one'
printf 'label y = user == "al"\nfeature price\n' >"$W/p.plan"
is "--for" "$(ctr-import --header --for "$W/p.plan" --time when "$W/log.csv" | schema)" "user:utf8 when:timestamp@time price:float64"
printf 'label y = user == "al"\nfeature price\nfeature age\nfeature city\n' >"$W/p2.plan"
is "--for: those columns of the plan that the log has, and --keep" \
    "$(ctr-import -q --header --for "$W/p2.plan" --keep text --time when "$W/log.csv" | schema)" "user:utf8 when:timestamp@time price:float64 text:utf8"
exits "--for says what is not there" 0 ctr-import --header --for "$W/p2.plan" -o "$W/p2.arrows" "$W/log.csv"
err_like "by name" "^ctr-import: --for: the input has 2 of the plan's columns, and not: age, city$"
exits "but not with -q" 0 ctr-import -q --header --for "$W/p2.plan" -o "$W/p2.arrows" "$W/log.csv"
is "nothing" "$(cat "$W/err")" ''
is "without header, columns are c1, c2, …" "$(printf '1\t"a\n2\tb' | ctr-import -f tsv | text)" 'c1,c2
1,"""a"
2,b'
is "--columns: names, types, a range" "$(printf '7,0.5,3,4\n' | ctr-import -f csv -c 'id:uint8,p:float32,I[1..2]' | schema)" \
    "id:uint8 p:float32 I1:int64 I2:int64"
is "--columns over a header: types, and a new name" \
    "$(printf 'a,b\n1,2\n' | ctr-import -f csv --header -c 'a:int8,`b c`=b:utf8' | ctr-export -f jsonl)" '{"a":1,"b c":"2"}'
is "--delimiter ::, --null, --encoding latin1" \
    "$(printf '1::caf\351::NA\n2::NA::3\n' | ctr-import -f csv -d :: --null NA --encoding latin1 | text)" 'c1,c2,c3
1,café,
2,,3'
for f in '11/9/2019 6:42:51 PM|%m/%d/%Y %I:%M:%S %p|2019-11-09T18:42:51Z' '978300760|unix|2000-12-31T22:12:40Z' \
    '1506826828020|unix_ms|2017-10-01T03:00:28.020Z' '14102123|%y%m%d%H|2014-10-21T23:00:00Z' \
    '10/Oct/2000:13:55:36 -0700|%d/%b/%Y:%H:%M:%S %z|2000-10-10T20:55:36Z'; do
    in=${f%%|*} out=${f##*|} format=${f#*|} format=${format%|*}
    is "--time t:$format" "$(echo "$in" | ctr-import -f csv -c t --time "t:$format" | text | tail -1)" "$out"
done
is "--null, each of several, and the empty cell with them" \
    "$(printf 'NA,x,1\n\\N,,2\n' | ctr-import -f csv --null NA --null '\N' | ctr-export -f jsonl)" \
    '{"c1":null,"c2":"x","c3":1}
{"c1":null,"c2":"","c3":2}'
is "--null '' among them" "$(printf 'NA,1\n,\n' | ctr-import -f csv --null NA --null '' -c a:int8,b:int8 | ctr-export -f jsonl)" \
    '{"a":null,"b":1}
{"a":null,"b":null}'
is "-d '\\t' is the tab" "$(printf 'a\t"b\tc"\n' | ctr-import -f csv -d '\t' | ctr-export -d '\t' --no-header)" "$(printf 'a\t"b\tc"')"
exits "--columns twice" 2 ctr-import --header --columns a --columns b "$W/log.csv"
err_like "would lose the first" '^ctr-import: --columns is given twice, and only the last would count$'

exits "a form of time that there is not" 2 ctr-import --header --time "when:%F %X" "$W/log.csv"
err_like "is refused before the first row" "--time: '%F %X' is no form of a time; there are unix, unix_ms, .* %Y %y %m"
exits "--time twice" 2 ctr-import --header --time a --time b "$W/log.csv"
err_like "so would the first of them be lost" '^ctr-import: --time is given twice, and only the last would count$'
exits "a zip archive by its name" 2 ctr-import --header "$W/log.csv.zip"
err_like "is told to be unpacked" 'log.csv.zip is a zip archive by its name, to be unpacked first: unzip -p FILE'
exits "a stream" 2 ctr-import "$W/log.arrows"
err_like "needs no import" 'log.arrows is a stream by its name, which every tool reads as it is'
exits "Parquet by its name alone" 1 ctr-import "$W/log.parquet"
err_like "is told so" 'log.parquet: cannot open'
echo word >"$W/log.dat"
exits "another name" 2 ctr-import "$W/log.dat"
err_like "wants the format" 'the format is not known from the name .*log.dat: name it with --format'
printf '{"a":1}\n{"a":2}\n' >"$W/rows.jsonl"
for name in rows.ndjson rows.json rows.json.gz; do
    cp "$W/rows.jsonl" "$W/$name"
    is "$name is known by its name" "$(ctr-import "$W/$name" | ctr-info --digest)" "$(ctr-import "$W/rows.jsonl" | ctr-info --digest)"
done
printf '1 1:2\n' >"$W/rows.svm"
is "rows.svm too" "$(ctr-import "$W/rows.svm" | ctr-info --digest)" "$(ctr-import -f libsvm "$W/rows.svm" | ctr-info --digest)"

# ---- what looks odd is said
says() { # says NAME REGEX INPUT OPTIONS…: on stderr, exit 0; REGEX '' for nothing
    _n=$1 _re=$2 _in=$3
    shift 3
    printf "$_in" >"$W/in.csv"
    exits "$_n" 0 ctr-import "$@" "$W/in.csv"
    if [ "$_re" ]; then err_like "$_n: said" "$_re"; else is "$_n: nothing is said" "$(cat "$W/err")" ''; fi
}
says "a header without --header" '^ctr-import: line 1 holds the names of the columns, as --header says; if it is data, --columns names them$' 'user,price\nal,1\nbo,2\n'
is "it names the columns" "$(ctr-import -q "$W/in.csv" | ctr-export)" "$(cat "$W/in.csv")"
is "as --header does" "$(ctr-import -q "$W/in.csv" | ctr-info --digest)" "$(ctr-import -q --header "$W/in.csv" | ctr-info --digest)"
says "the same of a time" 'line 1 holds the names' 'user,at\nal,2019-11-14\n'
for data in 'a,1\na,2\n' 'user,user\nal,1\n' 'user,\nal,1\n' ',,x\n1,2,3\n' ',NA\n1,2\n' '1user,x\nal,1\n' 'user,price\nal,cheap\n' 'user,price\n'; do
    printf "$data" >"$W/in.csv"
    case $data in a,1*) n=2 ;; user,price?nal*) n=2 ;; user,price*) n=1 ;; *) n=2 ;; esac
    is "no header: $data" "$(ctr-import -q "$W/in.csv" | ctr-info - | sed -n 's/^rows: //p')" $n
done
# the index of a data frame has no name
for head in ',user,click' '"",user,click'; do
    for n in 2 500; do
        { echo "$head"; seq -f '%g,u,1' $n; } >"$W/in.csv"
        exits "an empty name above $n rows: $head" 0 ctr-import -o "$W/o" "$W/in.csv"
        is "is that of its place" "$(ctr-export --head 1 "$W/o")" 'c1,user,click
1,u,1'
        is "which is said, and nothing else" "$(cat "$W/err")" 'ctr-import: line 1 holds the names of the columns, as --header says; if it is data, --columns names them'
    done
done
says "an empty name in a plan's view, or above names that are given" '^ctr-import: line 1 looks like the names of the columns; --header may be meant$' ',user,click\n0,al,1\n1,bo,0\n' -c a,b,c
{ echo user,price,price; seq -f 'u,%g,1' 500; } >"$W/in.csv"
exits "equal names, which --header refuses" 0 ctr-import -o "$W/o" "$W/in.csv"
is "no null is advised" "$(cat "$W/err")" 'ctr-import: line 1 looks like the names of the columns; --header may be meant'
exits "--header" 2 ctr-import --header "$W/in.csv"
err_like "names the remedy" "two columns are called 'price': with --header, --columns A,B,… renames all in order"
printf 'user,price\nal,1\n' >"$W/in.csv"
for first in alice,NA alice,nan alice,null 'alice,\N' alice,-; do
    printf '%s\nbo,2.5\n' "$first" >"$W/na.csv"
    is "no header: $first" "$(ctr-import -q "$W/na.csv" | ctr-export --no-header | wc -l)" 2
done
is "nor one with a word of --null" "$(printf 'alice,absent\nbo,3\n' | ctr-import -q -f csv --null absent | ctr-export --no-header)" 'alice,
bo,3'
is "--columns: no header is guessed" "$(ctr-import -q -c a,b "$W/in.csv" | ctr-export --no-header)" "$(cat "$W/in.csv")"
printf 'user,price\nbo,2\n' >"$W/in2.csv"
is "of two files" "$(ctr-import -q "$W/in.csv" "$W/in2.csv" | ctr-export)" 'user,price
al,1
bo,2'
is "of a pipe, with -j 3 and small batches" "$(ctr-import -q -j 3 --batch 1 -f csv <"$W/in.csv" | ctr-export)" "$(cat "$W/in.csv")"
printf 'user,price\nal,1\nbo,x\n' >"$W/in.csv"
ctr-import -q --bad-rows "quarantine=$W/bad.csv" -c user,price:int64 --header "$W/in.csv" >/dev/null
cp "$W/bad.csv" "$W/want.csv"
{ printf 'user,price\n' && yes al,1 | head -2000 && echo bo,x; } >"$W/in.csv"
ctr-import -q --bad-rows "quarantine=$W/bad.csv" "$W/in.csv" >/dev/null
is "a quarantine begins with it" "$(cat "$W/bad.csv")" "$(cat "$W/want.csv")"

# Times are inferred where milliseconds hold them.
of_times() { printf "$1" >"$W/t.csv" && ctr-import -q --header "$W/t.csv" | ctr-info - | sed -n 's/^t  *\([a-z0-9]*\) .*/\1/p'; }
for t in 2019-11-14 '2019-11-14 10:00' 2019-11-14T10:00:00 2019-11-14T10:00:00.5 2019-11-14T10:00:00.123000Z 2019-11-14T10:00:00+01:00 '2019-11-14 10:00:00 +0530'; do
    is "a time: $t" "$(of_times "t,x\n$t,1\n,2\n")" timestamp
done
for t in 2019-11-4 2019/11/14 2019-02-29 20191114 2019-11-14T10 2019-11-14T10:00:60 2019-11-14T10:00:00.1234 '14.11.2019' 2019-11-14x 0001 '2019-11-14  10:00' +2019-11-14; do
    is "no time: $t" "$(of_times "t,x\n$t,1\n")" "$(case $t in 20191114) echo int64 ;; *) echo utf8 ;; esac)"
done
is "times and texts" "$(of_times 't,x\n2019-11-14,1\nlater,2\n')" utf8
is "times and numbers" "$(of_times 't,x\n2019-11-14,1\n2019,2\n')" utf8
is "in UTC" "$(printf 't\n2019-11-14T10:00:00+01:00\n2019-11-14 10:00\n' | ctr-import -q -f csv --header | ctr-export --no-header)" '2019-11-14T09:00:00Z
2019-11-14T10:00:00Z'
says "a column of times" '^ctr-import: column t is of times \(ISO 8601; UTC where no zone is given\); --columns t:utf8 keeps the text$' 't\n2019-11-14\n' --header
is "times beside numbers with a comma" "$(printf 'n;d\n1,5;2024-01-02\n' | ctr-import -q --header -f csv -d ';' --decimal , - | ctr-export --no-header)" 1.5,2024-01-02T00:00:00Z
says "a column of text" '' 't\n2019-11-14\n' --header -c t:utf8
for bad in soon 2019-11-14T10:00:00.0001 2019-1-4; do
    { echo t && yes 2019-11-14 | head -1500 && echo $bad; } >"$W/t.csv"
    exits "a later value that is no such time: $bad" 1 ctr-import -q --header "$W/t.csv"
    err_like "names place and remedy" "line 1502: column t: '$bad' is no time in the form ISO 8601.*; --columns t:utf8 or --bad-rows settles it"
done

# A file of a name that says nothing is known by its content.
kind() { cp "$1" "$W/kind.log" && ctr-import --header "$W/kind.log" 2>"$W/err" | ctr-info --digest; }
printf 'a,b\n1,2\n' >"$W/k.csv"
printf 'a\tb\n1\t2,5\n' >"$W/k.tsv"
for f in csv tsv; do
    is "$f by content" "$(kind "$W/k.$f")" "$(ctr-import -q --header "$W/k.$f" | ctr-info --digest)"
    ok "it is said" grep -q "^ctr-import: .*kind.log is read as $f, as which it begins; --format says otherwise$" "$W/err"
done
cp "$W/k.tsv" "$W/kind.log"
is "stdin that is a file" "$(ctr-import -q --header <"$W/kind.log" | ctr-info --digest)" "$(ctr-import -q --header "$W/k.tsv" | ctr-info --digest)"
printf '{"a":1}\n' >"$W/kind.log"
is "jsonl by content" "$(ctr-import -q "$W/kind.log" | ctr-export -f jsonl)" '{"a":1}'
printf '1 3:0.5 7:1\n' >"$W/kind.log"
is "libsvm by content" "$(ctr-import -q "$W/kind.log" | ctr-info - | sed -n 's/^rows: //p')" 1
ctr-import -q "$W/k.csv" | ctr-export -q -f npy -o "$W/k.npy"
cp "$W/k.npy" "$W/kind.log"
is "npy by content" "$(ctr-import -q "$W/kind.log" | ctr-info --digest)" "$(ctr-import -q "$W/k.npy" | ctr-info --digest)"
ctr-import -q "$W/k.csv" | ctr-export -q -o "$W/k.safetensors"
cp "$W/k.safetensors" "$W/kind.log"
is "safetensors by content" "$(ctr-import -q "$W/kind.log" | ctr-info --digest)" "$(ctr-import -q "$W/k.safetensors" | ctr-info --digest)"
ctr-import -q "$W/k.csv" >"$W/kind.log"
exits "a stream by content" 2 ctr-import "$W/kind.log"
err_like "needs no import" 'kind.log is a stream by its content, which every tool reads as it is'
printf 'one\ntwo\n' >"$W/kind.log"
exits "a line of one column is of no format" 2 ctr-import "$W/kind.log"
says "the same under --columns" '--header may be meant' 'user,price\nal,1\nbo,2\n' -c u,p
says "texts all the way down" '' 'user,ad\nal,x\n'
says "a text in the first row, but a number too" '' 'x,1\n2,2\n'
says "a header without rows" 'in.csv has no rows: columns without a type are utf8; --columns or --like gives types$' 'user,price\n' --header
says "a header without rows, and types" '' 'user,price\n' --header -c user:utf8,price:float32
says "a header" '' 'user,price\nal,1\n' --header
says "lines that end in CR CR LF" "line 1 of .*in.csv ends in two CR, of which one stays in its last cell; tr -d '.r' mends that" 'a,b\r\r\n1,2\r\r\n' --header
says "lines that end in CR" 'in.csv is one line with CR in it' 'a,b\r1,2\r' --header
says "one line of CRLF" '' 'a,b\r\n' --header -c a:utf8,b:utf8
printf 'a,b\r\n1,2\r\n3,4' >"$W/crlf.csv"
is "CRLF, no last newline, two files" "$(ctr-import --header "$W/crlf.csv" "$W/crlf.csv" | text | tr '\n' ' ')" "a,b 1,2 3,4 1,2 3,4 "

# ---- the same bytes, however
awk 'BEGIN { srand(7); print "k,x,s"
    for (i = 0; i < 60000; i++) printf "%d,%.6g,%s\n", i, rand() * 1000, i % 3 ? "text " i : "\"quoted, " i "\"" }' >"$W/many.csv"
ctr-import --header "$W/many.csv" >"$W/1"
ctr-import -j 4 --header "$W/many.csv" >"$W/4"
ok "-j 4 gives the bytes of -j 1" cmp "$W/1" "$W/4"
cat "$W/many.csv" | ctr-import -f csv --header >"$W/pipe"
is "a pipe gives the rows of a file" "$(ctr-info --digest "$W/pipe")" "$(ctr-info --digest "$W/1")"
is "all of them" "$(text "$W/1" | cksum)" "$(cksum <"$W/many.csv")"

# ---- a header that was not told of
forgot() { # NAME REGEX OPTIONS…
    _n=$1 _re=$2
    shift 2
    exits "no --header: $_n" 1 ctr-import "$@" -o "$W/o" "$W/forgot.csv"
    err_like "the hint comes before the remedy" "line 1: column $_re"
}
printf 'id,x,t\n1,2.5,2020-01-01\n' >"$W/forgot.csv"
named='; the line looks like the names of the columns, and --header may be meant;'
forgot "an integer" "id: 'id' is not int64$named --columns id:utf8" -c id:int64,x:float64,t
forgot "a float" "x: 'x' is not float64$named" -c id,x:float64,t
forgot "a time" "t: 't' is no time in the form ISO 8601$named --time" -c id,x,t --time t
forgot "other names" "a: 'id' is not int8$named" -c a:int8,b,c
ctr-import --header "$W/forgot.csv" >"$W/forgot.arrows"
forgot "--like" "id: 'id' is not int64$named" --like "$W/forgot.arrows"
sed 's/[^,]*/"&"/g' "$W/forgot.csv" >"$W/forgot2.csv"
exits "in quotes" 1 ctr-import -c id:int64,x:float64,t "$W/forgot2.csv"
err_like "too" "'id' is not int64$named"
tr , '\t' <"$W/forgot.csv" >"$W/forgot.tsv"
exits "as tsv" 1 ctr-import -c id:int64,x:float64,t "$W/forgot.tsv"
err_like "too" "'id' is not int64$named"
exits "with fewer names than columns" 2 ctr-import -c t:timestamp,id:int64 "$W/forgot.csv"
err_like "which all stand in line 1" 'line 1 has 3 columns, --columns names 2, which are among them; --header may be meant$'
exits "and others" 2 ctr-import -c t,u "$W/forgot.csv"
err_like "which do not" 'line 1 has 3 columns, --columns names 2$'
exits "all of them text" 0 ctr-import -c id:utf8,x:utf8,t:utf8 -o "$W/o" "$W/forgot.csv"
err_like "says so, and goes on" '^ctr-import: line 1 looks like the names of the columns; --header may be meant$'
exits "other names, all of them text" 0 ctr-import -c a:utf8,b:utf8,c:utf8 -o "$W/o" "$W/forgot.csv"
is "may be anything" "$(cat "$W/err")" ''
ctr-import -q -c id:int64,x,t --bad-rows quarantine="$W/fq" -o "$W/o" "$W/forgot.csv"
is "a quarantine tells why" "$(grep -c -e "$named" "$W/fq.why")" 1
for first in '5x,1' 'x,1' 'NA,y'; do
    exits "$first is no line of names" 1 sh -c "printf '$first\n1,2\n' | ctr-import -f csv -c a:int8,b:utf8"
    ok "and nothing of the kind is said" sh -c "! grep -q header '$W/err'"
done

# ---- --null of one column
printf 'a,b,c:d\n-1,-1,x\nNA,,\n3,4,NA\n' >"$W/null.csv"
null() { # WANT OPTIONS…
    _want=$1
    shift
    for f in csv tsv; do
        tr , "$([ $f = tsv ] && echo '\t' || echo ,)" <"$W/null.csv" >"$W/null.in"
        is "$f: $*" "$(ctr-import -q -f $f --header "$@" "$W/null.in" 2>&1 | ctr-export -f tsv --null '<null>' --no-header | tr '\t\n' ', ')" "$_want "
    done
}
null '<null>,-1,x NA,<null>,<null> 3,4,NA' --null a:-1
null '<null>,-1,x <null>,<null>,<null> 3,4,NA' --null a:-1 --null a:NA
null '-1,<null>,x <null>,<null>, 3,4,<null>' --null NA --null b:-1 --null b:
null '-1,-1,<null> NA,<null>, 3,4,<null>' --null c:d:NA --null c:d:x
null '<null>,<null>,x NA,, 3,4,NA' --null :-1
is "a text with a colon, for all columns" "$(printf 'a\nx:y\nx\n' | ctr-import -f csv --header --null :x:y | ctr-export -f jsonl | tr '\n' ' ')" '{"a":null} {"a":"x"} '
is "names are those of the stream" "$(printf 'a,b\n7,7\n' | ctr-import -f csv --header -c x=a --null x:7 | ctr-export -f jsonl)" '{"x":null,"b":7}'
is "without a header too" "$(printf '7,7\n"7","7"\n' | ctr-import -f csv -c a:int8,b:int8 --null b:7 | ctr-export -f jsonl | tr '\n' ' ')" '{"a":7,"b":null} {"a":7,"b":null} '
exits "of a column that is not there" 2 ctr-import --header --null prise:-1 "$W/null.csv"
err_like "is an error" "^ctr-import: --null NAME:STR: the input has no column 'prise'; there are a, b, c:d; a text with a colon, for all columns, is --null ':prise:-1'$"
exits "an empty cell that is no null" 1 sh -c "printf 'a\n1\n\"\"\n' | ctr-import -f csv --header -c a:int8 --null a:NA"
err_like "is told how to be one" "column a: '' is not int8; --null '' may settle it"

# ---- times beyond the years of four digits go out and come back
times='9999-12-31T23:59:59.999Z +010000-01-01T00:59:59Z -000001-12-31T23:00:00Z +292278994-08-17T07:12:55.807Z -292275055-05-16T16:47:04.192Z'
{ echo t && printf '%s\n' $times; } >"$W/far.csv"
ctr-import --header --time t "$W/far.csv" >"$W/far.arrows"
is "csv: times beyond 9999 are written as they are read" "$(text "$W/far.arrows")" "$(cat "$W/far.csv")"
# A path that no line has is mistyped; one that is null wherever it is, is said.
printf '{"a":1,"b":{"c":null}}\n{"a":2,"d":5}\n' >"$W/paths.jsonl"
exits "a path that no line has" 1 ctr-import -f jsonl -c 'a:int64,e=b.e:int64' "$W/paths.jsonl" -o "$W/paths.arrows"
err_like "is named" 'column e: none of the 2 lines has its path'
ok "and nothing is written" test ! -e "$W/paths.arrows"
is "a path that some line has is read" "$(ctr-import -q -f jsonl -c 'a:int64,d:int64' "$W/paths.jsonl" | ctr-export -f jsonl | tail -n 1)" '{"a":2,"d":5}'
is "nulls in all lines are said, -q or not" "$(ctr-import -q -j 3 -f jsonl -c 'a:int64,c=b.c:int64' "$W/paths.jsonl" -o "$W/paths.arrows" 2>&1)" 'ctr-import: column c: null in all 2 lines'
is "no line has no path" "$(ctr-import -q -f jsonl -c a:int64 /dev/null | ctr-info | grep -c '^rows: 0')" 1
for f in tsv jsonl; do
    is "$f: and come back" "$(ctr-export -f $f "$W/far.arrows" | ctr-import -f $f $([ $f = tsv ] && echo --header) --time t - | ctr-info --digest)" "$(ctr-info --digest "$W/far.arrows")"
done
is "a zone may lead there" "$(echo 9999-12-31T23:59:59-01:00 | ctr-import -f csv -c t --time t | ctr-export --no-header)" +010000-01-01T00:59:59Z

# ---- a live pipe
longer() { [ "$(stat -c %s "$1")" -gt "$2" ]; }
moves() { # moves NAME BYTES INPUT OPTIONS…: INPUT comes, and then neither more nor the end: more than BYTES come out
    _n=$1 _bytes=$2 _in=$3
    shift 3
    rm -f "$W/end"
    (printf "$_in"; while [ ! -e "$W/end" ]; do sleep 0.05; done) | ctr-import -q -f csv --flush 20ms "$@" >"$W/live" 2>"$W/live.err" &
    ok "$_n" until_true longer "$W/live" "$_bytes"
    : >"$W/end"
    wait
}
lines=$(seq -f 'a%g,1\n' 3000 | tr -d '\n')
moves "a live pipe with a header moves, all types named" 40000 "ad,click\n$lines" --header -c ad:utf8,click:int64
is "and ends whole" "$(ctr-export "$W/live" | tail -n 1)" "a3000,1"
moves "with columns renamed" 40000 "a,c\n$lines" --header -c ad=a:utf8,click=c:int64
moves "with bad rows, and threads" 40000 "ad,click\nx\n$lines" --header -c ad:utf8,click:int64 --bad-rows skip=1 -j 2
printf 'label y = click\nfeature click\n' >"$W/live.plan"
moves "with types by --for and --time" 200 "ad,click,n\n1,1,x\n" --header --time ad:unix -c click:int8 --for "$W/live.plan"
moves "the schema comes with the header alone" 100 "ad,click\n" --header -c ad:utf8,click:int64
moves "rows beyond whole batches come too" 45000 "ad,click\n$lines" --header -c ad:utf8,click:int64 --batch 2000
block=$(yes 'abcde,1\n' | head -n 131072 | tr -d '\n') # 1 MiB
cols='-c ad:utf8,click:int64 --batch 100000'
moves "a block and half a line" 2000000 "${block}b" $cols
moves "a block and half a line, with threads" 2000000 "${block}b" $cols -j 2
moves "a block and a bad row, with threads" 2000000 "${block}b\\n" $cols -j 2 --bad-rows skip=1
printf 'a1,1\n' >"$W/before.csv"
moves "a file before a pipe in which nothing is" 100 "" -c ad:utf8,click:int64 "$W/before.csv" -
moves "a line of two bytes" 100 '1\n' -c a:int8
slow=$( (printf 'a,b\n1,2\n' && sleep 0.3 && printf '1.5,x\n') | ctr-import -f csv --flush 20ms --header -c a:float64 | schema)
is "a type to infer waits for its sample" "$slow" "a:float64 b:utf8"
(printf 'a,b\n1,2\n' && sleep 0.3) | ctr-import -q -f csv --flush 20ms --header -c z:float64 >/dev/null 2>"$W/live.err"
is "a column that is not there is told at the end" "$? $(cat "$W/live.err")" \
    "2 ctr-import: --columns: the input has no column 'z'; there are a, b; z=OLD renames column OLD"

# ---- bad rows
printf 'id,n\n1,10\n2\n3,x\n4,40\n5,"6\n7,70\n8,80,9\n' >"$W/bad.csv"
exits "a bad row is an error" 1 ctr-import --header "$W/bad.csv"
err_like "that names file, line and shape" "bad.csv: line 3: 1 column where there should be 2; --bad-rows settles it"
is "and nothing comes out whole" "$(ctr-import --header "$W/bad.csv" 2>/dev/null | ctr-info --check >/dev/null 2>&1;  echo $?)" 3
exits "skip=3" 1 ctr-import --header -c n:int64 --bad-rows skip=3 "$W/bad.csv"
err_like "counts to four" "bad.csv: line 8: bad row 4 where --bad-rows allows 3: 3 columns where there should be 2"
exits "skip=4" 0 ctr-import --header -c n:int64 --bad-rows skip=4 -o "$W/kept.arrows" "$W/bad.csv"
err_like "says how many" "3 rows imported, 4 bad rows skipped"
for j in 1 4; do
    exits "quarantine (-j $j)" 0 ctr-import -j $j --header -c n:int64 --bad-rows quarantine="$W/q.csv" -o "$W/kept.arrows" "$W/bad.csv"
    is "keeps the good rows" "$(text "$W/kept.arrows" | tr '\n' ' ')" "id,n 1,10 4,40 7,70 "
    is "puts the raw lines aside, after the header" "$(cat "$W/q.csv")" 'id,n
2
3,x
5,"6
8,80,9'
    is "with the reasons" "$(cut -f2- "$W/q.csv.why" | tr '\t' ' ')" "3 1 column where there should be 2; --bad-rows settles it
4 column n: 'x' is not int64; --columns n:utf8 or --bad-rows settles it
6 a quote is not closed; --format tsv takes quotes as they are
8 3 columns where there should be 2; --bad-rows settles it"
done
# What is before a bad line, in its block too, is delivered without a trailer.
awk -v csv="$W/cut.csv" -v json="$W/cut.jsonl" -v vw="$W/cut.vw" 'BEGIN {
    print "id,n" >csv
    for (i = 1; i <= 1500; i++) {
        print i "," (i == 1001 || i == 1201 ? "x" : i) >csv
        print i == 1001 ? "{\"id\":" i ",\"n\":" : "{\"id\":" i ",\"n\":[" i "]}" >json
        print i, (i == 1001 ? "a:" i : "| a:" i) >vw
    }
}'
delivers() { # delivers NAME IDS FILE OPTIONS…
    _n=$1 _ids=$2 _f=$3
    shift 3
    for _j in 1 4; do
        exits "a bad row, $_n -j $_j" 1 sh -c 'cut=$1; shift; exec ctr-import "$@" >"$cut"' - "$W/cut" -j $_j "$@" "$_f"
        is "all rows before it" "$(ctr-cat -q --lenient "$W/cut" 2>/dev/null | ctr-export --no-header | sed 's/,.*//' | tr '\n' ' ')" "$_ids"
        exits "without a trailer" 3 ctr-info --check "$W/cut"
    done
    exits "nothing" 1 ctr-import -o "$W/whole" "$@" "$_f"
    ok "under the name of -o" test ! -e "$W/whole"
}
thousand=$(seq 1000 | tr '\n' ' ')
delivers csv "$thousand" "$W/cut.csv" --header -c id:int64,n:int64
delivers "csv --batch 300" "$thousand" "$W/cut.csv" --header -c id:int64,n:int64 --batch 300
delivers "csv --bad-rows skip=1" "$thousand$(seq 1002 1200 | tr '\n' ' ')" "$W/cut.csv" --header -c id:int64,n:int64 --bad-rows skip=1
delivers jsonl "$thousand" "$W/cut.jsonl"
delivers vw "$thousand" "$W/cut.vw"
printf 'id,n\n2,20\n3,30\n5,60\n8,80\n' >"$W/mended.csv"
is "mended, it imports like the original" "$(ctr-import --header --like "$W/kept.arrows" "$W/mended.csv" | ctr-cat "$W/kept.arrows" - | text | tail -n +2 | sort | tr '\n' ' ')" \
    "1,10 2,20 3,30 4,40 5,60 7,70 8,80 "
awk 'BEGIN { srand(3); for (i = 0; i < 100000; i++) {
    r = rand(); print (r < .05 ? i ",\351,1" : r < .1 ? i ",b" : r < .15 ? i ",\"c" i "\"x,1" : r < .2 ? i ",d,1.5" : i ",e,7") "\r" } }' >"$W/dirty.csv"
exits "100,000 rows, a fifth of them bad" 0 ctr-import -f csv -j 3 -c i:int64,s:utf8,n:int8 --bad-rows quarantine="$W/dq" -o "$W/dk" "$W/dirty.csv"
(text "$W/dk" | tail -n +2 | sed 's/$/\r/'; cat "$W/dq") | sort -n >"$W/both"
ok "kept and quarantined are the input, each row once" cmp "$W/both" "$W/dirty.csv"
is "the reasons are as many" "$(wc -l <"$W/dq.why")" "$(wc -l <"$W/dq")"
exits "and the quarantine is all bad again" 0 ctr-import -f csv -c i:int64,s:utf8,n:int8 --bad-rows skip=100000 -o "$W/none" "$W/dq"
err_like "to the last row" "0 rows imported, $(wc -l <"$W/dq") bad"
printf 'a\351,1\nb\351,x\n' | ctr-import -f csv --encoding latin1 -c s,n:int64 --bad-rows quarantine="$W/lq" - >"$W/out" 2>"$W/err"
is "a latin1 quarantine is latin1" "$(od -An -c <"$W/lq" | tr -d ' ')" 'b351,x\n'
exits "a quarantine of all rows is a failure" 1 sh -c "printf 'a\nb\n' | ctr-import -f csv -c x:int8 --bad-rows quarantine='$W/all' -o '$W/all.arrows'"
is "that says where they are" "$(cat "$W/err")" "ctr-import: none of 2 rows could be read; they are in $W/all, and why in $W/all.why"
is "and so they are" "$(tr '\n' ' ' <"$W/all") $(wc -l <"$W/all.why")" "a b  2"
ok "without a product" test ! -e "$W/all.arrows"
is "nor one in a pipe" "$(echo '{"a":1}' | ctr-import -f jsonl -c a:timestamp --bad-rows quarantine="$W/all" 2>/dev/null | ctr-info --check >/dev/null 2>&1; echo $?)" 3
exits "one row is enough" 0 sh -c "printf 'a\n1\n' | ctr-import -q -f csv -c x:int8 --bad-rows quarantine='$W/all' -o '$W/all.arrows'"
exits "no row at all is none that is bad" 0 sh -c ": | ctr-import -q -f csv -c x:int8 --bad-rows quarantine='$W/all' -o '$W/all.arrows'"
# A disk that fails in the middle: what comes before the error was read, and nothing else.
# A file that was written to a moment ago is looked through first, with reads that would be counted.
until_true sh -c "test \$((\$(date +%s) - \$(stat -c %Z '$W/disk.csv'))) -gt 4"
for encoding in utf8 latin1; do
    for n in 2 3 4 5; do
        [ -n "$SAN" ] && continue
        LD_PRELOAD="$CTR_BUILD/fault/inject.so" CTR_INJECT=read:$n:EIO ctr-import --batch 100 --encoding $encoding -c a:int8,b:int64 "$W/disk.csv" \
            2>"$W/err" | ctr-cat -q --lenient 2>/dev/null | ctr-export --format csv | tail -n +2 >"$W/got"
        head -n "$(wc -l <"$W/got")" "$W/disk.csv" | cmp - "$W/got"
        grep -v 'disk.csv: read failed: Input/output error$' "$W/err"
    done
done >"$W/out" 2>&1
is "reads that fail are told, behind rows that were read" "$(cat "$W/out")" ''
exits "the reasons of a quarantine are an output too" 2 ctr-import --header -c n:int64 --bad-rows quarantine="$W/q2" -o "$W/q2.why" "$W/bad.csv"
err_like "which says so" 'q2.why is given for two outputs'
exits "a failed import leaves no quarantine" 1 sh -c "printf '1,2\n\"x\n' | ctr-import -f csv --bad-rows quarantine=$W/gone -c a,b -o $W/no/such/dir"
ok "indeed" test ! -e "$W/gone"

# ---- errors
bad() { # bad NAME STATUS REGEX INPUT OPTIONS…
    _n=$1 _s=$2 _re=$3 _in=$4
    shift 4
    printf "$_in" >"$W/in.csv"
    exits "$_n" "$_s" ctr-import "$@" "$W/in.csv"
    err_like "$_n: says it" "$_re"
}
long=$(awk 'BEGIN { for (i = 0; i < 1001; i++) printf "%d\\n", i }')
bad "a late value that does not fit" 1 "in.csv: line 1002: column c1: '1.5' is not int64; --columns c1:float64 or --bad-rows settles it" "${long}1.5\n"
is "-0 among numbers beyond int64 is a text" "$(printf 'a\n1\n-0\n9223372036854775808\n' | ctr-import -f csv --header | text | tr '\n' ' ')" \
    "a 1 -0 9223372036854775808 "
bad "a number beyond int64, late, and negative ones before" 1 "'9223372036854775808' is not int64; --columns c1:utf8 or" "0\n-1\n${long}9223372036854775808\n"
bad "a negative number, late, and large ones before" 1 "'-1' is not uint64; --columns c1:utf8 or" "9223372036854775808\n${long}-1\n"
bad "a number beyond int64, late" 1 "'9223372036854775808' is not int64; --columns c1:uint64 or" "${long}9223372036854775808\n"
bad "the remedy is taken" 1 "'-0' is not uint64; --columns a:float64 or" '1\n-0\n' -c a:uint64
bad "a number out of range" 1 "line 1: column a: '300' is not int8; --columns a:int64" '300\n' -c a:int8
bad "a time of another form" 1 "line 1: column t: '3/4/2001' is no time in the form ISO 8601; --time t:FORMAT" '3/4/2001\n' -c t --time t
bad "a word for null" 1 "'NA' is not float64; --null 'NA' may settle it" 'NA\n' -c a:float64
bad "latin1 taken for UTF-8" 1 'caf.xe9. is not UTF-8; --encoding latin1' 'caf\351\n'
bad "too few names" 2 'line 1 has 3 columns, --columns names 2' '1,2,3\n' -c a,b
bad "a column renamed twice" 2 "column 'a' of the input stands there twice" 'a,b\n1,2\n' --header -c x=a,y=a
bad "the wrong delimiter" 2 "line 1 has 1 column, --columns names 2; --delimiter ';' may be meant" '1;2\n' -c a,b
bad "tabs in csv" 2 "line 1 has 1 column, --columns names 2; --format tsv may be meant" '1\t2\n' -c a,b
bad "a log with no column of the plan" 2 "--for: the input has none of the plan's columns: user, price" 'a,b\n1,2\n' --header --for "$W/p.plan"
bad "--keep of a column that is not there" 2 "--keep: the input has no column 'prise'; the nearest is 'price'" 'price,b\n1,2\n' --header --for "$W/p.plan" --keep prise
bad "--keep without --for" 2 "--keep goes with --for" 'price,b\n1,2\n' --header --keep price
said() { # said NAME REGEX TEXT OPTION… : an import that succeeds says so on stderr
    _n=$1 _re=$2
    printf "$3" >"$W/said.csv"
    shift 3
    exits "$_n" 0 ctr-import "$@" -o "$W/said.arrows" "$W/said.csv"
    err_like "says so" "$_re"
}
said "numbers behind rows without a value" "column b: null in the first 1000 lines, so it is text, and 2 numbers .the first: '7.10'. became text: --columns" \
    "a,b\\n$(awk 'BEGIN { for (i = 0; i < 1200; i++) printf "%d,\\n", i }')1,7.10\\n2,x\\n3,\"8\"\\n" -f csv --header
is "as which they stay" "$(ctr-select --tail 3 "$W/said.arrows" | text | tr '\n' ' ')" 'a,b 1,7.10 2,x 3,8 '
said "times finer than milliseconds" "^ctr-import: column t: 2 times had digits below a millisecond, which are cut off .the first: '2024-01-01T10:00:00.1234Z'.: a utf8 column keeps them$" \
    't\n2024-01-01T10:00:00.123000Z\n2024-01-01T10:00:00.1234Z\n2024-01-01T10:00:00.1239Z\n' -f csv --header -c t:timestamp
for form in 'unix 1700000000.5 1700000000.5001' 'unix_ms 1700000000500 1700000000500.1' 'unix_us 1700000000500000 1700000000500001' \
    'unix_ns 1700000000500000000 1700000000500000001' '%S.%f 07.500000 07.5001' 'local:Europe/Paris 2024-01-01T10:00:00.500 2024-01-01T10:00:00.5001'; do
    set -- $form
    said "as $1" 'column t: 1 time had digits' "t\n$2\n$3\n" -f csv --header --time "t:$1"
done
printf '{"t":"2024-01-01T10:00:00.1234Z"}\n' | ctr-import -f jsonl -c t:timestamp -o "$W/said.arrows" 2>"$W/err"
err_like "in jsonl" 'column t: 1 time had digits below a millisecond'
said "a header with tabs" '^ctr-import: line 1 is taken for one column; --format tsv may be meant$' 'user\tage\n1\t2\n' -f csv --header
said "a header with semicolons" "one column; --delimiter ';' may be meant$" 'user;age\n1;2\n' -f csv --header
said "a line with ::" 'one column; --delimiter :: may be meant$' '1::2::3\n' -f csv
said "a header with bars, as tsv" "one column; --delimiter '|' may be meant$" 'a|b\n1|2\n' -f tsv --header
said "a header with commas, as tsv" 'one column; --format csv may be meant$' 'a,b\n1,2\n' -f tsv --header
printf '"a;b"\n1\n' | ctr-import -f csv --header -o "$W/said.arrows" 2>"$W/err"
is "nothing is said about a quoted cell" "$(cat "$W/err")" ''
# The byte 0 is UTF-8, and Arrow's texts may hold it: it is neither lost nor an end.
printf 'a,b\n1,x\000y\n2,"\000"\n3,x\n' >"$W/nul.csv"
for j in 1 4; do
    ctr-import -j $j --header "$W/nul.csv" -o "$W/nul$j.arrows"
    ok "a NUL in a text is kept (-j $j)" sh -c 'ctr-export -f csv "$1" | od -c >"$2.got"; sed "s/\"//g" "$2" | od -c >"$2.want"; cmp "$2.got" "$2.want"' sh "$W/nul$j.arrows" "$W/nul.csv"
    is "and ends none (-j $j)" "$(ctr-select --where 'b == "x"' "$W/nul$j.arrows" | ctr-export --no-header -c a)" 3
done
bad "a NUL in a number" 1 "line 2: column a: [$]'1.x00' is not int64" '1\n1\000\n' -c a:int64
bad "a NUL in a name" 1 'line 1: the name of column 2 holds the byte 0' 'a,b\000c\n1,2\n' --header
bad "an unknown type" 2 "'int65' is no type, the nearest is" '1\n' -c a:int65
bad "a column that is not there: which are" 2 "no column 'visitor'; there are user, price$" 'user,price\n1,2\n' --header --label visitor
bad "an unknown column" 2 "the input has no column 'prise'; the nearest is 'price'" 'price,b\n1,2\n' --header -c prise:int8
exchanged='ad,user,ts\n1,2,3\n'
bad "--columns over a header: some names are in it, one is not" 2 \
    "^ctr-import: --columns: the input has no column 'time'; there is ts; time=OLD renames column OLD$" "$exchanged" --header -c user:int64,ad:int64,time:int64
bad "the nearest of those that no entry names" 2 "no column 'use'; the nearest is 'user'; use=OLD" "$exchanged" --header -c ad,use
bad "more names than columns" 2 "no column 'ip'; ip=OLD" "$exchanged" --header -c user,ad,ts,ip
bad "more names than columns, none in it" 2 "--columns names 4 columns, the header has 3$" "$exchanged" --header -c A,B,C,D
is "the rename that is told" "$(printf "$exchanged" | ctr-import -qf csv --header -c user:int64,ad:int64,time=ts:int64 | text)" 'ad,user,time
1,2,3'
says "none of them: by position, which is told" "--columns names no column of the header: its names replace those of the header in order$" "$exchanged" --header -c u,a,t
is "and is what it does" "$(printf "$exchanged" | ctr-import -qf csv --header -c u,a,t | text)" 'u,a,t
1,2,3'
bad "an unknown role column" 2 "--label: the input has no column 'clik'; the nearest is 'click'" 'click\n1\n' --header --label clik
bad "a time that another form reads" 1 "column t: '2020-01-01 00:00:00 UTC' is no time in the form ISO 8601; --time 't:%Y-%m-%d %H:%M:%S UTC' or" \
    '2020-01-01 00:00:00 UTC\n' -c t --time t
bad "a time beyond int64" 1 "'.292278994-08-17T07:12:55.808Z' is no time in the form ISO 8601" '+292278994-08-17T07:12:55.808Z\n' -c t --time t
bad "milliseconds as seconds" 1 "line 2: column t: '1506826828020' is no time in the form unix; --time t:FORMAT .*unix_ms" 't\n1506826828020\n' --header --time t:unix
bad "a time that is not there" 2 "--time: the input has no column 'when'" 'a\n1\n' --header --time when:unix
bad "a column twice" 2 "two columns are called 'a'" '1,2\n' -c a,a
bad "a column twice in a header" 2 "two columns are called 'a': with --header, --columns A,B,… renames all in order" 'a,a\n1,2\n' --header
bad "an empty input without columns" 1 'in.csv: the input is empty: without --columns its columns are not known' ''
bad "an unknown format" 2 "--format wants csv[|].*, not 'cvs'" '1\n' -f cvs
bad "a bad policy" 2 "--bad-rows wants fail, skip=MAX or quarantine=FILE, not 'never'" '1\n' --bad-rows never
bad "an empty delimiter" 2 '--delimiter wants' '1\n' -d ''
bad "--like with another type" 2 'column price is to be utf8, and .* with --like' 'user,when,price,text\n' --header --like "$W/log.arrows" --columns price:utf8
bad "--like with a time that is none there" 2 'column user is to be timestamp, and .* with --like' 'user,price\n' --header --like "$W/log.arrows" \
    --time user:unix
bad "--like with --for" 2 '--like and --for' '1\n' --like "$W/log.arrows" --for "$W/p.plan"
bad "a zip archive" 1 'is a zip archive; unpack it first' 'PK\003\004....'
bad "UTF-16" 1 'is UTF-16; convert it first' '\377\376a\000'
bad "UTF-16, big-endian" 1 'is UTF-16; convert it first' '\376\377\000a'
bad "UTF-32" 1 'is UTF-32; convert it first: iconv -f UTF-32' '\377\376\000\000a\000\000\000'
bad "UTF-32, big-endian" 1 'is UTF-32; convert it first: iconv -f UTF-32' '\000\000\376\377\000\000\000a'
head -c 60 "$W/log.csv.gz" >"$W/cut.gz"
exits "gzip cut short, rows put together" 1 ctr-import -f csv --header --batch 1000 "$W/cut.gz"
err_like "says so" 'gzip: truncated'
for name in none.csv.gz none.csv.zst none.csv.lz4; do
    : >"$W/$name"
    exits "$name of 0 bytes" 1 ctr-import --header --time when "$W/log.csv" "$W/$name"
    err_like "is one cut short, and no log without rows" "$name: truncated"
done
bad "gzip cut short" 1 'gzip: truncated' "$(head -c 60 "$W/log.csv.gz" | od -An -v -to1 | tr -d '\n' | sed 's/ /\\/g')"
exits "no format without a name" 2 ctr-import
err_like "says how to name it" 'name it with --format'
exits "no such file" 1 ctr-import "$W/nothing.csv"
err_like "names it" 'nothing.csv: .*No such file'
exits "a folder" 1 ctr-import -f csv "$W"
err_like "is no file" 'Is a directory'
exits "a number beyond float16" 1 sh -c "printf '65519.9\n-65520\n' | ctr-import -f csv -c a:float16"
err_like "is no infinity" "line 2: column a: '-65520' is not float16; --columns a:int64"
exits "nor in JSON" 1 sh -c "echo '{\"a\":1e5}' | ctr-import -f jsonl -c a:float16"
is "65519.9 rounds, and infinity stays" "$(printf '65519.9\n-inf\n' | ctr-import -f csv -c a:float16 | ctr-export | tr '\n' ' ')" "a 65504 -inf "
printf 'a,b,c\nStar: Wars,"x ""y""","[1,2]"\n:,,p\n' >"$W/raw.csv"
ctr-import --header -c c:utf8 "$W/raw.csv" >"$W/raw.arrows"
exits "a cell that ends as a delimiter of two bytes begins" 1 ctr-export -d :: "$W/raw.arrows"
err_like "would not come back" 'row 2: column a: a delimiter or a line end cannot be written without quotes'
ctr-select --where 'a != ":"' "$W/raw.arrows" -o "$W/raw1.arrows"
is "the others do, raw" "$(ctr-export -d :: "$W/raw1.arrows" | sed -n 2p)" 'Star: Wars::x "y"::[1,2]'
is "with equal digest" "$(ctr-export -d :: "$W/raw1.arrows" | ctr-import -f csv --header -d :: | ctr-info --digest)" "$(ctr-info --digest "$W/raw1.arrows")"
printf 'a,b\n1,2\n' >"$W/h1.csv"
printf 'a,c\n1,2\n' >"$W/h2.csv"
exits "files of different headers" 1 ctr-import --header "$W/h1.csv" "$W/h2.csv"
err_like "are told apart" "h2.csv: line 1: the header differs from that of .*h1.csv"
exits "input and output are one" 2 ctr-import -o "$W/h1.csv" "$W/h1.csv"
is "empty input with columns: no rows" "$(ctr-import -f csv -c a:int64 </dev/null | ctr-info --check >/dev/null && echo whole)" whole
head -c 20000000 /dev/zero | tr '\0' x >"$W/long"
exits "a line of 20 MB" 1 ctr-import -f csv "$W/long"
err_like "is too long" 'longer than 16 MiB'
{ echo name && cat "$W/long"; } >"$W/long.csv"
exits "a line of 20 MB behind a header" 1 ctr-import --header "$W/long.csv"
is "is no file without rows" "$(cat "$W/err")" \
    "ctr-import: $W/long.csv: line 2: longer than 16 MiB, the most that a line may have; --bad-rows settles it"
{ echo name && echo al && cat "$W/long" && echo && echo bo && cat "$W/long" "$W/long"; } >"$W/long.csv"
long_rows() { # options: the rows that are left, and what is said
    ctr-import -q --header "$@" "$W/long.csv" 2>&1 >"$W/out" | cut -d: -f3-
    ctr-export "$W/out" 2>&1 | tail -n +2 | tr '\n' ' '
}
is "lines of 20 and 40 MB are bad rows" "$(long_rows --bad-rows skip=2)" "al bo "
is "as many as are allowed" "$(long_rows --bad-rows skip=1 | sed 1q)" \
    " line 5: bad row 2 where --bad-rows allows 1: longer than 16 MiB, the most that a line may have"
for j in 1 3; do
    is "quarantined, -j $j" "$(long_rows --bad-rows quarantine="$W/long.bad" -j $j)" "al bo "
    ok "whole, byte for byte" eval '{ echo name && cat "$W/long" && echo && cat "$W/long" "$W/long" && echo; } | cmp - "$W/long.bad"'
    is "and why" "$(cut -f2,3 "$W/long.bad.why" | tr '\t\n' ': ')" \
        "3:longer than 16 MiB, the most that a line may have 5:longer than 16 MiB, the most that a line may have "
done
[ "$SAN" ] || is "in less memory than the line" \
    "$( (ulimit -v 100000 && cat "$W/long.csv" "$W/long" "$W/long" "$W/long" | ctr-import -q -f csv --header --bad-rows skip=2 | ctr-export | tail -n 1))" bo
is "a first line of 20 MB, without a header" "$( (cat "$W/long" && printf '\n1,2\n') | ctr-import -q -f csv --bad-rows skip=1 | ctr-export)" "c1,c2
1,2"
# Columns and types are those of the rows that are left, wherever the long ones stand.
{ echo k,s && cat "$W/long" && echo && echo '1,"a' && echo 'b"' && echo x && echo 2.5,c && cat "$W/long" && echo && echo 3,d; } >"$W/first.csv"
grep -v xx "$W/first.csv" >"$W/short.csv"
want=$(ctr-import -q --header --bad-rows skip=1 "$W/short.csv" | ctr-info --digest)
for j in 1 3; do
    is "types do not hang on long rows (-j $j)" "$(ctr-import -q -j $j --header --bad-rows skip=3 "$W/first.csv" | ctr-info --digest)" "$want"
    is "nor with a quarantine" "$(ctr-import -q -j $j --header --bad-rows quarantine="$W/first.bad" "$W/first.csv" | ctr-info --digest)" "$want"
    ok "whose rows stand in their order" eval '{ echo k,s && cat "$W/long" && echo && echo x && cat "$W/long" && echo; } | cmp - "$W/first.bad"'
    is "with their lines" "$(cut -f2 "$W/first.bad.why" | tr '\n' ' ')" "2 5 7 "
done
exits "the first row too many" 1 ctr-import -q --header --bad-rows skip=1 "$W/first.csv"
is "is the second bad one" "$(cut -d: -f3- "$W/err" | cut -c1-53)" " line 5: bad row 2 where --bad-rows allows 1: 1 colum"
{ echo '{"a":1}' && cat "$W/long" && printf '\n{"a":2.5,"b":[2]}\n'; } >"$W/first.jsonl"
is "in JSON" "$(ctr-import -q --bad-rows skip=1 "$W/first.jsonl" | ctr-info | awk '$1 == "a" || $1 == "b" { print $1, $2 }' | tr '\n' ' ')" "a float64 b list<int64> "
{ echo '1 |a x' && cat "$W/long" && printf '\n0 |b y\n'; } >"$W/first.vw"
is "in vw" "$(ctr-import -q --keys text --bad-rows skip=1 "$W/first.vw" | ctr-export -f vw)" '1 |a x
0 |b y'
is "in the second file" "$(ctr-import -q --header --bad-rows skip=9 "$W/short.csv" "$W/first.csv" | ctr-export | tr '\n' ' ')" 'k,s 1,"a b" 2.5,c 3,d 1,"a b" 2.5,c 3,d '
exits "a header of 20 MB" 1 ctr-import --header --bad-rows skip=9 -f csv "$W/long"
is "cannot be left out" "$(cut -d: -f3- "$W/err")" " line 1: longer than 16 MiB, the most that a line may have"
awk 'BEGIN { for (i = 0; i < 1000000; i++) printf ","; print "" }' >"$W/wide"
exits "a million columns" 1 ctr-import -f csv "$W/wide"
err_like "are too many" '1000001 columns, at most 10000'

# ---- integers of every length, and what only looks like them: as in quotes, where they are read one by one
perl -e 'srand 7; sub pick { $_[rand @_] }
    for (1 .. 5000) {
        my $n = join "", pick("", "", "-", "+"), map { int rand 10 } 1 .. pick(0 .. 9, 0 .. 21);
        substr($n, rand length $n, 1) = pick("/", ":", "-", ".", " ", "a", "\x01", "\xb0") if length $n && rand() < .1;
        print "$n,x\n";
    }' >"$W/ints.csv"
LC_ALL=C sed 's/\(.*\),x/"\1",x/' "$W/ints.csv" >"$W/quoted.csv"
ints() { # TYPE FILE: the numbers, and which lines are bad
    ctr-import -q -c "n:$1,x:utf8" --bad-rows quarantine="$W/ints.bad" "$W/$2.csv" | ctr-export
    cut -f2 "$W/ints.bad.why"
}
for type in int8 int32 int64 uint64; do
    ints $type quoted >"$W/want"
    for cpu in plain avx2; do
        ok "$type, CTR_CPU=$cpu: the same numbers" eval "CTR_CPU=$cpu ints $type ints | cmp - '$W/want'"
    done
    ok "some of either" eval "[ $(grep -c ,x "$W/want") -gt 500 ] && [ $(grep -vc , "$W/want") -gt 500 ]"
done

# ---- other programs agree
if has_python pandas pyarrow; then
    same_as_pandas() {
        "$PY" - "$W/1" "$W/many.csv" <<'EOT'
import sys, pandas as pd, pyarrow as pa
ours = pa.ipc.open_stream(open(sys.argv[1], "rb")).read_all().to_pandas()
theirs = pd.read_csv(sys.argv[2], float_precision="round_trip")
pd.testing.assert_frame_equal(ours, theirs, check_exact=True, check_dtype=False)
EOT
    }
    ok "pandas reads the same values from the text" same_as_pandas
else
    skip "pandas reads the same values from the text" "no pandas or pyarrow"
fi

# ---- the public data sets
if [ ! -d "$DATA" ]; then
    skip "public data sets" "no $DATA"
    
# ---- a file that is named again
cd "$W" || exit 1
printf 'a\n1\n' >again.csv
echo again.csv >again.list
ctr-import -f csv --header @again.list @again.list 2>again.err | ctr-info >again.info
is 'a file that lists name twice is read twice' "$(grep rows: again.info)" 'rows: 2'
is 'and stderr says so' "$(cat again.err)" 'ctr-import: again.csv is given more than once, and each time its rows count'
is 'not with -q' "$(ctr-import -q -f csv --header again.csv again.csv 2>&1 >again.arrows)" ''
is 'a stream, too' "$(ctr-cat again.arrows again.arrows 2>&1 >again.two)" 'ctr-cat: again.arrows is given more than once, and each time its rows count'
done_testing
    exit 0
fi
D=$DATA/criteo_small_20k
ctr-import --header -c 'row,click,I[1..13],C[1..26]:utf8' --label click --id row "$D/criteo_small_train.csv.gz" "$D/criteo_small_test.csv.gz" >"$W/criteo"
is "criteo: an unnamed column and numbers for names, renamed" "$(schema "$W/criteo" | cut -d' ' -f1-4,41)" \
    "row:int64@id click:int64@label I1:float64 I2:int64 C26:utf8"
is "criteo: rows of both files" "$(text -c click "$W/criteo" | tail -n +2 | sort | uniq -c)" \
    "$(zcat "$D"/criteo_small_train.csv.gz "$D"/criteo_small_test.csv.gz | grep -v '^,' | cut -d, -f2 | sort | uniq -c)"
is "criteo: every cell" "$(text "$W/criteo" | tail -n +2 | cksum)" \
    "$(zcat "$D"/criteo_small_train.csv.gz "$D"/criteo_small_test.csv.gz | grep -v '^,' | sed -E 's/([0-9])\.0(,|$)/\1\2/g; s/([0-9])\.0(,|$)/\1\2/g' | cksum)"
is "criteo: the names of the header" "$(ctr-import --header "$D/criteo_small_test.csv.gz" | schema | cut -d' ' -f1-3)" 'c1:int64 `0`:int64 `1`:float64'
K=$DATA/formats/criteo_kaggle2014_train.tiny.csv.gz
is "criteo, Kaggle's header and CRLF: every byte" "$(ctr-import --header "$K" | text | cksum)" "$(zcat "$K" | tr -d '\r' | cksum)"
A=$DATA/avazu_10k
is "avazu: identities of 20 digits" "$(ctr-import --header "$A/train.csv.gz" | schema | cut -d' ' -f1-3)" "id:uint64 click:int64 hour:int64"
is "avazu: every byte" "$(ctr-import --header "$A/train.csv.gz" | text | cksum)" "$(zcat "$A/train.csv.gz" | cksum)"
is "avazu: without header like the one with" "$(ctr-import --header "$A/train.csv.gz" | ctr-import --like /dev/stdin "$A/dev.csv" 2>&1 | text | tail -n +2 | cksum)" \
    "$(cksum <"$A/dev.csv")"
X=$DATA/amex2018_ctr/X_test_1st_new.csv.gz
ctr-import --header --time DateTime "$X" >"$W/amex"
is "amex: hours of one digit" "$(text -c DateTime "$W/amex" | tail -n +2 | sort | sed -n '1p;$p' | tr '\n' ' ')" \
    "2017-07-02T00:01:00Z 2017-07-07T23:59:00Z "
is "amex: every byte, and the last newline that it lacks" "$(ctr-import --header "$X" | text | cksum)" "$( (zcat "$X"; echo) | cksum)"
M=$DATA/ml1m_half
ctr-import -f csv -d :: -c user_id:int32,movie_id:int32,rating:int8,time:timestamp --time time:unix "$M/ratings.dat.gz" >"$W/ratings"
is "ml1m: ratings" "$(text "$W/ratings" | sed -n '1,2p;$p')" "$(printf 'user_id,movie_id,rating,time\n1,1193,5,2000-12-31T22:12:40Z\n'
    zcat "$M/ratings.dat.gz" | tail -1 | awk -F:: '{ printf "%s,%s,%s,", $1, $2, $3; system("date -u +%Y-%m-%dT%H:%M:%SZ -d @" $4) }')"
is "ml1m: films in latin1" "$(ctr-import -f csv -d :: --encoding latin1 "$M/movies.dat.gz" | ctr-export -f csv -d '|' --no-header 2>/dev/null | wc -l)" 3883
is "ml1m: accents" "$(ctr-import -f csv -d :: --encoding latin1 -c id,title,genres "$M/movies.dat.gz" | text -c title | sed -n 74p)" '"Misérables, Les (1995)"'
is "ml1m: users, zip codes stay text" "$(ctr-import -f csv -d :: "$M/users.dat" | schema)" "c1:int64 c2:utf8 c3:int64 c4:int64 c5:utf8"
is "ml1m: users, every byte" "$(ctr-import -f csv -d :: "$M/users.dat" | ctr-export -f csv -d '::' --no-header | cksum)" \
    "$(cksum <"$M/users.dat")"
B=$DATA/mind_5k/behaviors.tsv.gz
ctr-import -f tsv -c impression,user,time,history,impressions --time 'time:%m/%d/%Y %I:%M:%S %p' "$B" >"$W/mind"
is "mind: AM and PM" "$(text -c time "$W/mind" | tail -n +2 | sort | sed -n '1p;$p' | cut -c1-10 | tr '\n' ' ')" "2019-11-09 2019-11-14 "
is "mind: every other cell" "$(ctr-export -f tsv --no-header -c impression,user,history,impressions "$W/mind" | cksum)" \
    "$(zcat "$B" | cut -f1,2,4,5 | cksum)"
P=$DATA/ipinyou_scored/sam.1458.train.txt.gz
ctr-import -f tsv -c click,price,pctr,slot --label click "$P" >"$W/ipinyou"
is "ipinyou: clicks" "$(text -c click "$W/ipinyou" | grep -c '^1$')" 156
is "ipinyou: scores" "$(text -c pctr "$W/ipinyou" | awk 'NR > 1 { s += $1 } END { printf "%.6f", s / (NR - 1) }')" 0.000606
if has_python zipfile; then
    "$PY" -c 'import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); sys.stdout.buffer.write(z.read(z.namelist()[0]))' \
        "$DATA/talkingdata_100k/train_sample.csv.zip" >"$W/talking.csv"
    ctr-import --header --label is_attributed --time click_time -c attributed_time:timestamp "$W/talking.csv" >"$W/talking"
    is "talkingdata: schema" "$(schema "$W/talking")" \
        "ip:int64 app:int64 device:int64 os:int64 channel:int64 click_time:timestamp@time attributed_time:timestamp is_attributed:int64@label"
    is "talkingdata: every cell" "$(text "$W/talking" | sed 's/\([0-9]\)T\([0-9][0-9]:[0-9:]*\)Z/\1 \2/g' | cksum)" "$(cksum <"$W/talking.csv")"
fi
is "globo: three million rows" "$(ctr-import -j 2 --header "$DATA/globo_clicks/clicks.csv.gz" | text | cksum)" \
    "$(zcat "$DATA/globo_clicks/clicks.csv.gz" | cksum)"
O=$DATA/obd_small/bts/men
is "obd: times with fractions and a zone" "$(ctr-import --header --time timestamp "$O"/men.csv* 2>&1 | text -c timestamp | sed -n 2p)" \
    "$(cat "$O"/men.csv* | (zcat -f) | sed -n 2p | cut -d, -f2 | sed 's/ /T/; s/\(\....\).*/\1Z/')"
done_testing
