#!/bin/sh
# ctr-history: in the small, every message; and against plain Python loops for random logs and options.
. "${0%/*}/lib.sh"
cd "$W" || exit 1
import() { # import NAME COLUMNS [ROLES…] <csv with header
    _n=$1 _c=$2
    shift 2
    ctr-import --format csv --header --null '' --columns "$_c" "$@" - >"$_n"
}
lists() { ctr-history -q "$@" | ctr-export --format jsonl --columns history.item | tr -d '\n'; }

import log user:int64,time:timestamp,item:utf8,cat:int32,click:bool --user user --time time <<'CSV'
user,time,item,cat,click
1,2024-05-01 10:00:00,a,7,1
2,2024-05-01 10:01:00,b,8,1
1,2024-05-01 10:02:00,c,,1
1,2024-05-01 10:02:00,d,9,0
,2024-05-01 10:02:00,d,9,1
1,2024-05-01 10:03:00,e,9,1
2,2024-05-01 10:04:00,f,9,1
,2024-05-01 10:05:00,f,9,1
1,2024-05-15 10:02:00,g,1,1
CSV
list() { printf '{"history":{"item":[%s]}}' "$@"; }
is 'strictly before, newest first, a null user, the window of 14 days' "$(lists -c item --where click log)" \
    "$(list '' '' '"a"' '"a"' '' '"c","a"' '"b"' '' '"e","c"')"
is 'every row is a behaviour' "$(lists -c item log)" "$(list '' '' '"a"' '"a"' '' '"d","c","a"' '"b"' '' '"e","d","c"')"
is '--last, --order oldest' "$(lists -c item --last 2 --order oldest log)" \
    "$(list '' '' '"a"' '"a"' '' '"c","d"' '"b"' '' '"d","e"')"
is '--window' "$(lists -c item --window 1m log)" "$(list '' '' '' '' '' '"d","c"' '' '' '')"
is '--delay' "$(lists -c item --delay 90s log)" "$(list '' '' '"a"' '"a"' '' '"a"' '"b"' '' '"e","d","c"')"
ctr-history -q -c item,cat --age --where click --group past log >lists
is 'several columns side by side, nulls stay' "$(ctr-export --format jsonl --columns past.item,past.cat,past.age lists | tail -n 1)" \
    '{"past":{"item":["e","c"],"cat":[9,null],"age":[1209540000,1209600000]}}'
# Users and keys are values: these texts have one XXH3-64, as had these pairs, and this number that of a null.
cat >crafted.csv <<'CSV'
user,time,item,a,b,k
victim000033801,2024-05-01 10:00:00,x,5,77,
qIk8.C33,2024-05-01 10:01:00,y,6,4737725508514873632,-5432995380820815127
victim000033801,2024-05-01 10:02:00,z,5,77,
qIk8.C33,2024-05-01 10:03:00,z,6,4737725508514873632,-5432995380820815127
CSV
import crafted user:utf8,time:timestamp,item:utf8,a:int64,b:int64,k:int64 --user user --time time <crafted.csv
is 'users of one hash' "$(lists -c item crafted)" "$(list '' '' '"x"' '"y"')"
ctr-cat --share user crafted -o crafted.shared
is 'users that a dictionary has' "$(lists -c item crafted.shared)" "$(list '' '' '"x"' '"y"')"
ctr-history -q --count a+b,k,user --where 'a > 0' crafted | ctr-export -f csv --columns count.a+b.impressions,count.k.impressions,count.user.impressions >counted
is 'keys of several columns, a null, texts' "$(sed 1d counted | tr '\n' ' ')" '0,0,0 0,0,0 1,1,1 1,1,1 '
is 'keys of a second log' "$(ctr-history -q --behaviours crafted --count a+b,k --where 'a > 0' --user user -c item crafted |
    ctr-export -f csv --no-header --columns history.item,count.a+b.impressions,count.k.impressions | tr '\n' ' ')" \
    '[],0,0 [],0,0 "[""x""]",1,1 "[""y""]",1,1 '
printf 'from log = csv(header=true, time="time", user="user")\nhistory item\nkeep past = history.item\n' >crafted.plan
is "a plan's statement" "$(ctr-extract -q crafted.plan log=crafted.csv | ctr-export -f jsonl | tr -d '\n')" \
    '{"past":[]}{"past":[]}{"past":["x"]}{"past":["y"]}'
if has_python pyarrow; then
    is 'metadata' "$("$PY" -c "
import pyarrow as pa
s = pa.ipc.open_stream('lists').schema
for n in ('past.item', 'past.age'):
    print(n, *sorted(k.decode() + '=' + v.decode() for k, v in s.field(n).metadata.items()))")" \
        'past.item ctr.history=past ctr.history_of=item ctr.order=newest ctr.side=user
past.age ctr.history=past ctr.order=newest ctr.side=user'
fi
ctr-history -c item --where click log 2>said >/dev/null
is 'empty histories are said' "$(cat said)" 'ctr-history: 4 of 9 rows have an empty history, 2 of them no user'
ctr-select -q --where click --columns user,when=time,item log >clicks
is '--behaviours: another log' "$(lists -c item --behaviours clicks log)" "$(lists -c item --where click log)"
ctr-sort --shuffle --seed 5 log >shuffled
ctr-sort -k time shuffled >sorted
is '--sort' "$(lists --sort -c item shuffled)" "$(lists -c item sorted)"
ok 'the same as of the sorted log' sh -c 'test "$(ctr-history -q --sort -c item,cat --age shuffled | ctr-info --digest)" = "$(ctr-history -q -c item,cat --age sorted | ctr-info --digest)"'
is '--sort, --behaviours' "$(lists --sort -c item --where item\!=\"x\" --behaviours shuffled shuffled)" "$(lists -c item sorted)"
counts() { ctr-history --where click "$@" | ctr-export --format csv | cut -d, -f3,6- | tr '\n' ' '; }
is '--count' "$(counts --count item --prior 1 log)" \
    'item,count.item.impressions,count.item.clicks,count.item.rate a,0,0, b,0,0,1 c,0,0,1 d,0,0,1 d,0,0,1 e,0,0,0.8 f,0,0,0.8333333333333334 f,1,1,0.9285714285714286 g,0,0,0.875 '
is '--delay of clicks' "$(counts --count cat --prior 0 --delay 1m log | cut -d' ' -f8-)" 'f,3,1,0.5 f,4,2,0.6666666666666666 g,0,0, '
for input in '' --sort '--lateness 1h'; do
    for n in 1 3 8192; do
        ctr-cat --batch $n sorted | ctr-history -q $input -c item,cat --age --where click --count cat,user+item --delay 1m | ctr-info --digest
    done
done >digests
is 'batches and the way of input change nothing' "$(sort -u digests | wc -l)" 1
printf 'user,time,item\n' | import none user:int64,time:timestamp,item:utf8 --user user --time time
is 'no rows' "$(ctr-history -q -c item none | ctr-export --format csv)" 'user,time,item,history.item'
is 'no behaviours' "$(lists -c item --behaviours none log)" "$(list '' '' '' '' '' '' '' '' '')"

# What is wrong
exits 'a row that runs backwards' 1 ctr-history -c item shuffled
err_like 'is named, with the remedy' '^ctr-history: .*row [0-9]*: its time 2024-05-.* runs backwards, behind 2024-05-.*; give --sort, or --lateness'
exits 'in the log of behaviours too' 1 ctr-history -c item --behaviours shuffled log
err_like 'with its name' '^ctr-history: shuffled: row [0-9]*: its time'
exits 'beyond the lateness' 1 ctr-history -c item --lateness 30s shuffled
err_like 'is named' 'row [0-9]*: its time .* is more than --lateness before .*, which came earlier; give more, or --sort'
printf 'user,time,item\n1,2024-05-01,a\n1,,b\n' | import notime user:int64,time:timestamp,item:utf8 --user user --time time
exits 'a null time' 1 ctr-history -c item notime
err_like 'is named' '^ctr-history: notime: row 2: the time .column time. is null; --bad-rows skip=MAX or quarantine=FILE leaves such rows out'
exits 'nothing to add' 2 ctr-history log
err_like 'is told' 'nothing to add: --columns and --age list behaviours, --count counts them'
exits '--count alone' 2 ctr-history --count item log
err_like 'asks for clicks' '^ctr-history: --count needs --where: which rows are clicks'
exits 'an unknown column' 2 ctr-history -c itm log
err_like 'is named' "itm.*item"
ctr-select -q --add 'tags=split(item, "x")' log >tags
exits 'a list' 2 ctr-history -c tags tags
err_like 'has no place in a list' 'tags is list<utf8>, and a behaviour has one value a column'
exits 'a list as a key' 2 ctr-history --count tags --where click tags
err_like 'is none' 'tags is list<utf8>, and a list cannot be a key'
exits 'a number as a condition' 2 ctr-history -c item --where cat log
err_like 'is none' "'cat' is int32, but must be a condition"
exits 'a text as dwell time' 2 ctr-history -c item --dwell item --min-dwell 1s log
err_like 'is none' "--dwell 'item' is utf8, but must be a number"
ctr-select -q --add 'who=concat(user)' log | ctr-select -q --columns 'user=who,time,item' >texts
exits 'users of another type' 2 ctr-history -c item --behaviours texts log
err_like 'are told' 'user is int64, and user of texts is utf8: cast one of them'
ctr-select -q --columns user,item log >timeless
exits 'no time in the log of behaviours' 2 ctr-history -c item --behaviours timeless log
err_like 'is told' 'timeless: has neither a column time nor one with the role time'
exits 'a float as time' 2 ctr-history --time x -c item tags
ctr-select -q --add 'x=1.5' log >float
exits 'a float as time' 2 ctr-history --time x -c item float
err_like 'is told' 'the time x is float64, but must be a timestamp, or an integer'
exits 'a window of counts that is too short' 2 ctr-history --count item --where click --delay 1h --count-window 1h log
err_like 'is told' 'count-window must be longer than --delay'
exits 'a window of behaviours that is too short' 2 ctr-history -c item --window 1h --delay 1h log
err_like 'is told' 'window must be longer than --delay'
exits 'both orders' 2 ctr-history --sort --lateness 1s -c item log
exits 'a column that is there already' 2 ctr-history -c item --group past lists
exits 'both on stdin' 2 ctr-history -c item --behaviours -
err_like 'is told' 'behaviours and the main stream cannot both be stdin'
awk 'BEGIN { print "user,time,item"; for (i = 0; i < 100000; i++) printf "%d,%d,%d\n", i, i, i % 7 }' |
    import users user:int32,time:int64,item:int32 --user user --time time
exits 'more users than memory' 1 ctr-history -c item --memory 2M users
err_like 'says what it needs' 'row [0-9]*: what is known of [0-9]* users and 0 keys takes .* and --memory allows 2 MiB; give more, a smaller --last'
ok 'users whose window has passed are dropped' ctr-history -q -c item --memory 2M --window 100ms users -o /dev/null
exits 'rows that wait' 1 ctr-history -c item --lateness 1h --memory 2M users
err_like 'say what they need' 'rows wait for late ones, which takes .* and --memory allows 1 MiB; give less --lateness, or --sort'
ok '--sort spills' sh -c 'ctr-history -v --sort --window 10ms -c item --memory 4M users 2>&1 >/dev/null | grep -q "[1-9][0-9.]* [KM]iB spilled"'

case $CTR_BUILD in
*san*) skip 'lists are within --memory' 'sanitizers have allocators of their own' ;;
*)
    awk 'BEGIN { print "user,time,item"; for (i = 0; i < 20000; i++) printf "%d,%d,%d\n", i % 20, i, i }' | import busy user:int32,time:int64,item:int64 --user user --time time
    for j in 1 2; do
        ok "lists of 400 items are within --memory, -j $j" below 73000 ctr-history -q -j $j -c item --age --last 400 --memory 64M busy
    done
    awk 'BEGIN { print "user,time,item"; for (i = 0; i < 20000; i++) printf "%d,%d,\n", i % 3, i }' | import blank user:int32,time:int64,item:utf8 --null NULL --user user --time time
    ok 'so are lists of 2000 empty texts' below 73000 ctr-history -q -j 1 -c item --last 2000 --memory 64M blank
    ctr-history -q -j 1 -c item --last 400 busy | ctr-info --digest >busy.whole
    is 'in smaller batches the same' "$(ctr-history -q -j 2 -c item --last 400 --memory 4M busy | ctr-info --digest)" "$(cat busy.whole)"
    ;;
esac

if has_python pyarrow; then
    mkdir ref
    seeds=200
    [ -z "$SAN" ] || seeds=40
    ok "$seeds random logs give what a plain loop gives" "$PY" "$CTR_TOP/tests/history_reference.py" 0 $seeds ref
    ok 'and a loop that sees rows of the same time does not' sh -c "! '$PY' '$CTR_TOP/tests/history_reference.py' 0 10 ref leak"
else
    skip 'random logs' 'no pyarrow'
fi
# A state of one day is where the next begins.
printf 'user,ad,t,click\n1,a,10,1\n2,b,20,0\n' | ctr-import -q -f csv --header -o day1.arrows
printf 'user,ad,t,click\n1,c,20,1\n1,d,30,0\n' | ctr-import -q -f csv --header -o day2.arrows
h='--user user --time t -c ad --count ad --where click==1 --session 15ms'
is 'the first day' "$(ctr-history $h --state state day1.arrows 2>&1 >/dev/null | head -1)" 'ctr-history: state is not there yet: this is the first run'
cp state state.1
is 'the second sees the first' "$(ctr-history -q $h --state state day2.arrows | ctr-export -f csv -c user,t,history.ad,session.number,session.position | tr '\n' ' ')" \
    'user,t,history.ad,session.number,session.position 1,20,"[""a""]",1,2 1,30,"[""c"",""a""]",1,3 '
exits 'a day again' 1 ctr-history $h --state state day1.arrows
err_like 'is told' 'its first time .* is before .*, where the state ended: give each day once'
cp state.1 state
exits 'an output that fails' 1 sh -c "ctr-history $h --state state day2.arrows >/dev/full"
ok 'leaves the state' cmp state state.1
exits 'a state of other options' 2 ctr-history --user user --time t -c ad --where 'click==0' --state state day2.arrows
err_like 'says of which' 'state: is the state of other options: .*--where click==1.* there, .*--where click==0'
exits 'no state' 2 ctr-history $h --state day1.arrows day2.arrows
err_like 'is told' 'day1.arrows: is no state of ctr-history'
exits 'with another log' 2 ctr-history $h --state state --behaviours day1.arrows day2.arrows
head -c $(($(wc -c <state) - 20)) state >cut
exits 'a state that is cut' 1 ctr-history $h --state cut day2.arrows
ctr-select --section pending --add '`key.0`=99' state >odd
exits 'a state that was changed' 1 ctr-history $h --state odd day2.arrows
err_like 'names section and row' 'odd: section pending: row [0-9]+ has a key that is not there'
ctr-select --section sessions --add 'number=1.5' state >odd
exits 'of other types' 1 ctr-history $h --state odd day2.arrows
err_like 'names the section' 'odd: section sessions is no part of a state: .*number'
ctr-select --section 'count.0' --add 'bytes=null' state >odd 2>/dev/null || ctr-select --section count.0 --where 'false' state >odd
exits 'with less' 1 ctr-history $h --state odd day2.arrows
exits '--state on stdout' 2 ctr-history $h --state - day2.arrows
# With another log of behaviours: its rows behind the last event of a day are known to the events of the next.
awk 'BEGIN { srand(4); print "user,t,ad,word,click" >"e.csv"; print "user,t,ad,word,click" >"b.csv"
    for (t = 0; t < 1200; t++) for (k = 0; k < 2; k++) if (rand() < .4)
        printf "%s,%d,%d,w%d,%d\n", rand() < .1 ? "" : "u" int(rand() * 7), t, int(rand() * 9), int(rand() * 5), rand() < .5 >(k ? "e.csv" : "b.csv") }'
for f in e b; do ctr-import -q -f csv --header --null '' -c user,t:int64,ad:int64,word,click:int8 --user user $f.csv -o $f.arrows; done
day() { # day LOG N FROM TO : rows of these times
    ctr-select -q --where "t >= $3 and t < $4" "$1.arrows" -o "$1.$2"
}
from=0 pfrom=0 n=0
for cut in 190:260 200:260 420:440 700:910 930:930 1200:1200; do
    day e $n "$from" "${cut%:*}"
    day b $n "$pfrom" "${cut#*:}"
    from=${cut%:*} pfrom=${cut#*:} n=$((n + 1))
done
for with in '' '--delay 20ms' '--sort' '--lateness 5ms --window 90ms' '--count-window 70ms --last 2'; do
    b="--time t -c ad,word --age --count ad,word+ad --where click==1 $with"
    # shellcheck disable=SC2086
    ctr-history -q $b --behaviours b.arrows e.arrows | ctr-export >whole.csv
    rm -f known
    for d in 0 1 2 3 4 5; do
        # shellcheck disable=SC2086
        ctr-history -q $b --state known --behaviours b.$d e.$d -o out.$d || echo "day $d failed"
    done
    ctr-cat out.? | ctr-export >days.csv
    ok "days with a log of behaviours are one run over all: $with" cmp whole.csv days.csv
done
exits 'behaviours of a day before' 1 ctr-history --time t -c ad,word --age --count ad,word+ad --where click==1 --count-window 70ms --last 2 --state known --behaviours b.2 e.5
err_like 'are told' 'b.2: its first time .* is before .*, of behaviours that the state has|its first time .* is before .*, where the state ended'
exits 'a state without that log' 2 ctr-history -q --time t -c ad,word --age --count ad,word+ad --where click==1 --count-window 70ms --last 2 --state known e.5
err_like 'is of other options' 'known: is the state of other options: .*--behaviours with user utf8, time int64'
# Threads share the users of a batch: the same bytes and the same state as of one, with nulls, texts, counts and sessions
# beside the lists, and behaviours that become known later; also of lists that are too long for that.
awk 'BEGIN { srand(9); OFS = ","; print "user,name,t,ad,word,flag,part,click"; for (t = i = 0; i < 30000; i++) { t += int(rand() * 3)
    u = int(600 * rand() * rand()); w = "w" int(rand() * 900); if (i == 20000) while (length(w) < 3000) w = w w
    print (rand() < .02 ? "" : u), (rand() < .02 ? "" : "u" u), t, (i > 9000 && rand() < .1 ? "" : int(rand() * 99)), (rand() < .05 ? "" : w),
        (rand() < .5 ? "true" : "false"), rand(), (rand() < .3) } }' >many.csv
ctr-import -q -f csv --header --null '' -c user:int32,name,t:int64,ad:int32,word,flag:bool,part:float32,click:int8 many.csv -o many.arrows
ctr-cat -q --share word many.arrows -o many.shared
is 'rows' "$(ctr-export -f csv --no-header -c t many.shared | wc -l)" 30000
set -- '--user user -c ad --age' '--user name -c word,ad,flag,part --where click==1 --age --last 5' '--user user -c word --last 300' \
    '--user user -c part,word --delay 90ms --count ad,word+ad --where click==1 --session 200ms' '--user name --age --window 2s --order oldest'
for o; do
    for f in many.arrows many.shared; do
        rm -f known
        # shellcheck disable=SC2086
        ctr-history -j 1 --time t $o --state known $f >one 2>one.err
        mv known known.1
        for j in 2 3; do
            # shellcheck disable=SC2086
            ctr-history -j $j --time t $o --state known $f >other 2>other.err
            ok "-j $j: the same bytes: $o of $f" cmp one other
            ok '… the same state' cmp known known.1
            ok '… the same is told' cmp one.err other.err
            rm -f known
        done
    done
done
printf 'user,ad,t\n1,2,5\n1,3,4\n' | ctr-import -q -f csv --header -o "$W/back.arrows"
exits 'times that run backwards' 1 ctr-history -c ad --user user --time t "$W/back.arrows"
err_like 'name the file' 'back.arrows: row 2: its time .* runs backwards'
exits 'a column that is listed twice' 2 ctr-history -c ad,ad --user user --time t "$W/back.arrows"
err_like 'is named' 'ad is named twice$'
done_testing
