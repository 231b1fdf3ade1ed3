/* SPDX-License-Identifier: Apache-2.0
 *
 * Fixed batches and readers for the fuzz targets. */
#include "harness.h"

#include <math.h>
#include <stdio.h>

#include "common/text/text.h"

/* replay.c has another. */
__attribute__((weak)) bool fuzz_starved(void)
{
    return false;
}

/* ---- batches --------------------------------------------------------------------------------------------------- */

enum { ROWS = 9 };

static const char *const texts[ROWS] = { "Action|Comedy",
                                         "",
                                         "a",
                                         "4",
                                         "\xc3\xa9t\xc3\xa9 \xf0\x9f\x98\x80",
                                         "null",
                                         "{\"x\":[1,2,{\"id\":7}]}",
                                         "2019-11-14T00:00:00Z",
                                         "http://a.b/c?d=e" };
static const double numbers[ROWS] = { 0, 1, -1.5, NAN, INFINITY, 1e-310, 4, 9007199254740993.0, -0.0 };
static const int64_t integers[ROWS] = { 0, 1, -1, INT64_MAX, INT64_MIN, 42, 1 << 20, 255, -128 };

static int put(struct ctr_colbuf *b, const struct ctr_field *f, int i, struct ctr_err *err)
{
    struct ctr_field item = { .type = f->item };
    int rc = 0, n = f->type == CTR_FIXED ? f->width : i % 4;
    if (ctr_types[f->type].floating)
        return ctr_colbuf_f64(b, numbers[i % ROWS], err);
    switch (f->type) {
    case CTR_UTF8: return ctr_colbuf_str(b, texts[i % ROWS], strlen(texts[i % ROWS]), err);
    case CTR_WKEY: return ctr_colbuf_wkey(b, (uint64_t)integers[i % ROWS], (float)(i + 0.5), err);
    case CTR_LIST:
    case CTR_FIXED:
        for (int k = 0; k < n && !rc; k++)
            rc = put(b->item, &item, i + k, err);
        return rc ? rc : ctr_colbuf_close(b, err);
    default: return ctr_colbuf_i64(b, f->type == CTR_BOOL ? i & 1 : integers[i % ROWS], err);
    }
}

static void fill(struct ctr_batchbuf *b, const struct ctr_schema *s, int null_every)
{
    struct ctr_err err = { 0 };
    FUZZ_CHECK(!ctr_batchbuf_init(b, s, &err));
    for (int i = 0; i < ROWS; i++)
        for (int c = 0; c < s->n; c++)
            FUZZ_CHECK(!(null_every && (i + c) % null_every == 3 && ctr_field_role(&s->f[c]) != CTR_ROLE_SCORE
                             ? ctr_colbuf_null(&b->col[c], &err) /* a score that is null is an error */
                             : put(&b->col[c], &s->f[c], i, &err)));
}

static void add(struct ctr_schema *s, const char *name, enum ctr_type type, enum ctr_type item, int role)
{
    struct ctr_err err = { 0 };
    FUZZ_CHECK(!ctr_schema_add(s, name, type, &err));
    s->f[s->n - 1].item = item;
    s->f[s->n - 1].width = type == CTR_FIXED ? 3 : 0;
    FUZZ_CHECK(role < 0 || !ctr_field_set_role(&s->f[s->n - 1], (enum ctr_role)role, &err));
}

const struct ctr_batch *fuzz_batch(void)
{
    static const struct {
        const char *name;
        enum ctr_type type, item;
    } columns[] = {
        { "user_id", CTR_I32, 0 },
        { "movie_id", CTR_I64, 0 },
        { "rating", CTR_I8, 0 },
        { "genres", CTR_UTF8, 0 },
        { "age", CTR_I16, 0 },
        { "time", CTR_TIME, 0 },
        { "price", CTR_F64, 0 },
        { "hist", CTR_LIST, CTR_I32 },
        { "odd name", CTR_UTF8, 0 },
        { "C1", CTR_UTF8, 0 },
        { "C2", CTR_UTF8, 0 },
        { "f", CTR_F32, 0 },
        { "h", CTR_F16, 0 },
        { "flag", CTR_BOOL, 0 },
        { "u", CTR_U64, 0 },
        { "u8", CTR_U8, 0 },
        { "tags", CTR_LIST, CTR_UTF8 },
        { "vec", CTR_FIXED, CTR_F32 },
        { "times", CTR_LIST, CTR_TIME },
        { "x", CTR_LIST, CTR_F64 },
        { "keys", CTR_LIST, CTR_WKEY },
    };
    static struct ctr_schema s;
    static struct ctr_batchbuf b;
    if (!s.n) {
        for (size_t i = 0; i < CTR_COUNT(columns); i++)
            add(&s, columns[i].name, columns[i].type, columns[i].item, -1);
        fill(&b, &s, 7);
    }
    return ctr_batchbuf_view(&b);
}

const struct ctr_batch *fuzz_features(void)
{
    static struct ctr_schema s;
    static struct ctr_batchbuf b;
    if (!s.n) {
        add(&s, "site", CTR_UTF8, 0, -1);
        add(&s, "p", CTR_F32, 0, CTR_ROLE_SCORE);
        add(&s, "user", CTR_U64, 0, CTR_ROLE_FEATURE);
        add(&s, "past", CTR_LIST, CTR_U64, CTR_ROLE_FEATURE);
        add(&s, "items", CTR_LIST, CTR_WKEY, CTR_ROLE_FEATURE);
        add(&s, "age", CTR_I32, 0, CTR_ROLE_DENSE);
        fill(&b, &s, 7);
        for (int i = 0; i < ROWS; i++)
            ((float *)(void *)b.col[1].data.data)[i] = (float)i / (ROWS - 1);
    }
    return ctr_batchbuf_view(&b);
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

/* The digest looks at every value; texts and comparisons go by other ways through the same columns. */
void fuzz_look(const struct ctr_batch *b)
{
    struct ctr_err err = { 0 };
    struct ctr_buf text = { 0 };
    uint64_t sum = 0;
    for (int c = 0; c < b->schema->n; c++) {
        const struct ctr_col *col = &b->col[c];
        FUZZ_CHECK(col->rows == b->rows && col->type == b->schema->f[c].type);
        for (int64_t i = 0; i < CTR_MIN(b->rows, 200); i++) {
            ctr_buf_clear(&text);
            FUZZ_CHECK(!ctr_col_text(col, i, &text, &err));
            sum += ctr_col_hash(col, i, 1);
            FUZZ_CHECK(ctr_col_compare(col, i, col, i) == 0);
            if (i)
                sum += (uint64_t)ctr_col_compare(col, i - 1, col, i);
        }
    }
    ctr_buf_free(&text);
    *(volatile uint64_t *)&sum = sum;
}

void fuzz_drain(struct ctr_reader *r, struct ctr_writer *w)
{
    struct ctr_err err = { 0 };
    struct ctr_digest *d = NULL;
    const struct ctr_batch *b;
    int rc = ctr_digest_new(&d, ctr_reader_schema(r), &err), written = 0;
    while (rc >= 0 && (rc = ctr_reader_next(r, &b, &err)) > 0) {
        fuzz_look(b);
        rc = ctr_digest_batch(d, b, &err);
        if (w && !written)
            written = ctr_writer_batch(w, b, &err);
    }
    if (!rc && w && !written)
        written = ctr_writer_finish(w, &err);
    if (rc < 0)
        FUZZ_CHECK(err.what[0]);
    ctr_digest_free(d);
}

bool fuzz_packed(const uint8_t *data, size_t size)
{
    static const char magic[][6] = { "\x1f\x8b", "\x28\xb5\x2f\xfd", "\x04\x22\x4d\x18", "\xfd\x37zXZ", "BZh" };
    for (size_t i = 0; i < CTR_COUNT(magic); i++)
        if (size >= strlen(magic[i]) && !memcmp(data, magic[i], strlen(magic[i])))
            return true;
    return false;
}

/* What an import came to. */
struct outcome {
    int rc;
    char digest[33], what[1024];
    struct ctr_import_stats stats;
};

/* With a digest, if the outcome is to be compared. */
static void import(const struct ctr_text_opts *o, const char *path, bool compared, struct outcome *out)
{
    struct ctr_err err = { 0 };
    struct ctr_import *im = NULL;
    struct ctr_digest *d = NULL;
    const struct ctr_batch *b;
    char *paths[] = { (char *)(uintptr_t)path };
    int rc = ctr_import_open(&im, o, paths, 1, &err);
    if (!rc && compared)
        rc = ctr_digest_new(&d, ctr_import_schema(im), &err);
    while (rc >= 0 && (rc = ctr_import_next(im, &b, &err)) > 0) {
        fuzz_look(b);
        if (d)
            rc = ctr_digest_batch(d, b, &err);
    }
    if (!rc)
        rc = ctr_import_finish(im, &err);
    out->rc = rc;
    if (rc >= 0) {
        if (d)
            ctr_digest_hex(d, out->digest);
        ctr_import_get_stats(im, &out->stats);
    }
    memcpy(out->what, err.what, sizeof err.what);
    ctr_digest_free(d);
    ctr_import_free(im);
}

/* Neither the rows nor the message depend on where blocks are cut. Inputs are read in blocks of either
 * size, and an eighth of them in both. */
void fuzz_import(const struct ctr_text_opts *o, const uint8_t *data, size_t size)
{
    struct ctr_text_opts small = *o, large = *o;
    struct outcome a = { 0 }, b = { 0 };
    const char *path = fuzz_file(0, data, size);
    const unsigned draw = ctr_hash64(data, size, 0) & 7;
    const bool both = !draw;
    small.block_bytes = 64;
    small.batch_rows = 3;
    large.block_bytes = 16 << 10;
    if (both || draw & 1)
        import(&large, path, both, &a);
    if (both || !(draw & 1))
        import(&small, path, both, both ? &b : &a);
    FUZZ_CHECK(a.rc >= 0 || a.what[0]);
    if (!both)
        return;
    const bool same = a.rc == b.rc && a.stats.rows == b.stats.rows && a.stats.bad == b.stats.bad &&
                      !strcmp(a.what, b.what) && !strcmp(a.digest, b.digest);
    if (!same && !fuzz_starved())
        fprintf(stderr, "large blocks: %d, %lld rows, %lld bad, %s %s\nsmall blocks: %d, %lld rows, %lld bad, %s %s\n",
                a.rc, (long long)a.stats.rows, (long long)a.stats.bad, a.digest, a.what, b.rc, (long long)b.stats.rows,
                (long long)b.stats.bad, b.digest, b.what);
    FUZZ_CHECK(same);
}
