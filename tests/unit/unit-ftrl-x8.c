/* SPDX-License-Identifier: Apache-2.0
 *
 * Eight models at once have the bits of each alone: the kernels of ftrl_x8.h beside those of optimizer_ftrl.h, on
 * every instruction set, with coordinates that some models have not got; states side by side, nothing else is stored.
 */
#include <math.h>
#include <stdlib.h>

#include "common/lr/ftrl_x8.h"
#include "common/lr/lr.h"

#include "ftrl_plain.h"
#include "tap.h"

enum { KEYS = 50, EVENTS = 300, WIDE = 30, ROOM = 32, CANARY = 0x5a, STATE = 2 * CTR_X8 * sizeof(double) };

/* One model, alone: rows of its own. */
struct alone {
    struct ctr_learning l;
    uint8_t row[KEYS][32], spare[32];
    _Alignas(64) double z[ROOM], n[ROOM], w[ROOM], root[ROOM], x[ROOM];
};

struct both {
    struct alone one[CTR_X8];
    _Alignas(64) uint8_t before[64], state[KEYS * STATE], behind[64]; /* of all eight, dense in the type's bytes */
    _Alignas(64) double w[ROOM * CTR_X8], root[ROOM * CTR_X8];
    struct ctr_x8_params params;
    uint64_t mask[KEYS][CTR_X8];
};

static size_t bytes_of(enum ctr_precision type)
{
    return type == CTR_F64_STATE ? sizeof(double) : sizeof(float);
}

static double number(enum ctr_precision type, const void *from, int64_t i)
{
    return type == CTR_F64_STATE ? ((const double *)from)[i] : (double)((const float *)from)[i];
}

static int open_both(struct both *b, enum ctr_precision type, bool masked, struct ctr_err *err)
{
    memset(b, 0, sizeof *b);
    memset(b->before, CANARY, sizeof b->before);
    memset(b->behind, CANARY, sizeof b->behind);
    memset(b->state + KEYS * 2 * CTR_X8 * bytes_of(type), CANARY, sizeof b->state - KEYS * 2 * CTR_X8 * bytes_of(type));
    for (int v = 0; v < CTR_X8; v++) {
        struct ctr_params p = ctr_params_usual(&ctr_model_lr);
        p.lr.precision = ctr_precision_names[type];
        p.lr.alpha = 0.02 + 0.1 * v;
        p.lr.beta = 0.5 + v;
        p.lr.l1 = 0.02 * (v % 3);
        p.lr.l2 = 0.1 * (v % 2);
        int rc = ctr_learning_init(&b->one[v].l, &p, err);
        if (rc)
            return rc;
        b->params.inv_alpha[v] = b->one[v].l.inv_alpha;
        b->params.beta[v] = p.lr.beta;
        b->params.l1[v] = p.lr.l1;
        b->params.l2[v] = p.lr.l2;
        for (int k = 0; k < KEYS; k++)
            b->mask[k][v] = masked && (k * 7 + v) % 5 == 0 ? 0 : UINT64_MAX;
    }
    return 0;
}

/* Model v learns from the keys that it has; its dot product, before. */
static double learn_alone(struct both *b, int v, const int *key, const double *x, int k, double g)
{
    struct alone *a = &b->one[v];
    const struct ctr_coords s = { a->z, a->n, a->w, a->root, a->x, NULL };
    uint8_t *row[ROOM];
    int n = 0;
    for (int i = 0; i < k; i++)
        if (b->mask[key[i]][v]) {
            row[n] = a->row[key[i]];
            a->x[n++] = x[i];
        }
    for (int i = n; i < ROOM; i++) {
        row[i] = a->spare;
        a->x[i] = 0;
    }
    const double dot = a->l.forward(&a->l, &s, row, n);
    a->l.update(&a->l, &s, row, n, g);
    return dot;
}

/* All learn from one row; do the dot products agree? */
static bool learn(struct both *b, const struct ctr_x8_kernel *kernel, enum ctr_precision type, bool masked, int event)
{
    const int k = event % (WIDE + 1);
    int key[WIDE];
    double x[WIDE], g[CTR_X8], dot[CTR_X8];
    uint8_t *state[WIDE];
    const uint64_t *mask[WIDE];
    bool same = true;
    for (int i = 0; i < k; i++) {
        key[i] = (event * 11 + i) % KEYS; /* neighbours */
        x[i] = i % 3 ? 1 : 0.5 + ctr_random01(3, (uint64_t)event, (uint64_t)i);
        state[i] = b->state + (size_t)key[i] * 2 * CTR_X8 * bytes_of(type);
        mask[i] = b->mask[key[i]];
    }
    const struct ctr_x8_row r = {
        .state = state, .x = x, .mask = masked ? mask : NULL, .k = k, .w = b->w, .root = b->root
    };
    for (int v = 0; v < CTR_X8; v++)
        g[v] = ctr_random01(4, (uint64_t)event, (uint64_t)v) - 0.4;
    kernel->forward[type](&b->params, &r, dot);
    for (int v = 0; v < CTR_X8; v++) {
        int32_t at[WIDE];
        int64_t n = 0;
        for (int i = 0; i < k; i++)
            if (b->mask[key[i]][v])
                at[n++] = i;
        const double each = ctr_x8_dot(type, &r, v, at, n), alone = learn_alone(b, v, key, x, k, g[v]);
        same &= each == alone && (masked || dot[v] == alone);
    }
    kernel->update[type](&b->params, &r, g);
    return same;
}

/* Are the states those of the models alone, and is nothing else changed? */
static bool agree(const struct both *b, enum ctr_precision type)
{
    const size_t bytes = bytes_of(type);
    bool same = true;
    for (int k = 0; k < KEYS; k++)
        for (int v = 0; v < CTR_X8; v++) {
            const uint8_t *z = b->state + ((size_t)k * 2 * CTR_X8 + (size_t)v) * bytes;
            same &= !memcmp(z, b->one[v].row[k] + 8, bytes);
            same &= !memcmp(z + CTR_X8 * bytes, b->one[v].row[k] + 8 + bytes, bytes);
        }
    for (size_t i = 0; i < sizeof b->before; i++)
        same &= b->before[i] == CANARY && b->behind[i] == CANARY;
    for (size_t i = KEYS * 2 * CTR_X8 * bytes; i < sizeof b->state; i++)
        same &= b->state[i] == CANARY;
    return same;
}

/* Weights and digests of all states, against each model's. */
static void test_files(const struct both *b, const struct ctr_x8_kernel *kernel, enum ctr_precision type)
{
    static _Alignas(64) double z[KEYS * CTR_X8], n[KEYS * CTR_X8], w[KEYS * CTR_X8];
    const size_t part = CTR_X8 * bytes_of(type);
    uint64_t mixed[KEYS], sum[CTR_X8] = { 0 }, want[CTR_X8] = { 0 };
    double wrong[CTR_X8] = { 0 };
    bool same = true;
    for (int k = 0; k < KEYS; k++) {
        memcpy((uint8_t *)z + (size_t)k * part, b->state + 2 * (size_t)k * part, part);
        memcpy((uint8_t *)n + (size_t)k * part, b->state + 2 * (size_t)k * part + part, part);
        mixed[k] = ctr_mix64((uint64_t)k);
    }
    kernel->weights[type](&b->params, z, n, w, KEYS);
    kernel->digest[type](mixed, z, n, w, KEYS, sum, wrong);
    for (int k = 0; k < KEYS; k++)
        for (int v = 0; v < CTR_X8; v++) {
            struct ctr_state s;
            ctr_state_read(&b->one[v].l, NULL, b->one[v].row[k], &s);
            const double weight = ctr_state_weight(&b->one[v].l, NULL, &s);
            same &= number(type, w, k * CTR_X8 + v) == weight;
            want[v] += ctr_lr_digest((uint64_t)k, weight);
        }
    ok(same, "%s: weights", kernel->name);
    same = !memcmp(sum, want, sizeof sum);
    for (int v = 0; v < CTR_X8; v++)
        same &= wrong[v] == 0;
    if (type == CTR_F64_STATE)
        n[3] = INFINITY;
    else
        ((float *)(void *)z)[3] = NAN;
    kernel->digest[type](mixed, z, n, w, KEYS, sum, wrong);
    for (int v = 0; v < CTR_X8; v++)
        same &= (wrong[v] == 0) == (v != 3);
    ok(same, "%s: digests, and states that are not finite", kernel->name);
}

/* ---- square roots ---- */

/* The roots of eight numbers as forward makes them, as coordinate `odd` of a row; are they those of sqrt? */
static bool roots_agree(const struct ctr_x8_kernel *kernel, int odd, const double *n)
{
    _Alignas(64) double state[2][2 * CTR_X8] = { 0 }, w[2 * CTR_X8], root[2 * CTR_X8], dot[CTR_X8];
    uint8_t *at[2] = { (uint8_t *)state[0], (uint8_t *)state[1] };
    struct ctr_x8_params p;
    const struct ctr_x8_row r = { .state = at, .x = (double[]){ 1, 1 }, .k = 2, .w = w, .root = root };
    bool same = true;
    for (int v = 0; v < CTR_X8; v++) {
        p.inv_alpha[v] = p.beta[v] = 1;
        p.l1[v] = p.l2[v] = 0;
    }
    memcpy(state[odd] + CTR_X8, n, CTR_X8 * sizeof *n);
    kernel->forward[CTR_F64_STATE](&p, &r, dot);
    for (int v = 0; v < CTR_X8; v++) {
        const double want = sqrt(n[v]);
        same &= isnan(want) ? isnan(root[odd * CTR_X8 + v]) : !memcmp(&want, &root[odd * CTR_X8 + v], sizeof want);
    }
    return same;
}

/* Numbers whose roots lie next to a middle of two doubles: (M^2 - d) / 4 for odd M of 54 bits, where M^2 = d modulo
 * 2^54 so that this is a double. d = 1 modulo 8; four such M each. */
static int near_middles(int64_t d, double to[4])
{
    const uint64_t mask = (UINT64_C(1) << 54) - 1;
    uint64_t m = 1;
    int n = 0;
    for (int bit = 3; bit < 54; bit++)
        m += ((m * m - (uint64_t)d) >> bit & 1) << (bit - 1);
    for (int i = 0; i < 4; i++) {
        const uint64_t own = ((i & 1 ? -m : m) + ((uint64_t)(i / 2) << 53)) & mask;
        const unsigned __int128 a = ((unsigned __int128)own * own - (unsigned __int128)(__int128)d) / 4;
        if (own >> 53 && (unsigned __int128)(double)a == a)
            to[n++] = (double)a;
    }
    return n;
}

static void test_roots(const struct ctr_x8_kernel *kernel)
{
    static const double odd_ones[CTR_X8] = {
        0, -0.0, 0x1p-1074, 0x1.8p-1022, 0x1.fffffffffffffp1023, INFINITY, NAN, 2
    };
    double n[CTR_X8], found[4];
    bool same = roots_agree(kernel, 0, odd_ones) && roots_agree(kernel, 1, odd_ones);
    int middles = 0;
    for (int64_t d = 1 - 8 * 4000; d < 8 * 4000; d += 8)
        for (int i = near_middles(d, found) - 1; i >= 0; i--) {
            n[middles % CTR_X8] = ldexp(found[i], 2 * (middles % 800 - 400) - 104);
            same &= ++middles % CTR_X8 || (roots_agree(kernel, 0, n) && roots_agree(kernel, 1, n));
        }
    for (uint64_t i = 0; i < 200000; i++) { /* squares and their neighbours, then any */
        for (uint64_t v = 0; v < CTR_X8; v++) {
            const double u = 1 + ctr_random01(5, i, v), square = (double)(float)u * (double)(float)u;
            const double near = nextafter(square, v & 1 ? 0 : 4),
                         any = ldexp(u, (int)(ctr_random01(6, i, v) * 1900) - 950);
            n[v] = i & 1 ? any : v & 2 ? square : near;
        }
        same &= roots_agree(kernel, (int)(i >> 1 & 1), n);
    }
    ok(same && middles > 8000, "%s: square roots, also of %d numbers whose roots lie between two doubles", kernel->name,
       middles);
}

/* Each lane beside the plain loop, which knows none of the kernels: the predictions before each update. */
static void test_plain(struct both *b, const struct ctr_x8_kernel *kernel, enum ctr_precision type)
{
    static double z[CTR_X8][KEYS], n[CTR_X8][KEYS];
    struct ctr_err err = { 0 };
    double worst = 0;
    memset(z, 0, sizeof z);
    memset(n, 0, sizeof n);
    bool made = !open_both(b, type, false, &err);
    for (int event = 0; event < EVENTS && made; event++) {
        const int k = 1 + event % WIDE;
        const double y = event % 4 == 0, weight = 1 + event % 3;
        double x[WIDE], g[CTR_X8], dot[CTR_X8];
        int64_t at[WIDE];
        uint8_t *state[WIDE];
        for (int i = 0; i < k; i++) {
            at[i] = (event * 11 + i) % KEYS;
            x[i] = i % 3 ? 1 : 0.5 + ctr_random01(3, (uint64_t)event, (uint64_t)i);
            state[i] = b->state + (size_t)at[i] * 2 * CTR_X8 * bytes_of(type);
        }
        const struct ctr_x8_row r = { .state = state, .x = x, .k = k, .w = b->w, .root = b->root };
        kernel->forward[type](&b->params, &r, dot);
        for (int v = 0; v < CTR_X8; v++) {
            struct ctr_ftrl_plain f = {
                1 / b->params.inv_alpha[v], b->params.beta[v], b->params.l1[v], b->params.l2[v], z[v], n[v]
            };
            const double p = 1 / (1 + exp(-dot[v]));
            worst = fmax(worst, fabs(p - ctr_ftrl_plain_row(&f, at, x, k, y, weight)));
            g[v] = weight * (p - y);
        }
        kernel->update[type](&b->params, &r, g);
    }
    ok(made && worst < (type == CTR_F64_STATE ? 1e-13 : 1e-5), "%s, %s: each lane predicts as the plain loop (%.2g)",
       kernel->name, ctr_precision_names[type], worst);
}

int main(void)
{
    struct both *b = aligned_alloc(64, (sizeof *b + 63) / 64 * 64);
    struct ctr_err err = { 0 };
    for (int isa = 0; b && ctr_x8_kernel_at(isa); isa++)
        for (int turn = 0; turn < 4 && ctr_cpu_has((enum ctr_cpu)isa); turn++) {
            const struct ctr_x8_kernel *kernel = ctr_x8_kernel_at(isa);
            const enum ctr_precision type = turn & 1 ? CTR_F32_STATE : CTR_F64_STATE;
            const bool masked = turn & 2;
            bool same = !open_both(b, type, masked, &err);
            for (int i = 0; i < EVENTS && same; i++)
                same &= learn(b, kernel, type, masked, i);
            ok(same && agree(b, type), "%s, %s%s: dot products and states of eight models", kernel->name,
               ctr_precision_names[type], masked ? ", some without some keys" : "");
            test_files(b, kernel, type);
            if (!masked)
                test_plain(b, kernel, type);
            if (!turn)
                test_roots(kernel);
        }
    free(b);
    return done_testing();
}
