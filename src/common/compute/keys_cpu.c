/* SPDX-License-Identifier: Apache-2.0
 *
 * keys_cpu: slots of a cache and reductions on the CPU. It has its own hash table, because it finds distinct keys
 * without allocation, in the device's scratch memory. */
#include "common/compute/cpu.h"
#include "common/compute/element.h"

/* ---- distinct keys: a hash table of numbers + 1, open addressing, at most half full ---- */

enum { AHEAD = 16 }; /* keys between prefetch and use */

/* unique[index[e]] = key[e]; returns how many there are. */
static int32_t find_unique(const uint64_t *key, int64_t n, int32_t *table, uint64_t mask, uint64_t *unique,
                           int32_t *index)
{
    int32_t count = 0;
    for (int64_t e = 0; e < n; e++) {
        if (e + AHEAD < n)
            __builtin_prefetch(&table[ctr_hash_place(key[e + AHEAD], mask)]);
        uint64_t h = ctr_hash_place(key[e], mask);
        while (table[h] && unique[table[h] - 1] != key[e])
            h = (h + 1) & mask;
        if (!table[h]) {
            unique[count++] = key[e];
            table[h] = count;
        }
        index[e] = table[h] - 1;
    }
    return count;
}

/* Group entries by distinct key: count, sum, then place in ascending order. */
static void group_entries(const int32_t *index, int64_t n, int64_t count, int32_t *start, int32_t *item)
{
    memset(start, 0, (size_t)(count + 1) * sizeof *start);
    for (int64_t e = 0; e < n; e++)
        start[index[e] + 1]++;
    for (int64_t u = 0; u < count; u++)
        start[u + 1] += start[u];
    for (int64_t e = 0; e < n; e++)
        item[start[index[e]]++] = (int32_t)e;                 /* afterwards start[u] is the start of u + 1 … */
    memmove(start + 1, start, (size_t)count * sizeof *start); /* … so all move up by one */
    start[0] = 0;
}

/* ---- slots of a working set ---- */

enum { WAYS = 8 };

/* The operation for n distinct keys. */
struct find {
    const struct ctr_dev_slots *a;
    const uint64_t *want;
    int64_t n;
    int32_t *slot;
};

static int64_t set_of(const struct ctr_dev_slots *a, uint64_t key)
{
    return (int64_t)(ctr_mix64(key) % (uint64_t)(a->key.n / WAYS)) * WAYS;
}

/* Stamp the keys that are present; returns the number of absent ones. */
static int64_t take_hits(const struct find *f)
{
    const struct ctr_dev_slots *a = f->a;
    const uint64_t *key = ctr_vec_u64(a->key), *want = f->want;
    uint32_t *stamp = ctr_vec_u32(a->stamp);
    int32_t *slot = f->slot, *missed = ctr_vec_i32(a->missed);
    int64_t misses = 0;

    for (int64_t i = 0; i < f->n; i++) {
        if (i + AHEAD < f->n) {
            const int64_t ahead = set_of(a, want[i + AHEAD]);
            __builtin_prefetch(&key[ahead]);
            __builtin_prefetch(&stamp[ahead]);
        }
        const int64_t set = set_of(a, want[i]);
        slot[i] = -1;
        for (int64_t s = set; s < set + WAYS && slot[i] < 0; s++)
            if (stamp[s] && key[s] == want[i])
                slot[i] = (int32_t)s;
        if (slot[i] >= 0)
            stamp[slot[i]] = a->now;
        else
            missed[misses++] = (int32_t)i;
    }
    return misses;
}

static int64_t oldest_of(const struct ctr_dev_slots *a, int64_t set)
{
    const uint32_t *stamp = ctr_vec_u32(a->stamp);
    int64_t oldest = -1;

    for (int64_t s = set; s < set + WAYS; s++)
        if (stamp[s] != a->now && (oldest < 0 || stamp[s] < stamp[oldest]))
            oldest = s;
    return oldest;
}

static void find_slots(const struct find *f)
{
    const struct ctr_dev_slots *a = f->a;
    uint64_t *key = ctr_vec_u64(a->key);
    uint32_t *stamp = ctr_vec_u32(a->stamp);
    const int64_t misses = take_hits(f);
    int64_t evictions = 0, failures = 0;

    for (int64_t j = 0; j < misses; j++) {
        const int32_t i = ctr_vec_i32(a->missed)[j];
        const int64_t s = oldest_of(a, set_of(a, f->want[i]));
        f->slot[i] = ctr_vec_i32(a->missed_slot)[j] = (int32_t)s;
        if (s < 0) {
            failures++;
            continue;
        }
        if (stamp[s])
            ctr_vec_i32(a->evicted_slot)[evictions++] = (int32_t)s;
        key[s] = f->want[i];
        stamp[s] = a->now;
    }
    *a->misses = misses;
    *a->evictions = evictions;
    *a->failures = failures;
}

/* The same for keys that may repeat: for those that are distinct, by number, which then give all entries their slots.
 */
static int find_groups(struct ctr_dev *dev, const struct ctr_dev_slots *a, struct ctr_err *err)
{
    const int64_t n = a->want.n;
    int32_t *index = ctr_vec_i32(a->slot), *start = ctr_vec_i32(a->group_start), *item = ctr_vec_i32(a->group_item);
    uint64_t size = 64;
    void *table, *keys;

    while (size < 2 * (uint64_t)n)
        size *= 2;
    int rc = ctr_dev_scratch(dev, 2, size * sizeof(int32_t), &table, err);
    if (!rc)
        rc = ctr_dev_scratch(dev, 3, (size_t)(2 * n) * sizeof(uint64_t), &keys, err);
    if (rc)
        return rc;
    uint64_t *key = keys, *unique = key + n;
    const uint64_t *want = ctr_vec_u64(a->want), *salt = ctr_vec_u64(a->salt);
    for (int64_t e = 0; e < n; e++)
        key[e] = salt ? ctr_mix64(want[e] ^ salt[ctr_e_salt_of(ctr_vec_i32(a->part), a->salt.n, e)]) : want[e];
    memset(table, 0, size * sizeof(int32_t));
    *a->groups = find_unique(key, n, table, size - 1, unique, index);
    group_entries(index, n, *a->groups, start, item);
    find_slots(&(struct find){ a, unique, *a->groups, ctr_vec_i32(a->group_slot) });
    for (int64_t j = 0; j < *a->misses; j++)
        ctr_vec_i32(a->missed)[j] = item[start[ctr_vec_i32(a->missed)[j]]];
    for (int64_t e = 0; e < n; e++)
        index[e] = ctr_vec_i32(a->group_slot)[index[e]];
    return 0;
}

int ctr_cpu_slots(struct ctr_dev *dev, const struct ctr_dev_slots *a, struct ctr_err *err)
{
    int rc = 0;
    if (a->group_start.mem)
        rc = find_groups(dev, a, err);
    else
        find_slots(&(struct find){ a, ctr_vec_u64(a->want), a->want.n, ctr_vec_i32(a->slot) });
    for (int64_t j = 0; a->missed_want.mem && !rc && j < *a->misses; j++)
        ctr_vec_u64(a->missed_want)[j] = ctr_vec_u64(a->want)[ctr_vec_i32(a->missed)[j]];
    return rc;
}

int ctr_cpu_take_items(struct ctr_dev *dev, const struct ctr_dev_take_items *a, struct ctr_err *err)
{
    const uint64_t *from = ctr_vec_u64(a->from);
    const int32_t *item = ctr_vec_i32(a->item), *start = ctr_vec_i32(a->start);
    uint64_t *to = ctr_vec_u64(a->to);
    (void)dev, (void)err;
    for (int64_t l = 0; l < a->item.n; l++)
        for (int32_t k = start[l]; k < start[l + 1]; k++) {
            to[k] = item[l] < 0 ? a->none : from[item[l] + (k - start[l])];
            if (a->segment.mem)
                ctr_vec_i32(a->segment)[k] = (int32_t)(a->first + l);
        }
    return 0;
}

int ctr_cpu_item_digests(struct ctr_dev *dev, const struct ctr_dev_item_digests *a, struct ctr_err *err)
{
    const uint64_t *from = ctr_vec_u64(a->from);
    const int32_t *item = ctr_vec_i32(a->item), *count = ctr_vec_i32(a->count);
    (void)dev, (void)err;
    for (int64_t l = 0; l < a->item.n; l++) {
        const uint64_t *items = item[l] < 0 ? &a->none : from + item[l];
        for (int k = 0; k < 2; k++)
            ctr_vec_u64(a->out)[2 * l + k] = ctr_e_digest(items, item[l] < 0 ? 1 : count[l], a->seed[k]);
    }
    return 0;
}

/* ---- reductions: partial results of fixed runs of rows, joined in order ---- */

struct reduction {
    const struct ctr_dev_reduce *a;
    double *partial;
    int64_t rows;
};

static double reduce_row(enum ctr_reduction kind, const float *x, int64_t n, int64_t row, double out)
{
    for (int64_t j = 0; j < n; j++)
        switch (kind) {
        case CTR_REDUCE_SUM: out += (double)x[j]; break;
        case CTR_REDUCE_SUM_SQUARES: out += (double)x[j] * (double)x[j]; break;
        case CTR_REDUCE_MAX_ABS: out = isnan(x[j]) || fabsf(x[j]) > (float)out ? (double)fabsf(x[j]) : out; break;
        case CTR_REDUCE_NONFINITE: out = out < 0 && !isfinite(x[j]) ? (double)row : out; break;
        }
    return out;
}

/* Adding one to an exponent of all ones carries into the sign. */
static bool all_finite(const float *x, int64_t n)
{
    enum { LANES = 8 };
    typedef uint32_t lanes __attribute__((vector_size(LANES * 4)));
    const uint32_t ones = 0x7f800000, one = 0x00800000;
    lanes carry = { 0 }, bits;
    uint32_t any = 0;
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        memcpy(&bits, x + i, sizeof bits);
        carry |= (bits & ones) + one;
    }
    for (; i < n; i++)
        any |= (ctr_e_to_bits(x[i]) & ones) + one;
    for (int l = 0; l < LANES; l++)
        any |= carry[l];
    return !(any >> 31);
}

static void reduce_rows(void *ctx, int64_t task, int worker)
{
    const struct reduction *r = ctx;
    const struct ctr_mat x = r->a->x;
    const int64_t from = task * r->rows, to = CTR_MIN(from + r->rows, x.rows);
    double out = r->a->kind == CTR_REDUCE_NONFINITE ? -1 : 0;

    (void)worker;
    if (r->a->kind == CTR_REDUCE_NONFINITE && x.stride == x.cols &&
        all_finite(ctr_mat_f32(x) + from * x.stride, (to - from) * x.cols)) {
        r->partial[task] = out;
        return;
    }
    for (int64_t i = from; i < to; i++)
        out = reduce_row(r->a->kind, ctr_mat_f32(x) + i * x.stride, x.cols, i, out);
    r->partial[task] = out;
}

static double join_two(enum ctr_reduction kind, double a, double b)
{
    switch (kind) {
    case CTR_REDUCE_MAX_ABS: return isnan(b) || b > a ? b : a;
    case CTR_REDUCE_NONFINITE: return a >= 0 ? a : b;
    default: return a + b;
    }
}

int ctr_cpu_reduce(struct ctr_dev *dev, const struct ctr_dev_reduce *a, struct ctr_err *err)
{
    struct reduction r = { .a = a, .rows = CTR_MAX(CTR_TASK_ELEMENTS / CTR_MAX(a->x.cols, 1), 1) };
    const int64_t tasks = (a->x.rows + r.rows - 1) / r.rows;
    double out = a->kind == CTR_REDUCE_NONFINITE ? -1 : 0;
    void *partial;

    int rc = ctr_dev_scratch(dev, 2, (size_t)tasks * sizeof(double), &partial, err);
    if (rc)
        return rc;
    r.partial = partial;
    ctr_pool_run(dev->pool, tasks, reduce_rows, &r);
    for (int64_t i = 0; i < tasks; i++)
        out = join_two(a->kind, out, r.partial[i]);
    *ctr_vec_f64(a->out) = out;
    return 0;
}
