/* SPDX-License-Identifier: Apache-2.0
 *
 * optimizer_body.h and optimizer_fused.h for double and for float, of one instruction set; optimizer_kernel.c includes
 * it. */
#define TYPE     f64
#define REAL     double
#define VECTOR   lanes_f64
#define SQRT     sqrt
#define ABS      fabs
#define COPYSIGN copysign
#include "common/model/optimizer_body.h"
#include "common/model/optimizer_fused.h"
FUSED(counts, false, true)
#undef PARAMS
#undef MIDDLE
#undef EIGHT
#undef FUSED
#undef TYPE
#undef REAL
#undef VECTOR
#undef SQRT
#undef ABS
#undef COPYSIGN

#define TYPE     f32
#define REAL     float
#define VECTOR   lanes_f32
#define SQRT     sqrtf
#define ABS      fabsf
#define COPYSIGN copysignf
#include "common/model/optimizer_body.h"
#include "common/model/optimizer_fused.h"
FUSED(counts, false, true)
FUSED(q13_squares, true, false)
FUSED(q13_counts, true, true)
#undef PARAMS
#undef MIDDLE
#undef EIGHT
#undef FUSED
#undef TYPE
#undef REAL
#undef VECTOR
#undef SQRT
#undef ABS
#undef COPYSIGN
