/* SPDX-License-Identifier: Apache-2.0
 *
 * sample: compact (score, class, weight) entries, their radix sort, and the exact AUC.
 *
 * The sort is a least-significant-digit radix sort of 11-bit digits. 64-bit keys take three passes over their upper 33
 * bits; few keys still share these, and each such run is then sorted by itself. Every step is stable, so the order, and
 * with it every sum of weights, is a function of the rows alone. */
#include "common/metric/sample.h"

#include <math.h>
#include <stdlib.h>

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS, PASSES = 3, INSERTION = 48, LOW_BITS = 30 };
enum { SPREAD_MOST = 16384, CROWD = 24 }; /* keys of a slice; the mean of a key's neighbours in its bucket */

void ctr_sample_free(struct ctr_sample *s)
{
    ctr_buf_free(&s->key);
    ctr_buf_free(&s->weight);
    ctr_buf_free(&s->unit);
    s->n = 0;
}

int64_t ctr_sample_bytes(const struct ctr_sample *s)
{
    return (int64_t)(s->key.cap + s->weight.cap + s->unit.cap);
}

/* Lengths follow n only here: what was pushed since the last call is counted first. */
int ctr_sample_reserve(struct ctr_sample *s, int64_t rows, struct ctr_err *err)
{
    size_t key_size = s->wide ? 8 : 4, more = 2 * (size_t)rows;
    int rc;

    s->key.len = (size_t)s->n * key_size;
    if ((rc = ctr_buf_reserve(&s->key, more * key_size, err)))
        return rc;
    if (s->units) {
        s->unit.len = (size_t)s->n * sizeof(uint32_t);
        if ((rc = ctr_buf_reserve(&s->unit, more * sizeof(uint32_t), err)))
            return rc;
    }
    if (s->weight.len) {
        s->weight.len = (size_t)s->n * sizeof(double);
        if ((rc = ctr_buf_reserve(&s->weight, more * sizeof(double), err)))
            return rc;
    }
    return 0;
}

/* The first weight that is not 1: all before it weighed 1. */
static int start_weights(struct ctr_sample *s, struct ctr_err *err)
{
    size_t slots = s->key.cap / (s->wide ? 8 : 4);
    double *w;
    int rc = ctr_buf_reserve(&s->weight, slots * sizeof(double), err);

    if (rc)
        return rc;
    w = (double *)s->weight.data;
    for (int64_t i = 0; i < s->n; i++)
        w[i] = 1;
    s->weight.len = (size_t)CTR_MAX(s->n, 1) * sizeof(double);
    return 0;
}

int ctr_sample_gather(struct ctr_sample *s, const struct ctr_sample *from, const uint32_t *entry, int64_t n,
                      struct ctr_err *err)
{
    size_t size = s->wide ? 8 : 4;
    int rc = ctr_buf_reserve(&s->key, (size_t)n * size, err);

    if (!rc && s->units)
        rc = ctr_buf_reserve(&s->unit, (size_t)n * sizeof(uint32_t), err);
    if (!rc && from->weight.len)
        rc = ctr_buf_reserve(&s->weight, (size_t)n * sizeof(double), err);
    if (rc)
        return rc;
    if (s->wide)
        for (int64_t i = 0; i < n; i++)
            ((uint64_t *)s->key.data)[i] = ((const uint64_t *)from->key.data)[entry[i]];
    else
        for (int64_t i = 0; i < n; i++)
            ((uint32_t *)s->key.data)[i] = ((const uint32_t *)from->key.data)[entry[i]];
    for (int64_t i = 0; s->units && i < n; i++)
        ((uint32_t *)s->unit.data)[i] = ((const uint32_t *)from->unit.data)[entry[i]];
    for (int64_t i = 0; from->weight.len && i < n; i++)
        ((double *)s->weight.data)[i] = ((const double *)from->weight.data)[entry[i]];
    s->weight.len = from->weight.len ? (size_t)n * sizeof(double) : 0;
    s->n = n;
    return 0;
}

int ctr_sample_push_weighted(struct ctr_sample *s, double score, double label, double weight, uint32_t unit,
                             struct ctr_err *err)
{
    double part[2];
    int rc;

    if (weight == 0)
        label = label == 1; /* one entry says all */
    part[0] = weight * (1 - label);
    part[1] = weight * label;
    if (!s->weight.len && (rc = start_weights(s, err)))
        return rc;
    for (unsigned positive = 0; positive < 2; positive++) {
        if (label == !positive)
            continue; /* a whole label has one entry only */
        ((double *)s->weight.data)[s->n] = part[positive];
        ctr_sample_push_plain(s, score, positive, unit);
    }
    return 0;
}

/* A sort of T by KEY(x); `name`_lsd orders by the 33 bits from bit `low` on and returns where the result is: a or t. */
#define DEFINE_SORT(name, T, KEY)                                                                                      \
    static T *name##_lsd(T *a, T *t, size_t n, int low)                                                                \
    {                                                                                                                  \
        size_t count[PASSES][DIGITS];                                                                                  \
        memset(count, 0, sizeof count);                                                                                \
        for (size_t i = 0; i < n; i++)                                                                                 \
            for (int p = 0; p < PASSES; p++)                                                                           \
                count[p][KEY(a[i]) >> (low + p * DIGIT_BITS) & (DIGITS - 1)]++;                                        \
        for (int p = 0; p < PASSES; p++) {                                                                             \
            int shift = low + p * DIGIT_BITS;                                                                          \
            size_t sum = 0, *c = count[p];                                                                             \
            if (c[KEY(a[0]) >> shift & (DIGITS - 1)] == n)                                                             \
                continue; /* one digit only */                                                                         \
            for (int d = 0; d < DIGITS; d++) {                                                                         \
                size_t k = c[d];                                                                                       \
                c[d] = sum;                                                                                            \
                sum += k;                                                                                              \
            }                                                                                                          \
            for (size_t i = 0; i < n; i++)                                                                             \
                t[c[KEY(a[i]) >> shift & (DIGITS - 1)]++] = a[i];                                                      \
            T *swap = a;                                                                                               \
            a = t;                                                                                                     \
            t = swap;                                                                                                  \
        }                                                                                                              \
        return a;                                                                                                      \
    }                                                                                                                  \
    static void name##_insertion(T *a, size_t n)                                                                       \
    {                                                                                                                  \
        for (size_t i = 1; i < n; i++) {                                                                               \
            T x = a[i];                                                                                                \
            size_t j = i;                                                                                              \
            for (; j > 0 && KEY(a[j - 1]) > KEY(x); j--)                                                               \
                a[j] = a[j - 1];                                                                                       \
            a[j] = x;                                                                                                  \
        }                                                                                                              \
    }

/* Of 64-bit keys: the upper bits, then each run of keys that share them. */
#define DEFINE_SORT64(name, T, KEY)                                                                                    \
    DEFINE_SORT(name, T, KEY)                                                                                          \
    static T *name##_sort(T *a, T *t, size_t n)                                                                        \
    {                                                                                                                  \
        if (n <= INSERTION) {                                                                                          \
            name##_insertion(a, n);                                                                                    \
            return a;                                                                                                  \
        }                                                                                                              \
        T *r = name##_lsd(a, t, n, LOW_BITS), *other = r == a ? t : a;                                                 \
        for (size_t i = 0, j; i < n; i = j) {                                                                          \
            for (j = i + 1; j < n && KEY(r[j]) >> LOW_BITS == KEY(r[i]) >> LOW_BITS;)                                  \
                j++;                                                                                                   \
            if (j - i <= INSERTION)                                                                                    \
                name##_insertion(r + i, j - i);                                                                        \
            else if (name##_lsd(r + i, other + i, j - i, 0) != r + i)                                                  \
                memcpy(r + i, other + i, (j - i) * sizeof(T));                                                         \
        }                                                                                                              \
        return r;                                                                                                      \
    }

#define KEY_ITSELF(x)  (x)
#define KEY_OF_PAIR(x) ((x).key)
DEFINE_SORT(narrow, uint32_t, KEY_ITSELF)
DEFINE_SORT64(wide, uint64_t, KEY_ITSELF)
DEFINE_SORT64(pair, struct ctr_pair, KEY_OF_PAIR)

/* One pass into buckets of equal width between the lowest key and the highest, and an insertion sort of what is nearly
 * in order then: for the few thousand scores of a slice, whose counters would take longer than they. False, and nothing
 * is done: the keys crowd in few buckets. */
static bool spread_sort(uint64_t *a, uint64_t *t, size_t n)
{
    uint16_t at[DIGITS] = { 0 };
    uint64_t low = a[0], high = a[0];
    size_t sum = 0, work = 0;
    int shift;

    for (size_t i = 1; i < n; i++) {
        low = CTR_MIN(low, a[i]);
        high = CTR_MAX(high, a[i]);
    }
    shift = CTR_MAX(0, 64 - DIGIT_BITS - __builtin_clzll((high - low) | 1));
    for (size_t i = 0; i < n; i++)
        at[(a[i] - low) >> shift]++;
    for (int d = 0; d < DIGITS; d++) {
        size_t k = at[d];
        at[d] = (uint16_t)sum;
        sum += k;
        work += k * k;
    }
    if (work > CROWD * n)
        return false;
    for (size_t i = 0; i < n; i++)
        t[at[(a[i] - low) >> shift]++] = a[i];
    wide_insertion(t, n);
    return true;
}

/* Sorted keys: a or t. */
static uint64_t *sort_wide(uint64_t *a, uint64_t *t, size_t n)
{
    if (n > INSERTION && n <= SPREAD_MOST && spread_sort(a, t, n))
        return t;
    return wide_sort(a, t, n);
}

void ctr_pair_sort(struct ctr_pair *a, struct ctr_pair *tmp, int64_t n)
{
    struct ctr_pair *r = pair_sort(a, tmp, (size_t)n);

    if (r != a)
        memcpy(a, r, (size_t)n * sizeof *a);
}

void ctr_key_sort(uint64_t *a, uint64_t *tmp, int64_t n)
{
    uint64_t *r = sort_wide(a, tmp, (size_t)n);

    if (r != a)
        memcpy(a, r, (size_t)n * sizeof *a);
}

static int sort_keys(struct ctr_sample *s, struct ctr_err *err)
{
    struct ctr_buf tmp = { 0 };
    size_t n = (size_t)s->n, bytes = n * (s->wide ? 8 : 4);
    void *a = s->key.data, *r;
    int rc = ctr_buf_reserve(&tmp, CTR_MAX(bytes, s->key.cap), err);

    if (rc)
        return rc;
    if (s->wide) {
        r = sort_wide(a, (uint64_t *)tmp.data, n);
    } else if (n <= INSERTION) {
        narrow_insertion(a, n);
        r = a;
    } else {
        r = narrow_lsd(a, (uint32_t *)tmp.data, n, 0);
    }
    if (r != a) { /* the other buffer is as large: it becomes the sample's */
        struct ctr_buf swap = s->key;
        s->key = tmp;
        tmp = swap;
    }
    s->key.len = bytes;
    ctr_buf_free(&tmp);
    return 0;
}

/* buf[i] = old buf[order[i].index], for values of 4 or 8 bytes. */
static int permute(struct ctr_buf *buf, size_t size, const struct ctr_pair *order, size_t n, struct ctr_err *err)
{
    struct ctr_buf to = { 0 };
    int rc = ctr_buf_reserve(&to, n * size, err);

    if (rc)
        return rc;
    if (size == 4)
        for (size_t i = 0; i < n; i++)
            ((uint32_t *)to.data)[i] = ((const uint32_t *)buf->data)[order[i].index];
    else
        for (size_t i = 0; i < n; i++)
            ((uint64_t *)to.data)[i] = ((const uint64_t *)buf->data)[order[i].index];
    to.len = n * size;
    ctr_buf_free(buf);
    *buf = to;
    return 0;
}

static int sort_pairs(struct ctr_sample *s, struct ctr_err *err)
{
    size_t n = (size_t)s->n;
    struct ctr_buf a = { 0 }, t = { 0 };
    struct ctr_pair *p, *r;
    int rc = 0;

    if ((rc = ctr_buf_reserve(&a, n * sizeof *p, err)) || (rc = ctr_buf_reserve(&t, n * sizeof *p, err)))
        goto out;
    p = (struct ctr_pair *)a.data;
    for (size_t i = 0; i < n; i++)
        p[i] = (struct ctr_pair){ .key = ctr_sample_key(s, (int64_t)i), .index = i };
    r = pair_sort(p, (struct ctr_pair *)t.data, n);
    if (s->wide)
        for (size_t i = 0; i < n; i++)
            ((uint64_t *)s->key.data)[i] = r[i].key;
    else
        for (size_t i = 0; i < n; i++)
            ((uint32_t *)s->key.data)[i] = (uint32_t)r[i].key;
    ctr_buf_free(r == p ? &t : &a);
    if (s->weight.len)
        rc = permute(&s->weight, sizeof(double), r, n, err);
    if (!rc && s->units)
        rc = permute(&s->unit, sizeof(uint32_t), r, n, err);
out:
    ctr_buf_free(&a);
    ctr_buf_free(&t);
    return rc;
}

int64_t ctr_sample_sort_bytes(const struct ctr_sample *s)
{
    return s->weight.len || s->units ? s->n * 2 * (int64_t)sizeof(struct ctr_pair) : (int64_t)s->key.cap;
}

int ctr_sample_sort(struct ctr_sample *s, struct ctr_err *err)
{
    int rc = 0;

    if (!s->sorted && s->n > 1)
        rc = s->weight.len || s->units ? sort_pairs(s, err) : sort_keys(s, err);
    s->sorted = !rc;
    return rc;
}

/* Of entries that weigh 1: the negatives of a tie come before its positives, so at a positive both are known, how many
 * negatives are below the tie and how many up to its end. Whole numbers: twice the wins are below 2^63. */
static double auc_of_keys(const uint64_t *key, int64_t n)
{
    uint64_t below = 0, neg = 0, wins = 0, tie = UINT64_MAX;

    for (int64_t i = 0; i < n; i++) {
        uint64_t positive = key[i] & 1;
        below = key[i] >> 1 == tie ? below : neg;
        tie = key[i] >> 1;
        wins += (below + neg) & -positive;
        neg += !positive;
    }
    return neg && neg < (uint64_t)n ? (double)wins / 2 / ((double)neg * (double)((uint64_t)n - neg)) : NAN;
}

double ctr_sample_auc(const struct ctr_sample *s)
{
    struct ctr_ties t = { .s = s };
    double neg = 0, pos = 0, wins = 0; /* whole numbers stay exact up to 2^53 */

    if (s->wide && !s->weight.len && s->n <= UINT32_MAX)
        return auc_of_keys((const uint64_t *)s->key.data, s->n);
    while (ctr_ties_next(&t)) {
        wins += t.pos * (2 * neg + t.neg);
        neg += t.neg;
        pos += t.pos;
    }
    return neg > 0 && pos > 0 ? wins / 2 / (neg * pos) : NAN;
}
