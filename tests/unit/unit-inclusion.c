/* SPDX-License-Identifier: Apache-2.0
 *
 * Inclusion of new keys: the filters never take a key up too late, seldom too early, forget what is old, and go on from
 * their saved state. */
#include "common/lr/inclusion.h"
#include "common/lr/lr.h"

#include <math.h>
#include <stdlib.h>

#include "common/table/table.h"
#include "tap.h"

static struct ctr_err err;

/* A table that holds nothing but what a rule took up. */
struct world {
    struct ctr_keyindex table;
    struct ctr_inclusion *n;
    int64_t row;
};

static struct world make(double poisson, int64_t bloom, int64_t bytes)
{
    struct world w = { 0 };
    struct ctr_params p = ctr_params_usual(&ctr_model_lr);
    p.lr.poisson = poisson;
    p.lr.bloom = bloom;
    p.lr.bloom_bytes = bytes;
    p.seed = 3;
    ok(!ctr_inclusion_new(&w.n, &p, &err) && w.n, "a rule: poisson %g, bloom %lld", poisson, (long long)bloom);
    return w;
}

static void drop(struct world *w)
{
    ctr_inclusion_free(w->n);
    ctr_keyindex_free(&w->table);
}

/* The key comes once more; is it held then? */
static bool come(struct world *w, uint64_t key)
{
    const uint64_t h = ctr_key_hash(key), before = w->table.used;
    if (ctr_keyindex_reserve(&w->table, 1, &err))
        return false;
    const int64_t row = w->row++;
    if (ctr_keyindex_find(&w->table, h))
        return true;
    if (ctr_inclusion_takes(w->n, row, ctr_inclusion_draw(w->n, 11, h)))
        ctr_keyindex_get(&w->table, h);
    return w->table.used > before;
}

static void test_bloom(int times)
{
    enum { KEYS = 100000 };
    struct world w = make(0, times, 16 << 20);
    int64_t early = 0, late = 0;
    for (int round = 1; round <= times + 1; round++)
        for (uint64_t k = 0; k < KEYS; k++) {
            bool in = come(&w, k);
            early += in && round <= times;
            late += !in && round > times;
        }
    ok(late == 0, "bloom=%d: every key is taken up when it comes again", times);
    ok(early < KEYS * times * 25 / 1000, "bloom=%d: few are too early: %lld of %d", times, (long long)early,
       KEYS * times);
    ok(llabs(ctr_inclusion_seen(w.n) - KEYS) < KEYS * 6 / 100, "an estimate of the keys: %lld",
       (long long)ctr_inclusion_seen(w.n));
    drop(&w);
}

static void test_forgetting(void)
{
    struct world w = make(0, 1, 64 << 10); /* 1024 lines: 2048 occurrences a generation */
    ok(!come(&w, 1), "a key comes once");
    for (uint64_t k = 100; k < 100 + 3 * 2048 - 200; k++)
        (void)come(&w, k);
    ok(come(&w, 1), "it is known when nearly three generations have passed");
    int64_t forgotten = 0;
    for (uint64_t k = 50000; k < 50200; k++)
        (void)come(&w, k);
    for (uint64_t k = 100000; k < 100000 + 5 * 2048; k++)
        (void)come(&w, k);
    for (uint64_t k = 50000; k < 50200; k++)
        forgotten += !come(&w, k);
    ok(forgotten > 180, "keys are forgotten after five: %lld of 200", (long long)forgotten);
    drop(&w);
}

static void test_poisson(void)
{
    enum { KEYS = 20000 };
    struct world w = make(0.1, 0, 4096);
    int64_t held[4] = { 0 };
    bool within = true;
    for (int round = 0; round < 4; round++)
        for (uint64_t k = 0; k < KEYS; k++)
            held[round] += come(&w, k);
    for (int round = 0; round < 4; round++) {
        double p = 1 - pow(0.9, round + 1), mean = p * KEYS, sd = sqrt(p * (1 - p) * KEYS);
        within &= fabs((double)held[round] - mean) < 4 * sd;
    }
    ok(within, "poisson=0.1: %lld, %lld, %lld, %lld of %d keys after 1 to 4 occurrences", (long long)held[0],
       (long long)held[1], (long long)held[2], (long long)held[3], KEYS);
    drop(&w);
}

static void test_state(int64_t bloom)
{
    struct world a = make(bloom ? 0 : 0.3, bloom, 64 << 10), b = make(bloom ? 0 : 0.3, bloom, 64 << 10);
    struct ctr_buf words = { 0 };
    for (uint64_t k = 0; k < 9000; k++)
        (void)come(&a, k % 5000);
    ctr_inclusion_end_pass(a.n); /* the pass is part of a draw, so it is part of the state */
    bool same = !ctr_inclusion_save(a.n, &words, &err);
    size_t n = words.len / 8;
    uint64_t *word = (uint64_t *)(void *)words.data;
    ok(ctr_inclusion_load(b.n, word, n - 1, &err) == CTR_EDATA && ctr_inclusion_load(b.n, word, 0, &err) == CTR_EDATA,
       "a state that is too short is damaged");
    word[1] += 4;
    ok(ctr_inclusion_load(b.n, word, n, &err) == CTR_EDATA, "so is a fifth generation");
    word[1] -= 4;
    same &= !ctr_inclusion_load(b.n, word, n, &err);
    b.row = a.row;
    ok(same && ctr_inclusion_refused(a.n) == ctr_inclusion_refused(b.n) &&
           ctr_inclusion_seen(a.n) == ctr_inclusion_seen(b.n),
       "a state, and back");
    for (uint64_t k = 4000; k < 20000; k++)
        if (!ctr_keyindex_find(&a.table, ctr_key_hash(k)))
            same &= come(&a, k) == come(&b, k);
        else
            b.row = ++a.row;
    ok(same, "the same decisions after it");
    ctr_buf_free(&words);
    drop(&a);
    drop(&b);
}

int main(void)
{
    test_bloom(1);
    test_bloom(2);
    test_bloom(15);
    test_forgetting();
    test_poisson();
    test_state(2);
    test_state(0);
    return done_testing();
}
