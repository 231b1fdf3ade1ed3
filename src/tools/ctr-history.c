/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-history: adds the behaviours of the user and the counts of keys as of each event. */
#include "common/cli/cli.h"
#include "common/rows/history.h"

static struct {
    const char *behaviours, *order, *bad_rows, *state;
    struct ctr_strs columns, counts;
    bool sort;
    struct ctr_history_opts h;
} o = { .h = { CTR_HISTORY_USUAL, .columns = &o.columns, .counts = &o.counts } };

static const struct ctr_opt opts[] = {
    { "columns", 'c', CTR_OPT_LIST, "COL,…", "list the values of these columns in past behaviours, item by item",
      &o.columns, CTR_OPT_BASIC },
    { "where", 0, CTR_OPT_STR, "EXPR", "condition of a row that is a behaviour, and a click for --count, such as click",
      &o.h.where, CTR_OPT_ONCE | CTR_OPT_BASIC },
    { "behaviours", 0, CTR_OPT_STR, "FILE", "read the behaviours from FILE instead of the input", &o.behaviours,
      CTR_OPT_PATH | CTR_OPT_ONCE },
    { "last", 0, CTR_OPT_INT, "N", "list at most the N newest behaviours (default 50)", &o.h.last,
      CTR_OPT_SOME | CTR_OPT_BASIC, .needs = "columns|age" },
    { "window", 0, CTR_OPT_DURATION, "DURATION", "list only behaviours of the last DURATION (default 14d)",
      &o.h.window_ms, CTR_OPT_BASIC, .needs = "columns|age" },
    { "dwell", 0, CTR_OPT_STR, "EXPR", "duration of a behaviour in milliseconds, for --min-dwell", &o.h.dwell,
      CTR_OPT_ONCE, .needs = "min-dwell" },
    { "min-dwell", 0, CTR_OPT_DURATION, "DURATION",
      "leave out behaviours shorter than DURATION; the others become known DURATION after their start",
      &o.h.min_dwell_ms, 0, .needs = "dwell" },
    { "delay", 0, CTR_OPT_DURATION, "DURATION", "behaviours and clicks become known after DURATION (default 0s)",
      &o.h.delay_ms, CTR_OPT_BASIC },
    { "order", 0, CTR_OPT_CHOICE, "newest|oldest", "which behaviour comes first in a list (default newest)", &o.order,
      0, .needs = "columns|age" },
    { "age", 0, CTR_OPT_FLAG, NULL, "also list the ages of the behaviours, in milliseconds", &o.h.age, 0 },
    { "group", 0, CTR_OPT_STR, "NAME", "prefix of the names of the lists, before a dot (default history)", &o.h.group,
      0, .needs = "columns|age" },
    { "count", 0, CTR_OPT_LIST, "KEY[+KEY2],…", "add impressions, clicks and click rate of each key so far", &o.counts,
      CTR_OPT_BASIC },
    { "count-window", 0, CTR_OPT_DURATION, "DURATION", "count only rows of the last DURATION (default: all)",
      &o.h.count_window_ms, 0, .needs = "count" },
    { "prior", 0, CTR_OPT_REAL, "ROWS",
      "smooth click rates towards the overall one, with the weight of ROWS rows (default 20)", &o.h.prior, 0,
      .needs = "count" },
    { "session", 0, CTR_OPT_DURATION, "GAP",
      "number the sessions of a user, and the rows in each; a longer gap ends one", &o.h.session_ms, CTR_OPT_BASIC },
    { "sort", 0, CTR_OPT_FLAG, NULL, "sort the input by time first, within --memory", &o.sort, CTR_OPT_BASIC },
    { "lateness", 0, CTR_OPT_DURATION, "DURATION", "put rows that come up to DURATION late into order of time",
      &o.h.lateness_ms, 0 },
    { "state", 0, CTR_OPT_STR, "FILE", "go on from what FILE knows, if it is there, and leave there what is known now",
      &o.state, CTR_OPT_PATH | CTR_OPT_ONCE | CTR_OPT_BASIC },
    CTR_OPT_BAD_ROWS(o.bad_rows, CTR_OPT_LOCAL, NULL),
    { 0 },
};

static bool takes_stdin(const struct ctr_cli *cli)
{
    for (int i = 0; i < cli->nargs; i++)
        if (!strcmp(cli->args[i], "-"))
            return true;
    return !cli->nargs;
}

static int check_options(const struct ctr_cli *cli, struct ctr_err *err)
{
    if (!o.columns.n && !o.h.age && !o.counts.n && !ctr_cli_given(cli, "session"))
        return ctr_cli_usage(err, "nothing to add: --columns and --age list behaviours, --count counts them, --session "
                                  "numbers sessions");
    if (ctr_cli_given(cli, "session") && !o.h.session_ms)
        return ctr_cli_usage(err, "--session GAP is longer than 0, such as 30m");
    if (o.counts.n && !o.h.where)
        return ctr_cli_usage(err, "--count needs --where: which rows are clicks?");
    if (o.state && ctr_names_stdout(o.state))
        return ctr_cli_usage(err, "--state is a file, which the next run reads");
    if (o.sort && o.h.lateness_ms >= 0)
        return ctr_cli_usage(err, "--sort and --lateness exclude each other");
    if (o.behaviours && !strcmp(o.behaviours, "-") && takes_stdin(cli))
        return ctr_cli_usage(err, "--behaviours and the main stream cannot both be stdin");
    if (o.h.prior < 0)
        return ctr_cli_usage(err, "--prior is a number of rows, 0 or more");
    return 0;
}

static int open_behaviours(struct ctr_cli *cli, struct ctr_reader **r, struct ctr_err *err)
{
    const int rc = o.behaviours ? ctr_cli_read(cli, o.behaviours, err) : 0;
    return rc || !o.behaviours ? rc : ctr_cli_side_reader(cli, o.behaviours, r, err);
}

/* The state is renamed behind the output, so that a run that was killed can be run again. */
static int save(void *ctx, struct ctr_history *h, struct ctr_err *err)
{
    struct ctr_out **out = ctx;
    const int rc = ctr_history_save(h, *out, err);
    return rc ? rc : ctr_out_flush(*out, err);
}

static struct ctr_out *state_out;

static int open_state(struct ctr_cli *cli, struct ctr_history *h, struct ctr_err *err)
{
    const int rc = ctr_cli_goes_on(cli, o.state) ? ctr_history_restore(h, o.state, err) : 0;
    return rc ? rc : ctr_cli_side_out(cli, o.state, CTR_OUT_BINARY, &state_out, err);
}

static int open_history(const struct ctr_cli *cli, const struct ctr_schema *s, const struct ctr_batch_source *past,
                        struct ctr_history **h, struct ctr_err *err)
{
    struct ctr_history_opts ho = o.h;
    ho.oldest_first = o.order && !strcmp(o.order, "oldest");
    ho.input = o.sort ? CTR_HISTORY_SORT : ho.lateness_ms >= 0 ? CTR_HISTORY_LATE : CTR_HISTORY_ORDERED;
    ho.memory_bytes = cli->memory_bytes;
    ho.batch_rows = cli->batch_rows;
    ho.threads = (int)cli->jobs;
    ho.save = o.state ? save : NULL;
    ho.save_ctx = &state_out;
    int rc = ctr_cli_role(cli, s, CTR_ROLE_TIME, true, &ho.time, err);
    if (!rc && (o.columns.n || o.h.age || o.h.session_ms))
        rc = ctr_cli_role(cli, s, CTR_ROLE_USER, true, &ho.user, err);
    if (rc)
        return rc;
    return ctr_history_new(h, s, past, o.behaviours && strcmp(o.behaviours, "-") ? o.behaviours : "stdin", &ho, err);
}

/* Rows without a time are at no place in the log. A null user has an empty history. */
static int leave_bad_rows_out(struct ctr_cli *cli, struct ctr_batch_source *s, struct ctr_err *err)
{
    struct ctr_rule rule = { .role = CTR_ROLE_TIME };
    int rc = ctr_cli_bad_rows(cli, o.bad_rows, err);
    if (!rc)
        rc = ctr_cli_role(cli, ctr_batch_source_schema(s), CTR_ROLE_TIME, true, &rule.column, err);
    return rc ? rc : ctr_cli_good_rows(cli, s, &rule, 1, err);
}

static void report(const struct ctr_cli *cli, const struct ctr_history *h)
{
    struct ctr_history_stats st;

    ctr_history_get_stats(h, &st);
    if (o.columns.n || o.h.age)
        ctr_cli_note(cli, "%lld of %lld rows have an empty history, %lld of them no user", (long long)st.empty,
                     (long long)st.rows, (long long)st.no_user);
    ctr_cli_debug(cli, "%lld behaviours; %lld users held, %lld dropped; at most %s held, %s spilled",
                  (long long)st.behaviours, (long long)st.users, (long long)st.dropped_users,
                  ctr_size_text((uint64_t)st.most_bytes).s, ctr_size_text((uint64_t)st.spilled_bytes).s);
}

static int add_history(struct ctr_cli *cli, struct ctr_err *err)
{
    struct ctr_reader *r = NULL, *behaviours = NULL;
    struct ctr_batch_source source = { 0 }, past = { 0 };
    struct ctr_history *h = NULL;
    struct ctr_out *out = NULL;
    int rc = check_options(cli, err);

    if (!rc)
        rc = open_behaviours(cli, &behaviours, err);
    if (!rc && behaviours)
        past = ctr_batch_source_stream(behaviours);
    if (!rc)
        rc = ctr_cli_reader(cli, 0, NULL, &r, err);
    if (!rc)
        source = ctr_batch_source_stream(r);
    if (!rc)
        rc = leave_bad_rows_out(cli, &source, err);
    if (!rc)
        rc = open_history(cli, ctr_reader_schema(r), past.ops ? &past : NULL, &h, err);
    if (!rc && (rc = ctr_history_source(&source, h, err)))
        ctr_history_free(h);
    if (!rc)
        rc = ctr_cli_out(cli, CTR_OUT_BINARY, &out, err);
    if (!rc && o.state)
        rc = open_state(cli, h, err);
    if (!rc)
        rc = ctr_cli_write_all(cli, r, &source, out, err);
    if (!rc && o.state)
        rc = ctr_out_commit(state_out, err);
    if (!rc)
        report(cli, h);
    ctr_batch_source_close(&source);
    ctr_batch_source_close(&past);
    ctr_out_free(state_out);
    ctr_out_free(out);
    return rc;
}

const struct ctr_tool ctr_tool = { "ctr-history",
                                   "add behaviours of the user, counts of keys and sessions as of each event",
                                   "-c COL,… [FILE…]\n--count KEY,… --where EXPR [FILE…]\n--session GAP [FILE…]",
                                   NULL,
                                   opts,
                                   CTR_TOOL_READS | CTR_TOOL_WRITES | CTR_TOOL_MEMORY | CTR_TOOL_ROLE(CTR_ROLE_USER) |
                                       CTR_TOOL_ROLE(CTR_ROLE_TIME),
                                   add_history };
