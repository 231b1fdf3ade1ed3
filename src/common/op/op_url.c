/* SPDX-License-Identifier: Apache-2.0
 *
 * op_url: replacement in texts, and the parts of URLs. Bodies: opbody_url.h. */
#include "common/op/opbody_url.h"
#include "common/op/opint.h"

#include <stdlib.h>

#define STR(t, k, i) (((const struct opv_str *)(t)->in[k].v)[i])
#define LENGTH(t, i) STR(t, 0, i).n

/* As many occurrences as have room, each with what takes its place. */
static inline int64_t replace_max(const struct ctr_op_tile *t, int i)
{
    const int64_t n = LENGTH(t, i), most = n / CTR_MAX(STR(t, 1, i).n, (int64_t)1);
    return n + most * STR(t, 2, i).n;
}
#define REPLACE(t, i, s) opv_replace_write(STR(t, 0, i), STR(t, 1, i), STR(t, 2, i), s)
CTR_LOOP_TEXT(loop_replace, replace_max, REPLACE)

#define PART(t, i, s) opv_url_part_write(STR(t, 0, i), *(const int64_t *)(t)->param, s, &(t)->ok[i])
CTR_LOOP_TEXT(loop_url_part, LENGTH, PART)
#define VALUE(t, i, s) opv_query_value_write(STR(t, 0, i), STR(t, 1, i), s, &(t)->ok[i])
CTR_LOOP_TEXT(loop_query_value, LENGTH, VALUE)
#define DECODE(t, i, s) opv_url_decode_write(STR(t, 0, i), s, &(t)->ok[i])
CTR_LOOP_TEXT(loop_url_decode, LENGTH, DECODE)

static int prepare_part(struct ctr_op_call *call, struct ctr_op_state *s, struct ctr_err *err)
{
    static const char *const parts[] = {
        [OPV_URL_SCHEME] = "scheme", [OPV_URL_HOST] = "host",   [OPV_URL_PORT] = "port",
        [OPV_URL_PATH] = "path",     [OPV_URL_QUERY] = "query", [OPV_URL_FRAGMENT] = "fragment"
    };
    const struct ctr_str name = call->arg[1].literal->s;
    int64_t *part = s->param = calloc(1, sizeof *part);
    if (!part)
        return ctr_fail_nomem(err, sizeof *part);
    s->param_free = free;
    for (; *part < (int64_t)CTR_COUNT(parts); ++*part)
        if (strlen(parts[*part]) == name.n && !memcmp(parts[*part], name.p, name.n))
            return 0;
    return ctr_fail(err, CTR_EUSAGE,
                    "url_part: there is no part '%.*s'; there are scheme, host, port, path, query, "
                    "fragment",
                    (int)CTR_MIN(name.n, (size_t)40), name.p);
}

const struct ctr_op ctr_ops_url[] = {
    { "replace", "replace(text, what: text, by: text) -> text",
      "each occurrence of what becomes by, from the left: replace(\"a.b\", \".\", \"-\") is a-b", CTR_OP_LIFT,
      CTR_VARIANTS({ "ttt>t", loop_replace }) },
    { "url_part", "url_part(url: text, part: text) -> text",
      "scheme, host, port, path, query or fragment (RFC 3986): url_part(\"http://h/p?q=1\", \"host\") is h; null where "
      "there is none",
      CTR_OP_LIFT, CTR_VARIANTS({ "tt!>t", loop_url_part }), NULL, prepare_part },
    { "query_value", "query_value(text, name: text) -> text",
      "of the first name=value in the query of a URL, or in all of a text without ?: query_value(\"a=1&b=2\", \"b\") "
      "is 2; null where there is none",
      CTR_OP_LIFT, CTR_VARIANTS({ "tt>t", loop_query_value }) },
    { "url_decode", "url_decode(text) -> text",
      "%HH becomes the byte HH and + a blank: url_decode(\"a%2Bb+c\") is a+b c; null where the bytes are no UTF-8 or "
      "one is 0",
      CTR_OP_LIFT, CTR_VARIANTS({ "t>t", loop_url_decode }) },
    { NULL },
};
