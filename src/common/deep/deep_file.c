/* SPDX-License-Identifier: Apache-2.0
 *
 * Deep models in a file: a bundle. The main section lists the model's parts: inputs, tables, parameters and, if columns
 * have such metadata, history relations, groups of aligned lists, and sides. Then follow one section per table,
 * emb.TABLE (key, value, the optimizer's m and v; count with l2), sorted by key, and one per parameter, MODEL.0.weight
 * (row, value, m, v). A value is a fixed_size_list<float32> with the learner's bits. Prediction reads only key, row and
 * value. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/compute/comm.h"
#include "common/deep/deep.h"

enum kind { KEY, KEYS, IMAGE, IMAGES, NUMBERS, TABLE, PARAMETER, KINDS };
static const char *const kinds[KINDS] = { "key", "keys", "image", "images", "numbers", "table", "parameter" };

const char *const ctr_deep_states[CTR_DEEP_STATES] = { "m", "v" };

/* ---- names of sections ---- */

/* Commas join lists of names, so within a name a comma is written %2C, and % as %25. */
static int table_section(const char *table, struct ctr_buf *out, struct ctr_err *err)
{
    int rc = ctr_buf_printf(out, err, "emb.");
    for (; *table && !rc; table++)
        rc = *table == ',' || *table == '%' ? ctr_buf_printf(out, err, "%%%02X", *table)
                                            : ctr_buf_append(out, table, 1, err);
    return rc ? rc : ctr_buf_printf(out, err, "%s", "");
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct ctr_deep_table *const *)a)->name, (*(const struct ctr_deep_table *const *)b)->name);
}

/* Tables sorted by name, so that the file does not depend on the order of their keys. */
static int sorted_tables(const struct ctr_deep_tables *all, const struct ctr_deep_table ***list, struct ctr_err *err)
{
    *list = calloc((size_t)all->n + 1, sizeof **list);
    if (!*list)
        return ctr_fail_nomem(err, (size_t)all->n * sizeof **list);
    for (int i = 0; i < all->n; i++)
        (*list)[i] = &all->t[i];
    qsort((void *)*list, (size_t)all->n, sizeof **list, by_name);
    return 0;
}

int ctr_deep_section_names(const void *learner, const struct ctr_strs *tables, struct ctr_buf *names,
                           struct ctr_err *err)
{
    const struct ctr_deep_learner *l = learner;
    const struct ctr_deep_table **list;
    int rc = sorted_tables(&l->tables, &list, err);
    (void)tables;
    if (rc)
        return rc;
    for (int i = 0; i < l->tables.n && !rc; i++) {
        rc = ctr_buf_append(names, ",", 1, err);
        if (!rc)
            rc = table_section(list[i]->name, names, err);
    }
    for (int i = 0; i < l->net.params && !rc; i++)
        rc = ctr_buf_printf(names, err, ",%s.%s", l->net.model->name, l->net.param[i].name);
    free((void *)list);
    return rc;
}

/* ---- the main section ---- */

const char *const ctr_deep_relations[CTR_DEEP_RELATIONS] = { "history_of", "history", "side" };

static bool has_relations(const struct ctr_deep *d)
{
    for (int i = 0; i < d->inputs; i++)
        if (d->input[i].history_of || d->input[i].group || d->input[i].side)
            return true;
    return false;
}

int ctr_deep_save_schema(const void *learner, struct ctr_schema *s, struct ctr_err *err)
{
    static const struct {
        const char *name;
        enum ctr_type type;
    } columns[] = {
        { "name", CTR_UTF8 }, { "kind", CTR_UTF8 }, { "table", CTR_UTF8 }, { "rows", CTR_I64 }, { "cols", CTR_I32 }
    };
    const struct ctr_deep_learner *l = learner;
    char clock[64];
    int rc = 0;
    for (size_t i = 0; i < CTR_COUNT(columns) && !rc; i++)
        rc = ctr_schema_add(s, columns[i].name, columns[i].type, err);
    for (size_t i = 0; i < CTR_COUNT(ctr_deep_relations) && !rc && has_relations(&l->net); i++)
        rc = ctr_schema_add(s, ctr_deep_relations[i], CTR_UTF8, err);
    snprintf(clock, sizeof clock, "%" PRId64 " %" PRId64 "%s", l->net.step, l->learned_rows,
             l->tables.counted ? " 1" : "");
    if (!rc)
        rc = ctr_meta_set(&s->meta, CTR_META_SHAPE, "none", err);
    return rc ? rc : ctr_meta_set(&s->meta, CTR_META_MODEL_CLOCK, clock, err);
}

/* A row, with the metadata columns of an input; `in` NULL: it is not an input. */
static int put_part(struct ctr_batchbuf *b, const struct ctr_deep_input *in, const char *name, enum kind kind,
                    const char *table, int64_t rows, int64_t cols, struct ctr_err *err)
{
    const char *relations[] = { in ? in->history_of : NULL, in ? in->group : NULL, in ? in->side : NULL };
    struct ctr_append a = { b->col, err, 0 };
    ctr_append_text(&a, name);
    ctr_append_text(&a, kinds[kind]);
    ctr_append_text(&a, table);
    ctr_append_i64(&a, true, rows);
    ctr_append_i64(&a, true, cols);
    for (int i = 0; a.next < b->col + b->schema->n; i++)
        ctr_append_text(&a, relations[i]);
    return a.rc;
}

int ctr_deep_save(void *learner, const struct ctr_strs *tables, struct ctr_writer *w, struct ctr_err *err)
{
    struct ctr_deep_learner *l = learner;
    const struct ctr_deep *d = &l->net;
    const struct ctr_deep_table **list;
    struct ctr_batchbuf b = { 0 };
    int rc = ctr_deep_settle(l, err);
    (void)tables;
    if (!rc)
        rc = sorted_tables(&l->tables, &list, err);
    if (rc)
        return rc;
    rc = ctr_batchbuf_init(&b, ctr_writer_schema(w), err);
    for (int i = 0; i < d->inputs && !rc; i++) {
        const struct ctr_deep_input *in = &d->input[i];
        rc = put_part(&b, in, in->name,
                      !in->table  ? NUMBERS
                      : in->image ? (in->list ? IMAGES : IMAGE)
                      : in->list  ? KEYS
                                  : KEY,
                      in->table, 0, in->table ? in->cols : in->dense, err);
    }
    if (!rc)
        rc = ctr_deep_ranks_count(l, err);
    l->ranks.keys = 0;
    for (int i = 0; i < l->tables.n && !rc; i++) {
        int64_t rows = ctr_deep_source_rows(d, (int)(list[i] - l->tables.t));
        rc = ctr_comm_sum_i64(d->p.comm, &rows, 1, err);
        l->ranks.keys += rows;
        if (!rc)
            rc = put_part(&b, NULL, list[i]->name, TABLE, list[i]->name, rows, d->width, err);
    }
    for (int i = 0; i < d->params && !rc; i++)
        rc = put_part(&b, NULL, d->param[i].name, PARAMETER, NULL, d->param[i].rows, d->param[i].cols, err);
    if (!rc)
        rc = ctr_writer_batch(w, ctr_batchbuf_view(&b), err);
    ctr_batchbuf_free(&b);
    free((void *)list);
    return rc;
}

/* ---- the others: rows of a number, a value, and state ---- */

enum { SAVE_ROWS = CTR_BATCH_ROWS, MAX_COLUMNS = 2 + CTR_DEEP_STATES + 1 };

struct saver {
    const char *section, *table;
    struct ctr_writer *w;
    struct ctr_schema schema;
    int32_t width;
    int lists; /* number of value and state columns */
    bool is_key, counts, vector;
    int64_t rows;
    void *number; /* u64 keys or i32 rows */
    float *value[1 + CTR_DEEP_STATES];
    uint32_t *count;
};

static int add_list(struct ctr_schema *s, const char *name, int32_t width, struct ctr_err *err)
{
    int rc = ctr_schema_add(s, name, CTR_FIXED, err);
    if (!rc) {
        s->f[s->n - 1].item = CTR_F32;
        s->f[s->n - 1].width = width;
    }
    return rc;
}

static int saver_open(struct saver *s, struct ctr_out *out, struct ctr_err *err)
{
    int rc = ctr_schema_add(&s->schema, s->is_key ? "key" : "row", s->is_key ? CTR_U64 : CTR_I32, err);
    for (int i = 0; i < s->lists && !rc; i++)
        rc = add_list(&s->schema, i ? ctr_deep_states[i - 1] : "value", s->width, err);
    if (!rc && s->counts)
        rc = ctr_schema_add(&s->schema, "count", CTR_U32, err);
    if (!rc)
        rc = ctr_meta_set(&s->schema.meta, CTR_META_SECTION, s->section, err);
    if (!rc && s->vector)
        rc = ctr_meta_set(&s->schema.meta, CTR_META_SHAPE, "vector", err);
    if (!rc && s->table)
        rc = ctr_meta_set(&s->schema.meta, CTR_META_TABLE, s->table, err);
    s->number = malloc(SAVE_ROWS * sizeof(uint64_t));
    s->count = malloc(SAVE_ROWS * sizeof *s->count);
    bool whole = s->number && s->count;
    for (int i = 0; i < s->lists; i++)
        whole &= (s->value[i] = malloc((size_t)SAVE_ROWS * (size_t)s->width * sizeof(float))) != NULL;
    if (!rc && !whole)
        rc = ctr_fail_nomem(err, (size_t)SAVE_ROWS * (size_t)s->width * sizeof(float));
    return rc ? rc : ctr_writer_open(&s->w, out, &s->schema, NULL, err);
}

static int saver_flush(struct saver *s, struct ctr_err *err)
{
    struct ctr_col item[1 + CTR_DEEP_STATES], col[MAX_COLUMNS];
    int n = 0;
    if (!s->rows)
        return 0;
    col[n++] = (struct ctr_col){ .type = s->is_key ? CTR_U64 : CTR_I32, .rows = s->rows, .data = s->number };
    for (int i = 0; i < s->lists; i++) {
        item[i] = (struct ctr_col){ .type = CTR_F32, .rows = s->rows * s->width, .data = s->value[i] };
        col[n++] = (struct ctr_col){ .type = CTR_FIXED, .rows = s->rows, .item = &item[i] };
    }
    if (s->counts)
        col[n++] = (struct ctr_col){ .type = CTR_U32, .rows = s->rows, .data = s->count };
    const struct ctr_batch b = { ctr_writer_schema(s->w), s->rows, 0, col };
    s->rows = 0;
    return ctr_writer_batch(s->w, &b, err);
}

/* `value`: the value, then its state, at a distance of `stride` floats each. */
static int saver_row(struct saver *s, uint64_t number, const float *value, int64_t stride, struct ctr_err *err)
{
    if (s->is_key)
        ((uint64_t *)s->number)[s->rows] = number;
    else
        ((int32_t *)s->number)[s->rows] = (int32_t)number;
    for (int i = 0; i < s->lists; i++) {
        const float *from = value + i * stride;
        for (int32_t j = 0; j < s->width; j++)
            if (!(fabsf(from[j]) < INFINITY))
                return ctr_fail(err, CTR_EDATA,
                                "%s: the %s of %s %" PRIu64 " is infinite or not a number: the learner diverged; scale "
                                "numbers down, or lower --rate",
                                s->section, i ? "state" : "value", s->is_key ? "key" : "row", number);
        memcpy(s->value[i] + s->rows * s->width, from, (size_t)s->width * sizeof *from);
    }
    return ++s->rows == SAVE_ROWS ? saver_flush(s, err) : 0;
}

/* Close after the last row, or after an error; frees it. */
static int saver_close(struct saver *s, int rc, struct ctr_err *err)
{
    if (!rc)
        rc = saver_flush(s, err);
    if (!rc)
        rc = ctr_writer_finish(s->w, err);
    ctr_writer_free(s->w);
    ctr_schema_free(&s->schema);
    free(s->number);
    free(s->count);
    for (int i = 0; i < s->lists; i++)
        free(s->value[i]);
    return rc;
}

static int saver_key(void *ctx, uint64_t key, const float *row, struct ctr_err *err)
{
    struct saver *s = ctx;
    if (s->counts)
        memcpy(&s->count[s->rows], row + (int64_t)s->lists * s->width, sizeof *s->count);
    return saver_row(s, key, row, s->width, err);
}

static int save_table(const struct ctr_deep_learner *l, const struct ctr_deep_table *t, struct ctr_out *out,
                      struct ctr_err *err)
{
    struct ctr_buf name = { 0 };
    int rc = table_section(t->name, &name, err);
    struct saver s = { .section = (const char *)name.data,
                       .table = t->name,
                       .width = l->net.width,
                       .lists = 1 + CTR_DEEP_STATES,
                       .is_key = true,
                       .counts = l->tables.counts };
    if (!rc)
        rc = saver_open(&s, out, err);
    if (!rc)
        rc = ctr_source_save(l->net.vectors.source, (int)(t - l->tables.t), saver_key, &s, err);
    rc = saver_close(&s, rc, err);
    ctr_buf_free(&name);
    return rc;
}

/* Read the arena, then both states of the learned parameters, to the host. */
static int read_arena(const struct ctr_deep *d, float **to, struct ctr_err *err)
{
    const size_t n = (size_t)d->floats, learned = (size_t)d->learned * sizeof **to;
    *to = calloc(n * (1 + CTR_DEEP_STATES) + 1, sizeof **to);
    if (!*to)
        return ctr_fail_nomem(err, n * (1 + CTR_DEEP_STATES) * sizeof **to);
    int rc = ctr_mem_read(d->w, 0, *to, n * sizeof **to, err);
    if (!rc)
        rc = ctr_mem_read(d->s1, 0, *to + n, learned, err);
    if (!rc)
        rc = ctr_mem_read(d->s2, 0, *to + 2 * n, learned, err);
    return rc;
}

static int save_param(const struct ctr_deep *d, const struct ctr_deep_param *p, const float *arena, struct ctr_out *out,
                      struct ctr_err *err)
{
    struct ctr_buf name = { 0 };
    int rc = ctr_buf_printf(&name, err, "%s.%s", d->model->name, p->name);
    struct saver s = { .section = (const char *)name.data,
                       .width = (int32_t)p->cols,
                       .vector = p->vector,
                       .lists = p->state ? 1 : 1 + CTR_DEEP_STATES };
    if (!rc)
        rc = saver_open(&s, out, err);
    for (int64_t i = 0; i < p->rows && !rc; i++)
        rc = saver_row(&s, (uint64_t)i, arena + p->at + i * p->cols, d->floats, err);
    rc = saver_close(&s, rc, err);
    ctr_buf_free(&name);
    return rc;
}

int ctr_deep_save_sections(void *learner, const struct ctr_strs *tables, struct ctr_out *out, struct ctr_err *err)
{
    struct ctr_deep_learner *l = learner;
    const struct ctr_deep_table **list;
    float *arena = NULL;
    int rc = sorted_tables(&l->tables, &list, err);
    (void)tables;
    if (rc)
        return rc;
    for (int i = 0; i < l->tables.n && !rc; i++)
        rc = save_table(l, list[i], out, err);
    if (!rc)
        rc = read_arena(&l->net, &arena, err);
    for (int i = 0; i < l->net.params && !rc; i++)
        rc = save_param(&l->net, &l->net.param[i], arena, out, err);
    free(arena);
    free((void *)list);
    return rc;
}
