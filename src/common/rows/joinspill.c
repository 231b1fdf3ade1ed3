/* SPDX-License-Identifier: Apache-2.0
 *
 * joinspill: the join when the right side exceeds memory (a Grace hash join). Both sides are partitioned by the hash of
 * their keys into temporaries; each partition is joined in memory, and the results, which are in left row order within
 * a partition, are merged by left row number. Invariant: the result equals that of a join in memory.
 *
 * With --multi a result row ends with a struct ctr_joingroup that refers to its right rows.
 */
#include "common/rows/joincore.h"

#include <stdlib.h>

/* With 2 partitions instead of 16, left keys a b a c and right keys a c, memory for one right row:
 *
 *     while the right side is read, it outgrows memory: rows so far and all that follow go to their partition
 *         partition 0: right a          partition 1: right c
 *     each left row goes to the partition of its key, with its row number as tag
 *         partition 0: left 1a 3a       partition 1: left 2b 4c
 *     each partition is joined like a small join: its right rows into a table, its left rows past it in
 *     batches; results are written as rows with the left tag, a run per partition
 *         run 0: 1a+a 3a+a              run 1: 2b+null 4c+c
 *     the runs, each in order of tags, are merged: 1a+a 2b+null 3a+a 4c+c
 *
 * A partition that is still too large is divided again by other bits of the hash, at most MAX_LEVEL times. What hashing
 * cannot divide is few keys with many rows: an error of a join that wants each key once, and joinblocks.c's otherwise.
 * Results of --multi would repeat the right rows for each left row, on disk; they name a group instead, whose rows are
 * written once (joingroup.c). */
#define FAN       16
#define MAX_LEVEL 3

static int which(uint64_t hash, int level)
{
    return (int)(ctr_mix64(hash + (uint64_t)level * 0x9e3779b97f4a7c15u) % FAN);
}

static int push_fan(struct ctr_joinpart *p, int level, struct ctr_err *err)
{
    struct ctr_joinpair *pair = realloc(p->pair, ((size_t)p->n + FAN) * sizeof *pair);

    if (!pair)
        return ctr_fail_nomem(err, ((size_t)p->n + FAN) * sizeof *pair);
    p->pair = pair;
    for (int i = 0; i < FAN; i++) {
        struct ctr_joinpair *q = &p->pair[p->n++];
        int rc;
        q->level = level;
        ctr_spill_init(&q->left, p->buf_bytes);
        ctr_spill_init(&q->right, p->buf_bytes);
        if ((rc = ctr_spill_begin(&q->left, err)) || (rc = ctr_spill_begin(&q->right, err)))
            return rc;
    }
    return 0;
}

static void pair_free(struct ctr_joinpair *q)
{
    ctr_spill_free(&q->left);
    ctr_spill_free(&q->right);
}

void ctr_joinpart_free(struct ctr_joinpart *p)
{
    if (!p)
        return;
    ctr_merge_free(p->merge);
    for (int i = 0; i < p->n; i++)
        pair_free(&p->pair[i]);
    free(p->pair);
    ctr_spill_free(&p->result);
    ctr_spill_free(&p->groups);
    ctr_joingroup_close(p);
    ctr_buf_free(&p->group);
    ctr_buf_free(&p->window.buf);
    ctr_buf_free(&p->seen);
    ctr_rowarena_free(&p->scratch);
    ctr_rowformat_free(&p->lformat);
    ctr_rowformat_free(&p->oformat);
    if (p->lrows.schema)
        ctr_batchbuf_free(&p->lrows);
    if (p->rkeys.schema)
        ctr_batchbuf_free(&p->rkeys);
    if (p->out.schema)
        ctr_batchbuf_free(&p->out);
    ctr_schema_free(&p->oplain);
    free(p->tag);
    free(p);
}

/* Store left rows decoded from here on. */
static int decode_left(struct ctr_join *j, struct ctr_err *err)
{
    int rc = 0;

    for (int i = 0; !rc && i < j->left.n; i++) {
        j->left.f[i].dict = j->out.f[i].dict = false;
        ctr_colbuf_free(&j->lout.col[i]);
        rc = ctr_colbuf_init(&j->lout.col[i], &j->left.f[i], err);
    }
    return rc;
}

static int part_init(struct ctr_join *j, struct ctr_joinpart *p, struct ctr_err *err)
{
    int rc = decode_left(j, err);

    p->buf_bytes = (size_t)CTR_MAX(CTR_MIN(j->budget / (8 * FAN), 256 << 10), 1024);
    ctr_spill_init(&p->result, p->buf_bytes);
    ctr_spill_init(&p->groups, p->buf_bytes);
    ctr_rowarena_init(&p->scratch, 64 << 10);
    if (!rc)
        rc = ctr_schema_copy(&p->oplain, &j->out, err);
    if (!rc)
        rc = ctr_rowformat_init(&p->lformat, &j->left_plain, true, err);
    if (!rc)
        rc = ctr_rowformat_init(&p->oformat, &p->oplain, true, err);
    if (!rc)
        rc = ctr_batchbuf_init(&p->lrows, &j->left_plain, err);
    if (!rc)
        rc = ctr_batchbuf_init(&p->rkeys, &j->right, err);
    if (!rc)
        rc = ctr_batchbuf_init(&p->out, &p->oplain, err);
    p->tag = malloc(CTR_BATCH_ROWS * sizeof *p->tag);
    if (!rc && !p->tag)
        rc = ctr_fail_nomem(err, CTR_BATCH_ROWS * sizeof *p->tag);
    p->order = (struct ctr_roworder){ .format = &p->oformat, .by_tag = true, .exact = true };
    return rc ? rc : push_fan(p, 0, err);
}

int ctr_joinpart_new(struct ctr_join *j, struct ctr_err *err)
{
    struct ctr_joinpart *p = j->part = calloc(1, sizeof *p);
    const uint64_t *hash = (const uint64_t *)j->table.hash.data;
    int rc;

    if (!p)
        return ctr_fail_nomem(err, sizeof *p);
    ctr_spill_init(&p->result, 0);
    ctr_spill_init(&p->groups, 0);
    rc = part_init(j, p, err);
    for (int b = 0; !rc && b < j->table.arena.n; b++) {
        const struct ctr_rowarena_block *block = &j->table.arena.block[b];
        for (size_t at = 0; !rc && at < block->used; at += ctr_row_size(block->data + at))
            rc = ctr_spill_row(&p->pair[which(*hash++, 0)].right, block->data + at, err);
    }
    ctr_jointable_free(&j->table);
    return rc;
}

/* Distribute rows of a batch to the partitions of level 0. */
static int distribute(struct ctr_join *j, const struct ctr_batch *b, struct ctr_rowformat *f, bool right,
                      int64_t first_row, struct ctr_err *err)
{
    struct ctr_joinpart *p = j->part;
    int64_t idx[CTR_ROW_TILE];
    uint64_t tag[CTR_ROW_TILE];
    uint8_t *at[CTR_ROW_TILE];
    int rc = ctr_join_reserve(j, b->rows, err);

    if (!rc)
        rc = ctr_keys_hash(b, right ? j->right_key : j->left_key, j->npairs, ctr_hash_secret, j->hash, j->null, err);
    for (int64_t done = 0; !rc && done < b->rows; done += CTR_ROW_TILE) {
        int n = (int)CTR_MIN(b->rows - done, CTR_ROW_TILE);
        for (int i = 0; i < n; i++) {
            idx[i] = done + i;
            tag[i] = (uint64_t)(first_row + done + i);
        }
        ctr_rowarena_clear(&p->scratch);
        rc = ctr_rowarena_add(&p->scratch, f, b->col, idx, n, tag, at, err);
        for (int i = 0; !rc && i < n; i++) {
            struct ctr_joinpair *q = &p->pair[which(j->hash[done + i], 0)];
            rc = ctr_spill_row(right ? &q->right : &q->left, at[i], err);
        }
    }
    return rc;
}

int ctr_joinpart_right(struct ctr_join *j, const struct ctr_batch *b, int64_t first_row, struct ctr_err *err)
{
    return distribute(j, b, &j->format, true, first_row, err);
}

int ctr_joinpart_left(struct ctr_join *j, const struct ctr_batch *b, struct ctr_err *err)
{
    int rc = distribute(j, b, &j->part->lformat, false, j->part->left_rows, err);

    j->part->left_rows += b->rows;
    return rc;
}

/* ---- joining a partition ---- */

int ctr_joinpart_open_run(struct ctr_joinpart *p, const struct ctr_spill *s, int run, struct ctr_merge **m,
                          struct ctr_err *err)
{
    /* A single source: the order is irrelevant, but the tag is needed. */
    struct ctr_merge_source src = { s->fd, s->run[run] };

    return ctr_merge_open(m, &p->order, &src, 1, CTR_MAX(p->buf_bytes, 64 << 10), err);
}

/* Hashes of the keys of rows of a side. */
int ctr_joinpart_hash(struct ctr_join *j, bool right, const uint8_t *const *rows, int n, uint64_t *hash,
                      struct ctr_err *err)
{
    struct ctr_joinpart *p = j->part;
    struct ctr_batchbuf *b = right ? &p->rkeys : &p->lrows;
    const int *key = right ? j->right_key : j->left_key;
    const struct ctr_batch *view;
    struct ctr_batch keys;
    int rc = 0;

    ctr_batchbuf_clear(b);
    for (int k = 0; !rc && k < j->npairs; k++)
        rc = ctr_row_read(right ? &j->format : &p->lformat, key[k], rows, n, &b->col[key[k]], err);
    if (rc)
        return rc;
    view = ctr_batchbuf_view(b);
    keys = *view;
    keys.rows = n;
    return ctr_keys_hash(&keys, key, j->npairs, ctr_hash_secret, hash, NULL, err);
}

/* Distribute the rows of a run to deeper partitions or (fan NULL) add them to the table. */
static int reread(struct ctr_join *j, const struct ctr_spill *from, int run, bool right, struct ctr_joinpair *fan,
                  int level, struct ctr_err *err)
{
    struct ctr_rowref refs[CTR_ROW_TILE];
    const uint8_t *rows[CTR_ROW_TILE];
    uint64_t hash[CTR_ROW_TILE];
    struct ctr_merge *m;
    int rc = ctr_joinpart_open_run(j->part, from, run, &m, err), n;

    if (rc)
        return rc;
    while (!rc && (n = ctr_merge_next(m, refs, CTR_ROW_TILE, err)) != 0) {
        if (n < 0) {
            rc = n;
            break;
        }
        for (int i = 0; i < n; i++)
            rows[i] = refs[i].row;
        rc = ctr_joinpart_hash(j, right, rows, n, hash, err);
        for (int i = 0; !rc && i < n; i++) {
            struct ctr_joinpair *q = fan ? &fan[which(hash[i], level)] : NULL;
            if (!fan && j->table.rows == j->part->load_rows && j->table.rows)
                goto done;
            rc = q ? ctr_spill_row(right ? &q->right : &q->left, rows[i], err)
                   : ctr_jointable_add_row(&j->table, rows[i], hash[i], err);
        }
    }
done:
    ctr_merge_free(m);
    return rc;
}

static int flush_pair(struct ctr_joinpair *q, struct ctr_err *err)
{
    int rc = ctr_spill_flush(&q->left, err);

    return rc ? rc : ctr_spill_flush(&q->right, err);
}

static int split_deeper(struct ctr_join *j, struct ctr_joinpair *from, struct ctr_err *err)
{
    struct ctr_joinpart *p = j->part;
    int level = from->level + 1, rc = push_fan(p, level, err);
    struct ctr_joinpair *fan = p->pair + p->n - FAN;

    if (!rc)
        rc = reread(j, &from->right, 0, true, fan, level, err);
    if (!rc)
        rc = reread(j, &from->left, 0, false, fan, level, err);
    for (int i = 0; !rc && i < FAN; i++)
        rc = flush_pair(&fan[i], err);
    return rc;
}

/* Write n result rows to scratch memory, followed by their groups. */
static int write_results(struct ctr_join *j, const struct ctr_batch *b, const int64_t *idx, const uint64_t *tag, int n,
                         uint8_t **at, struct ctr_err *err)
{
    struct ctr_joinpart *p = j->part;
    uint32_t size[CTR_ROW_TILE], bare[CTR_ROW_TILE];
    int rc = ctr_row_sizes(&p->oformat, b->col, idx, n, bare, err);

    for (int i = 0; i < n && !rc; i++)
        size[i] = bare[i] + (uint32_t)sizeof(struct ctr_joingroup);
    if (!rc)
        rc = ctr_rowarena_place(&p->scratch, size, n, at, err);
    if (rc)
        return rc;
    ctr_row_write(&p->oformat, b->col, idx, n, tag, size, at);
    for (int i = 0; i < n; i++) {
        struct ctr_joingroup g = ctr_joingroup_of(p, j->head[j->lidx[idx[i]]]);
        memcpy(at[i] + bare[i], &g, sizeof g);
    }
    return 0;
}

static struct ctr_joingroup result_group(const struct ctr_join *j, const uint8_t *row)
{
    struct ctr_joingroup g = { 0 };

    if (j->opts.multi)
        memcpy(&g, row + ctr_row_size(row) - sizeof g, sizeof g);
    return g;
}

/* Append a batch of results to the run of this partition. */
static int keep_result(struct ctr_join *j, const struct ctr_batch *b, struct ctr_err *err)
{
    struct ctr_joinpart *p = j->part;
    int64_t idx[CTR_ROW_TILE];
    uint64_t tag[CTR_ROW_TILE];
    uint8_t *at[CTR_ROW_TILE];
    int rc = 0;

    for (int64_t done = 0; !rc && done < b->rows; done += CTR_ROW_TILE) {
        int n = (int)CTR_MIN(b->rows - done, CTR_ROW_TILE);
        for (int i = 0; i < n; i++) {
            idx[i] = done + i;
            tag[i] = p->tag[j->lidx[done + i]];
        }
        ctr_rowarena_clear(&p->scratch);
        rc = j->opts.multi ? write_results(j, b, idx, tag, n, at, err)
                           : ctr_rowarena_add(&p->scratch, &p->oformat, b->col, idx, n, tag, at, err);
        for (int i = 0; !rc && i < n; i++)
            rc = ctr_spill_row(&p->result, at[i], err);
    }
    return rc;
}

static int join_rows(struct ctr_join *j, struct ctr_err *err)
{
    const struct ctr_batch *out;
    int rc = ctr_join_match(j, ctr_batchbuf_view(&j->part->lrows), err);

    if (!rc && j->part->seen.data)
        ctr_joinblocks_matched(j);
    while (!rc && (rc = ctr_join_table_next(j, &out, err)) > 0)
        rc = keep_result(j, out, err);
    ctr_batchbuf_clear(&j->part->lrows);
    return rc;
}

/* Join the left rows of a partition with the table. */
int ctr_joinpart_left_run(struct ctr_join *j, const struct ctr_spill *left, struct ctr_err *err)
{
    struct ctr_joinpart *p = j->part;
    struct ctr_rowref refs[CTR_ROW_TILE];
    const uint8_t *rows[CTR_ROW_TILE];
    struct ctr_merge *m;
    int64_t have = 0;
    int rc = ctr_joinpart_open_run(p, left, 0, &m, err), n;

    if (rc)
        return rc;
    ctr_batchbuf_clear(&p->lrows);
    while (!rc && (n = ctr_merge_next(m, refs, CTR_ROW_TILE, err)) != 0) {
        if (n < 0) {
            rc = n;
            break;
        }
        for (int i = 0; i < n; i++) {
            rows[i] = refs[i].row;
            p->tag[have + i] = ctr_row_tag(rows[i]);
        }
        for (int c = 0; !rc && c < p->lformat.n; c++)
            rc = ctr_row_read(&p->lformat, c, rows, n, &p->lrows.col[c], err);
        have += n;
        if (!rc && have + CTR_ROW_TILE > CTR_BATCH_ROWS) {
            rc = join_rows(j, err);
            have = 0;
        }
    }
    if (!rc && have)
        rc = join_rows(j, err);
    ctr_merge_free(m);
    return rc;
}

int64_t ctr_joinpart_need(const struct ctr_join *j, int64_t bytes, int64_t rows)
{
    int64_t more = j->opts.multi ? 24 + (int64_t)sizeof(struct ctr_joingroup) : j->rtime >= 0 ? 24 : 0;

    return bytes + rows * (8 + 24 + more);
}

int ctr_joinpart_load(struct ctr_join *j, const struct ctr_spill *right, int run, struct ctr_err *err)
{
    int rc;

    ctr_jointable_init(&j->table, j);
    rc = reread(j, right, run, true, NULL, 0, err);
    return rc ? rc : ctr_jointable_build(&j->table, j, err);
}

/* Rows that do not fit, in a partition that hashing cannot divide further, have equal keys, which is an error of this
 * join: it is found among as many as fit. */
static int find_duplicate(struct ctr_join *j, const struct ctr_spill *right, struct ctr_err *err)
{
    const int64_t need = ctr_joinpart_need(j, right->run[0].bytes, right->run[0].rows);
    int rc;

    j->part->load_rows = CTR_MAX((int64_t)((double)right->run[0].rows * (double)j->budget / (double)need), 2);
    rc = ctr_joinpart_load(j, right, 0, err);
    j->part->load_rows = 0;
    ctr_jointable_free(&j->table);
    return rc;
}

static int join_pair(struct ctr_join *j, struct ctr_joinpair *q, struct ctr_err *err)
{
    int64_t need = ctr_joinpart_need(j, q->right.run[0].bytes, q->right.run[0].rows);
    bool repeats = j->opts.multi || j->rtime >= 0;
    int rc = 0;

    if (!q->left.run[0].rows && (repeats || !q->right.run[0].rows)) {
        j->stats.right_unmatched += q->right.run[0].rows;
        return 0;
    }
    if (need > j->budget && q->level < MAX_LEVEL)
        return split_deeper(j, q, err);
    if (need > j->budget && repeats) /* few keys with many rows: hashing cannot divide them further */
        return ctr_joinblocks(j, &q->left, &q->right, err);
    if (need > j->budget)
        rc = find_duplicate(j, &q->right, err);
    if (!rc)
        rc = ctr_joinpart_load(j, &q->right, 0, err);
    if (!rc && j->opts.multi && j->opts.kind != CTR_JOIN_ANTI)
        rc = ctr_joingroup_keep(j, err);
    if (!rc)
        rc = ctr_spill_begin(&j->part->result, err);
    if (!rc)
        rc = ctr_joinpart_left_run(j, &q->left, err);
    if (!rc)
        j->stats.right_unmatched += ctr_jointable_unmatched(&j->table);
    j->part->group.len = 0;
    ctr_jointable_free(&j->table);
    return rc;
}

static int open_result(struct ctr_join *j, struct ctr_err *err)
{
    struct ctr_joinpart *p = j->part;
    struct ctr_merge_source *src = calloc((size_t)p->result.n + 1, sizeof *src);
    int64_t buf = CTR_MAX(CTR_MIN(j->budget / (p->result.n + 2), 4 << 20), 4096);
    int rc = src ? ctr_spill_flush(&p->result, err) : ctr_fail_nomem(err, (size_t)p->result.n * sizeof *src);

    if (!rc)
        rc = ctr_spill_flush(&p->groups, err);
    for (int i = 0; !rc && i < p->result.n; i++)
        src[i] = (struct ctr_merge_source){ p->result.fd, p->result.run[i] };
    if (!rc)
        rc = ctr_merge_open(&p->merge, &p->order, src, p->result.n, (size_t)buf, err);
    free(src);
    return rc;
}

int ctr_joinpart_finish(struct ctr_join *j, struct ctr_err *err)
{
    struct ctr_joinpart *p = j->part;
    int rc = 0;

    for (int i = 0; !rc && i < p->n; i++) {
        rc = flush_pair(&p->pair[i], err);
        j->stats.spilled_bytes += p->pair[i].left.end + p->pair[i].right.end;
    }
    while (!rc && p->n > 0) {
        struct ctr_joinpair q = p->pair[--p->n];
        rc = join_pair(j, &q, err);
        j->stats.partitions++;
        pair_free(&q);
    }
    j->b = NULL;
    ctr_buf_free(&p->group);
    if (!rc)
        rc = open_result(j, err);
    j->stats.spilled_bytes += p->result.end + p->groups.end;
    return rc;
}

/* Output results without a group, up to the next one with a group. */
static int put_results(struct ctr_join *j, int max, int64_t *room, struct ctr_err *err)
{
    struct ctr_joinpart *p = j->part;
    const uint8_t *rows[CTR_ROW_TILE];
    int n = 0, rc = 0;

    while (n<max && * room> 0 && p->at < p->have && !result_group(j, p->ref[p->at].row).bytes) {
        *room -= ctr_row_size(p->ref[p->at].row);
        rows[n++] = p->ref[p->at++].row;
    }
    for (int c = 0; !rc && c < p->oformat.n; c++)
        rc = ctr_row_read(&p->oformat, c, rows, n, &p->out.col[c], err);
    return rc ? rc : n;
}

/* Output at least one and up to `max` rows from the current results, while there is room. */
static int put_next(struct ctr_join *j, int max, int64_t *room, struct ctr_err *err)
{
    struct ctr_joinpart *p = j->part;
    struct ctr_joingroup g = result_group(j, p->ref[p->at].row);
    int n;

    if (!g.bytes)
        return put_results(j, max, room, err);
    n = ctr_joingroup_expand(j, p->ref[p->at].row, &g, max, room, err);
    p->at += n >= 0 && !p->window.next;
    return n;
}

int ctr_joinpart_next(struct ctr_join *j, const struct ctr_batch **out, struct ctr_err *err)
{
    struct ctr_joinpart *p = j->part;
    int64_t have = 0, room = j->part_bytes;
    int n;

    if (!p->merge)
        return 0; /* wait for the end of the left side */
    ctr_batchbuf_clear(&p->out);
    while (have < j->opts.batch_rows && room > 0) {
        if (p->at == p->have) {
            p->at = p->have = 0;
            if ((n = ctr_merge_next(p->merge, p->ref, CTR_ROW_TILE, err)) <= 0) {
                if (n < 0)
                    return n;
                break;
            }
            p->have = n;
        }
        if ((n = put_next(j, (int)CTR_MIN(j->opts.batch_rows - have, CTR_ROW_TILE), &room, err)) < 0)
            return n;
        have += n;
    }
    *out = ctr_batchbuf_view(&p->out);
    return have > 0;
}
