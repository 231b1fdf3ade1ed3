/* SPDX-License-Identifier: Apache-2.0
 *
 * textsample: the first records of an input if some are too long: columns and types are determined from CTR_SAMPLE_ROWS
 * of the others, as without long records. The blocks read for it are returned again, in input order. Private to
 * import.c.
 */
#ifndef CTR_TEXTSAMPLE_H
#define CTR_TEXTSAMPLE_H

#include "common/text/text.h"

struct ctr_text_sample {
    struct ctr_buf text;          /* the complete records */
    struct ctr_text_block *piece; /* in input order; a long record is one piece */
    int n, cap, next;             /* `next` is returned next */
    int fd;                       /* 0, or a temporary file with the long records, if needed */
    size_t long_bytes, map_bytes;
    void *map;
};

/* `first` is the first block of complete records; on return it holds the whole sample, or ends with its file. `keep`:
 * return long records with their bytes, else without. */
int ctr_text_sample_gather(struct ctr_text_sample *s, struct ctr_lines *lines, struct ctr_text_block *first, bool keep,
                           struct ctr_err *err) CTR_MUST;
void ctr_text_sample_free(struct ctr_text_sample *s);

#endif
