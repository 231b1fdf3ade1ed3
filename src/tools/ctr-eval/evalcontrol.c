/* SPDX-License-Identifier: Apache-2.0
 *
 * evalcontrol: reads the scores of another model on the same rows in parallel with the main stream, and checks that the
 * rows are the same.
 */
#include "tools/ctr-eval/evalcontrol.h"

#include <math.h>
#include <stdlib.h>

/* The columns that identify rows: label, weight, id, user, time. In both streams; -1: absent. */
enum { PARTS = 5 };
static const struct {
    enum ctr_role role;
    const char *say;
} parts[PARTS] = {
    { CTR_ROLE_LABEL, "another label" }, { CTR_ROLE_WEIGHT, "another weight" }, { CTR_ROLE_ID, "another id" },
    { CTR_ROLE_USER, "another user" },   { CTR_ROLE_TIME, "another time" },
};

struct ctr_eval_control {
    struct ctr_reader *r;
    char *path;
    int part[PARTS], score;         /* columns of the control */
    const struct ctr_batch *b;      /* NULL before the first and after the last */
    int64_t at;                     /* row of b */
    const double *scores;           /* of b */
    struct ctr_buf batch, score_of; /* their storage; those of the main batch */
};

/* A role option may name a column that only the main stream has. */
static int find(const struct ctr_schema *s, enum ctr_role role, const char *const *names, bool need, int *column,
                struct ctr_err *err)
{
    *column = -1;
    return !need && names[role] && ctr_schema_find(s, names[role]) < 0
               ? 0
               : ctr_schema_find_role(s, role, names[role], need, column, err);
}

/* Find the columns and project to them. */
static int project(struct ctr_eval_control *c, const char *const *names, struct ctr_err *err)
{
    const struct ctr_schema *s = ctr_reader_schema(c->r);
    struct ctr_metric_columns m = { -1, -1, -1, -1, -1 };
    int keep[PARTS + 1], n = 0, rc;

    for (int i = 0; i < PARTS; i++) {
        if ((rc = find(s, parts[i].role, names, parts[i].role == CTR_ROLE_LABEL, &keep[n], err)))
            return rc;
        c->part[i] = keep[n] < 0 ? -1 : n;
        n += keep[n] >= 0;
    }
    c->score = n;
    if ((rc = find(s, CTR_ROLE_SCORE, names, true, &keep[n], err)) || (rc = ctr_reader_project(c->r, keep, n + 1, err)))
        return rc;
    m.label = c->part[0];
    m.weight = c->part[1];
    m.score = c->score;
    m.user = c->part[3];
    m.time = c->part[4];
    return ctr_metric_columns_check(&m, ctr_reader_schema(c->r), err);
}

int ctr_eval_control_open(struct ctr_eval_control **out, const char *path, const char *const *names,
                          struct ctr_err *err)
{
    struct ctr_eval_control *c = *out = calloc(1, sizeof *c);
    char *paths[] = { (char *)(uintptr_t)path };
    int rc = c ? ctr_strdup(&c->path, path, err) : ctr_fail_nomem(err, sizeof *c);

    if (!rc)
        rc = ctr_reader_open(&c->r, paths, 1, NULL, err);
    if (!rc)
        rc = project(c, names, err);
    if (rc)
        ctr_err_file(err, path);
    return rc;
}

void ctr_eval_control_free(struct ctr_eval_control *c)
{
    if (!c)
        return;
    ctr_reader_free(c->r);
    ctr_buf_free(&c->batch);
    ctr_buf_free(&c->score_of);
    free(c->path);
    free(c);
}

bool ctr_eval_control_narrow(const struct ctr_eval_control *c)
{
    return ctr_reader_schema(c->r)->f[c->score].type != CTR_F64;
}

static int not_same(const struct ctr_eval_control *c, int64_t row, const char *what, struct ctr_err *err)
{
    return ctr_fail(err, CTR_EDATA, "row %lld: %s has %s: --control wants the same rows in the same order",
                    (long long)row, c->path, what);
}

/* Values of any width and encoding: 4 is 4.0. */
static bool same_value(const struct ctr_col *a, int64_t i, const struct ctr_col *b, int64_t j)
{
    const bool null = ctr_col_missing(a, i);
    if (null || ctr_col_missing(b, j))
        return null == ctr_col_missing(b, j);
    if (a->type != b->type &&
        (a->type == CTR_UTF8 || b->type == CTR_UTF8 || ctr_type_list(a->type) || ctr_type_list(b->type)))
        return false;
    if (ctr_type_list(a->type))
        return !ctr_col_compare(a, i, b, j);
    if (a->type == CTR_UTF8) {
        const struct ctr_str s = ctr_col_str(a, i), t = ctr_col_str(b, j);
        return s.n == t.n && !memcmp(s.p, t.p, s.n);
    }
    if (ctr_types[a->type].floating || ctr_types[b->type].floating) {
        const double x = ctr_col_f64(a, i), y = ctr_col_f64(b, j);
        return x == y || (isnan(x) && isnan(y));
    }
    const int64_t x = ctr_col_i64(a, i), y = ctr_col_i64(b, j);
    return x == y && (x >= 0 || (a->type == CTR_U64) == (b->type == CTR_U64));
}

/* Are row i of the main stream and row j of the control equal in every common column? */
static int same_row(const struct ctr_eval_control *c, const int *main, const struct ctr_batch *x, int64_t i, int64_t j,
                    struct ctr_err *err)
{
    for (int k = 0; k < PARTS; k++)
        if (main[k] >= 0 && c->part[k] >= 0 && !same_value(&x->col[main[k]], i, &c->b->col[c->part[k]], j))
            return not_same(c, x->first_row + i + 1, parts[k].say, err);
    return 0;
}

/* Read the next batch of the control and check its scores: 1, or 0 at its end. */
static int next(struct ctr_eval_control *c, struct ctr_err *err)
{
    const char *name = ctr_reader_schema(c->r)->f[c->score].name;
    int rc = ctr_reader_next(c->r, &c->b, err), bad;

    c->at = 0;
    if (rc <= 0) {
        c->b = NULL;
        return rc;
    }
    bad = ctr_col_checked(&c->b->col[c->score], CTR_ROLE_SCORE, name, c->b->first_row, &c->batch, &c->scores, err);
    if (bad)
        ctr_err_file(err, c->path);
    return bad ? bad : 1;
}

int ctr_eval_control_scores(struct ctr_eval_control *c, const struct ctr_metric_columns *columns, int id,
                            const struct ctr_batch *b, const double **scores, struct ctr_err *err)
{
    const int main[PARTS] = { columns->label, columns->weight, id, columns->user, columns->time };
    int rc;

    ctr_buf_clear(&c->score_of);
    for (int64_t i = 0, n; i < b->rows; i += n, c->at += n) {
        while (!c->b || c->at == c->b->rows) {
            if ((rc = next(c, err)) < 0)
                return rc;
            if (!rc)
                return not_same(c, b->first_row + i + 1, "fewer rows", err);
        }
        n = CTR_MIN(b->rows - i, c->b->rows - c->at);
        for (int64_t k = 0; k < n; k++)
            if ((rc = same_row(c, main, b, i + k, c->at + k, err)))
                return rc;
        if ((rc = ctr_buf_append(&c->score_of, c->scores + c->at, (size_t)n * sizeof(double), err)))
            return rc;
    }
    *scores = (const double *)(const void *)c->score_of.data;
    return 0;
}

int ctr_eval_control_end(struct ctr_eval_control *c, int64_t rows, struct ctr_err *err)
{
    int rc = 1;

    while (rc > 0 && (!c->b || c->at == c->b->rows))
        rc = next(c, err);
    return rc > 0 ? not_same(c, rows + 1, "more rows", err) : rc;
}
