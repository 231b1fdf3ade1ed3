/* SPDX-License-Identifier: Apache-2.0
 *
 * calstate: a calibration map in memory, shared by what fits it (ctr-calibrate) and calmap.c (saves, loads, applies
 * it).
 */
#ifndef CTR_CALSTATE_H
#define CTR_CALSTATE_H

#include "common/metric/evalstate.h"
#include "common/metric/calmap.h"

/* Isotonic: knots, scores strictly ascending and values not descending. The others: two parameters. */
struct ctr_knot {
    double score, value;
};
struct ctr_cal_part {
    char *text; /* the slice's value; NULL: null, or for part 0 */
    size_t text_bytes;
    bool mapped; /* has its own map; always true for part 0, the global map */
    enum ctr_cal_kind kind;
    struct ctr_buf knots;
    double a, b; /* power: ln gamma and kappa; platt: intercept and slope */
};

struct ctr_cal_map {
    char *by; /* or NULL */
    struct ctr_cal_part *part;
    int n, cap;
    struct ctr_idmap ids; /* of ctr_cal_hash to part - 1 */
};

static inline uint64_t ctr_cal_hash(const char *text, size_t n)
{
    return text ? ctr_hash64(text, n, ctr_hash_secret) : 0;
}
static inline bool ctr_cal_same(const char *a, size_t a_n, const char *b, size_t b_n)
{
    return a_n == b_n && !a == !b && (!a || !memcmp(a, b, a_n));
}
const char *ctr_cal_kind_name(enum ctr_cal_kind kind);
/* A new, empty part; returns its index. */
int ctr_cal_part_add(struct ctr_cal_map *m, const char *text, size_t n, struct ctr_err *err) CTR_MUST;

/* ln p and ln(p / (1 - p)), with the score kept 2^-52 away from where they are infinite. */
double ctr_cal_log(double score);
double ctr_cal_logit(double score);

#endif
