/* SPDX-License-Identifier: Apache-2.0
 *
 * One coordinate at a time, as in files: a table row to numbers and back, and its weight with the bits of the kernels.
 * Their formulas appear here again without vectors, and tests compare the kernels with them. */
#include <math.h>

#include "common/lr/optimizer.h"

static float of_counts(const struct ctr_state *s)
{
    float negatives = (float)s->negatives, positives = (float)s->positives, sum = negatives + positives;
    return negatives * positives / (sum > 1 ? sum : 1);
}

static double root64(const struct ctr_learning *l, const struct ctr_event *e, const struct ctr_state *s)
{
    if (l->rate == CTR_RATE_COUNTS)
        return l->power == 0.5 ? (double)sqrtf(of_counts(s)) : ctr_learning_root(l, (double)of_counts(s));
    return l->rate == CTR_RATE_GLOBAL ? e->root : ctr_learning_root(l, s->n);
}

static float root32(const struct ctr_learning *l, const struct ctr_event *e, const struct ctr_state *s)
{
    float n = l->rate == CTR_RATE_COUNTS ? of_counts(s) : (float)s->n;
    return l->rate == CTR_RATE_GLOBAL ? (float)e->root
           : l->power == 0.5          ? sqrtf(n)
                                      : (float)ctr_learning_root(l, (double)n);
}

/* The factor that turns eta z into z. */
static float inverse_rate(const struct ctr_learning *l, const struct ctr_event *e, const struct ctr_state *s)
{
    return l->rooted ? ((float)l->beta + root32(l, e, s)) * (float)l->inv_alpha : 1;
}

/* A number in the row: double, float, or the code of n. */
static double get(const uint8_t *from, uint32_t bytes)
{
    uint16_t code;
    float f;
    double d;
    if (bytes == sizeof d) {
        memcpy(&d, from, sizeof d);
        return d;
    }
    if (bytes == sizeof f) {
        memcpy(&f, from, sizeof f);
        return (double)f;
    }
    memcpy(&code, from, sizeof code);
    return (double)ctr_squares_value(code);
}

static void put(uint8_t *to, uint32_t bytes, double v)
{
    const float f = (float)v;
    const uint16_t code = ctr_squares_code(f, CTR_SQUARES_NEAREST);
    memcpy(to, bytes == sizeof v ? (const void *)&v : bytes == sizeof f ? (const void *)&f : &code, bytes);
}

void ctr_state_read(const struct ctr_learning *l, const struct ctr_event *e, const uint8_t *row, struct ctr_state *s)
{
    uint16_t counts[2];
    int16_t q;
    *s = (struct ctr_state){ 0 };
    if (l->layout.n)
        s->n = get(row + l->layout.n, l->layout.n_bytes);
    if (l->layout.counts) {
        memcpy(counts, row + l->layout.counts, sizeof counts);
        s->negatives = ctr_count_value(counts[0]);
        s->positives = ctr_count_value(counts[1]);
    }
    if (l->layout.last)
        memcpy(&s->last, row + l->layout.last, sizeof s->last);
    if (l->precision != CTR_Q13_STATE) {
        s->value = get(row + l->layout.value, l->layout.value_bytes);
    } else {
        memcpy(&q, row + l->layout.value, sizeof q);
        s->value = (double)((float)q * 0x1p-13f * inverse_rate(l, e, s));
    }
}

void ctr_state_write(const struct ctr_learning *l, const struct ctr_event *e, const struct ctr_state *s, uint8_t *row)
{
    struct ctr_state kept = *s; /* with n as stored in the row: converting z back uses that */
    if (l->layout.n) {
        put(row + l->layout.n, l->layout.n_bytes, s->n);
        kept.n = get(row + l->layout.n, l->layout.n_bytes);
    }
    if (l->layout.counts) {
        const uint16_t counts[2] = { ctr_count_code(s->negatives), ctr_count_code(s->positives) };
        memcpy(row + l->layout.counts, counts, sizeof counts);
    }
    if (l->layout.last)
        memcpy(row + l->layout.last, &s->last, sizeof s->last);
    if (l->precision != CTR_Q13_STATE) {
        put(row + l->layout.value, l->layout.value_bytes, s->value);
        return;
    }
    double by = (double)inverse_rate(l, e, &kept), v = by > 0 ? s->value / by * 8192 : 0;
    int16_t q = (int16_t)(v > 32767 ? 32767 : v > -32768 ? (int)rint(v) : -32768);
    memcpy(row + l->layout.value, &q, sizeof q);
}

/* The formula of optimizer_ftrl.h. */
static double weight64(const struct ctr_learning *l, double z, double root)
{
    const double size = fabs(z) - l->l1, w = size / ((l->beta + root) * l->inv_alpha + l->l2);
    return size <= 0 ? 0 : z > 0 ? -w : w;
}

static float weight32(const struct ctr_learning *l, float z, float root)
{
    const float size = fabsf(z) - (float)l->l1,
                w = size / (((float)l->beta + root) * (float)l->inv_alpha + (float)l->l2);
    return size <= 0 ? 0 : z > 0 ? -w : w;
}

double ctr_state_weight(const struct ctr_learning *l, const struct ctr_event *e, const struct ctr_state *s)
{
    if (l->shrinking && l->precision == CTR_F64_STATE)
        return ctr_learning_shrunk(l, s->value, root64(l, e, s), e->clock - s->last);
    if (l->shrinking)
        return (double)(float)ctr_learning_shrunk(l, s->value, (double)root32(l, e, s), e->clock - s->last);
    if (!l->optimizer->dual)
        return s->value;
    if (l->step == CTR_STEP_FTRL_GLOBAL && l->precision == CTR_F64_STATE) {
        double size = fabs(s->value) - l->alpha * l->l1;
        return size <= 0 ? 0 : s->value > 0 ? -size : size;
    }
    if (l->step == CTR_STEP_FTRL_GLOBAL) {
        float size = fabsf((float)s->value) - (float)l->alpha * (float)l->l1;
        return size <= 0 ? 0 : (double)(s->value > 0 ? -size : size);
    }
    if (l->precision == CTR_F64_STATE)
        return weight64(l, s->value, root64(l, e, s));
    return (double)weight32(l, (float)s->value, root32(l, e, s));
}

void ctr_state_set_weight(const struct ctr_learning *l, const struct ctr_event *e, double weight, uint8_t *row)
{
    const double size = fabs(weight);
    struct ctr_state s;
    ctr_state_read(l, e, row, &s);
    if (!l->optimizer->dual)
        s.value = weight;
    else if (l->step == CTR_STEP_FTRL_GLOBAL)
        s.value = copysign(size + l->alpha * l->l1, -weight);
    else
        s.value = copysign(size * (1 / ctr_state_rate(l, e, &s) + l->l2) + l->l1, -weight);
    s.last = e->clock;
    ctr_state_write(l, e, &s, row);
}

double ctr_state_rate(const struct ctr_learning *l, const struct ctr_event *e, const struct ctr_state *s)
{
    const struct ctr_state seen = { .n = CTR_MAX(s->n, 0), .negatives = s->negatives, .positives = s->positives };
    return l->alpha / (l->beta + (l->precision == CTR_F64_STATE ? root64(l, e, &seen) : (double)root32(l, e, &seen)));
}
