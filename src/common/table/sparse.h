/* SPDX-License-Identifier: Apache-2.0
 *
 * sparse: the table under every model: 64-bit keys -> a row of a few numbers, held inline.
 *
 * Open addressing with linear probing. A row's home is floor(s * size / 2^64), where s is h times a secret of the
 * process, modulo 2^64, so that no input can be made whose keys share a slot. It is monotone in s, so that the table
 * grows in place: the array is lengthened by a part, and runs of rows move up from its end, a few at every
 * ctr_sparse_reserve. A frontier says which rows have moved. No second array exists at any time, no call takes long,
 * and a growing table holds at most CTR_SPARSE_SLACK times its rows: an index <= 19.5 bytes a key.
 *
 * Rows never move between two calls of ctr_sparse_reserve: a caller that reserved room for the keys of a block of rows
 * may hold pointers to them through the whole block, and prefetch.
 */
#ifndef CTR_SPARSE_H
#define CTR_SPARSE_H

#include "common/base/base.h"

#define CTR_SPARSE_MAX_LOAD 0.78 /* of rows to slots when growth starts */
#define CTR_SPARSE_GROWTH   1.2  /* slots after it to slots before it */
#define CTR_SPARSE_SLACK    (CTR_SPARSE_GROWTH / CTR_SPARSE_MAX_LOAD)
/* The same of a dense table: fewer bytes, longer searches within a line or two. */
#define CTR_SPARSE_DENSE_LOAD   0.875
#define CTR_SPARSE_DENSE_GROWTH 1.125
#define CTR_SPARSE_DENSE_SLACK  (CTR_SPARSE_DENSE_GROWTH / CTR_SPARSE_DENSE_LOAD)
/* The same of an index, whose rows are small: they move less often. */
#define CTR_SPARSE_INDEX_LOAD   0.82
#define CTR_SPARSE_INDEX_GROWTH (4.0 / 3)
enum ctr_sparse_kind { CTR_SPARSE_ROWS, CTR_SPARSE_DENSE, CTR_SPARSE_INDEX };

/* Memory that grows in place where it can and is never copied: address space is reserved ahead, pages come with use. */
struct ctr_area {
    uint8_t *base;
    size_t bytes;              /* usable */
    size_t reserved;           /* of address space */
    size_t settled, to_settle; /* what ctr_area_settle has moved to huge pages, and is to move */
};
int ctr_area_grow(struct ctr_area *a, size_t bytes, struct ctr_err *err) CTR_MUST; /* new bytes are zero */
/* The same for what is written all over soon: pages come at once, unless that would take long, and not one by one when
 * they are first looked at. */
int ctr_area_fill(struct ctr_area *a, size_t bytes, struct ctr_err *err) CTR_MUST;
/* The same for what grows little by little: in huge pages, once it is large. */
int ctr_area_reserve(struct ctr_area *a, size_t bytes, struct ctr_err *err) CTR_MUST;
/* The same before it is needed, while others use what is there: nothing moves, and if it would
 * have to nothing is done. */
void ctr_area_ahead(struct ctr_area *a, size_t bytes);
/* Some of the pages that came one by one become huge ones, where that is possible: to be called again and again. */
void ctr_area_settle(struct ctr_area *a);
void ctr_area_free(struct ctr_area *a);

/* Hashes, not keys, stand in the rows: h = ctr_sparse_hash(key), a bijection. 0 marks an empty slot; the one key whose
 * hash it is has a row of its own. */
#define CTR_SPARSE_SALT 0x2545f4914f6cdd1du
static inline uint64_t ctr_sparse_hash(uint64_t key)
{
    return ctr_mix64(key ^ CTR_SPARSE_SALT);
}
static inline uint64_t ctr_sparse_key(uint64_t h) /* the inverse */
{
    const uint64_t inverse = 0xcfee444d8b59a89bu; /* of 0xd6e8feb86659fd93, modulo 2^64 */
    h ^= h >> 32;
    h *= inverse;
    h ^= h >> 32;
    h *= inverse;
    h ^= h >> 32;
    return h ^ CTR_SPARSE_SALT;
}

enum { CTR_SPARSE_MAX_STRIDE = 64 };

struct ctr_sparse {
    uint8_t *rows;     /* slots of `stride` bytes: uint64_t h, then the numbers */
    uint64_t size;     /* homes are below it */
    uint64_t old_size; /* while growing: homes of rows that have not moved yet are taken from it */
    uint64_t frontier; /* rows whose home by old_size is below it have not moved; 0: not growing */
    uint32_t stride;
    enum ctr_sparse_kind kind;
    bool has_zero;
    uint64_t used;  /* rows, the zero row included */
    uint64_t end;   /* no row lies at or after it */
    uint64_t slots; /* of usable memory; the last one stays empty */
    struct ctr_area area;
    struct ctr_buf run; /* rows on the move */
    _Alignas(16) uint8_t zero[CTR_SPARSE_MAX_STRIDE];
};

void ctr_sparse_init(struct ctr_sparse *t, uint32_t stride); /* a multiple of 4, 12 … CTR_SPARSE_MAX_STRIDE */
void ctr_sparse_init_dense(struct ctr_sparse *t, uint32_t stride);
void ctr_sparse_init_index(struct ctr_sparse *t); /* rows of CTR_SPARSE_NUMBERED bytes */
void ctr_sparse_free(struct ctr_sparse *t);

/* Make room for `extra` keys more, and carry a growth on. Pointers into the table are invalid afterwards. */
int ctr_sparse_reserve(struct ctr_sparse *t, uint64_t extra, struct ctr_err *err) CTR_MUST;
/* What --memory allows must not depend on the secret: rows on the move count as the usual number of them, and those of
 * a run over the end, a few, do not count. */
uint64_t ctr_sparse_bytes(const struct ctr_sparse *t);                       /* held now */
uint64_t ctr_sparse_bytes_after(const struct ctr_sparse *t, uint64_t extra); /* after such a reserve */

/* Below 2^32 slots the upper half of h is enough, and such products vectorise. Monotone in h and in size. */
static inline uint64_t ctr_sparse_scale(uint64_t h, uint64_t size)
{
    return size <= UINT32_MAX ? (h >> 32) * size >> 32 : (uint64_t)((unsigned __int128)h * size >> 64);
}
/* A home, of hashes that others may have chosen: of two of them it is the same for few secrets (base.h). */
static inline uint64_t ctr_sparse_secret(uint64_t h)
{
    return h * ctr_hash_secret;
}
static inline uint8_t *ctr_sparse_home(const struct ctr_sparse *t, uint64_t h)
{
    uint64_t at = ctr_sparse_scale(ctr_sparse_secret(h), t->size);
    if (t->frontier) {
        uint64_t before = ctr_sparse_scale(ctr_sparse_secret(h), t->old_size);
        at = before < t->frontier ? before : at;
    }
    return t->rows + at * t->stride;
}

static inline uint64_t ctr_sparse_row_hash(const uint8_t *row)
{
    uint64_t h;
    memcpy(&h, row, 8);
    return h;
}

/* Of rows of CTR_SPARSE_NUMBERED bytes: a number behind the hash. */
enum { CTR_SPARSE_NUMBERED = 12 };
static inline uint32_t ctr_sparse_row_number(const uint8_t *row)
{
    uint32_t number;
    memcpy(&number, row + 8, sizeof number);
    return number;
}

/* The row of h, or the empty one in which it would be put. `row` is its home, or lies between
 * that and where this ends. */
static inline uint8_t *ctr_sparse_place_from(const struct ctr_sparse *t, uint8_t *row, uint64_t h)
{
    for (uint64_t at; (at = ctr_sparse_row_hash(row)) != h && at;)
        row += t->stride;
    return row;
}

/* The row of h, or NULL. `row` is its home. */
static inline uint8_t *ctr_sparse_find_from(const struct ctr_sparse *t, uint8_t *row, uint64_t h)
{
    for (uint64_t at; (at = ctr_sparse_row_hash(row)) != h; row += t->stride)
        if (!at)
            return NULL;
    return h ? row : t->has_zero ? (uint8_t *)t->zero : NULL;
}
static inline uint8_t *ctr_sparse_find(const struct ctr_sparse *t, uint64_t h)
{
    return t->size ? ctr_sparse_find_from(t, ctr_sparse_home(t, h), h) : h || !t->has_zero ? NULL : (uint8_t *)t->zero;
}

uint8_t *ctr_sparse_add(struct ctr_sparse *t, uint8_t *empty, uint64_t h); /* the slow part of get: a new key */

/* The row of h, made with zeros when it is new; room must have been reserved. */
static inline uint8_t *ctr_sparse_get_from(struct ctr_sparse *t, uint8_t *row, uint64_t h)
{
    for (uint64_t at; (at = ctr_sparse_row_hash(row)) != h; row += t->stride)
        if (__builtin_expect(!at, 0))
            return ctr_sparse_add(t, row, h);
    return __builtin_expect(h != 0, 1) ? row : ctr_sparse_add(t, row, h);
}
static inline uint8_t *ctr_sparse_get(struct ctr_sparse *t, uint64_t h)
{
    return ctr_sparse_get_from(t, ctr_sparse_home(t, h), h);
}

/* Drop the rows for which `keep` is false; the others may move. */
int ctr_sparse_filter(struct ctr_sparse *t, bool (*keep)(const void *ctx, const uint8_t *row), const void *ctx,
                      struct ctr_err *err) CTR_MUST;

/* Every row once, in no defined order: *at starts with 0; NULL at the end. */
uint8_t *ctr_sparse_next(const struct ctr_sparse *t, uint64_t *at);

/* Rows sorted by key. Works in ranges, so that the order of a large table costs little memory: `each` gets the keys in
 * ascending order, with their rows. It may fail. */
typedef int ctr_sparse_each(void *ctx, uint64_t key, const uint8_t *row, struct ctr_err *err);
int ctr_sparse_sorted(const struct ctr_sparse *t, ctr_sparse_each *each, void *ctx, struct ctr_err *err) CTR_MUST;

/* The same of an index: of many keys at a time, which the callee may change. */
struct ctr_sparse_numbered {
    uint64_t key, number;
};
typedef int ctr_sparse_range(void *ctx, struct ctr_sparse_numbered *e, uint64_t n, struct ctr_err *err);
int ctr_sparse_sorted_numbers(const struct ctr_sparse *t, ctr_sparse_range *range, void *ctx,
                              struct ctr_err *err) CTR_MUST;

/* Vectorised loops over keys and their homes, for every instruction set the same. */
struct ctr_sparse_kernel {
    const char *name;
    void (*hash)(const uint64_t *restrict key, int64_t n, uint64_t *restrict h); /* ctr_sparse_hash */
    void (*homes)(const struct ctr_sparse *t, const uint64_t *restrict h, int64_t n, uint8_t **restrict home);
    /* Of an index: the numbers of k <= 64 hashes that stand at home or behind it; the bits of the others, and of hashes
     * of 0, are returned. Reads up to 12 bytes behind the row behind a home. */
    uint64_t (*find)(const uint64_t *restrict h, uint8_t *const *restrict home, int64_t k, uint32_t *restrict number);
    /* Of the slots from `first` on, those with keys in [low, low + span]: the keys, with the numbers of an index, else
     * the addresses of rows. e has room for all slots; returns how many there are. */
    uint64_t (*collect)(const struct ctr_sparse *t, uint64_t first, uint64_t slots, uint64_t low, uint64_t span,
                        struct ctr_sparse_numbered *e);
};
const struct ctr_sparse_kernel *ctr_sparse_kernel_at(int i); /* by enum ctr_cpu; NULL past the end */
const struct ctr_sparse_kernel *ctr_sparse_kernel_best(void);

#endif
