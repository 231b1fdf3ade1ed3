/* SPDX-License-Identifier: Apache-2.0
 *
 * profile.h: what is known of a column after one pass, in bounded memory. A profile depends on the rows alone, not on
 * their order, and the profiles of parts merge to that of the whole, bit for bit, in any grouping.
 *
 * Up to CTR_PROFILE_EXACT different values are counted one by one, and everything else follows from the counts. With
 * one more the column becomes *many*. Whether it is depends on the set of values alone, and so does each part of what
 * is then kept:
 *  - exact sums, extremes and counts of zeros, NaN, …: added up;
 *  - the values whose hash begins with `level` zero bits, each with its count from the first row on, for the least
 * level at which there are at most CTR_PROFILE_SAMPLE ("On adaptive sampling", Flajolet, Computing 1990): the number of
 *    different values, and which of them another stream has;
 *  - of numbers, rows by value without the last `shift` bits, for the least shift at which at most CTR_PROFILE_BINS are
 *    not empty: ranks are exact, values as wide as a bin;
 *  - a linear sketch of the frequent values (heavy.h). */
#ifndef CTR_PROFILE_H
#define CTR_PROFILE_H

#include "common/stream/batch.h"
#include "tools/ctr-stats/exactsum.h"
#include "tools/ctr-stats/heavy.h"

enum {
    CTR_PROFILE_EXACT = 65536,
    CTR_PROFILE_SAMPLE = 16384,
    CTR_PROFILE_BINS = 16384,
    CTR_PROFILE_TEXT =
        64, /* bytes kept of a text, whole characters: longer ones are told apart by hash, length and these */
};
#define CTR_CLICK (UINT64_C(1) << 20) /* a label of 1: clicks are counted in these units */

/* Values are 64 bits: of floats those of the double, -0 as 0 and one NaN; integers, times (ms) and booleans as int64 or
 * uint64; of texts a hash. */
enum ctr_kind { CTR_KIND_FLOAT, CTR_KIND_INT, CTR_KIND_UINT, CTR_KIND_TIME, CTR_KIND_TEXT };

struct ctr_value {
    uint64_t key;
    int64_t n; /* 0: a free slot */
    uint64_t clicks;
    uint32_t text : 25, kept : 7; /* of a text: where what is kept of it starts, and how much that is */
    uint32_t bytes;               /* and its whole length */
};
struct ctr_value_table {
    struct ctr_value *slot; /* of room, whose pages are large */
    int64_t n, cap;
    struct ctr_buf room, text;
    int level;
};

struct ctr_bin {
    uint64_t at; /* position >> shift */
    int64_t n;   /* 0: a free slot */
    uint64_t clicks;
};
struct ctr_bins {
    struct ctr_bin *slot;
    int64_t n, cap;
    int shift;
};

struct ctr_end { /* the least or greatest value */
    uint64_t order;
    uint8_t n; /* of a text: what is kept of it */
    bool cut;  /* it is longer */
    char text[CTR_PROFILE_TEXT];
};
struct ctr_totals {
    int64_t nan, zeros, plus_infinite, minus_infinite;
    int64_t huge; /* finite, but their squares are not */
    struct ctr_exact sum, squares;
    struct ctr_end min, max;           /* of numbers: neither null nor NaN */
    int64_t ordered;                   /* values that they are the extremes of */
    int64_t shortest, longest, length; /* bytes of texts */
};

struct ctr_many {
    struct ctr_totals totals;
    struct ctr_bins bins;
    struct ctr_heavy *heavy, *clicks;
};

struct ctr_profile {
    char *name, *type, *role; /* role: or NULL */
    enum ctr_type item;       /* of the values */
    enum ctr_kind kind;
    bool list, labelled; /* labelled: clicks are counted */
    int64_t rows, nulls; /* rows; those that are null */
    uint64_t clicks, null_clicks;
    int64_t lists, items, shortest, longest; /* lists that are not null, and the lengths of them */
    int64_t null_items;
    int64_t values; /* neither null nor items that are */
    uint64_t value_clicks;
    struct ctr_value_table table;
    struct ctr_many *many; /* NULL: all values are in the table */
};

/* The profile of no rows. */
int ctr_profile_init(struct ctr_profile *p, const struct ctr_field *f, bool labelled, struct ctr_err *err) CTR_MUST;
void ctr_profile_free(struct ctr_profile *p);

/* At most CTR_EXACT_BLOCK values; rows NULL: one each; clicks NULL: none. `text` where the kind is so. */
struct ctr_block {
    int64_t n;
    const uint64_t *key;
    const struct ctr_str *text;
    const int64_t *rows;
    const uint64_t *clicks;
};
struct ctr_scratch {
    struct ctr_exact_block sum, square, rest;
};
int ctr_profile_add(struct ctr_profile *p, const struct ctr_block *b, struct ctr_scratch *s,
                    struct ctr_err *err) CTR_MUST;
/* Add the rows of another profile of the same name, type and role. */
int ctr_profile_merge(struct ctr_profile *p, const struct ctr_profile *other, struct ctr_err *err) CTR_MUST;

/* For files: add a value to the table alone; a bin; turn an exact profile into one of many values. */
int ctr_value_insert(struct ctr_value_table *t, enum ctr_kind kind, const struct ctr_value *v, const char *text,
                     struct ctr_err *err) CTR_MUST;
int ctr_profile_make_many(struct ctr_profile *p, struct ctr_err *err) CTR_MUST;
int ctr_bins_add(struct ctr_bins *b, const struct ctr_bin *bin, struct ctr_err *err) CTR_MUST;

/* ---- values ---- */

enum ctr_kind ctr_kind_of(enum ctr_type type);
uint64_t ctr_kind_hash(enum ctr_kind kind, uint64_t key);
uint64_t ctr_kind_key(enum ctr_kind kind, uint64_t hash); /* the inverse, but for texts */
/* Values in their order, and back; the position of a bin: order at the precision of a double; times: order. */
uint64_t ctr_kind_order(enum ctr_kind kind, uint64_t key);
uint64_t ctr_kind_unorder(enum ctr_kind kind, uint64_t order);
uint64_t ctr_kind_position(enum ctr_kind kind, uint64_t key);
double ctr_kind_at(enum ctr_kind kind, uint64_t position);
bool ctr_kind_nan(enum ctr_kind kind, uint64_t key);
double ctr_kind_number(enum ctr_kind kind, uint64_t key);
static inline const char *ctr_value_text(const struct ctr_value_table *t, const struct ctr_value *v)
{
    return (const char *)t->text.data + v->text;
}
/* Texts of equal length, up to 8 bytes, have equal keys only when they are equal; longer ones a hash. */
uint64_t ctr_text_key_long(const char *text, size_t bytes);
static inline uint64_t ctr_text_key(const char *text, size_t n)
{
    uint32_t low = 0, high = 0;
    if (n > 8)
        return ctr_text_key_long(text, n);
    if (n >= 4) {
        memcpy(&low, text, 4);
        memcpy(&high, text + n - 4, 4);
    } else if (n) {
        low = (uint32_t)(uint8_t)text[0] | (uint32_t)(uint8_t)text[n / 2] << 8 | (uint32_t)(uint8_t)text[n - 1] << 16;
    }
    return ctr_mix64(((uint64_t)high << 32 | low) + (n + 1) * 0x9e3779b97f4a7c15u);
}
/* How much of a text is kept. */
static inline size_t ctr_text_kept(const char *text, size_t bytes)
{
    size_t n = CTR_MIN(bytes, CTR_PROFILE_TEXT);
    while (n < bytes && n && ((unsigned char)text[n] & 0xc0) == 0x80)
        n--;
    return n;
}
/* The slot of a value (by key, kept and bytes): n is 0 where it is not there. NULL: the table is empty. `text`: what is
 * kept of a text; of others NULL. */
const struct ctr_value *ctr_value_find(const struct ctr_value_table *t, const struct ctr_value *v, const char *text);
/* Does the sample of a level have the values of this hash? */
static inline bool ctr_sampled(uint64_t hash, int level)
{
    return !level || hash >> (64 - level) == 0;
}
/* Totals, of whichever form. */
void ctr_profile_totals(const struct ctr_profile *p, struct ctr_totals *t);

#endif
