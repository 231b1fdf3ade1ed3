/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-calibrate: fits a map from scores to click rates, or applies one. */
#include "common/cli/cli.h"
#include "common/metric/metric.h"

#include <math.h>
#include <stdio.h>

static struct {
    const char *fit, *pieces, *by, *held_out;
    int64_t min_clicks;
} o = { .pieces = "linear", .min_clicks = 100 };

static const struct ctr_opt opts[] = {
    { "fit", 'F', CTR_OPT_CHOICE, "isotonic|power|platt", "fit a map of this kind to scores and labels", &o.fit, 0 },
    { "pieces", 0, CTR_OPT_CHOICE, "linear|constant", "what isotonic does between its knots (default linear)",
      &o.pieces, .needs = "fit=isotonic" },
    { "by", 'b', CTR_OPT_STR, "COLUMN", "a map for each value of this column, besides the global one", &o.by,
      CTR_OPT_ONCE },
    { "min-clicks", 0, CTR_OPT_INT, "N", "slices with fewer clicks or non-clicks use the global map (default 100)",
      &o.min_clicks, .needs = "by" },
    { "held-out", 0, CTR_OPT_STR, "FILE", "with --fit: report the bias on the rows of FILE", &o.held_out,
      CTR_OPT_PATH },
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

/* ---- fitting ---- */

static int write_map(struct ctr_cli *cli, const struct ctr_cal_map *m, struct ctr_err *err)
{
    struct ctr_schema s = { 0 };
    struct ctr_batchbuf rows = { 0 };
    struct ctr_out *out = NULL;
    struct ctr_writer *w = NULL;
    int rc;

    if (!(rc = ctr_cal_map_schema(&s, err)) && !(rc = ctr_batchbuf_init(&rows, &s, err)) &&
        !(rc = ctr_cal_map_rows(m, &rows, err)) && !(rc = ctr_cli_out(cli, CTR_OUT_BINARY, &out, err)) &&
        !(rc = ctr_cli_writer(cli, out, &s, &w, err)) && !(rc = ctr_writer_batch(w, ctr_batchbuf_view(&rows), err)))
        rc = ctr_cli_finish(cli, w, out, err);
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

/* Mean score over mean label, before and after, for low, middle and high scores of `rows`,
 * those of the fit or others. */
static int report(const struct ctr_cli *cli, const struct ctr_cal_fit *f, const struct ctr_cal_fit *rows,
                  const struct ctr_cal_map *m, struct ctr_err *err)
{
    static const char *const name[3][3] = { { "all", "", "" }, { "low", "high", "" }, { "low", "middle", "high" } };
    struct ctr_cal_bias b[3] = { 0 };
    char before[32], after[32];
    int n = cli->quiet ? 0 : ctr_cal_fit_bias(rows, m, b, 3, err);

    if (n <= 0)
        return n;
    ctr_cli_note(cli, "mean score over mean label, on the rows %s%s:", rows == f ? "of the fit" : "held out in ",
                 rows == f ? "" : o.held_out);
    ctr_cli_note(cli, "%-7s  %-19s  %10s  %10s  %8s  %8s", "", "scores", "mean_score", "click_rate", "before", "after");
    for (int i = 0; i < n; i++)
        ctr_cli_note(cli, "%-7s  %.6f - %.6f  %11.6f  %10.6f  %8s  %8s", name[n - 1][i], b[i].low, b[i].high,
                     b[i].score, b[i].label, number(before, b[i].before), number(after, b[i].after));
    if (o.by)
        ctr_cli_note(cli, "%lld of %lld values of %s have maps of their own, the others are too thin (--min-clicks)",
                     (long long)(ctr_cal_fit_slices(f) - ctr_cal_fit_thin(f)), (long long)ctr_cal_fit_slices(f), o.by);
    if (ctr_cal_fit_floored(f))
        ctr_cli_note(cli, "the click rate does not rise with the score everywhere: a slope was raised to %g",
                     CTR_CAL_MIN_SLOPE);
    return 0;
}

static int feed(struct ctr_cli *cli, struct ctr_reader *r, struct ctr_cal_fit *f, struct ctr_err *err)
{
    const struct ctr_batch *b;
    int rc;

    while ((rc = ctr_reader_next(r, &b, err)) > 0) {
        if ((rc = ctr_cal_fit_batch(f, b, err))) {
            ctr_err_file(err, ctr_reader_file(r));
            return rc;
        }
        ctr_cli_progress(cli, ctr_reader_rows(r), ctr_reader_total_rows(r));
    }
    return rc;
}

/* Label, score, weight and --by, and the reader projected to them. */
static int find(struct ctr_cli *cli, struct ctr_reader *r, struct ctr_cal_fit_opts *fo, struct ctr_err *err)
{
    const struct ctr_schema *s = ctr_reader_schema(r);
    int *const to[] = { &fo->columns.label, &fo->columns.score, &fo->columns.weight, &fo->by };
    int keep[CTR_COUNT(to)], n = 0;

    fo->columns.label = ctr_cli_role(cli, s, CTR_ROLE_LABEL, true, err);
    if (fo->columns.label < 0)
        return fo->columns.label;
    fo->columns.score = ctr_cli_role(cli, s, CTR_ROLE_SCORE, true, err);
    if (fo->columns.score < 0)
        return fo->columns.score;
    fo->columns.weight = ctr_cli_role(cli, s, CTR_ROLE_WEIGHT, false, err); /* -1: there is none */
    if (fo->columns.weight < -1)
        return fo->columns.weight;
    fo->by = o.by ? ctr_schema_need(s, o.by, err) : -1;
    if (fo->by < -1)
        return fo->by;
    for (size_t i = 0; i < CTR_COUNT(to); i++) {
        int k = 0;
        if (*to[i] < 0)
            continue;
        while (k < n && keep[k] != *to[i])
            k++;
        keep[k] = *to[i];
        *to[i] = k;
        n += k == n;
    }
    return ctr_reader_project(r, keep, n, err);
}

/* The rows of --held-out. */
static int hold_out(struct ctr_cli *cli, struct ctr_cal_fit_opts *fo, struct ctr_cal_fit **held, struct ctr_err *err)
{
    char *paths[] = { (char *)(uintptr_t)o.held_out };
    struct ctr_reader *r = NULL;
    int rc = ctr_reader_open(&r, paths, 1, NULL, err);

    if (!rc && ((rc = find(cli, r, fo, err)) || (rc = ctr_cal_fit_new(held, ctr_reader_schema(r), fo, err)) ||
                (rc = feed(cli, r, *held, err)) || (rc = ctr_cal_fit_hold_out(*held, err))))
        ctr_err_file(err, o.held_out);
    ctr_reader_free(r);
    return rc;
}

static int fit(struct ctr_cli *cli, struct ctr_err *err)
{
    struct ctr_cal_fit_opts fo = {
        .columns = { -1, -1, -1, -1, -1 }, .kind = kind(), .min_rows = o.min_clicks, .memory_bytes = cli->memory_bytes
    };
    struct ctr_reader *r = NULL;
    struct ctr_cal_fit *f = NULL, *held = NULL;
    struct ctr_cal_map *m = NULL;
    int rc = o.held_out ? ctr_cli_read(cli, o.held_out, err) : 0;

    if (!rc && !(rc = ctr_cli_reader(cli, 0, NULL, &r, err)) &&
        ((rc = find(cli, r, &fo, err)) || (rc = ctr_cal_fit_new(&f, ctr_reader_schema(r), &fo, err))))
        ctr_err_file(err, ctr_reader_file(r));
    if (!rc && !(rc = feed(cli, r, f, err)) && !(rc = ctr_cal_fit_finish(f, &m, err)) &&
        (!o.held_out || !(rc = hold_out(cli, &fo, &held, err))) && !(rc = report(cli, f, held ? held : f, m, err)))
        rc = write_map(cli, m, err);
    ctr_cal_map_free(m);
    ctr_cal_fit_free(held);
    ctr_cal_fit_free(f);
    ctr_reader_free(r);
    return rc;
}

/* ---- applying ---- */

static int pass(struct ctr_cli *cli, struct ctr_reader *r, struct ctr_cal_apply *a, struct ctr_err *err)
{
    struct ctr_out *out = NULL;
    struct ctr_writer *w = NULL;
    const struct ctr_batch *b, *to;
    int rc;

    if ((rc = ctr_cli_out(cli, CTR_OUT_BINARY, &out, err)) ||
        (rc = ctr_cli_writer(cli, out, ctr_cal_apply_schema(a), &w, err)))
        goto out;
    while ((rc = ctr_reader_next(r, &b, err)) > 0) {
        if ((rc = ctr_cal_apply_batch(a, b, &to, err))) {
            ctr_err_file(err, ctr_reader_file(r));
            goto out;
        }
        if ((rc = ctr_writer_batch(w, to, err)))
            goto out;
        ctr_cli_progress(cli, ctr_reader_rows(r), ctr_reader_total_rows(r));
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
    struct ctr_reader *r = NULL;
    struct ctr_cal_map *m = NULL;
    struct ctr_cal_apply *a = NULL;
    int score, rc = ctr_cli_args(cli, 1, -1, err);

    if (!rc && o.held_out)
        return ctr_cli_usage(err, "--held-out goes with --fit; of a map that is there, ctr-eval shows the calibration");
    if (!rc && o.by)
        return ctr_cli_usage(err, "--by goes with --fit: a map knows by which column it was fitted");
    if (!rc)
        rc = ctr_cli_inputs(cli, 0, err);
    if (!rc && !(rc = ctr_cal_map_load(&m, cli->args[0], err)) && !(rc = ctr_cli_reader(cli, 1, NULL, &r, err))) {
        score = ctr_cli_role(cli, ctr_reader_schema(r), CTR_ROLE_SCORE, true, err);
        rc = score < 0 ? score : ctr_cal_apply_new(&a, m, ctr_reader_schema(r), score, err);
        if (!rc)
            rc = pass(cli, r, a, err);
    }
    ctr_cal_apply_free(a);
    ctr_cal_map_free(m);
    ctr_reader_free(r);
    return rc;
}

/* Roles that would be ignored. */
static int check_roles(const struct ctr_cli *cli, struct ctr_err *err)
{
    for (int i = 0; i < CTR_NROLES; i++) {
        bool fits = i == CTR_ROLE_LABEL || i == CTR_ROLE_WEIGHT;
        if (cli->role[i] && i != CTR_ROLE_SCORE && !(fits && o.fit))
            return ctr_cli_usage(err, "--%s does nothing%s", ctr_roles[i],
                                 fits ? " without --fit: a map takes scores alone" : " here");
    }
    return 0;
}

static int run(struct ctr_cli *cli, struct ctr_err *err)
{
    int rc = check_roles(cli, err);

    if (rc)
        return rc;
    return o.fit ? fit(cli, err) : apply(cli, err);
}

const struct ctr_tool ctr_tool = { "ctr-calibrate",
                                   "make scores into click rates",
                                   "--fit KIND [-o MAP] [FILE…]\nMAP [FILE…]",
                                   NULL,
                                   opts,
                                   CTR_TOOL_ROLES,
                                   run };
