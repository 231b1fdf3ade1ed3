/* SPDX-License-Identifier: Apache-2.0
 *
 * signaldb.h: SQL statements on the index, for the files of this folder. */
#ifndef CTR_SIGNALDB_H
#define CTR_SIGNALDB_H

#include <sqlite3.h>

#include "tools/ctr-signals/signal.h"

struct ctr_signals {
    sqlite3 *db;
    char *path;
    int64_t now_ms; /* start of the transaction, or the time the index was opened */
};

/* A statement with its parameters bound by kind: 's' const char * (NULL: null), 'i' int64_t, 'd' double (NaN: null),
 * 'b' const void * and int bytes. */
int ctr_signals_prepare(struct ctr_signals *s, sqlite3_stmt **st, struct ctr_err *err, const char *sql,
                        const char *kinds, ...) CTR_MUST;
/* 1: a row; 0: no more; < 0: failed. */
int ctr_signals_step(struct ctr_signals *s, sqlite3_stmt *st, struct ctr_err *err) CTR_MUST;
/* Run to the end, ignoring rows. */
int ctr_signals_run(struct ctr_signals *s, struct ctr_err *err, const char *sql, const char *kinds, ...) CTR_MUST;
/* The first column of the first row; `none` if there is no row. */
int ctr_signals_number(struct ctr_signals *s, int64_t *out, int64_t none, struct ctr_err *err, const char *sql,
                       const char *kinds, ...) CTR_MUST;

/* The ids of NAME or NAME@N: *signal, and *version (0: all of them). */
int ctr_signals_find(struct ctr_signals *s, const char *what, int64_t *signal, int64_t *version,
                     struct ctr_err *err) CTR_MUST;
/* The version of a definition; 0: not in the index. */
int ctr_signals_version(struct ctr_signals *s, const char *name, const char *hash, int64_t *version,
                        struct ctr_err *err) CTR_MUST;

/* The rows of a query, as a table or as JSON lines. */
int ctr_signals_print(struct ctr_signals *s, sqlite3_stmt *st, const struct ctr_signals_view *v, struct ctr_out *out,
                      int64_t *rows, struct ctr_err *err) CTR_MUST;
/* The signals of a plan (NULL: none) as the temporary table planned (name, hash). */
int ctr_signals_load_plan(struct ctr_signals *s, const struct ctr_plan *p, struct ctr_err *err) CTR_MUST;

#endif
