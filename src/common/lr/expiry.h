/* SPDX-License-Identifier: Apache-2.0
 *
 * expiry: keys that have not come for some days leave the tables, so that a stream that never ends can be learned in
 * bounded memory. A table row holds, in 4 bytes behind the learner's state, the day on which its key came last.
 *
 * Days are those of the stream (UTC). When one begins that is later than all before it, keys whose last day lies more
 * than `days` before it are dropped, whole days at a time, the oldest first, as long as `floor` keys are left. Rows
 * of earlier days count for the latest day. So what is dropped depends on the rows before alone. */
#ifndef CTR_EXPIRY_H
#define CTR_EXPIRY_H

#include "common/table/table.h"

enum { CTR_DAY_BYTES = 4, CTR_NO_DAY = INT32_MIN };

struct ctr_expiry {
    int64_t days; /* 0: keys stay for ever, and nothing else is used */
    int64_t floor;
    uint32_t at;     /* where in a table row its day lies */
    int32_t today;   /* CTR_NO_DAY: no row came yet */
    int64_t dropped; /* keys, in this run and those that it resumes */
};

/* Day `today` begins, with its first row. Rows without a day (of a model that was learned without expiry) get this one.
 */
int ctr_expiry_begin(struct ctr_expiry *e, struct ctr_keys *table, int tables, struct ctr_states *states, int32_t today,
                     struct ctr_err *err) CTR_MUST;

/* What a checkpoint keeps of it. The day cannot always be told from the rows: its keys may all have been refused. */
enum { CTR_EXPIRY_WORDS = 2 };
int ctr_expiry_save(const struct ctr_expiry *e, struct ctr_buf *words, struct ctr_err *err) CTR_MUST;
void ctr_expiry_load(struct ctr_expiry *e, const uint64_t *word);

static inline int32_t ctr_expiry_day(const struct ctr_expiry *e, const uint8_t *row)
{
    int32_t day;
    memcpy(&day, row + e->at, sizeof day);
    return day;
}
static inline void ctr_expiry_stamp(const struct ctr_expiry *e, uint8_t *row, int32_t day)
{
    memcpy(row + e->at, &day, sizeof day);
}

#endif
