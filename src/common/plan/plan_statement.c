/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_statement: the lines of a plan before its definitions, which specify the input table. A statement is parsed into
 * words; the values of a filter's options stay text, which the filter's own library parses (flow.h), so that both mean
 * the same.
 *
 *     from VIEW [= FORMAT(["FILE",] option=literal, …)]
 *     where EXPR
 *     add NAME = EXPR
 *     explode COLUMN, …
 *     join VIEW [= FORMAT(…)] [(group KEY, …, NAME = AGGREGATE(COLUMN), …)] [on KEY [= KEY2], …] [WORD …]
 *     join (group KEY, …, NAME = AGGREGATE(COLUMN), …) on KEY, … [as-of TIME]
 *     history [COLUMN, …] [from VIEW [= FORMAT(…)]] [WORD …]
 *     group KEY, …, NAME = AGGREGATE(COLUMN), …
 *     sort KEY [desc], …
 *     unique KEY [desc], …
 *     union VIEW [= FORMAT(…)]
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/plan/program.h"

/* The words of a statement, and the corresponding options of its filter: all that change rows, but those that
 * ctr-plan(5) says it leaves out. */
enum argument { NOTHING, PAIR, DURATION, TEXT, NAME, KEYS, NUMBER, CONDITION, EXPRESSION };
struct word {
    const char *word, *option; /* word NULL: end of the list */
    enum argument argument;
    const char *needs; /* options, A|B: without any of them the word would have no effect; or NULL */
};
static const struct word join_words[] = {
    { "inner", "inner", NOTHING },
    { "anti", "anti", NOTHING },
    { "multi", "multi", NOTHING },
    { "merge", "merge", NOTHING },
    { "by-row", "by-row", NOTHING },
    { "as-of", "as-of", PAIR },
    { "next", "next", PAIR },
    { "within", "within", DURATION },
    { "prefix", "prefix", TEXT },
    { "inclusive", "inclusive", NOTHING, "as-of" },
    { "once", "once", NOTHING, "next" },
    { "first", "first", NOTHING, "once" },
    { NULL },
};
static const struct word each_words[] = { { "as-of", "as-of", NAME }, { NULL } };
static const struct word history_words[] = {
    { "by", "user", NAME },
    { "at", "time", NAME },
    { "where", "where", CONDITION },
    { "count", "count", KEYS },
    { "last", "last", NUMBER, "columns|age" },
    { "window", "window", DURATION, "columns|age" },
    { "dwell", "dwell", EXPRESSION, "min-dwell" },
    { "min-dwell", "min-dwell", DURATION, "dwell" },
    { "delay", "delay", DURATION },
    { "count-window", "count-window", DURATION, "count" },
    { "prior", "prior", NUMBER, "count" },
    { "age", "age", NOTHING },
    { "session", "session", DURATION },
    { "group", "group", TEXT, "columns|age" },
    { "sort", "sort", NOTHING },
    { "lateness", "lateness", DURATION },
    { "newest", "order", NOTHING, "columns|age" },
    { "oldest", "order", NOTHING, "columns|age" },
    { NULL },
};

struct reader {
    struct plan_tree *tree;
    struct plan_tok *t, *end; /* the next token; the last token of the line */
    struct ctr_err *err;
};

/* The line `join ads on ad = id, day as-of time within 7d` becomes a statement with
 *
 *     kind         CTR_STATEMENT_JOIN, by the table of words at the end of this file
 *     view         ads; no format, so that the caller says which file it is
 *     option       key "ad=id,day", as-of "time", within "7d", as if given to ctr-join
 *     inputs       ad day time, of the rows so far
 *     view_inputs  id day time, of the view
 *
 * as-of is three tokens, which find_word puts together. After all words, check_needs finds those that lack another,
 * such as `inclusive` without as-of. What the options mean is for the library of joins to say; only expressions are
 * parsed here already, for the names in them. */

#define fail_at(r, pos, ...) ctr_plan_fail(&(r)->tree->src, pos, (r)->err, __VA_ARGS__)

static bool is_word(const struct plan_tok *t, const char *word)
{
    return t->kind == TOK_NAME && !t->quoted && !t->range && !strcmp(t->name, word);
}

static int unexpected(struct reader *r, const char *wanted)
{
    if (r->t == r->end)
        return fail_at(r, r->t->pos, "expected %s before the end of the line", wanted);
    return fail_at(r, r->t->pos, "expected %s, not %.*s", wanted, (int)CTR_MIN(r->t->source.n, (size_t)40),
                   r->t->source.p);
}

static int need_name(struct reader *r, const char *wanted, const char **name)
{
    if (r->t->kind != TOK_NAME)
        return unexpected(r, wanted);
    if (r->t->range)
        return fail_at(r, r->t->pos, "ranges belong to definitions");
    *name = r->t++->name;
    return CTR_OK;
}

static bool take(struct reader *r, enum plan_tok_kind kind)
{
    const bool is = r->t->kind == kind && r->t < r->end;
    r->t += is;
    return is;
}

/* Copy text to the plan's arena. */
static const char *keep(struct reader *r, const struct ctr_buf *b)
{
    return ctr_arena_copy(&r->tree->arena, (const char *)b->data, b->len, r->err);
}

/* ---- views ---- */

static int view_option(struct reader *r, struct ctr_view *v)
{
    const struct ctr_view_option o = { .name = r->t->name };
    int rc;
    if (r->t->kind != TOK_NAME || r->t[1].kind != TOK_ASSIGN)
        return unexpected(r, "a text in quotes, or an option: NAME=LITERAL");
    r->t += 2;
    if (r->t->kind != TOK_LITERAL && !is_word(r->t, "true"))
        return unexpected(r, "a text in quotes, or true");
    struct ctr_view_option *more = ctr_arena_alloc(&r->tree->arena, (size_t)(v->n + 1) * sizeof *more, r->err);
    if (!more)
        return r->err->code;
    if (v->n)
        memcpy(more, v->option, (size_t)v->n * sizeof *more);
    more[v->n] = o;
    if (r->t->kind == TOK_LITERAL && r->t->value.kind == CTR_V_STR) {
        more[v->n].text = ctr_arena_copy(&r->tree->arena, r->t->value.s.p, r->t->value.s.n, r->err);
        rc = more[v->n].text ? 0 : r->err->code;
    } else {
        rc = is_word(r->t, "true") ? 0 : fail_at(r, r->t->pos, "an option of a view is a text in quotes, or true");
    }
    v->option = more;
    v->n++;
    r->t++;
    return rc;
}

/* FORMAT(["FILE",] option=literal, …). The file name is not part of the plan's identity. */
static int view_text(struct reader *r, struct ctr_view *v)
{
    int rc = need_name(r, "a format of text, such as csv(\"FILE\", header=true)", &v->format);
    if (!rc && !take(r, TOK_OPEN))
        rc = unexpected(r, "( and the options of the import");
    if (!rc && r->t->kind == TOK_LITERAL && r->t->value.kind == CTR_V_STR) {
        v->path = ctr_arena_copy(&r->tree->arena, r->t->value.s.p, r->t->value.s.n, r->err);
        rc = v->path ? 0 : r->err->code;
        r->t++->unidentified = true;
        if (!rc && take(r, TOK_COMMA))
            r->t[-1].unidentified = true;
    }
    while (!rc && r->t < r->end && r->t->kind != TOK_CLOSE) {
        rc = view_option(r, v);
        if (!rc && !take(r, TOK_COMMA) && r->t->kind != TOK_CLOSE)
            rc = unexpected(r, ", or )");
    }
    if (!rc && !take(r, TOK_CLOSE))
        rc = unexpected(r, ")");
    return rc;
}

static int read_view(struct reader *r, struct ctr_view *v)
{
    struct plan_pos pos = r->t->pos;
    int rc = need_name(r, "the name of a view", &v->name);
    if (rc)
        return rc;
    if (strchr(v->name, '='))
        return fail_at(r, pos, "the name of a view has no =, as it stands before one: VIEW=FILE");
    for (int i = 0; i < r->tree->nstatements; i++)
        if (r->tree->statement[i].view.name && !strcmp(r->tree->statement[i].view.name, v->name))
            return fail_at(r, pos, "%.60s is read already, on line %d; a view that is read twice has two names",
                           v->name, r->tree->statement[i].line);
    return take(r, TOK_ASSIGN) ? view_text(r, v) : CTR_OK;
}

/* ---- statements ---- */

static int read_from(struct reader *r, struct ctr_plan_statement *s)
{
    if (r->tree->nstatements)
        return fail_at(r, r->t[-1].pos,
                       "`from` is the first statement; more views are joined or follow: join VIEW on KEY, union VIEW");
    return read_view(r, &s->view);
}

/* An expression, to the end of the line, as text: ctr_expr_compile parses it again when columns are known. */
static int read_expr(struct reader *r, struct ctr_plan_statement *s, const char *what, const char **text)
{
    struct plan_tree expr = { .language = CTR_PLAN_LANGUAGE };
    const struct plan_tok *last = r->end - 1;
    const size_t n = (size_t)(last->source.p + last->source.n - r->t->source.p);
    *text = ctr_arena_copy(&r->tree->arena, r->t->source.p, n, r->err);
    int rc = *text ? ctr_plan_parse_expr(&expr, what, *text, n, r->err) : r->err->code;
    if (rc)
        rc = ctr_plan_locate(&r->tree->src, r->t->pos, r->err);
    s->inputs = expr.inputs;
    expr.inputs = (struct ctr_strs){ 0 };
    ctr_plan_tree_free(&expr);
    r->t = r->end;
    return rc;
}

static int read_where(struct reader *r, struct ctr_plan_statement *s)
{
    return r->t == r->end ? unexpected(r, "a condition") : read_expr(r, s, "where", &s->text);
}

/* In the syntax of ctr-select: NAME=EXPR. */
static int read_add(struct reader *r, struct ctr_plan_statement *s)
{
    const struct ctr_str name = r->t->source;
    const char *expr = NULL;
    struct ctr_buf text = { 0 };
    int rc = need_name(r, "the name of a column", &s->adds);
    if (!rc && !take(r, TOK_ASSIGN))
        rc = unexpected(r, "= and an expression");
    if (!rc)
        rc = r->t == r->end ? unexpected(r, "an expression") : read_expr(r, s, "add", &expr);
    if (!rc)
        rc = ctr_buf_printf(&text, r->err, "%.*s=%s", (int)name.n, name.p, expr);
    if (!rc && !(s->text = keep(r, &text)))
        rc = r->err->code;
    ctr_buf_free(&text);
    return rc;
}

static int read_explode(struct reader *r, struct ctr_plan_statement *s)
{
    struct ctr_buf names = { 0 };
    const char *name;
    int rc;
    do {
        rc = need_name(r, "the name of a list", &name);
        if (!rc && strchr(name, ','))
            rc = fail_at(r, r->t[-1].pos, "explode takes no column with a comma in its name");
        if (!rc)
            rc = ctr_strs_add(&s->inputs, name, strlen(name), r->err);
        if (!rc)
            rc = ctr_buf_printf(&names, r->err, "%s%s", names.len ? "," : "", name);
    } while (!rc && take(r, TOK_COMMA));
    if (!rc && !(s->text = keep(r, &names)))
        rc = r->err->code;
    ctr_buf_free(&names);
    return rc;
}

/* Append KEY [= KEY2] to `to`, in the syntax of ctr-join; adds the names of both sides to the statement. */
static int read_pair(struct reader *r, struct ctr_plan_statement *s, struct ctr_buf *to)
{
    const struct plan_pos pos = r->t->pos;
    const char *left, *right;
    int rc = need_name(r, "the name of a column", &left);
    right = left;
    if (!rc && take(r, TOK_ASSIGN))
        rc = need_name(r, "the name of a column of the view", &right);
    if (!rc && (strpbrk(left, ",=") || strpbrk(right, ",=")))
        rc = fail_at(r, pos, "join takes no column with , or = in its name");
    if (!rc)
        rc = ctr_buf_printf(to, r->err, left == right ? "%s%s" : "%s%s=%s", to->len ? "," : "", left, right);
    if (!rc)
        rc = ctr_strs_add(&s->inputs, left, strlen(left), r->err);
    return rc ? rc : ctr_strs_add(&s->view_inputs, right, strlen(right), r->err);
}

/* as-of, by-row, min-dwell and count-window consist of several tokens. */
static const struct word *find_word(struct reader *r, const struct word *words)
{
    char word[24] = "";
    const struct plan_tok *t = r->t;
    if (t->kind != TOK_NAME || t->quoted)
        return NULL;
    const bool two = t + 2 < r->end && t[1].kind == TOK_INFIX && !strcmp(t[1].name, "-") && t[2].kind == TOK_NAME;
    snprintf(word, sizeof word, "%.10s%s%.10s", t->name, two ? "-" : "", two ? t[2].name : "");
    while (words->word && strcmp(words->word, word) != 0)
        words++;
    r->t += !words->word ? 0 : two ? 3 : 1;
    return words->word ? words : NULL;
}

/* A column of the rows so far. */
static int read_column(struct reader *r, struct ctr_plan_statement *s, const char *before, struct ctr_buf *to)
{
    const struct plan_pos pos = r->t->pos;
    const char *name;
    int rc = need_name(r, "the name of a column", &name);
    if (!rc && strpbrk(name, ",+="))
        rc = fail_at(r, pos, "history takes no column with , + or = in its name");
    if (!rc)
        rc = ctr_buf_printf(to, r->err, "%s%s", before, name);
    if (!rc && s->view.name) /* user, time and keys are columns of both logs */
        rc = ctr_strs_add(&s->view_inputs, name, strlen(name), r->err);
    return rc ? rc : ctr_strs_add(&s->inputs, name, strlen(name), r->err);
}

/* COLUMN, …; with `sums` also COLUMN+COLUMN2. */
static int read_columns(struct reader *r, struct ctr_plan_statement *s, bool sums, struct ctr_buf *to)
{
    const char *before = "";
    int rc;
    do {
        rc = read_column(r, s, before, to);
        const bool plus = !rc && sums && r->t->kind == TOK_INFIX && !strcmp(r->t->name, "+");
        r->t += plus;
        before = plus ? "+" : ",";
        if (!plus && (rc || !take(r, TOK_COMMA)))
            return rc;
    } while (!rc);
    return rc;
}

/* Collect the names in a quoted expression, the argument of `word`. */
static int read_quoted(struct reader *r, struct ctr_plan_statement *s, const char *word, const struct ctr_str text)
{
    struct plan_tree expr = { .language = CTR_PLAN_LANGUAGE };
    struct ctr_strs *to = s->view.name ? &s->view_inputs : &s->inputs; /* it applies to behaviours */
    int rc = ctr_plan_parse_expr(&expr, word, text.p, text.n, r->err);
    if (rc)
        rc = ctr_plan_locate(&r->tree->src, r->t->pos, r->err);
    for (int i = 0; !rc && i < expr.inputs.n; i++)
        rc = ctr_strs_add(to, expr.inputs.s[i], strlen(expr.inputs.s[i]), r->err);
    ctr_plan_tree_free(&expr);
    return rc;
}

static int word_argument(struct reader *r, struct ctr_plan_statement *s, const struct word *w, struct ctr_buf *value)
{
    static const char *const wanted[] = { [DURATION] = "a time such as 30m",
                                          [TEXT] = "a text in quotes",
                                          [NUMBER] = "a number",
                                          [CONDITION] = "a condition in quotes",
                                          [EXPRESSION] = "an expression in quotes" };
    const struct ctr_value *v = &r->t->value;
    const enum argument kind = w->argument;
    int rc = 0;
    if (kind == PAIR)
        return read_pair(r, s, value);
    if (kind == NAME || kind == KEYS)
        return kind == NAME ? read_column(r, s, "", value) : read_columns(r, s, true, value);
    const bool quoted = kind == CONDITION || kind == EXPRESSION, text = quoted || kind == TEXT;
    if (r->t->kind != TOK_LITERAL || (kind == DURATION && v->kind != CTR_V_DURATION) ||
        (text && v->kind != CTR_V_STR) || (kind == NUMBER && v->kind != CTR_V_INT && v->kind != CTR_V_FLOAT))
        return unexpected(r, wanted[kind]);
    const struct ctr_str words = text ? v->s : r->t->source;
    if (quoted)
        rc = read_quoted(r, s, w->word, words);
    r->t++;
    return rc ? rc : ctr_buf_append(value, words.p, words.n, r->err);
}

/* A word without effect because another is missing is an error, as with the filter. */
static int check_needs(struct reader *r, const struct ctr_plan_statement *s, const struct word *w)
{
    static const char lists[] = "columns (history COLUMN, …)"; /* the option without a word */
    const struct plan_pos pos = { s->line, s->column };
    char there[64] = "";
    size_t len = 0;
    for (const char *p = w->needs; p && *p; p += strcspn(p, "|"), p += *p == '|') {
        const size_t n = strcspn(p, "|");
        for (int i = 0; i < s->n; i++)
            if (strlen(s->option[i].name) == n && !memcmp(s->option[i].name, p, n))
                return 0;
        const struct ctr_str word =
            memcmp(p, lists, n) ? (struct ctr_str){ p, n } : (struct ctr_str){ lists, strlen(lists) };
        ctr_format(there + len, sizeof there - len, "%s%.*s", len ? " or " : "", (int)word.n, word.p);
        len = strlen(there);
    }
    return len ? fail_at(r, pos, "%s goes with %s", w->word, there) : 0;
}

static int add_option(struct reader *r, struct ctr_plan_statement *s, const char *option, const struct ctr_buf *value)
{
    const char *text = value ? keep(r, value) : "";
    struct ctr_stage_option *more = ctr_arena_alloc(&r->tree->arena, (size_t)(s->n + 1) * sizeof *more, r->err);
    if (!more || !text)
        return r->err->code;
    for (int i = 0; i < s->n; i++)
        more[i] = s->option[i];
    more[s->n++] = (struct ctr_stage_option){ option, text };
    s->option = more;
    return CTR_OK;
}

/* Parse the words up to the end of the line. `there`: the valid words. */
static int read_words(struct reader *r, struct ctr_plan_statement *s, const struct word *words, const char *there)
{
    const struct word *w, *taken[CTR_COUNT(history_words)];
    struct ctr_buf value = { 0 };
    int n = 0, rc = 0;
    while (!rc && r->t < r->end) {
        const struct plan_pos pos = r->t->pos;
        if (!(w = find_word(r, words)))
            rc = unexpected(r, there);
        for (int i = 0; !rc && i < n; i++)
            if (!strcmp(taken[i]->option, w->option))
                rc = taken[i] == w ? fail_at(r, pos, "%s is there twice", w->word)
                                   : fail_at(r, pos, "%s and %s exclude each other", taken[i]->word, w->word);
        ctr_buf_clear(&value);
        if (!rc && w->argument)
            rc = word_argument(r, s, w, &value);
        else if (!rc && !strcmp(w->option, "order"))
            rc = ctr_buf_append(&value, w->word, strlen(w->word), r->err);
        if (!rc)
            rc = add_option(r, s, w->option, value.len ? &value : NULL);
        if (!rc)
            taken[n++] = w;
    }
    for (int i = 0; !rc && i < n; i++)
        rc = check_needs(r, s, taken[i]);
    ctr_buf_free(&value);
    return rc;
}

static int read_group(struct reader *r, struct ctr_plan_statement *s);

/* (group KEY, …, NAME = AGGREGATE(COLUMN), …): its options go to the statement with a prefix, its columns to `inputs`.
 */
static int read_inner_group(struct reader *r, struct ctr_plan_statement *s, const char *const name[2],
                            struct ctr_strs *inputs)
{
    struct ctr_plan_statement g = { .kind = CTR_STATEMENT_GROUP };
    int rc = is_word(r->t, "group") ? 0 : unexpected(r, "group");
    r->t += !rc;
    if (!rc)
        rc = read_group(r, &g);
    if (!rc && !take(r, TOK_CLOSE))
        rc = unexpected(r, ")");
    for (int i = 0; !rc && i < g.n; i++) {
        struct ctr_buf text = { 0 };
        rc = ctr_buf_append(&text, g.option[i].text, strlen(g.option[i].text), r->err);
        if (!rc)
            rc = add_option(r, s, name[strcmp(g.option[i].name, "key") != 0], &text);
        ctr_buf_free(&text);
    }
    for (int i = 0; !rc && i < g.inputs.n; i++)
        rc = ctr_strs_add(inputs, g.inputs.s[i], strlen(g.inputs.s[i]), r->err);
    ctr_strs_free(&g.inputs);
    return rc;
}

/* join (group KEY, …) on KEY, … [as-of TIME]: the keys are those of the group, in any order. */
static int read_each(struct reader *r, struct ctr_plan_statement *s)
{
    static const char *const name[2] = { "key", "add" };
    const struct plan_pos pos = r->t->pos;
    struct ctr_strs keys = { 0 };
    const char *key;
    int n = 0, rc = add_option(r, s, "each-row", NULL);
    s->kind = CTR_STATEMENT_EACH;
    if (!rc)
        rc = read_inner_group(r, s, name, &s->inputs);
    if (!rc && !is_word(r->t, "on"))
        rc = unexpected(r, "on and the keys of the group");
    if (!rc)
        rc = ctr_strs_split(&keys, ctr_stage_option(s, "key"), ',', r->err);
    r->t += !rc;
    do {
        if (!rc)
            rc = need_name(r, "the name of a column", &key);
        if (!rc && ctr_strs_find(&keys, key) < 0)
            n = -1;
        n += n >= 0;
    } while (!rc && take(r, TOK_COMMA));
    if (!rc && n != keys.n)
        rc = fail_at(r, pos, "rows are joined with their own groups on the keys of these: on %s",
                     ctr_stage_option(s, "key"));
    ctr_strs_free(&keys);
    return rc ? rc : read_words(r, s, each_words, "as-of");
}

static int read_join(struct reader *r, struct ctr_plan_statement *s)
{
    static const char *const name[2] = { "group-key", "group-add" };
    struct ctr_buf value = { 0 };
    if (take(r, TOK_OPEN))
        return read_each(r, s);
    int rc = read_view(r, &s->view);
    if (!rc && take(r, TOK_OPEN))
        rc = read_inner_group(r, s, name, &s->view_inputs);
    if (!rc && is_word(r->t, "on")) {
        r->t++;
        do
            rc = read_pair(r, s, &value);
        while (!rc && take(r, TOK_COMMA));
        if (!rc)
            rc = add_option(r, s, "key", &value);
    }
    ctr_buf_free(&value);
    return rc ? rc
              : read_words(
                    r, s, join_words,
                    "on, inner, anti, multi, merge, by-row, as-of, inclusive, next, once, first, within or prefix");
}

static int read_history(struct reader *r, struct ctr_plan_statement *s)
{
    struct plan_tok *const first = r->t;
    struct ctr_buf value = { 0 };
    int rc = 0;
    if (!is_word(r->t, "from") && !find_word(r, history_words)) {
        rc = read_columns(r, s, false, &value);
        if (!rc)
            rc = add_option(r, s, "columns", &value);
    } else {
        r->t = first;
    }
    ctr_buf_free(&value);
    if (!rc && is_word(r->t, "from")) {
        r->t++;
        rc = read_view(r, &s->view);
        s->view_inputs = s->inputs; /* the columns belong to the behaviours */
        s->inputs = (struct ctr_strs){ 0 };
    }
    return rc ? rc
              : read_words(r, s, history_words,
                           "from, by, at, where, count, last, window, dwell, min-dwell, delay, count-window, prior, "
                           "age, session, group, "
                           "sort, lateness, newest or oldest");
}

/* NAME = AGGREGATE(COLUMN[, P]), in the syntax of ctr-group. */
static int read_aggregate(struct reader *r, struct ctr_plan_statement *s, const char *name)
{
    struct ctr_buf value = { 0 };
    const char *function, *column = "";
    struct ctr_str p = { "", 0 };
    int rc = need_name(r, "an aggregate, such as count() or sum(COLUMN)", &function);
    if (!rc && !take(r, TOK_OPEN))
        rc = unexpected(r, "(");
    if (!rc && r->t->kind != TOK_CLOSE) {
        rc = need_name(r, "the name of a column", &column);
        if (!rc)
            rc = ctr_strs_add(&s->inputs, column, strlen(column), r->err);
        if (!rc && take(r, TOK_COMMA)) {
            p = r->t->source;
            rc = r->t->kind == TOK_LITERAL ? 0 : unexpected(r, "a number from 0 to 1");
            r->t++;
        }
    }
    if (!rc && !take(r, TOK_CLOSE))
        rc = unexpected(r, ")");
    if (!rc)
        rc = ctr_buf_printf(&value, r->err, "%s=%s(%s%s%.*s)", name, function, column, p.n ? ", " : "", (int)p.n, p.p);
    if (!rc)
        rc = add_option(r, s, "add", &value);
    ctr_buf_free(&value);
    return rc;
}

/* Names are keys; NAME = … is an aggregate. */
static int read_group(struct reader *r, struct ctr_plan_statement *s)
{
    struct ctr_buf keys = { 0 };
    bool named = false;
    int rc;
    do {
        const struct plan_pos pos = r->t->pos;
        const char *name = NULL;
        rc = need_name(r, "the name of a column", &name);
        const bool aggregate = !rc && take(r, TOK_ASSIGN);
        if (!rc && (strchr(name, ',') || (aggregate && strchr(name, '='))))
            rc = fail_at(r, pos, "group takes no column with a comma, and no result with a = in its name");
        if (!rc && aggregate && !named)
            rc = keys.len ? add_option(r, s, "key", &keys) : fail_at(r, pos, "group names its keys first");
        if (!rc && !aggregate && named)
            rc = fail_at(r, pos, "keys stand before the aggregates");
        named |= aggregate;
        if (!rc && aggregate)
            rc = read_aggregate(r, s, name);
        else if (!rc)
            rc = ctr_strs_add(&s->inputs, name, strlen(name), r->err);
        if (!rc && !aggregate)
            rc = ctr_buf_printf(&keys, r->err, "%s%s", keys.len ? "," : "", name);
    } while (!rc && take(r, TOK_COMMA));
    if (!rc && !named)
        rc = unexpected(r, ", NAME = AGGREGATE(COLUMN)");
    ctr_buf_free(&keys);
    return rc;
}

/* KEY [desc], … in the syntax of ctr-sort. */
static int read_sort(struct reader *r, struct ctr_plan_statement *s)
{
    struct ctr_buf keys = { 0 };
    int rc;
    do {
        const struct plan_pos pos = r->t->pos;
        const char *name = NULL;
        rc = need_name(r, "the name of a column", &name);
        if (!rc && strpbrk(name, ",:"))
            rc = fail_at(r, pos, "sort and unique take no column with , or : in its name");
        if (!rc)
            rc = ctr_strs_add(&s->inputs, name, strlen(name), r->err);
        const bool desc = !rc && r->t < r->end && is_word(r->t, "desc");
        r->t += desc;
        if (!rc)
            rc = ctr_buf_printf(&keys, r->err, "%s%s%s", keys.len ? "," : "", name, desc ? ":desc" : "");
    } while (!rc && take(r, TOK_COMMA));
    if (!rc)
        rc = add_option(r, s, "key", &keys);
    if (!rc && s->kind == CTR_STATEMENT_UNIQUE)
        rc = add_option(r, s, "unique", NULL);
    ctr_buf_free(&keys);
    return rc;
}

static int read_union(struct reader *r, struct ctr_plan_statement *s)
{
    return read_view(r, &s->view);
}

static const struct {
    const char *word;
    int (*read)(struct reader *r, struct ctr_plan_statement *s);
} words[] = {
    [CTR_STATEMENT_FROM] = { "from", read_from },     [CTR_STATEMENT_WHERE] = { "where", read_where },
    [CTR_STATEMENT_ADD] = { "add", read_add },        [CTR_STATEMENT_EXPLODE] = { "explode", read_explode },
    [CTR_STATEMENT_JOIN] = { "join", read_join },     [CTR_STATEMENT_HISTORY] = { "history", read_history },
    [CTR_STATEMENT_GROUP] = { "group", read_group },  [CTR_STATEMENT_SORT] = { "sort", read_sort },
    [CTR_STATEMENT_UNIQUE] = { "unique", read_sort }, [CTR_STATEMENT_UNION] = { "union", read_union },
};

bool ctr_plan_is_statement(const struct plan_tok *t)
{
    for (size_t i = 0; i < CTR_COUNT(words); i++)
        if (words[i].word && is_word(t, words[i].word) && t[1].kind != TOK_ASSIGN && !is_word(&t[1], "in"))
            return true;
    return false;
}

int ctr_plan_read_statement(struct plan_tree *tree, struct plan_tok *t, struct plan_tok *end, struct ctr_err *err)
{
    struct reader r = { tree, t + 1, end, err };
    int kind = 0,
        rc = ctr_array_grow(&tree->statement, tree->nstatements, &tree->statements_cap, sizeof *tree->statement, err);
    while (!words[kind].word || !is_word(t, words[kind].word))
        kind++;
    if (!rc && !tree->nstatements && kind != CTR_STATEMENT_FROM)
        rc = fail_at(&r, t->pos, "`%s` stands below `from VIEW`, which names the rows to begin with", t->name);
    if (!rc && tree->ndefs)
        rc = fail_at(&r, t->pos,
                     "`%s` stands above the definitions: they make the features of the table that the "
                     "statements make; `add NAME = EXPR` makes a column for statements",
                     t->name);
    if (rc)
        return rc;
    struct ctr_plan_statement *s = &tree->statement[tree->nstatements];
    *s =
        (struct ctr_plan_statement){ .kind = (enum ctr_statement_kind)kind, .line = t->pos.line, .column = t->pos.col };
    rc = words[kind].read(&r, s);
    tree->nstatements++; /* also if broken, so that its lists are freed with the tree */
    return rc || r.t == end ? rc : unexpected(&r, "the end of the line");
}

void ctr_plan_statements_free(struct plan_tree *t)
{
    for (int i = 0; i < t->nstatements; i++) {
        ctr_strs_free(&t->statement[i].inputs);
        ctr_strs_free(&t->statement[i].view_inputs);
    }
    free(t->statement);
}

/* ---- what others see ---- */

const struct ctr_plan_statement *ctr_plan_statement(const struct ctr_plan *p, int i)
{
    return i < p->tree.nstatements ? &p->tree.statement[i] : NULL;
}

int ctr_plan_at_statement(const struct ctr_plan *p, int i, struct ctr_err *err)
{
    const struct ctr_plan_statement *s = &p->tree.statement[i];
    return ctr_plan_locate(&p->tree.src, (struct plan_pos){ s->line, s->column }, err);
}

struct ctr_lookups ctr_plan_lookups(const struct ctr_plan *p)
{
    return (struct ctr_lookups){ p->dir, p->tree.src.bundle && !p->anywhere };
}

const char *ctr_plan_dir(const struct ctr_plan *p)
{
    return p->dir;
}

bool ctr_plan_in_bundle(const struct ctr_plan *p)
{
    return p->tree.src.bundle;
}

const char *ctr_stage_option(const struct ctr_plan_statement *s, const char *name)
{
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->option[i].name, name))
            return s->option[i].text;
    return NULL;
}
