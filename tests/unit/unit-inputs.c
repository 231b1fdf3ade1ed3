/* SPDX-License-Identifier: Apache-2.0
 *
 * Columns to rows, by row and by column: more columns than a block, rows that no block divides, nulls, and numbers of
 * every kind beside the keys, each value against the column that it came from. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/model/model.h"
#include "common/table/table.h"

#include "tap.h"

enum { KEYS = 70, ROWS = 203, FROM = 5, VECTOR = 3, VALUES = VECTOR + 4, NULL_ROW = 131 };

/* After the label: KEYS columns of keys, then numbers, if any; their names are in this order too. */
static const struct number {
    const char *name;
    enum ctr_type type;
    int at; /* among the values of a row */
} numbers[] = { { "x0", CTR_FIXED, 0 },
                { "x1", CTR_BOOL, VECTOR },
                { "x2", CTR_I16, VECTOR + 1 },
                { "x3", CTR_F32, VECTOR + 2 },
                { "x4", CTR_F64, VECTOR + 3 } };

struct table {
    struct ctr_schema schema;
    struct ctr_batchbuf rows;
    struct ctr_strs tables;
    struct ctr_inputs *in;
    struct ctr_err err;
};

static int open_table(struct table *t, bool with_numbers)
{
    char name[16];
    memset(t, 0, sizeof *t);
    int rc = ctr_schema_add(&t->schema, "y", CTR_U8, &t->err);
    for (int k = 0; k < KEYS && !rc; k++) {
        snprintf(name, sizeof name, "k%02d", k);
        rc = ctr_schema_add(&t->schema, name, CTR_U64, &t->err);
        rc = rc ? rc : ctr_field_set_role(&t->schema.f[1 + k], CTR_ROLE_FEATURE, &t->err);
    }
    for (size_t i = 0; i < CTR_COUNT(numbers) && with_numbers && !rc; i++) {
        rc = ctr_schema_add(&t->schema, numbers[i].name, numbers[i].type, &t->err);
        struct ctr_field *f = &t->schema.f[t->schema.n - 1];
        f->item = CTR_F32;
        f->width = numbers[i].type == CTR_FIXED ? VECTOR : 0;
        rc = rc ? rc : ctr_field_set_role(f, CTR_ROLE_DENSE, &t->err);
    }
    rc = rc ? rc : ctr_batchbuf_init(&t->rows, &t->schema, &t->err);
    return rc ? rc : ctr_inputs_new(&t->in, &t->schema, 0, -1, NULL, &t->tables, &t->err);
}

static void close_table(struct table *t)
{
    ctr_inputs_free(t->in);
    ctr_strs_free(&t->tables);
    ctr_batchbuf_free(&t->rows);
    ctr_schema_free(&t->schema);
}

static uint64_t key_of(int64_t row, int64_t k)
{
    return ctr_random64(5, (uint64_t)row, (uint64_t)k);
}

/* Small whole numbers, which every type holds; a bool holds the lowest bit. */
static double value_of(int64_t row, int64_t i)
{
    return (double)((row * 7 + i * 3) % 100);
}

static int add_number(struct ctr_colbuf *c, const struct number *n, int64_t row, struct ctr_err *err)
{
    const double v = value_of(row, n->at);
    if (n->type == CTR_BOOL || n->type == CTR_I16)
        return ctr_colbuf_i64(c, n->type == CTR_BOOL ? (int64_t)v & 1 : (int64_t)v, err);
    if (n->type != CTR_FIXED)
        return ctr_colbuf_f64(c, v, err);
    int rc = 0;
    for (int j = 0; j < VECTOR && !rc; j++)
        rc = ctr_colbuf_f64(c->item, value_of(row, j), err);
    return rc ? rc : ctr_colbuf_close(c, err);
}

/* `nulls`: the key of column 3 and all numbers are null in NULL_ROW. `last`: x4 of the last row, unless 0. */
static int fill(struct table *t, bool nulls, double last)
{
    int rc = 0;
    for (int64_t r = 0; r < ROWS && !rc; r++) {
        const bool null = nulls && r == NULL_ROW;
        rc = ctr_colbuf_i64(&t->rows.col[0], r & 1, &t->err);
        for (int k = 0; k < KEYS && !rc; k++)
            rc = null && k == 3 ? ctr_colbuf_null(&t->rows.col[1 + k], &t->err)
                                : ctr_colbuf_i64(&t->rows.col[1 + k], (int64_t)key_of(r, k), &t->err);
        for (int i = 0; 1 + KEYS + i < t->schema.n && !rc; i++) {
            struct ctr_colbuf *c = &t->rows.col[1 + KEYS + i];
            rc = null                                                       ? ctr_colbuf_null(c, &t->err)
                 : last != 0 && r == ROWS - 1 && numbers[i].type == CTR_F64 ? ctr_colbuf_f64(c, last, &t->err)
                                                                            : add_number(c, &numbers[i], r, &t->err);
        }
    }
    return rc ? rc : ctr_inputs_batch(t->in, ctr_batchbuf_view(&t->rows), &t->err);
}

static bool same_keys(const struct ctr_rows *r, bool nulls)
{
    bool same = r->rows == ROWS - FROM && r->one_a_table && !r->x && r->first_row == FROM;
    for (int64_t i = 0; i < r->rows && same; i++) {
        same = r->start[i] == i * KEYS && r->start[i + 1] == (i + 1) * KEYS && r->label[i] == ((i + FROM) & 1);
        for (int k = 0; k < KEYS && same; k++) {
            const bool null = nulls && i + FROM == NULL_ROW && k == 3;
            const uint64_t key = null ? ctr_feature_key(ctr_table_seed("k03"), "(missing)", 9) : key_of(i + FROM, k);
            same = r->hash[i * KEYS + k] == ctr_key_hash(key) && (!r->table || r->table[i * KEYS + k] == k);
        }
    }
    return same;
}

static bool same_numbers(const struct ctr_rows *r, bool nulls)
{
    bool same = r->dense != NULL;
    for (int64_t i = 0; i < r->rows && same; i++)
        for (int j = 0; j < VALUES && same; j++) {
            const int64_t v = (int64_t)value_of(i + FROM, j);
            const double want = j == VECTOR ? (double)(v & 1) : (double)v;
            same = r->dense[i * VALUES + j] == (float)(nulls && i + FROM == NULL_ROW ? 0 : want);
        }
    return same;
}

static void test_rows(bool by_column, bool with_numbers, bool nulls)
{
    struct table t;
    struct ctr_rows r = { 0 };
    struct ctr_rowbuf buf = { 0 };
    int rc = open_table(&t, with_numbers);
    rc = rc || !by_column ? rc : ctr_inputs_by_column(t.in, &t.err);
    rc = rc ? rc : fill(&t, nulls, 0);
    rc = rc ? rc : ctr_inputs_rows(t.in, &buf, FROM, ROWS - FROM, &r, &t.err);
    ok(!rc && same_keys(&r, nulls) && !r.table == by_column && (!with_numbers || same_numbers(&r, nulls)),
       "%s%s%s: %d keys a row of %d are those of the columns (%s)", by_column ? "by column" : "by row",
       with_numbers ? ", numbers" : "", nulls ? ", nulls" : "", KEYS, ROWS - FROM, t.err.what);
    ctr_rowbuf_free(&buf);
    close_table(&t);
}

static void test_bad(double bad)
{
    struct table t;
    struct ctr_rows r;
    int rc = open_table(&t, true);
    rc = rc ? rc : ctr_inputs_by_column(t.in, &t.err);
    rc = rc ? rc : fill(&t, false, bad);
    rc = rc ? rc : ctr_inputs_rows(t.in, NULL, FROM, ROWS - FROM, &r, &t.err);
    const char *want = fabs(bad) < INFINITY ? "row 203: 1e+300 in column x4 is beyond float32"
                                            : "row 203: a value of column x4 is NaN or infinite";
    ok(rc == CTR_EDATA && strstr(t.err.what, want), "%g: %s", bad, t.err.what);
    close_table(&t);
}

int main(void)
{
    for (int nulls = 0; nulls < 2; nulls++) {
        test_rows(false, false, nulls);
        test_rows(true, false, nulls);
        test_rows(true, true, nulls);
    }
    test_bad(NAN);
    test_bad(-INFINITY);
    test_bad(1e300); /* as a float */
    return done_testing();
}
