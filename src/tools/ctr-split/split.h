/* SPDX-License-Identifier: Apache-2.0
 *
 * split: rows to shards. */
#ifndef CTR_SPLIT_H
#define CTR_SPLIT_H

#include "common/stream/batch.h"

/* Assigns rows to shards: by hash of the keys (rows with equal keys, nulls included, go to one shard), or round robin
 * without keys. */
struct ctr_split;
int ctr_split_new(struct ctr_split **s, const struct ctr_schema *schema, const char *keys /* "a,b" or NULL */,
                  int shards, struct ctr_err *err) CTR_MUST;
/* Group the rows of a batch by shard: rows[start[i] … start[i + 1]) go to shard i, in input order. Both are borrowed
 * until the next call. */
int ctr_split_batch(struct ctr_split *s, const struct ctr_batch *b, const int64_t **rows, const int64_t **start,
                    struct ctr_err *err) CTR_MUST;
void ctr_split_free(struct ctr_split *s);
/* The file name of a shard: `pattern` holds exactly one %d, with an optional width (%2d,
 * %02d); %% is a per cent sign. */
int ctr_split_name(const char *pattern, int shard, struct ctr_buf *out, struct ctr_err *err) CTR_MUST;

#endif
