/* SPDX-License-Identifier: Apache-2.0
 *
 * changed: which rows of a table changed since the last checkpoint, a bit each by number, so that a delta holds these
 * alone. Zero-initialise; nothing is noted before ctr_changed_start. A row is noted when it is made and whenever it is
 * written; there must be room for it. One thread at a time. */
#ifndef CTR_CHANGED_H
#define CTR_CHANGED_H

#include "common/base/base.h"

/* Of learners and sources: from now on note what changes, and forget what was noted; save what was noted alone; save
 * all. */
enum ctr_changes { CTR_CHANGES_NOTE, CTR_CHANGES_ONLY, CTR_CHANGES_ALL };

struct ctr_changed {
    bool on;            /* changes are noted */
    bool only;          /* visits of all rows pass over those that did not change */
    struct ctr_buf bit; /* 64 rows a word; rows beyond did not change */
};

/* Room to note rows below n, once changes are noted. */
static inline int ctr_changed_room(struct ctr_changed *c, uint64_t n, struct ctr_err *err)
{
    const size_t bytes = (size_t)(n + 63) / 64 * sizeof(uint64_t), old = c->bit.len;
    if (!c->on || bytes <= old)
        return 0;
    int rc = ctr_buf_reserve(&c->bit, bytes - old + old / 8, err);
    if (!rc) {
        memset(c->bit.data + old, 0, bytes - old);
        c->bit.len = bytes;
    }
    return rc;
}
/* From now on; what was noted is forgotten. There are `rows` rows. */
static inline int ctr_changed_start(struct ctr_changed *c, uint64_t rows, struct ctr_err *err)
{
    c->on = true;
    ctr_buf_clear(&c->bit);
    return ctr_changed_room(c, rows, err);
}
static inline void ctr_changed_note(struct ctr_changed *c, uint64_t row)
{
    ((uint64_t *)(void *)c->bit.data)[row / 64] |= (uint64_t)1 << row % 64;
}
static inline void ctr_changed_put(struct ctr_changed *c, uint64_t row, bool changed)
{
    uint64_t *word = (uint64_t *)(void *)c->bit.data + row / 64;
    *word = (*word & ~((uint64_t)1 << row % 64)) | (uint64_t)changed << row % 64;
}
static inline bool ctr_changed_has(const struct ctr_changed *c, uint64_t row)
{
    return row / 64 < c->bit.len / sizeof(uint64_t) &&
           ((const uint64_t *)(const void *)c->bit.data)[row / 64] >> row % 64 & 1;
}
/* What a source is asked for, of one table. */
static inline int ctr_changed_set(struct ctr_changed *c, enum ctr_changes what, uint64_t rows, struct ctr_err *err)
{
    c->only = what == CTR_CHANGES_ONLY;
    return what == CTR_CHANGES_NOTE ? ctr_changed_start(c, rows, err) : 0;
}
/* Does a visit pass over the row? */
static inline bool ctr_changed_skips(const struct ctr_changed *c, uint64_t row)
{
    return c->only && !ctr_changed_has(c, row);
}
static inline void ctr_changed_free(struct ctr_changed *c)
{
    ctr_buf_free(&c->bit);
    *c = (struct ctr_changed){ .on = false };
}

#endif
