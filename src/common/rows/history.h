/* SPDX-License-Identifier: Apache-2.0
 *
 * history: adds to each row of a time-ordered log what was known about its user and keys at that time.
 *
 *     ctr_history_new(&h, schema, past, past_name, &opts, err)
 *     ctr_history_source(&s, h, err)       s, a source of the events, becomes that of its result
 *
 * Behaviours are the rows of the events' own log, or of a second log (`past`), that satisfy `where`. A behaviour of
 * time s is known to an event of time t if t - s > delay; so behaviours of the same millisecond or later are never
 * known. A list holds the user's last `last` known behaviours with t - s <= window. It is the input of Deep Interest
 * Network (Zhou et al., KDD 2018, section 4.1) and of the user's side of "Image Matters" (Ge et al., CIKM 2018, section
 * 3). Counts are the known impressions and clicks of a key (the feedback features of "FeatureBox", Zhao et al., 2022).
 *
 * Output rows are in time order; rows of equal time keep their input order. Columns added:
 *     GROUP.COLUMN           list of the column's type; nulls stay items, so all lists of a group have equal lengths;
 *                            metadata ctr.history_of=COLUMN, ctr.history=GROUP, ctr.side=user,
 *                            ctr.order=newest or oldest
 *     GROUP.age              list<int64>: t - s in ms
 *     count.KEY.impressions  int64: rows of the behaviours' log with this key and s < t
 *     count.KEY.clicks       int64: those that satisfy `where`, with t - s > delay
 *                            (of both: with t - s <= count_window_ms)
 *     count.KEY.rate         float64: (clicks + prior * p) / (n + prior), n = rows with t - s > delay, p = the rate of
 *                            all rows with t - s > delay; null while there are none
 *     session.number         int64: of the user's sessions, from 1: a row more than session_ms behind the user's last
 * one begins the next; null for a null user session.position       int64: of the row in its session, from 1
 */
#ifndef CTR_HISTORY_H
#define CTR_HISTORY_H

#include "common/stream/stream.h"

enum ctr_history_input {
    CTR_HISTORY_ORDERED, /* both logs are in time order; an earlier row is an error */
    CTR_HISTORY_LATE,    /* a row's time may precede the latest so far by up to lateness_ms; more is an error */
    CTR_HISTORY_SORT,    /* ctr_sort first sorts both, within memory_bytes */
};

/* Default options. */
#define CTR_HISTORY_USUAL                                                                                              \
    .user = -1, .time = -1, .last = 50, .window_ms = INT64_C(14) * 24 * 3600 * 1000, .lateness_ms = -1,                \
    .count_window_ms = -1, .prior = 20
struct ctr_history;
struct ctr_history_opts {
    int user, time;                    /* columns of the events; user -1: no lists and no sessions */
    const char *where;                 /* an expression over the behaviours' log, or NULL: every row */
    const struct ctr_lookups *lookups; /* of `where` and dwell; NULL: any file; used by ctr_history_new only */
    const char *
        dwell; /* an expression in ms, or NULL: behaviours need dwell >= min_dwell_ms, and become known only after it */
    int64_t min_dwell_ms;
    const struct ctr_strs *columns; /* columns of the behaviours' log to list; "a,b" each; none: no lists */
    bool age, oldest_first;
    const char *group; /* NULL: "history" */
    int64_t last, window_ms, delay_ms;
    const struct ctr_strs *counts; /* "a,b" each: counts by a and by b; "a+b": counts by both together */
    int64_t count_window_ms;       /* count rows with t - s <= it; < 0: all; must exceed delay and min_dwell */
    double prior;                  /* weight of p in a rate, in rows */
    int64_t session_ms;            /* 0: no sessions; else the largest gap in one; those of the events */
    enum ctr_history_input input;
    int64_t lateness_ms;
    int64_t memory_bytes; /* for histories, counts and delayed rows; 0: by ctr_relation_memory */
    int64_t batch_rows;
    int threads;
    bool in_plan; /* messages have the words of a plan: words.h */
    /* Or NULL: called before the end of the result is told, for ctr_history_save. Not with a second log. */
    int (*save)(void *ctx, struct ctr_history *h, struct ctr_err *err);
    void *save_ctx;
};

struct ctr_history_stats {
    int64_t rows, behaviours;                 /* read; behaviours among them */
    int64_t empty, no_user;                   /* rows with empty lists; those of them whose user is null */
    int64_t users, dropped_users, most_bytes; /* at the end; users dropped after their window had passed */
    int64_t spilled_bytes;
};

/* `past` is borrowed and read as events arrive; NULL: the events' own log. Its user and time columns are found by the
 * same names, or by role. */
int ctr_history_new(struct ctr_history **h, const struct ctr_schema *events, const struct ctr_batch_source *past,
                    const char *past_name, const struct ctr_history_opts *o, struct ctr_err *err) CTR_MUST;
/* Replace *s by a stage that adds h's columns to its rows. It frees h, which must have been made for *s's schema. */
int ctr_history_source(struct ctr_batch_source *s, struct ctr_history *h, struct ctr_err *err) CTR_MUST;
/* What it knows, for ctr_history_restore of a later run with the same options, before its first batch, whose rows come
 * in time behind those of this one. The results of both are those of one run over all rows. */
int ctr_history_save(struct ctr_history *h, struct ctr_out *out, struct ctr_err *err) CTR_MUST;
int ctr_history_restore(struct ctr_history *h, const char *path, struct ctr_err *err) CTR_MUST;
void ctr_history_get_stats(const struct ctr_history *h, struct ctr_history_stats *st);
void ctr_history_free(struct ctr_history *h);

#endif
