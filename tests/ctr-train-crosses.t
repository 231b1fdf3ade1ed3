#!/bin/sh
# ctr-train fm, dcnv2, dlrm: each agrees with an independent implementation, whose gradients are finite differences of the whole
# model; does not depend on how rows arrive; resumes to the same bytes; its model predicts what the learner predicted; learns
# what lr cannot; says what is wrong with bad input. What all deep models share is tried with mlp (ctr-train-mlp.t).
. "${0%/*}/lib.sh"
has_python json || skip_all "no python"
REF="$CTR_TOP/tests/deep_reference.py"
MAKE="$CTR_TOP/tests/model_reference.py"
cd "$W" || exit 1

"$PY" "$MAKE" make mixed "$([ -n "$SAN" ] && echo 16 || echo 24)" tiny.arrows && "$PY" "$MAKE" make mixed 1500 rows.arrows || exit 1
ctr-select --columns click,w,item,past,age,vec tiny.arrows -o few.arrows
in=tiny.arrows
scores() { ctr-export -f csv --columns score "$1"; }
differ() { ! cmp -s "$1" "$2"; }

# ---- the model: lists, weighted keys, shared tables, numbers, row weights, fractional labels
agrees() { # agrees MODEL OPTIONS -- REFERENCE-OPTIONS
    _o= _m=$1
    while [ "$1" != -- ]; do _o="$_o $1"; shift; done
    shift
    # shellcheck disable=SC2086
    set -- ctr-train -q $_o --embedding 2 --minibatch 8 --rate .01 -- "$@"
    _c=
    while [ "$1" != -- ]; do _c="$_c $1"; shift; done
    shift
    $_c --rate 1e-35 -o start.arrows $in && $_c -o got.arrows --progressive got.p $in &&
        ref "$_m" $in start.arrows got.arrows got.p minibatch=8 rate=.01 "$@"
}
ok 'fm agrees with the reference, which takes every pair of features: scores before each update, every value after' agrees fm --
ok 'fm, l2, two passes' agrees fm --l2 .5 --passes 2 -- l2=.5 passes=2
in=few.arrows # dcnv2 has the square of their columns to differentiate by
ok 'dcnv2' agrees dcnv2 --hidden 4,3 -- hidden=4,3
ok 'dcnv2, stacked' agrees dcnv2 --hidden 4,3 --structure stacked --cross-layers 2 -- hidden=4,3 structure=stacked
ok 'dcnv2 of low rank, dropout, batch normalization' agrees dcnv2 --hidden 4 --cross-rank 2 --dropout .3 --batch-norm -- hidden=4 cross-rank=2 dropout=.3 batch-norm=1
in=tiny.arrows
ok 'dlrm' agrees dlrm --hidden 4,3 --bottom 5 -- hidden=4,3 bottom=5
if [ -z "$SAN" ]; then
    in=few.arrows
    ok 'dcnv2 of low rank, stacked, dice, means' agrees dcnv2 --hidden 4 --structure stacked --cross-rank 3 --activation dice --pooling mean -- \
        hidden=4 structure=stacked cross-rank=3 activation=dice pooling=mean
    ok 'dcnv2 without hidden layers' agrees dcnv2 --hidden 0 -- hidden=0 structure=stacked
    in=tiny.arrows
    ok 'dlrm, dropout, batch normalization' agrees dlrm --hidden 4 --bottom 5,3 --dropout .3 --batch-norm --activation relu -- hidden=4 bottom=5,3 dropout=.3 \
        batch-norm=1 activation=relu
    ok 'dlrm whose numbers have one layer' agrees dlrm --hidden 4 --bottom 0 --pooling max -- hidden=4 bottom=0 pooling=max
fi
in=few.arrows
wrong() { ! agrees "$@" -- rate=.012 hidden=3 bottom=3; }
[ "$SAN" ] || ok 'the check of fm can fail' wrong fm
[ "$SAN" ] || ok 'that of dcnv2' wrong dcnv2 --hidden 3
[ "$SAN" ] || ok 'that of dlrm' wrong dlrm --hidden 3 --bottom 3

# ---- without numbers; one column; numbers alone
shapes() { # shapes COLUMNS MODEL…
    _columns=$1
    shift
    in=columns.arrows
    ctr-select --columns "click,$_columns" tiny.arrows -o $in
    for _m; do
        case $_m in
        fm) ok "fm of $_columns" agrees fm -- ;;
        dcnv2) ok "dcnv2 of $_columns" agrees dcnv2 --hidden 3 --cross-layers 1 -- hidden=3 ;;
        dlrm) ok "dlrm of $_columns" agrees dlrm --hidden 3 --bottom 3 --activation dice -- hidden=3 bottom=3 activation=dice ;; # no kink at age = 0
        esac
    done
}
shapes past fm
shapes age,vec fm dcnv2
shapes item,past dlrm
shapes item,age dlrm fm

# ---- the same bytes however rows arrive; prediction; checkpoints
for m in fm dcnv2 dlrm; do
    case $m in
    fm) o='--l2 .1' ;;
    dcnv2) o='--hidden 16,8 --dropout .2 --batch-norm' ;;
    dlrm) o='--hidden 16,8 --bottom 8 --dropout .2 --batch-norm' ;;
    esac
    # shellcheck disable=SC2086
    train() { ctr-train $m -q --embedding 5 --minibatch 100 $o "$@"; }
    train -j 1 -o want.arrows --progressive want.p rows.arrows
    train -j 3 -o got.arrows --progressive got.p rows.arrows
    ok "$m -j 3: the same model" cmp want.arrows got.arrows
    ok "$m: and the same predictions" cmp want.p got.p
    small_batches rows.arrows train $o --progressive got.p >got.arrows
    is "$m, small batches: the same predictions" "$(scores got.p | cksum)" "$(scores want.p | cksum)"
    ok "$m: and the same values" ref same want.arrows got.arrows
    if [ -z "$SAN" ]; then
        for cpu in plain avx2; do
            CTR_CPU=$cpu train -o got.arrows rows.arrows
            ok "$m on a processor that is $cpu: the same model" cmp want.arrows got.arrows
        done
    fi
    train --seed 1 -o got.arrows rows.arrows
    ok "$m: another seed, another model" differ want.arrows got.arrows
    ctr-select --columns note,word,vec,age,text,past,item,w,b,a,click,row rows.arrows >other.arrows
    train -o got.arrows other.arrows
    ok "$m: the order of columns does not matter" ref same want.arrows got.arrows

    ctr-predict -j 1 want.arrows rows.arrows >p1
    ctr-select --tail 10 rows.arrows | ctr-predict -j 2 want.arrows >p10
    is "$m: a score does not depend on the other rows" "$(scores p10 | tail -n 10)" "$(scores p1 | tail -n 10)"
    ctr-export -o want.safetensors want.arrows
    # shellcheck disable=SC2046
    ok "$m: the exported tensors predict the same" ref score want.safetensors rows.arrows p1 hidden=16,8 bottom=8 $([ $m = fm ] || echo batch-norm=1)
    foretells() { # a model of 1000 rows predicts the next 100 as the learner scores them before it learns from them
        cat rows.arrows | train -o all.arrows --progressive all.p && ctr-select --head 1000 rows.arrows | train -o first.arrows &&
            ctr-select --head 1100 rows.arrows | ctr-select --tail 100 | ctr-predict -q first.arrows | scores - >next.txt &&
            scores all.p | awk 'NR == 1 || NR > 1001 && NR <= 1101' | cmp - next.txt
    }
    ok "$m: predictions are the learner's, of new keys, too" foretells

    train --passes 2 -o want.arrows --progressive want.p rows.arrows
    ctr-cat --batch 70 rows.arrows >batches.arrows # checkpoints fall into the middle of minibatches
    # shellcheck disable=SC2086
    run() { timeout "$@" ctr-train $m -q --embedding 5 --minibatch 100 $o --passes 2 --checkpoint c.ckpt --checkpoint-every 60 --resume \
        --progressive got.p -o got.arrows batches.arrows; }
    killed_runs "$m: " run 005 010 020 040 080
    ok "$m: to the values of a run that was never killed" ref same want.arrows got.arrows
    is "$m: and its predictions" "$(scores got.p | cksum)" "$(scores want.p | cksum)"
    train -o half.arrows rows.arrows
    train --init half.arrows -o twice.arrows rows.arrows
    ok "$m: --init goes on from values and state, as a second pass" ref same want.arrows twice.arrows
    cp want.arrows "$m.arrows"

    if [ -f "$gpu_plugin" ]; then
        CTR_CUDA_PLUGIN=$gpu_plugin train --device gpu --progressive gpu.p -o gpu.arrows rows.arrows
        train --progressive cpu.p -o cpu.arrows rows.arrows
        ok "$m: the plug-in's kernels learn the same, but for the last bits" ref same gpu.arrows cpu.arrows 2e-3
    else
        skip "$m: the plug-in's kernels" 'there is no c++'
    fi
done

# ---- files of other models
exits 'a model of another kind as a start' 2 ctr-train dcnv2 --init fm.arrows -o x.arrows rows.arrows
err_like 'is refused' 'fm.arrows: --init: this is a model of kind fm, not dcnv2'
exits 'another shape' 1 ctr-train fm --init fm.arrows --embedding 6 -o x.arrows rows.arrows
err_like 'is named' 'fm.arrows: table a of the model has 6 floats a key, its options say 7'
ctr-select --section dlrm.bottom.0.weight --head 3 dlrm.arrows >part.arrows
exits 'a model that lacks rows of a parameter does not predict' 1 ctr-predict part.arrows rows.arrows
err_like 'and says so' 'part.arrows: section bottom.0.weight of the model: its rows are not all there'

# ---- a planted world that lr cannot see: clicks depend on the product of a and b alone
cat >planted.py <<'END'
import math, random
r = random.Random(5)
print("click,a,b,truth")
for i in range(30000):
    a, b = r.randrange(20), r.randrange(20)
    p = 1 / (1 + math.exp(-4 * (a / 9.5 - 1) * (b / 9.5 - 1)))
    print("%d,%d,%d,%.6f" % (r.random() < p, a, b, p))
END
printf 'label click\nfeature a\nfeature b\nkeep truth\n' >planted.plan
"$PY" planted.py | ctr-import -q -f csv --header | ctr-extract -q planted.plan | ctr-select --head 75% --rest later.arrows -o planted.arrows
auc() { ctr-eval --metrics auc "$@" | awk '$1 == "total" { print $NF }'; }
ctr-train lr -q -o lr.arrows planted.arrows
lr=$(ctr-predict -q lr.arrows later.arrows | auc) truth=$(auc --score truth later.arrows)
learned() {
    o='--hidden 16,8'
    [ "$1" != fm ] || o=
    # shellcheck disable=SC2086
    for seed in 1 2 3; do
        ctr-train "$1" -q $o --embedding 4 --minibatch 100 --rate .003 --passes 3 --seed $seed planted.arrows | ctr-predict -q /dev/stdin later.arrows | auc
    done >seeds.txt
    got=$(awk '{ s += $1 } END { print s / NR }' seeds.txt)
    echo "AUC of lr $lr, of $1 $got, of the planted probabilities $truth"
    awk -v l="$lr" -v m="$got" -v t="$truth" 'BEGIN { exit !(l > 0 && l < .55 && m > t - .007 && m <= t + .007) }'
}
for m in $([ -n "$SAN" ] || echo fm dcnv2 dlrm); do
    ok "$m, mean of the seeds, is within .007 of the best AUC there is, where lr is at .5" learned $m
done

# ---- what is wrong
exits 'an option of another model' 2 ctr-train fm --hidden 3 rows.arrows
err_like 'is refused' 'fm takes no --hidden'
exits 'a structure that is none' 2 ctr-train dcnv2 --structure beside rows.arrows
exits 'no cross layers' 2 ctr-train dcnv2 --cross-layers 0 rows.arrows
err_like 'is refused' '--cross-layers must be 1 to 8'
exits 'layers of no size' 2 ctr-train dlrm --bottom 3,x rows.arrows
err_like 'are refused' '--bottom wants at most 7 sizes of layers such as 64,32'
exits 'too many' 2 ctr-train dlrm --bottom 3,3,3,3,3,3,3,3 rows.arrows
ctr-select --columns click,item rows.arrows >item.arrows
exits 'dlrm of one feature' 2 ctr-train dlrm -o x.arrows item.arrows
err_like 'is refused' 'dlrm takes 2 to 1024 features, the numbers being one of them; there is 1'
exits 'fm that diverges' 1 ctr-train fm -q --rate 1e30 --minibatch 50 -o x.arrows rows.arrows
err_like 'names the row' 'rows.arrows: row [0-9]*: .*the learner diverged; scale numbers down, or lower --rate'
for m in fm dcnv2 dlrm; do
    exits "$m of no rows" 0 sh -c "ctr-select --head 0 rows.arrows | ctr-train $m -q -o empty.arrows"
    ok 'gives a model that predicts' sh -c 'ctr-predict empty.arrows rows.arrows >/dev/null'
    exits "$m to a full device" 1 sh -c "ctr-train $m -q rows.arrows >/dev/full"
done
done_testing
