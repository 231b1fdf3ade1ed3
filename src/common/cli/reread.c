/* SPDX-License-Identifier: Apache-2.0
 *
 * reread: plans and models are read more than once, which a pipe does not allow. So it is copied to an unnamed
 * temporary file, which vanishes with the process; messages use the name that the user typed. */
#include "common/cli/reread.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int copy_all(int from, int to, struct ctr_err *err)
{
    char block[1 << 16];
    ssize_t n;
    int rc = 0;

    while (!rc && (n = ctr_read_full(from, block, sizeof block, err)) != 0)
        rc = n < 0 ? (int)n : ctr_write_full(to, block, (size_t)n, err);
    return rc;
}

bool ctr_cli_reopens(const char *path)
{
    struct stat st;
    return strcmp(path, "-") && (stat(path, &st) || S_ISREG(st.st_mode));
}

bool ctr_cli_goes_on(const struct ctr_cli *cli, const char *path)
{
    struct stat st;
    const bool there = !stat(path, &st), missing = !there && errno == ENOENT; /* other errors come from opening it */

    if (missing)
        ctr_cli_note(cli, "%s is not there yet: this is the first run", path);
    else if (there && !S_ISREG(st.st_mode))
        ctr_cli_note(cli, "%s is no regular file: this run goes on from nothing", path);
    return there ? S_ISREG(st.st_mode) : !missing;
}

int ctr_cli_reread(struct ctr_cli *cli, const char **path, struct ctr_err *err)
{
    bool std = !strcmp(*path, "-");
    int rc = ctr_cli_read(cli, *path, err), from, to;

    if (rc || ctr_cli_reopens(*path))
        return rc;
    from = std ? STDIN_FILENO : ctr_open(*path, O_RDONLY, 0);
    if (from < 0)
        return 0;
    if (isatty(from))
        return ctr_cli_usage(err, "a plan or a model is not read from a terminal");
    to = ctr_tmpfile(err);
    rc = to < 0 ? to : copy_all(from, to, err);
    if (!std)
        close(from);
    if (rc && !std)
        ctr_err_file(err, *path);
    if (rc)
        return rc;
    snprintf(cli->reread, sizeof cli->reread, "/proc/self/fd/%d", to);
    cli->reread_name = std ? "stdin" : *path;
    cli->stdin_taken |= std;
    *path = cli->reread;
    return 0;
}

void ctr_cli_names(const struct ctr_cli *cli, char *text, size_t size)
{
    size_t n = strlen(cli->reread);
    struct ctr_buf b = { 0 };
    struct ctr_err err = { 0 };
    char *at, *from = text, name[1024];
    int rc = 0;

    if (n)
        ctr_quote(name, sizeof name, cli->reread_name, strlen(cli->reread_name));
    while (n && !rc && (at = strstr(from, cli->reread))) {
        rc = ctr_buf_printf(&b, &err, "%.*s%s", (int)(at - from), from, name);
        from = at + n;
    }
    if (from != text && !rc && !(rc = ctr_buf_printf(&b, &err, "%s", from)))
        snprintf(text, size, "%s", (const char *)b.data);
    ctr_buf_free(&b);
}
