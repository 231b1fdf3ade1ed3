/* SPDX-License-Identifier: Apache-2.0
 *
 * weights: the tables of a linear model for prediction: 64-bit keys -> weight and, if requested, learning rate. They
 * are filled once and then only read, by any number of threads.
 *
 * A bucket is a cache line of four keys and their weights, or of three keys, weights and rates:
 *
 *     hash hash hash hash weight weight weight weight
 *     hash hash hash      weight weight weight        rate rate rate -        (rates are floats)
 *
 * A key goes to its home bucket or, if that is full, to the next bucket with room. Frequent keys get places in their
 * home buckets. All tables share one memory area, so that small tables share its huge pages: 21 bytes a key, or 28 with
 * rates.
 *
 *     ctr_weights_tables, sizes to t[].room, ctr_weights_make, ctr_weights_put …, ctr_weights_made;
 *     then ctr_weights_find, or ctr_weights_kernel for many keys
 */
#ifndef CTR_WEIGHTS_H
#define CTR_WEIGHTS_H

#include "common/base/isa.h"
#include "common/table/area.h"
#include "common/table/keyhash.h"

struct ctr_weights {
    const uint64_t *bucket; /* see above; ctr_key_hash of keys, then 0 for empty places */
    uint64_t buckets;       /* at least one, which may be empty; one more follows for the key with hash 0 */
    uint64_t keys, room;    /* keys present; keys that fit */
    bool has_zero;
};

/* Zero-initialise, except `rates`. */
struct ctr_weight_tables {
    struct ctr_weights *t;
    int n;
    bool rates;
    struct ctr_area area;
    uint8_t *heat; /* per place, while the tables are filled */
};
void ctr_weights_free(struct ctr_weight_tables *w);
int ctr_weights_tables(struct ctr_weight_tables *w, int n,
                       struct ctr_err *err) CTR_MUST;                            /* at least n; new ones empty */
int ctr_weights_make(struct ctr_weight_tables *w, struct ctr_err *err) CTR_MUST; /* sized by `room` */
/* An existing key gets the new numbers. `heat`: higher for more frequent keys. Fails if there is no room. */
int ctr_weights_put(struct ctr_weight_tables *w, int table, uint64_t h, double weight, float rate, uint8_t heat,
                    struct ctr_err *err) CTR_MUST;
void ctr_weights_ahead(const struct ctr_weight_tables *w, int table, uint64_t h); /* prefetch for a put */
void ctr_weights_made(struct ctr_weight_tables *w);                               /* filling has ended */

/* `rates` must equal the tables' `rates`; callers pass a constant. */
enum { CTR_BUCKET_WORDS = 8 };
CTR_BODY int ctr_weights_places(bool rates)
{
    return rates ? 3 : 4;
}
CTR_BODY double ctr_weights_weight(const uint64_t *bucket, int place, bool rates)
{
    return ((const double *)(const void *)bucket)[ctr_weights_places(rates) + place];
}
CTR_BODY double ctr_weights_rate(const uint64_t *bucket, int place)
{
    return (double)((const float *)(const void *)(bucket + 6))[place];
}

CTR_BODY const uint64_t *ctr_weights_home(const struct ctr_weights *t, uint64_t h)
{
    return t->bucket + ctr_hash_scale(ctr_hash_keyed(h), t->buckets) * CTR_BUCKET_WORDS;
}

/* The bucket of a key and its place in it; NULL: the key is absent. */
const uint64_t *ctr_weights_far(const struct ctr_weights *t, const uint64_t *home, uint64_t h, bool rates, int *place);
CTR_BODY const uint64_t *ctr_weights_find(const struct ctr_weights *t, const uint64_t *home, uint64_t h, bool rates,
                                          int *place)
{
    const bool one = home[1] == h, two = home[2] == h, three = !rates && home[3] == h;
    *place = (one | three) + 2 * (two | three); /* without branches: they would be unpredictable */
    if (__builtin_expect((home[*place] != h) | !h, 0))
        return ctr_weights_far(t, home, h, rates, place);
    return home;
}

/* Looks up a run of keys and adds to one sum per key: the weights of keys found and, for tables with rates, the rates
 * of all keys. Bit i of the result: key i is absent. All instruction sets give the same result. */
enum { CTR_WEIGHTS_RUN = 64 };
struct ctr_weights_terms {
    const struct ctr_weights *t;
    const uint64_t *h, *const *home, *const *ahead; /* `ahead`: homes of the next run, to prefetch */
    int64_t n;                                      /* at most CTR_WEIGHTS_RUN */
    double *weight, *rate, unseen_rate;
};
struct ctr_weights_kernel {
    void (*homes)(const struct ctr_weights *t, const uint64_t *restrict h, int64_t n, const uint64_t **restrict home);
    uint64_t (*add)(const struct ctr_weights_terms *s);       /* for tables without rates */
    uint64_t (*add_rated)(const struct ctr_weights_terms *s); /* for tables with rates */
};
const struct ctr_weights_kernel *ctr_weights_kernel_at(int i); /* by enum ctr_cpu; NULL past the end */

#endif
