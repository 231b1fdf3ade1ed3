/* SPDX-License-Identifier: Apache-2.0
 *
 * loop_infix: the loops of op_infix.c, for the host and for a device: loop.h. */
#ifndef CTR_LOOP_INFIX_H
#define CTR_LOOP_INFIX_H

#include "common/op/loop.h"

/* ---- logic ---- */

#define OP_TRUTH(k) ((const uint8_t *)in[k].v)[i], in[k].ok[i]
CTR_LOOP0(loop_and, uint8_t, opv_and(OP_TRUTH(0), OP_TRUTH(1), &ok[i]))
CTR_LOOP0(loop_or, uint8_t, opv_or(OP_TRUTH(0), OP_TRUTH(1), &ok[i]))
CTR_LOOP1(loop_not, uint8_t, uint8_t, !a0[i])

/* ---- x in [value, …]: the values that x can equal, ascending ---- */

struct op_values {
    int64_t n;
    int64_t at[1]; /* n of them */
};
struct op_unsigned {
    int64_t n;
    uint64_t at[1];
};
struct op_numbers {
    int64_t n;
    double at[1];
};
struct op_texts {
    int64_t n;
    struct opv_str at[1];
};
CTR_LOOP_PARAM(loop_in_i, int64_t, struct op_values, uint8_t, opv_among_i(a0[i], p->at, p->n))
CTR_LOOP_PARAM(loop_in_u, uint64_t, struct op_unsigned, uint8_t, opv_among_u(a0[i], p->at, p->n))
CTR_LOOP_PARAM(loop_in_f, double, struct op_numbers, uint8_t, opv_among_f(a0[i], p->at, p->n))
CTR_LOOP_PARAM(loop_in_t, struct opv_str, struct op_texts, uint8_t, opv_among_s(a0[i], p->at, p->n))

/* ---- comparison: six operators over each pair of lanes ---- */

#define SATISFIES(cmp, mask) (((mask) >> ((cmp) + 1)) & 1)
#define COMPARE(name, mask)                                                                                            \
    CTR_LOOP2(name##_i, int64_t, int64_t, uint8_t, SATISFIES(opv_cmp_i(a0[i], a1[i]), mask))                           \
    CTR_LOOP2(name##_u, uint64_t, uint64_t, uint8_t, SATISFIES(opv_cmp_u(a0[i], a1[i]), mask))                         \
    CTR_LOOP2(name##_f, double, double, uint8_t, SATISFIES(opv_cmp_f(a0[i], a1[i]), mask))                             \
    CTR_LOOP2(name##_ui, uint64_t, int64_t, uint8_t, SATISFIES(opv_cmp_ui(a0[i], a1[i]), mask))                        \
    CTR_LOOP2(name##_uf, uint64_t, double, uint8_t, SATISFIES(opv_cmp_uf(a0[i], a1[i]), mask))                         \
    CTR_LOOP2(name##_if, int64_t, double, uint8_t, SATISFIES(opv_cmp_if(a0[i], a1[i]), mask))                          \
    CTR_LOOP2(name##_s, struct opv_str, struct opv_str, uint8_t, SATISFIES(opv_cmp_s(a0[i], a1[i]), mask))
/* The same with swapped arguments, for pairs whose body takes the other order. */
#define SWAPPED(name, mask)                                                                                            \
    CTR_LOOP2(name##_iu, int64_t, uint64_t, uint8_t, SATISFIES(opv_cmp_ui(a1[i], a0[i]), mask))                        \
    CTR_LOOP2(name##_fu, double, uint64_t, uint8_t, SATISFIES(opv_cmp_uf(a1[i], a0[i]), mask))                         \
    CTR_LOOP2(name##_fi, double, int64_t, uint8_t, SATISFIES(opv_cmp_if(a1[i], a0[i]), mask))

COMPARE(loop_eq, OPV_EQ)
SWAPPED(loop_eq, OPV_EQ)
COMPARE(loop_ne, OPV_LT | OPV_GT | OPV_UNORDERED)
SWAPPED(loop_ne, OPV_LT | OPV_GT | OPV_UNORDERED)
COMPARE(loop_lt, OPV_LT)
SWAPPED(loop_lt, OPV_GT)
COMPARE(loop_le, OPV_LT | OPV_EQ)
SWAPPED(loop_le, OPV_GT | OPV_EQ)
COMPARE(loop_gt, OPV_GT)
SWAPPED(loop_gt, OPV_LT)
COMPARE(loop_ge, OPV_GT | OPV_EQ)
SWAPPED(loop_ge, OPV_LT | OPV_EQ)

/* ---- arithmetic ---- */

CTR_LOOP2(loop_add_i, int64_t, int64_t, int64_t, opv_add_i(a0[i], a1[i], &ok[i]))
CTR_LOOP2(loop_sub_i, int64_t, int64_t, int64_t, opv_sub_i(a0[i], a1[i], &ok[i]))
CTR_LOOP2(loop_mul_i, int64_t, int64_t, int64_t, opv_mul_i(a0[i], a1[i], &ok[i]))
CTR_LOOP2(loop_div_i, int64_t, int64_t, int64_t, opv_div_i(a0[i], a1[i], &ok[i]))
CTR_LOOP2(loop_mod_i, int64_t, int64_t, int64_t, opv_mod_i(a0[i], a1[i], &ok[i]))
CTR_LOOP2(loop_div_ui, uint64_t, int64_t, int64_t, opv_div_ui(a0[i], a1[i], &ok[i]))
CTR_LOOP2(loop_mod_ui, uint64_t, int64_t, int64_t, opv_mod_ui(a0[i], a1[i], &ok[i]))
CTR_LOOP2(loop_add_f, double, double, double, opv_add_f(a0[i], a1[i]))
CTR_LOOP2(loop_sub_f, double, double, double, opv_sub_f(a0[i], a1[i]))
CTR_LOOP2(loop_mul_f, double, double, double, opv_mul_f(a0[i], a1[i]))
CTR_LOOP2(loop_div_f, double, double, double, opv_div_f(a0[i], a1[i]))
CTR_LOOP2(loop_mod_f, double, double, double, opv_mod_f(a0[i], a1[i]))
CTR_LOOP2(loop_ratio, double, double, double, opv_ratio(a0[i], a1[i], &ok[i]))
CTR_LOOP2(loop_quotient_f, double, double, int64_t, opv_quotient_f(a0[i], a1[i], &ok[i]))
CTR_LOOP2(loop_div_d, int64_t, int64_t, double, opv_div_f((double)a0[i], (double)a1[i]))
CTR_LOOP1(loop_neg_i, int64_t, int64_t, opv_neg_i(a0[i], &ok[i]))
CTR_LOOP1(loop_neg_f, double, double, opv_neg_f(a0[i]))

#endif
