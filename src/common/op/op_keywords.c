/* SPDX-License-Identifier: Apache-2.0
 *
 * op_keywords: keyword extraction ("FeatureBox", 3.2) by tf-idf with fitted document frequencies. A document is a list;
 * a vocabulary counts the lists that contain a term. Invariant: the order of a result depends only on its list and the
 * counts; among equal scores the term that occurs first in the list is first. */
#include "common/op/opfit.h"

#include <stdlib.h>

struct keywords {
    struct vocab *terms; /* count: lists with the term */
    int64_t k;
    uint64_t documents;
    struct ctr_buf in;  /* in fitting, uint64_t per entry: the last list with it, counted from 1 */
    struct ctr_buf idf; /* double per entry */
};

static void keywords_free(void *p)
{
    struct keywords *w = p;
    if (w->terms)
        ctr_vocab_free(w->terms);
    ctr_buf_free(&w->in);
    ctr_buf_free(&w->idf);
    free(w);
}

int ctr_keywords_prepare(struct ctr_op_call *call, struct ctr_op_state *s, struct ctr_err *err)
{
    const struct ctr_value *k = s->named[0], *min = s->named[1];
    struct keywords *w = calloc(1, sizeof *w);
    (void)call;
    if (!w)
        return ctr_fail_nomem(err, sizeof *w);
    s->param = w;
    s->param_free = keywords_free;
    if (!k || k->kind != CTR_V_INT || k->i < 1)
        return ctr_fail(err, CTR_EUSAGE, "keywords wants k, how many terms to keep: keywords(words(title), k=3)");
    if (min && (min->kind != CTR_V_INT || min->i < 1))
        return ctr_fail(err, CTR_EUSAGE, "keywords wants an integer of at least 1 for min");
    w->k = k->i;
    int rc = ctr_vocab_new(&w->terms, err);
    if (!rc && min)
        w->terms->min = min->i;
    return rc;
}

/* ---- fitting ---- */

static int count_term(struct keywords *w, struct opv_str text, struct ctr_err *err)
{
    int64_t entry;
    int rc = ctr_vocab_add(w->terms, ctr_text_key(text.p, text.n, 0), text, 0, &entry, err);
    const size_t need = ((size_t)entry + 1) * sizeof(uint64_t);
    if (!rc && w->in.len < need) {
        const uint64_t none = 0;
        rc = ctr_buf_append(&w->in, &none, sizeof none, err);
    }
    if (rc)
        return rc;
    uint64_t *last = (uint64_t *)(void *)w->in.data + entry;
    w->terms->entry[entry].count += *last != w->documents;
    *last = w->documents;
    return 0;
}

static int keywords_tile(void *state, struct ctr_op_tile *t, struct ctr_err *err)
{
    struct keywords *w = state;
    const struct ctr_op_in *in = &t->in[0];
    int rc = 0;
    for (int i = 0; i < t->n; i++) {
        w->documents += t->ok[i];
        for (int64_t k = in->span[i].from; !rc && t->ok[i] && k < in->span[i].to; k++)
            if (in->item_ok[k])
                rc = count_term(w, ((const struct opv_str *)in->item)[k], err);
    }
    return rc;
}

static int set_idf(struct keywords *w, struct ctr_err *err)
{
    ctr_buf_clear(&w->idf);
    int rc = ctr_buf_reserve(&w->idf, ((size_t)w->terms->n + 1) * sizeof(double), err);
    for (int64_t i = 0; !rc && i < w->terms->n; i++)
        ((double *)(void *)w->idf.data)[i] =
            ctr_log((1.0 + (double)w->documents) / (1.0 + (double)w->terms->entry[i].count)) + 1.0;
    return rc;
}

static int keywords_finish(void *state, struct ctr_err *err)
{
    struct keywords *w = state;
    int rc = ctr_vocab_finish(w->terms, err);
    ctr_buf_free(&w->in);
    return rc ? rc : set_idf(w, err);
}

static int64_t keywords_memory(const void *state)
{
    const struct keywords *w = state;
    return ctr_vocab_memory(w->terms) + (int64_t)(w->in.cap + w->idf.cap);
}

/* ---- the section: a vocabulary, and the number of lists beside each term ---- */

static int keywords_save(const void *state, struct ctr_batchbuf *rows, struct ctr_err *err)
{
    const struct keywords *w = state;
    int rc = ctr_vocab_save(w->terms, rows, err);
    for (int64_t i = 0; !rc && i < w->terms->n; i++)
        rc = ctr_colbuf_i64(&rows->col[3], (int64_t)w->documents, err);
    return rc;
}

static int keywords_load(void *state, const struct ctr_batch *b, struct ctr_err *err)
{
    struct keywords *w = state;
    for (int64_t i = 0; i < b->rows; i++) {
        const uint64_t lists = (uint64_t)ctr_col_i64(&b->col[3], i), with = (uint64_t)ctr_col_i64(&b->col[2], i);
        if (ctr_col_missing(&b->col[3], i) || with > lists || (w->documents && lists != w->documents))
            return ctr_fail(err, CTR_EDATA,
                            "row %lld of fitted keywords: the number of lists is not that of the others",
                            (long long)(b->first_row + i + 1));
        w->documents = lists;
    }
    int rc = ctr_vocab_load(w->terms, b, err);
    return rc ? rc : set_idf(w, err);
}

static const struct ctr_fitted_column columns[] = {
    { "key", CTR_U64 }, { "name", CTR_UTF8 }, { "count", CTR_U64 }, { "lists", CTR_U64 }
};
const struct ctr_fitted ctr_fitted_keywords = {
    keywords_tile, keywords_finish, keywords_memory, columns, 4, keywords_save, keywords_load,
};

/* ---- running ---- */

struct term {
    int64_t entry, at; /* at: the item of its first occurrence */
    double score;
};

static int by_entry(const void *pa, const void *pb)
{
    const struct term *a = pa, *b = pb;
    return a->entry != b->entry ? opv_cmp_i(a->entry, b->entry) : opv_cmp_i(a->at, b->at);
}

static int by_score(const void *pa, const void *pb)
{
    const struct term *a = pa, *b = pb;
    return a->score != b->score ? (a->score < b->score) - (a->score > b->score) : opv_cmp_i(a->at, b->at);
}

/* The terms of a list, highest score first; returns their number, at most k. */
static int64_t score_terms(const struct keywords *w, const struct ctr_op_in *in, struct opv_span a, struct term *term)
{
    const double *idf = (const void *)w->idf.data;
    int64_t n = 0, kept = 0;
    for (int64_t i = a.from; i < a.to; i++) {
        const int64_t entry = in->item_ok[i] ? ctr_vocab_find(w->terms, ((const struct opv_str *)in->item)[i]) : -1;
        if (entry >= 0)
            term[n++] = (struct term){ entry, i, 0 };
    }
    if (n)
        qsort(term, (size_t)n, sizeof *term, by_entry);
    for (int64_t i = 0, from; i < n;) {
        for (from = i; i < n && term[i].entry == term[from].entry;)
            i++;
        term[kept++] = (struct term){ term[from].entry, term[from].at, (double)(i - from) * idf[term[from].entry] };
    }
    if (kept)
        qsort(term, (size_t)kept, sizeof *term, by_score);
    return CTR_MIN(kept, w->k);
}

/* Reserve room for the results of a tile, and for the terms of its longest list. */
static int reserve(const struct ctr_op_tile *t, const struct keywords *w, struct term **term, struct ctr_err *err)
{
    const struct ctr_op_in *in = &t->in[0];
    int64_t items = 0, bytes = 0, longest = 0;
    for (int i = 0; i < t->n; i++) {
        const struct opv_span a = in->span[i];
        if (!t->ok[i])
            continue;
        longest = CTR_MAX(longest, a.to - a.from);
        items += CTR_MIN(a.to - a.from, w->k);
        for (int64_t k = a.from; k < a.to; k++)
            bytes += in->item_ok[k] ? ((const struct opv_str *)in->item)[k].n : 0;
    }
    if (!(*term = malloc(((size_t)longest + 1) * sizeof **term)))
        return ctr_fail_nomem(err, (size_t)longest * sizeof **term);
    int rc = ctr_op_reserve_items(t->buf, t->n, items, t->limit_bytes, err);
    return rc ? rc : ctr_op_reserve_text(t->buf->item, items, bytes, t->limit_bytes, err);
}

int ctr_keywords_loop(struct ctr_op_tile *t, struct ctr_err *err)
{
    const struct keywords *w = t->param;
    const struct opv_str *item = t->in[0].item;
    struct ctr_colbuf *b = t->buf->item;
    struct term *term = NULL;
    int rc = reserve(t, w, &term, err);
    int32_t *end = rc ? NULL : (int32_t *)(void *)(t->buf->offsets.data + t->buf->offsets.len);
    for (int i = 0; !rc && i < t->n; i++) {
        const int64_t n = t->ok[i] ? score_terms(w, &t->in[0], t->in[0].span[i], term) : 0;
        struct opv_sink s = { b->data.data, (int64_t)b->data.len, (int32_t *)(void *)b->offsets.data + 1, NULL,
                              b->rows };
        for (int64_t k = 0; k < n; k++) {
            opv_put(&s, item[term[k].at].p, item[term[k].at].n);
            opv_end_item(&s);
        }
        b->data.len = (size_t)s.n;
        b->offsets.len = (size_t)(s.items + 1) * sizeof(int32_t);
        b->rows += n;
        end[i] = (int32_t)b->rows;
    }
    if (!rc)
        t->buf->offsets.len += (size_t)t->n * sizeof *end;
    free(term);
    return rc;
}
