/* SPDX-License-Identifier: Apache-2.0
 *
 * negatives: for each row in which a user took an item, rows with items that the user did not take. */
#ifndef CTR_NEGATIVES_H
#define CTR_NEGATIVES_H

#include "common/stream/stream.h"

struct ctr_negatives_opts {
    int64_t n;         /* for each row that took an item */
    int user, label;   /* columns; label -1: all rows took an item, and a column `label` is added */
    int time;          /* -1: items, counts and what a user took are those of the whole log; else as of the row */
    const char *known; /* the time of an item, of ITEMS; NULL: that of the log's name, if there is one */
    double popular;    /* an item weighs (1 + count)^popular; 0: all alike */
    uint64_t seed;
    int64_t memory_bytes; /* 0: see ctr_relation_memory */
};
struct ctr_negatives_stats {
    int64_t rows, taken, drawn; /* rows; of them, that took an item; negatives */
    int64_t fewer;              /* rows with fewer negatives: there are no more items that the user did not take */
    int64_t unknown;            /* rows that took an item which ITEMS does not have */
    int64_t items;
};
/* ITEMS is read here: its first column names the item, and is a column of the log; its other columns that the log has,
 * too, are what a negative row gets with the item. The other columns of a negative row are those of the row that it is
 * made for, its label is 0, and it follows it. With a time rows come in its order. A draw depends on the seed and on
 * the number of the row. */
struct ctr_negatives;
int ctr_negatives_new(struct ctr_negatives **s, const struct ctr_schema *in, const struct ctr_batch_source *items,
                      const char *items_name, const struct ctr_negatives_opts *o, struct ctr_err *err) CTR_MUST;
/* Replace *s by the stage, which it frees. */
int ctr_negatives_source(struct ctr_batch_source *s, struct ctr_negatives *stage, struct ctr_err *err) CTR_MUST;
void ctr_negatives_get_stats(const struct ctr_negatives *s, struct ctr_negatives_stats *st);
void ctr_negatives_free(struct ctr_negatives *s);

#endif
