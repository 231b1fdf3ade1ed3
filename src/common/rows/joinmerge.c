/* SPDX-License-Identifier: Apache-2.0
 *
 * joinmerge: joins that hold no side in memory: of sides sorted by the same keys, and row by row. Invariant: before the
 * current right batch (or with --multi the group) is released, the output rows that refer to it are gathered. */
#include "common/rows/joincore.h"

#include <stdlib.h>

struct last_key { /* the key of the last row of the previous batch */
    struct ctr_batchbuf row;
    bool have;
};

struct ctr_joinmerge {
    int64_t bytes;              /* of the output rows so far: right texts and lists, with --multi left rows */
    const struct ctr_batch *rb; /* NULL: before the first, or at the end */
    int64_t rpos, rrow;         /* in the batch; row number in the stream */
    int64_t matched, last;      /* number of matched right rows, and the number of the last one; -1: none */
    bool end;
    int64_t *ridx; /* pending: source rows for output rows done..n; -1 unmatched */
    int64_t cap, done;
    struct last_key left, right;
    struct ctr_batchbuf group; /* --multi: the right rows of one key */
    bool have_group;
};

/* Left keys 1 2 2 4 and right rows 2x 2y 3z 4w, with --multi:
 *
 *     left   right side                                   put (lidx, ridx)
 *     1      seek: 2x is above it: no group               (0, -1)
 *     2      group = 2x 2y; the right side is at 3z       (1, 0) (1, 1)
 *     2      the same group                               (2, 0) (2, 1)
 *     4      flush, as the group changes; group = 4w      (3, 0)
 *
 * ridx counts in the group, without --multi in the current right batch; flush gathers the right columns of pending rows
 * before either changes. Without --multi 2x 2y are an error, and each side is checked to be in order (compare_last). */

int ctr_joinmerge_new(struct ctr_join *j, struct ctr_err *err)
{
    struct ctr_joinmerge *m = j->merge = calloc(1, sizeof *m);
    int rc;

    if (!m)
        return ctr_fail_nomem(err, sizeof *m);
    m->rrow = m->last = -1;
    rc = ctr_batchbuf_init(&m->left.row, &j->left_plain, err);
    if (!rc)
        rc = ctr_batchbuf_init(&m->right.row, &j->right, err);
    return rc ? rc : ctr_batchbuf_init(&m->group, &j->right, err);
}

void ctr_joinmerge_free(struct ctr_joinmerge *m)
{
    if (!m)
        return;
    if (m->left.row.schema)
        ctr_batchbuf_free(&m->left.row);
    if (m->right.row.schema)
        ctr_batchbuf_free(&m->right.row);
    if (m->group.schema)
        ctr_batchbuf_free(&m->group);
    free(m->ridx);
    free(m);
}

static int reserve(struct ctr_join *j, int64_t rows, struct ctr_err *err)
{
    struct ctr_joinmerge *m = j->merge;

    if (rows > m->cap) {
        free(m->ridx);
        m->cap = 0;
        m->ridx = malloc((size_t)rows * sizeof *m->ridx);
        if (!m->ridx)
            return ctr_fail_nomem(err, (size_t)rows * sizeof *m->ridx);
        m->cap = rows;
    }
    return ctr_join_out_reserve(j, rows, err);
}

/* ---- comparing ---- */

/* A row of either side. */
struct row {
    const struct ctr_col *col;
    int64_t i;
    bool right;
};

static struct row left_row(const struct ctr_join *j, int64_t i)
{
    return (struct row){ j->b->col, i, false };
}

static struct row right_row(const struct ctr_join *j) /* the current one */
{
    return (struct row){ j->merge->rb->col, j->merge->rpos, true };
}

static int column_of(const struct ctr_keypair *p, struct row r)
{
    return r.right ? p->right : p->left;
}

static int compare(const struct ctr_join *j, struct row a, struct row b)
{
    for (int k = 0; k < j->npairs; k++) {
        const struct ctr_keypair *p = &j->pair[k];
        int c = ctr_keys_compare(p->cls, &a.col[column_of(p, a)], a.i, &b.col[column_of(p, b)], b.i);
        if (c)
            return c;
    }
    return 0;
}

static bool null_key(const struct ctr_join *j, struct row r)
{
    for (int k = 0; k < j->npairs; k++)
        if (ctr_col_missing(&r.col[column_of(&j->pair[k], r)], r.i))
            return true;
    return false;
}

/* Compare r with the row before it; -1: r is the first. */
static int compare_last(const struct ctr_join *j, struct last_key *last, struct row r)
{
    if (r.i)
        return compare(j, (struct row){ r.col, r.i - 1, r.right }, r);
    return last->have ? compare(j, (struct row){ ctr_batchbuf_view(&last->row)->col, 0, r.right }, r) : -1;
}

static int remember(struct last_key *k, const struct ctr_batch *b, struct ctr_err *err)
{
    ctr_batchbuf_clear(&k->row);
    k->have = true;
    return ctr_batchbuf_range(&k->row, b, b->rows - 1, 1, err);
}

static int key_words(const struct ctr_join *j, struct row r, struct ctr_buf *out, struct ctr_err *err)
{
    int rc = 0;

    for (int k = 0; !rc && k < j->npairs; k++) {
        int col = column_of(&j->pair[k], r);
        const struct ctr_col *c = &r.col[col];
        rc = ctr_buf_printf(out, err, "%s%s=", k ? ", " : "", (r.right ? &j->right : &j->left)->f[col].name);
        if (!rc)
            rc = ctr_col_missing(c, r.i) ? ctr_buf_append(out, "null", 4, err) : ctr_col_text(c, r.i, out, err);
    }
    return rc ? rc : ctr_buf_append(out, "", 1, err);
}

/* `number`: of r in its stream, from 0. */
static int fail_row(const struct ctr_join *j, struct row r, int64_t number, bool duplicate, struct ctr_err *err)
{
    struct ctr_buf key = { 0 };
    const bool in_plan = j->opts.in_plan;
    int rc = key_words(j, r, &key, err);

    if (r.right)
        ctr_err_file(err, j->right_name);
    if (!rc && duplicate)
        rc = ctr_fail(err, CTR_EDATA, "rows %lld and %lld have the same key %.300s: %s joins all of them, %s",
                      (long long)number, (long long)number + 1, (const char *)key.data, ctr_word(in_plan, "--multi"),
                      ctr_join_first_alone(in_plan));
    else if (!rc)
        rc = ctr_fail(err, CTR_EDATA,
                      "row %lld (%.300s) is not in order%s: sort both sides with ctr-sort -k, or leave out %s",
                      (long long)number + 1, (const char *)key.data, r.right ? "" : " on the left side",
                      ctr_word(in_plan, "--merge"));
    ctr_buf_free(&key);
    return rc;
}

/* ---- the right side ---- */

/* Gather the pending rows before the source changes. */
static int flush(struct ctr_join *j, struct ctr_err *err)
{
    static const struct ctr_col nothing;
    struct ctr_joinmerge *m = j->merge;
    const struct ctr_col *src = j->opts.multi ? ctr_batchbuf_view(&m->group)->col : m->rb ? m->rb->col : NULL;
    int rc = 0;

    for (int i = 0; !rc && i < j->nr; i++)
        rc = ctr_colbuf_gather(&j->rout[i], src ? &src[j->rcol[i]] : &nothing, m->ridx + m->done, j->n - m->done, err);
    m->done = j->n;
    return rc;
}

static int next_right_batch(struct ctr_join *j, struct ctr_err *err)
{
    struct ctr_joinmerge *m = j->merge;
    int rc = j->opts.multi || j->opts.how == CTR_JOIN_BY_ROW ? 0 : flush(j, err);

    if (!rc && m->rb && j->opts.how == CTR_JOIN_MERGE)
        rc = remember(&m->right, m->rb, err);
    m->rpos = 0;
    m->rb = NULL;
    while (!rc && (rc = ctr_batch_source_next(&j->from, &m->rb, err)) > 0 && !m->rb->rows)
        rc = 0;
    if (rc < 0)
        return rc;
    if (!rc)
        m->rb = NULL;
    m->end = !rc;
    return 0;
}

/* Advance to the next right row, which must be in order. */
static int step_right(struct ctr_join *j, struct ctr_err *err)
{
    struct ctr_joinmerge *m = j->merge;
    int rc = 0;

    if (m->end)
        return 0;
    m->rrow++;
    if (!m->rb || ++m->rpos == m->rb->rows)
        rc = next_right_batch(j, err);
    if (rc || m->end)
        return rc;
    j->stats.right_rows++;
    const struct row r = right_row(j);
    const int c = compare_last(j, &m->right, r);
    const bool duplicate = !c && !j->opts.multi && !null_key(j, r);
    return c > 0 || duplicate ? fail_row(j, r, m->rrow, duplicate, err) : 0;
}

/* Advance to the first right row with a key >= that of left row i; *equal: is it equal? */
static int seek(struct ctr_join *j, int64_t i, bool *equal, struct ctr_err *err)
{
    struct ctr_joinmerge *m = j->merge;
    int rc = m->rrow < 0 ? step_right(j, err) : 0, c = 1;

    while (!rc && !m->end && (c = compare(j, right_row(j), left_row(j, i))) < 0)
        rc = step_right(j, err);
    *equal = !m->end && !c;
    return rc;
}

/* Collect all right rows with the key of left row i in the group. */
static int read_group(struct ctr_join *j, int64_t i, struct ctr_err *err)
{
    struct ctr_joinmerge *m = j->merge;
    bool equal;
    int rc;

    if (m->have_group && !compare(j, (struct row){ ctr_batchbuf_view(&m->group)->col, 0, true }, left_row(j, i)))
        return 0;
    rc = flush(j, err);
    m->have_group = false;
    ctr_batchbuf_clear(&m->group);
    if (!rc)
        rc = seek(j, i, &equal, err);
    while (!rc && equal) {
        m->have_group = true;
        m->matched++;
        rc = ctr_batchbuf_range(&m->group, m->rb, m->rpos, 1, err);
        if (!rc)
            rc = step_right(j, err);
        equal = !rc && !m->end && !compare(j, right_row(j), left_row(j, i));
    }
    return rc;
}

/* ---- the left side ---- */

static int check_left(struct ctr_join *j, int64_t i, struct ctr_err *err)
{
    const struct row r = left_row(j, i);
    const bool falls = compare_last(j, &j->merge->left, r) > 0;
    return falls ? fail_row(j, r, j->stats.left_rows - j->b->rows + i, false, err) : 0;
}

/* right_cols: where the right row is; NULL: there is none. */
static void put(struct ctr_join *j, const struct ctr_col *right_cols, int64_t right)
{
    for (int i = 0; right_cols && j->format.variable && i < j->nr; i++)
        j->merge->bytes += ctr_col_bytes(&right_cols[j->rcol[i]], right, 1);
    j->lidx[j->n] = j->pos;
    j->merge->ridx[j->n++] = right;
}

static void put_single(struct ctr_join *j, bool match, int64_t right)
{
    if (match ? j->opts.kind != CTR_JOIN_ANTI : j->opts.kind != CTR_JOIN_INNER)
        put(j, match ? j->merge->rb->col : NULL, match ? right : -1);
}

/* Output the matches of the current left row; false: the batch is full and some are left. */
static int match_row(struct ctr_join *j, int64_t room, bool *more, struct ctr_err *err)
{
    struct ctr_joinmerge *m = j->merge;
    bool match = false;
    int rc = 0;

    *more = false;
    if (!j->sub) {
        if ((rc = check_left(j, j->pos, err)))
            return rc;
        if (!null_key(j, left_row(j, j->pos))) {
            rc = j->opts.multi ? read_group(j, j->pos, err) : seek(j, j->pos, &match, err);
            if (j->opts.multi)
                match = m->have_group;
        }
        j->stats.matched += match;
        j->stats.unmatched += !match;
        if (match && !j->opts.multi && m->last != m->rrow) {
            m->matched++;
            m->last = m->rrow;
        }
        if (rc || !match || !j->opts.multi || j->opts.kind == CTR_JOIN_ANTI) {
            if (!rc)
                put_single(j, match, m->rpos);
            return rc;
        }
    }
    const struct ctr_col *group = ctr_batchbuf_view(&m->group)->col;
    const int64_t each = ctr_join_left_bytes(j, j->pos, 1);
    for (int64_t n = ctr_batchbuf_rows(&m->group); j->sub < n; j->sub++) {
        if (j->n == room || (j->n && m->bytes >= j->part_bytes)) {
            *more = true;
            return 0;
        }
        m->bytes += each;
        put(j, group, j->sub);
    }
    j->sub = 0;
    return 0;
}

int ctr_joinmerge_next(struct ctr_join *j, const struct ctr_batch **out, struct ctr_err *err)
{
    struct ctr_joinmerge *m = j->merge;
    int64_t room;
    bool more = false;
    int rc;

    if (!j->b || j->pos == j->b->rows)
        return 0;
    room = j->opts.multi ? CTR_MAX(j->opts.batch_rows, 256) : j->b->rows;
    ctr_join_clear_out(j);
    m->done = m->bytes = 0;
    rc = reserve(j, room, err);
    while (!rc && j->pos < j->b->rows && j->n < room && m->bytes < j->part_bytes) {
        rc = match_row(j, room, &more, err);
        if (more)
            break;
        j->pos++;
    }
    if (!rc && j->pos == j->b->rows)
        rc = remember(&m->left, j->b, err);
    if (!rc)
        rc = flush(j, err);
    if (rc || !j->n)
        return rc;
    return ctr_join_emit(j, j->b, out, err);
}

/* The rest of the right side must be in order and complete, too. */
int ctr_joinmerge_finish(struct ctr_join *j, struct ctr_err *err)
{
    int rc = 0;

    ctr_join_clear_out(j);
    j->merge->done = 0;
    while (!rc && !j->merge->end)
        rc = step_right(j, err);
    j->stats.right_unmatched = j->stats.right_rows - j->merge->matched;
    return rc;
}

/* ---- row with row ---- */

int ctr_joinrow_next(struct ctr_join *j, const struct ctr_batch **out, struct ctr_err *err)
{
    struct ctr_joinmerge *m = j->merge;
    int rc;

    if (!j->b || j->pos == j->b->rows)
        return 0;
    ctr_join_clear_out(j);
    rc = ctr_join_out_reserve(j, j->b->rows, err);
    while (!rc && j->n < j->b->rows) {
        int64_t n;
        if (!m->rb || m->rpos == m->rb->rows)
            rc = next_right_batch(j, err);
        if (!rc && m->end)
            rc = ctr_fail(err, CTR_EDATA, "%s has %lld rows, and the left side has more: %s needs as many",
                          j->right_name, (long long)j->stats.right_rows, ctr_word(j->opts.in_plan, "--by-row"));
        if (rc)
            break;
        n = CTR_MIN(j->b->rows - j->n, m->rb->rows - m->rpos);
        for (int i = 0; !rc && i < j->nr; i++)
            rc = ctr_colbuf_range(&j->rout[i], &m->rb->col[j->rcol[i]], m->rpos, n, err);
        for (int64_t i = 0; i < n; i++, j->n++)
            j->lidx[j->n] = j->n;
        m->rpos += n;
        j->stats.right_rows += n;
    }
    if (rc)
        return rc;
    j->pos = j->b->rows;
    j->stats.matched += j->b->rows;
    return ctr_join_emit(j, j->b, out, err);
}

int ctr_joinrow_finish(struct ctr_join *j, struct ctr_err *err)
{
    struct ctr_joinmerge *m = j->merge;
    int rc = m->rb && m->rpos < m->rb->rows ? 0 : next_right_batch(j, err);

    if (rc || m->end)
        return rc;
    return ctr_fail(err, CTR_EDATA, "%s has more rows than the left side, which has %lld: %s needs as many",
                    j->right_name, (long long)j->stats.left_rows, ctr_word(j->opts.in_plan, "--by-row"));
}
