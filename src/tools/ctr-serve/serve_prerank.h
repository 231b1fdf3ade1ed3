/* SPDX-License-Identifier: Apache-2.0
 *
 * serve_prerank: of many ads, the K that are best by inner products of the user's vector with theirs (--prerank TOWER
 * --vectors V), as `ctr-predict --dot --top K` finds them. The user's vector is made from the columns that the user's
 * side of the tower reads, by the objects of `ctr-extract TOWER | ctr-predict --tower user TOWER`. */
#ifndef CTR_SERVE_PRERANK_H
#define CTR_SERVE_PRERANK_H

#include "common/model/vectors.h"
#include "tools/ctr-serve/serve.h"

/* ---- vectors of ads: serve_vectors.c ---- */

struct serve_piece {
    int64_t first;      /* row */
    const float *value; /* of its rows, one behind the other: pages of the file, or: */
    float *own;
};
struct serve_vectors {
    atomic_int owners;
    int fd;
    char *path;             /* /proc/self/fd/N, as of serve_keyed */
    struct ctr_keyed *file; /* or NULL: a stream */
    struct ctr_vectors of;
    int64_t ads;
    struct serve_piece *piece;
    int pieces, pieces_cap;
    struct ctr_schema key; /* one column */
    struct ctr_batchbuf keys;
    struct ctr_col all; /* the keys of all ads */
    struct ctr_index index;
};
int serve_vectors_load(struct serve_vectors **v, const char *path, struct ctr_err *err) CTR_MUST;
void serve_vectors_release(struct serve_vectors *v);
int64_t serve_vectors_find(const struct serve_vectors *v, const struct ctr_col *keys, int64_t i);
const float *serve_vectors_at(const struct serve_vectors *v, int64_t row);

/* ---- of a generation: serve_prerank.c ---- */

struct serve_prerank;
/* After the columns of the model, before those of the files: adds the columns that the tower reads of the user. */
int serve_prerank_new(struct serve_generation *g, int64_t top, struct ctr_err *err) CTR_MUST;
/* Once the columns of all files are there: finds the key of an ad. */
int serve_prerank_key(struct serve_generation *g, const char *vectors, struct ctr_err *err) CTR_MUST;
void serve_prerank_free(struct serve_prerank *p);
bool serve_prerank_reads(const struct serve_generation *g, int k); /* column k of the schema, of the user */
bool serve_prerank_gives(const struct serve_generation *g, int k); /* is it `prerank`? */

/* ---- of a desk ---- */

struct serve_cut;
int serve_cut_new(struct serve_cut **c, const struct serve_generation *g, struct ctr_err *err) CTR_MUST;
void serve_cut_free(struct serve_cut *c);
/* The user, the context and the ads of the request are parsed, and the user is looked up in its file (`user`: it was
 * asked for). The rows of d->ads.out become those that are kept; their number is d->batch.rows. given: the request has
 * ads, whose order stays; else the best of all come first. */
int serve_cut(struct serve_desk *d, bool user, bool given, struct ctr_err *err) CTR_MUST;
/* The same for rows of a stream. at: of each column of the generation's schema the column of b, or -1. Without the key
 * of ads each row is a request, which gets the best of all. Kept is, as row i of n, row rows[i] of b. */
int serve_cut_stream(struct serve_desk *d, const struct ctr_batch *b, const int *at, int64_t most, const int64_t **rows,
                     int64_t *n, struct ctr_err *err) CTR_MUST;
/* The column of the products as scores, if the model reads a column `prerank` and k is it; else NULL. */
const struct ctr_col *serve_cut_column(const struct serve_desk *d, int k);
/* The place of row i: in the request, from 0, or, where that gives no ads, in what was kept. All are below: */
int64_t serve_cut_ad(const struct serve_desk *d, int64_t i);
int64_t serve_cut_places(const struct serve_desk *d);
/* "ads":[…], of an answer without places: which ads were kept; nothing where all of the request are. */
int serve_cut_tell(const struct serve_desk *d, struct ctr_buf *out, struct ctr_err *err) CTR_MUST;
/* ,"key":… of the ad at place i, where the request gave no ads. */
int serve_cut_tell_key(const struct serve_desk *d, int64_t i, struct ctr_buf *out, struct ctr_err *err) CTR_MUST;

#endif
