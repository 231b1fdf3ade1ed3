/* SPDX-License-Identifier: Apache-2.0
 *
 * source: where the vectors of a network's keys live. A source turns the distinct keys of a minibatch into vectors on
 * the network's device and takes their gradients back. All layers identify keys by table and hash (ctr_key_hash of
 * the key), never by row number. Sources stack:
 *
 *     ctr_source_ram(tables)             tables of embeddings in this process; looks up each key of a minibatch once
 *     ctr_source_disk(folder, memory)    rows on disk, with a cache in this process bounded by `memory`
 *     ctr_source_cache(device, below)    keeps rows on a device from minibatch to minibatch; asks `below` for misses
 *     ctr_source_ranks(comm, below)      keys that ranks own, by hash (source_ranks.h)
 *
 * and any other struct ctr_source_ops: for example a tower that computes its vectors (tests/unit/unit-source.c has one
 * of each).
 *
 *     ctr_source_begin(s, &want, buffer, err);      announce the keys of a minibatch; repeat with keys appended
 *     ctr_source_values(s, buffer, &values, err);   [keys x width] on the device; row places(t)[i] is key i of table t
 *     ctr_source_push(s, buffer, &step, err);       one optimizer step with the gradients of these rows
 *     ctr_source_drop(s, buffer);                   release the minibatch; without push nothing is learned
 *
 * ctr_source_entries can take the place of begin and values: the device numbers the keys.
 *
 * Two minibatches may be in progress, in buffers 0 and 1: keys of the second can be announced while the first is
 * learned. Request the second's values after the push of the first, because they depend on it; a source that would
 * return older values refuses (CTR_EUSAGE).
 *
 * The same keys in the same order give the same bits through every stack of sources; sums over ranks run in the order
 * of ranks. A key without a row has the initial vector of a new row; with `make` it gets that row.
 *
 * Ownership: a source owns the one below it. Hashes are borrowed until the next begin or drop of that buffer; values
 * are valid until push, drop or the next values of that buffer. One thread at a time. After an error of push or settle
 * the source can only be freed. A call that does not return 0 fills its struct ctr_err.
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
        const uint64_t *hash; /* [n]; the hashes of the previous begin come first, unchanged */
        int64_t n;
    } * keys;
    bool make;             /* for training: keys without a row get one */
    struct ctr_pool *pool; /* its threads look up tables; NULL: the caller does */
};

/* Arguments of push: the step `opt` with the gradients of the rows of values. */
struct ctr_source_step {
    struct ctr_dev_opt opt;
    struct ctr_mat grad;    /* [keys x width] */
    struct ctr_vec l2_row;  /* f32 [keys], or none: ctr_dev_opt_rows */
    struct ctr_mat squares; /* as grad, or none: of FTRL */
    struct ctr_pool *pool;  /* as in want */
};

/* Entries of a minibatch in training whose keys are not numbered. The device numbers them (ctr_dev_slots), and the host
 * sees the keys that are new there. */
struct ctr_source_part {
    int64_t end;      /* entries so far: the next part begins there */
    const int *table; /* entry e of the part belongs to table[e % fields] */
    int fields;
};
struct ctr_source_entries {
    const uint64_t *hash;               /* NULL: on the device alone */
    const struct ctr_source_part *part; /* as many, and of the same tables, in every call */
    int parts;                          /* 0: entry e belongs to tables[e] */
    const uint16_t *tables;
    struct ctr_vec on_device; /* u64 [n]: the hashes; with tables, ctr_source_number of each */
    /* set: the row of values of each entry, and the entries of each distinct key, whose gradients are rows of the grad
     * of push, in this order; i32 [n], [n + 1], [n] */
    struct ctr_vec index, group_start, group_item;
    int64_t distinct;
};

/* Keys of one table, as passed from a source to the one below it. */
struct ctr_source_keys {
    int table;
    const uint64_t *hash;
    uint32_t *number; /* per key, set by the source's own `find` for its later calls; NULL: it sets none */
    int64_t n;
};

/* Rows in ascending order of keys: value, state, and the use count if there is one. */
typedef int ctr_source_each(void *ctx, uint64_t key, const float *row, struct ctr_err *err);

/* One const struct per kind of source. A store of rows provides fetch, put and optionally find, and uses begin, values
 * and push of source.c; other sources provide those themselves. */
struct ctr_source_ops {
    const char *name;
    bool one_at_a_time; /* find, fetch and put are called by one thread */
    bool looks_ahead;   /* begin fetches rows in the background */
    /* Locate rows and create the new ones; several threads call it, each for another table. NULL: nothing to do. */
    int (*find)(struct ctr_source *s, const struct ctr_source_keys *keys, bool make, struct ctr_err *err);
    /* Read rows, `floats` each, and write them back. Several threads call them, each for another table. put NULL: rows
     * never change. */
    int (*fetch)(struct ctr_source *s, const struct ctr_source_keys *keys, bool make, float *to, struct ctr_err *err);
    int (*put)(struct ctr_source *s, const struct ctr_source_keys *keys, const float *from, struct ctr_err *err);
    /* Add uses[i] to the use count of key i of the minibatch; total[i] gets the sum. NULL: the source counts nothing.
     */
    int (*count)(struct ctr_source *s, int buffer, const struct ctr_source_keys *keys, const int32_t *uses,
                 uint32_t *total, struct ctr_err *err);
    /* Announce the keys to lower sources; the batch already lists them. NULL: nothing to do. */
    int (*begin)(struct ctr_source *s, const struct ctr_want *want, int buffer, struct ctr_err *err);
    /* Wait until the rows of a minibatch can be fetched. NULL: they always can. */
    int (*ready)(struct ctr_source *s, int buffer, struct ctr_err *err);
    int (*values)(struct ctr_source *s, int buffer, struct ctr_mat *values, struct ctr_err *err); /* NULL: uses fetch */
    bool (*takes_entries)(struct ctr_source *s, int64_t n);                                       /* NULL: never */
    int (*entries)(struct ctr_source *s, int buffer, struct ctr_source_entries *e, struct ctr_mat *values,
                   struct ctr_err *err);
    int (*push)(struct ctr_source *s, int buffer, const struct ctr_source_step *step,
                struct ctr_err *err); /* NULL: uses put */
    void (*drop)(struct ctr_source *s, int buffer);
    int (*settle)(struct ctr_source *s, struct ctr_err *err);
    int (*changes)(struct ctr_source *s, enum ctr_changes what, struct ctr_err *err); /* NULL: none are noted */
    int (*save)(struct ctr_source *s, int table, ctr_source_each *each, void *ctx, struct ctr_err *err);
    int (*load)(struct ctr_source *s, int table, uint64_t key, const float *row, struct ctr_err *err);
    int64_t (*rows)(const struct ctr_source *s, int table); /* rows of a table; -1: of all tables */
    int64_t (*memory)(const struct ctr_source *s);          /* bytes of rows in this process; NULL: none */
    void (*summary)(const struct ctr_source *s, struct ctr_say *text);
    void (*free)(struct ctr_source *s);
};

/* Common part of all sources; each kind's struct begins with it. */
struct ctr_source {
    const struct ctr_source_ops *ops;
    struct ctr_dev *dev;      /* where values lie; borrowed */
    struct ctr_source *below; /* or NULL: has changes, rows and memory, saves and loads where ops do not */
    int32_t width, floats;    /* of a value; of a row: value | state */
    struct ctr_source_batch {
        struct ctr_source_table {
            const uint64_t *hash;
            int64_t n, old;        /* keys; keys before the last begin */
            struct ctr_buf number; /* u32 */
            struct ctr_buf places; /* i32 */
            struct ctr_err err;    /* of the task of a thread */
        } * table;
        int tables;
        int64_t n, here; /* keys; keys whose values are loaded */
        bool make;
        struct ctr_pool *pool; /* of the last begin */
        struct ctr_mem *u;     /* rows [n x floats] */
        struct ctr_buf host;   /* the same in host memory, if the device has its own memory */
    } batch[2];
};

int ctr_source_begin(struct ctr_source *s, const struct ctr_want *want, int buffer, struct ctr_err *err) CTR_MUST;
/* *values has one row per key; its stride may exceed its width. */
int ctr_source_values(struct ctr_source *s, int buffer, struct ctr_mat *values, struct ctr_err *err) CTR_MUST;
/* Do n entries take the place of begin and values in the next minibatch? Ask before there is memory for their lists on
 * the device. Then ctr_source_entries gives 1, or 0 if not this time. It may be called again for the same minibatch,
 * with entries appended. */
bool ctr_source_takes_entries(struct ctr_source *s, int64_t n);
/* One number for table and hash; hashes of one table stay distinct. */
#define CTR_SOURCE_SALT UINT64_C(0x9e3779b97f4a7c15)
static inline uint64_t ctr_source_number(int table, uint64_t hash)
{
    return ctr_mix64(hash ^ (uint64_t)table * CTR_SOURCE_SALT);
}
int ctr_source_entries(struct ctr_source *s, int buffer, struct ctr_source_entries *e, struct ctr_mat *values,
                       struct ctr_err *err) CTR_MUST;
/* For each key of table t, the index of its row in values and gradients. */
const int32_t *ctr_source_places(const struct ctr_source *s, int buffer, int t);
/* For each key of table t, the number of its row, or CTR_EMBEDDING_NONE; NULL: the source keeps no such numbers. */
const uint32_t *ctr_source_numbers(const struct ctr_source *s, int buffer, int t);
/* Add uses of a minibatch's keys of table t to their counts, between values and push: uses[i] = occurrences in this
 * minibatch; total[i] gets the count so far, including this minibatch. */
int ctr_source_count(struct ctr_source *s, int buffer, int t, const int32_t *uses, uint32_t *total,
                     struct ctr_err *err) CTR_MUST;
int ctr_source_push(struct ctr_source *s, int buffer, const struct ctr_source_step *step, struct ctr_err *err) CTR_MUST;
void ctr_source_drop(struct ctr_source *s, int buffer);
/* Write all pushed changes to the lowest store, before others read it. The source remains usable. */
int ctr_source_settle(struct ctr_source *s, struct ctr_err *err) CTR_MUST;
/* Does announcing the keys of the next minibatch early help? */
bool ctr_source_looks_ahead(const struct ctr_source *s);
/* Number of rows of a table; -1: of all tables. */
int64_t ctr_source_rows(const struct ctr_source *s, int table);
/* Bytes of its rows in this process. */
int64_t ctr_source_memory(const struct ctr_source *s);
/* What save gives from now on, for deltas: all rows, or those that changed since the last call with CTR_CHANGES_NOTE,
 * which forgets what was noted. The source is settled first. */
int ctr_source_changes(struct ctr_source *s, enum ctr_changes what, struct ctr_err *err) CTR_MUST;
/* Save: the rows of a table, after settle. Load: add a row before training starts; CTR_EDATA if the key exists.
 */
int ctr_source_save(struct ctr_source *s, int table, ctr_source_each *each, void *ctx, struct ctr_err *err) CTR_MUST;
int ctr_source_load(struct ctr_source *s, int table, uint64_t key, const float *row, struct ctr_err *err) CTR_MUST;
/* Append summary lines of all sources of the stack. */
void ctr_source_summary(const struct ctr_source *s, struct ctr_say *text);
void ctr_source_free(struct ctr_source *s);

/* Tables in this process, borrowed: table[t] may be set anew between minibatches (ctr_source_ram_bind). `floats`: of a
 * row that the optimizer changes; a table with one more float per row stores a use count (uint32_t) there. */
int ctr_source_ram(struct ctr_source **s, struct ctr_dev *dev, int32_t width, int32_t floats,
                   struct ctr_err *err) CTR_MUST;
int ctr_source_ram_bind(struct ctr_source *s, int t, struct ctr_embedding *table, struct ctr_err *err) CTR_MUST;

/* Rows in memory, and on disk, in `dir` (rowfile.h), those that do not fit. `memory` bounds the sum of the rows, the
 * index of all keys, the buffers of the disk and, on a CPU, those of the device; rows of minibatches in progress stay,
 * the least used others are evicted. A background thread reads the rows that begin does not find; values waits for it.
 * If two minibatches do not fit, the second is read when the first is dropped; if one does not fit, values fails with a
 * message. A row in memory costs a byte beside its floats, and each key 17 to 23 bytes of index.
 *
 * `first` gives the initial rows of table t (ctr_embedding_init): it is bound like a table but has no rows, and its
 * `floats` are those of a row; one more than the source's adds a use count. */
int ctr_source_disk(struct ctr_source **s, struct ctr_dev *dev, int32_t width, int32_t floats, int32_t row_floats,
                    const char *dir, int64_t memory, struct ctr_err *err) CTR_MUST;
int ctr_source_disk_bind(struct ctr_source *s, int t, const struct ctr_embedding *first, struct ctr_err *err) CTR_MUST;

/* Keeps rows of `below` in the memory of a device that has its own, so that tables may be larger than it: a
 * set-associative cache, 8 ways, least recently used. The optimizer changes rows in the cache; an evicted row is
 * written back to `below`. If all 8 ways of a set belong to this minibatch, further rows live in the minibatch's own
 * buffer. Rows that are only read bypass the cache. Results do not depend on the number or use of slots.
 *
 * The slots take at most half of the memory that is free once the buffers of the first minibatch exist, and grow with
 * the keys below. $CTR_WORKING_SET bounds their number (0: none), for tests and measurements. */
int ctr_source_cache(struct ctr_source **s, struct ctr_dev *dev, struct ctr_source *below,
                     struct ctr_err *err) CTR_MUST;

#endif
