/* SPDX-License-Identifier: Apache-2.0
 *
 * select: rows and columns of a batch. Unneeded columns have no data; their array positions stay empty, so that column
 * numbers are the same at every step. --explode repeats values for each item, so its result may exceed its input by
 * any factor: it is made in parts of bounded size.
 */
#include "common/rows/select.h"

#include "common/base/words.h"

#include <stdio.h>
#include <stdlib.h>

struct add_step {
    struct ctr_expr *expr;
    struct ctr_schema schema; /* after it */
    int column;
};

struct ctr_select {
    bool in_plan;
    struct ctr_schema input; /* with the numbers of rows */
    int number;              /* their column; -1: none */
    int64_t rows;            /* numbered so far */
    struct ctr_buf numbers;
    struct ctr_expr *where;
    struct add_step *add;
    int nadd;
    struct ctr_schema exploded; /* after --explode; unused without it */
    int *explode;
    int nexplode;
    int *repeat; /* kept columns that are repeated for each item */
    int nrepeat;
    struct ctr_picks picks;
    struct ctr_schema output;
    bool *need; /* columns needed of the step before --columns */
    bool *kept; /* those of them that --columns selects: --explode copies only these */
    int *inputs;
    int ninputs;
    bool mark;

    struct ctr_colbuf *buf, *item; /* rows that match --where; exploded rows */
    struct ctr_col *col, *picked;
    int64_t *idx, *item_idx;
    uint8_t *taken, *taken_out;
    int64_t cap, cap_out;
    int64_t empty;
    struct ctr_batch step, batch; /* step: the current batch after --add */
    const uint8_t *step_taken;
    bool pending;                /* rows of step are left */
    bool whole;                  /* one part of --explode has all of them */
    int64_t from_row, from_item; /* of step, where the next part starts */
    int64_t part_bytes;
};

enum { PART_BYTES = 64 << 20, LEAST_PART_BYTES = 64 << 10 };

/* A batch goes through the options in this order, whatever order they are given in. Rows ([a, b], 1) and ([c], 2) of
 * columns items and n, with --where n>0 --add 'm=n*2' --explode items --columns items,m:
 *
 *     --where     rows that hold are gathered; none is, if all hold                  ([a, b], 1) ([c], 2)
 *     --add       one after another, each sees the columns of those before it        ([a, b], 1, 2) ([c], 2, 4)
 *     --explode   item k of row r becomes a row; item_idx says which row it repeats  (a, 1, 2) (b, 1, 2) (c, 2, 4)
 *     --columns   picks, renames and orders                                          (a, 2) (b, 2) (c, 4)
 *
 * Only columns that a later step needs are gathered or repeated (need, kept): here n is not repeated. */

/* ---- compiling ---- */

/* The schema after the last --add so far. */
static const struct ctr_schema *last_schema(const struct ctr_select *s)
{
    return s->nadd ? &s->add[s->nadd - 1].schema : &s->input;
}

static int compile_where(struct ctr_select *s, const char *text, const struct ctr_lookups *lookups, struct ctr_err *err)
{
    char name[128];
    const char *where = ctr_word(s->in_plan, "--where");
    int rc = ctr_expr_compile(&s->where, where, text, &s->input, lookups, err);
    if (rc < 0)
        return rc;
    const struct ctr_field *f = ctr_expr_field(s->where);
    if (f->type != CTR_BOOL)
        return ctr_fail(err, CTR_EUSAGE,
                        "%s wants a condition, and this is %s; compare it with something, as in %.60s%s", where,
                        ctr_field_type_name(f, name, sizeof name), text,
                        ctr_types[f->type].integer || ctr_types[f->type].floating ? " != 0"
                        : f->type == CTR_UTF8                                     ? " != \"\""
                                                                                  : " == …");
    return CTR_OK;
}

/* The end of NAME in NAME=EXPR. */
static const char *add_equals(const char *text)
{
    bool quoted = false;
    for (const char *p = text; *p; p++) {
        if (*p == '`')
            quoted = !quoted;
        else if (*p == '\\' && quoted && p[1])
            p++;
        else if (*p == '=' && !quoted)
            return p;
    }
    return NULL;
}

/* The schema with the result of an --add: replaces the column of that name, or is appended. */
static int add_schema(struct add_step *a, const struct ctr_schema *before, const char *name, struct ctr_err *err)
{
    const struct ctr_field *f = ctr_expr_field(a->expr);
    int rc = ctr_schema_copy(&a->schema, before, err);
    if (rc < 0)
        return rc;
    a->column = ctr_schema_find(before, name);
    if (a->column < 0) {
        a->column = before->n;
        rc = ctr_schema_add(&a->schema, name, f->type, err);
    }
    if (rc < 0)
        return rc;
    struct ctr_field *to = &a->schema.f[a->column];
    to->type = f->type;
    to->item = f->item;
    to->width = f->width;
    to->dict = f->dict;
    return CTR_OK;
}

static int compile_add(struct ctr_select *s, const char *text, const struct ctr_lookups *lookups, struct ctr_err *err)
{
    const char *eq = add_equals(text), *start = text + strspn(text, " "), *end = eq;
    while (end && end > start && end[-1] == ' ')
        end--;
    if (!eq || end == start || eq[1] == '=')
        return ctr_fail(err, CTR_EUSAGE, "%s %.60s: write it as NAME=EXPR", ctr_word(s->in_plan, "--add"), text);
    struct ctr_buf name = { 0 };
    struct add_step *a = &s->add[s->nadd];
    char what[128];
    int rc = ctr_unquote_name(&name, start, (size_t)(end - start), err);
    if (rc == 0) {
        snprintf(what, sizeof what, "%s %.80s", ctr_word(s->in_plan, "--add"), (char *)name.data);
        rc = ctr_expr_compile(&a->expr, what, eq + 1, last_schema(s), lookups, err);
    }
    if (rc == 0)
        rc = add_schema(a, last_schema(s), (char *)name.data, err);
    ctr_buf_free(&name);
    s->nadd++;
    return rc;
}

static int compile_explode(struct ctr_select *s, const char *list, struct ctr_err *err)
{
    struct ctr_picks picks = { 0 };
    const struct ctr_schema *before = last_schema(s);
    char name[128];
    int rc = ctr_columns_parse(&picks, list, before, err);
    if (rc == 0)
        rc = ctr_schema_copy(&s->exploded, before, err);
    if (rc == 0 && !(s->explode = calloc((size_t)picks.n + 1, sizeof *s->explode)))
        rc = ctr_fail_nomem(err, (size_t)picks.n * sizeof *s->explode);
    for (int i = 0; rc == 0 && i < picks.n; i++) {
        struct ctr_field *f = &s->exploded.f[picks.p[i].column];
        bool list_type = (f->type == CTR_LIST || f->type == CTR_FIXED) && f->item != CTR_WKEY;
        if (strcmp(picks.p[i].name, f->name))
            rc = ctr_fail(err, CTR_EUSAGE, "%s %.60s=%.60s: it gives no new names%s", ctr_word(s->in_plan, "--explode"),
                          picks.p[i].name, f->name, ctr_words(s->in_plan, ", --columns does", ""));
        else if (!list_type)
            rc = ctr_fail(err, CTR_EUSAGE, "%s %.60s: the column is %s, not a list", ctr_word(s->in_plan, "--explode"),
                          f->name, ctr_field_type_name(f, name, sizeof name));
        else
            rc = ctr_meta_set(&f->meta, CTR_META_HISTORY_OF, NULL, err);
        if (rc == 0)
            rc = ctr_meta_set(&f->meta, CTR_META_HISTORY, NULL, err);
        if (rc == 0)
            rc = ctr_meta_set(&f->meta, CTR_META_ORDER, NULL, err);
        f->type = f->item;
        f->item = 0;
        f->width = 0;
        f->dict = false;
        s->explode[s->nexplode++] = picks.p[i].column;
    }
    ctr_picks_free(&picks);
    return rc;
}

/* A history refers to its column under the new name; if that column is dropped, under the old name. */
static int follow_rename(const struct ctr_select *s, const struct ctr_schema *before, struct ctr_field *f,
                         struct ctr_err *err)
{
    const char *of = ctr_meta_get(&f->meta, CTR_META_HISTORY_OF);
    int column = of ? ctr_schema_find(before, of) : -1;
    for (int i = 0; column >= 0 && i < s->picks.n; i++)
        if (s->picks.p[i].column == column)
            return ctr_meta_set(&f->meta, CTR_META_HISTORY_OF, s->picks.p[i].name, err);
    return CTR_OK;
}

static int compile_columns(struct ctr_select *s, const struct ctr_select_spec *spec, struct ctr_err *err)
{
    const struct ctr_schema *before = s->nexplode ? &s->exploded : last_schema(s);
    int rc = ctr_columns_parse(&s->picks, spec->columns ? spec->columns : "*", before, err);
    if (rc == 0 && !s->picks.n && before->n)
        rc = ctr_fail(err, CTR_EUSAGE, "--columns %.60s leaves no column", spec->columns);
    if (rc == 0)
        rc = ctr_meta_copy(&s->output.meta, &before->meta, err);
    for (int i = 0; rc == 0 && i < s->picks.n; i++) {
        rc = ctr_schema_add_field(&s->output, &before->f[s->picks.p[i].column], s->picks.p[i].name, err);
        if (rc >= 0 && spec->decode)
            s->output.f[i].dict = false;
        rc = CTR_MIN(rc, 0);
    }
    for (int i = 0; rc == 0 && i < s->picks.n; i++)
        rc = follow_rename(s, before, &s->output.f[i], err);
    return rc;
}

/* ---- roles ---- */

/* The role of that name; -1: "", none; -2: another word. */
static int role_of(const char *name)
{
    for (int i = 0; i < CTR_NROLES; i++)
        if (!strcmp(ctr_roles[i], name))
            return i;
    return *name ? -2 : -1;
}

/* NAME=ROLE: a column that had the role loses it. */
static int give_role(struct ctr_select *s, const char *text, struct ctr_err *err)
{
    const char *eq = strrchr(text, '=');
    const int role = eq ? role_of(eq + 1) : -2;
    struct ctr_buf name = { 0 };
    if (role == -2 || eq == text)
        return ctr_fail(err, CTR_EUSAGE,
                        "--role %.60s: write it as NAME=ROLE, a role that ctr-stream(5) lists, or NAME= for none",
                        text);
    if (ctr_role_is_input(role))
        return ctr_fail(err, CTR_EUSAGE, "--role %.60s: a plan makes features, dense numbers and images (ctr-extract)",
                        text);
    int rc = ctr_unquote_name(&name, text, (size_t)(eq - text), err);
    const int column = rc ? rc : ctr_schema_need(&s->output, (char *)name.data, err);
    rc = CTR_MIN(column, 0);
    for (int i = 0; i < s->output.n && !rc; i++) {
        struct ctr_field *f = &s->output.f[i];
        if (i == column || (role >= 0 && ctr_field_role(f) == role))
            rc = i == column && role >= 0 ? ctr_field_set_role(f, (enum ctr_role)role, err)
                                          : ctr_meta_set(&f->meta, CTR_META_ROLE, NULL, err);
    }
    ctr_buf_free(&name);
    return rc;
}

/* ---- which columns are needed ---- */

static void need_names(struct ctr_select *s, const struct ctr_expr *e)
{
    const struct ctr_strs *names = e ? ctr_expr_inputs(e) : NULL;
    for (int i = 0; names && i < names->n; i++) {
        int c = ctr_schema_find(last_schema(s), names->s[i]);
        if (c >= 0)
            s->need[c] = true;
    }
}

static bool is_exploded(const struct ctr_select *s, int column)
{
    bool is = false;
    for (int k = 0; k < s->nexplode; k++)
        is |= s->explode[k] == column;
    return is;
}

static int find_inputs(struct ctr_select *s, struct ctr_err *err)
{
    size_t n = (size_t)last_schema(s)->n + 1;
    s->need = calloc(n, sizeof *s->need);
    s->kept = calloc(n, sizeof *s->kept);
    s->inputs = calloc(n, sizeof *s->inputs);
    s->buf = calloc(n, sizeof *s->buf);
    s->item = calloc(n, sizeof *s->item);
    s->col = calloc(n, sizeof *s->col);
    s->picked = calloc((size_t)s->picks.n + 1, sizeof *s->picked);
    s->repeat = calloc(n, sizeof *s->repeat);
    if (!s->need || !s->kept || !s->inputs || !s->buf || !s->item || !s->col || !s->picked || !s->repeat)
        return ctr_fail_nomem(err, n * sizeof *s->buf);
    need_names(s, s->where);
    for (int i = 0; i < s->nadd; i++)
        need_names(s, s->add[i].expr);
    for (int i = 0; i < s->nexplode; i++)
        s->need[s->explode[i]] = true;
    for (int i = 0; i < s->picks.n; i++)
        s->need[s->picks.p[i].column] = s->kept[s->picks.p[i].column] = true;
    for (int i = 0; s->nexplode && i < s->exploded.n; i++)
        if (s->kept[i] && !is_exploded(s, i))
            s->repeat[s->nrepeat++] = i;
    for (int i = 0; i < s->input.n; i++)
        if (s->need[i] && i != s->number)
            s->inputs[s->ninputs++] = i;
    if (!s->ninputs && s->input.n && s->number) { /* some column must give the number of rows */
        s->need[0] = true;
        s->ninputs = 1;
    }
    return CTR_OK;
}

static int make_buffers(struct ctr_select *s, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; rc == 0 && s->where && i < s->input.n; i++)
        if (s->need[i])
            rc = ctr_colbuf_init(&s->buf[i], &s->input.f[i], err);
    for (int i = 0; rc == 0 && s->nexplode && i < s->exploded.n; i++)
        if (s->kept[i])
            rc = ctr_colbuf_init(&s->item[i], &s->exploded.f[i], err);
    return rc;
}

/* The last column of the input. */
static int number_rows(struct ctr_select *s, const char *name, struct ctr_err *err)
{
    if (ctr_schema_find(&s->input, name) >= 0)
        return ctr_fail(err, CTR_EUSAGE, "--add-row %s: there is a column of this name; choose another", name);
    s->number = s->input.n;
    return ctr_schema_add(&s->input, name, CTR_I64, err);
}

int ctr_select_new(struct ctr_select **out, const struct ctr_select_spec *spec, const struct ctr_schema *in,
                   struct ctr_err *err)
{
    struct ctr_select *s = calloc(1, sizeof *s);
    int nadd = spec->add ? spec->add->n : 0;
    *out = NULL;
    if (!s || !(s->add = calloc((size_t)nadd + 1, sizeof *s->add))) {
        free(s);
        return ctr_fail_nomem(err, sizeof *s);
    }
    s->mark = spec->mark;
    s->in_plan = spec->in_plan;
    s->part_bytes = spec->part_bytes ? CTR_MAX(CTR_MIN(spec->part_bytes, PART_BYTES), LEAST_PART_BYTES) : PART_BYTES;
    s->number = -1;
    int rc = ctr_schema_copy(&s->input, in, err);
    if (rc == 0 && spec->number)
        rc = number_rows(s, spec->number, err);
    if (rc == 0 && spec->where)
        rc = compile_where(s, spec->where, spec->lookups, err);
    for (int i = 0; rc == 0 && i < nadd; i++)
        rc = compile_add(s, spec->add->s[i], spec->lookups, err);
    if (rc == 0 && spec->explode)
        rc = compile_explode(s, spec->explode, err);
    if (rc == 0)
        rc = compile_columns(s, spec, err);
    for (int i = 0; rc == 0 && spec->roles && i < spec->roles->n; i++)
        rc = give_role(s, spec->roles->s[i], err);
    if (rc == 0)
        rc = find_inputs(s, err);
    if (rc == 0)
        rc = make_buffers(s, err);
    if (rc < 0)
        ctr_select_free(s);
    else
        *out = s;
    return rc;
}

static void free_buffers(struct ctr_select *s)
{
    for (int i = 0; s->buf && s->item && i < last_schema(s)->n; i++) {
        ctr_colbuf_free(&s->buf[i]);
        ctr_colbuf_free(&s->item[i]);
    }
    free(s->buf);
    free(s->item);
}

void ctr_select_free(struct ctr_select *s)
{
    if (!s)
        return;
    free_buffers(s);
    ctr_expr_free(s->where);
    for (int i = 0; i < s->nadd; i++) {
        ctr_expr_free(s->add[i].expr);
        ctr_schema_free(&s->add[i].schema);
    }
    free(s->add);
    ctr_schema_free(&s->input);
    ctr_schema_free(&s->exploded);
    ctr_schema_free(&s->output);
    ctr_picks_free(&s->picks);
    ctr_buf_free(&s->numbers);
    void *plain[] = { s->repeat, s->explode, s->need,     s->kept,  s->inputs,   s->col,
                      s->picked, s->idx,     s->item_idx, s->taken, s->taken_out };
    for (size_t i = 0; i < CTR_COUNT(plain); i++)
        free(plain[i]);
    free(s);
}

const struct ctr_schema *ctr_select_schema(const struct ctr_select *s)
{
    return &s->output;
}
const int *ctr_select_inputs(const struct ctr_select *s, int *n)
{
    *n = s->ninputs;
    return s->inputs;
}
int64_t ctr_select_empty(const struct ctr_select *s)
{
    return s->empty;
}

/* ---- batches ---- */

static int grow(struct ctr_select *s, int64_t rows, struct ctr_err *err)
{
    if (rows <= s->cap)
        return CTR_OK;
    int64_t *idx = realloc(s->idx, (size_t)rows * sizeof *idx);
    if (idx)
        s->idx = idx;
    uint8_t *taken = realloc(s->taken, (size_t)rows);
    if (taken)
        s->taken = taken;
    if (!idx || !taken)
        return ctr_fail_nomem(err, (size_t)rows * sizeof *idx);
    s->cap = rows;
    return CTR_OK;
}

/* Convert the condition to a byte per row: null is false. Returns the number that hold. */
static int64_t condition_bytes(const struct ctr_col *c, uint8_t *taken)
{
    int64_t n = 0;
    for (int64_t i = 0; i < c->rows; i++) {
        int64_t at = i;
        const struct ctr_col *v = ctr_col_missing(c, i) ? NULL : ctr_col_plain(c, &at);
        taken[i] = v && ctr_bit(v->data, at);
        n += taken[i];
    }
    return n;
}

static int keep_rows(struct ctr_select *s, int64_t n, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < s->input.n; i++) {
        if (!s->need[i])
            continue;
        ctr_colbuf_clear(&s->buf[i]);
        rc = ctr_colbuf_gather(&s->buf[i], &s->col[i], s->idx, n, err);
        if (rc == 0)
            s->col[i] = *ctr_colbuf_view(&s->buf[i]);
    }
    s->step.rows = n;
    return rc;
}

static int apply_where(struct ctr_select *s, const uint8_t **taken, struct ctr_err *err)
{
    const struct ctr_col *c;
    int64_t n = 0, rows = s->step.rows;
    int rc = ctr_expr_eval(s->where, &s->step, &c, err);
    if (rc < 0)
        return rc;
    if (condition_bytes(c, s->taken) == rows)
        return CTR_OK;
    if (s->mark) {
        *taken = s->taken;
        return CTR_OK;
    }
    for (int64_t i = 0; i < rows; i++) {
        s->idx[n] = i;
        n += s->taken[i];
    }
    return keep_rows(s, n, err);
}

static int apply_adds(struct ctr_select *s, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < s->nadd; i++) {
        const struct ctr_col *c;
        rc = ctr_expr_eval(s->add[i].expr, &s->step, &c, err);
        if (rc == 0)
            s->col[s->add[i].column] = *c;
        s->step.schema = &s->add[i].schema;
    }
    return rc;
}

static int grow_out(struct ctr_select *s, int64_t rows, struct ctr_err *err)
{
    if (rows <= s->cap_out)
        return CTR_OK;
    int64_t cap = CTR_MAX(rows, s->cap_out * 2);
    int64_t *idx = realloc(s->item_idx, (size_t)cap * sizeof *idx);
    if (idx)
        s->item_idx = idx;
    uint8_t *taken = realloc(s->taken_out, (size_t)cap);
    if (taken)
        s->taken_out = taken;
    if (!idx || !taken)
        return ctr_fail_nomem(err, (size_t)cap * sizeof *idx);
    s->cap_out = cap;
    return CTR_OK;
}

/* The items of a row in exploded column k. */
static int64_t items_of(const struct ctr_select *s, int k, int64_t row, int64_t *from)
{
    int64_t to = 0;
    const int c = s->explode[k];
    *from = 0;
    (void)ctr_col_items(&s->col[c], last_schema(s)->f[c].width, row, from, &to);
    return to - *from;
}

static int misaligned(const struct ctr_select *s, int k, int64_t row, int64_t n, int64_t want, struct ctr_err *err)
{
    return ctr_fail(err, CTR_EDATA,
                    "row %lld: %.60s has %lld items and %.60s has %lld; lists that are exploded together "
                    "are equally long",
                    (long long)(s->batch.first_row + row + 1), s->exploded.f[s->explode[k]].name, (long long)n,
                    s->exploded.f[s->explode[0]].name, (long long)want);
}

static int check_aligned(struct ctr_select *s, int64_t row, int64_t n, struct ctr_err *err)
{
    int64_t from;
    for (int k = 1; k < s->nexplode; k++) {
        const int64_t other = items_of(s, k, row, &from);
        if (other != n)
            return misaligned(s, k, row, other, n, err);
    }
    return 0;
}

static const struct ctr_col *item_column(const struct ctr_select *s, int k)
{
    const struct ctr_col *c = &s->col[s->explode[k]];
    return c->dict ? c->dict->item : c->item;
}

/* The bytes that each item of rows [from, from + n) repeats. */
static int64_t repeated_bytes(const struct ctr_select *s, int64_t from, int64_t n)
{
    int64_t bytes = 0;
    for (int i = 0; i < s->nrepeat; i++) {
        const int c = s->repeat[i];
        bytes += s->exploded.f[c].dict ? n * (int64_t)sizeof(int32_t) : ctr_col_bytes(&s->col[c], from, n);
    }
    return bytes;
}

/* The bytes of items [item, item + n) of a row, in all lists that are kept. */
static int64_t item_bytes(const struct ctr_select *s, int64_t row, int64_t item, int64_t n)
{
    int64_t bytes = 0, from;
    for (int k = 0; k < s->nexplode; k++)
        if (s->kept[s->explode[k]]) {
            (void)items_of(s, k, row, &from);
            bytes += ctr_col_bytes(item_column(s, k), from + item, n);
        }
    return bytes;
}

/* How many of the n items of a row from `item` on fit into the part, at least one if it is empty. */
static int64_t items_that_fit(const struct ctr_select *s, int64_t row, int64_t item, int64_t n, int64_t *room)
{
    const int64_t each = repeated_bytes(s, row, 1), all = item_bytes(s, row, item, n) + each * n;
    int64_t taken = 0;
    if (all <= *room) {
        *room -= all;
        return n;
    }
    for (; taken < n; taken++) {
        const int64_t bytes = each + item_bytes(s, row, item + taken, 1);
        if (bytes > *room && (taken || *room < s->part_bytes))
            break;
        *room -= bytes;
    }
    return taken;
}

/* Does the batch certainly fit into one part? By the longest list, which costs less than a look at each row. */
static bool fits_whole(const struct ctr_select *s)
{
    const int64_t rows = s->step.rows;
    int64_t longest = 0, items = 0, from;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t n = items_of(s, 0, i, &from);
        longest = CTR_MAX(longest, n);
        items += n;
    }
    int64_t bytes = 0;
    for (int k = 0; k < s->nexplode && items; k++)
        bytes += ctr_col_bytes(&s->col[s->explode[k]], 0, rows);
    return !items || (double)repeated_bytes(s, 0, rows) * (double)longest + (double)bytes <= (double)s->part_bytes;
}

/* Choose the items of the next part: item_idx[out row] = row. Returns the number of rows of the part. */
static int64_t choose_part(struct ctr_select *s, struct ctr_err *err)
{
    s->whole = s->whole || (!s->from_row && !s->from_item && fits_whole(s));
    int64_t n_out = 0, room = s->part_bytes, from;
    int rc = 0;
    while (s->from_row < s->step.rows) {
        const int64_t n = items_of(s, 0, s->from_row, &from), left = n - s->from_item;
        if (!s->from_item) {
            rc = check_aligned(s, s->from_row, n, err);
            s->empty += n == 0;
        }
        const int64_t taken = rc || s->whole ? left : items_that_fit(s, s->from_row, s->from_item, left, &room);
        if (!rc)
            rc = grow_out(s, n_out + taken, err);
        if (rc)
            return rc;
        for (int64_t j = 0; j < taken; j++)
            s->item_idx[n_out++] = s->from_row;
        s->from_item += taken;
        if (taken < left)
            break;
        s->from_row++;
        s->from_item = 0;
    }
    return n_out;
}

/* item_idx[out row] = the position of its item in column k, of the n rows of a part that starts at an item of a row. */
static void index_items(struct ctr_select *s, int k, int64_t row, int64_t item, int64_t n)
{
    for (int64_t at = 0; at < n; row++, item = 0) {
        int64_t from;
        const int64_t to = items_of(s, k, row, &from) + from;
        for (int64_t j = from + item; j < to && at < n; j++)
            s->item_idx[at++] = j;
    }
}

static int gather_items(struct ctr_select *s, int column, const struct ctr_col *c, int64_t n, struct ctr_err *err)
{
    ctr_colbuf_clear(&s->item[column]);
    return ctr_colbuf_gather(&s->item[column], c, s->item_idx, n, err);
}

/* The next part of the exploded batch. */
static int explode_part(struct ctr_select *s, const uint8_t **taken, struct ctr_err *err)
{
    const int64_t row = s->from_row, item = s->from_item, n = choose_part(s, err);
    int rc = (int)CTR_MIN(n, 0);
    for (int i = 0; !rc && i < s->nrepeat; i++)
        rc = gather_items(s, s->repeat[i], &s->col[s->repeat[i]], n, err);
    for (int64_t i = 0; !rc && s->step_taken && i < n; i++)
        s->taken_out[i] = s->step_taken[s->item_idx[i]];
    for (int k = 0; !rc && k < s->nexplode; k++)
        if (s->kept[s->explode[k]]) {
            index_items(s, k, row, item, n);
            rc = gather_items(s, s->explode[k], item_column(s, k), n, err);
        }
    s->batch.rows = n;
    s->pending = !rc && s->from_row < s->step.rows;
    *taken = s->step_taken ? s->taken_out : NULL;
    return rc;
}

static int give_numbers(struct ctr_select *s, int64_t rows, struct ctr_err *err)
{
    int rc = ctr_buf_room(&s->numbers, rows, sizeof(int64_t), err);
    int64_t *number = (int64_t *)(void *)s->numbers.data;
    for (int64_t i = 0; !rc && i < rows; i++)
        number[i] = ++s->rows;
    s->col[s->number] = (struct ctr_col){ .type = CTR_I64, .rows = rows, .data = number };
    return rc;
}

int ctr_select_batch(struct ctr_select *s, const struct ctr_batch *in, struct ctr_err *err)
{
    const struct ctr_schema *first = &s->input;
    int rc = grow(s, in->rows, err);
    if (rc < 0)
        return rc;
    memset(s->col, 0, (size_t)last_schema(s)->n * sizeof *s->col);
    for (int i = 0; i < s->ninputs; i++)
        s->col[s->inputs[i]] = in->col[i];
    if (s->number >= 0 && (rc = give_numbers(s, in->rows, err)))
        return rc;
    s->step = (struct ctr_batch){ first, in->rows, in->first_row, s->col };
    s->batch = (struct ctr_batch){ &s->output, in->rows, in->first_row, s->picked };
    s->step_taken = NULL;
    s->from_row = s->from_item = 0;
    s->whole = false;
    if (s->where)
        rc = apply_where(s, &s->step_taken, err);
    if (rc == 0)
        rc = apply_adds(s, err);
    s->pending = !rc;
    return rc;
}

int ctr_select_next(struct ctr_select *s, const struct ctr_batch **out, const uint8_t **taken, struct ctr_err *err)
{
    if (!s->pending)
        return 0;
    s->pending = false;
    s->batch.rows = s->step.rows;
    *taken = s->step_taken;
    int rc = s->nexplode ? explode_part(s, taken, err) : 0;
    if (rc < 0)
        return rc;
    for (int i = 0; i < s->picks.n; i++) {
        const int c = s->picks.p[i].column;
        s->picked[i] = s->nexplode ? *ctr_colbuf_view(&s->item[c]) : s->col[c];
    }
    *out = &s->batch;
    return 1;
}
