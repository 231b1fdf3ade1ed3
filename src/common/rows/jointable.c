/* SPDX-License-Identifier: Apache-2.0
 *
 * jointable: the right rows of a join in memory, and an open-addressing index of their keys: 8 bytes a slot, of which
 * 16 bits of the hash reject nearly every wrong row without reading it. A match is always verified by comparing the
 * keys. Rows are looked up in tiles, in three steps that ask the memory ahead, so that the cache misses of many rows
 * overlap each other and other work. It is not a ctr_index, because 16 bytes a slot would double the misses.
 *
 * Invariant: the result depends only on the order of rows, never on addresses or hashes. */
#include "common/rows/joincore.h"

#include <stdlib.h>

#define ADDRESS  (((uint64_t)1 << 48) - 1)
#define NO_GROUP (UINT64_MAX >> 1)
#define MARKED   (~(UINT64_MAX >> 1))

static inline const uint8_t *slot_row(uint64_t slot)
{
    return (const uint8_t *)(uintptr_t)(slot & ADDRESS);
}

void ctr_jointable_init(struct ctr_jointable *t, struct ctr_join *j)
{
    int64_t block = CTR_MIN(j->budget / 16, 8 << 20);

    *t = (struct ctr_jointable){ .format = &j->format,
                                 .pair = j->pair,
                                 .npairs = j->npairs,
                                 .time_col = j->rtime,
                                 .grouped = j->opts.multi || j->rtime >= 0 };
    ctr_rowarena_init(&t->arena, (size_t)CTR_MAX(block, 4096));
}

void ctr_jointable_free(struct ctr_jointable *t)
{
    ctr_rowarena_free(&t->arena);
    ctr_buf_free(&t->hash);
    ctr_buf_free(&t->start);
    ctr_buf_free(&t->slots);
    free(t->group_rows);
    free(t->group_time);
    t->slot = NULL;
    t->group_rows = NULL;
    t->group_time = NULL;
    t->rows = 0;
}

static uint64_t table_slots(int64_t rows)
{
    uint64_t n = 64;

    while (n < (uint64_t)rows + (uint64_t)rows / 2)
        n *= 2;
    return n;
}

int64_t ctr_jointable_bytes(const struct ctr_jointable *t, int64_t more_rows)
{
    int64_t rows = t->rows + more_rows;

    return t->arena.in_use + rows * 8 + (int64_t)table_slots(rows) * 8 + (t->grouped ? rows * 24 : 0);
}

int ctr_jointable_add(struct ctr_jointable *t, const struct ctr_col *cols, const uint64_t *hash, const int64_t *idx,
                      int n, const uint64_t *tags, struct ctr_err *err)
{
    uint8_t *at[CTR_ROW_TILE];
    int rc = ctr_rowarena_add(&t->arena, t->format, cols, idx, n, tags, at, err);

    if (!rc)
        rc = ctr_buf_reserve(&t->hash, (size_t)n * 8, err);
    if (rc)
        return rc;
    for (int i = 0; i < n; i++, t->hash.len += 8) {
        memcpy(t->hash.data + t->hash.len, &hash[idx[i]], 8);
        t->widest = CTR_MAX(t->widest, ctr_row_size(at[i]));
    }
    t->rows += n;
    return 0;
}

int ctr_jointable_add_row(struct ctr_jointable *t, const uint8_t *row, uint64_t hash, struct ctr_err *err)
{
    uint32_t size = ctr_row_size(row);
    uint8_t *at;
    int rc = ctr_rowarena_place(&t->arena, &size, 1, &at, err);

    if (!rc)
        rc = ctr_buf_append(&t->hash, &hash, 8, err);
    if (rc)
        return rc;
    memcpy(at, row, size);
    t->widest = CTR_MAX(t->widest, size);
    t->rows++;
    return 0;
}

/* ---- building ---- */

static bool key_is_null(const struct ctr_jointable *t, const uint8_t *row)
{
    for (int k = 0; k < t->npairs; k++)
        if (ctr_row_null(t->format, row, t->pair[k].right))
            return true;
    return t->time_col >= 0 && ctr_row_null(t->format, row, t->time_col);
}

static bool same_key(const struct ctr_jointable *t, const uint8_t *a, const uint8_t *b)
{
    for (int k = 0; k < t->npairs; k++)
        if (!ctr_row_same(t->format, t->pair[k].right, a, b))
            return false;
    return true;
}

static int key_text(const struct ctr_join *j, const uint8_t *row, struct ctr_buf *out, struct ctr_err *err)
{
    int rc = 0;

    for (int k = 0; !rc && k < j->npairs; k++) {
        int col = j->pair[k].right;
        struct ctr_colbuf b;
        rc = ctr_colbuf_init(&b, &(struct ctr_field){ .type = j->right.f[col].type }, err);
        if (!rc)
            rc = ctr_row_read(&j->format, col, &row, 1, &b, err);
        if (!rc)
            rc = ctr_buf_printf(out, err, "%s%s=", k ? ", " : "", j->right.f[col].name);
        if (!rc)
            rc = ctr_col_text(ctr_colbuf_view(&b), 0, out, err);
        ctr_colbuf_free(&b);
    }
    return rc ? rc : ctr_buf_append(out, "", 1, err);
}

static int fail_duplicate(const struct ctr_join *j, const uint8_t *first, const uint8_t *second, struct ctr_err *err)
{
    struct ctr_buf text = { 0 };
    int rc = key_text(j, first, &text, err);

    if (!rc) {
        ctr_err_file(err, j->right_name);
        rc = ctr_fail(err, CTR_EDATA, "rows %llu and %llu have the same key %.300s: %s joins all of them, %s",
                      (unsigned long long)ctr_row_tag(first) + 1, (unsigned long long)ctr_row_tag(second) + 1,
                      (const char *)text.data, ctr_word(j->opts.in_plan, "--multi"),
                      ctr_join_first_alone(j->opts.in_plan));
    }
    ctr_buf_free(&text);
    return rc;
}

static void set_tag(uint8_t *row, uint64_t tag)
{
    memcpy(row + 4, &tag, 8);
}

static int new_group(struct ctr_jointable *t, uint8_t *row, struct ctr_err *err)
{
    int64_t one = 1;

    set_tag(row, t->start.len / 8);
    return ctr_buf_append(&t->start, &one, 8, err);
}

static int insert(struct ctr_jointable *t, const struct ctr_join *j, uint8_t *row, uint64_t hash, struct ctr_err *err)
{
    uint64_t tag = hash & ~ADDRESS, at = hash & t->mask;

    if (key_is_null(t, row)) {
        if (t->grouped)
            set_tag(row, NO_GROUP);
        return 0;
    }
    for (; t->slot[at]; at = (at + 1) & t->mask) {
        const uint8_t *other = slot_row(t->slot[at]);
        if ((t->slot[at] & ~ADDRESS) != tag || !same_key(t, other, row))
            continue;
        if (!t->grouped)
            return fail_duplicate(j, other, row, err);
        set_tag(row, ctr_row_tag(other));
        ((int64_t *)t->start.data)[ctr_row_tag(other)]++;
        return 0;
    }
    if ((uintptr_t)row & ~ADDRESS)
        return ctr_fail(err, CTR_ENOMEM, "an address has more than 48 bits");
    t->slot[at] = tag | (uint64_t)(uintptr_t)row;
    return t->grouped ? new_group(t, row, err) : 0;
}

/* Convert the counts in start[] to positions; copy rows to their groups in order. */
static int fill_groups(struct ctr_jointable *t, struct ctr_err *err)
{
    int64_t groups = (int64_t)(t->start.len / 8), sum = 0, *start;
    int rc = ctr_buf_append(&t->start, &sum, 8, err);

    t->group_rows = malloc(((size_t)t->rows + 1) * sizeof *t->group_rows);
    if (rc || !t->group_rows)
        return rc ? rc : ctr_fail_nomem(err, (size_t)t->rows * sizeof *t->group_rows);
    start = (int64_t *)t->start.data;
    for (int64_t g = groups; g > 0; g--) /* start[g + 1] is where group g is filled */
        start[g] = start[g - 1];
    start[0] = 0;
    for (int64_t g = 0; g < groups; g++) {
        int64_t n = start[g + 1];
        start[g + 1] = sum;
        sum += n;
    }
    for (int b = 0; b < t->arena.n; b++)
        for (size_t at = 0; at < t->arena.block[b].used; at += ctr_row_size(t->arena.block[b].data + at)) {
            const uint8_t *row = t->arena.block[b].data + at;
            if (ctr_row_tag(row) != NO_GROUP)
                t->group_rows[start[ctr_row_tag(row) + 1]++] = row;
        }
    return 0;
}

/* Sort the rows of a group by time, stably. */
static int sort_group(struct ctr_jointable *t, int64_t from, int64_t n, struct ctr_err *err)
{
    struct ctr_roworder order = { .format = t->format, .exact = true };
    struct ctr_rowref *refs = malloc((size_t)n * 2 * sizeof *refs), *a = refs, *b = refs ? refs + n : NULL;

    if (!refs)
        return ctr_fail_nomem(err, (size_t)n * 2 * sizeof *refs);
    for (int64_t i = 0; i < n; i++)
        a[i] = (struct ctr_rowref){ (uint64_t)t->group_time[from + i] ^ (uint64_t)1 << 63, 0, t->group_rows[from + i] };
    ctr_rowrefs_sort(&order, &a, &b, n);
    for (int64_t i = 0; i < n; i++) {
        t->group_rows[from + i] = a[i].row;
        t->group_time[from + i] = (int64_t)(a[i].hi ^ (uint64_t)1 << 63);
    }
    free(refs);
    return 0;
}

static int sort_groups(struct ctr_jointable *t, struct ctr_err *err)
{
    const int64_t *start = (const int64_t *)t->start.data;
    int64_t groups = (int64_t)(t->start.len / 8) - 1;
    int rc = 0;

    t->group_time = malloc(((size_t)t->rows + 1) * sizeof *t->group_time);
    if (!t->group_time)
        return ctr_fail_nomem(err, (size_t)t->rows * sizeof *t->group_time);
    for (int64_t g = 0; !rc && g < groups; g++) {
        bool sorted = true;
        for (int64_t i = start[g]; i < start[g + 1]; i++) {
            t->group_time[i] = ctr_row_i64(t->format, t->group_rows[i], t->time_col);
            sorted &= i == start[g] || t->group_time[i - 1] <= t->group_time[i];
        }
        if (!sorted)
            rc = sort_group(t, start[g], start[g + 1] - start[g], err);
    }
    return rc;
}

int ctr_jointable_build(struct ctr_jointable *t, const struct ctr_join *j, struct ctr_err *err)
{
    const uint64_t *hash = (const uint64_t *)t->hash.data;
    uint64_t slots = table_slots(t->rows);
    int64_t i = 0;
    int rc = 0;

    t->mask = slots - 1;
    if ((rc = ctr_buf_room(&t->slots, (int64_t)slots, sizeof *t->slot, err)))
        return rc;
    t->slot = memset(t->slots.data, 0, slots * sizeof *t->slot);
    for (int b = 0; !rc && b < t->arena.n; b++)
        for (size_t at = 0; !rc && at < t->arena.block[b].used; i++) {
            uint8_t *row = t->arena.block[b].data + at;
            at += ctr_row_size(row);
            if (i + 16 < t->rows)
                __builtin_prefetch(&t->slot[hash[i + 16] & t->mask], 1);
            rc = insert(t, j, row, hash[i], err);
        }
    ctr_buf_free(&t->hash);
    if (!rc && t->grouped)
        rc = fill_groups(t, err);
    if (!rc && t->time_col >= 0)
        rc = sort_groups(t, err);
    return rc;
}

/* ---- probing ---- */

static bool left_equals(const struct ctr_jointable *t, const struct ctr_batch *b, int64_t i, const uint8_t *row)
{
    uint8_t same = 1;

    for (int k = 0; k < t->npairs; k++)
        ctr_keys_verify(&t->pair[k], t->format, &b->col[t->pair[k].left], i, &row, 1, &same);
    return same;
}

/* The first row with a matching tag had another key: continue one by one. This happens once in 2^16 occupied slots. */
static const uint8_t *probe_slow(const struct ctr_jointable *t, const struct ctr_batch *b, int64_t i, uint64_t hash)
{
    for (uint64_t at = hash & t->mask; t->slot[at]; at = (at + 1) & t->mask)
        if (!((t->slot[at] ^ hash) & ~ADDRESS) && left_equals(t, b, i, slot_row(t->slot[at])))
            return slot_row(t->slot[at]);
    return NULL;
}

void ctr_jointable_ask(const struct ctr_jointable *t, const uint64_t *hash, int n)
{
    for (int i = 0; i < n; i++)
        __builtin_prefetch(&t->slot[hash[i] & t->mask]);
}

void ctr_jointable_find(const struct ctr_jointable *t, const uint64_t *hash, const uint8_t *null, int n,
                        const uint8_t **head)
{
    for (int i = 0; i < n; i++) {
        uint64_t at = hash[i] & t->mask;
        while (t->slot[at] && (t->slot[at] ^ hash[i]) & ~ADDRESS)
            at = (at + 1) & t->mask;
        head[i] = null[i] ? NULL : slot_row(t->slot[at]);
        const uint8_t *row = head[i] ? head[i] : t->format->none;
        __builtin_prefetch(row);
        __builtin_prefetch(row + t->format->fixed_bytes); /* the start of the variable part */
    }
}

void ctr_jointable_verify(const struct ctr_jointable *t, const struct ctr_batch *b, int64_t first, int n,
                          const uint64_t *hash, const uint8_t **head)
{
    uint8_t same[CTR_ROW_TILE];

    memset(same, 1, (size_t)n);
    for (int k = 0; k < t->npairs; k++)
        ctr_keys_verify(&t->pair[k], t->format, &b->col[t->pair[k].left], first, head, n, same);
    for (int i = 0; i < n; i++)
        if (!same[i])
            head[i] = probe_slow(t, b, first + i, hash[i]);
}

/* First position in [from, to) whose time is >= `time`. */
static int64_t lower_bound(const int64_t *times, int64_t from, int64_t to, int64_t time)
{
    while (from < to) {
        int64_t mid = from + (to - from) / 2;
        if (times[mid] < time)
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

const uint8_t *ctr_jointable_at(const struct ctr_jointable *t, const struct ctr_join_opts *o, const uint8_t *head,
                                int64_t time)
{
    const int64_t *start = (const int64_t *)t->start.data + ctr_jointable_group(head);
    const bool after = o->at == CTR_JOIN_AS_OF && o->inclusive; /* begin after the rows of this time */
    int64_t at = after && time == INT64_MAX ? start[1] : lower_bound(t->group_time, start[0], start[1], time + after);
    uint64_t away;

    at -= o->at == CTR_JOIN_AS_OF;
    if (at < start[0] || at >= start[1])
        return NULL;
    away = o->at == CTR_JOIN_AS_OF ? (uint64_t)time - (uint64_t)t->group_time[at]
                                   : (uint64_t)t->group_time[at] - (uint64_t)time;
    return o->within_ms >= 0 && away > (uint64_t)o->within_ms ? NULL : t->group_rows[at];
}

/* ---- right rows without a match ---- */

int64_t ctr_jointable_mark(const uint8_t *const *row, int64_t n)
{
    enum { AHEAD = 16 };
    int64_t marked = 0;

    for (int64_t i = 0; i < n; i++) {
        if (i + AHEAD < n)
            __builtin_prefetch(row[i + AHEAD], 1);
        if (!row[i])
            continue;
        marked++;
        if (!(ctr_row_tag(row[i]) & MARKED))
            set_tag((uint8_t *)(uintptr_t)row[i], ctr_row_tag(row[i]) | MARKED);
    }
    return marked;
}

int64_t ctr_jointable_unmatched(const struct ctr_jointable *t)
{
    const int64_t *start = (const int64_t *)t->start.data;
    const bool by_group = t->grouped && t->time_col < 0;
    int64_t n = 0;

    for (int b = 0; b < t->arena.n; b++)
        for (size_t at = 0; at < t->arena.block[b].used; at += ctr_row_size(t->arena.block[b].data + at)) {
            const uint8_t *row = t->arena.block[b].data + at;
            if (by_group && ctr_jointable_group(row) != NO_GROUP)
                row = t->group_rows[start[ctr_jointable_group(row)]];
            n += !(ctr_row_tag(row) & MARKED);
        }
    return n;
}
