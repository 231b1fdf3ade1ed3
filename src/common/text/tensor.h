/* SPDX-License-Identifier: Apache-2.0
 *
 * tensor: reads arrays of numbers from files of deep learning libraries: safetensors
 * (https://github.com/huggingface/safetensors: 8 bytes of length, a JSON header, the data) and NumPy's npy
 * (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html), detected by content.
 *
 *     struct ctr_tensors *f;
 *     ctr_tensors_open(&f, "vgg16.safetensors", err)
 *     const struct ctr_tensor *t = ctr_tensors_find(f, "features.0.weight");      NULL: not found
 *     ctr_tensors_floats(f, t, from, n, out, err)                                 n elements as float
 *     ctr_tensors_free(f)
 *
 * The header is checked against the length of the file before memory is allocated: inconsistent headers, holes,
 * overlaps and bytes after the last tensor are errors (CTR_EDATA). Arrays are in C order, little-endian.
 */
#ifndef CTR_TENSOR_H
#define CTR_TENSOR_H

#include "common/stream/batch.h"

enum { CTR_TENSOR_RANK = 8 };

/* An element type: its name in safetensors, its bytes, and the column type (BF16: float32, which represents it
 * exactly). */
struct ctr_dtype {
    const char *name;
    int bytes;
    enum ctr_type type;
    bool bf16;
};

struct ctr_tensor {
    char *name; /* npy: "value" */
    const struct ctr_dtype *dtype;
    int rank;
    int64_t shape[CTR_TENSOR_RANK];
    int64_t elements;
    int64_t at, bytes; /* in the file */
    bool time;         /* npy: datetime64[ms] */
};

struct ctr_tensors;
int ctr_tensors_open(struct ctr_tensors **f, const char *path, struct ctr_err *err) CTR_MUST;
void ctr_tensors_free(struct ctr_tensors *f);
int ctr_tensors_count(const struct ctr_tensors *f);
const struct ctr_tensor *ctr_tensors_at(const struct ctr_tensors *f, int i); /* in the order of their data */
const struct ctr_tensor *ctr_tensors_find(const struct ctr_tensors *f, const char *name);
/* "F32 [64, 3, 3, 3]"; returns out. */
const char *ctr_tensor_text(const struct ctr_tensor *t, char *out, size_t size);
/* Elements [from, from + n) as stored in the file. A file that has become shorter is an error. */
int ctr_tensors_read(const struct ctr_tensors *f, const struct ctr_tensor *t, int64_t from, int64_t n, void *out,
                     struct ctr_err *err) CTR_MUST;
/* The same as floats. Only F16, BF16 and F32; others are CTR_EDATA, because float cannot represent them. */
int ctr_tensors_floats(const struct ctr_tensors *f, const struct ctr_tensor *t, int64_t from, int64_t n, float *out,
                       struct ctr_err *err) CTR_MUST;

#endif
