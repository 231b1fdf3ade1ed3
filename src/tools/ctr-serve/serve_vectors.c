/* SPDX-License-Identifier: Apache-2.0
 *
 * serve_vectors: the file of --vectors: vectors of ads, by key. A keyed file stays where it lies, mapped; a stream, and
 * compressed blocks, are held in memory. All of it is read and verified when it is loaded: a request that comes later
 * finds no bad vector. Constant from then on, so that threads share it. */
#include "tools/ctr-serve/serve_prerank.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void serve_vectors_release(struct serve_vectors *v)
{
    if (!v || atomic_fetch_sub(&v->owners, 1) > 1)
        return;
    for (int i = 0; i < v->pieces; i++)
        free(v->piece[i].own);
    free(v->piece);
    ctr_keyed_free(v->file);
    if (v->fd >= 0)
        close(v->fd);
    ctr_batchbuf_free(&v->keys);
    ctr_schema_free(&v->key);
    ctr_index_free(&v->index);
    free(v->path);
    free(v);
}

/* The row of a key; -1: none. */
int64_t serve_vectors_find(const struct serve_vectors *v, const struct ctr_col *keys, int64_t i)
{
    if (ctr_col_missing(keys, i))
        return -1;
    const struct ctr_index_slot *s = ctr_index_find(&v->index, ctr_col_hash(keys, i, ctr_hash_secret));
    while (s && ctr_col_compare(&v->all, s->number, keys, i))
        s = ctr_index_next(&v->index, s);
    return s ? (int64_t)s->number : -1;
}

const float *serve_vectors_at(const struct serve_vectors *v, int64_t row)
{
    int lo = 0, hi = v->pieces; /* the last piece that starts at or before the row */
    while (hi - lo > 1) {
        const int mid = lo + (hi - lo) / 2;
        *(v->piece[mid].first <= row ? &lo : &hi) = mid;
    }
    return v->piece[lo].value + (row - v->piece[lo].first) * v->of.width;
}

/* ---- loading ---- */

static int fail_row(const struct serve_vectors *v, int64_t row, const char *why, struct ctr_err *err)
{
    return ctr_fail(err, CTR_EDATA, "row %lld: %s: make it anew with ctr-predict --tower ad", (long long)(v->ads + row),
                    why);
}

/* The vectors of a batch: where they lie, if they stay there. */
static int add_piece(struct serve_vectors *v, const struct ctr_batch *b, struct ctr_err *err)
{
    const float *first = NULL;
    bool in_place = true; /* rows of a dictionary need not be one behind the other */
    const size_t bytes = (size_t)(b->rows * v->of.width) * sizeof *first;
    for (int64_t i = 0; i < b->rows; i++) {
        const float *x = ctr_vectors_values(&v->of, b, i);
        if (!x)
            return fail_row(v, i + 1, "the vector is null, or a number of it is not finite", err);
        first = i ? first : x;
        in_place &= x == first + i * v->of.width;
    }
    int rc = ctr_array_grow(&v->piece, v->pieces, &v->pieces_cap, sizeof *v->piece, err);
    if (rc)
        return rc;
    struct serve_piece *p = &v->piece[v->pieces++];
    *p = (struct serve_piece){ .first = v->ads, .value = first };
    if (in_place && v->file && ctr_keyed_in_place(v->file, first, bytes) && !((uintptr_t)first % sizeof *first))
        return 0;
    if (!(p->own = malloc(CTR_MAX(bytes, 1))))
        return ctr_fail_nomem(err, bytes);
    for (int64_t i = 0; i < b->rows; i++)
        memcpy(p->own + i * v->of.width, ctr_vectors_values(&v->of, b, i), (size_t)v->of.width * sizeof *first);
    p->value = p->own;
    return 0;
}

static int add_batch(struct serve_vectors *v, const struct ctr_batch *b, int key, struct ctr_err *err)
{
    int rc = b->rows ? add_piece(v, b, err) : 0;
    for (int64_t i = 0; i < b->rows && !rc; i++)
        if (ctr_col_missing(&b->col[key], i))
            rc = fail_row(v, i + 1, "the key is null", err);
    if (!rc)
        rc = ctr_colbuf_range(&v->keys.col[0], &b->col[key], 0, b->rows, err);
    v->ads += b->rows;
    return !rc && v->ads > INT32_MAX ? ctr_fail(err, CTR_EDATA, "more than 2^31 ads: split them") : rc;
}

static int index_keys(struct serve_vectors *v, struct ctr_err *err)
{
    int rc = 0;
    v->all = *ctr_colbuf_view(&v->keys.col[0]);
    for (int64_t i = 0; i < v->ads && !rc; i++) {
        const int64_t other = serve_vectors_find(v, &v->all, i);
        if (other >= 0)
            return ctr_fail(err, CTR_EDATA, "rows %lld and %lld have the same key: ctr-sort --unique keeps the first",
                            (long long)other + 1, (long long)i + 1);
        rc = ctr_index_add(&v->index, ctr_col_hash(&v->all, i, ctr_hash_secret), (uint32_t)i, err);
    }
    return rc;
}

/* The key of a stream has role id, or is the only column beside the vectors. */
static int key_of(const struct serve_vectors *v, const struct ctr_schema *s, struct ctr_err *err)
{
    const int id = ctr_schema_role(s, CTR_ROLE_ID);
    if (id >= 0 && id != v->of.column)
        return id;
    if (s->n == 2)
        return 1 - v->of.column;
    return ctr_fail(err, CTR_EUSAGE,
                    "which column is the key of an ad? Sort by it, and make a keyed file (ctr-cat --to file --key "
                    "COLUMN)");
}

static int begin(struct serve_vectors *v, const struct ctr_schema *s, int key, struct ctr_err *err)
{
    int rc = ctr_vectors_find(&v->of, s, "ad", "vectors", err);
    if (rc)
        return rc;
    key = key < 0 ? key_of(v, s, err) : key;
    rc = key < 0 ? key : ctr_schema_add_field(&v->key, &s->f[key], NULL, err);
    if (!rc) {
        v->key.f[0].dict = false;
        rc = ctr_batchbuf_init(&v->keys, &v->key, err);
    }
    return rc ? rc : key;
}

static int read_stream(struct serve_vectors *v, struct ctr_err *err)
{
    char *const paths[] = { v->path };
    struct ctr_reader *r = NULL;
    const struct ctr_batch *b;
    int rc = ctr_reader_open(&r, paths, 1, NULL, err);
    const int key = rc ? -1 : begin(v, ctr_reader_schema(r), -1, err);
    rc = CTR_MIN(rc ? rc : key, 0);
    while (!rc && (rc = ctr_reader_next(r, &b, err)) > 0)
        rc = add_batch(v, b, key, err);
    ctr_reader_free(r);
    return rc;
}

static int read_file(struct serve_vectors *v, struct ctr_err *err)
{
    const int64_t blocks = ctr_keyed_blocks(v->file);
    const int key = begin(v, ctr_keyed_schema(v->file), ctr_keyed_column(v->file), err);
    const struct ctr_batch *b;
    int rc = CTR_MIN(key, 0);
    for (int64_t i = 0; i < blocks && !rc; i++) {
        rc = ctr_keyed_block(v->file, i, &b, err);
        if (!rc)
            rc = add_batch(v, b, key, err);
    }
    return rc ? rc : ctr_keyed_unchanged(v->file, err);
}

static int read_vectors(struct serve_vectors *v, struct ctr_err *err)
{
    int rc = ctr_keyed_try(&v->file, v->path, err);
    if (!rc)
        rc = v->file ? read_file(v, err) : read_stream(v, err);
    if (!rc)
        rc = index_keys(v, err);
    return !rc && !v->ads ? ctr_fail(err, CTR_EDATA, "it has no vectors") : rc;
}

int serve_vectors_load(struct serve_vectors **out, const char *path, struct ctr_err *err)
{
    char name[40];
    struct serve_vectors *v = *out = calloc(1, sizeof *v);
    if (!v)
        return ctr_fail_nomem(err, sizeof *v);
    atomic_init(&v->owners, 1);
    v->fd = ctr_open(path, O_RDONLY, 0);
    snprintf(name, sizeof name, "/proc/self/fd/%d", v->fd);
    int rc = v->fd < 0 ? ctr_fail_sys(err, "cannot open") : ctr_strdup(&v->path, name, err);
    if (!rc)
        rc = read_vectors(v, err);
    if (rc) {
        if (!strcmp(err->file, name))
            *err->file = 0;
        ctr_err_file(err, path);
        serve_vectors_release(v);
        *out = NULL;
    }
    return rc;
}
