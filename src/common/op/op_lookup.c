/* SPDX-License-Identifier: Apache-2.0
 *
 * op_lookup: lookup("file", key, "column"): a column of a keyed file, by key; what is made of vectors by key: their
 * pool (embedding), their cosines with another one (similarity). These process whole columns, because a get-many reads
 * each block once. Bind opens the file, because the type of the result comes from it. */
#include "common/op/oplayer.h"
#include "common/op/opint.h"
#include "common/stream/stream.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

enum pool { POOL_MEAN, POOL_SUM, POOL_MAX }; /* as in loop_lookup.h */
static const char *const pools[] = { [POOL_MEAN] = "mean", [POOL_SUM] = "sum", [POOL_MAX] = "max" };

struct lookup {
    struct ctr_keyed *file;
    int column;
    int scale;            /* embedding of int8: the column whose numbers theirs are multiplied by; -1: none */
    enum pool pool;       /* embedding */
    pthread_mutex_t lock; /* protects the file's cache, and the table */
    struct device {       /* as struct op_lookup of loop_lookup.h */
        const uint8_t *table;
        int64_t rows, key, key_bytes, value, value_bytes, ok, text, keys_unsigned, arg_unsigned, width, pool;
    } device;
    struct ctr_buf table; /* the column for a device, once it is asked for */
    uint64_t table_id;
};

/* The keyed file words.arrow has the rows (box, [3,4]) and (red, [1,2]). embedding("words.arrow", k, "v") of the rows
 * [red, box, hat] and []:
 *
 *     flatten     the keys of all rows, red box hat, and where each row's end: 3 3
 *     get_many    one look-up for them: [1,2] [3,4] null
 *     pool_rows   row 0 from the first two: [2,3]; row 1 has none: null
 *
 * For a device, make_table copies the whole file to one block of columns, and loop_lookup.h searches the keys there:
 *
 *     key 0 3 6 | key_bytes "boxred" | value 3 4 1 2, floats | value_bytes, as these are no texts, empty | ok 1 1 */

static void lookup_free(void *param)
{
    struct lookup *p = param;

    ctr_keyed_free(p->file);
    ctr_buf_free(&p->table);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

/* Resolve the path of the file with its links; fails unless it is in the folder or below; a missing file is another
 * error. */
static int confine(const struct ctr_op_call *call, struct ctr_buf *path, struct ctr_err *err)
{
    char *root = realpath(call->dir && *call->dir ? call->dir : ".", NULL);
    char *file = realpath((const char *)path->data, NULL);
    const size_t n = root ? strlen(root) : 0;
    int rc = 0;

    if (!root || (file && n > 1 && (strncmp(file, root, n) || file[n] != '/')))
        rc = ctr_fail(
            err, CTR_EUSAGE,
            "lookup: the plan came in a file that was made elsewhere, and '%s' lies outside that file's folder; "
            "--lookup-anywhere allows it",
            (const char *)path->data);
    else if (file) {
        ctr_buf_clear(path);
        rc = ctr_buf_append(path, file, strlen(file) + 1, err);
    }
    free(root);
    free(file);
    return rc;
}

static int open_file(struct ctr_op_call *call, struct lookup *p, struct ctr_err *err)
{
    struct ctr_str name = call->arg[0].literal->s;
    struct ctr_buf path = { 0 };
    int rc = 0;

    if (memchr(name.p, 0, name.n))
        return ctr_fail(err, CTR_EUSAGE, "lookup: the name of the file has a NUL in it");
    if (call->dir && *call->dir && (name.n == 0 || *name.p != '/'))
        rc = ctr_buf_printf(&path, err, "%s/", call->dir);
    if (!rc)
        rc = ctr_buf_append(&path, name.p, name.n, err);
    if (!rc)
        rc = ctr_buf_append(&path, "", 1, err);
    if (!rc && call->confined)
        rc = confine(call, &path, err);
    if (!rc)
        rc = ctr_keyed_open(&p->file, (const char *)path.data, err);
    ctr_buf_free(&path);
    return rc;
}

/* Can values of this type be keys of that column? Integers of any width match each other; other types must be equal. */
static bool key_fits(const struct ctr_vtype *t, const struct ctr_field *f)
{
    if (ctr_types[t->type].integer && !t->duration)
        return ctr_types[f->type].integer;
    return t->type == f->type && !t->duration && t->type != CTR_LIST && t->type != CTR_FIXED;
}

/* Open the file and check the types of the column and the keys. *out: the column. `what`: lookup or embedding, whose
 * keys have the type `key`. */
static int prepare_file(struct ctr_op_call *call, struct ctr_op_state *s, const struct ctr_vtype *key,
                        const struct ctr_field **out, struct ctr_err *err)
{
    const char *what = call->op->name;
    struct lookup *p = calloc(1, sizeof *p);
    struct ctr_str column = call->arg[s->nargs - 1].literal->s;
    char want[64], got[64], *name;
    int rc;

    if (!p)
        return ctr_fail_nomem(err, sizeof *p);
    p->scale = -1;
    pthread_mutex_init(&p->lock, NULL);
    s->param = p;
    s->param_free = lookup_free;
    if ((rc = open_file(call, p, err)))
        return rc;
    const struct ctr_schema *schema = ctr_keyed_schema(p->file);
    name = strndup(column.p, column.n);
    if (!name)
        return ctr_fail_nomem(err, column.n);
    p->column = rc = ctr_schema_need(schema, name, err);
    free(name);
    if (rc < 0)
        return rc;
    const struct ctr_field *f = &schema->f[ctr_keyed_column(p->file)];
    if (call->arg[1].literal)
        return ctr_fail(err, CTR_EUSAGE, "%s wants a column as its key", what);
    if (!key_fits(key, f))
        return ctr_fail(err, CTR_EUSAGE, "%s: the key of the file, %s, is %s, got %s", what, f->name,
                        ctr_field_type_name(f, want, sizeof want), ctr_vtype_name(key, got, sizeof got));
    *out = &schema->f[p->column];
    return 0;
}

/* Vectors of int8 are numbers only with their scales, a column of floats (ctr-embed-images). */
static bool has_scale(struct lookup *p, const struct ctr_field *f)
{
    const struct ctr_schema *schema = ctr_keyed_schema(p->file);
    const int scale = f->type == CTR_FIXED && f->item == CTR_I8 ? ctr_schema_find(schema, "scale") : -1;
    p->scale = scale >= 0 && ctr_types[schema->f[scale].type].floating ? scale : -1;
    return p->scale >= 0;
}

static int prepare_lookup(struct ctr_op_call *call, struct ctr_op_state *s, struct ctr_err *err)
{
    const struct ctr_field *f = NULL;
    int rc = prepare_file(call, s, &call->arg[1].type, &f, err);

    if (!rc)
        call->result = (struct ctr_vtype){ .type = f->type,
                                           .item = has_scale(s->param, f) ? CTR_F32 : f->item,
                                           .width = f->width };
    return rc;
}

static struct ctr_vtype item_of(const struct ctr_vtype *list)
{
    return (struct ctr_vtype){ .type = list->item, .key = list->key, .duration = list->duration };
}

static int no_vectors(const struct ctr_op_call *call, const struct ctr_field *f, struct ctr_err *err)
{
    char got[64];

    return ctr_fail(err, CTR_EUSAGE,
                    "%s: %s is %s, and must be vectors of one length: fixed_size_list<float32>[LENGTH], as "
                    "ctr-import --columns '%s:fixed_size_list<float32>[16],…' makes it",
                    call->op->name, f->name, ctr_field_type_name(f, got, sizeof got), f->name);
}

static bool is_vectors(const struct ctr_field *f)
{
    return f->type == CTR_FIXED && ctr_types[f->item].floating;
}

static int prepare_similarity(struct ctr_op_call *call, struct ctr_op_state *s, struct ctr_err *err)
{
    const struct ctr_vtype *list = &call->arg[2].type, item = item_of(list);
    const struct ctr_field *f = NULL;
    char want[64], got[64];
    int rc = prepare_file(call, s, &call->arg[1].type, &f, err);

    if (rc)
        return rc;
    struct ctr_keyed *file = ((struct lookup *)s->param)->file;
    const struct ctr_field *key = &ctr_keyed_schema(file)->f[ctr_keyed_column(file)];
    if (call->arg[2].literal)
        return ctr_fail(err, CTR_EUSAGE, "similarity wants a column as its list of keys");
    if (!key_fits(&item, key))
        return ctr_fail(err, CTR_EUSAGE, "similarity: the key of the file, %s, is %s, got a list of %s", key->name,
                        ctr_field_type_name(key, want, sizeof want), ctr_vtype_name(&item, got, sizeof got));
    if (!is_vectors(f) && !(f->type == CTR_FIXED && f->item == CTR_I8)) /* whose scale no cosine depends on */
        return no_vectors(call, f, err);
    call->result = (struct ctr_vtype){ .type = CTR_LIST, .item = CTR_F64 };
    return 0;
}

static int prepare_embedding(struct ctr_op_call *call, struct ctr_op_state *s, struct ctr_err *err)
{
    const struct ctr_vtype *list = &call->arg[1].type;
    const struct ctr_vtype key = item_of(list);
    const struct ctr_value *pool = s->named[0];
    const struct ctr_field *f = NULL;
    int rc = prepare_file(call, s, &key, &f, err), i = 0;

    if (rc)
        return rc;
    if (!is_vectors(f) && !has_scale(s->param, f))
        return no_vectors(call, f, err);
    while (pool && i < (int)CTR_COUNT(pools) &&
           (pool->kind != CTR_V_STR || strlen(pools[i]) != pool->s.n || memcmp(pools[i], pool->s.p, pool->s.n) != 0))
        i++;
    if (i == (int)CTR_COUNT(pools))
        return ctr_fail(err, CTR_EUSAGE, "embedding: pool is \"mean\", \"sum\" or \"max\"");
    ((struct lookup *)s->param)->pool = (enum pool)i;
    call->result = (struct ctr_vtype){ .type = CTR_FIXED, .item = CTR_F32, .width = f->width };
    return 0;
}

/* Cast the keys to the file's type; values outside its range become null, because they cannot be keys. */
static int cast_keys(const struct ctr_col *c, int64_t rows, enum ctr_type type, struct ctr_colbuf *b,
                     struct ctr_err *err)
{
    const enum ctr_type from = c->dict ? c->dict->type : c->type;
    struct ctr_field f = { .type = type };
    int rc = ctr_colbuf_init(b, &f, err);

    if (!rc && from == type)
        return ctr_colbuf_range(b, c, 0, rows, err);
    for (int64_t i = 0; !rc && i < rows; i++) {
        int bits = ctr_types[type].width * 8;
        int64_t v = ctr_col_missing(c, i) ? 0 : ctr_col_i64(c, i);
        bool fits = from == CTR_U64 && v < 0 ? false /* 2^63 or more */
                    : ctr_types[type].is_signed
                        ? bits == 64 || (v >= -(INT64_C(1) << (bits - 1)) && v < INT64_C(1) << (bits - 1))
                        : v >= 0 && (bits == 64 || v < INT64_C(1) << bits);
        rc = ctr_col_missing(c, i) || !fits ? ctr_colbuf_null(b, err) : ctr_colbuf_i64(b, v, err);
    }
    return rc;
}

/* Look up the rows of the file with these keys. The caller frees `found`, also after an error. */
static int get_many(struct lookup *p, const struct ctr_col *keys, int64_t rows, struct ctr_batchbuf *found,
                    struct ctr_err *err)
{
    const struct ctr_schema *schema = ctr_keyed_schema(p->file);
    struct ctr_colbuf cast = { 0 };
    int rc = cast_keys(keys, rows, schema->f[ctr_keyed_column(p->file)].type, &cast, err);

    if (!rc)
        rc = ctr_batchbuf_init(found, schema, err);
    if (!rc) {
        pthread_mutex_lock(&p->lock);
        rc = ctr_keyed_get_many(p->file, ctr_colbuf_view(&cast), found, NULL, err);
        pthread_mutex_unlock(&p->lock);
    }
    ctr_colbuf_free(&cast);
    return rc;
}

enum { LOOKUP, EMBEDDING, SIMILARITY, OPS }; /* rows of ctr_ops_lookup */

static bool reads_file(const struct ctr_op_call *call)
{
    return call->op >= ctr_ops_lookup && call->op < ctr_ops_lookup + OPS;
}

/* ---- on a device: the keys and the column in its memory ---- */

static const char *device_column(const struct lookup *p, const struct ctr_vtype *key, bool vectors)
{
    const struct ctr_field *f = &ctr_keyed_schema(p->file)->f[p->column];
    const enum ctr_type type = key->type == CTR_LIST || key->type == CTR_FIXED ? key->item : key->type;

    if (!ctr_types[type].integer && type != CTR_UTF8 && type != CTR_TIME)
        return "looks up keys that are neither integers nor texts";
    if (vectors)
        return f->item == CTR_F64 ? "pools vectors of float64" : NULL;
    return f->type == CTR_LIST || f->type == CTR_FIXED || f->type == CTR_F16 ? "looks up lists or float16" : NULL;
}

static enum opd_lane lane_of(enum ctr_type key)
{
    return key == CTR_UTF8 ? OPD_STR : key == CTR_U64 ? OPD_LANE_U64 : OPD_LANE_I64;
}

const char *ctr_op_device_lookup(const struct ctr_op_call *call, struct ctr_op_device *d)
{
    if (!reads_file(call))
        return "keeps items that are null";
    if (call->op == ctr_ops_lookup + SIMILARITY)
        return "gives items that may be null";
    const struct lookup *p = ((const struct ctr_op_state *)call->state)->param;
    const struct ctr_vtype *key = &call->arg[1].type;
    const bool vectors = call->op != ctr_ops_lookup, text = !vectors && call->result.type == CTR_UTF8;
    const char *why = device_column(p, key, vectors);

    if (why)
        return why;
    *d = (struct ctr_op_device){ .loop = vectors ? "loop_embedding"
                                         : text  ? "loop_lookup_text"
                                                 : "loop_lookup",
                                 .file = "loop_lookup.h",
                                 .kind = text ? CTR_LOOP_OF_TEXT : CTR_LOOP_OF_FIXED,
                                 .nargs = 2,
                                 .arg = { [1] = { lane_of(vectors ? key->item : key->type), vectors } },
                                 .inner = call->result,
                                 .param = (void *)(uintptr_t)&p->device,
                                 .param_bytes = sizeof p->device,
                                 .table_at = offsetof(struct device, table) };
    return NULL;
}

/* The columns of the table, while it is made. */
struct columns {
    struct ctr_buf key, key_bytes, value, value_bytes, ok;
    int64_t rows;
};

static bool has_vector(const struct ctr_col *vectors, const struct ctr_col *scale, int64_t i)
{
    return !ctr_col_missing(vectors, i) && !(scale && ctr_col_missing(scale, i));
}

/* Number d of vector i, which exists. */
static double vector_number(const struct ctr_col *vectors, const struct ctr_col *scale, int32_t width, int64_t i,
                            int32_t d)
{
    int64_t first = 0, last = 0;
    const struct ctr_col *item = ctr_col_items(vectors, width, i, &first, &last);

    if (!scale)
        return ctr_col_f64(item, first + d);
    return (double)((float)ctr_col_f64(scale, i) * (float)ctr_col_i64(item, first + d));
}

static int add_vector(struct ctr_buf *to, const struct ctr_col *c, const struct ctr_col *scale, int64_t i,
                      int32_t width, struct ctr_err *err)
{
    const bool exists = has_vector(c, scale, i);
    int rc = 0;

    for (int32_t d = 0; !rc && d < width; d++) {
        const float v = exists ? (float)vector_number(c, scale, width, i, d) : 0;
        rc = ctr_buf_append(to, &v, sizeof v, err);
    }
    return rc;
}

/* A value of a row: 8 bytes, or where its text ends. */
static int add_value(struct ctr_buf *to, struct ctr_buf *bytes, const struct ctr_col *c, int64_t i, struct ctr_err *err)
{
    const enum ctr_type type = c->dict ? c->dict->type : c->type;
    const bool missing = ctr_col_missing(c, i);
    int64_t word = 0;

    if (type == CTR_UTF8) {
        const struct ctr_str s = missing ? (struct ctr_str){ "", 0 } : ctr_col_str(c, i);
        int rc = ctr_buf_append(bytes, s.p, s.n, err);
        if (rc)
            return rc;
        word = (int64_t)bytes->len;
    } else if (!missing && ctr_types[type].floating) {
        const double v = ctr_col_f64(c, i);
        memcpy(&word, &v, sizeof word);
    } else if (!missing) {
        word = ctr_col_i64(c, i);
    }
    return ctr_buf_append(to, &word, sizeof word, err);
}

static int add_block(const struct lookup *p, const struct ctr_batch *b, struct columns *c, struct ctr_err *err)
{
    const struct ctr_col *key = &b->col[ctr_keyed_column(p->file)], *value = &b->col[p->column];
    const struct ctr_col *scale = p->scale < 0 ? NULL : &b->col[p->scale];
    const int32_t width = (int32_t)p->device.width;
    int rc = 0;

    for (int64_t i = 0; !rc && i < b->rows; i++) {
        const uint8_t ok = has_vector(value, scale, i);
        if (ctr_col_missing(key, i))
            continue;
        rc = add_value(&c->key, &c->key_bytes, key, i, err);
        if (!rc)
            rc = width ? add_vector(&c->value, value, scale, i, width, err)
                       : add_value(&c->value, &c->value_bytes, value, i, err);
        if (!rc)
            rc = ctr_buf_append(&c->ok, &ok, 1, err);
        c->rows++;
    }
    return rc;
}

/* Append a column at a multiple of 8 bytes, with 8 readable bytes behind it. */
static int add_part(struct ctr_buf *table, const struct ctr_buf *part, int64_t *at, struct ctr_err *err)
{
    static const uint8_t zeros[16];

    *at = (int64_t)table->len;
    int rc = ctr_buf_append(table, part->data, part->len, err);
    return rc ? rc : ctr_buf_append(table, zeros, 16 - part->len % 8, err);
}

static int make_table(struct lookup *p, struct columns *c, struct ctr_err *err)
{
    const enum ctr_type key = ctr_keyed_schema(p->file)->f[ctr_keyed_column(p->file)].type;
    const int64_t zero = 0;
    struct device *d = &p->device;
    const struct ctr_batch *b;
    int rc = 0;

    if (key == CTR_UTF8)
        rc = ctr_buf_append(&c->key, &zero, sizeof zero, err);
    if (!rc && ctr_keyed_schema(p->file)->f[p->column].type == CTR_UTF8)
        rc = ctr_buf_append(&c->value, &zero, sizeof zero, err);
    for (int64_t k = 0; !rc && k < ctr_keyed_blocks(p->file); k++) {
        rc = ctr_keyed_block(p->file, k, &b, err);
        if (!rc)
            rc = add_block(p, b, c, err);
    }
    if (!rc)
        rc = ctr_keyed_unchanged(p->file, err);
    d->rows = c->rows;
    d->text = key == CTR_UTF8;
    d->keys_unsigned = key == CTR_U64;
    struct ctr_buf *const part[] = { &c->key, &c->key_bytes, &c->value, &c->value_bytes, &c->ok };
    int64_t *const at[] = { &d->key, &d->key_bytes, &d->value, &d->value_bytes, &d->ok };
    for (size_t i = 0; !rc && i < CTR_COUNT(part); i++)
        rc = add_part(&p->table, part[i], at[i], err);
    for (size_t i = 0; i < CTR_COUNT(part); i++)
        ctr_buf_free(part[i]);
    if (rc)
        ctr_buf_clear(&p->table);
    return rc;
}

int ctr_op_device_load(const struct ctr_op_call *call, struct ctr_op_device *d, struct ctr_err *err)
{
    struct columns c = { 0 };
    int rc = 0;

    if (!reads_file(call))
        return 0;
    struct lookup *p = ((const struct ctr_op_state *)call->state)->param;
    const struct ctr_vtype *key = &call->arg[1].type;
    const bool vectors = call->op != ctr_ops_lookup;
    pthread_mutex_lock(&p->lock);
    p->device.width = vectors ? call->result.width : 0;
    p->device.pool = (int64_t)p->pool;
    p->device.arg_unsigned = (vectors ? key->item : key->type) == CTR_U64;
    if (!p->table.len) {
        p->table_id = ctr_op_table_id();
        rc = make_table(p, &c, err);
    }
    pthread_mutex_unlock(&p->lock);
    d->table = p->table.data;
    d->table_bytes = p->table.len;
    d->table_id = p->table_id;
    return rc;
}

/* ---- lookup and embedding: the vectors of the items of a list, pooled ---- */

/* Pool position d of the vectors [from, to): sums are double, in the order of the list. *n: the number of vectors. */
static double pool_position(const struct lookup *p, const struct ctr_col *vectors, const struct ctr_col *scale,
                            int32_t width, int64_t from, int64_t to, int32_t d, int64_t *n)
{
    double r = 0;

    *n = 0;
    for (int64_t i = from; i < to; i++) {
        if (!has_vector(vectors, scale, i))
            continue;
        const double v = vector_number(vectors, scale, width, i, d);
        r = p->pool != POOL_MAX ? r + v : !*n || v > r ? v : r;
        ++*n;
    }
    return opv_number(p->pool == POOL_MEAN && *n ? r / (double)*n : r);
}

/* end: where the vectors of each row end; NULL: it has one. */
static int pool_rows(const struct lookup *p, struct ctr_batchbuf *found, int32_t width, const int64_t *end,
                     int64_t rows, struct ctr_colbuf *out, struct ctr_err *err)
{
    const struct ctr_col *vectors = ctr_colbuf_view(&found->col[p->column]);
    const struct ctr_col *scale = p->scale < 0 ? NULL : ctr_colbuf_view(&found->col[p->scale]);
    int rc = 0;

    for (int64_t i = 0; !rc && i < rows; i++) {
        const int64_t from = !end ? i : i ? end[i - 1] : 0, to = end ? end[i] : i + 1;
        int64_t n = 0;
        (void)pool_position(p, vectors, scale, width, from, to, 0, &n);
        if (!n) {
            rc = ctr_colbuf_null(out, err);
            continue;
        }
        for (int32_t d = 0; !rc && d < width; d++)
            rc = ctr_colbuf_f64(out->item, pool_position(p, vectors, scale, width, from, to, d, &n), err);
        if (!rc)
            rc = ctr_colbuf_close(out, err);
    }
    return rc;
}

static int column_lookup(const struct ctr_op_call *call, const struct ctr_col *const *col, int64_t rows,
                         struct ctr_colbuf *out, struct ctr_err *err)
{
    struct lookup *p = ((const struct ctr_op_state *)call->state)->param;
    struct ctr_batchbuf found = { 0 };
    int rc = get_many(p, col[1], rows, &found, err);

    if (!rc && p->scale >= 0)
        rc = pool_rows(p, &found, call->result.width, NULL, rows, out, err);
    else if (!rc)
        rc = ctr_colbuf_range(out, ctr_colbuf_view(&found.col[p->column]), 0, rows, err);
    ctr_batchbuf_free(&found);
    return rc;
}

/* Concatenate the items of all rows; end[i]: end of those of row i. */
static int flatten(const struct ctr_col *list, int32_t width, int64_t rows, struct ctr_colbuf *items, int64_t *end,
                   struct ctr_err *err)
{
    int rc = 0;

    for (int64_t i = 0; !rc && i < rows; i++) {
        int64_t from = 0, to = 0;
        if (!ctr_col_missing(list, i)) {
            const struct ctr_col *item = ctr_col_items(list, width, i, &from, &to);
            rc = ctr_colbuf_range(items, item, from, to - from, err);
        }
        end[i] = items->rows;
    }
    return rc;
}

static int column_embedding(const struct ctr_op_call *call, const struct ctr_col *const *col, int64_t rows,
                            struct ctr_colbuf *out, struct ctr_err *err)
{
    struct lookup *p = ((const struct ctr_op_state *)call->state)->param;
    const struct ctr_vtype *list = &call->arg[1].type;
    const struct ctr_field item = { .type = list->item };
    int64_t *end = malloc(((size_t)rows + 1) * sizeof *end);
    struct ctr_batchbuf found = { 0 };
    struct ctr_colbuf items = { 0 };
    int rc = end ? ctr_colbuf_init(&items, &item, err) : ctr_fail_nomem(err, (size_t)rows * sizeof *end);

    if (!rc)
        rc = flatten(col[1], list->width, rows, &items, end, err);
    if (!rc)
        rc = get_many(p, ctr_colbuf_view(&items), items.rows, &found, err);
    if (!rc)
        rc = pool_rows(p, &found, call->result.width, end, rows, out, err);
    ctr_batchbuf_free(&found);
    ctr_colbuf_free(&items);
    free(end);
    return rc;
}

/* ---- similarity: cosines of the vectors of a list's items with another vector ---- */

enum { PIECE_BYTES = 16 << 20 }; /* of vectors that are looked up together */

struct similar {
    struct lookup *p;
    int32_t width;
    int64_t piece;           /* vectors that are looked up together, at most */
    struct ctr_batchbuf own; /* the vectors of the keys of some rows */
    const struct ctr_vtype *list;
    struct ctr_colbuf items; /* items of some of these rows … */
    struct ctr_buf owner;    /* … int64_t each: whose row's they are, among these rows */
    struct ctr_buf u;        /* double: the vector of a row */
    struct ctr_colbuf *to;   /* receives the cosines */
};

/* Four sums, of positions d mod 4, which are added up in order: no loop waits for one addition after the other. */
struct products {
    double xy[4], yy[4];
};

static double sum4(const double *s)
{
    return s[0] + s[1] + (s[2] + s[3]);
}

static void multiply(struct products *s, const double *x, const struct ctr_col *items, int64_t first, int32_t width)
{
    const float *y = items->type == CTR_F32 && !items->dict ? (const float *)items->data + first : NULL;
    *s = (struct products){ 0 };
    for (int32_t d = 0; d < width; d++) {
        const double v = y ? (double)y[d] : ctr_col_f64(items, first + d);
        s->xy[d & 3] += x[d] * v;
        s->yy[d & 3] += v * v;
    }
}

/* The vector at row i, as doubles, and its product with itself. 0: there is none, or it has no length or no direction.
 */
static double own_vector(struct similar *s, int64_t i, double *x)
{
    const struct ctr_col *vectors = ctr_colbuf_view(&s->own.col[s->p->column]);
    int64_t first = 0, last = 0;
    double sums[4] = { 0 };
    if (ctr_col_missing(vectors, i))
        return 0;
    const struct ctr_col *item = ctr_col_items(vectors, s->width, i, &first, &last);
    for (int32_t d = 0; d < s->width; d++) {
        x[d] = ctr_col_f64(item, first + d);
        sums[d & 3] += x[d] * x[d];
    }
    const double xx = sum4(sums);
    return xx - xx == 0 ? xx : 0;
}

/* One root of a product rather than two: of a vector with itself it gives 1. */
static double cosine_of(double xx, const struct products *s)
{
    const double xy = sum4(s->xy), yy = sum4(s->yy), both = xx * yy;
    return xy / (both > 1e-290 && both < 1e290 ? sqrt(both) : sqrt(xx) * sqrt(yy));
}

/* Append the cosines of the items that wait. */
static int compare_items(struct similar *s, struct ctr_err *err)
{
    const int64_t *owner = (const int64_t *)(void *)s->owner.data, n = s->items.rows;
    double *x = (double *)(void *)s->u.data, xx = 0;
    struct ctr_batchbuf found = { 0 };
    int64_t row = -1;
    int rc = n ? get_many(s->p, ctr_colbuf_view(&s->items), n, &found, err) : 0;
    const struct ctr_col *vectors = !rc && n ? ctr_colbuf_view(&found.col[s->p->column]) : NULL;
    for (int64_t i = 0; !rc && i < n; i++) {
        double r = NAN;
        if (row != owner[i])
            xx = own_vector(s, row = owner[i], x);
        if (xx > 0 && !ctr_col_missing(vectors, i)) {
            struct products sums;
            int64_t first = 0, last = 0;
            const struct ctr_col *item = ctr_col_items(vectors, s->width, i, &first, &last);
            multiply(&sums, x, item, first, s->width);
            r = cosine_of(xx, &sums);
        }
        rc = r - r == 0 ? ctr_colbuf_f64(s->to,
                                         r > 1    ? 1
                                         : r < -1 ? -1
                                                  : opv_number(r),
                                         err)
                        : ctr_colbuf_null(s->to, err);
    }
    ctr_batchbuf_free(&found);
    ctr_colbuf_clear(&s->items);
    ctr_buf_clear(&s->owner);
    return rc;
}

/* The items of a row, which is row `own` of those whose vectors are there. *n: their number. */
static int take_items(struct similar *s, const struct ctr_col *list, int64_t row, int64_t own, int64_t *n,
                      struct ctr_err *err)
{
    int64_t from = 0, to = 0;
    const struct ctr_col *item = ctr_col_items(list, s->list->width, row, &from, &to);
    int rc = 0;
    *n = to - from;
    while (!rc && from < to) {
        const int64_t some = CTR_MIN(to - from, s->piece - s->items.rows);
        rc = ctr_colbuf_range(&s->items, item, from, some, err);
        for (int64_t i = 0; !rc && i < some; i++)
            rc = ctr_buf_append(&s->owner, &own, sizeof own, err);
        from += some;
        if (!rc && s->items.rows >= s->piece)
            rc = compare_items(s, err);
    }
    return rc;
}

/* Rows [from, from + n), whose keys' vectors fit into a piece. end[i]: of the cosines up to row i; ok[i]: it has a
 * list. */
static int compare_rows(struct similar *s, const struct ctr_col *keys, const struct ctr_vtype *key,
                        const struct ctr_col *list, int64_t from, int64_t n, int32_t *end, uint8_t *ok,
                        struct ctr_err *err)
{
    const struct ctr_field f = ctr_vtype_field(key);
    struct ctr_colbuf own = { 0 };
    int64_t some = 0, at = from ? end[from - 1] : 0;
    int rc = ctr_colbuf_init(&own, &f, err);
    s->own = (struct ctr_batchbuf){ 0 };
    if (!rc)
        rc = ctr_colbuf_range(&own, keys, from, n, err);
    if (!rc)
        rc = get_many(s->p, ctr_colbuf_view(&own), n, &s->own, err);
    const struct ctr_col *vectors = rc ? NULL : ctr_colbuf_view(&s->own.col[s->p->column]);
    for (int64_t i = from; !rc && i < from + n; i++) {
        ok[i] = !ctr_col_missing(list, i) && !ctr_col_missing(vectors, i - from);
        some = 0;
        if (ok[i])
            rc = take_items(s, list, i, i - from, &some, err);
        end[i] = (int32_t)(at += some);
    }
    if (!rc)
        rc = compare_items(s, err);
    ctr_batchbuf_free(&s->own);
    ctr_colbuf_free(&own);
    return rc;
}

static int64_t count_items(const struct ctr_col *list, int32_t width, int64_t rows)
{
    int64_t n = 0;
    for (int64_t i = 0; i < rows; i++) {
        int64_t from = 0, to = 0;
        if (!ctr_col_missing(list, i))
            (void)ctr_col_items(list, width, i, &from, &to);
        n += to - from;
    }
    return n;
}

/* Offsets and nulls of lists whose items are there. */
static int close_lists(struct ctr_colbuf *out, const int32_t *end, const uint8_t *ok, int64_t rows, struct ctr_err *err)
{
    int rc = ctr_buf_append(&out->offsets, end, (size_t)rows * sizeof *end, err);
    for (int64_t done = 0; !rc && done < rows; done += CTR_OP_TILE)
        rc = ctr_lane_append_valid(out, ok + done, CTR_MIN(rows - done, CTR_OP_TILE), err);
    return rc;
}

static int column_similarity(const struct ctr_op_call *call, const struct ctr_col *const *col, int64_t rows,
                             struct ctr_colbuf *out, struct ctr_err *err)
{
    struct lookup *p = ((const struct ctr_op_state *)call->state)->param;
    const struct ctr_field item = { .type = call->arg[2].type.item };
    const int32_t width = ctr_keyed_schema(p->file)->f[p->column].width;
    struct similar s = { .p = p,
                         .width = width,
                         .piece = CTR_MAX(PIECE_BYTES / (CTR_MAX(width, 1) * (int64_t)sizeof(float)), (int64_t)1),
                         .list = &call->arg[2].type,
                         .to = out->item };
    int32_t *end = malloc(((size_t)rows + 1) * sizeof *end);
    uint8_t *ok = malloc((size_t)rows + 1);
    int rc = end && ok ? 0 : ctr_fail_nomem(err, (size_t)rows * sizeof *end);
    if (!rc)
        rc = ctr_op_reserve_items(out, rows, count_items(col[2], s.list->width, rows), call->limit_bytes, err);
    if (!rc)
        rc = ctr_colbuf_init(&s.items, &item, err);
    if (!rc)
        rc = ctr_buf_reserve(&s.u, (size_t)width * sizeof(double) + 8, err);
    for (int64_t from = 0; !rc && from < rows; from += s.piece)
        rc = compare_rows(&s, col[1], &call->arg[1].type, col[2], from, CTR_MIN(rows - from, s.piece), end, ok, err);
    if (!rc)
        rc = close_lists(out, end, ok, rows, err);
    ctr_colbuf_free(&s.items);
    ctr_buf_free(&s.owner);
    ctr_buf_free(&s.u);
    free(end);
    free(ok);
    return rc;
}

int64_t ctr_op_memory(const struct ctr_op_call *call)
{
    const struct ctr_op_state *s = call->state;

    if (ctr_op_fitted(call->op))
        return ctr_op_fit_memory(call);
    return reads_file(call) ? ctr_keyed_bytes(((const struct lookup *)s->param)->file) : 0;
}

const struct ctr_op ctr_ops_lookup[] = {
    { "lookup", "lookup(file: text, key, column: text) -> type of the column",
      "the column of a keyed file in the row with that key, such as the price of ad 7, 2.5; null where there is none; "
      "vectors of int8 beside a column scale are what they stand for, floats; "
      "where x is 7: lookup(\"ads.arrow\", x, \"price\") is 2.5",
      CTR_OP_COLUMN, CTR_VARIANTS({ "t!vt!>i", NULL }), NULL, prepare_lookup, column_lookup },
    { "embedding", "embedding(file: text, list of keys, column: text, pool=\"mean\") -> list of float",
      "of the n vectors v that a keyed file has for the items, position by position: mean (v[0] + v[1] + ...) / n, "
      "sum, or max; null where it has none; where red has the vector [1,2] and box [3,4]: embedding(\"words.arrow\", "
      "[\"red\",\"box\"], \"v\") is [2,3]",
      CTR_OP_COLUMN, CTR_VARIANTS({ "t![vt!>[f", NULL }), "pool", prepare_embedding, column_embedding },
    { "similarity", "similarity(file: text, key, list of keys, column: text) -> list of float",
      "of the vectors v that a keyed file has: cosine(v[key], v[item]) for each item, null where the item has none; "
      "null "
      "where the key has none; where red has [1,2] and box [3,4]: where x is red: similarity(\"words.arrow\", x, "
      "[\"box\",\"hat\"], \"v\") is [0.9838699100999074,null]",
      CTR_OP_COLUMN, CTR_VARIANTS({ "t!v[vt!>[f", NULL }), NULL, prepare_similarity, column_similarity },
    { NULL },
};
