/* SPDX-License-Identifier: Apache-2.0
 *
 * group: aggregates by key. Groups are numbered as their keys come (groupkeys.c), and their states lie in an array by
 * number (groupstate.c): a row costs a look-up and an addition, and nothing of it is kept. In the end the numbers are
 * sorted by their keys. Threads have parts of the keys, by hash, and go through the rows of a batch side by side.
 *
 *     rows ---> has a group, or there is memory for one? ---> parts: states ---> ctr_sort: numbers by key ---+
 *       |                     | no                              |                                            +-->
 * result |                     v                                 v values of distinct and quantile            | |
 * ctr_sort: rows by key --> `late` groups, some at a time ----------------------------+
 *
 * When memory is full, groups that have a number go on taking rows, and rows of other keys are sorted by key (beyond
 * memory, on disk): there groups come one after another, and `late` holds some thousands of them at a time. The two
 * have no key in common and come in the same order, so the result is merged. Aggregates that need a group's values in
 * order (distinct, quantile) sort pairs of number and value. Invariant: rows of a group are taken in input order, so
 * that a float sum has the same bits for any memory size and number of threads.
 *
 * Rows that come sorted by the keys need no table: batches take the place of `rest`, and `late` has all groups. */
#include "common/rows/groupkeys.h"
#include "common/rows/groupsave.h"
#include "common/rows/groupstate.h"
#include "common/rows/groupvalues.h"
#include "common/rows/relkey.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    LATE_GROUPS = 1 << 13, /* of sorted rows, at a time */
    MOST_PARTS = 64,       /* threads that take rows in */
    NUMBER_BITS = 40,      /* of the number of a group among those of its part */
};

/* Groups with their states. */
struct groups {
    struct ctr_groupkeys keys;
    struct ctr_groupstate state;
    struct ctr_groupvalues *values; /* of each column whose values are needed in order */
};

/* Some of the rows of a batch: a part's. */
struct share {
    struct groups groups;
    struct ctr_buf row, number;   /* int32_t, int64_t */
    int64_t n, missing;           /* missing: rows whose keys have no group */
    struct ctr_group_stats stats; /* of its sorts */
    struct ctr_err err;
    int rc;
};

/* A source of groups in the order of their keys. */
struct cursor {
    const struct ctr_col *key;
    int64_t at, n;
};

struct ctr_group {
    struct ctr_group_opts opts;
    struct ctr_strs key_names;
    int *key, nkeys;
    struct ctr_aggregate *agg;
    int n;
    int *input, inputs;                  /* columns read, ascending */
    struct ctr_schema keys, taken, out;  /* taken: the keys, and the columns of aggregates */
    struct ctr_schema numbered, *valued; /* keys and number; number and value */
    struct ctr_strs value_keys;          /* "number", "value" */
    int *from;                           /* for each column of `taken`, its position in a batch */
    int *value_column, nvalues;          /* of `taken`: columns whose values are needed in order */
    struct ctr_col *cols;
    struct ctr_pool *pool;
    struct share *share; /* one a part */
    int parts;
    bool full; /* no new groups: the memory for them is used up */
    struct ctr_buf hash;
    struct ctr_sort *rest;        /* rows of keys without a group; NULL: none */
    struct ctr_sort *order;       /* the groups of the parts by key */
    struct ctr_batchbuf picked;   /* rows for the rest, groups for the order */
    struct groups late;           /* some of the rest */
    struct ctr_batch sorted;      /* opts.sorted: the batch that is given */
    struct ctr_batchbuf last;     /* … and the keys of the row before it */
    const struct ctr_batch *rows; /* of the rest; [next_row, rows->rows) are next */
    int64_t next_row;
    const struct ctr_batch *ordered; /* of the order */
    struct cursor early_at, late_at;
    struct ctr_buf of, numbers; /* of groups to give: where they are */
    struct ctr_batchbuf result;
    struct ctr_groupsave save; /* with opts.save */
    bool finished, saved;
    struct ctr_group_stats stats;
};

/* ---- what is asked for ---- */

static int find_aggregates(struct ctr_group *g, const struct ctr_schema *s, struct ctr_err *err)
{
    const int n = g->opts.add ? g->opts.add->n : 0;
    if (!n)
        return ctr_fail(err, CTR_EUSAGE, "nothing to compute: %s",
                        ctr_words(g->opts.in_plan, "--add NAME=AGGREGATE(COLUMN), such as --add n=count()",
                                  "NAME = AGGREGATE(COLUMN), such as n = count()"));
    if (!(g->agg = calloc((size_t)n, sizeof *g->agg)))
        return ctr_fail_nomem(err, (size_t)n * sizeof *g->agg);
    int rc = 0;
    for (int i = 0; !rc && i < n; i++) {
        g->n++;
        rc = ctr_aggregate_parse(&g->agg[i], g->opts.add->s[i], s, g->opts.in_plan, err);
    }
    return rc;
}

static int find_keys(struct ctr_group *g, const struct ctr_schema *s, struct ctr_err *err)
{
    int rc = 0, n = 0;
    for (int i = 0; !rc && g->opts.keys && i < g->opts.keys->n; i++)
        rc = ctr_key_columns(s, g->opts.keys->s[i], ',', &g->key, &n, err);
    if (!rc && !n)
        rc = ctr_fail(err, CTR_EUSAGE, "say what to group by: -k COLUMN");
    for (int i = 0; !rc && i < n; i++)
        rc = ctr_strs_add(&g->key_names, s->f[g->key[i]].name, strlen(s->f[g->key[i]].name), err);
    g->nkeys = rc ? 0 : n;
    return rc;
}

/* ---- schemas ---- */

/* The place of an input column in `taken`. */
static int add_taken(struct ctr_group *g, const struct ctr_schema *s, int column, int *at, struct ctr_err *err)
{
    for (*at = 0; *at < g->taken.n; ++*at)
        if (g->from[*at] == column)
            return 0;
    g->from[g->taken.n] = column;
    const int rc = ctr_schema_add_field(&g->taken, &s->f[column], NULL, err);
    if (!rc)
        g->taken.f[g->taken.n - 1].dict = false;
    return rc;
}

/* The columns to take in, and those whose values are needed in order. */
static int take_schemas(struct ctr_group *g, const struct ctr_schema *s, struct ctr_err *err)
{
    int rc = 0, at;
    g->from = calloc((size_t)g->nkeys + (size_t)g->n + 1, sizeof *g->from);
    g->value_column = calloc((size_t)g->n + 1, sizeof *g->value_column);
    g->valued = calloc((size_t)g->n + 1, sizeof *g->valued);
    if (!g->from || !g->value_column || !g->valued)
        return ctr_fail_nomem(err, (size_t)g->n * sizeof *g->from);
    for (int i = 0; !rc && i < g->nkeys; i++) {
        rc = add_taken(g, s, g->key[i], &at, err);
        if (!rc)
            rc = ctr_schema_add_field(&g->keys, &s->f[g->key[i]], NULL, err);
        if (!rc)
            g->keys.f[i].dict = false;
    }
    for (int i = 0; !rc && i < g->n; i++) {
        struct ctr_aggregate *a = &g->agg[i];
        int k = 0;
        if (a->column >= 0)
            rc = add_taken(g, s, a->column, &a->taken, err);
        if (rc || !ctr_aggregate_ordered(a))
            continue;
        while (k < g->nvalues && g->value_column[k] != a->taken)
            k++;
        a->values = k;
        if (k < g->nvalues)
            continue;
        g->value_column[g->nvalues++] = a->taken;
        rc = ctr_schema_add(&g->valued[k], "number", CTR_I64, err);
        if (!rc)
            rc = ctr_schema_add_field(&g->valued[k], &s->f[a->column], "value", err);
        if (!rc)
            g->valued[k].f[1].dict = false;
    }
    return rc;
}

/* A name that no key has. */
static int number_schema(struct ctr_group *g, struct ctr_err *err)
{
    char name[32] = "number";
    for (int i = 0; ctr_schema_find(&g->keys, name) >= 0; i++)
        snprintf(name, sizeof name, "number%d", i);
    const int rc = ctr_schema_copy(&g->numbered, &g->keys, err);
    return rc ? rc : ctr_schema_add(&g->numbered, name, CTR_I64, err);
}

static int unique_names(const struct ctr_group *g, struct ctr_err *err)
{
    bool twice = false;
    for (int i = 0; i < g->n; i++) {
        const char *name = g->agg[i].name;
        twice |= ctr_strs_find(&g->key_names, name) >= 0;
        for (int k = 0; k < i; k++)
            twice |= !strcmp(g->agg[k].name, name);
        if (twice)
            return ctr_fail(err, CTR_EUSAGE,
                            "two columns of the result are called %s: %s gives each a name of its own, NAME=%s(…)",
                            name, ctr_words(g->opts.in_plan, "--add", "="), ctr_aggregate_function(&g->agg[i]));
    }
    return 0;
}

/* Keys keep their roles; an aggregate has no role. */
static int result_schema(struct ctr_group *g, const struct ctr_schema *s, struct ctr_err *err)
{
    int rc = unique_names(g, err);
    if (!rc)
        rc = ctr_meta_copy(&g->out.meta, &s->meta, err);
    for (int i = 0; !rc && i < g->nkeys; i++)
        rc = ctr_schema_add_field(&g->out, &g->keys.f[i], NULL, err);
    for (int i = 0; !rc && i < g->n; i++)
        rc = ctr_schema_add_field(&g->out, &g->agg[i].of, g->agg[i].name, err);
    return rc;
}

/* Find the columns to read, and their positions in a batch projected to these. */
static int find_inputs(struct ctr_group *g, const struct ctr_schema *s, struct ctr_err *err)
{
    int *place = calloc((size_t)s->n + 1, sizeof *place);
    g->input = calloc((size_t)s->n + 1, sizeof *g->input);
    g->cols = calloc((size_t)g->taken.n + 1, sizeof *g->cols);
    if (!place || !g->input || !g->cols) {
        free(place);
        return ctr_fail_nomem(err, (size_t)s->n * sizeof *place);
    }
    for (int i = 0; i < g->taken.n; i++)
        place[g->from[i]] = 1;
    for (int i = 0; i < s->n; i++)
        if (place[i]) {
            place[i] = g->inputs;
            g->input[g->inputs++] = i;
        }
    for (int i = 0; i < g->taken.n; i++)
        g->from[i] = place[g->from[i]];
    free(place);
    return 0;
}

/* -k ad --add n=count() --add m=quantile(x,0.5) of the batches (b,5) (a,1) (b,7) and (c,2) (a,3) (c,4), with one part
 * whose memory is full after the first batch:
 *
 *     batch 1   numbers 0 1 0: b is group 0, a is group 1. n = 2 1; values: (0,5) (1,1) (0,7)
 *     batch 2   a has a number: n = 2 2; values: (1,3), too. c has none: both rows go to `rest`
 *     finish    end_values sorts the values, (0,5) (0,7) (1,1) (1,3): m = 6 2. `order` sorts the numbers: (a,1) (b,0);
 *               `rest` sorts (c,2) (c,4)
 *     next      `late` takes the rows of c: n = 2, m = 3. The cursors early_at, on a b, and late_at, on c, are merged:
 *               (a,2,2) (b,2,6) (c,2,3) */

/* ---- groups ---- */

/* What each of the groups in memory, their order, the rest and sorts of values may take. */
static int64_t memory_share(const struct ctr_group *g)
{
    return CTR_MAX(ctr_relation_memory(g->opts.memory_bytes) / (3 + g->nvalues * (g->opts.save ? 2 : 1)), 1);
}

static int new_sort(struct ctr_group *g, struct ctr_sort **s, const struct ctr_schema *schema, int keys,
                    struct ctr_err *err)
{
    struct ctr_strs names = { 0 };
    const struct ctr_sort_opts so = {
        .memory_bytes = memory_share(g), .keys = &names, .batch_rows = g->opts.batch_rows, .threads = g->opts.threads
    };
    int rc = 0;
    for (int i = 0; !rc && i < keys; i++)
        rc = ctr_names_add(&names, schema->f[i].name, err);
    if (!rc)
        rc = ctr_sort_new(s, schema, &so, err);
    ctr_strs_free(&names);
    return rc;
}

static void end_sort(struct ctr_group *g, struct ctr_sort **s)
{
    struct ctr_sort_stats st = { 0 };
    if (!*s)
        return;
    ctr_sort_get_stats(*s, &st);
    g->stats.runs += st.runs;
    g->stats.spilled_bytes += st.spilled_bytes;
    ctr_sort_free(*s);
    *s = NULL;
}

static int groups_init(struct ctr_group *g, struct groups *of, struct ctr_err *err)
{
    const struct ctr_sort_opts so = { .memory_bytes = memory_share(g), .keys = &g->value_keys };
    int rc = ctr_groupkeys_init(&of->keys, &g->keys, err);
    if (!rc)
        rc = ctr_groupstate_init(&of->state, g->agg, g->n, err);
    if (!rc && !(of->values = calloc((size_t)g->nvalues + 1, sizeof *of->values)))
        rc = ctr_fail_nomem(err, (size_t)g->nvalues * sizeof *of->values);
    for (int k = 0; !rc && k < g->nvalues; k++)
        rc = ctr_groupvalues_init(&of->values[k], &g->valued[k], &so, err);
    return rc;
}

static void groups_free(struct ctr_group *g, struct groups *of)
{
    for (int i = 0; of->values && i < g->nvalues; i++)
        ctr_groupvalues_free(&of->values[i]);
    free(of->values);
    ctr_groupkeys_free(&of->keys);
    ctr_groupstate_free(&of->state);
}

/* Rows of a batch into groups; *missing: of how many the keys have none, with `add` 0. */
static int take_rows(struct ctr_group *g, struct groups *of, const struct ctr_batch *b, const int32_t *row, int64_t n,
                     bool add, int64_t *number, int64_t *missing, struct ctr_err *err)
{
    int rc = ctr_groupkeys_find(&of->keys, b, (const uint64_t *)(const void *)g->hash.data, row, n, add, number, err);
    if (!rc)
        rc = ctr_groupstate_take(&of->state, b, row, number, n, of->keys.n, err);
    for (int k = 0; !rc && k < g->nvalues; k++)
        rc = ctr_groupvalues_add(&of->values[k], &b->col[g->value_column[k]], row, number, n, err);
    *missing = 0;
    for (int64_t i = 0; !add && i < n; i++)
        *missing += number[i] < 0;
    return rc;
}

/* The values of all groups in order: the results of distinct and quantile. */
static int end_values(struct ctr_group *g, struct groups *of, struct ctr_group_stats *st, struct ctr_err *err)
{
    int rc = 0;
    for (int k = 0; !rc && k < g->nvalues; k++) {
        struct ctr_grouprun run = { 0 };
        const struct ctr_batch *b;
        rc = ctr_groupvalues_finish(&of->values[k], of->keys.n, err);
        while (!rc && (rc = ctr_groupvalues_next(&of->values[k], &b, err)) > 0)
            if (!(rc = ctr_groupstate_ordered(&of->state, k, &run, b, err)) && g->opts.save)
                rc = ctr_groupsave_values(&g->save, k, ctr_batchbuf_view(&of->keys.key)->col, b, err);
        if (!rc)
            rc = ctr_groupstate_ordered_end(&of->state, k, &run, err);
        ctr_groupvalues_clear(&of->values[k], st);
        ctr_grouprun_free(&run);
    }
    return rc;
}

/* ---- making and freeing ---- */

static int make_parts(struct ctr_group *g, struct ctr_err *err)
{
    const int parts = CTR_MAX(1, CTR_MIN(g->opts.threads, MOST_PARTS));
    int rc = ctr_strs_split(&g->value_keys, "number,value", ',', err);
    if (!rc)
        rc = groups_init(g, &g->late, err);
    if (!(g->share = calloc((size_t)parts, sizeof *g->share)))
        return ctr_fail_nomem(err, (size_t)parts * sizeof *g->share);
    g->parts = parts;
    for (int i = 0; !rc && i < parts; i++)
        rc = groups_init(g, &g->share[i].groups, err);
    return rc || parts == 1 ? rc : ctr_pool_new(&g->pool, parts, CTR_FLOAT_IEEE, err);
}

int ctr_group_new(struct ctr_group **out, const struct ctr_schema *schema, const struct ctr_group_opts *o,
                  struct ctr_err *err)
{
    struct ctr_group *g = *out = NULL;
    if (!(g = calloc(1, sizeof *g)))
        return ctr_fail_nomem(err, sizeof *g);
    g->opts = *o;
    if (g->opts.batch_rows <= 0)
        g->opts.batch_rows = CTR_BATCH_ROWS;
    int rc = find_keys(g, schema, err);
    if (!rc)
        rc = find_aggregates(g, schema, err);
    if (!rc)
        rc = take_schemas(g, schema, err);
    if (!rc)
        rc = number_schema(g, err);
    if (!rc)
        rc = result_schema(g, schema, err);
    if (!rc)
        rc = find_inputs(g, schema, err);
    if (!rc)
        rc = make_parts(g, err);
    if (!rc)
        rc = ctr_batchbuf_init(&g->result, &g->out, err);
    const struct ctr_sort_opts so = { .memory_bytes = memory_share(g), .threads = g->opts.threads };
    if (!rc && o->save)
        rc =
            ctr_groupsave_init(&g->save, &g->keys, g->agg, g->n, g->late.state.stride, g->valued, g->nvalues, &so, err);
    if (!rc && o->sorted)
        rc = ctr_batchbuf_init(&g->last, &g->keys, err);
    g->opts.keys = g->opts.add = NULL;
    if (rc)
        ctr_group_free(g);
    else
        *out = g;
    return rc;
}

void ctr_group_free(struct ctr_group *g)
{
    if (!g)
        return;
    ctr_pool_free(g->pool);
    for (int i = 0; i < g->parts; i++) {
        groups_free(g, &g->share[i].groups);
        ctr_buf_free(&g->share[i].row);
        ctr_buf_free(&g->share[i].number);
    }
    groups_free(g, &g->late);
    for (int i = 0; i < g->nvalues; i++) /* what the groups borrow */
        ctr_schema_free(&g->valued[i]);
    free(g->share);
    ctr_sort_free(g->rest);
    ctr_sort_free(g->order);
    ctr_batchbuf_free(&g->picked);
    ctr_batchbuf_free(&g->result);
    ctr_groupsave_free(&g->save);
    ctr_batchbuf_free(&g->last);
    for (int i = 0; i < g->n; i++)
        ctr_aggregate_free(&g->agg[i]);
    ctr_schema_free(&g->keys);
    ctr_schema_free(&g->taken);
    ctr_schema_free(&g->numbered);
    ctr_schema_free(&g->out);
    ctr_strs_free(&g->key_names);
    ctr_strs_free(&g->value_keys);
    ctr_buf_free(&g->hash);
    ctr_buf_free(&g->of);
    ctr_buf_free(&g->numbers);
    free(g->valued);
    free(g->value_column);
    free(g->agg);
    free(g->key);
    free(g->input);
    free(g->from);
    free(g->cols);
    free(g);
}

const struct ctr_schema *ctr_group_schema(const struct ctr_group *g)
{
    return &g->out;
}

const int *ctr_group_inputs(const struct ctr_group *g, int *n)
{
    *n = g->inputs;
    return g->input;
}

void ctr_group_get_stats(const struct ctr_group *g, struct ctr_group_stats *st)
{
    *st = g->stats;
}

/* ---- taking in ---- */

/* Rows whose keys have no group, to be sorted by key. */
static int take_rest(struct ctr_group *g, const struct ctr_batch *b, const struct share *s, struct ctr_err *err)
{
    const int32_t *row = (const int32_t *)(const void *)s->row.data;
    const int64_t *number = (const int64_t *)(const void *)s->number.data;
    int64_t *index = malloc((size_t)s->missing * sizeof *index), n = 0;
    int rc = index ? 0 : ctr_fail_nomem(err, (size_t)s->missing * sizeof *index);
    if (!rc && !g->rest)
        rc = new_sort(g, &g->rest, &g->taken, g->nkeys, err);
    if (!rc && !g->picked.schema)
        rc = ctr_batchbuf_init(&g->picked, &g->taken, err);
    if (!rc) {
        ctr_batchbuf_clear(&g->picked);
        for (int64_t i = 0; i < s->n; i++)
            if (number[i] < 0)
                index[n++] = row[i];
        rc = ctr_batchbuf_gather(&g->picked, b, index, n, err);
    }
    free(index);
    return rc ? rc : ctr_sort_batch(g->rest, ctr_batchbuf_view(&g->picked), err);
}

static int list_rows(const struct ctr_group *g, struct share *s, int part, int64_t rows)
{
    const uint64_t *hash = (const uint64_t *)(const void *)g->hash.data;
    int rc = ctr_buf_room(&s->row, rows, sizeof(int32_t), &s->err);
    if (!rc)
        rc = ctr_buf_room(&s->number, rows, sizeof(int64_t), &s->err);
    if (rc)
        return rc;
    int32_t *row = (int32_t *)(void *)s->row.data;
    s->n = 0;
    for (int64_t i = 0; i < rows; i++) {
        row[s->n] = (int32_t)i;
        s->n += (int)((hash[i] >> 32) * (uint64_t)g->parts >> 32) == part;
    }
    return 0;
}

struct taking {
    struct ctr_group *g;
    const struct ctr_batch *b;
};

static void take_share(void *ctx, int64_t task, int worker)
{
    const struct taking *t = ctx;
    struct share *s = &t->g->share[task];
    (void)worker;
    s->rc = list_rows(t->g, s, (int)task, t->b->rows);
    if (!s->rc)
        s->rc = take_rows(t->g, &s->groups, t->b, (const int32_t *)(const void *)s->row.data, s->n, !t->g->full,
                          (int64_t *)(void *)s->number.data, &s->missing, &s->err);
}

/* One task a part. */
static void run_parts(struct taking *t, void (*fn)(void *ctx, int64_t task, int worker))
{
    if (t->g->pool)
        ctr_pool_run(t->g->pool, t->g->parts, fn, t);
    else
        fn(t, 0, 0);
}

static int hash_rows(struct ctr_group *g, const struct ctr_batch *b, struct ctr_err *err)
{
    int rc = ctr_buf_room(&g->hash, b->rows, sizeof(uint64_t), err);
    for (int i = 0; i < g->nkeys; i++)
        g->key[i] = i; /* the keys are the first columns of what is taken */
    return rc ? rc : ctr_keys_hash(b, g->key, g->nkeys, ctr_hash_secret, (uint64_t *)(void *)g->hash.data, NULL, err);
}

/* ---- rows that are sorted already ---- */

static int fail_order(const struct ctr_group *g, int64_t row, struct ctr_err *err)
{
    struct ctr_buf keys = { 0 };
    int rc = 0;
    for (int k = 0; !rc && k < g->nkeys; k++) {
        const struct ctr_col *c = &g->sorted.col[k];
        const bool null = ctr_col_missing(c, row);
        rc = ctr_buf_printf(&keys, err, "%s%s=%s", k ? ", " : "", g->key_names.s[k], null ? "null" : "");
        if (!rc && !null)
            rc = ctr_col_text(c, row, &keys, err);
    }
    if (!rc)
        rc = ctr_fail(err, CTR_EDATA,
                      "row %lld (%.*s) is not in order of the keys: leave out %s, or sort it (ctr-sort -k)",
                      (long long)(g->sorted.first_row + row + 1), (int)CTR_MIN(keys.len, (size_t)300),
                      (const char *)keys.data, ctr_word(g->opts.in_plan, "--sorted"));
    ctr_buf_free(&keys);
    return rc;
}

/* Is the order that of ctr_sort? */
static int check_order(struct ctr_group *g, struct ctr_err *err)
{
    const struct ctr_batch keys = { &g->keys, g->sorted.rows, g->sorted.first_row, g->sorted.col };
    const struct ctr_batch *last = ctr_batchbuf_view(&g->last);
    for (int64_t i = last->rows ? 0 : 1; i < g->sorted.rows; i++) {
        int order = 0;
        for (int k = 0; !order && k < g->nkeys; k++)
            order = ctr_col_compare(&g->sorted.col[k], i, i ? &g->sorted.col[k] : &last->col[k], i ? i - 1 : 0);
        if (order < 0)
            return fail_order(g, i, err);
    }
    if (!g->sorted.rows)
        return 0;
    ctr_batchbuf_clear(&g->last);
    return ctr_batchbuf_range(&g->last, &keys, keys.rows - 1, 1, err);
}

static int sorted_batch(struct ctr_group *g, const struct ctr_batch *taken, struct ctr_err *err)
{
    g->sorted = *taken;
    g->rows = &g->sorted;
    g->next_row = 0;
    const int rc = check_order(g, err);
    return rc ? rc : hash_rows(g, g->rows, err);
}

int ctr_group_batch(struct ctr_group *g, const struct ctr_batch *b, struct ctr_err *err)
{
    struct ctr_batch taken = { .schema = &g->taken, .rows = b->rows, .first_row = b->first_row, .col = g->cols };
    struct taking t = { g, &taken };
    int64_t bytes = 0;
    g->stats.rows += b->rows;
    for (int i = 0; i < g->taken.n; i++)
        g->cols[i] = b->col[g->from[i]];
    if (g->opts.sorted)
        return sorted_batch(g, &taken, err);
    int rc = hash_rows(g, &taken, err);
    if (rc)
        return rc;
    run_parts(&t, take_share);
    for (int i = 0; !rc && i < g->parts; i++) {
        struct share *s = &g->share[i];
        rc = s->rc;
        if (rc)
            *err = s->err;
        else if (s->missing)
            rc = take_rest(g, &taken, s, err);
        bytes += ctr_groupkeys_bytes(&s->groups.keys) + ctr_groupstate_bytes(&s->groups.state);
    }
    g->full |= bytes > memory_share(g) / 4 * 3;
    return rc;
}

/* ---- states of an earlier run ---- */

int ctr_group_state_sections(const struct ctr_group *g)
{
    return 1 + g->nvalues;
}

const struct ctr_schema *ctr_group_state_schema(const struct ctr_group *g, int section)
{
    return ctr_groupsave_schema(&g->save, section);
}

int ctr_group_state_check(const struct ctr_group *g, int section, const struct ctr_schema *of, struct ctr_err *err)
{
    return ctr_groupsave_check(&g->save, section, of, err);
}

/* Values of groups that are there: each as many times as it came. */
static int restore_values(struct ctr_group *g, struct share *s, const struct ctr_batch *b, int part, int k,
                          struct ctr_err *err)
{
    struct groups *of = &s->groups;
    const struct ctr_col *times = &b->col[g->nkeys + 1];
    int32_t row[256];
    int64_t same[256];
    int rc = list_rows(g, s, part, b->rows);
    const int32_t *listed = (const int32_t *)(const void *)s->row.data;
    int64_t *number = (int64_t *)(void *)s->number.data;
    if (rc)
        *err = s->err;
    if (!rc)
        rc = ctr_groupkeys_find(&of->keys, b, (const uint64_t *)(const void *)g->hash.data, listed, s->n, false, number,
                                err);
    for (int64_t i = 0; !rc && i < s->n; i++) {
        int64_t left = ctr_col_missing(times, listed[i]) ? 0 : ctr_col_i64(times, listed[i]);
        if (number[i] < 0 || left < 1 || left > (int64_t)UINT32_MAX)
            return ctr_fail(err, CTR_EDATA, "row %lld: values of no group", (long long)(b->first_row + listed[i] + 1));
        for (size_t j = 0; j < CTR_COUNT(row); j++) {
            row[j] = listed[i];
            same[j] = number[i];
        }
        for (int64_t n; !rc && left > 0; left -= n) {
            n = CTR_MIN(left, (int64_t)CTR_COUNT(row));
            rc = ctr_groupvalues_add(&of->values[k], &b->col[g->nkeys], row, same, n, err);
        }
    }
    return rc;
}

static int restore_share(struct ctr_group *g, struct share *s, const struct ctr_batch *b, int part, struct ctr_err *err)
{
    struct groups *of = &s->groups;
    int rc = list_rows(g, s, part, b->rows);
    const int32_t *row = (const int32_t *)(const void *)s->row.data;
    int64_t *number = (int64_t *)(void *)s->number.data;
    const int64_t before = of->keys.n;
    if (rc)
        *err = s->err;
    if (!rc)
        rc = ctr_groupkeys_find(&of->keys, b, (const uint64_t *)(const void *)g->hash.data, row, s->n, true, number,
                                err);
    for (int64_t i = 0; !rc && i < s->n; i++)
        if (number[i] != before + i)
            return ctr_fail(err, CTR_EDATA, "row %lld: these keys came before", (long long)(b->first_row + row[i] + 1));
    if (!rc) /* room for them */
        rc = ctr_groupstate_take(&of->state, b, row, number, 0, of->keys.n, err);
    return rc ? rc : ctr_groupsave_restore(&g->save, &of->state, b, row, number, s->n, err);
}

int ctr_group_restore(struct ctr_group *g, int section, const struct ctr_batch *b, struct ctr_err *err)
{
    const int64_t most = memory_share(g);
    int64_t bytes = 0, groups = 0;
    int rc = hash_rows(g, b, err);
    for (int i = 0; section && !rc && i < g->parts; i++)
        rc = restore_values(g, &g->share[i], b, i, section - 1, err);
    if (section)
        return rc;
    for (int i = 0; !rc && i < g->parts; i++) {
        rc = restore_share(g, &g->share[i], b, i, err);
        bytes += ctr_groupkeys_bytes(&g->share[i].groups.keys) + ctr_groupstate_bytes(&g->share[i].groups.state);
        groups += g->share[i].groups.keys.n;
    }
    if (!rc && bytes > most)
        rc = ctr_fail(err, CTR_ENOMEM, "%lld groups of the state take %s, and a third of --memory is %s; give more",
                      (long long)groups, ctr_size_text_beyond((uint64_t)bytes, (uint64_t)most).s,
                      ctr_size_text((uint64_t)most).s);
    return rc;
}

/* The groups of a part, to be sorted by key. */
static int order_part(struct ctr_group *g, int part, struct ctr_err *err)
{
    struct ctr_groupkeys *keys = &g->share[part].groups.keys;
    const struct ctr_batch *all = ctr_batchbuf_view(&keys->key);
    struct ctr_col *col = calloc((size_t)g->nkeys + 1, sizeof *col);
    struct ctr_part some = { 0 };
    struct ctr_buf number = { 0 };
    int rc = col ? ctr_buf_room(&number, CTR_BATCH_ROWS, sizeof(int64_t), err)
                 : ctr_fail_nomem(err, (size_t)g->nkeys * sizeof *col);
    for (int64_t at = 0; !rc && at < keys->n; at += CTR_BATCH_ROWS) {
        const int64_t n = CTR_MIN(keys->n - at, (int64_t)CTR_BATCH_ROWS);
        int64_t *v = (int64_t *)(void *)number.data;
        rc = ctr_batch_part(&some, all, at, n, err);
        if (rc)
            break;
        for (int64_t i = 0; i < n; i++)
            v[i] = (int64_t)part << NUMBER_BITS | (at + i);
        memcpy(col, some.batch.col, (size_t)g->nkeys * sizeof *col);
        col[g->nkeys] = (struct ctr_col){ .type = CTR_I64, .rows = n, .data = v };
        const struct ctr_batch b = { .schema = &g->numbered, .rows = n, .first_row = at, .col = col };
        rc = ctr_sort_batch(g->order, &b, err);
    }
    ctr_part_free(&some);
    ctr_buf_free(&number);
    free(col);
    return rc;
}

static void end_share(void *ctx, int64_t task, int worker)
{
    const struct taking *t = ctx;
    struct share *s = &t->g->share[task];
    (void)worker;
    s->rc = end_values(t->g, &s->groups, &s->stats, &s->err);
}

int ctr_group_finish(struct ctr_group *g, struct ctr_err *err)
{
    if (g->opts.sorted) {
        g->finished = true;
        g->rows = NULL;
        return 0;
    }
    int rc = new_sort(g, &g->order, &g->numbered, g->nkeys, err);
    if (!rc && !g->opts.save)
        run_parts(&(struct taking){ g, NULL }, end_share);
    for (int i = 0; !rc && g->opts.save && i < g->parts; i++) /* they share the sorts of their states */
        end_share(&(struct taking){ g, NULL }, i, 0);
    for (int i = 0; !rc && i < g->parts; i++) {
        const struct share *s = &g->share[i];
        if ((rc = s->rc))
            *err = s->err;
        else
            rc = order_part(g, i, err);
        g->stats.runs += s->stats.runs;
        g->stats.spilled_bytes += s->stats.spilled_bytes;
    }
    if (!rc)
        rc = ctr_sort_finish(g->order, err);
    if (!rc && g->rest)
        rc = ctr_sort_finish(g->rest, err);
    g->finished = true;
    return rc;
}

/* ---- giving ---- */

/* How many of the next rows of the rest have the keys of the last late group. */
static int64_t rows_of_last(const struct ctr_group *g)
{
    int64_t n = 0;
    for (bool same = true; same && g->next_row + n < g->rows->rows; n += same)
        for (int k = 0; same && k < g->nkeys; k++)
            same = !ctr_col_compare(&g->rows->col[k], g->next_row + n, &g->late.keys.key.views[k], g->late.keys.n - 1);
    return n;
}

static int take_late(struct ctr_group *g, int64_t n, struct ctr_err *err)
{
    struct share *s = &g->share[0]; /* its lists are free now */
    int rc = ctr_buf_room(&s->row, n, sizeof(int32_t), err);
    if (!rc)
        rc = ctr_buf_room(&s->number, n, sizeof(int64_t), err);
    if (rc)
        return rc;
    for (int64_t i = 0; i < n; i++)
        ((int32_t *)(void *)s->row.data)[i] = (int32_t)(g->next_row + i);
    g->next_row += n;
    return take_rows(g, &g->late, g->rows, (const int32_t *)(const void *)s->row.data, n, true,
                     (int64_t *)(void *)s->number.data, &s->missing, err);
}

/* Some thousand groups more of the rest, whole ones; none at its end. */
static int next_late(struct ctr_group *g, struct ctr_err *err)
{
    int rc = 0;
    ctr_groupkeys_clear(&g->late.keys);
    ctr_groupstate_clear(&g->late.state);
    while (!rc && g->rest) {
        const bool enough = g->late.keys.n >= LATE_GROUPS;
        if (!g->rows || g->next_row == g->rows->rows) {
            g->next_row = 0;
            rc = ctr_sort_next(g->rest, &g->rows, err);
            if (!rc) {
                g->rows = NULL;
                end_sort(g, &g->rest);
            }
            rc = rc > 0 ? hash_rows(g, g->rows, err) : rc;
            continue;
        }
        const int64_t n = enough ? rows_of_last(g) : g->rows->rows - g->next_row;
        if (!n)
            break;
        rc = take_late(g, n, err);
    }
    if (!rc)
        rc = end_values(g, &g->late, &g->stats, err);
    (void)ctr_batchbuf_view(&g->late.keys.key);
    g->late_at = (struct cursor){ g->late.keys.key.views, 0, g->late.keys.n };
    return rc;
}

/* The same of batches that are sorted: 1: whole groups are there to give; 0: the batch has no more rows. */
static int next_sorted(struct ctr_group *g, struct ctr_err *err)
{
    int rc = 0;
    if (g->late_at.n) { /* they are given */
        ctr_groupkeys_clear(&g->late.keys);
        ctr_groupstate_clear(&g->late.state);
        g->late_at = (struct cursor){ 0 };
    }
    while (!rc && g->rows && g->next_row < g->rows->rows) {
        const bool enough = g->late.keys.n >= LATE_GROUPS;
        const int64_t n = enough ? rows_of_last(g) : g->rows->rows - g->next_row;
        if (!n)
            break;
        rc = take_late(g, n, err);
    }
    const bool whole = g->finished || (g->rows && g->next_row < g->rows->rows);
    if (rc || !whole || !g->late.keys.n)
        return rc;
    rc = end_values(g, &g->late, &g->stats, err);
    (void)ctr_batchbuf_view(&g->late.keys.key);
    g->late_at = (struct cursor){ g->late.keys.key.views, 0, g->late.keys.n };
    return rc ? rc : 1;
}

static int next_early(struct ctr_group *g, struct ctr_err *err)
{
    const int rc = ctr_sort_next(g->order, &g->ordered, err);
    g->early_at = rc > 0 ? (struct cursor){ g->ordered->col, 0, g->ordered->rows } : (struct cursor){ 0 };
    if (!rc)
        end_sort(g, &g->order);
    return CTR_MIN(rc, 0);
}

/* Prefix an error with the keys of the group in a row of the result. */
static int in_group(struct ctr_group *g, int64_t row, struct ctr_err *err)
{
    const struct ctr_err why = *err;
    struct ctr_buf keys = { 0 };
    int rc = 0;
    for (int i = 0; !rc && i < g->nkeys; i++) {
        const struct ctr_col *c = ctr_colbuf_view(&g->result.col[i]);
        rc = ctr_buf_printf(&keys, err, "%s%s=%s", i ? ", " : "", g->key_names.s[i],
                            ctr_col_missing(c, row) ? "null" : "");
        if (!rc && !ctr_col_missing(c, row))
            rc = ctr_col_text(c, row, &keys, err);
    }
    *err = why;
    if (!rc && keys.len)
        (void)ctr_fail(err, why.code, "the group %.*s: %s", (int)CTR_MIN(keys.len, (size_t)300), (char *)keys.data,
                       why.what);
    ctr_buf_free(&keys);
    return why.code;
}

/* Append the next n groups of a cursor to the result. */
static int give(struct ctr_group *g, struct cursor *c, int64_t n, struct ctr_err *err)
{
    const int64_t before = g->result.col[0].rows;
    int64_t failed = 0;
    int rc = ctr_buf_room(&g->of, n, sizeof(void *), err);
    if (!rc)
        rc = ctr_buf_room(&g->numbers, n, sizeof(int64_t), err);
    struct ctr_groupstate **of = (struct ctr_groupstate **)(void *)g->of.data;
    int64_t *number = (int64_t *)(void *)g->numbers.data;
    for (int64_t i = 0; !rc && i < n; i++)
        if (c == &g->late_at) {
            of[i] = &g->late.state;
            number[i] = c->at + i;
        } else {
            const int64_t v = ((const int64_t *)c->key[g->nkeys].data)[c->at + i];
            of[i] = &g->share[v >> NUMBER_BITS].groups.state;
            number[i] = v & (((int64_t)1 << NUMBER_BITS) - 1);
        }
    for (int k = 0; !rc && k < g->nkeys; k++)
        rc = ctr_colbuf_range(&g->result.col[k], &c->key[k], c->at, n, err);
    for (int i = 0; !rc && i < g->n; i++)
        rc = ctr_groupstate_give(&g->agg[i], of, number, n, &g->result.col[g->nkeys + i], &failed, err);
    if (rc == CTR_EDATA)
        rc = in_group(g, before + failed, err);
    const struct ctr_batch *states;
    if (!rc && g->opts.save)
        rc = ctr_groupsave_rows(&g->save, c->key, c->at, of, number, n, &states, err);
    if (!rc && g->opts.save)
        rc = g->opts.save(g->opts.save_ctx, 0, states, err);
    c->at += n;
    g->stats.groups += n;
    return rc;
}

/* The cursor whose next group comes first; NULL: there is none. */
static struct cursor *first_cursor(struct ctr_group *g)
{
    struct cursor *a = &g->early_at, *b = &g->late_at;
    if (a->at == a->n || b->at == b->n)
        return a->at < a->n ? a : b->at < b->n ? b : NULL;
    for (int k = 0; k < g->nkeys; k++) {
        const int order = ctr_col_compare(&a->key[k], a->at, &b->key[k], b->at);
        if (order)
            return order < 0 ? a : b;
    }
    return a;
}

static int give_sorted(struct ctr_group *g, const struct ctr_batch **out, struct ctr_err *err)
{
    int rc = g->late_at.at < g->late_at.n ? 1 : next_sorted(g, err);
    if (rc <= 0)
        return rc;
    ctr_batchbuf_clear(&g->result);
    rc = give(g, &g->late_at, CTR_MIN(g->late_at.n - g->late_at.at, g->opts.batch_rows), err);
    *out = ctr_batchbuf_view(&g->result);
    return rc ? rc : 1;
}

/* The sections of values, then the end. */
static int save_values(struct ctr_group *g, struct ctr_err *err)
{
    const struct ctr_batch *b;
    int rc = 0;
    for (int k = 0; !rc && k < g->nvalues; k++) {
        rc = ctr_sort_finish(g->save.sort[k], err);
        while (!rc && (rc = ctr_groupsave_next(&g->save, k, &b, err)) > 0)
            rc = g->opts.save(g->opts.save_ctx, 1 + k, b, err);
    }
    return rc ? rc : g->opts.save(g->opts.save_ctx, g->nvalues, NULL, err);
}

int ctr_group_next(struct ctr_group *g, const struct ctr_batch **out, struct ctr_err *err)
{
    int rc = 0;
    if (g->opts.sorted)
        return give_sorted(g, out, err);
    ctr_batchbuf_clear(&g->result);
    while (!rc && g->finished && g->result.col[0].rows < g->opts.batch_rows) {
        if (g->early_at.at == g->early_at.n && g->order)
            rc = next_early(g, err);
        else if (g->late_at.at == g->late_at.n && g->rest)
            rc = next_late(g, err);
        else {
            struct cursor *c = first_cursor(g);
            const bool both = g->early_at.at < g->early_at.n && g->late_at.at < g->late_at.n;
            if (!c)
                break;
            rc = give(g, c, both ? 1 : CTR_MIN(c->n - c->at, g->opts.batch_rows - g->result.col[0].rows), err);
        }
    }
    if (rc)
        return rc;
    *out = ctr_batchbuf_view(&g->result);
    if (g->finished && !(*out)->rows && g->opts.save && !g->saved) {
        g->saved = true;
        rc = save_values(g, err);
    }
    return rc ? rc : (*out)->rows > 0;
}
