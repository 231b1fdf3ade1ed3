/* SPDX-License-Identifier: Apache-2.0
 *
 * evallive: windows of an endless stream. */
#ifndef CTR_EVALLIVE_H
#define CTR_EVALLIVE_H

#include "common/metric/metric.h"

/* Windows of an endless stream, in bounded memory: evallive.c. A window closes when a row is later than its end by
 * lateness_ms; `over` then receives it, finished, in window order. Open windows share the memory. */
struct ctr_eval_live;
struct ctr_eval_live_opts {
    struct ctr_eval_opts eval; /* window_ms > 0; no `keep` */
    int64_t lateness_ms;
    struct ctr_pool *pool; /* or NULL */
    int (*over)(void *ctx, struct ctr_eval *e, int64_t window, struct ctr_err *err);
    void *ctx;
};
int ctr_eval_live_new(struct ctr_eval_live **l, const struct ctr_schema *s, const struct ctr_eval_live_opts *o,
                      struct ctr_err *err) CTR_MUST;
void ctr_eval_live_free(struct ctr_eval_live *l);
int ctr_eval_live_batch(struct ctr_eval_live *l, const struct ctr_batch *b, const double *control,
                        struct ctr_err *err) CTR_MUST;
int ctr_eval_live_finish(struct ctr_eval_live *l, struct ctr_err *err) CTR_MUST; /* closes the open windows */
int64_t
ctr_eval_live_late(const struct ctr_eval_live *l); /* rows that arrived after their window closed, and were left out */

#endif
