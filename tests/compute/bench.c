/* SPDX-License-Identifier: Apache-2.0
 *
 * bench: times operations in the shapes of an Embedding&MLP model of 26 fields x 10, 400-400-400, minibatches of 4096.
 * Best of several runs, since the machine may be busy. */
#include "trial.h"

#include <stdlib.h>
#include <time.h>

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

enum { COPY_BYTES = 16 << 20, BATCH = 4096, FIELDS = 26, WIDTH = 10, ENTRIES = BATCH * FIELDS, SLOTS = 1 << 18 };

struct bench {
    struct ctr_dev *dev;
    void *pinned; /* COPY_BYTES */
    struct ctr_mem *x, *y, *z, *w, *index, *start, *item, *keys, *slots, *list, *out;
    int64_t count, told[3];
    uint32_t now;
    int64_t m, n, k;
    struct ctr_err err;
};

/* What one line of the table runs; work: its operations (flop) or bytes. */
struct line {
    const char *name, *unit;
    double work;
    int64_t m, n, k; /* gemm */
    int (*run)(struct bench *b);
};

static int run_forward(struct bench *b)
{
    return ctr_dev_gemm(b->dev,
                        &(struct ctr_dev_gemm){ .a = ctr_mat(b->x, b->m, b->k),
                                                .b = ctr_mat(b->w, b->n, b->k),
                                                .tb = true,
                                                .c = ctr_mat(b->y, b->m, b->n) },
                        &b->err);
}

/* To a device with memory of its own a copy takes no longer than what it runs beside: of the two alone, the longer one.
 */
static int run_copy(struct bench *b)
{
    int rc = ctr_mem_write_async(b->z, 0, b->pinned, COPY_BYTES, &b->err);
    return rc ? rc : ctr_dev_copied(b->dev, &b->err);
}

static int run_copy_beside(struct bench *b)
{
    int rc = ctr_mem_write_async(b->z, 0, b->pinned, COPY_BYTES, &b->err);
    if (!rc)
        rc = run_forward(b);
    return rc ? rc : ctr_dev_copied(b->dev, &b->err);
}

static int run_layer(struct bench *b)
{
    return ctr_dev_gemm(b->dev,
                        &(struct ctr_dev_gemm){ .a = ctr_mat(b->x, b->m, b->k),
                                                .b = ctr_mat(b->w, b->n, b->k),
                                                .tb = true,
                                                .c = ctr_mat(b->y, b->m, b->n),
                                                .bias = ctr_vec(b->w, b->n),
                                                .act = { .kind = CTR_ACT_PRELU, .alpha = ctr_vec(b->w, b->n) },
                                                .pre = ctr_mat(b->z, b->m, b->n) },
                        &b->err);
}

static int run_input_gradient(struct bench *b)
{
    return ctr_dev_gemm(b->dev,
                        &(struct ctr_dev_gemm){ .a = ctr_mat(b->x, b->m, b->k),
                                                .b = ctr_mat(b->w, b->k, b->n),
                                                .c = ctr_mat(b->y, b->m, b->n) },
                        &b->err);
}

static int run_input_gradient_back(struct bench *b)
{
    return ctr_dev_gemm(
        b->dev,
        &(struct ctr_dev_gemm){ .a = ctr_mat(b->x, b->m, b->k),
                                .b = ctr_mat(b->w, b->k, b->n),
                                .c = ctr_mat(b->y, b->m, b->n),
                                .back = { .z = ctr_mat(b->z, b->m, b->n),
                                          .act = { .kind = CTR_ACT_PRELU, .alpha = ctr_vec(b->w, b->n) },
                                          .dalpha = ctr_vec_at(b->out, 0, b->n),
                                          .dbias = ctr_vec_at(b->out, b->n, b->n) } },
        &b->err);
}

static int run_weight_gradient(struct bench *b)
{
    return ctr_dev_gemm(b->dev,
                        &(struct ctr_dev_gemm){ .a = ctr_mat(b->x, b->k, b->m),
                                                .ta = true,
                                                .b = ctr_mat(b->y, b->k, b->n),
                                                .c = ctr_mat(b->z, b->m, b->n) },
                        &b->err);
}

static int run_act(struct bench *b)
{
    return ctr_dev_act(b->dev,
                       &(struct ctr_dev_act){ .z = ctr_mat(b->x, BATCH, 400),
                                              .y = ctr_mat(b->z, BATCH, 400),
                                              .act = { .kind = CTR_ACT_PRELU, .alpha = ctr_vec(b->w, 400) } },
                       &b->err);
}

static int run_act_grad(struct bench *b)
{
    return ctr_dev_act_grad(b->dev,
                            &(struct ctr_dev_act_grad){ .z = ctr_mat(b->x, BATCH, 400),
                                                        .dy = ctr_mat(b->y, BATCH, 400),
                                                        .dz = ctr_mat(b->z, BATCH, 400),
                                                        .act = { .kind = CTR_ACT_PRELU, .alpha = ctr_vec(b->w, 400) },
                                                        .dalpha = ctr_vec_at(b->out, 0, 400),
                                                        .dbias = ctr_vec_at(b->out, 400, 400) },
                            &b->err);
}

static struct ctr_lists one_hot(struct bench *b)
{
    return (struct ctr_lists){ .lists = ENTRIES, .per_row = FIELDS, .index = ctr_vec(b->index, ENTRIES) };
}

/* Keys of a minibatch that all have their slots, but for the first time. */
static int run_slots(struct bench *b)
{
    return ctr_dev_slots(b->dev,
                         &(struct ctr_dev_slots){ .key = ctr_vec_at(b->slots, 0, SLOTS),
                                                  .stamp = ctr_vec_at(b->slots, 2 * SLOTS, SLOTS),
                                                  .want = ctr_vec(b->keys, ENTRIES),
                                                  .slot = ctr_vec(b->index, ENTRIES),
                                                  .missed = ctr_vec_at(b->list, 0, ENTRIES),
                                                  .missed_slot = ctr_vec_at(b->list, ENTRIES, ENTRIES),
                                                  .evicted_slot = ctr_vec_at(b->list, 2 * ENTRIES, ENTRIES),
                                                  .now = ++b->now,
                                                  .misses = &b->told[0],
                                                  .evictions = &b->told[1],
                                                  .failures = &b->told[2],
                                                  .group_start = ctr_vec(b->start, ENTRIES + 1),
                                                  .group_item = ctr_vec(b->item, ENTRIES),
                                                  .group_slot = ctr_vec_at(b->list, 3 * ENTRIES, ENTRIES),
                                                  .groups = &b->count },
                         &b->err);
}

static int run_pool(struct bench *b)
{
    return ctr_dev_pool(b->dev,
                        &(struct ctr_dev_pool){ .lists = one_hot(b),
                                                .rows = ctr_mat(b->x, SLOTS, WIDTH),
                                                .out = ctr_mat(b->y, BATCH, FIELDS * WIDTH) },
                        &b->err);
}

static int run_cross(struct bench *b)
{
    return ctr_dev_cross(b->dev,
                         &(struct ctr_dev_cross){ ctr_mat(b->x, BATCH, 400), ctr_mat(b->y, BATCH, 400),
                                                  ctr_mat(b->y, BATCH, 400), ctr_mat(b->z, BATCH, 400) },
                         &b->err);
}

static int run_dots(struct bench *b)
{
    return ctr_dev_dots(
        b->dev, &(struct ctr_dev_dots){ 26, ctr_mat(b->x, BATCH, 26 * WIDTH), ctr_mat(b->y, BATCH, 26 * 25 / 2) },
        &b->err);
}

static int run_dots_grad(struct bench *b)
{
    return ctr_dev_dots_grad(b->dev,
                             &(struct ctr_dev_dots_grad){ 26, ctr_mat(b->x, BATCH, 26 * WIDTH),
                                                          ctr_mat(b->y, BATCH, 26 * 25 / 2),
                                                          ctr_mat(b->z, BATCH, 26 * WIDTH) },
                             &b->err);
}

static int run_pool_grad(struct bench *b)
{
    return ctr_dev_pool_grad(b->dev,
                             &(struct ctr_dev_pool_grad){ .lists = one_hot(b),
                                                          .group_start = ctr_vec(b->start, b->count + 1),
                                                          .group_item = ctr_vec(b->item, ENTRIES),
                                                          .dout = ctr_mat(b->y, BATCH, FIELDS * WIDTH),
                                                          .grad = ctr_mat(b->z, b->count, WIDTH) },
                             &b->err);
}

static const struct ctr_dev_opt adam = {
    .kind = CTR_OPT_ADAM, .rate = 0.001f, .eps = 1e-8f, .beta1 = 0.9f, .beta2 = 0.999f, .step = 7
};

static int run_opt_rows(struct bench *b)
{
    return ctr_dev_opt_rows(b->dev,
                            &(struct ctr_dev_opt_rows){ .opt = adam,
                                                        .rows = ctr_mat(b->x, b->count, 3 * WIDTH),
                                                        .g = ctr_mat(b->z, b->count, WIDTH) },
                            &b->err);
}

static int run_opt_dense(struct bench *b)
{
    return ctr_dev_opt_dense(b->dev,
                             &(struct ctr_dev_opt_dense){ adam, ctr_vec(b->x, 426000), ctr_vec(b->y, 426000),
                                                          ctr_vec_at(b->z, 0, 426000),
                                                          ctr_vec_at(b->z, 430000, 426000) },
                             &b->err);
}

static int run_bce(struct bench *b)
{
    return ctr_dev_bce(b->dev,
                       &(struct ctr_dev_bce){ .z = ctr_vec(b->x, BATCH),
                                              .label = ctr_vec(b->y, BATCH),
                                              .dz = ctr_vec(b->z, BATCH),
                                              .total = ctr_vec(b->out, 1),
                                              .scale = 1 },
                       &b->err);
}

static int run_dropout(struct bench *b)
{
    return ctr_dev_dropout(
        b->dev,
        &(struct ctr_dev_dropout){ .x = ctr_mat(b->x, BATCH, 400), .y = ctr_mat(b->y, BATCH, 400), .rate = 0.5f },
        &b->err);
}

static int run_stats(struct bench *b)
{
    return ctr_dev_stats(
        b->dev,
        &(struct ctr_dev_stats){ ctr_mat(b->x, BATCH, 400), ctr_vec_at(b->out, 0, 400), ctr_vec_at(b->out, 400, 400) },
        &b->err);
}

#define GEMM(label, m, n, k, fn)                                                                                       \
    {                                                                                                                  \
        label, "GFLOP/s", 2.0 * m *n *k, m, n, k, fn                                                                   \
    }
#define PER_SECOND(label, n, fn)                                                                                       \
    {                                                                                                                  \
        label, "M/s", n, 0, 0, 0, fn                                                                                   \
    }
static const struct line lines[] = {
    GEMM("gemm 1024x1024x1024", 1024, 1024, 1024, run_input_gradient),
    GEMM("gemm forward 4096x400x400", BATCH, 400, 400, run_forward),
    GEMM("gemm forward 4096x400x260, bias, prelu", BATCH, 400, 260, run_layer),
    GEMM("gemm input gradient 4096x400x400", BATCH, 400, 400, run_input_gradient),
    GEMM("gemm input gradient, back through prelu", BATCH, 400, 400, run_input_gradient_back),
    GEMM("gemm weight gradient 400x400x4096", 400, 400, BATCH, run_weight_gradient),
    GEMM("gemm weight gradient 400x260x4096", 400, 260, BATCH, run_weight_gradient),
    GEMM("gemm weight gradient 256x4096x256", 256, 4096, 256, run_weight_gradient),
    GEMM("gemm forward 4096x1x400", BATCH, 1, 400, run_forward),
    { "copy of 16 MiB to the device", "GB/s", COPY_BYTES, 0, 0, 0, run_copy },
    GEMM("gemm of 4096x400x400 beside such a copy", BATCH, 400, 400, run_copy_beside),
    PER_SECOND("act prelu 4096x400, elements", BATCH * 400, run_act),
    PER_SECOND("act_grad prelu 4096x400, elements", BATCH * 400, run_act_grad),
    PER_SECOND("slots of 106496 keys that repeat", ENTRIES, run_slots),
    PER_SECOND("pool 4096x26 of width 10, entries", ENTRIES, run_pool),
    PER_SECOND("pool_grad 4096x26 of width 10, entries", ENTRIES, run_pool_grad),
    PER_SECOND("cross 4096x400, elements", BATCH * 400, run_cross),
    PER_SECOND("dots 4096 rows of 26 x 10, products", BATCH * 325.0 * WIDTH, run_dots),
    PER_SECOND("dots_grad, products", BATCH * 650.0 * WIDTH, run_dots_grad),
    PER_SECOND("opt_rows adam, entries", ENTRIES, run_opt_rows),
    PER_SECOND("opt_dense adam, parameters", 426000, run_opt_dense),
    PER_SECOND("bce 4096, rows", BATCH, run_bce),
    PER_SECOND("dropout 4096x400, elements", BATCH * 400, run_dropout),
    PER_SECOND("stats 4096x400, elements", BATCH * 400, run_stats),
};

/* Best times of wall and of processors: the second tells more on a machine that is busy, and nothing about a GPU. */
static int time_line(struct bench *b, const struct line *l)
{
    const double scale = *l->unit == 'G' ? 1e-9 : 1e-6;
    double best = 1e9, best_cpu = 1e9, spent = 0;

    b->m = l->m, b->n = l->n, b->k = l->k;
    for (int i = 0; i < 400 && (i < 3 || spent < 0.5); i++) {
        const double start = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
        int rc = l->run(b);
        if (rc == 0)
            rc = ctr_dev_sync(b->dev, &b->err);
        if (rc)
            return rc;
        const double took = seconds(CLOCK_MONOTONIC) - start;
        best = CTR_MIN(best, took);
        best_cpu = CTR_MIN(best_cpu, seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu);
        spent += took;
    }
    printf("%-44s %9.3f ms %10.1f %-8s %9.3f ms of processors %10.1f\n", l->name, 1e3 * best, l->work / best * scale,
           l->unit, 1e3 * best_cpu, l->work / best_cpu * scale);
    return 0;
}

static int put(struct bench *b, struct ctr_mem **m, int64_t n, double (*value)(uint64_t i))
{
    float *x = malloc((size_t)n * 4);
    int rc = x ? 0 : CTR_ENOMEM;
    for (int64_t i = 0; x && value && i < n; i++)
        x[i] = (float)value((uint64_t)i);
    if (rc == 0)
        rc = ctr_mem_new(m, b->dev, (size_t)n * 4, &b->err);
    if (rc == 0 && value)
        rc = ctr_mem_write(*m, 0, x, (size_t)n * 4, &b->err);
    free(x);
    return rc;
}

static double uniform(uint64_t i)
{
    return ctr_random01(1, 2, i) - 0.5;
}

/* 26 fields of Zipf-like values: some keys are seen in nearly every row, most once. */
static int put_keys(struct bench *b)
{
    uint64_t *keys = malloc(ENTRIES * sizeof *keys);
    if (!keys)
        return CTR_ENOMEM;
    for (uint64_t e = 0; e < ENTRIES; e++)
        keys[e] = ctr_mix64(e % FIELDS << 32 | (uint64_t)(1 / (1e-6 + ctr_random01(1, 3, e))));
    int rc = ctr_mem_new(&b->keys, b->dev, ENTRIES * 8, &b->err);
    if (rc == 0)
        rc = ctr_mem_write(b->keys, 0, keys, ENTRIES * 8, &b->err);
    free(keys);
    return rc;
}

int trial_bench(struct ctr_dev *dev, const char *only)
{
    struct bench b = { .dev = dev };
    struct ctr_mem **const all[] = { &b.x,    &b.y,    &b.z,     &b.w,    &b.index, &b.start,
                                     &b.item, &b.keys, &b.slots, &b.list, &b.out };
    const int64_t big = 4096 * 1024;

    int rc = put(&b, &b.x, big, uniform);
    rc = rc ? rc : put(&b, &b.y, big, uniform);
    rc = rc ? rc : put(&b, &b.z, big, NULL);
    rc = rc ? rc : put(&b, &b.w, big, uniform);
    rc = rc ? rc : put(&b, &b.index, ENTRIES, NULL);
    rc = rc ? rc : put(&b, &b.start, ENTRIES + 1, NULL);
    rc = rc ? rc : put(&b, &b.item, ENTRIES, NULL);
    rc = rc ? rc : put(&b, &b.slots, 3 * SLOTS, NULL);
    rc = rc ? rc : put(&b, &b.list, 4 * ENTRIES, NULL);
    rc = rc ? rc : put(&b, &b.out, 2048, NULL);
    rc = rc ? rc : put_keys(&b);
    rc = rc ? rc : ctr_host_new(&b.pinned, dev, COPY_BYTES, &b.err);
    rc = rc ? rc : run_slots(&b);
    rc = rc ? rc : ctr_dev_sync(dev, &b.err);
    printf("# %s\n", ctr_dev_title(dev));
    for (size_t i = 0; i < CTR_COUNT(lines) && rc == 0; i++)
        if (!only || strstr(lines[i].name, only))
            rc = time_line(&b, &lines[i]);
    if (rc)
        fprintf(stderr, "compute: %s\n", b.err.what);
    ctr_host_free(b.pinned, dev);
    for (size_t i = 0; i < CTR_COUNT(all); i++)
        ctr_mem_free(*all[i]);
    return rc ? 1 : 0;
}
