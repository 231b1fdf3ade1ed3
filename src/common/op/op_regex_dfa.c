/* SPDX-License-Identifier: Apache-2.0
 *
 * op_regex_dfa: the program of a pattern as a table of states, for opv_re_test: a state is the set of instructions that
 * threads can be at, before each byte of which a match may also begin anew. Invariant: state 0, before the first byte,
 * is entered by no step, so that ^ holds in it alone. */
#include "common/op/opregex.h"

#include <stdlib.h>

enum { WORDS = OPV_RE_INSTS / 64, SLOTS = 4 * OPV_RE_STATES, MOST_CELLS = 1 << 16 };

struct threads {
    uint64_t bits[WORDS];
};
struct maker {
    struct opv_regex *re;
    struct threads state[OPV_RE_STATES];
    uint16_t slot[SLOTS]; /* 1 + state, by the hash of its threads */
    int most;
};

static bool has(const struct threads *t, int pc)
{
    return t->bits[pc >> 6] >> (pc & 63) & 1;
}
static void put(struct threads *t, int pc)
{
    t->bits[pc >> 6] |= UINT64_C(1) << (pc & 63);
}

/* Add the instructions that are reached from pc without reading: those that read, the match and each $ that has not
 * passed. */
static void reach(const struct opv_regex *re, int pc, bool begin, bool end, struct threads *to)
{
    uint16_t stack[2 * OPV_RE_INSTS + 2];
    struct threads seen = { { 0 } };
    int n = 0;
    stack[n++] = (uint16_t)pc;
    while (n) {
        const int k = stack[--n];
        const struct opv_re_inst *in = &re->inst[k];
        if (has(&seen, k))
            continue;
        put(&seen, k);
        if (in->op == OPV_RE_SET || in->op == OPV_RE_MATCH || (in->op == OPV_RE_END && !end))
            put(to, k);
        else if (in->op == OPV_RE_SPLIT || in->op == OPV_RE_JUMP)
            stack[n++] = in->x;
        else if (in->op != OPV_RE_BEGIN || begin)
            stack[n++] = (uint16_t)(k + 1);
        if (in->op == OPV_RE_SPLIT)
            stack[n++] = in->y;
    }
}

static uint8_t kind_of(const struct opv_regex *re, const struct threads *t, bool first)
{
    struct threads at_end = { { 0 } };
    bool found = false, any = false, found_at_end = false;
    for (int pc = 0; pc < re->ninsts; pc++) {
        if (!has(t, pc))
            continue;
        any = true;
        found |= re->inst[pc].op == OPV_RE_MATCH;
        if (re->inst[pc].op == OPV_RE_END)
            reach(re, pc + 1, first, true, &at_end);
    }
    for (int pc = 0; pc < re->ninsts; pc++)
        found_at_end |= has(&at_end, pc) && re->inst[pc].op == OPV_RE_MATCH;
    return (uint8_t)((found ? OPV_RE_FOUND : 0) | (found_at_end ? OPV_RE_FOUND_AT_END : 0) | (any ? 0 : OPV_RE_DEAD));
}

/* The number of the state with these threads, or -1: there are too many. */
static int number_of(struct maker *m, const struct threads *t)
{
    size_t at = ctr_hash64(t, sizeof *t, 0) % SLOTS;
    for (; m->slot[at]; at = (at + 1) % SLOTS)
        if (!memcmp(&m->state[m->slot[at] - 1], t, sizeof *t))
            return m->slot[at] - 1;
    if (m->re->nstates == m->most)
        return -1;
    m->state[m->re->nstates] = *t;
    m->re->state[m->re->nstates] = kind_of(m->re, t, false);
    m->slot[at] = (uint16_t)(m->re->nstates + 1);
    return (int)m->re->nstates++;
}

/* The threads of state s after each symbol: false: there are too many states. */
static bool step(struct maker *m, int s, const struct threads *anew, uint16_t *next)
{
    const struct opv_regex *re = m->re;
    for (int64_t symbol = 0; symbol < re->nsymbols; symbol++) {
        struct threads t = *anew;
        for (int pc = 0; pc < re->ninsts; pc++)
            if (has(&m->state[s], pc) && re->inst[pc].op == OPV_RE_SET && opv_re_has(&re->set[re->inst[pc].x], symbol))
                reach(re, pc + 1, false, false, &t);
        const int to = number_of(m, &t);
        if (to < 0)
            return false;
        next[s * re->nsymbols + symbol] = (uint16_t)to;
    }
    return true;
}

int ctr_regex_states(struct opv_regex *re, uint16_t **next, struct ctr_err *err)
{
    struct maker *m = calloc(1, sizeof *m);
    bool good = true;
    *next = NULL;
    re->nstates = 0;
    for (int64_t pc = 0; pc < re->ninsts; pc++)
        if (re->inst[pc].op == OPV_RE_WORD)
            good = false;
    const size_t cells = (size_t)CTR_MIN(MOST_CELLS, OPV_RE_STATES * re->nsymbols);
    *next = calloc(cells, sizeof **next);
    if (!m || !*next) {
        free(m);
        return ctr_fail_nomem(err, cells * sizeof **next);
    }
    struct threads anew = { { 0 } };
    m->re = re;
    m->most = (int)CTR_MIN(cells / (size_t)re->nsymbols, (size_t)OPV_RE_STATES);
    reach(re, 0, true, false, &m->state[0]);
    re->state[0] = kind_of(re, &m->state[0], true);
    re->nstates = 1;
    reach(re, 0, false, false, &anew);
    for (int s = 0; good && s < re->nstates; s++)
        good = re->state[s] & OPV_RE_FOUND || step(m, s, &anew, *next); /* nothing follows a match */
    re->nstates = good ? re->nstates : 0;
    free(m);
    return 0;
}
