/* SPDX-License-Identifier: Apache-2.0
 *
 * parquet_meta: the metadata that ctr-export keeps in a file: "ctr.role click" of a column, "ctr.plan" of the schema.
 */
#include "common/parquet/parquet_impl.h"

#include <stdlib.h>

static bool known_meta(const char *key, bool of_column)
{
    static const char *const column[] = { CTR_META_ROLE,    CTR_META_TABLE,       CTR_META_HISTORY_OF,
                                          CTR_META_HISTORY, CTR_META_ORDER,       CTR_META_SIDE,
                                          CTR_META_TOWER,   CTR_META_TOWER_MODEL, CTR_META_TOWER_BIAS },
                             *const schema[] = { CTR_META_PG,       CTR_META_PLAN,          CTR_META_PLAN_ID,
                                                 CTR_META_KEY_SEED, CTR_META_PLAN_LANGUAGE, CTR_META_PLAN_INPUTS,
                                                 CTR_META_NETWORK };
    const char *const *const names = of_column ? column : schema;
    for (size_t i = 0; i < (of_column ? CTR_COUNT(column) : CTR_COUNT(schema)); i++)
        if (!strcmp(key, names[i]))
            return true;
    return false;
}

/* The column that has a name in the file, or -1. */
static int column_of(const struct ctr_text_columns *columns, const char *name)
{
    for (int i = 0; i < columns->n; i++) {
        const struct ctr_text_column *c = &columns->c[i];
        if (c->out >= 0 && !strcmp(c->source ? c->source : c->name, name))
            return c->out;
    }
    return -1;
}

/* A role that an option gives goes before that of the file: to this column, or to another one where only one may have
 * it. */
static bool has_role(const struct ctr_schema *s, const struct ctr_field *f, const char *role)
{
    if (ctr_field_role(f) >= 0)
        return true;
    for (int r = 0; r < CTR_ROLE_FEATURE; r++)
        if (!strcmp(role, ctr_roles[r]))
            return ctr_schema_role(s, (enum ctr_role)r) >= 0;
    return false;
}

static int take(const struct ctr_text_columns *columns, struct ctr_schema *s, char *key, const char *value,
                struct ctr_err *err)
{
    char *space = strchr(key, ' ');
    if (space)
        *space = 0;
    const int k = space ? column_of(columns, space + 1) : -1;
    if (!known_meta(key, space) || (space && k < 0))
        return 0;
    struct ctr_field *f = space ? &s->f[k] : NULL;
    if (f && !strcmp(key, CTR_META_ROLE) && has_role(s, f, value))
        return 0;
    return ctr_meta_set(f ? &f->meta : &s->meta, key, value, err);
}

int ctr_pq_metadata(const struct pq_footer *f, const struct ctr_text_columns *columns, struct ctr_schema *s,
                    struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < f->pairs; i++) {
        const struct pq_pair *pair = &f->pair[i];
        char *key = NULL, *value = NULL;
        if (pair->key.n < 4 || !pair->value.p || memcmp(pair->key.p, "ctr.", 4) ||
            memchr(pair->key.p, 0, pair->key.n) || memchr(pair->value.p, 0, pair->value.n) ||
            !ctr_utf8_valid((const uint8_t *)pair->value.p, pair->value.n))
            continue;
        rc = ctr_memdup(&key, pair->key.p, pair->key.n, err);
        if (!rc)
            rc = ctr_memdup(&value, pair->value.p, pair->value.n, err);
        if (!rc)
            rc = take(columns, s, key, value, err);
        free(key);
        free(value);
    }
    return rc;
}

/* The name in "KEY NAME", if it is such a pair. */
static bool pair_of(const struct pq_pair *p, const char *key, struct ctr_str *name)
{
    const size_t n = strlen(key);
    *name = (struct ctr_str){ p->key.p + n + 1, p->key.n - n - 1 };
    return p->key.n > n + 1 && !memcmp(p->key.p, key, n) && p->key.p[n] == ' ';
}

int ctr_pq_role(const struct pq_footer *f, const char *column)
{
    struct ctr_str name;
    for (int i = 0; i < f->pairs; i++)
        for (int r = 0; r < CTR_ROLE_FEATURE && pair_of(&f->pair[i], CTR_META_ROLE, &name); r++)
            if (name.n == strlen(column) && !memcmp(name.p, column, name.n) &&
                f->pair[i].value.n == strlen(ctr_roles[r]) &&
                !memcmp(f->pair[i].value.p, ctr_roles[r], f->pair[i].value.n))
                return r;
    return -1;
}

/* The leaf called NAME and what follows it, or -1. */
static int leaf_of(const struct pq_leaves *all, struct ctr_str name, const char *then)
{
    for (int i = 0; i < all->n; i++)
        if (!strncmp(all->leaf[i].name, name.p, name.n) && strlen(all->leaf[i].name) >= name.n &&
            !strcmp(all->leaf[i].name + name.n, then))
            return i;
    return -1;
}

static bool is_list(const struct pq_leaf *l, enum ctr_type item)
{
    return l->native.type == CTR_LIST && l->native.item == item && !l->refusal && !l->conflict && !l->ambiguous;
}

static int make_pairs(struct pq_leaves *all, struct ctr_str name, struct ctr_err *err)
{
    const int k = leaf_of(all, name, ".key"), w = leaf_of(all, name, ".weight");
    char *whole = NULL;
    if (k < 0 || w < 0 || leaf_of(all, name, "") >= 0 || !is_list(&all->leaf[k], CTR_U64) ||
        !is_list(&all->leaf[w], CTR_F32))
        return 0;
    int rc = ctr_memdup(&whole, name.p, name.n, err);
    if (rc)
        return rc;
    free(all->leaf[k].name);
    all->leaf[k].name = whole;
    all->leaf[k].native.item = CTR_WKEY;
    free(all->leaf[w].name);
    memmove(&all->leaf[w], &all->leaf[w + 1], (size_t)(all->n - w - 1) * sizeof *all->leaf);
    all->n--;
    return 0;
}

int ctr_pq_shapes(const struct pq_footer *f, struct pq_leaves *all, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < f->pairs; i++) {
        const struct ctr_str v = f->pair[i].value;
        struct ctr_str name;
        int32_t width = 0;
        if (pair_of(&f->pair[i], PQ_META_PAIRS, &name))
            rc = make_pairs(all, name, err);
        if (!pair_of(&f->pair[i], PQ_META_WIDTH, &name))
            continue;
        for (size_t c = 0; c < v.n && v.p[c] >= '0' && v.p[c] <= '9' && width < 1 << 20; c++)
            width = width * 10 + (v.p[c] - '0');
        const int l = leaf_of(all, name, "");
        if (l >= 0 && all->leaf[l].native.type == CTR_LIST && all->leaf[l].native.item != CTR_WKEY)
            all->leaf[l].fixed = width;
    }
    return rc;
}
