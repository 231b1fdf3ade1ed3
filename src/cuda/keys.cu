/* SPDX-License-Identifier: Apache-2.0
 *
 * keys: slots of a cache, reductions, loss. Atomics are used only where their order cannot affect a result.
 * Scratch buffers: 2 reductions, 4-15 the operations. */
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

/* ---- slots of a working set ----
 *
 * Minibatch 7 wants keys A to E; sets have 2 slots, not 8. A and E are there, the sets of A B D and of C E are full:
 *
 *     hits    A and E are stamped 7; B, C and D, which miss, are in a chain for each set, D B and C, in any order
 *     take    a thread a chain gives slots to its lowest keys: B evicts the other key of A's set, C that of E's set,
 *             D gets none
 *     list    each miss counts those before it, by tiles and then in its own: B is the first, C the second, D the third
 *
 * Where keys repeat, entries A B A C B, each key is looked up by the first of its entries, 0 1 3:
 *
 *     insert  a hash table of entries + 1, in which the place of each key ends with its first one, and counts them
 *     list    each first entry counts keys and entries before it: the groups of A B C are 0 1 2 and begin at 0 2 4
 *     place   each entry takes a place in its group, as it comes, and the slot of its key
 *     sort    each entry counts the lower ones of its group: 0 2 | 1 4 | 3
 *     merge   with more than AT_ONCE entries, sort does so in each RUN of a group, and here each entry finds the lower
 *             ones of the other runs by bisection, so that no group takes the square of its size
 *
 * Atomics make chains and places, whose order has no effect, and counts. A key of half of 4096 rows is sorted by 2048
 * threads, which read the same 2048 numbers. A null of 26 fields in 65536 rows would take 10^11 comparisons; by runs it
 * takes 3 * 10^9 steps. A sort of all entries takes five launches. */

enum { SET = 8, TILE = 64, TILES = 64, AT_ONCE = 16384, RUN = 512 };
struct slots {
    uint64_t *key;
    uint32_t *stamp;
    const uint64_t *want, *salt;
    const int32_t *part;
    int64_t salts;
    int32_t *slot;
    uint64_t sets;
    uint32_t now, unused; /* unused: 0, in the place of padding */
    int64_t n;
    int32_t *next;     /* per wanted key: of a miss, the next one of its chain + 1, or 0; of others -1 */
    int32_t *out_slot; /* the slot that it evicts a key from, or -1 */
    /* zeroed before: misses, evictions, failures and groups; misses and, 32 bits higher, evictions of each TILE keys,
     * and of each TILES tiles; of each set one of its misses + 1, or 0 */
    unsigned long long *counts, *tile, *tiles;
    int32_t *head;
};

/* Where keys repeat. */
struct groups {
    uint32_t *table; /* zeroed, like `uses`: the first entry + 1 at each place; NULL: keys are distinct */
    int32_t *uses;   /* entries at each place */
    uint64_t mask;
    uint32_t *place; /* of each entry's key */
    int32_t *mine;   /* of the first entry of a key: how many it has; of others 0 */
    int32_t *number; /* of the first entry of a key: its group */
    int32_t *loose;  /* the entries of each group, as they came */
    int32_t *start, *item, *slot;
    unsigned long long *tile, *tiles; /* zeroed: as in slots, groups and entries */
};

static __device__ __forceinline__ uint64_t key_of(const struct slots &s, int64_t e)
{
    return s.salt ? ctr_mix64(s.want[e] ^ s.salt[ctr_e_salt_of(s.part, s.salts, e)]) : s.want[e];
}

static __device__ __forceinline__ int64_t first_of(const struct groups &g, int64_t e)
{
    return (int64_t)g.table[g.place[e]] - 1;
}

KERNEL insert_kernel(struct slots s, struct groups g)
{
    EACH(e, s.n)
    {
        const uint32_t mine = (uint32_t)e + 1;
        const uint64_t key = key_of(s, e);
        uint64_t h = ctr_mix64(key) & g.mask;
        for (;; h = (h + 1) & g.mask) {
            uint32_t other = load_relaxed(&g.table[h]);
            if (other == 0)
                other = atomicCAS(&g.table[h], 0u, mine);
            if (other == 0)
                break;
            if (key_of(s, (int64_t)other - 1) == key) {
                if (mine < other)
                    atomicMin(&g.table[h], mine);
                break;
            }
        }
        g.place[e] = (uint32_t)h;
        atomicAdd(&g.uses[h], 1);
    }
}

static __device__ __forceinline__ void add_to_tile(unsigned long long *tile, unsigned long long *tiles, int64_t i,
                                                   unsigned long long v)
{
    atomicAdd(&tile[i / TILE], v);
    atomicAdd(&tiles[i / TILE / TILES], v);
}

/* Is entry i the first of its key? Then it is counted. */
static __device__ __forceinline__ bool is_first(const struct groups &g, int64_t i)
{
    const bool first = !g.table || first_of(g, i) == i;
    if (g.table) {
        const int32_t uses = first ? g.uses[g.place[i]] : 0;
        g.mine[i] = uses;
        if (first)
            add_to_tile(g.tile, g.tiles, i, 1 + ((unsigned long long)uses << 32));
    }
    return first;
}

/* A stamp that another thread sets meanwhile was set before, too. */
KERNEL hits_kernel(struct slots s, struct groups g)
{
    EACH(i, s.n)
    if (!is_first(g, i)) {
        s.next[i] = -1;
    } else {
        const uint64_t key = key_of(s, i), set = ctr_mix64(key) % s.sets;
        int32_t found = -1;
        for (int64_t p = (int64_t)set * SET; p < (int64_t)(set + 1) * SET && found < 0; p++)
            if (load_relaxed(&s.stamp[p]) && s.key[p] == key)
                found = (int32_t)p;
        s.slot[i] = found;
        s.out_slot[i] = -1;
        s.next[i] = found < 0 ? atomicExch(&s.head[set], (int32_t)i + 1) : -1;
        if (found < 0)
            add_to_tile(s.tile, s.tiles, i, 1);
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
        add_to_tile(s.tile, s.tiles, i, 1ULL << 32);
    }
    s.key[oldest] = key_of(s, i);
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
        const uint64_t set = ctr_mix64(key_of(s, i)) % s.sets;
        if (s.head[set] == (int32_t)i + 1)
            for (int64_t k = next_miss(s, i, -1); k >= 0 && take_slot(s, (int64_t)set, k);)
                k = next_miss(s, i, k);
    }
}

/* Of the tiles before that of entry i. */
static __device__ __forceinline__ unsigned long long tiles_before(const unsigned long long *tile,
                                                                  const unsigned long long *tiles, int64_t i)
{
    unsigned long long n = 0;
    for (int64_t t = 0; t < i / TILE / TILES; t++)
        n += tiles[t];
    for (int64_t t = i / TILE / TILES * TILES; t < i / TILE; t++)
        n += tile[t];
    return n;
}

/* Misses and evictions before key i. */
static __device__ __forceinline__ unsigned long long misses_before(const struct slots &s, int64_t i)
{
    unsigned long long n = tiles_before(s.tile, s.tiles, i);
    for (int64_t k = i / TILE * TILE; k < i; k++)
        n += s.next[k] < 0 ? 0 : s.out_slot[k] < 0 ? 1 : 1 + (1ULL << 32);
    return n;
}

/* Groups, and their entries, before entry i. */
static __device__ __forceinline__ unsigned long long groups_before(const struct groups &g, int64_t i)
{
    unsigned long long n = tiles_before(g.tile, g.tiles, i);
    for (int64_t k = i / TILE * TILE; k < i; k++)
        n += g.mine[k] ? 1 + ((unsigned long long)g.mine[k] << 32) : 0;
    return n;
}

static __device__ __forceinline__ void list_miss(const struct slots &s, int64_t i, int32_t *missed,
                                                 int32_t *missed_slot, uint64_t *missed_want, int32_t *evicted_slot)
{
    const unsigned long long before = misses_before(s, i);
    missed[before & UINT32_MAX] = (int32_t)i;
    missed_slot[before & UINT32_MAX] = s.slot[i];
    if (missed_want)
        missed_want[before & UINT32_MAX] = s.want[i];
    if (s.out_slot[i] >= 0)
        evicted_slot[before >> 32] = s.out_slot[i];
    if (s.slot[i] < 0)
        atomicAdd(&s.counts[2], 1ULL);
}

static __device__ __forceinline__ void list_group(const struct slots &s, const struct groups &g, int64_t i)
{
    const unsigned long long before = groups_before(g, i);
    const int32_t u = (int32_t)(before & UINT32_MAX);
    g.start[u] = (int32_t)(before >> 32);
    if (i == s.n) {
        s.counts[3] = (unsigned long long)u;
    } else {
        g.slot[u] = s.slot[i];
        g.number[i] = u;
    }
}

KERNEL list_kernel(struct slots s, struct groups g, int32_t *missed, int32_t *missed_slot, uint64_t *missed_want,
                   int32_t *evicted_slot)
{
    EACH(i, s.n + 1)
    {
        if (i == s.n) {
            const unsigned long long all = misses_before(s, i);
            s.counts[0] = all & UINT32_MAX;
            s.counts[1] = all >> 32;
        } else if (s.next[i] >= 0) {
            list_miss(s, i, missed, missed_slot, missed_want, evicted_slot);
        }
        if (g.table && (i == s.n || g.mine[i]))
            list_group(s, g, i);
    }
}

KERNEL place_kernel(struct slots s, struct groups g)
{
    EACH(e, s.n)
    {
        const int64_t first = first_of(g, e);
        if (first != e)
            s.slot[e] = s.slot[first];
        g.loose[g.start[g.number[first]] + atomicAdd(&g.uses[g.place[e]], -1) - 1] = (int32_t)e;
    }
}

/* Where the group of entry e begins and ends. */
static __device__ __forceinline__ void group_of(const struct groups &g, int32_t e, int32_t *from, int32_t *end)
{
    const int32_t u = g.number[first_of(g, e)];
    *from = g.start[u];
    *end = g.start[u + 1];
}

/* Entries in place of `loose`: ascending in each run of their group. */
KERNEL sort_kernel(struct groups g, int64_t n, int32_t run, int32_t *sorted)
{
    EACH(i, n)
    {
        const int32_t e = g.loose[i];
        int32_t from, end, lower = 0;
        group_of(g, e, &from, &end);
        from += ((int32_t)i - from) / run * run;
        end = end - from < run ? end : from + run;
        for (int32_t k = from; k < end; k++)
            lower += g.loose[k] < e;
        sorted[from + lower] = e;
    }
}

KERNEL merge_kernel(struct groups g, int64_t n, const int32_t *sorted)
{
    EACH(i, n)
    {
        const int32_t e = sorted[i];
        int32_t from, end;
        group_of(g, e, &from, &end);
        const int32_t own = from + ((int32_t)i - from) / RUN * RUN;
        int32_t lower = (int32_t)i - own;
        for (int32_t k = from; k < end; k += RUN)
            if (k != own)
                lower += lower_ones(sorted + k, end - k < RUN ? end - k : RUN, e);
        g.item[from + lower] = e;
    }
}

/* A part of what is zeroed together. */
template <class T> static T *part_of(char **at, int64_t n)
{
    T *const p = (T *)(void *)*at;
    *at += n * (int64_t)sizeof(T);
    return p;
}

static struct groups groups_of(struct cuda_dev *c, const struct ctr_dev_slots *a, int *rc, struct ctr_err *err)
{
    const int64_t n = a->want.n;
    struct groups g = {};
    if (!a->group_start.mem)
        return g;
    g.mask = 63;
    while ((int64_t)g.mask + 1 < 2 * n)
        g.mask = 2 * g.mask + 1;
    g.place = cuda_scratch<uint32_t>(c, 13, n, rc, err);
    g.mine = cuda_scratch<int32_t>(c, 14, 3 * n, rc, err);
    g.number = g.mine + n;
    g.loose = g.number + n;
    g.start = ctr_vec_i32(a->group_start);
    g.item = ctr_vec_i32(a->group_item);
    g.slot = ctr_vec_i32(a->group_slot);
    return g;
}

int cuda_slots(struct ctr_dev *dev, const struct ctr_dev_slots *a, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    const int64_t n = a->want.n, sets = a->key.n / SET, tiles = n / TILE + 1, sums = tiles + tiles / TILES + 1;
    int rc = 0;
    struct slots s = { ctr_vec_u64(a->key),
                       ctr_vec_u32(a->stamp),
                       ctr_vec_u64(a->want),
                       ctr_vec_u64(a->salt),
                       ctr_vec_i32(a->part),
                       a->salt.n,
                       ctr_vec_i32(a->slot),
                       (uint64_t)sets,
                       a->now,
                       0,
                       n };
    struct groups g = groups_of(c, a, &rc, err);
    const int64_t places = g.mask ? (int64_t)g.mask + 1 : 0;
    const size_t zeroed = (size_t)(4 + 2 * sums) * sizeof(uint64_t) + (size_t)(sets + 2 * places) * sizeof(int32_t);
    s.next = cuda_scratch<int32_t>(c, 10, n, &rc, err);
    s.out_slot = cuda_scratch<int32_t>(c, 11, n, &rc, err);
    s.counts = (unsigned long long *)cuda_scratch_bytes(c, 12, (int64_t)zeroed, &rc, err);
    *a->misses = *a->evictions = *a->failures = 0;
    if (a->groups)
        *a->groups = 0;
    if (rc == 0 && n == 0 && g.start)
        rc = cuda_check(c, cudaMemsetAsync(g.start, 0, sizeof *g.start, cuda_queue(c)), "slots", err);
    if (rc || n == 0)
        return rc;
    char *at = (char *)(s.counts + 4);
    s.tile = part_of<unsigned long long>(&at, tiles);
    s.tiles = part_of<unsigned long long>(&at, sums - tiles);
    g.tile = part_of<unsigned long long>(&at, tiles);
    g.tiles = part_of<unsigned long long>(&at, sums - tiles);
    s.head = part_of<int32_t>(&at, sets);
    g.table = places ? part_of<uint32_t>(&at, places) : NULL;
    g.uses = part_of<int32_t>(&at, places);
    rc = cuda_check(c, cudaMemsetAsync(s.counts, 0, zeroed, cuda_queue(c)), "slots", err);
    if (rc)
        return rc;
    if (places)
        LAUNCH(c, insert_kernel, n, s, g);
    LAUNCH(c, hits_kernel, n, s, g);
    LAUNCH(c, take_kernel, n, s);
    LAUNCH(c, list_kernel, n + 1, s, g, ctr_vec_i32(a->missed), ctr_vec_i32(a->missed_slot),
           ctr_vec_u64(a->missed_want), ctr_vec_i32(a->evicted_slot));
    if (places) {
        LAUNCH(c, place_kernel, n, s, g);
        const bool once = n <= AT_ONCE;
        LAUNCH(c, sort_kernel, n, g, n, once ? AT_ONCE : RUN, once ? g.item : g.mine); /* `mine` has been read */
        if (!once)
            LAUNCH(c, merge_kernel, n, g, n, (const int32_t *)g.mine);
    }
    void *const counts[] = { a->misses, a->evictions, a->failures, a->groups };
    static const size_t bytes[] = { sizeof(int64_t), sizeof(int64_t), sizeof(int64_t), sizeof(int64_t) };
    return cuda_read_later(c, s.counts, places ? 4 : 3, counts, bytes, err);
}

/* ---- lists of items ---- */

KERNEL take_items_kernel(const uint64_t *from, const int32_t *item, const int32_t *start, uint64_t none, uint64_t *to,
                         int32_t *segment, int32_t first, int64_t lists)
{
    EACH(l, lists)
    for (int32_t k = start[l]; k < start[l + 1]; k++) {
        to[k] = item[l] < 0 ? none : from[item[l] + (k - start[l])];
        if (segment)
            segment[k] = first + (int32_t)l;
    }
}

int cuda_take_items(struct ctr_dev *dev, const struct ctr_dev_take_items *a, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    LAUNCH(c, take_items_kernel, a->item.n, (const uint64_t *)ctr_vec_u64(a->from), ctr_vec_i32(a->item),
           ctr_vec_i32(a->start), a->none, ctr_vec_u64(a->to), ctr_vec_i32(a->segment), (int32_t)a->first, a->item.n);
    return cuda_started(c, "take_items", err);
}

KERNEL item_digests_kernel(const uint64_t *from, const int32_t *item, const int32_t *count, uint64_t none,
                           uint64_t seed, uint64_t other_seed, uint64_t *out, int64_t lists)
{
    EACH(i, 2 * lists)
    {
        const int64_t l = i / 2;
        out[i] =
            ctr_e_digest(item[l] < 0 ? &none : from + item[l], item[l] < 0 ? 1 : count[l], i % 2 ? other_seed : seed);
    }
}

int cuda_item_digests(struct ctr_dev *dev, const struct ctr_dev_item_digests *a, struct ctr_err *err)
{
    struct cuda_dev *c = cuda_of(dev);
    LAUNCH(c, item_digests_kernel, 2 * a->item.n, (const uint64_t *)ctr_vec_u64(a->from), ctr_vec_i32(a->item),
           ctr_vec_i32(a->count), a->none, a->seed[0], a->seed[1], ctr_vec_u64(a->out), a->item.n);
    return cuda_started(c, "item_digests", err);
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
