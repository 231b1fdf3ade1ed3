/* SPDX-License-Identifier: Apache-2.0
 *
 * lr: logistic regression by FTRL-Proximal, exactly row by row. One sparse table a feature table, so that small fields
 * stay in cache and a row's table name costs nothing; a table row is hash, z, n. The bias is a coordinate of its own.
 *
 * A block of rows reserves room in the tables first; then nothing in them moves, and the rows' slots are prefetched
 * AHEAD rows before they are used. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/feature/op.h"
#include "common/model/inclusion.h"
#include "common/model/lr.h"

enum {
    AHEAD = 8,            /* rows between prefetch and use */
    NEAR = 4,             /* of these, between the first look and use */
    RING = 16,            /* rows whose slots are being found, and more than AHEAD */
    NEAR_BYTES = 8192,    /* tables up to this size need no prefetch */
    WORD = 64,            /* entries that a word has bits for */
    BLOCK_ROWS = 256,     /* rows between two growths */
    LIST_ROWS = 64,       /* the same where a table can have many keys a row: room is made for each */
    BLOCK_ENTRIES = 8192, /* or so many entries of such, if there are more */
};

/* May minibatches be learned field by field, should the stream be fit for it? */
static bool by_field(const struct lr *m)
{
    return m->params.minibatch > 1 && ctr_learning_is_default(&m->learning) && !m->inclusion;
}

int ctr_lr_new(void **out, const struct ctr_model *model, const struct ctr_params *p, struct ctr_err *err)
{
    struct lr *m = calloc(1, sizeof *m);
    (void)model;
    if (!m)
        return ctr_fail_nomem(err, sizeof *m);
    m->params = *p;
    m->homes = ctr_sparse_kernel_best();
    m->no_bias = p->no_bias;
    int rc = ctr_learning_init(&m->learning, p, err);
    ctr_learning_start(&m->learning, &m->more.event, 0);
    m->expiry = (struct ctr_expiry){ p->expire, p->expire_floor, m->learning.layout.bytes, CTR_NO_DAY, 0 };
    m->stride = m->learning.layout.bytes + (p->expire ? CTR_DAY_BYTES : 0);
    if (!rc && p->expire && p->minibatch > 1)
        rc = ctr_fail(err, CTR_EUSAGE, "--expire goes row by row: leave --minibatch out");
    double unseen;
    if (!rc && p->uncertainty && !(rc = ctr_lr_unseen_rate(&m->learning, &m->more.event, &unseen, err)))
        m->each_row = ctr_lr_learn_uncertain;
    if (!rc)
        rc = ctr_inclusion_new(&m->inclusion, p, err);
    if (!rc && p->minibatch > 1)
        rc = by_field(m) ? ctr_lr_fields_new(&m->fields, p->minibatch, p->threads, err)
                         : ctr_lr_mini_new(&m->mini, p->minibatch, p->threads, err);
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
        ctr_sparse_free(&m->table[i]);
    struct ctr_buf *bufs[] = { &m->row, &m->others, &m->far, &m->z, &m->n, &m->w, &m->root, &m->x, &m->terms };
    for (size_t i = 0; i < CTR_COUNT(bufs); i++)
        ctr_buf_free(bufs[i]);
    for (size_t i = 0; i < CTR_COUNT(m->shape); i++)
        ctr_buf_free(&m->shape[i]);
    ctr_more_free(&m->more);
    free(m->table);
    free(m->sorted);
    free(m->extra);
    free(m->seed);
    ctr_lr_mini_free(m->mini);
    ctr_lr_fields_free(m->fields);
    ctr_inclusion_free(m->inclusion);
    free(m);
}

int ctr_lr_bind(void *learner, const struct ctr_strs *names, struct ctr_err *err)
{
    struct lr *m = learner;
    size_t n = (size_t)names->n;
    if (names->n <= m->tables)
        return 0;
    struct ctr_sparse *table = realloc(m->table, n * sizeof *table);
    if (!table)
        return ctr_fail_nomem(err, n * sizeof *table);
    m->table = table;
    uint64_t *extra = realloc(m->extra, n * sizeof *extra);
    if (!extra)
        return ctr_fail_nomem(err, n * sizeof *extra);
    m->extra = extra;
    uint64_t *seed = realloc(m->seed, n * sizeof *seed);
    if (!seed)
        return ctr_fail_nomem(err, n * sizeof *seed);
    m->seed = seed;
    for (; m->tables < names->n; m->tables++) {
        m->seed[m->tables] = ctr_table_seed(names->s[m->tables]);
        ctr_sparse_init(&m->table[m->tables], m->stride);
    }
    return 0;
}

static int64_t lr_keys(const void *learner)
{
    const struct lr *m = learner;
    uint64_t n = !m->no_bias;
    for (int i = 0; i < m->tables; i++)
        n += m->table[i].used;
    return (int64_t)n;
}

static int64_t lr_memory(const void *learner)
{
    const struct lr *m = learner;
    uint64_t bytes = (uint64_t)ctr_inclusion_bytes(m->inclusion);
    for (int i = 0; i < m->tables; i++)
        bytes += ctr_sparse_bytes(&m->table[i]);
    return (int64_t)bytes;
}

/* ---- training ---- */

/* Rows [from, return) of the next block. */
int64_t ctr_lr_block_end(const struct ctr_rows *r, int64_t from)
{
    if (r->one_a_table)
        return CTR_MIN(from + BLOCK_ROWS, r->rows);
    int64_t end = CTR_MIN(from + LIST_ROWS, r->rows);
    while (end > from + 1 && r->start[end] - r->start[from] > BLOCK_ENTRIES)
        end--;
    return end;
}

static int check_memory(const struct lr *m, int64_t bound, struct ctr_err *err)
{
    uint64_t need = (uint64_t)ctr_inclusion_bytes(m->inclusion);
    for (int i = 0; i < m->tables; i++)
        need += m->extra[i] ? ctr_sparse_bytes_after(&m->table[i], m->extra[i]) : ctr_sparse_bytes(&m->table[i]);
    if (need <= (uint64_t)bound)
        return 0;
    return ctr_fail(err, CTR_ENOMEM,
                    "the table of %lld keys needs %s to go on, --memory allows %s: raise it, drop rare values "
                    "(vocab with min=…) or use --precision f32",
                    (long long)lr_keys(m), ctr_size_text(need).s, ctr_size_text((uint64_t)bound).s);
}

/* The room that a block may need, by table. */
static int measure_block(struct lr *m, const struct ctr_rows *r, int64_t from, int64_t end, int64_t bound,
                         struct ctr_err *err)
{
    int64_t first = r->start[from], last = r->one_a_table ? r->start[from + 1] : r->start[end];
    int64_t each = r->one_a_table ? end - from : 1;
    memset(m->extra, 0, (size_t)m->tables * sizeof *m->extra);
    for (int64_t e = first; e < last; e++)
        m->extra[r->table[e]] += (uint64_t)each;
    return bound ? check_memory(m, bound, err) : 0;
}

static int reserve_block(struct lr *m, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; i < m->tables && !rc; i++)
        if (m->extra[i])
            rc = ctr_sparse_reserve(&m->table[i], m->extra[i], err);
    return rc;
}

static int scratch(struct ctr_buf *b, int64_t n, size_t size, struct ctr_err *err)
{
    b->len = 0;
    return ctr_buf_reserve(b, (size_t)n * size, err);
}

/* Room for the longest row of the block, and for the slots of those that are on their way. */
static int make_scratch(struct lr *m, const struct ctr_rows *r, int64_t from, int64_t end, struct ctr_err *err)
{
    int64_t longest = 0;
    for (int64_t i = from; i < end; i++)
        longest = CTR_MAX(longest, r->start[i + 1] - r->start[i]);
    longest = (longest + 2 * CTR_LANES) / CTR_LANES * CTR_LANES; /* the bias too */
    m->row_width = longest;
    m->block = from;
    struct ctr_buf *bufs[] = { &m->z, &m->n, &m->w, &m->root };
    const int64_t rows = end - from > 1 ? RING : 1;
    int rc = scratch(&m->row, longest * rows, sizeof(uint8_t *), err);
    if (!rc)
        rc = scratch(&m->others, (longest / WORD + 1) * rows, sizeof(uint64_t), err);
    for (size_t i = 0; i < CTR_COUNT(bufs) && !rc; i++)
        rc = scratch(bufs[i], longest, sizeof(double), err);
    if (!rc && m->x.cap < (size_t)longest * sizeof(double)) {
        m->filled = 0;
        rc = scratch(&m->x, longest, sizeof(double), err);
    }
    if (!rc && m->learning.events)
        rc = ctr_more_reserve(&m->more, longest, err);
    return rc;
}

/* Where the tables of a row's entries are, by position, so that homes are found by vectors; and which are large. */
static int make_shape(struct lr *m, const struct ctr_rows *r, int64_t from, struct ctr_err *err)
{
    const int64_t k = r->start[from + 1] - r->start[from];
    int rc = 0;
    m->shaped = r->one_a_table;
    m->far_n = 0;
    for (size_t i = 0; i < CTR_COUNT(m->shape) && m->shaped && !rc; i++)
        rc = scratch(&m->shape[i], k, sizeof(uint64_t), err);
    if (m->shaped && !rc)
        rc = scratch(&m->far, k, sizeof(uint16_t), err);
    if (rc)
        return rc;
    for (int64_t i = 0; i < k && m->shaped; i++) {
        const struct ctr_sparse *t = &m->table[r->table[r->start[from] + i]];
        ((uint8_t **)(void *)m->shape[0].data)[i] = t->rows;
        ((uint64_t *)(void *)m->shape[1].data)[i] = t->size;
        ((uint64_t *)(void *)m->shape[2].data)[i] = t->old_size;
        ((uint64_t *)(void *)m->shape[3].data)[i] = t->frontier;
        m->shaped = t->size <= UINT32_MAX;
        if (ctr_sparse_bytes(t) > NEAR_BYTES)
            ((uint16_t *)(void *)m->far.data)[m->far_n++] = (uint16_t)i;
    }
    return 0;
}

/* The slots of a row's entries; behind them is room for the bias and for padding. */
static uint8_t **slots_of(const struct lr *m, int64_t row)
{
    return (uint8_t **)(void *)m->row.data + (row - m->block) % RING * m->row_width;
}

static inline void prefetch_slot(const uint8_t *home)
{
    __builtin_prefetch(home, 1);
    __builtin_prefetch(home + 40, 1); /* a row may lie across two lines, or one slot further */
}

/* The homes of a row's entries, for find_slots, asked from memory. */
static void find_homes(const struct lr *m, const struct ctr_rows *r, int64_t row)
{
    const uint64_t *hash = r->hash + r->start[row];
    const uint16_t *number = r->table + r->start[row];
    const int64_t k = r->start[row + 1] - r->start[row];
    uint8_t **home = slots_of(m, row);
    if (m->shaped) {
        const struct ctr_sparse_homes homes = {
            (uint8_t *const *)(void *)m->shape[0].data,
            (const uint64_t *)(void *)m->shape[1].data,
            (const uint64_t *)(void *)m->shape[2].data,
            (const uint64_t *)(void *)m->shape[3].data,
        };
        const uint16_t *far = (const uint16_t *)(void *)m->far.data;
        m->homes->home(&homes, m->stride, hash, k, home);
        for (int64_t i = 0; i < m->far_n; i++)
            prefetch_slot(home[far[i]]);
        return;
    }
    for (int64_t i = 0; i < k; i++) {
        home[i] = ctr_sparse_home(&m->table[number[i]], hash[i]);
        prefetch_slot(home[i]);
    }
}

/* Nineteen of twenty entries lie in their home or behind it; the bits of the others are kept. */
static void find_near(const struct lr *m, const uint64_t *hash, int64_t k, uint8_t **restrict slot,
                      uint64_t *restrict others)
{
    for (int64_t from = 0; from < k; from += WORD)
        *others++ = m->homes->find(hash + from, m->stride, CTR_MIN(k - from, WORD), slot + from);
}

/* Of those half are new keys. */
static void find_others(const struct lr *m, const uint64_t *hash, const uint16_t *table, int64_t k,
                        uint8_t **restrict slot, const uint64_t *restrict others)
{
    for (int64_t from = 0; from < k; from += WORD)
        for (uint64_t rest = *others++; rest; rest &= rest - 1) {
            const int64_t i = from + __builtin_ctzll(rest);
            struct ctr_sparse *t = &m->table[table[i]];
            slot[i] = m->inclusion ? ctr_inclusion_slot(m->inclusion, t, m->seed[table[i]], slot[i], hash[i])
                                   : ctr_sparse_get_from(t, slot[i], hash[i]);
        }
}

void ctr_lr_find_slots(const struct lr *m, const uint64_t *hash, const uint16_t *table, int64_t k, uint8_t **slot)
{
    for (int64_t from = 0, n; from < k; from += WORD) {
        uint64_t others;
        n = CTR_MIN(k - from, WORD);
        find_near(m, hash + from, n, slot + from, &others);
        find_others(m, hash + from, table + from, n, slot + from, &others);
    }
}

static uint64_t *others_of(const struct lr *m, int64_t row)
{
    return (uint64_t *)(void *)m->others.data + (row - m->block) % RING * (m->row_width / WORD + 1);
}

static void look(const struct lr *m, const struct ctr_rows *r, int64_t row)
{
    const int64_t at = r->start[row];
    find_near(m, r->hash + at, r->start[row + 1] - at, slots_of(m, row), others_of(m, row));
}

static void find_slots(const struct lr *m, const struct ctr_rows *r, int64_t row, int64_t end)
{
    const int64_t at = r->start[row];
    if (m->inclusion) {
        const int64_t next = CTR_MIN(row + 2, end - 1), e = r->start[next];
        ctr_inclusion_row(m->inclusion, r->first_row + row);
        ctr_inclusion_ahead(m->inclusion, m->seed, m->stride, r->hash + e, r->table + e, slots_of(m, next),
                            r->start[next + 1] - e);
    }
    find_others(m, r->hash + at, r->table + at, r->start[row + 1] - at, slots_of(m, row), others_of(m, row));
}

/* x of a row, then the bias, then zeros to the end of the lanes. */
static inline void fill_x(struct lr *m, const double *x, int64_t k, int64_t all)
{
    double *to = (double *)(void *)m->x.data;
    if (x)
        memcpy(to, x, (size_t)k * sizeof *to);
    else if (m->filled == k + 1)
        return; /* as the last row left it */
    else
        for (int64_t i = 0; i < k; i++)
            to[i] = 1;
    m->filled = x ? 0 : k + 1;
    for (int64_t i = k; i < (all + CTR_LANES - 1) / CTR_LANES * CTR_LANES; i++)
        to[i] = i < all;
}

int ctr_lr_diverged(int64_t row, struct ctr_err *err)
{
    return ctr_fail(err, CTR_EDATA, "row %lld: the prediction is not a number" CTR_LR_TOO_LARGE, (long long)row);
}

/* `events` is a constant where this is called: the default learner wants none. */
static inline __attribute__((always_inline)) int train_block(struct lr *m, const struct ctr_rows *r, int64_t from,
                                                             int64_t end, double *score, const bool events,
                                                             struct ctr_err *err)
{
    const struct ctr_coords s = {
        m->z.data, m->n.data, m->w.data, m->root.data, (double *)(void *)m->x.data, &m->more
    };
    const struct ctr_learning *l = &m->learning;
    for (int64_t i = from; i < CTR_MIN(from + AHEAD, end); i++)
        find_homes(m, r, i);
    for (int64_t i = from; i < CTR_MIN(from + NEAR, end); i++)
        look(m, r, i);
    for (int64_t i = from; i < end; i++) {
        int64_t at = r->start[i], k = r->start[i + 1] - at, all = k + !m->no_bias;
        uint8_t **row = slots_of(m, i);
        double p = 0;
        find_slots(m, r, i, end);
        for (int64_t j = 0; m->expiry.days && j < k; j++)
            ctr_expiry_stamp(&m->expiry, row[j], m->expiry.today);
        row[k] = m->bias;
        for (int64_t j = all; j % CTR_LANES; j++)
            row[j] = m->spare;
        fill_x(m, r->x ? r->x + at : NULL, k, all);
        m->more.hash = r->hash + at;
        m->more.hashes = k;
        if (!m->each_row)
            p = ctr_sigmoid(l->forward(l, &s, row, all));
        /* What follows from p waits for it; this does not. */
        if (i + AHEAD < end)
            find_homes(m, r, i + AHEAD);
        if (i + NEAR < end)
            look(m, r, i + NEAR);
        if (m->each_row) {
            int rc = m->each_row(m, r, i, &s, row, all, score, err);
            if (rc)
                return rc;
            continue;
        }
        if (!(p >= 0))
            return ctr_lr_diverged(r->first_row + i + 1, err);
        score[i] = p;
        if (events && !ctr_event_set(&m->more.event, r->label[i], r->weight ? r->weight[i] : 1))
            continue;
        l->update(l, &s, row, all, (r->weight ? r->weight[i] : 1) * (p - r->label[i]));
    }
    return 0;
}

/* Rows [from, end) one by one. */
static int train_exactly(struct lr *m, const struct ctr_rows *r, int64_t from, int64_t end, double *score,
                         struct ctr_err *err)
{
    int rc = reserve_block(m, err);
    if (!rc)
        rc = make_scratch(m, r, from, end, err);
    if (!rc)
        rc = make_shape(m, r, from, err);
    if (rc)
        return rc;
    return m->learning.events ? train_block(m, r, from, end, score, true, err)
                              : train_block(m, r, from, end, score, false, err);
}

/* A block ends where a new day begins. */
static int64_t day_end(const struct lr *m, const struct ctr_rows *r, int64_t from, int64_t end)
{
    int64_t i = from + 1;
    while (i < end && r->day[i] <= m->expiry.today)
        i++;
    return i;
}

static int train_rows(struct lr *m, const struct ctr_rows *r, double *score, int64_t bound, struct ctr_err *err)
{
    for (int64_t from = 0, end; from < r->rows; from = end) {
        int rc = m->expiry.days && r->day[from] > m->expiry.today
                     ? ctr_expiry_begin(&m->expiry, m->table, m->tables, r->day[from], err)
                     : 0;
        end = m->expiry.days ? day_end(m, r, from, ctr_lr_block_end(r, from)) : ctr_lr_block_end(r, from);
        if (!rc)
            rc = measure_block(m, r, from, end, bound, err);
        if (!rc)
            rc = m->mini ? ctr_lr_mini_rows(m->mini, m, r, from, end, score, err)
                         : train_exactly(m, r, from, end, score, err);
        if (rc)
            return rc;
    }
    return 0;
}

static int lr_train_rows(void *learner, const struct ctr_rows *r, double *score, int64_t bound, struct ctr_err *err)
{
    struct lr *m = learner;
    const struct ctr_params *p = &m->params;
    int rc =
        p->minibatch > 1 && !r->transposed && !m->mini ? ctr_lr_mini_new(&m->mini, p->minibatch, p->threads, err) : 0;
    if (rc || !r->rows || !r->transposed)
        return rc ? rc : train_rows(m, r, score, bound, err);
    rc = measure_block(m, r, 0, r->rows, bound, err);
    return rc ? rc : ctr_lr_fields_rows(m->fields, m, r, score, err);
}

static bool lr_transposed(const void *learner)
{
    return by_field(learner);
}

static int64_t lr_pending(const void *learner)
{
    const struct lr *m = learner;
    return m->mini ? ctr_lr_mini_pending(m->mini) : m->fields ? ctr_lr_fields_pending(m->fields) : 0;
}

static int lr_end_pass(void *learner, struct ctr_err *err)
{
    struct lr *m = learner;
    int rc = m->fields ? ctr_lr_fields_end(m->fields, err) : 0;
    if (m->mini)
        ctr_lr_mini_end(m->mini, m);
    if (m->inclusion)
        ctr_inclusion_end_pass(m->inclusion);
    return rc;
}

static int lr_bind(void *learner, const struct ctr_inputs *in, const struct ctr_strs *names, struct ctr_err *err)
{
    (void)in;
    return ctr_lr_bind(learner, names, err);
}

static int lr_scorer_bind(void *scorer, const struct ctr_inputs *in, const struct ctr_strs *names, struct ctr_err *err)
{
    (void)in;
    return ctr_lr_scorer_bind(scorer, names, err);
}

/* ---- what was saved ---- */

static int lr_words(const void *learner, struct ctr_buf *text, struct ctr_err *err)
{
    const struct lr *m = learner;
    const int64_t keys = lr_keys(m);
    int rc = ctr_buf_printf(text, err, "bytes a key          %.1f\n",
                            keys ? (double)(lr_memory(m) - ctr_inclusion_bytes(m->inclusion)) / (double)keys : 0);
    if (!rc)
        rc = ctr_learning_words(&m->learning, &m->more.event, text, err);
    if (!rc && m->expiry.days)
        rc = ctr_buf_printf(text, err, "keys expired         %lld\n", (long long)m->expiry.dropped);
    return rc || !m->inclusion ? rc : ctr_inclusion_words(m->inclusion, keys, text, err);
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

const char *const ctr_lr_options[] = { "alpha",     "beta",          "l1",        "l2",        "precision",
                                       "no-bias",   "minibatch",     "hash-bits", "dropout",   "normalize",
                                       "optimizer", "learning-rate", "power",     "threshold", "inclusion",
                                       "expire",    "expire-floor",  "seed",      NULL };

const struct ctr_model ctr_model_lr = {
    .name = "lr",
    .summary = "logistic regression, by FTRL-Proximal and its relatives",
    .options = ctr_lr_options,
    .minibatch = 1,
    .device = &ctr_model_lr_device,
    .learner_new = ctr_lr_new,
    .learner_free = ctr_lr_free,
    .bind = lr_bind,
    .train_rows = lr_train_rows,
    .end_pass = lr_end_pass,
    .transposed = lr_transposed,
    .pending = lr_pending,
    .keys = lr_keys,
    .memory = lr_memory,
    .words = lr_words,
    .state = lr_state,
    .restore = lr_restore,
    .save_schema = ctr_lr_save_schema,
    .save = ctr_lr_save,
    .load = ctr_lr_load,
    .scorer_open = ctr_lr_scorer_open,
    .scorer_free = ctr_lr_scorer_free,
    .scorer_bind = lr_scorer_bind,
    .predicts_transposed = true,
    .predict_rows = ctr_lr_predict_rows,
    .predict_uncertain = ctr_lr_predict_uncertain,
    .row_weights = ctr_lr_row_weights,
};
