/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-stats: profiles streams: counts, distinct values, quantiles, frequent values, and what a column tells of clicks.
 */
#include "common/cli/cli.h"
#include "tools/ctr-stats/profiles.h"
#include "tools/ctr-stats/show.h"

#include <stdlib.h>
#include <unistd.h>

static struct {
    const char *by, *profile, *format;
    int64_t window_ms;
    bool merge;
} o;

static const struct ctr_opt opts[] = {
    { "by", 'b', CTR_OPT_STR, "COLUMN", "a profile for each value of this column", &o.by, CTR_OPT_ONCE },
    { "window", 'w', CTR_OPT_DURATION, "DURATION", "a profile for each window of the time column, such as 1h",
      &o.window_ms, 0 },
    { "profile", 'p', CTR_OPT_STR, "FILE", "also write the profile, which --merge reads", &o.profile,
      CTR_OPT_PATH | CTR_OPT_ONCE },
    { "merge", 'm', CTR_OPT_FLAG, NULL, "the inputs are profiles: show that of all their rows", &o.merge,
      CTR_OPT_LOCAL },
    { "format", 'f', CTR_OPT_CHOICE, "table|stream", "write a table (default on a terminal) or a stream", &o.format,
      CTR_OPT_LOCAL },
    { 0 },
};

/* ---- input ---- */

static int find_columns(struct ctr_cli *cli, const struct ctr_schema *s, int *label, int *by, int *time,
                        struct ctr_err *err)
{
    *label = ctr_cli_role(cli, s, CTR_ROLE_LABEL, false, err);
    if (*label < -1)
        return *label;
    *time = o.window_ms ? ctr_cli_role(cli, s, CTR_ROLE_TIME, true, err) : -1;
    if (*time < -1)
        return *time;
    *by = o.by ? ctr_schema_need(s, o.by, err) : -1;
    if (*by < -1)
        return *by;
    if (o.by && ctr_type_list(s->f[*by].type))
        return ctr_fail(err, CTR_EUSAGE, "%s is a list: --by wants a column of single values (ctr-select --explode %s)",
                        o.by, o.by);
    return 0;
}

static int profile_rows(struct ctr_cli *cli, struct ctr_reader *r, struct ctr_pool *pool, struct ctr_profiles **p,
                        struct ctr_err *err)
{
    const struct ctr_batch *b;
    int label, by, time, rc = find_columns(cli, ctr_reader_schema(r), &label, &by, &time, err);
    if (!rc)
        rc = ctr_profiles_new(p, ctr_reader_schema(r), label, by, time, o.window_ms, pool, err);
    while (!rc && (rc = ctr_reader_next(r, &b, err)) > 0) {
        rc = ctr_profiles_batch(*p, b, err);
        ctr_cli_progress(cli, ctr_reader_rows(r), ctr_reader_total_rows(r));
    }
    if (rc < 0)
        ctr_err_file(err, ctr_reader_file(r));
    return rc;
}

/* Each input is a stream of its own, so that an error names it. */
static int merge_profiles(struct ctr_cli *cli, struct ctr_profiles **p, struct ctr_err *err)
{
    char *input = NULL;
    int rc = ctr_cli_inputs(cli, 0, err);
    for (int i = 0; !rc && i < CTR_MAX(1, cli->nargs); i++) {
        struct ctr_reader *r = NULL;
        input = cli->nargs ? cli->args[i] : NULL;
        rc = ctr_reader_open(&r, &input, input ? 1 : 0, NULL, err);
        if (!rc)
            rc = ctr_profile_file_read(p, r, err);
        if (rc)
            ctr_err_file(err, r ? ctr_reader_file(r) : input ? input : "stdin");
        ctr_reader_free(r);
    }
    return rc;
}

/* ---- output ---- */

static int write_profile(struct ctr_cli *cli, const struct ctr_profiles *p, struct ctr_out *out, struct ctr_err *err)
{
    const struct ctr_writer_opts wo = { .compression = CTR_ZSTD };
    struct ctr_schema s = { 0 };
    struct ctr_writer *w = NULL;
    int rc = ctr_profile_file_schema(p, &s, err);
    if (!rc) /* without options, so that a merged profile is that of the rows; what matters is in its metadata */
        rc = ctr_schema_provenance(&s, cli->tool->name, "", err);
    if (!rc)
        rc = ctr_writer_open(&w, out, &s, &wo, err);
    if (!rc)
        rc = ctr_profile_file_write(p, &s, w, err);
    if (!rc)
        rc = ctr_writer_finish(w, err);
    if (!rc)
        rc = ctr_out_commit(out, err);
    ctr_writer_free(w);
    ctr_schema_free(&s);
    return rc;
}

static int write_stream(struct ctr_cli *cli, const struct ctr_profiles *p, struct ctr_out *out, struct ctr_err *err)
{
    struct ctr_schema s = { 0 };
    struct ctr_batchbuf rows = { 0 };
    struct ctr_writer *w = NULL;
    int rc = ctr_show_schema(p, &s, err);
    if (!rc)
        rc = ctr_batchbuf_init(&rows, &s, err);
    if (!rc)
        rc = ctr_show_rows(p, &rows, err);
    if (!rc)
        rc = ctr_cli_writer(cli, out, &s, &w, err);
    if (!rc && ctr_batchbuf_rows(&rows))
        rc = ctr_writer_batch(w, ctr_batchbuf_view(&rows), err);
    if (!rc)
        rc = ctr_cli_finish(cli, w, out, err);
    ctr_writer_free(w);
    if (rows.schema)
        ctr_batchbuf_free(&rows);
    ctr_schema_free(&s);
    return rc;
}

static int write_table(struct ctr_cli *cli, const struct ctr_profiles *p, struct ctr_out *out, struct ctr_err *err)
{
    struct ctr_buf text = { 0 };
    int rc = ctr_show_table(p, &text, err);
    ctr_cli_progress_clear(cli);
    if (!rc && text.len)
        rc = ctr_out_write(out, text.data, text.len, err);
    if (!rc)
        rc = ctr_out_commit(out, err);
    ctr_buf_free(&text);
    return rc;
}

static bool wants_table(const struct ctr_cli *cli)
{
    return o.format ? !strcmp(o.format, "table") : ctr_names_stdout(cli->out) && isatty(STDOUT_FILENO);
}

static int write_all(struct ctr_cli *cli, struct ctr_profiles *p, struct ctr_err *err)
{
    const bool table = wants_table(cli);
    struct ctr_out *out = NULL, *side = NULL;
    ctr_profiles_sort(p);
    int rc = ctr_cli_out(cli, table ? 0 : CTR_OUT_BINARY, &out, err);
    if (!rc && o.profile)
        rc = ctr_cli_side_out(cli, o.profile, CTR_OUT_BINARY, &side, err);
    if (!rc && o.profile)
        rc = write_profile(cli, p, side, err);
    if (!rc)
        rc = table ? write_table(cli, p, out, err) : write_stream(cli, p, out, err);
    ctr_out_free(side);
    ctr_out_free(out);
    return rc;
}

static int stats(struct ctr_cli *cli, struct ctr_err *err)
{
    struct ctr_profiles *p = NULL;
    struct ctr_reader *r = NULL;
    struct ctr_pool *pool = NULL;
    int rc = 0;
    if (o.merge && (o.by || o.window_ms))
        return ctr_cli_usage(err, "--merge shows the slices that its profiles have: leave out --by and --window");
    if (ctr_cli_given(cli, "window") && o.window_ms <= 0)
        return ctr_cli_usage(err, "--window wants a duration of at least 1ms");
    if (o.merge) {
        rc = merge_profiles(cli, &p, err);
    } else {
        rc = ctr_cli_reader(cli, 0, NULL, &r, err);
        if (!rc)
            rc = ctr_pool_new(&pool, (int)cli->jobs, CTR_FLOAT_IEEE, err);
        if (!rc)
            rc = profile_rows(cli, r, pool, &p, err);
    }
    if (!rc)
        rc = write_all(cli, p, err);
    ctr_profiles_free(p);
    ctr_pool_free(pool);
    ctr_reader_free(r);
    return rc;
}

const struct ctr_tool ctr_tool = { "ctr-stats",
                                   "profile the columns of a stream: values, quantiles, what each tells of clicks",
                                   "[FILE…]\n--merge PROFILE…",
                                   NULL,
                                   opts,
                                   CTR_TOOL_READS | CTR_TOOL_WRITES | CTR_TOOL_ROLE(CTR_ROLE_LABEL) |
                                       CTR_TOOL_ROLE(CTR_ROLE_TIME),
                                   stats };
