/* SPDX-License-Identifier: Apache-2.0
 *
 * The section of a model file for lr: columns table (dictionary), key, weight and optimizer state (z; n, or negatives
 * and positives; last), with the learner's types; rows are sorted by table and key, so that the file does not depend on
 * the order of insertion. */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "common/lr/lr.h"
#include "common/lr/lr_spill.h"

const char *const ctr_lr_number_names[CTR_LR_NUMBERS] = { "weight", "z", "n", "negatives", "positives", "last" };

bool ctr_lr_has_number(const struct ctr_learning *l, int i)
{
    switch (i) {
    case CTR_LR_WEIGHT: return true;
    case CTR_LR_Z: return ctr_learning_derives(l);
    case CTR_LR_N: return l->layout.n;
    case CTR_LR_LAST: return l->layout.last;
    default: return l->layout.counts;
    }
}

static int get_whole(const struct ctr_meta *meta, const char *key, int64_t *v, struct ctr_err *err)
{
    const char *text = ctr_meta_get(meta, key);
    *v = 0;
    if (text && (!ctr_parse_i64(text, strlen(text), v) || *v < 0))
        return ctr_fail(err, CTR_EDATA, "the model's %s, '%.40s', is damaged", key, text);
    return 0;
}

int ctr_lr_start(const struct ctr_learning *l, const struct ctr_meta *meta, struct ctr_event *e, struct ctr_err *err)
{
    int64_t steps, clips;
    int rc = get_whole(meta, CTR_META_MODEL_STEPS, &steps, err);
    if (!rc)
        rc = get_whole(meta, CTR_META_MODEL_CLIPS, &clips, err);
    if (rc)
        return rc;
    ctr_learning_start(l, e, (uint64_t)steps);
    e->clips = clips;
    const char *clock = ctr_meta_get(meta, CTR_META_MODEL_CLOCK);
    if (clock && !(ctr_parse_f64(clock, strlen(clock), &e->clock) && e->clock >= 0 && e->clock < INFINITY))
        return ctr_fail(err, CTR_EDATA, "the model's %s, '%.40s', is damaged", CTR_META_MODEL_CLOCK, clock);
    return 0;
}

int ctr_lr_find_columns(const struct ctr_batch *b, struct ctr_lr_columns *c, struct ctr_err *err)
{
    static const struct {
        const char *name;
        enum ctr_type type; /* CTR_F64: CTR_F32 is valid, too */
        size_t at;
    } want[] = {
        { "table", CTR_UTF8, offsetof(struct ctr_lr_columns, table) },
        { "key", CTR_U64, offsetof(struct ctr_lr_columns, key) },
        { "weight", CTR_F64, offsetof(struct ctr_lr_columns, number[CTR_LR_WEIGHT]) },
        { "z", CTR_F64, offsetof(struct ctr_lr_columns, number[CTR_LR_Z]) },
        { "n", CTR_F64, offsetof(struct ctr_lr_columns, number[CTR_LR_N]) },
        { "negatives", CTR_U64, offsetof(struct ctr_lr_columns, number[CTR_LR_NEGATIVES]) },
        { "positives", CTR_U64, offsetof(struct ctr_lr_columns, number[CTR_LR_POSITIVES]) },
        { "last", CTR_F64, offsetof(struct ctr_lr_columns, number[CTR_LR_LAST]) },
        { "day", CTR_I32, offsetof(struct ctr_lr_columns, day) },
    };
    memset(c, 0, sizeof *c);
    for (size_t i = 0; i < CTR_COUNT(want); i++) {
        int at = ctr_schema_find(b->schema, want[i].name);
        if (at < 0)
            continue;
        const struct ctr_col *col = &b->col[at];
        bool real = want[i].type == CTR_F64, whole = !real && want[i].type != CTR_UTF8;
        bool right = (col->type == want[i].type || (real && col->type == CTR_F32)) && !(whole && col->dict);
        if (!right)
            return ctr_fail(err, CTR_EDATA, "column '%s' of the model has another type than ctr-train gave it",
                            want[i].name);
        if (col->nulls || (col->dict && col->dict->nulls))
            return ctr_fail(err, CTR_EDATA, "column '%s' of the model has nulls", want[i].name);
        *(const struct ctr_col **)(void *)((char *)c + want[i].at) = col;
    }
    return c->table && c->key ? 0
                              : ctr_fail(err, CTR_EDATA, "the model has no column '%s'", c->table ? "key" : "table");
}

int ctr_lr_find_table(struct ctr_lr_table *cache, struct ctr_str name, struct ctr_strs *tables, struct ctr_err *err)
{
    if (cache->name.n == name.n && cache->name.p && !memcmp(cache->copy, name.p, name.n))
        return 0;
    char *text = NULL;
    if (strlen(CTR_BIAS_TABLE) == name.n && !memcmp(name.p, CTR_BIAS_TABLE, name.n))
        cache->table = -1;
    else {
        if (!(text = strndup(name.p, name.n)))
            return ctr_fail_nomem(err, name.n);
        cache->table = strlen(text) == name.n ? ctr_strs_find(tables, text) : -1;
        int rc = strlen(text) != name.n ? ctr_fail(err, CTR_EDATA, "a table name of the model holds a zero byte") : 0;
        if (!rc && cache->table < 0) {
            if (tables->n >= CTR_MAX_TABLES)
                rc = ctr_fail(err, CTR_EDATA, "the model has more than %d tables", CTR_MAX_TABLES);
            else
                rc = ctr_strs_add(tables, text, name.n, err);
            cache->table = tables->n - 1;
        }
        free(text);
        if (rc)
            return rc;
    }
    cache->name = (struct ctr_str){ NULL, 0 };
    if (name.n <= sizeof cache->copy) {
        memcpy(cache->copy, name.p, name.n);
        cache->name = (struct ctr_str){ cache->copy, name.n };
    }
    return 0;
}

int ctr_lr_duplicate_key(const struct ctr_batch *b, int64_t i, struct ctr_err *err)
{
    return ctr_fail(err, CTR_EDATA,
                    "row %lld of the model: its table and key came before; train it again, or keep the first of such "
                    "rows by ctr-sort --unique -k table,key",
                    (long long)(b->first_row + i + 1));
}

static const char *first_missing(const struct ctr_lr_columns *c, const struct ctr_learning *l, int from)
{
    for (int i = from; i < CTR_LR_NUMBERS; i++)
        if (ctr_lr_has_number(l, i) && !c->number[i])
            return ctr_lr_number_names[i];
    return NULL;
}

const char *ctr_lr_missing(const struct ctr_lr_columns *c, const struct ctr_learning *l)
{
    return first_missing(c, l, ctr_learning_derives(l) ? CTR_LR_Z : CTR_LR_WEIGHT);
}

const char *ctr_lr_rate_missing(const struct ctr_lr_columns *c, const struct ctr_learning *l)
{
    for (int i = CTR_LR_N; i <= CTR_LR_POSITIVES; i++)
        if (ctr_lr_has_number(l, i) && !c->number[i])
            return ctr_lr_number_names[i];
    return NULL;
}

static uint64_t whole_at(const struct ctr_col *col, int64_t i)
{
    return col ? ((const uint64_t *)col->data)[i] : 0;
}

void ctr_lr_state(const struct ctr_lr_columns *c, const struct ctr_learning *l, int64_t i, struct ctr_state *s)
{
    const struct ctr_col *value = c->number[ctr_learning_derives(l) ? CTR_LR_Z : CTR_LR_WEIGHT];
    *s = (struct ctr_state){ value ? ctr_col_f64(value, i) : 0,
                             c->number[CTR_LR_N] ? ctr_col_f64(c->number[CTR_LR_N], i) : 0,
                             c->number[CTR_LR_LAST] ? ctr_col_f64(c->number[CTR_LR_LAST], i) : 0,
                             whole_at(c->number[CTR_LR_NEGATIVES], i), whole_at(c->number[CTR_LR_POSITIVES], i) };
}

/* Is it a state of this learner? `writer`: the learner that wrote it. */
static int check_frame(const struct lr *m, const struct ctr_schema *s, struct ctr_learning *writer, struct ctr_err *err)
{
    const char *text = ctr_meta_get(&s->meta, CTR_META_MODEL_OPTIONS);
    struct ctr_params p;
    int rc = ctr_params_parse(&ctr_model_lr, &p, text ? text : "", err);
    if (rc)        /* LCOV_EXCL_BR_LINE ctr_model_open has read them */
        return rc; /* LCOV_EXCL_LINE */
    if (strcmp(p.lr.optimizer, m->params.lr.optimizer) || strcmp(p.lr.learning_rate, m->params.lr.learning_rate))
        return ctr_fail(err, CTR_EUSAGE,
                        "the model was learned with --optimizer %s --learning-rate %s, whose state is not that of "
                        "--optimizer %s --learning-rate %s",
                        p.lr.optimizer, p.lr.learning_rate, m->params.lr.optimizer, m->params.lr.learning_rate);
    if (m->learning.step == CTR_STEP_FTRL_GLOBAL && (p.lr.alpha != m->params.lr.alpha || p.lr.l1 != m->params.lr.l1))
        return ctr_fail(err, CTR_EUSAGE, "the model's z goes with its --alpha %g and --l1 %g: give the same",
                        p.lr.alpha, p.lr.l1);
    return ctr_learning_init(writer, &p, err);
}

/* Do weights of absent keys shrink in the same way? */
static bool shrinks_alike(const struct ctr_learning *a, const struct ctr_learning *b)
{
    return a->alpha == b->alpha && a->beta == b->beta && a->l1 == b->l1 && a->l2 == b->l2 && a->power == b->power;
}

/* The latest day is that of the last row learned. */
static void load_day(struct lr *m, const struct ctr_lr_columns *c, int64_t i, uint8_t *row)
{
    int32_t day = c->day ? (int32_t)ctr_col_i64(c->day, i) : CTR_NO_DAY;
    if (!m->expiry.days)
        return;
    if (row != m->bias)
        ctr_expiry_stamp(&m->expiry, row, day);
    m->expiry.today = CTR_MAX(m->expiry.today, day);
}

/* `writer`: NULL, or a learner with other options, by which the weights have shrunk so far. */
static int load_batch(struct lr *m, const struct ctr_learning *writer, struct ctr_strs *tables,
                      struct ctr_lr_table *cache, const struct ctr_batch *b, struct ctr_err *err)
{
    const struct ctr_learning *l = &m->learning;
    struct ctr_lr_columns c;
    int rc = ctr_lr_find_columns(b, &c, err);
    const char *missing = rc ? NULL : ctr_lr_missing(&c, l);
    if (missing)
        rc = ctr_fail(err, CTR_EDATA, "the model has no column '%s': it can predict but not learn on", missing);
    for (int64_t i = 0; i < b->rows && !rc; i++) {
        struct ctr_state s;
        uint64_t h = ctr_key_hash(((const uint64_t *)c.key->data)[i]);
        ctr_lr_state(&c, l, i, &s);
        if (writer) {
            s.value = ctr_state_weight(writer, &m->more.event, &s);
            s.last = m->more.event.clock;
        }
        if (!(s.last >= 0 && s.last <= m->more.event.clock))
            return ctr_fail(err, CTR_EDATA, "row %lld of the model: last is damaged",
                            (long long)(b->first_row + i + 1));
        if (!(fabs(s.value) < INFINITY && s.n >= (l->optimizer->holds ? -CTR_MAX_THRESHOLD : 0) && s.n < INFINITY))
            return ctr_fail(err, CTR_EDATA, "row %lld of the model: %s or n is damaged",
                            (long long)(b->first_row + i + 1), ctr_learning_derives(l) ? "z" : "weight");
        if ((rc = ctr_lr_find_table(cache, ctr_col_str(c.table, i), tables, err)) || (rc = ctr_lr_bind(m, tables, err)))
            return rc;
        if (cache->table >= 0) {
            struct ctr_keys *keys = &m->table[cache->table];
            uint8_t *row;
            if ((rc = ctr_lr_spill_room(m, err)))
                return rc;
            const uint64_t before = keys->index.used;
            if ((rc = ctr_keys_get(keys, &m->states, h, &row, err)))
                return rc;
            if (keys->index.used == before)
                return ctr_lr_duplicate_key(b, i, err);
            ctr_state_write(l, &m->more.event, &s, row);
            load_day(m, &c, i, row);
        } else if (cache->bias) {
            return ctr_lr_duplicate_key(b, i, err);
        } else if (!m->no_bias) {
            ctr_state_write(l, &m->more.event, &s, m->bias);
            load_day(m, &c, i, m->bias);
        }
        cache->bias |= cache->table < 0;
    }
    return rc;
}

static int load_all(struct lr *m, const struct ctr_learning *writer, struct ctr_strs *tables, struct ctr_reader *r,
                    struct ctr_err *err)
{
    struct ctr_lr_table cache = { .table = 0 };
    const struct ctr_batch *b;
    int rc = ctr_lr_start(&m->learning, &ctr_reader_schema(r)->meta, &m->more.event, err);
    while (!rc && (rc = ctr_reader_next(r, &b, err)) > 0)
        rc = load_batch(m, writer, tables, &cache, b, err);
    return rc;
}

int ctr_lr_resume(void *learner, struct ctr_strs *tables, struct ctr_reader *r, struct ctr_err *err)
{
    return load_all(learner, NULL, tables, r, err);
}

int ctr_lr_load(void *learner, struct ctr_strs *tables, struct ctr_reader *r, struct ctr_err *err)
{
    const struct lr *m = learner;
    struct ctr_learning writer;
    int rc = check_frame(m, ctr_reader_schema(r), &writer, err);
    const bool other = !rc && writer.shrinking && !shrinks_alike(&writer, &m->learning);
    return rc ? rc : load_all(learner, other ? &writer : NULL, tables, r, err);
}
