#!/bin/sh
# --device: a model learned on a GPU and one learned on the CPU, each predicting on either. Where there is no GPU, the plug-in's
# text runs as loops on the host, with all that a device's own memory asks of a learner.
. "${0%/*}/lib.sh"
onhost=$gpu_plugin
export CTR_CUDA_PLUGIN="$onhost"
cd "$W" || exit 1
awk 'BEGIN { srand(7); print "click,a,b,x"
    for (i = 0; i < 4000; i++) { a = int(1 / (.002 + rand())); b = int(40 * rand())
        print (rand() < .2 + .5 * ((7 * a + b) % 3 == 0)) "," a "," b "," rand() } }' >rows.csv
printf 'label click\nfeature a\nfeature b\ndense x\n' >plan
ctr-import -q --format csv --header rows.csv | ctr-extract -q plan -o rows.arrows
train() { ctr-train mlp -q --embedding 5 --hidden 16,8 --minibatch 300 "$@" rows.arrows; }
train -o cpu.arrows --progressive cpu.p

# close A B: log-odds of the scores agree to 1e-4.
log_odds() { ctr-export -q --format csv "$1" | awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "score") c = i; next } { print log($c / (1 - $c)) }'; }
close() {
    log_odds "$1" >a.txt
    log_odds "$2" >b.txt
    paste a.txt b.txt | awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > most) most = d; n++ } END { print n " rows, off by " most; exit !(n == 4000 && most <= 1e-4) }'
}

exits "lr on a GPU" 2 ctr-train lr -q --device gpu rows.arrows
err_like "goes by minibatches" 'device gpu: lr learns by minibatches there; say of how many rows: --minibatch ROWS'
exits "another tool on a GPU" 1 ctr-cat --device gpu rows.arrows
err_like "is refused, too" 'device gpu: ctr-cat has no GPU implementation'
CTR_CUDA_PLUGIN=$W/none.so exits "no plug-in" 1 train --device gpu -o none.arrows
err_like "no silent fall-back" 'no GPU: the plug-in cannot be opened'
ok "and nothing is written" test ! -e none.arrows
CTR_CUDA_PLUGIN=$W/none.so exits "auto without a GPU" 0 ctr-train mlp -v --hidden 4 --device auto -o auto.arrows rows.arrows
err_like "says what it took and why" 'device auto: the CPU, because no GPU: the plug-in cannot be opened'

CTR_GEMM=cublas exits "another matrix product" 2 train -o none.arrows
err_like "names the one that is" "gemm 'cublas': on a CPU there is 'exact' alone"

if [ ! -f "$onhost" ]; then
    skip "the plug-in on the host" "there is no c++"
    done_testing
    exit 0
fi
train --device gpu -o gpu.arrows --progressive gpu.p
train --device gpu -o gpu2.arrows --progressive gpu2.p
ok "the same device gives the same model" cmp gpu.arrows gpu2.arrows
ok "and the same predictions" cmp gpu.p gpu2.p
CTR_CUDA_GRAPHS=0 exits "without CUDA graphs" 0 train --device gpu -o plain.arrows --progressive plain.p
ok "the same model" cmp gpu.arrows plain.arrows
ok "and the same predictions" cmp gpu.p plain.p
exits "with them" 0 ctr-train mlp -v --embedding 5 --hidden 16,8 --minibatch 300 --device gpu -o gpu2.arrows rows.arrows
err_like "some are launched" '^CUDA graphs  *[1-9][0-9]*, launched [1-9][0-9]* times$'
exits "auto with a GPU" 0 ctr-train mlp -v --hidden 4 --device auto -o auto.arrows rows.arrows
err_like "says which" 'device auto: cuda: '

for model in cpu gpu; do
    ctr-predict -q "$model.arrows" rows.arrows -o "$model-cpu.p"
    ctr-predict -q --device gpu "$model.arrows" rows.arrows -o "$model-gpu.p"
    ctr-predict -q --device gpu -j 3 "$model.arrows" rows.arrows -o "$model-gpu3.p"
    ok "a model of the $model: the same scores on both" close "$model-cpu.p" "$model-gpu.p"
    ok "and for any -j" cmp "$model-gpu.p" "$model-gpu3.p"
done
ctr-select --head 600 rows.arrows >first.feat
ctr-select --head 900 rows.arrows | ctr-select --tail 300 >next.feat
ctr-train mlp -q --embedding 5 --hidden 16,8 --minibatch 300 --device gpu -o first.arrows first.feat
ctr-predict -q --device gpu first.arrows next.feat | ctr-export -q --format csv --columns score >next.txt
ctr-export -q --format csv --columns score gpu.p | awk 'NR == 1 || NR > 601 && NR <= 901' >want.txt
ok "keys that a model does not know: predictions are progressive scores" cmp next.txt want.txt
ctr-predict first.arrows next.feat 2>cpu.said >/dev/null
ctr-predict --device gpu first.arrows next.feat 2>gpu.said >/dev/null
ok "of which there are some" grep -q 'does not know [1-9]' gpu.said
is "and as many on both" "$(grep 'does not know' gpu.said)" "$(grep 'does not know' cpu.said)"
ok "models learned on one and on the other" close cpu-cpu.p gpu-gpu.p
exits "memory that does not suffice" 1 train --device gpu --device-memory 64K -o none.arrows
err_like "says what is needed" 'more are needed beside .*, and --device-memory allows 64 KiB|bytes of scratch are needed'
ok "and nothing is written" test ! -e none.arrows

# ---- bad input and reliability are those of the CPU
if gpu_on_host; then
    exits "a driver without device" 1 env CTR_CUDA_ON_HOST_DEVICES=0 ctr-train mlp -q --device gpu -o none.arrows rows.arrows
    err_like "no silent fall-back" 'no GPU: the driver finds no device'
    exits "nor when predicting" 1 env CTR_CUDA_ON_HOST_DEVICES=0 ctr-predict -q --device gpu gpu.arrows rows.arrows
    exits "no driver" 1 env CTR_CUDA_ON_HOST_DRIVER=0 ctr-train mlp -q --device gpu -o none.arrows rows.arrows
    err_like "says so" 'no GPU: no driver is there'
    for n in 1 40 300; do
        exits "kernel $n faults" 1 env CTR_CUDA_ON_HOST_FAIL=fault:$n ctr-train mlp -q --device gpu --minibatch 300 -o none.arrows --progressive none.p rows.arrows
        err_like "which is told" 'an illegal memory access'
        ok "and nothing is written" sh -c '! test -e none.arrows && ! test -e none.p'
    done
fi
perl -pe "s/\\Q$(ctr-cat --version | sed 's/.* //')\\E(?=\\0{27})/0.0.9/" "$onhost" >old.so
exits "a plug-in of another version" 1 env CTR_CUDA_PLUGIN="$W/old.so" ctr-train mlp -q --device gpu -o none.arrows rows.arrows
err_like "says which" 'plug-in of version 0.0.9 .* install both from one build'
exits "memory that does not suffice to predict" 1 ctr-predict -q --device gpu --device-memory 1K gpu.arrows rows.arrows
err_like "says what is needed" 'more are needed beside .*, and --device-memory allows 1 KiB'
exits "--init with another shape" 1 ctr-train mlp -q --device gpu --init gpu.arrows --embedding 5 --hidden 16,9 -o none.arrows rows.arrows
err_like "says what differs" 'gpu.arrows: the model has the parameter 1.weight of 8 x 16, with these options it is 1.weight of 9 x 16'
printf 'label click\nfeature a = a + 1\nfeature b\ndense x\n' >other.plan
ctr-import -q --format csv --header rows.csv | ctr-extract -q other.plan -o other.arrows
exits "a model of another plan" 1 ctr-predict -q --device gpu gpu.arrows other.arrows
err_like "is refused" "other.arrows: its features are not those that gpu.arrows learned from: its plan has "
for order in '' kernels; do
    export CTR_CUDA_ON_HOST_ORDER=$order
    exits "a learner that diverges (${order:-at once})" 1 train --device gpu --rate 1e30 --checkpoint n.ckpt --checkpoint-every 70 -o none.arrows
    err_like "names the row" 'row (3[0-9][0-9]|[45][0-9][0-9]|600): .*the learner diverged; scale numbers down, or lower --rate'
    ok "and leaves no model" test ! -e none.arrows
    rm -f n.ckpt*
done
unset CTR_CUDA_ON_HOST_ORDER
awk -F, -v OFS=, 'NR == 2501 { $4 = "1e37" } { print }' rows.csv >late.csv
ctr-import -q --format csv --header late.csv | ctr-extract -q plan | ctr-cat --batch 77 -o late.arrows
exits "a number that overflows late" 1 ctr-train mlp -q --device gpu --embedding 5 --hidden 16,8 --minibatch 300 --rate 100 --checkpoint n.ckpt --checkpoint-every 70 -o none.arrows late.arrows
err_like "names the row" 'late.arrows: row (2[4-9][0-9][0-9]|3[0-9][0-9][0-9]): '
ok "the last good checkpoint is kept, and predicts" sh -c 'ctr-predict -q n.ckpt rows.arrows >/dev/null && ctr-predict -q --device gpu n.ckpt rows.arrows >/dev/null'
done_testing
