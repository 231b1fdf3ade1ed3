/* SPDX-License-Identifier: Apache-2.0
 *
 * lr over ranks that are threads of one process, beside FTRL-Proximal by minibatches as it is written: the gradients of
 * a minibatch, which is that of all ranks, are those of the weights at its start, and its rows update z and n one after
 * another. Rows come in pieces of any size, ranks have minibatches that are short or empty, keys repeat. */
#include <math.h>
#include <stdlib.h>

#include "common/model/models.h"

#include "comm_threads.h"
#include "ftrl_plain.h"
#include "tap.h"

enum { MOST_RANKS = 3, TABLES = 3, KEYS = 40, MINIBATCH = 16, STEPS = 30, MOST = MOST_RANKS * MINIBATCH * STEPS };
enum { ENTRIES = TABLES + 2, COORDINATES = TABLES * KEYS + 1, BIAS = COORDINATES - 1 };

static void must(int rc, const struct ctr_err *err)
{
    if (rc < 0) {
        printf("Bail out! %s\n", err->what);
        exit(1);
    }
}

struct row {
    int k, table[ENTRIES];
    int key[ENTRIES];
    double x[ENTRIES], label, weight;
};

struct trial {
    int ranks;
    bool one_a_table;
    struct ctr_params params;
    double score[MOST_RANKS][STEPS * MINIBATCH];
};

/* Rows of a rank in a step: sometimes fewer than a minibatch, sometimes none. */
static int rows_of(const struct trial *t, int rank, int step)
{
    const int most = step < STEPS - 2 ? MINIBATCH : (step + rank) % 3 * 5;
    return t->ranks == 1 && step < STEPS - 1 ? MINIBATCH : most;
}

static uint64_t draw(int rank, int step, int i, int what)
{
    return ctr_random64(11, (uint64_t)(rank * 1000 + step), (uint64_t)(i * 100 + what));
}

static struct row make_row(const struct trial *t, int rank, int step, int i)
{
    struct row r = { .k = t->one_a_table ? TABLES : 1 + (int)(draw(rank, step, i, 0) % ENTRIES) };
    bool seen[TABLES][KEYS] = { { false } };
    for (int j = 0; j < r.k; j++) {
        r.table[j] = t->one_a_table ? j : (int)(draw(rank, step, i, 10 + j) % TABLES);
        r.key[j] = (int)(draw(rank, step, i, 20 + j) % (r.table[j] ? KEYS : 3));
        while (seen[r.table[j]][r.key[j]])
            r.key[j] = (r.key[j] + 1) % KEYS;
        seen[r.table[j]][r.key[j]] = true;
        r.x[j] = t->one_a_table ? 1 : ctr_random01(11, (uint64_t)(rank * 1000 + step), (uint64_t)(i * 100 + 40 + j));
    }
    r.label = (r.key[0] + (int)(draw(rank, step, i, 1) % 3)) % 3 == 0;
    r.weight = draw(rank, step, i, 2) % 7 ? 1 : 2.5;
    return r;
}

/* ---- as it is written ---- */

static void plain_minibatch(struct ctr_ftrl_plain *f, const struct trial *t, int step, double *const *score)
{
    double w[COORDINATES];
    for (int64_t c = 0; c < COORDINATES; c++)
        w[c] = ctr_ftrl_plain_weight(f, c);
    for (int rank = 0; rank < t->ranks; rank++)
        for (int i = 0; i < rows_of(t, rank, step); i++) {
            const struct row r = make_row(t, rank, step, i);
            double sum = t->params.lr.no_bias ? 0 : w[BIAS];
            for (int j = 0; j < r.k; j++)
                sum += w[r.table[j] * KEYS + r.key[j]] * r.x[j];
            const double p = 1 / (1 + exp(-sum));
            score[rank][i] = p;
            for (int j = 0; j < r.k + !t->params.lr.no_bias; j++) {
                const int c = j < r.k ? r.table[j] * KEYS + r.key[j] : BIAS;
                const double g = r.weight * (p - r.label) * (j < r.k ? r.x[j] : 1);
                f->z[c] += g - (sqrt(f->n[c] + g * g) - sqrt(f->n[c])) / f->alpha * w[c];
                f->n[c] += g * g;
            }
        }
}

/* ---- over ranks ---- */

struct built {
    int64_t start[MINIBATCH + 1];
    uint64_t hash[MINIBATCH * ENTRIES];
    uint16_t table[MINIBATCH * ENTRIES];
    double x[MINIBATCH * ENTRIES], label[MINIBATCH], weight[MINIBATCH];
    int64_t rows; /* before these */
};

static struct ctr_rows build(const struct trial *t, struct built *b, int rank, int step, int from, int n)
{
    int64_t e = 0;
    for (int i = 0; i < n; i++) {
        const struct row r = make_row(t, rank, step, from + i);
        b->start[i] = e;
        for (int j = 0; j < r.k; j++, e++) {
            b->hash[e] = ctr_key_hash((uint64_t)(r.key[j] + 1));
            b->table[e] = (uint16_t)r.table[j];
            b->x[e] = r.x[j];
        }
        b->label[i] = r.label;
        b->weight[i] = r.weight;
    }
    b->start[n] = e;
    b->rows += n;
    return (struct ctr_rows){ .rows = n,
                              .first_row = b->rows - n,
                              .start = b->start,
                              .hash = b->hash,
                              .table = b->table,
                              .x = t->one_a_table ? NULL : b->x,
                              .label = b->label,
                              .weight = b->weight,
                              .one_a_table = t->one_a_table };
}

struct rank {
    struct ctr_comm *comm;
    struct trial *trial;
};

static void *run_rank(void *arg)
{
    const struct rank *own = arg;
    struct trial *t = own->trial;
    const struct ctr_model *m = ctr_model_by_minibatches(ctr_model_find("lr"));
    const int rank = ctr_comm_rank(own->comm);
    struct ctr_params p = t->params;
    struct ctr_strs names = { 0 };
    struct ctr_err err = { 0 };
    struct built *b = calloc(1, sizeof *b);
    void *l = NULL;
    if (!b)
        exit(1);
    p.comm = t->ranks > 1 ? own->comm : NULL;
    for (int i = 0; i < TABLES; i++)
        must(ctr_strs_add(&names, &"abc"[i], 1, &err), &err);
    must(m->learner_new(&l, m, &p, &err), &err);
    must(m->bind(l, NULL, &names, &err), &err);
    for (int step = 0; step < STEPS; step++) {
        const int n = rows_of(t, rank, step), piece = 1 + (step * 5 + rank * 3) % MINIBATCH;
        for (int at = 0, k; at < n; at += k) {
            k = CTR_MIN(piece, n - at);
            const struct ctr_rows r = build(t, b, rank, step, at, k);
            must(m->train_rows(l, &r, t->score[rank] + step * MINIBATCH + at, 0, &err), &err);
        }
        const struct ctr_rows none = { .rows = 0 };
        if (n && n < MINIBATCH)
            must(m->end_pass(l, &err), &err);
        else if (!n)
            must(m->train_rows(l, &none, NULL, 0, &err), &err);
    }
    m->learner_free(l);
    ctr_strs_free(&names);
    ctr_comm_free(own->comm);
    free(b);
    return NULL;
}

static void run_ranks(struct trial *t)
{
    struct ctr_err err = { 0 };
    struct ctr_comm *comm[MOST_RANKS];
    struct rank rank[MOST_RANKS];
    pthread_t id[MOST_RANKS];
    must(ctr_comm_threads(comm, t->ranks, 60, &err), &err);
    for (int i = 0; i < t->ranks; i++) {
        rank[i] = (struct rank){ comm[i], t };
        if (ctr_thread_start(&id[i], run_rank, &rank[i]))
            exit(1);
    }
    for (int i = 0; i < t->ranks; i++)
        pthread_join(id[i], NULL);
}

static double difference(const struct trial *t, int minibatches)
{
    double z[COORDINATES] = { 0 }, n[COORDINATES] = { 0 }, most = 0;
    struct ctr_ftrl_plain f = { t->params.lr.alpha, t->params.lr.beta, t->params.lr.l1, t->params.lr.l2, z, n };
    for (int step = 0; step < minibatches; step++) {
        double p[MOST_RANKS][MINIBATCH], *score[] = { p[0], p[1], p[2] };
        plain_minibatch(&f, t, step, score);
        for (int rank = 0; rank < t->ranks; rank++)
            for (int i = 0; i < rows_of(t, rank, step); i++)
                most = fmax(most, fabs(p[rank][i] - t->score[rank][step * MINIBATCH + i]));
    }
    return most;
}

static void try(struct trial *t, const char *what)
{
    run_ranks(t);
    const double d = difference(t, STEPS);
    ok(d < 1e-5 && !isnan(t->score[0][STEPS * MINIBATCH / 2]),
       "%d ranks, %s%s: the scores of FTRL-Proximal by minibatches of all: difference %.2g", t->ranks,
       t->one_a_table ? "a key a table" : "any keys", what, d);
}

int main(void)
{
    static struct trial t;
    for (int ranks = 1; ranks <= MOST_RANKS; ranks++)
        for (int one = 0; one < 2; one++)
            for (int bias = 0; bias < 2; bias++) {
                memset(&t, 0, sizeof t);
                t.ranks = ranks;
                t.one_a_table = one;
                t.params = ctr_params_usual(ctr_model_by_minibatches(ctr_model_find("lr")));
                t.params.lr.alpha = .3;
                t.params.lr.l1 = .2;
                t.params.lr.l2 = .01;
                t.params.minibatch = MINIBATCH;
                t.params.lr.no_bias = !bias;
                try(&t, bias ? "" : ", no bias");
                t.params.lr.alpha = .31;
                ok(difference(&t, STEPS) > 1e-3, "and of no other rate");
            }
    return done_testing();
}
