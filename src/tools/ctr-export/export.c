/* SPDX-License-Identifier: Apache-2.0
 *
 * export: the table of export formats and their common driver. A batch is divided into tiles of a fixed number of rows,
 * which are formatted in parallel and written in order, by a thread of its own: the bytes do not depend on threads.
 */
#include "tools/ctr-export/export_format.h"
#include <stdlib.h>
#include <unistd.h>

enum { TILE_ROWS = 256 }; /* a batch of wide rows has 2,048: several for each thread */

static const struct ctr_export_format *const formats[] = { &ctr_export_csv,    &ctr_export_tsv,    &ctr_export_jsonl,
                                                           &ctr_export_libsvm, &ctr_export_libffm, &ctr_export_vw,
                                                           &ctr_export_npy };

const struct ctr_export_format *ctr_export_find(const char *name)
{
    for (size_t i = 0; i < CTR_COUNT(formats); i++)
        if (!strcmp(formats[i]->name, name))
            return formats[i];
    return NULL;
}

bool ctr_export_binary(const struct ctr_export_format *f)
{
    return f->binary;
}

int ctr_export_check(const struct ctr_export_format *f, const struct ctr_export_opts *o, struct ctr_err *err)
{
    const struct {
        bool given;
        unsigned flag;
        const char *name;
    } options[] = {
        { o->no_header, CTR_EXPORT_CELLS, "--no-header" }, { o->delimiter, CTR_EXPORT_CELLS, "--delimiter" },
        { o->null_text, CTR_EXPORT_CELLS, "--null" },      { o->flat, CTR_EXPORT_FLAT, "--flat" },
        { o->bits != 0, CTR_EXPORT_BITS, "--bits" },       { o->formulas, CTR_EXPORT_CELLS, "--formulas" },
    };

    for (size_t i = 0; i < CTR_COUNT(options); i++)
        if (options[i].given && !(f->honours & options[i].flag))
            return ctr_fail(err, CTR_EUSAGE, "--format %s takes no %s", f->name, options[i].name);
    return o->gzip && f->binary ? ctr_fail(err, CTR_EUSAGE, "%s is not written as gzip", f->name) : 0;
}

int ctr_export_leave_out(struct ctr_export *e, int column, struct ctr_err *err)
{
    return ctr_buf_format(&e->left_out, err, "%s%s", e->left_out.len ? ", " : "", e->schema.f[column].name);
}

const char *ctr_export_left_out(const struct ctr_export *e)
{
    return e->left_out.len ? (const char *)e->left_out.data : "";
}

int64_t ctr_export_rows(const struct ctr_export *e)
{
    return e->rows;
}

int ctr_export_bad(const struct ctr_export *e, int64_t i, int column, const char *what, struct ctr_err *err)
{
    int64_t row = e->rows + i + 1;

    return ctr_fail(err, CTR_EDATA, "row %lld: column %s: %s", (long long)row, e->schema.f[column].name, what);
}

static int sink(struct ctr_export *e, const struct ctr_buf *text, struct ctr_err *err)
{
    if (!text->len)
        return 0;
    if (e->gzip)
        return ctr_export_gzip_write(e->gzip, text->data, text->len, CTR_GZIP_MORE, e->out, err);
    return e->spill >= 0 ? ctr_write_full(e->spill, text->data, text->len, err)
                         : ctr_out_write(e->out, text->data, text->len, err);
}

int ctr_export_open(struct ctr_export **to, const struct ctr_export_format *f, const struct ctr_schema *s,
                    const struct ctr_export_opts *opts, struct ctr_out *out, struct ctr_err *err)
{
    struct ctr_export *e = calloc(1, sizeof(*e));
    struct ctr_buf head = { 0 };
    int rc;

    *to = NULL;
    if (!e)
        return ctr_fail_nomem(err, sizeof(*e));
    e->format = f;
    e->opts = *opts;
    e->out = out;
    e->spill = -1;
    if ((rc = ctr_schema_copy(&e->schema, s, err)) < 0 || (rc = f->start(e, &head, err)) < 0)
        goto fail;
    if (opts->gzip && (rc = ctr_export_gzip_new(&e->gzip, err)) < 0)
        goto fail;
    if ((rc = sink(e, &head, err)) < 0)
        goto fail;
    if (opts->threads > 1 && (rc = ctr_pool_new(&e->pool, opts->threads, CTR_FLOAT_IEEE, err)) < 0)
        goto fail;
    if (opts->threads > 1)
        e->writer = ctr_background_new();
    if (e->left_out.len && (rc = ctr_put(&e->left_out, "", 1, err)) < 0) /* terminate it */
        goto fail;
    ctr_buf_free(&head);
    *to = e;
    return 0;
fail:
    ctr_buf_free(&head);
    ctr_export_free(e);
    return rc;
}

/* ---- writing, beside the next wave ---- */

static int write_wave(struct ctr_export *e, const struct ctr_export_wave *w, struct ctr_err *err)
{
    int rc = 0;

    for (int i = 0; i < w->n && rc == 0; i++)
        rc = sink(e, &w->tile[i].text, err);
    return rc == 0 && w->last ? ctr_out_flush(e->out, err) : rc;
}

static void write_beside(void *ctx)
{
    struct ctr_export *e = ctx;

    e->writer_rc = write_wave(e, &e->wave[!e->at], &e->writer_err);
}

int ctr_export_await(struct ctr_export *e, struct ctr_err *err)
{
    if (!e->writer)
        return 0;
    (void)ctr_background_wait(e->writer, -1);
    if (e->writer_rc < 0)
        *err = e->writer_err;
    return e->writer_rc;
}

static int hand_over(struct ctr_export *e, struct ctr_err *err)
{
    int rc = ctr_export_await(e, err);

    if (rc < 0 || !e->writer)
        return rc < 0 ? rc : write_wave(e, &e->wave[e->at], err);
    e->at = !e->at;
    ctr_background_run(e->writer, write_beside, e);
    return 0;
}

/* ---- formatting ---- */

struct job {
    struct ctr_export *e;
    const struct ctr_batch *b;
    int64_t first; /* row of the first tile */
};

/* Of a tile with a row that cannot be written: the rows before it, one by one. */
static void keep_rows_before(const struct job *j, int64_t from, int64_t to, struct ctr_export_tile *t)
{
    struct ctr_err same = { 0 };

    ctr_buf_clear(&t->text);
    for (t->good = 0; t->good < to - from; t->good++) {
        const size_t whole = t->text.len;
        if (j->e->format->rows(j->e, j->b, from + t->good, from + t->good + 1, t, &same) < 0) {
            t->text.len = whole;
            return;
        }
    }
}

static void run_tile(void *ctx, int64_t task, int worker)
{
    const struct job *j = ctx;
    struct ctr_export_tile *t = &j->e->wave[j->e->at].tile[task];
    int64_t from = j->first + task * TILE_ROWS, to = CTR_MIN(from + TILE_ROWS, j->b->rows);

    (void)worker;
    ctr_buf_clear(&t->text);
    memset(&t->err, 0, sizeof(t->err));
    t->rc = j->e->format->rows(j->e, j->b, from, to, t, &t->err);
    if (t->rc < 0)
        keep_rows_before(j, from, to, t);
}

/* Of a row that cannot be written: the rows before it are. `first`: the first row of its tile. */
static int fail_at(struct ctr_export *e, const struct ctr_export_tile *bad, int64_t first, struct ctr_err *err)
{
    int rc = ctr_export_await(e, err);

    if (rc == 0)
        *err = bad->err;
    e->rows += first + bad->good;
    return rc < 0 ? rc : bad->rc;
}

/* Processes some tiles per thread at a time, so that memory does not grow with the batch. */
int ctr_export_batch(struct ctr_export *e, const struct ctr_batch *b, struct ctr_err *err)
{
    const int most = e->pool ? 16 * ctr_pool_threads(e->pool) : 4;
    int rc;

    for (struct job j = { e, b, 0 }; j.first < b->rows; j.first += (int64_t)most * TILE_ROWS) {
        struct ctr_export_wave *w = &e->wave[e->at];
        if ((rc = ctr_array_extend(&w->tile, &w->tiles, most, sizeof *w->tile, err)) < 0)
            return rc;
        const int n = (int)CTR_MIN((b->rows - j.first + TILE_ROWS - 1) / TILE_ROWS, (int64_t)most);
        ctr_pool_run(e->pool, n, run_tile, &j);
        const struct ctr_export_tile *bad = NULL;
        for (w->n = 0; w->n < n && !bad; w->n++)
            bad = w->tile[w->n].rc < 0 ? &w->tile[w->n] : NULL;
        w->last = bad || j.first + (int64_t)most * TILE_ROWS >= b->rows;
        if ((rc = hand_over(e, err)) < 0)
            return rc;
        if (bad)
            return fail_at(e, bad, j.first + (bad - w->tile) * TILE_ROWS, err);
    }
    e->rows += b->rows;
    return 0;
}

int ctr_export_finish(struct ctr_export *e, struct ctr_err *err)
{
    int rc = ctr_export_await(e, err);

    if (rc == 0 && e->format->finish)
        rc = e->format->finish(e, err);
    return rc == 0 && e->gzip ? ctr_export_gzip_write(e->gzip, NULL, 0, CTR_GZIP_END, e->out, err) : rc;
}

int ctr_export_break_off(struct ctr_export *e, struct ctr_err *err)
{
    struct ctr_err of_the_end = { 0 };

    if (e->gzip && !ctr_export_gzip_write(e->gzip, NULL, 0, CTR_GZIP_CUT, e->out, &of_the_end))
        (void)!ctr_out_flush(e->out, &of_the_end);
    if (e->format->binary && e->rows && err->code == CTR_EDATA) /* its number of rows stands in front */
        ctr_err_add(err, "; there is no array, but --head %lld makes one of the rows before", (long long)e->rows);
    return err->code;
}

void ctr_export_free(struct ctr_export *e)
{
    if (!e)
        return;
    ctr_background_free(e->writer);
    e->format->stop(e);
    for (struct ctr_export_wave *w = e->wave; w < e->wave + CTR_COUNT(e->wave); w++) {
        for (int i = 0; i < w->tiles; i++) {
            ctr_buf_free(&w->tile[i].text);
            ctr_buf_free(&w->tile[i].scratch);
        }
        free(w->tile);
    }
    ctr_pool_free(e->pool);
    ctr_export_gzip_free(e->gzip);
    ctr_buf_free(&e->left_out);
    ctr_schema_free(&e->schema);
    if (e->spill >= 0)
        close(e->spill);
    free(e);
}
