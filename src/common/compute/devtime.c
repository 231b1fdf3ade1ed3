/* SPDX-License-Identifier: Apache-2.0
 *
 * devtime: profiles learning: with $CTR_PROFILE each operation is waited for. See compute.h. */
#include <stdlib.h>

#include "common/compute/compute.h"

bool ctr_dev_times(void)
{
    const char *on = getenv("CTR_PROFILE");
    return on && *on;
}

void ctr_dev_time_enter(struct ctr_dev_time *t)
{
    if (!ctr_dev_times())
        return;
    const double at = 1e-9 * (double)ctr_clock_ns();
    t->start = t->start > 0 ? t->start : at;
    t->outside += t->left > 0 ? at - t->left : 0;
}

void ctr_dev_time_leave(struct ctr_dev_time *t)
{
    t->left = t->start > 0 ? 1e-9 * (double)ctr_clock_ns() : 0;
}

static void line(const char *what, double seconds, double all, struct ctr_say *text)
{
    ctr_say(text, "time %-15s %.3f s (%.1f%%)\n", what, seconds, 100 * seconds / all);
}

void ctr_dev_time_summary(const struct ctr_dev_time *t, const struct ctr_dev *dev, struct ctr_say *text)
{
    const double all = t->left - t->start;
    double rest = all - t->outside;
    if (!(all > 0))
        return;
    for (int op = 0; op < CTR_DEV_OP_COUNT; op++) {
        const double seconds = ctr_dev_seconds(dev, op);
        rest -= seconds;
        if (seconds > 0)
            line(ctr_dev_op_name(op), seconds, all, text);
    }
    line("keys, tables", rest, all, text);
    line("input", t->outside, all, text);
}
