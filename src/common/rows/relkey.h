/* SPDX-License-Identifier: Apache-2.0
 *
 * relkey: pairs of key columns of two sides. Equality is by value: integers of any width and sign, floats of any width,
 * texts plain or encoded; two NaN are equal; callers handle nulls. */
#ifndef CTR_RELKEY_H
#define CTR_RELKEY_H

#include "common/rows/relation.h"
#include "common/rows/rowformat.h"

/* Classes of comparable types. */
enum ctr_keyclass { CTR_KEY_NONE, CTR_KEY_INT, CTR_KEY_FLOAT, CTR_KEY_BOOL, CTR_KEY_TEXT, CTR_KEY_TIME };
enum ctr_keyclass ctr_key_class(enum ctr_type t);
/* A list cannot be a key: CTR_EUSAGE. */
int ctr_key_check(const struct ctr_field *f, struct ctr_err *err) CTR_MUST;
/* ctr_schema_columns of keys. */
int ctr_key_columns(const struct ctr_schema *s, const char *list, char sep, int **columns, int *n,
                    struct ctr_err *err) CTR_MUST;

struct ctr_keypair {
    int left, right; /* columns */
    enum ctr_keyclass cls;
    bool left_signed, right_signed;
};
/* Parse "a,b=c" to pairs (the caller frees them). Errors: unknown columns, lists, types that cannot be compared. */
int ctr_keypairs_parse(const char *spec, const struct ctr_schema *left, const struct ctr_schema *right,
                       const char *right_name, bool in_plan, struct ctr_keypair **pairs, int *n,
                       struct ctr_err *err) CTR_MUST;

/* Order of two non-null values of a class. */
int ctr_keys_compare(enum ctr_keyclass cls, const struct ctr_col *a, int64_t i, const struct ctr_col *b, int64_t j);

/* ok[i] &= "row i of the left column equals column pair->right of rows[i]"; rows[i] NULL: ok[i] is unchanged. Values
 * must not be null. */
void ctr_keys_verify(const struct ctr_keypair *pair, const struct ctr_rowformat *f, const struct ctr_col *left,
                     int64_t first, const uint8_t *const *rows, int n, uint8_t *ok);
/* Are two rows of one format equal in a column? */
bool ctr_row_same(const struct ctr_rowformat *f, int col, const uint8_t *a, const uint8_t *b);

#endif
