/* SPDX-License-Identifier: Apache-2.0
 *
 * arrow-meta: writes our metadata: schema, batch, dictionary and footer, each sealed by ctr.xxh3: the XXH3-128 of the
 * bytes with its own 32 digits as '0'. A message's bytes include the seal of the message before (ctr.after), so that
 * it belongs to one stream alone.
 */
#include "common/stream/arrow.h"

#include <stdio.h>

/* ---- key-value metadata ---- */

/* Begin a vector of `n` tables; returns the position of its references. */
static size_t table_array(struct ctr_fbw *w, size_t at, size_t n)
{
    return ctr_fb_array(w, at, n, 4);
}

/* Returns the position of the value's bytes. */
static size_t put_pair(struct ctr_fbw *w, size_t at, const char *key, const char *value, size_t n)
{
    struct ctr_fb_slot kv[] = { { CTR_FB_REF, 0, 0 }, { CTR_FB_REF, 0, 0 } };
    ctr_fb_child(w, at, kv, 2);
    ctr_fb_text(w, kv[0].at, key, strlen(key));
    return ctr_fb_text(w, kv[1].at, value, n);
}

static void put_meta(struct ctr_fbw *w, size_t at, const struct ctr_meta *m)
{
    size_t v = table_array(w, at, (size_t)m->n);
    for (int i = 0; i < m->n; i++)
        put_pair(w, v + 4 * (size_t)i, m->kv[2 * i], m->kv[2 * i + 1], strlen(m->kv[2 * i + 1]));
}

/* ---- schema ---- */

static const struct {
    uint8_t kind, bits, is_signed, precision;
} type_rows[CTR_NTYPES] = {
    [CTR_BOOL] = { ARROW_BOOL, 0, 0, 0 },   [CTR_I8] = { ARROW_INT, 8, 1, 0 },
    [CTR_I16] = { ARROW_INT, 16, 1, 0 },    [CTR_I32] = { ARROW_INT, 32, 1, 0 },
    [CTR_I64] = { ARROW_INT, 64, 1, 0 },    [CTR_U8] = { ARROW_INT, 8, 0, 0 },
    [CTR_U16] = { ARROW_INT, 16, 0, 0 },    [CTR_U32] = { ARROW_INT, 32, 0, 0 },
    [CTR_U64] = { ARROW_INT, 64, 0, 0 },    [CTR_F16] = { ARROW_FLOAT, 0, 0, 0 },
    [CTR_F32] = { ARROW_FLOAT, 0, 0, 1 },   [CTR_F64] = { ARROW_FLOAT, 0, 0, 2 },
    [CTR_UTF8] = { ARROW_UTF8, 0, 0, 0 },   [CTR_TIME] = { ARROW_TIMESTAMP, 0, 0, 0 },
    [CTR_LIST] = { ARROW_LIST, 0, 0, 0 },   [CTR_FIXED] = { ARROW_FIXED_LIST, 0, 0, 0 },
    [CTR_WKEY] = { ARROW_STRUCT, 0, 0, 0 },
};

static void put_type(struct ctr_fbw *w, size_t at, enum ctr_type type, int32_t width)
{
    struct ctr_fb_slot integer[] = { { 4, type_rows[type].bits, 0 }, { 1, type_rows[type].is_signed, 0 } };
    struct ctr_fb_slot floating[] = { { 2, type_rows[type].precision, 0 } };
    struct ctr_fb_slot timestamp[] = { { 2, 1, 0 }, { CTR_FB_REF, 0, 0 } };
    struct ctr_fb_slot fixed[] = { { 4, (uint32_t)width, 0 } };

    switch (type_rows[type].kind) {
    case ARROW_INT: ctr_fb_child(w, at, integer, 2); break;
    case ARROW_FLOAT: ctr_fb_child(w, at, floating, 1); break;
    case ARROW_FIXED_LIST: ctr_fb_child(w, at, fixed, 1); break;
    case ARROW_TIMESTAMP:
        ctr_fb_child(w, at, timestamp, 2);
        ctr_fb_text(w, timestamp[1].at, "UTC", 3);
        break;
    default: ctr_fb_child(w, at, NULL, 0);
    }
}

static void put_encoding(struct ctr_fbw *w, size_t at, int64_t id)
{
    struct ctr_fb_slot enc[] = { { 8, (uint64_t)id, 0 }, { CTR_FB_REF, 0, 0 } };
    ctr_fb_child(w, at, enc, 2);
    put_type(w, enc[1].at, CTR_I32, 0);
}

/* dict_id < 0: plain. */
static void put_field(struct ctr_fbw *w, size_t at, const char *name, const struct ctr_field *f, int64_t dict_id)
{
    bool list = ctr_type_list(f->type);
    int children = list ? 1 : f->type == CTR_WKEY ? 2 : 0;
    struct ctr_fb_slot s[] = {
        { CTR_FB_REF, 0, 0 },
        { 1, 1, 0 }, /* nullable */
        { 1, type_rows[f->type].kind, 0 },
        { CTR_FB_REF, 0, 0 },
        { dict_id < 0 ? 0 : CTR_FB_REF, 0, 0 },
        { CTR_FB_REF, 0, 0 },
        { f->meta.n ? CTR_FB_REF : 0, 0, 0 },
    };
    ctr_fb_child(w, at, s, (int)CTR_COUNT(s));
    ctr_fb_text(w, s[0].at, name, strlen(name));
    put_type(w, s[3].at, f->type, f->width);
    if (dict_id >= 0)
        put_encoding(w, s[4].at, dict_id);
    size_t kids = table_array(w, s[5].at, (size_t)children);
    if (list) {
        put_field(w, kids, "item", &(struct ctr_field){ .type = f->item }, -1);
    } else if (f->type == CTR_WKEY) {
        put_field(w, kids, "key", &(struct ctr_field){ .type = CTR_U64 }, -1);
        put_field(w, kids + 4, "weight", &(struct ctr_field){ .type = CTR_F32 }, -1);
    }
    if (f->meta.n)
        put_meta(w, s[6].at, &f->meta);
}

static void put_schema(struct ctr_fbw *w, size_t at, const struct ctr_schema *s)
{
    struct ctr_fb_slot t[] = {
        { 0, 0, 0 }, /* little-endian */
        { CTR_FB_REF, 0, 0 },
        { s->meta.n ? CTR_FB_REF : 0, 0, 0 },
    };
    ctr_fb_child(w, at, t, (int)CTR_COUNT(t));
    size_t v = table_array(w, t[1].at, (size_t)s->n);
    for (int i = 0; i < s->n; i++)
        put_field(w, v + 4 * (size_t)i, s->f[i].name, &s->f[i], s->f[i].dict ? i : -1);
    if (s->meta.n)
        put_meta(w, t[2].at, &s->meta);
}

/* ---- seal ---- */

static struct ctr_seal seal(struct ctr_fbw *w, size_t digits)
{
    char hex[33] = CTR_SEAL_NONE;
    struct ctr_seal s;
    if (w->rc >= 0) {
        struct ctr_hash128 h = ctr_hash128(w->b.data, w->b.len);
        snprintf(hex, sizeof hex, "%016llx%016llx", (unsigned long long)h.hi, (unsigned long long)h.lo);
        ctr_fb_put(w, digits, hex, 32);
    }
    memcpy(s.digits, hex, sizeof s.digits);
    return s;
}

/* Begin a message: 8 bytes for the prefix, the root, the Message table. The slots give the positions to continue at. */
static void message_begin(struct ctr_fbw *w, struct ctr_fb_slot s[5], int header, int64_t body_length,
                          struct ctr_err *err)
{
    w->b.len = 0;
    w->rc = 0;
    w->err = err;
    s[0] = (struct ctr_fb_slot){ 2, ARROW_V5, 0 };
    s[1] = (struct ctr_fb_slot){ 1, (uint64_t)header, 0 };
    s[2] = (struct ctr_fb_slot){ CTR_FB_REF, 0, 0 };
    s[3] = (struct ctr_fb_slot){ 8, (uint64_t)body_length, 0 };
    s[4] = (struct ctr_fb_slot){ CTR_FB_REF, 0, 0 };
    static const uint8_t head[12] = { 0xff, 0xff, 0xff, 0xff };
    w->rc = ctr_buf_append(&w->b, head, sizeof head, err);
    ctr_fb_child(w, 8, s, 5);
}

/* Pad, fill in the prefix, seal. */
static int message_end(struct ctr_fbw *w, int64_t offset, size_t digits, struct arrow_link *link)
{
    while (w->rc == 0 && (offset + (int64_t)w->b.len) % ARROW_ALIGN)
        ctr_fb_align(w, w->b.len % 8 ? 8 : w->b.len + 8);
    int32_t size = (int32_t)(w->b.len - 8);
    if (w->rc == 0 && w->b.len - 8 > ARROW_MAX_METADATA)
        return ctr_fail(w->err, CTR_EDATA, "the metadata of a message would exceed 16 MiB: too many columns");
    ctr_fb_put(w, 4, &size, 4);
    link->after = seal(w, digits);
    link->seq++;
    return w->rc;
}

/* The custom metadata of a message. Returns the position of the seal's digits. */
static size_t put_seal(struct ctr_fbw *w, size_t at, const struct arrow_link *link, const char *sums, size_t sums_n,
                       const struct ctr_meta *extra)
{
    char text[24];
    int n = snprintf(text, sizeof text, "%lld", (long long)link->seq), more = extra ? extra->n : 0;
    size_t v = table_array(w, at, (size_t)(3 + !!sums + more)), k = v;
    put_pair(w, k, CTR_SEAL_SEQ, text, (size_t)n);
    put_pair(w, k += 4, CTR_SEAL_AFTER, link->after.digits, sizeof link->after.digits);
    if (sums)
        put_pair(w, k += 4, CTR_SEAL_SUMS, sums, sums_n);
    for (int i = 0; i < more; i++)
        put_pair(w, k += 4, extra->kv[2 * i], extra->kv[2 * i + 1], strlen(extra->kv[2 * i + 1]));
    return put_pair(w, k + 4, CTR_SEAL_XXH3, CTR_SEAL_NONE, 32);
}

int ctr_meta_schema(struct ctr_fbw *w, const struct ctr_schema *s, struct arrow_link *link, int64_t offset,
                    struct ctr_err *err)
{
    struct ctr_fb_slot m[5];
    message_begin(w, m, ARROW_SCHEMA, 0, err);
    put_schema(w, m[2].at, s);
    return message_end(w, offset, put_seal(w, m[4].at, link, NULL, 0, NULL), link);
}

/* ---- batches ---- */

static void put_batch(struct ctr_fbw *w, size_t at, const struct arrow_body *b, int64_t rows, enum ctr_compression how)
{
    struct ctr_fb_slot t[] = {
        { 8, (uint64_t)rows, 0 },
        { CTR_FB_REF, 0, 0 },
        { CTR_FB_REF, 0, 0 },
        { how == CTR_PLAIN ? 0 : CTR_FB_REF, 0, 0 },
    };
    ctr_fb_child(w, at, t, (int)CTR_COUNT(t));
    size_t v = ctr_fb_array(w, t[1].at, (size_t)b->nnodes, 16);
    ctr_fb_put(w, v, b->nodes.data, b->nodes.len);
    v = ctr_fb_array(w, t[2].at, (size_t)b->nparts, 16);
    for (int i = 0; i < b->nparts; i++) {
        int64_t pair[2] = { ctr_body_parts(b)[i].offset, (int64_t)ctr_body_parts(b)[i].n };
        ctr_fb_put(w, v + 16 * (size_t)i, pair, 16);
    }
    if (how != CTR_PLAIN) {
        struct ctr_fb_slot c[] = { { 1, how == CTR_ZSTD, 0 }, { 1, 0, 0 } };
        ctr_fb_child(w, t[3].at, c, 2);
    }
}

static void sums_hex(const struct arrow_body *b, char *out)
{
    static const char digit[] = "0123456789abcdef";
    for (int i = 0; i < b->nparts; i++)
        for (int k = 60; k >= 0; k -= 4)
            *out++ = digit[ctr_body_parts(b)[i].sum >> k & 15];
}

int ctr_meta_batch(struct ctr_fbw *w, const struct arrow_body *b, int64_t rows, int64_t dict_id,
                   struct arrow_link *link, enum ctr_compression how, const struct ctr_meta *extra, struct ctr_err *err)
{
    struct ctr_fb_slot m[5];
    struct ctr_buf sums = { 0 };
    size_t n = 16 * (size_t)b->nparts;
    int rc = ctr_buf_reserve(&sums, n, err);
    if (rc < 0)
        return rc;
    sums_hex(b, (char *)sums.data);
    message_begin(w, m, dict_id < 0 ? ARROW_BATCH : ARROW_DICTIONARY, b->length, err);
    if (dict_id < 0) {
        put_batch(w, m[2].at, b, rows, how);
    } else {
        struct ctr_fb_slot d[] = { { 8, (uint64_t)dict_id, 0 }, { CTR_FB_REF, 0, 0 } };
        ctr_fb_child(w, m[2].at, d, 2);
        put_batch(w, d[1].at, b, rows, how);
    }
    rc = message_end(w, 0, put_seal(w, m[4].at, link, (char *)sums.data, n, extra), link);
    ctr_buf_free(&sums);
    return rc;
}

/* ---- footer of a file ---- */

static void put_blocks(struct ctr_fbw *w, size_t at, const struct arrow_block *b, size_t n)
{
    size_t v = ctr_fb_array(w, at, n, 24);
    for (size_t i = 0; i < n; i++)
        ctr_fb_put(w, v + 24 * i, &b[i], 24);
}

int ctr_meta_footer(struct ctr_fbw *w, const struct ctr_schema *s, const struct arrow_block *dicts, size_t ndicts,
                    const struct arrow_block *blocks, size_t nblocks, const struct ctr_meta *extra, struct ctr_err *err)
{
    static const uint8_t root[4];
    struct ctr_fb_slot t[] = {
        { 2, ARROW_V5, 0 }, { CTR_FB_REF, 0, 0 }, { CTR_FB_REF, 0, 0 }, { CTR_FB_REF, 0, 0 }, { CTR_FB_REF, 0, 0 },
    };
    w->b.len = 0;
    w->err = err;
    w->rc = ctr_buf_append(&w->b, root, sizeof root, err);
    ctr_fb_child(w, 0, t, (int)CTR_COUNT(t));
    put_schema(w, t[1].at, s);
    put_blocks(w, t[2].at, dicts, ndicts);
    put_blocks(w, t[3].at, blocks, nblocks);
    size_t v = table_array(w, t[4].at, (size_t)(1 + extra->n));
    for (int i = 0; i < extra->n; i++)
        put_pair(w, v + 4 * (size_t)i, extra->kv[2 * i], extra->kv[2 * i + 1], strlen(extra->kv[2 * i + 1]));
    size_t digits = put_pair(w, v + 4 * (size_t)extra->n, CTR_SEAL_XXH3, CTR_SEAL_NONE, 32);
    ctr_fb_align(w, 8);
    (void)seal(w, digits);
    return w->rc;
}
