/* SPDX-License-Identifier: Apache-2.0
 *
 * historycore: internal to history. timefeed.c brings the rows of a log into time order; behaviours.c stores the last
 * behaviours of each user; historylists.c writes them as lists; feedback.c counts by key; sessions.c numbers sessions;
 * history.c reads the columns and answers the rows.
 */
#ifndef CTR_HISTORYCORE_H
#define CTR_HISTORYCORE_H

#include "common/rows/history.h"
#include "common/rows/relation.h"
#include "common/table/table.h"

/* t - s for s <= t; unsigned, so that it cannot overflow. */
static inline uint64_t ctr_time_age(int64_t t, int64_t s)
{
    return (uint64_t)t - (uint64_t)s;
}

/* ---- timefeed.c: batches of a log in order of time ---- */

struct ctr_timefeed {
    const char *name; /* of the log, for messages: borrowed; NULL: the events' log */
    int time;         /* column */
    enum ctr_history_input input;
    int64_t lateness_ms, memory_bytes, batch_rows;
    int threads;
    bool in_plan;
    struct ctr_schema schema; /* of the output */
    bool any, finished;
    int64_t newest;            /* latest time so far */
    const struct ctr_batch *b; /* ORDERED: given but not yet returned */
    struct ctr_sort *sort;     /* being filled (SORT), or emptied */
    bool emptying;
    struct ctr_batchbuf held, ready; /* LATE: rows that wait for possible earlier ones */
    struct ctr_buf idx, times;
    int64_t given;        /* rows before the next batch returned */
    struct ctr_batch out; /* the same with that first_row */
    int64_t spilled_bytes;
};
int ctr_timefeed_init(struct ctr_timefeed *f, const struct ctr_schema *in, struct ctr_err *err) CTR_MUST;
void ctr_timefeed_free(struct ctr_timefeed *f);
int ctr_timefeed_push(struct ctr_timefeed *f, const struct ctr_batch *b, struct ctr_err *err) CTR_MUST;
int ctr_timefeed_finish(struct ctr_timefeed *f, struct ctr_err *err) CTR_MUST;
int ctr_timefeed_next(struct ctr_timefeed *f, const struct ctr_batch **b, struct ctr_err *err) CTR_MUST; /* 1, 0, < 0 */

/* ---- behaviours.c: the last behaviours of each user ---- */

/* A behaviour is 2 + values words: its time, a bit set of null values, the values (bits of a number; number of a
 * text). */
struct ctr_past {
    uint64_t *word; /* a ring buffer of cap behaviours; of a user known by text: behind that text and its length */
    uint32_t cap, first, n;
    uint32_t next; /* 1 + number of another past: unused, the next free one; of users with equal keys, which are not
                      dropped, another of them, or itself, the last; else 0 */
};
struct ctr_behaviours {
    int values;
    int64_t last;
    uint64_t window_ms, delay_ms;
    bool in_plan;
    bool texts;                /* users are known by text */
    struct ctr_keyindex index; /* key of the user (keyvalue.h) -> 1 + number of a ctr_past */
    struct ctr_buf pasts;
    uint32_t free;      /* 1 + number of a reusable ctr_past, or 0 */
    int64_t ring_bytes; /* of all rings */
    int64_t users, dropped;
    int64_t swept_bytes; /* bytes held after the last sweep */
};
void ctr_behaviours_init(struct ctr_behaviours *u, int values, const struct ctr_history_opts *o);
void ctr_behaviours_free(struct ctr_behaviours *u);
int64_t ctr_behaviours_bytes(const struct ctr_behaviours *u);
/* Drop users whose behaviours are all too old to be listed at `now`, if there may be many of them. */
int ctr_behaviours_sweep(struct ctr_behaviours *u, int64_t now, bool must, struct ctr_err *err) CTR_MUST;
int ctr_behaviours_reserve(struct ctr_behaviours *u, int64_t rows,
                           struct ctr_err *err) CTR_MUST; /* call before a batch */
/* 1 + the number of a user's past; 0: there is none. `add`: make one, for a behaviour that is added next; 0: failed
 * with *rc. */
uint32_t ctr_behaviours_user(struct ctr_behaviours *u, const struct ctr_keyvalue *user, bool add, int *rc,
                             struct ctr_err *err);
static inline struct ctr_past *ctr_behaviours_past(const struct ctr_behaviours *u, uint32_t number)
{
    return number ? (struct ctr_past *)(void *)u->pasts.data + number - 1 : NULL;
}
/* Add a behaviour of time `now`, the latest so far; the caller writes its values. NULL: failed with *rc. Threads may
 * add to different pasts. */
uint64_t *ctr_behaviours_add(struct ctr_behaviours *u, struct ctr_past *past, int64_t now, int *rc,
                             struct ctr_err *err);
/* The behaviours known to an event: n from index `from` of the ring on, the oldest first. */
struct ctr_seen {
    struct ctr_past *past;
    uint32_t from, n;
};
struct ctr_seen ctr_behaviours_seen(const struct ctr_behaviours *u, struct ctr_past *past,
                                    int64_t t); /* past: or NULL */
/* The text of a user; how many of its behaviours, the oldest, no event from `now` on lists. */
struct ctr_str ctr_behaviours_text(const struct ctr_past *p);
uint32_t ctr_behaviours_gone(const struct ctr_behaviours *u, const struct ctr_past *p, int64_t now);
/* Prefetch for a row to come, in three steps, each of which reads what the one before has fetched: the number of its
 * user, the past, the ring. */
enum { CTR_BEHAVIOURS_STEP = 8 }; /* rows ahead, of the last step */
void ctr_behaviours_ahead(const struct ctr_behaviours *u, const struct ctr_keyvalue *user, int step);
void ctr_behaviours_ahead_past(const struct ctr_behaviours *u, uint32_t number, int step); /* the last two steps */
static inline const uint64_t *ctr_behaviour(const struct ctr_behaviours *u, const struct ctr_past *p, uint32_t i)
{
    return p->word + (size_t)((p->first + i) & (p->cap - 1)) * (size_t)(2 + u->values);
}

/* ---- historylists.c: lists of them ---- */

struct ctr_historyshare;
struct ctr_historylists {
    struct ctr_behaviours users;
    struct ctr_keyvalue_set texts; /* each text of a behaviour once */
    bool any_null;                 /* in some behaviour so far */
    bool age, oldest_first;
    const int *column; /* of the behaviours' log, `columns` of them: borrowed */
    int columns, lists;
    struct ctr_colbuf *list; /* one per column, then the age */
    struct ctr_pool *pool;   /* NULL: one thread */
    struct ctr_historyshare *share;
    int shares;
    struct ctr_buf past, start, n; /* of each row: number of its past; its items among those of the share */
    struct ctr_buf text;           /* numbers of the texts of a batch */
    bool any_text;                 /* some columns are of texts */
    uint32_t measured;             /* texts; the longest of them */
    int64_t longest;
};
/* The fields of the lists, of which there are l->lists. */
int ctr_historylists_init(struct ctr_historylists *l, const struct ctr_field *f, int threads,
                          struct ctr_err *err) CTR_MUST;
void ctr_historylists_free(struct ctr_historylists *l);
void ctr_historylists_clear(struct ctr_historylists *l); /* the lists of the last batch */
/* The lists of the next row, of time t. */
int ctr_historylists_answer(struct ctr_historylists *l, const struct ctr_seen *seen, int64_t t,
                            struct ctr_err *err) CTR_MUST;
/* Row i of a batch, of time t, is a behaviour of that user. */
int ctr_historylists_learn(struct ctr_historylists *l, struct ctr_past *past, const struct ctr_batch *b, int64_t i,
                           int64_t t, struct ctr_err *err) CTR_MUST;
/* The same for all rows of a batch, each of which is answered, then a behaviour if is[i], by the threads of the pool;
 * `beside` is one more task of theirs. *empty: rows without items are added. Returns 1; 0: texts may be so long that a
 * list takes more than most_bytes, and nothing is done but to number the texts. */
struct ctr_historyrows {
    const struct ctr_batch *b;
    const struct ctr_keyvalue *user;
    const int64_t *time;
    const bool *is;
    void (*beside)(void *ctx);
    void *ctx;
};
int ctr_historylists_rows(struct ctr_historylists *l, const struct ctr_historyrows *r, int64_t most_bytes,
                          int64_t *empty, struct ctr_err *err) CTR_MUST;

/* ---- feedback.c: impressions and clicks by key ---- */

struct ctr_counter {
    int64_t shown, known, clicks;
};
struct ctr_feedback {
    int keys; /* sets of key columns */
    uint64_t delay_ms;
    struct ctr_keyvalue_set *key; /* per set: their numbers are those of the counters */
    struct ctr_buf *counter;
    int64_t *number; /* per set: of the row being answered or added */
    struct ctr_counter all;
    struct ctr_buf row; /* rows not fully counted yet: time, click, and number of a counter per set */
    uint64_t window_ms;
    bool windowed;
    int64_t first, known,
        shown; /* indices into row: the first present, the next to become known, the next to become an impression */
    int64_t rows;
};
/* window_ms < 0: count without limit. Otherwise it must exceed delay_ms. */
int ctr_feedback_init(struct ctr_feedback *f, int keys, uint64_t delay_ms, int64_t window_ms,
                      struct ctr_err *err) CTR_MUST;
void ctr_feedback_free(struct ctr_feedback *f);
int64_t ctr_feedback_bytes(const struct ctr_feedback *f);
int ctr_feedback_reserve(struct ctr_feedback *f, int64_t rows, struct ctr_err *err) CTR_MUST; /* call before a batch */
/* What is known of the key of row `at` in a set. `add`: of a row that will be added next; room must be reserved. */
int ctr_feedback_get(struct ctr_feedback *f, int set, const struct ctr_keyvalue *key, bool add, struct ctr_counter *c,
                     struct ctr_err *err) CTR_MUST;
/* Add a row of time s, whose keys in all sets were just asked for with `add`. */
void ctr_feedback_add(struct ctr_feedback *f, int64_t s, bool click);
/* Prefetch for the rows after row i of a batch. */
void ctr_feedback_ahead(const struct ctr_feedback *f, const struct ctr_keyvalue_rows *keys, int64_t i, int64_t rows);
/* Count all rows known at t. */
void ctr_feedback_until(struct ctr_feedback *f, int64_t t);

/* ---- sessions.c: rows of a user that follow each other within a gap ---- */

struct ctr_session {                /* of a user's last row */
    int64_t time, number, position; /* from 1 */
};
struct ctr_sessions {
    bool on;
    uint64_t gap_ms;
    struct ctr_keyvalue_set users;
    struct ctr_buf last; /* struct ctr_session a user */
};
void ctr_sessions_init(struct ctr_sessions *s, int64_t gap_ms); /* 0: off */
void ctr_sessions_free(struct ctr_sessions *s);
int64_t ctr_sessions_bytes(const struct ctr_sessions *s);
/* The user's next row, of time t. */
int ctr_sessions_next(struct ctr_sessions *s, const struct ctr_keyvalue *user, int64_t t, struct ctr_session *is,
                      struct ctr_err *err) CTR_MUST;

/* ---- historystate.c: what is known at the end, for a later run ---- */

struct ctr_historystate {
    const char *what; /* options and types on which the state depends */
    struct ctr_behaviours *users;
    const enum ctr_type *type; /* of the values of behaviours */
    bool user_text;            /* users are bytes, … */
    const bool *key_text;      /* … and so are the keys of a set */
    struct ctr_keyvalue_set *texts;
    struct ctr_feedback *counts;
    struct ctr_sessions *sessions;
    bool any, any_null; /* any: there was an event, the last at last_ms */
    int64_t last_ms;
    const struct ctr_schema *past; /* of a log of behaviours, or NULL; learned: of it, until learned_ms */
    bool learned;
    int64_t learned_ms;
    int (*next_rest)(void *ctx, const struct ctr_batch **b,
                     struct ctr_err *err); /* its rows that are not: 1, 0: the end */
    int (*add_rest)(void *ctx, const struct ctr_batch *b, struct ctr_err *err); /* those that were saved */
    void *ctx;
};
int ctr_historystate_save(const struct ctr_historystate *h, struct ctr_out *out, struct ctr_err *err) CTR_MUST;
int ctr_historystate_restore(struct ctr_historystate *h, const char *path, struct ctr_err *err) CTR_MUST;

#endif
