/* SPDX-License-Identifier: Apache-2.0
 *
 * loop_json: the loop of op_json.c, for the host and for a device: loop.h. */
#ifndef CTR_LOOP_JSON_H
#define CTR_LOOP_JSON_H

#include "common/op/body_json.h"
#include "common/op/loop_text.h"

struct op_path {
    int64_t n;
    struct opv_step step[1]; /* n of them */
};
#define PATH                ((const struct op_path *)(t)->param)
#define JSON_WRITE(t, i, s) opv_json_get_write(OP_STR(t, 0, i), PATH->step, PATH->n, s, &(t)->ok[i])
CTR_LOOP_TEXT(loop_json_get, OP_BYTES, JSON_WRITE)
#define JSON_ITEMS(t, i)         opv_json_list_items(OP_STR(t, 0, i))
#define JSON_LIST_WRITE(t, i, s) opv_json_list_write(OP_STR(t, 0, i), PATH->step, PATH->n, s, &(t)->ok[i])
CTR_LOOP_TEXTS(loop_json_list, OP_BYTES, JSON_ITEMS, JSON_LIST_WRITE)

#endif
