/* SPDX-License-Identifier: Apache-2.0
 *
 * reportmodel: plans, models, and the strongest weights, as ctr-model writes them. */
#include "tools/ctr-report/report.h"

#include <inttypes.h>
#include <math.h>

#include "common/model/model.h"
#include "common/plan/plan.h"

/* ---- plans ---- */

static const char *const signal_head[] = { "signal", "role", "table", "definition", "reads", NULL };

static int put_signal(void *ctx, const struct ctr_plan_signal *s, struct ctr_err *err)
{
    struct ctr_html_table *t = ctx;
    (void)err;

    if (!ctr_html_row(t))
        return 0;
    ctr_html_text_cell(t, s->name, strlen(s->name), 40);
    ctr_html_cell(t, "%s", ctr_roles[s->role]);
    ctr_html_text_cell(t, s->table, strlen(s->table), 40);
    ctr_html_cell_begin(t);
    ctr_html_markup(t->h, "<code>");
    ctr_html_cut(t->h, s->definition, strlen(s->definition), 120);
    ctr_html_markup(t->h, "</code>");
    ctr_html_cell_end(t);
    ctr_html_cell_begin(t);
    for (int i = 0; i < s->inputs->n && i < 6; i++) {
        ctr_html_markup(t->h, i ? ", " : "");
        ctr_html_cut(t->h, s->inputs->s[i], strlen(s->inputs->s[i]), 30);
    }
    ctr_html_markup(t->h, s->inputs->n > 6 ? ", " CTR_CUT : "");
    ctr_html_cell_end(t);
    return t->h->rc;
}

/* Its text, and a row for each thing that a model learns from. */
static int put_plan(struct ctr_report_file *f, struct ctr_err *err)
{
    struct ctr_html *h = &f->html;
    const size_t most = h->most;

    h->most = most / 2;
    struct ctr_html_table t = ctr_html_table(h, "What a model learns from", signal_head);
    int rc = ctr_plan_signals(f->plan, put_signal, &t, err);
    ctr_html_table_end(&t);
    h->most = most;
    ctr_html_markup(h, "<pre tabindex=\"0\"><code>");
    int64_t left_out = ctr_html_lines(h, ctr_plan_text(f->plan));
    ctr_html_markup(h, "</code></pre>\n");
    if (left_out) {
        ctr_html_markup(h, "<p class=\"less\">");
        ctr_html_format(h, "%lld more line%s not shown, to keep the page small.", (long long)left_out,
                        left_out == 1 ? " is" : "s are");
        ctr_html_markup(h, "</p>\n");
    }
    return rc;
}

/* Was the same plan shown already? Then the name of that file. */
static const char *same_plan(const struct ctr_report_file *f)
{
    for (const struct ctr_report_file *x = f->report->file; x < f; x++)
        if (x->plan && !strcmp(ctr_plan_text(x->plan), ctr_plan_text(f->plan)))
            return x->name;
    return NULL;
}

static int show_plan(struct ctr_report_file *f, struct ctr_err *err)
{
    const char *as = same_plan(f);

    if (!as)
        return put_plan(f, err);
    ctr_html_markup(&f->html, "<p>");
    ctr_html_format(&f->html, "It has the plan of %s.", as);
    ctr_html_markup(&f->html, "</p>\n");
    return 0;
}

const struct ctr_report_kind ctr_report_plan = { .name = "plan", .part = CTR_PART_PLAN, .end = show_plan };

static int keep_plan(struct ctr_report_file *f, const struct ctr_schema *s, struct ctr_err *err)
{
    return ctr_plan_of_meta(&f->plan, f->path, &s->meta, err);
}

static const char *const section_head[] = { "section", ">rows", NULL };

static void put_sections(struct ctr_report_file *f)
{
    struct ctr_html_table t = ctr_html_table(&f->html, "Its sections", section_head);

    for (int i = 0; i < f->nsections; i++) {
        const char *name = f->section[i].name ? f->section[i].name : "(rows)";
        if (!ctr_html_row(&t))
            continue;
        ctr_html_text_cell(&t, name, strlen(name), 60);
        ctr_html_cell(&t, "%lld", (long long)f->section[i].rows);
    }
    ctr_html_table_end(&t);
}

static bool is_fitted(const struct ctr_schema *s)
{
    return ctr_meta_get(&s->meta, CTR_META_PLAN) && ctr_meta_get(&s->meta, CTR_META_SECTION);
}

static int show_fitted(struct ctr_report_file *f, struct ctr_err *err)
{
    const int rc = show_plan(f, err);
    put_sections(f);
    return rc;
}

const struct ctr_report_kind ctr_report_fitted = {
    .name = "fitted plan", .part = CTR_PART_PLAN, .is = is_fitted, .begin = keep_plan, .end = show_fitted
};

/* ---- models ---- */

static bool is_model(const struct ctr_schema *s)
{
    return ctr_meta_get(&s->meta, CTR_META_MODEL);
}

static void put_fact(struct ctr_html *h, const char *name, const char *text)
{
    ctr_html_markup(h, "<div><dt>");
    ctr_html_format(h, "%s", name);
    ctr_html_markup(h, "</dt><dd>");
    ctr_html_cut(h, text, strlen(text), 600);
    ctr_html_markup(h, "</dd></div>\n");
}

static int begin_model(struct ctr_report_file *f, const struct ctr_schema *s, struct ctr_err *err)
{
    static const struct {
        const char *key, *name;
    } facts[] = {
        { CTR_META_MODEL, "model" },
        { CTR_META_MODEL_OPTIONS, "options" },
        { CTR_META_MODEL_STEPS, "rows learned from" },
        { CTR_META_PLAN_ID, "id of its plan" },
        { CTR_META_KEY_SEED, "keys by a secret" },
        { CTR_META_NETWORK, "network of its images" },
    };
    struct ctr_html *h = &f->html;

    ctr_html_markup(h, "<dl>\n");
    for (size_t i = 0; i < CTR_COUNT(facts); i++) {
        const char *text = ctr_meta_get(&s->meta, facts[i].key);
        if (text)
            put_fact(h, facts[i].name, text);
    }
    if (ctr_meta_get(&s->meta, CTR_META_CHECKPOINT))
        put_fact(h, "state", "a checkpoint: saved while it learned");
    ctr_html_markup(h, "</dl>\n");
    return keep_plan(f, s, err);
}

static int end_model(struct ctr_report_file *f, struct ctr_err *err)
{
    int rc = 0;

    put_sections(f);
    if (f->plan)
        rc = show_plan(f, err);
    else
        ctr_html_element(&f->html, "p", "It has no plan.");
    return rc;
}

const struct ctr_report_kind ctr_report_model = {
    .name = "model", .part = CTR_PART_MODEL, .is = is_model, .begin = begin_model, .end = end_model
};

/* ---- the strongest weights, and what changed ---- */

enum { TABLE, KEY, NAME, COUNT, WEIGHT, WEIGHTS };
static const struct ctr_report_column weight_columns[WEIGHTS] = {
    { "table", CTR_CLASS_TEXT, true },   { "key", CTR_CLASS_NUMBER, true },    { "name", CTR_CLASS_TEXT, true },
    { "count", CTR_CLASS_NUMBER, true }, { "weight", CTR_CLASS_NUMBER, true },
};
enum { OLD = COUNT, NEW, CHANGE, CHANGES };
static const struct ctr_report_column change_columns[CHANGES] = {
    { "table", CTR_CLASS_TEXT, true }, { "key", CTR_CLASS_NUMBER, true }, { "name", CTR_CLASS_TEXT, true },
    { "old", CTR_CLASS_NUMBER, true }, { "new", CTR_CLASS_NUMBER, true }, { "change", CTR_CLASS_NUMBER, true },
};
static const char *const weight_head[] = { "feature", ">weight", ">odds times", ">count", NULL };
static const char *const change_head[] = { "feature", ">old", ">new", ">change", NULL };

struct weights {
    int at[CHANGES];
    struct ctr_html_table t;
};

static int begin_weights(struct ctr_report_file *f, const struct ctr_schema *s, struct ctr_err *err)
{
    struct weights *w = f->state;
    (void)s, (void)err;
    w->t = f->kind == &ctr_report_changes ? ctr_html_table(&f->html, "Weights that changed most", change_head)
                                          : ctr_html_table(&f->html, "Strongest weights", weight_head);
    return 0;
}

/* "table=name", "table" of a number, "table=#key" where the name is not known: as ctr-model shows it. */
static void put_feature(struct ctr_html_table *t, const struct weights *w, const struct ctr_batch *b, int64_t i)
{
    const struct ctr_str table = ctr_report_str(b, w->at[TABLE], i), name = ctr_report_str(b, w->at[NAME], i);

    ctr_html_cell_begin(t);
    ctr_html_cut(t->h, table.p ? table.p : "", table.n, 40);
    if (!name.p && !ctr_col_missing(&b->col[w->at[KEY]], i))
        ctr_html_format(t->h, "=#%016" PRIx64, (uint64_t)ctr_col_i64(&b->col[w->at[KEY]], i));
    else if (name.n) {
        ctr_html_markup(t->h, "=");
        ctr_html_cut(t->h, name.p, name.n, 60);
    }
    ctr_html_cell_end(t);
}

static void put_weight(struct ctr_html_table *t, double w)
{
    if (isnan(w))
        ctr_html_cell(t, "-");
    else
        ctr_html_cell(t, fabs(w) < 1e6 ? "%+.6f" : "%+.4g", w);
}

static int batch_weights(struct ctr_report_file *f, const struct ctr_batch *b, struct ctr_err *err)
{
    struct weights *w = f->state;
    const bool changes = f->kind == &ctr_report_changes;
    (void)err;

    for (int64_t i = 0; i < b->rows; i++) {
        const double weight = ctr_report_value(b, w->at[WEIGHT], i);
        if (!ctr_html_row(&w->t))
            continue;
        put_feature(&w->t, w, b, i);
        if (changes) {
            for (int k = OLD; k <= CHANGE; k++)
                put_weight(&w->t, ctr_report_value(b, w->at[k], i));
            continue;
        }
        put_weight(&w->t, weight);
        ctr_html_cell(&w->t, "%s", ctr_report_number(isnan(weight) ? NAN : ctr_exp(weight)).s);
        ctr_html_cell(&w->t, "%s", ctr_report_number(ctr_report_value(b, w->at[COUNT], i)).s);
    }
    return f->html.rc;
}

static int end_weights(struct ctr_report_file *f, struct ctr_err *err)
{
    (void)err;
    ctr_html_table_end(&((struct weights *)f->state)->t);
    return 0;
}

static const char *const weight_figures[] = { "importance", NULL };
const struct ctr_report_kind ctr_report_weights = {
    .name = "table of weights",
    .part = CTR_PART_WEIGHTS,
    .columns = weight_columns,
    .ncolumns = WEIGHTS,
    .state = sizeof(struct weights),
    .begin = begin_weights,
    .batch = batch_weights,
    .end = end_weights,
    .figures = weight_figures,
};
const struct ctr_report_kind ctr_report_changes = {
    .name = "table of changed weights",
    .part = CTR_PART_WEIGHTS,
    .columns = change_columns,
    .ncolumns = CHANGES,
    .state = sizeof(struct weights),
    .begin = begin_weights,
    .batch = batch_weights,
    .end = end_weights,
};
