/* SPDX-License-Identifier: Apache-2.0
 *
 * rank_chance: normal numbers, and the chance of a place under Thompson sampling.
 *
 * Each candidate's log-odds get its uncertainty times a normal number of its own. Given candidate i's number z, its
 * value is v(z), and the others beat it independently, j with the chance
 *
 *     p_j(z) = P(value of j > v(z), and not below j's floor) = 1 - Phi((log-odds of max(v(z), floor_j) / bid_j -
 * odds_j) / u_j)
 *
 * so the number of those that do is Poisson-binomial, and i has place k (0: first) with the chance
 *
 *     integral of phi(z) [v(z) is not below i's floor] P(k of the others beat i | z) dz
 *
 * The integral is a trapezoid sum over z = -6, -6 + 1/16, …, 6, which for smooth p_j is exact to about 1e-8; a
 * candidate without uncertainty is a step, by which it is off by up to .01. P(k of …) is a recursion over the
 * candidates, n k steps a node; those that beat i with a chance below 1e-12 at its lowest value are left out. */
#include "common/rows/rank_impl.h"

#include <math.h>

enum { NODES = 193, FAR = 6, PER_UNIT = 16 };
static const double NEVER = 1e-12;

/* Hart's rational approximation, as in Graeme West, "Better approximations to cumulative normal functions", Wilmott
 * 2005. */
double ctr_normal_share(double x)
{
    static const double above[] = { 3.52624965998911e-2, .700383064443688, 6.37396220353165, 33.912866078383,
                                    112.079291497871,    221.213596169931, 220.206867912376 };
    static const double below[] = { 8.83883476483184e-2, 1.75566716318264, 16.064177579207,  86.7807322029461,
                                    296.564248779674,    637.333633378831, 793.826512519948, 440.413735824752 };
    const double far = fabs(x);
    double share = 0;

    if (far < 7.07106781186547) {
        double a = above[0], b = below[0];
        for (size_t i = 1; i < CTR_COUNT(above); i++)
            a = a * far + above[i];
        for (size_t i = 1; i < CTR_COUNT(below); i++)
            b = b * far + below[i];
        share = ctr_exp(-far * far / 2) * a / b;
    } else if (far < 9) {
        const double b = far + 1 / (far + 2 / (far + 3 / (far + 4 / (far + .65))));
        share = ctr_exp(-far * far / 2) / b / 2.506628274631;
    }
    return x > 0 ? 1 - share : share;
}

/* Marsaglia's polar method: points of a square until one lies in the circle. */
double ctr_normal_draw(uint64_t seed, uint64_t stream)
{
    for (uint64_t k = 0;; k += 2) {
        const double x = 2 * ctr_random01(seed, stream, k) - 1, y = 2 * ctr_random01(seed, stream, k + 1) - 1;
        const double s = x * x + y * y;
        if (s > 0 && s < 1)
            return x * sqrt(-2 * ctr_log(s) / s);
    }
}

/* The log-odds of a score; infinite at 0 and 1. */
static double odds_of(double score)
{
    return score <= 0 ? -INFINITY : score >= 1 ? INFINITY : ctr_log(score) - ctr_log1p(-score);
}

double ctr_rank_explored(double score, double shift)
{
    return shift == 0 || score <= 0 || score >= 1 ? score : ctr_sigmoid(odds_of(score) + shift);
}

void ctr_rank_prepare(const struct ctr_rank_how *how, struct ctr_rank_candidate *c, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        c[i].odds = odds_of(c[i].score);
        c[i].varies = c[i].uncertainty > 0 && c[i].score > 0 && c[i].score < 1 && (!how->bids || c[i].bid > 0);
    }
}

/* A value, with what comparisons with others need of it. */
struct level {
    double value, log, odds;
};

static struct level level_of(double value)
{
    return (struct level){ value, value > 0 ? ctr_log(value) : -INFINITY, odds_of(value) };
}

static double value_at(const struct ctr_rank_how *how, const struct ctr_rank_candidate *c, double z)
{
    const double p = c->varies ? ctr_sigmoid(c->odds + c->uncertainty * z) : c->score;
    return how->bids ? c->bid * p : p;
}

/* P(candidate j is above the floor and ranks above a value); `first`: it wins a tie. */
static double beats(const struct ctr_rank_how *how, const struct ctr_rank_candidate *j, struct level at, bool first)
{
    const double value = at.value;

    if (how->floors && j->floor > value)
        at = level_of(j->floor);
    if (!j->varies) {
        const double v = value_at(how, j, 0);
        return !(v < at.value) && (v > value || first);
    }
    if (at.value <= 0)
        return 1;
    if (at.value >= (how->bids ? j->bid : 1))
        return 0;
    const double odds = how->bids ? at.log - ctr_log(j->bid - at.value) : at.odds;
    return ctr_normal_share((j->odds - odds) / j->uncertainty);
}

/* The others that may beat candidate i, as numbers; `may` has room for n. */
static int64_t find_rivals(const struct ctr_rank_how *how, const struct ctr_rank_candidate *c, int64_t n, int64_t i,
                           int64_t *may)
{
    const struct level lowest = level_of(value_at(how, &c[i], -FAR));
    int64_t k = 0;

    for (int64_t j = 0; j < n; j++)
        if (j != i && beats(how, &c[j], lowest, j < i) > NEVER)
            may[k++] = j;
    return k;
}

/* P(exactly `place` of n rivals beat candidate i, whose value this is). `p` has room for place + 1. */
static double beaten_by(const struct ctr_rank_how *how, const struct ctr_rank_candidate *c, const int64_t *rival,
                        int64_t n, int64_t i, double value, int64_t place, double *p)
{
    const struct level at = level_of(value);

    p[0] = 1;
    for (int64_t k = 1; k <= place; k++)
        p[k] = 0;
    for (int64_t r = 0; r < n; r++) {
        const double win = beats(how, &c[rival[r]], at, rival[r] < i);
        if (win == 0)
            continue;
        for (int64_t k = place; k > 0; k--)
            p[k] = p[k] * (1 - win) + p[k - 1] * win;
        p[0] *= 1 - win;
    }
    return p[place];
}

int ctr_rank_chance(const struct ctr_rank_how *how, const struct ctr_rank_candidate *c, int64_t n, int64_t i,
                    int64_t place, struct ctr_buf *room, double *chance, struct ctr_err *err)
{
    const bool moves = c[i].varies;
    double sum = 0, all = 0;
    int rc = ctr_buf_room(room, n + place + 1, sizeof(double), err);
    double *p = (double *)(void *)room->data;
    int64_t *rival = (int64_t *)(void *)(p + place + 1), rivals = rc ? 0 : find_rivals(how, c, n, i, rival);

    for (int k = 0; !rc && k < (moves ? NODES : 1); k++) {
        const double z = moves ? (double)k / PER_UNIT - FAR : 0, weight = ctr_exp(-z * z / 2);
        const double value = value_at(how, &c[i], z);
        all += weight;
        if (!how->floors || !(value < c[i].floor))
            sum += weight * beaten_by(how, c, rival, rivals, i, value, place, p);
    }
    *chance = rc ? 0 : CTR_MIN(sum / all, 1);
    return rc;
}
