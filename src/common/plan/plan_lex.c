/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_lex: splits the text of a plan into tokens. A newline is a token only outside brackets and after another token;
 * comments and blanks are skipped. Positions count characters, not bytes.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/plan/plancore.h"

/* ---- arena and map ---- */

struct plan_block {
    struct plan_block *next;
    _Alignas(16) uint8_t data[];
};

void *ctr_arena_alloc(struct plan_arena *a, size_t n, struct ctr_err *err)
{
    n = (n + 15) & ~(size_t)15;
    if (!a->head || a->cap - a->used < n) {
        size_t cap = CTR_MAX(n, a->cap < 1 << 19 ? CTR_MAX(a->cap * 2, (size_t)4096) : a->cap);
        struct plan_block *b = calloc(1, sizeof *b + cap);
        if (!b) {
            (void)ctr_fail_nomem(err, cap);
            return NULL;
        }
        b->next = a->head;
        a->head = b;
        a->cap = cap;
        a->used = 0;
    }
    void *p = a->head->data + a->used;
    a->used += n;
    return p;
}

char *ctr_arena_copy(struct plan_arena *a, const char *p, size_t n, struct ctr_err *err)
{
    char *s = ctr_arena_alloc(a, n + 1, err);
    if (s && n)
        memcpy(s, p, n);
    return s;
}

void ctr_arena_free(struct plan_arena *a)
{
    for (struct plan_block *b = a->head, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    *a = (struct plan_arena){ 0 };
}

static struct plan_map_entry *map_find(const struct plan_map *m, const char *name, uint64_t hash)
{
    const struct ctr_index_slot *s = ctr_index_find(&m->index, hash);
    while (s && strcmp(m->entry[s->number].name, name) != 0)
        s = ctr_index_next(&m->index, s);
    return s ? &m->entry[s->number] : NULL;
}

static uint64_t map_hash(const char *name)
{
    return ctr_hash64(name, strlen(name), ctr_hash_secret);
}

int ctr_map_get(const struct plan_map *m, const char *name)
{
    const struct plan_map_entry *e = map_find(m, name, map_hash(name));
    return e ? e->value : -1;
}

int ctr_map_set(struct plan_map *m, const char *name, int value, struct ctr_err *err)
{
    const uint64_t hash = map_hash(name);
    struct plan_map_entry *e = map_find(m, name, hash);
    int rc = e ? 0 : ctr_array_grow(&m->entry, m->n, &m->cap, sizeof *m->entry, err);
    if (!rc && !e)
        rc = ctr_index_add(&m->index, hash, (uint32_t)m->n, err);
    if (rc)
        return rc;
    e = e ? e : &m->entry[m->n++];
    *e = (struct plan_map_entry){ name, value };
    return CTR_OK;
}

void ctr_map_free(struct plan_map *m)
{
    free(m->entry);
    ctr_index_free(&m->index);
    *m = (struct plan_map){ 0 };
}

/* ---- errors ---- */

static void put_position(const struct plan_source *src, struct plan_pos pos, struct ctr_err *err)
{
    if (src->bundle && pos.line) {
        char what[sizeof err->what];
        snprintf(what, sizeof what, "line %d, character %d of its plan: %.960s", pos.line, pos.col, err->what);
        memcpy(err->what, what, sizeof what);
        err->remedy = 0; /* it lies elsewhere now */
    }
    if (src->inline_text)
        snprintf(err->file, sizeof err->file, "%s: character %d", src->file, pos.col);
    else if (pos.line && !src->bundle)
        snprintf(err->file, sizeof err->file, "%.220s:%d:%d", src->file, pos.line, pos.col);
    else
        snprintf(err->file, sizeof err->file, "%s", src->file);
}

int ctr_plan_fail(const struct plan_source *src, struct plan_pos pos, struct ctr_err *err, const char *fmt, ...)
{
    char what[sizeof err->what];
    va_list ap;
    va_start(ap, fmt);
    ctr_vformat(what, sizeof what, fmt, ap);
    va_end(ap);
    (void)ctr_fail(err, CTR_EUSAGE, "%s", what);
    put_position(src, pos, err);
    return CTR_EUSAGE;
}

int ctr_plan_locate(const struct plan_source *src, struct plan_pos pos, struct ctr_err *err)
{
    if (err->file[0]) {
        const struct ctr_err_text text = ctr_err_text(err);
        ctr_format(err->what, sizeof err->what, "%s", text.s);
        err->remedy = 0;
    }
    put_position(src, pos, err);
    return err->code;
}

/* ---- all errors of a plan ---- */

static struct plan_pos position_of(const struct ctr_err *err)
{
    struct plan_pos pos = { 0, 0 };
    const char *col = strrchr(err->file, ':'), *line = col;
    if (sscanf(err->what, "line %d, character %d of its plan: ", &pos.line, &pos.col) == 2)
        return pos;
    while (line && line > err->file && line[-1] != ':')
        line--;
    if (!line || sscanf(line, "%d:%d", &pos.line, &pos.col) != 2)
        pos.line = 0;
    return pos;
}

int ctr_plan_keep(struct plan_faults *f, struct ctr_err *err)
{
    const struct plan_pos pos = position_of(err);
    if (err->code != CTR_EUSAGE || (err->what[0] && !pos.line))
        return err->code;
    int at = 0;
    while (at < f->n && f->fault[at].pos.line < pos.line)
        at++;
    if (err->what[0] && !(at < f->n && f->fault[at].pos.line == pos.line)) {
        f->more += f->n == PLAN_FAULTS;
        f->n = CTR_MIN(f->n + 1, PLAN_FAULTS);
        for (int i = f->n - 1; i > at; i--)
            f->fault[i] = f->fault[i - 1];
        const char *what = strstr(err->what, " of its plan: ");
        what = what ? what + strlen(" of its plan: ") : err->what;
        size_t n = strlen(what);
        if (at < PLAN_FAULTS) {
            n = CTR_MIN(n, sizeof f->fault[at].what - 1);
            while (n && ((unsigned char)what[n] & 0xc0) == 0x80)
                n--;
            f->fault[at].pos = pos;
            memcpy(f->fault[at].what, what, n);
            f->fault[at].what[n] = 0;
        }
    }
    *err = (struct ctr_err){ 0 };
    return CTR_OK;
}

int ctr_plan_raise(const struct plan_source *src, const struct plan_faults *f, struct ctr_err *err)
{
    int shown = 1;
    if (!f->n)
        return CTR_OK;
    *err = (struct ctr_err){ 0 };
    int rc = ctr_plan_fail(src, f->fault[0].pos, err, "%s", f->fault[0].what);
    for (; shown < f->n && strlen(err->what) + strlen(f->fault[shown].what) + 64 < sizeof err->what; shown++)
        ctr_err_add(err, "; line %d, character %d: %s", f->fault[shown].pos.line, f->fault[shown].pos.col,
                    f->fault[shown].what);
    if (shown < f->n + f->more)
        ctr_err_add(err, "; and errors in %d lines more", f->n + f->more - shown);
    return rc;
}

/* ---- how errors are collected ----
 *
 * A user who wrote five wrong lines should see five errors, not one after another. So lexer, parser and binder each
 * work line by line: an error ends its line (its tokens are dropped), ctr_plan_keep puts it aside with its position,
 * and the next line goes on; ctr_plan_raise makes one error of all at the end:
 *
 *     feature a = 1 +            p.plan:1:16: expected a value before the end of the line;
 *     feature b = lower(3)       line 2, character 13: lower wants text as …
 *
 * A name that a broken line would have defined counts as known (faults.broken), so that one mistake is one error.
 * Memory and files are other matters: their errors end the plan at once. */

/* ---- tokens ---- */

struct lexer {
    struct plan_toks *out;
    struct plan_arena *arena;
    const struct plan_source *src;
    const char *p, *end, *line_start;
    int line;
    int open; /* open brackets */
    struct ctr_err *err;
    struct plan_faults *faults;
    bool bad;            /* the current line has an error: its tokens are dropped */
    const char *counted; /* the last position computed, and its column, so that long lines are counted once */
    int counted_col;
};

static struct plan_pos position(struct lexer *x, const char *at)
{
    if (x->counted < x->line_start) {
        x->counted = x->line_start;
        x->counted_col = 1;
    }
    for (; x->counted < at; x->counted++)
        x->counted_col += (*x->counted & 0xc0) != 0x80;
    return (struct plan_pos){ x->line, x->counted_col };
}

#define lex_fail(x, at, ...) ctr_plan_fail((x)->src, position(x, at), (x)->err, __VA_ARGS__)

static struct plan_tok *push(struct lexer *x, enum plan_tok_kind kind, const char *start)
{
    struct plan_toks *o = x->out;
    if (ctr_array_grow(&o->t, o->n, &o->cap, sizeof *o->t, x->err))
        return NULL;
    struct plan_tok *t = &o->t[o->n++];
    *t = (struct plan_tok){ .kind = kind, .pos = position(x, start), .source = { start, (size_t)(x->p - start) } };
    return t;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}
static bool is_alpha(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static int hex_number(const char *p, const char *end, int digits)
{
    int v = 0;
    if (end - p < digits)
        return -1;
    for (int i = 0; i < digits; i++) {
        int h = ctr_hex_digit(p[i]);
        if (h < 0)
            return -1;
        v = v * 16 + h;
    }
    return v;
}

static size_t put_utf8(char *o, int c)
{
    if (c < 0x80) {
        o[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        o[0] = (char)(0xc0 | c >> 6);
        o[1] = (char)(0x80 | (c & 63));
        return 2;
    }
    o[0] = (char)(0xe0 | c >> 12);
    o[1] = (char)(0x80 | (c >> 6 & 63));
    o[2] = (char)(0x80 | (c & 63));
    return 3;
}

/* Read one escape after the backslash at x->p; writes to *o. */
static int lex_escape(struct lexer *x, char **o)
{
    static const char from[] = "ntr\\\"'`", to[] = "\n\t\r\\\"'`";
    const char *at = x->p - 1;
    char c = x->p < x->end ? *x->p : '\n';
    const char *hit = memchr(from, c, sizeof from - 1);
    if (hit) {
        *(*o)++ = to[hit - from];
        x->p++;
        return CTR_OK;
    }
    int v = c == 'x' ? hex_number(x->p + 1, x->end, 2) : c == 'u' ? hex_number(x->p + 1, x->end, 4) : -1;
    if (v < 0 || (c == 'u' && v >= 0xd800 && v < 0xe000))
        return lex_fail(x, at, "unknown escape; there are \\n \\t \\r \\\\ \\\" \\` \\xHH and \\uHHHH");
    if (c == 'u')
        *o += put_utf8(*o, v);
    else
        *(*o)++ = (char)v;
    x->p += c == 'u' ? 5 : 3;
    return CTR_OK;
}

/* Read from the opening quote at x->p to after the closing one; *s is the text inside. */
static int lex_quoted(struct lexer *x, struct ctr_str *s)
{
    const char *start = x->p;
    char quote = *x->p++;
    const char *close = x->p; /* its length bounds that of the text */
    while (close < x->end && *close != quote && *close != '\n')
        close += *close == '\\' && close + 1 < x->end ? 2 : 1;
    char *o = ctr_arena_alloc(x->arena, (size_t)(close - x->p) + 1, x->err);
    if (!o)
        return x->err->code;
    s->p = o;
    while (x->p < x->end && *x->p != quote && *x->p != '\n') {
        int rc = 0;
        if (*x->p == '\\') {
            x->p++;
            rc = lex_escape(x, &o);
        } else {
            *o++ = *x->p++;
        }
        if (rc < 0)
            return rc;
    }
    if (x->p >= x->end || *x->p != quote)
        return lex_fail(x, start, "the %s is not closed on its line", quote == '"' ? "string" : "back-quoted name");
    x->p++;
    s->n = (size_t)(o - s->p);
    return CTR_OK;
}

static int lex_string(struct lexer *x)
{
    const char *start = x->p;
    struct ctr_str s;
    int rc = lex_quoted(x, &s);
    if (rc < 0)
        return rc;
    if (!ctr_utf8_valid((const uint8_t *)s.p, s.n))
        return lex_fail(x, start, "the string is not UTF-8");
    struct plan_tok *t = push(x, TOK_LITERAL, start);
    if (!t)
        return x->err->code;
    t->value = (struct ctr_value){ .kind = CTR_V_STR, .s = s };
    return CTR_OK;
}

static int lex_time(struct lexer *x)
{
    const char *start = x->p;
    struct ctr_str s;
    int64_t ms;
    x->p += 2;
    int rc = lex_quoted(x, &s);
    if (rc < 0)
        return rc;
    if (!ctr_time_parse(NULL, s.p, s.n, &ms))
        return lex_fail(x, start, "\"%.40s\" is no time; write it as ts\"2019-11-14T00:00Z\"", s.p);
    struct plan_tok *t = push(x, TOK_LITERAL, start);
    if (!t)
        return x->err->code;
    t->value = (struct ctr_value){ .kind = CTR_V_TIME, .i = ms };
    return CTR_OK;
}

static const char *skip_digits(const char *p, const char *end)
{
    while (p < end && is_digit(*p))
        p++;
    return p;
}

/* [lo..hi] directly after a name. */
static int lex_range(struct lexer *x, struct plan_tok *t)
{
    const char *start = x->p, *a = start + 1, *a_end = skip_digits(a, x->end);
    const char *b = a_end + 2, *b_end = b <= x->end ? skip_digits(b, x->end) : b;
    if (a_end == a || b > x->end || a_end[0] != '.' || a_end[1] != '.' || b_end == b || b_end >= x->end ||
        *b_end != ']')
        return lex_fail(x, start, "[ after a name repeats the line, as in C[1..26]; an item of a list is at(list, 1)");
    if (!ctr_parse_i64(a, (size_t)(a_end - a), &t->lo) || !ctr_parse_i64(b, (size_t)(b_end - b), &t->hi))
        return lex_fail(x, start, "a number of the range is too large");
    if (t->lo > t->hi)
        return lex_fail(x, start, "the range is empty: %lld is above %lld", (long long)t->lo, (long long)t->hi);
    if (t->hi - t->lo >= PLAN_MAX_DEFS)
        return lex_fail(x, start, "the range repeats the line more than %d times", PLAN_MAX_DEFS);
    t->range = true;
    t->width = *a == '0' && a_end - a > 1 ? (int)CTR_MIN(a_end - a, (ptrdiff_t)18) : 0;
    x->p = b_end + 1;
    t->source.n = (size_t)(x->p - t->source.p);
    return CTR_OK;
}

static int lex_name(struct lexer *x)
{
    const char *start = x->p;
    struct ctr_str s = { start, 0 };
    bool quoted = *start == '`';
    if (quoted) {
        int rc = lex_quoted(x, &s);
        if (rc < 0)
            return rc;
        if (!s.n || memchr(s.p, 0, s.n))
            return lex_fail(x, start, s.n ? "a name cannot hold a zero byte" : "the name is empty");
        if (!ctr_utf8_valid((const uint8_t *)s.p, s.n))
            return lex_fail(x, start, "the name is not UTF-8");
    } else {
        while (x->p < x->end && (is_alpha(*x->p) || is_digit(*x->p) || *x->p == '.'))
            x->p++;
        s.n = (size_t)(x->p - start);
    }
    struct plan_tok *t = push(x, TOK_NAME, start);
    if (!t)
        return x->err->code;
    t->quoted = quoted;
    t->name = ctr_arena_copy(x->arena, s.p, s.n, x->err);
    if (!t->name)
        return x->err->code;
    return x->p < x->end && *x->p == '[' ? lex_range(x, t) : CTR_OK;
}

/* 12, 1.5e-3, 14d */
static int lex_number(struct lexer *x)
{
    const char *start = x->p, *p = skip_digits(start, x->end);
    bool real = false;
    if (p + 1 < x->end && *p == '.' && is_digit(p[1])) {
        real = true;
        p = skip_digits(p + 1, x->end);
    }
    if (p < x->end && (*p | 0x20) == 'e') {
        const char *q = p + 1;
        q += q < x->end && (*q == '+' || *q == '-');
        if (q < x->end && is_digit(*q)) {
            real = true;
            p = skip_digits(q, x->end);
        }
    }
    const char *digits = p;
    while (p < x->end && (is_alpha(*p) || is_digit(*p)))
        p++;
    x->p = p;
    struct ctr_value v = { .kind = CTR_V_INT };
    if (p > digits) {
        v.kind = CTR_V_DURATION;
        if (!ctr_parse_duration(start, (size_t)(p - start), &v.i))
            return lex_fail(x, start, "%.*s is neither a number nor a duration (14d, 1h, 30m, 15s, 250ms)",
                            (int)CTR_MIN(p - start, (ptrdiff_t)40), start);
    } else if (real) {
        v.kind = CTR_V_FLOAT;
        if (!ctr_parse_f64(start, (size_t)(p - start), &v.f))
            return lex_fail(x, start, "the number is out of range");
    } else if (!ctr_parse_i64(start, (size_t)(p - start), &v.i)) {
        uint64_t u;
        v.kind = CTR_V_UINT;
        if (!ctr_parse_u64(start, (size_t)(p - start), &u))
            return lex_fail(x, start, "the integer does not fit 64 bits; write it as 1e20 if it is a float");
        v.i = (int64_t)u;
    }
    struct plan_tok *t = push(x, TOK_LITERAL, start);
    if (!t)
        return x->err->code;
    t->value = v;
    return CTR_OK;
}

static int lex_sign(struct lexer *x)
{
    static const struct {
        const char *text;
        enum plan_tok_kind kind;
    } signs[] = {
        { "==", TOK_INFIX }, { "!=", TOK_INFIX }, { "<=", TOK_INFIX }, { ">=", TOK_INFIX }, { "<", TOK_INFIX },
        { ">", TOK_INFIX },  { "+", TOK_INFIX },  { "-", TOK_INFIX },  { "*", TOK_INFIX },  { "//", TOK_INFIX },
        { "/", TOK_INFIX },  { "%", TOK_INFIX },  { "(", TOK_OPEN },   { ")", TOK_CLOSE },  { "[", TOK_LIST },
        { "]", TOK_UNLIST }, { ",", TOK_COMMA },  { "=", TOK_ASSIGN },
    };
    for (size_t i = 0; i < CTR_COUNT(signs); i++) {
        size_t n = strlen(signs[i].text);
        if ((size_t)(x->end - x->p) < n || memcmp(x->p, signs[i].text, n) != 0)
            continue;
        const char *start = x->p;
        x->p += n;
        struct plan_tok *t = push(x, signs[i].kind, start);
        if (!t)
            return x->err->code;
        t->name = signs[i].text;
        x->open += (t->kind == TOK_OPEN || t->kind == TOK_LIST) - (t->kind == TOK_CLOSE || t->kind == TOK_UNLIST);
        return x->open > PLAN_MAX_NESTING ? lex_fail(x, start, "brackets are nested deeper than %d", PLAN_MAX_NESTING)
                                          : CTR_OK;
    }
    unsigned char c = (unsigned char)*x->p;
    if (c == '\'')
        return lex_fail(x, x->p, "strings stand in double quotes: \"…\"");
    if (c == '&' || c == '|' || c == '!')
        return lex_fail(x, x->p, "unexpected %c; the language has `and`, `or`, `not`", c);
    if (c < ' ' || c >= 127)
        return lex_fail(x, x->p, "unexpected byte 0x%02x; a name of such bytes stands in back quotes", c);
    if (c == '.')
        return lex_fail(x, x->p, "unexpected .; a number begins with a digit: 0.5");
    return lex_fail(x, x->p, "unexpected %c", c);
}

/* Within open brackets a newline continues the line; otherwise it ends it. An unclosed bracket would swallow the plan:
 * the parser recognises a line that starts like a definition. */
static int lex_newline(struct lexer *x)
{
    if (x->open <= 0) {
        struct plan_toks *o = x->out;
        x->open = 0;
        while (x->bad && o->n && o->t[o->n - 1].kind != TOK_LINE) { /* one of its names is the one it defines */
            const struct plan_tok *t = &o->t[--o->n];
            if (t->kind == TOK_NAME && ctr_map_set(&x->faults->broken, t->name, 1, x->err) < 0)
                return x->err->code;
        }
        x->bad = false;
        if (o->n && o->t[o->n - 1].kind != TOK_LINE && !push(x, TOK_LINE, x->p))
            return x->err->code;
    }
    x->p++;
    x->line++;
    x->line_start = x->p;
    return CTR_OK;
}

int ctr_plan_lex(struct plan_toks *out, struct plan_arena *arena, const struct plan_source *src, const char *text,
                 size_t n, struct plan_faults *faults, struct ctr_err *err)
{
    struct lexer x = { out, arena, src, text, text + n, text, 1, 0, err, faults, false, text, 1 };
    if (n > PLAN_MAX_TEXT)
        return ctr_plan_fail(src, (struct plan_pos){ 0 }, err, "larger than a plan can be (%d bytes)", PLAN_MAX_TEXT);
    x.p += ctr_utf8_mark(text, n);
    x.line_start = x.p;
    while (x.p < x.end) {
        const char *at = x.p;
        char c = *x.p;
        int rc = 0;
        if (c == ' ' || c == '\t' || (c == '\r' && x.p + 1 < x.end && x.p[1] == '\n'))
            x.p++;
        else if (c == '#')
            while (x.p < x.end && *x.p != '\n')
                x.p++;
        else if (c == '\n')
            rc = lex_newline(&x);
        else if (c == '"')
            rc = lex_string(&x);
        else if (x.end - x.p > 2 && memcmp(x.p, "ts\"", 3) == 0)
            rc = lex_time(&x);
        else if (is_alpha(c) || c == '`')
            rc = lex_name(&x);
        else if (is_digit(c))
            rc = lex_number(&x);
        else
            rc = lex_sign(&x);
        if (rc < 0 && faults && (rc = ctr_plan_keep(faults, err)) == 0) {
            x.p += x.p == at;
            x.bad = true;
        }
        if (rc < 0)
            return rc;
    }
    if (x.bad && lex_newline(&x) < 0)
        return err->code;
    bool ended = out->n && out->t[out->n - 1].kind == TOK_LINE;
    if ((!ended && !push(&x, TOK_LINE, x.p)) || !push(&x, TOK_END, x.p))
        return err->code;
    return CTR_OK;
}
