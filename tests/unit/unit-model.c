/* SPDX-License-Identifier: Apache-2.0
 *
 * The learner below the tools: kernels agree bit for bit, rows are made as documented, a long row trains like Algorithm
 * 1 written out, the memory bound holds, hostile values are errors. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/deep/deep.h"
#include "common/lr/lr.h"
#include "common/table/table.h"

#include "ftrl_plain.h"
#include "tap.h"

enum { LONGEST = 70 };

static void test_kernel(const struct ctr_isa *k, const struct ctr_isa *judge, int state)
{
    struct ctr_learning p = { .inv_alpha = 1 / 0.3, .beta = 0.7, .l1 = 0.25, .l2 = 0.1 };
    static uint8_t row[2][LONGEST][24];
    static uint8_t spare[24];
    uint8_t *at[2][80];
    _Alignas(64) double z[2][80], n[2][80], w[2][80], root[2][80], x[80];
    bool same = true;
    for (int len = 0; len <= LONGEST; len++) {
        double dot[2];
        for (int i = 0; i < len; i++) {
            double v[2] = { ctr_random01(1, (uint64_t)len, (uint64_t)i) * 4 - 2,
                            ctr_random01(2, (uint64_t)len, (uint64_t)i) };
            float f[2] = { (float)v[0], (float)v[1] };
            for (int s = 0; s < 2; s++) {
                at[s][i] = row[s][i];
                memset(row[s][i], 0, 24);
                memcpy(row[s][i] + 8, state == CTR_F64_STATE ? (void *)v : (void *)f, state == CTR_F64_STATE ? 16 : 8);
            }
            x[i] = i % 3 ? 1 : v[0];
        }
        for (int i = len; i < 80; i++) {
            x[i] = 0;
            at[0][i] = at[1][i] = spare;
        }
        for (int s = 0; s < 2; s++) {
            const struct ctr_isa *which = s ? judge : k;
            struct ctr_coords scratch = { z[s], n[s], w[s], root[s], x, NULL };
            dot[s] = which->fused[CTR_RATE_SQUARES][state].forward(&p, &scratch, at[s], len);
            which->fused[CTR_RATE_SQUARES][state].update(&p, &scratch, at[s], len, 0.37);
        }
        same &= memcmp(&dot[0], &dot[1], sizeof dot[0]) == 0 && memcmp(row[0], row[1], sizeof row[0]) == 0;
    }
    ok(same, "kernel %s, %s: the bits of %s for rows of 0 to %d", k->name, state == CTR_F64_STATE ? "f64" : "f32",
       judge->name, LONGEST);
}

/* Rows of every length, with values and weights: a kernel's steps, by two states of each key, against the plain loop.
 */
static void test_kernel_plain(const struct ctr_isa *k, int state, double tolerance)
{
    enum { ROOM = 80 };
    struct ctr_learning p = { .inv_alpha = 1 / 0.3, .beta = 0.7, .l1 = 0.25, .l2 = 0.1 };
    static uint8_t row[LONGEST][24], spare[24];
    double pz[LONGEST] = { 0 }, pn[LONGEST] = { 0 }, worst = 0;
    struct ctr_ftrl_plain plain = { 0.3, p.beta, p.l1, p.l2, pz, pn };
    _Alignas(64) double z[ROOM], n[ROOM], w[ROOM], root[ROOM], x[ROOM];
    uint8_t *at[ROOM];
    int64_t i[LONGEST];
    memset(row, 0, sizeof row);
    for (int round = 0; round < 20; round++)
        for (int len = 1; len <= LONGEST; len++) {
            struct ctr_coords scratch = { z, n, w, root, x, NULL };
            const double y = (round + len) % 3 == 0, weight = 1 + round % 4;
            for (int j = 0; j < ROOM; j++) {
                x[j] = j < len ? ctr_random01(3, (uint64_t)round, (uint64_t)j) * 2 - 1 : 0;
                at[j] = j < len ? row[j] : spare;
                if (j < len)
                    i[j] = j;
            }
            const double q = 1 / (1 + exp(-k->fused[CTR_RATE_SQUARES][state].forward(&p, &scratch, at, len)));
            k->fused[CTR_RATE_SQUARES][state].update(&p, &scratch, at, len, weight * (q - y));
            worst = fmax(worst, fabs(q - ctr_ftrl_plain_row(&plain, i, x, len, y, weight)));
        }
    ok(worst < tolerance, "kernel %s, %s: predictions of the plain loop, to %.2g", k->name,
       state == CTR_F64_STATE ? "f64" : "f32", worst);
}

/* A batch with one list<uint64> column and a label. */
struct fixture {
    struct ctr_schema schema;
    struct ctr_batchbuf rows;
    struct ctr_strs tables;
    struct ctr_inputs *in;
    struct ctr_err err;
};

static void open_fixture(struct fixture *f)
{
    memset(f, 0, sizeof *f);
    int rc = ctr_schema_add(&f->schema, "y", CTR_F64, &f->err) || ctr_schema_add(&f->schema, "w", CTR_F64, &f->err) ||
             ctr_schema_add(&f->schema, "keys", CTR_LIST, &f->err) ||
             ctr_schema_add(&f->schema, "age", CTR_F64, &f->err);
    f->schema.f[2].item = CTR_U64;
    rc |= ctr_field_set_role(&f->schema.f[2], CTR_ROLE_FEATURE, &f->err) ||
          ctr_field_set_role(&f->schema.f[3], CTR_ROLE_DENSE, &f->err) ||
          ctr_batchbuf_init(&f->rows, &f->schema, &f->err) ||
          ctr_inputs_new(&f->in, &f->schema, 0, 1, NULL, &f->tables, &f->err);
    ok(!rc, "a fixture (%s)", f->err.what);
}

static void close_fixture(struct fixture *f)
{
    ctr_inputs_free(f->in);
    ctr_strs_free(&f->tables);
    ctr_batchbuf_free(&f->rows);
    ctr_schema_free(&f->schema);
}

static int add(struct fixture *f, double y, double w, const uint64_t *key, int n, double age)
{
    int rc = ctr_colbuf_f64(&f->rows.col[0], y, &f->err) || ctr_colbuf_f64(&f->rows.col[1], w, &f->err) ||
             ctr_colbuf_f64(&f->rows.col[3], age, &f->err);
    for (int i = 0; i < n && !rc; i++)
        rc = ctr_colbuf_i64(f->rows.col[2].item, (int64_t)key[i], &f->err);
    return rc || ctr_colbuf_close(&f->rows.col[2], &f->err);
}

static void test_rows(void)
{
    struct fixture f;
    struct ctr_rows r;
    open_fixture(&f);
    const uint64_t keys[] = { 7, 9, 7, 7, 11 };
    int rc = add(&f, 1, 2, keys, 5, 0.5) || add(&f, 0, 1, keys, 0, 0);
    rc = rc || ctr_inputs_batch(f.in, ctr_batchbuf_view(&f.rows), &f.err) ||
         ctr_inputs_rows(f.in, NULL, 0, 2, &r, &f.err);
    ok(!rc && r.rows == 2 && r.start[1] == 4 && r.start[2] == 4, "repeated keys are one entry, x = 0 is none");
    ok(!rc && r.x[0] == 0.5 && r.hash[0] == ctr_key_hash(ctr_dense_key(ctr_table_seed("age"), -1)),
       "columns come in the order of their names");
    ok(!rc && r.hash[1] == ctr_key_hash(7) && r.x[1] == 3 && r.x[2] == 1 && r.x[3] == 1,
       "x of repeated keys is summed");
    ok(!rc && r.label[0] == 1 && r.weight[0] == 2 && r.weight[1] == 1, "label and weight");
    close_fixture(&f);

    static const struct {
        double y, w, age;
        const char *say;
    } bad[] = {
        { 2, 1, 0, "row 2: the label (column y) is 2" },           { NAN, 1, 0, "row 2: the label (column y) is nan" },
        { -.5, 1, 0, "row 2: the label (column y) is -0.5" },      { 1, -1, 0, "row 2: the weight (column w) is -1" },
        { 1, INFINITY, 0, "row 2: the weight (column w) is inf" }, { 1, NAN, 0, "row 2: the weight (column w) is nan" },
        { 1, 1, NAN, "row 2: a value of column age is NaN" }
    };
    for (size_t i = 0; i < CTR_COUNT(bad); i++) {
        open_fixture(&f);
        rc = add(&f, 1, 1, keys, 1, 1) || add(&f, bad[i].y, bad[i].w, keys, 1, bad[i].age);
        rc = rc ? rc : ctr_inputs_batch(f.in, ctr_batchbuf_view(&f.rows), &f.err);
        rc = rc ? rc : ctr_inputs_rows(f.in, NULL, 0, 2, &r, &f.err);
        ok(rc == CTR_EDATA && strstr(f.err.what, bad[i].say), "error: %s", f.err.what);
        close_fixture(&f);
    }
}

/* Long rows over a growing table, against the plain loop over an array: each engine that learns lr. */
enum { TRAIN_KEYS = 60000, TRAIN_ROWS = 3000, TRAIN_WIDE = 50 };
struct engine {
    const char *what, *precision, *device;
    const struct ctr_model *model;
    int64_t minibatch;
    double tolerance;
};

/* The plain loop by minibatches: all gradients with the weights at the start. Row i has its keys and the bias. */
static void plain_minibatch(struct ctr_ftrl_plain *f, const uint64_t *keys, int from, int n, double *p)
{
    static double w[TRAIN_KEYS + 1];
    for (int64_t c = 0; c <= TRAIN_KEYS; c++)
        w[c] = ctr_ftrl_plain_weight(f, c);
    for (int i = from; i < from + n; i++) {
        double sum = w[TRAIN_KEYS];
        for (int j = 0; j < TRAIN_WIDE; j++)
            sum += w[keys[i * TRAIN_WIDE + j]];
        p[i] = 1 / (1 + exp(-sum));
        const double g = p[i] - (i % 3 == 0);
        for (int j = 0; j <= TRAIN_WIDE; j++) {
            const int64_t c = j < TRAIN_WIDE ? (int64_t)keys[i * TRAIN_WIDE + j] : TRAIN_KEYS;
            f->z[c] += g - (sqrt(f->n[c] + g * g) - sqrt(f->n[c])) / f->alpha * w[c];
            f->n[c] += g * g;
        }
    }
}

/* Predictions of the plain loop before each update. */
static void plain_scores(const struct engine *e, const struct ctr_params *p, const uint64_t *keys, double *score)
{
    double *z = calloc(TRAIN_KEYS + 1, sizeof *z), *n = calloc(TRAIN_KEYS + 1, sizeof *n);
    struct ctr_ftrl_plain plain = { p->lr.alpha, p->lr.beta, p->lr.l1, p->lr.l2, z, n };
    for (int i = 0; i < TRAIN_ROWS; i += (int)e->minibatch) {
        int64_t at[TRAIN_WIDE + 1];
        for (int j = 0; j < TRAIN_WIDE; j++)
            at[j] = (int64_t)keys[i * TRAIN_WIDE + j];
        at[TRAIN_WIDE] = TRAIN_KEYS; /* the bias */
        if (e->minibatch == 1)
            score[i] = ctr_ftrl_plain_row(&plain, at, NULL, TRAIN_WIDE + 1, i % 3 == 0, 1);
        else
            plain_minibatch(&plain, keys, i, (int)e->minibatch, score);
    }
    free(z);
    free(n);
}

static void test_memory(const struct engine *e, void *learner, const struct ctr_rows *r, double *score)
{
    struct ctr_err err = { 0 };
    const double row = !strcmp(e->precision, "f64") ? 40 : 32;
    ok((double)ctr_model_lr.memory(learner) < row * (double)ctr_model_lr.keys(learner), "%s: %.1f bytes a key", e->what,
       (double)ctr_model_lr.memory(learner) / (double)ctr_model_lr.keys(learner));
    const int rc = ctr_model_lr.train_rows(learner, r, score, 1 << 20, &err);
    ok(rc == CTR_ENOMEM && strstr(err.what, "--memory allows 1 MiB"), "%s: %s", e->what, err.what);
}

static void test_training(const struct engine *e)
{
    struct fixture f;
    struct ctr_rows r;
    struct ctr_params p = ctr_params_usual(&ctr_model_lr);
    void *learner = NULL;
    double worst = 0, score[TRAIN_ROWS], want[TRAIN_ROWS];
    uint64_t *keys = calloc((size_t)TRAIN_ROWS * TRAIN_WIDE, sizeof *keys);
    p.lr.l1 = 0.05;
    p.lr.precision = e->precision;
    p.device = e->device;
    p.minibatch = e->minibatch;
    open_fixture(&f);
    int rc = 0;
    for (int i = 0; i < TRAIN_ROWS && !rc; i++) {
        for (int j = 0; j < TRAIN_WIDE; j++)
            keys[i * TRAIN_WIDE + j] =
                ctr_random64(3, (uint64_t)i, (uint64_t)j) % (TRAIN_KEYS / TRAIN_WIDE) * TRAIN_WIDE + (uint64_t)j;
        rc = add(&f, i % 3 == 0, 1, keys + i * TRAIN_WIDE, TRAIN_WIDE, 0);
    }
    rc = rc || e->model->learner_new(&learner, e->model, &p, &f.err) ||
         e->model->bind(learner, f.in, &f.tables, &f.err) ||
         ctr_inputs_batch(f.in, ctr_batchbuf_view(&f.rows), &f.err) ||
         ctr_inputs_rows(f.in, NULL, 0, TRAIN_ROWS, &r, &f.err) || e->model->train_rows(learner, &r, score, 0, &f.err);
    ok(!rc, "%s: %d rows of %d keys train (%s)", e->what, TRAIN_ROWS, TRAIN_WIDE, f.err.what);
    plain_scores(e, &p, keys, want);
    for (int i = 0; i < TRAIN_ROWS && !rc; i++)
        worst = fmax(worst, fabs(want[i] - score[i]));
    ok(worst < e->tolerance, "%s: predictions are those of the plain loop (worst %.2g)", e->what, worst);
    if (!rc && e->minibatch == 1)
        test_memory(e, learner, &r, score);
    e->model->learner_free(learner);
    close_fixture(&f);
    free(keys);
}

static void test_engines(void)
{
    static const struct engine engine[] = {
        { "row by row, f64", "f64", NULL, &ctr_model_lr, 1, 1e-12 },
        { "row by row, f32", "f32", NULL, &ctr_model_lr, 1, 1e-4 },
        { "minibatches", "f32", "cpu", &ctr_model_lr_minibatch, 250, 1e-4 },
        { "minibatches, kernels on the host", "f32", "gpu", &ctr_model_lr_minibatch, 250, 1e-4 },
    };
    char plugin[4096];
    snprintf(plugin, sizeof plugin, "%s/onhost/ctr-cuda.so", getenv("CTR_BUILD") ? getenv("CTR_BUILD") : ".");
    const bool on_host = !access(plugin, R_OK) && !setenv("CTR_CUDA_PLUGIN", plugin, 1);
    for (size_t i = 0; i < CTR_COUNT(engine); i++)
        if (on_host || !engine[i].device || strcmp(engine[i].device, "gpu") != 0)
            test_training(&engine[i]);
}

static uint64_t visited(const struct lr *m, bool *met)
{
    uint64_t n = 0, hash;
    for (int i = 0; i < m->tables; i++) {
        uint64_t at = 0;
        for (const uint8_t *row; (row = ctr_keys_row(&m->table[i], &m->states, &at, &hash)); n++) {
            double squares;
            memcpy(&squares, row + m->learning.layout.n, sizeof squares);
            *met &= squares > 0;
        }
    }
    return n;
}

static int find_ahead(void *learner, struct ctr_rows *r, struct ctr_buf *number, struct ctr_err *err)
{
    int rc = ctr_buf_room(number, r->start[r->rows], sizeof(uint32_t), err);
    for (int part = 0; part < CTR_FIND_PARTS && !rc; part++) {
        const struct ctr_find how = { part, part % CTR_FIND_THREADS, 0, (uint32_t *)(void *)number->data };
        rc = ctr_model_lr.find(learner, r, &how, err);
    }
    r->number = (const uint32_t *)(const void *)number->data;
    return rc;
}

/* Keys are found ahead of learning: what is saved is what was learned. */
static void test_ahead(void)
{
    enum { ROWS = 900, WIDE = 7 };
    struct fixture f;
    struct ctr_rows first, second;
    struct ctr_rowbuf buf[2] = { { .start = { 0 } } };
    struct ctr_params p = ctr_params_usual(&ctr_model_lr);
    void *ahead = NULL, *alone = NULL;
    double score[ROWS], same[ROWS];
    bool met = true;
    open_fixture(&f);
    int rc = 0;
    for (uint64_t i = 0; i < ROWS && !rc; i++) {
        uint64_t keys[WIDE];
        for (uint64_t j = 0; j < WIDE; j++)
            keys[j] = ctr_random64(4, i, j) % (i + 10);
        rc = add(&f, i % 3 == 0, 1, keys, WIDE, 0);
    }
    rc = rc || ctr_inputs_batch(f.in, ctr_batchbuf_view(&f.rows), &f.err) ||
         ctr_inputs_rows(f.in, &buf[0], 0, ROWS / 2, &first, &f.err) ||
         ctr_inputs_rows(f.in, &buf[1], ROWS / 2, ROWS / 2, &second, &f.err) ||
         ctr_model_lr.learner_new(&ahead, &ctr_model_lr, &p, &f.err) ||
         ctr_model_lr.bind(ahead, NULL, &f.tables, &f.err) ||
         ctr_model_lr.learner_new(&alone, &ctr_model_lr, &p, &f.err) ||
         ctr_model_lr.bind(alone, NULL, &f.tables, &f.err) || ctr_model_lr.train_rows(alone, &first, same, 0, &f.err) ||
         find_ahead(ahead, &first, &buf[0].number, &f.err) || find_ahead(ahead, &second, &buf[1].number, &f.err) ||
         ctr_model_lr.train_rows(ahead, &first, score, 0, &f.err);
    ok(!rc && !memcmp(score, same, ROWS / 2 * sizeof *score), "rows whose keys were found ahead learn the same");
    const int64_t keys = rc ? 0 : ctr_model_lr.keys(alone);
    ok(keys > ROWS / 4 && ctr_model_lr.keys(ahead) == keys && visited(ahead, &met) == (uint64_t)keys - 1 && met,
       "%lld keys were learned, and those that were only found do not show", (long long)keys);
    rc = rc || ctr_model_lr.train_rows(alone, &second, same, 0, &f.err) ||
         ctr_model_lr.train_rows(ahead, &second, score, 0, &f.err);
    ok(!rc && !memcmp(score, same, ROWS / 2 * sizeof *score) && ctr_model_lr.keys(ahead) == ctr_model_lr.keys(alone) &&
           ctr_model_lr.keys(alone) > keys,
       "they learn when their rows come");
    ctr_model_lr.learner_free(ahead);
    ctr_model_lr.learner_free(alone);
    ctr_rowbuf_free(&buf[0]);
    ctr_rowbuf_free(&buf[1]);
    close_fixture(&f);
}

static int count_keys(void *ctx, struct ctr_numbered *e, uint64_t n, struct ctr_err *err)
{
    (void)e;
    (void)err;
    *(uint64_t *)ctx += n;
    return 0;
}

/* Keys that rise with time: the newest, found and not yet registered, are whole ranges at the end of a table. */
static void test_sorted(void)
{
    enum { MET = 300000, AHEAD = 50000, OTHERS = 1000 };
    struct ctr_err err = { 0 };
    struct ctr_states s;
    struct ctr_keys t[2];
    uint64_t n[2] = { 0 };
    uint8_t *row;
    int rc = 0;
    ctr_states_init(&s, 16);
    for (int i = 0; i < 2; i++) {
        ctr_keys_init(&t[i]);
        for (uint64_t k = 0; k < (i ? OTHERS : MET) && !rc; k++)
            rc = ctr_keys_get(&t[i], &s, ctr_key_hash(k), &row, &err);
    }
    for (uint64_t k = MET; k < MET + AHEAD && !rc; k++)
        if (!(rc = ctr_keys_reserve(&t[0], &s, 1, &err)))
            (void)ctr_keys_number(&t[0], &s, ctr_keyindex_get(&t[0].index, ctr_key_hash(k)));
    for (int i = 0; i < 2 && !rc; i++)
        rc = ctr_keys_sorted(&t[i], count_keys, &n[i], &err);
    ok(!rc && n[0] == MET && n[1] == OTHERS, "keys sorted: %llu and %llu, whatever was found and not registered",
       (unsigned long long)n[0], (unsigned long long)n[1]);
    ctr_keys_free(&t[0]);
    ctr_keys_free(&t[1]);
    ctr_states_free(&s);
}

static void test_params(void)
{
    struct ctr_params p = ctr_params_usual(&ctr_model_lr), q;
    struct ctr_buf b = { 0 };
    struct ctr_err err = { 0 };
    p.lr.alpha = 0.3;
    p.lr.beta = 0;
    p.lr.l1 = 1e-5;
    p.lr.l2 = 2;
    p.lr.precision = "f32";
    p.lr.no_bias = true;
    ok(!ctr_params_text(&ctr_model_lr, &p, &b, &err) &&
           !strcmp((char *)b.data, "alpha=0.3 beta=0 l1=1e-05 l2=2 precision=f32 bias=no"),
       "options as text: %s", (char *)b.data);
    ok(!ctr_params_parse(&ctr_model_lr, &q, (char *)b.data, &err) && q.lr.alpha == p.lr.alpha && q.lr.l1 == p.lr.l1 &&
           q.lr.no_bias && !strcmp(q.lr.precision, "f32"),
       "and back");
    ctr_buf_clear(&b);
    p.minibatch = 8;
    p.dropout = 0.25;
    p.normalize = "max";
    ok(!ctr_params_text(&ctr_model_lr, &p, &b, &err) &&
           !strcmp((char *)b.data, "alpha=0.3 beta=0 l1=1e-05 l2=2 precision=f32 bias=no minibatch=8 dropout=0.25 "
                                   "normalize=max") &&
           !ctr_params_parse(&ctr_model_lr, &q, (char *)b.data, &err) && q.minibatch == 8 && q.dropout == 0.25 &&
           !strcmp(q.normalize, "max"),
       "options that differ from their defaults: %s", (char *)b.data);
    static const char *const bad[] = { "alpha=0",      "alpha=x",   "l1=-1",       "precision=f16", "bias=",
                                       "gamma=1",      "alpha",     "beta=nan",    "alpha=inf",     "minibatch=0",
                                       "hash-bits=33", "dropout=1", "normalize=x", "seed=-1",       "minibatch=65537" };
    for (size_t i = 0; i < CTR_COUNT(bad); i++)
        ok(ctr_params_parse(&ctr_model_lr, &q, bad[i], &err) == CTR_EDATA, "damaged options '%s': %s", bad[i],
           err.what);
    ctr_buf_free(&b);
}

int main(void)
{
    for (int i = 0; ctr_isa_at(i); i++)
        for (int state = 0; state < 2; state++)
            if (ctr_cpu_has((enum ctr_cpu)i)) {
                test_kernel(ctr_isa_at(i), ctr_isa_at(CTR_CPU_PLAIN), state);
                test_kernel_plain(ctr_isa_at(i), state, state == CTR_F64_STATE ? 1e-14 : 1e-5);
            }
    test_rows();
    test_engines();
    test_ahead();
    test_sorted();
    test_params();
    return done_testing();
}
