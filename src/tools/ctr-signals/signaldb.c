/* SPDX-License-Identifier: Apache-2.0
 *
 * signaldb: the SQLite file of the index. Invariant: a file without our application_id and version is never written
 * to. */
#include "tools/ctr-signals/signaldb.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { APPLICATION_ID = 0x63747253 /* "ctrS" */, VERSION = 3, READABLE = 2 /* by listings */ };

/* A signal's `last` is the number of its newest version, which may have been removed. A version's `unused_ms` is the
 * time when it lost its last consumer (or was added without one); null while it has one. `pinned` is a vetting; null:
 * the first that passes will be pinned; 0: none. A vetting's `seen` is a sample of its values, null if none is taken or
 * it can no longer be a reference; `stream` is the name given to the stream ('': no name and no plan). */
static const char schema[] =
    "CREATE TABLE signal (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, owner TEXT NOT NULL DEFAULT '',"
    " description TEXT NOT NULL DEFAULT '', platform TEXT NOT NULL DEFAULT '', created_ms INTEGER NOT NULL,"
    " last INTEGER NOT NULL DEFAULT 0) STRICT;"
    "CREATE TABLE version (id INTEGER PRIMARY KEY, signal INTEGER NOT NULL REFERENCES signal ON DELETE CASCADE,"
    " number INTEGER NOT NULL, role TEXT NOT NULL, definition TEXT NOT NULL, hash TEXT NOT NULL,"
    " inputs TEXT NOT NULL, allowed INTEGER NOT NULL DEFAULT 0, deprecated INTEGER NOT NULL DEFAULT 0,"
    " instead TEXT, created_ms INTEGER NOT NULL, unused_ms INTEGER, pinned INTEGER, UNIQUE (signal, number),"
    " UNIQUE (signal, hash)) STRICT;"
    "CREATE TABLE consumer (model TEXT NOT NULL, version INTEGER NOT NULL REFERENCES version ON DELETE CASCADE,"
    " since_ms INTEGER NOT NULL, PRIMARY KEY (model, version)) STRICT, WITHOUT ROWID;"
    "CREATE INDEX consumer_version ON consumer (version);"
    "CREATE TABLE annotation (id INTEGER PRIMARY KEY, signal INTEGER NOT NULL REFERENCES signal ON DELETE CASCADE,"
    " at_ms INTEGER NOT NULL, text TEXT NOT NULL) STRICT;"
    "CREATE TABLE vetting (id INTEGER PRIMARY KEY, version INTEGER NOT NULL REFERENCES version ON DELETE CASCADE,"
    " at_ms INTEGER NOT NULL, rows INTEGER NOT NULL, missing REAL NOT NULL, \"distinct\" INTEGER NOT NULL,"
    " psi REAL, auc REAL, verdict TEXT NOT NULL, histogram BLOB NOT NULL, passed INTEGER NOT NULL DEFAULT 0,"
    " psi_pinned REAL, unseen REAL, seen BLOB, stream TEXT) STRICT;"
    "CREATE INDEX vetting_version ON vetting (version);";

/* What makes an index of version i + 1 or later of one of version i. Version 1 compared a vetting with the previous
 * one; version 2 gave the number of a version that was removed to the next one. */
static const char *const upgrade[VERSION] = {
    schema,
    "ALTER TABLE version ADD COLUMN pinned INTEGER;"
    "ALTER TABLE vetting ADD COLUMN passed INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE vetting ADD COLUMN psi_pinned REAL;"
    "ALTER TABLE vetting ADD COLUMN unseen REAL;"
    "ALTER TABLE vetting ADD COLUMN seen BLOB;"
    "ALTER TABLE vetting ADD COLUMN stream TEXT;"
    "UPDATE vetting SET passed = verdict = 'passed';",
    "ALTER TABLE signal ADD COLUMN last INTEGER NOT NULL DEFAULT 0;"
    "UPDATE signal SET last = (SELECT coalesce(max(number), 0) FROM version WHERE version.signal = signal.id);",
};

/* ---- statements ---- */

static int db_fail(struct ctr_signals *s, struct ctr_err *err)
{
    int code = sqlite3_errcode(s->db), low = code & 0xff;
    ctr_err_file(err, s->path);
    if (low == SQLITE_BUSY || low == SQLITE_LOCKED)
        return ctr_fail(err, CTR_ESYS, "another process has been writing for %d seconds: try again",
                        CTR_SIGNALS_WAIT_MS / 1000);
    if (low == SQLITE_NOTADB)
        return ctr_fail(err, CTR_EDATA, "not an index of signals: not an SQLite file");
    if (low == SQLITE_CORRUPT)
        return ctr_fail(err, CTR_EDATA, "damaged (%s): restore it from a copy; nothing was written",
                        sqlite3_errmsg(s->db));
    if (low == SQLITE_NOMEM)
        return ctr_fail_nomem(err, 0);
    if (sqlite3_extended_errcode(s->db) == SQLITE_READONLY_ROLLBACK)
        return ctr_fail(err, CTR_ESYS,
                        "a writer was stopped in the middle: a user with permission to write must list it once");
    int sys = sqlite3_system_errno(s->db);
    return ctr_fail(err, CTR_ESYS, "%s%s%s", sqlite3_errmsg(s->db), sys ? ": " : "", sys ? strerror(sys) : "");
}

static int bind_all(sqlite3_stmt *st, const char *kinds, va_list args)
{
    int rc = SQLITE_OK;
    for (int i = 1; kinds[i - 1] && rc == SQLITE_OK; i++)
        switch (kinds[i - 1]) {
        case 's': rc = sqlite3_bind_text(st, i, va_arg(args, const char *), -1, SQLITE_TRANSIENT); break;
        case 'i': rc = sqlite3_bind_int64(st, i, va_arg(args, int64_t)); break;
        case 'd': rc = sqlite3_bind_double(st, i, va_arg(args, double)); break;
        case 'b': {
            const void *p = va_arg(args, const void *);
            rc = sqlite3_bind_blob(st, i, p, va_arg(args, int), SQLITE_TRANSIENT);
            break;
        }
        }
    return rc;
}

static int prepare_v(struct ctr_signals *s, sqlite3_stmt **st, struct ctr_err *err, const char *sql, const char *kinds,
                     va_list args)
{
    if (sqlite3_prepare_v2(s->db, sql, -1, st, NULL) != SQLITE_OK || bind_all(*st, kinds, args) != SQLITE_OK)
        return db_fail(s, err);
    return 0;
}

int ctr_signals_prepare(struct ctr_signals *s, sqlite3_stmt **st, struct ctr_err *err, const char *sql,
                        const char *kinds, ...)
{
    va_list args;
    va_start(args, kinds);
    int rc = prepare_v(s, st, err, sql, kinds, args);
    va_end(args);
    return rc;
}

int ctr_signals_step(struct ctr_signals *s, sqlite3_stmt *st, struct ctr_err *err)
{
    int rc = sqlite3_step(st);
    return rc == SQLITE_ROW ? 1 : rc == SQLITE_DONE ? 0 : db_fail(s, err);
}

int ctr_signals_run(struct ctr_signals *s, struct ctr_err *err, const char *sql, const char *kinds, ...)
{
    sqlite3_stmt *st = NULL;
    va_list args;
    va_start(args, kinds);
    int rc = prepare_v(s, &st, err, sql, kinds, args);
    va_end(args);
    do
        rc = rc ? rc : ctr_signals_step(s, st, err);
    while (rc > 0 && !(rc = 0));
    sqlite3_finalize(st);
    return rc;
}

int ctr_signals_number(struct ctr_signals *s, int64_t *out, int64_t none, struct ctr_err *err, const char *sql,
                       const char *kinds, ...)
{
    sqlite3_stmt *st = NULL;
    va_list args;
    va_start(args, kinds);
    int rc = prepare_v(s, &st, err, sql, kinds, args);
    va_end(args);
    if (!rc)
        rc = ctr_signals_step(s, st, err);
    *out = rc > 0 ? sqlite3_column_int64(st, 0) : none;
    sqlite3_finalize(st);
    return CTR_MIN(rc, 0);
}

/* ---- opening ---- */

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Is the file an index? An empty file is accepted. *version: of its tables, 0 if there are none. */
static int check_file(struct ctr_signals *s, enum ctr_signals_mode mode, int64_t *version, struct ctr_err *err)
{
    int64_t id, objects, damage;
    int rc = ctr_signals_number(s, &objects, 0, err, "SELECT count(*) FROM sqlite_schema", "");
    if (!rc)
        rc = ctr_signals_number(s, &id, 0, err, "PRAGMA application_id", "");
    if (!rc)
        rc = ctr_signals_number(s, version, 0, err, "PRAGMA user_version", "");
    if (rc)
        return rc;
    bool empty = !objects && !id && !*version;
    if (empty && mode == CTR_SIGNALS_CREATE)
        return 0;
    if (empty || id != APPLICATION_ID) {
        ctr_err_file(err, s->path);
        return ctr_fail(err, CTR_EDATA,
                        empty ? "an empty file, no index of signals: `ctr-signals add` makes one"
                              : "an SQLite file of another program, no index of signals");
    }
    if (*version < 1 || *version > VERSION) {
        ctr_err_file(err, s->path);
        return ctr_fail(err, CTR_EDATA, "an index of version %lld; this program knows versions 1 to %d",
                        (long long)*version, VERSION);
    }
    rc =
        ctr_signals_number(s, &damage, 1, err, "SELECT count(*) FROM pragma_quick_check WHERE quick_check <> 'ok'", "");
    if (!rc && damage) {
        ctr_err_file(err, s->path);
        return ctr_fail(err, CTR_EDATA, "damaged: restore it from a copy; nothing was written");
    }
    return rc;
}

/* Create the tables, or upgrade those of an older version. If two processes do this at once, the second finds it
 * done. */
static int make_tables(struct ctr_signals *s, struct ctr_err *err)
{
    char mark[128];
    int64_t version;
    sqlite3_snprintf(sizeof mark, mark, "PRAGMA application_id = %d; PRAGMA user_version = %d", APPLICATION_ID,
                     VERSION);
    int rc = ctr_signals_begin(s, err);
    if (!rc)
        rc = ctr_signals_number(s, &version, 0, err, "PRAGMA user_version", "");
    const int64_t was = version;
    for (; !rc && version < VERSION; version = version ? version + 1 : VERSION)
        rc = sqlite3_exec(s->db, upgrade[version], NULL, NULL, NULL) == SQLITE_OK ? 0 : db_fail(s, err);
    if (!rc && was < VERSION && sqlite3_exec(s->db, mark, NULL, NULL, NULL) != SQLITE_OK)
        rc = db_fail(s, err);
    return rc ? rc : ctr_signals_commit(s, err);
}

/* SQLite would undo an interrupted change of another program: so check first. */
static int check_header(struct ctr_signals *s, struct ctr_err *err)
{
    static const char magic[16] = "SQLite format 3";
    enum { AT_ID = 68 };
    uint8_t head[100];
    int fd = ctr_open(s->path, O_RDONLY, 0);
    const ssize_t n = fd < 0 ? -1 : pread(fd, head, sizeof head, 0);
    if (fd >= 0)
        close(fd);
    const uint8_t *id = head + AT_ID;
    if (n < (ssize_t)sizeof head || memcmp(head, magic, sizeof magic) ||
        ((uint32_t)id[0] << 24 | id[1] << 16 | id[2] << 8 | id[3]) == APPLICATION_ID)
        return 0; /* SQLite reports unreadable files and other formats */
    ctr_err_file(err, s->path);
    return ctr_fail(err, CTR_EDATA, "an SQLite file of another program, no index of signals");
}

static int open_with(struct ctr_signals *s, enum ctr_signals_mode mode, int flags, int64_t *version,
                     struct ctr_err *err)
{
    sqlite3_close(s->db);
    s->db = NULL;
    if (sqlite3_open_v2(s->path, &s->db, flags, NULL) != SQLITE_OK)
        return s->db ? db_fail(s, err) : ctr_fail_nomem(err, 0);
    sqlite3_busy_timeout(s->db, CTR_SIGNALS_WAIT_MS);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    return check_file(s, mode, version, err);
}

#define IN_MEMORY ":memory:"

static int open_file(struct ctr_signals *s, enum ctr_signals_mode mode, struct ctr_err *err)
{
    const int flags = mode == CTR_SIGNALS_READ     ? SQLITE_OPEN_READONLY
                      : mode == CTR_SIGNALS_CREATE ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
                                                   : SQLITE_OPEN_READWRITE;
    struct stat st;
    int64_t version = VERSION;
    const int64_t least = mode == CTR_SIGNALS_READ ? READABLE : VERSION;
    const bool file = strcmp(s->path, IN_MEMORY) != 0; /* check_name lets no file have that name */
    if (mode != CTR_SIGNALS_CREATE && stat(s->path, &st)) {
        ctr_err_file(err, s->path);
        return ctr_fail_sys(err, "no index of signals; `ctr-signals add` makes one");
    }
    int rc = file ? check_header(s, err) : 0;
    if (!rc)
        rc = open_with(s, mode, flags, &version, err);
    /* A writer was killed, and the next process that may write undoes its change. Or the index has an older version,
     * and the next process that may write upgrades it. */
    if (mode == CTR_SIGNALS_READ &&
        (rc ? s->db && sqlite3_extended_errcode(s->db) == SQLITE_READONLY_ROLLBACK : version < least))
        rc = open_with(s, mode, SQLITE_OPEN_READWRITE, &version, err);
    if (!rc && version < least && sqlite3_db_readonly(s->db, "main") == 1) {
        ctr_err_file(err, s->path);
        rc = ctr_fail(err, CTR_EDATA, "an index of version %lld: a user with permission to write must list it once",
                      (long long)version);
    }
    if (!rc && version < least)
        rc = make_tables(s, err);
    if (!rc)
        rc = ctr_signals_run(s, err, "PRAGMA foreign_keys = ON", "");
    return rc ? rc : ctr_signals_run(s, err, "PRAGMA temp_store = MEMORY", "");
}

/* SQLite has special names: "" and ":memory:" vanish with the program, "file:" starts a URI with options. */
static int check_name(const char *path, struct ctr_err *err)
{
    struct stat st;
    if (!*path)
        return ctr_fail(err, CTR_EUSAGE, "the index has an empty name: see --db and CTR_SIGNALS");
    if (!strcmp(path, "-"))
        return ctr_fail(err, CTR_EUSAGE, "the index is a file, never stdin or stdout: --db FILE names it");
    if (*path == ':' || !strncmp(path, "file:", strlen("file:")))
        return ctr_fail(err, CTR_EUSAGE, "'%s' is a name that SQLite keeps for itself; a file of this name is ./%s",
                        path, path);
    if (!stat(path, &st) && !S_ISREG(st.st_mode)) {
        ctr_err_file(err, path);
        return ctr_fail(err, CTR_EDATA, "not an index of signals: not a regular file");
    }
    return 0;
}

int ctr_signals_open(struct ctr_signals **out, const char *path, enum ctr_signals_mode mode, struct ctr_err *err)
{
    struct ctr_signals *s = calloc(1, sizeof *s);
    if (!s)
        return ctr_fail_nomem(err, sizeof *s);
    s->now_ms = now_ms();
    int rc = path ? check_name(path, err) : 0;
    if (!rc)
        rc = ctr_strdup(&s->path, path ? path : IN_MEMORY, err);
    if (!rc)
        rc = open_file(s, mode, err);
    if (rc) {
        ctr_signals_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

void ctr_signals_free(struct ctr_signals *s)
{
    if (!s)
        return;
    sqlite3_close(s->db);
    free(s->path);
    free(s);
}

int ctr_signals_begin(struct ctr_signals *s, struct ctr_err *err)
{
    s->now_ms = now_ms();
    return ctr_signals_run(s, err, "BEGIN IMMEDIATE", "");
}

int ctr_signals_commit(struct ctr_signals *s, struct ctr_err *err)
{
    return ctr_signals_run(s, err, "COMMIT", "");
}
