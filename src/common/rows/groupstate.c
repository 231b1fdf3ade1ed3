/* SPDX-License-Identifier: Apache-2.0
 *
 * groupstate: the aggregates of ctr-group, a row each of `functions`. Rows are taken in tile by tile: the states of a
 * tile are prefetched, each column is decoded once to int64 or double, and each aggregate of it runs over the tile.
 * Invariant: a group's rows are taken in input order, so that a float sum has the same bits whatever lies around it. */
#include "common/rows/groupstate.h"

#include "common/rows/relkey.h"

#include <math.h>
#include <stdlib.h>

enum { TILE = 256 };
enum input { IN_ROWS, IN_ANY, IN_SCALAR, IN_NUMBER };             /* valid columns; IN_ROWS: also none */
enum result { OUT_COUNT, OUT_SUM, OUT_REAL, OUT_SAME, OUT_LIST }; /* OUT_SUM: int64 for integers, else float */
enum { MOST_TOP = 1000 };

/* Rows of a batch on their way into groups. */
struct tile {
    const struct ctr_col *c; /* NULL: none */
    const int32_t *row;
    int n;
    int64_t *state[TILE];
    bool there[TILE]; /* not null */
    int64_t whole[TILE];
    double real[TILE];
};

struct results;
struct ctr_groupfunction {
    const char *name;
    enum input input;
    enum result result;
    bool late;             /* of two alike: the largest, the last */
    bool ordered;          /* needs the values in order */
    bool kept;             /* results lie beside the words, of numbers too */
    int words, real_words; /* of a group's state; of a column of floats */
    void (*take)(const struct ctr_aggregate *a, const struct tile *t);
    int (*keep)(const struct ctr_aggregate *a, const struct tile *t, struct ctr_colbuf *kept, struct ctr_err *err);
    int (*give)(struct results *r, int64_t *failed, struct ctr_err *err); /* numbers */
};

/* The state of a group is a run of `stride` words, each aggregate's from its `at` on. Of n=count(), s=sum(x) and
 * m=min(site) with an integer x and a text site, the rows (5, b) and (-1, a) make of four zeros:
 *
 *     word   0   1  2   3                       kept, of m
 *            n   s      m
 *            1   5  0   1                       b            m is 1 + the row of its value in `kept`
 *            2   4  0   2                       b a          a is less than b
 *
 * s is an integer of 128 bits, low word first, which give_sum checks against int64. b is no group's value any more;
 * drop_old leaves out such values once they are more than half. A tile is taken in by one aggregate after the other. */

/* Of numbers, booleans and times a value fits a word. */
static bool in_words(const struct ctr_aggregate *a)
{
    return a->column < 0 || a->type == CTR_BOOL || a->type == CTR_TIME || ctr_type_number(a->type);
}

static bool is_real(const struct ctr_aggregate *a)
{
    return a->column >= 0 && ctr_types[a->type].floating;
}

static int64_t bits_of(double v)
{
    int64_t w;
    memcpy(&w, &v, sizeof w);
    return w;
}

static double real_of(int64_t w)
{
    double v;
    memcpy(&v, &w, sizeof v);
    return v;
}

/* ---- functions: taking ---- */

static void take_count(const struct ctr_aggregate *a, const struct tile *t)
{
    for (int i = 0; i < t->n; i++)
        t->state[i][a->at] += t->there[i];
}

/* w[0] and w[1] as an integer of 128 bits. */
static void add_whole(int64_t *w, int64_t v, bool wide)
{
    const uint64_t low = (uint64_t)w[0] + (uint64_t)v;
    w[1] = (int64_t)((uint64_t)w[1] + (uint64_t)(wide ? 0 : v >> 63) + (low < (uint64_t)v));
    w[0] = (int64_t)low;
}

/* `at`: the word of the sum. */
static void add(const struct ctr_aggregate *a, const struct tile *t, int at)
{
    const bool wide = a->type == CTR_U64;
    if (is_real(a)) {
        for (int i = 0; i < t->n; i++)
            if (t->there[i])
                t->state[i][at] = bits_of(real_of(t->state[i][at]) + t->real[i]);
    } else
        for (int i = 0; i < t->n; i++)
            if (t->there[i])
                add_whole(&t->state[i][at], t->whole[i], wide);
}

static void take_sum(const struct ctr_aggregate *a, const struct tile *t)
{
    add(a, t, a->at);
}

static void take_mean(const struct ctr_aggregate *a, const struct tile *t)
{
    take_count(a, t);
    add(a, t, a->at + 1);
}

/* The first of the smallest values: NaN is the largest number, and -0 equals 0. */
static bool less_real(double a, double b)
{
    return a < b || (isnan(b) && !isnan(a));
}

static void take_extreme(const struct ctr_aggregate *a, const struct tile *t)
{
    const bool real = is_real(a), largest = a->f->late;
    const uint64_t flip = a->type == CTR_U64 ? 0 : (uint64_t)1 << 63, down = largest ? ~(uint64_t)0 : 0;
    for (int i = 0; i < t->n; i++) {
        int64_t *w = &t->state[i][a->at];
        bool better = !w[0];
        if (!t->there[i])
            continue;
        if (real)
            better |= largest ? less_real(real_of(w[1]), t->real[i]) : less_real(t->real[i], real_of(w[1]));
        else
            better |= ((uint64_t)t->whole[i] ^ flip ^ down) < ((uint64_t)w[1] ^ flip ^ down);
        w[0] = 1;
        w[1] = !better ? w[1] : real ? bits_of(t->real[i]) : t->whole[i];
    }
}

static void take_end(const struct ctr_aggregate *a, const struct tile *t)
{
    for (int i = 0; i < t->n; i++) {
        int64_t *w = &t->state[i][a->at];
        if (w[0] && !a->f->late)
            continue;
        w[0] = t->there[i] ? 1 : 2;
        w[1] = is_real(a) ? bits_of(t->real[i]) : t->whole[i];
    }
}

/* ---- functions: values beside the words ---- */

static int keep_row(int64_t *w, const struct tile *t, int i, struct ctr_colbuf *kept, struct ctr_err *err)
{
    *w = kept->rows + 1;
    return ctr_colbuf_range(kept, t->c, t->row[i], 1, err);
}

static int keep_extreme(const struct ctr_aggregate *a, const struct tile *t, struct ctr_colbuf *kept,
                        struct ctr_err *err)
{
    const int sign = a->f->late ? -1 : 1;
    int rc = 0;
    for (int i = 0; !rc && i < t->n; i++) {
        int64_t *w = &t->state[i][a->at];
        if (t->there[i] && (!*w || sign * ctr_col_compare(t->c, t->row[i], ctr_colbuf_view(kept), *w - 1) < 0))
            rc = keep_row(w, t, i, kept, err);
    }
    return rc;
}

static int keep_first(const struct ctr_aggregate *a, const struct tile *t, struct ctr_colbuf *kept, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < t->n; i++)
        if (!t->state[i][a->at])
            rc = keep_row(&t->state[i][a->at], t, i, kept, err);
    return rc;
}

/* What needs the values in order makes its results from these. */
static int keep_nothing(const struct ctr_aggregate *a, const struct tile *t, struct ctr_colbuf *kept,
                        struct ctr_err *err)
{
    (void)a, (void)t, (void)kept, (void)err;
    return 0;
}

/* Of the rows of a group in the tile only the last is copied. */
static int keep_last(const struct ctr_aggregate *a, const struct tile *t, struct ctr_colbuf *kept, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; i < t->n; i++)
        t->state[i][a->at] = -1 - i;
    for (int i = 0; !rc && i < t->n; i++)
        if (t->state[i][a->at] == -1 - i)
            rc = keep_row(&t->state[i][a->at], t, i, kept, err);
    return rc;
}

/* ---- functions: giving ---- */

/* Results of a tile of groups, whole or real ones, to be appended; `there` as for rows. */
struct results {
    const struct ctr_aggregate *a;
    struct ctr_groupstate *const *of;
    int n;
    const int64_t *w[TILE]; /* the words of the aggregate */
    bool there[TILE];
    int64_t whole[TILE];
    double real[TILE];
};

static int give_count(struct results *r, int64_t *failed, struct ctr_err *err)
{
    (void)failed, (void)err;
    for (int i = 0; i < r->n; i++)
        r->whole[i] = r->w[i][0];
    return 0;
}

/* A canonical NaN: arithmetic may give different ones, depending on the order of operands. */
static double canonical(double v)
{
    return isnan(v) ? (double)NAN : v;
}

static int give_sum(struct results *r, int64_t *failed, struct ctr_err *err)
{
    const struct ctr_aggregate *a = r->a;
    for (int i = 0; i < r->n; i++) {
        const int64_t *w = r->w[i];
        *failed = i;
        if (is_real(a))
            r->real[i] = canonical(real_of(w[0]));
        else if (w[1] != w[0] >> 63)
            return ctr_fail(err, CTR_EDATA, "sum(%s) is beyond int64; sum floats: %s%s * 1.0%s", a->column_name,
                            ctr_words(a->in_plan, "ctr-select --add 'x=", "add x = "), a->column_name,
                            ctr_words(a->in_plan, "'", ""));
        else
            r->whole[i] = w[0];
    }
    return 0;
}

static int give_mean(struct results *r, int64_t *failed, struct ctr_err *err)
{
    (void)failed, (void)err;
    for (int i = 0; i < r->n; i++) {
        const int64_t *w = r->w[i];
        const double sum = is_real(r->a)
                               ? real_of(w[1])
                               : (double)(__int128)((unsigned __int128)w[2] << 64 | (unsigned __int128)(uint64_t)w[1]);
        r->there[i] = w[0];
        r->real[i] = canonical(sum / (double)CTR_MAX(w[0], 1));
    }
    return 0;
}

static int give_same(struct results *r, int64_t *failed, struct ctr_err *err)
{
    (void)failed, (void)err;
    for (int i = 0; i < r->n; i++) {
        const int64_t *w = r->w[i];
        r->there[i] = w[0] == 1;
        if (is_real(r->a))
            r->real[i] = real_of(w[1]);
        else
            r->whole[i] = w[1];
    }
    return 0;
}

static int give_distinct(struct results *r, int64_t *failed, struct ctr_err *err)
{
    (void)failed, (void)err;
    for (int i = 0; i < r->n; i++)
        r->whole[i] = r->w[i][1];
    return 0;
}

static int give_quantile(struct results *r, int64_t *failed, struct ctr_err *err)
{
    (void)failed, (void)err;
    for (int i = 0; i < r->n; i++) {
        r->there[i] = r->w[i][0];
        r->real[i] = canonical(real_of(r->w[i][1])) + 0.0; /* -0 and 0 are one value */
    }
    return 0;
}

static const struct ctr_groupfunction functions[] = {
    { "count", IN_ROWS, OUT_COUNT, false, false, false, 1, 1, take_count, NULL, give_count },
    { "sum", IN_NUMBER, OUT_SUM, false, false, false, 2, 1, take_sum, NULL, give_sum },
    { "mean", IN_NUMBER, OUT_REAL, false, false, false, 3, 2, take_mean, NULL, give_mean },
    { "min", IN_SCALAR, OUT_SAME, false, false, false, 2, 2, take_extreme, keep_extreme, give_same },
    { "max", IN_SCALAR, OUT_SAME, true, false, false, 2, 2, take_extreme, keep_extreme, give_same },
    { "first", IN_ANY, OUT_SAME, false, false, false, 2, 2, take_end, keep_first, give_same },
    { "last", IN_ANY, OUT_SAME, true, false, false, 2, 2, take_end, keep_last, give_same },
    { "distinct", IN_SCALAR, OUT_COUNT, false, true, false, 2, 2, take_count, NULL, give_distinct },
    { "quantile", IN_NUMBER, OUT_REAL, false, true, false, 2, 2, take_count, NULL, give_quantile },
    { "mode", IN_SCALAR, OUT_SAME, false, true, true, 1, 1, NULL, keep_nothing, NULL },
    { "top", IN_SCALAR, OUT_LIST, false, true, true, 1, 1, NULL, keep_nothing, NULL },
};

bool ctr_aggregate_keeps(const struct ctr_aggregate *a)
{
    return a->f->kept || (a->f->keep && !in_words(a));
}

bool ctr_aggregate_counts(const struct ctr_aggregate *a)
{
    return a->f->take == take_count || a->f->take == take_mean;
}

bool ctr_aggregate_ordered(const struct ctr_aggregate *a)
{
    return a->f->ordered;
}

const char *ctr_aggregate_function(const struct ctr_aggregate *a)
{
    return a->f->name;
}

/* ---- what is asked for ---- */

static const struct ctr_groupfunction *find_function(const char *name, size_t n, struct ctr_err *err)
{
    const char *names[CTR_COUNT(functions)];
    char word[64], hint[200];
    for (size_t i = 0; i < CTR_COUNT(functions); i++) {
        names[i] = functions[i].name;
        if (strlen(names[i]) == n && !memcmp(names[i], name, n))
            return &functions[i];
    }
    ctr_format(word, sizeof word, "%.*s", (int)CTR_MIN(n, (size_t)40), name);
    (void)ctr_fail(err, CTR_EUSAGE, "there is no aggregate %s%s", word,
                   ctr_name_hint(hint, sizeof hint, word, names, (int)CTR_COUNT(functions)));
    return NULL;
}

static struct ctr_str trimmed(const char *p, size_t n)
{
    while (n && *p == ' ')
        p++, n--;
    while (n && p[n - 1] == ' ')
        n--;
    return (struct ctr_str){ p, n };
}

static int check_column(struct ctr_aggregate *a, const struct ctr_schema *s, struct ctr_err *err)
{
    char type[64];
    a->column = -1;
    if (!*a->column_name && a->f->input == IN_ROWS)
        return 0;
    if (!*a->column_name)
        return ctr_fail(err, CTR_EUSAGE, "%s=%s() wants a column", a->name, a->f->name);
    a->column = ctr_schema_need(s, a->column_name, err);
    if (a->column < 0)
        return a->column;
    const struct ctr_field *f = &s->f[a->column];
    const bool number = ctr_type_number(f->type) || f->type == CTR_BOOL;
    a->type = f->type;
    if ((a->f->input == IN_NUMBER && !number) || (a->f->input == IN_SCALAR && ctr_key_class(f->type) == CTR_KEY_NONE))
        return ctr_fail(err, CTR_EUSAGE, "%s is %s, and %s takes %s", f->name,
                        ctr_field_type_name(f, type, sizeof type), a->f->name,
                        number                     ? "no list"
                        : a->f->input == IN_NUMBER ? "numbers"
                                                   : "no list");
    return 0;
}

/* The type of the result. */
static struct ctr_field result_of(const struct ctr_aggregate *a, const struct ctr_schema *s)
{
    static const enum ctr_type type[] = { [OUT_COUNT] = CTR_I64, [OUT_SUM] = CTR_I64, [OUT_REAL] = CTR_F64 };
    if (a->f->result == OUT_LIST)
        return (struct ctr_field){ .type = CTR_LIST, .item = a->type };
    if (a->f->result != OUT_SAME)
        return (struct ctr_field){ .type = a->f->result == OUT_SUM && is_real(a) ? CTR_F64 : type[a->f->result] };
    const struct ctr_field *f = &s->f[a->column];
    return (struct ctr_field){ .type = f->type, .item = f->item, .width = f->width };
}

/* The number behind the column of a quantile or a top. */
static int parse_number(struct ctr_aggregate *a, const char *text, struct ctr_str *column, struct ctr_err *err)
{
    const char *comma = memrchr(column->p, ',', column->n);
    const struct ctr_str p =
        comma ? trimmed(comma + 1, (size_t)(column->p + column->n - comma) - 1) : (struct ctr_str){ "", 0 };
    int64_t n;
    if (a->f->result == OUT_LIST) {
        if (!comma || !ctr_parse_i64(p.p, p.n, &n) || n < 1 || n > MOST_TOP)
            return ctr_fail(err, CTR_EUSAGE, "%s: top(COLUMN, N) wants a number of values N from 1 to %d", text,
                            MOST_TOP);
        a->p = (double)n;
    } else if (!comma || !ctr_parse_f64(p.p, p.n, &a->p) || !(a->p >= 0 && a->p <= 1)) {
        return ctr_fail(err, CTR_EUSAGE, "%s: quantile(COLUMN, P) wants a P from 0 to 1, 0.5 being the median", text);
    }
    *column = trimmed(column->p, (size_t)(comma - column->p));
    return 0;
}

int ctr_aggregate_parse(struct ctr_aggregate *a, const char *text, const struct ctr_schema *s, bool in_plan,
                        struct ctr_err *err)
{
    const char *eq = strchr(text, '='), *open = eq ? strchr(eq, '(') : NULL;
    const size_t n = strlen(text);
    *a = (struct ctr_aggregate){ .in_plan = in_plan, .taken = -1, .values = -1 };
    if (!open || eq == text || text[n - 1] != ')')
        return ctr_fail(err, CTR_EUSAGE, "'%s' is not NAME=AGGREGATE(COLUMN), such as clicks=sum(click)", text);
    struct ctr_str name = trimmed(text, (size_t)(eq - text)), word = trimmed(eq + 1, (size_t)(open - eq) - 1),
                   column = trimmed(open + 1, (size_t)(text + n - 1 - (open + 1)));
    if (!(a->f = find_function(word.p, word.n, err)))
        return err->code;
    a->p = 1; /* of mode */
    if ((a->f->give == give_quantile || a->f->result == OUT_LIST) && parse_number(a, text, &column, err))
        return err->code;
    int rc = ctr_memdup(&a->name, name.p, name.n, err);
    if (!rc)
        rc = ctr_memdup(&a->column_name, column.p, column.n, err);
    if (!rc)
        rc = check_column(a, s, err);
    if (!rc)
        a->of = result_of(a, s);
    return rc;
}

void ctr_aggregate_free(struct ctr_aggregate *a)
{
    free(a->name);
    free(a->column_name);
}

/* ---- states ---- */

int ctr_groupstate_init(struct ctr_groupstate *s, struct ctr_aggregate *agg, int n, struct ctr_err *err)
{
    int rc = 0;
    *s = (struct ctr_groupstate){ .agg = agg, .n = n, .kept = calloc((size_t)n + 1, sizeof *s->kept) };
    if (!s->kept)
        return ctr_fail_nomem(err, (size_t)n * sizeof *s->kept);
    for (int i = 0; !rc && i < n; i++) {
        agg[i].at = s->stride;
        s->stride += ctr_aggregate_keeps(&agg[i]) ? 1 : is_real(&agg[i]) ? agg[i].f->real_words : agg[i].f->words;
        if (ctr_aggregate_keeps(&agg[i]))
            rc = ctr_colbuf_init(&s->kept[i], &agg[i].of, err);
    }
    return rc;
}

void ctr_groupstate_free(struct ctr_groupstate *s)
{
    for (int i = 0; s->kept && i < s->n; i++)
        ctr_colbuf_free(&s->kept[i]);
    free(s->kept);
    ctr_buf_free(&s->word);
    *s = (struct ctr_groupstate){ 0 };
}

void ctr_groupstate_clear(struct ctr_groupstate *s)
{
    for (int i = 0; i < s->n; i++)
        if (ctr_aggregate_keeps(&s->agg[i]))
            ctr_colbuf_clear(&s->kept[i]);
    s->word.len = 0;
    s->groups = 0;
}

static int64_t colbuf_bytes(const struct ctr_colbuf *b)
{
    return (int64_t)(b->data.cap + b->offsets.cap + b->valid.cap + b->weight.cap) +
           (b->item ? colbuf_bytes(b->item) : 0);
}

int64_t ctr_groupstate_bytes(const struct ctr_groupstate *s)
{
    int64_t bytes = (int64_t)s->word.cap;
    for (int i = 0; i < s->n; i++)
        bytes += ctr_aggregate_keeps(&s->agg[i]) ? colbuf_bytes(&s->kept[i]) : 0;
    return bytes;
}

#define DECODE(T)                                                                                                      \
    do {                                                                                                               \
        const T *v = t->c->data;                                                                                       \
        for (int i = 0; i < t->n; i++)                                                                                 \
            t->whole[i] = (int64_t)v[t->row[i]];                                                                       \
    } while (0)

/* The column's values of the tile, as whole or real ones, and whether there is one. */
static void decode(struct tile *t)
{
    const bool encoded = t->c->dict, real = ctr_types[t->c->type].floating;
    if (!t->c->valid && !encoded)
        memset(t->there, 1, (size_t)t->n);
    else
        for (int i = 0; i < t->n; i++)
            t->there[i] = !ctr_col_missing(t->c, t->row[i]);
    if (t->c->type == CTR_F64 && !encoded) {
        const double *v = t->c->data;
        for (int i = 0; i < t->n; i++)
            t->real[i] = v[t->row[i]];
    } else if (real) {
        for (int i = 0; i < t->n; i++)
            t->real[i] = t->there[i] ? ctr_col_f64(t->c, t->row[i]) : 0;
    } else if (encoded || t->c->type == CTR_BOOL) {
        for (int i = 0; i < t->n; i++)
            t->whole[i] = t->there[i] ? ctr_col_i64(t->c, t->row[i]) : 0;
    } else {
        switch (t->c->type) {
        case CTR_I8: DECODE(int8_t); break;
        case CTR_I16: DECODE(int16_t); break;
        case CTR_I32: DECODE(int32_t); break;
        case CTR_U8: DECODE(uint8_t); break;
        case CTR_U16: DECODE(uint16_t); break;
        case CTR_U32: DECODE(uint32_t); break;
        case CTR_I64:
        case CTR_U64:
        case CTR_TIME: DECODE(int64_t); break;
        default: break; /* texts and lists are kept */
        }
    }
}

static int take_tile(struct ctr_groupstate *s, const struct ctr_batch *b, struct tile *t, struct ctr_err *err)
{
    int rc = 0, decoded = -1;
    for (int i = 0; i < t->n; i++)
        __builtin_prefetch(t->state[i], 1);
    memset(t->there, 1, (size_t)t->n);
    for (int i = 0; i < s->n; i++) /* those of rows, while all are there */
        if (s->agg[i].taken < 0)
            s->agg[i].f->take(&s->agg[i], t);
    for (int i = 0; !rc && i < s->n; i++) {
        const struct ctr_aggregate *a = &s->agg[i];
        if (a->taken < 0)
            continue;
        t->c = &b->col[a->taken];
        if (decoded != a->taken)
            decode(t);
        decoded = a->taken;
        if (ctr_aggregate_keeps(a))
            rc = a->f->keep(a, t, &s->kept[i], err);
        else
            a->f->take(a, t);
    }
    return rc;
}

/* Room for as many groups: new ones are all zero. */
static int make_room(struct ctr_groupstate *s, int64_t groups, struct ctr_err *err)
{
    int rc = 0;
    if (groups <= s->groups)
        return 0;
    void *new = ctr_buf_extend(&s->word, (groups - s->groups) * s->stride, sizeof(int64_t), &rc, err);
    if (rc)
        return rc;
    memset(new, 0, (size_t)(groups - s->groups) * (size_t)s->stride * sizeof(int64_t));
    s->groups = groups;
    return 0;
}

/* Drop values that no group has any more, when they are more than half. */
static int drop_old(struct ctr_groupstate *s, int i, struct ctr_err *err)
{
    const struct ctr_aggregate *a = &s->agg[i];
    struct ctr_colbuf new = { 0 };
    int64_t *index, n = 0;
    if (s->kept[i].rows <= 2 * s->groups + 4 * TILE)
        return 0;
    if (!(index = malloc((size_t)s->groups * sizeof *index)))
        return ctr_fail_nomem(err, (size_t)s->groups * sizeof *index);
    for (int64_t g = 0; g < s->groups; g++) {
        int64_t *w = ctr_groupstate_of(s, g) + a->at;
        if (*w) {
            index[n] = *w - 1;
            *w = ++n;
        }
    }
    int rc = ctr_colbuf_init(&new, &a->of, err);
    if (!rc)
        rc = ctr_colbuf_gather(&new, ctr_colbuf_view(&s->kept[i]), index, n, err);
    free(index);
    ctr_colbuf_free(&s->kept[i]);
    s->kept[i] = new;
    return rc;
}

int ctr_groupstate_take(struct ctr_groupstate *s, const struct ctr_batch *b, const int32_t *row, const int64_t *number,
                        int64_t n, int64_t groups, struct ctr_err *err)
{
    struct tile t;
    int32_t here[TILE];
    int rc = make_room(s, groups, err);
    t.row = here;
    for (int64_t at = 0; !rc && at < n;) {
        for (t.n = 0; t.n < TILE && at < n; at++)
            if (number[at] >= 0) {
                here[t.n] = row[at];
                t.state[t.n++] = ctr_groupstate_of(s, number[at]);
            }
        rc = take_tile(s, b, &t, err);
    }
    for (int i = 0; !rc && i < s->n; i++)
        if (ctr_aggregate_keeps(&s->agg[i]))
            rc = drop_old(s, i, err);
    return rc;
}

/* ---- values in order ---- */

/* The next value of a group that has n, in order: interpolates at rank (n - 1) p. */
static void take_quantile(const struct ctr_aggregate *a, int64_t *w, int64_t at, double v)
{
    const double rank = (double)(w[0] - 1) * a->p;
    const int64_t low = CTR_MIN((int64_t)rank, w[0] - 1);
    const double part = rank - (double)low;
    if (at == low)
        w[1] = bits_of(v);
    else if (at == low + 1 && part != 0 && real_of(w[1]) != v) { /* equal ones, infinite too, need no arithmetic */
        const double was = real_of(w[1]), by = v - was;
        w[1] = bits_of(isfinite(by) ? was + part * by : (1 - part) * was + part * v);
    }
}

static bool is_top(const struct ctr_groupstate *s, int k, int values)
{
    return s->agg[k].f->kept && s->agg[k].values == values;
}

/* The values of a run may come as int64, uint64 or float64, and are kept as their own type. */
static int top_start(struct ctr_groupstate *s, struct ctr_grouprun *v, int values, struct ctr_err *err)
{
    bool any = false;
    int rc = 0;
    for (int k = 0; k < s->n; k++)
        any |= is_top(s, k, values);
    if (!any || v->top)
        return 0;
    if (!(v->top = calloc((size_t)s->n, sizeof *v->top)))
        return ctr_fail_nomem(err, (size_t)s->n * sizeof *v->top);
    v->tops = s->n;
    for (int k = 0; !rc && k < s->n; k++) {
        struct ctr_grouptop *t = &v->top[k];
        if (!is_top(s, k, values))
            continue;
        t->most = (int64_t)s->agg[k].p;
        t->count = calloc((size_t)t->most + 1, sizeof *t->count);
        t->row = calloc((size_t)t->most + 1, sizeof *t->row);
        rc = t->count && t->row ? ctr_colbuf_init(&t->value, &(struct ctr_field){ .type = s->agg[k].type }, err)
                                : ctr_fail_nomem(err, (size_t)t->most * sizeof *t->row);
    }
    return rc;
}

int ctr_groupstate_append_value(struct ctr_colbuf *to, const struct ctr_col *c, int64_t i, struct ctr_err *err)
{
    if (ctr_types[to->type].floating) /* -0 and 0 are one value */
        return ctr_colbuf_f64(to, canonical(ctr_col_f64(c, i)) + 0.0, err);
    return c->type == to->type ? ctr_colbuf_range(to, c, i, 1, err) : ctr_colbuf_i64(to, ctr_col_i64(c, i), err);
}

/* A run of equal values has ended; the value is c[i]. Smaller values came before, and win against as many. */
static int top_run(struct ctr_grouptop *t, int64_t run, const struct ctr_col *c, int64_t i, struct ctr_err *err)
{
    int64_t at = t->n;
    while (at && t->count[at - 1] < run)
        at--;
    if (at == t->most)
        return 0;
    t->n = CTR_MIN(t->n + 1, t->most);
    memmove(t->count + at + 1, t->count + at, (size_t)(t->n - at - 1) * sizeof *t->count);
    memmove(t->row + at + 1, t->row + at, (size_t)(t->n - at - 1) * sizeof *t->row);
    t->count[at] = run;
    t->row[at] = t->value.rows;
    return ctr_groupstate_append_value(&t->value, c, i, err);
}

/* The last group has ended. */
static int top_group(struct ctr_groupstate *s, int k, struct ctr_grouptop *t, int64_t group, struct ctr_err *err)
{
    struct ctr_colbuf *kept = &s->kept[k];
    struct ctr_colbuf *to = kept->item ? kept->item : kept;
    int rc = ctr_colbuf_gather(to, ctr_colbuf_view(&t->value), t->row, t->n, err);
    if (!rc && kept->item)
        rc = ctr_colbuf_close(kept, err);
    ctr_groupstate_of(s, group)[s->agg[k].at] = kept->rows;
    ctr_colbuf_clear(&t->value);
    t->n = 0;
    return rc;
}

/* Before row i: the run of the last value ends, and with `ends` its group. */
static int top_change(struct ctr_groupstate *s, int values, struct ctr_grouprun *v, const struct ctr_col *c, int64_t i,
                      bool ends, struct ctr_err *err)
{
    int rc = 0;
    for (int k = 0; !rc && k < s->n; k++) {
        if (!is_top(s, k, values))
            continue;
        rc = i ? top_run(&v->top[k], v->run, c, i - 1, err)
               : top_run(&v->top[k], v->run, ctr_colbuf_view(&v->last), 0, err);
        if (!rc && ends)
            rc = top_group(s, k, &v->top[k], v->group, err);
    }
    return rc;
}

int ctr_groupstate_ordered_end(struct ctr_groupstate *s, int values, struct ctr_grouprun *v, struct ctr_err *err)
{
    return v->any && v->top ? top_change(s, values, v, NULL, 0, true, err) : 0;
}

void ctr_grouprun_free(struct ctr_grouprun *r)
{
    for (int k = 0; r->top && k < r->tops; k++) {
        if (r->top[k].row)
            ctr_colbuf_free(&r->top[k].value);
        free(r->top[k].count);
        free(r->top[k].row);
    }
    free(r->top);
    if (r->any)
        ctr_colbuf_free(&r->last);
}

int ctr_groupstate_ordered(struct ctr_groupstate *s, int values, struct ctr_grouprun *v, const struct ctr_batch *b,
                           struct ctr_err *err)
{
    const int64_t *group = b->col[0].data;
    const struct ctr_col *c = &b->col[1];
    int rc = 0;
    if (!b->rows)
        return 0;
    if (!v->any && (rc = ctr_colbuf_init(&v->last, &(struct ctr_field){ .type = c->type }, err)))
        return rc;
    rc = top_start(s, v, values, err);
    for (int64_t i = 0; !rc && i < b->rows; i++) {
        const bool same_group = v->any && group[i] == v->group,
                   same_value = same_group && !(i ? ctr_col_compare(c, i, c, i - 1)
                                                  : ctr_col_compare(c, i, ctr_colbuf_view(&v->last), 0));
        if (v->top && v->any && !same_value)
            rc = top_change(s, values, v, c, i, !same_group, err);
        v->at = same_group ? v->at + 1 : 0;
        v->run = same_value ? v->run + 1 : 1;
        v->group = group[i];
        v->any = true;
        for (int k = 0; k < s->n; k++) {
            const struct ctr_aggregate *a = &s->agg[k];
            int64_t *w = ctr_groupstate_of(s, group[i]) + a->at;
            if (a->values != values || a->f->kept)
                continue;
            if (a->f->give == give_quantile)
                take_quantile(a, w, v->at, ctr_col_f64(c, i));
            else
                w[1] += !same_value;
        }
    }
    ctr_colbuf_clear(&v->last);
    return rc ? rc : ctr_colbuf_range(&v->last, c, b->rows - 1, 1, err);
}

static int append(const struct results *r, struct ctr_colbuf *out, struct ctr_err *err)
{
    const enum ctr_type as = ctr_types[out->type].floating ? CTR_F64 : CTR_I64;
    uint8_t valid[TILE / 8] = { 0 };
    struct ctr_col c = { .type = as, .rows = r->n, .data = as == CTR_F64 ? (const void *)r->real : r->whole };
    int rc = 0;
    for (int i = 0; i < r->n; i++) {
        valid[i / 8] |= (uint8_t)(r->there[i] << i % 8);
        c.nulls += !r->there[i];
    }
    if (c.nulls)
        c.valid = valid;
    if (out->type == as)
        return ctr_colbuf_range(out, &c, 0, r->n, err);
    for (int i = 0; !rc && i < r->n; i++)
        rc = !r->there[i]    ? ctr_colbuf_null(out, err)
             : as == CTR_F64 ? ctr_colbuf_f64(out, r->real[i], err)
                             : ctr_colbuf_i64(out, r->whole[i], err);
    return rc;
}

static int append_kept(const struct results *r, struct ctr_colbuf *out, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < r->n; i++)
        rc = *r->w[i]
                 ? ctr_colbuf_range(out, ctr_colbuf_view(&r->of[i]->kept[r->a - r->of[i]->agg]), *r->w[i] - 1, 1, err)
                 : ctr_colbuf_null(out, err);
    return rc;
}

int ctr_groupstate_give(const struct ctr_aggregate *a, struct ctr_groupstate *const *of, const int64_t *number,
                        int64_t n, struct ctr_colbuf *out, int64_t *failed, struct ctr_err *err)
{
    struct results r = { .a = a };
    int rc = 0;
    for (int64_t at = 0; !rc && at < n; at += r.n) {
        r.of = of + at;
        r.n = (int)CTR_MIN(n - at, (int64_t)TILE);
        memset(r.there, 1, (size_t)r.n);
        for (int i = 0; i < r.n; i++) {
            r.w[i] = ctr_groupstate_of(of[at + i], number[at + i]) + a->at;
            __builtin_prefetch(r.w[i]);
        }
        rc = ctr_aggregate_keeps(a) ? append_kept(&r, out, err) : a->f->give(&r, failed, err);
        if (!rc && !ctr_aggregate_keeps(a))
            rc = append(&r, out, err);
        if (rc)
            *failed += at;
    }
    return rc;
}
