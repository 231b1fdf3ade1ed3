/* SPDX-License-Identifier: Apache-2.0
 *
 * keyed: look-ups in an IPC file that is sorted by one column. The footer has the first keys of the blocks, so that a
 * look-up takes a search there and one in a block; a block is read and verified when first needed. Invariant: whatever
 * another program writes to the file meanwhile, no search leaves its block, and no row that was read after the file
 * changed is returned.
 */
#include "common/stream/arrow.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    CACHE_BLOCKS = 16,
    AHEAD_BLOCKS = 16, /* that are read from disk while others are looked at */
    AT_ONCE = 128 << 10,
    KEYS_BYTES = 16 << 10, /* the start of a block, in which its keys usually lie */
};

/* A decoded block. Its columns point into the map, or into the buffers of its leaves. */
struct keyed_slot {
    struct arrow_leaves leaves;
    struct arrow_message m;
    struct arrow_data data;
    struct ctr_col *cols;
    struct ctr_batch batch;
    int64_t block; /* -1: none */
    uint64_t used;
};

struct keyed_want {
    int64_t block, i; /* look up key i in this block */
};

struct ctr_keyed {
    struct arrow_source src;
    struct ctr_reader_opts opts;
    struct ctr_reader_stats stats;
    char *path;
    bool held;  /* several look-ups of one plan share a file */
    bool plain; /* it is valid, but not a keyed file */
    struct ctr_ipcfile file;
    struct ctr_schema schema;
    int key;
    bool unique;
    struct ctr_colbuf first; /* the first key of each block; blocks that start with a null come last and are omitted */
    uint8_t *verified;       /* one byte per block */
    struct keyed_slot slot[CACHE_BLOCKS], keys; /* keys: of ctr_keyed_keys */
    uint64_t clock;
    int64_t blocks_read;
    struct ctr_batchbuf rows; /* found rows, in block order */
    struct ctr_buf scratch, want, at, pick;
};

/* A file with the keys [a b b] [b c d] [f g] in three blocks has "a,b,f" in its footer. ctr_keyed_get_many of b, e, g:
 *
 *     plan    b starts block 1, so its first row may be in block 0; e is above b and below f: block 1; g: block 2
 *     pass    blocks 0 1 2 in this order: b is row 1 of block 0, e is not there, g is row 1 of block 2
 *     at      0 -1 1: rows of k->rows, which has what was found, in the order of blocks
 *     gather  `out` in the order of the keys: the row of b, nulls, the row of g
 *
 * Were block 0 [a a], b would not be found there: then a second pass looks in the block that starts with it. With
 * unique keys (CTR_SEAL_UNIQUE) the first pass does. */

/* ---- opening ---- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Decode the text of a key as written by file-writer.c. False if it is invalid. */
static bool unescape(const char *p, size_t n, struct ctr_buf *out)
{
    out->len = 0;
    for (size_t i = 0; i < n; i++) {
        uint8_t c = (uint8_t)p[i];
        if (c == '%' && i + 1 < n && p[i + 1] == '.') {
            i++;
            continue;
        }
        if (c == '%') {
            int hi = i + 2 < n ? hex_digit(p[i + 1]) : -1, lo = i + 2 < n ? hex_digit(p[i + 2]) : -1;
            if (hi < 0 || lo < 0)
                return false;
            c = (uint8_t)(hi << 4 | lo);
            i += 2;
        }
        out->data[out->len++] = c;
    }
    return true;
}

static int add_first(struct ctr_keyed *k, const char *p, size_t n, struct ctr_err *err)
{
    enum ctr_type t = k->schema.f[k->key].type;
    int64_t i;
    uint64_t u;
    double d;
    int rc = ctr_buf_reserve(&k->scratch, n + 1, err);
    if (rc < 0)
        return rc;
    bool fits = unescape(p, n, &k->scratch);
    const char *text = (const char *)k->scratch.data;
    n = k->scratch.len;
    if (fits && t == CTR_UTF8)
        return ctr_colbuf_str(&k->first, text, n, err);
    if (fits && t == CTR_TIME && ctr_time_parse(NULL, text, n, &i))
        return ctr_colbuf_i64(&k->first, i, err);
    if (fits && ctr_types[t].floating && ctr_parse_f64(text, n, &d))
        return ctr_colbuf_f64(&k->first, d, err);
    if (fits && ctr_types[t].integer && ctr_types[t].is_signed && ctr_parse_i64(text, n, &i))
        return ctr_colbuf_i64(&k->first, i, err);
    if (fits && ctr_types[t].integer && !ctr_types[t].is_signed && ctr_parse_u64(text, n, &u))
        return ctr_colbuf_i64(&k->first, (int64_t)u, err);
    return ctr_fail(err, CTR_EDATA, "the keys in the footer are damaged");
}

static int read_first(struct ctr_keyed *k, struct ctr_err *err)
{
    const char *p = ctr_meta_get(&k->file.footer.meta, CTR_SEAL_KEYS);
    size_t blocks = k->file.footer.nblocks, seen = 0;
    bool nulls = false;
    int rc = ctr_colbuf_init(&k->first, &(struct ctr_field){ .type = k->schema.f[k->key].type }, err);
    while (rc >= 0 && p && *p) {
        size_t n = strcspn(p, ",");
        bool null = n == 2 && !memcmp(p, "%-", 2);
        if (!null)
            rc = nulls ? ctr_fail(err, CTR_EDATA, "the keys in the footer are damaged") : add_first(k, p, n, err);
        nulls |= null;
        seen++;
        p += n + (p[n] == ',');
    }
    if (rc >= 0 && seen != blocks)
        rc = ctr_fail(err, CTR_EDATA, "the footer has %zu keys for %zu blocks", seen, blocks);
    return rc;
}

static int open_keyed(struct ctr_keyed *k, const char *path, struct ctr_err *err)
{
    struct stat sb;
    k->plain = !stat(path, &sb) && !S_ISREG(sb.st_mode) && !S_ISDIR(sb.st_mode);
    if (k->plain) /* a FIFO without a writer would block */
        return ctr_fail(err, CTR_EDATA,
                        "is no regular file, and blocks are read in any order: ctr-cat --to file -o FILE makes one");
    int rc = ctr_input_identity_keep(path, err);
    k->held = rc >= 0;
    if (rc >= 0)
        rc = ctr_source_open(&k->src, path, &k->opts, &k->stats, err);
    if (rc < 0)
        return rc;
    k->plain = !k->src.map;
    if (k->plain)
        return ctr_fail(err, CTR_EDATA, "is not a keyed file: make one with ctr-cat --to file --key COLUMN");
    rc = ctr_ipcfile_open(&k->file, k->src.map, k->src.map_size, &k->scratch, err);
    if (rc < 0)
        return rc;
    /* What is read is announced. The system would read megabytes around each page. */
    (void)madvise((void *)(uintptr_t)k->src.map, (size_t)k->src.map_size, MADV_RANDOM);
    const char *key = ctr_meta_get(&k->file.footer.meta, CTR_SEAL_KEY);
    k->plain = !key || !k->file.footer.sealed;
    if (k->plain)
        return ctr_fail(err, CTR_EDATA, "is not a keyed file: make one with ctr-cat --to file --key COLUMN");
    struct arrow_leaves leaves;
    rc = ctr_leaves_make(&leaves, &k->file.schema, NULL, err);
    if (rc < 0)
        return rc;
    rc = ctr_meta_copy(&k->schema.meta, &k->file.schema.meta, err);
    for (int i = 0; rc >= 0 && i < leaves.n; i++) {
        rc = ctr_schema_add_field(&k->schema, &leaves.l[i].field, NULL, err);
        if (rc >= 0)
            k->schema.f[i].dict = false;
    }
    ctr_leaves_free(&leaves);
    if (rc < 0)
        return rc;
    k->key = ctr_schema_need(&k->schema, key, err);
    k->unique = ctr_meta_get(&k->file.footer.meta, CTR_SEAL_UNIQUE) != NULL;
    if (k->key < 0)
        return k->key;
    rc = ctr_batchbuf_init(&k->rows, &k->schema, err);
    k->verified = calloc(k->file.footer.nblocks + 1, 1);
    if (rc >= 0 && !k->verified)
        rc = ctr_fail_nomem(err, k->file.footer.nblocks);
    return rc < 0 ? rc : read_first(k, err);
}

static int open_any(struct ctr_keyed **out, const char *path, bool *plain, struct ctr_err *err)
{
    struct ctr_keyed *k = calloc(1, sizeof *k);
    *out = NULL;
    if (!k)
        return ctr_fail_nomem(err, sizeof *k);
    k->src.fd = -1;
    k->keys.block = -1;
    for (int i = 0; i < CACHE_BLOCKS; i++)
        k->slot[i].block = -1;
    int rc = ctr_strdup(&k->path, path, err);
    if (rc >= 0)
        rc = open_keyed(k, path, err);
    if (rc < 0) {
        ctr_err_file(err, path);
        *plain = k->plain;
        ctr_keyed_free(k);
        return rc;
    }
    *out = k;
    return 0;
}

int ctr_keyed_open(struct ctr_keyed **out, const char *path, struct ctr_err *err)
{
    bool plain = false;
    return open_any(out, path, &plain, err);
}

int ctr_keyed_try(struct ctr_keyed **out, const char *path, struct ctr_err *err)
{
    bool plain = false;
    struct ctr_err why = { 0 }; /* a plain stream is no error, and must not give a later one its name */
    const int rc = open_any(out, path, &plain, &why);
    if (rc && !plain)
        *err = why;
    return plain ? 0 : rc;
}

static void free_slot(struct keyed_slot *s)
{
    ctr_leaves_free(&s->leaves);
    ctr_data_free(&s->data);
    free(s->cols);
}

void ctr_keyed_free(struct ctr_keyed *k)
{
    if (!k)
        return;
    for (int i = 0; i < CACHE_BLOCKS; i++)
        free_slot(&k->slot[i]);
    free_slot(&k->keys);
    ctr_colbuf_free(&k->first);
    ctr_batchbuf_free(&k->rows);
    ctr_ipcfile_close(&k->file);
    ctr_source_close(&k->src);
    if (k->held)
        ctr_input_identity_release(k->path);
    free(k->path);
    ctr_schema_free(&k->schema);
    ctr_buf_free(&k->scratch);
    ctr_buf_free(&k->want);
    ctr_buf_free(&k->at);
    ctr_buf_free(&k->pick);
    free(k->verified);
    free(k);
}

const struct ctr_schema *ctr_keyed_schema(const struct ctr_keyed *k)
{
    return &k->schema;
}

int ctr_keyed_column(const struct ctr_keyed *k)
{
    return k->key;
}

int64_t ctr_keyed_bytes(const struct ctr_keyed *k)
{
    return k->file.size;
}

bool ctr_keyed_in_place(const struct ctr_keyed *k, const void *p, size_t bytes)
{
    const uint8_t *at = p, *end = k->src.map + k->src.map_size;
    return at >= k->src.map && at <= end && bytes <= (size_t)(end - at);
}

int64_t ctr_keyed_blocks_read(const struct ctr_keyed *k)
{
    return k->blocks_read;
}

/* ---- blocks ---- */

/* Linux reads no more for a call than it reads ahead in a file, often 128 KiB. */
static void will_need(const struct ctr_keyed *k, const uint8_t *p, int64_t bytes)
{
    const size_t before = (size_t)(p - k->src.map) % (size_t)sysconf(_SC_PAGESIZE), all = (size_t)bytes + before;
    for (size_t at = 0; at < all; at += AT_ONCE)
        (void)madvise((void *)(uintptr_t)(p - before + at), CTR_MIN(all - at, AT_ONCE), MADV_WILLNEED);
}

int64_t ctr_keyed_announce(const struct ctr_keyed *k, int64_t block)
{
    const struct arrow_block *b = &k->file.footer.blocks[block];
    will_need(k, k->src.map + b->offset, b->meta_length + b->body_length);
    return b->meta_length + b->body_length;
}

void ctr_keyed_announce_bytes(const struct ctr_keyed *k, const void *p, size_t bytes)
{
    will_need(k, p, (int64_t)bytes);
}

static void announce_keys(const struct ctr_keyed *k, int64_t block)
{
    const struct arrow_block *b = &k->file.footer.blocks[block];
    will_need(k, k->src.map + b->offset, CTR_MIN(KEYS_BYTES, b->meta_length + b->body_length));
}

/* `only`: only this column; -1: all. */
static int load(struct ctr_keyed *k, struct keyed_slot *s, int64_t block, int only, struct ctr_err *err)
{
    const uint8_t *body;
    int rc = 0;
    s->block = -1;
    if (!s->cols) {
        rc = ctr_leaves_make(&s->leaves, &k->file.schema, NULL, err);
        s->cols = rc < 0 ? NULL : calloc((size_t)k->schema.n + 1, sizeof *s->cols);
        if (rc >= 0 && !s->cols) {
            ctr_leaves_free(&s->leaves);
            rc = ctr_fail_nomem(err, (size_t)k->schema.n * sizeof *s->cols);
        }
    }
    if (rc >= 0)
        rc = ctr_ipcfile_message(&k->file, false, (size_t)block, &s->m, &body, &k->scratch, err);
    s->data.mapped = true;
    s->data.trusted = k->verified[block];
    if (rc >= 0)
        rc = ctr_data_set(&s->data, &s->m, body, &k->stats, err);
    for (int i = 0; rc >= 0 && i < k->schema.n; i++) {
        const struct ctr_col *c = NULL;
        if (only >= 0 && i != only)
            continue;
        rc = ctr_leaf_decode(&s->leaves.l[i], 0, &s->data, &c, err);
        if (rc >= 0)
            s->cols[i] = *c;
    }
    if (rc < 0)
        return rc;
    k->blocks_read += !k->verified[block] && only < 0;
    k->verified[block] |= only < 0;
    s->batch = (struct ctr_batch){ .schema = &k->schema, .rows = s->m.rows, .col = s->cols };
    s->block = block;
    return 0;
}

/* The block, from the cache, or read in place of the least recently used one. */
static int get_block(struct ctr_keyed *k, int64_t block, const struct ctr_batch **b, struct ctr_err *err)
{
    struct keyed_slot *s = k->slot;
    for (int i = 0; i < CACHE_BLOCKS; i++) {
        if (k->slot[i].block == block) {
            s = &k->slot[i];
            break;
        }
        if (k->slot[i].used < s->used)
            s = &k->slot[i];
    }
    s->used = ++k->clock;
    int rc = 0;
    if (s->block != block) {
        if (!k->verified[block])
            (void)ctr_keyed_announce(k, block);
        rc = load(k, s, block, -1, err);
    }
    *b = &s->batch;
    return rc;
}

int64_t ctr_keyed_blocks(const struct ctr_keyed *k)
{
    return (int64_t)k->file.footer.nblocks;
}

int ctr_keyed_keys(struct ctr_keyed *k, int64_t block, const struct ctr_col **keys, struct ctr_err *err)
{
    const int64_t blocks = ctr_keyed_blocks(k);
    for (int64_t b = block ? block + AHEAD_BLOCKS : 0; b <= block + AHEAD_BLOCKS && b < blocks; b++)
        announce_keys(k, b);
    const int rc = load(k, &k->keys, block, k->key, err);
    *keys = rc < 0 ? NULL : &k->keys.cols[k->key];
    if (rc < 0)
        ctr_err_file(err, k->src.name);
    return CTR_MIN(rc, 0);
}

int ctr_keyed_block(struct ctr_keyed *k, int64_t block, const struct ctr_batch **b, struct ctr_err *err)
{
    const int rc = get_block(k, block, b, err);
    if (rc < 0)
        ctr_err_file(err, k->src.name);
    return CTR_MIN(rc, 0);
}

int ctr_keyed_unchanged(const struct ctr_keyed *k, struct ctr_err *err)
{
    return ctr_source_unchanged(&k->src, err);
}

/* ---- look-ups ---- */

/* The first of rows [0, n) of c that is not below key i; nulls sort last. *equal: is it the key? */
static int64_t lower_bound(const struct ctr_col *c, int64_t n, const struct ctr_col *keys, int64_t i, bool *equal)
{
    int64_t lo = 0, hi = n;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (ctr_col_compare(c, mid, keys, i) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    *equal = lo < n && ctr_col_compare(c, lo, keys, i) == 0;
    return lo;
}

static int by_block(const void *a, const void *b)
{
    const struct keyed_want *x = a, *y = b;
    if (x->block != y->block)
        return x->block < y->block ? -1 : 1;
    return (x->i > y->i) - (x->i < y->i);
}

/* Determine the block in which to look up each key not yet found. A run of equal keys may start at the end of the block
 * before the one that starts with the key: the first pass looks there, `second` in the latter. */
static int plan(struct ctr_keyed *k, const struct ctr_col *keys, const int64_t *at, bool second, size_t *n,
                struct ctr_err *err)
{
    const struct ctr_col *first = ctr_colbuf_view(&k->first);
    k->want.len = 0;
    int rc = ctr_buf_reserve(&k->want, (size_t)keys->rows * sizeof(struct keyed_want), err);
    if (rc < 0)
        return rc;
    struct keyed_want *w = (struct keyed_want *)k->want.data;
    *n = 0;
    for (int64_t i = 0; i < keys->rows; i++) {
        bool equal;
        if (at[i] >= 0 || ctr_col_missing(keys, i))
            continue;
        int64_t b = lower_bound(first, first->rows, keys, i, &equal);
        bool here = equal && (k->unique || second || b == 0);
        if (second && !equal)
            continue;
        if (here || b > 0)
            w[(*n)++] = (struct keyed_want){ here ? b : b - 1, i };
    }
    qsort(w, *n, sizeof *w, by_block);
    return 0;
}

/* Append the rows found to k->rows; at[i] becomes the row index. */
static int pass(struct ctr_keyed *k, const struct ctr_col *keys, int64_t *at, bool second, struct ctr_err *err)
{
    size_t n, j;
    int rc = plan(k, keys, at, second, &n, err);
    if (rc >= 0)
        rc = ctr_buf_reserve(&k->pick, n * sizeof(int64_t) + 8, err);
    const struct keyed_want *w = (const struct keyed_want *)k->want.data;
    size_t ahead = 0;
    int64_t announced = 0, visited = 0;
    for (size_t i = 0; rc >= 0 && i < n; i = j, visited++) {
        for (; ahead < n && announced <= visited + AHEAD_BLOCKS; ahead++)
            if (!ahead || w[ahead].block != w[ahead - 1].block) {
                if (!k->verified[w[ahead].block])
                    (void)ctr_keyed_announce(k, w[ahead].block);
                announced++;
            }
        const struct ctr_batch *b;
        int64_t *pick = (int64_t *)k->pick.data, picks = 0, base = ctr_batchbuf_rows(&k->rows);
        rc = get_block(k, w[i].block, &b, err);
        for (j = i; rc >= 0 && j < n && w[j].block == w[i].block; j++) {
            bool equal;
            int64_t row = lower_bound(&b->col[k->key], b->rows, keys, w[j].i, &equal);
            if (!equal)
                continue;
            at[w[j].i] = base + picks;
            pick[picks++] = row;
        }
        if (rc >= 0)
            rc = ctr_batchbuf_gather(&k->rows, b, pick, picks, err);
    }
    return rc;
}

int ctr_keyed_get_many(struct ctr_keyed *k, const struct ctr_col *keys, struct ctr_batchbuf *out, bool *found,
                       struct ctr_err *err)
{
    char name[64];
    const struct ctr_field *f = &k->schema.f[k->key];
    if (keys->type != f->type)
        return ctr_fail(err, CTR_EUSAGE, "%s: its key '%s' is %s, but %s is looked up", k->src.name, f->name,
                        ctr_field_type_name(f, name, sizeof name), ctr_types[keys->type].name);
    int rc = ctr_buf_reserve(&k->at, (size_t)keys->rows * sizeof(int64_t) + 8, err);
    if (rc < 0)
        return rc;
    int64_t *at = (int64_t *)k->at.data;
    for (int64_t i = 0; i < keys->rows; i++)
        at[i] = -1;
    ctr_batchbuf_clear(&k->rows);
    rc = pass(k, keys, at, false, err);
    if (rc >= 0 && !k->unique)
        rc = pass(k, keys, at, true, err);
    const int same = rc >= 0 || rc == CTR_EDATA ? ctr_source_unchanged(&k->src, err) : 0;
    if (rc >= 0)
        rc = same;
    if (rc >= 0)
        rc = ctr_batchbuf_gather(out, ctr_batchbuf_view(&k->rows), at, keys->rows, err);
    if (rc < 0) {
        ctr_err_file(err, k->src.name);
        return rc;
    }
    for (int64_t i = 0; found && i < keys->rows; i++)
        found[i] = at[i] >= 0;
    return 0;
}
