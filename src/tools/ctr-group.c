/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-group: compute counts, sums, means, extremes and quantiles by key, in bounded memory. */
#include "common/cli/cli.h"
#include "common/rows/relation.h"

static struct {
    struct ctr_strs keys, add;
    bool sorted, each_row;
    const char *as_of, *state;
} o;

static const struct ctr_opt opts[] = {
    { "key", 'k', CTR_OPT_LIST, "COL,…", "columns to group by; the output is sorted by them", &o.keys, 0 },
    { "add", 0, CTR_OPT_LIST, "NAME=AGGREGATE",
      "add a column: count(), or count, sum, mean, min, max, first, last, distinct, mode of (COL), quantile(COL, P), "
      "top(COL, N)",
      &o.add, 0 },
    { "sorted", 0, CTR_OPT_FLAG, NULL,
      "the input is sorted by the keys: give each group as it ends, in constant memory", &o.sorted, CTR_OPT_LOCAL },
    { "each-row", 0, CTR_OPT_FLAG, NULL, "instead of groups, write each row of the input with the columns of its group",
      &o.each_row, 0 },
    { "as-of", 0, CTR_OPT_STR, "TIME",
      "of the rows of the group, only those with an earlier TIME; the input is in its order", &o.as_of, CTR_OPT_ONCE,
      .needs = "each-row" },
    { "state", 0, CTR_OPT_STR, "FILE", "go on from the groups in FILE, if there is one, and leave those of now there",
      &o.state, CTR_OPT_PATH | CTR_OPT_ONCE },
    { 0 },
};

/* ---- states between runs ---- */

static struct state {
    const struct ctr_group *g;
    struct ctr_out *out;
    struct ctr_writer *w;
    int section; /* being written */
} state;

/* End the sections before this one, and begin it. */
static int to_section(struct state *s, int section, struct ctr_err *err)
{
    int rc = 0;
    for (; !rc && s->section < section; s->section++) {
        rc = ctr_writer_finish(s->w, err);
        ctr_writer_free(s->w);
        s->w = NULL;
        if (!rc)
            rc = ctr_writer_open(&s->w, s->out, ctr_group_state_schema(s->g, s->section + 1), NULL, err);
    }
    return rc;
}

/* Rows of the state; NULL: these were all. Its file is renamed behind the output, so that a run that was killed can be
 * run again. */
static int save(void *ctx, int section, const struct ctr_batch *b, struct ctr_err *err)
{
    struct state *s = ctx;
    int rc = to_section(s, section, err);
    if (!rc)
        rc = b ? ctr_writer_batch(s->w, b, err) : ctr_writer_finish(s->w, err);
    return rc || b ? rc : ctr_out_flush(s->out, err);
}

static int read_state(const struct ctr_cli *cli, struct ctr_group *g, struct ctr_err *err)
{
    char *path = (char *)(uintptr_t)o.state;
    struct ctr_reader *r = NULL;
    const struct ctr_batch *b;
    if (!ctr_cli_goes_on(cli, o.state))
        return 0;
    const struct ctr_reader_opts ro = { .sections = true };
    int64_t groups = 0;
    int section = 0, more = 1, rc = ctr_reader_open(&r, &path, 1, &ro, err);
    for (; !rc && more > 0; section++) {
        rc = ctr_group_state_check(g, section, ctr_reader_schema(r), err);
        while (!rc && (rc = ctr_reader_next(r, &b, err)) > 0) {
            groups += section ? 0 : b->rows;
            rc = ctr_group_restore(g, section, b, err);
        }
        if (!rc)
            rc = more = ctr_reader_section(r, err);
        rc = CTR_MIN(rc, 0);
    }
    if (!rc && section != ctr_group_state_sections(g))
        rc = ctr_fail(err, CTR_EDATA, "sections of values are missing");
    if (rc)
        ctr_err_file(err, o.state);
    if (!rc)
        ctr_cli_note(cli, "%lld groups go on from %s", (long long)groups, o.state);
    ctr_reader_free(r);
    return rc;
}

static int open_state(struct ctr_cli *cli, struct ctr_group *g, struct ctr_err *err)
{
    state.g = g;
    int rc = read_state(cli, g, err);
    if (!rc)
        rc = ctr_cli_side_out(cli, o.state, CTR_OUT_BINARY, &state.out, err);
    return rc ? rc : ctr_writer_open(&state.w, state.out, ctr_group_state_schema(g, 0), NULL, err);
}

static int check_options(struct ctr_err *err)
{
    if (o.sorted && o.each_row)
        return ctr_cli_usage(err, "--sorted and --each-row exclude each other");
    if (o.state && (o.sorted || o.each_row))
        return ctr_cli_usage(err, "--state goes on with groups in memory: not with --sorted or --each-row");
    return o.state && ctr_names_stdout(o.state) ? ctr_cli_usage(err, "--state is a file, which the next run reads") : 0;
}

static void report(const struct ctr_cli *cli, const struct ctr_group *g)
{
    struct ctr_group_stats st;
    ctr_group_get_stats(g, &st);
    ctr_cli_debug(cli, "%lld groups of %lld rows", (long long)st.groups, (long long)st.rows);
    if (st.runs)
        ctr_cli_debug(cli, "%lld runs, %s spilled", (long long)st.runs, ctr_size_text((uint64_t)st.spilled_bytes).s);
}

static int group_rows(struct ctr_cli *cli, struct ctr_err *err)
{
    const struct ctr_group_opts go = { .keys = &o.keys,
                                       .add = &o.add,
                                       .memory_bytes = cli->memory_bytes,
                                       .batch_rows = cli->batch_rows,
                                       .threads = (int)cli->jobs,
                                       .sorted = o.sorted,
                                       .save = o.state ? save : NULL,
                                       .save_ctx = &state };
    struct ctr_reader *r = NULL;
    struct ctr_batch_source source = { 0 };
    struct ctr_group *g = NULL;
    struct ctr_out *out = NULL;
    int rc = check_options(err);
    if (!rc && !(rc = ctr_cli_reader(cli, 0, NULL, &r, err)))
        source = ctr_batch_source_stream(r);
    if (!rc)
        rc = o.each_row ? ctr_group_each_source(&source, &go, o.as_of, err) : ctr_group_source(&source, &go, &g, err);
    if (!rc)
        rc = ctr_cli_out(cli, CTR_OUT_BINARY, &out, err);
    if (!rc && o.state)
        rc = open_state(cli, g, err);
    if (!rc)
        rc = ctr_cli_write_all(cli, r, &source, out, err);
    if (!rc && o.state)
        rc = ctr_out_commit(state.out, err);
    if (!rc && g)
        report(cli, g);
    ctr_batch_source_close(&source);
    ctr_writer_free(state.w);
    ctr_out_free(state.out);
    ctr_out_free(out);
    return rc;
}

const struct ctr_tool ctr_tool = { "ctr-group",
                                   "compute counts, sums, means, extremes and quantiles by key",
                                   "-k COL,… --add NAME=AGGREGATE(COL) … [--each-row] [FILE…]",
                                   NULL,
                                   opts,
                                   CTR_TOOL_READS | CTR_TOOL_WRITES | CTR_TOOL_MEMORY,
                                   group_rows };
