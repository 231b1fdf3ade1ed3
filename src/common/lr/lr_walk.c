/* SPDX-License-Identifier: Apache-2.0
 *
 * Iterates over the weights of a model's section and, if requested, the learning rates of its keys. z and n are read
 * only if the weights are not those that training wrote. The file is read twice: the first pass counts, for table
 * sizes. */
#include <math.h>
#include <stdio.h>

#include "common/lr/lr.h"

/* Hashes of keys and table numbers of all rows; a run of equal names is looked up once. */
static int find_keys(struct ctr_lr_walk *w, const struct ctr_batch *b, struct ctr_err *err)
{
    struct ctr_lr_table cache = { .table = 0 };
    const struct ctr_col *names = w->c.table;
    ctr_buf_clear(&w->hash);
    ctr_buf_clear(&w->table);
    int rc = ctr_buf_reserve(&w->hash, (size_t)b->rows * sizeof(uint64_t), err);
    if (!rc)
        rc = ctr_buf_reserve(&w->table, (size_t)b->rows * sizeof(int), err);
    if (rc)
        return rc;
    ctr_keyhash_kernel_at((int)ctr_cpu_best())->hash(w->c.key->data, b->rows, (uint64_t *)(void *)w->hash.data);
    const int32_t *index = names->dict ? names->data : NULL;
    for (int64_t i = 0; i < b->rows && !rc; i++) {
        if (!index || !i || index[i] != index[i - 1])
            rc = ctr_lr_find_table(&cache, ctr_col_str(names, i), w->tables, err);
        ((int *)(void *)w->table.data)[i] = cache.table;
    }
    return rc;
}

/* Fail at a state, from which weights and rates follow, that is no number. */
static int check_state(const struct ctr_lr_walk *w, const struct ctr_lr_walked *r, struct ctr_err *err)
{
    static const int numbers[] = { CTR_LR_Z, CTR_LR_N, CTR_LR_LAST };
    for (size_t k = 0; k < CTR_COUNT(numbers); k++) {
        const struct ctr_col *col = w->c.number[numbers[k]];
        const double v = col ? ctr_col_f64(col, r->i) : 0;
        if (!(fabs(v) < INFINITY))
            return ctr_fail(
                err, CTR_EDATA,
                "section %s, row %lld, key %llu: %s is %s: train the model again, or remove the row (ctr-select "
                "--where)",
                w->info->model->name, (long long)(r->batch->first_row + r->i + 1),
                (unsigned long long)((const uint64_t *)w->c.key->data)[r->i], ctr_lr_number_names[numbers[k]],
                isnan(v) ? "NaN" : "infinite");
    }
    return 0;
}

/* Read weight and rate of row i, checking both. */
static int read_row(const struct ctr_lr_walk *w, struct ctr_lr_walked *r, struct ctr_err *err)
{
    const struct ctr_col *told = w->c.number[CTR_LR_WEIGHT];
    struct ctr_state state;
    int rc = w->derived || w->rates ? check_state(w, r, err) : 0;
    if (rc)
        return rc;
    if (w->derived || w->rates)
        ctr_lr_state(&w->c, &w->learning, r->i, &state);
    r->rate = w->rates ? (float)ctr_state_rate(&w->learning, &w->event, &state) : 0;
    if (!(r->rate >= 0 && r->rate < INFINITY))
        return ctr_fail(err, CTR_EDATA, "row %lld of the model: n is damaged, or --beta was 0",
                        (long long)(r->batch->first_row + r->i + 1));
    r->weight = w->derived ? ctr_state_weight(&w->learning, &w->event, &state) : ctr_col_f64(told, r->i);
    if (!(fabs(r->weight) < INFINITY))
        return ctr_fail(err, CTR_EDATA, "section %s, row %lld, key %llu: its weight is not a number",
                        w->info->model->name, (long long)(r->batch->first_row + r->i + 1),
                        (unsigned long long)((const uint64_t *)w->c.key->data)[r->i]);
    return 0;
}

/* Beyond rounding differences between versions: the first ones took the root of counts in double. */
static bool differs(double derived, double told)
{
    return !(fabs(derived - told) <= 1e-6 * fabs(derived));
}

static int walk_rows(struct ctr_lr_walk *w, const struct ctr_batch *b, struct ctr_err *err)
{
    const struct ctr_col *told = w->c.number[CTR_LR_WEIGHT];
    const uint64_t *key = w->c.key->data;
    struct ctr_lr_walked r = { .batch = b };
    int rc = 0;
    for (; r.i < b->rows && !rc; r.i++) {
        r.table = ctr_lr_walk_tables(w)[r.i];
        if ((rc = read_row(w, &r, err)))
            break;
        w->digest += ctr_lr_digest(key[r.i], r.weight);
        w->differ += !w->again && w->derived && told && differs(r.weight, ctr_col_f64(told, r.i));
        if (r.table < 0 && w->bias)
            return ctr_lr_duplicate_key(b, r.i, err);
        w->bias |= r.table < 0;
        rc = w->take(w->ctx, w, &r, err);
    }
    return rc;
}

static int walk_batch(struct ctr_lr_walk *w, const struct ctr_batch *b, struct ctr_err *err)
{
    int rc = ctr_lr_find_columns(b, &w->c, err);
    w->derived = !rc && w->derive && !ctr_lr_missing(&w->c, &w->learning);
    if (!rc && !w->derived && !w->c.number[CTR_LR_WEIGHT])
        rc = ctr_fail(err, CTR_EDATA, "the model has neither weight nor z and n");
    const char *missing = !rc && w->rates ? ctr_lr_rate_missing(&w->c, &w->learning) : NULL;
    if (missing)
        rc = ctr_fail(err, CTR_EDATA, "the model has no column '%s', without which it cannot tell its uncertainty",
                      missing);
    if (!rc)
        rc = find_keys(w, b, err);
    return rc ? rc : walk_rows(w, b, err);
}

/* Project to the needed columns: table, key and weight; in the second pass also n; for rates their columns; or all. */
static int project(struct ctr_lr_walk *w, const struct ctr_schema *schema, struct ctr_reader *r, struct ctr_err *err)
{
    static const char *const names[] = { "table", "key", "weight", "n", "negatives", "positives" };
    int keep[CTR_COUNT(names)], n = 0;
    w->derive |= ctr_schema_find(schema, "weight") < 0;
    for (size_t i = 0; i < (w->rates ? CTR_COUNT(names) : w->again ? 4 : 3); i++)
        if ((keep[n] = ctr_schema_find(schema, names[i])) >= 0)
            n++;
    return w->derive ? 0 : ctr_reader_project(r, keep, n, err);
}

/* May z and n be other ones than those of the weights? Not in a file that training wrote, or a copy of it. */
static bool is_edited(const struct ctr_meta *meta, bool sealed)
{
    static const char *const faithful[] = { "ctr-train", "ctr-model", "ctr-cat" };
    const char *pg = ctr_meta_get(meta, CTR_META_PG), *last = pg ? strrchr(pg, '\n') : NULL;
    const char *line = last ? last + 1 : pg;
    for (size_t i = 0; line && i < CTR_COUNT(faithful); i++)
        if (strcspn(line, "\t") == strlen(faithful[i]) && !strncmp(line, faithful[i], strlen(faithful[i])))
            return !sealed;
    return line || !sealed;
}

static int walk_all(struct ctr_lr_walk *w, struct ctr_err *err)
{
    struct ctr_reader_stats stats;
    struct ctr_model_info info;
    struct ctr_reader *r = NULL;
    const struct ctr_batch *b;
    int rc = ctr_model_open(w->path, &info, &r, err);
    if (rc)
        return rc;
    rc = project(w, &info.schema, r, err);
    w->bias = false;
    w->digest = 0;
    while (!rc && (rc = ctr_reader_next(r, &b, err)) > 0)
        rc = walk_batch(w, b, err);
    if (rc < 0)
        ctr_err_file(err, w->path);
    ctr_reader_get_stats(r, &stats);
    w->edited = is_edited(&info.schema.meta, stats.sealed);
    ctr_reader_free(r);
    ctr_model_info_free(&info);
    return rc;
}

int ctr_lr_walk_start(struct ctr_lr_walk *w, struct ctr_err *err)
{
    int rc = ctr_learning_init(&w->learning, &w->info->params, err);
    if (!rc)
        rc = ctr_lr_start(&w->learning, &w->info->schema.meta, &w->event, err);
    return rc || !w->rates ? rc : ctr_lr_unseen_rate(&w->learning, &w->event, &w->unseen_rate, err);
}

/* If the model was edited after training, read again with z and n, which override the weights. */
int ctr_lr_walk_count(struct ctr_lr_walk *w, struct ctr_err *err)
{
    const char *digest = ctr_meta_get(&w->info->schema.meta, CTR_META_MODEL_WEIGHTS);
    char hex[17];
    int rc = walk_all(w, err);
    snprintf(hex, sizeof hex, "%016llx", (unsigned long long)w->digest);
    if (rc || w->derive || (digest && !strcmp(digest, hex) && !w->edited))
        return rc;
    w->derive = true;
    w->restart(w->ctx);
    return walk_all(w, err);
}

int ctr_lr_walk_again(struct ctr_lr_walk *w, struct ctr_err *err)
{
    const uint64_t counted = w->digest;
    w->again = true;
    int rc = walk_all(w, err);
    if (!rc && w->digest != counted) {
        rc = ctr_fail(err, CTR_EDATA, "the model changed while it was read");
        ctr_err_file(err, w->path);
    }
    return rc;
}

void ctr_lr_walk_end(struct ctr_lr_walk *w)
{
    ctr_buf_free(&w->hash);
    ctr_buf_free(&w->table);
}
