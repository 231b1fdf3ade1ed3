/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-sample: subsamples training data by query, with weights that preserve the expected loss. */
#include "common/cli/cli.h"
#include "tools/ctr-sample/subsample.h"

static struct {
    double share;
    const char *bad_rows;
} o = { .share = -1 };

static const struct ctr_opt opts[] = {
    { "share", 's', CTR_OPT_REAL, "R", "share of the queries without a click to keep, above 0 and at most 1", &o.share,
      0 },
    CTR_OPT_BAD_ROWS(o.bad_rows, CTR_OPT_LOCAL, NULL),
    { 0 },
};

static int settle(struct ctr_cli *cli, const struct ctr_schema *s, struct ctr_subsample_opts *so, struct ctr_err *err)
{
    *so = (struct ctr_subsample_opts){ .share = o.share, .seed = cli->seed, .memory_bytes = cli->memory_bytes };
    so->query = ctr_cli_role(cli, s, CTR_ROLE_QUERY, true, err);
    if (so->query < 0)
        return so->query;
    so->label = ctr_cli_role(cli, s, CTR_ROLE_LABEL, true, err);
    if (so->label < 0)
        return so->label;
    so->weight = ctr_cli_role(cli, s, CTR_ROLE_WEIGHT, false, err);
    return so->weight < -1 ? so->weight : 0;
}

static int leave_bad_rows_out(struct ctr_cli *cli, struct ctr_batch_source *rows, const struct ctr_subsample_opts *so,
                              struct ctr_err *err)
{
    const struct ctr_rule rule[] = { { .column = so->label, .role = CTR_ROLE_LABEL },
                                     { .column = so->weight, .role = CTR_ROLE_WEIGHT },
                                     { .column = so->query, .role = CTR_ROLE_QUERY } };
    return ctr_cli_good_rows(cli, rows, rule, CTR_COUNT(rule), err);
}

static int sample(struct ctr_cli *cli, struct ctr_reader *r, const struct ctr_batch_source *rows,
                  struct ctr_subsample *s, struct ctr_out *out, struct ctr_err *err)
{
    const struct ctr_batch *b;
    struct ctr_subsample_stats st;
    struct ctr_writer *w = NULL;
    int rc;

    while ((rc = ctr_batch_source_next(rows, &b, err)) > 0) {
        if ((rc = ctr_subsample_batch(s, b, err))) {
            ctr_err_file(err, ctr_reader_file(r));
            return rc;
        }
        ctr_cli_progress(cli, ctr_reader_rows(r), ctr_reader_total_rows(r));
    }
    if (!rc)
        rc = ctr_subsample_finish(s, err);
    if (!rc)
        rc = ctr_cli_writer(cli, out, ctr_subsample_schema(s), &w, err);
    while (!rc && (rc = ctr_subsample_next(s, &b, err)) > 0)
        rc = ctr_writer_batch(w, b, err);
    if (!rc)
        rc = ctr_cli_finish(cli, w, out, err);
    ctr_writer_free(w);
    ctr_subsample_get_stats(s, &st);
    if (!rc)
        ctr_cli_note(cli, "%lld of %lld rows kept: %lld of queries with a click (%lld), %lld of others, which weigh %g",
                     (long long)st.kept, (long long)st.rows, (long long)st.clicked_rows, (long long)st.clicked_queries,
                     (long long)(st.kept - st.clicked_rows), 1 / o.share);
    return rc;
}

static int sample_rows(struct ctr_cli *cli, struct ctr_err *err)
{
    struct ctr_subsample_opts so;
    struct ctr_reader *r = NULL;
    struct ctr_batch_source rows = { 0 };
    struct ctr_subsample *s = NULL;
    struct ctr_out *out = NULL;
    int rc;

    if (!(o.share > 0 && o.share <= 1))
        return ctr_cli_usage(err,
                             "--share R, above 0 and up to 1, says how many of the queries without a click to keep");
    rc = ctr_cli_bad_rows(cli, o.bad_rows, err);
    if (!rc && !(rc = ctr_cli_reader(cli, 0, NULL, &r, err)))
        rows = ctr_batch_source_stream(r);
    if (!rc)
        rc = settle(cli, ctr_reader_schema(r), &so, err);
    if (!rc)
        rc = leave_bad_rows_out(cli, &rows, &so, err);
    if (!rc)
        rc = ctr_cli_out(cli, CTR_OUT_BINARY, &out, err);
    if (!rc)
        rc = ctr_subsample_new(&s, ctr_reader_schema(r), &so, err);
    if (!rc)
        rc = sample(cli, r, &rows, s, out, err);
    ctr_subsample_free(s);
    ctr_batch_source_close(&rows);
    ctr_out_free(out);
    return rc;
}

const struct ctr_tool ctr_tool = { "ctr-sample",
                                   "subsample training data by query, with weights",
                                   "--share R [FILE…]",
                                   NULL,
                                   opts,
                                   CTR_TOOL_ROLE(CTR_ROLE_LABEL) | CTR_TOOL_ROLE(CTR_ROLE_WEIGHT) |
                                       CTR_TOOL_ROLE(CTR_ROLE_QUERY) | CTR_TOOL_READS | CTR_TOOL_WRITES |
                                       CTR_TOOL_MEMORY | CTR_TOOL_SEED,
                                   sample_rows };
