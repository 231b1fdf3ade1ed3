/* SPDX-License-Identifier: Apache-2.0
 *
 * mapped: columns of an IPC file, read in place. Opening verifies all checksums; afterwards values are pages of the
 * file, which processes share. Invariant: every value returned is inside the map.
 */
#include "common/stream/arrow.h"

#include <stdlib.h>

struct ctr_mapped {
    struct arrow_source src;
    struct ctr_reader_opts opts;
    struct ctr_reader_stats stats;
    struct ctr_ipcfile file;
    struct ctr_schema schema;
    struct arrow_leaves leaves;
    int64_t block_rows;
    const void **values; /* by block, then column */
    struct ctr_buf scratch;
};

/* Verify the columns of a block. */
static int verify_block(struct ctr_mapped *m, struct arrow_data *data, size_t block, struct ctr_err *err)
{
    struct arrow_message message;
    const uint8_t *body;
    int rc = ctr_ipcfile_message(&m->file, false, block, &message, &body, &m->scratch, err);
    if (!rc)
        rc = ctr_data_set(data, &message, body, &m->stats, err);
    for (int i = 0; !rc && i < m->schema.n; i++) {
        const struct ctr_col *c;
        rc = ctr_leaf_decode(&m->leaves.l[i], 0, data, &c, err);
        const uint8_t *p = rc ? NULL : c->data;
        if (!rc && (c->nulls || p < m->src.map || p >= m->src.map + m->src.map_size))
            rc = ctr_fail(err, CTR_EDATA, "column '%s' has nulls or is compressed, and is to be read where it lies",
                          m->schema.f[i].name);
        m->values[block * (size_t)m->schema.n + (size_t)i] = p;
    }
    if (!rc && !block)
        m->block_rows = message.rows;
    const bool last = block + 1 == m->file.footer.nblocks;
    if (!rc && (!message.rows || (last ? message.rows > m->block_rows : message.rows != m->block_rows)))
        rc = ctr_fail(err, CTR_EDATA, "its batches have different sizes");
    return rc;
}

static int verify_blocks(struct ctr_mapped *m, struct ctr_err *err)
{
    struct arrow_data data = { .mapped = true };
    const size_t blocks = m->file.footer.nblocks;
    m->values = calloc(blocks * (size_t)m->schema.n + 1, sizeof *m->values);
    int rc = m->values ? 0 : ctr_fail_nomem(err, blocks * sizeof *m->values);
    for (size_t i = 0; i < blocks && !rc; i++)
        rc = verify_block(m, &data, i, err);
    ctr_data_free(&data);
    return rc;
}

static int open_mapped(struct ctr_mapped *m, const char *path, struct ctr_err *err)
{
    int rc = ctr_source_open(&m->src, path, &m->opts, &m->stats, err);
    if (!rc && !m->src.map)
        rc = ctr_fail(err, CTR_EDATA, "is a stream, and what is to be mapped is an IPC file: ctr-cat --to file");
    if (!rc)
        rc = ctr_ipcfile_open(&m->file, m->src.map, m->src.map_size, &m->scratch, err);
    if (!rc && !m->file.footer.sealed)
        rc = ctr_fail(err, CTR_EDATA, "has no checksums");
    if (!rc)
        rc = ctr_leaves_make(&m->leaves, &m->file.schema, NULL, err);
    if (!rc)
        rc = ctr_meta_copy(&m->schema.meta, &m->file.schema.meta, err);
    for (int i = 0; !rc && i < m->leaves.n; i++) {
        const struct ctr_field *f = &m->leaves.l[i].field;
        rc = !ctr_type_number(f->type) || f->dict
                 ? ctr_fail(err, CTR_EDATA, "column '%s' is no column of numbers", f->name)
                 : ctr_schema_add_field(&m->schema, f, NULL, err);
    }
    if (!rc)
        rc = verify_blocks(m, err);
    return rc ? rc : ctr_source_unchanged(&m->src, err);
}

int ctr_mapped_open(struct ctr_mapped **out, const char *path, struct ctr_err *err)
{
    struct ctr_mapped *m = calloc(1, sizeof *m);
    *out = NULL;
    if (!m)
        return ctr_fail_nomem(err, sizeof *m);
    m->src.fd = -1;
    int rc = open_mapped(m, path, err);
    if (rc) {
        ctr_err_file(err, path);
        ctr_mapped_free(m);
        return rc;
    }
    *out = m;
    return 0;
}

void ctr_mapped_free(struct ctr_mapped *m)
{
    if (!m)
        return;
    ctr_leaves_free(&m->leaves);
    ctr_ipcfile_close(&m->file);
    ctr_source_close(&m->src);
    ctr_schema_free(&m->schema);
    ctr_buf_free(&m->scratch);
    free(m->values);
    free(m);
}

const struct ctr_schema *ctr_mapped_schema(const struct ctr_mapped *m)
{
    return &m->schema;
}

int64_t ctr_mapped_rows(const struct ctr_mapped *m)
{
    return m->file.rows;
}

int64_t ctr_mapped_block_rows(const struct ctr_mapped *m)
{
    return m->block_rows;
}

const void *ctr_mapped_values(const struct ctr_mapped *m, int64_t block, int column)
{
    return m->values[block * m->schema.n + column];
}

int ctr_mapped_unchanged(const struct ctr_mapped *m, struct ctr_err *err)
{
    int rc = ctr_source_unchanged(&m->src, err);
    if (rc)
        ctr_err_file(err, m->src.name);
    return rc;
}
