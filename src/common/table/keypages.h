/* SPDX-License-Identifier: Apache-2.0
 *
 * keypages: rows on disk by table and key, without an index of keys in memory.
 *
 *     ctr_keypages_open(&p, dir, state_bytes, memory, err);
 *     ctr_keypages_bind(p, tables, err);
 *     ctr_keypages_get(p, table, keys, n, take, ctx, err);       the rows of many keys, in ascending order
 *     ctr_keypages_put(p, table, &rows, &replaced, err);         adds rows, or replaces those of the same keys
 *     ctr_keypages_each(p, table, each, ctx, err);               all rows in ascending order
 *
 * A page has some hundred rows in the order of keys, and memory holds the first key and the place of each page: about
 * a tenth of a byte a key. So keys are looked up, and rows written, many at a time, in one ordered sweep: pages that
 * are dense are read in large pieces, one after another, and those that are sparse one by one; the others are left
 * alone. A row is its key, 8 bytes, and its state.
 *
 * The pages are rows of a rowfile (rowfile.h), which reads, writes and checks them. One thread at a time. A call that
 * does not return 0 fills its struct ctr_err. */
#ifndef CTR_KEYPAGES_H
#define CTR_KEYPAGES_H

#include "common/table/rowfile.h"

struct ctr_keypages;
enum { CTR_KEYPAGES_KEY = 8, CTR_KEYPAGES_MOST_ROWS = 4096 / 10 }; /* of a page: a state has 2 bytes or more */

int ctr_keypages_open(struct ctr_keypages **p, const char *dir, uint32_t state_bytes, int64_t memory,
                      struct ctr_err *err) CTR_MUST;
int ctr_keypages_bind(struct ctr_keypages *p, int tables, struct ctr_err *err) CTR_MUST;

/* Gets a row that was found: its key, then its state. */
typedef int ctr_keypages_take(void *ctx, const uint8_t *row, struct ctr_err *err);
/* `key`: ascending, distinct. Keys without a row are passed over. */
int ctr_keypages_get(struct ctr_keypages *p, int table, const struct ctr_numbered *key, int64_t n,
                     ctr_keypages_take *take, void *ctx, struct ctr_err *err) CTR_MUST;

/* The state of place[i].key is at state + place[i].number * stride; keys ascend and are distinct. */
struct ctr_keypages_rows {
    const struct ctr_numbered *place;
    int64_t n;
    const uint8_t *state;
    uint32_t stride;
};
/* *replaced is increased by the keys that had a row. */
int ctr_keypages_put(struct ctr_keypages *p, int table, const struct ctr_keypages_rows *rows, int64_t *replaced,
                     struct ctr_err *err) CTR_MUST;
/* Call after some puts: gives back room on disk, if much of it is unused. */
int ctr_keypages_settle(struct ctr_keypages *p, struct ctr_err *err) CTR_MUST;

/* Gets the rows of a page: n <= CTR_KEYPAGES_MOST_ROWS, each `bytes` long. */
typedef int ctr_keypages_page(void *ctx, const uint8_t *rows, int64_t n, uint32_t bytes, struct ctr_err *err);
int ctr_keypages_each(struct ctr_keypages *p, int table, ctr_keypages_page *each, void *ctx,
                      struct ctr_err *err) CTR_MUST;

int64_t ctr_keypages_count(const struct ctr_keypages *p, int table); /* rows; table -1: of all tables */
int64_t ctr_keypages_memory(const struct ctr_keypages *p);
struct ctr_rowfile_moved ctr_keypages_moved(const struct ctr_keypages *p);
void ctr_keypages_free(struct ctr_keypages *p);

#endif
