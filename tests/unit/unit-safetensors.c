/* SPDX-License-Identifier: Apache-2.0
 *
 * unit-safetensors: which columns become which tensors, their bytes, and what cannot be one. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/ctr-export/safetensors.h"
#include "sites.h"
#include "tap.h"

static char in_path[32], out_path[32];
static int in_fd, out_fd;
static struct ctr_err err;
static struct ctr_buf left_out;
static bool aligned = true; /* the data of all files so far */

static void check(int rc)
{
    if (rc) {
        printf("Bail out! %s\n", err.what);
        exit(1);
    }
}

static void start(int fd)
{
    if (ftruncate(fd, 0) || lseek(fd, 0, SEEK_SET))
        printf("Bail out! cannot write\n");
}

static struct ctr_seal written; /* of the section before */

/* Append a section of one batch to the input. */
static void put(const struct ctr_schema *s, const struct ctr_col *col, int64_t rows)
{
    const struct ctr_batch b = { s, rows, 0, col };
    struct ctr_out *o;
    struct ctr_writer *w;
    check(ctr_out_open(&o, in_path, 0, &err));
    *ctr_out_seal(o) = written;
    check(ctr_writer_open(&w, o, s, NULL, &err));
    check(ctr_writer_batch(w, &b, &err));
    check(ctr_writer_finish(w, &err));
    written = *ctr_out_seal(o);
    check(ctr_out_commit(o, &err));
    ctr_writer_free(w);
    ctr_out_free(o);
}

/* The file that is made of it: its bytes, or NULL and the error. */
static uint8_t *export(size_t *n)
{
    static uint8_t bytes[1 << 16];
    uint64_t head;
    struct ctr_reader_opts all = { .sections = true };
    struct ctr_reader *r;
    struct ctr_out *o;
    char *paths[] = { in_path };
    start(out_fd);
    ctr_buf_clear(&left_out);
    err = (struct ctr_err){ 0 };
    r = NULL, o = NULL;
    int rc = ctr_reader_open(&r, paths, 1, &all, &err);
    if (!rc)
        rc = ctr_out_open(&o, out_path, 0, &err);
    if (!rc)
        rc = ctr_safetensors_write(r, o, &left_out, &err);
    if (!rc)
        rc = ctr_out_commit(o, &err);
    ctr_out_free(o);
    ctr_reader_free(r);
    *n = rc ? 0 : (size_t)pread(out_fd, bytes, sizeof bytes, 0);
    memcpy(&head, bytes, sizeof head);
    aligned &= rc || head % 8 == 0;
    return rc ? NULL : bytes;
}

static void add(struct ctr_schema *s, const char *name, enum ctr_type type, enum ctr_type item, int width, bool dict)
{
    check(ctr_schema_add(s, name, type, &err));
    s->f[s->n - 1].item = item;
    s->f[s->n - 1].width = width;
    s->f[s->n - 1].dict = dict;
}

/* Where the data of a tensor begins, and its shape, as the header has them. */
static const uint8_t *tensor(const uint8_t *file, const char *name, const char *words)
{
    static char head[1 << 15], want[200];
    uint64_t n;
    memcpy(&n, file, 8);
    memcpy(head, file + 8, n);
    head[n] = 0;
    snprintf(want, sizeof want, "\"%s\":{%s,\"data_offsets\":[", name, words);
    const char *at = strstr(head, want);
    if (!at)
        printf("# %s is not in %s\n", want, head);
    return at ? file + 8 + n + strtoull(at + strlen(want), NULL, 10) : NULL;
}

static int export_once(void *ctx, struct ctr_err *e)
{
    size_t n;
    (void)ctx;
    const bool made = export(&n) != NULL;
    *e = err;
    return made ? 0 : err.code;
}

/* Each place that writes fails, for what is in the input. */
static void fail_sites(void)
{
    struct sites_tally t = { 0 };
    sites_tries = 8;
    sites_each(export_once, NULL, &t);
    ok(!t.wrong && !t.leaks && t.sites > 10, "%ld calls from %ld places failed, %ld wrong, %ld leaks", t.failed,
       t.sites, t.wrong, t.leaks);
}

static const int32_t place[] = { 2, 0, 1, 2 };
static const double f64[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
static const uint8_t bits[16] = { 0x5 }, some[16] = { 0x7 };
static const int32_t ends[] = { 0, 1, 2, 3, 4 };

static void test_columns(void)
{
    struct ctr_schema s = { 0 };
    size_t n;
    const uint8_t *at;
    const struct ctr_col items = { .type = CTR_F64, .rows = 8, .data = f64 };
    const struct ctr_col pairs = { .type = CTR_FIXED, .rows = 3, .item = &items };
    const struct ctr_col numbers = { .type = CTR_F64, .rows = 3, .data = f64 };
    const struct ctr_col yes = { .type = CTR_BOOL, .rows = 3, .data = bits };
    const struct ctr_col col[] = {
        { .type = CTR_BOOL, .rows = 4, .data = bits },
        { .type = CTR_FIXED, .rows = 4, .item = &items },
        { .type = CTR_F64, .rows = 4, .data = place, .dict = &numbers },
        { .type = CTR_FIXED, .rows = 4, .data = place, .dict = &pairs },
        { .type = CTR_BOOL, .rows = 4, .data = place, .dict = &yes },
        { .type = CTR_UTF8, .rows = 4, .data = "abcd", .offsets = ends },
        { .type = CTR_LIST, .rows = 4, .offsets = ends, .item = &items },
        { .type = CTR_I32, .rows = 4, .data = place },
        { .type = CTR_I32, .rows = 4, .data = place },
    };
    start(in_fd);
    add(&s, "yes", CTR_BOOL, 0, 0, false);
    add(&s, "pair", CTR_FIXED, CTR_F64, 2, false);
    add(&s, "coded", CTR_F64, 0, 0, true);
    add(&s, "coded pair", CTR_FIXED, CTR_F64, 2, true);
    add(&s, "coded yes", CTR_BOOL, 0, 0, true);
    add(&s, "text", CTR_UTF8, 0, 0, false);
    add(&s, "list", CTR_LIST, CTR_F64, 0, false);
    add(&s, "value", CTR_I32, 0, 0, false);
    add(&s, "row", CTR_I32, 0, 0, false);
    put(&s, col, 4);
    uint8_t *file = export(&n);
    ok(file && n > 8, "columns of every kind are exported %s", err.what);
    if (!file)
        return;
    static const char *const in_order[] = { "coded", "coded pair", "pair", "value", "coded yes" };
    static const char *const as[] = { "\"dtype\":\"F64\",\"shape\":[4]", "\"dtype\":\"F64\",\"shape\":[4,2]",
                                      "\"dtype\":\"F64\",\"shape\":[4,2]", "\"dtype\":\"I32\",\"shape\":[4]",
                                      "\"dtype\":\"BOOL\",\"shape\":[4]" };
    const uint8_t *before = NULL;
    bool falls = true;
    for (size_t i = 0; i < CTR_COUNT(in_order); i++) {
        at = tensor(file, in_order[i], as[i]);
        falls &= at > before;
        before = at;
    }
    ok(falls, "the larger numbers come first");
    at = tensor(file, "yes", "\"dtype\":\"BOOL\",\"shape\":[4]");
    ok(at && !memcmp(at, "\1\0\1\0", 4), "bools are a byte each");
    at = tensor(file, "pair", "\"dtype\":\"F64\",\"shape\":[4,2]");
    ok(at && !memcmp(at, f64, sizeof f64), "a fixed list is a matrix");
    at = tensor(file, "coded", "\"dtype\":\"F64\",\"shape\":[4]");
    ok(at && !memcmp(at, (double[]){ 3, 1, 2, 3 }, 32), "numbers come out of their dictionary");
    at = tensor(file, "coded pair", "\"dtype\":\"F64\",\"shape\":[4,2]");
    ok(at && !memcmp(at, (double[]){ 5, 6, 1, 2, 3, 4, 5, 6 }, 64), "so do lists");
    at = tensor(file, "coded yes", "\"dtype\":\"BOOL\",\"shape\":[4]");
    ok(at && !memcmp(at, "\1\1\0\1", 4), "and bools");
    ok(tensor(file, "value", "\"dtype\":\"I32\",\"shape\":[4]") &&
           tensor(file, "row", "\"dtype\":\"I32\",\"shape\":[4]"),
       "outside a section value and row are columns like others");
    ok(left_out.data && !strcmp((char *)left_out.data, "text, list"), "what is no number is told: %s",
       left_out.data ? (char *)left_out.data : "");
    fail_sites();
    ctr_schema_free(&s);
}

static void test_sections(void)
{
    struct ctr_schema s = { 0 }, t = { 0 }, other = { 0 }, none = { 0 };
    size_t n;
    const struct ctr_col items = { .type = CTR_F64, .rows = 8, .data = f64 };
    const struct ctr_col col[] = {
        { .type = CTR_FIXED, .rows = 1, .item = &items },
        { .type = CTR_I32, .rows = 1, .data = place },
    };
    start(in_fd);
    add(&none, "n", CTR_I32, 0, 0, false);
    check(ctr_meta_set(&none.meta, CTR_META_SECTION, "main", &err));
    check(ctr_meta_set(&none.meta, CTR_META_SECTIONS, "main,w,x,y", &err));
    check(ctr_meta_set(&none.meta, CTR_META_SHAPE, "none", &err));
    check(ctr_meta_set(&none.meta, "ctr.a", "\"", &err));
    check(ctr_meta_set(&none.meta, "other", "x", &err));
    put(&none, &col[1], 1);
    add(&s, "value", CTR_FIXED, CTR_F64, 8, false);
    add(&s, "row", CTR_I32, 0, 0, false);
    check(ctr_meta_set(&s.meta, CTR_META_SECTION, "w", &err));
    check(ctr_meta_set(&s.meta, CTR_META_SHAPE, "vector", &err));
    put(&s, col, 1);
    add(&t, "one", CTR_FIXED, CTR_F64, 8, false);
    add(&t, "two", CTR_I32, 0, 0, false);
    check(ctr_meta_set(&t.meta, CTR_META_SECTION, "x", &err));
    check(ctr_meta_set(&t.meta, CTR_META_SHAPE, "matrix", &err));
    put(&t, col, 1);
    add(&other, "three", CTR_FIXED, CTR_F64, 8, false);
    check(ctr_meta_set(&other.meta, CTR_META_SECTION, "y", &err));
    check(ctr_meta_set(&other.meta, CTR_META_SHAPE, "vector", &err));
    put(&other, col, 1);
    const uint8_t *file = export(&n);
    ok(file && n > 8, "sections are exported %s", err.what);
    ok(file && tensor(file, "w", "\"dtype\":\"F64\",\"shape\":[8]"), "a vector has one dimension; its row is left out");
    ok(file && tensor(file, "x.one", "\"dtype\":\"F64\",\"shape\":[1,8]") &&
           tensor(file, "x.two", "\"dtype\":\"I32\",\"shape\":[1]") &&
           tensor(file, "y.three", "\"dtype\":\"F64\",\"shape\":[1,8]"),
       "a section without a value has its columns");
    ok(file && strstr((char *)file + 8, "{\"__metadata__\":{") && strstr((char *)file + 8, "\"ctr.a\":\"\\\"\"") &&
           !strstr((char *)file + 8, "other"),
       "the first one's metadata goes along, but not what is another's");
    ctr_schema_free(&s);
    ctr_schema_free(&t);
    ctr_schema_free(&other);
    ctr_schema_free(&none);
}

static void test_refused(void)
{
    struct ctr_schema s = { 0 }, many = { 0 }, again = { 0 };
    size_t n;
    const struct ctr_col null_items = { .type = CTR_F64, .rows = 8, .nulls = 5, .valid = some, .data = f64 };
    const struct ctr_col lists = { .type = CTR_FIXED, .rows = 4, .item = &null_items };
    const struct ctr_col null = { .type = CTR_I32, .rows = 4, .nulls = 1, .valid = some, .data = place };
    const struct ctr_col text = { .type = CTR_UTF8, .rows = 4, .data = "abcd", .offsets = ends };
    const struct ctr_col number = { .type = CTR_I32, .rows = 4, .data = place };
    struct ctr_col numbers[300];
    start(in_fd);
    add(&s, "n", CTR_I32, 0, 0, false);
    put(&s, &null, 4);
    ok(!export(&n) && strstr(err.what, "row 4: column n: a tensor has no null"), "%s", err.what);
    s.f[0].type = CTR_FIXED;
    s.f[0].item = CTR_F64;
    s.f[0].width = 2;
    start(in_fd);
    put(&s, &lists, 4);
    ok(!export(&n) && strstr(err.what, "column n: a list has nulls"), "%s", err.what);
    s.f[0].type = CTR_UTF8;
    start(in_fd);
    put(&s, &text, 4);
    ok(!export(&n) && strstr(err.what, "no numeric column"), "%s", err.what);
    start(in_fd);
    for (int i = 0; i < 300; i++) {
        char name[16];
        snprintf(name, sizeof name, "c%d", i);
        add(&many, name, CTR_I32, 0, 0, false);
        numbers[i] = number;
    }
    put(&many, numbers, 4);
    ok(!export(&n) && strstr(err.what, "more than 256 columns of numbers"), "%s", err.what);
    const struct ctr_col large = { .type = CTR_F64, .rows = 4, .data = f64 };
    start(in_fd);
    add(&again, "b.c", CTR_I32, 0, 0, false);
    check(ctr_meta_set(&again.meta, CTR_META_SECTION, "a", &err));
    check(ctr_meta_set(&again.meta, CTR_META_SECTIONS, "a,a.b", &err));
    put(&again, &number, 4);
    free(again.f[0].name);
    check(ctr_strdup(&again.f[0].name, "c", &err));
    again.f[0].hash = 0;
    check(ctr_meta_set(&again.meta, CTR_META_SECTION, "a.b", &err));
    check(ctr_meta_set(&again.meta, CTR_META_SECTIONS, NULL, &err));
    put(&again, &number, 4);
    ok(!export(&n) && strstr(err.what, "two tensors would have the name a.b.c"), "%s", err.what);
    start(in_fd);
    again.f[0].type = CTR_F64;
    check(ctr_meta_set(&again.meta, CTR_META_SECTIONS, "a.b,a", &err));
    put(&again, &large, 4);
    free(again.f[0].name);
    check(ctr_strdup(&again.f[0].name, "b.c", &err));
    again.f[0].type = CTR_I32;
    check(ctr_meta_set(&again.meta, CTR_META_SECTION, "a", &err));
    check(ctr_meta_set(&again.meta, CTR_META_SECTIONS, NULL, &err));
    put(&again, &number, 4);
    ok(!export(&n) && strstr(err.what, "two tensors would have the name a.b.c"), "of other types too: %s", err.what);
    ctr_schema_free(&s);
    ctr_schema_free(&many);
    ctr_schema_free(&again);
}

/* More than what is copied at once. */
static void test_large(void)
{
    enum { ROWS = 400000 };
    struct ctr_schema s = { 0 };
    double *v = malloc((ROWS + 8) * sizeof *v), last = 0;
    size_t n;
    for (int i = 0; i < ROWS; i++)
        v[i] = i;
    const struct ctr_col col = { .type = CTR_F64, .rows = ROWS, .data = v };
    start(in_fd);
    add(&s, "x", CTR_F64, 0, 0, false);
    put(&s, &col, ROWS);
    const uint8_t *file = export(&n), *at = file ? tensor(file, "x", "\"dtype\":\"F64\",\"shape\":[400000]") : NULL;
    ok(at && pread(out_fd, &last, sizeof last, at - file + (ROWS - 1) * (off_t)sizeof last) == sizeof last &&
           last == ROWS - 1,
       "3.2 MB of numbers, to the last one");
    free(v);
    ctr_schema_free(&s);
}

int main(void)
{
    in_fd = memfd_create("in", 0);
    out_fd = memfd_create("out", 0);
    snprintf(in_path, sizeof in_path, "/dev/fd/%d", in_fd);
    snprintf(out_path, sizeof out_path, "/dev/fd/%d", out_fd);
    test_columns();
    test_sections();
    test_refused();
    test_large();
    ctr_buf_free(&left_out);
    ok(aligned, "data begins at a multiple of 8 bytes");
    return done_testing();
}
