/* SPDX-License-Identifier: Apache-2.0
 *
 * serve_clicks: POST /v1/clicks: which ads of which requests were clicked. The scores of late requests are kept, so
 * that a click finds its score, and GET /metrics tells whether clicks come as the scores say. At most `rows` scores are
 * kept, those of the latest requests; a click beyond them is counted as unknown, and goes to the log of clicks all the
 * same. */
#include "tools/ctr-serve/serve.h"

#include "common/text/json.h"

#include <stdlib.h>
#include <time.h>

enum { ID_BYTES = 64 };

#define WANTED "wants {\"request\": \"ID\", \"ads\": [PLACE, …]}, or a list of these"

struct kept {
    char id[ID_BYTES];
    int64_t n, clicked;
    double sum;              /* of scores */
    struct serve_shown *row; /* by place */
    bool *is;                /* clicked */
};

struct serve_clicks {
    pthread_mutex_t lock;
    int64_t rows, used; /* scores: at most, now */
    struct kept **ring; /* request number i is at i & (cap - 1) */
    uint64_t first, end, cap;
    struct ctr_index index; /* by id: numbers of requests, some of which are gone */
    int64_t clicks, unknown, repeated;
};

int serve_clicks_new(struct serve_clicks **out, int64_t rows, struct ctr_err *err)
{
    struct serve_clicks *c = *out = calloc(1, sizeof *c);
    if (!c)
        return ctr_fail_nomem(err, sizeof *c);
    c->rows = rows;
    pthread_mutex_init(&c->lock, NULL);
    return 0;
}

/* ---- the requests of late ---- */

static struct kept *at(const struct serve_clicks *c, uint64_t number)
{
    return c->ring[number & (c->cap - 1)];
}

static void drop_first(struct serve_clicks *c)
{
    struct kept *k = at(c, c->first++);
    c->used -= k->n;
    free(k);
}

void serve_clicks_free(struct serve_clicks *c)
{
    if (!c)
        return;
    while (c->first < c->end)
        drop_first(c);
    free(c->ring);
    ctr_index_free(&c->index);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

static uint64_t hash_id(const char *id)
{
    return ctr_hash64(id, strlen(id), ctr_hash_secret);
}

/* Numbers in the index are of 31 bits. NULL: the request is gone. */
static struct kept *of_slot(const struct serve_clicks *c, const struct ctr_index_slot *s)
{
    const uint32_t back = ((uint32_t)c->end - s->number) & INT32_MAX; /* 1: the last one */
    return back && back <= c->end - c->first ? at(c, c->end - back) : NULL;
}

/* The latest request of that id, or NULL. */
static struct kept *find(const struct serve_clicks *c, const char *id)
{
    for (const struct ctr_index_slot *s = ctr_index_find(&c->index, hash_id(id)); s; s = ctr_index_next(&c->index, s)) {
        struct kept *k = of_slot(c, s);
        if (k && !strcmp(k->id, id))
            return k;
    }
    return NULL;
}

/* An id that comes again, or of which the requests are gone, keeps its slot. */
static int set_number(struct serve_clicks *c, const char *id, uint64_t number, struct ctr_err *err)
{
    const uint64_t hash = hash_id(id);
    struct ctr_index_slot *s = c->index.cap ? ctr_index_from(&c->index, ctr_index_home(&c->index, hash), hash) : NULL;
    while (s && s->number != CTR_INDEX_FREE) {
        const struct kept *k = of_slot(c, s);
        if (!k || !strcmp(k->id, id)) {
            s->number = (uint32_t)number & INT32_MAX;
            return 0;
        }
        s = ctr_index_from(&c->index, ctr_index_after(&c->index, s), hash);
    }
    return ctr_index_add(&c->index, hash, (uint32_t)number & INT32_MAX, err);
}

static int widen(struct serve_clicks *c, struct ctr_err *err)
{
    if (c->end - c->first < c->cap)
        return 0;
    const uint64_t cap = c->cap ? 2 * c->cap : 64;
    struct kept **ring = malloc(cap * sizeof(struct kept *));
    if (!ring)
        return ctr_fail_nomem(err, cap * sizeof(struct kept *));
    for (uint64_t i = c->first; i < c->end; i++)
        ring[i & (cap - 1)] = at(c, i);
    free(c->ring);
    c->ring = ring;
    c->cap = cap;
    return 0;
}

/* The index has no way to take one out: once most are gone, it is made anew. */
static int clean_index(struct serve_clicks *c, struct ctr_err *err)
{
    int rc = 0;
    if (c->index.taken < 2 * (int64_t)(c->end - c->first) + 64)
        return 0;
    ctr_index_clear(&c->index);
    for (uint64_t i = c->first; i < c->end && !rc; i++)
        rc = set_number(c, at(c, i)->id, i, err);
    return rc;
}

static struct kept *kept_new(const char *id, const struct serve_shown *row, int64_t n)
{
    struct kept *k = malloc(sizeof *k + (size_t)n * (sizeof *row + sizeof(bool)));
    if (!k)
        return NULL;
    *k = (struct kept){ .n = n };
    k->row = (struct serve_shown *)(void *)(k + 1);
    k->is = (bool *)(k->row + n);
    memcpy(k->row, row, (size_t)n * sizeof *row);
    memset(k->is, 0, (size_t)n * sizeof *k->is);
    memcpy(k->id, id, strlen(id) + 1);
    bool sorted = true;
    for (int64_t i = 0; i < n; i++) {
        k->sum += row[i].score;
        sorted &= !i || row[i - 1].place < row[i].place;
    }
    if (!sorted) /* a ranking */
        qsort(k->row, (size_t)n, sizeof *k->row, ctr_by_i64);
    return k;
}

void serve_clicks_keep(struct serve_clicks *c, const char *id, const struct serve_shown *row, int64_t n)
{
    struct ctr_err err;
    struct kept *k = n && n <= c->rows && strlen(id) < ID_BYTES ? kept_new(id, row, n) : NULL;
    if (!k)
        return;
    pthread_mutex_lock(&c->lock);
    while (c->used + n > c->rows)
        drop_first(c);
    int rc = widen(c, &err);
    if (!rc)
        rc = clean_index(c, &err);
    if (!rc)
        rc = set_number(c, id, c->end, &err);
    if (!rc) {
        c->ring[c->end++ & (c->cap - 1)] = k;
        c->used += n;
    }
    pthread_mutex_unlock(&c->lock);
    if (rc) /* no memory: its clicks will be unknown */
        free(k);
}

/* ---- clicks ---- */

struct counted {
    int64_t joined, unknown, repeated;
};

static void count_click(struct serve_clicks *c, const struct serve_click *click, struct counted *n)
{
    struct kept *k = find(c, click->id);
    const struct serve_shown is = { .place = click->place };
    const struct serve_shown *row = k ? bsearch(&is, k->row, (size_t)k->n, sizeof is, ctr_by_i64) : NULL;
    if (!row) {
        n->unknown++;
    } else if (k->is[row - k->row]) {
        n->repeated++;
    } else {
        k->is[row - k->row] = true;
        k->clicked++;
        n->joined++;
    }
}

static struct counted count_clicks(struct serve_clicks *c, const struct serve_click *click, int64_t n)
{
    struct counted all = { 0 };
    pthread_mutex_lock(&c->lock);
    for (int64_t i = 0; i < n; i++)
        count_click(c, &click[i], &all);
    c->clicks += all.joined;
    c->unknown += all.unknown;
    c->repeated += all.repeated;
    pthread_mutex_unlock(&c->lock);
    return all;
}

void serve_clicks_get(struct serve_clicks *c, struct serve_clicks_state *to)
{
    double sum = 0;
    int64_t clicked = 0;
    pthread_mutex_lock(&c->lock);
    for (uint64_t i = c->first; i < c->end; i++) {
        sum += at(c, i)->sum;
        clicked += at(c, i)->clicked;
    }
    *to = (struct serve_clicks_state){ .clicks = c->clicks,
                                       .unknown = c->unknown,
                                       .repeated = c->repeated,
                                       .ads = c->used,
                                       .score_sum = sum,
                                       .clicked = clicked };
    pthread_mutex_unlock(&c->lock);
}

/* ---- the body ---- */

static int read_place(const struct ctr_json *v, int64_t *place, struct ctr_err *err)
{
    if (v->kind != CTR_JSON_PLAIN || !ctr_parse_i64(v->p, v->n, place) || *place < 0)
        return ctr_fail(err, CTR_EDATA, "'ads' wants places of ads in the request, from 0: '%.*s' is none",
                        (int)CTR_MIN(v->n, (size_t)40), v->p);
    return 0;
}

/* Ids are what X-Request-Id may be. */
static int read_id(const struct ctr_json *v, char id[ID_BYTES], struct ctr_err *err)
{
    if (v->kind != CTR_JSON_STRING || v->escaped || !v->n || v->n >= ID_BYTES || memchr(v->p, 0, v->n))
        return ctr_fail(err, CTR_EDATA, "'request' wants the id of a request, as X-Request-Id of its answer has it");
    memcpy(id, v->p, v->n);
    id[v->n] = 0;
    return 0;
}

/* {"request": "ID", "ads": [PLACE, …]}: the clicks of one request. */
static int read_request(const struct ctr_json *object, int64_t most, struct ctr_buf *clicks, struct ctr_err *err)
{
    const char *p = object->p + 1, *end = object->p + object->n, *why = "";
    struct ctr_json key, v, ads = { 0 };
    struct serve_click click = { 0 };
    bool first = true;
    int more, rc = 0;
    if (object->kind != CTR_JSON_OBJECT)
        return ctr_fail(err, CTR_EDATA, WANTED);
    while (!rc && (more = ctr_json_element(&p, end, '}', &first, &why)) > 0) {
        if (!ctr_json_key(&p, end, &key, &why) || !(p = ctr_json_value(p, end, &v, &why)))
            return ctr_fail(err, CTR_EDATA, "the body is no JSON: %s", why);
        const bool id = key.n == 7 && !memcmp(key.p, "request", 7), list = key.n == 3 && !memcmp(key.p, "ads", 3);
        if ((!id && !list) || (id && *click.id) || (list && ads.kind != CTR_JSON_NONE))
            return ctr_fail(err, CTR_EDATA, "'%.*s' is %s: clicks have request and ads",
                            (int)CTR_MIN(key.n, (size_t)40), key.p, id || list ? "there twice" : "no member");
        if (id)
            rc = read_id(&v, click.id, err);
        else
            ads = v;
    }
    if (!rc && more < 0)
        return ctr_fail(err, CTR_EDATA, "the body is no JSON: %s", why);
    if (!rc && (!*click.id || ads.kind == CTR_JSON_NONE))
        return ctr_fail(err, CTR_EDATA, "'%s' is missing", *click.id ? "ads" : "request");
    if (!rc && ads.kind != CTR_JSON_ARRAY)
        return ctr_fail(err, CTR_EDATA, "'ads' wants a list of places of ads in the request, from 0");
    p = ads.p ? ads.p + 1 : NULL;
    end = ads.p ? ads.p + ads.n : NULL;
    for (first = true; !rc && (more = ctr_json_element(&p, end, ']', &first, &why)) > 0;) {
        if (!(p = ctr_json_value(p, end, &v, &why)))
            return ctr_fail(err, CTR_EDATA, "the body is no JSON: %s", why);
        rc = read_place(&v, &click.place, err);
        if (!rc && clicks->len / sizeof click >= (uint64_t)most)
            rc = ctr_fail(err, CTR_ELARGE, "more than %lld clicks are not taken at once (--max-ads)", (long long)most);
        if (!rc)
            rc = ctr_buf_append(clicks, &click, sizeof click, err);
    }
    return !rc && more < 0 ? ctr_fail(err, CTR_EDATA, "the body is no JSON: %s", why) : rc;
}

int serve_clicks_read(uint8_t *body, size_t n, int64_t most, struct ctr_buf *clicks, struct ctr_err *err)
{
    if (!serve_join_lines(body, n) || !ctr_utf8_valid(body, n))
        return ctr_fail(err, CTR_EDATA, "the body is no JSON, or not UTF-8");
    const char *end = (const char *)body + n, *p = ctr_json_space((const char *)body, end), *why = "";
    struct ctr_json all, one;
    bool first = true;
    int more, rc = 0;
    if (p == end)
        return ctr_fail(err, CTR_EDATA, "the body is empty; it " WANTED);
    if (!(p = ctr_json_value(p, end, &all, &why)) || ctr_json_space(p, end) != end)
        return ctr_fail(err, CTR_EDATA, "the body is no JSON: %s", p ? "something follows the value" : why);
    if (all.kind != CTR_JSON_ARRAY)
        return read_request(&all, most, clicks, err);
    p = all.p + 1;
    end = all.p + all.n;
    while (!rc && (more = ctr_json_element(&p, end, ']', &first, &why)) > 0)
        rc = (p = ctr_json_value(p, end, &one, &why)) ? read_request(&one, most, clicks, err)
                                                      : ctr_fail(err, CTR_EDATA, "the body is no JSON: %s", why);
    return !rc && more < 0 ? ctr_fail(err, CTR_EDATA, "the body is no JSON: %s", why) : rc;
}

void serve_click(struct serve *s, struct ctr_http_request *q)
{
    struct ctr_buf clicks = { 0 };
    struct ctr_err err = { 0 };
    struct timespec now;
    int rc = serve_clicks_read(q->body, (size_t)q->head.body_bytes, s->most_ads, &clicks, &err);
    const struct serve_click *click = (const struct serve_click *)(void *)clicks.data;
    const int64_t n = (int64_t)(clicks.len / sizeof *click);
    clock_gettime(CLOCK_REALTIME, &now);
    if (!rc) {
        const struct counted c = count_clicks(s->clicks, click, n);
        rc = ctr_buf_printf(&q->answer, &err, "{\"joined\":%lld,\"unknown\":%lld,\"repeated\":%lld}\n",
                            (long long)c.joined, (long long)c.unknown, (long long)c.repeated);
        if (n && s->clicks_log)
            serve_log_clicks(s->clicks_log, click, n, (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000);
    }
    ctr_buf_free(&clicks);
    if (rc)
        ctr_http_refuse(q, rc == CTR_ENOMEM ? 503 : rc == CTR_ELARGE ? 413 : 400, "%s", ctr_err_text(&err).s);
}
