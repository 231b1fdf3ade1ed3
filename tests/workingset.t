#!/bin/sh
# ctr-train mlp --device gpu: rows of embeddings stay on the device as far as its memory goes, and no size of that set changes a
# byte of the model. The plug-in's text runs as loops on the host, with memory of its own.
. "${0%/*}/lib.sh"
onhost=$gpu_plugin
[ -f "$onhost" ] || skip_all "the plug-in on the host: there is no c++"
export CTR_CUDA_PLUGIN="$onhost"
cd "$W" || exit 1
awk 'BEGIN { srand(8); print "click,a,b,x"
    for (i = 0; i < 6000; i++) print (rand() < .4) "," int(2000 * rand()) "," int(30 / (.01 + rand())) "," rand() }' >rows.csv
printf 'label click\nfeature a\nfeature b\ndense x\n' >plan
ctr-import -q --format csv --header rows.csv | ctr-extract -q plan | ctr-cat --batch 77 -o rows.arrows
train() { ctr-train mlp --device gpu --embedding 40 --hidden 4 --minibatch 200 --passes 2 --l2 .001 "$@"; }
count() { awk -v name="$1" '$1 " " $2 == name { print $3 }' "$2"; }

# ---- any size: the model without a set; batches of 77 rows cut a minibatch of 200 into pieces
CTR_WORKING_SET=0 train -v --progressive none.p -o none.arrows rows.arrows 2>none.err
ok "a set of no rows is none" sh -c '! grep "^device rows" none.err'
for rows in 8 64 1024 ''; do
    CTR_WORKING_SET=$rows train -v --progressive got.p -o got.arrows rows.arrows 2>"set$rows.err"
    ok "the same model with a set of ${rows:-all} rows" cmp got.arrows none.arrows
    ok "and the same scores" cmp got.p none.p
done
is "the set has the size that was asked for" "$(count 'device rows' set64.err)" 64
sums() { # rows that were looked up are hits and misses, however large the set is
    for rows in 8 64 1024 ''; do
        echo $(($(count 'device hits' "set$rows.err") + $(count 'device misses' "set$rows.err")))
    done | sort -u | wc -l
}
is "hits and misses are the rows that were looked up" "$(sums)" 1
ok "a larger set has more hits" test "$(count 'device hits' set1024.err)" -gt "$(count 'device hits' set64.err)"
ok "a small one evicts" test "$(count 'device evictions' set64.err)" -gt 0
CTR_WORKING_SET=0 train -q -o one.arrows --hidden 0 rows.arrows
ok "another model is another: the comparison can fail" sh -c '! cmp -s one.arrows none.arrows'

# ---- tables larger than the device
train -v --device-memory 800K -o got.arrows rows.arrows 2>tight.err
ok "800 KiB are enough for tables of 1.2 MiB" cmp got.arrows none.arrows
ok "and rows had to go for others" test "$(count 'device evictions' tight.err)" -gt 0
ok "for any -j" sh -c 'ctr-train mlp -q --device gpu --embedding 40 --hidden 4 --minibatch 200 --passes 2 --l2 .001 \
    --device-memory 800K -j 3 -o got.arrows rows.arrows && cmp got.arrows none.arrows'

# ---- copies of the next rows run while the device learns from the last ones: queues that run as late as they may find an order
# that is missing, and a set of buffers that is written while it is still in use
CTR_CUDA_ON_HOST_ORDER=copies train -q -o got.arrows rows.arrows
ok "copies as late as they may be: the same model" cmp got.arrows none.arrows
CTR_CUDA_ON_HOST_ORDER=kernels CTR_CUDA_ON_HOST_SAYS=1 train -q -o got.arrows rows.arrows 2>late.err
ok "kernels as late as they may be: the same model" cmp got.arrows none.arrows
if gpu_on_host; then
    copied() { sed -n 's/^on host: \([0-9]*\) bytes were copied while kernels were queued/\1/p' "$1"; }
    ok "lists, labels and numbers are copied while kernels are queued" \
        test "$(copied late.err)" -gt $((2 * 6000 * 12))
    careless() { CTR_CUDA_ON_HOST_ORDER="copies careless" train -q -o got.arrows rows.arrows 2>/dev/null && cmp -s got.arrows none.arrows; }
    not() { ! "$@"; }
    ok "an order that is not kept is found" not careless
fi

# ---- every read of the tables sees what the device has learned
for rows in 0 64 ''; do
    CTR_WORKING_SET=$rows train -v --validation rows.arrows --passes 3 -o "valid$rows.arrows" rows.arrows 2>&1 | grep 'validation log loss' >"valid$rows.txt"
done
is "a loss for each pass" "$(grep -c 'validation log loss' valid0.txt)" 3
for rows in 64 ''; do
    ok "validation with a set of ${rows:-all} rows" cmp "valid$rows.txt" valid0.txt
    ok "and its model" cmp "valid$rows.arrows" valid0.arrows
done
# A checkpoint between the values of the last minibatch, a partial one, and its gradients loses none of them.
for rows in 64 ''; do
    for every in 500 6000; do
        rm -f c.ckpt
        CTR_WORKING_SET=$rows train -q --minibatch 170 --checkpoint c.ckpt --checkpoint-every $every -o "cut$every.arrows" rows.arrows
    done
    CTR_WORKING_SET=$rows train -q --minibatch 170 -o whole.arrows rows.arrows
    ok "checkpoints within minibatches, a set of ${rows:-all} rows" cmp cut500.arrows whole.arrows
    ok "and where a minibatch is partial at the end of a pass" cmp cut6000.arrows whole.arrows
done
resumes() { # killed at any moment until it is done
    rm -f c.ckpt got.arrows
    for delay in .05 .1 .1 .15 .2 .3 .5 600; do
        CTR_WORKING_SET=$1 timeout --foreground -s KILL $delay ctr-train mlp -q --device gpu --embedding 40 --hidden 4 --minibatch 200 --passes 2 --l2 .001 \
            --checkpoint c.ckpt --checkpoint-every 500 --resume -o got.arrows rows.arrows && break
    done 2>/dev/null
    cmp got.arrows none.arrows
}
ok "kill -9 and resume" resumes 64
ok "and with room for all" resumes ''
part() { # a checkpoint in the middle of a minibatch: the input breaks off
    ! head -c 100000 rows.arrows | CTR_WORKING_SET=64 train -q --passes 1 --checkpoint d.ckpt >x.arrows 2>/dev/null && test -s d.ckpt &&
        CTR_WORKING_SET=64 train -q --passes 1 --resume --checkpoint d.ckpt -o got.arrows rows.arrows &&
        cat rows.arrows | CTR_WORKING_SET=0 train -q --passes 1 >once.arrows && cmp got.arrows once.arrows
}
ok "a checkpoint of an input that breaks off" part

# ---- lists of keys, tables that inputs share, weights
if has_python json; then
    "$PY" "$CTR_TOP/tests/model_reference.py" make mixed 2500 lists.arrows
    for rows in 0 16 ''; do
        CTR_WORKING_SET=$rows ctr-train mlp -v --device gpu --embedding 5 --hidden 16,8 --minibatch 100 -o "got$rows.mixed" lists.arrows 2>mixed.err
    done
    ok "the last had a set" grep -q '^device hits' mixed.err
    ok "lists and shared tables with a set of 16 rows" cmp got16.mixed got0.mixed
    ok "and with room for all" cmp got.mixed got0.mixed
    for pooling in mean max; do
        for rows in 0 16; do
            CTR_WORKING_SET=$rows ctr-train mlp -q --device gpu --pooling $pooling --embedding 5 --hidden 16,8 --minibatch 100 \
                -o "$pooling$rows.mixed" lists.arrows
        done
        ctr-train mlp -q --pooling $pooling --embedding 5 --hidden 16,8 --minibatch 100 -o cpu.mixed lists.arrows
        ok "lists pooled by $pooling with a set of 16 rows" cmp ${pooling}16.mixed ${pooling}0.mixed
        ok "and near the model of the CPU" "$PY" "$CTR_TOP/tests/deep_reference.py" same ${pooling}0.mixed cpu.mixed 1e-4
        ctr-predict -q ${pooling}0.mixed lists.arrows -o cpu.p
        ctr-predict -q --device gpu ${pooling}0.mixed lists.arrows -o gpu.p
        ok "which predicts alike on both" "$PY" -c "
import sys
sys.path.insert(0, '$CTR_TOP/tests')
from model_reference import Table
assert max(abs(a - b) for a, b in zip(Table('cpu.p')['score'], Table('gpu.p')['score'])) < 1e-6"
    done
fi
done_testing
