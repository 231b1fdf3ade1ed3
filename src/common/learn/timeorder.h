/* SPDX-License-Identifier: Apache-2.0
 *
 * timeorder: rows whose time lies before that of an earlier row. Progressive validation then predicts a row by a model
 * that has learned from later ones, and expiry takes its day for the latest. Which rows these are is a matter of the
 * rows before alone; a row without a time is none. */
#ifndef CTR_TIMEORDER_H
#define CTR_TIMEORDER_H

#include "common/stream/stream.h"

struct ctr_time_order {
    bool looks, fail; /* else nothing is looked at; such a row is an error */
    int column;       /* of times */
    bool any;         /* a time came; the latest so far: */
    int64_t latest;
    int64_t rows, first; /* such rows; the first of them, from 1 */
    int64_t most_ms;     /* that one of them lies before an earlier row */
};
/* The next batch. */
int ctr_time_order_batch(struct ctr_time_order *o, const struct ctr_batch *b, struct ctr_err *err) CTR_MUST;
/* How far back they lie, in words such as "2.5h". */
struct ctr_time_order_text {
    char s[32];
};
struct ctr_time_order_text ctr_time_order_most(const struct ctr_time_order *o);

#endif
