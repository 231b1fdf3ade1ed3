/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows on disk. See rowstore.h.
 *
 * The file `rows` holds records: a row, its key, and a checksum of both; a key keeps the place of its record. The file
 * `index` is a hash table of entries, key to place, probed one after another and doubled where it is fuller than 7/10;
 * it is mapped, so that the system's cache holds what is used of it and the memory of the process does not. An entry
 * has a check of its own, and names a record that has the same key. */
#include "common/table/rowstore.h"

#include <dirent.h>
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

/* In front of a record's floats. */
struct record {
    uint64_t key;
    uint32_t table, sum;
};

struct ctr_rowstore {
    char *folder;
    int lock, rows, generation; /* descriptors; of the index's file */
    int32_t floats;
    size_t bytes; /* of a record */
    struct entry *index;
    uint64_t size, used; /* entries, a power of two; keys */
    uint8_t *some;       /* AT_ONCE records */
};

static int fail_sys(const struct ctr_rowstore *s, const char *what, struct ctr_err *err)
{
    (void)ctr_fail_sys(err, "rows on disk: %s", what);
    ctr_err_file(err, s->folder);
    return err->code;
}

static int damaged(const struct ctr_rowstore *s, const char *file, struct ctr_err *err)
{
    (void)ctr_fail(err, CTR_ESYS, "rows on disk: the file '%s' is damaged: its checksums are wrong", file);
    ctr_err_file(err, s->folder);
    return err->code;
}

/* ---- folders ---- */

#define PREFIX "ctr-spill."

/* The files of a folder, then the folder; it holds none but files. */
static void remove_folder(const char *path)
{
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));)
        (void)unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
    (void)rmdir(path);
}

/* A store locks the file LOCK of its folder. */
static bool is_abandoned(const char *folder)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    char path[4200];
    snprintf(path, sizeof path, "%s/LOCK", folder);
    const int fd = ctr_open(path, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0)
        return false;
    const bool abandoned = !fcntl(fd, F_SETLK, &lock);
    close(fd);
    return abandoned;
}

/* Of processes that were killed. A folder's name has the number of its process. */
static void remove_abandoned(const char *dir)
{
    char path[4096], own[64];
    DIR *d = opendir(dir);
    snprintf(own, sizeof own, PREFIX "%ld.", (long)getpid());
    for (struct dirent *e; d && (e = readdir(d));) {
        if (strncmp(e->d_name, PREFIX, sizeof PREFIX - 1) != 0 || !strncmp(e->d_name, own, strlen(own)))
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (is_abandoned(path))
            remove_folder(path);
    }
    if (d)
        closedir(d);
}

static int make_folder(struct ctr_rowstore *s, const char *dir, struct ctr_err *err)
{
    struct ctr_buf path = { 0 };
    remove_abandoned(dir);
    int rc = ctr_buf_printf(&path, err, "%s/" PREFIX "%ld.XXXXXX", dir, (long)getpid());
    if (!rc && !mkdtemp((char *)path.data)) {
        rc = ctr_fail_sys(err, "rows on disk: cannot make a folder in it");
        ctr_err_file(err, dir);
    }
    if (!rc)
        rc = ctr_strdup(&s->folder, (const char *)path.data, err);
    ctr_buf_free(&path);
    return rc;
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

/* The entry of a key, or the empty one where it would stand; NULL: one is damaged. */
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

static void index_path(const struct ctr_rowstore *s, int generation, char path[4200])
{
    snprintf(path, 4200, "%.4000s/index.%d", s->folder, generation);
}

/* Room on disk is taken before the file is mapped: a full disk is an error here, not a signal when it is written to. */
static int map_index(struct ctr_rowstore *s, uint64_t size, struct entry **index, struct ctr_err *err)
{
    char path[4200];
    index_path(s, s->generation + 1, path);
    const int fd = ctr_open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return fail_sys(s, "cannot make a file", err);
    errno = posix_fallocate(fd, 0, (off_t)(size * sizeof **index));
    int rc = errno ? fail_sys(s, "cannot grow the index", err) : 0;
    void *p = rc ? MAP_FAILED : mmap(NULL, size * sizeof **index, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (!rc && p == MAP_FAILED)
        rc = fail_sys(s, "cannot map the index", err);
    close(fd);
    if (rc)
        return rc;
    (void)madvise(p, size * sizeof **index, MADV_RANDOM);
    s->generation++;
    *index = p;
    return 0;
}

static int grow(struct ctr_rowstore *s, struct ctr_err *err)
{
    struct entry *const old = s->index;
    const uint64_t before = s->size;
    struct entry *index = NULL;
    char path[4200];
    int rc = map_index(s, before ? 2 * before : FIRST_ENTRIES, &index, err);
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
    index_path(s, s->generation - 1, path);
    (void)unlink(path);
    return rc;
}

/* ---- open and free ---- */

static int open_files(struct ctr_rowstore *s, struct ctr_err *err)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    char path[4200];
    snprintf(path, sizeof path, "%.4000s/LOCK", s->folder);
    s->lock = ctr_open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (s->lock < 0 || fcntl(s->lock, F_SETLK, &lock))
        return fail_sys(s, "cannot make a file", err);
    snprintf(path, sizeof path, "%.4000s/rows", s->folder);
    s->rows = ctr_open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (s->rows < 0)
        return fail_sys(s, "cannot make a file", err);
    (void)posix_fadvise(s->rows, 0, 0, POSIX_FADV_RANDOM);
    return grow(s, err);
}

int ctr_rowstore_open(struct ctr_rowstore **out, const char *dir, int32_t floats, struct ctr_err *err)
{
    struct ctr_rowstore *s = calloc(1, sizeof *s);
    if (!s)
        return ctr_fail_nomem(err, sizeof *s);
    s->lock = s->rows = -1;
    s->floats = floats;
    s->bytes = (sizeof(struct record) + (size_t)floats * sizeof(float) + 7) / 8 * 8;
    s->some = calloc(AT_ONCE, s->bytes);
    int rc = s->some ? make_folder(s, dir, err) : ctr_fail_nomem(err, AT_ONCE * s->bytes);
    if (!rc)
        rc = open_files(s, err);
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
    if (s->folder)
        remove_folder(s->folder);
    if (s->lock >= 0) /* it is locked until the folder is gone */
        close(s->lock);
    free(s->folder);
    free(s->some);
    free(s);
}

const char *ctr_rowstore_folder(const struct ctr_rowstore *s)
{
    return s->folder;
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

/* The row at a place, into `to`. */
static int read_record(struct ctr_rowstore *s, const struct ctr_rowkey *key, uint64_t place, float *to,
                       struct ctr_err *err)
{
    struct record *r = (struct record *)(void *)s->some;
    ssize_t k;
    while ((k = pread(s->rows, r, s->bytes, (off_t)(place * s->bytes))) < 0 && errno == EINTR)
        ;
    if (k < 0)
        return fail_sys(s, "cannot read", err);
    if ((size_t)k < s->bytes || r->key != key->key || r->table != key->table || r->sum != sum_of(s, r))
        return damaged(s, "rows", err);
    memcpy(to, r + 1, (size_t)s->floats * sizeof *to);
    return 0;
}

/* At most AT_ONCE rows: those of keys that have a place go there, the others together behind all. */
static int put_some(struct ctr_rowstore *s, const struct ctr_rowkey *key, int64_t n, const float *rows,
                    struct ctr_err *err)
{
    const uint64_t before = s->used;
    uint64_t fresh = 0;
    int rc = before + AT_ONCE < UINT32_MAX ? 0 : ctr_fail(err, CTR_EDATA, "rows on disk: more than 2^32 keys");
    while (!rc && (before + AT_ONCE) * 10 > s->size * 7)
        rc = grow(s, err);
    for (int64_t i = 0; i < n && !rc; i++) {
        struct entry *e = find(s, key[i].table, key[i].key);
        uint8_t *to = s->some + fresh * s->bytes;
        if (!e) {
            rc = damaged(s, "index", err);
            break;
        }
        make_record(s, &key[i], rows + i * s->floats, to);
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
        k = CTR_MIN(n - at, AT_ONCE - 1); /* one record more is made to be written to its place */
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

/* The entries of a table with keys in [low, high]. */
static int collect(const struct ctr_rowstore *s, uint32_t table, uint64_t low, uint64_t high, struct ctr_buf *to,
                   struct ctr_err *err)
{
    int rc = 0;
    ctr_buf_clear(to);
    for (uint64_t i = 0; i < s->size && !rc; i++) {
        const struct entry *e = &s->index[i];
        if (!e->place || e->table != table || e->key < low || e->key > high)
            continue;
        rc = e->check == check_of(e) ? ctr_buf_append(to, &(struct at){ e->key, e->place - 1 }, sizeof(struct at), err)
                                     : damaged(s, "index", err);
    }
    return rc;
}

/* In ranges of keys, which costs a walk over the index each, so that their order takes little memory. */
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
