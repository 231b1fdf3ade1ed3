/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-calibrate: fits a map from scores to click rates, or applies one. */
#include "common/cli/cli.h"
#include "tools/ctr-calibrate/calibrate.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

static struct {
    const char *fit, *pieces, *by, *held_out, *bad_rows;
    int64_t min_clicks, slice_clicks, rolling_ms, every_ms;
    bool reload;
} o = { .pieces = "linear", .min_clicks = 10, .slice_clicks = 100, .rolling_ms = -1, .every_ms = -1 };

static const struct ctr_opt opts[] = {
    { "fit", 'F', CTR_OPT_CHOICE, "isotonic|power|platt", "fit a calibration map of this kind to scores and labels",
      &o.fit, CTR_OPT_BASIC },
    { "pieces", 0, CTR_OPT_CHOICE, "linear|constant",
      "isotonic: interpolate between knots, or use steps (default linear)", &o.pieces, .needs = "fit=isotonic" },
    { "by", 'b', CTR_OPT_STR, "COLUMN", "also fit a map for each value of COLUMN, beside the global one", &o.by,
      CTR_OPT_ONCE | CTR_OPT_BASIC },
    { "min-clicks", 0, CTR_OPT_INT, "N",
      "isotonic: merge pools with fewer than N clicks or non-clicks (default 10; 0: never, so rates may be 0 or 1)",
      &o.min_clicks, .needs = "fit=isotonic|rolling" },
    { "slice-clicks", 0, CTR_OPT_INT, "N",
      "use the global map for slices with fewer than N clicks or non-clicks (default 100)", &o.slice_clicks,
      .needs = "by" },
    { "rolling", 0, CTR_OPT_DURATION, "DURATION", "fit again at intervals, to the rows of the last DURATION",
      &o.rolling_ms, CTR_OPT_BASIC, .needs = "fit" },
    { "every", 0, CTR_OPT_DURATION, "DURATION",
      "interval between the fits of --rolling (default a 24th of its DURATION)", &o.every_ms, 0, .needs = "rolling" },
    { "reload", 0, CTR_OPT_FLAG, NULL, "reload MAP when the file is replaced", &o.reload, CTR_OPT_BASIC },
    { "held-out", 0, CTR_OPT_STR, "FILE", "with --fit: report the bias of the map on the rows of FILE", &o.held_out,
      CTR_OPT_PATH | CTR_OPT_BASIC },
    CTR_OPT_BAD_ROWS(o.bad_rows, CTR_OPT_LOCAL, NULL),
    { 0 },
};

static enum ctr_cal_kind kind(void)
{
    if (!strcmp(o.fit, "power"))
        return CTR_CAL_POWER;
    if (!strcmp(o.fit, "platt"))
        return CTR_CAL_PLATT;
    return strcmp(o.pieces, "constant") ? CTR_CAL_ISOTONIC_LINEAR : CTR_CAL_ISOTONIC_CONSTANT;
}

/* The three forms, and the order of their calls:
 *
 *     --fit KIND            find, feed a ctr_cal_fit, ctr_cal_fit_finish, report on stderr, write_map
 *     --fit --rolling 1d    feed a ctr_cal_rolling with all rows; each hour of the time column (--every) it calls
 *                           `fitted` with a map of the rows of the last day, which replaces the file -o
 *     MAP                   ctr_cal_map_load, then `pass`: score in, score out, other columns as they are
 *
 * The last two work together: one process fits again and again, another applies its file with --reload. `reload` looks
 * at the file before each batch, so a batch is calibrated by one map; a map that cannot be read leaves the one before.
 */

/* ---- fitting ---- */

/* Takes ownership of `out`. */
static int write_map(struct ctr_cli *cli, const struct ctr_cal_fit *f, const struct ctr_cal_map *m, struct ctr_out *out,
                     struct ctr_err *err)
{
    struct ctr_schema s = { 0 };
    struct ctr_batchbuf rows = { 0 };
    struct ctr_writer *w = NULL;
    int rc;

    if (!(rc = ctr_cal_map_schema(&s, err)) &&
        !(rc = ctr_meta_set(&s.meta, CTR_META_CALIBRATION, ctr_cal_fit_text(f, m).s, err)) &&
        !(rc = ctr_batchbuf_init(&rows, &s, err)) && !(rc = ctr_cal_map_rows(m, &rows, err)) &&
        !(rc = ctr_cli_writer(cli, out, &s, &w, err)) && !(rc = ctr_writer_batch(w, ctr_batchbuf_view(&rows), err)) &&
        !(rc = ctr_writer_finish(w, err)))
        rc = ctr_out_commit(out, err);
    cli->idle_writer = NULL;
    ctr_writer_free(w);
    ctr_out_free(out);
    ctr_batchbuf_free(&rows);
    ctr_schema_free(&s);
    return rc;
}

static const char *number(char text[32], double v)
{
    snprintf(text, 32, isnan(v) ? "-" : "%.4f", v);
    return text;
}

/* Warn where another map than the one asked for was fitted. */
static void warn_replaced(const struct ctr_cli *cli, const struct ctr_cal_fit *f, const struct ctr_cal_map *m)
{
    const long long slices = ctr_cal_fit_replaced(f);

    if (ctr_cal_fit_replaces(f, m))
        ctr_cli_warn(cli, "the map is %s (--min-clicks)", ctr_cal_fit_text(f, m).s);
    if (slices > 0)
        ctr_cli_warn(
            cli, "the maps of %lld values of %s are platt, as their isotonic pools lose the ranking (--slice-clicks)",
            slices, o.by);
}

/* Report the resolution of an isotonic map, and whether it gives 0 or 1. */
static void report_pools(const struct ctr_cli *cli, const struct ctr_cal_pools *p)
{
    if (!p->left)
        return;
    if (o.min_clicks)
        ctr_cli_note(cli,
                     "%lld pools of scores, %lld before those with fewer than %lld clicks or non-clicks were merged",
                     (long long)p->left, (long long)p->found, (long long)o.min_clicks);
    else
        ctr_cli_note(cli, "%lld pools of scores", (long long)p->left);
    if (p->low > 0 && p->high < 1)
        return;
    ctr_cli_note(cli, "the map gives %s%s%s, which costs without end where it is wrong (--min-clicks 1 or more)",
                 p->low > 0 ? "" : "0", p->low <= 0 && p->high >= 1 ? " and " : "", p->high < 1 ? "" : "1");
}

/* Report mean score over mean label, before and after, for low, middle and high scores of `rows` (those of the fit, or
 * others). */
static int report(const struct ctr_cli *cli, const struct ctr_cal_fit *f, const struct ctr_cal_fit *rows,
                  const struct ctr_cal_map *m, struct ctr_err *err)
{
    static const char *const name[3][3] = { { "all", "", "" }, { "low", "high", "" }, { "low", "middle", "high" } };
    struct ctr_cal_bias b[3] = { 0 };
    char before[32], after[32];
    int wide = 0, n = cli->quiet ? 0 : ctr_cal_fit_bias(rows, m, b, 3, err);

    if (n <= 0)
        return n;
    ctr_cli_note(cli, "mean score over mean label, on the rows %s%s:", rows == f ? "of the fit" : "held out in ",
                 rows == f ? "" : o.held_out);
    for (int i = 0; i < n; i++)
        wide = CTR_MAX(wide, (int)CTR_MAX(strlen(ctr_mean_text(b[i].low).s), strlen(ctr_mean_text(b[i].high).s)));
    ctr_cli_note(cli, "%-7s  %-*s  %10s  %10s  %8s  %8s", "", 2 * wide + 3, "scores", "mean_score", "click_rate",
                 "before", "after");
    for (int i = 0; i < n; i++)
        ctr_cli_note(cli, "%-7s  %*s - %*s  %10s  %10s  %8s  %8s", name[n - 1][i], wide, ctr_mean_text(b[i].low).s,
                     wide, ctr_mean_text(b[i].high).s, ctr_mean_text(b[i].score).s, ctr_mean_text(b[i].label).s,
                     number(before, b[i].before), number(after, b[i].after));
    report_pools(cli, ctr_cal_fit_pools(f));
    if (o.by)
        ctr_cli_note(cli, "%lld of %lld values of %s have maps of their own, the others are too thin (--slice-clicks)",
                     (long long)(ctr_cal_fit_slices(f) - ctr_cal_fit_thin(f)), (long long)ctr_cal_fit_slices(f), o.by);
    if (ctr_cal_fit_floored(f))
        ctr_cli_warn(cli, "the click rate does not rise with the score everywhere: a slope was raised to %g",
                     CTR_CAL_MIN_SLOPE);
    return 0;
}

/* Feed a fit, or rolling maps, with the rows of r. */
static int feed(struct ctr_cli *cli, struct ctr_reader *r, const struct ctr_batch_source *s, struct ctr_cal_fit *f,
                struct ctr_cal_rolling *rolling, struct ctr_err *err)
{
    const struct ctr_batch *b;
    int rc;

    while ((rc = ctr_batch_source_next(s, &b, err)) > 0) {
        if ((rc = f ? ctr_cal_fit_batch(f, b, err) : ctr_cal_rolling_batch(rolling, b, err))) {
            ctr_err_file(err, ctr_reader_file(r));
            return rc;
        }
        ctr_cli_progress(cli, ctr_reader_rows(r), ctr_reader_total_rows(r));
    }
    return rc;
}

static int leave_bad_rows_out(struct ctr_cli *cli, struct ctr_batch_source *from, const struct ctr_cal_fit_opts *fo,
                              struct ctr_err *err)
{
    const struct ctr_rule rule[] = { { .column = fo->columns.score, .role = CTR_ROLE_SCORE },
                                     { .column = fo->columns.label, .role = CTR_ROLE_LABEL },
                                     { .column = fo->columns.weight, .role = CTR_ROLE_WEIGHT },
                                     { .column = fo->columns.time, .role = CTR_ROLE_TIME } };
    return ctr_cli_good_rows(cli, from, rule, CTR_COUNT(rule), err);
}

/* Find label, score, weight, --by and, for --rolling, the time, and project the source to them. `sieve`: and to rows
 * that a fit can use. */
static int find(struct ctr_cli *cli, struct ctr_batch_source *from, bool sieve, struct ctr_cal_fit_opts *fo,
                struct ctr_err *err)
{
    const struct ctr_schema *s = ctr_batch_source_schema(from);
    const bool whole = sieve && ctr_cli_keeps_bad_rows(cli); /* all columns are set aside */
    int *const to[] = { &fo->columns.label, &fo->columns.score, &fo->columns.weight, &fo->by, &fo->columns.time };
    int rc = ctr_cli_role(cli, s, CTR_ROLE_LABEL, true, &fo->columns.label, err);

    fo->by = fo->columns.time = -1;
    if (!rc && !(rc = ctr_cli_role(cli, s, CTR_ROLE_SCORE, true, &fo->columns.score, err)))
        rc = ctr_cli_role(cli, s, CTR_ROLE_WEIGHT, false, &fo->columns.weight, err);
    if (!rc && o.by && (fo->by = ctr_schema_need(s, o.by, err)) < 0)
        rc = fo->by;
    if (!rc && o.rolling_ms >= 0)
        rc = ctr_cli_role(cli, s, CTR_ROLE_TIME, true, &fo->columns.time, err);
    if (!rc && whole)
        rc = leave_bad_rows_out(cli, from, fo, err);
    if (!rc)
        rc = ctr_batch_source_keep(from, to, CTR_COUNT(to), NULL, err);
    return !rc && sieve && !whole ? leave_bad_rows_out(cli, from, fo, err) : rc;
}

/* Read the rows of --held-out. */
static int hold_out(struct ctr_cli *cli, struct ctr_cal_fit_opts *fo, struct ctr_cal_fit **held, struct ctr_err *err)
{
    char *paths[] = { (char *)(uintptr_t)o.held_out };
    struct ctr_batch_source s = { 0 };
    struct ctr_reader *r = NULL;
    int rc = ctr_reader_open(&r, paths, 1, NULL, err);

    if (!rc)
        s = ctr_batch_source_stream(r);
    if (!rc &&
        ((rc = find(cli, &s, false, fo, err)) || (rc = ctr_cal_fit_new(held, ctr_batch_source_schema(&s), fo, err)) ||
         (rc = feed(cli, r, &s, *held, NULL, err)) || (rc = ctr_cal_fit_hold_out(*held, err))))
        ctr_err_file(err, o.held_out);
    ctr_batch_source_close(&s);
    return rc;
}

static int fit_all(struct ctr_cli *cli, struct ctr_reader *r, const struct ctr_batch_source *s,
                   struct ctr_cal_fit_opts *fo, struct ctr_err *err)
{
    struct ctr_cal_fit *f = NULL, *held = NULL;
    struct ctr_cal_map *m = NULL;
    struct ctr_out *out = NULL;
    int rc = ctr_cal_fit_new(&f, ctr_batch_source_schema(s), fo, err);

    if (rc)
        ctr_err_file(err, ctr_reader_file(r));
    else if (!(rc = feed(cli, r, s, f, NULL, err)) && !(rc = ctr_cal_fit_finish(f, &m, err)) &&
             (!o.held_out || !(rc = hold_out(cli, fo, &held, err))) &&
             !(rc = report(cli, f, held ? held : f, m, err)) && !(rc = ctr_cli_bad_rows_finish(cli, err)) &&
             !(rc = ctr_cli_out(cli, CTR_OUT_BINARY, &out, err))) {
        warn_replaced(cli, f, m);
        rc = write_map(cli, f, m, out, err);
    }
    ctr_cal_map_free(m);
    ctr_cal_fit_free(held);
    ctr_cal_fit_free(f);
    return rc;
}

struct rolling {
    struct ctr_cli *cli;
    int64_t maps; /* written */
    bool had;     /* there was one before */
};

/* Write a map of the rows before `until`, or report why there is none. */
static int fitted(void *ctx, const struct ctr_cal_fit *f, const struct ctr_cal_map *m, int64_t until,
                  struct ctr_err *err)
{
    struct rolling *r = ctx;
    struct ctr_cal_bias b = { 0 };
    struct ctr_out *out = NULL;
    char time[32], before[32];
    int rc;

    time[ctr_time_iso(time, until)] = 0;
    if (!m) {
        ctr_cli_warn(r->cli, "no map of the rows before %s: %s%s", time, ctr_err_text(err).s,
                     r->maps || r->had ? "; the one before stays" : "");
        return 0;
    }
    if ((rc = ctr_cal_fit_bias(f, m, &b, 1, err)) < 0 || (rc = ctr_out_open(&out, r->cli->out, CTR_OUT_BINARY, err)) ||
        (rc = write_map(r->cli, f, m, out, err)))
        return rc;
    r->maps++;
    (ctr_cal_fit_replaces(f, m) ? ctr_cli_warn : ctr_cli_note)(
        r->cli, "a map of %lld rows before %s: mean score over mean label was %s; %s", (long long)ctr_cal_fit_rows(f),
        time, number(before, b.before), ctr_cal_fit_text(f, m).s);
    return 0;
}

static int fit_rolling(struct ctr_cli *cli, struct ctr_reader *r, const struct ctr_batch_source *s,
                       const struct ctr_cal_fit_opts *fo, struct ctr_err *err)
{
    struct rolling to = { .cli = cli, .had = !access(cli->out, F_OK) };
    const struct ctr_cal_rolling_opts ro = {
        .fit = *fo, .rolling_ms = o.rolling_ms, .every_ms = o.every_ms, .have = to.had, .fitted = fitted, .ctx = &to
    };
    struct ctr_cal_rolling *rolling = NULL;
    int rc = ctr_cal_rolling_new(&rolling, ctr_batch_source_schema(s), &ro, err);

    if (rc)
        ctr_err_file(err, ctr_reader_file(r));
    else if (!(rc = feed(cli, r, s, NULL, rolling, err)) && !(rc = ctr_cal_rolling_finish(rolling, err)) && !to.maps)
        rc = ctr_fail(err, CTR_EDATA, "no rows gave a map");
    if (!rc && ctr_cal_rolling_old(rolling))
        ctr_cli_warn(cli, "%lld rows were older than --rolling when they came, and are in no map",
                     (long long)ctr_cal_rolling_old(rolling));
    ctr_cal_rolling_free(rolling);
    return rc;
}

static int check_rolling(const struct ctr_cli *cli, struct ctr_err *err)
{
    if (o.rolling_ms < 0)
        return 0;
    if (o.every_ms < 0 && o.rolling_ms % 24 == 0)
        o.every_ms = o.rolling_ms / 24;
    if (o.rolling_ms < 1 || o.every_ms < 1 || o.rolling_ms % o.every_ms)
        return ctr_cli_usage(err, "--rolling wants a multiple of --every, such as 1d and 1h");
    if (o.held_out)
        return ctr_cli_usage(err, "--held-out measures one map: leave --rolling out");
    if (!cli->out || !ctr_cli_reopens(cli->out))
        return ctr_cli_usage(err, "--rolling writes the map again and again: name a file with -o");
    return 0;
}

static int fit(struct ctr_cli *cli, struct ctr_err *err)
{
    struct ctr_cal_fit_opts fo = { .columns = { -1, -1, -1, -1, -1 },
                                   .kind = kind(),
                                   .min_rows = o.slice_clicks,
                                   .min_clicks = o.min_clicks,
                                   .measured = o.rolling_ms >= 0 || (!cli->quiet && !o.held_out),
                                   .memory_bytes = cli->memory_bytes };
    struct ctr_batch_source s = { 0 };
    struct ctr_reader *r = NULL;
    int rc = o.held_out ? ctr_cli_read(cli, o.held_out, err) : 0;

    if (rc || (rc = check_rolling(cli, err)) || (rc = ctr_cli_reader(cli, 0, NULL, &r, err)))
        return rc;
    s = ctr_batch_source_stream(r);
    if ((rc = find(cli, &s, true, &fo, err)))
        ctr_err_file(err, ctr_reader_file(r));
    else if (!(rc = ctr_pool_new(&fo.pool, (int)cli->jobs, CTR_FLOAT_IEEE, err)))
        rc = o.rolling_ms < 0 ? fit_all(cli, r, &s, &fo, err) : fit_rolling(cli, r, &s, &fo, err);
    if (!rc)
        rc = ctr_cli_bad_rows_finish(cli, err);
    ctr_pool_free(fo.pool);
    ctr_batch_source_close(&s);
    return rc;
}

/* ---- applying ---- */

struct run {
    struct ctr_cli *cli;
    const char *path;
    struct ctr_file_seen seen; /* the map's file when it was last opened */
    struct ctr_reader *r;      /* of: */
    struct ctr_batch_source rows;
    int score;
    struct ctr_cal_map *m;
    struct ctr_cal_apply *a;
};

static void close_map(struct run *run)
{
    ctr_cal_apply_free(run->a);
    ctr_cal_map_free(run->m);
}

/* An unusable map does not stop scoring: it is reported, and the previous one stays in use. */
static void reload(struct run *run, int64_t row)
{
    struct ctr_err err = { 0 };
    int rc = ctr_cal_apply_reload(&run->a, &run->m, run->path, &run->seen, ctr_reader_schema(run->r), run->score, &err);

    if (rc < 0)
        ctr_cli_warn(run->cli, "%s; rows from %lld on are calibrated by the map before", ctr_err_text(&err).s,
                     (long long)row);
    if (rc <= 0)
        return;
    ctr_cli_debug(run->cli, "rows from %lld on are calibrated by another %s", (long long)row, run->path);
}

static int pass(struct run *run, struct ctr_err *err)
{
    struct ctr_cli *cli = run->cli;
    struct ctr_out *out = NULL;
    struct ctr_writer *w = NULL;
    const struct ctr_batch *b, *to;
    int rc;

    if ((rc = ctr_cli_out(cli, CTR_OUT_BINARY, &out, err)) ||
        (rc = ctr_cli_writer(cli, out, ctr_cal_apply_schema(run->a), &w, err)))
        goto out;
    while ((rc = ctr_batch_source_next(&run->rows, &b, err)) > 0) {
        if (o.reload)
            reload(run, b->first_row + 1);
        if ((rc = ctr_cal_apply_batch(run->a, b, &to, err))) {
            ctr_err_file(err, ctr_reader_file(run->r));
            goto out;
        }
        if ((rc = ctr_writer_batch(w, to, err)))
            goto out;
        ctr_cli_progress(cli, ctr_reader_rows(run->r), ctr_reader_total_rows(run->r));
    }
    if (!rc)
        rc = ctr_cli_finish(cli, w, out, err);
out:
    ctr_writer_free(w);
    ctr_out_free(out);
    return rc;
}

static int apply(struct ctr_cli *cli, struct ctr_err *err)
{
    struct run run = { .cli = cli };
    int rc = ctr_cli_args(cli, 1, -1, err);

    if (rc)
        return rc;
    if (o.held_out)
        return ctr_cli_usage(err, "--held-out goes with --fit; of a map that is there, ctr-eval shows the calibration");
    if (o.by)
        return ctr_cli_usage(err, "--by goes with --fit: a map knows by which column it was fitted");
    run.path = cli->args[0];
    if (o.reload && !ctr_cli_reopens(run.path))
        return ctr_cli_usage(err, "--reload looks at the file of the map, and a pipe has none");
    ctr_file_changed(run.path, &run.seen);
    if (!(rc = ctr_cli_inputs(cli, 0, err)) && !(rc = ctr_cal_map_load(&run.m, run.path, err)) &&
        !(rc = ctr_cli_reader(cli, 1, NULL, &run.r, err)))
        rc = ctr_cli_role(cli, ctr_reader_schema(run.r), CTR_ROLE_SCORE, true, &run.score, err);
    const struct ctr_rule rule = { .column = run.score, .role = CTR_ROLE_SCORE };
    if (run.r)
        run.rows = ctr_batch_source_stream(run.r);
    if (!rc)
        rc = ctr_cli_good_rows(cli, &run.rows, &rule, 1, err);
    if (o.reload)
        ctr_input_identity_release(run.path); /* the file may be replaced by another map */
    if (!rc && !(rc = ctr_cal_apply_new(&run.a, run.m, ctr_reader_schema(run.r), run.score, err)))
        rc = pass(&run, err);
    close_map(&run);
    ctr_batch_source_close(&run.rows);
    return rc;
}

/* Reject roles that would have no effect. */
static int check_roles(const struct ctr_cli *cli, struct ctr_err *err)
{
    for (int i = 0; i < CTR_NROLES; i++) {
        if (!cli->role[i] || i == CTR_ROLE_SCORE)
            continue;
        if (!o.fit)
            return ctr_cli_usage(err, "--%s does nothing without --fit: a map takes scores alone", ctr_roles[i]);
        if (i == CTR_ROLE_TIME && o.rolling_ms < 0)
            return ctr_cli_usage(err, "--%s does nothing here", ctr_roles[i]);
    }
    return 0;
}

static int calibrate_scores(struct ctr_cli *cli, struct ctr_err *err)
{
    int rc = check_roles(cli, err);

    if (rc)
        return rc;
    if (o.fit && o.reload)
        return ctr_cli_usage(err, "--reload goes with a map that is applied: leave --fit out");
    if ((rc = ctr_cli_bad_rows(cli, o.bad_rows, err)))
        return rc;
    return o.fit ? fit(cli, err) : apply(cli, err);
}

const struct ctr_tool ctr_tool = { "ctr-calibrate",
                                   "make scores into click rates",
                                   "--fit KIND [-o MAP] [FILE…]\nMAP [FILE…]",
                                   NULL,
                                   opts,
                                   CTR_TOOL_ROLE(CTR_ROLE_LABEL) | CTR_TOOL_ROLE(CTR_ROLE_WEIGHT) |
                                       CTR_TOOL_ROLE(CTR_ROLE_TIME) | CTR_TOOL_ROLE(CTR_ROLE_SCORE) | CTR_TOOL_READS |
                                       CTR_TOOL_WRITES | CTR_TOOL_MEMORY,
                                   calibrate_scores };
