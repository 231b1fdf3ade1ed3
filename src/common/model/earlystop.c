/* SPDX-License-Identifier: Apache-2.0
 *
 * Early stopping: after each pass the rows of a stream that is not learned from are scored. The model of the best pass
 * so far waits in a temporary file; when so many passes brought nothing better the run ends, and that one is the
 * product. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/model/trainer.h"

enum { COPY_BYTES = 1 << 20 };

static int check_schema(struct ctr_trainer *t, const struct ctr_schema *s, struct ctr_err *err)
{
    char why[512];
    if (ctr_schema_equal(&t->stream, s, why, sizeof why))
        return 0;
    return ctr_fail(err, CTR_EUSAGE, "--validation: the stream has another schema than the one learned from: %s", why);
}

/* Score all rows of r into v. */
static int score_stream(struct ctr_trainer *t, struct ctr_reader *r, struct ctr_validation *v, struct ctr_err *err)
{
    struct ctr_inputs *in = NULL;
    struct ctr_rows rows;
    const struct ctr_batch *b;
    double *score = malloc((size_t)t->job.params.minibatch * sizeof *score);
    int rc = score ? check_schema(t, ctr_reader_schema(r), err) : ctr_fail_nomem(err, sizeof *score);
    if (!rc)
        rc = ctr_inputs_new(&in, ctr_reader_schema(r), t->label, t->weight, NULL, &t->tables, err);
    if (!rc)
        rc = ctr_inputs_by_column(in, err);
    while (!rc && (rc = ctr_reader_next(r, &b, err)) > 0) {
        rc = ctr_inputs_batch(in, b, err);
        for (int64_t at = 0, n; at < b->rows && !rc; at += n) {
            n = CTR_MIN(b->rows - at, t->job.params.minibatch);
            rc = ctr_inputs_rows(in, NULL, at, n, &rows, err);
            if (!rc)
                rc = t->job.model->evaluate(t->learner, &rows, score, err);
            for (int64_t i = 0; i < n && !rc; i++)
                ctr_validation_row(v, score[i], rows.label[i], rows.weight ? rows.weight[i] : 1);
        }
    }
    ctr_inputs_free(in);
    free(score);
    return rc;
}

static int keep_best(struct ctr_trainer *t, struct ctr_err *err)
{
    struct ctr_out *out = NULL;
    char path[32];
    if (t->best_fd < 0 && (t->best_fd = ctr_tmpfile(err)) < 0)
        return t->best_fd;
    if (ctr_truncate(t->best_fd, 0) || lseek(t->best_fd, 0, SEEK_SET) < 0)
        return ctr_fail_sys(err, "the best model so far cannot be kept");
    snprintf(path, sizeof path, "/dev/fd/%d", t->best_fd);
    int rc = ctr_out_open(&out, path, CTR_OUT_BINARY, err);
    if (!rc)
        rc = ctr_trainer_save_now(t, 0, out, err);
    if (!rc)
        rc = ctr_out_commit(out, err);
    ctr_out_free(out);
    return rc;
}

int ctr_earlystop_pass(struct ctr_trainer *t, bool *stop, struct ctr_err *err)
{
    char *paths[] = { (char *)(uintptr_t)t->job.validation }, text[200];
    struct ctr_validation *v = malloc(sizeof *v);
    struct ctr_reader *r = NULL;
    if (!v)
        return ctr_fail_nomem(err, sizeof *v);
    ctr_validation_start(v);
    int rc = ctr_reader_open(&r, paths, 1, NULL, err);
    if (!rc && (rc = score_stream(t, r, v, err)) < 0)
        ctr_err_file(err, t->job.validation);
    ctr_validation_settle(v);
    if (!rc && !(v->s.weight > 0))
        rc = ctr_fail(err, CTR_EDATA, "--validation: %s has no rows of any weight", t->job.validation);
    if (!rc) {
        const double loss = v->s.loss / v->s.weight;
        const bool better = t->best_pass == 0 || loss < t->best_loss;
        if (better) {
            t->best_loss = loss;
            t->best_pass = t->at.pass + 1;
            rc = keep_best(t, err);
        }
        *stop = t->at.pass + 1 - t->best_pass >= t->job.patience;
        snprintf(text, sizeof text, "pass %" PRId64 ": validation log loss %.6f%s", t->at.pass + 1, loss,
                 better  ? ", the best so far"
                 : *stop ? "; stopping, the model is that of the best pass"
                         : "");
        if (t->job.note)
            t->job.note(t->job.ctx, text);
    }
    ctr_reader_free(r);
    free(v);
    return rc;
}

int ctr_earlystop_save(struct ctr_trainer *t, struct ctr_out *out, struct ctr_err *err)
{
    struct ctr_buf b = { 0 };
    int64_t at = 0, size = lseek(t->best_fd, 0, SEEK_END);
    int rc = size < 0 ? ctr_fail_sys(err, "the best model cannot be read again") : ctr_buf_reserve(&b, COPY_BYTES, err);
    while (at < size && !rc) {
        size_t n = (size_t)CTR_MIN(size - at, (int64_t)COPY_BYTES);
        rc = ctr_pread_full(t->best_fd, b.data, n, at, err);
        if (!rc)
            rc = ctr_out_write(out, b.data, n, err);
        at += (int64_t)n;
    }
    ctr_buf_free(&b);
    return rc;
}
