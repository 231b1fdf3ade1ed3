/* SPDX-License-Identifier: Apache-2.0
 *
 * terminal: what tools know of the terminal that they write to. */
#include "common/cli/cli.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool ctr_cli_terminal(const struct ctr_cli *cli)
{
    return ctr_names_stdout(cli->out) && isatty(STDOUT_FILENO);
}

int ctr_cli_columns(const struct ctr_cli *cli)
{
    enum { LEAST = 20, OTHERWISE = 100, MOST = 100000 };
    const char *columns = getenv("COLUMNS");
    struct winsize size = { 0 };
    int64_t n = 0;
    if (!(columns && ctr_parse_i64(columns, strlen(columns), &n) && n > 0) && ctr_cli_terminal(cli) &&
        ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
        n = size.ws_col;
    return n <= 0 ? OTHERWISE : (int)CTR_MIN(CTR_MAX(n, (int64_t)LEAST), (int64_t)MOST);
}
