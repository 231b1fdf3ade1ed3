/* SPDX-License-Identifier: Apache-2.0
 *
 * loop_list: the loops of op_list.c, for the host and for a device: loop.h. */
#ifndef CTR_LOOP_LIST_H
#define CTR_LOOP_LIST_H

#include "common/op/body_list.h"
#include "common/op/loop.h"

#define OP_SUM(expr) ok[i] ? (expr) : 0
CTR_LOOP0(loop_sum_i, int64_t, OP_SUM(opv_sum_i(in->span[i], (const int64_t *)in->item, in->item_ok, &ok[i])))
CTR_LOOP0(loop_sum_u, int64_t, OP_SUM(opv_sum_u(in->span[i], (const uint64_t *)in->item, in->item_ok, &ok[i])))
CTR_LOOP0(loop_sum_f, double, OP_SUM(opv_sum_f(in->span[i], (const double *)in->item, in->item_ok)))
CTR_LOOP0(loop_mean, double, OP_SUM(opv_mean(in->span[i], (const double *)in->item, in->item_ok, &ok[i])))

/* ---- histogram: log1p of how many items lie in each of `bins` parts of [low, high] ---- */

struct op_histogram {
    double low, high;
    int64_t bins;
};

/* What lies below counts in the first part, what lies above in the last. */
OPV_FN int64_t op_bin(const struct op_histogram *p, double x)
{
    const double at = (x - p->low) / (p->high - p->low) * (double)p->bins;
    return at >= (double)p->bins ? p->bins - 1 : at > 0 ? (int64_t)at : 0;
}
OPV_FN void op_histogram_row(const struct ctr_op_tile *t, int i)
{
    const struct op_histogram *p = (const struct op_histogram *)t->param;
    const struct ctr_op_in *in = &t->in[0];
    const struct opv_span a = in->span[i];
    const double *x = (const double *)in->item;
    float *to = (float *)t->out + i * p->bins;
    for (int64_t b = 0; b < p->bins; b++)
        to[b] = 0;
    for (int64_t k = a.from; t->ok[i] && k < a.to; k++)
        if (in->item_ok[k] && x[k] == x[k])
            to[op_bin(p, x[k])] += 1;
    for (int64_t b = 0; b < p->bins; b++)
        to[b] = (float)opv_log1p((double)to[b]);
}
CTR_LOOP_VECTOR(loop_histogram, op_histogram_row)

/* ---- lists of some of the items ---- */

CTR_LOOP_CHOSEN(loop_sort_i, OPV_ITEM_I64, opv_sort_list)
CTR_LOOP_CHOSEN(loop_sort_u, OPV_ITEM_U64, opv_sort_list)
CTR_LOOP_CHOSEN(loop_sort_f, OPV_ITEM_F64, opv_sort_list)
CTR_LOOP_CHOSEN(loop_sort_t, OPV_ITEM_STR, opv_sort_list)
CTR_LOOP_CHOSEN(loop_unique_i, OPV_ITEM_I64, opv_unique_list)
CTR_LOOP_CHOSEN(loop_unique_f, OPV_ITEM_F64, opv_unique_list)
CTR_LOOP_CHOSEN(loop_unique_t, OPV_ITEM_STR, opv_unique_list)
CTR_LOOP_CHOSEN(loop_top_i, OPV_ITEM_I64, opv_top_list)
CTR_LOOP_CHOSEN(loop_top_u, OPV_ITEM_U64, opv_top_list)
CTR_LOOP_CHOSEN(loop_top_f, OPV_ITEM_F64, opv_top_list)
CTR_LOOP_CHOSEN(loop_top_t, OPV_ITEM_STR, opv_top_list)

/* ---- one of the items ---- */

OPV_FN int64_t op_find_max(const struct opv_items *l, struct opv_span a, int64_t *at)
{
    (void)at;
    return opv_extreme(l, a, 1);
}
OPV_FN int64_t op_find_min(const struct opv_items *l, struct opv_span a, int64_t *at)
{
    (void)at;
    return opv_extreme(l, a, -1);
}
CTR_LOOP_FOUND(loop_max_i, OPV_ITEM_I64, op_find_max)
CTR_LOOP_FOUND(loop_max_u, OPV_ITEM_U64, op_find_max)
CTR_LOOP_FOUND(loop_max_f, OPV_ITEM_F64, op_find_max)
CTR_LOOP_FOUND(loop_min_i, OPV_ITEM_I64, op_find_min)
CTR_LOOP_FOUND(loop_min_u, OPV_ITEM_U64, op_find_min)
CTR_LOOP_FOUND(loop_min_f, OPV_ITEM_F64, op_find_min)
CTR_LOOP_FOUND(loop_mode_i, OPV_ITEM_I64, opv_mode)
CTR_LOOP_FOUND(loop_mode_f, OPV_ITEM_F64, opv_mode)
CTR_LOOP_FOUND_TEXT(loop_mode_t, opv_mode)

#endif
