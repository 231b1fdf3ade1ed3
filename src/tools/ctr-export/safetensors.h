/* SPDX-License-Identifier: Apache-2.0
 *
 * safetensors: writes the numbers of a stream or a bundle as named tensors (https://github.com/huggingface/safetensors:
 * 8 bytes of length, a JSON header, the data). A model's sections get the names that a deep learning library would use:
 *
 *     section mlp.0.weight (row, value[n])      tensor mlp.0.weight [rows, n]; a parameter that is a vector: [n]
 *     section emb.item (key, value[n])          tensors emb.item [rows, n] and emb.item.key [rows], uint64
 *     any other column C of section S           tensor S.C [rows], or [rows, width] of a fixed_size_list; without a
 *                                               section: C
 *
 * Optimizer state (m, v, count) is left out, and so are columns other than numbers. Header entries and data are sorted
 * by size of type, the largest first, then by name, so that all data is aligned. A parameter that is a vector has
 * CTR_META_SHAPE. */
#ifndef CTR_SAFETENSORS_H
#define CTR_SAFETENSORS_H

#include "common/stream/stream.h"

/* Write all of `r` (opened with sections). Data go through temporary files: memory does not grow with them. `left_out`
 * receives the names of columns without numbers, "a, b". */
int ctr_safetensors_write(struct ctr_reader *r, struct ctr_out *out, struct ctr_buf *left_out,
                          struct ctr_err *err) CTR_MUST;

#endif
