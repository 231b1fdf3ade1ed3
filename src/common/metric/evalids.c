/* SPDX-License-Identifier: Apache-2.0
 *
 * evalids: assigns ids 0, 1, … to values in order of first appearance. A hash map has all of them; a memo before it
 * finds most without hashing: small integers, texts of up to 15 bytes, dictionary entries. The memo of texts is its own
 * hash table: it is bounded, probes at most 8 slots, and compares texts of 16 bytes in registers.
 */
#include "common/metric/evalstate.h"

#include <stdlib.h>

/* ---- ids of hashes ---- */

uint64_t ctr_value_hash(const struct ctr_col *c, int64_t i)
{
    if (ctr_col_missing(c, i))
        return ctr_mix64(~ctr_mix64(ctr_hash_secret));
    if (c->type == CTR_UTF8)
        return ctr_col_hash(c, i, ctr_hash_secret);
    return ctr_mix64(ctr_keyvalue_bits(c, i) ^ ctr_hash_secret);
}

int ctr_idmap_next(struct ctr_idmap *m, uint32_t *id, struct ctr_err *err)
{
    if (m->n >= UINT32_MAX - 1)
        return ctr_fail(err, CTR_ENOMEM, "more than 4,294,967,293 different users or slices");
    *id = (uint32_t)m->n++;
    return 0;
}

int ctr_idmap_get(struct ctr_idmap *m, uint64_t hash, uint32_t *id, struct ctr_err *err)
{
    int rc = ctr_index_reserve(&m->index, err);
    if (rc)
        return rc;
    struct ctr_index_slot *s = ctr_idmap_slot(m, hash);
    if (s->number == CTR_INDEX_FREE) {
        uint32_t next = 0;
        if ((rc = ctr_idmap_next(m, &next, err)))
            return rc;
        *s = (struct ctr_index_slot){ hash, next };
        m->index.taken++;
    }
    *id = s->number;
    return 0;
}

void ctr_idmap_free(struct ctr_idmap *m)
{
    ctr_index_free(&m->index);
    m->n = 0;
}

int ctr_idtexts_add(struct ctr_idtexts *x, uint32_t id, struct ctr_str text, struct ctr_err *err)
{
    int64_t end = (int64_t)x->bytes.len;
    int rc = 0;
    while (!rc && x->end.len / sizeof end < id)
        rc = ctr_buf_append(&x->end, &end, sizeof end, err);
    if (!rc)
        rc = ctr_buf_append(&x->bytes, text.p, text.n, err);
    end = (int64_t)x->bytes.len;
    return rc ? rc : ctr_buf_append(&x->end, &end, sizeof end, err);
}

bool ctr_idtexts_same(const struct ctr_idtexts *x, uint32_t id, struct ctr_str text)
{
    const int64_t *end = (const int64_t *)(const void *)x->end.data;
    if (id >= x->end.len / sizeof *end)
        return false;
    const int64_t from = id ? end[id - 1] : 0;
    return end[id] - from == (int64_t)text.n && !memcmp(x->bytes.data + from, text.p, text.n);
}

void ctr_idtexts_free(struct ctr_idtexts *x)
{
    ctr_buf_free(&x->bytes);
    ctr_buf_free(&x->end);
}

/* ---- the memo ---- */

enum { SHORT = 15, PROBES = 8, FIRST_SLOTS = 1 << 10, MOST_SLOTS = 1 << 17 };

/* The bytes, zero padding, and the length in the last byte. */
struct text {
    uint64_t word[2];
};

/* Texts are stored contiguously in order of arrival, with slots of 4 bytes pointing to them: few cache lines. */
struct known {
    struct text text;
    uint64_t id;
};

void ctr_memo_free(struct ctr_memo *m)
{
    ctr_buf_free(&m->number);
    ctr_buf_free(&m->text);
    ctr_buf_free(&m->slot);
    ctr_buf_free(&m->entry);
}

int64_t ctr_memo_bytes(const struct ctr_memo *m)
{
    return (int64_t)(m->number.cap + m->text.cap + m->slot.cap + m->entry.cap);
}

/* Extend to `count` numbers of 32 bits with zeros. */
static int lengthen(struct ctr_buf *b, uint64_t count, struct ctr_err *err)
{
    size_t bytes = (size_t)count * sizeof(uint32_t);
    int rc = bytes > b->len ? ctr_buf_reserve(b, bytes - b->len, err) : 0;

    if (rc || bytes <= b->len)
        return rc;
    memset(b->data + b->len, 0, bytes - b->len);
    b->len = bytes;
    return 0;
}

int ctr_memo_batch(struct ctr_memo *m, const struct ctr_col *c, struct ctr_err *err)
{
    ctr_buf_clear(&m->entry);
    if (!c->dict || c->dict->rows > c->rows)
        return 0;
    return lengthen(&m->entry, (uint64_t)c->dict->rows, err);
}

/* Resolve a value's dictionary, if it has one. */
static inline const struct ctr_col *resolve(const struct ctr_col *c, int64_t *i)
{
    if (c->dict)
        *i = ((const int32_t *)c->data)[*i];
    return c->dict ? c->dict : c;
}

static inline uint64_t whole_number(const struct ctr_col *c, int64_t i)
{
    return c->type == CTR_I32   ? (uint64_t)((const int32_t *)c->data)[i]
           : c->type == CTR_I64 ? (uint64_t)((const int64_t *)c->data)[i]
                                : (uint64_t)ctr_col_i64(c, i);
}

/* The bytes at p as two words; `room`: 15 bytes after them are readable. Lengths vary from row to row, so there are no
 * branches on them. */
static inline struct text short_text(const char *p, uint32_t n, bool room)
{
    static const uint8_t ones[4 * sizeof(uint64_t)] = { 255, 255, 255, 255, 255, 255, 255, 255,
                                                        255, 255, 255, 255, 255, 255, 255, 255 };
    struct text to = { { 0, 0 } };
    uint64_t kept[2];

    memcpy(kept, ones + sizeof kept - n, sizeof kept);
    if (room)
        memcpy(&to, p, sizeof to);
    else
        memcpy(&to, p, n);
    to.word[0] &= kept[0];
    to.word[1] = (to.word[1] & kept[1]) | (uint64_t)n << 56;
    return to;
}

/* The first slot for a text, from the highest bits of a product, which depend on all others. */
static inline uint64_t slot_of(const struct text *t, uint64_t slots)
{
    uint64_t h = t->word[0] * 0x9e3779b97f4a7c15u + t->word[1] * 0xd6e8feb86659fd93u;

    return (uint64_t)((unsigned __int128)h * slots >> 64);
}

static inline uint32_t find_text(const struct known *known, const uint32_t *slot, const struct text *t)
{
    for (int k = 0; k < PROBES && slot[k]; k++) {
        const struct known *at = &known[slot[k] - 1];
        if (at->text.word[0] == t->word[0] && at->text.word[1] == t->word[1])
            return (uint32_t)at->id;
    }
    return UINT32_MAX;
}

static uint64_t slots(const struct ctr_memo *m)
{
    return m->slot.len ? m->slot.len / sizeof(uint32_t) - PROBES : 0;
}

/* Row by row, as learn_text sees them. */
static bool text_at(const struct ctr_col *c, int64_t i, struct text *to)
{
    struct ctr_str s;

    if (ctr_col_missing(c, i))
        return false;
    s = ctr_col_str(c, i);
    if (s.n > SHORT)
        return false;
    *to = short_text(s.p, (uint32_t)s.n, false);
    return true;
}

static void find_texts(const struct ctr_memo *m, const struct ctr_col *c, int64_t from, int64_t n, uint32_t *id)
{
    const struct known *known = (const struct known *)(const void *)m->text.data;
    const uint32_t *slot = (const uint32_t *)(const void *)m->slot.data, *at[CTR_MEMO_TILE];
    const uint64_t count = slots(m);
    struct text text[CTR_MEMO_TILE];

    memset(id, 0xff, (size_t)n * sizeof *id);
    if (!count)
        return;
    if (!c->valid && !c->dict && c->offsets[from + n - 1] + (int32_t)sizeof *text <= c->offsets[c->rows]) {
        const int32_t *offset = c->offsets + from;
        const char *data = c->data;
        for (int64_t k = 0; k < n; k++) { /* the common case */
            uint32_t length = (uint32_t)(offset[k + 1] - offset[k]);
            text[k] = short_text(data + offset[k], CTR_MIN(length, SHORT), true);
            at[k] = length > SHORT ? NULL : &slot[slot_of(&text[k], count)];
            __builtin_prefetch(at[k]);
        }
    } else {
        for (int64_t k = 0; k < n; k++)
            at[k] = text_at(c, from + k, &text[k]) ? &slot[slot_of(&text[k], count)] : NULL;
    }
    for (int64_t k = 0; k < n; k++)
        if (at[k])
            id[k] = find_text(known, at[k], &text[k]);
}

static void find_numbers(const struct ctr_memo *m, const struct ctr_col *c, int64_t from, int64_t n, uint32_t *id)
{
    const uint32_t *number = (const uint32_t *)(const void *)m->number.data;
    uint64_t value[CTR_MEMO_TILE], known = m->number.len / sizeof *number;

    if (c->type == CTR_I32 && !c->valid && !c->dict)
        for (int64_t k = 0; k < n; k++) /* the common case */
            value[k] = (uint64_t)((const int32_t *)c->data)[from + k];
    else
        for (int64_t k = 0; k < n; k++) {
            int64_t i = from + k;
            bool missing = ctr_col_missing(c, i);
            const struct ctr_col *in = missing ? c : resolve(c, &i);
            value[k] = missing ? UINT64_MAX : whole_number(in, i);
        }
    for (int64_t k = 0; k < n; k++)
        if (value[k] < known)
            __builtin_prefetch(&number[value[k]]);
    for (int64_t k = 0; k < n; k++)
        id[k] = value[k] < known ? number[value[k]] - 1 : UINT32_MAX; /* 0 - 1: also unknown */
}

static bool is_number(const struct ctr_col *c)
{
    return ctr_types[c->type].integer || c->type == CTR_BOOL;
}

static void find_values(const struct ctr_memo *m, const struct ctr_col *c, int64_t from, int64_t n, uint32_t *id)
{
    if (is_number(c))
        find_numbers(m, c, from, n, id);
    else if (c->type == CTR_UTF8)
        find_texts(m, c, from, n, id);
    else
        memset(id, 0xff, (size_t)n * sizeof *id);
}

static void find_entries(struct ctr_memo *m, const struct ctr_col *c, int64_t from, int64_t n, uint32_t *id)
{
    uint32_t *entry = (uint32_t *)(void *)m->entry.data;

    for (int64_t k = 0; k < n; k++) {
        uint32_t *at = ctr_col_missing(c, from + k) ? NULL : &entry[((const int32_t *)c->data)[from + k]];
        if (at && !*at) { /* new in this batch's dictionary */
            find_values(m, c, from + k, 1, &id[k]);
            *at = id[k] + 1;
        }
        id[k] = at ? *at - 1 : UINT32_MAX;
    }
}

bool ctr_memo_find(struct ctr_memo *m, const struct ctr_col *c, int64_t from, int64_t n, uint32_t *id)
{
    bool all = true;

    (m->entry.len ? find_entries(m, c, from, n, id) : find_values(m, c, from, n, id));
    for (int64_t k = 0; k < n; k++)
        all &= id[k] != UINT32_MAX;
    return all;
}

/* A place for a small number: small means in proportion to the number of ids. */
static int learn_number(struct ctr_memo *m, uint64_t value, uint32_t id, int64_t ids, bool *learnt, struct ctr_err *err)
{
    uint64_t limit = 8 * (uint64_t)ids + (1 << 16), have = m->number.len / sizeof id;
    int rc = 0;

    *learnt = value < CTR_MAX(limit, have);
    if (!*learnt || (value >= have && (rc = lengthen(&m->number, CTR_MAX(value + 1, have + have / 2), err))))
        return rc;
    ((uint32_t *)m->number.data)[value] = id + 1;
    return 0;
}

/* Take a slot for text number `at`; if all its slots are taken, it will not be found. */
static void take_slot(struct ctr_memo *m, uint32_t at)
{
    const struct known *known = (const struct known *)(const void *)m->text.data + at;
    uint32_t *slot = (uint32_t *)(void *)m->slot.data + slot_of(&known->text, slots(m));
    int k = 0;

    while (k < PROBES && slot[k])
        k++;
    if (k < PROBES)
        slot[k] = at + 1;
}

/* At most an eighth of the slots are used. Its size is limited, so that it stays in the cache. */
static int learn_text(struct ctr_memo *m, const struct text *text, uint32_t id, struct ctr_err *err)
{
    const struct known known = { *text, id };
    uint32_t texts = (uint32_t)(m->text.len / sizeof known);
    uint64_t more = slots(m) ? 2 * slots(m) : FIRST_SLOTS;
    int rc;

    if (8 * texts >= MOST_SLOTS)
        return 0;
    if (8 * texts >= slots(m)) {
        ctr_buf_clear(&m->slot);
        if ((rc = lengthen(&m->slot, more + PROBES, err)))
            return rc;
        for (uint32_t at = 0; at < texts; at++)
            take_slot(m, at);
    }
    if ((rc = ctr_buf_append(&m->text, &known, sizeof known, err)))
        return rc;
    take_slot(m, texts);
    return 0;
}

int ctr_memo_learn(struct ctr_memo *m, const struct ctr_col *c, int64_t i, uint32_t id, int64_t ids, bool *learnt,
                   struct ctr_err *err)
{
    struct text text;

    *learnt = false;
    if (ctr_col_missing(c, i))
        return 0;
    if (m->entry.len)
        ((uint32_t *)m->entry.data)[((const int32_t *)c->data)[i]] = id + 1;
    if (c->type == CTR_UTF8)
        return text_at(c, i, &text) ? learn_text(m, &text, id, err) : 0;
    c = resolve(c, &i);
    return is_number(c) ? learn_number(m, whole_number(c, i), id, ids, learnt, err) : 0;
}
