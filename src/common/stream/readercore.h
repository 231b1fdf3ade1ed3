/* SPDX-License-Identifier: Apache-2.0
 *
 * readercore.h: internal to stream/: the reader's state, shared by reader.c and readersection.c. */
#ifndef CTR_READERCORE_H
#define CTR_READERCORE_H

#include <stdatomic.h>

#include "common/stream/arrow.h"

enum { STEP_END = 0, STEP_BATCH = 1, STEP_ON = 2 }; /* results of a step */

struct ctr_reader {
    struct ctr_reader_opts opts;
    char **paths;
    int npaths, file; /* index of the file being read */
    struct arrow_source src;
    bool src_open, ended;
    struct ctr_ipcfile ipc; /* when src.map */
    bool ipc_open;
    size_t block, dict_block; /* next */
    int64_t block_base;       /* number of blocks in the previous files */

    /* the current stream */
    struct arrow_schema arrow;
    struct arrow_leaves leaves;
    bool in_stream, sealed, trailer;
    bool old; /* the format before version 0.15 of Arrow: the size of a message is not preceded by a marker */
    struct arrow_chain chain;
    int64_t stream_rows, stream_batches, file_rows, file_batches;
    int file_streams;              /* begun in this file */
    int64_t stream_at, message_at; /* their positions in the file; -1: none yet */
    struct ctr_buf meta, scratch;
    struct arrow_message msg;
    struct ctr_buf body[2]; /* [at], like all pairs: of the current message */
    struct arrow_data data[2];
    int at;

    /* the current section, as promised to the caller */
    struct ctr_schema full, schema;
    int *columns; /* columns of `full` that form `schema` */
    struct ctr_col *cols[2];
    struct ctr_batch batch[2];
    const struct ctr_batch *whole; /* with --memory, or NULL: a batch that is handed out in parts … */
    int64_t part_at, part_rows;    /* … from here on, of so many rows */
    struct ctr_part part;
    char *section; /* name, or NULL */
    bool section_set, section_pending;
    int section_file;         /* that it began in */
    struct ctr_buf mixed;     /* opts.mixed: text of ctr_reader_mixed */
    bool passing;             /* after the section of opts.only */
    struct ctr_strs sections; /* listed in the first section */
    int section_at;

    int64_t rows;
    struct ctr_reader_stats stats, shown;
    char damage[1024];

    /* reading ahead */
    struct ctr_background *thread; /* or NULL: not yet started, or unavailable */
    bool fetching;                 /* it owns the state */
    struct ctr_reader_opts fetch_opts;
    atomic_bool idles, quit; /* it waits for input; it must end */
    int fetched;             /* its result */
    struct ctr_err fetch_err;
};

/* readersection.c. At the start of a stream, whose schema is r->arrow: does it continue the current section? STEP_ON;
 * STEP_END: it starts another. */
int ctr_reader_enter(struct ctr_reader *r, struct ctr_err *err) CTR_MUST;
/* Make the current stream the caller's section. */
int ctr_reader_adopt(struct ctr_reader *r, struct ctr_err *err) CTR_MUST;
/* The sections that the first one names, else the current one: "model, weights". */
int ctr_reader_list_sections(const struct ctr_reader *r, struct ctr_buf *list, struct ctr_err *err) CTR_MUST;

#endif
