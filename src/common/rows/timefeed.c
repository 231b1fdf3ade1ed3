/* SPDX-License-Identifier: Apache-2.0
 *
 * timefeed: returns the rows of a log in time order, with rows of equal time in log order. Invariant: a returned row is
 * never later than a following one; whether a row is late depends only on the preceding rows, not on batches. */
#include "common/rows/historycore.h"

enum { HELD_ROWS = 1 << 14 }; /* minimum number of rows sorted at once */

static struct ctr_err *in_log(struct ctr_err *err, const struct ctr_timefeed *f)
{
    if (f->name)
        ctr_err_file(err, f->name);
    return err;
}

static int check_time(const struct ctr_timefeed *f, const struct ctr_field *field, struct ctr_err *err)
{
    char type[128];
    if (field->type == CTR_TIME || (ctr_types[field->type].integer && field->type != CTR_U64))
        return 0;
    return ctr_fail(in_log(err, f), CTR_EUSAGE, "the time %s is %s, but must be a timestamp, or an integer (ms)%s",
                    field->name, ctr_field_type_name(field, type, sizeof type),
                    field->type != CTR_UTF8 ? ""
                                            : ctr_words(f->in_plan, ": ctr-import --time makes timestamps of text",
                                                        ": time=\"NAME\" of a view of text makes timestamps"));
}

static int make_sort(struct ctr_timefeed *f, struct ctr_err *err)
{
    struct ctr_strs keys = { 0 };
    struct ctr_sort_opts so = {
        .keys = &keys, .memory_bytes = f->memory_bytes, .batch_rows = f->batch_rows, .threads = f->threads
    };
    int rc = ctr_names_add(&keys, f->schema.f[f->time].name, err);
    if (!rc)
        rc = ctr_sort_new(&f->sort, &f->schema, &so, err);
    ctr_strs_free(&keys);
    return rc;
}

int ctr_timefeed_init(struct ctr_timefeed *f, const struct ctr_schema *in, struct ctr_err *err)
{
    int rc = check_time(f, &in->f[f->time], err);
    if (!rc)
        rc = ctr_schema_copy(&f->schema, in, err);
    for (int i = 0; !rc && f->input != CTR_HISTORY_ORDERED && i < in->n; i++)
        f->schema.f[i].dict = false; /* rows are reordered */
    if (!rc && f->input == CTR_HISTORY_SORT)
        rc = make_sort(f, err);
    if (!rc && f->input == CTR_HISTORY_LATE)
        rc = ctr_batchbuf_init(&f->held, &f->schema, err);
    if (!rc && f->input == CTR_HISTORY_LATE)
        rc = ctr_batchbuf_init(&f->ready, &f->schema, err);
    return rc;
}

void ctr_timefeed_free(struct ctr_timefeed *f)
{
    ctr_sort_free(f->sort);
    ctr_batchbuf_free(&f->held);
    ctr_batchbuf_free(&f->ready);
    ctr_buf_free(&f->idx);
    ctr_schema_free(&f->schema);
}

/* ---- the times of a batch ---- */

static int out_of_order_row(const struct ctr_timefeed *f, int64_t row, int64_t t, struct ctr_err *err)
{
    char is[64], was[64];
    is[ctr_time_iso(is, t)] = was[ctr_time_iso(was, f->newest)] = 0;
    if (f->input == CTR_HISTORY_LATE)
        return ctr_fail(in_log(err, f), CTR_EDATA,
                        "row %lld: its time %s is more than %s before %s, which came earlier; give more, or %s",
                        (long long)row, is, ctr_word(f->in_plan, "--lateness"), was, ctr_word(f->in_plan, "--sort"));
    return ctr_fail(in_log(err, f), CTR_EDATA,
                    "row %lld: its time %s runs backwards, behind %s; give %s, or %s for rows that are a little late",
                    (long long)row, is, was, ctr_word(f->in_plan, "--sort"), ctr_word(f->in_plan, "--lateness"));
}

static int check_times(struct ctr_timefeed *f, const struct ctr_batch *b, struct ctr_err *err)
{
    const struct ctr_col *c = &b->col[f->time];
    const uint64_t allowed = f->input == CTR_HISTORY_LATE ? (uint64_t)f->lateness_ms : 0;
    for (int64_t i = 0; i < b->rows; i++) {
        if (ctr_col_missing(c, i))
            return ctr_fail(
                in_log(err, f), CTR_EDATA, "row %lld: its time %s is null; leave such rows out (%s)",
                (long long)(b->first_row + i + 1), f->schema.f[f->time].name,
                ctr_words(f->in_plan, "ctr-select --where 'not is_null(…)'", "where not is_null(…) above it"));
        int64_t at = i;
        const struct ctr_col *plain = ctr_col_plain(c, &at);
        const int64_t t = ctr_col_i64(plain, at);
        if (f->any && t < f->newest && f->input != CTR_HISTORY_SORT && ctr_time_age(f->newest, t) > allowed)
            return out_of_order_row(f, b->first_row + i + 1, t, err);
        f->newest = f->any ? CTR_MAX(f->newest, t) : t;
        f->any = true;
    }
    return 0;
}

/* ---- rows that wait ---- */

/* Rows that no new row can precede are moved to a sort; the others stay. */
static int release(struct ctr_timefeed *f, struct ctr_err *err)
{
    const struct ctr_batch *b = ctr_batchbuf_view(&f->held);
    int rc = ctr_buf_room(&f->idx, b->rows, sizeof(int64_t), err);
    int64_t *idx = (int64_t *)(void *)f->idx.data, n = 0;
    for (int pass = 0; !rc && pass < 2; pass++) { /* first the ready rows */
        for (int64_t i = 0; i < b->rows; i++)
            if ((f->finished ||
                 ctr_time_age(f->newest, ctr_col_i64(&b->col[f->time], i)) >= (uint64_t)f->lateness_ms) == !pass)
                idx[n++] = i;
        if (pass)
            break;
        if (!n || (!f->finished && 2 * n < b->rows))
            return 0;
        rc = make_sort(f, err);
        ctr_batchbuf_clear(&f->ready);
        if (!rc)
            rc = ctr_batchbuf_gather(&f->ready, b, idx, n, err);
        if (!rc)
            rc = ctr_sort_batch(f->sort, ctr_batchbuf_view(&f->ready), err);
        if (!rc)
            rc = ctr_sort_finish(f->sort, err);
        f->emptying = true;
        n = 0;
    }
    ctr_batchbuf_clear(&f->ready);
    if (!rc)
        rc = ctr_batchbuf_gather(&f->ready, b, idx, n, err);
    const struct ctr_batchbuf held = f->held;
    f->held = f->ready;
    f->ready = held;
    return rc;
}

static int hold(struct ctr_timefeed *f, const struct ctr_batch *b, struct ctr_err *err)
{
    int rc = ctr_batchbuf_range(&f->held, b, 0, b->rows, err);
    int64_t bytes = 0;
    for (int i = 0; !rc && i < b->schema->n; i++)
        bytes += ctr_col_bytes(ctr_colbuf_view(&f->held.col[i]), 0, f->held.col[i].rows);
    if (rc || ctr_batchbuf_rows(&f->held) < HELD_ROWS)
        return rc;
    rc = release(f, err);
    if (!rc && !f->emptying && bytes > ctr_relation_memory(f->memory_bytes))
        return ctr_fail(in_log(err, f), CTR_ENOMEM,
                        "%lld rows wait for late ones, which takes %s and --memory allows %s; give less %s, or %s, "
                        "which uses files",
                        (long long)ctr_batchbuf_rows(&f->held),
                        ctr_size_text_beyond((uint64_t)bytes, (uint64_t)ctr_relation_memory(f->memory_bytes)).s,
                        ctr_size_text((uint64_t)ctr_relation_memory(f->memory_bytes)).s,
                        ctr_word(f->in_plan, "--lateness"), ctr_word(f->in_plan, "--sort"));
    return rc;
}

/* ---- in and out ---- */

int ctr_timefeed_push(struct ctr_timefeed *f, const struct ctr_batch *b, struct ctr_err *err)
{
    int rc = check_times(f, b, err);
    if (rc)
        return rc;
    if (f->input == CTR_HISTORY_ORDERED)
        f->b = b;
    else
        rc = f->input == CTR_HISTORY_SORT ? ctr_sort_batch(f->sort, b, err) : hold(f, b, err);
    return rc;
}

int ctr_timefeed_finish(struct ctr_timefeed *f, struct ctr_err *err)
{
    f->finished = true;
    if (f->input == CTR_HISTORY_SORT) {
        f->emptying = true;
        return ctr_sort_finish(f->sort, err);
    }
    return 0;
}

static int next_sorted(struct ctr_timefeed *f, const struct ctr_batch **b, struct ctr_err *err)
{
    int rc = ctr_sort_next(f->sort, b, err);
    if (!rc) {
        struct ctr_sort_stats st;
        ctr_sort_get_stats(f->sort, &st);
        f->spilled_bytes += st.spilled_bytes;
        ctr_sort_free(f->sort);
        f->sort = NULL;
        f->emptying = false;
    }
    return rc;
}

int ctr_timefeed_next(struct ctr_timefeed *f, const struct ctr_batch **b, struct ctr_err *err)
{
    int rc = 0;
    *b = f->b;
    f->b = NULL;
    if (*b)
        rc = 1;
    else if (f->emptying)
        rc = next_sorted(f, b, err);
    if (!rc && f->input == CTR_HISTORY_LATE && f->finished && ctr_batchbuf_rows(&f->held)) {
        rc = release(f, err);
        if (!rc)
            rc = next_sorted(f, b, err);
    }
    if (rc <= 0)
        return rc;
    f->out = **b;
    f->out.first_row = f->given;
    f->given += f->out.rows;
    *b = &f->out;
    return 1;
}
