#!/bin/sh
# Layers of a plan as kernels, on the host: the text that NVRTC would compile, by the host's compiler, in blocks of fibres
# (tests/gpu/driver.cc). Every operator on every row of its unit test gives the bytes of the host's own driver.
. "${0%/*}/lib.sh"
export CTR_CUDA_DRIVER="$CTR_BUILD/onhost/libcuda.so" XDG_CACHE_HOME="$W/cache"
export CTR_NVRTC="$CTR_CUDA_DRIVER"
[ -f "$CTR_CUDA_DRIVER" ] || skip_all "there is no c++"
[ -z "$SAN" ] || export CTR_CUDA_ON_HOST_CXXFLAGS="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-sanitize=vptr"
cd "$W" || exit 1

# ---- operators
export CTR_CUDA_ON_HOST_THREADS=16
units() { CTR_CUDA_ON_HOST_SAYS=1 "$CTR_BUILD/unit/unit-op" >units.out 2>units.err && ! grep '^not ok' units.out; }
ok "each operator, each row: the bytes of the host" units
grep '^# on a device' units.out
ok "the device's memory is given back" grep -q '^on host: 0 left' units.err
[ -n "$SAN" ] || CTR_CUDA_ON_HOST_BLOCKS=mixed CTR_CUDA_ON_HOST_THREADS=24 ok "blocks in another order, of another size" units
done_testing
