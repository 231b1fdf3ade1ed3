/* SPDX-License-Identifier: Apache-2.0
 *
 * Instantiates optimizer_body.h and optimizer_ftrl.h, and optimizer_fused.h if FUSE is defined, for double and float
 * with one instruction set. optimizer_kernel.c includes it. */
#define TYPE f64
#include "common/lr/optimizer_body.h"
#include "common/lr/optimizer_ftrl.h"
#ifdef FUSE
#include "common/lr/optimizer_fused.h"
FUSED(counts, false, true)
#endif
#undef TYPE

#define TYPE f32
#include "common/lr/optimizer_body.h"
#include "common/lr/optimizer_ftrl.h"
#ifdef FUSE
#include "common/lr/optimizer_fused.h"
FUSED(counts, false, true)
FUSED(q13_squares, true, false)
FUSED(q13_counts, true, true)
#endif
#undef TYPE
