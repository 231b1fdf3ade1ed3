# What nvcc and NVRTC made of our kernels, run on the CPU by tests/ptx: sourced behind lib.sh by the tests that do so.
ptx=$CTR_BUILD/ptx
[ -z "$SAN" ] || skip_all "the plain build runs it: the machine checks kernels itself"
[ "$(uname -m)" = x86_64 ] || skip_all "threads are switched by code for x86-64"
[ -f "$ptx/ctr-cuda.so" ] || skip_all "the build found no nvcc: install the CUDA toolkit and run make again, or give NVCC=PATH"
export CTR_CUDA_PLUGIN="$ptx/ctr-cuda.so" CTR_CUDA_DRIVER="$ptx/libcuda.so" CTR_NVRTC="$ptx/libcuda.so" XDG_CACHE_HOME="$W/cache"
