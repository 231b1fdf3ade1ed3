/* SPDX-License-Identifier: Apache-2.0
 *
 * unpack: decompresses gzip, Zstandard, LZ4, bzip2 and xz, detected by their first bytes, as a stream. Frames may
 * follow one another. Private to lines.c, which owns the buffers.
 */
#ifndef CTR_UNPACK_H
#define CTR_UNPACK_H

#include "common/base/base.h"

struct ctr_unpack;

/* Detect the format from the first n bytes at p: *u decompresses it; *u stays NULL for plain text, as far as these
 * bytes show. Data that cannot be text are an error with a remedy: CTR_EKIND, if a command makes text of them, whose
 * end the message is. */
int ctr_unpack_open(struct ctr_unpack **u, const void *p, size_t n, struct ctr_err *err) CTR_MUST;
/* Decompress some of in[0, n) to out[0, room): sets `used` and `got`, before an error, too. n may be 0, to get the
 * remaining output. While got == room, there may be more output without more input. */
struct ctr_unpack_io {
    const uint8_t *in;
    size_t n;
    uint8_t *out;
    size_t room;
    size_t used, got;
};
int ctr_unpack_some(struct ctr_unpack *u, struct ctr_unpack_io *io, struct ctr_err *err) CTR_MUST;
/* At the end of the input: an error unless a frame ends there. */
int ctr_unpack_end(const struct ctr_unpack *u, struct ctr_err *err) CTR_MUST;
void ctr_unpack_free(struct ctr_unpack *u);

#endif
