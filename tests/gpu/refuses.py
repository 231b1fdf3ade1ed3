# SPDX-License-Identifier: Apache-2.0
"""refuses.py LIBRARY: the stand-in for CUDA's driver and NVRTC refuses what they refuse (tests/gpu.t). Prints what it does not."""
import ctypes
import sys

cuda = ctypes.CDLL(sys.argv[1])
P, N = ctypes.c_void_p, ctypes.c_size_t
INVALID_VALUE, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_OPTION = 1, 3, 201, 5
p, stream, context = ctypes.c_uint64(), P(), P()
host = ctypes.create_string_buffer(64)
wrong = []


def gives(what, want, call, *args):
    got = getattr(cuda, call)(*args)
    if got != want:
        wrong.append(f"{what}: {call} gives {got}, not {want}")


def to_device(to, n):
    return ctypes.c_uint64(to), host, N(n), stream


gives("before cuInit", NOT_INITIALIZED, "cuMemAlloc_v2", ctypes.byref(p), N(64))
gives("cuInit", 0, "cuInit", 0)
gives("no context", INVALID_CONTEXT, "cuMemAlloc_v2", ctypes.byref(p), N(64))
gives("a context that is none", INVALID_CONTEXT, "cuCtxSetCurrent", P(1))
gives("retain", 0, "cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
gives("current", 0, "cuCtxSetCurrent", context)
gives("memory", 0, "cuMemAlloc_v2", ctypes.byref(p), N(64))
if ctypes.string_at(p.value, 64) != b"\xff" * 64:
    wrong.append("fresh memory is no NaN")
gives("a stream", 0, "cuStreamCreate", ctypes.byref(stream), 0)
gives("a copy", 0, "cuMemcpyHtoDAsync_v2", *to_device(p.value, 64))
gives("a copy beyond the end", INVALID_VALUE, "cuMemcpyHtoDAsync_v2", *to_device(p.value + 8, 64))
gives("a copy to the host as if to the device", INVALID_VALUE, "cuMemcpyHtoDAsync_v2", *to_device(ctypes.addressof(host), 8))
gives("a copy from the device as if from the host", INVALID_VALUE, "cuMemcpyHtoDAsync_v2", ctypes.c_uint64(p.value), P(p.value), N(8), stream)
gives("a pointer into a block", INVALID_VALUE, "cuMemFree_v2", ctypes.c_uint64(p.value + 8))
gives("free", 0, "cuMemFree_v2", p)
gives("free again", INVALID_VALUE, "cuMemFree_v2", p)
gives("pinned memory that is none", INVALID_VALUE, "cuMemFreeHost", host)

program = P()
cuda.nvrtcCreateProgram(ctypes.byref(program), b"int x;", None, 0, None, None)
options = (ctypes.c_char_p * 1)(b"--fmad=maybe")
gives("an option that NVRTC lacks", INVALID_OPTION, "nvrtcCompileProgram", program, 1, options)

text = b'struct opd_layer { char bytes[56]; };\nextern "C" void f(const struct opd_layer) {}\n'
cuda.nvrtcCreateProgram(ctypes.byref(program), text, None, 0, None, None)
gives("a kernel", 0, "nvrtcCompileProgram", program, 0, None)
size, module, kernel = N(), P(), P()
cuda.nvrtcGetCUBINSize(program, ctypes.byref(size))
code = ctypes.create_string_buffer(size.value)
cuda.nvrtcGetCUBIN(program, code)
gives("its code", 0, "cuModuleLoadData", ctypes.byref(module), code)
gives("it", 0, "cuModuleGetFunction", ctypes.byref(kernel), module, b"f")
argument = ctypes.create_string_buffer(56)
args = (P * 1)(ctypes.addressof(argument))
for what, want, x, y, threads, shared in (("a launch", 0, 1, 1, 32, 0), ("no block", 1, 0, 1, 32, 0), ("two dimensions", 1, 1, 2, 32, 0),
                                          ("no thread", 1, 1, 1, 0, 0), ("1025 threads", 1, 1, 1, 1025, 0), ("49153 shared bytes", 1, 1, 1, 32, 49153)):
    gives(what, want, "cuLaunchKernel", kernel, x, y, 1, threads, 1, 1, shared, stream, args, None)
gives("wait", 0, "cuStreamSynchronize", stream)
print("\n".join(wrong))
sys.exit(bool(wrong))
