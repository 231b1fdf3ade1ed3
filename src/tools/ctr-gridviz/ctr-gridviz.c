/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-gridviz: makes one page from the evaluation tables of several models. */
#include "common/cli/cli.h"
#include "tools/ctr-gridviz/gridviz.h"

enum { MANY_SLICES = 100000 };

static const char *title = "GridViz";

static const struct ctr_opt opts[] = {
    { "title", 0, CTR_OPT_STR, "TEXT", "title of the page", &title, CTR_OPT_LOCAL },
    { 0 },
};

static int add_table(struct ctr_gridviz *g, char *path, const char *name, struct ctr_err *err)
{
    struct ctr_reader *r = NULL;
    int rc = ctr_reader_open(&r, &path, 1, NULL, err);

    if (!rc && (rc = ctr_gridviz_add(g, r, name, err)))
        ctr_err_file(err, ctr_reader_file(r));
    ctr_reader_free(r);
    return rc;
}

static int write_page(struct ctr_cli *cli, const struct ctr_gridviz *g, struct ctr_err *err)
{
    struct ctr_out *out = NULL;
    struct ctr_buf data = { 0 }, page = { 0 };
    int rc = ctr_cli_out(cli, 0, &out, err);

    if (!rc && !(rc = ctr_gridviz_data(g, title, &data, err)) && !(rc = ctr_gridviz_page(&data, &page, err)) &&
        !(rc = ctr_out_write(out, page.data, page.len, err)))
        rc = ctr_out_commit(out, err);
    ctr_out_free(out);
    ctr_buf_free(&data);
    ctr_buf_free(&page);
    return rc;
}

static int show_tables(struct ctr_cli *cli, struct ctr_err *err)
{
    char stdin_path[] = "-";
    struct ctr_strs names = { 0 };
    struct ctr_gridviz *g = NULL;
    int rc = ctr_cli_named(cli, 0, "table", &names, err);

    if (!rc)
        rc = ctr_gridviz_new(&g, err);
    for (int i = 0; !rc && i < names.n; i++)
        rc = add_table(g, i < cli->nargs ? cli->args[i] : stdin_path, names.s[i], err);
    if (!rc && ctr_gridviz_slices(g) > MANY_SLICES)
        ctr_cli_note(cli, "%lld slices make a large page: ctr-eval --slices keeps those with the most rows",
                     (long long)ctr_gridviz_slices(g));
    if (!rc)
        rc = write_page(cli, g, err);
    ctr_gridviz_free(g);
    ctr_strs_free(&names);
    return rc;
}

const struct ctr_tool ctr_tool = {
    .name = "ctr-gridviz",
    .summary = "show eval tables of several models as one page: GridViz",
    .synopsis = "[[NAME=]TABLE…]",
    .opts = opts,
    .run = show_tables,
};
