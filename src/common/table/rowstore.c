/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows on disk. See rowstore.h.
 *
 * A key in RocksDB is table and key, big-endian, so that its order is that of both; a value is the row's floats. */
#include "common/table/rowstore.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- the library ---- */

/* What is used of rocksdb/c.h; its types are all behind pointers. */
#define CALLS(X)                                                                                                       \
    X(void *, options_create, (void))                                                                                  \
    X(void, options_destroy, (void *))                                                                                 \
    X(void, options_set_create_if_missing, (void *, unsigned char))                                                    \
    X(void, options_set_error_if_exists, (void *, unsigned char))                                                      \
    X(void, options_set_write_buffer_size, (void *, size_t))                                                           \
    X(void, options_set_max_write_buffer_number, (void *, int))                                                        \
    X(void, options_set_target_file_size_base, (void *, uint64_t))                                                     \
    X(void, options_set_max_bytes_for_level_base, (void *, uint64_t))                                                  \
    X(void, options_set_compression, (void *, int))                                                                    \
    X(void, options_set_max_open_files, (void *, int))                                                                 \
    X(void, options_set_info_log_level, (void *, int))                                                                 \
    X(void, options_set_stats_dump_period_sec, (void *, unsigned))                                                     \
    X(void, options_set_block_based_table_factory, (void *, void *))                                                   \
    X(void *, block_based_options_create, (void))                                                                      \
    X(void, block_based_options_destroy, (void *))                                                                     \
    X(void, block_based_options_set_filter_policy, (void *, void *))                                                   \
    X(void, block_based_options_set_block_cache, (void *, void *))                                                     \
    X(void, block_based_options_set_cache_index_and_filter_blocks, (void *, unsigned char))                            \
    X(void, block_based_options_set_format_version, (void *, int))                                                     \
    X(void *, filterpolicy_create_bloom_full, (double))                                                                \
    X(void *, cache_create_lru, (size_t))                                                                              \
    X(void, cache_destroy, (void *))                                                                                   \
    X(void *, readoptions_create, (void))                                                                              \
    X(void, readoptions_destroy, (void *))                                                                             \
    X(void, readoptions_set_verify_checksums, (void *, unsigned char))                                                 \
    X(void, readoptions_set_fill_cache, (void *, unsigned char))                                                       \
    X(void *, writeoptions_create, (void))                                                                             \
    X(void, writeoptions_destroy, (void *))                                                                            \
    X(void, writeoptions_disable_WAL, (void *, int))                                                                   \
    X(void *, flushoptions_create, (void))                                                                             \
    X(void, flushoptions_destroy, (void *))                                                                            \
    X(void *, open_column_families,                                                                                    \
      (const void *, const char *, int, const char *const *, const void *const *, void **, char **))                   \
    X(void, column_family_handle_destroy, (void *))                                                                    \
    X(void, close, (void *))                                                                                           \
    X(void *, writebatch_create, (void))                                                                               \
    X(void, writebatch_destroy, (void *))                                                                              \
    X(void, writebatch_clear, (void *))                                                                                \
    X(void, writebatch_put, (void *, const char *, size_t, const char *, size_t))                                      \
    X(void, write, (void *, const void *, void *, char **))                                                            \
    X(void, flush, (void *, const void *, char **))                                                                    \
    X(void, batched_multi_get_cf,                                                                                      \
      (void *, const void *, void *, size_t, const char *const *, const size_t *, void **, char **, bool))             \
    X(const char *, pinnableslice_value, (const void *, size_t *))                                                     \
    X(void, pinnableslice_destroy, (void *))                                                                           \
    X(void *, create_iterator, (void *, const void *))                                                                 \
    X(void, iter_destroy, (void *))                                                                                    \
    X(void, iter_seek, (void *, const char *, size_t))                                                                 \
    X(unsigned char, iter_valid, (const void *))                                                                       \
    X(void, iter_next, (void *))                                                                                       \
    X(const char *, iter_key, (const void *, size_t *))                                                                \
    X(const char *, iter_value, (const void *, size_t *))                                                              \
    X(void, iter_get_error, (const void *, char **))                                                                   \
    X(void, free, (void *))

static struct {
    void *handle;
#define MEMBER(type, name, args) type(*name) args;
    CALLS(MEMBER)
} rocks; /* opened once, never closed: its threads stay */

static int open_library(struct ctr_err *err)
{
    static const char *const names[] = { "librocksdb.so", "librocksdb.so.7.8", "librocksdb.so.8.9",
                                         "librocksdb.so.9.10", "librocksdb.so.9.11" };
    for (size_t i = 0; i < CTR_COUNT(names) && !rocks.handle; i++)
        rocks.handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!rocks.handle)
        return ctr_fail(err, CTR_EUSAGE, "rows on disk need RocksDB, which is not there (Debian: librocksdb-dev)");
#define LOAD(type, name, args)                                                                                         \
    *(void **)&rocks.name = dlsym(rocks.handle, "rocksdb_" #name);                                                     \
    if (!rocks.name)                                                                                                   \
        return ctr_fail(err, CTR_EUSAGE, "rows on disk: librocksdb has no rocksdb_" #name ": it is too old");
    CALLS(LOAD)
    return 0;
}

bool ctr_rowstore_available(struct ctr_err *err)
{
    return !open_library(err);
}

struct ctr_rowstore {
    char *folder;
    void *db, *family, *cache, *read, *scan, *write, *batch;
    int32_t floats;
};

enum { KEY_BYTES = 12, AT_ONCE = 256 };

static void make_key(char to[KEY_BYTES], uint32_t table, uint64_t key)
{
    for (int i = 0; i < 4; i++)
        to[i] = (char)(table >> (24 - 8 * i));
    for (int i = 0; i < 8; i++)
        to[4 + i] = (char)(key >> (56 - 8 * i));
}

static uint64_t key_of(const char *from)
{
    uint64_t key = 0;
    for (int i = 4; i < KEY_BYTES; i++)
        key = key << 8 | (uint8_t)from[i];
    return key;
}

/* 0, or an error made of RocksDB's text, which is freed. */
static int check(const struct ctr_rowstore *s, char *text, struct ctr_err *err)
{
    if (!text)
        return 0;
    (void)ctr_fail(err, CTR_ESYS, "rows on disk: %s", text);
    ctr_err_file(err, s->folder);
    rocks.free(text);
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

/* RocksDB locks the file LOCK while it has a folder open. */
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

/* ---- open and free ---- */

/* Half of the memory for blocks, a quarter for each of two buffers of rows that wait to be written. */
static void *make_options(struct ctr_rowstore *s, int64_t memory)
{
    enum { LEAST = 1 << 16, BLOOM_BITS = 10, FORMAT = 5, FATAL = 4, OPEN_FILES = 500 };
    const uint64_t buffer = (uint64_t)CTR_MAX(memory / 4, LEAST);
    void *o = rocks.options_create(), *table = rocks.block_based_options_create();
    s->cache = rocks.cache_create_lru((size_t)CTR_MAX(memory / 2, LEAST));
    rocks.block_based_options_set_block_cache(table, s->cache);
    rocks.block_based_options_set_cache_index_and_filter_blocks(table, 1);
    rocks.block_based_options_set_filter_policy(table, rocks.filterpolicy_create_bloom_full(BLOOM_BITS));
    rocks.block_based_options_set_format_version(table, FORMAT);
    rocks.options_set_create_if_missing(o, 1);
    rocks.options_set_error_if_exists(o, 1);
    rocks.options_set_write_buffer_size(o, buffer);
    rocks.options_set_max_write_buffer_number(o, 2);
    rocks.options_set_target_file_size_base(o, CTR_MAX(4 * buffer, 1 << 22));
    rocks.options_set_max_bytes_for_level_base(o, CTR_MAX(16 * buffer, 1 << 24));
    rocks.options_set_compression(o, 0); /* floats that are learned do not compress */
    rocks.options_set_max_open_files(o, OPEN_FILES);
    rocks.options_set_info_log_level(o, FATAL);
    rocks.options_set_stats_dump_period_sec(o, 0);
    rocks.options_set_block_based_table_factory(o, table);
    rocks.block_based_options_destroy(table);
    return o;
}

static int open_db(struct ctr_rowstore *s, int64_t memory, struct ctr_err *err)
{
    void *options = make_options(s, memory);
    char *text = NULL;
    s->db = rocks.open_column_families(options, s->folder, 1, (const char *const[]){ "default" },
                                       (const void *const[]){ options }, &s->family, &text);
    rocks.options_destroy(options);
    s->read = rocks.readoptions_create();
    s->scan = rocks.readoptions_create();
    s->write = rocks.writeoptions_create();
    s->batch = rocks.writebatch_create();
    rocks.readoptions_set_verify_checksums(s->read, 1);
    rocks.readoptions_set_verify_checksums(s->scan, 1);
    rocks.readoptions_set_fill_cache(s->scan, 0);
    rocks.writeoptions_disable_WAL(s->write, 1);
    return check(s, text, err);
}

int ctr_rowstore_open(struct ctr_rowstore **out, const char *dir, int32_t floats, int64_t memory, struct ctr_err *err)
{
    int rc = open_library(err);
    if (rc)
        return rc;
    struct ctr_rowstore *s = calloc(1, sizeof *s);
    if (!s)
        return ctr_fail_nomem(err, sizeof *s);
    s->floats = floats;
    rc = make_folder(s, dir, err);
    if (!rc)
        rc = open_db(s, memory, err);
    if (rc)
        ctr_rowstore_free(s);
    else
        *out = s;
    return rc;
}

void ctr_rowstore_free(struct ctr_rowstore *s)
{
    const struct {
        void *p;
        void (*free)(void *);
    } parts[] = { { s->batch, rocks.writebatch_destroy },
                  { s->write, rocks.writeoptions_destroy },
                  { s->scan, rocks.readoptions_destroy },
                  { s->read, rocks.readoptions_destroy },
                  { s->family, rocks.column_family_handle_destroy },
                  { s->db, rocks.close },
                  { s->cache, rocks.cache_destroy } };
    for (size_t i = 0; i < CTR_COUNT(parts); i++)
        if (parts[i].p)
            parts[i].free(parts[i].p);
    if (s->folder)
        remove_folder(s->folder);
    free(s->folder);
    free(s);
}

const char *ctr_rowstore_folder(const struct ctr_rowstore *s)
{
    return s->folder;
}

/* ---- rows ---- */

int ctr_rowstore_put(struct ctr_rowstore *s, const struct ctr_rowkey *key, int64_t n, const float *rows,
                     struct ctr_err *err)
{
    const size_t bytes = (size_t)s->floats * sizeof *rows;
    int rc = 0;
    for (int64_t at = 0, k; at < n && !rc; at += k) {
        char name[KEY_BYTES], *text = NULL;
        k = CTR_MIN(n - at, AT_ONCE);
        rocks.writebatch_clear(s->batch);
        for (int64_t i = at; i < at + k; i++) {
            make_key(name, key[i].table, key[i].key);
            rocks.writebatch_put(s->batch, name, sizeof name, (const char *)(rows + i * s->floats), bytes);
        }
        rocks.write(s->db, s->write, s->batch, &text);
        rc = check(s, text, err);
    }
    return rc;
}

static int take_row(const struct ctr_rowstore *s, const char *from, size_t bytes, float *to, struct ctr_err *err)
{
    if (bytes == (size_t)s->floats * sizeof *to) {
        memcpy(to, from, bytes);
        return 0;
    }
    (void)ctr_fail(err, CTR_ESYS, "rows on disk: a row has %zu bytes, not %zu", bytes, (size_t)s->floats * sizeof *to);
    ctr_err_file(err, s->folder);
    return err->code;
}

/* At most AT_ONCE. */
static int get_some(struct ctr_rowstore *s, const struct ctr_rowkey *key, int64_t n, float *const *rows, bool *found,
                    struct ctr_err *err)
{
    char name[AT_ONCE][KEY_BYTES], *text[AT_ONCE] = { NULL };
    const char *names[AT_ONCE];
    size_t sizes[AT_ONCE];
    void *value[AT_ONCE] = { NULL };
    int rc = 0;
    for (int64_t i = 0; i < n; i++) {
        make_key(name[i], key[i].table, key[i].key);
        names[i] = name[i];
        sizes[i] = KEY_BYTES;
    }
    rocks.batched_multi_get_cf(s->db, s->read, s->family, (size_t)n, names, sizes, value, text, false);
    for (int64_t i = 0; i < n; i++) {
        if (text[i] && rc)
            rocks.free(text[i]);
        else if (text[i])
            rc = check(s, text[i], err);
        size_t bytes = 0;
        const char *from = value[i] ? rocks.pinnableslice_value(value[i], &bytes) : NULL;
        found[i] = from;
        if (from && !rc)
            rc = take_row(s, from, bytes, rows[i], err);
        if (value[i])
            rocks.pinnableslice_destroy(value[i]);
    }
    return rc;
}

int ctr_rowstore_get(struct ctr_rowstore *s, const struct ctr_rowkey *key, int64_t n, float *const *rows, bool *found,
                     struct ctr_err *err)
{
    int rc = 0;
    for (int64_t at = 0, k; at < n && !rc; at += k) {
        k = CTR_MIN(n - at, AT_ONCE);
        rc = get_some(s, key + at, k, rows + at, found + at, err);
    }
    return rc;
}

int ctr_rowstore_each(struct ctr_rowstore *s, uint32_t table, ctr_embedding_each *each, void *ctx, struct ctr_err *err)
{
    float *row = malloc((size_t)s->floats * sizeof *row);
    char first[KEY_BYTES], *text = NULL;
    void *it = rocks.create_iterator(s->db, s->scan);
    int rc = row ? 0 : ctr_fail_nomem(err, (size_t)s->floats * sizeof *row);
    make_key(first, table, 0);
    for (rocks.iter_seek(it, first, sizeof first); !rc && rocks.iter_valid(it); rocks.iter_next(it)) {
        size_t bytes;
        const char *key = rocks.iter_key(it, &bytes);
        if (bytes != KEY_BYTES || memcmp(key, first, 4) != 0)
            break;
        const char *value = rocks.iter_value(it, &bytes);
        rc = take_row(s, value, bytes, row, err);
        if (!rc)
            rc = each(ctx, key_of(key), row, err);
    }
    rocks.iter_get_error(it, &text);
    if (text && rc)
        rocks.free(text);
    else if (text)
        rc = check(s, text, err);
    rocks.iter_destroy(it);
    free(row);
    return rc;
}

int ctr_rowstore_flush(struct ctr_rowstore *s, struct ctr_err *err)
{
    char *text = NULL;
    void *options = rocks.flushoptions_create();
    rocks.flush(s->db, options, &text);
    rocks.flushoptions_destroy(options);
    return check(s, text, err);
}
