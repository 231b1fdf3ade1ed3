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
is 'consumers of a signal' "$(s consumers --format jsonl ad | sed 's/,"since".*//')" '{"model":"m1","signal":"ad","version":1,"newest":1,"state":"allowed"
{"model":"other","signal":"ad","version":1,"newest":1,"state":"allowed"'
exits 'alerts: none, and a newer version is no alert' 0 s alerts
is 'but can be seen' "$(s consumers hour | awk '{ print $1, $3, $4 }' | tr '\n' ,)" 'model version newest,m1 1 2,other 1 2,'
exits 'deprecate' 0 s deprecate ad 'ad words'
exits 'alerts its consumers' 3 s alerts ad
err_like 'counts them' '2 alerts$'
is 'each a line' "$(cat out)" 'model  signal  version  alert
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
is 'again: no drift; what failed is not compared with' "$(awk '$1 != "signal" { print $1, $6 }' vet | tr '\n' ,)" 'ad 0.0000,hour 0.0000,price 0.0000,sold -,'
sed 's/^ad1*\([0-9]\),/ad\1,/; s/,[0-9.]*,\([01]\)$/,7000,\1/' log.csv | ctr-import --format csv --header | ctr-extract ads.plan | s vet >vet 2>/dev/null
is 'a changed distribution drifted' "$(grep -c drifted vet)" 3
# Against a stream, without an index: the figures are those of an index whose only vetting is that stream.
ctr-extract ads.plan log.arrows >first.f
sed 's/^ad1*\([0-9]\),/ad\1,/; s/,[0-9.]*,\([01]\)$/,7000,\1/' log.csv | ctr-import --format csv --header | ctr-extract ads.plan >second.f
ctr-signals --db one.db add ads.plan 2>/dev/null && ctr-signals --db one.db vet --max-auc 1 first.f >/dev/null 2>&1
ctr-signals --db one.db vet --max-auc 1 --reference pinned --format jsonl second.f 2>/dev/null | sed 's/"version":[^,]*,//; s/the pinned vetting [0-9]*/REF/g' >index.vet
exits 'vet --against' 3 ctr-signals vet --against first.f --max-auc 1 --format jsonl second.f
is 'the same figures and verdicts' "$(sed 's/"version":[^,]*,//; s/first.f/REF/g' out)" "$(cat index.vet)"
is 'of a stream and itself: no drift, nothing unseen' "$(ctr-signals vet --against first.f --max-auc 1 first.f | awk 'NR > 1 { print $1, $6, $NF }' | tr '\n' ,)" \
    'ad 0.0000 passed,hour 0.0000 passed,price 0.0000 passed,sold 0.0000 passed,'
ctr-select --columns '-hour' second.f -o less.f
exits 'a column that is gone' 3 ctr-signals vet --against first.f --max-auc 1 --max-psi 99 --max-unseen 1 less.f
is 'is absent' "$(awk '/absent from the stream/ { print $1 }' out)" hour
# Numbers of any size: a hundred times as much is drift, and identifiers that float64 rounds to one another are not one.
large() { awk -v k="$1" 'BEGIN { print "micros,id"; for (i = 0; i < 3000; i++) printf "%d,46116860184%08d\n", (50000 + i * 7919 % 10007) * k, i }' |
    ctr-import -q -f csv --header --columns micros:float64,id:int64; }
large 1 >large.arrows
large 100 >larger.arrows
exits 'large numbers that grow' 3 ctr-signals vet --against large.arrows larger.arrows
is 'are drift' "$(awk '/^micros/ { print $10 }' out)" 'drifted:'
is 'each large integer is a value' "$(awk '/^id/ { print ($5 > 2900 && $5 < 3100) }' out)" 1
exits '--against with an index' 2 ctr-signals vet --against first.f --db one.db second.f
err_like 'is a usage error' 'against compares with a stream, and --db is for an index'
exits '--against a file that is not there' 1 ctr-signals vet --against nosuch.f second.f
ok 'no index was made' test ! -e signals.db
ctr-sort --shuffle --seed 3 log.arrows | ctr-select --head 40% >part.arrows
ctr-extract ads.plan part.arrows | s vet --db part.db >/dev/null 2>&1
cp index.db sample.db
is 'history is kept' "$(s vettings --format jsonl ad | wc -l)" 3
ctr-extract ads.plan log.arrows | ctr-train lr -q -o v.arrows
q register v.arrows
exits 'a signal that is not white-listed alerts' 3 s alerts sold
is 'the consumer' "$(tail -n 1 out)" 'v      sold    1        not white-listed'
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
printf 'label click\nkeep ad\nfeature ad\ndense n = hour\nkeep n\n' >kept.plan
s --db kept.db add -q kept.plan 2>/dev/null
exits 'features and numbers that have the name of a kept column' 0 sh -c 'ctr-extract kept.plan log.arrows | ctr-signals --db kept.db vet'
is 'are those of the plan' "$(awk '{ print $1, $2, $NF }' out | tr '\n' ,)" 'signal version verdict,ad 1 passed,n 1 passed,'
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
    is 'lists of fixed length have items' "$(s vet --stream fixed --format jsonl fixed.arrows 2>/dev/null | sed 's/.*"rows":\([0-9]*\),"missing":\([0-9.]*\),"distinct":\([0-9]*\),.*/\1 \2 \3/')" '3 0 5'
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

# ---- days of a log: what is held against what
# day NAME AWK-SETTINGS… : a log of 3000 rows whose columns are signals
day() {
    name=$1
    shift
    awk -v seed=1 -v times=1 -v missing=.01 -v id=u -v without= -v low=0 "$@" 'BEGIN { srand(seed)
        print "user,ad," (without ? "" : "price,") "hour,click"
        for (i = 0; i < 3000; i++) {
            user = int(exp(rand() * 6)); ad = int(rand() * rand() * 30); price = int(exp(rand() * 3) * 100) / 100
            hour = int((rand() + rand()) * 7) + int(low + rand())
            print id user ",ad" ad "," (without ? "" : (rand() < missing ? "" : price * times) ",") hour "," (rand() < .1) } }' |
        ctr-import --format csv --header --label click -o "$name.arrows"
}
# said SIGNAL : its verdict in the last vetting, each number as N; number SIGNAL FIELD
said() { sed -n "s/.*\"signal\":\"$1\".*\"verdict\":\"\(.*\)\"}/\1/p" vet | sed 's/[0-9][0-9.]*/N/g'; }
number() { sed -n "s/.*\"signal\":\"$1\".*\"$2\":\([^,]*\),.*/\1/p" vet; }
vets() { # vets NAME STATUS FILE OPTION… : what it says is in `vet`
    vets_name=$1 vets_status=$2 vets_file=$3
    shift 3
    exits "$vets_name" "$vets_status" s vet --format jsonl "$@" "$vets_file.arrows"
    cp out vet
}
days_db() { # a new index that knows the signals of the log
    rm -f days.db
    export CTR_SIGNALS=$W/days.db
    for d in user ad price hour; do q add --definition "column $d" $d; done
}
day one; day two -v seed=2; day cents -v seed=3 -v times=100; day cents2 -v seed=4 -v times=100
day gaps -v seed=5 -v missing=.6; day none -v seed=6 -v without=1; day upper -v seed=7 -v id=U; day good -v seed=8
days_db
vets 'the first day' 0 one --allow
vets 'the second' 0 two
vets 'price in cents' 3 cents
is 'drifted, from the day before and from the pinned one' "$(said price)" 'drifted: PSI N from vetting N; drifted: PSI N from the pinned vetting N'
vets 'again in cents: a day that failed is no reference' 3 cents2
vets 'and back' 0 good
vets 'missing in 60%' 3 gaps --max-psi 99
is 'for 1% before: a limit of its own' "$(said price)" 'missing in N% of rows, N% in vetting N; missing in N% of rows, N% in the pinned vetting N'
vets 'the limit can be lifted' 3 gaps --max-missing-change .7
is 'missing is a bucket of the distribution too' "$(said price)" 'drifted: PSI N from vetting N; drifted: PSI N from the pinned vetting N'
vets 'both can' 0 gaps --max-missing-change .7 --max-psi 9
vets 'fewer missing are a change as well' 3 one --max-psi 99
is 'from 60% to 1%' "$(said price)" 'missing in N% of rows, N% in vetting N'
days_db
vets 'anew' 0 one
vets 'no column price' 3 none
is 'is absent' "$(said price)" 'absent from the stream'
is 'the others passed' "$(grep -c '"verdict":"passed"' vet)" 3
vets 'it fails until it is there' 3 none
vets 'again' 0 one
vets 'another stream has its own signals' 0 none --stream other
q deprecate price
vets 'or is deprecated' 0 none
days_db
vets 'anew' 0 one
vets 'U17 for u17' 3 upper
is 'was never seen' "$(said user | grep -o 'never seen in vetting N: N% of values')" 'never seen in vetting N: N% of values'
is 'none of it' "$(number user unseen)" 1
vets 'whatever PSI says' 3 upper --max-psi 99
is 'it has a limit of its own' "$(said user)" 'never seen in vetting N: N% of values'
is 'quantities have none' "$(number price unseen)" null
vets 'a limit of 1 lets it pass' 0 upper --max-unseen 1 --max-psi 99
# More values than are kept: a sample of them tells as much.
many() { awk -v from="$1" 'BEGIN { srand(9); print "user,ad,price,hour"; for (i = 0; i < 40000; i++) print "x" from + i % 20000 ",a" i % 7 "," rand() "," i % 24 }' |
    ctr-import --format csv --header -o "many$1.arrows"; }
many 0; many 10000
days_db
vets '20,000 values' 0 many0
vets 'the same again' 0 many0
is 'all are known' "$(number user unseen)" 0
vets 'half of them new' 0 many10000 --max-unseen .7
is 'a half, of a sample' "$(number user unseen | awk '{ print ($1 > .45 && $1 < .55) }')" 1
vets 'half of them new again' 3 many0 --max-unseen .3
# A value that came once is not expected again.
once() { awk -v from="$1" 'BEGIN { print "user,ad,price,hour"; for (i = 0; i < 3000; i++) print "r" i + from ",a" i % 7 ",1." i % 9 "," i % 24 }' |
    ctr-import --format csv --header -o "once$1.arrows"; }
once 0; once 9000
days_db
vets 'an id a row' 0 once0
vets 'other ids' 0 once9000
is 'which are all new' "$(number user unseen)" 1

# Slow: no day is far from the one before.
days_db
failed=0
for i in 0 1 2 3 4 5 6 7 8; do
    day slow -v seed=1$i -v low="$(awk "BEGIN { print $i / 3 }")"
    s vet --format jsonl slow.arrows >vet 2>/dev/null || { failed=$i; break; }
done
is 'a slow drift ends at the pinned vetting' "$(said hour)" 'drifted: PSI N from the pinned vetting N'
ok 'after days that passed' test $failed -gt 2
exits 'unpinned' 0 s unpin hour
vets 'it passes' 0 slow
is 'and stays unpinned' "$(s vettings --format jsonl hour | grep -c '"pinned"')" 0
exits 'pin a vetting by its number' 0 s pin hour 4
vets 'which then counts' 3 slow
exits 'pin one that failed' 1 s pin hour "$(s vettings --format jsonl hour | sed -n '$s/.*"vetting":\([0-9]*\).*/\1/p')"
err_like 'is refused' "'hour' has no such vetting that passed"
exits 'pin one of another signal' 1 s pin hour 1
exits 'pin what is no number' 2 s pin hour yesterday
exits 'pin: the last that passed' 0 s pin hour
vets 'is the reference' 0 slow
is 'the listing says which' "$(s vettings --format jsonl hour | grep -c '"result":"pinned"')" 1
vets 'nothing but the pinned one' 0 slow --reference pinned
exits 'accept what passed' 1 s accept hour
err_like 'there is nothing to accept' "'hour' has no last vetting that failed and saw rows"
day later -v seed=20 -v low=8
vets 'a jump' 3 later
exits 'a person accepts it' 0 s accept hour
vets 'then it passes' 0 later
is 'and the verdict of the day is kept' "$(s vettings --format jsonl hour | sed -n 's/.*"result":"pinned".*"verdict":"\(accepted: drifted\).*/\1/p')" 'accepted: drifted'
# The median of days: one that was let pass does not count for much.
days_db
for d in one two good; do q vet $d.arrows >/dev/null; done
vets 'a wrong day that was let pass' 0 cents --max-psi 99
q unpin price
vets 'is the last' 3 one
vets 'but not the median' 0 one --reference median --days 4
vets 'of another wrong day' 3 cents2 --reference median --days 4
is 'which it names' "$(said price)" 'drifted: PSI N from the median of N vettings'

# Two versions side by side: each has a past of its own. A change of version begins anew.
printf 'label click\nfeature hour\nfeature user\n' >v1.plan
printf 'label click\nfeature hour = hour %% 3\nfeature user\n' >v2.plan
rm -f sides.db
export CTR_SIGNALS=$W/sides.db
q add v1.plan
q add v2.plan
for d in one two good; do
    for v in v1 v2; do
        ctr-extract -o $v.$d.arrows $v.plan $d.arrows
        exits "$v of $d passes" 0 s vet --allow $v.$d.arrows
    done
done
is 'the same signal, no drift' "$(s vettings --format jsonl hour | sed -n 's/.*"psi":\([^,]*\),.*/\1/p' | awk '$1 == "null" { n++; next } $1 > .02 { far++ } END { print n + 0, far + 0 }')" '2 0'
for v in v1 v2; do
    ctr-train lr -q -o $v.model $v.one.arrows
    q register $v.model
done
exits 'consumed side by side: no alerts' 0 s alerts
is 'nothing shown' "$(cat out)" ''
exits 'nor does check say no' 0 s check v1.plan
day late -v seed=30 -v low=9
ctr-extract -o v1.late.arrows v1.plan late.arrows
exits 'v1 fails a vetting' 3 s vet v1.late.arrows
exits 'check says no while the last one failed' 3 s check v1.plan
is 'and why' "$(sed 's/[0-9][0-9.]*/N/g' out | grep -o 'vetting: drifted: PSI N from vetting N; drifted.*')" 'vetting: drifted: PSI N from vetting N; drifted: PSI N from the pinned vetting N; never seen in vetting N: N% of values'
exits 'to the other version it does not matter' 0 s check v2.plan
exits 'alerts: exit 3' 3 s alerts
is 'the consumer of v1' "$(awk 'NR > 1 { print $1, $2, $3, $4 }' out)" 'v1.model hour 1 vetting:'
exits 'in jsonl too' 3 s alerts --format jsonl
exits 'of the other signal none' 0 s alerts user
ctr-extract v1.plan good.arrows | s vet >/dev/null 2>&1
exits 'until it passes' 0 s check v1.plan
exits 'and no alerts' 0 s alerts
# What a plan or a model needs must be there.
printf 'label click\nfeature user\n' >less.plan
exits 'a plan with less is fine in itself' 0 sh -c 'ctr-extract less.plan one.arrows | ctr-signals vet'
exits 'but not for a model that consumes more' 3 sh -c 'ctr-extract less.plan one.arrows | ctr-signals vet --model v1.model --format jsonl'
is 'which is named' "$(sed -n 's/.*"signal":"\([a-z]*\)","version":\([0-9]*\).*"verdict":"absent.*/\1@\2/p' out)" hour@1
exits 'another version of it is not it' 3 s vet --model v1.model v2.one.arrows
exits 'a model that is not known' 1 s vet --model nobody v1.one.arrows
err_like 'is said' "no model 'nobody'"
exits 'v1 passes for its own' 0 s vet --model v1.model v1.one.arrows

# ---- consumers that are not ctrkit's
cat >other.json <<'END'
{"model":"ranker","signal":"user","version":1}
{"model":"ranker","signal":"hour","version":1}

{"model":"bidder","signal":"hour"}
END
consumers() { s consumers --format jsonl | sed 's/{"model":"\([^"]*\)","signal":"\([a-z]*\)","version":\([0-9]*\).*/\1 \2@\3/' | grep -v model | tr '\n' ,; }
exits 'register --json' 0 s register --json other.json
err_like 'says how many' '2 models consume 3 signals'
is 'a version, or the newest' "$(consumers)" 'bidder hour@2,ranker hour@1,ranker user@1,'
exits 'in place of what it consumed' 0 sh -c 'echo "{\"signal\":\"user\",\"version\":1}" | ctr-signals register --json --model ranker -'
is 'no more' "$(consumers)" 'bidder hour@2,ranker user@1,'
before=$(s consumers --format jsonl | sed 's/"since":.*//')
s consumers --format jsonl >all.json
exits 'what consumers prints can be registered' 0 s register --json all.json
is 'and is the same' "$(s consumers --format jsonl | sed 's/"since":.*//')" "$before"
no_json() { # no_json NAME TEXT REGEX
    printf '%s\n' "$2" >no.json
    exits "$1" 1 s register --json no.json
    err_like "$1: why" "$3"
}
no_json 'a version that is not there' '{"model":"x","signal":"user","version":7}' "no.json: row 1: there is no version 7 of signal 'user'"
no_json 'a signal that is not there' '{"model":"x","signal":"user"}
{"model":"x","signal":"nothing"}' "row 2: there is no signal 'nothing' in the index"
no_json 'no model' '{"signal":"user"}' 'row 1 has no model'
no_json 'no signal' '{"model":"x"}' 'row 1 has no signal'
no_json 'a name with a byte 0' '{"model":"x\u0000y","signal":"user"}' 'a name with a byte 0'
no_json 'broken JSON' '{"model":"x","signal"' 'no.json'
no_json 'nothing' '' 'no.json'
no_json 'a version that is no number' '{"model":"x","signal":"user","version":"two"}' 'version'
is 'none of them changed anything' "$(s consumers --format jsonl | sed 's/"since":.*//')" "$before"
exits 'their alerts are like any others' 3 sh -c 'ctr-signals -q deprecate user && ctr-signals alerts'
is 'with their names' "$(awk 'NR > 1 { print $1 }' out | sort | tr '\n' ,)" 'ranker,v1.model,v2.model,'

# The number of a version that was removed belongs to nobody else: deprecations and consumers of other software name it.
for d in ad 'lower(ad)' 'concat(ad)'; do
    echo "feature ad = $d" | sed 's/= ad$//' >n.plan
    q --db n.db remove ad@2 2>/dev/null
    q --db n.db add n.plan
done
is 'a number is not used again' "$(s --db n.db versions --format jsonl | sed 's/.*"version":\([0-9]*\).*"definition":"\([^"]*\)".*/\1 \2/' | tr '\n' ,)" '1 ad,3 concat(ad),'

# ---- an index of version 1
if has_python sqlite3; then
    old() { rm -f old.db; "$PY" -c 'import sqlite3, sys; sqlite3.connect("old.db").executescript(open(sys.argv[1]).read())' "$CTR_TOP/tests/golden/signals-v1.sql"; }
    old
    exits 'an index of version 1 is brought to this one' 0 s --db old.db vettings --format jsonl
    is 'by a listing too' "$(sed -n 's/.*"signal":"\([a-z]*\)".*"result":"\([a-z]*\)".*/\1 \2/p' out | tr '\n' ,)" 'ad passed,price passed,no failed,'
    exits 'once' 0 s --db old.db list
    echo 'feature ad = lower(ad)' >next.plan
    q --db old.db add next.plan
    is 'and counts on' "$(s --db old.db list --format jsonl ad | sed 's/.*"version":\([0-9]*\).*/\1/')" 2
    q --db two.db add n.plan
    "$PY" -c 'import sqlite3; sqlite3.connect("two.db").executescript("ALTER TABLE signal DROP COLUMN last; PRAGMA user_version = 2")'
    cp two.db same.db
    exits 'an index of version 2 is listed' 0 s --db two.db list
    ok 'and stays as it is' cmp two.db same.db
    q --db two.db add next.plan
    is 'until it counts on' "$(s --db two.db list --format jsonl ad | sed 's/.*"version":\([0-9]*\).*/\1/')" 2
    old
    printf 'label click\nfeature ad\ndense price\nfeature no = if(true, null, ad)\n' >old.plan
    exits 'check sees what failed' 3 s --db old.db check old.plan
    awk 'BEGIN { srand(2); print "ad,price,click"
        for (i = 0; i < 300; i++) print "ad" int(rand() * 5) "," (i % 10 ? (int(rand() * 9) + 1) * 100 : "") "," (rand() < .3) }' | ctr-import --format csv --header -o old.arrows
    ctr-extract old.plan old.arrows | s --db old.db vet --format jsonl >vet 2>/dev/null
    is 'its vettings are references, of what they have' "$(for d in ad price no; do said $d; done | tr '\n' ,)" 'passed,drifted: PSI N from vetting N,missing in N% of rows; the same in all rows,'
    old
    for i in 1 2 3 4 5 6; do q --db old.db annotate ad "note $i" 2>>old.err & done
    wait
    is 'six writers at once' "$(cat old.err; s --db old.db notes --format jsonl | wc -l)" 7
    if [ "$(id -u)" != 0 ]; then
        old
        chmod a-w old.db
        exits 'whoever may not write' 1 s --db old.db list
        err_like 'names the remedy' 'a user with permission to write must list it once'
    fi
fi
export CTR_SIGNALS=$W/index.db

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
mkfifo fifo.db
for name in '' :memory: file:x.db 'file::memory:' 'file:x?mode=memory' -; do
    exits "'$name' is no file: add" 2 s --db "$name" add ads.plan
    exits "'$name' is no file: list" 2 s --db "$name" list
done
err_like 'an index is no stream' 'the index is a file, never stdin or stdout'
exits 'an empty variable' 2 env CTR_SIGNALS= ctr-signals add ads.plan
err_like 'is no name' 'the index has an empty name: see --db and CTR_SIGNALS'
exits 'a name of SQLite' 2 s --db :memory: add ads.plan
err_like 'is told, with a way out' "':memory:' is a name that SQLite keeps for itself; a file of this name is ./:memory:"
exits 'by which it is a file' 0 s --db ./file:x.db add ads.plan
is 'like any other' "$(s --db ./file:x.db list --format jsonl | wc -l)" 4
is 'and nothing else was made' "$(find . -name '*memory*' -o -name 'file:*' -o -name '-')" './file:x.db'
exits 'a FIFO' 1 timeout 10 ctr-signals --db fifo.db list
exits 'a device' 1 s --db /dev/null add ads.plan
err_like 'is no index' '/dev/null: not an index of signals: not a regular file'
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
exits 'a change above 1' 2 s vet --max-missing-change 1.5 x.arrows
exits 'unseen above 1' 2 s vet --max-unseen 1.5 x.arrows
err_like 'says what is wanted' '--max-unseen wants 0 to 1'
exits 'days of what is no median' 2 s vet --days 3 x.arrows
exits 'no days' 2 s vet --reference median --days 0 x.arrows
exits 'too many' 2 s vet --reference median --days 32 x.arrows
exits 'a stream without a name' 2 s vet --stream '' x.arrows
exits '-o' 0 s list -o list.txt
is 'writes the same' "$(cat list.txt)" "$(s list)"
exits 'the index is no output' 2 s list -o ./index.db
err_like 'says so' 'index.db is both input and output'
exits '/dev/full' 1 sh -c 'ctr-signals list >/dev/full'
err_like 'says so' 'No space left'
done_testing
