/* SPDX-License-Identifier: Apache-2.0
 *
 * safetensors: the numbers of a stream or a bundle as named tensors (https://github.com/huggingface/safetensors: 8
 * bytes of length, a JSON header, the data). A model's sections become what a deep learning library calls them:
 *
 *     section mlp.0.weight (row, value[n])      tensor mlp.0.weight [rows, n]; a parameter that is a vector: [n]
 *     section emb.item (key, value[n])          tensors emb.item [rows, n] and emb.item.key [rows], uint64
 *     any other column C of section S           tensor S.C [rows], or [rows, width] of a fixed_size_list; without a
 *                                               section: C
 *
 * What the optimizer keeps beside a value (m, v, count) is left out, and so are columns that are no numbers. Header
 * entries and data are sorted by size of type, the largest first, then by name, so that all data is aligned. A
 * parameter that is a vector has CTR_META_SHAPE. */
#ifndef CTR_SAFETENSORS_H
#define CTR_SAFETENSORS_H

#include "common/stream/stream.h"

/* All that `r` (opened with sections) has. Data goes through temporary files: memory does not grow with it. `left_out`
 * gets the names of columns that hold no numbers, "a, b". */
int ctr_safetensors_write(struct ctr_reader *r, struct ctr_out *out, struct ctr_buf *left_out,
                          struct ctr_err *err) CTR_MUST;

#endif
