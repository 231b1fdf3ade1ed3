/* SPDX-License-Identifier: Apache-2.0
 *
 * op_url: replacement in texts, and the parts of URLs. Bodies: body_url.h. */
#include "common/op/loop_url.h"

#include <stdlib.h>

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
    s->param_bytes = sizeof *part;
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
