/* SPDX-License-Identifier: Apache-2.0
 *
 * inputs: binds columns of a schema as inputs of a model. They are numbered in order of name, so that sums over a row
 * do not depend on the order of columns. inputs_rows.c converts batches to rows. */
#include "common/model/inputs.h"

#include <math.h>
#include <stdlib.h>

#include "common/table/table.h"

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

static int choose_kind(const struct ctr_field *f, int role, enum ctr_input_kind *kind, struct ctr_err *err)
{
    bool list = f->type == CTR_LIST || f->type == CTR_FIXED;
    enum ctr_type item = list ? f->item : f->type;
    char type[64];
    const bool keys = role == CTR_ROLE_FEATURE || role == CTR_ROLE_IMAGE;
    if (keys && item == CTR_U64)
        *kind = list ? CTR_INPUT_KEYS : CTR_INPUT_KEY;
    else if (role == CTR_ROLE_FEATURE && item == CTR_WKEY && f->type == CTR_LIST)
        *kind = CTR_INPUT_WEIGHTED_KEYS;
    else if (role == CTR_ROLE_DENSE && (ctr_type_number(item) || item == CTR_BOOL) && item != CTR_F16)
        *kind = list ? CTR_INPUT_NUMBERS : CTR_INPUT_NUMBER;
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
    struct ctr_input *i = &in->in[in->n];
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
    i->missing = i->kind == CTR_INPUT_NUMBER ? ctr_key_hash(ctr_dense_key(i->seed, -1))
                                             : ctr_key_hash(ctr_feature_key(i->seed, "(missing)", 9));
    in->fixed += i->kind == CTR_INPUT_KEY || i->kind == CTR_INPUT_NUMBER;
    in->has_x |= i->kind != CTR_INPUT_KEY;
    i->group =
        i->kind == CTR_INPUT_KEY || i->kind == CTR_INPUT_NUMBER ? NULL : ctr_meta_get(&f->meta, CTR_META_HISTORY);
    in->n++;
    return 0;
}

static void find_groups(struct ctr_inputs *in)
{
    for (int i = 0; i < in->n; i++) {
        struct ctr_input *p = &in->in[i];
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
    in->kernel = ctr_keyhash_kernel_at((int)ctr_cpu_best());
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
    qsort(in->in, (size_t)in->n, sizeof *in->in, ctr_by_text);
    find_groups(in);
    in->plain = !in->has_x && !in->change.hash_bits;
    for (int i = 0, keys = 0; i < in->n; i++) {
        if (in->in[i].kind == CTR_INPUT_KEY)
            in->key[keys++] = i;
        in->tables[i] = in->in[i].table;
        in->repeats[in->in[i].table] |=
            in->in[i].kind == CTR_INPUT_KEYS || in->in[i].kind == CTR_INPUT_WEIGHTED_KEYS || in->change.hash_bits;
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
        in->more[in->mores++] = (struct ctr_input_weights){ .column = column };
    return rc;
}

void ctr_rowbuf_free(struct ctr_rowbuf *b)
{
    struct ctr_buf *bufs[] = { &b->start, &b->hash,   &b->table,   &b->x,         &b->dense, &b->label, &b->weight,
                               &b->day,   &b->number, &b->weights, &b->weight_at, &b->left,  &b->item };
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
        struct ctr_input *p = &in->in[i];
        const struct ctr_field *f = &in->schema->f[p->column];
        if (p->kind == CTR_INPUT_NUMBERS && f->type != CTR_FIXED)
            return ctr_fail(err, CTR_EUSAGE,
                            "column '%s' is a list of numbers of any length: this model wants a fixed size, such as a "
                            "fixed_size_list, or one column a number",
                            f->name);
        p->table = in->tables[i] = (uint16_t)i;
        p->dense_at = in->dense;
        in->dense += p->kind == CTR_INPUT_NUMBER ? 1 : p->kind == CTR_INPUT_NUMBERS ? f->width : 0;
        in->fixed += p->kind == CTR_INPUT_KEY;
        in->plain &= p->kind == CTR_INPUT_KEY || ctr_input_is_number(p);
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

/* The columns of the inputs of a kind. */
static int list_columns(const struct ctr_inputs *in, enum ctr_input_kind kind, int *to)
{
    int n = 0;
    for (int k = 0; k < in->n; k++)
        if (in->in[k].kind == kind)
            to[n++] = in->in[k].column;
    return n;
}

int ctr_inputs_leave(const struct ctr_inputs *in, const struct ctr_batch_source *s, const struct ctr_leave *how,
                     const char **why, struct ctr_err *err)
{
    struct ctr_leave leave = *how;
    int *column = malloc((3 * (size_t)in->n + 1) * sizeof *column);
    if (!column)
        return ctr_fail_nomem(err, 3 * (size_t)in->n * sizeof *column);
    int *const list = column + in->n, *const number = list + in->n;
    leave.column = column;
    leave.list = list;
    leave.number = number;
    leave.n = list_columns(in, CTR_INPUT_KEY, column);
    leave.lists = list_columns(in, CTR_INPUT_KEYS, list);
    leave.numbers = list_columns(in, CTR_INPUT_NUMBER, number);
    if (!leave.unwanted && list_columns(in, CTR_INPUT_WEIGHTED_KEYS, number + leave.numbers))
        leave.unwanted = "some have weights";
    if (!leave.unwanted && (in->transposed || (!in->by_column && (!in->plain || in->has_x))))
        leave.unwanted = "rows have entries of other kinds";
    if (!leave.unwanted && !leave.n && !leave.lists)
        leave.unwanted = "there are none";
    if (list_columns(in, CTR_INPUT_NUMBERS, number + leave.numbers))
        leave.numbers = 0;
    const int rc = ctr_batch_source_leave(s, &leave, why, err);
    free(column);
    return rc;
}

/* Of one input: its numbers or weights are finite, and its lists as long as those of their group. */
static int add_rules(const struct ctr_inputs *in, const struct ctr_input *p, struct ctr_rule *to)
{
    const struct ctr_input *first = &in->in[p->aligned_with];
    int n = 0;
    if (ctr_input_is_number(p) || p->kind == CTR_INPUT_WEIGHTED_KEYS)
        to[n++] = (struct ctr_rule){ .column = p->column,
                                     .role = ctr_input_is_number(p) ? CTR_ROLE_DENSE : CTR_ROLE_FEATURE,
                                     .name = p->name,
                                     .single = in->by_column && ctr_input_is_number(p) };
    if (first != p)
        to[n++] = (struct ctr_rule){ .column = p->column,
                                     .role = CTR_ROLE_FEATURE,
                                     .name = p->name,
                                     .aligned = p->group,
                                     .first = first->column,
                                     .first_name = first->name };
    return n;
}

int ctr_inputs_rules(const struct ctr_inputs *in, struct ctr_rule **rules, int *n, struct ctr_err *err)
{
    const size_t most = 2 * (size_t)in->n + (size_t)in->mores + 4; /* and one of the caller */
    struct ctr_rule *r = *rules = calloc(most, sizeof *r);
    int k = 0;
    if (!r)
        return ctr_fail_nomem(err, most * sizeof *r);
    if (in->label >= 0)
        r[k++] = (struct ctr_rule){ .column = in->label, .role = CTR_ROLE_LABEL };
    if (in->weight >= 0)
        r[k++] = (struct ctr_rule){ .column = in->weight, .role = CTR_ROLE_WEIGHT };
    for (int i = 0; i < in->mores; i++)
        r[k++] = (struct ctr_rule){ .column = in->more[i].column, .role = CTR_ROLE_WEIGHT };
    if (in->time >= 0)
        r[k++] = (struct ctr_rule){ .column = in->time, .role = CTR_ROLE_TIME };
    for (int i = 0; i < k; i++)
        r[i].name = in->schema->f[r[i].column].name;
    for (int i = 0; i < in->n; i++)
        k += add_rules(in, &in->in[i], r + k);
    *n = k;
    return 0;
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
    const struct ctr_input *p = &in->in[i];
    const struct ctr_field *f = &in->schema->f[p->column];
    struct ctr_input_info info = { .name = p->name,
                                   .table = p->name_of_table,
                                   .rows_table = p->name_of_table,
                                   .history_of = ctr_meta_get(&f->meta, CTR_META_HISTORY_OF),
                                   .group = ctr_meta_get(&f->meta, CTR_META_HISTORY),
                                   .side = ctr_meta_get(&f->meta, CTR_META_SIDE) };
    const char *order = ctr_meta_get(&f->meta, CTR_META_ORDER);
    info.oldest_first = order && !strcmp(order, "oldest");
    if (ctr_input_is_number(p)) {
        info.table = -1;
        info.dense = p->kind == CTR_INPUT_NUMBER ? 1 : f->width;
        info.dense_at = p->dense_at;
    } else {
        info.list = p->kind != CTR_INPUT_KEY;
        info.image = ctr_field_role(f) == CTR_ROLE_IMAGE;
    }
    return info;
}

void ctr_inputs_watch(struct ctr_inputs *in)
{
    in->watch = true;
    for (int i = 0; i < in->n; i++) {
        in->in[i].low = INFINITY;
        in->in[i].high = -INFINITY;
    }
}

bool ctr_inputs_range(const struct ctr_inputs *in, int i, double *low, double *high)
{
    *low = in->in[i].low + 0.0; /* not -0, which is equal to 0 and so may be found first or not */
    *high = in->in[i].high + 0.0;
    return in->watch && *low <= *high;
}

int ctr_inputs_days(struct ctr_inputs *in, int column, struct ctr_err *err)
{
    if (in->schema->f[column].type != CTR_TIME)
        return ctr_fail(err, CTR_EUSAGE, "column '%s' is no timestamp, from which the day of a row could be told",
                        in->schema->f[column].name);
    in->time = column;
    return 0;
}
