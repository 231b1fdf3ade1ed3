/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-signals: maintains an index of the signals that models are trained on. Options and wiring; the index is
 * signal.h. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "common/cli/cli.h"
#include "common/model/model.h"
#include "tools/ctr-signals/signal.h"

static struct {
    const char *against;
    const char *db, *definition, *model, *format;
    struct ctr_signal_facts facts;
    struct ctr_strs where;
    struct ctr_stream_check_rules rules;
    const char *reference;
    int64_t older_ms;
    bool json;
} o = { .format = "table", .reference = "last", .rules = CTR_STREAM_CHECK_RULES };

#define LISTINGS "@list|@versions|@consumers|@alerts|@unused|@notes|@vettings"
static const struct ctr_opt opts[] = {
    { "db", 0, CTR_OPT_STR, "FILE", "file of the index (default $CTR_SIGNALS, or signals.db)", &o.db,
      CTR_OPT_PATH | CTR_OPT_BASIC },
    { "owner", 0, CTR_OPT_STR, "WHO", "add: owner of the signals", &o.facts.owner, CTR_OPT_BASIC, .needs = "@add" },
    { "description", 0, CTR_OPT_STR, "TEXT", "add: description of the signals", &o.facts.description, CTR_OPT_BASIC,
      .needs = "@add" },
    { "platform", 0, CTR_OPT_STR, "NAME,…",
      "add: platforms that have the signals (default: all); check: platform to train on", &o.facts.platform,
      CTR_OPT_BASIC, .needs = "@add|@check" },
    { "definition", 0, CTR_OPT_STR, "TEXT", "add: add a signal by hand, with this definition", &o.definition,
      .needs = "@add" },
    { "model", 0, CTR_OPT_STR, "NAME",
      "register: name of the model (default: that of its file); vet: fail if a signal that it consumes is missing",
      &o.model, CTR_OPT_BASIC, .needs = "@register|@vet" },
    { "json", 0, CTR_OPT_FLAG, NULL, "register: read consumers as JSON lines, as `consumers` prints them", &o.json,
      .needs = "@register" },
    { "allow", 0, CTR_OPT_FLAG, NULL, "vet: allow the signals that pass", &o.rules.allow, .needs = "@vet" },
    { "against", 0, CTR_OPT_STR, "FILE", "vet: compare with the stream FILE alone, without an index", &o.against,
      CTR_OPT_PATH | CTR_OPT_BASIC, .needs = "@vet" },
    { "reference", 0, CTR_OPT_CHOICE, "last|median|pinned",
      "vet: compare with the last vetting that passed, the median of several, or the pinned one (default last)",
      &o.reference, CTR_OPT_BASIC, .needs = "@vet" },
    { "days", 0, CTR_OPT_INT, "K", "vet: number of vettings that passed for the median (default 7)", &o.rules.days,
      .needs = "reference=median" },
    { "stream", 0, CTR_OPT_STR, "NAME", "vet: name of the stream; signals vetted under it before must be present",
      &o.rules.stream, .needs = "@vet" },
    { "max-missing", 0, CTR_OPT_REAL, "SHARE", "vet: largest share of rows without a value (default 0.95)",
      &o.rules.max_missing, .needs = "@vet" },
    { "max-missing-change", 0, CTR_OPT_REAL, "SHARE",
      "vet: largest change of that share against the reference (default 0.1)", &o.rules.max_missing_change,
      .needs = "@vet" },
    { "max-psi", 0, CTR_OPT_REAL, "X",
      "vet: largest drift from the reference, as population stability index (default 0.25)", &o.rules.max_psi,
      .needs = "@vet" },
    { "max-unseen", 0, CTR_OPT_REAL, "SHARE", "vet: largest share of values that the reference lacks (default 0.5)",
      &o.rules.max_unseen, .needs = "@vet" },
    { "max-auc", 0, CTR_OPT_REAL, "X", "vet: largest AUC of a signal alone (default 0.95)", &o.rules.max_auc,
      .needs = "@vet" },
    { "where", 0, CTR_OPT_LIST, "FIELD=GLOB",
      "listings: show only entries whose signal, owner, platform or state matches", &o.where, CTR_OPT_BASIC,
      .needs = LISTINGS },
    { "older", 0, CTR_OPT_DURATION, "TIME", "unused: show signals unused for at least TIME, such as 30d", &o.older_ms,
      .needs = "@unused" },
    { "format", 'f', CTR_OPT_CHOICE, "table|jsonl",
      "print a table for people, or one JSON object per line (default table)", &o.format, CTR_OPT_BASIC,
      .needs = LISTINGS "|@check|@vet" },
    { 0 },
};

struct run {
    struct ctr_cli *cli;
    struct ctr_signals *s;
    struct ctr_signals_view view;
    struct ctr_out *out;
    struct ctr_plan *plan; /* for actions that take one */
    const char *arg[2];    /* after the action */
};

/* A life of a signal, and the order of calls of the longest action:
 *
 *     add plan             signal site, version 1, in state "new"
 *     vet --allow day1     no reference: judged by itself; it passes, is pinned, and site is allowed
 *     vet day2             compared with day1, the last vetting that passed
 *     register m           model m consumes site
 *     deprecate site       `check` of a plan with site fails from here on, `alerts` names m
 *
 *     vet: measure (reads the whole stream, no lock held), ctr_signals_begin, ctr_signals_check_stream, the table on
 *     stdout, commit; exit 3 if a signal failed. The verdicts of failed ones are kept as well.
 *
 * Actions are rows of `actions`; what only lists is a row of signals' own table (ctr_signals_list_at). */

/* ---- changes ---- */

static int add(struct run *run, struct ctr_err *err)
{
    struct ctr_signal_added n = { 0 };
    int rc = run->plan ? ctr_signals_add_plan(run->s, run->plan, &o.facts, &n, err)
                       : ctr_signals_add(run->s, run->arg[0], o.definition, &o.facts, &n, err);
    if (!rc)
        rc = ctr_signals_commit(run->s, err);
    if (!rc)
        ctr_cli_note(run->cli, "%" PRId64 " new signal%s, %" PRId64 " new version%s, %" PRId64 " known", n.signals,
                     CTR_S(n.signals), n.versions, CTR_S(n.versions), n.known);
    return rc;
}

static int commit_each(struct run *run, int rc, struct ctr_err *err)
{
    return rc ? rc : ctr_signals_commit(run->s, err);
}

static int allow(struct run *run, struct ctr_err *err)
{
    return commit_each(run, ctr_signals_allow(run->s, run->arg[0], true, err), err);
}

static int disallow(struct run *run, struct ctr_err *err)
{
    return commit_each(run, ctr_signals_allow(run->s, run->arg[0], false, err), err);
}

static int deprecate(struct run *run, struct ctr_err *err)
{
    return commit_each(run, ctr_signals_deprecate(run->s, run->arg[0], run->arg[1], err), err);
}

static int pin(struct run *run, struct ctr_err *err)
{
    const char *text = run->arg[1];
    int64_t vetting = 0;
    if (text && !(ctr_parse_i64(text, strlen(text), &vetting) && vetting > 0))
        return ctr_cli_usage(err, "'%s' is no number of a vetting: see `ctr-signals vettings`", text);
    return commit_each(run, ctr_signals_pin(run->s, run->arg[0], vetting, err), err);
}

static int unpin(struct run *run, struct ctr_err *err)
{
    return commit_each(run, ctr_signals_unpin(run->s, run->arg[0], err), err);
}

static int accept_failed(struct run *run, struct ctr_err *err)
{
    return commit_each(run, ctr_signals_accept(run->s, run->arg[0], err), err);
}

static int annotate(struct run *run, struct ctr_err *err)
{
    return commit_each(run, ctr_signals_annotate(run->s, run->arg[0], run->arg[1], err), err);
}

static int remove_signal(struct run *run, struct ctr_err *err)
{
    return commit_each(run, ctr_signals_remove(run->s, run->arg[0], err), err);
}

/* "models/m.arrows" is "m". */
static int model_name(const char *path, char **name, struct ctr_err *err)
{
    const char *base = strrchr(path, '/');
    int rc = ctr_strdup(name, base ? base + 1 : path, err);
    char *dot = rc ? NULL : strstr(*name, ".arrow");
    if (dot && dot > *name)
        *dot = 0;
    return rc;
}

static int register_json(struct run *run, struct ctr_err *err)
{
    int64_t models = 0, n = 0;
    int rc = ctr_signals_register_json(run->s, run->arg[0], o.model, &models, &n, err);
    rc = commit_each(run, rc, err);
    if (!rc)
        ctr_cli_note(run->cli, "%" PRId64 " model%s consume%s %" PRId64 " signal%s", models, CTR_S(models),
                     models == 1 ? "s" : "", n, CTR_S(n));
    return rc;
}

static int register_model(struct run *run, struct ctr_err *err)
{
    if (o.json)
        return register_json(run, err);
    char *name = NULL;
    int64_t n = 0;
    int rc = o.model ? ctr_strdup(&name, o.model, err) : model_name(run->arg[0], &name, err);
    if (!rc)
        rc = ctr_signals_register(run->s, name, run->plan, &n, err);
    rc = commit_each(run, rc, err);
    if (!rc)
        ctr_cli_note(run->cli, "model '%s' consumes %" PRId64 " signal%s", name, n, CTR_S(n));
    free(name);
    return rc;
}

static int unregister(struct run *run, struct ctr_err *err)
{
    return commit_each(run, ctr_signals_unregister(run->s, run->arg[0], err), err);
}

/* ---- checks ---- */

static int check(struct run *run, struct ctr_err *err)
{
    int64_t problems = 0;
    int rc = ctr_signals_check(run->s, run->plan, o.facts.platform, &run->view, run->out, &problems, err);
    if (!rc)
        rc = ctr_out_commit(run->out, err);
    if (!rc && problems)
        rc = ctr_fail(err, CTR_ENO, "%s: %" PRId64 " of its signals must not be trained on", run->arg[0], problems);
    return rc;
}

/* cli: its arguments from `first` on are the stream. *p: the plan that extracted it; NULL: none. */
static int measure(struct ctr_cli *cli, int first, struct ctr_stream_check **v, struct ctr_plan **p,
                   struct ctr_err *err)
{
    struct ctr_reader *r = NULL;
    const struct ctr_batch *b;
    int label, rc = ctr_cli_reader(cli, first, NULL, &r, err);
    if (rc)
        return rc;
    if (!(rc = ctr_cli_role(cli, ctr_reader_schema(r), CTR_ROLE_LABEL, false, &label, err)) &&
        !(rc = ctr_plan_of_meta(p, "plan of the stream", &ctr_reader_schema(r)->meta, err)))
        rc = ctr_stream_check_new(v, ctr_reader_schema(r), label, err);
    while (!rc && (rc = ctr_reader_next(r, &b, err)) > 0)
        rc = ctr_stream_check_batch(*v, b, err);
    if (rc)
        ctr_err_file(err, ctr_reader_file(r));
    ctr_reader_free(r);
    return rc;
}

/* ---- a stream against another ---- */

static int measure_other(struct run *run, struct ctr_stream_check **v, struct ctr_err *err)
{
    char *name[] = { (char *)(uintptr_t)o.against };
    struct ctr_cli only = *run->cli;
    struct ctr_plan *p = NULL;
    only.args = name;
    only.nargs = 1;
    int rc = ctr_cli_read(run->cli, o.against, err);
    if (!rc)
        rc = measure(&only, 0, v, &p, err);
    ctr_plan_free(p);
    return rc;
}

/* The other stream becomes the only vetting of an index in memory, in which its columns are signals. */
static int vet_other(struct run *run, struct ctr_err *err)
{
    static const struct ctr_signal_facts none = { 0 };
    const struct ctr_stream_check_rules any = {
        .max_missing = 1, .max_missing_change = 1, .max_psi = HUGE_VAL, .max_auc = 1, .max_unseen = 1, .days = 1
    };
    struct ctr_stream_check *v = NULL;
    struct ctr_out *nothing = NULL;
    int64_t failed;
    int rc = measure_other(run, &v, err);
    if (!rc)
        rc = ctr_out_open(&nothing, "/dev/null", 0, err);
    if (!rc)
        rc = ctr_signals_begin(run->s, err);
    for (int i = 0; !rc && i < ctr_stream_check_columns(v); i++) {
        struct ctr_stream_check_result r;
        struct ctr_signal_added added = { 0 };
        ctr_stream_check_result(v, i, &r);
        rc = ctr_signals_add(run->s, r.name, "a column", &none, &added, err);
    }
    if (!rc)
        rc = ctr_signals_check_stream(run->s, v, NULL, &any, &run->view, nothing, &failed, err);
    rc = commit_each(run, rc, err);
    ctr_out_free(nothing);
    ctr_stream_check_free(v);
    return rc;
}

static int check_against(const struct ctr_cli *cli, struct ctr_err *err)
{
    static const char *const of_index[] = { "db", "model", "stream", "reference", "days", "allow" };
    for (size_t i = 0; i < CTR_COUNT(of_index); i++)
        if (ctr_cli_given(cli, of_index[i]))
            return ctr_cli_usage(err, "--against compares with a stream, and --%s is for an index of signals",
                                 of_index[i]);
    o.rules.called = o.against;
    o.rules.reference = CTR_STREAM_CHECK_PINNED;
    return 0;
}

static int check_stream(struct run *run, struct ctr_err *err)
{
    struct ctr_stream_check *v = NULL;
    struct ctr_plan *p = NULL;
    int64_t failed = 0;
    int rc = o.against ? vet_other(run, err) : 0;
    if (!rc)
        rc = measure(run->cli, 1, &v, &p, err);
    if (!rc)
        rc = ctr_signals_begin(run->s, err);
    if (!rc)
        rc = ctr_signals_check_stream(run->s, v, o.against ? NULL : p, &o.rules, &run->view, run->out, &failed, err);
    if (!rc)
        rc = ctr_out_commit(run->out, err);
    rc = commit_each(run, rc, err);
    if (!rc && failed)
        rc = ctr_fail(err, CTR_ENO, "%" PRId64 " signal%s not fit for use", failed, failed == 1 ? " is" : "s are");
    ctr_stream_check_free(v);
    ctr_plan_free(p);
    return rc;
}

/* ---- actions: a row each ---- */

static const struct action {
    const char *name;
    int min, max; /* arguments */
    enum ctr_signals_mode mode;
    int (*run)(struct run *run, struct ctr_err *err);
    enum needs { NOTHING, PLAN, MODEL } needs; /* the argument is one */
} actions[] = {
    { "add", 1, 1, CTR_SIGNALS_CREATE, add, PLAN },
    { "allow", 1, 1, CTR_SIGNALS_WRITE, allow },
    { "disallow", 1, 1, CTR_SIGNALS_WRITE, disallow },
    { "deprecate", 1, 2, CTR_SIGNALS_WRITE, deprecate },
    { "pin", 1, 2, CTR_SIGNALS_WRITE, pin },
    { "unpin", 1, 1, CTR_SIGNALS_WRITE, unpin },
    { "accept", 1, 1, CTR_SIGNALS_WRITE, accept_failed },
    { "annotate", 2, 2, CTR_SIGNALS_WRITE, annotate },
    { "remove", 1, 1, CTR_SIGNALS_WRITE, remove_signal },
    { "register", 1, 1, CTR_SIGNALS_WRITE, register_model, MODEL },
    { "unregister", 1, 1, CTR_SIGNALS_WRITE, unregister },
    { "check", 1, 1, CTR_SIGNALS_READ, check, PLAN },
    { "vet", 0, -1, CTR_SIGNALS_WRITE, check_stream },
};

static const char *word(int i)
{
    int own = (int)CTR_COUNT(actions);
    const struct ctr_signals_list *l = i < own ? NULL : ctr_signals_list_at(i - own);
    return i < own ? actions[i].name : l ? l->name : NULL;
}

static const struct action *find_action(const char *name)
{
    for (size_t i = 0; i < CTR_COUNT(actions); i++)
        if (!strcmp(actions[i].name, name))
            return &actions[i];
    return NULL;
}

/* The plan is read completely before the index is opened, so that a failed `add` creates no index, and no other process
 * waits for a slow pipe. */
static int open_plan(struct run *run, bool of_model, struct ctr_err *err)
{
    const char *path = run->arg[0];
    struct ctr_model_info info;
    struct ctr_reader *r;
    if (o.json) {
        int rc = ctr_cli_reread(run->cli, &path, err);
        run->arg[0] = path;
        return rc;
    }
    if (of_model && !o.model && !strcmp(path, "-"))
        return ctr_cli_usage(err, "a model from stdin has no name: give --model NAME");
    int rc = ctr_cli_reread(run->cli, &path, err);
    if (!rc && of_model && !(rc = ctr_model_open(path, &info, &r, err))) {
        ctr_reader_free(r);
        ctr_model_info_free(&info);
    }
    return rc ? rc : ctr_plan_open(&run->plan, path, err);
}

static int run_action(struct run *run, const struct action *a, struct ctr_err *err)
{
    int rc = ctr_cli_args(run->cli, a->min + 1, a->max < 0 ? -1 : a->max + 1, err);
    if (!rc && o.definition && !*o.definition)
        rc = ctr_cli_usage(err, "--definition is empty: say what the signal is made of");
    if (!rc && a->needs && !(a->run == add && o.definition))
        rc = open_plan(run, a->needs == MODEL, err);
    if (!rc)
        rc = o.against ? check_against(run->cli, err) : 0;
    if (!rc)
        rc = ctr_signals_open(&run->s, o.against ? NULL : o.db, o.against ? CTR_SIGNALS_CREATE : a->mode, err);
    /* check reads the stream before it begins, so that no other process waits for that. */
    if (!rc && a->mode != CTR_SIGNALS_READ && a->run != check_stream)
        rc = ctr_signals_begin(run->s, err);
    return rc ? rc : a->run(run, err);
}

static int run_list(struct run *run, const char *name, struct ctr_err *err)
{
    const struct ctr_signals_list *l;
    int64_t rows = 0;
    for (int i = 0; (l = ctr_signals_list_at(i)); i++)
        if (!strcmp(l->name, name))
            break;
    if (!l)
        return ctr_cli_unknown(run->cli, "action", err);
    int rc = ctr_cli_args(run->cli, 1, 2, err);
    if (!rc)
        rc = ctr_signals_open(&run->s, o.db, CTR_SIGNALS_READ, err);
    if (!rc)
        rc = ctr_signals_show(run->s, l, run->arg[0], &run->view, run->out, &rows, err);
    if (!rc)
        rc = ctr_out_commit(run->out, err);
    if (!rc && l->alarm && rows)
        rc = ctr_fail(err, CTR_ENO, "%" PRId64 " %s%s", rows, l->alarm, CTR_S(rows));
    return rc;
}

/* Reject common options that this action would ignore; a: NULL for a listing. */
static int check_common(const struct ctr_cli *cli, const struct action *a, struct ctr_err *err)
{
    if (cli->out && a && a->run != check && a->run != check_stream)
        return ctr_cli_usage(err, "-o does nothing: %s writes no data", a->name);
    for (int i = 0; i < CTR_NROLES; i++)
        if (cli->role[i] && !(a && a->run == check_stream))
            return ctr_cli_usage(err, "--%s does nothing without vet", ctr_roles[i]);
    return 0;
}

static int check_rules(struct ctr_err *err)
{
    struct ctr_stream_check_rules *r = &o.rules;
    const struct {
        const char *option;
        double value, from, to;
    } limits[] = {
        { "missing", r->max_missing, 0, 1 }, { "missing-change", r->max_missing_change, 0, 1 },
        { "psi", r->max_psi, 0, HUGE_VAL },  { "unseen", r->max_unseen, 0, 1 },
        { "auc", r->max_auc, .5, 1 },
    };
    for (size_t i = 0; i < CTR_COUNT(limits); i++)
        if (!(limits[i].value >= limits[i].from && limits[i].value <= limits[i].to))
            return isinf(limits[i].to)
                       ? ctr_cli_usage(err, "--max-%s wants %g or more", limits[i].option, limits[i].from)
                       : ctr_cli_usage(err, "--max-%s wants %g to %g", limits[i].option, limits[i].from, limits[i].to);
    if (r->days < 1 || r->days > CTR_STREAM_CHECK_DAYS)
        return ctr_cli_usage(err, "--days wants 1 to %d", CTR_STREAM_CHECK_DAYS);
    if (r->stream && !*r->stream)
        return ctr_cli_usage(err, "--stream is empty: it wants a name");
    r->model = o.model;
    r->reference = *o.reference == 'l'   ? CTR_STREAM_CHECK_LAST
                   : *o.reference == 'm' ? CTR_STREAM_CHECK_MEDIAN
                                         : CTR_STREAM_CHECK_PINNED;
    return 0;
}

static int run_tool(struct ctr_cli *cli, struct ctr_err *err)
{
    struct run run = { .cli = cli, .view = { .where = &o.where, .older_ms = o.older_ms } };
    int rc = ctr_cli_args(cli, 1, -1, err);
    if (rc)
        return rc;
    run.view.format = strcmp(o.format, "jsonl") ? CTR_SIGNALS_TABLE : CTR_SIGNALS_JSONL;
    for (int i = 0; i < 2 && i + 1 < cli->nargs; i++)
        run.arg[i] = cli->args[i + 1];
    o.db = o.db ? o.db : getenv("CTR_SIGNALS");
    o.db = o.db ? o.db : "signals.db";
    const struct action *a = find_action(cli->args[0]);
    rc = check_common(cli, a, err);
    if (!rc && *o.db && strcmp(o.db, "-"))
        rc = ctr_cli_read(cli, o.db, err); /* so that it cannot be an output */
    if (!rc)
        rc = check_rules(err);
    if (!rc)
        rc = ctr_cli_out(cli, 0, &run.out, err);
    if (!rc)
        rc = a ? run_action(&run, a, err) : run_list(&run, cli->args[0], err);
    ctr_signals_free(run.s);
    ctr_plan_free(run.plan);
    ctr_out_free(run.out);
    ctr_strs_free(&o.where);
    return rc;
}

const struct ctr_tool ctr_tool = {
    .name = "ctr-signals",
    .summary = "keep an index of signals: versions, consumers, checks",
    .synopsis = "add PLAN|SIGNAL\nallow|disallow|remove SIGNAL\ndeprecate OLD [NEW]\n"
                "pin SIGNAL [VETTING]\nunpin|accept SIGNAL\nannotate SIGNAL TEXT\n"
                "register|unregister MODEL\ncheck PLAN\nvet [FILE…]\nvet --against OTHER [FILE…]\n"
                "list|versions|consumers|alerts|unused|notes|vettings [SIGNAL]",
    .opts = opts,
    .flags = CTR_TOOL_ROLE(CTR_ROLE_LABEL) | CTR_TOOL_READS,
    .run = run_tool,
    .word = word,
};
