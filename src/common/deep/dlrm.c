/* SPDX-License-Identifier: Apache-2.0
 *
 * dlrm: the Deep Learning Recommendation Model (Naumov et al., 2019, section 2.1; arXiv 1906.00091):
 *
 *     v_0 = bottom layers(numbers)                       `embedding` numbers
 *     logit = top layers([v_0 | <v_f, v_g> for all g < f])    v_1 … v_F: the fields, pooled
 *
 * Without numbers there is no v_0. The last bottom layer has the same activation as the others. */
#include <stdlib.h>

#include "common/deep/deep_options.h"
#include "common/deep/deep_stack.h"

static int read_bottom(void *params, const char *text, struct ctr_err *err)
{
    struct ctr_sizes *s = params;
    if (ctr_sizes_parse(s, text, strlen(text)) && s->n < CTR_MAX_LAYERS)
        return 0;
    return ctr_fail(err, CTR_EUSAGE, "--bottom wants at most %d sizes of layers such as 64,32, each 1 to %d, or 0",
                    CTR_MAX_LAYERS - 1, CTR_MAX_UNITS);
}

static const struct ctr_param dlrm_options[] = {
    CTR_DEEP_OPTIONS,
    CTR_DEEP_POOLING_OPTION,
    CTR_DEEP_STACK_OPTIONS("200,80"),
    { "bottom", CTR_PARAM_SIZES, CTR_PARAM_AT(deep.bottom), "64,32",
      .range = "1 to 7 sizes such as 64,32, each 1 to 65536, or 0 for none", .unit = "N,N,…", .group = CTR_GROUP_MODEL,
      .help = "units of each layer of the bottom network, before one of --embedding units", .read = read_bottom,
      .flags = CTR_PARAM_BASIC },
    { 0 },
};

struct dlrm {
    struct ctr_stack bottom, top;
    bool numbers;
    int64_t vectors, pairs, cols; /* per row; width of the top layers' input */
    struct ctr_mem *z, *dz;       /* [room x vectors * width] */
    struct ctr_mem *t, *dt;       /* [room x cols] */
    struct ctr_mem *dv;           /* [room x width]: of v_0 */
};

static int declare_bottom(struct ctr_deep *d, struct dlrm *m, struct ctr_err *err)
{
    struct ctr_stack_shape shape = { .prefix = "bottom.",
                                     .hidden = d->p.deep.bottom,
                                     .in = d->dense,
                                     .activation = d->p.deep.activation,
                                     .batch_norm = d->p.deep.batch_norm };
    if (shape.hidden.n == CTR_MAX_LAYERS)
        return ctr_fail(err, CTR_EUSAGE, "--bottom: at most %d layers are allowed", CTR_MAX_LAYERS - 1);
    shape.hidden.size[shape.hidden.n++] = d->width;
    return ctr_stack_declare(d, &m->bottom, &shape, err);
}

static int dlrm_declare(struct ctr_deep *d, struct ctr_err *err)
{
    struct dlrm *m = calloc(1, sizeof *m);
    if (!m)
        return ctr_fail_nomem(err, sizeof *m);
    d->state = m;
    for (int i = 0; i < d->inputs; i++)
        d->input[i].pooling = ctr_deep_pooling_of(d->p.deep.pooling);
    m->numbers = d->dense > 0;
    m->vectors = d->keys + m->numbers;
    m->pairs = m->vectors * (m->vectors - 1) / 2;
    m->cols = m->pairs + (m->numbers ? d->width : 0);
    if (m->vectors > CTR_MAX_DOT_FIELDS || !m->cols)
        return ctr_fail(err, CTR_EUSAGE, "dlrm takes 2 to %d features, the numbers being one of them; there %s %lld",
                        CTR_MAX_DOT_FIELDS, m->vectors == 1 ? "is" : "are", (long long)m->vectors);
    const struct ctr_stack_shape shape = ctr_stack_hidden(d, "", (int32_t)m->cols, 1);
    int rc = m->numbers ? declare_bottom(d, m, err) : 0;
    if (!rc)
        rc = ctr_stack_declare(d, &m->top, &shape, err);
    if (!rc && m->numbers)
        rc = ctr_stack_declare_running(d, &m->bottom, err);
    return rc ? rc : ctr_stack_declare_running(d, &m->top, err);
}

static int dlrm_make_room(struct ctr_deep *d, int64_t room, struct ctr_err *err)
{
    struct dlrm *m = d->state;
    const size_t v = (size_t)(room * d->width) * sizeof(float), z = v * (size_t)m->vectors;
    const size_t t = (size_t)(room * m->cols) * sizeof(float);
    struct {
        struct ctr_mem **mem;
        size_t bytes;
        bool wanted;
    } rooms[] = { { &m->z, z, true },
                  { &m->t, t, true },
                  { &m->dz, z, d->learns },
                  { &m->dt, t, d->learns },
                  { &m->dv, v, d->learns && m->numbers } };
    int rc = m->numbers ? ctr_stack_room(d, &m->bottom, room, err) : 0;
    if (!rc)
        rc = ctr_stack_room(d, &m->top, room, err);
    for (size_t i = 0; i < CTR_COUNT(rooms) && !rc; i++)
        if (rooms[i].wanted)
            rc = ctr_mem_grow(rooms[i].mem, d->dev, rooms[i].bytes, err);
    return rc;
}

/* Parts of rows [from, from + n): of z: v_0 and the fields; of t: v_0 and the products. */
static struct ctr_mat z_part(const struct ctr_deep *d, struct ctr_mem *z, int64_t from, int64_t n, bool of_fields)
{
    const struct dlrm *m = d->state;
    const int64_t cols = m->vectors * d->width, v0 = m->numbers ? d->width : 0;
    return ctr_mat_cols(ctr_mat_at(z, from * cols, n, cols), of_fields ? v0 : 0, of_fields ? cols - v0 : v0);
}

static struct ctr_mat t_part(const struct ctr_deep *d, struct ctr_mem *t, int64_t from, int64_t n, bool of_pairs)
{
    const struct dlrm *m = d->state;
    const int64_t v0 = m->numbers ? d->width : 0;
    return ctr_mat_cols(ctr_mat_at(t, from * m->cols, n, m->cols), of_pairs ? v0 : 0, of_pairs ? m->pairs : v0);
}

static struct ctr_mat numbers_of(const struct ctr_deep *d, int64_t from, int64_t n)
{
    return ctr_mat_cols(ctr_mat_at(d->x, from * d->x_cols, n, d->x_cols), (int64_t)d->keys * d->width, d->dense);
}

static int copy(struct ctr_deep *d, struct ctr_mat from, struct ctr_mat to, struct ctr_err *err)
{
    return ctr_dev_copy(d->dev, &(struct ctr_dev_copy){ from, to }, err);
}

static int dlrm_forward(struct ctr_deep *d, int64_t from, int64_t n, bool training, struct ctr_err *err)
{
    struct dlrm *m = d->state;
    const struct ctr_mat x = ctr_mat_at(d->x, from * d->x_cols, n, d->x_cols);
    const int64_t z_cols = m->vectors * d->width;
    int rc = copy(d, ctr_mat_cols(x, 0, (int64_t)d->keys * d->width), z_part(d, m->z, from, n, true), err);
    if (!rc && m->numbers)
        rc = ctr_stack_forward(d, &m->bottom, numbers_of(d, from, n), from, training, (struct ctr_mat){ 0 }, err);
    if (!rc && m->numbers)
        rc = copy(d, ctr_stack_out(&m->bottom, from, n), z_part(d, m->z, from, n, false), err);
    if (!rc && m->numbers)
        rc = copy(d, ctr_stack_out(&m->bottom, from, n), t_part(d, m->t, from, n, false), err);
    const struct ctr_dev_dots dots = { m->vectors, ctr_mat_at(m->z, from * z_cols, n, z_cols),
                                       t_part(d, m->t, from, n, true) };
    if (!rc)
        rc = ctr_dev_dots(d->dev, &dots, err);
    return rc ? rc
              : ctr_stack_forward(d, &m->top, ctr_mat_at(m->t, from * m->cols, n, m->cols), from, training,
                                  ctr_mat_at(d->logit, from, n, 1), err);
}

/* The gradient of the fields, or of the numbers. */
static struct ctr_mat dx_part(const struct ctr_deep *d, bool of_numbers)
{
    const struct ctr_mat dx = ctr_mat(d->dx, d->rows, ctr_deep_dx_cols(d));
    return of_numbers ? ctr_mat_cols(dx, d->pooled_cols, d->dense) : ctr_mat_cols(dx, 0, d->pooled_cols);
}

/* v_0 has gradients from the products and from the top layers. */
static int bottom_gradients(struct ctr_deep *d, struct dlrm *m, struct ctr_err *err)
{
    const struct ctr_mat dv = ctr_mat(m->dv, d->rows, d->width);
    const struct ctr_dev_axpby add = { 1, 1, z_part(d, m->dz, 0, d->rows, false), dv };
    int rc = copy(d, t_part(d, m->dt, 0, d->rows, false), dv, err);
    if (!rc)
        rc = ctr_dev_axpby(d->dev, &add, err);
    const struct ctr_mat dx = d->explains ? dx_part(d, true) : (struct ctr_mat){ 0 };
    return rc ? rc : ctr_stack_backward(d, &m->bottom, numbers_of(d, 0, d->rows), dv, dx, err);
}

static int dlrm_backward(struct ctr_deep *d, struct ctr_err *err)
{
    struct dlrm *m = d->state;
    const int64_t n = d->rows, z_cols = m->vectors * d->width;
    const struct ctr_dev_dots_grad dots = { m->vectors, ctr_mat(m->z, n, z_cols), t_part(d, m->dt, 0, n, true),
                                            ctr_mat(m->dz, n, z_cols) };
    int rc = ctr_stack_backward(d, &m->top, ctr_mat(m->t, n, m->cols), ctr_mat(d->dlogit, n, 1),
                                ctr_mat(m->dt, n, m->cols), err);
    if (!rc)
        rc = ctr_dev_dots_grad(d->dev, &dots, err);
    if (!rc)
        rc = copy(d, z_part(d, m->dz, 0, n, true), dx_part(d, false), err);
    return rc || !m->numbers ? rc : bottom_gradients(d, m, err);
}

static void dlrm_free(struct ctr_deep *d)
{
    struct dlrm *m = d->state;
    struct ctr_mem *mems[] = { m->z, m->dz, m->t, m->dt, m->dv };
    for (size_t i = 0; i < CTR_COUNT(mems); i++)
        ctr_mem_free(mems[i]);
    ctr_stack_free(&m->bottom);
    ctr_stack_free(&m->top);
    free(m);
}

static const struct ctr_deep_spec dlrm_deep = {
    .declare = dlrm_declare,
    .make_room = dlrm_make_room,
    .forward = dlrm_forward,
    .backward = dlrm_backward,
    .free = dlrm_free,
};

const struct ctr_model ctr_model_dlrm = {
    .name = "dlrm",
    .summary = "fully connected layers over inner products of fields, by Adam",
    .options = dlrm_options,
    .deep = &dlrm_deep,
    .gpu = true,
    CTR_DEEP_FUNCTIONS,
};
