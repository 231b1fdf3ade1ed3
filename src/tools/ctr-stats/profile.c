/* SPDX-License-Identifier: Apache-2.0
 *
 * profile: the profile of a column: rows in, and other profiles. */
#include "tools/ctr-stats/profile.h"

#include <math.h>
#include <stdlib.h>

/* ---- values ---- */

enum { TEXT_MASK = (1 << 25) - 1, KEPT_MASK = 127, AHEAD = 128, NEXT = 12 };
static const uint64_t SIGN = UINT64_C(1) << 63, STIR = 0x9e3779b97f4a7c15u;

enum ctr_kind ctr_kind_of(enum ctr_type type)
{
    if (type == CTR_UTF8)
        return CTR_KIND_TEXT;
    if (type == CTR_TIME)
        return CTR_KIND_TIME;
    if (ctr_types[type].floating)
        return CTR_KIND_FLOAT;
    return ctr_types[type].integer && ctr_types[type].is_signed ? CTR_KIND_INT : CTR_KIND_UINT;
}

uint64_t ctr_text_key_long(const char *text, size_t bytes)
{
    return ctr_hash64(text, bytes, 0);
}

uint64_t ctr_kind_hash(enum ctr_kind kind, uint64_t key)
{
    return kind == CTR_KIND_TEXT ? key : ctr_mix64(key + STIR);
}

uint64_t ctr_kind_key(enum ctr_kind kind, uint64_t hash)
{
    if (kind == CTR_KIND_TEXT)
        return hash;
    const uint64_t factor = 0xd6e8feb86659fd93u;
    uint64_t inverse = factor; /* modulo 2^64, by Newton: right bits double, from 3 */
    for (int i = 0; i < 5; i++)
        inverse *= 2 - factor * inverse;
    hash = (hash ^ hash >> 32) * inverse;
    hash = (hash ^ hash >> 32) * inverse;
    return (hash ^ hash >> 32) - STIR;
}

static uint64_t bits_of(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static double double_of(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline uint64_t order_bits(uint64_t bits)
{
    return bits & SIGN ? ~bits : bits | SIGN;
}

static inline uint64_t unorder_bits(uint64_t order)
{
    return order & SIGN ? order ^ SIGN : ~order;
}

double ctr_kind_number(enum ctr_kind kind, uint64_t key)
{
    return kind == CTR_KIND_FLOAT ? double_of(key) : kind == CTR_KIND_UINT ? (double)key : (double)(int64_t)key;
}

bool ctr_kind_nan(enum ctr_kind kind, uint64_t key)
{
    return kind == CTR_KIND_FLOAT && isnan(double_of(key));
}

uint64_t ctr_kind_order(enum ctr_kind kind, uint64_t key)
{
    return kind == CTR_KIND_FLOAT ? order_bits(key) : kind == CTR_KIND_UINT ? key : key ^ SIGN;
}

uint64_t ctr_kind_unorder(enum ctr_kind kind, uint64_t order)
{
    return kind == CTR_KIND_FLOAT ? unorder_bits(order) : kind == CTR_KIND_UINT ? order : order ^ SIGN;
}

uint64_t ctr_kind_position(enum ctr_kind kind, uint64_t key)
{
    return kind == CTR_KIND_TIME ? key ^ SIGN : order_bits(bits_of(ctr_kind_number(kind, key) + 0.0));
}

double ctr_kind_at(enum ctr_kind kind, uint64_t position)
{
    if (kind == CTR_KIND_TIME)
        return (double)(int64_t)(position ^ SIGN);
    const double x = double_of(unorder_bits(position)); /* the end of the last bin is beyond the greatest double */
    return isnan(x) ? copysign(HUGE_VAL, x) : x;
}

/* ---- totals ---- */

static int compare_text(const char *a, size_t n, bool cut, const struct ctr_end *b)
{
    const int c = memcmp(a, b->text, CTR_MIN(n, b->n));
    return c ? c : n != b->n ? (n > b->n) - (n < b->n) : cut - b->cut;
}

static void set_text(struct ctr_end *e, const char *text, size_t n, bool cut)
{
    memcpy(e->text, text, n);
    e->n = (uint8_t)n;
    e->cut = cut;
}

static void put_text(struct ctr_totals *t, const char *text, size_t kept, size_t bytes, int64_t n)
{
    const bool cut = bytes > kept;
    t->zeros += bytes ? 0 : n;
    if (!t->ordered || compare_text(text, kept, cut, &t->min) < 0)
        set_text(&t->min, text, kept, cut);
    if (!t->ordered || compare_text(text, kept, cut, &t->max) > 0)
        set_text(&t->max, text, kept, cut);
    t->shortest = t->ordered ? CTR_MIN(t->shortest, (int64_t)bytes) : (int64_t)bytes;
    t->longest = CTR_MAX(t->longest, (int64_t)bytes);
    t->length += n * (int64_t)bytes;
    t->ordered += n;
}

static void put_order(struct ctr_totals *t, uint64_t order, int64_t n)
{
    t->min.order = t->ordered ? CTR_MIN(t->min.order, order) : order;
    t->max.order = t->ordered ? CTR_MAX(t->max.order, order) : order;
    t->ordered += n;
}

static void put_number(struct ctr_totals *t, enum ctr_kind kind, uint64_t key, int64_t n)
{
    if (ctr_kind_nan(kind, key)) {
        t->nan += n;
        return;
    }
    t->zeros += key ? 0 : n;
    put_order(t, ctr_kind_order(kind, key), n);
    if (kind != CTR_KIND_FLOAT) {
        const bool negative = kind != CTR_KIND_UINT && key & SIGN;
        ctr_exact_put_int(&t->sum, negative ? 0 - key : key, negative, n);
        ctr_exact_put_int_square(&t->squares, negative ? 0 - key : key, n);
        return;
    }
    const double x = double_of(key);
    t->plus_infinite += isinf(x) && x > 0 ? n : 0;
    t->minus_infinite += isinf(x) && x < 0 ? n : 0;
    if (isinf(x))
        return;
    ctr_exact_put_f64(&t->sum, x, n);
    if (isinf(x * x))
        t->huge += n;
    else
        ctr_exact_put_square(&t->squares, x, n);
}

static void merge_totals(struct ctr_totals *t, const struct ctr_totals *o, enum ctr_kind kind)
{
    const int64_t length = t->length + o->length, ordered = t->ordered + o->ordered;
    t->nan += o->nan;
    t->zeros += o->zeros;
    t->plus_infinite += o->plus_infinite;
    t->minus_infinite += o->minus_infinite;
    t->huge += o->huge;
    ctr_exact_add(&t->sum, &o->sum);
    ctr_exact_add(&t->squares, &o->squares);
    if (!o->ordered)
        return;
    if (kind != CTR_KIND_TEXT) {
        put_order(t, o->min.order, 1);
        put_order(t, o->max.order, 1);
    } else {
        if (!t->ordered || compare_text(o->min.text, o->min.n, o->min.cut, &t->min) < 0)
            t->min = o->min;
        if (!t->ordered || compare_text(o->max.text, o->max.n, o->max.cut, &t->max) > 0)
            t->max = o->max;
        t->shortest = t->ordered ? CTR_MIN(t->shortest, o->shortest) : o->shortest;
        t->longest = CTR_MAX(t->longest, o->longest);
    }
    t->length = length;
    t->ordered = ordered;
}

void ctr_profile_totals(const struct ctr_profile *p, struct ctr_totals *t)
{
    if (p->many) {
        *t = p->many->totals;
        return;
    }
    *t = (struct ctr_totals){ 0 };
    for (int64_t i = 0; i < p->table.cap; i++) {
        const struct ctr_value *v = &p->table.slot[i];
        if (v->n && p->kind == CTR_KIND_TEXT)
            put_text(t, ctr_value_text(&p->table, v), v->kept, v->bytes, v->n);
        else if (v->n)
            put_number(t, p->kind, v->key, v->n);
    }
}

/* What a column of 70,000 different prices goes through:
 *
 *     up to 65,536 values    `table` counts each (CTR_PROFILE_EXACT); totals are made from it when asked for
 *     the next one           ctr_profile_make_many: totals, bins and frequent values (heavy) take in all counts so far,
 *                            and the table becomes a sample: values whose hash is of a level, which rises until at
 *                            most 16,384 values are left
 *     each later row         goes to totals, bins and heavy; to the table only if its hash is of the level
 *
 * All values of a level are in the sample with all their rows, so 2^level times its size estimates the distinct values,
 * and two profiles merge exactly: the sample of the sum is that of the higher level. Bins work alike: one bit of
 * precision goes whenever there are more than CTR_PROFILE_BINS. */

/* ---- the table of values ---- */

/* Equal bytes, of more than 8? Most texts are short. */
static inline bool equal_bytes(const char *a, const char *b, size_t n)
{
    uint64_t x[4];
    if (n > 16)
        return !memcmp(a, b, n);
    memcpy(&x[0], a, 8);
    memcpy(&x[1], a + n - 8, 8);
    memcpy(&x[2], b, 8);
    memcpy(&x[3], b + n - 8, 8);
    return x[0] == x[2] && x[1] == x[3];
}

static inline bool same(const struct ctr_value_table *t, const struct ctr_value *a, const struct ctr_value *v,
                        const char *text)
{
    return a->key == v->key && (!text || (a->bytes == v->bytes && a->kept == v->kept &&
                                          (v->bytes <= 8 || equal_bytes(ctr_value_text(t, a), text, v->kept))));
}

/* The slot of a value, or a free one for it, from its place on; the table is not full. */
static inline struct ctr_value *find_from(const struct ctr_value_table *t, int64_t i, const struct ctr_value *v,
                                          const char *text)
{
    while (t->slot[i].n && !same(t, &t->slot[i], v, text))
        i = (i + 1) & (t->cap - 1);
    return &t->slot[i];
}

static inline struct ctr_value *find(const struct ctr_value_table *t, const struct ctr_value *v, const char *text)
{
    return find_from(t, (int64_t)ctr_hash_place(v->key, (uint64_t)t->cap - 1), v, text);
}

const struct ctr_value *ctr_value_find(const struct ctr_value_table *t, const struct ctr_value *v, const char *text)
{
    return t->cap ? find(t, v, text) : NULL;
}

/* Move the values of the level to a table of another size. */
static int rebuild(struct ctr_value_table *t, enum ctr_kind kind, int level, int64_t cap, struct ctr_err *err)
{
    struct ctr_value_table to = { .cap = cap, .level = level };
    int rc = ctr_buf_room(&to.room, cap, sizeof *to.slot, err);
    if (rc)
        return rc;
    memset(to.room.data, 0, (size_t)cap * sizeof *to.slot);
    to.slot = (struct ctr_value *)(void *)to.room.data;
    for (int64_t i = 0; !rc && i < t->cap; i++) {
        const struct ctr_value *v = &t->slot[i];
        if (!v->n || !ctr_sampled(ctr_kind_hash(kind, v->key), level))
            continue;
        const char *text = kind == CTR_KIND_TEXT ? ctr_value_text(t, v) : NULL;
        struct ctr_value *at = find(&to, v, text);
        *at = *v;
        at->text = (uint32_t)to.text.len & TEXT_MASK;
        to.n++;
        if (text)
            rc = ctr_buf_append(&to.text, text, v->kept, err);
    }
    if (rc) {
        ctr_buf_free(&to.room);
        ctr_buf_free(&to.text);
        return rc;
    }
    ctr_buf_free(&t->room);
    ctr_buf_free(&t->text);
    *t = to;
    return 0;
}

/* Room for n values more, at a load of at most three quarters. */
static int reserve(struct ctr_value_table *t, enum ctr_kind kind, int64_t n, struct ctr_err *err)
{
    int64_t cap = CTR_MAX(t->cap, 64);
    while (4 * (t->n + n) > 3 * cap)
        cap *= 2;
    return cap > t->cap ? rebuild(t, kind, t->level, cap, err) : 0;
}

/* Add to the count of a value, which has this slot. */
static inline int count_at(struct ctr_value_table *t, struct ctr_value *at, const struct ctr_value *v, const char *text,
                           struct ctr_err *err)
{
    if (at->n) {
        at->n += v->n;
        at->clicks += v->clicks;
        return 0;
    }
    *at = *v;
    at->text = (uint32_t)t->text.len & TEXT_MASK;
    t->n++;
    return text ? ctr_buf_append(&t->text, text, v->kept, err) : 0;
}

static inline int count(struct ctr_value_table *t, enum ctr_kind kind, const struct ctr_value *v, const char *text,
                        struct ctr_err *err)
{
    const int rc = reserve(t, kind, 1, err);
    return rc ? rc : count_at(t, find(t, v, text), v, text, err);
}

int ctr_value_insert(struct ctr_value_table *t, enum ctr_kind kind, const struct ctr_value *v, const char *text,
                     struct ctr_err *err)
{
    return count(t, kind, v, text, err);
}

static int next_levels(struct ctr_value_table *t, enum ctr_kind kind, int least, struct ctr_err *err)
{
    int rc = 0;
    if (least > t->level)
        rc = rebuild(t, kind, least, t->cap, err);
    while (!rc && t->n > CTR_PROFILE_SAMPLE && t->level < 63)
        rc = rebuild(t, kind, t->level + 1, t->cap, err);
    if (!rc && t->cap > 4 * CTR_PROFILE_SAMPLE)
        rc = rebuild(t, kind, t->level, (int64_t)2 * CTR_PROFILE_SAMPLE, err);
    return rc;
}

static inline int sample(struct ctr_value_table *t, enum ctr_kind kind, const struct ctr_value *v, const char *text,
                         struct ctr_err *err)
{
    if (!ctr_sampled(ctr_kind_hash(kind, v->key), t->level))
        return 0;
    const int rc = count(t, kind, v, text, err);
    return rc || t->n <= CTR_PROFILE_SAMPLE ? rc : next_levels(t, kind, 0, err);
}

/* ---- bins ---- */

static inline struct ctr_bin *find_bin(const struct ctr_bins *b, uint64_t at)
{
    const int64_t mask = b->cap - 1;
    int64_t i = (int64_t)ctr_hash_place(at, (uint64_t)mask);
    while (b->slot[i].n && b->slot[i].at != at)
        i = (i + 1) & mask;
    return &b->slot[i];
}

static int coarsen(struct ctr_bins *b, int shift, struct ctr_err *err)
{
    struct ctr_bins to = { .cap = (int64_t)2 * CTR_PROFILE_BINS, .shift = shift };
    to.slot = calloc((size_t)to.cap, sizeof *to.slot);
    if (!to.slot)
        return ctr_fail_nomem(err, (size_t)to.cap * sizeof *to.slot);
    for (int64_t i = 0; i < b->cap; i++) {
        if (!b->slot[i].n)
            continue;
        struct ctr_bin *at = find_bin(&to, b->slot[i].at >> (shift - b->shift));
        to.n += !at->n;
        at->at = b->slot[i].at >> (shift - b->shift);
        at->n += b->slot[i].n;
        at->clicks += b->slot[i].clicks;
    }
    free(b->slot);
    *b = to;
    return 0;
}

int ctr_bins_add(struct ctr_bins *b, const struct ctr_bin *bin, struct ctr_err *err)
{
    struct ctr_bin *at = find_bin(b, bin->at);
    if (!at->n) {
        at->at = bin->at;
        b->n++;
    }
    at->n += bin->n;
    at->clicks += bin->clicks;
    int rc = 0;
    while (!rc && b->n > CTR_PROFILE_BINS)
        rc = coarsen(b, b->shift + 1, err);
    return rc;
}

static int merge_bins(struct ctr_bins *b, const struct ctr_bins *o, struct ctr_err *err)
{
    int rc = o->shift > b->shift ? coarsen(b, o->shift, err) : 0;
    for (int64_t i = 0; !rc && i < o->cap; i++) {
        struct ctr_bin bin = o->slot[i];
        bin.at >>= b->shift - o->shift;
        if (bin.n)
            rc = ctr_bins_add(b, &bin, err);
    }
    return rc;
}

/* ---- many values ---- */

static void many_free(struct ctr_many *m)
{
    if (!m)
        return;
    free(m->bins.slot);
    ctr_heavy_free(m->heavy);
    ctr_heavy_free(m->clicks);
    free(m);
}

static int many_new(struct ctr_many **out, const struct ctr_profile *p, struct ctr_err *err)
{
    struct ctr_many *m = calloc(1, sizeof *m);
    if (!m)
        return ctr_fail_nomem(err, sizeof *m);
    int rc = ctr_heavy_new(&m->heavy, p->kind == CTR_KIND_TEXT ? CTR_HEAVY_CHUNKS : 0, err);
    if (!rc && p->labelled)
        rc = ctr_heavy_new(&m->clicks, 0, err);
    if (!rc && p->kind != CTR_KIND_TEXT)
        rc = coarsen(&m->bins, 0, err); /* makes the slots */
    if (rc)
        many_free(m);
    else
        *out = m;
    return rc;
}

/* Add a value with its rows to all but the sample. */
static int many_put(struct ctr_profile *p, const struct ctr_value *v, const char *text, struct ctr_err *err)
{
    struct ctr_many *m = p->many;
    const uint64_t hash = ctr_kind_hash(p->kind, v->key);
    ctr_heavy_add(m->heavy, hash, text, v->kept, v->n);
    if (m->clicks && v->clicks)
        ctr_heavy_add(m->clicks, hash, NULL, 0, (int64_t)v->clicks);
    if (text) {
        put_text(&m->totals, text, v->kept, v->bytes, v->n);
        return 0;
    }
    put_number(&m->totals, p->kind, v->key, v->n);
    if (ctr_kind_nan(p->kind, v->key))
        return 0;
    const struct ctr_bin bin = { ctr_kind_position(p->kind, v->key) >> m->bins.shift, v->n, v->clicks };
    return ctr_bins_add(&m->bins, &bin, err);
}

/* The least shift at which the numbers of the table take few enough bins: two neighbours share one when they differ
 * only in lower bits. */
static int first_shift(const struct ctr_profile *p, int *shift, struct ctr_err *err)
{
    int64_t n = 0, differ[65] = { 0 }, bins = 1;
    uint64_t *at = calloc((size_t)p->table.n + 1, sizeof *at);
    if (!at)
        return ctr_fail_nomem(err, (size_t)p->table.n * sizeof *at);
    for (int64_t i = 0; i < p->table.cap; i++)
        if (p->table.slot[i].n && !ctr_kind_nan(p->kind, p->table.slot[i].key))
            at[n++] = ctr_kind_position(p->kind, p->table.slot[i].key);
    qsort(at, (size_t)n, sizeof *at, ctr_by_u64);
    for (int64_t i = 1; i < n; i++)
        differ[at[i] == at[i - 1] ? 0 : 64 - __builtin_clzll(at[i] ^ at[i - 1])]++;
    free(at);
    for (*shift = 64; *shift > 0 && bins + differ[*shift] <= CTR_PROFILE_BINS; --*shift)
        bins += differ[*shift];
    return 0;
}

int ctr_profile_make_many(struct ctr_profile *p, struct ctr_err *err)
{
    int rc = many_new(&p->many, p, err);
    if (!rc && p->kind != CTR_KIND_TEXT)
        rc = first_shift(p, &p->many->bins.shift, err);
    for (int64_t i = 0; !rc && i < p->table.cap; i++) {
        const struct ctr_value *v = &p->table.slot[i];
        if (v->n)
            rc = many_put(p, v, p->kind == CTR_KIND_TEXT ? ctr_value_text(&p->table, v) : NULL, err);
    }
    return rc ? rc : next_levels(&p->table, p->kind, 0, err);
}

static int put_value(struct ctr_profile *p, const struct ctr_value *v, const char *text, struct ctr_err *err)
{
    int rc;
    if (!p->many) {
        rc = count(&p->table, p->kind, v, text, err);
        return rc || p->table.n <= CTR_PROFILE_EXACT ? rc : ctr_profile_make_many(p, err);
    }
    rc = sample(&p->table, p->kind, v, text, err);
    return rc ? rc : many_put(p, v, text, err);
}

/* ---- rows ---- */

static void block_integers(struct ctr_totals *t, enum ctr_kind kind, const struct ctr_block *b)
{
    unsigned __int128 low = 0, high = 0;
    __int128 sum = 0;
    uint64_t min = UINT64_MAX, max = 0;
    for (int64_t i = 0; i < b->n; i++) {
        const uint64_t key = b->key[i], order = ctr_kind_order(kind, key);
        const uint64_t m = kind != CTR_KIND_UINT && key & SIGN ? 0 - key : key;
        const unsigned __int128 square = (unsigned __int128)m * m;
        sum += kind == CTR_KIND_UINT ? (__int128)key : (__int128)(int64_t)key;
        low += (uint64_t)square;
        high += (uint64_t)(square >> 64);
        t->zeros += !key;
        min = CTR_MIN(min, order);
        max = CTR_MAX(max, order);
    }
    ctr_exact_put(&t->sum, (unsigned __int128)(sum < 0 ? -sum : sum), CTR_EXACT_POINT, sum < 0);
    ctr_exact_put(&t->squares, low, CTR_EXACT_POINT, false);
    ctr_exact_put(&t->squares, high, CTR_EXACT_POINT + 64, false);
    put_order(t, min, 1);
    put_order(t, max, b->n - 1);
}

static void block_floats(struct ctr_totals *t, const struct ctr_block *b, struct ctr_scratch *s)
{
    for (int64_t i = 0; i < b->n; i++) {
        const double x = double_of(b->key[i]), square = x * x;
        if (!(square <= 0x1.fffffffffffffp1023)) {
            put_number(t, CTR_KIND_FLOAT, b->key[i], 1);
            continue;
        }
        t->zeros += x == 0;
        put_order(t, order_bits(b->key[i]), 1);
        ctr_exact_block_put(&s->sum, x);
        ctr_exact_block_put(&s->square, square);
        ctr_exact_block_put(&s->rest, fma(x, x, -square));
    }
    ctr_exact_block_flush(&s->sum, &t->sum);
    ctr_exact_block_flush(&s->square, &t->squares);
    ctr_exact_block_flush(&s->rest, &t->squares);
}

/* Rows of one value each, of which there are many. */
static int many_block(struct ctr_profile *p, const struct ctr_block *b, struct ctr_scratch *s, struct ctr_err *err)
{
    struct ctr_many *m = p->many;
    int rc = 0;
    if (p->kind == CTR_KIND_FLOAT)
        block_floats(&m->totals, b, s);
    else if (p->kind != CTR_KIND_TEXT)
        block_integers(&m->totals, p->kind, b);
    for (int64_t i = 0; !rc && i < b->n; i++) {
        const struct ctr_str text = b->text ? b->text[i] : (struct ctr_str){ 0 };
        const size_t kept = b->text ? ctr_text_kept(text.p, text.n) : 0;
        const uint64_t hash = ctr_kind_hash(p->kind, b->key[i]), clicks = b->clicks ? b->clicks[i] : 0;
        if (i + NEXT < b->n)
            ctr_heavy_prefetch(m->heavy, ctr_kind_hash(p->kind, b->key[i + NEXT]));
        ctr_heavy_add(m->heavy, hash, text.p, kept, 1);
        if (clicks)
            ctr_heavy_add(m->clicks, hash, NULL, 0, (int64_t)clicks);
        if (b->text)
            put_text(&m->totals, text.p, kept, text.n, 1);
        if (ctr_sampled(hash, p->table.level)) {
            const struct ctr_value v = { b->key[i], 1, clicks, 0, kept & KEPT_MASK, (uint32_t)text.n };
            rc = sample(&p->table, p->kind, &v, b->text ? text.p : NULL, err);
        }
    }
    for (int64_t i = 0; !rc && !b->text && i < b->n; i++) {
        const struct ctr_bin bin = { ctr_kind_position(p->kind, b->key[i]) >> m->bins.shift, 1,
                                     b->clicks ? b->clicks[i] : 0 };
        if (!ctr_kind_nan(p->kind, b->key[i]))
            rc = ctr_bins_add(&m->bins, &bin, err);
    }
    return rc;
}

/* Rows of one value each, of which there are few so far: places first, so that their slots come into the cache. Returns
 * how many rows it took, fewer when the values become many, or an error. */
static int64_t exact_block(struct ctr_profile *p, const struct ctr_block *b, struct ctr_err *err)
{
    struct ctr_value_table *t = &p->table;
    uint32_t place[CTR_EXACT_BLOCK];
    int rc = reserve(t, p->kind, b->n, err);
    for (int64_t i = 0; !rc && i < b->n; i++) {
        for (int64_t k = i; i % AHEAD == 0 && k < CTR_MIN(i + AHEAD, b->n); k++) {
            place[k] = (uint32_t)ctr_hash_place(b->key[k], (uint64_t)t->cap - 1);
            __builtin_prefetch(&t->slot[place[k]]);
        }
        struct ctr_value *at = &t->slot[place[i]];
        if (at->n && at->key == b->key[i] && (!b->text || (at->bytes == b->text[i].n && at->bytes <= 8))) {
            at->n++; /* it is in its place, and equal by its key */
            at->clicks += b->clicks ? b->clicks[i] : 0;
            continue;
        }
        struct ctr_value v = { .key = b->key[i], .n = 1, .clicks = b->clicks ? b->clicks[i] : 0 };
        const char *text = NULL;
        if (b->text) {
            text = b->text[i].p;
            v.bytes = (uint32_t)b->text[i].n;
            v.kept = ctr_text_kept(text, v.bytes) & KEPT_MASK;
        }
        rc = count_at(t, find_from(t, place[i], &v, text), &v, text, err);
        if (!rc && t->n > CTR_PROFILE_EXACT) {
            rc = ctr_profile_make_many(p, err);
            return rc ? rc : i + 1;
        }
    }
    return rc ? rc : b->n;
}

static int add_weighted(struct ctr_profile *p, const struct ctr_block *b, struct ctr_err *err)
{
    int rc = 0;
    for (int64_t i = 0; !rc && i < b->n; i++) {
        struct ctr_value v = { .key = b->key[i], .n = b->rows[i], .clicks = b->clicks ? b->clicks[i] : 0 };
        if (b->text) {
            v.kept = ctr_text_kept(b->text[i].p, b->text[i].n) & KEPT_MASK;
            v.bytes = (uint32_t)b->text[i].n;
        }
        rc = put_value(p, &v, b->text ? b->text[i].p : NULL, err);
    }
    return rc;
}

int ctr_profile_add(struct ctr_profile *p, const struct ctr_block *b, struct ctr_scratch *s, struct ctr_err *err)
{
    int64_t i = 0;
    p->values += b->rows ? 0 : b->n;
    for (int64_t k = 0; b->rows && k < b->n; k++)
        p->values += b->rows[k];
    for (int64_t k = 0; b->clicks && k < b->n; k++)
        p->value_clicks += b->clicks[k];
    if (b->rows)
        return add_weighted(p, b, err);
    if (!p->many)
        i = exact_block(p, b, err);
    if (i < 0 || i == b->n)
        return (int)CTR_MIN(i, 0);
    const struct ctr_block left = { b->n - i, b->key + i, b->text ? b->text + i : NULL, NULL,
                                    b->clicks ? b->clicks + i : NULL };
    return many_block(p, &left, s, err);
}

/* ---- profiles ---- */

int ctr_profile_init(struct ctr_profile *p, const struct ctr_field *f, bool labelled, struct ctr_err *err)
{
    char type[64];
    const char *role = ctr_meta_get(&f->meta, CTR_META_ROLE);
    *p = (struct ctr_profile){ .list = ctr_type_list(f->type), .labelled = labelled };
    p->item = p->list ? f->item : f->type;
    p->kind = ctr_kind_of(p->item);
    int rc = ctr_strdup(&p->name, f->name, err);
    if (!rc)
        rc = ctr_strdup(&p->type, ctr_field_type_name(f, type, sizeof type), err);
    return rc || !role ? rc : ctr_strdup(&p->role, role, err);
}

void ctr_profile_free(struct ctr_profile *p)
{
    free(p->name);
    free(p->type);
    free(p->role);
    ctr_buf_free(&p->table.room);
    ctr_buf_free(&p->table.text);
    many_free(p->many);
    *p = (struct ctr_profile){ 0 };
}

static void merge_counts(struct ctr_profile *p, const struct ctr_profile *o)
{
    if (o->lists) {
        p->shortest = p->lists ? CTR_MIN(p->shortest, o->shortest) : o->shortest;
        p->longest = CTR_MAX(p->longest, o->longest);
    }
    p->rows += o->rows;
    p->nulls += o->nulls;
    p->clicks += o->clicks;
    p->null_clicks += o->null_clicks;
    p->lists += o->lists;
    p->items += o->items;
    p->null_items += o->null_items;
    p->values += o->values;
    p->value_clicks += o->value_clicks;
}

static int merge_many(struct ctr_profile *p, const struct ctr_many *o, struct ctr_err *err)
{
    struct ctr_many *m = p->many;
    merge_totals(&m->totals, &o->totals, p->kind);
    for (int i = 0; i < CTR_HEAVY_CELLS; i++) {
        ctr_heavy_cell_add(m->heavy, i, ctr_heavy_cell(o->heavy, i));
        if (m->clicks)
            ctr_heavy_cell_add(m->clicks, i, ctr_heavy_cell(o->clicks, i));
    }
    return p->kind == CTR_KIND_TEXT ? 0 : merge_bins(&m->bins, &o->bins, err);
}

int ctr_profile_merge(struct ctr_profile *p, const struct ctr_profile *o, struct ctr_err *err)
{
    int rc = 0;
    merge_counts(p, o);
    if (o->many && !p->many)
        rc = ctr_profile_make_many(p, err);
    if (!rc && o->many)
        rc = merge_many(p, o->many, err);
    if (!rc && o->many)
        rc = next_levels(&p->table, p->kind, o->table.level, err);
    for (int64_t i = 0; !rc && i < o->table.cap; i++) {
        const struct ctr_value *v = &o->table.slot[i];
        const char *text = p->kind == CTR_KIND_TEXT && v->n ? ctr_value_text(&o->table, v) : NULL;
        if (v->n)
            rc = o->many ? sample(&p->table, p->kind, v, text, err) : put_value(p, v, text, err);
    }
    return rc;
}
