/* SPDX-License-Identifier: Apache-2.0
 *
 * unpack: gzip, Zstandard and LZ4 frames, known by their first bytes, unpacked as they come. Frames may follow one
 * another. Private to lines.c, which owns the buffers.
 */
#ifndef CTR_UNPACK_H
#define CTR_UNPACK_H

#include "common/base/base.h"

struct ctr_unpack;

/* What begins with the n bytes at p: *u unpacks it; *u stays NULL for plain text, as far as these bytes tell. Data that
 * is certainly no text is an error that says what to do with it. */
int ctr_unpack_open(struct ctr_unpack **u, const void *p, size_t n, struct ctr_err *err) CTR_MUST;
/* Unpack some of in[0, n) to out[0, room): sets `used` of the one, `got` of the other, before an error too. n may be 0:
 * what is inside comes out. As long as got == room, there may be more without more input. */
struct ctr_unpack_io {
    const uint8_t *in;
    size_t n;
    uint8_t *out;
    size_t room;
    size_t used, got;
};
int ctr_unpack_some(struct ctr_unpack *u, struct ctr_unpack_io *io, struct ctr_err *err) CTR_MUST;
/* At the end of the input: an error unless it is the end of a frame, too. */
int ctr_unpack_end(const struct ctr_unpack *u, struct ctr_err *err) CTR_MUST;
void ctr_unpack_free(struct ctr_unpack *u);

#endif
