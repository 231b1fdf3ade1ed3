/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of mlp, in the order of a model file's text. A new one is a row here, a member of struct ctr_params and
 * an entry of man/ctr-train-mlp.1. */
#include <math.h>

#include "common/deep/deep.h"

static const char *const activations[] = { "prelu", "relu", "dice", NULL };
static const char *const poolings[] = { "sum", "mean", "max", NULL };
static const char *const no_yes[] = { "no", "yes", NULL };

#define AT(member) CTR_PARAM_AT(member)
const struct ctr_param ctr_mlp_options[] = {
    { "l2", CTR_PARAM_REAL, AT(l2), "0", 0, INFINITY, "0 or more", "X", CTR_GROUP_REGULARISE,
      "L2 regularisation of embeddings, by minibatch" },
    { "l2-counts", CTR_PARAM_FILE, AT(l2_counts), .unit = "FILE", .group = CTR_GROUP_REGULARISE,
      .help = "how often keys come, for --l2: columns key and count", .flags = CTR_PARAM_UNSAVED, .needs = "l2" },
    { "minibatch", CTR_PARAM_INT, AT(minibatch), "3000", 1, CTR_MAX_MINIBATCH, "1 to 65536 rows", "ROWS",
      CTR_GROUP_OPTIMIZER, "update after so many rows, which -j shares", .unsaved = "1" },
    { "dropout", CTR_PARAM_REAL, AT(dropout), "0", 0, 1, "0 or more and below 1", "P", CTR_GROUP_REGULARISE,
      "leave a share P of the hidden units out of learning", .unsaved = "0" },
    { "seed", CTR_PARAM_INT, AT(seed), "0", 0, 0x1p63, "0 or more", .flags = CTR_PARAM_UNTYPED, .unsaved = "0" },
    { "embedding", CTR_PARAM_INT, AT(embedding), "12", 1, 1024, "1 to 1024", "N", CTR_GROUP_MODEL,
      "numbers that stand for a key" },
    { "hidden", CTR_PARAM_SIZES, AT(hidden), "200,80",
      .range = "1 to 8 sizes such as 200,80, each 1 to 65536, or 0 for none", .unit = "N,N,…", .group = CTR_GROUP_MODEL,
      .help = "units of the hidden layers, or 0" },
    { "activation", CTR_PARAM_WORD, AT(activation), "prelu", .range = "prelu, relu or dice", .group = CTR_GROUP_MODEL,
      .help = "of hidden units", .words = activations },
    { "pooling", CTR_PARAM_WORD, AT(pooling), "sum", .range = "sum, mean or max", .group = CTR_GROUP_MODEL,
      .help = "of the values of a field's keys", .words = poolings, .unsaved = "sum" },
    { "batch-norm", CTR_PARAM_FLAG, AT(batch_norm), "no", .range = "yes or no", .group = CTR_GROUP_MODEL,
      .help = "normalise hidden units over the minibatch", .words = no_yes },
    { "rate", CTR_PARAM_REAL, AT(rate), "0.001", 0x1p-126, 0x1p126, "above 0 and below 8e37", "X", CTR_GROUP_OPTIMIZER,
      "learning rate of Adam" },
    { "decay", CTR_PARAM_REAL, AT(decay), "1", 0x1p-126, 1 + 0x1p-52, "above 0 and at most 1", "X", CTR_GROUP_OPTIMIZER,
      "multiply the rate by X after each --decay-every rows" },
    { "decay-every", CTR_PARAM_INT, AT(decay_every), "1440000000", 1, 0x1p62, "1 or more", "ROWS", CTR_GROUP_OPTIMIZER,
      "apply --decay every ROWS rows", .needs = "decay" },
    { 0 },
};
