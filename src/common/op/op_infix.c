/* SPDX-License-Identifier: Apache-2.0
 *
 * op_infix: loops of the infix and unary operators. Integer arithmetic is in int64: a value or result outside its range
 * is null, and so is a division by 0; floats follow IEEE. Comparisons are exact between all types of numbers. */
#include "common/op/loop_infix.h"

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
      CTR_VARIANTS({ "ii>i", loop_div_i }, { "ff>i", loop_quotient_f }, { "dd>i", loop_div_i }) },
    { "%", "x % y -> number or duration", "remainder with the sign of y: -7 % 2 is 1, so that x == x // y * y + x % y",
      0, CTR_VARIANTS({ "ii>i", loop_mod_i }, { "ff>f", loop_mod_f }, { "dd>d", loop_mod_i }) },
    { "neg", "-x -> number or duration", "negated: -(2 + 3) is -5", 0,
      CTR_VARIANTS({ "i>i", loop_neg_i }, { "f>f", loop_neg_f }, { "d>d", loop_neg_i }) },
    { NULL },
};
