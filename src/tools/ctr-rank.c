/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-rank: orders the candidates of each request and prices them. rows/rank.h does it; this file reads the options. */
#include "common/cli/cli.h"
#include "common/rows/rank.h"

static struct {
    struct ctr_strs by;
    const char *price, *uncertainty;
    bool sorted;
    struct ctr_rank_slots slots;
    struct ctr_rank_exploring explore;
    struct ctr_rank_opts rank;
} o = { .rank.by = &o.by, .rank.slot = o.slots.factor };

static const struct ctr_opt opts[] = {
    { "by", 'b', CTR_OPT_LIST, "COL,…", "columns that name a request (default: the column of role query)", &o.by, 0 },
    { "order", 0, CTR_OPT_STR, "EXPR", "order candidates by this, the largest first (default: score, or bid x score)",
      &o.rank.order, CTR_OPT_ONCE },
    { "bid", 0, CTR_OPT_STR, "COL", "bids a click: order by ecpm = bid x score, and add it as a column", &o.rank.bid,
      0 },
    { "floor", 0, CTR_OPT_STR, "EXPR", "leave out candidates whose ecpm (or score, or --order) is below this",
      &o.rank.floor, CTR_OPT_ONCE },
    { "top", 'k', CTR_OPT_INT, "K", "keep the K best candidates of each request (default: --slots, or all)",
      &o.rank.top, CTR_OPT_SOME },
    { "price", 0, CTR_OPT_CHOICE, "first|second", "add what a click costs: the bid, or the generalised second price",
      &o.price, 0, .needs = "bid" },
    { "slots", 0, CTR_OPT_READ, "N|F,F,…", "slots that are shown, or the position factor of each, at most 1", &o.slots,
      0, .read = ctr_rank_read_slots },
    { "explore", 0, CTR_OPT_READ, "ucb=C|thompson|epsilon=E",
      "explore by uncertainty or at random, and add the propensity", &o.explore, 0, .read = ctr_rank_read_explore },
    { "uncertainty", 0, CTR_OPT_STR, "COL", "uncertainty of the log-odds (default: the column of that role)",
      &o.uncertainty, 0, .needs = "explore" },
    { "sorted", 0, CTR_OPT_FLAG, NULL, "the input is sorted by --by: rank each request when it ends", &o.sorted,
      CTR_OPT_LOCAL },
    { 0 },
};

static int find_by(const struct ctr_schema *s, struct ctr_err *err)
{
    const int query = o.by.n ? -1 : ctr_schema_role(s, CTR_ROLE_QUERY);

    if (o.by.n)
        return 0;
    if (query < 0)
        return ctr_cli_usage(err, "no column has the role query: name the columns of a request with --by");
    return ctr_names_add(&o.by, s->f[query].name, err);
}

static int find_columns(const struct ctr_cli *cli, const struct ctr_schema *s, struct ctr_rank_opts *ro,
                        struct ctr_err *err)
{
    int rc = find_by(s, err);

    if (!rc)
        rc = ctr_cli_role(cli, s, CTR_ROLE_SCORE, false, &ro->score, err);
    if (!rc)
        rc = ctr_cli_role(cli, s, CTR_ROLE_ID, false, &ro->id, err);
    return rc ? rc : ctr_schema_find_role(s, CTR_ROLE_UNCERTAINTY, o.uncertainty, false, &ro->uncertainty, err);
}

static void report(const struct ctr_cli *cli, const struct ctr_rank *r)
{
    struct ctr_rank_stats st;

    ctr_rank_get_stats(r, &st);
    ctr_cli_debug(cli, "%lld requests, %lld of %lld candidates kept", (long long)st.requests, (long long)st.written,
                  (long long)st.rows);
    if (st.nameless)
        ctr_cli_note(cli,
                     "%lld of %lld candidates name no request (%s is null), and are ranked as one request; ctr-select "
                     "--where leaves them out",
                     (long long)st.nameless, (long long)st.rows, o.by.n > 1 ? "all of --by" : o.by.s[0]);
    if (st.below_floor)
        ctr_cli_note(cli, "%lld of %lld candidates are below the floor; %lld of %lld requests have no other",
                     (long long)st.below_floor, (long long)st.rows, (long long)st.empty, (long long)st.requests);
    if (o.explore.kind == CTR_EXPLORE_EPSILON)
        ctr_cli_debug(cli, "%lld of %lld requests are in random order", (long long)st.randomised,
                      (long long)st.requests);
}

static int rank_rows(struct ctr_cli *cli, struct ctr_err *err)
{
    struct ctr_rank_opts ro = o.rank;
    struct ctr_reader *r = NULL;
    struct ctr_batch_source source = { 0 };
    struct ctr_rank *rank = NULL;
    struct ctr_out *out = NULL;
    int rc = ctr_cli_reader(cli, 0, NULL, &r, err);

    ro.price = !o.price ? CTR_PRICE_NONE : *o.price == 'f' ? CTR_PRICE_FIRST : CTR_PRICE_SECOND;
    ro.slots = o.slots.n;
    ro.explore = o.explore.kind;
    ro.amount = o.explore.amount;
    ro.seed = cli->seed;
    if (!rc) {
        source = ctr_batch_source_stream(r);
        rc = find_columns(cli, ctr_reader_schema(r), &ro, err);
        if (!rc)
            rc = ctr_rank_source(&source, &ro, o.sorted, cli->memory_bytes, (int)cli->jobs, &rank, err);
        if (rc)
            ctr_err_file(err, ctr_reader_file(r));
    }
    if (!rc)
        rc = ctr_cli_out(cli, CTR_OUT_BINARY, &out, err);
    if (!rc)
        rc = ctr_cli_write_all(cli, r, &source, out, err);
    if (!rc)
        report(cli, rank);
    ctr_batch_source_close(&source);
    ctr_out_free(out);
    ctr_strs_free(&o.by);
    return rc;
}

const struct ctr_tool ctr_tool = { "ctr-rank",
                                   "order the candidates of each request, and price them",
                                   "[--by COL,…] [--bid COL] [FILE…]",
                                   NULL,
                                   opts,
                                   CTR_TOOL_ROLE(CTR_ROLE_ID) | CTR_TOOL_ROLE(CTR_ROLE_SCORE) | CTR_TOOL_READS |
                                       CTR_TOOL_WRITES | CTR_TOOL_MEMORY | CTR_TOOL_SEED,
                                   rank_rows };
