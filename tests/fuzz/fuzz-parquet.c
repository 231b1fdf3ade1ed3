/* SPDX-License-Identifier: Apache-2.0
 *
 * parquet: footer, pages and columns; what cannot be a column is left out by its name. An eighth is read once more, by
 * three threads, which must come to the same rows and end. */
#include "harness.h"

#include "common/parquet/parquet.h"

/* Tests of each column: numbers, times, texts and nulls, of which any may hold. */
static void conditions(struct ctr_conditions *c, const struct ctr_schema *s)
{
    struct ctr_err err = { 0 };
    for (int i = 0; i < s->n && i < 20; i++)
        for (int kind = 0; kind < 5; kind++) {
            const struct ctr_condition one = {
                .kind = kind == 4   ? CTR_CONDITION_NULL
                        : kind == 3 ? CTR_CONDITION_LT
                                    : CTR_CONDITION_EQ,
                .column = s->f[i].name,
                .value = { .kind = (enum ctr_bound_kind)(kind % 4), .number = 1, .text = { "ab", 2 } }
            };
            const int before = c->n - 1;
            const struct ctr_condition either = { .kind = CTR_CONDITION_OR, .left = before, .right = before + 1 };
            if (ctr_conditions_add(c, &one, &err) || (before >= 0 && ctr_conditions_add(c, &either, &err)))
                return;
        }
}

static void read_where(char *path, const struct ctr_conditions *where)
{
    struct ctr_err err = { 0 };
    struct ctr_parquet *p = NULL;
    const struct ctr_batch *b;
    const struct ctr_text_opts o = { .batch_rows = 5, .where = where };
    int rc = ctr_parquet_open(&p, &o, &path, 1, &err);
    for (int n = 0; !rc && n < 100 && ctr_parquet_next(p, &b, &err) > 0; n++)
        fuzz_look(b);
    ctr_parquet_free(p);
}

/* The rows that one thread found, and how it ended. */
static void read_by_threads(char *path, int64_t want, int end)
{
    struct ctr_err err = { 0 };
    struct ctr_parquet *p = NULL;
    const struct ctr_batch *b;
    const struct ctr_text_opts o = { .batch_rows = 5, .jobs = 3 };
    int64_t rows = 0;
    int rc = ctr_parquet_open(&p, &o, &path, 1, &err);
    while (!rc && (rc = ctr_parquet_next(p, &b, &err)) > 0 && (rows += b->rows) < 1000)
        rc = 0;
    FUZZ_CHECK((rows == want && rc == end) || rc == CTR_ENOMEM || end == CTR_ENOMEM);
    ctr_parquet_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ctr_err err = { 0 };
    struct ctr_parquet *p = NULL;
    const struct ctr_batch *b;
    const struct ctr_text_opts o = { .batch_rows = 5 };
    char *path = (char *)(uintptr_t)fuzz_file(0, data, size);
    int rc = ctr_parquet_open(&p, &o, &path, 1, &err);
    int64_t rows = 0;
    struct ctr_conditions where = { 0 };
    if (!rc)
        conditions(&where, ctr_parquet_schema(p));
    while (!rc && (rc = ctr_parquet_next(p, &b, &err)) > 0 && (rows += b->rows) < 1000) {
        fuzz_look(b);
        rc = 0;
    }
    FUZZ_CHECK(rc >= 0 || err.what[0]);
    ctr_parquet_free(p);
    if (size && data[size / 2] % 8 == 0)
        read_by_threads(path, rows, rc);
    if (where.n)
        read_where(path, &where);
    ctr_conditions_free(&where);
    return 0;
}
