#!/bin/sh
# The compute table: every operation of every back end against the reference and against finite differences, and the same
# bytes for any number of threads and any instruction set. `make check-gpu` runs the GPU's part.
. "${0%/*}/lib.sh"
compute=$CTR_BUILD/compute/compute
export ASAN_OPTIONS="allocator_may_return_null=1:${ASAN_OPTIONS:-}"

# try NAME ARGS… : all trials of a back end pass; what failed is shown, with its seed: a number of its own, the same in each run.
try() {
    _name=$1
    shift
    "$compute" --seed $n_tests "$@" >"$W/tap" 2>&1
    _rc=$?
    if [ $_rc -eq 77 ]; then
        skip "$_name" "skipped: no device"
        return
    fi
    sed -n '/^not ok/,/^ok/p' "$W/tap" | sed 's/^/# /'
    ok "$_name: $(grep -c '^ok' "$W/tap") of $(grep -Ec '^(not )?ok' "$W/tap"), $(sed -n 's/^# .*seed/seed/p' "$W/tap" | head -n 1)" \
        test $_rc -eq 0
}

[ -n "$SAN" ] || try "cpu" --nan
try "cpu, two threads" --threads 2 ${SAN:+--nan}
for cpu in avx2 plain; do
    CTR_CPU=$cpu try "cpu, $cpu"
done

# Bytes are the plain build's matter: what a digest runs, the trials have run, beside the reference.
digest() {
    "$compute" --digest=alone --seed 7 "$@" 2>&1 >/dev/null
}
if [ -z "$SAN" ]; then
    want=$(digest)
    is "a digest of the outputs of each operation" "$(echo "$want" | grep -Ec '^[a-z0-9_]+ [0-9a-f]{16}$')" \
        "$(sed -n '/define CTR_DEV_OPS/,/[^\\]$/p' "$CTR_TOP/src/common/compute/compute.h" | grep -c ' X(')"
    for run in avx512:1 avx512:2 avx512:4 avx2:2 plain:4; do
        is "the same bytes with ${run%:*}, -j ${run#*:}" "$(CTR_CPU=${run%:*} digest --threads "${run#*:}")" "$want"
    done
    ok "another seed gives other bytes" test "$(digest --seed 8)" != "$want"
fi

# The judge can fail: a back end that errs by one part in a thousand is found.
ok "a wrong result is found" sh -c "! '$compute' --err 0.001 --seed 7 gemm >'$W/tap' && grep -q '^not ok.*gemm' '$W/tap'"

exits "an unknown back end" 1 "$compute" --device tpu
ok "says what there is" grep -q "none of 'cpu', 'gpu'" "$W/out"

# The GPU's text as loops on the host: kernels, launches and scratch are tried without a GPU.
onhost=$CTR_BUILD/onhost/ctr-cuda.so
unset CTR_CUDA_PLUGIN
if [ -f "$onhost" ]; then
    [ -n "$SAN" ] || CTR_CUDA_PLUGIN=$onhost try "cuda, its kernels on the host" --device gpu --nan
    for late in copies kernels; do
        CTR_CUDA_PLUGIN=$onhost CTR_CUDA_ON_HOST_ORDER=$late try "cuda, $late as late as they may be" --device gpu ${SAN:+--nan}
    done
    perl -pe "s/\\Q$(ctr-cat --version | sed 's/.* //')\\E(?=\\0{27})/0.0.9/" "$onhost" >"$W/old.so"
    exits "a plug-in of another version" 77 env CTR_CUDA_PLUGIN="$W/old.so" "$compute" --device gpu
    ok "says so" grep -q "plug-in of version 0.0.9 .* and this program is .* install both from one build" "$W/out"
    exits "a driver without a device" 77 env CTR_CUDA_PLUGIN="$onhost" CTR_CUDA_ON_HOST_DEVICES=0 "$compute" --device gpu
    ok "says so" grep -q "no GPU: the driver finds no device" "$W/out"
    exits "no driver" 77 env CTR_CUDA_PLUGIN="$onhost" CTR_CUDA_ON_HOST_DRIVER=0 "$compute" --device gpu
    ok "says so" grep -q "no GPU: no driver is there" "$W/out"
else
    skip "cuda, its kernels on the host" "there is no c++"
fi
try "cuda" --device gpu
exits "a plug-in that is not there" 77 env CTR_CUDA_PLUGIN="$W/none.so" "$compute" --device gpu
ok "says so" grep -q "no GPU: the plug-in cannot be opened: .*none.so" "$W/out"
exits "a library that is no plug-in" 77 env CTR_CUDA_PLUGIN="$CTR_BUILD/fault/inject.so" "$compute" --device gpu
ok "says so" grep -q "inject.so: no plug-in of ctrkit" "$W/out"
exits "auto takes the CPU" 0 env CTR_CUDA_PLUGIN="$W/none.so" "$compute" --device auto fill
ok "and says why" grep -q "^# device auto: the CPU, because no GPU: the plug-in cannot be opened" "$W/out"
done_testing
