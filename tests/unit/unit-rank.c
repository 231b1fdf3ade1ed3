/* SPDX-License-Identifier: Apache-2.0
 *
 * rank as a server uses it: one object, a request at a time, gives the rows that the whole stream gives; however the
 * stream is cut. And the normal distribution against libm's. */
#include "common/rows/rank_impl.h"
#include "tap.h"

#include <math.h>
#include <stdlib.h>

enum { ROWS = 400, REQUEST, ID = 1, SCORE, BID, UNCERTAINTY };

static struct ctr_err err;
static struct ctr_schema schema;
static struct ctr_batchbuf rows;

static void make_rows(void)
{
    static const char *const names[] = { "request", "ad", "score", "bid", "u" };
    static const enum ctr_type types[] = { CTR_I32, CTR_UTF8, CTR_F64, CTR_F32, CTR_F64 };
    int rc = 0;

    for (size_t i = 0; i < CTR_COUNT(names) && rc >= 0; i++)
        rc = ctr_schema_add(&schema, names[i], types[i], &err);
    rc = rc < 0 ? rc : ctr_batchbuf_init(&rows, &schema, &err);
    for (int i = 0; i < ROWS && !rc; i++) {
        char id[16];
        const int n = snprintf(id, sizeof id, "ad%d", i % 17);
        rc |= ctr_colbuf_i64(&rows.col[0], i / 13, &err);
        rc |= ctr_colbuf_str(&rows.col[1], id, (size_t)n, &err);
        rc |= ctr_colbuf_f64(&rows.col[2], floor(ctr_random01(1, 1, (uint64_t)i) * 20) / 20, &err);
        rc |= ctr_colbuf_f64(&rows.col[3], floor(ctr_random01(1, 2, (uint64_t)i) * 5), &err);
        rc |= ctr_colbuf_f64(&rows.col[4], ctr_random01(1, 3, (uint64_t)i), &err);
    }
    ok(!rc, "rows");
}

/* Take what is ready into a digest. */
static int take(struct ctr_rank *r, struct ctr_digest *d)
{
    const struct ctr_batch *b;
    int rc;

    while ((rc = ctr_rank_next(r, &b, &err)) > 0)
        if ((rc = ctr_digest_batch(d, b, &err)))
            return rc;
    return rc;
}

/* The digest of the result, of rows cut into batches of `batch`; 0: a request each, finished. */
static bool digest(const struct ctr_rank_opts *o, int batch, char out[33])
{
    struct ctr_rank *r = NULL;
    struct ctr_digest *d = NULL;
    struct ctr_part part = { 0 };
    int rc = ctr_rank_new(&r, &schema, o, &err);

    if (!rc)
        rc = ctr_digest_new(&d, ctr_rank_schema(r), &err);
    for (int from = 0, n; !rc && from < ROWS; from += n) {
        n = CTR_MIN(batch ? batch : 13, ROWS - from);
        rc = ctr_batch_part(&part, ctr_batchbuf_view(&rows), from, n, &err);
        if (!rc)
            rc = ctr_rank_batch(r, &part.batch, &err);
        if (!rc && !batch)
            rc = ctr_rank_finish(r, &err);
        if (!rc)
            rc = take(r, d);
    }
    if (!rc && batch)
        rc = ctr_rank_finish(r, &err);
    if (!rc)
        rc = take(r, d);
    if (!rc)
        ctr_digest_hex(d, out);
    else
        printf("# %s\n", err.what);
    ctr_part_free(&part);
    ctr_digest_free(d);
    ctr_rank_free(r);
    return !rc;
}

static void test_cuts(const char *what, struct ctr_rank_opts o)
{
    static const int batches[] = { 1, 7, 13, 100, 0 };
    char by[] = "request", *names[] = { by }, whole[33] = "", cut[33] = "";
    const struct ctr_strs strs = { .s = names, .n = 1 };

    o.by = &strs;
    o.id = ID;
    o.score = 2;
    o.uncertainty = 4;
    ok(digest(&o, ROWS, whole), "%s", what);
    for (size_t i = 0; i < CTR_COUNT(batches); i++)
        ok(digest(&o, batches[i], cut) && !strcmp(cut, whole), "%s: %s %d", what,
           batches[i] ? "the same in batches of" : "the same, a request at a time", batches[i]);
}

/* Without columns of a request all rows up to finish are one. */
static void test_one(void)
{
    const struct ctr_rank_opts o = { .score = 2, .id = ID, .uncertainty = -1, .top = 3 };
    struct ctr_rank *r = NULL;
    const struct ctr_batch *b;
    int rc = ctr_rank_new(&r, &schema, &o, &err), times = 0;

    for (int k = 0; !rc && k < 2; k++) {
        rc = ctr_rank_batch(r, ctr_batchbuf_view(&rows), &err);
        ok(!rc && !ctr_rank_next(r, &b, &err), "nothing comes before the end of the request");
        rc = rc ? rc : ctr_rank_finish(r, &err);
        while (!rc && ctr_rank_next(r, &b, &err) > 0)
            times += b->rows == 3 && ctr_col_i64(&b->col[5], 2) == 3;
    }
    ok(!rc && times == 2, "three rows come of each of two requests");
    ctr_rank_free(r);
}

static void test_normal(void)
{
    double off = 0, sum = 0, squares = 0;
    enum { DRAWS = 20000 };

    for (double x = -9; x <= 9; x += 1 / 64.)
        off = fmax(off, fabs(ctr_normal_share(x) - .5 * erfc(-x / sqrt(2))));
    ok(off < 1e-14, "the normal distribution is that of libm: %g", off);
    for (uint64_t i = 0; i < DRAWS; i++) {
        const double z = ctr_normal_draw(3, i);
        sum += z;
        squares += z * z;
    }
    ok(fabs(sum / DRAWS) < .03 && fabs(squares / DRAWS - 1) < .05, "draws have mean 0 and variance 1");
}

int main(void)
{
    make_rows();
    test_cuts("scores", (struct ctr_rank_opts){ 0 });
    test_cuts("prices",
              (struct ctr_rank_opts){ .bid = "bid", .price = CTR_PRICE_SECOND, .floor = "bid / 9", .top = 4 });
    test_cuts("thompson", (struct ctr_rank_opts){ .bid = "bid", .explore = CTR_EXPLORE_THOMPSON, .top = 3, .seed = 5 });
    test_cuts("epsilon", (struct ctr_rank_opts){ .explore = CTR_EXPLORE_EPSILON, .amount = .5, .seed = 5 });
    test_one();
    test_normal();
    ctr_batchbuf_free(&rows);
    ctr_schema_free(&schema);
    return done_testing();
}
