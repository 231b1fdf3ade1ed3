/* SPDX-License-Identifier: Apache-2.0
 *
 * Prediction with lr on a device: lr_score.c reads the model and finds the weights of a row's keys; the device adds
 * them. A score depends only on its row. */
#include <math.h>
#include <stdlib.h>

#include "common/lr/lr_device.h"

/* The device, and the weights on the host. */
struct scorer {
    void *weights; /* of lr_score.c */
    struct ctr_params params;
};

/* A thread's own queue on the device. */
struct session {
    void *weights; /* session of lr_score.c */
    struct ctr_dev *dev;
    struct ctr_mem *weight, *x, *index, *start, *logit;
    struct ctr_buf row;                                /* double: weights of a row */
    struct ctr_buf weights_f32, x_f32, numbers, begin; /* of the entries; 0, 1, 2, …; of the rows */
    struct ctr_buf logits;
};

#define AS(type, buf) ((type *)(void *)(buf).data)

void ctr_lr_device_scorer_free(void *scorer)
{
    struct scorer *s = scorer;
    if (!s)
        return;
    ctr_lr_scorer_free(s->weights);
    free(s);
}

int ctr_lr_device_scorer_open(void **out, const char *path, const struct ctr_model_info *info, struct ctr_strs *tables,
                              char *warn, size_t warn_size, struct ctr_err *err)
{
    struct scorer *s = calloc(1, sizeof *s);
    if (!s)
        return ctr_fail_nomem(err, sizeof *s);
    s->params = info->params;
    int rc = ctr_lr_scorer_open(&s->weights, path, info, tables, warn, warn_size, err);
    if (rc) {
        ctr_lr_device_scorer_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

void ctr_lr_device_session_free(void *session)
{
    struct session *s = session;
    struct ctr_mem *mems[] = { s->weight, s->x, s->index, s->start, s->logit };
    struct ctr_buf *bufs[] = { &s->row, &s->weights_f32, &s->x_f32, &s->numbers, &s->begin, &s->logits };
    for (size_t i = 0; i < CTR_COUNT(mems); i++)
        ctr_mem_free(mems[i]);
    for (size_t i = 0; i < CTR_COUNT(bufs); i++)
        ctr_buf_free(bufs[i]);
    ctr_dev_free(s->dev);
    if (s->weights)
        ctr_lr_session_free(s->weights);
    free(s);
}

int ctr_lr_device_session_new(void **out, const void *scorer, const struct ctr_inputs *in,
                              const struct ctr_strs *tables, const char *output, struct ctr_err *err)
{
    const struct scorer *of = scorer;
    const struct ctr_dev_want want = { .device = of->params.device,
                                       .threads = 1,
                                       .memory_bytes = of->params.device_memory };
    struct session *s = calloc(1, sizeof *s);
    (void)in, (void)output;
    if (!s)
        return ctr_fail_nomem(err, sizeof *s);
    int rc = ctr_dev_open(&s->dev, &want, err);
    if (!rc)
        rc = ctr_lr_session_new(&s->weights, of->weights, tables, err);
    if (rc)
        ctr_lr_device_session_free(s);
    else
        *out = s;
    return rc;
}

static void *room(struct ctr_buf *b, int64_t n, size_t size, int *rc, struct ctr_err *err)
{
    b->len = 0;
    if (!*rc)
        *rc = ctr_buf_reserve(b, (size_t)n * size, err);
    b->len = (size_t)n * size;
    return b->data;
}

/* The weights of each row's keys, then the bias, row after row. */
static int gather(struct session *s, const struct ctr_rows *r, struct ctr_key_counts *counts, struct ctr_err *err)
{
    const int64_t first = r->start[0], most = r->start[r->rows] - first;
    int rc = 0;
    double *row = room(&s->row, most, sizeof *row, &rc, err);
    float *weight = room(&s->weights_f32, most + r->rows, sizeof *weight, &rc, err);
    float *x = room(&s->x_f32, most + r->rows, sizeof *x, &rc, err);
    int32_t *number = room(&s->numbers, most + r->rows, sizeof *number, &rc, err);
    int32_t *begin = room(&s->begin, r->rows + 1, sizeof *begin, &rc, err);
    if (!rc && most + r->rows > INT32_MAX)
        rc = ctr_fail(err, CTR_EDATA, "row %lld: too many keys", (long long)(r->first_row + 1));
    int32_t k = 0;
    for (int64_t i = 0; i < r->rows && !rc; i++) {
        const int64_t at = r->start[i], n = r->start[i + 1] - at;
        const double bias = ctr_lr_row_counted(s->weights, r, i, row, counts);
        begin[i] = k;
        for (int64_t e = 0; e <= n; e++, k++) {
            weight[k] = (float)(e < n ? row[e] : bias);
            x[k] = e < n && r->x ? (float)r->x[at + e] : 1;
            number[k] = k;
        }
        begin[i + 1] = k;
    }
    return rc;
}

static int send(struct session *s, struct ctr_mem **to, const struct ctr_buf *from, struct ctr_err *err)
{
    int rc = ctr_mem_grow(to, s->dev, from->len, err);
    return rc ? rc : ctr_mem_write(*to, 0, from->data, from->len, err);
}

int ctr_lr_device_predict_rows(void *session, const struct ctr_rows *r, double *score, struct ctr_key_counts *counts,
                               struct ctr_err *err)
{
    struct session *s = session;
    const int64_t n = r->rows;
    int rc = n ? gather(s, r, counts, err) : 0;
    if (rc || !n)
        return rc;
    const int64_t entries = AS(int32_t, s->begin)[n];
    float *logit = room(&s->logits, n, sizeof *logit, &rc, err);
    if (!rc)
        rc = ctr_mem_grow(&s->logit, s->dev, s->logits.len, err);
    if (!rc)
        rc = send(s, &s->weight, &s->weights_f32, err);
    if (!rc)
        rc = send(s, &s->x, &s->x_f32, err);
    if (!rc)
        rc = send(s, &s->index, &s->numbers, err);
    if (!rc)
        rc = send(s, &s->start, &s->begin, err);
    const struct ctr_dev_pool pool = { .how = CTR_POOL_SUM,
                                       .lists = { .lists = n,
                                                  .per_row = 1,
                                                  .start = ctr_vec(s->start, n + 1),
                                                  .index = ctr_vec(s->index, entries),
                                                  .x = ctr_vec(s->x, entries) },
                                       .rows = ctr_mat(s->weight, entries, 1),
                                       .out = ctr_mat(s->logit, n, 1) };
    if (!rc)
        rc = ctr_dev_pool(s->dev, &pool, err);
    if (!rc)
        rc = ctr_mem_read(s->logit, 0, logit, s->logits.len, err);
    for (int64_t i = 0; i < n && !rc; i++) {
        score[i] = ctr_sigmoid((double)logit[i]);
        if (!(fabsf(logit[i]) < INFINITY))
            rc = ctr_lr_diverged(r->first_row + i + 1, err);
    }
    return rc;
}
