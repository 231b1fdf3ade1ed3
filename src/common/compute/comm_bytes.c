/* SPDX-License-Identifier: Apache-2.0
 *
 * What the ranks of a run sent to each other, as a table. */
#include "common/compute/comm.h"

/* A rank keeps its own part of a sum: of sums, what leaves a rank counts. */
static int64_t counted(const struct ctr_comm_bytes *sum, enum ctr_comm_kind kind)
{
    return kind == CTR_COMM_SYNC || kind == CTR_COMM_SYNC_TOWER ? sum->away[kind] : sum->all[kind];
}

static bool of_rows(enum ctr_comm_kind kind)
{
    return kind == CTR_COMM_VECTORS || kind == CTR_COMM_GRADIENTS || kind == CTR_COMM_IMAGE_VECTORS ||
           kind == CTR_COMM_IMAGE_GRADIENTS;
}

void ctr_comm_bytes_text(const struct ctr_comm_bytes *sum, int64_t steps, const double *formula, struct ctr_say *text)
{
    const double kib = 1024, unit = kib * (double)steps;
    double rows[3] = { 0 };
    ctr_say_format(text, "%-20s %12s %12s %12s\n", "KiB a step", "formula", "counted", "to others");
    for (enum ctr_comm_kind k = 0; k < CTR_COMM_KINDS; k++) {
        const double all = (double)counted(sum, k) / unit, away = (double)sum->away[k] / unit;
        if (formula[k] < 0 && !sum->all[k])
            continue;
        ctr_say_format(text, "%-20s ", ctr_comm_kind_name[k]);
        if (formula[k] < 0)
            ctr_say(text, "%12s ", "");
        else
            ctr_say(text, "%12.1f ", formula[k] / kib);
        ctr_say(text, "%12.1f %12.1f\n", all, away);
        if (of_rows(k)) {
            rows[0] += CTR_MAX(formula[k], 0) / kib;
            rows[1] += all;
            rows[2] += away;
        }
    }
    ctr_say(text, "%-20s %12.1f %12.1f %12.1f\n", "vectors, gradients", rows[0], rows[1], rows[2]);
}
