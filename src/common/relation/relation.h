/* SPDX-License-Identifier: Apache-2.0
 *
 * relation: stages over whole streams of rows: sorting, splitting by key, joining. Filters, trainers and servers call
 * them alike:
 *
 *     ctr_sort_new(&s, schema, &opts, err)
 *     while ((rc = ctr_reader_next(r, &b, err)) > 0)  rc = ctr_sort_batch(s, b, err);
 *     ctr_sort_finish(s, err);
 *     while ((rc = ctr_sort_next(s, &b, err)) > 0)  … b is borrowed until the next call …
 *
 * Results depend on the rows and the options alone: not on memory, threads, or how rows were cut into batches. What
 * outgrows memory_bytes goes to unlinked temporaries in $TMPDIR. Dictionaries are decoded where rows change places.
 */
#ifndef CTR_RELATION_H
#define CTR_RELATION_H

#include "common/stream/stream.h"

/* Bytes to use when --memory is not given: a quarter of the machine's. */
int64_t ctr_relation_memory(int64_t memory_bytes);

/* ---- sort: sort.c ---- */

struct ctr_sort;
struct ctr_sort_opts {
    const struct ctr_strs *keys; /* "a,b:desc", …: see roworder.h for the order; stable */
    bool shuffle;                /* no keys: a random order made from the seed and the row numbers */
    bool unique;                 /* of rows with equal keys keep the first */
    uint64_t seed;
    int64_t memory_bytes; /* 0: see ctr_relation_memory */
    int64_t batch_rows;   /* of the result; 0: CTR_BATCH_ROWS */
    int threads;          /* 2 or more: runs are sorted and written while the next is read */
};
struct ctr_sort_stats {
    int64_t rows, dropped; /* taken in; dropped by unique */
    int64_t runs, passes, spilled_bytes;
};
int ctr_sort_new(struct ctr_sort **s, const struct ctr_schema *schema, const struct ctr_sort_opts *o,
                 struct ctr_err *err) CTR_MUST;
const struct ctr_schema *ctr_sort_schema(const struct ctr_sort *s); /* of the result */
int ctr_sort_batch(struct ctr_sort *s, const struct ctr_batch *b, struct ctr_err *err) CTR_MUST;
int ctr_sort_finish(struct ctr_sort *s, struct ctr_err *err) CTR_MUST;
int ctr_sort_next(struct ctr_sort *s, const struct ctr_batch **b, struct ctr_err *err) CTR_MUST; /* 1, 0: end, < 0 */
void ctr_sort_get_stats(const struct ctr_sort *s, struct ctr_sort_stats *st);
void ctr_sort_free(struct ctr_sort *s);

/* ---- keys: relkey.c ---- */

/* Hashes of the keys of n rows: columns cols[0..nkeys) of a batch chained as by ctr_col_hash, so equal for equal values
 * whatever the integer width or encoding. null (may be NULL): set to 1 where a key is null. */
int ctr_keys_hash(const struct ctr_batch *b, const int *cols, int nkeys, uint64_t seed, uint64_t *hash, uint8_t *null,
                  struct ctr_err *err) CTR_MUST;

/* ---- group: group.c ---- */

/* Aggregates by key: a row a combination of values of the keys, null being one, sorted by the keys as ctr_sort does.
 * Aggregates, of columns without their nulls:
 *     count()              rows;  count(x): values
 *     sum(x), mean(x)      int64 of integers and booleans (an error where it overflows), else float64, added in the
 *                          order of the input; sum of none is 0, mean of none null
 *     min(x), max(x)       of x's type, in the order of ctr_sort; null of none
 *     first(x), last(x)    of the first and last row in the order of the input, which may be null
 *     distinct(x)          number of different values
 *     quantile(x, p)       float64: of n values in order, between those of rank floor((n - 1) p) and the next one in
 *                          proportion; null of none
 * All rows are sorted, those of ordered aggregates (distinct, quantile) once more a column, each in an equal share of
 * memory_bytes. */
struct ctr_group;
struct ctr_group_opts {
    const struct ctr_strs *keys; /* "a,b", … */
    const struct ctr_strs *add;  /* "n=count()", "p=quantile(x, 0.5)", … */
    int64_t memory_bytes, batch_rows;
    int threads; /* as of ctr_sort_opts */
};
struct ctr_group_stats {
    int64_t rows, groups, runs, spilled_bytes;
};
int ctr_group_new(struct ctr_group **g, const struct ctr_schema *schema, const struct ctr_group_opts *o,
                  struct ctr_err *err) CTR_MUST;
const struct ctr_schema *ctr_group_schema(const struct ctr_group *g);
/* The columns of the input that are needed, ascending: batches come projected to these. */
const int *ctr_group_inputs(const struct ctr_group *g, int *n);
int ctr_group_batch(struct ctr_group *g, const struct ctr_batch *b, struct ctr_err *err) CTR_MUST;
int ctr_group_finish(struct ctr_group *g, struct ctr_err *err) CTR_MUST;
int ctr_group_next(struct ctr_group *g, const struct ctr_batch **b, struct ctr_err *err) CTR_MUST; /* 1, 0: end, < 0 */
void ctr_group_get_stats(const struct ctr_group *g, struct ctr_group_stats *st);
void ctr_group_free(struct ctr_group *g);
/* *s becomes its groups. *stage is for ctr_group_get_stats, until *s is closed. */
int ctr_group_source(struct ctr_batch_source *s, const struct ctr_group_opts *o, struct ctr_group **stage,
                     struct ctr_err *err) CTR_MUST;

/* ---- split: split.c ---- */

/* Which shard a row goes to: by hash of its keys (rows with equal keys meet, nulls too), or in turn when there are
 * none. */
struct ctr_split;
int ctr_split_new(struct ctr_split **s, const struct ctr_schema *schema, const char *keys /* "a,b" or NULL */,
                  int shards, struct ctr_err *err) CTR_MUST;
/* Sorts the rows of a batch by shard: rows[start[i] … start[i + 1]) go to shard i, in their order. Both are borrowed
 * until the next call. */
int ctr_split_batch(struct ctr_split *s, const struct ctr_batch *b, const int64_t **rows, const int64_t **start,
                    struct ctr_err *err) CTR_MUST;
void ctr_split_free(struct ctr_split *s);
/* The file name of a shard: `pattern` holds exactly one %d, with an optional width (%2d,
 * %02d); %% is a per cent sign. */
int ctr_split_name(const char *pattern, int shard, struct ctr_buf *out, struct ctr_err *err) CTR_MUST;

/* ---- join: join.c ---- */

enum ctr_join_kind { CTR_JOIN_LEFT, CTR_JOIN_INNER, CTR_JOIN_ANTI };
enum ctr_join_how {
    CTR_JOIN_HASH,   /* right in memory, or both sides in partitions on disk */
    CTR_JOIN_MERGE,  /* both sides sorted by the keys */
    CTR_JOIN_BY_ROW, /* row i with row i */
};
enum ctr_join_time { CTR_JOIN_NO_TIME, CTR_JOIN_AS_OF, CTR_JOIN_NEXT };

struct ctr_join_opts {
    const char *keys; /* "a,b=c": left b with right c; NULL: none (BY_ROW, or one group for a time join) */
    enum ctr_join_kind kind;
    enum ctr_join_how how;
    bool multi; /* all right rows of a key, in their order; otherwise a repeated right key is an error, but of ANTI */
    enum ctr_join_time at;
    const char *time; /* "TIME" or "TIME=TIME2": AS_OF the last right row strictly before, NEXT the first at or after */
    int64_t within_ms;   /* NEXT, AS_OF: at most so far away; < 0: any */
    const char *prefix;  /* before the right's names, or NULL */
    const char *columns; /* of the right: "a,b", NULL: all but the keys */
    int64_t memory_bytes;
    int64_t batch_rows;
    int threads; /* 2 or more: the rows of a batch are looked up in the right side in so many shares */
};
struct ctr_join_stats {
    int64_t left_rows, matched, unmatched; /* left rows */
    int64_t right_rows, right_unmatched;   /* not BY_ROW; known after ctr_join_finish */
    int64_t out_rows;
    int64_t partitions, spilled_bytes; /* 0: the right side fitted */
};

struct ctr_join;
/* The join takes *right over, also where it fails, and projects it to the columns that are wanted; a HASH join reads it
 * to its end here. `right_name` names it in messages. Column roles of the right pass when the left has no column of
 * that role (feature, dense and image always); otherwise the column passes without its role. */
int ctr_join_new(struct ctr_join **j, const struct ctr_schema *left, struct ctr_batch_source *right,
                 const char *right_name, const struct ctr_join_opts *o, struct ctr_err *err) CTR_MUST;
/* *s becomes the rows of *s joined: a stage that hands its batches to j. It frees j, whose schema the left one was. */
int ctr_join_source(struct ctr_batch_source *s, struct ctr_join *j, struct ctr_err *err) CTR_MUST;
const struct ctr_schema *ctr_join_schema(const struct ctr_join *j);
/* Hand over a left batch (it must stay valid), then take results until ctr_join_next returns 0, then hand over the
 * next. After ctr_join_finish (no more left rows) there may be more results. */
int ctr_join_batch(struct ctr_join *j, const struct ctr_batch *b, struct ctr_err *err) CTR_MUST;
int ctr_join_finish(struct ctr_join *j, struct ctr_err *err) CTR_MUST;
int ctr_join_next(struct ctr_join *j, const struct ctr_batch **b,
                  struct ctr_err *err) CTR_MUST; /* 1, 0: more input, < 0 */
void ctr_join_get_stats(const struct ctr_join *j, struct ctr_join_stats *st);
void ctr_join_free(struct ctr_join *j);

/* ---- subsample: subsample.c ---- */

struct ctr_subsample_opts {
    int query, label, weight; /* columns; weight -1: none, one named weight is added */
    double share;             /* of the queries without a click, in (0, 1] */
    uint64_t seed;            /* a query is drawn by its hash: alike in every shard, whatever the order of rows */
    int64_t memory_bytes;     /* 0: no bound; 16 to 32 bytes a query with a click are held */
};
struct ctr_subsample_stats {
    int64_t rows, kept, clicked_rows; /* taken in, kept, kept because their query has a click */
    int64_t clicked_queries;
};
/* Every row of a query with a click is kept as it is; of the other queries a share, whole, with their weights divided
 * by the share ("Ad Click Prediction", 4.5). Rows keep their order; rows of a query need not be adjacent. */
struct ctr_subsample;
int ctr_subsample_new(struct ctr_subsample **s, const struct ctr_schema *in, const struct ctr_subsample_opts *o,
                      struct ctr_err *err) CTR_MUST;
const struct ctr_schema *ctr_subsample_schema(const struct ctr_subsample *s);
int ctr_subsample_batch(struct ctr_subsample *s, const struct ctr_batch *b, struct ctr_err *err) CTR_MUST;
int ctr_subsample_finish(struct ctr_subsample *s, struct ctr_err *err) CTR_MUST;
int ctr_subsample_next(struct ctr_subsample *s, const struct ctr_batch **b,
                       struct ctr_err *err) CTR_MUST; /* 1, 0, < 0 */
void ctr_subsample_get_stats(const struct ctr_subsample *s, struct ctr_subsample_stats *st);
void ctr_subsample_free(struct ctr_subsample *s);

#endif
