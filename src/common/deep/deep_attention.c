/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention units: see deep_attention.h. The first layer of a unit is linear in q and in k except for q * k, so its
 * product can be split:
 *
 *     W [q, k, q - k, q * k] = (W1 + W3) q + (W2 - W3) k + W4 (q * k)
 *
 * The first term is computed per row instead of per item, and the remaining product per item is half as long. Rows are
 * not padded: only existing items are computed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/deep/deep_attention.h"

struct ctr_attention_unit {
    char prefix[32];
    int sequence;
    int64_t cols;   /* of a value of an item, and of q */
    int64_t out_at; /* the first column of u in the network's input */
    /* The sources of the query: columns of d->x, and the matrix that collects them. With `ids` q = Q asked. */
    struct ctr_attention_run *ask;
    int asks;
    int64_t ask_cols;
    bool ids;         /* this is the second unit of its sequence */
    int query_weight; /* Q */
    struct ctr_stack stack;
    int64_t first;                          /* units of the first layer */
    struct ctr_mem *asked, *dasked;         /* [room x ask_cols], with ids */
    struct ctr_mem *query, *dquery;         /* [room x cols] */
    struct ctr_mem *base, *dbase;           /* [room x first]: (W1 + W3) q */
    struct ctr_mem *weight, *dweight;       /* [first x 3 cols]: W1 + W3, W2 - W3, W4 */
    struct ctr_mem *input, *dinput;         /* [entries x 2 cols]: k, q * k */
    struct ctr_mem *score, *share, *dscore; /* f32 [entries] */
    struct ctr_mem *dvalue;                 /* [entries x cols], with ids: to be added to the first unit's */
};

/* Forward of two rows, the first with the items k0 and k1, the second with k2 (start 0 2 3, segment 0 0 1):
 *
 *     take_apart    weight = [W1 + W3 | W2 - W3 | W4], once for all rows
 *     ask           q0 and q1 from columns of d->x; base = (W1 + W3) q: 2 rows
 *     score_items   the sum of the first layer starts as base 0, base 0, base 1: a row for each item;
 *                   input [k0, q0 * k0], [k1, q0 * k1], [k2, q1 * k2] times [W2 - W3 | W4]' is added to it;
 *                   the other layers of the stack give the scores s0, s1, s2
 *     attend        u of row 0: a0 k0 + a1 k1, of row 1: a2 k2, into columns out_at … of x
 *
 * Backward goes the same way back: attend_grad, the stack, attend_input_grad; then ask_backward sums the gradients of
 * a row's items to that of its base, and put_together maps those of the three blocks of weights to W1 … W4. */

/* ---- shape ---- */

static void add_ask(const struct ctr_deep *d, struct ctr_attention_unit *u, int input, int64_t to)
{
    u->ask[u->asks++] = (struct ctr_attention_run){ ctr_deep_column_of(d, input), d->input[input].cols, to };
}

/* Add the candidate of field `field`, which is input `input`. */
static int ask_candidate(const struct ctr_deep *d, struct ctr_attention_unit *u, int field, int input,
                         struct ctr_err *err)
{
    const struct ctr_deep_input *in = &d->input[input];
    if (!in->history_of)
        return 0;
    const int of = ctr_deep_find_input(d, in->history_of);
    if (of < 0 || !d->input[of].table || d->input[of].sequence || d->input[of].cols != in->cols) {
        return ctr_fail(err, CTR_EUSAGE,
                        "'%.80s' is the past of '%.80s', which is no %s that a row has one value of: add '%s %.80s' to "
                        "the plan",
                        in->name, in->history_of, in->image ? "image" : "feature", in->image ? "image" : "feature",
                        in->history_of);
    }
    add_ask(d, u, of, (int64_t)field * in->cols);
    return 0;
}

/* Is the input a history of input `of`, and made of ids? */
static bool is_past_of(const struct ctr_deep *d, const struct ctr_deep_input *in, int of)
{
    return in->table && !in->image && in->history_of && !strcmp(in->history_of, d->input[of].name);
}

/* Use the key inputs of side `ad`; if no key input has a side, those that histories refer to. */
static int ask_ids(const struct ctr_deep *d, struct ctr_attention_unit *u, struct ctr_err *err)
{
    bool sides = false;
    for (int i = 0; i < d->inputs; i++)
        sides |= d->input[i].table && d->input[i].side && !strcmp(d->input[i].side, "ad");
    for (int i = 0; i < d->inputs; i++) {
        const struct ctr_deep_input *in = &d->input[i];
        bool asks = in->side && !strcmp(in->side, "ad");
        for (int k = 0; k < d->inputs && !sides; k++)
            asks |= is_past_of(d, &d->input[k], i);
        if (!asks || !in->table || in->image || in->sequence)
            continue;
        add_ask(d, u, i, u->ask_cols);
        u->ask_cols += in->cols;
    }
    return u->asks ? 0
                   : ctr_fail(err, CTR_EUSAGE,
                              "no IDs of the ad to ask with: name the ad's inputs of keys with --ad-features, or take "
                              "--images-pool attentive");
}

static int declare_query(struct ctr_deep *d, struct ctr_attention_unit *u, struct ctr_err *err)
{
    const struct ctr_deep_sequence *s = &d->sequence[u->sequence];
    int rc = 0;
    u->ask = calloc((size_t)d->inputs + 1, sizeof *u->ask);
    if (!u->ask)
        return ctr_fail_nomem(err, (size_t)d->inputs * sizeof *u->ask);
    if (u->ids)
        rc = ask_ids(d, u, err);
    for (int f = 0; f < s->fields && !rc && !u->ids; f++)
        rc = ask_candidate(d, u, f, s->input[f], err);
    if (rc || !u->ids) {
        u->ask_cols = u->cols;
        return rc;
    }
    u->query_weight = ctr_deep_param(d, CTR_INIT_GLOROT, false, u->cols, u->ask_cols, err, "%squery", u->prefix);
    return CTR_MIN(u->query_weight, 0);
}

static int declare_unit(struct ctr_deep *d, struct ctr_attention_unit *u, struct ctr_err *err)
{
    u->cols = d->sequence[u->sequence].cols;
    snprintf(u->prefix, sizeof u->prefix, "attention%d.%s", u->sequence + 1, u->ids ? "ids." : "");
    int rc = declare_query(d, u, err);
    const struct ctr_stack_shape shape = { .prefix = u->prefix,
                                           .hidden = d->p.deep.attention_hidden,
                                           .in = (int32_t)(4 * u->cols),
                                           .out = 1,
                                           .activation = d->p.deep.activation };
    if (!rc)
        rc = ctr_stack_declare(d, &u->stack, &shape, err);
    u->stack.same_input = true;
    u->first = u->stack.layers ? u->stack.layer[0].out : 1;
    return rc;
}

/* Add columns [from, from + cols) of d->x to x. */
static void add_run(struct ctr_attention *a, int64_t from, int64_t cols)
{
    struct ctr_attention_run *last = a->runs ? &a->run[a->runs - 1] : NULL;
    if (last && last->from + last->cols == from)
        last->cols += cols;
    else if (cols)
        a->run[a->runs++] = (struct ctr_attention_run){ from, cols, a->cols };
    a->cols += cols;
}

static int find_runs(const struct ctr_deep *d, struct ctr_attention *a, bool no_ids, struct ctr_err *err)
{
    a->run = calloc((size_t)d->inputs + 1, sizeof *a->run);
    if (!a->run)
        return ctr_fail_nomem(err, (size_t)d->inputs * sizeof *a->run);
    for (int i = 0; i < d->inputs; i++)
        if (d->input[i].table && !d->input[i].sequence && (d->input[i].image || !no_ids))
            add_run(a, ctr_deep_column_of(d, i), d->input[i].cols);
    a->learned = a->cols;
    add_run(a, d->pooled_cols, d->dense);
    if (d->explains)
        a->learned = a->cols;
    return 0;
}

static bool asks_twice(const struct ctr_deep *d, const struct ctr_attention_shape *shape, int sequence)
{
    return shape->ask_ids && d->input[d->sequence[sequence].input[0]].image;
}

int ctr_attention_declare(struct ctr_deep *d, struct ctr_attention *a, const struct ctr_attention_shape *shape,
                          struct ctr_err *err)
{
    int rc = 0;
    a->unit = calloc(2 * (size_t)d->sequences + 1, sizeof *a->unit);
    if (!a->unit)
        return ctr_fail_nomem(err, 2 * (size_t)d->sequences * sizeof *a->unit);
    for (int i = 0; i < d->sequences && !rc; i++) {
        const int queries = asks_twice(d, shape, i) ? 2 : 1;
        for (int k = 0; k < queries && !rc; k++) {
            struct ctr_attention_unit *u = &a->unit[a->units++];
            *u = (struct ctr_attention_unit){ .sequence = i, .ids = k, .out_at = a->cols };
            rc = declare_unit(d, u, err);
            a->cols += u->cols;
        }
    }
    return rc ? rc : find_runs(d, a, shape->no_ids, err);
}

int ctr_attention_declare_running(struct ctr_deep *d, struct ctr_attention *a, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; i < a->units && !rc; i++)
        rc = ctr_stack_declare_running(d, &a->unit[i].stack, err);
    return rc;
}

int ctr_attention_user_first(struct ctr_deep *d, const struct ctr_attention *a, struct ctr_stack *s,
                             struct ctr_err *err)
{
    int64_t *at = calloc((size_t)d->inputs + 1, sizeof *at);
    if (!at)
        return ctr_fail_nomem(err, (size_t)d->inputs * sizeof *at);
    for (int i = 0; i < d->inputs; i++) {
        const int64_t from = d->input[i].sequence ? -1 : ctr_deep_column_of(d, i);
        at[i] = -1;
        for (int k = 0; k < a->runs; k++)
            if (from >= a->run[k].from && from < a->run[k].from + a->run[k].cols)
                at[i] = a->run[k].to + from - a->run[k].from;
    }
    const int rc = ctr_stack_user_first(d, s, at, err);
    free(at);
    return rc;
}

/* ---- memory ---- */

struct room {
    struct ctr_mem **m;
    int64_t floats; /* per row */
    bool backward;
};

static int unit_room(struct ctr_deep *d, struct ctr_attention_unit *u, int64_t room, struct ctr_err *err)
{
    struct ctr_mem **once[] = { &u->weight, &u->dweight };
    const int64_t asked = u->ids ? u->ask_cols : 0;
    const struct room rows[] = { { &u->query, u->cols, false }, { &u->base, u->first, false },
                                 { &u->asked, asked, false },   { &u->dquery, u->cols, true },
                                 { &u->dbase, u->first, true }, { &u->dasked, asked, true } };
    int rc = 0;
    for (size_t i = 0; i < CTR_COUNT(once) && !rc; i++)
        rc = ctr_mem_grow(once[i], d->dev, (size_t)(u->first * 3 * u->cols) * sizeof(float), err);
    for (size_t i = 0; i < CTR_COUNT(rows) && !rc; i++)
        if (d->learns || !rows[i].backward)
            rc = ctr_mem_grow(rows[i].m, d->dev, (size_t)(room * rows[i].floats) * sizeof(float), err);
    return rc;
}

int ctr_attention_make_room(struct ctr_deep *d, struct ctr_attention *a, int64_t room, struct ctr_err *err)
{
    int rc = ctr_mem_grow(&a->x, d->dev, (size_t)(room * a->cols) * sizeof(float), err);
    if (!rc && d->learns)
        rc = ctr_mem_grow(&a->dx, d->dev, (size_t)(room * a->learned) * sizeof(float), err);
    for (int i = 0; i < a->units && !rc; i++)
        rc = unit_room(d, &a->unit[i], room, err);
    return rc;
}

/* Make room for the entries of the minibatch so far; keeps those of finished rows. */
static int entries_room(struct ctr_deep *d, struct ctr_attention_unit *u, const struct ctr_deep_sequence_view *v,
                        struct ctr_err *err)
{
    const struct room kept[] = { { &u->input, 2 * u->cols, false }, { &u->score, 1, false }, { &u->share, 1, false } };
    const struct room grads[] = { { &u->dinput, 2 * u->cols, true },
                                  { &u->dscore, 1, true },
                                  { &u->dvalue, u->ids ? u->cols : 0, true } };
    int rc = ctr_stack_keep(d, &u->stack, v->first, v->entries, err);
    for (size_t i = 0; i < CTR_COUNT(kept) && !rc; i++) {
        const size_t row = (size_t)kept[i].floats * sizeof(float);
        rc = ctr_deep_keep(d, kept[i].m, (size_t)v->first * row, (size_t)v->entries * row, err);
    }
    for (size_t i = 0; i < CTR_COUNT(grads) && !rc && d->learns; i++)
        rc = ctr_mem_grow(grads[i].m, d->dev, (size_t)(v->entries * grads[i].floats) * sizeof(float), err);
    return rc;
}

static void unit_free(struct ctr_attention_unit *u)
{
    struct ctr_mem *mems[] = { u->asked,   u->dasked, u->query,  u->dquery, u->base,  u->dbase,  u->weight,
                               u->dweight, u->input,  u->dinput, u->score,  u->share, u->dscore, u->dvalue };
    for (size_t i = 0; i < CTR_COUNT(mems); i++)
        ctr_mem_free(mems[i]);
    ctr_stack_free(&u->stack);
    free(u->ask);
}

void ctr_attention_free(struct ctr_attention *a)
{
    for (int i = 0; i < a->units; i++)
        unit_free(&a->unit[i]);
    free(a->unit);
    free(a->run);
    ctr_mem_free(a->x);
    ctr_mem_free(a->dx);
}

/* ---- small steps ---- */

static int copy(struct ctr_deep *d, struct ctr_mat from, struct ctr_mat to, struct ctr_err *err)
{
    return ctr_dev_copy(d->dev, &(struct ctr_dev_copy){ from, to }, err);
}

/* y += a x */
static int add(struct ctr_deep *d, float a, struct ctr_mat x, struct ctr_mat y, struct ctr_err *err)
{
    return ctr_dev_axpby(d->dev, &(struct ctr_dev_axpby){ .a = a, .b = 1, .x = x, .y = y }, err);
}

/* Block i of columns, each of the width of an item's value. */
static struct ctr_mat block(const struct ctr_attention_unit *u, struct ctr_mat m, int i)
{
    return ctr_mat_cols(m, i * u->cols, u->cols);
}

static struct ctr_segments segments_of(const struct ctr_deep_sequence_view *v, int64_t from)
{
    return (struct ctr_segments){ .start = v->start,
                                  .segment = ctr_vec_at(v->segment.mem, v->segment.at + v->first, v->count),
                                  .row0 = from,
                                  .entry0 = v->first };
}

/* The scale of scores before softmax: the authors' 1 / sqrt(size of k). */
static float scale_of(const struct ctr_attention_unit *u)
{
    return (float)(1 / sqrt((double)u->cols));
}

static bool has_softmax(const struct ctr_deep *d)
{
    return !strcmp(d->p.deep.attention, "softmax");
}

/* ---- forward ---- */

/* Split the weight of the first layer. */
static int take_apart(struct ctr_deep *d, struct ctr_attention_unit *u, struct ctr_err *err)
{
    const struct ctr_mat w = ctr_deep_mat(d, ctr_stack_first(&u->stack)),
                         to = ctr_mat(u->weight, u->first, 3 * u->cols);
    int rc = copy(d, ctr_mat_cols(w, 0, 2 * u->cols), ctr_mat_cols(to, 0, 2 * u->cols), err);
    if (!rc)
        rc = add(d, 1, block(u, w, 2), block(u, to, 0), err);
    if (!rc)
        rc = add(d, -1, block(u, w, 2), block(u, to, 1), err);
    if (!rc)
        rc = copy(d, block(u, w, 3), block(u, to, 2), err);
    u->stack.first_weight = ctr_mat_cols(to, u->cols, 2 * u->cols);
    u->stack.first_grad = ctr_mat_cols(ctr_mat(u->dweight, u->first, 3 * u->cols), u->cols, 2 * u->cols);
    return rc;
}

/* Compute q of rows [from, from + n), and its term of the first layer. Fields without a candidate stay 0. */
static int ask(struct ctr_deep *d, struct ctr_attention_unit *u, int64_t from, int64_t n, struct ctr_err *err)
{
    const struct ctr_mat x = ctr_mat_at(d->x, from * d->x_cols, n, d->x_cols);
    const struct ctr_mat q = ctr_mat_at(u->query, from * u->cols, n, u->cols);
    const struct ctr_mat asked = u->ids ? ctr_mat_at(u->asked, from * u->ask_cols, n, u->ask_cols) : q;
    int rc = 0;
    for (int i = 0; i < u->asks && !rc; i++)
        rc = copy(d, ctr_mat_cols(x, u->ask[i].from, u->ask[i].cols), ctr_mat_cols(asked, u->ask[i].to, u->ask[i].cols),
                  err);
    const struct ctr_dev_gemm product = { .a = asked, .b = ctr_deep_mat(d, u->query_weight), .tb = true, .c = q };
    if (!rc && u->ids)
        rc = ctr_dev_gemm(d->dev, &product, err);
    const struct ctr_dev_gemm base = { .a = q,
                                       .b = block(u, ctr_mat(u->weight, u->first, 3 * u->cols), 0),
                                       .tb = true,
                                       .c = ctr_mat_at(u->base, from * u->first, n, u->first) };
    return rc ? rc : ctr_dev_gemm(d->dev, &base, err);
}

static int score_items(struct ctr_deep *d, struct ctr_attention_unit *u, const struct ctr_deep_sequence_view *v,
                       int64_t from, int64_t n, bool training, struct ctr_err *err)
{
    const bool summed = !from && ctr_stack_has_sums(d, &u->stack, v->count, training);
    const struct ctr_segments segments = segments_of(v, from);
    const struct ctr_mat score = ctr_mat_at(u->score, v->first, v->count, 1);
    const struct ctr_dev_move_rows spread = { .n = v->count,
                                              .from = ctr_mat(u->base, from + n, u->first),
                                              .to = ctr_stack_first_sum(&u->stack, v->first, v->count, score),
                                              .from_index = segments.segment };
    const struct ctr_dev_attend_input input = {
        .segments = segments,
        .query = ctr_mat_at(u->query, from * u->cols, n, u->cols),
        .key = ctr_mat_rows(v->value, v->first, v->count),
        .out = ctr_mat_at(u->input, v->first * 2 * u->cols, v->count, 2 * u->cols),
    };
    int rc = summed ? 0 : ctr_dev_move_rows(d->dev, &spread, err);
    if (!rc && !summed)
        rc = ctr_dev_attend_input(d->dev, &input, err);
    return rc ? rc : ctr_stack_forward(d, &u->stack, input.out, v->first, training, score, err);
}

static int unit_forward(struct ctr_deep *d, struct ctr_attention_unit *u, struct ctr_mat x, int64_t from, bool training,
                        struct ctr_err *err)
{
    const struct ctr_deep_sequence_view v = ctr_deep_sequence_of(d, u->sequence, from, x.rows);
    int rc = entries_room(d, u, &v, err);
    if (!rc)
        rc = take_apart(d, u, err);
    if (!rc)
        rc = ask(d, u, from, x.rows, err);
    if (!rc)
        rc = score_items(d, u, &v, from, x.rows, training, err);
    const struct ctr_vec none = { 0 };
    const struct ctr_dev_attend attend = { .segments = segments_of(&v, from),
                                           .softmax = has_softmax(d),
                                           .scale = scale_of(u),
                                           .score = ctr_vec_at(u->score, v.first, v.count),
                                           .share = has_softmax(d) ? ctr_vec_at(u->share, v.first, v.count) : none,
                                           .value = ctr_mat_rows(v.value, v.first, v.count),
                                           .out = ctr_mat_cols(x, u->out_at, u->cols) };
    return rc ? rc : ctr_dev_attend(d->dev, &attend, err);
}

int ctr_attention_forward(struct ctr_deep *d, struct ctr_attention *a, int64_t from, int64_t n, bool training,
                          struct ctr_mat *x, struct ctr_err *err)
{
    const struct ctr_mat all = ctr_mat_at(d->x, from * d->x_cols, n, d->x_cols);
    int rc = 0;
    *x = ctr_mat_at(a->x, from * a->cols, n, a->cols);
    for (int i = 0; i < a->runs && !rc; i++)
        rc = copy(d, ctr_mat_cols(all, a->run[i].from, a->run[i].cols), ctr_mat_cols(*x, a->run[i].to, a->run[i].cols),
                  err);
    for (int i = 0; i < a->units && !rc; i++)
        rc = unit_forward(d, &a->unit[i], *x, from, training, err);
    return rc;
}

bool ctr_attention_weights(const struct ctr_deep *d, const struct ctr_attention *a, int i,
                           struct ctr_attention_weights *w)
{
    const struct ctr_attention_unit *u = &a->unit[i];
    if (i >= a->units)
        return false;
    *w = (struct ctr_attention_weights){
        u->sequence, u->ids, ctr_vec(has_softmax(d) ? u->share : u->score, d->sequence[u->sequence].entries)
    };
    return true;
}

/* ---- backward ---- */

/* From the gradient of the first layer's sum per row: those of W1 + W3 and, accumulated, of q. */
static int ask_backward(struct ctr_deep *d, struct ctr_attention_unit *u, const struct ctr_deep_sequence_view *v,
                        struct ctr_err *err)
{
    const struct ctr_mat q = ctr_mat(u->query, d->rows, u->cols), dq = ctr_mat(u->dquery, d->rows, u->cols);
    const struct ctr_mat dbase = ctr_mat(u->dbase, d->rows, u->first);
    const struct ctr_dev_attend sum = {
        .segments = segments_of(v, 0),
        .value = ctr_stack_first_dz(&u->stack, v->entries, ctr_mat(u->dscore, v->entries, 1)),
        .out = dbase,
    };
    const struct ctr_dev_gemm dw = {
        .a = dbase, .ta = true, .b = q, .c = block(u, ctr_mat(u->dweight, u->first, 3 * u->cols), 0)
    };
    const struct ctr_dev_gemm more = {
        .a = dbase, .b = block(u, ctr_mat(u->weight, u->first, 3 * u->cols), 0), .c = dq, .add = true
    };
    int rc = ctr_dev_attend(d->dev, &sum, err);
    if (!rc)
        rc = ctr_dev_gemm(d->dev, &dw, err);
    return rc ? rc : ctr_dev_gemm(d->dev, &more, err);
}

/* Combine the gradient of the first layer's weight: W1 gets that of W1 + W3, W2 that of W2 - W3, W3 both. */
static int put_together(struct ctr_deep *d, struct ctr_attention_unit *u, struct ctr_err *err)
{
    const struct ctr_mat g = ctr_mat(u->dweight, u->first, 3 * u->cols);
    const struct ctr_mat to = ctr_deep_mat_grad(d, ctr_stack_first(&u->stack));
    int rc = copy(d, ctr_mat_cols(g, 0, 2 * u->cols), ctr_mat_cols(to, 0, 2 * u->cols), err);
    if (!rc)
        rc = copy(d, block(u, g, 0), block(u, to, 2), err);
    if (!rc)
        rc = add(d, -1, block(u, g, 1), block(u, to, 2), err);
    return rc ? rc : copy(d, block(u, g, 2), block(u, to, 3), err);
}

/* From dq: the gradient of the query's sources, added to dx. */
static int asked_backward(struct ctr_deep *d, struct ctr_attention_unit *u, struct ctr_mat dx, struct ctr_err *err)
{
    const struct ctr_mat dq = ctr_mat(u->dquery, d->rows, u->cols);
    const struct ctr_mat dasked = u->ids ? ctr_mat(u->dasked, d->rows, u->ask_cols) : dq;
    int rc = 0;
    if (u->ids) {
        const struct ctr_dev_gemm dw = { .a = dq,
                                         .ta = true,
                                         .b = ctr_mat(u->asked, d->rows, u->ask_cols),
                                         .c = ctr_deep_mat_grad(d, u->query_weight) };
        const struct ctr_dev_gemm down = { .a = dq, .b = ctr_deep_mat(d, u->query_weight), .c = dasked };
        rc = ctr_dev_gemm(d->dev, &dw, err);
        if (!rc)
            rc = ctr_dev_gemm(d->dev, &down, err);
    }
    for (int i = 0; i < u->asks && !rc; i++)
        rc = add(d, 1, ctr_mat_cols(dasked, u->ask[i].to, u->ask[i].cols),
                 ctr_mat_cols(dx, u->ask[i].from, u->ask[i].cols), err);
    return rc;
}

static int unit_backward(struct ctr_deep *d, struct ctr_attention_unit *u, struct ctr_mat dx, struct ctr_mat du,
                         struct ctr_err *err)
{
    const struct ctr_deep_sequence_view v = ctr_deep_sequence_of(d, u->sequence, 0, d->rows);
    const struct ctr_mat dvalue = u->ids ? ctr_mat(u->dvalue, v.entries, u->cols) : v.grad;
    const struct ctr_dev_attend_grad attend = { .segments = segments_of(&v, 0),
                                                .softmax = has_softmax(d),
                                                .scale = scale_of(u),
                                                .share = ctr_vec(has_softmax(d) ? u->share : u->score, v.entries),
                                                .value = v.value,
                                                .dout = du,
                                                .dscore = ctr_vec(u->dscore, v.entries),
                                                .dvalue = dvalue };
    const struct ctr_dev_attend_input_grad input = { .segments = attend.segments,
                                                     .query = ctr_mat(u->query, d->rows, u->cols),
                                                     .key = v.value,
                                                     .dout = ctr_mat(u->dinput, v.entries, 2 * u->cols),
                                                     .dquery = ctr_mat(u->dquery, d->rows, u->cols),
                                                     .dkey = dvalue };
    int rc = ctr_dev_attend_grad(d->dev, &attend, err);
    if (!rc)
        rc = ctr_stack_backward(d, &u->stack, ctr_mat(u->input, v.entries, 2 * u->cols),
                                ctr_mat(u->dscore, v.entries, 1), input.dout, err);
    if (!rc)
        rc = ctr_dev_attend_input_grad(d->dev, &input, err);
    if (!rc && u->ids)
        rc = add(d, 1, dvalue, v.grad, err);
    if (!rc)
        rc = ask_backward(d, u, &v, err);
    if (!rc)
        rc = put_together(d, u, err);
    return rc ? rc : asked_backward(d, u, dx, err);
}

int ctr_attention_backward(struct ctr_deep *d, struct ctr_attention *a, struct ctr_err *err)
{
    const struct ctr_mat all = ctr_mat(a->dx, d->rows, a->learned), dx = ctr_mat(d->dx, d->rows, ctr_deep_dx_cols(d));
    int rc = 0;
    for (int i = 0; i < a->runs && !rc; i++) {
        const struct ctr_attention_run *r = &a->run[i];
        const int64_t cols = CTR_MIN(r->cols, a->learned - r->to); /* numbers have no gradient */
        if (cols > 0)
            rc = copy(d, ctr_mat_cols(all, r->to, cols), ctr_mat_cols(dx, r->from, cols), err);
    }
    for (int i = 0; i < a->units && !rc; i++)
        rc = unit_backward(d, &a->unit[i], dx, ctr_mat_cols(all, a->unit[i].out_at, a->unit[i].cols), err);
    return rc;
}
