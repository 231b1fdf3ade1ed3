/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables that prediction reads: every key that was put is found with its numbers and no other is, whatever the
 * hashes, however many share a home, in whatever order of heat they came. */
#include "common/table/table.h"

#include "tap.h"

enum { KEYS = 5000 };

static uint64_t scattered(uint64_t i)
{
    return ctr_key_hash(i);
}

static uint64_t in_one_home(uint64_t i)
{
    return UINT64_MAX - i;
}

static uint64_t small(uint64_t i) /* 0 among them, which marks an empty place */
{
    return i;
}

static const double *find(const struct ctr_weight_tables *w, int table, uint64_t h, double *rate)
{
    int place;
    const struct ctr_weights *t = &w->t[table];
    const uint64_t *b = ctr_weights_find(t, ctr_weights_home(t, h), h, w->rates, &place);
    static double weight;
    if (!b)
        return NULL;
    *rate = w->rates ? ctr_weights_rate(b, place) : 0;
    weight = ctr_weights_weight(b, place, w->rates);
    return &weight;
}

/* Table 1 of three; 0 has one key and 2 none. */
static void test_table(bool rates, uint64_t (*hash)(uint64_t i), uint64_t keys, const char *name)
{
    struct ctr_weight_tables w = { .rates = rates };
    struct ctr_err err = { 0 };
    double rate = 0;
    bool put = !ctr_weights_tables(&w, 3, &err), found = true, absent = true;
    w.t[0].room = 1;
    w.t[1].room = keys;
    put &= !ctr_weights_make(&w, &err) && !ctr_weights_put(&w, 0, hash(0), -1, 2, 0, &err);
    for (uint64_t i = 0; i < keys && put; i++)
        put = !ctr_weights_put(&w, 1, hash(i), (double)i, (float)i / 2, (uint8_t)(i * 7 % 50), &err);
    for (uint64_t i = 0; i < keys && put; i += 3) /* once more: other numbers, no more room */
        put = !ctr_weights_put(&w, 1, hash(i), (double)i + .25, (float)i / 4, 99, &err);
    ok(put, "%s: keys are put", name);
    ok(ctr_weights_put(&w, 1, hash(keys), 0, 0, 0, &err) == CTR_EDATA, "%s: one more than there is room for is not",
       name);
    ctr_weights_made(&w);
    for (uint64_t i = 0; i < keys; i++) {
        const double *weight = find(&w, 1, hash(i), &rate);
        found &= weight && *weight == (double)i + (i % 3 ? 0 : .25) &&
                 (!rates || rate == (double)((float)i / (i % 3 ? 2 : 4)));
        absent &= !find(&w, 1, hash(i + keys), &rate) && !find(&w, 2, hash(i), &rate);
        absent &= i == 0 || !find(&w, 0, hash(i), &rate);
    }
    const double *one = find(&w, 0, hash(0), &rate);
    ok(found && one && *one == -1, "%s: and found", name);
    ok(absent, "%s: and no others", name);
    ctr_weights_free(&w);
}

int main(void)
{
    for (int rates = 0; rates < 2; rates++) {
        test_table(rates, scattered, KEYS, rates ? "rates" : "plain");
        test_table(rates, in_one_home, KEYS / 10, rates ? "rates, in one home" : "plain, in one home");
        test_table(rates, small, KEYS / 10, rates ? "rates, small" : "plain, small");
    }
    return done_testing();
}
