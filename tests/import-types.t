#!/bin/sh
# ctr-import: no value is lost silently on its way to a type. What inference takes, from the first rows and from later ones, in every
# text format; what a type that was given cannot hold; JSON that stays text.
. "${0%/*}/lib.sh"
types() { # NAME:TYPE of every column, on one line
    ctr-info "$@" | awk '/^column/ { on = 1; next } on && NF { printf "%s%s:%s", s, $1, $2; s = " " } END { print "" }'
}

# ---- integers beyond 2^53 beside what is no integer
ids='9007199254740993
9007199254740992'
for rest in 1e3 0.5 -1.5e-3 nan inf; do
    for f in csv tsv; do
        printf 'id\n%s\n%s\n' "$ids" $rest >"$W/ids.$f"
        is "$f: two integers beyond 2^53 and $rest stay three texts" \
            "$(ctr-import -q --header "$W/ids.$f" | ctr-export --no-header)" "$(printf '%s\n%s' "$ids" $rest)"
        printf 'id\n%s\n%s\n' $rest "$ids" >"$W/ids.$f"
        is "$f: in the other order, quoted" "$(sed '2,$s/.*/"&"/' "$W/ids.csv" | ctr-import -qf csv --header | ctr-export --no-header)" \
            "$(printf '%s\n%s' $rest "$ids")"
    done
done
for rest in 1e3 0.5 -1.5e-3; do
    is "jsonl: the same with $rest" "$(printf '%s\n' "$ids" $rest | sed 's/.*/{"id":&}/' | ctr-import -qf jsonl | ctr-export --no-header)" \
        "$(printf '%s\n%s' "$ids" $rest)"
    is "jsonl: in lists" "$(printf '%s\n' "$ids" $rest | sed 's/.*/{"id":[&,1]}/' | ctr-import -qf jsonl | ctr-export -f jsonl)" \
        "$(printf '%s\n' "$ids" $rest | sed 's/.*/{"id":["&","1"]}/')"
done
printf 'id,n\n%s,1\n1e3,2\n' 9007199254740993 >"$W/ids.csv"
exits "that is said" 0 ctr-import --header -o "$W/ids.arrows" "$W/ids.csv"
is "by the column's name" "$(cat "$W/err")" \
    'ctr-import: column id has integers beyond 2^53, which float64 would round, beside other numbers: its values stay text; --columns id:utf8 says so as well'
for quiet in '-c id:utf8,n' '-c id:float64,n -q'; do
    exits "not with $quiet" 0 ctr-import --header $quiet -o "$W/ids.arrows" "$W/ids.csv"
    is "since the type is named" "$(cat "$W/err")" ''
done
while read -r type values; do
    is "$values: $type" "$(printf '%s\n' $values | ctr-import -qf csv | types)" "c1:$type"
    is "and the values come back" "$(printf '%s\n' $values | ctr-import -qf csv | ctr-export --no-header | tr '\n' ' ')" "$values "
done <<'EOT'
int64 9007199254740993 9007199254740992 -9007199254740993
uint64 9007199254740993 18446744073709551615
float64 9007199254740992 -9007199254740992 0.5
float64 9007199254740994 9007199254740996 0.5
utf8 9007199254740993.0 9007199254740992.0
utf8 9223372036854775807 0.5
utf8 -9223372036854775808 0.5
utf8 18446744073709551615 1e3
utf8 18446744073709551616 0.5
utf8 14204543219786532111 1.42e+19
utf8 12345678901234567890123 1
float64 0.12345678901234568 1e+300
EOT

# ---- a later value is taken exactly when it would not have changed the type among the first rows
values='0 00 7 007 -7 -07 +5 -0 0.5 00.5 -00.5 +0.5 1e3 01e3 .5 5. 9007199254740992 9007199254740993 -9007199254740993
    9007199254740993.0 9007199254740993.5 9223372036854775808 18446744073709551616 1e20 nan inf true TRUE false x 12345678 012345678
    1234567890123456 0123456789012345 00000000000000000'
n=$(echo $values | wc -w)
taken() { # FORMAT BASE: the values among them that come among the first rows and leave the type as it is; then those taken later
    _base="ctr-import -qf $1"
    { yes -- "$2" | head -n 990; } | awk -v n="$n" '{ for (i = 1; i <= n; i++) printf "%s%s", $0, i < n ? "\t" : "\n" }' >"$W/sample"
    echo $values | tr ' ' '\t' >>"$W/sample"
    case $1 in csv) tr '\t' , <"$W/sample" >"$W/s" ;; *) cp "$W/sample" "$W/s" ;; esac
    $_base "$W/s" | types | tr ' ' '\n' | cut -d: -f2 >"$W/types"
    _want=$(yes -- "$2" | head -n 990 | $_base - | types | cut -d: -f2)
    echo $values | tr ' ' '\n' | paste -d' ' - "$W/types" | awk -v t="$_want" '$2 == t { print $1 }' >"$W/first"
    { yes -- "$2" | head -n 1000; echo $values | tr ' ' '\n'; } >"$W/late"
    $_base --bad-rows quarantine="$W/bad" -o "$W/late.arrows" "$W/late"
    echo $values | tr ' ' '\n' | grep -vxFf "$W/bad" >"$W/later"
    ok "$1, $2: some are taken" test -s "$W/first"
    ok "$1, $2: and some are not" test -s "$W/bad"
    ok "$1, $2: the same ones early and late" cmp "$W/first" "$W/later"
    sed 's/.*/"&"/' "$W/late" | ctr-import -qf csv --bad-rows quarantine="$W/quoted" -o "$W/late2.arrows" -
    is "$1, $2: the same in quotes" "$(tr -d '"' <"$W/quoted")" "$(cat "$W/bad")"
}
for f in csv tsv; do
    for base in 12 1234567890 -3 12345678901234567890 0.25 true; do
        for cpu in plain avx2; do
            CTR_CPU=$cpu
            export CTR_CPU
            taken $f $base
        done
    done
done
unset CTR_CPU
late() { # NAME REGEX BASE VALUE FORMAT
    { yes -- "$3" | head -n 1000; echo "$4"; } >"$W/in"
    exits "$1" 1 ctr-import -f "$5" -o "$W/o" "$W/in"
    err_like "says so" "line 1001: column [a-z0-9]*: $2"
}
late "a zero in front" "'01234' is not int64, which keeps no zeros or plus in front; --columns c1:utf8 or --bad-rows settles it" 1234 01234 csv
late "00 is not 0" "'00' is not int64, which keeps no zeros" 0 00 tsv
late "+5" "'.5' is not uint64, which keeps no zeros" 12345678901234567890 +5 csv
late "00.5" "'00.5' is not float64, which keeps no zeros" 0.5 00.5 csv
late "1 among true and false" "'1' is not bool, as 0 and 1 are none of true and false; --columns c1:utf8" true 1 csv
late "an integer beyond 2^53 among floats" "'9007199254740993' is not float64, which does not hold this integer; --columns c1:utf8 or" 0.5 9007199254740993 csv
late "-0 among integers" "'-0' is not int64, which has no -0; --columns c1:float64 or" 12 -0 csv
is "-0 among the first integers is a float64" "$(printf '12\n-0\n' | ctr-import -qf csv | ctr-export -f csv --no-header | tr '\n' ' ')" '12 -0 '
late "1e3 among integers beyond 2^53" "'1e3' is not int64; --columns c1:utf8 or" 9007199254740993 1e3 csv
late "1.42e+19 among large hashes" "'1.42e.19' is not uint64; --columns c1:utf8 or" 14204543219786532111 1.42e+19 csv
late "JSON: a text that spells 007" "'007' is not int64, which keeps no zeros" '{"a":7}' '{"a":"007"}' jsonl
late "JSON: in a list" "'\\[\"007\"\\]' is not list<int64>" '{"a":[7]}' '{"a":["007"]}' jsonl
late "JSON: 1 among true and false" "'1' is not bool, as 0 and 1 are none" '{"a":true}' '{"a":1}' jsonl
late "JSON: an integer beyond 2^53 among floats" "'9007199254740993' is not float64, which does not hold this integer" '{"a":0.5}' '{"a":9007199254740993}' jsonl
late "JSON: a float among integers beyond 2^53" "'1e3' is not int64; --columns a:utf8 or" '{"a":9007199254740993}' '{"a":1e3}' jsonl
exits "a type that was given, and a float" 1 sh -c 'printf "9007199254740993\n1e3\n" | ctr-import -f csv -c id:int64'
err_like "warns of float64" "'1e3' is not int64; --columns id:float64 .utf8 where integers beyond 2.53 are not to be rounded. or"

# ---- types that were given: what they do not hold is said
for case in 'float64 9007199254740993 9007199254740992' 'float32 16777217 16777216' 'float16 2049 2048' 'float32 -16777217 1' \
    'float64 18446744073709551615 1' 'float64 9007199254740993.0 1'; do
    type=${case%% *} values=${case#* }
    rounded=${values% *}
    for f in csv tsv jsonl; do
        for j in 1 3; do
            case $f in
            jsonl) printf '%s\n' $values | sed 's/.*/{"a":&}/' >"$W/in" ;;
            *) printf '%s\n' $values >"$W/in" ;;
            esac
            exits "$f: $rounded as $type" 0 ctr-import -j $j -f $f -c a:$type -o "$W/o" "$W/in"
            is "is rounded, and said" "$(cat "$W/err")" \
                "ctr-import: column a: 1 integer was rounded, as $type does not hold it (the first: '$rounded'): --columns a:utf8 keeps it"
        done
    done
    printf '"[%s,]"\n' $rounded | ctr-import -f csv -c "a:list<$type>" -o "$W/o" 2>"$W/err"
    is "in a list too, once" "$(cut -d: -f3 "$W/err")" " 1 integer was rounded, as list<$type> does not hold it (the first"
done
for case in 'float64 9007199254740994 1e17 100000000000000000000 0.1 1e-400' 'float32 16777216 16777218 0.1 1e10' 'float16 2048 0.1'; do
    exits "${case%% *}: nothing is said of ${case#* }" 0 sh -c "printf '%s\n' ${case#* } | ctr-import -f csv -c a:${case%% *} -o '$W/o'"
    is "since it is no integer, or held" "$(cat "$W/err")" ''
done
awk 'BEGIN { for (i = 0; i < 50000; i++) print (i % 1000 == 7 ? "9007199254740993" : i) "," (i % 100 == 9 ? "x" : i) }' >"$W/many"
for j in 1 4; do
    exits "a row that is bad counts none (-j $j)" 0 ctr-import -q -f csv -j $j -c a:float64,b:int64 --bad-rows skip=1000 -o "$W/o" "$W/many"
    ctr-import -f csv -j $j -c a:float64,b:int64 --bad-rows skip=1000 -o "$W/o" "$W/many" 2>&1 | sed -n 's/.* \([0-9]* integers were rounded\).*/\1/p' >"$W/said"
    is "of 50" "$(cat "$W/said")" '50 integers were rounded'
done
awk 'BEGIN { for (i = 0; i < 50000; i++) print "9007199254740993," (i % 100 == 9 ? "x" : i) }' >"$W/many"
is "rows that are bad do not count" "$(ctr-import -f csv -j 2 -c a:float64,b:int64 --bad-rows skip=1000 -o "$W/o" "$W/many" 2>&1 | sed -n 's/.*: \([0-9]*\) integers were.*/\1/p')" 49500
seq 5 | ctr-import -f csv -o "$W/like.arrows"
exits "--like of an inferred type" 0 sh -c "printf '007\n8\n+5\n' | ctr-import -f csv --like '$W/like.arrows' -o '$W/o'"
is "says what it does not keep" "$(cat "$W/err")" \
    'ctr-import: column c1: 2 cells lost zeros or a plus in front, as it is int64 with --like (the first: '\''007'\''): in a utf8 column they stay'
exits "--columns asks for the number" 0 sh -c "printf '007\n' | ctr-import -f csv -c c1:int64 -o '$W/o'"
is "and nothing is said" "$(cat "$W/err") $(ctr-export --no-header "$W/o")" ' 7'

# ---- jsonl: lines are appended together, column by column, and one by one where a value does not fit
while read -r type low high beyond; do
    export low high beyond
    seq 100 | awk -v text="$type" 'function quoted(x) { return text == "utf8" ? "\"" x "\"" : x }
        { n = quoted($1) } $1 == 40 { n = quoted(ENVIRON["low"]) } $1 == 50 { n = ENVIRON["beyond"] } $1 == 51 { n = quoted(ENVIRON["high"]) }
        $1 == 70 { n = "null" } { print "{\"i\":" $1 ($1 == 80 ? "" : ",\"a\":" n) "}" }' >"$W/in"
    is "jsonl: $type to its bounds, and one value beyond" "$(ctr-import -q -f jsonl -c "i:int8,a:$type" --bad-rows skip=1 "$W/in" | ctr-export --no-header | tr '\n' ' ')" \
        "$(seq 100 | awk '{ n = $1 } $1 == 40 { n = ENVIRON["low"] } $1 == 51 { n = ENVIRON["high"] } $1 == 70 || $1 == 80 { n = "" }
            $1 != 50 { printf "%s,%s ", $1, n }')"
    exits "and which line it is in" 1 ctr-import -f jsonl -c "i:int8,a:$type" -o "$W/o" "$W/in"
    err_like "line 50" 'line 50: column a: '
done <<'EOT'
int8 -128 127 128
int16 -32768 32767 32768
int32 -2147483648 2147483647 2147483648
int64 -9223372036854775808 9223372036854775807 9223372036854775808
uint8 0 255 256
uint16 0 65535 65536
uint32 0 4294967295 4294967296
uint64 0 18446744073709551615 -1
float64 -0.5 1024.25 "x"
utf8 x a-text-of-more-than-sixteen-bytes "\ud800"
EOT

# ---- JSON that stays text is JSON all through
while IFS='|' read -r value why; do
    printf '%s\n' "{\"a\":$value}" >"$W/in"
    exits "jsonl: $value is none" 1 ctr-import -f jsonl -c a:utf8 -o "$W/o" "$W/in"
    err_like "says so" "line 1: column a: no JSON: $why"
    is "nor in a list of texts" "$(printf '{"a":["x",%s]}\n{"a":["y"]}\n' "$value" | ctr-import -qf jsonl -c 'a:list<utf8>' --bad-rows skip=1 2>&1 | ctr-export --no-header)" '"[""y""]"'
    is "and where no column takes it, it is not looked at" "$(printf '{"a":%s,"b":1}\n' "$value" | ctr-import -qf jsonl -c b | ctr-export --no-header)" 1
done <<'EOT'
[1,,2]|neither a number nor true, false or null
[1,]|neither a number nor true, false or null
[,1]|neither a number nor true, false or null
[1 2]|no comma between two values
[1 "x"]|no comma
[tru]|neither a number
[01]|neither a number
[+1]|neither a number
[.5]|neither a number
{"b":1,}|no key in quotes
{"b"}|no colon behind a key
{"b":}|neither a number
{b:1}|no key in quotes
{"b":1 "c":2}|no comma
["\q"]|a broken escape
["\u12g4"]|a broken escape
{"\x":1}|a broken escape
["a	b"]|a control character that is not escaped in a string
[{"x":[1,{"y":nul}]}]|neither a number
EOT
while read -r value; do
    is "jsonl: $value is JSON" "$(printf '%s\n' "{\"a\":$value}" | ctr-import -qf jsonl -c a:utf8 | ctr-export -f tsv --no-header)" "$value"
done <<'EOT'
[]
{}
[[[[]]],{},[{}]]
{"":{"":[]},"\u00e9":-0.5e-3}
[{"x":[1,{"y":null}]},"s","\"\\\/\b\f\n\r\t\u0041\ud800",true,false]
[ 1 , 2 ]
EOT

# ---- local times, and seconds as milliseconds
read_times() { printf "$1" | ctr-import -q -f csv --header --time "$2" - | ctr-export --no-header -c t | tr '\n' ' '; }
is 'local times of a zone' "$(read_times 't\n2026-01-02 03:04\n2026-07-02T03:04:05.5\n' t:local:Europe/Paris)" '2026-01-02T02:04:00Z 2026-07-02T01:04:05.500Z '
is 'in which those with a zone keep theirs' "$(read_times 't\n2026-01-02T03:04Z\n2026-01-02T03:04+05:00\n' t:local:America/New_York)" '2026-01-02T03:04:00Z 2026-01-01T22:04:00Z '
is 'of an offset' "$(read_times 't\n2026-01-02 03:04\n' t:local:+05:30)" '2026-01-01T21:34:00Z '
is 'of jsonl' "$(printf '{"t":"2026-01-02 03:04"}\n' | ctr-import -q -f jsonl -c 't:timestamp[local:Europe/Paris]' - | ctr-export --no-header)" '2026-01-02T02:04:00Z'
is 'as a plan reads them' "$(printf 't\n2026-03-29 02:30\n2026-10-25 02:30\n' | ctr-import -q -f csv --header -c t:utf8 - | ctr-select --add 't=parse_time(t, "iso", "Europe/Paris")' | ctr-export --no-header | tr '\n' ' ')" \
    "$(read_times 't\n2026-03-29 02:30\n2026-10-25 02:30\n' t:local:Europe/Paris)"
bad() { printf "$2" | ctr-import -f csv --header --time "$1" - >"$W/out" 2>"$W/err"; }
exits 'a zone that is none' 2 bad t:local:Mars/Base 't\n2026-01-02\n'
err_like 'is told' '--time: .*Mars/Base'
exits 'a zone and a format' 2 bad 't:local:Europe/Paris:%d/%m/%Y %H:%M' 't\n01/02/2026 03:04\n'
err_like 'has its remedy' "--time: 'local:Europe/Paris:%d/%m/%Y %H:%M': local:ZONE is of ISO 8601 and takes no format: import the column as utf8, and parse_time\(t, \"FORMAT\", \"ZONE\"\)"
is 'which works' "$(printf 't\n01/02/2026 03:04\n' | ctr-import -q -f csv --header -c t:utf8 - | ctr-select --add 't=parse_time(t, "%d/%m/%Y %H:%M", "Europe/Paris")' | ctr-export --no-header)" '2026-02-01T02:04:00Z'
exits 'a text that is no time' 1 bad t:local:Europe/Paris 't\nx\n'
err_like 'is told with the form' "'x' is no time in the form local:Europe/Paris"
printf 't,u,v\n1500000000,1500000000,5\n1600000000,,7\n' >"$W/old.csv"
ctr-import -c t:timestamp,u:timestamp[unix_ms],v:timestamp[unix_ms] --time t:unix --header "$W/old.csv" 2>"$W/err" >"$W/old.arrows"
is 'seconds read as milliseconds' "$(cat "$W/err")" "ctr-import: column u: all times lie before 1990, from 1970-01-18T08:40:00Z to 1970-01-18T08:40:00Z, as seconds that are read as milliseconds do: --time u:unix reads seconds"
ctr-export -q -o "$W/old.parquet" "$W/old.arrows"
ctr-import "$W/old.parquet" 2>"$W/err" >/dev/null
is 'of Parquet, too' "$(grep -c '^ctr-import: column [tuv]: all times' "$W/err")" 1
done_testing
