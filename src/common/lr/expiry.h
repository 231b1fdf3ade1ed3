/* SPDX-License-Identifier: Apache-2.0
 *
 * expiry: drops keys that have not occurred for some days, so that an endless stream can be learned in bounded memory.
 * A table row stores, in 4 bytes after the learner's state, the day on which its key last occurred.
 *
 * Days are those of the stream (UTC). When a new latest day begins, keys whose last day is more than `days` before it
 * are dropped, whole days at a time, the oldest first, as long as `floor` keys remain. Rows of earlier days count as
 * the latest day. The result depends only on the preceding rows. */
#ifndef CTR_EXPIRY_H
#define CTR_EXPIRY_H

#include "common/table/table.h"

enum { CTR_DAY_BYTES = 4, CTR_NO_DAY = INT32_MIN };

struct ctr_expiry {
    int64_t days; /* 0: keys never expire, and nothing else is used */
    int64_t floor;
    uint32_t at;          /* offset of the day in a table row */
    int32_t today;        /* CTR_NO_DAY: before the first row */
    int64_t dropped;      /* keys, in this run and the runs it resumed */
    struct ctr_buf *gone; /* NULL, or gets each key that is dropped: */
};
struct ctr_expired {
    int table;
    uint64_t key;
};

/* Day `today` begins with its first row. Table rows without a day (from a model trained without expiry) get this day.
 */
int ctr_expiry_begin(struct ctr_expiry *e, struct ctr_keys *table, int tables, struct ctr_states *states, int32_t today,
                     struct ctr_err *err) CTR_MUST;

/* State for checkpoints. The rows do not always give the current day: all its keys may have been refused. */
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
