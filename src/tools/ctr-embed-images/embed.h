/* SPDX-License-Identifier: Apache-2.0
 *
 * embed: converts photographs to vectors (common/image/image.h), many at a time.
 *
 *     struct ctr_embedder *e;  const struct ctr_embedded *b;
 *     ctr_embedder_open(&e, &opts, err)                          reads the weights
 *     while ((rc = ctr_embedder_next(e, &b, err)) > 0)
 *         … b->n vectors of ctr_embedder_width(e) floats, in the order of the input …
 *     ctr_embedder_free(e)
 *
 * Sources are files, tar archives, or a column of bytes, as (key, bytes): image_source.c, image_tar.c. While the
 * network processes one minibatch, other threads read and decode the next. */
#ifndef CTR_EMBED_H
#define CTR_EMBED_H

#include "common/image/image.h"

/* ---- source ---- */

struct ctr_image_source;
struct ctr_image_source_opts {
    const char
        *column;     /* paths are record streams: the column with the bytes; NULL: paths are images and tar archives */
    const char *key; /* with column: the column of keys; NULL: that with role id */
    bool integer_keys; /* without column: the stem of the name is an integer */
};
struct ctr_image_item {
    const char *key, *name; /* key: the text of the key; name: for messages */
    const uint8_t *bytes;   /* NULL: not readable */
    size_t n;
    const char *why; /* if bytes is NULL: the reason */
};
/* Paths are borrowed; none or "-": stdin. Without a column the key is the stem of the name: the part after the last '/'
 * and before the last '.'. */
int ctr_image_source_open(struct ctr_image_source **s, char *const *paths, int n,
                          const struct ctr_image_source_opts *opts, struct ctr_err *err) CTR_MUST;
/* 1: *item, borrowed until the next call; 0: end. Directories, volume labels and empty names in an archive are skipped;
 * links, sparse files and other entries without readable contents are bad images. */
int ctr_image_source_next(struct ctr_image_source *s, struct ctr_image_item *item, struct ctr_err *err) CTR_MUST;
/* The field of the keys: utf8 or an integer, named "key" or like its column. */
const struct ctr_field *ctr_image_source_key(const struct ctr_image_source *s);
void ctr_image_source_free(struct ctr_image_source *s);

/* ---- tar: POSIX ustar and pax, GNU long names ---- */

struct ctr_tar;
struct ctr_tar_entry {
    const char *name;
    int64_t bytes;
    bool regular;
    const char *why; /* NULL, or why its contents cannot be read, though it may be an image: links, sparse files, … */
};
/* Reads from fd (borrowed), after the n bytes at `head`. */
int ctr_tar_open(struct ctr_tar **t, int fd, const void *head, size_t n, struct ctr_err *err) CTR_MUST;
bool ctr_tar_is(const void *head, size_t n); /* is this a tar header (512 bytes)? */
/* 1: the next entry, borrowed; 0: the archive's end mark. A wrong header checksum and a missing end mark are errors. */
int ctr_tar_next(struct ctr_tar *t, struct ctr_tar_entry *e, struct ctr_err *err) CTR_MUST;
/* The contents of the last entry; memory grows as bytes arrive. */
int ctr_tar_read(struct ctr_tar *t, struct ctr_buf *out, struct ctr_err *err) CTR_MUST;
void ctr_tar_free(struct ctr_tar *t);

/* ---- all together ---- */

struct ctr_embedder_opts {
    struct ctr_image_source *source; /* borrowed */
    struct ctr_tower *tower;         /* borrowed */
    enum ctr_preprocess preprocess;
    int64_t max_pixels;
    int threads; /* for decoding */
    bool skip_bad;
    const struct ctr_strs *known; /* NULL, or keys to skip */
};
struct ctr_bad_image {
    char *name, *why;
};
struct ctr_embedded {
    int n;
    const char *const *key;
    const float *vector; /* n x width */
    const struct ctr_bad_image *bad;
    int n_bad; /* with skip_bad; images without a vector */
};
struct ctr_embedder;
int ctr_embedder_open(struct ctr_embedder **e, const struct ctr_embedder_opts *opts, struct ctr_err *err) CTR_MUST;
/* 1: *b, borrowed until the next call; 0: end. A repeated key is an error. */
int ctr_embedder_next(struct ctr_embedder *e, const struct ctr_embedded **b, struct ctr_err *err) CTR_MUST;
void ctr_embedder_free(struct ctr_embedder *e);

#endif
