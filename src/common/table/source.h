/* SPDX-License-Identifier: Apache-2.0
 *
 * source: where the vectors of a network's keys live. A source turns the distinct keys of a minibatch into vectors on
 * the network's device and takes their gradients back. Keys are known by table and hash (ctr_sparse_hash of the key)
 * all the way down, never by the number of a row. Sources stack:
 *
 *     ctr_source_ram(tables)             tables of embeddings in this process; finds each key of a minibatch once
 *     ctr_source_disk(folder, memory)    rows on disk, of which as many stay in this process as the memory holds
 *     ctr_source_cache(device, below)    rows stay on a device from minibatch to minibatch; below is asked for misses
 *     ctr_source_frozen(file)            vectors of a keyed file, such as those of images; takes no gradients
 *     ctr_source_shard(comm, below)      keys that ranks own, by hash (source_shard.h)
 *
 * and whatever else fills a struct ctr_source_ops: a tower that computes its vectors
 * (tests/unit/unit-source.c has one of each).
 *
 *     ctr_source_begin(s, &want, buffer, err);      the keys of a minibatch; again with more of them behind, piece by
 *                                                   piece
 *     ctr_source_values(s, buffer, &values, err);   [keys x width] on the device; key i of table t is row places(t)[i]
 *     ctr_source_push(s, buffer, &step, err);       an optimizer's step with the gradients of these rows
 *     ctr_source_drop(s, buffer);                   forget the minibatch; without push: nothing was learned
 *
 * Two minibatches may be under way, in buffers 0 and 1: keys of the second can be announced while the first is learned
 * from. Its values are asked for after the push of the first, because they depend on it; a source that would give older
 * ones refuses (CTR_EUSAGE).
 *
 * The same keys in the same order give the same bits through every stack of stores; a sum over shards runs in the order
 * of shards. A key that has no row has the vector that a new row would begin with; with `make` it gets that row.
 *
 * Ownership: a source owns the one below it. Hashes are borrowed until the next begin or drop of that buffer, values
 * are valid until push, drop or the next values of it. One thread at a time. After an error of push or settle the
 * source can only be freed. Every pointer to struct ctr_err is filled where a call does not return 0.
 *
 * Source: Zhao et al., "FeatureBox" (2022) and "Distributed hierarchical GPU parameter server" (MLSys 2020), section 4,
 * for the hierarchy; Ge et al., "Image Matters" (CIKM 2018), section 4, for towers as stores.
 */
#ifndef CTR_SOURCE_H
#define CTR_SOURCE_H

#include "common/compute/compute.h"
#include "common/table/embedding.h"

struct ctr_source;

/* The distinct keys of a minibatch so far, by table. */
struct ctr_want {
    int tables;
    const struct ctr_want_keys {
        const uint64_t *hash; /* [n]; those of the begin before stand first, as they were */
        int64_t n;
    } * keys;
    bool make;             /* learned from: keys without a row get one */
    struct ctr_pool *pool; /* tables are looked up by its threads; NULL: by this one */
};

/* What push does: opt, with the gradients of the rows of values. */
struct ctr_source_step {
    struct ctr_dev_opt opt;
    struct ctr_mat grad;    /* [keys x width] */
    struct ctr_vec l2_row;  /* f32 [keys], or none: ctr_dev_opt_rows */
    struct ctr_mat squares; /* as grad, or none: of FTRL */
    struct ctr_pool *pool;  /* as in want */
};

/* Keys of one table, for what a source does to rows of the one below it. */
struct ctr_source_keys {
    int table;
    const uint64_t *hash;
    uint32_t *number; /* a note of the source for each key, made by its `find`; NULL: none were made */
    int64_t n;
};

/* Rows in ascending order of keys: value, state, and the count where there is one. */
typedef int ctr_source_each(void *ctx, uint64_t key, const float *row, struct ctr_err *err);

/* One const struct a kind of source. A store of rows fills find (or not), fetch and put, and has begin, values and push
 * from source.c; others bring their own. */
struct ctr_source_ops {
    const char *name;
    bool one_at_a_time; /* find, fetch and put are called by one thread */
    bool looks_ahead;   /* begin fetches rows while the caller goes on */
    /* Note where rows are, and make those that are new; threads call it for several tables at once. NULL: nothing. */
    int (*find)(struct ctr_source *s, const struct ctr_source_keys *keys, bool make, struct ctr_err *err);
    /* Rows out, `floats` each, and back. Threads call them for several tables at once. put NULL: they never change. */
    int (*fetch)(struct ctr_source *s, const struct ctr_source_keys *keys, bool make, float *to, struct ctr_err *err);
    int (*put)(struct ctr_source *s, const struct ctr_source_keys *keys, const float *from, struct ctr_err *err);
    /* Add uses[i] to what is counted of key i; total[i]: the sum. NULL: nothing is counted. */
    int (*count)(struct ctr_source *s, const struct ctr_source_keys *keys, const int32_t *uses, uint32_t *total,
                 struct ctr_err *err);
    /* Pass the keys on; the batch lists them already. NULL: nothing. */
    int (*begin)(struct ctr_source *s, const struct ctr_want *want, int buffer, struct ctr_err *err);
    /* The rows of a minibatch are at hand, before they are fetched. NULL: they are. */
    int (*ready)(struct ctr_source *s, int buffer, struct ctr_err *err);
    int (*values)(struct ctr_source *s, int buffer, struct ctr_mat *values, struct ctr_err *err); /* NULL: by fetch */
    int (*push)(struct ctr_source *s, int buffer, const struct ctr_source_step *step,
                struct ctr_err *err); /* NULL: by put */
    void (*drop)(struct ctr_source *s, int buffer);
    int (*settle)(struct ctr_source *s, struct ctr_err *err);
    int (*save)(struct ctr_source *s, int table, ctr_source_each *each, void *ctx, struct ctr_err *err);
    int (*load)(struct ctr_source *s, int table, uint64_t key, const float *row, struct ctr_err *err);
    int64_t (*rows)(const struct ctr_source *s, int table); /* that it has; -1: of all tables */
    int64_t (*memory)(const struct ctr_source *s);          /* bytes of rows in this process; NULL: none */
    int (*summary)(const struct ctr_source *s, struct ctr_buf *text, struct ctr_err *err);
    void (*free)(struct ctr_source *s);
};

/* What all sources have; a kind of its own begins with it. */
struct ctr_source {
    const struct ctr_source_ops *ops;
    struct ctr_dev *dev;   /* where values lie; borrowed */
    int32_t width, floats; /* of a value; of a row that an optimizer changes: value | state */
    struct ctr_source_batch {
        struct ctr_source_table {
            const uint64_t *hash;
            int64_t n, old;        /* keys; before the last begin */
            struct ctr_buf number; /* u32 */
            struct ctr_buf places; /* i32 */
            struct ctr_err err;    /* of a thread's task */
        } * table;
        int tables;
        int64_t n, here; /* keys; of which values are there */
        bool make;
        struct ctr_pool *pool; /* of the last begin */
        struct ctr_mem *u;     /* rows [n x floats] */
        struct ctr_buf host;   /* the same, on its way to a device with memory of its own */
    } batch[2];
};

int ctr_source_begin(struct ctr_source *s, const struct ctr_want *want, int buffer, struct ctr_err *err) CTR_MUST;
/* *values has a row a key, its stride may be larger than its width. */
int ctr_source_values(struct ctr_source *s, int buffer, struct ctr_mat *values, struct ctr_err *err) CTR_MUST;
/* Of the keys of table t: their rows of values and gradients. */
const int32_t *ctr_source_places(const struct ctr_source *s, int buffer, int t);
/* Add to the counts of a minibatch's keys of table t, between values and push: how often each came in it; total: so
 * far, this minibatch included. */
int ctr_source_count(struct ctr_source *s, int buffer, int t, const int32_t *uses, uint32_t *total,
                     struct ctr_err *err) CTR_MUST;
int ctr_source_push(struct ctr_source *s, int buffer, const struct ctr_source_step *step, struct ctr_err *err) CTR_MUST;
void ctr_source_drop(struct ctr_source *s, int buffer);
/* What was pushed is in the lowest store: before it is read by others. The source goes on as it was. */
int ctr_source_settle(struct ctr_source *s, struct ctr_err *err) CTR_MUST;
/* Is it worth to announce the keys of the next minibatch? */
bool ctr_source_looks_ahead(const struct ctr_source *s);
/* How many rows a table has, -1: all tables. */
int64_t ctr_source_rows(const struct ctr_source *s, int table);
/* Bytes that its rows take in this process. */
int64_t ctr_source_memory(const struct ctr_source *s);
/* The rows of a table, settled first; and a row into it, before anything is learned: CTR_EDATA where the key has one.
 */
int ctr_source_save(struct ctr_source *s, int table, ctr_source_each *each, void *ctx, struct ctr_err *err) CTR_MUST;
int ctr_source_load(struct ctr_source *s, int table, uint64_t key, const float *row, struct ctr_err *err) CTR_MUST;
/* Lines for a summary, of all sources of the stack. */
int ctr_source_summary(const struct ctr_source *s, struct ctr_buf *text, struct ctr_err *err) CTR_MUST;
void ctr_source_free(struct ctr_source *s);

/* Tables in this process, borrowed: table[t] may be set anew between minibatches (ctr_source_ram_bind). `floats`: of a
 * row that the optimizer changes; where a table has one float more behind them, that is a count (uint32_t). */
int ctr_source_ram(struct ctr_source **s, struct ctr_dev *dev, int32_t width, int32_t floats,
                   struct ctr_err *err) CTR_MUST;
int ctr_source_ram_bind(struct ctr_source *s, int t, struct ctr_embedding *table, struct ctr_err *err) CTR_MUST;

/* Rows on disk, in `dir` (rowstore.h), beside a cache of rows in this process. `memory` bounds
 * what the cache and, on a CPU, the buffers of the device take together; rows of minibatches that are under
 * way stay, of the others those go that were used longest ago. Rows that begin does not find are read by a thread of
 * its own; values waits for it. Where two minibatches do not fit, the second one is read when the first is dropped;
 * where one does not, values is an error that says so.
 *
 * `first` says what the rows of table t begin with (ctr_embedding_init): it is bound as a table, has no rows, and its
 * `floats` are those of a row; one more than the source's is a count. */
int ctr_source_disk(struct ctr_source **s, struct ctr_dev *dev, int32_t width, int32_t floats, int32_t row_floats,
                    const char *dir, int64_t memory, struct ctr_err *err) CTR_MUST;
int ctr_source_disk_bind(struct ctr_source *s, int t, const struct ctr_embedding *first, struct ctr_err *err) CTR_MUST;

/* Rows of `below` that stay in the memory of a device with memory of its own, so that tables may be larger than it: a
 * set of slots, 8 ways, least recently used. The optimizer changes them where they lie; one that has to go is put back
 * below. A row that finds no slot, because all 8 of its set are in this minibatch, lives in the minibatch's own rows.
 * What is not learned from goes past the slots. No bit depends on the slots nor on their number.
 *
 * The slots take at most half of the memory that is free when the buffers of a first minibatch are there, and grow with
 * the keys below. $CTR_WORKING_SET bounds their number (0: none), for tests and measurements. */
int ctr_source_cache(struct ctr_source **s, struct ctr_dev *dev, struct ctr_source *below,
                     struct ctr_err *err) CTR_MUST;

/* Vectors of the keyed file at path: its first column of fixed_size_list<float32>[width]. Of a key that it has not got:
 * zeros; ctr_source_summary says how many these were. */
int ctr_source_frozen(struct ctr_source **s, struct ctr_dev *dev, const char *path, struct ctr_err *err) CTR_MUST;

#endif
