/* SPDX-License-Identifier: Apache-2.0
 *
 * bench-op: nanoseconds of processor time a row of operators on 39 Criteo-like columns: 13 counts, 26 hex strings with
 * Zipf-like frequencies, a tenth of the values null. Not run by the tests:
 *
 *     cc -std=gnu11 -D_GNU_SOURCE -O2 -Isrc tests/bench/bench-op.c build/opt/libctr.a -lxxhash -lzstd -llz4 -lz -lm */
#include "common/op/op.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROWS = 8192, BATCHES = 24, COUNTS = 13, HEX = 26 };

static struct ctr_err err;
static void check(int rc)
{
    if (rc < 0) {
        fprintf(stderr, "bench-op: %s\n", err.what);
        exit(1);
    }
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct node {
    struct ctr_op_call call;
    struct ctr_op_arg arg[2];
    struct ctr_colbuf out, key;
    struct ctr_buf memo;
};

static struct ctr_colbuf input[BATCHES][COUNTS + HEX];
static struct ctr_value two = { .kind = CTR_V_INT, .i = 2 };

static void make_input(void)
{
    for (int b = 0; b < BATCHES; b++)
        for (int c = 0; c < COUNTS + HEX; c++) {
            struct ctr_field f = { .type = c < COUNTS ? CTR_I32 : CTR_UTF8 };
            uint64_t distinct = (uint64_t)pow(10, 1 + 5.0 * (c - COUNTS) / HEX);
            check(ctr_colbuf_init(&input[b][c], &f, &err));
            for (int i = 0; i < ROWS; i++) {
                double u = ctr_random01(1, (uint64_t)c, (uint64_t)(b * ROWS + i));
                char hex[17];
                if (ctr_random01(2, (uint64_t)c, (uint64_t)(b * ROWS + i)) < 0.1)
                    check(ctr_colbuf_null(&input[b][c], &err));
                else if (c < COUNTS)
                    check(ctr_colbuf_i64(&input[b][c], (int64_t)exp(u * u * 11), &err));
                else {
                    uint64_t id = (uint64_t)pow((double)distinct, u); /* density 1 / id */
                    snprintf(hex, sizeof hex, "%08x", (unsigned)ctr_mix64(id * 64 + (uint64_t)c));
                    check(ctr_colbuf_str(&input[b][c], hex, 8, &err));
                }
            }
        }
}

static void bind(struct node *n, const char *op, struct ctr_vtype type, const char *named)
{
    n->call = (struct ctr_op_call){ .op = ctr_op_find(op, strlen(op)), .arg = n->arg, .nargs = named ? 2 : 1 };
    n->arg[0] = (struct ctr_op_arg){ .type = type };
    n->arg[1] = (struct ctr_op_arg){ .name = named, .literal = &two, .type = { .type = CTR_I64 } };
    check(ctr_op_bind(&n->call, &err));
    struct ctr_field f = { .type = n->call.result.type }, k = { .type = CTR_U64 };
    check(ctr_colbuf_init(&n->out, &f, &err));
    check(ctr_colbuf_init(&n->key, &k, &err));
}

static struct node bucket[COUNTS], vocab[COUNTS + HEX];
static const struct ctr_vtype i64 = { .type = CTR_I64 }, text = { .type = CTR_UTF8 };

static const struct ctr_col *run(struct node *n, const struct ctr_col *c)
{
    ctr_colbuf_clear(&n->out);
    check(ctr_op_run(&n->call, &c, ROWS, &n->out, &err));
    return ctr_colbuf_view(&n->out);
}

/* One pass over the input in one of the ways; the sum keeps it honest. */
static uint64_t pass(int way)
{
    uint64_t sum = 0;

    for (int b = 0; b < BATCHES; b++)
        for (int c = 0; c < COUNTS + HEX; c++) {
            const struct ctr_col *v = ctr_colbuf_view(&input[b][c]);
            struct node *n = &vocab[c];
            uint64_t seed = (uint64_t)c + 1;
            if (c < COUNTS)
                v = run(&bucket[c], v);
            ctr_colbuf_clear(&n->key);
            if (way == 0)
                check(ctr_op_keys(c < COUNTS ? &i64 : &text, v, ROWS, seed, &n->memo, &n->key, &err));
            else if (way == 1)
                check(ctr_op_run_keys(&n->call, &v, ROWS, seed, &n->memo, &n->key, &err));
            else if (way == 2)
                check(ctr_op_keys(&text, run(n, v), ROWS, seed, &n->memo, &n->key, &err));
            else
                check(ctr_op_fit_update(&n->call, &v, ROWS, &err));
            if (way < 3)
                sum += ((uint64_t *)n->key.data.data)[b];
        }
    return sum;
}

static void measure(const char *what, int way, int times)
{
    double best = 1e9;
    uint64_t sum = 0;

    for (int i = 0; i < times; i++) {
        double t = now();
        sum = pass(way);
        best = fmin(best, now() - t);
    }
    printf("%-52s %7.1f ns/row  (%016llx)\n", what, best / ROWS / BATCHES * 1e9, (unsigned long long)sum);
}

int main(void)
{
    make_input();
    for (int c = 0; c < COUNTS + HEX; c++) {
        if (c < COUNTS)
            bind(&bucket[c], "square_log_bucket", i64, NULL);
        bind(&vocab[c], "vocab", c < COUNTS ? i64 : text, "min");
    }
    for (int c = 0; c < COUNTS; c++)
        bucket[c].arg[0].type.type = CTR_I32;
    measure("13 square_log_bucket, 39 keys", 0, 9);
    measure("fitting 39 vocab", 3, 1);
    for (int c = 0; c < COUNTS + HEX; c++)
        check(ctr_op_fit_finish(&vocab[c].call, &err));
    measure("13 square_log_bucket, 39 vocab, keys in one step", 1, 9);
    measure("13 square_log_bucket, 39 vocab, text, keys", 2, 9);
    return 0;
}
