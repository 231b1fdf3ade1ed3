/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-predict: applies a model to a stream of features: scores, vectors of its towers, and scores from such vectors. */
#include "common/cli/cli.h"
#include "common/model/model.h"
#include "common/plan/plan.h"
#include "tools/ctr-predict/retrieval.h"

#include <stdlib.h>
#include <unistd.h>

static struct {
    bool uncertainty, reload, dot;
    const char *tower, *keys, *images, *bad_rows;
    int64_t top;
    double max_unknown;
} o = { .max_unknown = -1 };

static const struct ctr_opt opts[] = {
    { "uncertainty", 0, CTR_OPT_FLAG, NULL, "add each score's uncertainty as a column", &o.uncertainty, 0 },
    { "reload", 0, CTR_OPT_FLAG, NULL, "reload MODEL when the file is replaced", &o.reload, 0 },
    { "tower", 0, CTR_OPT_STR, "SIDE", "two-tower: write the vectors of SIDE (user or ad) instead of scores", &o.tower,
      0 },
    { "images", 0, CTR_OPT_STR, "FILE", "dicm, two-tower: take image vectors by key from FILE", &o.images,
      CTR_OPT_PATH },
    { "dot", 0, CTR_OPT_FLAG, NULL, "score pairs by the inner products of user and ad vectors, without MODEL", &o.dot,
      0 },
    { "key", 'k', CTR_OPT_STR, "USER[=COL],AD[=COL]", "with --dot: columns of the pairs that name user and ad", &o.keys,
      0, .needs = "dot" },
    { "top", 0, CTR_OPT_INT, "K", "with --dot: write the K best ads of each user instead of scoring pairs", &o.top,
      CTR_OPT_SOME, .needs = "dot" },
    CTR_OPT_BAD_ROWS(o.bad_rows, CTR_OPT_LOCAL, NULL),
    CTR_OPT_MAX_UNKNOWN("fail when the model does not know more of the keys of a table", o.max_unknown),
    { 0 },
};

struct run {
    struct ctr_cli *cli;
    const char *model;
    struct ctr_predict_opts how;
    struct ctr_predictor *p;
    struct ctr_reader *r; /* of: */
    struct ctr_batch_source rows;
    struct ctr_out *out;
    struct ctr_writer *w;
};

static void warn(const struct run *run, const struct ctr_predictor *p)
{
    if (*ctr_predictor_warning(p))
        ctr_cli_warn(run->cli, "%s", ctr_predictor_warning(p));
}

static void tell_model(const struct run *run, int64_t row)
{
    char time[32];
    time[ctr_time_iso(time, ctr_predictor_time_ms(run->p))] = 0;
    ctr_cli_debug(run->cli, "rows from %lld on are scored by %s of %s", (long long)row, run->model, time);
}

/* Report keys unknown to the model. */
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

/* An unusable model does not stop scoring: it is reported, and the previous one stays in use. */
static int reload(struct run *run, int64_t row, struct ctr_err *fatal)
{
    struct ctr_predictor *next;
    struct ctr_err err = { 0 };
    int rc = ctr_predictor_reload(run->p, &next, &err);
    if (rc < 0)
        ctr_cli_warn(run->cli, "%s; rows from %lld on are scored by the model before", ctr_err_text(&err).s,
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
    if (!rc && o.images)
        rc = ctr_cli_read(cli, o.images, err);
    if (!rc && o.reload && run->model != cli->args[0])
        rc = ctr_cli_usage(err, "--reload looks at the file of the model, and a pipe has none");
    if (!rc)
        rc = ctr_cli_device(cli, true, NULL, err);
    if (rc)
        return rc;
    run->how = (struct ctr_predict_opts){ .threads = (int)cli->jobs,
                                          .uncertainty = o.uncertainty,
                                          .device = cli->device,
                                          .device_memory = cli->device_memory_bytes,
                                          .images = o.images,
                                          .output = o.tower };
    ctr_input_identity_release(run->model); /* the file may be replaced by another model, which the predictor checks */
    rc = ctr_predictor_open(&run->p, run->model, &run->how, err);
    if (rc)
        ctr_plan_tell_misplaced(cli->args + 1, cli->nargs - 1, err);
    else
        warn(run, run->p);
    return rc;
}

/* A plan with statements reads views; this is the tool behind it. */
static int open_features(struct run *run, struct ctr_err *err)
{
    const struct ctr_cli *cli = run->cli;
    int rc = ctr_cli_reader(run->cli, 1, NULL, &run->r, err);
    if (!rc)
        run->rows = ctr_batch_source_stream(run->r);
    for (int i = 1; rc < 0 && i < cli->nargs; i++)
        if (strchr(cli->args[i], '=') && access(cli->args[i], F_OK)) {
            ctr_err_add(err, "; VIEW=FILE goes to ctr-extract: ctr-extract %s %s … | ctr-predict %s", cli->args[0],
                        cli->args[i], cli->args[0]);
            break;
        }
    return rc;
}

static int leave_bad_rows_out(struct run *run, struct ctr_err *err)
{
    struct ctr_rule *rule = NULL;
    int n = 0, rc = ctr_predictor_rules(run->p, &rule, &n, err);
    if (!rc)
        rc = ctr_cli_good_rows(run->cli, &run->rows, rule, n, err);
    free(rule);
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
        rc = open_features(run, err);
    if (!rc)
        rc = ctr_predictor_bind(run->p, ctr_reader_schema(run->r), err);
    if (rc && run->r)
        ctr_err_file(err, ctr_reader_file(run->r));
    if (!rc)
        rc = leave_bad_rows_out(run, err);
    if (!rc) {
        warn(run, run->p);
        rc = ctr_cli_writer(cli, run->out, ctr_predictor_schema(run->p), &run->w, err);
    }
    if (!rc && o.reload)
        tell_model(run, 1);
    while (!rc && (rc = ctr_batch_source_next(&run->rows, &in, err)) > 0) {
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

/* ---- scores from vectors ---- */

/* Open the file of vectors given as argument i. */
static int open_vectors(struct ctr_cli *cli, int i, struct ctr_batch_source *s, struct ctr_err *err)
{
    struct ctr_reader *r;
    int rc = ctr_cli_read(cli, cli->args[i], err);
    if (!rc)
        rc = ctr_reader_open(&r, &cli->args[i], 1, NULL, err);
    if (!rc)
        *s = ctr_batch_source_stream(r);
    return rc;
}

static int dot_pairs(struct run *run, struct ctr_err *err)
{
    struct ctr_cli *cli = run->cli;
    struct ctr_batch_source users = { 0 }, ads = { 0 }, pairs = { 0 };
    const struct ctr_dot_opts how = { .keys = o.keys,
                                      .users = cli->args[0],
                                      .ads = cli->args[1],
                                      .memory_bytes = cli->memory_bytes,
                                      .threads = (int)cli->jobs };
    const struct ctr_batch *b;
    struct ctr_reader *r = NULL;
    int rc = ctr_cli_device(cli, false, "--dot of pairs", err);
    if (!rc)
        rc = open_vectors(cli, 0, &users, err);
    if (!rc)
        rc = open_vectors(cli, 1, &ads, err);
    if (!rc)
        rc = ctr_cli_reader(cli, 2, NULL, &r, err);
    if (!rc) {
        pairs = ctr_batch_source_stream(r);
        rc = ctr_dot_source(&pairs, &users, &ads, &how, err);
    }
    if (!rc)
        rc = ctr_cli_writer(cli, run->out, ctr_batch_source_schema(&pairs), &run->w, err);
    while (!rc && (rc = ctr_batch_source_next(&pairs, &b, err)) > 0) {
        rc = ctr_writer_batch(run->w, b, err);
        ctr_cli_progress(cli, ctr_reader_rows(r), ctr_reader_total_rows(r));
    }
    ctr_batch_source_close(&users);
    ctr_batch_source_close(&ads);
    ctr_batch_source_close(&pairs);
    return rc;
}

static int top_ads(struct run *run, struct ctr_err *err)
{
    struct ctr_cli *cli = run->cli;
    struct ctr_batch_source ads = { 0 };
    struct ctr_top_ads *t = NULL;
    const struct ctr_batch *users, *b;
    char *const paths[] = { cli->args[0] };
    int rc = ctr_cli_device(cli, true, NULL, err);
    if (!rc)
        rc = open_vectors(cli, 1, &ads, err);
    if (!rc)
        rc = ctr_cli_read(cli, cli->args[0], err);
    if (!rc)
        rc = ctr_reader_open(&run->r, paths, 1, NULL, err);
    const struct ctr_top_ads_opts how = { .k = o.top,
                                          .users = cli->args[0],
                                          .ads = cli->args[1],
                                          .threads = (int)cli->jobs,
                                          .device = cli->device,
                                          .device_memory = cli->device_memory_bytes,
                                          .memory_bytes = cli->memory_bytes };
    if (!rc)
        rc = ctr_top_ads_new(&t, ctr_reader_schema(run->r), &ads, &how, err);
    if (!rc)
        rc = ctr_cli_writer(cli, run->out, ctr_top_ads_schema(t), &run->w, err);
    if (!rc && ctr_top_ads_count(t) < o.top)
        ctr_cli_note(cli, "%s has %lld ads, fewer than --top %lld: each user gets all of them", cli->args[1],
                     (long long)ctr_top_ads_count(t), (long long)o.top);
    while (!rc && (rc = ctr_reader_next(run->r, &users, err)) > 0) {
        rc = ctr_top_ads_batch(t, users, err);
        for (int more = 1; !rc && more > 0;) {
            more = ctr_top_ads_next(t, &b, err);
            rc = more > 0 ? ctr_writer_batch(run->w, b, err) : more;
        }
        ctr_cli_progress(cli, ctr_reader_rows(run->r), ctr_reader_total_rows(run->r));
    }
    ctr_batch_source_close(&ads);
    ctr_top_ads_free(t);
    return rc;
}

static int check_dot(const struct ctr_cli *cli, struct ctr_err *err)
{
    static const char *const others[] = { "tower", "uncertainty", "reload", "max-unknown", "images", "bad-rows" };
    for (size_t i = 0; i < CTR_COUNT(others); i++)
        if (ctr_cli_given(cli, others[i]))
            return ctr_cli_usage(err, "--%s goes with a MODEL, and --dot has vectors: leave one out", others[i]);
    if (o.top && o.keys)
        return ctr_cli_usage(err, "--key finds pairs, and --top takes every ad for every user: leave one out");
    if (!o.top && !o.keys)
        return ctr_cli_usage(err, "--dot wants --key USER,AD, the columns of the pairs, or --top K");
    if (o.top > INT32_MAX)
        return ctr_cli_usage(err, "--top is at most 2147483647");
    return 0;
}

static int dot(struct run *run, struct ctr_err *err)
{
    int rc = ctr_cli_args(run->cli, 2, o.top ? 2 : -1, err);
    if (!rc)
        rc = check_dot(run->cli, err);
    if (!rc)
        rc = ctr_cli_out(run->cli, CTR_OUT_BINARY, &run->out, err);
    if (!rc)
        rc = o.top ? top_ads(run, err) : dot_pairs(run, err);
    return rc ? rc : ctr_cli_finish(run->cli, run->w, run->out, err);
}

static int run_tool(struct ctr_cli *cli, struct ctr_err *err)
{
    struct run run = { .cli = cli };
    int rc = o.dot ? dot(&run, err) : ctr_cli_args(cli, 1, -1, err);
    if (!rc && !o.dot)
        rc = ctr_cli_max_unknown(o.max_unknown, err);
    if (!rc && !o.dot && o.tower && o.uncertainty)
        rc = ctr_cli_usage(err, "--uncertainty is that of a score, and --tower writes none: leave one out");
    if (!rc && !o.dot)
        rc = ctr_cli_bad_rows(cli, o.bad_rows, err);
    if (!rc && !o.dot)
        rc = predict(&run, err);
    ctr_writer_free(run.w);
    ctr_out_free(run.out);
    if (run.rows.ops)
        ctr_batch_source_close(&run.rows);
    else
        ctr_reader_free(run.r);
    ctr_predictor_free(run.p);
    return rc;
}

const struct ctr_tool ctr_tool = {
    .name = "ctr-predict",
    .summary = "add scores from a model to a stream of features",
    .synopsis =
        "MODEL [FILE…]\n--tower user|ad MODEL [FILE…]\n--dot -k USER,AD USERS ADS [PAIRS…]\n--dot --top K USERS ADS",
    .opts = opts,
    .flags = CTR_TOOL_DEVICE | CTR_TOOL_READS | CTR_TOOL_WRITES | CTR_TOOL_MEMORY,
    .run = run_tool,
};
