/* SPDX-License-Identifier: Apache-2.0
 *
 * compute: every operation of one back end against the reference, and against finite differences.
 *
 *     compute [--device cpu|gpu] [--gemm exact|tf32] [--threads N] [--seed N] [--nan] [--digest[=alone]] [OPERATIONS]
 *     compute [--device cpu|gpu] --bench [OPERATION]
 *
 * OPERATIONS: only these are tried, as in "slots,opt_rows". --digest: also, on stderr, a hash of the outputs of each
 * operation, which must not depend on --threads or $CTR_CPU, and without finite differences; --digest=alone: without
 * the reference, too. --bench: times. Exit 77:
 * there is no such device ("skipped: no device"). */
#include "trial.h"

#include "common/compute/compute_impl.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <getopt.h>

static const struct trial_case *const trial_cases[] = { trial_matrix_cases,
                                                        trial_sparse_cases,
                                                        trial_attend_cases,
                                                        trial_loss_cases,
                                                        trial_image_cases,
                                                        trial_interact_cases,
                                                        NULL };

/* Is it one of a list with commas? */
static bool listed(const char *list, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (!strncmp(at, name, n) && (!at[n] || at[n] == ','))
            return true;
    return !list;
}

static void run_cases(struct trial *t, const struct trial_case *cases, bool digest)
{
    for (const struct trial_case *c = cases; c->name; c++) {
        char name[80];
        if (!listed(t->only, c->name))
            continue;
        t->digest = 0;
        t->counter = 0; /* whatever else is tried */
        c->run(t);
        if (digest)
            fprintf(stderr, "%s %016llx\n", c->name, (unsigned long long)t->digest);
        snprintf(name, sizeof name, "%s%s", c->name, t->nan ? " with NaN" : "");
        trial_report(t, name);
    }
}

static void run_all(struct trial *t, bool digest)
{
    for (int l = 0; trial_cases[l]; l++)
        run_cases(t, trial_cases[l], digest);
}

/* Every slot of a table is filled, and every operation has a case. */
static void check_slots(const struct ctr_ops *ops)
{
    const char *missing = NULL, *untried = NULL;

#define SLOT(slot) missing = ops->slot ? missing : #slot;
    SLOT(open)
    SLOT(close)
    SLOT(sync)
    SLOT(mem_new)
    SLOT(mem_free)
    SLOT(write)
    SLOT(read)
    SLOT(host_new)
    SLOT(host_free)
    SLOT(order)
    SLOT(copied)
    SLOT(memory_free)
    CTR_DEV_OPS(SLOT)
    trial_ok(!missing, "%s fills every slot%s%s", ops->name, missing ? ", not " : "", missing ? missing : "");
    for (int op = 0; op < CTR_DEV_OP_COUNT; op++) {
        bool found = false;
        for (int l = 0; trial_cases[l]; l++)
            for (const struct trial_case *c = trial_cases[l]; c->name; c++)
                found |= !strcmp(c->name, ctr_dev_op_name((enum ctr_dev_op)op));
        untried = found ? untried : ctr_dev_op_name((enum ctr_dev_op)op);
    }
    trial_ok(!untried, "every operation is tried%s%s", untried ? ", not " : "", untried ? untried : "");
}

/* Shapes that do not fit are refused with words, and nothing is written. */
static void check_refusals(struct ctr_dev *dev)
{
    struct ctr_mem *m = NULL;
    struct ctr_err err = { 0 };

    int rc = ctr_mem_new(&m, dev, 400, &err);
    trial_ok(rc == 0, "a buffer of 100 floats");
    const struct ctr_mat x = ctr_mat(m, 10, 10), y = ctr_mat(m, 10, 9);
    trial_ok(ctr_dev_copy(dev, &(struct ctr_dev_copy){ x, y }, &err) == CTR_EUSAGE && strstr(err.what, "10 x 9"), "%s",
             err.what);
    trial_ok(ctr_dev_gemm(dev, &(struct ctr_dev_gemm){ .a = x, .b = y, .c = x }, &err) == CTR_EUSAGE, "%s", err.what);
    trial_ok(ctr_dev_fill(dev, &(struct ctr_dev_fill){ ctr_mat(m, 11, 10), 0 }, &err) == CTR_EUSAGE, "%s", err.what);
    trial_ok(ctr_dev_fill(dev, &(struct ctr_dev_fill){ ctr_mat_at(m, -1, 1, 1), 0 }, &err) == CTR_EUSAGE, "%s",
             err.what);
    trial_ok(ctr_dev_fill(dev, &(struct ctr_dev_fill){ ctr_mat(NULL, 1, 1), 0 }, &err) == CTR_EUSAGE, "%s", err.what);
    trial_ok(ctr_dev_fill(dev, &(struct ctr_dev_fill){ { m, 0, 1LL << 40, 1LL << 40, 1LL << 40 }, 0 }, &err) ==
                 CTR_EUSAGE,
             "%s", err.what);
    trial_ok(ctr_dev_dropout(dev, &(struct ctr_dev_dropout){ .x = x, .y = x, .rate = 1 }, &err) == CTR_EUSAGE, "%s",
             err.what);
    trial_ok(ctr_mem_write(m, 390, "0123456789abcdef", 16, &err) == CTR_EUSAGE, "%s", err.what);
    ctr_mem_free(m);
    rc = ctr_mem_new(&m, dev, (size_t)1 << 60, &err);
    trial_ok(rc == CTR_ENOMEM && m == NULL && strstr(err.what, "--device-memory"), "%s", err.what);
}

/* A row of a product and of its activation does not depend on the rows beside it (the CPU's back end promises that). */
static void check_rows(struct ctr_dev *dev)
{
    enum { M = 257, N = 97, K = 1100 };
    static float x[M * K], y[M * N], part[M * N];
    static const int64_t from[] = { 0, 3, 100, 256 }, rows[] = { 7, 1, 31, 1 };
    struct ctr_mem *a = NULL, *b = NULL, *c = NULL;
    struct ctr_err err = { 0 };
    bool same = true;

    for (size_t i = 0; i < CTR_COUNT(x); i++)
        x[i] = (float)ctr_random01(1, 2, i) - 0.5f;
    int rc = ctr_mem_new(&a, dev, sizeof x, &err) || ctr_mem_new(&b, dev, sizeof x, &err) ||
             ctr_mem_new(&c, dev, sizeof y, &err) || ctr_mem_write(a, 0, x, sizeof x, &err) ||
             ctr_mem_write(b, 0, x, sizeof x, &err);
    struct ctr_dev_gemm g = {
        .a = ctr_mat(a, M, K), .b = ctr_mat(b, N, K), .tb = true, .c = ctr_mat(c, M, N), .act.kind = CTR_ACT_SIGMOID
    };
    rc = rc || ctr_dev_gemm(dev, &g, &err) || ctr_mem_read(c, 0, y, sizeof y, &err);
    for (size_t i = 0; i < CTR_COUNT(from) && rc == 0; i++) {
        struct ctr_dev_gemm some = g;
        some.a = ctr_mat_rows(g.a, from[i], rows[i]);
        some.c = ctr_mat(c, rows[i], N);
        rc = ctr_dev_gemm(dev, &some, &err) || ctr_mem_read(c, 0, part, (size_t)(rows[i] * N) * sizeof *part, &err);
        same &= memcmp(part, y + from[i] * N, (size_t)(rows[i] * N) * sizeof *part) == 0;
    }
    trial_ok(rc == 0 && same, "a row's bits do not depend on the other rows %s", err.what);
    ctr_mem_free(a);
    ctr_mem_free(b);
    ctr_mem_free(c);
}

/* A device that may hold 1 MiB says what it lacks. */
static void check_memory(struct ctr_dev_want want)
{
    struct ctr_dev *dev;
    struct ctr_mem *m = NULL, *more = NULL;
    struct ctr_err err = { 0 };

    want.memory_bytes = 1 << 20;
    if (ctr_dev_open(&dev, &want, &err)) {
        trial_ok(false, "opened with --device-memory: %s", err.what);
        return;
    }
    trial_ok(ctr_mem_new(&m, dev, 1 << 19, &err) == 0 && ctr_dev_memory(dev) == 1 << 19, "half of it");
    trial_ok(ctr_mem_new(&more, dev, (1 << 19) + 1, &err) == CTR_ENOMEM &&
                 strstr(err.what, "--device-memory allows 1 MiB"),
             "%s", err.what);
    trial_ok(ctr_dev_memory_free(dev) == 1 << 19, "the rest is free");
    ctr_mem_free(m);
    trial_ok(ctr_dev_memory(dev) == 0, "all is free again");
    ctr_dev_free(dev);
}

static int open_both(struct trial *t, const struct ctr_dev_want *want)
{
    struct ctr_err err = { 0 };

    if (ctr_dev_open(&t->dev[REFERENCE], &(struct ctr_dev_want){ .ops = &ctr_ops_reference }, &err)) {
        printf("Bail out! %s\n", err.what);
        return 1;
    }
    if (ctr_dev_open(&t->dev[TRIED], want, &err) == 0)
        return 0;
    const bool gpu = want->device && !strcmp(want->device, "gpu");
    printf("%s%s\n", gpu ? "1..0 # SKIP skipped: no device\n# " : "Bail out! ", err.what);
    return gpu ? 77 : 1;
}

struct options {
    struct ctr_dev_want want;
    uint64_t seed;
    bool nan, digest, alone, bench;
    const char *only;
    double error;
};

static int parse(int argc, char **argv, struct options *o)
{
    static const struct option longs[] = {
        { "device", 1, NULL, 'd' }, { "gemm", 1, NULL, 'g' }, { "threads", 1, NULL, 'j' },
        { "seed", 1, NULL, 's' },   { "nan", 0, NULL, 'n' },  { "digest", 2, NULL, 'D' },
        { "bench", 0, NULL, 'b' },  { "err", 1, NULL, 'e' },  { 0 },
    };
    for (int c; (c = getopt_long(argc, argv, "", longs, NULL)) != -1;)
        switch (c) {
        case 'd': o->want.device = optarg; break;
        case 'g': o->want.gemm = optarg; break;
        case 'j': o->want.threads = atoi(optarg); break;
        case 's': o->seed = strtoull(optarg, NULL, 10); break;
        case 'n': o->nan = true; break;
        case 'D': o->digest = true, o->alone = optarg != NULL; break;
        case 'b': o->bench = true; break;
        case 'e': o->error = atof(optarg); break;
        default: return 2;
        }
    o->only = argv[optind];
    return 0;
}

int main(int argc, char **argv)
{
    struct options o = { .want = { .device = "cpu", .threads = 1 },
                         .seed = (uint64_t)time(NULL) ^ (uint64_t)getpid() << 20 };
    struct trial t = { 0 };

    if (parse(argc, argv, &o))
        return 2;
    int rc = open_both(&t, &o.want);
    if (rc == 0 && o.bench) {
        rc = trial_bench(t.dev[TRIED], o.only);
    } else if (rc == 0) {
        t.seed = o.seed;
        t.error = o.error;
        t.only = o.only;
        t.alone = o.alone;
        printf("# %s, seed %llu\n", ctr_dev_title(t.dev[TRIED]), (unsigned long long)o.seed);
        if (*ctr_dev_note(t.dev[TRIED]))
            printf("# %s\n", ctr_dev_note(t.dev[TRIED]));
        check_slots(t.dev[TRIED]->ops);
        run_all(&t, o.digest);
        if (o.nan) {
            t.nan = true;
            run_all(&t, false);
            t.nan = false;
        }
        if (!o.digest && !o.only) {
            trial_gradients(&t);
            check_refusals(t.dev[TRIED]);
            check_memory(o.want);
            if (!strcmp(ctr_dev_name(t.dev[TRIED]), "cpu"))
                check_rows(t.dev[TRIED]);
        }
        rc = trial_done();
    }
    ctr_dev_free(t.dev[TRIED]);
    ctr_dev_free(t.dev[REFERENCE]);
    return rc;
}
