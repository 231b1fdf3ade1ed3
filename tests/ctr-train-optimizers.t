#!/bin/sh
# The optimizers of ctr-train lr, with every learning rate and precision: each agrees with an independent implementation, lists and
# files know it, bytes depend on nothing that they should not.
. "${0%/*}/lib.sh"
has_python json || skip_all "no python"
REF="$CTR_TOP/tests/model_reference.py"
cd "$W" || exit 1

train() { ctr-train lr -q "$@"; }
# agrees STREAM REFERENCE-OPTIONS OPTIONS
agrees() {
    _s=$1 _ref=$2
    shift 2
    train $also --progressive ap.arrows -o am.arrows "$@" "$_s" && ref learned "$_s" am.arrows ap.arrows ${also:+uncertainty=1} $_ref
}
flags() { for _o; do echo "--${_o%%=*} ${_o#*=}"; done; } # NAME=VALUE …
# the same options for both: agrees_with STREAM NAME=VALUE …
agrees_with() {
    _with=$1
    shift
    agrees "$_with" "$*" $(flags "$@")
}
ref make onehot 900 onehot.arrows || exit 1
ref make mixed 500 mixed.arrows || exit 1
ctr-select --columns=-age,-vec -o sparse.arrows mixed.arrows # of dense coordinates the reference does not know the draws
optimizers=$(ctr-train lr --help=all | sed -n 's/.*--optimizer \([a-z|-]*\).*/\1/p' | tr '|' ' ')
is 'the optimizers of --help: a new one stands here when tests/model_reference.py and unit-optimizer.c have its update' "$optimizers" 'ftrl ogd rda fobos ogd-count'
for o in $optimizers; do # what follows compares each with tests/model_reference.py, and unit-optimizer with a plain loop of its own
    ok "optimizer $o is in .range of --optimizer, lr_options.c" grep -q "\"optimizer\".*range = .*\b$o\b" "$CTR_TOP/src/common/lr/lr_options.c"
    ok "optimizer $o has an entry in ctr-train-lr(1): .It Cm $o, with its update" grep -q "^\.It Cm $o\$" "$CTR_TOP/man/ctr-train-lr.1"
done

# ---- the arithmetic, of the progressive uncertainty too
also=--uncertainty
threshold() { [ "$1" != ogd-count ] || echo "threshold=$2"; } # OPTIMIZER K : when it has one
for o in $optimizers; do
    for r in per-coordinate counts global; do
        ok "$o, $r" agrees_with onehot.arrows optimizer=$o learning-rate=$r l1=.05 l2=.1 $(threshold $o 3)
        ok "$o, $r: weights, lists, two passes" \
            agrees_with $([ $r = counts ] && echo sparse.arrows || echo mixed.arrows) optimizer=$o learning-rate=$r l1=.02 passes=2 $(threshold $o 2)
    done
    ok "$o: power" agrees_with onehot.arrows optimizer=$o power=.7 alpha=.3 l1=.02
done
for r in counts global; do ok "power, $r" agrees_with onehot.arrows learning-rate=$r power=.3 beta=.5; done
ok 'ogd-count 0 is ogd' sh -c 'ctr-train lr -q --optimizer ogd-count --threshold 0 onehot.arrows | ctr-export >a &&
    ctr-train lr -q --optimizer ogd onehot.arrows | ctr-export >b && cmp a b'
also=
ok 'beta 0' agrees_with onehot.arrows optimizer=ogd beta=0
ref make onehot 6000 long.arrows || exit 1
ok 'counts above 2047 are drawn as the reference draws them' agrees_with long.arrows learning-rate=counts seed=3
wrong() { ! agrees onehot.arrows 'optimizer=rda' --optimizer ogd; }
[ "$SAN" ] || ok 'the check can fail' wrong


# ---- files, and the same bytes however rows arrive: every optimizer, rate and precision
ctr-cat --batch 7 onehot.arrows >small.arrows
# every COMMAND… : with each optimizer, rate and precision that there is; under the sanitizers with each optimizer once, and with each of the
# others: unit-optimizer has all of them there too.
two=
every() {
    _i=-1
    for o in $optimizers; do
        for r in per-coordinate counts global; do
            for p in f64 f32 q2.13; do
                _i=$((_i + 1))
                [ -z "$SAN" ] || [ $((_i % 9)) -eq $((3 * (_i / 9 % 3) + 2 * (_i / 9) % 3)) ] || continue
                [ -z "$two" ] || [ $(((_i / 9 + 2 * (_i / 3) + _i) % 3)) -eq 0 ] || continue
                [ $o-$r-$p = rda-global-q2.13 ] || "$@" --optimizer $o --learning-rate $r --precision $p --l1 .05 $(flags $(threshold $o 2)) --seed 4 || return 1
            done
        done
    done
}
any_two() { # with any two of the three: where a file's layout counts, or how a state is read, and no combination of all
    [ -n "$SAN" ] || two=1
    every "$@"
    _any=$? two=
    return $_any
}
threads() {
    train --uncertainty -o t1.arrows --progressive t1.p -j 1 "$@" mixed.arrows
    train --uncertainty -o t3.arrows --progressive t3.p -j 3 "$@" mixed.arrows
    CTR_CPU=plain train --uncertainty -o tp.arrows --progressive tp.p -j 3 "$@" mixed.arrows
    cmp t1.arrows t3.arrows && cmp t1.p t3.p && cmp t1.arrows tp.arrows && cmp t1.p tp.p || { echo "$@"; return 1; }
}
ok 'the same bytes for any -j and processor' every threads
batches() {
    train --uncertainty -o b1.arrows --progressive b1.p "$@" onehot.arrows && train --uncertainty -o b7.arrows --progressive b7.p "$@" small.arrows &&
        cmp b1.p b7.p && same_rows b1.arrows b7.arrows || { echo "$@"; return 1; }
}
ok 'the same predictions and model for any batches' any_two batches
head -c 60000 small.arrows >cut.arrows
resumes() {
    rm -f c.ckpt*
    set -- --uncertainty "$@"
    train -o want.arrows --progressive want.p "$@" small.arrows
    train --checkpoint c.ckpt -o got.arrows --progressive got.p "$@" cut.arrows 2>/dev/null
    test -s c.ckpt && train --resume --checkpoint c.ckpt -o got.arrows --progressive got.p "$@" small.arrows 2>/dev/null &&
        cmp want.arrows got.arrows && cmp want.p got.p || { echo "$@"; return 1; }
}
ok 'resume: byte for byte the run that never stopped' every resumes
warm() {
    train -o one.arrows "$@" onehot.arrows && train -o twice.arrows --init one.arrows "$@" onehot.arrows &&
        train -o two.arrows --passes 2 "$@" onehot.arrows && same_rows two.arrows twice.arrows || { echo "$@"; return 1; }
}
ok '--init goes on as a second pass would' any_two warm
predicts() {
    train -o m$_i.arrows "$@" onehot.arrows && ctr-predict -o s$_i.arrows m$_i.arrows onehot.arrows || { echo "$@"; return 1; }
    predicted="$predicted m$_i.arrows s$_i.arrows"
}
predicted=
all_predict() { any_two predicts && ref score onehot.arrows $predicted; }
ok 'prediction is that of the weights in the file' all_predict
prunes() {
    train -o m.arrows "$@" mixed.arrows && ctr-select --where 'weight != 0' -o pruned.arrows m.arrows &&
        ctr-select --columns table,key,weight -o bare.arrows m.arrows || return 1
    for f in m pruned bare; do ctr-predict -o $f.p $f.arrows mixed.arrows || return 1; ctr-export --columns score $f.p >$f.s 2>/dev/null || ctr-export $f.p >$f.s; done
    cmp m.s pruned.s && cmp m.s bare.s && ctr-model top -n 3 m.arrows >top.txt && [ "$(wc -l <top.txt)" -ge 3 ] || { echo "$@"; return 1; }
}
ok 'pruned, or without its state, a model predicts the same; top shows it' any_two prunes
edits() {
    train -o m.arrows "$@" onehot.arrows && ctr-select --add 'weight=weight + 0.5' -o edited.arrows m.arrows && ctr-predict -o m.p m.arrows onehot.arrows &&
        ctr-predict -o edited.p edited.arrows onehot.arrows 2>edited.err || return 1
    case "$*" in
    *ftrl*|*rda*|*fobos*) grep -q 'weights did not agree with z and n, which win' edited.err && cmp m.p edited.p ;;
    *) ! cmp -s m.p edited.p && test ! -s edited.err ;;
    esac || { echo "$@"; return 1; }
}
ok 'edited weights: z wins where there is one, else they count' any_two edits
# fobos: what a row without the key takes from a weight is that of the options it was learned with
ctr-select --head 0 -o none.arrows onehot.arrows
others() { # the weights of a model stay what they were when a run of other options begins with it
    train --optimizer fobos -o m.arrows "$@" onehot.arrows && train --optimizer fobos --alpha .02 --l2 .3 --init m.arrows -o other.arrows "$1" "$2" none.arrows 2>/dev/null &&
        ctr-predict m.arrows onehot.arrows | ctr-export --columns score >m.s && ctr-predict other.arrows onehot.arrows | ctr-export --columns score | cmp - m.s
}
for r in per-coordinate counts global; do ok "fobos, $r: --init of other options" others --learning-rate $r --l1 .05; done
shrinks() { # with one key a row, a weight falls by l1 alpha / (beta + sqrt(n)) in each row of another key, to 0 and no further
    awk 'BEGIN { for (i = 0; i < 40; i++) print "{\"y\":1,\"x\":" (i > 4) "}" }' | ctr-import -f jsonl | ctr-extract one.plan >one.arrows
    for n in 5 6 15 40; do
        ctr-select --head $n one.arrows | train --optimizer fobos --no-bias --l1 .07 -o m.arrows && ctr-export --columns weight,n,z,last m.arrows | sed 1d | awk -F, -v n=$n '
            $4 == 5 || n == 5 { w = $3 - (n - 5) * .07 * .1 / (1 + sqrt($2)); w = w > 0 ? w : 0; d = w - $1; found = 1
                if (d * d > 1e-30 || (n == 40) != ($1 == 0)) { print n, $0, w; exit 1 } } END { exit !found }' || return 1
    done
}
printf 'label y\nfeature x\n' >one.plan
ok 'fobos: a weight whose key does not come shrinks in every row, and is 0 in the end' shrinks
train -o m.arrows --optimizer rda --learning-rate counts onehot.arrows
exits '--init of another optimizer' 2 ctr-train lr -q --optimizer ogd --init m.arrows -o x.arrows onehot.arrows
err_like 'is named' 'learned with --optimizer rda --learning-rate counts, whose state is not that of --optimizer ogd'
train -o m.arrows --learning-rate global onehot.arrows
exits '--init of another alpha, where z goes with it' 2 ctr-train lr -q --learning-rate global --alpha .2 --init m.arrows -o x.arrows onehot.arrows
err_like 'says so' 'goes with its --alpha 0.1'
ctr-select --columns table,key,weight -o bare.arrows m.arrows
exits 'a model without its state' 1 ctr-train lr -q --learning-rate global --init bare.arrows -o x.arrows onehot.arrows
err_like 'cannot learn on' "no column 'z': it can predict but not learn on"

# ---- ctr-predict --uncertainty
ctr-select --head 700 --rest unseen.arrows -o seen.arrows onehot.arrows
uncertain() { # REFERENCE-OPTIONS OPTIONS
    _ref=$1
    shift
    train -o m.arrows "$@" seen.arrows && ctr-predict --uncertainty -o u.p m.arrows onehot.arrows && ref uncertainty onehot.arrows m.arrows u.p $_ref
}
ok 'uncertainty, of keys not seen too' uncertain ''
ok 'alpha, beta, l1' uncertain 'alpha=.3 beta=.5' --alpha .3 --beta .5 --l1 2
ok 'power' uncertain 'power=.7' --power .7
ok 'of counts' uncertain '' --learning-rate counts
ok 'of one rate' uncertain 'steps=700' --learning-rate global
ok 'of ogd' uncertain '' --optimizer ogd --no-bias
ok 'of keys that are held' uncertain '' --optimizer ogd-count
ctr-predict -o plain.p m.arrows onehot.arrows
ok 'scores stay as they are' ref same plain.p u.p
is 'the column has its role' "$(ctr-info u.p | awk '$1 == "uncertainty" { print $2, $3 }')" 'float64 uncertainty'
ctr-select --columns table,key,weight -o bare.arrows m.arrows
exits 'a model without its n' 1 ctr-predict --uncertainty -o x.p bare.arrows onehot.arrows
err_like 'says that it cannot' "no column 'n', without which it cannot tell its uncertainty"
train --beta 0 -o m.arrows seen.arrows
exits 'beta 0' 2 ctr-predict --uncertainty -o x.p m.arrows onehot.arrows
err_like 'has no bound' 'the uncertainty of an unseen key has no bound'
train -o m.arrows seen.arrows
ctr-select --add 'uncertainty=row' -o named.arrows onehot.arrows
exits 'a column of that name' 2 ctr-predict --uncertainty -o x.p m.arrows named.arrows
err_like 'is named' "has a column 'uncertainty' already"

# ---- ctr-train --progressive --uncertainty
beside() { # the model and the scores are those of a run without
    train -o b1.arrows --progressive b1.p "$@" mixed.arrows && train --uncertainty -o b2.arrows --progressive b2.p "$@" mixed.arrows &&
        ctr-select --columns row,click,w,note,score b2.p | ctr-export >b2.txt && ctr-select --columns row,click,w,note,score b1.p | ctr-export >b1.txt &&
        cmp b1.txt b2.txt && same_rows b1.arrows b2.arrows || { echo "$@"; return 1; }
}
ok 'scores and model are those of a run without it' any_two beside
goes_on() { # what ctr-predict says of the next row
    train -o m.arrows "$@" seen.arrows && ctr-predict --uncertainty m.arrows unseen.arrows | ctr-select --columns row,score,uncertainty --head 1 | ctr-export >next &&
        train -o m.arrows --progressive p.p --uncertainty "$@" onehot.arrows && ctr-select --where 'row == 700' --columns row,score,uncertainty p.p | ctr-export | cmp next - ||
        { echo "$@"; return 1; }
}
ok 'bit for bit that of ctr-predict before the next row' any_two goes_on
train --uncertainty --alpha .3 --beta 2 --progressive p.p -o m.arrows onehot.arrows
is 'keys not seen count alpha / beta: two features and the bias' "$(ref column p.p uncertainty | awk 'NR == 1 { printf "%.7f", $1 }')" 0.4500000
is 'the column follows the score' "$(ctr-info p.p | awk '/^score/ { s = NR } $1 == "uncertainty" { print NR - s, $2, $3 }')" '1 float64 uncertainty'
train --uncertainty -o f1.arrows --progressive f1.p -j 1 onehot.arrows
train --uncertainty -o f3.arrows --progressive f3.p -j 3 small.arrows
ok "the same bytes by rows and for -j 3" cmp f1.p f3.p
for n in 2 64 1000; do
    train --passes 2 --l1 .05 --minibatch $n -o rows.arrows small.arrows
    train --passes 2 --l1 .05 --minibatch $n -j 5 --progressive p.p -o fields.arrows onehot.arrows
    ok "the same model for small batches and -j 5, --minibatch $n" same_rows rows.arrows fields.arrows
done
exits 'it needs --progressive' 2 ctr-train lr -q --uncertainty -o x.arrows onehot.arrows
err_like 'and says so' 'uncertainty goes with --progressive'
printf 'one alpha=.1\ntwo alpha=.2\n' >two
exits 'one model' 2 ctr-train lr -q --uncertainty --progressive x.p --variants two -o 'x-%s.arrows' onehot.arrows
err_like 'is all it knows' 'leave --variants out'
exits 'mlp has none' 2 ctr-train mlp -q --uncertainty --progressive x.p -o x.arrows onehot.arrows
err_like 'as is said' 'mlp takes no --uncertainty'
exits 'beta 0 has no bound' 2 ctr-train lr -q --uncertainty --beta 0 --progressive x.p -o x.arrows onehot.arrows
err_like 'as ctr-predict says' 'the uncertainty of an unseen key has no bound'
exits 'a column of that name in the stream' 2 ctr-train lr -q --uncertainty --progressive x.p -o x.arrows named.arrows
err_like 'is named, too' "has a column 'uncertainty' already"
train --checkpoint u.ckpt --uncertainty --progressive x.p -o x.arrows cut.arrows 2>/dev/null
exits 'a checkpoint with it, resumed without' 2 ctr-train lr -q --checkpoint u.ckpt --resume --progressive x.p -o x.arrows small.arrows
err_like 'says which' 'was made with --uncertainty'
rm -f u.ckpt*
train --checkpoint u.ckpt --progressive x.p -o x.arrows cut.arrows 2>/dev/null
exits 'and without it, resumed with' 2 ctr-train lr -q --checkpoint u.ckpt --resume --uncertainty --progressive x.p -o x.arrows small.arrows
err_like 'says that' 'was made without --uncertainty'

# ---- q2.13
train -o a.arrows --precision q2.13 --seed 1 onehot.arrows
train -o b.arrows --precision q2.13 --seed 1 onehot.arrows
train -o c.arrows --precision q2.13 --seed 2 onehot.arrows
ok 'q2.13: a seed repeats its draws' cmp a.arrows b.arrows
differs() { ! same_rows a.arrows c.arrows; }
ok 'and another has others' differs
is 'the summary says what a state holds' "$(ctr-train lr --precision q2.13 --learning-rate counts -o x.arrows onehot.arrows 2>&1 | grep 'a state')" \
    'bytes a state        6: z 2, counts 4'
is 'and with sums of squares' "$(ctr-train lr --precision q2.13 -o x.arrows onehot.arrows 2>&1 | grep 'a state')" 'bytes a state        4: z 2, n 2'
is 'which ogd-count holds' "$(ctr-train lr --precision q2.13 --optimizer ogd-count -o x.arrows onehot.arrows 2>&1 | grep 'a state')" \
    'bytes a state        6: weight 2, n 4'
printf 'y,x\n1,a\n' | awk 'NR == 1 { print } NR == 2 { for (i = 0; i < 200; i++) print }' | ctr-import --format csv --header >sure.csv
printf 'label y\nfeature x\n' >sure.plan
ctr-extract sure.plan sure.csv >sure.arrows
ctr-train lr --optimizer ogd --alpha 50 --precision q2.13 --no-bias -o x.arrows sure.arrows 2>words
ok 'what q2.13 cuts off is counted' grep -Eq '^cut off to .-4, 4.   [1-9][0-9]* values' words
exits 'rda with one rate in q2.13' 2 ctr-train lr --optimizer rda --learning-rate global --precision q2.13 -o x.arrows onehot.arrows
err_like 'is refused with a remedy' 'use --precision f32'

# ---- models of before: of counts whose rates were doubles, of q2.13 whose n were floats, with what they predicted
old=$CTR_TOP/tests/golden/0.1.0
for m in counts bits; do
    exits "$m of before" 0 ctr-predict -o s.arrows $old/$m.arrows $old/feat.arrows
    is 'reads as it did, without a word' "$(cat "$W/err")" ''
    ok 'the same predictions' same_rows s.arrows $old/$m-scored.arrows
    ctr-select --head 20 -o edited.arrows $old/$m.arrows
    exits 'edited' 0 ctr-predict -o s.arrows edited.arrows $old/feat.arrows
    is 'its weights agree with its state' "$(grep -v ' does not know ' "$W/err")" ''
    [ $m = counts ] && o='--learning-rate counts' || o='--precision q2.13'
    exits 'learned on' 0 ctr-train lr -q $o --init $old/$m.arrows -o on.arrows $old/feat.arrows
    is 'without a word' "$(cat "$W/err")" ''
done
ctr-select --head 0 -o none.arrows $old/feat.arrows
train --precision q2.13 --init $old/bits.arrows -o on.arrows none.arrows 2>/dev/null
for f in $old/bits on; do ctr-export --columns key,n,weight $f.arrows; done >both
is 'n goes to 8 bits of mantissa, the weight stays' \
    "$(awk -F, '{ k = $1 } k == "key" { next } !(k in n) { n[k] = $2; w[k] = $3; next }
        { d = n[k] - $2; e = w[k] - $3; rows++; moved += d != 0; if (d * d > (n[k] / 512) ^ 2 || e * e > .0002 ^ 2) print }
        END { print rows, (moved > 30) }' both)" '35 1'

# ---- bad options
exits 'no such optimizer' 2 ctr-train lr --optimizer adam onehot.arrows
exits 'power 0' 2 ctr-train lr --power 0 onehot.arrows
err_like 'is named' 'power must be above 0 and at most 1'
exits 'power 2' 2 ctr-train lr --power 2 onehot.arrows
exits 'threshold 2000000' 2 ctr-train lr --optimizer ogd-count --threshold 2000000 onehot.arrows
err_like 'is named' 'threshold must be 0 to 1048576'

done_testing
