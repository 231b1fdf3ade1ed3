/* SPDX-License-Identifier: Apache-2.0
 *
 * columns: how many columns of a terminal a text takes: none for combining marks, two for the wide characters of East
 * Asia and pictures, else one for each code point. Independent of the locale; the input is UTF-8. */
#include "common/base/base.h"

static const struct range {
    uint32_t from, to;
    int columns;
} ranges[] = {
    { 0x300, 0x36f, 0 },     { 0x483, 0x489, 0 },     { 0x591, 0x5bd, 0 },     { 0x610, 0x61a, 0 },
    { 0x64b, 0x65f, 0 },     { 0x1100, 0x115f, 2 },   { 0x200b, 0x200f, 0 },   { 0x202a, 0x202e, 0 },
    { 0x2060, 0x2064, 0 },   { 0x20d0, 0x20ff, 0 },   { 0x2e80, 0x303e, 2 },   { 0x3041, 0x33ff, 2 },
    { 0x3400, 0x4dbf, 2 },   { 0x4e00, 0x9fff, 2 },   { 0xa000, 0xa4cf, 2 },   { 0xac00, 0xd7a3, 2 },
    { 0xf900, 0xfaff, 2 },   { 0xfe00, 0xfe0f, 0 },   { 0xfe20, 0xfe2f, 0 },   { 0xfe30, 0xfe6f, 2 },
    { 0xff00, 0xff60, 2 },   { 0xffe0, 0xffe6, 2 },   { 0x1f300, 0x1f64f, 2 }, { 0x1f680, 0x1f6ff, 2 },
    { 0x1f900, 0x1f9ff, 2 }, { 0x20000, 0x3fffd, 2 },
};

/* The code point at p and its bytes. */
static uint32_t code_point(const char *text, size_t n, size_t *bytes)
{
    const uint8_t *p = (const uint8_t *)text;
    uint32_t c = *p;
    *bytes = c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    *bytes = CTR_MIN(*bytes, n);
    c &= *bytes == 1 ? 0xff : *bytes == 2 ? 0x1f : *bytes == 3 ? 0xf : 7;
    for (size_t i = 1; i < *bytes; i++)
        c = c << 6 | (p[i] & 63);
    return c;
}

static int columns_of(uint32_t c)
{
    for (size_t i = 0; c >= 0x300 && i < CTR_COUNT(ranges); i++)
        if (c >= ranges[i].from && c <= ranges[i].to)
            return ranges[i].columns;
    return 1;
}

int ctr_columns(const char *p, size_t n)
{
    int64_t columns = 0;
    for (size_t bytes; n; p += bytes, n -= bytes)
        columns += columns_of(code_point(p, n, &bytes));
    return (int)CTR_MIN(columns, (int64_t)INT32_MAX);
}

size_t ctr_columns_cut(const char *p, size_t n, int most)
{
    size_t at = 0, bytes;
    for (int columns = 0; at < n; at += bytes) {
        columns += columns_of(code_point(p + at, n - at, &bytes));
        if (columns > most)
            break;
    }
    return at;
}
