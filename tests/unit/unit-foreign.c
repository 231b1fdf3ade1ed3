/* SPDX-License-Identifier: Apache-2.0
 *
 * unit-foreign: what other programs write, layout by layout, comes out as the few types that stages see; what lies
 * about itself is refused with the reason, and nothing of it comes out.
 */
#include "alloc.h"
#include "foreign.h"
#include "sites.h"
#include "tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static struct ctr_err err;
static int fd, fd2;
static char path[64], path2[64];

/* ---- reading ---- */

/* All rows as text, "a,b c,d …" or the error with a '!' before it. */
static int rows_of(char *const *paths, int n, char *out, size_t size)
{
    struct ctr_reader *r = NULL;
    const struct ctr_batch *b;
    struct ctr_buf text = { 0 };
    err = (struct ctr_err){ 0 };
    int rc = ctr_reader_open(&r, paths, n, NULL, &err);
    while (rc >= 0 && (rc = ctr_reader_next(r, &b, &err)) > 0)
        for (int64_t i = 0; i < b->rows; i++)
            for (int c = 0; rc >= 0 && c < b->schema->n; c++) {
                rc = ctr_buf_printf(&text, &err, c ? "," : text.len ? " " : "");
                if (rc >= 0)
                    rc = ctr_col_missing(&b->col[c], i) ? ctr_buf_append(&text, "-", 1, &err)
                                                        : ctr_col_text(&b->col[c], i, &text, &err);
            }
    if (rc < 0)
        snprintf(out, size, "!%.500s", err.what);
    else
        snprintf(out, size, "%.*s", (int)text.len, (char *)text.data);
    ctr_buf_free(&text);
    ctr_reader_free(r);
    return rc;
}

/* An error may go on after what is wanted: where it happened. */
static bool same(const char *got, const char *want)
{
    return *want == '!' ? *got == '!' && strstr(got, want + 1) : !strcmp(got, want);
}

/* The N-th allocation fails, for every N: it says so, or it could do without. */
static long faults, wrong, leaks;
static void fail_each(const char *want)
{
    char *paths[] = { path }, got[512];
    bool failed = ALLOC_WATCHED;
    for (long n = 1; failed; n++) {
        alloc_arm(n);
        int rc = rows_of(paths, 1, got, sizeof got);
        leaks += alloc_live != 0;
        failed = alloc_disarm();
        faults += failed;
        wrong += rc != CTR_ENOMEM && strcmp(got, want);
    }
}

/* So it goes with the places that ask for room: buffers are kept from batch to batch, and seldom full. */
static struct sites_tally places;
static int read_one(void *unused, struct ctr_err *e)
{
    char *paths[] = { path }, got[512];
    (void)unused;
    int rc = rows_of(paths, 1, got, sizeof got);
    *e = err;
    return rc;
}

static void expect(const struct a_stream *s, const char *want, const char *what)
{
    char *paths[] = { path }, got[512];
    if (a_write(fd, s, &err) < 0)
        printf("Bail out! cannot write: %s\n", err.what);
    rows_of(paths, 1, got, sizeof got);
    ok(same(got, want), "%s: %s", what, got);
    fail_each(got);
    if (*want != '!' && ALLOC_WATCHED)
        sites_each(read_one, NULL, &places);
}

/* ---- tables of cases ---- */

#define BATCH(rows_, nodes_, buffers_, ...)                                                                            \
    {                                                                                                                  \
        .type = ARROW_BATCH, .rows = rows_, .nodes = nodes_, .buffers = buffers_, __VA_ARGS__                          \
    }
#define DICT(id, rows_, nodes_, buffers_, ...)                                                                         \
    {                                                                                                                  \
        .type = ARROW_DICTIONARY, .dict_id = id, .rows = rows_, .nodes = nodes_, .buffers = buffers_, __VA_ARGS__      \
    }
#define DELTA(...) DICT(__VA_ARGS__, .delta = 1)
#define NODE(...)  .node = { __VA_ARGS__ }
#define BUF(...)   .buffer = { __VA_ARGS__ }
#define B8(...)    A_BYTES(uint8_t, __VA_ARGS__)
#define B32(...)   A_BYTES(int32_t, __VA_ARGS__)
#define B64(...)   A_BYTES(int64_t, __VA_ARGS__)
#define NONE       A_NONE
#define BIG        ((int64_t)1 << 31)

struct a_case {
    const char *what, *want;
    struct a_stream s;
};

static const struct a_case scalars[] = {
    { "null", "- -", { { { "a", ARROW_NULL } }, { BATCH(2, 1, 0, NODE({ 2, 2 })) } } },
    { "null, no rows", "", { { { "a", ARROW_NULL } }, { BATCH(0, 1, 0, NODE({ 0, 0 })) } } },
    { "null, millions of rows without a byte",
      "!a batch without data claims 5000000 rows",
      { { { "a", ARROW_NULL } }, { BATCH(5000000, 1, 0, NODE({ 5000000, 5000000 })) } } },
    { "no columns, millions of rows",
      "!a batch without columns claims 5000000 rows",
      { { { NULL } }, { BATCH(5000000, 0, 0) } } },
    { "no columns", "", { { { NULL } }, { BATCH(3, 0, 0) } } },
    { "bool", "true - false", { { { "a", ARROW_BOOL } }, { BATCH(3, 1, 2, NODE({ 3, 1 }), BUF(B8(5), B8(1))) } } },
    { "float16",
      "1 -2",
      { { { "a", ARROW_FLOAT } }, { BATCH(2, 1, 2, NODE({ 2 }), BUF(NONE, A_BYTES(uint16_t, 0x3c00, 0xc000))) } } },
    { "float64",
      "0.5",
      { { { "a", ARROW_FLOAT, 2 } }, { BATCH(1, 1, 2, NODE({ 1 }), BUF(NONE, A_BYTES(double, 0.5))) } } },
    { "seconds",
      "1970-01-01T00:00:02Z",
      { { { "a", ARROW_TIMESTAMP, 0 } }, { BATCH(1, 1, 2, NODE({ 1 }), BUF(NONE, B64(2))) } } },
    { "milliseconds",
      "1970-01-01T00:00:02Z",
      { { { "a", ARROW_TIMESTAMP, 1 } }, { BATCH(1, 1, 2, NODE({ 1 }), BUF(NONE, B64(2000))) } } },
    { "microseconds, downwards",
      "1969-12-31T23:59:59.999Z -",
      { { { "a", ARROW_TIMESTAMP, 2 } }, { BATCH(2, 1, 2, NODE({ 2, 1 }), BUF(B8(1), B64(-1, 7))) } } },
    { "nanoseconds",
      "1970-01-01T00:00:00.001Z",
      { { { "a", ARROW_TIMESTAMP, 3 } }, { BATCH(1, 1, 2, NODE({ 1 }), BUF(NONE, B64(1999999))) } } },
    { "seconds beyond milliseconds",
      "!row 2 of the batch is a time out of range",
      { { { "a", ARROW_TIMESTAMP, 0 } }, { BATCH(2, 1, 2, NODE({ 2 }), BUF(NONE, B64(1, INT64_MAX / 500))) } } },
    { "days",
      "1970-01-03T00:00:00Z",
      { { { "a", ARROW_DATE, 0 } }, { BATCH(1, 1, 2, NODE({ 1 }), BUF(NONE, B32(2))) } } },
    { "a date in milliseconds",
      "1970-01-01T00:00:00.002Z",
      { { { "a", ARROW_DATE, 1 } }, { BATCH(1, 1, 2, NODE({ 1 }), BUF(NONE, B64(2))) } } },
    { "fewer nodes",
      "!a batch has 0 columns and 2 buffers where its schema has 1 and 2",
      { { { "a", ARROW_INT, 32, 1 } }, { BATCH(1, 0, 2, BUF(NONE, B32(1))) } } },
    { "fewer buffers",
      "!a batch has 1 columns and 1 buffers",
      { { { "a", ARROW_INT, 32, 1 } }, { BATCH(1, 1, 1, NODE({ 1 })) } } },
    { "other rows",
      "!column 'a': a column has 2 rows where 1 are due",
      { { { "a", ARROW_INT, 32, 1 } }, { BATCH(1, 1, 2, NODE({ 2 }), BUF(NONE, B32(1, 2))) } } },
    { "negative nulls",
      "!a column of 1 rows and -1 nulls",
      { { { "a", ARROW_INT, 32, 1 } }, { BATCH(1, 1, 2, NODE({ 1, -1 }), BUF(NONE, B32(1))) } } },
    { "more nulls than rows",
      "!a column of 1 rows and 2 nulls",
      { { { "a", ARROW_INT, 32, 1 } }, { BATCH(1, 1, 2, NODE({ 1, 2 }), BUF(NONE, B32(1))) } } },
    { "nulls without a bitmap",
      "!a bitmap of nulls is too short",
      { { { "a", ARROW_INT, 32, 1 } }, { BATCH(1, 1, 2, NODE({ 1, 1 }), BUF(NONE, B32(1))) } } },
    { "nulls that are none",
      "!a column claims 1 nulls and has 0",
      { { { "a", ARROW_INT, 32, 1 } }, { BATCH(1, 1, 2, NODE({ 1, 1 }), BUF(B8(1), B32(1))) } } },
    { "a buffer too short",
      "!a buffer has 4 bytes where its column needs 8",
      { { { "a", ARROW_INT, 32, 1 } }, { BATCH(2, 1, 2, NODE({ 2 }), BUF(NONE, B32(1))) } } },
    { "a buffer beyond the body",
      "!a buffer does not lie in its body",
      { { { "a", ARROW_INT, 32, 1 } }, { BATCH(1, 1, 2, NODE({ 1 }), BUF(NONE, { (int32_t[]){ 1 }, 4, 100 })) } } },
    { "a body that is not there",
      "!truncated after batch 0",
      { { { "a", ARROW_INT, 32, 1 } }, { BATCH(1, 1, 2, NODE({ 1 }), BUF(NONE, B32(1)), .body_claim = 1 << 20) } } },
    { "more than 2^31 rows",
      "!a batch claims 2147483648 rows",
      { { { "a", ARROW_NULL } }, { BATCH(BIG, 1, 0, NODE({ BIG, BIG })) } } },
};

static const struct a_case texts[] = {
    { "text",
      "\xc3\xb6 b",
      { { { "a", ARROW_UTF8 } },
        { BATCH(2, 1, 3, NODE({ 2 }),
                BUF(NONE, B32(0, 2, 3),
                    A_TEXT("\xc3\xb6"
                           "b"))) } } },
    { "binary",
      "ab c",
      { { { "a", ARROW_BINARY } }, { BATCH(2, 1, 3, NODE({ 2 }), BUF(NONE, B32(0, 2, 3), A_TEXT("abc"))) } } },
    { "large binary",
      "ab c",
      { { { "a", ARROW_LARGE_BINARY } }, { BATCH(2, 1, 3, NODE({ 2 }), BUF(NONE, B64(0, 2, 3), A_TEXT("abc"))) } } },
    { "large text",
      "b c",
      { { { "a", ARROW_LARGE_UTF8 } }, { BATCH(2, 1, 3, NODE({ 2 }), BUF(NONE, B64(1, 2, 3), A_TEXT("abc"))) } } },
    { "large text, no rows, no offsets", "", { { { "a", ARROW_LARGE_UTF8 } }, { BATCH(0, 1, 3, NODE({ 0 })) } } },
    { "a character cut in two",
      "!row 1 of the batch is no UTF-8 text",
      { { { "a", ARROW_UTF8 } }, { BATCH(2, 1, 3, NODE({ 2 }), BUF(NONE, B32(0, 1, 2), A_TEXT("\xc3\xb6"))) } } },
    { "a character cut in two by a null, in a row before the last",
      "!row 2 of the batch is no UTF-8 text",
      { { { "a", ARROW_UTF8 } },
        { BATCH(3, 1, 3, NODE({ 3, 1 }), BUF(B8(6), B32(0, 1, 2, 2), A_TEXT("\xc3\xb6"))) } } },
    { "bytes of a null",
      "- b",
      { { { "a", ARROW_UTF8 } },
        { BATCH(2, 1, 3, NODE({ 2, 1 }),
                BUF(B8(2), B32(0, 1, 2),
                    A_TEXT("\xff"
                           "b"))) } } },
    { "no UTF-8",
      "!row 2 of the batch is no UTF-8 text",
      { { { "a", ARROW_UTF8 } }, { BATCH(2, 1, 3, NODE({ 2 }), BUF(NONE, B32(0, 1, 2), A_TEXT("b\xff"))) } } },
    { "offsets downwards",
      "!the offsets of a list or text are damaged",
      { { { "a", ARROW_UTF8 } }, { BATCH(2, 1, 3, NODE({ 2 }), BUF(NONE, B32(0, 2, 1), A_TEXT("ab"))) } } },
    { "a negative offset",
      "!the offsets of a list or text are damaged",
      { { { "a", ARROW_UTF8 } }, { BATCH(1, 1, 3, NODE({ 1 }), BUF(NONE, B32(-1, 1), A_TEXT("ab"))) } } },
    { "text beyond its bytes",
      "!a buffer has 2 bytes where its column needs 3",
      { { { "a", ARROW_UTF8 } }, { BATCH(1, 1, 3, NODE({ 1 }), BUF(NONE, B32(0, 3), A_TEXT("ab"))) } } },
    { "large offsets downwards",
      "!the offsets of a list or text are damaged",
      { { { "a", ARROW_LARGE_UTF8 } }, { BATCH(2, 1, 3, NODE({ 2 }), BUF(NONE, B64(0, 2, 1), A_TEXT("ab"))) } } },
    { "large offsets that end below their beginning",
      "!the offsets of a list or text are damaged",
      { { { "a", ARROW_LARGE_UTF8 } }, { BATCH(1, 1, 3, NODE({ 1 }), BUF(NONE, B64(2, 1), A_TEXT("ab"))) } } },
    { "a negative large offset",
      "!the offsets of a list or text are damaged",
      { { { "a", ARROW_LARGE_UTF8 } }, { BATCH(1, 1, 3, NODE({ 1 }), BUF(NONE, B64(-1, 1), A_TEXT("ab"))) } } },
    { "large text of 2 GiB, said to be",
      "!a batch holds more than 2^31-1 bytes or items: write smaller batches",
      { { { "a", ARROW_LARGE_UTF8 } }, { BATCH(1, 1, 3, NODE({ 1 }), BUF(NONE, B64(0, BIG), A_TEXT("ab"))) } } },
    { "large text that begins at 2 GiB, said to be",
      "!a batch holds more than 2^31-1 bytes or items: write smaller batches",
      { { { "a", ARROW_LARGE_UTF8 } }, { BATCH(1, 1, 3, NODE({ 1 }), BUF(NONE, B64(BIG, BIG + 2), A_TEXT("ab"))) } } },
    { "views: short, null, long",
      "ab - 0123456789abc,345 abcdefghijklmnopqrstu",
      { { { "a", ARROW_UTF8_VIEW } },
        { BATCH(4, 1, 3, NODE({ 4, 1 }), .variadic = { 1 }, .variadics = 1,
                BUF(B8(13), B32(2, 0x6261, 0, 0, 999, 1, 2, 3, 17, 0, 0, 0, 21, 0, 0, 17),
                    A_TEXT("0123456789abc,345abcdefghijklmnopqrstu"))) } } },
    { "two columns of views",
      "0123456789abc,0123456789xyz",
      { { { "a", ARROW_UTF8_VIEW }, { "b", ARROW_BINARY_VIEW } },
        { BATCH(1, 2, 6, NODE({ 1 }, { 1 }), .variadic = { 1, 1 }, .variadics = 2,
                BUF(NONE, B32(13, 0, 0, 0), A_TEXT("0123456789abc"), NONE, B32(13, 0, 0, 0),
                    A_TEXT("0123456789xyz"))) } } },
    { "a view of a buffer before the first",
      "!a view of text is damaged",
      { { { "a", ARROW_UTF8_VIEW } },
        { BATCH(1, 1, 3, NODE({ 1 }), .variadic = { 1 }, .variadics = 1,
                BUF(NONE, B32(13, 0, -1, 0), A_TEXT("0123456789abc"))) } } },
    { "a view of a buffer after the last",
      "!a view of text is damaged",
      { { { "a", ARROW_UTF8_VIEW } },
        { BATCH(1, 1, 3, NODE({ 1 }), .variadic = { 1 }, .variadics = 1,
                BUF(NONE, B32(13, 0, 1, 0), A_TEXT("0123456789abc"))) } } },
    { "a view from before its buffer",
      "!a view of text is damaged",
      { { { "a", ARROW_UTF8_VIEW } },
        { BATCH(1, 1, 3, NODE({ 1 }), .variadic = { 1 }, .variadics = 1,
                BUF(NONE, B32(13, 0, 0, -1), A_TEXT("0123456789abc"))) } } },
    { "a view beyond its buffer",
      "!a buffer has 13 bytes where its column needs 14",
      { { { "a", ARROW_UTF8_VIEW } },
        { BATCH(1, 1, 3, NODE({ 1 }), .variadic = { 1 }, .variadics = 1,
                BUF(NONE, B32(13, 0, 0, 1), A_TEXT("0123456789abc"))) } } },
    { "a view of negative length",
      "!a view of text is damaged",
      { { { "a", ARROW_UTF8_VIEW } },
        { BATCH(1, 1, 2, NODE({ 1 }), .variadic = { 0 }, .variadics = 1, BUF(NONE, B32(-1, 0, 0, 0))) } } },
    { "views of more than 2 GiB of the same bytes",
      "!a batch holds more than 2^31-1 bytes of text: write smaller batches",
      { { { "a", ARROW_UTF8_VIEW } },
        { BATCH(2, 1, 3, NODE({ 2 }), .variadic = { 1 }, .variadics = 1,
                BUF(NONE, B32(1 << 30, 0, 0, 0, 1 << 30, 0, 0, 0), A_TEXT("0123456789abc"))) } } },
    { "views that do not tell their buffers",
      "!a batch has 1 columns and 3 buffers where its schema has 1 and 2",
      { { { "a", ARROW_UTF8_VIEW } }, { BATCH(1, 1, 3, NODE({ 1 }), BUF(NONE, B32(1, 'a', 0, 0), A_TEXT("0"))) } } },
    { "views of -1 buffers",
      "!a batch claims -1 buffers for a column",
      { { { "a", ARROW_UTF8_VIEW } },
        { BATCH(1, 1, 2, NODE({ 1 }), .variadic = { -1 }, .variadics = 1, BUF(NONE, B32(1, 'a', 0, 0))) } } },
    { "views of more buffers than there are",
      "!a batch claims 9 buffers for a column",
      { { { "a", ARROW_UTF8_VIEW } },
        { BATCH(1, 1, 2, NODE({ 1 }), .variadic = { 9 }, .variadics = 1, BUF(NONE, B32(1, 'a', 0, 0))) } } },
};

#define ITEMS(...) NODE({ 2 }, { 3 }), BUF(NONE, __VA_ARGS__, NONE, B32(7, 8, 9))
static const struct a_case lists[] = {
    { "list",
      "[7,8] [9]",
      { { { "a", ARROW_LIST, .kids = 1 }, { "x", ARROW_INT, 32, 1 } }, { BATCH(2, 2, 4, ITEMS(B32(0, 2, 3))) } } },
    { "large list",
      "[7,8] [9]",
      { { { "a", ARROW_LARGE_LIST, .kids = 1 }, { "x", ARROW_INT, 32, 1 } },
        { BATCH(2, 2, 4, ITEMS(B64(0, 2, 3))) } } },
    { "fixed size list",
      "[7,8] [9,10]",
      { { { "a", ARROW_FIXED_LIST, 2, .kids = 1 }, { "x", ARROW_INT, 32, 1 } },
        { BATCH(2, 2, 3, NODE({ 2 }, { 4 }), BUF(NONE, NONE, B32(7, 8, 9, 10))) } } },
    { "a fixed size list of fewer items",
      "!a column has 3 rows where 4 are due",
      { { { "a", ARROW_FIXED_LIST, 2, .kids = 1 }, { "x", ARROW_INT, 32, 1 } },
        { BATCH(2, 2, 3, NODE({ 2 }, { 3 }), BUF(NONE, NONE, B32(7, 8, 9, 10))) } } },
    { "a list beyond its items",
      "!a list goes beyond its items",
      { { { "a", ARROW_LIST, .kids = 1 }, { "x", ARROW_INT, 32, 1 } }, { BATCH(2, 2, 4, ITEMS(B32(0, 2, 4))) } } },
    { "a list of 2^31 items, said to be",
      "!a batch holds more than 2^31-1 bytes or items",
      { { { "a", ARROW_LARGE_LIST, .kids = 1 }, { "x", ARROW_INT, 32, 1 } },
        { BATCH(2, 2, 4, ITEMS(B64(0, 2, BIG))) } } },
    { "items claim more rows than can be",
      "!a column has 549755813889 rows",
      { { { "a", ARROW_LIST, .kids = 1 }, { "x", ARROW_NULL } },
        { BATCH(1, 2, 2, NODE({ 1 }, { (BIG << 8) + 1 }), BUF(NONE, B32(0, 1))) } } },
    { "a struct is its columns",
      "7,- 8,a",
      { { { "a", ARROW_STRUCT, .kids = 2 }, { "x", ARROW_INT, 32, 1 }, { "y", ARROW_UTF8 } },
        { BATCH(2, 3, 6, NODE({ 2 }, { 2 }, { 2, 1 }),
                BUF(NONE, NONE, B32(7, 8), B8(2), B32(0, 0, 1), A_TEXT("a"))) } } },
    { "null in a struct is null in its columns",
      "- 8 -",
      { { { "a", ARROW_STRUCT, .kids = 1 }, { "x", ARROW_INT, 32, 1 } },
        { BATCH(3, 2, 3, NODE({ 3, 1 }, { 3, 1 }), BUF(B8(6), B8(3), B32(7, 8, 9))) } } },
    { "null in a struct of a column without nulls",
      "- 8",
      { { { "a", ARROW_STRUCT, .kids = 1 }, { "x", ARROW_INT, 32, 1 } },
        { BATCH(2, 2, 3, NODE({ 2, 1 }, { 2 }), BUF(B8(2), NONE, B32(7, 8))) } } },
    { "a struct whose child has other rows",
      "!a column has 1 rows where 2 are due",
      { { { "a", ARROW_STRUCT, .kids = 1 }, { "x", ARROW_INT, 32, 1 } },
        { BATCH(2, 2, 3, NODE({ 2 }, { 1 }), BUF(NONE, NONE, B32(7, 8))) } } },
    { "weighted keys",
      "[7:0.5,8:2]",
      { { { "a", ARROW_LIST, .kids = 1 },
          { "s", ARROW_STRUCT, .kids = 2 },
          { "key", ARROW_INT, 64, 0 },
          { "weight", ARROW_FLOAT, 1 } },
        { BATCH(1, 4, 7, NODE({ 1 }, { 2 }, { 2 }, { 2 }),
                BUF(NONE, B32(0, 2), NONE, NONE, B64(7, 8), NONE, A_BYTES(float, .5f, 2))) } } },
    { "weighted keys of other rows",
      "!a struct of 2 rows has a child of 1",
      { { { "a", ARROW_LIST, .kids = 1 },
          { "s", ARROW_STRUCT, .kids = 2 },
          { "key", ARROW_INT, 64, 0 },
          { "weight", ARROW_FLOAT, 1 } },
        { BATCH(1, 4, 7, NODE({ 1 }, { 2 }, { 2 }, { 1 }),
                BUF(NONE, B32(0, 2), NONE, NONE, B64(7, 8), NONE, A_BYTES(float, .5f))) } } },
    { "weighted keys whose weights claim nulls without a bitmap",
      "!a bitmap of nulls is too short",
      { { { "a", ARROW_LIST, .kids = 1 },
          { "s", ARROW_STRUCT, .kids = 2 },
          { "key", ARROW_INT, 64, 0 },
          { "weight", ARROW_FLOAT, 1 } },
        { BATCH(1, 4, 7, NODE({ 1 }, { 2 }, { 2 }, { 2, 1 }),
                BUF(NONE, B32(0, 2), NONE, NONE, B64(7, 8), NONE, A_BYTES(float, .5f, 2))) } } },
};

#define DICT_AB DICT(5, 2, 1, 3, NODE({ 2 }), BUF(NONE, B32(0, 1, 2), A_TEXT("ab")))
#define INDEX_8 "a", ARROW_UTF8, .index = 8, .is_signed = 1, .dict_id = 5
static const struct a_case dictionaries[] = {
    { "indices of unknown type are int32",
      "b a",
      { { { "a", ARROW_UTF8, .index = -1, .dict_id = 5 } },
        { DICT_AB, BATCH(2, 1, 2, NODE({ 2 }), BUF(NONE, B32(1, 0))) } } },
    { "no dictionary",
      "!column 'a': its dictionary has not come",
      { { { INDEX_8 } }, { BATCH(2, 1, 2, NODE({ 2 }), BUF(NONE, B8(1, 0))) } } },
    { "no dictionary, nulls only",
      "- - -",
      { { { INDEX_8 } },
        { BATCH(2, 1, 2, NODE({ 2, 2 }), BUF(B8(0), B8(1, 0))), BATCH(1, 1, 2, NODE({ 1, 1 }), BUF(B8(0), B8(1))) } } },
    { "a damaged dictionary",
      "!column 'a': row 1 of the batch is no UTF-8",
      { { { INDEX_8 } },
        { DICT(5, 1, 1, 3, NODE({ 1 }), BUF(NONE, B32(0, 1), A_TEXT("\xff"))), BATCH(0, 1, 2, NODE({ 0 })) } } },
    { "a dictionary of no column",
      "b",
      { { { INDEX_8 } }, { DICT_AB, DICT(6, 1, 1, 3, NODE({ 1 })), BATCH(1, 1, 2, NODE({ 1 }), BUF(NONE, B8(1))) } } },
    { "a delta",
      "a c",
      { { { INDEX_8 } },
        { DICT_AB, DELTA(5, 1, 1, 3, NODE({ 1 }), BUF(NONE, B32(0, 1), A_TEXT("c"))),
          BATCH(2, 1, 2, NODE({ 2 }), BUF(NONE, B8(0, 2))) } } },
    { "two deltas",
      "c d",
      { { { INDEX_8 } },
        { DICT_AB, DELTA(5, 1, 1, 3, NODE({ 1 }), BUF(NONE, B32(0, 1), A_TEXT("c"))),
          DELTA(5, 1, 1, 3, NODE({ 1 }), BUF(NONE, B32(0, 1), A_TEXT("d"))),
          BATCH(2, 1, 2, NODE({ 2 }), BUF(NONE, B8(2, 3))) } } },
    { "a delta of nothing",
      "c",
      { { { INDEX_8 } },
        { DELTA(5, 1, 1, 3, NODE({ 1 }), BUF(NONE, B32(0, 1), A_TEXT("c"))),
          BATCH(1, 1, 2, NODE({ 1 }), BUF(NONE, B8(0))) } } },
    { "a dictionary after a delta is a new one",
      "!an index points outside the dictionary",
      { { { INDEX_8 } },
        { DICT_AB, DELTA(5, 1, 1, 3, NODE({ 1 }), BUF(NONE, B32(0, 1), A_TEXT("c"))), DICT_AB,
          BATCH(1, 1, 2, NODE({ 1 }), BUF(NONE, B8(2))) } } },
    { "a delta after a delta and a new one",
      "a d",
      { { { INDEX_8 } },
        { DELTA(5, 1, 1, 3, NODE({ 1 }), BUF(NONE, B32(0, 1), A_TEXT("c"))), DICT_AB,
          DELTA(5, 1, 1, 3, NODE({ 1 }), BUF(NONE, B32(0, 1), A_TEXT("d"))),
          BATCH(2, 1, 2, NODE({ 2 }), BUF(NONE, B8(0, 2))) } } },
    { "items of a list",
      "[b,a] [] [a]",
      { { { "l", ARROW_LIST, .kids = 1 }, { INDEX_8 } },
        { DICT_AB, BATCH(2, 2, 4, NODE({ 2 }, { 3, 1 }), BUF(NONE, B32(0, 2, 3), B8(3), B8(1, 0, 99))),
          BATCH(1, 2, 4, NODE({ 1 }, { 1 }), BUF(NONE, B32(0, 1), NONE, B8(0))) } } },
    { "items of a large list",
      "[b,a] [] [a]",
      { { { "l", ARROW_LARGE_LIST, .kids = 1 }, { INDEX_8 } },
        { DICT_AB, BATCH(2, 2, 4, NODE({ 2 }, { 3, 1 }), BUF(NONE, B64(0, 2, 3), B8(3), B8(1, 0, 99))),
          BATCH(1, 2, 4, NODE({ 1 }, { 1 }), BUF(NONE, B64(0, 1), NONE, B8(0))) } } },
    { "items of a list without a dictionary, all null",
      "[]",
      { { { "l", ARROW_LIST, .kids = 1 }, { INDEX_8 } },
        { BATCH(1, 2, 4, NODE({ 1 }, { 1, 1 }), BUF(NONE, B32(0, 1), B8(0), B8(0))) } } },
    { "a dictionary of lists",
      "[8] [7,8]",
      { { { "a", ARROW_LIST, .kids = 1, .index = 8, .is_signed = 1, .dict_id = 5 }, { "x", ARROW_INT, 32, 1 } },
        { DICT(5, 2, 2, 4, NODE({ 2 }, { 3 }), BUF(NONE, B32(0, 2, 3), NONE, B32(7, 8, 8))),
          BATCH(2, 1, 2, NODE({ 2 }), BUF(NONE, B8(1, 0))) } } },
    { "a dictionary of structs",
      "8 -",
      { { { "a", ARROW_STRUCT, .kids = 1, .index = 8, .is_signed = 1, .dict_id = 5 }, { "x", ARROW_INT, 32, 1 } },
        { DICT(5, 2, 2, 3, NODE({ 2, 1 }, { 2 }), BUF(B8(2), NONE, B32(7, 8))),
          BATCH(2, 1, 2, NODE({ 2 }), BUF(NONE, B8(1, 0))) } } },
    { "a dictionary of views",
      "0123456789abc a",
      { { { "a", ARROW_UTF8_VIEW, .index = 8, .is_signed = 1, .dict_id = 5 } },
        { DICT(5, 2, 1, 3, NODE({ 2 }), .variadic = { 1 }, .variadics = 1,
               BUF(NONE, B32(1, 'a', 0, 0, 13, 0, 0, 0), A_TEXT("0123456789abc"))),
          BATCH(2, 1, 2, NODE({ 2 }), BUF(NONE, B8(1, 0))) } } },
    { "a dictionary of views that does not tell their buffers",
      "!a batch does not tell the buffers of its views",
      { { { "a", ARROW_UTF8_VIEW, .index = 8, .is_signed = 1, .dict_id = 5 } },
        { DICT(5, 1, 1, 2, NODE({ 1 }), BUF(NONE, B32(1, 'a', 0, 0))),
          BATCH(1, 1, 2, NODE({ 1 }), BUF(NONE, B8(0))) } } },
    { "a dictionary of views of -1 buffers",
      "!a batch claims -1 buffers for a column",
      { { { "a", ARROW_UTF8_VIEW, .index = 8, .is_signed = 1, .dict_id = 5 } },
        { DICT(5, 1, 1, 2, NODE({ 1 }), .variadic = { -1 }, .variadics = 1, BUF(NONE, B32(1, 'a', 0, 0))) } } },
    { "a dictionary of views of 9 buffers",
      "!a batch claims 9 buffers for a column",
      { { { "a", ARROW_UTF8_VIEW, .index = 8, .is_signed = 1, .dict_id = 5 } },
        { DICT(5, 1, 1, 2, NODE({ 1 }), .variadic = { 9 }, .variadics = 1, BUF(NONE, B32(1, 'a', 0, 0))) } } },
    { "a dictionary of structs of views, the second of which does not tell its buffers",
      "!a batch does not tell the buffers of its views",
      { { { "s", ARROW_STRUCT, .kids = 2, .index = 8, .is_signed = 1, .dict_id = 5 },
          { "x", ARROW_UTF8_VIEW },
          { "y", ARROW_UTF8_VIEW } },
        { DICT(5, 1, 3, 5, NODE({ 1 }, { 1 }, { 1 }),
               BUF(NONE, NONE, B32(1, 'a', 0, 0), NONE, B32(1, 'a', 0, 0))) } } },
    { "a dictionary of structs of views that claim more buffers than there are",
      "!a batch has fewer buffers than its schema needs",
      { { { "s", ARROW_STRUCT, .kids = 3, .index = 8, .is_signed = 1, .dict_id = 5 },
          { "x", ARROW_UTF8_VIEW },
          { "y", ARROW_UTF8_VIEW },
          { "z", ARROW_UTF8_VIEW } },
        { DICT(5, 1, 4, 5, NODE({ 1 }, { 1 }, { 1 }, { 1 }), .variadic = { 5, 5, 0 }, .variadics = 3,
               BUF(NONE, NONE, B32(1, 'a', 0, 0), NONE, B32(1, 'a', 0, 0))) } } },
    { "buffers of views where there are none",
      "!a batch has 1 columns and 2 buffers where its schema has 1 and 2",
      { { { "a", ARROW_INT, 8, 1 } },
        { BATCH(1, 1, 2, NODE({ 1 }), .variadic = { 0 }, .variadics = 1, BUF(NONE, B8(1))) } } },
    { "weighted keys of -1 rows",
      "!a batch claims a column of -1 rows",
      { { { "l", ARROW_LIST, .kids = 1 },
          { "s", ARROW_STRUCT, .kids = 2 },
          { "key", ARROW_INT, 64, 0 },
          { "weight", ARROW_FLOAT, 1 } },
        { BATCH(1, 4, 7, NODE({ 1 }, { 1 }, { -1 }, { 1 }),
                BUF(NONE, B32(0, 1), NONE, NONE, B64(1), NONE, B32(1))) } } },
    { "a dictionary of fewer columns",
      "!a batch has fewer columns than its schema",
      { { { INDEX_8 } }, { DICT(5, 1, 0, 3, BUF(NONE, B32(0, 1), A_TEXT("a"))) } } },
    { "a dictionary of fewer buffers",
      "!a batch has fewer buffers than its schema needs",
      { { { INDEX_8 } }, { DICT(5, 1, 1, 1, NODE({ 1 })) } } },
    { "a dictionary in a dictionary",
      "[b] [a,b]",
      { { { "l", ARROW_LIST, .kids = 1, .index = 8, .is_signed = 1, .dict_id = 7 }, { INDEX_8 } },
        { DICT_AB, DICT(7, 2, 2, 4, NODE({ 2 }, { 3 }), BUF(NONE, B32(0, 2, 3), NONE, B8(0, 1, 1))),
          BATCH(2, 1, 2, NODE({ 2 }), BUF(NONE, B8(1, 0))) } } },
};

static const struct a_case schemas[] = {
    { "an integer of 24 bits", "!column 'a' is an integer of 24 bits", { { { "a", ARROW_INT, 24 } }, { { 0 } } } },
    { "a negative precision",
      "!column 'a' is a float of unknown precision",
      { { { "a", ARROW_FLOAT, -1 } }, { { 0 } } } },
    { "a precision of 3", "!column 'a' is a float of unknown precision", { { { "a", ARROW_FLOAT, 3 } }, { { 0 } } } },
    { "a negative unit", "!column 'a' has an unknown unit of time", { { { "a", ARROW_TIMESTAMP, -1 } }, { { 0 } } } },
    { "a unit of 4", "!column 'a' has an unknown unit of time", { { { "a", ARROW_TIMESTAMP, 4 } }, { { 0 } } } },
    { "a unit of dates", "!column 'a' has an unknown unit of time", { { { "a", ARROW_DATE, 2 } }, { { 0 } } } },
    { "a negative width",
      "!column 'a' has lists of -1 items",
      { { { "a", ARROW_FIXED_LIST, -1, .kids = 1 }, { "x", ARROW_BOOL } }, { { 0 } } } },
    { "a list of two",
      "!column 'a' has 2 children",
      { { { "a", ARROW_LIST, .kids = 2 }, { "x", ARROW_BOOL }, { "y", ARROW_BOOL } }, { { 0 } } } },
    { "a list of none", "!column 'a' has 0 children", { { { "a", ARROW_LARGE_LIST } }, { { 0 } } } },
    { "an integer with a child",
      "!column 'a' has 1 children",
      { { { "a", ARROW_INT, 8, .kids = 1 }, { "x", ARROW_BOOL } }, { { 0 } } } },
    { "indices of 12 bits",
      "!column 'a' has dictionary indices of 12 bits",
      { { { "a", ARROW_UTF8, .index = 12 } }, { { 0 } } } },
    { "kind 0", "!column 'a' has a type of an unknown kind (0)", { { { "a", 0 } }, { { 0 } } } },
    { "kind 27", "!column 'a' has a type of an unknown kind (27)", { { { "a", 27 } }, { { 0 } } } },
    { "an interval", "!column 'a' is of type interval", { { { "a", ARROW_INTERVAL } }, { { 0 } } } },
    { "a map within",
      "!column 's.m' is of type map",
      { { { "s", ARROW_STRUCT, .kids = 1 }, { "m", ARROW_MAP } }, { { 0 } } } },
    { "a list of lists",
      "!column 'a' is a list of lists, which is not supported",
      { { { "a", ARROW_LIST, .kids = 1 }, { "x", ARROW_LIST, .kids = 1 }, { "y", ARROW_BOOL } }, { { 0 } } } },
};

static void run_all(const struct a_case *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        expect(&c[i].s, c[i].want, c[i].what);
}

/* ---- families ---- */

/* Indices of every width: good ones, one that is too large or negative, and such below a null. */
static void test_indices(void)
{
    for (int bits = 8; bits <= 64; bits *= 2)
        for (int is_signed = 0; is_signed < 2; is_signed++)
            for (int64_t bad = -1; bad < 4; bad++) {
                struct a_stream s = { { { "a", ARROW_UTF8, .index = bits, .is_signed = is_signed, .dict_id = 5 } },
                                      { DICT_AB } };
                const bool null = bad == 1 || bad == 3;
                int width = bits / 8;
                int64_t v[3] = { 1, bad, 0 };
                uint8_t bytes[24];
                char what[64];
                for (int i = 0; i < 3; i++)
                    memcpy(bytes + width * i, &v[i], (size_t)width);
                s.message[1] =
                    (struct a_message)BATCH(3, 1, 2, NODE({ 3, null }), BUF({ "\5", null }, { bytes, 3 * width }));
                snprintf(what, sizeof what, "%sint%d, index %d", is_signed ? "" : "u", bits, (int)bad);
                expect(&s, bad == 0 ? "b a a" : null ? "b - a" : "!an index points outside the dictionary", what);
            }
}

/* Lists of struct<key: uint64, weight: float32> are weighted keys; anything else is a list for each of its fields. */
static void test_weighted(void)
{
    static const struct a_type near[][3] = {
        { { "key", ARROW_INT, 64, 1 }, { "weight", ARROW_FLOAT, 1 } },
        { { "key", ARROW_INT, 32, 0 }, { "weight", ARROW_FLOAT, 1 } },
        { { "key", ARROW_FLOAT, 2 }, { "weight", ARROW_FLOAT, 1 } },
        { { "k", ARROW_INT, 64, 0 }, { "weight", ARROW_FLOAT, 1 } },
        { { "key", ARROW_INT, 64, 0 }, { "w", ARROW_FLOAT, 1 } },
        { { "key", ARROW_INT, 64, 0 }, { "weight", ARROW_FLOAT, 2 } },
        { { "key", ARROW_INT, 64, 0 }, { "weight", ARROW_INT, 32 } },
        { { "key", ARROW_INT, 64, 0, .index = 8 }, { "weight", ARROW_FLOAT, 1 } },
        { { "key", ARROW_INT, 64, 0 }, { "weight", ARROW_FLOAT, 1, .index = 8 } },
        { { "key", ARROW_INT, 64, 0 }, { "weight", ARROW_FLOAT, 1 }, { "more", ARROW_BOOL } },
        { { "key", ARROW_INT, 64, 0 } },
    };
    char *paths[] = { path };
    for (size_t i = 0; i <= CTR_COUNT(near); i++) {
        bool fixed = i == CTR_COUNT(near);
        const struct a_type *t =
            fixed ? (const struct a_type[]){ { "key", ARROW_INT, 64, 0 }, { "weight", ARROW_FLOAT, 1 }, { NULL } }
                  : near[i];
        struct a_stream s = { { { "a", fixed ? ARROW_FIXED_LIST : ARROW_LIST, 1, .kids = 1 }, { "s", ARROW_STRUCT } },
                              { { 0 } } };
        struct ctr_reader *r = NULL;
        for (int k = 0; k < 3 && t[k].name; k++)
            s.type[2 + s.type[1].kids++] = t[k];
        a_write(fd, &s, &err);
        bool good = ctr_reader_open(&r, paths, 1, NULL, &err) >= 0;
        const struct ctr_schema *got = good ? ctr_reader_schema(r) : NULL;
        ok(good && got->n == s.type[1].kids && got->f[0].type == (fixed ? CTR_FIXED : CTR_LIST) &&
               strchr(got->f[0].name, '.'),
           "a list of another struct, %zu: %d columns, %s", i, good ? got->n : -1, good ? got->f[0].name : err.what);
        ctr_reader_free(r);
    }
}

/* A column that is encoded in one file and plain in the next is what the first one said. */
static void test_conform(void)
{
    const struct a_stream plain = { { { "a", ARROW_UTF8 } },
                                    { BATCH(2, 1, 3, NODE({ 2, 1 }), BUF(B8(2), B32(0, 0, 1), A_TEXT("c"))) } };
    const struct a_stream encoded = { { { INDEX_8 } }, { DICT_AB, BATCH(2, 1, 2, NODE({ 2 }), BUF(NONE, B8(1, 0))) } };
    char got[64], *forth[] = { path, path2 }, *back[] = { path2, path };
    a_write(fd, &plain, &err);
    a_write(fd2, &encoded, &err);
    rows_of(forth, 2, got, sizeof got);
    ok(!strcmp(got, "- c b a"), "plain, then encoded: %s", got);
    rows_of(back, 2, got, sizeof got);
    ok(!strcmp(got, "b a - c"), "encoded, then plain: %s", got);
}

/* Schemas that are too wide, too deep, or have long names. */
static void test_limits(void)
{
    struct a_stream s = { { { "a", ARROW_BOOL } }, { { 0 } } };
    char long_name[300], *paths[] = { path };
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[299] = 0;
    s.type[0] = (struct a_type){ long_name, ARROW_STRUCT, .kids = 1 };
    s.type[1] = (struct a_type){ "x", ARROW_MAP };
    expect(&s, "!nnn' is of type map", "a long name is cut");
    for (int depth = 15; depth <= 17; depth++) {
        struct a_stream deep = { { { NULL } }, { { 0 } } };
        for (int i = 0; i < depth; i++)
            deep.type[i] = (struct a_type){ "s", ARROW_STRUCT, .kids = 1 };
        deep.type[depth] = (struct a_type){ "x", ARROW_BOOL };
        expect(&deep, depth > 15 ? "!nested deeper than 16" : "", "depth");
    }
    a_big_endian = 1;
    expect(&(struct a_stream){ { { "a", ARROW_BOOL } }, { { 0 } } }, "!big-endian data is not supported",
           "another byte order");
    a_big_endian = 0;
    struct a_type *many = calloc(ARROW_MAX_FIELDS + 2, sizeof *many);
    for (int n = ARROW_MAX_FIELDS; n <= ARROW_MAX_FIELDS + 1; n++) {
        struct ctr_reader *r = NULL;
        char(*names)[12] = calloc((size_t)n, sizeof *names);
        for (int i = 0; i < n; i++) {
            snprintf(names[i], sizeof names[i], "%d", i);
            many[i] = (struct a_type){ names[i], ARROW_BOOL };
        }
        static const struct a_message schema = { .type = ARROW_SCHEMA };
        int64_t at = ftruncate(fd, 0) < 0 ? -1 : a_send(fd, 0, many, &schema, &err);
        int rc = at < 0 ? -1 : ctr_reader_open(&r, paths, 1, NULL, &err);
        ok(n > ARROW_MAX_FIELDS ? rc == CTR_EKIND && strstr(err.what, "more than 16384 columns") : rc >= 0,
           "%d columns: %s", n, rc < 0 ? err.what : "read");
        ctr_reader_free(r);
        free(names);
    }
    free(many);
}

/* A column is refused for what the views before it do not tell, also where they are not asked for. */
static void test_picked(void)
{
    const struct a_stream s = { { { "s", ARROW_STRUCT, .kids = 2, .index = 8, .is_signed = 1, .dict_id = 5 },
                                  { "x", ARROW_UTF8_VIEW },
                                  { "y", ARROW_UTF8_VIEW } },
                                { DICT(5, 1, 3, 5, NODE({ 1 }, { 1 }, { 1 }),
                                       BUF(NONE, NONE, B32(1, 'a', 0, 0), NONE, B32(1, 'a', 0, 0))),
                                  BATCH(1, 1, 2, NODE({ 1 }), BUF(NONE, B8(0))) } };
    struct ctr_reader *r = NULL;
    const struct ctr_batch *b;
    const int second = 1;
    char *paths[] = { path };
    a_write(fd, &s, &err);
    int rc = ctr_reader_open(&r, paths, 1, NULL, &err);
    if (rc >= 0)
        rc = ctr_reader_project(r, &second, 1, &err);
    while (rc >= 0 && (rc = ctr_reader_next(r, &b, &err)) > 0) {
    }
    ok(rc == CTR_EDATA && strstr(err.what, "does not tell the buffers of its views"), "the second of two: %s",
       err.what);
    ctr_reader_free(r);
}

static bool says(int rc, const char *words)
{
    return (rc == CTR_EDATA || rc == CTR_EKIND) && strstr(err.what, words);
}

/* A column that is not read, and its dictionary, stand beside one that is. */
static void test_unread(void)
{
    const struct a_stream s = { { { "price", ARROW_INTERVAL, .index = 8, .is_signed = 1, .dict_id = 5 },
                                  { "click", ARROW_BOOL } },
                                { DICT(5, 1, 1, 2, NODE({ 1 }), BUF(NONE, B32(1, 0, 0, 0))),
                                  BATCH(2, 2, 4, NODE({ 2 }, { 2 }), BUF(NONE, B8(0, 0), NONE, B8(2))) } };
    static const struct ctr_reader_opts foreign = { .foreign = true };
    static const char unread[] = "column 'price' is of type interval, which is not supported: cast it to int64";
    const int price = 0, click = 1;
    struct ctr_reader *r = NULL;
    struct ctr_writer *w = NULL;
    const struct ctr_batch *b;
    char *paths[] = { path };
    a_write(fd, &s, &err);
    int rc = ctr_reader_open(&r, paths, 1, &foreign, &err);
    ok(rc >= 0 && ctr_reader_schema(r)->f[price].type == CTR_FOREIGN, "a column that is not read is in the schema");
    ok(rc >= 0 &&
           says(ctr_writer_open(&w, NULL, ctr_reader_schema(r), NULL, &err), "of type interval cannot be written"),
       "which is not written: %s", err.what);
    ok(rc >= 0 && says(ctr_reader_project(r, &price, 1, &err), unread), "nor asked for: %s", err.what);
    rc = rc < 0 ? rc : ctr_reader_project(r, &click, 1, &err);
    ok(rc >= 0 && ctr_reader_next(r, &b, &err) > 0 && b->rows == 2 && ctr_col_i64(&b->col[0], 1) == 1,
       "the one beside it is read");
    ctr_reader_free(r);
    ctr_writer_free(w);
    rc = ctr_reader_open(&r, paths, 1, &foreign, &err);
    ok(rc >= 0 && says(ctr_reader_next(r, &b, &err), unread), "nor looked at when all are asked for: %s", err.what);
    ctr_reader_free(r);
}

int main(void)
{
    fd = memfd_create("foreign", 0);
    fd2 = memfd_create("foreign2", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    snprintf(path2, sizeof path2, "/proc/self/fd/%d", fd2);
    run_all(scalars, CTR_COUNT(scalars));
    run_all(texts, CTR_COUNT(texts));
    run_all(lists, CTR_COUNT(lists));
    run_all(dictionaries, CTR_COUNT(dictionaries));
    run_all(schemas, CTR_COUNT(schemas));
    test_indices();
    test_weighted();
    test_conform();
    ok(!wrong && !leaks, "allocations failed one by one in all of them, %ld: %ld wrong, %ld leaks", faults, wrong,
       leaks);
    ok(!places.wrong && !places.leaks, "and %ld calls from %ld places: %ld wrong, %ld leaks", places.failed,
       places.sites, places.wrong, places.leaks);
    test_limits();
    test_picked();
    test_unread();
    return done_testing();
}
