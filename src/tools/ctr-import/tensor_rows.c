/* SPDX-License-Identifier: Apache-2.0
 *
 * tensor_rows: tensors with equal first dimensions as columns of batches. */
#include "common/text/tensor.h"
#include "tools/ctr-import/tensor_rows.h"

#include <stdio.h>
#include <stdlib.h>

enum { BATCH_BYTES = 16 << 20 };

struct column {
    const struct ctr_tensor *t;
    int64_t width; /* elements per row; 1 for a number */
    bool list;
    struct ctr_buf data, bits;
    struct ctr_col item;
};

struct ctr_tensor_rows {
    struct ctr_tensors *f;
    struct ctr_schema schema;
    struct column *c;
    struct ctr_col *cols;
    int n;
    int64_t rows, done, batch_rows;
    struct ctr_batch batch;
    char flattened[256];
};

static int add_column(struct ctr_tensor_rows *r, const struct ctr_tensor *t, const char *name, struct ctr_err *err)
{
    struct column *c = &r->c[r->n];
    struct ctr_field f = { .name = (char *)name, .type = t->time ? CTR_TIME : t->dtype->type };
    const int64_t rows = t->rank ? t->shape[0] : 1;
    char text[200];

    c->t = t;
    c->list = t->rank > 1;
    c->width = 1;
    for (int i = 1; i < t->rank; i++) /* no overflow if there are rows: elements is their product */
        if (__builtin_mul_overflow(c->width, t->shape[i], &c->width))
            c->width = INT64_MAX;
    if (c->width < 1 || c->width > INT32_MAX)
        return ctr_fail(err, CTR_EDATA, "tensor %s is %s: rows of no element, or of more than 2^31, are no column",
                        t->name, ctr_tensor_text(t, text, sizeof text));
    if (c->list) {
        if (f.type == CTR_TIME || f.type == CTR_BOOL)
            return ctr_fail(err, CTR_EDATA, "tensor %s is %s: lists of times or bools are no column", t->name,
                            ctr_tensor_text(t, text, sizeof text));
        f.item = f.type;
        f.type = CTR_FIXED;
        f.width = (int32_t)c->width;
    }
    if (r->n && rows != r->rows)
        return ctr_fail(err, CTR_EDATA,
                        "tensor %s is %s, and %s has %lld rows: name tensors of one first dimension by --columns",
                        t->name, ctr_tensor_text(t, text, sizeof text), r->c[0].t->name, (long long)r->rows);
    if (t->rank > 2 && !*r->flattened)
        snprintf(r->flattened, sizeof r->flattened, "%.100s %s", t->name, ctr_tensor_text(t, text, sizeof text));
    r->rows = rows;
    r->n++;
    return ctr_schema_add_field(&r->schema, &f, NULL, err);
}

static int add_named(struct ctr_tensor_rows *r, const char *spec, struct ctr_err *err)
{
    const char *equals = strchr(spec, '='), *tensor = equals ? equals + 1 : spec;
    const struct ctr_tensor *t = ctr_tensors_find(r->f, tensor);
    char *name = NULL, hint[400];
    const char *names[64];
    int n = 0;

    for (; n < ctr_tensors_count(r->f) && n < (int)CTR_COUNT(names); n++)
        names[n] = ctr_tensors_at(r->f, n)->name;
    if (!t)
        return ctr_fail(err, CTR_EUSAGE, "there is no tensor '%s'%s", tensor,
                        ctr_name_hint(hint, sizeof hint, tensor, names, n));
    int rc = ctr_memdup(&name, spec, equals ? (size_t)(equals - spec) : strlen(spec), err);
    if (!rc)
        rc = add_column(r, t, name, err);
    free(name);
    return rc;
}

static int open_rows(struct ctr_tensor_rows *r, const char *path, const struct ctr_strs *names, int64_t batch_rows,
                     struct ctr_err *err)
{
    int rc = ctr_tensors_open(&r->f, path, err);
    if (rc)
        return rc;
    const int n = names ? names->n : ctr_tensors_count(r->f);
    r->c = calloc((size_t)n + 1, sizeof *r->c);
    r->cols = calloc((size_t)n + 1, sizeof *r->cols);
    if (!r->c || !r->cols)
        return ctr_fail_nomem(err, ((size_t)n + 1) * sizeof *r->c);
    for (int i = 0; i < n && !rc; i++) {
        const struct ctr_tensor *t = names ? NULL : ctr_tensors_at(r->f, i);
        rc = t ? add_column(r, t, t->name, err) : add_named(r, names->s[i], err);
    }
    if (!rc && !r->n)
        rc = ctr_fail(err, CTR_EDATA, "there is no tensor");
    if (rc)
        return rc;
    int64_t bytes = 0;
    for (int i = 0; i < r->n; i++)
        bytes += r->c[i].width * 8;
    r->batch_rows = batch_rows > 0 ? batch_rows : CTR_BATCH_ROWS;
    r->batch_rows = CTR_MAX(CTR_MIN(r->batch_rows, BATCH_BYTES / bytes), 1);
    return 0;
}

int ctr_tensor_rows_open(struct ctr_tensor_rows **out, const char *path, const struct ctr_strs *names,
                         int64_t batch_rows, struct ctr_err *err)
{
    struct ctr_tensor_rows *r = calloc(1, sizeof *r);
    *out = NULL;
    if (!r)
        return ctr_fail_nomem(err, sizeof *r);
    int rc = open_rows(r, path, names, batch_rows, err);
    if (rc) {
        ctr_err_file(err, path);
        ctr_tensor_rows_free(r);
        return rc;
    }
    *out = r;
    return 0;
}

const struct ctr_schema *ctr_tensor_rows_schema(const struct ctr_tensor_rows *r)
{
    return &r->schema;
}

int ctr_tensor_rows_role(struct ctr_tensor_rows *r, const char *name, enum ctr_role role, struct ctr_err *err)
{
    const int c = ctr_schema_need(&r->schema, name, err);
    return c < 0 ? c : ctr_field_set_role(&r->schema.f[c], role, err);
}

const char *ctr_tensor_rows_flattened(const struct ctr_tensor_rows *r)
{
    return *r->flattened ? r->flattened : NULL;
}

static int read_bools(struct column *c, int64_t rows, struct ctr_err *err)
{
    int rc = ctr_buf_room(&c->bits, (rows + 7) / 8, 1, err);
    if (rc)
        return rc;
    memset(c->bits.data, 0, (size_t)(rows + 7) / 8);
    for (int64_t i = 0; i < rows; i++) {
        if (c->data.data[i] > 1)
            return ctr_fail(err, CTR_EDATA, "tensor %s: a bool is %d", c->t->name, c->data.data[i]);
        c->bits.data[i >> 3] |= (uint8_t)(c->data.data[i] << (i & 7));
    }
    return 0;
}

static int read_column(struct ctr_tensor_rows *r, int i, int64_t rows, struct ctr_err *err)
{
    struct column *c = &r->c[i];
    const int64_t n = rows * c->width;
    struct ctr_col col = { .type = c->t->time ? CTR_TIME : c->t->dtype->type, .rows = n };
    int rc = ctr_buf_room(&c->data, n, 8, err);

    if (!rc && c->t->dtype->bf16)
        rc = ctr_tensors_floats(r->f, c->t, r->done * c->width, n, (float *)(void *)c->data.data, err);
    else if (!rc)
        rc = ctr_tensors_read(r->f, c->t, r->done * c->width, n, c->data.data, err);
    if (!rc && col.type == CTR_BOOL)
        rc = read_bools(c, n, err);
    if (rc)
        return rc;
    col.data = col.type == CTR_BOOL ? c->bits.data : c->data.data;
    if (!c->list) {
        r->cols[i] = col;
        return 0;
    }
    c->item = col;
    r->cols[i] = (struct ctr_col){ .type = CTR_FIXED, .rows = rows, .item = &c->item };
    return 0;
}

int ctr_tensor_rows_next(struct ctr_tensor_rows *r, const struct ctr_batch **b, struct ctr_err *err)
{
    const int64_t rows = CTR_MIN(r->batch_rows, r->rows - r->done);
    if (!rows)
        return 0;
    for (int i = 0; i < r->n; i++) {
        int rc = read_column(r, i, rows, err);
        if (rc)
            return rc;
    }
    r->batch = (struct ctr_batch){ .schema = &r->schema, .rows = rows, .first_row = r->done, .col = r->cols };
    r->done += rows;
    *b = &r->batch;
    return 1;
}

void ctr_tensor_rows_free(struct ctr_tensor_rows *r)
{
    if (!r)
        return;
    for (int i = 0; i < r->n; i++) {
        ctr_buf_free(&r->c[i].data);
        ctr_buf_free(&r->c[i].bits);
    }
    free(r->c);
    free(r->cols);
    ctr_schema_free(&r->schema);
    ctr_tensors_free(r->f);
    free(r);
}
