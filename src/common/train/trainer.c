/* SPDX-License-Identifier: Apache-2.0
 *
 * The trainer: passes over the input, progressive predictions before each update, checkpoints and resume. It works for
 * every kind of model. Rows arrive in tiles from the feed; work per batch happens when a tile ends one.
 *
 * Resume: the input is read again from its start. Rows before the checkpoint are not learned again: they update the
 * digest, which must equal the checkpoint's, and, with --progressive, their stored predictions are written.
 *
 * One pass, from the outside in:
 *
 *     ctr_trainer_run     passes; each has one shard of the input, or several after a run of other ranks
 *       run_pass          one shard: starts the feed, and learns what waits for its minibatch when the rows end
 *         take_tiles      one process: the tiles of a batch, then what is due (a checkpoint, a model to publish, a
 * signal) take_steps      ranks: each minibatch is a step that all take together, then what is due, as they agree
 *           take_tile     rows that a checkpoint covers pass by; others are scored, counted and learned
 *
 * Nothing is saved within a batch: between two, the digest covers all rows so far and the file of predictions has them.
 * For example, with batches of 1000 rows, tiles of 256 and --checkpoint-every 1500, the first checkpoints are those of
 * rows 2000, 3000 and 5000. */
#include "common/compute/comm.h"
#include "common/train/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    MINIBATCH_ROWS = 1024, /* per call: waking the threads that share them is slow */
    SWEEP_PART = 4 * 8,    /* of memory: for the rows of a tile, when the disk is swept for several of them */
    SWEEP_ENTRY_BYTES = 12 /* of most entries */
};

int ctr_trainer_new(struct ctr_trainer **out, const struct ctr_train_job *job, struct ctr_err *err)
{
    struct ctr_trainer *t = calloc(1, sizeof *t);
    if (!t)
        return ctr_fail_nomem(err, sizeof *t);
    t->job = *job;
    t->early.fd = -1;
    t->constant = NAN;
    t->resume.row = -1;
    t->at.scores = -1;
    t->at.uncertain = job->params.uncertainty;
    int rc = ctr_params_check(job->model, &job->params, err);
    if (!rc && job->checkpoint_deltas && !job->model->changes)
        rc = ctr_fail(err, CTR_EUSAGE, "%s%s%s takes no --checkpoint-deltas", job->model->name,
                      ctr_model_how(job->model), job->params.comm ? " over ranks" : "");
    if (!rc && job->params.comm)
        rc = ctr_ranks_check(job, err);
    if (!rc)
        rc = job->model->learner_new(&t->learner, job->model, &job->params, err);
    t->wants_counts = !rc && job->model->counts && job->model->counts(t->learner, job->opens_again);
    t->models = job->model->variant_ops ? job->params.variants->n : 1;
    ctr_progressive_init(&t->progressive, t->models + job->params.uncertainty);
    if (!rc && !(t->v = malloc((size_t)t->models * sizeof *t->v)))
        rc = ctr_fail_nomem(err, (size_t)t->models * sizeof *t->v);
    for (int i = 0; i < t->models && !rc; i++)
        ctr_validation_start(&t->v[i]);
    if (rc) {
        ctr_trainer_free(t);
        return rc;
    }
    *out = t;
    return 0;
}

/* Numbers beyond this size drown those around 1, which embeddings and counts are. */
#define WIDE 10.0

static void note_wide(struct ctr_trainer *t)
{
    double low, high;
    size_t n = 0;
    for (int i = 0; i < ctr_inputs_count(t->in) && n + 1 < sizeof t->wide; i++)
        if (ctr_inputs_range(t->in, i, &low, &high) && CTR_MAX(-low, high) > WIDE)
            n += (size_t)CTR_MAX(0, snprintf(t->wide + n, sizeof t->wide - n, "%s%.60s from %g to %g", n ? ", " : "",
                                             ctr_inputs_info(t->in, i).name, low, high));
}

static void end_pass(struct ctr_trainer *t)
{
    if (t->feed && t->job.model->set_ahead)
        t->job.model->set_ahead(t->learner, NULL);
    ctr_feed_free(t->feed);
    if (t->in && !t->at.pass)
        note_wide(t);
    ctr_inputs_free(t->in);
    ctr_digest_free(t->digest);
    t->feed = NULL;
    t->in = NULL;
    t->digest = NULL;
}

void ctr_trainer_free(struct ctr_trainer *t)
{
    if (!t)
        return;
    end_pass(t);
    ctr_writer_free(t->spool);
    ctr_out_free(t->spool_out);
    ctr_progressive_free(&t->progressive);
    ctr_earlystop_free(t);
    if (t->learner)
        t->job.model->learner_free(t->learner);
    ctr_strs_free(&t->tables);
    ctr_schema_free(&t->stream);
    free(t->stream_name);
    ctr_lastrows_free(&t->last);
    ctr_crosses_free(t->crosses);
    free(t->shards.at);
    free(t->v);
    free(t);
}

/* ---- the bias: --init-bias auto ---- */

/* Whole minibatches, at least CTR_INIT_ROWS rows. */
static int64_t init_span(const struct ctr_trainer *t)
{
    const int64_t step = t->job.params.minibatch;
    return (CTR_INIT_ROWS + step - 1) / step * step;
}

/* Before each minibatch of the first span, set the bias from the labels so far; afterwards before every other one,
 * while a class has fewer than CTR_INIT_LABELS labels. */
static int start_bias(struct ctr_trainer *t, struct ctr_err *err)
{
    const struct ctr_train_stats *s = &t->v[0].s;
    const int64_t row = t->at.row, span = init_span(t);
    if (t->job.init_rate != CTR_INIT_AUTO || t->at.pass || !row ||
        row % (row < span ? t->job.params.minibatch : span) || !(s->weight > 0))
        return 0;
    const double mean = s->weight / (double)s->rows, negatives = s->weight - s->positives;
    const bool few = CTR_MIN(s->positives, negatives) < CTR_INIT_LABELS * mean;
    const double odds =
        (s->positives + mean / 2) / (negatives + mean / 2); /* half a row of either class keeps it finite */
    int rc = few || row <= span ? t->job.model->set_bias(t->learner, ctr_log(odds), err) : 0;
    if (rc || few || row < span || t->bias_told)
        return rc;
    char text[160];
    snprintf(text, sizeof text, "after %" PRId64 " rows the bias has started, from %.6f: a click rate of %.6f", row,
             ctr_log(odds), odds / (1 + odds));
    t->bias_told = true;
    if (t->job.note)
        t->job.note(t->job.ctx, text);
    return 0;
}

/* Report once, at the first such row, because the run may never end. */
static void note_order(struct ctr_trainer *t, const struct ctr_time_order *now)
{
    char text[300];
    const bool first = !t->order.rows && now->rows;
    if (t->at.pass)
        return;
    t->order = *now;
    if (!first || !t->job.warn)
        return;
    snprintf(text, sizeof text,
             "row %lld has a time before that of an earlier row: such rows are predicted by a model that has learned "
             "from later ones%s; sort by time, or say --time-order ignore",
             (long long)now->first,
             t->job.params.lr.expire ? ", and --expire takes them for rows of the latest day" : "");
    t->job.warn(t->job.ctx, text);
}

/* Rows of this pass before the checkpoint that the run continues. */
static int64_t known_rows(const struct ctr_trainer *t)
{
    if (t->resume.row < 0 || t->at.pass > t->resume.pass)
        return 0;
    return t->at.pass < t->resume.pass ? INT64_MAX : t->resume.row;
}

int64_t ctr_trainer_rows_at_once(const struct ctr_trainer *t)
{
    const int64_t minibatch = t->job.params.minibatch;
    if (t->job.params.comm) /* a step has one minibatch per rank */
        return minibatch;
    return minibatch * CTR_MAX(MINIBATCH_ROWS / minibatch, 1);
}

static const struct ctr_rows *peek(void *feed, int k, bool wait)
{
    return ctr_feed_peek(feed, k, wait);
}

static int start_feed(struct ctr_trainer *t, const struct ctr_batch_source *s, struct ctr_err *err)
{
    const struct ctr_model *model = t->job.model;
    const bool autos = t->job.init_rate == CTR_INIT_AUTO && !t->at.pass;
    const bool saves = t->job.checkpoint || t->job.follow || t->job.publish_every.rows || t->job.publish_every.ms;
    const enum ctr_finds finds = model->finds ? model->finds(t->learner, saves) : CTR_FIND_NOTHING;
    const bool sweeps = t->job.params.spill && !model->deep; /* its disk, once for the rows of some tiles */
    const struct ctr_feed_opts o = {
        .source = *s,
        .in = t->in,
        .digest = t->at.pass < t->resume.pass ? NULL : t->digest,
        .spool = t->at.pass ? NULL : t->spool,
        .order = t->at.pass ? (struct ctr_time_order){ 0 } : t->order,
        .step_rows = autos ? t->job.params.minibatch : 0,
        .span_rows = init_span(t),
        .tile_rows = sweeps        ? CTR_BATCH_ROWS
                     : model->rows ? ctr_trainer_rows_at_once(t)
                                   : 0,
        .tile_entries = sweeps ? CTR_MAX(t->job.memory_bytes / SWEEP_PART / SWEEP_ENTRY_BYTES, 1) : 0,
        .known_rows = known_rows(t),
        .again_rows = t->at.pass == t->resume.pass ? t->resume.pending : 0,
        .with_batches = t->progressive.out && t->at.pass == 0,
        .threads = ctr_feed_threads(),
        .idle = t->job.idle,
        .ctx = t->job.ctx,
        .idle_ms = t->job.idle_ms,
        .stop = t->job.stop,
        .find = finds ? model->find : NULL,
        .finder = t->learner,
        .ordered = finds == CTR_FIND_ORDERED,
        .memory_bytes = t->job.memory_bytes,
        .times = t->job.times,
    };
    int rc = ctr_feed_new(&t->feed, &o, err);
    if (!rc && model->set_ahead && !t->job.validation_every) { /* else tiles are learned in parts */
        const struct ctr_ahead ahead = { peek, t->feed };
        model->set_ahead(t->learner, &ahead);
    }
    return rc;
}

/* ---- a tile ---- */

static void count_rows(struct ctr_trainer *t, const struct ctr_rows *r, const double *score)
{
    struct ctr_validation *v = t->v;
    for (int64_t from = 0, end; from < r->rows; from = end) {
        end = CTR_MIN(r->rows, from + CTR_MAX(v->next_report - v->s.rows, 1)); /* the next row to report on */
        v->s.rows += end - from;
        if (t->at.pass == 0)
            ctr_validation_rows(v, t->models, score, t->progressive.values, r, from, end);
        if (v->s.rows < v->next_report)
            continue;
        ctr_validation_settle(v);
        v->next_report *= 2;
        v->s.label = r->label[end - 1];
        v->s.score = score[(end - 1) * t->progressive.values];
        v->s.features = r->start[end] - r->start[end - 1];
        if (t->job.report && t->at.pass == 0)
            t->job.report(t->job.ctx, &v->s);
        v->s.since_weight = v->s.since_loss = 0;
    }
}

static int check_prefix(struct ctr_trainer *t, struct ctr_err *err)
{
    if (strcmp(t->at.digest, t->resume.digest))
        return ctr_fail(err, CTR_EDATA,
                        "the first %" PRId64
                        " rows are not those that %s was made from: give the same input to --resume, "
                        "or remove it to start anew",
                        t->resume.row, t->job.checkpoint);
    if (t->job.note) {
        char text[200];
        snprintf(text, sizeof text, "resumed after row %" PRId64 " of pass %" PRId64 ", whose input is the same",
                 t->resume.row, t->resume.pass + 1);
        t->job.note(t->job.ctx, text);
    }
    return 0;
}

/* Rows before the checkpoint: use their stored predictions, if predictions are needed. */
static int pass_over(struct ctr_trainer *t, int64_t n, double *score, struct ctr_err *err)
{
    const bool needed = t->progressive.out && t->at.pass == 0;
    int rc = ctr_progressive_known(&t->progressive, t->at.row, n, needed, score, err);
    if (!rc && t->at.pass == t->resume.pass && t->at.row + n == t->resume.row)
        rc = check_prefix(t, err);
    return rc;
}

static int end_batch(struct ctr_trainer *t, const struct ctr_batch *b, struct ctr_err *err)
{
    const bool writes = t->progressive.out && t->at.pass == 0;
    int rc = ctr_progressive_end_batch(&t->progressive, b, writes, err);
    if (writes)
        t->at.scores = t->progressive.store >= 0 ? CTR_MAX(t->at.row, t->resume.scores) : -1;
    return rc;
}

/* Rows [from, from + n) of r. */
static struct ctr_rows part_of(const struct ctr_trainer *t, const struct ctr_rows *r, int64_t from, int64_t n)
{
    struct ctr_rows part = *r;
    part.rows = n;
    part.first_row += from;
    part.start += from;
    part.left_row += from;
    part.label += r->label ? from : 0;
    part.weight += r->weight ? from : 0;
    part.day += r->day ? from : 0;
    part.dense += r->dense ? from * ctr_inputs_dense(t->in) : 0;
    return part;
}

/* Learn, with validations in between. If a validation ends the run, the rows after it are left out. */
static int learn_rows(struct ctr_trainer *t, struct ctr_rows *r, double *score, struct ctr_err *err)
{
    int rc = 0;
    if (!t->job.validation_every || t->job.params.comm)
        return t->job.model->train_rows(t->learner, r, score, t->job.memory_bytes, err);
    for (int64_t at = 0, n; at < r->rows && !rc; at += n) {
        const int64_t row = t->at.row + at, due = ctr_earlystop_next(t, row);
        n = CTR_MIN(r->rows - at, due - row);
        const struct ctr_rows part = part_of(t, r, at, n);
        rc = t->job.model->train_rows(t->learner, &part, score + at * t->progressive.values, t->job.memory_bytes, err);
        if (!rc && ctr_earlystop_due(t, row + n))
            rc = ctr_earlystop_now(t, row + n, false, err);
        if (t->early.stopped)
            r->rows = at + n;
    }
    return rc;
}

/* Known rows that are returned again had been scored, but not learned, when the checkpoint was written. */
static int take_tile(struct ctr_trainer *t, const struct ctr_tile *tile, struct ctr_err *err)
{
    t->whole = false;
    int rc = 0;
    double *score = ctr_progressive_room(&t->progressive, tile->n, &rc, err);
    if (rc)
        return rc;
    const struct ctr_worker worker = ctr_feed_worker(t->feed);
    struct ctr_rows rows = tile->rows;
    rows.worker = &worker;
    rows.unscored = !t->job.params.comm && (t->at.pass || t->job.unscored);
    if (tile->digest[0])
        memcpy(t->at.digest, tile->digest, sizeof tile->digest);
    if (t->leaves && rows.rows && !rows.left)
        t->brings = "the device has no room for those of all rows";
    if (!tile->known)
        rc = start_bias(t, err);
    if (!rc && rows.rows)
        rc = learn_rows(t, &rows, score, err);
    if (!rc && t->job.model->evaluate && !t->job.model->variant_ops)
        rc = ctr_lastrows_add(t, &rows, err);
    if (!rc && t->job.params.uncertainty)
        rc = ctr_progressive_pair(&t->progressive, score, rows.rows, err);
    if (!rc && t->crosses && !t->at.pass && !tile->known)
        ctr_crosses_add(t->crosses, &rows, score, t->progressive.values);
    if (!rc && tile->known)
        rc = pass_over(t, tile->n, score, err);
    else if (!rc)
        count_rows(t, &rows, score);
    if (!rc && !(t->v->s.weight < INFINITY))
        rc = ctr_fail(err, CTR_EDATA,
                      "row %" PRId64 ": the weights of the rows add up to infinity: divide them by a constant",
                      t->at.row + rows.rows);
    if (t->early.stopped)
        return rc;
    note_order(t, &tile->order);
    t->at.row += tile->n;
    if (!rc && tile->ends_batch)
        rc = end_batch(t, tile->batch, err);
    t->whole = !rc && tile->ends_batch;
    return rc;
}

/* Is the run still in rows that an existing checkpoint covers? Then that checkpoint stays. */
static bool before_resume(const struct ctr_trainer *t)
{
    return t->resume.row >= 0 &&
           (t->at.pass < t->resume.pass || (t->at.pass == t->resume.pass && t->at.row < t->resume.row));
}

/* Reports what was saved; ignores failures. */
static void tell_saved(const struct ctr_trainer *t, const char *what)
{
    struct ctr_buf text = { 0 };
    struct ctr_err err = { 0 };
    if (t->job.saved && !ctr_trainer_saved(t, what, &text, &err))
        t->job.saved(t->job.ctx, (const char *)text.data);
    ctr_buf_free(&text);
}

static int write_checkpoint(struct ctr_trainer *t, struct ctr_err *err)
{
    if (!t->job.checkpoint || before_resume(t) || !t->digest || t->chain.failed)
        return 0;
    int rc = ctr_checkpoint_write(t, err);
    t->chain.failed = rc;
    if (!rc)
        tell_saved(t, "checkpoint");
    return rc;
}

static int publish(struct ctr_trainer *t, struct ctr_err *err)
{
    t->publish.published = t->v->s.rows;
    int rc = t->job.publish(t->job.ctx, err);
    if (rc) {
        ctr_err_add(err, "; what was learned from row %" PRId64 " on is not saved", t->publish.saved + 1);
        return rc;
    }
    t->publish.saved = t->publish.published;
    tell_saved(t, "model");
    return 0;
}

/* Nothing is due if no row has come since the last time. */
int ctr_trainer_save_due(struct ctr_trainer *t, bool stop, struct ctr_err *err)
{
    const int64_t rows = t->v->s.rows;
    int rc = 0;
    if (before_resume(t))
        return 0;
    if (t->job.publish && rows != t->publish.published &&
        ctr_schedule_due(&t->publish.due, &t->job.publish_every, rows))
        rc = publish(t, err);
    if (!rc && (stop || (rows != t->chain.due.rows && ctr_schedule_due(&t->chain.due, &t->job.checkpoint_every, rows))))
        rc = write_checkpoint(t, err);
    return rc;
}

int ctr_trainer_learn_waiting(struct ctr_trainer *t, struct ctr_err *err)
{
    const struct ctr_model *model = t->job.model;
    if (!model->pending || !model->pending(t->learner) || before_resume(t))
        return 0;
    t->publish.published = 0;
    return model->end_pass(t->learner, err);
}

static int between_batches(struct ctr_trainer *t, struct ctr_err *err)
{
    bool stop = t->job.stop && *t->job.stop;
    int rc = ctr_trainer_save_due(t, stop, err);
    if (rc || !stop)
        return rc;
    (void)ctr_fail(err, CTR_EDATA, "stopped by a signal after row %" PRId64 " of pass %" PRId64 "; go on with --resume",
                   t->at.row, t->at.pass + 1);
    return err->code = CTR_ESTOPPED;
}

/* ---- passes ---- */

/* The source waits for input: in this thread or in the feed's. */
static bool source_waits(void *ctx)
{
    struct ctr_trainer *t = ctx;
    if (ctr_feed_has_thread(t->feed))
        return ctr_feed_idles(t->feed);
    if (t->job.idle)
        t->job.idle(t->job.ctx);
    return true;
}

static int open_pass(struct ctr_trainer *t, struct ctr_batch_source *s, struct ctr_err *err)
{
    enum { QUIT_MS = 100 };
    char *paths[] = { (char *)(uintptr_t)t->job.spool };
    const struct ctr_reader_opts o = {
        .idle = source_waits,
        .idle_ctx = t,
        .idle_ms = ctr_cpu_count() > 1 ? CTR_MIN(t->job.idle_ms, QUIT_MS) : t->job.idle_ms,
        .follow = t->job.follow,
        .part = CTR_MAX(t->shards.reads, 0),
        .parts = t->shards.n > 1 ? t->shards.n : 0,
    };
    struct ctr_reader *spooled;
    if (!t->at.pass || !t->job.spool)
        return t->job.open(t->job.ctx, NULL, &o, s, err);
    int rc = ctr_reader_open(&spooled, paths, 1, NULL, err);
    if (!rc)
        *s = ctr_batch_source_stream(spooled);
    return rc;
}

static int finish_spool(struct ctr_trainer *t, struct ctr_err *err)
{
    if (!t->spool)
        return 0;
    int rc = ctr_writer_finish(t->spool, err);
    if (!rc)
        rc = ctr_out_commit(t->spool_out, err);
    ctr_writer_free(t->spool);
    ctr_out_free(t->spool_out);
    t->spool = NULL;
    t->spool_out = NULL;
    return rc;
}

/* A followed log broke off: the rows before it give a model like those saved during the run. The error message says
 * so. */
static void end_following(struct ctr_trainer *t, struct ctr_err *err)
{
    const int64_t rows = t->v->s.rows;
    struct ctr_err second = { 0 };
    const bool learned = t->whole && !ctr_trainer_learn_waiting(t, &second);
    bool saved = rows && rows == t->publish.published;
    if (!saved && rows && learned && t->job.publish && !before_resume(t))
        saved = !publish(t, &second);
    if (saved)
        ctr_err_add(err, "; the model of the %lld rows before is saved", (long long)rows);
    else
        ctr_err_add(err, "; the model is not saved%s%s",
                    second.code ? ": "
                    : rows      ? ""
                                : ": no row was learned",
                    second.code ? ctr_err_text(&second).s : "");
}

int ctr_trainer_check_end(const struct ctr_trainer *t, struct ctr_err *err)
{
    if (t->resume.row <= t->at.row || t->resume.pass != t->at.pass)
        return 0;
    return ctr_fail(err, CTR_EDATA, "the input ends after row %" PRId64 ", but %s was made after row %" PRId64 "%s",
                    t->at.row, t->job.checkpoint, t->resume.row,
                    t->job.follow ? ": in another log, as after rotation, --init MODEL goes on, without that file"
                                  : "");
}

/* Learn all rows of the pass. *tile: the last tile. *got: 0, or the negative result of ctr_feed_next. */
static int take_tiles(struct ctr_trainer *t, const struct ctr_tile **tile, int *got, struct ctr_err *err)
{
    int rc = 0;
    while (!rc && !t->early.stopped && (*got = ctr_feed_next(t->feed, tile, err)) > 0) {
        rc = take_tile(t, *tile, err);
        if (!rc && (*tile)->ends_batch && !t->early.stopped)
            rc = between_batches(t, err);
    }
    return rc;
}

/* Actions of all ranks between two steps. */
static int between_steps(struct ctr_trainer *t, const struct ctr_ranks_word *w, struct ctr_err *err)
{
    int rc = w->publish ? publish(t, err) : 0;
    if (!rc && w->validate && !w->all_ended) /* else as the pass ends */
        rc = ctr_earlystop_now(t, t->ranks.looked, false, err);
    if (!rc && w->checkpoint)
        rc = write_checkpoint(t, err);
    if (rc || !w->stop)
        return rc;
    (void)ctr_fail(err, CTR_EDATA, "stopped by a signal after row %" PRId64 " of pass %" PRId64 "; go on with --resume",
                   t->at.row, t->at.pass + 1);
    return err->code = CTR_ESTOPPED;
}

/* The same over ranks (ranks.c): each minibatch is a step that all ranks take together. After the rows of its last
 * shard a rank takes part without rows, until those of all have ended. */
static int take_steps(struct ctr_trainer *t, bool last, const struct ctr_tile **tile, int *got, struct ctr_err *err)
{
    const struct ctr_model *model = t->job.model;
    const struct ctr_rows none = { .rows = 0 };
    struct ctr_ranks_word word = { .all_ended = false };
    bool ended = t->shards.reads < 0;
    int rc = 0;
    while (!rc) {
        if (!ended && (*got = ctr_feed_next(t->feed, tile, err)) < 0)
            break;
        if (!ended && !*got) { /* the last minibatch may be short */
            ended = true;
            rc = model->pending(t->learner) ? model->end_pass(t->learner, err) : 0;
            if (!last)
                break;
        }
        if (!rc && !ended && (*tile)->known && !(*tile)->rows.rows) {
            rc = take_tile(t, *tile, err);
            continue;
        }
        if (!rc && !model->pending(t->learner)) {
            rc = ctr_ranks_agree(t, ended, &word, err);
            if (!rc)
                rc = between_steps(t, &word, err);
        }
        if (rc || word.all_ended || t->early.stopped)
            break;
        rc = ended ? model->train_rows(t->learner, &none, NULL, t->job.memory_bytes, err) : take_tile(t, *tile, err);
    }
    return !rc && word.all_ended && last ? ctr_ranks_balance(t, err) : rc;
}

/* Why the host reads the plan's keys; NULL: it does not. */
static const char *host_reads(const struct ctr_trainer *t)
{
    const struct ctr_train_job *job = &t->job;
    const struct {
        bool is;
        const char *why;
    } reasons[] = { { t->digest, "a checkpoint has their digest" },
                    { t->spool, "--spool writes them" },
                    { t->crosses, "crosses are measured" },
                    { job->follow, "rows are learned as they come" } };
    for (size_t i = 0; i < CTR_COUNT(reasons); i++)
        if (reasons[i].is)
            return reasons[i].why;
    return job->model->refuses_left(t->learner);
}

/* Leave them on the device if that can be. Returns 1: done. */
static int leave_keys(struct ctr_trainer *t, const struct ctr_batch_source *s, struct ctr_err *err)
{
    const int64_t rows = ctr_trainer_rows_at_once(t);
    t->leaves = false;
    if (!t->job.model->refuses_left)
        return 0;
    const struct ctr_leave how = { .rows = rows, .batches = ctr_feed_tiles_ahead(rows) + 2, .unwanted = host_reads(t) };
    const int rc = ctr_inputs_leave(t->in, s, &how, &t->brings, err);
    t->leaves = rc > 0;
    return rc;
}

/* Bind the run to its input, which is at its first batch: *s has the rows to learn from. */
static int start_rows(struct ctr_trainer *t, struct ctr_batch_source *s, struct ctr_err *err)
{
    int rc = ctr_trainer_start_pass(t, ctr_batch_source_schema(s), ctr_batch_source_name(s), err);
    if (!rc)
        rc = ctr_trainer_good_rows(t, s, err);
    if (!rc)
        rc = leave_keys(t, s, err);
    if (rc > 0)
        return 0;
    if (!rc && t->job.model->rows && !t->job.follow) /* rows of a growing log are learned as they come */
        rc = ctr_batch_source_regroup(s, ctr_trainer_rows_at_once(t), err);
    return rc;
}

static int run_pass(struct ctr_trainer *t, struct ctr_batch_source *s, bool last, struct ctr_err *err)
{
    const struct ctr_tile *tile = NULL;
    int rc = start_rows(t, s, err), got = 0;
    if (!rc && t->shards.reads >= 0)
        rc = start_feed(t, s, err);
    if (!rc)
        rc = t->job.params.comm ? take_steps(t, last, &tile, &got, err) : take_tiles(t, &tile, &got, err);
    if (!rc && t->early.stopped) /* the following rows are neither read nor kept for another pass */
        return 0;
    rc = rc ? rc : got;
    if (!rc && t->job.model->end_pass && !before_resume(t) && (last || !t->job.params.comm)) {
        rc = t->job.model->end_pass(t->learner, err);
        t->whole &= !rc; /* rows of the last minibatch may not be learned */
    }
    if (rc < 0 && t->whole && rc != CTR_ESTOPPED &&
        !t->job.params.comm) { /* the input broke off: save what was learned */
        struct ctr_err second = { 0 };
        if (write_checkpoint(t, &second) && t->job.warn)
            t->job.warn(t->job.ctx, ctr_err_text(&second).s);
    }
    if (got < 0 && t->job.follow)
        end_following(t, err);
    if (rc && rc != CTR_ESTOPPED)
        ctr_err_file(err, tile ? tile->file : ctr_batch_source_name(s));
    if (!rc)
        rc = ctr_trainer_check_end(t, err);
    return rc ? rc : finish_spool(t, err);
}

/* How the input of the pass is cut: as it was for the run that goes on, or for this one. */
static int start_shards(struct ctr_trainer *t, struct ctr_err *err)
{
    struct ctr_shards *s = &t->shards;
    const bool resumed = s->resumed && t->at.pass <= s->resumed_pass;
    const int n = resumed ? s->resumed : ctr_comm_size(t->job.params.comm);
    if (s->at && resumed)
        return 0;
    free(s->at);
    s->n = n;
    s->at = calloc((size_t)n, sizeof *s->at);
    return s->at ? 0 : ctr_fail_nomem(err, (size_t)n * sizeof *s->at);
}

/* Open the pass, at the first batch. Before the run's first, the keys of all are counted, where the learner wants that.
 */
static int open_counted(struct ctr_trainer *t, struct ctr_batch_source *s, struct ctr_err *err)
{
    bool counted = false;
    int rc = open_pass(t, s, err);
    if (rc || t->have_stream || !t->wants_counts || !t->job.opens_again)
        return rc;
    rc = start_rows(t, s, err);
    if (!rc)
        rc = ctr_trainer_count_keys(t, s, &counted, err);
    end_pass(t);
    if (rc)
        ctr_err_file(err, ctr_batch_source_name(s));
    if (rc || !counted)
        return rc;
    ctr_batch_source_close(s);
    *s = (struct ctr_batch_source){ 0 };
    if (t->job.bad)
        ctr_bad_rows_again(t->job.bad);
    return open_pass(t, s, err);
}

/* Rows of shard `number`, which is this rank's last one or not; there may be none. */
static int run_shard(struct ctr_trainer *t, int number, bool last, struct ctr_err *err)
{
    struct ctr_shards *shards = &t->shards;
    struct ctr_batch_source s = { 0 };
    shards->reads = number < shards->n ? number : -1;
    t->at.row = 0;
    t->resume.row = -1;
    if (t->resumed && shards->reads >= 0 && t->at.pass <= shards->resumed_pass)
        t->resume = shards->at[number];
    int rc = open_counted(t, &s, err);
    if (rc && t->job.follow)
        end_following(t, err);
    if (!rc)
        rc = run_pass(t, &s, last, err);
    if (!rc)
        rc = ctr_lastrows_bring(t, err);
    if (!rc && shards->reads >= 0 && !before_resume(t))
        shards->at[number] = t->at;
    const bool looked = !t->job.params.comm && ctr_earlystop_due(t, t->at.row);
    if (!rc && last && t->job.validation && !t->early.stopped && !before_resume(t) && !looked)
        rc = ctr_earlystop_now(t, t->at.row, true, err);
    end_pass(t);
    ctr_batch_source_close(&s);
    return rc;
}

int ctr_trainer_run(struct ctr_trainer *t, struct ctr_err *err)
{
    const int rank = ctr_comm_rank(t->job.params.comm), ranks = ctr_comm_size(t->job.params.comm);
    int rc = t->job.checkpoint && t->job.resume ? ctr_checkpoint_peek(t, err) : 0;
    if (t->shards.resumed && t->shards.resumed != ranks) /* the passes before were cut otherwise, and are over */
        t->at.pass = CTR_MIN(t->shards.resumed_pass, t->job.passes - 1);
    const int64_t first = t->at.pass;
    for (; t->at.pass < t->job.passes && !rc && !t->early.stopped; t->at.pass++) {
        if (t->job.bad && t->at.pass > first)
            ctr_bad_rows_again(t->job.bad);
        rc = start_shards(t, err);
        t->ranks.looked = -1;
        for (int s = rank; !rc && !t->early.stopped && (s == rank || s < t->shards.n); s += ranks)
            rc = run_shard(t, s, s + ranks >= t->shards.n, err);
    }
    for (int i = 0; i < t->models; i++)
        ctr_validation_settle(&t->v[i]);
    return rc ? rc : ctr_ranks_gather(t, err);
}

bool ctr_trainer_resuming(const struct ctr_trainer *t)
{
    return before_resume(t);
}

int ctr_trainer_models(const struct ctr_trainer *t)
{
    return t->models;
}

int ctr_trainer_save(struct ctr_trainer *t, int model, struct ctr_out *out, struct ctr_err *err)
{
    return t->early.best ? ctr_earlystop_save(t, out, err) : ctr_trainer_save_now(t, model, out, err);
}

/* Make the learner that a model's file is saved from, as if it had been trained alone. */
static int make_standalone(struct ctr_trainer *t, int model, struct ctr_save *s, struct ctr_err *err)
{
    const struct ctr_variant_ops *variants = t->job.model->variant_ops;
    *s = (struct ctr_save){ .model = variants ? variants->model : t->job.model,
                            .params = variants ? &t->job.params.variants->v[model].params : &t->job.params,
                            .learner = t->learner,
                            .tables = &t->tables,
                            .stream = &t->stream,
                            .program = t->job.program,
                            .options = t->job.options,
                            .fitted = t->job.fitted };
    if (t->sharing_lock)
        pthread_mutex_lock(t->sharing_lock);
    int rc = variants ? variants->standalone(t->learner, model, &t->tables, &s->learner, err) : 0;
    if (t->sharing_lock)
        pthread_mutex_unlock(t->sharing_lock);
    return rc;
}

int ctr_trainer_save_some(struct ctr_trainer *t, const int *model, int n, struct ctr_out *const *out,
                          struct ctr_err *err)
{
    const struct ctr_variant_ops *variants = t->job.model->variant_ops;
    struct ctr_save s[CTR_SAVE_TOGETHER];
    int made = 0, rc = t->have_stream ? 0 : ctr_fail(err, CTR_EDATA, "no input came, so that there is no model");
    for (; made < n && !rc; made += !rc)
        rc = make_standalone(t, model[made], &s[made], err);
    if (!rc)
        rc = ctr_model_save_some(s, n, variants ? variants->save : NULL, out, err);
    for (int i = 0; i < made && variants; i++)
        variants->model->learner_free(s[i].learner);
    return rc;
}

int ctr_trainer_save_now(struct ctr_trainer *t, int model, struct ctr_out *out, struct ctr_err *err)
{
    return ctr_trainer_save_some(t, &model, 1, &out, err);
}

void ctr_trainer_done(struct ctr_trainer *t)
{
    ctr_checkpoint_remove(t);
}
