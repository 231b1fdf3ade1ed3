/* SPDX-License-Identifier: Apache-2.0
 *
 * groupeach: rows with the aggregates of their group added: `join (group KEY, NAME = …) on KEY` of plans. Without a
 * time the groups of all rows are joined back: rows wait in a spool until their groups are known. With one, rows come
 * in its order, and a row gets the aggregates of the earlier rows of its group:
 *
 *     rows of the batch   taken in | given, waiting | next
 *                                  lo               i      a row of a group that waits with an earlier time:
 *                                                          rows before this time are taken in first
 *
 * so that results are made, and rows taken in, for many rows at once. Rows of the batch's last moment wait in `wait`
 * for the next batch. Invariant: a row is given before any row of its time or a later one is taken in. */
#include "common/rows/groupkeys.h"
#include "common/rows/groupstate.h"
#include "common/rows/relkey.h"
#include "common/rows/spool.h"

#include <stdlib.h>

struct each {
    struct ctr_group_opts o;
    struct ctr_schema in, out;
    /* without a time */
    struct ctr_group *group;
    struct ctr_spool *spool;
    struct ctr_reader *r;
    bool ended; /* all rows of r were given */
    struct ctr_join *join;
    struct ctr_strs keys;
    const int *input; /* of the group */
    int inputs;
    struct ctr_col *cols; /* of a batch, for the group */
    /* with a time */
    int time; /* -1: none */
    struct ctr_aggregate *agg;
    int nagg, nkeys;
    int *from; /* columns of what groups take in: the keys, then those of aggregates */
    struct ctr_schema taken, key_schema;
    struct ctr_groupkeys known;
    struct ctr_groupstate state;
    struct ctr_buf hash, null, number, row, mark,
        of;                   /* mark: by group, 1 + its last row that waits, over all batches */
    struct ctr_batchbuf wait; /* taken columns of rows of the last moment */
    struct ctr_buf wait_number;
    int64_t last_time, rows; /* rows: before the batch */
    bool any, has;           /* has: a result to give */
    struct ctr_colbuf *result;
    struct ctr_col *views;
    struct ctr_batch batch;
};

/* join (group ad, n = count()) on ad as-of time, of the rows (1, a) (1, b) (2, a) (3, b), time and ad, in one batch:
 *
 *     i   moment   mark[a] mark[b]
 *     0   0        1       0
 *     1   0        1       2
 *     2   2        3       2     a waits with an earlier time: rows 0 1 are given, n = 0 0, and taken in; lo = 2
 *     3   3        3       4     b's last row is taken in already
 *     end                        rows 2 3 are given, n = 1 1; row 2 is taken in; row 3, of the last moment, waits
 *
 * Rows of time 3 in the next batch are given before take_wait takes row 3 in, those of later times after it. */

/* ---- the columns ---- */

static int find_keys(struct each *e, struct ctr_err *err)
{
    int *column = NULL, n = 0, rc = 0;
    for (int i = 0; !rc && e->o.keys && i < e->o.keys->n; i++)
        rc = ctr_schema_columns(&e->in, e->o.keys->s[i], ',', &column, &n, err);
    for (int i = 0; !rc && i < n; i++)
        rc = ctr_strs_add(&e->keys, e->in.f[column[i]].name, strlen(e->in.f[column[i]].name), err);
    free(column);
    return rc;
}

/* A column that groups take in; its place goes to *at. */
static int add_taken(struct each *e, int column, int *at, struct ctr_err *err)
{
    for (*at = e->nkeys; *at < e->taken.n; ++*at)
        if (e->from[*at] == column)
            return 0;
    e->from[e->taken.n] = column;
    const int rc = ctr_schema_add_field(&e->taken, &e->in.f[column], NULL, err);
    if (!rc)
        e->taken.f[e->taken.n - 1].dict = false;
    return rc;
}

/* A column may be a key and an aggregate's too, and then is taken in once more, under another name. */
static int add_value(struct each *e, struct ctr_aggregate *a, struct ctr_err *err)
{
    for (int k = 0; k < e->nkeys; k++)
        if (e->from[k] == a->column) {
            a->taken = k;
            return 0;
        }
    return add_taken(e, a->column, &a->taken, err);
}

static int parse_aggregates(struct each *e, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < e->o.add->n; i++) {
        struct ctr_aggregate *a = &e->agg[e->nagg++];
        rc = ctr_aggregate_parse(a, e->o.add->s[i], &e->in, e->o.in_plan, err);
        if (!rc && ctr_aggregate_ordered(a))
            rc =
                ctr_fail(err, CTR_EUSAGE,
                         "%s(%s) needs all values of a group in order, and %s makes its result row by row: count, sum, "
                         "mean, min, max, first and last can be had",
                         ctr_aggregate_function(a), a->column_name, ctr_word(e->o.in_plan, "--as-of"));
        if (!rc && a->column >= 0)
            rc = add_value(e, a, err);
    }
    return rc;
}

static int start_as_of(struct each *e, const char *time, struct ctr_err *err)
{
    e->time = ctr_schema_need(&e->in, time, err);
    if (e->time < 0)
        return e->time;
    const struct ctr_field *f = &e->in.f[e->time];
    if (f->type != CTR_TIME && (!ctr_types[f->type].integer || f->type == CTR_U64))
        return ctr_fail(err, CTR_EUSAGE, "the time %s must be a timestamp, or an integer (ms)", f->name);
    e->agg = calloc((size_t)e->o.add->n + 1, sizeof *e->agg);
    e->from = calloc((size_t)e->keys.n + (size_t)e->o.add->n + 1, sizeof *e->from);
    e->cols = calloc((size_t)e->keys.n + (size_t)e->o.add->n + 1, sizeof *e->cols);
    if (!e->agg || !e->from || !e->cols)
        return ctr_fail_nomem(err, (size_t)e->o.add->n * sizeof *e->agg);
    int rc = 0, at;
    for (int k = 0; !rc && k < e->keys.n; k++) {
        rc = add_taken(e, ctr_schema_find(&e->in, e->keys.s[k]), &at, err);
        e->nkeys = e->taken.n;
        if (!rc)
            rc = ctr_schema_add_field(&e->key_schema, &e->taken.f[k], NULL, err);
    }
    if (!rc)
        rc = parse_aggregates(e, err);
    if (!rc)
        rc = ctr_groupkeys_init(&e->known, &e->key_schema, err);
    if (!rc)
        rc = ctr_groupstate_init(&e->state, e->agg, e->nagg, err);
    return rc ? rc : ctr_batchbuf_init(&e->wait, &e->taken, err);
}

/* The rows' columns, then those of the groups but their keys. */
static int make_schema(struct each *e, struct ctr_err *err)
{
    const struct ctr_schema *g = ctr_group_schema(e->group);
    int rc = ctr_schema_copy(&e->out, &e->in, err);
    for (int i = e->keys.n; !rc && i < g->n; i++) {
        if (ctr_schema_find(&e->in, g->f[i].name) >= 0)
            return ctr_fail(err, CTR_EUSAGE, "the rows have a column %s already: give the result another name",
                            g->f[i].name);
        rc = ctr_schema_add_field(&e->out, &g->f[i], NULL, err);
    }
    return rc;
}

static int make_results(struct each *e, struct ctr_err *err)
{
    const int n = e->out.n - e->in.n;
    e->result = calloc((size_t)n + 1, sizeof *e->result);
    e->views = calloc((size_t)e->out.n + 1, sizeof *e->views);
    int rc = e->result && e->views ? 0 : ctr_fail_nomem(err, (size_t)e->out.n * sizeof *e->views);
    for (int i = 0; !rc && i < n; i++)
        rc = ctr_colbuf_init(&e->result[i], &e->out.f[e->in.n + i], err);
    return rc;
}

static void each_free(void *object)
{
    struct each *e = object;
    if (!e)
        return;
    ctr_join_free(e->join);
    ctr_reader_free(e->r);
    ctr_spool_free(e->spool);
    ctr_group_free(e->group);
    for (int i = 0; e->result && i < e->out.n - e->in.n; i++)
        ctr_colbuf_free(&e->result[i]);
    for (int i = 0; i < e->nagg; i++)
        ctr_aggregate_free(&e->agg[i]);
    ctr_groupkeys_free(&e->known);
    ctr_groupstate_free(&e->state);
    ctr_batchbuf_free(&e->wait);
    struct ctr_buf *buf[] = { &e->hash, &e->null, &e->number, &e->row, &e->mark, &e->of, &e->wait_number };
    for (size_t i = 0; i < CTR_COUNT(buf); i++)
        ctr_buf_free(buf[i]);
    ctr_schema_free(&e->in);
    ctr_schema_free(&e->out);
    ctr_schema_free(&e->taken);
    ctr_schema_free(&e->key_schema);
    ctr_strs_free(&e->keys);
    free(e->agg);
    free(e->from);
    free(e->cols);
    free(e->result);
    free(e->views);
    free(e);
}

/* ---- all rows: the groups are joined back ---- */

/* The groups as a source, which the join reads. */
static const struct ctr_schema *groups_schema(const void *source)
{
    return ctr_group_schema(((const struct each *)source)->group);
}

static int groups_next(void *source, const struct ctr_batch **b, struct ctr_err *err)
{
    return ctr_group_next(((struct each *)source)->group, b, err);
}

static const char *groups_name(const void *source)
{
    (void)source;
    return "the groups";
}

static void groups_close(void *source)
{
    (void)source;
}

static int join_groups(struct each *e, struct ctr_err *err)
{
    static const struct ctr_batch_source_ops ops = { groups_schema, groups_next, groups_name, groups_close, NULL };
    struct ctr_batch_source groups = { &ops, e };
    struct ctr_buf keys = { 0 };
    int rc = 0;
    for (int i = 0; !rc && i < e->keys.n; i++)
        if (!(rc = ctr_buf_append(&keys, ",", i != 0, err)))
            rc = ctr_quote_in(&keys, '`', e->keys.s[i], strlen(e->keys.s[i]), err);
    if (!rc)
        rc = ctr_buf_append(&keys, "", 1, err);
    const struct ctr_join_opts jo = { .keys = (const char *)keys.data,
                                      .kind = CTR_JOIN_LEFT,
                                      .within_ms = -1,
                                      .memory_bytes = e->o.memory_bytes,
                                      .batch_rows = e->o.batch_rows,
                                      .threads = e->o.threads,
                                      .in_plan = e->o.in_plan };
    if (!rc)
        rc = ctr_join_new(&e->join, &e->in, &groups, "the groups", &jo, err);
    ctr_buf_free(&keys);
    return rc;
}

static int all_batch(struct each *e, const struct ctr_batch *b, struct ctr_err *err)
{
    for (int i = 0; i < e->inputs; i++)
        e->cols[i] = b->col[e->input[i]];
    const struct ctr_batch of = { b->schema, b->rows, b->first_row, e->cols };
    const int rc = ctr_group_batch(e->group, &of, err);
    return rc ? rc : ctr_spool_batch(e->spool, b, err);
}

static int all_finish(struct each *e, struct ctr_err *err)
{
    int rc = ctr_group_finish(e->group, err);
    if (!rc)
        rc = ctr_spool_reread(e->spool, &e->r, err);
    return rc ? rc : join_groups(e, err);
}

static int all_next(struct each *e, const struct ctr_batch **out, struct ctr_err *err)
{
    const struct ctr_batch *b;
    int rc;
    if (!e->join)
        return 0;
    while (!(rc = ctr_join_next(e->join, out, err)) && !e->ended) { /* the reader stays: rows have its dictionaries */
        rc = ctr_reader_next(e->r, &b, err);
        if (rc > 0) {
            rc = ctr_join_batch(e->join, b, err);
        } else if (!rc) {
            e->ended = true;
            rc = ctr_join_finish(e->join, err);
        }
        if (rc)
            return rc;
    }
    return rc;
}

/* ---- as of a time ---- */

static int64_t *numbers(const struct each *e)
{
    return (int64_t *)(void *)e->number.data;
}

static int64_t time_of(const struct each *e, const struct ctr_batch *b, int64_t i)
{
    const struct ctr_col *c = ctr_col_plain(&b->col[e->time], &i);
    return ctr_col_i64(c, i);
}

static int check_times(struct each *e, const struct ctr_batch *b, struct ctr_err *err)
{
    char is[64], was[64];
    const char *name = e->in.f[e->time].name;
    for (int64_t i = 0; i < b->rows; i++) {
        if (ctr_col_missing(&b->col[e->time], i))
            return ctr_fail(
                err, CTR_EDATA, "row %lld: its time %s is null; leave such rows out (%s)",
                (long long)(b->first_row + i + 1), name,
                ctr_words(e->o.in_plan, "ctr-select --where 'not is_null(…)'", "where not is_null(…) above it"));
        const int64_t t = time_of(e, b, i), before = i ? time_of(e, b, i - 1) : e->last_time;
        if ((i || e->any) && t < before) {
            is[ctr_time_iso(is, t)] = was[ctr_time_iso(was, before)] = 0;
            return ctr_fail(
                err, CTR_EDATA, "row %lld: its time %s runs backwards, behind %s; sort the rows first (%s %s)",
                (long long)(b->first_row + i + 1), is, was, ctr_words(e->o.in_plan, "ctr-sort -k", "sort"), name);
        }
    }
    return 0;
}

/* The groups of the batch's rows; -1: a key is null, which matches nothing, as in a join. */
static int find_groups(struct each *e, const struct ctr_batch *taken, struct ctr_err *err)
{
    const int64_t n = taken->rows, before = e->known.n;
    int key[64];
    int rc = e->nkeys > (int)CTR_COUNT(key) ? ctr_fail(err, CTR_EUSAGE, "more than %d keys", (int)CTR_COUNT(key)) : 0;
    if (!rc)
        rc = ctr_buf_room(&e->hash, n, sizeof(uint64_t), err);
    if (!rc)
        rc = ctr_buf_room(&e->null, n, 1, err);
    if (!rc)
        rc = ctr_buf_room(&e->number, 2 * n, sizeof(int64_t), err);
    if (!rc)
        rc = ctr_buf_room(&e->row, n, sizeof(int32_t), err);
    if (rc)
        return rc;
    for (int k = 0; k < e->nkeys; k++)
        key[k] = k;
    memset(e->null.data, 0, (size_t)n);
    rc = ctr_keys_hash(taken, key, e->nkeys, ctr_hash_secret, (uint64_t *)(void *)e->hash.data, e->null.data, err);
    int64_t have = 0, *found = numbers(e) + n;
    int32_t *row = (int32_t *)(void *)e->row.data;
    for (int64_t i = 0; !rc && i < n; i++) {
        row[have] = (int32_t)i;
        have += !e->null.data[i];
    }
    if (!rc)
        rc = ctr_groupkeys_find(&e->known, taken, (const uint64_t *)(const void *)e->hash.data, row, have, true, found,
                                err);
    for (int64_t i = 0; !rc && i < n; i++)
        numbers(e)[i] = -1;
    for (int64_t i = 0; !rc && i < have; i++)
        numbers(e)[row[i]] = found[i];
    for (int64_t i = 0; !rc && i < n; i++)
        row[i] = (int32_t)i;
    void *mark = rc ? NULL : ctr_buf_extend(&e->mark, e->known.n - before, sizeof(int64_t), &rc, err);
    if (!rc && e->known.n > before)
        memset(mark, 0, (size_t)(e->known.n - before) * sizeof(int64_t));
    return rc ? rc
              : ctr_groupstate_take(&e->state, taken, row, numbers(e), 0, e->known.n, err); /* room for the new ones */
}

static int check_memory(const struct each *e, struct ctr_err *err)
{
    const int64_t most = ctr_relation_memory(e->o.memory_bytes),
                  bytes = ctr_groupkeys_bytes(&e->known) + ctr_groupstate_bytes(&e->state) + (int64_t)e->mark.cap;
    return bytes <= most ? 0
                         : ctr_fail(err, CTR_ENOMEM, "%lld groups take %s, and --memory allows %s; give more",
                                    (long long)e->known.n, ctr_size_text_beyond((uint64_t)bytes, (uint64_t)most).s,
                                    ctr_size_text((uint64_t)most).s);
}

/* The results of rows [from, to), as groups are now. */
static int give_rows(struct each *e, int64_t from, int64_t to, struct ctr_err *err)
{
    struct ctr_groupstate **of = (struct ctr_groupstate **)(void *)e->of.data;
    int64_t failed = 0;
    int rc = 0;
    for (int64_t end; !rc && from < to; from = end) {
        const bool there = numbers(e)[from] >= 0;
        for (end = from + 1; end < to && (numbers(e)[end] >= 0) == there;)
            end++;
        for (int k = 0; !rc && k < e->nagg; k++) {
            if (there)
                rc = ctr_groupstate_give(&e->agg[k], of, numbers(e) + from, end - from, &e->result[k], &failed, err);
            for (int64_t i = from; !there && !rc && i < end; i++)
                rc = ctr_colbuf_null(&e->result[k], err);
        }
    }
    return rc;
}

static int take_rows(struct each *e, const struct ctr_batch *taken, int64_t from, int64_t to, struct ctr_err *err)
{
    return from < to ? ctr_groupstate_take(&e->state, taken, (const int32_t *)(const void *)e->row.data + from,
                                           numbers(e) + from, to - from, e->known.n, err)
                     : 0;
}

/* Rows of the batches before, all of one time, which is over. */
static int take_wait(struct each *e, struct ctr_err *err)
{
    const struct ctr_batch *b = ctr_batchbuf_view(&e->wait);
    int32_t row[256];
    int rc = 0;
    for (int64_t at = 0; !rc && at < b->rows; at += (int64_t)CTR_COUNT(row)) {
        const int64_t n = CTR_MIN(b->rows - at, (int64_t)CTR_COUNT(row));
        for (int64_t i = 0; i < n; i++)
            row[i] = (int32_t)(at + i);
        rc = ctr_groupstate_take(&e->state, b, row, (const int64_t *)(const void *)e->wait_number.data + at, n,
                                 e->known.n, err);
    }
    ctr_batchbuf_clear(&e->wait);
    ctr_buf_clear(&e->wait_number);
    return rc;
}

/* The rows of the last moment wait for the next batch. */
static int keep_last(struct each *e, const struct ctr_batch *taken, int64_t from, struct ctr_err *err)
{
    const int rc = ctr_batchbuf_range(&e->wait, taken, from, taken->rows - from, err);
    return rc ? rc
              : ctr_buf_append(&e->wait_number, numbers(e) + from, (size_t)(taken->rows - from) * sizeof(int64_t), err);
}

static int answer(struct each *e, const struct ctr_batch *b, const struct ctr_batch *taken, struct ctr_err *err)
{
    int64_t lo = 0, given = 0, moment = 0, *mark = (int64_t *)(void *)e->mark.data;
    int rc = 0;
    for (int64_t i = 0; !rc && i < b->rows; i++) {
        const int64_t t = time_of(e, b, i), number = numbers(e)[i];
        const bool later = i ? t > time_of(e, b, i - 1) : e->any && t > e->last_time;
        moment = later ? i : moment;
        if (later && ctr_batchbuf_rows(&e->wait)) {
            rc = give_rows(e, given, i, err);
            given = i;
            if (!rc)
                rc = take_wait(e, err);
        }
        /* A row of the group that waits is from an earlier moment: that of its time came first. */
        if (!rc && number >= 0 && mark[number] > e->rows + lo && mark[number] <= e->rows + moment) {
            rc = give_rows(e, given, i, err);
            given = i;
            if (!rc)
                rc = take_rows(e, taken, lo, moment, err);
            lo = moment;
        }
        if (number >= 0 && mark[number] <= e->rows + lo)
            mark[number] = e->rows + i + 1;
    }
    if (!rc)
        rc = give_rows(e, given, b->rows, err);
    if (!rc)
        rc = take_rows(e, taken, lo, moment, err);
    return rc ? rc : keep_last(e, taken, moment, err);
}

static int as_of_batch(struct each *e, const struct ctr_batch *b, struct ctr_err *err)
{
    for (int i = 0; i < e->taken.n; i++)
        e->cols[i] = b->col[e->from[i]];
    const struct ctr_batch taken = { &e->taken, b->rows, b->first_row, e->cols };
    int rc = check_times(e, b, err);
    if (!rc && b->rows)
        rc = find_groups(e, &taken, err);
    if (!rc)
        rc = check_memory(e, err);
    if (!rc)
        rc = ctr_buf_room(&e->of, b->rows, sizeof(void *), err);
    for (int64_t i = 0; !rc && i < b->rows; i++)
        ((struct ctr_groupstate **)(void *)e->of.data)[i] = &e->state;
    for (int k = 0; k < e->nagg; k++)
        ctr_colbuf_clear(&e->result[k]);
    if (!rc && b->rows)
        rc = answer(e, b, &taken, err);
    if (rc || !b->rows)
        return rc;
    e->last_time = time_of(e, b, b->rows - 1);
    e->any = true;
    e->rows += b->rows;
    memcpy(e->views, b->col, (size_t)e->in.n * sizeof *e->views);
    for (int k = 0; k < e->nagg; k++)
        e->views[e->in.n + k] = *ctr_colbuf_view(&e->result[k]);
    e->batch = (struct ctr_batch){ &e->out, b->rows, b->first_row, e->views };
    e->has = true;
    return 0;
}

/* ---- the stage ---- */

static const struct ctr_schema *schema(const void *object)
{
    return &((const struct each *)object)->out;
}

static int batch(void *object, const struct ctr_batch *b, struct ctr_err *err)
{
    struct each *e = object;
    return e->time >= 0 ? as_of_batch(e, b, err) : all_batch(e, b, err);
}

static int finish(void *object, struct ctr_err *err)
{
    struct each *e = object;
    return e->time >= 0 ? 0 : all_finish(e, err);
}

static int next(void *object, const struct ctr_batch **out, struct ctr_err *err)
{
    struct each *e = object;
    if (e->time < 0)
        return all_next(e, out, err);
    *out = &e->batch;
    const bool has = e->has;
    e->has = false;
    return has;
}

int ctr_group_each_source(struct ctr_batch_source *s, const struct ctr_group_opts *o, const char *time,
                          struct ctr_err *err)
{
    static const struct ctr_push_ops ops = { schema, batch, finish, next, each_free };
    const struct ctr_schema *in = ctr_batch_source_schema(s);
    struct each *e = calloc(1, sizeof *e);
    if (!e)
        return ctr_fail_nomem(err, sizeof *e);
    e->o = *o;
    e->time = -1;
    e->o.memory_bytes = time ? o->memory_bytes : CTR_MAX(ctr_relation_memory(o->memory_bytes) / 2, 1);
    int rc = ctr_group_new(&e->group, in, &e->o, err); /* with a time for its schema and its checks */
    if (!rc)
        rc = ctr_schema_copy(&e->in, in, err);
    if (!rc)
        rc = find_keys(e, err);
    if (!rc)
        rc = make_schema(e, err);
    if (!rc && time) {
        ctr_group_free(e->group);
        e->group = NULL;
    }
    if (!rc && time)
        rc = start_as_of(e, time, err);
    if (!rc && time)
        rc = make_results(e, err);
    if (!rc && !time)
        rc = ctr_spool_new(&e->spool, in, err);
    if (!rc && !time) {
        e->input = ctr_group_inputs(e->group, &e->inputs);
        if (!(e->cols = calloc((size_t)e->inputs + 1, sizeof *e->cols)))
            rc = ctr_fail_nomem(err, (size_t)e->inputs * sizeof *e->cols);
    }
    e->o.keys = e->o.add = NULL;
    if (!rc)
        rc = ctr_batch_source_push(s, &ops, e, err);
    if (rc)
        each_free(e);
    return rc;
}
