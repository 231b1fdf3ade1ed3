/* SPDX-License-Identifier: Apache-2.0
 *
 * parquet_arrow: the schema in Arrow's terms that writers based on Arrow keep in a file, in base64. It tells durations,
 * which Parquet has no type for, from other int64. Invariant: one that is damaged says nothing. */
#include "common/parquet/parquet_impl.h"

/* The bytes of a text in base64; empty if it is none. */
static int decode(struct ctr_str text, struct ctr_buf *out, struct ctr_err *err)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0;
    out->len = 0;
    int rc = ctr_buf_reserve(out, text.n, err);
    for (size_t i = 0; !rc && i < text.n && text.p[i] != '='; i++) {
        const char *digit = memchr(digits, text.p[i], sizeof digits - 1);
        if (!digit) {
            out->len = 0;
            break;
        }
        bits = bits << 6 | (uint32_t)(digit - digits);
        if (i % 4)
            out->data[out->len++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
    }
    return rc;
}

static void set_duration(void *ctx, const char *name, int unit)
{
    static const enum pq_kind kinds[] = { PQ_K_S, PQ_K_SAME, PQ_K_US, PQ_K_NS };
    struct pq_leaves *all = ctx;
    const int k = ctr_pq_leaf(all, name, -1);
    struct pq_leaf *l = k < 0 ? NULL : &all->leaf[k];
    if (!l || l->type != PQ_INT64 || l->kind != PQ_K_SAME)
        return;
    l->kind = kinds[unit];
    l->duration = true;
}

int ctr_pq_durations(const struct pq_footer *f, struct pq_leaves *leaves, struct ctr_err *err)
{
    struct ctr_buf schema = { 0 };
    int rc = 0;
    for (int i = 0; !rc && i < f->pairs; i++) {
        const struct pq_pair *p = &f->pair[i];
        if (p->key.n != 12 || memcmp(p->key.p, "ARROW:schema", 12) || !p->value.p)
            continue;
        rc = decode(p->value, &schema, err);
        if (!rc)
            rc = ctr_arrow_durations(schema.data, schema.len, set_duration, leaves, err);
    }
    ctr_buf_free(&schema);
    return rc;
}
