/* SPDX-License-Identifier: Apache-2.0
 *
 * Where models and progressive predictions of a training run go. */
#include "common/train/train.h"

#include <stdlib.h>
#include <string.h>

#include "common/comm/comm.h"

void ctr_train_note(void *ctx, const char *text)
{
    ctr_cli_note(((struct ctr_train *)ctx)->cli, "%s", text);
}

void ctr_train_warn(void *ctx, const char *text)
{
    ctr_cli_warn(((struct ctr_train *)ctx)->cli, "%s", text);
}

void ctr_train_debug(void *ctx, const char *text)
{
    ctr_cli_debug(((struct ctr_train *)ctx)->cli, "%s", text);
}

/* The file of a model: -o; for a variant, %s in it is replaced by its name. */
static int model_path(const char *pattern, const char *name, struct ctr_buf *path, struct ctr_err *err)
{
    const char *at = name ? strstr(pattern, "%s") : NULL;
    ctr_buf_clear(path);
    if (!at)
        return ctr_buf_printf(path, err, "%s", pattern);
    return ctr_buf_printf(path, err, "%.*s%s%s", (int)(at - pattern), pattern, name, at + 2);
}

static int open_models(struct ctr_train *run, struct ctr_err *err)
{
    struct ctr_buf path = { 0 };
    const int n = CTR_MAX(run->variants.n, 1);
    run->out = calloc((size_t)n, sizeof *run->out);
    int rc = run->out ? 0 : ctr_fail_nomem(err, (size_t)n * sizeof *run->out);
    if (!rc && !run->variants.n) {
        rc = ctr_cli_out(run->cli, CTR_OUT_BINARY, &run->out[0], err);
        run->outs = 1;
    }
    for (int i = 0; i < run->variants.n && !rc; i++, run->outs++) {
        rc = model_path(run->cli->out, run->variants.v[i].name, &path, err);
        if (!rc)
            rc = ctr_cli_side_out(run->cli, (const char *)path.data, CTR_OUT_BINARY, &run->out[i], err);
    }
    ctr_buf_free(&path);
    return rc;
}

/* Each rank writes the predictions of its own rows, to a file with its number. */
static int open_side(struct ctr_train *run, struct ctr_err *err)
{
    const char *at = strstr(run->o->progressive, "%d");
    struct ctr_buf path = { 0 };
    if (!run->comm)
        return ctr_cli_side_out(run->cli, run->o->progressive, CTR_OUT_BINARY, &run->side, err);
    if (!at || strchr(at + 1, '%') || strchr(run->o->progressive, '%') != at)
        return ctr_cli_usage(err, "ranks write the predictions of their rows to a file each: --progressive wants one "
                                  "%%d for the number, such as p-%%d.arrows");
    int rc = ctr_buf_printf(&path, err, "%.*s%d%s", (int)(at - run->o->progressive), run->o->progressive,
                            ctr_comm_rank(run->comm), at + 2);
    if (!rc)
        rc = ctr_cli_side_out(run->cli, (const char *)path.data, CTR_OUT_BINARY, &run->side, err);
    ctr_buf_free(&path);
    return rc;
}

int ctr_train_open_outputs(struct ctr_train *run, struct ctr_err *err)
{
    const int rc = run->o->progressive ? open_side(run, err) : 0;
    return rc ? rc : open_models(run, err);
}

int ctr_train_open_progressive(void *ctx, const struct ctr_schema *s, struct ctr_writer **w, struct ctr_err *err)
{
    struct ctr_train *run = ctx;
    int rc = ctr_cli_writer(run->cli, run->side, s, &run->writer, err);
    run->cli->idle_writer = NULL; /* idle() flushes it */
    *w = run->writer;
    return rc;
}

/* Save the current model; a process that reads the file meanwhile sees the previous one, complete. */
int ctr_train_publish(void *ctx, struct ctr_err *err)
{
    struct ctr_train *run = ctx;
    struct ctr_buf path = { 0 };
    int rc = 0;
    for (int i = 0; i < run->outs && !rc; i++) {
        struct ctr_out *out = NULL;
        rc = model_path(run->cli->out, run->variants.n ? run->variants.v[i].name : NULL, &path, err);
        if (!rc)
            rc = ctr_out_open(&out, (const char *)path.data, CTR_OUT_BINARY, err);
        if (!rc)
            rc = ctr_trainer_save(run->trainer, i, out, err);
        if (!rc)
            rc = ctr_out_commit(out, err);
        ctr_out_free(out);
    }
    ctr_buf_free(&path);
    return rc;
}

int ctr_train_finish(struct ctr_train *run, bool resumes, struct ctr_err *err)
{
    bool side_last = run->side && ctr_out_is_stdout(run->side);
    int rc = ctr_trainer_learn_waiting(run->trainer, err);
    if (!rc)
        rc = ctr_cli_bad_rows_finish(run->cli, err);
    if (!rc && run->bad_validation)
        rc = ctr_bad_rows_finish(run->bad_validation, err);
    if (!rc && run->side && !side_last)
        rc = ctr_cli_finish(run->cli, run->writer, run->side, err);
    if (!rc && run->outs == 1) {
        rc = ctr_trainer_save(run->trainer, 0, run->out[0], err);
        if (!rc)
            rc = ctr_out_commit(run->out[0], err);
    } else if (!rc)
        rc = ctr_trainer_save_all(run->trainer, run->out, err);
    if (!rc && side_last)
        rc = ctr_cli_finish(run->cli, run->writer, run->side, err);
    if (!rc) /* a rank must not exit successfully before the model is in place */
        rc = ctr_comm_barrier(run->comm, err);
    if (!rc && !resumes) /* a stopped run with --follow continues from its checkpoint */
        ctr_trainer_done(run->trainer);
    return rc;
}
