/* SPDX-License-Identifier: Apache-2.0
 *
 * unit-secret: what tables do with a secret that is known: two texts of one hash are told apart, not merged. And the
 * places that a secret gives to numbers that were chosen without it. */
#include "tools/ctr-calibrate/calibrate.h"
#include "tap.h"

#include <stdlib.h>

static struct ctr_err err;

static void must(int rc)
{
    if (rc < 0) {
        printf("Bail out! %s\n", err.what);
        exit(1);
    }
}

static char text[3][136]; /* two of one hash, and another one */
static struct ctr_schema schema;

static void make_rows(struct ctr_batchbuf *b, int a, int other, int rows)
{
    must(ctr_batchbuf_init(b, &schema, &err));
    for (int i = 0; i < rows; i++) {
        const char *s = text[i % 2 ? a : other];
        must(ctr_colbuf_f64(&b->col[0], i % 3 == 0, &err));
        must(ctr_colbuf_f64(&b->col[1], i / 50.0, &err));
        must(ctr_colbuf_str(&b->col[2], s, strlen(s), &err));
    }
}

static const struct ctr_metric_columns columns = { 0, -1, 1, -1, -1 };

static int evaluate(int a, int other, int64_t *slices)
{
    static const int by[] = { 2 };
    const struct ctr_eval_opts o = { .columns = columns, .by = by, .nby = 1 };
    struct ctr_batchbuf b = { 0 };
    struct ctr_eval *e;
    err = (struct ctr_err){ 0 };
    make_rows(&b, a, other, 40);
    must(ctr_eval_new(&e, &schema, &o, &err));
    int rc = ctr_eval_batch(e, ctr_batchbuf_view(&b), NULL, &err);
    if (!rc)
        rc = ctr_eval_finish(e, NULL, &err);
    *slices = rc ? 0 : ctr_eval_slices(e);
    ctr_eval_free(e);
    ctr_batchbuf_free(&b);
    return rc;
}

static int calibrate(int a, int other, struct ctr_cal_map **m)
{
    const struct ctr_cal_fit_opts o = { .columns = columns, .kind = CTR_CAL_PLATT, .by = 2, .min_rows = 1 };
    struct ctr_batchbuf b = { 0 };
    struct ctr_cal_fit *f;
    *m = NULL;
    err = (struct ctr_err){ 0 };
    make_rows(&b, a, other, 40);
    must(ctr_cal_fit_new(&f, &schema, &o, &err));
    int rc = ctr_cal_fit_batch(f, ctr_batchbuf_view(&b), &err);
    if (!rc)
        rc = ctr_cal_fit_finish(f, m, &err);
    ctr_cal_fit_free(f);
    ctr_batchbuf_free(&b);
    return rc;
}

static void test_texts(void)
{
    struct ctr_cal_map *m;
    int64_t slices;
    /* Of a block of XXH3 one half is multiplied by the other: 16 bytes that make one half 0, with this seed, free the
     * rest. */
    ctr_hash_secret = ctr_hash64("app_title_key", 13, 0);
    snprintf(text[0], sizeof text[0], "sport shoes of size 42, dark red");
    snprintf(text[1], sizeof text[1], "%032djtZTwpGA7QFRMNOH%080d", 0, 48608);
    snprintf(text[2], sizeof text[2], "another");
    ok(ctr_hash64(text[0], strlen(text[0]), ctr_hash_secret) == ctr_hash64(text[1], strlen(text[1]), ctr_hash_secret),
       "two texts of one hash");
    ok(!evaluate(0, 2, &slices) && slices == 3, "slices of two texts");
    ok(evaluate(0, 1, &slices) == CTR_EDATA && strstr(err.what, "the same hash"), "of one hash: %s", err.what);
    ok(!calibrate(0, 2, &m) && ctr_cal_map_slice(m, text[0], strlen(text[0])) > 0 &&
           ctr_cal_map_slice(m, text[2], strlen(text[2])) > 0 && !ctr_cal_map_slice(m, text[1], strlen(text[1])),
       "a map of two slices has none for a text that has the hash of one");
    ctr_cal_map_free(m);
    ok(calibrate(1, 0, &m) == CTR_EDATA && strstr(err.what, "the same hash"), "slices of one hash: %s", err.what);
}

/* Numbers in steps of any power of two, and sums of two such: how many share a place of 2^16, at most. */
static void test_places(void)
{
    enum { BITS = 16, N = 1 << BITS };
    static uint16_t at[N];
    int worst = 0;
    for (int secret = 0; secret < 20; secret++) {
        ctr_hash_secret = ctr_random64(1, 0, (uint64_t)secret) | 1;
        for (int shift = 0; shift <= 48; shift += 4) {
            memset(at, 0, sizeof at);
            for (uint64_t i = 0; i < N / 2; i++) {
                const int n = ++at[ctr_hash_place(i << shift, N - 1)];
                worst = n > worst ? n : worst;
            }
        }
    }
    ok(worst < 64, "of %d numbers in steps at most %d share a place", N / 2, worst);
}

int main(void)
{
    const uint64_t drawn = ctr_hash_secret;
    ok(drawn & 1 && drawn != 0x9e3779b97f4a7c15u, "a secret is drawn");
    must(ctr_schema_add(&schema, "y", CTR_F64, &err));
    must(ctr_schema_add(&schema, "p", CTR_F64, &err));
    must(ctr_schema_add(&schema, "site", CTR_UTF8, &err));
    test_texts();
    test_places();
    ctr_schema_free(&schema);
    return done_testing();
}
