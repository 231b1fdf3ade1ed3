#!/bin/sh
# What nvcc makes of the plug-in's kernels, run on the CPU (tests/ptx): every operation of the compute table and the digests of its
# results, and training, in several orders of blocks and threads. And that errors are noticed.
. "${0%/*}/lib.sh"
. "${0%/*}/ptx/ptx.sh"
cd "$W" || exit 1

# ---- the machine notices errors
fault() { "$ptx/faults" "$1" >fault.out 2>&1; }
finds() { ! fault "$1" && grep -q "$2" fault.out; }
for order in fwd rand:1; do
    export PTX_ORDER=$order
    ok "$order: kernels without an error" fault none
    ok "$order: a barrier that is missing gives a wrong result" finds barrier '^[1-9].* wrong'
    ok "$order: an index out of range" finds index 'invalid load of 4 bytes .*turn.*thread 63'
done
ok "memory that is freed" finds freed 'invalid load'
ok "shared memory out of range" finds shared 'shared memory out of range'
ok "an address that is misaligned" finds misaligned 'misaligned store of 8 bytes'
ok "a barrier that a part of the block reaches" finds part 'threads wait at a barrier'
ok "a block that is too large" finds threads '^refused'
export PTX_FINE=4
ok "sums by atomics" fault atomic
ok "without them: a wrong sum" finds race '^[0-9]'
unset PTX_ORDER PTX_FINE

# ---- the compute table, and its bits beside the CPU's
try() { "$CTR_BUILD/compute/compute" --device gpu --seed 3 "$@" >tap 2>digests && ! grep '^not ok' tap && grep -q '^ok' tap; }
ok "every operation of the compute table" try --digest
"$CTR_BUILD/compute/compute" --device cpu --seed 3 --digest 2>&1 >/dev/null | sort >cpu.digests
# Products are cuBLAS's.
is "results that have other bits than the CPU's are those that compute.h names" \
    "$(sort digests | join cpu.digests - | awk '$2 != $3 && !/^(gemm|conv) / { print $1 }' | tr '\n' ' ')" \
    "$(sed -n 's/^ \* Other bits: //p' "$CTR_TOP/src/common/compute/compute.h" | tr ' ' '\n' | sort | tr '\n' ' ')"
PTX_ORDER=rand:2 PTX_FINE=1 ok "in another order, those whose threads work together" try slots,opt_rows,pool_grad,reduce

# ---- training
awk 'BEGIN { srand(7); print "click,a,b"; for (i = 0; i < 400; i++) print int(rand() < .3) "," int(1 / (.01 + rand())) "," int(40 * rand()) }' </dev/null >rows.csv
printf 'label click\nfeature a\nfeature b\n' >plan
ctr-import -q -f csv --header rows.csv | ctr-extract -q plan -o rows.arrows || exit 1
train() { ctr-train mlp -q --device gpu --embedding 4 --hidden 8 --minibatch 100 -o "$1" rows.arrows; }
ok "a model" train one
CTR_CUDA_GRAPHS=0 ok "without CUDA graphs" train two
ok "the same" cmp one two
for order in rand:6 rev; do
    PTX_ORDER=$order ok "a model, blocks and threads in order $order" train two
    ok "the same" cmp one two
done

done_testing
