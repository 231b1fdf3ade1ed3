/* SPDX-License-Identifier: Apache-2.0
 *
 * The index of keys, judged by a plain map: growth, full lines that run on, dropped keys, visits in the order of keys,
 * memory. Every kernel gives what the plain search gives. */
#include "common/table/table.h"

#include <stdlib.h>

#include "tap.h"

/* ---- the plain map: pairs in the order of arrival, searched one by one ---- */

struct pair {
    uint64_t hash;
    uint32_t number;
};
struct map {
    struct pair *pair;
    uint64_t n;
};

static struct pair *map_find(const struct map *m, uint64_t hash)
{
    for (uint64_t i = 0; i < m->n; i++)
        if (m->pair[i].hash == hash)
            return &m->pair[i];
    return NULL;
}

static void map_put(struct map *m, uint64_t hash, uint32_t number)
{
    struct pair *p = map_find(m, hash);
    if (!p)
        p = &m->pair[m->n++];
    *p = (struct pair){ hash, number };
}

static bool odd(const void *ctx, uint32_t number)
{
    (void)ctx;
    return number % 2;
}

static void map_filter(struct map *m)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < m->n; i++)
        if (odd(NULL, m->pair[i].number))
            m->pair[n++] = m->pair[i];
    m->n = n;
}

/* ---- */

struct visited {
    const struct map *map;
    uint64_t n, last, calls;
    bool right;
};

static int visit(void *ctx, struct ctr_numbered *e, uint64_t n, struct ctr_err *err)
{
    struct visited *v = ctx;
    (void)err;
    v->calls++;
    for (uint64_t i = 0; i < n; i++, v->n++) {
        const struct pair *p = v->map ? map_find(v->map, ctr_key_hash(e[i].key)) : NULL;
        v->right &= (!v->n || e[i].key > v->last) && (!v->map || (p && p->number == e[i].number));
        v->last = e[i].key;
    }
    return 0;
}

/* Does the index hold what the map holds, and no other key? */
static bool same_as(const struct ctr_keyindex *t, const struct map *m)
{
    struct visited v = { .map = m, .right = true };
    struct ctr_err err = { 0 };
    uint64_t at = 0, hash, n = 0, line = 0;
    bool same = t->used == m->n && !ctr_keyindex_sorted(t, t->used, visit, &v, &err) && v.right && v.n == m->n;
    for (uint64_t i = 0; i < m->n; i++) {
        const uint32_t *number = ctr_keyindex_find(t, m->pair[i].hash);
        same &= number && *number == m->pair[i].number;
        same &= map_find(m, m->pair[i].hash + 1) || !ctr_keyindex_find(t, m->pair[i].hash + 1);
    }
    for (const uint32_t *number; (number = ctr_keyindex_next(t, &at, &hash)); n++) {
        const struct pair *p = map_find(m, hash);
        same &= p && p->number == *number;
    }
    for (; line < t->end; line++) /* a key's home, and all lines from there up to its own, are as the search needs */
        for (uint32_t j = 0; j < t->line[line].n; j++)
            for (const struct ctr_keyline *l = ctr_keyindex_home(t, t->line[line].hash[j]); l < t->line + line; l++)
                same &= l->n == CTR_KEYLINE_KEYS;
    return same && n == m->n && (!t->size || t->end < t->lines);
}

/* A hash: 0 among them, and some that all have their homes at the end of the index, so that full lines run on. */
static uint64_t some_hash(uint64_t round, uint64_t i)
{
    static uint64_t inverse; /* of the secret, modulo 2^64 */
    if (!inverse) {
        inverse = ctr_hash_secret;
        for (int k = 0; k < 6; k++)
            inverse *= 2 - ctr_hash_secret * inverse;
    }
    const uint64_t draw = ctr_random64(11, round, i);
    return draw % 97 == 0 ? 0 : draw % 5 == 0 ? (UINT64_MAX - draw % 4001) * inverse : ctr_mix64(draw % 3000);
}

static void test_model(void)
{
    enum { MOST = 4000 };
    struct ctr_err err = { 0 };
    struct map m = { malloc(MOST * sizeof *m.pair), 0 };
    bool same = m.pair, grows = false, over = false;
    int rc = 0;
    for (uint64_t round = 0; round < 24 && same && !rc; round++) {
        struct ctr_keyindex t = { .size = 0 };
        m.n = 0;
        same = !ctr_keyindex_find(&t, 0) && !ctr_keyindex_find(&t, 5) && same_as(&t, &m);
        const uint64_t block = 1 + round * round;
        for (uint64_t k = 0; m.n + block < 150 * round && k < 100000 && same && !rc; k += block) {
            rc = ctr_keyindex_reserve(&t, block, &err);
            const uint32_t *first = NULL;
            for (uint64_t i = k; i < k + block && !rc; i++) {
                const uint64_t h = some_hash(round, i);
                uint32_t *number = ctr_keyindex_get(&t, h);
                const struct pair *p = map_find(&m, h);
                same &= *number == (p ? p->number : 0);
                *number = (uint32_t)i + 1;
                map_put(&m, h, *number);
                first = i == k ? number : first;
            }
            same &= rc || first == ctr_keyindex_get(&t, some_hash(round, k)); /* they stay in place within a block */
            grows |= t.frontier > 0;
            over |= t.end > t.size;
            if (k / block % 200 == 199 && !rc && !(rc = ctr_keyindex_filter(&t, odd, NULL, &err)))
                map_filter(&m);
            if (k / block % 50 == 49)
                same &= same_as(&t, &m);
        }
        same &= same_as(&t, &m);
        ctr_keyindex_free(&t);
    }
    ok(!rc && same, "the index holds what a plain map holds, whatever was added and dropped");
    ok(grows && over, "also while it grows, and where full lines run over its end");
    free(m.pair);
}

/* The bound of the manual, at any moment; keys of several ranges in order. */
static void test_bytes(void)
{
    enum { KEYS = 1200000, BLOCK = 256 };
    struct ctr_keyindex t = { .size = 0 };
    struct ctr_err err = { 0 };
    double worst = 0;
    bool said = true, found = true;
    int rc = 0;
    for (uint64_t k = 0; k < KEYS && !rc; k += BLOCK) {
        const uint64_t after = ctr_keyindex_bytes_after(&t, BLOCK);
        rc = ctr_keyindex_reserve(&t, BLOCK, &err);
        said &= ctr_keyindex_bytes(&t) == after;
        for (uint64_t i = k; i < k + BLOCK && !rc; i++)
            *ctr_keyindex_get(&t, ctr_key_hash(i)) = (uint32_t)i + 1;
        if (t.used > 20000)
            worst = CTR_MAX(worst, (double)ctr_keyindex_bytes(&t) / (double)t.used);
    }
    for (uint64_t k = 0; k < t.used; k++) {
        const uint32_t *number = ctr_keyindex_find(&t, ctr_key_hash(k));
        found &= number && *number == k + 1;
    }
    struct visited v = { .right = true }, once = { .right = true };
    ok(!rc && found && said, "%llu keys, in the bytes that were said before", (unsigned long long)t.used);
    ok(!ctr_keyindex_sorted(&t, t.used, visit, &v, &err) && v.right && v.n == t.used &&
           !ctr_keyindex_sorted(&t, UINT32_MAX, visit, &once, &err) && once.right && once.n == t.used &&
           once.calls == 1,
       "sorted by key, in %llu ranges or in one", (unsigned long long)v.calls);
    ok(worst < CTR_KEYINDEX_SLACK * 1.03, "at most %.1f bytes a key at any moment (bound %.1f)", worst,
       CTR_KEYINDEX_SLACK);
    ctr_keyindex_free(&t);
}

/* Expected keys: few growths, and little room too much; fewer or more keys are no error. */
static void test_expected(void)
{
    enum { KEYS = 100000, BLOCK = 256 };
    const uint64_t expected[] = { KEYS, KEYS / 100, 10, 3 * KEYS };
    struct ctr_err err = { 0 };
    for (size_t e = 0; e < CTR_COUNT(expected); e++) {
        struct ctr_keyindex t = { .expected = expected[e] };
        uint64_t growths = 0, found = 0;
        bool said = true;
        int rc = 0;
        for (uint64_t k = 0; k < KEYS && !rc; k += BLOCK) {
            const uint64_t before = t.size, after = ctr_keyindex_bytes_after(&t, BLOCK);
            rc = ctr_keyindex_reserve(&t, BLOCK, &err);
            growths += t.size > before;
            said &= ctr_keyindex_bytes(&t) == after;
            for (uint64_t i = k; i < k + BLOCK && !rc; i++)
                *ctr_keyindex_get(&t, ctr_key_hash(i)) = (uint32_t)i + 1;
        }
        for (uint64_t k = 0; k < t.used; k++) {
            const uint32_t *number = ctr_keyindex_find(&t, ctr_key_hash(k));
            found += number && *number == k + 1;
        }
        const double bytes = (double)ctr_keyindex_bytes(&t) / (double)t.used;
        ok(!rc && said && found == t.used &&
               bytes < (expected[e] > KEYS    ? 60
                        : expected[e] == KEYS ? 18.5
                                              : 22.9) &&
               (expected[e] < KEYS || growths < 6),
           "%llu keys, %llu expected: %llu growths, %.1f bytes a key", (unsigned long long)t.used,
           (unsigned long long)expected[e], (unsigned long long)growths, bytes);
        ctr_keyindex_free(&t);
    }
}

/* ---- kernels ---- */

enum { INDEXES = 4, MOST = 64 };

static int make_indexes(struct ctr_keyindex *t, struct ctr_err *err)
{
    bool grows = false;
    int rc = 0;
    for (uint64_t i = 0; i < INDEXES; i++) {
        for (uint32_t k = 0; (k < 20000 || (i % 2 && !t[i].frontier)) && !rc; k++)
            if (!(rc = ctr_keyindex_reserve(&t[i], 1, err)))
                *ctr_keyindex_get(&t[i], ctr_key_hash(k)) = k + 7;
        grows |= t[i].frontier > 0;
    }
    ok(!rc && grows, "some of %d indexes are growing", INDEXES);
    return rc;
}

static void test_find(const struct ctr_keyindex *t, const struct ctr_keyindex_kernel *k)
{
    struct ctr_keyline *home[MOST];
    uint64_t key[MOST], h[MOST], near = 0, all = 0;
    uint32_t number[MOST];
    bool same = true;
    for (uint64_t round = 0; round < 1000; round++) {
        const struct ctr_keyindex *at = &t[round % INDEXES];
        const int n = (int)(round % (MOST + 1));
        for (int i = 0; i < n; i++) {
            key[i] = ctr_random64(5, round, (uint64_t)i) % 22000;
            h[i] = ctr_random64(6, round, (uint64_t)i) % 50 ? ctr_key_hash(key[i]) : 0;
        }
        k->homes(at, h, n, home);
        const uint64_t others = k->find(h, home, n, number);
        for (int i = 0; i < n; i++) {
            const bool here = h[i] && ctr_keyline_match(home[i], h[i]);
            same &= home[i] == ctr_keyindex_home(at, h[i]) && (others >> i & 1) == !here &&
                    (!here || number[i] == key[i] + 7);
            near += here;
        }
        same &= n == 64 || others >> n == 0;
        all += (uint64_t)n;
    }
    ok(same, "kernel %s: homes and numbers", k->name);
    ok(near > all / 2 && near < all, "of %llu keys %llu in their home lines", (unsigned long long)all,
       (unsigned long long)near);
}

static uint64_t collect(const struct ctr_keyindex *t, uint64_t first, uint64_t n, uint64_t low, uint64_t span,
                        struct ctr_numbered *e)
{
    uint64_t got = 0;
    for (const struct ctr_keyline *l = t->line + first; l < t->line + first + n; l++)
        for (uint32_t j = 0; j < l->n; j++) {
            const uint64_t key = ctr_key_unhash(l->hash[j]);
            if (key >= low && key - low <= span)
                e[got++] = (struct ctr_numbered){ key, l->number[j] };
        }
    return got;
}

/* Whatever the range and wherever it starts and ends. */
static void test_collect(const struct ctr_keyindex *t, const struct ctr_keyindex_kernel *k)
{
    struct ctr_numbered own[MOST * CTR_KEYLINE_KEYS + CTR_SORTED_SPARE], all[MOST * CTR_KEYLINE_KEYS];
    uint64_t found = 0;
    bool same = true;
    for (uint64_t round = 0; round < 2000; round++) {
        const struct ctr_keyindex *at = &t[round % INDEXES];
        const uint64_t lines = ctr_random64(8, round, 0) % (MOST + 1),
                       first = ctr_random64(8, round, 1) % (at->end - lines);
        const uint64_t low = round % 5 ? ctr_random64(8, round, 2) : 0,
                       span = round % 7 ? ~low >> round % 4 : UINT64_MAX - low;
        const uint64_t n = collect(at, first, lines, low, span, all);
        same &= k->collect(at, first, lines, low, span, own) == n && !memcmp(own, all, n * sizeof *all);
        found += n;
    }
    ok(same && found > 20000, "kernel %s: keys of ranges", k->name);
}

static void test_kernels(void)
{
    static struct ctr_keyindex t[INDEXES];
    struct ctr_err err = { 0 };
    const struct ctr_keyindex_kernel *k;
    int rc = make_indexes(t, &err);
    for (int j = 0; !rc && (k = ctr_keyindex_kernel_at(j)); j++)
        if (ctr_cpu_has((enum ctr_cpu)j)) {
            test_find(t, k);
            test_collect(t, k);
        }
    for (int i = 0; i < INDEXES; i++)
        ctr_keyindex_free(&t[i]);
}

/* ---- keys of states ---- */

static bool keep_none(const void *ctx, const uint8_t *row)
{
    (void)ctx;
    (void)row;
    return false;
}

static int meet(struct ctr_keys *t, struct ctr_states *s, uint64_t from, uint64_t to, struct ctr_err *err)
{
    int rc = 0;
    for (uint64_t h = from; h < to && !rc; h++) { /* 0 among them: the key outside the lines */
        uint8_t *row;
        if (!(rc = ctr_keys_get(t, s, ctr_mix64(h), &row, err)))
            row[CTR_STATE_AT]++;
    }
    return rc;
}

/* Keys that agree in the digits that tell others apart: a cluster, and one far away; and several ranges of them. */
struct order {
    const uint64_t *key; /* by number */
    uint64_t last, n;
    bool ascending, right;
};

static int in_order(void *ctx, struct ctr_numbered *e, uint64_t n, struct ctr_err *err)
{
    struct order *o = ctx;
    (void)err;
    for (uint64_t i = 0; i < n; i++) {
        o->ascending &= !o->n++ || e[i].key > o->last;
        o->right &= o->key[e[i].number] == e[i].key;
        o->last = e[i].key;
    }
    return 0;
}

static void test_order(uint64_t keys, uint64_t apart)
{
    struct ctr_keyindex t = { 0 };
    struct ctr_err err = { 0 };
    uint64_t *key = malloc(keys * sizeof *key), n = 0;
    struct order o = { .key = key, .ascending = true, .right = true };
    bool fits = key;
    for (uint64_t k = 0; k < keys && fits; k++) {
        const uint64_t x = (k % 40 == 39) * apart + ctr_random64(2, apart, k % 3) + k * (k % 40 ? 1 : 7919);
        fits = !ctr_keyindex_reserve(&t, 1, &err);
        const uint64_t before = t.used;
        uint32_t *number = fits ? ctr_keyindex_get(&t, ctr_key_hash(x)) : NULL;
        if (fits && t.used > before) {
            key[n] = x;
            *number = (uint32_t)n++;
        }
    }
    ok(fits && !ctr_keyindex_sorted(&t, t.used, in_order, &o, &err) && o.n == n && o.ascending && o.right,
       "%llu keys in clusters, and some %#llx apart, are sorted", (unsigned long long)n, (unsigned long long)apart);
    ctr_keyindex_free(&t);
    free(key);
}

/* Keys that run over the end when the index grows stay within its memory, however little room is asked for: here 40
 * keys whose home is always the last line. However many keys come at once, no search is long. */
static void test_end(void)
{
    struct ctr_keyindex t = { 0 };
    struct ctr_err err = { 0 };
    bool within = true, fits = true;
    uint64_t longest = 0;
    for (uint64_t k = 0; k < 40000 && fits; k++) {
        fits = ctr_keyindex_reserve(&t, 1, &err) == 0;
        if (fits)
            ctr_keyindex_get(&t, k < 40 ? UINT64_MAX - k : ctr_random64(1, 9, k));
        within &= t.end < t.lines;
    }
    ok(fits && within, "keys that run over the end have room there");
    ctr_keyindex_free(&t);
    for (uint64_t block = 1000, k = 0; block < 100000; block += block / 3) {
        fits &= ctr_keyindex_reserve(&t, block, &err) == 0;
        for (uint64_t i = 0; i < block; i++, k++) {
            const uint64_t h = ctr_key_hash(k);
            struct ctr_keyline *line = ctr_keyindex_home(&t, h), *const home = line;
            (void)ctr_keyindex_get(&t, h);
            (void)ctr_keyline_search(&line, h);
            longest = CTR_MAX(longest, (uint64_t)(line - home));
        }
    }
    ok(fits && longest < 400, "blocks that grow: the longest search took %llu lines", (unsigned long long)longest);
    ctr_keyindex_free(&t);
}

/* States of keys that were dropped are held, wait for keys that come, and are zeros then. */
static void test_dropped(void)
{
    enum { KEYS = 3000 };
    struct ctr_err err = { 0 };
    struct ctr_states s;
    struct ctr_keys t;
    ctr_states_init(&s, 16);
    ctr_keys_init(&t);
    int rc = meet(&t, &s, 0, KEYS, &err);
    ok(!rc && t.learned == KEYS && ctr_keys_bytes(&t, &s) == ctr_keyindex_bytes(&t.index) + KEYS * 16,
       "keys are registered");
    rc = rc ? rc : ctr_keys_filter(&t, &s, keep_none, NULL, &err);
    ok(!rc && t.learned == 0 && ctr_keys_bytes(&t, &s) >= KEYS * 16, "all are dropped; their states are held");
    const uint64_t given = s.given;
    rc = rc ? rc : meet(&t, &s, KEYS / 2, KEYS + KEYS / 2, &err);
    bool once = true;
    uint64_t at = 0, hash, n = 0;
    for (const uint8_t *row; !rc && (row = ctr_keys_row(&t, &s, &at, &hash)); n++)
        once &= row[CTR_STATE_AT] == 1;
    ok(!rc && once && n == KEYS && t.learned == KEYS && s.given == given, "as many others come: in their place, anew");
    ctr_keys_free(&t);
    ctr_states_free(&s);
}

int main(void)
{
    test_model();
    test_bytes();
    test_expected();
    test_kernels();
    test_order(50000, UINT64_C(1) << 63);
    test_order(50000, UINT64_C(1) << 55);
    test_order(50000, UINT64_C(1) << 30);
    test_order(1000000, UINT64_C(1) << 62);
    test_end();
    test_dropped();
    return done_testing();
}
