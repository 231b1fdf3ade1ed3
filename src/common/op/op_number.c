/* SPDX-License-Identifier: Apache-2.0
 *
 * op_number: operators on numbers and nulls, and choices: int, floor, abs, clip, buckets, fill, is_null, if. */
#include "common/op/loop_number.h"

#include <stdlib.h>

/* ---- conversion ---- */

/* Text that is not a number gives null. */
static int int_t(struct ctr_op_tile *t, struct ctr_err *err)
{
    const struct opv_str *a = t->in[0].v;
    int64_t *r = t->out;

    (void)err;
    for (int i = 0; i < t->n; i++)
        if (!t->ok[i] || !ctr_parse_i64((const char *)a[i].p, (size_t)a[i].n, &r[i]))
            r[i] = t->ok[i] = 0;
    return 0;
}

static int number_t(struct ctr_op_tile *t, struct ctr_err *err)
{
    const struct opv_str *a = t->in[0].v;
    double *r = t->out;

    (void)err;
    for (int i = 0; i < t->n; i++)
        if (!t->ok[i] || !ctr_parse_f64((const char *)a[i].p, (size_t)a[i].n, &r[i]))
            r[i] = t->ok[i] = 0;
    return 0;
}

CTR_LOOP_HOST(loop_int_t, int_t, "reads a number from text")
CTR_LOOP_HOST(loop_number_t, number_t, "reads a number from text")

/* ---- parameters of buckets ---- */

static int prepare_bucket(struct ctr_op_call *call, struct ctr_op_state *s, struct ctr_err *err)
{
    const struct ctr_value *list = call->arg[1].literal;
    struct op_thresholds *p = malloc(sizeof *p + (size_t)list->n * sizeof *p->at);

    if (!p)
        return ctr_fail_nomem(err, (size_t)list->n * sizeof *p->at);
    s->param = p;
    s->param_free = free;
    s->param_bytes = sizeof *p + (size_t)list->n * sizeof *p->at;
    p->n = list->n;
    for (int i = 0; i < list->n; i++) {
        if (!ctr_value_number(&list->list[i], &p->at[i]))
            return ctr_fail(err, CTR_EUSAGE, "bucket wants numbers as thresholds: bucket(x, [1, 2, 5])");
        if (i && !(p->at[i - 1] < p->at[i]))
            return ctr_fail(err, CTR_EUSAGE,
                            "bucket wants ascending thresholds; threshold %d is not above the one before", i + 1);
    }
    return 0;
}

/* Without digits the loop has no parameter. */
static int prepare_round(struct ctr_op_call *call, struct ctr_op_state *s, struct ctr_err *err)
{
    const struct ctr_value *digits = s->nargs > 1 ? call->arg[1].literal : NULL;
    double *scale;

    if (!digits)
        return 0;
    if (digits->kind != CTR_V_INT || digits->i < 0 || digits->i > 15)
        return ctr_fail(err, CTR_EUSAGE, "round wants 0 to 15 digits");
    s->param = scale = malloc(sizeof *scale);
    if (!scale)
        return ctr_fail_nomem(err, sizeof *scale);
    s->param_free = free;
    s->param_bytes = sizeof *scale;
    *scale = 1;
    for (int64_t i = 0; i < digits->i; i++)
        *scale *= 10;
    return 0;
}

static int prepare_square_log(struct ctr_op_call *call, struct ctr_op_state *s, struct ctr_err *err)
{
    struct op_square_log *p = malloc(sizeof *p);
    uint8_t ok;

    (void)call;
    if (!p)
        return ctr_fail_nomem(err, sizeof *p);
    s->param = p;
    s->param_free = free;
    s->param_bytes = sizeof *p;
    opv_square_log_starts(p->start);
    for (int i = 0; i < OP_SMALL; i++)
        p->small[i] = (int16_t)opv_square_log_bucket(i, p->start, &ok);
    return 0;
}

const struct ctr_op ctr_ops_number[] = {
    { "number", "number(x: text, number, bool or duration) -> float",
      "as a float: number(\"2.5\") is 2.5; text that is no number gives null, a duration its milliseconds", CTR_OP_LIFT,
      CTR_VARIANTS({ "f>f", loop_same_f }, { "t>f", loop_number_t }, { "B>f", loop_float_i },
                   { "d>f", loop_float_i }) },
    { "int", "int(x: text, number, bool, time or duration) -> int",
      "as an integer, towards 0: int(-2.7) is -2; null where x is none or too large; times and durations in "
      "milliseconds",
      CTR_OP_LIFT,
      CTR_VARIANTS({ "i>i", loop_same_i }, { "f>i", loop_int_f }, { "t>i", loop_int_t }, { "B>i", loop_same_i },
                   { "T>i", loop_same_i }, { "d>i", loop_same_i }) },
    { "floor", "floor(x: number) -> int",
      "the largest integer that is not above x: floor(-2.5) is -3; null outside int64", CTR_OP_LIFT,
      CTR_VARIANTS({ "i>i", loop_same_i }, { "f>i", loop_floor_f }) },
    { "ceil", "ceil(x: number) -> int", "the smallest integer that is not below x: ceil(2.1) is 3; null outside int64",
      CTR_OP_LIFT, CTR_VARIANTS({ "i>i", loop_same_i }, { "f>i", loop_ceil_f }) },
    { "round", "round(x: number[, digits: int]) -> int, with digits float",
      "the nearest integer, halves away from 0: round(2.5) is 3; null outside int64; to digits behind the point "
      "round(x * 10^digits) / 10^digits: round(2.345, 1) is 2.3",
      CTR_OP_LIFT, CTR_VARIANTS({ "i>i", loop_same_i }, { "f>i", loop_round_f }, { "fi!>f", loop_round_to }), NULL,
      prepare_round },
    { "abs", "abs(x: number or duration) -> the same", "without its sign: abs(-3) is 3", CTR_OP_LIFT,
      CTR_VARIANTS({ "u>u", loop_same_u }, { "i>i", loop_abs_i }, { "f>0", loop_abs_f }, { "d>d", loop_abs_i }) },
    { "clip", "clip(x: number, low: number, high: number) -> number",
      "low where x is below, high where x is above: clip(12, 0, 9) is 9", CTR_OP_LIFT,
      CTR_VARIANTS({ "uuu>u", loop_clip_u }, { "iii>i", loop_clip_i }, { "fff>0", loop_clip_f }) },
    { "log1p", "log1p(x: number) -> float", "natural logarithm of 1 + x: log1p(1) is 0.6931471805599453", CTR_OP_LIFT,
      CTR_VARIANTS({ "f>f", loop_log1p }) },
    { "log", "log(x: number) -> float", "natural logarithm: log(10) is 2.302585092994046", CTR_OP_LIFT,
      CTR_VARIANTS({ "f>f", loop_log }) },
    { "exp", "exp(x: number) -> float", "e to the power of x: exp(2) is 7.38905609893065", CTR_OP_LIFT,
      CTR_VARIANTS({ "f>f", loop_exp }) },
    { "sqrt", "sqrt(x: number) -> float", "square root: sqrt(9) is 3; NaN below 0", CTR_OP_LIFT,
      CTR_VARIANTS({ "f>f", loop_sqrt }) },
    { "least", "least(x, y, ...) -> type of x",
      "the least of numbers, texts, times or durations, NaN only where all are: least(3, 1, 2) is 1; null where one is",
      0,
      CTR_VARIANTS({ "u*>u", loop_least_u }, { "i*>i", loop_least_i }, { "f*>0", loop_least_f },
                   { "t*>t", loop_least_t }, { "T*>T", loop_least_i }, { "d*>d", loop_least_i }) },
    { "greatest", "greatest(x, y, ...) -> type of x",
      "the greatest of numbers, texts, times or durations, NaN only where all are: greatest(\"b\", \"a\") is b; null "
      "where one is",
      0,
      CTR_VARIANTS({ "u*>u", loop_greatest_u }, { "i*>i", loop_greatest_i }, { "f*>0", loop_greatest_f },
                   { "t*>t", loop_greatest_t }, { "T*>T", loop_greatest_i }, { "d*>d", loop_greatest_i }) },
    { "between", "between(x, low, high) -> bool",
      "low <= x and x <= high: between(5, 1, 5) is true; null where one of them is", CTR_OP_LIFT,
      CTR_VARIANTS({ "uuu>b", loop_between_u }, { "uii>b", loop_between_uii }, { "uff>b", loop_between_uff },
                   { "iii>b", loop_between_i }, { "iiF>b", loop_between_iif }, { "iFi>b", loop_between_ifi },
                   { "iFF>b", loop_between_iff }, { "FFF>b", loop_between_f }, { "Fii>b", loop_between_fii },
                   { "FiF>b", loop_between_fif }, { "FFi>b", loop_between_ffi }, { "ttt>b", loop_between_t },
                   { "TTT>b", loop_between_i }, { "ddd>b", loop_between_i }) },
    { "bucket", "bucket(x: number, [threshold, ...]) -> int",
      "how many of the ascending thresholds are not above x: bucket(3, [1, 2, 5]) is 2", CTR_OP_LIFT,
      CTR_VARIANTS({ "f[f!>i", loop_bucket }), NULL, prepare_bucket },
    { "log_bucket", "log_bucket(x: number) -> int",
      "0 for |x| < 1, else 1 + floor(ln |x|), with the sign of x: log_bucket(-100) is -5; at most 44", CTR_OP_LIFT,
      CTR_VARIANTS({ "f>i", loop_log_bucket }) },
    { "square_log_bucket", "square_log_bucket(x: number) -> int",
      "floor(ln(x)^2) for x > 2, else x as an integer: square_log_bucket(100) is 21; at most 1906", CTR_OP_LIFT,
      CTR_VARIANTS({ "i>i", loop_square_log_i }, { "f>i", loop_square_log }), NULL, prepare_square_log },
    { "fill", "fill(x, value) -> type of x", "value where x is null: fill(number(\"?\"), 0) is 0", CTR_OP_NULLS,
      CTR_VARIANTS({ "uu>u", loop_fill_8 }, { "ii>i", loop_fill_8 }, { "ff>0", loop_fill_8 }, { "tt>t", loop_fill_t },
                   { "bb>b", loop_fill_b }, { "TT>T", loop_fill_8 }, { "dd>d", loop_fill_8 },
                   { "kk>k", loop_fill_8 }) },
    { "is_null", "is_null(x) -> bool", "whether x is null: is_null(number(\"?\")) is true", CTR_OP_NULLS,
      CTR_VARIANTS({ "v>b", loop_is_null }) },
    { "if", "if(condition: bool, x, y) -> type of x and y",
      "x where the condition is true, y where it is false or null: if(2 > 3, \"a\", \"b\") is b",
      CTR_OP_NULLS | CTR_OP_NULL_ARG,
      CTR_VARIANTS({ "buu>u", loop_if_8 }, { "bii>i", loop_if_8 }, { "bff>0", loop_if_8 }, { "btt>t", loop_if_t },
                   { "bbb>b", loop_if_b }, { "bTT>T", loop_if_8 }, { "bdd>d", loop_if_8 }, { "bkk>k", loop_if_8 }) },
    { NULL },
};
