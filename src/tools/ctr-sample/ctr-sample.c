/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-sample: subsamples training data by query, with weights that preserve the expected loss; adds negatives; or
 * moves the values of columns to other rows. */
#include "common/cli/cli.h"
#include "tools/ctr-sample/negatives.h"
#include "tools/ctr-sample/permute.h"
#include "tools/ctr-sample/subsample.h"

#include <stdlib.h>

static struct {
    double share, popular;
    int64_t negatives;
    const char *bad_rows, *items, *by, *before, *permute;
} o = { .share = -1 };

static const struct ctr_opt opts[] = {
    { "share", 's', CTR_OPT_REAL, "R", "share of the queries without a click to keep, above 0 and at most 1", &o.share,
      0 },
    { "negatives", 0, CTR_OPT_INT, "N",
      "instead, add N rows with items that the user did not take to each row with one", &o.negatives, CTR_OPT_SOME },
    { "items", 0, CTR_OPT_STR, "ITEMS", "stream of all items; its first column names the item", &o.items,
      CTR_OPT_PATH | CTR_OPT_ONCE, .needs = "negatives" },
    { "by", 0, CTR_OPT_STR, "COL", "column of the user (default: that with the role user)", &o.by, CTR_OPT_ONCE,
      .needs = "negatives" },
    { "popular", 0, CTR_OPT_REAL, "POWER", "draw an item with weight (1 + times taken)^POWER, 0 to 1 (default 0)",
      &o.popular, 0, .needs = "negatives" },
    { "before", 0, CTR_OPT_STR, "TIME[=TIME2]",
      "draw by what was known at TIME: items of an earlier TIME2, and what was taken so far", &o.before, CTR_OPT_ONCE,
      .needs = "negatives" },
    { "permute", 0, CTR_OPT_STR, "COL,…", "instead, shuffle the values of these columns among the rows, by --seed",
      &o.permute, CTR_OPT_ONCE },
    CTR_OPT_BAD_ROWS(o.bad_rows, CTR_OPT_LOCAL, NULL),
    { 0 },
};

static int settle(struct ctr_cli *cli, const struct ctr_schema *s, struct ctr_subsample_opts *so, struct ctr_err *err)
{
    *so = (struct ctr_subsample_opts){ .share = o.share, .seed = cli->seed, .memory_bytes = cli->memory_bytes };
    int rc = ctr_cli_role(cli, s, CTR_ROLE_QUERY, true, &so->query, err);
    if (!rc)
        rc = ctr_cli_role(cli, s, CTR_ROLE_LABEL, true, &so->label, err);
    return rc ? rc : ctr_cli_role(cli, s, CTR_ROLE_WEIGHT, false, &so->weight, err);
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

/* ---- negatives ---- */

static int open_items(struct ctr_cli *cli, struct ctr_reader **r, struct ctr_err *err)
{
    bool main_stdin = !cli->nargs;
    for (int i = 0; i < cli->nargs; i++)
        main_stdin |= !strcmp(cli->args[i], "-");
    if (!strcmp(o.items, "-") && main_stdin)
        return ctr_cli_usage(err, "--items and the main stream cannot both be stdin");
    const int rc = ctr_cli_read(cli, o.items, err);
    return rc ? rc : ctr_cli_side_reader(cli, o.items, r, err);
}

/* TIME[=TIME2] */
static int find_times(const struct ctr_schema *s, struct ctr_negatives_opts *no, char **time, struct ctr_err *err)
{
    int rc = o.before ? ctr_strdup(time, o.before, err) : 0;
    no->time = -1;
    if (rc || !o.before)
        return rc;
    char *eq = strchr(*time, '=');
    if (eq) {
        *eq = 0;
        no->known = eq + 1;
    }
    no->time = ctr_schema_need(s, *time, err);
    return CTR_MIN(no->time, 0);
}

static int open_negatives(struct ctr_cli *cli, const struct ctr_schema *s, const struct ctr_batch_source *items,
                          struct ctr_negatives **n, struct ctr_negatives_opts *no, struct ctr_err *err)
{
    char *time = NULL;
    *no = (struct ctr_negatives_opts){
        .n = o.negatives, .popular = o.popular, .seed = cli->seed, .memory_bytes = cli->memory_bytes
    };
    int rc = find_times(s, no, &time, err);
    no->user = o.by ? ctr_schema_need(s, o.by, err) : ctr_schema_role(s, CTR_ROLE_USER);
    if (!rc && o.by && no->user < 0)
        rc = no->user;
    if (!rc && no->user < 0)
        rc = ctr_cli_usage(err, "--by COL says which column is the user: none has the role user");
    if (!rc && ctr_type_list(s->f[no->user].type))
        rc = ctr_cli_usage(err, "%s is a list, and a list is no user", s->f[no->user].name);
    if (!rc)
        rc = ctr_cli_role(cli, s, CTR_ROLE_LABEL, false, &no->label, err);
    if (!rc)
        rc = ctr_negatives_new(n, s, items, strcmp(o.items, "-") ? o.items : "stdin", no, err);
    free(time);
    return rc;
}

static void report(const struct ctr_cli *cli, const struct ctr_negatives *n)
{
    struct ctr_negatives_stats st;
    ctr_negatives_get_stats(n, &st);
    ctr_cli_note(cli, "%lld of %lld rows took an item, and got %lld negatives of %lld items", (long long)st.taken,
                 (long long)st.rows, (long long)st.drawn, (long long)st.items);
    if (st.fewer)
        ctr_cli_note(cli, "%lld of them got fewer than %lld: there are no more items that the user did not take%s",
                     (long long)st.fewer, (long long)o.negatives, o.before ? " and that were known" : "");
    if (st.unknown)
        ctr_cli_note(cli, "%lld rows took an item that %s does not have", (long long)st.unknown, o.items);
}

static int check_negatives(struct ctr_err *err)
{
    if (o.share >= 0)
        return ctr_cli_usage(err, "--share and --negatives exclude each other: one after the other does both");
    if (!o.items)
        return ctr_cli_usage(err, "--items ITEMS says what negatives are drawn from");
    if (o.negatives > 1000)
        return ctr_cli_usage(err, "--negatives %lld: at most 1000", (long long)o.negatives);
    if (!(o.popular >= 0 && o.popular <= 1))
        return ctr_cli_usage(err, "--popular POWER is a number from 0, all items alike, to 1");
    return 0;
}

static int add_negatives(struct ctr_cli *cli, struct ctr_err *err)
{
    struct ctr_negatives_opts no = { .time = -1 };
    struct ctr_reader *r = NULL, *items = NULL;
    struct ctr_batch_source rows = { 0 }, from = { 0 };
    struct ctr_negatives *n = NULL;
    struct ctr_out *out = NULL;
    int rc = check_negatives(err);
    if (!rc)
        rc = ctr_cli_bad_rows(cli, o.bad_rows, err);
    if (!rc && !(rc = open_items(cli, &items, err)))
        from = ctr_batch_source_stream(items);
    if (!rc && !(rc = ctr_cli_reader(cli, 0, NULL, &r, err)))
        rows = ctr_batch_source_stream(r);
    if (!rc)
        rc = ctr_cli_out(cli, CTR_OUT_BINARY, &out, err);
    if (!rc)
        rc = open_negatives(cli, ctr_reader_schema(r), &from, &n, &no, err);
    if (!rc) {
        const struct ctr_rule rule[] = { { .column = no.label, .role = CTR_ROLE_LABEL },
                                         { .column = no.user, .role = CTR_ROLE_USER },
                                         { .column = no.time, .role = CTR_ROLE_TIME } };
        rc = ctr_cli_good_rows(cli, &rows, rule, CTR_COUNT(rule), err);
    }
    if (!rc && (rc = ctr_negatives_source(&rows, n, err)))
        ctr_negatives_free(n);
    if (!rc)
        rc = ctr_cli_write_all(cli, r, &rows, out, err);
    if (!rc)
        report(cli, n);
    ctr_batch_source_close(&rows);
    ctr_batch_source_close(&from);
    ctr_out_free(out);
    return rc;
}

/* ---- shuffled columns ---- */

static int permute(struct ctr_cli *cli, struct ctr_err *err)
{
    const struct ctr_permute_opts po = { .columns = o.permute,
                                         .seed = cli->seed,
                                         .memory_bytes = cli->memory_bytes,
                                         .batch_rows = cli->batch_rows,
                                         .threads = (int)CTR_MIN(cli->jobs, (int64_t)1024) };
    struct ctr_reader *r = NULL;
    struct ctr_batch_source rows = { 0 }, moved = { 0 };
    struct ctr_permute *p = NULL;
    struct ctr_out *out = NULL;
    int rc = 0;
    if (o.share >= 0 || o.negatives || o.bad_rows)
        return ctr_cli_usage(
            err, "--permute goes with none of --share, --negatives and --bad-rows: one after the other does both");
    if (!(rc = ctr_cli_reader(cli, 0, NULL, &r, err)))
        rows = ctr_batch_source_stream(r);
    if (!rc)
        rc = ctr_cli_out(cli, CTR_OUT_BINARY, &out, err);
    if (!rc)
        rc = ctr_permute_source(&p, &moved, &rows, &po, err);
    if (!rc)
        rc = ctr_cli_write_all(cli, r, &moved, out, err);
    ctr_batch_source_close(&moved);
    ctr_permute_free(p);
    ctr_batch_source_close(&rows);
    ctr_out_free(out);
    return rc;
}

/* ---- the tool ---- */

static int sample_rows(struct ctr_cli *cli, struct ctr_err *err)
{
    struct ctr_subsample_opts so;
    struct ctr_reader *r = NULL;
    struct ctr_batch_source rows = { 0 };
    struct ctr_subsample *s = NULL;
    struct ctr_out *out = NULL;

    if (o.permute)
        return permute(cli, err);
    if (o.negatives)
        return add_negatives(cli, err);
    if (!(o.share > 0 && o.share <= 1))
        return ctr_cli_usage(err,
                             "--share R, above 0 and up to 1, says how many of the queries without a click to keep; "
                             "--negatives N adds rows, and --permute COL shuffles a column, instead");
    int rc = ctr_cli_bad_rows(cli, o.bad_rows, err);
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

const struct ctr_tool ctr_tool = {
    "ctr-sample",
    "subsample training data by query, with weights; add negatives; shuffle columns",
    "--share R [FILE…]\n--negatives N --items ITEMS [--by COL] [FILE…]\n--permute COL,… [FILE…]",
    NULL,
    opts,
    CTR_TOOL_ROLE(CTR_ROLE_LABEL) | CTR_TOOL_ROLE(CTR_ROLE_WEIGHT) | CTR_TOOL_ROLE(CTR_ROLE_QUERY) | CTR_TOOL_READS |
        CTR_TOOL_WRITES | CTR_TOOL_MEMORY | CTR_TOOL_SEED,
    sample_rows
};
