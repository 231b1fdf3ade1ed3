/* SPDX-License-Identifier: Apache-2.0
 *
 * serve_lane: raw rows to scores by the objects that the filters are made of, bound to one schema:
 *
 *     ctr_program (ctr-extract) -> ctr_predictor (ctr-predict) -> ctr_cal_apply (ctr-calibrate) [-> ctr_rank
 * (ctr-rank)]
 *
 * so that a score has the bits that the pipe gives. Which columns of a request are the same for all ads is part of the
 * schema: these are dictionaries of one entry, which every stage computes once.
 */
#include "tools/ctr-serve/serve_prerank.h"

#include <stdlib.h>

struct serve_lane {
    const struct serve_desk *desk; /* whose it is */
    struct serve_model *model;     /* borrowed from the generation */
    struct ctr_schema schema;      /* of the rows */
    bool of_json;
    struct ctr_program *program;
    struct ctr_predictor *predictor;
    struct ctr_cal_apply *apply; /* or NULL */
    int score;                   /* column of the result */
    struct ctr_rank *rank;       /* or NULL, until it is needed; its input: */
    struct ctr_schema candidates;
    struct ctr_col *col;
    struct ctr_buf ads;
    int64_t ad;       /* rows of this request so far */
    int64_t *counted; /* twice the number of tables: keys and unknown keys at the last count */
    int tables;
};

void serve_lane_free(struct serve_lane *l)
{
    if (!l)
        return;
    ctr_rank_free(l->rank);
    ctr_schema_free(&l->candidates);
    ctr_buf_free(&l->ads);
    free(l->col);
    ctr_cal_apply_free(l->apply);
    ctr_predictor_free(l->predictor);
    ctr_program_free(l->program);
    ctr_schema_free(&l->schema);
    free(l->counted);
    free(l);
}

/* A batch without rows makes the program build what it looks values up in. */
static int warm(struct serve_lane *l, struct ctr_err *err)
{
    struct ctr_batchbuf none = { 0 };
    struct ctr_schema plain = { 0 };
    const struct ctr_batch *out;
    int rc = ctr_schema_copy(&plain, &l->schema, err);
    for (int i = 0; !rc && i < plain.n; i++)
        plain.f[i].dict = false;
    if (!rc)
        rc = ctr_batchbuf_init(&none, &plain, err);
    if (!rc)
        rc = ctr_program_run(l->program, ctr_batchbuf_view(&none), &out, err);
    ctr_batchbuf_free(&none);
    ctr_schema_free(&plain);
    return rc;
}

static int bind_program(struct serve_lane *l, struct ctr_err *err)
{
    pthread_mutex_lock(&l->model->bind);
    int rc = ctr_program_bind(&l->program, l->model->plan, &l->schema, err);
    if (!rc)
        rc = ctr_program_threads(l->program, 1, err);
    if (!rc)
        rc = warm(l, err);
    pthread_mutex_unlock(&l->model->bind);
    return rc;
}

static int bind_lane(struct serve_lane *l, const struct serve_map *map, bool uncertain, struct ctr_err *err)
{
    const struct ctr_predict_opts how = { .threads = 1, .uncertainty = uncertain };
    int rc = bind_program(l, err);
    if (!rc)
        rc = ctr_predictor_of(&l->predictor, l->model->loaded, &how, err);
    if (!rc)
        rc = ctr_predictor_bind(l->predictor, ctr_program_output(l->program), err);
    if (rc)
        return rc;
    l->score = ctr_schema_role(ctr_predictor_schema(l->predictor), CTR_ROLE_SCORE);
    if (map)
        rc = ctr_cal_apply_new(&l->apply, map->map, ctr_predictor_schema(l->predictor), l->score, err);
    int64_t keys, unknown;
    while (!rc && ctr_predictor_unknown(l->predictor, l->tables, &keys, &unknown))
        l->tables++;
    if (!rc && !(l->counted = calloc((size_t)l->tables + 1, 2 * sizeof *l->counted)))
        rc = ctr_fail_nomem(err, (size_t)l->tables * 2 * sizeof *l->counted);
    return rc;
}

static bool explores_by_odds(const struct serve_rank *how)
{
    return how->explore->kind == CTR_EXPLORE_UCB || how->explore->kind == CTR_EXPLORE_THOMPSON;
}

static int lane_new(struct serve_lane **out, struct serve_desk *d, const struct ctr_schema *s, bool of_json,
                    struct ctr_err *err)
{
    struct serve_lane *l = calloc(1, sizeof *l);
    if (!l)
        return ctr_fail_nomem(err, sizeof *l);
    l->desk = d;
    l->model = d->g->model;
    l->of_json = of_json;
    int rc = ctr_schema_copy(&l->schema, s, err);
    if (!rc)
        rc = bind_lane(l, d->g->map, explores_by_odds(d->g->rank), err);
    if (rc)
        serve_lane_free(l);
    else
        *out = l;
    return rc;
}

/* Make lane i of the desk the first. */
static struct serve_lane *to_front(struct serve_desk *d, int i)
{
    struct serve_lane *l = d->lane[i];
    memmove(d->lane + 1, d->lane, (size_t)i * sizeof(struct serve_lane *));
    return d->lane[0] = l;
}

static int add_lane(struct serve_desk *d, const struct ctr_schema *s, bool of_json, struct serve_lane **lane,
                    struct ctr_err *err)
{
    struct serve_lane *l = NULL;
    int rc = lane_new(&l, d, s, of_json, err);
    if (rc)
        return rc;
    if (d->lanes == SERVE_LANES)
        serve_lane_free(d->lane[--d->lanes]);
    d->lane[d->lanes] = l;
    *lane = to_front(d, d->lanes++);
    return 0;
}

static bool same_encoding(const struct ctr_schema *a, const struct ctr_schema *b)
{
    for (int i = 0; i < a->n; i++)
        if (a->f[i].dict != b->f[i].dict)
            return false;
    return true;
}

int serve_lane_of(struct serve_desk *d, const struct ctr_schema *s, struct serve_lane **lane, struct ctr_err *err)
{
    for (int i = 0; i < d->lanes; i++)
        if (!d->lane[i]->of_json && ctr_schema_equal(&d->lane[i]->schema, s, NULL, 0) &&
            same_encoding(&d->lane[i]->schema, s)) {
            *lane = to_front(d, i);
            return 0;
        }
    return add_lane(d, s, false, lane, err);
}

int serve_lane_common(struct serve_desk *d, struct serve_lane **lane, struct ctr_err *err)
{
    const int n = d->g->columns;
    for (int i = 0; i < d->lanes; i++) {
        const struct serve_lane *l = d->lane[i];
        int same = 0;
        while (l->of_json && same < n && l->schema.f[same].dict == d->common[same])
            same++;
        if (l->of_json && same == n) {
            *lane = to_front(d, i);
            return 0;
        }
    }
    struct ctr_schema s = { 0 };
    int rc = ctr_schema_copy(&s, &d->g->rows, err);
    for (int i = 0; i < n && !rc; i++)
        s.f[i].dict = d->common[i];
    if (!rc)
        rc = add_lane(d, &s, true, lane, err);
    ctr_schema_free(&s);
    return rc;
}

const struct ctr_schema *serve_lane_schema(const struct serve_lane *l)
{
    return l->apply ? ctr_cal_apply_schema(l->apply) : ctr_predictor_schema(l->predictor);
}

int serve_lane_run(struct serve_lane *l, const struct ctr_batch *b, serve_sink *sink, void *ctx, struct ctr_err *err)
{
    struct ctr_batch rows = *b;
    const struct ctr_batch *features, *scored;
    rows.schema = &l->schema;
    int rc = ctr_program_run(l->program, &rows, &features, err);
    for (int more = !rc; !rc && more > 0;) {
        rc = ctr_predictor_run(l->predictor, features, &scored, err);
        if (!rc && l->apply)
            rc = ctr_cal_apply_batch(l->apply, scored, &scored, err);
        if (!rc)
            rc = sink(ctx, scored, scored->col[l->score].data, err);
        if (!rc)
            rc = CTR_MIN(more = ctr_program_more(l->program, &features, err), 0);
    }
    return rc;
}

/* ---- ranking ---- */

/* What an option wants and the plan does not keep is said in terms of the plan, unless another name is near. */
static int find_bid(const struct serve_lane *l, const char *bid, struct ctr_err *err)
{
    const struct ctr_schema *s = serve_lane_schema(l);
    const int rc = bid ? ctr_schema_need(s, bid, err) : 0;
    if (rc >= 0 || err->nearest)
        return CTR_MIN(rc, 0);
    return ctr_fail(err, CTR_EUSAGE,
                    "--bid %.200s: the plan does not keep '%.200s': add a line `keep %.200s` to it and train again",
                    bid, bid, bid);
}

/* An expression with a column that is not there. */
static int of_expression(int rc, struct ctr_err *err)
{
    if (rc != CTR_EUSAGE || !err->remedy || err->nearest)
        return rc;
    err->what[err->remedy] = 0;
    return ctr_err_remedy(err, ": add a line `keep COLUMN` to the plan and train again");
}

static int rank_new(struct serve_lane *l, const struct serve_generation *g, struct ctr_err *err)
{
    const struct serve_rank *how = g->rank;
    const struct ctr_schema *s = &l->candidates;
    const int query = ctr_schema_role(s, CTR_ROLE_QUERY), id = ctr_schema_role(s, CTR_ROLE_ID);
    struct ctr_strs by = { 0 };
    const struct ctr_rank_opts ro = { .by = &by,
                                      .order = how->order,
                                      .bid = how->bid,
                                      .floor = how->floor,
                                      .score = l->score,
                                      .id = id,
                                      .place = l->of_json ? SERVE_AD : NULL,
                                      .name = id < 0 && g->ad_key >= 0 ? g->schema.f[g->ad_key].name : NULL,
                                      .served = true,
                                      .uncertainty = ctr_schema_role(s, CTR_ROLE_UNCERTAINTY),
                                      .top = how->top,
                                      .price = how->price,
                                      .slot = how->slots->factor,
                                      .slots = how->slots->n,
                                      .explore = how->explore->kind,
                                      .amount = how->explore->amount,
                                      .seed = how->seed };
    int rc = find_bid(l, how->bid, err);
    if (!rc && query >= 0)
        rc = ctr_names_add(&by, s->f[query].name, err);
    if (!rc)
        rc = of_expression(ctr_rank_new(&l->rank, s, &ro, err), err);
    ctr_strs_free(&by);
    return rc;
}

int serve_lane_ranks(struct serve_desk *d, struct serve_lane *l, struct ctr_err *err)
{
    if (l->rank)
        return 0;
    ctr_schema_free(&l->candidates);
    l->candidates = (struct ctr_schema){ 0 };
    int rc = ctr_schema_copy(&l->candidates, serve_lane_schema(l), err);
    if (!rc && l->of_json)
        rc = ctr_schema_add(&l->candidates, SERVE_AD, CTR_I64, err);
    free(l->col);
    l->col = NULL;
    if (!rc && !(l->col = calloc((size_t)l->candidates.n + 1, sizeof *l->col)))
        rc = ctr_fail_nomem(err, (size_t)l->candidates.n * sizeof *l->col);
    return rc ? rc : rank_new(l, d->g, err);
}

int serve_lane_call(struct serve_lane *l, const char *id, struct ctr_err *err)
{
    const struct ctr_field text = { .type = CTR_UTF8 };
    struct ctr_colbuf name = { 0 };
    int rc = ctr_colbuf_init(&name, &text, err);
    if (!rc)
        rc = ctr_colbuf_str(&name, id, strlen(id), err);
    if (!rc)
        ctr_rank_call(l->rank, ctr_colbuf_view(&name));
    ctr_colbuf_free(&name);
    return rc;
}

const struct ctr_schema *serve_lane_rank_schema(const struct serve_lane *l)
{
    return ctr_rank_schema(l->rank);
}

struct ranking {
    struct serve_lane *l;
    serve_sink *seen;
    void *ctx;
};

/* Scored rows become candidates, which have the place of their ad. */
static int take_candidates(void *ctx, const struct ctr_batch *b, const double *score, struct ctr_err *err)
{
    const struct ranking *x = ctx;
    struct serve_lane *l = x->l;
    int rc = x->seen ? x->seen(x->ctx, b, score, err) : 0;
    if (!rc)
        rc = ctr_buf_room(&l->ads, b->rows, sizeof(int64_t), err);
    if (rc)
        return rc;
    int64_t *ad = (int64_t *)(void *)l->ads.data;
    for (int64_t i = 0; i < b->rows; i++, l->ad++)
        ad[i] = serve_cut_ad(l->desk, l->ad);
    memcpy(l->col, b->col, (size_t)b->schema->n * sizeof *l->col);
    l->col[b->schema->n] = (struct ctr_col){ .type = CTR_I64, .rows = b->rows, .data = ad };
    const struct ctr_batch rows = { &l->candidates, b->rows, b->first_row, l->col };
    return ctr_rank_batch(l->rank, &rows, err);
}

int serve_lane_rank(struct serve_lane *l, const struct ctr_batch *b, bool last, serve_sink *seen, serve_sink *sink,
                    void *ctx, struct ctr_err *err)
{
    struct ranking x = { l, seen, ctx };
    const struct ctr_batch *ranked;
    int rc = b ? serve_lane_run(l, b, take_candidates, &x, err) : 0;
    if (!rc && last) {
        rc = ctr_rank_finish(l->rank, err);
        l->ad = 0;
    }
    while (!rc && (rc = ctr_rank_next(l->rank, &ranked, err)) > 0)
        rc = sink(ctx, ranked, ranked->col[l->score].data, err);
    return rc;
}

void serve_lane_forget(struct serve_lane *l)
{
    for (int i = 0; i < l->tables; i++)
        (void)ctr_predictor_unknown(l->predictor, i, &l->counted[2 * i], &l->counted[2 * i + 1]);
}

int serve_lane_count(struct serve_lane *l, struct serve_metrics *m, struct ctr_err *err)
{
    const char *name;
    int64_t keys, unknown;
    int rc = 0;
    for (int i = 0; !rc && i < l->tables && (name = ctr_predictor_unknown(l->predictor, i, &keys, &unknown)); i++) {
        int64_t *was = l->counted + 2 * i;
        if (keys != was[0])
            rc = serve_metrics_table(m, name, keys - was[0], unknown - was[1], err);
        was[0] = keys;
        was[1] = unknown;
    }
    return rc;
}

void serve_lane_drop(struct serve_desk *d, struct serve_lane *l)
{
    for (int i = 0; i < d->lanes; i++)
        if (d->lane[i] == l) {
            memmove(d->lane + i, d->lane + i + 1, (size_t)(--d->lanes - i) * sizeof(struct serve_lane *));
            serve_lane_free(l);
            return;
        }
}
