/* SPDX-License-Identifier: Apache-2.0
 *
 * memory: the bound of --memory, and what of it a batch may take. What grows with the data is each object's matter
 * (memory_bytes); batches are everybody's: one that is read may take an eighth of the bound (4 MiB at least), and is
 * handed out in parts of a sixty-fourth (1 MiB at least). */
#ifndef CTR_MEMORY_H
#define CTR_MEMORY_H

#include "common/base/base.h"

/* The bound of the process, 0: none. */
void ctr_memory_set(int64_t bytes);
int64_t ctr_memory_batch(void); /* INT64_MAX without a bound */
int64_t ctr_memory_part(void);
/* What is left for all else: batches of up to 8 MiB count as part of the program. 0 without a bound. */
int64_t ctr_memory_rest(void);
/* "WHAT needs X, …", CTR_ENOMEM: it needs more than ctr_memory_batch. */
int ctr_memory_fail(const char *what, int64_t need, struct ctr_err *err);

#endif
