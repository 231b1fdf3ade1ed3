/* SPDX-License-Identifier: Apache-2.0
 *
 * synth_photos: the photographs of the synthetic world's ads. A photograph shows 4 x 4 squares of one colour each, so
 * it has CTR_PHOTO_COLOURS numbers. They are a fixed random mixture of the look of the ad (CTR_LOOK numbers, about
 * normal(0, 1)), of an offset of its category, and of noise:
 *
 *     colour[k] = 128 + 32 (sum over j of M[k][j] look[j] / sqrt(CTR_LOOK) + .7 C[category][k] + .3 noise), in 0 ...
 * 255
 *
 * The truth depends only on the look, which a model must learn from the colours.
 */
#ifndef CTR_SYNTH_PHOTOS_H
#define CTR_SYNTH_PHOTOS_H

#include "common/base/base.h"

enum { CTR_LOOK = 6, CTR_PHOTO_SQUARES = 4, CTR_PHOTO_COLOURS = 3 * CTR_PHOTO_SQUARES * CTR_PHOTO_SQUARES };
enum { CTR_PHOTO_SIDE = 32 }; /* pixels */

/* About normal(0, 1): the sum of twelve uniforms, less six. `what` selects the stream of random numbers. */
double ctr_synth_gauss(uint64_t seed, int what, int64_t of);

void ctr_synth_look(uint64_t seed, int64_t ad, double look[CTR_LOOK]);
/* The part of the log-odds given by the look: .3 look[0] + .2 (look[1]^2 - 1), the same for all users, and 1.5 <taste,
 * look[2..5]> / 2; each user has one taste for even and one for odd categories. */
double ctr_synth_appeal(uint64_t seed, int64_t user, int category, const double look[CTR_LOOK]);
/* The colours of the squares, line by line, with red, green and blue of each. */
void ctr_synth_photo(uint64_t seed, int64_t ad, int category, uint8_t colour[CTR_PHOTO_COLOURS]);

/* Append a member NAME with the photograph as PNG to a tar archive. The bytes do not depend on zlib's version, because
 * the pixels are stored and not compressed. */
int ctr_synth_photo_tar(struct ctr_out *out, const char *name, const uint8_t colour[CTR_PHOTO_COLOURS],
                        struct ctr_err *err) CTR_MUST;
int ctr_synth_tar_end(struct ctr_out *out, struct ctr_err *err) CTR_MUST;

#endif
