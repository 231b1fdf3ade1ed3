/* SPDX-License-Identifier: Apache-2.0
 *
 * signal: the index of signals ("Ad Click Prediction: a View from the Trenches", section 8): what the features of all
 * plans are, their versions, which models consume them, and whether they are fit for use. It is an SQLite file;
 * signaldb.c holds the connection, signalindex.c writes, signallist.c shows. signalstream.c measures streams without
 * the database; signaljudge.c compares its measurements with earlier ones.
 *
 * A signal has a name and versions, one a definition (ctr_plan_signals). A version is new, then white-listed
 * (`allowed`) or not, perhaps deprecated for another signal. A model that was trained on a plan is a consumer of the
 * versions in it.
 *
 * Every change is one transaction: it happens whole or not at all, and writers of several processes wait for each
 * other, CTR_SIGNALS_WAIT_MS at most.
 */
#ifndef CTR_SIGNAL_H
#define CTR_SIGNAL_H

#include "common/lang/lang.h"

enum { CTR_SIGNALS_WAIT_MS = 30000 };

/* ---- the index: signaldb.c ---- */

struct ctr_signals;
enum ctr_signals_mode { CTR_SIGNALS_READ, CTR_SIGNALS_WRITE, CTR_SIGNALS_CREATE };

/* Opens the index at path. CTR_SIGNALS_CREATE makes one where there is none (or an empty file). A file that is damaged,
 * of another program or of a later version is CTR_EDATA, and stays as it is; a name that SQLite would not take for that
 * of a file is CTR_EUSAGE. */
int ctr_signals_open(struct ctr_signals **s, const char *path, enum ctr_signals_mode mode,
                     struct ctr_err *err) CTR_MUST;
void ctr_signals_free(struct ctr_signals *s); /* what was not committed has not happened */
/* Around every change. Between the two no other process writes. */
int ctr_signals_begin(struct ctr_signals *s, struct ctr_err *err) CTR_MUST;
int ctr_signals_commit(struct ctr_signals *s, struct ctr_err *err) CTR_MUST;

/* ---- changes: signalindex.c ---- */

/* What a person says of a signal; NULL leaves what is there. `platform`: a comma list; "" is every platform. */
struct ctr_signal_facts {
    const char *owner, *description, *platform;
};
struct ctr_signal_added {
    int64_t signals, versions, known; /* new signals (with a first version), new versions of old ones, nothing new */
};
/* Every signal of a plan; or one by hand, where `definition` is any text. */
int ctr_signals_add_plan(struct ctr_signals *s, const struct ctr_plan *p, const struct ctr_signal_facts *f,
                         struct ctr_signal_added *n, struct ctr_err *err) CTR_MUST;
int ctr_signals_add(struct ctr_signals *s, const char *name, const char *definition, const struct ctr_signal_facts *f,
                    struct ctr_signal_added *n, struct ctr_err *err) CTR_MUST;

/* `what` is NAME, all versions, or NAME@N. What is not there is CTR_EDATA. */
int ctr_signals_allow(struct ctr_signals *s, const char *what, bool allowed, struct ctr_err *err) CTR_MUST;
/* `by`: the signal to use instead, or NULL. */
int ctr_signals_deprecate(struct ctr_signals *s, const char *what, const char *by, struct ctr_err *err) CTR_MUST;
int ctr_signals_annotate(struct ctr_signals *s, const char *name, const char *text, struct ctr_err *err) CTR_MUST;
/* Refused while a model consumes it. */
int ctr_signals_remove(struct ctr_signals *s, const char *what, struct ctr_err *err) CTR_MUST;

/* The model becomes a consumer of the plan's signals, and of no others; *n is their number.
 * All must be in the index. */
int ctr_signals_register(struct ctr_signals *s, const char *model, const struct ctr_plan *p, int64_t *n,
                         struct ctr_err *err) CTR_MUST;
/* The same for consumers that have no plan, from JSON lines {"model":NAME,"signal":NAME,"version":N}: what `consumers`
 * prints. `model`: the name where a line has none, or NULL. Without a version the newest is consumed. */
int ctr_signals_register_json(struct ctr_signals *s, const char *path, const char *model, int64_t *models, int64_t *n,
                              struct ctr_err *err) CTR_MUST;
int ctr_signals_unregister(struct ctr_signals *s, const char *model, struct ctr_err *err) CTR_MUST;

/* ---- questions: signallist.c ---- */

enum ctr_signals_format { CTR_SIGNALS_TABLE, CTR_SIGNALS_JSONL };

/* `where`: conditions FIELD=PATTERN (a glob of * and ?), all of which must hold. Fields: signal, owner, platform (one
 * of its list; a signal of every platform matches any), state (new, allowed, deprecated). */
struct ctr_signals_view {
    enum ctr_signals_format format;
    const struct ctr_strs *where;
    int64_t older_ms; /* unused: for so long at least */
};

/* The listings, a row each: "list", "versions", "consumers", … NULL past the end. */
struct ctr_signals_list {
    const char *name, *sql;
    const char *alarm; /* NULL, or what a row of it is: there should be none */
};
const struct ctr_signals_list *ctr_signals_list_at(int i);
/* `what`: NAME or NAME@N, or NULL for all signals. Prints to `out`: a table for people, or a JSON object a line. */
int ctr_signals_show(struct ctr_signals *s, const struct ctr_signals_list *l, const char *what,
                     const struct ctr_signals_view *v, struct ctr_out *out, int64_t *rows,
                     struct ctr_err *err) CTR_MUST;

/* What stands against training on a plan: a row for each of its signals that is not in the index, not white-listed,
 * deprecated, failed its last vetting, or is not for the platform (NULL: any). *problems is their number. */
int ctr_signals_check(struct ctr_signals *s, const struct ctr_plan *p, const char *platform,
                      const struct ctr_signals_view *v, struct ctr_out *out, int64_t *problems,
                      struct ctr_err *err) CTR_MUST;

/* ---- a stream measured: signalstream.c ---- */

enum {
    CTR_STREAM_CHECK_BUCKETS = 64,
    CTR_STREAM_CHECK_CELLS = CTR_STREAM_CHECK_BUCKETS + 1 /* the last: rows without a value */
};

/* Measured of one column: rows, of which `missing` have no value (null, "(missing)", an empty list, NaN); distinct
 * values (HyperLogLog, standard error 1.6%); the progressive AUC of the click rate of the value alone (NaN: no label,
 * or one class); a histogram of values: keys by their hash, numbers by sign and power of two; and which values
 * these were, but for times, floats and what has the role dense. */
struct ctr_seen;
struct ctr_stream_check_result {
    const char *name;
    int64_t rows, missing, distinct;
    double auc;
    int64_t histogram[CTR_STREAM_CHECK_BUCKETS];
    const struct ctr_seen *seen; /* or NULL: signalseen.h */
};

struct ctr_stream_check;
/* Columns: those with the role feature, dense or image; where there is none, all of numbers, keys or text that have no
 * role. label: column, or -1. Constant memory: .8 MB a column. */
int ctr_stream_check_new(struct ctr_stream_check **v, const struct ctr_schema *s, int label,
                         struct ctr_err *err) CTR_MUST;
int ctr_stream_check_batch(struct ctr_stream_check *v, const struct ctr_batch *b, struct ctr_err *err) CTR_MUST;
int ctr_stream_check_columns(const struct ctr_stream_check *v);
void ctr_stream_check_result(const struct ctr_stream_check *v, int i,
                             struct ctr_stream_check_result *r); /* names and `seen` are borrowed */
void ctr_stream_check_free(struct ctr_stream_check *v);

/* Population stability index of two histograms of CTR_STREAM_CHECK_CELLS, half a count added to each cell; *noise is
 * what two samples of one distribution give on average, (cells - 1) (1/n + 1/m). */
double ctr_stream_check_psi(const double *now, const double *before, double *noise);

/* ---- what was measured is judged and kept: signaljudge.c ---- */

/* What a version is held against is its reference: of its own vettings that passed the last, the median of the last
 * `days`, or the pinned one. And against the pinned one in any case, for what drifts slowly. The first that passes is
 * pinned, until a person pins another or none. */
enum ctr_stream_check_reference { CTR_STREAM_CHECK_LAST, CTR_STREAM_CHECK_MEDIAN, CTR_STREAM_CHECK_PINNED };
enum { CTR_STREAM_CHECK_DAYS = 31 }; /* at most: of older ones the values that were seen are not kept */

struct ctr_stream_check_rules {
    double max_missing;        /* share of rows */
    double max_missing_change; /* of this share */
    double max_psi;
    double max_auc;
    double max_unseen; /* share of values that the reference never saw */
    enum ctr_stream_check_reference reference;
    int64_t days;
    const char *model, *stream; /* or NULL: what a stream for this model, of this name, must have */
    bool allow;                 /* white-list what passes */
};
#define CTR_STREAM_CHECK_RULES                                                                                         \
    {                                                                                                                  \
        .max_missing = .95, .max_missing_change = .1, .max_psi = .25, .max_auc = .95, .max_unseen = .5, .days = 7      \
    }

/* Compare each signal with the references of its version, that of `plan` or, NULL, the newest; keep the vetting (where
 * the version is in the index), and show it. A signal of the plan, of the model or of what was vetted under the name
 * of the stream before that is absent fails. *failed counts those that do. Inside a transaction. */
int ctr_signals_check_stream(struct ctr_signals *s, const struct ctr_stream_check *v, const struct ctr_plan *p,
                             const struct ctr_stream_check_rules *rules, const struct ctr_signals_view *view,
                             struct ctr_out *out, int64_t *failed, struct ctr_err *err) CTR_MUST;

/* `vetting`: one that passed, or 0: the last that did, of each version of `what`. */
int ctr_signals_pin(struct ctr_signals *s, const char *what, int64_t vetting, struct ctr_err *err) CTR_MUST;
int ctr_signals_unpin(struct ctr_signals *s, const char *what, struct ctr_err *err) CTR_MUST;
/* The last vetting failed, and is right all the same: it counts as passed, and is pinned. */
int ctr_signals_accept(struct ctr_signals *s, const char *what, struct ctr_err *err) CTR_MUST;

#endif
