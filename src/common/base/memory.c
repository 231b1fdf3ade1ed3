/* SPDX-License-Identifier: Apache-2.0
 *
 * memory: the bound of --memory and what of it the parts of a process may take. Set once, before anything is opened. */
#include "common/base/memory.h"

enum { LEAST_BATCH = 4 << 20, FREE_BATCH = 8 << 20 };

static int64_t bound; /* 0: none */

void ctr_memory_set(int64_t bytes)
{
    bound = bytes;
}

int64_t ctr_memory_batch(void)
{
    return bound ? CTR_MAX(bound / 8, LEAST_BATCH) : INT64_MAX;
}

int64_t ctr_memory_rest(void)
{
    return bound - CTR_MAX(bound / 8 - FREE_BATCH, 0);
}

int64_t ctr_memory_part(void)
{
    return bound ? CTR_MAX(bound / 64, LEAST_BATCH / 4) : INT64_MAX;
}

int ctr_memory_fail(const char *what, int64_t need, struct ctr_err *err)
{
    const uint64_t most = (uint64_t)ctr_memory_batch();
    (void)ctr_fail(err, CTR_ENOMEM, "%s needs %s, and of --memory %s a batch may take %s: write smaller batches", what,
                   ctr_size_text_beyond((uint64_t)need, most).s, ctr_size_text((uint64_t)bound).s,
                   ctr_size_text(most).s);
    return ctr_err_remedy(err, " (ctr-cat --batch ROWS), or give more");
}
