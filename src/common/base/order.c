/* SPDX-License-Identifier: Apache-2.0
 *
 * order: comparisons for qsort. */
#include "common/base/base.h"

#define ORDER(x, y) (((x) > (y)) - ((x) < (y)))

int ctr_by_u32(const void *a, const void *b)
{
    return ORDER(*(const uint32_t *)a, *(const uint32_t *)b);
}

int ctr_by_u64(const void *a, const void *b)
{
    return ORDER(*(const uint64_t *)a, *(const uint64_t *)b);
}

int ctr_by_i64(const void *a, const void *b)
{
    return ORDER(*(const int64_t *)a, *(const int64_t *)b);
}

int ctr_by_f64(const void *a, const void *b)
{
    return ORDER(*(const double *)a, *(const double *)b);
}

int ctr_by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}
