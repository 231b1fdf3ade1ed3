/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of a training run that exclude each other, or that its model lacks. */
#include "tools/ctr-train/trainrun.h"

#include <inttypes.h>
#include <string.h>

#include "common/lr/variants.h"

static int parse_every(const char *option, const char *text, struct ctr_every *every, struct ctr_err *err)
{
    return !text || ctr_every_parse(text, every)
               ? 0
               : ctr_cli_usage(err, "--%s wants a number of rows or a time such as 10m, not '%s'", option, text);
}

static int check_validation(const struct ctr_train *run, const struct ctr_train_job *job, struct ctr_err *err)
{
    if (!job->model->evaluate)
        return ctr_cli_usage(err, "%s takes no --validation", job->model->name);
    if (run->o->follow)
        return ctr_cli_usage(err, "--validation keeps the best model of a run that ends: leave --follow out");
    if (run->o->validation_every && run->o->progressive)
        return ctr_cli_usage(err, "--validation-every may end the run in its first pass, before all predictions are "
                                  "made: leave --progressive out");
    return 0;
}

static int check_options(const struct ctr_train *run, struct ctr_err *err)
{
    if (run->o->passes > 1 && !run->o->spool && !ctr_train_reopens(run))
        return ctr_cli_usage(err, "--passes %" PRId64 " needs files that can be read again, or --spool FILE",
                             run->o->passes);
    if (run->o->passes > 1 && run->o->params.lr.expire)
        return ctr_cli_usage(err, "--expire follows the time of one pass: leave --passes out");
    return 0;
}

static int check_uncertainty(const struct ctr_train *run, const struct ctr_train_job *job, struct ctr_err *err)
{
    if (!job->params.uncertainty)
        return 0;
    if (run->o->variants)
        return ctr_cli_usage(err, "--uncertainty is that of one model: leave --variants out");
    if (!job->model->predict_uncertain)
        return ctr_cli_usage(err, "models of kind %s have no uncertainty%s", job->model->name,
                             ctr_model_how(job->model));
    return 0;
}

static int check_init_bias(const struct ctr_train *run, struct ctr_train_job *job, struct ctr_err *err)
{
    double rate = CTR_INIT_AUTO;
    if (!run->o->init_bias || !strcmp(run->o->init_bias, "0"))
        return 0;
    if (strcmp(run->o->init_bias, "auto") != 0 &&
        (!ctr_parse_f64(run->o->init_bias, strlen(run->o->init_bias), &rate) || !(rate > 0 && rate < 1)))
        return ctr_cli_usage(err,
                             "--init-bias wants a click rate between 0 and 1, auto, or 0 for a bias of 0, not '%s'",
                             run->o->init_bias);
    if (!job->model->set_bias)
        return ctr_cli_usage(err, "models of kind %s take no --init-bias%s", job->model->name,
                             ctr_model_how(job->model));
    if (rate == CTR_INIT_AUTO && job->model->by_minibatches)
        return ctr_cli_usage(err,
                             "--init-bias auto starts the bias row by row: give a click rate, or leave --minibatch "
                             "out");
    if (run->o->single)
        return ctr_cli_usage(err, "--init-bias starts the bias of each model: leave --single-value out");
    if (run->o->init)
        return ctr_cli_usage(err, "--init-bias and --init both say where the bias starts");
    if (run->o->params.lr.no_bias && !run->o->variants)
        return ctr_cli_usage(err, "--init-bias has no bias to start, with --no-bias");
    job->init_rate = rate;
    return 0;
}

static int check_follow(const struct ctr_train *run, struct ctr_err *err)
{
    const struct ctr_cli *cli = run->cli;
    if (!run->o->follow && !run->o->save_every)
        return 0;
    if (ctr_names_stdout(cli->out) || !ctr_cli_reopens(cli->out))
        return ctr_cli_usage(err, "--%s saves the model again and again: name a file with -o",
                             run->o->follow ? "follow" : "save-every");
    const bool many = !run->flows && cli->nargs > run->first + 1;
    if (run->o->follow && (run->o->passes > 1 || many))
        return ctr_cli_usage(err, "--follow reads one input, once");
    return 0;
}

int ctr_train_check(const struct ctr_train *run, struct ctr_train_job *job, struct ctr_err *err)
{
    const struct ctr_train_opts *o = run->o;
    const char *save_every = !o->save_every && o->follow ? "1m" : o->save_every;
    int rc = o->validation ? check_validation(run, job, err) : 0;
    if (o->place.n && !strcmp(run->cli->device, "cpu"))
        ctr_cli_note(run->cli, "every operator runs on the CPU: --place is for --device gpu");
    if (!rc)
        rc = check_options(run, err);
    if (!rc)
        rc = check_uncertainty(run, job, err);
    if (!rc)
        rc = check_init_bias(run, job, err);
    if (!rc)
        rc = check_follow(run, err);
    job->opens_again = !o->follow && ctr_train_reopens(run);
    if (!rc)
        rc = parse_every("checkpoint-every", o->every, &job->checkpoint_every, err);
    return rc ? rc : parse_every("save-every", save_every, &job->publish_every, err);
}

/* Rows of --validation that cannot be scored are left out; no more than of the input. */
static int open_validation(struct ctr_train *run, struct ctr_err *err)
{
    struct ctr_bad_rows_opts o = {
        .policy = *ctr_bad_rows_policy(run->cli->bad), .input = run->o->validation, .note = ctr_train_note, .ctx = run
    };
    if (o.policy.kind == CTR_BAD_QUARANTINE)
        o.policy = (struct ctr_bad_policy){ .kind = CTR_BAD_SKIP, .most = INT64_MAX };
    return ctr_bad_rows_new(&run->bad_validation, &o, err);
}

int ctr_train_take_bad_rows(struct ctr_train *run, struct ctr_train_job *job, struct ctr_err *err)
{
    int rc = ctr_cli_bad_rows(run->cli, run->o->bad_rows, err);
    if (!rc && run->comm)
        rc = ctr_cli_all_rows(run->cli,
                              "ranks (mpirun) count no bad rows together: leave them out of the shards first, "
                              "by ctr-extract --bad-rows or ctr-select --where",
                              err);
    if (!rc && run->o->validation && ctr_bad_rows_policy(run->cli->bad)->kind != CTR_BAD_FAIL)
        rc = open_validation(run, err);
    job->bad = run->cli->bad;
    job->bad_validation = run->bad_validation;
    return rc;
}

int ctr_train_check_checkpoint(const struct ctr_train *run, struct ctr_err *err)
{
    struct ctr_cli *cli = run->cli;
    const char *others[] = { cli->out, run->o->progressive, run->o->spool };
    const char *bad = NULL;
    for (size_t i = 0; i < CTR_COUNT(others); i++)
        bad = ctr_checkpoint_keeps(run->o->checkpoint, others[i]) ? others[i] : bad;
    for (int i = 1; i < cli->nargs; i++)
        bad = ctr_checkpoint_keeps(run->o->checkpoint, cli->args[i]) ? cli->args[i] : bad;
    for (int i = 0; i < run->views.n; i++)
        bad = ctr_checkpoint_keeps(run->o->checkpoint, run->views.file[i].path) ? run->views.file[i].path : bad;
    if (bad)
        return ctr_cli_usage(err, "%s is the name of a file that --checkpoint %s keeps: choose another", bad,
                             run->o->checkpoint);
    return ctr_cli_written(cli, run->o->checkpoint, err);
}

int ctr_train_take_variants(struct ctr_train *run, struct ctr_train_job *job, const struct ctr_model *many,
                            struct ctr_err *err)
{
    const char *at = run->cli->out ? strstr(run->cli->out, "%s") : NULL;
    if (!at || strchr(at + 1, '%') || strchr(run->cli->out, '%') != at)
        return ctr_cli_usage(err,
                             "--variants writes a model each: -o wants one %%s for the name, such as m-%%s.arrows");
    if (!many)
        return ctr_cli_usage(err, "%s%s takes no --variants", job->model->name, ctr_model_how(job->model));
    if (run->o->deltas)
        return ctr_cli_usage(err, "--checkpoint-deltas are of one model: leave --variants out");
    if (run->o->validation)
        return ctr_cli_usage(err, "--validation chooses the best of one model: leave --variants out");
    if (run->o->params.lr.expire)
        return ctr_cli_usage(err, "--expire drops keys of one model: leave --variants out");
    int rc = ctr_cli_read(run->cli, run->o->variants, err);
    if (!rc)
        rc = ctr_variants_read(&run->variants, run->o->variants, &job->params, err);
    if (!rc && job->init_rate == CTR_INIT_AUTO && run->variants.weights.n)
        rc = ctr_cli_usage(err,
                           "--init-bias auto weighs rows alike for all models: give a rate where variants have weights "
                           "of their own");
    job->params.variants = &run->variants;
    job->model = many;
    if (!rc && run->o->single) /* their checkpoints are not interchangeable */
        rc = ctr_buf_printf(&run->variants.text, err, "single-value\n");
    return rc;
}
