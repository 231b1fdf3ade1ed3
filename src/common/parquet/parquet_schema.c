/* SPDX-License-Identifier: Apache-2.0
 *
 * parquet_schema: the leaves of a schema, as our columns: names with dots, lists of the three shapes that writers have
 * used (LogicalTypes.md, "Lists"), types. What cannot be a column gets a refusal, which is an error only when the
 * column is wanted. */
#include "common/parquet/parquet_impl.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_DEPTH = 32, MAX_DECIMAL = 32 };

/* What holds on the way from the root to a leaf. */
struct path {
    struct ctr_buf name;
    int def, rep, list_def, depth;
    size_t map; /* length of the name of the map that it is in, or 0 */
    bool variant;
};

struct walk {
    const struct pq_footer *f;
    struct pq_leaves *l;
    int at; /* the next element */
};

/* ---- types ---- */

static bool set(struct pq_leaf *l, enum pq_kind kind, enum ctr_type type)
{
    l->kind = kind;
    l->native.type = type;
    return true;
}

static bool set_integer(struct pq_leaf *l, const struct pq_element *e)
{
    static const struct {
        int type, bits;
        bool is_signed;
        enum pq_kind kind;
        enum ctr_type ours;
    } integers[] = {
        { PQ_INT32, 8, true, PQ_K_NARROW, CTR_I8 },  { PQ_INT32, 16, true, PQ_K_NARROW, CTR_I16 },
        { PQ_INT32, 32, true, PQ_K_SAME, CTR_I32 },  { PQ_INT64, 64, true, PQ_K_SAME, CTR_I64 },
        { PQ_INT32, 8, false, PQ_K_NARROW, CTR_U8 }, { PQ_INT32, 16, false, PQ_K_NARROW, CTR_U16 },
        { PQ_INT32, 32, false, PQ_K_SAME, CTR_U32 }, { PQ_INT64, 64, false, PQ_K_SAME, CTR_U64 },
    };
    for (size_t i = 0; i < CTR_COUNT(integers); i++)
        if (integers[i].type == e->type && integers[i].bits == e->bits && integers[i].is_signed == e->is_signed)
            return set(l, integers[i].kind, integers[i].ours);
    return false;
}

static bool set_plain(struct pq_leaf *l, const struct pq_element *e)
{
    static const struct {
        enum pq_kind kind;
        enum ctr_type ours;
    } plain[PQ_NTYPES] = {
        [PQ_BOOLEAN] = { PQ_K_BITS, CTR_BOOL }, [PQ_INT32] = { PQ_K_SAME, CTR_I32 },
        [PQ_INT64] = { PQ_K_SAME, CTR_I64 },    [PQ_INT96] = { PQ_K_INT96, CTR_TIME },
        [PQ_FLOAT] = { PQ_K_SAME, CTR_F32 },    [PQ_REAL64] = { PQ_K_SAME, CTR_F64 },
        [PQ_BYTES] = { PQ_K_TEXT, CTR_UTF8 },   [PQ_FIXED] = { PQ_K_TEXT, CTR_UTF8 },
    };
    return set(l, plain[e->type].kind, plain[e->type].ours);
}

static bool set_decimal(struct pq_leaf *l, const struct pq_element *e)
{
    l->scale = e->scale;
    l->precision = e->precision;
    return e->scale >= 0 && e->scale <= 100 && set(l, PQ_K_DECIMAL, CTR_UTF8) &&
           (e->type == PQ_INT32 || e->type == PQ_INT64 || e->type == PQ_BYTES ||
            (e->type == PQ_FIXED && e->length <= MAX_DECIMAL));
}

/* A type of the table that a meaning has, on the physical type that it belongs to; false: another one. */
static bool set_meaning(struct pq_leaf *l, const struct pq_element *e)
{
    const bool is32 = e->type == PQ_INT32, is64 = e->type == PQ_INT64;
    switch (e->meaning) {
    case PQ_UTF8: return (e->type == PQ_BYTES || e->type == PQ_FIXED) && set_plain(l, e);
    case PQ_INTEGER: return set_integer(l, e);
    case PQ_DECIMAL: return set_decimal(l, e);
    case PQ_DATE: return is32 && set(l, PQ_K_DAY, CTR_TIME);
    case PQ_TIME:
        return e->unit == PQ_MS ? is32 && set(l, PQ_K_MS32, CTR_I64)
                                : is64 && set(l, e->unit == PQ_US ? PQ_K_US : PQ_K_NS, CTR_I64);
    case PQ_TIMESTAMP:
        return is64 && set(l, e->unit == PQ_MS ? PQ_K_SAME : e->unit == PQ_US ? PQ_K_US : PQ_K_NS, CTR_TIME);
    case PQ_UNKNOWN: return set(l, PQ_K_NULL, CTR_UTF8); /* only nulls, on any physical type */
    case PQ_UUID: return e->type == PQ_FIXED && e->length == 16 && set(l, PQ_K_UUID, CTR_UTF8);
    case PQ_FLOAT16: return e->type == PQ_FIXED && e->length == 2 && set(l, PQ_K_SAME, CTR_F16);
    default: return set_plain(l, e);
    }
}

static int refuse(struct pq_leaf *l, struct ctr_err *err, const char *why)
{
    free(l->refusal);
    return ctr_strdup(&l->refusal, why, err);
}

static int set_type(struct pq_leaf *l, const struct pq_element *e, struct ctr_err *err)
{
    static const int widths[PQ_NTYPES] = { 1, 4, 8, 12, 4, 8, 0, 0 };
    l->type = e->type;
    l->width = e->type == PQ_FIXED ? e->length : widths[e->type];
    if (e->type == PQ_FIXED && (e->length < 1 || e->length > 1 << 20))
        return refuse(l, err, "has values of no fixed length that could be");
    if (e->meaning == PQ_INTERVAL)
        return refuse(l, err, "is an interval, which is no type here");
    if (!set_meaning(l, e)) {
        char why[160];
        snprintf(why, sizeof why, "has a logical type that does not belong to %s", ctr_pq_types[e->type]);
        return refuse(l, err, why);
    }
    return 0;
}

/* ---- names ---- */

static bool named(struct ctr_str name, const char *text)
{
    return name.n == strlen(text) && !memcmp(name.p, text, name.n);
}

static int add_name(struct ctr_buf *b, struct ctr_str name, struct ctr_err *err)
{
    int rc = b->len ? ctr_buf_append(b, ".", 1, err) : 0;
    if (!rc && (memchr(name.p, 0, name.n) || !ctr_utf8_valid((const uint8_t *)name.p, name.n)))
        rc = ctr_fail(err, CTR_EDATA, "the footer is damaged: the name of a column is no UTF-8 text");
    return rc ? rc : ctr_buf_append(b, name.p, name.n, err);
}

/* ---- the tree ---- */

static int add_leaf(struct walk *w, const struct path *p, const struct pq_element *e, struct ctr_err *err)
{
    struct pq_leaf *l = &w->l->leaf[w->l->n];
    *l = (struct pq_leaf){ .column = w->l->n };
    w->l->n++;
    int rc = ctr_memdup(&l->name, (const char *)p->name.data, p->name.len, err);
    if (!rc)
        rc = set_type(l, e, err);
    if (rc)
        return rc;
    l->max_def = (uint8_t)p->def;
    l->max_rep = (uint8_t)p->rep;
    l->list_def = (uint8_t)p->list_def;
    if (p->rep) {
        l->native.item = l->native.type;
        l->native.type = CTR_LIST;
    }
    if (p->map) {
        char why[300];
        ctr_format(why, sizeof why, "belongs to the map %.*s, and a map is no type here", (int)p->map, l->name);
        return refuse(l, err, why);
    }
    if (p->variant)
        return refuse(l, err, "belongs to a variant, which is no type here");
    return p->rep > 1 ? refuse(l, err, "is a list of lists, which is deeper than a column can be") : 0;
}

static int walk(struct walk *w, struct path *p, const struct pq_element *list, struct ctr_err *err);

/* Is the repeated field below a LIST the element itself? If not, it is a level without a meaning, and its only child
 * is the element. */
static bool is_element(const struct pq_element *list, const struct pq_element *e, const struct pq_element *child)
{
    if (e->type >= 0 || e->children != 1 || child->repetition == PQ_REPEATED || named(e->name, "array"))
        return true;
    return e->name.n == list->name.n + 6 && !memcmp(e->name.p, list->name.p, list->name.n) &&
           !memcmp(e->name.p + list->name.n, "_tuple", 6);
}

static int walk_children(struct walk *w, struct path *p, const struct pq_element *e, const struct pq_element *list,
                         struct ctr_err *err)
{
    int rc = 0;
    for (int32_t i = 0; !rc && i < e->children; i++)
        rc = walk(w, p, list, err);
    return rc;
}

/* `list`: the LIST group whose repeated field is next, or the repeated field whose element is next; NULL: neither. */
static int walk(struct walk *w, struct path *p, const struct pq_element *list, struct ctr_err *err)
{
    if (w->at >= w->f->elements || ++p->depth > MAX_DEPTH)
        return p->depth > MAX_DEPTH
                   ? ctr_fail(err, CTR_EDATA,
                              "column %.*s, or what it holds, lies deeper than 32 levels, which is "
                              "more than is read",
                              (int)p->name.len, p->name.data ? (const char *)p->name.data : "")
                   : ctr_fail(err, CTR_EDATA, "the footer is damaged: the tree of its schema breaks off");
    const struct pq_element *e = &w->f->element[w->at++];
    const struct path was = *p; /* depth: with this element */
    const bool inner = list && e->repetition == PQ_REPEATED && list->meaning == PQ_LISTING;
    const bool nameless = inner || (list && list->meaning != PQ_LISTING);
    const struct pq_element *below = NULL;
    int rc = nameless ? 0 : add_name(&p->name, e->name, err);
    p->def += e->repetition != PQ_REQUIRED;
    if (e->repetition == PQ_REPEATED) {
        p->rep++;
        p->list_def = p->def;
    }
    if (!p->map && e->meaning == PQ_MAPPING && e->type < 0)
        p->map = p->name.len;
    p->variant |= e->meaning == PQ_VARIANT;
    if (e->type < 0 && e->meaning == PQ_LISTING && e->children == 1 && e->repetition != PQ_REPEATED)
        below = e;
    else if (inner && e->type < 0 && !is_element(list, e, &w->f->element[CTR_MIN(w->at, w->f->elements - 1)]))
        below = e;
    if (!rc && e->type >= 0)
        rc = add_leaf(w, p, e, err);
    else if (!rc)
        rc = walk_children(w, p, e, below, err);
    const struct ctr_buf name = p->name;
    *p = was;
    p->name = name; /* it may have moved */
    p->name.len = was.name.len;
    p->depth--;
    return rc;
}

int ctr_pq_leaves(struct pq_leaves *l, const struct pq_footer *f, struct ctr_err *err)
{
    struct walk w = { f, l, 1 };
    struct path p = { 0 };
    *l = (struct pq_leaves){ 0 };
    l->leaf = calloc((size_t)f->leaves + 1, sizeof *l->leaf);
    if (!l->leaf)
        return ctr_fail_nomem(err, ((size_t)f->leaves + 1) * sizeof *l->leaf);
    int rc = f->element->type >= 0
                 ? ctr_fail(err, CTR_EDATA, "the footer is damaged: the root of its schema is a value")
                 : walk_children(&w, &p, f->element, NULL, err);
    if (!rc && w.at != f->elements)
        rc = ctr_fail(err, CTR_EDATA, "the footer is damaged: its schema has %d elements, of which the tree has %d",
                      f->elements, w.at);
    ctr_buf_free(&p.name);
    if (rc)
        ctr_pq_leaves_free(l);
    return rc;
}

int ctr_pq_leaf(const struct pq_leaves *l, const char *name, int guess)
{
    if (guess >= 0 && guess < l->n && !strcmp(l->leaf[guess].name, name))
        return guess;
    for (int i = 0; i < l->n; i++)
        if (!strcmp(l->leaf[i].name, name))
            return i;
    return -1;
}

void ctr_pq_leaves_free(struct pq_leaves *l)
{
    for (int i = 0; i < l->n; i++) {
        free(l->leaf[i].name);
        free(l->leaf[i].refusal);
        free(l->leaf[i].conflict);
    }
    free(l->leaf);
    *l = (struct pq_leaves){ 0 };
}
