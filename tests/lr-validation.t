#!/bin/sh
# ctr-train lr --validation: the loss said is that of the model's predictions, the model is that of the best moment, for any -j and
# batches, row by row and by minibatches, and after a run that broke off.
. "${0%/*}/lib.sh"
has_python json || skip_all "no python"
cd "$W" || exit 1

"$PY" "$CTR_TOP/tests/model_reference.py" make mixed 1500 mixed.arrows && "$PY" "$CTR_TOP/tests/model_reference.py" make onehot 2000 onehot.arrows || exit 1
for s in mixed onehot; do ctr-select -q --tail 20% --rest $s.early -o $s.late $s.arrows; done

stops() { # stops STREAM OPTION… : the bytes of a run that ends at the best moment, for any -j and batches
    _s=$1
    shift
    ctr-train lr -j 1 "$@" --alpha .5 --passes 5 --validation $_s.late --validation-every 250 --patience 3 -o want.m $_s.early 2>said &&
        ctr-cat -q --batch 7 $_s.early | ctr-train lr -q -j 3 "$@" --alpha .5 --passes 5 --validation $_s.late --validation-every 250 --patience 3 \
            --spool pass.arrows -o got.m && [ "$(ctr-info --digest <want.m)" = "$(ctr-info --digest <got.m)" ] || return
    best=$(sed -n 's/.*log loss \([0-9.]*\), the best so far/\1/p' said | tail -n 1)
    is_loss "$best" want.m $_s.late
}
is_loss() { # is_loss VALUE MODEL STREAM
    ctr-predict -q "$2" "$3" | ctr-eval -q -m log_loss --format stream | ctr-export -q --no-header -c log_loss >loss
    echo "$1" | paste - loss | awk '{ print; exit !($1 - $2 < 2e-6 && $2 - $1 < 2e-6 && $1 > .1) }'
}
ok 'row by row' stops onehot
ok 'minibatches' stops onehot --minibatch 64
ok 'f32, lists' stops mixed --precision f32 --minibatch 10
ok 'counts' stops mixed --learning-rate counts
ok 'fobos' stops onehot --optimizer fobos --l1 .02
ok 'no bias' stops mixed --no-bias
ok 'uncertain keys' stops onehot --inclusion bloom=2
ctr-train lr --minibatch 64 --validation onehot.late --validation-every 300 --patience 9 -o want.m onehot.early 2>said
is 'at the ends of minibatches' "$(sed -n 's/.*pass 1, row \([0-9]*\):.*/\1/p' said | tr '\n' ' ')" '320 640 960 1216 1536 '
ctr-train lr --validation onehot.late --validation-every 300 --patience 9 -o want.m onehot.early 2>said
is 'or rows' "$(sed -n 's/.*pass 1, row \([0-9]*\):.*/\1/p' said | tr '\n' ' ')" '300 600 900 1200 1500 '
ctr-train lr --alpha 30 --passes 9 --validation onehot.late -o want.m onehot.early 2>said
ctr-train lr -q --alpha 30 --passes "$(sed -n 's/.*pass \([0-9]*\):.*best so far/\1/p' said | tail -n 1)" -o got.m onehot.early
ok 'the model is that of the best pass' sh -c 'ctr-select -q want.m | ctr-export -q >a; ctr-select -q got.m | ctr-export -q | cmp - a'

# ---- checkpoints
ctr-cat -q --batch 50 onehot.early | head -c 60000 >onehot.cut
run() { ctr-train lr -q --minibatch 30 --passes 3 --patience 4 --validation onehot.late --validation-every 200 --checkpoint c.ckpt --checkpoint-every 100 --resume "$@"; }
ctr-cat -q --batch 50 -o onehot.batches onehot.early
run -o want.m onehot.batches
resumed() { ! run -o x.m onehot.cut 2>err && [ -s c.ckpt ] && ls c.ckpt.best.* >/dev/null && run -o got.m onehot.batches && cmp want.m got.m && ! ls c.ckpt* 2>/dev/null; }
ok 'a run that broke off goes on to the same model' resumed

mkdir spill
ctr-train lr -q --minibatch 64 --passes 3 --validation onehot.late -o want.m onehot.early
ctr-train lr -q --minibatch 64 --passes 3 --memory 30K --spill spill --validation onehot.late -o got.m onehot.early
ok 'the same from disk' cmp want.m got.m

ctr-train lr -q --passes 3 --validation onehot.late -o want.m onehot.early
ctr-train lr -q --passes 3 --memory 40K --spill spill --validation onehot.late -o got.m onehot.early
ok 'row by row, too' cmp want.m got.m

# ---- what is refused
echo a >variants
exits '--variants' 2 ctr-train lr --variants variants --validation onehot.late -o 'm-%s' onehot.early
err_like 'have no best one' '--validation chooses the best of one model'
exits 'another schema' 2 ctr-train lr --validation mixed.late -o x.m onehot.early
err_like 'is told' 'mixed.late: --validation does not fit onehot.early, which is learned from: '
done_testing
