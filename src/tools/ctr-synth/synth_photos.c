/* SPDX-License-Identifier: Apache-2.0
 *
 * synth_photos: looks, tastes, colours; and minimal writers of PNG and tar. */
#include "tools/ctr-synth/synth_photos.h"

#include <stdio.h>
#include <zlib.h>

/* Streams of random numbers; synth.c has those below 64. */
enum { LOOK = 64, TASTE, MIXTURE, OFFSET, NOISE };
enum { LINE = 1 + 3 * CTR_PHOTO_SIDE, PIXELS = LINE * CTR_PHOTO_SIDE, BLOCK = 512 };
enum { STORED = 2 + 5 + PIXELS + 4, PNG_BYTES = 8 + 12 + 13 + 12 + STORED + 12 };

double ctr_synth_gauss(uint64_t seed, int what, int64_t of)
{
    double sum = -6;

    for (int i = 0; i < 12; i++)
        sum += ctr_random01(seed ^ 0x5eed, (uint64_t)what << 8 | (uint64_t)i, (uint64_t)of);
    return sum;
}

/* ---- what a photograph shows ---- */

void ctr_synth_look(uint64_t seed, int64_t ad, double look[CTR_LOOK])
{
    for (int j = 0; j < CTR_LOOK; j++)
        look[j] = ctr_synth_gauss(seed, LOOK, ad * CTR_LOOK + j);
}

double ctr_synth_appeal(uint64_t seed, int64_t user, int category, const double look[CTR_LOOK])
{
    const int64_t who = user * 2 + category % 2;
    double taste = 0;

    for (int j = 2; j < CTR_LOOK; j++)
        taste += ctr_synth_gauss(seed, TASTE, who * CTR_LOOK + j) * look[j];
    return .3 * look[0] + .2 * (look[1] * look[1] - 1) + 1.5 * taste / 2;
}

void ctr_synth_photo(uint64_t seed, int64_t ad, int category, uint8_t colour[CTR_PHOTO_COLOURS])
{
    double look[CTR_LOOK];

    ctr_synth_look(seed, ad, look);
    for (int k = 0; k < CTR_PHOTO_COLOURS; k++) {
        double x = .7 * ctr_synth_gauss(seed, OFFSET, category * CTR_PHOTO_COLOURS + k) +
                   .3 * ctr_synth_gauss(seed, NOISE, ad * CTR_PHOTO_COLOURS + k);
        for (int j = 0; j < CTR_LOOK; j++)
            x += ctr_synth_gauss(seed, MIXTURE, k * CTR_LOOK + j) * look[j] * .408248290463863; /* 1 / sqrt(6) */
        x = 128 + 32 * x;
        colour[k] = (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x);
    }
}

/* ---- PNG ---- */

static uint8_t *put32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (24 - 8 * i));
    return p + 4;
}

/* Write the length, name and checksum of a chunk around its n bytes, which are already at p + 8. */
static uint8_t *chunk(uint8_t *p, const char *name, uint32_t n)
{
    put32(p, n);
    memcpy(p + 4, name, 4);
    return put32(p + 8 + n, (uint32_t)crc32(0, p + 4, 4 + n));
}

static void draw(uint8_t *pixels, const uint8_t colour[CTR_PHOTO_COLOURS])
{
    const int side = CTR_PHOTO_SIDE / CTR_PHOTO_SQUARES;

    for (int y = 0; y < CTR_PHOTO_SIDE; y++) {
        uint8_t *line = pixels + y * LINE;
        *line++ = 0; /* no filter */
        for (int x = 0; x < CTR_PHOTO_SIDE; x++)
            memcpy(line + 3 * x, colour + 3 * (y / side * CTR_PHOTO_SQUARES + x / side), 3);
    }
}

static void make_png(uint8_t png[PNG_BYTES], const uint8_t colour[CTR_PHOTO_COLOURS])
{
    static const uint8_t signature[8] = { 137, 'P', 'N', 'G', 13, 10, 26, 10 };
    static const uint8_t rgb8[5] = { 8, 2, 0, 0, 0 };
    /* zlib: a single last block, stored, of PIXELS bytes */
    static const uint8_t stored[7] = { 0x78, 1, 1, PIXELS & 255, PIXELS >> 8, ~PIXELS & 255, ~PIXELS >> 8 & 255 };
    uint8_t *p = png + 8;

    memcpy(png, signature, sizeof signature);
    memcpy(put32(put32(p + 8, CTR_PHOTO_SIDE), CTR_PHOTO_SIDE), rgb8, sizeof rgb8);
    p = chunk(p, "IHDR", 13);
    memcpy(p + 8, stored, sizeof stored);
    draw(p + 8 + 7, colour);
    put32(p + 8 + 7 + PIXELS, (uint32_t)adler32(1, p + 8 + 7, PIXELS));
    p = chunk(p, "IDAT", STORED);
    chunk(p, "IEND", 0);
}

/* ---- tar: ustar ---- */

int ctr_synth_photo_tar(struct ctr_out *out, const char *name, const uint8_t colour[CTR_PHOTO_COLOURS],
                        struct ctr_err *err)
{
    static const char zeros[BLOCK];
    uint8_t png[PNG_BYTES];
    char head[BLOCK] = { 0 };
    unsigned sum = 0;

    snprintf(head, 100, "%s", name);
    memcpy(head + 100, "0000644\0000000000\0000000000", 24);
    snprintf(head + 124, 12, "%011o", (unsigned)PNG_BYTES);
    snprintf(head + 136, 12, "%011o", 0u);
    memset(head + 148, ' ', 8);
    head[156] = '0';
    memcpy(head + 257, "ustar\00000", 8);
    for (int i = 0; i < BLOCK; i++)
        sum += (uint8_t)head[i];
    snprintf(head + 148, 8, "%06o", sum);
    make_png(png, colour);

    int rc = ctr_out_write(out, head, BLOCK, err);
    if (!rc)
        rc = ctr_out_write(out, png, PNG_BYTES, err);
    return rc ? rc : ctr_out_write(out, zeros, (size_t)(-PNG_BYTES & (BLOCK - 1)), err);
}

int ctr_synth_tar_end(struct ctr_out *out, struct ctr_err *err)
{
    static const char zeros[2 * BLOCK];

    return ctr_out_write(out, zeros, sizeof zeros, err);
}
