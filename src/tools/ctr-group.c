/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-group: compute counts, sums, means, extremes and quantiles by key, in bounded memory. */
#include "common/cli/cli.h"
#include "common/rows/relation.h"

static struct {
    struct ctr_strs keys, add;
    bool sorted;
} o;

static const struct ctr_opt opts[] = {
    { "key", 'k', CTR_OPT_LIST, "COL,…", "columns to group by; the output is sorted by them", &o.keys, 0 },
    { "add", 0, CTR_OPT_LIST, "NAME=AGGREGATE",
      "add a column: count(), or count, sum, mean, min, max, first, last, distinct, mode of (COL), quantile(COL, P), "
      "top(COL, N)",
      &o.add, 0 },
    { "sorted", 0, CTR_OPT_FLAG, NULL,
      "the input is sorted by the keys: give each group as it ends, in constant memory", &o.sorted, CTR_OPT_LOCAL },
    { 0 },
};

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
                                       .sorted = o.sorted };
    struct ctr_reader *r = NULL;
    struct ctr_batch_source source = { 0 };
    struct ctr_group *g = NULL;
    struct ctr_out *out = NULL;
    int rc = ctr_cli_reader(cli, 0, NULL, &r, err);
    if (!rc)
        source = ctr_batch_source_stream(r);
    if (!rc)
        rc = ctr_group_source(&source, &go, &g, err);
    if (!rc)
        rc = ctr_cli_out(cli, CTR_OUT_BINARY, &out, err);
    if (!rc)
        rc = ctr_cli_write_all(cli, r, &source, out, err);
    if (!rc)
        report(cli, g);
    ctr_batch_source_close(&source);
    ctr_out_free(out);
    return rc;
}

const struct ctr_tool ctr_tool = { "ctr-group",
                                   "compute counts, sums, means, extremes and quantiles by key",
                                   "-k COL,… --add NAME=AGGREGATE(COL) … [FILE…]",
                                   NULL,
                                   opts,
                                   CTR_TOOL_READS | CTR_TOOL_WRITES | CTR_TOOL_MEMORY,
                                   group_rows };
