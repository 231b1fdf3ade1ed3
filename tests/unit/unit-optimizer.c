/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of optimizers: every optimizer, rate, precision and power, on every instruction set, against one plain
 * reference of one coordinate, states side by side with nothing between them; what is drawn at random is unbiased;
 * states go to files and back. */
#include <math.h>
#include <stdlib.h>

#include "common/lr/optimizer.h"
#include "common/lr/lr.h"

#include "tap.h"

enum { KEYS = 60, EVENTS = 400, WIDE = 43, ROOM = 48, CANARY = 0xa5 };

/* ---- the reference: one coordinate, an operation a line, rounded to the type after each ---- */

struct coordinate {
    double value, n, last;
    uint16_t count[2];
    uint64_t hash;
};

static const struct ctr_learning *l; /* of the test that runs */
static uint64_t step;
static double event_weight;
static double ticks; /* of fobos: steps, or what their rates add up to */

static double r(double v)
{
    return l->precision == CTR_F64_STATE ? v : (double)(float)v;
}

static double raised(double n)
{
    return l->power == 0.5 ? r(sqrt(n)) : n > 0 ? r(ctr_exp(l->power * ctr_log(n))) : 0;
}

static double narrow(double v)
{
    return (double)(float)v;
}

static double of_counts(const struct coordinate *c)
{
    double neg = (double)ctr_count_value(c->count[0]), pos = (double)ctr_count_value(c->count[1]);
    return neg + pos > 0 ? narrow(narrow(neg * pos) / narrow(neg + pos)) : 0;
}

static double root_of(const struct coordinate *c)
{
    if (l->rate == CTR_RATE_GLOBAL)
        return raised((double)step);
    if (l->rate == CTR_RATE_SQUARES)
        return raised(c->n);
    return l->power == 0.5 ? narrow(sqrt(of_counts(c))) : raised(of_counts(c));
}

static double inverse_rate(double root)
{
    return r(r(r(l->beta) + root) * r(l->inv_alpha));
}

/* What the table holds is eta z; the rest computes with z. */
static bool scaled(void)
{
    return l->precision == CTR_Q13_STATE && l->optimizer->dual && l->rate != CTR_RATE_GLOBAL;
}

static double weight_of(const struct coordinate *c)
{
    double z = c->value, l1 = r(l->l1);
    if (l->shrinking)
        return r(ctr_learning_shrunk(l, z, root_of(c), ticks - c->last));
    if (!l->optimizer->dual)
        return z;
    if (l->optimizer->step == CTR_STEP_FTRL && l->rate == CTR_RATE_GLOBAL) {
        double size = r(fabs(z) - r(r(l->alpha) * l1));
        return size <= 0 ? 0 : z > 0 ? -size : size;
    }
    if (scaled())
        z = r(z * inverse_rate(root_of(c)));
    double size = r(fabs(z) - l1);
    double w = r(size / r(inverse_rate(root_of(c)) + r(l->l2)));
    return size <= 0 ? 0 : z > 0 ? -w : w;
}

static uint64_t draw(void)
{
    return ctr_mix64(l->seed ^ (step + 1) * 0x9e3779b97f4a7c15u);
}

static uint32_t low_bits(const struct coordinate *c)
{
    return (uint32_t)c->hash + (uint32_t)draw();
}

/* n as the table holds it. */
static double coded(const struct coordinate *c, double n)
{
    int exponent;
    if (l->precision != CTR_Q13_STATE || l->optimizer->holds || n == 0)
        return n;
    double unit = ldexp(1, (frexp(n, &exponent), exponent - 9)), part = n / unit;
    return (floor(part) + (part - floor(part) + (double)(low_bits(c) % 32768) / 32768 >= 1)) * unit;
}

/* Is the coordinate held? */
static bool count(struct coordinate *c, double g, bool positive)
{
    if (l->rate == CTR_RATE_COUNTS) {
        uint16_t *n = &c->count[positive];
        uint32_t bits = (uint32_t)(c->hash >> 32) + (uint32_t)(draw() >> 32);
        if (event_weight == 1)
            *n = (uint16_t)(*n + (*n != 65535 && bits % (1u << (*n >> 11)) == 0));
        else
            *n = ctr_count_add(*n, event_weight, bits);
        return l->optimizer->holds &&
               (double)ctr_count_value(c->count[0]) + (double)ctr_count_value(c->count[1]) <= l->threshold;
    }
    if (l->optimizer->holds && c->n <= 0 && -c->n < l->threshold) {
        c->n -= g != 0;
        return true;
    }
    if (l->rate == CTR_RATE_SQUARES)
        c->n = coded(c, r(CTR_MAX(c->n, 0) + r(g * g)));
    return false;
}

static double step_ftrl_global(const struct coordinate *c, double g, double w, double root, double next)
{
    double z = c->value, alpha = r(l->alpha), l1 = r(l->l1), edge = r(alpha * l1), size = r(fabs(z) - edge);
    double before = r(inverse_rate(root) + r(l->l2)), after = r(inverse_rate(next) + r(l->l2));
    double from = size <= 0 ? r(fabs(z) * r(l->inv_alpha)) : r(l1 + r(size * before));
    double to = r(r((z < 0 ? -from : from) + g) - r(r(r(next - root) * r(l->inv_alpha)) * w)), over = r(fabs(to) - l1);
    double state = over <= 0 ? r(fabs(to) * alpha) : r(edge + r(over / after));
    return to < 0 ? -state : state;
}

static double step_primal(double w, double g, double next)
{
    double eta = r(r(l->alpha) / r(r(l->beta) + next)), l1 = r(l->l1), l2 = r(l->l2);
    if (l->step == CTR_STEP_OGD) {
        double sign = w > 0 ? l1 : w < 0 ? -l1 : 0;
        return r(w - r(eta * r(g + r(sign + r(l2 * w)))));
    }
    double half = r(w - r(eta * g)), size = r(fabs(half) - r(eta * l1)), to = r(size / r(1 + r(eta * l2)));
    return size <= 0 ? 0 : half < 0 ? -to : to;
}

static double rounded(const struct coordinate *c, double v)
{
    double t = trunc(fmin(fmax(v * 0x1p29, -0x1p31), 0x7fffp16));
    return floor((t + (double)(low_bits(c) >> 16)) / 65536) / 8192;
}

static void update(struct coordinate *c, double g, double w, bool positive)
{
    double root = root_of(c), inverse = inverse_rate(root), z = scaled() ? r(c->value * inverse) : c->value;
    z = l->shrinking ? weight_of(c) : z;
    bool held = count(c, g, positive);
    step++;
    double next = held ? INFINITY : root_of(c);
    step--;
    if (l->step == CTR_STEP_FTRL_GLOBAL)
        z = step_ftrl_global(c, g, w, root, next);
    else if (l->step == CTR_STEP_FTRL)
        z = r(z + r(g - r(r(r(next - root) * r(l->inv_alpha)) * w)));
    else if (l->step == CTR_STEP_RDA)
        z = r(z + g);
    else if (!held)
        z = step_primal(z, g, next);
    if (scaled())
        z = r(z * r(r(l->alpha) / r(r(l->beta) + next)));
    c->value = l->precision == CTR_Q13_STATE ? rounded(c, z) : z;
}

/* ---- kernels beside it ---- */

/* States as a table may hold them: those of all keys one behind the other. An event takes keys that are neighbours, so
 * that a store of more than a state changes another's. Before and behind them, and the spare row, are canaries. */
struct table {
    uint8_t rows[(KEYS + 2) * 24 + 8], spare[64];
    uint64_t hash[ROOM];
    struct ctr_more more;
    struct ctr_coords s;
    _Alignas(64) double z[ROOM], n[ROOM], w[ROOM], root[ROOM], x[ROOM];
};

static uint64_t hash_of(int key)
{
    return key ? ctr_random64(5, 0, (uint64_t)key) : 0; /* 0: the bias has none */
}

static size_t state_bytes(void)
{
    return l->layout.bytes - 8;
}

static uint8_t *row_of(struct table *t, int key)
{
    return t->rows + 16 + (size_t)key * state_bytes() - 8;
}

static uint8_t *spare_of(struct table *t)
{
    return t->spare + 16;
}

/* Nothing but states was touched, and the spare one is 0. */
static bool kept(struct table *t)
{
    const uint8_t *first = row_of(t, 0) + 8, *end = row_of(t, KEYS) + 8;
    const uint8_t *spare = spare_of(t) + 8, *spare_end = spare + state_bytes();
    bool same = true;
    for (const uint8_t *p = t->rows; p < t->rows + sizeof t->rows; p++)
        same &= (p >= first && p < end) || *p == CANARY;
    for (const uint8_t *p = t->spare; p < t->spare + sizeof t->spare; p++)
        same &= *p == (p >= spare && p < spare_end ? 0 : CANARY);
    return same;
}

static int open_table(struct table *t, struct ctr_err *err)
{
    memset(t, 0, sizeof *t);
    memset(t->rows, CANARY, sizeof t->rows);
    memset(t->spare, CANARY, sizeof t->spare);
    memset(row_of(t, 0) + 8, 0, KEYS * state_bytes());
    memset(spare_of(t) + 8, 0, state_bytes());
    t->s = (struct ctr_coords){ t->z, t->n, t->w, t->root, t->x, &t->more };
    ctr_learning_start(l, &t->more.event, 0);
    return ctr_more_reserve(&t->more, ROOM, err);
}

/* What a row adds to the clock of fobos, after `step` of them. */
static double tick(void)
{
    const double eta = l->alpha / (l->beta + ctr_learning_root(l, (double)step));
    return l->rate != CTR_RATE_GLOBAL ? 1 : l->l2 > 0 ? ctr_log1p(eta * l->l2) : eta;
}

/* One event on k keys; returns the greatest difference of a weight from the reference's. */
static double run_event(struct table *t, struct coordinate *ref, int event)
{
    uint8_t *row[ROOM];
    int k = event % (WIDE + 1), key[WIDE];
    double worst = 0, y = ctr_random01(1, 0, (uint64_t)event) < 0.3, p = ctr_random01(1, 1, (uint64_t)event);
    for (int i = 0; i < ROOM; i++) {
        row[i] = spare_of(t);
        t->x[i] = 0;
    }
    for (int i = 0, at = event * 7; i < k; i++, at += 1 + (event + i) % 3 % 2) { /* no key twice: WIDE steps < KEYS */
        key[i] = at % KEYS;
        for (int j = 0; j < i; j++)
            if (key[j] == key[i]) {
                k = i;
                break;
            }
        if (k == i)
            break;
        row[i] = row_of(t, key[i]);
        t->hash[i] = hash_of(key[i]);
        t->x[i] = i % 4 ? 1 : 0.5 + ctr_random01(2, (uint64_t)event, (uint64_t)i);
    }
    double got = l->forward(l, &t->s, row, k), want[CTR_LANES] = { 0 }, w[WIDE];
    for (int i = 0; i < k; i++) {
        double gw = l->precision == CTR_F64_STATE ? t->w[i] : (double)((const float *)(void *)t->w)[i];
        w[i] = weight_of(&ref[key[i]]);
        worst = fmax(worst, fabs(gw - w[i]));
        want[i % CTR_LANES] += w[i] * t->x[i];
    }
    worst = fmax(worst, fabs(got - ctr_lanes_join(want)));
    event_weight = event % 3 ? 1 : 0.25 + event % 7;
    (void)ctr_event_set(&t->more.event, y, event_weight);
    ctr_more_hash(&t->more, t->hash, k);
    l->update(l, &t->s, row, k, p - y);
    for (int i = 0; i < k; i++)
        update(&ref[key[i]], r((p - y) * t->x[i]), w[i], y > 0);
    step++;
    ticks += tick();
    for (int i = 0; i < k; i++)
        ref[key[i]].last = ticks;
    return worst;
}

/* All rows at once, as files get them, and one by one. */
static bool columns_agree(struct table *t)
{
    const bool f64 = l->precision == CTR_F64_STATE;
    const uint8_t *row[KEYS];
    double w[KEYS] = { 0 }, z[KEYS] = { 0 }, n[KEYS] = { 0 };
    uint64_t negatives[KEYS] = { 0 }, positives[KEYS] = { 0 };
    bool same = true;
    if (!ctr_state_has_columns(l))
        return !ctr_learning_is_default(l);
    for (int i = 0; i < KEYS; i++)
        row[i] = row_of(t, i);
    ctr_state_columns(l, row, KEYS, &(struct ctr_state_columns){ w, z, n, negatives, positives });
    for (int i = 0; i < KEYS; i++) {
        struct ctr_state s;
        ctr_state_read(l, &t->more.event, row[i], &s);
        const double weight = ctr_state_weight(l, &t->more.event, &s);
        same &= weight == (f64 ? w[i] : (double)((const float *)w)[i]);
        same &= s.value == (f64 ? z[i] : (double)((const float *)z)[i]);
        same &= s.n == (f64 ? n[i] : (double)((const float *)n)[i]);
        same &= s.negatives == negatives[i] && s.positives == positives[i];
    }
    return same;
}

static void test_choice(const struct ctr_params *p)
{
    struct ctr_learning learning;
    struct ctr_err err = { 0 };
    struct table *t = calloc(1, sizeof *t);
    l = &learning;
    if (ctr_learning_init(&learning, p, &err)) {
        ok(!strcmp(p->lr.optimizer, "rda") && strstr(err.what, "every row moves every weight"), "refused: %s",
           err.what);
        free(t);
        return;
    }
    for (int turn = 0; ctr_isa_at(turn / 2); turn++) {
        const int isa = turn / 2;
        const bool fused = turn % 2;
        struct coordinate ref[KEYS] = { 0 };
        double worst = 0;
        if (!ctr_cpu_has((enum ctr_cpu)isa) || (!learning.events && turn))
            continue;
        ctr_forward *const before = learning.forward;
        ctr_learning_use(&learning, ctr_isa_at(isa), fused);
        if (fused && learning.forward == before)
            continue; /* this choice has but the loops */
        for (int i = 0; i < KEYS; i++)
            ref[i].hash = hash_of(i);
        step = 0;
        ticks = 0;
        if (open_table(t, &err))
            return;
        for (int i = 0; i < EVENTS; i++)
            worst = fmax(worst, run_event(t, ref, i));
        bool back = columns_agree(t);
        for (int i = 0; i < KEYS; i++) { /* to a file and back */
            struct ctr_state s;
            uint8_t row[64] = { 0 };
            ctr_state_read(l, &t->more.event, row_of(t, i), &s);
            ctr_state_write(l, &t->more.event, &s, row);
            back &= !memcmp(row + 8, row_of(t, i) + 8, state_bytes());
            uint8_t *at[CTR_LANES];
            for (int j = 0; j < CTR_LANES; j++)
                at[j] = j ? spare_of(t) : row_of(t, i);
            (void)l->forward(l, &t->s, at, 1);
            back &= ctr_state_weight(l, &t->more.event, &s) ==
                    (l->precision == CTR_F64_STATE ? t->w[0] : (double)((const float *)(void *)t->w)[0]);
            worst = fmax(worst, fabs(ctr_state_weight(l, &t->more.event, &s) - weight_of(&ref[i])));
        }
        ok(worst < 1e-12 && back && kept(t) && (!learning.events || step == t->more.event.step),
           "%s %s %s power %g, %s%s: worst weight %.2g%s%s", p->lr.optimizer, p->lr.learning_rate, p->lr.precision,
           p->lr.power, learning.events ? learning.isa->name : "fused", fused ? " fused" : "", worst,
           back ? "" : ", state does not come back", kept(t) ? "" : ", more than states was stored");
        ctr_more_free(&t->more);
    }
    free(t);
}

static void test_choices(void)
{
    for (int o = 0; ctr_optimizer_at(o); o++)
        for (int rate = 0; ctr_rate_names[rate]; rate++)
            for (int precision = 0; ctr_precision_names[precision]; precision++)
                for (int power = 0; power < 2; power++) {
                    struct ctr_params p = ctr_params_usual(&ctr_model_lr);
                    p.lr.optimizer = ctr_optimizer_at(o)->name;
                    p.lr.learning_rate = ctr_rate_names[rate];
                    p.lr.precision = ctr_precision_names[precision];
                    p.lr.power = power ? 0.7 : 0.5;
                    p.lr.alpha = 0.3;
                    p.lr.l1 = 0.03;
                    p.lr.l2 = 0.01;
                    p.lr.threshold = 3;
                    test_choice(&p);
                }
}

/* What a weight of fobos loses in m rows without its key, in closed form and a row at a time. */
static void test_shrinking(void)
{
    static const double sums[] = { 0, 1e-12, .001, .3 };
    double worst = 0;
    bool ends = true;
    for (int rate = 0; ctr_rate_names[rate]; rate++)
        for (int c = 0; c < 16; c++) {
            struct ctr_learning learning;
            struct ctr_err err = { 0 };
            struct ctr_params p = ctr_params_usual(&ctr_model_lr);
            p.lr.optimizer = "fobos";
            p.lr.learning_rate = ctr_rate_names[rate];
            p.lr.l1 = sums[c / 4];
            p.lr.l2 = sums[c % 4];
            l = &learning;
            if (ctr_learning_init(&learning, &p, &err))
                return;
            for (double w = -1.5; w < 2; w += .7) {
                const double root = 2.25;
                double plain = w, time = 0;
                for (step = 1; step < 3000; step++) {
                    const double by = rate == CTR_RATE_GLOBAL ? sqrt((double)step) : root,
                                 eta = p.lr.alpha / (p.lr.beta + by);
                    plain = copysign(fmax(0, fabs(plain) - eta * p.lr.l1), plain) / (1 + eta * p.lr.l2);
                    time += tick();
                    const double closed = ctr_learning_shrunk(l, w, root, time);
                    worst = fmax(worst, fabs(closed - plain));
                    ends &= (closed == 0) == (plain == 0);
                }
            }
        }
    ok(worst < 1e-11 && ends, "fobos: a weight shrinks in closed form as row by row, to %.2g", worst);
}

/* ---- what is drawn ---- */

static int learning_of(struct ctr_learning *learning, const char *optimizer, const char *rate, const char *precision,
                       struct ctr_err *err)
{
    struct ctr_params p = ctr_params_usual(&ctr_model_lr);
    p.lr.optimizer = optimizer;
    p.lr.learning_rate = rate;
    p.lr.precision = precision;
    l = learning;
    return ctr_learning_init(learning, &p, err);
}

/* The mean of many roundings of one value is the value; values outside are cut off and counted. */
static void test_rounding(void)
{
    enum { TIMES = 1 << 16 };
    struct ctr_learning learning;
    struct ctr_err err = { 0 };
    struct table *t = calloc(1, sizeof *t);
    double worst = 0;
    if (learning_of(&learning, "ogd", "global", "q2.13", &err) || open_table(t, &err))
        return;
    float *z = (float *)(void *)t->z;
    for (int v = 0; v < 20; v++) {
        double sum = 0, value = 6 * ctr_random01(9, 0, (uint64_t)v) - 3;
        ctr_more_hash(&t->more, &(uint64_t){ hash_of(v) }, 1);
        for (int i = 0; i < TIMES; i++) {
            z[0] = (float)value;
            t->more.event.draw = ctr_mix64((uint64_t)i);
            learning.isa->round(l, &t->s, CTR_LANES);
            sum += t->more.q[0];
        }
        worst = fmax(worst, fabs(sum / TIMES - (double)(float)value * 8192));
    }
    ok(worst < 4 * 0.5 / sqrt(TIMES), "rounding is unbiased: %.4f of a unit at worst, of %d", worst, TIMES);
    ok(t->more.event.clips == 0, "nothing was cut off");
    z[0] = 4;
    z[1] = -4;
    z[2] = 3.9998779296875f;
    z[3] = -17;
    z[4] = NAN;
    learning.isa->round(l, &t->s, CTR_LANES);
    ok(t->more.q[0] == 32767 && t->more.q[1] == -32768 && t->more.q[2] == 32767 && t->more.q[3] == -32768,
       "the range is [-4, 4)");
    ok(t->more.event.clips == 3, "what was cut off is counted: %lld", (long long)t->more.event.clips);
    ctr_more_free(&t->more);
    free(t);
}

/* Counters of 100,000 events of 400 keys: their mean is right, and each is near. */
static void test_counters(void)
{
    enum { COUNTED = 400, TIMES = 100000 };
    struct ctr_learning learning;
    struct ctr_err err = { 0 };
    struct table *t = calloc(1, sizeof *t);
    double sum = 0, square = 0;
    if (learning_of(&learning, "ogd", "counts", "f32", &err) || open_table(t, &err))
        return;
    for (int i = 0; i < CTR_LANES; i++)
        t->x[i] = 1;
    for (int key = 0; key < COUNTED; key += CTR_LANES) {
        memset(t->more.count, 0, CTR_LANES * sizeof *t->more.count);
        for (int i = 0; i < CTR_LANES; i++)
            t->hash[i] = ctr_random64(6, 0, (uint64_t)(key + i)) << 32;
        ctr_more_hash(&t->more, t->hash, CTR_LANES);
        (void)ctr_event_set(&t->more.event, 1, 1);
        for (int i = 0; i < TIMES; i++) {
            t->more.event.draw = ctr_mix64(((uint64_t)key << 32) + (uint64_t)i);
            learning.isa->advance[CTR_RATE_COUNTS][0][1](l, &t->s, CTR_LANES, 0);
            if (i == 2046 && !key)
                ok(t->more.count[0] >> 16 == 2047, "exact below 2048");
        }
        for (int i = 0; i < CTR_LANES; i++) {
            double v = (double)ctr_count_value((uint16_t)(t->more.count[i] >> 16)) / TIMES - 1;
            sum += v;
            square += v * v;
        }
    }
    double spread = sqrt(square / COUNTED);
    ok(spread < 0.016 && spread > 0.008, "a counter is off by %.2f%%", 100 * spread);
    ok(fabs(sum / COUNTED) < 4 * spread / sqrt(COUNTED), "and by %.3f%% on average", 100 * sum / COUNTED);
    static const double weights[] = { 1, 0.001, 0.37, 2, 50, 1234.5 };
    for (size_t w = 0; w < CTR_COUNT(weights); w++) {
        double mean = 0;
        for (int key = 0; key < COUNTED; key++) {
            uint16_t c = 0;
            for (int i = 0; i < TIMES / 10; i++)
                c = ctr_count_add(c, weights[w], (uint32_t)ctr_mix64((uint64_t)(key * TIMES + i)));
            mean += (double)ctr_count_value(c) / (TIMES / 10) / weights[w] / COUNTED - 1.0 / COUNTED;
        }
        ok(fabs(mean) < .003 + 4 / sqrt(weights[w] * TIMES / 10 * COUNTED),
           "events of weight %g: off by %.3f%% on average", weights[w], 100 * mean);
    }
    bool back = true, rises = true, same = true;
    for (int c = 0; c < 65536; c++)
        for (uint32_t i = 0; i < 40; i++) {
            const uint32_t bits = (uint32_t)ctr_mix64((uint64_t)c * 40 + i) << i % 32;
            same &= ctr_count_add((uint16_t)c, 1, bits) == c + (c != 65535 && (bits & ((1u << (c >> 11)) - 1)) == 0);
        }
    ok(same, "an event of weight 1 is what it was");
    for (int c = 0; c < 65536; c++) {
        back &= ctr_count_code(ctr_count_value((uint16_t)c)) == c;
        rises &= !c || ctr_count_value((uint16_t)c) > ctr_count_value((uint16_t)(c - 1));
    }
    ok(back && rises, "all codes come back");
    ctr_more_free(&t->more);
    free(t);
}

/* Sums of 100,000 small squares of 400 keys in 16 bits: their mean is right, and each is near. Where the gradient is 0
 * a sum stays, whatever is drawn. */
static void test_squares(void)
{
    enum { SUMS = 400, TIMES = 100000 };
    struct ctr_learning learning;
    struct ctr_err err = { 0 };
    struct table *t = calloc(1, sizeof *t);
    double sum = 0, square = 0;
    if (learning_of(&learning, "ftrl", "per-coordinate", "q2.13", &err) || open_table(t, &err))
        return;
    float *n = (float *)(void *)t->n;
    bool stays = true, back = true;
    for (int key = 0; key < SUMS; key += CTR_LANES) {
        for (int i = 0; i < CTR_LANES; i++) {
            t->hash[i] = hash_of(key + i + 1);
            n[i] = 0;
            t->x[i] = 1;
        }
        ctr_more_hash(&t->more, t->hash, CTR_LANES - 1); /* the last one as a bias */
        for (int i = 0; i < TIMES; i++) {
            t->more.event.draw = ctr_mix64(((uint64_t)key << 32) + (uint64_t)i);
            learning.isa->advance_codes(l, &t->s, CTR_LANES, 0.1);
        }
        for (int i = 0; i < CTR_LANES; i++) {
            const double v = (double)n[i] / (TIMES * 0.01) - 1;
            sum += v;
            square += v * v;
        }
    }
    const double spread = sqrt(square / SUMS);
    ok(spread < 0.043 && spread > 0.03, "a sum of squares in 16 bits is off by %.2f%%", 100 * spread);
    ok(fabs(sum / SUMS) < 4 * spread / sqrt(SUMS), "and by %.3f%% on average", 100 * sum / SUMS);
    for (uint32_t code = 0; code < 0xff00; code++) {
        back &= ctr_squares_code(ctr_squares_value((uint16_t)code), CTR_SQUARES_NEAREST) == code;
        n[code % CTR_LANES] = ctr_squares_value((uint16_t)code);
        if (code % CTR_LANES != CTR_LANES - 1)
            continue;
        t->more.event.draw = ctr_mix64(code);
        learning.isa->advance_codes(l, &t->s, CTR_LANES, 0);
        for (uint32_t i = 0; i < CTR_LANES; i++)
            stays &= ctr_squares_code(n[i], 0) == code - (CTR_LANES - 1) + i;
    }
    ok(back, "all of its codes come back");
    ok(stays, "and stay where the gradient is 0");
    ok(ctr_squares_code(1.001953125f, CTR_SQUARES_NEAREST) == 0x7f01 &&
           ctr_squares_code(1.0019f, CTR_SQUARES_NEAREST) == 0x7f00,
       "numbers of files are rounded to the nearest");
    ctr_more_free(&t->more);
    free(t);
}

/* Hashes by column become halves by row, zeros behind them, and nothing else is touched. */
static void test_halves(void)
{
    enum { COLUMN = 300, MOST = 20, WIDTH = 24, FROM = 3 };
    uint64_t *hash = malloc(COLUMN * MOST * sizeof *hash);
    uint32_t *to = malloc((COLUMN + CTR_LANES) * WIDTH * sizeof *to), wrong = 0;
    for (uint64_t i = 0; i < COLUMN * MOST; i++)
        hash[i] = ctr_random64(8, 0, i);
    for (int turn = 0; turn < 200; turn++) {
        const int64_t k = turn % (MOST + 1), rows = turn < 100 ? turn : COLUMN - FROM - turn % 9;
        const int64_t stored = (rows + CTR_LANES - 1) / CTR_LANES * CTR_LANES * WIDTH;
        const int shift = turn % 2 * 32;
        memset(to, CANARY, (COLUMN + CTR_LANES) * WIDTH * sizeof *to);
        ctr_halves_transpose(hash + FROM, COLUMN, k, rows, shift, WIDTH, to);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < WIDTH; j++)
                wrong += to[i * WIDTH + j] != (j < k ? (uint32_t)(hash[j * COLUMN + FROM + i] >> shift) : 0);
        for (const uint8_t *p = (const uint8_t *)(to + stored); p < (const uint8_t *)(to + stored + 64); p++)
            wrong += *p != CANARY;
    }
    ok(!wrong, "halves of hashes by column are those by row");
    free(hash);
    free(to);
}

int main(void)
{
    test_choices();
    test_shrinking();
    test_halves();
    test_rounding();
    test_squares();
    test_counters();
    return done_testing();
}
