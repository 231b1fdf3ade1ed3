/* SPDX-License-Identifier: Apache-2.0
 *
 * unionsource: the rows of one source and then those of another, as those of one. Columns are matched by name; where a
 * side lacks one, it is null. Two columns of one name have a type that holds the values of both. */
#include "common/rows/relation.h"

#include <stdlib.h>

struct united {
    struct ctr_batch_source side[2];
    int at; /* the side that is read */
    struct ctr_schema schema;
    int *from[2]; /* the column of each side for one of the schema, or -1 */
    struct ctr_colbuf *made;
    struct ctr_col *col;
    struct ctr_batch batch;
    int64_t rows;
};

/* ---- the schema ---- */

/* A column of the second side. */
static int add_field(struct united *u, const struct ctr_field *f, struct ctr_err *err)
{
    char there[64], here[64];
    const int k = ctr_schema_find(&u->schema, f->name), role = ctr_field_role(f);
    struct ctr_field *had = k < 0 ? NULL : &u->schema.f[k];
    if (had && !ctr_field_unite(had, f)) {
        (void)ctr_field_type_name(f, here, sizeof here);
        (void)ctr_field_type_name(had, there, sizeof there);
        const bool wider = ctr_types[f->type].floating && ctr_types[had->type].integer;
        return ctr_fail(err, CTR_EUSAGE,
                        "column %s is %s, and %s in the rows before: give both one type, as columns=\"%s:%s\" of a "
                        "view of text or Parquet does",
                        f->name, here, there, f->name, wider ? here : there);
    }
    if (!had)
        return ctr_schema_add_other(&u->schema, f, err);
    return ctr_field_role(had) < 0 && ctr_schema_role_free(&u->schema, role)
               ? ctr_field_set_role(had, (enum ctr_role)role, err)
               : 0;
}

static int unite(struct united *u, struct ctr_err *err)
{
    const struct ctr_schema *second = ctr_batch_source_schema(&u->side[1]);
    struct ctr_difference d;
    int rc = ctr_schema_copy(&u->schema, ctr_batch_source_schema(&u->side[0]), err);
    if (!rc && !ctr_identity_same(&u->schema.meta, &second->meta, CTR_IDENTITY_ALL, &d))
        rc = ctr_fail(err, CTR_EUSAGE, "features of two plans are not one log: %s: %s", d.what, d.remedy);
    for (int i = 0; !rc && i < second->n; i++)
        rc = add_field(u, &second->f[i], err);
    const size_t n = (size_t)u->schema.n + 1;
    u->from[0] = rc ? NULL : calloc(2 * n, sizeof *u->from[0]);
    u->made = u->from[0] ? calloc(n, sizeof *u->made) : NULL;
    u->col = u->made ? calloc(n, sizeof *u->col) : NULL;
    if (!rc && !u->col)
        rc = ctr_fail_nomem(err, n * sizeof *u->made);
    if (rc)
        return rc;
    u->from[1] = u->from[0] + n;
    for (int i = 0; !rc && i < u->schema.n; i++) {
        struct ctr_field *f = &u->schema.f[i];
        for (int k = 0; k < 2; k++)
            u->from[k][i] = ctr_schema_find(ctr_batch_source_schema(&u->side[k]), f->name);
        f->dict &= f->type == CTR_UTF8;
        rc = ctr_colbuf_init(&u->made[i], f, err);
    }
    return rc;
}

/* ---- rows ---- */

static const struct ctr_schema *united_schema(const void *source)
{
    return &((const struct united *)source)->schema;
}

static const char *united_name(const void *source)
{
    const struct united *u = source;
    return ctr_batch_source_name(&u->side[u->at]);
}

static int united_next(void *source, const struct ctr_batch **b, struct ctr_err *err)
{
    struct united *u = source;
    const struct ctr_batch *in = NULL;
    int rc = ctr_batch_source_next(&u->side[u->at], &in, err);
    if (!rc && !u->at) {
        u->at = 1;
        rc = ctr_batch_source_next(&u->side[1], &in, err);
    }
    if (rc <= 0)
        return rc;
    for (int i = 0; i < u->schema.n; i++) {
        const int from = u->from[u->at][i];
        const int bad = ctr_colbuf_match(&u->made[i], from < 0 ? NULL : &in->col[from], in->rows, &u->col[i], err);
        if (bad)
            return bad;
    }
    u->batch = (struct ctr_batch){ &u->schema, in->rows, u->rows, u->col };
    u->rows += in->rows;
    *b = &u->batch;
    return 1;
}

static void free_united(struct united *u)
{
    for (int i = 0; u->made && i < u->schema.n; i++)
        ctr_colbuf_free(&u->made[i]);
    free(u->made);
    free(u->from[0]);
    free(u->col);
    ctr_schema_free(&u->schema);
    free(u);
}

static void united_close(void *source)
{
    struct united *u = source;
    ctr_batch_source_close(&u->side[0]);
    ctr_batch_source_close(&u->side[1]);
    free_united(u);
}

int ctr_union_source(struct ctr_batch_source *s, struct ctr_batch_source *more, struct ctr_err *err)
{
    static const struct ctr_batch_source_ops ops = { united_schema, united_next, united_name, united_close, NULL };
    struct united *u = calloc(1, sizeof *u);
    if (!u)
        return ctr_fail_nomem(err, sizeof *u);
    u->side[0] = *s;
    u->side[1] = *more;
    const int rc = unite(u, err);
    if (rc) {
        free_united(u);
        return rc;
    }
    more->ops = NULL;
    *s = (struct ctr_batch_source){ &ops, u };
    return 0;
}
