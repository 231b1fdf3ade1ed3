/* SPDX-License-Identifier: Apache-2.0
 *
 * leaves: maps an Arrow schema to our columns: a struct becomes a column per field, a list of scalars or of struct<key,
 * weight> a single one. The fields on the way to a column's values are its path.
 */
#include "common/stream/arrow.h"

#include <stdlib.h>

/* Is a struct the <key: uint64, weight: float32> of weighted keys? */
static bool is_weighted(const struct arrow_field *f)
{
    return f->nchild == 2 && !f->child[0].dict && !f->child[1].dict && !strcmp(f->child[0].name, "key") &&
           f->child[0].kind == ARROW_INT && f->child[0].bits == 64 && !f->child[0].is_signed &&
           !strcmp(f->child[1].name, "weight") && f->child[1].kind == ARROW_FLOAT && f->child[1].bits == 32;
}

static bool scalar_type(const struct arrow_field *f, enum ctr_type *t)
{
    static const enum ctr_type ints[2][4] = { { CTR_U8, CTR_U16, CTR_U32, CTR_U64 },
                                              { CTR_I8, CTR_I16, CTR_I32, CTR_I64 } };
    switch (f->kind) {
    case ARROW_INT: *t = ints[f->is_signed][__builtin_ctz((unsigned)f->bits) - 3]; return true;
    case ARROW_FLOAT: *t = f->bits == 16 ? CTR_F16 : f->bits == 32 ? CTR_F32 : CTR_F64; return true;
    case ARROW_BOOL: *t = CTR_BOOL; return true;
    case ARROW_DATE:
    case ARROW_TIMESTAMP: *t = CTR_TIME; return true;
    case ARROW_TIME:
    case ARROW_DURATION: *t = CTR_I64; return true;
    case ARROW_DECIMAL: *t = f->scale > 0 ? CTR_F64 : CTR_I64; return true;
    case ARROW_LIST:
    case ARROW_LARGE_LIST:
    case ARROW_FIXED_LIST:
    case ARROW_LIST_VIEW:
    case ARROW_LARGE_LIST_VIEW:
    case ARROW_RUN_END:
    case ARROW_STRUCT: return false;
    default: *t = CTR_UTF8; return true;
    }
}

struct walk {
    struct arrow_leaves *ls;
    const struct arrow_field *path[ARROW_MAX_DEPTH + 1];
    int depth;
    const struct arrow_field *list;   /* on the path, or NULL */
    const struct arrow_field *spread; /* what repeats values of this level: runs, or a list of views; or NULL */
    const struct ctr_reader_opts *o;  /* not NULL */
    bool dict;                        /* encoded, outside of any list */
    struct ctr_err *err;
};

static int leaf_add(struct walk *w, const char *name, const struct ctr_meta *meta, enum ctr_type type)
{
    struct arrow_leaves *ls = w->ls;
    int rc = ctr_array_grow(&ls->l, ls->n, &ls->cap, sizeof *ls->l, w->err);
    if (rc)
        return rc;
    struct arrow_leaf *l = &ls->l[ls->n++];
    *l = (struct arrow_leaf){ .depth = w->depth,
                              .most_written = w->o->most_written,
                              .written_option = w->o->written_option };
    memcpy(l->path, w->path, sizeof l->path);
    bool fixed = w->list && w->list->kind == ARROW_FIXED_LIST;
    l->field.type = fixed ? CTR_FIXED : w->list ? CTR_LIST : type;
    l->field.item = w->list ? type : CTR_BOOL;
    l->field.width = fixed ? w->list->width : 0;
    l->field.dict = w->dict;
    l->field.none = !w->list && w->path[w->depth - 1]->kind == ARROW_NULL;
    rc = ctr_strdup(&l->field.name, name, w->err);
    if (rc >= 0)
        rc = ctr_meta_copy(&l->field.meta, meta, w->err);
    if (rc >= 0 && ctr_arrow_uuid(w->path[w->depth - 1])) /* it is a text now */
        rc = ctr_meta_set(&l->field.meta, "ARROW:extension:name", NULL, w->err);
    if (rc >= 0 && ctr_arrow_uuid(w->path[w->depth - 1]))
        rc = ctr_meta_set(&l->field.meta, "ARROW:extension:metadata", NULL, w->err);
    return rc;
}

/* A column of decimals, of the type that the caller wants. */
static int leaf_decimal(struct walk *w, const char *name, const struct ctr_meta *meta, enum ctr_type type)
{
    int k = w->o->ndecimals;
    while (k-- > 0 && strcmp(w->o->decimal[k].name, name) != 0)
        continue;
    const int rc = leaf_add(w, name, meta, k < 0 ? type : w->o->decimal[k].type);
    if (rc >= 0 && k >= 0)
        w->ls->l[w->ls->n - 1].decimal = &w->o->decimal[k];
    return rc;
}

static int walk_field(struct walk *w, const struct arrow_field *f, const char *name, const struct ctr_meta *meta);

int ctr_leaf_refuse(const struct arrow_leaf *l, struct ctr_err *err)
{
    if (ctr_arrow_foreign(l->foreign))
        return ctr_arrow_refuse(l->foreign, err);
    if (l->foreign->kind == ARROW_RUN_END)
        return ctr_fail(err, CTR_EKIND,
                        "column '%s' has runs in runs or views, which is not supported: decode the inner ones",
                        l->field.name);
    return ctr_fail(err, CTR_EKIND,
                    "column '%s' is a list of lists, which is not supported: cast the inner lists to text, or explode "
                    "the outer one",
                    l->field.name);
}

/* An unsupported column, because of a field on its path. */
static int leaf_foreign(struct walk *w, const struct arrow_field *why, const char *name, const struct ctr_meta *meta)
{
    int rc = leaf_add(w, name, meta, CTR_FOREIGN);
    struct arrow_leaf *l = &w->ls->l[w->ls->n - 1];
    if (rc < 0)
        return rc;
    l->foreign = why;
    l->field.type = CTR_FOREIGN;
    l->field.dict = false;
    l->field.foreign = ctr_arrow_foreign(why)       ? ctr_arrow_foreign(why)
                       : why->kind == ARROW_RUN_END ? "runs of runs"
                                                    : "list of lists";
    if (w->o->foreign)
        return 0;
    rc = ctr_leaf_refuse(l, w->err);
    ctr_err_add(w->err, "; or leave it out with ctr-select --columns");
    return rc;
}

static int walk_struct(struct walk *w, const struct arrow_field *f, const char *name)
{
    int rc = 0;
    for (int i = 0; rc >= 0 && i < f->nchild; i++) {
        struct ctr_buf full = { 0 };
        rc = ctr_buf_printf(&full, w->err, "%s.%s", name, f->child[i].name);
        if (rc >= 0)
            rc = walk_field(w, &f->child[i], (char *)full.data, &f->child[i].meta);
        ctr_buf_free(&full);
    }
    return rc;
}

static int walk_field(struct walk *w, const struct arrow_field *f, const char *name, const struct ctr_meta *meta)
{
    struct walk before = *w;
    enum ctr_type type;
    int rc;
    w->path[w->depth++] = f; /* arrow-parse.c limits the depth */
    w->dict |= f->dict && !w->list && !w->spread;
    if (ctr_arrow_foreign(f)) {
        rc = leaf_foreign(w, f, name, meta);
    } else if (scalar_type(f, &type)) {
        rc = f->kind == ARROW_DECIMAL ? leaf_decimal(w, name, meta, type) : leaf_add(w, name, meta, type);
    } else if (f->kind == ARROW_RUN_END && w->spread) {
        rc = leaf_foreign(w, f, name, meta);
    } else if (f->kind == ARROW_RUN_END) {
        w->spread = f;
        rc = walk_field(w, &f->child[1], name, meta);
    } else if (f->kind != ARROW_STRUCT && w->list) {
        rc = leaf_foreign(w, f, name, meta);
    } else if (f->kind != ARROW_STRUCT) {
        w->list = f;
        w->spread = f->kind == ARROW_LIST_VIEW || f->kind == ARROW_LARGE_LIST_VIEW ? f : NULL;
        rc = walk_field(w, &f->child[0], name, meta);
    } else if (w->list && w->list->kind != ARROW_FIXED_LIST && is_weighted(f)) {
        rc = leaf_add(w, name, meta, CTR_WKEY);
    } else {
        rc = walk_struct(w, f, name);
    }
    *w = before;
    return rc;
}

int ctr_leaves_make(struct arrow_leaves *ls, const struct arrow_schema *s, const struct ctr_reader_opts *o,
                    struct ctr_err *err)
{
    static const struct ctr_reader_opts none;
    struct walk w = { .ls = ls, .o = o ? o : &none, .err = err };
    int rc = 0;
    *ls = (struct arrow_leaves){ 0 };
    for (int i = 0; rc >= 0 && i < s->n; i++)
        rc = walk_field(&w, &s->f[i], s->f[i].name, &s->f[i].meta);
    if (rc < 0)
        ctr_leaves_free(ls);
    return rc < 0 ? rc : 0;
}

static void store_free(struct arrow_store *st)
{
    for (int i = 0; i < 2; i++) {
        ctr_buf_free(&st->lv[i].data);
        ctr_buf_free(&st->lv[i].offsets);
        ctr_buf_free(&st->lv[i].valid);
        if (st->lv[i].gathered_set)
            ctr_colbuf_free(&st->lv[i].gathered);
        if (st->lv[i].few_set)
            ctr_colbuf_free(&st->lv[i].few);
        if (st->lv[i].spread_set)
            ctr_colbuf_free(&st->lv[i].spread);
    }
}

static void dict_free(struct arrow_dict *d)
{
    if (!d)
        return;
    store_free(&d->store);
    ctr_buf_free(&d->place);
    ctr_buf_free(&d->chosen);
    if (d->grown_set)
        ctr_colbuf_free(&d->grown);
    ctr_data_free(&d->data);
    ctr_buf_free(&d->meta);
    ctr_buf_free(&d->body);
    free(d);
}

void ctr_leaves_free(struct arrow_leaves *ls)
{
    for (int i = 0; i < ls->n; i++) {
        struct arrow_leaf *l = &ls->l[i];
        free(l->field.name);
        ctr_meta_free(&l->field.meta);
        for (int k = 0; k < 2; k++) {
            store_free(&l->out[k].store);
            ctr_buf_free(&l->out[k].index);
        }
        for (int k = 0; k < l->depth; k++)
            dict_free(l->dict[k]);
    }
    free(ls->l);
    *ls = (struct arrow_leaves){ 0 };
}
