/* SPDX-License-Identifier: Apache-2.0
 *
 * Inputs with names, as in NAME=FILE: of tools that show several side by side. */
#include "common/cli/cli.h"

#include <sys/stat.h>

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

/* Reject repeated names and inputs. */
static int check_new(char *const *arg, const char *what, const struct ctr_strs *names, int i, struct ctr_err *err)
{
    for (int k = 0; k < i; k++) {
        if (same_file(arg[k], arg[i]))
            return ctr_cli_usage(err, "%s and %s are one %s: give it once", arg[k], arg[i], what);
        if (!strcmp(names->s[k], names->s[i]))
            return ctr_cli_usage(err, "two %ss are called '%s': name them, as in NAME=%s", what, names->s[i], arg[i]);
    }
    return 0;
}

int ctr_cli_named(struct ctr_cli *cli, int first, const char *what, struct ctr_strs *names, struct ctr_err *err)
{
    int rc = cli->nargs > first ? 0 : name_of("-", names, err);

    for (int i = first; !rc && i < cli->nargs; i++) {
        char *arg = cli->args[i], *path = cli->args[i] = path_of(arg);
        if (path > arg + 1)
            rc = ctr_strs_add(names, arg, (size_t)(path - arg) - 1, err);
        else
            rc = path > arg ? ctr_cli_usage(err, "'%s' has no name before the '='", arg) : name_of(path, names, err);
        if (!rc)
            rc = check_new(cli->args + first, what, names, i - first, err);
    }
    return rc ? rc : ctr_cli_inputs(cli, first, err);
}
