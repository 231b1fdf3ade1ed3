/* SPDX-License-Identifier: Apache-2.0
 *
 * Merges the rows of all ranks in ascending order of keys: see merge_ranks.h. Rank 0 requests the other ranks' rows in
 * pieces and merges them with its own as these come. The other ranks prepare a piece and wait until it is requested; an
 * empty piece marks the end. */
#include "common/table/merge_ranks.h"

#include <stdlib.h>

enum { PIECE_BYTES = 1 << 20 };
enum { WAIT, SEND, END };

struct merge {
    struct ctr_comm *comm;
    int ranks;
    size_t row; /* bytes: key, row */
    ctr_merge_row *each;
    void *ctx;
    struct ctr_buf mine;   /* ranks other than 0: the piece */
    struct ctr_buf *there; /* rank 0: pieces of the others */
    size_t *at;            /* position in each of them */
    bool *ended, *ask;
    struct ctr_comm_part *out; /* [ranks] */
    struct ctr_buf *in;        /* [ranks] */
    char *word;                /* [ranks] */
};

static int bad_message(int rank, struct ctr_err *err)
{
    return ctr_fail(err, CTR_EDATA, "rank %d sent rows of another shape: do all ranks run the same program?", rank);
}

/* A round: rank 0 sends each rank a command, and the ranks asked send their piece. Returns the command to this rank. */
static int round_of(struct merge *m, bool end, struct ctr_err *err)
{
    for (int r = 0; r < m->ranks; r++) {
        m->word[r] = end ? END : m->ask[r] ? SEND : WAIT;
        m->out[r] = (struct ctr_comm_part){ &m->word[r], 1 };
    }
    int rc = ctr_comm_swap(m->comm, CTR_COMM_CONTROL, m->out, m->in, err);
    if (!rc && m->in[0].len != 1)
        rc = bad_message(0, err);
    if (rc)
        return rc;
    const int told = m->in[0].data[0];
    if (told == END)
        return told;
    for (int r = 0; r < m->ranks; r++)
        m->out[r] = (struct ctr_comm_part){ NULL, 0 };
    if (told == SEND)
        m->out[0] = (struct ctr_comm_part){ m->mine.data, m->mine.len };
    rc = ctr_comm_swap(m->comm, CTR_COMM_CONTROL, m->out, m->in, err);
    return rc ? rc : told;
}

/* A rank other than 0 has a piece or, if empty, no more rows. */
static int offer(struct merge *m, struct ctr_err *err)
{
    int told = WAIT;
    while (told == WAIT)
        told = round_of(m, false, err);
    ctr_buf_clear(&m->mine);
    return CTR_MIN(told, 0);
}

/* It takes part until no rank has rows left. */
static int end_offers(struct merge *m, struct ctr_err *err)
{
    int told = m->mine.len ? offer(m, err) : WAIT;
    while (told >= 0 && told != END)
        told = round_of(m, false, err);
    return CTR_MIN(told, 0);
}

static int add_row_of_rank(void *ctx, uint64_t key, const void *row, struct ctr_err *err)
{
    struct merge *m = ctx;
    int rc = ctr_buf_append(&m->mine, &key, sizeof key, err);
    if (!rc)
        rc = ctr_buf_append(&m->mine, row, m->row - sizeof key, err);
    return rc || m->mine.len < PIECE_BYTES ? rc : offer(m, err);
}

/* Rank 0: ensure that a row of every other rank is present, or that the rank has none left. */
static int refill(struct merge *m, struct ctr_err *err)
{
    bool any = false;
    for (int r = 1; r < m->ranks; r++)
        any |= m->ask[r] = !m->ended[r] && m->at[r] == m->there[r].len;
    int rc = any ? CTR_MIN(round_of(m, false, err), 0) : 0;
    for (int r = 1; r < m->ranks && any && !rc; r++) {
        if (!m->ask[r])
            continue;
        ctr_buf_clear(&m->there[r]);
        m->at[r] = 0;
        m->ended[r] = !m->in[r].len;
        rc = m->in[r].len % m->row ? bad_message(r, err)
                                   : ctr_buf_append(&m->there[r], m->in[r].data, m->in[r].len, err);
    }
    return rc;
}

/* Output the rows of other ranks with keys below `bound`; all without a bound. */
static int merge_to(struct merge *m, const uint64_t *bound, struct ctr_err *err)
{
    int rc = refill(m, err);
    while (!rc) {
        uint64_t least = 0;
        int from = 0;
        for (int r = 1; r < m->ranks; r++) {
            uint64_t key;
            if (m->ended[r])
                continue;
            memcpy(&key, m->there[r].data + m->at[r], sizeof key);
            if (!from || key < least) {
                from = r;
                least = key;
            }
        }
        if (!from || (bound && least > *bound))
            break;
        rc = m->each(m->ctx, least, m->there[from].data + m->at[from] + sizeof least, err);
        m->at[from] += m->row;
        if (!rc && m->at[from] == m->there[from].len)
            rc = refill(m, err);
    }
    return rc;
}

static int merge_row(void *ctx, uint64_t key, const void *row, struct ctr_err *err)
{
    struct merge *m = ctx;
    int rc = merge_to(m, &key, err);
    return rc ? rc : m->each(m->ctx, key, row, err);
}

static int merge_all(struct merge *m, ctr_merge_own *own, void *own_ctx, struct ctr_err *err)
{
    if (ctr_comm_rank(m->comm)) {
        int rc = own(own_ctx, add_row_of_rank, m, err);
        return rc ? rc : end_offers(m, err);
    }
    int rc = own(own_ctx, merge_row, m, err);
    if (!rc)
        rc = merge_to(m, NULL, err);
    return rc ? rc : CTR_MIN(round_of(m, true, err), 0);
}

int ctr_merge_ranks(struct ctr_comm *comm, size_t row_bytes, ctr_merge_own *own, void *own_ctx, ctr_merge_row *each,
                    void *ctx, struct ctr_err *err)
{
    const size_t n = (size_t)ctr_comm_size(comm);
    struct merge m = { .comm = comm,
                       .ranks = (int)n,
                       .row = sizeof(uint64_t) + row_bytes,
                       .each = each,
                       .ctx = ctx,
                       .there = calloc(n, sizeof *m.there),
                       .at = calloc(n, sizeof *m.at),
                       .ended = calloc(n, sizeof *m.ended),
                       .ask = calloc(n, sizeof *m.ask),
                       .out = calloc(n, sizeof *m.out),
                       .in = calloc(n, sizeof *m.in),
                       .word = calloc(n, sizeof *m.word) };
    const bool whole = m.there && m.at && m.ended && m.ask && m.out && m.in && m.word;
    int rc = whole ? merge_all(&m, own, own_ctx, err) : ctr_fail_nomem(err, n * sizeof *m.there);
    for (size_t r = 0; r < n; r++) {
        if (m.there)
            ctr_buf_free(&m.there[r]);
        if (m.in)
            ctr_buf_free(&m.in[r]);
    }
    ctr_buf_free(&m.mine);
    free(m.there);
    free(m.at);
    free(m.ended);
    free(m.ask);
    free(m.out);
    free(m.in);
    free(m.word);
    return rc;
}
