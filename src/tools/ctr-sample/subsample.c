/* SPDX-License-Identifier: Apache-2.0
 *
 * subsample: subsampling of training data by query ("Ad Click Prediction", section 4.6): keeps every query with a
 * click, and a share of the others with inverse weight, so that the expected weighted loss is unchanged. Only the end
 * of the input shows whether a query has a click: rows wait in a spool, and a set has the clicked queries. A query is
 * drawn by a bijection of its number or, of a text, by a hash that the seed keys, so that shards draw alike. */
#include "tools/ctr-sample/subsample.h"
#include "common/rows/spool.h"
#include "common/table/table.h"

#include <math.h>
#include <stdlib.h>

enum { DRAW = 0x5a3b1e };

struct ctr_subsample {
    struct ctr_subsample_opts o;
    struct ctr_schema out;
    struct ctr_spool *spool;
    struct ctr_reader *r;
    struct ctr_batchbuf rows;
    struct ctr_buf labels, weights; /* of a batch, checked */
    struct ctr_colbuf weight;
    struct ctr_col *views;           /* the input's columns, then the weight */
    struct ctr_keyvalue_set clicked; /* queries */
    struct ctr_keyvalue_rows query;
    int64_t *idx, cap;
    struct ctr_subsample_stats st;
};

/* ---- the set of clicked queries ---- */

static int add_clicked(struct ctr_subsample *s, const struct ctr_keyvalue *query, struct ctr_err *err)
{
    const uint64_t memory = (uint64_t)s->o.memory_bytes;
    const uint64_t bytes = memory ? (uint64_t)ctr_keyvalue_set_bytes_after(&s->clicked, query) : 0;
    uint32_t number;
    if (bytes > memory)
        return ctr_fail(err, CTR_ENOMEM,
                        "the set of queries with a click needs %s and --memory allows %s; split the stream by the "
                        "query first (ctr-split --by), the shards draw alike",
                        ctr_size_text_beyond(bytes, memory).s, ctr_size_text(memory).s);
    return ctr_keyvalue_set_add(&s->clicked, query, &number, err);
}

/* A number in [0, 1) of the query and the seed. */
static double draw(const struct ctr_subsample *s, const struct ctr_keyvalue *query)
{
    const uint64_t of = query->p ? ctr_hash64(query->p, query->n, ctr_mix64(s->o.seed + DRAW)) : query->key;
    return ctr_random01(s->o.seed, DRAW, of);
}

/* ---- stage ---- */

static int check_columns(const struct ctr_subsample_opts *o, const struct ctr_schema *in, struct ctr_err *err)
{
    const struct ctr_field *label = &in->f[o->label], *query = &in->f[o->query];
    const char *weight = o->weight < 0 ? "weight" : in->f[o->weight].name;
    char type[128];

    if (label->type != CTR_BOOL && !ctr_type_number(label->type))
        return ctr_fail(err, CTR_EUSAGE, "column %s is %s, but a label must be a bool or a number", label->name,
                        ctr_field_type_name(label, type, sizeof type));
    if (ctr_type_list(query->type))
        return ctr_fail(err, CTR_EUSAGE, "%s is %s, and a list cannot be a query: take an element with at()",
                        query->name, ctr_field_type_name(query, type, sizeof type));
    if (o->weight < 0 && ctr_schema_find(in, weight) >= 0)
        return ctr_fail(err, CTR_EUSAGE,
                        "there is a column 'weight' without the role weight: --weight weight multiplies it");
    if (o->weight >= 0 && !ctr_types[in->f[o->weight].type].floating)
        return ctr_fail(err, CTR_EUSAGE, "the weight %s is not a float: ctr-select --add '%s=%s * 1.0' makes it one",
                        weight, weight, weight);
    return 0;
}

static int output_schema(struct ctr_subsample *s, const struct ctr_schema *in, struct ctr_err *err)
{
    int rc = check_columns(&s->o, in, err);

    if (!rc)
        rc = ctr_schema_copy(&s->out, in, err);
    if (rc || s->o.weight >= 0)
        return rc;
    s->o.weight = in->n;
    rc = ctr_schema_add(&s->out, "weight", CTR_F64, err);
    return rc ? rc : ctr_field_set_role(&s->out.f[in->n], CTR_ROLE_WEIGHT, err);
}

int ctr_subsample_new(struct ctr_subsample **out, const struct ctr_schema *in, const struct ctr_subsample_opts *o,
                      struct ctr_err *err)
{
    struct ctr_subsample *s = calloc(1, sizeof *s);

    if (!s)
        return ctr_fail_nomem(err, sizeof *s);
    s->o = *o;
    ctr_keyvalue_set_init(&s->clicked);
    int rc = output_schema(s, in, err);
    if (!rc && !(s->views = calloc((size_t)s->out.n, sizeof *s->views)))
        rc = ctr_fail_nomem(err, (size_t)s->out.n * sizeof *s->views);
    if (!rc) {
        s->out.f[s->o.weight].dict = false;
        rc = ctr_colbuf_init(&s->weight, &s->out.f[s->o.weight], err);
    }
    if (!rc)
        rc = ctr_batchbuf_init(&s->rows, &s->out, err);
    if (!rc)
        rc = ctr_spool_new(&s->spool, in, err);
    if (rc) {
        ctr_subsample_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

void ctr_subsample_free(struct ctr_subsample *s)
{
    if (!s)
        return;
    ctr_reader_free(s->r);
    ctr_spool_free(s->spool);
    ctr_batchbuf_free(&s->rows);
    ctr_colbuf_free(&s->weight);
    ctr_buf_free(&s->labels);
    ctr_buf_free(&s->weights);
    ctr_schema_free(&s->out);
    free(s->views);
    ctr_keyvalue_set_free(&s->clicked);
    ctr_keyvalue_rows_free(&s->query);
    free(s->idx);
    free(s);
}

const struct ctr_schema *ctr_subsample_schema(const struct ctr_subsample *s)
{
    return &s->out;
}

void ctr_subsample_get_stats(const struct ctr_subsample *s, struct ctr_subsample_stats *st)
{
    *st = s->st;
    st->clicked_queries = (int64_t)s->clicked.n;
}

int ctr_subsample_batch(struct ctr_subsample *s, const struct ctr_batch *b, struct ctr_err *err)
{
    const int w = s->o.weight < b->schema->n ? s->o.weight : -1;
    const double *label, *weight;
    int rc = ctr_col_checked(&b->col[s->o.label], CTR_ROLE_LABEL, b->schema->f[s->o.label].name, b->first_row,
                             &s->labels, &label, err);

    if (!rc && w >= 0)
        rc =
            ctr_col_checked(&b->col[w], CTR_ROLE_WEIGHT, b->schema->f[w].name, b->first_row, &s->weights, &weight, err);
    if (!rc)
        rc = ctr_keyvalue_read(&s->query, b, &s->o.query, 1, err);
    for (int64_t i = 0; !rc && i < b->rows; i++) {
        const struct ctr_keyvalue *query = &s->query.row[i];
        if (query->null)
            rc = ctr_fail(err, CTR_EDATA, "row %lld: the query is null; leave such rows out (ctr-select --where)",
                          (long long)(b->first_row + i + 1));
        else if (label[i] > 0)
            rc = add_clicked(s, query, err);
    }
    s->st.rows += b->rows;
    return rc ? rc : ctr_spool_batch(s->spool, b, err);
}

int ctr_subsample_finish(struct ctr_subsample *s, struct ctr_err *err)
{
    return ctr_spool_reread(s->spool, &s->r, err);
}

/* Of the kept rows: a float16 ends at 65504. */
static int check_weights(struct ctr_subsample *s, const struct ctr_batch *b, int64_t kept, struct ctr_err *err)
{
    const struct ctr_col *w = ctr_colbuf_view(&s->weight);
    const struct ctr_field *f = &s->out.f[s->o.weight];

    for (int64_t k = 0; k < kept; k++)
        if (!isfinite(ctr_col_f64(w, s->idx[k])))
            return ctr_fail(err, CTR_EDATA,
                            "row %lld: its weight over --share is more than %s holds: ctr-select --add '%s=%s * 1.0' "
                            "makes it float64",
                            (long long)(b->first_row + s->idx[k] + 1), ctr_types[f->type].name, f->name, f->name);
    return 0;
}

/* Select the rows to keep into s->idx; their weights go to s->weight, which has a value for every row. */
static int choose(struct ctr_subsample *s, const struct ctr_batch *b, int64_t *kept, struct ctr_err *err)
{
    const struct ctr_col *old = s->o.weight < b->schema->n ? &b->col[s->o.weight] : NULL;
    int rc = ctr_keyvalue_read(&s->query, b, &s->o.query, 1, err);

    if (!rc && b->rows > s->cap) {
        free(s->idx);
        s->idx = malloc((size_t)b->rows * sizeof *s->idx);
        s->cap = s->idx ? b->rows : 0;
        rc = s->idx ? 0 : ctr_fail_nomem(err, (size_t)b->rows * sizeof *s->idx);
    }
    *kept = 0;
    ctr_colbuf_clear(&s->weight);
    for (int64_t i = 0; !rc && i < b->rows; i++) {
        const struct ctr_keyvalue *query = &s->query.row[i];
        bool clicked = ctr_keyvalue_set_find(&s->clicked, query) >= 0;
        double w = clicked ? 1 : 1 / s->o.share;
        if (clicked || draw(s, query) < s->o.share) {
            s->idx[(*kept)++] = i;
            s->st.clicked_rows += clicked;
        }
        rc = ctr_colbuf_f64(&s->weight, old ? w * ctr_col_f64(old, i) : w, err);
    }
    s->st.kept += *kept;
    return rc ? rc : check_weights(s, b, *kept, err);
}

int ctr_subsample_next(struct ctr_subsample *s, const struct ctr_batch **out, struct ctr_err *err)
{
    const struct ctr_batch *b;
    int64_t kept = 0;
    int rc;

    do {
        if ((rc = ctr_reader_next(s->r, &b, err)) <= 0)
            return rc;
        if ((rc = choose(s, b, &kept, err)))
            return rc;
    } while (!kept);
    memcpy(s->views, b->col, (size_t)b->schema->n * sizeof *s->views);
    s->views[s->o.weight] = *ctr_colbuf_view(&s->weight);
    struct ctr_batch with = (struct ctr_batch){ .schema = &s->out, .rows = b->rows, .col = s->views };
    ctr_batchbuf_clear(&s->rows);
    if ((rc = ctr_batchbuf_gather(&s->rows, &with, s->idx, kept, err)))
        return rc;
    *out = ctr_batchbuf_view(&s->rows);
    return 1;
}
