/* SPDX-License-Identifier: Apache-2.0
 *
 * Variants of lr as files: each model as if trained alone, and checkpoints, which hold a section of lr per variant. See
 * lr_variants.c. */
#include <stdio.h>

#include "common/lr/lr_variants.h"

/* ---- each model alone: for files ---- */

static int digest_table(void *ctx, int table, struct ctr_numbered *place, uint64_t n, struct ctr_err *err)
{
    (void)err;
    ctr_lr_x8_digest(ctx, table, place, n);
    return 0;
}

/* Compute the order of all keys, and the digests, which are computed for eight variants at once. */
static int variant_set_prepare(void *learner, struct ctr_pool *pool, struct ctr_err *err)
{
    struct variant_set *q = learner;
    return ctr_lr_orders_make(&q->orders, q->find, pool, digest_table, q, err);
}

/* Do the models of variants a and b have the same rows? */
static bool same_rows(const struct variant_set *q, int a, int b)
{
    bool same = q->v[a].one->no_bias == q->v[b].one->no_bias;
    for (int t = 0; t < q->tables && same; t++)
        same = (q->table[t].at[a] == CTR_LR_NONE) == (q->table[t].at[b] == CTR_LR_NONE);
    return same;
}

/* The lanes of an x8, if all its models have the same rows. */
static int variant_set_together(const void *learner, int i, int *models)
{
    const struct variant_set *q = learner;
    const struct x8 *e = q->v[i].x8 ? &q->x8[q->v[i].x8 - 1] : NULL;
    bool same = e;
    int n = 0;
    for (int k = 0; e && k < e->n; k++)
        same &= same_rows(q, i, e->variant[k]);
    models[n++] = i;
    for (int k = q->v[i].lane + 1; same && k < e->n && n < CTR_SAVE_TOGETHER; k++)
        models[n++] = e->variant[k];
    return same && q->v[i].lane % CTR_SAVE_TOGETHER ? 0 : n;
}

static struct ctr_lr_sorted sorted_table(const struct variant_set *q, int i, int table)
{
    const struct shared_table *t = &q->table[table];
    const struct ctr_states *states = ctr_lr_states_of(q->find, table);
    const uintptr_t base = (uintptr_t)states->area.base; /* NULL: no states */
    struct ctr_lr_sorted to = { .bytes = states->bytes, .digested = q->v[i].x8 ? &t->digest[i] : NULL };
    to.place = ctr_lr_order_of(&q->orders, table, &to.n);
    to.base = (const uint8_t *)(base + (uintptr_t)t->at[i]);
    return to;
}

/* Shared results, orders and digests, are kept in the learner until it learns again. */
static int variant_set_standalone(const void *learner, int i, const struct ctr_strs *names, void **out,
                                  struct ctr_err *err)
{
    struct variant_set *q = (struct variant_set *)(uintptr_t)learner;
    const struct variant *v = &q->v[i];
    struct ctr_lr_piece piece[CTR_LR_PIECES];
    struct lr *m = NULL;
    int rc = variant_set_prepare(q, NULL, err);
    if (!rc)
        rc = ctr_lr_standalone_file(q->vs, i, names, &v->one->learning, &m, err);
    *out = m;
    if (rc)
        return rc;
    for (int t = 0; t < q->tables; t++)
        if (q->table[t].at && q->table[t].at[i] != CTR_LR_NONE)
            m->saved.sorted[t] = sorted_table(q, i, t);
    ctr_lr_move_state(piece, ctr_lr_pieces(&v->one->learning, &m->learning, piece), v->bias, m->bias);
    m->more.event = v->one->more.event;
    return 0;
}

/* ---- checkpoints: a section of lr for each variant, the first one first ---- */

int ctr_lr_variants_save_schema(const void *learner, struct ctr_schema *s, struct ctr_err *err)
{
    const struct variant_set *q = learner;
    void *alone = NULL;
    int rc = variant_set_standalone(q, 0, q->names, &alone, err);
    if (rc)
        return rc;
    rc = ctr_lr_save_schema(alone, s, err);
    ctr_lr_free(alone);
    return rc ? rc : ctr_meta_set(&s->meta, CTR_META_VARIANTS, (const char *)q->vs->text.data, err);
}

int ctr_lr_variants_save(void *learner, const struct ctr_strs *tables, struct ctr_writer *w, struct ctr_err *err)
{
    void *alone = NULL;
    int rc = variant_set_standalone(learner, 0, tables, &alone, err);
    if (rc)
        return rc;
    rc = ctr_lr_save(alone, tables, w, err);
    ctr_lr_free(alone);
    return rc;
}

int ctr_lr_variants_section_names(const void *learner, const struct ctr_strs *tables, struct ctr_buf *names,
                                  struct ctr_err *err)
{
    const struct variant_set *q = learner;
    int rc = 0;
    (void)tables;
    for (int i = 1; i < q->n && !rc; i++)
        rc = ctr_buf_printf(names, err, ",lr.%s", q->vs->v[i].name);
    return rc;
}

static int save_section(const struct variant_set *q, int i, const struct ctr_strs *tables, struct ctr_out *out,
                        struct ctr_err *err)
{
    void *alone = NULL;
    struct ctr_schema schema = { 0 };
    struct ctr_writer *w = NULL;
    char name[CTR_MAX_VARIANT_NAME + 8];
    snprintf(name, sizeof name, "lr.%s", q->vs->v[i].name);
    int rc = variant_set_standalone(q, i, tables, &alone, err);
    if (!rc)
        rc = ctr_lr_save_schema(alone, &schema, err);
    if (!rc)
        rc = ctr_meta_set(&schema.meta, CTR_META_SECTION, name, err);
    if (!rc)
        rc = ctr_writer_open(&w, out, &schema, NULL, err);
    if (!rc)
        rc = ctr_lr_save(alone, tables, w, err);
    if (!rc)
        rc = ctr_writer_finish(w, err);
    ctr_writer_free(w);
    ctr_lr_free(alone);
    ctr_schema_free(&schema);
    return rc;
}

int ctr_lr_variants_save_sections(void *learner, const struct ctr_strs *tables, struct ctr_out *out,
                                  struct ctr_err *err)
{
    struct variant_set *q = learner;
    int rc = 0;
    for (int i = 1; i < q->n && !rc; i++)
        rc = save_section(q, i, tables, out, err);
    return rc;
}

/* --init: load a whole model for variant i. */
static int load_one(void *learner, int i, struct ctr_strs *tables, struct ctr_reader *r, struct ctr_err *err)
{
    struct variant_set *q = learner;
    int rc = ctr_lr_standalone_new(q->vs, i, &q->v[i].loaded, err);
    return rc ? rc : ctr_lr_load(q->v[i].loaded, tables, r, err);
}

/* Load a checkpoint of the same variants; checkpoint.c has compared them. */
int ctr_lr_variants_load(void *learner, struct ctr_strs *tables, struct ctr_reader *r, struct ctr_err *err)
{
    struct variant_set *q = learner;
    int rc = 0;
    for (int i = 0; i < q->n && !rc; i++) {
        rc = i ? ctr_reader_section(r, err) : 1;
        if (!rc)
            rc = ctr_fail(err, CTR_EDATA, "the checkpoint lacks the section of variant '%s'", q->vs->v[i].name);
        if (rc > 0)
            rc = ctr_lr_standalone_new(q->vs, i, &q->v[i].loaded, err);
        if (!rc)
            rc = ctr_lr_resume(q->v[i].loaded, tables, r, err);
    }
    return rc;
}

/* ---- what was saved ---- */

/* Values clipped to 16 bits, for the variants that have such values. */
static void cut_off_summary(const struct variant_set *q, struct ctr_say *text)
{
    int64_t values = 0;
    int cut = 0, all = 0;
    for (int i = 0; i < q->n; i++) {
        const struct lr *m = q->v[i].one;
        if (m->learning.precision != CTR_Q13_STATE)
            continue;
        values += m->more.event.clips;
        cut += m->more.event.clips > 0;
        all++;
    }
    if (all)
        ctr_say(text, "cut off to [-4, 4)   %lld values, of %d variants among %d with q2.13\n", (long long)values, cut,
                all);
}

void ctr_lr_variants_summary(const void *learner, struct ctr_say *text)
{
    const struct variant_set *q = learner;
    const int64_t keys = ctr_lr_variants_keys(q);
    const double bytes =
        keys ? (double)(ctr_lr_variants_memory(q) - ctr_inclusion_bytes(q->find->inclusion)) / (double)keys : 0;
    ctr_say(text, "bytes a key          %.1f, %.1f for each of %d variants\n", bytes, bytes / q->n, q->n);
    cut_off_summary(q, text);
    ctr_inclusion_summary(q->find->inclusion, keys, text);
}

int ctr_lr_variants_state(const void *learner, struct ctr_buf *words, struct ctr_err *err)
{
    const struct variant_set *q = learner;
    return q->find->inclusion ? ctr_inclusion_save(q->find->inclusion, words, err) : 0;
}

int ctr_lr_variants_restore(void *learner, const uint64_t *word, size_t words, struct ctr_err *err)
{
    struct variant_set *q = learner;
    if (q->find->inclusion)
        return ctr_inclusion_load(q->find->inclusion, word, words, err);
    return words ? ctr_fail(err, CTR_EDATA, "the checkpoint has a state that its options do not need") : 0;
}

const struct ctr_variant_ops ctr_lr_variant_ops = {
    .load = load_one,
    .standalone = variant_set_standalone,
    .prepare = variant_set_prepare,
    .together = variant_set_together,
    .save = ctr_lr_save_some,
    .model = &ctr_model_lr,
};
