/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_memory: what a plan's extraction holds on the device, and the host's page-locked side of copies. Internal to
 * common/op.
 *
 *     areas    of the layer that runs: results, scratch memory, the pool, compacted results
 *     blocks   one for each copy to the device in a batch: arguments and columns, which later layers read there
 *     slots    results that stay on the device for later layers
 *     left     hashes of keys, and numbers, that the learner reads after the batch
 *     tables   of operators, such as vocabularies, copied once */
#ifndef CTR_GPU_MEMORY_H
#define CTR_GPU_MEMORY_H

#include "common/op/gpu_args.h"
#include "common/op/gpu_cuda.h"

struct gpu_mem {
    gpu_ptr p;
    int64_t bytes;
};
struct gpu_pinned {
    uint8_t *data;
    int64_t bytes;
};
struct gpu_slot {
    struct gpu_mem rows, data; /* presence and sizes; bytes of results of variable size */
    struct gpu_kept kept;
};

struct gpu_memory {
    struct gpu_cuda *cuda;
    struct ctr_gpu_stats *stats;
    int64_t most_bytes; /* --device-memory; 0: all of the device */
    struct gpu_mem down, scratch, pool, compact;
    struct gpu_pinned sizes, rows; /* copied from the device: first, and after compaction */
    struct gpu_block {
        struct gpu_mem at;
        struct gpu_pinned stage; /* copied to it */
    } * block;
    int nblocks, blocks_cap, next;
    struct gpu_copied {
        const void *p;
        int64_t bytes;
        uint64_t at;
    } * copied; /* buffers of columns in the blocks of this batch */
    int ncopied, copied_cap;
    struct gpu_slot *slot; /* from 1 on: slot[0] is unused */
    int nslots, slots_cap;
    struct gpu_mem *left; /* buffer `which` of batch b: which * CTR_GPU_LEFT + b */
    int nleft, left_cap;
    struct gpu_table {
        uint64_t id;
        struct gpu_mem at;
    } * table;
    int ntables, tables_cap;
    bool beside; /* copies on the second stream are under way */
};

/* Room for `bytes`, without what was there. CTR_ELARGE: more than the limit or the device has. */
int ctr_gpu_room(struct gpu_memory *m, struct gpu_mem *of, int64_t bytes, struct ctr_err *err) CTR_MUST;
/* The same in page-locked memory; keep: of the bytes that were there, those in use. */
int ctr_gpu_pinned(struct gpu_memory *m, struct gpu_pinned *of, int64_t bytes, int64_t keep,
                   struct ctr_err *err) CTR_MUST;
/* Queue copies, and count them. */
int ctr_gpu_up(struct gpu_memory *m, gpu_ptr to, const void *from, int64_t bytes, struct ctr_err *err) CTR_MUST;
int ctr_gpu_down(struct gpu_memory *m, void *to, gpu_ptr from, int64_t bytes, struct ctr_err *err) CTR_MUST;

/* A batch begins: blocks are free, and their columns forgotten. */
int ctr_gpu_memory_begin(struct gpu_memory *m, struct ctr_err *err) CTR_MUST;
/* Arguments are staged in the next block. */
struct gpu_device ctr_gpu_memory_device(struct gpu_memory *m);
int ctr_gpu_slot(struct gpu_memory *m, int slot, int64_t bytes, uint64_t *at, struct ctr_err *err) CTR_MUST;
/* Room for them in that block. */
int ctr_gpu_block(struct gpu_memory *m, int64_t bytes, gpu_ptr *block, struct ctr_err *err) CTR_MUST;
/* They are queued: later layers of the batch find the columns of *a in the block. Then comes the next one. */
int ctr_gpu_copied(struct gpu_memory *m, const struct gpu_args *a, gpu_ptr block, struct ctr_err *err) CTR_MUST;

/* Wait, then free all but what is left, tables and page-locked memory. */
void ctr_gpu_memory_release(struct gpu_memory *m);
void ctr_gpu_memory_free(struct gpu_memory *m);

#endif
