/* SPDX-License-Identifier: Apache-2.0
 *
 * bad_rows: --bad-rows of a tool. */
#include "common/cli/cli.h"

#include <stdlib.h>

static void note(void *ctx, const char *text)
{
    ctr_cli_note(ctx, "%s", text);
}

/* The rows before a bad one go out, without a trailer, so that readers of a live output see them. */
static void deliver(void *ctx)
{
    struct ctr_cli *cli = ctx;
    struct ctr_err second = { 0 };
    (void)!ctr_cli_flush(cli, &second);
}

int ctr_cli_bad_rows(struct ctr_cli *cli, const char *policy, struct ctr_err *err)
{
    struct ctr_bad_rows_opts o = { .program = cli->tool->name, .note = note, .failing = deliver, .ctx = cli };
    int rc = ctr_bad_policy_parse(&o.policy, policy, err);
    if (!rc && o.policy.file && ctr_names_stdout(o.policy.file) && ctr_names_stdout(cli->out))
        rc = ctr_cli_usage(err, "two outputs on one stdout: give one of them a file name");
    if (!rc && o.policy.file)
        rc = ctr_cli_written(cli, o.policy.file, err);
    return rc ? rc : ctr_bad_rows_new(&cli->bad, &o, err);
}

int ctr_cli_good_rows(struct ctr_cli *cli, struct ctr_batch_source *s, const struct ctr_rule *rule, int n,
                      struct ctr_err *err)
{
    const struct ctr_schema *schema = ctr_batch_source_schema(s);
    struct ctr_rule *some = calloc((size_t)n + 1, sizeof *some);
    int k = 0;
    if (!some)
        return ctr_fail_nomem(err, (size_t)n * sizeof *some);
    for (int i = 0; i < n; i++)
        if (rule[i].column >= 0) {
            some[k] = rule[i];
            some[k].name = rule[i].name ? rule[i].name : schema->f[rule[i].column].name;
            k++;
        }
    int rc = ctr_bad_rows_source(s, cli->bad, some, k, NULL, err);
    free(some);
    return rc;
}

bool ctr_cli_keeps_bad_rows(const struct ctr_cli *cli)
{
    return ctr_bad_rows_policy(cli->bad)->kind == CTR_BAD_QUARANTINE;
}

int ctr_cli_bad_rows_finish(struct ctr_cli *cli, struct ctr_err *err)
{
    return cli->bad ? ctr_bad_rows_finish(cli->bad, err) : 0;
}

int ctr_cli_all_rows(const struct ctr_cli *cli, const char *why, struct ctr_err *err)
{
    return ctr_bad_rows_policy(cli->bad)->kind == CTR_BAD_FAIL ? 0 : ctr_cli_usage(err, "--bad-rows: %s", why);
}
