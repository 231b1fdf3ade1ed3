/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-model: prints information about models, and converts them to small serving files. */
#include <inttypes.h>
#include <math.h>
#include <unistd.h>

#include "common/cli/cli.h"
#include "common/model/model.h"
#include "common/plan/plan.h"
#include "common/rows/flow.h"
#include "tools/ctr-model/insight.h"

static struct {
    const char *names, *format, *table, *images;
    int64_t n;
    bool by_table, weights_only, attention;
} o = { .n = 20, .format = "table" };

static const struct ctr_opt opts[] = {
    { "count", 'n', CTR_OPT_INT, "N", "show N weights, or N features or items per row (default 20; 0: all)", &o.n,
      .needs = "@top|@diff|@explain" },
    { "by-table", 0, CTR_OPT_FLAG, NULL, "show N weights per table; explain: the sum of each table or column",
      &o.by_table, .needs = "@top|@diff|@explain" },
    { "table", 't', CTR_OPT_STR, "PATTERN", "top, diff: show only tables whose names match, such as user*", &o.table,
      .needs = "@top|@diff" },
    { "names", 0, CTR_OPT_STR, "FILE", "take readable names of keys from FILE, written by ctr-extract --names",
      &o.names, CTR_OPT_PATH, .needs = "@top|@diff|@explain" },
    { "images", 0, CTR_OPT_STR, "FILE", "explain of dicm: take image vectors by key from FILE", &o.images, CTR_OPT_PATH,
      .needs = "@explain" },
    { "attention", 0, CTR_OPT_FLAG, NULL, "explain of din, dicm: which items of histories attention weighs highest",
      &o.attention, .needs = "@explain" },
    { "format", 'f', CTR_OPT_CHOICE, "table|stream", "write a table for people, or a stream (default table)", &o.format,
      .needs = "@top|@diff|@explain" },
    { "weights-only", 0, CTR_OPT_FLAG, NULL, "slim: leave out learning rates and keys of weight 0", &o.weights_only,
      .needs = "@slim" },
    { 0 },
};

static bool is_table(void)
{
    return !strcmp(o.format, "table");
}

/* Each action gets batches from a function of insight.h and prints them, or writes them as they are (--format stream).
 * For example, a row of explain and its lines; those of one row of the input have a common head:
 *
 *     1, .505362, site, 3616877834260159592, a, 1, .033333, .033333
 *
 *     row 1: score 0.505362, log odds +0.021451
 *     contribution           x  feature
 *        +0.033333           1  site=a
 *
 * A row of top, (site, key, null, null, -.034138), is a line without a count and a name:
 *
 *      -0.034138           -  site=#b904fa7250e7342c */

/* ---- tables for people ---- */

static int print_text(struct ctr_out *out, struct ctr_str s, struct ctr_err *err)
{
    struct ctr_buf b = { 0 };
    int rc = ctr_buf_quote(&b, s.p, s.n, err);
    if (!rc)
        rc = ctr_out_write(out, b.data, b.len, err);
    ctr_buf_free(&b);
    return rc;
}

static int print_weight(struct ctr_out *out, double w, struct ctr_err *err)
{
    return ctr_out_printf(out, err, fabs(w) < 1e6 ? "%+10.6f  " : "%+10.4g  ", w);
}

/* "table=name", or "table" if the name is empty, or "table=#key" if it is unknown. */
static int print_feature(struct ctr_out *out, struct ctr_str table, const struct ctr_col *name,
                         const struct ctr_col *key, int64_t i, struct ctr_err *err)
{
    bool known = !ctr_col_null(name, i);
    struct ctr_str s = known ? ctr_col_str(name, i) : (struct ctr_str){ NULL, 0 };
    int rc = print_text(out, table, err);
    if (!rc && !known)
        rc = ctr_out_printf(out, err, "=#%016" PRIx64, ((const uint64_t *)key->data)[i]);
    else if (!rc && s.n && !(rc = ctr_out_write(out, "=", 1, err)))
        rc = print_text(out, s, err);
    return rc ? rc : ctr_out_write(out, "\n", 1, err);
}

/* Print columns table, key, name, then counts and weights; with a header before the first row. */
static int print_weights(struct ctr_out *out, const struct ctr_batch *b, bool head, struct ctr_err *err)
{
    const struct ctr_field *f = b->schema->f;
    int rc = 0;
    for (int c = b->schema->n - 1; head && c >= 3 && !rc; c--)
        rc = ctr_out_printf(out, err, "%10s  ", f[c].name);
    if (!rc && head)
        rc = ctr_out_printf(out, err, "feature\n");
    for (int64_t i = 0; i < b->rows && !rc; i++) {
        for (int c = b->schema->n - 1; c >= 3 && !rc; c--)
            rc = f[c].type == CTR_F64 ? print_weight(out, ctr_col_f64(&b->col[c], i), err)
                 : !ctr_col_null(&b->col[c], i)
                     ? ctr_out_printf(out, err, "%10" PRId64 "  ", ctr_col_i64(&b->col[c], i))
                     : ctr_out_printf(out, err, "%10s  ", "-");
        if (!rc)
            rc = print_feature(out, ctr_col_str(&b->col[0], i), &b->col[2], &b->col[1], i, err);
    }
    return rc;
}

/* Print columns row, score, table, key, name, x, weight, contribution: a header per row, then its features. */
static int print_explained(struct ctr_out *out, const struct ctr_batch *b, int64_t *row, struct ctr_err *err)
{
    int rc = 0;
    for (int64_t i = 0; i < b->rows && !rc; i++) {
        int64_t of = ctr_col_i64(&b->col[0], i);
        double p = ctr_col_f64(&b->col[1], i), x = ctr_col_f64(&b->col[5], i);
        if (of != *row)
            rc = ctr_out_printf(out, err, "%srow %" PRId64 ": score %s, log odds %+.6f\n%12s  %10s  feature\n",
                                *row ? "\n" : "", of, ctr_mean_text(p).s, log(p / (1 - p)), "contribution", "x");
        *row = of;
        if (!rc)
            rc = ctr_out_printf(out, err, "  ");
        if (!rc)
            rc = print_weight(out, ctr_col_f64(&b->col[7], i), err);
        if (!rc && ctr_col_null(&b->col[5], i))
            rc = ctr_out_printf(out, err, "%10s  ", "-");
        else if (!rc)
            rc = ctr_out_printf(out, err, "%10g  ", x);
        if (!rc)
            rc = print_feature(out, ctr_col_str(&b->col[2], i), &b->col[4], &b->col[3], i, err);
    }
    return rc;
}

/* A text, or "-" for null. */
static int print_or_dash(struct ctr_out *out, const struct ctr_col *c, int64_t i, struct ctr_err *err)
{
    return ctr_col_null(c, i) ? ctr_out_write(out, "-", 1, err) : print_text(out, ctr_col_str(c, i), err);
}

/* "list=name" of an item, "list=#key" where it is not known. */
static int print_item(struct ctr_out *out, const struct ctr_batch *b, int64_t i, struct ctr_err *err)
{
    int rc = print_weight(out, ctr_col_f64(&b->col[9], i), err);
    if (!rc && ctr_col_null(&b->col[6], i))
        rc = ctr_out_printf(out, err, "%5s  ", "-");
    else if (!rc)
        rc = ctr_out_printf(out, err, "%5" PRId64 "  ", ctr_col_i64(&b->col[6], i));
    return rc ? rc : print_feature(out, ctr_col_str(&b->col[3], i), &b->col[8], &b->col[7], i, err);
}

/* Columns row, score, unit, list, of, candidate, place, key, name, weight: a head a row, one a unit, then its items. */
static int print_attended(struct ctr_out *out, const struct ctr_batch *b, int64_t *row, int64_t *unit,
                          struct ctr_err *err)
{
    int rc = 0;
    for (int64_t i = 0; i < b->rows && !rc; i++) {
        const int64_t of = ctr_col_i64(&b->col[0], i), in = ctr_col_i64(&b->col[2], i);
        if (of != *row)
            rc = ctr_out_printf(out, err, "%srow %" PRId64 ": score %s\n", *row ? "\n" : "", of,
                                ctr_mean_text(ctr_col_f64(&b->col[1], i)).s);
        if (!rc && (of != *row || in != *unit)) {
            rc = ctr_out_printf(out, err, "  %10s  place  item, beside ", "weight");
            if (!rc)
                rc = print_or_dash(out, &b->col[4], i, err);
            if (!rc && !ctr_col_null(&b->col[5], i) && !(rc = ctr_out_write(out, "=", 1, err)))
                rc = print_text(out, ctr_col_str(&b->col[5], i), err);
            if (!rc)
                rc = ctr_out_write(out, "\n", 1, err);
        }
        *row = of;
        *unit = in;
        if (!rc)
            rc = ctr_out_printf(out, err, "  ");
        if (!rc)
            rc = print_item(out, b, i, err);
    }
    return rc;
}

/* ---- top, diff ---- */

/* The destination of the rows. */
struct printer {
    struct ctr_cli *cli;
    struct ctr_out *out;
    struct ctr_writer *w; /* of a stream */
    int64_t rows;
    bool begun;
};

static int print(void *ctx, const struct ctr_batch *b, struct ctr_err *err)
{
    struct printer *p = ctx;
    bool begun = p->begun;
    int rc = 0;
    p->begun = true;
    p->rows += b->rows;
    if (is_table())
        return print_weights(p->out, b, !begun, err);
    if (!begun)
        rc = ctr_cli_writer(p->cli, p->out, b->schema, &p->w, err);
    return rc || !b->rows ? rc : ctr_writer_batch(p->w, b, err);
}

static void tell(const struct ctr_cli *cli, const struct ctr_diff_counts *n)
{
    ctr_cli_note(cli, "%lld key%s in both models, %lld only in %s, %lld only in %s; %lld weight%s", (long long)n->both,
                 CTR_S(n->both), (long long)n->only_a, cli->args[1], (long long)n->only_b, cli->args[2],
                 (long long)n->differ, n->differ == 1 ? " differs" : "s differ");
    if (!n->same_plan)
        ctr_cli_note(cli, "their plans differ: keys of one table and name are compared");
    if (!n->same_options)
        ctr_cli_note(cli, "they learned with different options (ctr-info shows them)");
}

/* Print the weights of one model, or the changes from `from` (NULL: none). */
static int weights(struct ctr_cli *cli, const char *from, const char *model, struct ctr_err *err)
{
    const struct ctr_top_opts to = { .n = o.n, .by_table = o.by_table, .table = o.table, .names = o.names };
    struct printer p = { .cli = cli };
    struct ctr_diff_counts counts;
    int rc = ctr_cli_out(cli, is_table() ? 0 : CTR_OUT_BINARY, &p.out, err);
    if (!rc && from)
        rc = ctr_cli_read(cli, from, err);
    if (!rc)
        rc = ctr_cli_reread(cli, &model, err);
    if (!rc && o.names)
        rc = ctr_cli_read(cli, o.names, err);
    if (!rc)
        rc = from ? ctr_model_diff(from, model, &to, &counts, print, &p, err)
                  : ctr_model_top(model, &to, print, &p, err);
    if (!rc)
        rc = is_table() ? ctr_out_commit(p.out, err) : ctr_cli_finish(cli, p.w, p.out, err);
    if (!rc && from)
        tell(cli, &counts);
    if (!rc && o.table && !p.rows)
        ctr_cli_note(cli, "nothing to show: no weight %sin a table like '%s'", from ? "changed " : "that is not 0 is ",
                     o.table);
    ctr_writer_free(p.w);
    ctr_out_free(p.out);
    return rc;
}

static int top(struct ctr_cli *cli, struct ctr_err *err)
{
    return weights(cli, NULL, cli->args[1], err);
}

static int diff(struct ctr_cli *cli, struct ctr_err *err)
{
    return weights(cli, cli->args[1], cli->args[2], err);
}

/* ---- explain ---- */

struct explain {
    struct ctr_explain *e;
    struct ctr_plan *plan; /* with statements, and their views; or NULL */
    struct ctr_flow_views views;
    struct ctr_reader *r; /* of `rows`; NULL: the plan reads views */
    struct ctr_batch_source source;
    struct ctr_out *out;
    struct ctr_writer *w; /* NULL: a table */
    struct ctr_batchbuf rows;
};

/* Are the arguments VIEW=FILE…, for the statements of the model's plan? */
static bool names_views(const struct ctr_cli *cli)
{
    return cli->nargs > 2 && strchr(cli->args[2], '=') && access(cli->args[2], F_OK);
}

static void note(void *ctx, const char *text)
{
    ctr_cli_note(ctx, "%s", text);
}

static void debug(void *ctx, const char *text)
{
    ctr_cli_debug(ctx, "%s", text);
}

/* The table that the statements of the model's plan make of views. */
static int open_views(struct ctr_cli *cli, struct explain *x, const char *model, struct ctr_err *err)
{
    const struct ctr_flow_opts fo = { .threads = (int)CTR_MIN(cli->jobs, (int64_t)1024),
                                      .batch_rows = cli->batch_rows,
                                      .last = "explain",
                                      .note = note,
                                      .debug = debug,
                                      .ctx = cli };
    int rc = ctr_plan_open(&x->plan, model, err);
    if (!rc && !ctr_plan_statement(x->plan, 0))
        rc = ctr_cli_usage(err, "%s: no such file, and the plan in %s has no statements that read views", cli->args[2],
                           cli->args[1]);
    if (!rc)
        rc = ctr_flow_views(&x->views, x->plan, cli->args + 2, cli->nargs - 2, err);
    for (int i = 0; !rc && i < x->views.n; i++)
        rc = ctr_cli_read(cli, x->views.file[i].path, err);
    return rc ? rc : ctr_flow_open(&x->source, x->plan, &x->views, &fo, err);
}

static int open_rows(struct ctr_cli *cli, struct explain *x, const char *model, struct ctr_err *err)
{
    if (names_views(cli))
        return open_views(cli, x, model, err);
    int rc = ctr_cli_reader(cli, 2, NULL, &x->r, err);
    if (!rc)
        x->source = ctr_batch_source_stream(x->r);
    return rc;
}

static int open_explain(struct ctr_cli *cli, struct explain *x, struct ctr_err *err)
{
    const char *model = cli->args[1];
    int rc =
        o.attention && o.by_table ? ctr_cli_usage(err, "--attention weighs items, which --by-table does not sum") : 0;
    if (!rc)
        rc = ctr_cli_out(cli, is_table() ? 0 : CTR_OUT_BINARY, &x->out, err);
    if (!rc)
        rc = ctr_cli_reread(cli, &model, err);
    const struct ctr_explain_opts how = {
        .n = o.n, .names = o.names, .images = o.images, .attention = o.attention, .by_table = o.by_table
    };
    if (!rc && o.images)
        rc = ctr_cli_read(cli, o.images, err);
    if (!rc && o.names && !(rc = ctr_cli_read(cli, o.names, err)) && !names_views(cli))
        rc = ctr_cli_inputs(cli, 2, err); /* before reading names */
    if (!rc)
        rc = ctr_explain_open(&x->e, model, &how, err);
    if (!rc && *ctr_explain_warning(x->e))
        ctr_cli_warn(cli, "%s", ctr_explain_warning(x->e));
    if (!rc)
        rc = open_rows(cli, x, model, err);
    if (!rc)
        rc = ctr_explain_bind(x->e, ctr_batch_source_schema(&x->source), names_views(cli), err);
    if (!rc)
        rc = ctr_batchbuf_init(&x->rows, ctr_explain_schema(x->e), err);
    return rc || is_table() ? rc : ctr_cli_writer(cli, x->out, ctr_explain_schema(x->e), &x->w, err);
}

static int print_rows(struct explain *x, int64_t *row, int64_t *unit, struct ctr_err *err)
{
    const struct ctr_batch *rows = ctr_batchbuf_view(&x->rows);
    if (x->w)
        return ctr_writer_batch(x->w, rows, err);
    return ctr_explain_attends(x->e) ? print_attended(x->out, rows, row, unit, err)
                                     : print_explained(x->out, rows, row, err);
}

static void tell_explained(const struct ctr_cli *cli, const struct ctr_explain *e)
{
    const struct ctr_explained t = ctr_explain_told(e);
    if (!t.deep || !t.rows)
        return;
    ctr_cli_note(cli,
                 "contributions are integrated gradients from vectors and numbers of 0, over up to %d points; they and "
                 "(bias) add up to the log odds within %.2g",
                 t.points, t.worst);
    if (t.beyond)
        ctr_cli_warn(cli, "of %lld of %lld row%s the residual is larger than %g", (long long)t.beyond,
                     (long long)t.rows, CTR_S(t.rows), CTR_PARTS_ERROR);
}

static int run_explain(struct ctr_cli *cli, struct explain *x, struct ctr_err *err)
{
    const struct ctr_batch *b;
    int64_t row = 0, unit = 0, seen = 0;
    int rc = open_explain(cli, x, err);
    while (!rc && (rc = ctr_batch_source_next(&x->source, &b, err)) > 0) {
        ctr_batchbuf_clear(&x->rows);
        ctr_cli_progress_clear(cli);
        if ((rc = ctr_explain_batch(x->e, b, &x->rows, err)) && x->r)
            ctr_err_file(err, ctr_reader_file(x->r));
        else if (!rc)
            rc = print_rows(x, &row, &unit, err);
        seen += b->rows;
        ctr_cli_progress(cli, seen, x->r ? ctr_reader_total_rows(x->r) : -1);
    }
    ctr_cli_progress_clear(cli);
    if (rc)
        return rc;
    rc = x->w ? ctr_cli_finish(cli, x->w, x->out, err) : ctr_out_commit(x->out, err);
    if (!rc)
        tell_explained(cli, x->e);
    return rc;
}

static int explain(struct ctr_cli *cli, struct ctr_err *err)
{
    struct explain x = { 0 };
    int rc = run_explain(cli, &x, err);
    ctr_writer_free(x.w);
    ctr_out_free(x.out);
    ctr_batchbuf_free(&x.rows); /* its schema belongs to the explainer */
    ctr_explain_free(x.e);
    ctr_batch_source_close(&x.source);
    ctr_flow_views_free(&x.views);
    ctr_plan_free(x.plan);
    return rc;
}

/* ---- slim ---- */

static void tell_slim(const struct ctr_cli *cli, const struct ctr_slim_told *n)
{
    ctr_cli_note(cli, "%lld key%s, of which %lld of weight 0", (long long)n->keys, CTR_S(n->keys),
                 (long long)n->pruned);
    if (!o.weights_only)
        ctr_cli_note(cli, "learning rates are within %.2g%%", 100 * n->rate_error);
    if (n->fitted)
        ctr_cli_warn(cli,
                     "the fitted state of the plan is left out: ctr-extract takes it from %s, or from the fitted plan",
                     cli->args[1]);
    if (n->cut)
        ctr_cli_warn(cli, "%lld weight%s beyond -4 … 4 %s cut off there, which changes scores", (long long)n->cut,
                     CTR_S(n->cut), n->cut == 1 ? "was" : "were");
}

static int slim(struct ctr_cli *cli, struct ctr_err *err)
{
    const struct ctr_slim_opts how = { o.weights_only, cli->tool->name, cli->provenance ? cli->provenance : "" };
    const char *model = cli->args[1];
    struct ctr_slim_told told;
    struct ctr_out *out = NULL;
    int rc = ctr_cli_out(cli, CTR_OUT_BINARY, &out, err);
    if (!rc)
        rc = ctr_cli_reread(cli, &model, err);
    if (!rc)
        rc = ctr_model_slim(model, &how, out, &told, err);
    if (!rc)
        rc = ctr_out_commit(out, err);
    if (!rc)
        tell_slim(cli, &told);
    ctr_out_free(out);
    return rc;
}

/* ---- merge ---- */

static int merge(struct ctr_cli *cli, struct ctr_err *err)
{
    struct ctr_out *out = NULL;
    int rc = ctr_cli_out(cli, CTR_OUT_BINARY, &out, err);
    for (int i = 1; i < cli->nargs && !rc; i++)
        rc = ctr_cli_reopens(cli->args[i])
                 ? ctr_cli_read(cli, cli->args[i], err)
                 : ctr_cli_usage(err, "%s: merge reads its files twice, and a pipe only once", cli->args[i]);
    if (!rc)
        rc = ctr_model_merge(cli->args + 1, cli->nargs - 1, out, err);
    if (!rc)
        rc = ctr_out_commit(out, err);
    ctr_out_free(out);
    return rc;
}

/* The actions, one row each. */
static const struct {
    const char *name;
    int min, max; /* arguments, including the action; -1: any */
    int (*run)(struct ctr_cli *cli, struct ctr_err *err);
} actions[] = { { "top", 2, 2, top },
                { "diff", 3, 3, diff },
                { "explain", 2, -1, explain },
                { "slim", 2, 2, slim },
                { "merge", 3, -1, merge } };

static const char *action(int i)
{
    return i < (int)CTR_COUNT(actions) ? actions[i].name : NULL;
}

static int run_tool(struct ctr_cli *cli, struct ctr_err *err)
{
    int rc = ctr_cli_args(cli, 1, -1, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < CTR_COUNT(actions); i++)
        if (!strcmp(actions[i].name, cli->args[0]))
            return (rc = ctr_cli_args(cli, actions[i].min, actions[i].max, err)) ? rc : actions[i].run(cli, err);
    return ctr_cli_unknown(cli, "action", err);
}

const struct ctr_tool ctr_tool = {
    .name = "ctr-model",
    .summary =
        "look into models: strongest weights, what changed, what makes a prediction; make them small; merge deltas",
    .synopsis = "top MODEL\ndiff OLD NEW\nexplain MODEL [FILE…|VIEW=FILE…]\nslim MODEL\nmerge CHECKPOINT DELTA…",
    .opts = opts,
    .flags = CTR_TOOL_READS | CTR_TOOL_WRITES,
    .run = run_tool,
    .word = action,
};
