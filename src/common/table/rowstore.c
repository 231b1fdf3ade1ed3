/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows on disk. See rowstore.h.
 *
 * Both files are unnamed. The file of rows holds records: a key, a checksum of both, and the row; a key's record never
 * moves. The index file is a hash table of entries, key to record, with linear probing, doubled when fuller than 7/10.
 * An entry has its own checksum, and refers to a record with the same key.
 *
 * Both files are mapped, so that what is used of them is in the system's page cache, and a row costs two misses of the
 * processor's cache and no call of the system. Rows are looked up in groups: the entries of a group are prefetched,
 * then the records.
 *
 * Rows are written in place, not appended to files that are compacted where half of their rows are stale. Nothing here
 * outlives the process, so that an old version of a row has no reader: checkpoints hold what a crash must not lose. In
 * place a row takes its bytes once, and there is nothing to compact; appended, a table of which each row is written
 * often would take up to twice the disk, and each row be copied again by compaction, for writes in sequence that the
 * page cache, which gathers the writes of a page, needs on spinning disks alone. */
#include "common/table/rowstore.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { GROUP = 64, FIRST_ENTRIES = 1 << 10, FIRST_BYTES = 1 << 16, RANGE_KEYS = 1 << 20, AHEAD = 16 };

#define AS(type, buf) ((type *)(void *)(buf).data)

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
    uint8_t *record;            /* the file of rows */
    size_t mapped;              /* bytes of it */
    struct ctr_buf keys;        /* u64, by table: how many */
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
static void *map(int fd, void *old, size_t before, size_t bytes)
{
    int failed;
    while ((failed = posix_fallocate(fd, (off_t)before, (off_t)(bytes - before))) == EINTR)
        ;
    errno = failed;
    void *p = failed ? MAP_FAILED
              : old  ? mremap(old, before, bytes, MREMAP_MAYMOVE)
                     : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return NULL;
    (void)madvise(p, bytes, MADV_RANDOM);
    return p;
}

static int map_index(struct ctr_rowstore *s, uint64_t size, struct entry **index, int *fd, struct ctr_err *err)
{
    *fd = ctr_tmpfile_in(s->dir, err);
    if (*fd < 0)
        return *fd;
    *index = map(*fd, NULL, 0, size * sizeof **index);
    if (!*index) {
        const int rc = fail_sys(s, "cannot grow the index", err);
        close(*fd);
        return rc;
    }
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
    int rc = ctr_strdup(&s->dir, dir, err);
    if (!rc && (s->rows = ctr_tmpfile_in(dir, err)) < 0)
        rc = s->rows;
    if (!rc)
        rc = grow(s, err);
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
    if (s->record)
        munmap(s->record, s->mapped);
    if (s->rows >= 0)
        close(s->rows);
    if (s->table >= 0)
        close(s->table);
    ctr_changed_free(&s->changed);
    ctr_buf_free(&s->keys);
    free(s->dir);
    free(s);
}

int ctr_rowstore_file(const struct ctr_rowstore *s, bool index)
{
    return index ? s->table : s->rows;
}

/* ---- rows ---- */

static struct record *record_at(const struct ctr_rowstore *s, uint64_t place)
{
    return (struct record *)(void *)(s->record + place * s->bytes);
}

static void prefetch_record(const struct ctr_rowstore *s, uint64_t place)
{
    const uint8_t *r = s->record + place * s->bytes;
    __builtin_prefetch(r);
    __builtin_prefetch(r + s->bytes - 1);
}

static void prefetch_entry(const struct ctr_rowstore *s, const struct ctr_rowkey *key)
{
    __builtin_prefetch(&s->index[mix(key->table, key->key) & (s->size - 1)]);
}

static uint32_t sum_of(const struct ctr_rowstore *s, const struct record *r)
{
    return (uint32_t)ctr_hash64(r + 1, (size_t)s->floats * sizeof(float), r->key ^ (uint64_t)r->table << 40);
}

static void write_record(struct ctr_rowstore *s, const struct ctr_rowkey *key, uint64_t place, const float *row)
{
    struct record *r = record_at(s, place);
    r->key = key->key;
    r->table = key->table;
    memcpy(r + 1, row, (size_t)s->floats * sizeof *row);
    r->sum = sum_of(s, r);
    if (s->changed.on)
        ctr_changed_note(&s->changed, place);
}

/* The record of a key at a place, or NULL: it is damaged. */
static const struct record *record_of(const struct ctr_rowstore *s, uint32_t table, uint64_t key, uint64_t place)
{
    const struct record *r = place < s->used ? record_at(s, place) : NULL;
    return r && r->key == key && r->table == table && r->sum == sum_of(s, r) ? r : NULL;
}

static int add_table(struct ctr_rowstore *s, uint32_t table, struct ctr_err *err)
{
    const size_t bytes = ((size_t)table + 1) * sizeof(uint64_t);
    int rc = bytes > s->keys.len ? ctr_buf_reserve(&s->keys, bytes - s->keys.len, err) : 0;
    if (!rc && bytes > s->keys.len) {
        memset(s->keys.data + s->keys.len, 0, bytes - s->keys.len);
        s->keys.len = bytes;
    }
    return rc;
}

/* Room for `extra` more keys. */
static int reserve(struct ctr_rowstore *s, uint64_t extra, struct ctr_err *err)
{
    const uint64_t keys = s->used + extra, page = 1 << 12;
    const size_t need = keys * s->bytes;
    int rc = keys < UINT32_MAX ? 0 : ctr_fail(err, CTR_EDATA, "rows on disk: more than 2^32 keys");
    while (!rc && keys * 10 > s->size * 7)
        rc = grow(s, err);
    if (!rc && need > s->mapped) {
        const size_t bytes = (need + need / 4 + FIRST_BYTES) / page * page;
        uint8_t *record = map(s->rows, s->record, s->mapped, bytes);
        if (!record)
            return fail_sys(s, "cannot grow the file", err);
        s->record = record;
        s->mapped = bytes;
    }
    return rc ? rc : ctr_changed_room(&s->changed, keys, err);
}

/* The place of a key, which gets one. */
static int give_place(struct ctr_rowstore *s, const struct ctr_rowkey *key, uint64_t *place, struct ctr_err *err)
{
    struct entry *e = find(s, key->table, key->key);
    if (!e)
        return damaged(s, "index", err);
    if (!e->place) {
        int rc = add_table(s, key->table, err);
        if (rc)
            return rc;
        *e = (struct entry){ key->key, (uint32_t)++s->used, (uint16_t)key->table, 0 };
        e->check = check_of(e);
        AS(uint64_t, s->keys)[key->table]++;
    }
    *place = e->place - 1;
    return 0;
}

/* At most GROUP rows. */
static int put_group(struct ctr_rowstore *s, const struct ctr_rowkey *key, int64_t n, const float *rows,
                     struct ctr_err *err)
{
    uint64_t place[GROUP];
    int rc = reserve(s, (uint64_t)n, err);
    for (int64_t i = 0; i < n && !rc; i++)
        prefetch_entry(s, &key[i]);
    for (int64_t i = 0; i < n && !rc; i++)
        if (!(rc = give_place(s, &key[i], &place[i], err)))
            prefetch_record(s, place[i]);
    for (int64_t i = 0; i < n && !rc; i++)
        write_record(s, &key[i], place[i], rows + i * s->floats);
    return rc;
}

int ctr_rowstore_put(struct ctr_rowstore *s, const struct ctr_rowkey *key, int64_t n, const float *rows,
                     struct ctr_err *err)
{
    int rc = 0;
    for (int64_t at = 0; at < n && !rc; at += GROUP)
        rc = put_group(s, key + at, CTR_MIN(n - at, GROUP), rows + at * s->floats, err);
    return rc;
}

/* Of at most GROUP keys. */
static int get_group(struct ctr_rowstore *s, struct ctr_rowkey *key, int64_t n, float *const *rows, struct ctr_err *err)
{
    for (int64_t i = 0; i < n; i++)
        prefetch_entry(s, &key[i]);
    for (int64_t i = 0; i < n; i++) {
        const struct entry *e = find(s, key[i].table, key[i].key);
        if (!e)
            return damaged(s, "index", err);
        key[i].place = e->place;
        if (e->place)
            prefetch_record(s, e->place - 1);
    }
    for (int64_t i = 0; i < n; i++) {
        const struct record *r = key[i].place ? record_of(s, key[i].table, key[i].key, key[i].place - 1) : NULL;
        if (r)
            memcpy(rows[i], r + 1, (size_t)s->floats * sizeof *rows[i]);
        else if (key[i].place)
            return damaged(s, "rows", err);
    }
    return 0;
}

int ctr_rowstore_get(struct ctr_rowstore *s, struct ctr_rowkey *key, int64_t n, float *const *rows, struct ctr_err *err)
{
    int rc = 0;
    for (int64_t at = 0; at < n && !rc; at += GROUP)
        rc = get_group(s, key + at, CTR_MIN(n - at, GROUP), rows + at, err);
    return rc;
}

/* ---- all rows ---- */

int ctr_rowstore_changes(struct ctr_rowstore *s, enum ctr_changes what, struct ctr_err *err)
{
    return ctr_changed_set(&s->changed, what, s->used, err);
}

/* Collect the keys of a table in [low, high], with their places. */
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
        const struct ctr_sparse_numbered at = { e->key, e->place - 1 };
        rc = e->check == check_of(e) ? ctr_buf_append(to, &at, sizeof at, err) : damaged(s, "index", err);
    }
    return rc;
}

static int visit(const struct ctr_rowstore *s, uint32_t table, const struct ctr_sparse_numbered *at, size_t n,
                 ctr_embedding_each *each, void *ctx, struct ctr_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        if (i + AHEAD < n)
            prefetch_record(s, at[i + AHEAD].number);
        const struct record *r = record_of(s, table, at[i].key, at[i].number);
        rc = r ? each(ctx, at[i].key, (const float *)(const void *)(r + 1), err) : damaged(s, "rows", err);
    }
    return rc;
}

/* Sorts ranges of keys, each with a pass over the index, so that it needs little memory. */
int ctr_rowstore_each(struct ctr_rowstore *s, uint32_t table, ctr_embedding_each *each, void *ctx, struct ctr_err *err)
{
    const uint64_t keys = (table + 1) * sizeof keys <= s->keys.len ? AS(uint64_t, s->keys)[table] : 0;
    const uint64_t ranges = keys / RANGE_KEYS + 1, span = UINT64_MAX / ranges;
    struct ctr_buf some = { 0 }, other = { 0 };
    int rc = 0;
    for (uint64_t r = 0; r < ranges && keys && !rc; r++) {
        const uint64_t low = r * span + (r > 0), high = r + 1 < ranges ? (r + 1) * span : UINT64_MAX;
        rc = collect(s, table, low, high, &some, err);
        const size_t n = some.len / sizeof(struct ctr_sparse_numbered);
        if (!rc)
            rc = ctr_buf_room(&other, (int64_t)n, sizeof(struct ctr_sparse_numbered), err);
        if (!rc && n)
            rc = visit(s, table,
                       ctr_sparse_sort(AS(struct ctr_sparse_numbered, some), AS(struct ctr_sparse_numbered, other), n),
                       n, each, ctx, err);
    }
    ctr_buf_free(&some);
    ctr_buf_free(&other);
    return rc;
}

int ctr_rowstore_summary(const struct ctr_rowstore_told *t, struct ctr_buf *text, struct ctr_err *err)
{
    return ctr_buf_printf(text, err,
                          "memory rows          %" PRId64 " (%s)\n"
                          "memory hits          %" PRId64 " (%.1f%%)\n"
                          "memory misses        %" PRId64 "\n"
                          "memory evictions     %" PRId64 "\n"
                          "disk rows asked for  %" PRId64 " (%s)\n"
                          "disk rows written    %" PRId64 " (%s)\n"
                          "disk waited for      %.3f s\n",
                          t->rows, ctr_size_text((uint64_t)t->bytes).s, t->hits,
                          100 * (double)t->hits / (double)CTR_MAX(t->hits + t->misses, 1), t->misses, t->evictions,
                          t->read, ctr_size_text((uint64_t)(t->read * t->row_bytes)).s, t->written,
                          ctr_size_text((uint64_t)(t->written * t->row_bytes)).s, t->waited);
}
