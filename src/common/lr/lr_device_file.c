/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of lr on a device equal those of lr with f32: lr_file.c writes them from the tables here. */
#include <math.h>
#include <stdlib.h>

#include "common/compute/element.h"
#include "common/lr/lr_device.h"

enum { W = CTR_LR_DEVICE_W, Z = CTR_LR_DEVICE_Z, N = CTR_LR_DEVICE_N, FLOATS = CTR_LR_DEVICE_FLOATS };

/* ---- saving: a learner of lr that has no rows but shows those of the tables, 16 bytes a key ---- */

struct places {
    struct ctr_sparse_numbered *place;
    uint64_t n;
    const float *base;
};

static int add_place(void *ctx, uint64_t key, const float *row, struct ctr_err *err)
{
    struct places *p = ctx;
    (void)err;
    p->place[p->n++] = (struct ctr_sparse_numbered){ key, (uint64_t)(row - p->base) / FLOATS };
    return 0;
}

static int show_tables(struct ctr_lr_device *l, struct lr *m, struct ctr_err *err)
{
    uint64_t keys = 0;
    for (int t = 0; t < l->tables; t++)
        keys += l->table[t].used;
    ctr_buf_clear(&l->places);
    int rc = ctr_buf_reserve(&l->places, keys * sizeof(struct ctr_sparse_numbered), err);
    if (!rc && !(m->sorted = calloc((size_t)l->tables, sizeof *m->sorted)))
        rc = ctr_fail_nomem(err, (size_t)l->tables * sizeof *m->sorted);
    m->sorted_as = &l->learning;
    struct ctr_sparse_numbered *place = (struct ctr_sparse_numbered *)(void *)l->places.data;
    for (int t = 1; t < l->tables && !rc; t++) {
        const struct ctr_embedding *rows = &l->table[t];
        struct places p = { place, 0, ctr_embedding_row(rows, 0) };
        rc = rows->used ? ctr_embedding_sorted(rows, add_place, &p, err) : 0;
        m->sorted[t - 1] = (struct ctr_lr_sorted){ place, p.n, rows->area.base, FLOATS * sizeof(float) };
        place += p.n;
    }
    return rc;
}

static void end_file(struct ctr_lr_device *l)
{
    ctr_lr_free(l->file);
    ctr_buf_free(&l->places);
    l->file = NULL;
}

static int begin_file(struct ctr_lr_device *l, struct ctr_err *err)
{
    struct ctr_params p = l->p;
    void *m = NULL;
    p.minibatch = 1; /* it does not learn */
    end_file(l);
    int rc = ctr_source_settle(l->source, err);
    if (!rc)
        rc = ctr_lr_new(&m, &ctr_model_lr, &p, err);
    l->file = m;
    if (!rc)
        rc = ctr_lr_device_bind(l, l->names->n, err);
    if (!rc)
        rc = ctr_lr_bind(m, l->names, err);
    if (!rc && l->table[0].used) {
        const float *bias = ctr_embedding_row(&l->table[0], 0);
        const struct ctr_state s = { .value = (double)bias[Z], .n = (double)bias[N] };
        ctr_state_write(&l->file->learning, &l->file->more.event, &s, l->file->bias);
    }
    return rc ? rc : show_tables(l, m, err);
}

int ctr_lr_device_save_schema(const void *learner, struct ctr_schema *s, struct ctr_err *err)
{
    struct ctr_lr_device *l = (struct ctr_lr_device *)(uintptr_t)learner;
    int rc = begin_file(l, err);
    return rc ? rc : ctr_lr_save_schema(l->file, s, err);
}

int ctr_lr_device_save(void *learner, const struct ctr_strs *tables, struct ctr_writer *w, struct ctr_err *err)
{
    struct ctr_lr_device *l = learner;
    int rc = ctr_lr_save(l->file, tables, w, err);
    end_file(l);
    return rc;
}

/* ---- loading ---- */

static int check_frame(const struct ctr_schema *s, struct ctr_err *err)
{
    const char *text = ctr_meta_get(&s->meta, CTR_META_MODEL_OPTIONS);
    struct ctr_params p;
    int rc = ctr_params_parse(&ctr_model_lr, &p, text ? text : "", err);
    if (!rc && (strcmp(p.optimizer, "ftrl") != 0 || strcmp(p.learning_rate, "per-coordinate") != 0))
        rc = ctr_fail(
            err, CTR_EUSAGE,
            "the model was learned with --optimizer %s --learning-rate %s, which lr on a GPU does not go on from",
            p.optimizer, p.learning_rate);
    return rc;
}

/* Insert the row of a key, or set *duplicate if it exists; computes its weight as the device does. */
static int put_state(struct ctr_lr_device *l, int table, uint64_t key, const struct ctr_state *s, bool *duplicate,
                     struct ctr_err *err)
{
    const struct ctr_opt_step step = ctr_opt_step_of(&l->opt);
    const float z = (float)s->value, n = (float)s->n;
    uint32_t at = 0;
    int rc = ctr_lr_device_bind(l, table, err);
    struct ctr_embedding *rows = &l->table[table];
    if (!rc && table)
        rc = ctr_embedding_reserve(rows, 1, err);
    if (rc || (!table && !rows->used))
        return rc;
    if (table) {
        const int64_t before = rows->used;
        ctr_embedding_get(rows, &(uint64_t){ ctr_sparse_hash(key) }, 1, &at);
        *duplicate = rows->used == before;
    }
    float *row = ctr_embedding_row(rows, at);
    row[W] = ctr_e_ftrl_weight(&step, step.l2, z, sqrtf(n));
    row[Z] = z;
    row[N] = n;
    return 0;
}

static int load_batch(struct ctr_lr_device *l, struct ctr_strs *tables, struct ctr_lr_table *cache,
                      const struct ctr_batch *b, struct ctr_err *err)
{
    struct ctr_lr_columns c;
    int rc = ctr_lr_find_columns(b, &c, err);
    const char *missing = rc ? NULL : ctr_lr_missing(&c, &l->learning);
    if (missing)
        rc = ctr_fail(err, CTR_EDATA, "the model has no column '%s': it can predict but not learn on", missing);
    for (int64_t i = 0; i < b->rows && !rc; i++) {
        struct ctr_state s;
        ctr_lr_state(&c, &l->learning, i, &s);
        if (!(fabsf((float)s.value) < INFINITY && s.n >= 0 && (float)s.n < INFINITY))
            return ctr_fail(err, CTR_EDATA, "row %lld of the model: z or n is damaged",
                            (long long)(b->first_row + i + 1));
        rc = ctr_lr_find_table(cache, ctr_col_str(c.table, i), tables, err);
        bool duplicate = cache->table < 0 && cache->bias;
        if (!rc)
            rc = put_state(l, cache->table + 1, ((const uint64_t *)c.key->data)[i], &s, &duplicate, err);
        if (!rc && duplicate)
            rc = ctr_lr_duplicate_key(b, i, err);
        cache->bias |= cache->table < 0;
    }
    return rc;
}

int ctr_lr_device_load(void *learner, struct ctr_strs *tables, struct ctr_reader *r, struct ctr_err *err)
{
    struct ctr_lr_table cache = { .table = 0 };
    const struct ctr_batch *b;
    int rc = check_frame(ctr_reader_schema(r), err);
    while (!rc && (rc = ctr_reader_next(r, &b, err)) > 0)
        rc = load_batch(learner, tables, &cache, b, err);
    return rc;
}
