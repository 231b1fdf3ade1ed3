/* SPDX-License-Identifier: Apache-2.0
 *
 * oldtimes: columns of times that all lie before 1990: seconds since 1970 that were read as milliseconds lie in January
 * 1970. */
#ifndef CTR_IMPORT_OLDTIMES_H
#define CTR_IMPORT_OLDTIMES_H

#include "common/stream/batch.h"

struct ctr_old_times {
    int64_t *last; /* of each column; INT64_MIN: no time so far */
    int64_t *first;
    int n;
};
int ctr_old_times_see(struct ctr_old_times *t, const struct ctr_batch *b, struct ctr_err *err) CTR_MUST;
void ctr_old_times_tell(const struct ctr_old_times *t, const struct ctr_schema *s,
                        void (*note)(void *ctx, const char *text), void *ctx);
void ctr_old_times_free(struct ctr_old_times *t);

#endif
