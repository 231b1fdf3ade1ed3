/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-join: joins the main stream with another: by key, by key and time, or row by row. */
#include "common/cli/cli.h"
#include "common/rows/relation.h"

#include <stdlib.h>

static struct {
    struct ctr_strs keys;
    const char *as_of, *next, *prefix, *columns;
    bool inner, anti, multi, by_row, merge, once, first, inclusive;
    int64_t within_ms;
} o = { .within_ms = -1 };

static const struct ctr_opt opts[] = {
    { "key", 'k', CTR_OPT_LIST, "KEY[=KEY2],…", "columns to join on; KEY2 is the name in RIGHT if it differs", &o.keys,
      CTR_OPT_BASIC },
    { "inner", 0, CTR_OPT_FLAG, NULL, "drop left rows without a match", &o.inner, CTR_OPT_BASIC },
    { "anti", 0, CTR_OPT_FLAG, NULL, "keep only left rows without a match", &o.anti, CTR_OPT_BASIC },
    { "multi", 0, CTR_OPT_FLAG, NULL, "write a row for each match of a left row, in the order of RIGHT", &o.multi,
      CTR_OPT_BASIC },
    { "as-of", 0, CTR_OPT_STR, "TIME[=TIME2]", "match the last right row strictly before the left TIME", &o.as_of,
      CTR_OPT_BASIC },
    { "next", 0, CTR_OPT_STR, "TIME[=TIME2]", "match the first right row at or after the left TIME", &o.next,
      CTR_OPT_BASIC },
    { "within", 0, CTR_OPT_DURATION, "DURATION",
      "with --next or --as-of: largest distance in time of a match, such as 30m", &o.within_ms, CTR_OPT_BASIC,
      .needs = "next|as-of" },
    { "inclusive", 0, CTR_OPT_FLAG, NULL, "with --as-of: a right row of the same time is known, too", &o.inclusive,
      .needs = "as-of" },
    { "once", 0, CTR_OPT_FLAG, NULL,
      "with --next: a right row matches only the last left row before it, as a click its last impression", &o.once,
      CTR_OPT_BASIC, .needs = "next" },
    { "first", 0, CTR_OPT_FLAG, NULL, "with --once: the first of those left rows instead", &o.first, .needs = "once" },
    { "by-row", 0, CTR_OPT_FLAG, NULL, "match rows by position; both sides have equally many", &o.by_row, 0 },
    { "merge", 0, CTR_OPT_FLAG, NULL, "both sides are sorted by the keys: join in constant memory", &o.merge, 0 },
    { "prefix", 0, CTR_OPT_STR, "PREFIX", "prefix of the names of RIGHT's columns", &o.prefix, CTR_OPT_BASIC },
    { "columns", 'c', CTR_OPT_STR, "COL,…", "columns to take from RIGHT (default: all but the keys)", &o.columns,
      CTR_OPT_ONCE | CTR_OPT_BASIC },
    { 0 },
};

static int check_options(const struct ctr_cli *cli, struct ctr_err *err)
{
    if (o.inner && o.anti)
        return ctr_cli_usage(err, "--inner and --anti exclude each other");
    if (o.as_of && o.next)
        return ctr_cli_usage(err, "--as-of and --next exclude each other");
    if (o.by_row && o.merge)
        return ctr_cli_usage(err, "--by-row and --merge exclude each other");
    if (!strcmp(cli->args[0], "-") && (cli->nargs == 1 || !strcmp(cli->args[1], "-")))
        return ctr_cli_usage(err, "RIGHT and the main stream cannot both be stdin");
    return 0;
}

static int open_join(struct ctr_cli *cli, const struct ctr_schema *left, struct ctr_batch_source *right,
                     struct ctr_join **j, struct ctr_err *err)
{
    struct ctr_join_opts jo = { .kind = o.inner  ? CTR_JOIN_INNER
                                        : o.anti ? CTR_JOIN_ANTI
                                                 : CTR_JOIN_LEFT,
                                .how = o.by_row  ? CTR_JOIN_BY_ROW
                                       : o.merge ? CTR_JOIN_MERGE
                                                 : CTR_JOIN_HASH,
                                .multi = o.multi,
                                .at = o.as_of  ? CTR_JOIN_AS_OF
                                      : o.next ? CTR_JOIN_NEXT
                                               : CTR_JOIN_NO_TIME,
                                .time = o.as_of ? o.as_of : o.next,
                                .inclusive = o.inclusive,
                                .once = !o.once   ? CTR_JOIN_EACH
                                        : o.first ? CTR_JOIN_ONCE_FIRST
                                                  : CTR_JOIN_ONCE_LAST,
                                .within_ms = o.within_ms,
                                .prefix = o.prefix,
                                .columns = o.columns,
                                .memory_bytes = cli->memory_bytes,
                                .batch_rows = cli->batch_rows,
                                .threads = (int)CTR_MIN(cli->jobs, 1024) };
    struct ctr_buf keys = { 0 };
    int rc = 0;

    for (int i = 0; !rc && i < o.keys.n; i++)
        rc = ctr_buf_printf(&keys, err, "%s%s", i ? "," : "", o.keys.s[i]);
    if (!rc)
        rc = ctr_buf_append(&keys, "", 1, err);
    jo.keys = o.keys.n ? (const char *)keys.data : NULL;
    if (!rc)
        rc = ctr_join_new(j, left, right, strcmp(cli->args[0], "-") ? cli->args[0] : "stdin", &jo, err);
    ctr_buf_free(&keys);
    return rc;
}

static void report(const struct ctr_cli *cli, struct ctr_join *j, int left_columns)
{
    struct ctr_join_stats st;

    ctr_join_get_stats(j, &st);
    if (!o.inner && !o.anti && ctr_join_schema(j)->n - o.once == left_columns)
        ctr_cli_note(cli, "no column of %s was left to add: %s", cli->args[0],
                     o.as_of || o.next ? "its time is not repeated, unless --prefix gives it a name of its own"
                                       : "--inner and --anti choose rows by its keys");
    if (!o.by_row)
        ctr_cli_note(cli, "%lld of %lld rows have no match in %s; %lld of its %lld rows match none of them",
                     (long long)st.unmatched, (long long)st.left_rows, cli->args[0], (long long)st.right_unmatched,
                     (long long)st.right_rows);
    if (o.once)
        ctr_cli_note(cli, "%lld rows have no match because %s row has it", (long long)st.given_up,
                     o.first ? "an earlier" : "a later");
    if (!o.by_row && st.left_rows && st.unmatched == st.left_rows && *ctr_join_first(j, true))
        ctr_cli_warn(cli, "no row has a match: the first key here is %s, the first in %s is %s%s",
                     ctr_join_first(j, false), cli->args[0], ctr_join_first(j, true), ctr_join_suspect(j));
    if (st.partitions)
        ctr_cli_debug(cli, "%lld partitions, %s spilled", (long long)st.partitions,
                      ctr_size_text((uint64_t)st.spilled_bytes).s);
}

static int join_streams(struct ctr_cli *cli, struct ctr_err *err)
{
    struct ctr_reader *left = NULL, *from = NULL;
    struct ctr_batch_source source = { 0 }, right = { 0 };
    struct ctr_join *j = NULL;
    struct ctr_out *out = NULL;
    int columns = 0, rc = ctr_cli_args(cli, 1, -1, err);

    if (!rc)
        rc = check_options(cli, err);
    if (!rc && !(rc = ctr_cli_side_reader(cli, cli->args[0], &from, err)))
        right = ctr_batch_source_stream(from);
    if (!rc)
        rc = ctr_cli_reader(cli, 1, NULL, &left, err);
    if (!rc) {
        source = ctr_batch_source_stream(left);
        columns = ctr_reader_schema(left)->n;
        rc = ctr_cli_out(cli, CTR_OUT_BINARY, &out, err);
    }
    if (!rc)
        rc = open_join(cli, ctr_reader_schema(left), &right, &j, err);
    if (!rc && (rc = ctr_join_source(&source, j, err)))
        ctr_join_free(j);
    if (!rc)
        rc = ctr_cli_write_all(cli, left, &source, out, err);
    if (!rc)
        report(cli, j, columns);
    ctr_batch_source_close(&right);
    ctr_batch_source_close(&source);
    ctr_out_free(out);
    return rc;
}

const struct ctr_tool ctr_tool = {
    "ctr-join",
    "join a stream with another",
    "-k KEY[=KEY2],… RIGHT [FILE…]\n[-k KEY[=KEY2],…] --as-of TIME[=TIME2] | --next TIME[=TIME2] RIGHT [FILE…]\n"
    "--by-row RIGHT [FILE…]",
    NULL,
    opts,
    CTR_TOOL_READS | CTR_TOOL_WRITES | CTR_TOOL_MEMORY,
    join_streams
};
