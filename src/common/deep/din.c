/* SPDX-License-Identifier: Apache-2.0
 *
 * din: Deep Interest Network (Zhou et al., KDD 2018, section 4.3). The past of a user, a sequence of items, is pooled
 * with weights that an attention unit gives each item beside the candidate:
 *
 *     s_e = unit([q, k_e, q - k_e, q * k_e])       q: the candidate's values, k_e: the item's, field by field
 *     a_e = s_e, or softmax(s_e / sqrt(size of k)) over the row's items
 *     u   = sum of a_e k_e                         0 of no items
 *     logit = stack([u of each history, pooled values of the other inputs, numbers])
 *
 * A history is a sequence of the inputs of one group (ctr.history); a field of it that says ctr.history_of is compared
 * with that input, any other one with 0. Each history has a unit of its own.
 *
 * The first layer of a unit is linear in q and in k but for q * k, so that its product is taken apart:
 *
 *     W [q, k, q - k, q * k] = (W1 + W3) q + (W2 - W3) k + W4 (q * k)
 *
 * The first term is computed by row and not by item, and the product by item is half as long. Rows have no padding:
 * what an item costs is spent on the items that are there. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/deep/deep_options.h"
#include "common/deep/deep_stack.h"
#include "common/deep/din.h"

const char *const ctr_din_attentions[] = { "plain", "softmax", NULL };

static const struct ctr_param din_options[] = {
    CTR_DEEP_OPTIONS,
    CTR_DEEP_POOLING_OPTION,
    CTR_DEEP_STACK_OPTIONS_LIKE("200,80", "dice"),
    CTR_DIN_ATTENTION_OPTIONS,
    { 0 },
};

/* An attention unit, of one history. */
struct unit {
    char prefix[24];
    int sequence;
    int64_t cols; /* of a value of an item, and of q */
    int fields;
    int64_t *query_at; /* of each field: the column of x that its candidate's value begins at, or -1 */
    int64_t out_at;    /* the column of the network's input that u begins at */
    struct ctr_stack stack;
    int64_t first;                          /* units of its first layer */
    struct ctr_mem *query, *dquery;         /* [room x cols] */
    struct ctr_mem *base, *dbase;           /* [room x first]: (W1 + W3) q */
    struct ctr_mem *weight, *dweight;       /* [first x 3 cols]: W1 + W3, W2 - W3, W4 */
    struct ctr_mem *input, *dinput;         /* [entries x 2 cols]: k, q * k */
    struct ctr_mem *score, *share, *dscore; /* f32 [entries] */
};

struct din {
    struct ctr_stack stack;
    struct unit *unit;
    int units;
    int64_t cols;           /* of x: u of each history, then those of the net's x */
    int64_t learned;        /* of these, columns that have gradients */
    struct ctr_mem *x, *dx; /* [room x cols], [room x learned] */
};

/* ---- shape ---- */

/* The column of x where the pooled value of an input begins. */
static int64_t column_of(const struct ctr_deep *d, int input)
{
    int64_t before = 0;
    for (int i = 0; i < input; i++)
        before += d->input[i].table && !d->input[i].sequence;
    return before * d->width;
}

static int declare_query(struct ctr_deep *d, struct unit *u, int field, int input, struct ctr_err *err)
{
    const struct ctr_deep_input *in = &d->input[input];
    u->query_at[field] = -1;
    if (!in->history_of)
        return 0;
    const int of = ctr_deep_find_input(d, in->history_of);
    if (of < 0 || !d->input[of].table || d->input[of].sequence) {
        return ctr_fail(err, CTR_EUSAGE,
                        "'%.80s' is the past of '%.80s', which is no feature that a row has one value of: add 'feature "
                        "%.80s' to the plan",
                        in->name, in->history_of, in->history_of);
    }
    u->query_at[field] = column_of(d, of);
    return 0;
}

static int declare_unit(struct ctr_deep *d, struct unit *u, struct ctr_err *err)
{
    const struct ctr_deep_sequence *s = &d->sequence[u->sequence];
    int rc = 0;
    u->fields = s->fields;
    u->cols = (int64_t)s->fields * d->width;
    u->query_at = calloc((size_t)u->fields, sizeof *u->query_at);
    if (!u->query_at)
        return ctr_fail_nomem(err, (size_t)u->fields * sizeof *u->query_at);
    for (int f = 0; f < u->fields && !rc; f++)
        rc = declare_query(d, u, f, s->input[f], err);
    snprintf(u->prefix, sizeof u->prefix, "attention%d.", u->sequence + 1);
    const struct ctr_stack_shape shape = { .prefix = u->prefix,
                                           .hidden = d->p.attention_hidden,
                                           .in = (int32_t)(4 * u->cols),
                                           .out = 1,
                                           .activation = d->p.activation };
    if (!rc)
        rc = ctr_stack_declare(d, &u->stack, &shape, err);
    u->stack.same_input = true;
    u->first = u->stack.layers ? u->stack.layer[0].out : 1;
    return rc;
}

/* Does an input that says what it is the past of have an attention unit? In dicm: as --base and --images-pool say. */
static bool attends(const struct ctr_deep *d, const struct ctr_deep_input *in)
{
    if (!in->history_of)
        return false;
    return in->image ? !strcmp(d->p.images_pool, "attentive") : !d->p.base || !strcmp(d->p.base, "din");
}

/* Every such input becomes a sequence, with those of its group. */
static int declare_units(struct ctr_deep *d, struct din *m, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; i < d->inputs && rc >= 0; i++)
        if (attends(d, &d->input[i]))
            rc = ctr_deep_sequence(d, i, err);
    if (rc < 0)
        return err->code;
    if (!d->sequences && !d->p.base) {
        return ctr_fail(err, CTR_EUSAGE,
                        "no feature says which one it is the past of: add 'feature past of item = …' to the plan, take "
                        "columns of ctr-history, or train mlp");
    }
    m->unit = calloc((size_t)d->sequences + 1, sizeof *m->unit);
    if (!m->unit)
        return ctr_fail_nomem(err, (size_t)d->sequences * sizeof *m->unit);
    m->units = d->sequences;
    rc = 0;
    for (int i = 0; i < m->units && !rc; i++) {
        m->unit[i].sequence = i;
        m->unit[i].out_at = m->cols;
        rc = declare_unit(d, &m->unit[i], err);
        m->cols += m->unit[i].cols;
    }
    return rc;
}

int ctr_din_declare(struct ctr_deep *d, struct ctr_err *err)
{
    struct din *m = calloc(1, sizeof *m);
    if (!m)
        return ctr_fail_nomem(err, sizeof *m);
    d->state = m;
    for (int i = 0; i < d->inputs; i++)
        d->input[i].pooling = ctr_deep_pooling_of(d->input[i].image ? d->p.images_pool : d->p.pooling);
    int rc = declare_units(d, m, err);
    m->learned = m->cols + (int64_t)d->pooled * d->width;
    m->cols += d->x_cols;
    const struct ctr_stack_shape shape = { .prefix = "",
                                           .hidden = d->p.hidden,
                                           .in = (int32_t)m->cols,
                                           .out = 1,
                                           .activation = d->p.activation,
                                           .batch_norm = d->p.batch_norm,
                                           .dropout = d->p.dropout };
    if (!rc)
        rc = ctr_stack_declare(d, &m->stack, &shape, err);
    for (int i = 0; i < m->units && !rc; i++)
        rc = ctr_stack_declare_running(d, &m->unit[i].stack, err);
    return rc ? rc : ctr_stack_declare_running(d, &m->stack, err);
}

/* ---- memory ---- */

struct room {
    struct ctr_mem **m;
    int64_t floats; /* a row */
};

static int unit_room(struct ctr_deep *d, struct unit *u, int64_t room, struct ctr_err *err)
{
    struct ctr_mem **once[] = { &u->weight, &u->dweight };
    const struct room rows[] = {
        { &u->query, u->cols }, { &u->base, u->first }, { &u->dquery, u->cols }, { &u->dbase, u->first }
    };
    int rc = 0;
    for (size_t i = 0; i < CTR_COUNT(once) && !rc; i++)
        rc = ctr_mem_grow(once[i], d->dev, (size_t)(u->first * 3 * u->cols) * sizeof(float), err);
    for (size_t i = 0; i < (d->learns ? CTR_COUNT(rows) : 2) && !rc; i++)
        rc = ctr_mem_grow(rows[i].m, d->dev, (size_t)(room * rows[i].floats) * sizeof(float), err);
    return rc;
}

int ctr_din_make_room(struct ctr_deep *d, int64_t room, struct ctr_err *err)
{
    struct din *m = d->state;
    int rc = ctr_mem_grow(&m->x, d->dev, (size_t)(room * m->cols) * sizeof(float), err);
    if (!rc && d->learns)
        rc = ctr_mem_grow(&m->dx, d->dev, (size_t)(room * m->learned) * sizeof(float), err);
    for (int i = 0; i < m->units && !rc; i++)
        rc = unit_room(d, &m->unit[i], room, err);
    return rc ? rc : ctr_stack_room(d, &m->stack, room, err);
}

/* For the entries of the minibatch so far; those of rows that are done stay. */
static int entries_room(struct ctr_deep *d, struct unit *u, const struct ctr_deep_sequence_view *v, struct ctr_err *err)
{
    const struct room kept[] = { { &u->input, 2 * u->cols }, { &u->score, 1 }, { &u->share, 1 } };
    int rc = ctr_stack_keep(d, &u->stack, v->first, v->entries, err);
    for (size_t i = 0; i < CTR_COUNT(kept) && !rc; i++) {
        const size_t row = (size_t)kept[i].floats * sizeof(float);
        rc = ctr_deep_keep(d, kept[i].m, (size_t)v->first * row, (size_t)v->entries * row, err);
    }
    if (!rc && d->learns)
        rc = ctr_mem_grow(&u->dinput, d->dev, (size_t)(v->entries * 2 * u->cols) * sizeof(float), err);
    if (!rc && d->learns)
        rc = ctr_mem_grow(&u->dscore, d->dev, (size_t)v->entries * sizeof(float), err);
    return rc;
}

static void unit_free(struct unit *u)
{
    struct ctr_mem *mems[] = { u->query, u->dquery, u->base,  u->dbase, u->weight, u->dweight,
                               u->input, u->dinput, u->score, u->share, u->dscore };
    for (size_t i = 0; i < CTR_COUNT(mems); i++)
        ctr_mem_free(mems[i]);
    ctr_stack_free(&u->stack);
    free(u->query_at);
}

void ctr_din_free(struct ctr_deep *d)
{
    struct din *m = d->state;
    if (!m)
        return;
    for (int i = 0; i < m->units; i++)
        unit_free(&m->unit[i]);
    free(m->unit);
    ctr_stack_free(&m->stack);
    ctr_mem_free(m->x);
    ctr_mem_free(m->dx);
    free(m);
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

/* Block i of columns, each as wide as a value of an item. */
static struct ctr_mat block(const struct unit *u, struct ctr_mat m, int i)
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

/* scale of scores before softmax: the authors' 1 / sqrt(size of k). */
static float scale_of(const struct unit *u)
{
    return (float)(1 / sqrt((double)u->cols));
}

static bool has_softmax(const struct ctr_deep *d)
{
    return !strcmp(d->p.attention, "softmax");
}

/* ---- forward ---- */

/* The weight of the first layer, taken apart. */
static int take_apart(struct ctr_deep *d, struct unit *u, struct ctr_err *err)
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

/* q of rows [from, from + n), and what of the first layer it gives. Fields without a candidate stay 0. */
static int ask(struct ctr_deep *d, struct unit *u, int64_t from, int64_t n, struct ctr_err *err)
{
    const struct ctr_mat x = ctr_mat_at(d->x, from * d->x_cols, n, d->x_cols);
    const struct ctr_mat q = ctr_mat_at(u->query, from * u->cols, n, u->cols);
    int rc = 0;
    for (int f = 0; f < u->fields && !rc; f++)
        if (u->query_at[f] >= 0)
            rc = copy(d, ctr_mat_cols(x, u->query_at[f], d->width), ctr_mat_cols(q, (int64_t)f * d->width, d->width),
                      err);
    const struct ctr_dev_gemm base = { .a = q,
                                       .b = block(u, ctr_mat(u->weight, u->first, 3 * u->cols), 0),
                                       .tb = true,
                                       .c = ctr_mat_at(u->base, from * u->first, n, u->first) };
    return rc ? rc : ctr_dev_gemm(d->dev, &base, err);
}

static int score_items(struct ctr_deep *d, struct unit *u, const struct ctr_deep_sequence_view *v, int64_t from,
                       int64_t n, bool training, struct ctr_err *err)
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

static int unit_forward(struct ctr_deep *d, struct unit *u, struct ctr_mat x, int64_t from, bool training,
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

int ctr_din_forward(struct ctr_deep *d, int64_t from, int64_t n, bool training, struct ctr_err *err)
{
    struct din *m = d->state;
    const struct ctr_mat x = ctr_mat_at(m->x, from * m->cols, n, m->cols);
    int rc =
        copy(d, ctr_mat_at(d->x, from * d->x_cols, n, d->x_cols), ctr_mat_cols(x, m->cols - d->x_cols, d->x_cols), err);
    for (int i = 0; i < m->units && !rc; i++)
        rc = unit_forward(d, &m->unit[i], x, from, training, err);
    return rc ? rc : ctr_stack_forward(d, &m->stack, x, from, training, ctr_mat_at(d->logit, from, n, 1), err);
}

/* ---- backward ---- */

/* From the gradient of the first layer's sum by row: those of W1 + W3 and, added, of q. */
static int ask_backward(struct ctr_deep *d, struct unit *u, const struct ctr_deep_sequence_view *v, struct ctr_err *err)
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

/* The gradient of the first layer's weight, put together: of W1 that of W1 + W3, of W2 that of W2 - W3, of W3 both. */
static int put_together(struct ctr_deep *d, struct unit *u, struct ctr_err *err)
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

static int unit_backward(struct ctr_deep *d, struct unit *u, struct ctr_mat dx, struct ctr_mat du, struct ctr_err *err)
{
    const struct ctr_deep_sequence_view v = ctr_deep_sequence_of(d, u->sequence, 0, d->rows);
    const struct ctr_dev_attend_grad attend = { .segments = segments_of(&v, 0),
                                                .softmax = has_softmax(d),
                                                .scale = scale_of(u),
                                                .share = ctr_vec(has_softmax(d) ? u->share : u->score, v.entries),
                                                .value = v.value,
                                                .dout = du,
                                                .dscore = ctr_vec(u->dscore, v.entries),
                                                .dvalue = v.grad };
    const struct ctr_dev_attend_input_grad input = { .segments = attend.segments,
                                                     .query = ctr_mat(u->query, d->rows, u->cols),
                                                     .key = v.value,
                                                     .dout = ctr_mat(u->dinput, v.entries, 2 * u->cols),
                                                     .dquery = ctr_mat(u->dquery, d->rows, u->cols),
                                                     .dkey = v.grad };
    int rc = ctr_dev_attend_grad(d->dev, &attend, err);
    if (!rc)
        rc = ctr_stack_backward(d, &u->stack, ctr_mat(u->input, v.entries, 2 * u->cols),
                                ctr_mat(u->dscore, v.entries, 1), input.dout, err);
    if (!rc)
        rc = ctr_dev_attend_input_grad(d->dev, &input, err);
    if (!rc)
        rc = ask_backward(d, u, &v, err);
    if (!rc)
        rc = put_together(d, u, err);
    for (int f = 0; f < u->fields && !rc; f++)
        if (u->query_at[f] >= 0)
            rc = add(d, 1, ctr_mat_cols(input.dquery, (int64_t)f * d->width, d->width),
                     ctr_mat_cols(dx, u->query_at[f], d->width), err);
    return rc;
}

int ctr_din_backward(struct ctr_deep *d, struct ctr_err *err)
{
    struct din *m = d->state;
    const int64_t pooled = (int64_t)d->pooled * d->width;
    const struct ctr_mat all = ctr_mat(m->dx, d->rows, m->learned), dx = ctr_mat(d->dx, d->rows, pooled);
    int rc =
        ctr_stack_backward(d, &m->stack, ctr_mat(m->x, d->rows, m->cols), ctr_mat(d->dlogit, d->rows, 1), all, err);
    if (!rc)
        rc = copy(d, ctr_mat_cols(all, m->learned - pooled, pooled), dx, err);
    for (int i = 0; i < m->units && !rc; i++)
        rc = unit_backward(d, &m->unit[i], dx, ctr_mat_cols(all, m->unit[i].out_at, m->unit[i].cols), err);
    return rc;
}

static const struct ctr_deep_spec din_deep = {
    .declare = ctr_din_declare,
    .make_room = ctr_din_make_room,
    .forward = ctr_din_forward,
    .backward = ctr_din_backward,
    .free = ctr_din_free,
};

const struct ctr_model ctr_model_din = {
    .name = "din",
    .summary = "histories pooled by attention to the candidate (DIN), by Adam",
    .options = din_options,
    .deep = &din_deep,
    .device = &ctr_model_din,
    CTR_DEEP_FUNCTIONS,
};
