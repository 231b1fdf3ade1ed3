/* SPDX-License-Identifier: Apache-2.0
 *
 * body_regex: matching of regular expressions, in the subset of body.h. A pattern is a program (op_regex_compile.c)
 * whose instructions read symbols: classes of code points that no set of the pattern tells apart.
 *
 * Two machines run it, both in time proportional to the text whatever the pattern: opv_re_test, a table of states that
 * takes a step a byte and says whether there is a match (op_regex_dfa.c makes it, if it is small), and opv_re_search,
 * which follows all threads of the program at once and says where (R. Pike; "Regular Expression Matching: the Virtual
 * Machine Approach", R. Cox 2009). Of several matches it is the first, and of those at one place the one that Perl's
 * backtracking would find first.
 *
 * An own automaton and not a library: RE2 has no C interface in Debian, PCRE2 backtracks within limits that a hostile
 * text exceeds, and neither runs in a kernel.
 */
#ifndef CTR_BODY_REGEX_H
#define CTR_BODY_REGEX_H

#include "common/op/body_text.h"

enum opv_re_op {
    OPV_RE_MATCH,
    OPV_RE_SET,   /* x: a set; takes a symbol out of it */
    OPV_RE_JUMP,  /* to x */
    OPV_RE_SPLIT, /* to x, else y */
    OPV_RE_SAVE,  /* x: 2 * group for where it begins, + 1 for where it ends */
    OPV_RE_BEGIN, /* only at the begin of the text */
    OPV_RE_END,
    OPV_RE_WORD, /* x 1: only where a word begins or ends, 0: only elsewhere */
};
struct opv_re_inst {
    uint16_t op, x, y;
};
enum {
    OPV_RE_INSTS = 256,
    OPV_RE_SETS = 128,
    OPV_RE_RANGES = 512,
    OPV_RE_SYMBOLS = 256,
    OPV_RE_STATES = 1024,
    OPV_RE_GROUPS = 9,
};
/* Of a state: a match, a match if the text ends here, no match any more. */
enum { OPV_RE_FOUND = 1, OPV_RE_FOUND_AT_END = 2, OPV_RE_DEAD = 4 };

struct opv_re_set {
    uint64_t bits[OPV_RE_SYMBOLS / 64];
};
struct opv_regex {
    int64_t ninsts, nsymbols, nranges, nstates, groups;
    int64_t may_be_empty;    /* a match may begin without a symbol of `first` */
    struct opv_re_set first; /* symbols that a match may begin with */
    struct opv_re_inst inst[OPV_RE_INSTS];
    struct opv_re_set set[OPV_RE_SETS];
    uint32_t range[OPV_RE_RANGES];       /* ascending: where ranges of code points from 128 on begin */
    uint8_t range_symbol[OPV_RE_RANGES]; /* and their symbols */
    uint8_t ascii[128];
    uint8_t state[OPV_RE_STATES]; /* nstates of them, of OPV_RE_FOUND, … */
    uint16_t next[2];             /* nstates * nsymbols */
};

OPV_FN int opv_re_has(const struct opv_re_set *s, int64_t symbol)
{
    return (int)(s->bits[symbol >> 6] >> (symbol & 63) & 1);
}

/* The symbol at byte i of a, and how many bytes it has. */
OPV_FN int64_t opv_re_symbol(const struct opv_regex *re, struct opv_str a, int64_t i, int64_t *bytes)
{
    const uint8_t c = a.p[i];
    uint32_t cp = c;
    int64_t from = 0, to = re->nranges;
    *bytes = 1;
    if (c < 128)
        return re->ascii[c];
    *bytes = opv_utf8_step(c);
    if (*bytes > a.n - i)
        *bytes = a.n - i;
    cp &= *bytes == 2 ? 31 : *bytes == 3 ? 15 : 7;
    for (int64_t k = 1; k < *bytes; k++)
        cp = cp << 6 | (a.p[i + k] & 63);
    while (to - from > 1) {
        const int64_t half = (from + to) >> 1;
        if (re->range[half] <= cp)
            from = half;
        else
            to = half;
    }
    return re->range_symbol[from];
}

/* ---- threads ---- */

/* The threads at a place, the first choice first; [a, b) is where the group that is asked for was seen. */
struct opv_re_list {
    int64_t n;
    uint16_t pc[OPV_RE_INSTS];
    int32_t a[OPV_RE_INSTS], b[OPV_RE_INSTS];
};
struct opv_re_run {
    const struct opv_regex *re;
    struct opv_str text;
    int64_t slot; /* 2 * group */
    struct opv_re_list list[2], stack;
    uint32_t seen[OPV_RE_INSTS]; /* the place, counted, where an instruction is in the list */
};

OPV_FN int opv_re_word_byte(uint8_t c)
{
    return (uint8_t)((c | 32) - 'a') < 26 || (uint8_t)(c - '0') < 10 || c == '_';
}
OPV_FN int opv_re_holds(const struct opv_re_inst *in, struct opv_str a, int64_t i)
{
    int before, after;
    if (in->op == OPV_RE_BEGIN)
        return i == 0;
    if (in->op == OPV_RE_END)
        return i == a.n;
    before = i > 0 && opv_re_word_byte(a.p[i - 1]);
    after = i < a.n && opv_re_word_byte(a.p[i]);
    return (before != after) == in->x;
}

OPV_FN void opv_re_push(struct opv_re_list *l, int64_t pc, int32_t a, int32_t b)
{
    l->pc[l->n] = (uint16_t)pc;
    l->a[l->n] = a;
    l->b[l->n++] = b;
}
/* Add a thread, and those that it becomes without reading: depth first, in the order of their priority. Each
 * instruction comes once, so that the stack has room: only a split that is seen leaves something on it. */
OPV_FN void opv_re_add(struct opv_re_run *w, struct opv_re_list *l, uint32_t place, int64_t i, int64_t pc, int32_t a,
                       int32_t b)
{
    struct opv_re_list *stack = &w->stack;
    stack->n = 0;
    for (;;) {
        const struct opv_re_inst *in = w->re->inst + pc;
        int goes_on = w->seen[pc] != place;
        w->seen[pc] = place;
        if (goes_on && (in->op == OPV_RE_SET || in->op == OPV_RE_MATCH)) {
            opv_re_push(l, pc, a, b);
            goes_on = 0;
        } else if (goes_on && in->op == OPV_RE_SPLIT) {
            opv_re_push(stack, in->y, a, b);
            pc = in->x;
        } else if (goes_on && in->op == OPV_RE_JUMP) {
            pc = in->x;
        } else if (goes_on && in->op == OPV_RE_SAVE) {
            a = in->x == w->slot ? (int32_t)i : a;
            b = in->x == w->slot + 1 ? (int32_t)i : b;
            pc++;
        } else if (goes_on) {
            goes_on = opv_re_holds(in, w->text, i);
            pc++;
        }
        if (goes_on)
            continue;
        if (stack->n == 0)
            return;
        pc = stack->pc[--stack->n];
        a = stack->a[stack->n];
        b = stack->b[stack->n];
    }
}

/* From i on, the first place where a match may begin. */
OPV_FN int64_t opv_re_skip(const struct opv_regex *re, struct opv_str a, int64_t i)
{
    int64_t bytes;
    while (i < a.n && !opv_re_has(&re->first, opv_re_symbol(re, a, i, &bytes)))
        i += bytes;
    return i;
}
/* Take the symbol at i: the threads of `from` that may, in `to`. Returns whether one of them matches before it. */
OPV_FN int opv_re_step(struct opv_re_run *w, int at, uint32_t place, int64_t i, int64_t from, int advance,
                       struct opv_span *found, int64_t *bytes)
{
    const struct opv_re_list *l = &w->list[at];
    struct opv_re_list *to = &w->list[1 - at];
    const int64_t symbol = i < w->text.n ? opv_re_symbol(w->re, w->text, i, bytes) : -1;
    to->n = 0;
    for (int64_t k = 0; k < l->n; k++) {
        const struct opv_re_inst *in = w->re->inst + l->pc[k];
        if (in->op == OPV_RE_SET) {
            if (symbol >= 0 && opv_re_has(&w->re->set[in->x], symbol))
                opv_re_add(w, to, place + 1, i + *bytes, l->pc[k] + 1, l->a[k], l->b[k]);
        } else if (!(advance && i == from)) {
            found->from = l->a[k];
            found->to = l->b[k];
            return 1; /* what is behind it has less priority */
        }
    }
    return 0;
}
/* The first match at or after byte `from`, and in it the group, 0 all of it; from -1: the group took no part. advance:
 * a match is no empty one at `from`. */
OPV_FN int opv_re_search(const struct opv_regex *re, struct opv_str a, int64_t from, int64_t group, int advance,
                         struct opv_span *found)
{
    struct opv_re_run w;
    int matched = 0, at = 0;
    int64_t i = from;
    uint32_t place = 1;
    w.re = re;
    w.text = a;
    w.slot = 2 * group;
    w.list[0].n = 0;
    for (int64_t k = 0; k < re->ninsts; k++)
        w.seen[k] = 0;
    for (;; place++, at = 1 - at) {
        int64_t bytes = 1;
        if (w.list[at].n == 0 && matched)
            return 1;
        if (w.list[at].n == 0 && !re->may_be_empty) {
            i = opv_re_skip(re, a, i);
            place++; /* an assertion that failed before these bytes may hold behind them */
        }
        if (!matched)
            opv_re_add(&w, &w.list[at], place, i, 0, -1, -1);
        matched |= opv_re_step(&w, at, place, i, from, advance, found, &bytes);
        if (i >= a.n)
            return matched;
        i += bytes;
    }
}

/* Is there a match? */
OPV_FN int opv_re_test(const struct opv_regex *re, struct opv_str a)
{
    struct opv_span found;
    int64_t state = 0, bytes;
    if (re->nstates == 0)
        return opv_re_search(re, a, 0, 0, 0, &found);
    for (int64_t i = 0; i < a.n; i += bytes) {
        if (re->state[state] & (OPV_RE_FOUND | OPV_RE_DEAD))
            return re->state[state] & OPV_RE_FOUND;
        state = re->next[state * re->nsymbols + opv_re_symbol(re, a, i, &bytes)];
    }
    return (re->state[state] & (OPV_RE_FOUND | OPV_RE_FOUND_AT_END)) != 0;
}

#endif
