/* SPDX-License-Identifier: Apache-2.0
 *
 * Key frequencies from a stream: n_j for the regularisation of embeddings. A fitted plan has them in its vocabularies,
 * a model trained with --l2 in its tables. */
#include "common/deep/deep.h"

static bool is_integer(enum ctr_type t)
{
    return t == CTR_I8 || t == CTR_U8 || t == CTR_I16 || t == CTR_U16 || t == CTR_I32 || t == CTR_U32 || t == CTR_I64 ||
           t == CTR_U64;
}

/* A repeated key gets the sum. */
static int add_counts(struct ctr_sparse *t, const struct ctr_batch *b, struct ctr_err *err)
{
    const struct ctr_col *key = &b->col[0], *count = &b->col[1];
    int rc = ctr_sparse_reserve(t, (uint64_t)b->rows, err);
    for (int64_t i = 0; i < b->rows && !rc; i++) {
        const int64_t n = ctr_col_i64(count, i);
        uint32_t sum;
        if (ctr_col_null(key, i) || ctr_col_null(count, i) || n < 1)
            return ctr_fail(err, CTR_EDATA, "row %lld: a key and a count of 1 or more are wanted",
                            (long long)(b->first_row + i + 1));
        uint8_t *row = ctr_sparse_get(t, ctr_sparse_hash((uint64_t)ctr_col_i64(key, i)));
        memcpy(&sum, row + 8, sizeof sum);
        sum += (uint32_t)CTR_MIN(n, (int64_t)(UINT32_MAX - sum));
        memcpy(row + 8, &sum, sizeof sum);
    }
    return rc;
}

/* Read a section with both columns; skip others. */
static int read_section(struct ctr_sparse *t, struct ctr_reader *r, bool *found, struct ctr_err *err)
{
    const struct ctr_schema *s = ctr_reader_schema(r);
    const int columns[2] = { ctr_schema_find(s, "key"), ctr_schema_find(s, "count") };
    const struct ctr_batch *b;
    if (columns[0] < 0 || columns[1] < 0 || s->f[columns[0]].type != CTR_U64 || !is_integer(s->f[columns[1]].type))
        return 0;
    *found = true;
    int rc = ctr_reader_project(r, columns, 2, err);
    while (!rc && (rc = ctr_reader_next(r, &b, err)) > 0)
        rc = add_counts(t, b, err);
    return rc;
}

int ctr_deep_counts_read(struct ctr_sparse *t, const char *path, struct ctr_err *err)
{
    char *paths[] = { (char *)(uintptr_t)path };
    const struct ctr_reader_opts o = { .sections = true };
    struct ctr_reader *r = NULL;
    bool found = false;
    int rc = ctr_reader_open(&r, paths, 1, &o, err), more = 1;
    while (!rc && more > 0 && !(rc = read_section(t, r, &found, err)))
        more = ctr_reader_section(r, err);
    if (!rc && more < 0)
        rc = more;
    if (!rc && !found)
        rc = ctr_fail(err, CTR_EDATA,
                      "it has no columns key (uint64) and count (an integer): give a fitted plan with "
                      "vocabularies, a model learned with --l2, or a stream of both");
    if (rc)
        ctr_err_file(err, path);
    ctr_reader_free(r);
    return rc;
}

uint32_t ctr_deep_count(const struct ctr_sparse *t, uint64_t hash)
{
    const uint8_t *row = ctr_sparse_find(t, hash);
    uint32_t n = 0;
    if (row)
        memcpy(&n, row + 8, sizeof n);
    return n;
}
