/* SPDX-License-Identifier: Apache-2.0
 *
 * Instantiates ftrl_x8_body.h for double and float with one instruction set; ftrl_x8.c includes it. */
#define TYPE          f64
#define REAL          double
#define BITS          int64_t
#define TOP           INT64_MIN
#define SQRT          sqrt
#define HALF_OF_ROOTS F64_ROOTS
#include "common/lr/ftrl_x8_body.h"
#undef TYPE
#undef REAL
#undef BITS
#undef TOP
#undef SQRT
#undef HALF_OF_ROOTS

#define TYPE          f32
#define REAL          float
#define BITS          int32_t
#define TOP           INT32_MIN
#define SQRT          sqrtf
#define HALF_OF_ROOTS NAME(roots)
#include "common/lr/ftrl_x8_body.h"
#undef TYPE
#undef REAL
#undef BITS
#undef TOP
#undef SQRT
#undef HALF_OF_ROOTS
