/* SPDX-License-Identifier: Apache-2.0
 *
 * The serving file of lr: a memory mapped IPC file, in which keys are looked up in place. Rows are sorted by table and
 * key: key, weight in units of 2^-13 (q2.13 of "Ad Click Prediction: a View from the Trenches", KDD 2013, section
 * 4.5.1), and one byte for its learning rate, which the uncertainty needs. The rate of byte q is that of a new key
 * times exp(-q step). Weights are rounded to nearest: the paper rounds every training step at random, because errors
 * would add up; here each weight is rounded once.
 *
 * The schema holds (CTR_META_MODEL_SLIM) bias, its rate, the rate of a new key and the step, then a line per table: its
 * rows, the length of its name, its name. */
#include <math.h>
#include <stdlib.h>

#include "common/base/isa.h"
#include "common/lr/lr.h"

enum { KEY, WEIGHT, RATE, COLUMNS, RATES = 256, HEAD = 4, BLOCK = 64 };
#define UNIT (1.0 / 8192)

static const struct {
    const char *name;
    enum ctr_type type;
} columns[] = { { "key", CTR_U64 }, { "weight", CTR_I16 }, { "rate", CTR_U8 } };

/* The rates of all byte values, for writing and reading. */
static void fill_rates(double *rate, double unseen, double step)
{
    for (int q = 0; q < RATES; q++)
        rate[q] = unseen * ctr_exp(-q * step);
}

/* For example, a model with bias -2, ad 7 (weight .5, rate .05) and site 3 (weight .0001, rate .002), where a new key
 * has the rate .05. The model is walked twice: first to count rows and find the least rate, then to write.
 *
 *     CTR_META_MODEL_SLIM    "-2 BIASRATE .05 STEP\n1 2 ad\n1 4 site\n"      STEP = ln(.05 / .002) / 255
 *     row 0 (ad)             key 7   weight 4096 = .5 * 8192   rate byte 0: that of a new key
 *     row 1 (site)           key 3   weight 1                  rate byte 255: the least
 *
 * A weight that rounds to 0 stays for its rate; with --weights-only, which leaves rates out, such rows go. A reader
 * turns the text into the row ranges of ad (0) and site (1), and looks a key up within its table's range. */

/* ---- writing ---- */

struct slimmer {
    bool rates;
    struct ctr_slim_told *told;
    struct ctr_buf rows; /* int64_t by table */
    int table;           /* of the previous row */
    uint64_t key;
    bool any;          /* there was a row of that table */
    double head[HEAD]; /* bias, its rate, the rate of a new key, step */
    double least, rate[RATES];
    struct ctr_writer *w; /* in the second pass, with room for a batch */
    struct ctr_col col[COLUMNS];
    uint64_t keys[CTR_BATCH_ROWS];
    int16_t weights[CTR_BATCH_ROWS];
    uint8_t bytes[CTR_BATCH_ROWS];
    int64_t n;
};

static void restart(void *ctx)
{
    struct slimmer *s = ctx;
    ctr_buf_clear(&s->rows);
    s->table = -1;
    s->least = INFINITY;
    *s->told = (struct ctr_slim_told){ 0 };
}

static int16_t rounded(double weight)
{
    return (int16_t)CTR_MIN(CTR_MAX(rint(weight / UNIT), INT16_MIN), INT16_MAX);
}

/* Rates below 2^-40 of the largest are stored as that. */
static uint8_t byte_of(const struct slimmer *s, double rate)
{
    const double step = s->head[3], q = step > 0 ? rint(ctr_log(s->head[2] / rate) / step) : 0;
    return (uint8_t)CTR_MIN(CTR_MAX(q, 0), RATES - 1);
}

static double floored(const struct slimmer *s, double rate)
{
    return CTR_MAX(rate, ldexp(s->head[2], -40));
}

static int64_t *rows_of(const struct slimmer *s)
{
    return (int64_t *)(void *)s->rows.data;
}

/* Tables are numbered in order of appearance. */
static int check_order(struct slimmer *s, const struct ctr_lr_walked *r, uint64_t key, struct ctr_err *err)
{
    static const int64_t none;
    const int tables = (int)(s->rows.len / sizeof none);
    const bool next = r->table == tables;
    if (r->table != s->table ? !next : key < s->key)
        return ctr_fail(err, CTR_EDATA,
                        "row %lld of the model is not in the order of table and key: ctr-sort -k table,key",
                        (long long)(r->batch->first_row + r->i + 1));
    if (!next && key == s->key)
        return ctr_lr_duplicate_key(r->batch, r->i, err);
    s->table = r->table;
    s->key = key;
    return next ? ctr_buf_append(&s->rows, &none, sizeof none, err) : 0;
}

static int flush(struct slimmer *s, struct ctr_err *err)
{
    const struct ctr_batch b = { ctr_writer_schema(s->w), s->n, 0, s->col };
    for (int i = 0; i < COLUMNS; i++)
        s->col[i].rows = s->n;
    s->n = 0;
    return b.rows ? ctr_writer_batch(s->w, &b, err) : 0;
}

static int put(struct slimmer *s, uint64_t key, int16_t weight, double rate, struct ctr_err *err)
{
    s->keys[s->n] = key;
    s->weights[s->n] = weight;
    if (s->rates) {
        s->bytes[s->n] = byte_of(s, floored(s, rate));
        s->told->rate_error = CTR_MAX(s->told->rate_error, fabs(s->rate[s->bytes[s->n]] / rate - 1));
    }
    return ++s->n == CTR_BATCH_ROWS ? flush(s, err) : 0;
}

static int take(void *ctx, const struct ctr_lr_walk *walk, const struct ctr_lr_walked *r, struct ctr_err *err)
{
    struct slimmer *s = ctx;
    const uint64_t key = ((const uint64_t *)walk->c.key->data)[r->i];
    const int16_t weight = rounded(r->weight);
    const double rate = (double)r->rate;
    if (r->table < 0) {
        s->head[0] = r->weight;
        s->head[1] = rate;
        return 0;
    }
    if (walk->again)
        return s->rates || weight ? put(s, key, weight, rate, err) : 0;
    int rc = check_order(s, r, key, err);
    if (rc || !(s->rates || weight))
        return rc;
    rows_of(s)[r->table]++;
    s->told->keys++;
    s->told->pruned += !weight;
    s->told->cut += fabs(r->weight - weight * UNIT) > UNIT / 2;
    s->least = CTR_MIN(s->least, rate);
    return 0;
}

/* The text in the schema. */
static int make_text(const struct slimmer *s, const struct ctr_strs *tables, struct ctr_buf *text, struct ctr_err *err)
{
    const int n = (int)(s->rows.len / sizeof(int64_t));
    char number[CTR_NUM_MAX + 1];
    int rc = 0;
    for (int i = 0; i < HEAD && !rc; i++) {
        number[ctr_fmt_f64(number, s->head[i])] = 0;
        rc = ctr_buf_printf(text, err, "%s%c", number, i + 1 < HEAD ? ' ' : '\n');
    }
    for (int i = 0; i < n && !rc; i++)
        rc = ctr_buf_printf(text, err, "%lld %zu %s\n", (long long)rows_of(s)[i], strlen(tables->s[i]), tables->s[i]);
    return rc;
}

static int make_schema(const struct slimmer *s, const struct ctr_lr_walk *walk, const struct ctr_slim_opts *o,
                       struct ctr_schema *schema, struct ctr_err *err)
{
    static const char *const own_meta[] = { CTR_META_MODEL_WEIGHTS, CTR_META_SECTION, CTR_META_SECTIONS,
                                            CTR_META_CHECKPOINT };
    struct ctr_buf text = { 0 };
    int rc = ctr_meta_copy(&schema->meta, &walk->info->schema.meta, err);
    for (size_t i = 0; i < CTR_COUNT(own_meta) && !rc; i++)
        rc = ctr_meta_set(&schema->meta, own_meta[i], NULL, err);
    for (int i = 0; i < (s->rates ? COLUMNS : RATE) && !rc; i++)
        rc = ctr_schema_add(schema, columns[i].name, columns[i].type, err);
    if (!rc)
        rc = make_text(s, walk->tables, &text, err);
    if (!rc)
        rc = ctr_meta_set(&schema->meta, CTR_META_MODEL_SLIM, (const char *)text.data, err);
    if (!rc)
        rc = ctr_schema_provenance(schema, o->program, o->options, err);
    ctr_buf_free(&text);
    return rc;
}

static int write_file(struct slimmer *s, struct ctr_lr_walk *walk, const struct ctr_slim_opts *o, struct ctr_out *out,
                      struct ctr_err *err)
{
    const struct ctr_writer_opts file = { .file = true };
    const void *data[] = { s->keys, s->weights, s->bytes };
    struct ctr_schema schema = { 0 };
    for (int i = 0; i < COLUMNS; i++)
        s->col[i] = (struct ctr_col){ .type = columns[i].type, .data = data[i] };
    s->head[3] = s->rates && s->told->keys ? ctr_log(s->head[2] / floored(s, s->least)) / (RATES - 1) : 0;
    s->head[3] = CTR_MAX(s->head[3], 0);
    fill_rates(s->rate, s->head[2], s->head[3]);
    int rc = make_schema(s, walk, o, &schema, err);
    if (!rc)
        rc = ctr_writer_open(&s->w, out, &schema, &file, err);
    if (!rc)
        rc = ctr_lr_walk_again(walk, err);
    if (!rc)
        rc = flush(s, err);
    if (!rc)
        rc = ctr_writer_finish(s->w, err);
    ctr_writer_free(s->w);
    ctr_schema_free(&schema);
    return rc;
}

int ctr_lr_slim(const char *path, const struct ctr_model_info *info, const struct ctr_slim_opts *o, struct ctr_out *out,
                struct ctr_slim_told *told, struct ctr_err *err)
{
    struct slimmer *s = calloc(1, sizeof *s);
    struct ctr_strs tables = { 0 };
    if (!s)
        return ctr_fail_nomem(err, sizeof *s);
    struct ctr_lr_walk walk = { .path = path,
                                .info = info,
                                .tables = &tables,
                                .rates = !o->weights_only,
                                .take = take,
                                .restart = restart,
                                .ctx = s };
    s->rates = walk.rates;
    s->told = told;
    restart(s);
    int rc = ctr_lr_walk_start(&walk, err);
    s->head[1] = s->head[2] = walk.unseen_rate; /* the first until the bias row is read */
    if (!rc)
        rc = ctr_lr_walk_count(&walk, err);
    if (!rc)
        rc = write_file(s, &walk, o, out, err);
    told->fitted = ctr_meta_get(&info->schema.meta, CTR_META_SECTIONS) != NULL;
    ctr_lr_walk_end(&walk);
    ctr_strs_free(&tables);
    ctr_buf_free(&s->rows);
    free(s);
    return rc;
}

/* ---- reading ---- */

struct block {
    const uint64_t *key;
    const int16_t *weight;
    const uint8_t *rate;
};

struct range { /* the rows of a table: keys from `low` to `high` */
    int64_t first, rows;
    uint64_t low, high;
};

struct scorer {
    struct ctr_mapped *file;
    int shift; /* a block has 2^shift rows */
    struct block *block;
    struct ctr_buf ranges; /* struct range per table of the model, which are first in the list of names */
    bool no_bias;
    double head[HEAD], rate[RATES];
    ctr_sigmoids *sigmoids;
};

static const struct block *at(const struct scorer *s, int64_t row, int64_t *in)
{
    *in = row & (((int64_t)1 << s->shift) - 1);
    return &s->block[row >> s->shift];
}

static uint64_t key_at(const struct scorer *s, int64_t row)
{
    int64_t in;
    const struct block *b = at(s, row, &in);
    return b->key[in];
}

static void slim_free(void *scorer)
{
    struct scorer *s = scorer;
    if (!s)
        return;
    ctr_mapped_free(s->file);
    ctr_buf_free(&s->ranges);
    free(s->block);
    free(s);
}

/* Parse the number before the next `end`. */
static bool parse_number(const char **p, char end, double *v)
{
    const char *stop = strchr(*p, end);
    const bool right = stop && ctr_parse_f64(*p, (size_t)(stop - *p), v) && fabs(*v) < INFINITY;
    *p = stop ? stop + 1 : *p;
    return right;
}

static bool parse_count(const char **p, int64_t most, int64_t *v)
{
    const char *stop = strchr(*p, ' ');
    const bool right = stop && ctr_parse_i64(*p, (size_t)(stop - *p), v) && *v >= 0 && *v <= most;
    *p = stop ? stop + 1 : *p;
    return right;
}

static int damaged(struct ctr_err *err)
{
    return ctr_fail(err, CTR_EDATA, "its %s is damaged", CTR_META_MODEL_SLIM);
}

static int parse_text(struct scorer *s, struct ctr_strs *tables, struct ctr_err *err)
{
    const char *p = ctr_meta_get(&ctr_mapped_schema(s->file)->meta, CTR_META_MODEL_SLIM);
    struct range r = { 0 };
    int64_t length;
    bool right = p;
    int rc = 0;
    for (int i = 0; i < HEAD && right; i++)
        right = parse_number(&p, i + 1 < HEAD ? ' ' : '\n', &s->head[i]);
    while (right && *p && !rc) {
        right = parse_count(&p, ctr_mapped_rows(s->file) - r.first, &r.rows) &&
                parse_count(&p, (int64_t)strlen(p), &length) && (int64_t)strlen(p) > length && p[length] == '\n' &&
                tables->n < CTR_MAX_TABLES && ctr_strs_find_n(tables, p, (size_t)length) < 0;
        if (!right)
            break;
        rc = ctr_strs_add(tables, p, (size_t)length, err);
        if (!rc)
            rc = ctr_buf_append(&s->ranges, &r, sizeof r, err);
        r.first += r.rows;
        p += length + 1;
    }
    return rc ? rc : right && r.first == ctr_mapped_rows(s->file) ? 0 : damaged(err);
}

static int find_blocks(struct scorer *s, struct ctr_err *err)
{
    const struct ctr_schema *schema = ctr_mapped_schema(s->file);
    const int64_t rows = ctr_mapped_rows(s->file), each = CTR_MAX(ctr_mapped_block_rows(s->file), 1);
    const int64_t blocks = (rows + each - 1) / each;
    while ((int64_t)1 << s->shift < each)
        s->shift++;
    if (blocks > 1 && (int64_t)1 << s->shift != each)
        return ctr_fail(err, CTR_EDATA, "its batches have %lld rows, which is no power of two", (long long)each);
    for (int i = 0; i < COLUMNS && (i < schema->n || i < RATE); i++)
        if (schema->n < RATE || schema->n > COLUMNS || strcmp(schema->f[i].name, columns[i].name) ||
            schema->f[i].type != columns[i].type)
            return ctr_fail(err, CTR_EDATA, "its columns are not those that ctr-model slim writes");
    if (!(s->block = calloc((size_t)blocks + 1, sizeof *s->block)))
        return ctr_fail_nomem(err, (size_t)blocks * sizeof *s->block);
    for (int64_t i = 0; i < blocks; i++)
        s->block[i] = (struct block){ ctr_mapped_values(s->file, i, KEY), ctr_mapped_values(s->file, i, WEIGHT),
                                      schema->n > RATE ? ctr_mapped_values(s->file, i, RATE) : NULL };
    return 0;
}

/* Searches rely on the order. */
static int check_sorted(const struct scorer *s, struct range *r, struct ctr_err *err)
{
    for (int64_t i = 1; i < r->rows; i++)
        if (key_at(s, r->first + i) <= key_at(s, r->first + i - 1))
            return ctr_fail(err, CTR_EDATA, "row %lld: the keys of a table are not sorted",
                            (long long)(r->first + i + 1));
    r->low = r->rows ? key_at(s, r->first) : 1;
    r->high = r->rows ? key_at(s, r->first + r->rows - 1) : 0;
    return 0;
}

static int open_file(struct scorer *s, const char *path, bool rates, struct ctr_strs *tables, struct ctr_err *err)
{
    int rc = ctr_mapped_open(&s->file, path, err);
    if (rc)
        return rc;
    rc = parse_text(s, tables, err);
    if (!rc)
        rc = find_blocks(s, err);
    if (!rc && rates && ctr_mapped_schema(s->file)->n == RATE)
        rc = ctr_fail(err, CTR_EDATA,
                      "it has no rates, without which it cannot tell its uncertainty: it was made with "
                      "--weights-only");
    for (size_t i = 0; i < s->ranges.len / sizeof(struct range) && !rc; i++)
        rc = check_sorted(s, (struct range *)(void *)s->ranges.data + i, err);
    if (!rc)
        rc = ctr_mapped_unchanged(s->file, err);
    if (rc)
        ctr_err_file(err, path);
    return rc;
}

static int slim_open(void **out, const char *path, const struct ctr_model_info *info, struct ctr_strs *tables,
                     char *warn, size_t warn_size, struct ctr_err *err)
{
    struct scorer *s = calloc(1, sizeof *s);
    (void)warn, (void)warn_size;
    if (!s)
        return ctr_fail_nomem(err, sizeof *s);
    s->no_bias = info->params.lr.no_bias;
    s->sigmoids = ctr_sigmoids_at(ctr_cpu_best());
    int rc = open_file(s, path, info->uncertainty, tables, err);
    if (rc) {
        slim_free(s);
        return rc;
    }
    fill_rates(s->rate, s->head[2], s->head[3]);
    *out = s;
    return 0;
}

/* The session is the scorer itself, which is immutable; tables only in the stream come after those of the model. */
static int slim_session(void **session, const void *scorer, const struct ctr_inputs *in, const struct ctr_strs *tables,
                        const char *output, struct ctr_err *err)
{
    (void)in, (void)tables, (void)output, (void)err;
    *session = (void *)(uintptr_t)scorer;
    return 0;
}

static void slim_session_free(void *session)
{
    (void)session;
}

/* The row of a key, or -1. Keys are usually hashes, so a key's value gives its position to within a few rows; for
 * others, bisection. */
static int64_t find(const struct scorer *s, int table, uint64_t hash)
{
    enum { GUESSES = 8 };
    const uint64_t key = ctr_key_unhash(hash);
    const struct range *r = (const struct range *)(void *)s->ranges.data + table;
    if (table >= (int)(s->ranges.len / sizeof *r)) /* only in the stream */
        return -1;
    int64_t first = r->first, last = r->first + r->rows - 1;
    uint64_t low = r->low, high = r->high;
    if (key < low || key > high)
        return -1;
    for (int i = 0; first <= last; i++) {
        const double share = high > low ? (double)(key - low) / (double)(high - low) : 0;
        const int64_t middle =
            i < GUESSES ? CTR_MIN(first + (int64_t)(share * (double)(last - first)), last) : first + (last - first) / 2;
        const uint64_t there = key_at(s, middle);
        if (there == key)
            return middle;
        if (there < key) {
            first = middle + 1;
            low = there;
        } else {
            last = middle - 1;
            high = there;
        }
        if (key < low || key > high) /* the file was changed, which is detected after scoring */
            return -1;
    }
    return -1;
}

/* Look up the weights of row i's entries and, unless NULL, their rates and counts. Returns their number. */
static int64_t look_up(const struct scorer *s, const struct ctr_rows *r, int64_t i, double *weight, double *rate,
                       struct ctr_key_counts *counts)
{
    const int64_t k = r->transposed ? r->start[1] - r->start[0] : r->start[i + 1] - r->start[i];
    const int64_t from = r->transposed ? i : r->start[i], step = r->transposed ? r->rows : 1;
    const uint16_t *table = r->table + (r->transposed ? 0 : from);
    for (int64_t e = 0; e < k; e++) {
        const int64_t row = find(s, table[e], r->hash[from + e * step]);
        int64_t in = 0;
        const struct block *b = row < 0 ? NULL : at(s, row, &in);
        weight[e] = b ? b->weight[in] * UNIT : 0;
        if (rate)
            rate[e] = s->rate[b ? b->rate[in] : 0];
        if (counts)
            ctr_count_key(counts, table[e], b);
    }
    return k;
}

static int score_rows(const struct scorer *s, const struct ctr_rows *r, double *logit, double *uncertainty,
                      struct ctr_key_counts *counts, struct ctr_err *err)
{
    struct ctr_buf buf = { 0 };
    int64_t longest = r->transposed && r->rows ? r->start[1] - r->start[0] : 0;
    for (int64_t i = 0; i < r->rows && !r->transposed; i++)
        longest = CTR_MAX(longest, r->start[i + 1] - r->start[i]);
    int rc = ctr_buf_reserve(&buf, (size_t)(longest + 1) * 3 * sizeof(double), err);
    double *w = (double *)(void *)buf.data, *x = w + longest + 1, *u = x + longest + 1;
    for (int64_t i = 0; i < r->rows && !rc; i++) {
        const int64_t k = look_up(s, r, i, w, uncertainty ? u : NULL, counts), all = k + !s->no_bias;
        w[k] = s->head[0];
        u[k] = s->head[1];
        for (int64_t e = 0; r->x && e < k; e++)
            x[e] = r->x[r->start[i] + e];
        x[k] = 1;
        logit[i] = ctr_lanes_dot(w, r->x ? x : NULL, all);
        for (int64_t e = 0; uncertainty && r->x && e < k; e++)
            u[e] *= fabs(x[e]);
        if (uncertainty)
            uncertainty[i] = ctr_lanes_dot(u, NULL, all);
    }
    ctr_buf_free(&buf);
    return rc;
}

static int slim_uncertain(void *session, const struct ctr_rows *r, double *score, double *uncertainty,
                          struct ctr_key_counts *counts, struct ctr_err *err)
{
    const struct scorer *s = session;
    double logit[BLOCK];
    int rc = score_rows(s, r, score, uncertainty, counts, err);
    if (!rc)
        rc = ctr_mapped_unchanged(s->file, err);
    for (int64_t from = 0, n; from < r->rows && !rc; from += n) {
        n = CTR_MIN(BLOCK, r->rows - from);
        memcpy(logit, score + from, (size_t)n * sizeof *logit);
        s->sigmoids(logit, score + from, n);
        for (int64_t i = from; i < from + n && !rc; i++)
            rc = score[i] >= 0 ? 0 : ctr_lr_diverged(r->first_row + i + 1, err);
    }
    return rc;
}

static int slim_rows(void *session, const struct ctr_rows *r, double *score, struct ctr_key_counts *counts,
                     struct ctr_err *err)
{
    return slim_uncertain(session, r, score, NULL, counts, err);
}

const struct ctr_model ctr_model_lr_slim = {
    .name = "lr-slim",
    .summary = "serving files of lr",
    .options = ctr_lr_options,
    .scorer_open = slim_open,
    .scorer_free = slim_free,
    .session_new = slim_session,
    .session_free = slim_session_free,
    .predicts_transposed = true,
    .floats = CTR_FLOAT_IEEE,
    .predict_rows = slim_rows,
    .predict_uncertain = slim_uncertain,
};
