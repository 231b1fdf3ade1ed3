/* SPDX-License-Identifier: Apache-2.0
 *
 * A network that looks at sequences: two fields side by side beside pooled ones. Its gradients by the rows of the
 * tables are finite differences of its loss; rows come in pieces and in part; lists that are not aligned are refused.
 */
#include <math.h>
#include <stdlib.h>

#include "common/deep/deep.h"

#include "tap.h"

enum { WIDTH = 3, ROWS = 5, MINIBATCH = 16 };

/*     logit_i = sum over items e of (v_e . a) (x_i . b) + v_e . v_e / 2 + x_i . b
 *
 * in loops over the host's memory; a and b are parameters, x_i what is pooled. */
struct net {
    int sequence, a, b;
};

static int net_declare(struct ctr_deep *d, struct ctr_err *err)
{
    struct net *n = calloc(1, sizeof *n);
    if (!n)
        return ctr_fail_nomem(err, sizeof *n);
    d->state = n;
    d->input[d->inputs - 1].pooling = CTR_POOL_MEAN;
    const int past = ctr_deep_find_input(d, "b_past");
    n->sequence = ctr_deep_sequence(d, past, err);
    if (n->sequence < 0)
        return n->sequence;
    n->a = ctr_deep_param(d, CTR_INIT_GLOROT, false, 0, d->sequence[n->sequence].fields * d->width, err, "a");
    n->b = ctr_deep_param(d, CTR_INIT_GLOROT, false, 0, d->x_cols, err, "b");
    return CTR_MIN(n->a, n->b) < 0 ? err->code : 0;
}

static int net_make_room(struct ctr_deep *d, int64_t room, struct ctr_err *err)
{
    (void)d;
    (void)room;
    (void)err;
    return 0;
}

static float *at(struct ctr_mat m, int64_t row)
{
    return (float *)ctr_mem_host(m.mem) + m.at + row * m.stride;
}

static double dot(const float *a, const float *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static const int32_t *starts(const struct ctr_deep_sequence_view *s)
{
    return (const int32_t *)ctr_mem_host(s->start.mem) + s->start.at;
}

static int net_forward(struct ctr_deep *d, int64_t from, int64_t rows, bool training, struct ctr_err *err)
{
    const struct net *n = d->state;
    const struct ctr_deep_sequence_view s = ctr_deep_sequence_of(d, n->sequence, from, rows);
    const float *a = at(ctr_deep_mat(d, n->a), 0), *b = at(ctr_deep_mat(d, n->b), 0);
    float *logit = (float *)ctr_mem_host(d->logit) + from;
    (void)training;
    if (starts(&s)[0] != s.first || starts(&s)[rows] != s.first + s.count)
        return ctr_fail(err, CTR_EDATA, "entries of a part");
    for (int64_t i = 0; i < rows; i++) {
        const double xb = dot(at(ctr_mat(d->x, d->rows, d->x_cols), from + i), b, d->x_cols);
        double sum = xb;
        for (int64_t e = starts(&s)[i]; e < starts(&s)[i + 1]; e++) {
            if (((const int32_t *)ctr_mem_host(s.segment.mem))[e] != from + i)
                return ctr_fail(err, CTR_EDATA, "the row of an entry");
            sum += dot(at(s.value, e), a, s.value.cols) * xb + dot(at(s.value, e), at(s.value, e), s.value.cols) / 2;
        }
        logit[i] = (float)sum;
    }
    return 0;
}

static int net_backward(struct ctr_deep *d, struct ctr_err *err)
{
    const struct net *n = d->state;
    const struct ctr_deep_sequence_view s = ctr_deep_sequence_of(d, n->sequence, 0, d->rows);
    const float *a = at(ctr_deep_mat(d, n->a), 0), *b = at(ctr_deep_mat(d, n->b), 0);
    const float *dlogit = ctr_mem_host(d->dlogit);
    (void)err;
    for (int64_t i = 0; i < d->rows; i++) {
        const double xb = dot(at(ctr_mat(d->x, d->rows, d->x_cols), i), b, d->x_cols);
        double va = 1;
        for (int64_t e = starts(&s)[i]; e < starts(&s)[i + 1]; e++) {
            va += dot(at(s.value, e), a, s.value.cols);
            for (int64_t j = 0; j < s.value.cols; j++)
                at(s.grad, e)[j] = (float)((double)dlogit[i] * ((double)a[j] * xb + (double)at(s.value, e)[j]));
        }
        for (int64_t j = 0; j < (int64_t)d->pooled * d->width; j++)
            at(ctr_mat(d->dx, d->rows, (int64_t)d->pooled * d->width), i)[j] =
                (float)((double)dlogit[i] * va * (double)b[j]);
    }
    return 0;
}

static void net_free(struct ctr_deep *d)
{
    free(d->state);
}

static const struct ctr_deep_spec spec = { net_declare, net_make_room, net_forward, net_backward, net_free };
static const struct ctr_model model = { .name = "net", .deep = &spec };

/* ---- inputs and rows ---- */

static const struct ctr_deep_input inputs[] = {
    { .name = "a_item", .table = "item" },
    { .name = "b_past", .table = "item", .list = true, .history_of = "a_item", .group = "history" },
    { .name = "c_cat", .table = "cat", .list = true, .group = "history" },
    { .name = "n", .dense = 1 },
    { .name = "z_tags", .table = "cat", .list = true },
};

/* Rows: the keys of each input of keys. The second has an empty history, the third one repeats a key that is also its
 * candidate, the fourth one is the candidate of the first. */
struct row {
    uint64_t item, past[4], cat[4], tags[4];
    int pasts, cats, ntags;
};
static const struct row plain[ROWS] = {
    { 1, { 2, 3 }, { 7, 8 }, { 7, 9 }, 2, 2, 2 },          { 4, { 0 }, { 0 }, { 8 }, 0, 0, 1 },
    { 2, { 2, 5, 2 }, { 8, 8, 7 }, { 0 }, 3, 3, 0 },       { 1, { 6 }, { 9 }, { 9, 9 }, 1, 1, 2 },
    { 5, { 1, 1, 1, 3 }, { 7, 8, 9, 7 }, { 7 }, 4, 4, 1 },
};

struct rows {
    int64_t start[ROWS + 1];
    uint64_t hash[ROWS * 16];
    uint16_t table[ROWS * 16];
    double x[ROWS * 16], label[ROWS];
    float dense[ROWS];
    struct ctr_rows rows;
};

static void put(struct rows *r, int64_t *n, int input, const uint64_t *key, int keys)
{
    for (int k = 0; k < keys; k++, ++*n) {
        r->hash[*n] = ctr_key_hash(key[k] + 100 * (uint64_t)(input > 1));
        r->table[*n] = (uint16_t)input;
        r->x[*n] = input == 1 ? 0.5 + 0.25 * (double)(*n % 5) : 1; /* weighted keys */
    }
}

static void make_rows(struct rows *r, const struct row *from)
{
    int64_t n = 0;
    for (int i = 0; i < ROWS; i++) {
        r->start[i] = n;
        put(r, &n, 0, &from[i].item, 1);
        put(r, &n, 1, from[i].past, from[i].pasts);
        put(r, &n, 2, from[i].cat, from[i].cats);
        put(r, &n, 4, from[i].tags, from[i].ntags);
        r->label[i] = i % 2;
        r->dense[i] = (float)i / 4;
    }
    r->start[ROWS] = n;
    r->rows = (struct ctr_rows){ .rows = ROWS,
                                 .first_row = 10,
                                 .start = r->start,
                                 .hash = r->hash,
                                 .table = r->table,
                                 .x = r->x,
                                 .label = r->label,
                                 .dense = r->dense };
}

static int open_net(struct ctr_deep *d, struct ctr_deep_tables *all, int threads, struct ctr_err *err)
{
    struct ctr_params p = ctr_params_usual(ctr_model_find("mlp"));
    struct ctr_deep borrowed = { .inputs = CTR_COUNT(inputs), .input = (struct ctr_deep_input *)(uintptr_t)inputs };
    struct ctr_deep_input *list = NULL;
    p.minibatch = MINIBATCH;
    p.deep.embedding = WIDTH;
    p.seed = 5;
    int rc = ctr_deep_open(d, &model, &p, threads, true, err);
    if (!rc)
        rc = ctr_deep_inputs_copy(&borrowed, &list, err);
    if (!rc)
        rc = ctr_deep_shape(d, list, CTR_COUNT(inputs), err);
    *all = (struct ctr_deep_tables){ .width = WIDTH, .floats = d->u_cols };
    return rc ? rc : ctr_deep_tables_bind(all, d, true, err);
}

/* Logits of the rows, `piece` at a time. */
static int run(struct ctr_deep *d, struct ctr_deep_tables *all, const struct ctr_rows *r, int64_t piece,
               struct ctr_err *err)
{
    int rc = 0;
    for (int64_t i = 0; i < r->rows && !rc; i += piece) {
        const int64_t n = CTR_MIN(piece, r->rows - i), from = d->rows;
        rc = ctr_deep_add(d, r, i, n, err);
        if (!rc)
            rc = ctr_deep_pull(d, all, true, NULL, from, 0, err);
        if (!rc)
            rc = net_forward(d, from, n, true, err);
    }
    return rc;
}

/* The loss: the sum of logits, each times a number. */
static double loss(struct ctr_deep *d, struct ctr_deep_tables *all, const struct ctr_rows *r, int *rc,
                   struct ctr_err *err)
{
    double sum = 0;
    ctr_deep_clear(d);
    if (!*rc)
        *rc = run(d, all, r, ROWS, err);
    for (int i = 0; i < ROWS && !*rc; i++)
        sum += (1 + .5 * i) * (double)((const float *)ctr_mem_host(d->logit))[i];
    return sum;
}

/* Values larger than first ones, so that products of them count. */
static void enlarge(struct ctr_deep_tables *all)
{
    for (int t = 0; t < all->n; t++)
        for (uint32_t i = 0; i < all->t[t].rows.used; i++)
            for (int j = 0; j < WIDTH; j++)
                ctr_embedding_row(&all->t[t].rows, i)[j] *= 60;
}

static void test_gradients(int64_t piece, int threads)
{
    struct ctr_deep d = { 0 };
    struct ctr_deep_tables all = { 0 };
    struct ctr_err err = { 0 };
    static struct rows r;
    make_rows(&r, plain);
    int rc = open_net(&d, &all, threads, &err);
    (void)loss(&d, &all, &r.rows, &rc, &err);
    enlarge(&all);
    ctr_deep_clear(&d);
    rc = rc ? rc : run(&d, &all, &r.rows, piece, &err);
    for (int i = 0; i < ROWS && !rc; i++)
        ((float *)ctr_mem_host(d.dlogit))[i] = (float)(1 + .5 * i);
    if (!rc)
        rc = net_backward(&d, &err);
    /* A step of Adam of rate 0 changes no value and leaves a tenth of the gradient in its first state. */
    const struct ctr_dev_opt opt = {
        .kind = CTR_OPT_ADAM, .rate = 0, .eps = 1e-8F, .beta1 = .9F, .beta2 = .999F, .step = 1
    };
    if (!rc)
        rc = ctr_deep_push(&d, &all, NULL, &opt, &err);
    int bad = 0, seen = 0;
    double sum = 0;
    for (int t = 0; t < all.n && !rc; t++)
        for (uint32_t i = 0; i < all.t[t].rows.used; i++)
            for (int j = 0; j < WIDTH && !rc; j++, seen++) {
                float *v = ctr_embedding_row(&all.t[t].rows, i) + j, was = *v;
                const double got = (double)v[WIDTH] * 10;
                *v = was + 0x1p-10F;
                const double up = loss(&d, &all, &r.rows, &rc, &err);
                *v = was - 0x1p-10F;
                const double want = (up - loss(&d, &all, &r.rows, &rc, &err)) * 0x1p9;
                *v = was;
                bad += !(fabs(got - want) <= 2e-3 + 2e-3 * fabs(want));
                sum += fabs(got);
            }
    ok(!rc && !bad && seen == 9 * WIDTH && sum > 10,
       "gradients of rows, pieces of %d rows, %d threads: %d of %d wrong %s", (int)piece, threads, bad, seen, err.what);
    ctr_deep_tables_free(&all);
    ctr_deep_free(&d);
}

/* Logits do not depend on how rows come, nor on how many are asked for at once. */
static void test_parts(void)
{
    struct ctr_deep d = { 0 };
    struct ctr_deep_tables all = { 0 };
    struct ctr_err err = { 0 };
    static struct rows r;
    float whole[ROWS];
    int same = 0;
    make_rows(&r, plain);
    int rc = open_net(&d, &all, 1, &err);
    (void)loss(&d, &all, &r.rows, &rc, &err);
    enlarge(&all);
    (void)loss(&d, &all, &r.rows, &rc, &err);
    float *logit = rc ? whole : ctr_mem_host(d.logit);
    memcpy(whole, logit, sizeof whole);
    for (int piece = 1; piece < ROWS && !rc; piece++) {
        ctr_deep_clear(&d);
        memset(logit, 0, sizeof whole);
        rc = run(&d, &all, &r.rows, piece, &err);
        same += !memcmp(logit, whole, sizeof whole);
        for (int from = 0; from + piece <= ROWS && !rc; from++) {
            memset(logit, 0, sizeof whole);
            rc = net_forward(&d, from, piece, true, &err);
            same += !memcmp(logit + from, whole + from, (size_t)piece * sizeof *whole);
        }
    }
    ok(same == 18, "logits in pieces and in parts: %d of 18", same);
    ok(!rc && d.x_cols == 2 * WIDTH + 1 && d.pooled == 2 && d.sequence[0].fields == 2,
       "inputs of a sequence take no columns of x %s", err.what);
    ctr_deep_tables_free(&all);
    ctr_deep_free(&d);
}

static void test_unequal(void)
{
    struct ctr_deep d = { 0 };
    struct ctr_deep_tables all = { 0 };
    struct ctr_err err = { 0 };
    static struct rows r;
    struct row uneven[ROWS];
    memcpy(uneven, plain, sizeof plain);
    uneven[3].cats = 3;
    uneven[4].cats = 2; /* as many in all */
    make_rows(&r, uneven);
    int rc = open_net(&d, &all, 1, &err);
    rc = rc ? rc : run(&d, &all, &r.rows, 2, &err);
    ok(rc == CTR_EDATA && strstr(err.what, "row 14: 'b_past' has 1 keys and 'c_cat' has 3"), "%s", err.what);
    ctr_deep_tables_free(&all);
    ctr_deep_free(&d);
}

/* What a model was learned with must be there; what it was learned without may be. */
static void test_same(void)
{
    static const char *const what[] = { "history_of", "history", "side" };
    struct ctr_deep_input own[CTR_COUNT(inputs)], other[CTR_COUNT(inputs)];
    struct ctr_deep d = { .inputs = CTR_COUNT(inputs), .input = own }; /* which takes the order of the stream's */
    struct ctr_err err = { 0 };
    memcpy(own, inputs, sizeof inputs);
    memcpy(other, inputs, sizeof inputs);
    other[0].side = "ad";
    int rc = ctr_deep_same_inputs(&d, other, CTR_COUNT(inputs), &err);
    ok(!rc, "more is said than the model knows %s", err.what);
    d.input = other;
    rc = ctr_deep_same_inputs(&d, inputs, CTR_COUNT(inputs), &err);
    ok(!rc, "a stream may lack the side, which an option can have given %s", err.what);
    struct ctr_deep_input user[CTR_COUNT(inputs)];
    memcpy(user, inputs, sizeof inputs);
    user[0].side = "user";
    rc = ctr_deep_same_inputs(&d, user, CTR_COUNT(inputs), &err);
    ok(rc == CTR_EDATA && strstr(err.what, "'a_item' has the ctr.side 'ad', the stream's has 'user'"), "%s: %s",
       what[2], err.what);
    memcpy(other, inputs, sizeof inputs);
    other[1].group = "other";
    rc = ctr_deep_same_inputs(&d, inputs, CTR_COUNT(inputs), &err);
    ok(rc == CTR_EDATA && strstr(err.what, "'b_past' has the ctr.history 'other', the stream's has 'history'"),
       "%s: %s", what[1], err.what);
    memcpy(other, inputs, sizeof inputs);
    other[1].history_of = "z_tags";
    rc = ctr_deep_same_inputs(&d, inputs, CTR_COUNT(inputs), &err);
    ok(rc == CTR_EDATA && strstr(err.what, "'b_past' has the ctr.history_of 'z_tags', the stream's has 'a_item'"),
       "%s: %s", what[0], err.what);
}

int main(void)
{
    test_gradients(ROWS, 1);
    test_gradients(1, 1);
    test_gradients(2, 2);
    test_parts();
    test_unequal();
    test_same();
    return done_testing();
}
