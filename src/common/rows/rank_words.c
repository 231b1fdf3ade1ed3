/* SPDX-License-Identifier: Apache-2.0
 *
 * rank_words: texts of ctr-rank's and ctr-serve's options --slots and --explore. */
#include "common/rows/rank.h"

#include <math.h>

int ctr_rank_read_slots(void *to, const char *text, struct ctr_err *err)
{
    struct ctr_rank_slots *s = to;
    struct ctr_strs parts = { 0 };
    int64_t n = 0;
    int rc = ctr_strs_split(&parts, text, ',', err);
    const bool count = !rc && parts.n == 1 && ctr_parse_i64(text, strlen(text), &n);
    if (!rc && (count ? n < 1 || n > CTR_RANK_SLOTS : parts.n < 2 || parts.n > CTR_RANK_SLOTS))
        rc = ctr_fail(err, CTR_EUSAGE, "wants a number of slots, 1 to %d, or the factor of each, as in 1,0.6,0.4",
                      CTR_RANK_SLOTS);
    s->n = count ? (int)n : parts.n;
    for (int i = 0; !rc && i < s->n; i++) {
        s->factor[i] = 1;
        if (count)
            continue;
        double *f = &s->factor[i];
        if (!ctr_parse_f64(parts.s[i], strlen(parts.s[i]), f) || !(*f > 0 && *f <= 1) || (i && *f > f[-1]))
            rc = ctr_fail(err, CTR_EUSAGE, "wants factors above 0 and up to 1, none above the one before it: %.40s",
                          parts.s[i]);
    }
    ctr_strs_free(&parts);
    return rc;
}

int ctr_rank_read_explore(void *to, const char *text, struct ctr_err *err)
{
    struct ctr_rank_exploring *e = to;
    const char *value = strchr(text, '=');
    const size_t n = value ? (size_t)(value - text) : strlen(text);
    const bool number = value && ctr_parse_f64(value + 1, strlen(value + 1), &e->amount) && e->amount >= 0;
    e->kind = !strcmp(text, "thompson")                                             ? CTR_EXPLORE_THOMPSON
              : n == 3 && !memcmp(text, "ucb", 3) && number && e->amount < INFINITY ? CTR_EXPLORE_UCB
              : n == 7 && !memcmp(text, "epsilon", 7) && number && e->amount <= 1   ? CTR_EXPLORE_EPSILON
                                                                                    : CTR_EXPLORE_NONE;
    if (e->kind)
        return 0;
    return ctr_fail(err, CTR_EUSAGE, "wants ucb=C (C 0 or more), thompson, or epsilon=E (E between 0 and 1)");
}
