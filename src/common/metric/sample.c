/* SPDX-License-Identifier: Apache-2.0
 *
 * sample: compact (score, class, weight) entries, their radix sort, and the exact AUC.
 *
 * The sort is a radix sort of 10-bit digits, least significant first: two or three passes over the upper bits of the
 * keys' range, which few keys share; runs of keys that share them are then sorted separately. Every step is stable, so
 * the order, and every sum of weights, depends only on the rows. It is a separate sort, because entries are packed into
 * 4 or 8 bytes, and gauc sorts millions of short runs. */
#include "common/metric/sample.h"
#include "common/base/isa.h"

#include <math.h>
#include <stdlib.h>

/* For example, the rows (score, label) .7 1, .4 1, .2 0, .4 0 with float32 scores, as keys and sorted:
 *
 *     7e666667 7d99999b 7c99999a 7d99999a -> 7c99999a 7d99999a 7d99999b 7e666667
 *                                            .2 0     .4 0     .4 1     .7 1
 *
 * The AUC is one walk over these: the click of .4 wins over one non-click and ties with one, that of .7 wins over two;
 * (1 + 1/2 + 2) / (2 * 2) = .875. Up to INSERTION keys are sorted by insertion, as here. With more, the range of these
 * keys has 25 bits, and two digits sort by the upper 20 (low = 5): the two of .4 share them, and stay a run that is
 * sorted by itself. Entries with weights or units are sorted as pairs of key and number, and permuted after it. */

enum { DIGIT_BITS = 10, DIGITS = 1 << DIGIT_BITS, PASSES = 3, INSERTION = 48 };
enum { FEW = 16384 }; /* number of keys for which two digits distinguish nearly all */

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

/* Lengths are updated only here: first count what was pushed since the last call. */
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

/* The first weight other than 1: store 1 for all previous entries. */
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
        label = label == 1; /* a single entry suffices */
    part[0] = weight * (1 - label);
    part[1] = weight * label;
    if (!s->weight.len && (rc = start_weights(s, err)))
        return rc;
    for (unsigned positive = 0; positive < 2; positive++) {
        if (label == !positive)
            continue; /* a whole label has only one entry */
        ((double *)s->weight.data)[s->n] = part[positive];
        ctr_sample_push_plain(s, score, positive, unit);
    }
    return 0;
}

/* Keys of common rows. */
CTR_FAST static void put_whole(struct ctr_sample *s, const double *restrict score, const double *restrict label,
                               int64_t n)
{
    uint64_t *restrict wide = (uint64_t *)(void *)s->key.data + s->n;
    uint32_t *restrict narrow = (uint32_t *)(void *)s->key.data + s->n;

    for (int64_t i = 0; s->wide && i < n; i++) {
        double p = score[i] + 0.0; /* -0 becomes 0 */
        uint64_t bits;
        memcpy(&bits, &p, sizeof bits);
        wide[i] = bits << 1 | (label[i] == 1);
    }
    for (int64_t i = 0; !s->wide && i < n; i++) {
        float p = (float)(score[i] + 0.0);
        uint32_t bits;
        memcpy(&bits, &p, sizeof bits);
        narrow[i] = bits << 1 | (label[i] == 1);
    }
}

int ctr_sample_push_rows(struct ctr_sample *s, const double *score, const struct ctr_metric_rows *r,
                         const uint32_t *unit, struct ctr_err *err)
{
    int rc = ctr_sample_reserve(s, r->n, err);

    if (!rc && r->whole && !r->weight && !s->weight.len) {
        put_whole(s, score, r->label, r->n);
        if (s->units)
            memcpy((uint32_t *)(void *)s->unit.data + s->n, unit, (size_t)r->n * sizeof *unit);
        s->n += r->n;
        return 0;
    }
    for (int64_t i = 0; !rc && i < r->n; i++)
        rc = ctr_sample_push(s, score[i] + 0.0, r->label[i], r->weight ? r->weight[i] : 1, s->units ? unit[i] : 0, err);
    return rc;
}

/* Defines sorts of T by KEY(x), of type K. `name`_digits sorts by `passes` digits of KEY - base from bit `low` on; it
 * and `name`_sort return the result: a or t. */
#define DEFINE_SORT(name, T, K, KEY)                                                                                   \
    static T *name##_digits(T *a, T *t, size_t n, K base, int low, int passes)                                         \
    {                                                                                                                  \
        size_t count[PASSES][DIGITS];                                                                                  \
        memset(count, 0, (size_t)passes * sizeof count[0]);                                                            \
        for (size_t i = 0; i < n; i++) {                                                                               \
            K k = (K)(KEY(a[i]) - base) >> low;                                                                        \
            count[0][k & (DIGITS - 1)]++;                                                                              \
            count[1][k >> DIGIT_BITS & (DIGITS - 1)]++;                                                                \
            if (passes > 2)                                                                                            \
                count[2][k >> 2 * DIGIT_BITS & (DIGITS - 1)]++;                                                        \
        }                                                                                                              \
        for (int p = 0; p < passes; p++) {                                                                             \
            int shift = low + p * DIGIT_BITS;                                                                          \
            size_t sum = 0, *c = count[p];                                                                             \
            for (int d = 0; d < DIGITS; d++) {                                                                         \
                size_t k = c[d];                                                                                       \
                c[d] = sum;                                                                                            \
                sum += k;                                                                                              \
            }                                                                                                          \
            for (size_t i = 0; i < n; i++)                                                                             \
                t[c[(K)(KEY(a[i]) - base) >> shift & (DIGITS - 1)]++] = a[i];                                          \
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
    }                                                                                                                  \
    static T *name##_sort(T *a, T *t, size_t n)                                                                        \
    {                                                                                                                  \
        if (n <= INSERTION) {                                                                                          \
            name##_insertion(a, n);                                                                                    \
            return a;                                                                                                  \
        }                                                                                                              \
        K least = KEY(a[0]), most = least;                                                                             \
        for (size_t i = 1; i < n; i++) {                                                                               \
            least = CTR_MIN(least, KEY(a[i]));                                                                         \
            most = CTR_MAX(most, KEY(a[i]));                                                                           \
        }                                                                                                              \
        if (least == most)                                                                                             \
            return a;                                                                                                  \
        int bits = 64 - __builtin_clzll((uint64_t)(most - least)),                                                     \
            passes = n <= FEW || bits <= 2 * DIGIT_BITS ? 2 : 3;                                                       \
        int low = CTR_MAX(0, bits - passes * DIGIT_BITS);                                                              \
        T *r = name##_digits(a, t, n, least, low, passes), *other = r == a ? t : a;                                    \
        for (size_t i = 0, j; low && i < n; i = j) { /* runs that share all digits */                                  \
            for (j = i + 1; j < n && (K)(KEY(r[j]) - least) >> low == (K)(KEY(r[i]) - least) >> low;)                  \
                j++;                                                                                                   \
            if (j - i > 1 && name##_sort(r + i, other + i, j - i) != r + i)                                            \
                memcpy(r + i, other + i, (j - i) * sizeof(T));                                                         \
        }                                                                                                              \
        return r;                                                                                                      \
    }

#define KEY_ITSELF(x)  (x)
#define KEY_OF_PAIR(x) ((x).key)
DEFINE_SORT(narrow, uint32_t, uint32_t, KEY_ITSELF)
DEFINE_SORT(wide, uint64_t, uint64_t, KEY_ITSELF)
DEFINE_SORT(pair, struct ctr_pair, uint64_t, KEY_OF_PAIR)

/* Many keys, by the threads of a pool: each places its share of the keys by their upper digit, which makes parts that
 * fit the cache; then parts are sorted, each by one thread. Equal keys are equal entries, so that order among them is
 * nothing to keep. `classes`: the lowest bit of a digit is the class, above it are the upper bits of the score. */
enum { MANY = 1 << 18, SHARES = 64 };
struct split {
    void *from, *to;
    size_t n;
    int64_t shares;
    uint64_t least[SHARES], most[SHARES]; /* of a share; then all of the first */
    int low, classes;                     /* bit of the digit; 0 or 1 */
    size_t count[SHARES][2 * DIGITS];     /* of a share; then where its next key of a digit goes */
    size_t start[2 * DIGITS + 1];         /* of a part */
    uint64_t wins[DIGITS];                /* with classes: twice the pairs within a part of scores */
};

#define DEFINE_SPLIT(name, T)                                                                                          \
    static void name##_range(void *ctx, int64_t share, int worker)                                                     \
    {                                                                                                                  \
        struct split *s = ctx;                                                                                         \
        const T *a = s->from;                                                                                          \
        T least = a[0], most = a[0];                                                                                   \
        for (size_t i = share_of(s, share); i < share_of(s, share + 1); i++) {                                         \
            least = CTR_MIN(least, a[i]);                                                                              \
            most = CTR_MAX(most, a[i]);                                                                                \
        }                                                                                                              \
        s->least[share] = least;                                                                                       \
        s->most[share] = most;                                                                                         \
        (void)worker;                                                                                                  \
    }                                                                                                                  \
    CTR_BODY size_t name##_digit(T offset, int low, T class)                                                           \
    {                                                                                                                  \
        return (size_t)(offset >> low << class | (offset & class));                                                    \
    }                                                                                                                  \
    CTR_BODY void name##_count_share(struct split *s, int64_t share, T class)                                          \
    {                                                                                                                  \
        const T *a = s->from, base = (T)s->least[0];                                                                   \
        const int low = s->low;                                                                                        \
        size_t *count = s->count[share];                                                                               \
        for (size_t i = share_of(s, share), end = share_of(s, share + 1); i < end; i++)                                \
            count[name##_digit(a[i] - base, low, class)]++;                                                            \
    }                                                                                                                  \
    CTR_BODY void name##_place_share(struct split *s, int64_t share, T class)                                          \
    {                                                                                                                  \
        const T *a = s->from, base = (T)s->least[0];                                                                   \
        const int low = s->low;                                                                                        \
        size_t *next = s->count[share];                                                                                \
        T *to = s->to;                                                                                                 \
        for (size_t i = share_of(s, share), end = share_of(s, share + 1); i < end; i++) {                              \
            const size_t at = next[name##_digit(a[i] - base, low, class)]++;                                           \
            to[at] = a[i];                                                                                             \
            __builtin_prefetch(&to[at + CTR_LINE / sizeof *to], 1);                                                    \
        }                                                                                                              \
    }                                                                                                                  \
    static void name##_count(void *ctx, int64_t share, int worker)                                                     \
    {                                                                                                                  \
        struct split *s = ctx;                                                                                         \
        s->classes ? name##_count_share(s, share, 1) : name##_count_share(s, share, 0);                                \
        (void)worker;                                                                                                  \
    }                                                                                                                  \
    static void name##_place(void *ctx, int64_t share, int worker)                                                     \
    {                                                                                                                  \
        struct split *s = ctx;                                                                                         \
        s->classes ? name##_place_share(s, share, 1) : name##_place_share(s, share, 0);                                \
        (void)worker;                                                                                                  \
    }                                                                                                                  \
    static void name##_part(void *ctx, int64_t digit, int worker)                                                      \
    {                                                                                                                  \
        struct split *s = ctx;                                                                                         \
        T *a = (T *)s->to + s->start[digit], *t = (T *)s->from + s->start[digit];                                      \
        const size_t n = s->start[digit + 1] - s->start[digit];                                                        \
        if (n > 1 && name##_sort(a, t, n) != a)                                                                        \
            memcpy(a, t, n * sizeof *a);                                                                               \
        (void)worker;                                                                                                  \
    }

static size_t share_of(const struct split *s, int64_t share)
{
    return s->n / (size_t)s->shares * (size_t)share + (share == s->shares ? s->n % (size_t)s->shares : 0);
}

DEFINE_SPLIT(narrow, uint32_t)
DEFINE_SPLIT(wide, uint64_t)

/* Place the n keys in a into parts in t. NULL: there is no memory for the counts. */
static struct split *split(void *a, void *t, size_t n, bool wide, int classes, struct ctr_pool *pool)
{
    struct split *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->from = a;
    s->to = t;
    s->n = n;
    s->classes = classes;
    s->shares = CTR_MIN(pool ? ctr_pool_threads(pool) : 1, SHARES);
    ctr_pool_run(pool, s->shares, wide ? wide_range : narrow_range, s);
    for (int64_t k = 1; k < s->shares; k++) {
        s->least[0] = CTR_MIN(s->least[0], s->least[k]);
        s->most[0] = CTR_MAX(s->most[0], s->most[k]);
    }
    s->least[0] &= ~(uint64_t)1;
    s->low = (s->least[0] < s->most[0] ? 64 - __builtin_clzll(s->most[0] - s->least[0]) : 0) - DIGIT_BITS;
    s->low = CTR_MAX(classes, s->low);
    ctr_pool_run(pool, s->shares, wide ? wide_count : narrow_count, s);
    size_t sum = 0;
    for (int d = 0; d < DIGITS << classes; d++) {
        s->start[d] = sum;
        for (int64_t k = 0; k < s->shares; k++) {
            const size_t count = s->count[k][d];
            s->count[k][d] = sum;
            sum += count;
        }
    }
    s->start[DIGITS << classes] = sum;
    ctr_pool_run(pool, s->shares, wide ? wide_place : narrow_place, s);
    return s;
}

/* Returns the result: a or t; NULL: there is no memory for its counts. */
static void *split_sort(void *a, void *t, size_t n, bool wide, struct ctr_pool *pool)
{
    struct split *s = split(a, t, n, wide, 0, pool);
    if (!s)
        return NULL;
    ctr_pool_run(pool, DIGITS, wide ? wide_part : narrow_part, s);
    free(s);
    return t;
}

/* The AUC alone needs no order. Of a part of scores the entries of the rarer class are put into bins of scores. An
 * entry of the other class then lies above those of the bins below its own, and is compared with those of its own bin,
 * which are few; else both classes are sorted. Keys of both classes are compared as positives. */
enum { BIN_BITS = 12, BINS = 1 << BIN_BITS, MOST = 32 };
struct bins {
    uint64_t first; /* the least score of the part, as a key */
    int low;
    uint32_t cell[BINS + 1]; /* where a bin begins */
};

CTR_BODY uint64_t positive_at(const void *a, size_t i, bool wide)
{
    return (wide ? ((const uint64_t *)a)[i] : ((const uint32_t *)a)[i]) | 1;
}

/* Put the m keys of a into list by bins, unless one gets more than MOST. */
CTR_BODY bool fill_bins(struct bins *b, const void *a, size_t m, void *list, bool wide)
{
    uint32_t sum = 0, most = 0, *end = b->cell + 1;

    memset(b->cell, 0, sizeof b->cell);
    for (size_t i = 0; i < m; i++)
        end[(positive_at(a, i, wide) - b->first) >> b->low]++;
    for (int k = 0; k < BINS; k++) {
        const uint32_t count = end[k];
        end[k] = sum;
        sum += count;
        most = CTR_MAX(most, count);
    }
    for (size_t i = 0; most <= MOST && i < m; i++) {
        const uint64_t k = positive_at(a, i, wide);
        const uint32_t at = end[(k - b->first) >> b->low]++;
        if (wide)
            ((uint64_t *)list)[at] = k;
        else
            ((uint32_t *)list)[at] = (uint32_t)k;
    }
    return most <= MOST;
}

/* For all x together: twice the keys of the list below, and once the equal ones. */
CTR_BODY uint64_t below(const struct bins *b, const void *x, size_t n, const void *list, bool wide)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++) {
        const uint64_t k = positive_at(x, i, wide);
        const uint32_t *cell = &b->cell[(k - b->first) >> b->low];
        sum += 2 * (uint64_t)cell[0];
        for (uint32_t j = cell[0]; j < cell[1]; j++)
            sum += (uint64_t)(positive_at(list, j, wide) < k) + (uint64_t)(positive_at(list, j, wide) <= k);
    }
    return sum;
}

/* The same, of sorted keys. */
CTR_BODY uint64_t below_sorted(const void *x, size_t n, const void *list, size_t m, bool wide)
{
    uint64_t sum = 0;

    for (size_t i = 0, less = 0, equal = 0; i < n; i++) {
        const uint64_t k = positive_at(x, i, wide);
        while (less < m && positive_at(list, less, wide) < k)
            less++;
        while (equal < m && positive_at(list, equal, wide) <= k)
            equal++;
        sum += less + equal;
    }
    return sum;
}

CTR_BODY void part_wins(struct split *s, int64_t digit, bool wide)
{
    const size_t *start = s->start + 2 * digit, n[2] = { start[1] - start[0], start[2] - start[1] };
    const size_t size = wide ? sizeof(uint64_t) : sizeof(uint32_t);
    const int rare = n[1] < n[0];
    uint8_t *a = (uint8_t *)s->to + start[rare] * size, *x = (uint8_t *)s->to + start[!rare] * size;
    void *list = (uint8_t *)s->from + start[rare] * size, *tmp = (uint8_t *)s->from + start[!rare] * size;
    struct bins b;
    uint64_t lower;

    if (!n[0] || !n[1])
        return;
    b.first = s->least[0] + ((uint64_t)digit << s->low);
    b.low = CTR_MAX(0, s->low - BIN_BITS);
    if (fill_bins(&b, a, n[rare], list, wide)) {
        lower = below(&b, x, n[!rare], list, wide);
    } else {
        list = wide ? (void *)wide_sort((uint64_t *)(void *)a, list, n[rare])
                    : (void *)narrow_sort((uint32_t *)(void *)a, list, n[rare]);
        tmp = wide ? (void *)wide_sort((uint64_t *)(void *)x, tmp, n[!rare])
                   : (void *)narrow_sort((uint32_t *)(void *)x, tmp, n[!rare]);
        lower = below_sorted(tmp, n[!rare], list, n[rare], wide);
    }
    s->wins[digit] = rare ? 2 * (uint64_t)n[0] * (uint64_t)n[1] - lower : lower;
}

static void wide_wins(void *ctx, int64_t digit, int worker)
{
    part_wins(ctx, digit, true);
    (void)worker;
}

static void narrow_wins(void *ctx, int64_t digit, int worker)
{
    part_wins(ctx, digit, false);
    (void)worker;
}

static double split_auc(struct split *s, bool wide, struct ctr_pool *pool)
{
    uint64_t wins = 0, count[2] = { 0 }; /* twice the pairs; of negatives, of positives */
    ctr_pool_run(pool, DIGITS, wide ? wide_wins : narrow_wins, s);
    for (int d = 0; d < DIGITS; d++) {
        const uint64_t positives = s->start[2 * d + 2] - s->start[2 * d + 1];
        wins += s->wins[d] + 2 * positives * count[0];
        count[0] += s->start[2 * d + 1] - s->start[2 * d];
        count[1] += positives;
    }
    return count[0] && count[1] ? (double)wins / 2 / ((double)count[0] * (double)count[1]) : NAN;
}

void ctr_pair_sort(struct ctr_pair *a, struct ctr_pair *tmp, int64_t n)
{
    struct ctr_pair *r = pair_sort(a, tmp, (size_t)n);

    if (r != a)
        memcpy(a, r, (size_t)n * sizeof *a);
}

uint64_t *ctr_key_sort(uint64_t *a, uint64_t *tmp, int64_t n)
{
    return wide_sort(a, tmp, (size_t)n);
}

static int sort_keys(struct ctr_sample *s, struct ctr_pool *pool, struct ctr_err *err)
{
    struct ctr_buf tmp = { 0 };
    size_t n = (size_t)s->n, bytes = n * (s->wide ? 8 : 4);
    void *a = s->key.data, *r;
    int rc = ctr_buf_reserve(&tmp, CTR_MAX(bytes, s->key.cap), err);

    if (rc)
        return rc;
    if (n < MANY || !(r = split_sort(a, tmp.data, n, s->wide, pool)))
        r = s->wide ? (void *)wide_sort(a, (uint64_t *)tmp.data, n) : (void *)narrow_sort(a, (uint32_t *)tmp.data, n);
    if (r != a) { /* the other buffer has the same size: swap them */
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

int ctr_sample_sort(struct ctr_sample *s, struct ctr_pool *pool, struct ctr_err *err)
{
    int rc = 0;

    if (!s->sorted && s->n > 1)
        rc = s->weight.len || s->units ? sort_pairs(s, err) : sort_keys(s, pool, err);
    s->sorted = !rc;
    return rc;
}

static inline double auc_of_keys(const struct ctr_sample *s, bool wide)
{
    const uint64_t *wides = (const uint64_t *)(const void *)s->key.data;
    const uint32_t *narrows = (const uint32_t *)(const void *)s->key.data;
    struct ctr_wins w = CTR_NO_WINS;

    for (int64_t i = 0; i < s->n; i++)
        ctr_wins_add(&w, wide ? wides[i] : narrows[i]);
    return ctr_wins_auc(&w);
}

double ctr_sample_auc(const struct ctr_sample *s)
{
    struct ctr_ties t = { .s = s };
    double neg = 0, pos = 0, wins = 0; /* integers are exact up to 2^53 */

    if (!s->weight.len && s->n <= UINT32_MAX)
        return s->wide ? auc_of_keys(s, true) : auc_of_keys(s, false);
    while (ctr_ties_next(&t)) {
        wins += t.pos * (2 * neg + t.neg);
        neg += t.neg;
        pos += t.pos;
    }
    return neg > 0 && pos > 0 ? wins / 2 / (neg * pos) : NAN;
}

int ctr_sample_take_auc(struct ctr_sample *s, struct ctr_pool *pool, double *auc, struct ctr_err *err)
{
    struct ctr_buf tmp = { 0 };
    struct split *parts = NULL;
    int rc = 0;

    if (!s->sorted && !s->weight.len && !s->units && s->n >= MANY && s->n <= UINT32_MAX) {
        if ((rc = ctr_buf_reserve(&tmp, (size_t)s->n * (s->wide ? 8 : 4), err)))
            return rc;
        parts = split(s->key.data, tmp.data, (size_t)s->n, s->wide, 1, pool);
    }
    if (parts)
        *auc = split_auc(parts, s->wide, pool);
    else if (!(rc = ctr_sample_sort(s, pool, err)))
        *auc = ctr_sample_auc(s);
    free(parts);
    ctr_buf_free(&tmp);
    ctr_sample_free(s);
    return rc;
}
