/* SPDX-License-Identifier: Apache-2.0
 *
 * image_table: vectors by key, of images: those that a tower learns from, or those that a model's tower gave
 * (ctr-embed-images --tower), which predict without it.
 *
 * Rows of features name an image by the hash that their plan made of its key; the table hashes keys alike and has an
 * index from hash to row, some 30 bytes an image. Vectors of a keyed file stay in the file, which is mapped, and are
 * read and verified by block when one of its rows is first asked for, so that the file may be larger than memory. Those
 * of a stream are held in memory. Threads may fetch at once. */
#ifndef CTR_IMAGE_TABLE_H
#define CTR_IMAGE_TABLE_H

#include "common/batch/batch.h"
#include "common/table/table.h"

struct ctr_image_table;

/* `path` is borrowed; tables: the names of the tables that image columns have, n of them. Keys that come twice, a null
 * key, more than 2^31 images are errors, and of a stream all that ctr_image_vector refuses. */
int ctr_image_table_open(struct ctr_image_table **t, const char *path, const char *const *tables, int n,
                         struct ctr_err *err) CTR_MUST;
void ctr_image_table_free(struct ctr_image_table *t);
int64_t ctr_image_table_images(const struct ctr_image_table *t);
int32_t ctr_image_table_width(const struct ctr_image_table *t);
int64_t ctr_image_table_bytes(const struct ctr_image_table *t); /* of memory */
const char *ctr_image_table_path(const struct ctr_image_table *t);
/* The tower whose output the vectors are, as ctr_tower_text says it; NULL: of none. */
const char *ctr_image_table_tower(const struct ctr_image_table *t);
/* The row of a hash; -1: there is none. Row `images` stands for a null and is there always: zeros. */
int64_t ctr_image_table_find(const struct ctr_image_table *t, uint64_t hash);
/* The vector of a row. An error names the key, and so does one of a file that is damaged there. */
int ctr_image_table_fetch(const struct ctr_image_table *t, int64_t row, float *to, struct ctr_err *err) CTR_MUST;
/* Before what was made of fetched vectors goes out. */
int ctr_image_table_unchanged(const struct ctr_image_table *t, struct ctr_err *err) CTR_MUST;

/* ---- what a stream of vectors looks like ---- */

/* The first column of keys (text or integers) and the first one of vectors (lists of floats); *width: of lists of a
 * fixed size, else 0. */
int ctr_image_columns(const struct ctr_schema *s, int columns[2], int32_t *width, struct ctr_err *err) CTR_MUST;
/* The text of a key, as a plan makes hashes of it; `number` has room for it. */
struct ctr_str ctr_image_key(const struct ctr_col *c, int64_t i, char number[CTR_NUM_MAX]);
/* Row i of a column of vectors as floats into `to`, *width of them; *width 0: set it, and write none. An error: null,
 * of another length, a number that is null, NaN or infinite. row: of the stream, and key: for messages. */
int ctr_image_vector(const struct ctr_col *c, int64_t i, int32_t *width, struct ctr_str key, int64_t row, float *to,
                     struct ctr_err *err) CTR_MUST;

#define CTR_TOWER_PREFIX "tower="

#endif
