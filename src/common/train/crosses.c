/* SPDX-License-Identifier: Apache-2.0
 *
 * Crosses that the model lacks. A sample of the last rows of the first pass keeps each row's keys, one a column, and
 * its residual: label - score before the update. Its rows fall into two folds at random. For a pair of columns, the log
 * loss near the model's log-odds is a parabola: a change d of the log-odds of a cell (a value of one with a value of
 * the other) lowers it by S d - V d^2 / 2, with S the sum of residuals and V that of p (1 - p). So sums by cell
 * suffice:
 *
 *     1. take the effects of each column alone away, fitted to both folds: they are no cross
 *     2. d of each cell = S / (V + RIDGE w) from one fold, with w the mean weight of the rows; its gain is measured on
 *        the other, and the other way round. RIDGE does not grow with the rows: it is a prior, that effects of crosses
 * on the log-odds vary by sqrt(1 / RIDGE) = .3
 *     3. without a cross the gain is 0 on average, with the variance sum d^2 (residual^2)
 *
 * The pair with the largest gain is told if it is ERRORS standard errors and the share LEAST of the log loss or more. A
 * pair of which another column is the cross already is left out. */
#include "common/train/trainer.h"

#include <math.h>
#include <stdlib.h>

enum {
    ROWS = 1 << 16,  /* of the sample; a power of two */
    FEW_ROWS = 2000, /* fewer say nothing */
    BLOCK = 256,     /* rows that are taken together; later blocks one in TAKEN */
    TAKEN = 4,       /* so that a long run pays little */
    VALUES = 64,     /* of a column: the most frequent, 0 stands for all others */
    FEW = 50,        /* rows of a value; a rarer one is among the others */
    CELLS = VALUES * VALUES,
    PAIRED = 40,   /* columns that are paired: those with most rows of frequent values */
    BACKFITS = 12, /* rounds that fit the effects of the columns alone */
    PART = 16,     /* of --memory, for the sample; one that needs more is not taken */
};
static const double RIDGE = 10, ERRORS = 5, LEAST = .002;

struct row {
    float residual, curvature; /* weight (label - p), weight p (1 - p) */
    float loss, weight;
};

struct ctr_crosses {
    struct ctr_strs names;
    int columns;
    int *column_of; /* by number of table, or of input where rows come by column: its column, or -1 */
    int numbers;
    uint32_t *value;     /* [columns][ROWS]: a part of the key's hash; 0: none */
    struct row *row;     /* [ROWS] */
    int64_t seen, taken; /* rows; the last ROWS of those taken are kept, row i at i % ROWS */
};

void ctr_crosses_free(struct ctr_crosses *c)
{
    if (!c)
        return;
    ctr_strs_free(&c->names);
    free(c->column_of);
    free(c->value);
    free(c->row);
    free(c);
}

/* A table whose entries come from two columns tells neither. */
static int choose_columns(struct ctr_crosses *c, const struct ctr_inputs *in, struct ctr_err *err)
{
    const int n = ctr_inputs_count(in);
    int *uses = calloc((size_t)c->numbers, sizeof *uses), rc = uses ? 0 : ctr_fail_nomem(err, (size_t)c->numbers);
    for (int i = 0; i < n && !rc; i++)
        uses[ctr_inputs_info(in, i).rows_table]++;
    for (int i = 0; i < n && !rc && c->columns < CTR_CROSSES_COLUMNS; i++) {
        const struct ctr_input_info info = ctr_inputs_info(in, i);
        if (info.table < 0 || info.list || info.image || uses[info.rows_table] > 1)
            continue;
        c->column_of[info.rows_table] = c->columns++;
        rc = ctr_strs_add(&c->names, info.name, strlen(info.name), err);
    }
    free(uses);
    return rc;
}

int ctr_crosses_new(struct ctr_crosses **out, const struct ctr_inputs *in, int64_t memory, struct ctr_err *err)
{
    struct ctr_crosses *c = calloc(1, sizeof *c);
    if (!c)
        return ctr_fail_nomem(err, sizeof *c);
    for (int i = 0; i < ctr_inputs_count(in); i++)
        c->numbers = CTR_MAX(c->numbers, ctr_inputs_info(in, i).rows_table + 1);
    c->column_of = malloc((size_t)(c->numbers + 1) * sizeof *c->column_of);
    for (int i = 0; c->column_of && i < c->numbers; i++)
        c->column_of[i] = -1;
    int rc = c->column_of ? choose_columns(c, in, err) : ctr_fail_nomem(err, (size_t)c->numbers);
    if (memory && c->columns * (int64_t)(ROWS * sizeof *c->value) > memory / PART)
        c->columns = 0;
    const size_t bytes = (size_t)(c->columns + 1) * ROWS * sizeof *c->value;
    if (!rc && (!(c->value = calloc(1, bytes)) || !(c->row = calloc(ROWS, sizeof *c->row))))
        rc = ctr_fail_nomem(err, bytes);
    if (rc) {
        ctr_crosses_free(c);
        return rc;
    }
    *out = c;
    return 0;
}

static void take_row(struct ctr_crosses *c, const struct ctr_rows *r, int64_t i, double score)
{
    const int64_t at = c->taken++ % ROWS, step = r->transposed ? r->rows : 1;
    const int64_t first = r->transposed ? i : r->start[i], n = r->start[i + 1] - r->start[i];
    const double w = r->weight ? r->weight[i] : 1, p = ctr_validation_clip(score);
    c->row[at] = (struct row){ .residual = (float)(w * (r->label[i] - p)),
                               .curvature = (float)(w * p * (1 - p)),
                               .loss = (float)(w * ctr_validation_loss(p, r->label[i])),
                               .weight = (float)w };
    for (int k = 0; k < c->columns; k++)
        c->value[(int64_t)k * ROWS + at] = 0;
    for (int64_t k = 0; k < n; k++) {
        const int64_t entry = first + k * step;
        const int column = c->column_of[r->table[r->transposed ? k : entry]];
        if (column >= 0)
            c->value[(int64_t)column * ROWS + at] = (uint32_t)(r->hash[entry] >> 32) | 1;
    }
}

void ctr_crosses_add(struct ctr_crosses *c, const struct ctr_rows *r, const double *score, int64_t stride)
{
    for (int64_t i = 0; i < r->rows && c->columns > 1; i++, c->seen++)
        if (c->seen < 2 * ROWS || !(ctr_random64(0, 0, (uint64_t)(c->seen / BLOCK)) % TAKEN))
            take_row(c, r, i, score[i * stride]);
}

/* ---- the search ---- */

struct cell {
    double residual, curvature, square; /* sums; square: of residuals */
};

struct search {
    const struct ctr_crosses *c;
    int64_t from, rows;                        /* of the sample, as it was taken */
    uint8_t *code;                             /* [columns][rows]: 1 … VALUES - 1, or 0 */
    uint8_t *fold;                             /* [rows] */
    double loss, ridge;                        /* loss: of all rows */
    int paired[CTR_CROSSES_COLUMNS], pairs_of; /* columns that are paired */
    struct cell cell[2][CELLS];                /* by fold, of a pair */
    double effect[2][VALUES];                  /* on the log-odds, of the values of a pair */
};

struct count {
    uint32_t value;
    int64_t rows;
};

static int by_rows(const void *a, const void *b)
{
    const struct count *x = a, *y = b;
    return x->rows != y->rows ? (x->rows < y->rows ? 1 : -1) : (x->value > y->value) - (x->value < y->value);
}

static uint32_t value_at(const struct search *s, int column, int64_t i)
{
    return s->c->value[(int64_t)column * ROWS + (s->from + i) % ROWS];
}

/* Count the values of a column; count[number of a value]. */
static int count_values(const struct search *s, int column, struct ctr_index *x, struct count *count, int *n,
                        struct ctr_err *err)
{
    int rc = 0;
    *n = 0;
    ctr_index_clear(x);
    for (int64_t i = 0; i < s->rows && !rc; i++) {
        const uint32_t v = value_at(s, column, i);
        const struct ctr_index_slot *at = ctr_index_find(x, ctr_hash64(&v, sizeof v, 0));
        if (at)
            count[at->number].rows++;
        else if (!(rc = ctr_index_add(x, ctr_hash64(&v, sizeof v, 0), (uint32_t)*n, err)))
            count[(*n)++] = (struct count){ v, 1 };
    }
    return rc;
}

/* Code the frequent values of a column; *covered: rows that have one, 0 where fewer than two values are frequent. */
static int code_column(struct search *s, int column, struct ctr_index *x, struct count *count, int64_t *covered,
                       struct ctr_err *err)
{
    uint8_t *code = s->code + column * s->rows;
    int n = 0, frequent = 0, rc = count_values(s, column, x, count, &n, err);
    *covered = 0;
    if (rc)
        return rc;
    qsort(count, (size_t)n, sizeof *count, by_rows);
    ctr_index_clear(x);
    for (; frequent < n && frequent < VALUES - 1 && count[frequent].rows >= FEW && !rc; frequent++) {
        *covered += count[frequent].rows;
        rc = ctr_index_add(x, ctr_hash64(&count[frequent].value, sizeof count->value, 0), (uint32_t)frequent + 1, err);
    }
    for (int64_t i = 0; i < s->rows && !rc; i++) {
        const uint32_t v = value_at(s, column, i);
        const struct ctr_index_slot *at = ctr_index_find(x, ctr_hash64(&v, sizeof v, 0));
        code[i] = at ? (uint8_t)at->number : 0;
    }
    *covered *= frequent > 1;
    return rc;
}

static int code_columns(struct search *s, struct ctr_err *err)
{
    int64_t covered[CTR_CROSSES_COLUMNS];
    struct ctr_index x = { 0 };
    struct count *count = malloc((size_t)s->rows * sizeof *count);
    int rc = count ? 0 : ctr_fail_nomem(err, (size_t)s->rows * sizeof *count);
    for (int k = 0; k < s->c->columns && !rc; k++) {
        rc = code_column(s, k, &x, count, &covered[k], err);
        int at = s->pairs_of;
        for (; !rc && at > 0 && covered[s->paired[at - 1]] < covered[k]; at--)
            s->paired[at] = s->paired[at - 1];
        s->paired[at] = k;
        s->pairs_of += !rc && covered[k];
    }
    s->pairs_of = CTR_MIN(s->pairs_of, PAIRED);
    ctr_index_free(&x);
    free(count);
    return rc;
}

static void sum_cells(struct search *s, const uint8_t *a, const uint8_t *b)
{
    memset(s->cell, 0, sizeof s->cell);
    for (int64_t i = 0; i < s->rows; i++) {
        const struct row *r = &s->c->row[(s->from + i) % ROWS];
        struct cell *to = &s->cell[s->fold[i]][a[i] * VALUES + b[i]];
        to->residual += (double)r->residual;
        to->curvature += (double)r->curvature;
        to->square += (double)r->residual * (double)r->residual;
    }
}

/* The effects of each column alone, that of the other being as it is. */
static void fit_alone(struct search *s, int which)
{
    double residual[VALUES] = { 0 }, curvature[VALUES] = { 0 };
    for (int at = 0; at < CELLS; at++) {
        const int mine = which ? at % VALUES : at / VALUES, other = which ? at / VALUES : at % VALUES;
        const double v = s->cell[0][at].curvature + s->cell[1][at].curvature;
        residual[mine] += s->cell[0][at].residual + s->cell[1][at].residual - v * s->effect[!which][other];
        curvature[mine] += v;
    }
    for (int k = 0; k < VALUES; k++)
        s->effect[which][k] = curvature[k] > 0 ? residual[k] / curvature[k] : 0;
}

/* The gain of a pair on rows that its cells were not learned from, and its variance. */
static double gain_of(struct search *s, int a, int b, double *variance)
{
    double gain = 0;
    *variance = 0;
    sum_cells(s, s->code + a * s->rows, s->code + b * s->rows);
    memset(s->effect, 0, sizeof s->effect);
    for (int round = 0; round < 2 * BACKFITS; round++)
        fit_alone(s, round % 2);
    for (int at = VALUES; at < CELLS; at++) {
        if (!(at % VALUES))
            continue;
        const double effect = s->effect[0][at / VALUES] + s->effect[1][at % VALUES];
        for (int fold = 0; fold < 2; fold++) {
            const struct cell *from = &s->cell[fold][at], *on = &s->cell[!fold][at];
            const double d = (from->residual - from->curvature * effect) / (from->curvature + s->ridge);
            gain += d * (on->residual - on->curvature * effect) - d * d * on->curvature / 2;
            *variance += d * d * on->square;
        }
    }
    return gain;
}

/* Is column `of` the cross of a and b: has it one value in each cell, and more in some row and column of cells? */
static bool is_cross(const struct search *s, int a, int b, int of)
{
    uint32_t cell[CELLS] = { 0 }, alone[2][VALUES] = { { 0 } };
    bool varies[2] = { false, false };
    for (int64_t i = 0; i < s->rows; i++) {
        const int code[2] = { s->code[a * s->rows + i], s->code[b * s->rows + i] };
        const uint32_t v = value_at(s, of, i);
        uint32_t *in = &cell[code[0] * VALUES + code[1]];
        if (!code[0] || !code[1])
            continue;
        if (*in && *in != v)
            return false;
        *in = v;
        for (int k = 0; k < 2; k++) {
            uint32_t *one = &alone[k][code[k]];
            varies[k] |= *one && *one != v;
            *one = v;
        }
    }
    return varies[0] && varies[1];
}

static bool crossed(const struct search *s, int a, int b)
{
    for (int of = 0; of < s->c->columns; of++)
        if (of != a && of != b && is_cross(s, a, b, of))
            return true;
    return false;
}

static int search(struct search *s, struct ctr_cross *found)
{
    int any = 0;
    for (int i = 0; i < s->pairs_of; i++)
        for (int j = 0; j < i; j++) {
            const int a = CTR_MIN(s->paired[i], s->paired[j]), b = CTR_MAX(s->paired[i], s->paired[j]);
            double variance;
            const double gain = gain_of(s, a, b, &variance), share = gain / s->loss;
            if (!(share >= LEAST) || !(gain * gain >= ERRORS * ERRORS * variance) || (any && share <= found->gain) ||
                crossed(s, a, b))
                continue;
            any = 1;
            *found =
                (struct ctr_cross){ { s->c->names.s[a], s->c->names.s[b] }, share, gain / sqrt(variance), s->rows };
        }
    return any;
}

/* The last rows, but not the first half of those that were taken: the model had learned little. */
int ctr_crosses_find(const struct ctr_crosses *c, struct ctr_cross *found, struct ctr_err *err)
{
    const int64_t rows = c ? CTR_MIN(ROWS, c->taken - c->taken / 2) : 0;
    struct search *s = rows >= FEW_ROWS && c->columns > 1 ? calloc(1, sizeof *s) : NULL;
    if (rows < FEW_ROWS || c->columns < 2)
        return 0;
    if (!s || !(s->code = malloc((size_t)(c->columns * rows))) || !(s->fold = malloc((size_t)rows))) {
        if (s)
            free(s->code);
        free(s);
        return ctr_fail_nomem(err, (size_t)(c->columns * rows));
    }
    s->c = c;
    s->from = c->taken - rows;
    s->rows = rows;
    for (int64_t i = 0; i < rows; i++) {
        s->fold[i] = ctr_random64(0, 1, (uint64_t)(s->from + i)) & 1;
        s->loss += (double)c->row[(s->from + i) % ROWS].loss;
        s->ridge += RIDGE * (double)c->row[(s->from + i) % ROWS].weight / (double)rows;
    }
    int rc = code_columns(s, err);
    if (!rc && s->loss > 0)
        rc = search(s, found);
    free(s->code);
    free(s->fold);
    free(s);
    return rc;
}
