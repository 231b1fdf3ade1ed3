/* SPDX-License-Identifier: Apache-2.0
 *
 * unit-stream-alloc: the N-th allocation fails, for every N, while streams, files, dictionaries and keyed files are
 * written and read: an error that says so, no crash, no leak.
 */
#include "common/stream/stream.h"
#include "alloc.h"
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

/* ---- what runs
 * ------------------------------------------------------------------------------------------------------------------ */

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

static int write_all(const struct ctr_schema *s, const struct ctr_writer_opts *opts, struct ctr_err *err)
{
    struct ctr_out *o = NULL;
    struct ctr_writer *w = NULL;
    struct ctr_batchbuf b = { 0 };
    struct ctr_colbuf dict = { .type = CTR_UTF8 };
    int rc = ctr_batchbuf_init(&b, s, err);
    if (rc < 0)
        return rc;
    rc = put_rows(&b, &dict, err);
    if (rc >= 0)
        rc = ctr_out_open(&o, path, 0, err);
    if (rc >= 0)
        rc = ctr_writer_open(&w, o, s, opts, err);
    if (rc >= 0)
        rc = ctr_writer_batch(w, ctr_batchbuf_view(&b), err);
    if (rc >= 0)
        rc = ctr_writer_finish(w, err);
    if (rc >= 0)
        rc = ctr_out_commit(o, err);
    ctr_writer_free(w);
    ctr_out_free(o);
    ctr_batchbuf_free(&b);
    ctr_colbuf_free(&dict);
    return rc;
}

static int read_all(struct ctr_err *err)
{
    struct ctr_reader *r = NULL;
    const struct ctr_batch *b;
    char *paths[] = { path, path };
    int columns[] = { 2, 0, 1 }, rc = ctr_reader_open(&r, paths, 2, NULL, err);
    if (rc >= 0)
        rc = ctr_reader_project(r, columns, 3, err);
    while (rc >= 0 && (rc = ctr_reader_next(r, &b, err)) > 0)
        ;
    ctr_reader_free(r);
    return rc;
}

static int look_up(struct ctr_err *err)
{
    struct ctr_keyed *k = NULL;
    struct ctr_batchbuf out = { 0 };
    struct ctr_colbuf keys = { .type = CTR_I64 };
    int rc = ctr_keyed_open(&k, path, err);
    if (rc >= 0)
        rc = ctr_batchbuf_init(&out, ctr_keyed_schema(k), err);
    for (int64_t i = 0; rc >= 0 && i < 60; i++)
        rc = ctr_colbuf_i64(&keys, i * 7 % 60, err);
    if (rc >= 0)
        rc = ctr_keyed_get_many(k, ctr_colbuf_view(&keys), &out, NULL, err);
    if (out.col)
        ctr_batchbuf_free(&out);
    ctr_colbuf_free(&keys);
    ctr_keyed_free(k);
    return rc;
}

static int run(int what, struct ctr_err *err)
{
    struct ctr_schema s = { 0 };
    struct ctr_writer_opts opts = { .batch_rows = 8,
                                    .file = what == 2,
                                    .key = what == 2 ? "key" : NULL,
                                    .compression = what == 1 ? CTR_ZSTD : CTR_PLAIN };
    int rc = make_schema(&s, err);
    if (rc >= 0)
        rc = write_all(&s, &opts, err);
    if (rc >= 0)
        rc = read_all(err);
    if (rc >= 0 && what == 2)
        rc = look_up(err);
    ctr_schema_free(&s);
    return rc;
}

int main(void)
{
    static const char *const names[] = { "stream", "zstd stream", "keyed file" };
    snprintf(path, sizeof path, "/tmp/unit-stream-alloc-%d", (int)getpid());
    for (int what = 0; what < 3; what++) {
        long wrong = 0, leaks = 0, n = 0;
        struct ctr_err err = { 0 };
        int rc = -1;
        do { /* until none is left to fail; what can do without (realpath, say) may succeed */
            err = (struct ctr_err){ 0 };
            alloc_arm(++n);
            rc = run(what, &err);
            leaks += alloc_live != 0;
            /* ZSTD says in its own words that it got no memory. */
            if (rc < 0 && rc != CTR_ENOMEM && !(what == 1 && strstr(err.what, "zstd")) && wrong++ < 3)
                printf("# allocation %ld: %d %s\n", n, rc, err.what);
            if (alloc_live && leaks < 3)
                printf("# allocation %ld: %ld left\n", n, alloc_live);
        } while (alloc_disarm() && n < 20000);
        ok(rc == 0 && !wrong && !leaks, "%s: %ld allocations failed one by one, %ld wrong, %ld leaked", names[what],
           n - 1, wrong, leaks);
    }
    unlink(path);
    return done_testing();
}
#endif
