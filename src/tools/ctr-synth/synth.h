/* SPDX-License-Identifier: Apache-2.0
 *
 * synth: a synthetic world of users, ads, campaigns, impressions and clicks, written as text logs like those of a real
 * system. Every value is a function of the seed and of its entity (a user, an ad, a row), through counter-based random
 * numbers and without libm, so that a seed gives the same bytes everywhere.
 */
#ifndef CTR_SYNTH_H
#define CTR_SYNTH_H

#include "common/base/base.h"

struct ctr_synth_opts {
    uint64_t seed;
    int64_t rows, users, ads, campaigns, days; /* all > 0 */
    double click_rate;                         /* mean of the true probability, in (0, 1) */
    int64_t start_ms;                          /* time of the first day, ms since 1970 UTC */
    bool photos;                               /* ads come and go, and part of the truth is in their photographs */
};

/* The logs, in the order of ctr_synth_files[]. The last two only with `photos`. */
enum ctr_synth_file {
    CTR_SYNTH_USERS,
    CTR_SYNTH_ADS,
    CTR_SYNTH_CAMPAIGNS,
    CTR_SYNTH_IMPRESSIONS,
    CTR_SYNTH_CLICKS,
    CTR_SYNTH_BASIC,
    CTR_SYNTH_PHOTOS,
    CTR_SYNTH_PICTURES,
    CTR_SYNTH_NFILES
};
extern const char *const ctr_synth_files[CTR_SYNTH_NFILES];
int ctr_synth_nfiles(const struct ctr_synth_opts *opts);

/* Truth (log-odds): bias + user + ad + campaign + referrer + hour + os - position, plus pairs: interest with category,
 * gender with category, age band with category, city with category. The bias is set so that the mean probability is
 * click_rate. With photos it also includes ctr_synth_appeal (synth_photos.h). Clicks are drawn from it, and follow
 * their impression by seconds to more than an hour. Queries are drawn from it as well: the larger the log-odds, the
 * more often the query names the category of the ad. */
struct ctr_synth;
int ctr_synth_new(struct ctr_synth **s, const struct ctr_synth_opts *opts, struct ctr_err *err) CTR_MUST;
void ctr_synth_free(struct ctr_synth *s);
/* Write impressions and clicks, each in time order. `progress` may be NULL. */
int ctr_synth_write(struct ctr_synth *s, struct ctr_out *out[CTR_SYNTH_NFILES],
                    void (*progress)(void *ctx, int64_t rows), void *ctx, struct ctr_err *err) CTR_MUST;
int64_t ctr_synth_clicks(const struct ctr_synth *s); /* written so far */

#endif
