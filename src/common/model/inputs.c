/* SPDX-License-Identifier: Apache-2.0
 *
 * inputs: converts batches of columns to rows of weighted coordinates. Columns are processed in order of name, so that
 * sums over a row do not depend on the order of columns. Loops run by column over a tile of rows; a second pass by row,
 * only needed if a key can repeat or an x be 0, merges repeated keys. The pass has its own hash set, because it is
 * emptied for each row: 4 bytes a slot; the keys stay in the row. */
#include "common/model/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/model/row_transform.h"
#include "common/table/table.h"

enum kind { KEY, KEYS, WEIGHTED_KEYS, NUMBER, NUMBERS };

struct input {
    const char *name; /* of the schema */
    int column;
    enum kind kind;
    uint16_t table;    /* of the entries; by column: its own number */
    int name_of_table; /* index in the list of names */
    int dense_at;      /* by column */
    uint64_t seed, missing;
    const char *group;       /* of a list: ctr.history of its column, or NULL */
    int aligned_with;        /* the first list of that group, or itself */
    struct ctr_buf position; /* NUMBERS: hash of each position's key, as far as needed */
};

/* A column of weights in addition to that of the rows. */
struct weights {
    int column;
    const double *of; /* of the batch */
    struct ctr_buf buf;
};

struct ctr_inputs {
    const struct ctr_schema *schema;
    struct input *in;
    int n, label, weight, time;
    int fixed;  /* entries per row from KEY and, unless by column, NUMBER */
    int *key;   /* the inputs that are KEY, in order */
    bool plain; /* every row has exactly one entry per table, with x = 1: no second pass */
    bool has_x; /* some x may differ from 1 */
    bool transposed;
    struct ctr_row_transform change;
    uint16_t *tables; /* of the inputs, in order */
    const struct ctr_sparse_kernel *kernel;
    bool *repeats; /* by table: a key may occur twice in a row */
    bool by_column;
    bool aligned; /* some lists are of one group */
    int dense;    /* by column: numbers per row */
    const struct ctr_batch *batch;
    const double *label_of, *weight_of; /* of the batch; NULL: none */
    struct ctr_buf labels, weights;     /* their storage, unless they are in the column */
    struct weights *more;               /* additional weights */
    int mores, more_cap;
    struct ctr_rowbuf own; /* for callers that pass none */
    struct ctr_buf cursor; /* per row of the tile: position of its next entry */
    struct ctr_buf seen;   /* uint32_t slots of a row's set of keys */
};

bool ctr_field_is_input(const struct ctr_field *f)
{
    int role = ctr_field_role(f);
    return role == CTR_ROLE_FEATURE || role == CTR_ROLE_DENSE || role == CTR_ROLE_IMAGE;
}

uint64_t ctr_dense_key(uint64_t table_seed, int64_t position)
{
    char text[CTR_NUM_MAX];
    return ctr_feature_key(table_seed, text, position < 0 ? 0 : ctr_fmt_i64(text, position));
}

uint64_t ctr_bias_key(void)
{
    return ctr_feature_key(ctr_table_seed(CTR_BIAS_TABLE), "", 0);
}

/* ---- binding ---- */

static int choose_kind(const struct ctr_field *f, int role, enum kind *kind, struct ctr_err *err)
{
    bool list = f->type == CTR_LIST || f->type == CTR_FIXED;
    enum ctr_type item = list ? f->item : f->type;
    char type[64];
    const bool keys = role == CTR_ROLE_FEATURE || role == CTR_ROLE_IMAGE;
    if (keys && item == CTR_U64)
        *kind = list ? KEYS : KEY;
    else if (role == CTR_ROLE_FEATURE && item == CTR_WKEY && f->type == CTR_LIST)
        *kind = WEIGHTED_KEYS;
    else if (role == CTR_ROLE_DENSE && (ctr_type_number(item) || item == CTR_BOOL) && item != CTR_F16)
        *kind = list ? NUMBERS : NUMBER;
    else if (keys)
        return ctr_fail(
            err, CTR_EUSAGE,
            "column '%s' has the role %s but is %s: features and images are keys (uint64, a list of it, features also "
            "weighted keys); ctr-extract makes them",
            f->name, ctr_roles[role], ctr_field_type_name(f, type, sizeof type));
    else
        return ctr_fail(err, CTR_EUSAGE,
                        "column '%s' has the role %s but is %s: a number or a list of numbers is wanted", f->name,
                        ctr_roles[role], ctr_field_type_name(f, type, sizeof type));
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct input *)a)->name, ((const struct input *)b)->name);
}

/* The number of a table, appended when it is new. */
static int number_table(struct ctr_strs *tables, const char *name, struct ctr_err *err)
{
    int i = ctr_strs_find(tables, name);
    if (i >= 0)
        return i;
    if (!strcmp(name, CTR_BIAS_TABLE))
        return ctr_fail(err, CTR_EUSAGE, "a feature must not have the table name '%s'", CTR_BIAS_TABLE);
    if (tables->n >= CTR_MAX_TABLES)
        return ctr_fail(err, CTR_EUSAGE, "more than %d tables of features", CTR_MAX_TABLES);
    int rc = ctr_strs_add(tables, name, strlen(name), err);
    return rc ? rc : tables->n - 1;
}

static int bind_column(struct ctr_inputs *in, int column, struct ctr_strs *tables, struct ctr_err *err)
{
    const struct ctr_field *f = &in->schema->f[column];
    int role = ctr_field_role(f);
    struct input *i = &in->in[in->n];
    if (role != CTR_ROLE_FEATURE && role != CTR_ROLE_DENSE && !(role == CTR_ROLE_IMAGE && in->change.images))
        return 0;
    int rc = choose_kind(f, role, &i->kind, err);
    if (rc)
        return rc;
    const char *name = ctr_meta_get(&f->meta, CTR_META_TABLE);
    if (!name)
        name = f->name;
    int table = number_table(tables, in->change.hash_bits ? CTR_HASHED_TABLE : name, err);
    if (table < 0)
        return table;
    i->name = f->name;
    i->column = column;
    i->table = (uint16_t)table;
    i->name_of_table = table;
    i->seed = ctr_table_seed(name);
    i->missing = i->kind == NUMBER ? ctr_sparse_hash(ctr_dense_key(i->seed, -1))
                                   : ctr_sparse_hash(ctr_feature_key(i->seed, "(missing)", 9));
    in->fixed += i->kind == KEY || i->kind == NUMBER;
    in->has_x |= i->kind != KEY;
    i->group = i->kind == KEY || i->kind == NUMBER ? NULL : ctr_meta_get(&f->meta, CTR_META_HISTORY);
    in->n++;
    return 0;
}

static void find_groups(struct ctr_inputs *in)
{
    for (int i = 0; i < in->n; i++) {
        struct input *p = &in->in[i];
        p->aligned_with = i;
        for (int j = 0; j < i && p->group && p->aligned_with == i; j++)
            if (in->in[j].group && !strcmp(in->in[j].group, p->group))
                p->aligned_with = j;
        in->aligned |= p->aligned_with != i;
    }
}

static int check_number(const struct ctr_schema *s, int column, struct ctr_err *err)
{
    const struct ctr_field *f = column < 0 ? NULL : &s->f[column];
    char type[64];
    if (!f || ctr_type_number(f->type) || f->type == CTR_BOOL)
        return 0;
    return ctr_fail(err, CTR_EUSAGE, "column '%s' is %s: label and weight must be numbers", f->name,
                    ctr_field_type_name(f, type, sizeof type));
}

int ctr_inputs_new(struct ctr_inputs **out, const struct ctr_schema *s, int label, int weight,
                   const struct ctr_row_transform *change, struct ctr_strs *tables, struct ctr_err *err)
{
    struct ctr_inputs *in = calloc(1, sizeof *in);
    if (!in || !(in->in = calloc((size_t)s->n + 1, sizeof *in->in))) {
        free(in);
        return ctr_fail_nomem(err, (size_t)s->n * sizeof *in->in);
    }
    in->schema = s;
    in->label = label;
    in->weight = weight;
    in->time = -1;
    in->change = change ? *change : (struct ctr_row_transform){ .scale = 1 };
    in->kernel = ctr_sparse_kernel_best();
    int rc = check_number(s, label, err);
    if (!rc)
        rc = check_number(s, weight, err);
    for (int c = 0; c < s->n && !rc; c++)
        rc = c == label || c == weight ? 0 : bind_column(in, c, tables, err);
    if (!rc && !in->n)
        rc = ctr_fail(err, CTR_EUSAGE,
                      "the stream has no features: no column has the role feature or dense; make them "
                      "with ctr-extract");
    if (!rc && !(in->repeats = calloc((size_t)tables->n + 1, sizeof *in->repeats)))
        rc = ctr_fail_nomem(err, (size_t)tables->n);
    if (!rc && !(in->tables = calloc((size_t)in->n, sizeof *in->tables)))
        rc = ctr_fail_nomem(err, (size_t)in->n * sizeof *in->tables);
    if (!rc && !(in->key = calloc((size_t)in->n, sizeof *in->key)))
        rc = ctr_fail_nomem(err, (size_t)in->n * sizeof *in->key);
    if (rc) {
        ctr_inputs_free(in);
        return rc;
    }
    qsort(in->in, (size_t)in->n, sizeof *in->in, by_name);
    find_groups(in);
    in->plain = !in->has_x && !in->change.hash_bits;
    for (int i = 0, keys = 0; i < in->n; i++) {
        if (in->in[i].kind == KEY)
            in->key[keys++] = i;
        in->tables[i] = in->in[i].table;
        in->repeats[in->in[i].table] |=
            in->in[i].kind == KEYS || in->in[i].kind == WEIGHTED_KEYS || in->change.hash_bits;
        for (int j = 0; j < i; j++)
            if (in->in[i].table == in->in[j].table) {
                in->repeats[in->in[i].table] = true;
                in->plain = false;
            }
    }
    in->has_x |= !in->plain || ctr_row_transform_scales(&in->change);
    *out = in;
    return 0;
}

int ctr_inputs_weigh(struct ctr_inputs *in, int column, struct ctr_err *err)
{
    int rc = check_number(in->schema, column, err);
    if (!rc)
        rc = ctr_array_grow(&in->more, in->mores, &in->more_cap, sizeof *in->more, err);
    if (!rc)
        in->more[in->mores++] = (struct weights){ .column = column };
    return rc;
}

void ctr_rowbuf_free(struct ctr_rowbuf *b)
{
    struct ctr_buf *bufs[] = { &b->start,  &b->hash, &b->table,  &b->x,       &b->dense,    &b->label,
                               &b->weight, &b->day,  &b->number, &b->weights, &b->weight_at };
    for (size_t i = 0; i < CTR_COUNT(bufs); i++)
        ctr_buf_free(bufs[i]);
}

void ctr_inputs_free(struct ctr_inputs *in)
{
    if (!in)
        return;
    for (int i = 0; i < in->mores; i++)
        ctr_buf_free(&in->more[i].buf);
    free(in->more);
    struct ctr_buf *bufs[] = { &in->labels, &in->weights, &in->cursor, &in->seen };
    for (size_t i = 0; i < CTR_COUNT(bufs); i++)
        ctr_buf_free(bufs[i]);
    ctr_rowbuf_free(&in->own);
    for (int i = 0; i < in->n; i++)
        ctr_buf_free(&in->in[i].position);
    free(in->repeats);
    free(in->tables);
    free(in->key);
    free(in->in);
    free(in);
}

/* ---- by column ---- */

static bool is_number(const struct input *p)
{
    return p->kind == NUMBER || p->kind == NUMBERS;
}

int ctr_inputs_by_column(struct ctr_inputs *in, struct ctr_err *err)
{
    bool *repeats = calloc((size_t)in->n + 1, sizeof *repeats);
    if (!repeats)
        return ctr_fail_nomem(err, (size_t)in->n);
    free(in->repeats);
    in->repeats = repeats;
    in->by_column = in->plain = true;
    in->change = (struct ctr_row_transform){ .scale = 1 };
    in->fixed = 0;
    for (int i = 0; i < in->n; i++) {
        struct input *p = &in->in[i];
        const struct ctr_field *f = &in->schema->f[p->column];
        if (p->kind == NUMBERS && f->type != CTR_FIXED)
            return ctr_fail(err, CTR_EUSAGE,
                            "column '%s' is a list of numbers of any length: this model wants a fixed size, such as a "
                            "fixed_size_list, or one column a number",
                            f->name);
        p->table = in->tables[i] = (uint16_t)i;
        p->dense_at = in->dense;
        in->dense += p->kind == NUMBER ? 1 : p->kind == NUMBERS ? f->width : 0;
        in->fixed += p->kind == KEY;
        in->plain &= p->kind == KEY || is_number(p);
    }
    if (in->dense > CTR_MAX_TABLES)
        return ctr_fail(err, CTR_EUSAGE, "more than %d numbers a row", CTR_MAX_TABLES);
    in->has_x = !in->plain;
    return 0;
}

void ctr_inputs_transpose(struct ctr_inputs *in)
{
    in->transposed = in->plain && !in->has_x && !(in->change.drop > 0) && !in->by_column;
}

int ctr_inputs_count(const struct ctr_inputs *in)
{
    return in->n;
}

int ctr_inputs_dense(const struct ctr_inputs *in)
{
    return in->dense;
}

struct ctr_input_info ctr_inputs_info(const struct ctr_inputs *in, int i)
{
    const struct input *p = &in->in[i];
    const struct ctr_field *f = &in->schema->f[p->column];
    struct ctr_input_info info = { .name = p->name,
                                   .table = p->name_of_table,
                                   .rows_table = p->name_of_table,
                                   .history_of = ctr_meta_get(&f->meta, CTR_META_HISTORY_OF),
                                   .group = ctr_meta_get(&f->meta, CTR_META_HISTORY),
                                   .side = ctr_meta_get(&f->meta, CTR_META_SIDE) };
    if (is_number(p)) {
        info.table = -1;
        info.dense = p->kind == NUMBER ? 1 : f->width;
        info.dense_at = p->dense_at;
    } else {
        info.list = p->kind != KEY;
        info.image = ctr_field_role(f) == CTR_ROLE_IMAGE;
    }
    return info;
}

/* ---- labels and weights ---- */

static int check_column(const struct ctr_batch *b, int column, enum ctr_role role, struct ctr_buf *buf,
                        const double **out, struct ctr_err *err)
{
    *out = NULL;
    return column < 0 ? 0
                      : ctr_col_checked(&b->col[column], role, b->schema->f[column].name, b->first_row, buf, out, err);
}

int ctr_inputs_batch(struct ctr_inputs *in, const struct ctr_batch *b, struct ctr_err *err)
{
    int rc = check_column(b, in->label, CTR_ROLE_LABEL, &in->labels, &in->label_of, err);
    in->batch = b;
    for (int i = 0; i < in->mores && !rc; i++)
        rc = check_column(b, in->more[i].column, CTR_ROLE_WEIGHT, &in->more[i].buf, &in->more[i].of, err);
    return rc ? rc : check_column(b, in->weight, CTR_ROLE_WEIGHT, &in->weights, &in->weight_of, err);
}

/* ---- columns to rows ---- */

struct sink {
    int64_t *cursor; /* per row of the tile: position of its next entry */
    int64_t step;    /* distance between a row's consecutive entries */
    uint64_t *hash;
    uint16_t *table; /* NULL: not requested */
    double *x;       /* NULL: all 1 */
};

static inline void put(const struct sink *s, int64_t row, uint64_t hash, uint16_t table, double x)
{
    int64_t at = s->cursor[row];
    s->cursor[row] += s->step;
    s->hash[at] = hash;
    if (s->table)
        s->table[at] = table;
    if (s->x)
        s->x[at] = x;
}

static void put_keys(const struct input *in, const struct ctr_col *c, int64_t from, int64_t n, const struct sink *s)
{
    const struct ctr_col *values = c->dict ? c->dict : c;
    const uint64_t *key = values->data;
    const int32_t *index = c->dict ? c->data : NULL;
    bool nulls = c->valid || values->valid;
    for (int64_t i = 0; i < n; i++) {
        uint64_t hash;
        if (nulls && ctr_col_missing(c, from + i))
            hash = in->missing;
        else
            hash = ctr_sparse_hash(key[index ? index[from + i] : from + i]);
        put(s, i, hash, in->table, 1);
    }
}

/* The common case: every column of keys has plain ones without nulls, one per row. */
static bool all_plain(const struct ctr_inputs *in)
{
    for (int k = 0; in->plain && k < in->fixed; k++) {
        const struct ctr_col *c = &in->batch->col[in->in[in->key[k]].column];
        if (c->dict || c->valid)
            return false;
    }
    return in->plain;
}

static const uint64_t *keys_of(const struct ctr_inputs *in, int k)
{
    return in->batch->col[in->in[in->key[k]].column].data;
}

/* The hashes of a block stay in the first-level cache between the passes by column and by row. */
enum { BLOCK_ROWS = 64, BLOCK_COLUMNS = 64 };

static void put_block(const struct ctr_inputs *in, int first, int columns, int64_t from, int64_t rows, uint64_t *to)
{
    enum { ROWS_AHEAD = 16, LINE = 8 };
    uint64_t hash[BLOCK_COLUMNS][BLOCK_ROWS];
    const int64_t width = in->fixed;
    for (int k = 0; k < columns; k++) {
        const uint64_t *key = keys_of(in, first + k) + from;
        for (int64_t i = BLOCK_ROWS; i < 2 * BLOCK_ROWS; i += LINE) /* too many columns for the hardware prefetcher */
            __builtin_prefetch(key + i);
        in->kernel->hash(key, rows, hash[k]);
    }
    for (int64_t i = 0; i < rows; i++, to += width) {
        for (int k = 0; k < columns; k += LINE)
            __builtin_prefetch(to + ROWS_AHEAD * width + k, 1);
        for (int k = 0; k < columns; k++)
            to[k] = hash[k][i];
    }
}

static void put_plain(const struct ctr_inputs *in, int64_t from, int64_t n, const struct sink *s)
{
    for (int64_t r = 0; r < n; r += BLOCK_ROWS)
        for (int k = 0; k < in->fixed; k += BLOCK_COLUMNS)
            put_block(in, k, CTR_MIN(BLOCK_COLUMNS, in->fixed - k), from + r, CTR_MIN(BLOCK_ROWS, n - r),
                      s->hash + r * in->fixed + k);
    for (int64_t i = 0; i < n && s->table; i++)
        memcpy(s->table + i * in->n, in->tables, (size_t)in->n * sizeof *s->table);
}

/* Hashes by column. A column's rows of a tile are too short for the hardware prefetcher to reach the next column's. */
static void put_columns(const struct ctr_inputs *in, int64_t from, int64_t n, uint64_t *hash)
{
    enum { AHEAD = 2 }; /* columns */
    for (int k = -AHEAD; k < in->n; k++) {
        const uint64_t *next = k + AHEAD < in->n ? keys_of(in, k + AHEAD) : NULL;
        for (int64_t i = 0; i < n && next; i += 8)
            __builtin_prefetch(next + from + i);
        if (k >= 0)
            in->kernel->hash(keys_of(in, k) + from, n, hash + k * n);
    }
}

static void put_lists(const struct input *in, const struct ctr_col *c, int32_t width, int64_t from, int64_t n,
                      const struct sink *s)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t j = 0, end = 0;
        const struct ctr_col *items = ctr_col_items(c, width, from + i, &j, &end);
        if (!items) {
            put(s, i, in->missing, in->table, 1);
            continue;
        }
        const uint64_t *key = items->data;
        for (; j < end; j++)
            if (!ctr_col_null(items, j))
                put(s, i, ctr_sparse_hash(key[j]), in->table, in->kind == WEIGHTED_KEYS ? (double)items->weight[j] : 1);
    }
}

static void put_numbers(const struct input *in, const struct ctr_col *c, int32_t width, int64_t from, int64_t n,
                        const struct sink *s)
{
    const uint64_t *position = (const uint64_t *)(void *)in->position.data;
    for (int64_t i = 0; i < n; i++) {
        if (in->kind == NUMBER) {
            if (!ctr_col_missing(c, from + i))
                put(s, i, in->missing, in->table, ctr_col_f64(c, from + i));
            continue;
        }
        int64_t first = 0, end = 0;
        const struct ctr_col *items = ctr_col_items(c, width, from + i, &first, &end);
        for (int64_t j = first; items && j < end; j++)
            if (!ctr_col_null(items, j))
                put(s, i, position[j - first], in->table, ctr_col_f64(items, j));
    }
}

static int bad_value(const struct ctr_inputs *in, int64_t row, const char *column, struct ctr_err *err)
{
    return ctr_fail(err, CTR_EDATA, "row %lld: a value of column %s is NaN or infinite: clip or fill it in the plan",
                    (long long)(in->batch->first_row + row + 1), column);
}

/* Store values [at, at + n) of a column, 0 for null, to every step-th float. Returns the first that is NaN or infinite,
 * or n. */
static int64_t put_floats(const struct ctr_col *c, int64_t at, int64_t n, float *to, int64_t step)
{
    enum { SOME = 256 };
    double value[SOME];
    for (int64_t done = 0, some; done < n; done += some) {
        float *const out = to + done * step;
        bool finite = true;
        some = CTR_MIN(SOME, n - done);
        ctr_col_range_f64(c, at + done, some, 0, value);
        for (int64_t i = 0; i < some; i++) {
            out[i * step] = (float)value[i];
            finite &= fabsf((float)value[i]) < INFINITY;
        }
        for (int64_t i = 0; !finite; i++)
            if (!(fabsf(out[i * step]) < INFINITY))
                return done + i;
    }
    return n;
}

/* By column: the numbers of rows [from, from + n) of one input, 0 for null. */
static int put_dense_column(const struct ctr_inputs *in, const struct input *p, int64_t from, int64_t n, float *to,
                            struct ctr_err *err)
{
    const struct ctr_col *c = &in->batch->col[p->column];
    const int32_t width = in->schema->f[p->column].width;
    int64_t bad = n;
    if (p->kind == NUMBER)
        bad = put_floats(c, from, n, to, in->dense);
    for (int64_t i = 0; p->kind == NUMBERS && i < n; i++) {
        int64_t at = 0, end = 0;
        const struct ctr_col *items = ctr_col_items(c, width, from + i, &at, &end);
        if (!items)
            memset(to + i * in->dense, 0, (size_t)width * sizeof *to);
        else if (put_floats(items, at, end - at, to + i * in->dense, 1) < end - at)
            bad = CTR_MIN(bad, i);
    }
    return bad == n ? 0 : bad_value(in, from + bad, p->name, err);
}

static int put_dense(const struct ctr_inputs *in, struct ctr_buf *buf, int64_t from, int64_t n, struct ctr_err *err)
{
    enum { ROWS = 256 }; /* their floats stay in cache between columns */
    int rc = ctr_buf_room(buf, n * in->dense, sizeof(float), err);
    float *to = (float *)(void *)buf->data;
    for (int64_t r = 0; r < n && !rc; r += ROWS)
        for (int k = 0; k < in->n && !rc; k++)
            if (is_number(&in->in[k]))
                rc = put_dense_column(in, &in->in[k], from + r, CTR_MIN(ROWS, n - r),
                                      to + r * in->dense + in->in[k].dense_at, err);
    return rc;
}

/* Compute upper bounds of each row's entries, and the keys of positions. */
static int measure(struct ctr_inputs *in, int64_t from, int64_t n, int64_t *start, struct ctr_err *err)
{
    if (in->plain) {
        for (int64_t i = 0; i <= n; i++)
            start[i] = i * in->fixed;
        return 0;
    }
    for (int64_t i = 0; i <= n; i++)
        start[i] = i ? in->fixed : 0;
    for (int k = 0; k < in->n; k++) {
        struct input *p = &in->in[k];
        if (p->kind == KEY || p->kind == NUMBER || (in->by_column && p->kind == NUMBERS))
            continue;
        const struct ctr_col *c = &in->batch->col[p->column];
        int64_t longest = 0;
        for (int64_t i = 0; i < n; i++) {
            int64_t a = 0, b = 1;
            (void)ctr_col_items(c, in->schema->f[p->column].width, from + i, &a, &b);
            start[i + 1] += b - a;
            longest = CTR_MAX(longest, b - a);
        }
        for (int64_t j = (int64_t)(p->position.len / 8); p->kind == NUMBERS && j < longest; j++) {
            uint64_t h = ctr_sparse_hash(ctr_dense_key(p->seed, j));
            int rc = ctr_buf_append(&p->position, &h, sizeof h, err);
            if (rc)
                return rc;
        }
    }
    for (int64_t i = 0; i < n; i++)
        start[i + 1] += start[i];
    return 0;
}

static int64_t items_of(const struct ctr_inputs *in, const struct input *p, int64_t row)
{
    int64_t from = 0, end = 1; /* a null list is one item that is missing */
    (void)ctr_col_items(&in->batch->col[p->column], in->schema->f[p->column].width, row, &from, &end);
    return end - from;
}

/* Lists of one group have equal lengths in every row, whether a model reads them item by item or not. */
static int check_aligned(const struct ctr_inputs *in, int64_t from, int64_t n, struct ctr_err *err)
{
    for (int k = 0; k < in->n && in->aligned; k++) {
        const struct input *p = &in->in[k], *first = &in->in[p->aligned_with];
        for (int64_t i = from; i < from + n && p != first; i++) {
            const int64_t items = items_of(in, p, i), want = items_of(in, first, i);
            if (items != want)
                return ctr_fail(err, CTR_EDATA,
                                "row %lld: '%.80s' has %lld items and '%.80s' has %lld: lists of one history (%.80s) "
                                "are aligned, item by item; mend the row, or leave one of them out of that group",
                                (long long)(in->batch->first_row + i + 1), first->name, (long long)want, p->name,
                                (long long)items, p->group);
        }
    }
    return 0;
}

int64_t ctr_inputs_fit(const struct ctr_inputs *in, int64_t from, int64_t n, int64_t entries)
{
    int64_t rows = 0, sum = 0;
    if (in->plain)
        return CTR_MAX(1, CTR_MIN(n, entries / CTR_MAX(in->fixed, 1)));
    for (; rows < n; rows++) {
        sum += in->fixed;
        for (int k = 0; k < in->n; k++) {
            const struct input *p = &in->in[k];
            int64_t a = 0, b = 1;
            if (p->kind == KEY || p->kind == NUMBER || (in->by_column && p->kind == NUMBERS))
                continue;
            (void)ctr_col_items(&in->batch->col[p->column], in->schema->f[p->column].width, from + rows, &a, &b);
            sum += b - a;
        }
        if (sum > entries)
            break;
    }
    return CTR_MAX(rows, 1);
}

/* ---- repeated keys ---- */

/* Empty the hash set of a row; slots hold entry + 1. */
static int empty_set(struct ctr_inputs *in, int64_t entries, uint64_t *mask, struct ctr_err *err)
{
    uint64_t slots = 64;
    while (slots < (uint64_t)entries * 2)
        slots *= 2;
    ctr_buf_clear(&in->seen);
    int rc = ctr_buf_reserve(&in->seen, slots * sizeof(uint32_t), err);
    if (!rc)
        memset(in->seen.data, 0, slots * sizeof(uint32_t));
    *mask = slots - 1;
    return rc;
}

/* Add the x of repeated keys to the first one, drop x == 0, close the gaps. Returns the number of entries kept at
 * `to`. */
static int64_t join_repeated(struct ctr_inputs *in, const struct sink *s, int64_t from, int64_t end, int64_t to,
                             uint64_t mask)
{
    uint32_t *set = (uint32_t *)(void *)in->seen.data;
    int64_t first = to;
    for (int64_t e = from; e < end; e++) {
        uint64_t h = s->hash[e];
        uint16_t table = s->table[e];
        if (s->x[e] == 0)
            continue;
        if (in->repeats[table]) {
            uint64_t at = ctr_hash_place(h ^ table * UINT64_C(0x9e3779b97f4a7c15), mask);
            for (; set[at]; at = (at + 1) & mask)
                if (s->hash[first + set[at] - 1] == h && s->table[first + set[at] - 1] == table)
                    break;
            if (set[at]) {
                s->x[first + set[at] - 1] += s->x[e];
                continue;
            }
            set[at] = (uint32_t)(to - first) + 1;
        }
        s->hash[to] = h;
        s->table[to] = table;
        s->x[to++] = s->x[e];
    }
    return to;
}

/* The first input with a NaN or infinite value in this row; one must exist. */
static const struct input *not_finite(const struct ctr_inputs *in, int64_t row)
{
    const struct input *p = in->in;
    for (bool found = false; !found && p < in->in + in->n; p += !found) {
        const struct ctr_col *c = &in->batch->col[p->column], *items = c;
        int64_t at = row, end = row + 1;
        if (p->kind == KEY || p->kind == KEYS || (p->kind == NUMBER && ctr_col_missing(c, row)))
            continue;
        if (p->kind != NUMBER)
            items = ctr_col_items(c, in->schema->f[p->column].width, row, &at, &end);
        for (; items && !found && at < end; at++)
            found = !ctr_col_null(items, at) &&
                    !(fabs(p->kind == WEIGHTED_KEYS ? (double)items->weight[at] : ctr_col_f64(items, at)) < INFINITY);
    }
    return p;
}

static int check_x(const struct ctr_inputs *in, const struct sink *s, int64_t row, int64_t from, int64_t end,
                   struct ctr_err *err)
{
    for (int64_t e = from; e < end; e++)
        if (!(fabs(s->x[e]) < INFINITY))
            return bad_value(in, row, not_finite(in, row)->name, err);
    return 0;
}

static int second_sweep(struct ctr_inputs *in, const struct sink *s, int64_t from, int64_t n, int64_t *start,
                        struct ctr_err *err)
{
    int64_t to = 0, begin = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t end = s->cursor[i], next = start[i + 1];
        uint64_t mask = 0;
        int rc = empty_set(in, end - begin, &mask, err);
        if (!rc)
            rc = check_x(in, s, from + i, begin, end, err);
        if (rc)
            return rc;
        start[i] = to;
        to = join_repeated(in, s, begin, end, to, mask);
        begin = next;
    }
    start[n] = to;
    return 0;
}

/* By column, if each input has one entry per row: an entry's position gives its input. */
static bool no_table(const struct ctr_inputs *in)
{
    return in->by_column && in->plain;
}

static int make_room(const struct ctr_inputs *in, struct ctr_rowbuf *buf, int64_t entries, struct ctr_err *err)
{
    int rc = ctr_buf_room(&buf->hash, entries, sizeof(uint64_t), err);
    if (!rc && !no_table(in))
        rc = ctr_buf_room(&buf->table, entries, sizeof(uint16_t), err);
    if (!rc && in->has_x)
        rc = ctr_buf_room(&buf->x, entries, sizeof(double), err);
    return rc;
}

/* Labels or weights of rows [from, from + n): a pointer into the batch, or a copy in `buf`. */
static int put_column(const double *all, int64_t from, int64_t n, struct ctr_buf *buf, const double **out,
                      struct ctr_err *err)
{
    *out = all ? all + from : NULL;
    if (!all || !buf)
        return 0;
    ctr_buf_clear(buf);
    int rc = ctr_buf_append(buf, all + from, (size_t)n * sizeof *all, err);
    *out = (const double *)(void *)buf->data;
    return rc;
}

int ctr_inputs_days(struct ctr_inputs *in, int column, struct ctr_err *err)
{
    if (in->schema->f[column].type != CTR_TIME)
        return ctr_fail(err, CTR_EUSAGE, "column '%s' is no timestamp, from which the day of a row could be told",
                        in->schema->f[column].name);
    in->time = column;
    return 0;
}

static int put_days(const struct ctr_inputs *in, struct ctr_buf *buf, int64_t from, int64_t n, const int32_t **day,
                    struct ctr_err *err)
{
    const int64_t DAY_MS = 86400000;
    const struct ctr_col *c = &in->batch->col[in->time];
    int rc = ctr_buf_room(buf, n, sizeof(int32_t), err);
    int32_t *to = (int32_t *)(void *)buf->data;
    for (int64_t i = 0; i < n && !rc; i++) {
        if (ctr_col_missing(c, from + i)) {
            rc = ctr_fail(err, CTR_EDATA, "row %lld: the time (column %s) is null",
                          (long long)(in->batch->first_row + from + i + 1), in->schema->f[in->time].name);
            break;
        }
        int64_t ms = ctr_col_i64(c, from + i), days = ms / DAY_MS - (ms % DAY_MS < 0);
        to[i] = (int32_t)CTR_MIN(CTR_MAX(days, INT32_MIN + 1), INT32_MAX);
    }
    *day = to;
    return rc;
}

/* The additional weights of rows: one pointer per column. */
static int put_weights(const struct ctr_inputs *in, struct ctr_rowbuf *buf, bool keep, int64_t from, int64_t n,
                       const double *const **weights, struct ctr_err *err)
{
    int rc = ctr_buf_room(&buf->weight_at, in->mores, sizeof(double *), err);
    if (!rc && keep)
        rc = ctr_buf_room(&buf->weights, in->mores * n, sizeof(double), err);
    const double **at = (const double **)(void *)buf->weight_at.data;
    double *copy = (double *)(void *)buf->weights.data;
    for (int i = 0; i < in->mores && !rc; i++) {
        at[i] = keep ? copy + i * n : in->more[i].of + from;
        if (keep && n)
            memcpy(copy + i * n, in->more[i].of + from, (size_t)n * sizeof *copy);
    }
    *weights = at;
    return rc;
}

/* The entries of rows from … from+n-1; `fast`: those of all_plain inputs. */
static void put_values(const struct ctr_inputs *in, bool fast, int64_t from, int64_t n, const int64_t *start,
                       struct sink *s)
{
    for (int64_t i = 0; i < n && !fast; i++)
        s->cursor[i] = in->transposed ? i : start[i];
    if (fast && in->transposed)
        put_columns(in, from, n, s->hash);
    if (fast && !in->transposed)
        put_plain(in, from, n, s);
    for (int k = 0; k < in->n && !fast; k++) {
        const struct input *p = &in->in[k];
        const struct ctr_col *c = &in->batch->col[p->column];
        int32_t width = in->schema->f[p->column].width;
        if (p->kind == KEY)
            put_keys(p, c, from, n, s);
        else if (is_number(p) && !in->by_column)
            put_numbers(p, c, width, from, n, s);
        else if (is_number(p))
            continue;
        else
            put_lists(p, c, width, from, n, s);
    }
}

int ctr_inputs_rows(struct ctr_inputs *in, struct ctr_rowbuf *keep, int64_t from, int64_t n, struct ctr_rows *rows,
                    struct ctr_err *err)
{
    struct ctr_rowbuf *buf = keep ? keep : &in->own;
    int rc = ctr_buf_room(&buf->start, n + 1, sizeof(int64_t), err);
    if (!rc)
        rc = ctr_buf_room(&in->cursor, n + 1, sizeof(int64_t), err);
    if (rc)
        return rc;
    int64_t *start = (int64_t *)(void *)buf->start.data;
    if ((rc = check_aligned(in, from, n, err)) || (rc = measure(in, from, n, start, err)) ||
        (rc = make_room(in, buf, start[n], err)))
        return rc;
    struct sink s = { (int64_t *)(void *)in->cursor.data, in->transposed ? n : 1, (uint64_t *)(void *)buf->hash.data,
                      no_table(in) ? NULL : (uint16_t *)(void *)buf->table.data,
                      in->has_x ? (double *)(void *)buf->x.data : NULL };
    const bool fast = all_plain(in);
    put_values(in, fast, from, n, start, &s);
    for (int64_t e = 0; in->change.hash_bits && e < start[n]; e++)
        s.hash[e] = ctr_row_transform_fold(s.hash[e], in->change.hash_bits);
    if (!in->plain && (rc = second_sweep(in, &s, from, n, start, err)))
        return rc;
    if (in->dense && (rc = put_dense(in, &buf->dense, from, n, err)))
        return rc;
    for (int64_t e = 0; fast && s.x && e < start[n]; e++)
        s.x[e] = 1;
    if (ctr_row_transform_scales(&in->change))
        ctr_row_transform_apply(&in->change, n, in->batch->first_row + from, start, s.hash, s.table, s.x);
    if (in->transposed && n)
        memcpy(s.table, in->tables, (size_t)in->n * sizeof *s.table);
    *rows = (struct ctr_rows){
        .transposed = in->transposed,
        .rows = n,
        .first_row = in->batch->first_row + from,
        .start = start,
        .hash = s.hash,
        .table = s.table,
        .x = s.x,
        .one_a_table = in->plain && !(in->change.drop > 0),
        .dense = in->dense ? (const float *)(const void *)buf->dense.data : NULL,
    };
    if (in->time >= 0 && (rc = put_days(in, &buf->day, from, n, &rows->day, err)))
        return rc;
    if (in->mores && (rc = put_weights(in, buf, keep != NULL, from, n, &rows->weights, err)))
        return rc;
    rc = put_column(in->label_of, from, n, keep ? &keep->label : NULL, &rows->label, err);
    return rc ? rc : put_column(in->weight_of, from, n, keep ? &keep->weight : NULL, &rows->weight, err);
}
