/* SPDX-License-Identifier: Apache-2.0
 *
 * serve_requests: which rows of a stream are one request. The columns of the plan's role query tell, else those of the
 * user that the server knows: the key of --users and what the tower of --prerank reads. Where the stream has none of
 * them, all of it is one request. Pre-rank and ranking both ask here. */
#include "tools/ctr-serve/serve_prerank.h"

#include <stdlib.h>

void serve_requests_free(struct serve_requests *r)
{
    ctr_buf_free(&r->first);
    ctr_index_free(&r->index);
}

static bool of_user(const struct serve_generation *g, int k)
{
    return (g->users && k == g->user_key) || serve_prerank_reads(g, k);
}

bool serve_requests_differ(const struct serve_generation *g, const int *at)
{
    bool some = g->query.n > 0;
    for (int k = 0; k < g->schema.n && !some; k++)
        some = at[k] >= 0 && of_user(g, k);
    return some;
}

static int find_columns(const struct serve_generation *g, const struct ctr_batch *b, const int *at, int *column, int *n,
                        struct ctr_err *err)
{
    for (int i = 0; i < g->query.n; i++) {
        const int k = ctr_schema_need(b->schema, g->query.s[i], err);
        if (k < 0)
            return k;
        column[(*n)++] = k;
    }
    for (int k = 0; k < g->schema.n && !g->query.n; k++)
        if (at[k] >= 0 && of_user(g, k))
            column[(*n)++] = at[k];
    return 0;
}

static bool same_request(const struct ctr_batch *b, const int *column, int n, int64_t i, int64_t k)
{
    while (n && !ctr_col_compare(&b->col[column[n - 1]], i, &b->col[column[n - 1]], k))
        n--;
    return !n;
}

/* The first row of the request of row i. */
static int first_row(struct serve_requests *r, const struct ctr_batch *b, const int *column, int n, int64_t i,
                     int64_t *first, struct ctr_err *err)
{
    uint64_t hash = ctr_hash_secret;
    for (int k = 0; k < n; k++)
        hash = ctr_col_hash(&b->col[column[k]], i, hash);
    const struct ctr_index_slot *s = ctr_index_find(&r->index, hash);
    while (s && !same_request(b, column, n, s->number, i))
        s = ctr_index_next(&r->index, s);
    *first = s ? s->number : i;
    return s ? 0 : ctr_index_add(&r->index, hash, (uint32_t)i, err);
}

int serve_requests_find(struct serve_requests *r, const struct serve_generation *g, const struct ctr_batch *b,
                        const int *at, const int64_t **first, struct ctr_err *err)
{
    int *column = calloc((size_t)(g->query.n + g->schema.n) + 1, sizeof *column), n = 0;
    int rc = column ? find_columns(g, b, at, column, &n, err) : ctr_fail_nomem(err, sizeof *column);
    ctr_buf_clear(&r->first);
    ctr_index_clear(&r->index);
    int64_t *of = ctr_buf_extend(&r->first, b->rows, sizeof *of, &rc, err);
    for (int64_t i = 0; i < b->rows && !rc; i++)
        rc = first_row(r, b, column, n, i, &of[i], err);
    free(column);
    *first = rc ? NULL : of;
    return rc;
}
