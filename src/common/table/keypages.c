/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows on disk by table and key. See keypages.h.
 *
 *     pages of a table   first key, place, rows     in memory, in the order of keys
 *     page               key state key state …      a row of the rowfile
 *
 * A page that gets no row keeps its place. Pages that are changed are dropped and written anew at the end of the file.
 * The rows of adjacent changed pages are divided evenly among as few pages as they need, so that pages stay full where
 * many change. */
#include "common/table/keypages.h"

#include <stdlib.h>

#define AS(type, buf) ((type *)(void *)(buf).data)

enum {
    PAGE = 4096,
    GROUP_PART = 32, /* of memory, for the pages of a group; */
    MOST_GROUP = 1024,
    OUT = 16, /* pages: so many are filled together */
};

struct page {
    uint64_t first; /* key */
    uint32_t place, rows;
};

struct pages {
    struct ctr_buf page; /* struct page */
    int64_t rows;
};

/* A page of a group, and the keys that belong to it: from the end of those of the part before. */
struct part {
    int64_t page; /* of the table; it has none yet: 0 */
    int64_t end;
};

struct ctr_keypages {
    struct ctr_rowfile *file;
    uint32_t row, page_rows; /* bytes of a row; rows of a full page */
    int64_t group;           /* pages read at a time */
    int64_t out_pages;       /* pages written together; twice as many rows wait for it */
    struct pages *table;
    int tables;
    uint8_t *buffer, *one; /* a group; a page to be written */
    struct part *part;
    struct ctr_numbered *get; /* of the group, twice */
    struct ctr_buf out, next; /* rows, and pages of the table, that a put makes */
};

/* With room for four rows in a page, a table of the pages a [2 5 7], b [11 14] and c [20 30]; a put of 5, 9 and 12:
 *
 *     choose        parts: a gets 5 9, b gets 12 (a key belongs to the last page that starts at or before it)
 *     read_parts    a and b, by place, in one ctr_rowfile_get
 *     merge         out: 2 5' 7 9, then 11 12 14 behind it, as b follows a directly; the places of a and b are dropped
 *     write_all     seven rows, evenly, on two pages: [2 5' 7] and [9 11 12 14]
 *     keep_pages    c keeps its place
 *
 * The list of pages is made anew in `next` and exchanged at the end. A put into an empty table merges with nothing. */

static uint64_t key_of(const uint8_t *row)
{
    uint64_t key;
    memcpy(&key, row, sizeof key);
    return key;
}

static int64_t page_count(const struct pages *t)
{
    return (int64_t)(t->page.len / sizeof(struct page));
}

/* ---- open and free ---- */

int ctr_keypages_open(struct ctr_keypages **out, const char *dir, uint32_t state_bytes, int64_t memory,
                      struct ctr_err *err)
{
    struct ctr_keypages *p = calloc(1, sizeof *p);
    if (!p)
        return ctr_fail_nomem(err, sizeof *p);
    p->row = CTR_KEYPAGES_KEY + state_bytes;
    p->page_rows = PAGE / p->row;
    p->group = CTR_MIN(CTR_MAX(memory / GROUP_PART / PAGE, 1), MOST_GROUP);
    p->out_pages = CTR_MIN(p->group, OUT);
    const size_t group = (size_t)p->group;
    p->buffer = malloc(group * PAGE);
    p->one = calloc(1, PAGE);
    p->part = malloc(group * sizeof *p->part);
    p->get = malloc(2 * group * sizeof *p->get);
    int rc = p->buffer && p->one && p->part && p->get ? 0 : ctr_fail_nomem(err, group * PAGE);
    if (!rc)
        rc = ctr_rowfile_open(&p->file, dir, PAGE / sizeof(float), true, memory, err);
    if (rc) {
        ctr_keypages_free(p);
        return rc;
    }
    *out = p;
    return 0;
}

void ctr_keypages_free(struct ctr_keypages *p)
{
    if (!p)
        return;
    for (int t = 0; t < p->tables; t++)
        ctr_buf_free(&p->table[t].page);
    free(p->table);
    ctr_rowfile_free(p->file);
    ctr_buf_free(&p->out);
    ctr_buf_free(&p->next);
    free(p->buffer);
    free(p->one);
    free(p->part);
    free(p->get);
    free(p);
}

int ctr_keypages_bind(struct ctr_keypages *p, int tables, struct ctr_err *err)
{
    return ctr_array_extend(&p->table, &p->tables, tables, sizeof *p->table, err);
}

int64_t ctr_keypages_count(const struct ctr_keypages *p, int table)
{
    int64_t n = table < 0 ? 0 : p->table[table].rows;
    for (int t = 0; t < p->tables && table < 0; t++)
        n += p->table[t].rows;
    return n;
}

int64_t ctr_keypages_memory(const struct ctr_keypages *p)
{
    int64_t n = ctr_rowfile_memory(p->file) + (p->group + 2 * p->out_pages + 1) * PAGE + (int64_t)p->next.cap;
    for (int t = 0; t < p->tables; t++)
        n += (int64_t)p->table[t].page.cap;
    return n;
}

struct ctr_rowfile_moved ctr_keypages_moved(const struct ctr_keypages *p)
{
    return ctr_rowfile_moved(p->file);
}

/* ---- groups of pages ---- */

/* The page, from `from` on, whose rows are around a key: the last one that starts at or before it, or the first. */
static int64_t find_page(const struct page *page, int64_t from, int64_t n, uint64_t key)
{
    int64_t low = from, high = n; /* it is in [low, high) */
    if (low + 1 >= n || key < page[low + 1].first)
        return low;
    while (high - low > 1) {
        const int64_t mid = low + (high - low) / 2;
        if (page[mid].first <= key)
            low = mid;
        else
            high = mid;
    }
    return low;
}

/* The pages of the keys from `at` on, as many as a group has; returns how many. The first is `from` or a later one. */
static int64_t choose(const struct ctr_keypages *p, const struct pages *t, const struct ctr_numbered *key, int64_t at,
                      int64_t n, int64_t from)
{
    const struct page *page = AS(const struct page, t->page);
    const int64_t pages = page_count(t);
    int64_t k = 0;
    for (; at < n && k < p->group; k++) {
        from = find_page(page, from, pages, key[at].key);
        while (at < n && (from + 1 >= pages || key[at].key < page[from + 1].first))
            at++;
        p->part[k] = (struct part){ from++, at };
    }
    return k;
}

/* Read the pages of n parts into the buffer. */
static int read_parts(const struct ctr_keypages *p, const struct pages *t, int64_t n, struct ctr_err *err)
{
    for (int64_t i = 0; i < n; i++)
        p->get[i] = (struct ctr_numbered){ AS(const struct page, t->page)[p->part[i].page].place, (uint64_t)i };
    return ctr_rowfile_get(p->file, p->get, n, (float *)(void *)p->buffer, err);
}

/* ---- get ---- */

/* The first row from `from` on whose key is not below. */
static uint32_t find_row(const struct ctr_keypages *p, const uint8_t *rows, uint32_t from, uint32_t n, uint64_t key)
{
    while (from < n) {
        const uint32_t mid = from + (n - from) / 2;
        if (key_of(rows + mid * p->row) < key)
            from = mid + 1;
        else
            n = mid;
    }
    return from;
}

static int take_found(const struct ctr_keypages *p, const uint8_t *rows, uint32_t count, const struct ctr_numbered *key,
                      int64_t n, ctr_keypages_take *take, void *ctx, struct ctr_err *err)
{
    uint32_t at = 0;
    int rc = 0;
    for (int64_t i = 0; i < n && !rc; i++) {
        at = find_row(p, rows, at, count, key[i].key);
        if (at < count && key_of(rows + at * p->row) == key[i].key)
            rc = take(ctx, rows + at * p->row, err);
    }
    return rc;
}

int ctr_keypages_get(struct ctr_keypages *p, int table, const struct ctr_numbered *key, int64_t n,
                     ctr_keypages_take *take, void *ctx, struct ctr_err *err)
{
    const struct pages *t = &p->table[table];
    const struct page *page = AS(const struct page, t->page);
    int rc = 0;
    for (int64_t at = 0, from = 0, k; at < n && page_count(t) && !rc; from = p->part[k - 1].page) {
        k = choose(p, t, key, at, n, from);
        rc = read_parts(p, t, k, err);
        for (int64_t i = 0; i < k && !rc; i++) {
            const int64_t end = p->part[i].end;
            rc = take_found(p, p->buffer + i * PAGE, page[p->part[i].page].rows, key + at, end - at, take, ctx, err);
            at = end;
        }
    }
    return rc;
}

/* ---- put ---- */

static int write_page(struct ctr_keypages *p, const uint8_t *rows, uint32_t n, struct ctr_err *err)
{
    struct page page = { .first = key_of(rows), .rows = n };
    memcpy(p->one, rows, (size_t)n * p->row);
    memset(p->one + n * p->row, 0, PAGE - n * p->row);
    int rc = ctr_rowfile_add(p->file, (const float *)(const void *)p->one, &page.place, err);
    return rc ? rc : ctr_buf_append(&p->next, &page, sizeof page, err);
}

/* Write the first n rows of `out`, evenly, to as few pages as they need. */
static int write_rows(struct ctr_keypages *p, int64_t n, struct ctr_err *err)
{
    const int64_t pages = (n + p->page_rows - 1) / p->page_rows;
    int rc = 0;
    for (int64_t i = 0; i < pages && !rc; i++) {
        const int64_t from = n * i / pages, end = n * (i + 1) / pages;
        rc = write_page(p, p->out.data + from * p->row, (uint32_t)(end - from), err);
    }
    p->out.len -= (size_t)n * p->row;
    memmove(p->out.data, p->out.data + n * p->row, p->out.len);
    return rc;
}

static int write_all(struct ctr_keypages *p, struct ctr_err *err)
{
    return write_rows(p, (int64_t)(p->out.len / p->row), err);
}

/* Add rows to `out`, and write the first of them when it is full. */
static int add_rows(struct ctr_keypages *p, const uint8_t *rows, uint32_t n, struct ctr_err *err)
{
    const int64_t full = p->out_pages * p->page_rows;
    int rc = ctr_buf_append(&p->out, rows, (size_t)n * p->row, err);
    return rc || p->out.len < (size_t)(2 * full) * p->row ? rc : write_rows(p, full, err);
}

static int add_state(struct ctr_keypages *p, const struct ctr_keypages_rows *r, int64_t i, struct ctr_err *err)
{
    uint8_t row[PAGE];
    memcpy(row, &r->place[i].key, CTR_KEYPAGES_KEY);
    memcpy(row + CTR_KEYPAGES_KEY, r->state + r->place[i].number * r->stride, p->row - CTR_KEYPAGES_KEY);
    return add_rows(p, row, 1, err);
}

/* Add the rows of a page and those of [at, end), which replace it where keys are equal. */
static int merge(struct ctr_keypages *p, const uint8_t *rows, uint32_t count, const struct ctr_keypages_rows *r,
                 int64_t at, int64_t end, int64_t *replaced, struct ctr_err *err)
{
    uint32_t done = 0;
    int rc = 0;
    for (; at < end && !rc; at++) {
        const uint32_t upto = find_row(p, rows, done, count, r->place[at].key);
        if (upto > done)
            rc = add_rows(p, rows + done * p->row, upto - done, err);
        done = upto;
        if (done < count && key_of(rows + done * p->row) == r->place[at].key) {
            done++;
            ++*replaced;
        }
        if (!rc)
            rc = add_state(p, r, at, err);
    }
    return rc || done == count ? rc : add_rows(p, rows + done * p->row, count - done, err);
}

/* Pages [from, to) of the table stay as they are. */
static int keep_pages(struct ctr_keypages *p, const struct pages *t, int64_t from, int64_t to, struct ctr_err *err)
{
    int rc = from < to ? write_all(p, err) : 0;
    return rc || from >= to ? rc
                            : ctr_buf_append(&p->next, AS(const struct page, t->page) + from,
                                             (size_t)(to - from) * sizeof(struct page), err);
}

/* Merge rows [at, …) into k pages that were read. *from: the first page of the table that is not dealt with. */
static int merge_parts(struct ctr_keypages *p, const struct pages *t, int64_t k, const struct ctr_keypages_rows *r,
                       int64_t at, int64_t *from, int64_t *replaced, struct ctr_err *err)
{
    int rc = 0;
    for (int64_t i = 0; i < k && !rc; i++) {
        const struct page *page = AS(const struct page, t->page) + p->part[i].page;
        rc = keep_pages(p, t, *from, p->part[i].page, err);
        ctr_rowfile_drop(p->file, page->place);
        if (!rc)
            rc = merge(p, p->buffer + i * PAGE, page->rows, r, at, p->part[i].end, replaced, err);
        at = p->part[i].end;
        *from = p->part[i].page + 1;
    }
    return rc;
}

int ctr_keypages_put(struct ctr_keypages *p, int table, const struct ctr_keypages_rows *r, int64_t *replaced,
                     struct ctr_err *err)
{
    struct pages *t = &p->table[table];
    const int64_t pages = page_count(t), before = *replaced;
    int64_t from = 0, at = 0;
    int rc = 0;
    ctr_buf_clear(&p->next);
    ctr_buf_clear(&p->out);
    if (!pages)
        rc = merge(p, p->buffer, 0, r, 0, at = r->n, replaced, err);
    while (at < r->n && !rc) {
        const int64_t k = choose(p, t, r->place, at, r->n, from);
        rc = read_parts(p, t, k, err);
        if (!rc)
            rc = merge_parts(p, t, k, r, at, &from, replaced, err);
        at = p->part[k - 1].end;
    }
    if (!rc)
        rc = write_all(p, err);
    if (!rc)
        rc = keep_pages(p, t, from, pages, err);
    const struct ctr_buf old = t->page;
    t->page = p->next;
    p->next = old;
    t->rows += r->n - (*replaced - before);
    return rc;
}

/* ---- room on disk ---- */

static int move_parts(struct ctr_keypages *p, struct pages *t, int64_t n, struct ctr_err *err)
{
    int rc = n ? read_parts(p, t, n, err) : 0;
    for (int64_t i = 0; i < n && !rc; i++) {
        struct page *page = AS(struct page, t->page) + p->part[i].page;
        const uint32_t old = page->place;
        rc = ctr_rowfile_add(p->file, (const float *)(const void *)(p->buffer + i * PAGE), &page->place, err);
        ctr_rowfile_drop(p->file, old);
    }
    return rc;
}

int ctr_keypages_settle(struct ctr_keypages *p, struct ctr_err *err)
{
    int rc = 0;
    for (int t = 0; t < p->tables && !rc && ctr_rowfile_wasteful(p->file); t++) {
        struct pages *own = &p->table[t];
        int64_t n = 0;
        for (int64_t i = 0; i < page_count(own) && !rc; i++) {
            if (ctr_rowfile_stale(p->file, AS(struct page, own->page)[i].place))
                p->part[n++].page = i;
            if (n < p->group)
                continue;
            rc = move_parts(p, own, n, err);
            n = 0;
        }
        if (!rc)
            rc = move_parts(p, own, n, err);
    }
    return rc;
}

/* ---- all rows ---- */

int ctr_keypages_each(struct ctr_keypages *p, int table, ctr_keypages_page *each, void *ctx, struct ctr_err *err)
{
    const struct pages *t = &p->table[table];
    const int64_t pages = page_count(t);
    int rc = 0;
    for (int64_t at = 0, n; at < pages && !rc; at += n) {
        n = CTR_MIN(pages - at, p->group);
        for (int64_t i = 0; i < n; i++)
            p->part[i].page = at + i;
        rc = read_parts(p, t, n, err);
        for (int64_t i = 0; i < n && !rc; i++)
            rc = each(ctx, p->buffer + i * PAGE, AS(const struct page, t->page)[at + i].rows, p->row, err);
    }
    return rc;
}
