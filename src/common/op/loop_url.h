/* SPDX-License-Identifier: Apache-2.0
 *
 * loop_url: the loops of op_url.c, for the host and for a device: loop.h. */
#ifndef CTR_LOOP_URL_H
#define CTR_LOOP_URL_H

#include "common/op/body_url.h"
#include "common/op/loop_text.h"

/* The maximum number of occurrences, each with its replacement. */
OPV_FN int64_t op_replace_max(const struct ctr_op_tile *t, int i)
{
    const int64_t n = OP_BYTES(t, i), what = OP_STR(t, 1, i).n;
    return n + n / (what > 1 ? what : 1) * OP_STR(t, 2, i).n;
}
#define REPLACE(t, i, s) opv_replace_write(OP_STR(t, 0, i), OP_STR(t, 1, i), OP_STR(t, 2, i), s)
CTR_LOOP_TEXT(loop_replace, op_replace_max, REPLACE)

#define PART(t, i, s) opv_url_part_write(OP_STR(t, 0, i), *(const int64_t *)(t)->param, s, &(t)->ok[i])
CTR_LOOP_TEXT(loop_url_part, OP_BYTES, PART)
#define VALUE(t, i, s) opv_query_value_write(OP_STR(t, 0, i), OP_STR(t, 1, i), s, &(t)->ok[i])
CTR_LOOP_TEXT(loop_query_value, OP_BYTES, VALUE)
#define DECODE(t, i, s) opv_url_decode_write(OP_STR(t, 0, i), s, &(t)->ok[i])
CTR_LOOP_TEXT(loop_url_decode, OP_BYTES, DECODE)

#endif
