/* SPDX-License-Identifier: Apache-2.0
 *
 * signal: the index of signals ("Ad Click Prediction: a View from the Trenches", section 8): what the features of all
 * plans are, their versions, who consumes them, and whether they are fit for use. It is an SQLite file; signaldb.c
 * alone knows SQL's connection, signalindex.c what is written, signallist.c what is shown. signalvet.c measures streams
 * and knows no database.
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

#include "common/feature/feature.h"

enum { CTR_SIGNALS_WAIT_MS = 30000 };

/* ---- the index: signaldb.c ---- */

struct ctr_signals;
enum ctr_signals_mode { CTR_SIGNALS_READ, CTR_SIGNALS_WRITE, CTR_SIGNALS_CREATE };

/* Opens the index at path. CTR_SIGNALS_CREATE makes one where there is none (or an empty file). A file that is damaged,
 * of another program or of another version is CTR_EDATA, and stays as it is. */
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
};
const struct ctr_signals_list *ctr_signals_list_at(int i);
/* `what`: NAME or NAME@N, or NULL for all signals. Prints to `out`: a table for people, or a JSON object a line. */
int ctr_signals_show(struct ctr_signals *s, const struct ctr_signals_list *l, const char *what,
                     const struct ctr_signals_view *v, struct ctr_out *out, struct ctr_err *err) CTR_MUST;

/* What stands against training on a plan: a row for each of its signals that is not in the index, not white-listed,
 * deprecated, or not for the platform (NULL: any). *problems is their number. */
int ctr_signals_check(struct ctr_signals *s, const struct ctr_plan *p, const char *platform,
                      const struct ctr_signals_view *v, struct ctr_out *out, int64_t *problems,
                      struct ctr_err *err) CTR_MUST;

/* ---- automatic checks on a stream: signalvet.c ---- */

enum { CTR_VET_BUCKETS = 64 };

struct ctr_vet_limits {
    double max_missing, max_psi, max_auc;
};
#define CTR_VET_LIMITS                                                                                                 \
    {                                                                                                                  \
        .max_missing = .95, .max_psi = .25, .max_auc = .95                                                             \
    }

/* Measured of one column: rows, of which `missing` have no value (null, "(missing)", an empty list, NaN); distinct
 * values (HyperLogLog, standard error 1.6%); the progressive AUC of the click rate of the value alone (NaN: no label,
 * or one class); and a histogram of values: keys by their hash, numbers by sign and power of two. */
struct ctr_vet_result {
    const char *name;
    int64_t rows, missing, distinct;
    double auc;
    int64_t histogram[CTR_VET_BUCKETS];
};

struct ctr_vet;
/* Columns: those with the role feature, dense or image; where there is none, all of numbers, keys or text that have no
 * role. label: column, or -1. Constant memory: half a megabyte a column. */
int ctr_vet_new(struct ctr_vet **v, const struct ctr_schema *s, int label, struct ctr_err *err) CTR_MUST;
int ctr_vet_batch(struct ctr_vet *v, const struct ctr_batch *b, struct ctr_err *err) CTR_MUST;
int ctr_vet_columns(const struct ctr_vet *v);
void ctr_vet_result(const struct ctr_vet *v, int i, struct ctr_vet_result *r); /* names are borrowed */
void ctr_vet_free(struct ctr_vet *v);

/* Population stability index of two histograms, half a count added to each bucket; *noise is what two samples of one
 * distribution give on average, (buckets - 1) (1/n + 1/m). */
double ctr_vet_psi(const int64_t *now, const int64_t *before, double *noise);

/* Compare with the last vetting of the signal, keep this one (where the signal is in the index: the version of `plan`,
 * or, NULL, the newest), and show them. With `allow` those that pass are white-listed. *failed counts those that do
 * not. Inside a transaction. */
int ctr_signals_vet(struct ctr_signals *s, const struct ctr_vet *v, const struct ctr_plan *p,
                    const struct ctr_vet_limits *limits, bool allow, const struct ctr_signals_view *view,
                    struct ctr_out *out, int64_t *failed, struct ctr_err *err) CTR_MUST;

#endif
