/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts about a run of training: progress lines in the style of Vowpal Wabbit, and the summary. */
#include "common/plan/plan.h"
#include "common/train/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int ctr_train_progress(const struct ctr_train_stats *s, bool heading, struct ctr_buf *text, struct ctr_err *err)
{
    int rc = heading
                 ? ctr_buf_printf(text, err, "%-10s %-10s %12s %12s %8s %8s %8s\n%-10s %-10s %12s %12s %8s %8s %8s\n",
                                  "average", "since", "example", "example", "current", "current", "current", "loss",
                                  "last", "counter", "weight", "label", "predict", "features")
                 : 0;
    return rc ? rc
              : ctr_buf_printf(text, err, "%-10.6f %-10.6f %12" PRId64 " %12.1f %8.4f %8.4f %8" PRId64 "\n",
                               s->weight > 0 ? s->loss / s->weight : 0,
                               s->since_weight > 0 ? s->since_loss / s->since_weight : 0, s->rows, s->weight, s->label,
                               s->score, s->features);
}

static void variants_table(const struct ctr_trainer *t, struct ctr_say *text)
{
    ctr_say(text, "\n%-20s %12s %8s\n", "variant", "log loss", "AUC");
    for (int i = 0; i < t->models; i++)
        ctr_say_format(text, "%-20s %12.6f %8.4f\n", t->job.params.variants->v[i].name,
                       t->v[i].s.loss / t->v[i].s.weight, ctr_trainer_auc(t, i));
}

/* Append the content: keys, bytes, keys refused. */
static void held(const struct ctr_trainer *t, struct ctr_say *text)
{
    const struct ctr_model *m = t->job.model;
    ctr_say(text, "keys                 %" PRId64 " (%s)\n", m->keys(t->learner),
            ctr_size_text_beyond((uint64_t)m->memory(t->learner), 0).s);
    if (m->add_summary)
        m->add_summary(t->learner, text);
    if (t->leaves || t->brings)
        ctr_say(text, "keys of the plan     %s%s\n", t->brings ? "come to the host: " : "stay on the device",
                t->brings ? t->brings : "");
    if (t->order.rows)
        ctr_say(text, "out of time order    %" PRId64 " rows, by up to %s\n", t->order.rows,
                ctr_time_order_most(&t->order).s);
}

int ctr_trainer_saved(const struct ctr_trainer *t, const char *what, struct ctr_buf *to, struct ctr_err *err)
{
    struct ctr_say text = { to, err, 0 };
    ctr_say_format(&text, "saved                %s, after %" PRId64 " rows%s\n", what,
                   t->job.params.comm ? t->ranks.rows : t->v[0].s.rows, t->job.params.comm ? " of all ranks" : "");
    held(t, &text);
    return text.rc;
}

int ctr_trainer_summary(const struct ctr_trainer *t, struct ctr_buf *to, struct ctr_err *err)
{
    const struct ctr_train_stats *s = &t->v[0].s;
    struct ctr_say text = { to, err, 0 };
    ctr_say(&text, "\nrows                 %" PRId64 "\n", s->rows);
    held(t, &text);
    if (s->weight <= 0) /* no row had a weight: the mean is undefined */
        return text.rc;
    ctr_say(&text, "mean label           %s\n", ctr_mean_text(s->positives / s->weight).s);
    if (t->job.model->variant_ops) {
        variants_table(t, &text);
        return text.rc;
    }
    const double auc = ctr_trainer_auc(t, 0);
    ctr_say(&text, "progressive log loss %s\n", ctr_mean_text(s->loss / s->weight).s);
    if (!isnan(auc))
        ctr_say(&text, "progressive AUC      %.4f\n", auc);
    return text.rc;
}

/* The log loss of a click rate as the score of every row. */
static double entropy(double p)
{
    return p > 0 && p < 1 ? -p * ctr_log(p) - (1 - p) * ctr_log(1 - p) : 0;
}

/* A name for the cross of two features that nothing has: a_b, a_b_2, … */
static void name_cross(const struct ctr_trainer *t, const struct ctr_plan *plan, const char *const of[2], char *out,
                       size_t size)
{
    snprintf(out, size, "%s_%s", of[0], of[1]);
    for (int i = 2; ctr_schema_find(&t->stream, out) >= 0 || (plan && ctr_plan_has_name(plan, out)); i++)
        snprintf(out, size, "%s_%s_%d", of[0], of[1], i);
}

static int tell_cross(const struct ctr_trainer *t, const struct ctr_cross *found, struct ctr_buf *text,
                      struct ctr_err *err)
{
    struct ctr_plan *plan = NULL;
    struct ctr_err unread = { 0 }; /* without its plan, names are those of the columns */
    struct ctr_buf name[3] = { { 0 } };
    const char *of[3] = { found->name[0], found->name[1] };
    const size_t size = strlen(of[0]) + strlen(of[1]) + 16;
    char *both = malloc(size);
    int rc = both ? 0 : ctr_fail_nomem(err, size);
    const bool read = !rc && !ctr_plan_of_meta(&plan, "plan", &t->stream.meta, &unread) && plan;
    for (int i = 0; i < 2 && read; i++) {
        const char *known = ctr_plan_name_of(plan, of[i]);
        of[i] = known ? known : of[i];
    }
    if (both)
        name_cross(t, plan, of, both, size);
    of[2] = both;
    for (int i = 0; i < 3 && !rc; i++)
        if (!(rc = ctr_quote_name(&name[i], of[i], err)))
            rc = ctr_buf_append(&name[i], "", 1, err);
    if (!rc)
        rc = ctr_buf_format(text, err,
                            "%s and %s tell more together: a weight for each pair of their frequent values would lower "
                            "the progressive log loss of %" PRId64
                            " of the last rows by %.1f%% (%.0f standard errors); try 'feature %s = cross(%s, %s)'\n",
                            (const char *)name[0].data, (const char *)name[1].data, found->rows, 100 * found->gain,
                            found->errors, (const char *)name[2].data, (const char *)name[0].data,
                            (const char *)name[1].data);
    for (int i = 0; i < 3; i++)
        ctr_buf_free(&name[i]);
    ctr_plan_free(plan);
    free(both);
    return rc;
}

/* What the model misses of pairs of features, as a line of the plan. */
static int advise_cross(const struct ctr_trainer *t, struct ctr_buf *text, struct ctr_err *err)
{
    struct ctr_cross found;
    const int rc = ctr_crosses_find(t->crosses, &found, err);
    return rc > 0 ? tell_cross(t, &found, text, err) : rc;
}

int ctr_trainer_advice(const struct ctr_trainer *t, struct ctr_buf *text, struct ctr_err *err)
{
    enum { FEW = 100000, LEAST = 100 };
    const struct ctr_train_stats *s = &t->v[0].s;
    const struct ctr_model *m = t->job.model;
    const double loss = s->loss / s->weight, rate = entropy(s->positives / s->weight);
    int rc = 0;
    if (m->variant_ops || !(s->weight > 0))
        return 0;
    if (rate > 0 && loss > rate && s->rows >= LEAST)
        rc = ctr_buf_format(text, err,
                            "progressive log loss %s is worse than %s, that of the mean label as the score of every "
                            "row%s%s%s\n",
                            ctr_mean_text(loss).s, ctr_mean_text(rate).s, *t->wide ? ": dense " : "", t->wide,
                            *t->wide ? ": bring them to one range in the plan, by log_scale(x) or standardize(x)" : "");
    if (!rc && m->deep && !m->by_minibatches && t->job.passes == 1 && !t->job.follow && s->rows >= LEAST &&
        s->rows < FEW)
        rc =
            ctr_buf_format(text, err,
                           "%lld rows in one pass are few for %s: --passes 3 or more, and --validation FILE to stop in "
                           "time\n",
                           (long long)s->rows, m->name);
    if (!rc && t->crosses)
        rc = advise_cross(t, text, err);
    return rc;
}

int64_t ctr_trainer_rows(const struct ctr_trainer *t)
{
    return t->v[0].s.rows;
}
