/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_fault: errors of statements, in the words of a plan. The filters' libraries name their options, such as --sort;
 * a plan has words for them, and a line. */
#include "common/flow/flowcore.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- words ---- */

/* What filters say that a plan says otherwise. The longest come first. */
static const struct {
    const char *filter, *plan;
} phrases[] = {
    { "--add NAME=AGGREGATE(COLUMN), such as --add n=count()", "NAME = AGGREGATE(COLUMN), such as n = count()" },
    { "with --prefix, or take fewer of them with --columns", "with prefix \"NAME.\"" },
    { "ctr-select --where 'not is_null(…)'", "where not is_null(…) above it" },
    { " (ctr-split --by)", " (ctr-split --by) before" },
    { "--user NAME says", "by NAME says" },
    { "an operator that is fitted belongs into a plan", "an operator that is fitted belongs into a definition" },
    { "cast one, as with",
      "give one the other's type, by columns=\"NAME:TYPE\" of a view of text, or by a line above," },
    { "cast that, as with",
      "give one the other's type, by columns=\"NAME:TYPE\" of a view of text, or have VIEW=FILE made by" },
    { "cast one of them (ctr-select --add)",
      "give one the other's type, by columns=\"NAME:TYPE\" of a view of text, or by a line above, add NAME = EXPR" },
    { "as ctr-import --time makes of a text", "as time=\"NAME\" of a view of text makes of one" },
    { "ctr-import --time makes timestamps of text", "time=\"NAME\" of a view of text makes timestamps" },
    { "ctr-sort --unique keeps the first", "VIEW=FILE of ctr-sort --unique has the first alone" },
    { "--group NAME", "group \"NAME\"" },
    { "--add gives", "= gives" },
    { "-k COLUMN", "on COLUMN" },
    { "then -k", "then on" },
    { "--user", "by" },
    { "--time", "at" },
};
/* Options whose word is their name. */
static const char *const same[] = { "inner",        "anti",   "multi",    "merge",  "by-row", "as-of",     "next",
                                    "within",       "prefix", "last",     "window", "dwell",  "min-dwell", "delay",
                                    "count-window", "prior",  "lateness", "sort",   "where",  "explode",   "add" };

static bool is_option(const char *at, const char *text, const char *name)
{
    const size_t n = strlen(name);
    return (at == text || at[-1] == ' ' || at[-1] == '(' || at[-1] == '\'') && !strncmp(at, "--", 2) &&
           !strncmp(at + 2, name, n) && at[2 + n] != '-' && !isalnum((unsigned char)at[2 + n]);
}

/* How many bytes of *at a plan says as *word; 0: none. */
static size_t find_word(const char *at, const char *text, const char **word)
{
    for (size_t i = 0; i < CTR_COUNT(phrases); i++) {
        const size_t n = strlen(phrases[i].filter);
        *word = phrases[i].plan;
        if (!strncmp(at, phrases[i].filter, n) && !isalnum((unsigned char)at[n]))
            return n;
    }
    for (size_t i = 0; i < CTR_COUNT(same); i++) {
        *word = same[i];
        if (is_option(at, text, same[i]))
            return 2 + strlen(same[i]);
    }
    return 0;
}

/* `--sort` of another program stays: "ctr-sort --unique" is a command. */
static bool of_command(const char *at, const char *text)
{
    const char *end = at, *p;
    while (end > text && end[-1] == ' ')
        end--;
    for (p = end; p > text && (islower((unsigned char)p[-1]) || p[-1] == '-'); p--)
        ;
    return end < at && end - p > 4 && !strncmp(p, "ctr-", 4);
}

/* ctr-select --add 'NAME=EXPR' at `at`: append the line that it is in a plan. How many bytes it has; 0: it is none, or
 * another file is to be made with it. */
static size_t add_line(const char *at, char *text, size_t *n, size_t size)
{
    static const char command[] = "ctr-select --add '", made[] = "made by ";
    const size_t k = strlen(made);
    if (strncmp(at, command, strlen(command)) != 0 || (*n >= k && !memcmp(text + *n - k, made, k)))
        return 0;
    const char *name = at + strlen(command), *eq = strchr(name, '='), *end = strchr(name, '\'');
    if (!end || !eq || eq > end)
        return 0;
    text[*n] = 0;
    *n += ctr_format(text + *n, size - *n, "add %.*s = %.*s", (int)(eq - name), name, (int)(end - eq - 1), eq + 1);
    *n = CTR_MIN(*n, size - 1);
    return (size_t)(end - at) + 1;
}

static void in_words(struct ctr_err *err)
{
    char text[sizeof err->what];
    size_t n = 0, taken;
    const char *at = err->what, *word;
    while (*at && n + 1 < sizeof text) {
        if ((taken = add_line(at, text, &n, sizeof text))) {
            at += taken;
            continue;
        }
        taken = of_command(at, err->what) ? 0 : find_word(at, err->what, &word);
        if (!taken) {
            text[n++] = *at++;
            continue;
        }
        for (; *word && n + 1 < sizeof text; word++)
            text[n++] = *word;
        at += taken;
    }
    text[n] = 0;
    memcpy(err->what, text, n + 1);
}

/* ---- words of a view of text ---- */

/* Options of ctr-import, as FORMAT(…) of a plan has them. */
static const struct {
    const char *option, *name;
    bool flag;
} text_options[] = {
    { "--columns", "columns", false },
    { "--delimiter", "delimiter", false },
    { "--null", "null", false },
    { "--keys", "keys", false },
    { "--encoding", "encoding", false },
    { "--bad-rows", "bad_rows", false },
    { "--label", "label", false },
    { "--weight", "weight", false },
    { "--user", "user", false },
    { "--query", "query", false },
    { "--id", "id", false },
    { "--score", "score", false },
    { "--time", "time", false },
    { "--header", "header", true },
    { "--binary", "binary", true },
};
static const struct {
    const char *filter, *plan;
} text_phrases[] = {
    { "--format ", "the format " },
    { " or --like", "" },
    { "FILE | ctr-import …", "FILE | … VIEW=-" },
    { "already, which every tool reads as it is: ctr-cat FILE", ": give it on stdin, VIEW=-, or as a file" },
    { "then every tool reads it", "and VIEW=FILE of that is read as it is" },
    { "text is read by ctr-import", "a view of text has a format, as in log = csv(header=true)" },
};

/* The argument behind an option, and where it ends: a text in quotes, or a word that no prose is. */
static const char *argument(const char *p, bool null, struct ctr_str *value)
{
    if (*p != ' ')
        return NULL;
    const bool quoted = *++p == '\'';
    const char *end = quoted ? strchr(p + 1, '\'') : p + strcspn(p, " ;)");
    if (!end || (!quoted && !null && strncmp(p, "latin1", 6) != 0 && !memchr(p, ':', (size_t)(end - p)) &&
                 !memchr(p, '=', (size_t)(end - p))))
        return NULL;
    *value = (struct ctr_str){ p + quoted, (size_t)(end - p) - quoted };
    return end + quoted;
}

/* One option or phrase at p, as a plan has it; NULL: there is none. */
static const char *text_word(const char *p, char *out, size_t size)
{
    struct ctr_str value = { "…", strlen("…") };
    for (size_t i = 0; i < CTR_COUNT(text_phrases); i++) {
        const size_t n = strlen(text_phrases[i].filter);
        if (!strncmp(p, text_phrases[i].filter, n)) {
            snprintf(out, size, "%s", text_phrases[i].plan);
            return p + n;
        }
    }
    for (size_t i = 0; i < CTR_COUNT(text_options); i++) {
        const size_t n = strlen(text_options[i].option);
        if (strncmp(p, text_options[i].option, n) != 0 || isalnum((unsigned char)p[n]) || p[n] == '-')
            continue;
        const char *end = text_options[i].flag ? NULL : argument(p + n, !strcmp(text_options[i].name, "null"), &value);
        if (text_options[i].flag)
            snprintf(out, size, "%s=true", text_options[i].name);
        else
            snprintf(out, size, "%s=\"%.*s\"", text_options[i].name, (int)CTR_MIN(value.n, (size_t)200), value.p);
        return end ? end : p + n;
    }
    return NULL;
}

void ctr_flow_text_words(char *to, size_t size, const char *from)
{
    char word[256];
    size_t n = 0;
    while (*from && n + 1 < size) {
        const char *behind = text_word(from, word, sizeof word);
        const size_t k = behind ? strlen(word) : 1;
        const size_t take = CTR_MIN(k, size - 1 - n);
        memcpy(to + n, behind ? word : from, take);
        n += take;
        from = behind ? behind : from + 1;
    }
    to[n] = 0;
}

int ctr_flow_text_fault(struct ctr_err *err)
{
    const struct ctr_err was = *err;
    ctr_flow_text_words(err->what, sizeof err->what, was.what);
    return err->code;
}

int ctr_flow_fault(const struct ctr_plan *plan, int statement, const struct flow_view *v, bool rows,
                   struct ctr_err *err)
{
    const char *view = ctr_plan_statement(plan, statement)->view.name;
    const bool of_view = view && !strcmp(err->file, view);
    if (err->code != CTR_EUSAGE && err->file[0] && !of_view && !rows)
        return err->code;
    if (of_view && v->paths.n == 1)
        ctr_format(err->file, sizeof err->file, "%.60s=%.180s", view, v->paths.s[0]);
    in_words(err);
    return ctr_plan_at_statement(plan, statement, err);
}

/* ---- while it runs ---- */

/* A stage whose errors say which statement they are about: those that arose in it. */
struct faulty {
    struct ctr_batch_source below;
    const struct ctr_plan *plan;
    const struct flow_view *view; /* of the statement */
    int statement;
    bool *failed;   /* an array, by statement: an error came through */
    char rows[256]; /* what its rows are called, where they are not those that it is given */
};

static const struct ctr_schema *faulty_schema(const void *source)
{
    return ctr_batch_source_schema(&((const struct faulty *)source)->below);
}

static const char *faulty_name(const void *source)
{
    const struct faulty *s = source;
    return s->rows[0] ? s->rows : ctr_batch_source_name(&s->below);
}

static void faulty_close(void *source)
{
    struct faulty *s = source;
    ctr_batch_source_close(&s->below);
    free(s);
}

/* The name of what is below is that of the rows which the statement is given. */
static int faulty_next(void *source, const struct ctr_batch **b, struct ctr_err *err)
{
    struct faulty *s = source;
    const int rc = ctr_batch_source_next(&s->below, b, err);
    if (rc >= 0)
        return rc;
    const bool of_rows = !err->file[0] && !strncmp(err->what, "row ", 4);
    if (of_rows)
        ctr_err_file(err, ctr_batch_source_name(&s->below));
    if (!s->failed[s->statement - 1])
        (void)ctr_flow_fault(s->plan, s->statement, s->view, of_rows, err);
    s->failed[s->statement] = true;
    return rc;
}

/* Are its rows, one for one and in order, those that it is given? */
static bool keeps_rows(const struct ctr_plan_statement *s)
{
    if (s->kind == CTR_STATEMENT_ADD)
        return true;
    if (s->kind == CTR_STATEMENT_HISTORY)
        return !ctr_stage_option(s, "sort") && !ctr_stage_option(s, "lateness");
    return s->kind == CTR_STATEMENT_JOIN && !ctr_stage_option(s, "inner") && !ctr_stage_option(s, "anti") &&
           !ctr_stage_option(s, "multi");
}

int ctr_flow_faulty(struct ctr_batch_source *s, const struct ctr_plan *plan, int statement,
                    const struct flow_view *view, bool *failed, struct ctr_err *err)
{
    static const struct ctr_batch_source_ops ops = { faulty_schema, faulty_next, faulty_name, faulty_close, NULL };
    const struct ctr_plan_statement *st = ctr_plan_statement(plan, statement);
    struct faulty *new = malloc(sizeof *new);
    if (!new)
        return ctr_fail_nomem(err, sizeof *new);
    *new = (struct faulty){ .below = *s, .plan = plan, .view = view, .statement = statement, .failed = failed };
    if (st->kind == CTR_STATEMENT_JOIN && keeps_rows(st)) { /* a value of theirs may be any side's */
        const char *below = ctr_batch_source_name(s);
        ctr_format(new->rows, sizeof new->rows, "%.160s%s%.60s", below,
                   strstr(below, " joined with ") ? ", " : " joined with ", st->view.name);
    }
    if (!keeps_rows(st))
        ctr_format(new->rows, sizeof new->rows, "the rows that line %d of the plan makes", st->line);
    *s = (struct ctr_batch_source){ &ops, new };
    return 0;
}
