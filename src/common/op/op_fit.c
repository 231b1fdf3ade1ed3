/* SPDX-License-Identifier: Apache-2.0
 *
 * op_fit: the fitted operators vocab and quantiles, and the code shared by all fitted operators (keywords:
 * op_keywords.c). Invariants: a vocabulary is a set of 64-bit hashes of canonical texts (or of keys), each with text
 * and count; after finish only the entries to keep are in it, ordered by hash. Fitting is exact: memory grows with the
 * number of distinct values (vocab) or of values (quantiles).
 *
 * It has its own hash tables, because 26 columns of a log are looked up at once: a slot of the vocabulary has 8 bytes,
 * half a hash and an entry number; the set of a fitted one has buckets of a cache line without entries. */
#include "common/op/opfit.h"
#include "common/op/loop_scale.h"

#include <stdlib.h>

enum { COLD = 12 }; /* keys between prefetch and use */

static const char other_text[] = "(other)";
#define OTHER_TEXT ((const uint8_t *)other_text)
#define OTHER_LEN  ((int64_t)sizeof other_text - 1)

/* vocab(city, min=2) over a, b, a, null, c, b:
 *
 *     update   entries in order of arrival: a 2 rows, b 2, c 1; slots find them by hash
 *     finish   c has fewer than min rows and goes; entries are put in order of hash, so that neither the
 *              order of rows nor threads show in the file
 *     run      the text of an entry, or "(other)"
 *     keys     where the plan wants only keys (a feature), no text is made: a keyset holds the keys of the
 *              entries for the seed of the feature's table, and any other key becomes that of "(other)"
 *
 * A call has its state in `param`: a struct vocab, a struct quantiles. What all fitted operators do with theirs (take a
 * tile, finish, save and load as rows of a section) is a row of `fitted` below. */

/* ---- vocabulary: a hash table of values ---- */

static void keysets_free(struct vocab *v)
{
    while (v->sets) {
        struct keyset *next = v->sets->next;
        free(v->sets->slot);
        free(v->sets);
        v->sets = next;
    }
}

void ctr_vocab_free(void *p)
{
    struct vocab *v = p;

    keysets_free(v);
    pthread_mutex_destroy(&v->lock);
    ctr_buf_free(&v->texts);
    ctr_buf_free(&v->entries);
    ctr_buf_free(&v->slots);
    free(v);
}

static inline uint64_t slot_of(uint64_t hash, int64_t entry)
{
    return (hash & ~(uint64_t)UINT32_MAX) | (uint64_t)(entry + 1);
}

static inline struct entry *slot_entry(const struct vocab *v, uint64_t slot)
{
    return &v->entry[(slot & UINT32_MAX) - 1];
}

/* The first slot, from the hash's home on, that is free or whose entry has a hash with the same upper half. */
static inline uint64_t next_slot(const struct vocab *v, uint64_t hash, uint64_t i)
{
    while (v->slot[i] && (v->slot[i] ^ hash) >> 32)
        i = (i + 1) & v->mask;
    return i;
}

static inline uint64_t own_slot(const struct vocab *v, uint64_t hash)
{
    return next_slot(v, hash, ctr_hash_place(hash, v->mask));
}

/* Slot of the entry with that hash (and text, if given), or the free slot where it belongs. */
static uint64_t vocab_slot(const struct vocab *v, uint64_t hash, const struct opv_str *text)
{
    for (uint64_t i = ctr_hash_place(hash, v->mask);; i = (i + 1) & v->mask) {
        const struct entry *e;
        i = next_slot(v, hash, i);
        if (!v->slot[i])
            return i;
        e = slot_entry(v, v->slot[i]);
        if (e->hash == hash &&
            (!text || (e->n == text->n && (!e->n || !memcmp(v->texts.data + e->at, text->p, (size_t)e->n)))))
            return i;
    }
}

/* Build a table of `slots` (a power of 2) over the existing entries. */
static int vocab_index(struct vocab *v, uint64_t slots, struct ctr_err *err)
{
    size_t bytes = slots * sizeof *v->slot;
    int rc;

    ctr_buf_free(&v->slots);
    v->slot = NULL;
    if ((rc = ctr_buf_reserve(&v->slots, bytes, err)) < 0)
        return rc;
    v->slot = memset(v->slots.data, 0, bytes);
    v->mask = slots - 1;
    for (int64_t k = 0; k < v->n; k++) {
        uint64_t i = ctr_hash_place(v->entry[k].hash, v->mask);
        if (k + COLD < v->n)
            __builtin_prefetch(&v->slot[ctr_hash_place(v->entry[k + COLD].hash, v->mask)], 1);
        while (v->slot[i])
            i = (i + 1) & v->mask;
        v->slot[i] = slot_of(v->entry[k].hash, k);
    }
    return 0;
}

static int vocab_grow(struct vocab *v, struct ctr_err *err)
{
    int rc = 0;

    if (v->n >= UINT32_MAX - 1)
        return ctr_fail(err, CTR_ENOMEM, "vocab: more than 4 billion distinct values; hash_bits(x, bits) bounds them");
    v->entries.len = (size_t)v->n * sizeof *v->entry;
    if (v->entries.cap - v->entries.len < sizeof *v->entry) {
        rc = ctr_buf_reserve(&v->entries, sizeof *v->entry, err);
        v->entry = (struct entry *)v->entries.data;
    }
    if (rc == 0 && (!v->slot || (uint64_t)v->n * 4 >= (v->mask + 1) * 3))
        rc = vocab_index(v, v->slot ? (v->mask + 1) * 2 : 2048, err);
    return rc;
}

int ctr_vocab_add(struct vocab *v, uint64_t hash, struct opv_str text, uint64_t count, int64_t *entry,
                  struct ctr_err *err)
{
    int rc = vocab_grow(v, err);

    if (rc)
        return rc;
    uint64_t i = vocab_slot(v, hash, &text);
    if (v->slot[i]) {
        struct entry *e = slot_entry(v, v->slot[i]);
        e->count += count;
        *entry = e - v->entry;
        return 0;
    }
    *entry = v->n;
    v->entry[v->n] = (struct entry){ hash, count, v->texts.len, text.n };
    if ((rc = ctr_buf_append(&v->texts, text.p, (size_t)text.n, err)))
        return rc;
    v->slot[i] = slot_of(hash, v->n++);
    return 0;
}

static bool vocab_has(const struct vocab *v, uint64_t hash)
{
    return v->n && v->slot[vocab_slot(v, hash, NULL)];
}

int64_t ctr_vocab_find(const struct vocab *v, struct opv_str text)
{
    const uint64_t slot = v->n ? v->slot[vocab_slot(v, ctr_text_key(text.p, text.n, 0), &text)] : 0;
    return slot ? slot_entry(v, slot) - v->entry : -1;
}

/* Computes the hashes of a tile first; then prefetches slots, entries and texts in turn, which are mostly cache
 * misses. */
static int vocab_fit_tile(void *ctx, struct ctr_op_tile *t, struct ctr_err *err)
{
    struct vocab *v = ctx;
    const struct opv_str *a = t->in[0].v;
    uint64_t hash[CTR_OP_TILE + 3 * COLD], slot;
    int64_t entry;
    int rc = v->slot ? 0 : vocab_grow(v, err);

    for (int i = 0; i < t->n; i++)
        hash[i] = v->keys ? ((const uint64_t *)t->in[0].v)[i] : t->ok[i] ? ctr_text_key(a[i].p, a[i].n, 0) : 0;
    for (int i = t->n; i < t->n + 3 * COLD; i++)
        hash[i] = 0;
    for (int i = -3 * COLD; !rc && i < t->n; i++) {
        __builtin_prefetch(&v->slot[ctr_hash_place(hash[i + 3 * COLD], v->mask)]);
        if (i + 2 * COLD >= 0 && (slot = v->slot[own_slot(v, hash[i + 2 * COLD])]) != 0)
            __builtin_prefetch(slot_entry(v, slot), 1);
        if (i + COLD >= 0 && (slot = v->slot[own_slot(v, hash[i + COLD])]) != 0)
            __builtin_prefetch(v->texts.data + slot_entry(v, slot)->at);
        if (i >= 0 && t->ok[i])
            rc = ctr_vocab_add(v, hash[i], v->keys ? (struct opv_str){ NULL, 0 } : a[i], 1, &entry, err);
    }
    return rc;
}

/* ---- what stays ---- */

static int by_text(const struct vocab *v, const struct entry *a, const struct entry *b)
{
    int c = memcmp(v->texts.data + a->at, v->texts.data + b->at, (size_t)CTR_MIN(a->n, b->n));

    return c ? c : opv_cmp_i(a->n, b->n);
}

static int by_hash(const void *pa, const void *pb, void *v)
{
    const struct entry *a = pa, *b = pb;

    return a->hash != b->hash || !a->n || !b->n ? opv_cmp_u(a->hash, b->hash) : by_text(v, a, b);
}

/* The most frequent first; among equal counts the smaller hash, so that the order of rows does not matter. */
static int by_count(const void *pa, const void *pb, void *v)
{
    const struct entry *a = pa, *b = pb;

    return a->count != b->count ? opv_cmp_u(b->count, a->count) : by_hash(pa, pb, v);
}

/* Sort by hash; hashes are evenly distributed: into buckets by their leading bits, then each by comparison. */
static int sort_entries(struct vocab *v, struct ctr_err *err)
{
    enum { FEW = 16 };
    struct ctr_buf sorted = { 0 };
    struct entry *to;
    uint32_t *start;
    int bits = 1, rc;

    while (bits < 24 && v->n >> bits > 4)
        bits++;
    if (!(start = calloc(((size_t)1 << bits) + 1, sizeof *start)))
        return ctr_fail_nomem(err, ((size_t)1 << bits) * sizeof *start);
    if ((rc = ctr_buf_reserve(&sorted, (size_t)v->n * sizeof *to, err)) < 0) {
        free(start);
        return rc;
    }
    to = (struct entry *)sorted.data;
    for (int64_t k = 0; k < v->n; k++)
        start[(v->entry[k].hash >> (64 - bits)) + 1]++;
    for (int64_t b = 0; b < (int64_t)1 << bits; b++)
        start[b + 1] += start[b];
    for (int64_t k = 0; k < v->n; k++) /* start[b] becomes the end of bucket b */
        to[start[v->entry[k].hash >> (64 - bits)]++] = v->entry[k];
    for (int64_t b = 0, from = 0; b < (int64_t)1 << bits; from = start[b++]) {
        struct entry *e = to + from, x;
        int64_t n = start[b] - from, i;
        if (n > FEW)
            qsort_r(e, (size_t)n, sizeof *e, by_hash, v);
        for (int64_t k = 1; n <= FEW && k < n; k++) {
            x = e[k];
            for (i = k; i > 0 && by_hash(&x, &e[i - 1], v) < 0; i--)
                e[i] = e[i - 1];
            e[i] = x;
        }
    }
    free(start);
    ctr_buf_free(&v->entries);
    v->entries = sorted;
    v->entry = to;
    return 0;
}

/* Reorder the texts like their entries. */
static int sort_texts(struct vocab *v, struct ctr_err *err)
{
    struct ctr_buf texts = { 0 };
    int rc = 0;

    for (int64_t k = 0; !rc && k < v->n; k++) {
        struct entry *e = &v->entry[k];
        uint64_t at = texts.len;
        if (k + COLD < v->n)
            __builtin_prefetch(v->texts.data + v->entry[k + COLD].at);
        if (e->n)
            rc = ctr_buf_append(&texts, v->texts.data + e->at, (size_t)e->n, err);
        e->at = at;
    }
    ctr_buf_free(&v->texts);
    v->texts = texts;
    return rc;
}

int ctr_vocab_finish(void *state, struct ctr_err *err)
{
    struct vocab *v = state;
    int64_t n = 0;
    uint64_t slots = 64;
    int rc;

    for (int64_t k = 0; k < v->n; k++)
        if (v->entry[k].count >= (uint64_t)v->min)
            v->entry[n++] = v->entry[k];
    if (v->max && n > v->max) {
        qsort_r(v->entry, (size_t)n, sizeof *v->entry, by_count, v);
        n = v->max;
    }
    v->n = n;
    if ((n && (rc = sort_entries(v, err))) || (rc = sort_texts(v, err)))
        return rc;
    keysets_free(v);
    while (slots < (uint64_t)n * 2)
        slots *= 2;
    return vocab_index(v, slots, err);
}

/* ---- vocab: sets of keys ---- */

static void keyset_add(struct keyset *k, uint64_t key)
{
    uint64_t i = ctr_hash_place(key, k->mask) * 4;

    k->has_zero |= key == 0;
    while (k->slot[i] && k->slot[i] != key)
        i = (i + 1) & (k->mask * 4 + 3);
    k->slot[i] = key;
}

static int keyset_new(struct keyset **out, const struct vocab *v, uint64_t seed, struct ctr_err *err)
{
    uint64_t buckets = 16;
    struct keyset *k;

    while (buckets * 2 < (uint64_t)v->n + 1)
        buckets *= 2;
    k = malloc(sizeof *k);
    if (!k)
        return ctr_fail_nomem(err, sizeof *k);
    *k = (struct keyset){ .seed = seed, .mask = buckets - 1, .id = ctr_op_table_id() };
    k->slot = aligned_alloc(64, buckets * 4 * sizeof *k->slot);
    if (!k->slot) {
        free(k);
        return ctr_fail_nomem(err, buckets * 4 * sizeof *k->slot);
    }
    memset(k->slot, 0, buckets * 4 * sizeof *k->slot);
    k->other =
        v->keys ? ctr_mix64(ctr_text_key(OTHER_TEXT, OTHER_LEN, 0) ^ seed) : ctr_text_key(OTHER_TEXT, OTHER_LEN, seed);
    keyset_add(k, ctr_missing_key(seed)); /* nulls keep their key */
    for (int64_t i = 0; i < v->n; i++)
        keyset_add(k, v->keys ? ctr_mix64(v->entry[i].hash ^ seed)
                              : ctr_text_key(v->texts.data + v->entry[i].at, v->entry[i].n, seed));
    *out = k;
    return 0;
}

/* Is the key in a bucket after its home bucket, which is full? */
static bool keyset_beyond(const struct keyset *k, uint64_t key)
{
    uint64_t i = ctr_hash_place(key, k->mask) * 4 + 4;

    for (;; i++) {
        i &= k->mask * 4 + 3;
        if (!k->slot[i] || k->slot[i] == key)
            return k->slot[i] != 0;
    }
}

static int keyset_get(struct vocab *v, uint64_t seed, const struct keyset **out, struct ctr_err *err)
{
    struct keyset *k;
    int rc = 0;

    pthread_mutex_lock(&v->lock);
    for (k = v->sets; k && k->seed != seed; k = k->next)
        ;
    if (!k && !(rc = keyset_new(&k, v, seed, err))) {
        k->next = v->sets;
        v->sets = k;
    }
    pthread_mutex_unlock(&v->lock);
    *out = k;
    return rc;
}

/* Replace keys that are not in the set by that of "(other)". Large sets miss the cache, so prefetch well before. */
static void keyset_filter(const struct keyset *k, uint64_t *key, int64_t n)
{
    enum { AHEAD = 64 };

    for (int64_t i = 0; i < n; i++) {
        const uint64_t *b = &k->slot[ctr_hash_place(key[i], k->mask) * 4], x = key[i];
        uint64_t in = (uint64_t)(b[0] == x) | (uint64_t)(b[1] == x) | (uint64_t)(b[2] == x) | (uint64_t)(b[3] == x);
        if (i + AHEAD < n)
            __builtin_prefetch(&k->slot[ctr_hash_place(key[i + AHEAD], k->mask) * 4]);
        in &= (uint64_t)(x != 0) | k->has_zero;
        if (__builtin_expect(!in & (b[3] != 0), 0))
            in = keyset_beyond(k, x);
        in = 0 - in;
        key[i] = (x & in) | (k->other & ~in);
    }
}

/* ---- vocab: running ---- */

/* Keep texts whose hash is in the set of seed 0; replace the others by "(other)" in the lane. */
#define VOCAB_STR(t, i)      (((const struct opv_str *)(t)->in[0].v)[i])
#define VOCAB_MAX(t, i)      VOCAB_STR(t, i).n
#define VOCAB_WRITE(t, i, s) opv_put(s, VOCAB_STR(t, i).p, VOCAB_STR(t, i).n)
CTR_LOOP_TEXT(write_vocab, VOCAB_MAX, VOCAB_WRITE)

static int vocab_text(struct ctr_op_tile *t, struct ctr_err *err)
{
    const struct opv_str *a = t->in[0].v;
    struct ctr_op_tile known = *t;
    struct ctr_op_in in = t->in[0];
    struct opv_str str[CTR_OP_TILE];
    uint64_t key[CTR_OP_TILE], want[CTR_OP_TILE];
    const struct keyset *set;
    int rc = keyset_get((struct vocab *)t->param, 0, &set, err);

    if (rc)
        return rc;
    for (int i = 0; i < t->n; i++)
        want[i] = key[i] = t->ok[i] ? ctr_text_key(a[i].p, a[i].n, 0) : 0;
    keyset_filter(set, key, t->n);
    for (int i = 0; i < t->n; i++)
        str[i] = key[i] == want[i] ? a[i] : (struct opv_str){ OTHER_TEXT, OTHER_LEN };
    in.v = str;
    known.in = &in;
    return write_vocab->run(&known, err);
}
CTR_LOOP_HOST(loop_vocab_text, vocab_text, "asks a vocabulary, which lies in the memory of the host")

static int vocab_key(struct ctr_op_tile *t, struct ctr_err *err)
{
    const uint64_t *a = t->in[0].v;
    uint64_t *r = t->out, other = ctr_text_key(OTHER_TEXT, OTHER_LEN, 0);

    (void)err;
    for (int i = 0; i < t->n; i++)
        r[i] = vocab_has(t->param, a[i]) ? a[i] : other;
    return 0;
}
CTR_LOOP_HOST(loop_vocab_key, vocab_key, "asks a vocabulary, which lies in the memory of the host")

static bool positive(const struct ctr_value *v, int64_t *to)
{
    if (v)
        *to = v->kind == CTR_V_INT ? v->i : 0;
    return !v || *to > 0;
}

int ctr_vocab_new(struct vocab **out, struct ctr_err *err)
{
    struct vocab *v = *out = calloc(1, sizeof *v);

    if (!v)
        return ctr_fail_nomem(err, sizeof *v);
    pthread_mutex_init(&v->lock, NULL);
    v->min = 1;
    return 0;
}

static int prepare_vocab(struct ctr_op_call *call, struct ctr_op_state *s, struct ctr_err *err)
{
    struct vocab *v;
    int rc = ctr_vocab_new(&v, err);

    (void)call;
    if (rc)
        return rc;
    s->param = v;
    s->param_free = ctr_vocab_free;
    v->keys = s->in[0].lane == CTR_LANE_U64;
    if (!positive(s->named[0], &v->min) || !positive(s->named[1], &v->max))
        return ctr_fail(err, CTR_EUSAGE, "vocab wants integers of at least 1 for min and max");
    return 0;
}

/* ---- vocab: keys of features without the texts ---- */

static const struct ctr_op *vocab_op(void)
{
    return &ctr_ops_fit[0];
}

bool ctr_vocab_has_keys(const struct ctr_op_call *call)
{
    return call->op == vocab_op() && !call->arg[0].literal && !((const struct ctr_op_state *)call->state)->needs_fit;
}

bool ctr_vocab_set(const struct ctr_op_call *call, uint64_t seed, struct ctr_vocab_set *set, uint64_t *id)
{
    const struct ctr_op_state *s = call->state;
    const struct keyset *k;
    struct ctr_err ignored = { 0 };

    if (keyset_get(s->param, seed, &k, &ignored) < 0)
        return false;
    *set = (struct ctr_vocab_set){ k->slot,         k->mask,  (uint64_t)__builtin_clzll(k->mask),
                                   ctr_hash_secret, k->other, k->has_zero };
    *id = k->id;
    return true;
}

int ctr_vocab_keys(const struct ctr_op_call *call, const struct ctr_col *const *col, int64_t rows, uint64_t seed,
                   struct ctr_buf *memo, struct ctr_colbuf *out, struct ctr_err *err)
{
    struct ctr_op_state *s = call->state;
    const struct keyset *k;
    struct ctr_colbuf *b = out->item ? out->item : out;
    int rc = keyset_get(s->param, seed, &k, err);

    if (!rc)
        rc = ctr_op_keys(&call->arg[0].type, col[0], rows, seed, memo, out, err);
    if (!rc)
        keyset_filter(k, (uint64_t *)b->data.data, b->rows);
    return rc;
}

/* ---- quantiles ---- */

struct quantiles {
    int64_t n;             /* number of buckets */
    struct ctr_buf values; /* double: values seen while fitting */
    struct ctr_buf at;     /* double: thresholds, ascending */
};

static void quantiles_free(void *p)
{
    struct quantiles *q = p;

    ctr_buf_free(&q->values);
    ctr_buf_free(&q->at);
    free(q);
}

static int prepare_quantiles(struct ctr_op_call *call, struct ctr_op_state *s, struct ctr_err *err)
{
    struct quantiles *q = calloc(1, sizeof *q);

    if (!q)
        return ctr_fail_nomem(err, sizeof *q);
    s->param = q;
    s->param_free = quantiles_free;
    q->n = call->arg[1].literal->i;
    if (q->n < 2 || q->n > 65536)
        return ctr_fail(err, CTR_EUSAGE, "quantiles wants 2 to 65536 buckets");
    return 0;
}

static int run_quantiles(struct ctr_op_tile *t, struct ctr_err *err)
{
    const struct quantiles *q = t->param;
    const double *a = t->in[0].v, *at = (const void *)q->at.data;
    int64_t *r = t->out, n = (int64_t)(q->at.len / sizeof *at);

    (void)err;
    for (int i = 0; i < t->n; i++)
        r[i] = opv_bucket(a[i], at, n, &t->ok[i]);
    return 0;
}
CTR_LOOP_HOST(loop_quantiles, run_quantiles, "asks fitted thresholds, which lie in the memory of the host")

static int quantiles_fit_tile(void *ctx, struct ctr_op_tile *t, struct ctr_err *err)
{
    struct quantiles *q = ctx;
    const double *a = t->in[0].v;
    int rc = ctr_buf_reserve(&q->values, (size_t)t->n * sizeof *a, err);

    if (rc)
        return rc;
    for (int i = 0; i < t->n; i++)
        if (t->ok[i] && a[i] == a[i]) {
            memcpy(q->values.data + q->values.len, &a[i], sizeof *a);
            q->values.len += sizeof *a;
        }
    return 0;
}

/* Threshold i is the value of rank floor(i N / n); equal ones are merged. */
static int quantiles_finish(void *state, struct ctr_err *err)
{
    struct quantiles *q = state;
    double *v = (void *)q->values.data, last = 0;
    int64_t rows = (int64_t)(q->values.len / sizeof *v);
    int rc = 0;

    if (rows)
        qsort(v, (size_t)rows, sizeof *v, ctr_by_f64);
    for (int64_t i = 1; !rc && rows && i < q->n; i++) {
        double at = v[(int64_t)((__int128)i * rows / q->n)];
        if (q->at.len && at == last)
            continue;
        rc = ctr_buf_append(&q->at, &at, sizeof at, err);
        last = at;
    }
    ctr_buf_free(&q->values);
    return rc;
}

/* ---- states ---- */

int64_t ctr_vocab_memory(const void *state)
{
    const struct vocab *v = state;
    return (int64_t)(v->entries.cap + v->slots.cap + v->texts.cap);
}

int ctr_vocab_save(const void *state, struct ctr_batchbuf *rows, struct ctr_err *err)
{
    const struct vocab *v = state;
    int rc = 0;

    for (int64_t k = 0; !rc && k < v->n; k++) {
        const struct entry *e = &v->entry[k];
        struct ctr_append a = { rows->col, err, 0 };
        ctr_append_i64(&a, true, (int64_t)e->hash);
        ctr_append_str(&a, v->keys ? NULL : (const char *)v->texts.data + e->at, (size_t)e->n);
        ctr_append_i64(&a, true, (int64_t)e->count);
        rc = a.rc;
    }
    return rc;
}

int ctr_vocab_load(void *state, const struct ctr_batch *b, struct ctr_err *err)
{
    struct vocab *v = state;
    int64_t entry;
    const struct ctr_col *key = &b->col[0], *name = &b->col[1], *count = &b->col[2];
    int rc = 0;

    keysets_free(v);
    for (int64_t i = 0; !rc && i < b->rows; i++) {
        struct opv_str text = { NULL, 0 };
        uint64_t hash = (uint64_t)ctr_col_i64(key, i);
        if (ctr_col_missing(key, i) || ctr_col_missing(count, i) || ctr_col_missing(name, i) != v->keys)
            return ctr_fail(err, CTR_EDATA, "row %lld of a fitted vocab is not whole",
                            (long long)(b->first_row + i + 1));
        if (!v->keys) {
            struct ctr_str s = ctr_col_str(name, i);
            text = (struct opv_str){ (const uint8_t *)s.p, (int64_t)s.n };
            if (ctr_text_key(text.p, text.n, 0) != hash)
                return ctr_fail(err, CTR_EDATA, "row %lld of a fitted vocab: the key is not that of the name",
                                (long long)(b->first_row + i + 1));
        }
        rc = ctr_vocab_add(v, hash, text, (uint64_t)ctr_col_i64(count, i), &entry, err);
    }
    return rc;
}

static int64_t quantiles_memory(const void *state)
{
    const struct quantiles *q = state;
    return (int64_t)(q->values.cap + q->at.cap);
}

static int save_quantiles(const void *state, struct ctr_batchbuf *rows, struct ctr_err *err)
{
    const struct quantiles *q = state;
    int rc = 0;

    for (size_t i = 0; !rc && i < q->at.len / sizeof(double); i++)
        rc = ctr_colbuf_f64(&rows->col[0], ((const double *)(const void *)q->at.data)[i], err);
    return rc;
}

static int load_quantiles(void *state, const struct ctr_batch *b, struct ctr_err *err)
{
    struct quantiles *q = state;
    int rc = 0;

    for (int64_t i = 0; !rc && i < b->rows; i++) {
        double at = ctr_col_missing(&b->col[0], i) ? OPV_NAN : ctr_col_f64(&b->col[0], i);
        double last = q->at.len ? ((const double *)(const void *)q->at.data)[q->at.len / sizeof at - 1] : -OPV_INF;
        if (!(at > last) && !(at == last && !q->at.len))
            return ctr_fail(err, CTR_EDATA, "row %lld of fitted quantiles: the thresholds do not ascend",
                            (long long)(b->first_row + i + 1));
        rc = ctr_buf_append(&q->at, &at, sizeof at, err);
    }
    return rc;
}

static const struct ctr_fitted_column vocab_columns[] = { { "key", CTR_U64 },
                                                          { "name", CTR_UTF8 },
                                                          { "count", CTR_U64 } },
                                      quantiles_columns[] = { { "threshold", CTR_F64 } };
static const struct ctr_fitted fitted_vocab = {
    vocab_fit_tile, ctr_vocab_finish, ctr_vocab_memory, vocab_columns, 3, ctr_vocab_save, ctr_vocab_load,
};
static const struct ctr_fitted fitted_quantiles = {
    quantiles_fit_tile, quantiles_finish, quantiles_memory, quantiles_columns, 1, save_quantiles, load_quantiles,
};
/* In the order of ctr_ops_fit. */
static const struct ctr_fitted *const fitted[] = { &fitted_vocab,           &fitted_quantiles,  &ctr_fitted_keywords,
                                                   &ctr_fitted_standardize, &ctr_fitted_minmax, &ctr_fitted_log_scale };

/* ---- fitting, saving, loading ---- */

static bool is_vocab(const struct ctr_op_state *s)
{
    return s->op == vocab_op();
}

static const struct ctr_fitted *fitted_of(const struct ctr_op_call *call)
{
    return fitted[((const struct ctr_op_state *)call->state)->op - ctr_ops_fit];
}

static int fit_plain(struct ctr_op_call *call, const struct ctr_col *c, int64_t rows, struct ctr_err *err)
{
    struct ctr_op_state *s = call->state;
    const struct ctr_col *col[8] = { c };
    int64_t from = 0;

    if (s->lift) {
        col[0] = c->item;
        from = c->offsets ? c->offsets[0] : 0;
        rows = c->offsets ? c->offsets[rows] - from : rows * call->arg[0].type.width;
    }
    return ctr_op_tiles(call, col, from, rows, fitted_of(call)->tile, s->param, err);
}

int ctr_op_fit_update(struct ctr_op_call *call, const struct ctr_col *const *col, int64_t rows, struct ctr_err *err)
{
    struct ctr_field f = ctr_vtype_field(&call->arg[0].type);
    struct ctr_colbuf b;
    int rc;

    if (rows == 0 || !col[0])
        return 0;
    if (!col[0]->dict || !col[0]->dict->item)
        return fit_plain(call, col[0], rows, err);
    if ((rc = ctr_colbuf_init(&b, &f, err)))
        return rc;
    rc = ctr_colbuf_range(&b, col[0], 0, rows, err);
    if (!rc)
        rc = fit_plain(call, ctr_colbuf_view(&b), rows, err);
    ctr_colbuf_free(&b);
    return rc;
}

int ctr_op_fit_finish(struct ctr_op_call *call, struct ctr_err *err)
{
    struct ctr_op_state *s = call->state;
    int rc = fitted_of(call)->finish(s->param, err);

    if (!rc)
        s->needs_fit = false;
    return rc;
}

int64_t ctr_op_fit_memory(const struct ctr_op_call *call)
{
    return fitted_of(call)->memory(((const struct ctr_op_state *)call->state)->param);
}

static int64_t count_other_texts(const struct ctr_colbuf *b)
{
    const int32_t *off = (const int32_t *)(const void *)b->offsets.data;
    int64_t n = 0;

    for (int64_t i = 0; i < b->rows; i++)
        n += off[i + 1] - off[i] == OTHER_LEN && !memcmp(b->data.data + off[i], OTHER_TEXT, (size_t)OTHER_LEN);
    return n;
}

void ctr_op_fit_count(const struct ctr_op_call *call, const struct ctr_colbuf *out, const uint64_t *seed, int64_t *n,
                      int64_t *unknown)
{
    const struct ctr_op_state *s = call->state;
    const struct ctr_colbuf *b = out->item ? out->item : out;
    const uint64_t *key = (const uint64_t *)(const void *)b->data.data;

    if (!is_vocab(s))
        return;
    *n += b->rows - b->nulls;
    if (!seed && b->type == CTR_UTF8) {
        *unknown += count_other_texts(b);
        return;
    }
    const uint64_t plain = ctr_text_key(OTHER_TEXT, OTHER_LEN, 0), missing = seed ? ctr_missing_key(*seed) : 0;
    const uint64_t other = !seed                              ? plain
                           : ((struct vocab *)s->param)->keys ? ctr_mix64(plain ^ *seed)
                                                              : ctr_text_key(OTHER_TEXT, OTHER_LEN, *seed);
    for (int64_t i = 0; i < b->rows; i++) {
        *unknown += key[i] == other;
        *n -= seed && key[i] == missing;
    }
}

int ctr_op_fit_schema(const struct ctr_op_call *call, struct ctr_schema *s, struct ctr_err *err)
{
    const struct ctr_fitted *f = fitted_of(call);
    int rc = 0;

    for (int i = 0; !rc && i < f->columns; i++)
        rc = ctr_schema_add(s, f->column[i].name, f->column[i].type, err);
    return rc;
}

int ctr_op_fit_save(const struct ctr_op_call *call, struct ctr_batchbuf *rows, struct ctr_err *err)
{
    return fitted_of(call)->save(((const struct ctr_op_state *)call->state)->param, rows, err);
}

int ctr_op_fit_load(struct ctr_op_call *call, const struct ctr_batch *rows, struct ctr_err *err)
{
    const struct ctr_fitted *f = fitted_of(call);
    struct ctr_op_state *s = call->state;
    bool fits = rows->schema->n == f->columns;

    for (int i = 0; fits && i < f->columns; i++)
        fits = rows->schema->f[i].type == f->column[i].type;
    if (!fits)
        return ctr_fail(err, CTR_EDATA, "the fitted state of %s has other columns than it should", s->op->name);
    s->needs_fit = false;
    return f->load(s->param, rows, err);
}

CTR_LOOP_HOST(loop_keywords, ctr_keywords_loop, "asks fitted document frequencies, which lie in the memory of the host")

const struct ctr_op ctr_ops_fit[] = {
    { "vocab", "vocab(scalar, min=1, max=no limit) -> text (of a key: key)",
      "fitted: the value as text, \"(other)\" where fewer than min of it were seen, or where max others are more "
      "frequent; where x is a, a, b: vocab(x, min=2) is a, a, (other)",
      CTR_OP_LIFT | CTR_OP_FITTED, CTR_VARIANTS({ "k>k", loop_vocab_key }, { "x>t", loop_vocab_text }), "min,max",
      prepare_vocab },
    { "quantiles", "quantiles(x: number, n: int) -> int",
      "fitted: which of n buckets that held equally many values (equal values share one); where x is 1, 2, 3, 4: "
      "quantiles(x, 2) is 0, 0, 1, 1",
      CTR_OP_LIFT | CTR_OP_FITTED, CTR_VARIANTS({ "fi!>i", loop_quantiles }), NULL, prepare_quantiles },
    { "keywords", "keywords(list of texts, k=number, min=1) -> list of texts",
      "fitted: the k terms of highest tf-idf, the highest first; terms that fewer than min lists have are left out; "
      "where x is red box, red box, red hat: keywords(words(x), k=1) is [box], [box], [hat]",
      CTR_OP_FITTED, CTR_VARIANTS({ "[t>[t", loop_keywords }), "k,min", ctr_keywords_prepare },
    { "standardize", "standardize(x: number) -> float",
      "fitted: (x - mean) / standard deviation, 0 where all values were equal; NaN and infinities give null; where x "
      "is "
      "1, 3: standardize(x) is -1, 1",
      CTR_OP_LIFT | CTR_OP_FITTED, CTR_VARIANTS({ "f>f", loop_standardize }), NULL, ctr_scale_prepare },
    { "minmax", "minmax(x: number) -> float",
      "fitted: 0 at the lowest value and below, 1 at the highest and above, 0 where all were equal; NaN and infinities "
      "give null; where x is 2, 4, 6: minmax(x) is 0, 0.5, 1",
      CTR_OP_LIFT | CTR_OP_FITTED, CTR_VARIANTS({ "f>f", loop_minmax }), NULL, ctr_scale_prepare },
    { "log_scale", "log_scale(x: number) -> float",
      "fitted: standardize of the logarithm of 1 + |x|, with the sign of x, for counts and prices; where x is 0, 9: "
      "log_scale(x) is -1, 1",
      CTR_OP_LIFT | CTR_OP_FITTED, CTR_VARIANTS({ "f>f", loop_log_scale }), NULL, ctr_scale_prepare },
    { NULL },
};
