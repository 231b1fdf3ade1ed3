/* SPDX-License-Identifier: Apache-2.0
 *
 * negatives: rows go through `hold`, which takes in what users took before rows that may not draw it are answered:
 * without a time the whole log, which waits in a spool; with a time the rows of each moment, which wait in `held` until
 * a later one comes. Invariant: what is drawn for a row does not depend on batches. */
#include "tools/ctr-sample/negatives.h"
#include "common/rows/relation.h"
#include "common/rows/spool.h"
#include "tools/ctr-sample/items.h"

#include <stdlib.h>

struct ctr_negatives {
    struct ctr_negatives_opts o;
    struct ctr_schema in, out; /* in: without dictionaries where rows wait */
    struct ctr_items items;
    int item;     /* column of the log */
    int *replace; /* by column of the log: the column of ITEMS that stands for it in negatives; -1: none */
    struct ctr_keyvalue_rows user, key;
    struct ctr_buf labels;
    const double *label;
    struct ctr_spool *spool;
    struct ctr_reader *r;
    struct ctr_batchbuf held, rest; /* with a time: rows of the last moment, and those behind it */
    struct ctr_batch waiting;       /* a view of held */
    bool any, finished;
    int64_t newest;
    /* the rows that are answered: [pos, to) of the batch */
    const struct ctr_batch *b;
    int64_t pos, to, first;            /* first: number of the batch's first row */
    int64_t moment, moment_end;        /* with a time: rows that are known, but not counted yet */
    struct ctr_buf idx, drawn, number; /* of the result: rows of b; items, -1: the row itself; of one row */
    struct ctr_batchbuf result;
    struct ctr_negatives_stats st;
};

/* With a time and --negatives 2, rows (user, item, time) u1 a 9:00, u1 b 9:00, u2 a 9:05, all of them clicks:
 *
 *     push 1-2          wait in `held`: more rows of 9:00 may come
 *     push 3            9:00 is over: rows 1 and 2 are answered, row 3 waits
 *     next_moment       u1 has taken a and b at once, so neither is a negative of row 1
 *     answer            row 1, then two items that were known at 9:00 and that u1 has not taken (--popular: weighed by
 *                       their counts so far)
 *     idx, drawn        0 0 0 1 1 1 and -1 4 7 -1 7 2: rows of the log, and items; -1 is the row itself
 *     make_result       columns of the item from ITEMS where drawn >= 0, the others from the row; label 1 0 0 1 0 0
 *     next moment       only now do a and b of 9:00 count as more popular
 *
 * Without a time, all rows are taken and counted first while the spool stores them, and the second reading answers. */

static bool as_of(const struct ctr_negatives *s)
{
    return s->o.time >= 0;
}

/* ---- columns ---- */

static int fail_type(const struct ctr_field *log, const struct ctr_field *item, const char *name, struct ctr_err *err)
{
    char a[128], b[128];
    return ctr_fail(err, CTR_EUSAGE, "%s is %s, and %s in %s: cast one of them (ctr-select --add), or rename it there",
                    log->name, ctr_field_type_name(log, a, sizeof a), ctr_field_type_name(item, b, sizeof b), name);
}

/* What a row is, and not its item. */
static bool of_the_row(const struct ctr_negatives *s, const struct ctr_schema *in, int i)
{
    const int role = ctr_field_role(&in->f[i]);
    return i == s->o.user || i == s->o.label || i == s->o.time || role == CTR_ROLE_USER || role == CTR_ROLE_TIME ||
           role == CTR_ROLE_QUERY || role == CTR_ROLE_LABEL || role == CTR_ROLE_WEIGHT;
}

static int match_columns(struct ctr_negatives *s, const struct ctr_schema *in, const struct ctr_schema *items,
                         const char *name, struct ctr_err *err)
{
    if (!items->n)
        return ctr_fail(err, CTR_EUSAGE, "%s has no column: the first one names the item", name);
    s->item = ctr_schema_find(in, items->f[0].name);
    if (s->item < 0)
        return ctr_fail(err, CTR_EUSAGE,
                        "the first column of %s, %s, names the item, and the log has no such column: ctr-select "
                        "--columns chooses and renames",
                        name, items->f[0].name);
    if (ctr_type_list(in->f[s->item].type))
        return ctr_fail(err, CTR_EUSAGE, "%s is a list, and a list is no item: ctr-select --explode", items->f[0].name);
    if (s->o.label >= 0 && in->f[s->o.label].type != CTR_BOOL && !ctr_type_number(in->f[s->o.label].type))
        return ctr_fail(err, CTR_EUSAGE, "the label %s is neither a bool nor a number", in->f[s->o.label].name);
    if (!(s->replace = malloc(((size_t)in->n + 1) * sizeof *s->replace)))
        return ctr_fail_nomem(err, (size_t)in->n * sizeof *s->replace);
    for (int i = 0; i < in->n; i++) {
        s->replace[i] = of_the_row(s, in, i) ? -1 : ctr_schema_find(items, in->f[i].name);
        if (s->replace[i] >= 0 && !ctr_field_same_type(&in->f[i], &items->f[s->replace[i]]))
            return fail_type(&in->f[i], &items->f[s->replace[i]], name, err);
    }
    if (s->item == s->o.user || s->replace[s->item] < 0)
        return ctr_fail(err, CTR_EUSAGE, "the item %s is also the user, the label, the time, the query or the weight",
                        in->f[s->item].name);
    return 0;
}

/* Only rows that stay in their batch can keep dictionaries. */
static int make_schemas(struct ctr_negatives *s, const struct ctr_schema *in, struct ctr_err *err)
{
    int rc = ctr_schema_copy(&s->in, in, err);
    for (int i = 0; !rc && as_of(s) && i < in->n; i++)
        s->in.f[i].dict = false;
    if (!rc)
        rc = ctr_schema_copy(&s->out, &s->in, err);
    for (int i = 0; !rc && i < in->n; i++)
        if (s->replace[i] >= 0 || i == s->o.label)
            s->out.f[i].dict = false;
    if (rc || s->o.label >= 0)
        return rc;
    if (ctr_schema_find(in, "label") >= 0)
        return ctr_fail(err, CTR_EUSAGE, "there is a column 'label' without the role label: --label label uses it");
    rc = ctr_schema_add(&s->out, "label", CTR_I8, err);
    return rc ? rc : ctr_field_set_role(&s->out.f[in->n], CTR_ROLE_LABEL, err);
}

/* The column of ITEMS with the time from which on an item is known; -1: none. */
static int known_column(const struct ctr_negatives *s, const struct ctr_schema *in, const struct ctr_schema *items,
                        const char *name, int *column, struct ctr_err *err)
{
    *column = -1;
    if (!as_of(s))
        return 0;
    const struct ctr_field *log = &in->f[s->o.time];
    *column = s->o.known ? ctr_schema_need(items, s->o.known, err) : ctr_schema_find(items, log->name);
    if (s->o.known && *column < 0) {
        ctr_err_file(err, name);
        return *column;
    }
    const bool whole = log->type == CTR_TIME || (ctr_types[log->type].integer && log->type != CTR_U64);
    if (!whole)
        return ctr_fail(err, CTR_EUSAGE, "the time %s must be a timestamp, or an integer (ms)", log->name);
    const bool alike = *column < 0 || (items->f[*column].type == CTR_TIME) == (log->type == CTR_TIME);
    const bool number = *column < 0 || items->f[*column].type == CTR_TIME || ctr_types[items->f[*column].type].integer;
    return alike && number ? 0 : fail_type(log, &items->f[*column], name, err);
}

int ctr_negatives_new(struct ctr_negatives **out, const struct ctr_schema *in, const struct ctr_batch_source *items,
                      const char *items_name, const struct ctr_negatives_opts *o, struct ctr_err *err)
{
    struct ctr_negatives *s = *out = calloc(1, sizeof *s);
    const struct ctr_schema *of = ctr_batch_source_schema(items);
    int known = -1, rc;
    if (!s)
        return ctr_fail_nomem(err, sizeof *s);
    s->o = *o;
    s->items.popular = o->popular;
    s->items.seed = o->seed;
    s->items.most_bytes = ctr_relation_memory(o->memory_bytes);
    rc = match_columns(s, in, of, items_name, err);
    if (!rc)
        rc = make_schemas(s, in, err);
    if (!rc)
        rc = known_column(s, in, of, items_name, &known, err);
    if (!rc)
        rc = ctr_items_read(&s->items, items, items_name, 0, known, err);
    s->st.items = s->items.n;
    if (!rc && as_of(s))
        rc = ctr_items_weigh(&s->items, err);
    if (!rc)
        rc = ctr_batchbuf_init(&s->result, &s->out, err);
    if (!rc && as_of(s))
        rc = ctr_batchbuf_init(&s->held, &s->in, err);
    if (!rc && as_of(s))
        rc = ctr_batchbuf_init(&s->rest, &s->in, err);
    if (!rc && !as_of(s))
        rc = ctr_spool_new(&s->spool, &s->in, err);
    if (rc) {
        ctr_negatives_free(s);
        *out = NULL;
    }
    return rc;
}

void ctr_negatives_free(struct ctr_negatives *s)
{
    if (!s)
        return;
    ctr_reader_free(s->r);
    ctr_spool_free(s->spool);
    struct ctr_batchbuf *buf[] = { &s->result, &s->held, &s->rest };
    for (size_t i = 0; i < CTR_COUNT(buf); i++)
        ctr_batchbuf_free(buf[i]);
    ctr_items_free(&s->items);
    ctr_keyvalue_rows_free(&s->user);
    ctr_keyvalue_rows_free(&s->key);
    ctr_buf_free(&s->labels);
    ctr_buf_free(&s->idx);
    ctr_buf_free(&s->drawn);
    ctr_buf_free(&s->number);
    ctr_schema_free(&s->in);
    ctr_schema_free(&s->out);
    free(s->replace);
    free(s);
}

void ctr_negatives_get_stats(const struct ctr_negatives *s, struct ctr_negatives_stats *st)
{
    *st = s->st;
}

/* ---- what was taken ---- */

/* Read users, items and labels of a batch. */
static int read_rows(struct ctr_negatives *s, const struct ctr_batch *b, struct ctr_err *err)
{
    int rc = ctr_keyvalue_read(&s->user, b, &s->o.user, 1, err);
    if (!rc)
        rc = ctr_keyvalue_read(&s->key, b, &s->item, 1, err);
    s->label = NULL;
    if (!rc && s->o.label >= 0)
        rc = ctr_col_checked(&b->col[s->o.label], CTR_ROLE_LABEL, s->in.f[s->o.label].name, b->first_row, &s->labels,
                             &s->label, err);
    for (int64_t i = 0; !rc && i < b->rows; i++)
        if (s->user.row[i].null || s->key.row[i].null)
            rc = ctr_fail(err, CTR_EDATA, "row %lld: the %s is null; leave such rows out (ctr-select --where)",
                          (long long)(b->first_row + i + 1), s->user.row[i].null ? "user" : "item");
    return rc;
}

static bool is_taken(const struct ctr_negatives *s, int64_t i)
{
    return !s->label || s->label[i] > 0;
}

/* The rows [from, to) of the batch, whose users and items are read. */
static int take(struct ctr_negatives *s, int64_t from, int64_t to, struct ctr_err *err)
{
    int rc = 0;
    for (int64_t i = from; !rc && i < to; i++) {
        const int64_t item = is_taken(s, i) ? ctr_items_find(&s->items, &s->key.row[i]) : -1;
        s->st.unknown += is_taken(s, i) && item < 0;
        if (item >= 0)
            rc = ctr_items_take(&s->items, &s->user.row[i], item, err);
    }
    return rc;
}

static void count(struct ctr_negatives *s, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++) {
        const int64_t item = is_taken(s, i) ? ctr_items_find(&s->items, &s->key.row[i]) : -1;
        if (item >= 0)
            ctr_items_count(&s->items, item);
    }
}

/* ---- rows in ---- */

static int64_t time_of(const struct ctr_negatives *s, const struct ctr_batch *b, int64_t i)
{
    const struct ctr_col *c = ctr_col_plain(&b->col[s->o.time], &i);
    return ctr_col_i64(c, i);
}

static int check_times(struct ctr_negatives *s, const struct ctr_batch *b, struct ctr_err *err)
{
    char is[64], was[64];
    for (int64_t i = 0; i < b->rows; i++) {
        if (ctr_col_missing(&b->col[s->o.time], i))
            return ctr_fail(err, CTR_EDATA, "row %lld: its time %s is null; leave such rows out (ctr-select --where)",
                            (long long)(b->first_row + i + 1), s->in.f[s->o.time].name);
        const int64_t t = time_of(s, b, i);
        if (s->any && t < s->newest) {
            is[ctr_time_iso(is, t)] = was[ctr_time_iso(was, s->newest)] = 0;
            return ctr_fail(err, CTR_EDATA,
                            "row %lld: its time %s runs backwards, behind %s; sort the log first (ctr-sort -k %s)",
                            (long long)(b->first_row + i + 1), is, was, s->in.f[s->o.time].name);
        }
        s->newest = t;
        s->any = true;
    }
    return 0;
}

/* Answer the rows of `held` whose moment is over. */
static int answer_held(struct ctr_negatives *s, struct ctr_err *err)
{
    s->waiting = *ctr_batchbuf_view(&s->held);
    s->waiting.first_row = s->first;
    s->b = &s->waiting;
    s->pos = s->moment_end = 0;
    s->to = s->b->rows;
    while (!s->finished && s->to && time_of(s, s->b, s->to - 1) == s->newest)
        s->to--;
    return s->to ? read_rows(s, s->b, err) : 0;
}

static int push(void *object, const struct ctr_batch *b, struct ctr_err *err)
{
    struct ctr_negatives *s = object;
    int rc = as_of(s) ? check_times(s, b, err) : read_rows(s, b, err);
    s->st.rows += b->rows;
    if (rc)
        return rc;
    if (!as_of(s)) {
        rc = take(s, 0, b->rows, err);
        count(s, 0, rc ? 0 : b->rows);
        return rc ? rc : ctr_spool_batch(s->spool, b, err);
    }
    rc = ctr_batchbuf_range(&s->held, b, 0, b->rows, err);
    return rc ? rc : answer_held(s, err);
}

static int finish(void *object, struct ctr_err *err)
{
    struct ctr_negatives *s = object;
    s->finished = true;
    if (as_of(s))
        return answer_held(s, err);
    const int rc = ctr_items_weigh(&s->items, err);
    return rc ? rc : ctr_spool_reread(s->spool, &s->r, err);
}

/* The rows that are answered leave. */
static int let_go(struct ctr_negatives *s, struct ctr_err *err)
{
    const int64_t left = s->b->rows - s->to;
    s->first += s->to;
    ctr_batchbuf_clear(&s->rest);
    int rc = left ? ctr_batchbuf_range(&s->rest, s->b, s->to, left, err) : 0;
    const struct ctr_batchbuf swap = s->held;
    s->held = s->rest;
    s->rest = swap;
    s->b = NULL;
    return rc;
}

/* ---- rows out ---- */

static int add_row(struct ctr_negatives *s, int64_t row, int64_t item, struct ctr_err *err)
{
    const int rc = ctr_buf_append(&s->idx, &row, sizeof row, err);
    return rc ? rc : ctr_buf_append(&s->drawn, &item, sizeof item, err);
}

/* With a time: the rows of the moment of row i become known: what was taken at once, the counts when it is over. */
static int next_moment(struct ctr_negatives *s, int64_t i, struct ctr_err *err)
{
    if (i < s->moment_end)
        return 0;
    count(s, s->moment, s->moment_end);
    s->moment = i;
    for (s->moment_end = i + 1; s->moment_end < s->to && time_of(s, s->b, s->moment_end) == time_of(s, s->b, i);)
        s->moment_end++;
    return take(s, s->moment, s->moment_end, err);
}

static int answer(struct ctr_negatives *s, int64_t i, struct ctr_err *err)
{
    int rc = as_of(s) ? next_moment(s, i, err) : 0;
    if (!rc)
        rc = add_row(s, i, -1, err);
    if (rc || !is_taken(s, i))
        return rc;
    const int64_t among = as_of(s) ? ctr_items_known(&s->items, time_of(s, s->b, i)) : s->items.n;
    int64_t *drawn = (int64_t *)(void *)s->number.data;
    const int64_t n = ctr_items_draw(&s->items, &s->user.row[i], s->first + i, among, drawn, s->o.n);
    s->st.taken++;
    s->st.drawn += n;
    s->st.fewer += n < s->o.n;
    for (int64_t k = 0; !rc && k < n; k++)
        rc = add_row(s, i, drawn[k], err);
    return rc;
}

/* A column that negatives take from ITEMS. */
static int put_item(struct ctr_negatives *s, struct ctr_colbuf *to, const struct ctr_col *log, int column, int64_t n,
                    struct ctr_err *err)
{
    const int64_t *idx = (const int64_t *)(const void *)s->idx.data,
                  *drawn = (const int64_t *)(const void *)s->drawn.data;
    const struct ctr_col *items = &ctr_batchbuf_view(&s->items.rows)->col[column];
    int rc = 0;
    for (int64_t i = 0, end; !rc && i < n; i = end) {
        const bool own = drawn[i] < 0;
        for (end = i + 1; end < n && (drawn[end] < 0) == own;)
            end++;
        rc = ctr_colbuf_gather(to, own ? log : items, (own ? idx : drawn) + i, end - i, err);
    }
    return rc;
}

static int put_label(struct ctr_negatives *s, struct ctr_colbuf *to, const struct ctr_col *log, int64_t n,
                     struct ctr_err *err)
{
    const int64_t *idx = (const int64_t *)(const void *)s->idx.data,
                  *drawn = (const int64_t *)(const void *)s->drawn.data;
    int rc = 0;
    for (int64_t i = 0; !rc && i < n; i++) {
        if (drawn[i] < 0 && log)
            rc = ctr_colbuf_range(to, log, idx[i], 1, err);
        else if (ctr_types[to->type].floating)
            rc = ctr_colbuf_f64(to, drawn[i] < 0, err);
        else
            rc = ctr_colbuf_i64(to, drawn[i] < 0, err);
    }
    return rc;
}

static int make_result(struct ctr_negatives *s, const struct ctr_batch **out, struct ctr_err *err)
{
    const int64_t n = (int64_t)(s->idx.len / sizeof(int64_t));
    int rc = 0;
    ctr_batchbuf_clear(&s->result);
    for (int i = 0; !rc && i < s->out.n; i++) {
        struct ctr_colbuf *to = &s->result.col[i];
        const struct ctr_col *log = i < s->in.n ? &s->b->col[i] : NULL;
        if (!log || i == s->o.label)
            rc = put_label(s, to, log, n, err);
        else if (s->replace[i] >= 0)
            rc = put_item(s, to, log, s->replace[i], n, err);
        else
            rc = ctr_colbuf_gather(to, log, (const int64_t *)(const void *)s->idx.data, n, err);
    }
    *out = ctr_batchbuf_view(&s->result);
    return rc ? rc : 1;
}

/* Rows to answer: 1; 0: more input is needed. */
static int have_rows(struct ctr_negatives *s, struct ctr_err *err)
{
    int rc = 0;
    if (s->b && s->pos < s->to)
        return 1;
    if (s->b && as_of(s)) {
        count(s, s->moment, s->moment_end);
        s->moment = s->moment_end = 0;
        return let_go(s, err);
    }
    if (as_of(s) || !s->r)
        return 0;
    s->first += s->b ? s->b->rows : 0;
    s->b = NULL;
    while ((rc = ctr_reader_next(s->r, &s->b, err)) > 0 && !s->b->rows)
        ;
    if (rc <= 0) {
        s->b = NULL;
        return rc;
    }
    s->pos = 0;
    s->to = s->b->rows;
    rc = read_rows(s, s->b, err);
    return rc ? rc : 1;
}

static int next(void *object, const struct ctr_batch **out, struct ctr_err *err)
{
    struct ctr_negatives *s = object;
    int rc = have_rows(s, err);
    if (rc <= 0)
        return rc;
    ctr_buf_clear(&s->idx);
    ctr_buf_clear(&s->drawn);
    rc = ctr_buf_room(&s->number, s->o.n, sizeof(int64_t), err);
    for (; !rc && s->pos < s->to && s->idx.len < CTR_BATCH_ROWS * sizeof(int64_t); s->pos++)
        rc = answer(s, s->pos, err);
    return rc ? rc : make_result(s, out, err);
}

/* ---- the stage ---- */

static const struct ctr_schema *schema(const void *object)
{
    return &((const struct ctr_negatives *)object)->out;
}

static void free_object(void *object)
{
    ctr_negatives_free(object);
}

int ctr_negatives_source(struct ctr_batch_source *s, struct ctr_negatives *stage, struct ctr_err *err)
{
    static const struct ctr_push_ops ops = { schema, push, finish, next, free_object };
    return ctr_batch_source_push(s, &ops, stage, err);
}
