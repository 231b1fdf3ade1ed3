/* SPDX-License-Identifier: Apache-2.0
 *
 * op_lookup: lookup("file", key, "column"): a column of a keyed file, by key. Runs whole columns, as a get-many reads
 * each block once. The file is opened at bind, which is when the type of the result is known. */
#include "common/op/opint.h"
#include "common/stream/stream.h"

#include <pthread.h>
#include <stdlib.h>

struct lookup {
    struct ctr_keyed *file;
    int column;
    pthread_mutex_t lock; /* the file has a cache */
};

static void lookup_free(void *param)
{
    struct lookup *p = param;

    ctr_keyed_free(p->file);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

/* Where the file lies, links resolved, if that is in the folder or below; a file that is not there is another error. */
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

/* Can values of this type be keys of that? Integers of any width can, others must agree. */
static bool key_fits(const struct ctr_vtype *t, const struct ctr_field *f)
{
    if (ctr_types[t->type].integer && !t->duration)
        return ctr_types[f->type].integer;
    return t->type == f->type && !t->duration && t->type != CTR_LIST && t->type != CTR_FIXED;
}

static int prepare_lookup(struct ctr_op_call *call, struct ctr_op_state *s, struct ctr_err *err)
{
    struct lookup *p = calloc(1, sizeof *p);
    struct ctr_str column = call->arg[2].literal->s;
    const struct ctr_schema *schema;
    const struct ctr_field *f;
    char want[64], got[64], *name;
    int rc;

    if (!p)
        return ctr_fail_nomem(err, sizeof *p);
    pthread_mutex_init(&p->lock, NULL);
    s->param = p;
    s->param_free = lookup_free;
    if ((rc = open_file(call, p, err)))
        return rc;
    schema = ctr_keyed_schema(p->file);
    name = strndup(column.p, column.n);
    if (!name)
        return ctr_fail_nomem(err, column.n);
    p->column = rc = ctr_schema_need(schema, name, err);
    free(name);
    if (rc < 0)
        return rc;
    f = &schema->f[ctr_keyed_column(p->file)];
    if (call->arg[1].literal)
        return ctr_fail(err, CTR_EUSAGE, "lookup wants a column as its key");
    if (!key_fits(&call->arg[1].type, f))
        return ctr_fail(err, CTR_EUSAGE, "lookup: the key of the file, %s, is %s, got %s", f->name,
                        ctr_field_type_name(f, want, sizeof want), ctr_vtype_name(&call->arg[1].type, got, sizeof got));
    f = &schema->f[p->column];
    call->result = (struct ctr_vtype){ .type = f->type, .item = f->item, .width = f->width };
    return 0;
}

/* The keys as the file's type; what has no place in it is null, as it can be no key. */
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

static int column_lookup(const struct ctr_op_call *call, const struct ctr_col *const *col, int64_t rows,
                         struct ctr_colbuf *out, struct ctr_err *err)
{
    struct lookup *p = ((const struct ctr_op_state *)call->state)->param;
    const struct ctr_schema *schema = ctr_keyed_schema(p->file);
    struct ctr_batchbuf found = { 0 };
    struct ctr_colbuf keys = { 0 };
    int rc = cast_keys(col[1], rows, schema->f[ctr_keyed_column(p->file)].type, &keys, err);

    if (!rc)
        rc = ctr_batchbuf_init(&found, schema, err);
    if (!rc) {
        pthread_mutex_lock(&p->lock);
        rc = ctr_keyed_get_many(p->file, ctr_colbuf_view(&keys), &found, NULL, err);
        pthread_mutex_unlock(&p->lock);
        if (!rc)
            rc = ctr_colbuf_range(out, ctr_colbuf_view(&found.col[p->column]), 0, rows, err);
    }
    if (found.schema)
        ctr_batchbuf_free(&found);
    ctr_colbuf_free(&keys);
    return rc;
}

const struct ctr_op ctr_ops_lookup[] = {
    { "lookup", "lookup(file: text, key, column: text) -> type of the column",
      "the column of a keyed file in the row with that key; null where there is none", CTR_OP_COLUMN,
      CTR_VARIANTS({ "t!vt!>i", NULL }), NULL, prepare_lookup, column_lookup },
    { NULL },
};
