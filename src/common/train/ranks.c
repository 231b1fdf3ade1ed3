/* SPDX-License-Identifier: Apache-2.0
 *
 * Training over ranks: the distribution of files, checks that all ranks agree, and the decisions before each step.
 *
 * Every rank runs the trainer on its own rows. Before a step (one minibatch of each rank), every rank says whether it
 * has rows, and rank 0 whether a checkpoint or the model is due. A rank at the end of its rows continues with empty
 * minibatches, so that the others need not wait for it; when all are at the end, the pass ends. */
#include "common/train/trainer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/compute/comm.h"

/* ---- start and end ---- */

int ctr_ranks_start(struct ctr_comm **c, struct ctr_err *err)
{
    int rc = ctr_comm_mpi(c, err);
    if (!rc && ctr_comm_size(*c) == 1) {
        ctr_comm_free(*c);
        *c = NULL;
    }
    return rc;
}

void ctr_ranks_join(struct ctr_train_job *job, struct ctr_comm *c)
{
    job->params.comm = c;
    job->idle = NULL; /* what it does, all ranks would have to */
}

void ctr_ranks_end(struct ctr_comm *c, int status)
{
    if (status)
        ctr_comm_abort(c, "");
    ctr_comm_free(c);
}

int ctr_ranks_check(const struct ctr_train_job *job, struct ctr_err *err)
{
    const struct ctr_params *p = &job->params;
    const struct {
        bool given;
        const char *name;
    } bad[] = {
        { job->follow, "--follow" },
        { p->variants, "--variants" },
        { job->init_rate == CTR_INIT_AUTO, "--init-bias auto" },
    };
    for (size_t i = 0; i < CTR_COUNT(bad); i++)
        if (bad[i].given)
            return ctr_fail(err, CTR_EUSAGE, "%s does not go with ranks (mpirun): leave it out, or run one process",
                            bad[i].name);
    return job->spool ? ctr_fail(err, CTR_EUSAGE,
                                 "--spool is for input that cannot be read again, and ranks (mpirun) read files: leave "
                                 "it out")
                      : 0;
}

/* ---- what all ranks have in common ---- */

/* The first line that differs. */
static int tell_difference(int rank, const char *a, const char *b, struct ctr_err *err)
{
    while (*a && *b) {
        const size_t na = strcspn(a, "\n"), nb = strcspn(b, "\n");
        if (na != nb || memcmp(a, b, na) != 0)
            break;
        a += na + (a[na] == '\n');
        b += nb + (b[nb] == '\n');
    }
    return ctr_fail(err, CTR_EUSAGE, "ranks differ: rank 0 has '%.*s', rank %d has '%.*s': start all of them alike",
                    (int)CTR_MIN(strcspn(a, "\n"), 300), a, rank, (int)CTR_MIN(strcspn(b, "\n"), 300), b);
}

/* Frees the text. */
static int same_text(struct ctr_comm *c, struct ctr_say *s)
{
    const int size = ctr_comm_size(c);
    struct ctr_buf *in = NULL;
    int rc = s->rc ? s->rc : ctr_comm_gather_new(c, CTR_COMM_CONTROL, s->to->data, s->to->len + 1, &in, s->err);
    for (int r = 1; r < size && !rc; r++)
        if (in[r].len != in[0].len || memcmp(in[r].data, in[0].data, in[0].len) != 0)
            rc = tell_difference(r, (const char *)in[0].data, (const char *)in[r].data, s->err);
    ctr_comm_gather_free(c, in);
    ctr_buf_free(s->to);
    return rc;
}

/* A schema as texts that end with 0 each: a part's name (a column's also its type), pairs of key and value, and an
 * empty key. The schema's own metadata come first. */
static int put_part(struct ctr_buf *b, const char *name, const char *type, const struct ctr_meta *m,
                    struct ctr_err *err)
{
    struct ctr_say s = { b, err, 0 };
    ctr_say_bytes(&s, name, strlen(name) + 1);
    if (type)
        ctr_say_bytes(&s, type, strlen(type) + 1);
    for (int i = 0; i < 2 * m->n; i++)
        ctr_say_bytes(&s, m->kv[i], strlen(m->kv[i]) + 1);
    ctr_say_bytes(&s, "", 1);
    return s.rc;
}

static const char *take_text(const char **p)
{
    const char *text = *p;
    *p += strlen(text) + 1;
    return text;
}

static int take_meta(struct ctr_meta *m, const char **p, struct ctr_err *err)
{
    const char *key;
    int rc = 0;
    while (!rc && *(key = take_text(p)))
        rc = ctr_meta_set(m, key, take_text(p), err);
    return rc;
}

/* What put_part wrote; *name points into it. */
static int take_schema(const struct ctr_buf *in, const char **name, struct ctr_schema *s, struct ctr_err *err)
{
    const char *p = (const char *)in->data, *end = p + in->len;
    *name = take_text(&p);
    int rc = take_meta(&s->meta, &p, err);
    while (!rc && p < end) {
        const char *column = take_text(&p), *type = take_text(&p);
        struct ctr_field f = { 0 };
        if (!ctr_type_parse(type, strlen(type), &f))
            f.type = CTR_U64; /* items of weighted keys alone have no name that is read */
        if (!(rc = ctr_schema_add_field(s, &f, column, err)))
            rc = take_meta(&s->f[s->n - 1].meta, &p, err);
    }
    return rc;
}

/* Shards of two identities are not learned from as one. */
static int same_streams(struct ctr_trainer *t, struct ctr_err *err)
{
    struct ctr_comm *c = t->job.params.comm;
    const int size = ctr_comm_size(c);
    struct ctr_buf own = { 0 }, *in = NULL;
    char type[128];
    int rc = put_part(&own, t->stream_name, NULL, &t->stream.meta, err);
    for (int i = 0; i < t->stream.n && !rc; i++) {
        const struct ctr_field *f = &t->stream.f[i];
        rc = put_part(&own, f->name, ctr_field_type_name(f, type, sizeof type), &f->meta, err);
    }
    if (!rc)
        rc = ctr_comm_gather_new(c, CTR_COMM_CONTROL, own.data, own.len, &in, err);
    for (int r = 1; r < size && !rc; r++) {
        struct ctr_schema first = { 0 }, s = { 0 };
        struct ctr_difference d;
        const char *name[2];
        rc = take_schema(&in[0], &name[0], &first, err);
        if (!rc)
            rc = take_schema(&in[r], &name[1], &s, err);
        if (!rc && !ctr_streams_same(&first, &s, &d))
            rc = ctr_fail(err, CTR_EDATA, "ranks differ: %s of rank %d cannot be joined with %s of rank 0: %s: %s",
                          name[1], r, name[0], d.what, d.remedy);
        ctr_schema_free(&first);
        ctr_schema_free(&s);
    }
    ctr_comm_gather_free(c, in);
    ctr_buf_free(&own);
    return rc;
}

/* What tells a file from most others: its size, and a hash of its beginning and end. */
static void describe_content(struct ctr_say *s, const char *path)
{
    enum { ENDS = 1 << 16 };
    struct stat st;
    if (s->rc || (!stat(path, &st) && !S_ISREG(st.st_mode))) /* a pipe can be read once */
        return;
    char *ends = calloc(2, ENDS);
    FILE *f = fopen(path, "rb");
    size_t n = 0;
    if (!ends)
        s->rc = ctr_fail_nomem(s->err, (size_t)2 * ENDS);
    if (!s->rc && (!f || fstat(fileno(f), &st)))
        s->rc = ctr_fail_sys(s->err, "%s: cannot be read", path);
    if (!s->rc) {
        n = fread(ends, 1, ENDS, f);
        if (!fseeko(f, -(off_t)CTR_MIN(st.st_size, (off_t)ENDS), SEEK_END))
            n += fread(ends + n, 1, ENDS, f);
        if (ferror(f))
            s->rc = ctr_fail_sys(s->err, "%s: cannot be read", path);
        ctr_say(s, " of %" PRId64 " bytes, hash %016" PRIx64, (int64_t)st.st_size, ctr_hash64(ends, n, 0));
    }
    if (f)
        fclose(f);
    free(ends);
}

int ctr_ranks_same_files(struct ctr_comm *c, char *const *path, int n, const struct ctr_shard_files *mine,
                         struct ctr_err *err)
{
    struct ctr_buf text = { 0 };
    struct ctr_say s = { &text, err, 0 };
    ctr_say(&s, "%d files\n", n);
    for (int i = 0; i < n; i++) {
        ctr_say(&s, "file %d: %s", i + 1, path[i]);
        if (mine->parts) /* all ranks read its blocks */
            describe_content(&s, path[i]);
        ctr_say(&s, "\n");
    }
    return same_text(c, &s);
}

int ctr_ranks_same_whole(struct ctr_comm *c, const struct ctr_ranks_file *file, int n, struct ctr_err *err)
{
    struct ctr_buf text = { 0 };
    struct ctr_say s = { &text, err, 0 };
    ctr_say(&s, "%d files that each reads whole\n", n);
    for (int i = 0; i < n; i++) {
        ctr_say(&s, "%s %s", file[i].what, file[i].path);
        describe_content(&s, file[i].path);
        ctr_say(&s, "\n");
    }
    return same_text(c, &s);
}

static const char *given(const char *text)
{
    return text ? text : "none";
}

/* Roles and first values, which models do not have among their options. */
static void describe_job(struct ctr_say *s, const struct ctr_train_job *j)
{
    const struct ctr_params *p = &j->params;
    const char *const file[] = { "--init", j->init, "--plan", j->fitted, "--l2-counts", p->deep.l2_counts };
    ctr_say(s, "label %s, weight %s, time %s, initial rate %g\nuser features %s, ad features %s\n%s%s%s\n",
            given(j->label), given(j->weight), given(j->time), j->init_rate, given(p->deep.user_features),
            given(p->deep.ad_features), j->resume ? "resumes" : "begins", j->init ? " from --init" : "",
            j->init_partial ? " in part" : "");
    for (size_t i = 0; i < CTR_COUNT(file); i += 2) {
        ctr_say(s, "%s %s", file[i], given(file[i + 1]));
        if (file[i + 1])
            describe_content(s, file[i + 1]);
        ctr_say(s, "\n");
    }
}

int ctr_ranks_same(struct ctr_trainer *t, struct ctr_err *err)
{
    struct ctr_comm *c = t->job.params.comm;
    struct ctr_buf text = { 0 }, params = { 0 };
    if (!c)
        return 0;
    struct ctr_say s = { &text, err, ctr_params_text(t->job.model, &t->job.params, &params, err) };
    ctr_say(&s, "version %s\nmodel %s with %s\npasses %" PRId64 ", seed %" PRId64 ", prefetch %" PRId64 "\n",
            CTR_VERSION, t->job.model->name, (const char *)params.data, t->job.passes, t->job.params.seed,
            t->job.params.prefetch);
    describe_job(&s, &t->job);
    ctr_say(&s, "validation %s, every %" PRId64 ", patience %" PRId64 "\n", given(t->job.validation),
            t->job.validation_every, t->job.patience);
    ctr_say(&s, "checkpoint %s, deltas %" PRId64 "\npredictions before updates: %s\nrows on disk: %s\n",
            given(t->job.checkpoint), t->job.checkpoint_deltas,
            t->job.progressive ? "written"
            : t->job.unscored  ? "none"
                               : "made",
            t->job.params.spill ? "yes" : "no");
    int rc = same_text(c, &s);
    if (!rc)
        rc = same_streams(t, err);
    ctr_buf_free(&params);
    return rc;
}

/* ---- before a step ---- */

/* That this rank's shards of the pass have come to. */
static int64_t rows_of_pass(const struct ctr_trainer *t)
{
    const struct ctr_comm *c = t->job.params.comm;
    int64_t rows = 0;
    for (int s = ctr_comm_rank(c); s < t->shards.n; s += ctr_comm_size(c))
        rows += s == t->shards.reads ? t->at.row : t->shards.at[s].row;
    return rows;
}

int ctr_ranks_agree(struct ctr_trainer *t, bool ended, struct ctr_ranks_word *w, struct ctr_err *err)
{
    struct ctr_comm *c = t->job.params.comm;
    const bool first = !ctr_comm_rank(c);
    enum { ENDED, ROWS, PASS, STOP, CHECKPOINT, PUBLISH, WORDS };
    int64_t sum[WORDS] = {
        [ENDED] = ended, [ROWS] = t->v->s.rows, [PASS] = rows_of_pass(t), [STOP] = t->job.stop && *t->job.stop
    };
    /* Due by the rows of all ranks at the last step, or by the clock of rank 0. */
    if (first && t->job.checkpoint && t->ranks.rows != t->chain.due.rows)
        sum[CHECKPOINT] = ctr_schedule_due(&t->chain.due, &t->job.checkpoint_every, t->ranks.rows);
    if (first && t->job.publish && t->ranks.rows != t->publish.published)
        sum[PUBLISH] = ctr_schedule_due(&t->publish.due, &t->job.publish_every, t->ranks.rows);
    int rc = ctr_comm_sum_i64(c, sum, WORDS, err);
    t->ranks.rows = sum[ROWS];
    const int64_t every = t->job.validation_every, before = t->ranks.looked;
    t->ranks.looked = sum[PASS];
    *w = (struct ctr_ranks_word){ .all_ended = sum[ENDED] == ctr_comm_size(c),
                                  .stop = sum[STOP],
                                  .checkpoint = sum[CHECKPOINT] || (sum[STOP] && t->job.checkpoint),
                                  .publish = sum[PUBLISH],
                                  .validate = every && before >= 0 && sum[PASS] / every > before / every };
    return rc;
}

/* ---- after a pass ---- */

static int64_t steps_of(int64_t rows, int64_t a_step)
{
    return (rows + a_step - 1) / a_step;
}

static void tell_balance(const struct ctr_trainer *t, int size, int64_t least, int64_t most, int64_t all)
{
    const int64_t minibatch = t->job.params.minibatch, steps = steps_of(most, minibatch),
                  even = steps_of(all, minibatch * size);
    char text[320];
    if (most - least <= most / 10 || steps <= even || !t->job.note)
        return;
    snprintf(text, sizeof text,
             "ranks have %" PRId64 " to %" PRId64 " rows of a pass, which takes %" PRId64 " steps instead of %" PRId64
             ": share the rows out evenly (ctr-split --shards %d, or blocks of one .arrow file: ctr-cat --to file)",
             least, most, steps, even, size);
    t->job.note(t->job.ctx, text);
}

int ctr_ranks_balance(struct ctr_trainer *t, struct ctr_err *err)
{
    struct ctr_comm *c = t->job.params.comm;
    const int size = ctr_comm_size(c);
    int64_t rows = rows_of_pass(t), least = INT64_MAX, most = 0, all = 0;
    if (t->ranks.balanced)
        return 0;
    t->ranks.balanced = true;
    struct ctr_buf *in = NULL;
    int rc = ctr_comm_gather_new(c, CTR_COMM_CONTROL, &rows, sizeof rows, &in, err);
    for (int r = 0; r < size && !rc; r++) {
        memcpy(&rows, in[r].data, sizeof rows);
        least = CTR_MIN(least, rows);
        most = CTR_MAX(most, rows);
        all += rows;
    }
    if (!rc)
        tell_balance(t, size, least, most, all);
    ctr_comm_gather_free(c, in);
    return rc;
}

/* ---- after the run ---- */

/* Sums of progressive validation over all ranks, in rank order. */
int ctr_ranks_gather(struct ctr_trainer *t, struct ctr_err *err)
{
    struct ctr_comm *c = t->job.params.comm;
    const int size = ctr_comm_size(c);
    if (size == 1)
        return 0;
    struct ctr_validation *v = t->v;
    struct ctr_buf *in = NULL;
    int rc = ctr_comm_gather_new(c, CTR_COMM_CONTROL, v, sizeof *v, &in, err);
    for (int r = 0; r < size && !rc; r++) {
        const struct ctr_validation *theirs = (const struct ctr_validation *)(const void *)in[r].data;
        if (r)
            ctr_validation_add(v, theirs);
        else
            *v = *theirs;
    }
    ctr_comm_gather_free(c, in);
    return rc;
}
