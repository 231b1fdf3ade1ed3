/* SPDX-License-Identifier: Apache-2.0
 *
 * cases_attend: trials of target attention over ragged sequences, whole minibatches and rows from the middle of one.
 * Sums over a row's entries or over a width have as many roundings as they have terms. */
#include "trial.h"

#define U 0x1p-24

struct sequences {
    struct array *start, *segment, *query, *key, *out, *dquery, *dkey, *score, *share, *dscore;
    int64_t rows, width, stride, entries, longest, row0, entry0;
    bool softmax, scored;
};

static struct sequences make_sequences(struct trial *t, const char *what, int i)
{
    static const int64_t widths[] = { 1, 12, 16, 24, 33 };
    struct sequences s = {
        .rows = trial_sizes[i % 5], .width = widths[i / 5 % 5], .softmax = i % 3 == 1, .scored = i % 3
    };
    int32_t first = 0;

    if (i % 4 == 3) {
        s.row0 = 7;
        s.entry0 = first = 40;
    }
    s.stride = s.width + i % 3;
    trial_start(t, 0, "%s %d: %lld rows of width %lld", what, i, (long long)s.rows, (long long)s.width);
    s.start = trial_array(t, "start", 'i', false, s.rows + 1);
    int32_t *start = trial_data(s.start);
    start[0] = first;
    for (int64_t r = 0; r < s.rows; r++) { /* many are empty, one is long */
        const int64_t n = r == 20 ? 200 : trial_below(t, 8) * (trial_below(t, 3) > 0);
        start[r + 1] = start[r] + (int32_t)n;
        s.longest = CTR_MAX(s.longest, n);
    }
    s.entries = start[s.rows] - first;
    s.segment = trial_array(t, "segment", 'i', false, s.entries);
    int32_t *segment = trial_data(s.segment);
    for (int64_t r = 0; r < s.rows; r++)
        for (int32_t e = start[r]; e < start[r + 1]; e++)
            segment[e - first] = (int32_t)(r + s.row0);
    t->tolerance = (double)(s.longest + s.width + 8) * U;
    return s;
}

static struct ctr_segments segments_view(const struct sequences *s, int d)
{
    return (struct ctr_segments){ trial_vec(s->start, d), trial_vec(s->segment, d), s->row0, s->entry0 };
}

static struct ctr_mat of_rows(const struct sequences *s, const struct array *a, int d)
{
    return trial_mat(a, d, s->rows, s->width, s->stride);
}

static struct ctr_mat of_entries(const struct sequences *s, const struct array *a, int d)
{
    return trial_mat(a, d, s->entries, s->width, s->stride);
}

static struct ctr_mat of_inputs(const struct sequences *s, const struct array *a, int d)
{
    return trial_mat(a, d, s->entries, 2 * s->width, 2 * s->stride);
}

static int run_input(struct trial *t, int d, void *ctx, struct ctr_err *err)
{
    const struct sequences *s = ctx;
    return ctr_dev_attend_input(t->dev[d],
                                &(struct ctr_dev_attend_input){ .segments = segments_view(s, d),
                                                                .query = of_rows(s, s->query, d),
                                                                .key = of_entries(s, s->key, d),
                                                                .out = of_inputs(s, s->out, d) },
                                err);
}

static void try_input(struct trial *t)
{
    for (int i = 0; i < 40; i++) {
        struct sequences s = make_sequences(t, "attend_input", i);
        s.query = trial_uniform(t, "query", false, s.rows * s.stride, -1, 1);
        s.key = trial_uniform(t, "key", false, s.entries * s.stride, -1, 1);
        s.out = trial_uniform(t, "out", true, s.entries * 2 * s.stride, -1, 1);
        trial_go(t, run_input, &s);
    }
}

static int run_input_grad(struct trial *t, int d, void *ctx, struct ctr_err *err)
{
    const struct sequences *s = ctx;
    return ctr_dev_attend_input_grad(t->dev[d],
                                     &(struct ctr_dev_attend_input_grad){ .segments = segments_view(s, d),
                                                                          .query = of_rows(s, s->query, d),
                                                                          .key = of_entries(s, s->key, d),
                                                                          .dout = of_inputs(s, s->out, d),
                                                                          .dquery = of_rows(s, s->dquery, d),
                                                                          .dkey = of_entries(s, s->dkey, d) },
                                     err);
}

static void try_input_grad(struct trial *t)
{
    for (int i = 0; i < 40; i++) {
        struct sequences s = make_sequences(t, "attend_input_grad", i);
        s.query = trial_uniform(t, "query", false, s.rows * s.stride, -1, 1);
        s.key = trial_uniform(t, "key", false, s.entries * s.stride, -1, 1);
        s.out = trial_uniform(t, "dout", false, s.entries * 2 * s.stride, -1, 1);
        s.dquery = trial_uniform(t, "dquery", true, s.rows * s.stride, -1, 1);
        s.dkey = trial_uniform(t, "dkey", true, s.entries * s.stride, -1, 1);
        trial_go(t, run_input_grad, &s);
    }
}

static int run_attend(struct trial *t, int d, void *ctx, struct ctr_err *err)
{
    const struct sequences *s = ctx;
    return ctr_dev_attend(t->dev[d],
                          &(struct ctr_dev_attend){ .segments = segments_view(s, d),
                                                    .softmax = s->softmax,
                                                    .scale = 0.4f,
                                                    .score = trial_vec(s->score, d),
                                                    .share = trial_vec(s->share, d),
                                                    .value = of_entries(s, s->key, d),
                                                    .out = of_rows(s, s->out, d) },
                          err);
}

static void try_attend(struct trial *t)
{
    for (int i = 0; i < 60; i++) {
        struct sequences s = make_sequences(t, "attend", i);
        s.score = s.scored ? trial_uniform(t, "score", false, s.entries, -9, 9) : NULL;
        s.share = s.softmax ? trial_uniform(t, "share", true, s.entries, -1, 1) : NULL;
        s.key = trial_uniform(t, "value", false, s.entries * s.stride, -1, 1);
        s.out = trial_uniform(t, "out", true, s.rows * s.stride, -1, 1);
        trial_go(t, run_attend, &s);
    }
}

static int run_attend_grad(struct trial *t, int d, void *ctx, struct ctr_err *err)
{
    const struct sequences *s = ctx;
    return ctr_dev_attend_grad(t->dev[d],
                               &(struct ctr_dev_attend_grad){ .segments = segments_view(s, d),
                                                              .softmax = s->softmax,
                                                              .scale = 0.4f,
                                                              .share = trial_vec(s->share, d),
                                                              .value = of_entries(s, s->key, d),
                                                              .dout = of_rows(s, s->out, d),
                                                              .dscore = trial_vec(s->dscore, d),
                                                              .dvalue = of_entries(s, s->dkey, d) },
                               err);
}

static void try_attend_grad(struct trial *t)
{
    for (int i = 0; i < 60; i++) {
        struct sequences s = make_sequences(t, "attend_grad", i);
        s.share = trial_uniform(t, "share", false, s.entries, 0, 1);
        s.key = trial_uniform(t, "value", false, s.entries * s.stride, -1, 1);
        s.out = trial_uniform(t, "dout", false, s.rows * s.stride, -1, 1);
        s.dscore = trial_uniform(t, "dscore", true, s.entries, -1, 1);
        s.dkey = s.scored ? trial_uniform(t, "dvalue", true, s.entries * s.stride, -1, 1) : NULL;
        trial_go(t, run_attend_grad, &s);
    }
}

const struct trial_case trial_attend_cases[] = {
    { "attend_input", try_input },
    { "attend_input_grad", try_input_grad },
    { "attend", try_attend },
    { "attend_grad", try_attend_grad },
    { 0 },
};
