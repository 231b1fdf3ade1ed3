/* SPDX-License-Identifier: Apache-2.0
 *
 * One coordinate at a time, as files hold it: a table row to numbers and back, and its weight with the bits of the
 * kernels. */
#include <math.h>

#include "common/model/ftrl.h"

/* The phases of a row want whole lanes: the coordinate, and rows of zeros. */
struct one {
    _Alignas(64) double z[CTR_LANES], n[CTR_LANES], w[CTR_LANES], root[CTR_LANES], x[CTR_LANES], next[CTR_LANES];
    uint64_t hash[CTR_LANES];
    uint32_t count[CTR_LANES];
    struct ctr_more more;
    struct ctr_coords s;
    uint8_t zero[64], *row[CTR_LANES];
};

static void run_one(struct one *o, const struct ctr_learning *l, const struct ctr_event *e, const uint8_t *row)
{
    memset(o, 0, sizeof *o);
    o->more = (struct ctr_more){ .event = *e, .next = o->next, .count = o->count, .hash = o->hash };
    o->s = (struct ctr_coords){ o->z, o->n, o->w, o->root, o->x, &o->more };
    for (int i = 1; i < CTR_LANES; i++)
        o->row[i] = o->zero;
    o->row[0] = (uint8_t *)(uintptr_t)row;
    (void)l->forward(l, &o->s, o->row, 1);
}

static double first(const struct ctr_learning *l, const void *v)
{
    float f;
    double d;
    memcpy(&f, v, sizeof f);
    memcpy(&d, v, sizeof d);
    return l->precision == CTR_F64_STATE ? d : (double)f;
}

void ctr_state_read(const struct ctr_learning *l, const struct ctr_event *e, const uint8_t *row, struct ctr_state *s)
{
    uint16_t counts[2];
    *s = (struct ctr_state){ 0 };
    if (l->layout.n)
        s->n = first(l, row + l->layout.n);
    if (l->layout.counts) {
        memcpy(counts, row + l->layout.counts, sizeof counts);
        s->negatives = ctr_count_value(counts[0]);
        s->positives = ctr_count_value(counts[1]);
    }
    if (l->precision != CTR_Q13_STATE) {
        s->value = first(l, row + l->layout.value);
    } else {
        struct one o;
        run_one(&o, l, e, row);
        s->value = first(l, o.z);
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

/* 1 / eta of a table row whose rate columns are there. */
static double inverse_rate(const struct ctr_learning *l, const struct ctr_event *e, const uint8_t *row)
{
    struct one o;
    run_one(&o, l, e, row);
    return ((double)(float)l->beta + first(l, o.root)) * (double)(float)l->inv_alpha;
}

void ctr_state_write(const struct ctr_learning *l, const struct ctr_event *e, const struct ctr_state *s, uint8_t *row)
{
    uint16_t counts[2] = { ctr_count_code(s->negatives), ctr_count_code(s->positives) };
    if (l->layout.n)
        put(l, row + l->layout.n, s->n);
    if (l->layout.counts)
        memcpy(row + l->layout.counts, counts, sizeof counts);
    if (l->precision != CTR_Q13_STATE) {
        put(l, row + l->layout.value, s->value);
        return;
    }
    double by = l->rooted ? inverse_rate(l, e, row) : 1, v = by > 0 ? s->value / by * 8192 : 0;
    int16_t q = (int16_t)(v > 32767 ? 32767 : v > -32768 ? (int)rint(v) : -32768);
    memcpy(row + l->layout.value, &q, sizeof q);
}

double ctr_state_weight(const struct ctr_learning *l, const struct ctr_event *e, const struct ctr_state *s)
{
    uint8_t row[64] = { 0 };
    struct one o;
    if (!l->optimizer->dual)
        return s->value;
    if (!l->events && l->precision == CTR_F64_STATE)
        return ctr_ftrl_weight64(l, s->value, sqrt(s->n));
    if (!l->events)
        return (double)ctr_ftrl_weight32(l, (float)s->value, sqrtf((float)s->n));
    ctr_state_write(l, e, s, row);
    run_one(&o, l, e, row);
    return first(l, o.w);
}
