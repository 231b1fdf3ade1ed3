/* SPDX-License-Identifier: Apache-2.0
 *
 * arrow-parse: parses any Arrow metadata safely: every offset is checked against the buffer, nesting and the number of
 * fields are limited, and the seal, if there is one, is checked before anything else is used.
 */
#include "common/stream/arrow.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- key-value metadata ---- */

static int read_meta(struct ctr_meta *m, const struct ctr_fb_view *t, int field, struct ctr_err *err)
{
    struct ctr_fb_vec v = ctr_fb_list(t, field, 4);
    struct ctr_strs text = { 0 };
    int rc = 0;
    if (v.count > ARROW_MAX_PAIRS) /* each is compared with the previous ones */
        return ctr_fail(err, CTR_EKIND, "%zu entries of key-value metadata, at most %d are read", v.count,
                        ARROW_MAX_PAIRS);
    for (size_t i = 0; rc >= 0 && i < v.count && !t->r->bad; i++) {
        struct ctr_fb_view kv = ctr_fb_at(t->r, &v, i);
        size_t kn, vn;
        const char *k = ctr_fb_str(&kv, 0, &kn), *x = ctr_fb_str(&kv, 1, &vn);
        /* Other programs store binary metadata (pyarrow's own schema, pandas): values that are not text, or too long,
         * are dropped. */
        if (!k || memchr(k, 0, kn) || (x && memchr(x, 0, vn)))
            continue;
        if (!ctr_utf8_valid((const uint8_t *)k, kn) || (x && !ctr_utf8_valid((const uint8_t *)x, vn)))
            continue;
        rc = ctr_strs_add(&text, k, kn, err);
        if (rc >= 0)
            rc = ctr_strs_add(&text, x ? x : "", vn, err);
        if (rc >= 0)
            rc = ctr_meta_set(m, text.s[text.n - 2], text.s[text.n - 1], err);
    }
    ctr_strs_free(&text);
    return rc;
}

/* A message has no names, only nodes (rows and nulls) and buffers in the order of a walk through the schema, which
 * `number` gives to each field. For user: int64, tags: list<utf8> and city: utf8 with a dictionary:
 *
 *     field       node   buffers
 *     user        0      0 1       validity, values
 *     tags        1      2 3       validity, offsets
 *       its item  2      4 5 6     validity, offsets, bytes
 *     city        3      7 8       validity, indices
 *
 * The texts of city are in its dictionary's messages, as node 0 and buffers 0 1 2. read_fields reads the tree that is
 * walked, with its limits of depth and of fields. */

/* ---- schema ---- */

static void field_free(struct arrow_field *f)
{
    for (int i = 0; i < f->nchild; i++)
        field_free(&f->child[i]);
    free(f->child);
    free(f->name);
    ctr_meta_free(&f->meta);
}

void ctr_arrow_free(struct arrow_schema *s)
{
    for (int i = 0; i < s->n; i++)
        field_free(&s->f[i]);
    free(s->f);
    ctr_meta_free(&s->meta);
    *s = (struct arrow_schema){ 0 };
}

static const char *const kind_names[ARROW_NKINDS] = {
    [ARROW_INTERVAL] = "interval",
    [ARROW_UNION] = "union",
    [ARROW_FIXED_BINARY] = "fixed_size_binary",
    [ARROW_MAP] = "map",
};
static const char *const kind_casts[ARROW_NKINDS] = {
    [ARROW_INTERVAL] = "int64",
    [ARROW_UNION] = "one type, or write a column for each of its types",
    [ARROW_FIXED_BINARY] = "utf8 (hexadecimal, for example)",
    [ARROW_MAP] = "two aligned lists, of keys and of values",
};

/* The name of a field in errors: that of its column, and its path within it. Long names are truncated. */
#define PATH_MAX_BYTES 256
static const char *path_of(const struct arrow_field *f, char *path)
{
    const struct arrow_field *up[ARROW_MAX_DEPTH + 1];
    int n = 0, at = 0;
    for (; f; f = f->up) /* read_fields limits the depth */
        up[n++] = f;
    path[0] = 0;
    while (n-- && at < PATH_MAX_BYTES)
        at += snprintf(path + at, (size_t)(PATH_MAX_BYTES - at), "%s%s", at ? "." : "", up[n]->name);
    return path;
}

bool ctr_arrow_list(const struct arrow_field *f)
{
    return f->kind == ARROW_LIST || f->kind == ARROW_LARGE_LIST || f->kind == ARROW_FIXED_LIST ||
           f->kind == ARROW_LIST_VIEW || f->kind == ARROW_LARGE_LIST_VIEW;
}

bool ctr_arrow_uuid(const struct arrow_field *f)
{
    const char *name = ctr_meta_get(&f->meta, "ARROW:extension:name");
    return f->kind == ARROW_FIXED_BINARY && f->width == 16 && name && !strcmp(name, "arrow.uuid");
}

const char *ctr_arrow_foreign(const struct arrow_field *f)
{
    if (ctr_arrow_uuid(f))
        return NULL;
    const bool odd = f->kind == ARROW_INT && f->bits != 8 && f->bits != 16 && f->bits != 32 && f->bits != 64;
    return odd ? "integer" : kind_names[f->kind];
}

int ctr_arrow_refuse(const struct arrow_field *f, struct ctr_err *err)
{
    char path[PATH_MAX_BYTES];
    if (f->kind == ARROW_INT)
        return ctr_fail(err, CTR_EKIND,
                        "column '%s' is an integer of %d bits, which is not supported: cast it to int64 or float64",
                        path_of(f, path), f->bits);
    return ctr_fail(err, CTR_EKIND, "column '%s' is of type %s, which is not supported: cast it to %s",
                    path_of(f, path), kind_names[f->kind], kind_casts[f->kind]);
}

static int read_type(struct arrow_field *f, const struct ctr_fb_view *t, struct ctr_err *err)
{
    char path[PATH_MAX_BYTES];
    int kind = (uint8_t)ctr_fb_int(t, 2, 1, 0);
    struct ctr_fb_view ty = ctr_fb_sub(t, 3);
    if (kind < ARROW_NULL || kind >= ARROW_NKINDS)
        return ctr_fail(err, CTR_EKIND, "column '%s' has a type of an unknown kind (%d)", path_of(f, path), kind);
    f->kind = (enum arrow_kind)kind;
    switch (kind) {
    case ARROW_INT:
        f->bits = (int)ctr_fb_int(&ty, 0, 4, 0);
        f->is_signed = ctr_fb_int(&ty, 1, 1, 0) != 0;
        break;
    case ARROW_FLOAT: {
        int64_t p = ctr_fb_int(&ty, 0, 2, 0);
        if (p < 0 || p > 2)
            return ctr_fail(err, CTR_EDATA, "column '%s' is a float of unknown precision", path_of(f, path));
        f->bits = 16 << p;
        break;
    }
    case ARROW_DATE:
    case ARROW_TIMESTAMP:
        f->unit = (int)ctr_fb_int(&ty, 0, 2, kind == ARROW_DATE);
        if (f->unit < 0 || f->unit > (kind == ARROW_DATE ? 1 : 3))
            return ctr_fail(err, CTR_EDATA, "column '%s' has an unknown unit of time", path_of(f, path));
        break;
    case ARROW_DECIMAL:
        f->scale = (int)ctr_fb_int(&ty, 1, 4, 0);
        f->bits = (int)ctr_fb_int(&ty, 2, 4, 128);
        if ((f->bits != 32 && f->bits != 64 && f->bits != 128 && f->bits != 256) || f->scale < -100 || f->scale > 100)
            return ctr_fail(err, CTR_EDATA, "column '%s' is a decimal of %d bits and scale %d", path_of(f, path),
                            f->bits, f->scale);
        break;
    case ARROW_TIME:
    case ARROW_DURATION:
        f->unit = (int)ctr_fb_int(&ty, 0, 2, 1);
        f->bits = kind == ARROW_TIME ? (int)ctr_fb_int(&ty, 1, 4, 32) : 64;
        if (f->unit < 0 || f->unit > 3 || (kind == ARROW_TIME && f->bits != (f->unit < 2 ? 32 : 64)))
            return ctr_fail(err, CTR_EDATA, "column '%s' has an unknown unit of time", path_of(f, path));
        break;
    case ARROW_FIXED_BINARY: f->width = (int32_t)ctr_fb_int(&ty, 0, 4, 0); break;
    case ARROW_UNION: f->unit = (int)ctr_fb_int(&ty, 0, 2, 0); break;
    case ARROW_FIXED_LIST:
        f->width = (int32_t)ctr_fb_int(&ty, 0, 4, 0);
        if (f->width < 0)
            return ctr_fail(err, CTR_EDATA, "column '%s' has lists of %d items", path_of(f, path), f->width);
        break;
    default: break;
    }
    return 0;
}

static int read_encoding(struct arrow_field *f, const struct ctr_fb_view *t, struct ctr_err *err)
{
    char path[PATH_MAX_BYTES];
    struct ctr_fb_view d = ctr_fb_sub(t, 4), ty;
    if (!d.at)
        return 0;
    ty = ctr_fb_sub(&d, 1);
    f->dict = true;
    f->dict_id = ctr_fb_int(&d, 0, 8, 0);
    f->index_bits = (int)ctr_fb_int(&ty, 0, 4, 32);
    f->index_signed = ty.at ? ctr_fb_int(&ty, 1, 1, 0) != 0 : true;
    if (f->index_bits != 8 && f->index_bits != 16 && f->index_bits != 32 && f->index_bits != 64)
        return ctr_fail(err, CTR_EDATA, "column '%s' has dictionary indices of %d bits", path_of(f, path),
                        f->index_bits);
    return 0;
}

static int read_fields(struct arrow_field **out, int *n, const struct arrow_field *up, const struct ctr_fb_view *t,
                       int slot, int depth, int *left, struct ctr_err *err);

static int read_field(struct arrow_field *f, const struct ctr_fb_view *t, int depth, int *left, struct ctr_err *err)
{
    char path[PATH_MAX_BYTES];
    size_t n;
    const char *name = ctr_fb_str(t, 0, &n);
    if (name && (memchr(name, 0, n) || !ctr_utf8_valid((const uint8_t *)name, n)))
        return ctr_fail(err, CTR_EDATA, "the name of a column is not UTF-8");
    f->name = strndup(name ? name : "", n);
    if (!f->name)
        return ctr_fail_nomem(err, n);
    int rc = read_type(f, t, err);
    if (rc >= 0)
        rc = read_encoding(f, t, err);
    if (rc >= 0)
        rc = read_meta(&f->meta, t, 6, err);
    if (rc >= 0)
        rc = read_fields(&f->child, &f->nchild, f, t, 5, depth + 1, left, err);
    if (rc < 0)
        return rc;
    const bool list = ctr_arrow_list(f), runs = f->kind == ARROW_RUN_END;
    if ((list && f->nchild != 1) || (runs && f->nchild != 2) ||
        (!list && !runs && f->kind != ARROW_STRUCT && !ctr_arrow_foreign(f) && f->nchild))
        return ctr_fail(err, CTR_EDATA, "column '%s' has %d children", path_of(f, path), f->nchild);
    if (runs && (f->child[0].kind != ARROW_INT || f->child[0].bits < 16 || !f->child[0].is_signed || f->child[0].dict))
        return ctr_fail(err, CTR_EDATA, "column '%s' has run ends that are no int16, int32 or int64", path_of(f, path));
    return 0;
}

static int read_fields(struct arrow_field **out, int *n, const struct arrow_field *up, const struct ctr_fb_view *t,
                       int slot, int depth, int *left, struct ctr_err *err)
{
    struct ctr_fb_vec v = ctr_fb_list(t, slot, 4);
    if (!v.count)
        return 0;
    if (depth > ARROW_MAX_DEPTH)
        return ctr_fail(err, CTR_EKIND, "columns are nested deeper than %d", ARROW_MAX_DEPTH);
    if (v.count > (size_t)*left)
        return ctr_fail(err, CTR_EKIND, "more than %d columns", ARROW_MAX_FIELDS);
    *left -= (int)v.count;
    *out = calloc(v.count, sizeof **out);
    if (!*out)
        return ctr_fail_nomem(err, v.count * sizeof **out);
    *n = (int)v.count;
    for (int i = 0; i < *n; i++) {
        struct ctr_fb_view f = ctr_fb_at(t->r, &v, (size_t)i);
        if (t->r->bad)
            return ctr_fail(err, CTR_EDATA, "the schema is damaged");
        (*out)[i].up = up;
        int rc = read_field(&(*out)[i], &f, depth, left, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Assign the numbers of the nodes and buffers that a field owns; children of an encoded field are counted in its
 * dictionary. */
static void number(struct arrow_field *f, int *node, int *buffer, int *variadic)
{
    static const uint8_t buffers[ARROW_NKINDS] = {
        [ARROW_INT] = 2,        [ARROW_FLOAT] = 2,       [ARROW_BINARY] = 3,       [ARROW_UTF8] = 3,
        [ARROW_BOOL] = 2,       [ARROW_DATE] = 2,        [ARROW_TIMESTAMP] = 2,    [ARROW_LIST] = 2,
        [ARROW_STRUCT] = 1,     [ARROW_FIXED_LIST] = 1,  [ARROW_LARGE_BINARY] = 3, [ARROW_LARGE_UTF8] = 3,
        [ARROW_LARGE_LIST] = 2, [ARROW_BINARY_VIEW] = 2, [ARROW_UTF8_VIEW] = 2,    [ARROW_DECIMAL] = 2,
        [ARROW_TIME] = 2,       [ARROW_INTERVAL] = 2,    [ARROW_UNION] = 1,        [ARROW_FIXED_BINARY] = 2,
        [ARROW_MAP] = 2,        [ARROW_DURATION] = 2,    [ARROW_LIST_VIEW] = 3,    [ARROW_LARGE_LIST_VIEW] = 3,
    };
    bool view = f->kind == ARROW_BINARY_VIEW || f->kind == ARROW_UTF8_VIEW;
    int n0 = 1, b0 = buffers[f->kind] + (f->kind == ARROW_UNION && f->unit == 1), v0 = view;
    f->node = *node;
    f->buffer = *buffer;
    f->variadic = *variadic;
    if (f->dict) {
        *node += 1;
        *buffer += 2;
        for (int i = 0; i < f->nchild; i++)
            number(&f->child[i], &n0, &b0, &v0);
        return;
    }
    *node += n0;
    *buffer += b0;
    *variadic += v0;
    for (int i = 0; i < f->nchild; i++)
        number(&f->child[i], node, buffer, variadic);
}

int ctr_arrow_schema(struct arrow_schema *s, const struct ctr_fb_view *t, struct ctr_err *err)
{
    int left = ARROW_MAX_FIELDS;
    *s = (struct arrow_schema){ 0 };
    if (ctr_fb_int(t, 0, 2, 0) != 0)
        return ctr_fail(err, CTR_EKIND, "big-endian data is not supported: write it on or for a little-endian machine");
    int rc = read_fields(&s->f, &s->n, NULL, t, 1, 1, &left, err);
    if (rc >= 0)
        rc = read_meta(&s->meta, t, 2, err);
    if (rc >= 0 && t->r->bad)
        rc = ctr_fail(err, CTR_EDATA, "the schema is damaged");
    for (int i = 0; rc >= 0 && i < s->n; i++)
        number(&s->f[i], &s->nodes, &s->buffers, &s->variadics);
    if (rc < 0)
        ctr_arrow_free(s);
    return rc < 0 ? rc : 0;
}

/* ---- seal ---- */

static bool text_is(const char *p, size_t n, const char *s)
{
    return n == strlen(s) && !memcmp(p, s, n);
}

/* Is `digits` (in p) the XXH3-128 of the n bytes at p with the digits as '0'? */
static int check_seal(const uint8_t *p, size_t n, const char *digits, size_t ndigits, struct ctr_buf *scratch,
                      struct ctr_err *err)
{
    char hex[33];
    if (ndigits != 32)
        return ctr_fail(err, CTR_EDATA, "the metadata of a message is damaged");
    scratch->len = 0;
    int rc = ctr_buf_append(scratch, p, n, err);
    if (rc < 0)
        return rc;
    memset(scratch->data + ((const uint8_t *)digits - p), '0', 32);
    struct ctr_hash128 h = ctr_hash128(scratch->data, n);
    snprintf(hex, sizeof hex, "%016llx%016llx", (unsigned long long)h.hi, (unsigned long long)h.lo);
    if (memcmp(hex, digits, 32))
        return ctr_fail(err, CTR_EDATA, "the metadata of a message is damaged (its checksum differs)");
    return 0;
}

/* The custom metadata of a message. */
static int read_seal(struct arrow_message *m, const struct ctr_fb_view *t, const uint8_t *p, size_t n,
                     struct ctr_buf *scratch, struct ctr_err *err)
{
    struct ctr_fb_vec v = ctr_fb_list(t, 4, 4);
    struct {
        const char *key;
        int64_t *to;
    } numbers[] = {
        { CTR_SEAL_SEQ, &m->seq },
        { CTR_SEAL_ROWS, &m->trailer_rows },
        { CTR_SEAL_BATCHES, &m->trailer_batches },
    };
    size_t ndigits = 0;
    for (size_t i = 0; i < v.count && !m->fb.bad; i++) {
        struct ctr_fb_view kv = ctr_fb_at(&m->fb, &v, i);
        size_t kn, vn;
        const char *k = ctr_fb_str(&kv, 0, &kn), *x = ctr_fb_str(&kv, 1, &vn);
        if (!k || !x || kn < 4 || memcmp(k, "ctr.", 4))
            continue;
        m->any_ctr = true;
        for (size_t j = 0; j < CTR_COUNT(numbers); j++)
            if (text_is(k, kn, numbers[j].key) && (!ctr_parse_i64(x, vn, numbers[j].to) || *numbers[j].to < 0))
                return ctr_fail(err, CTR_EDATA, "the metadata of a message is damaged (%s)", numbers[j].key);
        if (text_is(k, kn, CTR_SEAL_SUMS)) {
            m->sums = x;
            m->sums_n = vn;
        } else if (text_is(k, kn, CTR_SEAL_AFTER)) {
            m->after = x;
            if (vn != sizeof(struct ctr_seal))
                return ctr_fail(err, CTR_EDATA, "the metadata of a message is damaged (" CTR_SEAL_AFTER ")");
        } else if (text_is(k, kn, CTR_SEAL_XXH3)) {
            m->seal = x;
            ndigits = vn;
        }
    }
    if (m->fb.bad || !m->seal)
        return 0;
    m->sealed = true;
    return check_seal(p, n, m->seal, ndigits, scratch, err);
}

/* ---- messages ---- */

static int read_batch(struct arrow_message *m, const struct ctr_fb_view *t, struct ctr_err *err)
{
    struct ctr_fb_vec nodes = ctr_fb_list(t, 1, 16), buffers = ctr_fb_list(t, 2, 16), variadic = ctr_fb_list(t, 4, 8);
    struct ctr_fb_view c = ctr_fb_sub(t, 3);
    m->rows = ctr_fb_int(t, 0, 8, 0);
    m->nodes = m->fb.p + nodes.at;
    m->nnodes = nodes.count;
    m->buffers = m->fb.p + buffers.at;
    m->nbuffers = buffers.count;
    m->variadic = m->fb.p + variadic.at;
    m->nvariadic = variadic.count;
    if (c.at) {
        int64_t codec = ctr_fb_int(&c, 0, 1, 0), method = ctr_fb_int(&c, 1, 1, 0);
        if (codec < 0 || codec > 1 || method != 0)
            return ctr_fail(err, CTR_EKIND, "a body is compressed in an unknown way");
        m->codec = codec ? CTR_ZSTD : CTR_LZ4;
    }
    if (m->fb.bad)
        return 0;
    if (m->rows < 0 || m->rows > INT32_MAX)
        return ctr_fail(err, CTR_EDATA, "a batch claims %lld rows", (long long)m->rows);
    if (m->sealed && m->sums_n != 16 * m->nbuffers)
        return ctr_fail(err, CTR_EDATA, "a batch has %zu buffers and sums for %zu", m->nbuffers, m->sums_n / 16);
    return 0;
}

int ctr_message_parse(struct arrow_message *m, const uint8_t *p, size_t n, struct ctr_buf *scratch, struct ctr_err *err)
{
    *m = (struct arrow_message){ .seq = -1, .trailer_rows = -1, .trailer_batches = -1, .dict_id = -1 };
    ctr_fbr_init(&m->fb, p + 8, n - 8);
    struct ctr_fb_view t = ctr_fb_root(&m->fb), batch;
    int64_t version = ctr_fb_int(&t, 0, 2, 0);
    m->type = (uint8_t)ctr_fb_int(&t, 1, 1, 0);
    m->header = ctr_fb_sub(&t, 2);
    m->body_length = ctr_fb_int(&t, 3, 8, 0);
    int rc = read_seal(m, &t, p, n, scratch, err);
    if (rc < 0)
        return rc;
    if (m->fb.bad || !m->header.at)
        return ctr_fail(err, CTR_EDATA, "the metadata of a message is damaged");
    if (version < 3 || version > ARROW_V5)
        return ctr_fail(err, CTR_EKIND, "Arrow metadata of version %lld is not supported", (long long)version + 1);
    if (m->body_length < 0)
        return ctr_fail(err, CTR_EDATA, "a message claims a body of %lld bytes", (long long)m->body_length);
    switch (m->type) {
    case ARROW_SCHEMA: break;
    case ARROW_BATCH: rc = read_batch(m, &m->header, err); break;
    case ARROW_DICTIONARY:
        m->dict_id = ctr_fb_int(&m->header, 0, 8, 0);
        m->delta = ctr_fb_int(&m->header, 2, 1, 0) != 0;
        batch = ctr_fb_sub(&m->header, 1);
        rc = read_batch(m, &batch, err);
        break;
    default: return ctr_fail(err, CTR_EKIND, "a message of an unknown kind (%d), a tensor perhaps", m->type);
    }
    if (rc >= 0 && m->fb.bad)
        rc = ctr_fail(err, CTR_EDATA, "the metadata of a message is damaged");
    return rc;
}

/* ---- durations ---- */

struct found {
    struct ctr_buf name;
    void (*each)(void *ctx, const char *name, int unit);
    void *ctx;
};

/* `f` and what it holds; named: its name is part of the column's. */
static int durations(struct found *to, const struct arrow_field *f, bool named, struct ctr_err *err)
{
    const size_t had = to->name.len;
    int rc = named ? ctr_buf_append(&to->name, ".", had != 0, err) : 0;
    if (!rc && named)
        rc = ctr_buf_append(&to->name, f->name, strlen(f->name), err);
    for (int i = 0; !rc && i < f->nchild; i++)
        rc = durations(to, &f->child[i], f->kind == ARROW_STRUCT, err);
    if (!rc && f->kind == ARROW_DURATION && !(rc = ctr_buf_append(&to->name, "", 1, err)))
        to->each(to->ctx, (const char *)to->name.data, f->unit);
    to->name.len = had;
    return rc;
}

int ctr_arrow_durations(const uint8_t *message, size_t n, void (*each)(void *ctx, const char *name, int unit),
                        void *ctx, struct ctr_err *err)
{
    struct found to = { .each = each, .ctx = ctx };
    struct arrow_message m;
    struct arrow_schema s = { 0 };
    struct ctr_buf scratch = { 0 };
    struct ctr_err none = { 0 };
    if (n < 16 || ctr_fb_load32(message) != -1)
        return 0;
    int rc = ctr_message_parse(&m, message, n, &scratch, &none);
    if (!rc && m.type == ARROW_SCHEMA)
        rc = ctr_arrow_schema(&s, &m.header, &none);
    if (rc)
        rc = rc == CTR_ENOMEM ? ctr_fail_nomem(err, n) : 0;
    for (int i = 0; !rc && i < s.n; i++)
        rc = durations(&to, &s.f[i], true, err);
    ctr_arrow_free(&s);
    ctr_buf_free(&scratch);
    ctr_buf_free(&to.name);
    return rc;
}

/* ---- footer ---- */

static int read_blocks(struct arrow_block **out, size_t *n, const struct ctr_fb_view *t, int field, struct ctr_err *err)
{
    struct ctr_fb_vec v = ctr_fb_list(t, field, 24);
    *out = calloc(v.count + 1, sizeof **out);
    if (!*out)
        return ctr_fail_nomem(err, v.count * sizeof **out);
    *n = v.count;
    for (size_t i = 0; i < v.count; i++) {
        const uint8_t *p = t->r->p + v.at + 24 * i;
        (*out)[i] = (struct arrow_block){ ctr_fb_load64(p), ctr_fb_load32(p + 8), ctr_fb_load64(p + 16) };
    }
    return 0;
}

void ctr_footer_free(struct arrow_footer *f)
{
    free(f->dicts);
    free(f->blocks);
    ctr_meta_free(&f->meta);
    *f = (struct arrow_footer){ 0 };
}

int ctr_footer_parse(struct arrow_footer *f, struct arrow_schema *s, const uint8_t *p, size_t n,
                     struct ctr_buf *scratch, struct ctr_err *err)
{
    struct ctr_fbr r;
    *f = (struct arrow_footer){ 0 };
    ctr_fbr_init(&r, p, n);
    struct ctr_fb_view t = ctr_fb_root(&r), st = ctr_fb_sub(&t, 1);
    struct ctr_fb_vec kv = ctr_fb_list(&t, 4, 4);
    for (size_t i = 0; i < kv.count && !r.bad; i++) {
        struct ctr_fb_view pair = ctr_fb_at(&r, &kv, i);
        size_t kn, vn;
        const char *k = ctr_fb_str(&pair, 0, &kn), *x = ctr_fb_str(&pair, 1, &vn);
        if (!k || !x || !text_is(k, kn, CTR_SEAL_XXH3))
            continue;
        int rc = check_seal(p, n, x, vn, scratch, err);
        if (rc < 0)
            return rc;
        f->sealed = true;
    }
    if (r.bad || !st.at)
        return ctr_fail(err, CTR_EDATA, "the footer is damaged");
    int rc = read_blocks(&f->dicts, &f->ndicts, &t, 2, err);
    if (rc >= 0)
        rc = read_blocks(&f->blocks, &f->nblocks, &t, 3, err);
    if (rc >= 0)
        rc = read_meta(&f->meta, &t, 4, err);
    if (rc >= 0 && r.bad)
        rc = ctr_fail(err, CTR_EDATA, "the footer is damaged");
    if (rc >= 0)
        rc = ctr_arrow_schema(s, &st, err);
    if (rc < 0)
        ctr_footer_free(f);
    return rc < 0 ? rc : 0;
}
