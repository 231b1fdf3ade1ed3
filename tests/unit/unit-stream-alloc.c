/* SPDX-License-Identifier: Apache-2.0
 *
 * unit-stream-alloc: the N-th allocation fails, for every N, while streams, files, dictionaries and keyed files are
 * written and read: an error that says so, no crash, no leak.
 */
#include "common/stream/stream.h"
#include "sites.h"
#include "tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#if !ALLOC_WATCHED
int main(void)
{
    printf("1..0 # SKIP the allocator is the sanitizer's\n");
    return 0;
}
#else

/* ---- what runs ---- */

enum what { STREAM, ZSTD, LZ4, KEYED, BY_TEXT, DIRTY, BARE, WHATS };
static const char *const names[WHATS] = { "stream",        "zstd stream",    "lz4 stream",          "keyed file",
                                          "keyed by text", "nulls that own", "rows without columns" };

static char path[64];

static int make_schema(struct ctr_schema *s, struct ctr_err *err)
{
    int rc = ctr_schema_add(s, "key", CTR_I64, err);
    if (rc >= 0)
        rc = ctr_schema_add(s, "words", CTR_LIST, err);
    if (rc >= 0)
        rc = ctr_schema_add(s, "site", CTR_UTF8, err);
    if (rc < 0)
        return rc;
    s->f[1].item = CTR_UTF8;
    s->f[2].dict = true;
    rc = ctr_schema_provenance(s, "unit", "--x", err);
    return rc < 0 ? rc : ctr_schema_provenance(s, "unit", "--y", err);
}

static int put_rows(struct ctr_batchbuf *b, struct ctr_colbuf *dict, struct ctr_err *err)
{
    int rc = ctr_colbuf_str(dict, "a.example", 9, err);
    for (int64_t i = 0; rc >= 0 && i < 50; i++) {
        rc = i < 45 ? ctr_colbuf_i64(&b->col[0], i, err) : ctr_colbuf_null(&b->col[0], err);
        if (rc >= 0)
            rc = i % 3 ? ctr_colbuf_str(b->col[1].item, "w\xc3\xb6rd", 5, err) : ctr_colbuf_null(b->col[1].item, err);
        if (rc >= 0)
            rc = ctr_colbuf_close(&b->col[1], err);
        b->col[2].type = CTR_I32;
        if (rc >= 0)
            rc = ctr_colbuf_i64(&b->col[2], 0, err);
        b->col[2].type = CTR_UTF8;
    }
    b->col[2].dict = ctr_colbuf_view(dict);
    return rc;
}

/* Columns whose null rows own text and items, weighted keys, and text without a dictionary where one is wanted. */
static int write_dirty(struct ctr_writer *w, struct ctr_err *err)
{
    enum { ROWS = 24 };
    static int32_t offsets[ROWS + 1], pairs[ROWS + 1];
    static uint64_t key[2 * ROWS];
    static float weight[2 * ROWS];
    static char text[3 * ROWS];
    static const uint8_t some[16] = { 0xfd, 0xff, 0x3f };
    for (int i = 0; i <= ROWS; i++) {
        offsets[i] = 3 * i;
        pairs[i] = 2 * i;
    }
    memset(text, 'x', sizeof text);
    const struct ctr_col keys = { .type = CTR_WKEY, .rows = 2 * ROWS, .data = key, .weight = weight };
    const struct ctr_col numbers = { .type = CTR_F32, .rows = 2 * ROWS, .data = weight };
    const struct ctr_col col[] = {
        { .type = CTR_UTF8, .rows = ROWS, .nulls = 3, .valid = some, .data = text, .offsets = offsets },
        { .type = CTR_LIST, .rows = ROWS, .nulls = 3, .valid = some, .offsets = pairs, .item = &keys },
        { .type = CTR_FIXED, .rows = ROWS, .nulls = 3, .valid = some, .item = &numbers },
        { .type = CTR_UTF8, .rows = ROWS, .data = text, .offsets = offsets },
    };
    const struct ctr_batch b = { ctr_writer_schema(w), ROWS, 0, col };
    int rc = ctr_writer_batch(w, &b, err);
    return rc >= 0 ? ctr_writer_flush(w, err) : rc;
}

static int dirty_schema(struct ctr_schema *s, struct ctr_err *err)
{
    static const enum ctr_type types[] = { CTR_UTF8, CTR_LIST, CTR_FIXED, CTR_UTF8 },
                               items[] = { 0, CTR_WKEY, CTR_F32, 0 };
    int rc = 0;
    for (int i = 0; i < 4 && rc >= 0; i++) {
        const char name[] = { (char)('a' + i), 0 };
        rc = ctr_schema_add(s, name, types[i], err);
        if (rc >= 0) {
            s->f[i].item = items[i];
            s->f[i].width = types[i] == CTR_FIXED ? 2 : 0;
            s->f[i].dict = i == 3;
        }
    }
    return rc;
}

/* Keys in order, one of which is empty, others such that a list of them wants escapes; the last one is missing. */
static int write_texts(struct ctr_writer *w, struct ctr_err *err)
{
    static const char *const keys[] = { "", "\x01", "%", "a,b", "c\x7f", "d" };
    struct ctr_batchbuf b = { 0 };
    int rc = ctr_batchbuf_init(&b, ctr_writer_schema(w), err);
    for (int i = 0; i < 50 && rc >= 0; i++)
        rc =
            i < 48 ? ctr_colbuf_str(&b.col[0], keys[i / 8], strlen(keys[i / 8]), err) : ctr_colbuf_null(&b.col[0], err);
    if (rc >= 0)
        rc = ctr_writer_batch(w, ctr_batchbuf_view(&b), err);
    if (b.col)
        ctr_batchbuf_free(&b);
    return rc;
}

static int write_rows(enum what what, const struct ctr_schema *s, struct ctr_writer *w, struct ctr_err *err)
{
    struct ctr_batchbuf b = { 0 };
    struct ctr_colbuf dict = { .type = CTR_UTF8 };
    const struct ctr_batch bare = { s, 30, 0, NULL };
    if (what == DIRTY || what == BY_TEXT)
        return what == DIRTY ? write_dirty(w, err) : write_texts(w, err);
    if (what == BARE)
        return ctr_writer_batch(w, &bare, err);
    int rc = ctr_batchbuf_init(&b, s, err);
    if (rc < 0)
        return rc;
    rc = put_rows(&b, &dict, err);
    if (rc >= 0)
        rc = ctr_writer_batch(w, ctr_batchbuf_view(&b), err);
    ctr_batchbuf_free(&b);
    ctr_colbuf_free(&dict);
    return rc;
}

static int write_all(enum what what, const struct ctr_schema *s, const struct ctr_writer_opts *opts,
                     struct ctr_err *err)
{
    struct ctr_out *o = NULL;
    struct ctr_writer *w = NULL;
    int rc = ctr_out_open(&o, path, 0, err);
    if (rc >= 0)
        rc = ctr_writer_open(&w, o, s, opts, err);
    if (rc >= 0)
        rc = write_rows(what, s, w, err);
    if (rc >= 0)
        rc = ctr_writer_finish(w, err);
    if (rc >= 0)
        rc = ctr_out_commit(o, err);
    ctr_writer_free(w);
    ctr_out_free(o);
    return rc;
}

static bool never_idle(void *ctx)
{
    (void)ctx;
    return true;
}

/* A thread fetches ahead; where none can be had, it is done without. */
static int read_all(enum what what, struct ctr_err *err)
{
    const struct ctr_reader_opts opts = { .idle = never_idle, .idle_ms = 1000, .ahead = true };
    struct ctr_reader *r = NULL;
    const struct ctr_batch *b;
    char *paths[] = { path, path };
    int columns[] = { 2, 0, 1 }, rc = ctr_reader_open(&r, paths, 2, &opts, err);
    if (rc >= 0 && what < BY_TEXT)
        rc = ctr_reader_project(r, columns, 3, err);
    while (rc >= 0 && (rc = ctr_reader_next(r, &b, err)) > 0)
        ;
    ctr_reader_free(r);
    return rc;
}

static int look_up(enum what what, struct ctr_err *err)
{
    struct ctr_keyed *k = NULL;
    struct ctr_batchbuf out = { 0 };
    struct ctr_colbuf keys = { .type = what == KEYED ? CTR_I64 : CTR_UTF8 };
    int rc = ctr_keyed_open(&k, path, err);
    if (rc >= 0)
        rc = ctr_batchbuf_init(&out, ctr_keyed_schema(k), err);
    for (int64_t i = 0; rc >= 0 && i < 60; i++)
        rc = what == KEYED ? ctr_colbuf_i64(&keys, i * 7 % 60, err) : ctr_colbuf_str(&keys, "%\x01" + i % 2, 1, err);
    if (rc >= 0)
        rc = ctr_keyed_get_many(k, ctr_colbuf_view(&keys), &out, NULL, err);
    if (out.col)
        ctr_batchbuf_free(&out);
    ctr_colbuf_free(&keys);
    ctr_keyed_free(k);
    return rc;
}

static int run(enum what what, struct ctr_err *err)
{
    const bool keyed = what == KEYED || what == BY_TEXT;
    struct ctr_schema s = { 0 };
    struct ctr_writer_opts opts = { .batch_rows = 8,
                                    .file = keyed,
                                    .key = keyed ? "key" : NULL,
                                    .compression = what == ZSTD  ? CTR_ZSTD
                                                   : what == LZ4 ? CTR_LZ4
                                                                 : CTR_PLAIN };
    int rc = what == DIRTY     ? dirty_schema(&s, err)
             : what == BY_TEXT ? ctr_schema_add(&s, "key", CTR_UTF8, err)
             : what == BARE    ? 0
                               : make_schema(&s, err);
    if (rc >= 0)
        rc = write_all(what, &s, &opts, err);
    if (rc >= 0)
        rc = read_all(what, err);
    if (rc >= 0 && keyed)
        rc = look_up(what, err);
    ctr_schema_free(&s);
    return rc;
}

/* ZSTD and LZ4 say in their own words that they got no memory. */
static bool said(enum what what, const struct ctr_err *err)
{
    return (what == ZSTD || what == LZ4) && strstr(err->what, what == ZSTD ? "zstd" : "lz4");
}

static int run_once(void *what, struct ctr_err *err)
{
    return run(*(enum what *)what, err);
}

/* Two sections, which their list names or not, read as one plain stream: it is refused, with the names. */
static int read_bundle(void *listed, struct ctr_err *err)
{
    struct ctr_out *o = NULL;
    int rc = ctr_out_open(&o, path, 0, err);
    for (int i = 0; rc >= 0 && i < 2; i++) {
        struct ctr_schema s = { 0 };
        struct ctr_writer *w = NULL;
        rc = ctr_schema_add(&s, i ? "b" : "a", CTR_I64, err);
        if (rc >= 0 && *(bool *)listed)
            rc = ctr_meta_set(&s.meta, CTR_META_SECTION, i ? "two" : "one", err);
        if (rc >= 0 && *(bool *)listed && !i)
            rc = ctr_meta_set(&s.meta, CTR_META_SECTIONS, "one,two", err);
        if (rc >= 0)
            rc = ctr_writer_open(&w, o, &s, NULL, err);
        if (rc >= 0)
            rc = ctr_writer_finish(w, err);
        ctr_writer_free(w);
        ctr_schema_free(&s);
    }
    if (rc >= 0)
        rc = ctr_out_commit(o, err);
    ctr_out_free(o);
    if (rc >= 0)
        rc = read_all(BY_TEXT, err);
    return rc == CTR_EDATA ? 0 : rc;
}

/* A stream of 30 rows, cut short, and a whole one behind it: no row is missing without a word. */
static int read_torn(void *torn, struct ctr_err *err)
{
    const struct ctr_reader_opts opts = { .lenient = true };
    struct ctr_reader *r = NULL;
    const struct ctr_batch *b;
    int64_t rows = 0;
    char *paths[] = { torn };
    int rc = ctr_reader_open(&r, paths, 1, &opts, err);
    while (rc >= 0 && (rc = ctr_reader_next(r, &b, err)) > 0)
        rows += b->rows;
    ctr_reader_free(r);
    return rc < 0 || rows == 60 ? rc : CTR_EDATA;
}

static void test_torn(void)
{
    char torn[sizeof path + 8];
    static uint8_t bytes[1 << 16];
    struct ctr_err err = { 0 };
    struct sites_tally t = { 0 };
    struct ctr_schema s = { 0 };
    int rc = write_all(BARE, &s, &(struct ctr_writer_opts){ 0 }, &err);
    FILE *from = fopen(path, "rb"), *to;
    snprintf(torn, sizeof torn, "%s.torn", path);
    to = fopen(torn, "wb");
    const size_t n = fread(bytes, 1, sizeof bytes, from);
    fwrite(bytes, 1, n - 20, to);
    fwrite(bytes, 1, n, to);
    fclose(from);
    fclose(to);
    if (!rc)
        sites_each(read_torn, torn, &t);
    ok(!rc && !t.wrong && !t.leaks && t.sites > 5,
       "a torn file: %ld calls from %ld places failed, %ld wrong, %ld leaked", t.failed, t.sites, t.wrong, t.leaks);
    unlink(torn);
}

int main(void)
{
    snprintf(path, sizeof path, "%s/ctr-unit-stream-alloc-%d", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm",
             (int)getpid());
    for (enum what what = 0; what < WHATS; what++) {
        long wrong = 0, leaks = 0, n = 0;
        struct ctr_err err = { 0 };
        int rc = run(what, &err); /* threads leave their stacks to later ones */
        do {                      /* until none is left to fail; what can do without (realpath, say) may succeed */
            err = (struct ctr_err){ 0 };
            alloc_arm(++n);
            rc = run(what, &err);
            leaks += alloc_live != 0;
            if (rc < 0 && rc != CTR_ENOMEM && !said(what, &err) && wrong++ < 3)
                printf("# allocation %ld: %d %s\n", n, rc, err.what);
            if (alloc_live && leaks < 3)
                printf("# allocation %ld: %ld left\n", n, alloc_live);
        } while (alloc_disarm() && n < 20000);
        ok(rc == 0 && !wrong && !leaks, "%s: %ld allocations failed one by one, %ld wrong, %ld leaked %s", names[what],
           n - 1, wrong, leaks, rc ? err.what : "");
        struct sites_tally t = { 0 };
        sites_each(run_once, &what, &t);
        ok(!t.wrong && !t.leaks && t.sites > 10, "%s: %ld calls from %ld places failed, %ld wrong, %ld leaked",
           names[what], t.failed, t.sites, t.wrong, t.leaks);
    }
    for (int listed = 0; listed < 2; listed++) {
        struct sites_tally t = { 0 };
        sites_each(read_bundle, &(bool){ listed }, &t);
        ok(!t.wrong && !t.leaks && t.sites > 5, "a bundle: %ld calls from %ld places failed, %ld wrong, %ld leaked",
           t.failed, t.sites, t.wrong, t.leaks);
    }
    test_torn();
    unlink(path);
    return done_testing();
}
#endif
