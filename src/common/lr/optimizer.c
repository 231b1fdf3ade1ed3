/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of optimizers, and the learner made from an optimizer, a rate and a precision: its layout, and the phases
 * of a row (load, root, weights; advance, step, store), each a loop of optimizer_kernel.c. The default choice runs all
 * phases in one function, in optimizer_ftrl.h. */
#include "common/lr/optimizer.h"

#include <math.h>

#include "common/base/isa.h"
#include "common/model/model.h"

const char *const ctr_precision_names[CTR_PRECISIONS + 1] = { "f64", "f32", "q2.13", NULL };
const char *const ctr_rate_names[CTR_RATES + 1] = { "per-coordinate", "counts", "global", NULL };

/* name, summary, dual, holds, step, step with one rate for all */
#define OPTIMIZERS(ROW)                                                                                                \
    ROW("ftrl", "FTRL-Proximal", true, false, CTR_STEP_FTRL, CTR_STEP_FTRL_GLOBAL)                                     \
    ROW("ogd", "online gradient descent", false, false, CTR_STEP_OGD, CTR_STEP_OGD)                                    \
    ROW("rda", "regularised dual averaging", true, false, CTR_STEP_RDA, CTR_STEP_RDA)                                  \
    ROW("fobos", "forward-backward splitting", false, false, CTR_STEP_FOBOS, CTR_STEP_FOBOS)                           \
    ROW("ogd-count", "ogd of keys that came often enough", false, true, CTR_STEP_OGD, CTR_STEP_OGD)
#define ROW_OF(...)        { __VA_ARGS__ },
#define NAME_OF(name, ...) name,
static const struct ctr_optimizer optimizers[] = { OPTIMIZERS(ROW_OF) };
const char *const ctr_optimizer_names[] = { OPTIMIZERS(NAME_OF) NULL };

const struct ctr_optimizer *ctr_optimizer_at(int i)
{
    return i >= 0 && i < (int)CTR_COUNT(optimizers) ? &optimizers[i] : NULL;
}

static const struct ctr_optimizer *find_optimizer(const char *name)
{
    for (size_t i = 0; i < CTR_COUNT(optimizers); i++)
        if (!strcmp(optimizers[i].name, name))
            return &optimizers[i];
    return NULL;
}

/* ---- scratch ---- */

int ctr_more_reserve(struct ctr_more *m, int64_t n, struct ctr_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < CTR_COUNT(m->bufs) && !rc; i++) {
        m->bufs[i].len = 0;
        rc = ctr_buf_reserve(&m->bufs[i], (size_t)n * sizeof(uint64_t), err);
    }
    m->next = m->bufs[0].data;
    m->count = (uint32_t *)(void *)m->bufs[1].data;
    m->q = (int32_t *)(void *)m->bufs[2].data;
    m->low = (uint32_t *)(void *)m->bufs[3].data;
    m->high = (uint32_t *)(void *)m->bufs[4].data;
    return rc;
}

void ctr_more_free(struct ctr_more *m)
{
    for (size_t i = 0; i < CTR_COUNT(m->bufs); i++)
        ctr_buf_free(&m->bufs[i]);
}

/* ---- between table and scratch ---- */

/* Pointers are read once: the compiler must assume that writes through them alias them. */
CTR_BODY void load_any(const struct ctr_learning *p, const struct ctr_coords *s, uint8_t *const *row, int64_t room,
                       const enum ctr_precision precision, const bool counts, const bool n)
{
    const uint32_t at_value = p->layout.value, at_n = p->layout.n, at_counts = p->layout.counts;
    const size_t bytes = precision == CTR_F64_STATE ? sizeof(double) : sizeof(float);
    uint8_t *to_value = s->z, *to_n = s->n;
    uint32_t *count = s->more->count;
    for (int64_t i = 0; i < room; i++) {
        const uint8_t *r = row[i];
        if (precision == CTR_Q13_STATE) {
            int16_t q;
            memcpy(&q, r + at_value, sizeof q);
            ((float *)(void *)to_value)[i] = (float)q * 0x1p-13f;
        } else {
            memcpy(to_value + (size_t)i * bytes, r + at_value, bytes);
        }
        if (n)
            memcpy(to_n + (size_t)i * bytes, r + at_n, bytes);
        if (counts)
            memcpy(count + i, r + at_counts, sizeof *count);
    }
}

/* q2.13 followed by the code of n. */
static void load_codes(const struct ctr_learning *p, const struct ctr_coords *s, uint8_t *const *row, int64_t room)
{
    float *z = s->z, *n = s->n;
    for (int64_t i = 0; i < room; i++) {
        uint16_t code[2];
        memcpy(code, row[i] + p->layout.value, sizeof code);
        z[i] = (float)(int16_t)code[0] * 0x1p-13f;
        n[i] = ctr_squares_value(code[1]);
    }
}

static void store_codes(const struct ctr_learning *p, const struct ctr_coords *s, uint8_t *const *row, int64_t room)
{
    const float *n = s->n;
    const int32_t *q = s->more->q;
    for (int64_t i = 0; i < room; i++) {
        const uint16_t code[2] = { (uint16_t)q[i], ctr_squares_code(n[i], 0) };
        memcpy(row[i] + p->layout.value, code, sizeof code);
    }
}

CTR_BODY void store_any(const struct ctr_learning *p, const struct ctr_coords *s, uint8_t *const *row, int64_t room,
                        const enum ctr_precision precision, const bool counts, const bool n)
{
    const uint32_t at_value = p->layout.value, at_n = p->layout.n, at_counts = p->layout.counts;
    const size_t bytes = precision == CTR_F64_STATE ? sizeof(double) : sizeof(float);
    const uint8_t *value = s->z, *from_n = s->n;
    const uint32_t *count = s->more->count;
    const int32_t *q = s->more->q;
    for (int64_t i = 0; i < room; i++) {
        uint8_t *r = row[i];
        if (precision == CTR_Q13_STATE) {
            const int16_t v = (int16_t)q[i];
            memcpy(r + at_value, &v, sizeof v);
        } else {
            memcpy(r + at_value, value + (size_t)i * bytes, bytes);
        }
        if (n)
            memcpy(r + at_n, from_n + (size_t)i * bytes, bytes);
        if (counts)
            memcpy(r + at_counts, count + i, sizeof *count);
    }
}

typedef void ctr_move(const struct ctr_learning *p, const struct ctr_coords *s, uint8_t *const *row, int64_t room);
#define DEFINE_MOVE(columns, counts, n)                                                                                \
    DEFINE_MOVE_OF(f64, CTR_F64_STATE, columns, counts, n)                                                             \
    DEFINE_MOVE_OF(f32, CTR_F32_STATE, columns, counts, n)                                                             \
    DEFINE_MOVE_OF(q13, CTR_Q13_STATE, columns, counts, n)
#define DEFINE_MOVE_OF(type, precision, columns, counts, n)                                                            \
    static void load_##columns##_##type(const struct ctr_learning *p, const struct ctr_coords *s, uint8_t *const *row, \
                                        int64_t room)                                                                  \
    {                                                                                                                  \
        load_any(p, s, row, room, precision, counts, n);                                                               \
    }                                                                                                                  \
    static void store_##columns##_##type(const struct ctr_learning *p, const struct ctr_coords *s,                     \
                                         uint8_t *const *row, int64_t room)                                            \
    {                                                                                                                  \
        store_any(p, s, row, room, precision, counts, n);                                                              \
    }
DEFINE_MOVE(value, false, false)
DEFINE_MOVE(n, false, true)
DEFINE_MOVE(counts, true, false)

#define MOVES(columns)                                                                                                 \
    {                                                                                                                  \
        { load_##columns##_f64, store_##columns##_f64 }, { load_##columns##_f32, store_##columns##_f32 },              \
        {                                                                                                              \
            load_##columns##_q13, store_##columns##_q13                                                                \
        }                                                                                                              \
    }
static ctr_move *const moves[3][CTR_PRECISIONS][2] = { MOVES(value), MOVES(n), MOVES(counts) };

/* ---- the phases of a row ---- */

double ctr_learning_root(const struct ctr_learning *p, double n)
{
    return p->power == 0.5 ? sqrt(n) : n > 0 ? ctr_exp(p->power * ctr_log(n)) : 0;
}

/* n^power for powers other than the square root; infinity stays. */
static void raise_root(const struct ctr_learning *p, const struct ctr_coords *s, void *root, int64_t room)
{
    if (p->power == 0.5 || p->rate == CTR_RATE_GLOBAL)
        return;
    for (int64_t i = 0; i < room; i++)
        if (p->precision == CTR_F64_STATE)
            ((double *)root)[i] =
                isinf(((double *)root)[i]) ? INFINITY : ctr_learning_root(p, ((const double *)s->n)[i]);
        else
            ((float *)root)[i] =
                isinf(((float *)root)[i]) ? INFINITY : (float)ctr_learning_root(p, (double)((const float *)s->n)[i]);
}

/* ---- fobos: weights whose keys did not come ---- */

static double rate_of(const struct ctr_learning *p, double root)
{
    const double by = p->beta + root;
    return p->alpha / (by + (double)(by == 0));
}

/* m steps w -> max(0, w - eta l1) / (1 + eta l2), also with varying eta, give w q - (1 - q) l1 / l2 while positive,
 * where q is the product of the 1 / (1 + eta l2); without l2: w - l1 times the sum of eta. */
double ctr_learning_shrunk(const struct ctr_learning *p, double w, double root, double time)
{
    const bool global = p->rate == CTR_RATE_GLOBAL;
    const double eta = global ? 1 : rate_of(p, root), from = fabs(w);
    double size;
    if (!(time > 0) || w == 0)
        return w;
    if (p->l2 > 0) {
        const double less = global ? time : time * ctr_log1p(eta * p->l2); /* -log q */
        const double q = ctr_exp(-less);
        /* 1 - q without cancellation near q = 1 (Kahan) */
        const double lost = q == 1 ? less : q > 0.5 ? (1 - q) * less / -ctr_log(q) : 1 - q;
        size = from * q - lost / p->l2 * p->l1;
    } else {
        size = from - time * eta * p->l1;
    }
    return size <= 0 ? 0 : copysign(size, w);
}

static void shrink_rows(const struct ctr_learning *p, const struct ctr_coords *s, uint8_t *const *row, int64_t room)
{
    const double now = s->more->event.clock;
    double last;
    for (int64_t i = 0; i < room; i++) {
        memcpy(&last, row[i] + p->layout.last, sizeof last);
        if (p->precision == CTR_F64_STATE) {
            double *w = (double *)s->z + i;
            *w = ctr_learning_shrunk(p, *w, ((const double *)s->root)[i], now - last);
        } else {
            float *w = (float *)s->z + i;
            *w = (float)ctr_learning_shrunk(p, (double)*w, (double)((const float *)s->root)[i], now - last);
        }
    }
}

/* End the event: advance the clock and record it for the row's k coordinates. */
static void set_clocks(const struct ctr_learning *p, struct ctr_event *e, uint8_t *const *row, int64_t k)
{
    const double eta = p->rate == CTR_RATE_GLOBAL ? rate_of(p, e->next) : 1;
    e->clock += p->rate == CTR_RATE_GLOBAL && p->l2 > 0 ? ctr_log1p(eta * p->l2) : eta;
    for (int64_t i = 0; i < k; i++)
        memcpy(row[i] + p->layout.last, &e->clock, sizeof e->clock);
}

static void load(const struct ctr_learning *p, const struct ctr_coords *s, uint8_t *const *row, int64_t room)
{
    p->load(p, s, row, room);
    if (!p->rooted && !p->shrinking)
        return;
    p->isa->root[p->rate][p->precision != CTR_F64_STATE](p, s, room);
    raise_root(p, s, s->root, room);
    if (p->shrinking) {
        shrink_rows(p, s, row, room);
        return;
    }
    if (p->precision == CTR_Q13_STATE)
        p->isa->expand(p, s, room);
}

static double forward_any(const struct ctr_learning *p, const struct ctr_coords *s, uint8_t *const *row, int64_t k)
{
    load(p, s, row, ctr_lanes_padded(k));
    return p->isa->weights[p->step][p->precision != CTR_F64_STATE](p, s, ctr_lanes_padded(k));
}

static void update_any(const struct ctr_learning *p, const struct ctr_coords *s, uint8_t *const *row, int64_t k,
                       double g)
{
    struct ctr_event *e = &s->more->event;
    const int real = p->precision != CTR_F64_STATE;
    const int64_t room = ctr_lanes_padded(k);
    ctr_event_begin(p, e);
    if (p->rate == CTR_RATE_GLOBAL)
        e->next = ctr_learning_root(p, (double)e->step);
    (p->layout.n_bytes == sizeof(uint16_t) ? p->isa->advance_codes
                                           : p->isa->advance[p->rate][p->optimizer->holds][real])(p, s, room, g);
    raise_root(p, s, s->more->next, room);
    p->isa->step[p->step][real](p, s, room, g);
    if (p->precision == CTR_Q13_STATE) {
        if (p->rooted)
            p->isa->shrink(p, s, room);
        p->isa->round(p, s, room);
    }
    p->store(p, s, row, room);
    if (p->shrinking)
        set_clocks(p, e, row, k);
    e->root = e->next;
}

/* ---- a choice ---- */

static int find_name(const char *const *names, const char *name)
{
    for (int i = 0; names[i]; i++)
        if (!strcmp(names[i], name))
            return i;
    return 0;
}

static void lay_out(struct ctr_learning *l)
{
    static const uint32_t value_bytes[CTR_PRECISIONS] = { 8, 4, 2 }, n_bytes[CTR_PRECISIONS] = { 8, 4, 4 };
    struct ctr_layout *at = &l->layout;
    uint32_t to = sizeof(uint64_t);
    const bool n = l->rate == CTR_RATE_SQUARES || (l->rate == CTR_RATE_GLOBAL && l->optimizer->holds);
    const bool codes = n && l->precision == CTR_Q13_STATE && !l->optimizer->holds;
    if (l->rate == CTR_RATE_COUNTS) {
        at->counts = to;
        to += 2 * sizeof(uint16_t);
    }
    at->value = to;
    at->value_bytes = value_bytes[l->precision];
    to += at->value_bytes;
    if (n) {
        at->n = to;
        at->n_bytes = codes ? sizeof(uint16_t) : n_bytes[l->precision];
        to += at->n_bytes;
    }
    if (l->shrinking) {
        at->last = to;
        to += sizeof(double);
    }
    at->bytes = to;
    l->load = codes ? load_codes : moves[at->counts ? 2 : n][l->precision][0];
    l->store = codes ? store_codes : moves[at->counts ? 2 : n][l->precision][1];
}

bool ctr_learning_is_default(const struct ctr_learning *l)
{
    return l->step == CTR_STEP_FTRL && l->rate == CTR_RATE_SQUARES && l->power == 0.5 && l->precision != CTR_Q13_STATE;
}

void ctr_learning_use(struct ctr_learning *l, const struct ctr_isa *isa, bool fused)
{
    static const struct ctr_fused loops = { forward_any, update_any };
    const struct ctr_fused *own = &isa->fused[l->rate][l->precision];
    fused &= own->forward && l->step == CTR_STEP_FTRL && l->power == 0.5;
    const struct ctr_fused to = fused || ctr_learning_is_default(l) ? *own : loops;
    l->isa = isa;
    l->forward = to.forward;
    l->update = to.update;
}

int ctr_learning_init(struct ctr_learning *l, const struct ctr_params *p, struct ctr_err *err)
{
    *l = (struct ctr_learning){
        .alpha = p->lr.alpha,
        .inv_alpha = 1 / p->lr.alpha,
        .beta = p->lr.beta,
        .l1 = p->lr.l1,
        .l2 = p->lr.l2,
        .power = p->lr.power,
        .threshold = (double)p->lr.threshold,
        .seed = ctr_mix64(p->seed + 0x51ed270b),
        .optimizer = find_optimizer(p->lr.optimizer),
        .precision = (enum ctr_precision)find_name(ctr_precision_names, p->lr.precision),
        .rate = (enum ctr_rate)find_name(ctr_rate_names, p->lr.learning_rate),
    };
    bool global = l->rate == CTR_RATE_GLOBAL;
    l->step = global ? l->optimizer->step_global : l->optimizer->step;
    if (l->step == CTR_STEP_RDA && global && l->precision == CTR_Q13_STATE)
        return ctr_fail(err, CTR_EUSAGE,
                        "with rda and one global rate every row moves every weight, which q2.13 cannot hold: use "
                        "--precision f32, or a rate by coordinate");
    l->rooted = l->optimizer->dual && l->step != CTR_STEP_FTRL_GLOBAL;
    l->shrinking = l->step == CTR_STEP_FOBOS;
    lay_out(l);
    l->events = !ctr_learning_is_default(l);
    ctr_learning_use(l, ctr_isa_at((int)ctr_cpu_best()), true);
    return 0;
}

void ctr_learning_start(const struct ctr_learning *l, struct ctr_event *e, uint64_t step)
{
    *e = (struct ctr_event){ .step = step, .clock = (double)step };
    e->root = e->next = ctr_learning_root(l, (double)step);
}

void ctr_learning_summary(const struct ctr_learning *l, const struct ctr_event *e, struct ctr_say *text)
{
    const struct ctr_layout *at = &l->layout;
    ctr_say(text, "bytes a state        %u: %s %u", at->bytes - 8, l->optimizer->dual ? "z" : "weight",
            at->value_bytes);
    if (at->n)
        ctr_say(text, ", n %u", at->n_bytes);
    if (at->counts)
        ctr_say(text, ", counts %zu", 2 * sizeof(uint16_t));
    if (at->last)
        ctr_say(text, ", last %zu", sizeof(double));
    ctr_say(text, "\n");
    if (l->precision == CTR_Q13_STATE)
        ctr_say(text, "cut off to [-4, 4)   %lld values\n", (long long)e->clips);
}
