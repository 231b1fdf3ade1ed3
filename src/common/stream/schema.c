/* SPDX-License-Identifier: Apache-2.0
 *
 * schema: names and types of columns, their metadata, comparison and look-up. */
#include "common/stream/batch.h"

#include <stdio.h>
#include <stdlib.h>

/* A schema is an array of fields, the array's capacity follows from n (append_field). That of a log with vectors, as
 * text and as it is here:
 *
 *     click: int64, label          f[0]  type CTR_I64, meta { CTR_META_ROLE: "label" }
 *     v: fixed_size_list<int8>[2]  f[1]  type CTR_FIXED, item CTR_I8, width 2
 *
 * ctr_schema_find(s, "v") compares hashes of names before names. The functions follow in the order: metadata (pairs of
 * texts), fields and roles, comparison of schemas and common types (ctr_type_wider: int32 and uint32 make int64), names
 * of types, sizes. */

const struct ctr_type_info ctr_types[CTR_NTYPES] = {
    [CTR_BOOL] = { "bool", 0, false, false, false },
    [CTR_I8] = { "int8", 1, true, true, false },
    [CTR_I16] = { "int16", 2, true, true, false },
    [CTR_I32] = { "int32", 4, true, true, false },
    [CTR_I64] = { "int64", 8, true, true, false },
    [CTR_U8] = { "uint8", 1, true, false, false },
    [CTR_U16] = { "uint16", 2, true, false, false },
    [CTR_U32] = { "uint32", 4, true, false, false },
    [CTR_U64] = { "uint64", 8, true, false, false },
    [CTR_F16] = { "float16", 2, false, true, true },
    [CTR_F32] = { "float32", 4, false, true, true },
    [CTR_F64] = { "float64", 8, false, true, true },
    [CTR_UTF8] = { "utf8", 0, false, false, false },
    [CTR_TIME] = { "timestamp", 8, false, true, false },
    [CTR_LIST] = { "list", 0, false, false, false },
    [CTR_FIXED] = { "fixed_size_list", 0, false, false, false },
    [CTR_WKEY] = { "weighted key", 8, false, false, false },
    [CTR_FOREIGN] = { "", 0, false, false, false }, /* ctr_field.foreign names it */
};

const char *const ctr_roles[CTR_NROLES] = { "label", "weight",      "user",    "time",  "query", "id",
                                            "score", "uncertainty", "feature", "dense", "image" };

/* ---- metadata ---- */

static int meta_find(const struct ctr_meta *m, const char *key)
{
    for (int i = 0; i < m->n; i++)
        if (!strcmp(m->kv[2 * i], key))
            return i;
    return -1;
}

const char *ctr_meta_get(const struct ctr_meta *m, const char *key)
{
    int i = meta_find(m, key);

    return i < 0 ? NULL : m->kv[2 * i + 1];
}

static void meta_remove(struct ctr_meta *m, int i)
{
    free(m->kv[2 * i]);
    free(m->kv[2 * i + 1]);
    memmove(m->kv + 2 * i, m->kv + 2 * i + 2, (size_t)(m->n - i - 1) * 2 * sizeof *m->kv);
    m->n--;
}

int ctr_meta_set(struct ctr_meta *m, const char *key, const char *value, struct ctr_err *err)
{
    int i = meta_find(m, key);
    char *k, *v, **kv;

    if (!value) {
        if (i >= 0)
            meta_remove(m, i);
        return 0;
    }
    v = strdup(value);
    if (v && i >= 0) {
        free(m->kv[2 * i + 1]);
        m->kv[2 * i + 1] = v;
        return 0;
    }
    k = strdup(key);
    kv = k && v ? realloc(m->kv, (size_t)(m->n + 1) * 2 * sizeof *kv) : NULL;
    if (!kv) {
        free(k);
        free(v);
        return ctr_fail_nomem(err, strlen(value));
    }
    m->kv = kv;
    kv[2 * m->n] = k;
    kv[2 * m->n + 1] = v;
    m->n++;
    return 0;
}

int ctr_meta_copy(struct ctr_meta *to, const struct ctr_meta *from, struct ctr_err *err)
{
    int rc = 0;

    for (int i = 0; !rc && i < from->n; i++)
        rc = ctr_meta_set(to, from->kv[2 * i], from->kv[2 * i + 1], err);
    return rc;
}

void ctr_meta_free(struct ctr_meta *m)
{
    for (int i = 0; i < 2 * m->n; i++)
        free(m->kv[i]);
    free(m->kv);
    *m = (struct ctr_meta){ 0 };
}

/* ---- schema ---- */

static void field_free(struct ctr_field *f)
{
    free(f->name);
    ctr_meta_free(&f->meta);
}

/* Never 0, which means unknown. */
static uint32_t name_hash(const char *name)
{
    return (uint32_t)ctr_hash64(name, strlen(name), 0) | 1;
}

/* The capacity doubles at each power of two. */
static int append_field(struct ctr_schema *s, const struct ctr_field *f, const char *name, struct ctr_err *err)
{
    struct ctr_field copy = *f;
    int rc;

    if (!(s->n & (s->n - 1))) {
        size_t bytes = (size_t)CTR_MAX(2 * s->n, 1) * sizeof *s->f;
        struct ctr_field *p = realloc(s->f, bytes);
        if (!p)
            return ctr_fail_nomem(err, bytes);
        s->f = p;
    }
    copy.hash = name_hash(name);
    copy.meta = (struct ctr_meta){ 0 };
    if ((rc = ctr_strdup(&copy.name, name, err)))
        return rc;
    if ((rc = ctr_meta_copy(&copy.meta, &f->meta, err))) {
        field_free(&copy);
        return rc;
    }
    s->f[s->n++] = copy;
    return 0;
}

int ctr_schema_add_field(struct ctr_schema *s, const struct ctr_field *f, const char *name, struct ctr_err *err)
{
    name = name ? name : f->name;
    if (ctr_schema_find(s, name) >= 0)
        return ctr_fail(err, CTR_EUSAGE, "column '%s' is there twice", name);
    return append_field(s, f, name, err);
}

int ctr_schema_add(struct ctr_schema *s, const char *name, enum ctr_type type, struct ctr_err *err)
{
    struct ctr_field f = { .type = type };

    return ctr_schema_add_field(s, &f, name, err);
}

int ctr_schema_copy(struct ctr_schema *to, const struct ctr_schema *from, struct ctr_err *err)
{
    *to = (struct ctr_schema){ 0 };
    int rc = ctr_meta_copy(&to->meta, &from->meta, err);
    for (int i = 0; !rc && i < from->n; i++)
        rc = append_field(to, &from->f[i], from->f[i].name, err);
    if (rc)
        ctr_schema_free(to);
    return rc;
}

void ctr_schema_free(struct ctr_schema *s)
{
    for (int i = 0; i < s->n; i++)
        field_free(&s->f[i]);
    free(s->f);
    ctr_meta_free(&s->meta);
    *s = (struct ctr_schema){ 0 };
}

int ctr_schema_find(const struct ctr_schema *s, const char *name)
{
    const uint32_t hash = name_hash(name);

    for (int i = 0; i < s->n; i++)
        if ((s->f[i].hash == hash || !s->f[i].hash) && !strcmp(s->f[i].name, name))
            return i;
    return -1;
}

/* Is `quoted` the name in back quotes, plainly or as ctr-info and plans print it, with escapes? */
static bool is_quoted(const char *name, const char *quoted, size_t n)
{
    struct ctr_buf b = { 0 };
    struct ctr_err none = { 0 };
    const bool plain = strlen(name) == n - 2 && !memcmp(name, quoted + 1, n - 2);
    const bool same =
        plain || (!ctr_quote_in(&b, '`', name, strlen(name), &none) && b.len == n && !memcmp(b.data, quoted, n));
    ctr_buf_free(&b);
    return same;
}

int ctr_schema_need(const struct ctr_schema *s, const char *name, struct ctr_err *err)
{
    int i = ctr_schema_find(s, name);
    size_t n = strlen(name);
    char hint[200] = "";
    const char **names;

    if (i >= 0)
        return i;
    for (i = 0; n > 2 && name[0] == '`' && name[n - 1] == '`' && i < s->n; i++)
        if (is_quoted(s->f[i].name, name, n))
            return i;
    names = malloc((size_t)(s->n + 1) * sizeof *names);
    for (i = 0; names && i < s->n; i++)
        names[i] = s->f[i].name;
    const bool near = names && ctr_nearest(name, names, s->n);
    if (names)
        ctr_name_hint(hint, sizeof hint, name, names, s->n);
    free(names);
    const int rc = ctr_fail(err, CTR_EUSAGE, "there is no column '%s'", name);
    if (*hint)
        (void)ctr_err_remedy(err, "%s", hint);
    err->nearest = near;
    return rc;
}

int ctr_schema_columns(const struct ctr_schema *s, const char *list, char sep, int **columns, int *n,
                       struct ctr_err *err)
{
    struct ctr_strs names = { 0 };
    int rc = ctr_names_split(&names, list, sep, err), have = *n;

    if (!rc)
        rc = ctr_array_extend(columns, &have, *n + names.n, sizeof **columns, err);
    for (int i = 0; i < names.n && !rc; i++) {
        const int column = ctr_schema_need(s, names.s[i], err);
        rc = CTR_MIN(column, 0);
        for (int k = 0; k < *n && !rc; k++)
            if ((*columns)[k] == column)
                rc = ctr_fail(err, CTR_EUSAGE, "%s is named twice", s->f[column].name);
        if (!rc)
            (*columns)[(*n)++] = column;
    }
    ctr_strs_free(&names);
    return rc;
}

int ctr_field_role(const struct ctr_field *f)
{
    const char *role = ctr_meta_get(&f->meta, CTR_META_ROLE);

    for (int i = 0; role && i < CTR_NROLES; i++)
        if (!strcmp(role, ctr_roles[i]))
            return i;
    return -1;
}

int ctr_schema_role(const struct ctr_schema *s, enum ctr_role role)
{
    for (int i = 0; i < s->n; i++)
        if (ctr_field_role(&s->f[i]) == (int)role)
            return i;
    return -1;
}

bool ctr_schema_role_free(const struct ctr_schema *s, int role)
{
    return ctr_role_is_input(role) || (role >= 0 && ctr_schema_role(s, (enum ctr_role)role) < 0);
}

int ctr_schema_add_other(struct ctr_schema *s, const struct ctr_field *f, struct ctr_err *err)
{
    const int role = ctr_field_role(f);
    const bool taken = role >= 0 && !ctr_schema_role_free(s, role);
    const int rc = ctr_schema_add_field(s, f, NULL, err);
    return rc || !taken ? rc : ctr_meta_set(&s->f[s->n - 1].meta, CTR_META_ROLE, NULL, err);
}

/* Is the column's type valid for the role? */
static bool can_have(enum ctr_role role, const struct ctr_field *f)
{
    const bool integer = ctr_types[f->type].integer, floating = ctr_types[f->type].floating;
    switch (role) {
    case CTR_ROLE_LABEL: return integer || floating || f->type == CTR_BOOL;
    case CTR_ROLE_WEIGHT: return integer || floating;
    case CTR_ROLE_SCORE: return floating;
    case CTR_ROLE_TIME: return f->type == CTR_TIME;
    default: return integer || f->type == CTR_UTF8;
    }
}

int ctr_schema_find_role(const struct ctr_schema *s, enum ctr_role role, const char *name, bool need, int *column,
                         struct ctr_err *err)
{
    int i = name ? ctr_schema_need(s, name, err) : ctr_schema_role(s, role);

    *column = CTR_MAX(i, -1);
    if (name || i >= 0 || !need)
        return i < -1 ? i : 0;
    /* "score", and for several models "score.fast", …; else columns of a valid type without a role */
    const char **like = malloc((size_t)(s->n + 1) * sizeof *like);
    const size_t n = strlen(ctr_roles[role]);
    char hint[300] = "";
    int likely = 0;
    for (i = 0; like && i < s->n; i++)
        if (!strncmp(s->f[i].name, ctr_roles[role], n) && strchr("._", s->f[i].name[n]))
            like[likely++] = s->f[i].name;
    const bool named = likely > 0;
    for (i = 0; like && !named && i < s->n; i++)
        if (ctr_field_role(&s->f[i]) < 0 && can_have(role, &s->f[i]))
            like[likely++] = s->f[i].name;
    if (likely)
        ctr_name_hint(hint, sizeof hint, named ? "" : ctr_roles[role], like, likely);
    free(like);
    return ctr_fail(err, CTR_EUSAGE, "no column has the role %s: name one with --%s NAME%s%s%s", ctr_roles[role],
                    ctr_roles[role], hint, likely ? "" : ", or give the plan of ctr-extract a line ",
                    likely ? "" : ctr_roles[role]);
}

int ctr_field_set_role(struct ctr_field *f, enum ctr_role role, struct ctr_err *err)
{
    return ctr_meta_set(&f->meta, CTR_META_ROLE, ctr_roles[role], err);
}

bool ctr_field_same_type(const struct ctr_field *a, const struct ctr_field *b)
{
    if (a->type != b->type)
        return false;
    if (a->type == CTR_FIXED)
        return a->item == b->item && a->width == b->width;
    return a->type != CTR_LIST || a->item == b->item;
}

static enum ctr_type find_integer(int bits, bool is_signed)
{
    for (int t = 0; t < CTR_NTYPES; t++)
        if (ctr_types[t].integer && 8 * ctr_types[t].width == bits && ctr_types[t].is_signed == is_signed)
            return (enum ctr_type)t;
    return CTR_NTYPES;
}

enum ctr_type ctr_type_wider(enum ctr_type a, enum ctr_type b)
{
    const struct ctr_type_info *x = &ctr_types[a], *y = &ctr_types[b];
    if (x->floating && y->floating)
        return x->width > y->width ? a : b;
    if (!x->integer || !y->integer)
        return CTR_NTYPES;
    if (x->is_signed == y->is_signed)
        return x->width > y->width ? a : b;
    const int bits = CTR_MAX(8 * x->width * (x->is_signed ? 1 : 2), 8 * y->width * (y->is_signed ? 1 : 2));
    return find_integer(bits, true);
}

bool ctr_field_unite(struct ctr_field *had, const struct ctr_field *f)
{
    const bool same = ctr_field_same_type(had, f), dict = had->dict && f->dict && same;
    const enum ctr_type type = same ? had->type : ctr_type_wider(had->type, f->type);
    if (had->type == CTR_FOREIGN || f->type == CTR_FOREIGN || (!same && !had->none && !f->none && type == CTR_NTYPES))
        return false;
    if (had->none && !same) {
        had->type = f->type;
        had->item = f->item;
        had->width = f->width;
    } else if (!f->none) {
        had->type = type;
    }
    had->none &= f->none;
    had->dict = dict;
    return true;
}

bool ctr_schema_same_types(const struct ctr_schema *a, const struct ctr_schema *b, char *why, size_t why_size)
{
    char ta[64], tb[64];

    if (!why)
        why_size = 0;
    for (int i = 0; i < a->n && i < b->n; i++) {
        const struct ctr_field *f = &a->f[i], *g = &b->f[i];
        if (strcmp(f->name, g->name))
            return snprintf(why, why_size, "column %d is '%s' in one and '%s' in the other", i + 1, f->name, g->name),
                   false;
        if (!ctr_field_same_type(f, g))
            return snprintf(why, why_size, "column '%s' is %s in one and %s in the other", f->name,
                            ctr_field_type_name(f, ta, sizeof ta), ctr_field_type_name(g, tb, sizeof tb)),
                   false;
    }
    if (a->n != b->n)
        return snprintf(why, why_size, "one has %d columns, the other %d", a->n, b->n), false;
    return true;
}

bool ctr_schema_equal(const struct ctr_schema *a, const struct ctr_schema *b, char *why, size_t why_size)
{
    static const struct {
        const char *key, *name, *usual;
    } meta[] = { { CTR_META_ROLE, "role" },
                 { CTR_META_TABLE, "table" },
                 { CTR_META_ORDER, "order", "newest" },
                 { CTR_META_TOWER, "tower" },
                 { CTR_META_TOWER_MODEL, "model" } };
    if (!ctr_schema_same_types(a, b, why, why_size))
        return false;
    for (int i = 0; i < a->n; i++)
        for (size_t k = 0; k < CTR_COUNT(meta); k++) {
            const char *x = ctr_meta_get(&a->f[i].meta, meta[k].key), *y = ctr_meta_get(&b->f[i].meta, meta[k].key);
            x = x ? x : meta[k].usual;
            y = y ? y : meta[k].usual;
            if (x && y ? strcmp(x, y) != 0 : x != y)
                return snprintf(why, why ? why_size : 0, "column '%s' is of %s %s in one and %s in the other",
                                a->f[i].name, meta[k].name, x ? x : "none", y ? y : "none"),
                       false;
        }
    return true;
}

/* ---- types as text ---- */

const char *ctr_field_type_name(const struct ctr_field *f, char *out, size_t size)
{
    if (f->type == CTR_LIST)
        snprintf(out, size, "list<%s>", ctr_types[f->item].name);
    else if (f->type == CTR_FIXED)
        snprintf(out, size, "fixed_size_list<%s>[%d]", ctr_types[f->item].name, f->width);
    else
        snprintf(out, size, "%s", f->type == CTR_FOREIGN ? f->foreign : ctr_types[f->type].name);
    return out;
}

static bool scalar_parse(const char *s, size_t n, enum ctr_type *type)
{
    static const struct {
        const char *name;
        enum ctr_type type;
    } synonyms[] = { { "int", CTR_I64 },      { "uint", CTR_U64 },     { "float", CTR_F32 }, { "double", CTR_F64 },
                     { "string", CTR_UTF8 },  { "text", CTR_UTF8 },    { "str", CTR_UTF8 },  { "time", CTR_TIME },
                     { "boolean", CTR_BOOL }, { "datetime", CTR_TIME } };

    for (int t = 0; t < CTR_FOREIGN; t++)
        if (!ctr_type_list(t) && strlen(ctr_types[t].name) == n && !memcmp(s, ctr_types[t].name, n))
            return *type = (enum ctr_type)t, true;
    for (size_t i = 0; i < CTR_COUNT(synonyms); i++)
        if (strlen(synonyms[i].name) == n && !memcmp(s, synonyms[i].name, n))
            return *type = synonyms[i].type, true;
    return false;
}

bool ctr_type_parse(const char *s, size_t n, struct ctr_field *f)
{
    static const char list[] = "list<", fixed[] = "fixed_size_list<";
    const char *end;
    int64_t width;

    f->item = CTR_BOOL;
    f->width = 0;
    if (n > sizeof list && !memcmp(s, list, sizeof list - 1) && s[n - 1] == '>') {
        f->type = CTR_LIST;
        return scalar_parse(s + sizeof list - 1, n - sizeof list, &f->item);
    }
    if (n > sizeof fixed && !memcmp(s, fixed, sizeof fixed - 1) && s[n - 1] == ']' && (end = memchr(s, '>', n)) &&
        end[1] == '[') {
        f->type = CTR_FIXED;
        if (!ctr_parse_i64(end + 2, (size_t)(s + n - 1 - (end + 2)), &width) || width < 1 || width > 1 << 24)
            return false;
        f->width = (int32_t)width;
        return scalar_parse(s + sizeof fixed - 1, (size_t)(end - s) - (sizeof fixed - 1), &f->item) &&
               f->item != CTR_WKEY;
    }
    return scalar_parse(s, n, &f->type) && f->type != CTR_WKEY;
}

/* ---- rows of a batch ---- */

enum {
    BATCH_BYTES = 1 << 20,
    TEXT_BYTES = 8,
    LIST_ITEMS = 4,
    MIN_ROWS = 32
}; /* typical sizes of texts and lists in logs */

static int64_t value_bytes(enum ctr_type type)
{
    return type == CTR_UTF8 ? 4 + TEXT_BYTES : type == CTR_WKEY ? 12 : CTR_MAX(ctr_types[type].width, 1);
}

static int64_t row_bytes(const struct ctr_field *f)
{
    return f->dict                ? 4
           : f->type == CTR_FIXED ? f->width * value_bytes(f->item)
           : f->type == CTR_LIST  ? 4 + LIST_ITEMS * value_bytes(f->item)
                                  : value_bytes(f->type);
}

int64_t ctr_schema_batch_rows(const struct ctr_schema *s)
{
    int64_t bytes = 0, rows = CTR_BATCH_ROWS;
    if (ctr_meta_get(&s->meta, CTR_META_SECTION))
        return rows;
    for (int i = 0; i < s->n; i++)
        bytes += row_bytes(&s->f[i]);
    while (rows > MIN_ROWS && rows * bytes > BATCH_BYTES)
        rows /= 2;
    return rows;
}
