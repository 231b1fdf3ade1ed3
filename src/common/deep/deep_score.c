/* SPDX-License-Identifier: Apache-2.0
 *
 * Prediction with deep models: tables and parameters read once, shared; each thread that predicts has a network of its
 * own over them. A score depends on its row alone. A key that the model does not know has the first value that the
 * learner would give it. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/deep/deep.h"

struct context {
    struct ctr_deep net;
    struct context *next;
};

struct scorer {
    struct ctr_deep model; /* shape and parameters */
    struct ctr_deep_tables tables;
    pthread_mutex_t lock;
    struct context *idle;
};

static void context_free(struct context *c)
{
    ctr_deep_free(&c->net);
    free(c);
}

void ctr_deep_scorer_free(void *scorer)
{
    struct scorer *s = scorer;
    if (!s)
        return;
    for (struct context *c = s->idle, *next; c; c = next) {
        next = c->next;
        context_free(c);
    }
    ctr_deep_free(&s->model);
    ctr_deep_tables_free(&s->tables);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

int ctr_deep_scorer_open(void **out, const char *path, const struct ctr_model_info *info, struct ctr_strs *tables,
                         char *warn, size_t warn_size, struct ctr_err *err)
{
    struct scorer *s = calloc(1, sizeof *s);
    struct ctr_model_info again = { 0 };
    struct ctr_reader *r = NULL;
    if (!s)
        return ctr_fail_nomem(err, sizeof *s);
    pthread_mutex_init(&s->lock, NULL);
    int rc = ctr_deep_open(&s->model, info->model, &info->params, 1, false, err);
    s->tables.width = s->tables.floats = s->model.width;
    if (!rc)
        rc = ctr_model_open(path, &again, &r, err);
    if (!rc)
        rc = ctr_deep_read(&s->model, &s->tables, tables, r, false, warn, warn_size, err);
    if (rc)
        ctr_err_file(err, path);
    ctr_reader_free(r);
    ctr_model_info_free(&again);
    if (rc) {
        ctr_deep_scorer_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

int ctr_deep_scorer_bind(void *scorer, const struct ctr_inputs *in, const struct ctr_strs *tables, struct ctr_err *err)
{
    struct scorer *s = scorer;
    struct ctr_deep_input *list;
    int n, rc = ctr_deep_inputs(in, tables, &list, &n, err);
    if (rc)
        return rc;
    rc = ctr_deep_same_inputs(&s->model, list, n, err);
    ctr_deep_inputs_free(list, n);
    return rc ? rc : ctr_deep_tables_bind(&s->tables, &s->model, false, err);
}

/* ---- a thread's network ---- */

/* Through the host, wherever the two lie. */
static int copy_weights(const struct ctr_deep *from, const struct ctr_deep *to, struct ctr_err *err)
{
    const size_t bytes = (size_t)from->floats * sizeof(float);
    void *w = malloc(CTR_MAX(bytes, 1));
    if (!w)
        return ctr_fail_nomem(err, bytes);
    int rc = ctr_mem_read(from->w, 0, w, bytes, err);
    if (!rc)
        rc = ctr_mem_write(to->w, 0, w, bytes, err);
    free(w);
    return rc;
}

static int context_new(struct scorer *s, struct context **out, struct ctr_err *err)
{
    struct context *c = calloc(1, sizeof *c);
    struct ctr_deep_input *list;
    if (!c)
        return ctr_fail_nomem(err, sizeof *c);
    int rc = ctr_deep_open(&c->net, s->model.model, &s->model.p, 1, false, err);
    if (!rc)
        rc = ctr_deep_inputs_copy(&s->model, &list, err);
    if (!rc)
        rc = ctr_deep_shape(&c->net, list, s->model.inputs, err);
    if (!rc) {
        pthread_mutex_lock(&s->lock); /* one thread at a time on the model's device */
        rc = copy_weights(&s->model, &c->net, err);
        pthread_mutex_unlock(&s->lock);
    }
    if (!rc)
        rc = ctr_deep_tables_bind(&s->tables, &c->net, false, err);
    if (rc) {
        context_free(c);
        return rc;
    }
    *out = c;
    return 0;
}

static int take_context(struct scorer *s, struct context **out, struct ctr_err *err)
{
    pthread_mutex_lock(&s->lock);
    *out = s->idle;
    if (s->idle)
        s->idle = s->idle->next;
    pthread_mutex_unlock(&s->lock);
    return *out ? 0 : context_new(s, out, err);
}

int ctr_deep_predict_rows(const void *scorer, const struct ctr_rows *r, double *score, struct ctr_err *err)
{
    struct scorer *s = (struct scorer *)(uintptr_t)scorer;
    struct context *c;
    int rc = take_context(s, &c, err);
    if (rc)
        return rc;
    rc = ctr_deep_add(&c->net, r, 0, r->rows, err);
    if (!rc)
        rc = ctr_deep_pull(&c->net, &s->tables, false, NULL, 0, 0, err);
    if (!rc)
        rc = c->net.spec->forward(&c->net, 0, r->rows, false, err);
    if (!rc)
        rc = ctr_deep_scores(&c->net, 0, r->rows, r->first_row, score, err);
    ctr_deep_clear(&c->net);
    pthread_mutex_lock(&s->lock);
    c->next = s->idle;
    s->idle = c;
    pthread_mutex_unlock(&s->lock);
    return rc;
}

/* Runs of entries of one input are looked up together. */
void ctr_deep_count_unknown(const void *scorer, const struct ctr_rows *r, int64_t *n, int64_t *unknown)
{
    enum { RUN = 64 };
    const struct scorer *s = scorer;
    const int64_t first = r->start[0], keys = s->model.keys;
    uint32_t row[RUN];
    for (int64_t e = first, run; e < r->start[r->rows]; e += run) {
        const int input = r->table ? r->table[e] : s->model.key_input[(e - first) % keys];
        const int table = s->model.input[input].table_at;
        for (run = 1; r->table && run < RUN && e + run < r->start[r->rows] && r->table[e + run] == input;)
            run++;
        if (table >= 0)
            ctr_embedding_find(&s->tables.t[table].rows, r->hash + e, run, row);
        n[input] += run;
        for (int64_t i = 0; i < run; i++)
            unknown[input] += table < 0 || row[i] == CTR_EMBEDDING_NONE;
    }
}
