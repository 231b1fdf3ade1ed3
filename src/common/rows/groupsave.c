/* SPDX-License-Identifier: Apache-2.0
 *
 * groupsave: see groupsave.h. A value beside the words is saved as itself, and its word as 1; where the word is 0 there
 * is none. Invariant: a restored state goes on as the saved one would have, bit for bit. */
#include "common/rows/groupsave.h"

#include <stdlib.h>

static bool beside(const struct ctr_groupsave *s, int i)
{
    return ctr_aggregate_keeps(&s->agg[i]) && !ctr_aggregate_ordered(&s->agg[i]); /* these are made of the values */
}

/* What was asked for, in words that two runs can compare. */
static int describe(struct ctr_groupsave *s, struct ctr_err *err)
{
    struct ctr_buf text = { 0 };
    char type[64];
    int rc = ctr_buf_printf(&text, err, "ctr-group 1");
    for (int i = 0; !rc && i < s->n; i++) {
        const struct ctr_aggregate *a = &s->agg[i];
        rc = ctr_buf_printf(
            &text, err, "; %s=%s(%s%s%s)", a->name, ctr_aggregate_function(a), a->column_name,
            a->column < 0 ? "" : ": ",
            a->column < 0
                ? ""
                : ctr_field_type_name(&(struct ctr_field){ .type = a->type, .item = a->of.item }, type, sizeof type));
    }
    if (!rc)
        rc = ctr_buf_append(&text, "", 1, err);
    if (!rc)
        rc = ctr_meta_set(&s->schema.meta, CTR_META_STATE, (const char *)text.data, err);
    ctr_buf_free(&text);
    return rc;
}

static int add_kept(struct ctr_groupsave *s, int i, struct ctr_err *err)
{
    struct ctr_buf name = { 0 };
    int rc = ctr_buf_printf(&name, err, "state.%s%c", s->agg[i].name, 0);
    if (!rc)
        rc = ctr_schema_add_field(&s->schema, &s->agg[i].of, (const char *)name.data, err);
    ctr_buf_free(&name);
    return rc;
}

/* The section of the values of column k, and their sort. */
static int start_values(struct ctr_groupsave *s, int k, const struct ctr_schema *keys, const struct ctr_schema *valued,
                        const struct ctr_sort_opts *o, struct ctr_err *err)
{
    struct ctr_schema *to = &s->valued[k];
    struct ctr_strs names = { 0 };
    struct ctr_sort_opts so = *o;
    char section[32];
    int rc = 0;
    so.keys = &names;
    ctr_format(section, sizeof section, "values.%d", k);
    for (int i = 0; !rc && i < keys->n; i++) {
        rc = ctr_schema_add_field(to, &keys->f[i], NULL, err);
        if (!rc)
            rc = ctr_names_add(&names, keys->f[i].name, err);
    }
    if (!rc)
        rc = ctr_schema_add_field(to, &valued->f[1], "state.value", err);
    if (!rc)
        rc = ctr_strs_add(&names, "state.value", strlen("state.value"), err);
    if (!rc)
        rc = CTR_MIN(ctr_schema_add(to, "state.times", CTR_I64, err), 0);
    if (!rc)
        rc = ctr_meta_set(&to->meta, CTR_META_SECTION, section, err);
    if (!rc)
        rc = ctr_sort_new(&s->sort[k], to, &so, err);
    ctr_strs_free(&names);
    return rc;
}

/* A state with values is a bundle. */
static int name_sections(struct ctr_groupsave *s, struct ctr_err *err)
{
    struct ctr_buf names = { 0 };
    int rc = ctr_buf_printf(&names, err, "groups");
    for (int k = 0; !rc && k < s->nvalues; k++)
        rc = ctr_buf_printf(&names, err, ",values.%d", k);
    if (!rc)
        rc = ctr_buf_append(&names, "", 1, err);
    if (!rc)
        rc = ctr_meta_set(&s->schema.meta, CTR_META_SECTIONS, (const char *)names.data, err);
    ctr_buf_free(&names);
    return rc ? rc : ctr_meta_set(&s->schema.meta, CTR_META_SECTION, "groups", err);
}

int ctr_groupsave_init(struct ctr_groupsave *s, const struct ctr_schema *keys, const struct ctr_aggregate *agg, int n,
                       int stride, const struct ctr_schema *valued, int nvalues, const struct ctr_sort_opts *o,
                       struct ctr_err *err)
{
    int rc = 0;
    *s = (struct ctr_groupsave){ .agg = agg, .n = n, .keys = keys->n, .stride = CTR_MAX(stride, 1) };
    s->valued = calloc((size_t)nvalues + 1, sizeof *s->valued);
    s->sort = calloc((size_t)nvalues + 1, sizeof *s->sort);
    if (!s->valued || !s->sort)
        return ctr_fail_nomem(err, (size_t)nvalues * sizeof *s->valued);
    s->nvalues = nvalues;
    for (int k = 0; !rc && k < nvalues; k++)
        rc = start_values(s, k, keys, &valued[k], o, err);
    for (int i = 0; !rc && i < keys->n; i++)
        rc = ctr_schema_add_field(&s->schema, &keys->f[i], NULL, err);
    if (!rc)
        rc = ctr_schema_add(&s->schema, "state.words", CTR_FIXED, err);
    if (rc)
        return rc;
    s->schema.f[keys->n].item = CTR_I64;
    s->schema.f[keys->n].width = s->stride;
    for (int i = 0; !rc && i < n; i++)
        if (beside(s, i))
            rc = add_kept(s, i, err);
    if (!rc)
        rc = describe(s, err);
    if (!rc && nvalues)
        rc = name_sections(s, err);
    return rc ? rc : ctr_batchbuf_init(&s->rows, &s->schema, err);
}

void ctr_groupsave_free(struct ctr_groupsave *s)
{
    ctr_batchbuf_free(&s->rows);
    ctr_batchbuf_free(&s->times);
    for (int k = 0; k < s->nvalues; k++) {
        ctr_sort_free(s->sort[k]);
        ctr_schema_free(&s->valued[k]);
    }
    free(s->sort);
    free(s->valued);
    ctr_schema_free(&s->schema);
}

const struct ctr_schema *ctr_groupsave_schema(const struct ctr_groupsave *s, int section)
{
    return section ? &s->valued[section - 1] : &s->schema;
}

/* ---- values ---- */

/* Rows of values go to a buffer of their schema, which the sort takes or the caller borrows. */
static int start_times(struct ctr_groupsave *s, int k, struct ctr_err *err)
{
    ctr_batchbuf_free(&s->times);
    s->times = (struct ctr_batchbuf){ 0 };
    return ctr_batchbuf_init(&s->times, &s->valued[k], err);
}

int ctr_groupsave_values(struct ctr_groupsave *s, int k, const struct ctr_col *key, const struct ctr_batch *b,
                         struct ctr_err *err)
{
    const int64_t *number = b->col[0].data;
    const struct ctr_col *value = &b->col[1];
    int rc = start_times(s, k, err);
    for (int64_t i = 0, end; !rc && i < b->rows; i = end) {
        for (end = i + 1; end < b->rows && number[end] == number[i] && !ctr_col_compare(value, end, value, i);)
            end++;
        for (int c = 0; !rc && c < s->keys; c++)
            rc = ctr_colbuf_range(&s->times.col[c], &key[c], number[i], 1, err);
        if (!rc)
            rc = ctr_groupstate_append_value(&s->times.col[s->keys], value, i, err);
        if (!rc)
            rc = ctr_colbuf_i64(&s->times.col[s->keys + 1], end - i, err);
    }
    return rc ? rc : ctr_sort_batch(s->sort[k], ctr_batchbuf_view(&s->times), err);
}

/* Is row i of the sort's batch the last row so far, but for how many times it came? */
static bool same_value(const struct ctr_groupsave *s, const struct ctr_batch *b, int64_t i)
{
    const int64_t last = s->times.col[0].rows - 1;
    bool same = last >= 0;
    for (int c = 0; same && c <= s->keys; c++)
        same = !ctr_col_compare(&b->col[c], i, ctr_colbuf_view(&s->times.col[c]), last);
    return same;
}

/* All of them: a group's values are few, or its state would be large anyhow. */
int ctr_groupsave_next(struct ctr_groupsave *s, int k, const struct ctr_batch **out, struct ctr_err *err)
{
    const struct ctr_batch *b;
    int rc = ctr_sort_next(s->sort[k], &b, err);
    if (rc <= 0)
        return rc;
    rc = start_times(s, k, err);
    for (int64_t i = 0; !rc && i < b->rows; i++) {
        int64_t *times = (int64_t *)(void *)s->times.col[s->keys + 1].data.data;
        const int64_t more = ((const int64_t *)b->col[s->keys + 1].data)[i];
        if (same_value(s, b, i)) {
            times[s->times.col[0].rows - 1] += more;
            continue;
        }
        for (int c = 0; !rc && c < s->keys + 2; c++)
            rc = ctr_colbuf_range(&s->times.col[c], &b->col[c], i, 1, err);
    }
    *out = ctr_batchbuf_view(&s->times);
    return rc ? rc : 1;
}

/* ---- groups ---- */

/* The words of a group, those of values beside them as 1. */
static int save_words(struct ctr_groupsave *s, const struct ctr_groupstate *of, int64_t number, struct ctr_err *err)
{
    struct ctr_colbuf *to = &s->rows.col[s->keys];
    const int64_t *w = ctr_groupstate_of(of, number);
    int rc = 0;
    int64_t *out = ctr_buf_extend(&to->item->data, s->stride, sizeof *out, &rc, err);
    if (rc)
        return rc;
    for (int i = 0; i < s->stride; i++)
        out[i] = i < of->stride ? w[i] : 0;
    for (int i = 0; i < s->n; i++) {
        if (ctr_aggregate_keeps(&s->agg[i]))
            out[s->agg[i].at] = beside(s, i) && w[s->agg[i].at] != 0;
        else if (ctr_aggregate_ordered(&s->agg[i]))
            out[s->agg[i].at + 1] = 0; /* the result */
    }
    to->item->rows += s->stride;
    return ctr_colbuf_close(to, err);
}

static int save_kept(struct ctr_groupsave *s, const struct ctr_groupstate *of, int64_t number, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0, k = s->keys + 1; !rc && i < s->n; i++) {
        if (!beside(s, i))
            continue;
        const int64_t word = ctr_groupstate_of(of, number)[s->agg[i].at];
        rc = word ? ctr_colbuf_range(&s->rows.col[k], ctr_colbuf_view(&of->kept[i]), word - 1, 1, err)
                  : ctr_colbuf_null(&s->rows.col[k], err);
        k++;
    }
    return rc;
}

int ctr_groupsave_rows(struct ctr_groupsave *s, const struct ctr_col *key, int64_t at, struct ctr_groupstate *const *of,
                       const int64_t *number, int64_t n, const struct ctr_batch **out, struct ctr_err *err)
{
    int rc = 0;
    ctr_batchbuf_clear(&s->rows);
    for (int k = 0; !rc && k < s->keys; k++)
        rc = ctr_colbuf_range(&s->rows.col[k], &key[k], at, n, err);
    for (int64_t i = 0; !rc && i < n; i++) {
        rc = save_words(s, of[i], number[i], err);
        if (!rc)
            rc = save_kept(s, of[i], number[i], err);
    }
    *out = ctr_batchbuf_view(&s->rows);
    return rc;
}

int ctr_groupsave_check(const struct ctr_groupsave *s, int section, const struct ctr_schema *of, struct ctr_err *err)
{
    const char *is = ctr_meta_get(&of->meta, CTR_META_STATE), *want = ctr_meta_get(&s->schema.meta, CTR_META_STATE);
    char why[300] = "there are more sections";
    if (section && (section > s->nvalues || !ctr_schema_same_types(of, &s->valued[section - 1], why, sizeof why)))
        return ctr_fail(err, CTR_EDATA, "section %d is no part of a state: %s", section + 1, why);
    if (section)
        return 0;
    if (!is)
        return ctr_fail(err, CTR_EUSAGE, "is no state of ctr-group --state");
    if (strcmp(is, want) != 0)
        return ctr_fail(err, CTR_EUSAGE,
                        "is the state of other groups: %.300s there, %.300s here; a new file begins anew", is, want);
    if (!ctr_schema_same_types(of, &s->schema, why, sizeof why))
        return ctr_fail(err, CTR_EUSAGE, "is the state of groups by other keys: %s; a new file begins anew", why);
    return 0;
}

int ctr_groupsave_restore(const struct ctr_groupsave *s, struct ctr_groupstate *state, const struct ctr_batch *b,
                          const int32_t *row, const int64_t *number, int64_t n, struct ctr_err *err)
{
    const struct ctr_col *words = &b->col[s->keys];
    int rc = 0;
    for (int64_t i = 0; !rc && i < n; i++) {
        int64_t from = 0, to = 0;
        const struct ctr_col *item = ctr_col_items(words, s->stride, row[i], &from, &to);
        if (!item || to - from != s->stride || item->nulls)
            return ctr_fail(err, CTR_EDATA, "row %lld is no state", (long long)(b->first_row + row[i] + 1));
        int64_t *w = ctr_groupstate_of(state, number[i]);
        memcpy(w, (const int64_t *)item->data + from, (size_t)state->stride * sizeof *w);
        for (int a = 0; a < s->n; a++) {
            int64_t *of = w + s->agg[a].at;
            if (ctr_aggregate_counts(&s->agg[a]) && (of[0] < 0 || of[0] > INT64_MAX / 2))
                return ctr_fail(err, CTR_EDATA, "row %lld has a number that is no count",
                                (long long)(b->first_row + row[i] + 1));
            if (ctr_aggregate_ordered(&s->agg[a]))
                of[!ctr_aggregate_keeps(&s->agg[a])] = 0; /* the result */
        }
        for (int a = 0, k = s->keys + 1; !rc && a < s->n; a++) {
            if (!beside(s, a))
                continue;
            int64_t *word = &ctr_groupstate_of(state, number[i])[s->agg[a].at];
            if (*word) {
                rc = ctr_colbuf_range(&state->kept[a], &b->col[k], row[i], 1, err);
                *word = state->kept[a].rows;
            }
            k++;
        }
    }
    return rc;
}
