#!/bin/sh
# Compilers and libraries are those of the environment.
set -eu
export CFLAGS="${CFLAGS:-} -g -O2" LDFLAGS="${LDFLAGS:-} -L$PREFIX/lib -Wl,-rpath,$PREFIX/lib"
make -j"${CPU_COUNT:-2}" CC="${CC:-cc}" NVCC= SINGLE=1 PREFIX="$PREFIX" single install
