/* SPDX-License-Identifier: Apache-2.0
 *
 * serve_images: keys in paths. See serve_images.h. */
#include "tools/ctr-serve/serve_images.h"

const char *serve_image_key(const char *path, char key[SERVE_KEY_BYTES])
{
    const char *p = path + strlen(SERVE_IMAGES);
    size_t n = 0;
    for (; *p && n + 1 < SERVE_KEY_BYTES; p++) {
        int c = (unsigned char)*p;
        if (c == '%') {
            const int high = ctr_hex_digit(p[1]), low = high < 0 ? -1 : ctr_hex_digit(p[2]);
            if (low < 0)
                return "a % in the key is not followed by two hexadecimal digits";
            c = high << 4 | low;
            p += 2;
        }
        if (!c)
            return "the key has a byte 0";
        key[n++] = (char)c;
    }
    key[n] = 0;
    if (!n)
        return "the key is missing: PUT " SERVE_IMAGES "KEY";
    return ctr_utf8_valid((const uint8_t *)key, n) ? NULL : "the key is not UTF-8";
}
