/* SPDX-License-Identifier: Apache-2.0
 *
 * jsonl: one JSON object per line. Columns are paths (user.id, items.0.price); a line is parsed to its end (jsontree.c)
 * before anything is appended, and an absent value is null. The values of some lines, a tile, are appended column by
 * column; if one does not fit, the tile is reverted and appended line by line.
 *
 * Without --columns the first lines determine paths and types: jsondiscover.c.
 */
#include "common/base/isa.h"
#include "common/text/json.h"
#include "common/text/jsonl.h"
#include "common/text/shortnumber.h"
#include "common/text/text.h"
#include <stdlib.h>

/* {"u":1,"t":"x"} {"u":2,"t":"y"} {"u":"z","t":"w"}, as columns u:int64 and t:utf8, are one tile:
 *
 *     ctr_json_line   each line along the tree of paths: value = [1 "x"] [2 "y"] ["z" "w"], which point into the block
 *     put_columns     u: put_common takes no text, so put_value takes 1 and 2, and "z" does not fit
 *     ctr_job_rewind  to the row before the tile
 *     put_line        1 x; 2 y; line 3: rewound, and ctr_job_bad has the reason
 *
 * Without line 3, put_common would append 1 2, and then x y, in a loop each. With arrays of objects, such as column
 * items.price of {"items":[{"price":3},{"price":4}]}, which is the list [3,4], a tile is one line (put_lists). */

/* Build the tree of columns; `wanted`: only those in the schema. */
static int build_tree(struct jsonl *j, bool wanted, struct ctr_err *err)
{
    int rc = ctr_json_tree_begin(&j->tree, err);
    for (int k = 0; !rc && k < j->columns.n; k++) {
        const struct ctr_text_column *c = &j->columns.c[k];
        if (!wanted || c->out >= 0)
            rc = ctr_json_tree_add(&j->tree, c->source ? c->source : c->name, k, err);
    }
    if (!rc)
        rc = ctr_json_tree_end(&j->tree, err);
    return rc ? rc : ctr_json_lists_make(&j->lists, &j->tree, j->columns.n, err);
}

static int list_columns(struct jsonl *j, const struct ctr_text_opts *o, const struct ctr_text_block *first,
                        struct ctr_buf *scratch, struct ctr_err *err)
{
    int rc = 0;

    if (o->columns)
        return ctr_text_columns_parse(&j->columns, o, err);
    for (int k = 0; o->like && k < o->like->n && rc == 0; k++)
        rc = ctr_text_columns_add(&j->columns, o->like->f[k].name, strlen(o->like->f[k].name), err);
    return o->like ? rc : ctr_jsonl_discover(j, first, scratch, err);
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

    *state = j;
    if (!j)
        return ctr_fail_nomem(err, sizeof(*j));
    j->o = o;
    int rc = list_columns(j, o, first, &scratch, err);
    if (rc == 0 && !j->columns.n)
        rc = fail_no_columns(j, first, &scratch, err);
    j->inferred = !o->columns && !o->like && !o->only;
    if (rc == 0 && !(infer = calloc((size_t)j->columns.n + 1, sizeof(*infer))))
        rc = ctr_fail_nomem(err, (size_t)j->columns.n * sizeof(*infer));
    if (rc == 0 && (rc = build_tree(j, false, err)) == 0 &&
        (rc = ctr_jsonl_infer(j, first, infer, &scratch, err)) == 0 &&
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
    if (*v->p != 't' && *v->p != 'f')
        ctr_job_loss(job, c, CTR_LOSS_LATE, v->p, v->n);
}

/* ---- the common values of a column, appended without a call each, where there is room ---- */

enum { TILE_LINES = 32, TILE_VALUES = 1280 }; /* so many stay in the first-level cache */

/* What some values of a column are, a bit for each. */
struct seen {
    uint64_t there, value; /* not absent; nor null */
};

CTR_BODY bool see(struct seen *s, const struct ctr_json *v, int i)
{
    const bool value = v->kind > CTR_JSON_NULL;
    s->there |= (uint64_t)(v->kind != CTR_JSON_NONE) << i;
    s->value |= (uint64_t)value << i;
    return value;
}

/* Can they be counted: nulls only where there is a bitmap, and where it has room? */
CTR_BODY bool countable(const struct ctr_colbuf *b, int n, const struct seen *s)
{
    return b->valid.len ? b->valid.cap - b->valid.len > TILE_LINES / 8 : s->value == ~0ull >> (64 - n);
}

CTR_BODY void count_rows(struct ctr_colbuf *b, int n, const struct seen *s)
{
    b->nulls += n - __builtin_popcountll(s->value);
    for (int i = 0; b->valid.len && i < n; i++) {
        const size_t at = (size_t)(b->rows + i) >> 3;
        if (at == b->valid.len)
            b->valid.data[b->valid.len++] = 0;
        b->valid.data[at] |= (uint8_t)((s->value >> i & 1) << ((b->rows + i) & 7));
    }
    b->rows += n;
}

CTR_BODY bool put_texts(struct ctr_colbuf *b, const struct ctr_json *v, int step, int n, struct seen *s)
{
    static const char none[16];
    struct ctr_str text[TILE_LINES];
    size_t total = 0;
    bool plain = b->offsets.len && b->data.cap;
    for (int i = 0; i < n; i++, v += step) {
        const bool value = see(s, v, i);
        plain &= !value || (v->kind == CTR_JSON_STRING && !v->escaped);
        text[i].p = value ? v->p : none;
        text[i].n = value ? v->n : 0;
        total += text[i].n;
    }
    if (!plain || !countable(b, n, s) || b->data.cap - b->data.len < total || b->data.len + total > INT32_MAX ||
        b->offsets.cap - b->offsets.len < (size_t)n * sizeof(int32_t))
        return false;
    uint8_t *to = b->data.data + b->data.len;
    int32_t *offset = (int32_t *)(void *)(b->offsets.data + b->offsets.len), at = (int32_t)b->data.len;
    for (int i = 0; i < n; i++) {
        memcpy(to, text[i].p, 16); /* there are CTR_PAD bytes behind either */
        if (__builtin_expect(text[i].n > 16, 0))
            memcpy(to + 16, text[i].p + 16, text[i].n - 16);
        to += text[i].n;
        offset[i] = at += (int32_t)text[i].n;
    }
    b->data.len += total;
    b->offsets.len += (size_t)n * sizeof(int32_t);
    count_rows(b, n, s);
    return true;
}

CTR_BODY bool short_number(const struct ctr_type_info *type, const struct ctr_json *v, uint64_t *x)
{
    double f;
    if (v->kind != CTR_JSON_PLAIN)
        return false;
    if (!type->floating)
        return ctr_digits19(v->p, v->n, x) && *x <= UINT64_MAX >> (64 - 8 * type->width + type->is_signed);
    if (!ctr_short_decimal(v->p, v->n, &f) || (!f && *v->p == '-'))
        return false;
    memcpy(x, &f, sizeof f);
    return true;
}

CTR_BODY bool put_numbers(struct ctr_colbuf *b, const struct ctr_json *v, int step, int n, struct seen *s)
{
    const struct ctr_type_info *type = &ctr_types[b->type];
    uint8_t *to = b->data.data + b->data.len;
    bool plain = b->data.cap - b->data.len >= (size_t)n * 8;
    for (int i = 0; i < n && plain; i++, v += step, to += type->width) {
        uint64_t x = 0;
        plain = !see(s, v, i) || short_number(type, v, &x);
        memcpy(to, &x, sizeof x); /* of a narrow one the rest is overwritten by the next */
    }
    if (!plain || !countable(b, n, s))
        return false;
    b->data.len += (size_t)(n * type->width);
    count_rows(b, n, s);
    return true;
}

/* Append n values, each `step` behind the one before: texts without escapes to utf8, numbers of few digits to an
 * integer type or float64, nulls to these. False: nothing was done, and ctr_json_append takes each value. */
CTR_BODY bool put_common(struct ctr_colbuf *b, const struct ctr_json *v, int step, int n, bool utf8, struct seen *s)
{
    *s = (struct seen){ 0 };
    if (b->type == CTR_UTF8)
        return utf8 && put_texts(b, v, step, n, s);
    return (ctr_types[b->type].integer || b->type == CTR_F64) && put_numbers(b, v, step, n, s);
}

/* ---- arrays of objects, and rows ---- */

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
        const struct ctr_json *v = value ? &value[i] : &null;
        struct seen s;
        int rc = !b || put_common(b->item, v, 0, 1, job->block.utf8, &s)
                     ? 1
                     : ctr_json_append(b->item, c, v, job, scratch, err);
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
    s->misfit = FITS;
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

/* Append a value of the line to column k: 1; 0: it does not fit. */
static inline int put_value(const struct jsonl *j, struct ctr_text_job *job, int k, const struct ctr_json *v,
                            struct ctr_buf *scratch, struct ctr_err *err)
{
    const struct ctr_text_column *c = &j->columns.c[k];
    struct seen s;
    if (c->out >= 0 && v->kind != CTR_JSON_NONE) {
        job->loss[c->out].present = true;
        job->loss[c->out].filled |= v->kind != CTR_JSON_NULL;
        if (ctr_text_late(c) && v->kind == CTR_JSON_PLAIN)
            note_late(job, c, v);
    }
    if (c->out < 0 || put_common(&job->out.col[c->out], v, 0, 1, job->block.utf8, &s))
        return 1;
    return ctr_json_append(&job->out.col[c->out], c, v, job, scratch, err);
}

/* Append the values of the line to the columns: 1; 0: *column is the first that does not fit. */
static int put_row(const struct jsonl *j, struct ctr_text_job *job, struct ctr_json *value, struct spread *s,
                   struct ctr_buf *scratch, int *column, struct ctr_err *err)
{
    int rc = j->lists.n ? put_lists(j, job, value, s, scratch, column, err) : 1;
    for (int k = 0; k < j->columns.n && rc > 0; k++) {
        if (j->lists.n && s->done[k])
            continue;
        rc = put_value(j, job, k, &value[k], scratch, err);
        if (rc <= 0)
            *column = k;
    }
    return rc;
}

/* ---- lines that are appended together ---- */

struct tile {
    int n, most; /* lines: one with arrays of objects */
    int columns; /* of a line */
    struct ctr_json *value;
    struct ctr_text_record record[TILE_LINES];
};

/* Append the values of column k: 1; 0: one does not fit. */
static int put_column(const struct jsonl *j, struct ctr_text_job *job, const struct tile *t, int k,
                      struct ctr_buf *scratch, struct ctr_err *err)
{
    const struct ctr_text_column *c = &j->columns.c[k];
    struct seen s;
    int rc = 1;
    if (c->out < 0)
        return rc;
    if (!c->blank && put_common(&job->out.col[c->out], &t->value[k], t->columns, t->n, job->block.utf8, &s)) {
        job->loss[c->out].present |= s.there != 0;
        job->loss[c->out].filled |= s.value != 0;
        return rc;
    }
    for (int i = 0; i < t->n && rc > 0; i++)
        rc = put_value(j, job, k, &t->value[i * t->columns + k], scratch, err);
    return rc;
}

/* Column by column: 1; 0: a value does not fit. */
static int put_columns(const struct jsonl *j, struct ctr_text_job *job, const struct tile *t, struct ctr_buf *scratch,
                       struct ctr_err *err)
{
    int rc = 1;
    for (int k = 0; k < j->columns.n && rc > 0; k++)
        rc = put_column(j, job, t, k, scratch, err);
    return rc;
}

static int put_line(const struct jsonl *j, struct ctr_text_job *job, struct tile *t, int i, struct spread *s,
                    struct ctr_buf *scratch, struct ctr_err *err)
{
    struct ctr_text_record *record = &t->record[i];
    struct ctr_json *value = &t->value[i * t->columns];
    int column = 0, rc;
    record->rows = ctr_batchbuf_rows(&job->out);
    rc = put_row(j, job, value, s, scratch, &column, err);
    if (rc > 0)
        ctr_job_settle(job);
    if (rc)
        return CTR_MIN(rc, 0);
    ctr_job_rewind(job, record->rows);
    return s->failed ? report_list(job, record, &j->columns.c[column], &value[column], s, err)
                     : report(job, record, &j->columns.c[column], &value[column], err);
}

/* By columns, and line by line only where a value does not fit, or where there are arrays of objects. */
static int put_tile(const struct jsonl *j, struct ctr_text_job *job, struct tile *t, struct spread *s,
                    struct ctr_buf *scratch, struct ctr_err *err)
{
    const int64_t rows = ctr_batchbuf_rows(&job->out);
    const int n = t->n;
    int rc = n > 1 ? put_columns(j, job, t, scratch, err) : 0;
    t->n = 0;
    if (rc > 0)
        ctr_job_settle(job);
    if (rc)
        return CTR_MIN(rc, 0);
    ctr_job_rewind(job, rows);
    for (int i = 0; i < n && !rc; i++)
        rc = put_line(j, job, t, i, s, scratch, err);
    return rc;
}

/* job->scratch has the values of a tile and of an element, job->scratch2 the memos of the previous ones in the block.
 */
static int begin_walk(struct ctr_json_walk *w, struct spread *s, struct tile *t, const struct jsonl *j,
                      struct ctr_text_job *job, struct ctr_buf *scratch, struct ctr_err *err)
{
    const int columns = j->columns.n + j->lists.n;
    const int lines = j->lists.n ? 1 : CTR_MAX(CTR_MIN(TILE_LINES, TILE_VALUES / CTR_MAX(columns, 1)), 1);
    const size_t values = (size_t)columns * (size_t)lines;
    int rc = ctr_buf_reserve(&job->scratch, (values + (size_t)j->lists.most) * sizeof(*w->value) + (size_t)j->columns.n,
                             err);

    if (rc == 0)
        rc = ctr_buf_reserve(&job->scratch2, 2 * sizeof(*w->memo), err);
    if (rc < 0)
        return rc;
    *w = (struct ctr_json_walk){ .tree = &j->tree,
                                 .value = (struct ctr_json *)job->scratch.data,
                                 .columns = columns,
                                 .watch = j->inferred,
                                 .scratch = scratch,
                                 .memo = (struct ctr_json_memo *)job->scratch2.data };
    t->n = 0;
    t->most = lines;
    t->columns = columns;
    t->value = w->value;
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
    struct tile t;
    int rc = begin_walk(&w, &s, &t, j, job, &scratch, err);

    for (; rc == 0 && (e = ctr_next_record(&p, end, &line)) != NULL; number++) {
        ctr_buf_clear(&scratch);
        if ((rc = ctr_buf_reserve(&scratch, (size_t)(e - line), err)))
            break;
        w.value = t.value + t.n * t.columns;
        const int got = ctr_json_line(&w, line, e);
        struct ctr_text_record record = { line, (size_t)(p - line), number, 0 };
        if (got > 0)
            t.record[t.n++] = record;
        if (got < 0 || t.n == t.most)
            rc = put_tile(j, job, &t, &s, &scratch, err);
        record.rows = ctr_batchbuf_rows(&job->out);
        if (got < 0 && rc == 0)
            rc = ctr_job_bad(job, &record, err, "no JSON: %s", w.why);
        note_untaken(job, &w, &s.walk, number);
    }
    if (rc == 0)
        rc = put_tile(j, job, &t, &s, &scratch, err);
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
