/* SPDX-License-Identifier: Apache-2.0
 *
 * profilefile: profiles as a stream. It begins with a row ("schema") for each column. Each column of each slice is a
 * run of rows, which begins with its counts ("column"); `part` says what the others are. Rows are sorted, so that equal
 * profiles are equal streams. */
#include "tools/ctr-stats/profiles.h"

#include <stdio.h>
#include <stdlib.h>

#define META_BY     "ctr.profile_by"
#define META_LABEL  "ctr.profile_label"
#define META_WINDOW "ctr.profile_window"
#define VERSION     "1"

enum { BY, WINDOW, COLUMN, TYPE, ROLE, PART, KEY, ROWS, CLICKS, TEXT, BYTES, COUNTS, NFIELDS };
static const struct {
    const char *name;
    enum ctr_type type, item;
} fields[NFIELDS] = {
    { "by", CTR_UTF8, 0 },    { "window", CTR_TIME, 0 }, { "column", CTR_UTF8, 0 }, { "type", CTR_UTF8, 0 },
    { "role", CTR_UTF8, 0 },  { "part", CTR_UTF8, 0 },   { "key", CTR_U64, 0 },     { "rows", CTR_I64, 0 },
    { "clicks", CTR_U64, 0 }, { "text", CTR_UTF8, 0 },   { "bytes", CTR_U32, 0 },   { "counts", CTR_LIST, CTR_I64 },
};

int ctr_profile_file_schema(const struct ctr_profiles *p, struct ctr_schema *s, struct ctr_err *err)
{
    char window[CTR_NUM_MAX + 1] = { 0 };
    int rc = 0;
    for (int i = 0; rc >= 0 && i < NFIELDS; i++) {
        rc = ctr_schema_add(s, fields[i].name, fields[i].type, err);
        if (rc >= 0)
            s->f[s->n - 1].item = fields[i].item;
    }
    if (rc >= 0)
        rc = ctr_meta_set(&s->meta, CTR_META_PROFILE, VERSION, err);
    if (!rc && p->by)
        rc = ctr_meta_set(&s->meta, META_BY, p->by, err);
    if (!rc && p->label)
        rc = ctr_meta_set(&s->meta, META_LABEL, p->label, err);
    if (!rc && p->window_ms) {
        window[ctr_fmt_i64(window, p->window_ms)] = 0;
        rc = ctr_meta_set(&s->meta, META_WINDOW, window, err);
    }
    return CTR_MIN(rc, 0);
}

bool ctr_is_profile(const struct ctr_schema *s)
{
    return ctr_meta_get(&s->meta, CTR_META_PROFILE);
}

/* The profile of two rows with site "a" and "b", without slices (by and window null) and labels (clicks 0):
 *
 *     column  type     part     key                   rows  text  bytes  counts
 *     site    utf8     schema   0                     0           0      []
 *     site    utf8     column   0                     2           0      [0 0 0 0 0 0 0 2 0 -1 -1]
 *     site    utf8     value    665930714074907560    1     b     1      []
 *     site    utf8     value    16284231196011601808  1     a     1      []
 *
 * counts of "column" are those of put_column: nulls first, values eighth, at the end the level and the shift of a
 * column of many values (-1: all are counted). Such a column has totals, sum, squares, min, max, bin … and frequent …
 * before its values. A reader makes the same struct again (take_row), and check_whole refuses one of which rows are
 * missing. */

/* ---- writing ---- */

struct row {
    const char *part;
    uint64_t key, clicks;
    int64_t n;
    const char *text;
    size_t text_n;
    uint32_t bytes;
    const int64_t *counts;
    int ncounts;
};

struct put {
    const struct ctr_profiles *p;
    const struct ctr_slice *slice;
    const struct ctr_profile *column;
    struct ctr_batchbuf rows;
    struct ctr_writer *w;
};

static int put_row(struct put *to, const struct row *r, struct ctr_err *err)
{
    struct ctr_append a = { to->rows.col, err, 0 }; /* in the order of `fields` */
    const struct ctr_profile *p = to->column;
    const struct ctr_slice *slice = to->slice;
    ctr_append_str(&a, slice ? slice->by : NULL, slice ? (size_t)slice->by_n : 0);
    ctr_append_i64(&a, slice && to->p->window_ms, slice ? slice->window_ms : 0);
    ctr_append_text(&a, p->name);
    ctr_append_text(&a, p->type);
    ctr_append_text(&a, p->role);
    ctr_append_text(&a, r->part);
    ctr_append_i64(&a, true, (int64_t)r->key);
    ctr_append_i64(&a, true, r->n);
    ctr_append_i64(&a, true, (int64_t)r->clicks);
    ctr_append_str(&a, r->text, r->text_n);
    ctr_append_i64(&a, true, r->bytes);
    int rc = a.rc;
    for (int i = 0; !rc && i < r->ncounts; i++)
        rc = ctr_colbuf_i64(a.next->item, r->counts[i], err);
    if (!rc)
        rc = ctr_colbuf_close(a.next, err);
    if (!rc && ctr_batchbuf_rows(&to->rows) == CTR_BATCH_ROWS) {
        rc = ctr_writer_batch(to->w, ctr_batchbuf_view(&to->rows), err);
        ctr_batchbuf_clear(&to->rows);
    }
    return rc;
}

static const struct ctr_value_table *sorting; /* qsort has no context; one thread writes */

static int by_value(const void *x, const void *y)
{
    const struct ctr_value *a = x, *b = y;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return a->kept ? memcmp(ctr_value_text(sorting, a), ctr_value_text(sorting, b), a->kept) : 0;
}

static int put_values(struct put *to, struct ctr_err *err)
{
    const struct ctr_value_table *t = &to->column->table;
    struct ctr_value *v = calloc((size_t)t->n + 1, sizeof *v);
    int64_t n = 0;
    int rc = v ? 0 : ctr_fail_nomem(err, (size_t)t->n * sizeof *v);
    for (int64_t i = 0; !rc && i < t->cap; i++)
        if (t->slot[i].n)
            v[n++] = t->slot[i];
    sorting = t;
    if (n)
        qsort(v, (size_t)n, sizeof *v, by_value);
    for (int64_t i = 0; !rc && i < n; i++) {
        const bool text = to->column->kind == CTR_KIND_TEXT;
        const struct row r = { .part = "value",
                               .key = v[i].key,
                               .n = v[i].n,
                               .clicks = v[i].clicks,
                               .text = text ? ctr_value_text(t, &v[i]) : NULL,
                               .text_n = v[i].kept,
                               .bytes = v[i].bytes };
        rc = put_row(to, &r, err);
    }
    free(v);
    return rc;
}

static int put_bins(struct put *to, struct ctr_err *err)
{
    const struct ctr_bins *b = &to->column->many->bins;
    struct ctr_bin *bin = calloc((size_t)b->n + 1, sizeof *bin);
    int64_t n = 0;
    int rc = bin ? 0 : ctr_fail_nomem(err, (size_t)b->n * sizeof *bin);
    for (int64_t i = 0; !rc && i < b->cap; i++)
        if (b->slot[i].n)
            bin[n++] = b->slot[i];
    if (n)
        qsort(bin, (size_t)n, sizeof *bin, ctr_by_u64);
    for (int64_t i = 0; !rc && i < n; i++) {
        const struct row r = { .part = "bin", .key = bin[i].at, .n = bin[i].n, .clicks = bin[i].clicks };
        rc = put_row(to, &r, err);
    }
    free(bin);
    return rc;
}

static int put_heavy(struct put *to, const char *part, struct ctr_heavy *h, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && h && i < CTR_HEAVY_CELLS; i++) {
        const int64_t *counts = ctr_heavy_cell(h, i);
        const struct row r = { .part = part, .key = (uint64_t)i, .counts = counts, .ncounts = ctr_heavy_counts(h) };
        if (counts[0])
            rc = put_row(to, &r, err);
    }
    return rc;
}

static int put_sum(struct put *to, const char *part, const struct ctr_exact *e, struct ctr_err *err)
{
    int64_t limb[CTR_EXACT_LIMBS];
    memcpy(limb, e->limb, sizeof limb);
    const struct row r = { .part = part, .counts = limb, .ncounts = CTR_EXACT_LIMBS };
    return put_row(to, &r, err);
}

static int put_end(struct put *to, const char *part, const struct ctr_end *e, struct ctr_err *err)
{
    const bool text = to->column->kind == CTR_KIND_TEXT;
    const struct row r = {
        .part = part, .key = e->order, .text = text ? e->text : NULL, .text_n = e->n, .bytes = e->cut
    };
    return put_row(to, &r, err);
}

enum { TOTALS = 9 };

static int put_many(struct put *to, struct ctr_err *err)
{
    const struct ctr_many *m = to->column->many;
    const struct ctr_totals *t = &m->totals;
    const int64_t totals[TOTALS] = { t->nan,     t->zeros,    t->plus_infinite, t->minus_infinite, t->huge,
                                     t->ordered, t->shortest, t->longest,       t->length };
    const struct row r = { .part = "totals", .counts = totals, .ncounts = TOTALS };
    int rc = put_row(to, &r, err);
    if (!rc)
        rc = put_sum(to, "sum", &t->sum, err);
    if (!rc)
        rc = put_sum(to, "squares", &t->squares, err);
    if (!rc)
        rc = put_end(to, "min", &t->min, err);
    if (!rc)
        rc = put_end(to, "max", &t->max, err);
    if (!rc)
        rc = put_bins(to, err);
    if (!rc)
        rc = put_heavy(to, "frequent", m->heavy, err);
    return rc ? rc : put_heavy(to, "frequent_clicks", m->clicks, err);
}

enum { HEAD = 11 };

static int put_column(struct put *to, struct ctr_err *err)
{
    const struct ctr_profile *p = to->column;
    const int64_t counts[HEAD] = { p->nulls,
                                   (int64_t)p->null_clicks,
                                   p->lists,
                                   p->items,
                                   p->shortest,
                                   p->longest,
                                   p->null_items,
                                   p->values,
                                   (int64_t)p->value_clicks,
                                   p->many ? p->table.level : -1,
                                   p->many ? p->many->bins.shift : -1 };
    const struct row head = { .part = "column", .n = p->rows, .clicks = p->clicks, .counts = counts, .ncounts = HEAD };
    int rc = put_row(to, &head, err);
    if (!rc && p->many)
        rc = put_many(to, err);
    return rc ? rc : put_values(to, err);
}

int ctr_profile_file_write(const struct ctr_profiles *p, const struct ctr_schema *s, struct ctr_writer *w,
                           struct ctr_err *err)
{
    struct put to = { .p = p, .w = w };
    int rc = ctr_batchbuf_init(&to.rows, s, err);
    for (int k = 0; !rc && k < p->schema.n; k++) {
        const struct row row = { .part = "schema" };
        struct ctr_profile field;
        rc = ctr_profile_init(&field, &p->schema.f[k], false, err);
        to.column = &field;
        if (!rc)
            rc = put_row(&to, &row, err);
        ctr_profile_free(&field);
    }
    for (int i = 0; !rc && i < p->n; i++) {
        to.slice = &p->slice[i];
        for (int k = 0; !rc && k < p->schema.n; k++) {
            to.column = &p->slice[i].column[k];
            rc = put_column(&to, err);
        }
    }
    if (!rc && ctr_batchbuf_rows(&to.rows))
        rc = ctr_writer_batch(w, ctr_batchbuf_view(&to.rows), err);
    ctr_batchbuf_free(&to.rows);
    return rc;
}

/* ---- reading ---- */

struct take {
    struct ctr_profiles *p;
    const struct ctr_batch *b;
    int slice, column; /* of the run of rows */
    struct ctr_profile *at;
};

static int damaged(const struct ctr_batch *b, int64_t i, struct ctr_err *err)
{
    return ctr_fail(err, CTR_EDATA, "row %lld: no row of a profile of ctr-stats: make it anew, with --profile",
                    (long long)(b->first_row + i + 1));
}

/* The counts of a row, of which there must be n; NULL: there are not. */
static const int64_t *counts_of(const struct ctr_batch *b, int64_t i, int64_t n)
{
    int64_t from = 0, to = 0;
    const struct ctr_col *item = ctr_col_items(&b->col[COUNTS], 0, i, &from, &to);
    return item && to - from == n && !item->nulls && !item->dict ? (const int64_t *)item->data + from : NULL;
}

static bool is(const struct ctr_batch *b, int column, int64_t i, const char *text)
{
    if (ctr_col_missing(&b->col[column], i))
        return !text;
    const struct ctr_str s = ctr_col_str(&b->col[column], i);
    return text && s.n == strlen(text) && !memcmp(s.p, text, s.n);
}

static int text_of(const struct ctr_batch *b, int column, int64_t i, char **out, struct ctr_err *err)
{
    const struct ctr_str s = ctr_col_str(&b->col[column], i);
    return ctr_memdup(out, s.n ? s.p : "", s.n, err);
}

/* The types of columns as ctr_field_type_name writes them. */
static int add_field(struct take *t, int64_t i, struct ctr_err *err)
{
    if (t->p->n || ctr_col_missing(&t->b->col[COLUMN], i) || ctr_col_missing(&t->b->col[TYPE], i))
        return damaged(t->b, i, err);
    char *name = NULL, *type = NULL, *role = NULL;
    struct ctr_field f = { 0 };
    int rc = text_of(t->b, COLUMN, i, &name, err), known = 0;
    if (!rc)
        rc = text_of(t->b, TYPE, i, &type, err);
    if (!rc && !ctr_col_missing(&t->b->col[ROLE], i))
        rc = text_of(t->b, ROLE, i, &role, err);
    if (!rc) {
        const char *open = strchr(type, '<');
        const char *item = open ? open + 1 : type;
        const size_t n = open ? strcspn(item, ">") : strlen(type);
        f.type = open ? strncmp(type, "fixed", 5) ? CTR_LIST : CTR_FIXED : CTR_BOOL;
        for (int k = 0; k < CTR_NTYPES; k++) {
            if (strlen(ctr_types[k].name) != n || memcmp(ctr_types[k].name, item, n))
                continue;
            *(open ? &f.item : &f.type) = (enum ctr_type)k;
            known = 1;
        }
        if (f.type == CTR_FIXED && (!strchr(type, '[') || sscanf(strchr(type, '['), "[%d]", &f.width) != 1))
            known = 0;
        if (!known)
            rc = damaged(t->b, i, err);
    }
    f.name = name;
    if (!rc)
        rc = ctr_schema_add_field(&t->p->schema, &f, NULL, err);
    if (rc > 0)
        rc = 0;
    if (!rc && role)
        rc = ctr_meta_set(&t->p->schema.f[t->p->schema.n - 1].meta, CTR_META_ROLE, role, err);
    free(name);
    free(type);
    free(role);
    return rc;
}

static int take_head(struct take *t, int64_t i, struct ctr_err *err)
{
    const struct ctr_batch *b = t->b;
    const struct ctr_str by = ctr_col_missing(&b->col[BY], i) ? (struct ctr_str){ 0 } : ctr_col_str(&b->col[BY], i);
    const bool null = ctr_col_missing(&b->col[BY], i);
    const int64_t *c = counts_of(b, i, HEAD);
    char type[64];
    const int before = t->p->n;
    if (!c || (t->p->window_ms && ctr_col_missing(&b->col[WINDOW], i)) || (!null && !t->p->by))
        return damaged(b, i, err);
    const int64_t window = t->p->window_ms ? ctr_col_i64(&b->col[WINDOW], i) : 0;
    int rc = ctr_profiles_slice(t->p, null ? NULL : by.n ? by.p : "", (int64_t)by.n, window, &t->slice, err);
    if (rc)
        return rc;
    t->column = t->p->n > before ? 0 : t->column + 1;
    if (t->column >= t->p->schema.n || !is(b, COLUMN, i, t->p->schema.f[t->column].name) ||
        !is(b, TYPE, i, ctr_field_type_name(&t->p->schema.f[t->column], type, sizeof type)))
        return damaged(b, i, err);
    struct ctr_profile *p = t->at = &t->p->slice[t->slice].column[t->column];
    p->rows = ctr_col_i64(&b->col[ROWS], i);
    p->clicks = (uint64_t)ctr_col_i64(&b->col[CLICKS], i);
    p->nulls = c[0];
    p->null_clicks = (uint64_t)c[1];
    p->lists = c[2];
    p->items = c[3];
    p->shortest = c[4];
    p->longest = c[5];
    p->null_items = c[6];
    p->values = c[7];
    p->value_clicks = (uint64_t)c[8];
    if (c[9] < 0)
        return 0;
    if (c[9] > 63 || c[10] < 0 || c[10] > 63)
        return damaged(b, i, err);
    rc = ctr_profile_make_many(p, err);
    if (!rc) {
        p->table.level = (int)c[9];
        p->many->bins.shift = (int)c[10];
    }
    return rc;
}

static int take_value(struct take *t, int64_t i, struct ctr_err *err)
{
    struct ctr_profile *p = t->at;
    const bool text = p->kind == CTR_KIND_TEXT;
    struct ctr_value v = { .key = (uint64_t)ctr_col_i64(&t->b->col[KEY], i),
                           .n = ctr_col_i64(&t->b->col[ROWS], i),
                           .clicks = (uint64_t)ctr_col_i64(&t->b->col[CLICKS], i),
                           .bytes = (uint32_t)ctr_col_i64(&t->b->col[BYTES], i) };
    struct ctr_str s = { 0 };
    if (text && !ctr_col_missing(&t->b->col[TEXT], i))
        s = ctr_col_str(&t->b->col[TEXT], i);
    /* A text is kept whole, or up to its last whole character. */
    const bool kept = v.bytes <= CTR_PROFILE_TEXT ? s.n == v.bytes : s.n + 3 >= CTR_PROFILE_TEXT;
    if (v.n <= 0 || s.n > CTR_PROFILE_TEXT || (text && !kept) || p->table.n >= CTR_PROFILE_EXACT ||
        (p->many && p->table.n >= CTR_PROFILE_SAMPLE))
        return damaged(t->b, i, err);
    v.kept = s.n & 127;
    return ctr_value_insert(&p->table, p->kind, &v, text ? s.n ? s.p : "" : NULL, err);
}

static int take_totals(struct take *t, int64_t i, struct ctr_err *err)
{
    struct ctr_totals *to = &t->at->many->totals;
    const int64_t *c = counts_of(t->b, i, TOTALS);
    if (!c)
        return damaged(t->b, i, err);
    int64_t *const field[TOTALS] = { &to->nan,     &to->zeros,    &to->plus_infinite, &to->minus_infinite, &to->huge,
                                     &to->ordered, &to->shortest, &to->longest,       &to->length };
    for (int k = 0; k < TOTALS; k++)
        *field[k] = c[k];
    return 0;
}

static int take_end(struct take *t, int64_t i, struct ctr_end *e, struct ctr_err *err)
{
    e->order = (uint64_t)ctr_col_i64(&t->b->col[KEY], i);
    if (ctr_col_missing(&t->b->col[TEXT], i))
        return 0;
    const struct ctr_str s = ctr_col_str(&t->b->col[TEXT], i);
    if (s.n > CTR_PROFILE_TEXT)
        return damaged(t->b, i, err);
    memcpy(e->text, s.n ? s.p : "", s.n);
    e->n = (uint8_t)s.n;
    e->cut = ctr_col_i64(&t->b->col[BYTES], i) > 0;
    return 0;
}

static int take_many(struct take *t, int64_t i, struct ctr_err *err)
{
    struct ctr_many *m = t->at->many;
    const struct ctr_batch *b = t->b;
    if (is(b, PART, i, "bin")) {
        const struct ctr_bin bin = { (uint64_t)ctr_col_i64(&b->col[KEY], i), ctr_col_i64(&b->col[ROWS], i),
                                     (uint64_t)ctr_col_i64(&b->col[CLICKS], i) };
        const bool fits = !(bin.at >> (63 - m->bins.shift) >> 1);
        return bin.n > 0 && fits && m->bins.cap && m->bins.n < CTR_PROFILE_BINS ? ctr_bins_add(&m->bins, &bin, err)
                                                                                : damaged(b, i, err);
    }
    struct ctr_heavy *h = is(b, PART, i, "frequent") ? m->heavy : is(b, PART, i, "frequent_clicks") ? m->clicks : NULL;
    if (h) {
        const int64_t *c = counts_of(b, i, ctr_heavy_counts(h)), cell = ctr_col_i64(&b->col[KEY], i);
        if (!c || cell < 0 || cell >= CTR_HEAVY_CELLS)
            return damaged(b, i, err);
        ctr_heavy_cell_add(h, (int)cell, c);
        return 0;
    }
    if (is(b, PART, i, "totals"))
        return take_totals(t, i, err);
    if (is(b, PART, i, "min") || is(b, PART, i, "max"))
        return take_end(t, i, is(b, PART, i, "min") ? &m->totals.min : &m->totals.max, err);
    const int64_t *c = counts_of(b, i, CTR_EXACT_LIMBS);
    if (!c || (!is(b, PART, i, "sum") && !is(b, PART, i, "squares")))
        return damaged(b, i, err);
    struct ctr_exact *e = is(b, PART, i, "sum") ? &m->totals.sum : &m->totals.squares;
    memcpy(e->limb, c, sizeof e->limb);
    return 0;
}

static int take_row(struct take *t, int64_t i, struct ctr_err *err)
{
    for (int k = KEY; k <= BYTES; k += k == CLICKS ? 2 : 1)
        if (ctr_col_missing(&t->b->col[k], i))
            return damaged(t->b, i, err);
    if (is(t->b, PART, i, "schema"))
        return add_field(t, i, err);
    if (is(t->b, PART, i, "column"))
        return take_head(t, i, err);
    if (!t->at || !is(t->b, COLUMN, i, t->at->name))
        return damaged(t->b, i, err);
    if (is(t->b, PART, i, "value"))
        return take_value(t, i, err);
    return t->at->many ? take_many(t, i, err) : damaged(t->b, i, err);
}

static int empty_profiles(struct ctr_profiles **out, const struct ctr_schema *s, struct ctr_err *err)
{
    const char *by = ctr_meta_get(&s->meta, META_BY), *label = ctr_meta_get(&s->meta, META_LABEL);
    const char *window = ctr_meta_get(&s->meta, META_WINDOW), *version = ctr_meta_get(&s->meta, CTR_META_PROFILE);
    if (!version || s->n != NFIELDS)
        return ctr_fail(err, CTR_EDATA, "is no profile: ctr-stats --profile FILE writes them");
    if (strcmp(version, VERSION) != 0)
        return ctr_fail(err, CTR_EDATA, "is a profile of version %s, and this program knows " VERSION, version);
    for (int i = 0; i < NFIELDS; i++)
        if (strcmp(s->f[i].name, fields[i].name) != 0 || s->f[i].type != fields[i].type ||
            (fields[i].type == CTR_LIST && s->f[i].item != fields[i].item))
            return ctr_fail(err, CTR_EDATA, "is no profile: its column '%s' is another", s->f[i].name);
    struct ctr_profiles *p = calloc(1, sizeof *p);
    if (!p)
        return ctr_fail_nomem(err, sizeof *p);
    int rc = by ? ctr_strdup(&p->by, by, err) : 0;
    if (!rc && label)
        rc = ctr_strdup(&p->label, label, err);
    if (!rc && window && (!ctr_parse_i64(window, strlen(window), &p->window_ms) || p->window_ms <= 0))
        rc = ctr_fail(err, CTR_EDATA, "is no profile: its windows have the length '%s'", window);
    if (rc)
        ctr_profiles_free(p);
    else
        *out = p;
    return rc;
}

/* Do the parts of a column have its rows? Rows of the file may be missing, as after a ctr-select. */
static bool is_whole(const struct ctr_profile *p)
{
    int64_t values = 0, bins = 0, frequent = 0;
    for (int64_t i = 0; i < p->table.cap; i++)
        values += p->table.slot[i].n;
    if (!p->many)
        return values == p->values;
    for (int64_t i = 0; i < p->many->bins.cap; i++)
        bins += p->many->bins.slot[i].n;
    for (int i = 0; i < CTR_HEAVY_CELLS; i++)
        frequent += ctr_heavy_cell(p->many->heavy, i)[0];
    return p->table.n > CTR_PROFILE_SAMPLE / 4 && values <= p->values && frequent == p->values &&
           p->many->totals.ordered + p->many->totals.nan == p->values &&
           (p->kind == CTR_KIND_TEXT || bins == p->many->totals.ordered);
}

static int check_whole(const struct ctr_profiles *p, struct ctr_err *err)
{
    for (int i = 0; i < p->n; i++)
        for (int k = 0; k < p->schema.n; k++)
            if (!is_whole(&p->slice[i].column[k]) || p->slice[i].column[k].rows != p->slice[i].column[0].rows)
                return ctr_fail(err, CTR_EDATA,
                                "is no whole profile: of column %s rows are missing; make it anew, with "
                                "--profile",
                                p->schema.f[k].name);
    if (!p->n && !p->by && !p->window_ms)
        return ctr_fail(err, CTR_EDATA, "is no whole profile: it has no columns; make it anew, with --profile");
    return 0;
}

/* May the rows of both be counted together? */
static int check_same(const struct ctr_profiles *a, const struct ctr_profiles *b, struct ctr_err *err)
{
    char why[512];
    if (!a->by != !b->by || (a->by && strcmp(a->by, b->by) != 0) || a->window_ms != b->window_ms)
        return ctr_fail(err, CTR_EUSAGE, "has other slices than the profiles before it: --by and --window must agree");
    if (!a->label != !b->label || (a->label && strcmp(a->label, b->label) != 0))
        return ctr_fail(err, CTR_EUSAGE, "has another label than the profiles before it");
    if (!ctr_schema_equal(&a->schema, &b->schema, why, sizeof why))
        return ctr_fail(err, CTR_EUSAGE, "is of other columns than the profiles before it: %s", why);
    return 0;
}

int ctr_profile_file_read(struct ctr_profiles **out, struct ctr_reader *r, struct ctr_err *err)
{
    struct take t = { 0 };
    int rc = empty_profiles(&t.p, ctr_reader_schema(r), err);
    while (!rc && (rc = ctr_reader_next(r, &t.b, err)) > 0) {
        rc = 0;
        for (int64_t i = 0; !rc && i < t.b->rows; i++)
            rc = take_row(&t, i, err);
    }
    if (!rc)
        rc = check_whole(t.p, err);
    if (!rc && *out)
        rc = check_same(*out, t.p, err);
    if (!rc && *out)
        rc = ctr_profiles_merge(*out, t.p, err);
    if (!rc && !*out) {
        *out = t.p;
        t.p = NULL;
    }
    ctr_profiles_free(t.p);
    return rc;
}
