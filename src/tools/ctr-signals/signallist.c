/* SPDX-License-Identifier: Apache-2.0
 *
 * signallist: queries of the index: listings and the check before training. Each is a single query; one function prints
 * the rows of any query, as a table or as JSON lines. */
#include <stdlib.h>

#include "tools/ctr-signals/signaldb.h"

/* ---- printing ---- */

/* Write invalid UTF-8 as \ufffd. */
static int put_json(struct ctr_buf *b, const char *p, size_t n, struct ctr_err *err)
{
    bool valid = ctr_utf8_valid((const uint8_t *)p, n);
    int rc = ctr_buf_append(b, "\"", 1, err);
    for (size_t i = 0; i < n && !rc; i++) {
        unsigned char c = (unsigned char)p[i];
        if (c == '"' || c == '\\')
            rc = ctr_buf_printf(b, err, "\\%c", c);
        else if (c < 32)
            rc = ctr_buf_printf(b, err, "\\u%04x", c);
        else
            rc = c > 127 && !valid ? ctr_buf_append(b, "\\ufffd", 6, err) : ctr_buf_append(b, &c, 1, err);
    }
    return rc ? rc : ctr_buf_append(b, "\"", 1, err);
}

/* Write a cell of the current row: null as json null and "-", numbers so that they read back exactly. */
static int put_cell(struct ctr_buf *b, sqlite3_stmt *st, int i, bool json, struct ctr_err *err)
{
    char text[CTR_NUM_MAX];
    switch (sqlite3_column_type(st, i)) {
    case SQLITE_NULL: return ctr_buf_printf(b, err, json ? "null" : "-");
    case SQLITE_INTEGER: return ctr_buf_append(b, text, ctr_fmt_i64(text, sqlite3_column_int64(st, i)), err);
    case SQLITE_FLOAT:
        return json ? ctr_buf_append(b, text, ctr_fmt_f64(text, sqlite3_column_double(st, i)), err)
                    : ctr_buf_printf(b, err, "%.4f", sqlite3_column_double(st, i));
    }
    const char *p = (const char *)sqlite3_column_text(st, i);
    size_t n = (size_t)sqlite3_column_bytes(st, i);
    if (!p)
        return ctr_fail_nomem(err, n);
    return json ? put_json(b, p, n, err) : ctr_buf_quote(b, n ? p : "-", n ? n : 1, err);
}

static int print_json(struct ctr_signals *s, sqlite3_stmt *st, struct ctr_out *out, int64_t *rows, struct ctr_err *err)
{
    struct ctr_buf b = { 0 };
    int rc, columns = sqlite3_column_count(st);
    while ((rc = ctr_signals_step(s, st, err)) > 0) {
        ctr_buf_clear(&b);
        rc = 0;
        for (int i = 0; i < columns && !rc; i++) {
            rc = ctr_buf_printf(&b, err, "%s\"%s\":", i ? "," : "{", sqlite3_column_name(st, i));
            if (!rc)
                rc = put_cell(&b, st, i, true, err);
        }
        if (!rc)
            rc = ctr_buf_append(&b, "}\n", 2, err);
        if (!rc)
            rc = ctr_out_write(out, b.data, b.len, err);
        if (rc)
            break;
        ++*rows;
    }
    ctr_buf_free(&b);
    return rc;
}

/* Screen columns: bytes that are not UTF-8 continuation bytes. */
static int width(const char *s)
{
    int n = 0;
    for (; *s; s++)
        n += (*s & 0xc0) != 0x80;
    return n;
}

static int print_cells(const struct ctr_strs *cells, int columns, struct ctr_out *out, struct ctr_err *err)
{
    int *wide = calloc((size_t)columns, sizeof *wide), rc = 0;
    if (!wide)
        return ctr_fail_nomem(err, (size_t)columns * sizeof *wide);
    for (int i = 0; i < cells->n; i++)
        wide[i % columns] = CTR_MAX(wide[i % columns], width(cells->s[i]));
    for (int i = 0; i < cells->n && !rc; i++) {
        bool last = i % columns == columns - 1;
        int gap = last ? 0 : wide[i % columns] - width(cells->s[i]) + 2;
        rc = ctr_out_printf(out, err, "%s%*s%s", cells->s[i], gap, "", last ? "\n" : "");
    }
    free(wide);
    return rc;
}

static int print_table(struct ctr_signals *s, sqlite3_stmt *st, struct ctr_out *out, int64_t *rows, struct ctr_err *err)
{
    struct ctr_strs cells = { 0 };
    struct ctr_buf b = { 0 };
    int rc = 0, columns = sqlite3_column_count(st);
    for (int i = 0; i < columns && !rc; i++)
        rc = ctr_strs_add(&cells, sqlite3_column_name(st, i), strlen(sqlite3_column_name(st, i)), err);
    while (!rc && (rc = ctr_signals_step(s, st, err)) > 0) {
        rc = 0;
        for (int i = 0; i < columns && !rc; i++) {
            ctr_buf_clear(&b);
            rc = put_cell(&b, st, i, false, err);
            if (!rc)
                rc = ctr_strs_add(&cells, (const char *)b.data, b.len, err);
        }
        ++*rows;
    }
    if (!rc && *rows)
        rc = print_cells(&cells, columns, out, err);
    ctr_strs_free(&cells);
    ctr_buf_free(&b);
    return rc;
}

int ctr_signals_print(struct ctr_signals *s, sqlite3_stmt *st, const struct ctr_signals_view *v, struct ctr_out *out,
                      int64_t *rows, struct ctr_err *err)
{
    *rows = 0;
    return v->format == CTR_SIGNALS_JSONL ? print_json(s, st, out, rows, err) : print_table(s, st, out, rows, err);
}

/* ---- listings ---- */

/* Every version with its signal; `f` is what --where keeps. */
#define VERSIONS                                                                                                       \
    "WITH v AS (SELECT g.id AS gid, v.id AS vid, g.name AS signal, v.number AS version,"                               \
    " CASE WHEN v.deprecated THEN 'deprecated' WHEN v.allowed THEN 'allowed' ELSE 'new' END AS state,"                 \
    " g.owner, g.platform, g.description, v.role, v.definition, v.hash, v.inputs, v.instead, v.allowed, v.deprecated," \
    " v.created_ms, v.unused_ms, v.pinned, max(v.number) OVER (PARTITION BY g.id) AS newest_number,"                   \
    " (SELECT count(*) FROM consumer c WHERE c.version = v.id) AS consumers"                                           \
    " FROM version v JOIN signal g ON v.signal = g.id), f AS (SELECT * FROM v WHERE ?1 IN (0, gid) AND ?2 IN (0, vid)"
#define TIME(ms) "strftime('%Y-%m-%dT%H:%M:%SZ', " #ms " / 1000, 'unixepoch')"
/* The failure of a version's last vetting, null if it passed or there is none. */
#define LAST_FAILED(version)                                                                                           \
    "(SELECT 'vetting: ' || verdict FROM vetting t WHERE NOT passed AND t.id ="                                        \
    " (SELECT max(u.id) FROM vetting u WHERE u.version = " version "))"

static const struct ctr_signals_list lists[] = {
    { "list", "SELECT signal, version, state, owner, platform, consumers, description FROM f WHERE version = "
              "newest_number OR ?2"
              " ORDER BY signal" },
    { "versions", "SELECT signal, version, state, role, consumers, hash, definition FROM f ORDER BY signal, version" },
    { "consumers", "SELECT model, f.signal, f.version, newest_number AS newest, state, " TIME(
                       since_ms) " AS since FROM f JOIN consumer ON"
                                 " consumer.version = f.vid ORDER BY model, f.signal, f.version" },
    { "alerts",
      "SELECT model, signal, f.version, CASE WHEN f.deprecated THEN 'deprecated' || coalesce(': use ' || instead, '')"
      " WHEN NOT allowed THEN 'not white-listed' ELSE failed END AS alert"
      " FROM (SELECT *, " LAST_FAILED("vid") " AS failed FROM f) f JOIN consumer ON consumer.version = f.vid"
                                             " WHERE f.deprecated OR NOT allowed OR failed IS NOT NULL"
                                             " ORDER BY model, signal, f.version",
      "alert" },
    { "unused",
      "SELECT signal, version, state, owner, " TIME(
          unused_ms) " AS unused_since FROM f"
                     " WHERE unused_ms IS NOT NULL AND ?3 - unused_ms >= ?4 ORDER BY unused_ms, signal, version" },
    { "notes",
      "SELECT f.signal, " TIME(at_ms) " AS time, text FROM f JOIN annotation ON annotation.signal = f.gid"
                                      " WHERE version = newest_number OR ?2 ORDER BY f.signal, annotation.id" },
    { "vettings",
      "SELECT t.id AS vetting, f.signal, f.version, " TIME(
          at_ms) " AS time, CASE WHEN f.pinned = t.id THEN"
                 " 'pinned' WHEN passed THEN 'passed' ELSE 'failed' END AS result, rows, missing, \"distinct\", psi,"
                 " auc, psi_pinned, unseen, verdict FROM f JOIN vetting t ON t.version = f.vid ORDER BY t.id" },
};

const struct ctr_signals_list *ctr_signals_list_at(int i)
{
    return i < (int)CTR_COUNT(lists) ? &lists[i] : NULL;
}

/* The fields of --where, and the conditions with the parameter ?N. */
static const struct {
    const char *field, *condition;
} conditions[] = {
    { "signal", " AND signal GLOB ?%d" },
    { "owner", " AND owner GLOB ?%d" },
    { "platform", " AND (platform = '' OR ',' || platform || ',' GLOB '*,' || ?%d || ',*')" },
    { "state", " AND state GLOB ?%d" },
};
enum { FIRST_CONDITION = 5 };

/* Find the condition for FIELD=PATTERN; *pattern points after the '='. */
static int find_condition(const char *text, const char **pattern, struct ctr_err *err)
{
    const char *equals = strchr(text, '=');
    for (int i = 0; equals && i < (int)CTR_COUNT(conditions); i++)
        if (!strncmp(text, conditions[i].field, (size_t)(equals - text)) && !conditions[i].field[equals - text]) {
            *pattern = equals + 1;
            return i;
        }
    return ctr_fail(err, CTR_EUSAGE, "--where %s: wants FIELD=PATTERN, where FIELD is signal, owner, platform or state",
                    text);
}

/* SQLite's GLOB also has [a-z], unlike our patterns: escape '[' as [[]. */
static int bind_pattern(sqlite3_stmt *st, int parameter, const char *pattern, struct ctr_err *err)
{
    struct ctr_buf b = { 0 };
    int rc = 0;
    for (; *pattern && !rc; pattern++)
        rc = *pattern == '[' ? ctr_buf_append(&b, "[[]", 3, err) : ctr_buf_append(&b, pattern, 1, err);
    if (!rc && sqlite3_bind_text(st, parameter, (const char *)b.data, (int)b.len, SQLITE_TRANSIENT) != SQLITE_OK)
        rc = ctr_fail_nomem(err, b.len);
    ctr_buf_free(&b);
    return rc;
}

static int prepare_list(struct ctr_signals *s, const struct ctr_signals_list *l, int64_t signal, int64_t version,
                        const struct ctr_signals_view *v, sqlite3_stmt **st, struct ctr_err *err)
{
    struct ctr_buf sql = { 0 };
    const char *pattern;
    int rc = ctr_buf_printf(&sql, err, "%s", VERSIONS);
    for (int i = 0; i < v->where->n && !rc; i++) {
        int c = find_condition(v->where->s[i], &pattern, err);
        rc = c < 0 ? c : ctr_buf_printf(&sql, err, conditions[c].condition, FIRST_CONDITION + i);
    }
    if (!rc)
        rc = ctr_buf_printf(&sql, err, ") %s", l->sql);
    if (!rc)
        rc = ctr_buf_append(&sql, "", 1, err);
    if (!rc)
        rc = ctr_signals_prepare(s, st, err, (const char *)sql.data, "ii", signal, version);
    int parameters = rc ? 0 : sqlite3_bind_parameter_count(*st);
    if (parameters > 2)
        sqlite3_bind_int64(*st, 3, s->now_ms);
    if (parameters > 3)
        sqlite3_bind_int64(*st, 4, v->older_ms);
    for (int i = 0; i < v->where->n && !rc; i++) {
        rc = find_condition(v->where->s[i], &pattern, err);
        rc = rc < 0 ? rc : bind_pattern(*st, FIRST_CONDITION + i, pattern, err);
    }
    ctr_buf_free(&sql);
    return rc;
}

int ctr_signals_show(struct ctr_signals *s, const struct ctr_signals_list *l, const char *what,
                     const struct ctr_signals_view *v, struct ctr_out *out, int64_t *rows, struct ctr_err *err)
{
    int64_t signal = 0, version = 0;
    sqlite3_stmt *st = NULL;
    int rc = what ? ctr_signals_find(s, what, &signal, &version, err) : 0;
    if (!rc)
        rc = prepare_list(s, l, signal, version, v, &st, err);
    if (!rc)
        rc = ctr_signals_print(s, st, v, out, rows, err);
    sqlite3_finalize(st);
    return rc;
}

/* ---- the check before training ---- */

static int plan_signal(void *ctx, const struct ctr_plan_signal *p, struct ctr_err *err)
{
    return ctr_signals_run(ctx, err, "INSERT INTO planned (name, hash) VALUES (?, ?)", "ss", p->name, p->hash);
}

/* The signals of a plan as the temporary table `planned`. */
int ctr_signals_load_plan(struct ctr_signals *s, const struct ctr_plan *p, struct ctr_err *err)
{
    int rc = ctr_signals_run(s, err, "DROP TABLE IF EXISTS temp.planned", "");
    if (!rc)
        rc = ctr_signals_run(s, err, "CREATE TEMP TABLE planned (name TEXT, hash TEXT)", "");
    return rc || !p ? rc : ctr_plan_signals(p, plan_signal, s, err);
}

int ctr_signals_check(struct ctr_signals *s, const struct ctr_plan *p, const char *platform,
                      const struct ctr_signals_view *v, struct ctr_out *out, int64_t *problems, struct ctr_err *err)
{
    sqlite3_stmt *st = NULL;
    int rc = ctr_signals_load_plan(s, p, err);
    if (!rc)
        rc = ctr_signals_prepare(s, &st, err,
                                 "SELECT * FROM (SELECT p.name AS signal, v.number AS version, CASE"
                                 " WHEN g.id IS NULL THEN 'not in the index'"
                                 " WHEN v.id IS NULL THEN 'defined otherwise than in any version'"
                                 " WHEN v.deprecated THEN 'deprecated' || coalesce(': use ' || v.instead, '')"
                                 " WHEN NOT v.allowed THEN 'not white-listed'"
                                 " WHEN " LAST_FAILED("v.id") " IS NOT NULL THEN " LAST_FAILED(
                                     "v.id") " WHEN ?1 IS NOT NULL AND g.platform <> '' AND instr(',' || g.platform || "
                                             "',', ',' || ?1 || ',') = 0"
                                             " THEN 'not for platform ' || ?1 END AS problem FROM planned p LEFT JOIN "
                                             "signal g ON g.name = p.name"
                                             " LEFT JOIN version v ON v.signal = g.id AND v.hash = p.hash ORDER BY "
                                             "p.rowid) WHERE problem IS NOT NULL",
                                 "s", platform);
    if (!rc)
        rc = ctr_signals_print(s, st, v, out, problems, err);
    sqlite3_finalize(st);
    return rc;
}
