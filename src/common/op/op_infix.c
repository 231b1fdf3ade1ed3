/* SPDX-License-Identifier: Apache-2.0
 *
 * op_infix: loops of the infix and unary operators. Integer arithmetic is in int64: a value or result outside its range
 * is null, and so is a division by 0; // and % also divide a uint64 of 2^63 or more. Floats follow IEEE. Comparisons
 * are exact between all types of numbers. */
#include "common/op/loop_infix.h"

#include <stdlib.h>

#define ORDERED(name)                                                                                                  \
    { "uu>b", name##_u }, { "ui>b", name##_ui }, { "iu>b", name##_iu }, { "uF>b", name##_uf }, { "Fu>b", name##_fu },  \
        { "ii>b", name##_i }, { "iF>b", name##_if }, { "Fi>b", name##_fi }, { "FF>b", name##_f },                      \
        { "tt>b", name##_s }, { "TT>b", name##_i }, { "dd>b", name##_i },                                              \
    {                                                                                                                  \
        "BB>b", name##_i                                                                                               \
    }
#define COMPARISON(name)                                                                                               \
    (const struct ctr_op_variant[])                                                                                    \
    {                                                                                                                  \
        ORDERED(name),                                                                                                 \
        {                                                                                                              \
            NULL                                                                                                       \
        }                                                                                                              \
    }
#define EQUALITY(name)                                                                                                 \
    (const struct ctr_op_variant[])                                                                                    \
    {                                                                                                                  \
        ORDERED(name), { "kk>b", name##_u },                                                                           \
        {                                                                                                              \
            NULL                                                                                                       \
        }                                                                                                              \
    }

/* ---- x in [value, …] ---- */

union item {
    int64_t i;
    uint64_t u;
    double f;
    struct opv_str s;
};

static bool is_number(const struct ctr_vtype *t)
{
    return !t->duration && (ctr_types[t->type].integer || ctr_types[t->type].floating);
}

static bool integral(double f, double from, double below)
{
    return f >= from && f < below && f == opv_floor(f);
}

/* The value in the lane of x; false: x never equals it, such as 0.5 where x is an integer. */
static bool item_of(enum ctr_lane lane, const struct ctr_value *v, union item *to)
{
    const bool is_float = v->kind == CTR_V_FLOAT, is_big = v->kind == CTR_V_UINT;
    switch (lane) {
    case CTR_LANE_STR: to->s = (struct opv_str){ (const uint8_t *)v->s.p, (int64_t)v->s.n }; return true;
    case CTR_LANE_F64:
        to->f = is_float ? v->f : is_big ? (double)(uint64_t)v->i : (double)v->i;
        return is_float ? v->f == v->f : (is_big ? opv_cmp_uf((uint64_t)v->i, to->f) : opv_cmp_if(v->i, to->f)) == 0;
    case CTR_LANE_U64:
        if (is_float && integral(v->f, 0, 0x1p64))
            to->u = (uint64_t)v->f;
        else
            to->u = (uint64_t)v->i;
        return is_float ? integral(v->f, 0, 0x1p64) : is_big || v->i >= 0;
    default:
        to->i = is_float && integral(v->f, -0x1p63, 0x1p63) ? (int64_t)v->f : v->i;
        return is_float ? integral(v->f, -0x1p63, 0x1p63) : !is_big;
    }
}

static int by_s(const void *a, const void *b)
{
    return opv_cmp_s(*(const struct opv_str *)a, *(const struct opv_str *)b);
}

static struct opv_str *in_texts(void *param, int k)
{
    struct op_texts *p = param;
    return k < p->n ? &p->at[k] : NULL;
}

static int prepare_in(struct ctr_op_call *call, struct ctr_op_state *s, struct ctr_err *err)
{
    const struct ctr_value *list = call->arg[1].literal;
    const struct ctr_vtype x = call->arg[0].literal ? ctr_value_type(call->arg[0].literal) : call->arg[0].type;
    const struct ctr_vtype item = ctr_value_type(list->list);
    const enum ctr_lane lane = s->in[0].lane;
    const size_t width = lane == CTR_LANE_STR ? sizeof(struct opv_str) : 8;
    char name[64], other[64];
    int64_t *p;

    if (!(is_number(&x) && is_number(&item)) && (x.type != item.type || x.duration != item.duration))
        return ctr_fail(err, CTR_EUSAGE, "in wants a list of what x is, %s: the list has %s",
                        ctr_vtype_name(&x, name, sizeof name), ctr_vtype_name(&item, other, sizeof other));
    s->param_bytes = sizeof *p + CTR_MAX((size_t)list->n, (size_t)1) * width;
    s->param = p = calloc(1, s->param_bytes);
    if (!p)
        return ctr_fail_nomem(err, s->param_bytes);
    s->param_free = free;
    s->param_texts = lane == CTR_LANE_STR ? in_texts : NULL;
    for (int k = 0; k < list->n; k++) {
        union item v;
        if (item_of(lane, &list->list[k], &v))
            memcpy((uint8_t *)(p + 1) + (size_t)(*p)++ * width, &v, width);
    }
    qsort(p + 1, (size_t)*p, width,
          lane == CTR_LANE_STR   ? by_s
          : lane == CTR_LANE_F64 ? ctr_by_f64
          : lane == CTR_LANE_U64 ? ctr_by_u64
                                 : ctr_by_i64);
    return 0;
}

/* The meaning of / before version 2 of the language: a quotient of integers was rounded down. */
const struct ctr_op ctr_op_old_quotient = { "/", "x / y -> number or duration", "quotient; of integers rounded down", 0,
                                            CTR_VARIANTS({ "ii>i", loop_div_i }, { "ff>f", loop_div_f },
                                                         { "di>d", loop_div_i }, { "dd>f", loop_div_d }) };

const struct ctr_op ctr_ops_infix[] = {
    { "or", "bool or bool -> bool",
      "true where one side is: false or true is true; null where neither is and one is null", CTR_OP_NULLS,
      CTR_VARIANTS({ "bb>b", loop_or }) },
    { "and", "bool and bool -> bool",
      "false where one side is: true and false is false; null where neither is and one is null", CTR_OP_NULLS,
      CTR_VARIANTS({ "bb>b", loop_and }) },
    { "not", "not bool -> bool", "the other truth value: not true is false", 0, CTR_VARIANTS({ "b>b", loop_not }) },
    { "==", "x == y -> bool", "equal, numbers by value whatever their types, text by bytes: 1 == 1.0 is true", 0,
      EQUALITY(loop_eq) },
    { "!=", "x != y -> bool", "not equal: \"a\" != \"A\" is true", 0, EQUALITY(loop_ne) },
    { "<", "x < y -> bool", "less, numbers by value, text by bytes, times: \"10\" < \"9\" is true", 0,
      COMPARISON(loop_lt) },
    { "<=", "x <= y -> bool", "less or equal: 2 <= 2 is true", 0, COMPARISON(loop_le) },
    { ">", "x > y -> bool", "greater: 10 > 9.5 is true", 0, COMPARISON(loop_gt) },
    { ">=", "x >= y -> bool", "greater or equal: 2 >= 3 is false", 0, COMPARISON(loop_ge) },
    { "in", "x in [value, ...] -> bool",
      "does x equal one of them, as by ==: 3 in [1, 3] is true; 3 not in [1, 3] is false", 0,
      CTR_VARIANTS({ "u[u!>b", loop_in_u }, { "i[i!>b", loop_in_i }, { "F[f!>b", loop_in_f }, { "t[t!>b", loop_in_t },
                   { "T[T!>b", loop_in_i }, { "d[d!>b", loop_in_i }, { "B[B!>b", loop_in_i }),
      NULL, prepare_in },
    { "+", "x + y -> number, time or duration",
      "sum: 1 + 2.5 is 3.5; of a time and a duration a time; null where int64 overflows", 0,
      CTR_VARIANTS({ "ii>i", loop_add_i }, { "ff>f", loop_add_f }, { "Td>T", loop_add_i }, { "dT>T", loop_add_i },
                   { "dd>d", loop_add_i }) },
    { "-", "x - y -> number, time or duration",
      "difference: 5 - 7 is -2; of two times a duration; null where int64 overflows", 0,
      CTR_VARIANTS({ "ii>i", loop_sub_i }, { "ff>f", loop_sub_f }, { "Td>T", loop_sub_i }, { "TT>d", loop_sub_i },
                   { "dd>d", loop_sub_i }) },
    { "*", "x * y -> number or duration", "product: 3 * 4 is 12; null where int64 overflows", 0,
      CTR_VARIANTS({ "ii>i", loop_mul_i }, { "ff>f", loop_mul_f }, { "di>d", loop_mul_i }, { "id>d", loop_mul_i }) },
    { "/", "x / y -> float or duration",
      "quotient, a float: 7 / 2 is 3.5; of integers null by 0; of two durations a float: 90m / 1h is 1.5; of a "
      "duration and an integer a duration",
      0, CTR_VARIANTS({ "jj>f", loop_ratio }, { "ff>f", loop_div_f }, { "di>d", loop_div_i }, { "dd>f", loop_div_d }),
      .identity = "/float" },
    { "//", "x // y -> int", "quotient rounded down to an integer: -7 // 2 is -4; null by 0 and outside int64", 0,
      CTR_VARIANTS({ "ui>i", loop_div_ui }, { "ii>i", loop_div_i }, { "ff>i", loop_quotient_f },
                   { "dd>i", loop_div_i }) },
    { "%", "x % y -> number or duration", "remainder with the sign of y: -7 % 2 is 1, so that x == x // y * y + x % y",
      0,
      CTR_VARIANTS({ "ui>i", loop_mod_ui }, { "ii>i", loop_mod_i }, { "ff>f", loop_mod_f }, { "dd>d", loop_mod_i }) },
    { "neg", "-x -> number or duration", "negated: -(2 + 3) is -5", 0,
      CTR_VARIANTS({ "i>i", loop_neg_i }, { "f>f", loop_neg_f }, { "d>d", loop_neg_i }) },
    { NULL },
};
