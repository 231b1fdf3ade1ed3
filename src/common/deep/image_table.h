/* SPDX-License-Identifier: Apache-2.0
 *
 * image_table: image vectors by key: inputs of a tower in training, or outputs of a model's tower (ctr-embed-images
 * --tower), for prediction without it.
 *
 * Feature rows identify an image by the hash that their plan made of its key; the table hashes keys in the same way and
 * has an index from hash to row, about 30 bytes an image. Vectors of a keyed file stay in the memory mapped file, which
 * may exceed memory; each block is read and verified when one of its rows is first fetched, and then its vectors are
 * read where they lie. Vectors of a stream are
 * held in memory. Several threads may fetch at once.
 *
 * Images may be added while others read, as far as there is room: see ctr_image_table_add. */
#ifndef CTR_IMAGE_TABLE_H
#define CTR_IMAGE_TABLE_H

#include "common/stream/batch.h"
#include "common/table/table.h"

struct ctr_image_table;

/* `path` is borrowed; tables: the names of the n tables of image columns. Errors: repeated keys, a null key, more than
 * 2^31 images and, for a stream, whatever ctr_image_vector refuses. */
int ctr_image_table_open(struct ctr_image_table **t, const char *path, const char *const *tables, int n,
                         struct ctr_err *err) CTR_MUST;
void ctr_image_table_free(struct ctr_image_table *t);
int64_t ctr_image_table_images(const struct ctr_image_table *t);
int32_t ctr_image_table_width(const struct ctr_image_table *t);
int64_t ctr_image_table_bytes(const struct ctr_image_table *t); /* in memory */
const char *ctr_image_table_path(const struct ctr_image_table *t);
/* The tower that computed the vectors, as ctr_tower_text names it; NULL: not from a tower. */
const char *ctr_image_table_tower(const struct ctr_image_table *t);
/* A hash of the keys and their rows: the same of tables with the same keys in the same order. */
uint64_t ctr_image_table_keys(const struct ctr_image_table *t);
/* The row of a hash; -1: none. Row `images`, for null, always exists and holds zeros. */
int64_t ctr_image_table_find(const struct ctr_image_table *t, uint64_t hash);
/* Rows are numbered below this: those of the file, the one of null, and the room for later ones. */
int64_t ctr_image_table_rows(const struct ctr_image_table *t);
/* The network that computed the vectors (CTR_META_NETWORK); NULL: not known. Are keys integers? */
const char *ctr_image_table_network(const struct ctr_image_table *t);
bool ctr_image_table_integers(const struct ctr_image_table *t);
/* Fetch the vector of a row. The error names the key, also if the file is damaged there. */
int ctr_image_table_fetch(const struct ctr_image_table *t, int64_t row, float *to, struct ctr_err *err) CTR_MUST;
/* The vector of a row will be fetched: if it lies in a file, the system begins to read it, and does not wait. Returns
 * the bytes that are asked for: before the block was verified, all of it. */
int64_t ctr_image_table_announce(const struct ctr_image_table *t, int64_t row);
/* Call before using results computed from fetched vectors. */
int ctr_image_table_unchanged(const struct ctr_image_table *t, struct ctr_err *err) CTR_MUST;

/* ---- images that come later ---- */

/* Make room for n images, before the table is shared. */
int ctr_image_table_room(struct ctr_image_table *t, int64_t n, struct ctr_err *err) CTR_MUST;
/* Add an image, or give one that is there another vector: a row of its own, so that a row never changes. One thread at
 * a time; others find and fetch meanwhile. CTR_ELARGE: the room is used up. */
int ctr_image_table_add(struct ctr_image_table *t, struct ctr_str key, const float *vector,
                        struct ctr_err *err) CTR_MUST;
/* What is there now; and the row of a hash as it was then, whatever has been added since: rows of one minibatch see one
 * table. */
int64_t ctr_image_table_now(const struct ctr_image_table *t);
int64_t ctr_image_table_find_then(const struct ctr_image_table *t, uint64_t hash, int64_t then);

/* ---- what a stream of vectors looks like ---- */

/* The first column of keys (text or integers) and the first of vectors: lists of floats, or of int8, whose numbers
 * times the float of the column `scale` are the vector; columns[2] is that one, or -1. *width: list size if fixed, else
 * 0. */
int ctr_image_columns(const struct ctr_schema *s, int columns[3], int32_t *width, struct ctr_err *err) CTR_MUST;
static inline const struct ctr_col *ctr_image_scale(const struct ctr_batch *b, const int columns[3])
{
    return columns[2] < 0 ? NULL : &b->col[columns[2]];
}
/* The text of a key, which a plan hashes; `number` is scratch memory for it. */
struct ctr_str ctr_image_key(const struct ctr_col *c, int64_t i, char number[CTR_NUM_MAX]);
/* Row i of a vector column as *width floats in `to`; if *width is 0, sets it and writes none. Errors: null, another
 * length, an element that is null, NaN or infinite. scale: ctr_image_scale. row (of the stream) and key: for messages.
 */
int ctr_image_vector(const struct ctr_col *c, const struct ctr_col *scale, int64_t i, int32_t *width,
                     struct ctr_str key, int64_t row, float *to, struct ctr_err *err) CTR_MUST;

#define CTR_TOWER_PREFIX "tower="

#endif
