/* SPDX-License-Identifier: Apache-2.0
 *
 * export_gzip: compresses text with gzip. The header has no name and no time, and nothing is flushed before the end or
 * a failure, so that the bytes depend only on the text. */
#include "tools/ctr-export/export_format.h"
#include <stdlib.h>
#include <zlib.h>

struct ctr_export_gzip {
    z_stream z;
    uint8_t out[64 << 10];
};

int ctr_export_gzip_new(struct ctr_export_gzip **g, struct ctr_err *err)
{
    *g = calloc(1, sizeof(**g));
    if (*g && deflateInit2(&(*g)->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK)
        return 0;
    free(*g);
    *g = NULL;
    return ctr_fail_nomem(err, 256 << 10);
}

int ctr_export_gzip_write(struct ctr_export_gzip *g, const void *p, size_t n, enum ctr_gzip_next next,
                          struct ctr_out *out, struct ctr_err *err)
{
    static const int flush[] = {
        [CTR_GZIP_MORE] = Z_NO_FLUSH, [CTR_GZIP_CUT] = Z_SYNC_FLUSH, [CTR_GZIP_END] = Z_FINISH
    };
    const uint8_t *from = p;
    int rc = 0;

    do {
        size_t piece = CTR_MIN(n, (size_t)16 << 20); /* zlib's counters have 32 bits */
        g->z.next_in = (Bytef *)(uintptr_t)from;
        g->z.avail_in = (uInt)piece;
        from += piece;
        n -= piece;
        do {
            g->z.next_out = g->out;
            g->z.avail_out = sizeof(g->out);
            (void)deflate(&g->z, flush[n ? CTR_GZIP_MORE : next]); /* a full output buffer means that there is more */
            rc = ctr_out_write(out, g->out, sizeof(g->out) - g->z.avail_out, err);
        } while (rc == 0 && !g->z.avail_out);
    } while (rc == 0 && n);
    return rc;
}

void ctr_export_gzip_free(struct ctr_export_gzip *g)
{
    if (g)
        deflateEnd(&g->z);
    free(g);
}
