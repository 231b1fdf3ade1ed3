/* SPDX-License-Identifier: Apache-2.0
 *
 * Progressive validation of several models at once: the sums of each are those of its rows one by one, to the bit. */
#include "common/train/trainer.h"

#include <stdlib.h>

#include "tap.h"

enum { ROWS = 5000, MODELS = 19 };

static uint64_t state = 7;
static double uniform(void)
{
    state = ctr_mix64(state + 0x9e3779b97f4a7c15u);
    return (double)(state >> 11) / 9007199254740992.0;
}

/* Scores near 0 and 1 and at them, so that bins end, p is clipped, and products are settled at rows of their own. */
static double some_score(void)
{
    static const double at[] = { 0, 1, 1e-15, 1 - 1e-15, 1e-12, 0.5 };
    const double u = uniform();
    return u < 0.02 ? at[(int)(uniform() * (double)CTR_COUNT(at))] : u < 0.3 ? 1e-6 * u : u;
}

static void try_rows(bool plain)
{
    double *score = malloc(sizeof *score * ROWS * MODELS), *label = malloc(sizeof *label * ROWS),
           *weight = malloc(sizeof *weight * ROWS);
    struct ctr_validation *each = malloc(sizeof *each * MODELS), *all = malloc(sizeof *all * MODELS);
    if (!score || !label || !weight || !each || !all)
        abort();
    for (int i = 0; i < ROWS * MODELS; i++)
        score[i] = some_score();
    for (int i = 0; i < ROWS; i++) {
        label[i] = !plain && uniform() < 0.05 ? uniform() : uniform() < 0.3;
        weight[i] = !plain && uniform() < 0.05 ? 3 * uniform() : 1;
    }
    const struct ctr_rows r = { .rows = ROWS, .label = label, .weight = plain ? NULL : weight };
    for (int models = 1; models <= MODELS; models++) {
        for (int m = 0; m < models; m++) {
            ctr_validation_start(&each[m]);
            ctr_validation_start(&all[m]);
            for (int i = 0; i < ROWS; i++)
                ctr_validation_row(&each[m], score[i * MODELS + m], label[i], weight[i]);
        }
        for (int64_t from = 0, end; from < ROWS; from = end) {
            end = CTR_MIN(from + 1 + from % 700, ROWS);
            ctr_validation_rows(all, models, score, MODELS, &r, from, end);
        }
        ok(memcmp(each, all, sizeof *all * (size_t)models) == 0, "%d models, %s rows", models,
           plain ? "plain" : "weighted");
    }
    free(score);
    free(label);
    free(weight);
    free(each);
    free(all);
}

int main(void)
{
    try_rows(true);
    try_rows(false);
    return done_testing();
}
