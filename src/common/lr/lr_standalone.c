/* SPDX-License-Identifier: Apache-2.0 */
#include "common/lr/lr_standalone.h"

#include <stdlib.h>

/* ---- the order of keys ---- */

int ctr_lr_orders_init(struct ctr_lr_orders *o, int tables, struct ctr_err *err)
{
    ctr_lr_orders_free(o);
    o->of = calloc((size_t)tables + 1, sizeof *o->of);
    o->tables = o->of ? tables : 0;
    return o->of ? 0 : ctr_fail_nomem(err, ((size_t)tables + 1) * sizeof *o->of);
}

void ctr_lr_orders_forget(struct ctr_lr_orders *o)
{
    for (int t = 0; t < o->tables; t++) {
        ctr_buf_free(&o->of[t].place);
        o->of[t].made = false;
    }
}

void ctr_lr_orders_free(struct ctr_lr_orders *o)
{
    ctr_lr_orders_forget(o);
    free(o->of);
    *o = (struct ctr_lr_orders){ 0 };
}

struct making {
    struct ctr_lr_orders *o;
    const struct ctr_keys *keys; /* by table */
    ctr_lr_ordered *ordered;
    void *ctx;
    struct ctr_err *err; /* by table */
};

static int add_places(void *ctx, struct ctr_numbered *e, uint64_t n, struct ctr_err *err)
{
    return ctr_buf_append(ctx, e, n * sizeof *e, err);
}

static void make_order(void *ctx, int64_t table, int worker)
{
    const struct making *p = ctx;
    const struct ctr_keys *keys = &p->keys[table];
    struct ctr_lr_order *own = &p->o->of[table];
    struct ctr_err *err = &p->err[table];
    (void)worker;
    if (own->made)
        return;
    ctr_buf_clear(&own->place);
    int rc = ctr_buf_reserve(&own->place, keys->learned * sizeof(struct ctr_numbered), err);
    if (!rc)
        rc = ctr_keys_sorted(keys, add_places, &own->place, err);
    uint64_t n;
    struct ctr_numbered *place = ctr_lr_order_of(p->o, (int)table, &n);
    own->made = !rc && !p->ordered(p->ctx, (int)table, place, n, err);
}

int ctr_lr_orders_make(struct ctr_lr_orders *o, struct lr *keys, struct ctr_pool *pool, ctr_lr_ordered *ordered,
                       void *ctx, struct ctr_err *err)
{
    const size_t bytes = ((size_t)o->tables + 1) * sizeof *err;
    struct making p = { o, keys->table, ordered, ctx, calloc(1, bytes) };
    if (!p.err)
        return ctr_fail_nomem(err, bytes);
    ctr_lr_hold_finders(keys);
    ctr_pool_run(pool, o->tables, make_order, &p);
    ctr_lr_release_finders(keys);
    int rc = 0;
    for (int t = 0; t < o->tables && !rc; t++)
        if (p.err[t].code) {
            *err = p.err[t];
            rc = err->code;
        }
    free(p.err);
    return rc;
}

/* ---- a model ---- */

int ctr_lr_standalone_new(const struct ctr_variants *vs, int i, struct lr **one, struct ctr_err *err)
{
    struct ctr_params p = vs->v[i].params;
    void *learner = NULL;
    p.lr.poisson = 0;
    p.lr.bloom = 0;
    p.variants = NULL;
    int rc = ctr_lr_new(&learner, &ctr_model_lr, &p, err);
    *one = learner;
    return rc;
}

int ctr_lr_standalone_file(const struct ctr_variants *vs, int i, const struct ctr_strs *names,
                           const struct ctr_learning *as, struct lr **one, struct ctr_err *err)
{
    struct lr *m;
    int rc = ctr_lr_standalone_new(vs, i, &m, err);
    if (!rc)
        rc = ctr_lr_bind(m, names, err);
    if (!rc) {
        const size_t tables = (size_t)m->tables + 1;
        m->saved.sorted_as = as;
        if (!(m->saved.sorted = calloc(tables, sizeof *m->saved.sorted)))
            rc = ctr_fail_nomem(err, tables * sizeof *m->saved.sorted);
    }
    if (rc) {
        ctr_lr_free(m);
        m = NULL;
    }
    *one = m;
    return rc;
}
