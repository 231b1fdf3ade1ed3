/* SPDX-License-Identifier: Apache-2.0
 *
 * sparse: the table under every model: 64-bit keys -> a row of a few numbers, held inline.
 *
 * Open addressing with linear probing. A row's home is floor(s * size / 2^64), where s is h times a random number of
 * the process, modulo 2^64, so that nobody can craft keys that collide. The home is monotone in s, so the table grows
 * in place: it extends the array and moves runs of rows up from its end, a few per ctr_sparse_reserve. A frontier
 * separates moved from unmoved rows. Growth needs no second array and no long call, and a growing table holds at most
 * CTR_SPARSE_SLACK times its rows. Tables from keys to one number are index.h's, which are faster.
 *
 * Rows never move between two calls of ctr_sparse_reserve: a caller that has reserved room for the keys of a block of
 * rows may hold pointers to them for the whole block, and prefetch.
 */
#ifndef CTR_SPARSE_H
#define CTR_SPARSE_H

#include "common/table/sorted.h"

#define CTR_SPARSE_MAX_LOAD 0.78 /* rows / slots at which growth starts */
#define CTR_SPARSE_GROWTH   1.2  /* slots after growth / slots before it */
#define CTR_SPARSE_SLACK    (CTR_SPARSE_GROWTH / CTR_SPARSE_MAX_LOAD)
/* The same for a dense table: fewer bytes, longer searches, but within one or two cache lines. */
#define CTR_SPARSE_DENSE_LOAD   0.875
#define CTR_SPARSE_DENSE_GROWTH 1.125
#define CTR_SPARSE_DENSE_SLACK  (CTR_SPARSE_DENSE_GROWTH / CTR_SPARSE_DENSE_LOAD)
enum ctr_sparse_kind { CTR_SPARSE_ROWS, CTR_SPARSE_DENSE };

/* Memory that grows in place where possible and is never copied: address space is reserved ahead, pages are allocated
 * on use. */
struct ctr_area {
    uint8_t *base;
    size_t bytes;    /* usable */
    size_t reserved; /* of address space */
};
int ctr_area_grow(struct ctr_area *a, size_t bytes, struct ctr_err *err) CTR_MUST; /* new bytes are zero */
/* The same for memory that is soon written everywhere: allocates the pages at once, unless that takes long, instead of
 * one by one on first access. */
int ctr_area_fill(struct ctr_area *a, size_t bytes, struct ctr_err *err) CTR_MUST;
/* The same for memory that grows slowly: in huge pages once it is large. */
int ctr_area_reserve(struct ctr_area *a, size_t bytes, struct ctr_err *err) CTR_MUST;
/* Grow early, while other threads use the memory: nothing moves; if it would have to move, this does nothing. */
void ctr_area_ahead(struct ctr_area *a, size_t bytes);
/* Give memory back; if that fails, the area keeps it. */
void ctr_area_shrink(struct ctr_area *a, size_t bytes);
void ctr_area_free(struct ctr_area *a);

/* Rows store hashes instead of keys: h = ctr_sparse_hash(key), a bijection. 0 marks an empty slot; the one key with
 * hash 0 has a row outside the array. */
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
    uint64_t size;     /* number of homes */
    uint64_t old_size; /* while growing: the number of homes for rows not yet moved */
    uint64_t frontier; /* rows with a home (by old_size) below it have not moved; 0: not growing */
    uint32_t stride;
    enum ctr_sparse_kind kind;
    bool has_zero;
    uint64_t used;  /* rows, the zero row included */
    uint64_t end;   /* all rows lie before it */
    uint64_t slots; /* of usable memory; the last one stays empty */
    struct ctr_area area;
    struct ctr_buf run; /* rows being moved */
    _Alignas(16) uint8_t zero[CTR_SPARSE_MAX_STRIDE];
};

void ctr_sparse_init(struct ctr_sparse *t, uint32_t stride); /* a multiple of 4, 12 … CTR_SPARSE_MAX_STRIDE */
void ctr_sparse_init_dense(struct ctr_sparse *t, uint32_t stride);
void ctr_sparse_free(struct ctr_sparse *t);

/* Make room for `extra` more keys and continue a growth in progress. Pointers into the table are invalid afterwards. */
int ctr_sparse_reserve(struct ctr_sparse *t, uint64_t extra, struct ctr_err *err) CTR_MUST;
/* --memory must not depend on the random number: rows being moved count at their usual number, and the few rows past
 * the last home do not count. */
uint64_t ctr_sparse_bytes(const struct ctr_sparse *t);                       /* held now */
uint64_t ctr_sparse_bytes_after(const struct ctr_sparse *t, uint64_t extra); /* held after such a reserve */

/* Below 2^32 slots the upper half of h suffices, and this product vectorises. Monotone in h and in size. */
static inline uint64_t ctr_sparse_scale(uint64_t h, uint64_t size)
{
    return size <= UINT32_MAX ? (h >> 32) * size >> 32 : (uint64_t)((unsigned __int128)h * size >> 64);
}
/* Homes use this product, because input may be crafted: two hashes share a home for few secrets (base.h). */
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

/* For rows of CTR_SPARSE_NUMBERED bytes: the number after the hash. */
enum { CTR_SPARSE_NUMBERED = 12 };
static inline uint32_t ctr_sparse_row_number(const uint8_t *row)
{
    uint32_t number;
    memcpy(&number, row + 8, sizeof number);
    return number;
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

uint8_t *ctr_sparse_add(struct ctr_sparse *t, uint8_t *empty, uint64_t h); /* slow path of get: inserts a new key */

/* The row of h, inserted with zeros if new; room must have been reserved. */
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

/* Rows sorted by key. Sorts ranges of keys, so that it needs little memory: `each` gets the keys in ascending order,
 * with their rows. `each` may fail. */
typedef int ctr_sparse_each(void *ctx, uint64_t key, const uint8_t *row, struct ctr_err *err);
int ctr_sparse_sorted(const struct ctr_sparse *t, ctr_sparse_each *each, void *ctx, struct ctr_err *err) CTR_MUST;

/* Vectorised; all instruction sets give the same result. */
struct ctr_sparse_kernel {
    const char *name;
    void (*hash)(const uint64_t *restrict key, int64_t n, uint64_t *restrict h); /* ctr_sparse_hash */
};
const struct ctr_sparse_kernel *ctr_sparse_kernel_at(int i); /* by enum ctr_cpu; NULL past the end */
const struct ctr_sparse_kernel *ctr_sparse_kernel_best(void);

#endif
