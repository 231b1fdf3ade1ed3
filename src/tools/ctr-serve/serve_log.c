/* SPDX-License-Identifier: Apache-2.0
 *
 * serve_log: what was asked and answered, as rows of a stream: what a model learns from is what another was asked, so
 * that learning and serving cannot differ. Files are whole or not there: FILE.arrows becomes FILE.000001.arrows, and so
 * on, each when it is full, or when its time is over, by the thread that watches the models, as that waits for the
 * disk. stdout and FIFOs get one endless stream. Where a file cannot be written its rows are lost, told and counted;
 * answers do not stop for that.
 */
#include "tools/ctr-serve/serve_prerank.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { REQUEST, SERVED, MODEL, MAP, RANK, PLACE, COLUMNS }; /* then those of the request, then the scores */
static const char *const names[COLUMNS] = { "request", "served", "model", "map", "rank", "place" };
enum { RETRY_MS = 1000 };

struct serve_log {
    struct serve_log_opts o;
    bool endless;
    char *before, *after; /* of the number */
    int64_t number;       /* of the last file */
    char *lock_path;      /* FILE.lock, there while a server writes the files; held by: */
    int lock_fd;          /* or -1 */
    pthread_mutex_t lock;
    struct ctr_schema schema;
    struct ctr_batchbuf rows;
    struct ctr_out *out; /* NULL: no file is open */
    struct ctr_writer *w;
    int64_t opened_ms, written, retry_ms;
    int64_t lost;
    bool failing; /* told already */
};

/* --log a/log.arrows, where an earlier server left a/log.000002.arrows:
 *
 *     serve_log_open    split_name: "a/log" and ".arrows"; take_lock: a/log.arrows.lock; find_number: 2
 *     serve_log_write   opens the temporary file of a/log.000003.arrows with the first row, and adds rows in batches
 *     serve_log_look    ten times a second, by the thread of models: after --log-every or --log-size the file is taken
 *                       away from the writers, finished and renamed (rotate); the next row opens 000004
 *
 * A model that reads other columns ends the file as well (fits). If the disk is full, `fail` counts the open file's
 * rows as lost and drops it, so that its number is used again; RETRY_MS later a row may open it anew. stdout and FIFOs
 * have no numbers: serve_log_look flushes them instead. */

/* ---- numbers of files ---- */

/* "a/log.arrows": "a/log" and ".arrows" */
static int split_name(struct serve_log *l, struct ctr_err *err)
{
    const char *path = l->o.path, *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    const char *dot = strrchr(base, '.'), *end = dot && dot > base ? dot : path + strlen(path);
    int rc = ctr_memdup(&l->before, path, (size_t)(end - path), err);
    return rc ? rc : ctr_strdup(&l->after, end, err);
}

/* Two servers would give one number to two files. Where no lock can be had (a folder that cannot be written, a file
 * system without locks) the log goes on without. */
static int take_lock(struct serve_log *l, struct ctr_err *err)
{
    struct stat st;
    if (asprintf(&l->lock_path, "%s.lock", l->o.path) < 0) {
        l->lock_path = NULL;
        return ctr_fail_nomem(err, strlen(l->o.path));
    }
    for (;;) {
        int fd = ctr_open(l->lock_path, O_RDWR | O_CREAT | O_NONBLOCK, 0666);
        if (fd < 0) /* of another user */
            fd = ctr_open(l->lock_path, O_RDONLY | O_NONBLOCK, 0);
        if (fd < 0)
            return 0;
        const int rc = flock(fd, LOCK_EX | LOCK_NB);
        const bool taken = rc && errno == EWOULDBLOCK;
        if (!rc && !fstat(fd, &st) && st.st_nlink) {
            l->lock_fd = fd;
            return 0;
        }
        close(fd);
        if (taken)
            return ctr_fail(err, CTR_ESYS, "%s %s: another server writes this log: give it another name", l->o.option,
                            l->o.path);
        if (rc)
            return 0;
        /* its server removed it after we had opened it */
    }
}

/* Go on behind the files of an earlier server. */
static int find_number(struct serve_log *l, struct ctr_err *err)
{
    char *slash = strrchr(l->before, '/');
    const char *base = slash ? slash + 1 : l->before;
    const size_t n = strlen(base), m = strlen(l->after);
    if (slash)
        *slash = 0;
    const char *folder = !slash ? "." : *l->before ? l->before : "/";
    DIR *d = opendir(folder);
    int rc = d ? 0 : ctr_fail_sys(err, "%s %s: cannot look into its folder", l->o.option, l->o.path);
    if (!rc && faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS)) /* --check makes no file that would tell */
        rc = ctr_fail_sys(err, "%s %s: cannot write into its folder", l->o.option, l->o.path);
    if (slash)
        *slash = '/';
    for (const struct dirent *e; !rc && (e = readdir(d));) {
        const size_t length = strlen(e->d_name);
        int64_t number;
        if (length > n + 1 + m && !memcmp(e->d_name, base, n) && e->d_name[n] == '.' &&
            !strcmp(e->d_name + length - m, l->after) && ctr_parse_i64(e->d_name + n + 1, length - n - 1 - m, &number))
            l->number = CTR_MAX(l->number, number);
    }
    if (d)
        closedir(d);
    return rc;
}

/* ---- a file ---- */

static bool explores(const struct serve_generation *g)
{
    return g->rank->explore->kind != CTR_EXPLORE_NONE;
}

/* What a ranking that explores adds, behind the scores. */
static int explored_schema(struct ctr_schema *s, struct ctr_err *err)
{
    int rc = ctr_schema_add(s, "propensity", CTR_F64, err);
    if (!rc)
        rc = ctr_schema_add(s, "seed", CTR_I64, err);
    if (rc == CTR_EUSAGE)
        ctr_err_add(err, "; the log of a server that explores adds propensity and seed");
    return rc;
}

int serve_log_schema(const struct serve_generation *g, struct ctr_schema *s, struct ctr_err *err)
{
    static const enum ctr_type types[COLUMNS] = { CTR_UTF8, CTR_TIME, CTR_UTF8, CTR_UTF8, CTR_I64, CTR_I64 };
    int rc = 0;
    for (int i = 0; i < COLUMNS && !rc; i++)
        rc = ctr_schema_add(s, names[i], types[i], err);
    if (!rc)
        rc = ctr_field_set_role(&s->f[REQUEST], CTR_ROLE_QUERY, err);
    if (!rc)
        rc = ctr_field_set_role(&s->f[SERVED], CTR_ROLE_TIME, err);
    for (int i = 0; i < g->columns && !rc; i++)
        rc = ctr_schema_add_field(s, &g->rows.f[i], NULL, err);
    if (!rc)
        rc = ctr_schema_add(s, "score", CTR_F64, err);
    if (rc == CTR_EUSAGE)
        ctr_err_add(
            err,
            "; the log adds request, served, model, map, rank, place and score to the columns that the plan reads");
    if (!rc)
        rc = ctr_field_set_role(&s->f[s->n - 1], CTR_ROLE_SCORE, err);
    return rc || !explores(g) ? rc : explored_schema(s, err);
}

static int clicks_schema(struct ctr_schema *s, struct ctr_err *err)
{
    int rc = ctr_schema_add(s, "request", CTR_UTF8, err);
    if (!rc)
        rc = ctr_schema_add(s, "place", CTR_I64, err);
    if (!rc)
        rc = ctr_schema_add(s, "clicked", CTR_TIME, err);
    return rc ? rc : ctr_field_set_role(&s->f[s->n - 1], CTR_ROLE_TIME, err);
}

/* The endless stream. Opening a FIFO waits for its reader, which a server that is at work must not: `again`. */
static int open_stream(struct serve_log *l, bool again, struct ctr_err *err)
{
    struct stat st;
    char path[40];
    if (!again || ctr_names_stdout(l->o.path) || stat(l->o.path, &st) || !S_ISFIFO(st.st_mode))
        return ctr_out_open(&l->out, l->o.path, CTR_OUT_BINARY, err);
    const int fd = ctr_open(l->o.path, O_WRONLY | O_NONBLOCK, 0);
    if (fd < 0)
        return errno == ENXIO ? ctr_fail(err, CTR_ESYS, "nobody reads it") : ctr_fail_sys(err, "cannot be written");
    snprintf(path, sizeof path, "/dev/fd/%d", fd);
    int rc = fcntl(fd, F_SETFL, O_WRONLY) ? ctr_fail_sys(err, "cannot be written")
                                          : ctr_out_open(&l->out, path, CTR_OUT_BINARY, err);
    close(fd);
    return rc;
}

static int open_file(struct serve_log *l, const struct serve_generation *g, struct ctr_err *err)
{
    char path[4096];
    ctr_batchbuf_free(&l->rows);
    ctr_schema_free(&l->schema);
    l->rows = (struct ctr_batchbuf){ 0 };
    l->schema = (struct ctr_schema){ 0 };
    int rc = l->o.clicks ? clicks_schema(&l->schema, err) : serve_log_schema(g, &l->schema, err);
    if (!rc)
        rc = ctr_schema_provenance(&l->schema, "ctr-serve", l->o.option, err);
    if (!rc)
        rc = ctr_batchbuf_init(&l->rows, &l->schema, err);
    snprintf(path, sizeof path, "%s.%06lld%s", l->endless ? "" : l->before, (long long)l->number + 1,
             l->endless ? "" : l->after);
    if (!rc)
        rc = l->endless ? open_stream(l, l->opened_ms > 0, err) : ctr_out_open(&l->out, path, CTR_OUT_BINARY, err);
    l->number += !rc && !l->endless;
    if (!rc)
        rc = ctr_writer_open(&l->w, l->out, &l->schema, NULL, err);
    l->opened_ms = ctr_clock_ms();
    l->written = 0;
    return rc;
}

int serve_log_open(struct serve_log **out, const struct serve_log_opts *o, const struct serve_generation *g,
                   struct ctr_err *err)
{
    struct stat st;
    struct serve_log *l = *out = calloc(1, sizeof *l);
    if (!l)
        return ctr_fail_nomem(err, sizeof *l);
    l->o = *o;
    l->lock_fd = -1;
    pthread_mutex_init(&l->lock, NULL);
    errno = 0;
    const bool there = !ctr_names_stdout(o->path) && !stat(o->path, &st), folder = there && S_ISDIR(st.st_mode);
    const bool never = errno == ENAMETOOLONG;
    l->endless = ctr_names_stdout(o->path) || (there && !S_ISREG(st.st_mode));
    errno = folder ? EISDIR : ENAMETOOLONG;
    int rc = folder || never ? ctr_fail_sys(err, "%s %s", o->option, o->path)
             : !l->endless   ? split_name(l, err)
             : o->check      ? 0
                             : open_file(l, g, err);
    if (!rc && !l->endless && !o->check)
        rc = take_lock(l, err);
    if (!rc && !l->endless)
        rc = find_number(l, err);
    if (rc) {
        serve_log_free(l);
        *out = NULL;
    }
    return rc;
}

static void drop_file(struct serve_log *l)
{
    ctr_writer_free(l->w);
    ctr_out_free(l->out);
    l->w = NULL;
    l->out = NULL;
}

/* Rows are lost. */
static void tell(struct serve_log *l, int64_t rows, const struct ctr_err *err)
{
    struct ctr_err why = *err;
    char text[2600];
    if (l->endless && !ctr_names_stdout(l->o.path)) /* not the name of a descriptor */
        snprintf(why.file, sizeof why.file, "%s", l->o.path);
    l->lost += rows;
    l->retry_ms = ctr_clock_ms() + RETRY_MS;
    if (l->failing)
        return;
    l->failing = true;
    ctr_format(text, sizeof text, "%s: %s; answers go on, their rows are lost until it can be written", l->o.option,
               ctr_err_text(&why).s);
    l->o.warn(l->o.ctx, text);
}

/* … with those that the open file has. */
static void fail(struct serve_log *l, int64_t rows, const struct ctr_err *err)
{
    rows += l->written;
    l->number -= l->out && !l->endless;
    drop_file(l);
    l->written = 0;
    tell(l, rows, err);
}

static int finish(struct ctr_writer *w, struct ctr_out *out, struct ctr_err *err)
{
    int rc = ctr_writer_finish(w, err);
    return rc ? rc : ctr_out_commit(out, err);
}

/* Take the file away from the writers, and bring it to its end. */
static void rotate(struct serve_log *l)
{
    struct ctr_err err = { 0 };
    pthread_mutex_lock(&l->lock);
    struct ctr_writer *w = l->w;
    struct ctr_out *out = l->out;
    const int64_t rows = l->written;
    l->w = NULL;
    l->out = NULL;
    l->written = 0;
    pthread_mutex_unlock(&l->lock);
    if (!w)
        return;
    const int rc = finish(w, out, &err);
    ctr_writer_free(w);
    ctr_out_free(out);
    if (!rc)
        return;
    pthread_mutex_lock(&l->lock);
    tell(l, rows, &err);
    pthread_mutex_unlock(&l->lock);
}

/* ---- rows ---- */

/* The column of b called like column i of the request, of the same type. */
static int column_of(const struct ctr_batch *b, const struct ctr_field *f, struct ctr_err *err)
{
    const int at = ctr_schema_find(b->schema, f->name);
    const struct ctr_field *is = at < 0 ? NULL : &b->schema->f[at];
    if (!is || is->type != f->type || (ctr_type_list(f->type) && is->item != f->item) || is->width != f->width)
        return ctr_fail(err, CTR_EDATA,
                        "column %s: the log (--log) wants it, with the type that ctr-serve --check says", f->name);
    return at;
}

/* What was answered with a batch. */
struct answered {
    const struct serve_generation *g;
    const struct ctr_batch *b;
    const double *score;
    const struct serve_logged *q;
};

static int append(struct serve_log *l, const void *what, struct ctr_err *err)
{
    const struct answered *a = what;
    const struct serve_generation *g = a->g;
    const struct ctr_batch *b = a->b;
    const struct serve_logged *q = a->q;
    struct ctr_colbuf *col = l->rows.col;
    int rc = 0;
    ctr_batchbuf_clear(&l->rows);
    for (int64_t i = 0; i < b->rows && !rc; i++) {
        const int64_t place = serve_cut_ad(q->desk, q->row + i);
        const bool chosen = q->rank && q->rank[place]; /* by a ranking of ads */
        struct ctr_append to = { col, err, 0 };        /* in the order of `names` */
        ctr_append_text(&to, q->id);
        ctr_append_i64(&to, true, q->served_ms);
        ctr_append_text(&to, g->model->digest);
        ctr_append_text(&to, g->map ? g->map->digest : NULL);
        ctr_append_i64(&to, chosen, chosen ? q->rank[place] : 0);
        ctr_append_i64(&to, true, place);
        to.next += g->columns;
        ctr_append_f64(&to, true, a->score[i]);
        if (explores(g)) {
            ctr_append_f64(&to, chosen, chosen ? q->propensity[place] : 0);
            ctr_append_i64(&to, q->rank, (int64_t)g->rank->seed);
        }
        rc = to.rc;
    }
    for (int i = 0; i < g->columns && !rc; i++) {
        const int at = column_of(b, &g->rows.f[i], err);
        rc = at < 0 ? at : ctr_colbuf_range(&col[COLUMNS + i], &b->col[at], 0, b->rows, err);
    }
    return rc;
}

struct clicked {
    const struct serve_click *click;
    int64_t n, now_ms;
};

static int append_clicks(struct serve_log *l, const void *what, struct ctr_err *err)
{
    const struct clicked *c = what;
    int rc = 0;
    ctr_batchbuf_clear(&l->rows);
    for (int64_t i = 0; i < c->n && !rc; i++) {
        struct ctr_append to = { l->rows.col, err, 0 }; /* as clicks_schema has them */
        ctr_append_text(&to, c->click[i].id);
        ctr_append_i64(&to, true, c->click[i].place);
        ctr_append_i64(&to, true, c->now_ms);
        rc = to.rc;
    }
    return rc;
}

/* Is the file open of a generation with other columns? */
static bool fits(const struct serve_log *l, const struct serve_generation *g)
{
    if (l->o.clicks)
        return true;
    if (l->schema.n != g->columns + COLUMNS + 1 + 2 * explores(g))
        return false;
    for (int i = 0; i < g->columns; i++) {
        const struct ctr_field *a = &l->schema.f[COLUMNS + i], *b = &g->rows.f[i];
        if (strcmp(a->name, b->name) != 0 || a->type != b->type || a->item != b->item || a->width != b->width)
            return false;
    }
    return true;
}

typedef int fill_rows(struct serve_log *l, const void *what, struct ctr_err *err);

static int write_rows(struct serve_log *l, const struct serve_generation *g, fill_rows *fill, const void *what,
                      bool *refused, struct ctr_err *err)
{
    int rc = 0;
    if (l->w && !fits(l, g)) { /* the model reads other columns now: their rows need another file */
        rc = l->endless
                 ? ctr_fail(err, CTR_EDATA, "the model reads other columns now, and the log is one stream: start anew")
                 : finish(l->w, l->out, err);
        if (!rc)
            drop_file(l);
    }
    if (!rc && !l->w)
        rc = open_file(l, g, err);
    if (rc)
        return rc;
    rc = fill(l, what, err);
    *refused = rc != 0; /* the file has none of these rows, and keeps those of others */
    return rc ? rc : ctr_writer_batch(l->w, ctr_batchbuf_view(&l->rows), err);
}

static int add_rows(struct serve_log *l, const struct serve_generation *g, int64_t rows, fill_rows *fill,
                    const void *what, struct ctr_err *err)
{
    struct ctr_err why = { 0 };
    bool refused = false;
    pthread_mutex_lock(&l->lock);
    if (l->failing && ctr_clock_ms() < l->retry_ms) {
        l->lost += rows;
        pthread_mutex_unlock(&l->lock);
        return 0;
    }
    const int rc = write_rows(l, g, fill, what, &refused, &why);
    if (rc && !refused) {
        fail(l, rows, &why);
    } else if (!rc) {
        l->written += rows;
        l->failing = false;
    }
    pthread_mutex_unlock(&l->lock);
    if (refused)
        *err = why;
    return refused ? rc : 0;
}

int serve_log_write(struct serve_log *l, const struct serve_generation *g, const struct ctr_batch *b,
                    const double *score, const struct serve_logged *q, struct ctr_err *err)
{
    return add_rows(l, g, b->rows, append, &(struct answered){ g, b, score, q }, err);
}

void serve_log_clicks(struct serve_log *l, const struct serve_click *click, int64_t n, int64_t now_ms)
{
    struct ctr_err err = { 0 };
    if (add_rows(l, NULL, n, append_clicks, &(struct clicked){ click, n, now_ms }, &err)) {
        pthread_mutex_lock(&l->lock); /* no memory */
        tell(l, n, &err);
        pthread_mutex_unlock(&l->lock);
    }
}

void serve_log_look(struct serve_log *l)
{
    struct ctr_err err = { 0 };
    pthread_mutex_lock(&l->lock);
    const bool due =
        l->w && !l->endless && (ctr_clock_ms() - l->opened_ms >= l->o.every_ms || ctr_out_tell(l->out) >= l->o.bytes);
    int rc = 0;
    if (l->w && l->endless) { /* so that a live pipe moves */
        rc = ctr_writer_flush(l->w, &err);
        if (!rc)
            rc = ctr_out_flush(l->out, &err);
    }
    if (rc)
        fail(l, 0, &err);
    pthread_mutex_unlock(&l->lock);
    if (due)
        rotate(l);
}

int64_t serve_log_lost(struct serve_log *l)
{
    pthread_mutex_lock(&l->lock);
    const int64_t lost = l->lost;
    pthread_mutex_unlock(&l->lock);
    return lost;
}

void serve_log_close(struct serve_log *l)
{
    if (l)
        rotate(l);
}

void serve_log_free(struct serve_log *l)
{
    if (!l)
        return;
    drop_file(l);
    if (l->lock_fd >= 0) {
        unlink(l->lock_path); /* before its lock ends: another server may take the name at once */
        close(l->lock_fd);
    }
    free(l->lock_path);
    ctr_batchbuf_free(&l->rows);
    ctr_schema_free(&l->schema);
    pthread_mutex_destroy(&l->lock);
    free(l->before);
    free(l->after);
    free(l);
}
