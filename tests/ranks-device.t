#!/bin/sh
# mpirun -n R ctr-train MODEL --device gpu: every rank computes on a GPU, that of its number on the machine modulo the GPUs, or the one
# named. The model is close to that of processors over as many ranks, and has the same bits for any -j, --batch and number of rows that
# stay on the device, and whether dense gradients go by NCCL or through host memory. Where there is no GPU the plug-in's text runs on the
# host, and tests/gpu/nccl.cc stands for NCCL.
. "${0%/*}/lib.sh"
. "${0%/*}/ranks.sh"
export CTR_CUDA_PLUGIN="$gpu_plugin"
[ -f "$gpu_plugin" ] || skip_all "there is no plug-in for GPUs: no c++"
cd "$W" || exit 1

awk 'BEGIN { srand(8); for (i = 0; i < 40; i++) { printf "{\"key\": \"p%02d\", \"vector\": [", i >"images.jsonl"
        for (k = 0; k < 6; k++) printf "%s%.3f", k ? ", " : "", (i % 3 == k % 3) + rand() - .5 >"images.jsonl"
        print "]}" >"images.jsonl" }
    print "click,a,b,x,past,photo"; for (i = 0; i < 2000; i++) { b = int(30 / (.01 + rand())); p = int(40 * rand())
        print (rand() < .2 + .5 * ((b + p) % 3 == 0)) "," int(900 * rand()) "," b "," rand() "," int(900 * rand()) " " int(900 * rand()) "," sprintf("p%02d", p) } }' >rows.csv
ctr-import -q -f jsonl images.jsonl | ctr-sort -q -k key | ctr-cat -q --to file --key key -o images.arrow
printf 'label click\nfeature a\nfeature b\ndense x\nfeature past in a of a = split(past, " ")\n' >plan
printf 'label click\nfeature a\ndense x\nimage photo\n' >images.plan
for p in plan images.plan; do
    ctr-import -q --format csv --header rows.csv | ctr-extract -q $p | ctr-cat -q --to file --batch 133 -o $p.arrow
done
common="-q --embedding 4 --hidden 5 --minibatch 100"
close() { # close A B INPUT OPTION… : log-odds of the scores agree to 1e-4
    _a=$1 _b=$2 _rows=$3
    shift 3
    for m in "$_a" "$_b"; do ctr-predict -q "$@" "$m" "$_rows" | ctr-export -q --format csv -c score | awk 'NR > 1 { print log($1 / (1 - $1)) }' >"$m.odds"; done
    paste "$_a.odds" "$_b.odds" | awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > most) most = d } END { print NR " rows, off by " most; exit !(NR == 2000 && most <= 1e-4) }'
}

# ---- the model of processors
for model in 'lr --l1 .3' 'mlp --l2 .001' 'din --activation prelu' 'two-tower --user-features a,past --ad-features b,x'; do
    # shellcheck disable=SC2086
    case $model in lr*) options='-q --minibatch 100' ;; *) options=$common ;; esac
    # shellcheck disable=SC2086
    for device in cpu gpu; do run 2 ctr-train $model $options --device $device -o $device.m plan.arrow; done
    ok "2 ranks on GPUs learn what 2 on processors do: $model" close cpu.m gpu.m plan.arrow
done
for at in ams worker server; do
    for device in cpu gpu; do
        # shellcheck disable=SC2086
        run 2 ctr-train dicm $common --images images.arrow --images-tower 5 --images-at $at --device $device -o $device.m images.plan.arrow
    done
    ok "… and dicm, images at $at" close cpu.m gpu.m images.plan.arrow --images images.arrow
done
# shellcheck disable=SC2086
run 3 ctr-train dicm $common --images images.arrow --images-tower 5 --device gpu -o three.m images.plan.arrow
ok 'the comparison can fail' eval '! close three.m gpu.m images.plan.arrow --images images.arrow'

# ---- the same bits
mlp() { # mlp FILE OPTION…
    _m=$1
    shift
    # shellcheck disable=SC2086
    run 2 ctr-train mlp $common --l2 .001 --device gpu --passes 2 "$@" -o "$_m" plan.arrow
}
mlp one.m
mlp got.m -j 3 --batch 17 --prefetch 1
ok 'the same bits for any -j and batches, and with requests ahead' cmp got.m one.m
CTR_WORKING_SET=64 mlp got.m
ok '… however few rows stay on the device' cmp got.m one.m
if gpu_on_host; then
    for order in copies kernels; do
        CTR_CUDA_ON_HOST_ORDER=$order mlp got.m --prefetch 1
        ok "… and when $order are late" cmp got.m one.m
    done
fi
mlp got.m --passes 1 --checkpoint c.ckpt --checkpoint-every 600
mlp got.m --checkpoint c.ckpt --resume
ok 'a run that goes on from a checkpoint: as many bits' cmp got.m one.m
mlp got.m --spill . --memory 8M
ok 'rows on disk' cmp got.m one.m
run 2 ctr-train mlp -q --embedding 4 --hidden 5 --minibatch 100 --l2 .001 --passes 2 --checkpoint c.ckpt --resume -o got.m plan.arrow
ok 'a checkpoint of GPUs goes on on processors' close got.m one.m plan.arrow

# ---- which GPU
say() { # say DEVICE : on two GPUs, what each of three ranks takes
    # shellcheck disable=SC2086
    CTR_CUDA_ON_HOST_DEVICES=2 run 3 ctr-train mlp -v --embedding 4 --hidden 5 --device "$1" -o two.m plan.arrow 2>&1 | sed -n 's/^ctr-train: \(rank .\): .*cuda: \([0-9]\): .*/\1 \2/p' | sort | tr '\n' ' '
}
if gpu_on_host; then
    is 'each rank takes the GPU of its number on the machine' "$(say gpu)" 'rank 0 0 rank 1 1 rank 2 0 '
    is '… or any that there is' "$(say auto)" 'rank 0 0 rank 1 1 rank 2 0 '
    is '… or the one that is named' "$(say gpu:1)" 'rank 0 1 rank 1 1 rank 2 1 '
    is '… or that of $CTR_CUDA_DEVICE' "$(CTR_CUDA_DEVICE=1 say gpu)" 'rank 0 1 rank 1 1 rank 2 1 '
    CTR_CUDA_ON_HOST_DEVICES=2 exits 'a GPU that is not there' 1 ctr-train mlp --device gpu:2 -o no.m plan.arrow
    err_like 'is named' 'no GPU 2 .--device gpu:2.: the driver finds 2, counted from 0'
fi
for bad in gpu: gpu:x gpu:-1 cpu:1 gpu:123456; do
    exits "--device $bad" 2 ctr-train mlp --device $bad -o no.m plan.arrow
done
err_like 'tells what there is' "--device wants cpu.gpu.gpu:N.auto, not 'gpu:123456'"
is 'the numbers are not words to complete' "$(ctr-train --list-options | awk -F'\t' '$1 == "--device" { print $4 }')" 'cpu|gpu|auto'

# ---- from GPU to GPU: the bits of the way through host memory
! gpu_on_host || export CTR_NCCL_LIBRARY="$CTR_BUILD/onhost/libnccl.so" CTR_CUDA_ON_HOST_DEVICES=3
way() { sed -n 's/^dense gradients go *//p' way.err; } # of the last run with -v
for ranks in 2 3; do
    for device in host direct; do
        # shellcheck disable=SC2086
        CTR_NCCL=$([ $device = host ] && echo 0) run $ranks ctr-train mlp -v --embedding 4 --hidden 5 --minibatch 100 --l2 .001 --passes 2 --device gpu \
            -j $ranks -o $device.m plan.arrow 2>way.err
        [ $device = direct ] || is "$ranks ranks: CTR_NCCL=0" "$(way)" 'through host memory, because of rank 0: CTR_NCCL=0'
    done
    ok "$ranks ranks: the same model by NCCL" cmp direct.m host.m
    ! gpu_on_host || is '… is said' "$(way)" 'from GPU to GPU, by NCCL'
done
for device in 0 1; do
    # shellcheck disable=SC2086
    CTR_NCCL=$device run 2 ctr-train dicm $common --images images.arrow --images-tower 5 --device gpu -o images$device.m images.plan.arrow
done
ok '… and of images, with a tower' cmp images0.m images1.m
if gpu_on_host; then
    mlp got.m -j 3 --batch 17 --prefetch 1
    ok '… for any -j and batches' cmp got.m one.m
    CTR_CUDA_ON_HOST_ORDER=kernels mlp got.m
    ok '… and when kernels are late' cmp got.m one.m
    CTR_NCCL_ON_HOST_SAYS=1 mlp got.m 2>sent.err
    ok '… which the library has sent' test "$(grep -c '^nccl: [1-9][0-9]* bytes sent' sent.err)" = 2
    # shellcheck disable=SC2086
    CTR_CUDA_ON_HOST_DEVICES=1 run 2 ctr-train mlp -v --hidden 5 --device gpu -o got.m plan.arrow 2>way.err
    is 'ranks that share a GPU' "$(way)" 'through host memory, because ranks 0 and 1 share a GPU'
    CTR_NCCL_LIBRARY=$W/none.so run 2 ctr-train mlp -v --hidden 5 --device gpu -o got.m plan.arrow 2>way.err
    ok 'no NCCL' sh -c "grep -q '^dense gradients go *through host memory, because of rank 0: NCCL cannot be opened: .*none.so' way.err"
    rm -f no.m
    for fail in open:1 send:5 receive:5 group:5 network:5 stall:5 kill:5 stop:5; do
        # A short limit where a rank stays silent alone: elsewhere a machine that stands still for that long would hide the message.
        case $fail in stall* | stop*) limit=3 ;; *) limit=20 ;; esac
        # shellcheck disable=SC2086
        CTR_RANKS_LIMIT=$limit timeout 60 mpirun --oversubscribe -q -n 1 ctr-train mlp $common --device gpu -o no.m plan.arrow : \
            -n 1 -x CTR_NCCL_ON_HOST_FAIL=$fail ctr-train mlp $common --device gpu -o no.m plan.arrow >err 2>&1 </dev/null
        _rc=$?
        ok "one rank, $fail: all end" test $_rc -ne 0 -a $_rc -ne 124 -a ! -e no.m
        case $fail in
        kill*) continue ;;
        open* | group*) said='NCCL: .*: unhandled system error' ;;
        send* | receive*) said='NCCL: sending: internal error' ;;
        network*) said='NCCL: sending: remote process exited' ;;
        stall*) said='NCCL: rank . of 2: sending has taken 3 s' ;;
        stop*) said='has taken 3 s\|no sign of life for 3 s' ;;
        esac
        ok '… with a message' sh -c 'grep -q "$1" err || { cat err; false; }' sh "$said"
    done
    unset CTR_NCCL_LIBRARY CTR_CUDA_ON_HOST_DEVICES
fi

# ---- a rank whose device fails ends all
if gpu_on_host; then
    # shellcheck disable=SC2086
    timeout 60 mpirun --oversubscribe -q -n 1 ctr-train mlp $common --device gpu -o no.m plan.arrow : \
        -n 1 -x CTR_CUDA_ON_HOST_FAIL=launch:200 ctr-train mlp $common --device gpu -o no.m plan.arrow 2>err
    is 'a device that fails on one rank' $? 1
    ok 'is named' grep -q 'cuda: its kernels on the host.*unspecified launch failure' err
    ok 'no model' test ! -e no.m
fi
done_testing
