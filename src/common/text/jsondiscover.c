/* SPDX-License-Identifier: Apache-2.0
 *
 * jsondiscover: which columns JSON lines have, and of which types, from the first lines: nested objects become dotted
 * names, arrays of scalars lists, arrays of objects aligned lists, one for each member; values that are sometimes
 * objects stay JSON text (utf8).
 */
#include "common/text/json.h"
#include "common/text/jsonl.h"
#include <stdlib.h>

enum { MAX_COLUMNS = 4096 /* found in the first lines */ };
#define BELOW '\xff' /* separates the member names on the path to a value: not in any name, because names are UTF-8 */

/* ---- the first lines: which columns, which types ---- */

/* State while parsing the members of a line. */
struct discovery {
    struct jsonl *j;
    struct ctr_buf way; /* the member names so far */
    struct ctr_buf *scratch;
    int depth, in_array;
    int64_t line;
};
static int discover(struct discovery *d, const char *p, const char *end, struct ctr_err *err);

/* Reports the first name that cannot be a column, if there is no column. */
static void note_unfit(struct discovery *d, const char *why, const void *name, size_t n)
{
    if (d->j->unfit)
        return;
    d->j->unfit = why;
    d->j->unfit_name = ctr_text_show(name, n);
    d->j->unfit_line = d->line;
}

/* Record a path to a value; its name is a column. */
static int note_way(struct discovery *d, struct ctr_err *err)
{
    struct jsonl *j = d->j;
    const size_t n = d->way.len;
    int rc = ctr_strs_find_n(&j->ways, (const char *)d->way.data, n) >= 0, parts = 1;

    if (rc || (rc = ctr_strs_add(&j->ways, (const char *)d->way.data, n, err)))
        return CTR_MIN(rc, 0);
    ctr_buf_clear(d->scratch);
    if ((rc = ctr_buf_append(d->scratch, d->way.data, n, err)))
        return rc;
    char *name = (char *)d->scratch->data;
    for (size_t i = 0; i < n; i++) {
        name[i] = name[i] == BELOW ? '.' : name[i];
        parts += name[i] == '.';
    }
    if (parts > CTR_JSON_PATH) { /* it counts as not taken by any column */
        note_unfit(d, "has more than 32 parts", name, n);
        return 0;
    }
    if ((rc = ctr_json_tree_name(&j->tree, name, n, j->columns.n, err)) <= 0) /* the tree serves as a set of names */
        return rc;
    if (j->columns.n >= MAX_COLUMNS)
        return ctr_fail(err, CTR_EDATA, "the first lines have more than %d members: pick some with %s", MAX_COLUMNS,
                        ctr_text_option(j->o, "columns").s);
    return ctr_text_columns_add(&j->columns, name, n, err);
}

static int add_once(struct ctr_strs *set, const struct ctr_buf *way, struct ctr_err *err)
{
    return ctr_strs_find_n(set, (const char *)way->data, way->len) >= 0
               ? 0
               : ctr_strs_add(set, (const char *)way->data, way->len, err);
}

/* What an array is made of: objects, with nulls; nothing that has members; or other values too. */
enum elements { EL_OBJECTS, EL_NONE, EL_OTHERS };
static enum elements elements_of(const struct ctr_json *v)
{
    const char *p = v->p + 1, *end = v->p + v->n, *why;
    enum elements what = EL_NONE;
    struct ctr_json x;
    bool first = true;
    while (ctr_json_element(&p, end, ']', &first, &why) > 0) {
        if (!(p = ctr_json_value(p, end, &x, &why)) || (x.kind != CTR_JSON_OBJECT && x.kind != CTR_JSON_NULL))
            return EL_OTHERS;
        if (x.kind == CTR_JSON_OBJECT && *ctr_json_space(x.p + 1, x.p + x.n) != '}')
            what = EL_OBJECTS;
    }
    return what;
}

/* The members of each object of an array. */
static int discover_elements(struct discovery *d, const struct ctr_json *v, struct ctr_err *err)
{
    const char *p = v->p + 1, *end = v->p + v->n, *why;
    struct ctr_json x;
    bool first = true;
    int rc = 0;
    while (!rc && ctr_json_element(&p, end, ']', &first, &why) > 0 && (p = ctr_json_value(p, end, &x, &why)))
        if (x.kind == CTR_JSON_OBJECT)
            rc = discover(d, x.p + 1, x.p + x.n, err);
    return rc;
}

/* An object, or an array of them (outside of another), whose members are columns; *other: it is another value. */
static int discover_below(struct discovery *d, const struct ctr_json *v, bool *other, struct ctr_err *err)
{
    const char below = BELOW;
    const bool array = v->kind == CTR_JSON_ARRAY;
    const enum elements what = array ? elements_of(v) : EL_OTHERS;
    *other = d->depth + 1 >= CTR_JSON_PATH || (array ? what != EL_OBJECTS || d->in_array : v->kind != CTR_JSON_OBJECT);
    if (*other) {
        if (!d->way.len || v->kind == CTR_JSON_NULL)
            return 0;
        return add_once(what == EL_NONE ? &d->j->empty : &d->j->other, &d->way, err);
    }
    int rc = add_once(array ? &d->j->arrays : &d->j->objects, &d->way, err);
    if (!rc)
        rc = ctr_buf_append(&d->way, &below, 1, err);
    d->depth++;
    d->in_array += array;
    if (!rc)
        rc = array ? discover_elements(d, v, err) : discover(d, v->p + 1, v->p + v->n, err);
    d->in_array -= array;
    d->depth--;
    return rc;
}

/* A member: enter an object; anything else is a column. 0: invalid JSON from here on. */
static int discover_member(struct discovery *d, const char **p, const char *end, struct ctr_err *err)
{
    const char *why;
    const size_t above = d->way.len;
    struct ctr_json key, v;
    bool other = false;
    int rc;

    if (!ctr_json_key(p, end, &key, &why) || !(*p = ctr_json_value(*p, end, &v, &why)))
        return 0;
    ctr_buf_clear(d->scratch);
    if ((rc = ctr_json_unescape(key.p, key.n, d->scratch, err)) < 0)
        return rc;
    const bool zero = rc && memchr(d->scratch->data, 0, d->scratch->len);
    if (!rc || zero || !ctr_utf8_valid(d->scratch->data, d->scratch->len)) {
        note_unfit(d, zero ? "holds the byte 0" : "is not UTF-8", d->scratch->data, d->scratch->len);
        return 1;
    }
    rc = ctr_buf_append(&d->way, d->scratch->data, d->scratch->len, err);
    if (rc == 0)
        rc = discover_below(d, &v, &other, err);
    if (rc == 0 && other && d->way.len)
        rc = note_way(d, err);
    else if (rc == 0 && other)
        note_unfit(d, "is empty", "", 0);
    d->way.len = above;
    return rc < 0 ? rc : 1;
}

static int discover(struct discovery *d, const char *p, const char *end, struct ctr_err *err)
{
    const char *why;
    bool first = true;
    int rc = 1;

    while (rc > 0 && ctr_json_element(&p, end, '}', &first, &why) > 0)
        rc = discover_member(d, &p, end, err);
    return CTR_MIN(rc, 0);
}

/* Is a prefix of `name`, up to a separator of `way`, a column? */
static bool is_below(const struct ctr_text_columns *l, const char *name, const char *way, unsigned char separator)
{
    for (const char *p = strchr(way, separator); p; p = strchr(p + 1, separator))
        if (ctr_text_columns_find(l, name, (size_t)(p - way)) >= 0)
            return true;
    return false;
}

/* Do all paths with this name lead through an object that is a value in another line? */
static bool is_below_value(const struct jsonl *j, const char *name)
{
    if (!is_below(&j->columns, name, name, '.'))
        return false;
    for (int i = 0; i < j->ways.n; i++) {
        const char *way = j->ways.s[i], *p = name;
        for (; *way && (*way == *p || (*way == BELOW && *p == '.')); p++)
            way++;
        if (!*way && !*p && !is_below(&j->columns, name, j->ways.s[i], BELOW))
            return false;
    }
    return true;
}

/* If one line has a value where another has an object, drop the dotted names and keep the whole as JSON text, except
 * for names that have dots in the input. */
static void drop_below_values(struct jsonl *j)
{
    struct ctr_text_columns *l = &j->columns;
    int kept = 0;

    for (int k = 0; k < l->n; k++)
        if (is_below_value(j, l->c[k].name))
            l->c[k].name[0] = 0; /* matches no prefix */
    for (int k = 0; k < l->n; k++) {
        if (l->c[k].name[0])
            l->c[kept++] = l->c[k];
        else
            free(l->c[k].name);
    }
    l->n = kept;
}

/* Objects, or arrays of them, at a path that has other values in other lines stay one text; where these are nulls
 * alone, beside arrays empty ones too, the column that they made goes. */
static int settle_ways(struct discovery *d, bool arrays, struct ctr_err *err)
{
    struct jsonl *j = d->j;
    struct ctr_text_columns *l = &j->columns;
    const struct ctr_strs *ways = arrays ? &j->arrays : &j->objects, *others = arrays ? &j->objects : &j->empty;
    int rc = 0;
    for (int i = 0; i < ways->n && !rc; i++) {
        const char *way = ways->s[i];
        const bool mixed = ctr_strs_find(&j->other, way) >= 0 || ctr_strs_find(others, way) >= 0 ||
                           (!arrays && ctr_strs_find(&j->arrays, way) >= 0);
        ctr_buf_clear(&d->way);
        rc = ctr_buf_append(&d->way, way, strlen(way), err);
        if (!rc && mixed)
            rc = note_way(d, err);
        if (rc || mixed || ctr_strs_find(&j->ways, way) < 0)
            continue;
        for (char *p = (char *)d->way.data; p < (char *)d->way.data + d->way.len; p++)
            *p = (char)(*p == BELOW ? '.' : *p);
        const int k = ctr_text_columns_find(l, (const char *)d->way.data, d->way.len);
        bool below = false; /* names of members may be none that a column can have */
        for (int c = 0; c < l->n; c++)
            below |= !strncmp(l->c[c].name, (const char *)d->way.data, d->way.len) && l->c[c].name[d->way.len] == '.';
        if (k < 0 || !below)
            continue;
        free(l->c[k].name);
        memmove(&l->c[k], &l->c[k + 1], (size_t)(--l->n - k) * sizeof *l->c);
    }
    return rc;
}

int ctr_jsonl_discover(struct jsonl *j, const struct ctr_text_block *b, struct ctr_buf *scratch, struct ctr_err *err)
{
    struct discovery d = { .j = j, .scratch = scratch };
    const char *p = b->p, *line, *end;
    int rc = ctr_json_tree_begin(&j->tree, err);

    for (int n = 0; rc == 0 && n < CTR_SAMPLE_ROWS && (end = ctr_next_record(&p, b->p + b->n, &line)) != NULL; n++) {
        line = ctr_json_space(line, end);
        d.line = b->first_line + n;
        if (line < end && *line == '{')
            rc = discover(&d, line + 1, end, err);
    }
    if (rc == 0)
        rc = settle_ways(&d, true, err);
    if (rc == 0)
        rc = settle_ways(&d, false, err);
    if (rc == 0)
        drop_below_values(j);
    ctr_strs_free(&j->arrays);
    ctr_strs_free(&j->objects);
    ctr_strs_free(&j->empty);
    ctr_strs_free(&j->other);
    ctr_buf_free(&d.way);
    ctr_strs_free(&j->ways);
    return rc;
}

/* The kinds of values seen in a column. */
struct seen {
    struct ctr_infer plain, item;
    bool scalar, text, list, object, item_text, item_deep;
    bool spread; /* … the members of an array of objects */
};

static bool is_nonfinite(const struct ctr_json *v)
{
    return (v->n == 3 && !memcmp(v->p, "NaN", 3)) || (v->n == 8 && !memcmp(v->p, "Infinity", 8)) ||
           (v->n == 9 && !memcmp(v->p, "-Infinity", 9));
}

/* A scalar: numbers determine the type; NaN and infinities are written as text. */
static void see_scalar(struct ctr_infer *infer, bool *text, const struct ctr_json *v)
{
    if (v->kind == CTR_JSON_PLAIN || (v->kind == CTR_JSON_STRING && is_nonfinite(v)))
        ctr_infer_see(infer, v->p, v->n);
    *text |= v->kind == CTR_JSON_STRING && !is_nonfinite(v);
}

static void see(struct seen *s, const struct ctr_json *v)
{
    const char *p, *end, *why;
    bool first = true;
    struct ctr_json item;

    if (v->kind == CTR_JSON_NONE || v->kind == CTR_JSON_NULL)
        return;
    p = v->p + 1;
    end = v->p + v->n;
    s->object |= v->kind == CTR_JSON_OBJECT;
    s->list |= v->kind == CTR_JSON_ARRAY;
    s->scalar |= v->kind == CTR_JSON_PLAIN || v->kind == CTR_JSON_STRING;
    see_scalar(&s->plain, &s->text, v);
    while (v->kind == CTR_JSON_ARRAY && ctr_json_element(&p, end, ']', &first, &why) > 0 &&
           (p = ctr_json_value(p, end, &item, &why)) != NULL) {
        see_scalar(&s->item, &s->item_text, &item);
        s->item_deep |= item.kind == CTR_JSON_ARRAY || item.kind == CTR_JSON_OBJECT;
    }
}

/* The members of the elements of arrays of objects. `walk` is for elements, `value` that of a line. */
static void see_lists(const struct jsonl *j, struct ctr_json_walk *walk, const struct ctr_json *value,
                      struct seen *seen)
{
    for (int g = 0; g < j->lists.n; g++) {
        const struct ctr_json_list *l = &j->lists.l[g];
        const struct ctr_json *v = &value[j->columns.n + g];
        const char *p = v->p + 1, *end = v->p + v->n, *why;
        struct ctr_json x;
        bool first = true;
        if (v->kind != CTR_JSON_ARRAY)
            continue;
        walk->tree = &l->tree;
        walk->columns = l->n;
        walk->memo->n = 0;
        for (int i = 0; i < l->n; i++)
            seen[l->column[i]].spread = true;
        while (ctr_json_element(&p, end, ']', &first, &why) > 0 && (p = ctr_json_value(p, end, &x, &why)) != NULL) {
            if (x.kind != CTR_JSON_OBJECT || ctr_json_line(walk, x.p, x.p + x.n) <= 0)
                continue;
            for (int i = 0; i < l->n; i++) {
                struct seen *s = &seen[l->column[i]];
                see_scalar(&s->item, &s->item_text, &walk->value[i]);
                s->item_deep |= walk->value[i].kind == CTR_JSON_ARRAY || walk->value[i].kind == CTR_JSON_OBJECT;
            }
        }
    }
}

/* Determines the type of lists; scalars use the inference common to all formats. */
static void settle(struct ctr_text_column *c, struct seen *s)
{
    const bool apart = s->spread && !s->object && !s->scalar && !s->list; /* texts of JSON may be items, then */
    bool text = !apart && (s->object || s->text || s->item_deep || ((s->list || s->spread) && s->scalar));

    s->item_text |= apart && s->item_deep;
    s->list |= apart;
    if (text) {
        ctr_infer_see(&s->plain, "text", 4);
    } else if (s->list && !c->typed) {
        c->typed = c->inferred = true;
        c->seen = s->item_text ? 0 : s->item.seen;
        c->type = (struct ctr_field){ .type = CTR_LIST, .item = s->item_text ? CTR_UTF8 : ctr_infer_type(&s->item) };
    }
}

int ctr_jsonl_infer(struct jsonl *j, const struct ctr_text_block *b, struct ctr_infer *infer, struct ctr_buf *scratch,
                    struct ctr_err *err)
{
    size_t n = (size_t)j->columns.n + (size_t)j->lists.n + 1;
    struct seen *seen = calloc(n, sizeof(*seen));
    struct ctr_json_walk elements = { .value = calloc((size_t)j->lists.most + 1, sizeof(*elements.value)),
                                      .memo = calloc(1, sizeof(*elements.memo)),
                                      .scratch = scratch };
    struct ctr_json_walk w = { .tree = &j->tree,
                               .value = calloc(n, sizeof(*w.value)),
                               .columns = j->columns.n + j->lists.n,
                               .memo = calloc(1, sizeof(*w.memo)),
                               .scratch = scratch };
    const char *p = b->p, *line, *end;
    int rc = seen && w.value && w.memo && elements.value && elements.memo
                 ? 0
                 : ctr_fail_nomem(err, n * sizeof(*seen) + sizeof(*w.memo));

    for (int k = 0; rc == 0 && k < CTR_SAMPLE_ROWS && (end = ctr_next_record(&p, b->p + b->n, &line)) != NULL; k++) {
        ctr_buf_clear(scratch);
        if ((rc = ctr_buf_reserve(scratch, (size_t)(end - line), err)) == 0 && ctr_json_line(&w, line, end) > 0) {
            for (int c = 0; c < j->columns.n; c++)
                see(&seen[c], &w.value[c]);
            see_lists(j, &elements, w.value, seen);
        }
    }
    for (int c = 0; c < j->columns.n && rc == 0; c++) {
        settle(&j->columns.c[c], &seen[c]);
        j->columns.c[c].blank = !j->columns.c[c].typed && !seen[c].plain.values;
        infer[c] = seen[c].plain;
    }
    free(seen);
    free(w.value);
    free(w.memo);
    free(elements.value);
    free(elements.memo);
    return rc;
}
