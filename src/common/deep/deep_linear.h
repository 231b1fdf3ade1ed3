/* SPDX-License-Identifier: Apache-2.0
 *
 * linear: logistic regression as a network on pooled inputs, for models that extend it. See deep_linear.c. */
#ifndef CTR_DEEP_LINEAR_H
#define CTR_DEEP_LINEAR_H

#include "common/deep/deep.h"

extern const struct ctr_deep_spec ctr_linear_network;

#endif
