/* SPDX-License-Identifier: Apache-2.0
 *
 * tensors: opening a file of tensors and reading elements. Invariant: every tensor is inside the file, and its size in
 * bytes is its elements times their size. */
#include "common/text/tensors.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { HEAD_BYTES = 256 };

static const struct ctr_dtype dtypes[] = {
    { "BOOL", 1, CTR_BOOL },      { "I8", 1, CTR_I8 },   { "I16", 2, CTR_I16 }, { "I32", 4, CTR_I32 },
    { "I64", 8, CTR_I64 },        { "U8", 1, CTR_U8 },   { "U16", 2, CTR_U16 }, { "U32", 4, CTR_U32 },
    { "U64", 8, CTR_U64 },        { "F16", 2, CTR_F16 }, { "F32", 4, CTR_F32 }, { "F64", 8, CTR_F64 },
    { "BF16", 2, CTR_F32, true },
};

const struct ctr_dtype *ctr_dtype_find(const char *name, size_t n)
{
    for (size_t i = 0; i < CTR_COUNT(dtypes); i++)
        if (strlen(dtypes[i].name) == n && !memcmp(dtypes[i].name, name, n))
            return &dtypes[i];
    return NULL;
}

const char *ctr_tensor_text(const struct ctr_tensor *t, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "%s [", t->dtype->name);
    for (int i = 0; i < t->rank && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%lld", i ? ", " : "", (long long)t->shape[i]);
    if (n < size)
        snprintf(out + n, size - n, "]");
    return out;
}

int ctr_tensors_add(struct ctr_tensors *f, const struct ctr_tensor *t, const char *name, size_t n, struct ctr_err *err)
{
    int64_t elements = 1, bytes;
    for (int i = 0; i < t->rank; i++)
        if (__builtin_mul_overflow(elements, t->shape[i], &elements))
            return ctr_fail(err, CTR_EDATA, "tensor %.*s: the shape has more than 2^63 elements",
                            (int)CTR_MIN(n, (size_t)200), name);
    if (__builtin_mul_overflow(elements, t->dtype->bytes, &bytes) || bytes != t->bytes || t->at < 0 ||
        t->at > f->size || t->bytes > f->size - t->at)
        return ctr_fail(
            err, CTR_EDATA,
            "tensor %.*s: the header gives it %lld bytes at byte %lld of %lld, which is not what its shape takes",
            (int)CTR_MIN(n, (size_t)200), name, (long long)t->bytes, (long long)t->at, (long long)f->size);
    int rc = ctr_array_grow(&f->t, f->n, &f->cap, sizeof *f->t, err);
    if (rc)
        return rc;
    f->t[f->n] = *t;
    f->t[f->n].elements = elements;
    f->t[f->n].name = NULL;
    rc = ctr_memdup(&f->t[f->n].name, name, n, err);
    f->n += !rc;
    return rc;
}

static int by_place(const void *a, const void *b)
{
    const struct ctr_tensor *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->bytes != y->bytes ? (x->bytes < y->bytes ? -1 : 1) : strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b)
{
    const struct ctr_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* Names must be unique, because a reader could find only one of two. */
static int check_names(const struct ctr_tensors *f, struct ctr_err *err)
{
    const struct ctr_tensor **sorted = malloc((size_t)CTR_MAX(f->n, 1) * sizeof(void *));
    int rc = sorted ? 0 : ctr_fail_nomem(err, (size_t)f->n * sizeof *sorted);
    for (int i = 0; i < f->n && !rc; i++)
        sorted[i] = &f->t[i];
    if (!rc)
        qsort(sorted, (size_t)f->n, sizeof *sorted, by_name);
    for (int i = 1; i < f->n && !rc; i++)
        if (!strcmp(sorted[i]->name, sorted[i - 1]->name))
            rc = ctr_fail(err, CTR_EDATA, "two tensors have the name %s", sorted[i]->name);
    free(sorted);
    return rc;
}

/* The data must be contiguous from the end of the header to the end of the file. */
static int check_cover(const struct ctr_tensors *f, int64_t from, struct ctr_err *err)
{
    int64_t at = from;
    for (int i = 0; i < f->n; at += f->t[i++].bytes)
        if (f->t[i].at != at)
            return ctr_fail(err, CTR_EDATA, "tensor %s begins at byte %lld where the data before it ends at %lld",
                            f->t[i].name, (long long)f->t[i].at, (long long)at);
    if (at != f->size)
        return ctr_fail(err, CTR_EDATA, "the tensors end at byte %lld of %lld", (long long)at, (long long)f->size);
    return 0;
}

static int read_head(struct ctr_tensors *f, struct ctr_err *err)
{
    static const uint8_t npy[] = { 0x93, 'N', 'U', 'M', 'P', 'Y' };
    uint8_t look[HEAD_BYTES];
    const size_t n = (size_t)CTR_MIN(f->size, (int64_t)sizeof look);
    struct ctr_buf head = { 0 };
    uint64_t length = 0;

    int rc = ctr_pread_full(f->fd, look, n, 0, err);
    if (rc)
        return rc;
    const bool is_npy = n >= 10 && !memcmp(look, npy, sizeof npy);
    if (is_npy) {
        const bool wide = look[6] > 1;
        length = wide && n >= 12
                     ? (uint64_t)look[8] | (uint64_t)look[9] << 8 | (uint64_t)look[10] << 16 | (uint64_t)look[11] << 24
                     : (uint64_t)look[8] | (uint64_t)look[9] << 8;
        length += wide ? 12 : 10;
    } else if (n >= 9 && look[8] == '{') {
        memcpy(&length, look, sizeof length);
        if (length > (uint64_t)INT64_MAX - 8)
            return ctr_fail(err, CTR_EDATA, "the header says that it has %llu bytes", (unsigned long long)length);
        length += 8;
    } else {
        return ctr_fail(err, CTR_EKIND, "is neither safetensors nor npy");
    }
    if (length > (uint64_t)f->size || length > 100 << 20)
        return ctr_fail(err, CTR_EDATA, "the header says that it ends at byte %llu; the file has %lld%s",
                        (unsigned long long)length, (long long)f->size,
                        length > 100 << 20 ? ", and a header at most 100 MiB" : "");
    rc = ctr_buf_reserve(&head, (size_t)length, err);
    if (!rc)
        rc = ctr_pread_full(f->fd, head.data, (size_t)length, 0, err);
    if (!rc)
        rc = is_npy ? ctr_npy_head(f, head.data, (size_t)length, err)
                    : ctr_safetensors_head(f, head.data, (size_t)length, err);
    ctr_buf_free(&head);
    if (!rc && f->n)
        qsort(f->t, (size_t)f->n, sizeof *f->t, by_place);
    if (!rc)
        rc = check_names(f, err);
    return rc ? rc : check_cover(f, (int64_t)length, err);
}

int ctr_tensors_open(struct ctr_tensors **out, const char *path, struct ctr_err *err)
{
    struct ctr_tensors *f = calloc(1, sizeof *f);

    *out = NULL;
    if (!f)
        return ctr_fail_nomem(err, sizeof *f);
    f->fd = -1;
    int rc = ctr_strdup(&f->path, path, err);
    if (!rc)
        rc = f->fd = ctr_open_input(path, O_RDONLY, err);
    rc = CTR_MIN(rc, 0);
    if (!rc)
        rc = ctr_file_look(f->fd, path, &f->opened, err);
    if (!rc && !f->opened.regular)
        rc =
            ctr_fail(err, CTR_EKIND, "is no regular file, and tensors are read at any place: write it to a file first");
    if (!rc) {
        f->size = f->opened.size;
        rc = read_head(f, err);
    }
    if (rc) {
        ctr_err_file(err, path);
        ctr_tensors_free(f);
        return rc;
    }
    *out = f;
    return 0;
}

void ctr_tensors_free(struct ctr_tensors *f)
{
    if (!f)
        return;
    for (int i = 0; i < f->n; i++)
        free(f->t[i].name);
    if (f->fd >= 0)
        close(f->fd);
    free(f->t);
    free(f->path);
    free(f);
}

int ctr_tensors_count(const struct ctr_tensors *f)
{
    return f->n;
}

const struct ctr_tensor *ctr_tensors_at(const struct ctr_tensors *f, int i)
{
    return &f->t[i];
}

const struct ctr_tensor *ctr_tensors_find(const struct ctr_tensors *f, const char *name)
{
    for (int i = 0; i < f->n; i++)
        if (!strcmp(f->t[i].name, name))
            return &f->t[i];
    return NULL;
}

int ctr_tensors_read(const struct ctr_tensors *f, const struct ctr_tensor *t, int64_t from, int64_t n, void *out,
                     struct ctr_err *err)
{
    int rc = ctr_pread_full(f->fd, out, (size_t)(n * t->dtype->bytes), t->at + from * t->dtype->bytes, err);
    if (!rc)
        rc = ctr_file_unchanged(f->fd, &f->opened, err);
    if (rc)
        ctr_err_file(err, f->path);
    return rc;
}

int ctr_tensors_floats(const struct ctr_tensors *f, const struct ctr_tensor *t, int64_t from, int64_t n, float *out,
                       struct ctr_err *err)
{
    if (t->dtype->type != CTR_F32 && t->dtype->type != CTR_F16) {
        ctr_fail(err, CTR_EDATA, "tensor %s is of %s: F32, F16 or BF16 fit", t->name, t->dtype->name);
        ctr_err_file(err, f->path);
        return CTR_EDATA;
    }
    int rc = ctr_tensors_read(f, t, from, n, out, err);
    if (rc || t->dtype->bytes == 4)
        return rc;
    const uint16_t *half = (const uint16_t *)out; /* they are in the first half of out, so convert the last one first */
    for (int64_t i = n - 1; i >= 0; i--) {
        uint16_t h;
        memcpy(&h, half + i, sizeof h);
        const uint32_t bits = (uint32_t)h << 16;
        float v = ctr_f16_to_f32(h);
        if (t->dtype->bf16)
            memcpy(&v, &bits, sizeof v);
        out[i] = v;
    }
    return 0;
}
