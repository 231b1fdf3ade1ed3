/* SPDX-License-Identifier: Apache-2.0
 *
 * safetensors: the header, then all tensors as rows, and the weights of a network. */
#include "harness.h"

#include "common/text/tensor.h"
#include "tools/ctr-import/tensor_rows.h"

static void read_rows(const char *path, const struct ctr_strs *names)
{
    struct ctr_err err = { 0 };
    struct ctr_tensor_rows *r = NULL;
    const struct ctr_batch *b;
    int rc = ctr_tensor_rows_open(&r, path, names, 3, &err);
    int64_t rows = 0;
    while (!rc && (rc = ctr_tensor_rows_next(r, &b, &err)) > 0 && (rows += b->rows) < 10000) {
        fuzz_look(b);
        rc = 0;
    }
    FUZZ_CHECK(rc >= 0 || err.what[0]);
    ctr_tensor_rows_free(r);
}

/* Each tensor alone too: they may differ in length. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file(0, data, size);
    struct ctr_err err = { 0 };
    struct ctr_tensors *f = NULL;
    float out[16];

    read_rows(path, NULL);
    int rc = ctr_tensors_open(&f, path, &err);
    for (int i = 0; !rc && i < ctr_tensors_count(f) && i < 20; i++) {
        const struct ctr_tensor *t = ctr_tensors_at(f, i);
        struct ctr_strs name = { 0 };
        char text[64];
        FUZZ_CHECK(t->at >= 0 && t->bytes >= 0 && (size_t)(t->at + t->bytes) <= size);
        ctr_tensor_text(t, text, sizeof text);
        if (ctr_tensors_floats(f, t, 0, CTR_MIN(t->elements, 16), out, &err) &&
            !ctr_strs_add(&name, t->name, strlen(t->name), &err))
            read_rows(path, &name);
        ctr_strs_free(&name);
    }
    ctr_tensors_free(f);
    return 0;
}
