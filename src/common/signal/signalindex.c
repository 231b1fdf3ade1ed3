/* SPDX-License-Identifier: Apache-2.0
 *
 * signalindex: what changes the index. All of it runs inside a transaction of the caller's. */
#include <stdio.h>
#include <stdlib.h>

#include "common/signal/signaldb.h"

/* ---- finding ---- */

int ctr_signals_find(struct ctr_signals *s, const char *what, int64_t *signal, int64_t *version, struct ctr_err *err)
{
    const char *at = strrchr(what, '@');
    int64_t number = 0;
    char *name = NULL;
    *version = 0;
    /* A name may hold an '@' itself. */
    int rc = ctr_signals_number(s, signal, 0, err, "SELECT id FROM signal WHERE name = ?", "s", what);
    if (rc || *signal)
        return rc;
    if (at && ctr_parse_i64(at + 1, strlen(at + 1), &number) && number > 0) {
        rc = ctr_strdup(&name, what, err);
        if (rc)
            return rc;
        name[at - what] = 0;
        rc = ctr_signals_number(s, signal, 0, err, "SELECT id FROM signal WHERE name = ?", "s", name);
        free(name);
        if (!rc && *signal)
            rc = ctr_signals_number(s, version, 0, err, "SELECT id FROM version WHERE signal = ? AND number = ?", "ii",
                                    *signal, number);
    }
    if (!rc && (!*signal || (number && !*version))) {
        ctr_err_file(err, s->path);
        return ctr_fail(err, CTR_EDATA, "no %s '%s'; `ctr-signals list` shows what there is",
                        *signal ? "version" : "signal", what);
    }
    return rc;
}

int ctr_signals_version(struct ctr_signals *s, const char *name, const char *hash, int64_t *version,
                        struct ctr_err *err)
{
    return ctr_signals_number(s, version, 0, err,
                              "SELECT v.id FROM version v JOIN signal g ON v.signal = g.id"
                              " WHERE g.name = ? AND v.hash = ?",
                              "ss", name, hash);
}

/* ---- adding ---- */

struct adding {
    struct ctr_signals *s;
    const struct ctr_signal_facts *facts;
    struct ctr_signal_added *n;
};

static int set_facts(struct ctr_signals *s, int64_t signal, const struct ctr_signal_facts *f, struct ctr_err *err)
{
    return ctr_signals_run(s, err,
                           "UPDATE signal SET owner = coalesce(?2, owner), description = coalesce(?3, description),"
                           " platform = coalesce(?4, platform) WHERE id = ?1",
                           "isss", signal, f->owner, f->description, f->platform);
}

static int add_version(struct adding *a, const char *name, const char *role, const char *definition, const char *hash,
                       const char *inputs, struct ctr_err *err)
{
    struct ctr_signals *s = a->s;
    int64_t signal, version = 0;
    int rc = ctr_signals_number(s, &signal, 0, err, "SELECT id FROM signal WHERE name = ?", "s", name);
    bool is_new = !signal;
    if (!rc && is_new) {
        rc = ctr_signals_run(s, err, "INSERT INTO signal (name, created_ms) VALUES (?, ?)", "si", name, s->now_ms);
        signal = sqlite3_last_insert_rowid(s->db);
    }
    if (!rc)
        rc = set_facts(s, signal, a->facts, err);
    if (!rc)
        rc = ctr_signals_version(s, name, hash, &version, err);
    if (!rc && !version)
        rc = ctr_signals_run(s, err,
                             "INSERT INTO version (signal, number, role, definition, hash, inputs, created_ms,"
                             " unused_ms) SELECT ?1, 1 + coalesce(max(number), 0), ?2, ?3, ?4, ?5, ?6, ?6"
                             " FROM version WHERE signal = ?1",
                             "issssi", signal, role, definition, hash, inputs, s->now_ms);
    a->n->signals += is_new;
    a->n->versions += !is_new && !version;
    a->n->known += version != 0;
    return rc;
}

static int add_signal(void *ctx, const struct ctr_plan_signal *p, struct ctr_err *err)
{
    struct ctr_buf inputs = { 0 };
    int rc = 0;
    for (int i = 0; i < p->inputs->n && !rc; i++)
        rc = ctr_buf_printf(&inputs, err, "%s%s", i ? "," : "", p->inputs->s[i]);
    if (!rc)
        rc = ctr_buf_append(&inputs, "", 1, err);
    if (!rc)
        rc = add_version(ctx, p->name, ctr_roles[p->role], p->definition, p->hash, (const char *)inputs.data, err);
    ctr_buf_free(&inputs);
    return rc;
}

int ctr_signals_add_plan(struct ctr_signals *s, const struct ctr_plan *p, const struct ctr_signal_facts *f,
                         struct ctr_signal_added *n, struct ctr_err *err)
{
    struct adding a = { s, f, n };
    return ctr_plan_signals(p, add_signal, &a, err);
}

int ctr_signals_add(struct ctr_signals *s, const char *name, const char *definition, const struct ctr_signal_facts *f,
                    struct ctr_signal_added *n, struct ctr_err *err)
{
    struct adding a = { s, f, n };
    struct ctr_hash128 h = ctr_hash128(definition, strlen(definition));
    char hash[33];
    snprintf(hash, sizeof hash, "%016llx%016llx", (unsigned long long)h.hi, (unsigned long long)h.lo);
    return add_version(&a, name, "", definition, hash, "", err);
}

/* ---- the life of a version ---- */

int ctr_signals_allow(struct ctr_signals *s, const char *what, bool allowed, struct ctr_err *err)
{
    int64_t signal, version;
    int rc = ctr_signals_find(s, what, &signal, &version, err);
    if (rc)
        return rc;
    return ctr_signals_run(s, err, "UPDATE version SET allowed = ?1 WHERE signal = ?2 AND ?3 IN (0, id)", "iii",
                           (int64_t)allowed, signal, version);
}

int ctr_signals_deprecate(struct ctr_signals *s, const char *what, const char *by, struct ctr_err *err)
{
    int64_t signal, version, other = 0, other_version = 0;
    int rc = ctr_signals_find(s, what, &signal, &version, err);
    if (!rc && by)
        rc = ctr_signals_find(s, by, &other, &other_version, err);
    if (rc)
        return rc;
    if (by && other == signal && (!version || version == other_version || !other_version))
        return ctr_fail(err, CTR_EUSAGE, "'%s' cannot take the place of '%s', of which it is a part", by, what);
    return ctr_signals_run(s, err,
                           "UPDATE version SET deprecated = 1, instead = ?1 WHERE signal = ?2 AND ?3 IN (0, id)", "sii",
                           by, signal, version);
}

int ctr_signals_annotate(struct ctr_signals *s, const char *name, const char *text, struct ctr_err *err)
{
    int64_t signal, version;
    int rc = ctr_signals_find(s, name, &signal, &version, err);
    if (rc)
        return rc;
    return ctr_signals_run(s, err, "INSERT INTO annotation (signal, at_ms, text) VALUES (?, ?, ?)", "iis", signal,
                           s->now_ms, text);
}

int ctr_signals_remove(struct ctr_signals *s, const char *what, struct ctr_err *err)
{
    int64_t signal, version, consumers;
    int rc = ctr_signals_find(s, what, &signal, &version, err);
    if (!rc)
        rc = ctr_signals_number(s, &consumers, 0, err,
                                "SELECT count(DISTINCT model) FROM consumer WHERE version IN"
                                " (SELECT id FROM version WHERE signal = ? AND ? IN (0, id))",
                                "ii", signal, version);
    if (!rc && consumers) {
        ctr_err_file(err, s->path);
        return ctr_fail(err, CTR_EDATA, "'%s' has %lld consumer%s: see `ctr-signals consumers`", what,
                        (long long)consumers, CTR_S(consumers));
    }
    if (!rc)
        rc = ctr_signals_run(s, err, "DELETE FROM version WHERE signal = ? AND ? IN (0, id)", "ii", signal, version);
    if (!rc)
        rc = ctr_signals_run(s, err, "DELETE FROM signal WHERE id = ? AND id NOT IN (SELECT signal FROM version)", "i",
                             signal);
    return rc;
}

/* ---- consumers ---- */

struct registering {
    struct ctr_signals *s;
    const char *model;
    int64_t n;
};

static int consume(void *ctx, const struct ctr_plan_signal *p, struct ctr_err *err)
{
    struct registering *r = ctx;
    int64_t version;
    int rc = ctr_signals_version(r->s, p->name, p->hash, &version, err);
    if (!rc && !version) {
        ctr_err_file(err, r->s->path);
        return ctr_fail(err, CTR_EDATA,
                        "signal '%s' of model '%s' is not in the index as it is defined there: "
                        "`ctr-signals add` its plan first",
                        p->name, r->model);
    }
    r->n++;
    return rc ? rc
              : ctr_signals_run(r->s, err, "INSERT OR IGNORE INTO consumer (model, version, since_ms) VALUES (?, ?, ?)",
                                "sii", r->model, version, r->s->now_ms);
}

static int note_unused(struct ctr_signals *s, struct ctr_err *err)
{
    int rc =
        ctr_signals_run(s, err, "UPDATE version SET unused_ms = NULL WHERE id IN (SELECT version FROM consumer)", "");
    if (!rc)
        rc = ctr_signals_run(s, err,
                             "UPDATE version SET unused_ms = ? WHERE unused_ms IS NULL"
                             " AND id NOT IN (SELECT version FROM consumer)",
                             "i", s->now_ms);
    return rc;
}

int ctr_signals_register(struct ctr_signals *s, const char *model, const struct ctr_plan *p, int64_t *n,
                         struct ctr_err *err)
{
    struct registering r = { s, model, 0 };
    int rc = ctr_signals_run(s, err, "DELETE FROM consumer WHERE model = ?", "s", model);
    if (!rc)
        rc = ctr_plan_signals(p, consume, &r, err);
    *n = r.n;
    return rc ? rc : note_unused(s, err);
}

int ctr_signals_unregister(struct ctr_signals *s, const char *model, struct ctr_err *err)
{
    int rc = ctr_signals_run(s, err, "DELETE FROM consumer WHERE model = ?", "s", model);
    if (!rc && !sqlite3_changes(s->db)) {
        ctr_err_file(err, s->path);
        return ctr_fail(err, CTR_EDATA, "no model '%s'; `ctr-signals consumers` shows them", model);
    }
    return rc ? rc : note_unused(s, err);
}
