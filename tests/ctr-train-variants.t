#!/bin/sh
# ctr-train lr --variants: each model is, bit for bit, the one that is learned alone, whatever batches, threads, resumption
# and the other variants; bad files are refused with their line.
. "${0%/*}/lib.sh"
has_python json || skip_all "no python"
REF="$CTR_TOP/tests/model_reference.py"
cd "$W" || exit 1

train() { ctr-train lr -q "$@"; }
# what MODEL : the digest of its rows, and its options, weights' digest and plan
what() { ctr-info "$1" | grep -E '^(rows|digest|model_weights|plan_id|model_options|section):'; }

awk 'BEGIN { srand(5); print "user,ad,adv,hour,site,w,click"
  for (i = 0; i < 5000; i++) { u = int(exp(rand() * 7)); a = int(rand() * 60); s = int(exp(rand() * rand() * 6))
    print u "," a "," a % 7 "," int(rand() * 24) "," s "," (i % 3 ? 1 : 0.25) "," (rand() < (a % 5 + u % 3 + 1) / 12) } }' >log.csv
printf 'label click\nkeep w\nfeature user\nfeature ad\nfeature adv\nfeature hour\nfeature site\n' >log.plan
ctr-import -q --format csv --header log.csv | ctr-extract -q log.plan >log.arrows
cat >list <<'LIST'
# name    options
base
slow      alpha=0.02 beta=3     # a comment behind
	sparse  l1=0.7	l2=.5

no-users  out=user
ads       in=ad* alpha=.3
hour.1    in=hour,site,ad out=ad
single    precision=f32
unbiased  bias=no l1=0.1
ogd       optimizer=ogd out=adv
rda       optimizer=rda l1=0.01 precision=f32
few-bits  precision=q2.13
few-bits2 precision=q2.13 out=user alpha=.2
counts    learning-rate=counts
counts2   learning-rate=counts alpha=.3 out=site
counts3   learning-rate=counts optimizer=ogd precision=q2.13 in=user,ad
global    learning-rate=global power=.6
holds     optimizer=ogd-count threshold=2
LIST

# alone NAME COLUMNS OPTIONS… : the variant's model and scores, against those of the model learned alone; under the sanitizers
# of every sixth
turn=0
alone() {
    turn=$((turn + 1))
    [ -n "$SAN" ] && [ $((turn % 6)) -ne 0 ] || compared "$@"
}
compared() {
    _n=$1 _c=$2
    shift 2
    ctr-select --columns "click,$kept,$_c" $log >some.arrows
    train --progressive a.p -o a.arrows $common "$@" some.arrows
    what a.arrows >want
    what "m-$_n.arrows" >got
    ok "$common $_n: the model learned alone" cmp want got
    ctr-export -f csv --columns score a.p | sed 1d >want
    ctr-export -f csv --columns "score.$_n" v.p | sed 1d >got
    ok "$common $_n: and its predictions" cmp want got
}
every=user,ad,adv,hour,site log=log.arrows kept=w
for common in '' '--passes 2' '--precision f32' '--weight w' '--inclusion poisson=.3' '--inclusion bloom=1' '--dropout .2' '--l2 1'; do
    train --variants list -o 'm-%s.arrows' --progressive v.p $common log.arrows
    alone base $every
    alone slow $every --alpha .02 --beta 3
    alone sparse $every --l1 .7 --l2 .5
    alone no-users ad,adv,hour,site
    alone ads ad,adv --alpha .3
    alone hour.1 hour,site
    alone single $every --precision f32
    alone unbiased $every --no-bias --l1 .1
    [ "$common" = '--precision f32' ] && continue # what a line does not name is the command's
    alone ogd user,ad,hour,site --optimizer ogd
    alone rda $every --optimizer rda --l1 .01 --precision f32
    alone few-bits $every --precision q2.13
    alone few-bits2 ad,adv,hour,site --precision q2.13 --alpha .2
    alone counts $every --learning-rate counts
    alone counts2 user,ad,adv,hour --learning-rate counts --alpha .3
    alone counts3 user,ad --learning-rate counts --optimizer ogd --precision q2.13
    alone global $every --learning-rate global --power .6
    alone holds $every --optimizer ogd-count --threshold 2
done
common=
names=$(awk '/^[ \t]*[a-z]/ { print $1 }' list)
is 'a score column a variant, and no other' "$(ctr-info v.p | sed '1,/^column/d' | awk '{ printf "%s ", $1 }')" \
    'click w score.base score.slow score.sparse `score.no-users` score.ads score.hour.1 score.single score.unbiased score.ogd score.rda `score.few-bits` `score.few-bits2` score.counts score.counts2 score.counts3 score.global score.holds '
ok 'ctr-eval takes one by name' sh -c 'ctr-eval --score score.ads v.p >/dev/null'
wrong() { common='--l1 .01'; compared base $every --alpha .1000001 | grep -q '^not ok'; }
ok 'the comparison can fail' wrong
common=

# weights of their own, as of bootstrap samples: of eights, of single variants, and of counts, which then are not shared
printf 'label click\nkeep w\nkeep b1 = hash_bits(user * 60 + ad, 2)\nkeep b2 = if(hour < 12, 0.5, 2)\nkeep b3 = 0 - ad\n' >weighted.plan
sed -n '/^feature/p' log.plan >>weighted.plan
ctr-import -q --format csv --header log.csv | ctr-extract -q weighted.plan >weighted.arrows
cat >weights <<'LIST'
base
w1     weight=b1
w2     weight=b2 alpha=.2
w3     weight=w
w4     weight=b2 l1=.3
w5     weight=b1 out=site
w6     weight=b2 bias=no
w7     weight=b1 beta=2
counts learning-rate=counts
c1     weight=b1 learning-rate=counts
c2     weight=b2 learning-rate=counts alpha=.3 out=site
q1     weight=b1 precision=q2.13
f1     weight=b2 optimizer=fobos l1=.01
s1     weight=b1 precision=f32
LIST
log=weighted.arrows kept=w,b1,b2,b3
for common in '' '--weight w' '--inclusion poisson=.3' '-j 4'; do
    train --variants weights -o 'm-%s.arrows' --progressive v.p $common $log
    alone base $every
    alone counts $every --learning-rate counts
    common=${common#--weight w}
    alone w1 $every --weight b1
    alone w2 $every --weight b2 --alpha .2
    alone w3 $every --weight w
    alone w5 user,ad,adv,hour --weight b1
    alone w6 $every --weight b2 --no-bias
    alone c1 $every --weight b1 --learning-rate counts
    alone c2 user,ad,adv,hour --weight b2 --learning-rate counts --alpha .3
    alone q1 $every --weight b1 --precision q2.13
    alone f1 $every --weight b2 --optimizer fobos --l1 .01
    alone s1 $every --weight b1 --precision f32
done
common=
exits 'a column of weights that is not there' 2 sh -c 'echo "a weight=b9" >bad && ctr-train lr -q --variants bad -o "x-%s" weighted.arrows'
err_like 'is named with its line' "bad: line 1: the stream has no column 'b9' of weights"
exits 'weights twice' 2 sh -c 'echo "a weight=b1 weight=b2" >bad && ctr-train lr -q --variants bad -o "x-%s" log.arrows'
err_like 'is named' "given twice: 'weight'"
exits 'no column' 2 sh -c 'echo "a weight=" >bad && ctr-train lr -q --variants bad -o "x-%s" log.arrows'
exits 'weights of their own with one value' 2 ctr-train lr -q --single-value --variants weights -o 'x-%s' log.arrows
exits 'a negative weight' 1 sh -c 'echo "a weight=b3" >bad && ctr-train lr -q --variants bad -o "x-%s" weighted.arrows'
err_like 'names its column' 'b3'
log=log.arrows kept=w

# Denormal numbers are numbers, on each thread that reads or learns.
awk 'BEGIN { srand(3); print "ad,age,w,click"
  for (i = 0; i < 600; i++) print int(rand() * 9) "," (rand() < .5 ? 1e-40 : 3e-41) "," (rand() < .5 ? 1e-310 : 1) "," (rand() < .3) }' >tiny.csv
printf 'label click\nkeep w\nfeature ad\ndense age\n' >tiny.plan
ctr-import -q --format csv --header tiny.csv | ctr-extract -q tiny.plan >tiny.arrows
printf 'a\nb\nc alpha=.2\nd\n' >four
for o in '' '--weight w --l1 0'; do
    train $o tiny.arrows >a.arrows
    what a.arrows >want
    for j in 1 2 3 4; do
        train $o -j $j --variants four -o 't-%s.arrows' tiny.arrows
        what t-d.arrows >got
        ok "denormals, -j $j $o: the model learned alone" cmp want got
    done
done

# Variants by the default optimizer go in eights: all alike, some without a column or the bias, of both precisions; rest alone.
cat >eights <<'LIST'
e1
e2   alpha=.02 beta=3
e3   l1=.7 l2=.5
e4   alpha=.3 bias=no
e5   beta=.1
e6   l1=.2
e7   l2=2
e8   alpha=.05
s1   precision=f32
s2   precision=f32 alpha=.02 beta=3
s3   precision=f32 l1=.7 l2=.5
s4   precision=f32 alpha=.3 bias=no
s5   precision=f32 out=site
s6   precision=f32 l1=.2
o1   out=user
o2   out=ad
o3   out=adv alpha=.3
o4   out=hour bias=no
o5   out=site l1=.2
o6   out=site beta=2
o7   l1=.5 bias=no
ogd  optimizer=ogd
few  in=ad
few2 in=hour
LIST
eights() {
    alone e1 $every
    alone e4 $every --alpha .3 --no-bias
    alone e8 $every --alpha .05
    alone s3 $every --precision f32 --l1 .7 --l2 .5
    alone s4 $every --precision f32 --alpha .3 --no-bias
    alone s5 user,ad,adv,hour --precision f32
    alone o1 ad,adv,hour,site
    alone o4 user,ad,adv,site --no-bias
    alone o6 user,ad,adv,hour --beta 2
    alone ogd $every --optimizer ogd
    alone few ad
    alone few2 hour
}
for common in '' '--weight w' '--inclusion poisson=.3' '--inclusion bloom=1 --passes 2' '--dropout .2'; do
    case $SAN$common in 1--weight* | 1*poisson*) continue ;; esac
    train --variants eights -o 'm-%s.arrows' --progressive v.p $common log.arrows
    eights
    train --variants eights -j 3 -o 'j-%s.arrows' --progressive j.p $common log.arrows
    ok "$common -j 3: the same predictions" cmp v.p j.p
    for n in e1 s5 o4 ogd few; do ok "$common -j 3: and models" cmp m-$n.arrows j-$n.arrows; done
    for isa in plain avx2; do
        CTR_CPU=$isa ctr-train lr -q --variants eights -o 'j-%s.arrows' --progressive j.p $common log.arrows
        ok "$common $isa: the same predictions" cmp v.p j.p
    done
done
common=

# Lists, weighted keys, shared tables, dense numbers.
ref make mixed 1500 mixed.arrows
{
    printf 'all\nfew in=item,past,vec,word,age alpha=.3\nno-dense out=age,vec l1=.1\n'
    for i in 1 2 3 4 5; do echo "more$i alpha=.0$i"; done # eight of them: in one eight
} >mixed.list
train --variants mixed.list --weight w -o 'x-%s.arrows' mixed.arrows
train -o a.arrows mixed.arrows
is 'mixed columns: all' "$(what x-all.arrows)" "$(what a.arrows)"
ctr-select --columns row,click,w,item,past,vec,word,age mixed.arrows | train --alpha .3 -o a.arrows
is 'mixed columns: few' "$(what x-few.arrows)" "$(what a.arrows)"
ctr-select --columns row,click,w,note,a,b,item,past,word,text mixed.arrows | train --l1 .1 -o a.arrows
is 'mixed columns: no dense' "$(what x-no-dense.arrows)" "$(what a.arrows)"

# ---- the same however rows arrive; those with counts go in step, so that threads are shown without them too
grep -v counts list >list2
train --variants list -o 'm-%s.arrows' --progressive v.p log.arrows
ctr-cat --batch 7 log.arrows >small.arrows
mkdir -p j
for j in 2 3 8; do
    [ -z "$SAN" ] || [ $j = 3 ] || continue
    ctr-cat --batch 7 log.arrows | train --variants list -j $j -o 'j/%s' --progressive j.p
    train --variants list2 -j $j -o 'j/2%s' --inclusion poisson=.5 log.arrows
    train --variants list2 -o 'j/1%s' --inclusion poisson=.5 log.arrows
    for n in $names; do
        cmp -s m-$n.arrows j/$n || echo "$n differs"
        case $n in counts*) continue ;; esac
        cmp -s j/1$n j/2$n || echo "$n differs, with --inclusion"
    done >differ
    is "-j $j, small batches through a pipe: the same models" "$(cat differ)" ''
    is "-j $j: the same predictions" "$(ctr-info --digest j.p)" "$(ctr-info --digest v.p)" # batches follow the pipe
done

# Threads that learn variants with different tables: of keys that are refused they write to rows of their own.
for i in 1 2 3 4 5 6 7 8; do echo "a$i in=user alpha=.$i"; echo "b$i in=site alpha=.$i"; done >apart
train --variants apart -j 1 -o 'j/1%s' --inclusion bloom=1 log.arrows
for i in 1 2 3; do
    train --variants apart -j 2 -o 'j/2%s' --inclusion bloom=1 log.arrows
    for n in a1 a8 b1 b8; do cmp -s j/1$n j/2$n || echo "run $i: $n differs"; done
done >differ
is 'tables apart on two threads, with --inclusion: the same models' "$(cat differ)" ''

# All keys of a tile are new, and all are taken up: more than a block has room for.
awk 'BEGIN { print "click\tu\tv"; for (i = 0; i < 20000; i++) printf "%d\tu%d\tv%d\n", i % 4 == 0, i, 7 * i }' >uniq.tsv
printf 'label click\nfeature u\nfeature v\n' >uniq.plan
ctr-import --header uniq.tsv | ctr-extract -o uniq.arrows uniq.plan
printf 'a\nb alpha=.2\n' >two
for j in 1 2; do
    train --variants two -j $j -o 'j/1%s' uniq.arrows
    train --variants two -j $j -o 'j/2%s' --inclusion poisson=1 uniq.arrows
    for n in a b; do [ "$(ctr-info --digest j/1$n)" = "$(ctr-info --digest j/2$n)" ] || echo "-j $j: $n differs"; done
done >differ
is 'a filter that takes up each of a thousand new keys at once: the same models' "$(cat differ)" ''
train --variants list -o 'k-%s' --progressive want.p --passes 2 --inclusion bloom=1 small.arrows
go() { timeout "$@" ctr-train lr -q --variants list --passes 2 --inclusion bloom=1 --checkpoint c.ckpt --checkpoint-every 500 --resume \
    --progressive got.p -o 'g-%s' small.arrows; }
killed_runs '' go 010 020 030 040 055 070 090
for n in $names; do
    ok "$n: the model of a run that was never killed" cmp k-$n g-$n
done
ok 'and its predictions' cmp want.p got.p
is 'the checkpoint is gone' "$(ls c.ckpt* 2>/dev/null)" ''

# ---- starting from a model, and from a checkpoint
train -o half.arrows log.arrows
exits '--init: a model of another optimizer' 2 ctr-train lr -q --init half.arrows --variants list -o 'i-%s' log.arrows
grep -v -e optimizer -e learning-rate list >list3
train --init half.arrows --variants list3 -o 'i-%s' log.arrows
train --init half.arrows -o a.arrows --alpha .02 --beta 3 log.arrows
is '--init: every variant starts from the model' "$(what i-slow)" "$(what a.arrows)"
ctr-select --columns click,w,ad,adv,hour,site log.arrows >some.arrows
train --init half.arrows -o a.arrows some.arrows
is '--init: a table that is out rests as it was' "$(what i-no-users)" "$(what a.arrows)"
train --init half.arrows --variants eights -o 'i-%s' log.arrows 2>err && echo 'an optimizer was not refused'
grep -v ogd eights >eights2
train --init half.arrows --variants eights2 -o 'i-%s' log.arrows
is '--init: so it does in an eight' "$(what i-o1 | grep -v options)" "$(what a.arrows | grep -v options)"
! head -c 100000 small.arrows | ctr-train lr -q --variants list --checkpoint d.ckpt -o 'd-%s' >/dev/null 2>&1
ok 'a checkpoint of a broken input' test -s d.ckpt
is 'has a section a variant' "$(ctr-info d.ckpt | grep -c '^section: lr')" 17
ok 'and no model' test ! -e d-base
grep -v hour.1 list >less
exits 'other variants are refused' 2 ctr-train lr --variants less --resume --checkpoint d.ckpt -o 'd-%s' small.arrows
err_like 'and the message says so' 'd.ckpt was made with other variants: give the same --variants'
exits 'no variants are' 2 ctr-train lr --resume --checkpoint d.ckpt -o x.arrows small.arrows
ok 'the checkpoint predicts, as its first variant' sh -c 'ctr-predict -q d.ckpt log.arrows >/dev/null'
! head -c 100000 small.arrows | ctr-train lr -q --checkpoint e.ckpt >/dev/null 2>&1
exits 'a checkpoint of one model' 2 ctr-train lr --variants list --resume --checkpoint e.ckpt -o 'd-%s' small.arrows
err_like 'is told' 'e.ckpt was made with no variants'

# ---- one value a coordinate
SINGLE="$CTR_TOP/tests/single_reference.py"
cat >groups <<'LIST'
base
no-users  out=user
ads       in=ad*
hour.1    in=hour,site,ad out=ad
unbiased  bias=no
LIST
single() { train --single-value --variants groups "$@"; }
single -o 's-%s' --progressive s.p log.arrows
ok 'each coordinate takes the mean gradient of those that have it: the reference' "$PY" "$SINGLE" log.arrows groups s.p
single -o 's1-%s' --progressive s1.p --alpha .3 --l1 .2 log.arrows
ok 'with other options' "$PY" "$SINGLE" log.arrows groups s1.p .3 .2
wrong() { ! "$PY" "$SINGLE" log.arrows groups s1.p .3 .21; }
ok 'which the check tells apart' wrong
is 'a variant has the keys of its columns' "$(ctr-export -f csv --columns table s-ads | sed 1d | sort -u | tr '\n' ' ')" '(bias) ad adv '
is 'and none has a bias that it did not want' "$(ctr-export -f csv --columns table s-unbiased | grep -c bias)" 0
ctr-predict -q s-hour.1 log.arrows >/dev/null
ctr-cat --batch 7 log.arrows | single -j 4 -o 't-%s' --progressive t.p
is 'small batches, -j 4: the same predictions' "$(ctr-info --digest t.p)" "$(ctr-info --digest s.p)"
ok 'and the same models' cmp s-ads t-ads
for opt in '--precision f32' '--optimizer ogd --learning-rate counts' '--precision q2.13' '--inclusion bloom=1' '--passes 2 --weight w'; do
    case $SAN$opt in 1*q2.13 | 1*f32 | 1*bloom*) continue ;; esac
    single $opt -o 'k-%s' --progressive want.p small.arrows
    for isa in plain avx2; do
        CTR_CPU=$isa single $opt -o 'i-%s' --progressive i.p small.arrows
        ok "$opt, CTR_CPU=$isa: the same predictions" cmp i.p want.p
        ok "$opt, CTR_CPU=$isa: the same models" cmp i-no-users k-no-users
    done
    go() { timeout "$@" ctr-train lr -q --single-value --variants groups $opt --checkpoint c.ckpt --checkpoint-every 500 --resume \
        --progressive got.p -o 'g-%s' small.arrows; }
    for ms in 010 020 030 040; do
        go --foreground -s KILL "0.$ms" 2>/dev/null
    done
    ok "$opt: killed and resumed" go 600
    ok "$opt: the same models" cmp k-no-users g-no-users
    ok "$opt: the same predictions" cmp want.p got.p
done
# Leaving each column out, alone and with others: the order of the variants is nearly that of exact learning.
awk 'BEGIN { print "base"; split("user ad adv hour site", c)
    for (m = 1; m < 31; m++) { s = ""; for (i = 0; i < 5; i++) if (int(m / 2 ^ i) % 2) s = s "," c[i + 1]; print "v" m " out=" substr(s, 2) } }' >many
ctr-train lr --variants many -o 'x-%s' log.arrows 2>exact.words
ctr-train lr --single-value --variants many -o 'x-%s' --progressive m.p log.arrows 2>single.words
ok 'which are as the reference has them' "$PY" "$SINGLE" log.arrows many m.p
rho=$("$PY" "$SINGLE" ranks exact.words single.words)
ok "31 variants by AUC: rank correlation $rho with the exact ones" awk "BEGIN { exit !($rho > .95) }"
bytes() { awk '/^keys / { gsub(/[(]/, ""); print $3 * ($4 ~ /^M/ ? 1024 : 1) }' "$1"; }
awk 'BEGIN { split("user ad adv hour site", c); for (m = 0; m < 100; m++) print "v" m " out=" c[m % 5 + 1] }' >hundred
ctr-train lr --variants hundred -o 'x-%s' log.arrows 2>exact.words
ctr-train lr --single-value --variants hundred -o 'x-%s' log.arrows 2>single.words
ok "100 variants in a tenth of the memory: $(bytes single.words) of $(bytes exact.words) KiB" \
    awk "BEGIN { exit !($(bytes single.words) * 10 < $(bytes exact.words)) }"
ok 'the summary says so' grep -Eq '^shared values +0\.[1-9][0-9]* bytes a key for each of 100 variants$' single.words
ctr-train lr --single-value --variants hundred --inclusion bloom=1 -o 'x-%s' log.arrows 2>bloom.words
ok 'without the filter, whose bytes stand in a line of their own' awk '/^bytes a key/ { all = $4 } /^shared values/ { own = $3 }
    END { exit !(own > 0 && own * 100 < all + 6 && own * 100 > all - 6) }' bloom.words
rm -f x-*
exits '--single-value without variants' 2 ctr-train lr --single-value -o x log.arrows
exits 'options of its own' 2 ctr-train lr --single-value --variants list -o 'x-%s' log.arrows
err_like 'are refused with their line' 'list: line 3: with --single-value a variant can have in, out and bias of its own'
! head -c 100000 small.arrows | ctr-train lr -q --variants groups --checkpoint f.ckpt -o 'd-%s' >/dev/null 2>&1
exits 'a checkpoint of exact variants' 2 ctr-train lr --single-value --variants groups --resume --checkpoint f.ckpt -o 'd-%s' small.arrows
err_like 'is told' 'f.ckpt was made with other variants'

# ---- memory and words
ctr-train lr --variants list -o 'm-%s.arrows' log.arrows 2>words
ok 'bytes a key' grep -Eq '^bytes a key +[0-9.]+, [0-9.]+ for each of 17 variants$' words
printf 'a\nb precision=q2.13\nc precision=q2.13 alpha=3 beta=.1\n' >cuts
ctr-train lr --precision q2.13 --alpha 3 --beta .1 -o a.arrows log.arrows 2>alone.words
ctr-train lr --variants cuts -o 'm-%s.arrows' log.arrows 2>cuts.words
is 'what q2.13 cuts off is counted' "$(grep '^cut off' cuts.words)" "$(grep '^cut off.* [1-9][0-9]* values$' alone.words), of 1 variants among 2 with q2.13"
ok 'a row of results a variant' grep -Eq '^unbiased +0\.[0-9]{6} +0\.[0-9]{4}$' words
# Bytes a key are at most those of the manual's formula, FIXED + EACH n, and not far below (60,000 keys).
awk 'BEGIN { for (i = 0; i < 60000; i++) print i "," i % 3 "," (i % 7 == 0) }' | ctr-import -q --format csv --columns k:int32,few:int8,click:int8 >keys.arrows
printf 'label click\nfeature k\nfeature few\n' >keys.plan
ctr-extract -q keys.plan keys.arrows >keys-x.arrows
while read -r n fixed each opts; do
    [ -z "$SAN" ] || [ "$n" -lt 64 ] || continue
    awk "BEGIN { for (i = 0; i < $n; i++) print \"v\" i \" alpha=.\" 1 + i }" >same
    # shellcheck disable=SC2086
    ctr-train lr --variants same $opts -o 'k-%s' keys-x.arrows 2>words
    ok "$n variants $opts: $(sed -n 's/^bytes a key *//p' words), at most $fixed + $each $n" \
        awk -v most=$((fixed + each * n)) '/^bytes a key/ { b = $4 + 0 } END { exit !(b <= most && b > .85 * most) }' words
done <<'LIST'
1 23 16
8 23 16
16 23 16
64 23 16
8 23 8 --precision f32
16 23 8 --precision f32
16 41 16 --optimizer ogd
16 41 8 --precision q2.13
16 41 8 --precision q2.13 --learning-rate counts
LIST
rm -f k-v*
exits '--memory' 1 ctr-train lr -q --variants list --memory 100K -o 'x-%s' log.arrows
err_like 'says what it needs' 'keys of 17 variants need [0-9.]+ KiB to go on, --memory allows 100 KiB'

# ---- errors
while IFS='|' read -r line says; do
    printf 'first\n%b\n' "$line" >bad
    exits "'$line' is refused" 2 ctr-train lr -q --variants bad -o 'x-%s' log.arrows
    err_like 'with its line' "bad: line 2: $says"
done <<'LIST'
two alpha=0|alpha must be above 0, not '0'
two alpha=|alpha must be above 0, not ''
two alpha=1x|alpha must be above 0
two l1=-1|l1 must be 0 or more
two precision=f16|precision must be
two bias=maybe|bias must be yes or no
two alpa=1|a variant can have alpha, .* not 'alpa=1'
two minibatch=10|a variant can have alpha
two alpha|wants option=value.* not 'alpha'
two in=|an empty pattern in ''
two in=ad,,site|an empty pattern
two in=ad in=site|given twice: 'in'
two alpha=1 l1=2 alpha=1|given twice: 'alpha'
two bias=no bias=yes|given twice: 'bias'
two in=nothing|no feature column of the stream matches 'nothing'
two out=us[e|no feature column of the stream matches 'us\[e'
two in=ad out=a*|no feature is left in
two optimizer=rda learning-rate=global precision=q2.13|with rda and one global rate
first l1=1|line 1 has that name already: 'first'
../two|a name is letters
-two|a name is letters
.two|a name is letters
a/b|a name is letters
two\0 l1=1|a zero byte after 'two'
LIST
printf 'a out=past\n' >bad
exits 'a table that is half in' 2 ctr-train lr -q --variants bad -o 'x-%s' mixed.arrows
err_like 'says which' "line 1: column 'past' is out, but others of its table 'shared' are in"
printf '# nothing\n\n' >bad
exits 'no variants at all' 2 ctr-train lr -q --variants bad -o 'x-%s' log.arrows
err_like 'say so' 'bad: no variants'
awk 'BEGIN { for (i = 0; i < 1025; i++) print "v" i }' >bad
exits 'too many' 2 ctr-train lr -q --variants bad -o 'x-%s' log.arrows
err_like 'say so' 'line 1025: more than 1024 variants'
ctr-select --where 'w > 2' tiny.arrows >none.arrows
exits 'no rows' 0 ctr-train lr -q --variants four -o 'n-%s.arrows' none.arrows
is 'of which the sanitizers say nothing' "$(cat err)" ''
is 'models without a key' "$(ctr-info n-d.arrows | grep ^rows:)" "$(ctr-train lr -q none.arrows | ctr-info | grep ^rows:)"
exits 'no such file' 1 ctr-train lr -q --variants absent -o 'x-%s' log.arrows
for out in x.arrows 'x-%d' 'x-%s-%s' '%%s'; do
    exits "-o $out is a usage error" 2 ctr-train lr -q --variants list -o "$out" log.arrows
done
err_like 'that says how' 'such as m-%s.arrows'
exits 'no -o' 2 ctr-train lr -q --variants list log.arrows
cp log.arrows m-base
exits 'a model that would replace the input' 2 ctr-train lr -q --variants list -o 'm-%s' m-base
err_like 'is refused' 'm-base is both input and output'
exits '--minibatch' 2 ctr-train lr -q --variants list --minibatch 8 -o 'x-%s' log.arrows
exits '--normalize and features left out' 2 ctr-train lr -q --variants list --normalize l2 -o 'x-%s' log.arrows
printf 'a out=user\nb out=user alpha=.3\n' >bad
exits 'by all of them' 2 ctr-train lr -q --variants bad --normalize l2 -o 'x-%s' log.arrows
exits 'that rest as --init had them' 2 ctr-train lr -q --variants bad --normalize l2 --init half.arrows -o 'x-%s' log.arrows
err_like 'are refused' 'line 1: --normalize takes the norm of whole rows'
head -c 60000 log.arrows >cut.arrows
exits 'a truncated input' 1 ctr-train lr -q --variants list -o 'x-%s' --progressive x.p cut.arrows
is 'no model is left of a failed run' "$(ls x-* x.p 2>/dev/null | grep -v '^x-.*\.arrows$')" ''

# ---- a file that another system's editor wrote
printf 'base\nslow alpha=0.02\n' >unix.txt
{ printf '\357\273\277'; sed "s/\$/$(printf '\r')/" unix.txt; } >dos.txt
train --variants unix.txt -o 'unix-%s.arrows' log.arrows
train --variants dos.txt -o 'dos-%s.arrows' log.arrows
ok 'a byte order mark and CR at line ends' sh -c 'cmp unix-base.arrows dos-base.arrows && cmp unix-slow.arrows dos-slow.arrows'
# ---- outputs that are one file
printf 'a alpha=.1\nb alpha=.2\n' >links.variants
: >one
ln -s one l-a.arrows && ln -s one l-b.arrows
exits 'two variants whose files are links to one' 2 ctr-train lr -q --variants links.variants -o l-%s.arrows --progressive p.arrows rows.arrows
err_like 'are refused' 'l-b.arrows is given for two outputs'
ok 'before anything is written' test ! -s one
done_testing
