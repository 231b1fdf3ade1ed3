/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints. A checkpoint is a model saved during the run, with a line of metadata that gives the position of the
 * run: the pass and its row, the digest of the pass's rows so far, and the sums of progressive validation, bit for bit.
 * Progressive predictions so far (with --uncertainty each followed by its own) are kept beside it in FILE.scores
 * (doubles, appended and fsynced before the checkpoint is renamed into place), so that a resumed run writes the
 * progressive stream from the first row again, without learning twice. Whenever the process dies, the existing
 * checkpoint is whole, and FILE.scores holds at least the scores that it counts. With --validation it also has the
 * number of validations and the best one, whose model is FILE.best.N.
 *
 * With deltas, checkpoints after a whole one are files FILE.delta.N of what changed since the one before (model.h),
 * each of which names the state that it follows: the checkpoint is FILE with all deltas that follow it without a gap.
 * A whole checkpoint names the one whose deltas it makes void from the rename on, until they are removed; any other
 * delta that does not follow is an error. */
#include "common/compute/comm.h"
#include "common/train/trainer.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t bits(double v)
{
    uint64_t b;
    memcpy(&b, &v, sizeof b);
    return b;
}

/* The line of a run of two passes of 1,000 rows, written after row 600 of the second, with --progressive and without
 * --validation, is "2 1 600 0 5d41… 1000 1600 2048 4090… … 3fe6… a0:4008…:0 …":
 *
 *     2            version: what FILE.scores holds, and whether there are validations
 *     1 600        the pass, from 0, and its rows so far
 *     0            of these, the last so many are scored but not learned: they wait for their minibatch
 *     5d41…        the digest of the pass's rows so far
 *     1000         rows of FILE.scores: of the first pass, which alone is predicted
 *     1600 2048    rows of the run so far; the row of the next report
 *     4090… …      seven sums, 64 bits in hex each
 *     a0:4008…:0   bins of the AUC that are not empty: number, weight of positives, weight of negatives
 *
 * A resumed run reads its input from the start: 1,000 rows of the first pass are passed by (their predictions come from
 * FILE.scores), 600 of the second are digested, and that digest must be the line's. */

/* ---- the line ---- */

/* Doubles of the validation, in the order of the line. */
enum { SUMS = 7 };
static void sums_of(struct ctr_validation *v, double *sum[SUMS])
{
    double *const all[SUMS] = { &v->s.weight,     &v->s.loss,  &v->s.positives, &v->s.since_weight,
                                &v->s.since_loss, &v->s.score, &v->product };
    memcpy(sum, all, sizeof all);
}

static int write_sums(struct ctr_validation *v, struct ctr_buf *b, struct ctr_err *err)
{
    double *sum[SUMS];
    int rc = 0;
    sums_of(v, sum);
    for (int i = 0; i < SUMS && !rc; i++)
        rc = ctr_buf_printf(b, err, " %016" PRIx64, bits(*sum[i]));
    for (int i = 0; i < CTR_AUC_BINS && !rc; i++)
        if (v->positive[i] > 0 || v->negative[i] > 0)
            rc = ctr_buf_printf(b, err, " %x:%" PRIx64 ":%" PRIx64, (unsigned)i, bits(v->positive[i]),
                                bits(v->negative[i]));
    return rc;
}

/* The sums of several models follow each other, separated by ';'. The line starts with a number that describes the
 * content of FILE.scores. */
enum { WITH_SCORES = 2, WITH_UNCERTAINTY = 3, WITH_VALIDATION = 4 };
static int write_line(const struct ctr_trainer *t, const struct ctr_position *at, int64_t pending,
                      struct ctr_validation *v, struct ctr_buf *b, struct ctr_err *err)
{
    const int version = (at->uncertain ? WITH_UNCERTAINTY : WITH_SCORES) + (t->job.validation ? WITH_VALIDATION : 0);
    int rc = ctr_buf_printf(b, err, "%d %" PRId64 " %" PRId64 " %" PRId64 " %s %" PRId64 " %" PRId64 " %" PRId64,
                            version, t->at.pass, at->row, pending, at->digest, at->scores, v->s.rows, v->next_report);
    if (!rc && t->job.validation)
        rc = ctr_buf_printf(b, err, " %" PRId64 " %" PRId64 " %" PRId64 " %016" PRIx64, t->job.validation_every,
                            t->early.validations, t->early.best, bits(t->early.best_loss));
    for (int m = 0; m < t->models && !rc; m++) {
        rc = m ? ctr_buf_printf(b, err, ";") : 0;
        if (!rc)
            rc = write_sums(&v[m], b, err);
    }
    return rc;
}

static const char *hex(const char *s, uint64_t *v)
{
    char *end;
    errno = 0;
    *v = strtoull(s, &end, 16);
    return end == s || errno ? NULL : end;
}

static const char *read_bins(struct ctr_validation *v, const char *s)
{
    uint64_t bin, p, n;
    while (s && *s && *s != ';' && *s != '|') {
        if (!(s = hex(s, &bin)) || *s != ':' || !(s = hex(s + 1, &p)) || *s != ':' || !(s = hex(s + 1, &n)) ||
            bin >= CTR_AUC_BINS)
            return NULL;
        memcpy(&v->positive[bin], &p, sizeof p);
        memcpy(&v->negative[bin], &n, sizeof n);
    }
    return s;
}

static const char *read_sums(struct ctr_validation *v, const char *s)
{
    double *sum[SUMS];
    sums_of(v, sum);
    for (int i = 0; i < SUMS; i++) {
        uint64_t b;
        if (!(s = hex(s, &b)))
            return NULL;
        memcpy(sum[i], &b, sizeof b);
    }
    return read_bins(v, s);
}

/* A valid count of rows or validations: larger ones could overflow, also as bytes. */
static bool is_count(int64_t n)
{
    return n >= 0 && n < (int64_t)1 << 48;
}

static const char *read_validation(struct ctr_trainer *t, struct ctr_position *r, const char *line)
{
    int used = 0;
    uint64_t loss;
    if (sscanf(line, "%" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNx64 "%n", &r->every, &t->early.validations,
               &t->early.best, &loss, &used) != 4 ||
        r->every < 0 || !is_count(t->early.validations) || !is_count(t->early.best) ||
        t->early.best > t->early.validations)
        return NULL;
    memcpy(&t->early.best_loss, &loss, sizeof loss);
    return line + used;
}

/* The k-th of lines that are joined by '|', and its length. */
static const char *line_at(const char *lines, int k, int *n)
{
    for (; k > 0 && lines; k--)
        lines = (lines = strchr(lines, '|')) ? lines + 1 : NULL;
    *n = lines ? (int)strcspn(lines, "|") : 0;
    return lines;
}

/* Those of the shards of this rank: the sums of its rows stand in the first. */
static int write_own_lines(struct ctr_trainer *t, struct ctr_buf *b, struct ctr_err *err)
{
    const int rank = ctr_comm_rank(t->job.params.comm), ranks = ctr_comm_size(t->job.params.comm);
    const int64_t pending = t->job.model->pending ? t->job.model->pending(t->learner) : 0;
    struct ctr_validation *none = malloc(sizeof *none);
    if (!none)
        return ctr_fail_nomem(err, sizeof *none);
    ctr_validation_start(none);
    int rc = ctr_buf_printf(b, err, "%s", "");
    for (int s = rank; s < t->shards.n && !rc; s += ranks) {
        const bool first = s == rank, at_it = s == t->shards.reads;
        if (!first)
            rc = ctr_buf_append(b, "|", 1, err);
        if (!rc)
            rc = write_line(t, at_it ? &t->at : &t->shards.at[s], at_it ? pending : 0, first ? t->v : none, b, err);
    }
    free(none);
    return rc;
}

/* Over ranks the line has those of all shards, a '|' before each but the first. */
static int write_lines(struct ctr_trainer *t, struct ctr_buf *b, struct ctr_err *err)
{
    struct ctr_comm *c = t->job.params.comm;
    const int size = ctr_comm_size(c);
    struct ctr_buf mine = { 0 }, *in = NULL;
    int rc = write_own_lines(t, &mine, err);
    if (!rc)
        rc = ctr_comm_gather_new(c, CTR_COMM_CONTROL, mine.data, mine.len + 1, &in, err);
    for (int s = 0, n; s < t->shards.n && !rc; s++) {
        const char *line = line_at((const char *)in[s % size].data, s / size, &n);
        rc = ctr_buf_printf(b, err, "%s%.*s", s ? "|" : "", n, line ? line : "");
    }
    ctr_comm_gather_free(c, in);
    ctr_buf_free(&mine);
    return rc;
}

/* Sums of models into v. */
static bool read_line(struct ctr_trainer *t, const char *line, struct ctr_position *r, struct ctr_validation *v)
{
    struct ctr_train_stats *s = &v->s;
    int used = 0, version = 0;
    if (sscanf(line, "%d %" SCNd64 " %" SCNd64 " %" SCNd64 " %32s %" SCNd64 " %" SCNd64 " %" SCNd64 "%n", &version,
               &r->pass, &r->row, &r->pending, r->digest, &r->scores, &s->rows, &v->next_report, &used) != 8 ||
        ((version & 3) != WITH_SCORES && (version & 3) != WITH_UNCERTAINTY) || version > 7 || !is_count(r->pass) ||
        !is_count(r->row) || !is_count(r->pending) || r->pending > r->row ||
        (r->scores != -1 && !is_count(r->scores)) || !is_count(s->rows) || !is_count(v->next_report))
        return false;
    r->uncertain = (version & 3) == WITH_UNCERTAINTY;
    r->every = -1;
    line += used;
    if (version & WITH_VALIDATION)
        line = read_validation(t, r, line);
    for (int m = 0; m < t->models && line; m++) {
        if (m && *line++ != ';')
            return false;
        line = read_sums(&v[m], line);
    }
    return line && (!*line || *line == '|');
}

static int count_lines(const char *lines)
{
    int n = 1;
    for (; (lines = strchr(lines, '|')); lines++)
        n++;
    return n;
}

/* The positions of all shards; the sums of those that this rank goes on with. *rows: of all. */
static bool read_lines(struct ctr_trainer *t, const char *lines, struct ctr_validation *other, int64_t *rows)
{
    const struct ctr_comm *c = t->job.params.comm;
    struct ctr_shards *all = &t->shards;
    bool good = count_lines(lines) == all->n && (all->n == 1 || t->models == 1);
    *rows = 0;
    for (int s = 0, n; s < all->n && good; s++) {
        const bool mine = s % ctr_comm_size(c) == ctr_comm_rank(c), first = s == ctr_comm_rank(c);
        struct ctr_validation *v = first ? t->v : other;
        for (int m = 0; m < t->models; m++)
            ctr_validation_start(&v[m]);
        good = read_line(t, line_at(lines, s, &n), &all->at[s], v) && all->at[s].pass == all->at[0].pass;
        *rows += v->s.rows;
        if (mine && !first) {
            ctr_validation_settle(t->v);
            ctr_validation_settle(v);
            ctr_validation_add(t->v, v);
        }
    }
    return good;
}

/* ---- the file ---- */

static int same_options(struct ctr_trainer *t, const struct ctr_model_info *info, struct ctr_err *err)
{
    struct ctr_buf want = { 0 };
    const char *have = ctr_meta_get(&info->schema.meta, CTR_META_MODEL_OPTIONS);
    int rc = ctr_params_text(t->job.model, &t->job.params, &want, err);
    if (!rc && (strcmp(info->model->name, t->job.model->name) || !have || strcmp(have, (const char *)want.data)))
        rc = ctr_fail(err, CTR_EUSAGE, "%s was made with %s %s, this run has %s %s: give the same options to --resume",
                      t->job.checkpoint, info->model->name, have ? have : "", t->job.model->name,
                      (const char *)want.data);
    ctr_buf_free(&want);
    const struct ctr_variants *ours = t->job.params.variants;
    const char *theirs = ctr_meta_get(&info->schema.meta, CTR_META_VARIANTS);
    if (!rc && (!ours != !theirs || (ours && strcmp((const char *)ours->text.data, theirs))))
        rc = ctr_fail(err, CTR_EUSAGE, "%s was made with %s variants: give the same --variants to --resume",
                      t->job.checkpoint, theirs ? "other" : "no");
    return rc;
}

/* Can it be created? Finding out hours later would waste them. */
static int check_makeable(const char *path, struct ctr_err *err)
{
    struct ctr_out *out = NULL;
    ctr_err_file(err, "--checkpoint");
    int rc = ctr_out_open(&out, path, CTR_OUT_BINARY, err);
    ctr_out_free(out);
    if (!rc)
        err->file[0] = 0;
    return rc;
}

/* Judged by its beginning, because the end may be missing. *row is -1 for a model that is not a checkpoint. */
static bool is_model(const char *path, int64_t *pass, int64_t *row)
{
    struct ctr_model_info info;
    struct ctr_reader *r;
    struct ctr_err why = { 0 };
    struct stat st;
    if (stat(path, &st) || !S_ISREG(st.st_mode) || ctr_model_open(path, &info, &r, &why))
        return false;
    const char *line = ctr_meta_get(&info.schema.meta, CTR_META_CHECKPOINT);
    if (!line || sscanf(line, "%*d %" SCNd64 " %" SCNd64, pass, row) != 2)
        *row = -1;
    ctr_reader_free(r);
    ctr_model_info_free(&info);
    return true;
}

/* The run replaces the file and removes it at the end, so it must not exist, even as a checkpoint: a complete run has
 * removed its own, so an existing one is all that is left of an incomplete run. */
int ctr_checkpoint_check(const struct ctr_trainer *t, struct ctr_err *err)
{
    const char *path = t->job.checkpoint;
    struct stat st;
    int64_t pass, row;
    if (stat(path, &st))
        return check_makeable(path, err);
    ctr_err_file(err, path);
    if (!is_model(path, &pass, &row) || row < 0)
        return ctr_fail(err, CTR_EUSAGE,
                        "is there already and is no checkpoint; it would be replaced and removed: name another file");
    return ctr_fail(err, CTR_EUSAGE,
                    "holds a run that stopped after row %" PRId64 " of pass %" PRId64
                    ": go on with --resume, or remove it to start anew",
                    row, pass + 1);
}

int ctr_checkpoint_peek(struct ctr_trainer *t, struct ctr_err *err)
{
    struct ctr_buf line = { 0 };
    int64_t pass;
    if (access(t->job.checkpoint, F_OK) && errno == ENOENT)
        return 0;
    int rc = ctr_model_position(t->job.checkpoint, &line, err);
    if (!rc && line.len && sscanf((const char *)line.data, "%*d %" SCNd64, &pass) == 1 && is_count(pass)) {
        t->shards.resumed = count_lines((const char *)line.data);
        t->shards.resumed_pass = pass;
    }
    ctr_buf_free(&line);
    return rc;
}

/* Does the run have what the checkpoint needs? */
static int check_position(const struct ctr_trainer *t, const struct ctr_position *at, struct ctr_err *err)
{
    const int ranks = ctr_comm_size(t->job.params.comm);
    if (at->pass >= t->job.passes)
        return ctr_fail(err, CTR_EUSAGE, "%s was made in pass %" PRId64 ": --passes %" PRId64 " would end before it",
                        t->job.checkpoint, at->pass + 1, t->job.passes);
    if (at->every != (t->job.validation ? t->job.validation_every : -1))
        return ctr_fail(err, CTR_EUSAGE, "%s was made with%s --validation%s: resume so, or remove it to start anew",
                        t->job.checkpoint, at->every < 0 ? "out" : "",
                        t->job.validation && at->every >= 0 ? " and another --validation-every" : "");
    if (at->scores >= 0 && !t->job.progressive) /* at its end the run would remove the stored scores */
        return ctr_fail(err, CTR_EUSAGE, "%s was made with --progressive: resume with it, or remove it to start anew",
                        t->job.checkpoint);
    if (t->shards.n != ranks && (at->scores >= 0 || t->job.progressive || t->job.spool))
        return ctr_fail(err, CTR_EUSAGE, "%s was made by %d rank%s, and this run has %d: with --%s resume with as many",
                        t->job.checkpoint, t->shards.n, CTR_S(t->shards.n), ranks,
                        t->job.spool ? "spool" : "progressive");
    return 0;
}

static int load_whole(struct ctr_trainer *t, const struct ctr_model_whole *from, struct ctr_err *err)
{
    struct ctr_model_info info;
    struct ctr_reader *r;
    int rc = ctr_model_open(from->path, &info, &r, err);
    if (rc)
        return rc;
    const char *line = ctr_meta_get(&info.schema.meta, CTR_META_CHECKPOINT);
    struct ctr_shards *shards = &t->shards;
    struct ctr_validation *other = malloc((size_t)t->models * sizeof *other);
    int64_t rows = 0;
    if (!other)
        rc = ctr_fail_nomem(err, (size_t)t->models * sizeof *other);
    if (!rc && line)
        rc = same_options(t, &info, err);
    if (!rc && (!line || !shards->resumed || !read_lines(t, line, other, &rows)))
        rc =
            ctr_fail(err, CTR_EDATA, "%s is no checkpoint: --resume wants the file of --checkpoint", t->job.checkpoint);
    if (!rc)
        rc = check_position(t, &shards->at[0], err);
    if (!rc)
        rc = ctr_model_same_plan(&info, t->job.checkpoint, &t->stream, err);
    if (!rc && t->job.validation)
        rc = ctr_earlystop_resume(t, err);
    if (!rc)
        rc = t->job.model->load(t->learner, &t->tables, r, err);
    if (!rc)
        rc = ctr_model_restore(t->job.model, t->learner, r, err);
    t->chain.due.rows = t->publish.due.rows = rows;
    t->resumed = true;
    if (!rc && shards->reads >= 0)
        t->resume = shards->at[shards->reads];
    ctr_model_state(&info.schema.meta, t->chain.state);
    free(other);
    ctr_reader_free(r);
    ctr_model_info_free(&info);
    return rc;
}

/* Deltas from the `keep`-th on, and what a killed run left of one. */
static bool is_delta(const char *path, const char *end, int64_t keep)
{
    char *tail;
    const int64_t n = strtoll(end + strlen(".delta."), &tail, 10);
    struct stat st;
    if (!*tail)
        return n >= keep && ctr_model_is_delta(path);
    return !strncmp(tail, ".tmp.", 5) && strlen(tail) == strlen(".tmp.XXXXXX") && !stat(path, &st) &&
           S_ISREG(st.st_mode) && (!st.st_size || ctr_model_is_delta(path));
}

int ctr_checkpoint_load(struct ctr_trainer *t, struct ctr_err *err)
{
    struct ctr_model_whole whole;
    if (access(t->job.checkpoint, F_OK) && errno == ENOENT) {
        if (t->job.note)
            t->job.note(t->job.ctx, "no checkpoint yet: starting from the first row");
        return check_makeable(t->job.checkpoint, err);
    }
    int rc = ctr_model_whole(t->job.checkpoint, &whole, err);
    if (rc)
        return rc;
    t->chain.n = whole.deltas;
    t->chain.whole = t->job.checkpoint_deltas;
    memcpy(t->chain.base, whole.base, CTR_STATE_TEXT);
    rc = ctr_model_whole_end(&whole, t->job.checkpoint, load_whole(t, &whole, err), err);
    if (!rc && !ctr_comm_rank(t->job.params.comm)) /* those that are void */
        ctr_checkpoint_remove_files(t->job.checkpoint, ".delta.[0-9]*", is_delta, t->chain.n + 1);
    return rc;
}

int ctr_checkpoint_follow(struct ctr_trainer *t, struct ctr_err *err)
{
    return t->job.model->changes(t->learner, CTR_CHANGES_NOTE, err);
}

/* Those of this run, the last one first, and what others left. */
static void remove_deltas(const struct ctr_trainer *t)
{
    char path[PATH_MAX];
    for (int64_t i = t->chain.n; i > 0; i--)
        if (snprintf(path, sizeof path, "%s.delta.%" PRId64, t->job.checkpoint, i) < (int)sizeof path)
            unlink(path);
    ctr_checkpoint_remove_files(t->job.checkpoint, ".delta.[0-9]*", is_delta, 0);
}

/* If a step after the rename fails, the checkpoint is in place and counts the scores; so the scores are registered
 * before. */
static int commit(struct ctr_trainer *t, struct ctr_out *out, struct ctr_err *err)
{
    const bool held = ctr_progressive_store_release(&t->progressive);
    int rc = ctr_out_commit(out, err);
    if (rc && held && access(t->job.checkpoint, F_OK) && errno == ENOENT)
        ctr_progressive_store_hold(&t->progressive);
    return rc;
}

/* A delta where there is a whole one that has not enough of them yet. */
static int checkpoint_path(const struct ctr_trainer *t, bool *delta, struct ctr_buf *path, struct ctr_err *err)
{
    *delta = t->chain.whole && t->chain.n < t->job.checkpoint_deltas;
    if (ctr_comm_rank(t->job.params.comm)) /* rank 0 writes the file */
        return ctr_buf_printf(path, err, "/dev/null");
    return *delta ? ctr_delta_path(t->job.checkpoint, t->chain.n + 1, path, err)
                  : ctr_buf_printf(path, err, "%s", t->job.checkpoint);
}

/* One was written: the next one may be a delta that follows it. */
static int follow(struct ctr_trainer *t, bool delta, const char *state, struct ctr_err *err)
{
    if (!delta && !ctr_comm_rank(t->job.params.comm))
        remove_deltas(t);
    t->chain.n = delta ? t->chain.n + 1 : 0;
    t->chain.whole = t->job.checkpoint_deltas;
    memcpy(t->chain.state, state, CTR_STATE_TEXT);
    if (!delta)
        memcpy(t->chain.base, state, CTR_STATE_TEXT);
    return t->chain.whole ? ctr_checkpoint_follow(t, err) : 0;
}

int ctr_checkpoint_write(struct ctr_trainer *t, struct ctr_err *err)
{
    struct ctr_buf line = { 0 }, path = { 0 };
    struct ctr_out *out = NULL;
    char state[CTR_STATE_TEXT] = "";
    bool delta = false;
    int rc = t->at.scores >= 0 ? ctr_progressive_store_sync(&t->progressive, err) : 0;
    if (rc)
        return rc;
    const bool elsewhere = ctr_comm_rank(t->job.params.comm); /* rank 0 writes the file */
    if (elsewhere)
        ctr_progressive_store_release(&t->progressive);
    rc = write_lines(t, &line, err);
    if (!rc)
        rc = checkpoint_path(t, &delta, &path, err);
    struct ctr_save s = { .model = t->job.model,
                          .params = &t->job.params,
                          .learner = t->learner,
                          .tables = &t->tables,
                          .stream = &t->stream,
                          .checkpoint = (const char *)line.data,
                          .program = t->job.program,
                          .options = t->job.options,
                          .delta = delta ? t->chain.state : NULL,
                          .replaces = !delta && t->chain.n ? t->chain.base : NULL,
                          .state = state };
    if (!rc)
        rc = ctr_out_open(&out, (const char *)path.data, CTR_OUT_BINARY, err);
    if (!rc && delta)
        rc = t->job.model->changes(t->learner, CTR_CHANGES_ONLY, err);
    if (!rc)
        rc = ctr_model_save(&s, out, err);
    if (!rc && !elsewhere)
        rc = commit(t, out, err);
    if (!rc)
        rc = follow(t, delta, state, err);
    if (!rc)
        rc = ctr_comm_barrier(t->job.params.comm, err);
    if (!rc && t->job.validation) {
        t->early.checkpointed = t->early.best;
        if (!elsewhere)
            ctr_earlystop_sweep(t, t->early.best);
    }
    ctr_out_free(out);
    ctr_buf_free(&line);
    ctr_buf_free(&path);
    return rc;
}

bool ctr_checkpoint_left(const char *path, bool model)
{
    int64_t pass, row;
    struct stat st;
    return (!stat(path, &st) && S_ISREG(st.st_mode) && !st.st_size) ||
           (is_model(path, &pass, &row) && (model || row >= 0));
}

void ctr_checkpoint_remove_files(const char *checkpoint, const char *behind,
                                 bool (*ours)(const char *path, const char *end, int64_t keep), int64_t keep)
{
    struct ctr_buf pattern = { 0 };
    struct ctr_err err = { 0 };
    glob_t found;
    if (strpbrk(checkpoint, "*?[\\") || /* an unusual name: leave files rather than remove the wrong ones */
        ctr_buf_printf(&pattern, &err, "%s%s", checkpoint, behind))
        return;
    if (!glob((char *)pattern.data, GLOB_NOSORT, NULL, &found)) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            if (ours(found.gl_pathv[i], found.gl_pathv[i] + strlen(checkpoint), keep))
                unlink(found.gl_pathv[i]);
        globfree(&found);
    }
    ctr_buf_free(&pattern);
}

/* Is it a leftover, and not a file of that name made by others, such as an input? */
static bool is_left(const char *path, const char *end, int64_t keep)
{
    (void)end, (void)keep;
    return ctr_checkpoint_left(path, false);
}

void ctr_checkpoint_sweep(const struct ctr_trainer *t)
{
    ctr_checkpoint_remove_files(t->job.checkpoint, ".tmp.??????", is_left, 0);
    if (!t->job.resume) /* of a run whose checkpoint is gone */
        remove_deltas(t);
    else
        ctr_checkpoint_remove_files(t->job.checkpoint, ".delta.[0-9]*", is_delta, INT64_MAX);
}

/* ---- when ---- */

bool ctr_every_parse(const char *text, struct ctr_every *every)
{
    const size_t n = strlen(text);
    *every = (struct ctr_every){ 0 };
    if (ctr_parse_i64(text, n, &every->rows))
        return every->rows > 0;
    every->rows = 0;
    return ctr_parse_duration(text, n, &every->ms) && every->ms > 0;
}

bool ctr_schedule_due(struct ctr_schedule *s, const struct ctr_every *every, int64_t rows)
{
    bool due = every->rows && rows / every->rows > s->rows / every->rows;
    if (every->ms) {
        int64_t now = ctr_clock_ms();
        due |= s->ms && now >= s->ms;
        if (due || !s->ms)
            s->ms = every->ms > INT64_MAX - now ? INT64_MAX : now + every->ms; /* INT64_MAX: never */
    }
    if (due)
        s->rows = rows;
    return due;
}

/* ---- scores beside the checkpoint ---- */

bool ctr_checkpoint_keeps(const char *checkpoint, const char *path)
{
    struct stat dir, other;
    char *followed = path ? ctr_path_followed(path) : NULL; /* as what is written there will be */
    const char *name = ctr_path_in(checkpoint, &dir), *its = followed ? ctr_path_in(followed, &other) : NULL, *end = "";
    if (name && its && dir.st_dev == other.st_dev && dir.st_ino == other.st_ino && !strncmp(its, name, strlen(name)))
        end = its + strlen(name);
    const bool keeps = !strncmp(end, ".scores", 7) || !strncmp(end, ".best.", 6) || !strncmp(end, ".tmp.", 5) ||
                       !strncmp(end, ".delta.", 7);
    free(followed);
    return keeps;
}

int ctr_checkpoint_open_store(struct ctr_trainer *t, struct ctr_err *err)
{
    const bool resume = t->resume.row >= 0;
    if (resume && t->resume.scores < 0)
        return ctr_fail(err, CTR_EUSAGE,
                        "%s was made without --progressive: resume without it, or remove it to start anew",
                        t->job.checkpoint);
    if (resume && t->resume.uncertain != t->at.uncertain)
        return ctr_fail(err, CTR_EUSAGE, "%s was made with%s --uncertainty: resume so, or remove it to start anew",
                        t->job.checkpoint, t->at.uncertain ? "out" : "");
    return ctr_progressive_store_open(&t->progressive, t->job.checkpoint, ctr_comm_rank(t->job.params.comm),
                                      resume ? t->resume.scores : CTR_PROGRESSIVE_NEW, err);
}

void ctr_checkpoint_remove(struct ctr_trainer *t)
{
    if (!t->job.checkpoint)
        return;
    const bool elsewhere = ctr_comm_rank(t->job.params.comm);
    if (!elsewhere) {
        unlink(t->job.checkpoint);
        remove_deltas(t);
    }
    if (t->job.validation && !elsewhere)
        ctr_earlystop_sweep(t, 0);
    ctr_progressive_store_remove(&t->progressive);
}
