/* SPDX-License-Identifier: Apache-2.0
 *
 * fields: common code of the libsvm, libffm and vw importers. Invariant of a parsed row: every needed list column has
 * received its items, and ctr_fields_parse closes all of them, so that all columns have equally many rows.
 */
#include "common/text/fields.h"
#include <math.h>
#include <stdlib.h>

/* ---- opening ---- */

int ctr_fields_new(struct ctr_fields **out, const struct ctr_text_opts *o, struct ctr_err *err)
{
    static const char *const names[] = { "hash", "key", "text" };
    struct ctr_fields *s = *out = calloc(1, sizeof(*s));

    if (!s)
        return ctr_fail_nomem(err, sizeof(*s));
    s->label = s->weight = s->query = s->tag = -1;
    s->o = o;
    s->binary = o->binary;
    for (size_t k = 0; o->keys && k < CTR_COUNT(names); k++)
        if (!strcmp(o->keys, names[k])) {
            s->keys = (enum ctr_keys)k;
            return 0;
        }
    return o->keys ? ctr_fail(err, CTR_EUSAGE, "%s: hash, key and text are possible",
                              ctr_text_setting(o, "keys", "%s", o->keys).s)
                   : 0;
}

static int add_column(struct ctr_fields *s, const char *name, enum ctr_type type, enum ctr_type item,
                      struct ctr_err *err)
{
    int rc;

    if (ctr_text_columns_find(&s->columns, name, strlen(name)) >= 0)
        return ctr_fail(err, CTR_EDATA, "two fields would be called %s", name);
    if ((rc = ctr_text_columns_add(&s->columns, name, strlen(name), err)) < 0)
        return rc;
    struct ctr_text_column *c = &s->columns.c[s->columns.n - 1];
    c->typed = true;
    c->type = (struct ctr_field){ .type = type, .item = item };
    return 0;
}

int ctr_fields_fixed(struct ctr_fields *s, const char *name, enum ctr_type type, struct ctr_err *err)
{
    return add_column(s, name, type, type, err);
}

int ctr_fields_add_field(struct ctr_fields *s, const char *name, size_t n, const char *column, struct ctr_err *err)
{
    struct ctr_buf weight = { 0 };
    int rc;

    if (s->fields >= CTR_MAX_FIELDS)
        return ctr_fail(err, CTR_EDATA, "more than %d fields or namespaces: pick some with %s", CTR_MAX_FIELDS,
                        ctr_text_option(s->o, "columns").s);
    if ((rc = ctr_array_grow(&s->field, s->fields, &s->cap, sizeof(*s->field), err)) < 0)
        return rc;
    s->field[s->fields] =
        (struct ctr_input_field){ .out = -1, .weight_out = -1, .name_n = n, .seed = ctr_table_seed(column) };
    if (!(s->field[s->fields].name = strndup(name, n)))
        return ctr_fail_nomem(err, n + 1);
    s->fields++;
    if ((rc = add_column(s, column, CTR_LIST, s->keys == CTR_KEYS_TEXT ? CTR_UTF8 : CTR_WKEY, err)) < 0)
        return rc;
    s->field[s->fields - 1].out = s->columns.n - 1; /* an index of `columns` until the schema is made */
    if (s->keys != CTR_KEYS_TEXT)
        return 0;
    if ((rc = ctr_buf_printf(&weight, err, "%s.weight", column)) == 0)
        rc = add_column(s, (const char *)weight.data, CTR_LIST, CTR_F32, err);
    ctr_buf_free(&weight);
    s->field[s->fields - 1].weight_out = s->columns.n - 1;
    return rc;
}

static int build_index(struct ctr_fields *s, struct ctr_err *err)
{
    int rc = 0;
    for (int k = 0; k < s->fields && !rc; k++)
        rc = ctr_index_add(&s->index, ctr_hash64(s->field[k].name, s->field[k].name_n, ctr_hash_secret), (uint32_t)k,
                           err);
    return rc;
}

static inline bool same_name(const struct ctr_input_field *f, const char *name, size_t n)
{
    return f->name_n == n && !memcmp(f->name, name, n);
}

int ctr_fields_find(const struct ctr_fields *s, const char *name, size_t n, int guess)
{
    if (guess < s->fields && same_name(&s->field[guess], name, n))
        return guess;
    const struct ctr_index_slot *p = ctr_index_find(&s->index, ctr_hash64(name, n, ctr_hash_secret));
    while (p && !same_name(&s->field[p->number], name, n))
        p = ctr_index_next(&s->index, p);
    return p ? (int)p->number : -1;
}

static int set_default_role(struct ctr_schema *schema, int column, enum ctr_role role, struct ctr_err *err)
{
    if (column < 0 || ctr_field_role(&schema->f[column]) >= 0 ||
        (role != CTR_ROLE_FEATURE && ctr_schema_role(schema, role) >= 0))
        return 0;
    return ctr_field_set_role(&schema->f[column], role, err);
}

/* The batch column for a name in the input. */
static int out_of(const struct ctr_fields *s, const char *name)
{
    int k = ctr_text_columns_find(&s->columns, name, strlen(name));
    return k < 0 ? -1 : s->columns.c[k].out;
}

/* The names to take from --columns, or the columns of --like. */
int ctr_fields_picked(const struct ctr_text_opts *o, struct ctr_text_columns *pick, struct ctr_err *err)
{
    int rc = o->columns ? ctr_text_columns_parse(pick, o, err) : 0;

    for (int k = 0; o->like && k < o->like->n && rc == 0; k++) {
        const char *name = o->like->f[k].name, *dot = strrchr(name, '.');
        bool values = dot && !strcmp(dot, ".weight") && ctr_text_columns_find(pick, name, (size_t)(dot - name)) >= 0;
        bool text = o->keys && !strcmp(o->keys, "text"), list = o->like->f[k].type == CTR_LIST;
        if (list && !values && text != (o->like->f[k].item == CTR_UTF8))
            return ctr_fail(err, CTR_EUSAGE, "--like: column %s %s; --keys %s makes such", name,
                            text ? "holds no texts" : "holds texts", text ? "hash" : "text");
        if (!values)
            rc = ctr_text_columns_add(pick, name, strlen(name), err);
    }
    return rc;
}

/* --like may request types that the format cannot give. */
static int check_types(const struct ctr_fields *s, const struct ctr_text_column *made, const struct ctr_schema *schema,
                       struct ctr_err *err)
{
    for (int k = 0; k < s->columns.n; k++) {
        const struct ctr_field *f = s->columns.c[k].out < 0 ? NULL : &schema->f[s->columns.c[k].out];
        char want[64], is[64];
        if (f && (f->type != made[k].type.type || (f->type == CTR_LIST && f->item != made[k].type.item)))
            return ctr_fail(
                err, CTR_EUSAGE, "--like: column %s is %s there and %s here; --keys chooses what features are", f->name,
                ctr_field_type_name(f, want, sizeof(want)), ctr_field_type_name(&made[k].type, is, sizeof(is)));
    }
    return 0;
}

/* ctr_text_schema, which overwrites the types with those of --like. */
static int make_schema(struct ctr_fields *s, const struct ctr_text_opts *o, struct ctr_schema *schema,
                       struct ctr_err *err)
{
    size_t bytes = (size_t)s->columns.n * sizeof(struct ctr_text_column);
    struct ctr_text_column *made = malloc(bytes + 1);

    if (!made)
        return ctr_fail_nomem(err, bytes);
    memcpy(made, s->columns.c, bytes);
    for (int k = 0; k < s->columns.n; k++)
        s->columns.c[k].typed &=
            !o->like; /* the format determines the types: check_types explains how to choose others */
    int rc = ctr_text_schema(&s->columns, NULL, o, schema, err);
    if (rc == 0)
        rc = check_types(s, made, schema, err);
    free(made);
    return rc;
}

int ctr_fields_schema(struct ctr_fields *s, const struct ctr_text_opts *o, struct ctr_schema *schema,
                      struct ctr_err *err)
{
    int rc = make_schema(s, o, schema, err);

    if (rc < 0)
        return rc;
    s->label = out_of(s, "label");
    s->weight = out_of(s, "weight");
    s->query = out_of(s, "qid");
    s->tag = out_of(s, "tag");
    if ((rc = set_default_role(schema, s->label, CTR_ROLE_LABEL, err)) < 0 ||
        (rc = set_default_role(schema, s->weight, CTR_ROLE_WEIGHT, err)) < 0 ||
        (rc = set_default_role(schema, s->query, CTR_ROLE_QUERY, err)) < 0 ||
        (rc = set_default_role(schema, s->tag, CTR_ROLE_ID, err)) < 0)
        return rc;
    for (int k = 0; k < s->fields; k++) {
        struct ctr_input_field *f = &s->field[k];
        const char *column = s->columns.c[f->out].name;
        f->out = s->columns.c[f->out].out;
        f->weight_out = f->weight_out < 0 ? -1 : s->columns.c[f->weight_out].out;
        if (f->out < 0 || s->keys == CTR_KEYS_TEXT)
            continue;
        if ((rc = set_default_role(schema, f->out, CTR_ROLE_FEATURE, err)) < 0 ||
            (!ctr_meta_get(&schema->f[f->out].meta, CTR_META_TABLE) &&
             (rc = ctr_meta_set(&schema->f[f->out].meta, CTR_META_TABLE, column, err)) < 0))
            return rc;
    }
    return build_index(s, err);
}

void ctr_fields_free(void *state)
{
    struct ctr_fields *s = state;

    for (int k = 0; k < s->fields; k++)
        free(s->field[k].name);
    free(s->field);
    ctr_index_free(&s->index);
    ctr_text_columns_free(&s->columns);
    free(s);
}

/* ---- parsing ---- */

bool ctr_fields_value(const char *p, size_t n, float *v)
{
    if (n == 1 && *p >= '0' && *p <= '9') {
        *v = (float)(*p - '0');
        return true;
    }
    return ctr_parse_f32(p, n, v) && isfinite(*v);
}

bool ctr_fields_index(const char **p, size_t *n)
{
    while (*n > 1 && **p == '0')
        (*p)++, (*n)--;
    if (!*n || *n > 20)
        return false;
    for (size_t i = 0; i < *n; i++)
        if ((unsigned char)((*p)[i] - '0') > 9)
            return false;
    return true;
}

int ctr_fields_label(const struct ctr_fields *s, struct ctr_text_job *j, const char *p, size_t n, struct ctr_err *why)
{
    float v;

    if (!ctr_fields_value(p, n, &v))
        return ctr_fail(why, CTR_EDATA, "the label %s is no finite number", ctr_text_show(p, n).s);
    if (s->binary && v != 1 && v != -1)
        return ctr_fail(why, CTR_EDATA, "the label %s is neither -1 nor 1 as %s says%s", ctr_text_show(p, n).s,
                        ctr_text_option(s->o, "binary").s, v == 0 ? "; where labels are 0 and 1, leave it out" : "");
    if (s->binary && v == -1)
        v = 0;
    return s->label < 0 ? 0 : ctr_colbuf_f64(&j->out.col[s->label], (double)v, why);
}

int ctr_fields_item(const struct ctr_fields *s, struct ctr_text_job *j, int field, const char *p, size_t n, float value,
                    struct ctr_err *why)
{
    const struct ctr_input_field *f = &s->field[field];
    struct ctr_colbuf *item = f->out >= 0 ? j->out.col[f->out].item : NULL;
    uint64_t key;
    int rc = 0;

    if (s->keys == CTR_KEYS_TEXT) {
        if (!j->block.utf8 && !ctr_utf8_valid((const uint8_t *)p, n))
            return ctr_fail(why, CTR_EDATA, "a feature is not UTF-8; %s or %s settles it",
                            ctr_text_setting(s->o, "encoding", "latin1").s, ctr_text_setting(s->o, "keys", "hash").s);
        if (item)
            rc = ctr_colbuf_str(item, p, n, why);
        if (rc == 0 && f->weight_out >= 0)
            rc = ctr_colbuf_f64(j->out.col[f->weight_out].item, (double)value, why);
        return rc;
    }
    if (!item)
        return 0;
    if (s->keys == CTR_KEYS_HASH)
        return ctr_colbuf_put_wkey(item, ctr_feature_key(f->seed, p, n), value, why);
    if (!ctr_parse_u64(p, n, &key))
        return ctr_fail(why, CTR_EDATA, "the feature %s is no integer below 2^64 as %s wants", ctr_text_show(p, n).s,
                        ctr_text_setting(s->o, "keys", "key").s);
    return ctr_colbuf_put_wkey(item, key, value, why);
}

static int close_lists(const struct ctr_fields *s, struct ctr_text_job *j, struct ctr_err *err)
{
    int rc = 0;

    for (int k = 0; k < s->fields && rc == 0; k++) {
        const struct ctr_input_field *f = &s->field[k];
        if (f->out >= 0)
            rc = ctr_colbuf_put_close(&j->out.col[f->out], err);
        if (rc == 0 && f->weight_out >= 0)
            rc = ctr_colbuf_put_close(&j->out.col[f->weight_out], err);
    }
    return rc;
}

int ctr_fields_parse(const struct ctr_fields *s, struct ctr_text_job *j, struct ctr_err *err,
                     int (*row)(const struct ctr_fields *s, struct ctr_text_job *j, const char *p, const char *end,
                                struct ctr_err *why))
{
    const char *p = j->block.p, *end = p + j->block.n, *line, *e;
    int64_t number = j->block.first_line;

    for (; (e = ctr_next_record(&p, end, &line)) != NULL; number++) {
        int64_t rows = ctr_batchbuf_rows(&j->out);
        struct ctr_err why;
        int rc;
        why.code = why.sys = 0;
        why.file[0] = why.what[0] = 0;
        rc = row(s, j, line, e, &why);
        if (rc > 0)
            rc = close_lists(s, j, &why);
        if (rc == CTR_EDATA) {
            const struct ctr_text_record record = { line, (size_t)(p - line), number, rows };
            ctr_job_rewind(j, rows);
            rc = ctr_job_bad(j, &record, err, "%s", why.what);
        } else if (rc < 0) {
            *err = why;
        }
        if (rc < 0)
            return rc;
    }
    return 0;
}
