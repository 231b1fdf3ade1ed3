/* SPDX-License-Identifier: Apache-2.0
 *
 * signallist: what the index has to say: listings, the check before training, the report of a vetting. Each is one
 * query; one function prints the rows of any query, as a table or as JSON lines. */
#include <math.h>
#include <stdlib.h>

#include "common/signal/signaldb.h"

/* ---- printing ---- */

static int put_plain(struct ctr_buf *b, const char *p, size_t n, struct ctr_err *err)
{
    size_t from = b->len;
    int rc = ctr_buf_append(b, p, n, err);
    if (!rc)
        ctr_text_plain(b->data + from, n);
    return rc;
}

/* Bytes that are no UTF-8 stand as \ufffd. */
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

/* A cell of the current row: json null and "-" for null, numbers as they are read back. */
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
    return json ? put_json(b, p, n, err) : put_plain(b, n ? p : "-", n ? n : 1, err);
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

/* Characters that take a place on the screen: bytes that do not continue one. */
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

static int print(struct ctr_signals *s, sqlite3_stmt *st, const struct ctr_signals_view *v, struct ctr_out *out,
                 int64_t *rows, struct ctr_err *err)
{
    *rows = 0;
    return v->format == CTR_SIGNALS_JSONL ? print_json(s, st, out, rows, err) : print_table(s, st, out, rows, err);
}

/* ---- listings ---- */

/* Every version beside its signal; `f` is what --where leaves of it. */
#define VERSIONS                                                                                                       \
    "WITH v AS (SELECT g.id AS gid, v.id AS vid, g.name AS signal, v.number AS version,"                               \
    " CASE WHEN v.deprecated THEN 'deprecated' WHEN v.allowed THEN 'allowed' ELSE 'new' END AS state,"                 \
    " g.owner, g.platform, g.description, v.role, v.definition, v.hash, v.inputs, v.instead, v.allowed, v.deprecated," \
    " v.created_ms, v.unused_ms, v.number = max(v.number) OVER (PARTITION BY g.id) AS newest,"                         \
    " (SELECT count(*) FROM consumer c WHERE c.version = v.id) AS consumers"                                           \
    " FROM version v JOIN signal g ON v.signal = g.id), f AS (SELECT * FROM v WHERE ?1 IN (0, gid) AND ?2 IN (0, vid)"
#define TIME(ms)     "strftime('%Y-%m-%dT%H:%M:%SZ', " #ms " / 1000, 'unixepoch')"
#define LAST_VETTING "(SELECT verdict FROM vetting WHERE vetting.version = f.vid ORDER BY vetting.id DESC LIMIT 1)"

static const struct ctr_signals_list lists[] = {
    { "list", "SELECT signal, version, state, owner, platform, consumers, description FROM f WHERE newest OR ?2"
              " ORDER BY signal" },
    { "versions", "SELECT signal, version, state, role, consumers, hash, definition FROM f ORDER BY signal, version" },
    { "consumers", "SELECT model, f.signal, f.version, state, " TIME(
                       since_ms) " AS since FROM f JOIN consumer ON"
                                 " consumer.version = f.vid ORDER BY model, f.signal, f.version" },
    { "alerts",
      "SELECT model, signal, f.version, CASE WHEN f.deprecated THEN 'deprecated' || coalesce(': use ' || instead, '')"
      " WHEN NOT newest THEN 'there is a newer version' WHEN NOT allowed THEN 'not white-listed'"
      " ELSE 'vetting: ' || " LAST_VETTING " END AS alert FROM f JOIN consumer ON consumer.version = f.vid"
      " WHERE f.deprecated OR NOT newest OR NOT allowed OR " LAST_VETTING " <> 'passed'"
      " ORDER BY model, signal, f.version" },
    { "unused",
      "SELECT signal, version, state, owner, " TIME(
          unused_ms) " AS unused_since FROM f"
                     " WHERE unused_ms IS NOT NULL AND ?3 - unused_ms >= ?4 ORDER BY unused_ms, signal, version" },
    { "notes", "SELECT f.signal, " TIME(at_ms) " AS time, text FROM f JOIN annotation ON annotation.signal = f.gid"
                                               " WHERE newest OR ?2 ORDER BY f.signal, annotation.id" },
    { "vettings",
      "SELECT f.signal, f.version, " TIME(at_ms) " AS time, rows, missing, \"distinct\", psi, auc, verdict FROM f"
                                                 " JOIN vetting ON vetting.version = f.vid ORDER BY vetting.id" },
};

const struct ctr_signals_list *ctr_signals_list_at(int i)
{
    return i < (int)CTR_COUNT(lists) ? &lists[i] : NULL;
}

/* What --where may name, and the condition with the parameter ?N. */
static const struct {
    const char *field, *condition;
} conditions[] = {
    { "signal", " AND signal GLOB ?%d" },
    { "owner", " AND owner GLOB ?%d" },
    { "platform", " AND (platform = '' OR ',' || platform || ',' GLOB '*,' || ?%d || ',*')" },
    { "state", " AND state GLOB ?%d" },
};
enum { FIRST_CONDITION = 5 };

/* FIELD=PATTERN to its row of conditions; *pattern points behind the '='. */
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

/* GLOB of SQLite knows [a-z] too, which our patterns do not: '[' stands for itself as [[]. */
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
                     const struct ctr_signals_view *v, struct ctr_out *out, struct ctr_err *err)
{
    int64_t signal = 0, version = 0, rows;
    sqlite3_stmt *st = NULL;
    int rc = what ? ctr_signals_find(s, what, &signal, &version, err) : 0;
    if (!rc)
        rc = prepare_list(s, l, signal, version, v, &st, err);
    if (!rc)
        rc = print(s, st, v, out, &rows, err);
    sqlite3_finalize(st);
    return rc;
}

/* ---- the check before training ---- */

static int plan_signal(void *ctx, const struct ctr_plan_signal *p, struct ctr_err *err)
{
    return ctr_signals_run(ctx, err, "INSERT INTO planned (name, hash) VALUES (?, ?)", "ss", p->name, p->hash);
}

/* The signals of a plan as the temporary table `planned`. */
static int load_plan(struct ctr_signals *s, const struct ctr_plan *p, struct ctr_err *err)
{
    int rc = ctr_signals_run(s, err, "CREATE TEMP TABLE planned (name TEXT, hash TEXT)", "");
    return rc || !p ? rc : ctr_plan_signals(p, plan_signal, s, err);
}

int ctr_signals_check(struct ctr_signals *s, const struct ctr_plan *p, const char *platform,
                      const struct ctr_signals_view *v, struct ctr_out *out, int64_t *problems, struct ctr_err *err)
{
    sqlite3_stmt *st = NULL;
    int rc = load_plan(s, p, err);
    if (!rc)
        rc = ctr_signals_prepare(
            s, &st, err,
            "SELECT * FROM (SELECT p.name AS signal, v.number AS version, CASE"
            " WHEN g.id IS NULL THEN 'not in the index'"
            " WHEN v.id IS NULL THEN 'defined otherwise than in any version'"
            " WHEN v.deprecated THEN 'deprecated' || coalesce(': use ' || v.instead, '')"
            " WHEN NOT v.allowed THEN 'not white-listed'"
            " WHEN ?1 IS NOT NULL AND g.platform <> '' AND instr(',' || g.platform || ',', ',' || ?1 || ',') = 0"
            " THEN 'not for platform ' || ?1 END AS problem FROM planned p LEFT JOIN signal g ON g.name = p.name"
            " LEFT JOIN version v ON v.signal = g.id AND v.hash = p.hash ORDER BY p.rowid) WHERE problem IS NOT NULL",
            "s", platform);
    if (!rc)
        rc = print(s, st, v, out, problems, err);
    sqlite3_finalize(st);
    return rc;
}

/* ---- the report of a vetting ---- */

/* What is wrong with a signal, in words; "passed". */
static int judge(const struct ctr_vet_result *r, double psi, double noise, const struct ctr_vet_limits *limits,
                 struct ctr_buf *b, struct ctr_err *err)
{
    double missing = r->rows ? (double)r->missing / (double)r->rows : 0;
    ctr_buf_clear(b);
    int rc = r->rows ? 0 : ctr_buf_printf(b, err, "; no rows");
    if (!rc && missing > limits->max_missing)
        rc = ctr_buf_printf(b, err, "; missing in %.1f%% of rows", missing * 100);
    if (!rc && r->rows && r->distinct <= 1 && (!r->missing || r->missing == r->rows))
        rc = ctr_buf_printf(b, err, "; the same in all rows");
    if (!rc && psi > limits->max_psi + noise)
        rc = ctr_buf_printf(b, err, "; drifted: PSI %.3f", psi);
    if (!rc && r->auc > limits->max_auc)
        rc = ctr_buf_printf(b, err, "; leak? AUC %.4f alone", r->auc);
    if (!rc && !b->len)
        rc = ctr_buf_printf(b, err, "; passed");
    return rc ? rc : ctr_buf_append(b, "", 1, err);
}

/* The histogram of the signal's last vetting that saw rows, of whatever version; false: there is none. */
static int last_histogram(struct ctr_signals *s, const char *name, int64_t *histogram, struct ctr_err *err)
{
    sqlite3_stmt *st = NULL;
    int rc = ctr_signals_prepare(s, &st, err,
                                 "SELECT histogram FROM vetting t JOIN version v ON t.version = v.id JOIN signal g"
                                 " ON v.signal = g.id WHERE g.name = ? AND t.rows > 0 ORDER BY t.id DESC LIMIT 1",
                                 "s", name);
    if (!rc)
        rc = ctr_signals_step(s, st, err);
    if (rc > 0 && sqlite3_column_bytes(st, 0) == CTR_VET_BUCKETS * (int)sizeof *histogram)
        memcpy(histogram, sqlite3_column_blob(st, 0), CTR_VET_BUCKETS * sizeof *histogram);
    else
        rc = CTR_MIN(rc, 0);
    sqlite3_finalize(st);
    return rc;
}

static int vet_signal(struct ctr_signals *s, const struct ctr_vet_result *r, const struct ctr_vet_limits *limits,
                      bool allow, bool *passed, struct ctr_err *err)
{
    int64_t before[CTR_VET_BUCKETS], version = 0;
    double psi = NAN, noise = 0;
    struct ctr_buf why = { 0 };
    int rc = last_histogram(s, r->name, before, err);
    if (rc > 0 && r->rows)
        psi = ctr_vet_psi(r->histogram, before, &noise);
    rc = CTR_MIN(rc, 0);
    if (!rc)
        rc = judge(r, psi, noise, limits, &why, err);
    *passed = !rc && !strcmp((const char *)why.data, "; passed");
    if (!rc)
        rc = ctr_signals_number(s, &version, 0, err,
                                "SELECT v.id FROM version v JOIN signal g ON v.signal = g.id LEFT JOIN planned p"
                                " ON p.name = g.name WHERE g.name = ? AND (p.hash IS NULL OR p.hash = v.hash)"
                                " ORDER BY v.number DESC LIMIT 1",
                                "s", r->name);
    if (!rc)
        rc = ctr_signals_run(s, err, "INSERT INTO vetted VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", "siididdsb", r->name,
                             version, r->rows, r->rows ? (double)r->missing / (double)r->rows : NAN, r->distinct, psi,
                             r->auc, (const char *)why.data + 2, (const void *)r->histogram, (int)sizeof r->histogram);
    if (!rc && allow && *passed && version)
        rc = ctr_signals_run(s, err, "UPDATE version SET allowed = 1 WHERE id = ?", "i", version);
    ctr_buf_free(&why);
    return rc;
}

int ctr_signals_vet(struct ctr_signals *s, const struct ctr_vet *v, const struct ctr_plan *p,
                    const struct ctr_vet_limits *limits, bool allow, const struct ctr_signals_view *view,
                    struct ctr_out *out, int64_t *failed, struct ctr_err *err)
{
    sqlite3_stmt *st = NULL;
    int64_t rows;
    int rc = load_plan(s, p, err);
    *failed = 0;
    if (!rc)
        rc = ctr_signals_run(s, err,
                             "CREATE TEMP TABLE vetted (name TEXT, version INTEGER, rows INTEGER, missing REAL,"
                             " \"distinct\" INTEGER, psi REAL, auc REAL, verdict TEXT, histogram BLOB)",
                             "");
    for (int i = 0; i < ctr_vet_columns(v) && !rc; i++) {
        struct ctr_vet_result r;
        bool passed;
        ctr_vet_result(v, i, &r);
        rc = vet_signal(s, &r, limits, allow, &passed, err);
        *failed += !passed;
    }
    if (!rc)
        rc = ctr_signals_run(s, err,
                             "INSERT INTO vetting (version, at_ms, rows, missing, \"distinct\", psi, auc, verdict,"
                             " histogram) SELECT version, ?, rows, coalesce(missing, 0), \"distinct\", psi, auc,"
                             " verdict, histogram FROM vetted WHERE version > 0",
                             "i", s->now_ms);
    if (!rc)
        rc = ctr_signals_prepare(s, &st, err,
                                 "SELECT t.name AS signal, v.number AS version, rows, missing, \"distinct\", psi, auc,"
                                 " verdict FROM vetted t LEFT JOIN version v ON v.id = t.version ORDER BY t.rowid",
                                 "");
    if (!rc)
        rc = print(s, st, view, out, &rows, err);
    sqlite3_finalize(st);
    return rc;
}
