/* SPDX-License-Identifier: Apache-2.0
 *
 * groupsave: see groupsave.h. A value beside the words is saved as itself, and its word as 1; where the word is 0 there
 * is none. Invariant: a restored state goes on as the saved one would have, bit for bit. */
#include "common/rows/groupsave.h"

#include <stdlib.h>

static bool beside(const struct ctr_groupsave *s, int i)
{
    return ctr_aggregate_keeps(&s->agg[i]);
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

int ctr_groupsave_init(struct ctr_groupsave *s, const struct ctr_schema *keys, const struct ctr_aggregate *agg, int n,
                       int stride, struct ctr_err *err)
{
    int rc = 0;
    *s = (struct ctr_groupsave){ .agg = agg, .n = n, .keys = keys->n, .stride = CTR_MAX(stride, 1) };
    for (int i = 0; !rc && i < n; i++)
        if (ctr_aggregate_ordered(&agg[i]))
            rc = ctr_fail(err, CTR_EUSAGE,
                          "--state: %s(%s) needs all values of the days before; count, sum, mean, min, max, first and "
                          "last go on from a state",
                          ctr_aggregate_function(&agg[i]), agg[i].column_name);
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
    return rc ? rc : ctr_batchbuf_init(&s->rows, &s->schema, err);
}

void ctr_groupsave_free(struct ctr_groupsave *s)
{
    if (s->rows.col)
        ctr_batchbuf_free(&s->rows);
    ctr_schema_free(&s->schema);
}

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
    for (int i = 0; i < s->n; i++)
        if (beside(s, i))
            out[s->agg[i].at] = w[s->agg[i].at] != 0;
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

int ctr_groupsave_check(const struct ctr_groupsave *s, const struct ctr_schema *of, struct ctr_err *err)
{
    const char *is = ctr_meta_get(&of->meta, CTR_META_STATE), *want = ctr_meta_get(&s->schema.meta, CTR_META_STATE);
    char why[300];
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
