/* SPDX-License-Identifier: Apache-2.0
 *
 * A network of two stacks of dense layers, one upon the other, each with names of its own: its gradients are finite
 * differences of its forward pass, and stacks draw different units to drop. */
#include <math.h>
#include <stdlib.h>

#include "common/deep/deep_stack.h"

#include "tap.h"

enum { ROWS = 24, IN = 6, MIDDLE = 3, OUT = 2 };

/* What a test says of both stacks. */
static struct {
    const char *activation;
    bool batch_norm;
    double dropout;
} kind;

struct net {
    struct ctr_stack below, above;
    struct ctr_mem *y, *dy, *dmiddle, *dx;
};

static int net_declare(struct ctr_deep *d, struct ctr_err *err)
{
    struct net *n = calloc(1, sizeof *n);
    const struct ctr_stack_shape below = { "below.",        { 2, { 5, MIDDLE } }, d->x_cols,   0,
                                           kind.activation, kind.batch_norm,      kind.dropout };
    const struct ctr_stack_shape above = { "above.",        { 1, { 4 } },    MIDDLE,      OUT,
                                           kind.activation, kind.batch_norm, kind.dropout };
    if (!n)
        return ctr_fail_nomem(err, sizeof *n);
    d->state = n;
    int rc = ctr_stack_declare(d, &n->below, &below, err);
    if (!rc)
        rc = ctr_stack_declare(d, &n->above, &above, err);
    if (!rc)
        rc = ctr_stack_declare_running(d, &n->below, err);
    return rc ? rc : ctr_stack_declare_running(d, &n->above, err);
}

static int net_make_room(struct ctr_deep *d, int64_t room, struct ctr_err *err)
{
    struct net *n = d->state;
    int rc = ctr_stack_room(d, &n->below, room, err);
    return rc ? rc : ctr_stack_room(d, &n->above, room, err);
}

static int net_forward(struct ctr_deep *d, int64_t from, int64_t rows, bool training, struct ctr_err *err)
{
    struct net *n = d->state;
    int rc = ctr_stack_forward(d, &n->below, ctr_mat_at(d->x, from * IN, rows, IN), from, training,
                               (struct ctr_mat){ 0 }, err);
    return rc ? rc
              : ctr_stack_forward(d, &n->above, ctr_stack_out(&n->below, from, rows), from, training,
                                  ctr_mat_at(n->y, from * OUT, rows, OUT), err);
}

static int net_backward(struct ctr_deep *d, struct ctr_err *err)
{
    struct net *n = d->state;
    const struct ctr_mat middle = ctr_mat(n->dmiddle, ROWS, MIDDLE);
    int rc =
        ctr_stack_backward(d, &n->above, ctr_stack_out(&n->below, 0, ROWS), ctr_mat(n->dy, ROWS, OUT), middle, err);
    return rc ? rc : ctr_stack_backward(d, &n->below, ctr_mat(d->x, ROWS, IN), middle, ctr_mat(n->dx, ROWS, IN), err);
}

static void net_free(struct ctr_deep *d)
{
    struct net *n = d->state;
    struct ctr_mem *mems[] = { n->y, n->dy, n->dmiddle, n->dx };
    for (size_t i = 0; i < CTR_COUNT(mems); i++)
        ctr_mem_free(mems[i]);
    ctr_stack_free(&n->below);
    ctr_stack_free(&n->above);
    free(n);
}

static const struct ctr_deep_spec spec = { net_declare, net_make_room, net_forward, net_backward, net_free };
static const struct ctr_model model = { .name = "net", .deep = &spec };

static double random_value(uint64_t stream, int64_t i)
{
    return 2 * ctr_random01(11, stream, (uint64_t)i) - 1;
}

static int open_net(struct ctr_deep *d, struct ctr_err *err)
{
    struct ctr_params p = ctr_params_usual(ctr_model_find("mlp"));
    struct ctr_deep_input *input = calloc(1, sizeof *input);
    p.minibatch = ROWS;
    p.seed = 3;
    if (!input)
        return ctr_fail_nomem(err, sizeof *input);
    *input = (struct ctr_deep_input){ .dense = IN, .table_at = -1 };
    int rc = ctr_strdup(&input->name, "x", err);
    if (!rc)
        rc = ctr_deep_open(d, &model, &p, 1, true, err);
    if (!rc)
        rc = ctr_deep_shape(d, input, 1, err);
    struct net *n = d->state;
    if (!rc)
        rc = ctr_deep_room(d, ROWS, err);
    if (!rc)
        rc = ctr_mem_new(&n->y, d->dev, sizeof(float) * ROWS * OUT, err);
    if (!rc)
        rc = ctr_mem_new(&n->dy, d->dev, sizeof(float) * ROWS * OUT, err);
    if (!rc)
        rc = ctr_mem_new(&n->dmiddle, d->dev, sizeof(float) * ROWS * MIDDLE, err);
    if (!rc)
        rc = ctr_mem_new(&n->dx, d->dev, sizeof(float) * ROWS * IN, err);
    for (int64_t i = 0; i < ROWS * IN && !rc; i++)
        ((float *)ctr_mem_host(d->x))[i] = (float)random_value(1, i);
    for (int i = 0; i < d->params && !rc; i++) /* no unit stands where its activation has a kink */
        for (int64_t j = 0; j < d->param[i].cols && d->param[i].vector && !d->param[i].state; j++)
            ((float *)ctr_mem_host(d->w))[d->param[i].at + j] += 0.1F * (float)random_value(3 + (uint64_t)i, j);
    return rc;
}

/* The sum of outputs, each times a number of its own. */
static double loss(struct ctr_deep *d, int *rc, struct ctr_err *err)
{
    const struct net *n = d->state;
    const float *y = ctr_mem_host(n->y);
    double sum = 0;
    if (!*rc)
        *rc = net_forward(d, 0, ROWS, true, err);
    for (int64_t i = 0; i < ROWS * OUT && !*rc; i++)
        sum += random_value(2, i) * (double)y[i];
    return sum;
}

static double difference(struct ctr_deep *d, float *at, float h, int *rc, struct ctr_err *err)
{
    const float was = *at;
    *at = was + h;
    const double up = loss(d, rc, err);
    *at = was - h;
    const double down = loss(d, rc, err);
    *at = was;
    return (up - down) / (2 * (double)h);
}

/* How many of n derivatives by `at` are not those of differences. A step may cross the kink of a unit; of two sizes,
 * one does not. */
static int wrong(struct ctr_deep *d, float *at, const float *g, int64_t n, int *rc, struct ctr_err *err)
{
    static const float step[2] = { 0x1p-13F, 0x1p-9F };
    int bad = 0;
    for (int64_t i = 0; i < n && !*rc; i++) {
        bool near = false;
        for (int k = 0; k < 2 && !near && !*rc; k++) {
            const double want = difference(d, at + i, step[k], rc, err);
            near = fabs(want - (double)g[i]) <= 0.01 + 0.02 * fabs(want);
        }
        bad += !near;
    }
    return bad;
}

static void test_gradients(const char *activation, bool batch_norm, double dropout)
{
    struct ctr_deep d = { 0 };
    struct ctr_err err = { 0 };
    kind.activation = activation;
    kind.batch_norm = batch_norm;
    kind.dropout = dropout;
    int rc = open_net(&d, &err);
    struct net *n = d.state;
    (void)loss(&d, &rc, &err);
    for (int64_t i = 0; i < ROWS * OUT && !rc; i++)
        ((float *)ctr_mem_host(n->dy))[i] = (float)random_value(2, i);
    if (!rc)
        rc = net_backward(&d, &err);
    int bad = 0, names = 0;
    double sum = 0;
    for (int i = 0; i < d.params && !rc; i++) {
        const struct ctr_deep_param *p = &d.param[i];
        names += !strncmp(p->name, "below.", 6) || !strncmp(p->name, "above.", 6);
        if (p->state)
            continue;
        const float *g = (const float *)ctr_mem_host(d.g) + p->at;
        bad += wrong(&d, (float *)ctr_mem_host(d.w) + p->at, g, p->rows * p->cols, &rc, &err);
        for (int64_t j = 0; j < p->rows * p->cols; j++)
            sum += fabs((double)g[j]);
    }
    if (!rc)
        bad += wrong(&d, ctr_mem_host(d.x), ctr_mem_host(n->dx), ROWS * IN, &rc, &err);
    ok(!rc && !bad && sum > 1 && names == d.params, "%s%s%s: gradients of two stacks (%d wrong) %s", activation,
       batch_norm ? ", batch normalization" : "", dropout > 0 ? ", dropout" : "", bad, err.what);
    ctr_deep_free(&d);
}

int main(void)
{
    test_gradients("prelu", false, 0);
    test_gradients("relu", false, 0);
    test_gradients("dice", false, 0);
    test_gradients("prelu", true, 0);
    test_gradients("dice", true, .25);
    return done_testing();
}
