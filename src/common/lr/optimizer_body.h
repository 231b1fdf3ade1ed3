/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops of optimizers over the coordinates of a row. optimizer_kernel.c includes this text once per instruction set and
 * type, with NAME, ATTRIBUTES, REAL and VECTOR defined. Arrays are padded with coordinates whose x and state are 0, so
 * that the compiler can use whole vectors; no step changes them. */

#define PARAMS                                                                                                         \
    const REAL inv_alpha = (REAL)p->inv_alpha, alpha = (REAL)p->alpha, beta = (REAL)p->beta, l1 = (REAL)p->l1,         \
               l2 = (REAL)p->l2;                                                                                       \
    (void)inv_alpha, (void)alpha, (void)beta, (void)l1, (void)l2

/* ---- the counter of the learning rate ---- */

ATTRIBUTES static void NAME(root_squares)(const struct ctr_learning *p, const struct ctr_coords *s, int64_t room)
{
    const REAL *restrict n = s->n;
    REAL *restrict root = s->root;
    (void)p;
    for (int64_t i = 0; i < room; i++)
        root[i] = sqrt(n[i]);
}

ATTRIBUTES static void NAME(root_counts)(const struct ctr_learning *p, const struct ctr_coords *s, int64_t room)
{
    const uint32_t *restrict count = s->more->count;
    REAL *restrict n = s->n, *restrict root = s->root;
    float seen;
    (void)p;
    for (int64_t i = 0; i < room; i++) {
        const float mean = ctr_count_mean(count[i], &seen);
        n[i] = (REAL)mean;
        root[i] = (REAL)sqrtf(mean);
    }
}

ATTRIBUTES static void NAME(root_global)(const struct ctr_learning *p, const struct ctr_coords *s, int64_t room)
{
    REAL *restrict root = s->root;
    const REAL all = (REAL)s->more->event.root;
    (void)p;
    for (int64_t i = 0; i < room; i++)
        root[i] = all;
}

/* A held coordinate has an infinite root, so its step is 0. While it is held, n is minus its occurrences. */
CTR_BODY void NAME(advance_squares_any)(const struct ctr_learning *p, const struct ctr_coords *s, int64_t room,
                                        double g, const bool holds)
{
    REAL *restrict n = s->n, *restrict next = s->more->next;
    const double *restrict x = s->x;
    const REAL threshold = (REAL)p->threshold;
    for (int64_t i = 0; i < room; i++) {
        REAL gi = (REAL)(g * x[i]);
        if (holds) {
            bool held = (n[i] <= 0) & (-n[i] < threshold);
            REAL one = gi != 0 ? 1 : 0, from = n[i] > 0 ? n[i] : 0;
            REAL to = from + gi * gi;
            next[i] = held ? (REAL)INFINITY : sqrt(to);
            n[i] = held ? n[i] - one : to;
        } else {
            n[i] += gi * gi;
            next[i] = sqrt(n[i]);
        }
    }
}

CTR_BODY void NAME(advance_counts_any)(const struct ctr_learning *p, const struct ctr_coords *s, int64_t room,
                                       const bool holds)
{
    uint32_t *restrict count = s->more->count;
    const uint32_t *restrict high = s->more->high;
    REAL *restrict n = s->n, *restrict next = s->more->next;
    const double *restrict x = s->x;
    const float threshold = (float)p->threshold;
    const uint32_t draw = (uint32_t)(s->more->event.draw >> 32), shift = s->more->event.positive ? 16 : 0;
    const uint32_t once = count_weighted(s, room) ? 0 : 1;
    for (int64_t i = 0; i < room; i++) {
        uint32_t c = count[i], own = c >> shift & 0xffff, below = (1u << (own >> CTR_COUNT_BITS)) - 1;
        uint32_t hit = (((high[i] + draw) & below) == 0) & once;
        hit &= (x[i] != 0) & (own != 0xffff);
        c += hit << shift;
        float seen;
        const float mean = ctr_count_mean(c, &seen);
        count[i] = c;
        n[i] = (REAL)mean;
        next[i] = (REAL)sqrtf(mean);
        if (holds)
            next[i] = seen <= threshold ? (REAL)INFINITY : next[i];
    }
}

CTR_BODY void NAME(advance_global_any)(const struct ctr_learning *p, const struct ctr_coords *s, int64_t room, double g,
                                       const bool holds)
{
    REAL *restrict n = s->n, *restrict next = s->more->next;
    const double *restrict x = s->x;
    const REAL threshold = (REAL)p->threshold, all = (REAL)s->more->event.next;
    for (int64_t i = 0; i < room; i++) {
        next[i] = all;
        if (holds) {
            bool held = -n[i] < threshold;
            REAL one = g * x[i] != 0 ? 1 : 0;
            next[i] = held ? (REAL)INFINITY : all;
            n[i] = held ? n[i] - one : n[i];
        }
    }
}

#define ADVANCE(name, call, holds)                                                                                     \
    ATTRIBUTES static void NAME(name)(const struct ctr_learning *p, const struct ctr_coords *s, int64_t room,          \
                                      double g)                                                                        \
    {                                                                                                                  \
        (void)g;                                                                                                       \
        call;                                                                                                          \
    }
ADVANCE(advance_squares, NAME(advance_squares_any)(p, s, room, g, false), false)
ADVANCE(advance_squares_hold, NAME(advance_squares_any)(p, s, room, g, true), true)
ADVANCE(advance_counts, NAME(advance_counts_any)(p, s, room, false), false)
ADVANCE(advance_counts_hold, NAME(advance_counts_any)(p, s, room, true), true)
ADVANCE(advance_global, NAME(advance_global_any)(p, s, room, g, false), false)
ADVANCE(advance_global_hold, NAME(advance_global_any)(p, s, room, g, true), true)
#undef ADVANCE

/* ---- weights ---- */

CTR_LANES_DOT(NAME(dot), REAL, WIDTH)

/* ftrl and rda: the minimum of z w + l1 |w| + (1/eta + l2) w^2 / 2. */
ATTRIBUTES static double NAME(weights_dual)(const struct ctr_learning *p, const struct ctr_coords *s, int64_t room)
{
    const REAL *restrict z = s->z, *restrict root = s->root;
    REAL *restrict w = s->w;
    PARAMS;
    for (int64_t i = 0; i < room; i++) {
        REAL size = fabs(z[i]) - l1, v = size / ((beta + root[i]) * inv_alpha + l2);
        v = z[i] > 0 ? -v : v;
        w[i] = size <= 0 ? 0 : v;
    }
    return NAME(dot)(w, s->x, room);
}

/* ftrl with one rate for all coordinates: see step_ftrl_global. */
ATTRIBUTES static double NAME(weights_ftrl_global)(const struct ctr_learning *p, const struct ctr_coords *s,
                                                   int64_t room)
{
    const REAL *restrict z = s->z;
    REAL *restrict w = s->w;
    const REAL edge = (REAL)p->alpha * (REAL)p->l1;
    for (int64_t i = 0; i < room; i++) {
        REAL size = fabs(z[i]) - edge, v = z[i] > 0 ? -size : size;
        w[i] = size <= 0 ? 0 : v;
    }
    return NAME(dot)(w, s->x, room);
}

ATTRIBUTES static double NAME(weights_primal)(const struct ctr_learning *p, const struct ctr_coords *s, int64_t room)
{
    (void)p;
    memcpy(s->w, s->z, (size_t)room * sizeof(REAL));
    return NAME(dot)(s->w, s->x, room);
}

/* ---- steps ---- */

ATTRIBUTES static void NAME(step_ftrl)(const struct ctr_learning *p, const struct ctr_coords *s, int64_t room, double g)
{
    REAL *restrict z = s->z;
    const REAL *restrict w = s->w, *restrict root = s->root, *restrict next = s->more->next;
    const double *restrict x = s->x;
    PARAMS;
    for (int64_t i = 0; i < room; i++) {
        REAL gi = (REAL)(g * x[i]), sigma = (next[i] - root[i]) * inv_alpha;
        z[i] += gi - sigma * w[i];
    }
}

/* With one rate for all, every event changes z of every coordinate with a nonzero weight, but not that weight. So the
 * table stores an invariant: alpha z if the weight is 0, else alpha l1 + |w| with the sign of z. Loading converts it to
 * z with the rate before the row, storing converts back with the rate after it. */
ATTRIBUTES static void NAME(step_ftrl_global)(const struct ctr_learning *p, const struct ctr_coords *s, int64_t room,
                                              double g)
{
    REAL *restrict z = s->z;
    const REAL *restrict w = s->w;
    const double *restrict x = s->x;
    PARAMS;
    const REAL root = (REAL)s->more->event.root, next = (REAL)s->more->event.next, edge = alpha * l1;
    const REAL before = (beta + root) * inv_alpha + l2, after = (beta + next) * inv_alpha + l2;
    const REAL sigma = (next - root) * inv_alpha;
    for (int64_t i = 0; i < room; i++) {
        REAL gi = (REAL)(g * x[i]), size = fabs(z[i]) - edge;
        REAL live = l1 + size * before, still = fabs(z[i]) * inv_alpha;
        REAL alive = (REAL)(size > 0); /* a factor, not a condition: conditions become branches here */
        REAL from = copysign(alive * live + (1 - alive) * still, z[i]);
        REAL to = from + gi - sigma * w[i], over = fabs(to) - l1;
        REAL dead = fabs(to) * alpha, moved = edge + over / after;
        alive = (REAL)(over > 0);
        z[i] = copysign(alive * moved + (1 - alive) * dead, to);
    }
}

ATTRIBUTES static void NAME(step_rda)(const struct ctr_learning *p, const struct ctr_coords *s, int64_t room, double g)
{
    REAL *restrict z = s->z;
    const double *restrict x = s->x;
    (void)p;
    for (int64_t i = 0; i < room; i++)
        z[i] += (REAL)(g * x[i]);
}

/* If beta and the counter are 0, their sum counts as 1. */
CTR_BODY REAL NAME(eta)(REAL alpha, REAL by)
{
    return alpha / (by + (REAL)(by == 0));
}

ATTRIBUTES static void NAME(step_ogd)(const struct ctr_learning *p, const struct ctr_coords *s, int64_t room, double g)
{
    REAL *restrict w = s->z;
    const REAL *restrict next = s->more->next;
    const double *restrict x = s->x;
    PARAMS;
    for (int64_t i = 0; i < room; i++) {
        REAL gi = (REAL)(g * x[i]), eta = NAME(eta)(alpha, beta + next[i]);
        REAL sign = l1 * (REAL)((w[i] > 0) - (w[i] < 0));
        w[i] -= eta * (gi + (sign + l2 * w[i]));
    }
}

ATTRIBUTES static void NAME(step_fobos)(const struct ctr_learning *p, const struct ctr_coords *s, int64_t room,
                                        double g)
{
    REAL *restrict w = s->z;
    const REAL *restrict next = s->more->next;
    const double *restrict x = s->x;
    PARAMS;
    for (int64_t i = 0; i < room; i++) {
        REAL gi = (REAL)(g * x[i]), eta = NAME(eta)(alpha, beta + next[i]);
        REAL half = w[i] - eta * gi, size = fabs(half) - eta * l1, to = size / (1 + eta * l2);
        to = half < 0 ? -to : to;
        w[i] = size <= 0 ? 0 : to;
    }
}
