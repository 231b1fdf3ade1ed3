/* SPDX-License-Identifier: Apache-2.0
 *
 * flow: runs statements as stages. First, from the last statement to the first, it determines the columns that are
 * needed; then it opens the views with these columns and stacks the stages in statement order. */
#include "common/rows/flowcore.h"

#include <stdarg.h>
#include <stdlib.h>

/* A queue between two stages. */
struct link {
    char name[64]; /* of the stage before it */
    struct ctr_stage_times times;
    int behind; /* index of the link after the stage that it feeds; -1: the caller */
};

/* Record when stages waited, if requested: two records per link, and two for the last stage. */
static int keep_waits(struct ctr_stage_times *t, struct ctr_err *err)
{
    t->blocked = calloc(1, sizeof *t->blocked);
    t->starved = calloc(1, sizeof *t->starved);
    return t->blocked && t->starved ? 0 : ctr_fail_nomem(err, sizeof *t->blocked);
}

static void free_waits(struct ctr_stage_times *t)
{
    free(t->blocked);
    free(t->starved);
    t->blocked = t->starved = NULL;
}

struct joined {
    struct ctr_join *join; /* of the source */
    int statement;
};

struct flow {
    struct ctr_batch_source below; /* the stages so far */
    const struct ctr_plan *plan;
    struct ctr_flow_opts o;
    struct flow_view *view; /* one per statement; empty for those without a view */
    struct ctr_strs *wants; /* one per statement: the columns needed from its view */
    struct ctr_strs *later; /* one per statement: the columns that anything after it reads */
    bool drops;             /* stages leave out what is not among them */
    struct joined *join;
    struct ctr_select **exploded; /* one per statement */
    struct ctr_history **history; /* one per statement */
    struct ctr_group **group;     /* one per statement; of a join, of its view */
    struct ctr_sort **sort;       /* one per statement */
    bool *failed;                 /* one per statement */
    struct ctr_conditions where;  /* of the rows of `from`: the statements `where` that follow it */
    int n, joins;
    int64_t memory_bytes; /* what is left for … */
    int holders;          /* … the statements to come that hold rows */
    struct link *link;
    int links;
    const struct ctr_flow_views *files; /* while the views are opened */
    bool pruned;                        /* columns that nothing reads are left out */
    bool threads, regular;              /* regular: all views can be reopened */
    int64_t start_ns, opened_ns; /* when it was begun to open the views; when all sides that joins hold were read */
    bool whole;                  /* the end has been reached */
};

static void CTR_PRINTF(3, 4) say(const struct flow *f, void (*to)(void *ctx, const char *text), const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    if (!to)
        return;
    va_start(ap, fmt);
    ctr_vformat(text, sizeof text, fmt, ap);
    va_end(ap);
    to(f->o.ctx, text);
}

/* For example, the plan
 *
 *     from log                 statement 0 }  on a thread of their own: link "read"
 *     where day >= 3                     1 }
 *     join ads on ad                     2    on another: link "join"
 *     label click                             the caller, to whom ctr_flow_open gives the rows as a source
 *     feature user, brand
 *
 * is gone through twice. Backwards (find_wants): the features want click, user and brand, of which the view ads may
 * have each, so all three and its key are wanted of it; from the log these, the key ad, and day for the condition.
 * A name that the view lacks is left out when it is opened; where no view has a name, all columns are read, so that the
 * error can name the nearest. Forwards (make_stages): each statement puts its stage on f->below; drop_columns leaves
 * out what nothing behind it reads, such as day after statement 1. Statements that hold rows share --memory: each takes
 * an even share of what those before it left. */

/* ---- which columns anything reads ---- */

static int want(struct ctr_strs *to, const char *name, struct ctr_err *err)
{
    return ctr_strs_find(to, name) >= 0 ? 0 : ctr_strs_add(to, name, strlen(name), err);
}

static int want_all(struct ctr_strs *to, const struct ctr_strs *names, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < names->n; i++)
        rc = want(to, names->s[i], err);
    return rc;
}

/* No statement above needs to give this column: another one makes it. */
static int unwant(struct ctr_strs *from, const char *name, struct ctr_err *err)
{
    struct ctr_strs rest = { 0 };
    int rc = 0;
    for (int i = 0; !rc && i < from->n; i++)
        if (strcmp(from->s[i], name) != 0)
            rc = ctr_strs_add(&rest, from->s[i], strlen(from->s[i]), err);
    ctr_strs_free(from);
    *from = rest;
    return rc;
}

/* Of the names needed after a join, those that its view may provide. */
static int want_of_view(struct ctr_strs *to, const struct ctr_plan_statement *s, const struct ctr_strs *wanted,
                        struct ctr_err *err)
{
    const char *prefix = ctr_stage_option(s, "prefix");
    const size_t n = prefix ? strlen(prefix) : 0;
    int rc = want_all(to, &s->view_inputs, err);
    for (int i = 0; !rc && i < wanted->n && !ctr_stage_option(s, "group-key"); i++)
        if (!n || !strncmp(wanted->s[i], prefix, n))
            rc = want(to, wanted->s[i] + n, err);
    return rc;
}

/* What a statement makes, nothing above it needs to give. */
static int unwant_made(struct ctr_strs *wanted, const struct ctr_plan_statement *s, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < s->n; i++) {
        const char *eq = strcmp(s->option[i].name, "add") ? NULL : strchr(s->option[i].text, '=');
        char name[512];
        if (eq && (size_t)(eq - s->option[i].text) < sizeof name) {
            memcpy(name, s->option[i].text, (size_t)(eq - s->option[i].text));
            name[eq - s->option[i].text] = 0;
            rc = unwant(wanted, name, err);
        }
    }
    return rc;
}

static int find_wants(struct flow *f, struct ctr_err *err)
{
    struct ctr_strs wanted = { 0 };
    int rc = want_all(&wanted, ctr_plan_inputs(f->plan), err);
    for (int i = f->n - 1; !rc && i >= 0; i--) {
        const struct ctr_plan_statement *s = ctr_plan_statement(f->plan, i);
        rc = want_all(&f->later[i], &wanted, err);
        if (!rc && s->kind == CTR_STATEMENT_JOIN)
            rc = want_of_view(&f->wants[i], s, &wanted, err);
        if (!rc && s->kind == CTR_STATEMENT_HISTORY)
            rc = want_all(&f->wants[i], &s->view_inputs, err);
        if (!rc && (s->kind == CTR_STATEMENT_FROM || s->kind == CTR_STATEMENT_UNION))
            rc = want_all(&f->wants[i], &wanted, err);
        if (s->kind == CTR_STATEMENT_GROUP)
            ctr_strs_free(&wanted); /* it outputs only its own columns */
        if (!rc && s->kind == CTR_STATEMENT_ADD)
            rc = unwant(&wanted, s->adds, err);
        if (!rc && s->kind == CTR_STATEMENT_EACH)
            rc = unwant_made(&wanted, s, err);
        if (!rc)
            rc = want_all(&wanted, &s->inputs, err);
        if (!rc && s->kind == CTR_STATEMENT_FROM)
            rc = want_all(&f->wants[i], &s->inputs, err);
    }
    ctr_strs_free(&wanted);
    return rc;
}

/* ---- views ---- */

/* What the rows of the first view must be to come past the statements right behind it. */
static int find_where(struct flow *f, struct ctr_err *err)
{
    const struct ctr_plan_statement *s;
    int rc = 0;
    for (int i = 1; !rc && (s = ctr_plan_statement(f->plan, i)) && s->kind == CTR_STATEMENT_WHERE; i++) {
        struct ctr_conditions one;
        rc = ctr_expr_conditions(&one, s->text, err);
        if (!rc)
            rc = ctr_conditions_and(&f->where, &one, err);
        ctr_conditions_free(&one);
    }
    return rc;
}

/* `left`: the rows that the statement is given, if they are known. */
static int open_view(struct flow *f, int i, bool again, const struct ctr_schema *left, struct ctr_err *err)
{
    const struct ctr_plan_statement *s = ctr_plan_statement(f->plan, i);
    f->view[i].quiet = again;
    f->view[i].side = (struct flow_side){ f->plan, f->view, i, left, i ? NULL : &f->where };
    int rc = ctr_flow_view_open(&f->view[i], &s->view, f->files, f->pruned ? &f->wants[i] : NULL, &f->o, err);
    if (rc == CTR_EUSAGE && s->view.format)
        rc = ctr_plan_at_statement(f->plan, i, err);
    return rc;
}

static int open_views(struct flow *f, bool again, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < f->n; i++) {
        if (!ctr_plan_statement(f->plan, i)->view.name)
            continue;
        rc = open_view(f, i, again, NULL, err);
        f->regular = f->regular && !rc && f->view[i].regular;
    }
    return rc;
}

/* The other side of a key is known now. */
static int settle_keys(struct flow *f, int i, const struct ctr_schema *left, struct ctr_err *err)
{
    if (!f->view[i].guessed || !f->view[i].regular)
        return 0;
    ctr_flow_view_close(&f->view[i]);
    return open_view(f, i, true, left, err);
}

static void close_views(struct flow *f)
{
    for (int i = 0; i < f->n; i++)
        if (f->view[i].view)
            ctr_flow_view_close(&f->view[i]);
}

static bool has(const struct flow *f, int i, const char *name)
{
    return f->view[i].view && ctr_schema_find(ctr_batch_source_schema(&f->view[i].source), name) >= 0;
}

/* Does any view have a column that a join outputs under this name? */
static bool any_has(const struct flow *f, const char *name)
{
    bool any = false;
    for (int i = 0; i < f->n; i++) {
        const char *prefix = ctr_stage_option(ctr_plan_statement(f->plan, i), "prefix");
        const size_t n = prefix ? strlen(prefix) : 0;
        any |= ctr_plan_statement(f->plan, i)->kind != CTR_STATEMENT_HISTORY &&
               !strncmp(name, prefix ? prefix : "", n) && has(f, i, name + n);
        any |= ctr_flow_makes(ctr_plan_statement(f->plan, i), name);
    }
    return any;
}

/* Do all needed columns exist? If not, no column is left out, so that the error can name the nearest column. */
static bool complete(const struct flow *f)
{
    const struct ctr_strs *in = ctr_plan_inputs(f->plan);
    bool all = true;
    for (int i = 0; i < in->n; i++)
        all &= any_has(f, in->s[i]) || ctr_plan_can_lack(f->plan, in->s[i]);
    for (int i = 0; i < f->n; i++) {
        const struct ctr_plan_statement *s = ctr_plan_statement(f->plan, i);
        if (s->kind == CTR_STATEMENT_HISTORY) /* otherwise by role */
            all &= ctr_stage_option(s, "time") &&
                   (ctr_stage_option(s, "user") ||
                    !(ctr_stage_option(s, "columns") || ctr_stage_option(s, "age") || ctr_stage_option(s, "session")));
        for (int k = 0; k < s->inputs.n; k++)
            all &= any_has(f, s->inputs.s[k]);
        for (int k = 0; k < s->view_inputs.n; k++)
            all &= has(f, i, s->view_inputs.s[k]);
    }
    return all;
}

/* ---- shares of the memory ---- */

/* Does the statement hold rows in memory: a join whose side is read first or grouped, a history, a group, a sort? */
static bool holds(const struct ctr_plan_statement *s)
{
    return (s->kind > CTR_STATEMENT_JOIN && s->kind != CTR_STATEMENT_UNION) ||
           (s->kind == CTR_STATEMENT_JOIN &&
            (ctr_stage_option(s, "group-key") || (!ctr_stage_option(s, "merge") && !ctr_stage_option(s, "by-row"))));
}

/* The next of them gets an even share of what is left. */
static int64_t next_share(const struct flow *f)
{
    return CTR_MAX(f->memory_bytes / CTR_MAX(f->holders, 1), 1);
}

static void take_share(struct flow *f, int64_t bytes)
{
    f->memory_bytes -= CTR_MIN(bytes, next_share(f));
    f->holders--;
}

static void start_shares(struct flow *f)
{
    f->memory_bytes = ctr_relation_memory(f->o.memory_bytes);
    for (int i = 0; i < f->n; i++)
        f->holders += holds(ctr_plan_statement(f->plan, i));
}

/* ---- stages ---- */

/* Run *s on its own thread. `first`: the links from there on feed it. */
static int on_thread(struct flow *f, struct ctr_batch_source *s, int first, const char *what, const char *name,
                     struct ctr_err *err)
{
    struct link *l = &f->link[f->links];
    if (!f->threads)
        return 0;
    ctr_format(l->name, sizeof l->name, "%s%s%s", what, name ? " " : "", name ? name : "");
    l->behind = -1;
    for (int i = first; i < f->links; i++)
        if (f->link[i].behind < 0)
            f->link[i].behind = f->links;
    f->links++;
    if (f->o.time_line && keep_waits(&l->times, err))
        return err->code;
    return ctr_batch_source_queue(s, f->o.queue, &l->times, err);
}

static int select_stage(struct flow *f, int i, const struct ctr_plan_statement *s, struct ctr_err *err)
{
    struct ctr_strs add = { 0 };
    const struct ctr_lookups lookups = ctr_plan_lookups(f->plan);
    const struct ctr_select_spec spec = { .where = s->kind == CTR_STATEMENT_WHERE ? s->text : NULL,
                                          .add = &add,
                                          .explode = s->kind == CTR_STATEMENT_EXPLODE ? s->text : NULL,
                                          .lookups = &lookups,
                                          .part_bytes = (f->o.memory_bytes + 15) / 16,
                                          .in_plan = true };
    struct ctr_buf line = { 0 };
    int rc = ctr_buf_printf(&line, err, "--%s=%s", ctr_flow_select_option(s), s->text);
    if (!rc)
        rc = ctr_buf_append(&line, "", 1, err);
    if (!rc && s->adds)
        rc = ctr_strs_add(&add, s->text, strlen(s->text), err);
    if (!rc)
        rc = ctr_select_source(&f->below, &spec, &f->exploded[i], err);
    if (!rc)
        rc = ctr_batch_source_provenance(&f->below, "ctr-select", (const char *)line.data, err);
    ctr_strs_free(&add);
    ctr_buf_free(&line);
    return rc;
}

static int join_options(const struct flow *f, const struct ctr_plan_statement *s, struct ctr_join_opts *jo,
                        struct ctr_err *err)
{
    const char *within = ctr_stage_option(s, "within"), *as_of = ctr_stage_option(s, "as-of"),
               *next = ctr_stage_option(s, "next");
    const bool inner = ctr_stage_option(s, "inner"), anti = ctr_stage_option(s, "anti"),
               merge = ctr_stage_option(s, "merge"), by_row = ctr_stage_option(s, "by-row");
    *jo = (struct ctr_join_opts){
        .keys = ctr_stage_option(s, "key"),
        .kind = inner  ? CTR_JOIN_INNER
                : anti ? CTR_JOIN_ANTI
                       : CTR_JOIN_LEFT,
        .how = by_row  ? CTR_JOIN_BY_ROW
               : merge ? CTR_JOIN_MERGE
                       : CTR_JOIN_HASH,
        .multi = ctr_stage_option(s, "multi"),
        .at = as_of  ? CTR_JOIN_AS_OF
              : next ? CTR_JOIN_NEXT
                     : CTR_JOIN_NO_TIME,
        .time = as_of ? as_of : next,
        .inclusive = ctr_stage_option(s, "inclusive"),
        .once = !ctr_stage_option(s, "once")   ? CTR_JOIN_EACH
                : ctr_stage_option(s, "first") ? CTR_JOIN_ONCE_FIRST
                                               : CTR_JOIN_ONCE_LAST,
        .within_ms = -1,
        .prefix = ctr_stage_option(s, "prefix"),
        .memory_bytes = ctr_stage_option(s, "group-key") ? CTR_MAX(next_share(f) / 2, 1) : next_share(f),
        .batch_rows = f->o.batch_rows,
        .threads = f->o.threads,
        .in_plan = true,
    };
    if (within && !ctr_parse_duration(within, strlen(within), &jo->within_ms))
        return ctr_fail(err, CTR_EUSAGE, "within %s is no time", within);
    if (!jo->keys && !jo->at && !by_row)
        return ctr_fail(err, CTR_EUSAGE, "say what to join %s on: on COLUMN, or by-row", s->view.name);
    if ((inner && anti) || (as_of && next) || (merge && by_row))
        return ctr_fail(err, CTR_EUSAGE, "%s exclude each other",
                        inner && anti   ? "inner and anti"
                        : as_of && next ? "as-of and next"
                                        : "by-row and merge");
    return 0;
}

static int provenance(struct flow *f, const char *filter, const struct ctr_plan_statement *s, struct ctr_err *err)
{
    struct ctr_buf line = { 0 };
    int rc = 0;
    for (int i = 0; !rc && i < s->n; i++)
        if (strncmp(s->option[i].name, "group-", 6) != 0) /* the view's */
            rc = ctr_buf_printf(&line, err, "%s--%s%s%s", line.len ? " " : "", s->option[i].name,
                                *s->option[i].text ? "=" : "", s->option[i].text);
    if (!rc)
        rc = ctr_buf_append(&line, "", 1, err);
    if (!rc)
        rc = ctr_batch_source_provenance(&f->below, filter, (const char *)line.data, err);
    ctr_buf_free(&line);
    return rc;
}

/* Run the rows so far on their own thread, and the view of a streaming join on another. */
static int group_view(struct flow *f, int i, const struct ctr_plan_statement *s, struct ctr_err *err);

static int join_stage(struct flow *f, int i, const struct ctr_plan_statement *s, struct ctr_err *err)
{
    struct ctr_batch_source *view = &f->view[i].source;
    struct ctr_join_opts jo;
    struct ctr_join *j = NULL;
    const bool streams = ctr_stage_option(s, "merge") || ctr_stage_option(s, "by-row");
    int rc = join_options(f, s, &jo, err);
    if (!rc)
        rc = settle_keys(f, i, ctr_batch_source_schema(&f->below), err);
    if (!rc && ctr_stage_option(s, "group-key"))
        rc = group_view(f, i, s, err);
    if (!rc && streams)
        rc = on_thread(f, view, f->links, "read", s->view.name, err);
    if (!rc)
        rc = ctr_join_new(&j, ctr_batch_source_schema(&f->below), view, s->view.name, &jo, err);
    if (!rc && (rc = ctr_join_source(&f->below, j, err)))
        ctr_join_free(j);
    if (!rc) {
        f->join[f->joins++] = (struct joined){ j, i };
        if (holds(s))
            take_share(f, ctr_stage_option(s, "group-key") ? next_share(f) : ctr_join_memory(j));
        rc = provenance(f, "ctr-join", s, err);
    }
    return rc;
}

static int read_duration(const struct ctr_plan_statement *s, const char *option, int64_t *ms, struct ctr_err *err)
{
    const char *text = ctr_stage_option(s, option);
    if (!text || ctr_parse_duration(text, strlen(text), ms))
        return 0;
    return ctr_fail(err, CTR_EUSAGE, "%s %s is no time", option, text);
}

static int history_options(const struct flow *f, const struct ctr_plan_statement *s, struct ctr_history_opts *ho,
                           struct ctr_err *err)
{
    const char *user = ctr_stage_option(s, "user"), *time = ctr_stage_option(s, "time"), *order, *last, *prior;
    const struct ctr_schema *schema = ctr_batch_source_schema(&f->below);
    const bool lists = ctr_stage_option(s, "columns") || ctr_stage_option(s, "age"),
               users = lists || ctr_stage_option(s, "session");
    int rc = 0;
    *ho = (struct ctr_history_opts){ CTR_HISTORY_USUAL };
    ho->time = time ? ctr_schema_need(schema, time, err) : ctr_schema_role(schema, CTR_ROLE_TIME);
    if (time && ho->time < 0)
        return ho->time;
    ho->user = user ? ctr_schema_need(schema, user, err) : users ? ctr_schema_role(schema, CTR_ROLE_USER) : -1;
    if (user && ho->user < 0)
        return ho->user;
    if (ho->time < 0 || (users && ho->user < 0))
        return ctr_fail(err, CTR_EUSAGE, "say which column is the %s: %s COLUMN", ho->time < 0 ? "time" : "user",
                        ho->time < 0 ? "at" : "by");
    if (!users && !ctr_stage_option(s, "count"))
        return ctr_fail(err, CTR_EUSAGE,
                        "nothing to add: history COLUMN, … lists behaviours, count KEY counts them, "
                        "session GAP numbers sessions");
    ho->where = ctr_stage_option(s, "where");
    if (ctr_stage_option(s, "count") && !ho->where)
        return ctr_fail(err, CTR_EUSAGE, "count needs where: which rows are clicks?");
    ho->dwell = ctr_stage_option(s, "dwell");
    ho->age = ctr_stage_option(s, "age");
    ho->group = ctr_stage_option(s, "group");
    ho->oldest_first = (order = ctr_stage_option(s, "order")) && !strcmp(order, "oldest");
    if ((last = ctr_stage_option(s, "last")) && (!ctr_parse_i64(last, strlen(last), &ho->last) || ho->last < 1))
        return ctr_fail(err, CTR_EUSAGE, "last wants a number of behaviours, 1 or more");
    if ((prior = ctr_stage_option(s, "prior")) && (!ctr_parse_f64(prior, strlen(prior), &ho->prior) || ho->prior < 0))
        return ctr_fail(err, CTR_EUSAGE, "prior is a number of rows, 0 or more");
    const struct {
        const char *option;
        int64_t *ms;
    } times[] = { { "window", &ho->window_ms },   { "min-dwell", &ho->min_dwell_ms },
                  { "delay", &ho->delay_ms },     { "count-window", &ho->count_window_ms },
                  { "session", &ho->session_ms }, { "lateness", &ho->lateness_ms } };
    for (size_t i = 0; i < CTR_COUNT(times) && !rc; i++)
        rc = read_duration(s, times[i].option, times[i].ms, err);
    ho->input = ctr_stage_option(s, "sort") ? CTR_HISTORY_SORT
                : ho->lateness_ms >= 0      ? CTR_HISTORY_LATE
                                            : CTR_HISTORY_ORDERED;
    if (!rc && ho->input == CTR_HISTORY_SORT && ho->lateness_ms >= 0)
        rc = ctr_fail(err, CTR_EUSAGE, "sort and lateness exclude each other");
    ho->memory_bytes = next_share(f);
    ho->batch_rows = f->o.batch_rows;
    ho->threads = f->o.threads;
    ho->in_plan = true;
    return rc;
}

static int one_text(struct ctr_strs *to, const char *text, struct ctr_err *err)
{
    return text ? ctr_strs_add(to, text, strlen(text), err) : 0;
}

static int history_stage(struct flow *f, int i, const struct ctr_plan_statement *s, struct ctr_err *err)
{
    struct ctr_strs columns = { 0 }, counts = { 0 };
    const struct ctr_lookups lookups = ctr_plan_lookups(f->plan);
    struct ctr_history_opts ho;
    int rc = history_options(f, s, &ho, err);
    if (!rc)
        rc = one_text(&columns, ctr_stage_option(s, "columns"), err);
    if (!rc)
        rc = one_text(&counts, ctr_stage_option(s, "count"), err);
    ho.columns = &columns;
    ho.counts = &counts;
    ho.lookups = &lookups;
    if (!rc && s->view.name)
        rc = settle_keys(f, i, ctr_batch_source_schema(&f->below), err);
    if (!rc && s->view.name)
        rc = on_thread(f, &f->view[i].source, f->links, "read", s->view.name, err);
    if (!rc)
        rc = ctr_history_new(&f->history[i], ctr_batch_source_schema(&f->below),
                             s->view.name ? &f->view[i].source : NULL, s->view.name ? s->view.name : "", &ho, err);
    if (!rc && (rc = ctr_history_source(&f->below, f->history[i], err)))
        ctr_history_free(f->history[i]);
    take_share(f, next_share(f));
    ctr_strs_free(&columns);
    ctr_strs_free(&counts);
    return rc ? rc : provenance(f, "ctr-history", s, err);
}

/* Group a source by the options with these names. */
static int group_rows(struct flow *f, int i, const struct ctr_plan_statement *s, struct ctr_batch_source *rows,
                      const char *key, const char *add_name, int64_t memory_bytes, struct ctr_err *err)
{
    struct ctr_strs keys = { 0 }, add = { 0 };
    const struct ctr_group_opts go = { .keys = &keys,
                                       .add = &add,
                                       .memory_bytes = memory_bytes,
                                       .batch_rows = f->o.batch_rows,
                                       .threads = f->o.threads,
                                       .in_plan = true };
    int rc = one_text(&keys, ctr_stage_option(s, key), err);
    for (int k = 0; !rc && k < s->n; k++)
        if (!strcmp(s->option[k].name, add_name))
            rc = one_text(&add, s->option[k].text, err);
    if (!rc)
        rc = s->kind == CTR_STATEMENT_EACH ? ctr_group_each_source(rows, &go, ctr_stage_option(s, "as-of"), err)
                                           : ctr_group_source(rows, &go, &f->group[i], err);
    ctr_strs_free(&keys);
    ctr_strs_free(&add);
    return rc;
}

static int group_view(struct flow *f, int i, const struct ctr_plan_statement *s, struct ctr_err *err)
{
    return group_rows(f, i, s, &f->view[i].source, "group-key", "group-add", CTR_MAX(next_share(f) / 2, 1), err);
}

static int group_stage(struct flow *f, int i, const struct ctr_plan_statement *s, struct ctr_err *err)
{
    const int rc = group_rows(f, i, s, &f->below, "key", "add", next_share(f), err);
    take_share(f, next_share(f));
    return rc ? rc : provenance(f, "ctr-group", s, err);
}

static int sort_stage(struct flow *f, int i, const struct ctr_plan_statement *s, struct ctr_err *err)
{
    struct ctr_strs keys = { 0 };
    const struct ctr_sort_opts so = { .keys = &keys,
                                      .unique = s->kind == CTR_STATEMENT_UNIQUE,
                                      .memory_bytes = next_share(f),
                                      .batch_rows = f->o.batch_rows,
                                      .threads = f->o.threads };
    int rc = one_text(&keys, ctr_stage_option(s, "key"), err);
    if (!rc)
        rc = ctr_sort_source(&f->below, &so, &f->sort[i], err);
    take_share(f, next_share(f));
    ctr_strs_free(&keys);
    return rc ? rc : provenance(f, "ctr-sort", s, err);
}

static int union_stage(struct flow *f, int i, const struct ctr_plan_statement *s, struct ctr_err *err)
{
    int rc = settle_keys(f, i, ctr_batch_source_schema(&f->below), err);
    if (!rc)
        rc = ctr_union_source(&f->below, &f->view[i].source, err);
    return rc ? rc : provenance(f, "ctr-cat", s, err);
}

/* Leave out what nothing after statement i reads, before the next statement copies it. */
static int drop_columns(struct flow *f, int i, struct ctr_err *err)
{
    const struct ctr_schema *s = ctr_batch_source_schema(&f->below);
    if (!f->drops)
        return 0;
    int *column = malloc(((size_t)s->n + 1) * sizeof *column), n = 0;
    if (!column)
        return ctr_fail_nomem(err, (size_t)s->n * sizeof *column);
    for (int c = 0; c < s->n; c++)
        if (ctr_strs_find(&f->later[i], s->f[c].name) >= 0)
            column[n++] = c;
    if (!n && s->n)
        column[n++] = 0; /* for the number of rows */
    const int rc = n < s->n ? ctr_batch_source_project(&f->below, column, n, err) : 0;
    free(column);
    return rc;
}

static int make_stages(struct flow *f, struct ctr_err *err)
{
    bool reading = true; /* no join so far */
    start_shares(f);
    f->below = f->view[0].source;
    f->view[0].source.ops = NULL;
    int rc = 0;
    for (int i = 1; !rc && i < f->n; i++) {
        const struct ctr_plan_statement *s = ctr_plan_statement(f->plan, i);
        const bool join = s->kind >= CTR_STATEMENT_JOIN; /* or another stage that is not part of reading */
        static int (*const stage[])(struct flow *, int, const struct ctr_plan_statement *, struct ctr_err *) = {
            [CTR_STATEMENT_WHERE] = select_stage,    [CTR_STATEMENT_ADD] = select_stage,
            [CTR_STATEMENT_EXPLODE] = select_stage,  [CTR_STATEMENT_JOIN] = join_stage,
            [CTR_STATEMENT_HISTORY] = history_stage, [CTR_STATEMENT_GROUP] = group_stage,
            [CTR_STATEMENT_EACH] = group_stage,      [CTR_STATEMENT_SORT] = sort_stage,
            [CTR_STATEMENT_UNIQUE] = sort_stage,     [CTR_STATEMENT_UNION] = union_stage,
        };
        if (join && reading)
            rc = on_thread(f, &f->below, f->links, "read", f->view[0].view->name, err);
        reading = reading && !join;
        if (!rc && (rc = stage[s->kind](f, i, s, err)))
            rc = ctr_flow_fault(f->plan, i, &f->view[i], false, err);
        if (!rc)
            rc = drop_columns(f, i, err);
        if (!rc)
            rc = ctr_flow_faulty(&f->below, f->plan, i, &f->view[i], f->failed, err);
    }
    return rc ? rc : on_thread(f, &f->below, 0, reading ? "read" : "join", reading ? f->view[0].view->name : NULL, err);
}

/* ---- words ---- */

static void tell_rows(const struct flow *f)
{
    for (int i = 0; i < f->joins; i++) {
        const char *name = ctr_plan_statement(f->plan, f->join[i].statement)->view.name;
        struct ctr_join_stats st;
        ctr_join_get_stats(f->join[i].join, &st);
        if (!ctr_stage_option(ctr_plan_statement(f->plan, f->join[i].statement), "by-row"))
            say(f, f->o.note, "join %s: %lld of %lld rows have no match; %lld of its %lld rows match none of them",
                name, (long long)st.unmatched, (long long)st.left_rows, (long long)st.right_unmatched,
                (long long)st.right_rows);
        if (st.left_rows && st.unmatched == st.left_rows && *ctr_join_first(f->join[i].join, true))
            say(f, f->o.note, "join %s: no row has a match: the first key here is %s, the first in it is %s%s", name,
                ctr_join_first(f->join[i].join, false), ctr_join_first(f->join[i].join, true),
                ctr_join_suspect(f->join[i].join));
        if (st.given_up)
            say(f, f->o.note, "join %s: %lld rows have no match because another row has it", name,
                (long long)st.given_up);
        if (st.out_rows > st.left_rows && st.left_rows)
            say(f, f->o.debug, "join %s: %lld rows of %lld, %.1f for each", name, (long long)st.out_rows,
                (long long)st.left_rows, (double)st.out_rows / (double)st.left_rows);
        if (st.partitions)
            say(f, f->o.debug, "join %s: %lld partitions, %s spilled", name, (long long)st.partitions,
                ctr_size_text((uint64_t)st.spilled_bytes).s);
    }
    for (int i = 0; i < f->n; i++) {
        struct ctr_history_stats st;
        if (f->history[i] && ctr_stage_option(ctr_plan_statement(f->plan, i), "columns")) {
            ctr_history_get_stats(f->history[i], &st);
            say(f, f->o.note, "history: %lld of %lld rows have an empty history, %lld of them no user",
                (long long)st.empty, (long long)st.rows, (long long)st.no_user);
        }
        if (f->exploded[i] && ctr_select_empty(f->exploded[i]))
            say(f, f->o.note, "explode %s: %lld rows had no items and gave no row",
                ctr_plan_statement(f->plan, i)->text, (long long)ctr_select_empty(f->exploded[i]));
        if (f->group[i]) {
            struct ctr_group_stats gs;
            ctr_group_get_stats(f->group[i], &gs);
            say(f, f->o.debug, "group: %lld groups of %lld rows, %s spilled", (long long)gs.groups, (long long)gs.rows,
                ctr_size_text((uint64_t)gs.spilled_bytes).s);
        }
        if (f->sort[i]) {
            struct ctr_sort_stats ss;
            ctr_sort_get_stats(f->sort[i], &ss);
            if (ctr_plan_statement(f->plan, i)->kind == CTR_STATEMENT_UNIQUE)
                say(f, f->o.note, "unique: %lld of %lld rows dropped, their keys came before", (long long)ss.dropped,
                    (long long)ss.rows);
            say(f, f->o.debug, "sort: %lld rows, %s spilled", (long long)ss.rows,
                ctr_size_text((uint64_t)ss.spilled_bytes).s);
        }
        if (f->view[i].import)
            ctr_import_notes(f->view[i].import, "skip", ctr_flow_view_note, ctr_flow_view_note, &f->view[i]);
        else if (f->view[i].parquet)
            ctr_parquet_notes(f->view[i].parquet, ctr_flow_view_note, &f->view[i]);
        else if (f->view[i].matched)
            ctr_matched_notes(f->view[i].matched, ctr_flow_view_note, &f->view[i]);
        else if (f->view[i].reader) {
            struct ctr_reader_stats rs;
            ctr_reader_get_stats(f->view[i].reader, &rs);
            ctr_reader_notes(&rs, ctr_flow_view_note, &f->view[i]);
        }
    }
}

static void tell_bytes(const struct flow *f)
{
    for (int i = 0; i < f->n; i++) {
        struct ctr_parquet_stats st = { 0 };
        char out[80] = "";
        if (f->view[i].parquet)
            ctr_parquet_get_stats(f->view[i].parquet, &st);
        if (st.groups_out)
            ctr_format(out, sizeof out, ", %d row group%s of %lld rows left out", st.groups_out, CTR_S(st.groups_out),
                       (long long)st.rows_out);
        if (f->view[i].reader || f->view[i].import || f->view[i].parquet || f->view[i].matched)
            say(f, f->o.debug, "view %s: %s read, %d of %d columns%s", f->view[i].view->name,
                ctr_size_text((uint64_t)ctr_flow_view_bytes(&f->view[i])).s, f->view[i].read, f->view[i].columns, out);
    }
}

/* A stage waits for the links that feed it, and is blocked by the one after it. */
static void tell_stage(const struct flow *f, int link, const char *name, int64_t ran_ns, int64_t blocked_ns)
{
    int64_t waited_ns = 0;
    for (int i = 0; i < f->links; i++)
        if (f->link[i].behind == link)
            waited_ns += f->link[i].times.starved_ns;
    say(f, f->o.debug, "%s", ctr_stage_text(name, ran_ns, waited_ns, blocked_ns).s);
}

static void tell_times(const struct flow *f)
{
    say(f, f->o.debug, "views opened, and the sides that joins hold read, in %.3f s",
        (double)(f->opened_ns - f->start_ns) / 1e9);
    for (int i = 0; i < f->links; i++)
        if (f->link[i].times.ran_ns) /* else nothing asked for its end: it waits still */
            tell_stage(f, i, f->link[i].name, f->link[i].times.ran_ns, f->link[i].times.blocked_ns);
    if (f->o.threads > 1 && !f->regular)
        say(f, f->o.debug, "a view is not a regular file: one thread reads the views and runs all stages");
    if (f->o.threads <= 1)
        say(f, f->o.debug, "-j 1: one thread reads the views and runs all stages");
    if (!f->links)
        return;
    const int64_t all_ns = ctr_clock_ns() - f->opened_ns;
    const struct ctr_stage_times *last = f->o.last_times;
    tell_stage(f, -1, f->o.last ? f->o.last : "extract", last ? last->ran_ns : all_ns, last ? last->blocked_ns : 0);
    if (last)
        say(f, f->o.debug, "%s", ctr_stage_text(f->o.after, all_ns, last->starved_ns, 0).s);
}

/* Seconds since the flow was opened. */
static double since(const struct flow *f, int64_t ns)
{
    return (double)(ns - f->start_ns) / 1e9;
}

static void tell_waits(const struct flow *f, const char *stage, const char *what, const struct ctr_stage_waits *w)
{
    for (int i = 0; w && i < w->n; i++)
        say(f, f->o.debug, "time line: %s: %s %.6f %.6f", stage, what, since(f, w->from_ns[i]), since(f, w->to_ns[i]));
    if (w && w->n == CTR_STAGE_WAITS)
        say(f, f->o.debug, "time line: %s: %s more than %d times, which are left out", stage, what, w->n);
}

/* `out`: the link after the stage; NULL: it is the last stage, and ends now. */
static void tell_line(const struct flow *f, int link, const char *stage, const struct ctr_stage_times *out)
{
    const int64_t from_ns = out ? out->start_ns : f->opened_ns, to_ns = out ? from_ns + out->ran_ns : ctr_clock_ns();
    say(f, f->o.debug, "time line: %s: ran %.6f %.6f", stage, since(f, from_ns), since(f, to_ns));
    for (int i = 0; i < f->links; i++)
        if (f->link[i].behind == link)
            tell_waits(f, stage, "waiting", f->link[i].times.starved);
    tell_waits(f, stage, "blocked", out ? out->blocked : NULL);
}

static void tell_time_line(const struct flow *f)
{
    const struct ctr_stage_times *last = f->o.last_times;
    say(f, f->o.debug, "time line: open: ran 0.000000 %.6f", since(f, f->opened_ns));
    for (int i = 0; i < f->links; i++)
        if (f->link[i].times.ran_ns)
            tell_line(f, i, f->link[i].name, &f->link[i].times);
    tell_line(f, -1, f->o.last ? f->o.last : "extract", last);
    if (!last)
        return;
    say(f, f->o.debug, "time line: %s: ran %.6f %.6f", f->o.after, since(f, f->opened_ns), since(f, ctr_clock_ns()));
    tell_waits(f, f->o.after, "waiting", last->starved);
}

/* ---- the source ---- */

static int flow_next(void *source, const struct ctr_batch **b, struct ctr_err *err)
{
    struct flow *f = source;
    int rc = ctr_batch_source_next(&f->below, b, err);
    if (rc == CTR_ENOMEM && f->o.memory_bytes)
        ctr_err_add(err, " (statements that hold rows share %s)", ctr_size_text((uint64_t)f->o.memory_bytes).s);
    if (!rc && !f->whole)
        tell_rows(f);
    f->whole |= !rc;
    return rc;
}

static void flow_close(void *source)
{
    struct flow *f = source;
    if (f->whole) {
        tell_bytes(f);
        tell_times(f);
        if (f->o.time_line && f->links)
            tell_time_line(f);
    }
    ctr_batch_source_close(&f->below);
    for (int i = 0; f->link && i < f->links; i++)
        free_waits(&f->link[i].times);
    if (f->o.last_times && f->o.time_line)
        free_waits(f->o.last_times);
    close_views(f);
    for (int i = 0; i < f->n; i++) {
        ctr_strs_free(&f->wants[i]);
        ctr_strs_free(&f->later[i]);
    }
    free(f->view);
    free(f->wants);
    free(f->later);
    free(f->join);
    free(f->exploded);
    free(f->history);
    free(f->group);
    free(f->sort);
    ctr_conditions_free(&f->where);
    free(f->failed);
    free(f->link);
    free(f);
}

static int new_flow(struct flow **out, const struct ctr_plan *plan, const struct ctr_flow_opts *o, struct ctr_err *err)
{
    struct flow *f = *out = calloc(1, sizeof *f);
    if (!f)
        return ctr_fail_nomem(err, sizeof *f);
    f->plan = plan;
    f->o = *o;
    f->o.queue = o->queue ? o->queue : CTR_FLOW_QUEUE;
    f->regular = true;
    f->start_ns = ctr_clock_ns();
    while (ctr_plan_statement(plan, f->n))
        f->n++;
    const size_t n = (size_t)f->n;
    f->view = calloc(n, sizeof *f->view);
    f->wants = calloc(n, sizeof *f->wants);
    f->later = calloc(n, sizeof *f->later);
    f->join = calloc(n, sizeof *f->join);
    f->exploded = calloc(n, sizeof *f->exploded);
    f->history = calloc(n, sizeof *f->history);
    f->group = calloc(n, sizeof *f->group);
    f->sort = calloc(n, sizeof *f->sort);
    f->failed = calloc(n, sizeof *f->failed);
    f->link = calloc(n + 2, sizeof *f->link);
    if (!f->view || !f->wants || !f->later || !f->join || !f->exploded || !f->history || !f->group || !f->sort ||
        !f->failed || !f->link) {
        f->n = 0; /* nothing is open in any of them */
        flow_close(f);
        *out = NULL;
        return ctr_fail_nomem(err, n * sizeof *f->view);
    }
    return 0;
}

/* Open views with the needed columns, or with all if one is missing, unless only `needed`. */
static int open_pruned(struct flow *f, const struct ctr_flow_views *files, bool needed, struct ctr_err *err)
{
    int rc = find_wants(f, err);
    if (!rc)
        rc = find_where(f, err);
    f->files = files;
    f->pruned = true;
    if (!rc)
        rc = open_views(f, needed, err);
    f->drops = !rc && complete(f);
    if (!rc && f->regular && !needed && !f->drops) {
        close_views(f);
        f->pruned = false;
        rc = open_views(f, true, err);
    }
    if (!rc)
        rc = settle_keys(f, 0, NULL, err);
    f->threads = f->regular && f->o.threads > 1 && !ctr_flow_follows(&f->o);
    return rc;
}

static int open_flow(struct flow **out, const struct ctr_plan *plan, const struct ctr_flow_views *views,
                     const struct ctr_flow_opts *o, bool *pruned, struct ctr_err *err)
{
    struct flow *f;
    int rc = new_flow(&f, plan, o, err);
    if (rc)
        return rc;
    rc = ctr_plan_check(plan, err); /* the arguments of a statement with an error are incomplete */
    if (!rc)
        rc = open_pruned(f, views, *pruned, err);
    if (!rc && o->time_line && o->last_times)
        rc = keep_waits(o->last_times, err);
    *pruned = f->pruned;
    if (!rc)
        rc = make_stages(f, err);
    if (rc) {
        flow_close(f);
        return rc;
    }
    f->opened_ns = ctr_clock_ns();
    *out = f;
    return 0;
}

int ctr_flow_open(struct ctr_batch_source *s, const struct ctr_plan *plan, const struct ctr_flow_views *views,
                  const struct ctr_flow_opts *o, struct ctr_err *err)
{
    static const struct ctr_batch_source_ops ops = { NULL, flow_next, NULL, flow_close, NULL };
    struct flow *f = NULL;
    struct ctr_err narrow = { 0 };
    bool pruned = false;
    int rc = open_flow(&f, plan, views, o, &pruned, err);
    /* A column is missing, and all others were to help its message. Those that nothing reads may clash in a join: then
     * the message goes without them. */
    if (rc == CTR_EUSAGE && !pruned) {
        pruned = true;
        rc = open_flow(&f, plan, views, o, &pruned, &narrow) ? rc : 0;
    }
    if (!rc)
        *s = (struct ctr_batch_source){ &ops, f };
    return rc;
}

int ctr_flow_inputs(const struct ctr_plan *plan, const struct ctr_flow_views *views, ctr_flow_each_column *each,
                    void *ctx, struct ctr_err *err)
{
    const struct ctr_flow_opts o = { .threads = 1 };
    struct flow *f;
    int rc = new_flow(&f, plan, &o, err);
    if (rc)
        return rc;
    rc = open_pruned(f, views, false, err);
    for (int i = 0; i < f->n; i++) {
        const struct ctr_schema *s = f->view[i].view && !rc ? ctr_batch_source_schema(&f->view[i].source) : NULL;
        for (int k = 0; s && !rc && k < s->n; k++)
            rc = each(ctx, f->view[i].view->name, s->f[k].name, err);
    }
    flow_close(f);
    return rc;
}
