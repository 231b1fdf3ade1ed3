#!/bin/sh
# Layers of a plan as kernels, on the host: the text that NVRTC would compile, by the host's compiler, in blocks of fibres
# (tests/gpu/driver.cc). Every operator on every row of its unit test gives the bytes of the host's own driver.
. "${0%/*}/lib.sh"
gpu_driver
export XDG_CACHE_HOME="$W/cache"
if [ -n "${CTR_GPU:-}" ]; then # make check-gpu: each row on the card, and the pool
    cd "$W" || exit 1
    for unit in unit-op unit-gpu; do
        ok "$unit: on the card the bytes of the host" sh -c "\"$CTR_BUILD/unit/$unit\" >$unit.out && ! grep -E '^not ok|SKIP' $unit.out"
    done
    ok 'operators ran there' grep '^# on a device' unit-op.out
    done_testing
    exit 0
fi
[ -z "$SAN" ] || export CTR_CUDA_ON_HOST_CXXFLAGS="-O0 -fsanitize=address,undefined -fsanitize-undefined-trap-on-error -fno-sanitize=vptr"
cd "$W" || exit 1

# ---- operators
export CTR_CUDA_ON_HOST_THREADS=16
units() { # names each row that differs, and each operator without a row
    CTR_CUDA_ON_HOST_SAYS=1 "$CTR_BUILD/unit/unit-op" >units.out 2>units.err
    _rc=$?
    ! grep '^not ok' units.out && [ $_rc = 0 ]
}
ok "each operator, each row: the bytes of the host" units
grep '^# on a device' units.out
ok "the device's memory is given back" grep -q '^on host: 0 left' units.err
[ -n "$SAN" ] || CTR_CUDA_ON_HOST_BLOCKS=mixed CTR_CUDA_ON_HOST_THREADS=24 ok "blocks in another order, of another size" units

if [ -z "$SAN" ] && has_python ctypes; then
    ok "the stand-in refuses what a driver and NVRTC refuse" "$PY" "$CTR_TOP/tests/gpu/refuses.py" "$CTR_CUDA_DRIVER"
else
    skip "the stand-in refuses what a driver and NVRTC refuse" "no python, or sanitizers, which no python loads"
fi

# ---- the pool, and the cache of code
unset CTR_CUDA_ON_HOST_BLOCKS
"$CTR_BUILD/unit/unit-gpu" >pool.out 2>pool.err
ok "results larger than the pool" test $? -eq 0
ok "pools of 1 byte to 4 MiB, each with every byte" sh -c '! grep "^not ok" pool.out && grep -c "^ok" pool.out | grep -qx 13'
ok "threads of a block in another order" env CTR_CUDA_ON_HOST_BLOCKS=forward sh -c '"$CTR_BUILD/unit/unit-gpu" >forward.out 2>&1 && ! grep "^not ok" forward.out'

# A prefix sum without its barrier N gives other results in one order of threads or another, or does not end well.
without() {
    for order in forward mixed backward; do
        CTR_CUDA_ON_HOST_BLOCKS=$order CTR_CUDA_ON_HOST_THREADS=80 CTR_CUDA_ON_HOST_CXXFLAGS="-O1 -DOPD_WITHOUT_BARRIER=$1 ${CTR_CUDA_ON_HOST_CXXFLAGS:-}" \
            XDG_CACHE_HOME=$W/without$1 timeout 120 "$CTR_BUILD/unit/unit-gpu" >without.out 2>&1 && ! grep -q '^not ok' without.out || return 0
    done
    return 1
}
if [ -z "$SAN" ]; then
    for n in 1 2 3; do
        ok "without barrier $n of the prefix sum: found" without $n
    done
    ok "with all of them: nothing" eval '! without 0'
fi

# Nothing below runs a kernel.
export CTR_CUDA_ON_HOST_CXXFLAGS=-O0
compile() { XDG_CACHE_HOME=$cache "$CTR_BUILD/unit/unit-gpu" compile sm_90; }
cache=$W/one
entry() { find "$cache" -name '*.cubin'; }
compiled() { compile >c.out && grep -q '^compiled' c.out; }
cached() { compile >c.out && grep -q '^cached' c.out && [ "$(cut -d ' ' -f 2- c.out)" = "$first" ]; }
ok "a kernel is compiled once" compiled
first=$(cut -d ' ' -f 2- c.out)
ok "and is then in the cache" cached
ok "one entry" [ "$(entry | wc -l)" -eq 1 ]
cp "$(entry)" whole
# Each kind of damage is seen, and the code is that of before. The compiler of the host gives the same bytes again.
damaged() { compiled && [ "$(cut -d ' ' -f 2- c.out)" = "$first" ] && cached && cmp -s whole "$(entry)"; }
head -c 10 whole >"$(entry)"
ok "made again: an entry cut within its head" damaged
if [ -z "$SAN" ]; then
    head -c 5000 whole >"$(entry)"
    ok "made again: an entry cut within the code" damaged
    { cat whole && echo more; } >"$(entry)"
    ok "made again: an entry that is longer" damaged
    { head -c 4000 whole && printf X && tail -c +4002 whole; } >"$(entry)"
    ok "made again: an entry with another byte" damaged
fi
truncate -s 0 "$cache/ctrkit/nvrtc"
ok "a damaged stamp of NVRTC's version: it is asked again, and the kernel is cached" cached

cache=$W/two
compile >a.out &
compile >b.out && wait $!
both=$?
ok "two processes at once: both have code" test $both -eq 0
ok "the same" [ "$(cut -d ' ' -f 2- a.out)" = "$first" -a "$(cut -d ' ' -f 2- b.out)" = "$first" ]
ok "one whole entry, and nothing beside it" [ "$(ls -A "$cache/ctrkit" | grep -vc '^nvrtc$')" -eq 1 ]
ok "which the next process reads" cached

cache=/dev/null
[ -n "$SAN" ] || ok "a place that cannot be written is no cache" compiled

cache=$W/one
chmod g+w "$(entry)"
ok "code that others may write is not run: made again" compiled
ok "… as a file of its owner alone" cached
chmod o+w "$cache/ctrkit"
ok "in a folder that others may write is no cache" compiled
chmod o-w "$cache/ctrkit"
ok "… and one that they may not is one again" cached

# ---- what `make bench-gpu` times: the three ways to memory of unknown size give the same
bench() { XDG_CACHE_HOME=$W/bench CTR_CUDA_ON_HOST_SAYS=1 "$CTR_BUILD/bench/bench-gpu" "$@" >b.out 2>b.err; }
ok "launches of an empty kernel" bench launches 10
is "as many as asked for, and graphs of as many" "$(cut -f 1 b.out | tail -n +2 | tr '\n' ',')" '1 launches,a graph of 1,10 launches,a graph of 10,'
ok "a layer of splits by the pool, by cuMemAllocAsync and by malloc of threads" bench split 40
ok "whose memory is given back" grep -q '^on host: 0 left' b.err
is "with the same pieces" "$(sed -n 's/.*sum //p' b.out | sort | uniq -c | awk '{ print $1 }')" 3
CTR_CUDA_DRIVER=$W/no-such.so exits "no GPU: skipped" 77 "$CTR_BUILD/bench/bench-gpu" launches 1

# ---- errors
fails() {
    want=$1
    shift
    "$@" >e.out 2>e.err
    [ $? -eq 1 ] && [ ! -s e.out ] && grep -q "$want" e.err
}
cache=$W/none
CTR_NVRTC=$W/no-such.so ok "no NVRTC" fails 'there is no NVRTC: .*no-such.so.*CUDA toolkit' compile
CTR_CUDA_ON_HOST_FAIL=nvrtcCompileProgram:1 ok "a kernel that NVRTC refuses" \
    fails 'NVRTC 99.0 refuses the kernel of a layer (--place NODE=cpu .*): this call was to fail' compile
CTR_CUDA_ON_HOST_FAIL=nvrtcCompileProgram:1:5 ok "an architecture that NVRTC does not know" fails 'NVRTC 99.0 does not know sm_90' compile
CTR_CUDA_ON_HOST_FAIL=nvrtcCompileProgram:1:1 ok "a kernel that is too large" fails 'too little memory to compile .*--place NODE=cpu' compile
CTR_CUDA_ON_HOST_VERSION=11 ok "an NVRTC that is too old" fails 'NVRTC 11.0 is too old: CUDA 12 or newer' compile
CTR_CUDA_ON_HOST_FAIL=nvrtcCreateProgram:1 ok "NVRTC that does not start" fails 'NVRTC does not start' compile
ok "no entry of what failed" [ -z "$(entry)" ]
for v in 12.0 12.8 12.9 13.1; do
    cache=$W/$v
    CTR_CUDA_ON_HOST_VERSION=$v ok "NVRTC $v compiles" compile
done
CTR_CUDA_DRIVER=$W/no-such.so ok "no driver" fails 'no GPU: the driver of CUDA cannot be opened' "$CTR_BUILD/unit/unit-gpu"
CTR_CUDA_ON_HOST_DEVICES=0 ok "no device" fails 'no GPU: the driver finds none' "$CTR_BUILD/unit/unit-gpu"
done_testing
