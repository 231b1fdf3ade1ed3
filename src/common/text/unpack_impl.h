/* SPDX-License-Identifier: Apache-2.0
 *
 * unpack_impl: what unpack.c and unpack_library.c share: a method of compression is its step function, and a row of the
 * table in unpack.c.
 */
#ifndef CTR_UNPACK_IMPL_H
#define CTR_UNPACK_IMPL_H

#include "common/text/unpack.h"

#include <lz4frame.h>
#include <zlib.h>
#include <zstd.h>

struct ctr_unpack_method {
    const char *name, *magic; /* in a magic, '?' stands for any byte */
    int (*open)(struct ctr_unpack *u, struct ctr_err *err);
    int (*step)(struct ctr_unpack *u, struct ctr_unpack_io *io, struct ctr_err *err);
    void (*close)(struct ctr_unpack *u);
};

struct ctr_unpack {
    const struct ctr_unpack_method *method;
    bool whole; /* at the end of a frame */
    /* For a frame with blocks, an error would discard what was unpacked before it: so a step gets at most one block,
     * and none while output of the last one is left. */
    size_t next; /* bytes to the end of the block */
    bool full;   /* the last step filled the output */
    union {
        z_stream gzip;
        ZSTD_DStream *zstd;
        LZ4F_dctx *lz4;
        void *library; /* the state of a method of unpack_library.c */
        struct {       /* skippable frames before the first one with data: the bytes of a header, those left to skip */
            uint8_t head[8];
            size_t have, left;
        } skip;
    };
};

int ctr_unpack_damaged(const struct ctr_unpack *u, struct ctr_err *err) CTR_MUST;

/* unpack_library.c: methods whose libraries are optional parts. */
int ctr_bzip2_open(struct ctr_unpack *u, struct ctr_err *err) CTR_MUST;
int ctr_bzip2_step(struct ctr_unpack *u, struct ctr_unpack_io *io, struct ctr_err *err) CTR_MUST;
void ctr_bzip2_close(struct ctr_unpack *u);
int ctr_xz_open(struct ctr_unpack *u, struct ctr_err *err) CTR_MUST;
int ctr_xz_step(struct ctr_unpack *u, struct ctr_unpack_io *io, struct ctr_err *err) CTR_MUST;
void ctr_xz_close(struct ctr_unpack *u);

#endif
