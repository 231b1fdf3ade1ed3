/* SPDX-License-Identifier: Apache-2.0
 *
 * top: the best ads of each user, by brute force. One gemm computes the products of a block of users and a block of
 * ads; then each user's products are scanned in ad order, and those above the worst of the best so far enter a heap. A
 * later ad never replaces an equal one, so the result does not depend on blocks or threads. See retrieval.h. */
#include "tools/ctr-predict/retrieval.h"

#include <math.h>
#include <stdlib.h>

#include "common/compute/compute.h"
#include "common/model/model.h"

enum {
    USERS_BLOCK = 256,
    ADS_BLOCK = 4096, /* a block of products stays in the second-level cache */
    OUT_ROWS = CTR_BATCH_ROWS,
};

struct ctr_top_ads {
    struct ctr_top_ads_opts o;
    struct ctr_vectors users, of_ads;
    int64_t ads, k;
    struct ctr_buf ad_values; /* f32 [ads x width], until copied to the device */
    struct ctr_schema ad_schema, schema;
    struct ctr_batchbuf ad_rows;  /* the ads' other columns, in memory */
    int *user_column, *ad_column; /* per column of `schema`: its source column; -1: not of this side */
    int rank, score;
    struct ctr_dev *dev;
    struct ctr_pool *pool; /* the device's, or: */
    struct ctr_pool *own_pool;
    struct ctr_mem *ad_mem, *user_mem, *product, *bias;
    struct ctr_buf products; /* for devices other than the host */
    const float *block;      /* products of the current block: [its users x ADS_BLOCK] */
    int64_t first_ad, block_ads;
    struct ctr_buf best;  /* struct ctr_best [users of the batch x k], each a heap with the worst on top */
    struct ctr_buf found; /* i64: heap size per user */
    const struct ctr_batch *batch;
    int64_t next_user, first_user; /* next user to return; first user of the block */
    struct ctr_batchbuf out;
    struct ctr_buf index;
};

#define AS(type, buf) ((type *)(void *)(buf).data)

/* 300 users and 5,000 ads, K = 2:
 *
 *     users [0, 256)      x ads [0, 4096)       gemm: 256 x 4,096 products, then each user's are scanned by a thread
 *                         x ads [4096, 5000)    the same; the heaps go on
 *     users [256, 300)    x ads [0, 4096) …
 *     order               each heap becomes a list, the best first
 *
 * A user with the products .1 .9 .5 .9 in ad order: the heap is {.1 .9}, then {.5 .9}, then {.9 .9}; a third .9 would
 * not enter. Rows then come user by user: the user's columns, rank 1 with ad 1, rank 2 with ad 3, the ad's columns. */

/* ---- the ads ---- */

/* Copy the vectors of a batch, row after row. */
static int take_vectors(const struct ctr_vectors *v, const struct ctr_batch *b, const char *name, struct ctr_buf *to,
                        struct ctr_err *err)
{
    int rc = 0;
    float *value = ctr_buf_extend(to, b->rows * v->width, sizeof *value, &rc, err);
    for (int64_t i = 0; i < b->rows && !rc; i++) {
        const float *x = ctr_vectors_values(v, b, i);
        if (!x)
            return ctr_fail(err, CTR_EDATA, "%.200s: row %lld: the vector is null, or a number of it is not finite",
                            name, (long long)(b->first_row + i + 1));
        memcpy(value + i * v->width, x, (size_t)v->width * sizeof *x);
    }
    return rc;
}

static int read_ads(struct ctr_top_ads *t, const struct ctr_batch_source *ads, struct ctr_err *err)
{
    const struct ctr_schema *s = ctr_batch_source_schema(ads);
    const struct ctr_batch *b;
    int rc = ctr_schema_copy(&t->ad_schema, s, err);
    for (int i = 0; i < t->ad_schema.n; i++)
        t->ad_schema.f[i].dict = false; /* dictionaries change from batch to batch */
    if (!rc)
        rc = ctr_batchbuf_init(&t->ad_rows, &t->ad_schema, err);
    while (!rc && (rc = ctr_batch_source_next(ads, &b, err)) > 0) {
        rc = take_vectors(&t->of_ads, b, t->o.ads, &t->ad_values, err);
        for (int i = 0; i < s->n && !rc; i++)
            if (i != t->of_ads.column)
                rc = ctr_colbuf_range(&t->ad_rows.col[i], &b->col[i], 0, b->rows, err);
        t->ads += b->rows;
        if (!rc && t->ads > INT32_MAX)
            rc = ctr_fail(err, CTR_EDATA, "%.200s: more than 2^31 ads: split them", t->o.ads);
        if (!rc && t->o.memory_bytes && t->ad_values.len > (size_t)t->o.memory_bytes)
            rc = ctr_fail(err, CTR_ENOMEM,
                          "%.200s: the vectors of the first %lld ads take more than --memory allows: "
                          "raise it, or split the ads",
                          t->o.ads, (long long)t->ads);
    }
    return rc;
}

static uint64_t hash_ad(const struct ctr_top_ads *t, int64_t i)
{
    uint64_t hash = ctr_hash_secret;
    for (int c = 0; c < t->ad_schema.n; c++)
        if (c != t->of_ads.column)
            hash = ctr_col_hash(ctr_colbuf_view(&t->ad_rows.col[c]), i, hash);
    return hash;
}

static bool same_ad(const struct ctr_top_ads *t, int64_t i, int64_t j)
{
    bool same = true;
    for (int c = 0; c < t->ad_schema.n && same; c++)
        if (c != t->of_ads.column) {
            const struct ctr_col *col = ctr_colbuf_view(&t->ad_rows.col[c]);
            same = !ctr_col_compare(col, i, col, j);
        }
    return same;
}

static int fail_duplicate(const struct ctr_top_ads *t, int64_t i, int64_t j, struct ctr_err *err)
{
    const int c = t->of_ads.column ? 0 : 1;
    const struct ctr_col *col = ctr_colbuf_view(&t->ad_rows.col[c]);
    struct ctr_buf text = { 0 };
    int rc = ctr_col_missing(col, i) ? ctr_buf_printf(&text, err, "null") : ctr_col_text(col, i, &text, err);
    if (!rc)
        rc = ctr_fail(err, CTR_EDATA,
                      "%.200s: rows %lld and %lld are one ad, '%s' %.*s: it would take two places; ctr-sort --unique "
                      "keeps the first",
                      t->o.ads, (long long)i + 1, (long long)j + 1, t->ad_schema.f[c].name, (int)CTR_MIN(text.len, 80),
                      (const char *)text.data);
    ctr_buf_free(&text);
    return rc;
}

/* Rows of which all columns but the vector are equal are one ad. Without such columns nothing tells ads apart. */
static int check_ads(const struct ctr_top_ads *t, struct ctr_err *err)
{
    struct ctr_index index = { 0 };
    int rc = 0;
    for (int64_t i = 0; i < t->ads && t->ad_schema.n > 1 && !rc; i++) {
        const uint64_t hash = hash_ad(t, i);
        const struct ctr_index_slot *s = ctr_index_find(&index, hash);
        while (s && !same_ad(t, s->number, i))
            s = ctr_index_next(&index, s);
        rc = s ? fail_duplicate(t, s->number, i, err) : ctr_index_add(&index, hash, (uint32_t)i, err);
    }
    ctr_index_free(&index);
    return rc;
}

/* ---- what goes out ---- */

static int add_column(struct ctr_top_ads *t, const struct ctr_field *f, const char *of, struct ctr_err *err)
{
    const int role = ctr_field_role(f);
    if (ctr_schema_find(&t->schema, f->name) >= 0)
        return ctr_fail(err, CTR_EUSAGE,
                        "column '%s' of %.200s has the name of another column of the result: give it another one with "
                        "ctr-select --columns NEW=%s",
                        f->name, of, f->name);
    const bool taken = role >= 0 && ctr_schema_role(&t->schema, (enum ctr_role)role) >= 0;
    int rc = ctr_schema_add_field(&t->schema, f, NULL, err);
    if (rc)
        return rc;
    struct ctr_field *added = &t->schema.f[t->schema.n - 1];
    added->dict = false;
    return taken || role == CTR_ROLE_SCORE ? ctr_meta_set(&added->meta, CTR_META_ROLE, NULL, err) : 0;
}

static int make_schema(struct ctr_top_ads *t, const struct ctr_schema *users, struct ctr_err *err)
{
    static const struct ctr_field rank = { .name = (char *)(uintptr_t) "rank", .type = CTR_I32 };
    static const struct ctr_field score = { .name = (char *)(uintptr_t) "score", .type = CTR_F64 };
    const size_t n = (size_t)users->n + (size_t)t->ad_schema.n + 2;
    int rc = 0;
    t->user_column = malloc(n * sizeof *t->user_column);
    t->ad_column = malloc(n * sizeof *t->ad_column);
    if (!t->user_column || !t->ad_column)
        return ctr_fail_nomem(err, n * sizeof *t->ad_column);
    for (size_t i = 0; i < n; i++)
        t->user_column[i] = t->ad_column[i] = -1;
    for (int i = 0; i < users->n && !rc; i++) {
        if (i == t->users.column)
            continue;
        t->user_column[t->schema.n] = i;
        rc = add_column(t, &users->f[i], t->o.users, err);
    }
    t->rank = t->schema.n;
    if (!rc)
        rc = add_column(t, &rank, "the result", err);
    for (int i = 0; i < t->ad_schema.n && !rc; i++) {
        if (i == t->of_ads.column)
            continue;
        t->ad_column[t->schema.n] = i;
        rc = add_column(t, &t->ad_schema.f[i], t->o.ads, err);
    }
    t->score = t->schema.n;
    if (!rc)
        rc = add_column(t, &score, "the result", err);
    if (!rc)
        rc = ctr_field_set_role(&t->schema.f[t->score], CTR_ROLE_SCORE, err);
    const char *pg = ctr_meta_get(&users->meta, CTR_META_PG);
    if (!rc && pg)
        rc = ctr_meta_set(&t->schema.meta, CTR_META_PG, pg, err);
    return rc ? rc : ctr_batchbuf_init(&t->out, &t->schema, err);
}

/* ---- opening ---- */

static int send(struct ctr_top_ads *t, struct ctr_mem **m, const void *data, size_t bytes, struct ctr_err *err)
{
    int rc = ctr_mem_grow(m, t->dev, CTR_MAX(bytes, 1), err);
    return rc ? rc : ctr_mem_write(*m, 0, data, bytes, err);
}

static int open_device(struct ctr_top_ads *t, struct ctr_err *err)
{
    float bias[ADS_BLOCK];
    const struct ctr_dev_want want = { .device = t->o.device,
                                       .threads = CTR_MAX(t->o.threads, 1),
                                       .memory_bytes = t->o.device_memory };
    for (int i = 0; i < ADS_BLOCK; i++)
        bias[i] = t->users.bias;
    int rc = ctr_dev_open(&t->dev, &want, err);
    if (!rc)
        rc = send(t, &t->bias, bias, sizeof bias, err);
    if (!rc)
        rc = send(t, &t->ad_mem, t->ad_values.data, t->ad_values.len, err);
    if (!rc)
        rc = ctr_mem_new(&t->product, t->dev, (size_t)USERS_BLOCK * ADS_BLOCK * sizeof(float), err);
    if (!rc && !(t->pool = ctr_dev_pool_of(t->dev))) {
        rc = ctr_pool_new(&t->own_pool, CTR_MAX(t->o.threads, 1), CTR_FLOAT_FLUSH, err);
        t->pool = t->own_pool;
    }
    if (!rc)
        ctr_buf_free(&t->ad_values);
    return rc;
}

int ctr_top_ads_new(struct ctr_top_ads **out, const struct ctr_schema *users, struct ctr_batch_source *ads,
                    const struct ctr_top_ads_opts *o, struct ctr_err *err)
{
    struct ctr_top_ads *t = *out = calloc(1, sizeof *t);
    int rc = t ? 0 : ctr_fail_nomem(err, sizeof *t);
    if (!rc) {
        t->o = *o;
        rc = ctr_vectors_find(&t->users, users, "user", o->users, err);
    }
    if (!rc)
        rc = ctr_vectors_find(&t->of_ads, ctr_batch_source_schema(ads), "ad", o->ads, err);
    if (!rc)
        rc = ctr_vectors_fit(&t->users, &t->of_ads, err);
    if (!rc)
        rc = read_ads(t, ads, err);
    if (!rc)
        rc = check_ads(t, err);
    if (!rc) {
        t->k = CTR_MIN(o->k, t->ads);
        rc = make_schema(t, users, err);
    }
    if (!rc)
        rc = open_device(t, err);
    ctr_batch_source_close(ads);
    if (rc) {
        ctr_top_ads_free(t);
        *out = NULL;
    }
    return rc;
}

void ctr_top_ads_free(struct ctr_top_ads *t)
{
    if (!t)
        return;
    struct ctr_mem *mems[] = { t->ad_mem, t->user_mem, t->product, t->bias };
    struct ctr_buf *bufs[] = { &t->ad_values, &t->products, &t->best, &t->found, &t->index };
    for (size_t i = 0; i < CTR_COUNT(mems); i++)
        ctr_mem_free(mems[i]);
    for (size_t i = 0; i < CTR_COUNT(bufs); i++)
        ctr_buf_free(bufs[i]);
    ctr_pool_free(t->own_pool);
    if (t->dev)
        ctr_dev_free(t->dev);
    ctr_batchbuf_free(&t->ad_rows);
    ctr_batchbuf_free(&t->out);
    ctr_schema_free(&t->ad_schema);
    ctr_schema_free(&t->schema);
    free(t->user_column);
    free(t->ad_column);
    free(t);
}

const struct ctr_schema *ctr_top_ads_schema(const struct ctr_top_ads *t)
{
    return &t->schema;
}

int64_t ctr_top_ads_count(const struct ctr_top_ads *t)
{
    return t->ads;
}

/* ---- the best of a user ---- */

/* Scan a user's products of this block. */
static void scan(void *ctx, int64_t user, int worker)
{
    struct ctr_top_ads *t = ctx;
    const int64_t number = t->first_user + user;
    (void)worker;
    ctr_best_scan(AS(struct ctr_best, t->best) + number * t->k, AS(int64_t, t->found) + number, t->k,
                  t->block + user * ADS_BLOCK, t->block_ads, t->first_ad);
}

static void order(void *ctx, int64_t user, int worker)
{
    const struct ctr_top_ads *t = ctx;
    (void)worker;
    ctr_best_order(AS(struct ctr_best, t->best) + user * t->k, t->k);
}

/* Multiply users [first_user, + n) of the batch by the ads of a block. */
static int multiply(struct ctr_top_ads *t, int64_t n, struct ctr_err *err)
{
    const int32_t width = t->users.width;
    const struct ctr_dev_gemm gemm = { .a = ctr_mat_at(t->user_mem, t->first_user * width, n, width),
                                       .b = ctr_mat_at(t->ad_mem, t->first_ad * width, t->block_ads, width),
                                       .tb = true,
                                       .bias = ctr_vec(t->bias, t->block_ads),
                                       .c = { t->product, 0, n, t->block_ads, ADS_BLOCK } };
    const size_t bytes = (size_t)n * ADS_BLOCK * sizeof(float);
    int rc = ctr_dev_gemm(t->dev, &gemm, err);
    if (!rc && ctr_dev_is_host(t->dev)) {
        t->block = ctr_mem_host(t->product);
        return ctr_dev_sync(t->dev, err);
    }
    t->products.len = 0;
    if (!rc)
        rc = ctr_buf_reserve(&t->products, bytes, err);
    if (!rc)
        rc = ctr_mem_read(t->product, 0, t->products.data, bytes, err);
    t->block = AS(float, t->products);
    return rc;
}

int ctr_top_ads_batch(struct ctr_top_ads *t, const struct ctr_batch *users, struct ctr_err *err)
{
    struct ctr_buf values = { 0 };
    int rc = take_vectors(&t->users, users, t->o.users, &values, err);
    if (!rc)
        rc = send(t, &t->user_mem, values.data, values.len, err);
    ctr_buf_free(&values);
    t->best.len = t->found.len = 0;
    (void)ctr_buf_extend(&t->best, users->rows * t->k, sizeof(struct ctr_best), &rc, err);
    int64_t *found = ctr_buf_extend(&t->found, users->rows, sizeof *found, &rc, err);
    if (!rc && users->rows)
        memset(found, 0, (size_t)users->rows * sizeof *found);
    for (t->first_user = 0; t->first_user < users->rows && !rc && t->k; t->first_user += USERS_BLOCK) {
        const int64_t n = CTR_MIN(USERS_BLOCK, users->rows - t->first_user);
        for (t->first_ad = 0; t->first_ad < t->ads && !rc; t->first_ad += ADS_BLOCK) {
            t->block_ads = CTR_MIN(ADS_BLOCK, t->ads - t->first_ad);
            rc = multiply(t, n, err);
            if (!rc)
                ctr_pool_run(t->pool, n, scan, t);
        }
    }
    if (!rc)
        ctr_pool_run(t->pool, t->k ? users->rows : 0, order, t);
    t->batch = users;
    t->next_user = 0;
    return rc;
}

/* ---- rows ---- */

static int put_columns(struct ctr_top_ads *t, int64_t from, int64_t users, struct ctr_err *err)
{
    const int64_t n = users * t->k;
    const struct ctr_best *best = AS(struct ctr_best, t->best) + from * t->k;
    int rc = 0;
    t->index.len = 0;
    int64_t *user = ctr_buf_extend(&t->index, 2 * n, sizeof *user, &rc, err), *ad = user + n;
    for (int64_t i = 0; i < n && !rc; i++) {
        user[i] = from + i / t->k;
        ad[i] = best[i].ad;
    }
    for (int c = 0; c < t->schema.n && !rc; c++) {
        struct ctr_colbuf *to = &t->out.col[c];
        if (t->user_column[c] >= 0)
            rc = ctr_colbuf_gather(to, &t->batch->col[t->user_column[c]], user, n, err);
        else if (t->ad_column[c] >= 0)
            rc = ctr_colbuf_gather(to, ctr_colbuf_view(&t->ad_rows.col[t->ad_column[c]]), ad, n, err);
        for (int64_t i = 0; i < n && !rc && c == t->rank; i++)
            rc = ctr_colbuf_i64(to, i % t->k + 1, err);
        for (int64_t i = 0; i < n && !rc && c == t->score; i++) {
            rc = ctr_colbuf_f64(to, ctr_sigmoid((double)best[i].logit), err);
            if (!rc && !(fabsf(best[i].logit) < INFINITY))
                rc = ctr_fail(err, CTR_EDATA, "%.200s: row %lld: a product with its vector is not a number", t->o.users,
                              (long long)(t->batch->first_row + user[i] + 1));
        }
    }
    return rc;
}

int ctr_top_ads_next(struct ctr_top_ads *t, const struct ctr_batch **b, struct ctr_err *err)
{
    const int64_t left = t->batch ? t->batch->rows - t->next_user : 0;
    const int64_t users = CTR_MIN(left, CTR_MAX(OUT_ROWS / CTR_MAX(t->k, 1), 1));
    if (!users || !t->k)
        return 0;
    ctr_batchbuf_clear(&t->out);
    int rc = put_columns(t, t->next_user, users, err);
    t->next_user += users;
    *b = ctr_batchbuf_view(&t->out);
    return rc ? rc : 1;
}
