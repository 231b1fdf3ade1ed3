/* SPDX-License-Identifier: Apache-2.0
 *
 * evalsweep: computes the AUC of every slice, and of all rows, in one pass over the rows in score order, with counters
 * per slice.
 *
 * An entry is one number: its key and the place of its slice. Both do not fit into 64 bits; but the upper bits of the
 * key select a bucket of scores and can be omitted within it: entries are distributed to buckets, each bucket is sorted
 * in the cache, and its entries are counted. */
#include "common/base/isa.h"
#include "common/metric/evalstate.h"

#include <stdlib.h>

enum { BUCKET_BITS = 10, MOST_BUCKET_BITS = 14 };

struct sweep {
    const struct ctr_sample *sample;
    const uint32_t *entry, *token, *place; /* entry: NULL if entry i is i */
    int64_t n;
    uint64_t least;            /* the smallest key */
    int rest_bits, place_bits; /* of the key, below the bucket's bits; of the place */
    struct ctr_buf end;        /* int64_t by bucket: first its start, finally its end */
    struct ctr_buf packed, tmp;
    struct ctr_wins *wins; /* by place */
};

/* Loops over the entries, compiled for wide and narrow keys, with invariants in registers. */
CTR_BODY uint64_t key_at(const void *keys, bool wide, const uint32_t *entry, int64_t i)
{
    int64_t k = entry ? entry[i] : i;

    return wide ? ((const uint64_t *)keys)[k] : ((const uint32_t *)keys)[k];
}

CTR_BODY void count_entries(const struct sweep *sweep, bool wide, int64_t *count)
{
    const struct sweep s = *sweep;
    const void *keys = s.sample->key.data;

    for (int64_t i = 0; i < s.n; i++)
        count[(key_at(keys, wide, s.entry, i) - s.least) >> s.rest_bits]++;
}

CTR_BODY void pack_entries(const struct sweep *sweep, bool wide, int64_t *at, uint64_t *packed)
{
    const struct sweep s = *sweep;
    const void *keys = s.sample->key.data;

    for (int64_t i = 0; i < s.n; i++) {
        uint64_t key = key_at(keys, wide, s.entry, i) - s.least;
        packed[at[key >> s.rest_bits]++] = key << s.place_bits | s.place[s.token[i]];
    }
}

/* The number of bits for buckets, more than usual if many slices need them; 0: it does not fit. */
static int choose_bits(struct sweep *s, int64_t slices)
{
    uint64_t least = UINT64_MAX, most = 0;
    int bits, buckets;

    for (int64_t i = 0; i < s->sample->n; i++) {
        uint64_t key = ctr_sample_key(s->sample, i);
        least = CTR_MIN(least, key);
        most = CTR_MAX(most, key);
    }
    s->least = least;
    bits = 64 - __builtin_clzll((most - least) | 1);
    s->place_bits = 64 - __builtin_clzll((uint64_t)slices | 1);
    buckets = CTR_MAX(BUCKET_BITS, bits + s->place_bits - 64);
    s->rest_bits = CTR_MAX(0, bits - buckets);
    return buckets <= MOST_BUCKET_BITS ? buckets : 0;
}

/* Allocate the buckets and compute their starts. */
static int make_buckets(struct sweep *s, int64_t buckets, struct ctr_err *err)
{
    int64_t *end, sum = 0, longest = 0;
    int rc = ctr_buf_reserve(&s->end, (size_t)buckets * sizeof *end, err);

    if (rc)
        return rc;
    end = (int64_t *)s->end.data;
    memset(end, 0, (size_t)buckets * sizeof *end);
    s->sample->wide ? count_entries(s, true, end) : count_entries(s, false, end);
    for (int64_t k = 0; k < buckets; k++) {
        int64_t n = end[k];
        end[k] = sum;
        sum += n;
        longest = CTR_MAX(longest, n);
    }
    if ((rc = ctr_buf_reserve(&s->packed, (size_t)s->n * sizeof(uint64_t), err)))
        return rc;
    return ctr_buf_reserve(&s->tmp, (size_t)longest * sizeof(uint64_t), err);
}

static void count_buckets(const struct sweep *sweep, int64_t buckets, struct ctr_wins *total)
{
    enum { AHEAD = CTR_PAD / sizeof(uint64_t) }; /* prefetches within a buffer's padding are useless but harmless */
    const struct sweep s = *sweep;
    const uint64_t rest = ((uint64_t)1 << s.rest_bits) - 1, places = ((uint64_t)1 << s.place_bits) - 1;
    const int64_t *end = (const int64_t *)(const void *)s.end.data;
    struct ctr_wins all = *total;

    for (int64_t k = 0, from = 0; k < buckets; from = end[k++]) {
        uint64_t base = s.least + ((uint64_t)k << s.rest_bits);
        int64_t n = end[k] - from;
        const uint64_t *p = ctr_key_sort((uint64_t *)s.packed.data + from, (uint64_t *)s.tmp.data, n);
        for (int64_t i = 0; i < n; i++) {
            uint64_t key = base + (p[i] >> s.place_bits & rest);
            __builtin_prefetch(&s.wins[p[i + AHEAD - 1] & places], 1);
            ctr_wins_add(&all, key);
            ctr_wins_add(&s.wins[p[i] & places], key);
        }
    }
    *total = all;
}

int ctr_slice_aucs(struct ctr_eval *e, const struct ctr_slice_rows *rows, const uint32_t *place, int side,
                   double *total, bool *done, struct ctr_err *err)
{
    struct sweep s = { .sample = &e->slice[0]->parts->sample[side],
                       .entry = rows->entry.len ? (const uint32_t *)(const void *)rows->entry.data : NULL,
                       .token = (const uint32_t *)(const void *)rows->token.data,
                       .place = place,
                       .n = (int64_t)(rows->token.len / sizeof *place) };
    int bits = choose_bits(&s, e->n), rc;
    struct ctr_wins all = CTR_NO_WINS;

    *done = bits > 0;
    if (!bits)
        return 0;
    s.wins = malloc((size_t)e->n * sizeof *s.wins);
    if (!s.wins)
        return ctr_fail_nomem(err, (size_t)e->n * sizeof *s.wins);
    for (int64_t i = 0; i < e->n; i++)
        s.wins[i] = all;
    if (!(rc = make_buckets(&s, (int64_t)1 << bits, err))) {
        int64_t *at = (int64_t *)s.end.data;
        uint64_t *packed = (uint64_t *)s.packed.data;
        s.sample->wide ? pack_entries(&s, true, at, packed) : pack_entries(&s, false, at, packed);
        count_buckets(&s, (int64_t)1 << bits, &all);
    }
    for (int64_t i = 0; !rc && i < e->n; i++)
        if (s.wins[i].tie != UINT64_MAX) /* it has rows in this list */
            e->slice[i]->pub.sums[side].auc = ctr_wins_auc(&s.wins[i]);
    if (!rc && total)
        *total = ctr_wins_auc(&all);
    ctr_buf_free(&s.end);
    ctr_buf_free(&s.packed);
    ctr_buf_free(&s.tmp);
    free(s.wins);
    return rc;
}
