/* SPDX-License-Identifier: Apache-2.0
 *
 * sample: scores with labels and weights, stored compactly and sorted by score. Internal to metric/.
 *
 * An entry is a key: the bits of the score (in [0, 1], where the bits of floats sort like the floats) shifted left by
 * one, with the class in the lowest bit: 32 bits if every score is a float32, else 64. So sorting by key sorts by score
 * and puts the negatives of a tie before its positives. A row with a fractional label is two entries.
 */
#ifndef CTR_SAMPLE_H
#define CTR_SAMPLE_H

#include "common/metric/metric.h"

#include <math.h>

struct ctr_sample {
    struct ctr_buf key;    /* uint32_t, or uint64_t when wide */
    struct ctr_buf weight; /* double; empty while every entry weighs 1 */
    struct ctr_buf unit;   /* uint32_t; empty unless `units` */
    int64_t n;
    bool wide, units, sorted;
};

void ctr_sample_free(struct ctr_sample *s);
int64_t ctr_sample_bytes(const struct ctr_sample *s);
/* Reserve room for `rows` more rows. */
int ctr_sample_reserve(struct ctr_sample *s, int64_t rows, struct ctr_err *err) CTR_MUST;
/* Fill an empty sample with n entries of another, unsorted one, given their numbers. */
int ctr_sample_gather(struct ctr_sample *s, const struct ctr_sample *from, const uint32_t *entry, int64_t n,
                      struct ctr_err *err) CTR_MUST;
/* Add a row to reserved room; only the first weight other than 1 allocates and may fail. */
int ctr_sample_push_weighted(struct ctr_sample *s, double score, double label, double weight, uint32_t unit,
                             struct ctr_err *err) CTR_MUST;

/* Add all rows of a batch with these scores, r's own or others. unit: NULL unless s->units. */
int ctr_sample_push_rows(struct ctr_sample *s, const double *score, const struct ctr_metric_rows *r,
                         const uint32_t *unit, struct ctr_err *err) CTR_MUST;

static inline void ctr_sample_put(struct ctr_sample *s, double score, unsigned positive)
{
    if (s->wide) {
        uint64_t bits;
        memcpy(&bits, &score, sizeof bits);
        ((uint64_t *)s->key.data)[s->n] = bits << 1 | positive;
    } else {
        uint32_t bits;
        float f = (float)score;
        memcpy(&bits, &f, sizeof bits);
        ((uint32_t *)s->key.data)[s->n] = bits << 1 | positive;
    }
    s->n++;
}

/* Add a common row: weight 1 and label 0 or 1, to a sample without weights. */
static inline void ctr_sample_push_plain(struct ctr_sample *s, double score, unsigned positive, uint32_t unit)
{
    if (s->units)
        ((uint32_t *)s->unit.data)[s->n] = unit;
    ctr_sample_put(s, score, positive);
}

static inline int ctr_sample_push(struct ctr_sample *s, double score, double label, double weight, uint32_t unit,
                                  struct ctr_err *err)
{
    if (!s->weight.len && weight == 1 && (label == 0 || label == 1)) {
        ctr_sample_push_plain(s, score, label == 1, unit);
        return 0;
    }
    return ctr_sample_push_weighted(s, score, label, weight, unit, err);
}

static inline uint64_t ctr_sample_key(const struct ctr_sample *s, int64_t i)
{
    return s->wide ? ((const uint64_t *)s->key.data)[i] : ((const uint32_t *)s->key.data)[i];
}
static inline double ctr_sample_score(const struct ctr_sample *s, uint64_t key)
{
    double d;
    float f;
    uint64_t wide = key >> 1;
    uint32_t narrow = (uint32_t)wide;

    if (s->wide) {
        memcpy(&d, &wide, sizeof d);
        return d;
    }
    memcpy(&f, &narrow, sizeof f);
    return f;
}
static inline double ctr_sample_weight(const struct ctr_sample *s, int64_t i)
{
    return s->weight.len ? ((const double *)s->weight.data)[i] : 1;
}

/* Sort the entries by score, with the threads of a pool (NULL: one); entries with equal keys keep their order. */
int ctr_sample_sort(struct ctr_sample *s, struct ctr_pool *pool, struct ctr_err *err) CTR_MUST;
int64_t ctr_sample_sort_bytes(const struct ctr_sample *s); /* additional memory for sorting */

/* Pairs of a 64-bit key and 8 bytes, sorted stably by key; tmp has room for n. */
struct ctr_pair {
    uint64_t key;
    union {
        uint64_t index;
        double weight;
    };
};
void ctr_pair_sort(struct ctr_pair *a, struct ctr_pair *tmp, int64_t n);
uint64_t *ctr_key_sort(uint64_t *a, uint64_t *tmp, int64_t n); /* location of the result: a or tmp */

/* Iterates over groups of equal score in a sorted sample, ascending: while (ctr_ties_next(&t)) … Start with { .s =
 * sample }. */
struct ctr_ties {
    const struct ctr_sample *s;
    int64_t i;          /* the entry after the group */
    double score;       /* of the group */
    double neg, pos;    /* weights */
    int64_t entries[2]; /* negatives and positives with weight above 0 */
};
static inline bool ctr_ties_next(struct ctr_ties *t)
{
    const struct ctr_sample *s = t->s;
    int64_t i = t->i, first = i;
    uint64_t bits;

    if (i >= s->n)
        return false;
    bits = ctr_sample_key(s, i) >> 1;
    t->score = ctr_sample_score(s, bits << 1);
    t->neg = t->pos = 0;
    t->entries[0] = t->entries[1] = 0;
    for (uint64_t k; i < s->n && (k = ctr_sample_key(s, i)) >> 1 == bits; i++) {
        double w = ctr_sample_weight(s, i);
        t->entries[k & 1] += w > 0;
        if (k & 1)
            t->pos += w;
        else
            t->neg += w;
    }
    t->i = i;
    return i > first;
}

/* Counts the pairs that positives win, reading keys in order. The negatives of a tie come before its positives, so at a
 * positive the numbers of negatives below the tie and up to its end are known. At most UINT32_MAX keys, so that twice
 * the wins stay below 2^63. */
struct ctr_wins {
    uint64_t tie, wins;       /* bits of the last score; twice the pairs */
    uint32_t below, neg, pos; /* negatives below the tie; so far */
    uint32_t unused;
};
#define CTR_NO_WINS                                                                                                    \
    {                                                                                                                  \
        UINT64_MAX, 0, 0, 0, 0, 0                                                                                      \
    }
static inline void ctr_wins_add(struct ctr_wins *w, uint64_t key)
{
    uint32_t positive = key & 1;

    w->below = key >> 1 == w->tie ? w->below : w->neg;
    w->tie = key >> 1;
    w->wins += ((uint64_t)w->below + w->neg) & -(uint64_t)positive;
    w->pos += positive;
    w->neg += !positive;
}
static inline double ctr_wins_auc(const struct ctr_wins *w)
{
    return w->neg && w->pos ? (double)w->wins / 2 / ((double)w->neg * (double)w->pos) : NAN;
}

/* Exact AUC of a sorted sample; NaN if a class has no weight. */
double ctr_sample_auc(const struct ctr_sample *s);
/* The same of one that need not be sorted, which is faster. It is empty then. */
int ctr_sample_take_auc(struct ctr_sample *s, struct ctr_pool *pool, double *auc, struct ctr_err *err) CTR_MUST;

#endif
