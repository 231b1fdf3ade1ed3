/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-sort: sorts a stream by keys, shuffles it, or keeps the first row of each key; in bounded memory. */
#include "common/cli/cli.h"
#include "common/rows/relation.h"

static struct {
    struct ctr_strs keys;
    bool shuffle, unique;
} o;

static const struct ctr_opt opts[] = {
    { "key", 'k', CTR_OPT_LIST, "COL[:desc],…", "columns to sort by, the most significant first", &o.keys, 0 },
    { "unique", 'u', CTR_OPT_FLAG, NULL, "keep only the first of the rows with equal keys", &o.unique, 0 },
    { "shuffle", 0, CTR_OPT_FLAG, NULL, "put the rows into random order, by --seed", &o.shuffle, 0 },
    { 0 },
};

static int read_all(struct ctr_cli *cli, struct ctr_reader *r, struct ctr_sort *s, struct ctr_err *err)
{
    const struct ctr_batch *b;
    int rc;

    while ((rc = ctr_reader_next(r, &b, err)) > 0) {
        if ((rc = ctr_sort_batch(s, b, err)))
            return rc;
        ctr_cli_progress(cli, ctr_reader_rows(r), ctr_reader_total_rows(r));
    }
    return rc ? rc : ctr_sort_finish(s, err);
}

static int write_all(struct ctr_cli *cli, struct ctr_sort *s, struct ctr_out *out, struct ctr_err *err)
{
    struct ctr_writer *w = NULL;
    const struct ctr_batch *b;
    int rc = ctr_cli_writer(cli, out, ctr_sort_schema(s), &w, err);

    while (!rc && (rc = ctr_sort_next(s, &b, err)) > 0)
        rc = ctr_writer_batch(w, b, err);
    if (!rc)
        rc = ctr_cli_finish(cli, w, out, err);
    ctr_writer_free(w);
    return rc;
}

static void report(const struct ctr_cli *cli, const struct ctr_sort *s)
{
    struct ctr_sort_stats st;

    ctr_sort_get_stats(s, &st);
    if (st.runs)
        ctr_cli_debug(cli, "%lld runs, %lld passes, %s spilled", (long long)st.runs, (long long)st.passes,
                      ctr_size_text((uint64_t)st.spilled_bytes).s);
    if (o.unique)
        ctr_cli_note(cli, "%lld of %lld rows dropped, their keys came before", (long long)st.dropped,
                     (long long)st.rows);
}

static int sort_rows(struct ctr_cli *cli, struct ctr_err *err)
{
    struct ctr_sort_opts so = { .keys = &o.keys,
                                .shuffle = o.shuffle,
                                .unique = o.unique,
                                .seed = cli->seed,
                                .memory_bytes = cli->memory_bytes,
                                .batch_rows = cli->batch_rows,
                                .threads = (int)cli->jobs };
    struct ctr_reader *r = NULL;
    struct ctr_sort *s = NULL;
    struct ctr_out *out = NULL;
    int rc = ctr_cli_reader(cli, 0, NULL, &r, err);

    if (!rc)
        rc = ctr_sort_new(&s, ctr_reader_schema(r), &so, err);
    if (!rc)
        rc = ctr_cli_out(cli, CTR_OUT_BINARY, &out, err);
    if (!rc)
        rc = read_all(cli, r, s, err);
    ctr_reader_free(r);
    if (!rc)
        rc = write_all(cli, s, out, err);
    if (!rc)
        report(cli, s);
    ctr_sort_free(s);
    ctr_out_free(out);
    return rc;
}

const struct ctr_tool ctr_tool = { "ctr-sort",
                                   "sort, shuffle or deduplicate a stream",
                                   "-k COL[:desc],… [FILE…]\n--shuffle [FILE…]",
                                   NULL,
                                   opts,
                                   CTR_TOOL_READS | CTR_TOOL_WRITES | CTR_TOOL_MEMORY | CTR_TOOL_SEED,
                                   sort_rows };
