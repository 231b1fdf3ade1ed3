/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows on disk. See rowstore.h.
 *
 * Both files are unnamed. The file of rows holds records: a key, a checksum of both, and the row; a key's record never
 * moves. The index file is a hash table of entries, key to record, with linear probing, doubled when fuller than 7/10;
 * it is mapped, so that its used parts are in the system's page cache and not in the process's memory. An entry has its
 * own checksum, and refers to a record with the same key. */
#include "common/table/rowstore.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { AT_ONCE = 256, FIRST_ENTRIES = 1 << 10, RANGE_KEYS = 1 << 20 };

struct entry {
    uint64_t key;
    uint32_t place; /* + 1; 0: empty */
    uint16_t table, check;
};

/* Precedes a record's floats. */
struct record {
    uint64_t key;
    uint32_t table, sum;
};

struct ctr_rowstore {
    char *dir;       /* for messages */
    int rows, table; /* file descriptors: of the rows, of the index */
    int32_t floats;
    size_t bytes; /* of a record */
    struct entry *index;
    uint64_t size, used;        /* entries, a power of two; keys */
    uint8_t *some;              /* buffer for AT_ONCE records */
    struct ctr_changed changed; /* by place */
};

static int fail_sys(const struct ctr_rowstore *s, const char *what, struct ctr_err *err)
{
    (void)ctr_fail_sys(err, "rows on disk: %s", what);
    ctr_err_file(err, s->dir);
    return err->code;
}

static int damaged(const struct ctr_rowstore *s, const char *file, struct ctr_err *err)
{
    (void)ctr_fail(err, CTR_ESYS, "rows on disk: the file '%s' is damaged: its checksums are wrong", file);
    ctr_err_file(err, s->dir);
    return err->code;
}

/* ---- the index ---- */

static uint64_t mix(uint32_t table, uint64_t key)
{
    return ctr_mix64(ctr_sparse_secret(key) ^ table);
}

static uint16_t check_of(const struct entry *e)
{
    return (uint16_t)ctr_mix64(e->key ^ (uint64_t)e->table << 32 ^ (uint64_t)e->place * 0x9e3779b97f4a7c15u);
}

/* The entry of a key, or the empty one where it belongs; NULL: an entry is damaged. */
static struct entry *find(const struct ctr_rowstore *s, uint32_t table, uint64_t key)
{
    for (uint64_t at = mix(table, key);; at++) {
        struct entry *e = &s->index[at & (s->size - 1)];
        if (e->place && e->check != check_of(e))
            return NULL;
        if (!e->place || (e->key == key && e->table == table))
            return e;
    }
}

/* Disk space is allocated before the file is mapped, so that a full disk is an error here and not a signal later. */
static int map_index(struct ctr_rowstore *s, uint64_t size, struct entry **index, int *fd, struct ctr_err *err)
{
    *fd = ctr_tmpfile_in(s->dir, err);
    if (*fd < 0)
        return *fd;
    int failed;
    while ((failed = posix_fallocate(*fd, 0, (off_t)(size * sizeof **index))) == EINTR)
        ;
    errno = failed;
    void *p = failed ? MAP_FAILED : mmap(NULL, size * sizeof **index, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (p == MAP_FAILED) {
        const int rc = fail_sys(s, "cannot grow the index", err);
        close(*fd);
        return rc;
    }
    (void)madvise(p, size * sizeof **index, MADV_RANDOM);
    *index = p;
    return 0;
}

static int grow(struct ctr_rowstore *s, struct ctr_err *err)
{
    struct entry *const old = s->index;
    const uint64_t before = s->size;
    struct entry *index = NULL;
    int fd, rc = map_index(s, before ? 2 * before : FIRST_ENTRIES, &index, &fd, err);
    if (rc)
        return rc;
    s->index = index;
    s->size = before ? 2 * before : FIRST_ENTRIES;
    for (uint64_t i = 0; i < before && !rc; i++) {
        struct entry *to = old[i].place ? find(s, old[i].table, old[i].key) : NULL;
        if (old[i].place && (!to || old[i].check != check_of(&old[i])))
            rc = damaged(s, "index", err);
        else if (to)
            *to = old[i];
    }
    if (old)
        munmap(old, before * sizeof *old);
    if (s->table >= 0)
        close(s->table);
    s->table = fd;
    return rc;
}

/* ---- open and free ---- */

int ctr_rowstore_open(struct ctr_rowstore **out, const char *dir, int32_t floats, struct ctr_err *err)
{
    struct ctr_rowstore *s = calloc(1, sizeof *s);
    if (!s)
        return ctr_fail_nomem(err, sizeof *s);
    s->rows = s->table = -1;
    s->floats = floats;
    s->bytes = (sizeof(struct record) + (size_t)floats * sizeof(float) + 7) / 8 * 8;
    s->some = calloc(AT_ONCE, s->bytes);
    int rc = s->some ? ctr_strdup(&s->dir, dir, err) : ctr_fail_nomem(err, AT_ONCE * s->bytes);
    if (!rc && (s->rows = ctr_tmpfile_in(dir, err)) < 0)
        rc = s->rows;
    if (!rc) {
        (void)posix_fadvise(s->rows, 0, 0, POSIX_FADV_RANDOM);
        rc = grow(s, err);
    }
    if (rc)
        ctr_rowstore_free(s);
    else
        *out = s;
    return rc;
}

void ctr_rowstore_free(struct ctr_rowstore *s)
{
    if (!s)
        return;
    if (s->index)
        munmap(s->index, s->size * sizeof *s->index);
    if (s->rows >= 0)
        close(s->rows);
    if (s->table >= 0)
        close(s->table);
    ctr_changed_free(&s->changed);
    free(s->dir);
    free(s->some);
    free(s);
}

int ctr_rowstore_file(const struct ctr_rowstore *s, bool index)
{
    return index ? s->table : s->rows;
}

/* ---- rows ---- */

static uint32_t sum_of(const struct ctr_rowstore *s, const struct record *r)
{
    return (uint32_t)ctr_hash64(r + 1, (size_t)s->floats * sizeof(float), r->key ^ (uint64_t)r->table << 40);
}

static void make_record(const struct ctr_rowstore *s, const struct ctr_rowkey *key, const float *row, uint8_t *to)
{
    struct record *r = (struct record *)(void *)to;
    r->key = key->key;
    r->table = key->table;
    memcpy(r + 1, row, (size_t)s->floats * sizeof *row);
    r->sum = sum_of(s, r);
}

static int write_records(struct ctr_rowstore *s, uint64_t place, const uint8_t *from, uint64_t n, struct ctr_err *err)
{
    const size_t bytes = n * s->bytes;
    for (size_t done = 0; done < bytes;) {
        const ssize_t k = pwrite(s->rows, from + done, bytes - done, (off_t)(place * s->bytes + done));
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return fail_sys(s, "cannot write", err);
        done += (size_t)k;
    }
    return 0;
}

/* Read the row at a place into `to`. */
static int read_record(struct ctr_rowstore *s, const struct ctr_rowkey *key, uint64_t place, float *to,
                       struct ctr_err *err)
{
    struct record *r = (struct record *)(void *)s->some;
    size_t got = 0;
    while (got < s->bytes) {
        const ssize_t k = pread(s->rows, s->some + got, s->bytes - got, (off_t)(place * s->bytes + got));
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return fail_sys(s, "cannot read", err);
        if (!k)
            break;
        got += (size_t)k;
    }
    if (got < s->bytes || r->key != key->key || r->table != key->table || r->sum != sum_of(s, r))
        return damaged(s, "rows", err);
    memcpy(to, r + 1, (size_t)s->floats * sizeof *to);
    return 0;
}

/* Write at most AT_ONCE rows: existing keys in place, new ones together at the end. */
static int put_some(struct ctr_rowstore *s, const struct ctr_rowkey *key, int64_t n, const float *rows,
                    struct ctr_err *err)
{
    const uint64_t before = s->used;
    uint64_t fresh = 0;
    int rc = before + AT_ONCE < UINT32_MAX ? 0 : ctr_fail(err, CTR_EDATA, "rows on disk: more than 2^32 keys");
    while (!rc && (before + AT_ONCE) * 10 > s->size * 7)
        rc = grow(s, err);
    if (!rc)
        rc = ctr_changed_room(&s->changed, before + AT_ONCE, err);
    for (int64_t i = 0; i < n && !rc; i++) {
        struct entry *e = find(s, key[i].table, key[i].key);
        uint8_t *to = s->some + fresh * s->bytes;
        if (!e) {
            rc = damaged(s, "index", err);
            break;
        }
        make_record(s, &key[i], rows + i * s->floats, to);
        if (s->changed.on)
            ctr_changed_note(&s->changed, e->place ? e->place - 1 : before + fresh);
        if (e->place) {
            rc = write_records(s, e->place - 1, to, 1, err);
            continue;
        }
        *e = (struct entry){ key[i].key, (uint32_t)(before + ++fresh), (uint16_t)key[i].table, 0 };
        e->check = check_of(e);
    }
    s->used += fresh;
    return rc ? rc : write_records(s, before, s->some, fresh, err);
}

int ctr_rowstore_put(struct ctr_rowstore *s, const struct ctr_rowkey *key, int64_t n, const float *rows,
                     struct ctr_err *err)
{
    int rc = 0;
    for (int64_t at = 0, k; at < n && !rc; at += k) {
        k = CTR_MIN(n - at, AT_ONCE - 1); /* one extra record is a buffer for writing in place */
        rc = put_some(s, key + at, k, rows + at * s->floats, err);
    }
    return rc;
}

int ctr_rowstore_get(struct ctr_rowstore *s, const struct ctr_rowkey *key, int64_t n, float *const *rows, bool *found,
                     struct ctr_err *err)
{
    enum { AHEAD = 8 };
    int rc = 0;
    for (int64_t i = 0; i < n && !rc; i++) {
        if (i + AHEAD < n)
            __builtin_prefetch(&s->index[mix(key[i + AHEAD].table, key[i + AHEAD].key) & (s->size - 1)]);
        const struct entry *e = find(s, key[i].table, key[i].key);
        found[i] = e && e->place;
        if (!e)
            rc = damaged(s, "index", err);
        else if (e->place)
            rc = read_record(s, &key[i], e->place - 1, rows[i], err);
    }
    return rc;
}

/* ---- rows in order ---- */

struct at {
    uint64_t key;
    uint32_t place;
};

static int by_key(const void *a, const void *b)
{
    const uint64_t x = ((const struct at *)a)->key, y = ((const struct at *)b)->key;
    return x < y ? -1 : x > y;
}

/* Collect the entries of a table with keys in [low, high]. */
static int collect(const struct ctr_rowstore *s, uint32_t table, uint64_t low, uint64_t high, struct ctr_buf *to,
                   struct ctr_err *err)
{
    int rc = 0;
    ctr_buf_clear(to);
    for (uint64_t i = 0; i < s->size && !rc; i++) {
        const struct entry *e = &s->index[i];
        if (!e->place || e->table != table || e->key < low || e->key > high)
            continue;
        if (ctr_changed_skips(&s->changed, e->place - 1))
            continue;
        rc = e->check == check_of(e) ? ctr_buf_append(to, &(struct at){ e->key, e->place - 1 }, sizeof(struct at), err)
                                     : damaged(s, "index", err);
    }
    return rc;
}

int ctr_rowstore_changes(struct ctr_rowstore *s, enum ctr_changes what, struct ctr_err *err)
{
    return ctr_changed_set(&s->changed, what, s->used, err);
}

/* Sorts ranges of keys, each with a pass over the index, so that it needs little memory. */
int ctr_rowstore_each(struct ctr_rowstore *s, uint32_t table, ctr_embedding_each *each, void *ctx, struct ctr_err *err)
{
    const uint64_t ranges = s->used / RANGE_KEYS + 1, span = UINT64_MAX / ranges;
    float *row = malloc((size_t)s->floats * sizeof *row);
    struct ctr_buf some = { 0 };
    int rc = row ? 0 : ctr_fail_nomem(err, (size_t)s->floats * sizeof *row);
    for (uint64_t r = 0; r < ranges && !rc; r++) {
        const uint64_t low = r * span + (r > 0), high = r + 1 < ranges ? (r + 1) * span : UINT64_MAX;
        rc = collect(s, table, low, high, &some, err);
        const int64_t n = (int64_t)(some.len / sizeof(struct at));
        struct at *at = (struct at *)(void *)some.data;
        if (n && !rc)
            qsort(at, (size_t)n, sizeof *at, by_key);
        for (int64_t i = 0; i < n && !rc; i++) {
            rc = read_record(s, &(struct ctr_rowkey){ table, at[i].key }, at[i].place, row, err);
            if (!rc)
                rc = each(ctx, at[i].key, row, err);
        }
    }
    ctr_buf_free(&some);
    free(row);
    return rc;
}
