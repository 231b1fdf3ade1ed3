/* SPDX-License-Identifier: Apache-2.0
 *
 * oplayer: the data that the host passes to the kernel of a layer: plain data with the same layout in C, in C++ on the
 * host and on a device. Pointers are device pointers. The host fills it (common/op), loop_device.h reads it.
 */
#ifndef CTR_OPLAYER_H
#define CTR_OPLAYER_H

#include "common/op/body.h"

enum { OPD_ARGS = 8, OPD_THREADS = 256, OPD_ROUND = 128, OPD_TILE = 1024 };

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
    OPD_BYTE, /* a bool of a byte: a result that stayed on the device */
};

/* Lanes, as enum ctr_lane of opint.h. */
enum opd_lane { OPD_NONE, OPD_LANE_BOOL, OPD_LANE_I64, OPD_LANE_U64, OPD_LANE_F64, OPD_STR, OPD_TEXT, OPD_HASH };

/* Values, as in Arrow, or a result that stayed on the device. With `index` they are the entries of a dictionary. */
struct opd_col {
    const void *data;
    const uint8_t *valid;   /* bitmap of the rows; NULL: all present */
    const int32_t *offsets; /* of texts */
    const int64_t *at;      /* the same of a result; or NULL */
    const int32_t *index;   /* NULL: plain */
    const uint8_t *entry_valid;
    const uint8_t *ok, *entry_ok; /* instead of the bitmaps, of a result: a byte per row; or NULL */
    int64_t entries;
    int64_t type;
};

/* How a value becomes that of the lane: by one load of a known type, or as the type of the column says. A key, and
 * OPD_LANE_U64, is taken as it is. */
enum opd_reads {
    OPD_BY_TYPE,
    OPD_READS_I32,
    OPD_READS_I64,
    OPD_READS_F32,
    OPD_READS_F64,
    OPD_READS_TEXT,
    OPD_READS_RESULT, /* a text of `at` */
    OPD_READS_KEY
};

/* An argument of a call. A literal is a single value of its lane, for all rows. */
struct opd_arg {
    struct opd_col col; /* for scalars; for lists, their items */
    int64_t lane, list, literal, literal_ok, width;
    uint64_t hash_seed, hash_secret; /* of OPD_HASH; opv_hash_8_secret of it */
    int64_t key;                     /* already a hash */
    int64_t reads;
    /* The same, if the value of a row lies at its place: no literal, no dictionary; else OPD_BY_TYPE. Then row r is
     * present if byte r >> by of `present` (NULL: all are) has bit r & low. */
    int64_t plain;
    const uint8_t *present;
    int32_t by, low;
    /* lists */
    const uint8_t *valid, *ok; /* as those of a column */
    const int32_t *offsets;    /* both NULL: each has `width` items */
    const int64_t *at;         /* the same of a result */
    int64_t first;             /* item of the column that is item 0 of the lanes below; for scalars: row 0 */
    void *item;                /* lane of the items; the thread of a row fills it */
    uint8_t *item_ok;
    uint8_t *item_text; /* texts of numbers, OPD_NUMBER bytes each */
};

enum { OPD_NUMBER = 24 };

/* What a call has found in its values, where another's kernels read them. The host clears it. */
struct opd_found {
    uint32_t unfit;     /* there is a value that those cannot take: a number that is not finite, a null in a list */
    uint32_t low, high; /* numbers: the extremes of some rows, in loop_dense.h's order; 0: none is present */
};

/* A call, an instance of an operator. */
struct opd_call {
    int64_t rows, nargs;
    int64_t nulls;  /* it handles nulls */
    int64_t bytes;  /* per value of fixed size: 1 or 8, or of a vector */
    int64_t vector; /* results are vectors, which the operator writes itself */
    const void *param;
    void *out;
    uint8_t *ok;
    int64_t *at; /* numbers of the items of in[0], for operators that order them */
    /* for results of variable size: position and size of each row's part in the pool */
    int64_t *start;
    int64_t *row_bytes; /* rows + 1: in the end, where each row begins in the compacted bytes */
    int64_t *row_items;
    struct opd_found *found; /* or NULL */
    struct opd_arg arg[OPD_ARGS];
};

/* The pool: Algorithm 1. head counts all requests, even beyond the size. */
struct opd_pool {
    uint64_t head, size;
    uint8_t *data;
};

/* Of an operator: its first call, and the first tile of its calls. */
struct opd_first {
    int32_t call, tile;
};
/* Rows at * OPD_TILE and on, at most OPD_TILE of them, of a call with results of fixed size. */
struct opd_tile {
    int32_t call, at;
};

struct opd_layer {
    const struct opd_call *call;
    const struct opd_first *first; /* of each operator, and the ends of the last */
    const struct opd_tile *tile;   /* those of all calls, in their order */
    const int32_t *variable;       /* calls with results of variable size */
    int64_t nvariable, tiles;      /* runs of OPD_TILE rows of the longest of these */
    int64_t *sum;                  /* by call, tile: bytes, items */
    struct opd_pool *pool;
    int64_t *total;                /* of each of these: bytes, items */
    const struct opd_place *place; /* and where its compacted result goes */
};

/* ends[-1] is 0; NULL: the items have no ends. */
struct opd_place {
    uint8_t *bytes;
    int32_t *ends;
};

#endif
