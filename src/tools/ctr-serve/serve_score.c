/* SPDX-License-Identifier: Apache-2.0
 *
 * serve_score: POST /v1/score and /v1/rank. The answer has the form of the request: JSON, or a stream with the columns
 * that the pipe of ctr-extract, ctr-predict and ctr-calibrate (and ctr-rank) writes. All of it is made with one
 * generation, whose digests it names.
 */
#include "tools/ctr-serve/serve_prerank.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct scoring {
    struct serve *s;
    struct ctr_http_request *q;
    struct serve_desk *d;
    const struct serve_generation *g;
    struct serve_lane *lane;
    struct ctr_writer *w;
    bool ranks, each; /* each: every batch of a stream is a request */
    int64_t kept;     /* rows of a ranking so far */
    /* Of a ranking of ads: all scores; by place in the request the rank (0: not kept) and the propensity. */
    struct ctr_buf scores, places, chances;
    struct ctr_buf shown; /* struct serve_shown: what clicks may come of */
    int64_t rows, logged;
    double sum;
    int64_t begun_ns, parsed_ns;
    const struct ctr_batch *raw; /* being scored; its rows that have scores: */
    int64_t done;
    struct ctr_part part;
    char id[64];
    int64_t served_ms;
};

/* POST /v1/score with {"user":{…},"ads":[{…},{…}]}, and /v1/rank with the same:
 *
 *     serve_rows_json    two rows of raw columns: user, context and --users repeated, each ad's own
 *     answer so far      {"model":"…","scores":[               {"model":"…","ranked":[
 *     run_lane           serve_lane_run: append_scores         serve_lane_rank: see_scores notes all scores, then
 *                        with each batch: .1,.3                append_ranked gets the kept ads, best first:
 *                                                              {"ad":1,"score":.3,"rank":1},…
 *     log                rows with their scores, at once       after the ranking, which gives ranks and propensities
 *     end                ]}                                    ]}
 *
 * An error anywhere replaces all of the answer (ctr_http_refuse). Streams take the same way with files in memory. */

/* Write the rows that have scores now, the next n of the batch, to the log. */
static int log_rows(struct scoring *x, const double *score, int64_t n, struct ctr_err *err)
{
    const struct serve_logged q = { x->id, x->served_ms, x->d, x->logged, NULL, NULL };
    const struct ctr_batch *b = x->raw;
    int rc = 0;
    if (!x->s->log)
        return 0;
    if (n < b->rows) {
        rc = ctr_batch_part(&x->part, b, x->done, n, err);
        b = &x->part.batch;
    }
    x->done += n;
    x->logged += n;
    return rc ? rc : serve_log_write(x->s->log, x->g, b, score, &q, err);
}

static int show(struct scoring *x, int64_t place, double score, struct ctr_err *err)
{
    const struct serve_shown shown = { place, score };
    return x->s->clicks ? ctr_buf_append(&x->shown, &shown, sizeof shown, err) : 0;
}

/* All scored ads are taken for shown, but in a ranking of ads those that its answer has. */
static int count_scores(struct scoring *x, const double *score, int64_t n, struct ctr_err *err)
{
    const bool all = !x->ranks || x->w;
    int rc = 0;
    for (int64_t i = 0; i < n && !rc; i++) {
        x->sum += score[i];
        rc = all ? show(x, serve_cut_ad(x->d, x->rows + i), score[i], err) : 0;
    }
    x->rows += n;
    return rc;
}

/* Of a ranking: all rows have scores, and some are kept. */
static int see_scores(void *ctx, const struct ctr_batch *b, const double *score, struct ctr_err *err)
{
    struct scoring *x = ctx;
    int rc = x->w ? log_rows(x, score, b->rows, err)
                  : ctr_buf_append(&x->scores, score, (size_t)b->rows * sizeof *score, err);
    return rc ? rc : count_scores(x, score, b->rows, err);
}

/* b NULL: there are no more rows. */
static int run_lane(struct scoring *x, const struct ctr_batch *b, bool last, serve_sink *sink, struct ctr_err *err)
{
    x->raw = b;
    x->done = 0;
    int rc = x->ranks ? serve_lane_rank(x->lane, b, last, see_scores, sink, x, err)
             : b      ? serve_lane_run(x->lane, b, sink, x, err)
                      : 0;
    if (!rc)
        rc = serve_lane_count(x->lane, &x->s->metrics, err);
    if (rc)
        serve_lane_drop(x->d, x->lane);
    return rc;
}

/* ---- JSON ---- */

static int append_scores(void *ctx, const struct ctr_batch *b, const double *score, struct ctr_err *err)
{
    struct scoring *x = ctx;
    struct ctr_buf *out = &x->q->answer;
    int rc = ctr_buf_reserve(out, (size_t)b->rows * (CTR_NUM_MAX + 1), err);
    for (int64_t i = 0; i < b->rows && !rc; i++) {
        if (x->rows + i)
            out->data[out->len++] = ',';
        out->len += ctr_fmt_f64((char *)out->data + out->len, score[i]);
    }
    if (!rc)
        rc = log_rows(x, score, b->rows, err);
    return rc ? rc : count_scores(x, score, b->rows, err);
}

/* The column of that name which the ranking added, behind SERVE_AD; the number of columns: none. */
static int added(const struct ctr_batch *b, const char *name)
{
    int at = ctr_schema_find(b->schema, SERVE_AD) + 1;
    while (at < b->schema->n && strcmp(b->schema->f[at].name, name) != 0)
        at++;
    return at;
}

/* A member of a kept ad: a number that the ranking added, as text. */
static int put_number(struct ctr_buf *out, const struct ctr_batch *b, const char *name, int64_t i, struct ctr_err *err)
{
    const int at = added(b, name);
    if (at == b->schema->n)
        return 0;
    int rc = ctr_buf_printf(out, err, ",\"%s\":", name);
    if (rc)
        return rc;
    return ctr_col_missing(&b->col[at], i) ? ctr_buf_append(out, "null", 4, err)
                                           : ctr_col_text(&b->col[at], i, out, err);
}

static int append_ranked(void *ctx, const struct ctr_batch *b, const double *score, struct ctr_err *err)
{
    static const char *const more[] = { "rank", "ecpm", "explored", "price", "slot_factor", "propensity" };
    struct scoring *x = ctx;
    struct ctr_buf *out = &x->q->answer;
    char text[CTR_NUM_MAX];
    const int ad = ctr_schema_find(b->schema, SERVE_AD);
    int64_t *place = (int64_t *)(void *)x->places.data;
    double *chance = (double *)(void *)x->chances.data;
    const int propensity = added(b, "propensity");
    int rc = 0;
    for (int64_t i = 0; i < b->rows && !rc; i++) {
        const int64_t at = ctr_col_i64(&b->col[ad], i);
        rc = ctr_buf_printf(out, err, "%s{\"ad\":%lld,\"score\":%.*s", x->kept++ ? "," : "", (long long)at,
                            (int)ctr_fmt_f64(text, score[i]), text);
        for (size_t k = 0; k < CTR_COUNT(more) && !rc; k++)
            rc = put_number(out, b, more[k], i, err);
        if (!rc)
            rc = serve_cut_tell_key(x->d, at, out, err);
        if (!rc)
            rc = ctr_buf_append(out, "}", 1, err);
        place[at] = x->kept;
        if (propensity < b->schema->n)
            chance[at] = ctr_col_f64(&b->col[propensity], i);
        if (!rc)
            rc = show(x, at, score[i], err);
    }
    return rc;
}

/* The ads become a ranking, and then rows of the log. */
static int rank_ads(struct scoring *x, struct ctr_err *err)
{
    const struct ctr_batch *b = &x->d->batch;
    int rc = serve_lane_ranks(x->d, x->lane, err);
    if (!rc)
        rc = serve_lane_call(x->lane, x->id, err);
    const int64_t n = serve_cut_places(x->d);
    void *places = ctr_buf_extend(&x->places, n, sizeof(int64_t), &rc, err);
    void *chances = ctr_buf_extend(&x->chances, n, sizeof(double), &rc, err);
    if (!rc) {
        memset(places, 0, (size_t)n * sizeof(int64_t));
        memset(chances, 0, (size_t)n * sizeof(double));
    }
    if (!rc)
        rc = run_lane(x, b, true, append_ranked, err);
    const struct serve_logged q = {
        x->id, x->served_ms, x->d, 0, (const int64_t *)(void *)x->places.data, (const double *)(void *)x->chances.data
    };
    if (!rc && x->s->log)
        rc = serve_log_write(x->s->log, x->g, b, (const double *)(void *)x->scores.data, &q, err);
    return rc;
}

static int score_json(struct scoring *x, struct ctr_err *err)
{
    struct ctr_http_request *q = x->q;
    int rc = serve_rows_json(x->d, q->body, (size_t)q->head.body_bytes, x->s->most_ads, err);
    x->parsed_ns = ctr_clock_ns();
    if (!rc)
        rc = ctr_buf_printf(&q->answer, err, "{\"model\":\"%s\",", x->g->model->digest);
    if (!rc && x->g->map)
        rc = ctr_buf_printf(&q->answer, err, "\"map\":\"%s\",", x->g->map->digest);
    if (!rc && x->ranks && x->g->rank->explore->kind)
        rc = ctr_buf_printf(&q->answer, err, "\"request\":\"%s\",\"seed\":%llu,", x->id,
                            (unsigned long long)x->g->rank->seed);
    if (!rc && !x->ranks)
        rc = serve_cut_tell(x->d, &q->answer, err);
    if (!rc)
        rc = ctr_buf_append(&q->answer, x->ranks ? "\"ranked\":[" : "\"scores\":[", 10, err);
    if (!rc && x->d->batch.rows) {
        rc = serve_lane_common(x->d, &x->lane, err);
        if (!rc)
            rc = x->ranks ? rank_ads(x, err) : run_lane(x, &x->d->batch, true, append_scores, err);
    }
    if (!rc)
        serve_models_remember(x->s->models, q->body, (size_t)q->head.body_bytes);
    return rc ? rc : ctr_buf_append(&q->answer, "]}\n", 3, err);
}

/* ---- a stream ---- */

/* Readers and writers work on files: these have no name and lie in memory. */
static int memory_file(char path[40], struct ctr_err *err)
{
    const int fd = memfd_create("ctr-serve", MFD_CLOEXEC);
    if (fd < 0)
        return ctr_fail_sys(err, "no file in memory");
    snprintf(path, 40, "/dev/fd/%d", fd);
    return fd;
}

static int write_ranked(void *ctx, const struct ctr_batch *b, const double *score, struct ctr_err *err)
{
    (void)score;
    return ctr_writer_batch(((struct scoring *)ctx)->w, b, err);
}

static int write_scores(void *ctx, const struct ctr_batch *b, const double *score, struct ctr_err *err)
{
    struct scoring *x = ctx;
    int rc = log_rows(x, score, b->rows, err);
    if (!rc)
        rc = count_scores(x, score, b->rows, err);
    return rc ? rc : ctr_writer_batch(x->w, b, err);
}

static int score_batches(struct scoring *x, struct ctr_batch_source *rows, struct ctr_out *out, struct ctr_err *err)
{
    const struct ctr_batch *b;
    int64_t n = 0;
    int rc = serve_lane_of(x->d, ctr_batch_source_schema(rows), &x->lane, err);
    x->parsed_ns = ctr_clock_ns();
    if (!rc && x->ranks)
        rc = serve_lane_ranks(x->d, x->lane, err);
    if (!rc && x->ranks)
        rc = serve_lane_call(x->lane, x->id, err);
    if (!rc)
        rc = ctr_writer_open(&x->w, out, x->ranks ? serve_lane_rank_schema(x->lane) : serve_lane_schema(x->lane), NULL,
                             err);
    while (!rc && (rc = ctr_batch_source_next(rows, &b, err)) > 0) {
        n += b->rows;
        rc = n > x->s->most_ads
                 ? ctr_fail(err, CTR_ELARGE, "more than %lld rows are not taken (--max-ads)", (long long)x->s->most_ads)
                 : run_lane(x, b, x->each, x->ranks ? write_ranked : write_scores, err);
    }
    if (!rc)
        rc = run_lane(x, NULL, true, write_ranked, err);
    if (!rc)
        rc = ctr_writer_finish(x->w, err);
    if (rc) /* a ranking may hold rows of this request */
        serve_lane_drop(x->d, x->lane);
    ctr_writer_free(x->w);
    x->w = NULL;
    return rc ? rc : ctr_out_commit(out, err);
}

static int score_source(struct scoring *x, struct ctr_batch_source *rows, struct ctr_err *err)
{
    struct ctr_out *out = NULL;
    struct stat st;
    char path[40];
    const int fd = memory_file(path, err);
    int rc = fd < 0 ? fd : ctr_out_open(&out, path, CTR_OUT_BINARY, err);
    if (!rc)
        rc = score_batches(x, rows, out, err);
    if (!rc && fstat(fd, &st))
        rc = ctr_fail_sys(err, "cannot stat");
    if (!rc && !(rc = ctr_buf_reserve(&x->q->answer, (size_t)st.st_size, err)) &&
        !(rc = ctr_pread_full(fd, x->q->answer.data, (size_t)st.st_size, 0, err)))
        x->q->answer.len = (size_t)st.st_size;
    ctr_out_free(out);
    if (fd >= 0)
        close(fd);
    return rc;
}

/* As for ads in JSON, before the plan says it by its lines. */
static int check_columns(const struct serve_generation *g, const struct ctr_batch_source *rows, struct ctr_err *err)
{
    for (int k = 0; k < g->columns; k++)
        if (ctr_schema_find(ctr_batch_source_schema(rows), g->schema.f[k].name) < 0)
            return serve_fail_missing(g, k, err);
    return 0;
}

static int score_stream(struct scoring *x, struct ctr_err *err)
{
    struct ctr_batch_source rows = { 0 };
    struct ctr_reader *r;
    char path[40], *const paths[] = { path };
    const struct ctr_reader_opts o = { .foreign = true,
                                       .most_rows = x->s->most_ads,
                                       .most_option = "--max-ads",
                                       .most_written = x->s->most_bytes,
                                       .written_option = "--max-body" };
    const int fd = memory_file(path, err);
    int rc = fd < 0 ? fd : ctr_write_full(fd, x->q->body, (size_t)x->q->head.body_bytes, err);
    if (!rc)
        rc = ctr_reader_open(&r, paths, 1, &o, err);
    if (!rc)
        rows = ctr_batch_source_stream(r);
    x->each = x->ranks && !x->g->query.n;
    if (!rc)
        rc = serve_stream_complete(x->d, &rows, x->s->most_ads, x->s->most_bytes, &x->each, err);
    if (!rc)
        rc = check_columns(x->g, &rows, err);
    if (!rc)
        rc = ctr_plan_narrow(x->g->model->plan, &rows, NULL, err);
    if (!rc)
        rc = score_source(x, &rows, err);
    ctr_batch_source_close(&rows);
    if (fd >= 0)
        close(fd);
    if (rc && !strncmp(err->file, "/dev/fd/", 8))
        snprintf(err->file, sizeof err->file, "the body");
    x->q->type = "application/vnd.apache.arrow.stream";
    return rc;
}

/* ---- a request ---- */

static int score(struct scoring *x, struct ctr_err *err)
{
    const char *type = x->q->head.type;
    const bool json = !*type || !strcmp(type, "application/json") || !strcmp(type, "application/x-www-form-urlencoded");
    if (!json && strcmp(type, "application/vnd.apache.arrow.stream") != 0) {
        ctr_http_refuse(x->q, 415, "Content-Type is application/json or application/vnd.apache.arrow.stream");
        return 0;
    }
    struct serve_generation *g = serve_models_hold(x->s->models);
    x->g = g;
    const struct serve_map *map = g->map;
    const struct serve_model *tower = g->tower;
    snprintf(x->q->headers, sizeof x->q->headers, "X-Request-Id: %s\r\nX-Model: %s\r\n%s%s%s%s%s%s", x->id,
             g->model->digest, map ? "X-Map: " : "", map ? map->digest : "", map ? "\r\n" : "",
             tower ? "X-Tower: " : "", tower ? tower->digest : "", tower ? "\r\n" : "");
    int rc = serve_desk_take(g, &x->d, err);
    if (!rc) {
        x->d->no_user = x->d->no_ad = x->d->no_vector = 0;
        rc = json ? score_json(x, err) : score_stream(x, err);
        if (rc)
            serve_model_rename(g->model, err);
        pthread_mutex_lock(&x->s->metrics.lock);
        x->s->metrics.no_user += x->d->no_user;
        x->s->metrics.no_ad += x->d->no_ad;
        x->s->metrics.no_vector += x->d->no_vector;
        pthread_mutex_unlock(&x->s->metrics.lock);
        serve_desk_give(g, x->d);
    }
    serve_generation_release(g);
    return rc;
}

static int status_of(int code)
{
    switch (code) {
    case CTR_EDATA:
    case CTR_EUSAGE:
    case CTR_EKIND: return 400;
    case CTR_ELARGE: return 413;
    case CTR_ENOMEM: return 503;
    default: return 500;
    }
}

/* The id of the request is the client's, or one that no other request has. */
static void identify(struct scoring *x)
{
    struct timespec now;
    if (*x->q->head.request_id)
        memcpy(x->id, x->q->head.request_id, sizeof x->id);
    else
        snprintf(x->id, sizeof x->id, "%016llx%08llx", (unsigned long long)x->s->series,
                 (unsigned long long)atomic_fetch_add(&x->s->requests, 1));
    clock_gettime(CLOCK_REALTIME, &now);
    x->served_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void serve_score(struct serve *s, struct ctr_http_request *q)
{
    struct scoring x = { .s = s, .q = q, .ranks = !strcmp(q->head.path, "/v1/rank"), .begun_ns = ctr_clock_ns() };
    int64_t ns[SERVE_STAGES] = { x.begun_ns - q->arrived_ns, -1, -1, -1 };
    struct ctr_err err = { 0 };
    if (serve_too_late(s, q)) {
        serve_metrics_request(&s->metrics, ns, 0, 0);
        return;
    }
    identify(&x);
    const int rc = score(&x, &err);
    ctr_part_free(&x.part);
    ctr_buf_free(&x.scores);
    ctr_buf_free(&x.places);
    ctr_buf_free(&x.chances);
    if (!rc && s->clicks)
        serve_clicks_keep(s->clicks, x.id, (const struct serve_shown *)(void *)x.shown.data,
                          (int64_t)(x.shown.len / sizeof(struct serve_shown)));
    ctr_buf_free(&x.shown);
    const int64_t end_ns = ctr_clock_ns();
    if (rc) {
        ctr_http_refuse(q, status_of(rc), "%s", ctr_err_reason(&err).s);
    } else if (x.parsed_ns) {
        ns[SERVE_PARSE] = x.parsed_ns - x.begun_ns;
        ns[SERVE_SCORE] = end_ns - x.parsed_ns;
        ns[SERVE_TOTAL] = end_ns - q->arrived_ns;
    }
    serve_metrics_request(&s->metrics, ns, rc ? 0 : x.rows, rc ? 0 : x.sum);
}
