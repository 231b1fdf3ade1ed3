/* SPDX-License-Identifier: Apache-2.0
 *
 * The predictions of progressive validation: progressive.h. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/model/model.h"
#include "common/train/progressive.h"

void ctr_progressive_init(struct ctr_progressive *p, int values)
{
    *p = (struct ctr_progressive){ .values = values, .store = -1, .store_slot = -1 };
}

void ctr_progressive_free(struct ctr_progressive *p)
{
    if (p->store_slot >= 0)
        unlink((const char *)p->store_path.data);
    ctr_temp_release(&p->store_slot);
    if (p->store >= 0)
        close(p->store);
    ctr_schema_free(&p->schema);
    ctr_buf_free(&p->scores);
    ctr_buf_free(&p->columns);
    ctr_buf_free(&p->store_path);
    free(p->from);
    free(p->col);
}

int ctr_progressive_schema(struct ctr_progressive *p, const struct ctr_schema *stream, const char *const *name,
                           int models, bool uncertain, struct ctr_err *err)
{
    int rc = ctr_scored_schema(stream, name, models, &p->schema, &p->from, err);
    if (!rc && uncertain)
        rc = ctr_scored_uncertainty(&p->schema, p->from, err);
    if (!rc && !(p->col = calloc((size_t)p->schema.n, sizeof *p->col)))
        rc = ctr_fail_nomem(err, (size_t)p->schema.n * sizeof *p->col);
    return rc;
}

/* ---- a batch ---- */

double *ctr_progressive_room(struct ctr_progressive *p, int64_t n, int *rc, struct ctr_err *err)
{
    return ctr_buf_extend(&p->scores, n * p->values, sizeof(double), rc, err);
}

int ctr_progressive_pair(struct ctr_progressive *p, double *score, int64_t n, struct ctr_err *err)
{
    ctr_buf_clear(&p->columns);
    int rc = ctr_buf_append(&p->columns, score, (size_t)(n * 2) * sizeof *score, err);
    const double *column = (const double *)(void *)p->columns.data;
    for (int64_t i = 0; i < n && !rc; i++) {
        score[i * 2] = column[i];
        score[i * 2 + 1] = column[n + i];
    }
    return rc;
}

int ctr_progressive_known(struct ctr_progressive *p, int64_t from, int64_t n, bool needed, double *score,
                          struct ctr_err *err)
{
    const int64_t row = p->values * (int64_t)sizeof *score;
    p->kept += n;
    return needed ? ctr_pread_full(p->store, score, (size_t)(n * row), from * row, err) : 0;
}

static int write_batch(struct ctr_progressive *p, const struct ctr_batch *b, const double *score, struct ctr_err *err)
{
    struct ctr_batch out = { &p->schema, b->rows, b->first_row, p->col };
    if (p->values > 1) {
        ctr_buf_clear(&p->columns);
        int rc = ctr_buf_reserve(&p->columns, (size_t)(b->rows * p->values) * sizeof *score, err);
        if (rc)
            return rc;
        double *column = (double *)(void *)p->columns.data;
        for (int64_t i = 0; i < b->rows; i++)
            for (int m = 0; m < p->values; m++)
                column[m * b->rows + i] = score[i * p->values + m];
        score = column;
    }
    for (int i = 0; i < p->schema.n; i++) {
        const int from = p->from[i];
        p->col[i] = from >= 0
                        ? b->col[from]
                        : (struct ctr_col){ .type = CTR_F64, .rows = b->rows, .data = score + (-1 - from) * b->rows };
    }
    return ctr_writer_batch(p->out, &out, err);
}

static int store_add(struct ctr_progressive *p, const double *score, int64_t n, struct ctr_err *err)
{
    int rc = n > 0 ? ctr_write_full(p->store, score, (size_t)(n * p->values) * sizeof *score, err) : 0;
    if (rc)
        ctr_err_file(err, (const char *)p->store_path.data);
    return rc;
}

int ctr_progressive_end_batch(struct ctr_progressive *p, const struct ctr_batch *b, bool writes, struct ctr_err *err)
{
    const double *score = (const double *)(void *)p->scores.data;
    const int64_t kept = p->kept;
    p->kept = 0;
    p->scores.len = 0;
    if (!p->out || !writes)
        return 0;
    int rc = write_batch(p, b, score, err);
    if (!rc && p->store >= 0)
        rc = store_add(p, score + kept * p->values, b->rows - kept, err);
    return rc;
}

/* ---- the store beside the checkpoint ---- */

int ctr_progressive_store_open(struct ctr_progressive *p, const char *checkpoint, int rank, int64_t kept_rows,
                               struct ctr_err *err)
{
    const bool is_new = kept_rows == CTR_PROGRESSIVE_NEW;
    const off_t kept = kept_rows * p->values * (off_t)sizeof(double);
    int rc = rank ? ctr_buf_printf(&p->store_path, err, "%s.scores.%d", checkpoint, rank)
                  : ctr_buf_printf(&p->store_path, err, "%s.scores", checkpoint);
    if (rc)
        return rc;
    const char *path = (const char *)p->store_path.data;
    p->store = ctr_open(path, O_RDWR | (is_new ? O_CREAT | O_TRUNC : 0), 0666);
    if (p->store < 0)
        rc = ctr_fail_sys(err, "%s: the progressive predictions cannot be %s", path,
                          is_new ? "kept there" : "read again");
    else if (is_new)
        p->store_slot = ctr_temp_hold(path);
    else if (lseek(p->store, 0, SEEK_END) < kept)
        rc = ctr_fail(err, CTR_EDATA, "%s is shorter than its checkpoint says: remove both to start anew", path);
    else if (ctr_truncate(p->store, kept) || lseek(p->store, 0, SEEK_END) < 0)
        rc = ctr_fail_sys(err, "%s: cannot be cut", path);
    return rc;
}

int ctr_progressive_store_sync(const struct ctr_progressive *p, struct ctr_err *err)
{
    if (p->store < 0 || !ctr_fsync(p->store))
        return 0;
    return ctr_fail_sys(err, "%s: fsync failed", (const char *)p->store_path.data);
}

bool ctr_progressive_store_release(struct ctr_progressive *p)
{
    const bool held = p->store_slot >= 0;
    ctr_temp_release(&p->store_slot);
    return held;
}

void ctr_progressive_store_hold(struct ctr_progressive *p)
{
    p->store_slot = ctr_temp_hold((const char *)p->store_path.data);
}

void ctr_progressive_store_remove(const struct ctr_progressive *p)
{
    if (p->store >= 0)
        unlink((const char *)p->store_path.data);
}
