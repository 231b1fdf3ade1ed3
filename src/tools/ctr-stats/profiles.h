/* SPDX-License-Identifier: Apache-2.0
 *
 * profiles.h: profiles of the columns of a stream, for all rows or for each slice of them: a value of one column, or a
 * window of time. Slices appear in the order of their first rows and are shown sorted. */
#ifndef CTR_PROFILES_H
#define CTR_PROFILES_H

#include "common/stream/stream.h"
#include "tools/ctr-stats/profile.h"

enum { CTR_PROFILES_SLICES = 4096 };

struct ctr_slice {
    char *by; /* canonical text; NULL: null, or not by a column */
    int64_t by_n, window_ms;
    bool absent; /* of no rows, in no window: a reference has it */
    struct ctr_profile *column;
};

struct ctr_profiles {
    struct ctr_schema schema; /* of the columns */
    char *by;                 /* names of columns, or NULL */
    char *label;
    int64_t window_ms; /* 0: none */
    struct ctr_slice *slice;
    int n, cap;
    /* of rows */
    struct ctr_index index;
    int by_column, label_column, time_column;
    struct ctr_batchbuf gathered;
    struct ctr_buf number, order, text, labels, clicks, some;
    struct ctr_pool *pool;
    struct ctr_feed **feed; /* of each thread */
};

/* Profiles of the rows of a stream; columns by index, -1: none. The pool is borrowed. */
int ctr_profiles_new(struct ctr_profiles **out, const struct ctr_schema *s, int label, int by, int time,
                     int64_t window_ms, struct ctr_pool *pool, struct ctr_err *err) CTR_MUST;
int ctr_profiles_batch(struct ctr_profiles *p, const struct ctr_batch *b, struct ctr_err *err) CTR_MUST;
/* The columns of a slice of no rows. */
int ctr_profiles_slice_init(struct ctr_slice *s, const struct ctr_schema *schema, const char *label,
                            struct ctr_err *err) CTR_MUST;
void ctr_profiles_slice_free(struct ctr_slice *s, int columns);
/* The slice of this value and window; made if there is none. */
int ctr_profiles_slice(struct ctr_profiles *p, const char *by, int64_t by_n, int64_t window_ms, int *number,
                       struct ctr_err *err) CTR_MUST;
int ctr_profiles_merge(struct ctr_profiles *p, const struct ctr_profiles *other, struct ctr_err *err) CTR_MUST;
void ctr_profiles_sort(struct ctr_profiles *p); /* slices by value, null last, then by window; ends adding */
void ctr_profiles_free(struct ctr_profiles *p);

/* ---- files: profilefile.c ---- */

#define CTR_META_PROFILE "ctr.profile" /* schema: version of the format of profiles */
/* A profile is a stream; equal profiles have equal rows. */
int ctr_profile_file_schema(const struct ctr_profiles *p, struct ctr_schema *s, struct ctr_err *err) CTR_MUST;
int ctr_profile_file_write(const struct ctr_profiles *p, const struct ctr_schema *s, struct ctr_writer *w,
                           struct ctr_err *err) CTR_MUST;
bool ctr_is_profile(const struct ctr_schema *s);
/* Read one stream of a profile, and add it to *out, which it makes if it is NULL. */
int ctr_profile_file_read(struct ctr_profiles **out, struct ctr_reader *r, struct ctr_err *err) CTR_MUST;

#endif
