/* SPDX-License-Identifier: Apache-2.0
 *
 * options: parses the option tables with getopt_long; the same tables give the help and completion. */
#include "common/cli/options.h"

#include <getopt.h>
#include <math.h>
#include <stdlib.h>

enum { OPTIONS_MAX = 128, LONG_BASE = 256, HELP_COLUMN = 28, HELP_WIDTH = 80 };

/* `ctr-cat --to file --lenient -v a.arrows`, where the tool's table begins with to, a CTR_OPT_CHOICE of stream|file:
 *
 *     choose_options  longs[0] = { "to", required_argument, NULL, 256 }; shorts has "k:" and "v", of --key, --verbose
 *     getopt_long     256: option 0. option_set: file is a choice, to = "file". CTR_OPT_LOCAL: it is not remembered
 *     getopt_long     260: option 4, a CTR_OPT_FLAG: lenient = true. remember: "--lenient"
 *     getopt_long     'v': the option with this letter, a CTR_OPT_COUNT, CTR_OPT_LOCAL
 *     check_needs     value[0] = "file", value[4] = "". --key alone would be an error, as it needs to=file
 *
 * What is remembered becomes the provenance of the output, so it has the options that change results. */

/* Option i of all options of the tool: its own, then roles, then common ones. NULL past the end. */
static const struct ctr_opt *option_at(const struct ctr_option_tables *t, int i)
{
    const struct ctr_opt *tables[] = { t->own, t->roles, t->common };

    for (size_t k = 0; k < CTR_COUNT(tables); k++)
        for (const struct ctr_opt *o = tables[k]; o && o->name; o++)
            if (i-- == 0)
                return o;
    return NULL;
}

/* Is `value` of n bytes the choice p of k bytes? Of "a:N", N stands for a number. */
static bool is_alike(const char *p, size_t k, const char *value, size_t n)
{
    if (k > 2 && !memcmp(p + k - 2, ":N", 2)) {
        const size_t digits = n < k ? 0 : strspn(value + k - 1, "0123456789");
        return digits && digits <= 5 && k - 1 + digits == n && !memcmp(p, value, k - 1);
    }
    return k == n && !memcmp(p, value, n);
}

/* Is `value` one of "a|b|c"? */
static bool is_choice(const char *choices, const char *value)
{
    for (const char *p = choices;;) {
        size_t k = strcspn(p, "|");
        if (is_alike(p, k, value, strlen(value)))
            return true;
        if (!p[k])
            return false;
        p += k + 1;
    }
}

static int bad_value(struct ctr_err *err, const struct ctr_opt *o, const char *value, const char *wanted)
{
    return ctr_cli_usage(err, "--%s wants %s, not '%s'", o->name, wanted, value);
}

static int read_value(struct ctr_err *err, const struct ctr_opt *o, const char *value)
{
    const char wants[] = "wants ";
    int rc = o->read(o->to, value, err);
    if (!rc || strncmp(err->what, wants, sizeof wants - 1) != 0)
        return rc;
    const struct ctr_err said = *err;
    return ctr_cli_usage(err, "--%s %s", o->name, said.what);
}

static int option_set(struct ctr_err *err, const struct ctr_opt *o, const char *value)
{
    double real;

    switch (o->kind) {
    case CTR_OPT_FLAG: *(bool *)o->to = true; return 0;
    case CTR_OPT_COUNT: ++*(int *)o->to; return 0;
    case CTR_OPT_STR: *(const char **)o->to = value; return 0;
    case CTR_OPT_CHOICE:
        if (!is_choice(o->arg, value))
            return bad_value(err, o, value, o->arg);
        *(const char **)o->to = value;
        return 0;
    case CTR_OPT_INT:
        if (!ctr_parse_i64(value, strlen(value), o->to) || *(int64_t *)o->to < (o->flags & CTR_OPT_SOME ? 1 : 0))
            return bad_value(err, o, value,
                             o->flags & CTR_OPT_SOME ? "a whole number from 1 on, below 2^63"
                                                     : "a whole number from 0 on, below 2^63");
        return 0;
    case CTR_OPT_REAL:
        if (!ctr_parse_f64(value, strlen(value), &real) || !isfinite(real))
            return bad_value(err, o, value, "a number");
        *(double *)o->to = real;
        return 0;
    case CTR_OPT_SIZE:
        return ctr_parse_size(value, o->to) && *(int64_t *)o->to > 0
                   ? 0
                   : bad_value(err, o, value, "a size such as 256M or 2G");
    case CTR_OPT_DURATION:
        return ctr_parse_duration(value, strlen(value), o->to)
                   ? 0
                   : bad_value(err, o, value, "a duration such as 30m or 1h");
    case CTR_OPT_LIST: return ctr_strs_add(o->to, value, strlen(value), err);
    case CTR_OPT_READ: return read_value(err, o, value);
    case CTR_OPT_MAYBE:
        if (value && !is_choice(o->arg, value))
            return bad_value(err, o, value, o->arg);
        *(const char **)o->to = value ? value : "";
        return 0;
    }
    return 0;
}

/* In the terms of getopt_long. */
static int argument_of(const struct ctr_opt *o)
{
    return o->kind == CTR_OPT_FLAG || o->kind == CTR_OPT_COUNT ? no_argument
           : o->kind == CTR_OPT_MAYBE                          ? optional_argument
                                                               : required_argument;
}

/* Record an option that changes results, as "--name=value", in the order given. */
static int remember(struct ctr_cli *cli, const struct ctr_opt *o, const char *value, struct ctr_err *err)
{
    char *line;

    if (o->flags & (CTR_OPT_LOCAL | CTR_OPT_PATH))
        return 0;
    if (asprintf(&line, "%s%s--%s%s%s", cli->provenance ? cli->provenance : "", cli->provenance ? " " : "", o->name,
                 value ? "=" : "", value ? value : "") < 0)
        return ctr_fail_nomem(err, 64);
    free(cli->provenance);
    cli->provenance = line;
    return 0;
}

/* The error for an unknown option names the nearest one. */
static int unknown(const struct ctr_tool *tool, const struct ctr_option_tables *t, const char *typed,
                   struct ctr_err *err)
{
    const char *names[OPTIONS_MAX], *starts[OPTIONS_MAX], *nearest;
    const int n_typed = (int)strcspn(typed, "=");
    char name[64];
    int n = 0, k = 0;
    const struct ctr_opt *all = tool->opts_of && t->word ? tool->opts_of(NULL) : NULL;

    for (const struct ctr_opt *o; n < OPTIONS_MAX && (o = option_at(t, n)); n++)
        names[n] = o->name;
    if (typed[0] != '-' || typed[1] != '-')
        return ctr_cli_usage(err, "there is no option '%s' (see --help)", typed);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(typed + 2, "="), typed + 2);
    for (; all && all->name; all++)
        if (!strcmp(name, all->name))
            return ctr_cli_usage(err, "%s takes no --%s", t->word, name);
    for (int i = 0; i < n; i++)
        if (*name && !strncmp(name, names[i], strlen(name)))
            starts[k++] = names[i];
    if (k > 1)
        return ctr_cli_usage(err, "'%.*s' may be --%s or --%s%s", n_typed, typed, starts[0], starts[1],
                             k > 2 ? " or another" : "");
    nearest = ctr_nearest(name, names, n);
    return nearest ? ctr_cli_usage(err, "there is no option '%.*s'; the nearest is '--%s'", n_typed, typed, nearest)
                   : ctr_cli_usage(err, "there is no option '%.*s' (see --help)", n_typed, typed);
}

/* Is `word`, such as "bloom=2", equal to the `n` bytes at `want`, or to these followed by "=…"? */
static bool is_word(const char *word, const char *want, size_t n)
{
    return !strncmp(word, want, n) && (!word[n] || word[n] == '=');
}

/* Was `need`, n bytes of ctr_opt.needs, given? value[i] is the value of option i, NULL if not given. */
static bool is_given(const struct ctr_cli *cli, const struct ctr_option_tables *t, const char *const *value,
                     const char *need, size_t n)
{
    const struct ctr_opt *o;
    const char *equals = memchr(need, '=', n);
    const size_t name = equals ? (size_t)(equals - need) : n;

    if (*need == '@')
        return cli->nargs && is_word(cli->args[0], need + 1, n - 1);
    for (int i = 0; (o = option_at(t, i)); i++)
        if (value[i] && strlen(o->name) == name && !memcmp(o->name, need, name))
            return !equals || is_word(value[i], equals + 1, n - name - 1);
    return false;
}

/* An option without effect because another is missing is an error. */
static int check_needs(const struct ctr_cli *cli, const struct ctr_option_tables *t, const char *const *value,
                       struct ctr_err *err)
{
    const struct ctr_opt *o;

    for (int i = 0; (o = option_at(t, i)); i++) {
        char words[256] = "";
        size_t len = 0;
        bool found = !value[i] || !o->needs;
        for (const char *p = o->needs; !found && *p; p += strcspn(p, "|"), p += *p == '|') {
            const int n = (int)strcspn(p, "|");
            found = is_given(cli, t, value, p, (size_t)n);
            snprintf(words + len, sizeof words - len, "%s%s%.*s", len ? " or " : "", *p == '@' ? "" : "--",
                     n - (*p == '@'), p + (*p == '@'));
            len = strlen(words);
        }
        if (!found)
            return ctr_cli_usage(err, "--%s goes with %s", o->name, words);
    }
    return 0;
}

/* The tables in the format of getopt_long. */
struct getopt_tables {
    struct option longs[OPTIONS_MAX + 1];
    char shorts[3 * OPTIONS_MAX + 3];
    int n;
};

static void bind_getopt(const struct ctr_tool *tool, const struct ctr_option_tables *t, struct getopt_tables *g)
{
    size_t at = 0;

    *g = (struct getopt_tables){ 0 };
    if (tool->flags & CTR_TOOL_PREFIX)
        g->shorts[at++] = '+';
    g->shorts[at++] = ':';
    for (const struct ctr_opt *o; g->n < OPTIONS_MAX && (o = option_at(t, g->n)); g->n++) {
        g->longs[g->n] = (struct option){ o->name, argument_of(o), NULL, LONG_BASE + g->n };
        if (o->letter) {
            g->shorts[at++] = o->letter;
            if (argument_of(o) == required_argument)
                g->shorts[at++] = ':';
        }
    }
    optind = 0; /* restart */
    opterr = 0;
}

/* The valid options may depend on the first argument, before which options may occur. */
static void choose_options(const struct ctr_tool *tool, struct ctr_option_tables *t, int argc, char **argv,
                           struct getopt_tables *g)
{
    const struct ctr_opt *own = NULL;

    t->own = tool->opts_of ? tool->opts_of(NULL) : tool->opts;
    bind_getopt(tool, t, g);
    if (!tool->opts_of)
        return;
    while (getopt_long(argc, argv, g->shorts, g->longs, NULL) != -1)
        ;
    if (optind < argc && (own = tool->opts_of(argv[optind]))) {
        t->word = argv[optind];
        t->own = own;
    }
    bind_getopt(tool, t, g);
}

int ctr_options_parse(struct ctr_cli *cli, struct ctr_option_tables *t, int argc, char **argv, struct ctr_err *err)
{
    struct getopt_tables g;
    const char *value[OPTIONS_MAX] = { NULL }; /* of the options given */
    int c, rc = 0;

    choose_options(cli->tool, t, argc, argv, &g);
    while (!rc && (c = getopt_long(argc, argv, g.shorts, g.longs, NULL)) != -1) {
        const struct ctr_opt *o = NULL;
        int at = 0;
        if (c == ':')
            return ctr_cli_usage(err, "%s wants a value (see --help)", argv[optind - 1]);
        if (c == '?' && optopt && optopt < LONG_BASE) {
            char letter[3] = { '-', (char)optopt, 0 };
            return unknown(cli->tool, t, letter, err);
        }
        if (c == '?')
            return optopt ? ctr_cli_usage(err, "%s takes no value", argv[optind - 1])
                          : unknown(cli->tool, t, argv[optind - 1], err);
        for (int i = 0; i < g.n && !o; i++) {
            const struct ctr_opt *p = option_at(t, i);
            if (c == LONG_BASE + i || (c < LONG_BASE && p->letter == c)) {
                o = p;
                at = i;
            }
        }
        if (value[at] && o->flags & CTR_OPT_ONCE)
            return ctr_cli_usage(err, "--%s is given twice, and only the last would count", o->name);
        value[at] = optarg ? optarg : "";
        rc = option_set(err, o, optarg);
        if (!rc)
            rc = remember(cli, o, optarg, err);
        if (!rc)
            rc = ctr_strs_add(&cli->given, o->name, strlen(o->name), err);
    }
    cli->args = argv + optind;
    cli->nargs = argc - optind;
    return rc ? rc : check_needs(cli, t, value, err);
}

bool ctr_cli_given(const struct ctr_cli *cli, const char *name)
{
    return ctr_strs_find(&cli->given, name) >= 0;
}

void ctr_options_free(const struct ctr_option_tables *t)
{
    const struct ctr_opt *o;

    for (int i = 0; (o = option_at(t, i)); i++)
        if (o->kind == CTR_OPT_LIST)
            ctr_strs_free(o->to);
}

/* "a, b, c" */
static void print_words(const char *(*word)(int i), const char *between, FILE *f)
{
    for (int i = 0; word && word(i); i++)
        fprintf(f, "%s%s", i ? between : "", word(i));
}

/* Screen columns of n bytes of UTF-8. */
static int columns_of(const char *p, int n)
{
    int columns = 0;
    for (int i = 0; i < n; i++)
        columns += (p[i] & 0xc0) != 0x80;
    return columns;
}

/* Print n bytes of text from column `at` on, broken at blanks, or after a comma of a long word, into lines indented by
 * `indent`. */
static void print_wrapped(const char *text, int n, int at, int indent, FILE *f)
{
    for (int from = 0; from < n;) {
        int end = from; /* end of the longest piece that fits */
        for (int i = from + 1; i <= n; i++) {
            bool stop = i == n || text[i] == ' ' || (text[i - 1] == ',' && n - from > HELP_WIDTH - indent);
            if (stop && at + columns_of(text + from, i - from) >= HELP_WIDTH && (end > from || at > indent))
                break;
            end = stop ? i : end;
        }
        fprintf(f, "%.*s\n", end - from, text + from);
        from = end + (end < n && text[end] == ' ');
        if (from < n)
            fprintf(f, "%*s", at = indent, "");
    }
}

static void help_option(const struct ctr_opt *o, FILE *f)
{
    char left[128];
    int n = o->letter ? snprintf(left, sizeof left, "  -%c, --%s", o->letter, o->name)
                      : snprintf(left, sizeof left, "      --%s", o->name);

    if (argument_of(o) == required_argument)
        n += snprintf(left + n, sizeof left - (size_t)n, " %s", o->arg);
    else if (argument_of(o) == optional_argument)
        n += snprintf(left + n, sizeof left - (size_t)n, "[=%s]", o->arg);
    int columns = columns_of(left, n);
    if (columns >= HELP_COLUMN)
        fprintf(f, "%s\n%*s  ", left, HELP_COLUMN, "");
    else
        fprintf(f, "%s%*s  ", left, HELP_COLUMN - columns, "");
    print_wrapped(o->help, (int)strlen(o->help), HELP_COLUMN + 2, HELP_COLUMN + 2, f);
    for (int i = 0, at = HELP_WIDTH; o->word && o->word(i); i++) {
        int k = (int)strlen(o->word(i)) + (o->word(i + 1) != NULL);
        if (at + k >= HELP_WIDTH) {
            fprintf(f, "%s%*s", i ? "\n" : "", HELP_COLUMN + 2, "");
            at = HELP_COLUMN + 2;
        }
        fprintf(f, "%s%s", o->word(i), o->word(i + 1) ? "," : "\n");
        at += k;
    }
}

/* "ctr-train - summary" and the forms of the command; for a word, those that start with it. */
static void help_usage(const struct ctr_tool *tool, const char *word, const char *summary, FILE *f)
{
    const char *form = tool->synopsis;
    char line[512];
    int len = snprintf(line, sizeof line, "%s%s%s - %s", tool->name, word ? " " : "", word ? word : "", summary);

    print_wrapped(line, len, 0, 4, f);
    fputc('\n', f);
    for (const char *lead = "usage:"; form; lead = "   or:") {
        const char *rest = word ? form + strcspn(form, " \n") : form;
        int n = (int)strcspn(rest, "\n");
        len = snprintf(line, sizeof line, "%s %s [options] %s%.*s", lead, tool->name, word ? word : "", n, rest);
        print_wrapped(line, len, 0, 8 + (int)strlen(tool->name), f);
        form = rest[n] ? rest + n + 1 : NULL;
    }
}

/* List the valid first arguments. Returns the summary of `word`. */
static const char *help_words(const struct ctr_tool *tool, const char *word, FILE *f)
{
    for (int i = 0; tool->word(i); i++) {
        if (word && !strcmp(word, tool->word(i)))
            return tool->word_help(i);
        if (!word)
            fprintf(f, "  %-9s  %s\n", tool->word(i), tool->word_help(i));
    }
    return NULL;
}

/* How many options have an effect in the tool; `flag`: of those that have it. */
static int count_options(const struct ctr_option_tables *t, unsigned flag)
{
    const struct ctr_opt *o;
    int n = 0;

    for (int i = 0; (o = option_at(t, i)); i++)
        n += !(o->flags & CTR_OPT_IDLE) && (o->flags & flag) == flag;
    return n;
}

/* The options that have an effect and `flag`, by group. */
static void help_options(const struct ctr_option_tables *t, unsigned flag, FILE *f)
{
    const struct ctr_opt *o;
    const char *group = "options", *printed = "";

    for (int i = 0; (o = option_at(t, i)); i++) {
        group = o == t->roles    ? "columns by role (default: the column that has the role)"
                : o == t->common ? "common options"
                : o->group       ? o->group
                                 : group;
        if (o->flags & CTR_OPT_IDLE || (o->flags & flag) != flag)
            continue;
        if (strcmp(group, printed))
            fprintf(f, "\n%s:\n", printed = group);
        help_option(o, f);
    }
}

static void help_notes(const struct ctr_tool *tool, FILE *f)
{
    for (int i = 0; tool->notes && tool->notes[i]; i++) {
        fputc('\n', f);
        for (const char *p = tool->notes[i]; *p; p += strcspn(p, "\n"), p += *p == '\n')
            print_wrapped(p, (int)strcspn(p, "\n"), 0, 0, f);
    }
}

void ctr_options_help(const struct ctr_tool *tool, const struct ctr_option_tables *t, bool all, FILE *f)
{
    const bool by_word = tool->opts_of && !t->word;
    struct ctr_option_tables shown = *t;

    help_usage(tool, t->word, t->word ? help_words(tool, t->word, f) : tool->summary, f);
    if (by_word) {
        shown.own = tool->opts;
        fprintf(f, "\nmodels, whose options `%s MODEL --help` shows:\n", tool->name);
        (void)help_words(tool, NULL, f);
    } else if (!tool->opts_of && tool->word_help) {
        fputc('\n', f);
        for (int i = 0; tool->word(i); i++)
            fprintf(f, "  %-11s  %s\n", tool->word(i), tool->word_help(i));
    }
    const int n = count_options(&shown, 0);
    const bool basic = !all && n > CTR_HELP_ROWS;
    help_options(&shown, basic ? CTR_OPT_BASIC : 0, f);
    help_notes(tool, f);
    fputs("\nSee ", f);
    if (t->word)
        fprintf(f, "%s-%s(1), ", tool->name, t->word);
    fprintf(f, "%s(1) and ctrkit(7).\n", tool->name);
    if (basic)
        fprintf(f, "These are %d of %d options; `%s%s%s --help=all` shows all.\n", count_options(&shown, CTR_OPT_BASIC),
                n, tool->name, t->word ? " " : "", t->word ? t->word : "");
}

/* Those that are words: "a|b:N|c" completes to a and c. */
static void print_choices(const char *p, FILE *f)
{
    for (const char *between = "";;) {
        const size_t k = strcspn(p, "|");
        if (k < 2 || memcmp(p + k - 2, ":N", 2) != 0) {
            fprintf(f, "%s%.*s", between, (int)k, p);
            between = "|";
        }
        if (!p[k])
            return;
        p += k + 1;
    }
}

/* Does its value name columns of a stream? */
static bool names_columns(const struct ctr_opt *o)
{
    bool role = false;
    for (int i = 0; i < CTR_NROLES; i++)
        role |= !strcmp(o->name, ctr_roles[i]) && o->arg && !strcmp(o->arg, "NAME");
    return role || !strcmp(o->name, "columns") ||
           (o->arg && (!strncmp(o->arg, "COL", 3) || !strncmp(o->arg, "KEY", 3)));
}

void ctr_options_list(const struct ctr_tool *tool, const struct ctr_option_tables *t, FILE *f)
{
    static const char *const kinds[] = { "flag",     "text", "choice", "number", "number", "size",
                                         "duration", "text", "flag",   "text",   "flag" };
    const struct ctr_opt *o;

    for (int i = 0; (o = option_at(t, i)); i++) {
        char letter[3] = { '-', o->letter, 0 };
        fprintf(f, "--%s\t%s\t%s\t", o->name, o->letter ? letter : "",
                o->flags & CTR_OPT_PATH ? "file"
                : o->word               ? "list"
                : names_columns(o)      ? "columns"
                                        : kinds[o->kind]);
        if (o->word)
            print_words(o->word, "|", f);
        else if (o->kind == CTR_OPT_CHOICE)
            print_choices(o->arg, f);
        else
            fputs(o->arg ? o->arg : "", f);
        fprintf(f, "\t%s\n", o->help);
    }
    if (tool->word) {
        fputs("\t\tword\t", f);
        print_words(tool->word, "|", f);
        fputs("\tthe first argument\n", f);
    }
}
