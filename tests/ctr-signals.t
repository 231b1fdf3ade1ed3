#!/bin/sh
# ctr-signals: versions, white list, consumers, alerts, vetting; concurrent writers; indexes that are none.
. "${0%/*}/lib.sh"
[ -x "$CTR_BUILD/bin/ctr-signals" ] || skip_all 'ctr-signals was left out of the build'
cd "$W" || exit 1
export CTR_SIGNALS=$W/index.db
s() { ctr-signals "$@"; }
q() { ctr-signals -q "$@"; }

awk 'BEGIN { srand(7); print "ad,hour,sold,price,click"
    for (i = 0; i < 6000; i++) { a = int(rand() * 20); c = rand() < (a % 4 + 1) / 10
        print "ad" a "," int(rand() * 24) "," (c ? i : "") "," (i % 3 ? rand() * 10 : "") "," c } }' >log.csv
ctr-import --format csv --header -o log.arrows log.csv
cat >ads.plan <<'X'
label click
feature ad
clock = hour % 12
feature hour = cross(clock, ad)
dense price
feature sold = not is_null(sold)
X

# ---- adding, versions
exits 'no index yet' 1 s list
err_like 'says how to make one' "index.db: no index of signals; .ctr-signals add. makes one"
exits 'add' 0 s add --owner ann --platform web,app ads.plan
err_like 'counts' '4 new signals, 0 new versions, 0 known'
is 'list' "$(s list)" 'signal  version  state  owner  platform  consumers  description
ad      1        new    ann    web,app   0          -
hour    1        new    ann    web,app   0          -
price   1        new    ann    web,app   0          -
sold    1        new    ann    web,app   0          -'
is 'a definition shows what it stands on' "$(s versions --format jsonl hour | sed 's/.*"definition"//')" \
    ':"cross(clock, ad); clock = (hour % 12)"}'
sed 's/clock/c2/; s/cross(clock/cross( c2/; s/^dense/# other words\ndense/' ads.plan >same.plan
exits 'the same plan in other words' 0 s add same.plan
err_like 'has the same signals' '0 new signals, 0 new versions, 4 known'
sed 's/% 12/% 8/' ads.plan >new.plan
exits 'another definition' 0 s add new.plan
err_like 'is a new version' '0 new signals, 1 new version, 3 known'
echo 'feature g = x == 18446744073709551615' >big
echo 'feature g = x == -1' >minus
ctr-signals --db big.db add big 2>err
exits 'another integer' 0 ctr-signals --db big.db add minus
err_like 'is a new version, whatever its bits' '0 new signals, 1 new version, 0 known'
echo 'feature g in h = x == -1' >minus
exits 'another table' 0 ctr-signals --db big.db add minus
err_like 'is a new version' '0 new signals, 1 new version, 0 known'
is 'both are kept' "$(s versions --format jsonl hour | sed 's/.*"version":\([0-9]*\).*; /\1 /')" '1 clock = (hour % 12)"}
2 clock = (hour % 8)"}'
exits 'by hand' 0 s add --definition 'SELECT words FROM ads' --owner bob --description 'words of the ad' 'ad words'
is 'is listed' "$(s list 'ad words' | tail -n 1)" 'ad words  1        new    bob    -         0          words of the ad'

# ---- check, white list
exits 'check: nothing is white-listed' 3 s check ads.plan
is 'and each is named' "$(grep -c 'not white-listed' out)" 4
for n in ad hour@1 price sold; do q allow $n; done
exits 'check: all white-listed' 0 s check ads.plan
is 'shows nothing' "$(cat out)" ''
exits 'check: a version that is not' 3 s check new.plan
is 'is named alone' "$(cat out)" 'signal  version  problem
hour    2        not white-listed'
exits 'check: for a platform' 0 s check --platform app ads.plan
exits 'check: not for a platform' 3 s check --platform tv ads.plan
printf 'label click\nfeature zone\nfeature ad = lower(ad)\n' >strange.plan
exits 'check: unknown signals' 3 s check --format jsonl strange.plan
is 'and unknown definitions' "$(cat out)" '{"signal":"zone","version":null,"problem":"not in the index"}
{"signal":"ad","version":null,"problem":"defined otherwise than in any version"}'
q disallow ad
exits 'disallow' 3 s check ads.plan
q allow ad

# ---- consumers, deprecation, alerts, clean-up
ctr-extract ads.plan log.arrows >x.arrows
ctr-train lr -q -o m1.arrows x.arrows
exits 'register' 0 s register m1.arrows
err_like 'says how many' "model 'm1' consumes 4 signals"
exits 'under a name' 0 s register --model other m1.arrows
is 'consumers of a signal' "$(s consumers --format jsonl ad | sed 's/,"since".*//')" '{"model":"m1","signal":"ad","version":1,"state":"allowed"
{"model":"other","signal":"ad","version":1,"state":"allowed"'
is 'alerts: a newer version' "$(s alerts)" 'model  signal  version  alert
m1     hour    1        there is a newer version
other  hour    1        there is a newer version'
exits 'deprecate' 0 s deprecate ad 'ad words'
is 'alerts its consumers' "$(s alerts ad)" 'model  signal  version  alert
m1     ad      1        deprecated: use ad words
other  ad      1        deprecated: use ad words'
exits 'check refuses it' 3 s check ads.plan
is 'and says what to use' "$(cat out)" 'signal  version  problem
ad      1        deprecated: use ad words'
exits 'in favour of itself' 2 s deprecate hour hour
exits 'a version in favour of itself' 2 s deprecate hour@1 hour@1
exits 'of what is not there' 1 s deprecate hour nothing
err_like 'is named' "no signal 'nothing'"
exits 'a used signal is not removed' 1 s remove sold
err_like 'for its consumers' "'sold' has 2 consumers"
q unregister other
is 'unused' "$(s unused | awk '{ print $1 "@" $2 }' | tr '\n' ' ')" 'signal@version hour@2 ad@words '
is 'unused for a day: none' "$(s unused --older 1d)" ''
q remove 'ad words'
exits 'removed' 1 s list 'ad words'
ctr-extract strange.plan - <"$W/log.arrows" >/dev/null 2>&1
printf 'label click\nfeature ad\nfeature hour\n' >two.plan
ctr-extract two.plan log.arrows | ctr-train lr -q -o m1.arrows
exits 'a model with signals that are not in the index' 1 s register m1.arrows
err_like 'is refused' "signal 'hour' of model 'm1' is not in the index as it is defined there"
is 'and changes nothing' "$(s consumers --format jsonl | wc -l)" 4
q add two.plan
q register m1.arrows
is 'a model trained anew consumes its new signals only' "$(s consumers --format jsonl | sed 's/.*"signal":"\([a-z]*\)","version":\([0-9]\).*/\1@\2/' | tr '\n' ' ')" \
    'ad@1 hour@3 '
q annotate ad 'from the ad server'
is 'annotations' "$(s notes --format jsonl ad | sed 's/"time":"[^"]*",//')" '{"signal":"ad","text":"from the ad server"}'

# ---- --where
is 'where owner' "$(s list --where owner=a* --format jsonl | wc -l)" 4
is 'where state and signal' "$(s list --where state=allowed --where 'signal=p*' --format jsonl | sed 's/,.*//')" '{"signal":"price"'
is 'a platform of the list' "$(s list --where platform=app --format jsonl | wc -l)" 4
is 'no platform but it' "$(s list --where platform=tv --format jsonl | wc -l)" 0
is 'a bracket stands for itself' "$(s list --where 'signal=[ap]*' --format jsonl | wc -l)" 0
exits 'another field' 2 s list --where colour=red
exits 'no pattern' 2 s list --where owner

# ---- vetting
rm -f index.db
q add ads.plan
ctr-extract ads.plan log.arrows | s vet --allow --format jsonl >vet 2>err
is 'vet: exit 3 for a leak' $? 3
is 'the leak is named' "$(sed -n 's/{"signal":"\([a-z]*\)".*"verdict":"\([a-z?]*\).*/\1 \2/p' vet | tr '\n' ',')" \
    'ad passed,hour passed,price passed,sold leak?,'
is 'rows, missing, distinct' "$(sed -n 's/.*"signal":"ad".*"rows":\([0-9]*\),"missing":\([0-9.]*\),"distinct":\([0-9]*\),.*/\1 \2 \3/p' vet)" '6000 0 20'
is 'a third has no price' "$(sed -n 's/.*"signal":"price".*"missing":\(0.33\).*/\1/p' vet)" 0.33
is 'what passed is white-listed' "$(s list --where state=allowed --format jsonl | sed 's/,.*//' | tr '\n' ' ')" \
    '{"signal":"ad" {"signal":"hour" {"signal":"price" '
ctr-extract ads.plan log.arrows | s vet >vet 2>/dev/null
is 'again: no drift' "$(awk '$1 != "signal" { print $6 }' vet | sort -u)" 0.0000
sed 's/^ad1*\([0-9]\),/ad\1,/; s/,[0-9.]*,\([01]\)$/,7000,\1/' log.csv | ctr-import --format csv --header | ctr-extract ads.plan | s vet >vet 2>/dev/null
is 'a changed distribution drifted' "$(grep -c drifted vet)" 3
ctr-sort --shuffle --seed 3 log.arrows | ctr-select --head 40% >part.arrows
ctr-extract ads.plan part.arrows | s vet --db part.db >/dev/null 2>&1
cp index.db sample.db
is 'history is kept' "$(s vettings --format jsonl ad | wc -l)" 3
is 'a failed vetting alerts the consumer' "$(ctr-extract ads.plan log.arrows | ctr-train lr -q -o v.arrows; q register v.arrows; s alerts sold | tail -n 1 | cut -c 1-41)" \
    'v      sold    1        not white-listed'
rm -f new.db
q --db new.db add ads.plan
ctr-select --head 50% log.arrows | ctr-extract ads.plan | s --db new.db vet >/dev/null 2>&1
ctr-select --tail 50% log.arrows | ctr-extract ads.plan | s --db new.db vet >vet 2>/dev/null
is 'two halves of one log are no drift' "$(grep -c drifted vet)" 0
q --db few.db add ads.plan
for part in '--head 100' '--tail 100'; do
    ctr-select $part log.arrows | ctr-extract ads.plan | s --db few.db vet >few.vet 2>/dev/null
done
is 'nor are a hundred rows each, whose noise is known' "$(grep -c drifted few.vet)" 0
exits 'limits' 3 sh -c 'ctr-extract ads.plan log.arrows | ctr-signals vet --max-missing .1 --max-auc 1 --max-psi 99'
is 'are what they are set to' "$(grep -o 'missing in.*\|leak.*' out)" 'missing in 33.3% of rows'
printf 'label click\nfeature one = 1\nfeature none = if(true, null, ad)\n' >const.plan
ctr-extract const.plan log.arrows | s vet >vet 2>/dev/null
is 'a constant' "$(grep -c 'the same in all rows' vet)" 2
# Not .5: the click rate of the rows before is the score, and a click lowers the rank of those behind it.
is 'tells nothing alone; a null is no value' "$(awk '$1 != "signal" { print $1, $4, $7 }' vet | tr '\n' ',')" 'one 0.0000 0.4812,none 1.0000 0.4812,'
is 'not in the index: not kept' "$(awk '$1 == "one" { print $2 }' vet)" -
ctr-import --format csv --header log.csv | s vet --label click >vet 2>/dev/null
is 'a log without roles: each column' "$(awk 'NR > 1 { print $1 }' vet | tr '\n' ' ')" 'ad hour sold price '
if has_python pyarrow; then
    "$PY" -c 'import pyarrow as pa
t = pa.table({"v": pa.array([[1, 2], [3, 4], [1, 5]], pa.list_(pa.float32(), 2))})
with pa.OSFile("fixed.arrows", "wb") as f, pa.ipc.new_stream(f, t.schema) as w: w.write_table(t)'
    is 'lists of fixed length have items' "$(s vet --format jsonl fixed.arrows 2>/dev/null | sed 's/.*"rows":\([0-9]*\),"missing":\([0-9.]*\),"distinct":\([0-9]*\),.*/\1 \2 \3/')" '3 0 5'
fi
ctr-extract ads.plan log.arrows | s vet >vet 2>/dev/null
ctr-select --head 0 log.arrows | ctr-extract ads.plan | s vet >vet 2>/dev/null
is 'no rows' "$(grep -c 'no rows' vet)" 4
is 'which are no distribution to compare with' "$(ctr-extract ads.plan log.arrows | s vet --max-auc 1 2>/dev/null |
    awk '$1 != "signal" { print $6 }' | sort -u)" 0.0000
head -c 3000 x.arrows >cut.arrows
before=$(cksum <index.db)
exits 'vet of a cut stream' 1 s vet cut.arrows
is 'keeps nothing' "$(cksum <index.db)" "$before"

# A value of many millions: its click rate, which falls from row 17 on, must not be stuck where counts of float end.
if [ -z "$SAN" ]; then
    yes 1 | head -n 1048576 | tr '\n' ',' | sed 's/,$//' >million
    rows() { for i in $(seq "$2"); do printf '{"y":%s,"x":[' "$1"; cat million; echo ']}'; done; }
    { rows 0.75 16; rows 0 6; } | ctr-import -f jsonl -c 'y:float32,x:list<int8>' --label y - | s vet >vet 2>/dev/null
    is 'a rate over 22 million values' "$(awk '$1 == "x" { print ($7 > .7) }' vet)" 1
fi

# ---- many at once
rm -f index.db
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
    printf 'label click\nfeature f%d\nfeature common = lower(ad)\n' $i >p$i.plan
    q add p$i.plan 2>>many.err &
done
wait
is 'twelve writers at once' "$(cat many.err; s list --format jsonl | wc -l)" 13
is 'and one common version' "$(s versions --format jsonl common | wc -l)" 1

# ---- hostile names
nl='
'
printf 'label click\nfeature `a"b\\\\c\t\033[2J` = ad\nfeature `%s` = ad\n' "$(awk 'BEGIN { for (i = 0; i < 5000; i++) printf "x" }')" >hostile.plan
exits 'names with quotes and escapes' 0 s add hostile.plan
is 'cannot move the cursor' "$(s list | grep -c "$(printf '\033')")" 0
if has_python json; then
    ok 'and are JSON' sh -c "ctr-signals list --format jsonl | $PY -c 'import json,sys; [json.loads(l) for l in sys.stdin]'"
fi
exits 'SQL in a name is a name' 1 s allow "x'; DROP TABLE signal; --"
is 'the index stands' "$(s list --format jsonl | wc -l)" 15

# ---- files that are no index
no_index() { # no_index NAME REGEX: every action refuses $1 and leaves it as it is
    before=$(cksum <"$1")
    exits "$1: list" 1 s --db "$1" list
    err_like "$1: why" "$2"
    exits "$1: add" 1 s --db "$1" add ads.plan
    is "$1: is untouched" "$(cksum <"$1")" "$before"
}
rubbish 5000 >noise.db
no_index noise.db 'noise.db: not an index of signals'
cp log.csv text.db
no_index text.db 'not an index of signals'
head -c 9000 index.db >short.db
no_index short.db 'short.db: damaged'
{ head -c 4200 index.db; rubbish 3000; tail -c +7201 index.db; } >flip.db
no_index flip.db 'flip.db: damaged'
if has_python sqlite3; then
    "$PY" -c 'import sqlite3; c = sqlite3.connect("foreign.db"); c.execute("CREATE TABLE signal (x)"); c.commit()'
    no_index foreign.db 'of another program'
    cp index.db future.db
    "$PY" -c 'import sqlite3; c = sqlite3.connect("future.db"); c.execute("PRAGMA user_version = 9"); c.commit()'
    no_index future.db 'version 9'
fi
mkdir dir.db
exits 'a folder' 1 s --db dir.db add ads.plan
: >empty.db
exits 'an empty file has nothing to list' 1 s --db empty.db list
exits 'and can become an index' 0 s --db empty.db add ads.plan
exits 'a plan that is none' 2 s add index.db
exits 'a plan that is not there' 1 s add nowhere.plan
if [ "$(id -u)" != 0 ]; then
    chmod -w index.db
    exits 'a file that must not be written' 1 s add ads.plan
    chmod +w index.db
fi

if has_python sqlite3; then # a change that another program left half done is its own business
    "$PY" -c 'import os, sqlite3; c = sqlite3.connect("hot.db", isolation_level=None); c.execute("CREATE TABLE t (x)")
c.execute("PRAGMA cache_size = 1"); c.execute("BEGIN"); c.executemany("INSERT INTO t VALUES (?)", [("x" * 3000,)] * 50); os._exit(0)'
    ok 'a foreign journal is there' test -s hot.db-journal
    no_index hot.db 'of another program'
    ok 'and stays' test -s hot.db-journal
fi

# ---- usage, outputs
exits '-o of what writes no data' 2 s add -o x.txt ads.plan
err_like 'is named' '-o does nothing: add writes no data'
exits 'a role without vet' 2 s list --label click
exits 'a format of what shows nothing' 2 s allow --format jsonl ad
exits 'no action' 2 s
exits 'an unknown action' 2 s lst
err_like 'is guessed' "no action 'lst'; the nearest is 'list'$"
exits 'too many arguments' 2 s check a b
exits 'a model from stdin without a name' 2 s register -
exits 'a stream of features is no model' 1 s register x.arrows
err_like 'says so' 'x.arrows: not a model'
exits 'add: no such plan' 1 s --db none.db add none.plan
ok 'makes no index' test ! -e none.db
exits 'an index in no folder' 1 s --db none/x.db add ads.plan
err_like 'says why' 'none/x.db: unable to open database file: No such file or directory'
exits 'an empty definition' 2 s add --definition '' empty
exits 'annotate without a text' 2 s annotate ad
err_like 'shows how' 'annotate SIGNAL TEXT$'
exits 'a share above 1' 2 s vet --max-missing 2 x.arrows
exits 'an AUC below a half' 2 s vet --max-auc .2 x.arrows
exits 'a negative PSI' 2 s vet --max-psi -1 x.arrows
exits '-o' 0 s list -o list.txt
is 'writes the same' "$(cat list.txt)" "$(s list)"
exits 'the index is no output' 2 s list -o ./index.db
err_like 'says so' 'index.db is both input and output'
exits '/dev/full' 1 sh -c 'ctr-signals list >/dev/full'
err_like 'says so' 'No space left'
done_testing
