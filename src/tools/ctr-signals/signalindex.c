/* SPDX-License-Identifier: Apache-2.0
 *
 * signalindex: changes of the index. All functions run inside a transaction of the caller. */
#include <stdio.h>
#include <stdlib.h>

#include "tools/ctr-signals/signaldb.h"
#include "common/text/text.h"

/* ---- finding ---- */

int ctr_signals_find(struct ctr_signals *s, const char *what, int64_t *signal, int64_t *version, struct ctr_err *err)
{
    const char *at = strrchr(what, '@');
    int64_t number = 0;
    char *name = NULL;
    *version = 0;
    /* A name may itself contain '@'. */
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
                             " unused_ms) SELECT ?1, 1 + last, ?2, ?3, ?4, ?5, ?6, ?6 FROM signal WHERE id = ?1",
                             "issssi", signal, role, definition, hash, inputs, s->now_ms);
    if (!rc && !version)
        rc = ctr_signals_run(s, err, "UPDATE signal SET last = last + 1 WHERE id = ?", "i", signal);
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

/* ---- consumers from JSON lines ---- */

enum { JSON_MODEL, JSON_SIGNAL, JSON_VERSION, JSON_COLUMNS };
static const char json_columns[] = "model:utf8,signal:utf8,version:int64";

struct json_consumers {
    struct ctr_signals *s;
    const char *model;
    struct ctr_strs models;
    int64_t n;
};

/* The text of a cell; *text is "" for null. A name cannot contain a zero byte, at which SQL texts end. */
static int take_name(const struct ctr_batch *b, int column, int64_t i, char **text, struct ctr_err *err)
{
    const struct ctr_col *c = &b->col[column];
    struct ctr_str str = { "", 0 };
    if (!ctr_col_missing(c, i))
        str = ctr_col_str(c, i);
    if (memchr(str.p, 0, str.n))
        return ctr_fail(err, CTR_EDATA, "row %lld: a name with a byte 0", (long long)(b->first_row + i + 1));
    return ctr_memdup(text, str.p, str.n, err);
}

static int find_consumed(struct ctr_signals *s, const struct ctr_batch *b, int64_t i, const char *name,
                         int64_t *version, struct ctr_err *err)
{
    const struct ctr_col *c = &b->col[JSON_VERSION];
    int64_t number = ctr_col_missing(c, i) ? 0 : ((const int64_t *)c->data)[i];
    int rc = ctr_signals_number(s, version, 0, err,
                                "SELECT v.id FROM version v JOIN signal g ON g.id = v.signal WHERE g.name = ?1"
                                " AND (?3 OR v.number = ?2) ORDER BY v.number DESC LIMIT 1",
                                "sii", name, number, (int64_t)ctr_col_missing(c, i));
    if (!rc && !*version) {
        char of[32] = "";
        if (!ctr_col_missing(c, i))
            snprintf(of, sizeof of, "version %lld of ", (long long)number);
        rc = ctr_fail(err, CTR_EDATA, "row %lld: there is no %ssignal '%s' in the index",
                      (long long)(b->first_row + i + 1), of, name);
    }
    return rc;
}

/* The first line of a model replaces everything that it consumed before. */
static int consume_row(struct json_consumers *j, const struct ctr_batch *b, int64_t i, struct ctr_err *err)
{
    char *signal = NULL, *own = NULL;
    int64_t version = 0;
    int rc = take_name(b, JSON_MODEL, i, &own, err);
    if (!rc)
        rc = take_name(b, JSON_SIGNAL, i, &signal, err);
    const char *model = rc ? "" : *own || !j->model ? own : j->model;
    if (!rc && !(*signal && *model))
        rc = ctr_fail(err, CTR_EDATA, "row %lld has no %s: each wants {\"model\":NAME,\"signal\":NAME,\"version\":N}",
                      (long long)(b->first_row + i + 1), *signal ? "model" : "signal");
    if (!rc)
        rc = find_consumed(j->s, b, i, signal, &version, err);
    if (!rc && ctr_strs_find(&j->models, model) < 0) {
        rc = ctr_strs_add(&j->models, model, strlen(model), err);
        if (!rc)
            rc = ctr_signals_run(j->s, err, "DELETE FROM consumer WHERE model = ?", "s", model);
    }
    if (!rc)
        rc = ctr_signals_run(j->s, err, "INSERT OR IGNORE INTO consumer (model, version, since_ms) VALUES (?, ?, ?)",
                             "sii", model, version, j->s->now_ms);
    j->n += rc ? 0 : sqlite3_changes(j->s->db);
    free(signal);
    free(own);
    return rc;
}

int ctr_signals_register_json(struct ctr_signals *s, const char *path, const char *model, int64_t *models, int64_t *n,
                              struct ctr_err *err)
{
    struct json_consumers j = { .s = s, .model = model };
    struct ctr_text_opts o = {
        .format = ctr_text_format_find("jsonl"), .columns = json_columns, .optional = true, .jobs = 1
    };
    struct ctr_import *im = NULL;
    const struct ctr_batch *b;
    char *file = NULL;
    int rc = ctr_strdup(&file, path, err);
    if (!rc)
        rc = ctr_import_open(&im, &o, &file, 1, err);
    while (!rc && (rc = ctr_import_next(im, &b, err)) > 0) {
        rc = 0;
        for (int64_t i = 0; i < b->rows && !rc; i++)
            rc = consume_row(&j, b, i, err);
    }
    if (!rc)
        rc = ctr_import_finish(im, err);
    if (!rc && !j.n)
        rc = ctr_fail(err, CTR_EDATA, "no consumers: each line wants {\"model\":NAME,\"signal\":NAME,\"version\":N}");
    if (rc)
        ctr_err_file(err, path);
    *models = j.models.n;
    *n = j.n;
    ctr_import_free(im);
    ctr_strs_free(&j.models);
    free(file);
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
