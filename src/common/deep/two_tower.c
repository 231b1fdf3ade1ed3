/* SPDX-License-Identifier: Apache-2.0
 *
 * two-tower: a vector of the user and a vector of the ad, made apart, and their inner product; the pre-rank model of Ge
 * et al., "Image Matters" (CIKM 2018), section 7, and the two towers of Huang et al., "Learning Deep Structured
 * Semantic Models for Web Search" (CIKM 2013).
 *
 *     x_s = [v_1 … v_F | numbers]          of the inputs of side s: user, ad; v of images: the sum of tower(image)
 *     t_s = stack_s(x_s)                   --vector numbers each
 *     logit = <t_user, t_ad> + b           no temperature, no normalization: the last layers learn the scale
 *
 * Nothing but a table that inputs of both sides name, and the tower of images (deep_images.c), is shared before the
 * product. So a vector is made from the columns of its side alone: the outputs `user` and `ad`. A network of one output
 * has the inputs and the stack of its side.
 *
 * Rows of a minibatch that are equal on a side have one vector there, which is made once (deep_equal.c). Where
 * training has statistics or draws of its own (dice, batch normalization, dropout) it goes through all rows; so does a
 * side with lists of images. */
#include <stdlib.h>

#include "common/deep/deep_options.h"
#include "common/deep/deep_stack.h"

static const struct ctr_param two_tower_options[] = {
    CTR_DEEP_OPTIONS,
    CTR_DEEP_POOLING_OPTION,
    CTR_DEEP_STACK_OPTIONS("200,80"),
    CTR_DEEP_SIDE_OPTIONS,
    { "vector", CTR_PARAM_INT, CTR_PARAM_AT(deep.vector), "32", 1, 1024, "1 to 1024", "N", CTR_GROUP_MODEL,
      "dimension of the vectors of user and ad", .flags = CTR_PARAM_BASIC },
    CTR_DEEP_IMAGES_OPTION,
    CTR_DEEP_IMAGES_AT_OPTION,
    CTR_DEEP_IMAGES_TOWER_OPTION("256,64"),
    CTR_DEEP_IMAGES_SCALE_OPTION,
    CTR_DEEP_MISSING_IMAGE_OPTION("fail"),
    { 0 },
};

static const struct ctr_deep_output outputs[] = { { "user", "user" }, { "ad", "ad" }, { 0 } };
enum { SIDES = 2 };

/* Adjacent columns of d->x that belong to a side. */
struct run {
    int64_t from, cols, to;
};

struct tower {
    struct ctr_stack stack;
    struct run *run; /* of keys, then of numbers */
    int runs, key_runs;
    int64_t cols, key_cols;   /* of x */
    int distinct;             /* number of the rows that are equal on this side; -1: all rows are computed */
    struct ctr_mem *out, *dt; /* [room x vector]: of all rows */
    /* of the rows that are computed: [rows x cols], [rows x key_cols], [rows x vector] twice */
    struct ctr_mem *x, *dx, *vector, *dvector;
};

struct towers {
    struct tower side[SIDES];
    int bias;
};

/* ---- shape ---- */

static void add_run(struct tower *t, int64_t from, int64_t cols)
{
    struct run *last = t->runs ? &t->run[t->runs - 1] : NULL;
    if (last && last->from + last->cols == from && t->runs != t->key_runs)
        last->cols += cols;
    else
        t->run[t->runs++] = (struct run){ from, cols, t->cols };
    t->cols += cols;
}

/* Find the columns of d->x of the side: those of its keys first, because only they have a gradient. */
static int find_columns(const struct ctr_deep *d, struct tower *t, const char *side, struct ctr_err *err)
{
    t->run = calloc((size_t)d->inputs + 1, sizeof *t->run);
    if (!t->run)
        return ctr_fail_nomem(err, (size_t)d->inputs * sizeof *t->run);
    for (int k = 0; k < d->keys; k++)
        if (!strcmp(d->input[d->key_input[k]].side, side))
            add_run(t, (int64_t)k * d->width, d->width);
    t->key_runs = t->runs;
    t->key_cols = t->cols;
    for (int i = 0; i < d->inputs; i++)
        if (!d->input[i].table && !strcmp(d->input[i].side, side))
            add_run(t, (int64_t)d->keys * d->width + d->input[i].dense_at, d->input[i].dense);
    if (d->explains) {
        t->key_runs = t->runs;
        t->key_cols = t->cols;
    }
    return 0;
}

/* Rows that are equal on a side, unless its lists cannot be compared, or each row's own gradient is wanted. */
static int find_distinct(struct ctr_deep *d, struct tower *t, const char *side, struct ctr_err *err)
{
    bool *has = calloc((size_t)d->inputs + 1, sizeof *has), all = !d->explains;
    if (!has)
        return ctr_fail_nomem(err, (size_t)d->inputs);
    for (int i = 0; i < d->inputs; i++) {
        has[i] = !strcmp(d->input[i].side, side);
        all &= !has[i] || ctr_deep_can_be_distinct(&d->input[i]);
    }
    t->distinct = all ? ctr_deep_distinct(d, has, err) : -1;
    free(has);
    return all ? CTR_MIN(t->distinct, 0) : 0;
}

static bool is_side(const char *side)
{
    return side && (!strcmp(side, outputs[0].side) || !strcmp(side, outputs[1].side));
}

static int check_sides(const struct ctr_deep *d, struct ctr_err *err)
{
    bool has[SIDES] = { false };
    for (int i = 0; i < d->inputs; i++) {
        const char *side = d->input[i].side;
        if (!is_side(side))
            return ctr_fail(err, CTR_EUSAGE,
                            "input '%.80s' belongs to neither tower: assign it with --user-features or --ad-features",
                            d->input[i].name);
        has[!strcmp(side, outputs[1].side)] = true;
    }
    for (int s = 0; s < SIDES && !d->output; s++)
        if (!has[s])
            return ctr_fail(err, CTR_EUSAGE, "the tower of the %s has no input: assign some with --%s-features",
                            outputs[s].side, outputs[s].side);
    return 0;
}

/* Declare the tower of images, if the network has image inputs. An image file without image inputs is an error, except
 * for the network of a side without any. */
static int declare_images(struct ctr_deep *d, struct ctr_err *err)
{
    bool any = false;
    for (int i = 0; i < d->inputs; i++)
        any |= d->input[i].image;
    if (any)
        return ctr_deep_images_declare(d, err);
    return !d->p.images.file || d->output
               ? 0
               : ctr_fail(err, CTR_EUSAGE,
                          "no column has the role image: add 'image ad = …' to the plan, or leave --images out");
}

static bool has_tower(const struct ctr_deep *d, int s)
{
    return !d->output || d->output == &outputs[s];
}

static int declare(struct ctr_deep *d, struct ctr_err *err)
{
    struct towers *t = calloc(1, sizeof *t);
    static const char *const prefix[SIDES] = { "user.", "ad." };
    if (!t)
        return ctr_fail_nomem(err, sizeof *t);
    d->state = t;
    for (int i = 0; i < d->inputs; i++)
        d->input[i].pooling = d->input[i].image ? CTR_POOL_SUM : ctr_deep_pooling_of(d->p.deep.pooling);
    int rc = check_sides(d, err);
    if (!rc)
        rc = declare_images(d, err);
    for (int s = 0; s < SIDES && !rc; s++) {
        if (!has_tower(d, s))
            continue;
        rc = find_columns(d, &t->side[s], outputs[s].side, err);
        const struct ctr_stack_shape shape =
            ctr_stack_hidden(d, prefix[s], (int32_t)t->side[s].cols, (int32_t)d->p.deep.vector);
        if (!rc)
            rc = find_distinct(d, &t->side[s], outputs[s].side, err);
        if (!rc)
            rc = ctr_stack_declare(d, &t->side[s].stack, &shape, err);
    }
    if (!rc)
        rc = CTR_MIN(t->bias = ctr_deep_param(d, CTR_INIT_ZERO, false, 0, 1, err, "bias"), 0);
    for (int s = 0; s < SIDES && !rc; s++)
        rc = has_tower(d, s) ? ctr_stack_declare_running(d, &t->side[s].stack, err) : 0;
    return rc ? rc : ctr_deep_images_declare_running(d, err);
}

static int make_tower_room(struct ctr_deep *d, struct tower *t, int64_t room, struct ctr_err *err)
{
    const size_t vectors = (size_t)(room * d->p.deep.vector) * sizeof(float);
    int rc = ctr_mem_grow(&t->out, d->dev, vectors, err);
    return rc || !d->learns ? rc : ctr_mem_grow(&t->dt, d->dev, vectors, err);
}

static int make_room(struct ctr_deep *d, int64_t room, struct ctr_err *err)
{
    struct towers *t = d->state;
    int rc = 0;
    for (int s = 0; s < SIDES && !rc; s++)
        rc = has_tower(d, s) ? make_tower_room(d, &t->side[s], room, err) : 0;
    return rc;
}

static void free_towers(struct ctr_deep *d)
{
    struct towers *t = d->state;
    for (int s = 0; s < SIDES; s++) {
        struct tower *side = &t->side[s];
        struct ctr_mem *mems[] = { side->x, side->dx, side->out, side->dt, side->vector, side->dvector };
        ctr_stack_free(&side->stack);
        for (size_t i = 0; i < CTR_COUNT(mems); i++)
            ctr_mem_free(mems[i]);
        free(side->run);
    }
    free(t);
}

/* ---- forward ---- */

/* Does the tower go through the distinct rows alone, so that its activations are theirs? */
static bool is_shared(const struct tower *t, bool training)
{
    return t->distinct >= 0 && !(training && t->stack.separate_training_forward);
}

/* For rows that are computed; those that are there stay. */
static int computed_room(struct ctr_deep *d, struct tower *t, int64_t used, int64_t rows, struct ctr_err *err)
{
    const struct {
        struct ctr_mem **m;
        int64_t cols;
        bool stays, wanted;
    } rooms[] = { { &t->x, t->cols, true, true },
                  { &t->vector, d->p.deep.vector, true, t->distinct >= 0 },
                  { &t->dx, t->key_cols, false, d->learns },
                  { &t->dvector, d->p.deep.vector, false, d->learns && t->distinct >= 0 } };
    int rc = ctr_stack_keep(d, &t->stack, used, rows, err);
    for (size_t i = 0; i < CTR_COUNT(rooms) && !rc; i++) {
        const size_t row = (size_t)rooms[i].cols * sizeof(float);
        if (rooms[i].wanted)
            rc = ctr_deep_keep(d, rooms[i].m, rooms[i].stays ? (size_t)used * row : 0, (size_t)rows * row, err);
    }
    return rc;
}

/* Write the tower's vectors of rows [from, from + n) to y. */
static int forward_tower(struct ctr_deep *d, struct tower *t, int64_t from, int64_t n, bool training, struct ctr_mat y,
                         struct ctr_err *err)
{
    const bool shared = is_shared(t, training);
    struct ctr_deep_distinct_view v = { .first = from, .count = n };
    if (shared)
        v = ctr_deep_distinct_of(d, t->distinct, from, n);
    int rc = computed_room(d, t, v.first, v.first + v.count, err);
    const struct ctr_mat x = ctr_mat_at(t->x, v.first * t->cols, v.count, t->cols);
    const struct ctr_mat all = ctr_mat_at(d->x, shared ? 0 : from * d->x_cols, shared ? from + n : n, d->x_cols);
    for (int i = 0; i < t->runs && !rc; i++) {
        const struct run *r = &t->run[i];
        const struct ctr_dev_move_rows take = { .n = v.count,
                                                .from = ctr_mat_cols(all, r->from, r->cols),
                                                .to = ctr_mat_cols(x, r->to, r->cols),
                                                .from_index = v.row };
        rc = ctr_dev_move_rows(d->dev, &take, err);
    }
    if (rc || !shared)
        return rc ? rc : ctr_stack_forward(d, &t->stack, x, from, training, y, err);
    rc = ctr_stack_forward(d, &t->stack, x, v.first, training,
                           ctr_mat_at(t->vector, v.first * d->p.deep.vector, v.count, d->p.deep.vector), err);
    const struct ctr_dev_move_rows spread = {
        .n = n, .from = ctr_mat(t->vector, v.first + v.count, d->p.deep.vector), .to = y, .from_index = v.number
    };
    return rc ? rc : ctr_dev_move_rows(d->dev, &spread, err);
}

static int forward(struct ctr_deep *d, int64_t from, int64_t n, bool training, struct ctr_err *err)
{
    struct towers *t = d->state;
    struct ctr_mat out[SIDES];
    int rc = 0;
    for (int s = 0; s < SIDES && !rc; s++) {
        out[s] = ctr_mat_at(t->side[s].out, from * d->p.deep.vector, n, d->p.deep.vector);
        rc = forward_tower(d, &t->side[s], from, n, training, out[s], err);
    }
    const struct ctr_dev_row_dot dot = {
        .a = out[0], .b = out[1], .bias = ctr_deep_vec(d, t->bias), .y = ctr_vec_at(d->logit, from, n)
    };
    return rc ? rc : ctr_dev_row_dot(d->dev, &dot, err);
}

static int forward_output(struct ctr_deep *d, int64_t n, struct ctr_mat *y, struct ctr_err *err)
{
    struct towers *t = d->state;
    struct tower *side = &t->side[d->output - outputs];
    *y = ctr_mat(side->out, n, d->p.deep.vector);
    return forward_tower(d, side, 0, n, false, *y, err);
}

static int32_t output_width(const struct ctr_deep *d)
{
    return (int32_t)d->p.deep.vector;
}

/* ---- backward ---- */

/* dx of the rows that are computed, into columns of d->dx, where equal rows have 0. */
static int put_gradient(struct ctr_deep *d, const struct run *r, struct ctr_mat dx, struct ctr_vec row,
                        struct ctr_err *err)
{
    const struct ctr_mat all = ctr_mat_cols(ctr_mat(d->dx, d->rows, ctr_deep_dx_cols(d)), r->from, r->cols);
    const struct ctr_dev_fill zero = { .x = all };
    const struct ctr_dev_move_rows put = {
        .n = dx.rows, .from = ctr_mat_cols(dx, r->to, r->cols), .to = all, .to_index = row
    };
    int rc = dx.rows < d->rows ? ctr_dev_fill(d->dev, &zero, err) : 0;
    return rc ? rc : ctr_dev_move_rows(d->dev, &put, err);
}

/* Backward from the gradient of the tower's vectors, in t->dt. */
static int backward_tower(struct ctr_deep *d, struct tower *t, struct ctr_err *err)
{
    const bool shared = is_shared(t, true);
    struct ctr_mat dvector = ctr_mat(t->dt, d->rows, d->p.deep.vector);
    struct ctr_deep_distinct_view v = { .count = d->rows };
    int rc = 0;
    if (shared) {
        v = ctr_deep_distinct_of(d, t->distinct, 0, d->rows);
        const struct ctr_mat sums = ctr_mat(t->dvector, v.count, d->p.deep.vector);
        rc = ctr_deep_equal_sum(d, &d->distinct[t->distinct].equal, dvector, sums, err);
        dvector = sums;
    }
    const struct ctr_mat dx = ctr_mat(t->dx, v.count, t->key_cols);
    if (!rc)
        rc = ctr_stack_backward(d, &t->stack, ctr_mat(t->x, v.count, t->cols), dvector, dx, err);
    for (int i = 0; i < t->key_runs && !rc; i++)
        rc = put_gradient(d, &t->run[i], dx, v.row, err);
    return rc;
}

static int backward(struct ctr_deep *d, struct ctr_err *err)
{
    struct towers *t = d->state;
    const struct ctr_mat dlogit = ctr_mat(d->dlogit, d->rows, 1);
    const struct ctr_dev_act_grad bias = {
        .z = dlogit, .dy = dlogit, .dz = dlogit, .dbias = ctr_deep_vec_grad(d, t->bias)
    };
    int rc = ctr_dev_act_grad(d->dev, &bias, err);
    for (int s = 0; s < SIDES && !rc; s++) {
        const struct ctr_dev_row_scale grad = { .s = ctr_vec(d->dlogit, d->rows),
                                                .x = ctr_mat(t->side[!s].out, d->rows, d->p.deep.vector),
                                                .y = ctr_mat(t->side[s].dt, d->rows, d->p.deep.vector) };
        rc = ctr_dev_row_scale(d->dev, &grad, err);
    }
    for (int s = 0; s < SIDES && !rc; s++)
        rc = backward_tower(d, &t->side[s], err);
    return rc;
}

static const struct ctr_deep_spec two_tower_deep = {
    .declare = declare,
    .make_room = make_room,
    .forward = forward,
    .backward = backward,
    .free = free_towers,
    .outputs = outputs,
    .forward_output = forward_output,
    .output_width = output_width,
    .output_bias = "bias",
    .takes_sides = true,
};

const struct ctr_model ctr_model_two_tower = {
    .name = "two-tower",
    .summary = "inner product of a user vector and an ad vector, by Adam",
    .options = two_tower_options,
    .deep = &two_tower_deep,
    .gpu = true,
    CTR_DEEP_FUNCTIONS,
};
