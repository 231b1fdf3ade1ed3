/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-gridviz: makes one page from the evaluation tables of several models. */
#include "common/cli/cli.h"
#include "tools/ctr-gridviz/gridviz.h"

#include <stdlib.h>
#include <sys/stat.h>

enum { MANY_SLICES = 100000 };

static const char *title = "GridViz";

static const struct ctr_opt opts[] = {
    { "title", 0, CTR_OPT_STR, "TEXT", "title of the page", &title, CTR_OPT_LOCAL },
    { 0 },
};

/* The part after "NAME=", unless the '=' belongs to a folder of a path. */
static char *path_of(char *arg)
{
    char *equals = strchr(arg, '=');

    return equals && !memchr(arg, '/', (size_t)(equals - arg)) ? equals + 1 : arg;
}

/* "runs/model-a.eval.arrows" gets the name model-a.eval. */
static int name_of(const char *path, struct ctr_strs *names, struct ctr_err *err)
{
    const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path, *dot = strrchr(base, '.');

    if (!strcmp(path, "-"))
        return ctr_strs_add(names, "stdin", 5, err);
    return ctr_strs_add(names, base, dot && dot > base ? (size_t)(dot - base) : strlen(base), err);
}

/* Are both paths the same file? */
static bool same_file(const char *a, const char *b)
{
    struct stat x, y;

    return strcmp(a, "-") && strcmp(b, "-") && !stat(a, &x) && !stat(b, &y) && S_ISREG(x.st_mode) &&
           x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Reject repeated names and tables. */
static int check_new(const struct ctr_cli *cli, const struct ctr_strs *names, int i, struct ctr_err *err)
{
    for (int k = 0; k < i; k++) {
        if (same_file(cli->args[k], cli->args[i]))
            return ctr_cli_usage(err, "%s and %s are one table: give that of each model once", cli->args[k],
                                 cli->args[i]);
        if (!strcmp(names->s[k], names->s[i]))
            return ctr_cli_usage(err, "two tables are called '%s': name them, as in NAME=%s", names->s[i],
                                 cli->args[i]);
    }
    return 0;
}

/* Determine the models' names; the arguments become just the tables. */
static int name_models(struct ctr_cli *cli, struct ctr_strs *names, struct ctr_err *err)
{
    int rc = cli->nargs ? 0 : name_of("-", names, err);

    for (int i = 0; !rc && i < cli->nargs; i++) {
        char *arg = cli->args[i], *path = cli->args[i] = path_of(arg);
        if (path > arg + 1)
            rc = ctr_strs_add(names, arg, (size_t)(path - arg) - 1, err);
        else
            rc = path > arg ? ctr_cli_usage(err, "'%s' has no name before the '='", arg) : name_of(path, names, err);
        if (!rc)
            rc = check_new(cli, names, i, err);
    }
    return rc;
}

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
    int rc = name_models(cli, &names, err);

    if (!rc && !(rc = ctr_cli_inputs(cli, 0, err)))
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
