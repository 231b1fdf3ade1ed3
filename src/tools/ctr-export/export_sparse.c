/* SPDX-License-Identifier: Apache-2.0
 *
 * export_sparse: libsvm, libffm and vw. All three write a row as a label and (index, value) items; items come from the
 * same kinds of columns:
 *  - keys: uint64, list<uint64>, list<weighted key>: the key is the index, its weight (or 1) the value;
 *  - texts: utf8, list<utf8>: the text is the index; a column NAME.weight (list<float32>) holds the values of NAME;
 *  - numbers (dense): a column is an index, counted from 1 over all of them; a fixed_size_list takes one per value.
 * The sources are the columns with role feature or dense; if there are none, all columns without a role that have a
 * suitable type.
 */
#include "tools/ctr-export/export_format.h"
#include <math.h>
#include <stdlib.h>

enum kind { KEY, TEXT, NUMBER, UNFIT };

struct source {
    int column, weight; /* weight: column with the values, or -1 */
    enum kind kind;
    uint64_t index;      /* NUMBER: of its first value */
    uint64_t field;      /* libffm */
    struct ctr_buf head; /* vw: " |name" */
};

struct sparse {
    struct source *source;
    int sources;
    int label, importance, query, id; /* columns or -1 */
    uint64_t numbers;                 /* indices used by dense columns */
    bool texts;
};

struct item {
    uint64_t index;
    const char *p; /* TEXT: the index */
    size_t n;      /* its length; for a number being sorted, its position */
    double value;
    bool single; /* the value came from a float32 */
};

/* A row with label 1, the keys site 3616877834260159592 (weight 1) and the number price .5:
 *
 *     libsvm    1 1:0.5 3616877834260159592:1              ascending indices: items are sorted
 *     libffm    1 0:3616877834260159592:1 1:1:0.5          field:index:value, in the order of columns
 *     vw        1 |site 3616877834260159592 |dense price:0.5
 *
 * With --bits 4 the key becomes 10: numbers take the indices from 1 on (here 1), and keys, of which 4 bits are left,
 * those behind them. `gather` makes items of a column and put_item writes them; the formats differ in the order of both
 * and in what stands between. */

/* ---- start: which columns ---- */

static enum kind kind_of(const struct ctr_field *f)
{
    bool list = ctr_type_list(f->type);
    enum ctr_type t = list ? f->item : f->type;
    bool is_key = ctr_field_role(f) != CTR_ROLE_DENSE && (t == CTR_WKEY || t == CTR_U64);

    if (is_key)
        return KEY;
    if (t == CTR_UTF8)
        return TEXT;
    if ((ctr_type_number(t) || t == CTR_BOOL) && f->type != CTR_LIST)
        return NUMBER;
    return UNFIT;
}

/* Does column w, NAME.weight, contain the values for the texts of column k, NAME? */
static bool weighs(const struct ctr_schema *s, int w, int k)
{
    const struct ctr_field *f = &s->f[w], *text = &s->f[k];
    if (f->type != CTR_LIST || f->item != CTR_F32 || text->type != CTR_LIST || text->item != CTR_UTF8)
        return false;
    const size_t n = strlen(text->name);
    return !strncmp(f->name, text->name, n) && !strcmp(f->name + n, ".weight");
}

static int weight_of(const struct ctr_schema *s, int k)
{
    for (int w = 0; w < s->n; w++)
        if (weighs(s, w, k))
            return w;
    return -1;
}

static bool is_weights(const struct ctr_schema *s, int w)
{
    for (int k = 0; k < s->n; k++)
        if (weighs(s, w, k))
            return true;
    return false;
}

/* Use the column as a source: 1; leave it out: 0. */
static int add_source(struct ctr_export *e, struct sparse *s, int k, bool any_role, struct ctr_err *err)
{
    const struct ctr_field *f = &e->schema.f[k];
    int role = ctr_field_role(f);
    struct source *src = &s->source[s->sources];

    if (any_role ? role != CTR_ROLE_FEATURE && role != CTR_ROLE_DENSE : role >= 0)
        return 0;
    src->kind = kind_of(f);
    if (src->kind == TEXT && !any_role && weight_of(&e->schema, k) < 0 &&
        (e->format != &ctr_export_vw || f->type != CTR_LIST))
        return 0; /* text: only if imported as features, or lists of words for vw */
    if (src->kind == UNFIT) {
        char type[64];
        return any_role ? ctr_fail(err, CTR_EUSAGE, "column %s: %s has no form in %s; leave it out with --columns",
                                   f->name, ctr_field_type_name(f, type, sizeof(type)), e->format->name)
                        : 0;
    }
    src->column = k;
    src->weight = src->kind == TEXT ? weight_of(&e->schema, k) : -1;
    src->index = s->numbers + 1;
    if (src->kind == NUMBER)
        s->numbers += f->type == CTR_FIXED ? (uint64_t)f->width : 1;
    s->texts |= src->kind == TEXT;
    s->sources++;
    return 1;
}

static int find_sources(struct ctr_export *e, struct sparse *s, struct ctr_err *err)
{
    bool any_role =
        ctr_schema_role(&e->schema, CTR_ROLE_FEATURE) >= 0 || ctr_schema_role(&e->schema, CTR_ROLE_DENSE) >= 0;
    int rc;

    for (int k = 0; k < e->schema.n; k++) {
        if (k == s->label || k == s->importance || k == s->query || k == s->id || is_weights(&e->schema, k))
            continue;
        if ((rc = add_source(e, s, k, any_role, err)) < 0 || (rc == 0 && (rc = ctr_export_leave_out(e, k, err)) < 0))
            return rc;
    }
    if (!s->sources)
        return ctr_fail(err, CTR_EUSAGE,
                        "no features: no column has the role feature or dense, and none without a role "
                        "fits %s",
                        e->format->name);
    if (s->texts && s->numbers && e->format != &ctr_export_vw)
        return ctr_fail(err, CTR_EUSAGE, "texts and numbers have no common indices in %s: choose with --columns",
                        e->format->name);
    return 0;
}

static int need_number(const struct ctr_export *e, int k, const char *what, bool integer, struct ctr_err *err)
{
    const struct ctr_field *f = k >= 0 ? &e->schema.f[k] : NULL;

    if (!f || (integer ? ctr_types[f->type].integer : ctr_type_number(f->type) || f->type == CTR_BOOL))
        return 0;
    return ctr_fail(err, CTR_EUSAGE, "column %s: %s %s is wanted as %s", f->name, integer ? "an" : "a",
                    integer ? "integer" : "number", what);
}

static int start(struct ctr_export *e, bool query, bool importance, struct ctr_err *err)
{
    struct sparse *s = calloc(1, sizeof(*s));
    int rc;

    e->state = s;
    if (s)
        s->source = calloc((size_t)e->schema.n + 1, sizeof(*s->source));
    if (!s || !s->source)
        return ctr_fail_nomem(err, sizeof(*s));
    s->label = e->opts.role[CTR_ROLE_LABEL];
    s->query = query ? e->opts.role[CTR_ROLE_QUERY] : -1;
    s->importance = importance ? e->opts.role[CTR_ROLE_WEIGHT] : -1;
    s->id = importance ? e->opts.role[CTR_ROLE_ID] : -1;
    if (e->opts.bits < 0 || e->opts.bits > 62)
        return ctr_fail(err, CTR_EUSAGE, "--bits: 1 to 62 are possible");
    if (s->label < 0 && e->format != &ctr_export_vw)
        return ctr_fail(err, CTR_EUSAGE, "no label column, and %s needs one: --label NAME", e->format->name);
    if ((rc = need_number(e, s->label, "label", false, err)) < 0 ||
        (rc = need_number(e, s->query, "qid", true, err)) < 0 ||
        (rc = need_number(e, s->importance, "importance weight", false, err)) < 0)
        return rc;
    return find_sources(e, s, err);
}

static int start_libsvm(struct ctr_export *e, struct ctr_buf *head, struct ctr_err *err)
{
    (void)head;
    return start(e, true, false, err);
}

/* Fields are numbered by position; if all columns are named f0, f7, …, they keep these numbers. */
static int start_libffm(struct ctr_export *e, struct ctr_buf *head, struct ctr_err *err)
{
    bool named = true;
    int rc = start(e, false, false, err);

    (void)head;
    if (rc < 0)
        return rc;
    struct sparse *s = e->state;
    for (int k = 0; k < s->sources; k++) {
        const char *name = e->schema.f[s->source[k].column].name;
        named = named && name[0] == 'f' && ctr_parse_u64(name + 1, strlen(name + 1), &s->source[k].field) &&
                (name[1] != '0' || !name[2]) && name[1] != '+';
    }
    for (int k = 0; !named && k < s->sources; k++)
        s->source[k].field = (uint64_t)k;
    return 0;
}

static bool vw_word(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strchr(" \t\r\n|:", p[i])) /* also a zero byte */
            return false;
    return n > 0;
}

/* A column becomes a namespace of its name; "_" is the unnamed namespace, and all single numbers are in "dense". */
static int start_vw(struct ctr_export *e, struct ctr_buf *head, struct ctr_err *err)
{
    int rc = start(e, false, true, err);

    (void)head;
    if (rc < 0)
        return rc;
    struct sparse *s = e->state;
    for (int k = 0; k < s->sources; k++) {
        const struct ctr_field *f = &e->schema.f[s->source[k].column];
        const char *name = f->name;
        if (!vw_word(name, strlen(name)))
            return ctr_fail(err, CTR_EUSAGE, "column %s: a namespace of vw has no blanks, bars and colons: rename it",
                            name);
        if (s->source[k].kind == NUMBER && f->type != CTR_FIXED)
            name = "dense";
        else if (!strncmp(name, "ns.", 3) &&
                 (!strcmp(name + 3, "label") || !strcmp(name + 3, "weight") || !strcmp(name + 3, "tag")))
            name += 3; /* the prefix added by ctr-import */
        if ((rc = ctr_buf_printf(&s->source[k].head, err, " |%s", strcmp(name, "_") ? name : "")) < 0)
            return rc;
    }
    return 0;
}

static void stop(struct ctr_export *e)
{
    struct sparse *s = e->state;

    if (!s)
        return;
    for (int k = 0; k < s->sources; k++)
        ctr_buf_free(&s->source[k].head);
    free(s->source);
    free(s);
}

/* ---- rows: items ---- */

static uint64_t fold(const struct ctr_export *e, uint64_t key)
{
    const struct sparse *s = e->state;
    return e->opts.bits ? s->numbers + 1 + (key & (((uint64_t)1 << e->opts.bits) - 1)) : key;
}

static int add_value(const struct ctr_export *e, const struct source *src, const struct ctr_col *c, int64_t i,
                     uint64_t position, struct ctr_buf *items, struct ctr_err *err)
{
    int64_t k = i;
    const struct ctr_col *v = ctr_col_plain(c, &k);
    struct item it = { .value = 1, .single = true };

    if (src->kind == TEXT) {
        struct ctr_str s = ctr_col_str(c, i);
        it.p = s.p;
        it.n = s.n;
    } else if (src->kind == NUMBER) {
        it.index = src->index + position;
        it.value = ctr_col_f64(c, i);
        it.single = v->type == CTR_F32 || v->type == CTR_F16;
    } else {
        it.index = fold(e, ((const uint64_t *)v->data)[k]);
        if (v->type == CTR_WKEY)
            it.value = (double)v->weight[k];
    }
    return ctr_put(items, &it, sizeof(it), err);
}

/* Set the values of a text list; both lists must have equal lengths. */
static int set_weights(const struct ctr_export *e, const struct source *src, const struct ctr_batch *b, int64_t i,
                       size_t first, struct ctr_buf *items, struct ctr_err *err)
{
    const struct ctr_col *w = &b->col[src->weight];
    struct item *it = (struct item *)items->data + first;
    size_t n = items->len / sizeof(*it) - first;
    int64_t from = 0, to = 0;
    const struct ctr_col *item = ctr_col_items(w, ctr_col_width(w), i, &from, &to);

    if ((size_t)(to - from) != n)
        return ctr_export_bad(e, i, src->weight, "its list is not as long as that of the texts", err);
    for (size_t k = 0; k < n; k++)
        it[k].value = (double)((const float *)item->data)[from + (int64_t)k];
    return 0;
}

/* Append the items of row i from one source. */
static int gather(const struct ctr_export *e, const struct source *src, const struct ctr_batch *b, int64_t i,
                  struct ctr_buf *items, struct ctr_err *err)
{
    const struct ctr_col *c = &b->col[src->column];
    size_t first = items->len / sizeof(struct item);
    int64_t from = 0, to = 0;
    int rc = 0;

    if (!ctr_col_missing(c, i) && !ctr_type_list(c->type)) {
        rc = add_value(e, src, c, i, 0, items, err);
    } else if (!ctr_col_missing(c, i)) {
        const struct ctr_col *item = ctr_col_items(c, ctr_col_width(c), i, &from, &to);
        for (int64_t k = from; k < to && rc == 0; k++)
            if (!ctr_col_missing(item, k) || src->weight >= 0)
                rc = add_value(e, src, item, k, (uint64_t)(k - from), items, err);
    }
    if (rc == 0 && src->weight >= 0)
        rc = set_weights(e, src, b, i, first, items, err);
    return rc;
}

/* " FIELD:INDEX:VALUE": only libffm has fields, and vw omits a value of 1. */
static int put_item(const struct ctr_export *e, const struct source *src, int64_t i, struct ctr_buf *t,
                    const struct item *it, struct ctr_err *err)
{
    char *to = ctr_put_room(t, (it->p ? it->n : 0) + 3 * (1 + CTR_NUM_MAX), err), *p = to;

    if (!to)
        return CTR_ENOMEM;
    if (!isfinite(it->value))
        return ctr_export_bad(
            e, i, src->column,
            "a value that is no finite number; ctr-select --add replaces it, --where leaves the row out", err);
    if (it->p && !vw_word(it->p, it->n))
        return ctr_export_bad(e, i, src->column,
                              "an empty text, or one with a blank, a bar or a colon, is no "
                              "index; extract keys from it first (ctr-extract)",
                              err);
    *p++ = ' ';
    if (e->format == &ctr_export_libffm) {
        p += ctr_fmt_u64(p, src->field);
        *p++ = ':';
    }
    if (it->p) {
        memcpy(p, it->p, it->n);
        p += it->n;
    } else {
        p += ctr_fmt_u64(p, it->index);
    }
    if (it->value != 1 || e->format != &ctr_export_vw) {
        *p++ = ':';
        p += it->single ? ctr_fmt_f32(p, (float)it->value) : ctr_fmt_f64(p, it->value);
    }
    t->len += (size_t)(p - to);
    return 0;
}

/* The number of a row in that column. */
static int put_finite(const struct ctr_export *e, const struct ctr_batch *b, int64_t i, int column, struct ctr_buf *t,
                      struct ctr_err *err)
{
    const struct ctr_col *c = &b->col[column];

    if (!isfinite(ctr_col_f64(c, i)))
        return ctr_export_bad(e, i, column, "no finite number; ctr-select --where leaves such rows out", err);
    return ctr_put_scalar(t, c, i, err);
}

static int put_label(const struct ctr_export *e, const struct ctr_batch *b, int64_t i, struct ctr_buf *t,
                     struct ctr_err *err)
{
    const struct sparse *s = e->state;
    const struct ctr_col *c = &b->col[s->label];

    if (ctr_col_missing(c, i))
        return ctr_export_bad(e, i, s->label, "a label is null; ctr-select --where drops such rows", err);
    if (c->type == CTR_BOOL)
        return ctr_put(t, ctr_col_i64(c, i) ? "1" : "0", 1, err);
    return put_finite(e, b, i, s->label, t, err);
}

/* ---- libsvm ---- */

static int by_index(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    return x->index != y->index ? (x->index > y->index) - (x->index < y->index) : (x->n > y->n) - (x->n < y->n);
}

/* The format requires strictly ascending indices: a repeated one is written once with the sum of its values. */
static size_t ascend(struct item *it, size_t n)
{
    size_t k = 1, m = 0;

    while (k < n && it[k - 1].index < it[k].index)
        k++;
    if (k >= n)
        return n;
    for (k = 0; k < n; k++)
        it[k].n = k; /* equal indices keep their order, so that their sum is unique */
    qsort(it, n, sizeof(*it), by_index);
    for (k = 1; k < n; k++) {
        if (it[k].index == it[m].index)
            it[m].value += it[k].value;
        else
            it[++m] = it[k];
    }
    return m + 1;
}

static int put_qid(const struct ctr_export *e, const struct ctr_batch *b, int64_t i, struct ctr_buf *t,
                   struct ctr_err *err)
{
    const struct sparse *s = e->state;

    if (ctr_col_missing(&b->col[s->query], i))
        return ctr_export_bad(e, i, s->query, "a qid is null", err);
    if (ctr_put(t, " qid:", 5, err) < 0)
        return CTR_ENOMEM;
    return ctr_put_scalar(t, &b->col[s->query], i, err);
}

static int libsvm_row(const struct ctr_export *e, const struct ctr_batch *b, int64_t i, struct ctr_export_tile *t,
                      struct ctr_err *err)
{
    const struct sparse *s = e->state;
    int rc = put_label(e, b, i, &t->text, err);

    if (rc == 0 && s->query >= 0)
        rc = put_qid(e, b, i, &t->text, err);
    ctr_buf_clear(&t->scratch);
    for (int k = 0; k < s->sources && rc == 0; k++)
        rc = gather(e, &s->source[k], b, i, &t->scratch, err);
    struct item *it = (struct item *)t->scratch.data;
    size_t n = t->scratch.len / sizeof(*it);
    if (!s->texts && rc == 0)
        n = ascend(it, n);
    for (size_t k = 0; k < n && rc == 0; k++)
        rc = put_item(e, &s->source[0], i, &t->text, &it[k], err);
    return rc;
}

/* ---- libffm ---- */

static int libffm_row(const struct ctr_export *e, const struct ctr_batch *b, int64_t i, struct ctr_export_tile *t,
                      struct ctr_err *err)
{
    const struct sparse *s = e->state;
    int rc = put_label(e, b, i, &t->text, err);

    for (int k = 0; k < s->sources && rc == 0; k++) {
        const struct source *src = &s->source[k];
        ctr_buf_clear(&t->scratch);
        rc = gather(e, src, b, i, &t->scratch, err);
        for (size_t m = 0; rc == 0 && m < t->scratch.len / sizeof(struct item); m++)
            rc = put_item(e, src, i, &t->text, (const struct item *)t->scratch.data + m, err);
    }
    return rc;
}

/* ---- vw ---- */

/* "1 0.5 'tag " : a row without a label has no importance, either. */
static int vw_head(const struct ctr_export *e, const struct ctr_batch *b, int64_t i, struct ctr_buf *t,
                   struct ctr_err *err)
{
    const struct sparse *s = e->state;
    int rc = 0;

    if (s->label >= 0 && !ctr_col_missing(&b->col[s->label], i)) {
        rc = put_label(e, b, i, t, err);
        if (rc == 0 && s->importance >= 0 && !ctr_col_missing(&b->col[s->importance], i)) {
            if ((rc = ctr_put(t, " ", 1, err)) == 0)
                rc = put_finite(e, b, i, s->importance, t, err);
        }
        if (rc == 0)
            rc = ctr_put(t, " ", 1, err);
    }
    if (rc == 0 && s->id >= 0 && !ctr_col_missing(&b->col[s->id], i)) {
        size_t at;
        if ((rc = ctr_put(t, "'", 1, err)) < 0)
            return rc;
        at = t->len;
        if ((rc = ctr_col_text(&b->col[s->id], i, t, err)) < 0)
            return rc;
        if (!vw_word((const char *)t->data + at, t->len - at))
            return ctr_export_bad(e, i, s->id, "an empty text, or one with a blank, a bar or a colon, is no tag", err);
        rc = ctr_put(t, " ", 1, err);
    }
    return rc;
}

static int vw_items(const struct ctr_export *e, const struct source *src, int64_t i, struct ctr_export_tile *t,
                    struct ctr_err *err)
{
    const struct ctr_field *f = &e->schema.f[src->column];
    const struct item *it = (const struct item *)t->scratch.data;
    size_t n = t->scratch.len / sizeof(*it);
    int rc = 0;

    for (size_t k = 0; k < n && rc == 0; k++) {
        struct item named = it[k];
        if (src->kind == NUMBER && f->type == CTR_FIXED) {
            named.index = it[k].index - src->index;
        } else if (src->kind == NUMBER) {
            named.p = f->name;
            named.n = strlen(f->name);
        }
        rc = put_item(e, src, i, &t->text, &named, err);
    }
    return rc;
}

/* Namespaces without a feature in the row are left out; a row without features has only "|". */
static int vw_row(const struct ctr_export *e, const struct ctr_batch *b, int64_t i, struct ctr_export_tile *t,
                  struct ctr_err *err)
{
    const struct sparse *s = e->state;
    const struct ctr_buf *last = NULL;
    int rc = vw_head(e, b, i, &t->text, err);

    for (int k = 0; k < s->sources && rc == 0; k++) {
        const struct source *src = &s->source[k];
        ctr_buf_clear(&t->scratch);
        if ((rc = gather(e, src, b, i, &t->scratch, err)) < 0)
            return rc;
        if (!t->scratch.len)
            continue;
        if (!last || last->len != src->head.len || memcmp(last->data, src->head.data, last->len)) {
            const size_t first = !last; /* written without a blank */
            if ((rc = ctr_put(&t->text, src->head.data + first, src->head.len - first, err)) < 0)
                return rc;
            last = &src->head;
        }
        rc = vw_items(e, src, i, t, err);
    }
    return rc == 0 && !last ? ctr_put(&t->text, "|", 1, err) : rc;
}

/* ---- the three ---- */

static int each_row(const struct ctr_export *e, const struct ctr_batch *b, int64_t from, int64_t to,
                    struct ctr_export_tile *t,
                    int (*row)(const struct ctr_export *, const struct ctr_batch *, int64_t, struct ctr_export_tile *,
                               struct ctr_err *),
                    struct ctr_err *err)
{
    int rc = 0;

    for (int64_t i = from; i < to && rc == 0; i++)
        if ((rc = row(e, b, i, t, err)) == 0)
            rc = ctr_put(&t->text, "\n", 1, err);
    return rc;
}

static int libsvm_rows(const struct ctr_export *e, const struct ctr_batch *b, int64_t from, int64_t to,
                       struct ctr_export_tile *t, struct ctr_err *err)
{
    return each_row(e, b, from, to, t, libsvm_row, err);
}

static int libffm_rows(const struct ctr_export *e, const struct ctr_batch *b, int64_t from, int64_t to,
                       struct ctr_export_tile *t, struct ctr_err *err)
{
    return each_row(e, b, from, to, t, libffm_row, err);
}

static int vw_rows(const struct ctr_export *e, const struct ctr_batch *b, int64_t from, int64_t to,
                   struct ctr_export_tile *t, struct ctr_err *err)
{
    return each_row(e, b, from, to, t, vw_row, err);
}

const struct ctr_export_format ctr_export_libsvm = { "libsvm", CTR_EXPORT_BITS, false, start_libsvm, libsvm_rows, NULL,
                                                     stop };
const struct ctr_export_format ctr_export_libffm = { "libffm", CTR_EXPORT_BITS, false, start_libffm, libffm_rows, NULL,
                                                     stop };
const struct ctr_export_format ctr_export_vw = { "vw", CTR_EXPORT_BITS, false, start_vw, vw_rows, NULL, stop };
