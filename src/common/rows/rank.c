/* SPDX-License-Identifier: Apache-2.0
 *
 * rank: rows in and rows out. Invariant: `held` has the rows of the request that the last batch ended in, and `pending`
 * their numbers; all requests before it are in `out`. A request within one batch is ranked where it lies. */
#include "common/rows/rank.h"

#include "common/plan/plan.h"
#include "common/rows/rank_impl.h"
#include "common/rows/relkey.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The columns that may be added, in this order. */
enum { RANK, ECPM, EXPLORED, PRICE, FACTOR, PROPENSITY, ADDED };
static const char *const added[ADDED] = { "rank", "ecpm", "explored", "price", "slot_factor", "propensity" };

struct ctr_rank {
    struct ctr_schema in, schema;
    int *by, nby;
    int score, id, uncertainty, bid;
    int place, name; /* for messages; or -1 */
    bool served;
    struct ctr_expr *order, *floor;
    struct ctr_rank_how how;
    enum ctr_rank_price price;
    double *slot;
    int slots;
    uint64_t seed, called; /* the hash of a name */
    int64_t before_call;   /* requests */
    bool is_called;
    char order_name[32];

    int column[ADDED];                         /* of schema; -1: not there */
    struct ctr_buf numbers[4], fresh, pending; /* of a batch: doubles; candidates */
    struct ctr_col *cols;                      /* of a batch, with the explored score */
    struct ctr_colbuf explored;
    struct ctr_batchbuf held, out;
    struct ctr_rank_order request;
    struct ctr_buf index;
    bool given; /* `out` was given away */
    struct ctr_rank_stats stats;
};

/* With --by query, the batches (1 a) (1 b) (2 c) and (2 d) (3 e) are ranked in three requests:
 *
 *     batch 1   request 1 ends in it: its rows a b are ranked where they lie; c, the last, may go on: held
 *     batch 2   d is of the request held: held, too; e is not: c d are ranked; e, the last, is held
 *     finish    e is ranked
 *
 * Before, load_numbers reads the scores, bids and --order of the whole batch as candidates; those of held rows are in
 * `pending`. rank_request gathers the rows that are kept into `out`, in the order of their places, and adds rank, price
 * and the like; ctr_rank_next gives `out` once a batch. */

/* ---- making ---- */

/* A column of numbers, by name. */
static int find_number(const struct ctr_schema *s, const char *option, const char *name, int *column,
                       struct ctr_err *err)
{
    char type[128];

    *column = ctr_schema_need(s, name, err);
    if (*column < 0)
        return *column;
    if (ctr_type_number(s->f[*column].type))
        return 0;
    return ctr_fail(err, CTR_EUSAGE, "%s %.80s: the column is %s, and must be a number", option, name,
                    ctr_field_type_name(&s->f[*column], type, sizeof type));
}

/* With ucb the score that --order sees is the explored one, a float64. */
static int order_schema(struct ctr_schema *to, const struct ctr_schema *in, const struct ctr_rank_opts *o,
                        struct ctr_err *err)
{
    int rc = ctr_schema_copy(to, in, err);
    if (!rc && o->explore == CTR_EXPLORE_UCB) {
        to->f[o->score].type = CTR_F64;
        to->f[o->score].dict = false;
    }
    return rc;
}

static int compile(struct ctr_expr **e, const char *option, const char *text, const struct ctr_schema *s,
                   struct ctr_err *err)
{
    char type[128];
    int rc = ctr_expr_compile(e, option, text, s, NULL, err);

    if (rc)
        return rc;
    const struct ctr_field *f = ctr_expr_field(*e);
    if (ctr_type_number(f->type) || f->type == CTR_TIME)
        return 0;
    return ctr_fail(err, CTR_EUSAGE, "%s %.80s is %s, and must be a number", option, text,
                    ctr_field_type_name(f, type, sizeof type));
}

static int find_by(struct ctr_rank *r, const struct ctr_strs *by, struct ctr_err *err)
{
    int rc = 0;

    for (int i = 0; !rc && by && i < by->n; i++)
        rc = ctr_key_columns(&r->in, by->s[i], ',', &r->by, &r->nby, err);
    return rc;
}

/* Options that exclude each other, or need what is not there. */
static int check(const struct ctr_rank_opts *o, struct ctr_err *err)
{
    const bool odds = o->explore == CTR_EXPLORE_UCB || o->explore == CTR_EXPLORE_THOMPSON;

    if (o->price && !o->bid)
        return ctr_fail(err, CTR_EUSAGE, "--price wants the bids: name their column with --bid");
    if (o->price == CTR_PRICE_SECOND && o->order)
        return ctr_fail(err, CTR_EUSAGE,
                        "--price second is what keeps the place by bid x score, and --order is another order: leave "
                        "one out");
    if (o->explore == CTR_EXPLORE_THOMPSON && o->order)
        return ctr_fail(err, CTR_EUSAGE,
                        "--explore thompson knows the chances of an order by score or by bid x score: leave --order "
                        "out");
    if (o->explore == CTR_EXPLORE_THOMPSON && !o->top && !o->slots)
        return ctr_fail(err, CTR_EUSAGE,
                        "--explore thompson computes the propensity of each row that is kept: say how many with --top "
                        "or --slots");
    if (odds && o->uncertainty < 0)
        return ctr_fail(err, CTR_EUSAGE,
                        "no column has the role uncertainty, which --explore needs: ctr-predict --uncertainty adds it");
    if (o->score < 0 && (odds || !o->order || o->bid))
        return ctr_fail(err, CTR_EUSAGE,
                        "no column has the role score: name one with --score NAME, or say --order EXPR");
    return 0;
}

static int number_types(const struct ctr_rank *r, struct ctr_err *err)
{
    const int column[] = { r->score, r->uncertainty };
    char type[128];

    for (size_t i = 0; i < CTR_COUNT(column); i++)
        if (column[i] >= 0 && !ctr_type_number(r->in.f[column[i]].type))
            return ctr_fail(err, CTR_EUSAGE, "the %s (column %s) is %s, and must be a number",
                            i ? "uncertainty" : "score", r->in.f[column[i]].name,
                            ctr_field_type_name(&r->in.f[column[i]], type, sizeof type));
    return 0;
}

/* ---- the result's columns ---- */

static int add_before(struct ctr_rank *r, int c, struct ctr_err *err)
{
    char name[300];

    snprintf(name, sizeof name, "%.200s_before", r->in.f[c].name);
    if (ctr_schema_find(&r->in, name) >= 0)
        return ctr_fail(err, CTR_EUSAGE,
                        "column %s is there, and so is %s: leave one out with ctr-select --columns, or rename it",
                        r->in.f[c].name, name);
    return CTR_MIN(ctr_schema_add_field(&r->schema, &r->in.f[c], name, err), 0);
}

static int make_schema(struct ctr_rank *r, struct ctr_err *err)
{
    const bool there[ADDED] = { true,
                                r->how.bids,
                                r->how.explore == CTR_EXPLORE_UCB || r->how.explore == CTR_EXPLORE_THOMPSON,
                                r->price != CTR_PRICE_NONE,
                                r->slots > 0,
                                r->how.explore != CTR_EXPLORE_NONE };
    int rc = ctr_meta_copy(&r->schema.meta, &r->in.meta, err);

    for (int c = 0; !rc && c < r->in.n; c++) {
        bool taken = false;
        for (int a = 0; a < ADDED; a++)
            taken |= there[a] && !strcmp(added[a], r->in.f[c].name);
        rc = taken ? add_before(r, c, err) : CTR_MIN(ctr_schema_add_field(&r->schema, &r->in.f[c], NULL, err), 0);
        if (!rc)
            r->schema.f[c].dict = false;
    }
    for (int c = 0; !rc && c < r->in.n; c++) { /* a history follows its column */
        const char *of = ctr_meta_get(&r->in.f[c].meta, CTR_META_HISTORY_OF);
        const int column = of ? ctr_schema_find(&r->in, of) : -1;
        if (column >= 0)
            rc = ctr_meta_set(&r->schema.f[c].meta, CTR_META_HISTORY_OF, r->schema.f[column].name, err);
    }
    for (int a = 0; a < ADDED; a++) {
        r->column[a] = -1;
        if (rc || !there[a])
            continue;
        r->column[a] = r->schema.n;
        rc = CTR_MIN(ctr_schema_add(&r->schema, added[a], a == RANK ? CTR_I32 : CTR_F64, err), 0);
    }
    return rc;
}

static int make_buffers(struct ctr_rank *r, struct ctr_err *err)
{
    const struct ctr_field score = { .type = CTR_F64 };
    int rc = ctr_batchbuf_init(&r->out, &r->schema, err);

    r->cols = calloc((size_t)r->in.n + 1, sizeof *r->cols);
    if (!rc && !r->cols)
        rc = ctr_fail_nomem(err, (size_t)r->in.n * sizeof *r->cols);
    if (!rc)
        rc = ctr_colbuf_init(&r->explored, &score, err);
    return rc ? rc : ctr_batchbuf_init(&r->held, &r->in, err);
}

int ctr_rank_new(struct ctr_rank **out, const struct ctr_schema *in, const struct ctr_rank_opts *o, struct ctr_err *err)
{
    struct ctr_rank *r = calloc(1, sizeof *r);
    struct ctr_schema seen = { 0 };
    int rc = r ? check(o, err) : ctr_fail_nomem(err, sizeof *r);

    *out = NULL;
    if (rc) {
        free(r);
        return rc;
    }
    r->score = o->score;
    r->id = o->id;
    r->bid = -1;
    r->place = o->place ? ctr_schema_find(in, o->place) : -1;
    r->name = o->name ? ctr_schema_find(in, o->name) : o->id;
    r->served = o->served;
    r->uncertainty = o->explore == CTR_EXPLORE_UCB || o->explore == CTR_EXPLORE_THOMPSON ? o->uncertainty : -1;
    r->price = o->price;
    r->slots = o->slots;
    r->seed = o->seed;
    snprintf(r->order_name, sizeof r->order_name, "%s", o->order_name ? o->order_name : "--order");
    r->how = (struct ctr_rank_how){ .explore = o->explore,
                                    .amount = o->amount,
                                    .bids = o->bid,
                                    .floors = o->floor,
                                    .made = o->order,
                                    .top = o->top ? o->top : o->slots };
    rc = ctr_schema_copy(&r->in, in, err);
    for (int c = 0; !rc && c < r->in.n; c++)
        r->in.f[c].dict = false; /* of `held`: a request may have the dictionaries of several batches */
    if (!rc && o->slots && !(r->slot = malloc((size_t)o->slots * sizeof *r->slot)))
        rc = ctr_fail_nomem(err, (size_t)o->slots * sizeof *r->slot);
    if (!rc && o->slots)
        memcpy(r->slot, o->slot, (size_t)o->slots * sizeof *r->slot);
    if (!rc)
        rc = find_by(r, o->by, err);
    if (!rc)
        rc = number_types(r, err);
    if (!rc && o->bid)
        rc = find_number(in, "--bid", o->bid, &r->bid, err);
    if (!rc && o->order && !(rc = order_schema(&seen, in, o, err)))
        rc = compile(&r->order, r->order_name, o->order, &seen, err);
    if (!rc && o->floor)
        rc = compile(&r->floor, "--floor", o->floor, in, err);
    if (!rc)
        rc = make_schema(r, err);
    if (!rc)
        rc = make_buffers(r, err);
    ctr_schema_free(&seen);
    if (rc)
        ctr_rank_free(r);
    else
        *out = r;
    return rc;
}

void ctr_rank_free(struct ctr_rank *r)
{
    if (!r)
        return;
    ctr_batchbuf_free(&r->held);
    ctr_batchbuf_free(&r->out);
    ctr_colbuf_free(&r->explored);
    for (size_t i = 0; i < CTR_COUNT(r->numbers); i++)
        ctr_buf_free(&r->numbers[i]);
    ctr_buf_free(&r->fresh);
    ctr_buf_free(&r->pending);
    ctr_buf_free(&r->index);
    ctr_rank_order_free(&r->request);
    ctr_expr_free(r->order);
    ctr_expr_free(r->floor);
    ctr_schema_free(&r->in);
    ctr_schema_free(&r->schema);
    free(r->cols);
    free(r->by);
    free(r->slot);
    free(r);
}

const struct ctr_schema *ctr_rank_schema(const struct ctr_rank *r)
{
    return &r->schema;
}
void ctr_rank_get_stats(const struct ctr_rank *r, struct ctr_rank_stats *st)
{
    *st = r->stats;
}

/* ---- the numbers of a batch ---- */

/* "query 7, id a3": sorting changes the numbers of rows, so messages name values. */
static int name_row(const struct ctr_rank *r, const struct ctr_batch *b, int64_t i, struct ctr_buf *to,
                    struct ctr_err *err)
{
    int rc = 0;

    for (int k = 0; !rc && k <= r->nby; k++) {
        const int c = k < r->nby ? r->by[k] : r->name;
        if (c < 0)
            continue;
        rc = ctr_buf_printf(to, err, "%s%.80s ", to->len ? ", " : " of ", r->in.f[c].name);
        if (!rc)
            rc = ctr_col_missing(&b->col[c], i) ? ctr_buf_append(to, "null", 4, err)
                                                : ctr_col_text(&b->col[c], i, to, err);
    }
    return rc;
}

/* "ads[3] of query 7, id a3" of a request, "row of query 7, id a3" of a stream, whose numbers sorting changes,
 * "row 5 of …" of one that was not sorted. */
static void name_candidate(const struct ctr_rank *r, const struct ctr_batch *b, int64_t i, bool numbered, char *to,
                           size_t size)
{
    char which[40] = "row", who[600] = "";
    struct ctr_buf name = { 0 };
    struct ctr_err other = { 0 };

    if (!name_row(r, b, i, &name, &other) && name.len)
        ctr_quote(who, sizeof who, (const char *)name.data, CTR_MIN(name.len, 400));
    ctr_buf_free(&name);
    if (r->place >= 0)
        snprintf(which, sizeof which, "ads[%lld]", (long long)ctr_col_i64(&b->col[r->place], i));
    else if (numbered)
        snprintf(which, sizeof which, "row %lld", (long long)(b->first_row + i + 1));
    snprintf(to, size, "%s%s", which, who);
}

/* The error of a row; `what`: "the bid (column bid)". */
static int bad_row(const struct ctr_rank *r, const struct ctr_batch *b, int64_t i, const char *what,
                   const struct ctr_col *c, const char *want, struct ctr_err *err)
{
    char value[CTR_NUM_MAX] = "null", who[650];
    size_t n = 4;

    if (!ctr_col_missing(c, i))
        n = ctr_fmt_f64(value, ctr_col_f64(c, i));
    name_candidate(r, b, i, r->served, who, sizeof who);
    return ctr_fail(err, CTR_EDATA, "%s: %s is %.*s, and must be %s%s", who, what, (int)n, value, want,
                    r->served ? "" : "; ctr-select --where leaves such rows out");
}

enum check { SHARE, POSITIVE, NUMBER }; /* in [0, 1]; finite and not negative; not NaN */

static bool good(enum check check, double v)
{
    return check == SHARE ? v >= 0 && v <= 1 : check == POSITIVE ? v >= 0 && v < INFINITY : v == v;
}

/* The doubles of a column into numbers[slot]. */
static int load(struct ctr_rank *r, const struct ctr_batch *b, const struct ctr_col *c, enum check check,
                const char *what, int slot, const double **out, struct ctr_err *err)
{
    static const char *const want[] = { "in [0, 1]", "finite and not negative", "a number" };
    int rc = ctr_buf_room(&r->numbers[slot], b->rows, sizeof(double), err);
    double *v = (double *)(void *)r->numbers[slot].data;

    if (rc)
        return rc;
    ctr_col_to_f64(c, NAN, v);
    for (int64_t i = 0; i < b->rows; i++)
        if (!good(check, v[i]))
            return bad_row(r, b, i, what, c, want[check], err);
    *out = v;
    return 0;
}

static int load_column(struct ctr_rank *r, const struct ctr_batch *b, int column, enum check check, const char *role,
                       int slot, const double **out, struct ctr_err *err)
{
    char what[300];

    *out = NULL;
    if (column < 0)
        return 0;
    snprintf(what, sizeof what, "the %s (column %.200s)", role, r->in.f[column].name);
    return load(r, b, &b->col[column], check, what, slot, out, err);
}

/* Values and keys of --order: integers keep all their bits in the key. */
static void set_made(struct ctr_rank_candidate *c, int64_t n, const struct ctr_col *made, const double *value)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i;
        const struct ctr_col *p = ctr_col_plain(made, &at);
        c[i].value = value[i] + 0.0;
        if (ctr_types[p->type].floating)
            c[i].key = ctr_rank_key(value[i]);
        else
            c[i].key = (uint64_t)ctr_col_i64(p, at) ^ (p->type == CTR_U64 ? 0 : (uint64_t)1 << 63);
    }
}

/* The columns that --order reads: with ucb the score is the explored one. */
static int order_batch(struct ctr_rank *r, const struct ctr_batch *b, const struct ctr_rank_candidate *c,
                       struct ctr_batch *to, struct ctr_err *err)
{
    int rc = 0;

    *to = *b;
    if (r->how.explore != CTR_EXPLORE_UCB)
        return 0;
    ctr_colbuf_clear(&r->explored);
    for (int64_t i = 0; !rc && i < b->rows; i++)
        rc = ctr_colbuf_f64(&r->explored, c[i].explored, err);
    memcpy(r->cols, b->col, (size_t)r->in.n * sizeof *r->cols);
    r->cols[r->score] = *ctr_colbuf_view(&r->explored);
    to->col = r->cols;
    return rc;
}

static int load_order(struct ctr_rank *r, const struct ctr_batch *b, struct ctr_rank_candidate *c, struct ctr_err *err)
{
    const struct ctr_col *made;
    const double *value;
    struct ctr_batch with;
    int rc = order_batch(r, b, c, &with, err);

    if (!rc)
        rc = ctr_expr_eval(r->order, &with, &made, err);
    if (!rc)
        rc = load(r, b, made, NUMBER, r->order_name, 0, &value, err);
    if (!rc)
        set_made(c, b->rows, made, value);
    return rc;
}

static int load_floor(struct ctr_rank *r, const struct ctr_batch *b, struct ctr_rank_candidate *c, struct ctr_err *err)
{
    const struct ctr_col *made;
    const double *value;
    int rc = ctr_expr_eval(r->floor, b, &made, err);

    if (!rc)
        rc = load(r, b, made, NUMBER, "--floor", 0, &value, err);
    for (int64_t i = 0; !rc && i < b->rows; i++)
        c[i].floor = value[i];
    return rc;
}

static int load_numbers(struct ctr_rank *r, const struct ctr_batch *b, struct ctr_err *err)
{
    const double *score, *bid, *uncertainty;
    int rc = ctr_buf_room(&r->fresh, b->rows, sizeof(struct ctr_rank_candidate), err);
    struct ctr_rank_candidate *c = (struct ctr_rank_candidate *)(void *)r->fresh.data;

    if (!rc)
        rc = load_column(r, b, r->score, SHARE, "score", 1, &score, err);
    if (!rc)
        rc = load_column(r, b, r->bid, POSITIVE, "bid", 2, &bid, err);
    if (!rc)
        rc = load_column(r, b, r->uncertainty, POSITIVE, "uncertainty", 3, &uncertainty, err);
    if (rc)
        return rc;
    for (int64_t i = 0; i < b->rows; i++) {
        c[i] = (struct ctr_rank_candidate){ .row = i,
                                            .score = score ? score[i] + 0.0 : 0,
                                            .bid = bid ? bid[i] + 0.0 : 0,
                                            .uncertainty = uncertainty ? uncertainty[i] : 0 };
        c[i].explored = r->how.explore == CTR_EXPLORE_UCB
                            ? ctr_rank_explored(c[i].score, r->how.amount * c[i].uncertainty)
                            : c[i].score;
    }
    if (r->order)
        rc = load_order(r, b, c, err);
    return !rc && r->floor ? load_floor(r, b, c, err) : rc;
}

/* ---- a request ---- */

/* What a click on the candidate at place k costs; the generalised second price: what keeps its place. */
static double price(const struct ctr_rank *r, int64_t k)
{
    const struct ctr_rank_order *o = &r->request;
    const struct ctr_rank_candidate *c = &o->c[o->place[k]];
    if (r->price == CTR_PRICE_FIRST)
        return c->bid;
    double least = k + 1 < o->above ? o->c[o->place[k + 1]].value : 0;

    if (r->how.floors)
        least = CTR_MAX(least, c->floor);
    return c->explored > 0 ? CTR_MIN(least / c->explored, c->bid) : 0;
}

static int put(struct ctr_rank *r, int what, double v, bool there, struct ctr_err *err)
{
    if (r->column[what] < 0)
        return 0;
    struct ctr_colbuf *b = &r->out.col[r->column[what]];
    return there ? ctr_colbuf_f64(b, v, err) : ctr_colbuf_null(b, err);
}

static int put_numbers(struct ctr_rank *r, int64_t k, struct ctr_err *err)
{
    const struct ctr_rank_order *o = &r->request;
    const struct ctr_rank_candidate *c = &o->c[o->place[k]];
    const bool shown = !r->slots || k < r->slots;
    int rc = ctr_colbuf_i64(&r->out.col[r->column[RANK]], k + 1, err);

    if (!rc)
        rc = put(r, ECPM, c->bid * c->explored, true, err);
    if (!rc)
        rc = put(r, EXPLORED, c->explored, true, err);
    if (!rc)
        rc = put(r, PRICE, r->price && shown ? price(r, k) : 0, shown, err);
    if (!rc)
        rc = put(r, FACTOR, r->slots && shown ? r->slot[k] : 0, true, err);
    return rc ? rc : put(r, PROPENSITY, r->how.explore ? o->propensity[k] : 0, true, err);
}

void ctr_rank_call(struct ctr_rank *r, const struct ctr_col *name)
{
    r->is_called = true;
    r->before_call = r->stats.requests;
    r->called = ctr_col_hash(name, 0, ctr_mix64(r->seed));
}

static uint64_t request_hash(const struct ctr_rank *r, const struct ctr_batch *b, int64_t row)
{
    const uint64_t number = (uint64_t)(r->stats.requests - r->before_call);
    uint64_t h = r->nby                        ? ctr_mix64(r->seed)
                 : r->is_called && number == 0 ? r->called
                                               : ctr_random64(r->is_called ? r->called : r->seed, 0, number);

    for (int k = 0; k < r->nby; k++)
        h = ctr_col_hash(&b->col[r->by[k]], row, h);
    return h;
}

/* Rank n candidates, whose rows are in b. */
static int rank_request(struct ctr_rank *r, const struct ctr_batch *b, struct ctr_rank_candidate *c, int64_t n,
                        struct ctr_err *err)
{
    const struct ctr_col *id = r->id >= 0 ? &b->col[r->id] : NULL;
    struct ctr_rank_order *o = &r->request;
    int rc = ctr_rank_order(o, &r->how, c, n, id, request_hash(r, b, c[0].row), err);

    if (!rc)
        rc = ctr_buf_room(&r->index, o->kept, sizeof(int64_t), err);
    int64_t *row = (int64_t *)(void *)r->index.data;
    for (int64_t k = 0; !rc && k < o->kept; k++)
        row[k] = c[o->place[k]].row;
    for (int i = 0; !rc && i < r->in.n; i++)
        rc = ctr_colbuf_gather(&r->out.col[i], &b->col[i], row, o->kept, err);
    for (int64_t k = 0; !rc && k < o->kept; k++)
        rc = put_numbers(r, k, err);
    if (rc)
        return rc;
    r->stats.requests++;
    r->stats.written += o->kept;
    r->stats.below_floor += n - o->above;
    r->stats.empty += !o->above;
    r->stats.randomised += o->randomised;
    return 0;
}

/* ---- batches ---- */

static int rank_held(struct ctr_rank *r, struct ctr_err *err)
{
    struct ctr_rank_candidate *c = (struct ctr_rank_candidate *)(void *)r->pending.data;
    const int64_t n = (int64_t)(r->pending.len / sizeof *c);

    if (!n)
        return 0;
    const int rc = rank_request(r, ctr_batchbuf_view(&r->held), c, n, err);
    ctr_batchbuf_clear(&r->held);
    ctr_buf_clear(&r->pending);
    return rc;
}

static int hold(struct ctr_rank *r, const struct ctr_batch *b, int64_t from, int64_t n, struct ctr_err *err)
{
    struct ctr_rank_candidate *c = (struct ctr_rank_candidate *)(void *)r->fresh.data + from;
    const int64_t first = ctr_batchbuf_rows(&r->held);
    int rc = 0;

    for (int i = 0; !rc && i < r->in.n; i++)
        rc = ctr_colbuf_range(&r->held.col[i], &b->col[i], from, n, err);
    for (int64_t i = 0; i < n; i++)
        c[i].row = first + i;
    return rc ? rc : ctr_buf_append(&r->pending, c, (size_t)n * sizeof *c, err);
}

/* Compares the requests of row i of a and row j of b: 0: one request; above 0: that of b sorts behind. */
static int follows(const struct ctr_rank *r, const struct ctr_col *a, int64_t i, const struct ctr_col *b, int64_t j)
{
    int c = 0;

    for (int k = 0; !c && k < r->nby; k++)
        c = ctr_col_compare(&b[r->by[k]], j, &a[r->by[k]], i);
    return c;
}

static int descends(const struct ctr_rank *r, const struct ctr_batch *b, int64_t i, struct ctr_err *err)
{
    char who[650];

    name_candidate(r, b, i, true, who, sizeof who);
    return ctr_fail(err, CTR_EDATA, "%s comes after a request that sorts behind it: %ssort by the request's columns%s",
                    who, r->served ? "" : "leave --sorted out, or ", r->served ? "" : " with ctr-sort");
}

static void forget_given(struct ctr_rank *r)
{
    if (r->given)
        ctr_batchbuf_clear(&r->out);
    r->given = false;
}

static void count_nameless(struct ctr_rank *r, const struct ctr_batch *b)
{
    for (int k = 0; k < r->nby; k++)
        if (!b->col[r->by[k]].nulls && !b->col[r->by[k]].dict)
            return;
    for (int64_t i = 0; i < b->rows && r->nby; i++) {
        int nulls = 0;
        for (int k = 0; k < r->nby; k++)
            nulls += ctr_col_missing(&b->col[r->by[k]], i);
        r->stats.nameless += nulls == r->nby;
    }
}

int ctr_rank_batch(struct ctr_rank *r, const struct ctr_batch *b, struct ctr_err *err)
{
    forget_given(r);
    int rc = load_numbers(r, b, err);

    struct ctr_rank_candidate *fresh = (struct ctr_rank_candidate *)(void *)r->fresh.data;
    r->stats.rows += b->rows;
    count_nameless(r, b);
    for (int64_t from = 0, to; !rc && from < b->rows; from = to) {
        const int64_t held = ctr_batchbuf_rows(&r->held);
        int step = 0;
        if (held && !from)
            step = follows(r, ctr_batchbuf_view(&r->held)->col, held - 1, b->col, 0);
        else if (from)
            step = follows(r, b->col, from - 1, b->col, from);
        if (step < 0)
            return descends(r, b, from, err);
        if (held && step)
            rc = rank_held(r, err);
        for (to = from + 1; to < b->rows && !follows(r, b->col, to - 1, b->col, to);)
            to++;
        if (rc)
            return rc;
        if (to == b->rows || ctr_batchbuf_rows(&r->held))
            rc = hold(r, b, from, to - from, err);
        else
            rc = rank_request(r, b, fresh + from, to - from, err);
        if (!rc && to < b->rows && ctr_batchbuf_rows(&r->held))
            rc = rank_held(r, err); /* it ended in this batch */
    }
    return rc;
}

int ctr_rank_finish(struct ctr_rank *r, struct ctr_err *err)
{
    forget_given(r);
    return rank_held(r, err);
}

int ctr_rank_next(struct ctr_rank *r, const struct ctr_batch **b, struct ctr_err *err)
{
    (void)err;
    forget_given(r);
    r->given = ctr_batchbuf_rows(&r->out) > 0;
    *b = r->given ? ctr_batchbuf_view(&r->out) : NULL;
    return r->given;
}
