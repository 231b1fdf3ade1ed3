/* SPDX-License-Identifier: Apache-2.0
 *
 * signal: the index of signals ("Ad Click Prediction: a View from the Trenches", section 8): the features of all plans,
 * their versions, the models that consume them, and whether they are fit for use. It is an SQLite file; signaldb.c
 * holds the connection, signalindex.c writes, signallist.c shows. signalstream.c measures streams without the database;
 * signaljudge.c compares the results with earlier ones.
 *
 * A signal has a name and versions, one per definition (ctr_plan_signals). A version starts as new, then is
 * white-listed (`allowed`) or not, and may be deprecated in favour of another signal. A model trained on a plan is a
 * consumer of the versions in it.
 *
 * Every change is one transaction, atomic; writers in several processes wait for each other, at most
 * CTR_SIGNALS_WAIT_MS.
 */
#ifndef CTR_SIGNAL_H
#define CTR_SIGNAL_H

#include "common/plan/plan.h"

enum { CTR_SIGNALS_WAIT_MS = 30000 };

/* ---- the index: signaldb.c ---- */

struct ctr_signals;
enum ctr_signals_mode { CTR_SIGNALS_READ, CTR_SIGNALS_WRITE, CTR_SIGNALS_CREATE };

/* Opens the index at path. CTR_SIGNALS_CREATE creates a missing (or empty) file. A file that is damaged, of another
 * program or of a later version is CTR_EDATA and is not changed; a name that SQLite would not treat as a file name is
 * CTR_EUSAGE. path NULL: an index in memory, which vanishes with it. */
int ctr_signals_open(struct ctr_signals **s, const char *path, enum ctr_signals_mode mode,
                     struct ctr_err *err) CTR_MUST;
void ctr_signals_free(struct ctr_signals *s); /* discards uncommitted changes */
/* Enclose every change. In between no other process writes. */
int ctr_signals_begin(struct ctr_signals *s, struct ctr_err *err) CTR_MUST;
int ctr_signals_commit(struct ctr_signals *s, struct ctr_err *err) CTR_MUST;

/* ---- changes: signalindex.c ---- */

/* Facts entered by a person; NULL keeps the existing value. `platform`: a comma list; "" is every platform. */
struct ctr_signal_facts {
    const char *owner, *description, *platform;
};
struct ctr_signal_added {
    int64_t signals, versions,
        known; /* new signals (with their first version), new versions of existing ones, unchanged ones */
};
/* Add every signal of a plan; or one by hand, with any text as `definition`. */
int ctr_signals_add_plan(struct ctr_signals *s, const struct ctr_plan *p, const struct ctr_signal_facts *f,
                         struct ctr_signal_added *n, struct ctr_err *err) CTR_MUST;
int ctr_signals_add(struct ctr_signals *s, const char *name, const char *definition, const struct ctr_signal_facts *f,
                    struct ctr_signal_added *n, struct ctr_err *err) CTR_MUST;

/* `what` is NAME (all versions) or NAME@N. An unknown one is CTR_EDATA. */
int ctr_signals_allow(struct ctr_signals *s, const char *what, bool allowed, struct ctr_err *err) CTR_MUST;
/* `by`: the replacement signal, or NULL. */
int ctr_signals_deprecate(struct ctr_signals *s, const char *what, const char *by, struct ctr_err *err) CTR_MUST;
int ctr_signals_annotate(struct ctr_signals *s, const char *name, const char *text, struct ctr_err *err) CTR_MUST;
/* Refused while a model consumes it. */
int ctr_signals_remove(struct ctr_signals *s, const char *what, struct ctr_err *err) CTR_MUST;

/* Make the model a consumer of exactly the plan's signals; *n is their number. All must be in the index. */
int ctr_signals_register(struct ctr_signals *s, const char *model, const struct ctr_plan *p, int64_t *n,
                         struct ctr_err *err) CTR_MUST;
/* The same for consumers without a plan, from JSON lines {"model":NAME,"signal":NAME,"version":N}, the output of
 * `consumers`. `model`: the name for lines without one, or NULL. Without a version the newest is consumed. */
int ctr_signals_register_json(struct ctr_signals *s, const char *path, const char *model, int64_t *models, int64_t *n,
                              struct ctr_err *err) CTR_MUST;
int ctr_signals_unregister(struct ctr_signals *s, const char *model, struct ctr_err *err) CTR_MUST;

/* ---- questions: signallist.c ---- */

enum ctr_signals_format { CTR_SIGNALS_TABLE, CTR_SIGNALS_JSONL };

/* `where`: conditions FIELD=PATTERN (a glob with * and ?); all must match. Fields: signal, owner, platform (any of its
 * list; a signal for every platform matches any), state (new, allowed, deprecated). */
struct ctr_signals_view {
    enum ctr_signals_format format;
    const struct ctr_strs *where;
    int64_t older_ms; /* minimum time without use */
};

/* The listings, one row each: "list", "versions", "consumers", … NULL past the end. */
struct ctr_signals_list {
    const char *name, *sql;
    const char *alarm; /* NULL, or a noun for its rows, of which there should be none */
};
const struct ctr_signals_list *ctr_signals_list_at(int i);
/* `what`: NAME or NAME@N, or NULL for all signals. Prints to `out`: a table for people, or one JSON object per line. */
int ctr_signals_show(struct ctr_signals *s, const struct ctr_signals_list *l, const char *what,
                     const struct ctr_signals_view *v, struct ctr_out *out, int64_t *rows,
                     struct ctr_err *err) CTR_MUST;

/* Objections to training on a plan: one row for each of its signals that is not in the index, not white-listed,
 * deprecated, failed its last vetting, or is not for the platform (NULL: any). *problems is their number. */
int ctr_signals_check(struct ctr_signals *s, const struct ctr_plan *p, const char *platform,
                      const struct ctr_signals_view *v, struct ctr_out *out, int64_t *problems,
                      struct ctr_err *err) CTR_MUST;

/* ---- a stream measured: signalstream.c ---- */

enum {
    CTR_STREAM_CHECK_BUCKETS = 64,
    CTR_STREAM_CHECK_CELLS = CTR_STREAM_CHECK_BUCKETS + 1 /* the last: rows without a value */
};

/* Measurements of one column: rows, of which `missing` have no value (null, "(missing)", an empty list, NaN); distinct
 * values (HyperLogLog, standard error 1.6%); the progressive AUC of the click rate by value (NaN: no label, or one
 * class); a histogram of values: keys by hash, numbers by sign and power of two; and the set of values, except for
 * times, floats and columns with role dense. */
struct ctr_seen;
struct ctr_stream_check_result {
    const char *name;
    int64_t rows, missing, distinct;
    double auc;
    int64_t histogram[CTR_STREAM_CHECK_BUCKETS];
    const struct ctr_seen *seen; /* or NULL: signalseen.h */
};

struct ctr_stream_check;
/* Columns: those with role feature, dense or image; if there are none, all columns of numbers, keys or text without a
 * role. label: column, or -1. Memory is constant: .8 MB per column. */
int ctr_stream_check_new(struct ctr_stream_check **v, const struct ctr_schema *s, int label,
                         struct ctr_err *err) CTR_MUST;
int ctr_stream_check_batch(struct ctr_stream_check *v, const struct ctr_batch *b, struct ctr_err *err) CTR_MUST;
int ctr_stream_check_columns(const struct ctr_stream_check *v);
void ctr_stream_check_result(const struct ctr_stream_check *v, int i,
                             struct ctr_stream_check_result *r); /* names and `seen` are borrowed */
void ctr_stream_check_free(struct ctr_stream_check *v);

/* Population stability index of two histograms of CTR_STREAM_CHECK_CELLS, with half a count added to each cell; *noise
 * is the mean for two samples of one distribution, (cells - 1) (1/n + 1/m). */
double ctr_stream_check_psi(const double *now, const double *before, double *noise);

/* ---- what was measured is judged and kept: signaljudge.c ---- */

/* A version is compared with its reference: the last of its vettings that passed, the median of those in the last
 * `days`, or the pinned one. It is always compared with the pinned one, too, to detect slow drift. The first vetting
 * that passes is pinned, until a person pins another or none. */
enum ctr_stream_check_reference { CTR_STREAM_CHECK_LAST, CTR_STREAM_CHECK_MEDIAN, CTR_STREAM_CHECK_PINNED };
enum { CTR_STREAM_CHECK_DAYS = 31 }; /* maximum: seen values of older vettings are deleted */

struct ctr_stream_check_rules {
    double max_missing;        /* share of rows */
    double max_missing_change; /* of this share */
    double max_psi;
    double max_auc;
    double max_unseen; /* share of values unknown to the reference */
    enum ctr_stream_check_reference reference;
    int64_t days;
    const char *model, *stream; /* or NULL: the signals that a stream for this model, or of this name, must have */
    bool allow;                 /* white-list versions that pass */
    const char *called;         /* or NULL: the reference, in verdicts */
};
#define CTR_STREAM_CHECK_RULES                                                                                         \
    {                                                                                                                  \
        .max_missing = .95, .max_missing_change = .1, .max_psi = .25, .max_auc = .95, .max_unseen = .5, .days = 7      \
    }

/* Compare each signal with the references of its version (that of `plan` or, if NULL, the newest); store the vetting
 * (if the version is in the index), and print it. A missing signal fails, if it belongs to the plan or the model, or
 * was vetted before under the stream's name. *failed counts failures. Call it inside a transaction. */
int ctr_signals_check_stream(struct ctr_signals *s, const struct ctr_stream_check *v, const struct ctr_plan *p,
                             const struct ctr_stream_check_rules *rules, const struct ctr_signals_view *view,
                             struct ctr_out *out, int64_t *failed, struct ctr_err *err) CTR_MUST;

/* `vetting`: a passed one, or 0: the last passed one, of each version of `what`. */
int ctr_signals_pin(struct ctr_signals *s, const char *what, int64_t vetting, struct ctr_err *err) CTR_MUST;
int ctr_signals_unpin(struct ctr_signals *s, const char *what, struct ctr_err *err) CTR_MUST;
/* Accept the last vetting although it failed: it counts as passed, and is pinned. */
int ctr_signals_accept(struct ctr_signals *s, const char *what, struct ctr_err *err) CTR_MUST;

#endif
