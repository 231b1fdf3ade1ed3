/* SPDX-License-Identifier: Apache-2.0
 *
 * oldtimes: see oldtimes.h. */
#include "tools/ctr-import/oldtimes.h"

#include <stdlib.h>

/* Smaller numbers are counts from a start of their own, as in tests and some public logs. */
enum { SECONDS_1997 = 864000000 };
#define MS_1990 INT64_C(631152000000)

static int begin(struct ctr_old_times *t, int n, struct ctr_err *err)
{
    t->last = malloc(2 * ((size_t)n + 1) * sizeof *t->last);
    if (!t->last)
        return ctr_fail_nomem(err, (size_t)n * sizeof *t->last);
    t->first = t->last + n;
    t->n = n;
    for (int i = 0; i < n; i++) {
        t->last[i] = INT64_MIN;
        t->first[i] = INT64_MAX;
    }
    return 0;
}

int ctr_old_times_see(struct ctr_old_times *t, const struct ctr_batch *b, struct ctr_err *err)
{
    const int rc = t->last ? 0 : begin(t, b->schema->n, err);
    for (int i = 0; !rc && i < t->n; i++) {
        const struct ctr_col *c = &b->col[i];
        const int64_t *v = c->data;
        if (b->schema->f[i].type != CTR_TIME || c->dict || t->last[i] >= MS_1990) /* nothing is to be told of it */
            continue;
        for (int64_t k = 0; k < b->rows; k++)
            if (!ctr_col_null(c, k)) {
                t->last[i] = CTR_MAX(t->last[i], v[k]);
                t->first[i] = CTR_MIN(t->first[i], v[k]);
            }
    }
    return rc;
}

void ctr_old_times_tell(const struct ctr_old_times *t, const struct ctr_schema *s,
                        void (*note)(void *ctx, const char *text), void *ctx)
{
    for (int i = 0; i < t->n; i++) {
        char text[700], first[40], last[40];
        if (t->first[i] < SECONDS_1997 || t->last[i] < t->first[i] || t->last[i] >= MS_1990)
            continue;
        first[ctr_time_iso(first, t->first[i])] = '\0';
        last[ctr_time_iso(last, t->last[i])] = '\0';
        ctr_format(text, sizeof text,
                   "column %s: all times lie before 1990, from %s to %s, as seconds that are read as milliseconds do: "
                   "--time %s:unix reads seconds",
                   s->f[i].name, first, last, s->f[i].name);
        note(ctx, text);
    }
}

void ctr_old_times_free(struct ctr_old_times *t)
{
    free(t->last);
}
