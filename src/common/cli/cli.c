/* SPDX-License-Identifier: Apache-2.0
 *
 * cli: common operations of tools: opening the main stream and the outputs, finding columns by role, messages on
 * stderr. */
#include "common/base/memory.h"
#include "common/cli/reread.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* The line of the synopsis for this action, which may be one of several, as in "allow|remove SIGNAL"; else the
 * first. */
static const char *synopsis_of(const char *synopsis, const char *action)
{
    size_t n = strlen(action);

    for (const char *line = synopsis; n; line++) {
        const char *end = line + strcspn(line, " \n");
        for (const char *word = line; word < end; word += strcspn(word, "| \n") + 1)
            if (strcspn(word, "| \n") == n && !memcmp(word, action, n))
                return line;
        if (!(line = strchr(end, '\n')))
            break;
    }
    return synopsis;
}

int ctr_cli_args(struct ctr_cli *cli, int min, int max, struct ctr_err *err)
{
    const char *synopsis = synopsis_of(cli->tool->synopsis, cli->nargs ? cli->args[0] : "");
    int line = (int)strcspn(synopsis, "\n");

    if (cli->nargs < min)
        return ctr_cli_usage(err, "an argument is missing: %s [options] %.*s%s", cli->tool->name, line, synopsis,
                             !cli->nargs && synopsis[line] ? " …; --help shows the other forms" : "");
    if (max >= 0 && cli->nargs > max)
        return ctr_cli_usage(err, "'%s' is one argument too many: %s [options] %.*s", cli->args[max], cli->tool->name,
                             line, synopsis);
    return 0;
}

int ctr_cli_unknown(const struct ctr_cli *cli, const char *what, struct ctr_err *err)
{
    const char *words[32];
    char hint[400];
    int n = 0;

    for (; n < (int)CTR_COUNT(words) && cli->tool->word(n); n++)
        words[n] = cli->tool->word(n);
    return ctr_cli_usage(err, "no %s '%s'%s", what, cli->args[0],
                         ctr_name_hint(hint, sizeof hint, cli->args[0], words, n));
}

/* ---- input and output ---- */

/* Is the file that `path` names (NULL, "-": descriptor fd) the regular file in *st? */
static bool same_file(const char *path, int fd, const struct stat *st)
{
    struct stat other;
    int rc = path && strcmp(path, "-") ? stat(path, &other) : fstat(fd, &other);

    return rc == 0 && S_ISREG(other.st_mode) && other.st_dev == st->st_dev && other.st_ino == st->st_ino;
}

static int refuse_same(const struct ctr_cli *cli, const char *path, struct ctr_err *err)
{
    struct stat st;
    bool std = !path || !strcmp(path, "-");

    if (std && cli->stdin_taken)
        return ctr_cli_usage(err, "stdin has been read to its end as plan or model: name the input as a file");
    if (std && cli->stdin_read)
        return ctr_cli_usage(err, "stdin is given for two inputs: name one of them as a file");
    if ((std ? fstat(STDIN_FILENO, &st) : stat(path, &st)) || !S_ISREG(st.st_mode))
        return 0;
    if (same_file(cli->out, STDOUT_FILENO, &st))
        return ctr_cli_usage(err, "%s is both input and output", std ? "stdin" : path);
    return 0;
}

int ctr_cli_read(struct ctr_cli *cli, const char *path, struct ctr_err *err)
{
    int rc = ctr_strs_add(&cli->read, path, strlen(path), err);
    if (!rc)
        rc = refuse_same(cli, path, err);
    if (!rc)
        rc = ctr_input_identity_keep(path, err);
    cli->stdin_read |= !strcmp(path, "-");
    return rc;
}

int ctr_cli_flush(struct ctr_cli *cli, struct ctr_err *err)
{
    if (cli->writes)
        (void)ctr_background_wait(cli->writes, -1);
    if (cli->idle_err.code) { /* the writer has failed, and its flush would do nothing */
        *err = cli->idle_err;
        return cli->idle_err.code;
    }
    return cli->idle_writer ? ctr_writer_flush(cli->idle_writer, err) : 0;
}

static bool flush_when_idle(void *ctx)
{
    struct ctr_cli *cli = ctx;
    return !ctr_cli_flush(cli, &cli->idle_err);
}

/* A file that is named again is read again, which may be meant. */
static int note_repeated(const struct ctr_cli *cli, int first, struct ctr_err *err)
{
    struct ctr_strs names = { 0 };
    const char *again = NULL;
    int rc = 0;
    for (int i = first; !rc && !again && i < cli->nargs; i++)
        if (ctr_strs_find(&names, cli->args[i]) >= 0)
            again = cli->args[i];
        else
            rc = ctr_strs_add(&names, cli->args[i], strlen(cli->args[i]), err);
    if (!rc && again)
        ctr_cli_note(cli, "%s is given more than once, and each time its rows count", again);
    ctr_strs_free(&names);
    return rc;
}

int ctr_cli_inputs(struct ctr_cli *cli, int first, struct ctr_err *err)
{
    int rc = 0, dashes = 0;

    for (int i = first; i < cli->nargs; i++)
        dashes += !strcmp(cli->args[i], "-");
    if (dashes > 1)
        return ctr_cli_usage(err, "stdin is given for two inputs: name one of them as a file");
    for (int i = first; !rc && i < cli->nargs; i++)
        if (!(rc = refuse_same(cli, cli->args[i], err)))
            rc = ctr_input_identity_keep(cli->args[i], err);
    if (!rc && cli->nargs - first > 1)
        rc = note_repeated(cli, first, err);
    return !rc && cli->nargs <= first ? refuse_same(cli, NULL, err) : rc;
}

static void note(void *ctx, const char *text)
{
    ctr_cli_note(ctx, "%s", text);
}

/* Of the main input, which each pass reads. */
static void note_once(void *ctx, const char *text)
{
    struct ctr_cli *cli = ctx;
    if (!cli->told_cut)
        note(cli, text);
    cli->told_cut = true;
}

int ctr_cli_reader(struct ctr_cli *cli, int first, const struct ctr_reader_opts *opts, struct ctr_reader **r,
                   struct ctr_err *err)
{
    struct ctr_reader_opts o = opts ? *opts : (struct ctr_reader_opts){ 0 };
    int n = CTR_MAX(cli->nargs - first, 0), rc = ctr_cli_inputs(cli, first, err);

    if (rc)
        return rc;
    if (!o.idle) {
        o.idle = flush_when_idle;
        o.idle_ctx = cli;
        o.idle_ms = (int)cli->flush_ms;
        o.ahead = cli->jobs > 1;
    }
    if (!o.note) {
        o.note = note_once;
        o.note_ctx = cli;
    }
    return ctr_reader_open(r, cli->args + first, n, &o, err);
}

static bool not_idle(void *ctx)
{
    (void)ctx;
    return true;
}

int ctr_cli_side_reader(const struct ctr_cli *cli, const char *path, struct ctr_reader **r, struct ctr_err *err)
{
    const struct ctr_reader_opts o = { .idle = not_idle, .note = note, .note_ctx = (void *)(uintptr_t)cli };
    struct ctr_cli only = *cli;
    char *name[] = { (char *)(uintptr_t)path };
    only.args = name;
    only.nargs = 1;
    only.stdin_read = false; /* by this one */
    return ctr_cli_reader(&only, 0, &o, r, err);
}

int ctr_cli_out(struct ctr_cli *cli, unsigned out_flags, struct ctr_out **o, struct ctr_err *err)
{
    return ctr_out_open(o, cli->out, out_flags, err);
}

/* Identifies an output file, existing or not: by its inode, or by its directory and name. Empty for devices and pipes,
 * which may be named twice. */
static int identify(const char *path, struct ctr_buf *id, struct ctr_err *err)
{
    const bool std = ctr_names_stdout(path);
    const char *name = "";
    char *followed = NULL;
    struct stat st;
    id->len = 0;
    if (std ? fstat(STDOUT_FILENO, &st) : stat(path, &st)) {
        followed = std ? NULL : ctr_path_followed(path);
        name = followed ? ctr_path_in(followed, &st) : NULL;
    } else if (!S_ISREG(st.st_mode))
        name = NULL;
    int rc = name ? ctr_buf_printf(id, err, "%ju:%ju:%s", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino, name) : 0;
    free(followed);
    return rc;
}

/* Register an output; an error if it is registered already. */
static int note_output(struct ctr_cli *cli, const char *path, struct ctr_err *err)
{
    struct ctr_buf id = { 0 };
    int rc = cli->written.n ? 0 : identify(cli->out, &id, err); /* -o is registered first */
    if (!rc && !cli->written.n)
        rc = ctr_strs_add(&cli->written, id.len ? (const char *)id.data : "", id.len, err);
    if (!rc)
        rc = identify(path, &id, err);
    if (!rc && id.len)
        rc = ctr_strs_find_n(&cli->written, (const char *)id.data, id.len) >= 0
                 ? ctr_cli_usage(err, "%s is given for two outputs", path)
                 : ctr_strs_add(&cli->written, (const char *)id.data, id.len, err);
    ctr_buf_free(&id);
    return rc;
}

int ctr_cli_spares_inputs(const struct ctr_cli *cli, const char *path, struct ctr_err *err)
{
    struct stat st;

    if (stat(path, &st) || !S_ISREG(st.st_mode))
        return 0;
    bool input = same_file(NULL, STDIN_FILENO, &st);
    for (int i = 0; i < cli->nargs; i++)
        input |= same_file(cli->args[i], STDIN_FILENO, &st);
    for (int i = 0; i < cli->read.n; i++)
        input |= same_file(cli->read.s[i], STDIN_FILENO, &st);
    return input ? ctr_cli_usage(err, "%s is both input and output", path) : 0;
}

int ctr_cli_written(struct ctr_cli *cli, const char *path, struct ctr_err *err)
{
    if (ctr_names_stdout(path))
        return 0;
    int rc = ctr_cli_spares_inputs(cli, path, err);
    return rc ? rc : note_output(cli, path, err);
}

int ctr_cli_side_out(struct ctr_cli *cli, const char *path, unsigned out_flags, struct ctr_out **o, struct ctr_err *err)
{
    if (ctr_names_stdout(path) && ctr_names_stdout(cli->out))
        return ctr_cli_usage(err, "two outputs on one stdout: give one of them a file name");
    int rc = ctr_cli_written(cli, path, err);
    return rc ? rc : ctr_out_open(o, path, out_flags, err);
}

int64_t ctr_cli_batch_rows(const struct ctr_cli *cli, const struct ctr_schema *schema)
{
    return cli->batch_rows ? cli->batch_rows : ctr_schema_batch_rows(schema);
}

int ctr_cli_writer(struct ctr_cli *cli, struct ctr_out *out, const struct ctr_schema *schema, struct ctr_writer **w,
                   struct ctr_err *err)
{
    struct ctr_writer_opts o = { .batch_rows = ctr_cli_batch_rows(cli, schema),
                                 .batch_bytes = CTR_MIN(ctr_memory_part(), CTR_BATCH_BYTES / 4) * 4 };
    struct ctr_schema copy;
    int rc = ctr_schema_copy(&copy, schema, err);

    if (rc)
        return rc;
    rc = ctr_schema_provenance(&copy, cli->tool->name, cli->provenance ? cli->provenance : "", err);
    if (!rc)
        rc = ctr_writer_open(w, out, &copy, &o, err);
    if (!rc && !cli->idle_writer)
        cli->idle_writer = *w;
    ctr_schema_free(&copy);
    return rc;
}

int ctr_cli_finish(struct ctr_cli *cli, struct ctr_writer *w, struct ctr_out *o, struct ctr_err *err)
{
    int rc = ctr_cli_bad_rows_finish(cli, err);

    if (!rc)
        rc = ctr_writer_finish(w, err);
    cli->idle_writer = NULL;
    return rc ? rc : ctr_out_commit(o, err);
}

/* Writes a copy of a batch, while the caller makes and copies the next one. For example, of three batches, with two
 * copies:
 *
 *     caller   make 1  copy 1  make 2  copy 2  wait  make 3  copy 3  wait         finish
 *     thread                   write 1 ............  write 2 ......  write 3 ...
 *
 * So at most one batch is being written, in order; an error of the thread is the caller's at the next wait, or when
 * input is idle (ctr_cli_flush). */
struct behind {
    struct ctr_background *thread; /* or NULL: nothing is copied */
    struct ctr_writer *w;
    struct ctr_batchbuf copy[2];
    int at;              /* the copy that is being written, or was last */
    int rc;              /* of writing it; the reason is in: */
    struct ctr_err *err; /* the idle_err of ctr_cli */
};

/* A dictionary is its source's, which may change it meanwhile: with such a column, all is written at once; so are rows
 * without columns, of which a copy has none. */
static int start_behind(struct ctr_cli *cli, struct behind *b, const struct ctr_schema *s, struct ctr_err *err)
{
    bool copies = cli->jobs > 1 && s->n;
    int rc = 0;

    b->err = &cli->idle_err;
    for (int i = 0; i < s->n; i++)
        copies &= !s->f[i].dict;
    for (int k = 0; !rc && copies && k < 2; k++)
        rc = ctr_batchbuf_init(&b->copy[k], s, err);
    if (!rc && copies)
        b->thread = cli->writes = ctr_background_new();
    return rc;
}

static void end_behind(struct ctr_cli *cli, struct behind *b)
{
    ctr_background_free(b->thread);
    cli->writes = NULL;
    for (int k = 0; k < 2; k++)
        ctr_batchbuf_free(&b->copy[k]);
}

static void write_copy(void *ctx)
{
    struct behind *b = ctx;
    struct ctr_err err = { 0 };
    b->rc = ctr_writer_batch(b->w, ctr_batchbuf_view(&b->copy[b->at]), &err);
    if (b->rc && !b->err->code) /* else a flush that failed before is the reason */
        *b->err = err;
}

static int wait_behind(struct behind *b, struct ctr_err *err)
{
    if (b->thread)
        (void)ctr_background_wait(b->thread, -1);
    if (b->rc)
        *err = *b->err;
    return b->rc;
}

static int write_behind(struct behind *b, const struct ctr_batch *rows, struct ctr_err *err)
{
    enum { MOST_BYTES = 4 << 20 }; /* a larger batch would take too much memory twice */
    const bool copies = b->thread && ctr_batch_bytes(rows) <= CTR_MIN((int64_t)MOST_BYTES, ctr_memory_part());
    struct ctr_batchbuf *next = &b->copy[!b->at];
    int rc = 0;

    if (copies) {
        ctr_batchbuf_clear(next);
        rc = ctr_batchbuf_range(next, rows, 0, rows->rows, err);
    }
    if (!rc)
        rc = wait_behind(b, err);
    if (rc || !copies)
        return rc ? rc : ctr_writer_batch(b->w, rows, err);
    b->at = !b->at;
    ctr_background_run(b->thread, write_copy, b);
    return 0;
}

int ctr_cli_write_all(struct ctr_cli *cli, const struct ctr_reader *r, const struct ctr_batch_source *rows,
                      struct ctr_out *out, struct ctr_err *err)
{
    struct behind behind = { 0 };
    const struct ctr_batch *b;
    int rc = ctr_cli_writer(cli, out, ctr_batch_source_schema(rows), &behind.w, err);

    if (!rc)
        rc = start_behind(cli, &behind, ctr_batch_source_schema(rows), err);
    while (!rc && (rc = ctr_batch_source_next(rows, &b, err)) > 0) {
        rc = write_behind(&behind, b, err);
        ctr_cli_progress(cli, ctr_reader_rows(r), ctr_reader_total_rows(r));
    }
    if (!rc)
        rc = wait_behind(&behind, err);
    if (rc < 0 && !strncmp(err->what, "row ", 4)) /* of the input, where no other file is named */
        ctr_err_file(err, ctr_batch_source_name(rows));
    end_behind(cli, &behind);
    if (!rc)
        rc = ctr_cli_finish(cli, behind.w, out, err);
    ctr_writer_free(behind.w);
    return rc;
}

int ctr_cli_role(const struct ctr_cli *cli, const struct ctr_schema *s, enum ctr_role role, bool need, int *column,
                 struct ctr_err *err)
{
    return ctr_schema_find_role(s, role, cli->role[role], need, column, err);
}

/* ---- words ---- */

static void say(const struct ctr_cli *cli, const char *fmt, va_list ap)
{
    char text[2560];

    ctr_vformat(text, sizeof text, fmt, ap);
    ctr_cli_names(cli, text, sizeof text);
    fprintf(stderr, "%s%s: %s\n", cli->progress_drawn ? "\r\033[K" : "", cli->tool->name, text);
}

void ctr_cli_note(const struct ctr_cli *cli, const char *fmt, ...)
{
    va_list ap;

    if (cli->quiet)
        return;
    va_start(ap, fmt);
    say(cli, fmt, ap);
    va_end(ap);
}

void ctr_cli_warn(const struct ctr_cli *cli, const char *fmt, ...)
{
    va_list ap;

    if (cli->ranks.rank) /* rank 0 speaks for all */
        return;
    va_start(ap, fmt);
    say(cli, fmt, ap);
    va_end(ap);
}

void ctr_cli_debug(const struct ctr_cli *cli, const char *fmt, ...)
{
    va_list ap;

    if (!cli->verbose)
        return;
    va_start(ap, fmt);
    say(cli, fmt, ap);
    va_end(ap);
}

int ctr_cli_queue(const struct ctr_cli *cli, int64_t queue, bool views, struct ctr_err *err)
{
    enum { MOST = 1024 };
    if (queue > MOST)
        return ctr_cli_usage(err, "--queue wants a number of batches from 1 to %d", MOST);
    if (!views && ctr_cli_given(cli, "queue"))
        return ctr_cli_usage(err, "--queue is for a plan that begins with from VIEW, and runs it");
    return 0;
}

void ctr_cli_progress(struct ctr_cli *cli, int64_t rows, int64_t total)
{
    if (!cli->progress)
        return;
    int64_t now = ctr_clock_ms();
    if (!cli->progress_start_ms)
        cli->progress_start_ms = now;
    if (now < cli->progress_next_ms)
        return;
    cli->progress_next_ms = now + 100;
    double seconds = (double)(now - cli->progress_start_ms) / 1000;
    fprintf(stderr, "\r\033[K%s: %lld rows", cli->tool->name, (long long)rows);
    if (total > 0)
        fprintf(stderr, " (%d%%)", (int)(100 * rows / total));
    if (seconds > .5)
        fprintf(stderr, ", %.0f thousand rows/s", (double)rows / seconds / 1000);
    fflush(stderr);
    cli->progress_drawn = true;
}

void ctr_cli_progress_clear(struct ctr_cli *cli)
{
    if (cli->progress_drawn)
        fputs("\r\033[K", stderr);
    cli->progress_drawn = false;
}
