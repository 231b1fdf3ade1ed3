/* SPDX-License-Identifier: Apache-2.0
 *
 * One coordinate at a time, as files hold it: a table row to numbers and back, and its weight with the bits of the
 * kernels, whose formulas stand here once more without vectors. */
#include <math.h>

#include "common/lr/ftrl.h"

static double of_counts64(const struct ctr_state *s)
{
    double negatives = (double)s->negatives, positives = (double)s->positives, sum = negatives + positives;
    return negatives * positives / (sum > 1 ? sum : 1);
}

static float of_counts32(const struct ctr_state *s)
{
    float negatives = (float)s->negatives, positives = (float)s->positives, sum = negatives + positives;
    return negatives * positives / (sum > 1 ? sum : 1);
}

static double root64(const struct ctr_learning *l, const struct ctr_event *e, const struct ctr_state *s)
{
    return l->rate == CTR_RATE_GLOBAL ? e->root
                                      : ctr_learning_root(l, l->rate == CTR_RATE_COUNTS ? of_counts64(s) : s->n);
}

static float root32(const struct ctr_learning *l, const struct ctr_event *e, const struct ctr_state *s)
{
    float n = l->rate == CTR_RATE_COUNTS ? of_counts32(s) : (float)s->n;
    return l->rate == CTR_RATE_GLOBAL ? (float)e->root
           : l->power == 0.5          ? sqrtf(n)
                                      : (float)ctr_learning_root(l, (double)n);
}

/* What eta z is multiplied with to be z. */
static float inverse_rate(const struct ctr_learning *l, const struct ctr_event *e, const struct ctr_state *s)
{
    return l->rooted ? ((float)l->beta + root32(l, e, s)) * (float)l->inv_alpha : 1;
}

static double get(const struct ctr_learning *l, const uint8_t *from)
{
    float f;
    double d;
    if (l->precision == CTR_F64_STATE)
        memcpy(&d, from, sizeof d);
    else {
        memcpy(&f, from, sizeof f);
        d = (double)f;
    }
    return d;
}

void ctr_state_read(const struct ctr_learning *l, const struct ctr_event *e, const uint8_t *row, struct ctr_state *s)
{
    uint16_t counts[2];
    int16_t q;
    *s = (struct ctr_state){ 0 };
    if (l->layout.n)
        s->n = get(l, row + l->layout.n);
    if (l->layout.counts) {
        memcpy(counts, row + l->layout.counts, sizeof counts);
        s->negatives = ctr_count_value(counts[0]);
        s->positives = ctr_count_value(counts[1]);
    }
    if (l->precision != CTR_Q13_STATE) {
        s->value = get(l, row + l->layout.value);
    } else {
        memcpy(&q, row + l->layout.value, sizeof q);
        s->value = (double)((float)q * 0x1p-13f * inverse_rate(l, e, s));
    }
}

static void put(const struct ctr_learning *l, uint8_t *to, double v)
{
    float f = (float)v;
    if (l->precision == CTR_F64_STATE)
        memcpy(to, &v, sizeof v);
    else
        memcpy(to, &f, sizeof f);
}

void ctr_state_write(const struct ctr_learning *l, const struct ctr_event *e, const struct ctr_state *s, uint8_t *row)
{
    if (l->layout.n)
        put(l, row + l->layout.n, s->n);
    if (l->layout.counts) {
        const uint16_t counts[2] = { ctr_count_code(s->negatives), ctr_count_code(s->positives) };
        memcpy(row + l->layout.counts, counts, sizeof counts);
    }
    if (l->precision != CTR_Q13_STATE) {
        put(l, row + l->layout.value, s->value);
        return;
    }
    double by = (double)inverse_rate(l, e, s), v = by > 0 ? s->value / by * 8192 : 0;
    int16_t q = (int16_t)(v > 32767 ? 32767 : v > -32768 ? (int)rint(v) : -32768);
    memcpy(row + l->layout.value, &q, sizeof q);
}

double ctr_state_weight(const struct ctr_learning *l, const struct ctr_event *e, const struct ctr_state *s)
{
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
        return ctr_ftrl_weight64(l, s->value, root64(l, e, s));
    return (double)ctr_ftrl_weight32(l, (float)s->value, root32(l, e, s));
}

double ctr_state_row(const struct ctr_learning *l, const struct ctr_event *e, const uint8_t *row, struct ctr_state *s)
{
    const struct ctr_layout *at = &l->layout;
    if (l->step != CTR_STEP_FTRL || l->power != 0.5 || l->precision == CTR_F64_STATE) {
        ctr_state_read(l, e, row, s);
        return ctr_state_weight(l, e, s);
    }
    float n, z;
    if (at->counts) {
        uint16_t counts[2];
        memcpy(counts, row + at->counts, sizeof counts);
        *s = (struct ctr_state){ .negatives = ctr_count_value(counts[0]), .positives = ctr_count_value(counts[1]) };
        n = of_counts32(s);
    } else {
        memcpy(&n, row + at->n, sizeof n);
        *s = (struct ctr_state){ .n = (double)n };
    }
    const float root = sqrtf(n);
    if (l->precision == CTR_Q13_STATE) {
        int16_t q;
        memcpy(&q, row + at->value, sizeof q);
        z = (float)q * 0x1p-13f * (((float)l->beta + root) * (float)l->inv_alpha);
    } else {
        memcpy(&z, row + at->value, sizeof z);
    }
    s->value = (double)z;
    return (double)ctr_ftrl_weight32(l, z, root);
}

double ctr_state_rate(const struct ctr_learning *l, const struct ctr_event *e, const struct ctr_state *s)
{
    const struct ctr_state seen = { 0, CTR_MAX(s->n, 0), s->negatives, s->positives };
    return l->alpha / (l->beta + (l->precision == CTR_F64_STATE ? root64(l, e, &seen) : (double)root32(l, e, &seen)));
}
