/* SPDX-License-Identifier: Apache-2.0
 *
 * serve_prerank: see serve_prerank.h. Where the request gives ads, only those are candidates, and one without a vector
 * is kept only while fewer than K have one. */
#include "tools/ctr-serve/serve_prerank.h"

#include "common/text/json.h"

#include <math.h>
#include <stdlib.h>

enum { ADS_BLOCK = 4096 }; /* products of a block stay in the first-level cache */

struct serve_prerank {
    struct ctr_schema columns; /* that the tower's plan reads */
    int *from;                 /* of each: column of the generation's schema; -1: of the ad's side, null here */
    struct ctr_strs inputs;    /* of the user's side */
    int key, score;            /* columns of the generation's schema: of an ad; `prerank`, or -1 */
    int64_t top;
};

struct serve_cut {
    struct ctr_program *program;
    struct ctr_predictor *predictor;
    struct ctr_schema features; /* of the user's side */
    struct ctr_vectors user;
    int *feature; /* columns of the program's result */
    struct ctr_batchbuf nulls;
    struct ctr_col *col, *input, score;
    struct ctr_buf vector, product, best, pick, scores;
    struct ctr_batchbuf kept;
    bool given;
    int64_t asked, n; /* ads of the request; those that are kept */
    /* of a stream: */
    struct ctr_part user_row;
    struct serve_requests requests;
    struct ctr_buf order, all,
        rows; /* uint64_t: first row of the request, and row; struct ctr_best; int64_t: the row of its request */
};

#define AS(type, buf) ((type *)(void *)(buf).data)

/* With K = 2, a request with five ads of which the fourth has no vector, and one without ads:
 *
 *                    ads x, y, z, v, w                        no ads
 *     make_vector    the user's vector, by the tower's plan on columns of user, context and --users
 *     find_best_of   products .1 .9 -.2 (none) .4             find_best: of all vectors, block by block
 *     list_kept      pick: places 1 and 4, in request order   pick: rows of the vectors, the best first
 *     keep_rows      the ads' columns, of these rows          list_keys: the keys become the ads' only column
 *     tell           "ads":[1,4]                              "ads":["k7","k3"]
 *
 * The model then scores two rows. A column `prerank` that its plan reads gets the pre-rank's scores. Of a stream, rows
 * are first ordered by request (order_rows), and each request is cut like this. */

/* ---- of a generation ---- */

void serve_prerank_free(struct serve_prerank *p)
{
    if (!p)
        return;
    ctr_schema_free(&p->columns);
    ctr_strs_free(&p->inputs);
    free(p->from);
    free(p);
}

static int find_inputs(struct serve_prerank *p, const struct ctr_loaded *tower, struct ctr_err *err)
{
    struct ctr_output out;
    const char *name, *side;
    int rc = ctr_loaded_output(tower, "user", &out, err);
    for (int i = 0; !rc && ctr_loaded_input(tower, i, &name, &side); i++)
        if (side && !strcmp(side, "user"))
            rc = ctr_strs_add(&p->inputs, name, strlen(name), err);
    return rc;
}

struct reads {
    const struct ctr_plan *plan;
    const struct ctr_strs *inputs;
    struct ctr_strs columns;
};

/* Is the signal an input? Beside a kept column x, the input of x is x.feature. */
static bool is_input(const struct reads *r, const char *signal)
{
    bool found = false;
    for (int i = 0; i < r->inputs->n && !found; i++) {
        const char *name = ctr_plan_name_of(r->plan, r->inputs->s[i]);
        found = name && !strcmp(name, signal);
    }
    return found;
}

static int note_signal(void *ctx, const struct ctr_plan_signal *s, struct ctr_err *err)
{
    struct reads *r = ctx;
    const int n = is_input(r, s->name) ? s->inputs->n : 0;
    int rc = 0;
    for (int i = 0; i < n && !rc; i++)
        if (ctr_strs_find(&r->columns, s->inputs->s[i]) < 0)
            rc = ctr_strs_add(&r->columns, s->inputs->s[i], strlen(s->inputs->s[i]), err);
    return rc;
}

/* Column `name` of the tower's plan, which the user gives if `wanted`. */
static int add_column(struct serve_generation *g, const char *name, bool wanted, struct ctr_err *err)
{
    struct serve_prerank *p = g->prerank;
    struct ctr_field type;
    char is[64], there[64];
    if (!ctr_plan_input_type(g->tower->plan, name, &type))
        return ctr_fail(err, CTR_EUSAGE,
                        "the tower does not say of what type its column %s was: train it with this version, on raw "
                        "columns",
                        name);
    type.name = (char *)(uintptr_t)name;
    const int at = p->columns.n;
    int rc = ctr_schema_add_field(&p->columns, &type, NULL, err);
    if (rc)
        return rc;
    p->from[at] = -1;
    if (!wanted)
        return 0;
    int k = ctr_schema_find(&g->schema, name);
    if (k < 0 && !(rc = ctr_schema_add_field(&g->schema, &p->columns.f[at], NULL, err)))
        k = g->schema.n - 1;
    if (!rc && strcmp(ctr_field_type_name(&p->columns.f[at], is, sizeof is),
                      ctr_field_type_name(&g->schema.f[k], there, sizeof there)) != 0)
        rc = ctr_fail(err, CTR_EUSAGE, "column %s is %s for the tower, and %s for the model: train both on one log",
                      name, is, there);
    p->from[at] = k;
    return rc;
}

int serve_prerank_new(struct serve_generation *g, int64_t top, struct ctr_err *err)
{
    struct serve_prerank *p = g->prerank = calloc(1, sizeof *p);
    if (!p)
        return ctr_fail_nomem(err, sizeof *p);
    const struct ctr_strs *in = ctr_plan_inputs(g->tower->plan);
    struct reads r = { .plan = g->tower->plan, .inputs = &p->inputs };
    p->top = top;
    p->key = p->score = -1;
    p->from = calloc((size_t)in->n + 1, sizeof *p->from);
    int rc = p->from ? find_inputs(p, g->tower->loaded, err) : ctr_fail_nomem(err, (size_t)in->n * sizeof *p->from);
    if (!rc)
        rc = ctr_plan_signals(g->tower->plan, note_signal, &r, err);
    for (int i = 0; i < in->n && !rc; i++)
        if (!ctr_plan_can_lack(g->tower->plan, in->s[i]))
            rc = add_column(g, in->s[i], ctr_strs_find(&r.columns, in->s[i]) >= 0, err);
    ctr_strs_free(&r.columns);
    return rc;
}

int serve_prerank_key(struct serve_generation *g, const char *vectors, struct ctr_err *err)
{
    struct serve_prerank *p = g->prerank;
    const struct ctr_field *key = &g->vectors->key.f[0];
    char is[64], there[64];
    p->key = g->ad_key >= 0 ? g->ad_key : ctr_schema_find(&g->schema, key->name);
    p->score = ctr_schema_find(&g->schema, "prerank");
    if (p->score >= 0 && (p->score >= g->columns || g->schema.f[p->score].type != CTR_F64))
        p->score = -1;
    ctr_err_file(err, vectors);
    if (p->key < 0)
        return ctr_fail(err, CTR_EUSAGE,
                        "its key '%s' is no column that the model reads: give a file of ads with this key (--ads)",
                        key->name);
    if (g->schema.f[p->key].type != key->type)
        return ctr_fail(err, CTR_EUSAGE, "its key '%s' is %s, that of an ad, %s, is %s", key->name,
                        ctr_field_type_name(key, is, sizeof is), g->schema.f[p->key].name,
                        ctr_field_type_name(&g->schema.f[p->key], there, sizeof there));
    g->ad_key = p->key; /* an ad may be its key alone */
    *err->file = 0;
    return 0;
}

bool serve_prerank_reads(const struct serve_generation *g, int k)
{
    for (int i = 0; g->prerank && i < g->prerank->columns.n; i++)
        if (g->prerank->from[i] == k)
            return true;
    return false;
}

bool serve_prerank_gives(const struct serve_generation *g, int k)
{
    return g->prerank && k == g->prerank->score;
}

/* ---- of a desk ---- */

void serve_cut_free(struct serve_cut *c)
{
    if (!c)
        return;
    struct ctr_buf *bufs[] = { &c->vector, &c->product, &c->best, &c->pick, &c->scores, &c->order, &c->all, &c->rows };
    for (size_t i = 0; i < CTR_COUNT(bufs); i++)
        ctr_buf_free(bufs[i]);
    ctr_predictor_free(c->predictor);
    ctr_program_free(c->program);
    ctr_schema_free(&c->features);
    ctr_batchbuf_free(&c->nulls);
    ctr_batchbuf_free(&c->kept);
    ctr_part_free(&c->user_row);
    serve_requests_free(&c->requests);
    free(c->feature);
    free(c->col);
    free(c->input);
    free(c);
}

static int bind_program(struct serve_cut *c, const struct serve_generation *g, struct ctr_err *err)
{
    const struct ctr_batch *out;
    pthread_mutex_lock(&g->tower->bind);
    int rc = ctr_program_bind(&c->program, g->tower->plan, &g->prerank->columns, err);
    if (!rc)
        rc = ctr_program_threads(c->program, 1, err);
    if (!rc) /* builds what it looks values up in */
        rc = ctr_program_run(c->program, ctr_batchbuf_view(&c->nulls), &out, err);
    pthread_mutex_unlock(&g->tower->bind);
    return rc;
}

/* The features of the user's side, and the predictor on them. */
static int bind_tower(struct serve_cut *c, const struct serve_generation *g, struct ctr_err *err)
{
    const struct ctr_predict_opts how = { .threads = 1, .output = "user" };
    const struct ctr_schema *s = ctr_program_output(c->program);
    c->feature = calloc((size_t)s->n + 1, sizeof *c->feature);
    c->input = calloc((size_t)s->n + 1, sizeof *c->input);
    int rc = c->feature && c->input ? ctr_meta_copy(&c->features.meta, &s->meta, err)
                                    : ctr_fail_nomem(err, (size_t)s->n * sizeof *c->feature);
    for (int i = 0; i < s->n && !rc; i++) {
        if (!ctr_field_is_input(&s->f[i]) || ctr_strs_find(&g->prerank->inputs, s->f[i].name) < 0)
            continue;
        c->feature[c->features.n] = i;
        rc = ctr_schema_add_field(&c->features, &s->f[i], NULL, err);
    }
    if (!rc)
        rc = ctr_predictor_of(&c->predictor, g->tower->loaded, &how, err);
    if (!rc)
        rc = ctr_predictor_bind(c->predictor, &c->features, err);
    if (!rc)
        rc = ctr_vectors_find(&c->user, ctr_predictor_schema(c->predictor), "user", "the tower", err);
    return rc ? rc : ctr_vectors_fit(&c->user, &g->vectors->of, err);
}

int serve_cut_new(struct serve_cut **out, const struct serve_generation *g, struct ctr_err *err)
{
    const struct serve_prerank *p = g->prerank;
    struct serve_cut *c = *out = calloc(1, sizeof *c);
    if (!c)
        return ctr_fail_nomem(err, sizeof *c);
    c->col = calloc((size_t)p->columns.n + 1, sizeof *c->col);
    int rc = c->col ? ctr_batchbuf_init(&c->nulls, &p->columns, err) : ctr_fail_nomem(err, sizeof *c->col);
    for (int i = 0; i < p->columns.n && !rc; i++)
        rc = ctr_colbuf_null(&c->nulls.col[i], err);
    if (!rc)
        rc = ctr_batchbuf_init(&c->kept, &g->jsonl_schema, err);
    if (!rc)
        rc = bind_program(c, g, err);
    if (!rc)
        rc = bind_tower(c, g, err);
    return rc;
}

/* ---- the user's vector ---- */

static int user_column(const struct serve_desk *d, int k, bool user, const struct ctr_col **col, struct ctr_err *err)
{
    const struct serve_generation *g = d->g;
    const char *name = g->schema.f[k].name;
    const bool of_user = d->user.loss[k].present, of_context = d->context.loss[k].present;
    if (of_user && of_context)
        return ctr_fail(err, CTR_EDATA, "column %s is in user and in context: give it once", name);
    if (!of_user && !of_context && d->ads.loss[k].present)
        return ctr_fail(err, CTR_EDATA, "column %s is in ads: the pre-rank wants it of the user or the context", name);
    if (of_user || of_context)
        *col = ctr_colbuf_view((struct ctr_colbuf *)(uintptr_t) & (of_user ? &d->user : &d->context)->out.col[k]);
    else if (user && g->from_users[k] >= 0)
        *col = ctr_colbuf_view((struct ctr_colbuf *)(uintptr_t)&d->users_rows.col[g->from_users[k]]);
    else
        return ctr_fail(err, CTR_EDATA, "column %s is missing: the user or the context give it (null: not known)",
                        name);
    return 0;
}

static int user_columns(struct serve_desk *d, bool user, struct ctr_err *err)
{
    const struct serve_prerank *p = d->g->prerank;
    struct serve_cut *c = d->cut;
    const struct ctr_col *col = NULL;
    int rc = 0;
    for (int i = 0; i < p->columns.n && !rc; i++)
        if (p->from[i] < 0)
            c->col[i] = *ctr_colbuf_view(&c->nulls.col[i]);
        else if (!(rc = user_column(d, p->from[i], user, &col, err)))
            c->col[i] = *col;
    return rc;
}

/* Of the columns in c->col. */
static int make_vector(const struct serve_prerank *p, struct serve_cut *c, struct ctr_err *err)
{
    const struct ctr_batch raw = { .schema = &p->columns, .rows = 1, .col = c->col }, *b = &raw;
    int rc = ctr_program_run(c->program, &raw, &b, err);
    for (int i = 0; i < c->features.n && !rc; i++)
        c->input[i] = b->col[c->feature[i]];
    const struct ctr_batch features = { .schema = &c->features, .rows = 1, .col = c->input };
    if (!rc)
        rc = ctr_predictor_run(c->predictor, &features, &b, err);
    const float *x = rc ? NULL : ctr_vectors_values(&c->user, b, 0);
    ctr_buf_clear(&c->vector);
    if (!rc && !x)
        rc = ctr_fail(err, CTR_EDATA, "the user's vector is not a number");
    return rc ? rc : ctr_buf_append(&c->vector, x, (size_t)c->user.width * sizeof *x, err);
}

/* ---- the best ads ---- */

static struct ctr_best *heap_of(struct serve_cut *c, int64_t k, int *rc, struct ctr_err *err)
{
    ctr_buf_clear(&c->best);
    ctr_buf_clear(&c->product);
    (void)ctr_buf_extend(&c->product, ADS_BLOCK, sizeof(float), rc, err);
    return ctr_buf_extend(&c->best, k, sizeof(struct ctr_best), rc, err);
}

/* The best of all ads. */
static int find_best(struct serve_cut *c, const struct serve_vectors *v, int64_t k, struct ctr_err *err)
{
    const float *user = AS(float, c->vector);
    int64_t n = 0;
    int rc = 0;
    struct ctr_best *heap = heap_of(c, k, &rc, err);
    for (int i = 0; i < v->pieces && !rc; i++) {
        const int64_t first = v->piece[i].first, end = i + 1 < v->pieces ? v->piece[i + 1].first : v->ads;
        for (int64_t at = first; at < end; at += ADS_BLOCK) {
            const int64_t ads = CTR_MIN(ADS_BLOCK, end - at);
            ctr_vectors_dot(&c->user, user, v->piece[i].value + (at - first) * v->of.width, ads, AS(float, c->product));
            ctr_best_scan(heap, &n, k, AS(float, c->product), ads, at);
        }
    }
    if (!rc)
        ctr_best_order(heap, n);
    return rc;
}

/* The best of n ads of the request, by their places: `order`, or NULL: 0, 1, 2, … One without a vector has -infinity:
 * it is behind all others. */
static int find_best_of(struct serve_cut *c, const struct serve_vectors *v, const struct ctr_col *keys,
                        const uint64_t *order, int64_t n, int64_t k, int64_t *missed, struct ctr_err *err)
{
    const float *user = AS(float, c->vector);
    int64_t kept = 0;
    int rc = 0;
    struct ctr_best *heap = heap_of(c, k, &rc, err);
    for (int64_t i = 0; i < n && !rc; i++) {
        float logit = -INFINITY;
        const int64_t place = order ? (int64_t)(uint32_t)order[i] : i, row = serve_vectors_find(v, keys, place);
        if (row >= 0)
            ctr_vectors_dot(&c->user, user, serve_vectors_at(v, row), 1, &logit);
        if (row >= 0 && !(fabsf(logit) < INFINITY))
            return ctr_fail(err, CTR_EDATA, "ads[%lld]: the product with its vector is not a number", (long long)place);
        *missed += row < 0;
        ctr_best_scan(heap, &kept, k, &logit, 1, place);
    }
    return rc;
}

static int by_place(const void *a, const void *b)
{
    const struct ctr_best *x = a, *y = b;
    return x->ad < y->ad ? -1 : x->ad > y->ad;
}

/* Places and scores of the ads that are kept. */
static int list_kept(struct serve_cut *c, struct ctr_best *best, struct ctr_err *err)
{
    int rc = 0;
    ctr_buf_clear(&c->pick);
    ctr_buf_clear(&c->scores);
    int64_t *pick = ctr_buf_extend(&c->pick, c->n, sizeof *pick, &rc, err);
    double *score = ctr_buf_extend(&c->scores, c->n + (c->n + 63) / 64, sizeof *score, &rc, err);
    if (rc)
        return rc;
    uint8_t *valid = (uint8_t *)(score + c->n); /* null: no vector */
    memset(valid, 0, (size_t)(c->n + 63) / 64 * 8);
    if (c->given)
        qsort(best, (size_t)c->n, sizeof *best, by_place);
    int64_t nulls = 0;
    for (int64_t i = 0; i < c->n; i++) {
        const bool known = fabsf(best[i].logit) < INFINITY;
        pick[i] = best[i].ad;
        score[i] = known ? ctr_sigmoid((double)best[i].logit) : 0;
        nulls += !known;
        if (known)
            ctr_bits_set(valid, i, 1);
        else if (!c->given)
            return ctr_fail(err, CTR_EDATA, "a product with the user's vector is not a number");
    }
    c->score =
        (struct ctr_col){ .type = CTR_F64, .rows = c->n, .nulls = nulls, .valid = nulls ? valid : NULL, .data = score };
    return 0;
}

/* Of the columns that the ads have, only the rows that are kept. */
static int keep_rows(struct serve_desk *d, struct ctr_err *err)
{
    struct serve_cut *c = d->cut;
    int rc = 0;
    for (int i = 0; i < d->ads.out.schema->n && !rc; i++) {
        struct ctr_colbuf *from = &d->ads.out.col[i], *to = &c->kept.col[i];
        if (!d->ads.loss[i].present)
            continue;
        ctr_colbuf_clear(to);
        rc = ctr_colbuf_gather(to, ctr_colbuf_view(from), AS(int64_t, c->pick), c->n, err);
        const struct ctr_colbuf swap = *from;
        *from = *to;
        *to = swap;
    }
    return rc;
}

/* The keys of the ads that are kept, which the request does not have. */
static int list_keys(struct serve_desk *d, struct ctr_err *err)
{
    struct ctr_colbuf *to = &d->ads.out.col[d->g->prerank->key];
    ctr_colbuf_clear(to);
    return ctr_colbuf_gather(to, &d->g->vectors->all, AS(int64_t, d->cut->pick), d->cut->n, err);
}

int serve_cut(struct serve_desk *d, bool user, bool given, struct ctr_err *err)
{
    const struct serve_prerank *p = d->g->prerank;
    const struct serve_vectors *v = d->g->vectors;
    struct serve_cut *c = d->cut;
    c->given = given;
    c->asked = given ? d->batch.rows : v->ads;
    c->n = CTR_MIN(p->top, c->asked);
    if (!c->asked || (given && c->asked <= p->top && p->score < 0)) { /* all are kept, and no answer has the products */
        c->n = c->asked;
        return 0;
    }
    if (given && !d->ads.loss[p->key].present)
        return ctr_fail(err, CTR_EDATA, "ads: the pre-rank wants their key, %s", d->g->schema.f[p->key].name);
    int rc = user_columns(d, user, err);
    if (!rc)
        rc = make_vector(p, c, err);
    if (!rc)
        rc = given ? find_best_of(c, v, ctr_colbuf_view(&d->ads.out.col[p->key]), NULL, c->asked, c->n, &d->no_vector,
                                  err)
                   : find_best(c, v, c->n, err);
    if (!rc)
        rc = list_kept(c, AS(struct ctr_best, c->best), err);
    if (!rc && given)
        rc = c->n < c->asked ? keep_rows(d, err) : 0;
    else if (!rc)
        rc = list_keys(d, err);
    if (!given)
        d->ads.loss[p->key].present = true;
    d->batch.rows = c->n;
    return rc;
}

const struct ctr_col *serve_cut_column(const struct serve_desk *d, int k)
{
    return d->cut && k == d->g->prerank->score ? &d->cut->score : NULL;
}

/* ---- rows of a stream ---- */

/* Rows by request, in the order of the stream: the first row of the request above the row. */
static int order_rows(struct serve_cut *c, const struct serve_generation *g, const struct ctr_batch *b, const int *at,
                      struct ctr_err *err)
{
    const int64_t *first;
    int rc = serve_requests_find(&c->requests, g, b, at, &first, err);
    ctr_buf_clear(&c->order);
    uint64_t *order = ctr_buf_extend(&c->order, b->rows, sizeof *order, &rc, err);
    for (int64_t i = 0; i < b->rows && !rc; i++)
        order[i] = (uint64_t)first[i] << 32 | (uint64_t)i;
    if (!rc)
        qsort(order, (size_t)b->rows, sizeof *order, ctr_by_u64);
    return rc;
}

/* The user's columns of a row, in c->col. at: of each column of the generation's schema the column of b, or -1. */
static int row_columns(struct serve_desk *d, const struct ctr_batch *b, const int *at, int64_t row, struct ctr_err *err)
{
    const struct serve_generation *g = d->g;
    const struct serve_prerank *p = g->prerank;
    struct serve_cut *c = d->cut;
    const bool user = g->users && at[g->user_key] >= 0;
    int rc = ctr_batch_part(&c->user_row, b, row, 1, err);
    if (!rc && user)
        rc = serve_look_up(d->users_file, &d->users_rows, &c->user_row.batch.col[at[g->user_key]], &d->found,
                           &d->no_user, err);
    for (int i = 0; i < p->columns.n && !rc; i++) {
        const int k = p->from[i];
        if (k < 0)
            c->col[i] = *ctr_colbuf_view(&c->nulls.col[i]);
        else if (at[k] >= 0)
            c->col[i] = c->user_row.batch.col[at[k]];
        else if (user && g->from_users[k] >= 0)
            c->col[i] = *ctr_colbuf_view(&d->users_rows.col[g->from_users[k]]);
        else
            rc = ctr_fail(err, CTR_EDATA, "column %s is missing: the pre-rank reads it of the user",
                          p->columns.f[i].name);
    }
    return rc;
}

/* The rows of a request have one user. */
static int check_user(const struct serve_prerank *p, const struct ctr_batch *b, const int *at, const uint64_t *order,
                      int64_t n, struct ctr_err *err)
{
    const int64_t first = (uint32_t)order[0];
    for (int i = 0; i < p->columns.n; i++) {
        const struct ctr_col *col = p->from[i] < 0 || at[p->from[i]] < 0 ? NULL : &b->col[at[p->from[i]]];
        for (int64_t k = 1; col && k < n; k++)
            if (ctr_col_compare(col, first, col, (uint32_t)order[k]))
                return ctr_fail(err, CTR_EDATA,
                                "rows %lld and %lld are of one request, but differ in %s, which the pre-rank reads of "
                                "the user: tell requests apart by a column of role query",
                                (long long)first + 1, (long long)(uint32_t)order[k] + 1, p->columns.f[i].name);
    }
    return 0;
}

/* Of the n ads of one request, those that are kept are added to c->all. */
static int cut_request(struct serve_desk *d, const struct ctr_batch *b, const int *at, const uint64_t *order, int64_t n,
                       struct ctr_err *err)
{
    const struct serve_prerank *p = d->g->prerank;
    struct serve_cut *c = d->cut;
    const int64_t kept = CTR_MIN(p->top, n);
    int rc = 0;
    struct ctr_best *to = ctr_buf_extend(&c->all, kept, sizeof *to, &rc, err);
    if (!rc && n <= p->top && p->score < 0) { /* all are kept, and nobody asks for products */
        for (int64_t i = 0; i < n; i++)
            to[i] = (struct ctr_best){ 0, (int32_t)(uint32_t)order[i] };
        return 0;
    }
    if (!rc)
        rc = check_user(p, b, at, order, n, err);
    if (!rc)
        rc = row_columns(d, b, at, (uint32_t)order[0], err);
    if (!rc)
        rc = make_vector(p, c, err);
    if (!rc)
        rc = find_best_of(c, d->g->vectors, &b->col[at[p->key]], order, n, kept, &d->no_vector, err);
    if (!rc)
        memcpy(to, c->best.data, (size_t)kept * sizeof *to);
    return rc;
}

static int cut_requests(struct serve_desk *d, const struct ctr_batch *b, const int *at, struct ctr_err *err)
{
    struct serve_cut *c = d->cut;
    int rc = order_rows(c, d->g, b, at, err);
    const uint64_t *order = AS(uint64_t, c->order);
    for (int64_t i = 0, n = 0; i < b->rows && !rc; i += n) {
        for (n = 1; i + n < b->rows && order[i + n] >> 32 == order[i] >> 32;)
            n++;
        rc = cut_request(d, b, at, order + i, n, err);
    }
    return rc;
}

/* Rows without the key of an ad are not to be half an ad. */
static int check_request(const struct serve_generation *g, const int *at, struct ctr_err *err)
{
    for (int k = 0; k < g->columns; k++)
        if (at[k] >= 0 && g->from_ads[k] >= 0 && g->from_users[k] < 0)
            return ctr_fail(err, CTR_EDATA, "column %s is one of the ads, and the pre-rank wants their key, %s",
                            g->schema.f[k].name, g->schema.f[g->prerank->key].name);
    return 0;
}

/* Each row is a request without ads. */
static int find_ads(struct serve_desk *d, const struct ctr_batch *b, const int *at, int64_t most, struct ctr_err *err)
{
    struct serve_cut *c = d->cut;
    const int64_t k = CTR_MIN(d->g->prerank->top, d->g->vectors->ads);
    if (b->rows > 1 && b->rows * k > most)
        return ctr_fail(err, CTR_ELARGE, "%lld ads for each of %lld requests are more than %lld (--max-ads)",
                        (long long)k, (long long)b->rows, (long long)most);
    int rc = check_request(d->g, at, err);
    struct ctr_best *to = ctr_buf_extend(&c->all, b->rows * k, sizeof *to, &rc, err);
    int64_t *row = ctr_buf_extend(&c->rows, b->rows * k, sizeof *row, &rc, err);
    for (int64_t r = 0; r < b->rows && !rc; r++) {
        rc = row_columns(d, b, at, r, err);
        if (!rc)
            rc = make_vector(d->g->prerank, c, err);
        if (!rc)
            rc = find_best(c, d->g->vectors, k, err);
        for (int64_t i = 0; i < k && !rc; i++) {
            to[r * k + i] = AS(struct ctr_best, c->best)[i];
            row[r * k + i] = r;
        }
    }
    return rc;
}

int serve_cut_stream(struct serve_desk *d, const struct ctr_batch *b, const int *at, int64_t most, const int64_t **rows,
                     int64_t *n, struct ctr_err *err)
{
    struct serve_cut *c = d->cut;
    ctr_buf_clear(&c->all);
    ctr_buf_clear(&c->rows);
    c->given = at[d->g->prerank->key] >= 0;
    int rc = c->given ? cut_requests(d, b, at, err) : find_ads(d, b, at, most, err);
    c->n = *n = (int64_t)(c->all.len / sizeof(struct ctr_best));
    c->asked = c->given ? b->rows : c->n;
    if (!rc)
        rc = list_kept(c, AS(struct ctr_best, c->all), err);
    if (!rc && !c->given)
        rc = list_keys(d, err);
    *rows = rc ? NULL : c->given ? AS(int64_t, c->pick) : AS(int64_t, c->rows);
    return rc;
}

/* ---- what the answer says ---- */

int64_t serve_cut_ad(const struct serve_desk *d, int64_t i)
{
    return d->cut && d->cut->given && d->cut->n < d->cut->asked ? AS(int64_t, d->cut->pick)[i] : i;
}

int64_t serve_cut_places(const struct serve_desk *d)
{
    return d->cut && d->cut->given ? d->cut->asked : d->batch.rows;
}

static int put_key(const struct serve_desk *d, int64_t i, struct ctr_buf *out, struct ctr_err *err)
{
    const struct ctr_col *keys = &d->g->vectors->all;
    const int64_t row = AS(int64_t, d->cut->pick)[i];
    if (keys->type != CTR_UTF8)
        return ctr_col_text(keys, row, out, err);
    const struct ctr_str s = ctr_col_str(keys, row);
    return ctr_json_quote(out, s.p, s.n, err);
}

int serve_cut_tell(const struct serve_desk *d, struct ctr_buf *out, struct ctr_err *err)
{
    const struct serve_cut *c = d->cut;
    if (!c || (c->given && c->n == c->asked))
        return 0;
    int rc = ctr_buf_append(out, "\"ads\":[", 7, err);
    for (int64_t i = 0; i < c->n && !rc; i++) {
        if (i)
            rc = ctr_buf_append(out, ",", 1, err);
        if (!rc)
            rc = c->given ? ctr_buf_printf(out, err, "%lld", (long long)serve_cut_ad(d, i)) : put_key(d, i, out, err);
    }
    return rc ? rc : ctr_buf_append(out, "],", 2, err);
}

int serve_cut_tell_key(const struct serve_desk *d, int64_t i, struct ctr_buf *out, struct ctr_err *err)
{
    if (!d->cut || d->cut->given)
        return 0;
    int rc = ctr_buf_append(out, ",\"key\":", 7, err);
    return rc ? rc : put_key(d, i, out, err);
}
