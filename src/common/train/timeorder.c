/* SPDX-License-Identifier: Apache-2.0 */
#include "common/train/timeorder.h"

#include <stdio.h>

struct ctr_time_order_text ctr_time_order_most(const struct ctr_time_order *o)
{
    static const struct {
        const char *name;
        double ms;
    } unit[] = { { "ms", 1 }, { "s", 1e3 }, { "m", 60e3 }, { "h", 3600e3 }, { "d", 86400e3 } };
    struct ctr_time_order_text text;
    size_t i = CTR_COUNT(unit) - 1;

    while (i && (double)o->most_ms < unit[i].ms)
        i--;
    snprintf(text.s, sizeof text.s, "%.*f%s", i > 1, (double)o->most_ms / unit[i].ms, unit[i].name);
    return text;
}

int ctr_time_order_batch(struct ctr_time_order *o, const struct ctr_batch *b, struct ctr_err *err)
{
    const struct ctr_col *c = o->looks ? &b->col[o->column] : NULL;

    for (int64_t i = 0; c && i < b->rows; i++) {
        int64_t t, back;
        if (ctr_col_missing(c, i))
            continue;
        t = ctr_col_i64(c, i);
        if (!o->any || t >= o->latest) {
            o->any = true;
            o->latest = t;
            continue;
        }
        if (__builtin_sub_overflow(o->latest, t, &back))
            back = INT64_MAX;
        o->first = o->rows++ ? o->first : b->first_row + i + 1;
        o->most_ms = CTR_MAX(o->most_ms, back);
        if (o->fail)
            return ctr_fail(err, CTR_EDATA,
                            "row %lld: its time (column %s) is %s before that of an earlier row: sort by time, or "
                            "allow it with --time-order",
                            (long long)o->first, b->schema->f[o->column].name, ctr_time_order_most(o).s);
    }
    return 0;
}
