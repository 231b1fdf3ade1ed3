/* SPDX-License-Identifier: Apache-2.0
 *
 * signalseen.h: which values a vetting saw, kept with it, so that a later one can tell the share of its values that the
 * reference never saw.
 *
 * All distinct values up to SEEN_KEYS of them, then a sample: of level l are those whose hash has l zero bits at a
 * fixed place, one in 2^l. So two vettings that saw a value both have it, or, of the higher of their levels, neither
 * (adaptive sampling, Flajolet 1990). 256 KiB while it is measured, 64 KiB at most where it is kept. */
#ifndef CTR_SIGNALSEEN_H
#define CTR_SIGNALSEEN_H

#include "common/base/base.h"

/* While a stream is measured. */
struct ctr_seen;
int ctr_seen_new(struct ctr_seen **s, struct ctr_err *err) CTR_MUST;
void ctr_seen_add(struct ctr_seen *s, uint64_t hash);
int ctr_seen_save(const struct ctr_seen *s, struct ctr_buf *out, struct ctr_err *err) CTR_MUST; /* *out is emptied */
void ctr_seen_free(struct ctr_seen *s);

/* What one or more vettings saw, read back. Zero-initialise to start. */
struct ctr_seen_set {
    struct ctr_buf keys; /* uint64_t; bit 0: was seen once only; sorted when settled */
    int level;
    double values; /* of that level */
};
int ctr_seen_union(struct ctr_seen_set *u, const void *saved, size_t n, struct ctr_err *err) CTR_MUST;
void ctr_seen_settle(struct ctr_seen_set *u); /* after the last of them */
void ctr_seen_set_free(struct ctr_seen_set *u);

/* `share` of the values now that the reference never saw. `expected`: were both drawn from one distribution, it would
 * be about the share of the reference's values that it saw once (Good 1953); `noise`: two standard errors of the two at
 * most. False: one of them has no values. */
struct ctr_unseen {
    double share, expected, noise;
};
bool ctr_seen_compare(const struct ctr_seen *now, const struct ctr_seen_set *reference, struct ctr_unseen *u);

#endif
