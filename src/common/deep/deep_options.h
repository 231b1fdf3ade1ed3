/* SPDX-License-Identifier: Apache-2.0
 *
 * deep_options: option table rows that deep models share. A model's table consists of these macros and its own rows, in
 * the order of the text in model files:
 *
 *     static const struct ctr_param options[] = {
 *         CTR_DEEP_OPTIONS,                  every deep model: embeddings, minibatches, Adam
 *         CTR_DEEP_POOLING_OPTION,           models that pool the keys of a field by --pooling
 *         CTR_DEEP_STACK_OPTIONS("200,80"),  models with hidden layers; their default sizes (_LIKE: and activation)
 *         { "own", … },
 *         { 0 },
 *     };
 */
#ifndef CTR_DEEP_OPTIONS_H
#define CTR_DEEP_OPTIONS_H

#include <math.h>

#include "common/deep/deep.h"

extern const char *const ctr_deep_activations[], *const ctr_deep_poolings[], *const ctr_no_yes[];
extern const char *const ctr_deep_missing_images[], *const ctr_deep_image_scales[], *const ctr_deep_images_at[];

/* clang-format off */
#define CTR_DEEP_OPTIONS                                                                                               \
    { "l2", CTR_PARAM_REAL, CTR_PARAM_AT(deep.l2), "0", 0, INFINITY, "0 or more", "X", CTR_GROUP_REGULARISE,                \
      "L2 regularisation of the embeddings of each minibatch" },                                                       \
    { "l2-counts", CTR_PARAM_FILE, CTR_PARAM_AT(deep.l2_counts), .unit = "FILE", .group = CTR_GROUP_REGULARISE,             \
      .help = "for --l2 on a pipe: file with the number of rows of each key", .flags = CTR_PARAM_UNSAVED,              \
      .needs = "l2" },                                                                                                 \
    { "spill", CTR_PARAM_FOLDER, CTR_PARAM_AT(spill), .unit = "DIR", .group = CTR_GROUP_MEMORY,                        \
      .help = "keep embeddings beyond --memory on disk, in DIR", .flags = CTR_PARAM_UNSAVED },                         \
    { "prefetch", CTR_PARAM_INT, CTR_PARAM_AT(prefetch), "0", 0, 1, "0 or 1: more gains nothing", "N",                 \
      CTR_GROUP_MEMORY,                                                                                                \
      "number of minibatches whose rows are requested ahead, from disk or other ranks",                                \
      .flags = CTR_PARAM_UNSAVED | CTR_PARAM_LOCAL },                                                                  \
    { "minibatch", CTR_PARAM_INT, CTR_PARAM_AT(minibatch), "3000", 1, CTR_MAX_MINIBATCH, "1 to 65536 rows",            \
      "ROWS", CTR_GROUP_OPTIMIZER, "rows per update, which the threads of -j share", .unsaved = "1",                   \
      .flags = CTR_PARAM_BASIC },                                                                                      \
    { "seed", CTR_PARAM_INT, CTR_PARAM_AT(seed), "0", 0, 0x1p63, "0 or more", .flags = CTR_PARAM_UNTYPED,              \
      .unsaved = "0" },                                                                                                \
    { "embedding", CTR_PARAM_INT, CTR_PARAM_AT(deep.embedding), "12", 1, 1024, "1 to 1024", "N", CTR_GROUP_MODEL,           \
      "dimension of an embedding", .flags = CTR_PARAM_BASIC },                                                         \
    { "rate", CTR_PARAM_REAL, CTR_PARAM_AT(deep.rate), "0.001", 0x1p-126, 0x1p126, "above 0 and below 8e37", "X",           \
      CTR_GROUP_OPTIMIZER, "learning rate of Adam", .flags = CTR_PARAM_BASIC },                                        \
    { "decay", CTR_PARAM_REAL, CTR_PARAM_AT(deep.decay), "1", 0x1p-126, 1 + 0x1p-52, "above 0 and at most 1", "X",          \
      CTR_GROUP_OPTIMIZER, "multiply the learning rate by X every --decay-every rows" },                               \
    { "decay-every", CTR_PARAM_INT, CTR_PARAM_AT(deep.decay_every), "1440000000", 1, 0x1p62, "1 or more", "ROWS",           \
      CTR_GROUP_OPTIMIZER, "apply --decay every ROWS rows", .needs = "decay" }

#define CTR_DEEP_POOLING_OPTION                                                                                        \
    { "pooling", CTR_PARAM_WORD, CTR_PARAM_AT(deep.pooling), "sum", .range = "sum, mean or max",                            \
      .group = CTR_GROUP_MODEL, .help = "how to combine the embeddings of a field's keys",                             \
      .words = ctr_deep_poolings, .unsaved = "sum" }

#define CTR_DEEP_STACK_OPTIONS(sizes) CTR_DEEP_STACK_OPTIONS_LIKE(sizes, "prelu")
#define CTR_DEEP_STACK_OPTIONS_LIKE(sizes, act)                                                                        \
    { "dropout", CTR_PARAM_REAL, CTR_PARAM_AT(dropout), "0", 0, 1, "0 or more and below 1", "P",                       \
      CTR_GROUP_REGULARISE, "share of the hidden units that an update leaves out", .unsaved = "0" },                   \
    { "hidden", CTR_PARAM_SIZES, CTR_PARAM_AT(deep.hidden), sizes,                                                          \
      .range = "1 to 8 sizes such as 200,80, each 1 to 65536, or 0 for none", .unit = "N,N,…",                         \
      .group = CTR_GROUP_MODEL, .help = "units of each hidden layer", .flags = CTR_PARAM_BASIC },                      \
    { "activation", CTR_PARAM_WORD, CTR_PARAM_AT(deep.activation), act, .range = "prelu, relu or dice",                     \
      .group = CTR_GROUP_MODEL, .help = "activation function of the hidden units",                                     \
      .words = ctr_deep_activations },                                                                                 \
    { "batch-norm", CTR_PARAM_FLAG, CTR_PARAM_AT(deep.batch_norm), "no", .range = "yes or no",                              \
      .group = CTR_GROUP_MODEL, .help = "apply batch normalisation to the hidden units", .words = ctr_no_yes }

/* Models that know the inputs of the user, whose columns are added up first (ctr_stack_user_first): spec.takes_sides. */
#define CTR_DEEP_USER_OPTION                                                                                           \
    { "user-features", CTR_PARAM_TEXT, CTR_PARAM_AT(deep.user_features), .unit = "LIST", .group = CTR_GROUP_MODEL,          \
      .help = "inputs that describe the user: names or patterns, separated by commas",                                 \
      .flags = CTR_PARAM_UNSAVED | CTR_PARAM_BASIC }

/* … and those of the ad. */
#define CTR_DEEP_SIDE_OPTIONS                                                                                          \
    CTR_DEEP_USER_OPTION,                                                                                              \
    { "ad-features", CTR_PARAM_TEXT, CTR_PARAM_AT(deep.ad_features), .unit = "LIST", .group = CTR_GROUP_MODEL,              \
      .help = "inputs that describe the ad: names or patterns, separated by commas",                                   \
      .flags = CTR_PARAM_UNSAVED | CTR_PARAM_BASIC }

#define CTR_DEEP_IMAGES_AT_OPTION                                                                                      \
    { "images-at", CTR_PARAM_WORD, CTR_PARAM_AT(images.at), "ams", .range = "ams, worker or server",                   \
      .group = CTR_GROUP_MEMORY, .help = "over several ranks: which of them computes the image tower",                 \
      .words = ctr_deep_images_at, .flags = CTR_PARAM_UNSAVED }

/* Models that learn from images: ctr_deep_images_declare. file_without: the value implied by a model file without the
 * option, or NULL: always saved. */
#define CTR_DEEP_IMAGES_OPTION                                                                                         \
    { "images", CTR_PARAM_FILE, CTR_PARAM_AT(images.file), .unit = "FILE", .group = CTR_GROUP_MODEL,                        \
      .help = "vectors of images: a column of keys and a column of lists of floats",                                   \
      .flags = CTR_PARAM_UNSAVED | CTR_PARAM_BASIC }

#define CTR_DEEP_IMAGES_TOWER_OPTION(file_without)                                                                     \
    { "images-tower", CTR_PARAM_SIZES, CTR_PARAM_AT(images.tower), "256,64",                                           \
      .range = "1 to 8 sizes such as 256,64, each 1 to 65536, or 0 for none", .unit = "N,N,…",                         \
      .group = CTR_GROUP_MODEL, .help = "units of each hidden layer of the image tower",                               \
      .unsaved = (file_without) }

#define CTR_DEEP_IMAGES_SCALE_OPTION                                                                                   \
    { "images-scale", CTR_PARAM_WORD, CTR_PARAM_AT(images.scale), "none", .range = "none or standard",                 \
      .group = CTR_GROUP_MODEL, .help = "how to scale the vectors of images before the tower",                         \
      .words = ctr_deep_image_scales, .unsaved = "none" }

#define CTR_DEEP_MISSING_IMAGE_OPTION(file_without)                                                                    \
    { "missing-image", CTR_PARAM_WORD, CTR_PARAM_AT(images.missing), "fail", .range = "fail or zero",                   \
      .group = CTR_GROUP_INPUT, .help = "what to do with a row whose image is not in --images",                        \
      .words = ctr_deep_missing_images, .unsaved = (file_without) }
/* clang-format on */

/* The value of --pooling. */
enum ctr_pooling ctr_deep_pooling_of(const char *name);

#endif
