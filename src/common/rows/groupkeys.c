/* SPDX-License-Identifier: Apache-2.0
 *
 * groupkeys: numbers for combinations of key values. Rows are looked up a tile at a time, so that the cache misses of a
 * tile overlap: prefetch slots; take the number that the hash finds, or a new one; append the keys of new numbers;
 * compare every row with the keys of its number, column by column. Rows that differ have the hash of other keys by
 * chance: they are looked up again, value by value. */
#include "common/rows/groupkeys.h"

enum { TILE = CTR_BATCH_ROWS / 16 };

int ctr_groupkeys_init(struct ctr_groupkeys *k, const struct ctr_schema *schema, struct ctr_err *err)
{
    *k = (struct ctr_groupkeys){ 0 };
    return ctr_batchbuf_init(&k->key, schema, err);
}

void ctr_groupkeys_free(struct ctr_groupkeys *k)
{
    ctr_batchbuf_free(&k->key);
    ctr_index_free(&k->index);
    *k = (struct ctr_groupkeys){ 0 };
}

void ctr_groupkeys_clear(struct ctr_groupkeys *k)
{
    ctr_batchbuf_clear(&k->key);
    ctr_index_clear(&k->index);
    k->n = 0;
}

int64_t ctr_groupkeys_bytes(const struct ctr_groupkeys *k)
{
    int64_t bytes = k->index.cap * (int64_t)sizeof *k->index.slot;
    for (int i = 0; i < k->key.schema->n; i++)
        bytes += (int64_t)(k->key.col[i].data.cap + k->key.col[i].offsets.cap + k->key.col[i].valid.cap);
    return bytes;
}

static bool same_keys(const struct ctr_groupkeys *k, const struct ctr_col *c, int64_t i, int64_t number)
{
    for (int j = 0; j < k->key.schema->n; j++)
        if (ctr_col_compare(&c[j], i, &k->key.views[j], number))
            return false;
    return true;
}

#define COMPARE(T)                                                                                                     \
    do {                                                                                                               \
        const T *v = c->data, *w = key->data;                                                                          \
        for (int64_t i = 0; i < n; i++)                                                                                \
            same[i] &= number[i] < 0 || v[row[i]] == w[number[i]];                                                     \
    } while (0)

/* same[i] &= row row[i] of the column has the value of number[i], if that is a number. */
static void compare(const struct ctr_col *c, const struct ctr_col *key, const int32_t *row, const int64_t *number,
                    int64_t n, uint8_t *same)
{
    const bool plain = !c->dict && !c->valid && !key->valid && c->type != CTR_BOOL && !ctr_types[c->type].floating;
    switch (plain ? ctr_types[c->type].width : 0) {
    case 1: COMPARE(uint8_t); break;
    case 2: COMPARE(uint16_t); break;
    case 4: COMPARE(uint32_t); break;
    case 8: COMPARE(uint64_t); break;
    default:
        for (int64_t i = 0; i < n; i++)
            same[i] &= number[i] < 0 || !ctr_col_compare(c, row[i], key, number[i]);
    }
}

static int append(struct ctr_groupkeys *k, const struct ctr_batch *b, const int64_t *row, int64_t n,
                  struct ctr_err *err)
{
    const struct ctr_batch keys = { .schema = k->key.schema, .rows = b->rows, .col = b->col };
    const int rc = n ? ctr_batchbuf_gather(&k->key, &keys, row, n, err) : 0;
    (void)ctr_batchbuf_view(&k->key);
    return rc;
}

/* The number of a row whose hash finds other keys first. */
static int find_exactly(struct ctr_groupkeys *k, const struct ctr_batch *b, uint64_t hash, int64_t row, bool add,
                        int64_t *number, struct ctr_err *err)
{
    const struct ctr_index_slot *s = ctr_index_find(&k->index, hash);
    while (s && !same_keys(k, b->col, row, s->number))
        s = ctr_index_next(&k->index, s);
    *number = s ? (int64_t)s->number : add ? k->n : -1;
    if (s || !add)
        return 0;
    const int rc = ctr_index_add(&k->index, hash, (uint32_t)k->n++, err);
    return rc ? rc : append(k, b, &row, 1, err);
}

static int find_tile(struct ctr_groupkeys *k, const struct ctr_batch *b, const uint64_t *hash, const int32_t *row,
                     int64_t n, bool add, int64_t *number, struct ctr_err *err)
{
    int64_t fresh[TILE], made = 0;
    uint8_t same[TILE];
    int rc = 0;
    if (k->n + n >= CTR_INDEX_FREE)
        return ctr_fail(err, CTR_EDATA, "there are more than %u groups", CTR_INDEX_FREE - TILE);
    for (int64_t i = 0; k->index.cap && i < n; i++)
        __builtin_prefetch(ctr_index_home(&k->index, hash[row[i]]));
    for (int64_t i = 0; !rc && i < n; i++) {
        const struct ctr_index_slot *s = ctr_index_find(&k->index, hash[row[i]]);
        number[i] = s ? (int64_t)s->number : add ? k->n : -1;
        if (s || !add)
            continue;
        fresh[made++] = row[i];
        rc = ctr_index_add(&k->index, hash[row[i]], (uint32_t)k->n++, err);
    }
    if (!rc)
        rc = append(k, b, fresh, made, err);
    const struct ctr_col *first = &k->key.views[0];
    const int width = rc ? 0 : ctr_types[first->type].width;
    for (int64_t i = 0; width && i < n; i++)
        if (number[i] >= 0)
            __builtin_prefetch((const uint8_t *)first->data + number[i] * width);
    memset(same, 1, (size_t)n);
    for (int j = 0; !rc && j < k->key.schema->n; j++)
        compare(&b->col[j], &k->key.views[j], row, number, n, same);
    for (int64_t i = 0; !rc && i < n; i++)
        if (!same[i])
            rc = find_exactly(k, b, hash[row[i]], row[i], add, &number[i], err);
    return rc;
}

int ctr_groupkeys_find(struct ctr_groupkeys *k, const struct ctr_batch *b, const uint64_t *hash, const int32_t *row,
                       int64_t n, bool add, int64_t *number, struct ctr_err *err)
{
    int rc = 0;
    for (int64_t at = 0; !rc && at < n; at += TILE)
        rc = find_tile(k, b, hash, row + at, CTR_MIN(n - at, (int64_t)TILE), add, number + at, err);
    return rc;
}
