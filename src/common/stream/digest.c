/* SPDX-License-Identifier: Apache-2.0
 *
 * digest: a hash of the content of a stream. Each column feeds its own running hashes (values, lengths, row numbers of
 * nulls), so that other batch boundaries feed the same bytes. Slots of nulls feed zeros. */
#include "common/stream/stream.h"

#include <stdio.h>
#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

struct column_digest {
    XXH3_state_t *values, *lengths, *nulls;
    int64_t rows;
    struct column_digest *item;
};

struct ctr_digest {
    struct column_digest *col;
    struct ctr_colbuf *plain; /* decoded dictionaries */
    int n;
    int64_t rows;
    XXH3_state_t *schema;
};

static XXH3_state_t *state_new(void)
{
    XXH3_state_t *s = XXH3_createState();

    if (s)
        XXH3_128bits_reset(s);
    return s;
}

static int column_new(struct column_digest *d, bool list, struct ctr_err *err)
{
    d->values = state_new();
    d->lengths = state_new();
    d->nulls = state_new();
    if (!d->values || !d->lengths || !d->nulls)
        return ctr_fail_nomem(err, sizeof(XXH3_state_t));
    if (!list)
        return 0;
    d->item = calloc(1, sizeof *d->item);
    return d->item ? column_new(d->item, false, err) : ctr_fail_nomem(err, sizeof *d->item);
}

static void column_free(struct column_digest *d)
{
    XXH3_freeState(d->values);
    XXH3_freeState(d->lengths);
    XXH3_freeState(d->nulls);
    if (d->item)
        column_free(d->item);
    free(d->item);
}

static void feed_text(XXH3_state_t *s, const char *text)
{
    XXH3_128bits_update(s, text, strlen(text) + 1);
}

static void feed_field(XXH3_state_t *s, const struct ctr_field *f)
{
    static const char *const keys[] = { CTR_META_ROLE, CTR_META_TABLE, CTR_META_HISTORY_OF, CTR_META_SIDE };
    char type[64];

    feed_text(s, f->name);
    feed_text(s, ctr_field_type_name(f, type, sizeof type));
    for (size_t i = 0; i < CTR_COUNT(keys); i++) {
        const char *v = ctr_meta_get(&f->meta, keys[i]);
        feed_text(s, v ? v : "");
    }
    const char *history = ctr_meta_get(&f->meta, CTR_META_HISTORY), *order = ctr_meta_get(&f->meta, CTR_META_ORDER);
    if (history) { /* a byte that cannot occur in the next column's name */
        feed_text(s, "\xff");
        feed_text(s, history);
    }
    if (order && strcmp(order, "newest") != 0) { /* newest is that of columns without it */
        feed_text(s, "\xfe");
        feed_text(s, order);
    }
}

int ctr_digest_new(struct ctr_digest **out, const struct ctr_schema *s, struct ctr_err *err)
{
    struct ctr_digest *d = calloc(1, sizeof *d);
    const char *section = ctr_meta_get(&s->meta, CTR_META_SECTION);
    int rc = 0;

    if (d) {
        d->n = s->n;
        d->col = calloc((size_t)s->n + 1, sizeof *d->col);
        d->plain = calloc((size_t)s->n + 1, sizeof *d->plain);
        d->schema = state_new();
    }
    if (!d || !d->col || !d->plain || !d->schema) {
        ctr_digest_free(d);
        return ctr_fail_nomem(err, sizeof *d);
    }
    feed_text(d->schema, section ? section : "");
    for (int i = 0; !rc && i < s->n; i++) {
        struct ctr_field f = s->f[i];
        f.dict = false;
        feed_field(d->schema, &f);
        rc = column_new(&d->col[i], ctr_type_list(f.type), err);
        if (!rc)
            rc = ctr_colbuf_init(&d->plain[i], &f, err);
    }
    if (rc) {
        ctr_digest_free(d);
        return rc;
    }
    *out = d;
    return 0;
}

void ctr_digest_free(struct ctr_digest *d)
{
    if (!d)
        return;
    for (int i = 0; i < d->n; i++) {
        if (d->col)
            column_free(&d->col[i]);
        if (d->plain)
            ctr_colbuf_free(&d->plain[i]);
    }
    XXH3_freeState(d->schema);
    free(d->col);
    free(d->plain);
    free(d);
}

static void column_feed(struct column_digest *d, const struct ctr_col *c, int64_t from, int64_t n);

/* The value bytes of row i, or of n rows from i on if they are contiguous. */
static void feed_values(struct column_digest *d, const struct ctr_col *c, int64_t i, int64_t n)
{
    int width = ctr_types[c->type].width;

    if (c->type == CTR_UTF8 || c->type == CTR_LIST) {
        for (int64_t k = i; k < i + n; k++) {
            int32_t length = c->offsets[k + 1] - c->offsets[k];
            XXH3_128bits_update(d->lengths, &length, sizeof length);
        }
        if (c->type == CTR_LIST)
            column_feed(d->item, c->item, c->offsets[i], c->offsets[i + n] - c->offsets[i]);
        else
            XXH3_128bits_update(d->values, (const char *)c->data + c->offsets[i],
                                (size_t)(c->offsets[i + n] - c->offsets[i]));
    } else if (c->type == CTR_FIXED) {
        int64_t from = 0, to = 0;
        ctr_col_items(c, ctr_col_width(c), i, &from, &to);
        column_feed(d->item, c->item, from, n * (to - from));
    } else if (c->type == CTR_BOOL) {
        for (int64_t k = i; k < i + n; k++) {
            uint8_t bit = ctr_bit(c->data, k);
            XXH3_128bits_update(d->values, &bit, 1);
        }
    } else {
        XXH3_128bits_update(d->values, (const char *)c->data + (size_t)i * (size_t)width, (size_t)n * (size_t)width);
        if (c->type == CTR_WKEY)
            XXH3_128bits_update(d->lengths, c->weight + i, (size_t)n * sizeof(float));
    }
}

/* A null feeds its row number, and no value. */
static void column_feed(struct column_digest *d, const struct ctr_col *c, int64_t from, int64_t n)
{
    int64_t start = from;

    for (int64_t i = from; c->valid && i < from + n; i++) {
        int64_t row = d->rows + (i - from);
        if (ctr_bit(c->valid, i))
            continue;
        XXH3_128bits_update(d->nulls, &row, sizeof row);
        if (i > start)
            feed_values(d, c, start, i - start);
        start = i + 1;
    }
    if (from + n > start)
        feed_values(d, c, start, from + n - start);
    d->rows += n;
}

int ctr_digest_batch(struct ctr_digest *d, const struct ctr_batch *b, struct ctr_err *err)
{
    for (int i = 0; i < d->n; i++) {
        const struct ctr_col *c = &b->col[i];
        if (c->dict) {
            int rc;
            ctr_colbuf_clear(&d->plain[i]);
            if ((rc = ctr_colbuf_range(&d->plain[i], c, 0, b->rows, err)))
                return rc;
            c = ctr_colbuf_view(&d->plain[i]);
        }
        column_feed(&d->col[i], c, 0, b->rows);
    }
    d->rows += b->rows;
    return 0;
}

static void fold(XXH3_state_t *to, const struct column_digest *d)
{
    const XXH3_state_t *parts[] = { d->values, d->lengths, d->nulls };

    XXH3_128bits_update(to, &d->rows, sizeof d->rows);
    for (size_t i = 0; i < CTR_COUNT(parts); i++) {
        XXH128_canonical_t h;
        XXH128_canonicalFromHash(&h, XXH3_128bits_digest(parts[i]));
        XXH3_128bits_update(to, &h, sizeof h);
    }
    if (d->item)
        fold(to, d->item);
}

void ctr_digest_hex(struct ctr_digest *d, char out[33])
{
    XXH3_state_t all;

    XXH3_copyState(&all, d->schema);
    XXH3_128bits_update(&all, &d->rows, sizeof d->rows);
    for (int i = 0; i < d->n; i++)
        fold(&all, &d->col[i]);
    XXH128_hash_t h = XXH3_128bits_digest(&all);
    snprintf(out, 33, "%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
}
