/* SPDX-License-Identifier: Apache-2.0
 *
 * oplayer: what the host hands to the kernel of a layer: plain data, of the same layout in C, in C++ on the host and on
 * a device. Pointers are the device's. The host fills it (common/gpu), oploop_device.h reads it.
 */
#ifndef CTR_OPLAYER_H
#define CTR_OPLAYER_H

#include "common/op/opbody.h"

enum { OPD_ARGS = 8, OPD_THREADS = 256, OPD_ROUND = 128 };

/* Types of the values of a column. */
enum opd_type {
    OPD_BOOL,
    OPD_I8,
    OPD_I16,
    OPD_I32,
    OPD_I64,
    OPD_U8,
    OPD_U16,
    OPD_U32,
    OPD_U64,
    OPD_F16,
    OPD_F32,
    OPD_F64,
    OPD_UTF8,
};

/* Lanes, as enum ctr_lane of opint.h. */
enum opd_lane { OPD_NONE, OPD_LANE_BOOL, OPD_LANE_I64, OPD_LANE_U64, OPD_LANE_F64, OPD_STR, OPD_TEXT, OPD_HASH };

/* Values, as Arrow has them. With `index` they are the entries of a dictionary, which rows refer to. */
struct opd_col {
    const void *data;
    const uint8_t *valid;   /* bitmap of the rows; NULL: all are there */
    const int32_t *offsets; /* of texts */
    const int32_t *index;   /* NULL: plain */
    const uint8_t *entry_valid;
    int64_t entries;
    int64_t type;
};

/* An argument of a call. A literal is one value of its lane, for all rows. */
struct opd_arg {
    struct opd_col col; /* scalars; of lists the items */
    int64_t lane, list, literal, literal_ok, width;
    uint64_t hash_seed; /* of OPD_HASH */
    int64_t key;        /* a hash already */
    /* lists */
    const uint8_t *valid;
    const int32_t *offsets; /* NULL: each has `width` items */
    int64_t first;          /* item 0 of the lanes below is this one of the column; of scalars: row 0 */
    void *item;             /* lane of the items, which the thread of a row fills */
    uint8_t *item_ok;
    uint8_t *item_text; /* texts of numbers, OPD_NUMBER bytes each */
};

enum { OPD_NUMBER = 24 };

/* A call, an instance of an operator. */
struct opd_call {
    int64_t rows, nargs;
    int64_t nulls; /* it sees nulls */
    int64_t bytes; /* of a value of fixed size: 1 or 8 */
    const void *param;
    void *out;
    uint8_t *ok;
    int64_t *at; /* numbers of the items of in[0], for those that order them */
    /* results of variable size: where in the pool those of each row lie, and their sizes */
    int64_t *start;
    int64_t *row_bytes; /* rows + 1: afterwards, where each row begins among the compacted bytes */
    int64_t *row_items;
    struct opd_arg arg[OPD_ARGS];
};

/* The pool: Algorithm 1. head counts what was asked for, also beyond the size. */
struct opd_pool {
    uint64_t head, size;
    uint8_t *data;
};

struct opd_layer {
    const struct opd_call *call;
    const int32_t *first;    /* of each operator's calls */
    const int32_t *variable; /* calls whose results vary in size */
    int64_t nvariable;
    struct opd_pool *pool;
    uint8_t *compact; /* see opd_place */
};

/* Where in `compact` the result of a call lies behind those of `before` bytes: bytes, then int32 ends of its items. */
struct opd_place {
    int64_t bytes, ends, next;
};
OPV_FN struct opd_place opd_place(int64_t before, int64_t bytes, int64_t items)
{
    struct opd_place p;
    p.bytes = before;
    p.ends = before + (bytes + 63) / 64 * 64;
    p.next = p.ends + (items * 4 + 63) / 64 * 64;
    return p;
}

#endif
