/* SPDX-License-Identifier: Apache-2.0
 *
 * signalstream: measures each signal of a stream, in one pass and constant memory.
 *
 * A signal that alone predicts the label almost perfectly probably contains it (a leak). A row's score is the click
 * rate of its value in the preceding rows, so that a value seen once reveals nothing about itself; rates are in a table
 * of RATES cells by hash, where collisions only blur them. A list's score is the mean of its items. */
#include <math.h>
#include <stdlib.h>

#include "common/metric/metric.h"
#include "tools/ctr-signals/signal.h"
#include "tools/ctr-signals/signalseen.h"

enum {
    RATES = 1 << 16,
    FORGET = 1 << 20, /* rows per cell, after which its counts are halved, keeping the rate; counts in float are exact
                         up to 2^24 */
    SCORES = 1024,    /* bins of log-odds, from -LOG_ODDS to LOG_ODDS */
    LOG_ODDS = 12,
    HLL_BITS = 12,
    HLL = 1 << HLL_BITS,
};

struct rate {
    float rows, clicks;
};

struct measured {
    char *name;
    int column;
    int32_t width;
    bool keys; /* values are already 64-bit keys */
    uint64_t missing_key;
    int64_t rows, missing;
    int64_t histogram[CTR_STREAM_CHECK_BUCKETS];
    double score[2][SCORES]; /* weight of labels 0 and 1 by score */
    uint8_t hll[HLL];
    struct rate rate[RATES];
    struct ctr_seen *seen; /* NULL: for quantities and times, whose values need not recur */
};

struct ctr_stream_check {
    struct measured **m;
    int n, label;
    double rows, clicks; /* with a label, so far */
    struct ctr_buf labels, hashes;
};

/* ---- columns ---- */

static int add_column(struct ctr_stream_check *v, const struct ctr_schema *s, int column, struct ctr_err *err)
{
    const struct ctr_field *f = &s->f[column];
    const char *table = ctr_meta_get(&f->meta, CTR_META_TABLE);
    struct measured *m = calloc(1, sizeof *m);
    if (!m)
        return ctr_fail_nomem(err, sizeof *m);
    enum ctr_type item = ctr_type_list(f->type) ? f->item : f->type;
    v->m[v->n++] = m;
    m->column = column;
    m->width = f->width;
    m->keys = ctr_field_role(f) == CTR_ROLE_FEATURE && (item == CTR_U64 || item == CTR_WKEY);
    m->missing_key = ctr_feature_key(ctr_table_seed(table ? table : f->name), "(missing)", 9);
    int rc = ctr_strdup(&m->name, f->name, err);
    bool number = !m->keys && (ctr_types[item].floating || item == CTR_TIME || ctr_field_role(f) == CTR_ROLE_DENSE);
    return rc || number ? rc : ctr_seen_new(&m->seen, err);
}

int ctr_stream_check_new(struct ctr_stream_check **out, const struct ctr_schema *s, int label, struct ctr_err *err)
{
    struct ctr_stream_check *v = calloc(1, sizeof *v);
    bool any = false;
    int rc = 0;
    if (!v)
        return ctr_fail_nomem(err, sizeof *v);
    v->label = label;
    v->m = calloc((size_t)s->n + 1, sizeof(*v->m));
    if (!v->m)
        rc = ctr_fail_nomem(err, (size_t)s->n * sizeof(*v->m));
    for (int i = 0; i < s->n; i++)
        any |= ctr_field_is_input(&s->f[i]);
    for (int i = 0; !rc && i < s->n; i++)
        if (i != label && (any ? ctr_field_is_input(&s->f[i]) : ctr_field_role(&s->f[i]) < 0))
            rc = add_column(v, s, i, err);
    if (!rc && !v->n)
        rc = ctr_fail(err, CTR_EDATA, "the stream has no signals: no column of role feature, dense or image");
    if (rc) {
        ctr_stream_check_free(v);
        return rc;
    }
    *out = v;
    return 0;
}

void ctr_stream_check_free(struct ctr_stream_check *v)
{
    if (!v)
        return;
    for (int i = 0; i < v->n; i++) {
        free(v->m[i]->name);
        ctr_seen_free(v->m[i]->seen);
        free(v->m[i]);
    }
    free(v->m);
    ctr_buf_free(&v->labels);
    ctr_buf_free(&v->hashes);
    free(v);
}

/* ---- a value ---- */

/* Zero, then powers of two for each sign: those from 2^-16 to 2^15 apart, others by their exponent modulo 31. */
static int number_bucket(double x)
{
    enum { EXPONENTS = 31, LEAST = -15 };
    int exponent;
    if (x == 0)
        return 0;
    if (isinf(x))
        return 32;
    frexp(x, &exponent);
    return (x < 0 ? 33 : 1) + ((exponent - LEAST) % EXPONENTS + EXPONENTS) % EXPONENTS;
}

/* Integers that float64 does not tell apart keep their own bits. */
static uint64_t number_hash(const struct ctr_col *c, int64_t i, double x)
{
    const int64_t whole = ctr_types[c->type].integer ? ctr_col_i64(c, i) : 0;
    return ctr_mix64(whole && fabs(x) > 0x1p53 ? ctr_hash64(&whole, sizeof whole, 0) : ctr_hash64(&x, sizeof x, 0));
}

static void count_value(struct measured *m, uint64_t hash, int bucket)
{
    uint64_t rest = hash << HLL_BITS | 1u << (HLL_BITS - 1);
    uint8_t zeros = (uint8_t)(__builtin_clzll(rest) + 1), *cell = &m->hll[hash >> (64 - HLL_BITS)];
    *cell = CTR_MAX(*cell, zeros);
    m->histogram[bucket]++;
    if (m->seen)
        ctr_seen_add(m->seen, hash);
}

/* The hash of value i; false: missing. */
static bool take_value(struct measured *m, const struct ctr_col *c, int64_t i, uint64_t *hash)
{
    if (ctr_col_missing(c, i))
        return false;
    int64_t at = i;
    const struct ctr_col *values = ctr_col_plain(c, &at);
    if (m->keys) {
        uint64_t key = ((const uint64_t *)values->data)[at];
        if (key == m->missing_key)
            return false;
        *hash = ctr_mix64(key);
        count_value(m, *hash, (int)(*hash % CTR_STREAM_CHECK_BUCKETS));
        return true;
    }
    if (ctr_types[values->type].floating || ctr_types[values->type].integer) {
        double x = ctr_col_f64(values, at);
        if (isnan(x))
            return false;
        *hash = number_hash(values, at, x);
        count_value(m, *hash, number_bucket(x));
        return true;
    }
    *hash = ctr_col_hash(values, at, 0);
    count_value(m, *hash, (int)(*hash % CTR_STREAM_CHECK_BUCKETS));
    return true;
}

/* ---- a row ---- */

/* The row's values as hashes; returns their number. */
static int64_t row_values(struct measured *m, const struct ctr_col *c, int64_t i, struct ctr_buf *hashes,
                          struct ctr_err *err)
{
    int64_t from = i, to = i + 1, n = 0;
    const struct ctr_col *item = c;
    enum ctr_type type = c->dict ? c->dict->type : c->type;
    if (ctr_type_list(type)) {
        from = to = 0;
        item = ctr_col_items(c, m->width, i, &from, &to);
    }
    ctr_buf_clear(hashes);
    if (!item)
        return 0;
    int rc = ctr_buf_reserve(hashes, (size_t)(to - from) * sizeof(uint64_t), err);
    uint64_t *h = (uint64_t *)(void *)hashes->data;
    for (int64_t k = from; !rc && k < to; k++)
        n += take_value(m, item, k, &h[n]);
    return rc ? rc : n;
}

static void learn_row(struct ctr_stream_check *v, struct measured *m, const uint64_t *hash, int64_t n, double label)
{
    double mean = v->rows > 0 ? v->clicks / v->rows : .5, score = 0;
    for (int64_t k = 0; k < n; k++) {
        const struct rate *r = &m->rate[hash[k] % RATES];
        score += ((double)r->clicks + mean) / ((double)r->rows + 1);
    }
    if (n)
        score /= (double)n;
    else {
        const struct rate *r = &m->rate[RATES - 1]; /* missing counts as a value */
        score = ((double)r->clicks + mean) / ((double)r->rows + 1);
    }
    double odds = log((score + 1e-9) / (1 - score + 1e-9));
    double at = (odds + LOG_ODDS) * (SCORES / (2. * LOG_ODDS));
    int cell = (int)CTR_MIN(CTR_MAX(at, 0), SCORES - 1);
    m->score[0][cell] += 1 - label;
    m->score[1][cell] += label;
    for (int64_t k = 0; k < CTR_MAX(n, 1); k++) {
        struct rate *r = &m->rate[n ? hash[k] % RATES : RATES - 1];
        if (r->rows >= FORGET) {
            r->rows /= 2;
            r->clicks /= 2;
        }
        r->rows++;
        r->clicks += (float)label;
    }
}

int ctr_stream_check_batch(struct ctr_stream_check *v, const struct ctr_batch *b, struct ctr_err *err)
{
    const double *label = NULL;
    double rows = v->rows, clicks = v->clicks;
    int rc = 0;
    if (v->label >= 0)
        rc = ctr_col_checked(&b->col[v->label], CTR_ROLE_LABEL, b->schema->f[v->label].name, b->first_row, &v->labels,
                             &label, err);
    for (int s = 0; s < v->n && !rc; s++) {
        struct measured *m = v->m[s];
        v->rows = rows;
        v->clicks = clicks;
        for (int64_t i = 0; i < b->rows && !rc; i++) {
            int64_t n = row_values(m, &b->col[m->column], i, &v->hashes, err);
            if (n < 0)
                return (int)n;
            m->rows++;
            m->missing += n == 0;
            if (!label)
                continue;
            learn_row(v, m, (const uint64_t *)(const void *)v->hashes.data, n, label[i]);
            v->rows++;
            v->clicks += label[i];
        }
    }
    return rc;
}

/* ---- results ---- */

int ctr_stream_check_columns(const struct ctr_stream_check *v)
{
    return v->n;
}

/* HyperLogLog (Flajolet and others, 2007), with linear counting for small numbers. */
static int64_t distinct(const uint8_t *hll)
{
    double sum = 0;
    int empty = 0;
    for (int i = 0; i < HLL; i++) {
        sum += ldexp(1, -hll[i]);
        empty += hll[i] == 0;
    }
    double estimate = .7213 / (1 + 1.079 / HLL) * HLL * HLL / sum;
    if (estimate < 2.5 * HLL && empty)
        estimate = HLL * log((double)HLL / empty);
    return (int64_t)llround(estimate);
}

/* Counts pairs of a 1 and a 0 in which the 1 scores higher; equal bins count half. */
static double auc(double (*score)[SCORES])
{
    double below = 0, ones = 0, pairs = 0;
    for (int i = 0; i < SCORES; i++) {
        pairs += score[1][i] * (below + score[0][i] / 2);
        below += score[0][i];
        ones += score[1][i];
    }
    return ones > 0 && below > 0 ? pairs / (ones * below) : NAN;
}

void ctr_stream_check_result(const struct ctr_stream_check *v, int i, struct ctr_stream_check_result *r)
{
    struct measured *m = v->m[i];
    *r = (struct ctr_stream_check_result){ .name = m->name, .rows = m->rows, .missing = m->missing, .seen = m->seen };
    r->distinct = distinct(m->hll);
    r->auc = v->label >= 0 ? auc(m->score) : NAN;
    memcpy(r->histogram, m->histogram, sizeof r->histogram);
}

double ctr_stream_check_psi(const double *now, const double *before, double *noise)
{
    struct ctr_stability_cell cell[CTR_STREAM_CHECK_CELLS];
    int n = 0;
    for (int i = 0; i < CTR_STREAM_CHECK_CELLS; i++)
        if (now[i] > 0 || before[i] > 0)
            cell[n++] = (struct ctr_stability_cell){ now[i], before[i] };
    const struct ctr_stability_cell all = ctr_stability_total(cell, n);
    *noise = n ? (n - 1) * (1 / (all.now + .5 * n) + 1 / (all.ref + .5 * n)) : 0;
    return ctr_stability(cell, n);
}
