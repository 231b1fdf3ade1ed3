/* SPDX-License-Identifier: Apache-2.0
 *
 * Common code of all kinds of comm: every operation is a swap. See comm.h. */
#include "common/compute/comm_impl.h"

#include <stdlib.h>

const char *const ctr_comm_kind_name[CTR_COMM_KINDS] = {
    [CTR_COMM_CONTROL] = "control",
    [CTR_COMM_IDS] = "ids",
    [CTR_COMM_IMAGES] = "image keys",
    [CTR_COMM_VECTORS] = "vectors",
    [CTR_COMM_GRADIENTS] = "gradients",
    [CTR_COMM_IMAGE_VECTORS] = "image vectors",
    [CTR_COMM_IMAGE_GRADIENTS] = "image gradients",
    [CTR_COMM_SYNC] = "dense gradients",
    [CTR_COMM_SYNC_TOWER] = "tower gradients",
};

enum { LIMIT_S = 20 };

double ctr_comm_limit_s(void)
{
    const char *text = getenv("CTR_RANKS_LIMIT");
    double s;
    return text && ctr_parse_f64(text, strlen(text), &s) && s > 0 ? s : LIMIT_S;
}

int ctr_comm_init(struct ctr_comm *c, const struct ctr_comm_ops *ops, int rank, int size, struct ctr_err *err)
{
    *c = (struct ctr_comm){ .ops = ops, .rank = rank, .size = size };
    c->out = calloc((size_t)size, sizeof *c->out);
    c->in = calloc((size_t)size, sizeof *c->in);
    c->in_n = calloc((size_t)size, sizeof *c->in_n);
    if (c->out && c->in && c->in_n)
        return 0;
    free(c->out);
    free(c->in);
    free(c->in_n);
    return ctr_fail_nomem(err, (size_t)size * (sizeof *c->out + sizeof *c->in + sizeof *c->in_n));
}

void ctr_comm_free(struct ctr_comm *c)
{
    if (!c)
        return;
    ctr_background_free(c->thread);
    for (int i = 0; i < c->size; i++)
        ctr_buf_free(&c->in[i]);
    free(c->in);
    free(c->out);
    free(c->in_n);
    c->ops->free(c, c->failed);
}

int ctr_comm_rank(const struct ctr_comm *c)
{
    return c ? c->rank : 0;
}

int ctr_comm_size(const struct ctr_comm *c)
{
    return c ? c->size : 1;
}

int ctr_comm_local(const struct ctr_comm *c)
{
    return c ? c->local : 0;
}

const struct ctr_comm_bytes *ctr_comm_bytes(const struct ctr_comm *c)
{
    return &c->bytes;
}

void ctr_comm_recount_since(struct ctr_comm *c, const struct ctr_comm_bytes *before, enum ctr_comm_kind kind)
{
    struct ctr_comm_bytes more = { .all = { 0 } };
    for (int k = 0; k < CTR_COMM_KINDS; k++) {
        more.all[kind] += c->bytes.all[k] - before->all[k];
        more.away[kind] += c->bytes.away[k] - before->away[k];
    }
    c->bytes = *before;
    c->bytes.all[kind] += more.all[kind];
    c->bytes.away[kind] += more.away[kind];
}

void ctr_comm_recount(struct ctr_comm *c, enum ctr_comm_kind from, enum ctr_comm_kind to, int64_t bytes)
{
    if (!c)
        return;
    c->bytes.all[from] -= bytes * c->size;
    c->bytes.all[to] += bytes * c->size;
    c->bytes.away[from] -= bytes * (c->size - 1);
    c->bytes.away[to] += bytes * (c->size - 1);
}

void ctr_comm_abort(struct ctr_comm *c, const char *why)
{
    if (c)
        c->ops->abort(c, why);
}

static _Thread_local bool in_comm_thread;

static void run_call(void *arg)
{
    const struct ctr_comm_call *call = arg;
    in_comm_thread = true;
    call->fn(call->ctx);
}

void ctr_comm_wait(struct ctr_comm *c)
{
    if (!c || !c->runs || in_comm_thread)
        return;
    ctr_background_wait(c->thread, -1);
    c->runs = false;
}

void ctr_comm_run(struct ctr_comm *c, void (*fn)(void *ctx), void *ctx)
{
    ctr_comm_wait(c);
    if (!c->thread)
        c->thread = ctr_background_new();
    if (!c->thread) {
        fn(ctx);
        return;
    }
    c->call = (struct ctr_comm_call){ fn, ctx };
    c->runs = true;
    ctr_background_run(c->thread, run_call, &c->call);
}

void ctr_comm_count(struct ctr_comm *c, enum ctr_comm_kind kind, int to, int64_t bytes)
{
    c->bytes.all[kind] += bytes;
    c->bytes.away[kind] += to == c->rank ? 0 : bytes;
}

int ctr_comm_swap_known(struct ctr_comm *c, enum ctr_comm_kind kind, const struct ctr_comm_part *out,
                        struct ctr_buf *in, const int64_t *in_n, struct ctr_err *err)
{
    const int rank = ctr_comm_rank(c), size = ctr_comm_size(c);
    ctr_comm_wait(c);
    for (int i = 0; i < size; i++)
        ctr_buf_clear(&in[i]);
    int rc = ctr_buf_append(&in[rank], out[rank].p, out[rank].n, err);
    if (!c)
        return rc;
    for (int i = 0; i < size; i++)
        ctr_comm_count(c, kind, i, (int64_t)out[i].n);
    if (!rc && size > 1)
        rc = c->ops->swap(c, out, in, in_n, err);
    c->failed |= rc < 0;
    return rc;
}

int ctr_comm_swap(struct ctr_comm *c, enum ctr_comm_kind kind, const struct ctr_comm_part *out, struct ctr_buf *in,
                  struct ctr_err *err)
{
    return ctr_comm_swap_known(c, kind, out, in, NULL, err);
}

int ctr_comm_gather(struct ctr_comm *c, enum ctr_comm_kind kind, const void *p, size_t n, struct ctr_buf *in,
                    struct ctr_err *err)
{
    if (!c)
        return ctr_comm_swap(c, kind, &(struct ctr_comm_part){ p, n }, in, err);
    ctr_comm_wait(c);
    for (int i = 0; i < c->size; i++)
        c->out[i] = (struct ctr_comm_part){ p, n };
    return ctr_comm_swap(c, kind, c->out, in, err);
}

int ctr_comm_gather_new(struct ctr_comm *c, enum ctr_comm_kind kind, const void *p, size_t n, struct ctr_buf **in,
                        struct ctr_err *err)
{
    const size_t size = (size_t)ctr_comm_size(c);
    *in = calloc(size, sizeof **in);
    return *in ? ctr_comm_gather(c, kind, p, n, *in, err) : ctr_fail_nomem(err, size * sizeof **in);
}

void ctr_comm_gather_free(const struct ctr_comm *c, struct ctr_buf *in)
{
    for (int r = 0; in && r < ctr_comm_size(c); r++)
        ctr_buf_free(&in[r]);
    free(in);
}

/* Rank i sums part [first(i), first(i + 1)) of v and sends it to the others. */
int64_t ctr_comm_first(const struct ctr_comm *c, int64_t n, int i)
{
    return n / c->size * i + CTR_MIN((int64_t)i, n % c->size);
}

int ctr_comm_sum(struct ctr_comm *c, enum ctr_comm_kind kind, float *v, int64_t n, struct ctr_err *err)
{
    if (!c || c->size == 1)
        return 0;
    const int64_t from = ctr_comm_first(c, n, c->rank), mine = ctr_comm_first(c, n, c->rank + 1) - from;
    ctr_comm_wait(c);
    for (int i = 0; i < c->size; i++) {
        const int64_t at = ctr_comm_first(c, n, i);
        c->out[i] = (struct ctr_comm_part){ v + at, (size_t)(ctr_comm_first(c, n, i + 1) - at) * sizeof *v };
        c->in_n[i] = mine * (int64_t)sizeof *v;
    }
    int rc = ctr_comm_swap_known(c, kind, c->out, c->in, c->in_n, err);
    if (rc)
        return rc;
    for (int64_t i = 0; i < mine; i++) {
        float sum = ((const float *)(void *)c->in[0].data)[i];
        for (int r = 1; r < c->size; r++)
            sum += ((const float *)(void *)c->in[r].data)[i];
        v[from + i] = sum;
    }
    for (int i = 0; i < c->size; i++) {
        c->in_n[i] = (int64_t)c->out[i].n;
        c->out[i] = (struct ctr_comm_part){ v + from, (size_t)mine * sizeof *v };
    }
    rc = ctr_comm_swap_known(c, kind, c->out, c->in, c->in_n, err);
    for (int i = 0; i < c->size && !rc; i++)
        if (c->in[i].len)
            memcpy(v + ctr_comm_first(c, n, i), c->in[i].data, c->in[i].len);
    return rc;
}

int ctr_comm_sum_i64(struct ctr_comm *c, int64_t *v, int n, struct ctr_err *err)
{
    if (!c || c->size == 1)
        return 0;
    ctr_comm_wait(c);
    for (int i = 0; i < c->size; i++) {
        c->in_n[i] = n * (int64_t)sizeof *v;
        c->out[i] = (struct ctr_comm_part){ v, (size_t)n * sizeof *v };
    }
    int rc = ctr_comm_swap_known(c, CTR_COMM_CONTROL, c->out, c->in, c->in_n, err);
    for (int i = 0; i < n && !rc; i++) {
        v[i] = 0;
        for (int r = 0; r < c->size; r++)
            v[i] += ((const int64_t *)(void *)c->in[r].data)[i];
    }
    return rc;
}

int ctr_comm_broadcast(struct ctr_comm *c, int root, void *p, size_t n, struct ctr_err *err)
{
    if (!c || c->size == 1)
        return 0;
    ctr_comm_wait(c);
    for (int i = 0; i < c->size; i++) {
        c->in_n[i] = i == root ? (int64_t)n : 0;
        c->out[i] = (struct ctr_comm_part){ p, c->rank == root ? n : 0 };
    }
    int rc = ctr_comm_swap_known(c, CTR_COMM_CONTROL, c->out, c->in, c->in_n, err);
    if (!rc && n)
        memcpy(p, c->in[root].data, n);
    return rc;
}

int ctr_comm_barrier(struct ctr_comm *c, struct ctr_err *err)
{
    return c ? ctr_comm_gather(c, CTR_COMM_CONTROL, "", 0, c->in, err) : 0;
}
