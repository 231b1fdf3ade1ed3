/* SPDX-License-Identifier: Apache-2.0
 *
 * jsonl: one JSON object per line. Columns are paths (user.id, items.0.price); a line is parsed to its end (jsontree.c)
 * before anything is appended, and an absent value is null.
 *
 * Without --columns the first lines determine paths and types: nested objects become dotted names, arrays of scalars
 * lists, arrays of objects aligned lists, one for each member; values that are sometimes objects stay JSON text (utf8).
 */
#include "common/text/json.h"
#include "common/text/jsontree.h"
#include "common/text/text.h"
#include <stdlib.h>

enum { MAX_COLUMNS = 4096 /* found in the first lines */ };
#define BELOW '\xff' /* separates the member names on the path to a value: not in any name, because names are UTF-8 */

struct jsonl {
    const struct ctr_text_opts *o;
    struct ctr_text_columns columns;
    struct ctr_json_tree tree;
    struct ctr_json_lists lists; /* of the tree */
    /* of the first lines: the paths at which arrays of objects stand, objects, empty arrays, and other values than null
     */
    struct ctr_strs arrays, objects, empty, other;
    struct ctr_strs ways; /* paths to the values of the first lines, with BELOW for each dot that enters an object */
    bool inferred;        /* the columns come from the first lines */
    const char *unfit; /* the reason why a member of the first lines is not a column, or NULL; its name and position */
    struct ctr_text_shown unfit_name;
    int64_t unfit_line;
};

static const char *path_of(const struct ctr_text_column *c)
{
    return c->source ? c->source : c->name;
}

/* Build the tree of columns; `wanted`: only those in the schema. */
static int build_tree(struct jsonl *j, bool wanted, struct ctr_err *err)
{
    int rc;

    if ((rc = ctr_json_tree_begin(&j->tree, err)) < 0)
        return rc;
    for (int k = 0; k < j->columns.n; k++)
        if ((!wanted || j->columns.c[k].out >= 0) &&
            (rc = ctr_json_tree_add(&j->tree, path_of(&j->columns.c[k]), k, err)) < 0)
            return rc;
    rc = ctr_json_tree_end(&j->tree, err);
    return rc ? rc : ctr_json_lists_make(&j->lists, &j->tree, j->columns.n, err);
}

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
        if (k < 0)
            continue;
        free(l->c[k].name);
        memmove(&l->c[k], &l->c[k + 1], (size_t)(--l->n - k) * sizeof *l->c);
    }
    return rc;
}

static int discover_columns(struct jsonl *j, const struct ctr_text_block *b, struct ctr_buf *scratch,
                            struct ctr_err *err)
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

static int infer_types(struct jsonl *j, const struct ctr_text_block *b, struct ctr_infer *infer,
                       struct ctr_buf *scratch, struct ctr_err *err)
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

static int list_columns(struct jsonl *j, const struct ctr_text_opts *o, const struct ctr_text_block *first,
                        struct ctr_buf *scratch, struct ctr_err *err)
{
    int rc = 0;

    if (o->columns)
        return ctr_text_columns_parse(&j->columns, o, err);
    for (int k = 0; o->like && k < o->like->n && rc == 0; k++)
        rc = ctr_text_columns_add(&j->columns, o->like->f[k].name, strlen(o->like->f[k].name), err);
    return o->like ? rc : discover_columns(j, first, scratch, err);
}

/* The first lines have no columns: report why. */
static int fail_no_columns(struct jsonl *j, const struct ctr_text_block *b, struct ctr_buf *scratch,
                           struct ctr_err *err)
{
    struct ctr_json_memo memo = { 0 };
    struct ctr_json_walk w = { .tree = &j->tree, .memo = &memo, .scratch = scratch };
    const char *p = b->p, *line, *end;
    int64_t number = b->first_line;
    int rc;

    ctr_err_file(err, b->file);
    for (; (end = ctr_next_record(&p, b->p + b->n, &line)) != NULL; number++) {
        if (ctr_json_space(line, end) == end)
            continue;
        if ((rc = ctr_buf_reserve(scratch, (size_t)(end - line), err)))
            return rc;
        if (ctr_json_line(&w, line, end) < 0)
            return ctr_fail(err, CTR_EDATA, "line %lld: no JSON: %s%s", (long long)number, w.why,
                            *ctr_json_space(line, end) == '{' ? "; jq -c . makes one object a line" : "");
        if (j->unfit)
            return ctr_fail(err, CTR_EDATA,
                            "line %lld: the name %s %s and can be no column, and there is none other in the first %d "
                            "lines: rename it, as jq's with_entries does",
                            (long long)j->unfit_line, j->unfit_name.s, j->unfit, CTR_SAMPLE_ROWS);
        return ctr_fail(err, CTR_EDATA,
                        "line %lld: an object without members, and nothing else in the first %d lines: "
                        "name the columns with %s",
                        (long long)number, CTR_SAMPLE_ROWS, ctr_text_option(j->o, "columns").s);
    }
    return ctr_fail(err, CTR_EDATA, "the input is empty: without %s its columns are not known",
                    ctr_text_option(j->o, "columns").s);
}

static int open_jsonl(void **state, const struct ctr_text_opts *o, const struct ctr_text_block *first,
                      struct ctr_schema *schema, struct ctr_err *err)
{
    struct jsonl *j = calloc(1, sizeof(*j));
    struct ctr_infer *infer = NULL;
    struct ctr_buf scratch = { 0 };
    int rc;

    *state = j;
    if (!j)
        return ctr_fail_nomem(err, sizeof(*j));
    j->o = o;
    rc = list_columns(j, o, first, &scratch, err);
    if (rc == 0 && !j->columns.n)
        rc = fail_no_columns(j, first, &scratch, err);
    j->inferred = !o->columns && !o->like && !o->only;
    if (rc == 0 && !(infer = calloc((size_t)j->columns.n + 1, sizeof(*infer))))
        rc = ctr_fail_nomem(err, (size_t)j->columns.n * sizeof(*infer));
    if (rc == 0 && (rc = build_tree(j, false, err)) == 0 && (rc = infer_types(j, first, infer, &scratch, err)) == 0 &&
        (rc = ctr_text_schema(&j->columns, infer, o, schema, err)) == 0)
        rc = build_tree(j, true, err);
    free(infer);
    ctr_buf_free(&scratch);
    return rc;
}

static void close_jsonl(void *state)
{
    struct jsonl *j = state;

    ctr_json_tree_free(&j->tree);
    ctr_json_lists_free(&j->lists);
    ctr_strs_free(&j->arrays);
    ctr_strs_free(&j->objects);
    ctr_strs_free(&j->empty);
    ctr_strs_free(&j->other);
    ctr_text_columns_free(&j->columns);
    free(j);
}

/* ---- rows ---- */

/* Report a value of the line that does not fit its column. In a UTF-8 line a text can be invalid only because of an
 * escape. */
static int report(struct ctr_text_job *job, const struct ctr_text_record *r, const struct ctr_text_column *c,
                  const struct ctr_json *v, struct ctr_err *err)
{
    const bool deep = v->kind == CTR_JSON_ARRAY || v->kind == CTR_JSON_OBJECT;
    const bool texts = c->type.type == CTR_UTF8 || (ctr_type_list(c->type.type) && c->type.item == CTR_UTF8);
    const char *unsound = deep && texts ? ctr_json_unsound(v) : NULL;
    if (unsound)
        return ctr_job_bad(job, r, err, "column %s: no JSON: %s", c->name, unsound);
    if (c->type.type == CTR_UTF8 && v->kind == CTR_JSON_STRING && ctr_utf8_valid((const uint8_t *)v->p, v->n))
        return ctr_job_bad(job, r, err, "column %s: a \\u escape is half a surrogate pair, or broken", c->name);
    return ctr_job_bad_cell(job, r, c, (struct ctr_str){ v->p, v->n }, err);
}

/* A number in a column that is text because the first lines had only nulls. */
static void note_late(struct ctr_text_job *job, const struct ctr_text_column *c, const struct ctr_json *v)
{
    struct ctr_text_losses *l = &job->loss[c->out];
    if (*v->p == 't' || *v->p == 'f')
        return;
    if (!l->n[CTR_LOSS_LATE] && !l->open[CTR_LOSS_LATE])
        l->first[CTR_LOSS_LATE] = ctr_text_show(v->p, v->n);
    l->open[CTR_LOSS_LATE]++;
    job->lossy = true;
}

/* What a thread needs for arrays of objects. */
struct spread {
    struct ctr_json_walk walk;                         /* of an element */
    int of;                                            /* list that the walk's memo is for, or -1 */
    bool failed;                                       /* the line's row did because of a list */
    uint8_t *done;                                     /* by column: it has the items of this line */
    const char *why;                                   /* an element is no JSON */
    enum { FITS, NO_LIST, NO_OBJECT, NO_ITEM } misfit; /* the column's type; an element; a member of one */
};

/* Append the members of an element, or nulls: 1; 0: *column is the first that does not fit. */
static int put_element(const struct jsonl *j, struct ctr_text_job *job, const struct ctr_json_list *l,
                       const struct ctr_json *value, struct ctr_buf *scratch, int *column, struct ctr_err *err)
{
    static const struct ctr_json null = { .kind = CTR_JSON_NULL };
    for (int i = 0; i < l->n; i++) {
        const struct ctr_text_column *c = &j->columns.c[ *column = l->column[i]];
        struct ctr_colbuf *b = c->out < 0 ? NULL : &job->out.col[c->out];
        int rc = !b ? 1 : ctr_json_append(b->item, c, value ? &value[i] : &null, job, scratch, err);
        if (rc <= 0)
            return rc;
    }
    return 1;
}

/* End the lists of a line. */
static int close_lists(const struct jsonl *j, struct ctr_text_job *job, const struct ctr_json_list *l, uint8_t *done,
                       int *column, struct ctr_err *err)
{
    for (int i = 0; i < l->n; i++) {
        const struct ctr_text_column *c = &j->columns.c[ *column = l->column[i]];
        struct ctr_colbuf *b = c->out < 0 ? NULL : &job->out.col[c->out];
        done[l->column[i]] = 1;
        if (!b)
            continue;
        if (b->type == CTR_FIXED && b->item->rows != (b->rows + 1) * (int64_t)c->type.width)
            return 0;
        job->loss[c->out].present = job->loss[c->out].filled = true;
        int rc = ctr_colbuf_close(b, err);
        if (rc)
            return rc;
    }
    return 1;
}

/* Append an array of objects: 1; 0: *column is the first that does not fit, or s->why says why it is no JSON. */
static int put_list(const struct jsonl *j, struct ctr_text_job *job, int g, const struct ctr_json *v, struct spread *s,
                    struct ctr_buf *scratch, int *column, struct ctr_err *err)
{
    const struct ctr_json_list *l = &j->lists.l[g];
    const char *p = v->p + 1, *end = v->p + v->n;
    struct ctr_json x;
    bool first = true;
    int rc = 1, more = 0;
    s->walk.tree = &l->tree;
    s->walk.columns = l->n;
    if (s->of != g)
        s->walk.memo->n = 0;
    s->of = g;
    for (int i = l->n; i-- > 0 && s->misfit == FITS;) {
        const struct ctr_text_column *c = &j->columns.c[ *column = l->column[i]];
        s->misfit = c->out >= 0 && !ctr_type_list(c->type.type) ? NO_LIST : FITS;
    }
    rc = s->misfit == FITS;
    while (rc > 0 && (more = ctr_json_element(&p, end, ']', &first, &s->why)) > 0) {
        if (!(p = ctr_json_value(p, end, &x, &s->why)))
            return 0;
        s->misfit = x.kind != CTR_JSON_OBJECT && x.kind != CTR_JSON_NULL ? NO_OBJECT : NO_ITEM;
        if (s->misfit == NO_OBJECT)
            return 0;
        if (x.kind == CTR_JSON_OBJECT && ctr_json_line(&s->walk, x.p, x.p + x.n) < 0) {
            s->why = s->walk.why;
            return 0;
        }
        rc = put_element(j, job, l, x.kind == CTR_JSON_OBJECT ? s->walk.value : NULL, scratch, column, err);
    }
    return rc <= 0 ? rc : more < 0 ? 0 : close_lists(j, job, l, s->done, column, err);
}

/* Report an array of objects that does not fit column c. */
static int report_list(struct ctr_text_job *job, const struct ctr_text_record *r, const struct ctr_text_column *c,
                       const struct ctr_json *v, const struct spread *s, struct ctr_err *err)
{
    const struct ctr_text_shown shown = ctr_text_show(v->p, v->n);
    const char *item = ctr_types[s->misfit == NO_LIST ? c->type.type : CTR_UTF8].name;
    const struct ctr_text_option list = ctr_text_setting(job->o, "columns", "%s:list<%s>", c->name, item),
                                 bad = ctr_text_option(job->o, "bad-rows");
    char type[64];
    if (s->why)
        return ctr_job_bad(job, r, err, "column %s: no JSON: %s", c->name, s->why);
    if (s->misfit == NO_LIST)
        return ctr_job_bad(job, r, err,
                           "column %s: the line has an array of objects there, which gives a list; %s settles it",
                           c->name, list.s);
    if (s->misfit == NO_OBJECT)
        return ctr_job_bad(job, r, err, "column %s: %s has an element that is no object; %s settles it", c->name,
                           shown.s, bad.s);
    return ctr_job_bad(job, r, err, "column %s: %s has a member that does not fit %s; %s or %s settles it", c->name,
                       shown.s, ctr_field_type_name(&c->type, type, sizeof type), list.s, bad.s);
}

/* The arrays of objects of a line. A value that does not fit is that of its column for the report. */
static int put_lists(const struct jsonl *j, struct ctr_text_job *job, struct ctr_json *value, struct spread *s,
                     struct ctr_buf *scratch, int *column, struct ctr_err *err)
{
    int rc = 1;
    s->why = NULL;
    s->failed = false;
    s->misfit = FITS;
    memset(s->done, 0, (size_t)j->columns.n);
    for (int g = 0; g < j->lists.n && rc > 0; g++) {
        const struct ctr_json v = value[j->columns.n + g];
        if (v.kind != CTR_JSON_ARRAY)
            continue;
        rc = put_list(j, job, g, &v, s, scratch, column, err);
        if (!rc)
            value[*column] = v;
        s->failed = !rc;
    }
    return rc;
}

/* Append the values of the line to the columns: 1; 0: *column is the first that does not fit. */
static int put_row(const struct jsonl *j, struct ctr_text_job *job, struct ctr_json *value, struct spread *s,
                   struct ctr_buf *scratch, int *column, struct ctr_err *err)
{
    int lists = j->lists.n ? put_lists(j, job, value, s, scratch, column, err) : 1;
    if (lists <= 0)
        return lists;
    for (int k = 0; k < j->columns.n; k++) {
        const struct ctr_text_column *c = &j->columns.c[k];
        if (j->lists.n && s->done[k])
            continue;
        if (c->out >= 0 && value[k].kind != CTR_JSON_NONE) {
            job->loss[c->out].present = true;
            job->loss[c->out].filled |= value[k].kind != CTR_JSON_NULL;
            if (c->blank && value[k].kind == CTR_JSON_PLAIN)
                note_late(job, c, &value[k]);
        }
        int rc = c->out < 0 ? 1 : ctr_json_append(&job->out.col[c->out], c, &value[k], job, scratch, err);
        *column = k;
        if (rc <= 0)
            return rc;
    }
    return 1;
}

/* job->scratch has the values of a line and of an element, job->scratch2 the memos of the previous ones in the block.
 */
static int begin_walk(struct ctr_json_walk *w, struct spread *s, const struct jsonl *j, struct ctr_text_job *job,
                      struct ctr_buf *scratch, struct ctr_err *err)
{
    const size_t values = (size_t)j->columns.n + (size_t)j->lists.n;
    int rc = ctr_buf_reserve(&job->scratch, (values + (size_t)j->lists.most) * sizeof(*w->value) + (size_t)j->columns.n,
                             err);

    if (rc == 0)
        rc = ctr_buf_reserve(&job->scratch2, 2 * sizeof(*w->memo), err);
    if (rc < 0)
        return rc;
    *w = (struct ctr_json_walk){ .tree = &j->tree,
                                 .value = (struct ctr_json *)job->scratch.data,
                                 .columns = (int)values,
                                 .watch = j->inferred,
                                 .scratch = scratch,
                                 .memo = (struct ctr_json_memo *)job->scratch2.data };
    s->walk = *w;
    s->walk.value += values;
    s->walk.memo++;
    s->of = -1;
    s->done = (uint8_t *)(s->walk.value + j->lists.most);
    w->memo->n = 0;
    return 0;
}

/* Values that no column takes, so far. */
static void note_untaken(struct ctr_text_job *job, const struct ctr_json_walk *line,
                         const struct ctr_json_walk *element, int64_t number)
{
    const struct ctr_json_walk *w = line->untaken ? line : element;
    if (w->untaken && !job->untaken) {
        job->untaken_line = number;
        job->untaken_key = ctr_text_show(w->first_untaken.p, w->first_untaken.n);
    }
    job->untaken = line->untaken + element->untaken;
}

static int parse_jsonl(const void *state, struct ctr_text_job *job, struct ctr_err *err)
{
    const struct jsonl *j = state;
    const char *p = job->block.p, *end = p + job->block.n, *line, *e;
    int64_t number = job->block.first_line;
    struct ctr_buf scratch = { 0 };
    struct ctr_json_walk w;
    struct spread s = { 0 };
    int rc = begin_walk(&w, &s, j, job, &scratch, err), column = 0;

    for (; rc == 0 && (e = ctr_next_record(&p, end, &line)) != NULL; number++) {
        int64_t rows = ctr_batchbuf_rows(&job->out);
        int got;
        ctr_buf_clear(&scratch);
        if ((rc = ctr_buf_reserve(&scratch, (size_t)(e - line), err)))
            break;
        got = ctr_json_line(&w, line, e);
        const struct ctr_text_record record = { line, (size_t)(p - line), number, rows };
        if (got < 0) {
            rc = ctr_job_bad(job, &record, err, "no JSON: %s", w.why);
        } else if (got > 0 && (rc = put_row(j, job, w.value, &s, &scratch, &column, err)) == 0) {
            ctr_job_rewind(job, rows);
            rc = s.failed ? report_list(job, &record, &j->columns.c[column], &w.value[column], &s, err)
                          : report(job, &record, &j->columns.c[column], &w.value[column], err);
        } else if (rc > 0) {
            ctr_job_settle(job);
            rc = 0;
        }
        note_untaken(job, &w, &s.walk, number);
    }
    ctr_buf_free(&scratch);
    return rc;
}

const struct ctr_text_format ctr_text_jsonl = { .name = "jsonl",
                                                .suffix = ".jsonl",
                                                .honours = CTR_TEXT_COLUMNS | CTR_TEXT_FOR,
                                                .paths = true,
                                                .open = open_jsonl,
                                                .parse = parse_jsonl,
                                                .close = close_jsonl };
