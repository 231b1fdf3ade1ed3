/* SPDX-License-Identifier: Apache-2.0
 *
 * tensors: internal: a file of tensors while it is opened, and the two formats. */
#ifndef CTR_TENSORS_H
#define CTR_TENSORS_H

#include "common/text/tensor.h"

struct ctr_tensors {
    char *path;
    int fd;
    struct ctr_file_state opened;
    int64_t size; /* of the file */
    struct ctr_tensor *t;
    int n, cap;
};

/* Parse the headers into f->t. `head` is the first `n` bytes of the file. */
int ctr_safetensors_head(struct ctr_tensors *f, const uint8_t *head, size_t n, struct ctr_err *err) CTR_MUST;
int ctr_npy_head(struct ctr_tensors *f, const uint8_t *head, size_t n, struct ctr_err *err) CTR_MUST;

/* Add a tensor of this shape and type; its name is copied. Checks the product of the shape. */
int ctr_tensors_add(struct ctr_tensors *f, const struct ctr_tensor *t, const char *name, size_t n,
                    struct ctr_err *err) CTR_MUST;
const struct ctr_dtype *ctr_dtype_find(const char *name, size_t n);

#endif
