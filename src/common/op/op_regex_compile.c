/* SPDX-License-Identifier: Apache-2.0
 *
 * op_regex_compile: a pattern as a program of opv_re_inst, by recursive descent over
 *
 *     alternatives := sequence ("|" sequence)*
 *     sequence     := (atom ("*" | "+" | "?" | "{" n ["," [m]] "}") ["?"])*
 *     atom         := character | "." | "[" class "]" | "(" ["?:"] alternatives ")" | "^" | "$" | "\" escape
 *
 * into a tree of nodes, whose repetitions are then written out: x{2,3} is x x (x)?. \d, \w, \s, \b and (?i) are of
 * ASCII. What no machine of states can do is refused: back references and looking around. */
#include "common/op/opregex.h"

#include <stdlib.h>

enum { MOST_NODES = 1024, MOST_RANGES = 128, MOST_DEPTH = 64, MOST_TIMES = 255, MOST_CP = 0x10ffff };

enum kind { EMPTY, SET, THEN, EITHER, REPEAT, GROUP, ASSERT };
struct node {
    enum kind kind;
    int a, b;     /* nodes; SET: its number; GROUP: b is its number; ASSERT: a the instruction, b its x */
    int min, max; /* REPEAT; max -1: no limit */
    bool lazy;
};
/* A set of code points: ascending ranges. */
struct range {
    uint32_t from, to;
};
struct set {
    int n;
    struct range range[MOST_RANGES];
};
struct compiler {
    const char *op, *text;
    size_t n, i;
    int depth, nodes, sets;
    bool any_case, dot_all;
    struct opv_regex *re;
    struct ctr_err *err;
    struct node node[MOST_NODES];
    struct set set[OPV_RE_SETS];
};

/* a(b|cd)* becomes the nodes GROUP 0 (THEN (a, REPEAT (GROUP 1 (EITHER (b, THEN (c, d)))))), with some EMPTY ones, and
 * then the program
 *
 *     0 SAVE 0    2 SPLIT 3, else 11    4 SPLIT 5, else 7    7 SET c    10 JUMP 2
 *     1 SET a     3 SAVE 2              5 SET b              8 SET d    11 SAVE 1
 *                                       6 JUMP 9             9 SAVE 3   12 MATCH
 *
 * SAVE 2g and 2g + 1 are where group g begins and ends; group 0 is the match. A split prefers its first target; that of
 * a lazy repetition has the two exchanged (aim). A set has symbols, not characters: make_symbols gives one symbol to
 * all characters that are in the same sets, here 1 to a, 2 to b, 3 to c, 4 to d and 0 to all others. `first` is {a}. */

static int refuse(struct compiler *c, const char *why)
{
    return ctr_fail(c->err, CTR_EUSAGE, "%s: the pattern %.*s: at character %zu: %s", c->op,
                    (int)CTR_MIN(c->n, (size_t)60), c->text, c->i + 1, why);
}

static int add_node(struct compiler *c, struct node n)
{
    if (c->nodes == MOST_NODES)
        return refuse(c, "the pattern is too long");
    c->node[c->nodes] = n;
    return c->nodes++;
}

/* ---- sets ---- */

static int add_range(struct compiler *c, struct set *s, uint32_t from, uint32_t to)
{
    if (s->n == MOST_RANGES)
        return refuse(c, "a class has too many ranges");
    s->range[s->n++] = (struct range){ from, to };
    return 0;
}

static void sort_ranges(struct set *s)
{
    int n = 0;
    qsort(s->range, (size_t)s->n, sizeof *s->range, ctr_by_u32);
    for (int i = 0; i < s->n; i++)
        if (n && s->range[i].from <= s->range[n - 1].to + 1)
            s->range[n - 1].to = CTR_MAX(s->range[n - 1].to, s->range[i].to);
        else
            s->range[n++] = s->range[i];
    s->n = n;
}

static int negate(struct compiler *c, struct set *s)
{
    struct set other = { 0 };
    uint32_t from = 0;
    int rc = 0;
    sort_ranges(s);
    for (int i = 0; !rc && i < s->n; i++) {
        if (s->range[i].from > from)
            rc = add_range(c, &other, from, s->range[i].from - 1);
        from = s->range[i].to + 1;
    }
    if (!rc && from <= MOST_CP)
        rc = add_range(c, &other, from, MOST_CP);
    *s = other;
    return rc;
}

/* The other case of ASCII letters. */
static int add_cases(struct compiler *c, struct set *s)
{
    int rc = 0;
    for (int i = 0, n = s->n; !rc && i < n; i++)
        for (uint32_t k = 0; !rc && k < 2; k++) {
            const uint32_t letter = k ? 'a' : 'A';
            const uint32_t from = CTR_MAX(s->range[i].from, letter), to = CTR_MIN(s->range[i].to, letter + 25);
            if (from <= to)
                rc = add_range(c, s, from ^ 32, to ^ 32);
        }
    return rc;
}

/* The number of the set, which is one of those before if it is the same. */
static int number_of(struct compiler *c, struct set *s)
{
    if (c->any_case && add_cases(c, s))
        return c->err->code;
    sort_ranges(s);
    for (int i = 0; i < c->sets; i++)
        if (c->set[i].n == s->n && !memcmp(c->set[i].range, s->range, (size_t)s->n * sizeof *s->range))
            return i;
    if (c->sets == OPV_RE_SETS)
        return refuse(c, "the pattern has too many different characters and classes");
    c->set[c->sets] = *s;
    return c->sets++;
}

static int set_node(struct compiler *c, struct set *s)
{
    const int k = number_of(c, s);
    return k < 0 ? k : add_node(c, (struct node){ .kind = SET, .a = k });
}

/* \d \w \s and their opposites: 1; 0: no such class. */
static int add_class(struct compiler *c, struct set *to, char letter)
{
    static const struct {
        char letter;
        const char *ranges;
    } classes[] = { { 'd', "09" }, { 'w', "09AZ__az" }, { 's', "\t\r  " } };
    for (size_t k = 0; k < CTR_COUNT(classes); k++) {
        struct set s = { 0 };
        int rc = 0;
        if (classes[k].letter != (letter | 32))
            continue;
        for (const char *p = classes[k].ranges; !rc && *p; p += 2)
            rc = add_range(c, &s, (uint8_t)p[0], (uint8_t)p[1]);
        if (!rc && letter < 'a')
            rc = negate(c, &s);
        for (int i = 0; !rc && i < s.n; i++)
            rc = add_range(c, to, s.range[i].from, s.range[i].to);
        return rc ? rc : 1;
    }
    return 0;
}

/* ---- characters ---- */

static bool at(const struct compiler *c, char ch)
{
    return c->i < c->n && c->text[c->i] == ch;
}

static uint32_t take_cp(struct compiler *c)
{
    const uint8_t *p = (const uint8_t *)c->text + c->i;
    size_t n = (size_t)opv_utf8_step(*p);
    n = CTR_MIN(n, c->n - c->i);
    uint32_t cp = n == 1 ? *p : *p & (n == 2 ? 31u : n == 3 ? 15u : 7u);
    for (size_t k = 1; k < n; k++)
        cp = cp << 6 | (p[k] & 63);
    c->i += n;
    return cp;
}

/* The character after a backslash that is no class: 1; 0: it has none. */
static int take_escape(struct compiler *c, uint32_t *cp)
{
    static const char letters[] = "nrtfv0", values[] = "\n\r\t\f\v";
    const char ch = c->text[c->i];
    const char *letter = strchr(letters, ch);
    if (ch && letter) {
        *cp = (uint8_t)values[letter - letters];
        c->i++;
        return 1;
    }
    if (ch == 'x') {
        *cp = 0;
        for (int k = 1; k <= 2; k++) {
            const char h = c->i + (size_t)k < c->n ? c->text[c->i + (size_t)k] : 'x';
            const int v = ctr_hex_digit(h);
            if (v < 0)
                return refuse(c, "\\x wants two hexadecimal digits");
            *cp = *cp * 16 + (uint32_t)v;
        }
        c->i += 3;
        return 1;
    }
    if ((uint8_t)((ch | 32) - 'a') < 26 || (ch >= '1' && ch <= '9'))
        return 0;
    *cp = take_cp(c);
    return 1;
}

/* One character of a class, or a class in it (*single false). */
static int take_member(struct compiler *c, struct set *s, uint32_t *cp, bool *single)
{
    *single = true;
    if (!at(c, '\\')) {
        *cp = take_cp(c);
        return 0;
    }
    if (++c->i == c->n)
        return refuse(c, "it ends with a backslash");
    int rc = add_class(c, s, c->text[c->i]);
    if (rc == 1) {
        c->i++;
        *single = false;
    }
    if (rc)
        return CTR_MIN(rc, 0);
    rc = take_escape(c, cp);
    return rc > 0 ? 0 : rc ? rc : refuse(c, "unknown escape in a class");
}

static int parse_class(struct compiler *c)
{
    struct set s = { 0 };
    bool opposite, first = true, single;
    int rc = 0;
    c->i++;
    opposite = at(c, '^');
    c->i += opposite;
    for (; !rc && (first || !at(c, ']')); first = false) {
        uint32_t from = 0, to = 0;
        if (c->i >= c->n)
            return refuse(c, "the [ is not closed");
        if (at(c, '[') && c->i + 1 < c->n && c->text[c->i + 1] == ':')
            return refuse(c, "there are no classes such as [:alpha:]: write [A-Za-z], \\d, \\w or \\s");
        rc = take_member(c, &s, &from, &single);
        to = from;
        if (!rc && single && at(c, '-') && c->i + 1 < c->n && c->text[c->i + 1] != ']') {
            c->i++;
            rc = take_member(c, &s, &to, &single);
            if (!rc && (!single || to < from))
                rc = refuse(c, "a range of a class goes up, from one character to another");
        }
        if (!rc && single)
            rc = add_range(c, &s, from, to);
    }
    c->i++;
    if (!rc && c->any_case)
        rc = add_cases(c, &s);
    if (!rc && opposite)
        rc = negate(c, &s);
    const bool any_case = c->any_case; /* done, before the opposite */
    c->any_case = false;
    if (!rc)
        rc = set_node(c, &s);
    c->any_case = any_case;
    return rc;
}

static int character(struct compiler *c, uint32_t cp)
{
    struct set s = { .n = 1, .range = { { cp, cp } } };
    return set_node(c, &s);
}

static int dot(struct compiler *c)
{
    struct set s = { .n = 2, .range = { { 0, '\n' - 1 }, { '\n' + 1, MOST_CP } } };
    if (c->dot_all)
        s = (struct set){ .n = 1, .range = { { 0, MOST_CP } } };
    return set_node(c, &s);
}

static int parse_escape(struct compiler *c)
{
    struct set s = { 0 };
    uint32_t cp;
    if (++c->i == c->n)
        return refuse(c, "it ends with a backslash");
    const char ch = c->text[c->i];
    int rc = add_class(c, &s, ch);
    if (rc == 1) {
        c->i++;
        return set_node(c, &s);
    }
    if (ch == 'b' || ch == 'B') {
        c->i++;
        return add_node(c, (struct node){ .kind = ASSERT, .a = OPV_RE_WORD, .b = ch == 'b' });
    }
    if (ch >= '1' && ch <= '9')
        return refuse(c, "there are no back references: no machine of states has them");
    if (!rc)
        rc = take_escape(c, &cp);
    return rc > 0 ? character(c, cp) : rc ? rc : refuse(c, "unknown escape; a backslash in a plan's text is \\\\");
}

/* ---- structure ---- */

static int parse_alternatives(struct compiler *c);

static int parse_group(struct compiler *c)
{
    int number = 0;
    c->i++;
    if (at(c, '?')) {
        c->i++;
        if (!at(c, ':'))
            return refuse(c, "after (? comes : (a group that is not counted); (?i) and (?s) are at the start of a "
                             "pattern; there is no looking around");
        c->i++;
    } else if (++c->re->groups > OPV_RE_GROUPS) {
        return refuse(c, "more than 9 groups; (?:…) is not counted");
    } else {
        number = (int)c->re->groups;
    }
    if (++c->depth > MOST_DEPTH)
        return refuse(c, "groups are nested too deeply");
    const int inner = parse_alternatives(c);
    c->depth--;
    if (inner < 0)
        return inner;
    if (!at(c, ')'))
        return refuse(c, "a ( is not closed");
    c->i++;
    return number ? add_node(c, (struct node){ .kind = GROUP, .a = inner, .b = number }) : inner;
}

static int parse_atom(struct compiler *c)
{
    switch (c->text[c->i]) {
    case '.': c->i++; return dot(c);
    case '[': return parse_class(c);
    case '(': return parse_group(c);
    case '\\': return parse_escape(c);
    case '^': c->i++; return add_node(c, (struct node){ .kind = ASSERT, .a = OPV_RE_BEGIN });
    case '$': c->i++; return add_node(c, (struct node){ .kind = ASSERT, .a = OPV_RE_END });
    case '*':
    case '+':
    case '?': return refuse(c, "there is nothing to repeat; \\\\ before it makes it a character");
    default: return character(c, take_cp(c));
    }
}

static bool take_times(struct compiler *c, size_t *i, int *v)
{
    const size_t from = *i;
    *v = 0;
    for (; *i < c->n && c->text[*i] >= '0' && c->text[*i] <= '9' && *v <= MOST_TIMES; ++*i)
        *v = *v * 10 + (c->text[*i] - '0');
    return *i > from;
}

/* {n}, {n,}, {n,m}: 1; else it is a character: 0. */
static int take_braces(struct compiler *c, struct node *r)
{
    size_t i = c->i + 1;
    if (!take_times(c, &i, &r->min))
        return 0;
    r->max = r->min;
    if (i < c->n && c->text[i] == ',') {
        i++;
        if (!take_times(c, &i, &r->max))
            r->max = -1;
    }
    if (i >= c->n || c->text[i] != '}')
        return 0;
    if (r->min > MOST_TIMES || r->max > MOST_TIMES || (r->max >= 0 && r->max < r->min))
        return refuse(c, "{n,m} wants n up to m, at most 255");
    c->i = i + 1;
    return 1;
}

/* The sign of repetition at c->i: 1; none: 0. */
static int take_repeat(struct compiler *c, struct node *r)
{
    *r = (struct node){ .kind = REPEAT, .min = at(c, '+'), .max = at(c, '?') ? 1 : -1 };
    int rc = 1;
    if (at(c, '*') || at(c, '+') || at(c, '?'))
        c->i++;
    else
        rc = at(c, '{') ? take_braces(c, r) : 0;
    if (rc == 1 && at(c, '?')) {
        r->lazy = true;
        c->i++;
    }
    return rc;
}

static int parse_sequence(struct compiler *c)
{
    int all = add_node(c, (struct node){ .kind = EMPTY });
    while (all >= 0 && c->i < c->n && !at(c, '|') && !at(c, ')')) {
        struct node r;
        int one = parse_atom(c), rc = 0;
        if (one >= 0 && (rc = take_repeat(c, &r)) == 1) {
            r.a = one;
            one = add_node(c, r);
            if (one >= 0 && (at(c, '*') || at(c, '+') || at(c, '?') || (at(c, '{') && take_braces(c, &r) != 0)))
                return refuse(c, "it is repeated twice; put ( ) around what is repeated");
        }
        if (one < 0 || rc < 0)
            return CTR_MIN(one, rc);
        all = add_node(c, (struct node){ .kind = THEN, .a = all, .b = one });
    }
    return all;
}

static int parse_alternatives(struct compiler *c)
{
    int all = parse_sequence(c);
    while (all >= 0 && at(c, '|')) {
        c->i++;
        const int other = parse_sequence(c);
        all = other < 0 ? other : add_node(c, (struct node){ .kind = EITHER, .a = all, .b = other });
    }
    return all;
}

/* ---- the program ---- */

static int emit(struct compiler *c, enum opv_re_op op, int x, int y)
{
    struct opv_regex *re = c->re;
    if (re->ninsts == OPV_RE_INSTS)
        return refuse(c, "written out, the pattern has more than 256 steps: repeat less, or use fewer characters");
    re->inst[re->ninsts] = (struct opv_re_inst){ (uint16_t)op, (uint16_t)x, (uint16_t)y };
    return (int)re->ninsts++;
}

static int here(const struct compiler *c)
{
    return (int)c->re->ninsts;
}

/* Where a split at `at` goes first: into the repeated, or past it when lazy. */
static void aim(struct compiler *c, int split, int into, int past, bool lazy)
{
    c->re->inst[split].x = (uint16_t)(lazy ? past : into);
    c->re->inst[split].y = (uint16_t)(lazy ? into : past);
}

static int write_node(struct compiler *c, int k);

static int write_repeat(struct compiler *c, const struct node *r)
{
    int split[MOST_TIMES + 1], rc = 0, last = here(c);
    for (int i = 0; rc >= 0 && i < r->min; i++) {
        last = here(c);
        rc = write_node(c, r->a);
        if (here(c) == last) /* nothing, as often as it may come */
            return rc;
    }
    if (rc < 0 || r->max == r->min)
        return rc;
    if (r->max < 0 && r->min > 0) { /* back to the last of them */
        rc = emit(c, OPV_RE_SPLIT, 0, 0);
        if (rc >= 0)
            aim(c, rc, last, here(c), r->lazy);
        return rc;
    }
    const int optional = r->max < 0 ? 1 : r->max - r->min;
    for (int i = 0; rc >= 0 && i < optional; i++) {
        rc = split[i] = emit(c, OPV_RE_SPLIT, 0, 0);
        if (rc >= 0)
            rc = write_node(c, r->a);
    }
    if (rc >= 0 && r->max < 0)
        rc = emit(c, OPV_RE_JUMP, split[0], 0);
    for (int i = 0; rc >= 0 && i < optional; i++)
        aim(c, split[i], split[i] + 1, here(c), r->lazy);
    return rc;
}

static int write_either(struct compiler *c, const struct node *n)
{
    const int split = emit(c, OPV_RE_SPLIT, 0, 0);
    int rc = split < 0 ? split : write_node(c, n->a), jump = 0;
    if (rc >= 0)
        rc = jump = emit(c, OPV_RE_JUMP, 0, 0);
    if (rc < 0)
        return rc;
    aim(c, split, split + 1, here(c), false);
    rc = write_node(c, n->b);
    c->re->inst[jump].x = (uint16_t)here(c);
    return rc;
}

static int write_node(struct compiler *c, int k)
{
    const struct node n = c->node[k];
    int rc = 0;
    switch (n.kind) {
    case EMPTY: return 0;
    case SET: return emit(c, OPV_RE_SET, n.a, 0);
    case ASSERT: return emit(c, (enum opv_re_op)n.a, n.b, 0);
    case REPEAT: return write_repeat(c, &n);
    case EITHER: return write_either(c, &n);
    case THEN: rc = write_node(c, n.a); return rc < 0 ? rc : write_node(c, n.b);
    case GROUP: break;
    }
    rc = emit(c, OPV_RE_SAVE, 2 * n.b, 0);
    if (rc >= 0)
        rc = write_node(c, n.a);
    return rc < 0 ? rc : emit(c, OPV_RE_SAVE, 2 * n.b + 1, 0);
}

/* ---- symbols ---- */

static bool in_set(const struct set *s, uint32_t cp)
{
    for (int i = 0; i < s->n; i++)
        if (cp >= s->range[i].from && cp <= s->range[i].to)
            return true;
    return false;
}

/* The symbol of the code points that are in the same sets as cp: one that is there, or a new one. */
static int symbol_of(struct compiler *c, uint32_t cp, uint32_t *sample)
{
    struct opv_regex *re = c->re;
    for (int64_t k = 0; k < re->nsymbols; k++) {
        int i = 0;
        while (i < c->sets && in_set(&c->set[i], cp) == in_set(&c->set[i], sample[k]))
            i++;
        if (i == c->sets)
            return (int)k;
    }
    if (re->nsymbols == OPV_RE_SYMBOLS)
        return refuse(c, "the pattern has too many different characters and classes");
    for (int i = 0; i < c->sets; i++)
        re->set[i].bits[re->nsymbols >> 6] |= (uint64_t)in_set(&c->set[i], cp) << (re->nsymbols & 63);
    sample[re->nsymbols] = cp;
    return (int)re->nsymbols++;
}

static int add_symbols_from(struct compiler *c, uint32_t cp, uint32_t *sample)
{
    struct opv_regex *re = c->re;
    const int symbol = symbol_of(c, cp, sample);
    if (symbol < 0 || (re->nranges && re->range_symbol[re->nranges - 1] == symbol))
        return symbol;
    if (re->nranges == OPV_RE_RANGES)
        return refuse(c, "the pattern has too many different characters and classes");
    re->range[re->nranges] = cp;
    re->range_symbol[re->nranges++] = (uint8_t)symbol;
    return 0;
}

static int make_symbols(struct compiler *c)
{
    uint32_t *cut = malloc((size_t)(c->sets * MOST_RANGES * 2 + 1) * sizeof *cut), sample[OPV_RE_SYMBOLS];
    int n = 0, rc = cut ? 0 : ctr_fail_nomem(c->err, (size_t)c->sets * MOST_RANGES * sizeof *cut);
    for (uint32_t cp = 0; rc >= 0 && cp < 128; cp++) {
        rc = symbol_of(c, cp, sample);
        c->re->ascii[cp] = (uint8_t)rc;
    }
    if (rc >= 0)
        cut[n++] = 128;
    for (int i = 0; rc >= 0 && i < c->sets; i++)
        for (int k = 0; k < c->set[i].n; k++) {
            cut[n++] = CTR_MAX(c->set[i].range[k].from, 128u);
            cut[n++] = CTR_MAX(c->set[i].range[k].to + 1, 128u);
        }
    if (rc >= 0)
        qsort(cut, (size_t)n, sizeof *cut, ctr_by_u32);
    for (int i = 0; rc >= 0 && i < n; i++)
        if (!i || cut[i] != cut[i - 1])
            rc = add_symbols_from(c, cut[i], sample);
    free(cut);
    return CTR_MIN(rc, 0);
}

/* What a match may begin with: what the program reads before all else. */
static void find_first(struct opv_regex *re)
{
    uint16_t stack[2 * OPV_RE_INSTS + 2];
    bool seen[OPV_RE_INSTS] = { false };
    int n = 0;
    stack[n++] = 0;
    while (n) {
        const int pc = stack[--n];
        const struct opv_re_inst *in = &re->inst[pc];
        if (seen[pc])
            continue;
        seen[pc] = true;
        if (in->op == OPV_RE_MATCH) {
            re->may_be_empty = 1;
        } else if (in->op == OPV_RE_SET) {
            for (size_t k = 0; k < CTR_COUNT(re->first.bits); k++)
                re->first.bits[k] |= re->set[in->x].bits[k];
        } else if (in->op == OPV_RE_SPLIT || in->op == OPV_RE_JUMP) {
            stack[n++] = in->x;
            if (in->op == OPV_RE_SPLIT)
                stack[n++] = in->y;
        } else {
            stack[n++] = (uint16_t)(pc + 1);
        }
    }
}

/* (?i), (?s) and (?is) at the start. */
static void take_flags(struct compiler *c)
{
    size_t i = 2;
    if (c->n < 4 || memcmp(c->text, "(?", 2))
        return;
    while (i < c->n && (c->text[i] == 'i' || c->text[i] == 's'))
        i++;
    if (i == 2 || i == c->n || c->text[i] != ')')
        return;
    c->any_case = memchr(c->text, 'i', i);
    c->dot_all = memchr(c->text, 's', i);
    c->i = i + 1;
}

int ctr_regex_compile(const char *op, const struct ctr_str *pattern, struct opv_regex *re, struct ctr_err *err)
{
    struct compiler *c = calloc(1, sizeof *c);
    if (!c)
        return ctr_fail_nomem(err, sizeof *c);
    c->op = op;
    c->text = pattern->p;
    c->n = pattern->n;
    c->re = re;
    c->err = err;
    take_flags(c);
    int root = parse_alternatives(c);
    if (root >= 0 && c->i < c->n)
        root = refuse(c, "a ) without its (");
    int rc = root < 0 ? root : add_node(c, (struct node){ .kind = GROUP, .a = root });
    if (rc >= 0)
        rc = write_node(c, rc);
    if (rc >= 0)
        rc = emit(c, OPV_RE_MATCH, 0, 0);
    if (rc >= 0)
        rc = make_symbols(c);
    if (rc >= 0)
        find_first(re);
    free(c);
    return CTR_MIN(rc, 0);
}
