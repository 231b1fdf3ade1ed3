/* SPDX-License-Identifier: Apache-2.0
 *
 * unseen: reports and limits the values of a stream that a model or a vocabulary does not know, so that users notice a
 * column whose values have changed. */
#include "common/cli/cli.h"

#include <stdlib.h>

static double share(const struct ctr_unseen *u)
{
    return u->n ? (double)u->unknown / (double)u->n : 0;
}

/* The largest share first; among equal shares by name. */
static int by_share(const void *a, const void *b)
{
    const double x = share(a), y = share(b);
    return x != y ? (x < y) - (x > y)
                  : strcmp(((const struct ctr_unseen *)a)->name, ((const struct ctr_unseen *)b)->name);
}

int ctr_cli_unseen(const struct ctr_cli *cli, const char *who, const char *what, struct ctr_unseen *u, int n,
                   double most, struct ctr_err *err)
{
    enum { SHOWN = 8 };
    struct ctr_buf text = { 0 };
    int64_t all = 0, unknown = 0;
    int some = 0, rc = 0;
    if (n)
        qsort(u, (size_t)n, sizeof *u, by_share);
    for (int i = 0; i < n; i++) {
        all += u[i].n;
        unknown += u[i].unknown;
        some += u[i].unknown > 0;
    }
    for (int i = 0; i < some && i < SHOWN && !rc; i++)
        rc = ctr_buf_printf(&text, err, "%s%s %lld of %lld (%.3g%%)", i ? ", " : "", u[i].name, (long long)u[i].unknown,
                            (long long)u[i].n, 100 * share(&u[i]));
    if (!rc && some > SHOWN)
        rc = ctr_buf_printf(&text, err, " and %d more", some - SHOWN);
    if (!rc && some)
        ctr_cli_note(cli, "%s does not know %lld of %lld %s: %s", who, (long long)unknown, (long long)all, what,
                     (const char *)text.data);
    ctr_buf_free(&text);
    if (!rc && n && most >= 0 && share(u) > most)
        return ctr_fail(err, CTR_EDATA, "%s does not know %.3g%% of the %s of %s, more than --max-unknown %g allows",
                        who, 100 * share(u), what, u->name, most);
    return rc;
}

int ctr_cli_max_unknown(double most, struct ctr_err *err)
{
    return most == -1 || (most >= 0 && most <= 1)
               ? 0
               : ctr_cli_usage(err, "--max-unknown wants a share from 0 to 1, such as 0.05");
}
