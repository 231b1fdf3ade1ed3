/* SPDX-License-Identifier: Apache-2.0
 *
 * evalestimate_run: ctr-eval --at and --propensity: options, columns, the two evaluations, and what they print. */
#include "tools/ctr-eval/evalestimate.h"

static int check(const struct ctr_cli *cli, const struct ctr_estimate_opts *o, struct ctr_err *err)
{
    static const char *const others[] = { "by",      "slices",    "window",      "lateness", "control", "bootstrap",
                                          "metrics", "null-user", "reliability", "bins",     "ascii",   "bad-rows" };

    if (o->at && o->propensity)
        return ctr_cli_usage(err, "--at evaluates rankings and --propensity policies: leave one out");
    for (size_t i = 0; i < CTR_COUNT(others); i++)
        if (ctr_cli_given(cli, others[i]))
            return ctr_cli_usage(err, "--%s does nothing with --%s: leave one out", others[i],
                                 o->at ? "at" : "propensity");
    if (o->propensity && !o->target)
        return ctr_cli_usage(err, "--propensity wants --target EXPR, the other policy's chance of what was shown");
    for (int i = 0; i < CTR_NROLES; i++)
        if (cli->role[i] && (i == CTR_ROLE_USER || i == CTR_ROLE_TIME || (i == CTR_ROLE_WEIGHT && o->at) ||
                             ((i == CTR_ROLE_QUERY || i == CTR_ROLE_ID) && !o->at)))
            return ctr_cli_usage(err, "--%s does nothing with --%s", ctr_roles[i], o->at ? "at" : "propensity");
    return 0;
}

/* "10,100" */
static int read_at(const char *list, int64_t *at, int *n, struct ctr_err *err)
{
    struct ctr_strs parts = { 0 };
    int rc = ctr_strs_split(&parts, list, ',', err);

    for (*n = 0; !rc && *n < parts.n && *n <= CTR_MOST_AT; ++*n)
        if (*n == CTR_MOST_AT || !ctr_parse_i64(parts.s[*n], strlen(parts.s[*n]), &at[*n]) || at[*n] < 1)
            rc = ctr_cli_usage(err, "--at wants numbers of rows, as in 10,100 (at most %d of them): '%s'", CTR_MOST_AT,
                               parts.s[*n]);
    ctr_strs_free(&parts);
    return rc;
}

static int estimate_ranking(const struct ctr_cli *cli, const struct ctr_estimate_opts *o, struct ctr_batch_source *s,
                            struct ctr_estimate *e, int *n, struct ctr_err *err)
{
    const struct ctr_schema *schema = ctr_batch_source_schema(s);
    int64_t at[CTR_MOST_AT], without = 0;
    struct ctr_ranking_opts ro = { .at = at,
                                   .reference = o->reference,
                                   .reference_top = o->reference_top,
                                   .memory_bytes = cli->memory_bytes,
                                   .threads = (int)cli->jobs };
    int rc = read_at(o->at, at, &ro.n, err);

    if (!rc && !(rc = ctr_cli_role(cli, schema, CTR_ROLE_QUERY, true, &ro.query, err)) &&
        !(rc = ctr_cli_role(cli, schema, CTR_ROLE_SCORE, true, &ro.score, err)) &&
        !(rc = ctr_cli_role(cli, schema, CTR_ROLE_ID, false, &ro.id, err)))
        rc = ctr_cli_role(cli, schema, CTR_ROLE_LABEL, !o->reference, &ro.label, err);
    if (!rc)
        rc = ctr_ranking_evaluate(s, &ro, e, n, &without, err);
    if (!rc && without)
        ctr_cli_note(cli, "%lld queries have no positive label: ndcg leaves them out", (long long)without);
    return rc;
}

static int estimate_policy(const struct ctr_cli *cli, const struct ctr_estimate_opts *o, struct ctr_batch_source *s,
                           struct ctr_estimate *e, int *n, struct ctr_err *err)
{
    const struct ctr_schema *schema = ctr_batch_source_schema(s);
    struct ctr_policy_opts po = {
        .score = -1, .propensity = o->propensity, .target = o->target, .value = o->value, .direct = o->direct
    };
    int rc = ctr_cli_role(cli, schema, CTR_ROLE_LABEL, true, &po.label, err);

    if (!rc)
        rc = ctr_cli_role(cli, schema, CTR_ROLE_WEIGHT, false, &po.weight, err);
    if (!rc && o->direct)
        rc = ctr_cli_role(cli, schema, CTR_ROLE_SCORE, true, &po.score, err);
    if (!rc)
        rc = ctr_policy_evaluate(s, &po, e, n, err);
    if (!rc && e[*n - 1].value < (double)e[*n - 1].rows / 100) /* effective_rows */
        ctr_cli_warn(cli, "few rows decide: weights are so uneven that %lld rows count as %.1f",
                     (long long)e[*n - 1].rows, e[*n - 1].value);
    return rc;
}

static int show(struct ctr_cli *cli, const struct ctr_estimate *e, int n, const char *rows, bool stream,
                struct ctr_err *err)
{
    struct ctr_schema schema = { 0 };
    struct ctr_batchbuf b = { 0 };
    struct ctr_buf text = { 0 };
    struct ctr_writer *w = NULL;
    struct ctr_out *out = NULL;
    int rc = ctr_cli_out(cli, stream ? CTR_OUT_BINARY : 0, &out, err);

    if (!rc && !stream && !(rc = ctr_estimates_table(e, n, rows, &text, err)) &&
        !(rc = ctr_out_write(out, text.data, text.len, err)))
        rc = ctr_out_commit(out, err);
    if (!rc && stream && !(rc = ctr_estimates_schema(rows, &schema, err)) &&
        !(rc = ctr_batchbuf_init(&b, &schema, err)) && !(rc = ctr_estimates_rows(e, n, &b, err)) &&
        !(rc = ctr_cli_writer(cli, out, &schema, &w, err)) && !(rc = ctr_writer_batch(w, ctr_batchbuf_view(&b), err)))
        rc = ctr_cli_finish(cli, w, out, err);
    ctr_writer_free(w);
    ctr_batchbuf_free(&b);
    ctr_schema_free(&schema);
    ctr_buf_free(&text);
    ctr_out_free(out);
    return rc;
}

int ctr_estimate_run(struct ctr_cli *cli, const struct ctr_estimate_opts *o, bool stream, struct ctr_err *err)
{
    const struct ctr_reader_opts ro = { .foreign = true };
    struct ctr_estimate e[CTR_POLICY_ESTIMATES + 2 * CTR_MOST_AT];
    struct ctr_batch_source s = { 0 };
    struct ctr_reader *r = NULL;
    int n = 0, rc = check(cli, o, err);

    if (!rc)
        rc = ctr_cli_reader(cli, 0, o->at ? NULL : &ro, &r, err);
    if (!rc) {
        s = ctr_batch_source_stream(r);
        rc = (o->at ? estimate_ranking : estimate_policy)(cli, o, &s, e, &n, err);
        if (rc)
            ctr_err_file(err, ctr_reader_file(r));
    }
    if (!rc)
        rc = show(cli, e, n, o->at ? "queries" : "rows", stream, err);
    ctr_batch_source_close(&s);
    return rc;
}
