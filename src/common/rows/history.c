/* SPDX-License-Identifier: Apache-2.0
 *
 * history: the stage. Each event row is answered from what is known, and then becomes known itself; with a second log,
 * its earlier rows become known first. Invariant: before an event of time t is answered, every behaviour of a time
 * below t has been added; the other files leave out what is not yet known at t. */
#include "common/rows/historycore.h"
#include "common/rows/relkey.h"
#include "common/plan/plan.h"

#include <stdlib.h>

enum { MOST_COLUMNS = 64 }; /* one bit each in a behaviour's null set */
enum { LEAST_LIST_BYTES = 1 << 16 };

/* A log and the columns read from it, prepared batch by batch. */
struct side {
    struct ctr_timefeed feed;
    const struct ctr_batch *b; /* or NULL */
    int64_t pos;               /* the next row */
    int user;
    int *key;                       /* columns of all sets of keys, concatenated */
    int *key_start;                 /* start of each set, and the end */
    struct ctr_buf time;            /* of the batch's rows */
    struct ctr_keyvalue_rows who;   /* their users */
    struct ctr_keyvalue_rows *keys; /* and keys, per set */
};

struct ctr_history {
    struct ctr_history_opts o;
    struct ctr_schema out;
    struct side event, past;               /* past: with a second log */
    const struct ctr_batch_source *second; /* the log of behaviours, or NULL */
    struct ctr_expr *where, *dwell;
    const struct ctr_col *is, *took; /* their results for the batch of behaviours */
    int *column, columns;            /* of the behaviours' log: the columns to list */
    int sets, numbers;
    struct ctr_colbuf *number; /* three per set of keys, two of sessions */
    struct ctr_sessions sessions;
    struct ctr_historylists recent;
    struct ctr_buf is_behaviour; /* a bool a row, for several threads */
    int numbers_rc;              /* of answer_numbers */
    struct ctr_err numbers_err;
    struct ctr_feedback counts;
    struct ctr_part part;
    struct ctr_col *views;
    struct ctr_batch batch;
    int64_t budget;
    int64_t list_bytes;  /* of the items of a list in an output batch, unless one row has more */
    struct ctr_buf what; /* options on which its state depends */
    bool began, restored, saved;
    struct ctr_schema rest_schema; /* restored: rows of the log of behaviours that are not known yet … */
    struct ctr_batchbuf rest;      /* … and come before those of this run */
    bool rest_taken, learned, past_restored;
    int64_t learned_ms; /* learned: the last time of a row of that log that is known */
    int64_t last_ms;    /* began: the last event's time, of an earlier run too; restored: of that one, so far */
    struct ctr_history_stats st;
};

static struct side *behaviours_side(struct ctr_history *h)
{
    return h->second ? &h->past : &h->event;
}

static bool needs_user(const struct ctr_history *h)
{
    return h->recent.lists > 0 || h->sessions.on;
}

static bool has_lists(const struct ctr_history *h)
{
    return h->recent.lists > 0;
}

/* ---- the schema of the result ---- */

static int list_field(struct ctr_history *h, const char *group, const char *column, const struct ctr_field *of,
                      struct ctr_err *err)
{
    struct ctr_buf name = { 0 };
    int rc = ctr_buf_printf(&name, err, "%s.%s%c", group, column, 0);
    if (!rc && ctr_schema_find(&h->out, (char *)name.data) >= 0)
        rc =
            ctr_fail(err, CTR_EUSAGE, "column %s is there twice: name a column once, or call the lists otherwise by %s",
                     (char *)name.data, ctr_words(h->o.in_plan, "--group NAME", "group \"NAME\""));
    if (!rc)
        rc = ctr_schema_add(&h->out, (char *)name.data, CTR_LIST, err);
    ctr_buf_free(&name);
    if (rc < 0)
        return rc;
    struct ctr_field *f = &h->out.f[h->out.n - 1];
    const char *table = of ? ctr_meta_get(&of->meta, CTR_META_TABLE) : NULL;
    f->item = of ? of->type : CTR_I64;
    rc = ctr_meta_set(&f->meta, CTR_META_HISTORY, group, err);
    if (!rc && of)
        rc = ctr_meta_set(&f->meta, CTR_META_HISTORY_OF, column, err);
    if (!rc)
        rc = ctr_meta_set(&f->meta, CTR_META_ORDER, h->o.oldest_first ? "oldest" : "newest", err);
    if (!rc && table)
        rc = ctr_meta_set(&f->meta, CTR_META_TABLE, table, err);
    return rc ? rc : ctr_meta_set(&f->meta, CTR_META_SIDE, "user", err);
}

static int add_lists(struct ctr_history *h, struct ctr_err *err)
{
    const struct ctr_schema *s = &behaviours_side(h)->feed.schema;
    const char *group = h->o.group ? h->o.group : "history";
    char type[128];
    int rc = 0;

    if (h->columns > MOST_COLUMNS)
        return ctr_fail(err, CTR_EUSAGE, "a behaviour has at most %d columns", MOST_COLUMNS);
    for (int i = 0; i < h->columns && !rc; i++) {
        const struct ctr_field *f = &s->f[h->column[i]];
        if (ctr_type_list(f->type))
            return ctr_fail(err, CTR_EUSAGE,
                            "%s is %s, and a behaviour has one value a column: take an element with at()", f->name,
                            ctr_field_type_name(f, type, sizeof type));
        rc = list_field(h, group, f->name, f, err);
    }
    return rc || !h->o.age ? rc : list_field(h, group, "age", NULL, err);
}

/* "a+b": the names of a set of keys, without back quotes. */
static int set_name(const struct ctr_schema *s, const char *key, struct ctr_buf *name, struct ctr_err *err)
{
    int *column = NULL, n = 0, rc = ctr_schema_columns(s, key, '+', &column, &n, err);
    name->len = 0;
    for (int i = 0; i < n && !rc; i++)
        rc = ctr_buf_printf(name, err, "%s%s", i ? "+" : "", s->f[column[i]].name);
    free(column);
    return rc ? rc : ctr_buf_append(name, "", 1, err);
}

static int count_fields(struct ctr_history *h, const char *key, struct ctr_err *err)
{
    static const struct {
        const char *name;
        enum ctr_type type;
    } field[] = { { "impressions", CTR_I64 }, { "clicks", CTR_I64 }, { "rate", CTR_F64 } };
    struct ctr_buf set = { 0 };
    int rc = set_name(&h->event.feed.schema, key, &set, err);
    for (size_t i = 0; i < CTR_COUNT(field) && rc >= 0; i++) {
        struct ctr_buf name = { 0 };
        rc = ctr_buf_printf(&name, err, "count.%s.%s%c", (const char *)set.data, field[i].name, 0);
        if (!rc)
            rc = ctr_schema_add(&h->out, (char *)name.data, field[i].type, err);
        ctr_buf_free(&name);
    }
    ctr_buf_free(&set);
    return CTR_MIN(rc, 0);
}

/* "a+b": the columns of a set of keys in a log. */
static int key_columns(struct side *s, const char *log, const char *key, int set, struct ctr_err *err)
{
    int *column = NULL, n = 0, rc = ctr_schema_columns(&s->feed.schema, key, '+', &column, &n, err);
    if (rc && log)
        ctr_err_file(err, log);
    for (int i = 0; i < n && !rc; i++) {
        rc = ctr_key_check(&s->feed.schema.f[column[i]], err);
        s->key[s->key_start[set]++] = column[i];
    }
    free(column);
    return rc;
}

static int add_counts(struct ctr_history *h, const struct ctr_strs *sets, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; i < sets->n && !rc; i++)
        rc = count_fields(h, sets->s[i], err);
    for (int side = 0; side < 1 + !!h->second && !rc; side++) {
        struct side *s = side ? &h->past : &h->event;
        int most = 0;
        for (int i = 0; i < sets->n; i++)
            most += (int)strlen(sets->s[i]) + 1;
        s->key = calloc((size_t)most + 1, sizeof *s->key);
        s->key_start = calloc((size_t)sets->n + 1, sizeof *s->key_start);
        s->keys = calloc((size_t)sets->n + 1, sizeof *s->keys);
        if (!s->key || !s->key_start || !s->keys)
            return ctr_fail_nomem(err, (size_t)most * sizeof *s->key);
        for (int i = 0; i < sets->n && !rc; i++) {
            s->key_start[i] = i ? s->key_start[i - 1] : 0;
            rc = key_columns(s, side ? h->past.feed.name : NULL, sets->s[i], i, err);
        }
        memmove(s->key_start + 1, s->key_start, (size_t)sets->n * sizeof *s->key_start); /* ends become starts */
        s->key_start[0] = 0;
    }
    return rc;
}

static int add_session(struct ctr_history *h, struct ctr_err *err)
{
    static const char *const name[] = { "session.number", "session.position" };
    int rc = 0;
    for (int i = 0; i < 2 && rc >= 0; i++)
        rc = ctr_schema_add(&h->out, name[i], CTR_I64, err);
    return CTR_MIN(rc, 0);
}

/* ---- opening ---- */

static int open_past(struct ctr_history *h, const struct ctr_schema *events, const char *name, struct ctr_err *err)
{
    const struct ctr_schema *s = ctr_batch_source_schema(h->second);
    const char *user = h->o.user < 0 ? NULL : events->f[h->o.user].name, *time = events->f[h->o.time].name;

    h->past.feed.name = name;
    h->past.feed.time = ctr_schema_find(s, time);
    if (h->past.feed.time < 0)
        h->past.feed.time = ctr_schema_role(s, CTR_ROLE_TIME);
    h->past.user = user ? ctr_schema_find(s, user) : -1;
    if (user && h->past.user < 0)
        h->past.user = ctr_schema_role(s, CTR_ROLE_USER);
    ctr_err_file(err, name);
    if (h->past.feed.time < 0)
        return ctr_fail(err, CTR_EUSAGE, "has neither a column %s nor one with the role time", time);
    if (user && h->past.user < 0)
        return ctr_fail(err, CTR_EUSAGE, "has neither a column %s nor one with the role user", user);
    err->file[0] = 0;
    if ((s->f[h->past.feed.time].type == CTR_TIME) != (events->f[h->o.time].type == CTR_TIME))
        return ctr_fail(err, CTR_EUSAGE, "%s of the events is a timestamp and %s of %s is not, or the other way round",
                        time, s->f[h->past.feed.time].name, name);
    return ctr_timefeed_init(&h->past.feed, s, err);
}

/* The types of both columns must be such that only equal values are one identity. */
static int check_types(const struct ctr_history *h, const struct ctr_field *a, const struct ctr_field *b,
                       struct ctr_err *err)
{
    char ta[128], tb[128];
    const bool whole = ctr_types[a->type].integer && ctr_types[b->type].integer;
    if (!ctr_type_list(a->type) && !ctr_type_list(b->type) &&
        (a->type == b->type || (whole && a->type != CTR_U64 && b->type != CTR_U64)))
        return 0;
    return ctr_fail(err, CTR_EUSAGE, "%s is %s, and %s of %s is %s: %s", a->name, ctr_field_type_name(a, ta, sizeof ta),
                    b->name, h->second ? h->past.feed.name : "the events", ctr_field_type_name(b, tb, sizeof tb),
                    ctr_words(h->o.in_plan, "cast one of them (ctr-select --add)",
                              "give one the other's type, by columns=\"NAME:TYPE\" of a view of text, or by a line "
                              "above, add NAME = EXPR"));
}

static int check_users(const struct ctr_history *h, struct ctr_err *err)
{
    if (h->o.user < 0)
        return 0;
    const struct ctr_field *a = &h->event.feed.schema.f[h->o.user];
    return check_types(h, a, h->second ? &h->past.feed.schema.f[h->past.user] : a, err);
}

static int check_keys(const struct ctr_history *h, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; h->second && h->sets && !rc && i < h->event.key_start[h->sets]; i++)
        rc = check_types(h, &h->event.feed.schema.f[h->event.key[i]], &h->past.feed.schema.f[h->past.key[i]], err);
    return rc;
}

static int compile(struct ctr_history *h, struct ctr_expr **e, const char *what, const char *text,
                   const struct ctr_schema *s, bool condition, struct ctr_err *err)
{
    char type[128];
    int rc = ctr_expr_compile(e, what, text, s, h->o.lookups, err);
    if (rc)
        return rc;
    const struct ctr_field *f = ctr_expr_field(*e);
    if (condition ? f->type != CTR_BOOL : !ctr_type_number(f->type))
        return ctr_fail(err, CTR_EUSAGE, "%s '%s' is %s, but must be %s", what, text,
                        ctr_field_type_name(f, type, sizeof type),
                        condition ? "a condition (bool), such as click != 0" : "a number (ms)");
    return 0;
}

static int too_short(const struct ctr_history *h, const char *window, const char *what, struct ctr_err *err)
{
    const bool p = h->o.in_plan;
    return ctr_fail(err, CTR_EUSAGE, "%s must be longer than %s (and %s): no %s would be known in it",
                    ctr_word(p, window), ctr_word(p, "--delay"), ctr_word(p, "--min-dwell"), what);
}

static const char *type_of(const struct ctr_schema *s, int column, char *out, size_t size)
{
    return column < 0 ? "none" : ctr_field_type_name(&s->f[column], out, size);
}

/* For two runs to compare. */
static int describe(struct ctr_history *h, const struct ctr_strs *sets, struct ctr_err *err)
{
    const struct ctr_schema *s = &h->event.feed.schema;
    const struct ctr_history_opts *o = &h->o;
    char type[64];
    struct ctr_say t = { &h->what, err, 0 };
    ctr_say(&t, "ctr-history 1; user %s", type_of(s, o->user, type, sizeof type));
    ctr_say(&t, ", time %s; --where %s; --dwell %s; --min-dwell %lld; --delay %lld",
            type_of(s, o->time, type, sizeof type), o->where ? o->where : "true", o->dwell ? o->dwell : "none",
            (long long)o->min_dwell_ms, (long long)o->delay_ms);
    for (int i = 0; i < h->columns; i++)
        ctr_say(&t, "; %s: %s", behaviours_side(h)->feed.schema.f[h->column[i]].name,
                type_of(&behaviours_side(h)->feed.schema, h->column[i], type, sizeof type));
    if (h->recent.lists)
        ctr_say(&t, "; --last %lld; --window %lld", (long long)o->last, (long long)o->window_ms);
    for (int i = 0; i < sets->n; i++) {
        ctr_say(&t, "; --count ");
        for (int k = h->event.key_start[i]; k < h->event.key_start[i + 1]; k++)
            ctr_say(&t, "%s%s", k > h->event.key_start[i] ? "+" : "", s->f[h->event.key[k]].name);
        ctr_say(&t, ":");
        for (int k = h->event.key_start[i]; k < h->event.key_start[i + 1]; k++)
            ctr_say(&t, " %s", type_of(s, h->event.key[k], type, sizeof type));
    }
    if (sets->n)
        ctr_say(&t, "; --count-window %lld", (long long)o->count_window_ms);
    if (h->second) {
        s = &h->past.feed.schema;
        ctr_say(&t, "; --behaviours with user %s", type_of(s, h->past.user, type, sizeof type));
        ctr_say(&t, ", time %s", type_of(s, h->past.feed.time, type, sizeof type));
    }
    if (h->sessions.on)
        ctr_say(&t, "; --session %lld", (long long)o->session_ms);
    ctr_say_bytes(&t, "", 1);
    return t.rc;
}

static int start(struct ctr_history *h, const struct ctr_schema *events, const char *past_name, struct ctr_err *err)
{
    struct ctr_strs sets = { 0 };
    const struct ctr_history_opts *o = &h->o;
    int rc = 0;

    ctr_keyvalue_set_init(&h->recent.texts);
    ctr_sessions_init(&h->sessions, o->session_ms);
    h->event.feed = (struct ctr_timefeed){ .time = o->time,
                                           .input = o->input,
                                           .lateness_ms = o->lateness_ms,
                                           .memory_bytes = h->budget / (h->second ? 4 : 2),
                                           .batch_rows = o->batch_rows,
                                           .threads = o->threads,
                                           .in_plan = o->in_plan };
    h->past.feed = h->event.feed;
    h->event.user = o->user;
    rc = ctr_timefeed_init(&h->event.feed, events, err);
    if (!rc)
        rc = ctr_schema_copy(&h->out, &h->event.feed.schema, err);
    if (!rc && h->second)
        rc = open_past(h, events, past_name, err);
    for (int i = 0; !rc && o->columns && i < o->columns->n; i++)
        rc = ctr_schema_columns(&behaviours_side(h)->feed.schema, o->columns->s[i], ',', &h->column, &h->columns, err);
    for (int i = 0; !rc && o->counts && i < o->counts->n; i++)
        rc = ctr_names_split(&sets, o->counts->s[i], ',', err);
    h->sets = sets.n;
    if (!rc && (h->columns || o->age || h->sessions.on) && o->user < 0)
        rc = ctr_fail(err, CTR_EUSAGE, "whose %s? %s NAME says",
                      h->columns || o->age ? "behaviours are to be listed" : "sessions are these",
                      ctr_words(o->in_plan, "--user", "by"));
    if (!rc)
        rc = check_users(h, err);
    if (!rc)
        rc = add_lists(h, err);
    h->recent.columns = h->columns;
    h->recent.column = h->column;
    h->recent.age = o->age;
    h->recent.oldest_first = o->oldest_first;
    h->recent.lists = h->columns + o->age;
    h->list_bytes = CTR_MIN(CTR_MAX(h->budget / 8 / (h->recent.lists + 1), LEAST_LIST_BYTES), CTR_BATCH_BYTES);
    if (!rc)
        rc = add_counts(h, &sets, err);
    if (!rc && h->sessions.on)
        rc = add_session(h, err);
    h->numbers = 3 * h->sets + 2 * h->sessions.on;
    if (!rc)
        rc = check_keys(h, err);
    if (!rc)
        rc = describe(h, &sets, err);
    ctr_strs_free(&sets);
    const struct ctr_schema *s = &behaviours_side(h)->feed.schema;
    if (!rc && o->where)
        rc = compile(h, &h->where, ctr_word(o->in_plan, "--where"), o->where, s, true, err);
    if (!rc && o->dwell)
        rc = compile(h, &h->dwell, ctr_word(o->in_plan, "--dwell"), o->dwell, s, false, err);
    ctr_behaviours_init(&h->recent.users, h->columns, o);
    if (!rc && h->sets && o->count_window_ms >= 0 && (uint64_t)o->count_window_ms <= h->recent.users.delay_ms)
        rc = too_short(h, "--count-window", "click", err);
    if (!rc && h->columns && (uint64_t)o->window_ms <= h->recent.users.delay_ms)
        rc = too_short(h, "--window", "behaviour", err);
    return rc ? rc : ctr_feedback_init(&h->counts, h->sets, h->recent.users.delay_ms, o->count_window_ms, err);
}

static int make_columns(struct ctr_history *h, struct ctr_err *err)
{
    const int numbers = h->numbers, first = h->out.n - h->recent.lists - numbers;
    int rc = ctr_historylists_init(&h->recent, &h->out.f[first], h->second ? 1 : h->o.threads, err);
    h->number = calloc((size_t)numbers + 1, sizeof *h->number);
    h->views = calloc((size_t)h->out.n + 1, sizeof *h->views);
    if (!rc && (!h->number || !h->views))
        rc = ctr_fail_nomem(err, (size_t)h->out.n * sizeof *h->views);
    for (int i = 0; i < numbers && !rc; i++)
        rc = ctr_colbuf_init(&h->number[i], &h->out.f[first + h->recent.lists + i], err);
    return rc;
}

int ctr_history_new(struct ctr_history **out, const struct ctr_schema *events, const struct ctr_batch_source *past,
                    const char *past_name, const struct ctr_history_opts *o, struct ctr_err *err)
{
    struct ctr_history *h = calloc(1, sizeof *h);
    *out = NULL;
    if (!h)
        return ctr_fail_nomem(err, sizeof *h);
    h->o = *o;
    h->second = past;
    h->budget = ctr_relation_memory(o->memory_bytes);
    int rc = start(h, events, past_name, err);
    if (!rc)
        rc = make_columns(h, err);
    h->o.columns = h->o.counts = NULL;
    if (rc)
        ctr_history_free(h);
    else
        *out = h;
    return rc;
}

static void free_side(struct side *s, int sets)
{
    ctr_timefeed_free(&s->feed);
    free(s->key);
    free(s->key_start);
    for (int k = 0; s->keys && k < sets; k++)
        ctr_keyvalue_rows_free(&s->keys[k]);
    free(s->keys);
    ctr_buf_free(&s->time);
    ctr_keyvalue_rows_free(&s->who);
}

void ctr_history_free(struct ctr_history *h)
{
    if (!h)
        return;
    for (int i = 0; h->number && i < h->numbers; i++)
        ctr_colbuf_free(&h->number[i]);
    ctr_historylists_free(&h->recent);
    ctr_buf_free(&h->is_behaviour);
    free(h->number);
    free(h->views);
    free(h->column);
    free_side(&h->event, h->sets);
    free_side(&h->past, h->sets);
    ctr_expr_free(h->where);
    ctr_expr_free(h->dwell);
    ctr_feedback_free(&h->counts);
    ctr_batchbuf_free(&h->rest);
    ctr_schema_free(&h->rest_schema);
    ctr_sessions_free(&h->sessions);
    ctr_buf_free(&h->what);
    ctr_part_free(&h->part);
    ctr_schema_free(&h->out);
    free(h);
}

void ctr_history_get_stats(const struct ctr_history *h, struct ctr_history_stats *st)
{
    *st = h->st;
    st->users = h->recent.users.users;
    st->dropped_users = h->recent.users.dropped;
    st->spilled_bytes = h->event.feed.spilled_bytes + h->past.feed.spilled_bytes;
}

/* ---- between runs ---- */

struct types {
    enum ctr_type *value;
    bool *key_text;
};

static void free_types(struct types *t)
{
    free(t->value);
    free(t->key_text);
}

static int past_row(struct ctr_history *h, struct ctr_err *err);

/* What is left of the log of behaviours, a batch at a time: 1; 0: the end. */
static int next_rest(void *ctx, const struct ctr_batch **b, struct ctr_err *err)
{
    struct ctr_history *h = ctx;
    struct side *s = &h->past;
    int rc = past_row(h, err);
    if (rc <= 0)
        return rc;
    rc = ctr_batch_part(&h->part, s->b, s->pos, s->b->rows - s->pos, err);
    s->pos = s->b->rows;
    *b = &h->part.batch;
    return rc ? rc : 1;
}

/* Of an earlier run. */
static int add_rest(void *ctx, const struct ctr_batch *b, struct ctr_err *err)
{
    struct ctr_history *h = ctx;
    int64_t bytes = 0;
    int rc = h->rest_schema.n ? 0 : ctr_schema_copy(&h->rest_schema, &h->past.feed.schema, err);
    for (int i = 0; i < h->rest_schema.n; i++)
        h->rest_schema.f[i].dict = false;
    if (!rc && !h->rest.col)
        rc = ctr_batchbuf_init(&h->rest, &h->rest_schema, err);
    if (!rc)
        rc = ctr_batchbuf_range(&h->rest, b, 0, b->rows, err);
    for (int i = 0; !rc && i < h->rest_schema.n; i++)
        bytes += ctr_col_bytes(ctr_colbuf_view(&h->rest.col[i]), 0, h->rest.col[i].rows);
    if (!rc && bytes > h->budget / 2)
        rc = ctr_fail(err, CTR_ENOMEM,
                      "behaviours behind the last event take more than half of --memory: give more, or each day's own");
    return rc;
}

static int state(struct ctr_history *h, struct ctr_historystate *s, struct types *t, struct ctr_err *err)
{
    const struct side *e = &h->event;
    *t = (struct types){ calloc((size_t)h->columns + 1, sizeof *t->value),
                         calloc((size_t)h->sets + 1, sizeof *t->key_text) };
    for (int v = 0; t->value && v < h->columns; v++)
        t->value[v] = h->recent.list[v].item->type;
    for (int k = 0; t->key_text && k < h->sets; k++)
        t->key_text[k] =
            e->key_start[k + 1] - e->key_start[k] > 1 || e->feed.schema.f[e->key[e->key_start[k]]].type == CTR_UTF8;
    *s = (struct ctr_historystate){ .what = (const char *)h->what.data,
                                    .users = &h->recent.users,
                                    .type = t->value,
                                    .user_text = h->o.user >= 0 && e->feed.schema.f[h->o.user].type == CTR_UTF8,
                                    .key_text = t->key_text,
                                    .texts = &h->recent.texts,
                                    .counts = &h->counts,
                                    .sessions = &h->sessions,
                                    .any = h->began,
                                    .any_null = h->recent.any_null,
                                    .last_ms = h->last_ms,
                                    .past = h->second ? &h->past.feed.schema : NULL,
                                    .learned = h->learned,
                                    .learned_ms = h->learned_ms,
                                    .next_rest = next_rest,
                                    .add_rest = add_rest,
                                    .ctx = h };
    return t->value && t->key_text ? 0 : ctr_fail_nomem(err, (size_t)h->columns * sizeof *t->value);
}

int ctr_history_save(struct ctr_history *h, struct ctr_out *out, struct ctr_err *err)
{
    struct ctr_historystate s;
    struct types types;
    int rc = state(h, &s, &types, err);
    if (!rc)
        rc = ctr_historystate_save(&s, out, err);
    free_types(&types);
    return rc;
}

int ctr_history_restore(struct ctr_history *h, const char *path, struct ctr_err *err)
{
    struct ctr_historystate s;
    struct types types;
    int rc = state(h, &s, &types, err);
    if (!rc)
        rc = ctr_historystate_restore(&s, path, err);
    h->recent.any_null = s.any_null;
    h->began = h->restored = s.any;
    h->last_ms = s.last_ms;
    h->learned = h->past_restored = s.learned;
    h->learned_ms = s.learned_ms;
    free_types(&types);
    return rc;
}

/* The first row of this run. */
static int check_begin(struct ctr_history *h, int64_t t, struct ctr_err *err)
{
    char is[64], was[64];
    if (h->restored && t < h->last_ms) {
        is[ctr_time_iso(is, t)] = was[ctr_time_iso(was, h->last_ms)] = 0;
        return ctr_fail(err, CTR_EDATA,
                        "its first time %s is before %s, where the state ended: give each day once, in their order", is,
                        was);
    }
    h->restored = false;
    return 0;
}

/* Lists of ads of the events (u, a, 2) (u, b, 3), user, ad and time, with a log of the behaviours (u, x, 1) (u, y, 2):
 *
 *     row 0   learn_until(2): x becomes known, y waits, as its time is not below 2. answer_row: [x]
 *     row 1   learn_until(3): y. answer_row: [y, x]
 *
 * Without a second log, (u, a, 1) (u, b, 2) (u, c, 2) (u, d, 3) are answered and then learned, row by row: [] [a] [a]
 * [c, b, a]. b is learned before c is answered, but ctr_behaviours_seen leaves out what is not before the event. */

/* ---- a batch of a log ---- */

static int64_t held_bytes(const struct ctr_history *h)
{
    return ctr_behaviours_bytes(&h->recent.users) + ctr_keyvalue_set_bytes(&h->recent.texts) +
           ctr_feedback_bytes(&h->counts) + ctr_sessions_bytes(&h->sessions);
}

static int check_memory(struct ctr_history *h, int64_t now, struct ctr_err *err)
{
    const int64_t most = h->o.input == CTR_HISTORY_ORDERED ? h->budget : h->budget / 2;
    int rc = ctr_behaviours_sweep(&h->recent.users, now, false, err);
    if (!rc && held_bytes(h) > most)
        rc = ctr_behaviours_sweep(&h->recent.users, now, true, err);
    const int64_t bytes = held_bytes(h);
    h->st.most_bytes = CTR_MAX(h->st.most_bytes, bytes);
    if (rc || bytes <= most)
        return rc;
    return ctr_fail(
        err, CTR_ENOMEM,
        "row %lld: what is known of %lld users and %lld keys takes %s, and --memory allows %s%s; give more, "
        "a smaller %s or %s, or split the log by user (ctr-split --by) %sfor the histories",
        (long long)h->st.rows, (long long)h->recent.users.users, (long long)(h->sets ? h->counts.key[0].n : 0),
        ctr_size_text_beyond((uint64_t)bytes, (uint64_t)most).s, ctr_size_text((uint64_t)most).s,
        h->o.input == CTR_HISTORY_ORDERED ? "" : " (half of it; the other half sorts)",
        ctr_word(h->o.in_plan, "--last"), ctr_word(h->o.in_plan, "--window"), ctr_words(h->o.in_plan, "", "before "));
}

static int64_t *times(const struct side *s)
{
    return (int64_t *)(void *)s->time.data;
}

static int64_t i64_at(const struct ctr_col *c, int64_t i)
{
    c = ctr_col_plain(c, &i);
    return ctr_col_i64(c, i);
}

/* Read times, users and keys of the batch's rows. */
static int take(struct ctr_history *h, struct side *s, const struct ctr_batch *b, struct ctr_err *err)
{
    int rc = ctr_buf_room(&s->time, b->rows, sizeof(int64_t), err);
    s->b = b;
    s->pos = 0;
    for (int64_t i = 0; i < b->rows && !rc; i++)
        times(s)[i] = i64_at(&b->col[s->feed.time], i);
    if (!rc && needs_user(h))
        rc = ctr_keyvalue_read(&s->who, b, &s->user, 1, err);
    for (int k = 0; k < h->sets && !rc; k++)
        rc = ctr_keyvalue_read(&s->keys[k], b, s->key + s->key_start[k], s->key_start[k + 1] - s->key_start[k], err);
    return rc;
}

/* The same for the behaviours' log: determine which rows are behaviours, and reserve room for all. */
static int take_behaviours(struct ctr_history *h, struct side *s, const struct ctr_batch *b, struct ctr_err *err)
{
    int rc = s == &h->past ? take(h, s, b, err) : 0;
    h->is = h->took = NULL;
    if (!rc && h->where)
        rc = ctr_expr_eval(h->where, b, &h->is, err);
    if (!rc && h->dwell)
        rc = ctr_expr_eval(h->dwell, b, &h->took, err);
    if (!rc && b->rows)
        rc = check_memory(h, times(s)[0], err);
    if (!rc && has_lists(h))
        rc = ctr_behaviours_reserve(&h->recent.users, b->rows, err);
    return rc ? rc : ctr_feedback_reserve(&h->counts, b->rows, err);
}

/* ---- what becomes known ---- */

static bool is_behaviour(const struct ctr_history *h, int64_t i)
{
    int64_t at = i;
    if (h->is && (ctr_col_missing(h->is, i) || !ctr_col_i64(ctr_col_plain(h->is, &at), at)))
        return false;
    if (!h->took)
        return true;
    at = i;
    return !ctr_col_missing(h->took, i) && ctr_col_f64(ctr_col_plain(h->took, &at), at) >= (double)h->o.min_dwell_ms;
}

/* `past`: the user's, if it was just seen, else NULL. */
static int learn_row(struct ctr_history *h, const struct side *s, int64_t i, struct ctr_past *past, struct ctr_err *err)
{
    const bool is = is_behaviour(h, i);
    struct ctr_counter unused;
    int rc = 0;

    h->st.behaviours += is;
    for (int k = 0; k < h->sets && !rc && h->second; k++)
        rc = ctr_feedback_get(&h->counts, k, &s->keys[k].row[i], true, &unused, err);
    if (!rc && h->sets)
        ctr_feedback_add(&h->counts, times(s)[i], is);
    if (rc || !is || !has_lists(h) || s->who.row[i].null)
        return rc;
    if (!past)
        past = ctr_behaviours_past(&h->recent.users,
                                   ctr_behaviours_user(&h->recent.users, &s->who.row[i], true, &rc, err));
    return rc ? rc : ctr_historylists_learn(&h->recent, past, s->b, i, times(s)[i], err);
}

/* The first row of that log in this run. */
static int check_past(struct ctr_history *h, struct ctr_err *err)
{
    const struct side *s = &h->past;
    char is[64], was[64];
    if (!h->past_restored || !s->b->rows)
        return 0;
    h->past_restored = false;
    if (times(s)[0] >= h->learned_ms)
        return 0;
    is[ctr_time_iso(is, times(s)[0])] = was[ctr_time_iso(was, h->learned_ms)] = 0;
    ctr_err_file(err, s->feed.name);
    return ctr_fail(
        err, CTR_EDATA,
        "its first time %s is before %s, of behaviours that the state has: give each day once, in their order", is,
        was);
}

/* The next row of the second log: 1, 0: its end. */
static int past_row(struct ctr_history *h, struct ctr_err *err)
{
    struct side *s = &h->past;
    while (!s->b || s->pos == s->b->rows) {
        const struct ctr_batch *b;
        int rc = ctr_timefeed_next(&s->feed, &b, err);
        if (!rc && s->feed.finished)
            return 0;
        if (rc > 0) {
            rc = take_behaviours(h, s, b, err);
            if (!rc)
                rc = check_past(h, err);
        } else if (!rc && !h->rest_taken) {
            h->rest_taken = true;
            rc = h->rest.col ? ctr_timefeed_push(&s->feed, ctr_batchbuf_view(&h->rest), err) : 0;
        } else if (!rc && (rc = ctr_batch_source_next(h->second, &b, err)) > 0) {
            rc = ctr_timefeed_push(&s->feed, b, err);
        } else if (!rc)
            rc = ctr_timefeed_finish(&s->feed, err);
        if (rc)
            return rc;
    }
    return 1;
}

/* Add rows of the second log before t. */
static int learn_until(struct ctr_history *h, int64_t t, struct ctr_err *err)
{
    int rc;
    while ((rc = past_row(h, err)) > 0 && times(&h->past)[h->past.pos] < t) {
        h->learned = true;
        h->learned_ms = times(&h->past)[h->past.pos];
        if ((rc = learn_row(h, &h->past, h->past.pos++, NULL, err)))
            return rc;
    }
    return CTR_MIN(rc, 0);
}

/* ---- answers ---- */

static int answer_lists(struct ctr_history *h, int64_t i, struct ctr_past **past, struct ctr_err *err)
{
    enum { STEP = CTR_BEHAVIOURS_STEP };
    const struct side *s = &h->event;
    const struct ctr_keyvalue *user = &s->who.row[i];
    int rc = 0;

    for (int step = 0; step < 3; step++)
        if (i + (3 - step) * STEP < s->b->rows)
            ctr_behaviours_ahead(&h->recent.users, user + (3 - step) * STEP, step);
    if (!user->null)
        *past = ctr_behaviours_past(&h->recent.users, ctr_behaviours_user(&h->recent.users, user, false, &rc, err));
    const struct ctr_seen seen = ctr_behaviours_seen(&h->recent.users, *past, times(s)[i]);
    h->st.empty += !seen.n;
    h->st.no_user += user->null;
    return rc ? rc : ctr_historylists_answer(&h->recent, &seen, times(s)[i], err);
}

static int answer_counts(struct ctr_history *h, int64_t i, struct ctr_err *err)
{
    const struct side *s = &h->event;
    const struct ctr_counter all = (ctr_feedback_until(&h->counts, times(s)[i]), h->counts.all);
    int rc = 0;
    ctr_feedback_ahead(&h->counts, s->keys, i, s->b->rows);
    for (int k = 0; k < h->sets && !rc; k++) {
        struct ctr_counter c;
        struct ctr_colbuf *to = &h->number[3 * k];
        rc = ctr_feedback_get(&h->counts, k, &s->keys[k].row[i], !h->second, &c, err);
        if (!rc)
            rc = ctr_colbuf_i64(&to[0], c.shown, err);
        if (!rc)
            rc = ctr_colbuf_i64(&to[1], c.clicks, err);
        if (rc)
            break;
        const double p = all.known ? (double)all.clicks / (double)all.known : 0, n = (double)c.known + h->o.prior;
        rc = all.known && n > 0 ? ctr_colbuf_f64(&to[2], ((double)c.clicks + h->o.prior * p) / n, err)
                                : ctr_colbuf_null(&to[2], err);
    }
    return rc;
}

static int answer_session(struct ctr_history *h, int64_t i, struct ctr_err *err)
{
    const struct side *s = &h->event;
    struct ctr_colbuf *to = &h->number[3 * h->sets];
    struct ctr_session is;
    int rc = 0;
    if (s->who.row[i].null) {
        rc = ctr_colbuf_null(&to[0], err);
        return rc ? rc : ctr_colbuf_null(&to[1], err);
    }
    rc = ctr_sessions_next(&h->sessions, &s->who.row[i], times(s)[i], &is, err);
    if (!rc)
        rc = ctr_colbuf_i64(&to[0], is.number, err);
    return rc ? rc : ctr_colbuf_i64(&to[1], is.position, err);
}

static int answer_row(struct ctr_history *h, int64_t i, struct ctr_err *err)
{
    struct ctr_past *past = NULL;
    int rc = h->second ? learn_until(h, times(&h->event)[i], err) : 0;
    if (!rc && has_lists(h))
        rc = answer_lists(h, i, &past, err);
    if (!rc && h->sets)
        rc = answer_counts(h, i, err);
    if (!rc && h->sessions.on)
        rc = answer_session(h, i, err);
    h->st.rows++;
    return rc ? rc : h->second ? 0 : learn_row(h, &h->event, i, past, err);
}

/* ---- all rows of a batch, by several threads ---- */

/* So few items that the lists, which threads hold twice, are one batch of the output. */
static bool by_threads(const struct ctr_history *h)
{
    const struct side *s = &h->event;
    return h->recent.pool && !s->pos && s->b->rows &&
           h->o.last < h->list_bytes / 2 / (int64_t)sizeof(uint64_t) / s->b->rows;
}

/* Counts and sessions go beside the lists. */
static void answer_numbers(void *ctx)
{
    struct ctr_history *h = ctx;
    const bool *is = (const bool *)(const void *)h->is_behaviour.data;
    int rc = 0;
    for (int64_t i = 0; i < h->event.b->rows && !rc; i++) {
        if (h->sets && !(rc = answer_counts(h, i, &h->numbers_err)))
            ctr_feedback_add(&h->counts, times(&h->event)[i], is[i]);
        if (!rc && h->sessions.on)
            rc = answer_session(h, i, &h->numbers_err);
    }
    h->numbers_rc = rc;
}

static int answer_batch(struct ctr_history *h, struct ctr_err *err)
{
    struct side *s = &h->event;
    int64_t behaviours = 0, no_user = 0;
    int rc = ctr_buf_room(&h->is_behaviour, s->b->rows, sizeof(bool), err);
    bool *is = (bool *)(void *)h->is_behaviour.data;
    for (int64_t i = 0; i < s->b->rows && !rc; i++) {
        behaviours += is[i] = is_behaviour(h, i);
        no_user += s->who.row[i].null;
    }
    const struct ctr_historyrows r = { s->b, s->who.row, times(s), is, h->numbers ? answer_numbers : NULL, h };
    if (rc || (rc = ctr_historylists_rows(&h->recent, &r, h->list_bytes / 2 - 1, &h->st.empty, err)) <= 0)
        return rc;
    h->st.rows += s->b->rows;
    h->st.behaviours += behaviours;
    h->st.no_user += no_user;
    s->pos = s->b->rows;
    if (h->numbers && h->numbers_rc)
        *err = h->numbers_err;
    return h->numbers ? h->numbers_rc : 0;
}

/* ---- the stage ---- */

static const struct ctr_schema *schema(const void *history)
{
    return &((const struct ctr_history *)history)->out;
}

static int batch(void *history, const struct ctr_batch *b, struct ctr_err *err)
{
    return ctr_timefeed_push(&((struct ctr_history *)history)->event.feed, b, err);
}

static int finish(void *history, struct ctr_err *err)
{
    return ctr_timefeed_finish(&((struct ctr_history *)history)->event.feed, err);
}

static bool full(const struct ctr_history *h)
{
    for (int i = 0; i < h->recent.lists; i++) {
        const struct ctr_colbuf *item = h->recent.list[i].item; /* of empty texts only the offsets grow */
        if ((int64_t)(item->data.len + item->offsets.len) >= h->list_bytes)
            return true;
    }
    return false;
}

static int give(struct ctr_history *h, int64_t from, const struct ctr_batch **out, struct ctr_err *err)
{
    const struct side *s = &h->event;
    const int n = s->b->schema->n;
    int rc = ctr_batch_part(&h->part, s->b, from, s->pos - from, err);
    if (rc)
        return rc;
    memcpy(h->views, h->part.batch.col, (size_t)n * sizeof *h->views);
    for (int i = 0; i < h->recent.lists; i++)
        h->views[n + i] = *ctr_colbuf_view(&h->recent.list[i]);
    for (int i = 0; i < h->numbers; i++)
        h->views[n + h->recent.lists + i] = *ctr_colbuf_view(&h->number[i]);
    h->batch = (struct ctr_batch){ &h->out, s->pos - from, s->b->first_row + from, h->views };
    *out = &h->batch;
    return 1;
}

static int next(void *history, const struct ctr_batch **out, struct ctr_err *err)
{
    struct ctr_history *h = history;
    struct side *s = &h->event;
    int rc = 0;

    if (!s->b || s->pos == s->b->rows) {
        const struct ctr_batch *b;
        if ((rc = ctr_timefeed_next(&s->feed, &b, err)) <= 0) {
            s->b = NULL;
            if (!rc && s->feed.finished && h->o.save && !h->saved) {
                h->saved = true;
                rc = h->o.save(h->o.save_ctx, h, err);
            }
            return rc;
        }
        rc = take(h, s, b, err);
        if (!rc && b->rows)
            rc = check_begin(h, times(s)[0], err);
        if (!rc && b->rows) {
            h->began = true;
            h->last_ms = times(s)[b->rows - 1];
        }
        if (!rc && !h->second)
            rc = take_behaviours(h, s, b, err);
    }
    ctr_historylists_clear(&h->recent);
    for (int i = 0; i < h->numbers; i++)
        ctr_colbuf_clear(&h->number[i]);
    const int64_t from = s->pos;
    if (!rc && by_threads(h))
        rc = answer_batch(h, err);
    for (; !rc && s->pos < s->b->rows && (s->pos == from || !full(h)); s->pos++)
        rc = answer_row(h, s->pos, err);
    return rc ? rc : give(h, from, out, err);
}

static void free_history(void *history)
{
    ctr_history_free(history);
}

int ctr_history_source(struct ctr_batch_source *s, struct ctr_history *h, struct ctr_err *err)
{
    static const struct ctr_push_ops ops = { schema, batch, finish, next, free_history };
    return ctr_batch_source_push(s, &ops, h, err);
}
