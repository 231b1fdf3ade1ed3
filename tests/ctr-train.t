#!/bin/sh
# ctr-train lr: agrees with an independent implementation, does not depend on how rows arrive, resumes to the same bytes,
# says what is wrong with bad input.
. "${0%/*}/lib.sh"
has_python json || skip_all "no python"
REF="$CTR_TOP/tests/model_reference.py"
cd "$W" || exit 1

train() { ctr-train lr -q "$@"; }
# agrees STREAM REFERENCE-OPTIONS -- OPTIONS
agrees() {
    _s=$1 _ref=$2
    shift 3
    train --progressive ap.arrows -o am.arrows "$@" "$_s" && ref learned "$_s" am.arrows ap.arrows $_ref
}
ref make onehot 4000 onehot.arrows || exit 1
ref make mixed 2500 mixed.arrows || exit 1
ctr-select --head 800 -o short.arrows mixed.arrows

# ---- the algorithm
ok 'agrees with the reference, one-hot' agrees onehot.arrows '' --
ok 'alpha, beta, l1, l2' agrees onehot.arrows 'alpha=.3 beta=.5 l1=.4 l2=.2' -- --alpha .3 --beta .5 --l1 .4 --l2 .2
ok 'lists, weighted keys, dense, shared tables, row weights, fractions' agrees short.arrows 'l1=.1' -- --l1 .1
ok 'without a bias' agrees short.arrows 'bias=0' -- --no-bias
ok 'three passes' agrees short.arrows 'passes=3' -- --passes 3
ok 'f32 is near' agrees short.arrows 'tolerance=1e-3' -- --precision f32
ok 'minibatches' agrees onehot.arrows 'minibatch=64 l1=.1 tolerance=2e-5' -- --minibatch 64 --l1 .1
ok 'minibatches of lists, that do not divide the passes' agrees short.arrows 'minibatch=37 passes=2 tolerance=2e-5' -- --minibatch 37 --passes 2
ok 'minibatches of few rows, weights, fractions' agrees short.arrows 'minibatch=7 tolerance=2e-5' -- --minibatch 7 --precision f32 -j 3
ok 'keys of 8 bits' agrees onehot.arrows 'hash-bits=8' -- --hash-bits 8
for j in 1 3; do
    ok "minibatches of scaled rows, -j $j" agrees onehot.arrows 'minibatch=8 normalize=l2 tolerance=2e-5' -- --minibatch 8 --normalize l2 -j $j
done
ok 'keys of 20 bits, minibatches' agrees onehot.arrows 'hash-bits=20 minibatch=64 tolerance=2e-5' -- --hash-bits 20 --minibatch 64
for n in l1 l2 max; do ok "rows of norm 1: $n" agrees short.arrows "normalize=$n" -- --normalize $n; done
ok 'one-hot rows of norm 1' agrees onehot.arrows 'normalize=l2' -- --normalize l2
ok 'dropout' agrees onehot.arrows 'dropout=.3' -- --dropout .3
ok 'dropout: another seed, two passes, minibatches, norm, few bits' \
    agrees onehot.arrows 'dropout=.5 seed=7 passes=2 minibatch=16 normalize=l1 hash-bits=10 tolerance=2e-5' -- \
    --dropout .5 --seed 7 --passes 2 --minibatch 16 --normalize l1 --hash-bits 10
ref make timed 3000 timed.arrows || exit 1
ok 'keys that did not come for 2 days expire' agrees timed.arrows 'expire=2' -- --expire 2
ok 'for 1 day, but for 150 that are left' agrees timed.arrows 'expire=1 expire-floor=150' -- --expire 1 --expire-floor 150
ok 'in other layouts' agrees timed.arrows 'expire=2 learning-rate=counts tolerance=1e-3' -- --expire 2 --learning-rate counts --precision f32
ok 'a month: none' agrees timed.arrows 'expire=3000' -- --expire 3000
forgetful() { ! agrees timed.arrows 'expire=2' -- --expire 1; }
[ "$SAN" ] || ok 'the check of expiry can fail' forgetful
dropped() { ! agrees onehot.arrows 'dropout=.3 seed=1' -- --dropout .3; }
[ "$SAN" ] || ok 'the seed matters' dropped
wrong() { ! agrees onehot.arrows 'alpha=.100001' --; }
[ "$SAN" ] || ok 'the check can fail' wrong

# ---- the same bytes however rows arrive
train -o m.arrows --progressive p.arrows mixed.arrows
train -o m4.arrows --progressive p4.arrows -j 4 mixed.arrows
ok '-j 4: the same model' cmp m.arrows m4.arrows
ok '-j 4: the same predictions' cmp p.arrows p4.arrows
if command -v taskset >/dev/null; then
    taskset -c "$(taskset -cp $$ | sed 's/.*: *//; s/[-,].*//')" ctr-train lr -q -o m1.arrows --progressive p1.arrows mixed.arrows
    ok 'one processor, no thread reads ahead: the same model' cmp m.arrows m1.arrows
    ok 'and the same predictions' cmp p.arrows p1.arrows
else
    skip 'one processor' 'no taskset'
fi
ctr-cat --batch 7 mixed.arrows >small.arrows
ctr-cat --batch 7 mixed.arrows | train --progressive p7.arrows >m7.arrows
ok 'small batches through a pipe: the same predictions' cmp p.arrows p7.arrows
ok 'and the same model' same_rows m.arrows m7.arrows
train --progressive - -o mm.arrows mixed.arrows >pp.arrows
changes='--normalize l2 --dropout .2 --hash-bits 12 --seed 3'
# shellcheck disable=SC2086
{
    train $changes -o cm.arrows --progressive cp.arrows mixed.arrows
    train $changes --progressive cp7.arrows small.arrows >cm7.arrows
}
ok 'changed rows, small batches: the same predictions' cmp cp.arrows cp7.arrows
ok 'and the same model' same_rows cm.arrows cm7.arrows
is 'a model of few bits has one table' "$(ref column cm.arrows table | sort -u | paste -sd,)" \
    '(bias),(hashed)'
head -c 200000 small.arrows >broken.arrows
# shellcheck disable=SC2086
{
    exits 'changed rows: the input breaks off' 1 train $changes --checkpoint cc.ckpt -o x.arrows --progressive xp.arrows broken.arrows
    ok 'and the run is resumed' train $changes --checkpoint cc.ckpt --resume -o cmr.arrows --progressive cpr.arrows small.arrows
}
ok 'to the same model' cmp cm7.arrows cmr.arrows
ok 'and the same predictions' cmp cp.arrows cpr.arrows
train --expire 2 --expire-floor 50 -o tm.arrows --progressive timep.arrows timed.arrows
ctr-cat --batch 7 timed.arrows >timed7.arrows
train --expire 2 --expire-floor 50 --progressive tp7.arrows timed7.arrows >tm7.arrows
ok '--expire, small batches: the same predictions' cmp timep.arrows tp7.arrows
ok 'and the same model' same_rows tm.arrows tm7.arrows
head -c 100000 timed7.arrows >timedcut.arrows
exits '--expire: the input breaks off' 1 train --expire 2 --expire-floor 50 --checkpoint te.ckpt -o x.arrows --progressive x.p timedcut.arrows
ok 'and the run is resumed' train --expire 2 --expire-floor 50 --checkpoint te.ckpt --resume -o tr.arrows --progressive trp.arrows timed7.arrows
ok 'to the same model' cmp tm7.arrows tr.arrows
ok 'and the same predictions' cmp tp7.arrows trp.arrows
# Keys of `a` come on the first day alone; the resumed run has never seen them.
awk 'BEGIN { for (i = 0; i < 600; i++)
    printf "{\"t\":\"2024-01-0%dT10:00:00Z\",\"a\":[%s],\"b\":%d,\"click\":%d}\n", 1 + int(i / 100), i < 100 ? i % 7 : "", i % 13, i % 3 == 0 }' |
    ctr-import -q --format jsonl --columns 't:timestamp,a:list<int64>,b:int64,click:int8' >gone.raw
printf 'label click\nkeep t\nfeature a\nfeature b\n' >gone.plan
ctr-extract -q gone.plan gone.raw | ctr-cat --batch 7 >gone.arrows
train --expire 2 --time t -o gone1.arrows gone.arrows
head -c $(($(wc -c <gone.arrows) - 2000)) gone.arrows >gonecut.arrows
exits '--expire: the input breaks off when a table has none left' 1 train --expire 2 --time t --checkpoint g.ckpt -o x.arrows gonecut.arrows
train --expire 2 --time t --checkpoint g.ckpt --resume -o gone2.arrows gone.arrows
ok 'a table whose keys have all expired is in neither model' cmp gone1.arrows gone2.arrows
ctr-select --head 1500 --rest later.arrows timed.arrows >earlier.arrows
train --expire 2 -o e1.arrows earlier.arrows
train --expire 2 --init e1.arrows -o e2.arrows later.arrows
train --expire 2 -o e3.arrows timed.arrows
ok '--init goes on with the days' same_rows e3.arrows e2.arrows
ctr-select --columns -day e1.arrows >dayless.arrows
ok 'a model without days can be gone on from' train --expire 2 --init dayless.arrows -o dayfull.arrows later.arrows
ok 'and predicts' sh -c 'ctr-predict dayfull.arrows timed.arrows >tscores.arrows'
exits '--expire without a time' 2 ctr-train lr --expire 2 -o x.arrows onehot.arrows
err_like 'names the option' '--time'
for o in '--expire 2' '--inclusion bloom=1' '--optimizer rda' '--learning-rate counts' '--power .7' '--precision f64' '--precision q2.13' \
    '--uncertainty --progressive x.p'; do
    # shellcheck disable=SC2086
    exits "minibatches and $o" 2 ctr-train lr -q --minibatch 30 $o -o x.arrows timed.arrows
    err_like 'are refused, with the remedy' "by minibatches takes no [-][-]$(echo "${o#--}" | cut -d" " -f1): leave it or --minibatch out|leave --precision out|no uncertainty by minibatches"
done
exits '--expire with passes' 2 ctr-train lr --expire 2 --passes 2 -o x.arrows timed.arrows
for bad in '--hash-bits 33' '--dropout 1' '--dropout -.1' '--normalize l3'; do
    # shellcheck disable=SC2086
    exits "$bad" 2 ctr-train lr $bad -o x.arrows onehot.arrows
done
for s in onehot mixed; do
    train --minibatch 100 --progressive bp.arrows -o bm.arrows -j 1 $s.arrows
    for j in 2 3 8 20; do
        train --minibatch 100 --progressive bp4.arrows -o bm4.arrows -j $j $s.arrows
        ok "--minibatch, $s, -j $j: the same model" cmp bm.arrows bm4.arrows
        ok "--minibatch, $s, -j $j: the same predictions" cmp bp.arrows bp4.arrows
    done
    ctr-cat --batch 7 $s.arrows | train --minibatch 100 -j 3 --progressive bp7.arrows >bm7.arrows
    ok "--minibatch, $s: small batches, the same predictions" cmp bp.arrows bp7.arrows
    ok "--minibatch, $s: and the same model" same_rows bm.arrows bm7.arrows
done
# Denormal numbers are numbers, on each thread: of one key a field, and with a dense column.
awk 'BEGIN { srand(3); print "user,ad,age,w,click"
  for (i = 0; i < 600; i++) print int(rand() * 9) "," int(rand() * 9) "," (rand() < .5 ? 1e-40 : 3e-41) "," (rand() < .5 ? 1e-310 : 1) "," (rand() < .3) }' >tiny.csv
printf 'label click\nkeep w\nfeature user\nfeature ad\n' >ones.plan
printf 'dense age\n' | cat ones.plan - >dense.plan
for s in ones dense; do
    ctr-import -q --format csv --header tiny.csv | ctr-extract -q $s.plan >tiny-$s.arrows
    for o in '' '--minibatch 16' '--optimizer rda'; do
        train --weight w --l1 0 $o --progressive d.arrows -j 1 tiny-$s.arrows >want.arrows
        for how in '-j 3' '-j 4 --uncertainty'; do
            case $o$how in --minibatch*uncertainty) continue ;; esac
            train --weight w --l1 0 $o --progressive d.arrows $how tiny-$s.arrows >got.arrows
            ok "denormals, $s, $o $how: the same model" same_rows want.arrows got.arrows
        done
        command -v taskset >/dev/null || continue
        taskset -c "$(taskset -cp $$ | sed 's/.*: *//; s/[-,].*//')" ctr-train lr -q --weight w --l1 0 $o tiny-$s.arrows >got.arrows
        ok "denormals, $s, $o one processor: the same model" same_rows want.arrows got.arrows
    done
done
last() { ctr-export -c score --no-header "$1" | tail -n 1; }
printf 'label click\ndense age\n' >age.plan
ctr-import -q --format csv --header tiny.csv | ctr-extract -q age.plan >tiny-age.arrows
train --normalize max --progressive last.p -o last.m tiny-age.arrows
ctr-select --head 599 tiny-age.arrows | train --normalize max -o before.arrows
ctr-predict -q -j 2 -o last.q before.arrows tiny-age.arrows
is 'denormals: ctr-predict says what the learner would' "$(last last.q)" "$(last last.p)"
exits '--minibatch 0' 2 ctr-train lr --minibatch 0 -o x.arrows onehot.arrows
ok 'progressive on stdout' cmp p.arrows pp.arrows
ok 'and the model in a file' cmp m.arrows mm.arrows
exits 'both on stdout is a usage error' 2 ctr-train lr --progressive - mixed.arrows
err_like 'and says so' 'two outputs on one stdout'
is 'columns that are not features pass through' "$(ctr-info p.arrows | sed '1,/^column/d' | awk '{ printf "%s %s,", $1, $3 }')" \
    'row id,click label,w weight,note -,score score,'
ctr-select --columns note,word,vec,age,text,past,item,w,b,a,click,row mixed.arrows | ctr-cat --batch 333 >reversed.arrows
train -o mr.arrows reversed.arrows
ok 'the order of columns does not matter' same_rows m.arrows mr.arrows
if has_python pyarrow; then
    ref foreign mixed.arrows foreign.arrows
    train -o me.arrows --progressive pe.arrows foreign.arrows
    ok 'dictionary-encoded features, dense float64: the same model' same_rows m.arrows me.arrows
    ok 'and the same predictions' ref same p.arrows pe.arrows
else
    skip 'dictionary-encoded features, dense float64' 'no pyarrow'
fi
train --passes 3 -o m3.arrows mixed.arrows
train --passes 3 --spool spool.arrows <mixed.arrows >m3s.arrows
ok '--spool: passes over a pipe' cmp m3.arrows m3s.arrows
exits '--passes over a pipe without it' 2 ctr-train lr --passes 2 -o x.arrows
err_like 'says so' 'needs files that can be read again, or --spool'
exits 'over a file that is not there' 1 ctr-train lr --passes 2 -o x.arrows absent.arrows
err_like 'is told as such' 'absent.arrows: cannot open: No such file'
ok 'no output is left behind' test ! -e x.arrows

# ---- warm start
train -o half.arrows onehot.arrows
ok '--init goes on from z and n' train --init half.arrows -o twice.arrows onehot.arrows
train --passes 2 -o two.arrows onehot.arrows
ok 'as a second pass would' same_rows two.arrows twice.arrows

# ---- checkpoints
train -o want.arrows --progressive wantp.arrows --l1 .2 --passes 2 --uncertainty small.arrows
run() { timeout "$@" ctr-train lr -q --l1 .2 --passes 2 --checkpoint c.ckpt --checkpoint-every 200 --resume \
    --progressive gotp.arrows --uncertainty -o got.arrows small.arrows; }
killed_runs '' run 004 006 008 010 013 016 020 024 030 040
ok 'the model of a run that was never killed' cmp want.arrows got.arrows
ok 'and its predictions, with their uncertainty' cmp wantp.arrows gotp.arrows
is 'the checkpoint is gone, with all that was beside it' "$(ls c.ckpt* 2>/dev/null)" ''

# A checkpoint in the middle of a minibatch: its rows are read, and learned, again.
for s in onehot mixed; do
    ctr-cat --batch 37 $s.arrows >odd.arrows
    head -c "$(($(wc -c <odd.arrows) / 2))" odd.arrows >half.odd
    for j in 1 3; do
        train --minibatch 100 --passes 2 --progressive bp.arrows -o bm.arrows -j $j odd.arrows
        mini="ctr-train lr -q --minibatch 100 --passes 2 --checkpoint b.ckpt --progressive bpr.arrows -o bmr.arrows -j $j"
        exits "--minibatch, $s, -j $j: a truncated input fails" 1 $mini half.odd
        ok 'and leaves a checkpoint' test -s b.ckpt
        ok '--resume goes on' $mini --resume --checkpoint-every 1 odd.arrows
        ok 'to the same model' cmp bm.arrows bmr.arrows
        ok 'and the same predictions' cmp bp.arrows bpr.arrows
    done
done

mkfifo pipe
ctr-train lr --checkpoint t.ckpt -o t.arrows --progressive tp.arrows <pipe 2>term.err &
pid=$!
{ # rows are learned, mostly all that there are; the pipe has its writer until the run has ended
    head -c 200000 small.arrows
    until_true grep -q ' 256  ' term.err
    sleep .5
    kill -TERM $pid
    until_true test -e term.over
} >pipe &
wait $pid
is 'SIGTERM on an idle pipe: status 1' $? 1
: >term.over
ok 'a checkpoint' test -s t.ckpt
is 'and what to do' "$(grep -c 'run the same command with --resume to go on' term.err)" 1
ok 'no model yet' test ! -e t.arrows -a ! -e tp.arrows
ok '--resume goes on' ctr-train lr --resume --checkpoint t.ckpt -o t.arrows --progressive tp.arrows small.arrows
train -o u.arrows --progressive up.arrows small.arrows
ok 'to the same model' cmp t.arrows u.arrows
ok 'and the same predictions' cmp tp.arrows up.arrows

make_ckpt() { # a checkpoint of the first 200 rows of small.arrows
    rm -f d.ckpt*
    ! head -c 100000 small.arrows | ctr-train lr -q --checkpoint d.ckpt >d.model && test -s d.ckpt
}
ok 'a truncated input fails and leaves its checkpoint' make_ckpt
ctr-select --head 150 --rest tail.arrows -o head.arrows small.arrows
{ sleep 1; cat tail.arrows; } | ctr-train lr -q --resume --flush 20ms --checkpoint d.ckpt -o slow.arrows head.arrows - 2>err
is 'a pipe that is slow behind a file' "$? $(cat err)" '0 '
ok 'a checkpoint' make_ckpt
exits 'other options are refused' 2 ctr-train lr --alpha .7 --resume --checkpoint d.ckpt -o x.arrows small.arrows
err_like 'with both' 'alpha=0.1 .*alpha=0.7 .*the same options'
exits 'another input is refused' 1 ctr-train lr --resume --checkpoint d.ckpt -o x.arrows reversed.arrows
err_like 'and says so' 'are not those that d.ckpt was made from'
exits 'predictions that were not kept' 2 ctr-train lr --resume --checkpoint d.ckpt --progressive x.p -o x.arrows small.arrows
err_like 'say so' 'without --progressive'
! head -c 100000 small.arrows | ctr-train lr -q --checkpoint e.ckpt --progressive e.p -o e.arrows
exits 'predictions that were kept and are not asked for' 2 ctr-train lr --resume --checkpoint e.ckpt -o x.arrows small.arrows
err_like 'say so' 'e.ckpt was made with --progressive'
ok 'and stay' test -s e.ckpt.scores
exits 'a model is no checkpoint' 1 ctr-train lr --resume --checkpoint m.arrows -o x.arrows small.arrows
err_like 'and says so' 'm.arrows is no checkpoint'
for how in '' --resume; do
    exits "a checkpoint that cannot be made, $how" 1 ctr-train lr $how --checkpoint no/where -o x.arrows small.arrows
    err_like 'is known before anything is learned' '^ctr-train: --checkpoint: no/where: a file cannot be made there'
    ok 'so that there is no model' test ! -e x.arrows
done
cp d.ckpt kept.ckpt
exits 'a new run over it is refused' 2 ctr-train lr --checkpoint d.ckpt --checkpoint-every 1 -o x.arrows small.arrows
err_like 'and says what it would lose' '^ctr-train: d.ckpt: holds a run that stopped after row 210 of pass 1: go on with --resume, or remove it to start anew'
ok 'it is as it was' cmp kept.ckpt d.ckpt
ok 'a checkpoint predicts' sh -c 'ctr-predict d.ckpt small.arrows >/dev/null'
exits '--resume needs --checkpoint' 2 ctr-train lr --resume small.arrows
exits 'a time that is none' 2 ctr-train lr --checkpoint-every often --checkpoint x small.arrows
err_like 'names the option' "checkpoint-every wants .* not 'often'"

# ---- errors
bad() { ref set mixed.arrows bad.arrows "$1" "$3" "$2"; } # bad COLUMN ROW VALUE : change one value of mixed.arrows
while read -r column value says; do
    bad "$column" 1234 "$value"
    exits "$column $value is an error" 1 ctr-train lr -q -o x.arrows bad.arrows
    err_like 'that names file and row' "bad.arrows: row 1234: $says"
done <<'LIST'
click 2 the label .column click. is 2, but must be in
click nan the label .column click. is nan
click -1e-9 the label .column click. is -1e-09
click null the label .column click. is null
w -1 the weight .column w. is -1, but must be finite and not negative
w inf the weight .column w. is inf
w null the weight .column w. is null
age inf a value of column age is infinite as float32, which dense numbers of a plan are .up to 3.4e38.; of a number x, if.abs.x. < 1e38, x, 0. in the plan is none
LIST
printf 'click,x\n1,2\n0,1e39\n1,inf\n' | ctr-import -f csv --header --label click -c click,x:float64 -o large.arrows
printf 'label click\ndense d = x\n' >large.plan
exits 'a dense number of a plan beyond float32' 1 ctr-train mlp -q -o x.arrows large.plan large.arrows
err_like 'is told of' 'row 2: a value of column d is infinite as float32, which dense numbers of a plan are .up to 3.4e38.'
printf 'click,x\n1,2\n0,1e30\n1,3\n' | ctr-import -f csv --header --label click -c click,x:float64 | ctr-extract large.plan |
    ctr-select --add 'd=if(d == 2, d, if(d == 3, 1.0 / 0, d * 1e12))' -o beyond.arrows
exits 'a float64 beyond float32' 1 ctr-train mlp -q -o x.arrows beyond.arrows
err_like 'is said' 'beyond.arrows: row 2: 1.0000000150474662e[+]42 in column d is beyond float32, which dense numbers are .3.4e38.; log1p'
exits 'two bad numbers' 0 ctr-train mlp --bad-rows skip=2 -o x.arrows beyond.arrows
err_like 'are counted apart' '2 of 3 rows are bad and left out: 1 dense d beyond float32, 1 dense d NaN or infinite$'
rm x.arrows
ok 'no model is left of a failed run' test ! -e x.arrows
exits 'an unknown model' 2 ctr-train lrr mixed.arrows
err_like 'names the nearest' "no model 'lrr'; the nearest is 'lr'$"
exits 'another unknown model' 2 ctr-train gbdt mixed.arrows
err_like 'shows which there are' "no model 'gbdt'; there are lr, mlp, "
train --hash-bits 4 -o hashed.arrows mixed.arrows
exits '--init of other hash bits' 2 ctr-train lr -q --init hashed.arrows -o x.arrows mixed.arrows
err_like 'says which' 'hashed.arrows: --init: the model was learned with --hash-bits 4, not 0'
ok '--init of the same' ctr-train lr -q --hash-bits 4 --init hashed.arrows -o x2.arrows mixed.arrows
exits '--expire-floor alone' 2 ctr-train lr --expire-floor 3 mixed.arrows
err_like 'names what it goes with' 'expire-floor goes with --expire'
exits 'a checkpoint that cannot be made' 1 ctr-train lr -q --checkpoint none/c -o x.arrows mixed.arrows
err_like 'is found out at the start' 'none/c: a file cannot be made there'
exits '--patience alone' 2 ctr-train mlp --patience 3 mixed.arrows
err_like 'names what it goes with' 'patience goes with --validation'
exits 'an option of the other model' 2 ctr-train mlp --inclusion bloom=2 mixed.arrows
err_like 'as it is typed' 'mlp takes no --inclusion$'
exits 'another' 2 ctr-train mlp --no-bias mixed.arrows
err_like 'as it is typed' 'mlp takes no --no-bias$'
exits 'no model at all' 2 ctr-train
exits 'alpha 0' 2 ctr-train lr --alpha 0 mixed.arrows
err_like 'is named' 'alpha must be above 0'
# The last row's update has no prediction after it that would show the damage.
printf 'y,x,w\n1,1,1\n1,1,1e300\n' | ctr-import --format csv --header >huge.arrows
printf 'label y\nweight w\ndense x\n' >huge.plan
ctr-extract huge.plan huge.arrows >huge-x.arrows
exits 'a state that overflows is no model' 1 ctr-train lr -q -o huge-m.arrows huge-x.arrows
err_like 'and says what to do' "the model's state is infinite or not a number: weights or values of features are too large; scale them"
ok 'and there is none' test ! -e huge-m.arrows
exits 'nor is a weight that overflows' 1 ctr-train lr -q --optimizer ogd -o huge-m.arrows huge-x.arrows
err_like 'which is said alike' "the model's state is infinite or not a number"
# Its weight can overflow where its state does not: n is so small that its power is 0.
printf 'label y\ndense x\n' >tiny.plan
printf 'y,x\n0,1\n1,1e-180\n0,1\n1,1e-170\n' | ctr-import --format csv --header --columns y:int8,x:float64 | ctr-extract tiny.plan - >tiny-x.arrows
finite_or_said() {
    if [ -e tiny-m.arrows ]; then ! ctr-export -c weight --no-header tiny-m.arrows | grep -e nan -e inf; else grep 'not a number' err; fi
}
for o in ftrl rda "rda --learning-rate counts" ogd fobos; do
    # shellcheck disable=SC2086
    ctr-train lr -q --no-bias --optimizer $o --beta 0 --power 1 -o tiny-m.arrows tiny-x.arrows 2>err
    ok "--optimizer $o --beta 0 --power 1: weights that are numbers, or none and its reason" finite_or_said
    rm -f tiny-m.arrows
done
printf 'y,x,w\n1,1,1e308\n0,1,1e308\n' | ctr-import --format csv --header --columns y:int8,x:float64,w:float64 | ctr-extract huge.plan - >huge-x.arrows
exits 'weights of rows that add up to infinity' 1 ctr-train lr -q --optimizer ogd --learning-rate counts -o huge-m.arrows huge-x.arrows
err_like 'are named, with their row' 'row 2: the weights of the rows add up to infinity: divide them by a constant'
# A full disk in the middle of many keys.
seq 20000 | sed 's/$/,1,86400/' | ctr-import -q --format csv --columns k:int64,y:int8,t:timestamp --time t:unix >keys.arrows
printf 'label y\ntime t\nfeature k\n' >keys.plan
ctr-extract keys.plan keys.arrows >keys-x.arrows
for o in '' '--expire 1' '--optimizer rda'; do
    # shellcheck disable=SC2086
    ctr-train lr -q $o -o keys.model keys-x.arrows
    is "20,000 keys $o: all are saved, and the bias" "$(ctr-select --columns key keys.model | ctr-info --json | sed -n 's/.*"rows":\([0-9]*\).*/\1/p')" 20001
    exits "a full device $o" 1 sh -c "ctr-train lr -q $o keys-x.arrows >/dev/full"
    err_like 'says so' 'No space left on device'
done
# So many that two threads digest them, where two can run and can be started.
seq 70000 | sed 's/$/,1/' | ctr-import -q --format csv --columns k:int64,y:int8 >many.arrows
printf 'label y\nfeature k\n' >many.plan
ctr-extract many.plan many.arrows >many-x.arrows
train -o many.model many-x.arrows
if command -v taskset >/dev/null; then
    taskset -c "$(taskset -cp $$ | sed 's/.*: *//; s/[-,].*//')" ctr-train lr -q -o many1.model many-x.arrows
    ok '70,000 keys, one processor: the same model' cmp many.model many1.model
else
    skip '70,000 keys, one processor' 'no taskset'
fi
exits 'no thread can be started' 0 env ASAN_OPTIONS="verify_asan_link_order=0:${ASAN_OPTIONS:-}" LD_PRELOAD="$CTR_BUILD/fault/inject.so" \
    CTR_INJECT=thread:1+:EAGAIN ctr-train lr -q -o many0.model many-x.arrows
ok 'the same model' cmp many.model many0.model
ctr-select --add 'table=concat("t", key)' -o tables.model many.model
exits 'a model of 70,000 tables' 1 ctr-predict tables.model many-x.arrows
err_like 'is refused' 'tables.model: the model has more than 65535 tables'
# More keys than --memory allows: with a checkpoint the rows before are not learned in vain.
ctr-cat --batch 500 keys-x.arrows >keys500.arrows
train -o keys.model --progressive keys.p keys500.arrows
bounded() { ctr-train lr -q --memory "$1" --checkpoint keys.ckpt --checkpoint-every 1000 --resume -o k.arrows --progressive k.p keys500.arrows; }
exits '--memory that ends in the middle' 1 bounded 300K
err_like 'says what it needs' 'needs [0-9.]+ KiB to go on, --memory allows 300 KiB: raise it'
ok 'leaves a checkpoint, and neither model nor predictions' sh -c 'test -s keys.ckpt && test ! -e k.arrows && test ! -e k.p'
exits 'still too little' 1 bounded 301K
size=$(wc -c <keys.ckpt)
head -c $((size / 2)) keys.ckpt >keys.ckpt.tmp.half01
cp keys500.arrows keys.ckpt.tmp.abcdef
: >keys.ckpt.tmp.empty1
: >keys.ckpt.tmp.nobodys
ok 'with more it goes on' bounded 1M
is 'what a killed run left of a checkpoint is gone, and no other file' "$(echo keys.ckpt*)" 'keys.ckpt.tmp.abcdef keys.ckpt.tmp.nobodys'
ok 'an input that is called like that stays' sh -c 'ctr-train lr -q --checkpoint keys.ckpt -o kk.arrows <keys.ckpt.tmp.abcdef && cmp keys500.arrows keys.ckpt.tmp.abcdef'
rm -f keys.ckpt.tmp.*
ok 'to the model of a run that had it from the start' cmp keys.model k.arrows
ok 'and its predictions' cmp keys.p k.p
# The figure of the summary suffices, however the rows are cut, and does not in parts.
for b in 10 500 100000; do
    ctr-cat --batch $b keys-x.arrows >cut.arrows
    enough=$(ctr-train lr -o cut.model cut.arrows 2>&1 | sed -n 's/^keys .*(\(.*\))/\1/p')
    ok "--memory '$enough', as the summary says, with batches of $b" ctr-train lr -q --memory "$enough" -o k.arrows cut.arrows
    ok 'to the same model' cmp cut.model k.arrows
    exits 'and not nine tenths' 1 ctr-train lr -q --memory "$(echo "$enough" | awk '{ print 0.9 * $1, $2 }')" -o k.arrows cut.arrows
    again=$(sed -n 's/.* needs \(.*\) to go on.*/\1/p' "$W/err")
    ctr-train lr -q --memory "$again" -o k.arrows cut.arrows 2>"$W/err2"
    ok "what it says it needs to go on, $again, goes on" \
        test "$(sed -n 's/.*of \([0-9]*\) keys.*/\1/p' "$W/err2")" -gt "$(sed -n 's/.*of \([0-9]*\) keys.*/\1/p' "$W/err")" -o ! -s "$W/err2"
done
exits 'no label' 2 ctr-train lr p.arrows --label nothing
err_like 'is named' 'nothing'
ctr-train lr -q --label click -o l.arrows mixed.arrows
ok '--label by name' same_rows l.arrows m.arrows
exits 'no features' 2 ctr-train lr p.arrows
err_like 'says who makes them' 'no features.*ctr-extract'
head -c 100000 small.arrows >cut.arrows
exits 'a truncated input' 1 ctr-train lr -q -o x.arrows --progressive x.p cut.arrows
ok 'leaves nothing' test ! -e x.arrows -a ! -e x.p
head -c 20000 mixed.arrows >cut.arrows
exits 'cut before there was anything to keep' 1 ctr-train lr -q --checkpoint none.ckpt -o x.arrows --progressive x.p cut.arrows
is 'leaves nothing beside a checkpoint that is not there' "$(ls none.ckpt* x.arrows x.p 2>/dev/null)" ''
{ sleep .2; cat mixed.arrows; } | ctr-train lr -q --checkpoint none.ckpt -o x.arrows --progressive - | :
is 'nor does a run whose output is not read' "$(ls none.ckpt* 2>/dev/null)" ''
exits 'a model that cannot be written' 1 ctr-train lr -q --checkpoint none.ckpt -o /dev/full --progressive x.p mixed.arrows
is 'nor does a run whose end failed' "$(ls none.ckpt* 2>/dev/null)" ''
no_room() {
    env ASAN_OPTIONS="verify_asan_link_order=0:${ASAN_OPTIONS:-}" LD_PRELOAD="$CTR_BUILD/fault/inject.so" CTR_INJECT=fsync:1+:ENOSPC ctr-train lr -q --checkpoint full.ckpt \
        --checkpoint-every 100 -o full.arrows mixed.arrows
}
exits 'a checkpoint that the disk has no room for' 1 no_room
is 'is said once' "$(grep -c 'No space left' err)" 1
is 'and not tried again' "$(ls full.* 2>/dev/null)" ''
mkfifo idle
ctr-cat --batch 50 mixed.arrows | head -c 60000 >part.arrows
ctr-train lr -q --flush 20ms --checkpoint idle.ckpt --progressive /dev/full -o idle.arrows <idle 2>err &
exec 9>idle
cat part.arrows >&9
ok 'predictions that cannot be written end the run while no input comes' until_true grep -q 'No space left' err
wait $!
is 'with status 1' $? 1
ok 'and its checkpoint' test -s idle.ckpt
exec 9>&-
exits 'an empty input' 1 ctr-train lr -q -o x.arrows
exits '--memory' 1 ctr-train lr -q --memory 10K -o x.arrows onehot.arrows
err_like 'says what it needs' 'needs [0-9.]+ [KM]iB to go on, --memory allows 10 KiB'
ctr-select --head 0 mixed.arrows >none.arrows
ok 'no rows: a model' train -o none.model none.arrows
is 'with nothing but the bias' "$(ref column none.model table)" '(bias)'
train --no-bias -o nothing.model none.arrows
is 'or nothing at all' "$(ref column nothing.model table)" ''

# ---- words
ctr-train lr -o x.arrows mixed.arrows 2>words
is 'a progress table' "$(sed -n '1,2p;4p' words | tr -s ' ')" "average since example example current current current
loss last counter weight label predict features
$(sed -n 4p words | tr -s ' ')"
ok 'rows double' grep -q ' 2048 ' words
ok 'a summary' grep -q '^progressive AUC ' words
is '-q is silent' "$(ctr-train lr -q -o x.arrows mixed.arrows 2>&1)" ''

# ---- numbers that ruin a model
awk -v OFS=, 'BEGIN { s = 3; print "click,age,income"; for (i = 0; i < 2000; i++) { s = s * 16807 % 2147483647; a = s / 2147483647
    s = s * 16807 % 2147483647; print (s / 2147483647 < a), 20 + 60 * a, s % 50000 } }' | ctr-import -q -f csv --header -o raw.arrows
printf '%s\n' 'label click' 'dense age' 'dense income' >raw.plan
printf '%s\n' 'label click' 'dense age = standardize(age)' 'dense income = log_scale(income)' >scaled.plan
ctr-extract -q raw.plan raw.arrows -o raws.arrows
ctr-train lr -o raw.model raws.arrows 2>said
is 'a loss worse than that of the mean label is said, with the columns' "$(grep -c 'log loss .* is worse than 0.69.*: dense age from 20.* to 79.*, income from .*log_scale(x)' said)" 1
is 'and -q is silent' "$(ctr-train lr -q -o raw.model raws.arrows 2>&1)" ''
ctr-train mlp --hidden 4 -o raw.model raws.arrows 2>said
is 'a deep model with few rows suggests --passes' "$(grep -c '2000 rows in one pass are few for mlp: --passes 3 or more' said)" 1
is 'not with --passes' "$(ctr-train mlp --hidden 4 --passes 2 -o raw.model raws.arrows 2>&1 | grep -c 'are few')" 0
ctr-extract -q --fit scaled.plan raw.arrows -o scaled.fitted
ctr-extract -q scaled.fitted raw.arrows | ctr-train lr -o raw.model 2>said
ok 'scaled they rank, and nothing is said' awk '/^progressive AUC/ && $3 > .75 { good = 1 } /worse/ { bad = 1 } END { exit !good || bad }' said

# ---- a model that gives one score to all rows
exits 'an l1 that leaves the bias alone' 0 ctr-train lr -q --l1 1e9 -o constant.model mixed.arrows
err_like 'is told, with -q too' '^ctr-train: the model has collapsed to a constant: its score is 0[.0-9]* for all of [0-9]+ rows, .*: lower --l1, --l2 or --rate'
rm -f constant.model
exits 'and fails with --fail-constant' 1 ctr-train lr -q --l1 1e9 --fail-constant --progressive constant.p -o constant.model mixed.arrows
is 'without outputs' "$(ls constant.* 2>/dev/null)" ''
is 'a model that learns is not' "$(ctr-train lr -q --fail-constant -o x.arrows mixed.arrows 2>&1)" ''

# ---- times that run backwards
awk -v OFS=, 'BEGIN { s = 5; print "click,ad,time"; for (i = 0; i < 900; i++) { s = s * 16807 % 2147483647; t = i * 60 - (i % 100 == 7 ? 5400 : 0) + 86400
    printf("%d,a%d,1970-01-%02dT%02d:%02d:%02dZ\n", s % 5 == 0, s % 40, 1 + t / 86400, t / 3600 % 24, t / 60 % 60, t % 60) } }' >back.csv
printf 'label click\ntime time\nfeature ad\n' >back.plan
ctr-import --format csv --header --time time back.csv | ctr-extract back.plan -o back.arrows
ctr-sort -k time back.arrows -o sorted.arrows
said() { ctr-train lr -o x.arrows "$@" 2>&1 | grep -E 'time before|out of time order'; }
told="ctr-train: row 8 has a time before that of an earlier row: such rows are predicted by a model that has learned from later ones; \
sort by time, or say --time-order ignore
out of time order    9 rows, by up to 1.5h"
is 'rows before an earlier one are counted and said' "$(said back.arrows)" "$told"
is 'of any batches' "$(ctr-cat --batch 7 back.arrows | said -)" "$told"
is 'in the first of two passes' "$(said --passes 2 back.arrows)" "$told"
is 'in minibatches' "$(said --minibatch 64 -j 2 back.arrows)" "$told"
is 'what --expire makes of them, too' "$(said --expire 2 back.arrows | sed -n 's/.*later ones, //p')" \
    'and --expire takes them for rows of the latest day; sort by time, or say --time-order ignore'
is 'sorted ones are none' "$(said sorted.arrows)" ''
is '-q keeps the warning, not the summary' "$(said -q back.arrows)" "$(echo "$told" | head -n 1)"
is 'nor without a look' "$(said --time-order ignore back.arrows)" ''
train --time-order warn -o warned.arrows back.arrows
train --time-order ignore -o ignored.arrows back.arrows
ok 'the model is the same' cmp warned.arrows ignored.arrows
exits 'they can be an error' 1 ctr-train lr -q --time-order fail -o x.arrows back.arrows
err_like 'of a row' 'back.arrows: row 8: its time \(column time\) is 1\.5h before that of an earlier row: sort by time'
ok 'which sorted ones are not' train --time-order fail -o x.arrows sorted.arrows
exits 'fail wants times' 2 ctr-train lr -q --time-order fail -o x.arrows onehot.arrows
err_like 'by name' 'no column has the role time'
ctr-cat --batch 50 back.arrows >back50.arrows
head -c $(($(wc -c <back50.arrows) * 2 / 3)) back50.arrows >backcut.arrows
exits 'the input breaks off' 1 train --checkpoint b.ckpt -o x.arrows backcut.arrows
is 'a run that goes on counts as one that did not stop' "$(said --checkpoint b.ckpt --resume back50.arrows)" "$told"

# ---- where the bias starts
ok 'from a rate' agrees short.arrows 'init-bias=.01 l1=.2 l2=.1' -- --init-bias .01 --l1 .2 --l2 .1
ok 'of rare labels' agrees short.arrows 'init-bias=.999 alpha=.005' -- --init-bias .999 --alpha .005
ok 'from the labels of the first rows' agrees mixed.arrows 'init-bias=-1 alpha=.01 l1=.1' -- --init-bias auto --alpha .01 --l1 .1
ok 'in f32' agrees short.arrows 'init-bias=-1 tolerance=1e-3' -- --init-bias auto --precision f32
ctr-select --head 1100 -o few.arrows onehot.arrows
ok 'by counts of events' agrees few.arrows 'init-bias=-1 learning-rate=counts tolerance=1e-3' -- --init-bias auto --learning-rate counts
ok 'by minibatches' agrees onehot.arrows 'init-bias=.01 minibatch=300 l1=.2 l2=.1 tolerance=2e-5' -- --init-bias .01 --minibatch 300 --l1 .2 --l2 .1
exits 'by minibatches from the first rows' 2 ctr-train lr -q --init-bias auto --minibatch 300 -o x.arrows onehot.arrows
err_like 'is refused, with the remedy' 'init-bias auto .* row by row: give a click rate, or leave --minibatch out'
for how in 'optimizer=rda' 'optimizer=ogd' 'optimizer=fobos l1=.01' 'learning-rate=global' 'optimizer=ogd-count threshold=3'; do
    options=$(echo "$how" | sed 's/tolerance=[^ ]*//; s/\([a-z0-9-]*\)=/--\1 /g')
    # shellcheck disable=SC2086
    ok "with $how" agrees short.arrows "init-bias=-1 $how" -- --init-bias auto $options
done
printf 'label click\nfeature ad\n' >rare.plan # ten clicks take 7000 rows
awk 'BEGIN { print "click,ad"; for (i = 0; i < 9000; i++) printf("%d,a%d\n", i % 700 == 650, i * i % 50) }' | ctr-import --format csv --header |
    ctr-extract rare.plan -o rare.arrows
ok 'until ten clicks have come' agrees rare.arrows 'init-bias=-1 alpha=.005' -- --init-bias auto --alpha .005
is 'which is said' "$(ctr-train lr --init-bias auto -o x.arrows rare.arrows 2>&1 | grep 'bias has started')" \
    "ctr-train: after 7000 rows the bias has started, from -6.500932: a click rate of 0.001500"
train --init-bias auto -o b1.arrows --progressive bp1.arrows rare.arrows
ctr-cat --batch 7 rare.arrows >rare7.arrows
train --init-bias auto -j 3 -o b7.arrows --progressive bp7.arrows rare7.arrows
ok 'by any batches and threads' cmp b1.arrows b7.arrows
head -c 40000 rare7.arrows >rarecut.arrows
exits 'the input breaks off among the first rows' 1 train --init-bias auto --checkpoint bi.ckpt -o x.arrows --progressive x.p rarecut.arrows
ok 'and the run is resumed' train --init-bias auto --checkpoint bi.ckpt --resume -o br.arrows --progressive bpr.arrows rare7.arrows
ok 'to the same model' cmp b7.arrows br.arrows
ok 'and the same predictions' cmp bp7.arrows bpr.arrows
printf 'one\ntwo alpha=.01\nthree precision=f32\nfour optimizer=ogd\nfive learning-rate=counts\nsix bias=no\n' >starts
for rate in auto .01; do
    ok "variants start from $rate" train --variants starts --init-bias $rate -o 'st-%s.arrows' rare.arrows
    for v in 'one ' 'two --alpha .01' 'three --precision f32' 'four --optimizer ogd' 'five --learning-rate counts'; do
        # shellcheck disable=SC2086
        train --init-bias $rate -o alone.arrows ${v#* } rare.arrows
        ok "as when ${v%% *} is alone" same_rows alone.arrows "st-${v%% *}.arrows"
    done
done
exits 'no rate' 2 ctr-train lr --init-bias 1.5 -o x.arrows rare.arrows
err_like 'is said' '--init-bias wants a click rate between 0 and 1, auto, or 0'
exits 'not with --init' 2 ctr-train lr --init-bias auto --init b1.arrows -o x.arrows rare.arrows
exits 'nor without a bias' 2 ctr-train lr --init-bias auto --no-bias -o x.arrows rare.arrows
echo 'seven weight=ad' >>starts
exits 'auto: nor of variants with weights of their own' 2 ctr-train lr --init-bias auto --variants starts -o 'x-%s' rare.arrows
exits 'nor of shared values' 2 ctr-train lr --init-bias auto --variants starts --single-value -o 'x-%s' rare.arrows
exits 'nor of mlp' 2 ctr-train mlp --init-bias auto -o x.arrows rare.arrows
err_like 'by its name' 'mlp takes no --init-bias'
train --init-bias 0 -o b0.arrows rare.arrows
train -o bd.arrows rare.arrows
ok 'the default is 0' same_rows b0.arrows bd.arrows

# ---- real data
if [ -d "$DATA" ]; then
    # The reference takes its time: the first rows do, a few of them under the sanitizers.
    first=${SAN:+400} first=${first:-4000}
    gzip -dc "$DATA/formats/libsvm/a9a.gz" | ctr-import --format libsvm | ctr-select --head $first >a9a.arrows
    ok 'a9a: the reference, coordinate by coordinate' agrees a9a.arrows 'l1=.5' -- --l1 .5
    ctr-import --format csv --header --columns 'row:int64,click:int8,I[1..13]:float64,C[1..26]:utf8' \
        "$DATA"/criteo_small_20k/*.csv.gz | ctr-sort -k row -o criteo.log
    { echo 'label click'; echo 'feature I[1..13] = floor(log1p(I[1..13]) * 2)'; echo 'feature C[1..26]'; } >criteo.plan
    ctr-extract -o criteo.arrows criteo.plan criteo.log
    ctr-select --head $first criteo.arrows >criteo-first.arrows
    ok 'criteo: the reference, coordinate by coordinate' agrees criteo-first.arrows 'alpha=.05' -- --alpha .05
    train --alpha .05 --progressive ap.arrows -o am.arrows criteo.arrows
    auc=$(ref auc ap.arrows 0.5)
    ok "criteo: AUC $auc of the second half, in time order" awk "BEGIN { exit !($auc >= .737) }"
else
    skip 'a9a: the reference, coordinate by coordinate' 'no ../shared/data'
    skip 'criteo: the reference, coordinate by coordinate' 'no ../shared/data'
    skip 'criteo: AUC of the second half, in time order' 'no ../shared/data'
fi
# ---- room for keys ahead: the same bytes, fewer bytes a key where the number is right, any number does
for opts in '--keys 3000' '--keys 1' '--keys 100000 -j 3' '--keys 9000 --precision q2.13'; do
    train ${opts#--keys * } -o plain.m onehot.arrows
    train $opts -o keys.m onehot.arrows
    ok "$opts: the same bytes" cmp plain.m keys.m
done
printf 'label y\nfeature k\n' >news.plan
awk 'BEGIN { print "y,k"; for (i = 0; i < 60000; i++) print i % 2 "," i % 40000 }' | ctr-import -q --format csv --header --label y |
    ctr-extract -q news.plan >news.arrows
ctr-train lr -o plain.m news.arrows 2>free.words
ctr-train lr --keys 40000 -o keys.m news.arrows 2>ahead.words
ok '40,000 keys: the same bytes' cmp plain.m keys.m
ok '40,000 keys that were expected take at most 34.5 bytes each' awk '/^bytes a key/ { b = $4 } END { exit !(b > 0 && b <= 34.5) }' ahead.words
exits 'keys: a number' 2 train --keys x onehot.arrows

# ---- a file is never idle input, however slow the machine reads it: predictions come in the same batches
ctr-cat --batch 3 onehot.arrows >tiny.arrows
train --flush 1h --progressive hour.p -o x.arrows tiny.arrows
for i in 1 2 3 4 5; do
    train --flush 1ms --progressive ms.p -o x.arrows tiny.arrows && cmp hour.p ms.p || break
done >differ
ok 'no flush of a file that is slow to read' test ! -s differ
done_testing
