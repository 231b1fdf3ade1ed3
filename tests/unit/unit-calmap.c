/* SPDX-License-Identifier: Apache-2.0
 *
 * unit-calmap: calibration maps written by hand: those that hold what a map promises are applied, every other is
 * refused with the row and the reason. Written again, a map has the same rows.
 */
#include "alloc.h"
#include "common/metric/calmap.h"
#include "common/stream/stream.h"
#include "tap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static struct ctr_err err;
static int fd;
static char path[32], to[32];

static void must(int rc)
{
    if (rc < 0) {
        printf("Bail out! %s: %s\n", err.file, err.what);
        exit(1);
    }
}

/* Six words a row: by, slice, kind, name, score, value; "-" is null, "''" an empty text. */
static void put_rows(struct ctr_batchbuf *b, const char *text)
{
    char word[32];
    int n;
    for (int c = 0; sscanf(text, "%31s%n", word, &n) == 1; c++, text += n) {
        struct ctr_colbuf *to_col = &b->col[c % 6];
        if (!strcmp(word, "-"))
            must(ctr_colbuf_null(to_col, &err));
        else if (c % 6 > 3)
            must(ctr_colbuf_f64(to_col, strtod(word, NULL), &err));
        else
            must(ctr_colbuf_str(to_col, word, !strcmp(word, "''") ? 0 : strlen(word), &err));
    }
}

static void write_map(const struct ctr_schema *s, const struct ctr_batch *b)
{
    struct ctr_out *o = NULL;
    struct ctr_writer *w = NULL;
    if (ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        exit(1);
    must(ctr_out_open(&o, to, 0, &err));
    must(ctr_writer_open(&w, o, s, &(struct ctr_writer_opts){ .batch_rows = 2 }, &err));
    must(ctr_writer_batch(w, b, &err));
    must(ctr_writer_finish(w, &err));
    must(ctr_out_commit(o, &err));
    ctr_writer_free(w);
    ctr_out_free(o);
}

static void put_map(const char *text)
{
    struct ctr_schema s = { 0 };
    struct ctr_batchbuf b = { 0 };
    must(ctr_cal_map_schema(&s, &err));
    must(ctr_batchbuf_init(&b, &s, &err));
    put_rows(&b, text);
    write_map(&s, ctr_batchbuf_view(&b));
    ctr_batchbuf_free(&b);
    ctr_schema_free(&s);
}

/* Load the file, and give its rows as they would be written. */
static int rows_of(struct ctr_buf *text)
{
    struct ctr_cal_map *m = NULL;
    struct ctr_schema s = { 0 };
    struct ctr_batchbuf b = { 0 };
    int rc = ctr_cal_map_load(&m, path, &err);
    if (!rc)
        rc = ctr_cal_map_schema(&s, &err);
    if (!rc)
        rc = ctr_batchbuf_init(&b, &s, &err);
    if (!rc)
        rc = ctr_cal_map_rows(m, &b, &err);
    text->len = 0;
    for (int64_t i = 0; !rc && i < ctr_batchbuf_rows(&b); i++)
        for (int c = 0; !rc && c < 6; c++) {
            const struct ctr_col *col = &ctr_batchbuf_view(&b)->col[c];
            rc = ctr_buf_printf(text, &err, i + c ? " " : "");
            if (!rc)
                rc = ctr_col_null(col, i) ? ctr_buf_append(text, "-", 1, &err) : ctr_col_text(col, i, text, &err);
        }
    if (!rc)
        rc = ctr_buf_append(text, "", 1, &err);
    ctr_batchbuf_free(&b);
    ctr_schema_free(&s);
    ctr_cal_map_free(m);
    return rc;
}

/* ---- refused ---- */

#define POWER "- - power gamma - 1.5 - - power kappa - 0.5 "
static const struct {
    const char *rows, *why;
} refused[] = {
    { "", "it is empty" },
    { "- - - knot 0.1 0.1", "row 1: kind, name and value must not be null" },
    { "- - platt - - 0.1", "row 1: kind, name and value must not be null" },
    { "- - platt slope - -", "row 1: kind, name and value must not be null" },
    { "- - parabola knot 0.1 0.1", "row 1: an unknown kind" },
    { "site a platt slope - 1", "row 1: the global map must come first" },
    { "- - platt slope - 1", "row 1: a slice lacks a parameter" },
    { "- - platt slope - 1 site a platt slope - 1", "row 2: a slice lacks a parameter" },
    { "- - platt slope - 1 - - power gamma - 1", "row 2: a slice has two kinds" },
    { "- - platt gamma - 1", "row 1: an unknown parameter" },
    { "- - platt slope - 1 - - platt slope - 1", "row 2: a parameter comes twice" },
    { "- - platt intercept - 1 - - platt intercept - 1", "row 2: a parameter comes twice" },
    { "- - platt slope - inf", "row 1: it is not monotone: kappa and slope must be positive" },
    { "- - platt intercept - nan", "row 1: a parameter is not finite" },
    { "- - platt slope - 0", "row 1: it is not monotone: kappa and slope must be positive" },
    { "- - platt slope - -1", "row 1: it is not monotone: kappa and slope must be positive" },
    { "- - power gamma - 0", "row 1: gamma must be positive" },
    { "- - power gamma - -2", "row 1: gamma must be positive" },
    { "- - isotonic-linear gamma 0.1 0.1", "row 1: an isotonic map has knots only, with a score each" },
    { "- - isotonic-linear knot - 0.1", "row 1: an isotonic map has knots only, with a score each" },
    { "- - isotonic-linear knot -0.1 0.1", "row 1: a knot's score and value must be in [0, 1]" },
    { "- - isotonic-linear knot 1.1 0.1", "row 1: a knot's score and value must be in [0, 1]" },
    { "- - isotonic-linear knot nan 0.1", "row 1: a knot's score and value must be in [0, 1]" },
    { "- - isotonic-linear knot 0.1 -0.1", "row 1: a knot's score and value must be in [0, 1]" },
    { "- - isotonic-linear knot 0.1 1.1", "row 1: a knot's score and value must be in [0, 1]" },
    { "- - isotonic-linear knot 0.1 nan", "row 1: a knot's score and value must be in [0, 1]" },
    { "- - isotonic-constant knot 0.1 0.1 - - isotonic-constant knot 0.1 0.2",
      "row 2: it is not monotone: knots must ascend" },
    { "- - isotonic-constant knot 0.1 0.2 - - isotonic-constant knot 0.2 0.1",
      "row 2: it is not monotone: knots must ascend" },
    { POWER "site a power gamma - 1 site a power kappa - 1 " POWER,
      "row 5: the global map is not the first, or comes twice" },
    { POWER "site a power gamma - 1 site a power kappa - 1 user b power gamma - 1", "row 5: it is by two columns" },
    { POWER "site a power gamma - 1 site a power kappa - 1 site b power gamma - 1 site b power kappa - 1 site a power "
            "gamma - 1",
      "row 7: a slice comes twice" },
    { POWER "site a power gamma - 1", "row 3: a slice lacks a parameter" },
};

static void test_refused(void)
{
    struct ctr_buf text = { 0 };
    for (size_t i = 0; i < CTR_COUNT(refused); i++) {
        put_map(refused[i].rows);
        err = (struct ctr_err){ 0 };
        int rc = rows_of(&text);
        ok(rc == CTR_EDATA && !strncmp(err.what, "not a calibration map: ", 23) &&
               !strcmp(err.what + 23, refused[i].why) && !strcmp(err.file, path),
           "%s", err.what);
    }
    ctr_buf_free(&text);
}

/* A stream that is no map: a column is missing, or of another type. */
static void test_schemas(void)
{
    struct ctr_cal_map *m;
    for (int how = 0; how < 2; how++) {
        struct ctr_schema map = { 0 }, s = { 0 };
        struct ctr_batchbuf b = { 0 };
        must(ctr_cal_map_schema(&map, &err));
        for (int i = 0; i < map.n - !how; i++)
            must(ctr_schema_add(&s, map.f[i].name, i == map.n - 1 ? CTR_UTF8 : map.f[i].type, &err));
        must(ctr_batchbuf_init(&b, &s, &err));
        write_map(&s, ctr_batchbuf_view(&b));
        ok(ctr_cal_map_load(&m, path, &err) == CTR_EDATA &&
               strstr(err.what,
                      how ? "column value is not float64" : "it has no column value (ctr-calibrate --fit makes maps)"),
           "%s", err.what);
        ctr_batchbuf_free(&b);
        ctr_schema_free(&s);
        ctr_schema_free(&map);
    }
}

/* ---- taken ---- */

#define SLICES                                                                                                         \
    "- - isotonic-linear knot 0.25 0.5 - - isotonic-linear knot 0.75 1 "                                               \
    "site '' platt intercept - 0.5 site '' platt slope - 2 "                                                           \
    "site a power gamma - 1 site a power kappa - 1 "                                                                   \
    "site ab isotonic-constant knot 0 0 site ab isotonic-constant knot 0.5 0.25 site ab isotonic-constant knot 1 1 "   \
    "site - platt intercept - 0 site - platt slope - 1"

static void test_round_trip(void)
{
    struct ctr_buf text = { 0 };
    put_map(SLICES);
    int rc = rows_of(&text);
    ok(!rc && !strcmp((char *)text.data, "- - isotonic-linear knot 0.25 0.5 - - isotonic-linear knot 0.75 1 "
                                         "site  platt intercept - 0.5 site  platt slope - 2 "
                                         "site a power gamma - 1 site a power kappa - 1 "
                                         "site ab isotonic-constant knot 0 0 site ab isotonic-constant knot 0.5 0.25 "
                                         "site ab isotonic-constant knot 1 1 "
                                         "site - platt intercept - 0 site - platt slope - 1"),
       "a map by slices is written as it was read: %s", rc ? err.what : (char *)text.data);
    /* The same slices in any order. */
    put_map("- - platt slope - 1 - - platt intercept - 0 site - power kappa - 1 site - power gamma - 1 "
            "site b power gamma - 1 site b power kappa - 1 site a power gamma - 1 site a power kappa - 1");
    rc = rows_of(&text);
    ok(!rc && !strcmp((char *)text.data,
                      "- - platt intercept - 0 - - platt slope - 1 "
                      "site a power gamma - 1 site a power kappa - 1 site b power gamma - 1 site b power kappa - 1 "
                      "site - power gamma - 1 site - power kappa - 1"),
       "sorted by their text, null last");
    ctr_buf_free(&text);
}

static void test_apply(void)
{
    static const struct {
        const char *slice;
        double score, want;
    } cases[] = { { "none", 0, .5 }, { "none", .5, .75 }, { "none", 1, 1 },   { "a", .25, .25 }, { "a", 1, 1 },
                  { "ab", .25, 0 },  { "ab", .5, .25 },   { "ab", .99, .25 }, { "ab", 1, 1 },    { NULL, .5, .5 } };
    struct ctr_cal_map *m = NULL;
    put_map(SLICES);
    must(ctr_cal_map_load(&m, path, &err));
    for (size_t i = 0; i < CTR_COUNT(cases); i++) {
        const char *s = cases[i].slice;
        double v = ctr_cal_map_apply(m, ctr_cal_map_slice(m, s, s ? strlen(s) : 0), cases[i].score);
        ok(fabs(v - cases[i].want) < 1e-15, "%s at %g: %g", s ? s : "null", cases[i].score, v);
    }
    ok(ctr_cal_map_slice(m, "none", 4) == 0, "a slice without a map has the global one");
    ctr_cal_map_free(m);
}

/* Between any number of knots, and at each of them. */
static void test_knots(void)
{
    enum { KNOTS = 200 };
    static char text[KNOTS * 64];
    size_t n = 0;
    struct ctr_cal_map *m = NULL;
    int wrong = 0;
    for (int knots = 1; knots <= KNOTS; knots++) {
        const double k = knots - 1;
        n +=
            (size_t)snprintf(text + n, sizeof text - n, "- - isotonic-linear knot %.8f %.16f ", k / 256, k * k / 65536);
        if (knots > 20 && knots < KNOTS)
            continue;
        put_map(text);
        must(ctr_cal_map_load(&m, path, &err));
        for (int i = 0; i <= 2048; i++) {
            const double at = CTR_MIN(i / 8.0, k), low = floor(at);
            const double want = (low * low + (at - low) * (2 * low + 1)) / 65536;
            wrong += fabs(ctr_cal_map_apply(m, 0, i / 2048.0) - want) > 1e-15;
        }
        ctr_cal_map_free(m);
    }
    ok(!wrong, "between 1 to 20 knots, and %d: %d wrong", KNOTS, wrong);
    put_map(POWER);
    must(ctr_cal_map_load(&m, path, &err));
    ok(ctr_cal_map_apply(m, 0, 1) == 1 - 0x1p-52 && ctr_cal_map_apply(m, 0, .01) < .5 && ctr_cal_map_apply(m, 0, 0) > 0,
       "power ends short of 0 and 1");
    ctr_cal_map_free(m);
}

static void test_memory(void)
{
    struct ctr_buf text = { 0 };
    long n = 0, wrong = 0, leaks = 0;
    bool failed = ALLOC_WATCHED;
    put_map(SLICES);
    while (failed) {
        err = (struct ctr_err){ 0 };
        alloc_arm(++n);
        int rc = rows_of(&text);
        ctr_buf_free(&text);
        leaks += alloc_live != 0;
        failed = alloc_disarm();
        wrong += failed ? rc != CTR_ENOMEM && rc : rc;
    }
    ok(!wrong && !leaks, "%ld allocations failed one by one: %ld wrong, %ld leaks", n, wrong, leaks);
}

int main(void)
{
    fd = memfd_create("map", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    snprintf(to, sizeof to, "/dev/fd/%d", fd);
    test_refused();
    test_schemas();
    test_round_trip();
    test_apply();
    test_knots();
    test_memory();
    return done_testing();
}
