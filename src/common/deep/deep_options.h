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
    { "l2", CTR_PARAM_REAL, CTR_PARAM_AT(l2), "0", 0, INFINITY, "0 or more", "X", CTR_GROUP_REGULARISE,                \
      "L2 regularisation of embeddings, by minibatch" },                                                               \
    { "l2-counts", CTR_PARAM_FILE, CTR_PARAM_AT(l2_counts), .unit = "FILE", .group = CTR_GROUP_REGULARISE,             \
      .help = "of a pipe: how often keys come, for --l2", .flags = CTR_PARAM_UNSAVED, .needs = "l2" },     \
    { "spill", CTR_PARAM_FOLDER, CTR_PARAM_AT(spill), .unit = "DIR", .group = CTR_GROUP_MEMORY,                          \
      .help = "keep rows of embeddings beyond --memory on disk, in DIR", .flags = CTR_PARAM_UNSAVED },                 \
    { "prefetch", CTR_PARAM_INT, CTR_PARAM_AT(prefetch), "0", 0, 1, "0 or 1", "N", CTR_GROUP_MEMORY,                   \
      "minibatches whose rows are asked for ahead, of the disk or of other ranks",                                     \
      .flags = CTR_PARAM_UNSAVED | CTR_PARAM_LOCAL },                                                                  \
    { "minibatch", CTR_PARAM_INT, CTR_PARAM_AT(minibatch), "3000", 1, CTR_MAX_MINIBATCH, "1 to 65536 rows", "ROWS",    \
      CTR_GROUP_OPTIMIZER, "update after so many rows, which -j shares", .unsaved = "1" },                             \
    { "seed", CTR_PARAM_INT, CTR_PARAM_AT(seed), "0", 0, 0x1p63, "0 or more", .flags = CTR_PARAM_UNTYPED,              \
      .unsaved = "0" },                                                                                                \
    { "embedding", CTR_PARAM_INT, CTR_PARAM_AT(embedding), "12", 1, 1024, "1 to 1024", "N", CTR_GROUP_MODEL,           \
      "numbers that stand for a key" },                                                                                \
    { "rate", CTR_PARAM_REAL, CTR_PARAM_AT(rate), "0.001", 0x1p-126, 0x1p126, "above 0 and below 8e37", "X",           \
      CTR_GROUP_OPTIMIZER, "learning rate of Adam" },                                                                  \
    { "decay", CTR_PARAM_REAL, CTR_PARAM_AT(decay), "1", 0x1p-126, 1 + 0x1p-52, "above 0 and at most 1", "X",          \
      CTR_GROUP_OPTIMIZER, "multiply the rate by X after each --decay-every rows" },                                   \
    { "decay-every", CTR_PARAM_INT, CTR_PARAM_AT(decay_every), "1440000000", 1, 0x1p62, "1 or more", "ROWS",           \
      CTR_GROUP_OPTIMIZER, "apply --decay every ROWS rows", .needs = "decay" }

#define CTR_DEEP_POOLING_OPTION                                                                                        \
    { "pooling", CTR_PARAM_WORD, CTR_PARAM_AT(pooling), "sum", .range = "sum, mean or max", .group = CTR_GROUP_MODEL,  \
      .help = "of the values of a field's keys", .words = ctr_deep_poolings, .unsaved = "sum" }

#define CTR_DEEP_STACK_OPTIONS(sizes) CTR_DEEP_STACK_OPTIONS_LIKE(sizes, "prelu")
#define CTR_DEEP_STACK_OPTIONS_LIKE(sizes, act)                                                                        \
    { "dropout", CTR_PARAM_REAL, CTR_PARAM_AT(dropout), "0", 0, 1, "0 or more and below 1", "P", CTR_GROUP_REGULARISE, \
      "leave a share P of the hidden units out of learning", .unsaved = "0" },                                         \
    { "hidden", CTR_PARAM_SIZES, CTR_PARAM_AT(hidden), sizes,                                                          \
      .range = "1 to 8 sizes such as 200,80, each 1 to 65536, or 0 for none", .unit = "N,N,…",                         \
      .group = CTR_GROUP_MODEL, .help = "units of the hidden layers, or 0" },                                          \
    { "activation", CTR_PARAM_WORD, CTR_PARAM_AT(activation), act, .range = "prelu, relu or dice",                     \
      .group = CTR_GROUP_MODEL, .help = "of hidden units", .words = ctr_deep_activations },                            \
    { "batch-norm", CTR_PARAM_FLAG, CTR_PARAM_AT(batch_norm), "no", .range = "yes or no", .group = CTR_GROUP_MODEL,    \
      .help = "normalise hidden units over the minibatch", .words = ctr_no_yes }

/* Models that distinguish inputs of the user and of the ad: spec.takes_sides. */
#define CTR_DEEP_SIDE_OPTIONS                                                                                          \
    { "user-features", CTR_PARAM_TEXT, CTR_PARAM_AT(user_features), .unit = "LIST", .group = CTR_GROUP_MODEL,          \
      .help = "inputs of the user: names or patterns, with commas", .flags = CTR_PARAM_UNSAVED },                      \
    { "ad-features", CTR_PARAM_TEXT, CTR_PARAM_AT(ad_features), .unit = "LIST", .group = CTR_GROUP_MODEL,              \
      .help = "inputs of the ad", .flags = CTR_PARAM_UNSAVED }

#define CTR_DEEP_IMAGES_AT_OPTION                                                                                      \
    { "images-at", CTR_PARAM_WORD, CTR_PARAM_AT(images_at), "ams", .range = "ams, worker or server",                   \
      .group = CTR_GROUP_MEMORY, .help = "over ranks, where images go through the tower",                              \
      .words = ctr_deep_images_at, .flags = CTR_PARAM_UNSAVED }

/* Models that learn from images: ctr_deep_images_declare. file_without: the value implied by a model file without the
 * option, or NULL: always saved. */
#define CTR_DEEP_IMAGES_OPTION                                                                                         \
    { "images", CTR_PARAM_FILE, CTR_PARAM_AT(images), .unit = "FILE", .group = CTR_GROUP_MODEL,                        \
      .help = "vectors of images: a column of keys and one of lists of floats", .flags = CTR_PARAM_UNSAVED }

#define CTR_DEEP_IMAGES_TOWER_OPTION(file_without)                                                                     \
    { "images-tower", CTR_PARAM_SIZES, CTR_PARAM_AT(images_tower), "256,64",                                           \
      .range = "1 to 8 sizes such as 256,64, each 1 to 65536, or 0 for none", .unit = "N,N,…",                         \
      .group = CTR_GROUP_MODEL,                                                                                        \
      .help = "units of the hidden layers between an image and its --embedding numbers, or 0",                         \
      .unsaved = (file_without) }

#define CTR_DEEP_IMAGES_SCALE_OPTION                                                                                   \
    { "images-scale", CTR_PARAM_WORD, CTR_PARAM_AT(images_scale), "none", .range = "none or standard",                 \
      .group = CTR_GROUP_MODEL, .help = "of the vectors of images before the tower",                                   \
      .words = ctr_deep_image_scales, .unsaved = "none" }

#define CTR_DEEP_MISSING_IMAGE_OPTION(file_without)                                                                    \
    { "missing-image", CTR_PARAM_WORD, CTR_PARAM_AT(missing_image), "fail", .range = "fail or zero",                   \
      .group = CTR_GROUP_INPUT, .help = "a row names an image that the file lacks",                                    \
      .words = ctr_deep_missing_images, .unsaved = (file_without) }
/* clang-format on */

/* The value of --pooling. */
enum ctr_pooling ctr_deep_pooling_of(const char *name);

#endif
