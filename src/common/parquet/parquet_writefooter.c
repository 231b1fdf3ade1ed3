/* SPDX-License-Identifier: Apache-2.0
 *
 * parquet_writefooter: what stands behind the row groups: for each chunk the bounds of its pages (column index) and
 * their places (offset index), then the footer: schema, row groups, key-value metadata, in Thrift's compact form. */
#include "common/parquet/parquet_write_impl.h"

/* ---- schema ---- */

static void put_integer(struct pq_put *t, enum ctr_type type)
{
    static const int converted[] = { [1] = 0, [2] = 1, [4] = 2, [8] = 3 };
    const int width = ctr_types[type].width;
    const bool is_signed = ctr_types[type].is_signed;
    if (is_signed && width >= 4)
        return;
    ctr_pq_put_i32(t, 6, (is_signed ? 15 : 11) + converted[width]);
    ctr_pq_put_struct(t, 10);
    ctr_pq_put_struct(t, 10);
    ctr_pq_put_i8(t, 1, 8 * width);
    ctr_pq_put_bool(t, 2, is_signed);
    ctr_pq_put_end(t);
    ctr_pq_put_end(t);
}

/* A logical type without members. */
static void put_logical(struct pq_put *t, int number)
{
    ctr_pq_put_struct(t, 10);
    ctr_pq_put_struct(t, number);
    ctr_pq_put_end(t);
    ctr_pq_put_end(t);
}

static void put_meaning(const struct ctr_parquet_writer *w, struct pq_put *t, enum ctr_type type)
{
    if (type == CTR_UTF8) {
        ctr_pq_put_i32(t, 6, 0);
        put_logical(t, 1);
    } else if (type == CTR_F16)
        put_logical(t, 15);
    else if (type == CTR_TIME) {
        ctr_pq_put_i32(t, 6, w->o.microseconds ? 10 : 9);
        ctr_pq_put_struct(t, 10);
        ctr_pq_put_struct(t, 8);
        ctr_pq_put_bool(t, 1, true); /* UTC */
        ctr_pq_put_struct(t, 2);
        ctr_pq_put_struct(t, w->o.microseconds ? 2 : 1);
        ctr_pq_put_end(t);
        ctr_pq_put_end(t);
        ctr_pq_put_end(t);
        ctr_pq_put_end(t);
    } else if (ctr_types[type].integer && !(type == CTR_U64 && w->o.signed_keys))
        put_integer(t, type);
}

static void put_leaf_element(const struct ctr_parquet_writer *w, struct pq_put *t, const struct leaf *l,
                             const char *name)
{
    ctr_pq_put_element(t);
    ctr_pq_put_i32(t, 1, l->physical);
    if (l->physical == PQ_FIXED)
        ctr_pq_put_i32(t, 2, 2);
    ctr_pq_put_i32(t, 3, l->part >= KEY ? PQ_REQUIRED : PQ_OPTIONAL);
    ctr_pq_put_text(t, 4, name);
    put_meaning(w, t, l->type);
    ctr_pq_put_end(t);
}

static void put_group_element(struct pq_put *t, int repetition, const char *name, int children, bool list)
{
    ctr_pq_put_element(t);
    if (repetition >= 0)
        ctr_pq_put_i32(t, 3, repetition);
    ctr_pq_put_text(t, 4, name);
    ctr_pq_put_i32(t, 5, children);
    if (list) {
        ctr_pq_put_i32(t, 6, 3);
        put_logical(t, 3);
    }
    ctr_pq_put_end(t);
}

static void put_schema(const struct ctr_parquet_writer *w, struct pq_put *t)
{
    int64_t n = 1;
    for (int i = 0; i < w->leaves; i++)
        n += (const int[]){ [WHOLE] = 1, [ITEM] = 3, [KEY] = 4, [WEIGHT] = 1 }[w->leaf[i].part];
    ctr_pq_put_list(t, 2, PQ_STRUCT, n);
    put_group_element(t, -1, "schema", w->schema.n, false);
    for (int i = 0; i < w->leaves; i++) {
        const struct leaf *l = &w->leaf[i];
        const char *name = w->schema.f[l->column].name;
        if (l->part == ITEM || l->part == KEY) {
            put_group_element(t, PQ_OPTIONAL, name, 1, true);
            put_group_element(t, PQ_REPEATED, "list", 1, false);
        }
        if (l->part == KEY)
            put_group_element(t, PQ_REQUIRED, "element", 2, false);
        put_leaf_element(w, t, l, (const char *const[]){ name, "element", "key", "weight" }[l->part]);
    }
}

static void put_chunk(const struct ctr_parquet_writer *w, struct pq_put *t, const struct leaf *l, const struct chunk *c)
{
    const char *path[] = { w->schema.f[l->column].name, "list", "element", l->part == KEY ? "key" : "weight" };
    const int depth = l->part == WHOLE ? 1 : l->part == ITEM ? 3 : 4;
    const bool dict = c->encoding == E_DICT;
    ctr_pq_put_element(t);
    ctr_pq_put_i64(t, 2, c->start);
    ctr_pq_put_struct(t, 3);
    ctr_pq_put_i32(t, 1, l->physical);
    ctr_pq_put_list(t, 2, PQ_I32, dict ? 3 : 2);
    ctr_pq_put_number(t, E_RLE);
    ctr_pq_put_number(t, c->encoding);
    if (dict)
        ctr_pq_put_number(t, E_PLAIN);
    ctr_pq_put_list(t, 3, PQ_BINARY, depth);
    for (int i = 0; i < depth; i++)
        ctr_pq_put_bytes(t, path[i], strlen(path[i]));
    ctr_pq_put_i32(t, 4, w->codec);
    ctr_pq_put_i64(t, 5, c->values);
    ctr_pq_put_i64(t, 6, c->raw_bytes);
    ctr_pq_put_i64(t, 7, c->bytes);
    ctr_pq_put_i64(t, 9, c->start + c->dict_bytes);
    if (dict)
        ctr_pq_put_i64(t, 11, c->start);
    ctr_pq_put_struct(t, 12);
    t->depth--; /* its bytes end it */
    if (!t->rc)
        t->rc = ctr_buf_append(t->b, c->statistics.data, c->statistics.len, t->err);
    ctr_pq_put_list(t, 13, PQ_STRUCT, dict ? 2 : 1);
    for (int k = 0; k <= dict; k++) {
        ctr_pq_put_element(t);
        ctr_pq_put_i32(t, 1, k ? 2 : 0);
        ctr_pq_put_i32(t, 2, k ? E_PLAIN : c->encoding);
        ctr_pq_put_i32(t, 3, k ? 1 : c->pages);
        ctr_pq_put_end(t);
    }
    ctr_pq_put_end(t);
    ctr_pq_put_i64(t, 4, c->offsets_at);
    ctr_pq_put_i32(t, 5, c->offsets_bytes);
    if (c->index_bytes) {
        ctr_pq_put_i64(t, 6, c->index_at);
        ctr_pq_put_i32(t, 7, c->index_bytes);
    }
    ctr_pq_put_end(t);
}

static void put_group(const struct ctr_parquet_writer *w, struct pq_put *t, int number)
{
    const struct group *g = &w->group[number];
    int64_t raw = 0, bytes = 0;
    ctr_pq_put_element(t);
    ctr_pq_put_list(t, 1, PQ_STRUCT, w->leaves);
    for (int i = 0; i < w->leaves; i++) {
        put_chunk(w, t, &w->leaf[i], &g->chunk[i]);
        raw += g->chunk[i].raw_bytes;
        bytes += g->chunk[i].bytes;
    }
    ctr_pq_put_i64(t, 2, raw);
    ctr_pq_put_i64(t, 3, g->rows);
    ctr_pq_put_i64(t, 5, w->leaves ? g->chunk[0].start : 4);
    ctr_pq_put_i64(t, 6, bytes);
    if (number <= INT16_MAX)
        ctr_pq_put_i16(t, 7, number);
    ctr_pq_put_end(t);
}

static void put_pair(struct pq_put *t, const char *key, const char *of, const char *value)
{
    struct ctr_buf name = { 0 };
    if (!t->rc)
        t->rc = ctr_buf_printf(&name, t->err, of ? "%s %s" : "%s", key, of);
    ctr_pq_put_element(t);
    ctr_pq_put_binary(t, 1, name.data, name.len);
    ctr_pq_put_text(t, 2, value);
    ctr_pq_put_end(t);
    ctr_buf_free(&name);
}

/* What a schema of Parquet does not say: lists of one length, weighted keys. */
static bool is_shaped(const struct ctr_field *f)
{
    return ctr_type_list(f->type) && (f->type == CTR_FIXED) != (f->item == CTR_WKEY);
}

static void put_metadata(const struct ctr_parquet_writer *w, struct pq_put *t)
{
    const struct ctr_schema *s = &w->schema;
    int64_t n = s->meta.n;
    for (int i = 0; i < s->n; i++)
        n += s->f[i].meta.n + is_shaped(&s->f[i]);
    if (!n)
        return;
    ctr_pq_put_list(t, 5, PQ_STRUCT, n);
    for (int k = 0; k < s->meta.n; k++)
        put_pair(t, s->meta.kv[2 * k], NULL, s->meta.kv[2 * k + 1]);
    for (int i = 0; i < s->n; i++) {
        for (int k = 0; k < s->f[i].meta.n; k++)
            put_pair(t, s->f[i].meta.kv[2 * k], s->f[i].name, s->f[i].meta.kv[2 * k + 1]);
        char width[16];
        ctr_format(width, sizeof width, "%d", s->f[i].width);
        if (is_shaped(&s->f[i]))
            put_pair(t, s->f[i].item == CTR_WKEY ? PQ_META_PAIRS : PQ_META_WIDTH, s->f[i].name, width);
    }
}

/* Bounds and places of pages, before the footer, which says where they are. */
static int put_indexes(struct ctr_parquet_writer *w, bool offsets, struct ctr_err *err)
{
    struct ctr_buf b = { 0 };
    int rc = 0;
    for (int g = 0; !rc && g < w->groups; g++)
        for (int i = 0; !rc && i < w->leaves; i++) {
            struct chunk *c = &w->group[g].chunk[i];
            struct pq_put t = { .b = &b, .err = err };
            b.len = 0;
            if (!offsets) {
                c->index_at = ctr_out_tell(w->out);
                c->index_bytes = (int64_t)c->column_index.len;
                rc = ctr_out_write(w->out, c->column_index.data, c->column_index.len, err);
                continue;
            }
            ctr_pq_put_list(&t, 1, PQ_STRUCT, c->pages);
            for (int k = 0; k < c->pages; k++) {
                ctr_pq_put_element(&t);
                ctr_pq_put_i64(&t, 1, c->start + c->page[k].at);
                ctr_pq_put_i32(&t, 2, c->page[k].bytes);
                ctr_pq_put_i64(&t, 3, c->page[k].first_row);
                ctr_pq_put_end(&t);
            }
            ctr_pq_put_end(&t);
            c->offsets_at = ctr_out_tell(w->out);
            c->offsets_bytes = (int64_t)b.len;
            rc = t.rc ? t.rc : ctr_out_write(w->out, b.data, b.len, err);
        }
    ctr_buf_free(&b);
    return rc;
}

static int put_footer(const struct ctr_parquet_writer *w, struct ctr_buf *b, struct ctr_err *err)
{
    struct pq_put t = { .b = b, .err = err };
    ctr_pq_put_i32(&t, 1, 2);
    put_schema(w, &t);
    ctr_pq_put_i64(&t, 3, w->total);
    ctr_pq_put_list(&t, 4, PQ_STRUCT, w->groups);
    for (int i = 0; i < w->groups; i++)
        put_group(w, &t, i);
    put_metadata(w, &t);
    ctr_pq_put_text(&t, 6, "ctrkit");
    ctr_pq_put_list(&t, 7, PQ_STRUCT, w->leaves);
    for (int i = 0; i < w->leaves; i++) {
        ctr_pq_put_element(&t);
        ctr_pq_put_struct(&t, 1); /* the order of the type */
        ctr_pq_put_end(&t);
        ctr_pq_put_end(&t);
    }
    ctr_pq_put_end(&t);
    return t.rc;
}

int ctr_parquet_write_end(struct ctr_parquet_writer *w, struct ctr_err *err)
{
    struct ctr_buf b = { 0 };
    int rc = put_indexes(w, false, err);
    if (!rc)
        rc = put_indexes(w, true, err);
    if (!rc)
        rc = put_footer(w, &b, err);
    const uint32_t n = (uint32_t)b.len;
    if (!rc && b.len > INT32_MAX)
        rc = ctr_fail(err, CTR_EDATA, "the footer takes more than 2 GiB: write fewer columns");
    if (!rc)
        rc = ctr_buf_append(&b, &n, sizeof n, err);
    if (!rc)
        rc = ctr_buf_append(&b, "PAR1", 4, err);
    if (!rc)
        rc = ctr_out_write(w->out, b.data, b.len, err);
    ctr_buf_free(&b);
    return rc;
}
