/* SPDX-License-Identifier: Apache-2.0
 *
 * signaljudge: compares the check of a stream with its references. Invariant: a reference is one or more checks of the
 * same version that passed, or that a person accepted; failed checks are never used. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/ctr-signals/signaldb.h"
#include "tools/ctr-signals/signalseen.h"

/* ---- references ---- */

struct reference {
    int checks; /* 0: none */
    int64_t id; /* of the last of them */
    bool pinned;
    const char *called; /* or NULL */
    double cell[CTR_STREAM_CHECK_CELLS];
    double rows, missing;
    struct ctr_seen_set seen;
};

/* One vetting of a reference. */
struct day {
    double rows, missing, cell[CTR_STREAM_CHECK_CELLS];
};

/* A signal whose last three vettings passed, with 100, 120 and 90 rows and 10, 10 and 30% missing, is vetted anew with
 * --reference median --days 3 and 45% missing:
 *
 *     find_reference    `near`: rows 100, missing 10%, a histogram of the median shares; `pinned`: the vetting that is
 *                       pinned, by itself
 *     judge             by itself (missing, constant, AUC), then against each reference; each finding adds to `why`:
 *                       "; missing in 45.0% of rows, 10.0% in the median of 3 vettings; drifted: PSI …"
 *     keep              a row of `vetting` with the verdict; failed, so it is no reference until a person accepts it
 *
 * Limits are widened by what chance does: two standard errors of shares, and the noise of PSI of so many rows. */

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, ctr_by_f64);
    return (x[(n - 1) / 2] + x[n / 2]) / 2;
}

static void take_cells(double *cell, const int64_t *histogram, double missing_rows)
{
    for (int i = 0; i < CTR_STREAM_CHECK_BUCKETS; i++)
        cell[i] = (double)histogram[i];
    cell[CTR_STREAM_CHECK_BUCKETS] = missing_rows;
}

static int take_day(struct ctr_signals *s, sqlite3_stmt *st, struct day *d, struct reference *r, struct ctr_err *err)
{
    int64_t histogram[CTR_STREAM_CHECK_BUCKETS];
    const void *seen = sqlite3_column_blob(st, 4);
    if (sqlite3_column_bytes(st, 3) != (int)sizeof histogram) {
        ctr_err_file(err, s->path);
        return ctr_fail(err, CTR_EDATA, "damaged: the histogram of a vetting has %d bytes",
                        sqlite3_column_bytes(st, 3));
    }
    memcpy(histogram, sqlite3_column_blob(st, 3), sizeof histogram);
    d->rows = (double)sqlite3_column_int64(st, 1);
    d->missing = sqlite3_column_double(st, 2);
    take_cells(d->cell, histogram, nearbyint(d->missing * d->rows));
    r->id = r->checks++ ? r->id : sqlite3_column_int64(st, 0);
    int rc = seen ? ctr_seen_union(&r->seen, seen, (size_t)sqlite3_column_bytes(st, 4), err) : 0;
    if (rc)
        ctr_err_file(err, s->path);
    return rc;
}

/* Take the median over days of each figure; for histograms the median of the shares, and of the sizes. */
static void settle(struct reference *r, const struct day *d)
{
    double x[CTR_STREAM_CHECK_DAYS], size[CTR_STREAM_CHECK_DAYS] = { 0 };
    for (int k = 0; k < r->checks; k++)
        for (int i = 0; i < CTR_STREAM_CHECK_CELLS; i++)
            size[k] += d[k].cell[i];
    for (int i = 0; i < CTR_STREAM_CHECK_CELLS; i++) {
        for (int k = 0; k < r->checks; k++)
            x[k] = d[k].cell[i] / size[k];
        r->cell[i] = median(x, r->checks);
    }
    for (int k = 0; k < r->checks; k++)
        x[k] = d[k].rows;
    r->rows = median(x, r->checks);
    for (int k = 0; k < r->checks; k++)
        x[k] = d[k].missing;
    r->missing = median(x, r->checks);
    double mid = median(size, r->checks);
    for (int i = 0; i < CTR_STREAM_CHECK_CELLS; i++)
        r->cell[i] *= mid;
    ctr_seen_settle(&r->seen);
}

/* Load the last `days` checks of a version that passed, or the pinned one. */
static int find_reference(struct ctr_signals *s, int64_t version, bool pinned, int days, struct reference *r,
                          struct ctr_err *err)
{
    struct day *d = calloc((size_t)days, sizeof *d);
    sqlite3_stmt *st = NULL;
    r->pinned = pinned;
    if (!d)
        return ctr_fail_nomem(err, (size_t)days * sizeof *d);
    int rc = ctr_signals_prepare(s, &st, err,
                                 "SELECT id, rows, missing, histogram, seen FROM vetting WHERE version = ?1 AND passed"
                                 " AND rows > 0 AND (NOT ?2 OR id = (SELECT pinned FROM version WHERE id = ?1))"
                                 " ORDER BY id DESC LIMIT ?3",
                                 "iii", version, (int64_t)pinned, (int64_t)days);
    while (!rc && (rc = ctr_signals_step(s, st, err)) > 0)
        rc = take_day(s, st, &d[r->checks], r, err);
    if (!rc && r->checks)
        settle(r, d);
    sqlite3_finalize(st);
    free(d);
    return rc;
}

/* ---- a judgement ---- */

struct judgement {
    const struct ctr_stream_check_rules *rules;
    const struct ctr_stream_check_result *r;
    struct reference near, pinned;
    double cell[CTR_STREAM_CHECK_CELLS], missing;
    double psi, psi_pinned, unseen; /* NaN: no reference */
    struct ctr_buf why;             /* "; this; that"; zero-terminated */
    struct ctr_say say;             /* to it */
    bool passed;
};

struct words {
    char s[64];
};

static struct words name_of(const struct reference *r)
{
    struct words w;
    if (r->called)
        snprintf(w.s, sizeof w.s, "%.60s", r->called);
    else if (r->checks > 1)
        snprintf(w.s, sizeof w.s, "the median of %d vettings", r->checks);
    else
        snprintf(w.s, sizeof w.s, "%svetting %lld", r->pinned ? "the pinned " : "", (long long)r->id);
    return w;
}

/* Compare with one reference: change of missing values, and of the distribution. */
static void judge_change(struct judgement *j, const struct reference *ref, double *psi)
{
    double noise, rows = (double)j->r->rows;
    double spread = j->missing * (1 - j->missing) / rows + ref->missing * (1 - ref->missing) / ref->rows;
    if (fabs(j->missing - ref->missing) > j->rules->max_missing_change + 2 * sqrt(spread))
        ctr_say(&j->say, "; missing in %.1f%% of rows, %.1f%% in %s", j->missing * 100, ref->missing * 100,
                name_of(ref).s);
    *psi = ctr_stream_check_psi(j->cell, ref->cell, &noise);
    if (*psi > j->rules->max_psi + noise)
        ctr_say(&j->say, "; drifted: PSI %.3f from %s", *psi, name_of(ref).s);
}

static void judge_unseen(struct judgement *j)
{
    struct ctr_unseen u;
    if (!j->r->seen || !ctr_seen_compare(j->r->seen, &j->near.seen, &u))
        return;
    j->unseen = u.share;
    if (u.share > u.expected + j->rules->max_unseen * (1 - u.expected) + u.noise)
        ctr_say(&j->say, "; never seen in %s: %.1f%% of values", name_of(&j->near).s, u.share * 100);
}

static void judge_itself(struct judgement *j)
{
    const struct ctr_stream_check_result *r = j->r;
    if (!r->rows)
        ctr_say(&j->say, "; no rows");
    if (j->missing > j->rules->max_missing)
        ctr_say(&j->say, "; missing in %.1f%% of rows", j->missing * 100);
    if (r->rows && r->distinct <= 1 && (!r->missing || r->missing == r->rows))
        ctr_say(&j->say, "; the same in all rows");
    if (r->auc > j->rules->max_auc)
        ctr_say(&j->say, "; leak? AUC %.4f alone", r->auc);
}

static int judge(struct judgement *j, struct ctr_err *err)
{
    const bool one = j->near.checks == 1 && j->near.id == j->pinned.id;
    j->missing = j->r->rows ? (double)j->r->missing / (double)j->r->rows : NAN;
    take_cells(j->cell, j->r->histogram, (double)j->r->missing);
    j->say = (struct ctr_say){ &j->why, err, 0 };
    judge_itself(j);
    if (j->r->rows && j->near.checks && !one)
        judge_change(j, &j->near, &j->psi);
    if (j->r->rows && j->pinned.checks)
        judge_change(j, &j->pinned, &j->psi_pinned);
    if (one)
        j->psi = j->psi_pinned;
    if (j->r->rows)
        judge_unseen(j);
    j->passed = !j->why.len;
    if (j->passed)
        ctr_say(&j->say, "; passed");
    ctr_say_bytes(&j->say, "", 1);
    return j->say.rc;
}

/* ---- kept ---- */

static int keep(struct ctr_signals *s, const struct judgement *j, int64_t version, const char *stream,
                struct ctr_err *err)
{
    const struct ctr_stream_check_result *r = j->r;
    struct ctr_buf seen = { 0 };
    int rc = r->seen ? ctr_seen_save(r->seen, &seen, err) : 0;
    if (!rc)
        rc = ctr_signals_run(s, err,
                             "INSERT INTO vetting (version, at_ms, rows, missing, \"distinct\", psi, auc, verdict,"
                             " histogram, passed, psi_pinned, unseen, stream, seen)"
                             " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                             "iiididdsbiddsb", version, s->now_ms, r->rows, r->rows ? j->missing : 0, r->distinct,
                             j->psi, r->auc, (const char *)j->why.data + 2, (const void *)r->histogram,
                             (int)sizeof r->histogram, (int64_t)j->passed, j->psi_pinned, j->unseen, stream,
                             (const void *)seen.data, (int)seen.len);
    ctr_buf_free(&seen);
    if (!rc && j->passed)
        rc = ctr_signals_run(s, err,
                             "UPDATE version SET pinned = coalesce(pinned, ?), allowed = allowed OR ? WHERE id = ?",
                             "iii", (int64_t)sqlite3_last_insert_rowid(s->db), (int64_t)j->rules->allow, version);
    /* The set of seen values is kept while a vetting can be a reference: the last one may still be accepted. */
    if (!rc)
        rc = ctr_signals_run(s, err,
                             "UPDATE vetting SET seen = NULL WHERE version = ?1 AND seen IS NOT NULL AND id NOT IN"
                             " (SELECT id FROM vetting WHERE version = ?1 AND passed ORDER BY id DESC LIMIT ?2)"
                             " AND id <> (SELECT max(id) FROM vetting WHERE version = ?1)"
                             " AND id <> (SELECT coalesce(pinned, 0) FROM version WHERE id = ?1)",
                             "ii", version, (int64_t)CTR_STREAM_CHECK_DAYS);
    return rc;
}

static int check_signal(struct ctr_signals *s, struct judgement *j, const char *stream, struct ctr_err *err)
{
    const struct ctr_stream_check_rules *rules = j->rules;
    const int days = rules->reference == CTR_STREAM_CHECK_MEDIAN ? (int)rules->days : 1;
    int64_t version;
    int rc = ctr_signals_number(s, &version, 0, err,
                                "SELECT v.id FROM version v JOIN signal g ON v.signal = g.id LEFT JOIN planned p"
                                " ON p.name = g.name WHERE g.name = ? AND (p.hash IS NULL OR p.hash = v.hash)"
                                " ORDER BY v.number DESC LIMIT 1",
                                "s", j->r->name);
    if (!rc && version)
        rc = find_reference(s, version, rules->reference == CTR_STREAM_CHECK_PINNED, days, &j->near, err);
    if (!rc && version)
        rc = find_reference(s, version, true, 1, &j->pinned, err);
    j->near.called = j->pinned.called = rules->called;
    if (!rc)
        rc = judge(j, err);
    if (!rc && version)
        rc = keep(s, j, version, stream, err);
    if (!rc)
        rc = ctr_signals_run(s, err, "INSERT INTO vetted VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", "siididddds",
                             j->r->name, version, j->r->rows, j->missing, j->r->distinct, j->psi, j->r->auc,
                             j->psi_pinned, j->unseen, (const char *)j->why.data + 2);
    return rc;
}

static int check_column(struct ctr_signals *s, const struct ctr_stream_check_rules *rules,
                        const struct ctr_stream_check_result *r, const char *stream, bool *passed, struct ctr_err *err)
{
    struct judgement j = { .rules = rules, .r = r, .psi = NAN, .psi_pinned = NAN, .unseen = NAN };
    int rc = check_signal(s, &j, stream, err);
    *passed = j.passed;
    ctr_seen_set_free(&j.near.seen);
    ctr_seen_set_free(&j.pinned.seen);
    ctr_buf_free(&j.why);
    return rc;
}

/* Add the signals missing from the stream: those of its plan, of a model, or vetted before under its name. */
static int add_absent(struct ctr_signals *s, const struct ctr_stream_check_rules *rules, const char *stream,
                      int64_t *absent, struct ctr_err *err)
{
    int rc = ctr_signals_run(s, err,
                             "INSERT INTO vetted SELECT name, version, 0, NULL, 0, NULL, NULL, NULL, NULL,"
                             " 'absent from the stream' FROM"
                             " (SELECT p.name, coalesce(v.id, 0) AS version FROM planned p LEFT JOIN signal g"
                             " ON g.name = p.name LEFT JOIN version v ON v.signal = g.id AND v.hash = p.hash"
                             " WHERE p.name NOT IN (SELECT name FROM vetted)"
                             " UNION SELECT g.name, v.id FROM consumer c JOIN version v ON v.id = c.version"
                             " JOIN signal g ON g.id = v.signal WHERE c.model = ?1"
                             " AND v.id NOT IN (SELECT version FROM vetted)"
                             " UNION SELECT g.name, max(v.id) FROM vetting t JOIN version v ON v.id = t.version"
                             " JOIN signal g ON g.id = v.signal WHERE t.stream = ?2 AND NOT v.deprecated"
                             " AND g.name NOT IN (SELECT name FROM vetted) GROUP BY g.name)",
                             "ss", rules->model, stream);
    *absent = rc ? 0 : sqlite3_changes(s->db);
    if (!rc)
        rc = ctr_signals_run(
            s, err,
            "INSERT INTO vetting (version, at_ms, rows, missing, \"distinct\", verdict, histogram, stream)"
            " SELECT version, ?, 0, 0, 0, verdict, zeroblob(?), ? FROM vetted"
            " WHERE version > 0 AND verdict = 'absent from the stream'",
            "iis", s->now_ms, (int64_t)(CTR_STREAM_CHECK_BUCKETS * sizeof(int64_t)), stream);
    return rc;
}

static int check_model(struct ctr_signals *s, const char *model, struct ctr_err *err)
{
    int64_t consumes;
    int rc = ctr_signals_number(s, &consumes, 0, err, "SELECT count(*) FROM consumer WHERE model = ?", "s", model);
    if (rc || consumes)
        return rc;
    ctr_err_file(err, s->path);
    return ctr_fail(err, CTR_EDATA, "no model '%s'; `ctr-signals consumers` shows them", model);
}

int ctr_signals_check_stream(struct ctr_signals *s, const struct ctr_stream_check *v, const struct ctr_plan *p,
                             const struct ctr_stream_check_rules *rules, const struct ctr_signals_view *view,
                             struct ctr_out *out, int64_t *failed, struct ctr_err *err)
{
    const char *stream = rules->stream ? rules->stream : p ? NULL : "";
    sqlite3_stmt *st = NULL;
    int64_t rows, absent = 0;
    int rc = rules->model ? check_model(s, rules->model, err) : 0;
    *failed = 0;
    if (!rc)
        rc = ctr_signals_load_plan(s, p, err);
    if (!rc)
        rc = ctr_signals_run(s, err, "DROP TABLE IF EXISTS temp.vetted", "");
    if (!rc)
        rc = ctr_signals_run(s, err,
                             "CREATE TEMP TABLE vetted (name TEXT, version INTEGER, rows INTEGER, missing REAL,"
                             " \"distinct\" INTEGER, psi REAL, auc REAL, psi_pinned REAL, unseen REAL, verdict TEXT)",
                             "");
    for (int i = 0; i < ctr_stream_check_columns(v) && !rc; i++) {
        struct ctr_stream_check_result r;
        bool passed;
        ctr_stream_check_result(v, i, &r);
        const char *signal = p ? ctr_plan_name_of(p, r.name) : NULL; /* column x.feature: x */
        r.name = signal ? signal : r.name;
        rc = check_column(s, rules, &r, stream, &passed, err);
        *failed += !passed;
    }
    if (!rc)
        rc = add_absent(s, rules, stream, &absent, err);
    *failed += absent;
    if (!rc)
        rc = ctr_signals_prepare(s, &st, err,
                                 "SELECT t.name AS signal, v.number AS version, rows, missing, \"distinct\", psi, auc,"
                                 " psi_pinned, unseen, verdict FROM vetted t LEFT JOIN version v ON v.id = t.version"
                                 " ORDER BY t.rowid",
                                 "");
    if (!rc)
        rc = ctr_signals_print(s, st, view, out, &rows, err);
    sqlite3_finalize(st);
    return rc;
}

/* ---- what a person decides ---- */

/* After an UPDATE: if it changed nothing, fail because `what` lacks the required state. */
static int changed(struct ctr_signals *s, const char *what, const char *lacks, struct ctr_err *err)
{
    if (sqlite3_changes(s->db))
        return 0;
    ctr_err_file(err, s->path);
    return ctr_fail(err, CTR_EDATA, "'%s' has no %s: see `ctr-signals vettings`", what, lacks);
}

int ctr_signals_pin(struct ctr_signals *s, const char *what, int64_t vetting, struct ctr_err *err)
{
    int64_t signal, version;
    int rc = ctr_signals_find(s, what, &signal, &version, err);
    if (!rc)
        rc = ctr_signals_run(s, err,
                             "UPDATE version SET pinned = t.id FROM (SELECT version AS of, max(id) AS id FROM vetting"
                             " WHERE passed AND rows > 0 AND ?3 IN (0, id) GROUP BY version) t"
                             " WHERE version.id = t.of AND signal = ?1 AND ?2 IN (0, version.id)",
                             "iii", signal, version, vetting);
    return rc ? rc : changed(s, what, vetting ? "such vetting that passed" : "vetting that passed", err);
}

int ctr_signals_unpin(struct ctr_signals *s, const char *what, struct ctr_err *err)
{
    int64_t signal, version;
    int rc = ctr_signals_find(s, what, &signal, &version, err);
    if (rc)
        return rc;
    return ctr_signals_run(s, err, "UPDATE version SET pinned = 0 WHERE signal = ? AND ? IN (0, id)", "ii", signal,
                           version);
}

int ctr_signals_accept(struct ctr_signals *s, const char *what, struct ctr_err *err)
{
    int64_t signal, version;
    int rc = ctr_signals_find(s, what, &signal, &version, err);
    if (!rc)
        rc = ctr_signals_run(s, err,
                             "CREATE TEMP TABLE accepted AS SELECT t.id, t.version FROM vetting t WHERE NOT passed"
                             " AND rows > 0 AND t.id IN (SELECT max(u.id) FROM vetting u JOIN version v"
                             " ON v.id = u.version WHERE v.signal = ? AND ? IN (0, v.id) GROUP BY v.id)",
                             "ii", signal, version);
    if (!rc)
        rc = ctr_signals_run(s, err,
                             "UPDATE version SET pinned = a.id FROM accepted a WHERE a.version = version.id"
                             " AND coalesce(pinned, 1)",
                             "");
    if (!rc)
        rc = ctr_signals_run(s, err,
                             "UPDATE vetting SET passed = 1, verdict = 'accepted: ' || verdict"
                             " WHERE id IN (SELECT id FROM accepted)",
                             "");
    return rc ? rc : changed(s, what, "last vetting that failed and saw rows", err);
}
