/* SPDX-License-Identifier: Apache-2.0
 *
 * rowspill: sorted runs of rows in an unlinked temporary file, and the merge that reads them back. Invariant: a run
 * consists of adjacent rows without gaps; the merge is stable by source number. */
#include "common/rows/roworder.h"

#include <stdlib.h>
#include <unistd.h>

/* ---- writing ---- */

void ctr_spill_init(struct ctr_spill *s, size_t buf_bytes)
{
    *s = (struct ctr_spill){ .fd = -1, .buf_bytes = buf_bytes };
}

void ctr_spill_free(struct ctr_spill *s)
{
    if (s->fd >= 0)
        close(s->fd);
    free(s->run);
    ctr_buf_free(&s->buf);
    ctr_spill_init(s, 0);
}

int ctr_spill_begin(struct ctr_spill *s, struct ctr_err *err)
{
    int rc = ctr_array_grow(&s->run, s->n, &s->cap, sizeof *s->run, err);
    if (rc)
        return rc;
    s->run[s->n++] = (struct ctr_run){ .from = s->end + (int64_t)s->buf.len };
    return 0;
}

int ctr_spill_flush(struct ctr_spill *s, struct ctr_err *err)
{
    int rc = 0;

    if (!s->buf.len)
        return 0;
    if (s->fd < 0 && (s->fd = ctr_tmpfile(err)) < 0) {
        rc = s->fd;
        s->fd = -1;
        return rc;
    }
    rc = ctr_write_full(s->fd, s->buf.data, s->buf.len, err);
    if (rc < 0) {
        ctr_err_file(err, CTR_TEMP_NAME);
        return rc;
    }
    s->end += (int64_t)s->buf.len;
    s->buf.len = 0;
    return 0;
}

int ctr_spill_room(struct ctr_spill *s, size_t n, struct ctr_err *err)
{
    int rc = ctr_spill_flush(s, err);

    return rc ? rc : ctr_buf_reserve(&s->buf, CTR_MAX(n, s->buf_bytes), err);
}

/* ---- merging ---- */

struct source {
    int fd;
    int64_t at, left; /* in the file: next offset to read, and bytes left */
    struct ctr_buf buf;
    size_t pos;
};

struct ctr_merge {
    const struct ctr_roworder *order;
    struct source *src;
    struct ctr_rowref *head; /* first row of each source; row NULL: at its end */
    int *tree;               /* tree[0] the winner, tree[1..n) losers */
    int n, starved;          /* starved: this source must be refilled before continuing, or -1 */
    size_t buf_bytes;
};

/* Move the rest to the front and read more, so that the next row is complete; sets the head. */
static int fill(struct ctr_merge *m, int i, struct ctr_err *err)
{
    struct source *s = &m->src[i];
    size_t have = s->buf.len - s->pos, want = m->buf_bytes;
    int rc;

    m->head[i].row = NULL;
    if (!have && !s->left)
        return 0;
    if (have >= 4)
        want = CTR_MAX(want, ctr_row_size(s->buf.data + s->pos));
    if (have)
        memmove(s->buf.data, s->buf.data + s->pos, have);
    s->pos = 0;
    s->buf.len = have;
    want = (size_t)CTR_MIN((int64_t)(want - have), s->left);
    if ((rc = ctr_buf_reserve(&s->buf, want, err)) ||
        (rc = ctr_pread_full(s->fd, s->buf.data + have, want, s->at, err)) < 0) {
        ctr_err_file(err, CTR_TEMP_NAME);
        return rc;
    }
    s->buf.len += want;
    s->at += (int64_t)want;
    s->left -= (int64_t)want;
    if (ctr_row_size(s->buf.data) > s->buf.len) /* larger than the buffer: its length is now known */
        return fill(m, i, err);
    ctr_rowref_set(m->order, &m->head[i], s->buf.data);
    return 0;
}

static bool before(const struct ctr_merge *m, int a, int b)
{
    if (a < 0 || b < 0)
        return a < 0;
    if (!m->head[a].row || !m->head[b].row)
        return m->head[a].row || (!m->head[b].row && a < b);
    int c = ctr_rowref_compare(m->order, &m->head[a], &m->head[b]);
    return c < 0 || (!c && a < b);
}

static void replay(struct ctr_merge *m, int s)
{
    for (int t = (s + m->n) / 2; t > 0; t /= 2)
        if (before(m, m->tree[t], s)) {
            int loser = s;
            s = m->tree[t];
            m->tree[t] = loser;
        }
    m->tree[0] = s;
}

int ctr_merge_open(struct ctr_merge **out, const struct ctr_roworder *o, const struct ctr_merge_source *src, int n,
                   size_t buf_bytes, struct ctr_err *err)
{
    struct ctr_merge *m = calloc(1, sizeof *m);
    int rc = 0;

    *out = m;
    if (!m)
        return ctr_fail_nomem(err, sizeof *m);
    *m = (struct ctr_merge){ .order = o, .n = n, .starved = -1, .buf_bytes = CTR_MAX(buf_bytes, 4096) };
    m->src = calloc((size_t)n + 1, sizeof *m->src);
    m->head = calloc((size_t)n + 1, sizeof *m->head);
    m->tree = malloc(((size_t)n + 1) * sizeof *m->tree);
    if (!m->src || !m->head || !m->tree)
        rc = ctr_fail_nomem(err, (size_t)n * sizeof *m->src);
    for (int i = 0; !rc && i < n; i++) {
        m->src[i] = (struct source){ .fd = src[i].fd, .at = src[i].run.from, .left = src[i].run.bytes };
        m->tree[i] = -1;
        rc = fill(m, i, err);
    }
    if (rc) {
        ctr_merge_free(m);
        *out = NULL;
        return rc;
    }
    for (int i = n - 1; i >= 0; i--)
        replay(m, i);
    return 0;
}

void ctr_merge_free(struct ctr_merge *m)
{
    if (!m)
        return;
    for (int i = 0; m->src && i < m->n; i++)
        ctr_buf_free(&m->src[i].buf);
    free(m->src);
    free(m->head);
    free(m->tree);
    free(m);
}

/* Advance source i; false if it must be read first. */
static bool step(struct ctr_merge *m, int i)
{
    struct source *s = &m->src[i];

    s->pos += ctr_row_size(m->head[i].row);
    size_t have = s->buf.len - s->pos;
    if (have < 4 || have < ctr_row_size(s->buf.data + s->pos))
        return false;
    ctr_rowref_set(m->order, &m->head[i], s->buf.data + s->pos);
    return true;
}

int ctr_merge_next(struct ctr_merge *m, struct ctr_rowref *out, int max, struct ctr_err *err)
{
    int n = 0;

    if (m->starved >= 0) {
        int i = m->starved, rc = fill(m, i, err);
        if (rc)
            return rc;
        m->starved = -1;
        replay(m, i);
    }
    while (n < max && m->n) {
        int i = m->tree[0];
        if (!m->head[i].row)
            break;
        out[n++] = m->head[i];
        if (!step(m, i)) {
            m->starved = i;
            break;
        }
        replay(m, i);
    }
    return n;
}
