/* SPDX-License-Identifier: Apache-2.0
 *
 * textsample: the first records of an input where some are too long: columns and types are known by CTR_SAMPLE_ROWS of
 * the others, as where there is no long one. What was read for it is handed out again, in the order of the input.
 * Private to import.c.
 */
#ifndef CTR_TEXTSAMPLE_H
#define CTR_TEXTSAMPLE_H

#include "common/text/text.h"

struct ctr_text_sample {
    struct ctr_buf text;          /* the whole records */
    struct ctr_text_block *piece; /* as they came; a long record is one */
    int n, cap, next;             /* `next` is handed out next */
    int fd;                       /* 0, or of a temporary file: the long records, if they are wanted */
    size_t long_bytes, map_bytes;
    void *map;
};

/* `first` is the first block of whole records, whatever stands behind it: on return it holds the sample, which is
 * whole, or ends with its file. `keep`: long records are handed out with their bytes, else without. */
int ctr_text_sample_gather(struct ctr_text_sample *s, struct ctr_lines *lines, struct ctr_text_block *first, bool keep,
                           struct ctr_err *err) CTR_MUST;
void ctr_text_sample_free(struct ctr_text_sample *s);

#endif
