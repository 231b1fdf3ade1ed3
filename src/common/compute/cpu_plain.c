/* SPDX-License-Identifier: Apache-2.0
 *
 * cpu_plain: the loops of cpu_body.h for any processor: fmaf in a loop. The other versions must give the same
 * results. */
#include "common/compute/cpu.h"

#pragma GCC optimize("O3")

static bool usable(void)
{
    return true;
}

#define ISA     plain
#define LANES   1
#define ROWS    1
#define VECTORS 1
#include "common/compute/cpu_body.h"
