/* SPDX-License-Identifier: Apache-2.0
 *
 * loop_number: the loops of op_number.c, as macros over bodies that host and device expand differently:
 * CONTRIBUTING.md, "An operator of the plan language". */
#ifndef CTR_LOOP_NUMBER_H
#define CTR_LOOP_NUMBER_H

#include "common/op/loop.h"

/* ---- conversion ---- */

CTR_LOOP1(loop_same_i, int64_t, int64_t, a0[i])
CTR_LOOP1(loop_same_u, uint64_t, uint64_t, a0[i])
CTR_LOOP1(loop_same_f, double, double, a0[i])
CTR_LOOP1(loop_float_i, int64_t, double, (double)a0[i])
CTR_LOOP1(loop_int_f, double, int64_t, opv_int_f(a0[i], &ok[i]))
CTR_LOOP1(loop_floor_f, double, int64_t, opv_floor_f(a0[i], &ok[i]))
CTR_LOOP1(loop_ceil_f, double, int64_t, opv_ceil_f(a0[i], &ok[i]))
CTR_LOOP1(loop_round_f, double, int64_t, opv_round_f(a0[i], &ok[i]))
CTR_LOOP_PARAM(loop_round_to, double, double, double, opv_round_to(a0[i], *p))

/* ---- arithmetic ---- */

CTR_LOOP1(loop_abs_i, int64_t, int64_t, opv_abs_i(a0[i], &ok[i]))
CTR_LOOP1(loop_abs_f, double, double, opv_abs_f(a0[i]))
CTR_LOOP3(loop_clip_i, int64_t, int64_t, int64_t, int64_t, opv_clip_i(a0[i], a1[i], a2[i]))
CTR_LOOP3(loop_clip_u, uint64_t, uint64_t, uint64_t, uint64_t, opv_clip_u(a0[i], a1[i], a2[i]))
CTR_LOOP3(loop_clip_f, double, double, double, double, opv_clip_f(a0[i], a1[i], a2[i]))
CTR_LOOP1(loop_log1p, double, double, opv_log1p(a0[i]))
CTR_LOOP1(loop_log, double, double, opv_log(a0[i]))
CTR_LOOP1(loop_exp, double, double, opv_exp(a0[i]))
CTR_LOOP1(loop_sqrt, double, double, opv_sqrt(a0[i]))

/* ---- buckets ---- */

struct op_thresholds {
    int64_t n;
    double at[1]; /* n of them */
};
CTR_LOOP_PARAM(loop_bucket, double, struct op_thresholds, int64_t, opv_bucket(a0[i], p->at, p->n, &ok[i]))
CTR_LOOP1(loop_log_bucket, double, int64_t, opv_log_bucket(a0[i], &ok[i]))

/* Counts are mostly small: their results are in a table. */
enum { OP_SMALL = 4096 };
struct op_square_log {
    int16_t start[OPV_SQUARE_LOG_STARTS];
    int16_t small[OP_SMALL];
};
CTR_LOOP_PARAM(loop_square_log, double, struct op_square_log, int64_t, opv_square_log_bucket(a0[i], p->start, &ok[i]))
CTR_LOOP_PARAM(loop_square_log_i, int64_t, struct op_square_log, int64_t,
               (uint64_t)a0[i] < OP_SMALL ? p->small[a0[i]]
               : a0[i] < 0                ? a0[i]
                                          : opv_square_log_bucket((double)a0[i], p->start, &ok[i]))

/* ---- one of several, and within bounds ---- */

#define OP_LANE(T, k) ((const T *)t->in[k].v)[i]
/* The least or greatest argument of a row. */
#define OP_EXTREME(name, T, beats, sign)                                                                               \
    OPV_FN T name##_of(const struct ctr_op_tile *t, int i)                                                             \
    {                                                                                                                  \
        T best = OP_LANE(T, 0);                                                                                        \
        for (int k = 1; k < t->nargs; k++)                                                                             \
            if (beats(best, OP_LANE(T, k), sign))                                                                      \
                best = OP_LANE(T, k);                                                                                  \
        return best;                                                                                                   \
    }
OP_EXTREME(loop_least_i, int64_t, opv_beats_i, -1)
OP_EXTREME(loop_least_u, uint64_t, opv_beats_u, -1)
OP_EXTREME(loop_least_f, double, opv_beats_f, -1)
OP_EXTREME(loop_least_t, struct opv_str, opv_beats_s, -1)
OP_EXTREME(loop_greatest_i, int64_t, opv_beats_i, 1)
OP_EXTREME(loop_greatest_u, uint64_t, opv_beats_u, 1)
OP_EXTREME(loop_greatest_f, double, opv_beats_f, 1)
OP_EXTREME(loop_greatest_t, struct opv_str, opv_beats_s, 1)
CTR_LOOP0(loop_least_i, int64_t, loop_least_i_of(t, i))
CTR_LOOP0(loop_least_u, uint64_t, loop_least_u_of(t, i))
CTR_LOOP0(loop_least_f, double, loop_least_f_of(t, i))
CTR_LOOP0(loop_greatest_i, int64_t, loop_greatest_i_of(t, i))
CTR_LOOP0(loop_greatest_u, uint64_t, loop_greatest_u_of(t, i))
CTR_LOOP0(loop_greatest_f, double, loop_greatest_f_of(t, i))
#define LEAST_MAX(t, i)         loop_least_t_of(t, i).n
#define GREATEST_MAX(t, i)      loop_greatest_t_of(t, i).n
#define LEAST_WRITE(t, i, s)    opv_put(s, loop_least_t_of(t, i).p, loop_least_t_of(t, i).n)
#define GREATEST_WRITE(t, i, s) opv_put(s, loop_greatest_t_of(t, i).p, loop_greatest_t_of(t, i).n)
CTR_LOOP_TEXT(loop_least_t, LEAST_MAX, LEAST_WRITE)
CTR_LOOP_TEXT(loop_greatest_t, GREATEST_MAX, GREATEST_WRITE)

/* low <= x <= high; numbers of two types compare exactly. */
#define OP_BETWEEN(name, TX, TL, TH, low, high)                                                                        \
    CTR_LOOP3(name, TX, TL, TH, uint8_t, opv_not_below(low) & opv_not_above(high))
#define OP_X_LOW(cmp)  cmp(a0[i], a1[i])
#define OP_X_HIGH(cmp) cmp(a0[i], a2[i])
OP_BETWEEN(loop_between_i, int64_t, int64_t, int64_t, OP_X_LOW(opv_cmp_i), OP_X_HIGH(opv_cmp_i))
OP_BETWEEN(loop_between_iif, int64_t, int64_t, double, OP_X_LOW(opv_cmp_i), OP_X_HIGH(opv_cmp_if))
OP_BETWEEN(loop_between_ifi, int64_t, double, int64_t, OP_X_LOW(opv_cmp_if), OP_X_HIGH(opv_cmp_i))
OP_BETWEEN(loop_between_iff, int64_t, double, double, OP_X_LOW(opv_cmp_if), OP_X_HIGH(opv_cmp_if))
OP_BETWEEN(loop_between_u, uint64_t, uint64_t, uint64_t, OP_X_LOW(opv_cmp_u), OP_X_HIGH(opv_cmp_u))
OP_BETWEEN(loop_between_uii, uint64_t, int64_t, int64_t, OP_X_LOW(opv_cmp_ui), OP_X_HIGH(opv_cmp_ui))
OP_BETWEEN(loop_between_uff, uint64_t, double, double, OP_X_LOW(opv_cmp_uf), OP_X_HIGH(opv_cmp_uf))
OP_BETWEEN(loop_between_f, double, double, double, OP_X_LOW(opv_cmp_f), OP_X_HIGH(opv_cmp_f))
OP_BETWEEN(loop_between_fii, double, int64_t, int64_t, OP_X_LOW(opv_cmp_fi), OP_X_HIGH(opv_cmp_fi))
OP_BETWEEN(loop_between_fif, double, int64_t, double, OP_X_LOW(opv_cmp_fi), OP_X_HIGH(opv_cmp_f))
OP_BETWEEN(loop_between_ffi, double, double, int64_t, OP_X_LOW(opv_cmp_f), OP_X_HIGH(opv_cmp_fi))
OP_BETWEEN(loop_between_t, struct opv_str, struct opv_str, struct opv_str, OP_X_LOW(opv_cmp_s), OP_X_HIGH(opv_cmp_s))

/* ---- nulls and choices: these see nulls ---- */

CTR_LOOP0(loop_is_null, uint8_t, !in[0].ok[i])

/* Row i comes from argument `a` or `b`. */
#define OP_FILLED    in[0].ok[i]
#define OP_CONDITION (in[0].ok[i] & ((const uint8_t *)in[0].v)[i]) /* a null condition is false */
#define OP_CHOOSE(name, T, first, a, b)                                                                                \
    CTR_LOOP0(                                                                                                         \
        name, T,                                                                                                       \
        (ok[i] = (first) ? in[a].ok[i] : in[b].ok[i], (first) ? ((const T *)in[a].v)[i] : ((const T *)in[b].v)[i]))
OP_CHOOSE(loop_fill_8, uint64_t, OP_FILLED, 0, 1)
OP_CHOOSE(loop_fill_b, uint8_t, OP_FILLED, 0, 1)
OP_CHOOSE(loop_if_8, uint64_t, OP_CONDITION, 1, 2)
OP_CHOOSE(loop_if_b, uint8_t, OP_CONDITION, 1, 2)

#define OP_CHOOSE_TEXT(name, first, a, b)                                                                              \
    OPV_FN struct opv_str name##_pick(struct ctr_op_tile *t, int i)                                                    \
    {                                                                                                                  \
        const struct ctr_op_in *in = t->in;                                                                            \
        t->ok[i] = (first) ? in[a].ok[i] : in[b].ok[i];                                                                \
        return ((const struct opv_str *)((first) ? in[a].v : in[b].v))[i];                                             \
    }                                                                                                                  \
    OPV_FN int64_t name##_max(struct ctr_op_tile *t, int i)                                                            \
    {                                                                                                                  \
        const struct opv_str s = name##_pick(t, i);                                                                    \
        return t->ok[i] ? s.n : 0;                                                                                     \
    }                                                                                                                  \
    OPV_FN void name##_put(struct ctr_op_tile *t, int i, struct opv_sink *s)                                           \
    {                                                                                                                  \
        const struct opv_str a_ = name##_pick(t, i);                                                                   \
        if (t->ok[i])                                                                                                  \
            opv_put(s, a_.p, a_.n);                                                                                    \
    }                                                                                                                  \
    CTR_LOOP_TEXT(name, name##_max, name##_put)
OP_CHOOSE_TEXT(loop_fill_t, OP_FILLED, 0, 1)
OP_CHOOSE_TEXT(loop_if_t, OP_CONDITION, 1, 2)

#endif
