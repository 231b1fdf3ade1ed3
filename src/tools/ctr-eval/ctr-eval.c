/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-eval: evaluates scores. Finds the columns, streams rows into an evaluation, and prints it. */
#include "common/cli/cli.h"
#include "tools/ctr-eval/evalcontrol.h"
#include "tools/ctr-eval/evalestimate.h"
#include "tools/ctr-eval/evallive.h"

#include <math.h>
#include <stdlib.h>

static struct {
    struct ctr_strs by;
    int64_t slices, window_ms, lateness_ms, bootstrap, bins;
    const char *control, *format, *metrics, *null_user, *bad_rows;
    bool reliability, ascii;
    struct ctr_estimate_opts estimate;
} o = { .format = "table", .bins = 10, .window_ms = -1, .lateness_ms = -1, .null_user = "out" };

static const char *metric(int i)
{
    return i < ctr_metrics_count ? ctr_metrics[i].name : NULL;
}

static const struct ctr_opt opts[] = {
    { "by", 'b', CTR_OPT_LIST, "COLUMNS", "also evaluate each value of these columns (of lists: each item)", &o.by,
      CTR_OPT_BASIC },
    { "slices", 'n', CTR_OPT_INT, "N",
      "of each column, show the N slices with the most rows, and the others together (default 0: all)", &o.slices,
      .needs = "by" },
    { "window", 'w', CTR_OPT_DURATION, "DURATION", "also evaluate each window of the time column, such as 1h",
      &o.window_ms, CTR_OPT_BASIC },
    { "lateness", 0, CTR_OPT_DURATION, "DURATION", "write a window as soon as a row is later than its end by DURATION",
      &o.lateness_ms, .needs = "window" },
    { "control", 'c', CTR_OPT_STR, "FILE", "compare with the scores of the same rows in FILE", &o.control,
      CTR_OPT_PATH | CTR_OPT_BASIC },
    { "bootstrap", 0, CTR_OPT_INT, "N",
      "add 95% confidence intervals from N resamplings of users (without user column: of rows)", &o.bootstrap,
      CTR_OPT_SOME },
    { "metrics", 'm', CTR_OPT_STR, "LIST", "compute only these metrics, of", &o.metrics, CTR_OPT_ONCE | CTR_OPT_BASIC,
      metric },
    { "null-user", 0, CTR_OPT_CHOICE, "out|one",
      "gauc: leave out rows without a user, or take them as one user (default out)", &o.null_user, 0 },
    CTR_OPT_BAD_ROWS(o.bad_rows, CTR_OPT_LOCAL, NULL),
    { "format", 'f', CTR_OPT_CHOICE, "table|stream", "write a table for people, or a stream (default table)", &o.format,
      CTR_OPT_LOCAL | CTR_OPT_BASIC },
    { "reliability", 'r', CTR_OPT_FLAG, NULL, "draw a reliability diagram below the table", &o.reliability,
      CTR_OPT_LOCAL | CTR_OPT_BASIC },
    { "bins", 0, CTR_OPT_INT, "N", "bins of the reliability diagram (default 10)", &o.bins, CTR_OPT_LOCAL,
      .needs = "reliability" },
    { "ascii", 0, CTR_OPT_FLAG, NULL, "draw the reliability diagram without Unicode", &o.ascii, CTR_OPT_LOCAL,
      .needs = "reliability" },
    { "at", 0, CTR_OPT_STR, "K,…", "instead: ndcg of the best K rows of each query by score", &o.estimate.at,
      CTR_OPT_BASIC },
    { "reference", 0, CTR_OPT_STR, "EXPR", "with --at: recall of the best rows by EXPR among the best K by score",
      &o.estimate.reference, 0, .needs = "at" },
    { "reference-top", 0, CTR_OPT_INT, "N", "with --reference: its best N rows (default K)", &o.estimate.reference_top,
      CTR_OPT_SOME, .needs = "reference" },
    { "propensity", 0, CTR_OPT_STR, "COL", "instead: the value of another policy, from the chances in this log",
      &o.estimate.propensity, CTR_OPT_BASIC },
    { "target", 0, CTR_OPT_STR, "EXPR", "with --propensity: the other policy's chance of what was shown",
      &o.estimate.target, 0, .needs = "propensity" },
    { "value", 0, CTR_OPT_STR, "EXPR", "with --propensity: what a click is worth (default 1)", &o.estimate.value, 0,
      .needs = "propensity" },
    { "direct", 0, CTR_OPT_STR, "EXPR", "with --propensity: the other policy's expected reward by a model",
      &o.estimate.direct, 0, .needs = "propensity" },
    { 0 },
};

/* The input, without unneeded columns. */
struct input {
    struct ctr_reader *r; /* of: */
    struct ctr_batch_source rows;
    struct ctr_metric_columns c;
    int id;           /* or -1 */
    int *by;          /* columns of by_names */
    int **columns, n; /* all of these: the columns to keep */
};

/* For example, --by site on a file with the columns id, site, label, price, score:
 *
 *     find       label 2, score 4, by[0] 1: positions in the file; others -1
 *     project    from here on by[0] is 0, label 1 and score 2, and other columns are not read
 *     feed       batches of these three go to ctr_eval_batch, or with --lateness to ctr_eval_live_batch
 *     show       at the end, or for each window that closes: a table, or a batch of a stream
 *
 * With --bad-rows quarantine, rows are set aside with all their columns, so the sieve comes before the projection,
 * otherwise behind it. --at and --propensity are other evaluations, with sources of their own (evalestimate.c). */

/* What a plan does not keep is not in the scores: say so, unless another name is near. */
static int find_by(const struct ctr_schema *s, const char *name, struct ctr_err *err)
{
    const int column = ctr_schema_need(s, name, err);
    const char *pg = ctr_meta_get(&s->meta, CTR_META_PG);
    if (column < 0 && pg && strstr(pg, "ctr-extract\t") && !err->nearest)
        ctr_err_add(err, "; `keep %.200s` in the plan passes it on", name);
    return column;
}

/* Find the columns, by their positions in the file. `identity`: also those that identify rows. */
static int find(struct ctr_cli *cli, struct input *in, const struct ctr_strs *by, bool identity, struct ctr_err *err)
{
    const struct {
        enum ctr_role role;
        bool need, look;
        int *to;
    } part[] = {
        { CTR_ROLE_LABEL, true, true, &in->c.label },
        { CTR_ROLE_SCORE, true, true, &in->c.score },
        { CTR_ROLE_WEIGHT, false, true, &in->c.weight },
        { CTR_ROLE_USER, false, true, &in->c.user },
        { CTR_ROLE_TIME, o.window_ms > 0, o.window_ms > 0 || identity, &in->c.time },
        { CTR_ROLE_ID, false, identity, &in->id },
    };

    const struct ctr_schema *s = ctr_reader_schema(in->r);
    int rc = 0;

    in->by = calloc((size_t)by->n + 1, sizeof *in->by);
    in->columns = calloc(CTR_COUNT(part) + (size_t)by->n, sizeof *in->columns);
    if (!in->columns || !in->by)
        return ctr_fail_nomem(err, sizeof *in->columns * (size_t)by->n);
    for (size_t i = 0; !rc && i < CTR_COUNT(part); i++) {
        in->columns[in->n++] = part[i].to;
        *part[i].to = -1;
        if (part[i].look)
            rc = ctr_cli_role(cli, s, part[i].role, part[i].need, part[i].to, err);
    }
    for (int i = 0; !rc && i < by->n; i++) {
        in->columns[in->n++] = &in->by[i];
        in->by[i] = find_by(s, by->s[i], err);
        rc = CTR_MIN(in->by[i], 0);
        for (int k = 0; k < i && !rc; k++)
            if (in->by[k] == in->by[i])
                rc = ctr_fail(err, CTR_EUSAGE, "%s is named twice", by->s[i]);
    }
    return rc;
}

/* Project to these columns, which are then referred to by their new positions. */
static int project(struct input *in, struct ctr_err *err)
{
    const int rc = ctr_batch_source_keep(&in->rows, in->columns, in->n, NULL, err);
    return rc ? rc : ctr_metric_columns_check(&in->c, ctr_batch_source_schema(&in->rows), err);
}

/* From here on only the rows that metrics can use; with windows, those that are in one. */
static int leave_bad_rows_out(struct ctr_cli *cli, struct input *in, struct ctr_err *err)
{
    const struct ctr_rule rule[] = { { .column = in->c.score, .role = CTR_ROLE_SCORE },
                                     { .column = in->c.label, .role = CTR_ROLE_LABEL },
                                     { .column = in->c.weight, .role = CTR_ROLE_WEIGHT },
                                     { .column = o.window_ms > 0 ? in->c.time : -1, .role = CTR_ROLE_TIME } };
    return ctr_cli_good_rows(cli, &in->rows, rule, CTR_COUNT(rule), err);
}

static void input_free(struct input *in)
{
    ctr_batch_source_close(&in->rows);
    free(in->columns);
    free(in->by);
}

/* ---- showing ---- */

static int show_table(struct ctr_eval *e, const struct ctr_eval_view *v, struct ctr_buf *text, struct ctr_err *err)
{
    struct ctr_reliability_bin *bin;
    int rc = ctr_eval_table(e, v, text, err);

    if (rc || !o.reliability)
        return rc;
    bin = calloc((size_t)o.bins, sizeof *bin);
    if (!bin)
        return ctr_fail_nomem(err, (size_t)o.bins * sizeof *bin);
    rc = ctr_eval_reliability(e, bin, (int)o.bins, err);
    if (rc > 0) {
        int n = rc;
        if (!(rc = ctr_buf_append(text, "\n", 1, err)))
            rc = ctr_reliability_draw(bin, n, o.ascii, text, err);
    }
    free(bin);
    return rc;
}

/* The output: once, or for each window when it closes. */
struct show {
    struct ctr_cli *cli;
    struct ctr_eval_view view;
    struct ctr_out *out;
    struct ctr_schema schema;
    struct ctr_batchbuf rows;
    struct ctr_writer *w;
    struct ctr_eval_live *live;
    int64_t late; /* number already reported */
};

static int show_open(struct show *s, struct ctr_err *err)
{
    const bool stream = !strcmp(o.format, "stream");
    int rc = ctr_cli_out(s->cli, stream ? CTR_OUT_BINARY : 0, &s->out, err);

    if (!rc && stream && !(rc = ctr_eval_stream_schema(&s->view, &s->schema, err)) &&
        !(rc = ctr_batchbuf_init(&s->rows, &s->schema, err)))
        rc = ctr_cli_writer(s->cli, s->out, &s->schema, &s->w, err);
    return rc;
}

static int show(struct show *s, struct ctr_eval *e, struct ctr_err *err)
{
    struct ctr_buf text = { 0 };
    int rc;

    ctr_cli_progress_clear(s->cli);
    if (s->w) {
        ctr_batchbuf_clear(&s->rows);
        rc = ctr_eval_stream_rows(e, &s->view, &s->rows, err);
        return rc ? rc : ctr_writer_batch(s->w, ctr_batchbuf_view(&s->rows), err);
    }
    if (!(rc = show_table(e, &s->view, &text, err)))
        rc = ctr_out_write(s->out, text.data, text.len, err);
    ctr_buf_free(&text);
    return rc;
}

static int show_end(struct show *s, struct ctr_err *err)
{
    if (s->w)
        return ctr_cli_finish(s->cli, s->w, s->out, err);
    int rc = ctr_cli_bad_rows_finish(s->cli, err);
    return rc ? rc : ctr_out_commit(s->out, err);
}

static void show_free(struct show *s)
{
    ctr_writer_free(s->w);
    ctr_batchbuf_free(&s->rows);
    ctr_schema_free(&s->schema);
    ctr_out_free(s->out);
}

/* Report rows that are not where users may expect them. */
static void tell_rows(const struct ctr_cli *cli, const struct ctr_eval *e)
{
    int64_t rows, lacking = ctr_eval_lacking(e, &rows);

    if (lacking)
        ctr_cli_warn(cli,
                     "%lld slices may lack up to %lld of their rows, which are in (rest): a larger --slices finds them",
                     (long long)lacking, (long long)rows);
    if (ctr_eval_without_user(e))
        ctr_cli_note(cli, "%lld rows have no user: gauc leaves them out (--null-user one takes them as one user's)",
                     (long long)ctr_eval_without_user(e));
}

static void explain_slices(const struct ctr_cli *cli, const struct ctr_eval *e)
{
    int64_t one = 0;

    for (int64_t i = 1; i < ctr_eval_slices(e); i++) {
        const struct ctr_metric_sums *s = &ctr_eval_slice(e, i)->sums[0];
        one += s->rows && (!(s->label > 0) || !(s->label < s->weight));
    }
    if (one)
        ctr_cli_note(cli,
                     "%lld of %lld slices have labels of one class, or no weight: auc, gauc and normalized_entropy are "
                     "undefined there",
                     (long long)one, (long long)(ctr_eval_slices(e) - 1));
}

/* Report the reasons for undefined values. */
static void explain(const struct ctr_cli *cli, const struct ctr_eval *e)
{
    const struct ctr_metric_sums *t = &ctr_eval_slice(e, 0)->sums[0];

    tell_rows(cli, e);
    if (!t->rows)
        ctr_cli_note(cli, "the input has no rows: no metric is defined");
    else if (!(t->weight > 0))
        ctr_cli_note(cli, "all weights are 0: no metric is defined");
    else if (!(t->weight * t->weight < INFINITY))
        ctr_cli_warn(cli, "the weights add up to %g, so sums overflow: divide them by a constant", t->weight);
    else if (!(t->weight * t->weight > 0))
        ctr_cli_warn(cli, "the weights add up to %g, so products vanish: multiply them by a constant", t->weight);
    else if (!(t->label > 0) || !(t->label < t->weight))
        ctr_cli_note(cli, "all %lld labels are %d%s: auc, gauc and normalized_entropy are undefined",
                     (long long)t->rows, t->label > 0,
                     t->label > 0 && t->weight != (double)t->rows ? ", or the weights of the others vanish in the sum"
                                                                  : "");
    else
        explain_slices(cli, e);
}

/* ---- windows of a stream that goes on ---- */

/* Whenever their number has doubled, because a stream may not end, and at the end. */
static void tell_late(struct show *s, bool end)
{
    const int64_t late = ctr_eval_live_late(s->live);

    if (late == s->late || (!end && late < 2 * s->late))
        return;
    ctr_cli_warn(s->cli,
                 "%lld rows so far came after their window was written, and are left out: a longer --lateness waits",
                 (long long)late);
    s->late = late;
}

static int show_window(void *ctx, struct ctr_eval *e, int64_t window, struct ctr_err *err)
{
    struct show *s = ctx;

    tell_rows(s->cli, e);
    s->view.window = &window;
    int rc = !s->w && ctr_out_tell(s->out) ? ctr_out_write(s->out, "\n", 1, err) : 0;
    if (!rc && !(rc = show(s, e, err)))
        rc = s->w ? ctr_writer_flush(s->w, err) : ctr_out_flush(s->out, err);
    s->view.window = NULL;
    return rc;
}

/* ---- wiring ---- */

/* Reject roles that would have no effect. */
static int check_roles(const struct ctr_cli *cli, struct ctr_err *err)
{
    if (cli->role[CTR_ROLE_QUERY] && !o.estimate.at)
        return ctr_cli_usage(
            err, "--query goes with --at: to evaluate by query else, name its column with --by, or as --user for gauc");
    if (cli->role[CTR_ROLE_ID] && !o.control && !o.estimate.at)
        return ctr_cli_usage(err,
                             "--id goes with --control, whose rows it compares, and with --at, where it breaks ties");
    if (cli->role[CTR_ROLE_TIME] && !o.control && o.window_ms < 0)
        return ctr_cli_usage(err, "--time goes with --window or --control");
    return 0;
}

static int check_options(struct ctr_strs *by, struct ctr_err *err)
{
    int rc;

    for (int i = 0; i < o.by.n; i++)
        if ((rc = ctr_names_split(by, o.by.s[i], ',', err)))
            return rc;
    if (o.reliability && strcmp(o.format, "table"))
        return ctr_cli_usage(err, "--reliability draws below a table: it does not go with --format stream");
    if (o.reliability && o.lateness_ms >= 0)
        return ctr_cli_usage(err, "--reliability draws all rows, which --lateness does not keep");
    if (!o.window_ms)
        return ctr_cli_usage(err, "--window wants more than 0");
    if (o.bins < 1 || o.bins > 10000)
        return ctr_cli_usage(err, "--bins wants 1 to 10000");
    if (o.slices > 100000000)
        return ctr_cli_usage(err, "--slices wants 100000000 at most");
    if (o.bootstrap > 1000000)
        return ctr_cli_usage(err, "--bootstrap wants 1000000 at most");
    return 0;
}

/* Feed e, or the windows. */
static int feed(struct show *s, struct ctr_eval *e, struct input *in, struct ctr_eval_control *c, struct ctr_err *err)
{
    const double *other = NULL;
    const struct ctr_batch *b;
    int rc;

    while ((rc = ctr_batch_source_next(&in->rows, &b, err)) > 0) {
        if (c && (rc = ctr_eval_control_scores(c, &in->c, in->id, b, &other, err)))
            return rc;
        if ((rc = e ? ctr_eval_batch(e, b, other, err) : ctr_eval_live_batch(s->live, b, other, err))) {
            ctr_err_file(err, ctr_reader_file(in->r));
            return rc;
        }
        if (!e)
            tell_late(s, false);
        ctr_cli_progress(s->cli, ctr_reader_rows(in->r), ctr_reader_total_rows(in->r));
    }
    return rc || !c ? rc : ctr_eval_control_end(c, ctr_reader_rows(in->r), err);
}

static unsigned needs(const int *metrics, int n)
{
    unsigned u = o.reliability ? CTR_NEED_RANKS : 0;

    for (int i = 0; i < n; i++)
        u |= ctr_metrics[metrics[i]].needs;
    return u;
}

static int evaluate_all(struct show *s, struct input *in, struct ctr_eval_control *c, const struct ctr_eval_opts *eo,
                        struct ctr_pool *pool, struct ctr_err *err)
{
    struct ctr_eval *e = NULL;
    int rc = ctr_eval_new(&e, ctr_batch_source_schema(&in->rows), eo, err);

    if (rc)
        ctr_err_file(err, ctr_reader_file(in->r));
    else if (!(rc = feed(s, e, in, c, err)) && !(rc = ctr_eval_finish(e, pool, err)) && !(rc = show_open(s, err)) &&
             !(rc = show(s, e, err)) && !(rc = show_end(s, err)))
        explain(s->cli, e);
    ctr_eval_free(e);
    return rc;
}

static int evaluate_live(struct show *s, struct input *in, struct ctr_eval_control *c, const struct ctr_eval_opts *eo,
                         struct ctr_pool *pool, struct ctr_err *err)
{
    const struct ctr_eval_live_opts lo = {
        .eval = *eo, .lateness_ms = o.lateness_ms, .pool = pool, .over = show_window, .ctx = s
    };
    int rc = ctr_eval_live_new(&s->live, ctr_batch_source_schema(&in->rows), &lo, err);

    if (rc)
        ctr_err_file(err, ctr_reader_file(in->r));
    else if (!(rc = show_open(s, err)) && !(rc = feed(s, NULL, in, c, err)) &&
             !(rc = ctr_eval_live_finish(s->live, err)) && !(rc = show_end(s, err)))
        tell_late(s, true);
    ctr_eval_live_free(s->live);
    return rc;
}

static int evaluate(struct ctr_cli *cli, struct input *in, struct ctr_eval_control *c, const struct ctr_strs *by,
                    int *metrics, int n, struct ctr_err *err)
{
    const struct ctr_eval_opts eo = { .columns = in->c,
                                      .by = in->by,
                                      .nby = by->n,
                                      .slices = o.slices,
                                      .window_ms = o.window_ms,
                                      .needs = needs(metrics, n),
                                      .control = o.control,
                                      .keep = o.reliability,
                                      .null_user = !strcmp(o.null_user, "one"),
                                      .bootstrap = (int)o.bootstrap,
                                      .seed = cli->seed,
                                      .narrow_control = c && ctr_eval_control_narrow(c),
                                      .memory_bytes = cli->memory_bytes };
    const struct ctr_eval_view v = { .metrics = metrics,
                                     .n = n,
                                     .by_names = (const char *const *)by->s,
                                     .windows = o.window_ms > 0,
                                     .control = o.control,
                                     .bootstrap = o.bootstrap > 0,
                                     .users = eo.needs & CTR_NEED_USERS,
                                     .weighted = in->c.weight >= 0 };
    struct show s = { .cli = cli, .view = v };
    if (ctr_cli_terminal(cli))
        s.view.columns = ctr_cli_columns(cli);
    struct ctr_pool *pool = NULL;
    int rc = ctr_pool_new(&pool, (int)cli->jobs, CTR_FLOAT_IEEE, err);

    if (!rc)
        rc = o.lateness_ms < 0 ? evaluate_all(&s, in, c, &eo, pool, err) : evaluate_live(&s, in, c, &eo, pool, err);
    show_free(&s);
    ctr_pool_free(pool);
    return rc;
}

static int evaluate_scores(struct ctr_cli *cli, struct ctr_err *err)
{
    const struct ctr_reader_opts ro = { .foreign = true };
    struct input in = { 0 };
    struct ctr_eval_control *c = NULL;
    struct ctr_strs by = { 0 };
    int *metrics = NULL, n = 0, rc;

    if (o.estimate.at || o.estimate.propensity)
        return ctr_estimate_run(cli, &o.estimate, !strcmp(o.format, "stream"), err);
    if ((rc = check_options(&by, err)) || (rc = check_roles(cli, err)) ||
        (rc = ctr_cli_bad_rows(cli, o.bad_rows, err)) ||
        (o.control && (rc = ctr_cli_all_rows(cli,
                                             "rows that are left out have none beside them in --control FILE; "
                                             "leave them out of both (ctr-select --where)",
                                             err))) ||
        (o.control && (rc = ctr_cli_read(cli, o.control, err))) || (rc = ctr_cli_reader(cli, 0, &ro, &in.r, err)))
        goto out;
    in.rows = ctr_batch_source_stream(in.r);
    if ((rc = find(cli, &in, &by, o.control, err))) {
        ctr_err_file(err, ctr_reader_file(in.r));
        goto out;
    }
    if ((rc = ctr_metric_list(o.metrics, in.c.user >= 0, &metrics, &n, err)))
        goto out;
    if (!(needs(metrics, n) & CTR_NEED_USERS) && !o.bootstrap && !o.control)
        in.c.user = -1;                             /* not needed */
    const bool whole = ctr_cli_keeps_bad_rows(cli); /* all columns are set aside */
    if (!(rc = whole ? leave_bad_rows_out(cli, &in, err) : 0) && !(rc = project(&in, err)) &&
        !(rc = whole ? 0 : leave_bad_rows_out(cli, &in, err)) &&
        !(o.control && (rc = ctr_eval_control_open(&c, o.control, cli->role, err))))
        rc = evaluate(cli, &in, c, &by, metrics, n, err);
out:
    ctr_eval_control_free(c);
    input_free(&in);
    ctr_strs_free(&by);
    ctr_strs_free(&o.by);
    free(metrics);
    return rc;
}

const struct ctr_tool ctr_tool = {
    "ctr-eval",     "measure how good scores are: AUC, GAUC, log loss, calibration, by slice and window",
    "[FILE…]",      NULL,
    opts,           CTR_TOOL_ROLES | CTR_TOOL_READS | CTR_TOOL_WRITES | CTR_TOOL_MEMORY | CTR_TOOL_SEED,
    evaluate_scores
};
