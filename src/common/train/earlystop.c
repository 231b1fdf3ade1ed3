/* SPDX-License-Identifier: Apache-2.0
 *
 * Early stopping: after each pass, and within it as often as requested, the rows of a validation stream are scored. The
 * best model so far is kept in a temporary file or beside the checkpoint; after so many validations without improvement
 * the run ends, and that model is the result. The time of a validation depends only on rows: minibatches are counted
 * from the first row of a pass. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/compute/comm.h"
#include "common/train/trainer.h"

enum { COPY_BYTES = 1 << 20 };

static int check_schema(struct ctr_trainer *t, const struct ctr_schema *s, struct ctr_err *err)
{
    struct ctr_difference d;
    return ctr_streams_same(&t->stream, s, &d) ? 0
                                               : ctr_fail(err, d.of_identity ? CTR_EDATA : CTR_EUSAGE,
                                                          "--validation does not fit %s, which is learned from: %s: %s",
                                                          t->stream_name, d.what, d.remedy);
}

/* Rows are scored in pieces, over ranks by turns: a round is a piece of each. All ranks get the scores of a round, in
 * the order of rows, so that they come to the same loss. */
struct scoring {
    struct ctr_trainer *t;
    struct ctr_inputs *in;
    struct ctr_validation *v;
    struct ctr_rowbuf own; /* the rows of this rank's piece, */
    struct ctr_rows rows;
    struct ctr_buf score, sent, *all; /* [ranks] */
    int pieces;                       /* of the round so far */
};
struct scored_row {
    double score, label, weight;
};

static int end_round(struct scoring *s, struct ctr_err *err)
{
    struct ctr_comm *c = s->t->job.params.comm;
    int rc = 0;
    ctr_buf_clear(&s->score);
    ctr_buf_clear(&s->sent);
    double *score = ctr_buf_extend(&s->score, s->rows.rows, sizeof *score, &rc, err);
    struct scored_row *row = ctr_buf_extend(&s->sent, s->rows.rows, sizeof *row, &rc, err);
    if (!rc)
        rc = s->t->job.model->evaluate(s->t->learner, &s->rows, score, err);
    for (int64_t i = 0; i < s->rows.rows && !rc; i++)
        row[i] = (struct scored_row){ score[i], s->rows.label[i], s->rows.weight ? s->rows.weight[i] : 1 };
    if (!rc)
        rc = ctr_comm_gather(c, CTR_COMM_CONTROL, s->sent.data, s->sent.len, s->all, err);
    for (int r = 0; r < ctr_comm_size(c) && !rc; r++) {
        row = (struct scored_row *)(void *)s->all[r].data;
        for (size_t i = 0; i < s->all[r].len / sizeof *row; i++)
            ctr_validation_row(s->v, row[i].score, row[i].label, row[i].weight);
    }
    s->rows.rows = s->pieces = 0;
    return rc;
}

static int score_batch(struct scoring *s, const struct ctr_batch *b, struct ctr_err *err)
{
    const struct ctr_comm *c = s->t->job.params.comm;
    const int ranks = ctr_comm_size(c);
    int rc = ctr_inputs_batch(s->in, b, err);
    for (int64_t at = 0, n; at < b->rows && !rc; at += n) {
        n = ctr_inputs_fit(s->in, at, CTR_MIN(b->rows - at, s->t->job.params.minibatch), CTR_TILE_ENTRIES);
        if (s->pieces == ctr_comm_rank(c))
            rc = ctr_inputs_rows(s->in, ranks > 1 ? &s->own : NULL, at, n, &s->rows, err);
        if (!rc && ++s->pieces == ranks)
            rc = end_round(s, err);
    }
    return rc;
}

/* Score all rows of source into v. */
static int score_source(struct ctr_trainer *t, struct ctr_batch_source *source, struct ctr_validation *v,
                        struct ctr_err *err)
{
    const struct ctr_row_transform as_is = { .scale = 1, .images = t->job.params.images.missing != NULL };
    const int ranks = ctr_comm_size(t->job.params.comm);
    struct scoring s = { .t = t, .v = v, .all = calloc((size_t)ranks, sizeof *s.all) };
    const struct ctr_batch *b;
    int rc = s.all ? check_schema(t, ctr_batch_source_schema(source), err) : ctr_fail_nomem(err, sizeof *s.all);
    if (!rc)
        rc = ctr_inputs_new(&s.in, ctr_batch_source_schema(source), t->label, t->weight, &as_is, &t->tables, err);
    if (!rc && t->job.model->by_column)
        rc = ctr_inputs_by_column(s.in, err);
    if (!rc)
        rc = ctr_trainer_sieve(source, s.in, t->job.bad_validation, NULL, err);
    while (!rc && (rc = ctr_batch_source_next(source, &b, err)) > 0)
        rc = score_batch(&s, b, err);
    if (!rc && s.pieces)
        rc = end_round(&s, err);
    ctr_inputs_free(s.in);
    ctr_rowbuf_free(&s.own);
    ctr_buf_free(&s.score);
    ctr_buf_free(&s.sent);
    for (int r = 0; s.all && r < ranks; r++)
        ctr_buf_free(&s.all[r]);
    free(s.all);
    return rc;
}

/* ---- the best model ---- */

static int best_path(const struct ctr_trainer *t, int64_t time, struct ctr_buf *path, struct ctr_err *err)
{
    return ctr_buf_printf(path, err, "%s.best.%" PRId64, t->job.checkpoint, time);
}

/* Save the model to `path`. */
static int save_at(struct ctr_trainer *t, const char *path, unsigned flags, struct ctr_err *err)
{
    struct ctr_out *out = NULL;
    int rc = ctr_out_open(&out, path, CTR_OUT_BINARY | flags, err);
    if (!rc)
        rc = ctr_trainer_save_now(t, 0, out, err);
    if (!rc)
        rc = ctr_out_commit(out, err);
    ctr_out_free(out);
    return rc;
}

static int keep_unnamed(struct ctr_trainer *t, struct ctr_err *err)
{
    char path[32];
    if (t->early.fd < 0 && (t->early.fd = ctr_tmpfile(err)) < 0)
        return t->early.fd;
    if (ctr_truncate(t->early.fd, 0) || lseek(t->early.fd, 0, SEEK_SET) < 0)
        return ctr_fail_sys(err, "the best model so far cannot be kept");
    snprintf(path, sizeof path, "/dev/fd/%d", t->early.fd);
    return save_at(t, path, CTR_OUT_TEMP, err);
}

static int open_best(struct ctr_trainer *t, const char *path, struct ctr_err *err)
{
    if (t->early.fd >= 0)
        close(t->early.fd);
    t->early.fd = ctr_open(path, O_RDONLY, 0);
    return t->early.fd < 0 ? ctr_fail_sys(err, "%s: the best model so far cannot be read", path) : 0;
}

/* Save it as the model of validation `time`; remove the previous one, unless the checkpoint needs it. */
static int keep_best(struct ctr_trainer *t, int64_t time, struct ctr_err *err)
{
    struct ctr_buf path = { 0 }, before = { 0 };
    if (ctr_comm_rank(t->job.params.comm)) /* rank 0 keeps it */
        return save_at(t, "/dev/null", 0, err);
    if (!t->job.checkpoint)
        return keep_unnamed(t, err);
    int rc = best_path(t, time, &path, err);
    if (!rc)
        rc = best_path(t, t->early.best, &before, err);
    if (!rc)
        rc = save_at(t, (const char *)path.data, 0, err);
    if (!rc)
        rc = open_best(t, (const char *)path.data, err);
    if (!rc && t->early.best && t->early.best != t->early.checkpointed)
        unlink((const char *)before.data);
    ctr_buf_free(&path);
    ctr_buf_free(&before);
    return rc;
}

int ctr_earlystop_resume(struct ctr_trainer *t, struct ctr_err *err)
{
    struct ctr_buf path = { 0 };
    if (ctr_comm_rank(t->job.params.comm))
        return 0;
    int rc = best_path(t, t->early.best, &path, err);
    if (!rc && t->early.best)
        rc = open_best(t, (const char *)path.data, err);
    t->early.checkpointed = t->early.best;
    ctr_buf_free(&path);
    if (!rc)
        ctr_earlystop_sweep(t, t->early.best);
    return rc;
}

/* .best.N of a validation other than `keep` or, left by a killed run, .best.N.tmp.XXXXXX. */
static bool is_best(const char *path, const char *end, int64_t keep)
{
    char *tail;
    const int64_t time = strtoll(end + strlen(".best."), &tail, 10);
    if (!*tail)
        return !keep || time != keep;
    return !strncmp(tail, ".tmp.", 5) && strlen(tail) == strlen(".tmp.XXXXXX") && ctr_checkpoint_left(path, true);
}

void ctr_earlystop_sweep(const struct ctr_trainer *t, int64_t keep)
{
    ctr_checkpoint_remove_files(t->job.checkpoint, ".best.[0-9]*", is_best, keep);
}

void ctr_earlystop_free(struct ctr_trainer *t)
{
    if (t->early.fd < 0)
        return;
    close(t->early.fd);
    if (t->job.checkpoint && access(t->job.checkpoint, F_OK) && errno == ENOENT)
        ctr_earlystop_sweep(t, 0);
}

int ctr_earlystop_save(struct ctr_trainer *t, struct ctr_out *out, struct ctr_err *err)
{
    struct ctr_buf b = { 0 };
    if (ctr_comm_rank(t->job.params.comm))
        return 0;
    int64_t at = 0, size = lseek(t->early.fd, 0, SEEK_END);
    int rc = size < 0 ? ctr_fail_sys(err, "the best model cannot be read again") : ctr_buf_reserve(&b, COPY_BYTES, err);
    while (at < size && !rc) {
        size_t n = (size_t)CTR_MIN(size - at, (int64_t)COPY_BYTES);
        rc = ctr_pread_full(t->early.fd, b.data, n, at, err);
        if (!rc)
            rc = ctr_out_write(out, b.data, n, err);
        at += (int64_t)n;
    }
    ctr_buf_free(&b);
    return rc;
}

/* ---- when, and what follows from it ---- */

bool ctr_earlystop_due(const struct ctr_trainer *t, int64_t row)
{
    const int64_t every = t->job.validation_every, minibatch = t->job.params.minibatch;
    return every && row > 0 && row % minibatch == 0 && row / every > (row - minibatch) / every;
}

int64_t ctr_earlystop_next(const struct ctr_trainer *t, int64_t row)
{
    const int64_t every = t->job.validation_every, minibatch = t->job.params.minibatch, begun = row - row % minibatch;
    if (every >= INT64_MAX / 4)
        return INT64_MAX;
    const int64_t wanted = (begun / every + 1) * every;
    return (wanted + minibatch - 1) / minibatch * minibatch;
}

static void say(const struct ctr_trainer *t, int64_t row, bool ends_pass, double loss)
{
    char text[200], where[64] = "";
    if (!ends_pass)
        snprintf(where, sizeof where, ", row %" PRId64, row);
    snprintf(text, sizeof text, "pass %" PRId64 "%s: validation log loss %s%s", t->at.pass + 1, where,
             ctr_mean_text(loss).s,
             t->early.best == t->early.validations ? ", the best so far"
             : t->early.stopped                    ? "; stopping, the model is the best one"
                                                   : "");
    if (t->job.note)
        t->job.note(t->job.ctx, text);
}

int ctr_earlystop_now(struct ctr_trainer *t, int64_t row, bool ends_pass, struct ctr_err *err)
{
    struct ctr_validation *v = malloc(sizeof *v);
    struct ctr_batch_source s = { 0 };
    if (!v)
        return ctr_fail_nomem(err, sizeof *v);
    ctr_validation_start(v);
    int rc = t->job.open(t->job.ctx, t->job.validation, NULL, &s, err);
    if (!rc && (rc = score_source(t, &s, v, err)) < 0)
        ctr_err_file(err, t->job.validation);
    if (t->job.bad_validation)
        ctr_bad_rows_again(t->job.bad_validation);
    ctr_validation_settle(v);
    if (!rc && !(v->s.weight > 0))
        rc = ctr_fail(err, CTR_EDATA, "--validation: %s has no rows of any weight", t->job.validation);
    const double loss = rc ? 0 : v->s.loss / v->s.weight;
    if (!rc && (!t->early.best || loss < t->early.best_loss) && !(rc = keep_best(t, t->early.validations + 1, err))) {
        t->early.best = t->early.validations + 1;
        t->early.best_loss = loss;
        rc = ctr_collapse_look(t, err);
    }
    if (!rc) {
        t->early.stopped = ++t->early.validations - t->early.best >= t->job.patience;
        say(t, row, ends_pass, loss);
    }
    ctr_batch_source_close(&s);
    free(v);
    return rc;
}
