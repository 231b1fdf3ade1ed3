/* SPDX-License-Identifier: Apache-2.0
 *
 * Several threads over one loaded model: each has sessions of its own, and all get the bits that one thread gets,
 * however rows are cut; the model is freed by the last of its owners, whichever that is. Under TSAN=1 races show. */
#include <pthread.h>

#include "tap.h"

#include "common/model/models.h"
#include "models.h"

enum { THREADS = 4, ROUNDS = 6, MOST_WIDTH = 8 };

struct share {
    struct ctr_loaded *m; /* an owner of its own */
    const struct ctr_batch *rows;
    const char *output;
    int number;
    int32_t width;
    const void *want; /* scores, or vectors */
    bool same;
    struct ctr_err err;
};

/* The whole batch in pieces of `step` rows. */
static int predict(struct ctr_session *s, const struct share *t, int64_t step, double *score, float *vector,
                   struct ctr_err *err)
{
    int rc = 0;
    for (int64_t at = 0; at < t->rows->rows && !rc; at += step) {
        const int64_t n = CTR_MIN(step, t->rows->rows - at);
        rc = t->output ? ctr_session_vectors(s, t->rows, at, n, vector + at * t->width, err)
                       : ctr_session_rows(s, t->rows, at, n, score + at, NULL, err);
    }
    return rc;
}

static void *run(void *ctx)
{
    struct share *t = ctx;
    double score[MODEL_ROWS];
    float vector[MODEL_ROWS * MOST_WIDTH];
    t->same = true;
    for (int i = 0; i < ROUNDS && t->same; i++) {
        struct ctr_session *s = NULL;
        int rc = ctr_session_new(&s, t->m, t->rows->schema, t->output, &t->err);
        if (!rc)
            rc = predict(s, t, 1 + (t->number + i) % 9, score, vector, &t->err);
        t->same = !rc && !memcmp(t->output ? (const void *)vector : score, t->want,
                                 t->output ? (size_t)MODEL_ROWS * (size_t)t->width * sizeof *vector : sizeof score);
        ctr_session_free(s);
    }
    ctr_loaded_free(t->m);
    return NULL;
}

static void try_threads(const char *path, const struct ctr_batch *rows, const char *output, const char *what)
{
    struct ctr_err err = { 0 };
    struct ctr_loaded *m = NULL;
    struct ctr_session *s = NULL;
    struct ctr_output o = { 0 };
    double score[MODEL_ROWS];
    float vector[MODEL_ROWS * MOST_WIDTH];
    struct share t[THREADS];
    pthread_t thread[THREADS];
    int rc = ctr_loaded_open(&m, path, &(struct ctr_predict_opts){ 0 }, &err), good = 0;
    if (!rc && output)
        rc = ctr_loaded_output(m, output, &o, &err);
    if (!rc)
        rc = ctr_session_new(&s, m, rows->schema, output, &err);
    for (int i = 0; i < THREADS && !rc; i++)
        t[i] = (struct share){ .m = ctr_loaded_hold(m),
                               .rows = rows,
                               .output = output,
                               .number = i,
                               .width = o.width,
                               .want = output ? (const void *)vector : score };
    if (!rc)
        rc = predict(s, &t[0], MODEL_ROWS, score, vector, &err);
    ok(!rc, "%s: one thread predicts: %s", what, err.what);
    ctr_session_free(s);
    ctr_loaded_free(m); /* its other owners have it still */
    if (rc)
        return;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, run, &t[i]);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        good += t[i].same;
    }
    ok(good == THREADS, "%s: %d threads over one model get the same bits %s", what, THREADS, t[0].err.what);
}

/* The rows that belong to one side alone, as a batch of their own. */
static struct ctr_batch side_of(const struct ctr_batch *b, struct ctr_schema *s, struct ctr_col *col,
                                const char *const *names, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; names[i] && !rc; i++) {
        const int at = ctr_schema_find(b->schema, names[i]);
        rc = ctr_schema_add_field(s, &b->schema->f[at], NULL, err);
        col[i] = b->col[at];
    }
    return (struct ctr_batch){ s, b->rows, 0, col };
}

int main(void)
{
    static const struct {
        const char *model, *options;
    } kinds[] = {
        { "lr", "" },
        { "lr", "hash-bits=12" },
        { "mlp", "embedding=3 hidden=4,3 activation=dice batch-norm=yes minibatch=8" },
        { "two-tower", "embedding=3 hidden=4 vector=5 minibatch=8" },
    };
    static const char *const user[] = { "past", "x", NULL }, *const ad[] = { "item", "site", NULL };
    struct ctr_err err = { 0 };
    struct ctr_reader *r = NULL;
    const struct ctr_batch *b = NULL;
    char rows[64], path[64];
    model_file(rows, "rows");
    model_file(path, "model");
    ok(!model_make_rows(rows, &err) && !model_reader(&r, &err) && ctr_reader_next(r, &b, &err) > 0, "rows %s",
       err.what);
    for (size_t i = 0; i < CTR_COUNT(kinds); i++) {
        char what[160];
        const bool towers = !strcmp(kinds[i].model, "two-tower");
        model_sides[0] = towers ? "past,x" : NULL;
        model_sides[1] = towers ? "item,site" : NULL;
        snprintf(what, sizeof what, "%s %s", kinds[i].model, kinds[i].options);
        const int rc = model_train(kinds[i].model, kinds[i].options, NULL, NULL, path, &err);
        ok(!rc, "%s: learned %s", what, err.what);
        if (!rc)
            try_threads(path, b, NULL, what);
    }
    struct ctr_schema s[2] = { 0 };
    struct ctr_col col[2][2];
    const struct ctr_batch sides[2] = { side_of(b, &s[0], col[0], user, &err), side_of(b, &s[1], col[1], ad, &err) };
    try_threads(path, &sides[0], "user", "vectors of users");
    try_threads(path, &sides[1], "ad", "vectors of ads");
    struct ctr_loaded *m;
    struct ctr_session *none;
    struct ctr_output o;
    ok(!ctr_loaded_open(&m, path, &(struct ctr_predict_opts){ 0 }, &err), "opened again");
    ok(ctr_session_new(&none, m, &s[0], NULL, &err) < 0 && !none, "no scores of one side: %s", err.what);
    ok(ctr_loaded_output(m, "other", &o, &err) == CTR_EUSAGE, "no output of that name: %s", err.what);
    ctr_loaded_free(m);
    ctr_schema_free(&s[0]);
    ctr_schema_free(&s[1]);
    ctr_reader_free(r);
    unlink(rows);
    unlink(path);
    return done_testing();
}
