/* SPDX-License-Identifier: Apache-2.0
 *
 * The value lists of options that deep models share. See deep_options.h. */
#include "common/deep/deep_options.h"

const char *const ctr_deep_activations[] = { "prelu", "relu", "dice", NULL };
const char *const ctr_deep_poolings[] = { "sum", "mean", "max", NULL };
const char *const ctr_deep_missing_images[] = { "fail", "zero", NULL };
const char *const ctr_deep_image_scales[] = { "none", "standard", NULL };
const char *const ctr_deep_images_at[] = { "ams", "worker", "server", NULL };
const char *const ctr_no_yes[] = { "no", "yes", NULL };

enum ctr_pooling ctr_deep_pooling_of(const char *name)
{
    return !strcmp(name, "mean") ? CTR_POOL_MEAN : !strcmp(name, "max") ? CTR_POOL_MAX : CTR_POOL_SUM;
}
