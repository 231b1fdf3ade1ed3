/* SPDX-License-Identifier: Apache-2.0
 *
 * relkey: hashing and equality of keys by column. The hash equals that of ctr_col_hash, chained over columns; the loops
 * here avoid a call per value. */
#include "common/rows/relkey.h"

#include "common/base/words.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- hashes ---- */

#define HASH_INTS(T)                                                                                                   \
    do {                                                                                                               \
        const T *v = c->data;                                                                                          \
        for (int64_t i = 0; i < n; i++)                                                                                \
            if (!c->valid || ctr_bit(c->valid, i))                                                                     \
                hash[i] = ctr_mix64((uint64_t)(int64_t)v[i] ^ hash[i]);                                                \
            else                                                                                                       \
                hash[i] = ctr_col_hash(c, i, hash[i]);                                                                 \
    } while (0)

static void hash_plain(const struct ctr_col *c, int64_t n, uint64_t *hash)
{
    const char *text = c->data;

    switch (c->type) {
    case CTR_I8: HASH_INTS(int8_t); break;
    case CTR_I16: HASH_INTS(int16_t); break;
    case CTR_I32: HASH_INTS(int32_t); break;
    case CTR_U8: HASH_INTS(uint8_t); break;
    case CTR_U16: HASH_INTS(uint16_t); break;
    case CTR_U32: HASH_INTS(uint32_t); break;
    case CTR_I64:
    case CTR_U64:
    case CTR_TIME: HASH_INTS(int64_t); break;
    case CTR_UTF8:
        for (int64_t i = 0; i < n; i++)
            if (!c->valid || ctr_bit(c->valid, i))
                hash[i] = ctr_hash64(text + c->offsets[i], (size_t)(c->offsets[i + 1] - c->offsets[i]), hash[i]);
            else
                hash[i] = ctr_col_hash(c, i, hash[i]);
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            hash[i] = ctr_col_hash(c, i, hash[i]);
    }
}

/* For an encoded first key: once per entry. */
static int hash_entries(const struct ctr_col *c, int64_t n, uint64_t seed, uint64_t *hash, struct ctr_err *err)
{
    const int32_t *code = c->data;
    uint64_t *entry = malloc(((size_t)c->dict->rows + 1) * sizeof *entry);

    if (!entry)
        return ctr_fail_nomem(err, (size_t)c->dict->rows * sizeof *entry);
    for (int64_t i = 0; i < c->dict->rows; i++)
        entry[i] = seed;
    hash_plain(c->dict, c->dict->rows, entry);
    for (int64_t i = 0; i < n; i++)
        hash[i] = ctr_col_null(c, i) ? ctr_col_hash(c, i, seed) : entry[code[i]];
    free(entry);
    return 0;
}

int ctr_keys_hash(const struct ctr_batch *b, const int *cols, int nkeys, uint64_t seed, uint64_t *hash, uint8_t *null,
                  struct ctr_err *err)
{
    int rc = 0;

    for (int64_t i = 0; i < b->rows; i++)
        hash[i] = seed;
    if (null)
        memset(null, 0, (size_t)b->rows);
    for (int k = 0; !rc && k < nkeys; k++) {
        const struct ctr_col *c = &b->col[cols[k]];
        if (!c->dict)
            hash_plain(c, b->rows, hash);
        else if (!k && c->dict->rows < b->rows)
            rc = hash_entries(c, b->rows, seed, hash, err);
        else
            for (int64_t i = 0; i < b->rows; i++)
                hash[i] = ctr_col_hash(c, i, hash[i]);
        if (null && (c->valid || (c->dict && c->dict->valid)))
            for (int64_t i = 0; i < b->rows; i++)
                null[i] |= ctr_col_missing(c, i);
    }
    return rc;
}

/* ---- pairs ---- */

enum ctr_keyclass ctr_key_class(enum ctr_type t)
{
    if (ctr_types[t].integer)
        return CTR_KEY_INT;
    if (ctr_types[t].floating)
        return CTR_KEY_FLOAT;
    return t == CTR_BOOL ? CTR_KEY_BOOL : t == CTR_UTF8 ? CTR_KEY_TEXT : t == CTR_TIME ? CTR_KEY_TIME : CTR_KEY_NONE;
}

int ctr_key_check(const struct ctr_field *f, struct ctr_err *err)
{
    char type[64];

    if (ctr_key_class(f->type) != CTR_KEY_NONE)
        return 0;
    return ctr_fail(err, CTR_EUSAGE, "%s is %s, and a list cannot be a key: take an element with at()", f->name,
                    ctr_field_type_name(f, type, sizeof type));
}

int ctr_key_columns(const struct ctr_schema *s, const char *list, char sep, int **columns, int *n, struct ctr_err *err)
{
    int i = *n, rc = ctr_schema_columns(s, list, sep, columns, n, err);

    for (; !rc && i < *n; i++)
        rc = ctr_key_check(&s->f[(*columns)[i]], err);
    return rc;
}

/* The operator of the plan language that casts to a class; times and booleans are compared with other types as
 * integers. */
static const char *cast_to(enum ctr_keyclass c)
{
    return c == CTR_KEY_TEXT ? "concat" : c == CTR_KEY_FLOAT ? "number" : "int";
}

static int pair_types(struct ctr_keypair *p, const struct ctr_field *l, const struct ctr_field *r,
                      const char *right_name, bool in_plan, struct ctr_err *err)
{
    enum ctr_keyclass a = ctr_key_class(l->type), b = ctr_key_class(r->type);
    char lt[64], rt[64];

    if (a == CTR_KEY_NONE || b == CTR_KEY_NONE)
        return ctr_key_check(a == CTR_KEY_NONE ? l : r, err);
    if (a != b) {
        ctr_field_type_name(l, lt, sizeof lt);
        ctr_field_type_name(r, rt, sizeof rt);
        /* The side to cast: the float rather than integers, times and booleans, because not every integer is
         * representable as a float. */
        bool right = a == CTR_KEY_FLOAT   ? false
                     : b == CTR_KEY_FLOAT ? a != CTR_KEY_TEXT
                                          : b == CTR_KEY_TIME || b == CTR_KEY_BOOL;
        const char *name = right ? r->name : l->name, *to = cast_to(right ? a : b);
        const bool cuts = (right ? b : a) == CTR_KEY_FLOAT; /* 1.5 must not match; int() would make it 1 */
        char expr[400];
        if (cuts)
            snprintf(expr, sizeof expr, "if(int(%s) == %s, int(%s), null)", name, name, name);
        else
            snprintf(expr, sizeof expr, "%s(%s)", to, name);
        /* A plan casts the rows in a line above; a view is cast where its file is made, or by the types of a text. */
        const char *cast = right ? ctr_words(in_plan, "cast that, as with ",
                                             "give one the other's type, by columns=\"NAME:TYPE\" of a view of text, "
                                             "or have VIEW=FILE made by ")
                                 : ctr_words(in_plan, "cast one, as with ",
                                             "give one the other's type, by columns=\"NAME:TYPE\" of a view of text, "
                                             "or by a line above, ");
        char add[512];
        ctr_format(add, sizeof add, in_plan && !right ? "add %s_key = %s" : "ctr-select --add '%s_key=%s'", name, expr);
        return ctr_fail(err, CTR_EUSAGE, "%s is %s on the left and %s is %s in %s: %s%s, then %s %s%s=%s%s", l->name,
                        lt, r->name, rt, right_name, cast, add, ctr_words(in_plan, "-k", "on"), l->name,
                        right ? "" : "_key", r->name, right ? "_key" : "");
    }
    p->cls = a;
    p->left_signed = ctr_types[l->type].is_signed;
    p->right_signed = ctr_types[r->type].is_signed;
    return 0;
}

static int parse_pair(char *spec, const struct ctr_schema *left, const struct ctr_schema *right, const char *right_name,
                      bool in_plan, struct ctr_keypair *p, struct ctr_err *err)
{
    /* A column name may contain '=': then the text names that column. */
    char *eq = ctr_schema_find(left, spec) < 0 ? spec + ctr_names_span(spec, '=') : NULL;
    eq = eq && *eq ? eq : NULL;

    if (eq)
        *eq = 0;
    p->left = ctr_schema_need(left, spec, err);
    if (p->left < 0) {
        ctr_err_add(err, " (on the left side)");
        return p->left;
    }
    p->right = ctr_schema_need(right, eq ? eq + 1 : spec, err);
    if (p->right < 0) {
        ctr_err_file(err, right_name);
        return p->right;
    }
    return pair_types(p, &left->f[p->left], &right->f[p->right], right_name, in_plan, err);
}

int ctr_keypairs_parse(const char *spec, const struct ctr_schema *left, const struct ctr_schema *right,
                       const char *right_name, bool in_plan, struct ctr_keypair **pairs, int *n, struct ctr_err *err)
{
    struct ctr_strs names = { 0 };
    int rc = ctr_names_split(&names, spec, ',', err);

    *n = 0;
    *pairs = rc ? NULL : calloc((size_t)names.n + 1, sizeof **pairs);
    if (!rc && !*pairs)
        rc = ctr_fail_nomem(err, (size_t)names.n * sizeof **pairs);
    for (int i = 0; !rc && i < names.n; i++) {
        rc = parse_pair(names.s[i], left, right, right_name, in_plan, &(*pairs)[i], err);
        for (int k = 0; !rc && k < i; k++)
            if ((*pairs)[k].left == (*pairs)[i].left && (*pairs)[k].right == (*pairs)[i].right)
                rc = ctr_fail(err, CTR_EUSAGE, "%s is named twice", names.s[i]);
    }
    *n = rc ? 0 : names.n;
    ctr_strs_free(&names);
    if (rc) {
        free(*pairs);
        *pairs = NULL;
    }
    return rc;
}

/* ---- order across types ---- */

static const struct ctr_col *value_of(const struct ctr_col *c, int64_t *i)
{
    if (c->dict) {
        *i = ((const int32_t *)c->data)[*i];
        return c->dict;
    }
    return c;
}

static int compare_f64(double a, double b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) - isnan(b);
    return (a > b) - (a < b);
}

int ctr_keys_compare(enum ctr_keyclass cls, const struct ctr_col *a, int64_t i, const struct ctr_col *b, int64_t j)
{
    bool na = ctr_col_missing(a, i), nb = ctr_col_missing(b, j);

    if (na || nb)
        return na - nb;
    a = value_of(a, &i);
    b = value_of(b, &j);
    if (cls == CTR_KEY_TEXT) {
        struct ctr_str s = ctr_col_str(a, i), t = ctr_col_str(b, j);
        int c = memcmp(s.p, t.p, CTR_MIN(s.n, t.n));
        return c ? c : (s.n > t.n) - (s.n < t.n);
    }
    if (cls == CTR_KEY_FLOAT)
        return compare_f64(ctr_col_f64(a, i), ctr_col_f64(b, j));
    int64_t u = ctr_col_i64(a, i), v = ctr_col_i64(b, j);
    bool big_u = u < 0 && a->type == CTR_U64, big_v = v < 0 && b->type == CTR_U64; /* above 2^63 */
    if (big_u != big_v)
        return big_u - big_v;
    return (u > v) - (u < v);
}

/* ---- equality of columns with rows ---- */

#define VERIFY_INTS(L, R)                                                                                              \
    do {                                                                                                               \
        const L *v_ = (const L *)left->data + first;                                                                   \
        for (int i = 0; i < n; i++) {                                                                                  \
            const uint8_t *row_ = rows[i] ? rows[i] : f->none;                                                         \
            R r_;                                                                                                      \
            memcpy(&r_, row_ + slot, sizeof r_);                                                                       \
            ok[i] &= (v_[i] == r_) | !rows[i];                                                                         \
        }                                                                                                              \
    } while (0)

static bool same_int(const struct ctr_keypair *p, int64_t a, int64_t b)
{
    return a == b && (a >= 0 || p->left_signed == p->right_signed);
}

static void verify_text(const struct ctr_rowformat *f, int col, const struct ctr_col *left, int64_t first,
                        const uint8_t *const *rows, int n, uint8_t *ok)
{
    for (int i = 0; i < n; i++) {
        if (!rows[i])
            continue;
        struct ctr_str s = ctr_col_str(left, first + i), t = ctr_row_str(f, rows[i], col);
        ok[i] &= s.n == t.n && !memcmp(s.p, t.p, s.n);
    }
}

void ctr_keys_verify(const struct ctr_keypair *p, const struct ctr_rowformat *f, const struct ctr_col *left,
                     int64_t first, const uint8_t *const *rows, int n, uint8_t *ok)
{
    enum ctr_type rt = f->col[p->right].type, lt = left->type;
    uint32_t slot = f->col[p->right].slot;

    if (p->cls == CTR_KEY_TEXT) {
        verify_text(f, p->right, left, first, rows, n, ok);
    } else if (p->cls == CTR_KEY_FLOAT) {
        for (int i = 0; i < n; i++)
            if (rows[i])
                ok[i] &= !compare_f64(ctr_col_f64(left, first + i), ctr_row_f64(f, rows[i], p->right));
    } else if (!left->dict && lt == CTR_I64 && rt == CTR_I64) {
        VERIFY_INTS(int64_t, int64_t);
    } else if (!left->dict && lt == CTR_I32 && rt == CTR_I32) {
        VERIFY_INTS(int32_t, int32_t);
    } else if (!left->dict && lt == CTR_U64 && rt == CTR_U64) {
        VERIFY_INTS(uint64_t, uint64_t);
    } else {
        for (int i = 0; i < n; i++)
            if (rows[i])
                ok[i] &= same_int(p, ctr_col_i64(left, first + i), ctr_row_i64(f, rows[i], p->right));
    }
}

bool ctr_row_same(const struct ctr_rowformat *f, int col, const uint8_t *a, const uint8_t *b)
{
    if (!f->col[col].width) {
        struct ctr_str s = ctr_row_str(f, a, col), t = ctr_row_str(f, b, col);
        return s.n == t.n && !memcmp(s.p, t.p, s.n);
    }
    if (ctr_types[f->col[col].type].floating)
        return !compare_f64(ctr_row_f64(f, a, col), ctr_row_f64(f, b, col));
    return ctr_row_i64(f, a, col) == ctr_row_i64(f, b, col);
}
