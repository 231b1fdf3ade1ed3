/* SPDX-License-Identifier: Apache-2.0
 *
 * timeorder: counts rows whose time is before that of an earlier row. For such rows progressive validation predicts
 * with a model that has learned from later rows, and expiry uses the latest day seen. The count depends only on the
 * preceding rows; rows without a time are ignored. */
#ifndef CTR_TIMEORDER_H
#define CTR_TIMEORDER_H

#include "common/stream/stream.h"

struct ctr_time_order {
    bool looks, fail; /* check at all; treat such a row as an error */
    int column;       /* the time column */
    bool any;         /* a time was seen; the latest so far: */
    int64_t latest;
    int64_t rows, first; /* number of such rows; the first of them, from 1 */
    int64_t most_ms;     /* the largest time difference to an earlier row */
};
/* Process the next batch. */
int ctr_time_order_batch(struct ctr_time_order *o, const struct ctr_batch *b, struct ctr_err *err) CTR_MUST;
/* The largest time difference as text such as "2.5h". */
struct ctr_time_order_text {
    char s[32];
};
struct ctr_time_order_text ctr_time_order_most(const struct ctr_time_order *o);

#endif
