/* SPDX-License-Identifier: Apache-2.0
 *
 * Where models and progressive predictions of a training run go. */
#include "tools/ctr-train/trainrun.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "common/compute/comm.h"

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

/* One that was killed may still be ending: wait for it a while. */
static int claim(int fd, const struct sockaddr_un *at, size_t name)
{
    enum { LOOKS = 20, LOOK_MS = 100 };
    const socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + name);
    int taken = 0;
    for (int i = 0; i < LOOKS; i++) {
        taken = bind(fd, (const struct sockaddr *)at, size) && errno == EADDRINUSE;
        if (!taken)
            break;
        nanosleep(&(struct timespec){ .tv_nsec = LOOK_MS * 1000000L }, NULL);
    }
    return taken;
}

/* Two runs of this user that write one -o at once, on one machine: the later model would win. A socket without a file
 * has the name of the output, as long as the process lives. */
static int claim_output(struct ctr_train *run, struct ctr_err *err)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    struct stat dir;
    char *path = ctr_names_stdout(run->cli->out) ? NULL : ctr_path_followed(run->cli->out);
    const char *name = path ? ctr_path_in(path, &dir) : NULL;
    struct stat st;
    int rc = 0;
    if (name && (stat(path, &st) || S_ISREG(st.st_mode))) {
        const int n =
            snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "ctr-train:%ju:%ju:%ju:%016" PRIx64, (uintmax_t)getuid(),
                     (uintmax_t)dir.st_dev, (uintmax_t)dir.st_ino, ctr_hash64(name, strlen(name), 0));
        const int fd = run->claim = CTR_MAX(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), 0);
        if (fd > 0 && claim(fd, &at, (size_t)n))
            rc = ctr_fail(err, CTR_EUSAGE,
                          "another ctr-train is running that writes %s: give each a file of its own; mpirun makes "
                          "several processes one run",
                          run->cli->out);
    }
    free(path);
    return rc;
}

int ctr_train_open_outputs(struct ctr_train *run, struct ctr_err *err)
{
    int rc = claim_output(run, err);
    if (!rc && run->o->progressive)
        rc = open_side(run, err);
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
        rc = ctr_trainer_check_scores(run->trainer, run->o->fail_constant, err);
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
