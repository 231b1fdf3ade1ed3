/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-predict: scores from a model over a stream of features. */
#include "common/cli/cli.h"
#include "common/model/model.h"

#include <stdlib.h>

static struct {
    bool uncertainty, reload;
    double max_unknown;
} o = { .max_unknown = -1 };

static const struct ctr_opt opts[] = {
    { "uncertainty", 0, CTR_OPT_FLAG, NULL, "add how far a score could move with one row more", &o.uncertainty, 0 },
    { "reload", 0, CTR_OPT_FLAG, NULL, "when another model takes the name MODEL, go on with that one", &o.reload, 0 },
    CTR_OPT_MAX_UNKNOWN("fail when the model does not know more of the keys of a table", o.max_unknown),
    { 0 },
};

struct run {
    struct ctr_cli *cli;
    const char *model;
    struct ctr_predict_opts how;
    struct ctr_predictor *p;
    struct ctr_reader *r;
    struct ctr_out *out;
    struct ctr_writer *w;
};

static void warn(const struct run *run, const struct ctr_predictor *p)
{
    if (*ctr_predictor_warning(p))
        ctr_cli_note(run->cli, "%s", ctr_predictor_warning(p));
}

static void tell_model(const struct run *run, int64_t row)
{
    char time[32];
    time[ctr_time_iso(time, ctr_predictor_time_ms(run->p))] = 0;
    ctr_cli_debug(run->cli, "rows from %lld on are scored by %s of %s", (long long)row, run->model, time);
}

/* The keys that the model has never seen. */
static int tell_unknown(const struct run *run, struct ctr_err *err)
{
    struct ctr_unseen *u = NULL, one;
    int n = 0, cap = 0, rc = 0;
    while (!rc && (one.name = ctr_predictor_unknown(run->p, n, &one.n, &one.unknown)))
        if (!(rc = ctr_array_grow(&u, n, &cap, sizeof *u, err)))
            u[n++] = one;
    if (!rc)
        rc = ctr_cli_unseen(run->cli, run->cli->args[0], "keys", u, n, o.max_unknown, err);
    free(u);
    return rc;
}

/* Scores do not stop for a model that cannot be used: it is told of, and the one before goes on. */
static int reload(struct run *run, int64_t row, struct ctr_err *fatal)
{
    struct ctr_predictor *next;
    struct ctr_err err = { 0 };
    int rc = ctr_predictor_reload(run->p, &next, &err);
    if (rc < 0)
        ctr_cli_note(run->cli, "%s; rows from %lld on are scored by the model before", ctr_err_text(&err).s,
                     (long long)row);
    if (rc <= 0)
        return 0;
    warn(run, next);
    rc = tell_unknown(run, fatal);
    ctr_predictor_free(run->p);
    run->p = next;
    tell_model(run, row);
    return rc;
}

static int open_model(struct run *run, struct ctr_err *err)
{
    struct ctr_cli *cli = run->cli;
    run->model = cli->args[0];
    int rc = ctr_cli_reread(cli, &run->model, err);
    if (!rc && o.reload && run->model != cli->args[0])
        rc = ctr_cli_usage(err, "--reload looks at the file of the model, and a pipe has none");
    if (!rc)
        rc = ctr_cli_device(cli, true, NULL, err);
    if (rc)
        return rc;
    run->how = (struct ctr_predict_opts){ (int)cli->jobs, o.uncertainty, cli->device, cli->device_memory_bytes };
    rc = ctr_predictor_open(&run->p, run->model, &run->how, err);
    if (!rc)
        warn(run, run->p);
    return rc;
}

static int predict(struct run *run, struct ctr_err *err)
{
    struct ctr_cli *cli = run->cli;
    const struct ctr_batch *in, *scored;
    int rc = ctr_cli_out(cli, CTR_OUT_BINARY, &run->out, err);
    if (!rc)
        rc = open_model(run, err);
    if (!rc)
        rc = ctr_cli_reader(cli, 1, NULL, &run->r, err);
    if (!rc)
        rc = ctr_predictor_bind(run->p, ctr_reader_schema(run->r), err);
    if (!rc) {
        warn(run, run->p);
        rc = ctr_cli_writer(cli, run->out, ctr_predictor_schema(run->p), &run->w, err);
    }
    if (!rc && o.reload)
        tell_model(run, 1);
    while (!rc && (rc = ctr_reader_next(run->r, &in, err)) > 0) {
        rc = o.reload ? reload(run, in->first_row + 1, err) : 0;
        if (!rc) {
            rc = ctr_predictor_run(run->p, in, &scored, err);
            if (rc)
                ctr_err_file(err, ctr_reader_file(run->r));
        }
        if (!rc)
            rc = ctr_writer_batch(run->w, scored, err);
        ctr_cli_progress(cli, ctr_reader_rows(run->r), ctr_reader_total_rows(run->r));
    }
    if (!rc)
        rc = tell_unknown(run, err);
    return rc ? rc : ctr_cli_finish(cli, run->w, run->out, err);
}

static int run_tool(struct ctr_cli *cli, struct ctr_err *err)
{
    struct run run = { .cli = cli };
    int rc = ctr_cli_args(cli, 1, -1, err);
    if (!rc)
        rc = ctr_cli_max_unknown(o.max_unknown, err);
    if (!rc)
        rc = predict(&run, err);
    ctr_writer_free(run.w);
    ctr_out_free(run.out);
    ctr_reader_free(run.r);
    ctr_predictor_free(run.p);
    return rc;
}

const struct ctr_tool ctr_tool = {
    .name = "ctr-predict",
    .summary = "add scores from a model to a stream of features",
    .synopsis = "MODEL [FILE…]",
    .opts = opts,
    .flags = CTR_TOOL_DEVICE | CTR_TOOL_READS | CTR_TOOL_WRITES,
    .run = run_tool,
};
