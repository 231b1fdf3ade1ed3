/* SPDX-License-Identifier: Apache-2.0
 *
 * joinonce: of the left rows that match one right row, one keeps it: last or first touch of a click. The join below
 * gives each left row its match and, in a hidden last column, the number of that right row. Only the end of the left
 * side tells which row keeps it: rows wait in a spool, and for each right row there is the best left row so far; where
 * memory does not hold all right rows, the spool is read once more for each part of them. So it does not matter how the
 * join finds its matches, nor whether the left side is in order of time. */
#include "common/rows/joincore.h"
#include "common/rows/spool.h"

#include <stdlib.h>

#define NUMBER "\x01number" /* no name that a user chooses */

/* ---- the right side with the numbers of its rows ---- */

struct numbered {
    struct ctr_batch_source below;
    struct ctr_schema schema;
    struct ctr_buf number;
    struct ctr_col *col;
    struct ctr_batch batch;
    int64_t rows;
};

static const struct ctr_schema *numbered_schema(const void *source)
{
    return &((const struct numbered *)source)->schema;
}

static int numbered_next(void *source, const struct ctr_batch **b, struct ctr_err *err)
{
    struct numbered *s = source;
    const struct ctr_batch *in;
    int rc = ctr_batch_source_next(&s->below, &in, err);
    if (rc <= 0)
        return rc;
    if ((rc = ctr_buf_room(&s->number, in->rows, sizeof(int64_t), err)))
        return rc;
    int64_t *number = (int64_t *)(void *)s->number.data;
    for (int64_t i = 0; i < in->rows; i++)
        number[i] = s->rows++;
    memcpy(s->col, in->col, (size_t)(s->schema.n - 1) * sizeof *s->col);
    s->col[s->schema.n - 1] = (struct ctr_col){ .type = CTR_I64, .rows = in->rows, .data = number };
    s->batch = (struct ctr_batch){ &s->schema, in->rows, in->first_row, s->col };
    *b = &s->batch;
    return 1;
}

static const char *numbered_name(const void *source)
{
    return ctr_batch_source_name(&((const struct numbered *)source)->below);
}

static void numbered_free(struct numbered *s)
{
    ctr_schema_free(&s->schema);
    ctr_buf_free(&s->number);
    free(s->col);
    free(s);
}

static void numbered_close(void *source)
{
    ctr_batch_source_close(&((struct numbered *)source)->below);
    numbered_free(source);
}

static int make_schema(struct numbered *s, const struct ctr_schema *in, struct ctr_err *err)
{
    ctr_schema_free(&s->schema);
    s->schema = (struct ctr_schema){ 0 };
    int rc = ctr_schema_copy(&s->schema, in, err);
    return rc ? rc : ctr_schema_add(&s->schema, NUMBER, CTR_I64, err);
}

/* The join keeps columns in their order, and the numbers are the last. */
static int numbered_project(void *source, const int *columns, int n, struct ctr_err *err)
{
    struct numbered *s = source;
    int rc = ctr_batch_source_project(&s->below, columns, n - 1, err);
    return rc ? rc : make_schema(s, ctr_batch_source_schema(&s->below), err);
}

int ctr_join_number(struct ctr_batch_source *right, struct ctr_err *err)
{
    static const struct ctr_batch_source_ops ops = { numbered_schema, numbered_next, numbered_name, numbered_close,
                                                     numbered_project };
    const struct ctr_schema *in = ctr_batch_source_schema(right);
    struct numbered *s = calloc(1, sizeof *s);
    if (!s)
        return ctr_fail_nomem(err, sizeof *s);
    s->col = calloc((size_t)in->n + 1, sizeof *s->col);
    int rc = s->col ? make_schema(s, in, err) : ctr_fail_nomem(err, (size_t)in->n * sizeof *s->col);
    if (rc) {
        numbered_free(s);
        return rc;
    }
    s->below = *right;
    *right = (struct ctr_batch_source){ &ops, s };
    return 0;
}

/* ---- the rows of the join, of which some give their match up ---- */

struct best {          /* the left row that keeps a right row */
    int64_t time, row; /* row: 1 + its number; 0: none so far */
};

struct once {
    struct ctr_join *j; /* owned once it is a stage */
    bool owns;
    struct ctr_schema out;
    struct ctr_buf best; /* struct best a right row from `from` on, `part` of them */
    int64_t from, part;
    struct ctr_buf keeps; /* a bit a left row: it keeps its match */
    struct ctr_spool *spool;
    struct ctr_reader *r;
    int64_t rows; /* taken in, then given again */
    int64_t *idx, *right;
    int64_t cap;
    struct ctr_batchbuf left; /* rows of --inner and --anti */
    struct ctr_colbuf *rout;  /* right columns */
    struct ctr_col *views;
    struct ctr_batch batch;
};

static const struct ctr_schema *once_schema(const void *object)
{
    return &((const struct once *)object)->out;
}

static void once_free(void *object)
{
    struct once *o = object;
    ctr_reader_free(o->r);
    ctr_spool_free(o->spool);
    if (o->left.schema)
        ctr_batchbuf_free(&o->left);
    for (int i = o->j->left.n; o->rout && i < o->out.n; i++)
        ctr_colbuf_free(&o->rout[i]);
    ctr_schema_free(&o->out);
    ctr_buf_free(&o->best);
    ctr_buf_free(&o->keeps);
    free(o->rout);
    free(o->views);
    free(o->idx);
    free(o->right);
    if (o->owns)
        ctr_join_free(o->j);
    free(o);
}

static int start_part(struct once *o, int64_t from, struct ctr_err *err)
{
    const int64_t most = CTR_MAX(o->j->budget / (2 * (int64_t)sizeof(struct best)), 1);
    o->from = from;
    o->part = CTR_MIN(o->j->stats.right_rows - from, most);
    o->rows = 0;
    const int rc = ctr_buf_room(&o->best, o->part + 1, sizeof(struct best), err);
    if (!rc)
        memset(o->best.data, 0, (size_t)(o->part + 1) * sizeof(struct best));
    return rc;
}

/* The entry of the right row that row i of the batch matches; NULL: none, or in another part. */
static struct best *best_of(const struct once *o, const struct ctr_batch *b, int64_t i)
{
    const struct ctr_col *number = &b->col[b->schema->n - 1];
    const int64_t at = ctr_col_missing(number, i) ? -1 : ((const int64_t *)number->data)[i] - o->from;
    return at < 0 || at >= o->part ? NULL : (struct best *)(void *)o->best.data + at;
}

static void look(struct once *o, const struct ctr_batch *b)
{
    const bool first = o->j->opts.once == CTR_JOIN_ONCE_FIRST;
    for (int64_t i = 0; i < b->rows; i++) {
        struct best *of = best_of(o, b, i);
        o->rows++;
        if (!of)
            continue;
        int64_t at = i;
        const struct ctr_col *plain = ctr_col_plain(&b->col[o->j->ltime], &at);
        const int64_t t = ctr_col_i64(plain, at);
        if (!of->row || (first ? t < of->time : t >= of->time))
            *of = (struct best){ t, o->rows };
    }
}

/* The left rows that keep the right rows of the part. */
static void end_part(struct once *o)
{
    const struct best *best = (const struct best *)(const void *)o->best.data;
    for (int64_t i = 0; i < o->part; i++)
        if (best[i].row)
            o->keeps.data[(best[i].row - 1) >> 3] |= (uint8_t)(1 << ((best[i].row - 1) & 7));
}

/* Rows of the join wait in the spool. */
static int hold(struct once *o, const struct ctr_batch *b, struct ctr_err *err)
{
    const int rc = o->best.data ? 0 : start_part(o, 0, err);
    if (rc)
        return rc;
    look(o, b);
    return ctr_spool_batch(o->spool, b, err);
}

static int look_again(struct once *o, struct ctr_err *err)
{
    const struct ctr_batch *b;
    int rc = ctr_spool_reread(o->spool, &o->r, err);
    while (!rc && (rc = ctr_reader_next(o->r, &b, err)) > 0) {
        look(o, b);
        rc = 0;
    }
    ctr_reader_free(o->r);
    o->r = NULL;
    return rc;
}

static int choose_rows(struct once *o, struct ctr_err *err)
{
    const size_t bytes = (size_t)(o->rows + 7) / 8;
    int rc = ctr_buf_room(&o->keeps, (int64_t)bytes + 1, 1, err);
    if (!rc)
        memset(o->keeps.data, 0, bytes + 1);
    if (!rc)
        end_part(o);
    while (!rc && o->rows && o->from + o->part < o->j->stats.right_rows) {
        rc = start_part(o, o->from + o->part, err);
        if (!rc)
            rc = look_again(o, err);
        if (!rc)
            end_part(o);
    }
    ctr_buf_free(&o->best);
    o->rows = 0;
    return rc;
}

static int hold_all(struct once *o, struct ctr_err *err)
{
    const struct ctr_batch *b;
    int rc;
    while ((rc = ctr_join_next(o->j, &b, err)) > 0)
        if ((rc = hold(o, b, err)))
            return rc;
    return rc;
}

static int once_batch(void *object, const struct ctr_batch *b, struct ctr_err *err)
{
    struct once *o = object;
    const int rc = ctr_join_batch(o->j, b, err);
    return rc ? rc : hold_all(o, err);
}

static int once_finish(void *object, struct ctr_err *err)
{
    struct once *o = object;
    int rc = ctr_join_finish(o->j, err);
    if (!rc)
        rc = hold_all(o, err);
    if (!rc)
        rc = choose_rows(o, err);
    return rc ? rc : ctr_spool_reread(o->spool, &o->r, err);
}

static int reserve(struct once *o, int64_t rows, struct ctr_err *err)
{
    if (rows <= o->cap)
        return 0;
    free(o->idx);
    free(o->right);
    o->idx = malloc((size_t)rows * sizeof *o->idx);
    o->right = malloc((size_t)rows * sizeof *o->right);
    o->cap = o->idx && o->right ? rows : 0;
    return o->cap ? 0 : ctr_fail_nomem(err, (size_t)rows * sizeof *o->idx);
}

/* Rows of the batch to give: idx, and in `right` the same, or -1 where there is no match. */
static int64_t choose(struct once *o, const struct ctr_batch *b)
{
    const struct ctr_col *number = &b->col[b->schema->n - 1];
    const enum ctr_join_kind kind = o->j->once_kind;
    int64_t n = 0;
    for (int64_t i = 0; i < b->rows; i++) {
        const bool matched = !ctr_col_missing(number, i);
        const bool keeps = ctr_bit(o->keeps.data, o->rows++); /* only matched ones do */
        o->j->stats.given_up += matched && !keeps;
        o->idx[n] = i;
        o->right[n] = keeps ? i : -1;
        n += kind == CTR_JOIN_LEFT || (kind == CTR_JOIN_INNER) == keeps;
    }
    return n;
}

static int give(struct once *o, const struct ctr_batch *b, int64_t n, struct ctr_err *err)
{
    const int left = o->j->left.n;
    const struct ctr_batch lefts = { &o->j->left, b->rows, b->first_row, b->col };
    const bool all = n == b->rows;
    int rc = 0;
    if (!all) {
        ctr_batchbuf_clear(&o->left);
        rc = ctr_batchbuf_gather(&o->left, &lefts, o->idx, n, err);
    }
    for (int i = 0; !rc && i < left; i++)
        o->views[i] = all ? b->col[i] : *ctr_colbuf_view(&o->left.col[i]);
    for (int i = left; !rc && i < o->out.n; i++) {
        ctr_colbuf_clear(&o->rout[i]);
        rc = ctr_colbuf_gather(&o->rout[i], &b->col[i], o->right, n, err);
        o->views[i] = *ctr_colbuf_view(&o->rout[i]);
    }
    o->batch = (struct ctr_batch){ &o->out, n, o->rows - b->rows, o->views };
    return rc;
}

static int once_next(void *object, const struct ctr_batch **out, struct ctr_err *err)
{
    struct once *o = object;
    const struct ctr_batch *b;
    int rc = 0;
    while (o->r && (rc = ctr_reader_next(o->r, &b, err)) > 0) {
        if ((rc = reserve(o, b->rows, err)))
            return rc;
        const int64_t n = choose(o, b);
        if (!n)
            continue;
        *out = &o->batch;
        rc = give(o, b, n, err);
        return rc ? rc : 1;
    }
    if (!rc && o->r) { /* the end: the others have no match */
        struct ctr_join_stats *st = &o->j->stats;
        st->matched -= st->given_up;
        st->unmatched += st->given_up;
        ctr_reader_free(o->r);
        o->r = NULL;
    }
    return rc;
}

/* The join's columns without the numbers. */
static int once_columns(struct once *o, struct ctr_err *err)
{
    const struct ctr_schema *in = &o->j->out;
    int rc = ctr_meta_copy(&o->out.meta, &in->meta, err);
    for (int i = 0; !rc && i + 1 < in->n; i++)
        rc = ctr_schema_add_field(&o->out, &in->f[i], NULL, err);
    o->rout = calloc((size_t)in->n, sizeof *o->rout);
    o->views = calloc((size_t)in->n, sizeof *o->views);
    if (!rc && (!o->rout || !o->views))
        rc = ctr_fail_nomem(err, (size_t)in->n * sizeof *o->views);
    if (!rc)
        rc = ctr_batchbuf_init(&o->left, &o->j->left, err);
    for (int i = o->j->left.n; !rc && i < o->out.n; i++)
        rc = ctr_colbuf_init(&o->rout[i], &o->out.f[i], err);
    return rc;
}

int ctr_join_once_source(struct ctr_batch_source *s, struct ctr_join *j, struct ctr_err *err)
{
    static const struct ctr_push_ops ops = { once_schema, once_batch, once_finish, once_next, once_free };
    struct once *o = calloc(1, sizeof *o);
    if (!o)
        return ctr_fail_nomem(err, sizeof *o);
    o->j = j;
    int rc = once_columns(o, err);
    if (!rc)
        rc = ctr_spool_new(&o->spool, &j->out, err);
    if (!rc)
        rc = ctr_batch_source_push(s, &ops, o, err);
    if (rc)
        once_free(o);
    else
        o->owns = true;
    return rc;
}
