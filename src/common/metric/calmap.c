/* SPDX-License-Identifier: Apache-2.0
 *
 * calmap: saves, loads and applies a calibration map, which is an ordinary stream. A loaded map has been checked: it is
 * monotone, and its values are probabilities. */
#include "common/metric/calstate.h"

#include <math.h>
#include <stdlib.h>

static const char *const kinds[CTR_CAL_KINDS] = { "isotonic-linear", "isotonic-constant", "power", "platt" };

const char *ctr_cal_kind_name(enum ctr_cal_kind kind)
{
    return kinds[kind];
}

enum { BY, SLICE, KIND, NAME, SCORE, VALUE, COLUMNS };
static const struct {
    const char *name;
    enum ctr_type type;
} columns[COLUMNS] = { { "by", CTR_UTF8 },   { "slice", CTR_UTF8 }, { "kind", CTR_UTF8 },
                       { "name", CTR_UTF8 }, { "score", CTR_F64 },  { "value", CTR_F64 } };

double ctr_cal_log(double score)
{
    return ctr_log(CTR_MAX(score, CTR_CAL_EDGE));
}

double ctr_cal_logit(double score)
{
    double p = CTR_MIN(CTR_MAX(score, CTR_CAL_EDGE), 1 - CTR_CAL_EDGE);

    return ctr_log(p) - ctr_log(1 - p);
}

/* ---- parts ---- */

int ctr_cal_part_add(struct ctr_cal_map *m, const char *text, size_t n, struct ctr_err *err)
{
    uint32_t id = 0;
    int rc = ctr_array_grow(&m->part, m->n, &m->cap, sizeof *m->part, err);

    if (rc)
        return rc;
    m->part[m->n] = (struct ctr_cal_part){ .text_bytes = n };
    if (text && (rc = ctr_memdup(&m->part[m->n].text, text, n, err)))
        return rc;
    if (m->n++ && (rc = ctr_idmap_get(&m->ids, ctr_cal_hash(text, n), &id, err)))
        return rc;
    if (m->n > 1 && (int)id != m->n - 2)
        return ctr_fail(err, CTR_EDATA, CTR_SAME_HASH);
    return m->n - 1;
}

void ctr_cal_map_free(struct ctr_cal_map *m)
{
    if (!m)
        return;
    for (int i = 0; i < m->n; i++) {
        free(m->part[i].text);
        ctr_buf_free(&m->part[i].knots);
    }
    free(m->part);
    free(m->by);
    ctr_idmap_free(&m->ids);
    free(m);
}

const char *ctr_cal_map_by(const struct ctr_cal_map *m)
{
    return m->by;
}

/* ---- applying ---- */

int ctr_cal_map_slice(const struct ctr_cal_map *m, const char *text, size_t n)
{
    const struct ctr_index_slot *s = m->ids.index.cap ? ctr_idmap_slot(&m->ids, ctr_cal_hash(text, n)) : NULL;

    const struct ctr_cal_part *p = !s || s->number == CTR_INDEX_FREE ? NULL : &m->part[s->number + 1];
    return p && ctr_cal_same(text, n, p->text, p->text_bytes) ? (int)s->number + 1 : 0;
}

/* The knot at or below `score`, which must be in the fitted range. Without branches: scores are unordered, so half of
 * the branches would be mispredicted. */
static const struct ctr_knot *find_knot(const struct ctr_knot *k, int64_t n, double score)
{
    for (int64_t left = n - 1, half; left > 1; left -= half) { /* it is one of k[0 .. left) */
        half = left / 2;
        k = k[half].score <= score ? k + half : k;
    }
    return k;
}

static double isotonic(const struct ctr_cal_part *p, double score)
{
    const struct ctr_knot *k = (const struct ctr_knot *)p->knots.data, *a;
    int64_t n = (int64_t)(p->knots.len / sizeof *k);
    double v;

    if (score <= k[0].score)
        return k[0].value;
    if (score >= k[n - 1].score)
        return k[n - 1].value;
    a = find_knot(k, n, score);
    if (p->kind == CTR_CAL_ISOTONIC_CONSTANT)
        return a->value;
    v = a->value + (a[1].value - a->value) * ((score - a->score) / (a[1].score - a->score));
    return CTR_MIN(v, a[1].value);
}

static double inside(double v)
{
    return CTR_MIN(CTR_MAX(v, CTR_CAL_EDGE), 1 - CTR_CAL_EDGE);
}

double ctr_cal_map_apply(const struct ctr_cal_map *m, int slice, double score)
{
    const struct ctr_cal_part *p = &m->part[m->part[slice].mapped ? slice : 0];
    double x;

    switch (p->kind) {
    case CTR_CAL_POWER: x = p->a + p->b * ctr_cal_log(score); return inside(x < 0 ? ctr_exp(x) : 1);
    case CTR_CAL_PLATT: return inside(ctr_sigmoid(p->a + p->b * ctr_cal_logit(score)));
    default: return isotonic(p, score);
    }
}

/* ---- saving ---- */

int ctr_cal_map_schema(struct ctr_schema *s, struct ctr_err *err)
{
    for (int i = 0; i < COLUMNS; i++) {
        int rc = ctr_schema_add(s, columns[i].name, columns[i].type, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int put_text(struct ctr_colbuf *c, const char *text, struct ctr_err *err)
{
    return text ? ctr_colbuf_str(c, text, strlen(text), err) : ctr_colbuf_null(c, err);
}

static int put_row(const struct ctr_cal_map *m, const struct ctr_cal_part *p, const char *name, const double *score,
                   double value, struct ctr_batchbuf *rows, struct ctr_err *err)
{
    int rc;

    if ((rc = put_text(&rows->col[BY], p == m->part ? NULL : m->by, err)) ||
        (rc = p->text ? ctr_colbuf_str(&rows->col[SLICE], p->text, p->text_bytes, err)
                      : ctr_colbuf_null(&rows->col[SLICE], err)) ||
        (rc = put_text(&rows->col[KIND], kinds[p->kind], err)) || (rc = put_text(&rows->col[NAME], name, err)) ||
        (rc = score ? ctr_colbuf_f64(&rows->col[SCORE], *score, err) : ctr_colbuf_null(&rows->col[SCORE], err)))
        return rc;
    return ctr_colbuf_f64(&rows->col[VALUE], value, err);
}

/* The names of the two parameters. */
static const struct {
    const char *a, *b;
} names[CTR_CAL_KINDS] = { [CTR_CAL_POWER] = { "gamma", "kappa" }, [CTR_CAL_PLATT] = { "intercept", "slope" } };

static int put_part(const struct ctr_cal_map *m, const struct ctr_cal_part *p, struct ctr_batchbuf *rows,
                    struct ctr_err *err)
{
    const struct ctr_knot *k = (const struct ctr_knot *)p->knots.data;
    int rc = 0;

    if (!p->mapped)
        return 0;
    if (names[p->kind].a) {
        rc = put_row(m, p, names[p->kind].a, NULL, p->kind == CTR_CAL_POWER ? ctr_exp(p->a) : p->a, rows, err);
        return rc ? rc : put_row(m, p, names[p->kind].b, NULL, p->b, rows, err);
    }
    for (size_t i = 0; !rc && i < p->knots.len / sizeof *k; i++)
        rc = put_row(m, p, "knot", &k[i].score, k[i].value, rows, err);
    return rc;
}

static int part_order(const void *a, const void *b)
{
    const struct ctr_cal_part *x = *(const struct ctr_cal_part *const *)a, *y = *(const struct ctr_cal_part *const *)b;

    if (!x->text || !y->text)
        return !x->text - !y->text;
    int d = memcmp(x->text, y->text, CTR_MIN(x->text_bytes, y->text_bytes));
    return d ? d : (x->text_bytes > y->text_bytes) - (x->text_bytes < y->text_bytes);
}

/* The global map first, then slices by text, null last. */
int ctr_cal_map_rows(const struct ctr_cal_map *m, struct ctr_batchbuf *rows, struct ctr_err *err)
{
    const struct ctr_cal_part **order = calloc((size_t)m->n, sizeof *order);
    int rc = 0;

    if (!order)
        return ctr_fail_nomem(err, (size_t)m->n * sizeof *order);
    for (int i = 0; i < m->n; i++)
        order[i] = &m->part[i];
    qsort(order + 1, (size_t)m->n - 1, sizeof *order, part_order);
    for (int i = 0; !rc && i < m->n; i++)
        rc = put_part(m, order[i], rows, err);
    free(order);
    return rc;
}

/* ---- loading ---- */

static int check_schema(const struct ctr_schema *s, int *at, struct ctr_err *err)
{
    for (int i = 0; i < COLUMNS; i++) {
        at[i] = ctr_schema_find(s, columns[i].name);
        if (at[i] < 0)
            return ctr_fail(err, CTR_EDATA,
                            "not a calibration map: it has no column %s (ctr-calibrate --fit makes maps)",
                            columns[i].name);
        if (s->f[at[i]].type != columns[i].type)
            return ctr_fail(err, CTR_EDATA, "not a calibration map: column %s is not %s", columns[i].name,
                            ctr_types[columns[i].type].name);
    }
    return 0;
}

struct loading {
    struct ctr_cal_map *m;
    int at[COLUMNS];
    int part;      /* being read; -1: none */
    unsigned have; /* bit set of the parameters read */
    bool global;
};

static bool text_is(struct ctr_str s, const char *t)
{
    return s.n == strlen(t) && !memcmp(s.p, t, s.n);
}

static int bad(struct ctr_err *err, int64_t row, const char *what)
{
    return ctr_fail(err, CTR_EDATA, "not a calibration map: row %lld: %s", (long long)row, what);
}

/* Is the part just read complete? */
static int part_end(const struct loading *l, int64_t row, struct ctr_err *err)
{
    const struct ctr_cal_part *p = l->part < 0 ? NULL : &l->m->part[l->part];

    if (p && names[p->kind].a && l->have != 3)
        return bad(err, row, "a slice lacks a parameter");
    return 0;
}

static int kind_of(struct ctr_str s)
{
    for (int i = 0; i < CTR_CAL_KINDS; i++)
        if (text_is(s, kinds[i]))
            return i;
    return -1;
}

/* The part of a row: the current one, or a new one. */
static int part_row(struct loading *l, const struct ctr_col *by, const struct ctr_col *slice, int64_t i, int kind,
                    int64_t row, struct ctr_err *err)
{
    bool global = ctr_col_missing(by, i), null = ctr_col_missing(slice, i);
    struct ctr_str s = null ? (struct ctr_str){ NULL, 0 } : ctr_col_str(slice, i);
    struct ctr_cal_map *m = l->m;
    struct ctr_cal_part *p = l->part < 0 ? NULL : &m->part[l->part];
    int rc, k;

    if (p && (l->part == 0) == global &&
        (null ? !p->text : p->text && s.n == p->text_bytes && !memcmp(s.p, p->text, s.n)))
        return (int)p->kind == kind ? 0 : bad(err, row, "a slice has two kinds");
    if ((rc = part_end(l, row, err)))
        return rc;
    if (l->global == global)
        return bad(err, row,
                   global ? "the global map is not the first, or comes twice" : "the global map must come first");
    if (!global && !m->by) {
        const struct ctr_str b = ctr_col_str(by, i);
        if ((rc = ctr_memdup(&m->by, b.p, b.n, err)))
            return rc;
    }
    if (!global && !text_is(ctr_col_str(by, i), m->by))
        return bad(err, row, "it is by two columns");
    if (!global && ctr_cal_map_slice(m, s.p, s.n))
        return bad(err, row, "a slice comes twice");
    if ((k = ctr_cal_part_add(m, s.p, s.n, err)) < 0)
        return k;
    m->part[k].kind = (enum ctr_cal_kind)kind;
    m->part[k].mapped = true;
    l->part = k;
    l->have = 0;
    l->global = true;
    return 0;
}

static int knot_row(struct ctr_cal_part *p, double score, double value, int64_t row, struct ctr_err *err)
{
    const struct ctr_knot *last = p->knots.len ? (const struct ctr_knot *)(p->knots.data + p->knots.len) - 1 : NULL;
    struct ctr_knot k = { score, value };

    if (!(score >= 0 && score <= 1 && value >= 0 && value <= 1))
        return bad(err, row, "a knot's score and value must be in [0, 1]");
    if (last && !(score > last->score && value >= last->value))
        return bad(err, row, "it is not monotone: knots must ascend");
    return ctr_buf_append(&p->knots, &k, sizeof k, err);
}

static int parameter_row(struct loading *l, struct ctr_cal_part *p, struct ctr_str name, double value, int64_t row,
                         struct ctr_err *err)
{
    bool second = text_is(name, names[p->kind].b);

    if (!second && !text_is(name, names[p->kind].a))
        return bad(err, row, "an unknown parameter");
    if (l->have & (second ? 2 : 1))
        return bad(err, row, "a parameter comes twice");
    if (!isfinite(value) || (second && !(value > 0)))
        return bad(err, row,
                   second ? "it is not monotone: kappa and slope must be positive" : "a parameter is not finite");
    if (p->kind == CTR_CAL_POWER && !second && !(value > 0))
        return bad(err, row, "gamma must be positive");
    *(second ? &p->b : &p->a) = p->kind == CTR_CAL_POWER && !second ? ctr_log(value) : value;
    l->have |= second ? 2 : 1;
    return 0;
}

static int load_row(struct loading *l, const struct ctr_batch *b, int64_t i, struct ctr_err *err)
{
    const struct ctr_col *c[COLUMNS];
    struct ctr_cal_part *p;
    int64_t row = b->first_row + i + 1;
    int kind, rc;

    for (int k = 0; k < COLUMNS; k++)
        c[k] = &b->col[l->at[k]];
    if (ctr_col_missing(c[KIND], i) || ctr_col_missing(c[NAME], i) || ctr_col_missing(c[VALUE], i))
        return bad(err, row, "kind, name and value must not be null");
    if ((kind = kind_of(ctr_col_str(c[KIND], i))) < 0)
        return bad(err, row, "an unknown kind");
    if ((rc = part_row(l, c[BY], c[SLICE], i, kind, row, err)))
        return rc;
    p = &l->m->part[l->part];
    if (names[kind].a)
        return parameter_row(l, p, ctr_col_str(c[NAME], i), ctr_col_f64(c[VALUE], i), row, err);
    if (!text_is(ctr_col_str(c[NAME], i), "knot") || ctr_col_missing(c[SCORE], i))
        return bad(err, row, "an isotonic map has knots only, with a score each");
    return knot_row(p, ctr_col_f64(c[SCORE], i), ctr_col_f64(c[VALUE], i), row, err);
}

static int load(struct loading *l, struct ctr_reader *r, struct ctr_err *err)
{
    const struct ctr_batch *b;
    int rc = check_schema(ctr_reader_schema(r), l->at, err);

    if (rc)
        return rc;
    while ((rc = ctr_reader_next(r, &b, err)) > 0)
        for (int64_t i = 0; i < b->rows; i++)
            if ((rc = load_row(l, b, i, err)))
                return rc;
    if (rc || (rc = part_end(l, ctr_reader_rows(r), err)))
        return rc;
    return l->global ? 0 : ctr_fail(err, CTR_EDATA, "not a calibration map: it is empty");
}

int ctr_cal_map_load(struct ctr_cal_map **m, const char *path, struct ctr_err *err)
{
    struct loading l = { .part = -1 };
    struct ctr_reader *r = NULL;
    char *paths[] = { (char *)(uintptr_t)path };
    int rc;

    *m = NULL;
    if ((rc = ctr_reader_open(&r, paths, 1, NULL, err)))
        return rc;
    l.m = calloc(1, sizeof *l.m);
    rc = l.m ? load(&l, r, err) : ctr_fail_nomem(err, sizeof *l.m);
    ctr_reader_free(r);
    if (rc) {
        ctr_err_file(err, path);
        ctr_cal_map_free(l.m);
    } else {
        *m = l.m;
    }
    return rc;
}
