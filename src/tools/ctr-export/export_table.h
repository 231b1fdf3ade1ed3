/* SPDX-License-Identifier: Apache-2.0
 *
 * export_table: rows for people: aligned, within the width of a terminal; or a line a value.
 *
 *     ctr_table_open(&t, schema, &opts, out, err)
 *     ctr_table_batch(t, b, err) …
 *     ctr_table_finish(t, err)           the caller commits `out`
 *     ctr_table_free(t)
 *
 * The first CTR_TABLE_SAMPLE rows decide the widths, so that the bytes do not depend on batches. */
#ifndef CTR_EXPORT_TABLE_H
#define CTR_EXPORT_TABLE_H

#include "common/stream/batch.h"

enum { CTR_TABLE_SAMPLE = 1000 };

struct ctr_table;
struct ctr_table_opts {
    int width; /* columns of the terminal */
    bool vertical, no_header;
    const char *null_text; /* NULL: "null" */
};

int ctr_table_open(struct ctr_table **t, const struct ctr_schema *s, const struct ctr_table_opts *o,
                   struct ctr_out *out, struct ctr_err *err) CTR_MUST;
int ctr_table_batch(struct ctr_table *t, const struct ctr_batch *b, struct ctr_err *err) CTR_MUST;
int ctr_table_finish(struct ctr_table *t, struct ctr_err *err) CTR_MUST;
int ctr_table_left_out(const struct ctr_table *t); /* columns that have no room, after finish */
void ctr_table_free(struct ctr_table *t);

#endif
