/* SPDX-License-Identifier: Apache-2.0
 *
 * joinblocks: joins a partition of the spilled join in which a few keys have more right rows than fit into memory. The
 * right rows are divided into blocks that fit, and the left rows are matched with each block. With --multi the right
 * rows are sorted by key, and a block has the first rows of as many keys as fit (joingroup.c). With a time, blocks are
 * made from the right rows in time order and visited from the nearest on (AS_OF: the latest first; NEXT: the earliest
 * first), so that the first match is the right one. A last pass outputs the left rows without a match. */
#include "common/rows/joincore.h"

#include <stdlib.h>

/* ---- cutting the right side ---- */

static int copy_rows(struct ctr_join *j, struct ctr_merge *m, struct ctr_spill *to, bool cut, struct ctr_err *err)
{
    struct ctr_rowref refs[CTR_ROW_TILE];
    int rc = to->n ? 0 : ctr_spill_begin(to, err), n;

    while (!rc && (n = ctr_merge_next(m, refs, CTR_ROW_TILE, err)) != 0) {
        const struct ctr_run *run = &to->run[to->n - 1];
        if (n < 0)
            return n;
        if (cut && run->rows && ctr_joinpart_need(j, run->bytes, run->rows) > j->budget)
            rc = ctr_spill_begin(to, err);
        for (int i = 0; !rc && i < n; i++)
            rc = ctr_spill_row(to, refs[i].row, err);
    }
    return rc;
}

/* Sort each run of `from` in memory into `to`. */
static int sort_runs(struct ctr_join *j, const struct ctr_roworder *o, const struct ctr_spill *from,
                     struct ctr_spill *to, struct ctr_err *err)
{
    int rc = 0;

    for (int r = 0; !rc && r < from->n; r++) {
        int64_t n = from->run[r].rows, at = 0;
        struct ctr_rowref *a = malloc(((size_t)n + 1) * 2 * sizeof *a), *refs = a, *tmp = a ? a + n : NULL;
        uint8_t *bytes = malloc((size_t)from->run[r].bytes + 4);
        if (!a || !bytes)
            rc = ctr_fail_nomem(err, (size_t)from->run[r].bytes);
        else if (n)
            rc = ctr_pread_full(from->fd, bytes, (size_t)from->run[r].bytes, from->run[r].from, err);
        for (int64_t i = 0; rc >= 0 && i < n; at += ctr_row_size(bytes + at), i++)
            ctr_rowref_set(o, &refs[i], bytes + at);
        if (rc >= 0) {
            ctr_rowrefs_sort(o, &refs, &tmp, n);
            rc = ctr_spill_begin(to, err);
        }
        for (int64_t i = 0; !rc && i < n; i++)
            rc = ctr_spill_row(to, refs[i].row, err);
        free(a);
        free(bytes);
    }
    (void)j;
    return rc ? rc : ctr_spill_flush(to, err);
}

static int merge_runs(struct ctr_join *j, const struct ctr_roworder *o, const struct ctr_spill *from,
                      struct ctr_spill *to, bool cut, struct ctr_err *err)
{
    struct ctr_merge_source *src = calloc((size_t)from->n + 1, sizeof *src);
    struct ctr_merge *m = NULL;
    int rc = src ? 0 : ctr_fail_nomem(err, (size_t)from->n * sizeof *src);

    for (int i = 0; !rc && i < from->n; i++)
        src[i] = (struct ctr_merge_source){ from->fd, from->run[i] };
    if (!rc)
        rc = ctr_merge_open(&m, o, src, from->n, (size_t)CTR_MIN(j->budget / (from->n + 2), 1 << 20), err);
    if (!rc)
        rc = copy_rows(j, m, to, cut, err);
    ctr_merge_free(m);
    free(src);
    return rc;
}

/* Sort the right rows by time into runs of *to that are blocks; or by key into one run. */
static int cut_blocks(struct ctr_join *j, const struct ctr_spill *right, struct ctr_spill *to, struct ctr_err *err)
{
    const bool by_time = j->rtime >= 0;
    struct ctr_rowkey *key = calloc((size_t)j->npairs + 1, sizeof *key);
    struct ctr_roworder order = { .format = &j->format, .key = key, .n = by_time ? 1 : j->npairs, .exact = by_time };
    struct ctr_spill plain, sorted;
    struct ctr_merge *m = NULL;
    int rc = key ? ctr_joinpart_open_run(j->part, right, 0, &m, err) : ctr_fail_nomem(err, sizeof *key);

    for (int k = 0; !rc && k < order.n; k++)
        key[k].col = by_time ? j->rtime : j->right_key[k];
    ctr_spill_init(&plain, j->part->buf_bytes);
    ctr_spill_init(&sorted, j->part->buf_bytes);
    if (!rc)
        rc = copy_rows(j, m, &plain, true, err);
    if (!rc)
        rc = ctr_spill_flush(&plain, err);
    if (!rc)
        rc = sort_runs(j, &order, &plain, &sorted, err);
    if (!rc)
        rc = ctr_spill_begin(to, err);
    if (!rc)
        rc = merge_runs(j, &order, &sorted, to, by_time, err);
    ctr_merge_free(m);
    free(key);
    ctr_spill_free(&plain);
    ctr_spill_free(&sorted);
    return rc ? rc : ctr_spill_flush(to, err);
}

/* ---- passing the left side by ---- */

/* Keep the matches of a left batch with the current block, leaving out rows that earlier blocks matched. */
void ctr_joinblocks_matched(struct ctr_join *j)
{
    struct ctr_joinpart *p = j->part;

    for (int64_t i = 0; i < j->b->rows; i++) {
        int64_t row = p->seen_row + i;
        bool seen = ctr_bit(p->seen.data, row);
        j->skip[i] = p->last ? seen : !j->head[i] || (j->rtime >= 0 && seen);
        if (!p->last && j->head[i])
            p->seen.data[row >> 3] |= (uint8_t)(1 << (row & 7));
        if (!p->last && !j->skip[i])
            (void)ctr_jointable_mark(&j->head[i], 1);
        if (!p->last && j->opts.kind == CTR_JOIN_ANTI)
            j->skip[i] = 1;
    }
    p->seen_row += j->b->rows;
}

static int pass(struct ctr_join *j, const struct ctr_spill *left, const struct ctr_spill *blocks, int block,
                struct ctr_err *err)
{
    struct ctr_joinpart *p = j->part;
    int rc;

    p->last = block < 0;
    p->seen_row = 0;
    if (p->last) { /* an empty table */
        ctr_jointable_init(&j->table, j);
        rc = ctr_jointable_build(&j->table, j, err);
        p->group.len = 0;
    } else if (j->opts.multi) {
        rc = ctr_joingroup_load(j, err);
    } else {
        rc = ctr_joinpart_load(j, blocks, block, err);
    }
    if (!rc)
        rc = ctr_spill_begin(&p->result, err);
    if (!rc)
        rc = ctr_joinpart_left_run(j, left, err);
    if (!rc)
        j->stats.right_unmatched += j->opts.multi ? -ctr_joingroup_matched(j) : ctr_jointable_unmatched(&j->table);
    ctr_jointable_free(&j->table);
    return rc;
}

static int all_passes(struct ctr_join *j, const struct ctr_spill *left, const struct ctr_spill *blocks,
                      struct ctr_err *err)
{
    int rc = 0;

    while (!rc && ctr_joingroup_more(j->part))
        rc = pass(j, left, blocks, 0, err);
    for (int i = 0; !rc && i < blocks->n; i++)
        rc = pass(j, left, blocks, j->opts.at == CTR_JOIN_AS_OF ? blocks->n - 1 - i : i, err);
    if (!rc && j->opts.kind != CTR_JOIN_INNER)
        rc = pass(j, left, blocks, -1, err);
    return rc;
}

int ctr_joinblocks(struct ctr_join *j, const struct ctr_spill *left, const struct ctr_spill *right, struct ctr_err *err)
{
    struct ctr_joinpart *p = j->part;
    struct ctr_join_stats before = j->stats;
    int64_t rows = left->run[0].rows;
    size_t bytes = (size_t)(rows + 7) / 8;
    struct ctr_spill blocks;
    int rc = ctr_buf_reserve(&p->seen, bytes + 1, err);

    ctr_spill_init(&blocks, p->buf_bytes);
    j->skip = rc ? NULL : malloc(CTR_BATCH_ROWS);
    if (!rc && !j->skip)
        rc = ctr_fail_nomem(err, CTR_BATCH_ROWS);
    if (!rc) {
        memset(p->seen.data, 0, bytes + 1);
        rc = cut_blocks(j, right, j->opts.multi ? &p->groups : &blocks, err);
    }
    if (!rc && j->opts.multi) {
        j->stats.right_unmatched += right->run[0].rows;
        rc = ctr_joingroup_open(j, err);
    }
    if (!rc)
        rc = all_passes(j, left, &blocks, err);
    before.right_unmatched = j->stats.right_unmatched;
    j->stats = before;
    j->stats.left_rows += rows;
    for (size_t i = 0; !rc && i < bytes; i++)
        j->stats.matched += __builtin_popcount(p->seen.data[i]);
    j->stats.unmatched = j->stats.left_rows - j->stats.matched;
    free(j->skip);
    j->skip = NULL;
    ctr_buf_free(&p->seen);
    ctr_joingroup_close(p);
    ctr_spill_free(&blocks);
    return rc;
}
