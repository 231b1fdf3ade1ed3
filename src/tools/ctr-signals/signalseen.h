/* SPDX-License-Identifier: Apache-2.0
 *
 * signalseen.h: the set of values seen by a vetting, stored with it, so that a later vetting can compute the share of
 * its values that are new.
 *
 * All distinct values up to SEEN_KEYS, then a sample: at level l those whose hash has l zero bits at a fixed position,
 * one in 2^l. So for a value seen by two vettings, at the higher of their levels either both have it or neither
 * (adaptive sampling, Flajolet 1990). 256 KiB while measuring, at most 64 KiB when stored. */
#ifndef CTR_SIGNALSEEN_H
#define CTR_SIGNALSEEN_H

#include "common/base/base.h"

/* In memory while a stream is measured. */
struct ctr_seen;
int ctr_seen_new(struct ctr_seen **s, struct ctr_err *err) CTR_MUST;
void ctr_seen_add(struct ctr_seen *s, uint64_t hash);
int ctr_seen_save(const struct ctr_seen *s, struct ctr_buf *out, struct ctr_err *err) CTR_MUST; /* empties *out first */
void ctr_seen_free(struct ctr_seen *s);

/* The values of one or more stored vettings. Zero-initialise to start. */
struct ctr_seen_set {
    struct ctr_buf keys; /* uint64_t; bit 0: seen only once; sorted by settle */
    int level;
    double values; /* of that level */
};
int ctr_seen_union(struct ctr_seen_set *u, const void *saved, size_t n, struct ctr_err *err) CTR_MUST;
void ctr_seen_settle(struct ctr_seen_set *u); /* call after the last of them */
void ctr_seen_set_free(struct ctr_seen_set *u);

/* `share` of the current values that are new to the reference. `expected`: if both had one distribution, about the
 * share of the reference's values seen only once (Good 1953); `noise`: at most two standard errors of both. False: one
 * of them has no values. */
struct ctr_unseen {
    double share, expected, noise;
};
bool ctr_seen_compare(const struct ctr_seen *now, const struct ctr_seen_set *reference, struct ctr_unseen *u);

#endif
