/* SPDX-License-Identifier: Apache-2.0
 *
 * fm: a factorization machine of degree 2 (Rendle, "Factorization Machines", ICDM 2010, eq. 1). Its features are all
 * keys of a row, with each list entry a feature, and its numbers:
 *
 *     logit = b + sum over i of w_i x_i + sum over pairs i < j of <v_i, v_j> x_i x_j
 *
 * The vector of a feature is w | v. CTR_POOL_FM of compute.h reduces a list of features to one vector: the list's own
 * contribution to the logit, and the sum of x v. It is applied to the entries of each field and to the numbers, whose
 * vectors are rows of a dense parameter; then to the resulting vectors, which gives the logit. All pairs are included,
 * and the work is linear in the number of features. */
#include <stdlib.h>

#include "common/deep/deep_options.h"

static const struct ctr_param fm_options[] = { CTR_DEEP_OPTIONS, { 0 } };

/* A list of `each` entries for each row of the minibatch, on the device. */
struct lists {
    int64_t each;
    struct ctr_mem *start, *index, *segment;
};

struct fm {
    int bias, numbers;       /* parameters; numbers -1: none */
    int64_t fields;          /* key fields, plus one for the numbers */
    struct lists of_fields;  /* entry e takes row e of z */
    struct lists of_numbers; /* entry e takes row e % dense of the parameter */
    struct ctr_mem *x;       /* f32 [room x dense]: the numbers */
    struct ctr_mem *z, *dz;  /* [room x fields * width] */
    struct ctr_mem *y, *dy;  /* [room x width]; dy is 0 except in column 0 */
    /* The entries of each number in the first `grouped` rows. */
    int64_t grouped;
    struct ctr_mem *group_start, *group_item;
    /* To explain: [room x width], [room x dense], [dense], and [dense] zeros. */
    struct ctr_mem *t, *own, *square, *zero;
};

static int fm_declare(struct ctr_deep *d, struct ctr_err *err)
{
    struct fm *m = calloc(1, sizeof *m);
    if (!m)
        return ctr_fail_nomem(err, sizeof *m);
    d->state = m;
    for (int i = 0; i < d->inputs; i++)
        d->input[i].pooling = CTR_POOL_FM;
    m->fields = d->keys + (d->dense > 0);
    m->of_fields.each = m->fields;
    m->of_numbers.each = d->dense;
    m->numbers = -1;
    m->bias = ctr_deep_param(d, CTR_INIT_ZERO, false, 0, 1, err, "bias");
    if (m->bias < 0 || !d->dense)
        return CTR_MIN(m->bias, 0);
    m->numbers = ctr_deep_param(d, CTR_INIT_SMALL, false, d->dense, d->width, err, "numbers");
    return CTR_MIN(m->numbers, 0);
}

/* ---- lists ---- */

static int send(struct ctr_deep *d, struct ctr_mem **m, const int32_t *host, int64_t n, struct ctr_err *err)
{
    int rc = ctr_mem_grow(m, d->dev, (size_t)n * sizeof *host, err);
    return rc ? rc : ctr_mem_write(*m, 0, host, (size_t)n * sizeof *host, err);
}

static int make_lists(struct ctr_deep *d, struct lists *l, int64_t rows, bool rows_share, struct ctr_err *err)
{
    const int64_t n = rows * l->each;
    if (n >= INT32_MAX)
        return ctr_fail(err, CTR_EUSAGE, "a minibatch of %lld rows of %lld inputs is too large: lower --minibatch",
                        (long long)rows, (long long)l->each);
    int32_t *host = malloc(((size_t)n + 1) * sizeof *host);
    if (!host)
        return ctr_fail_nomem(err, ((size_t)n + 1) * sizeof *host);
    for (int64_t i = 0; i <= rows; i++)
        host[i] = (int32_t)(i * l->each);
    int rc = send(d, &l->start, host, rows + 1, err);
    for (int64_t e = 0; e <= n; e++)
        host[e] = (int32_t)(rows_share ? e % l->each : e);
    if (!rc)
        rc = send(d, &l->index, host, n + 1, err);
    for (int64_t e = 0; e < n; e++)
        host[e] = (int32_t)(e / l->each);
    if (!rc)
        rc = send(d, &l->segment, host, n, err);
    free(host);
    return rc;
}

/* The lists of rows [from, from + n). */
static struct ctr_lists lists_of(const struct lists *l, int64_t from, int64_t n, struct ctr_mem *x)
{
    const int64_t entries = (from + n) * l->each;
    return (struct ctr_lists){ .lists = n,
                               .per_row = 1,
                               .start = ctr_vec_at(l->start, from, n + 1),
                               .index = ctr_vec(l->index, entries),
                               .segment = ctr_vec(l->segment, entries),
                               .x = x ? ctr_vec(x, entries) : (struct ctr_vec){ 0 } };
}

static int group_numbers(struct ctr_deep *d, struct fm *m, struct ctr_err *err)
{
    const int64_t n = d->rows * d->dense;
    if (m->grouped == d->rows)
        return 0;
    int32_t *host = malloc((size_t)(n + d->dense + 1) * sizeof *host);
    if (!host)
        return ctr_fail_nomem(err, (size_t)(n + d->dense + 1) * sizeof *host);
    int32_t *start = host + n;
    for (int64_t u = 0; u < d->dense; u++)
        for (int64_t i = 0; i < d->rows; i++)
            host[u * d->rows + i] = (int32_t)(i * d->dense + u);
    for (int64_t u = 0; u <= d->dense; u++)
        start[u] = (int32_t)(u * d->rows);
    int rc = send(d, &m->group_item, host, n, err);
    if (!rc)
        rc = send(d, &m->group_start, start, d->dense + 1, err);
    free(host);
    m->grouped = rc ? 0 : d->rows;
    return rc;
}

static int explain_room(struct ctr_deep *d, struct fm *m, int64_t room, struct ctr_err *err)
{
    const struct {
        struct ctr_mem **m;
        int64_t floats;
    } rooms[] = {
        { &m->t, room * d->width }, { &m->own, room * d->dense }, { &m->square, d->dense }, { &m->zero, d->dense }
    };
    int rc = 0;
    for (size_t i = 0; i < CTR_COUNT(rooms) && !rc; i++)
        rc = ctr_mem_grow(rooms[i].m, d->dev, (size_t)rooms[i].floats * sizeof(float), err);
    return rc;
}

static int fm_make_room(struct ctr_deep *d, int64_t room, struct ctr_err *err)
{
    struct fm *m = d->state;
    const size_t row = (size_t)(room * d->width) * sizeof(float), fields = row * (size_t)m->fields;
    m->grouped = 0;
    int rc = make_lists(d, &m->of_fields, room, false, err);
    if (!rc && d->dense)
        rc = make_lists(d, &m->of_numbers, room, true, err);
    if (!rc && d->dense)
        rc = ctr_mem_grow(&m->x, d->dev, (size_t)(room * d->dense) * sizeof(float), err);
    if (!rc)
        rc = ctr_mem_grow(&m->z, d->dev, fields, err);
    if (!rc)
        rc = ctr_mem_grow(&m->y, d->dev, row, err);
    if (rc || !d->learns)
        return rc;
    rc = ctr_mem_grow(&m->dz, d->dev, fields, err);
    if (!rc)
        rc = ctr_mem_grow(&m->dy, d->dev, row, err);
    if (!rc && d->explains && d->dense)
        rc = explain_room(d, m, room, err);
    const struct ctr_dev_fill zero = { .x = ctr_mat(m->dy, room, d->width) };
    return rc ? rc : ctr_dev_fill(d->dev, &zero, err);
}

/* ---- forward and backward ---- */

/* Columns of rows [from, from + n) of m, whose rows are the fields' vectors: those of keys, that of numbers. */
static struct ctr_mat of_keys(const struct ctr_deep *d, struct ctr_mem *m, int64_t from, int64_t n)
{
    const int64_t cols = ((const struct fm *)d->state)->fields * d->width;
    return ctr_mat_cols(ctr_mat_at(m, from * cols, n, cols), 0, (int64_t)d->keys * d->width);
}

static struct ctr_mat of_numbers(const struct ctr_deep *d, struct ctr_mem *m, int64_t from, int64_t n)
{
    return ctr_mat_cols(of_keys(d, m, from, n), (int64_t)d->keys * d->width, d->width);
}

static int pool_numbers(struct ctr_deep *d, const struct fm *m, int64_t from, int64_t n, struct ctr_err *err)
{
    const struct ctr_mat x = ctr_mat_at(d->x, from * d->x_cols, n, d->x_cols);
    const struct ctr_dev_copy copy = { ctr_mat_cols(x, (int64_t)d->keys * d->width, d->dense),
                                       ctr_mat_at(m->x, from * d->dense, n, d->dense) };
    const struct ctr_dev_pool pool = { .how = CTR_POOL_FM,
                                       .lists = lists_of(&m->of_numbers, from, n, m->x),
                                       .rows = ctr_deep_mat(d, m->numbers),
                                       .out = of_numbers(d, m->z, from, n) };
    int rc = ctr_dev_copy(d->dev, &copy, err);
    return rc ? rc : ctr_dev_pool(d->dev, &pool, err);
}

static int fm_forward(struct ctr_deep *d, int64_t from, int64_t n, bool training, struct ctr_err *err)
{
    const struct fm *m = d->state;
    const struct ctr_mat x = ctr_mat_at(d->x, from * d->x_cols, n, d->x_cols);
    const struct ctr_mat y = ctr_mat_at(m->y, from * d->width, n, d->width);
    const struct ctr_dev_copy keys = { ctr_mat_cols(x, 0, (int64_t)d->keys * d->width), of_keys(d, m->z, from, n) };
    const struct ctr_dev_pool pool = { .how = CTR_POOL_FM,
                                       .lists = lists_of(&m->of_fields, from, n, NULL),
                                       .rows = ctr_mat(m->z, (from + n) * m->fields, d->width),
                                       .out = y };
    const struct ctr_dev_act bias = { .z = ctr_mat_cols(y, 0, 1),
                                      .y = ctr_mat_at(d->logit, from, n, 1),
                                      .bias = ctr_deep_vec(d, m->bias) };
    (void)training;
    int rc = ctr_dev_copy(d->dev, &keys, err);
    if (!rc && d->dense)
        rc = pool_numbers(d, m, from, n, err);
    if (!rc)
        rc = ctr_dev_pool(d->dev, &pool, err);
    return rc ? rc : ctr_dev_act(d->dev, &bias, err);
}

static int numbers_gradient(struct ctr_deep *d, struct fm *m, struct ctr_err *err)
{
    int rc = group_numbers(d, m, err);
    const struct ctr_dev_pool_grad grad = { .how = CTR_POOL_FM,
                                            .lists = lists_of(&m->of_numbers, 0, d->rows, m->x),
                                            .group_start = ctr_vec(m->group_start, d->dense + 1),
                                            .group_item = ctr_vec(m->group_item, d->rows * d->dense),
                                            .rows = ctr_deep_mat(d, m->numbers),
                                            .out = of_numbers(d, m->z, 0, d->rows),
                                            .dout = of_numbers(d, m->dz, 0, d->rows),
                                            .grad = ctr_deep_mat_grad(d, m->numbers) };
    return rc ? rc : ctr_dev_pool_grad(d->dev, &grad, err);
}

/* The gradient of the numbers, where that of the logit is 1. A number x_u whose vector is w_u | v_u is in its own term
 * and in the pairs with all other numbers and with the fields:
 *
 *     w_u + <v_u, sum of x v of the numbers - x_u v_u + dz of it> */
static int explain_numbers(struct ctr_deep *d, struct fm *m, struct ctr_err *err)
{
    const int64_t n = d->rows, pairs = d->width - 1;
    const struct ctr_mat vectors = ctr_deep_mat(d, m->numbers), v = ctr_mat_cols(vectors, 1, pairs);
    const struct ctr_mat t = ctr_mat(m->t, n, d->width), own = ctr_mat(m->own, n, d->dense);
    const struct ctr_mat to = ctr_mat_cols(ctr_mat(d->dx, n, ctr_deep_dx_cols(d)), d->pooled_cols, d->dense);
    const struct ctr_dev_copy others = { of_numbers(d, m->dz, 0, n), t };
    const struct ctr_dev_axpby all = { 1, 1, ctr_mat_cols(of_numbers(d, m->z, 0, n), 1, pairs),
                                       ctr_mat_cols(t, 1, pairs) };
    const struct ctr_dev_gemm product = { .a = t, .b = vectors, .tb = true, .c = to };
    const struct ctr_dev_row_dot square = { .a = v, .b = v, .y = ctr_vec(m->square, d->dense) };
    const struct ctr_dev_norm scale = { .x = ctr_mat(m->x, n, d->dense), /* x_u <v_u, v_u> */
                                        .y = own,
                                        .mean = ctr_vec(m->zero, d->dense),
                                        .var = ctr_vec(m->zero, d->dense),
                                        .gamma = square.y,
                                        .eps = 1 };
    const struct ctr_dev_axpby less = { -1, 1, own, to };
    int rc = ctr_dev_copy(d->dev, &others, err);
    if (!rc)
        rc = ctr_dev_axpby(d->dev, &all, err);
    if (!rc)
        rc = ctr_dev_gemm(d->dev, &product, err);
    if (!rc)
        rc = ctr_dev_row_dot(d->dev, &square, err);
    if (!rc)
        rc = ctr_dev_norm(d->dev, &scale, err);
    return rc ? rc : ctr_dev_axpby(d->dev, &less, err);
}

static int fm_backward(struct ctr_deep *d, struct ctr_err *err)
{
    struct fm *m = d->state;
    const int64_t entries = d->rows * m->fields;
    const struct ctr_mat dlogit = ctr_mat(d->dlogit, d->rows, 1), dy = ctr_mat(m->dy, d->rows, d->width);
    const struct ctr_dev_act_grad bias = {
        .z = dlogit, .dy = dlogit, .dz = dlogit, .dbias = ctr_deep_vec_grad(d, m->bias)
    };
    const struct ctr_dev_copy down = { dlogit, ctr_mat_cols(dy, 0, 1) };
    const struct ctr_dev_pool_grad grad = { .how = CTR_POOL_FM,
                                            .lists = lists_of(&m->of_fields, 0, d->rows, NULL),
                                            .group_start = ctr_vec(m->of_fields.index, entries + 1),
                                            .group_item = ctr_vec(m->of_fields.index, entries),
                                            .rows = ctr_mat(m->z, entries, d->width),
                                            .out = ctr_mat(m->y, d->rows, d->width),
                                            .dout = dy,
                                            .grad = ctr_mat(m->dz, entries, d->width) };
    const struct ctr_dev_copy keys = { of_keys(d, m->dz, 0, d->rows),
                                       ctr_mat_cols(ctr_mat(d->dx, d->rows, ctr_deep_dx_cols(d)), 0, d->pooled_cols) };
    int rc = ctr_dev_act_grad(d->dev, &bias, err);
    if (!rc)
        rc = ctr_dev_copy(d->dev, &down, err);
    if (!rc)
        rc = ctr_dev_pool_grad(d->dev, &grad, err);
    if (!rc)
        rc = ctr_dev_copy(d->dev, &keys, err);
    if (!rc && d->dense && d->explains)
        rc = explain_numbers(d, m, err);
    return rc || !d->dense ? rc : numbers_gradient(d, m, err);
}

static void fm_free(struct ctr_deep *d)
{
    struct fm *m = d->state;
    struct ctr_mem *mems[] = { m->of_fields.start,
                               m->of_fields.index,
                               m->of_fields.segment,
                               m->of_numbers.start,
                               m->of_numbers.index,
                               m->of_numbers.segment,
                               m->x,
                               m->z,
                               m->dz,
                               m->y,
                               m->dy,
                               m->group_start,
                               m->group_item,
                               m->t,
                               m->own,
                               m->square,
                               m->zero };
    for (size_t i = 0; i < CTR_COUNT(mems); i++)
        ctr_mem_free(mems[i]);
    free(m);
}

static const struct ctr_deep_spec fm_deep = {
    .extra = 1, /* w */
    .declare = fm_declare,
    .make_room = fm_make_room,
    .forward = fm_forward,
    .backward = fm_backward,
    .free = fm_free,
};

const struct ctr_model ctr_model_fm = {
    .name = "fm",
    .summary = "a factorization machine: all pairs of features, by Adam",
    .options = fm_options,
    .deep = &fm_deep,
    .gpu = true,
    CTR_DEEP_FUNCTIONS,
};
