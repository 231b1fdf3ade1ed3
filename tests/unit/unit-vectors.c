/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of vectors: each is one chain of fmaf, then the bias, on every processor, and what gemm gives; the best of
 * them are those of a plain sort, however they come in blocks. */
#include "common/model/vectors.h"

#include <math.h>
#include <stdlib.h>

#include "common/compute/compute.h"
#include "tap.h"

enum { MOST = 1000, MOST_WIDTH = 70 };
static float user[MOST_WIDTH], ads[MOST * MOST_WIDTH], want[MOST], got[MOST];

static uint64_t state = 1;
static double uniform(void)
{
    state = ctr_mix64(state + 0x9e3779b97f4a7c15u);
    return (double)(state >> 11) / 9007199254740992.0;
}

/* Numbers of all sizes, down to those whose products are denormal. */
static float number(void)
{
    return (float)((uniform() - .5) * (uniform() < .2 ? 1e-20 : uniform() < .2 ? 1e3 : 1));
}

static void fill(int64_t n, int32_t width)
{
    for (int32_t c = 0; c < width; c++)
        user[c] = number();
    for (int64_t i = 0; i < n * width; i++)
        ads[i] = number();
}

static void plain(const struct ctr_vectors *v, int64_t n)
{
    const enum ctr_float_mode before = ctr_float_mode(CTR_FLOAT_FLUSH);
    for (int64_t i = 0; i < n; i++) {
        volatile float s = 0; /* the compiler joins nothing */
        for (int32_t c = 0; c < v->width; c++)
            s = fmaf(user[c], ads[i * v->width + c], s);
        want[i] = s + v->bias;
    }
    ctr_float_mode(before);
}

static bool same(int64_t n)
{
    return !memcmp(want, got, (size_t)n * sizeof *want);
}

static void products(void)
{
    static const char *const levels[] = { "plain", NULL };
    bool good = true;
    for (int l = 0; l < 2; l++) {
        ctr_cpu_limit(levels[l]);
        for (int32_t width = 1; width <= MOST_WIDTH; width++)
            for (int64_t n = 0; n < 40; n += 1 + n / 9) {
                const struct ctr_vectors v = { .width = width, .bias = number() };
                fill(n, width);
                plain(&v, n);
                ctr_vectors_dot(&v, user, ads, n, got);
                good &= same(n);
            }
        ok(good, "products are chains of fmaf, then the bias: %s", levels[l] ? levels[l] : "the best processor");
    }
}

static int multiply(struct ctr_dev *dev, struct ctr_mem *mem[4], const struct ctr_vectors *v, int64_t n,
                    struct ctr_err *err)
{
    const size_t bytes[] = { sizeof user, sizeof ads, sizeof want, sizeof want };
    float bias[MOST];
    int rc = 0;
    for (int64_t i = 0; i < n; i++)
        bias[i] = v->bias;
    for (int i = 0; i < 4 && !rc; i++)
        rc = ctr_mem_grow(&mem[i], dev, bytes[i], err);
    if (!rc)
        rc = ctr_mem_write(mem[0], 0, user, sizeof user, err);
    if (!rc)
        rc = ctr_mem_write(mem[1], 0, ads, sizeof ads, err);
    if (!rc)
        rc = ctr_mem_write(mem[2], 0, bias, (size_t)n * sizeof *bias, err);
    const struct ctr_dev_gemm gemm = { .a = ctr_mat(mem[0], 1, v->width),
                                       .b = ctr_mat(mem[1], n, v->width),
                                       .tb = true,
                                       .bias = ctr_vec(mem[2], n),
                                       .c = ctr_mat(mem[3], 1, n) };
    if (!rc)
        rc = ctr_dev_gemm(dev, &gemm, err);
    return rc ? rc : ctr_mem_read(mem[3], 0, want, (size_t)n * sizeof *want, err);
}

static void like_gemm(void)
{
    const struct ctr_dev_want on = { .device = "cpu", .threads = 1 };
    struct ctr_dev *dev = NULL;
    struct ctr_mem *mem[4] = { NULL };
    struct ctr_err err = { 0 };
    int rc = ctr_dev_open(&dev, &on, &err);
    bool good = true;
    for (int32_t width = 1; width <= MOST_WIDTH && !rc; width += 3) {
        const struct ctr_vectors v = { .width = width, .bias = number() };
        fill(MOST, width);
        rc = multiply(dev, mem, &v, MOST, &err);
        ctr_vectors_dot(&v, user, ads, MOST, got);
        good &= same(MOST);
    }
    ok(!rc && good, "and have the bits of gemm");
    for (int i = 0; i < 4; i++)
        ctr_mem_free(mem[i]);
    ctr_dev_free(dev);
}

static int better(const void *a, const void *b)
{
    const struct ctr_best *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit > y->logit ? -1 : 1;
    return x->ad - y->ad;
}

static void best(void)
{
    struct ctr_best sorted[MOST], heap[MOST];
    bool good = true;
    for (int trial = 0; trial < 400; trial++) {
        const int64_t n = 1 + (int64_t)(uniform() * (MOST - 1)), k = 1 + (int64_t)(uniform() * (double)(n - 1));
        int64_t found = 0;
        for (int64_t i = 0; i < n; i++) {
            got[i] = (float)(int)(uniform() * 50); /* many are equal */
            sorted[i] = (struct ctr_best){ got[i], (int32_t)i };
        }
        for (int64_t at = 0, size; at < n; at += size) {
            size = 1 + (int64_t)(uniform() * 100);
            size = CTR_MIN(size, n - at);
            ctr_best_scan(heap, &found, k, got + at, size, at);
        }
        ctr_best_order(heap, found);
        qsort(sorted, (size_t)n, sizeof *sorted, better);
        good &= found == k;
        for (int64_t i = 0; i < k; i++)
            good &= heap[i].ad == sorted[i].ad && heap[i].logit == sorted[i].logit;
    }
    ok(good, "the best are those of a sort, of equal ones the first");
}

int main(void)
{
    products();
    like_gemm();
    best();
    return done_testing();
}
