/* SPDX-License-Identifier: Apache-2.0
 *
 * keys: unique keys, slots of a cache, reductions, loss. Atomics are used only where their order cannot
 * affect a result. Scratch buffers: 0 that of cub.cu, 1-3 prefix sums and reductions, 4-15 the operations. */
#include "cuda/kernel.h"

/* ---- reductions: BLOCKS blocks of WAYS threads each take every so manyth element, then one block joins what these
 * have. A block joins by halves. So the order of a sum depends on the number of elements alone. ---- */

enum { BLOCKS = 64, WAYS = 128 };

static __device__ __forceinline__ double join_two(enum ctr_reduction kind, double a, double b)
{
    switch (kind) {
    case CTR_REDUCE_MAX_ABS: return b != b || b > a ? b : a;
    case CTR_REDUCE_NONFINITE: return a < 0 ? b : b < 0 ? a : a < b ? a : b;
    default: return a + b;
    }
}

static __device__ __forceinline__ double start_of(enum ctr_reduction kind)
{
    return kind == CTR_REDUCE_NONFINITE ? -1 : 0;
}

static __device__ __forceinline__ double term_of(enum ctr_reduction kind, float x, int64_t row)
{
    switch (kind) {
    case CTR_REDUCE_SUM: return (double)x;
    case CTR_REDUCE_SUM_SQUARES: return (double)x * (double)x;
    case CTR_REDUCE_MAX_ABS: return (double)fabsf(x);
    default: return fabsf(x) <= 3.402823466e38f ? -1 : (double)row;
    }
}

/* out[block] = combined value of its threads. */
static __device__ __forceinline__ void join_block(enum ctr_reduction kind, double mine, double *s, double *out)
{
    const unsigned t = threadIdx.x;
    s[t] = mine;
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half)
            s[t] = join_two(kind, s[t], s[t + half]);
    }
    if (t == 0)
        out[blockIdx.x] = s[0];
}

KERNEL reduce_kernel(enum ctr_reduction kind, struct view x, int64_t rows, int64_t cols, double *out)
{
    SHARED(double, s);
    const int64_t threads = (int64_t)gridDim.x * blockDim.x;
    double v = start_of(kind);
    for (int64_t e = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; e < rows * cols; e += threads)
        v = join_two(kind, v, term_of(kind, *at(x, e / cols, e % cols), e / cols));
    join_block(kind, v, s, out);
}

KERNEL reduce_more_kernel(enum ctr_reduction kind, const double *x, int64_t n, double *out)
{
    SHARED(double, s);
    const int64_t threads = (int64_t)gridDim.x * blockDim.x;
    double v = start_of(kind);
    for (int64_t e = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; e < n; e += threads)
        v = join_two(kind, v, x[e]);
    join_block(kind, v, s, out);
}

/* Blocks for n elements: one if that is enough. */
static unsigned blocks_for(int64_t n)
{
    return (unsigned)CTR_MAX(CTR_MIN((n + WAYS - 1) / WAYS, (int64_t)BLOCKS), 1);
}

/* out = the sum of n doubles, in a fixed order. */
static int sum_f64(struct cuda_dev *c, const double *x, int64_t n, double *out, struct ctr_err *err)
{
    const unsigned blocks = blocks_for(n);
    int rc = 0;
    double *some = cuda_scratch<double>(c, 2, BLOCKS, &rc, err);
    if (rc)
        return rc;
    LAUNCH_BLOCKS(c, reduce_more_kernel, blocks, WAYS, WAYS * sizeof(double), CTR_REDUCE_SUM, x, n, some);
    LAUNCH_BLOCKS(c, reduce_more_kernel, 1, BLOCKS, BLOCKS * sizeof(double), CTR_REDUCE_SUM, (const double *)some,
                  (int64_t)blocks, out);
    return cuda_started(c, "reduce", err);
}

int cuda_reduce(struct ctr_dev *dev, const struct ctr_dev_reduce *a, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    const unsigned blocks = blocks_for(a->x.rows * a->x.cols);
    int rc = 0;
    double *some = cuda_scratch<double>(c, 2, BLOCKS, &rc, err);
    if (rc)
        return rc;
    LAUNCH_BLOCKS(c, reduce_kernel, blocks, WAYS, WAYS * sizeof(double), a->kind, view_of(a->x), a->x.rows, a->x.cols,
                  some);
    LAUNCH_BLOCKS(c, reduce_more_kernel, 1, BLOCKS, BLOCKS * sizeof(double), a->kind, (const double *)some,
                  (int64_t)blocks, ctr_vec_f64(a->out));
    return cuda_started(c, "reduce", err);
}

/* Copy a few bytes to the host and wait. */
static int fetch(struct cuda_dev *c, const void *from, void *to, size_t bytes, struct ctr_err *err)
{
    int rc = cuda_read_later(c, from, 1, &to, &bytes, err);
    return rc ? rc : cuda_wait(c, "counting", err);
}

/* ---- unique keys: a hash table of entries (+ 1), in which each key's place ends with its first entry ---- */

KERNEL insert_kernel(const uint64_t *keys, int64_t n, int32_t *table, uint64_t mask, uint32_t *place)
{
    EACH(e, n)
    {
        const int32_t mine = (int32_t)e + 1;
        uint64_t h = ctr_mix64(keys[e]) & mask;
        for (;; h = (h + 1) & mask) {
            const int32_t other = atomicCAS(&table[h], 0, mine);
            if (other == 0)
                break;
            if (keys[other - 1] == keys[e]) {
                atomicMin(&table[h], mine);
                break;
            }
        }
        place[e] = (uint32_t)h;
    }
}

KERNEL first_kernel(const int32_t *table, const uint32_t *place, int64_t n, int32_t *rank)
{
    EACH(e, n + 1)
    rank[e] = e < n && table[place[e]] == (int32_t)e + 1;
}

KERNEL rank_kernel(const uint64_t *keys, const int32_t *table, const uint32_t *place, const int32_t *rank, int64_t n,
                   uint64_t *unique, int32_t *index, uint64_t *by_index, uint32_t *entry)
{
    EACH(e, n)
    {
        const int32_t first = table[place[e]] - 1;
        index[e] = rank[first];
        if (first == (int32_t)e)
            unique[rank[e]] = keys[e];
        by_index[e] = (uint64_t)rank[first];
        entry[e] = (uint32_t)e;
    }
}

KERNEL group_kernel(const uint64_t *by_index, const uint32_t *entry, int64_t n, const int32_t *count, int32_t *start,
                    int32_t *item)
{
    EACH(i, n + 1)
    {
        if (i == n)
            start[*count] = (int32_t)n;
        else if (i == 0 || by_index[i] != by_index[i - 1])
            start[by_index[i]] = (int32_t)i;
        if (i < n)
            item[i] = (int32_t)entry[i];
    }
}

static int group_entries(struct cuda_dev *c, const struct ctr_dev_unique *a, const uint64_t *by_index,
                         const uint32_t *entry, const int32_t *count, struct ctr_err *err)
{
    const int64_t n = a->keys.n;
    int rc = 0;
    uint64_t *sorted = cuda_scratch<uint64_t>(c, 4, n, &rc, err);
    uint32_t *sorted_entry = cuda_scratch<uint32_t>(c, 5, n, &rc, err);
    const struct cuda_sort s = { by_index, entry, sorted, sorted_entry, n, cuda_bits((uint64_t)*a->count) };
    if (rc == 0 && n)
        rc = cuda_sort_by(c, &s, err);
    if (rc)
        return rc;
    LAUNCH(c, group_kernel, n + 1, sorted, sorted_entry, n, count, ctr_vec_i32(a->group_start),
           ctr_vec_i32(a->group_item));
    return cuda_started(c, "unique", err);
}

int cuda_unique(struct ctr_dev *dev, const struct ctr_dev_unique *a, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    const int64_t n = a->keys.n;
    const uint64_t *keys = ctr_vec_u64(a->keys);
    int64_t size = 64;
    int rc = 0;

    while (size < 2 * n)
        size *= 2;
    int32_t *table = cuda_scratch<int32_t>(c, 8, size, &rc, err), *rank = cuda_scratch<int32_t>(c, 9, n + 1, &rc, err);
    uint32_t *place = cuda_scratch<uint32_t>(c, 10, n, &rc, err), *entry = cuda_scratch<uint32_t>(c, 11, n, &rc, err);
    uint64_t *by_index = cuda_scratch<uint64_t>(c, 12, n, &rc, err);
    int32_t *count = rank + n, found = 0;
    rc = rc ? rc : cuda_check(c, cudaMemsetAsync(table, 0, (size_t)size * sizeof *table, c->compute), "unique", err);
    if (rc)
        return rc;
    LAUNCH(c, insert_kernel, n, keys, n, table, (uint64_t)size - 1, place);
    LAUNCH(c, first_kernel, n + 1, table, place, n, rank);
    rc = cuda_scan_i32(c, rank, n + 1, err);
    if (rc)
        return rc;
    LAUNCH(c, rank_kernel, n, keys, table, place, rank, n, ctr_vec_u64(a->unique), ctr_vec_i32(a->index), by_index,
           entry);
    rc = fetch(c, count, &found, sizeof found, err);
    *a->count = found;
    if (rc == 0 && a->group_start.mem)
        rc = group_entries(c, a, by_index, entry, count, err);
    return rc ? rc : cuda_started(c, "unique", err);
}

/* ---- slots of a working set ----
 *
 * Minibatch 7 wants keys A to E; sets have 2 slots, not 8. A and E are there, the sets of A B D and of C E are full:
 *
 *     hits    A and E are stamped 7; B, C and D, which miss, are in a chain for each set, D B and C, in any order
 *     take    a thread a chain gives slots to its lowest keys: B evicts the other key of A's set, C that of E's set,
 *             D gets none
 *     list    each miss counts those before it, by tiles and then in its own: B is the first, C the second, D the third
 *
 * Atomics make chains, whose order has no effect, and counts. */

enum { SET = 8, TILE = 64, TILES = 64 };
struct slots {
    uint64_t *key;
    uint32_t *stamp;
    const uint64_t *want;
    int32_t *slot;
    uint64_t sets;
    uint32_t now;
    int64_t n;
    int32_t *next;     /* per wanted key: of a miss, the next one of its chain + 1, or 0; of a hit -1 */
    int32_t *out_slot; /* the slot that it evicts a key from, or -1 */
    /* zeroed before: misses, evictions and failures; misses and, 32 bits higher, evictions of each TILE keys, and of
     * each TILES tiles; of each set one of its misses + 1, or 0 */
    unsigned long long *counts, *tile, *tiles;
    int32_t *head;
};

static __device__ __forceinline__ void add_to_tile(const struct slots &s, int64_t i, unsigned long long v)
{
    atomicAdd(&s.tile[i / TILE], v);
    atomicAdd(&s.tiles[i / TILE / TILES], v);
}

/* A stamp that another thread sets meanwhile was set before, too. */
KERNEL hits_kernel(struct slots s)
{
    EACH(i, s.n)
    {
        const uint64_t set = ctr_mix64(s.want[i]) % s.sets;
        int32_t found = -1;
        for (int64_t p = (int64_t)set * SET; p < (int64_t)(set + 1) * SET && found < 0; p++)
            if (load_relaxed(&s.stamp[p]) && s.key[p] == s.want[i])
                found = (int32_t)p;
        s.slot[i] = found;
        s.out_slot[i] = -1;
        s.next[i] = found < 0 ? atomicExch(&s.head[set], (int32_t)i + 1) : -1;
        if (found < 0)
            add_to_tile(s, i, 1);
        else
            store_relaxed(&s.stamp[found], s.now);
    }
}

/* Key i, which is absent, takes a slot, if there is one. */
static __device__ __forceinline__ bool take_slot(const struct slots &s, int64_t set, int64_t i)
{
    int64_t oldest = -1;
    for (int64_t p = set * SET; p < (set + 1) * SET; p++)
        if (s.stamp[p] != s.now && (oldest < 0 || s.stamp[p] < s.stamp[oldest]))
            oldest = p;
    if (oldest < 0)
        return false;
    s.slot[i] = (int32_t)oldest;
    if (s.stamp[oldest]) {
        s.out_slot[i] = (int32_t)oldest;
        add_to_tile(s, i, 1ULL << 32);
    }
    s.key[oldest] = s.want[i];
    s.stamp[oldest] = s.now;
    return true;
}

/* The lowest key above `after` in the chain that begins with key i; -1: none. */
static __device__ __forceinline__ int64_t next_miss(const struct slots &s, int64_t i, int64_t after)
{
    int64_t lowest = -1;
    for (; i >= 0; i = s.next[i] - 1)
        if (i > after && (lowest < 0 || i < lowest))
            lowest = i;
    return lowest;
}

/* By the head of each chain, which is gone through SET + 1 times at most. */
KERNEL take_kernel(struct slots s)
{
    EACH(i, s.n)
    if (s.next[i] >= 0) {
        const uint64_t set = ctr_mix64(s.want[i]) % s.sets;
        if (s.head[set] == (int32_t)i + 1)
            for (int64_t k = next_miss(s, i, -1); k >= 0 && take_slot(s, (int64_t)set, k);)
                k = next_miss(s, i, k);
    }
}

/* Misses and evictions before key i. */
static __device__ __forceinline__ unsigned long long misses_before(const struct slots &s, int64_t i)
{
    unsigned long long n = 0;
    for (int64_t t = 0; t < i / TILE / TILES; t++)
        n += s.tiles[t];
    for (int64_t t = i / TILE / TILES * TILES; t < i / TILE; t++)
        n += s.tile[t];
    for (int64_t k = i / TILE * TILE; k < i; k++)
        n += s.next[k] < 0 ? 0 : s.out_slot[k] < 0 ? 1 : 1 + (1ULL << 32);
    return n;
}

KERNEL list_kernel(struct slots s, int32_t *missed, int32_t *missed_slot, int32_t *evicted_slot)
{
    EACH(i, s.n + 1)
    if (i == s.n) {
        const unsigned long long all = misses_before(s, i);
        s.counts[0] = all & UINT32_MAX;
        s.counts[1] = all >> 32;
    } else if (s.next[i] >= 0) {
        const unsigned long long before = misses_before(s, i);
        missed[before & UINT32_MAX] = (int32_t)i;
        missed_slot[before & UINT32_MAX] = s.slot[i];
        if (s.out_slot[i] >= 0)
            evicted_slot[before >> 32] = s.out_slot[i];
        if (s.slot[i] < 0)
            atomicAdd(&s.counts[2], 1ULL);
    }
}

int cuda_slots(struct ctr_dev *dev, const struct ctr_dev_slots *a, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    const int64_t n = a->want.n, sets = a->key.n / SET, tiles = n / TILE + 1, numbers = 3 + tiles + tiles / TILES + 1;
    const size_t zeroed = (size_t)numbers * sizeof(uint64_t) + (size_t)sets * sizeof(int32_t);
    int rc = 0;
    struct slots s = { ctr_vec_u64(a->key),
                       ctr_vec_u32(a->stamp),
                       ctr_vec_u64(a->want),
                       ctr_vec_i32(a->slot),
                       (uint64_t)sets,
                       a->now,
                       n };
    s.next = cuda_scratch<int32_t>(c, 10, n, &rc, err);
    s.out_slot = cuda_scratch<int32_t>(c, 11, n, &rc, err);
    s.counts = (unsigned long long *)cuda_scratch_bytes(c, 12, (int64_t)zeroed, &rc, err);
    *a->misses = *a->evictions = *a->failures = 0;
    if (rc || n == 0)
        return rc;
    s.tile = s.counts + 3;
    s.tiles = s.tile + tiles;
    s.head = (int32_t *)(s.counts + numbers);
    rc = cuda_check(c, cudaMemsetAsync(s.counts, 0, zeroed, c->compute), "slots", err);
    if (rc)
        return rc;
    LAUNCH(c, hits_kernel, n, s);
    LAUNCH(c, take_kernel, n, s);
    LAUNCH(c, list_kernel, n + 1, s, ctr_vec_i32(a->missed), ctr_vec_i32(a->missed_slot), ctr_vec_i32(a->evicted_slot));
    void *const counts[] = { a->misses, a->evictions, a->failures };
    static const size_t bytes[] = { sizeof(int64_t), sizeof(int64_t), sizeof(int64_t) };
    return cuda_read_later(c, s.counts, 3, counts, bytes, err);
}

/* ---- loss ---- */

KERNEL bce_kernel(const float *z, const float *label, const float *weight, float scale, float *p, float *loss,
                  float *dz, double *term, int64_t n)
{
    EACH(i, n)
    {
        const float w = weight ? weight[i] : 1.0f, q = ctr_e_sigmoid(z[i]);
        const float l = w * (ctr_e_softplus(z[i]) - label[i] * z[i]);
        if (p)
            p[i] = q;
        if (loss)
            loss[i] = l;
        if (term)
            term[i] = (double)l;
        if (dz)
            dz[i] = scale * w * (q - label[i]);
    }
}

int cuda_bce(struct ctr_dev *dev, const struct ctr_dev_bce *a, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    int rc = 0;
    double *term = a->total.mem ? cuda_scratch<double>(c, 8, a->z.n, &rc, err) : NULL;
    if (rc)
        return rc;
    LAUNCH(c, bce_kernel, a->z.n, ctr_vec_f32(a->z), ctr_vec_f32(a->label), ctr_vec_f32(a->weight), a->scale,
           ctr_vec_f32(a->p), ctr_vec_f32(a->loss), ctr_vec_f32(a->dz), term, a->z.n);
    if (term)
        rc = sum_f64(c, term, a->z.n, ctr_vec_f64(a->total), err);
    return rc ? rc : cuda_started(c, "bce", err);
}
