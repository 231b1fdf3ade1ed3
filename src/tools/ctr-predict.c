/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-predict: scores from a model over a stream of features. */
#include "common/cli/cli.h"
#include "common/model/model.h"

static bool uncertainty;

static const struct ctr_opt opts[] = {
    { "uncertainty", 0, CTR_OPT_FLAG, NULL, "add how far a score could move with one row more", &uncertainty, 0 },
    { 0 },
};

struct run {
    struct ctr_predictor *p;
    struct ctr_reader *r;
    struct ctr_out *out;
    struct ctr_writer *w;
};

static int predict(struct ctr_cli *cli, struct run *run, struct ctr_err *err)
{
    const struct ctr_batch *in, *scored;
    const char *model = cli->args[0];
    int rc = ctr_cli_out(cli, CTR_OUT_BINARY, &run->out, err);
    if (!rc)
        rc = ctr_cli_reread(cli, &model, err);
    if (!rc)
        rc = ctr_cli_device(cli, true, NULL, err);
    const struct ctr_predict_opts how = { (int)cli->jobs, uncertainty, cli->device, cli->device_memory_bytes };
    if (!rc)
        rc = ctr_predictor_open(&run->p, model, &how, err);
    if (rc)
        return rc;
    if (*ctr_predictor_warning(run->p))
        ctr_cli_note(cli, "%s", ctr_predictor_warning(run->p));
    rc = ctr_cli_reader(cli, 1, NULL, &run->r, err);
    if (!rc)
        rc = ctr_predictor_bind(run->p, ctr_reader_schema(run->r), err);
    if (!rc && *ctr_predictor_warning(run->p))
        ctr_cli_note(cli, "%s", ctr_predictor_warning(run->p));
    if (!rc)
        rc = ctr_cli_writer(cli, run->out, ctr_predictor_schema(run->p), &run->w, err);
    while (!rc && (rc = ctr_reader_next(run->r, &in, err)) > 0) {
        rc = ctr_predictor_run(run->p, in, &scored, err);
        if (rc)
            ctr_err_file(err, ctr_reader_file(run->r));
        if (!rc)
            rc = ctr_writer_batch(run->w, scored, err);
        ctr_cli_progress(cli, ctr_reader_rows(run->r), ctr_reader_total_rows(run->r));
    }
    return rc ? rc : ctr_cli_finish(cli, run->w, run->out, err);
}

static int run_tool(struct ctr_cli *cli, struct ctr_err *err)
{
    struct run run = { 0 };
    int rc = ctr_cli_args(cli, 1, -1, err);
    if (!rc)
        rc = predict(cli, &run, err);
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
    .flags = CTR_TOOL_DEVICE,
    .run = run_tool,
};
