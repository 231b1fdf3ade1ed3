/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-plot: draws figures of streams. Opens the inputs; plot/ draws. */
#include "common/cli/cli.h"
#include "common/plot/plot.h"

static struct ctr_plot_opts o;

static const struct ctr_opt opts[] = {
    { "title", 0, CTR_OPT_STR, "TEXT", "heading of the figure", &o.title, CTR_OPT_LOCAL },
    { "column", 'c', CTR_OPT_STR, "NAME", "column of a histogram, or of the numbers that are importance", &o.column,
      CTR_OPT_LOCAL | CTR_OPT_ONCE, .needs = "@histogram|@importance" },
    { "metric", 'm', CTR_OPT_STR, "NAME", "metric to show by time (default: the first that all inputs have)", &o.metric,
      CTR_OPT_LOCAL | CTR_OPT_ONCE, .needs = "@metric" },
    { "bins", 0, CTR_OPT_INT, "N",
      "bins of equal weight (default 20), of a histogram at most N (default 40), blocks of rows (default 100)", &o.bins,
      CTR_OPT_LOCAL | CTR_OPT_SOME, .needs = "@reliability|@scores|@histogram|@learning" },
    { "count", 'n', CTR_OPT_INT, "N", "show the N longest bars (default 20)", &o.top, CTR_OPT_LOCAL | CTR_OPT_SOME,
      .needs = "@importance|@drift|@histogram" },
    { 0 },
};

enum { MOST_BINS = 1000 };

static const char *kind_name(int i)
{
    const struct ctr_plot_kind *k = ctr_plot_kind_at(i);
    return k ? k->name : NULL;
}

static const char *kind_help(int i)
{
    return ctr_plot_kind_at(i)->summary;
}

static void show_progress(void *cli, int64_t rows)
{
    ctr_cli_progress(cli, rows, -1);
}

static int open_input(char *path, const char *name, struct ctr_plot_input *in, struct ctr_err *err)
{
    const struct ctr_reader_opts ro = { .foreign = true };
    struct ctr_reader *r = NULL;
    const int rc = ctr_reader_open(&r, &path, 1, &ro, err);
    if (!rc)
        *in = (struct ctr_plot_input){ name, ctr_batch_source_stream(r) };
    return rc;
}

static int write_figure(struct ctr_cli *cli, const struct ctr_buf *svg, struct ctr_buf *notes, struct ctr_err *err)
{
    struct ctr_out *out = NULL;
    int rc = ctr_cli_out(cli, 0, &out, err);
    ctr_cli_progress_clear(cli);
    for (char *line = (char *)notes->data, *end; !rc && line && (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        ctr_cli_note(cli, "%s", line);
    }
    if (!rc)
        rc = ctr_out_write(out, svg->data, svg->len, err);
    if (!rc)
        rc = ctr_out_commit(out, err);
    ctr_out_free(out);
    return rc;
}

static int draw(struct ctr_cli *cli, const struct ctr_plot_kind *kind, struct ctr_plot_input *in, int n,
                struct ctr_err *err)
{
    struct ctr_buf svg = { 0 }, notes = { 0 };
    struct ctr_pool *pool = NULL;
    int rc = ctr_pool_new(&pool, (int)cli->jobs, CTR_FLOAT_IEEE, err);
    struct ctr_plot_opts po = o;
    po.role = cli->role;
    po.memory_bytes = cli->memory_bytes;
    po.pool = pool;
    po.progress = show_progress;
    po.progress_ctx = cli;
    po.notes = &notes;
    if (!rc)
        rc = ctr_plot_draw(kind, in, n, &po, &svg, err);
    if (!rc)
        rc = ctr_buf_append(&notes, "", 1, err);
    if (!rc)
        rc = write_figure(cli, &svg, &notes, err);
    ctr_pool_free(pool);
    ctr_buf_free(&svg);
    ctr_buf_free(&notes);
    return rc;
}

static const char *const other_endings[] = { "png", "pdf", "jpg", "jpeg", "eps", "html" };

static int check_inputs(const struct ctr_cli *cli, const struct ctr_plot_kind *kind, struct ctr_err *err)
{
    const int n = CTR_MAX(1, cli->nargs - 1);
    if (n > kind->inputs)
        return ctr_cli_usage(err, "%s shows %s%d input%s, and these are %d%s", kind->name,
                             kind->inputs > 1 ? "at most " : "", kind->inputs, CTR_S(kind->inputs), n,
                             kind->inputs > 1 ? "" : " (ctr-cat makes one of streams alike)");
    const char *dot = cli->out ? strrchr(cli->out, '.') : NULL;
    for (size_t i = 0; dot && i < CTR_COUNT(other_endings); i++)
        if (!strcmp(dot + 1, other_endings[i]))
            return ctr_cli_usage(err, "figures are svg, and %s has another ending: give -o FILE.svg", cli->out);
    if (o.bins > MOST_BINS || o.top > MOST_BINS)
        return ctr_cli_usage(err, "--%s wants 1 to %d", o.bins > MOST_BINS ? "bins" : "count", MOST_BINS);
    if (!strcmp(kind->name, "histogram") && !o.column)
        return ctr_cli_usage(err, "histogram wants a column: --column NAME");
    return 0;
}

static int plot(struct ctr_cli *cli, struct ctr_err *err)
{
    char stdin_path[] = "-";
    struct ctr_plot_input in[CTR_SVG_COLOURS] = { { 0 } };
    struct ctr_strs names = { 0 };
    int n = 0, rc = ctr_cli_args(cli, 1, -1, err);
    const struct ctr_plot_kind *kind = rc ? NULL : ctr_plot_find(cli->args[0]);
    if (!rc && !kind)
        rc = ctr_cli_unknown(cli, "kind of figure", err);
    if (!rc)
        rc = check_inputs(cli, kind, err);
    if (!rc)
        rc = ctr_cli_named(cli, 1, "input", &names, err);
    for (; !rc && n < names.n; n += !rc)
        rc = open_input(cli->nargs > 1 ? cli->args[n + 1] : stdin_path, names.s[n], &in[n], err);
    if (!rc)
        rc = draw(cli, kind, in, n, err);
    for (int i = 0; i < n; i++)
        ctr_batch_source_close(&in[i].rows);
    ctr_strs_free(&names);
    return rc;
}

const struct ctr_tool ctr_tool = {
    .name = "ctr-plot",
    .summary = "draw a figure of streams as svg: reliability, ROC, lift, scores, metrics by time, importance, drift",
    .synopsis = "KIND [[NAME=]FILE…]",
    .opts = opts,
    .flags = CTR_TOOL_READS | CTR_TOOL_MEMORY | CTR_TOOL_ROLE(CTR_ROLE_LABEL) | CTR_TOOL_ROLE(CTR_ROLE_SCORE) |
             CTR_TOOL_ROLE(CTR_ROLE_WEIGHT) | CTR_TOOL_ROLE(CTR_ROLE_TIME),
    .run = plot,
    .word = kind_name,
    .word_help = kind_help,
};
