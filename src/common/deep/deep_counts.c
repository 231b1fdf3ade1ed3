/* SPDX-License-Identifier: Apache-2.0
 *
 * Key frequencies, for the regularisation of embeddings: n_j is the number of rows that key j occurs in (Zhou et al.,
 * "Deep Interest Network", KDD 2018, eq. 6 and 7: of all samples). Where the input can be read twice, all rows are
 * counted before any is learned from; else a key has the count of the rows so far until the first pass is over. Counts
 * stand in the rows of the tables, wherever these live, so that checkpoints and models have them. A stream may give
 * other counts: a fitted plan has some in its vocabularies, a model trained with --l2 in its tables. */
#include <stdlib.h>

#include "common/deep/deep.h"

#define AS(type, buf) ((type *)(void *)(buf).data)

/* ---- those of a stream ---- */

static bool is_integer(enum ctr_type t)
{
    return t == CTR_I8 || t == CTR_U8 || t == CTR_I16 || t == CTR_U16 || t == CTR_I32 || t == CTR_U32 || t == CTR_I64 ||
           t == CTR_U64;
}

/* A repeated key gets the sum. */
static int add_counts(struct ctr_keyindex *t, const struct ctr_batch *b, struct ctr_err *err)
{
    const struct ctr_col *key = &b->col[0], *count = &b->col[1];
    int rc = ctr_keyindex_reserve(t, (uint64_t)b->rows, err);
    for (int64_t i = 0; i < b->rows && !rc; i++) {
        const int64_t n = ctr_col_i64(count, i);
        if (ctr_col_null(key, i) || ctr_col_null(count, i) || n < 1)
            return ctr_fail(err, CTR_EDATA, "row %lld: a key and a count of 1 or more are wanted",
                            (long long)(b->first_row + i + 1));
        uint32_t *sum = ctr_keyindex_get(t, ctr_key_hash((uint64_t)ctr_col_i64(key, i)));
        *sum += (uint32_t)CTR_MIN(n, (int64_t)(UINT32_MAX - *sum));
    }
    return rc;
}

/* Read a section with both columns; skip others. */
static int read_section(struct ctr_keyindex *t, struct ctr_reader *r, bool *found, struct ctr_err *err)
{
    const struct ctr_schema *s = ctr_reader_schema(r);
    const int columns[2] = { ctr_schema_find(s, "key"), ctr_schema_find(s, "count") };
    const struct ctr_batch *b;
    if (columns[0] < 0 || columns[1] < 0 || s->f[columns[0]].type != CTR_U64 || !is_integer(s->f[columns[1]].type))
        return 0;
    *found = true;
    int rc = ctr_reader_project(r, columns, 2, err);
    while (!rc && (rc = ctr_reader_next(r, &b, err)) > 0)
        rc = add_counts(t, b, err);
    return rc;
}

int ctr_deep_counts_read(struct ctr_keyindex *t, const char *path, struct ctr_err *err)
{
    char *paths[] = { (char *)(uintptr_t)path };
    const struct ctr_reader_opts o = { .sections = true };
    struct ctr_reader *r = NULL;
    bool found = false;
    int rc = ctr_reader_open(&r, paths, 1, &o, err), more = 1;
    while (!rc && more > 0 && !(rc = read_section(t, r, &found, err)))
        more = ctr_reader_section(r, err);
    if (!rc && more < 0)
        rc = more;
    if (!rc && !found)
        rc = ctr_fail(err, CTR_EDATA,
                      "it has no columns key (uint64) and count (an integer): give a fitted plan with "
                      "vocabularies, a model learned with --l2, or a stream of both");
    if (rc)
        ctr_err_file(err, path);
    ctr_reader_free(r);
    return rc;
}

/* Of a hash; 0: none. */
static uint32_t given_count(const struct ctr_keyindex *t, uint64_t hash)
{
    const uint32_t *n = ctr_keyindex_find(t, hash);
    return n ? *n : 0;
}

/* ---- those of all rows, before they are learned from ---- */

bool ctr_deep_counts(void *learner, bool can)
{
    struct ctr_deep_learner *l = learner;
    const bool wants = l->tables.counts && !l->net.p.deep.l2_counts;
    l->tables.recounts = wants && can;
    return wants;
}

/* Rows [from, from + n) of r, and of each table's distinct keys how many of them they occur in. */
struct counting {
    const struct ctr_deep *d;
    const struct ctr_rows *r;
    int64_t from, n;
    struct counted {
        struct ctr_buf uses, last; /* i32 per key; last: the row that it was counted in */
    } * table;
};

/* Count key `number` in row `row`, unless it was counted there. */
static int count_key(struct counted *c, int32_t number, int32_t row, struct ctr_err *err)
{
    const int64_t known = (int64_t)(c->uses.len / sizeof(int32_t));
    int rc = 0;
    if (number == known) {
        int32_t *uses = ctr_buf_extend(&c->uses, 1, sizeof *uses, &rc, err);
        int32_t *last = ctr_buf_extend(&c->last, 1, sizeof *last, &rc, err);
        if (rc)
            return rc;
        *uses = 0;
        *last = -1;
    }
    int32_t *last = &AS(int32_t, c->last)[number];
    AS(int32_t, c->uses)[number] += *last != row;
    *last = row;
    return 0;
}

static void count_table(void *ctx, int64_t t, int worker)
{
    const struct counting *c = ctx;
    const struct ctr_rows *r = c->r;
    struct ctr_deep_set *s = &c->d->batch.set[c->d->batch.key_buffer][t];
    int rc = 0;
    (void)worker;
    ctr_buf_clear(&c->table[t].uses);
    ctr_buf_clear(&c->table[t].last);
    for (int64_t i = c->from; i < c->from + c->n; i++)
        for (int64_t e = r->start[i]; e < r->start[i + 1] && !rc; e++) {
            if (c->d->input[ctr_deep_input_of(c->d, r, i, e)].table_at != t)
                continue;
            const int32_t number = ctr_deep_set_add(s, r->hash[e], &rc);
            if (!rc)
                rc = count_key(&c->table[t], number, (int32_t)(i - c->from), &s->err);
        }
    s->err.code = rc;
}

/* Add the counts of a minibatch's distinct keys to those of the tables' rows, which are made if they are new. */
static int add_rows(struct ctr_deep_learner *l, struct counting *c, struct ctr_err *err)
{
    struct ctr_deep *d = &l->net;
    const int b = d->batch.key_buffer;
    struct ctr_buf total = { 0 };
    if (c->n)
        ctr_pool_run(l->pool, d->batch.sets, count_table, c);
    int rc = ctr_deep_begin_keys(d, b, true, l->pool, &d->batch.unique, err);
    if (!rc)
        rc = ctr_source_values(d->vectors.source, b, &d->vectors.value, err);
    for (int t = 0; t < d->batch.sets && !rc; t++) {
        const int64_t n = d->batch.set[b][t].keys.n;
        ctr_buf_clear(&total);
        uint32_t *to = ctr_buf_extend(&total, n, sizeof *to, &rc, err);
        if (!rc && (n || d->p.comm))
            rc = ctr_source_count(d->vectors.source, b, t, AS(int32_t, c->table[t].uses), to, err);
    }
    d->batch.unique = 0;
    ctr_deep_unannounce(d);
    ctr_buf_free(&total);
    return rc;
}

int ctr_deep_count_rows(void *learner, const struct ctr_rows *r, int64_t memory_bytes, struct ctr_err *err)
{
    struct ctr_deep_learner *l = learner;
    struct ctr_deep *d = &l->net;
    int rc = 0;
    if (!r) {
        l->tables.counted = l->tables.counts;
        return 0;
    }
    if (!d->vectors.source)
        return 0;
    struct counting c = { .d = d, .r = r, .table = calloc((size_t)d->batch.sets + 1, sizeof *c.table) };
    if (!c.table)
        return ctr_fail_nomem(err, (size_t)d->batch.sets * sizeof *c.table);
    do {
        c.n = CTR_MIN(r->rows - c.from, d->p.minibatch);
        if (c.n)
            rc = ctr_deep_check_bound(d, &l->tables, r->start[c.from + c.n] - r->start[c.from], memory_bytes, err);
        if (!rc)
            rc = add_rows(l, &c, err);
        c.from += c.n;
    } while (c.from < r->rows && !rc);
    for (int t = 0; t < d->batch.sets; t++) {
        ctr_buf_free(&c.table[t].uses);
        ctr_buf_free(&c.table[t].last);
    }
    free(c.table);
    return rc;
}

/* ---- as they are learned from ---- */

/* uses[u] += the rows of the minibatch that have vector row u in a list of table rows; last [unique]: 0 at first. */
static void count_vectors(const struct ctr_deep *d, int32_t *uses, int32_t *last)
{
    for (int64_t row = 0; row < d->rows; row++)
        for (int i = 0; i < d->groups; i++) {
            const struct ctr_deep_group *g = &d->group[i];
            const int32_t *index = AS(int32_t, g->index), *start = AS(int32_t, g->start);
            const int64_t list = g->common ? AS(int32_t, g->equal.number)[row] : row * g->fields;
            const int64_t end = g->ragged ? start[list + g->fields] : list + g->fields;
            for (int64_t e = g->ragged ? start[list] : list; e < end && !g->images; e++) {
                uses[index[e]] += last[index[e]] != row + 1;
                last[index[e]] = (int32_t)(row + 1);
            }
        }
}

/* lambda / n_j of the keys of table t. */
static int l2_of_table(struct ctr_deep *d, const struct ctr_deep_tables *all, int t, const int32_t *uses, float *l2,
                       struct ctr_err *err)
{
    const struct ctr_keyset *keys = &d->batch.set[d->batch.key_buffer][t].keys;
    const int32_t *place = ctr_source_places(d->vectors.source, d->batch.key_buffer, t);
    struct ctr_buf more = { 0 }, total = { 0 };
    int rc = 0;
    int32_t *add = ctr_buf_extend(&more, keys->n, sizeof *add, &rc, err);
    uint32_t *count = ctr_buf_extend(&total, keys->n, sizeof *count, &rc, err);
    for (int64_t k = 0; k < keys->n && !rc; k++)
        add[k] = all->counted ? 0 : uses[place[k]];
    if (!rc && (keys->n || d->p.comm))
        rc = ctr_source_count(d->vectors.source, d->batch.key_buffer, t, add, count, err);
    for (int64_t k = 0; k < keys->n && !rc; k++) {
        const uint32_t given = given_count(&all->given, ctr_keyset_hashes(keys)[k]);
        l2[place[k]] = (float)(d->p.deep.l2 / (double)(given ? given : count[k]));
    }
    ctr_buf_free(&more);
    ctr_buf_free(&total);
    return rc;
}

int ctr_deep_send_l2(struct ctr_deep *d, const struct ctr_deep_tables *all, struct ctr_err *err)
{
    struct ctr_buf l2 = { 0 }, uses = { 0 }, last = { 0 };
    const int64_t n = all->counted ? 0 : d->batch.unique;
    int rc = 0;
    float *to = ctr_buf_extend(&l2, d->batch.unique, sizeof *to, &rc, err);
    int32_t *so_far = ctr_buf_extend(&uses, n, sizeof *so_far, &rc, err);
    int32_t *row = ctr_buf_extend(&last, n, sizeof *row, &rc, err);
    if (!rc && n) {
        memset(so_far, 0, (size_t)n * sizeof *so_far);
        memset(row, 0, (size_t)n * sizeof *row);
        count_vectors(d, so_far, row);
    }
    for (int t = 0; t < d->batch.sets && !rc; t++)
        rc = l2_of_table(d, all, t, so_far, to, err);
    if (!rc) /* allocate even without keys: it indicates that rows have l2 */
        rc = ctr_mem_grow(&d->vectors.l2, d->dev, sizeof *to, err);
    if (!rc)
        rc = ctr_deep_send(d, &d->vectors.l2, l2.data, 0, (size_t)d->batch.unique * sizeof *to, err);
    if (!rc)
        rc = ctr_deep_sent(d, err);
    ctr_buf_free(&l2);
    ctr_buf_free(&uses);
    ctr_buf_free(&last);
    return rc;
}
