/* SPDX-License-Identifier: Apache-2.0
 *
 * export_format: internal to the export formats: the interface of a format and the writers of single values.
 */
#ifndef CTR_EXPORT_FORMAT_H
#define CTR_EXPORT_FORMAT_H

#include "tools/ctr-export/export.h"
#include "common/text/json.h"

struct ctr_pool;

/* The output of one task of a batch: its own buffers, so that tasks run in parallel. */
struct ctr_export_tile {
    struct ctr_buf text;    /* written to the output, tile after tile */
    struct ctr_buf scratch; /* private to the format */
    struct ctr_err err;
    int rc;
    int64_t good; /* after a failure: the rows before it, in `text` */
};

struct ctr_export_format {
    const char *name;
    unsigned honours; /* CTR_EXPORT_*: other options are usage errors */
    bool binary;
    /* Check the schema, select columns, set e->state; text appended to `head` is written first. */
    int (*start)(struct ctr_export *e, struct ctr_buf *head, struct ctr_err *err);
    /* Append rows [from, to) of b to t->text. Several threads may call it at once: e is read-only. */
    int (*rows)(const struct ctr_export *e, const struct ctr_batch *b, int64_t from, int64_t to,
                struct ctr_export_tile *t, struct ctr_err *err);
    int (*finish)(struct ctr_export *e, struct ctr_err *err); /* may be NULL */
    void (*stop)(struct ctr_export *e);                       /* frees e->state; also called after a failed start */
};

/* Tiles that are formatted together, and then written. */
struct ctr_export_wave {
    struct ctr_export_tile *tile;
    int tiles, n; /* allocated; in use */
    bool last;    /* of its batch */
};

struct ctr_export_gzip;
struct ctr_export {
    const struct ctr_export_format *format;
    struct ctr_export_opts opts;
    struct ctr_schema schema; /* a copy */
    struct ctr_out *out;
    int spill; /* a temporary file for the rows until finish, or -1 */
    int64_t rows;
    void *state;
    struct ctr_buf left_out;
    struct ctr_pool *pool;
    struct ctr_export_gzip *gzip;   /* NULL: plain */
    struct ctr_export_wave wave[2]; /* `at` is being formatted; with a writer, that writes the other one */
    int at;
    struct ctr_background *writer; /* NULL: the caller writes */
    int writer_rc;
    struct ctr_err writer_err;
};

/* export_gzip.c: write a piece of text to `out`. Behind the last one of an input that breaks off, CTR_GZIP_CUT makes
 * all text so far readable, but the end is missing, as readers tell. */
enum ctr_gzip_next { CTR_GZIP_MORE, CTR_GZIP_CUT, CTR_GZIP_END };
int ctr_export_gzip_new(struct ctr_export_gzip **g, struct ctr_err *err) CTR_MUST;
int ctr_export_gzip_write(struct ctr_export_gzip *g, const void *p, size_t n, enum ctr_gzip_next next,
                          struct ctr_out *out, struct ctr_err *err) CTR_MUST;
void ctr_export_gzip_free(struct ctr_export_gzip *g);

int ctr_export_leave_out(struct ctr_export *e, int column, struct ctr_err *err) CTR_MUST;
/* "row 12: column price: WHAT" */
int ctr_export_bad(const struct ctr_export *e, int64_t i, int column, const char *what, struct ctr_err *err) CTR_MUST;

/* Reserve n bytes (and CTR_PAD more) at the end of b; NULL on failure. */
static inline char *ctr_put_room(struct ctr_buf *b, size_t n, struct ctr_err *err)
{
    if (b->cap < b->len + n + 2 * CTR_PAD && ctr_buf_reserve(b, n + 2 * CTR_PAD, err) < 0)
        return NULL;
    return (char *)b->data + b->len;
}
static inline int ctr_put(struct ctr_buf *b, const void *p, size_t n, struct ctr_err *err)
{
    char *to = ctr_put_room(b, n, err);
    if (!to)
        return CTR_ENOMEM;
    memcpy(to, p, n);
    b->len += n;
    return 0;
}

/* A number, bool or time as text: shortest floats, ISO times. */
int ctr_put_scalar(struct ctr_buf *b, const struct ctr_col *c, int64_t i, struct ctr_err *err) CTR_MUST;
/* Any value as JSON: null, text in quotes, lists in brackets, weighted keys {"key":1,"weight":0.5}, times as text, NaN
 * and infinities as "NaN", "Infinity", "-Infinity". */
int ctr_put_json(struct ctr_buf *b, const struct ctr_col *c, int64_t i, struct ctr_err *err) CTR_MUST;

extern const struct ctr_export_format ctr_export_csv, ctr_export_tsv, ctr_export_jsonl, ctr_export_libsvm,
    ctr_export_libffm, ctr_export_vw, ctr_export_npy;

#endif
