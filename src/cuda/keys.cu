/* SPDX-License-Identifier: Apache-2.0
 *
 * keys: prefix sums, sorting, unique keys, slots of a working set, reductions, loss, AUC. Atomics stand only where
 * their order cannot show in a result. Scratch: 0-3 prefix sums, 4-7 sorting, 8-13 the operations. */
#include "cuda/kernel.h"

/* ---- exclusive prefix sums: of runs of 256, of the runs' sums (again in runs), back into the runs ---- */

enum { RUN = 256 };

template <class T> static __global__ void run_sums_kernel(const T *x, int64_t n, T *sum, int64_t runs)
{
    EACH(r, runs)
    {
        T s = 0;
        for (int64_t i = r * RUN; i < CTR_MIN((r + 1) * RUN, n); i++)
            s += x[i];
        sum[r] = s;
    }
}

/* x becomes its prefix sums, starting from those of its run. */
template <class T> static __global__ void run_prefix_kernel(T *x, int64_t n, const T *before, int64_t runs)
{
    EACH(r, runs)
    {
        T s = before ? before[r] : 0;
        for (int64_t i = r * RUN; i < CTR_MIN((r + 1) * RUN, n); i++) {
            const T v = x[i];
            x[i] = s;
            s += v;
        }
    }
}

/* The sum of all: what is before the last and the last. */
template <class T> static __global__ void last_kernel(const T *x, T *last, const T *prefix, T *total, int64_t n)
{
    EACH(i, 1)
    {
        if (total)
            *total = n ? prefix[n - 1] + *last : 0;
        else
            *last = n ? x[n - 1] : 0;
    }
}

template <class T> static int scan(struct cuda *c, T *x, int64_t n, T *total, struct ctr_err *err)
{
    const int64_t runs = (n + RUN - 1) / RUN, more = (runs + RUN - 1) / RUN, most = (more + RUN - 1) / RUN;
    int rc = 0;
    T *sum = cuda_scratch<T>(c, 0, runs, &rc, err), *sum2 = cuda_scratch<T>(c, 1, more, &rc, err);
    T *sum3 = cuda_scratch<T>(c, 2, most, &rc, err), *last = cuda_scratch<T>(c, 3, 1, &rc, err);

    if (rc)
        return rc;
    if (most > RUN)
        return cuda_fail(err, CTR_EUSAGE, "more than 2^32 elements");
    LAUNCH(c, last_kernel<T>, 1, x, last, x, (T *)NULL, n);
    LAUNCH(c, run_sums_kernel<T>, runs, x, n, sum, runs);
    LAUNCH(c, run_sums_kernel<T>, more, sum, runs, sum2, more);
    LAUNCH(c, run_sums_kernel<T>, most, sum2, more, sum3, most);
    LAUNCH(c, run_prefix_kernel<T>, 1, sum3, most, (const T *)NULL, 1);
    LAUNCH(c, run_prefix_kernel<T>, most, sum2, more, sum3, most);
    LAUNCH(c, run_prefix_kernel<T>, more, sum, runs, sum2, more);
    LAUNCH(c, run_prefix_kernel<T>, runs, x, n, sum, runs);
    LAUNCH(c, last_kernel<T>, 1, x, last, x, total, n);
    return cuda_started(c, "prefix sums", err);
}

int cuda_scan_i32(struct cuda *c, int32_t *x, int64_t n, int32_t *total, struct ctr_err *err)
{
    return scan<int32_t>(c, x, n, total, err);
}

/* ---- reductions: WAYS threads take every WAYS-th element, 64 of the results again, then one ---- */

enum { WAYS = 4096, FEW = 64 };

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

KERNEL reduce_kernel(enum ctr_reduction kind, struct view x, int64_t rows, int64_t cols, double *out)
{
    EACH(w, WAYS)
    {
        double v = start_of(kind);
        for (int64_t e = w; e < rows * cols; e += WAYS)
            v = join_two(kind, v, term_of(kind, *at(x, e / cols, e % cols), e / cols));
        out[w] = v;
    }
}

KERNEL reduce_more_kernel(enum ctr_reduction kind, const double *x, int64_t n, double *out, int64_t ways)
{
    EACH(w, ways)
    {
        double v = start_of(kind);
        for (int64_t i = w; i < n; i += ways)
            v = join_two(kind, v, x[i]);
        out[w] = v;
    }
}

/* out may be x[n - 1] or lie elsewhere. */
static int reduce_doubles(struct cuda *c, enum ctr_reduction kind, const double *x, int64_t n, double *out,
                          struct ctr_err *err)
{
    int rc = 0;
    double *few = cuda_scratch<double>(c, 3, FEW, &rc, err);
    if (rc)
        return rc;
    LAUNCH(c, reduce_more_kernel, FEW, kind, x, n, few, FEW);
    LAUNCH(c, reduce_more_kernel, 1, kind, few, FEW, out, 1);
    return cuda_started(c, "reduce", err);
}

/* out = the sum of n doubles, in a fixed order. */
static int sum_f64(struct cuda *c, const double *x, int64_t n, double *out, struct ctr_err *err)
{
    int rc = 0;
    double *some = cuda_scratch<double>(c, 2, WAYS, &rc, err);
    if (rc)
        return rc;
    LAUNCH(c, reduce_more_kernel, WAYS, CTR_REDUCE_SUM, x, n, some, WAYS);
    return reduce_doubles(c, CTR_REDUCE_SUM, some, WAYS, out, err);
}

int cuda_reduce(struct ctr_dev *dev, const struct ctr_dev_reduce *a, struct ctr_err *err)
{
    struct cuda *c = cuda_of(dev);
    int rc = 0;
    double *some = cuda_scratch<double>(c, 2, WAYS, &rc, err);
    if (rc)
        return rc;
    LAUNCH(c, reduce_kernel, WAYS, a->kind, view_of(a->x), a->x.rows, a->x.cols, some);
    return reduce_doubles(c, a->kind, some, WAYS, ctr_vec_f64(a->out), err);
}

/* ---- radix sort, least significant byte first. A thread for each (chunk of keys, digit) counts, then writes, the keys
 * of its chunk that have its digit, in order: stable without atomics or barriers. The threads of a block read the same
 * key at the same time. ---- */

enum { CHUNK = 1024, DIGITS = 256 };

KERNEL count_kernel(const uint64_t *keys, int64_t n, int shift, int32_t *count, int64_t chunks)
{
    EACH(t, chunks * DIGITS)
    {
        const int64_t chunk = t / DIGITS;
        const uint64_t digit = (uint64_t)(t % DIGITS);
        int32_t found = 0;
        for (int64_t i = chunk * CHUNK; i < CTR_MIN((chunk + 1) * CHUNK, n); i++)
            found += (keys[i] >> shift & 255) == digit;
        count[(int64_t)digit * chunks + chunk] = found;
    }
}

KERNEL scatter_kernel(const uint64_t *keys, const uint32_t *values, int64_t n, int shift, const int32_t *place,
                      int64_t chunks, uint64_t *to_keys, uint32_t *to_values)
{
    EACH(t, chunks * DIGITS)
    {
        const int64_t chunk = t / DIGITS;
        const uint64_t digit = (uint64_t)(t % DIGITS);
        int64_t o = place[(int64_t)digit * chunks + chunk];
        for (int64_t i = chunk * CHUNK; i < CTR_MIN((chunk + 1) * CHUNK, n); i++)
            if ((keys[i] >> shift & 255) == digit) {
                to_keys[o] = keys[i];
                if (values)
                    to_values[o] = values[i];
                o++;
            }
    }
}

KERNEL copy_pairs_kernel(const uint64_t *keys, const uint32_t *values, int64_t n, uint64_t *to_keys,
                         uint32_t *to_values)
{
    EACH(i, n)
    {
        to_keys[i] = keys[i];
        if (values)
            to_values[i] = values[i];
    }
}

/* Sorts by the low `bytes` bytes. values may be NULL. */
static int radix_sort(struct cuda *c, uint64_t *keys, uint32_t *values, int64_t n, int bytes, struct ctr_err *err)
{
    const int64_t chunks = (n + CHUNK - 1) / CHUNK;
    int rc = 0;
    uint64_t *keys2 = cuda_scratch<uint64_t>(c, 4, n, &rc, err);
    uint32_t *values2 = cuda_scratch<uint32_t>(c, 5, n, &rc, err);
    int32_t *count = cuda_scratch<int32_t>(c, 6, chunks * DIGITS, &rc, err),
            *total = cuda_scratch<int32_t>(c, 7, 1, &rc, err);
    uint64_t *from = keys, *to = keys2;
    uint32_t *from_values = values, *to_values = values ? values2 : NULL;

    for (int b = 0; b < bytes && n > 1 && rc == 0; b++) {
        LAUNCH(c, count_kernel, chunks * DIGITS, from, n, 8 * b, count, chunks);
        rc = cuda_scan_i32(c, count, chunks * DIGITS, total, err);
        if (rc)
            return rc;
        LAUNCH(c, scatter_kernel, chunks * DIGITS, from, from_values, n, 8 * b, count, chunks, to, to_values);
        uint64_t *k = from;
        uint32_t *v = from_values;
        from = to, from_values = to_values;
        to = k, to_values = v;
    }
    if (rc == 0 && from != keys)
        LAUNCH(c, copy_pairs_kernel, n, from, from_values, n, keys, values);
    return rc ? rc : cuda_started(c, "sort", err);
}

int cuda_sort(struct ctr_dev *dev, const struct ctr_dev_sort *a, struct ctr_err *err)
{
    return radix_sort(cuda_of(dev), ctr_vec_u64(a->keys), ctr_vec_u32(a->values), a->keys.n, 8, err);
}

/* Copies one number back and waits. */
static int fetch_count(struct cuda *c, const int32_t *from, int64_t *to, struct ctr_err *err)
{
    int32_t n = 0;
    int rc = cuda_check(c, cudaMemcpyAsync(&n, from, sizeof n, cudaMemcpyDeviceToHost, c->compute), "counting", err);
    rc = rc ? rc : cuda_check(c, cudaStreamSynchronize(c->compute), "counting", err);
    *to = n;
    return rc;
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
    EACH(e, n)
    rank[e] = table[place[e]] == (int32_t)e + 1;
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

static int group_entries(struct cuda *c, const struct ctr_dev_unique *a, uint64_t *by_index, uint32_t *entry,
                         const int32_t *count, struct ctr_err *err)
{
    int bytes = 0;
    for (int64_t most = *a->count - 1; most > 0; most >>= 8)
        bytes++;
    int rc = radix_sort(c, by_index, entry, a->keys.n, bytes, err);
    if (rc)
        return rc;
    LAUNCH(c, group_kernel, a->keys.n + 1, by_index, entry, a->keys.n, count, ctr_vec_i32(a->group_start),
           ctr_vec_i32(a->group_item));
    return cuda_started(c, "unique", err);
}

int cuda_unique(struct ctr_dev *dev, const struct ctr_dev_unique *a, struct ctr_err *err)
{
    struct cuda *c = cuda_of(dev);
    const int64_t n = a->keys.n;
    const uint64_t *keys = ctr_vec_u64(a->keys);
    int64_t size = 64;
    int rc = 0;

    while (size < 2 * n)
        size *= 2;
    int32_t *table = cuda_scratch<int32_t>(c, 8, size, &rc, err), *rank = cuda_scratch<int32_t>(c, 9, n + 1, &rc, err);
    uint32_t *place = cuda_scratch<uint32_t>(c, 10, n, &rc, err), *entry = cuda_scratch<uint32_t>(c, 11, n, &rc, err);
    uint64_t *by_index = cuda_scratch<uint64_t>(c, 12, n, &rc, err);
    int32_t *count = cuda_scratch<int32_t>(c, 13, 1, &rc, err);
    rc = rc ? rc : cuda_check(c, cudaMemsetAsync(table, 0, (size_t)size * sizeof *table, c->compute), "unique", err);
    if (rc)
        return rc;
    LAUNCH(c, insert_kernel, n, keys, n, table, (uint64_t)size - 1, place);
    LAUNCH(c, first_kernel, n, table, place, n, rank);
    rc = cuda_scan_i32(c, rank, n, count, err);
    if (rc)
        return rc;
    LAUNCH(c, rank_kernel, n, keys, table, place, rank, n, ctr_vec_u64(a->unique), ctr_vec_i32(a->index), by_index,
           entry);
    rc = fetch_count(c, count, a->count, err);
    if (rc == 0 && a->group_start.mem)
        rc = group_entries(c, a, by_index, entry, count, err);
    return rc ? rc : cuda_started(c, "unique", err);
}

/* ---- slots of a working set: hits at once; the others sorted by set, then one thread for each set, in order ---- */

enum { SET = 8 };
struct slots {
    uint64_t *key;
    uint32_t *stamp;
    const uint64_t *want;
    int32_t *slot;
    uint64_t sets;
    uint32_t now;
};

KERNEL hits_kernel(struct slots s, int64_t n, int32_t *miss)
{
    EACH(i, n)
    {
        const int64_t first = (int64_t)(ctr_mix64(s.want[i]) % s.sets) * SET;
        int32_t found = -1;
        for (int64_t p = first; p < first + SET && found < 0; p++)
            if (s.stamp[p] && s.key[p] == s.want[i])
                found = (int32_t)p;
        if (found >= 0)
            s.stamp[found] = s.now; /* keys are distinct: nobody else's slot */
        s.slot[i] = found;
        miss[i] = found < 0;
    }
}

KERNEL misses_kernel(struct slots s, int64_t n, const int32_t *rank, int32_t *missed, uint64_t *set, uint32_t *order)
{
    EACH(i, n)
    if (s.slot[i] < 0) {
        missed[rank[i]] = (int32_t)i;
        set[rank[i]] = ctr_mix64(s.want[i]) % s.sets;
        order[rank[i]] = (uint32_t)rank[i];
    }
}

/* Miss j takes a slot; what it evicts is noted beside j. */
static __device__ __forceinline__ void take_slot(const struct slots &s, int64_t set, int64_t i, uint64_t *out_key,
                                                 int32_t *out_slot)
{
    int64_t oldest = -1;
    for (int64_t p = set * SET; p < (set + 1) * SET; p++)
        if (s.stamp[p] != s.now && (oldest < 0 || s.stamp[p] < s.stamp[oldest]))
            oldest = p;
    s.slot[i] = (int32_t)oldest;
    *out_slot = -1;
    if (oldest < 0)
        return;
    if (s.stamp[oldest]) {
        *out_key = s.key[oldest];
        *out_slot = (int32_t)oldest;
    }
    s.key[oldest] = s.want[i];
    s.stamp[oldest] = s.now;
}

KERNEL take_kernel(struct slots s, const uint64_t *set, const uint32_t *order, const int32_t *missed, int64_t misses,
                   uint64_t *out_key, int32_t *out_slot)
{
    EACH(j, misses)
    if (j == 0 || set[j] != set[j - 1])
        for (int64_t k = j; k < misses && set[k] == set[j]; k++)
            take_slot(s, (int64_t)set[k], missed[order[k]], &out_key[order[k]], &out_slot[order[k]]);
}

KERNEL flag_kernel(const int32_t *x, int64_t n, bool negative, int32_t *flag)
{
    EACH(i, n)
    flag[i] = negative ? x[i] < 0 : x[i] >= 0;
}

KERNEL evictions_kernel(const uint64_t *out_key, const int32_t *out_slot, const int32_t *rank, int64_t n, uint64_t *key,
                        int32_t *slot)
{
    EACH(j, n)
    if (out_slot[j] >= 0) {
        key[rank[j]] = out_key[j];
        slot[rank[j]] = out_slot[j];
    }
}

int cuda_slots(struct ctr_dev *dev, const struct ctr_dev_slots *a, struct ctr_err *err)
{
    struct cuda *c = cuda_of(dev);
    const int64_t n = a->want.n;
    const struct slots s = { ctr_vec_u64(a->key),  ctr_vec_u32(a->stamp),      ctr_vec_u64(a->want),
                             ctr_vec_i32(a->slot), (uint64_t)(a->key.n / SET), a->now };
    int rc = 0;
    int32_t *rank = cuda_scratch<int32_t>(c, 8, n + 1, &rc, err), *out_slot = cuda_scratch<int32_t>(c, 9, n, &rc, err);
    uint32_t *order = cuda_scratch<uint32_t>(c, 10, n, &rc, err);
    uint64_t *set = cuda_scratch<uint64_t>(c, 11, n, &rc, err), *out_key = cuda_scratch<uint64_t>(c, 12, n, &rc, err);
    int32_t *count = cuda_scratch<int32_t>(c, 13, 1, &rc, err), *missed = ctr_vec_i32(a->missed);

    *a->misses = *a->evictions = *a->failures = 0;
    if (rc || n == 0)
        return rc;
    LAUNCH(c, hits_kernel, n, s, n, rank);
    rc = cuda_scan_i32(c, rank, n, count, err);
    rc = rc ? rc : fetch_count(c, count, a->misses, err);
    if (rc || *a->misses == 0)
        return rc;
    LAUNCH(c, misses_kernel, n, s, n, rank, missed, set, order);
    rc = radix_sort(c, set, order, *a->misses, 8, err);
    if (rc)
        return rc;
    LAUNCH(c, take_kernel, *a->misses, s, set, order, missed, *a->misses, out_key, out_slot);
    LAUNCH(c, flag_kernel, n, (const int32_t *)s.slot, n, true, rank);
    rc = cuda_scan_i32(c, rank, n, count, err);
    rc = rc ? rc : fetch_count(c, count, a->failures, err);
    if (rc)
        return rc;
    LAUNCH(c, flag_kernel, *a->misses, (const int32_t *)out_slot, *a->misses, false, rank);
    rc = cuda_scan_i32(c, rank, *a->misses, count, err);
    rc = rc ? rc : fetch_count(c, count, a->evictions, err);
    if (rc)
        return rc;
    LAUNCH(c, evictions_kernel, *a->misses, out_key, out_slot, rank, *a->misses, ctr_vec_u64(a->evicted_key),
           ctr_vec_i32(a->evicted_slot));
    return cuda_started(c, "slots", err);
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
    struct cuda *c = cuda_of(dev);
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

/* ---- AUC: rows by ascending score; a positive counts the negatives before its ties, and half of those among them ----
 */

KERNEL score_kernel(const float *score, int64_t n, uint64_t *keys, uint32_t *rows)
{
    EACH(i, n)
    {
        keys[i] = ctr_e_ordered(score[i]);
        rows[i] = (uint32_t)i;
    }
}

/* Weight of the class 0 or 1 of sorted row i. */
static __device__ __forceinline__ double class_weight(const float *label, const float *weight, uint32_t row,
                                                      bool positive)
{
    const double w = weight ? (double)weight[row] : 1.0, p = w * (double)label[row];
    return positive ? p : w - p;
}

KERNEL class_kernel(const uint32_t *rows, const float *label, const float *weight, int64_t n, bool positive,
                    double *out)
{
    EACH(i, n)
    out[i] = class_weight(label, weight, rows[i], positive);
}

/* The first i with keys[i] >= key. */
static __device__ __forceinline__ int64_t lower_bound(const uint64_t *keys, int64_t n, uint64_t key)
{
    int64_t low = 0, high = n;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (keys[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

KERNEL pairs_kernel(const uint64_t *keys, const uint32_t *rows, const double *below, const double *negatives,
                    const float *score, const float *label, const float *weight, int64_t n, double *pairs)
{
    EACH(i, n)
    {
        const int64_t first = lower_bound(keys, n, keys[i]), end = lower_bound(keys, n, keys[i] + 1);
        const double before = below[first], ties = (end < n ? below[end] : *negatives) - before;
        const float s = score[rows[i]];
        pairs[i] = s != s ? (double)NAN : class_weight(label, weight, rows[i], true) * (before + ties / 2);
    }
}

KERNEL auc_kernel(const double *pairs, const double *positives, const double *negatives, double *out)
{
    EACH(i, 1)
    *out = *positives > 0 && *negatives > 0 ? *pairs / (*positives * *negatives) : (double)NAN;
}

int cuda_auc(struct ctr_dev *dev, const struct ctr_dev_auc *a, struct ctr_err *err)
{
    struct cuda *c = cuda_of(dev);
    const int64_t n = a->score.n;
    const float *score = ctr_vec_f32(a->score), *label = ctr_vec_f32(a->label), *weight = ctr_vec_f32(a->weight);
    int rc = 0;
    uint64_t *keys = cuda_scratch<uint64_t>(c, 8, n, &rc, err);
    uint32_t *rows = cuda_scratch<uint32_t>(c, 9, n, &rc, err);
    double *below = cuda_scratch<double>(c, 10, n, &rc, err), *pairs = cuda_scratch<double>(c, 11, n, &rc, err);
    double *totals = cuda_scratch<double>(c, 12, 3, &rc, err); /* negatives, positives, pairs */

    if (rc)
        return rc;
    LAUNCH(c, score_kernel, n, score, n, keys, rows);
    rc = radix_sort(c, keys, rows, n, 4, err);
    if (rc)
        return rc;
    LAUNCH(c, class_kernel, n, rows, label, weight, n, true, pairs);
    rc = sum_f64(c, pairs, n, totals + 1, err);
    if (rc)
        return rc;
    LAUNCH(c, class_kernel, n, rows, label, weight, n, false, below);
    rc = scan<double>(c, below, n, totals, err);
    if (rc)
        return rc;
    LAUNCH(c, pairs_kernel, n, keys, rows, below, totals, score, label, weight, n, pairs);
    rc = sum_f64(c, pairs, n, totals + 2, err);
    if (rc)
        return rc;
    LAUNCH(c, auc_kernel, 1, totals + 2, totals + 1, totals, ctr_vec_f64(a->out));
    return cuda_started(c, "auc", err);
}
