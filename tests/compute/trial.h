/* SPDX-License-Identifier: Apache-2.0
 *
 * trial: one operation, run on the reference and on the back end that is tried, over the same arrays. Around each array
 * lie canaries; afterwards inputs and canaries must be untouched and outputs must agree within a tolerance. */
#ifndef CTR_TRIAL_H
#define CTR_TRIAL_H

#include "common/compute/compute.h"

#include <stdio.h>

enum { GUARD = 64 }; /* elements around an array */
enum { REFERENCE, TRIED, BACK_ENDS };

struct array {
    const char *name;
    char type; /* f: f32, d: f64, i: i32 or u32, q: u64 */
    bool out;
    int64_t n; /* elements between the guards */
    uint8_t *host;
    struct ctr_mem *mem[BACK_ENDS];
};

struct trial {
    struct ctr_dev *dev[BACK_ENDS];
    uint64_t seed, counter;
    struct array arrays[24];
    int count;
    double error;     /* added to what the tried back end gives: to see that it is found */
    double tolerance; /* |tried - reference| <= tolerance (1 + largest finite |reference| of the array) */
    char what[160];   /* of the trial, for messages */
    char wrong[400];  /* what was first seen to be wrong, or "" */
    uint64_t digest;  /* of all outputs of the tried back end in this case so far */
    int64_t trials;
    const char *only; /* operations to try, with commas between; NULL: all */
    bool nan;         /* put some NaNs into real inputs */
    bool alone;       /* without the reference */
};

/* Random numbers that follow from the seed. */
double trial_random(struct trial *t);            /* [0, 1) */
int64_t trial_below(struct trial *t, int64_t n); /* 0 … n-1 */

void trial_start(struct trial *t, double tolerance, const char *fmt, ...) CTR_PRINTF(3, 4);
/* A new array; the pointer is good until the trial ends. Values are written to trial_f32(a) and so on before trial_go.
 */
struct array *trial_array(struct trial *t, const char *name, char type, bool out, int64_t n);
struct array *trial_uniform(struct trial *t, const char *name, bool out, int64_t n, double low, double high);
void *trial_data(struct array *a);
static inline struct ctr_vec trial_vec(const struct array *a, int d)
{
    return ctr_vec_at(a ? a->mem[d] : NULL, a ? GUARD : 0, a ? a->n : 0);
}
/* stride >= cols; the array has rows * stride elements */
static inline struct ctr_mat trial_mat(const struct array *a, int d, int64_t rows, int64_t cols, int64_t stride)
{
    struct ctr_mat m = ctr_mat_at(a ? a->mem[d] : NULL, GUARD, rows, cols);
    m.stride = stride;
    return m;
}
/* Runs run(t, REFERENCE) and run(t, TRIED), compares, frees the arrays. */
void trial_go(struct trial *t, int (*run)(struct trial *t, int d, void *ctx, struct ctr_err *err), void *ctx);
void trial_wrong(struct trial *t, const char *fmt, ...) CTR_PRINTF(2, 3);

/* Lines of TAP: one for a condition, one for what was tried since the last report; at the end how many there were. */
void trial_ok(bool good, const char *fmt, ...) CTR_PRINTF(2, 3);
void trial_report(struct trial *t, const char *name);
int trial_done(void); /* the exit status */

/* The cases: each tries one operation in many sizes. */
struct trial_case {
    const char *name; /* the operation's */
    void (*run)(struct trial *t);
};
extern const struct trial_case trial_matrix_cases[], trial_sparse_cases[], trial_attend_cases[], trial_loss_cases[],
    trial_image_cases[], trial_interact_cases[];        /* name NULL ends */
void trial_gradients(struct trial *t);                  /* finite differences */
int trial_bench(struct ctr_dev *dev, const char *only); /* times */

extern const int64_t trial_sizes[];
extern const struct ctr_ops ctr_ops_reference; /* reference.c */
enum { TRIAL_SIZES = 5 };

#endif
