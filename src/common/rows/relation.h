/* SPDX-License-Identifier: Apache-2.0
 *
 * relation: stages over whole streams of rows: sort, group, join. Filters, trainers and servers use them
 * in the same way:
 *
 *     ctr_sort_new(&s, schema, &opts, err)
 *     while ((rc = ctr_reader_next(r, &b, err)) > 0)  rc = ctr_sort_batch(s, b, err);
 *     ctr_sort_finish(s, err);
 *     while ((rc = ctr_sort_next(s, &b, err)) > 0)  … b is borrowed until the next call …
 *
 * Results depend only on the rows and the options, not on memory, threads or batch boundaries. Data beyond memory_bytes
 * goes to unlinked temporaries in $TMPDIR. Stages that reorder rows decode dictionaries.
 */
#ifndef CTR_RELATION_H
#define CTR_RELATION_H

#include "common/base/words.h"
#include "common/stream/stream.h"

/* Memory to use without --memory: a quarter of the machine's, in bytes. */
int64_t ctr_relation_memory(int64_t memory_bytes);

/* ---- sort: sort.c ---- */

struct ctr_sort;
struct ctr_sort_opts {
    const struct ctr_strs *keys; /* "a,b:desc", …: see roworder.h; the sort is stable */
    bool shuffle;                /* no keys: a random order from the seed and the row numbers */
    bool unique;                 /* keep only the first of rows with equal keys */
    uint64_t seed;
    int64_t memory_bytes; /* 0: see ctr_relation_memory */
    int64_t batch_rows;   /* of the result; 0: CTR_BATCH_ROWS */
    int threads;          /* 2 or more: write runs, and make batches of the result, beside the caller */
};
struct ctr_sort_stats {
    int64_t rows, dropped; /* read; dropped by unique */
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
/* Replace *s by its rows in order. *stage is valid for ctr_sort_get_stats until *s is closed. */
int ctr_sort_source(struct ctr_batch_source *s, const struct ctr_sort_opts *o, struct ctr_sort **stage,
                    struct ctr_err *err) CTR_MUST;

/* Replace *s by its rows and those of *more behind them, and take *more: columns by name, null where a side lacks one.
 */
int ctr_union_source(struct ctr_batch_source *s, struct ctr_batch_source *more, struct ctr_err *err) CTR_MUST;

/* ---- keys: relkey.c ---- */

/* Hashes of the keys of n rows: columns cols[0..nkeys) of a batch, chained like ctr_col_hash, so that equal values hash
 * alike for every integer width and encoding. null (may be NULL): set to 1 where a key is null. */
int ctr_keys_hash(const struct ctr_batch *b, const int *cols, int nkeys, uint64_t seed, uint64_t *hash, uint8_t *null,
                  struct ctr_err *err) CTR_MUST;

/* ---- group: group.c ---- */

/* Aggregates by key: one row per combination of key values (null is a value), sorted by the keys like ctr_sort.
 * Aggregates, over the non-null values of a column:
 *     count()              rows;  count(x): values
 *     sum(x), mean(x)      sums are int64 for integers and booleans (overflow is an error), else float64, added in
 *                          input order; the sum of no values is 0, their mean null
 *     min(x), max(x)       of x's type, in the order of ctr_sort; null without values
 *     first(x), last(x)    of the first and last row in input order; may be null
 *     distinct(x)          number of distinct values
 *     mode(x), top(x, n)   the most frequent value; a list of the n most frequent; of equally frequent ones the
 * smallest comes first; null without values quantile(x, p)       float64: linear interpolation between rank floor((n -
 * 1) p) of n sorted values and the next; null without values Groups lie in memory and are found by hash; the rows of
 * those that it does not hold are sorted by key. The values of ordered aggregates (distinct, quantile) are sorted, once
 * a column. All have equal shares of memory_bytes. */
struct ctr_group;
struct ctr_group_opts {
    const struct ctr_strs *keys; /* "a,b", … */
    const struct ctr_strs *add;  /* "n=count()", "p=quantile(x, 0.5)", … */
    int64_t memory_bytes, batch_rows;
    int threads;  /* that share the groups; also of sorts */
    bool sorted;  /* rows come sorted by the keys (else an error): groups are given as they end, in constant memory */
    bool in_plan; /* messages have the words of a plan: words.h */
    /* Or NULL: gets the groups' states, section by section, in batches of ctr_group_state_schema, before the end of the
     * results is told, then NULL. */
    int (*save)(void *ctx, int section, const struct ctr_batch *b, struct ctr_err *err);
    void *save_ctx;
};
struct ctr_group_stats {
    int64_t rows, groups, runs, spilled_bytes;
};
int ctr_group_new(struct ctr_group **g, const struct ctr_schema *schema, const struct ctr_group_opts *o,
                  struct ctr_err *err) CTR_MUST;
const struct ctr_schema *ctr_group_schema(const struct ctr_group *g);
/* With opts.save: the states of an earlier run, before the first batch: its rows go on from them, as if they had been
 * given before. They stay in memory. */
int ctr_group_state_sections(const struct ctr_group *g);
const struct ctr_schema *ctr_group_state_schema(const struct ctr_group *g, int section);
int ctr_group_state_check(const struct ctr_group *g, int section, const struct ctr_schema *of,
                          struct ctr_err *err) CTR_MUST;
int ctr_group_restore(struct ctr_group *g, int section, const struct ctr_batch *b, struct ctr_err *err) CTR_MUST;
/* The input columns it needs, ascending: project batches to these. */
const int *ctr_group_inputs(const struct ctr_group *g, int *n);
int ctr_group_batch(struct ctr_group *g, const struct ctr_batch *b, struct ctr_err *err) CTR_MUST;
int ctr_group_finish(struct ctr_group *g, struct ctr_err *err) CTR_MUST;
int ctr_group_next(struct ctr_group *g, const struct ctr_batch **b, struct ctr_err *err) CTR_MUST; /* 1, 0: end, < 0 */
void ctr_group_get_stats(const struct ctr_group *g, struct ctr_group_stats *st);
void ctr_group_free(struct ctr_group *g);
/* Replace *s by its groups. *stage is valid for ctr_group_get_stats until *s is closed. */
int ctr_group_source(struct ctr_batch_source *s, const struct ctr_group_opts *o, struct ctr_group **stage,
                     struct ctr_err *err) CTR_MUST;

/* Replace *s by its rows, in their order, with the columns of o->add (groupeach.c). time NULL: of all rows of the
 * group; else a column in whose order rows come: of those with an earlier time, and no aggregate that needs values in
 * order. A row with a null key gets nulls, as in a join; one without earlier rows what an aggregate is of no rows. */
int ctr_group_each_source(struct ctr_batch_source *s, const struct ctr_group_opts *o, const char *time,
                          struct ctr_err *err) CTR_MUST;

/* ---- join: join.c ---- */

enum ctr_join_kind { CTR_JOIN_LEFT, CTR_JOIN_INNER, CTR_JOIN_ANTI };
enum ctr_join_how {
    CTR_JOIN_HASH,   /* right in memory, or both sides in partitions on disk */
    CTR_JOIN_MERGE,  /* both sides sorted by the keys */
    CTR_JOIN_BY_ROW, /* row i joins row i */
};
enum ctr_join_time { CTR_JOIN_NO_TIME, CTR_JOIN_AS_OF, CTR_JOIN_NEXT };
/* NEXT: a right row may match several left rows, those since the right row before it. ONCE: the last of them in time
 * (of equal times the last in order) keeps it, or the first; the others have no match. */
enum ctr_join_once { CTR_JOIN_EACH, CTR_JOIN_ONCE_LAST, CTR_JOIN_ONCE_FIRST };

struct ctr_join_opts {
    const char
        *keys; /* "a,b=c": a with a, left b with right c; NULL: none (BY_ROW, or a single group for a time join) */
    enum ctr_join_kind kind;
    enum ctr_join_how how;
    bool multi; /* all right rows of a key, in order; otherwise a repeated right key is an error, except for ANTI */
    enum ctr_join_time at;
    const char
        *time; /* "TIME" or "TIME=TIME2": AS_OF takes the last right row strictly before, NEXT the first at or after */
    bool inclusive; /* AS_OF: also a right row of the same time */
    enum ctr_join_once once;
    int64_t within_ms;   /* NEXT, AS_OF: maximum distance; < 0: any */
    const char *prefix;  /* prefix of the right side's column names, or NULL */
    const char *columns; /* right columns: "a,b", NULL: all but the keys */
    int64_t memory_bytes;
    int64_t batch_rows;
    int threads;  /* 2 or more: threads look up shares of a batch's rows */
    bool in_plan; /* messages have the words of a plan: words.h */
};
struct ctr_join_stats {
    int64_t left_rows, matched, unmatched; /* left rows */
    int64_t right_rows, right_unmatched;   /* not BY_ROW; valid after ctr_join_finish */
    int64_t out_rows;
    int64_t given_up;                  /* ONCE: left rows whose match another left row kept; they count as unmatched */
    int64_t partitions, spilled_bytes; /* 0: the right side fits in memory */
};

struct ctr_join;
/* The join takes over *right, even if it fails, and projects it to the needed columns; a HASH join reads all of it
 * here. `right_name` is its name in messages. A right column keeps its role if no left column has that role (feature,
 * dense and image: always); otherwise it passes without role. */
int ctr_join_new(struct ctr_join **j, const struct ctr_schema *left, struct ctr_batch_source *right,
                 const char *right_name, const struct ctr_join_opts *o, struct ctr_err *err) CTR_MUST;
/* Replace *s by a stage that joins its rows with j. It frees j, which must have been made for *s's schema. */
int ctr_join_source(struct ctr_batch_source *s, struct ctr_join *j, struct ctr_err *err) CTR_MUST;
const struct ctr_schema *ctr_join_schema(const struct ctr_join *j);
/* Give a left batch (it must stay valid), take results until ctr_join_next returns 0, then give the next. After
 * ctr_join_finish (no more left rows), take results again. */
int ctr_join_batch(struct ctr_join *j, const struct ctr_batch *b, struct ctr_err *err) CTR_MUST;
int ctr_join_finish(struct ctr_join *j, struct ctr_err *err) CTR_MUST;
int ctr_join_next(struct ctr_join *j, const struct ctr_batch **b,
                  struct ctr_err *err) CTR_MUST; /* 1, 0: more input, < 0 */
void ctr_join_get_stats(const struct ctr_join *j, struct ctr_join_stats *st);
/* The keys of the first row of a side, with their types: "user (int64) 7"; "" if there was none. */
const char *ctr_join_first(const struct ctr_join *j, bool right);
/* After a join without any match: why, if the first keys of both sides tell: "; …"; else "". Valid until free. */
const char *ctr_join_suspect(struct ctr_join *j);
/* What a new join takes of memory_bytes: all, if the right side exceeds it. */
int64_t ctr_join_memory(const struct ctr_join *j);
void ctr_join_free(struct ctr_join *j);

#endif
