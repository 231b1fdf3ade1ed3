/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_args: converts calls to the kernel's input: one memory block that is copied to the device, followed by areas for
 * results and scratch memory. Internal to common/op.
 *
 * Until the device addresses are known, a pointer is an offset with its area's number (gpu_ref). Arguments that earlier
 * layers left on the device (gpu_kept), or copied there, and results that stay there, have their addresses at once. */
#ifndef CTR_GPU_ARGS_H
#define CTR_GPU_ARGS_H

#include "common/op/gpu.h"
#include "common/op/oplayer.h"

enum gpu_area { GPU_UP, GPU_DOWN, GPU_SCRATCH, GPU_ADDRESS, GPU_AREAS };

/* A result that stays on the device; addresses are of device memory. */
struct gpu_kept {
    int64_t rows, items; /* rows of the loop; items of its lists */
    enum ctr_loop_kind kind;
    bool lift;           /* its rows are the items of a list whose shape the host has */
    enum ctr_type type;  /* of the values, for lists: of the items */
    int64_t width;       /* bytes of a value of fixed size */
    uint64_t ok, out;    /* presence: a byte per row; values of fixed size */
    uint64_t at, item;   /* else where each row begins: bytes, items */
    uint64_t data, ends; /* bytes in row order; ends of items, after a 0 */
};

struct gpu_device {
    /* Copy a table to the device, once, which its id says; *at: its address there. */
    int (*put)(void *ctx, uint64_t id, const void *table, int64_t bytes, uint64_t *at, struct ctr_err *err);
    /* Room for the rows of a result that stays there, in a slot. */
    int (*room)(void *ctx, int slot, int64_t bytes, uint64_t *at, struct ctr_err *err);
    /* What a slot has; the caller fills it. */
    struct gpu_kept *(*kept)(void *ctx, int slot);
    /* Address of a buffer of which an earlier layer of the batch copied at least so many bytes; 0: none. */
    uint64_t (*copied)(void *ctx, const void *p, int64_t bytes);
    /* Page-locked memory of at least *bytes, which becomes its size, with what *p has. */
    int (*stage)(void *ctx, uint8_t **p, int64_t *bytes, struct ctr_err *err);
    void *ctx;
};

struct gpu_args {
    const struct gpu_device *device;
    struct gpu_stage { /* copied to the device */
        uint8_t *data;
        int64_t len, cap;
    } up;
    int64_t size[GPU_AREAS]; /* bytes of each area; GPU_UP: at most, with what ctr_gpu_args_place appends */
    struct opd_call *call;   /* n of them, pointers as refs */
    struct gpu_call {
        const struct ctr_gpu_call *from;
        struct ctr_op_device d;
        struct ctr_colbuf plain[OPD_ARGS]; /* decoded lists */
        int64_t rows;                      /* of the loop: of items, if lifted */
        int group;
        int64_t rows_at, data_at; /* where the host has it: rows of a kept result, bytes of a variable one */
        int64_t rows_bytes;       /* kept and read by the host: bytes of its rows */
        uint64_t param[CTR_OP_DEVICE_PARAM];
    } * info;
    int n;
    int *order; /* calls by group: position -> index of the call */
    const struct ctr_op_device **loop;
    int nloops;
    struct opd_first *first;
    int32_t *variable;
    int nvariable;
    struct ctr_buf fixes; /* int64_t: offsets of refs in `up` */
    struct gpu_seen {
        const void *p;
        int64_t bytes, at;
        bool passing; /* the layer owns it: later layers must not look for it */
    } * seen;         /* buffers already copied */
    int nseen, seen_cap;
    bool passing;                                                         /* of the buffers that are copied next */
    int64_t calls_at, first_at, tiles_at, variable_at, pool_at, place_at; /* in up */
    void *total, *sum; /* of opd_layer; in GPU_DOWN, in GPU_SCRATCH */
    int64_t found_at;  /* in up: struct opd_found of the calls with one, in the order of `call` */
    int nfound;
    int64_t tiles; /* of opd_layer */
};

/* table: the operators in the kernel, independent of the calls. */
int ctr_gpu_args(struct gpu_args *a, const struct ctr_gpu_call *call, int n, const struct ctr_op_device *table,
                 int ntable, const struct gpu_device *device, struct ctr_err *err) CTR_MUST;
/* The buffers of a column, as those of arguments; nothing of an encoded list. */
int ctr_gpu_args_column(struct gpu_args *a, const struct ctr_col *c, const struct ctr_vtype *type,
                        const struct gpu_device *device, struct ctr_err *err) CTR_MUST;
/* Fill *d with what a device needs of a call. Returns NULL, or why a device cannot run it. */
const char *ctr_gpu_describe(const struct ctr_gpu_call *c, uint64_t param[CTR_OP_DEVICE_PARAM],
                             struct ctr_op_device *d);
/* Replace refs by addresses, and append calls, first, variable, pool and place to `up`. */
int ctr_gpu_args_place(struct gpu_args *a, const uint64_t base[GPU_AREAS], struct ctr_err *err) CTR_MUST;
void ctr_gpu_args_free(struct gpu_args *a);
static inline int64_t ctr_gpu_at(const void *ref)
{
    return (int64_t)((uintptr_t)ref / GPU_AREAS);
}

#endif
