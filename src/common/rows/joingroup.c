/* SPDX-License-Identifier: Apache-2.0
 *
 * joingroup: --multi in the spilled join. A left row with many matches is stored once, with a reference to the group of
 * its right rows in a temporary file, and expanded when the results are merged: files grow with the inputs, not with
 * their product. Invariant: the rows of a group are adjacent, in the order of the right side. */
#include "common/rows/joincore.h"

#include <stdlib.h>

#define SMALL 256 /* a single right row of at most so many bytes is stored in the result itself */

static bool is_small(const struct ctr_joingroup *g)
{
    return g->rows == 1 && g->bytes <= SMALL;
}

struct ctr_joingroup ctr_joingroup_of(const struct ctr_joinpart *p, const uint8_t *head)
{
    const struct ctr_joingroup *group = (const struct ctr_joingroup *)p->group.data;
    struct ctr_joingroup none = { 0 };

    if (!head || !p->group.len || is_small(&group[ctr_jointable_group(head)]))
        return none;
    return group[ctr_jointable_group(head)];
}

/* ---- groups of a table that fits ---- */

static int keep_group(struct ctr_joinpart *p, const uint8_t *const *row, int64_t n, struct ctr_err *err)
{
    struct ctr_spill *s = &p->groups;
    struct ctr_joingroup g = { .from = s->end + (int64_t)s->buf.len, .rows = n };
    int rc = 0;

    for (int64_t i = 0; i < n; i++)
        g.bytes += ctr_row_size(row[i]);
    for (int64_t i = 0; !is_small(&g) && !rc && i < n; i++)
        rc = ctr_spill_row(s, row[i], err);
    return rc ? rc : ctr_buf_append(&p->group, &g, sizeof g, err);
}

int ctr_joingroup_keep(struct ctr_join *j, struct ctr_err *err)
{
    struct ctr_joinpart *p = j->part;
    const int64_t *start = (const int64_t *)j->table.start.data;
    int64_t n = (int64_t)(j->table.start.len / 8) - 1;
    int rc = ctr_spill_begin(&p->groups, err);

    p->group.len = 0;
    for (int64_t g = 0; !rc && g < n; g++)
        rc = keep_group(p, j->table.group_rows + start[g], start[g + 1] - start[g], err);
    return rc;
}

/* ---- groups of right rows sorted by key, as many as fit ---- */

int ctr_joingroup_open(struct ctr_join *j, struct ctr_err *err)
{
    struct ctr_joinpart *p = j->part;
    const struct ctr_run *run = &p->groups.run[p->groups.n - 1];

    p->heads = (struct ctr_joinheads){ .at = run->from, .end = run->from + run->bytes };
    return ctr_joinpart_open_run(p, &p->groups, p->groups.n - 1, &p->heads.merge, err);
}

void ctr_joingroup_close(struct ctr_joinpart *p)
{
    ctr_merge_free(p->heads.merge);
    ctr_buf_free(&p->heads.key);
    p->heads = (struct ctr_joinheads){ 0 };
}

bool ctr_joingroup_more(const struct ctr_joinpart *p)
{
    return p->heads.at < p->heads.end;
}

static bool same_group(const struct ctr_join *j, const uint8_t *row)
{
    const struct ctr_buf *key = &j->part->heads.key;

    for (int k = 0; key->len && k < j->npairs; k++)
        if (ctr_row_null(&j->format, row, j->right_key[k]) || ctr_row_null(&j->format, key->data, j->right_key[k]) ||
            !ctr_row_same(&j->format, j->right_key[k], key->data, row))
            return false;
    return key->len;
}

/* Add the first row of a group to the table; a row with a null key has no group. */
static int add_head(struct ctr_join *j, const uint8_t *row, struct ctr_err *err)
{
    struct ctr_joinheads *h = &j->part->heads;
    struct ctr_joingroup g = { .from = h->at };
    uint64_t hash;
    int rc;

    h->key.len = 0;
    rc = ctr_buf_append(&h->key, row, ctr_row_size(row), err);
    for (int k = 0; !rc && k < j->npairs; k++)
        if (ctr_row_null(&j->format, row, j->right_key[k])) {
            h->key.len = 0;
            return 0;
        }
    if (!rc)
        rc = ctr_joinpart_hash(j, true, &row, 1, &hash, err);
    if (!rc)
        rc = ctr_jointable_add_row(&j->table, row, hash, err);
    if (rc)
        return rc;
    h->bytes += ctr_row_size(row);
    return ctr_buf_append(&j->part->group, &g, sizeof g, err);
}

int ctr_joingroup_load(struct ctr_join *j, struct ctr_err *err)
{
    struct ctr_joinpart *p = j->part;
    struct ctr_joinheads *h = &p->heads;
    int rc = 0;

    p->group.len = h->key.len = 0;
    h->bytes = 0;
    ctr_jointable_init(&j->table, j);
    while (!rc && ctr_joingroup_more(p)) {
        const uint8_t *row;
        if (h->i == h->n) {
            h->i = 0;
            h->n = ctr_merge_next(h->merge, h->ref, CTR_ROW_TILE, err);
            if (h->n <= 0)
                return h->n ? h->n : ctr_fail(err, CTR_EDATA, "%s ends early", CTR_TEMP_NAME);
        }
        row = h->ref[h->i].row;
        if (!same_group(j, row)) {
            if (h->bytes && ctr_joinpart_need(j, h->bytes, j->table.rows) > j->budget)
                break;
            rc = add_head(j, row, err);
        }
        if (!rc && h->key.len) {
            struct ctr_joingroup *g = (struct ctr_joingroup *)(p->group.data + p->group.len) - 1;
            g->bytes += ctr_row_size(row);
            g->rows++;
        }
        h->at += ctr_row_size(row);
        h->i++;
    }
    return rc ? rc : ctr_jointable_build(&j->table, j, err);
}

/* Number of right rows in groups of the table that some left row matched. */
int64_t ctr_joingroup_matched(const struct ctr_join *j)
{
    const struct ctr_joingroup *group = (const struct ctr_joingroup *)j->part->group.data;
    int64_t n = 0;

    for (size_t g = 0; g < j->part->group.len / sizeof *group; g++)
        if (ctr_row_tag(j->table.group_rows[g]) != g) /* marked */
            n += group[g].rows;
    return n;
}

/* ---- expanding ---- */

/* Read up to `max` right rows of a group from file offset *at on; valid until the next call. */
static int window_rows(struct ctr_join *j, int64_t *at, int64_t end, const uint8_t **row, int max, int64_t each,
                       int64_t *room, struct ctr_err *err)
{
    struct ctr_joinwindow *w = &j->part->window;
    int64_t want = CTR_MAX((int64_t)j->part->buf_bytes, 64 << 10);
    int n = 0, rc;

    for (;;) {
        for (; n<max && * room> 0 && *at < end && *at >= w->from; n++) {
            int64_t have = w->from + (int64_t)w->buf.len - *at;
            const uint8_t *r = w->buf.data + (*at - w->from);
            if (have < 4)
                break;
            want = CTR_MAX(want, ctr_row_size(r));
            if (ctr_row_size(r) > have)
                break;
            if (ctr_row_size(r) < j->format.fixed_bytes || ctr_row_size(r) > end - *at) {
                ctr_err_file(err, CTR_TEMP_NAME);
                return ctr_fail(err, CTR_EDATA, "a row has a wrong length, at byte %lld", (long long)*at);
            }
            row[n] = r;
            *room -= each + ctr_row_size(r);
            *at += ctr_row_size(r);
        }
        if (n)
            return n;
        want = CTR_MIN(want, end - *at);
        w->buf.len = 0;
        rc = ctr_buf_reserve(&w->buf, (size_t)want, err);
        if (!rc && (rc = ctr_pread_full(j->part->groups.fd, w->buf.data, (size_t)want, *at, err)))
            ctr_err_file(err, CTR_TEMP_NAME);
        if (rc)
            return rc;
        w->from = *at;
        w->buf.len = (size_t)want;
    }
}

int ctr_joingroup_expand(struct ctr_join *j, const uint8_t *result, const struct ctr_joingroup *g, int max,
                         int64_t *room, struct ctr_err *err)
{
    struct ctr_joinpart *p = j->part;
    const uint8_t *left[CTR_ROW_TILE], *right[CTR_ROW_TILE];
    int64_t at = p->window.next ? p->window.next : g->from;
    int n = window_rows(j, &at, g->from + g->bytes, right, CTR_MIN(max, CTR_ROW_TILE), ctr_row_size(result), room, err),
        rc = 0;

    if (n < 0)
        return n;
    for (int i = 0; i < n; i++)
        left[i] = result;
    for (int c = 0; !rc && c < j->left.n; c++)
        rc = ctr_row_read(&p->oformat, c, left, n, &p->out.col[c], err);
    for (int c = 0; !rc && c < j->nr; c++)
        rc = ctr_row_read(&j->format, j->rcol[c], right, n, &p->out.col[j->left.n + c], err);
    p->window.next = at < g->from + g->bytes ? at : 0;
    return rc ? rc : n;
}
