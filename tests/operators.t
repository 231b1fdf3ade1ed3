#!/bin/sh
# Operators of plans beside Python: parts of times and local times in zones by zoneinfo, regular expressions by re. The
# same files of tzdata serve both.
. "${0%/*}/lib.sh"
cd "$W" || exit 1

# ---- what needs no reference
printf 'x\n1\n' | ctr-import -q -f csv --header -o one.arrows
value() { ctr-select -q --add "y = $1" --columns y one.arrows | ctr-export -q -f tsv --no-header; }
is "not in" "$(value 'x not in [2, 3]')" true
is "in binds as a comparison does" "$(value 'not x in [2] and x + 1 in [2]')" true
exits "comparisons with in do not chain" 2 ctr-select --add 'y = x in [1] == true' one.arrows
exits "a list of columns" 2 ctr-select --add 'y = x in [x]' one.arrows
err_like "is told" 'a list holds literals only'
exits "a zone that is none" 2 ctr-select --add 'y = year(ts"2026-01-01T00:00Z", "Mars/Olympus")' one.arrows
err_like "names the folder and the remedy" "/usr/share/zoneinfo has no time zone 'Mars/Olympus': names are such as Europe/Paris.*tzdata"
TZDIR=/nowhere exits "without tzdata" 2 ctr-select --add 'y = year(ts"2026-01-01T00:00Z", "Europe/Paris")' one.arrows
err_like "names the folder" '/nowhere has no time zone'
is "UTC and offsets need no tzdata" "$(TZDIR=/nowhere value 'concat(hour_of_day(ts"2026-01-01T00:00Z", "UTC"), hour_of_day(ts"2026-01-01T00:00Z", "+05:30"))')" 05

# Files of zones that are cut or damaged are refused or read, and nothing worse.
mkdir zones
if [ -r /usr/share/zoneinfo/Europe/Paris ]; then
    size=$(wc -c </usr/share/zoneinfo/Europe/Paris)
    damaged=
    for n in 0 1 43 44 45 100 $((size / 2)) $((size - 1)); do
        head -c "$n" /usr/share/zoneinfo/Europe/Paris >zones/Cut
        TZDIR=$W/zones ctr-select -q --add 'y = year(ts"2026-01-01T00:00Z", "Cut")' one.arrows >/dev/null 2>cut.err
        [ $? = 2 ] || damaged="$damaged $n"
    done
    is "a file of a zone cut anywhere" "$damaged" ''
    : >crashed
    for n in 5 20 23 27 30 31 35 39 43 60 300 1000 $((size - 12)) $((size - 5)); do
        for byte in '\000' '\177' '\377'; do
            { head -c "$n" /usr/share/zoneinfo/Europe/Paris && printf "$byte" && tail -c +$((n + 2)) /usr/share/zoneinfo/Europe/Paris; } >zones/Flipped
            TZDIR=$W/zones ctr-select -q --add 'y = hour_of_day(ts"2500-01-01T00:00Z", "Flipped")' one.arrows >/dev/null 2>&1
            case $? in 0 | 2) ;; *) echo "$n $byte" >>crashed ;; esac
        done
    done
    is "flipped bytes" "$(cat crashed)" ''
else
    skip "damaged files of zones" "no tzdata"
fi
ln -s loop zones/loop
mkfifo zones/Fifo
TZDIR=$W/zones exits "a FIFO is no zone, and is not waited for" 2 timeout 10 ctr-select --add 'y = year(ts"2026-01-01T00:00Z", "Fifo")' one.arrows

# A pattern that takes a backtracking machine 2^40 steps.
printf 'x\n%s\n' "$(head -c 100000 /dev/zero | tr '\0' a)" | ctr-import -q -f csv --header -o long.arrows
ok "a pattern that backtracks exponentially" timeout 20 ctr-select -q --where 'matches(x, "(a*)*(a|aa)*b") or is_null(extract(x, "(a|aa)+\\bb"))' long.arrows -o found.arrows
is "does not match" "$(ctr-info found.arrows | sed -n 's/^rows: //p')" 1

has_python zoneinfo || { skip "beside Python" "no python with zoneinfo" && done_testing && exit; }
"$PY" -c 'import zoneinfo; zoneinfo.ZoneInfo("Antarctica/Troll")' 2>/dev/null || { skip "beside Python" "no tzdata" && done_testing && exit; }

# ---- times
"$PY" "$CTR_TOP/tests/operators.py" times times.csv
ctr-import -q -f csv --header --time t times.csv -o times.arrows
ok "times around changes of clocks in nine zones" test "$(wc -l <times.csv)" -gt 1400
set --
for zone in $(head -1 times.csv | tr ',' ' '); do
    [ "$zone" != t ] || continue
    name="\"$(echo "$zone" | sed 's|_|/|')\""
    set -- "$@" --add "$zone = concat(year(t, $name), \" \", month(t, $name), \" \", week(t, $name), \" \", day(t, $name), \" \", hour_of_day(t, $name), \" \", day_of_week(t, $name), \" \", format_time(t, \"%Y-%m-%d %I:%M:%S %p %j %a %b %G %V %u\", $name))"
done
is "have the parts that Python's have" "$(ctr-select -q "$@" times.arrows | ctr-export -q -f csv | diff - times.csv | head -5)" ''
is "with -j 4 too" "$(ctr-select -q -j 4 "$@" times.arrows | ctr-export -q -f csv | cmp - times.csv)" ''
"$PY" "$CTR_TOP/tests/operators.py" locals locals.csv
ctr-import -q -f csv --header -c local:utf8,want:utf8 locals.csv -o locals.arrows
sum='parse_time(local, "%F %T")' # replaced where the zone is
for zone in $(sed 1d locals.csv | cut -d , -f 1 | sort -u); do
    sum="if(zone == \"$zone\", parse_time(local, \"%F %T\", \"$zone\"), $sum)"
done
is "local times are the moments that Python's are" \
    "$(ctr-select -q --add "got = $sum" --add 'want = parse_time(want)' --where 'true' locals.arrows | ctr-select -q --where 'got != want or is_null(got)' | ctr-export -q -f csv | head -5)" \
    'zone,local,want,got'

# ---- patterns
"$PY" "$CTR_TOP/tests/operators.py" patterns patterns.tsv
ctr-import -q -f csv --header patterns.tsv.csv -c t:utf8 -o texts.arrows
quote() { printf '%s' "$1" | sed 's/\\/\\\\/g; s/"/\\"/g'; }
n=0
set --
while IFS="$(printf '\t')" read -r p by; do
    q=$(quote "$p")
    set -- "$@" --add "p$n = concat(int(matches(t, \"$q\")), \"|\", fill(extract(t, \"$q\"), \"~\"), \"|\", replace_matches(t, \"$q\", \"$by\"))"
    n=$((n + 1))
done <patterns.tsv
ok "patterns" test $n -gt 200
ctr-select -q "$@" texts.arrows | ctr-export -q -f csv >got.csv
ok "match, extract and replace what Python's do" "$PY" "$CTR_TOP/tests/operators.py" same got.csv patterns.tsv.csv
done_testing
