/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-synth: writes synthetic logs as text, all files or none. */
#include "common/cli/cli.h"
#include "tools/ctr-synth/synth.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

static struct ctr_synth_opts o = { .rows = 100000, .days = 7, .click_rate = .05 };
static const char *start = "2026-01-05";

static const struct ctr_opt opts[] = {
    { "rows", 'n', CTR_OPT_INT, "N", "number of impressions (default 100000)", &o.rows, CTR_OPT_SOME },
    { "users", 0, CTR_OPT_INT, "N", "number of users (default: rows / 20)", &o.users, CTR_OPT_SOME },
    { "ads", 0, CTR_OPT_INT, "N", "number of ads (default: rows / 100, at most 20000)", &o.ads, CTR_OPT_SOME },
    { "campaigns", 0, CTR_OPT_INT, "N", "number of campaigns (default: ads / 10)", &o.campaigns, CTR_OPT_SOME },
    { "days", 0, CTR_OPT_INT, "N", "number of days that the log covers (default 7)", &o.days, CTR_OPT_SOME },
    { "rate", 0, CTR_OPT_REAL, "P", "mean click probability (default 0.05)", &o.click_rate, 0 },
    { "start", 0, CTR_OPT_STR, "TIME", "time of the first event (default 2026-01-05)", &start, 0 },
    { "photos", 0, CTR_OPT_FLAG, NULL,
      "also write photographs of the ads, which determine a part of the click probability", &o.photos, 0 },
    { 0 },
};

static void show_progress(void *ctx, int64_t rows)
{
    ctr_cli_progress(ctx, rows, o.rows);
}

static int settle(struct ctr_synth_opts *so, const struct ctr_cli *cli, struct ctr_err *err)
{
    *so = o;
    so->seed = cli->seed;
    so->users = o.users ? o.users : CTR_MAX(o.rows / 20, 10);
    so->ads = o.ads ? o.ads : CTR_MIN(CTR_MAX(o.rows / 100, 10), 20000);
    so->campaigns = o.campaigns ? o.campaigns : CTR_MAX(so->ads / 10, 1);
    if (o.days > 36500 || o.rows > INT64_C(1) << 40 || so->users > INT64_C(1) << 40 || so->ads > INT64_C(1) << 40 ||
        so->campaigns > INT64_C(1) << 40)
        return ctr_cli_usage(err, "--rows, --users, --ads and --campaigns want 1 to 2^40, --days 1 to 36500");
    if (!(o.click_rate > 0 && o.click_rate < 1))
        return ctr_cli_usage(err, "--rate wants a probability between 0 and 1");
    if (!ctr_time_parse(NULL, start, strlen(start), &so->start_ms))
        return ctr_cli_usage(err, "--start wants a time such as 2026-01-05, not '%s'", start);
    return 0;
}

static int write_logs(struct ctr_cli *cli, struct ctr_err *err)
{
    struct ctr_out *out[CTR_SYNTH_NFILES] = { 0 };
    struct ctr_synth_opts so;
    struct ctr_synth *s = NULL;
    char path[PATH_MAX];
    int rc = ctr_cli_args(cli, 0, 0, err), files = 0;

    if (!rc && !cli->out)
        rc = ctr_cli_usage(err, "-o DIR says where the logs go");
    if (!rc)
        rc = settle(&so, cli, err);
    if (!rc)
        files = ctr_synth_nfiles(&so);
    if (!rc && mkdir(cli->out, 0777) && errno != EEXIST)
        rc = ctr_fail_sys(err, "%s: the folder cannot be made", cli->out);
    for (int i = 0; !rc && i < files; i++) {
        if (snprintf(path, sizeof path, "%s/%s", cli->out, ctr_synth_files[i]) >= (int)sizeof path)
            rc = ctr_cli_usage(err, "the name of the folder is too long");
        else
            rc = ctr_out_open(&out[i], path, 0, err);
    }
    if (!rc)
        rc = ctr_synth_new(&s, &so, err);
    if (!rc)
        rc = ctr_synth_write(s, out, show_progress, cli, err);
    if (!rc)
        rc = ctr_out_commit_all(out, files, err);
    if (!rc)
        ctr_cli_note(cli, "%lld impressions, %lld clicks, %lld users, %lld ads, %lld campaigns in %s",
                     (long long)so.rows, (long long)ctr_synth_clicks(s), (long long)so.users, (long long)so.ads,
                     (long long)so.campaigns, cli->out);
    for (int i = 0; i < files; i++)
        ctr_out_free(out[i]);
    ctr_synth_free(s);
    return rc;
}

const struct ctr_tool ctr_tool = {
    "ctr-synth", "write synthetic logs of users, ads and clicks, with true probabilities",
    "-o DIR",    NULL,
    opts,        CTR_TOOL_SEED,
    write_logs
};
