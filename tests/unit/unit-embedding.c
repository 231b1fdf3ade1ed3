/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of embeddings: rows keep number and content through growth, start from key and seed alone, cost what
 * embedding.h says at every moment, so that 100 million keys of 12 floats with Adam's state take less than 20 GB, and
 * no reserve takes long. CTR_EMBEDDING_KEYS sets how many keys. */
#include "common/table/table.h"

#include <stdlib.h>
#include <time.h>

#include "tap.h"

enum { WIDTH = 12, FLOATS = 3 * WIDTH, BLOCK = 1000 };

static double now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

/* Resident bytes of this process. */
static double resident(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    long pages = 0;
    if (f && fscanf(f, "%*d %ld", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return (double)pages * 4096;
}

static void test_growth(uint64_t n)
{
    struct ctr_embedding t;
    struct ctr_err err = { 0 };
    uint64_t hash[BLOCK];
    uint32_t row[BLOCK];
    double worst = 0, slowest = 0, before = resident();
    bool fits = true, numbered = true;
    ctr_embedding_init(&t, WIDTH, FLOATS, 7, 0.5F);
    for (uint64_t k = 0; k < n; k += BLOCK) {
        double start = now_ms();
        fits &= !ctr_embedding_reserve(&t, BLOCK, &err);
        slowest = CTR_MAX(slowest, now_ms() - start);
        for (uint64_t i = 0; i < BLOCK; i++)
            hash[i] = ctr_key_hash(k + i);
        ctr_embedding_get(&t, hash, BLOCK, row);
        for (uint64_t i = 0; i < BLOCK; i++) {
            numbered &= row[i] == k + i;
            ctr_embedding_row(&t, row[i])[FLOATS - 1] = (float)((k + i) % 1000);
        }
        if (k > n / 4) /* a small table holds a growth's scratch too */
            worst = CTR_MAX(worst, (double)ctr_embedding_bytes(&t) / (double)(k + BLOCK));
    }
    ok(fits && numbered, "%llu keys get rows in their order", (unsigned long long)n);
    const double bound = FLOATS * 4 + 23;
    ok(worst <= bound, "a row costs at most %.1f bytes at any moment, %d of them floats (bound %.1f)", worst,
       FLOATS * 4, bound);
    ok(CTR_EMBEDDING_OVERHEAD <= 23 && 1e8 * bound < 20e9, "so 100 million keys take %.1f GB at most",
       1e8 * bound / 1e9);
    ok(resident() - before < (double)n * bound * 1.05 + 32e6, "and the process holds no more: %.1f bytes a key",
       (resident() - before) / (double)n);
    ok(slowest < 50, "the slowest reserve of %d keys took %.2f ms of processor time", BLOCK, slowest);
    bool found = true, same = true;
    for (uint64_t k = 0; k < n; k += 97) {
        uint64_t h = ctr_key_hash(k);
        ctr_embedding_find(&t, &h, 1, row);
        found &= row[0] == k;
        same &= found && ctr_embedding_row(&t, row[0])[FLOATS - 1] == (float)(k % 1000);
    }
    uint64_t absent = ctr_key_hash(n + 5);
    ctr_embedding_find(&t, &absent, 1, row);
    ok(found && same && row[0] == CTR_EMBEDDING_NONE, "rows are found again with what was put into them");
    ctr_embedding_free(&t);
}

struct order {
    uint64_t last, n;
    bool ascending, same;
    const struct ctr_embedding *other;
};

static int each(void *ctx, uint64_t key, const float *row, struct ctr_err *err)
{
    struct order *o = ctx;
    uint64_t h = ctr_key_hash(key);
    uint32_t at;
    (void)err;
    o->ascending &= !o->n || key > o->last;
    o->last = key;
    o->n++;
    ctr_embedding_find(o->other, &h, 1, &at);
    o->same &= at != CTR_EMBEDDING_NONE && !memcmp(row, ctr_embedding_row(o->other, at), FLOATS * sizeof *row);
    return 0;
}

static void test_start(void)
{
    enum { N = 5000 };
    struct ctr_embedding a, b;
    struct ctr_err err = { 0 };
    uint32_t row;
    ctr_embedding_init(&a, WIDTH, FLOATS, 7, 0.5F);
    ctr_embedding_init(&b, WIDTH, FLOATS, 7, 0.5F);
    int rc = ctr_embedding_reserve(&a, N, &err);
    for (uint64_t i = 0; i < N && !rc; i++) {
        uint64_t h = ctr_key_hash(i), g = ctr_key_hash(N - 1 - i);
        ctr_embedding_get(&a, &h, 1, &row);
        if (!(rc = ctr_embedding_reserve(&b, 1, &err)))
            ctr_embedding_get(&b, &g, 1, &row);
    }
    struct order o = { .ascending = true, .same = true, .other = &b };
    rc = rc ? rc : ctr_embedding_sorted(&a, each, &o, &err);
    ok(!rc && o.n == N && o.ascending && o.same,
       "a row starts from its key, whatever came before it; visits go by key");
    double sum = 0, most = 0;
    int twins = 0;
    bool zeros = true;
    for (uint32_t i = 0; i < N; i++)
        for (int d = 0; d < FLOATS; d++) {
            double v = (double)ctr_embedding_row(&a, i)[d];
            sum += v;
            most = CTR_MAX(most, v < 0 ? -v : v);
            zeros &= d < WIDTH || v == 0;
            twins += d > 0 && d < WIDTH && ctr_embedding_row(&a, i)[d - 1] == ctr_embedding_row(&a, i)[d];
        }
    ok(zeros && most <= .5 && most > .49 && sum / (N * WIDTH) < .01 && sum / (N * WIDTH) > -.01,
       "values are uniform within the scale, state is 0");
    ok(twins < 10, "and other ones in each place: %d neighbours are equal", twins);
    float out[3 * FLOATS], back[2 * FLOATS];
    uint32_t rows[3] = { 7, CTR_EMBEDDING_NONE, 9 }, two[2] = { 9, 7 };
    const uint64_t hashes[3] = { 0, ctr_key_hash(1ULL << 60), 0 };
    ctr_embedding_gather(&a, rows, hashes, 3, FLOATS, out);
    ok(!memcmp(out, ctr_embedding_row(&a, 7), sizeof *out * FLOATS) &&
           !memcmp(out + 2 * FLOATS, ctr_embedding_row(&a, 9), sizeof *out * FLOATS),
       "gather copies rows");
    uint32_t made;
    ctr_embedding_find(&a, hashes + 1, 1, &made);
    ok(made == CTR_EMBEDDING_NONE && !ctr_embedding_reserve(&b, 1, &err), "of a key that no table has");
    ctr_embedding_get(&b, hashes + 1, 1, &made);
    ok(!memcmp(out + FLOATS, ctr_embedding_row(&b, made), sizeof *out * FLOATS), "it makes what a new row would have");
    memcpy(back, out, sizeof *out * FLOATS);
    memcpy(back + FLOATS, out + 2 * FLOATS, sizeof *out * FLOATS);
    ctr_embedding_scatter(&a, two, 2, FLOATS, back);
    ok(!memcmp(out, ctr_embedding_row(&a, 9), sizeof *out * FLOATS) &&
           !memcmp(out + 2 * FLOATS, ctr_embedding_row(&a, 7), sizeof *out * FLOATS),
       "scatter puts them back");
    ctr_embedding_free(&a);
    ctr_embedding_free(&b);
}

int main(void)
{
    const char *n = getenv("CTR_EMBEDDING_KEYS");
    test_start();
    test_growth(n ? strtoull(n, NULL, 10) / BLOCK * BLOCK : 1000000);
    return done_testing();
}
