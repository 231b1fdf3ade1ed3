/* SPDX-License-Identifier: Apache-2.0
 *
 * feedback: running counts by key. Rows wait in a queue in time order: at one point they are counted as impressions,
 * later their clicks become known, and with a window they are finally subtracted. Invariant: after
 * ctr_feedback_until(t) a counter holds exactly what is known at t. */
#include "common/rows/historycore.h"

#include <stdlib.h>

int ctr_feedback_init(struct ctr_feedback *f, int keys, uint64_t delay_ms, int64_t window_ms, struct ctr_err *err)
{
    *f = (struct ctr_feedback){ .keys = keys, .delay_ms = delay_ms, .window_ms = (uint64_t)window_ms };
    f->windowed = window_ms >= 0;
    f->key = calloc((size_t)keys + 1, sizeof *f->key);
    f->counter = calloc((size_t)keys + 1, sizeof *f->counter);
    f->number = calloc((size_t)keys + 1, sizeof *f->number);
    if (!f->key || !f->counter || !f->number)
        return ctr_fail_nomem(err, (size_t)keys * sizeof *f->key);
    for (int k = 0; k < keys; k++)
        ctr_keyvalue_set_init(&f->key[k]);
    return 0;
}

void ctr_feedback_free(struct ctr_feedback *f)
{
    for (int k = 0; k < f->keys && f->key && f->counter; k++) {
        ctr_keyvalue_set_free(&f->key[k]);
        ctr_buf_free(&f->counter[k]);
    }
    free(f->key);
    free(f->number);
    free(f->counter);
    ctr_buf_free(&f->row);
}

int64_t ctr_feedback_bytes(const struct ctr_feedback *f)
{
    int64_t bytes = (int64_t)f->row.cap;
    for (int k = 0; k < f->keys; k++)
        bytes += ctr_keyvalue_set_bytes(&f->key[k]) + (int64_t)f->counter[k].cap;
    return bytes;
}

static size_t words(const struct ctr_feedback *f)
{
    return 2 + (size_t)f->keys;
}

static int64_t *row_at(const struct ctr_feedback *f, int64_t i)
{
    return (int64_t *)(void *)f->row.data + (size_t)i * words(f);
}

static struct ctr_counter *counter(const struct ctr_feedback *f, int set, int64_t number)
{
    return (struct ctr_counter *)(void *)f->counter[set].data + number;
}

int ctr_feedback_reserve(struct ctr_feedback *f, int64_t rows, struct ctr_err *err)
{
    int rc = 0;
    if (f->first > f->rows - f->first) { /* more than half is unused: move the rest to the start */
        memmove(f->row.data, row_at(f, f->first), (size_t)(f->rows - f->first) * words(f) * sizeof(int64_t));
        f->rows -= f->first;
        f->shown -= f->first;
        f->known -= f->first;
        f->first = 0;
    }
    f->row.len = (size_t)f->rows * words(f) * sizeof(int64_t);
    rc = ctr_buf_reserve(&f->row, (size_t)rows * words(f) * sizeof(int64_t), err);
    for (int k = 0; k < f->keys && !rc; k++)
        rc = ctr_buf_reserve(&f->counter[k], (size_t)rows * sizeof(struct ctr_counter), err);
    return rc;
}

int ctr_feedback_get(struct ctr_feedback *f, int set, const struct ctr_keyvalue *key, bool add, struct ctr_counter *c,
                     struct ctr_err *err)
{
    const uint32_t known = f->key[set].n;
    uint32_t n = 0;
    int rc = 0;
    *c = (struct ctr_counter){ 0 };
    if (!add) {
        const int64_t found = ctr_keyvalue_set_find(&f->key[set], key);
        if (found >= 0)
            *c = *counter(f, set, found);
        return 0;
    }
    if ((rc = ctr_keyvalue_set_add(&f->key[set], key, &n, err)))
        return rc;
    if (n == known) {
        f->counter[set].len += sizeof(struct ctr_counter);
        *counter(f, set, n) = *c;
    }
    *c = *counter(f, set, n);
    f->number[set] = n;
    return 0;
}

void ctr_feedback_add(struct ctr_feedback *f, int64_t s, bool click)
{
    int64_t *row = row_at(f, f->rows++);
    row[0] = s;
    row[1] = click;
    memcpy(row + 2, f->number, (size_t)f->keys * sizeof *row);
}

void ctr_feedback_ahead(const struct ctr_feedback *f, const struct ctr_keyvalue_rows *keys, int64_t i, int64_t rows)
{
    enum { STEP = 8 };
    for (int k = 0; k < f->keys; k++) {
        const struct ctr_keyvalue *key = keys[k].row;
        if (i + 3 * STEP < rows)
            ctr_keyvalue_set_ahead(&f->key[k], &key[i + 3 * STEP], 0);
        const int64_t number = i + 2 * STEP < rows ? ctr_keyvalue_set_ahead(&f->key[k], &key[i + 2 * STEP], 1) : -1;
        if (number >= 0)
            __builtin_prefetch(counter(f, k, number), 1);
        if (i + STEP < rows)
            ctr_keyvalue_set_ahead(&f->key[k], &key[i + STEP], 2);
    }
}

/* A row's click becomes known (by = 1), or the row leaves the window (by = -1). */
static void count_known(struct ctr_feedback *f, const int64_t *row, int64_t by)
{
    for (int k = 0; k < f->keys; k++) {
        counter(f, k, row[2 + k])->known += by;
        counter(f, k, row[2 + k])->clicks += by * row[1];
    }
    f->all.known += by;
    f->all.clicks += by * row[1];
}

static void count_shown(struct ctr_feedback *f, const int64_t *row, int64_t by)
{
    for (int k = 0; k < f->keys; k++)
        counter(f, k, row[2 + k])->shown += by;
}

void ctr_feedback_until(struct ctr_feedback *f, int64_t t)
{
    for (; f->shown < f->rows && row_at(f, f->shown)[0] < t; f->shown++)
        count_shown(f, row_at(f, f->shown), 1);
    for (; f->known < f->shown && ctr_time_age(t, row_at(f, f->known)[0]) > f->delay_ms; f->known++)
        count_known(f, row_at(f, f->known), 1);
    if (!f->windowed)
        f->first = f->known;
    for (; f->first < f->known && ctr_time_age(t, row_at(f, f->first)[0]) > f->window_ms; f->first++) {
        count_shown(f, row_at(f, f->first), -1);
        count_known(f, row_at(f, f->first), -1);
    }
}
