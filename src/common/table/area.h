/* SPDX-License-Identifier: Apache-2.0
 *
 * area: memory of large tables, which grows in place. Zero-initialise to start. */
#ifndef CTR_AREA_H
#define CTR_AREA_H

#include "common/base/base.h"

/* Memory that grows in place where possible and is never copied: address space is reserved ahead, pages are allocated
 * on use. */
struct ctr_area {
    uint8_t *base;
    size_t bytes;    /* usable */
    size_t reserved; /* of address space */
};
int ctr_area_grow(struct ctr_area *a, size_t bytes, struct ctr_err *err) CTR_MUST; /* new bytes are zero */
/* The same for memory that is soon written everywhere: allocates the pages at once, unless that takes long, instead of
 * one by one on first access. */
int ctr_area_fill(struct ctr_area *a, size_t bytes, struct ctr_err *err) CTR_MUST;
/* The same for memory that grows slowly: in huge pages once it is large. */
int ctr_area_reserve(struct ctr_area *a, size_t bytes, struct ctr_err *err) CTR_MUST;
/* Grow early, while other threads use the memory: nothing moves; if it would have to move, this does nothing. */
void ctr_area_ahead(struct ctr_area *a, size_t bytes);
/* Give memory back; if that fails, the area keeps it. */
void ctr_area_shrink(struct ctr_area *a, size_t bytes);
void ctr_area_free(struct ctr_area *a);

#endif
