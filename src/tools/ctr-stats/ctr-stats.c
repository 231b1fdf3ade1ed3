/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-stats: profiles streams: counts, distinct values, quantiles, frequent values, and what a column tells of clicks.
 */
#include "common/cli/cli.h"
#include "tools/ctr-stats/drift.h"
#include "tools/ctr-stats/profiles.h"
#include "tools/ctr-stats/show.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct {
    const char *by, *profile, *format, *against;
    int64_t window_ms;
    bool merge;
    struct ctr_strs fail;
} o;

static const struct ctr_opt opts[] = {
    { "by", 'b', CTR_OPT_STR, "COLUMN", "a profile for each value of this column", &o.by, CTR_OPT_ONCE },
    { "window", 'w', CTR_OPT_DURATION, "DURATION", "a profile for each window of the time column, such as 1h",
      &o.window_ms, 0 },
    { "against", 'a', CTR_OPT_STR, "REF", "show how columns differ from those of REF, a stream or a profile",
      &o.against, CTR_OPT_PATH | CTR_OPT_ONCE },
    { "fail-above", 0, CTR_OPT_LIST, "MEASURE=LIMIT,…",
      "exit 3 beyond a limit of psi, js, wasserstein, new, vanished or nulls", &o.fail, CTR_OPT_LOCAL,
      .needs = "against" },
    { "profile", 'p', CTR_OPT_STR, "FILE", "also write the profile, which --merge reads", &o.profile,
      CTR_OPT_PATH | CTR_OPT_ONCE },
    { "merge", 'm', CTR_OPT_FLAG, NULL, "the inputs are profiles: show that of all their rows", &o.merge,
      CTR_OPT_LOCAL },
    { "format", 'f', CTR_OPT_CHOICE, "table|stream", "write a table (default on a terminal) or a stream", &o.format,
      CTR_OPT_LOCAL },
    { 0 },
};

/* For example, `ctr-stats --against ref.prof --fail-above psi=0.2 today.arrows`:
 *
 *     read_limits       {psi, .2}
 *     read_reference    the profile in ref.prof (a stream would be profiled, by the same pool of threads)
 *     profile_rows      the profile of today.arrows
 *     compare_slices    pairs slices of both by value, then columns by name; ctr_drift of each pair is a line
 *     check_limits      keeps the first measure beyond its limit, and counts further columns
 *     fail_beyond       after the result is written: "site: psi is 0.31, above 0.2", exit 3
 *
 * What cannot be compared (another type, no such column, a slice without rows on one side) is beyond any limit, so a
 * renamed column fails the check and does not pass for want of drift. */

/* ---- input ---- */

static int find_columns(struct ctr_cli *cli, const struct ctr_schema *s, int *label, int *by, int *time,
                        struct ctr_err *err)
{
    char type[64];
    int rc = ctr_cli_role(cli, s, CTR_ROLE_LABEL, false, label, err);
    *time = -1;
    if (rc || (o.window_ms && (rc = ctr_cli_role(cli, s, CTR_ROLE_TIME, true, time, err))))
        return rc;
    if (*label >= 0 && s->f[*label].type != CTR_BOOL && !ctr_type_number(s->f[*label].type))
        return ctr_fail(err, CTR_EUSAGE, "%s is no label: it is %s, and labels are numbers from 0 to 1 or booleans",
                        s->f[*label].name, ctr_field_type_name(&s->f[*label], type, sizeof type));
    if (*time >= 0 && s->f[*time].type != CTR_TIME)
        return ctr_fail(err, CTR_EUSAGE, "%s is no time: it is %s, and --window wants a timestamp", s->f[*time].name,
                        ctr_field_type_name(&s->f[*time], type, sizeof type));
    *by = o.by ? ctr_schema_need(s, o.by, err) : -1;
    if (*by < -1)
        return *by;
    if (o.by && ctr_type_list(s->f[*by].type))
        return ctr_fail(err, CTR_EUSAGE, "%s is a list: --by wants a column of single values (ctr-select --explode %s)",
                        o.by, o.by);
    return 0;
}

/* Columns of types that are not supported are left out. */
static int supported_columns(struct ctr_cli *cli, struct ctr_reader *r, struct ctr_err *err)
{
    const struct ctr_schema *s = ctr_reader_schema(r);
    int n = 0, *keep = calloc((size_t)s->n + 1, sizeof *keep);
    if (!keep)
        return ctr_fail_nomem(err, (size_t)s->n * sizeof *keep);
    for (int i = 0; i < s->n; i++) {
        if (s->f[i].type != CTR_FOREIGN)
            keep[n++] = i;
        else
            ctr_cli_note(cli, "%s: column %s is left out: its type, %s, is not supported", ctr_reader_file(r),
                         s->f[i].name, s->f[i].foreign);
    }
    const int rc = n < s->n ? ctr_reader_project(r, keep, n, err) : 0;
    free(keep);
    return rc;
}

static int profile_rows(struct ctr_cli *cli, struct ctr_reader *r, struct ctr_pool *pool, bool reference,
                        struct ctr_profiles **p, struct ctr_err *err)
{
    const struct ctr_batch *b;
    int label = -1, by = -1, time = -1, rc = supported_columns(cli, r, err);
    if (!rc && !reference && ctr_is_profile(ctr_reader_schema(r)))
        ctr_cli_note(cli, "%s is a profile: --merge shows it", ctr_reader_file(r));
    if (!rc && !reference)
        rc = find_columns(cli, ctr_reader_schema(r), &label, &by, &time, err);
    if (!rc && reference && o.by && (by = ctr_schema_need(ctr_reader_schema(r), o.by, err)) < 0)
        rc = by;
    if (!rc)
        rc = ctr_profiles_new(p, ctr_reader_schema(r), label, by, time, reference ? 0 : o.window_ms, pool, err);
    while (!rc && (rc = ctr_reader_next(r, &b, err)) > 0) {
        rc = ctr_profiles_batch(*p, b, err);
        if (!reference)
            ctr_cli_progress(cli, ctr_reader_rows(r), ctr_reader_total_rows(r));
    }
    if (rc < 0)
        ctr_err_file(err, ctr_reader_file(r));
    return rc;
}

/* The reference: a profile, or a stream, which is profiled. */
static int read_reference(struct ctr_cli *cli, struct ctr_pool *pool, struct ctr_profiles **ref, struct ctr_err *err)
{
    const struct ctr_reader_opts ro = { .foreign = true };
    char path[4096];
    char *paths[1] = { path };
    struct ctr_reader *r = NULL;
    snprintf(path, sizeof path, "%s", o.against);
    int rc = ctr_reader_open(&r, paths, 1, &ro, err);
    if (!rc && ctr_is_profile(ctr_reader_schema(r)))
        rc = ctr_profile_file_read(ref, r, err);
    else if (!rc)
        rc = profile_rows(cli, r, pool, true, ref, err);
    if (!rc && (*ref)->window_ms)
        rc = ctr_fail(err, CTR_EUSAGE, "is a profile of windows: --against wants one of all rows");
    if (rc)
        ctr_err_file(err, o.against);
    ctr_reader_free(r);
    return rc;
}

/* Each input is a stream of its own, so that an error names it. */
static int merge_profiles(struct ctr_cli *cli, struct ctr_profiles **p, struct ctr_err *err)
{
    char *input = NULL;
    int rc = 0;
    for (int i = 0; !rc && i < CTR_MAX(1, cli->nargs); i++) {
        struct ctr_reader *r = NULL;
        input = cli->nargs ? cli->args[i] : NULL;
        rc = ctr_reader_open(&r, &input, input ? 1 : 0, NULL, err);
        if (!rc)
            rc = ctr_profile_file_read(p, r, err);
        if (rc)
            ctr_err_file(err, r ? ctr_reader_file(r) : input ? input : "stdin");
        ctr_reader_free(r);
    }
    return rc;
}

/* ---- output ---- */

static int write_profile(struct ctr_cli *cli, const struct ctr_profiles *p, struct ctr_out *out, struct ctr_err *err)
{
    const struct ctr_writer_opts wo = { .compression = CTR_ZSTD };
    struct ctr_schema s = { 0 };
    struct ctr_writer *w = NULL;
    int rc = ctr_profile_file_schema(p, &s, err);
    if (!rc) /* without options, so that a merged profile is that of the rows; what matters is in its metadata */
        rc = ctr_schema_provenance(&s, cli->tool->name, "", err);
    if (!rc)
        rc = ctr_writer_open(&w, out, &s, &wo, err);
    if (!rc)
        rc = ctr_profile_file_write(p, &s, w, err);
    if (!rc)
        rc = ctr_writer_finish(w, err);
    if (!rc)
        rc = ctr_out_commit(out, err);
    ctr_writer_free(w);
    ctr_schema_free(&s);
    return rc;
}

enum { SLICES_NAMED = 8 }; /* of those without rows on one side: on stderr */

/* A limit of --fail-above. */
struct limit {
    const struct ctr_drift_measure *measure;
    double most;
};
struct limits {
    struct limit *limit;
    int n;
    char first[400];         /* what is beyond them; "": nothing */
    int64_t columns, slices; /* that are, too */
};

static int read_limit(const char *text, struct limit *l, struct ctr_err *err)
{
    const char *equal = strchr(text, '=');
    const char *names[16], *name = text;
    char hint[256];
    const size_t n = equal ? (size_t)(equal - name) : strlen(name);
    for (int i = 0; i < ctr_drift_measures_count; i++) {
        names[i] = ctr_drift_measures[i].name;
        if (strlen(names[i]) == n && !memcmp(names[i], name, n))
            l->measure = &ctr_drift_measures[i];
    }
    if (!l->measure)
        return ctr_cli_usage(err, "--fail-above %s: there is no measure %.*s%s", text, (int)CTR_MIN(n, 60), name,
                             ctr_name_hint(hint, sizeof hint, text, names, ctr_drift_measures_count));
    if (!equal || !ctr_parse_f64(equal + 1, strlen(equal + 1), &l->most) || !(l->most >= 0))
        return ctr_cli_usage(err, "--fail-above %s: wants a limit of at least 0, as in %s=0.2", text, l->measure->name);
    return 0;
}

static int read_limits(struct limits *l, struct ctr_err *err)
{
    struct ctr_strs list = { 0 };
    int rc = 0;
    for (int i = 0; !rc && i < o.fail.n; i++)
        rc = ctr_strs_split(&list, o.fail.s[i], ',', err);
    l->limit = calloc((size_t)list.n + 1, sizeof *l->limit);
    if (!rc && !l->limit)
        rc = ctr_fail_nomem(err, (size_t)list.n * sizeof *l->limit);
    for (int i = 0; !rc && i < list.n; i++)
        rc = read_limit(list.s[i], &l->limit[l->n++], err);
    ctr_strs_free(&list);
    return rc;
}

static void check_limits(struct limits *l, const struct ctr_profile *column, const struct ctr_drift *d)
{
    for (int i = 0; i < l->n; i++) {
        const double x = *(const double *)((const char *)d + l->limit[i].measure->at);
        if (!(x > l->limit[i].most))
            continue;
        if (*l->first)
            l->columns++;
        else
            ctr_format(l->first, sizeof l->first, "%s: %s is %s, above %s", column->name, l->limit[i].measure->name,
                       ctr_cell(x).s, ctr_cell(l->limit[i].most).s);
        return;
    }
}

/* A column that cannot be compared is beyond any limit. */
static void check_missing(struct limits *l, const char *name)
{
    if (l->n && *l->first)
        l->columns++;
    else if (l->n)
        ctr_format(l->first, sizeof l->first, "column %s cannot be compared", name);
}

static int fail_beyond(const struct limits *l, struct ctr_err *err)
{
    char columns[64] = "", slices[64] = "";
    if (l->columns)
        ctr_format(columns, sizeof columns, ", and %lld column%s more", (long long)l->columns, CTR_S(l->columns));
    if (l->slices)
        ctr_format(slices, sizeof slices, ", and %lld slice%s more", (long long)l->slices, CTR_S(l->slices));
    return ctr_fail(err, CTR_ENO, "%s%s%s", l->first, columns, slices);
}

/* The rows to write, and the table. */
struct result {
    struct ctr_schema schema;
    struct ctr_batchbuf rows;
    struct ctr_buf text;
};

struct comparison {
    struct ctr_cli *cli;
    const struct ctr_profiles *p, *ref;
    bool table;
    struct limits *limits;
    struct result *to;
    struct ctr_slice no_rows, no_ref_rows;
    int shown, one_sided; /* slices */
};

/* A slice without rows on one side is beyond any limit. */
static int check_rows(struct comparison *c, const struct ctr_slice *slice, int64_t rows, int64_t ref_rows,
                      struct ctr_err *err)
{
    struct ctr_buf name = { 0 };
    struct limits *l = c->limits;
    int rc = slice->absent && !c->ref->by ? 0 : ctr_slice_name(c->p, slice, &name, err);
    if (!rc)
        rc = ctr_buf_append(&name, "", 1, err);
    if (!rc) {
        char why[400];
        const char *is = (const char *)name.data;
        const char *such = *is ? " such" : "", *colon = *is ? ": " : "";
        if (!rows && !ref_rows)
            ctr_format(why, sizeof why, "%s%sneither the input nor %s has%s rows", is, colon, o.against, such);
        else if (rows)
            ctr_format(why, sizeof why, "%s%s%s has no%s rows", is, colon, o.against, such);
        else
            ctr_format(why, sizeof why, "%s%sthe input has no%s rows", is, colon, such);
        if (c->one_sided++ < SLICES_NAMED)
            ctr_cli_note(c->cli, "%s", why);
        if (l->n && *l->first)
            l->slices++;
        else if (l->n)
            ctr_format(l->first, sizeof l->first, *is ? "%s cannot be compared" : "%s", *is ? is : why);
        if (c->table)
            rc = ctr_buf_format(&c->to->text, err, "%lld row%s here, %lld in %s\n", (long long)rows, CTR_S(rows),
                                (long long)ref_rows, o.against);
    }
    ctr_buf_free(&name);
    return rc;
}

static int compare_column(struct comparison *c, const struct ctr_slice *slice, const struct ctr_profile *column,
                          const struct ctr_profile *there, bool check, struct ctr_err *err)
{
    struct ctr_drift d;
    int rc = ctr_drift(column, there, c->cli->seed, &d, err);
    if (!rc)
        rc = c->table ? ctr_drift_line(column, &d, &c->to->text, err)
                      : ctr_drift_row(c->p, slice, column, &d, c->to->rows.col, err);
    if (rc)
        return rc;
    if (d.ref_rows >= 0 && check) {
        if (!(column->values + column->nulls) != !(there->values + there->nulls)) /* all lists are empty */
            check_missing(c->limits, column->name);
        else
            check_limits(c->limits, column, &d);
    }
    if (d.ref_rows >= 0 || c->shown)
        return 0;
    if (there)
        ctr_cli_note(c->cli, "column %s is %s, and in %s %s: not compared", column->name, column->type, o.against,
                     there->type);
    else
        ctr_cli_note(c->cli, "%s has no column %s", o.against, column->name);
    check_missing(c->limits, column->name);
    return 0;
}

static int compare_slice(struct comparison *c, const struct ctr_slice *slice, const struct ctr_slice *there,
                         struct ctr_err *err)
{
    const int n = c->p->schema.n;
    const int64_t rows = n ? slice->column[0].rows : 0, ref_rows = c->ref->schema.n ? there->column[0].rows : 0;
    int rc = c->table && !(slice->absent && !c->ref->by) ? ctr_slice_title(c->p, slice, &c->to->text, err) : 0;
    if (!rc && (!rows || !ref_rows))
        rc = check_rows(c, slice, rows, ref_rows, err);
    if (!rc && c->table)
        rc = ctr_drift_head(&c->to->text, err);
    for (int i = 0; !rc && i < n; i++) {
        const int k = ctr_schema_find(&c->ref->schema, slice->column[i].name);
        rc = compare_column(c, slice, &slice->column[i], k < 0 ? NULL : &there->column[k], rows && ref_rows, err);
    }
    c->shown++;
    return rc;
}

/* Slices of here, then those that only the reference has. */
static int compare_slices(struct comparison *c, struct ctr_err *err)
{
    const struct ctr_profiles *p = c->p, *ref = c->ref;
    int rc = ctr_profiles_slice_init(&c->no_rows, &p->schema, NULL, err);
    if (!rc)
        rc = ctr_profiles_slice_init(&c->no_ref_rows, &ref->schema, NULL, err);
    for (int i = 0; !rc && i < p->n; i++) {
        const struct ctr_slice *there = ctr_drift_slice(ref, ref->by, &p->slice[i]);
        rc = compare_slice(c, &p->slice[i], there ? there : &c->no_ref_rows, err);
    }
    for (int i = 0; !rc && i < ref->n; i++) {
        if (ctr_drift_slice(p, ref->by, &ref->slice[i]))
            continue;
        const struct ctr_slice only_there = { ref->slice[i].by, ref->slice[i].by_n, 0, true, c->no_rows.column };
        rc = compare_slice(c, &only_there, &ref->slice[i], err);
    }
    return rc;
}

static int show_drift(struct ctr_cli *cli, const struct ctr_profiles *p, const struct ctr_profiles *ref, bool table,
                      struct limits *l, struct result *to, struct ctr_err *err)
{
    struct comparison c = { .cli = cli, .p = p, .ref = ref, .table = table, .limits = l, .to = to };
    int rc = compare_slices(&c, err);
    ctr_profiles_slice_free(&c.no_rows, p->schema.n);
    ctr_profiles_slice_free(&c.no_ref_rows, ref->schema.n);
    if (rc)
        return rc;
    if (!p->n && !ref->n && l->n)
        ctr_format(l->first, sizeof l->first, "neither the input nor %s has rows", o.against);
    if (c.one_sided > SLICES_NAMED)
        ctr_cli_note(cli, "%d slices more are without rows on one side", c.one_sided - SLICES_NAMED);
    for (int k = 0; k < ref->schema.n; k++) {
        if (ctr_schema_find(&p->schema, ref->schema.f[k].name) >= 0)
            continue;
        ctr_cli_note(cli, "the input has no column %s, which %s has", ref->schema.f[k].name, o.against);
        check_missing(l, ref->schema.f[k].name);
    }
    return 0;
}

static int make_result(struct ctr_cli *cli, const struct ctr_profiles *p, const struct ctr_profiles *ref, bool table,
                       struct limits *l, struct result *to, struct ctr_err *err)
{
    int rc = ref ? ctr_drift_schema(p, &to->schema, err) : ctr_show_schema(p, &to->schema, err);
    if (!rc)
        rc = ctr_batchbuf_init(&to->rows, &to->schema, err);
    if (!rc && ref)
        return show_drift(cli, p, ref, table, l, to, err);
    if (rc)
        return rc;
    return table ? ctr_show_table(p, &to->text, err) : ctr_show_rows(p, &to->rows, err);
}

static void result_free(struct result *r)
{
    ctr_batchbuf_free(&r->rows);
    ctr_schema_free(&r->schema);
    ctr_buf_free(&r->text);
}

static int write_stream(struct ctr_cli *cli, struct result *res, struct ctr_out *out, struct ctr_err *err)
{
    struct ctr_writer *w = NULL;
    int rc = ctr_cli_writer(cli, out, &res->schema, &w, err);
    if (!rc && ctr_batchbuf_rows(&res->rows))
        rc = ctr_writer_batch(w, ctr_batchbuf_view(&res->rows), err);
    if (!rc)
        rc = ctr_cli_finish(cli, w, out, err);
    ctr_writer_free(w);
    return rc;
}

static int write_table(struct ctr_cli *cli, const struct result *res, struct ctr_out *out, struct ctr_err *err)
{
    ctr_cli_progress_clear(cli);
    const int rc = res->text.len ? ctr_out_write(out, res->text.data, res->text.len, err) : 0;
    return rc ? rc : ctr_out_commit(out, err);
}

static bool wants_table(const struct ctr_cli *cli)
{
    return o.format ? !strcmp(o.format, "table") : ctr_names_stdout(cli->out) && isatty(STDOUT_FILENO);
}

static int write_all(struct ctr_cli *cli, struct ctr_profiles *p, struct ctr_profiles *ref, struct limits *l,
                     struct ctr_err *err)
{
    const bool table = wants_table(cli);
    struct ctr_out *out = NULL, *side = NULL;
    struct result res = { 0 };
    ctr_profiles_sort(p);
    if (ref)
        ctr_profiles_sort(ref);
    int rc = make_result(cli, p, ref, table, l, &res, err);
    if (!rc)
        rc = ctr_cli_out(cli, table ? 0 : CTR_OUT_BINARY, &out, err);
    if (!rc && o.profile)
        rc = ctr_cli_side_out(cli, o.profile, CTR_OUT_BINARY, &side, err);
    if (!rc && o.profile)
        rc = write_profile(cli, p, side, err);
    if (!rc)
        rc = table ? write_table(cli, &res, out, err) : write_stream(cli, &res, out, err);
    if (!rc && *l->first)
        rc = fail_beyond(l, err);
    ctr_out_free(side);
    ctr_out_free(out);
    result_free(&res);
    return rc;
}

static int check_options(struct ctr_cli *cli, struct limits *l, struct ctr_err *err)
{
    if (o.merge && (o.by || o.window_ms))
        return ctr_cli_usage(err, "--merge shows the slices that its profiles have: leave out --by and --window");
    if (ctr_cli_given(cli, "window") && o.window_ms <= 0)
        return ctr_cli_usage(err, "--window wants a duration of at least 1ms");
    return read_limits(l, err);
}

/* Do the slices of both go together? */
static int check_reference(const struct ctr_profiles *p, const struct ctr_profiles *ref, struct ctr_err *err)
{
    if (ref->by && (!p->by || strcmp(ref->by, p->by) != 0)) {
        ctr_err_file(err, o.against);
        return ctr_fail(err, CTR_EUSAGE, "is a profile by %s, and this is none: make both with the same --by", ref->by);
    }
    return 0;
}

static int stats(struct ctr_cli *cli, struct ctr_err *err)
{
    const struct ctr_reader_opts ro = { .foreign = true };
    struct ctr_profiles *p = NULL, *ref = NULL;
    struct limits l = { 0 };
    struct ctr_reader *r = NULL;
    struct ctr_pool *pool = NULL;
    int rc = check_options(cli, &l, err);
    if (!rc && o.against)
        rc = ctr_cli_read(cli, o.against, err);
    if (!rc)
        rc = ctr_pool_new(&pool, (int)cli->jobs, CTR_FLOAT_IEEE, err);
    if (!rc)
        rc = o.merge ? ctr_cli_inputs(cli, 0, err) : ctr_cli_reader(cli, 0, &ro, &r, err);
    if (!rc && o.against)
        rc = read_reference(cli, pool, &ref, err);
    if (!rc)
        rc = o.merge ? merge_profiles(cli, &p, err) : profile_rows(cli, r, pool, false, &p, err);
    if (!rc && ref)
        rc = check_reference(p, ref, err);
    if (!rc)
        rc = write_all(cli, p, ref, &l, err);
    free(l.limit);
    ctr_strs_free(&o.fail);
    ctr_profiles_free(p);
    ctr_profiles_free(ref);
    ctr_pool_free(pool);
    ctr_reader_free(r);
    return rc;
}

const struct ctr_tool ctr_tool = {
    "ctr-stats",
    "profile the columns of a stream: values, quantiles, what each tells of clicks, drift",
    "[FILE…]\n--merge PROFILE…",
    NULL,
    opts,
    CTR_TOOL_READS | CTR_TOOL_WRITES | CTR_TOOL_SEED | CTR_TOOL_ROLE(CTR_ROLE_LABEL) | CTR_TOOL_ROLE(CTR_ROLE_TIME),
    stats
};
