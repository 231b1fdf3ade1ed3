#!/bin/sh
# ctr-import of text as it is published: what packed it, escapes, comments, lines before the header, blanks around cells, numbers of
# other countries; texts among numbers are named.
. "${0%/*}/lib.sh"
text() { ctr-export --format csv "$@"; }

# ---- packed
awk 'BEGIN { print "id,name"; for (i = 0; i < 30000; i++) print i ",n" i % 97 }' >"$W/log.csv"
want=$(ctr-import --header "$W/log.csv" | ctr-info --digest)
for p in bzip2:bz2 xz:xz pzstd:zst zstd:zst lz4:lz4 gzip:gz; do
    end=${p#*:} p=${p%:*}
    if ! command -v "$p" >/dev/null; then
        skip "$p" "no $p"
        continue
    fi
    $p -qc <"$W/log.csv" >"$W/log.csv.$end" 2>/dev/null
    is "$p is read, its format known by name" "$(ctr-import --header "$W/log.csv.$end" | ctr-info --digest)" "$want"
    is "$p through a pipe" "$(ctr-import -f csv --header <"$W/log.csv.$end" | ctr-info --digest)" "$want"
    head -c 3000 "$W/log.csv.$end" >"$W/cut"
    exits "$p cut short" 1 ctr-import -f csv --header -o "$W/cut.arrows" "$W/cut"
    err_like "says so" ': truncated'
done
printf '\037\235\220abc' >"$W/log.Z"
exits "compress's .Z" 1 ctr-import -f csv "$W/log.Z"
err_like "names the program that unpacks it" 'gzip -dc FILE | ctr-import'
printf '\002\041\114\030abc' >"$W/log.old"
exits "lz4's old form" 1 ctr-import -f csv "$W/log.old"
err_like "likewise" 'lz4 -dc FILE | ctr-import'
for name in none.csv.bz2 none.csv.xz; do
    : >"$W/$name"
    exits "$name of 0 bytes" 1 ctr-import --header "$W/$name"
    err_like "is one cut short" "$name: truncated"
done
exits "binary data" 1 sh -c "printf 'ab\\000\\377\\376c\\n' | ctr-import -f csv"
err_like "is not taken for latin1" "has control characters as binary data do: is it text?"

# ---- lines that are no rows
printf 'title, "of\n\nid,name\n1,a\n' >"$W/skip.csv"
is "--skip-lines" "$(ctr-import --skip-lines 2 --header "$W/skip.csv" "$W/skip.csv" | text | tr '\n' ' ')" 'id,name 1,a 1,a '
exits "an error behind them" 1 ctr-import --skip-lines 2 --header -c name:int8 "$W/skip.csv"
err_like "has the line of the file" 'skip.csv: line 4: column name'
exits "more than there are" 1 ctr-import --skip-lines 9 --header "$W/skip.csv"
is "jsonl, too" "$(printf 'x\n{"a":1}\n' | ctr-import -f jsonl --skip-lines 1 | text | tr '\n' ' ')" 'a 1 '
printf '# "a\n#\nid,name\n1,"a\n#b"\n# c,"\n2,#d\n#' >"$W/comments.csv"
ctr-import --comment '#' --header -o "$W/c.arrows" "$W/comments.csv" 2>"$W/err"
is "--comment" "$(ctr-export -f jsonl "$W/c.arrows" | tr '\n' ' ')" '{"id":1,"name":"a\n#b"} {"id":2,"name":"#d"} '
err_like "counts them" '4 lines left out as comments'
printf 'sep=;\r\na;b\r\n1;"x;y"\r\n' >"$W/sep.csv"
is "sep=" "$(ctr-import -q --header "$W/sep.csv" "$W/sep.csv" | text | tr '\n' ' ')" 'a,b 1,x;y 1,x;y '
exits "sep= says so" 0 ctr-import --header -o "$W/s.arrows" "$W/sep.csv"
err_like "on stderr" 'sep.csv: its first line, sep=;, names the delimiter and is no row'
exits "sep= and --delimiter" 2 ctr-import --header -d , "$W/sep.csv"
err_like "are to be one" 'its first line says sep=;, and not --delimiter ,'
is "sep= is text in tsv" "$(printf 'sep=;\n' | ctr-import -f tsv | text | tr '\n' ' ')" 'c1 sep=; '

# ---- cells
printf 'a,b,c\n"x\\"y,",1,\\N\n"p\\\\",2,"\\N"\nu\\,v,3,\\\\N\nl\\\nm,4,"a\\nb"\n' >"$W/escape.csv"
is "--escape in csv" "$(ctr-import --header --escape '\' --null '\N' "$W/escape.csv" | ctr-export -f jsonl)" '{"a":"x\"y,","b":1,"c":null}
{"a":"p\\","b":2,"c":"\\N"}
{"a":"u,v","b":3,"c":"\\N"}
{"a":"l\nm","b":4,"c":"a\\nb"}'
is "--escape in tsv" "$(printf 'x\\ty\\n\\\\\t\\N\n"\\q\t1\\\n' | ctr-import -f tsv --escape '\' --null 'c2:\N' | ctr-export -f jsonl)" '{"c1":"x\ty\n\\","c2":null}
{"c1":"\"\\q","c2":"1\\"}'
is "--trim" "$(printf ' a , "b " \n 1 , " x, y " \n2\t,\n' | ctr-import -f csv --header --trim | ctr-export -f jsonl)" '{"a":1,"b ":" x, y "}
{"a":2,"b ":null}'
printf 'a;b;c;d\n1.234,5;-1.000;x,y;"2,5"\n-2,25e3;2.000.000;z;3\n;7;;NaN\n' >"$W/de.csv"
ctr-import --header -d ';' --decimal , --thousands . "$W/de.csv" >"$W/de.arrows"
is "--decimal and --thousands" "$(text "$W/de.arrows")" 'a,b,c,d
1234.5,-1000,"x,y",2.5
-2250,2000000,z,3
,7,,nan'
is "set types as numbers do" "$(ctr-info "$W/de.arrows" | awk '/float64|int64/ { print $2 }' | tr '\n' ' ')" 'float64 int64 float64 '
for cell in 1.5 1.23.456 1..234 12.3456 1,5,5 1.234x; do
    exits "no number there: $cell" 1 sh -c "printf '$cell\n' | ctr-import -f csv -d ';' -c x:float64 --decimal , --thousands ."
    is "$cell stays a text" "$(printf '%s\n' $cell | ctr-import -q -f csv -d ';' --decimal , --thousands . -c x | ctr-export --no-header -d ';')" "$cell"
done
is "a sign of several bytes" "$(printf '12\302\240345\n' | ctr-import -f csv -c x:int32 --thousands "$(printf '\302\240')" | text --no-header)" 12345
for wrong in '--escape ab' '--escape ,' '--decimal 5' '--decimal , --thousands ,' '--thousands .' '--comment x"y'; do
    exits "$wrong" 2 sh -c "echo 1 | ctr-import -f csv $(echo "$wrong" | sed "s/x\"y/'x\"y'/")"
done
exits "jsonl has no dialects" 2 ctr-import -f jsonl --trim "$W/log.csv"
mkdir "$W/plan" && cp "$W/de.csv" "$W/plan"
printf 'from log = csv(header=true, delimiter=";", decimal=",", thousands=".", trim=true, escape="\\\\", comment="~", skip_lines="0")\nkeep a, b\n' >"$W/plan/p.plan"
is "views of plans" "$(ctr-extract "$W/plan/p.plan" log="$W/plan/de.csv" | text | tr '\n' ' ')" 'a,b 1234.5,-1000 -2250,2000000 ,7 '
if has_python json; then
    for seed in ${SAN:-1 2 3}; do # the first alone under the sanitizers
        is "tables in many dialects are read as they were written, seed $seed" "$("$PY" "$CTR_TOP/tests/dialects.py" "$W" $seed | sed 's/same .*/same/' | uniq)" same
    done
else
    skip "random dialects" "no python3"
fi

# ---- texts among numbers, and numbers behind nulls
awk 'BEGIN { for (i = 0; i < 1000; i++) print (i % 500 == 250 ? "\\N" : i) "," (i % 50 != 1 ? i / 2 : i % 100 == 1 ? "?" : "NA") "," i % 10 "x" }' >"$W/words.csv"
exits "texts among numbers" 0 ctr-import -o "$W/w.arrows" "$W/words.csv"
err_like "are named with --null" "column c1 is text: of the first rows 998 are numbers, 2 are '.N'; --null 'c1:.N' makes it one of numbers"
err_like "two of them" "980 are numbers, 10 are .* 10 are .*; --null 'c2:.*' --null 'c2:.*' makes"
is "and no other column" "$(grep -c 'is text' "$W/err")" 2
exits "which is right" 0 ctr-import -c c1,c2,c3 --null 'c1:\N' --null 'c2:?' --null c2:NA -o "$W/w.arrows" "$W/words.csv"
is "says no more" "$(cat "$W/err")" ''
exits "few numbers are no reason" 0 sh -c "printf '1\n2\nx\n' | ctr-import -f csv -o '$W/w.arrows'"
is "to say so" "$(cat "$W/err")" ''
awk 'BEGIN { for (i = 0; i < 1500; i++) print "{\"a\":" (i < 1200 ? "null" : i) ",\"b\":1}" }' >"$W/late.jsonl"
for j in 1 3; do
    exits "jsonl: null in the first lines, then numbers (-j $j)" 0 ctr-import -j $j -o "$W/l.arrows" "$W/late.jsonl"
    err_like "is said" "column a: null in the first 1000 lines, so it is text, and 300 numbers .the first: '1200'. became text: --columns"
done
printf '{"a":NaN,"b":[Infinity,1]}\n{"a":-Infinity,"b":[]}\n{"a":1.5,"b":null}\n' >"$W/python.jsonl"
is "jsonl: NaN and Infinity without quotes" "$(ctr-import "$W/python.jsonl" | ctr-export -d ';')" 'a;b
nan;"[""Infinity"",1]"
-inf;[]
1.5;'
exits "jsonl: but not in a JSON text" 1 ctr-import -c a:utf8,b:utf8 "$W/python.jsonl"
err_like "says so" 'NaN or Infinity'

# ---- line 1 of texts alone, and times without zeros
awk 'BEGIN { print "site,query"; for (i = 0; i < 50; i++) print "s" i % 7 ",q" i }' >"$W/texts.csv"
exits "a header over texts stays a row" 0 ctr-import -o "$W/h.arrows" "$W/texts.csv"
err_like "which is said" 'line 1 is taken as a row; --header if it names the columns'
is "with each row" "$(ctr-info "$W/h.arrows" | grep -c '^rows: 51')" 1
exits "in a plan" 0 sh -c "printf 'from t = csv()\nkeep a = c1\nlabel x = 1\n' >'$W/t.plan'; ctr-extract -o '$W/x.arrows' '$W/t.plan' t='$W/texts.csv'"
err_like "as there" 'line 1 is taken as a row; header=true if it names the columns'
for sed in 's/^site/s1/' 's/^site/a site/' 's/,query//; s/,.*//'; do
    sed "$sed" "$W/texts.csv" >"$W/t2.csv"
    exits "a row like others ($sed)" 0 ctr-import -f csv -o "$W/h.arrows" "$W/t2.csv"
    is "is no matter" "$(grep -c 'line 1' "$W/err")" 0
done
printf 'a,b\nc,d\ne,f\n' >"$W/t3.csv"
exits "nor are texts that never come again" 0 ctr-import -o "$W/h.arrows" "$W/t3.csv"
is "one of these" "$(cat "$W/err")" ''
printf 'x,t\n1,2026-1-2 3:04\n2,2026-11-12 13:04\n' >"$W/loose.csv"
exits "times without zeros" 0 ctr-import --header -o "$W/l.arrows" "$W/loose.csv"
err_like "are texts, and what reads them is said" "column t is text, as times such as '2026-1-2 3:04' lack zeros: --time 't:%Y-%m-%d %H:%M' reads them"
is "which does" "$(ctr-import -q --header --time 't:%Y-%m-%d %H:%M' "$W/loose.csv" | ctr-export --no-header | tr '\n' ' ')" '1,2026-01-02T03:04:00Z 2,2026-11-12T13:04:00Z '
printf 'x,t\n1,2026/1/2\n2,2026/1/3\n' >"$W/loose.csv"
exits "days" 0 ctr-import --header -o "$W/l.arrows" "$W/loose.csv"
err_like "likewise" "times such as '2026/1/2' lack zeros: --time t:%Y/%m/%d reads them"
printf 'x,t\n1,2026-1-2 3:04\n2,2026-11-12 13:04:07\n' >"$W/loose.csv"
exits "not where they differ" 0 ctr-import --header -o "$W/l.arrows" "$W/loose.csv"
is "in form" "$(cat "$W/err")" ''
done_testing
