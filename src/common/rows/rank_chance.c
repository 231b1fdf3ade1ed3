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
 * The integral is a trapezoid sum over z = -8, -8 + 1/16, …, 8, which for smooth p_j is exact to about 1e-9; a
 * candidate without uncertainty is a step, by which it is off by up to .01. P(k of …) is a recursion over the
 * candidates, n k steps a node. */
#include "common/rows/rank_impl.h"

#include <math.h>

enum { NODES = 257, FAR = 8, PER_UNIT = 16 };

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
    } else if (far < 37) {
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

static double value_at(const struct ctr_rank_how *how, const struct ctr_rank_candidate *c, double z)
{
    const double p = ctr_rank_explored(c->score, c->uncertainty * z);
    return how->bids ? c->bid * p : p;
}

static bool varies(const struct ctr_rank_how *how, const struct ctr_rank_candidate *c)
{
    return c->uncertainty > 0 && c->score > 0 && c->score < 1 && (!how->bids || c->bid > 0);
}

/* P(candidate j is above the floor and ranks above a value); `first`: it wins a tie. */
static double beats(const struct ctr_rank_how *how, const struct ctr_rank_candidate *j, double value, bool first)
{
    const double least = how->floors ? CTR_MAX(value, j->floor) : value;

    if (!varies(how, j)) {
        const double v = value_at(how, j, 0);
        return !(v < least) && (v > value || first);
    }
    const double share = how->bids ? least / j->bid : least;
    if (share <= 0)
        return 1;
    return share >= 1 ? 0 : ctr_normal_share((odds_of(j->score) - odds_of(share)) / j->uncertainty);
}

/* P(exactly `place` of the others beat candidate i, whose value this is). `p` has room for place + 1. */
static double beaten_by(const struct ctr_rank_how *how, const struct ctr_rank_candidate *c, int64_t n, int64_t i,
                        double value, int64_t place, double *p)
{
    p[0] = 1;
    for (int64_t k = 1; k <= place; k++)
        p[k] = 0;
    for (int64_t j = 0; j < n; j++) {
        const double win = j == i ? 0 : beats(how, &c[j], value, j < i);
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
    const bool moves = varies(how, &c[i]);
    double sum = 0, all = 0;
    int rc = ctr_buf_room(room, place + 1, sizeof(double), err);

    for (int k = 0; !rc && k < (moves ? NODES : 1); k++) {
        const double z = moves ? (double)k / PER_UNIT - FAR : 0, weight = ctr_exp(-z * z / 2);
        const double value = value_at(how, &c[i], z);
        all += weight;
        if (!how->floors || !(value < c[i].floor))
            sum += weight * beaten_by(how, c, n, i, value, place, (double *)(void *)room->data);
    }
    *chance = rc ? 0 : CTR_MIN(sum / all, 1);
    return rc;
}
