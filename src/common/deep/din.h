/* SPDX-License-Identifier: Apache-2.0
 *
 * din: the network of din.c, for models that extend it: they make the sequences, then declare it. */
#ifndef CTR_DIN_H
#define CTR_DIN_H

#include "common/deep/deep.h"

extern const char *const ctr_din_attentions[];

/* clang-format off */
#define CTR_DIN_ATTENTION_OPTIONS                                                                                      \
    { "attention", CTR_PARAM_WORD, CTR_PARAM_AT(deep.attention), "plain", .range = "plain or softmax",                      \
      .group = CTR_GROUP_MODEL, .help = "weights of the items of a history: raw scores, or their softmax",             \
      .words = ctr_din_attentions },                                                                                   \
    { "attention-hidden", CTR_PARAM_SIZES, CTR_PARAM_AT(deep.attention_hidden), "80,40",                                    \
      .range = "1 to 8 sizes such as 80,40, each 1 to 65536, or 0 for none", .unit = "N,N,…",                          \
      .group = CTR_GROUP_MODEL, .help = "units of each hidden layer of the attention network" }
/* clang-format on */

/* Attention units over the sequences, next to the other inputs, below layers of --hidden. */
extern const struct ctr_deep_spec ctr_din_network;

#endif
