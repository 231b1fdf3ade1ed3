/* SPDX-License-Identifier: Apache-2.0
 *
 * op_json: json_get, json_list: bind parses the path into steps, the body walks the text. */
#include "common/op/loop_json.h"

#include <stdlib.h>

static int64_t parse_index(const char *p, int64_t n)
{
    int64_t v;

    return n > 0 && *p != '+' && ctr_parse_i64(p, (size_t)n, &v) && v >= 0 ? v : -1;
}

/* "user.id", "items.0.name", "items[0].name": dots between names, an array takes a number. */
static int parse_path(const char *p, int64_t n, struct op_path *to, struct ctr_err *err)
{
    int64_t i = 0;

    while (i < n) {
        struct opv_step *s = &to->step[to->n++];
        int64_t from = i;
        *s = (struct opv_step){ .index = -1 };
        if (p[i] == '[') {
            while (i < n && p[i] != ']')
                i++;
            s->index = parse_index(p + from + 1, i - from - 1);
            s->only_index = 1;
            if (i == n || s->index < 0)
                return ctr_fail(err, CTR_EUSAGE,
                                "json_get and json_list: in a path [ ] holds the number of an element: items[0].name");
            i++;
        } else {
            while (i < n && p[i] != '.' && p[i] != '[')
                i++;
            s->name = (struct opv_str){ (const uint8_t *)p + from, i - from };
            s->index = parse_index(p + from, i - from);
            if (i == from)
                return ctr_fail(
                    err, CTR_EUSAGE,
                    "json_get and json_list: the path has an empty name; write it as user.id or items[0].name");
        }
        if (i < n && p[i] == '.' && ++i == n)
            return ctr_fail(err, CTR_EUSAGE, "json_get and json_list: the path ends with a dot");
    }
    return 0;
}

/* For a device, which has its own memory. */
static struct opv_str *path_texts(void *param, int k)
{
    struct op_path *p = param;
    return k < p->n ? &p->step[k].name : NULL;
}

static int prepare_json_get(struct ctr_op_call *call, struct ctr_op_state *s, struct ctr_err *err)
{
    const struct ctr_str *text = &call->arg[1].literal->s;
    struct op_path *p = malloc(sizeof *p + (text->n + 1) * sizeof *p->step);

    if (!p)
        return ctr_fail_nomem(err, text->n * sizeof *p->step);
    s->param = p;
    s->param_free = free;
    s->param_texts = path_texts;
    s->param_bytes = sizeof *p + (text->n + 1) * sizeof *p->step;
    memset(p, 0, s->param_bytes);
    return parse_path(text->p, (int64_t)text->n, p, err);
}

const struct ctr_op ctr_ops_json[] = {
    { "json_get", "json_get(text, path: text) -> text",
      "what a JSON text has at a path such as \"user.id\" or \"items[0].name\": json_get(\"{\\\"a\\\":[1,2]}\", "
      "\"a[1]\") is 2; null where it has nothing",
      CTR_OP_LIFT, CTR_VARIANTS({ "tt!>t", loop_json_get }), NULL, prepare_json_get },
    { "json_list", "json_list(text, path: text) -> list of text",
      "the elements of the array that a JSON text has at a path, but for nulls: "
      "json_list(\"{\\\"a\\\":[1,\\\"x\\\"]}\", \"a\") is [1,x]; null where there is no array",
      0, CTR_VARIANTS({ "tt!>[t", loop_json_list }), NULL, prepare_json_get },
    { NULL },
};
