/* SPDX-License-Identifier: Apache-2.0
 *
 * lr: logistic regression by FTRL-Proximal, exactly row by row. There is one table of states per feature table, so that
 * small tables stay in cache and a row needs no table name. The bias is a separate coordinate.
 *
 * First the keys of rows are found (lr_find.c), ahead on another thread where possible. Then the states of a block are
 * created; from then on nothing in the tables moves, and lr_rows.c learns the rows. */
#include <stdlib.h>

#include "common/lr/inclusion.h"
#include "common/lr/lr.h"
#include "common/lr/lr_spill.h"

int ctr_lr_new(void **out, const struct ctr_model *model, const struct ctr_params *p, struct ctr_err *err)
{
    struct lr *m = calloc(1, sizeof *m);
    (void)model;
    if (!m)
        return ctr_fail_nomem(err, sizeof *m);
    m->params = *p;
    m->loops = ctr_lr_loops_best();
    ctr_lr_finding_init(&m->finding);
    m->no_bias = p->lr.no_bias;
    int rc = ctr_learning_init(&m->learning, p, err);
    ctr_learning_start(&m->learning, &m->more.event, 0);
    m->expiry = (struct ctr_expiry){ p->lr.expire, p->lr.expire_floor, m->learning.layout.bytes, CTR_NO_DAY, 0, NULL };
    ctr_states_init(&m->states, m->learning.layout.bytes - CTR_STATE_AT + (p->lr.expire ? CTR_DAY_BYTES : 0));
    double unseen;
    if (!rc && p->uncertainty && !(rc = ctr_lr_unseen_rate(&m->learning, &m->more.event, &unseen, err)))
        m->each.learn = ctr_lr_learn_uncertain;
    if (!rc)
        rc = ctr_inclusion_new(&m->inclusion, p, err);
    if (!rc)
        rc = ctr_lr_spill_new(&m->spill, m, err);
    if (rc) {
        ctr_lr_free(m);
        return rc;
    }
    *out = m;
    return 0;
}

void ctr_lr_free(void *learner)
{
    struct lr *m = learner;
    if (!m)
        return;
    for (int i = 0; i < m->tables; i++)
        ctr_keys_free(&m->table[i]);
    ctr_lr_finding_free(&m->finding);
    ctr_lr_scratch_free(&m->scratch);
    ctr_changed_free(&m->delta.changed);
    ctr_buf_free(&m->delta.gone);
    ctr_states_free(&m->states);
    ctr_more_free(&m->more);
    free(m->table);
    free(m->seed);
    free(m->saved.sorted);
    ctr_inclusion_free(m->inclusion);
    ctr_lr_spill_free(m->spill);
    free(m);
}

int ctr_lr_bind(void *learner, const struct ctr_strs *names, struct ctr_err *err)
{
    struct lr *m = learner;
    size_t n = (size_t)names->n;
    if (names->n <= m->tables)
        return 0;
    struct ctr_keys *table = realloc(m->table, n * sizeof *table);
    if (!table)
        return ctr_fail_nomem(err, n * sizeof *table);
    m->table = table;
    uint64_t *extra = realloc(m->finding.extra, n * sizeof *extra);
    if (!extra)
        return ctr_fail_nomem(err, n * sizeof *extra);
    m->finding.extra = extra;
    uint64_t *seed = realloc(m->seed, n * sizeof *seed);
    if (!seed)
        return ctr_fail_nomem(err, n * sizeof *seed);
    m->seed = seed;
    for (; m->tables < names->n; m->tables++) {
        m->seed[m->tables] = ctr_table_seed(names->s[m->tables]);
        ctr_keys_init(&m->table[m->tables]);
    }
    for (int t = 0; t < m->tables && !m->spill; t++) /* those of a model come one by one */
        m->table[t].index.expected = (uint64_t)(m->params.lr.keys / names->n);
    return ctr_lr_spill_bind(m, err);
}

static int lr_set_bias(void *learner, double log_odds, struct ctr_err *err)
{
    struct lr *m = learner;
    (void)err;
    if (!m->no_bias)
        ctr_state_set_weight(&m->learning, &m->more.event, log_odds, m->bias);
    return 0;
}

static int64_t lr_keys(const void *learner)
{
    const struct lr *m = learner;
    uint64_t n = !m->no_bias;
    for (int i = 0; i < m->tables; i++)
        n += m->table[i].learned;
    return (int64_t)n + ctr_lr_spill_keys(m->spill);
}

static int64_t lr_memory(const void *learner)
{
    struct lr *m = (struct lr *)(uintptr_t)learner;
    uint64_t bytes = (uint64_t)(ctr_inclusion_bytes(m->inclusion) + ctr_lr_spill_memory(m->spill));
    ctr_lr_hold_finders(m);
    for (int i = 0; i < m->tables; i++)
        bytes += ctr_keys_bytes(&m->table[i], &m->states);
    ctr_lr_release_finders(m);
    return (int64_t)bytes;
}

/* ---- training ---- */

/* Find the state numbers of rows [from, end), and create the states. */
static int find_rows(struct lr *m, const struct ctr_rows *r, int64_t from, int64_t end, int64_t bound,
                     const uint32_t **number, struct ctr_err *err)
{
    struct ctr_buf *own = &m->finding.here.own;
    int rc = 0;
    *number = r->number;
    if (!*number && !(rc = ctr_buf_room(own, r->start[end], sizeof **number, err))) {
        rc = ctr_lr_find_block(m, r, from, end, bound, (uint32_t *)(void *)own->data, err);
        *number = (const uint32_t *)(const void *)own->data;
    }
    return rc ? rc : ctr_lr_register_keys(m, r, from, end, *number, err);
}

/* A block ends where a new day begins. */
static int64_t day_end(const struct lr *m, const struct ctr_rows *r, int64_t from, int64_t end)
{
    int64_t i = from + 1;
    while (i < end && r->day[i] <= m->expiry.today)
        i++;
    return i;
}

/* Numbers of keys lie below it. */
static uint64_t numbers_given(const struct lr *m)
{
    return __atomic_load_n(&m->states.given, __ATOMIC_RELAXED);
}

static int learn_block(struct lr *m, const struct ctr_rows *r, int64_t from, int64_t end, double *score, int64_t bound,
                       struct ctr_err *err)
{
    const uint32_t *number = NULL;
    int rc = find_rows(m, r, from, end, bound, &number, err);
    if (!rc)
        rc = ctr_changed_room(&m->delta.changed, numbers_given(m), err);
    if (rc)
        return rc;
    if (m->delta.changed.on)
        ctr_lr_note_changed(m, number + r->start[from], r->start[end] - r->start[from]);
    return ctr_lr_train_exactly(m, r, from, end, number, score, err);
}

static int lr_train_rows(void *learner, const struct ctr_rows *r, double *score, int64_t bound, struct ctr_err *err)
{
    struct lr *m = learner;
    int rc = 0;
    for (int64_t from = 0, end, here = 0; from < r->rows && !rc; from = end) {
        if (m->expiry.days && r->day[from] > m->expiry.today)
            rc = ctr_expiry_begin(&m->expiry, m->table, m->tables, &m->states, r->day[from], err);
        if (!rc && from == here) /* the keys of rows before `here` are in memory */
            rc = ctr_lr_spill_bring(m, r, from, true, &here, err);
        end = CTR_MIN(ctr_lr_block_end(r, from), here);
        if (m->expiry.days)
            end = day_end(m, r, from, end);
        if (!rc)
            rc = learn_block(m, r, from, end, score, m->spill ? 0 : bound, err);
    }
    return rc;
}

static bool lr_transposed(const void *learner)
{
    return !((const struct lr *)learner)->spill;
}

/* A new day drops keys, and a save during the run needs the filter as of the last row learned: both exclude unordered
 * finding. Keys that are brought from disk are found after that. */
static enum ctr_finds lr_finds(const void *learner, bool saves)
{
    const struct lr *m = learner;
    return m->expiry.days || m->spill || (m->inclusion && saves) ? CTR_FIND_NOTHING
           : m->inclusion                                        ? CTR_FIND_ORDERED
                                                                 : CTR_FIND_UNORDERED;
}

static int lr_end_pass(void *learner, struct ctr_err *err)
{
    struct lr *m = learner;
    (void)err;
    if (m->inclusion)
        ctr_inclusion_end_pass(m->inclusion);
    return 0;
}

static int lr_bind(void *learner, const struct ctr_inputs *in, const struct ctr_strs *names, struct ctr_err *err)
{
    (void)in;
    return ctr_lr_bind(learner, names, err);
}

static int lr_session_new(void **session, const void *scorer, const struct ctr_inputs *in, const struct ctr_strs *names,
                          const char *output, struct ctr_err *err)
{
    (void)in, (void)output;
    return ctr_lr_session_new(session, scorer, names, err);
}

/* ---- what was saved ---- */

static void lr_summary(const void *learner, struct ctr_say *text)
{
    const struct lr *m = learner;
    const int64_t keys = lr_keys(m);
    ctr_say(text, "bytes a key          %.1f\n",
            keys ? (double)(lr_memory(m) - ctr_inclusion_bytes(m->inclusion)) / (double)keys : 0);
    ctr_learning_summary(&m->learning, &m->more.event, text);
    ctr_lr_spill_summary(m, text);
    if (m->expiry.days)
        ctr_say(text, "keys expired         %lld\n", (long long)m->expiry.dropped);
    ctr_inclusion_summary(m->inclusion, keys, text);
}

/* ---- deltas ---- */

static int lr_changes(void *learner, enum ctr_changes what, struct ctr_err *err)
{
    struct lr *m = learner;
    m->delta.all_change = m->learning.shrinking || m->learning.rate == CTR_RATE_GLOBAL;
    m->expiry.gone = &m->delta.gone;
    if (what == CTR_CHANGES_NOTE)
        ctr_buf_clear(&m->delta.gone);
    return ctr_changed_set(&m->delta.changed, what, numbers_given(m), err);
}

static int lr_state(const void *learner, struct ctr_buf *words, struct ctr_err *err)
{
    const struct lr *m = learner;
    int rc = m->expiry.days ? ctr_expiry_save(&m->expiry, words, err) : 0;
    return rc || !m->inclusion ? rc : ctr_inclusion_save(m->inclusion, words, err);
}

static int lr_restore(void *learner, const uint64_t *word, size_t words, struct ctr_err *err)
{
    struct lr *m = learner;
    if (m->expiry.days && words >= CTR_EXPIRY_WORDS) {
        ctr_expiry_load(&m->expiry, word);
        word += CTR_EXPIRY_WORDS;
        words -= CTR_EXPIRY_WORDS;
    }
    if (m->inclusion)
        return ctr_inclusion_load(m->inclusion, word, words, err);
    return words ? ctr_fail(err, CTR_EDATA, "the checkpoint has a state that its options do not need") : 0;
}

const struct ctr_model ctr_model_lr = {
    .name = "lr",
    .summary = "logistic regression, by FTRL-Proximal and its relatives",
    .options = ctr_lr_options,
    .write_slim = ctr_lr_slim,
    .slim = &ctr_model_lr_slim,
    .learner_new = ctr_lr_new,
    .learner_free = ctr_lr_free,
    .bind = lr_bind,
    .set_bias = lr_set_bias,
    .train_rows = lr_train_rows,
    .evaluate = ctr_lr_evaluate,
    .find = ctr_lr_find,
    .finds = lr_finds,
    .set_ahead = ctr_lr_spill_set_ahead,
    .end_pass = lr_end_pass,
    .transposed = lr_transposed,
    .keys = lr_keys,
    .memory = lr_memory,
    .add_summary = lr_summary,
    .changes = lr_changes,
    .state = lr_state,
    .restore = lr_restore,
    .save_schema = ctr_lr_save_schema,
    .save = ctr_lr_save,
    .load = ctr_lr_load,
    .scorer_open = ctr_lr_scorer_open,
    .scorer_free = ctr_lr_scorer_free,
    .session_new = lr_session_new,
    .session_free = ctr_lr_session_free,
    .predicts_transposed = true,
    .floats = CTR_FLOAT_IEEE,
    .predict_rows = ctr_lr_predict_rows,
    .predict_uncertain = ctr_lr_predict_uncertain,
    .row_weights = ctr_lr_row_weights,
};
