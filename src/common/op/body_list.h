/* SPDX-License-Identifier: Apache-2.0
 *
 * body_list: bodies of operators that order or count the items of a list, in the subset of body.h. They use `at`,
 * an array of item numbers allocated by the caller; null items get no number. Equal items are ordered by position, so
 * that every order is total and results do not depend on the sort algorithm.
 */
#ifndef CTR_BODY_LIST_H
#define CTR_BODY_LIST_H

#include "common/op/body_hash.h"

enum opv_item_kind { OPV_ITEM_I64, OPV_ITEM_U64, OPV_ITEM_F64, OPV_ITEM_STR };

/* The items of a row: a lane of their kind, and which of them are present. */
struct opv_items {
    enum opv_item_kind kind;
    const int64_t *i;
    const double *f;
    const struct opv_str *s;
    const uint8_t *ok;
};

OPV_FN int opv_compare_str(struct opv_str a, struct opv_str b)
{
    int64_t n = a.n < b.n ? a.n : b.n;
    for (int64_t k = 0; k < n; k++)
        if (a.p[k] != b.p[k])
            return a.p[k] < b.p[k] ? -1 : 1;
    return a.n < b.n ? -1 : a.n > b.n;
}
/* NaN is greater than all numbers and equal to itself. */
OPV_FN int opv_compare_item(const struct opv_items *l, int64_t a, int64_t b)
{
    if (l->kind == OPV_ITEM_STR)
        return opv_compare_str(l->s[a], l->s[b]);
    if (l->kind == OPV_ITEM_I64)
        return l->i[a] < l->i[b] ? -1 : l->i[a] > l->i[b];
    if (l->kind == OPV_ITEM_U64)
        return (uint64_t)l->i[a] < (uint64_t)l->i[b] ? -1 : (uint64_t)l->i[a] > (uint64_t)l->i[b];
    if (l->f[a] != l->f[a] || l->f[b] != l->f[b])
        return (l->f[a] != l->f[a]) - (l->f[b] != l->f[b]);
    return l->f[a] < l->f[b] ? -1 : l->f[a] > l->f[b];
}
OPV_FN int opv_item_before(const struct opv_items *l, int by_value, int64_t a, int64_t b)
{
    int c = by_value ? opv_compare_item(l, a, b) : 0;
    return c ? c < 0 : a < b;
}

/* The numbers of the items that are present; returns how many. */
OPV_FN int64_t opv_present(const struct opv_items *l, struct opv_span a, int64_t *at)
{
    int64_t n = 0;
    for (int64_t i = a.from; i < a.to; i++)
        if (l->ok[i])
            at[n++] = i;
    return n;
}

OPV_FN void opv_sift(const struct opv_items *l, int by_value, int64_t *at, int64_t root, int64_t n)
{
    for (int64_t child; (child = 2 * root + 1) < n; root = child) {
        int64_t swap;
        if (child + 1 < n && opv_item_before(l, by_value, at[child], at[child + 1]))
            child++;
        if (!opv_item_before(l, by_value, at[root], at[child]))
            return;
        swap = at[root];
        at[root] = at[child];
        at[child] = swap;
    }
}
/* Heap sort: by value and then by number, or by number alone. */
OPV_FN void opv_sort(const struct opv_items *l, int by_value, int64_t *at, int64_t n)
{
    for (int64_t i = n / 2; i-- > 0;)
        opv_sift(l, by_value, at, i, n);
    for (int64_t i = n; i-- > 1;) {
        int64_t last = at[i];
        at[i] = at[0];
        at[0] = last;
        opv_sift(l, by_value, at, 0, i);
    }
}

/* ---- equal items ---- */

#define OPV_MANY      64         /* from so many items on, comparing hashes is faster than comparing items */
#define OPV_HASH_PART 0x7fffffff /* the bits of a hash that are compared */

/* Equal items have equal hashes. */
OPV_FN uint64_t opv_item_hash(const struct opv_items *l, int64_t i)
{
    if (l->kind == OPV_ITEM_STR) {
        const uint64_t n = (uint64_t)l->s[i].n;
        return n <= OPV_HASH_SHORT ? opv_hash_short(l->s[i].p, n, 0) : opv_hash_long(l->s[i].p, n, 0);
    }
    if (l->kind == OPV_ITEM_F64 && (l->f[i] != l->f[i] || l->f[i] == 0))
        return l->f[i] == 0; /* NaN equals itself, and -0 equals 0 */
    return opv_avalanche((uint64_t)l->i[i] * 0x9e3779b185ebca87u);
}
/* Order items with equal hashes, whose numbers ascend: equal ones become neighbours. */
OPV_FN void opv_group_hash(const struct opv_items *l, int64_t *at, int64_t n)
{
    for (int64_t i = 1; i < n; i++)
        if (opv_compare_item(l, at[0], at[i])) {
            opv_sort(l, 1, at, n);
            return;
        }
}
/* Order the items such that equal ones are neighbours with ascending numbers. A long list is sorted by pairs of a
 * part of the hash and a number counted from a.from: a sort by value reads two distant items for each comparison. */
OPV_FN void opv_group(const struct opv_items *l, struct opv_span a, int64_t *at, int64_t n)
{
    if (n < OPV_MANY || a.to - a.from > 0x7fffffff) {
        opv_sort(l, 1, at, n);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        at[i] = (int64_t)((opv_item_hash(l, at[i]) & OPV_HASH_PART) << 32) | (at[i] - a.from);
    opv_sort(l, 0, at, n);
    for (int64_t i = 0, end; i < n; i = end) {
        const int64_t hash = at[i] >> 32;
        for (end = i; end < n && at[end] >> 32 == hash; end++)
            at[end] = a.from + (at[end] & 0xffffffff);
        opv_group_hash(l, at + i, end - i);
    }
}

/* ---- operators ---- */

/* sort: ascending. */
OPV_FN int64_t opv_sort_list(const struct opv_items *l, struct opv_span a, int64_t k, int64_t *at)
{
    int64_t n = opv_present(l, a, at);
    (void)k;
    opv_sort(l, 1, at, n);
    return n;
}
/* top: the k largest, the largest first. */
OPV_FN int64_t opv_top_list(const struct opv_items *l, struct opv_span a, int64_t k, int64_t *at)
{
    int64_t n = opv_present(l, a, at);
    opv_sort(l, 1, at, n);
    for (int64_t i = 0; i < n / 2; i++) {
        int64_t last = at[n - 1 - i];
        at[n - 1 - i] = at[i];
        at[i] = last;
    }
    return n < k ? n : k < 0 ? 0 : k;
}
/* unique: each value at its first occurrence. */
OPV_FN int64_t opv_unique_list(const struct opv_items *l, struct opv_span a, int64_t k, int64_t *at)
{
    int64_t n = opv_present(l, a, at), kept = 0;
    (void)k;
    opv_group(l, a, at, n);
    for (int64_t i = 0; i < n; i++)
        if (!kept || opv_compare_item(l, at[kept - 1], at[i]))
            at[kept++] = at[i];
    opv_sort(l, 0, at, kept);
    return kept;
}
/* mode: the number of the most frequent item, the first of several; -1: none. */
OPV_FN int64_t opv_mode(const struct opv_items *l, struct opv_span a, int64_t *at)
{
    int64_t n = opv_present(l, a, at), best = -1, most = 0;
    opv_group(l, a, at, n);
    for (int64_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && !opv_compare_item(l, at[i], at[end]); end++)
            ;
        if (end - i > most || (end - i == most && at[i] < best)) {
            most = end - i;
            best = at[i];
        }
    }
    return best;
}
/* max, or min with sign -1: the number of the first of the largest items; NaN counts only if there are no numbers. */
OPV_FN int64_t opv_extreme(const struct opv_items *l, struct opv_span a, int sign)
{
    int64_t best = -1;
    for (int64_t i = a.from; i < a.to; i++) {
        if (!l->ok[i])
            continue;
        if (best < 0 || (l->kind == OPV_ITEM_F64 && l->f[best] != l->f[best]))
            best = i;
        else if (!(l->kind == OPV_ITEM_F64 && l->f[i] != l->f[i]) && sign * opv_compare_item(l, i, best) > 0)
            best = i;
    }
    return best;
}

/* Sums in list order, skipping null items. */
OPV_FN int64_t opv_sum_i(struct opv_span a, const int64_t *x, const uint8_t *item_ok, uint8_t *ok)
{
    int64_t sum = 0;
    for (int64_t i = a.from; i < a.to; i++)
        if (item_ok[i])
            sum = opv_add_i(sum, x[i], ok);
    return sum;
}
OPV_FN int64_t opv_sum_u(struct opv_span a, const uint64_t *x, const uint8_t *item_ok, uint8_t *ok)
{
    int64_t sum = 0;
    for (int64_t i = a.from; i < a.to; i++)
        if (item_ok[i]) {
            *ok &= x[i] <= 0x7fffffffffffffffu;
            sum = opv_add_i(sum, (int64_t)x[i], ok);
        }
    return sum;
}
OPV_FN double opv_sum_f(struct opv_span a, const double *x, const uint8_t *item_ok)
{
    double sum = 0;
    for (int64_t i = a.from; i < a.to; i++)
        sum += item_ok[i] ? x[i] : 0;
    return opv_number(sum);
}
OPV_FN double opv_mean(struct opv_span a, const double *x, const uint8_t *item_ok, uint8_t *ok)
{
    int64_t n = 0;
    for (int64_t i = a.from; i < a.to; i++)
        n += item_ok[i];
    *ok &= n > 0;
    return n ? opv_number(opv_sum_f(a, x, item_ok) / (double)n) : 0;
}

#endif
