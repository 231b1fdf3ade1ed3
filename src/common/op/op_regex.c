/* SPDX-License-Identifier: Apache-2.0
 *
 * op_regex: operators by regular expressions. A pattern is compiled when the call is bound, into parameters that hold
 * no pointers but the text of a replacement: body_regex.h. */
#include "common/op/opregex.h"

#include <stdlib.h>

static struct opv_str *regex_texts(void *param, int k)
{
    return k == 0 ? &((struct op_regex *)param)->by : NULL;
}

/* Compile the pattern, argument 1, into s->param. */
static int prepare_regex(struct ctr_op_call *call, struct ctr_op_state *s, struct ctr_err *err)
{
    struct op_regex *p = calloc(1, sizeof *p), *whole = NULL;
    uint16_t *next = NULL;
    int rc = p ? ctr_regex_compile(s->op->name, &call->arg[1].literal->s, &p->re, err) : ctr_fail_nomem(err, sizeof *p);
    if (!rc)
        rc = ctr_regex_states(&p->re, &next, err);
    const size_t cells = rc ? 0 : (size_t)(p->re.nstates * p->re.nsymbols);
    if (!rc && !(whole = realloc(p, sizeof *p + cells * sizeof *next)))
        rc = ctr_fail_nomem(err, cells * sizeof *next);
    if (whole) {
        memcpy(whole->re.next, next, cells * sizeof *next);
        s->param_bytes = sizeof *whole + cells * sizeof *next;
    }
    s->param = whole ? whole : p;
    s->param_free = free;
    s->param_texts = regex_texts;
    free(next);
    return rc;
}

/* Of a pattern with a group that group, else all of the match. */
static int prepare_extract(struct ctr_op_call *call, struct ctr_op_state *s, struct ctr_err *err)
{
    const struct ctr_value *group = s->named[0];
    int rc = prepare_regex(call, s, err);
    if (rc)
        return rc;
    struct op_regex *p = s->param;
    if (group && (group->kind != CTR_V_INT || group->i < 0 || group->i > p->re.groups))
        return ctr_fail(err, CTR_EUSAGE, "extract: the pattern has %d group%s: group is 0, all of the match, to %d",
                        (int)p->re.groups, p->re.groups == 1 ? "" : "s", (int)p->re.groups);
    p->group = group ? group->i : p->re.groups > 0;
    return 0;
}

static int add_piece(struct op_regex *p, struct op_piece piece, struct ctr_err *err)
{
    if (piece.group < 0 && piece.from == piece.to)
        return 0;
    if (p->npieces == OP_PIECES)
        return ctr_fail(err, CTR_EUSAGE, "replace_matches: the replacement has more than %d pieces", OP_PIECES);
    p->piece[p->npieces++] = piece;
    p->groups += piece.group >= 0;
    p->plain_bytes += piece.group < 0 ? piece.to - piece.from : 0;
    return 0;
}

/* $0 is the match, $1 … $9 its groups, $$ a dollar. */
static int prepare_replace(struct ctr_op_call *call, struct ctr_op_state *s, struct ctr_err *err)
{
    const struct ctr_str by = call->arg[2].literal->s;
    int64_t from = 0;
    int rc = prepare_regex(call, s, err);
    struct op_regex *p = s->param;
    for (int64_t i = 0; !rc && i < (int64_t)by.n; i++) {
        if (by.p[i] != '$')
            continue;
        const char next = i + 1 < (int64_t)by.n ? by.p[i + 1] : 0;
        const int64_t group = next >= '0' && next <= '9' ? next - '0' : -1;
        if (next != '$' && (group < 0 || group > p->re.groups) && !p->re.groups)
            return ctr_fail(
                err, CTR_EUSAGE,
                "replace_matches: in the replacement $0 is the match and $$ is a dollar; the pattern has no "
                "(group) for $1");
        if (next != '$' && (group < 0 || group > p->re.groups))
            return ctr_fail(err, CTR_EUSAGE,
                            "replace_matches: in the replacement $0 is the match, $1 to $%d are the pattern's groups, "
                            "and $$ is a dollar",
                            (int)p->re.groups);
        rc = add_piece(p, (struct op_piece){ -1, from, i + (next == '$') }, err);
        if (!rc && next != '$')
            rc = add_piece(p, (struct op_piece){ group, 0, 0 }, err);
        from = i + 2;
        i++;
    }
    if (!rc)
        rc = add_piece(p, (struct op_piece){ -1, from, (int64_t)by.n }, err);
    if (!rc)
        p->by = (struct opv_str){ (const uint8_t *)by.p, (int64_t)by.n };
    return rc;
}

const struct ctr_op ctr_ops_regex[] = {
    { "matches", "matches(text, pattern: text) -> bool",
      "whether the regular expression matches anywhere: matches(\"ad-17\", \"^[a-z]+-[0-9]+$\") is true", CTR_OP_LIFT,
      CTR_VARIANTS({ "tt!>b", loop_matches }), NULL, prepare_regex },
    { "extract", "extract(text, pattern: text, group=1) -> text",
      "what the group of the first match holds, all of it where there are no groups: extract(\"ad-17-x\", "
      "\"-([0-9]+)\") "
      "is 17; null where there is no match",
      CTR_OP_LIFT, CTR_VARIANTS({ "tt!>t", loop_extract }), "group", prepare_extract },
    { "replace_matches", "replace_matches(text, pattern: text, by: text) -> text",
      "each match becomes by, in which $0 is the match and $1 its first group: replace_matches(\"a1b22\", \"[0-9]+\", "
      "\"<$0>\") is a<1>b<22>",
      CTR_OP_LIFT, CTR_VARIANTS({ "tt!t!>t", loop_replace_matches }), NULL, prepare_replace },
    { NULL },
};
