/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs of keys whose weights and rates are added to sums: every kernel gives what ctr_weights_find tells of each key,
 * for any length of a run, of keys that are at home, elsewhere, nowhere, or whose numbers are 0. */
#include "common/table/table.h"

#include "tap.h"

enum { KEYS = 3000, ASKED = 2 * KEYS };

static uint64_t hash_of(uint64_t i) /* 0 among them, and many in few homes */
{
    return i % 5 ? ctr_key_hash(i) : i / 5;
}

static void fill(struct ctr_weight_tables *w)
{
    struct ctr_err err;
    bool put = !ctr_weights_tables(w, 2, &err);
    w->t[1].room = KEYS;
    put &= !ctr_weights_make(w, &err);
    for (uint64_t i = 0; i < KEYS && put; i++)
        put = !ctr_weights_put(w, 1, hash_of(2 * i), i % 7 != 3 ? (double)i - 1000.25 : 0,
                               i % 6 != 2 ? (float)(i + 1) / 3 : 0, (uint8_t)(i % 50), &err);
    ok(put, "keys are put");
    ctr_weights_made(w);
}

static uint64_t add_found(const struct ctr_weights_terms *s, bool rates)
{
    uint64_t absent = 0;
    for (int64_t i = 0; i < s->n; i++) {
        int place;
        const uint64_t *b = ctr_weights_find(s->t, ctr_weights_home(s->t, s->h[i]), s->h[i], rates, &place);
        s->weight[i] += b ? ctr_weights_weight(b, place, rates) : 0;
        if (rates)
            s->rate[i] += b ? ctr_weights_rate(b, place) : s->unseen_rate;
        absent |= (uint64_t)!b << i;
    }
    return absent;
}

/* Of one table, runs of all lengths one after another; sums before are not 0. */
static bool agrees(const struct ctr_weights_kernel *kernel, const struct ctr_weights *t, bool rates)
{
    uint64_t h[CTR_WEIGHTS_RUN];
    const uint64_t *home[CTR_WEIGHTS_RUN];
    double weight[CTR_WEIGHTS_RUN], rate[CTR_WEIGHTS_RUN], same_weight[CTR_WEIGHTS_RUN], same_rate[CTR_WEIGHTS_RUN];
    bool same = true;
    for (int64_t at = 0, n = 1; at + n <= ASKED && same; at += n, n = n % CTR_WEIGHTS_RUN + 1) {
        struct ctr_weights_terms s = { t, h, home, home, n, weight, rate, .625 };
        for (int64_t i = 0; i < n; i++) {
            h[i] = hash_of((uint64_t)(at + i));
            weight[i] = same_weight[i] = (double)i;
            rate[i] = same_rate[i] = (double)i / 2;
        }
        kernel->homes(t, h, n, home);
        for (int64_t i = 0; i < n; i++)
            same &= home[i] == ctr_weights_home(t, h[i]);
        const uint64_t absent = (rates ? kernel->add_rated : kernel->add)(&s);
        s.weight = same_weight;
        s.rate = same_rate;
        same &= absent == add_found(&s, rates);
        same &= !memcmp(weight, same_weight, (size_t)n * sizeof *weight) &&
                !memcmp(rate, same_rate, (size_t)n * sizeof *rate);
    }
    return same;
}

int main(void)
{
    for (int rates = 0; rates < 2; rates++) {
        struct ctr_weight_tables w = { .rates = rates };
        fill(&w);
        for (int i = 0; ctr_weights_kernel_at(i); i++)
            if (ctr_cpu_has((enum ctr_cpu)i))
                for (int t = 0; t < 2; t++)
                    ok(agrees(ctr_weights_kernel_at(i), &w.t[t], rates), "kernel %d: %s%s", i, t ? "keys" : "no keys",
                       rates ? ", rates" : "");
        ctr_weights_free(&w);
    }
    return done_testing();
}
