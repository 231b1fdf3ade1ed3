/* SPDX-License-Identifier: Apache-2.0
 *
 * export: batches to text (csv, tsv, jsonl, libsvm, libffm, vw) and npy. A format is one const struct in one file and
 * one row of the table in export.c.
 *
 *     ctr_export_open(&e, ctr_export_find("csv"), schema, &opts, out, err)
 *     ctr_export_batch(e, b, err) …
 *     ctr_export_finish(e, err)          the caller commits `out`
 *     ctr_export_free(e)
 *
 * The bytes depend neither on the size of the batches nor on the number of threads. A value that the format cannot
 * represent is an error that names row, column and remedy; ctr_export_left_out lists columns that it cannot represent.
 */
#ifndef CTR_EXPORT_H
#define CTR_EXPORT_H

#include "common/stream/batch.h"

struct ctr_export_format;
struct ctr_export;

enum {                            /* options that only some formats support */
       CTR_EXPORT_CELLS = 1 << 0, /* no_header, delimiter, null_text, formulas */
       CTR_EXPORT_FLAT = 1 << 1,
       CTR_EXPORT_BITS = 1 << 2,
};

struct ctr_export_opts {
    bool no_header;        /* csv, tsv: no header line */
    bool flat;             /* jsonl: a name with dots is one name, not a path */
    const char *delimiter; /* csv, tsv: NULL for the format's default */
    const char *null_text; /* csv, tsv: text for null; NULL: empty */
    const char *formulas;  /* csv, tsv: texts that a spreadsheet would execute: "keep" (also NULL), "escape", "fail" */
    int bits;              /* libsvm, libffm, vw: fold keys into 2^bits indices (0: whole keys) */
    bool gzip;             /* not npy */
    int role[CTR_NROLES];  /* the column of each role, or -1 */
    int64_t total_rows;    /* if known in advance, else -1 */
    int threads;           /* at least 1 */
};
#define CTR_EXPORT_OPTS                                                                                                \
    {                                                                                                                  \
        .role = { -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1 }, .total_rows = -1, .threads = 1                         \
    }

const struct ctr_export_format *ctr_export_find(const char *name);
bool ctr_export_binary(const struct ctr_export_format *f); /* must not be written to a terminal */

/* Does the format support these options? Otherwise a usage error names the first unsupported one. */
int ctr_export_check(const struct ctr_export_format *f, const struct ctr_export_opts *o, struct ctr_err *err) CTR_MUST;
int ctr_export_open(struct ctr_export **e, const struct ctr_export_format *f, const struct ctr_schema *s,
                    const struct ctr_export_opts *opts, struct ctr_out *out, struct ctr_err *err) CTR_MUST;
int ctr_export_batch(struct ctr_export *e, const struct ctr_batch *b, struct ctr_err *err) CTR_MUST;
/* Wait until the batches so far are written; an error of that is the earliest. */
int ctr_export_await(struct ctr_export *e, struct ctr_err *err) CTR_MUST;
int ctr_export_finish(struct ctr_export *e, struct ctr_err *err) CTR_MUST;
/* Instead, of an input with the error `err`, which is returned: the rows before it are written, but an output that has
 * an end has none, so that its reader fails, too. */
int ctr_export_break_off(struct ctr_export *e, struct ctr_err *err) CTR_MUST;
void ctr_export_free(struct ctr_export *e);
int64_t ctr_export_rows(const struct ctr_export *e);
/* The columns that are not written, "a, b"; "" if all are. */
const char *ctr_export_left_out(const struct ctr_export *e);

#endif
