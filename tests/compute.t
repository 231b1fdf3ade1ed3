#!/bin/sh
# The compute table: every operation of every back end against the reference and against finite differences, and the same
# bytes for any number of threads and any instruction set. `make check-gpu` runs the GPU's part.
. "${0%/*}/lib.sh"
compute=$CTR_BUILD/compute/compute
export ASAN_OPTIONS="allocator_may_return_null=1:${ASAN_OPTIONS:-}"

# try NAME ARGS… : all trials of a back end pass; what failed is shown, with its seed.
try() {
    _name=$1
    shift
    "$compute" "$@" >"$W/tap" 2>&1
    _rc=$?
    if [ $_rc -eq 77 ]; then
        skip "$_name" "skipped: no device"
        return
    fi
    sed -n '/^not ok/,/^ok/p' "$W/tap" | sed 's/^/# /'
    ok "$_name: $(grep -c '^ok' "$W/tap") of $(grep -Ec '^(not )?ok' "$W/tap"), $(sed -n 's/^# .*seed/seed/p' "$W/tap" | head -n 1)" \
        test $_rc -eq 0
}

try "cpu" --nan
try "cpu, two threads" --threads 2
for cpu in avx2 plain; do
    CTR_CPU=$cpu try "cpu, $cpu"
done
if "$compute" --gemm onednn --bench none >/dev/null 2>&1; then
    try "onednn" --gemm onednn --threads 2
else
    skip "onednn" "libdnnl is not there"
fi

digest() {
    "$compute" --digest --seed 7 "$@" 2>&1
}
want=$(digest)
ok "a digest of all outputs" expr "$want" : '[0-9a-f]\{16\}$'
for run in avx512:1 avx512:2 avx512:4 avx2:2 plain:4; do
    is "the same bytes with ${run%:*}, -j ${run#*:}" "$(CTR_CPU=${run%:*} digest --threads "${run#*:}")" "$want"
done
ok "another seed gives other bytes" test "$(digest --seed 8)" != "$want"

# The judge can fail: a back end that errs by one part in a thousand is found.
ok "a wrong result is found" sh -c "! '$compute' --err 0.001 --seed 7 >'$W/tap' && grep -q '^not ok.*gemm' '$W/tap'"

exits "an unknown back end" 1 "$compute" --device tpu
ok "says what there is" grep -q "none of 'cpu', 'gpu', 'auto'" "$W/out"
exits "a plug-in that is not there" 77 env CTR_CUDA_PLUGIN="$W/none.so" "$compute" --device gpu
ok "says so" grep -q "no GPU: the plug-in cannot be opened: .*none.so" "$W/out"
done_testing
