/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts batches of columns to rows of weighted coordinates. Loops run by column over a tile of rows; a second pass
 * by row, only needed if a key can repeat or an x be 0, merges repeated keys. The pass has its own hash set, because it
 * is emptied for each row: 4 bytes a slot; the keys stay in the row. */
#include "common/model/inputs.h"

#include <math.h>

#include "common/table/table.h"

/* Two rows of a key `site` (table 0), a list of keys `tags` (table 1) and a number `price` (table 2), capitals hashes:
 *
 *     site  tags     price      start  hash           table      x
 *     A     [B C]    2.5        0      A B C P        0 1 1 2    1 1 1 2.5
 *     D     [B B]    0          4      D B            0 1        1 2           the key B twice: one entry of x 2;
 *                               6                                              an x of 0 makes no entry
 *
 * `measure` bounds the entries of each row first, so that every column can write into its place of each row; `start` is
 * final after the pass by row. Deep models take numbers apart, as `dense`, one float a row and number. Where every
 * column has plain keys, one a row, row i's entries are at i * columns, and the pass by row is left out (all_plain). */

/* ---- labels and weights ---- */

static int check_column(const struct ctr_batch *b, int column, enum ctr_role role, struct ctr_buf *buf,
                        const double **out, struct ctr_err *err)
{
    *out = NULL;
    return column < 0 ? 0
                      : ctr_col_checked(&b->col[column], role, b->schema->f[column].name, b->first_row, buf, out, err);
}

static void see_number(struct ctr_input *p, const struct ctr_col *c, int64_t i)
{
    const double x = ctr_col_missing(c, i) ? NAN : ctr_col_f64(c, i);
    p->low = x < p->low ? x : p->low;
    p->high = x > p->high ? x : p->high;
}

/* The ranges of numbers, by rows that are spread over the batch. */
static void see_numbers(struct ctr_inputs *in, const struct ctr_batch *b)
{
    enum { ROWS = 256 };
    const int64_t step = b->rows / ROWS + 1;
    const bool left = b->left && b->left->numbers;
    for (int k = 0, number = 0; k < in->n; k++) {
        struct ctr_input *p = &in->in[k];
        const struct ctr_col *c = &b->col[p->column];
        if (left && p->kind == CTR_INPUT_NUMBER) {
            p->low = CTR_MIN(p->low, b->left->low[number]);
            p->high = CTR_MAX(p->high, b->left->high[number]);
            number++;
            continue;
        }
        for (int64_t i = 0; p->kind == CTR_INPUT_NUMBER && i < b->rows; i += step)
            see_number(p, c, i);
        for (int64_t i = 0; p->kind == CTR_INPUT_NUMBERS && i < b->rows; i += step) {
            int64_t at = 0, end = 0;
            const struct ctr_col *items = ctr_col_items(c, in->schema->f[p->column].width, i, &at, &end);
            for (; items && at < end; at++)
                see_number(p, items, at);
        }
    }
}

int ctr_inputs_batch(struct ctr_inputs *in, const struct ctr_batch *b, struct ctr_err *err)
{
    int rc = check_column(b, in->label, CTR_ROLE_LABEL, &in->labels, &in->label_of, err);
    in->batch = b;
    if (in->watch)
        see_numbers(in, b);
    for (int i = 0; i < in->mores && !rc; i++)
        rc = check_column(b, in->more[i].column, CTR_ROLE_WEIGHT, &in->more[i].buf, &in->more[i].of, err);
    return rc ? rc : check_column(b, in->weight, CTR_ROLE_WEIGHT, &in->weights, &in->weight_of, err);
}

/* ---- columns to rows ---- */

struct sink {
    int64_t *cursor; /* per row of the tile: position of its next entry */
    int64_t step;    /* distance between a row's consecutive entries */
    uint64_t *hash;
    uint16_t *table; /* NULL: not requested */
    double *x;       /* NULL: all 1 */
};

static inline void put(const struct sink *s, int64_t row, uint64_t hash, uint16_t table, double x)
{
    int64_t at = s->cursor[row];
    s->cursor[row] += s->step;
    s->hash[at] = hash;
    if (s->table)
        s->table[at] = table;
    if (s->x)
        s->x[at] = x;
}

static void put_keys(const struct ctr_input *in, const struct ctr_col *c, int64_t from, int64_t n, const struct sink *s)
{
    const struct ctr_col *values = c->dict ? c->dict : c;
    const uint64_t *key = values->data;
    const int32_t *index = c->dict ? c->data : NULL;
    bool nulls = c->valid || values->valid;
    for (int64_t i = 0; i < n; i++) {
        uint64_t hash;
        if (nulls && ctr_col_missing(c, from + i))
            hash = in->missing;
        else
            hash = ctr_key_hash(key[index ? index[from + i] : from + i]);
        put(s, i, hash, in->table, 1);
    }
}

/* The common case: every column of keys has plain ones without nulls, one per row. */
static bool all_plain(const struct ctr_inputs *in)
{
    for (int k = 0; in->plain && k < in->fixed; k++) {
        const struct ctr_col *c = &in->batch->col[in->in[in->key[k]].column];
        if (c->dict || c->valid)
            return false;
    }
    return in->plain;
}

static const uint64_t *keys_of(const struct ctr_inputs *in, int k)
{
    return in->batch->col[in->in[in->key[k]].column].data;
}

/* The hashes of a block stay in the first-level cache between the passes by column and by row. */
enum { BLOCK_ROWS = 64, BLOCK_COLUMNS = 64 };

static void put_block(const struct ctr_inputs *in, int first, int columns, int64_t from, int64_t rows, uint64_t *to)
{
    enum { ROWS_AHEAD = 16, LINE = 8 };
    uint64_t hash[BLOCK_COLUMNS][BLOCK_ROWS];
    const int64_t width = in->fixed;
    for (int k = 0; k < columns; k++) {
        const uint64_t *key = keys_of(in, first + k) + from;
        for (int64_t i = BLOCK_ROWS; i < 2 * BLOCK_ROWS; i += LINE) /* too many columns for the hardware prefetcher */
            __builtin_prefetch(key + i);
        in->kernel->hash(key, rows, hash[k]);
    }
    for (int64_t i = 0; i < rows; i++, to += width) {
        for (int k = 0; k < columns; k += LINE)
            __builtin_prefetch(to + ROWS_AHEAD * width + k, 1);
        for (int k = 0; k < columns; k++)
            to[k] = hash[k][i];
    }
}

static void put_tables(const struct ctr_inputs *in, int64_t n, const struct sink *s)
{
    for (int64_t i = 0; i < n && s->table; i++)
        memcpy(s->table + i * in->n, in->tables, (size_t)in->n * sizeof *s->table);
}

static void put_plain(const struct ctr_inputs *in, int64_t from, int64_t n, const struct sink *s)
{
    for (int64_t r = 0; r < n; r += BLOCK_ROWS)
        for (int k = 0; k < in->fixed; k += BLOCK_COLUMNS)
            put_block(in, k, CTR_MIN(BLOCK_COLUMNS, in->fixed - k), from + r, CTR_MIN(BLOCK_ROWS, n - r),
                      s->hash + r * in->fixed + k);
    put_tables(in, n, s);
}

/* Hashes by column. A column's rows of a tile are too short for the hardware prefetcher to reach the next column's. */
static void put_columns(const struct ctr_inputs *in, int64_t from, int64_t n, uint64_t *hash)
{
    enum { AHEAD = 2 }; /* columns */
    for (int k = -AHEAD; k < in->n; k++) {
        const uint64_t *next = k + AHEAD < in->n ? keys_of(in, k + AHEAD) : NULL;
        for (int64_t i = 0; i < n && next; i += 8)
            __builtin_prefetch(next + from + i);
        if (k >= 0)
            in->kernel->hash(keys_of(in, k) + from, n, hash + k * n);
    }
}

static void put_lists(const struct ctr_input *in, const struct ctr_col *c, int32_t width, int64_t from, int64_t n,
                      const struct sink *s)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t j = 0, end = 0;
        const struct ctr_col *items = ctr_col_items(c, width, from + i, &j, &end);
        if (!items) {
            put(s, i, in->missing, in->table, 1);
            continue;
        }
        const uint64_t *key = items->data;
        for (; j < end; j++)
            if (!ctr_col_null(items, j))
                put(s, i, ctr_key_hash(key[j]), in->table,
                    in->kind == CTR_INPUT_WEIGHTED_KEYS ? (double)items->weight[j] : 1);
    }
}

static void put_numbers(const struct ctr_input *in, const struct ctr_col *c, int32_t width, int64_t from, int64_t n,
                        const struct sink *s)
{
    const uint64_t *position = (const uint64_t *)(void *)in->position.data;
    for (int64_t i = 0; i < n; i++) {
        if (in->kind == CTR_INPUT_NUMBER) {
            if (!ctr_col_missing(c, from + i))
                put(s, i, in->missing, in->table, ctr_col_f64(c, from + i));
            continue;
        }
        int64_t first = 0, end = 0;
        const struct ctr_col *items = ctr_col_items(c, width, from + i, &first, &end);
        for (int64_t j = first; items && j < end; j++)
            if (!ctr_col_null(items, j))
                put(s, i, position[j - first], in->table, ctr_col_f64(items, j));
    }
}

/* Value `at` of c. */
static int bad_value(const struct ctr_inputs *in, int64_t row, const struct ctr_col *c, int64_t at, const char *column,
                     struct ctr_err *err)
{
    struct ctr_rule_text why;
    ctr_number_why(c, at, column, &why);
    return ctr_fail(err, CTR_EDATA, "row %lld: %s; %s", (long long)(in->batch->first_row + row + 1), why.what,
                    why.hint);
}

/* Store values [at, at + n) of a column, 0 for null, to every step-th float. Returns the first that is NaN or infinite,
 * or n. */
static int64_t put_floats(const struct ctr_col *c, int64_t at, int64_t n, float *to, int64_t step)
{
    enum { SOME = 256 };
    double value[SOME];
    for (int64_t done = 0, some; done < n; done += some) {
        float *const out = to + done * step;
        bool finite = true;
        some = CTR_MIN(SOME, n - done);
        ctr_col_range_f64(c, at + done, some, 0, value);
        for (int64_t i = 0; i < some; i++) {
            out[i * step] = (float)value[i];
            finite &= fabsf((float)value[i]) < INFINITY;
        }
        for (int64_t i = 0; !finite; i++)
            if (!(fabsf(out[i * step]) < INFINITY))
                return done + i;
    }
    return n;
}

/* By column: the numbers of rows [from, from + n) of one input, 0 for null. */
static int put_dense_column(const struct ctr_inputs *in, const struct ctr_input *p, int64_t from, int64_t n, float *to,
                            struct ctr_err *err)
{
    const struct ctr_col *c = &in->batch->col[p->column];
    const int32_t width = in->schema->f[p->column].width;
    if (p->kind == CTR_INPUT_NUMBER) {
        const int64_t bad = put_floats(c, from, n, to, in->dense);
        return bad == n ? 0 : bad_value(in, from + bad, c, from + bad, p->name, err);
    }
    for (int64_t i = 0; p->kind == CTR_INPUT_NUMBERS && i < n; i++) {
        int64_t at = 0, end = 0;
        const struct ctr_col *items = ctr_col_items(c, width, from + i, &at, &end);
        const int64_t bad = items ? at + put_floats(items, at, end - at, to + i * in->dense, 1) : end;
        if (!items)
            memset(to + i * in->dense, 0, (size_t)width * sizeof *to);
        else if (bad < end)
            return bad_value(in, from + i, items, bad, p->name, err);
    }
    return 0;
}

static int put_dense(const struct ctr_inputs *in, struct ctr_buf *buf, int64_t from, int64_t n, struct ctr_err *err)
{
    enum { ROWS = 256 }; /* their floats stay in cache between columns */
    int rc = ctr_buf_room(buf, n * in->dense, sizeof(float), err);
    float *to = (float *)(void *)buf->data;
    for (int64_t r = 0; r < n && !rc; r += ROWS)
        for (int k = 0; k < in->n && !rc; k++)
            if (ctr_input_is_number(&in->in[k]))
                rc = put_dense_column(in, &in->in[k], from + r, CTR_MIN(ROWS, n - r),
                                      to + r * in->dense + in->in[k].dense_at, err);
    return rc;
}

/* Compute upper bounds of each row's entries, and the keys of positions. */
static int measure(struct ctr_inputs *in, int64_t from, int64_t n, int64_t *start, struct ctr_err *err)
{
    if (in->plain) {
        for (int64_t i = 0; i <= n; i++)
            start[i] = i * in->fixed;
        return 0;
    }
    for (int64_t i = 0; i <= n; i++)
        start[i] = i ? in->fixed : 0;
    for (int k = 0; k < in->n; k++) {
        struct ctr_input *p = &in->in[k];
        if (p->kind == CTR_INPUT_KEY || p->kind == CTR_INPUT_NUMBER || (in->by_column && p->kind == CTR_INPUT_NUMBERS))
            continue;
        const struct ctr_col *c = &in->batch->col[p->column];
        int64_t longest = 0;
        for (int64_t i = 0; i < n; i++) {
            int64_t a = 0, b = 1;
            (void)ctr_col_items(c, in->schema->f[p->column].width, from + i, &a, &b);
            start[i + 1] += b - a;
            longest = CTR_MAX(longest, b - a);
        }
        for (int64_t j = (int64_t)(p->position.len / 8); p->kind == CTR_INPUT_NUMBERS && j < longest; j++) {
            uint64_t h = ctr_key_hash(ctr_dense_key(p->seed, j));
            int rc = ctr_buf_append(&p->position, &h, sizeof h, err);
            if (rc)
                return rc;
        }
    }
    for (int64_t i = 0; i < n; i++)
        start[i + 1] += start[i];
    return 0;
}

static int64_t items_of(const struct ctr_inputs *in, const struct ctr_input *p, int64_t row)
{
    int64_t from = 0, end = 1; /* a null list is one item that is missing */
    (void)ctr_col_items(&in->batch->col[p->column], in->schema->f[p->column].width, row, &from, &end);
    return end - from;
}

/* Lists of one group have equal lengths in every row, whether a model reads them item by item or not. */
static int check_aligned(const struct ctr_inputs *in, int64_t from, int64_t n, struct ctr_err *err)
{
    for (int k = 0; k < in->n && in->aligned; k++) {
        const struct ctr_input *p = &in->in[k], *first = &in->in[p->aligned_with];
        for (int64_t i = from; i < from + n && p != first; i++) {
            const int64_t items = items_of(in, p, i), want = items_of(in, first, i);
            if (items != want)
                return ctr_fail(err, CTR_EDATA,
                                "row %lld: '%.80s' has %lld items and '%.80s' has %lld: lists of one history (%.80s) "
                                "are aligned, item by item; mend the row, or leave one of them out of that group",
                                (long long)(in->batch->first_row + i + 1), first->name, (long long)want, p->name,
                                (long long)items, p->group);
        }
    }
    return 0;
}

int64_t ctr_inputs_fit(const struct ctr_inputs *in, int64_t from, int64_t n, int64_t entries)
{
    int64_t rows = 0, sum = 0;
    if (in->plain)
        return CTR_MAX(1, CTR_MIN(n, entries / CTR_MAX(in->fixed, 1)));
    for (; rows < n; rows++) {
        sum += in->fixed;
        for (int k = 0; k < in->n; k++) {
            const struct ctr_input *p = &in->in[k];
            int64_t a = 0, b = 1;
            if (p->kind == CTR_INPUT_KEY || p->kind == CTR_INPUT_NUMBER ||
                (in->by_column && p->kind == CTR_INPUT_NUMBERS))
                continue;
            (void)ctr_col_items(&in->batch->col[p->column], in->schema->f[p->column].width, from + rows, &a, &b);
            sum += b - a;
        }
        if (sum > entries)
            break;
    }
    return CTR_MAX(rows, 1);
}

/* ---- repeated keys ---- */

/* Empty the hash set of a row; slots hold entry + 1. */
static int empty_set(struct ctr_inputs *in, int64_t entries, uint64_t *mask, struct ctr_err *err)
{
    uint64_t slots = 64;
    while (slots < (uint64_t)entries * 2)
        slots *= 2;
    ctr_buf_clear(&in->seen);
    int rc = ctr_buf_reserve(&in->seen, slots * sizeof(uint32_t), err);
    if (!rc)
        memset(in->seen.data, 0, slots * sizeof(uint32_t));
    *mask = slots - 1;
    return rc;
}

/* Add the x of repeated keys to the first one, drop x == 0, close the gaps. Returns the number of entries kept at
 * `to`. */
static int64_t join_repeated(struct ctr_inputs *in, const struct sink *s, int64_t from, int64_t end, int64_t to,
                             uint64_t mask)
{
    uint32_t *set = (uint32_t *)(void *)in->seen.data;
    int64_t first = to;
    for (int64_t e = from; e < end; e++) {
        uint64_t h = s->hash[e];
        uint16_t table = s->table[e];
        if (s->x[e] == 0)
            continue;
        if (in->repeats[table]) {
            uint64_t at = ctr_hash_place(h ^ table * UINT64_C(0x9e3779b97f4a7c15), mask);
            for (; set[at]; at = (at + 1) & mask)
                if (s->hash[first + set[at] - 1] == h && s->table[first + set[at] - 1] == table)
                    break;
            if (set[at]) {
                s->x[first + set[at] - 1] += s->x[e];
                continue;
            }
            set[at] = (uint32_t)(to - first) + 1;
        }
        s->hash[to] = h;
        s->table[to] = table;
        s->x[to++] = s->x[e];
    }
    return to;
}

/* The error of the first NaN or infinite value of this row; one must exist. */
static int not_finite(const struct ctr_inputs *in, int64_t row, struct ctr_err *err)
{
    for (const struct ctr_input *p = in->in; p < in->in + in->n; p++) {
        const struct ctr_col *of;
        const bool keys = p->kind == CTR_INPUT_KEY || p->kind == CTR_INPUT_KEYS;
        const int64_t at = keys ? -1 : ctr_number_bad(in->batch, p->column, row, false, &of);
        if (at >= 0)
            return bad_value(in, row, of, at, p->name, err);
    }
    return ctr_fail(err, CTR_EDATA, "row %lld: a value is NaN or infinite",
                    (long long)(in->batch->first_row + row + 1));
}

static int check_x(const struct ctr_inputs *in, const struct sink *s, int64_t row, int64_t from, int64_t end,
                   struct ctr_err *err)
{
    for (int64_t e = from; e < end; e++)
        if (!(fabs(s->x[e]) < INFINITY))
            return not_finite(in, row, err);
    return 0;
}

static int second_sweep(struct ctr_inputs *in, const struct sink *s, int64_t from, int64_t n, int64_t *start,
                        struct ctr_err *err)
{
    int64_t to = 0, begin = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t end = s->cursor[i], next = start[i + 1];
        uint64_t mask = 0;
        int rc = empty_set(in, end - begin, &mask, err);
        if (!rc)
            rc = check_x(in, s, from + i, begin, end, err);
        if (rc)
            return rc;
        start[i] = to;
        to = join_repeated(in, s, begin, end, to, mask);
        begin = next;
    }
    start[n] = to;
    return 0;
}

/* By column, if each input has one entry per row: an entry's position gives its input. */
static bool no_table(const struct ctr_inputs *in)
{
    return in->by_column && in->plain;
}

static int make_room(const struct ctr_inputs *in, struct ctr_rowbuf *buf, int64_t entries, bool hashes, bool tables,
                     struct ctr_err *err)
{
    int rc = hashes ? ctr_buf_room(&buf->hash, entries, sizeof(uint64_t), err) : 0;
    if (!rc && tables)
        rc = ctr_buf_room(&buf->table, entries, sizeof(uint16_t), err);
    if (!rc && in->has_x && hashes)
        rc = ctr_buf_room(&buf->x, entries, sizeof(double), err);
    return rc;
}

/* Labels or weights of rows [from, from + n): a pointer into the batch, or a copy in `buf`. */
static int put_column(const double *all, int64_t from, int64_t n, struct ctr_buf *buf, const double **out,
                      struct ctr_err *err)
{
    *out = all ? all + from : NULL;
    if (!all || !buf)
        return 0;
    ctr_buf_clear(buf);
    int rc = ctr_buf_append(buf, all + from, (size_t)n * sizeof *all, err);
    *out = (const double *)(void *)buf->data;
    return rc;
}

static int put_days(const struct ctr_inputs *in, struct ctr_buf *buf, int64_t from, int64_t n, const int32_t **day,
                    struct ctr_err *err)
{
    const int64_t DAY_MS = 86400000;
    const struct ctr_col *c = &in->batch->col[in->time];
    int rc = ctr_buf_room(buf, n, sizeof(int32_t), err);
    int32_t *to = (int32_t *)(void *)buf->data;
    for (int64_t i = 0; i < n && !rc; i++) {
        if (ctr_col_missing(c, from + i)) {
            rc = ctr_fail(err, CTR_EDATA, "row %lld: the time (column %s) is null",
                          (long long)(in->batch->first_row + from + i + 1), in->schema->f[in->time].name);
            break;
        }
        int64_t ms = ctr_col_i64(c, from + i), days = ms / DAY_MS - (ms % DAY_MS < 0);
        to[i] = (int32_t)CTR_MIN(CTR_MAX(days, INT32_MIN + 1), INT32_MAX);
    }
    *day = to;
    return rc;
}

/* The additional weights of rows: one pointer per column. */
static int put_weights(const struct ctr_inputs *in, struct ctr_rowbuf *buf, bool keep, int64_t from, int64_t n,
                       const double *const **weights, struct ctr_err *err)
{
    int rc = ctr_buf_room(&buf->weight_at, in->mores, sizeof(double *), err);
    if (!rc && keep)
        rc = ctr_buf_room(&buf->weights, in->mores * n, sizeof(double), err);
    const double **at = (const double **)(void *)buf->weight_at.data;
    double *copy = (double *)(void *)buf->weights.data;
    for (int i = 0; i < in->mores && !rc; i++) {
        at[i] = keep ? copy + i * n : in->more[i].of + from;
        if (keep && n)
            memcpy(copy + i * n, in->more[i].of + from, (size_t)n * sizeof *copy);
    }
    *weights = at;
    return rc;
}

/* The entries of rows from … from+n-1; `fast`: those of all_plain inputs. */
static void put_values(const struct ctr_inputs *in, bool fast, int64_t from, int64_t n, const int64_t *start,
                       struct sink *s)
{
    for (int64_t i = 0; i < n && !fast; i++)
        s->cursor[i] = in->transposed ? i : start[i];
    if (fast && in->transposed)
        put_columns(in, from, n, s->hash);
    if (fast && !in->transposed)
        put_plain(in, from, n, s);
    for (int k = 0; k < in->n && !fast; k++) {
        const struct ctr_input *p = &in->in[k];
        const struct ctr_col *c = &in->batch->col[p->column];
        int32_t width = in->schema->f[p->column].width;
        if (p->kind == CTR_INPUT_KEY)
            put_keys(p, c, from, n, s);
        else if (ctr_input_is_number(p) && !in->by_column)
            put_numbers(p, c, width, from, n, s);
        else if (ctr_input_is_number(p))
            continue;
        else
            put_lists(p, c, width, from, n, s);
    }
}

/* ---- rows that are on a device ---- */

/* Room for what n rows with so many lists have of these: buf->left is a struct ctr_rows_left and its lists. */
static int left_room(struct ctr_rowbuf *buf, int lists, int64_t n, struct ctr_rows_list **list, int32_t **item,
                     struct ctr_err *err)
{
    struct ctr_rows_left *left;
    int rc = ctr_buf_room(&buf->left, 1, sizeof *left + (size_t)lists * sizeof **list, err);
    if (!rc)
        rc = ctr_buf_room(&buf->item, 2 * lists * n, sizeof **item, err);
    left = (struct ctr_rows_left *)(void *)buf->left.data;
    *list = rc ? NULL : (struct ctr_rows_list *)(void *)(left + 1);
    *item = (int32_t *)(void *)buf->item.data;
    return rc;
}

static int put_left(const struct ctr_inputs *in, struct ctr_rowbuf *buf, int64_t from, int64_t n, struct ctr_err *err)
{
    const struct ctr_left *there = in->batch->left;
    struct ctr_rows_left left = { .hashes = there->hashes + (uint64_t)(from * in->fixed) * sizeof(uint64_t),
                                  .keys = in->fixed };
    struct ctr_rows_list *list;
    int32_t *item;
    if (there->numbers)
        left.numbers = there->numbers + (uint64_t)(from * in->dense) * sizeof(float);
    for (int k = 0; k < in->n; k++)
        left.lists += in->in[k].kind == CTR_INPUT_KEYS;
    const int rc = left_room(buf, left.lists, n, &list, &item, err);
    if (rc)
        return rc;
    left.list = list;
    memcpy(buf->left.data, &left, sizeof left);
    const uint64_t *hash = there->list;
    for (const struct ctr_input *p = in->in; p < in->in + in->n; p++) {
        if (p->kind != CTR_INPUT_KEYS)
            continue;
        *list++ = (struct ctr_rows_list){ *hash++, item, item + n, p->missing };
        for (int64_t i = 0; i < n; i++) {
            int64_t at = 0, end = 1;
            const struct ctr_col *c = &in->batch->col[p->column];
            item[i] = ctr_col_items(c, in->schema->f[p->column].width, from + i, &at, &end) ? (int32_t)at : -1;
            item[n + i] = (int32_t)(end - at);
        }
        item += 2 * n;
    }
    return 0;
}

static int keep(struct ctr_buf *b, const void *of, int64_t n, size_t size, struct ctr_err *err)
{
    ctr_buf_clear(b);
    return of ? ctr_buf_append(b, of, (size_t)n * size, err) : 0;
}

int ctr_rows_keep_left(const struct ctr_rows *r, int64_t from, int64_t n, int64_t dense, struct ctr_rowbuf *buf,
                       struct ctr_rows *kept, struct ctr_err *err)
{
    struct ctr_rows_left left = *r->left;
    const int64_t there = r->left_row + from;
    struct ctr_rows_list *list;
    int32_t *item;
    int rc = left_room(buf, left.lists, n, &list, &item, err);
    if (!rc)
        rc = keep(&buf->start, r->start + from, n + 1, sizeof *r->start, err);
    if (!rc)
        rc = keep(&buf->label, r->label + from, n, sizeof *r->label, err);
    if (!rc)
        rc = keep(&buf->table, r->table ? r->table + r->start[from] : NULL, r->start[from + n] - r->start[from],
                  sizeof *r->table, err);
    if (!rc)
        rc = keep(&buf->dense, r->dense ? r->dense + from * dense : NULL, n * dense, sizeof *r->dense, err);
    if (rc)
        return rc;
    for (int l = 0; l < left.lists; l++, item += 2 * n) {
        list[l] = (struct ctr_rows_list){ left.list[l].hash, item, item + n, left.list[l].none };
        memcpy(item, left.list[l].item + there, (size_t)n * sizeof *item);
        memcpy(item + n, left.list[l].count + there, (size_t)n * sizeof *item);
    }
    left.list = list;
    left.hashes += (uint64_t)(there * left.keys) * sizeof(uint64_t);
    left.numbers += left.numbers ? (uint64_t)(there * dense) * sizeof(float) : 0;
    memcpy(buf->left.data, &left, sizeof left);
    int64_t *start = (int64_t *)(void *)buf->start.data;
    for (int64_t i = n; i >= 0; i--)
        start[i] -= start[0];
    *kept = (struct ctr_rows){ .rows = n,
                               .first_row = r->first_row + from,
                               .start = start,
                               .label = (const double *)(const void *)buf->label.data,
                               .table = r->table ? (const uint16_t *)(const void *)buf->table.data : NULL,
                               .dense = r->dense ? (const float *)(const void *)buf->dense.data : NULL,
                               .one_a_table = r->one_a_table,
                               .left = (const struct ctr_rows_left *)(const void *)buf->left.data };
    return 0;
}

int ctr_inputs_rows(struct ctr_inputs *in, struct ctr_rowbuf *keep, int64_t from, int64_t n, struct ctr_rows *rows,
                    struct ctr_err *err)
{
    struct ctr_rowbuf *buf = keep ? keep : &in->own;
    int rc = ctr_buf_room(&buf->start, n + 1, sizeof(int64_t), err);
    if (!rc)
        rc = ctr_buf_room(&in->cursor, n + 1, sizeof(int64_t), err);
    if (rc)
        return rc;
    int64_t *start = (int64_t *)(void *)buf->start.data;
    const struct ctr_left *there = in->batch->left;
    const bool tables = !no_table(in) && (!there || in->plain);
    if ((rc = check_aligned(in, from, n, err)) || (rc = measure(in, from, n, start, err)) ||
        (rc = make_room(in, buf, start[n], !there, tables, err)))
        return rc;
    struct sink s = { (int64_t *)(void *)in->cursor.data, in->transposed ? n : 1, (uint64_t *)(void *)buf->hash.data,
                      tables ? (uint16_t *)(void *)buf->table.data : NULL,
                      in->has_x && !there ? (double *)(void *)buf->x.data : NULL };
    const bool fast = all_plain(in);
    if (there)
        put_tables(in, n, &s);
    else
        put_values(in, fast, from, n, start, &s);
    for (int64_t e = 0; in->change.hash_bits && e < start[n]; e++)
        s.hash[e] = ctr_row_transform_fold(s.hash[e], in->change.hash_bits);
    if (!in->plain && !there && (rc = second_sweep(in, &s, from, n, start, err)))
        return rc;
    const bool dense = in->dense && !(there && there->numbers);
    if (dense && (rc = put_dense(in, &buf->dense, from, n, err)))
        return rc;
    if (there && (rc = put_left(in, buf, from, n, err)))
        return rc;
    for (int64_t e = 0; fast && s.x && e < start[n]; e++)
        s.x[e] = 1;
    if (ctr_row_transform_scales(&in->change))
        ctr_row_transform_apply(&in->change, n, in->batch->first_row + from, start, s.hash, s.table, s.x);
    if (in->transposed && n)
        memcpy(s.table, in->tables, (size_t)in->n * sizeof *s.table);
    *rows = (struct ctr_rows){
        .transposed = in->transposed,
        .rows = n,
        .first_row = in->batch->first_row + from,
        .start = start,
        .hash = there ? NULL : s.hash,
        .left = there ? (const struct ctr_rows_left *)(const void *)buf->left.data : NULL,
        .table = s.table,
        .x = s.x,
        .one_a_table = in->plain && !(in->change.drop > 0),
        .dense = dense ? (const float *)(const void *)buf->dense.data : NULL,
    };
    if (in->time >= 0 && (rc = put_days(in, &buf->day, from, n, &rows->day, err)))
        return rc;
    if (in->mores && (rc = put_weights(in, buf, keep != NULL, from, n, &rows->weights, err)))
        return rc;
    rc = put_column(in->label_of, from, n, keep ? &keep->label : NULL, &rows->label, err);
    return rc ? rc : put_column(in->weight_of, from, n, keep ? &keep->weight : NULL, &rows->weight, err);
}
