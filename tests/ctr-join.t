#!/bin/sh
# ctr-join: every mode in the small, every message; and against plain Python loops for any memory and batch size.
. "${0%/*}/lib.sh"
cd "$W" || exit 1
import() { # import NAME COLUMNS [ROLES…] <csv with header
    _n=$1 _c=$2
    shift 2
    cat >"$_n.csv"
    ctr-import --format csv --header --null '' --columns "$_c" "$@" "$_n.csv" >"$_n"
}
csv() { ctr-join -q "$@" | ctr-export --format csv; }

import views user:int64,time:timestamp,ad:utf8 --time time <<'CSV'
user,time,ad
1,2024-05-01 10:00,x
2,2024-05-01 10:05,y
,2024-05-01 10:06,x
1,2024-05-01 11:00,z
3,2024-05-01 11:30,x
CSV
import users user:int16,age:int32,city:utf8 <<'CSV'
user,age,city
3,25,
1,31,Bonn
,99,Nowhere
7,50,Oslo
CSV
import clicks who:int32,time:timestamp,price:float64 --time time <<'CSV'
who,time,price
1,2024-05-01 10:10,0.5
1,2024-05-01 10:20,0.25
1,2024-05-01 10:00,1
2,2024-05-01 09:00,2
3,2024-05-01 12:00,4
CSV
is "left: order kept, nulls match nothing" "$(csv -k user users views)" "user,time,ad,age,city
1,2024-05-01T10:00:00Z,x,31,Bonn
2,2024-05-01T10:05:00Z,y,,
,2024-05-01T10:06:00Z,x,,
1,2024-05-01T11:00:00Z,z,31,Bonn
3,2024-05-01T11:30:00Z,x,25,"
ctr-join -k user users views 2>said >/dev/null
is "the unmatched are counted" "$(cat said)" "ctr-join: 2 of 5 rows have no match in users; 2 of its 4 rows match none of them"
ctr-select --columns 'user=who,time' clicks -o times
exits "--next without a column of the right" 0 ctr-join -k user --next time times views
err_like "is told apart from one with" '^ctr-join: no column of times was left to add: its time is not repeated, unless --prefix'
exits "with --prefix" 0 ctr-join -k user --next time --prefix c_ times views
is "it stays" "$(cat "$W/err")" "ctr-join: 3 of 5 rows have no match in times; 3 of its 5 rows match none of them"
ctr-join --anti -k user users views 2>said >/dev/null
is "--anti" "$(cat said)" "ctr-join: 2 of 5 rows have no match in users; 2 of its 4 rows match none of them"
is "--inner" "$(csv -k user --inner --columns age users views | cut -d, -f1,4 | tr '\n' ' ')" "user,age 1,31 1,31 3,25 "
is "--anti" "$(csv -k user --anti users views | cut -d, -f1,3 | tr '\n' ' ')" "user,ad 2,y ,x "
is "--columns, --prefix" "$(csv -k user --columns city --prefix u_ users views | head -2 | tail -1)" "1,2024-05-01T10:00:00Z,x,Bonn"
is "--prefix names" "$(csv -k user --prefix u_ users views | head -1)" "user,time,ad,u_age,u_city"
is "--multi: in right order" "$(csv -k user=who --multi --columns price clicks views | cut -d, -f1,3,4 | tr '\n' ' ')" \
    "user,ad,price 1,x,0.5 1,x,0.25 1,x,1 2,y,2 ,x, 1,z,0.5 1,z,0.25 1,z,1 3,x,4 "
is "--as-of: strictly before" "$(csv -k user=who --as-of time clicks views | cut -d, -f1,3,4 | tr '\n' ' ')" \
    "user,ad,price 1,x, 2,y,2 ,x, 1,z,0.25 3,x, "
is "--next: at or after" "$(csv -k user=who --next time clicks views | cut -d, -f1,3,4 | tr '\n' ' ')" \
    "user,ad,price 1,x,1 2,y, ,x, 1,z, 3,x,4 "
is "--within" "$(csv -k user=who --next time --within 29m clicks views | cut -d, -f1,3,4 | tr '\n' ' ')" \
    "user,ad,price 1,x,1 2,y, ,x, 1,z, 3,x, "
is "--within reaches its bound" "$(csv -k user=who --next time --within 30m clicks views | tail -1)" "3,2024-05-01T11:30:00Z,x,4"
is "--as-of --inclusive: also at the same time" "$(csv -k user=who --as-of time --inclusive clicks views | cut -d, -f1,3,4 | tr '\n' ' ')" \
    "user,ad,price 1,x,1 2,y,2 ,x, 1,z,0.25 3,x, "
# Views 1 and 2 precede click 1, view 3 clicks 2 and 3 (of one time), view 4 none; views of one time: the last in order.
printf 'u,t,view\n1,10,a\n1,20,b\n1,30,c\n1,50,d\n2,10,e\n2,10,f\n' | import seen u:int64,t:int64,view:utf8
printf 'u,t,click\n1,25,1\n1,40,2\n1,40,3\n2,10,4\n' | import taps u:int64,t:int64,click:int64
is "--next without --once" "$(csv -k u --next t taps seen | cut -d, -f3,4 | tr '\n' ' ')" "view,click a,1 b,1 c,2 d, e,4 f,4 "
is "--once: the last view before a click" "$(csv -k u --next t --once taps seen | cut -d, -f3,4 | tr '\n' ' ')" "view,click a, b,1 c,2 d, e, f,4 "
is "--first" "$(csv -k u --next t --once --first taps seen | cut -d, -f3,4 | tr '\n' ' ')" "view,click a,1 b, c,2 d, e,4 f, "
is "--once of views out of order" "$(ctr-sort -k t:desc seen | ctr-join -q -k u --next t --once taps - | ctr-export -f csv | cut -d, -f3,4 | sort | tr '\n' ' ')" \
    "a, b,1 c,2 d, e, f,4 view,click "
ctr-join -k u --next t --once taps seen 2>said >/dev/null
is "both are counted" "$(cat said)" "ctr-join: 3 of 6 rows have no match in taps; 1 of its 4 rows match none of them
ctr-join: 2 rows have no match because a later row has it"
printf 'user,x\n007,1\n011,2\n' | import zeros user:utf8,x:int8
printf 'user,y\n11,3\n7,4\n' | import bare user:utf8,y:int8
ctr-join -q -k user bare zeros 2>said >/dev/null
is "no match at all: lost zeros" "$(cat said)" "ctr-join: no row has a match: the first key here is user (utf8) 007, the first in bare is user (utf8) 11; those of user differ by leading zeros: '007' here, '7' there; one side was a number once; write it as text (ctr-import --columns NAME:utf8)"
why() { printf 'k\n%s\n' "$1" | import one k:utf8; printf 'k\n%s\n' "$2" | import two k:utf8; ctr-join -q -k k two one 2>&1 >/dev/null | grep -o 'differ by [a-z ]*'; }
is "case" "$(why Abc aBC)" "differ by upper and lower case"
is "spaces" "$(why 'ab ' ab)" "differ by spaces around them"
is "which an option takes off" "$(ctr-join -q -k k two one 2>&1 >/dev/null | grep -o '[a-z-]* --trim takes them off$')" "ctr-import --trim takes them off"
is "no match by time: the first times" "$(printf 'u,t\n1,5\n' | import late u:int8,t:int32; printf 'u,t\n1,9\n' | import later u:int8,t:int64
    ctr-join -q -k u --as-of t --prefix r. later late 2>&1 >/dev/null)" \
    "ctr-join: no row has a match: the first key here is u (int8) 1, t (int32) 5, the first in later is u (int8) 1, t (int64) 9"
is "decimals" "$(why 12.0 12)" "differ by a decimal part"
is "nothing known" "$(why x y)" ""
is "--prefix shows the right time" "$(csv -k user=who --as-of time --prefix c_ clicks views | sed -n 3p)" \
    "2,2024-05-01T10:05:00Z,y,2024-05-01T09:00:00Z,2"
is "--as-of without keys" "$(csv --as-of time --columns price clicks views | cut -d, -f4 | tr '\n' ' ')" "price 2 1 1 0.25 0.25 "

import labels clicked:int8 --label clicked <<'CSV'
clicked
1
0
0
1
0
CSV
is "--by-row" "$(csv --by-row labels views | cut -d, -f1,4 | tr '\n' ' ')" "user,clicked 1,1 2,0 ,0 1,1 3,0 "
role() { ctr-info "$1" | awk -v c="$2" '$1 == c { print $3 }'; }
ctr-join -q --by-row labels views >labelled
is "a role passes" "$(role labelled clicked)" label
ctr-join -q --by-row --prefix second_ labels labelled >both
is "a second label is no label" "$(role both clicked) $(role both second_clicked)" "label -"

ctr-sort -k user users >sorted-users
ctr-sort -k user views >sorted-views
is "--merge equals the hash join" "$(ctr-join -q --merge -k user sorted-users sorted-views | ctr-info --digest)" \
    "$(ctr-join -q -k user users sorted-views | ctr-info --digest)"
exits "--merge with an unsorted right side" 1 ctr-join --merge -k user users sorted-views
err_like "names row and key" "users: row 2 \(user=1\) is not in order: sort both sides"
exits "--merge with an unsorted left side" 1 ctr-join --merge -k user sorted-users views
err_like "names row and key" "row 4 \(user=1\) is not in order on the left side"
ctr-cat sorted-users sorted-users >twice
ctr-sort -k user twice >sorted-twice
exits "a repeated right key" 1 ctr-join -k user twice views
err_like "names both rows and the key" "twice: rows [12] and [56] have the same key user=[13].*--multi.*--unique"
ctr-select --columns age,id=user users -o by-id
exits "--merge by keys of two names, an unsorted right side" 1 ctr-join --merge -k user=id by-id sorted-views
err_like "has the name of its own" 'by-id: row 2 \(id=1\) is not in order: sort'
exits "an unsorted left side" 1 sh -c 'ctr-sort -k id by-id | ctr-join --merge -k user=id - views'
err_like "too" '\(user=1\) is not in order on the left side'
exits "also when merged" 1 ctr-join --merge -k user sorted-twice sorted-views
err_like "names both rows and the key" "rows 1 and 2 have the same key user=1"
exits "also when spilled" 1 ctr-join --memory 1 -k user twice views
head -2 labels.csv | ctr-import --format csv --header --columns clicked:int8 >short
exits "--by-row with a shorter right side" 1 ctr-join --by-row short views
err_like "says how many rows" "short has 1 rows, and the left side has more"
ctr-cat labels labels >long
exits "--by-row with a longer right side" 1 ctr-join --by-row long views
err_like "says how many rows" "long has more rows than the left side, which has 5"
exits "a clash of names" 2 ctr-join -k user views labelled
err_like "names column and remedy" "both sides have a column time: .*--prefix"
exits "a column twice" 2 ctr-join -k user --columns age,city,age users views
err_like "is named" '^ctr-join: users: age is named twice$'
exits "an unknown key" 2 ctr-join -k usr users views
err_like "on the left" "usr.*nearest.*user"
exits "an unknown key on the right" 2 ctr-join -k user=usr users views
err_like "names the file" "users: .*usr.*nearest.*user"
exits "integer against text" 2 ctr-join -k ad=user users views
err_like "names types and a cast" "ad is utf8 on the left and user is int16 in users: cast one, as with ctr-select --add .ad_key=int\(ad\)., then -k ad_key=user$"
ctr-select --add 'user=number(user)' users >users.float
for sides in "users.float views right user=user_key" "views users.float left user_key=user"; do
    set -- $sides
    exits "a float key on the $3" 2 ctr-join -k user "$1" "$2"
    err_like "is to become an integer, and no integer a float" "ctr-select --add .user_key=if\(int\(user\) == user, int\(user\), null\)., then -k $4$"
done
is "and meets none where it is not whole" "$(printf 'k,v\n1.5,a\n2,b\n,c\n-0,d\n' | ctr-import -qf csv --header --columns k:float64,v |
    ctr-select --add 'k_key=if(int(k) == k, int(k), null)' | ctr-join -qk k_key=user --prefix u_ users | ctr-export -f csv -c v,k_key)" "v,k_key
a,
b,2
c,
d,0"
exits "no key" 2 ctr-join users views
err_like "says what to do" "say what to join on: -k COLUMN, or --by-row"
exits "no right side" 2 ctr-join -k user
for bad in "--inner --anti -k user" "--as-of time --next time" "--by-row --merge" "--by-row -k user" "--multi --as-of time -k user" \
    "--once -k user" "--once --as-of time -k user" "--first --next time -k user" "--inclusive --next time -k user" "--within 3m -k user" "--merge --next time -k user" "--as-of ad -k user"; do
    exits "$bad" 2 ctr-join $bad users views
done
exits "both sides stdin" 2 ctr-join -k user -
cp views copy
exits "output is the left side" 2 ctr-join -k user -o copy users copy
err_like "is refused" "copy is both input and output"
exits "output is the right side" 2 ctr-join -k user -o copy copy users
err_like "is refused" "copy is both input and output"
is "RIGHT from stdin" "$(ctr-cat users | ctr-join -q -k user - views | ctr-info --digest)" "$(ctr-join -q -k user users views | ctr-info --digest)"
ctr-cat --to file --key user -o users.arrow sorted-users
is "RIGHT as keyed file" "$(ctr-join -q -k user users.arrow views | ctr-info --digest)" "$(ctr-join -q -k user users views | ctr-info --digest)"
for side in users views; do
    head -c $(($(wc -c <$side) - 30)) $side >cut
    [ $side = users ] && set -- cut views || set -- users cut
    exits "truncated $side" 1 ctr-join -k user -o joined.new "$@"
    err_like "is named" "cut: .*(truncated|ends)"
    ok "and leaves no output" test ! -e joined.new
done
ctr-select --where false views >no-views
ctr-select --where false users >no-users
is "no left rows" "$(ctr-join -q -k user users no-views | ctr-info | sed -n 1p)" "rows: 0"
is "no right rows" "$(csv -k user no-users views | tail -1)" "3,2024-05-01T11:30:00Z,x,,"
is "no right rows, merged" "$(csv --merge -k user no-users sorted-views | tail -1)" ",2024-05-01T10:06:00Z,x,,"

import big user:uint64,b:int8 <<'CSV'
user,b
18446744073709551615,1
5,2
CSV
import neg user:int64 <<'CSV'
user
-1
5
CSV
is "-1 is not 2^64-1" "$(csv -k user big neg | tr '\n' ' ')" "user,b -1, 5,2 "
is "nor the other way, merged" "$(ctr-sort -k user big | ctr-join -q --merge -k user - neg | ctr-export --format csv | tr '\n' ' ')" \
    "$(ctr-join -q -k user big neg | ctr-export --format csv | tr '\n' ' ')"

awk 'BEGIN { print "key,name,n"; for (i = 0; i < 3000; i++) printf "%d,%s,%s\n", i * 7 % 3001, i % 5 ? "n" i : "", i % 11 ? i : "" }' |
    import many key:int32,name:utf8,n:int16
awk 'BEGIN { print "key,time"; for (i = 0; i < 9000; i++) printf "%s,%d\n", i % 13 ? i * 31 % 4000 : "", i }' | import rows key:int64,time:int64
ctr-select --add 'time=int(key) * 3' many >once
ctr-cat once once >times
for o in "" --inner --anti; do
    ctr-join -q -k key $o many rows >one
    ctr-join -k key $o many rows 2>want >/dev/null
    for j in 2 3 5; do ctr-join -k key $o -j $j many rows 2>said | cmp - one && cmp said want || echo "$o -j $j"; done
done >differ 2>&1
for o in "--multi --columns n,name" "--as-of time --columns name"; do
    ctr-join -q -k key $o --batch 700 times rows >one
    for j in 2 3 5; do ctr-join -q -k key $o --batch 700 -j $j times rows | cmp - one || echo "$o -j $j"; done
done >>differ 2>&1
is "shares of a batch give the bytes of one thread" "$(cat differ)" ""

# The matched rows of 256 threads are noted within --memory: a set of bits each would take 38 MB.
if [ -z "$SAN" ]; then
    awk 'BEGIN { print "key"; for (i = 0; i < 1200000; i++) print i * 7 % 1200001 }' | import all key:int64
    ctr-select -q --where 'key % 3 == 0' all -o third 2>/dev/null
    for j in 1 256; do ctr-join -k key -j $j --memory 90M all third 2>said$j >joined$j; done
    ok "256 threads, little memory: the same rows" cmp joined1 joined256
    ok "and matches" cmp said1 said256
    ok "within the memory" below 73000 ctr-join -q -k key -j 256 --memory 90M all all
fi

# --anti: a key that RIGHT has any number of times is there, also beyond memory, where few keys have many rows
awk 'BEGIN { print "key"; for (i = 0; i < 60000; i++) print i % 3 ? i % 7 : i % 3500 }' | import often key:int32
ctr-sort -q --unique -k key often -o once
ctr-join -q -k key --anti once rows >want
for o in "" "-j 3" "--memory 1" "--memory 300K --batch 100"; do
    ctr-join -k key --anti $o often rows 2>said >got || cat said
    is "--anti, keys more than once ($o)" "$(ctr-info --digest got)" "$(ctr-info --digest want)"
    is "what matches nothing ($o)" "$(sed 's/.*; //' said)" "$(ctr-join -q -k key --anti rows often | ctr-info | sed -n 's/^rows: //p') of its 60000 rows match none of them"
done
ctr-sort -q -k key rows -o sorted-rows
ctr-sort -q -k key often -o sorted-often
exits "--merge --anti, keys more than once" 0 ctr-join -k key --merge --anti -o got sorted-often sorted-rows
is "gives the same" "$(ctr-sort -q -k key want | ctr-info --digest)" "$(ctr-info --digest got)"

# --multi beyond memory: temporaries grow with the inputs, not with what a key that both sides have many times gives
awk 'BEGIN { print "key,l"; for (i = 0; i < 300; i++) print "hot,left " i "\nk" i ",x\n,null" }' | import hot-left key:str,l:str
awk 'BEGIN { print "key,r"; for (i = 0; i < 3000; i++) print "hot,right " i (i % 10 ? "" : "\nk" i % 130 ",r" i "\n,null") }' |
    import hot-right key:str,r:str
for o in "" --inner; do
    want=$(ctr-join -k key --multi $o hot-right hot-left 2>want-said | ctr-info --digest)
    for m in "--memory 1" "--memory 200K --batch 100 -j 2"; do
        got=$(ulimit -f 1000 && ctr-join -k key --multi $o $m hot-right hot-left 2>said | ctr-info --digest)
        is "a hot key needs little temporary space ($o $m)" "$got" "$want"
        is "and the counts are the same" "$(cat said)" "$(cat want-said)"
    done
done

# Texts of 300 KB on the right that match many rows: 0.4 GB, in parts; the writer holds some 64 MiB. Each sorted side, too
awk 'BEGIN { print "k,page"; for (k = 0; k < 3; k++) { printf "%d,", k; for (i = 0; i < 50000; i++) printf "word%d ", k; print "" } }' </dev/null | import wide k:int32,page:str
awk 'BEGIN { print "k,id"; for (i = 0; i < 1300; i++) print int(i / 400) "," i }' | import narrow k:int32,id:int64
for o in "-k k" "-k k --multi" "-k k --merge" "-k k --merge --multi"; do
    for m in "--memory 4M" "--memory 1 -j 2"; do
        case $SAN$o$m in 1*k--memory\ 4M | 1*merge--memory\ 4M | 1*multi--memory\ 1*) continue ;; esac # each way with one of the two
        is "long texts ($o $m)" "$(ctr-join -q $o $m wide narrow | ctr-select --add 'n=length(page)' --add 'w=substr(page, 0, 5)' -c n,w | ctr-export -f csv --no-header | sort | uniq -c | tr -s ' ')" ' 100 ,
 400 300000,word0
 400 300000,word1
 400 300000,word2'
        [ -n "$SAN" ] || ok "in bounded memory" below 110000 ctr-join -q -o got $o $m wide narrow
    done
done
is "a long text on the left, of many matches" "$(ctr-join -q -k k --multi --memory 4M narrow wide | ctr-select -c id | ctr-export -f csv --no-header | md5sum)" "$(seq 0 1199 | md5sum)"
[ -n "$SAN" ] || ok "in bounded memory" below 110000 ctr-join -q -o got -k k --multi --memory 4M narrow wide

mkdir ref
if ! has_python pyarrow; then
    skip "against the reference" "no pyarrow"
    done_testing
    exit 0
fi
"$PY" "$CTR_TOP/tests/relation-reference.py" join ref || exit 1
counts() { # what ctr-join said: numbers alone; nothing of --by-row
    sed -n 's/^ctr-join: \(.*\) of \(.*\) rows have no match in .*; \(.*\) of its \(.*\) rows match none of them$/\1 \2 \3 \4/p' said
}
while IFS="$(printf '\t')" read -r name args counts; do
    want=$(ctr-info --digest "ref/$name.want")
    args=$(echo "$args" | sed 's#OUT#ref#g')
    for o in "--memory 1" "--memory 300K --batch 100 -j 1" "--memory 1G --batch 70000" "-j 4"; do
        one_of 3 || continue
        is "reference: $name, $o" "$(ctr-join $o $args 2>said | ctr-info --digest)" "$want"
        is "and what matches nothing, on either side" "$(counts)" "$counts"
    done
done <ref/cases

# What a list is the past of has a new name too.
if has_python pyarrow; then
    "$PY" - <<'PYTHON'
import pyarrow as pa
f = [pa.field("item", pa.string()), pa.field("past", pa.list_(pa.string()), metadata={"ctr.history_of": "item"})]
t = pa.table([pa.array(["a", "b"]), pa.array([["x"], []])], schema=pa.schema(f))
with pa.OSFile("past.arrows", "wb") as s, pa.ipc.new_stream(s, t.schema) as w: w.write_table(t)
PYTHON
    history_of() { "$PY" -c 'import pyarrow as pa, sys
for f in pa.ipc.open_stream(sys.stdin.buffer).schema: print((f.metadata or {}).get(b"ctr.history_of", b"-").decode(), end=" ")'; }
    is "--prefix" "$(ctr-join --by-row --prefix r. past.arrows past.arrows | history_of)" "- item - r.item "
    is "the left side's, when the right's does not come out" \
        "$(ctr-join -k item --prefix r. past.arrows past.arrows 2>/dev/null | history_of)" "- item item "
else
    skip "history_of" "no pyarrow"
fi
# ---- no match at all: both first keys are named, -q or not
printf 'user,day\n17,1\n18,2\n' | ctr-import -q -f csv --header -c user:utf8,day:int8 -o ids.arrows
printf 'uid,day,n\nu17,1,5\n' | ctr-import -q -f csv --header -c uid:utf8,day:int8,n:int8 -o names.arrows
ctr-join -q -k user=uid,day names.arrows ids.arrows -o none.arrows 2>said
is "no match at all is said with the first keys" "$(cat said)" \
    'ctr-join: no row has a match: the first key here is user (utf8) 17, day (int8) 1, the first in names.arrows is uid (utf8) u17, day (int8) 1'
is "and one match is enough" "$(ctr-join -q -k day names.arrows ids.arrows -o none.arrows 2>&1)" ''
done_testing
