/* SPDX-License-Identifier: Apache-2.0
 *
 * Constant vectors of a keyed file. See source.h. */
#include <inttypes.h>
#include <stdlib.h>

#include "common/stream/stream.h"
#include "common/table/source.h"

struct frozen {
    struct ctr_source base;
    struct ctr_keyed *file;
    int column;
    struct ctr_batchbuf rows;
    struct ctr_buf key, found; /* u64; bool */
    int64_t asked, absent;
};

/* One table at a time, because a keyed file serves one caller. */
static int frozen_fetch(struct ctr_source *s, const struct ctr_source_keys *keys, bool make, float *to,
                        struct ctr_err *err)
{
    struct frozen *f = (struct frozen *)s;
    const size_t row = (size_t)s->width * sizeof *to;
    int rc = 0;
    (void)make;
    ctr_buf_clear(&f->key);
    ctr_buf_clear(&f->found);
    ctr_batchbuf_clear(&f->rows);
    uint64_t *key = ctr_buf_extend(&f->key, keys->n, sizeof *key, &rc, err);
    bool *found = ctr_buf_extend(&f->found, keys->n, sizeof *found, &rc, err);
    if (rc)
        return rc;
    for (int64_t i = 0; i < keys->n; i++)
        key[i] = ctr_sparse_key(keys->hash[i]);
    const struct ctr_col want = { .type = CTR_U64, .rows = keys->n, .data = key };
    rc = ctr_keyed_get_many(f->file, &want, &f->rows, found, err);
    if (rc)
        return rc;
    const struct ctr_col *c = &ctr_batchbuf_view(&f->rows)->col[f->column];
    for (int64_t i = 0; i < keys->n; i++) {
        int64_t at = 0, end = 0;
        const struct ctr_col *items = found[i] ? ctr_col_items(c, s->width, i, &at, &end) : NULL;
        if (items)
            memcpy(to + i * s->width, (const float *)items->data + at, row);
        else
            memset(to + i * s->width, 0, row);
        f->absent += !items;
    }
    f->asked += keys->n;
    return 0;
}

static int frozen_summary(const struct ctr_source *s, struct ctr_buf *text, struct ctr_err *err)
{
    const struct frozen *f = (const struct frozen *)s;
    return ctr_buf_printf(text, err,
                          "vectors asked for    %" PRId64 "\n"
                          "not in the file      %" PRId64 "\n",
                          f->asked, f->absent);
}

static int64_t frozen_rows(const struct ctr_source *s, int table)
{
    (void)s, (void)table;
    return 0;
}

static void frozen_free(struct ctr_source *s)
{
    struct frozen *f = (struct frozen *)s;
    if (f->rows.schema)
        ctr_batchbuf_free(&f->rows);
    ctr_keyed_free(f->file);
    ctr_buf_free(&f->key);
    ctr_buf_free(&f->found);
    free(f);
}

static const struct ctr_source_ops frozen_ops = { .name = "frozen",
                                                  .one_at_a_time = true,
                                                  .fetch = frozen_fetch,
                                                  .rows = frozen_rows,
                                                  .summary = frozen_summary,
                                                  .free = frozen_free };

static int open_file(struct frozen *f, const char *path, struct ctr_err *err)
{
    int rc = ctr_keyed_open(&f->file, path, err);
    if (rc)
        return rc;
    const struct ctr_schema *schema = ctr_keyed_schema(f->file);
    const struct ctr_field *key = &schema->f[ctr_keyed_column(f->file)];
    while (f->column < schema->n && (schema->f[f->column].type != CTR_FIXED || schema->f[f->column].item != CTR_F32))
        f->column++;
    if (key->type != CTR_U64)
        rc = ctr_fail(err, CTR_EDATA, "it is keyed by '%.60s', which is not uint64: keys as ctr-extract makes them",
                      key->name);
    else if (f->column == schema->n)
        rc = ctr_fail(err, CTR_EDATA, "it has no column of vectors (fixed_size_list<float32>)");
    else
        rc = ctr_batchbuf_init(&f->rows, schema, err);
    if (rc)
        return rc;
    f->base.width = f->base.floats = schema->f[f->column].width;
    return 0;
}

int ctr_source_frozen(struct ctr_source **out, struct ctr_dev *dev, const char *path, struct ctr_err *err)
{
    struct frozen *f = calloc(1, sizeof *f);
    if (!f)
        return ctr_fail_nomem(err, sizeof *f);
    f->base = (struct ctr_source){ .ops = &frozen_ops, .dev = dev };
    int rc = open_file(f, path, err);
    if (rc) {
        ctr_err_file(err, path);
        ctr_source_free(&f->base);
        return rc;
    }
    *out = &f->base;
    return 0;
}
