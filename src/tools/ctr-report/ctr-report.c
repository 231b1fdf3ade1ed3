/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-report: makes one page of the files of a run. */
#include "common/cli/cli.h"
#include "tools/ctr-report/report.h"

static const char *title = "Report of a run";

static const struct ctr_opt opts[] = {
    { "title", 0, CTR_OPT_STR, "TEXT", "title of the page (default \"Report of a run\")", &title, CTR_OPT_LOCAL },
    { 0 },
};

/* The part after "NAME=", unless the '=' belongs to a folder of a path. */
static char *path_of(char *arg)
{
    char *equals = strchr(arg, '=');

    return equals && !memchr(arg, '/', (size_t)(equals - arg)) ? equals + 1 : arg;
}

/* Names become names[i], NULL where there is none; the arguments become just the files. Names may repeat, and so may
 * files: a page of two runs has one profile beside both. */
static int name_files(struct ctr_cli *cli, const char **names, struct ctr_err *err)
{
    for (int i = 0; i < cli->nargs; i++) {
        char *arg = cli->args[i], *path = cli->args[i] = path_of(arg);
        if (path == arg)
            continue;
        if (path == arg + 1)
            return ctr_cli_usage(err, "'%s' has no name before the '='", arg);
        path[-1] = 0;
        names[i] = arg;
    }
    return 0;
}

/* A file is read more than once, so a pipe is copied: one of them can be. */
static int copy_pipe(struct ctr_cli *cli, const char **names, const char **paths, struct ctr_err *err)
{
    int pipe = -1, rc = 0;

    for (int i = 0; !rc && i < cli->nargs; i++) {
        paths[i] = cli->args[i];
        if (ctr_cli_reopens(paths[i]))
            continue;
        if (pipe >= 0)
            return ctr_cli_usage(err, "%s and %s are pipes, and only one of the files can be: write the others first",
                                 cli->args[pipe], cli->args[i]);
        pipe = i;
        if (!names[i])
            names[i] = strcmp(paths[i], "-") ? "pipe" : "stdin";
        rc = ctr_cli_reread(cli, &paths[i], err);
    }
    return rc;
}

static int write_page(struct ctr_cli *cli, const struct ctr_report *r, struct ctr_err *err)
{
    struct ctr_out *out = NULL;
    struct ctr_buf page = { 0 };
    int rc = ctr_report_page(r, title, &page, err);

    if (!rc)
        rc = ctr_cli_out(cli, 0, &out, err);
    if (!rc && !(rc = ctr_out_write(out, page.data, page.len, err)))
        rc = ctr_out_commit(out, err);
    ctr_out_free(out);
    ctr_buf_free(&page);
    return rc;
}

static int make_report(struct ctr_cli *cli, const char **names, const char **paths, struct ctr_err *err)
{
    struct ctr_report r = { .files = cli->nargs,
                            .brief = { .most = 8000, .err = err },
                            .compared = { .err = err },
                            .memory_bytes = cli->memory_bytes };
    int rc = name_files(cli, names, err);

    if (!rc)
        rc = ctr_cli_inputs(cli, 0, err);
    if (!rc)
        rc = copy_pipe(cli, names, paths, err);
    if (!rc)
        rc = ctr_pool_new(&r.pool, (int)cli->jobs, CTR_FLOAT_IEEE, err);
    for (int i = 0; !rc && i < cli->nargs; i++)
        rc = ctr_report_add(&r, paths[i], names[i], err);
    if (!rc)
        rc = ctr_report_figures(&r, err);
    if (!rc)
        rc = write_page(cli, &r, err);
    ctr_report_free(&r);
    ctr_pool_free(r.pool);
    return rc;
}

static int report(struct ctr_cli *cli, struct ctr_err *err)
{
    const char *names[CTR_REPORT_FILES] = { NULL }, *paths[CTR_REPORT_FILES];
    static char stdin_path[] = "-", *stdin_args[] = { stdin_path };

    if (cli->nargs > CTR_REPORT_FILES)
        return ctr_cli_usage(err, "%d files are too many for one page, which has room for %d: make several", cli->nargs,
                             CTR_REPORT_FILES);
    if (!cli->nargs) {
        cli->args = stdin_args;
        cli->nargs = 1;
    }
    return make_report(cli, names, paths, err);
}

static const char *const notes[] = {
    "What a FILE is, its content says: a plan, a fitted plan, a model; a stream of ctr-stats, with --against too, of "
    "ctr-eval, or of ctr-model top or diff; scores with labels, and those of ctr-train --progressive.",
    NULL
};

const struct ctr_tool ctr_tool = {
    .name = "ctr-report",
    .summary = "make one page of a run: plan, statistics, drift, evaluation, weights, provenance",
    .synopsis = "[[NAME=]FILE…]",
    .notes = notes,
    .opts = opts,
    .flags = CTR_TOOL_READS | CTR_TOOL_MEMORY,
    .run = report,
};
