/* SPDX-License-Identifier: Apache-2.0
 *
 * Has the model collapsed to a constant? A sample of the last rows learned is kept, and scored by the model that the
 * run ends with: predictions made before updates would not tell, because the bias alone moves them. */
#include "common/compute/comm.h"
#include "common/train/trainer.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* A sample has two halves, the older of which is replaced when the newer has HALF rows or more (at most twice as many);
 * of each tile it takes a quarter, at least SOME rows. Fewer than LEAST rows in the halves of all ranks are not judged.
 */
enum { HALF = 256, SOME = 64, LEAST = 100 };
static const double SAME =
    1e-5; /* of log-odds; a table that an L2 penalty holds down by Adam's steps keeps some 1e-6 */

/* Rows [from, r->rows) of r, with entries row by row. */
static int append(struct ctr_lastrows_half *h, const struct ctr_rows *r, int64_t from, int64_t dense,
                  struct ctr_err *err)
{
    const int64_t n = r->rows - from, begin = r->transposed ? from : r->start[from];
    int64_t width = r->rows && r->transposed ? r->start[1] - r->start[0] : 0, at = 0;
    const int64_t entries = r->transposed ? n * width : r->start[r->rows] - begin;
    int rc = 0;
    int64_t *start = ctr_buf_extend(&h->start, n, sizeof *start, &rc, err);
    double *label = ctr_buf_extend(&h->label, n, sizeof *label, &rc, err);
    uint64_t *hash = ctr_buf_extend(&h->hash, entries, sizeof *hash, &rc, err);
    uint16_t *table = r->table ? ctr_buf_extend(&h->table, entries, sizeof *table, &rc, err) : NULL;
    double *x = r->x ? ctr_buf_extend(&h->x, entries, sizeof *x, &rc, err) : NULL;
    float *number = r->dense ? ctr_buf_extend(&h->dense, n * dense, sizeof *number, &rc, err) : NULL;
    if (rc)
        return rc;
    for (int64_t i = 0; i < n; i++) {
        const int64_t first = r->transposed ? 0 : r->start[from + i];
        const int64_t k = r->transposed ? width : r->start[from + i + 1] - first;
        start[i] = h->entries + at;
        label[i] = r->label[from + i];
        for (int64_t j = 0; j < k; j++, at++) {
            hash[at] = r->hash[r->transposed ? j * r->rows + from + i : first + j];
            if (table)
                table[at] = r->table[r->transposed ? j : first + j];
            if (x)
                x[at] = r->x[first + j];
        }
    }
    if (number)
        memcpy(number, r->dense + from * dense, (size_t)(n * dense) * sizeof *number);
    h->rows += n;
    h->entries += entries;
    return 0;
}

static void clear(struct ctr_lastrows_half *h)
{
    struct ctr_buf *const all[] = { &h->start, &h->label, &h->hash, &h->table, &h->x, &h->dense };
    for (size_t i = 0; i < CTR_COUNT(all); i++)
        ctr_buf_clear(all[i]);
    h->rows = h->entries = 0;
    h->left = false;
}

void ctr_lastrows_free(struct ctr_lastrows *s)
{
    for (int i = 0; i < 2; i++) {
        struct ctr_buf *const all[] = { &s->half[i].start, &s->half[i].label, &s->half[i].hash,
                                        &s->half[i].table, &s->half[i].x,     &s->half[i].dense };
        for (size_t j = 0; j < CTR_COUNT(all); j++)
            ctr_buf_free(all[j]);
        ctr_rowbuf_free(&s->half[i].buf);
    }
}

/* Add the last n rows to the newer half, or to the other one if it is full or has rows of another kind. */
static int add(struct ctr_trainer *t, const struct ctr_rows *r, int64_t n, struct ctr_err *err)
{
    struct ctr_lastrows *s = &t->last;
    struct ctr_lastrows_half *h = &s->half[s->now];
    const int64_t dense = ctr_inputs_dense(t->in);
    const bool fits = h->has_table == !!r->table && h->has_x == !!r->x && h->one == r->one_a_table &&
                      h->dense_width == (r->dense ? dense : 0);
    if (h->rows && (h->rows >= HALF || !fits)) {
        s->now = !s->now;
        h = &s->half[s->now];
        clear(h);
    }
    h->has_table = r->table;
    h->has_x = r->x;
    h->one = r->one_a_table;
    h->dense_width = r->dense ? dense : 0;
    return append(h, r, r->rows - n, dense, err);
}

/* Bring the rows of a half, which has no others. */
static int bring(struct ctr_trainer *t, struct ctr_lastrows_half *h, struct ctr_err *err)
{
    struct ctr_rowbuf buf = { 0 };
    struct ctr_rows host;
    int rc = t->job.model->bring_rows(t->learner, &h->there, 0, h->there.rows, &buf, &host, err);
    clear(h);
    if (!rc) {
        t->last.now = (int)(h - t->last.half);
        rc = add(t, &host, host.rows, err);
    }
    ctr_rowbuf_free(&buf);
    return rc;
}

int ctr_lastrows_bring(struct ctr_trainer *t, struct ctr_err *err)
{
    const int now = t->last.now;
    int rc = 0;
    for (struct ctr_lastrows_half *h = t->last.half; h < t->last.half + 2 && !rc; h++)
        rc = h->left ? bring(t, h, err) : 0;
    t->last.now = now;
    return rc;
}

/* Rows on the device fill a half, which needs them there no longer than until the next tile but one is added. */
static int add_left(struct ctr_trainer *t, const struct ctr_rows *r, int64_t n, struct ctr_err *err)
{
    struct ctr_lastrows *s = &t->last;
    struct ctr_lastrows_half *h = &s->half[s->now];
    struct ctr_rowbuf buf = { 0 };
    struct ctr_rows host;
    int rc;
    if (n < HALF) {
        rc = t->job.model->bring_rows(t->learner, r, r->rows - n, n, &buf, &host, err);
        if (!rc)
            rc = add(t, &host, n, err);
        ctr_rowbuf_free(&buf);
        return rc ? rc : ctr_lastrows_bring(t, err);
    }
    if (h->rows) {
        s->now = !s->now;
        h = &s->half[s->now];
    }
    clear(h);
    rc = ctr_rows_keep_left(r, r->rows - n, n, ctr_inputs_dense(t->in), &h->buf, &h->there, err);
    h->left = !rc;
    h->rows = rc ? 0 : n;
    return rc;
}

int ctr_lastrows_add(struct ctr_trainer *t, const struct ctr_rows *r, struct ctr_err *err)
{
    const int64_t wanted = t->last.half[!t->last.now].rows ? CTR_MAX(r->rows / 4, SOME) : HALF;
    const int64_t n = CTR_MIN(r->rows, CTR_MIN(wanted, HALF));
    return !r->rows ? 0 : r->left ? add_left(t, r, n, err) : add(t, r, n, err);
}

/* Rows [from, from + n) of a half. */
static struct ctr_rows part_of(const struct ctr_lastrows_half *h, int64_t from, int64_t n)
{
    return (struct ctr_rows){
        .rows = n,
        .start = (const int64_t *)(const void *)h->start.data + from,
        .label = (const double *)(const void *)h->label.data + from,
        .hash = (const uint64_t *)(const void *)h->hash.data,
        .table = h->has_table ? (const uint16_t *)(const void *)h->table.data : NULL,
        .x = h->has_x ? (const double *)(const void *)h->x.data : NULL,
        .dense = h->dense_width ? (const float *)(const void *)h->dense.data + from * h->dense_width : NULL,
        .one_a_table = h->one,
    };
}

struct spread {
    double least, greatest; /* log-odds */
    uint64_t first;         /* digest of a row's entries */
    int64_t rows;
    bool differ; /* there are rows with other entries */
};

static uint64_t digest_of(const struct ctr_rows *r, int64_t i, int64_t dense)
{
    const int64_t at = r->start[i], n = r->start[i + 1] - at;
    uint64_t digest = ctr_hash64(r->hash + at, (size_t)n * sizeof *r->hash, 0);
    if (r->x)
        digest = ctr_hash64(r->x + at, (size_t)n * sizeof *r->x, digest);
    return r->dense ? ctr_hash64(r->dense + i * dense, (size_t)dense * sizeof *r->dense, digest) : digest;
}

static void add_scores(struct spread *s, const struct ctr_rows *r, int64_t dense, const double *score)
{
    for (int64_t i = 0; i < r->rows; i++) {
        const double p = CTR_MIN(CTR_MAX(score[i], DBL_MIN), 1 - DBL_EPSILON), odds = ctr_log(p / (1 - p));
        const uint64_t digest = digest_of(r, i, dense);
        s->differ |= s->rows && digest != s->first;
        s->first = s->rows ? s->first : digest;
        s->least = CTR_MIN(s->least, odds);
        s->greatest = CTR_MAX(s->greatest, odds);
        s->rows++;
    }
}

/* Score the sample. Over ranks all take as many steps, with rows or without. */
static int score_sample(struct ctr_trainer *t, struct spread *s, struct ctr_err *err)
{
    const int64_t step = t->job.model->deep ? CTR_MIN(t->job.params.minibatch, HALF) : HALF;
    struct ctr_comm *together = t->job.params.comm;
    const struct ctr_comm_bytes sent = together ? *ctr_comm_bytes(together) : (struct ctr_comm_bytes){ .all = { 0 } };
    double score[HALF];
    int rc = 0;
    for (int half = 0; half < 2; half++) {
        struct ctr_lastrows_half *h = &t->last.half[half];
        const int64_t end = h->entries, all = together ? 2 * HALF : h->rows;
        if (h->rows && (rc = ctr_buf_append(&h->start, &end, sizeof end, err)))
            return rc;
        for (int64_t at = 0; at < all && !rc; at += step) {
            const int64_t n = CTR_MIN(step, h->rows - at);
            const struct ctr_rows rows = n > 0 ? part_of(h, at, n) : (struct ctr_rows){ .rows = 0 };
            rc = t->job.model->evaluate(t->learner, &rows, score, err);
            if (!rc)
                add_scores(s, &rows, h->dense_width, score);
        }
        h->start.len = (size_t)h->rows * sizeof end; /* without the end */
    }
    if (together) /* these are no steps of learning */
        ctr_comm_recount_since(together, &sent, CTR_COMM_CONTROL);
    return rc;
}

/* Join the spreads of all ranks. */
static int join(struct ctr_comm *c, struct spread *s, struct ctr_err *err)
{
    const int size = ctr_comm_size(c);
    if (size == 1)
        return 0;
    struct ctr_buf *in = NULL;
    int rc = ctr_comm_gather_new(c, CTR_COMM_CONTROL, s, sizeof *s, &in, err);
    *s = (struct spread){ .least = INFINITY, .greatest = -INFINITY };
    for (int r = 0; r < size && !rc; r++) {
        struct spread one;
        memcpy(&one, in[r].data, sizeof one);
        s->differ |= one.differ || (s->rows && one.rows && one.first != s->first);
        s->first = one.rows ? one.first : s->first;
        s->least = CTR_MIN(s->least, one.least);
        s->greatest = CTR_MAX(s->greatest, one.greatest);
        s->rows += one.rows;
    }
    ctr_comm_gather_free(c, in);
    return rc;
}

int ctr_collapse_look(struct ctr_trainer *t, struct ctr_err *err)
{
    struct spread s = { .least = INFINITY, .greatest = -INFINITY };
    struct ctr_err diverged = { 0 };
    t->constant = NAN;
    if (!t->job.model->evaluate || t->job.model->variant_ops || !t->have_stream)
        return 0;
    int rc = ctr_lastrows_bring(t, err);
    if (rc)
        return rc;
    rc = score_sample(t, &s, &diverged);
    if (rc == CTR_EDATA && !t->job.params.comm) /* saving the model says what to do */
        return 0;
    if (rc) {
        *err = diverged;
        return rc;
    }
    rc = join(t->job.params.comm, &s, err);
    if (!rc && s.rows >= LEAST && s.differ && s.greatest - s.least < SAME)
        t->constant = ctr_sigmoid(s.least);
    t->judged = s.rows;
    return rc;
}

int ctr_trainer_check_scores(struct ctr_trainer *t, bool fail, struct ctr_err *err)
{
    const struct ctr_train_stats *s = &t->v[0].s;
    char text[300];
    int rc = t->early.best ? 0 : ctr_collapse_look(t, err); /* else done when that model was kept */
    if (rc || isnan(t->constant) || !(s->positives > 0 && s->positives < s->weight))
        return rc;
    snprintf(text, sizeof text,
             "the model has collapsed to a constant: its score is %.4g for all of %" PRId64
             " rows, taken from the last that were learned: lower --l1, --l2 or --rate, or try another --seed",
             t->constant, t->judged);
    if (fail)
        return ctr_fail(err, CTR_EDATA, "%s", text);
    if (t->job.warn && !ctr_comm_rank(t->job.params.comm))
        t->job.warn(t->job.ctx, text);
    return 0;
}
