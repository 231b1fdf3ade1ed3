#!/bin/sh
# ctr-train mlp: agrees with an independent implementation, whose gradients are finite differences of the whole model; does
# not depend on how rows arrive; resumes to the same bytes; its model predicts, is exported and read by PyTorch with the
# same scores; says what is wrong with bad input.
. "${0%/*}/lib.sh"
has_python json || skip_all "no python"
REF="$CTR_TOP/tests/deep_reference.py"
MAKE="$CTR_TOP/tests/model_reference.py"
cd "$W" || exit 1

"$PY" "$MAKE" make mixed "$([ -n "$SAN" ] && echo 24 || echo 40)" tiny.arrows && "$PY" "$MAKE" make mixed 2500 rows.arrows || exit 1
small() { ctr-train mlp -q --embedding 2 --hidden 4,3 --minibatch 16 --rate .01 "$@" tiny.arrows; }
train() { ctr-train mlp -q --embedding 5 --hidden 16,8 --minibatch 100 "$@"; }
scores() { ctr-export -f csv --columns score "$1"; }

# ---- the model: lists, weighted keys, shared tables, numbers, row weights, fractional labels
agrees() { agrees_with mlp "hidden=4,3 minibatch=16 rate=.01" "$@"; } # agrees OPTIONS -- REFERENCE-OPTIONS
ok 'agrees with the reference: scores before each update, every value after' agrees --
ok 'relu' agrees --activation relu -- activation=relu
ok 'dice' agrees --activation dice -- activation=dice
ok 'lists pooled by their mean' agrees --pooling mean -- pooling=mean
ok 'lists pooled by their largest' agrees --pooling max -- pooling=max
ok 'batch normalization' agrees --batch-norm -- batch-norm=1
ok 'dropout' agrees --dropout .5 --seed 2 -- dropout=.5 seed=2
ok 'all at once' agrees --batch-norm --activation dice --dropout .3 --seed 3 -- batch-norm=1 activation=dice dropout=.3 seed=3
ok 'l2 of embeddings by the minibatch' agrees --l2 .5 -- l2=.5
ref counts tiny.arrows counts.csv && ctr-import -q -f csv --header --columns key:uint64,count:int32 counts.csv -o counts.arrows
ok 'n_j from a stream, for the keys that it has' agrees --l2 .5 --l2-counts counts.arrows -- l2=.5 counts=counts.csv running=1
# DIN, eq. 6 and 7: n_j is the number of rows with key j among all rows; they are counted before the first is learned from.
ok 'n_j of all rows, in two passes' agrees --l2 .5 --passes 2 -- l2=.5 passes=2
# shellcheck disable=SC2317
piped() ( small() { cat tiny.arrows | ctr-train mlp -q --embedding 2 --hidden 4,3 --minibatch 16 --rate .01 "$@"; }; agrees "$@"; )
ok 'n_j of the rows so far, from a pipe' piped --l2 .5 -- l2=.5 running=1
ok 'in later passes of all' piped --l2 .5 --passes 2 --spool spool.arrows -- l2=.5 passes=2 running=1
exits 'a pipe' 0 sh -c 'cat tiny.arrows | ctr-train mlp --l2 .5 --minibatch 16 -o pipe.arrows'
err_like 'is told of' '--l2 divides by how often a key has come so far, since this input is read once: .* name files, .* or give --l2-counts FILE'
exits 'files' 0 ctr-train mlp --l2 .5 --minibatch 16 -o file.arrows tiny.arrows
quiet_of_counts() { ! grep -q 'l2' err; }
ok 'are not' quiet_of_counts
# A key that a row has twice, in one list or in two columns of a table, is counted once: rows that repeat keys have the counts of rows that do not.
twice() {
    printf 'label,ad,past\n1,a,b|b|c\n0,b,b|a\n1,c,\n0,a,c|c|c\n' | ctr-import -q -f csv --header --columns label:int8,ad:utf8,past:utf8 |
        ctr-extract twice.plan -o twice.arrows && ctr-train mlp -q --l2 .1 --minibatch 2 --embedding 2 --hidden 0 -o twice.m twice.arrows "$@" &&
        ctr-select -q --only emb.item --columns count twice.m | ctr-export -f csv | sort | tr '\n' ' '
}
printf 'label label\nfeature ad in item = ad\nfeature past in item = split(past, "|")\n' >twice.plan
is 'a row counts once' "$(twice)" '1 2 3 3 count '
ok 'a rate that decays' agrees --decay .5 --decay-every 20 -- decay=.5 decay-every=20
ok 'two passes' agrees --passes 2 --l2 .1 -- passes=2 l2=.1
ok 'no hidden layer' agrees --hidden 0 -- hidden=0
ok 'the columns of the user first' agrees --user-features past,word,vec --
ok 'another seed' agrees --seed 7 --
wrong() { ! agrees -- rate=.0101; }
[ "$SAN" ] || ok 'the check can fail' wrong

# ---- a network that gives one score to all rows
awk 'BEGIN { s = 7; print "click,ad,user"; for (i = 0; i < 3000; i++) { s = s * 16807 % 2147483647; a = s % 20; s = s * 16807 % 2147483647
    print (s / 2147483647 < .1 + a * .03) ",a" a ",u" s % 50 } }' >ads.csv
printf 'label click\nfeature ad\nfeature user\n' >ads.plan
features() { ctr-import -q -f csv --header | ctr-extract -q ads.plan | ctr-cat --batch 500; }
features <ads.csv >ads.f
awk -F, -v OFS=, 'NR > 1 { $2 = "a"; $3 = "u" } { print }' ads.csv | features >same.f
dead() { rm -f dead.model; ctr-train mlp -q --activation relu --rate 10 --minibatch 100 -o dead.model "$@"; }
exits 'rectified units that have all died' 0 dead ads.f
err_like 'are told, with -q too' '^ctr-train: the model has collapsed to a constant: its score is 0[.0-9]+ for all of [0-9]+ rows, taken from the last'
is 'and it is so' "$(ctr-predict -q dead.model ads.f | ctr-export -f csv --columns score | sort -u | wc -l)" 2
exits 'they fail with --fail-constant' 1 dead --fail-constant ads.f
ok 'without a model' test ! -e dead.model
head -c "$(($(wc -c <ads.f) * 6 / 10))" ads.f >ads.cut
dead --checkpoint dead.c ads.cut 2>/dev/null
exits 'a run that goes on is judged alike' 1 dead --fail-constant --checkpoint dead.c --resume ads.f
err_like 'and told' 'collapsed to a constant'
ok 'its checkpoint stays' test -e dead.c
exits 'an l2 that holds vectors at 0' 1 ctr-train dlrm -q --l2 10 --minibatch 100 --fail-constant -o dead.model ads.f
err_like 'is told' 'collapsed to a constant'
is 'a network that learns is not' "$(ctr-train mlp -q --minibatch 100 --fail-constant -o good.model ads.f 2>&1)" ''
is 'nor rows that are all the same' "$(ctr-train mlp -q --minibatch 100 --fail-constant -o good.model same.f 2>&1)" ''

# ---- the same bytes however rows arrive
for o in '' '--batch-norm --dropout .2 --l2 .1' '--activation dice' '--pooling max'; do
    # shellcheck disable=SC2086
    train $o -j 1 -o want.arrows --progressive want.p rows.arrows
    for j in 2 4; do
        # shellcheck disable=SC2086
        train $o -j $j -o got.arrows --progressive got.p rows.arrows
        ok "mlp $o -j $j: the same model" cmp want.arrows got.arrows
        ok "mlp $o -j $j: the same predictions" cmp want.p got.p
    done
    # shellcheck disable=SC2086
    small_batches rows.arrows train $o --progressive got.p >got.arrows
    is "mlp $o, small batches: the same predictions" "$(scores got.p | cksum)" "$(scores want.p | cksum)"
    ok "mlp $o: and the same values" ref same want.arrows got.arrows
done
train -o want.arrows --progressive want.p rows.arrows
for cpu in plain avx2; do
    CTR_CPU=$cpu train -o got.arrows rows.arrows
    ok "the same model on a processor that is $cpu" cmp want.arrows got.arrows
done
train --seed 1 -o got.arrows rows.arrows
differ() { ! cmp -s "$1" "$2"; }
ok 'another seed, another model' differ want.arrows got.arrows
ctr-select --columns note,word,vec,age,text,past,item,w,b,a,click,row rows.arrows | train -o got.arrows
ok 'the order of columns does not matter' ref same want.arrows got.arrows
train --passes 2 -o two.arrows rows.arrows
train --passes 2 --spool spool.arrows <rows.arrows >got.arrows
ok '--spool: passes over a pipe' cmp two.arrows got.arrows

# ---- prediction
ctr-predict -j 1 want.arrows rows.arrows >p1
ctr-cat --batch 11 rows.arrows | ctr-predict -j 4 want.arrows >p4
is 'scores do not depend on batches or threads' "$(scores p1 | cksum)" "$(scores p4 | cksum)"
ctr-select --tail 10 rows.arrows | ctr-predict want.arrows >p10
is 'nor on the other rows' "$(scores p10 | tail -n 10)" "$(scores p1 | tail -n 10)"
ctr-export -o want.safetensors want.arrows
ok 'the exported tensors predict the same' ref score want.safetensors rows.arrows p1 hidden=16,8
predicts() { # predicts OPTIONS -- REFERENCE-OPTIONS
    _o=
    while [ "$1" != -- ]; do _o="$_o $1"; shift; done
    shift
    # shellcheck disable=SC2086
    train $_o -o other.arrows rows.arrows && ctr-predict other.arrows rows.arrows >p1o &&
        ref score other.arrows rows.arrows p1o hidden=16,8 "$@"
}
ok 'and with batch normalization and dice' predicts --batch-norm --activation dice -- batch-norm=1 activation=dice
ok 'and with relu' predicts --activation relu -- activation=relu
ok 'and with means' predicts --pooling mean -- pooling=mean
ok 'and with the largest' predicts --pooling max -- pooling=max
another() { ! predicts --pooling max -- pooling=mean; }
[ "$SAN" ] || ok 'the check of pooling can fail' another

# ---- keys that the model does not know: as the learner scores them before its first update of them
foretells() { # foretells N OPTIONS: a model of N rows predicts the next 100 as the learner scores them before it learns from them
    _n=$1
    shift
    cat rows.arrows | train "$@" -o all.arrows --progressive all.p && ctr-select --head "$_n" rows.arrows | train "$@" -o first.arrows &&
        ctr-select --head $((_n + 100)) rows.arrows | ctr-select --tail 100 | ctr-predict first.arrows >next.p 2>next.err &&
        grep -q 'does not know' next.err && scores next.p >next.txt && scores all.p | awk -v n="$_n" 'NR == 1 || NR > n + 1 && NR <= n + 101' | cmp - next.txt
}
ok 'no key is known: predictions are progressive scores' foretells 0
ok 'some keys are known' foretells 1000
ok 'another seed, l2, lists pooled by the largest, batch normalization' foretells 1000 --seed 5 --l2 .1 --pooling max --batch-norm
cat >torch.py <<'EOF'
import sys
sys.path.insert(0, sys.argv[1] + "/tests")
import torch
from deep_reference import Rows, tensors
from model_reference import Table
t = {n: torch.tensor(v, dtype=torch.float32).reshape(s) for n, (s, v) in tensors("want.safetensors").items() if n[-4:] != ".key"}
place = {n[:-4]: {k: i for i, k in enumerate(v)} for n, (s, v) in tensors("want.safetensors").items() if n[-4:] == ".key"}
rows, x = Rows("rows.arrows"), []
for keys, numbers in zip(rows.keys, rows.numbers):
    v = []
    for entries in keys:
        v.append(sum((t["emb." + k[0]][place["emb." + k[0]][k[1]]] * w for k, w in entries), torch.zeros(5)))
    x.append(torch.cat(v + [torch.tensor(numbers)]))
x = torch.stack(x)
for l in range(2):
    layer = torch.nn.Linear(x.shape[1], t["mlp.%d.weight" % l].shape[0])
    act = torch.nn.PReLU(layer.out_features)
    layer.load_state_dict({"weight": t["mlp.%d.weight" % l], "bias": t["mlp.%d.bias" % l]})
    act.load_state_dict({"weight": t["mlp.%d.alpha" % l]})
    x = act(layer(x))
last = torch.nn.Linear(x.shape[1], 1)
last.load_state_dict({"weight": t["mlp.2.weight"], "bias": t["mlp.2.bias"]})
score = torch.sigmoid(last(x)).flatten()
worst = (score - torch.tensor(Table("p1")["score"])).abs().max().item()
assert worst < 1e-5, worst
EOF
torch=
for p in "$PY" /usr/bin/python3; do [ -n "$torch" ] || { "$p" -c 'import torch' 2>/dev/null && torch=$p; }; done
if [ -n "$torch" ]; then
    ok 'PyTorch loads the tensors into its layers and gives the same scores' "$torch" torch.py "$CTR_TOP"
else
    skip 'PyTorch loads the tensors and gives the same scores' 'no torch'
fi

# ---- checkpoints
for o in '' '--batch-norm --dropout .2 --l2 .1 --pooling max'; do
    # shellcheck disable=SC2086
    train $o --passes 2 -o want.arrows --progressive want.p rows.arrows
    ctr-cat --batch 70 rows.arrows >batches.arrows # checkpoints fall into the middle of minibatches
    # shellcheck disable=SC2086
    run() { timeout "$@" ctr-train mlp -q --embedding 5 --hidden 16,8 --minibatch 100 $o --passes 2 --checkpoint c.ckpt \
        --checkpoint-every 60 --resume --progressive got.p -o got.arrows batches.arrows; }
    killed_runs "mlp $o: " run 005 010 015 030 045 060 080 100 140
    ok "mlp $o: to the values of a run that was never killed" ref same want.arrows got.arrows
    is "mlp $o: and its predictions" "$(scores got.p | cksum)" "$(scores want.p | cksum)"
    is "mlp $o: the checkpoint is gone" "$(ls c.ckpt* 2>/dev/null)" ''
done
part() { # a checkpoint in the middle of a minibatch: the input breaks off
    rm -f d.ckpt*
    ! head -c 150000 batches.arrows | train --checkpoint d.ckpt >d.model 2>/dev/null && test -s d.ckpt
}
ok 'a truncated input fails and leaves its checkpoint' part
ok 'which predicts' sh -c 'ctr-predict d.ckpt rows.arrows >/dev/null'
ok 'and goes on' train --resume --checkpoint d.ckpt -o got.arrows batches.arrows
train -o want.arrows batches.arrows
ok 'to the same model' cmp want.arrows got.arrows
ok 'again' part
exits 'other options are refused' 2 ctr-train mlp --resume --checkpoint d.ckpt -o x.arrows batches.arrows
err_like 'with both' 'minibatch=100 embedding=5 .*minibatch=3000 embedding=12 .*the same options'

# ---- warm start
train -o half.arrows rows.arrows
train --passes 2 -o two.arrows rows.arrows
ok '--init goes on from values and state' train --init half.arrows -o twice.arrows rows.arrows
ok 'as a second pass would' ref same two.arrows twice.arrows
exits '--init with another shape' 1 ctr-train mlp --init half.arrows --embedding 5 --hidden 16,9 -o x.arrows rows.arrows
err_like 'says what differs' 'half.arrows: the model has the parameter 1.weight of 8 x 16, with these options it is 1.weight of 9 x 16'
exits '--init of another kind' 2 ctr-train lr --init half.arrows -o x.arrows rows.arrows
err_like 'says so' 'half.arrows: --init: this is a model of kind mlp, not lr'

# ---- early stopping
ctr-select --tail 20% --rest early.arrows rows.arrows >late.arrows
ctr-train mlp --embedding 5 --hidden 16,8 --minibatch 100 --rate .02 --passes 20 --validation late.arrows -o best.arrows early.arrows 2>stop.err
best=$(sed -n 's/.*pass \([0-9]*\): .*best so far/\1/p' stop.err | tail -n 1)
is 'the passes end after the best one' "$(grep -c 'validation log loss' stop.err)" $((best + 1))
is 'with a word' "$(grep -c 'stopping, the model is the best one' stop.err)" 1
train --rate .02 --passes "$best" -o want.arrows early.arrows
ok 'and the model is that of the best pass' ref same best.arrows want.arrows
ctr-train mlp --embedding 5 --hidden 16,8 --minibatch 100 --rate .02 --passes 20 --patience 3 --validation late.arrows -o best.arrows early.arrows 2>stop.err
best=$(sed -n 's/.*pass \([0-9]*\): .*best so far/\1/p' stop.err | tail -n 1)
is '--patience 3 goes on for three passes' "$(grep -c 'validation log loss' stop.err)" $((best + 3))
ctr-select --columns row,click,a late.arrows >other.arrows
exits 'validation on another schema' 2 ctr-train mlp -q --validation other.arrows -o x.arrows rows.arrows
err_like 'says so' 'other.arrows: --validation does not fit rows.arrows, which is learned from: '
exits '--validation of an endless run' 2 ctr-train mlp --validation late.arrows --follow -o x.arrows rows.arrows
exits '--validation-every without --validation' 2 ctr-train mlp --validation-every 10 -o x.arrows rows.arrows

# ---- in a pass, and with checkpoints
stops() { ctr-train mlp --embedding 5 --hidden 16,8 --minibatch 100 --rate .05 --validation late.arrows --validation-every 250 --patience 3 "$@"; }
stops --passes 3 -o want.arrows early.arrows 2>stop.err
best=$(sed -n 's/.*pass 1, row \([0-9]*\): .*best so far/\1/p' stop.err | tail -n 1)
is '--validation-every: at ends of minibatches' "$(sed -n 's/.*pass 1, row \([0-9]*\): .*/\1/p' stop.err | head -n 4 | tr '\n' ' ')" '300 500 800 1000 '
is '--patience 3 ends the run within a pass' "$(grep -c 'validation log loss' stop.err)" $((1 + $(grep -n 'best so far' stop.err | tail -n 1 | sed 's/:.*//') - $(grep -n -m 1 'validation log' stop.err | sed 's/:.*//') + 3))
ctr-select --head "$best" early.arrows | train --rate .05 -o got.arrows
ok 'the model is that of the best moment' ref same want.arrows got.arrows
ctr-cat --batch 7 early.arrows >batches.arrows
for j in 1 3; do
    stops -q -j $j --passes 3 -o got.arrows batches.arrows
    ok "the same for other batches, -j $j" ref same want.arrows got.arrows
done
stops -q <early.arrows >got.arrows
ok 'and over a pipe' ref same want.arrows got.arrows
for o in '--patience 3' '--patience 100'; do
    # shellcheck disable=SC2086
    stops $o --passes 3 -o want.arrows early.arrows 2>want.err
    # shellcheck disable=SC2086
    run() { timeout "$@" ctr-train mlp -q --embedding 5 --hidden 16,8 --minibatch 100 --rate .05 --validation late.arrows \
        --validation-every 250 $o --passes 3 --checkpoint v.ckpt --checkpoint-every 60 --resume -o got.arrows batches.arrows; }
    killed_runs "$o: " run 005 008 011 014 017 020 024 030 050 070 090 110 140 170 200
    ok "$o: to the model of a run that was never killed" ref same want.arrows got.arrows
    is "$o: checkpoint and best model are gone" "$(ls v.ckpt* 2>/dev/null)" ''
done
cp got.arrows v.ckpt.best.2
cp got.arrows v.ckpt.best.12.tmp.abcdef
cp batches.arrows v.ckpt.best.1.tmp.abcdef
: >v.ckpt.best.3.tmp.abcdef
: >v.ckpt.best.1of5
stops -q --checkpoint v.ckpt -o got.arrows batches.arrows
is 'best models that killed runs left are gone, and no other file' "$(echo v.ckpt*)" 'v.ckpt.best.1.tmp.abcdef v.ckpt.best.1of5'
rm -f v.ckpt*
part_best() { # the input breaks off: the checkpoint has its best model beside it
    ! head -c 200000 batches.arrows | stops -q --checkpoint v.ckpt >x.model 2>/dev/null && test -s v.ckpt && ls v.ckpt.best.[0-9] >/dev/null
}
ok 'a checkpoint keeps the best model beside it' part_best
is 'one of them' "$(ls v.ckpt.best.* | wc -l)" 1
exits 'without --validation it does not go on' 2 ctr-train mlp --embedding 5 --hidden 16,8 --minibatch 100 --rate .05 --resume --checkpoint v.ckpt -o x.arrows batches.arrows
err_like 'and says so' 'v.ckpt was made with --validation'
rm -f v.ckpt.best.*
exits 'nor without that model' 1 stops --resume --checkpoint v.ckpt -o x.arrows batches.arrows
err_like 'which is named' 'v.ckpt.best.[0-9]+: the best model so far cannot be read'
rm -f v.ckpt*
exits 'a run that fails without a checkpoint' 1 stops -q --checkpoint v.ckpt -o /dev/full early.arrows
is 'leaves no best model' "$(ls v.ckpt* 2>/dev/null)" ''
ctr-cat --batch 70 rows.arrows >batches.arrows

# ---- a planted world that lr cannot see: clicks depend on the product of a and b alone
if [ -z "$SAN" ]; then
    cat >planted.py <<'EOF'
import math, random
r = random.Random(5)
print("click,a,b,truth")
for i in range(40000):
    a, b = r.randrange(20), r.randrange(20)
    p = 1 / (1 + math.exp(-4 * (a / 9.5 - 1) * (b / 9.5 - 1)))
    print("%d,%d,%d,%.6f" % (r.random() < p, a, b, p))
EOF
    printf 'label click\nfeature a\nfeature b\nkeep truth\n' >planted.plan
    "$PY" planted.py | ctr-import -q -f csv --header | ctr-extract -q planted.plan | ctr-select --head 75% --rest later.arrows -o planted.arrows
    auc() { ctr-eval --metrics auc "$@" | awk '$1 == "total" { print $NF }'; }
    ctr-train lr -q -o lr.arrows planted.arrows
    for seed in 1 2 3 4 5; do
        ctr-train mlp -q --embedding 4 --hidden 16,8 --minibatch 100 --rate .003 --passes 3 --seed $seed -o mlp.arrows planted.arrows
        ctr-predict -q mlp.arrows later.arrows | auc
    done >seeds.txt
    learned() {
        mlp=$(awk '{ s += $1 } END { if (NR == 5) print s / NR }' seeds.txt)
        lr=$(ctr-predict -q lr.arrows later.arrows | auc) truth=$(auc --score truth later.arrows)
        echo "AUC of lr $lr, of mlp $mlp, of the planted probabilities $truth"
        awk -v l="$lr" -v m="$mlp" -v t="$truth" 'BEGIN { exit !(l > 0 && l < .55 && m > t - .005 && m <= t + .005) }'
    }
    ok 'mlp, mean of five seeds, is within .005 of the best AUC there is, where lr is at .5' learned
fi

# ---- what is wrong
exits 'an option of another model' 2 ctr-train lr --embedding 3 rows.arrows
err_like 'is refused' 'lr takes no --embedding'
exits 'and the other way' 2 ctr-train mlp --alpha .3 rows.arrows
err_like 'is refused too' 'mlp takes no --alpha'
exits 'sizes that are none' 2 ctr-train mlp --hidden 3,x rows.arrows
err_like 'say what is wanted' '--hidden wants sizes of layers such as 200,80'
exits '--l2-counts without --l2' 2 ctr-train mlp --l2-counts counts.arrows rows.arrows
exits '--l2-counts for lr' 2 ctr-train lr --l2 1 --l2-counts counts.arrows rows.arrows
err_like 'is refused' 'lr takes no --l2-counts'
exits '--l2-counts of rows' 1 ctr-train mlp --l2 1 --l2-counts rows.arrows -o x.arrows rows.arrows
err_like 'says what is wanted' 'rows.arrows: it has no columns key .uint64. and count'
printf 'key,count\n7,3\n9,0\n' | ctr-import -q -f csv --header --columns key:uint64,count:int32 -o zero.arrows
exits 'a count of 0' 1 ctr-train mlp --l2 1 --l2-counts zero.arrows -o x.arrows rows.arrows
err_like 'is named' 'zero.arrows: row 2: a key and a count of 1 or more are wanted'
train --l2 .1 -o learned.arrows rows.arrows
ok 'counts of a model' train --l2 .1 --l2-counts learned.arrows -o got.arrows rows.arrows
ok 'make another model than running ones' differ learned.arrows got.arrows
exits 'a rate of 0' 2 ctr-train mlp --rate 0 rows.arrows
exits 'a learner that diverges' 1 ctr-train mlp -q --rate 1e30 --minibatch 50 --checkpoint n.ckpt --checkpoint-every 70 -o x.arrows batches.arrows
err_like 'names the row' 'batches.arrows: row (5[0-9]|[6-9][0-9]|1[0-4][0-9]): .*the learner diverged; scale numbers down, or lower --rate'
ok 'and leaves no model' test ! -e x.arrows
diverge_late() { # the last good checkpoint stays
    "$PY" "$MAKE" set rows.arrows nan.arrows age 1e37 1500 && rm -f n.ckpt* &&
        ! ctr-cat --batch 70 nan.arrows | train --rate 100 --checkpoint n.ckpt --checkpoint-every 60 -o x.arrows 2>late.err &&
        ctr-predict n.ckpt rows.arrows >/dev/null
}
ok 'a number that overflows late: the last good checkpoint is kept, and predicts' diverge_late
ok 'the row is named' grep -Eq 'row 1[5-9][0-9][0-9]: ' late.err
exits '--memory' 1 ctr-train mlp --memory 100K -o x.arrows rows.arrows
err_like 'says what is needed' 'need .* to go on, --memory allows 100 KiB: raise it'
ctr-select --section emb.a --head 3 want.arrows >few.arrows
exits 'a model that lacks keys predicts' 0 ctr-predict few.arrows rows.arrows
err_like 'and says so' 'table a of the model has 3 of its [0-9]+ keys'
ctr-select --section mlp.0.weight --head 3 want.arrows >part.arrows
exits 'one that lacks rows of a parameter does not' 1 ctr-predict part.arrows rows.arrows
err_like 'and says so' 'part.arrows: section 0.weight of the model: its rows are not all there'
"$PY" -c "
eos = b'\xff' * 4 + bytes(4)
b = open('want.arrows', 'rb').read().split(eos)
open('cut.arrows', 'wb').write(eos.join(b[:3] + b[4:]))"
exits 'nor one that lacks a section' 1 ctr-predict cut.arrows rows.arrows
err_like 'which is named' "section 'emb\.[a-z]+' does not follow the section before it"
ctr-select --columns row,click,a,b,w,item,past,text,age,vec rows.arrows >lacks.arrows
exits 'a stream without one of the inputs' 1 ctr-train mlp --init half.arrows --embedding 5 --hidden 16,8 -o x.arrows lacks.arrows
err_like 'is told which' "the stream lacks the model's input 'word'"
printf 'label click\nfeature a\nfeature b\n' >ab.plan
printf 'label click\nfeature a = a + 1\nfeature b\n' >ba.plan
printf 'click,a,b\n0,1,2\n1,2,2\n0,3,1\n1,1,1\n' | ctr-import --format csv --header >raw.arrows
for plan in ab ba; do
    ctr-extract $plan.plan raw.arrows >$plan.arrows
    ctr-train mlp -q --hidden 3 --minibatch 2 -o $plan.model $plan.arrows
done
exits 'a model of another plan' 1 ctr-predict ab.model ba.arrows
err_like 'is refused' "ba.arrows: its features are not those that ab.model learned from: its plan has 'feature a' there and 'feature a = a \\+ 1' here: extract them with ctr-extract ab.model"
exits 'a stream of no rows' 0 sh -c 'ctr-select --head 0 rows.arrows | ctr-train mlp -q -o empty.arrows'
ok 'gives a model that predicts' sh -c 'ctr-predict empty.arrows rows.arrows >/dev/null'
exits 'a full device' 1 sh -c 'ctr-train mlp -q rows.arrows >/dev/full'
exits 'no features' 2 ctr-train mlp -o x.arrows p1
err_like 'is an error' 'the stream has no features'
done_testing
