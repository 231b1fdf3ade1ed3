/* SPDX-License-Identifier: Apache-2.0
 *
 * faults: kernels with one error each, which the machine must notice (tests/ptx.t).
 *
 *     faults NAME     none: exits 0; the others abort with a message, or exit 1 if the result is wrong
 */
#include <cstdio>
#include <cstring>

enum { N = 64 };

/* to[i] = from[N - 1 - i], by way of shared memory. */
template <bool barrier> __global__ void turn(int *to, const int *from, int beyond)
{
    __shared__ int s[N];
    s[threadIdx.x] = from[threadIdx.x + beyond];
    if (barrier)
        __syncthreads();
    to[threadIdx.x] = s[N - 1 - threadIdx.x];
}
__global__ void beyond_shared(int *to)
{
    extern __shared__ int room[];
    room[threadIdx.x + 1] = 1;
    to[threadIdx.x] = room[threadIdx.x];
}
__global__ void part_of_block(int *to)
{
    if (threadIdx.x < 20)
        __syncthreads();
    to[threadIdx.x] = 1;
}
__global__ void misaligned(int *to)
{
    *(long long *)(to + 1) = 1;
}
__global__ void count(int *to, bool atomic)
{
    if (atomic)
        atomicAdd(to, 1);
    else
        *(volatile int *)to = *(volatile int *)to + 1;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    int host[N], *from, *to, wrong = 0;
    for (int i = 0; i < N; i++)
        host[i] = i;
    if (cudaMalloc(&from, sizeof host) != cudaSuccess || cudaMalloc(&to, sizeof host) != cudaSuccess)
        return 2;
    cudaMemcpyAsync(from, host, sizeof host, cudaMemcpyHostToDevice, 0);
    if (!strcmp(name, "none"))
        turn<true><<<1, N>>>(to, from, 0);
    else if (!strcmp(name, "barrier"))
        turn<false><<<1, N>>>(to, from, 0);
    else if (!strcmp(name, "index"))
        turn<true><<<1, N>>>(to, from, 1);
    else if (!strcmp(name, "shared"))
        beyond_shared<<<1, N, N * sizeof(int)>>>(to);
    else if (!strcmp(name, "part"))
        part_of_block<<<1, N>>>(to);
    else if (!strcmp(name, "misaligned"))
        misaligned<<<1, 1>>>(to);
    else if (!strcmp(name, "threads"))
        turn<true><<<1, 2048>>>(to, from, 0);
    else if (!strcmp(name, "freed") && cudaFree(from) == cudaSuccess)
        turn<true><<<1, N>>>(to, from, 0);
    else if (!strcmp(name, "atomic") || !strcmp(name, "race")) {
        cudaMemsetAsync(to, 0, sizeof host, 0);
        count<<<4, N>>>(to, !strcmp(name, "atomic"));
        cudaMemcpyAsync(host, to, sizeof host, cudaMemcpyDeviceToHost, 0);
        printf("%d\n", host[0]);
        return host[0] != 4 * N;
    }
    if (cudaGetLastError() != cudaSuccess)
        return printf("refused\n"), 1;
    cudaMemcpyAsync(host, to, sizeof host, cudaMemcpyDeviceToHost, 0);
    for (int i = 0; i < N; i++)
        wrong += host[i] != N - 1 - i;
    printf("%d wrong\n", wrong);
    return wrong != 0;
}
