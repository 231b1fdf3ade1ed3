/* SPDX-License-Identifier: Apache-2.0
 *
 * Export: a stream in every format; or, where the input is no stream, the fixed batches with the options, the columns
 * and the role that its bytes pick. One thread and two write the same bytes, for an eighth of the inputs. */
#include "harness.h"

#include <unistd.h>

#include "tools/ctr-export/export.h"

static const char *const formats[] = { "csv", "tsv", "jsonl", "libsvm", "libffm", "vw", "npy" };

/* The bytes that come out, or the message, as a hash. */
static uint64_t export(const char *format, const struct ctr_batch *b, const struct ctr_export_opts *o, const char *path)
{
    struct ctr_err err = { 0 };
    struct ctr_out *out = NULL;
    struct ctr_export *e = NULL;
    const struct ctr_export_format *f = ctr_export_find(format);
    uint8_t bytes[1 << 16];
    ssize_t n = 0;
    int rc = ctr_out_open(&out, path, 0, &err);
    if (rc >= 0)
        rc = ctr_export_check(f, o, &err);
    if (rc >= 0)
        rc = ctr_export_open(&e, f, b->schema, o, out, &err);
    for (int i = 0; rc >= 0 && i < 3; i++)
        rc = ctr_export_batch(e, b, &err);
    if (rc >= 0)
        rc = ctr_export_finish(e, &err);
    FUZZ_CHECK(rc < 0 || ctr_export_rows(e) == 3 * b->rows);
    if (rc >= 0)
        rc = ctr_out_commit(out, &err);
    FUZZ_CHECK(rc >= 0 || err.what[0]);
    if (e)
        (void)ctr_export_left_out(e);
    ctr_export_free(e);
    ctr_out_free(out);
    if (rc < 0)
        return ctr_hash64(err.what, strlen(err.what), 1);
    int fd = ctr_open(fuzz_path(0), 0, 0);
    if (fd >= 0)
        n = ctr_read_full(fd, bytes, sizeof bytes, &err);
    if (fd >= 0)
        close(fd);
    return ctr_hash64(bytes, (size_t)CTR_MAX(n, 0), 0);
}

/* By one thread; `twice`, by two as well. */
static void both(const char *format, const struct ctr_batch *b, struct ctr_export_opts *o, bool full, bool twice)
{
    uint64_t h[2];
    for (int k = 0; k <= twice; k++) {
        o->threads = 1 + k;
        h[k] = export(format, b, o, full ? "/dev/full" : fuzz_out(0));
    }
    FUZZ_CHECK(!twice || h[0] == h[1]);
}

static void export_stream(const uint8_t *data, size_t size, bool twice)
{
    struct ctr_err err = { 0 };
    struct ctr_reader *r = NULL;
    const struct ctr_batch *b;
    char *paths[] = { (char *)(uintptr_t)fuzz_file(1, data, size) };
    if (ctr_reader_open(&r, paths, 1, NULL, &err) < 0)
        return;
    for (int n = 0; n < 3 && ctr_reader_next(r, &b, &err) > 0; n++)
        for (size_t f = 0; f < CTR_COUNT(formats) && b->rows < 300; f++) {
            struct ctr_export_opts o = CTR_EXPORT_OPTS;
            for (int k = 0; k < b->schema->n; k++)
                if (ctr_field_role(&b->schema->f[k]) >= 0)
                    o.role[ctr_field_role(&b->schema->f[k])] = k;
            both(formats[f], b, &o, false, twice);
        }
    ctr_reader_free(r);
}

/* FORMAT FLAGS ROLE-COLUMN [COLUMN…]: these columns, or all. */
static void export_fixed(const uint8_t *data, size_t size, bool twice)
{
    enum { HEADERLESS = 1, FLAT = 2, GZIP = 4, NULL_TEXT = 8, DELIMITER = 16, BITS = 32, FULL = 64, FEATURES = 128 };
    struct ctr_export_opts o = CTR_EXPORT_OPTS;
    const struct ctr_batch *all = data[1] & FEATURES ? fuzz_features() : fuzz_batch();
    struct ctr_schema s = { 0 };
    struct ctr_col col[64];
    struct ctr_batch b = { .schema = &s, .rows = all->rows, .col = col };
    struct ctr_err err = { 0 };
    int rc = 0, n = size > 3 ? (int)CTR_MIN(size - 3, CTR_COUNT(col)) : all->schema->n;
    for (int k = 0; k < n && rc >= 0; k++) {
        int at = size > 3 ? data[3 + k] % all->schema->n : k;
        if (ctr_schema_find(&s, all->schema->f[at].name) >= 0)
            continue;
        rc = ctr_schema_add_field(&s, &all->schema->f[at], NULL, &err);
        col[CTR_MAX(s.n - 1, 0)] = all->col[at];
    }
    o.no_header = data[1] & HEADERLESS;
    o.flat = data[1] & FLAT;
    o.gzip = data[1] & GZIP;
    o.null_text = data[1] & NULL_TEXT ? "\\N" : NULL;
    o.delimiter = data[1] & DELIMITER ? "::" : NULL;
    o.bits = data[1] & BITS ? 1 + data[2] % 32 : 0;
    o.total_rows = data[1] & BITS ? 3 * all->rows - (data[2] & 1) : -1;
    o.role[data[2] % CTR_NROLES] = data[2] / CTR_NROLES % (s.n + 1) - 1;
    if (rc >= 0)
        both(formats[data[0] % CTR_COUNT(formats)], &b, &o, data[1] & FULL, twice);
    ctr_schema_free(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const bool twice = !(ctr_hash64(data, size, 0) & 7); /* to start threads costs more than all else */
    if (size >= 4 && !memcmp(data, "\xff\xff\xff\xff", 4))
        export_stream(data, size, twice);
    else if (size >= 3)
        export_fixed(data, size, twice);
    return 0;
}
