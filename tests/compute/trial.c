/* SPDX-License-Identifier: Apache-2.0
 *
 * trial: see trial.h. */
#include "trial.h"

#include <math.h>
#include <stdlib.h>

const int64_t trial_sizes[TRIAL_SIZES] = { 0, 1, 31, 33, 257 };

double trial_random(struct trial *t)
{
    return ctr_random01(t->seed, 1, t->counter++);
}

int64_t trial_below(struct trial *t, int64_t n)
{
    return (int64_t)(trial_random(t) * (double)n);
}

void trial_wrong(struct trial *t, const char *fmt, ...)
{
    va_list ap;
    if (*t->wrong)
        return;
    int n = snprintf(t->wrong, sizeof t->wrong, "%s: ", t->what);
    va_start(ap, fmt);
    vsnprintf(t->wrong + n, sizeof t->wrong - (size_t)n, fmt, ap);
    va_end(ap);
}

void trial_start(struct trial *t, double tolerance, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(t->what, sizeof t->what, fmt, ap);
    va_end(ap);
    t->tolerance = tolerance;
    t->count = 0;
    t->trials++;
}

static size_t type_bytes(char type)
{
    return type == 'd' || type == 'q' ? 8 : 4;
}

static size_t array_bytes(const struct array *a)
{
    return (size_t)(a->n + 2 * GUARD) * type_bytes(a->type);
}

struct array *trial_array(struct trial *t, const char *name, char type, bool out, int64_t n)
{
    struct array *a = &t->arrays[t->count++];

    *a = (struct array){ .name = name, .type = type, .out = out, .n = n };
    a->host = malloc(array_bytes(a));
    if (!a->host)
        abort();
    for (size_t i = 0; i < array_bytes(a); i++) /* canaries; also what is not written, and gaps of strides */
        a->host[i] = (uint8_t)(0x40 | (i * 7 & 0x3f));
    return a;
}

void *trial_data(struct array *a)
{
    return a->host + GUARD * type_bytes(a->type);
}

struct array *trial_uniform(struct trial *t, const char *name, bool out, int64_t n, double low, double high)
{
    struct array *a = trial_array(t, name, 'f', out, n);
    float *x = trial_data(a);
    for (int64_t i = 0; i < n; i++)
        x[i] = t->nan && trial_random(t) < 0.02 ? NAN : (float)(low + (high - low) * trial_random(t));
    return a;
}

/* ---- comparison ---- */

static double value_at(const struct array *a, const uint8_t *bytes, int64_t i)
{
    switch (a->type) {
    case 'f': return (double)((const float *)bytes)[i];
    case 'd': return ((const double *)bytes)[i];
    case 'i': return (double)((const int32_t *)bytes)[i];
    default: return (double)((const uint64_t *)bytes)[i];
    }
}

static bool agree(double got, double want, double slack)
{
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got);
    return got == want || fabs(got - want) <= slack;
}

static void compare(struct trial *t, const struct array *a, const uint8_t *want, const uint8_t *got)
{
    double largest = 0;

    for (int64_t i = GUARD; i < GUARD + a->n; i++) {
        const double v = fabs(value_at(a, want, i));
        largest = isfinite(v) && v > largest && v < 1e30 ? v : largest;
    }
    for (int64_t i = 0; i < a->n + 2 * GUARD; i++) {
        const size_t size = type_bytes(a->type), at = (size_t)i * size;
        const bool inside = i >= GUARD && i < GUARD + a->n;
        const bool same = memcmp(got + at, want + at, size) == 0;
        const bool real = a->type == 'f' || a->type == 'd';
        const double off = inside && real ? t->error : 0;
        if (same && off == 0)
            continue;
        if (inside && real && agree(value_at(a, got, i) + off, value_at(a, want, i), t->tolerance * (1 + largest)))
            continue;
        trial_wrong(t, "%s[%lld]%s is %.9g, not %.9g (off %.3g, allowed %.3g)", a->name, (long long)(i - GUARD),
                    inside ? "" : " (canary)", value_at(a, got, i), value_at(a, want, i),
                    value_at(a, got, i) - value_at(a, want, i), inside ? t->tolerance * (1 + largest) : 0);
        return;
    }
}

static uint8_t *read_back(struct trial *t, const struct array *a, int d)
{
    struct ctr_err err = { 0 };
    uint8_t *bytes = malloc(array_bytes(a));
    if (!bytes || ctr_mem_read(a->mem[d], 0, bytes, array_bytes(a), &err))
        trial_wrong(t, "reading %s: %s", a->name, err.what);
    return bytes;
}

static void judge(struct trial *t, const struct array *a)
{
    uint8_t *got = read_back(t, a, TRIED), *want = t->alone ? got : read_back(t, a, REFERENCE);

    if (a->out)
        compare(t, a, want, got);
    else if (memcmp(got, a->host, array_bytes(a)) != 0)
        trial_wrong(t, "input %s was changed", a->name);
    const size_t guard = GUARD * type_bytes(a->type);
    if (memcmp(want, a->host, guard) != 0 ||
        memcmp(want + array_bytes(a) - guard, a->host + array_bytes(a) - guard, guard) != 0)
        trial_wrong(t, "the reference wrote outside %s", a->name);
    if (a->out)
        t->digest = ctr_hash64(got, array_bytes(a), t->digest);
    if (want != got)
        free(want);
    free(got);
}

void trial_go(struct trial *t, int (*run)(struct trial *t, int d, void *ctx, struct ctr_err *err), void *ctx)
{
    struct ctr_err err = { 0 };

    for (int d = t->alone ? TRIED : REFERENCE; d < BACK_ENDS; d++) {
        for (int i = 0; i < t->count; i++) {
            struct array *a = &t->arrays[i];
            if (ctr_mem_new(&a->mem[d], t->dev[d], array_bytes(a), &err) ||
                ctr_mem_write(a->mem[d], 0, a->host, array_bytes(a), &err))
                trial_wrong(t, "array %s: %s", a->name, err.what);
        }
        if (!*t->wrong && (run(t, d, ctx, &err) || ctr_dev_sync(t->dev[d], &err)))
            trial_wrong(t, "%s: %s", ctr_dev_name(t->dev[d]), err.what);
    }
    for (int i = 0; i < t->count; i++) {
        if (!*t->wrong)
            judge(t, &t->arrays[i]);
        for (int d = 0; d < BACK_ENDS; d++)
            ctr_mem_free(t->arrays[i].mem[d]);
        free(t->arrays[i].host);
    }
    t->count = 0;
}

static int lines, failed;

void trial_ok(bool good, const char *fmt, ...)
{
    va_list ap;
    printf("%sok %d - ", good ? "" : "not ", ++lines);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
    failed += !good;
}

int trial_done(void)
{
    printf("1..%d\n", lines);
    return failed != 0;
}

void trial_report(struct trial *t, const char *name)
{
    trial_ok(!*t->wrong, "%s (%lld trials)", name, (long long)t->trials);
    if (*t->wrong)
        printf("# %s (seed %llu)\n", t->wrong, (unsigned long long)t->seed);
    *t->wrong = 0;
    t->trials = 0;
}
