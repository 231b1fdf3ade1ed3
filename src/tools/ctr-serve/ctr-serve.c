/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-serve: scores over HTTP. Options and wiring; serve.h says which file does what. */
#include "common/cli/cli.h"
#include "tools/ctr-serve/serve_images.h"
#include "tools/ctr-serve/serve_prerank.h"

#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>

static struct {
    const char *listen, *map, *users, *ads, *images, *key_seed, *log, *bid, *order, *floor, *price, *clicks_log;
    const char *tower, *vectors, *inbox, *weights;
    int64_t top, prerank_top;
    int64_t log_every_ms, log_bytes;
    int64_t clicks;
    struct ctr_rank_slots slots;
    struct ctr_rank_exploring explore;
    int64_t threads, queue, deadline_ms, max_body, max_header, max_ads, connections, request_ms, idle_ms, grace_ms;
    bool check;
} o = { .listen = "127.0.0.1:8080",
        .queue = 64,
        .max_body = 16 << 20,
        .max_header = 16 << 10,
        .max_ads = 10000,
        .connections = 10000,
        .request_ms = 10000,
        .idle_ms = 60000,
        .grace_ms = 30000,
        .prerank_top = 400,
        .log_every_ms = 3600000,
        .log_bytes = (int64_t)1 << 30 };

static const struct ctr_opt opts[] = {
    { "listen", 'l', CTR_OPT_STR, "ADDR:PORT|unix:PATH", "where to listen (default 127.0.0.1:8080; port 0: any)",
      &o.listen, CTR_OPT_LOCAL | CTR_OPT_BASIC },
    { "map", 'm', CTR_OPT_STR, "MAP", "calibrate scores by a map of ctr-calibrate", &o.map,
      CTR_OPT_PATH | CTR_OPT_BASIC },
    { "users", 0, CTR_OPT_STR, "FILE", "take columns that a request leaves out from a keyed file of users", &o.users,
      CTR_OPT_PATH | CTR_OPT_BASIC },
    { "ads", 0, CTR_OPT_STR, "FILE", "take columns that a request leaves out from a keyed file of ads", &o.ads,
      CTR_OPT_PATH | CTR_OPT_BASIC },
    { "images", 0, CTR_OPT_STR, "FILE", "dicm, two-tower: take image vectors by key from FILE", &o.images,
      CTR_OPT_PATH | CTR_OPT_BASIC },
    { "image-inbox", 0, CTR_OPT_STR, "DIR", "take photographs by PUT /v1/images/KEY, and keep their vectors in DIR",
      &o.inbox, CTR_OPT_PATH, .needs = "images" },
    { "image-weights", 0, CTR_OPT_STR, "FILE", "weights of VGG16, by which the vectors of --images were made",
      &o.weights, CTR_OPT_PATH, .needs = "image-inbox" },
    { "prerank", 0, CTR_OPT_STR, "TOWER",
      "two-tower: of many ads, or where a request has none, take the best by this model", &o.tower,
      CTR_OPT_PATH | CTR_OPT_BASIC, .needs = "vectors" },
    { "vectors", 0, CTR_OPT_STR, "FILE", "vectors of all ads, by key (ctr-predict --tower ad TOWER)", &o.vectors,
      CTR_OPT_PATH | CTR_OPT_BASIC, .needs = "prerank" },
    { "prerank-top", 0, CTR_OPT_INT, "K", "how many ads --prerank takes (default 400)", &o.prerank_top, CTR_OPT_SOME,
      .needs = "prerank" },
    { "key-seed", 0, CTR_OPT_STR, "FILE", "hash keys with the secret in FILE", &o.key_seed, CTR_OPT_PATH },
    { "bid", 0, CTR_OPT_STR, "COL", "/v1/rank: bids a click, which order by ecpm = bid x score", &o.bid,
      CTR_OPT_BASIC },
    { "order", 0, CTR_OPT_STR, "EXPR", "/v1/rank: order by this, the largest first (default: score, or bid x score)",
      &o.order, 0 },
    { "floor", 0, CTR_OPT_STR, "EXPR", "/v1/rank: leave out ads whose ecpm (or score, or --order) is below this",
      &o.floor, 0 },
    { "top", 0, CTR_OPT_INT, "K", "/v1/rank: keep the K best ads (default: all)", &o.top,
      CTR_OPT_SOME | CTR_OPT_BASIC },
    { "price", 0, CTR_OPT_CHOICE, "first|second", "/v1/rank: what a click costs: the bid, or the second price",
      &o.price, 0, .needs = "bid" },
    { "slots", 0, CTR_OPT_READ, "N|F,F,…", "/v1/rank: slots that are shown, or the position factor of each, at most 1",
      &o.slots, 0, .read = ctr_rank_read_slots },
    { "explore", 0, CTR_OPT_READ, "ucb=C|thompson|epsilon=E",
      "/v1/rank: explore by uncertainty or at random, and tell the propensity", &o.explore, 0,
      .read = ctr_rank_read_explore },
    { "log", 0, CTR_OPT_STR, "FILE", "write what is asked and answered to numbered files, or to a pipe", &o.log,
      CTR_OPT_PATH | CTR_OPT_BASIC },
    { "log-every", 0, CTR_OPT_DURATION, "TIME", "end a file of --log after TIME (default 1h)", &o.log_every_ms,
      CTR_OPT_LOCAL, .needs = "log" },
    { "log-size", 0, CTR_OPT_SIZE, "SIZE", "end a file of --log at SIZE (default 1G)", &o.log_bytes, CTR_OPT_LOCAL,
      .needs = "log" },
    { "clicks", 0, CTR_OPT_INT, "N", "/v1/clicks: keep the scores of the last N ads for clicks (default 0: no clicks)",
      &o.clicks, CTR_OPT_LOCAL },
    { "clicks-log", 0, CTR_OPT_STR, "FILE", "write clicks to numbered files, or to a pipe, as --log does",
      &o.clicks_log, CTR_OPT_PATH, .needs = "clicks" },
    { "threads", 0, CTR_OPT_INT, "N", "score on N threads (default 0: one a processor)", &o.threads,
      CTR_OPT_LOCAL | CTR_OPT_BASIC },
    { "queue", 0, CTR_OPT_INT, "N", "let N requests wait for a thread, refuse the next one (default 64)", &o.queue,
      CTR_OPT_LOCAL | CTR_OPT_BASIC },
    { "deadline", 0, CTR_OPT_DURATION, "TIME", "refuse a request that has waited longer (default 0: never)",
      &o.deadline_ms, CTR_OPT_LOCAL | CTR_OPT_BASIC },
    { "max-ads", 0, CTR_OPT_INT, "N", "most ads of a request (default 10000)", &o.max_ads,
      CTR_OPT_LOCAL | CTR_OPT_SOME | CTR_OPT_BASIC },
    { "max-body", 0, CTR_OPT_SIZE, "SIZE", "most bytes of a request's body (default 16M)", &o.max_body, CTR_OPT_LOCAL },
    { "max-header", 0, CTR_OPT_SIZE, "SIZE", "most bytes of a request's header (default 16K)", &o.max_header,
      CTR_OPT_LOCAL },
    { "connections", 0, CTR_OPT_INT, "N", "most open connections (default 10000)", &o.connections,
      CTR_OPT_LOCAL | CTR_OPT_SOME | CTR_OPT_BASIC },
    { "request-time", 0, CTR_OPT_DURATION, "TIME",
      "cut off clients that take longer to send a request or read its answer (default 10s)", &o.request_ms,
      CTR_OPT_LOCAL },
    { "idle-time", 0, CTR_OPT_DURATION, "TIME", "close connections without a request for TIME (default 60s)",
      &o.idle_ms, CTR_OPT_LOCAL },
    { "grace", 0, CTR_OPT_DURATION, "TIME", "at SIGTERM, answer what was accepted for at most TIME (default 30s)",
      &o.grace_ms, CTR_OPT_LOCAL },
    { "check", 0, CTR_OPT_FLAG, NULL, "load and verify all files, print their ids, and end", &o.check,
      CTR_OPT_LOCAL | CTR_OPT_BASIC },
    { 0 },
};

static struct ctr_http *signalled;

static void on_signal(int sig)
{
    (void)sig;
    ctr_http_stop(signalled);
}

struct server {
    struct ctr_cli *cli;
    struct serve s;
};

static void note(void *ctx, const char *text)
{
    ctr_cli_note(((struct server *)ctx)->cli, "%s", text);
}

static void warn(void *ctx, const char *text)
{
    ctr_cli_warn(((struct server *)ctx)->cli, "%s", text);
}

static void look(void *ctx)
{
    struct serve *s = &((struct server *)ctx)->s;
    if (s->log)
        serve_log_look(s->log);
    if (s->clicks_log)
        serve_log_look(s->clicks_log);
}

/* The order of a start:
 *
 *     serve_inbox_open     --image-inbox: before models, whose tables it fills
 *     serve_models_open    the first generation; a file that does not fit ends the server here
 *     open_logs            their columns depend on the model's plan
 *     ctr_http_open        listens, but no connection is accepted until the loop runs
 *     queue, inbox, watch  threads start; ctr_http_run is the loop of this thread until SIGTERM
 *
 * The loop calls on_request for each request: `routes` says whether it is answered at once (GET /metrics) or given to
 * the queue (POST /v1/score, whose thread calls serve_score). Either ends with ctr_http_done, refusals too. */

/* ---- requests that need no model ---- */

static void answer_text(struct ctr_http_request *q, const char *text)
{
    struct ctr_err err;
    q->type = "text/plain; charset=utf-8";
    if (ctr_buf_append(&q->answer, text, strlen(text), &err))
        ctr_http_refuse(q, 500, "%s", err.what);
}

static void get_health(struct serve *s, struct ctr_http_request *q)
{
    (void)s;
    answer_text(q, "ok\n");
}

static void get_ready(struct serve *s, struct ctr_http_request *q)
{
    if (ctr_http_stopping(s->http))
        ctr_http_refuse(q, 503, "stopping");
    else
        answer_text(q, "ready\n");
}

static void get_metrics(struct serve *s, struct ctr_http_request *q)
{
    struct ctr_err err;
    q->type = "text/plain; version=0.0.4; charset=utf-8";
    if (serve_metrics_text(s, &q->answer, &err))
        ctr_http_refuse(q, 500, "%s", err.what);
}

/* handle NULL: the queue's threads do it. */
static const struct route {
    const char *path;
    enum ctr_http_method method;
    void (*handle)(struct serve *s, struct ctr_http_request *q);
} routes[] = {
    { "/v1/score", CTR_HTTP_POST, NULL },   { "/v1/rank", CTR_HTTP_POST, NULL },
    { "/v1/clicks", CTR_HTTP_POST, NULL },  { "/healthz", CTR_HTTP_GET, get_health },
    { "/readyz", CTR_HTTP_GET, get_ready }, { "/metrics", CTR_HTTP_GET, get_metrics },
};

/* A photograph; false: the path is another one. */
static bool put_image(struct serve *s, struct ctr_http_request *q)
{
    char key[SERVE_KEY_BYTES];
    if (strncmp(q->head.path, SERVE_IMAGES, strlen(SERVE_IMAGES)) != 0)
        return false;
    const char *why = serve_image_key(q->head.path, key);
    if (!s->inbox)
        ctr_http_refuse(q, 404, "photographs are not taken here (--image-inbox)");
    else if (q->head.method != CTR_HTTP_PUT)
        ctr_http_refuse(q, 405, SERVE_IMAGES "KEY wants PUT");
    else if (why)
        ctr_http_refuse(q, 400, "%s", why);
    else if (serve_inbox_add(s->inbox, q))
        return true;
    else
        ctr_http_refuse(q, 503, "too many photographs wait already");
    ctr_http_done(s->http, q);
    return true;
}

static void on_request(void *ctx, struct ctr_http_request *q)
{
    struct serve *s = ctx;
    if (put_image(s, q))
        return;
    const enum ctr_http_method method = q->head.method == CTR_HTTP_HEAD ? CTR_HTTP_GET : q->head.method;
    const struct route *r = NULL;
    for (size_t i = 0; !r && i < CTR_COUNT(routes); i++)
        r = strcmp(routes[i].path, q->head.path) ? NULL : &routes[i];
    if (!r)
        ctr_http_refuse(q, 404, "there is no %s here: /v1/score, /v1/rank, /v1/clicks, /healthz, /readyz, /metrics",
                        q->head.path);
    else if (r->method != method)
        ctr_http_refuse(q, 405, "%s wants %s", r->path, r->method == CTR_HTTP_POST ? "POST" : "GET");
    else if (!s->clicks && !strcmp(r->path, "/v1/clicks"))
        ctr_http_refuse(q, 404, "no scores are kept for clicks (--clicks)");
    else if (r->handle)
        r->handle(s, q);
    else if (serve_queue_add(s, q))
        return;
    else
        ctr_http_refuse(q, 503, "%lld requests wait already (--queue)", (long long)s->queue);
    ctr_http_done(s->http, q);
}

static void on_answer(void *ctx, const struct ctr_http_request *q)
{
    struct serve *s = ctx;
    serve_metrics_code(&s->metrics, q->status);
}

/* ---- the tool ---- */

static int check_options(struct ctr_cli *cli, struct ctr_err *err)
{
    struct stat st;
    if (o.threads > 256)
        return ctr_cli_usage(err, "--threads wants 0 to 256");
    if (o.request_ms < 1 || o.idle_ms < 1)
        return ctr_cli_usage(err, "--request-time and --idle-time want more than 0");
    if (o.connections > 1000000)
        return ctr_cli_usage(err, "--connections wants at most 1000000");
    if (o.inbox && !o.weights)
        return ctr_cli_usage(err, "--image-inbox needs --image-weights: ctr-embed-images(1) says where they come from");
    if (o.prerank_top > 1000000)
        return ctr_cli_usage(err, "--prerank-top wants at most 1000000");
    const char *const files[] = { cli->args[0], o.map, o.users, o.ads, o.images, o.key_seed, o.tower, o.vectors };
    for (size_t i = 0; i < CTR_COUNT(files); i++)
        if (files[i] && !ctr_cli_reopens(files[i]))
            return ctr_cli_usage(err, "%s: %s", files[i],
                                 !stat(files[i], &st) && S_ISDIR(st.st_mode)
                                     ? "is a directory"
                                     : "a server looks at its files again, and a pipe can be read once");
    int rc = 0;
    for (size_t i = 0; i < CTR_COUNT(files) && !rc; i++) {
        if (!files[i])
            continue;
        rc = ctr_cli_read(cli, files[i], err);
        if (!rc)
            ctr_input_identity_release(files[i]); /* it may be replaced, which serve_model.c looks for */
    }
    return rc;
}

static int print_check(struct ctr_cli *cli, struct serve *s, struct ctr_err *err)
{
    struct serve_generation *g = serve_models_hold(s->models);
    struct ctr_out *out = NULL;
    char type[64];
    int rc = ctr_cli_out(cli, 0, &out, err);
    if (!rc)
        rc = ctr_out_printf(out, err, "model\t%s\n", g->model->digest);
    if (!rc && g->map)
        rc = ctr_out_printf(out, err, "map\t%s\n", g->map->digest);
    if (!rc && g->tower)
        rc = ctr_out_printf(out, err, "tower\t%s\n", g->tower->digest);
    for (int i = 0; i < g->schema.n && !rc; i++)
        if (i < g->columns || serve_prerank_reads(g, i))
            rc = ctr_out_printf(out, err, "column\t%s\t%s\t%s\n", g->schema.f[i].name,
                                ctr_field_type_name(&g->schema.f[i], type, sizeof type),
                                serve_prerank_gives(g, i) ? "prerank"
                                : g->from_users[i] >= 0   ? "users"
                                : g->from_ads[i] >= 0     ? "ads"
                                                          : "request");
    if (!rc)
        rc = ctr_out_commit(out, err);
    ctr_out_free(out);
    serve_generation_release(g);
    return rc;
}

static int listen_and_serve(struct ctr_cli *cli, struct serve *s, struct ctr_err *err)
{
    struct ctr_http_opts ho = { .listen = o.listen,
                                .header_bytes = o.max_header,
                                .body_bytes = o.max_body,
                                .memory_bytes = cli->memory_bytes ? cli->memory_bytes : (int64_t)1 << 30,
                                .connections = o.connections,
                                .fewer = !ctr_cli_given(cli, "connections"),
                                .request_ms = o.request_ms,
                                .idle_ms = o.idle_ms,
                                .grace_ms = o.grace_ms,
                                .request = on_request,
                                .answered = on_answer,
                                .ctx = s };
    const struct sigaction sa = { .sa_handler = on_signal };
    int rc = ctr_http_open(&s->http, &ho, err);
    if (rc)
        return rc;
    signalled = s->http;
    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGINT, &sa, NULL);
    signal(SIGPIPE, SIG_IGN); /* a reader of the log that ends is no end of the server */
    rc = serve_queue_start(s, err);
    if (!rc && s->inbox)
        rc = serve_inbox_start(s->inbox, s, err);
    if (!rc)
        rc = serve_models_watch(s->models, err);
    if (!rc) {
        ctr_cli_note(cli, "listens at %s", ctr_http_name(s->http));
        rc = ctr_http_run(s->http, err);
    }
    serve_queue_stop(s);
    serve_inbox_stop(s->inbox);
    return rc;
}

static int open_one_log(struct ctr_cli *cli, struct server *v, const char *path, bool clicks, struct serve_log **log,
                        const struct serve_generation *g, struct ctr_err *err)
{
    const struct serve_log_opts lo = { .path = path,
                                       .every_ms = o.log_every_ms,
                                       .check = o.check,
                                       .bytes = o.log_bytes,
                                       .option = clicks ? "--clicks-log" : "--log",
                                       .clicks = clicks,
                                       .warn = warn,
                                       .ctx = v };
    int rc = ctr_names_stdout(path) ? 0 : ctr_cli_written(cli, path, err);
    return rc ? rc : serve_log_open(log, &lo, g, err);
}

/* The log, whose columns must be other ones than the plan's; and that of clicks. */
static int open_logs(struct ctr_cli *cli, struct server *v, struct ctr_err *err)
{
    struct serve_generation *g = serve_models_hold(v->s.models);
    struct ctr_schema s = { 0 };
    int rc = o.log ? serve_log_schema(g, &s, err) : 0;
    ctr_schema_free(&s);
    if (!rc && o.log && o.clicks_log && !strcmp(o.log, o.clicks_log))
        rc = ctr_cli_usage(err, "--log and --clicks-log name one file");
    if (!rc && o.log)
        rc = open_one_log(cli, v, o.log, false, &v->s.log, g, err);
    if (!rc && o.clicks_log)
        rc = open_one_log(cli, v, o.clicks_log, true, &v->s.clicks_log, g, err);
    serve_generation_release(g);
    return rc;
}

static int serve(struct ctr_cli *cli, struct server *v, struct ctr_err *err)
{
    struct serve *s = &v->s;
    s->threads = (int)(o.threads ? o.threads : CTR_MIN(ctr_cpu_count(), 256));
    const enum ctr_rank_price price = !o.price ? CTR_PRICE_NONE : *o.price == 'f' ? CTR_PRICE_FIRST : CTR_PRICE_SECOND;
    const struct serve_inbox_opts io = { o.inbox, o.weights, o.check };
    struct serve_models_opts mo = {
        .files = { cli->args[0], o.map, o.users, o.ads, o.images, o.key_seed, o.tower, o.vectors, o.prerank_top,
                   .uncertainty = o.explore.kind == CTR_EXPLORE_UCB || o.explore.kind == CTR_EXPLORE_THOMPSON },
        .rank = { o.bid, o.order, o.floor, price, o.top, &o.slots, &o.explore, cli->seed },
        .threads = s->threads,
        .metrics = &s->metrics,
        .note = note,
        .warn = warn,
        .look = look,
        .ctx = v
    };
    if (getrandom(&s->series, sizeof s->series, 0) != sizeof s->series)
        return ctr_fail_sys(err, "no random number");
    int rc = o.inbox ? serve_inbox_open(&s->inbox, &io, err) : 0;
    mo.files.inbox = s->inbox;
    if (!rc)
        rc = serve_models_open(&s->models, &mo, err);
    if (!rc)
        rc = open_logs(cli, v, err);
    if (!rc && o.clicks)
        rc = serve_clicks_new(&s->clicks, o.clicks, err);
    if (!rc)
        rc = o.check ? print_check(cli, s, err) : listen_and_serve(cli, s, err);
    serve_models_free(s->models);
    serve_inbox_free(s->inbox);
    serve_log_close(s->log);
    serve_log_free(s->log);
    serve_log_close(s->clicks_log);
    serve_log_free(s->clicks_log);
    serve_clicks_free(s->clicks);
    ctr_http_free(s->http);
    serve_metrics_free(&s->metrics);
    return rc;
}

static int run(struct ctr_cli *cli, struct ctr_err *err)
{
    struct server v = { .cli = cli,
                        .s = { .deadline_ms = o.deadline_ms,
                               .most_ads = o.max_ads,
                               .most_bytes = o.max_body,
                               .queue = o.queue,
                               .metrics.lock = PTHREAD_MUTEX_INITIALIZER,
                               .lock = PTHREAD_MUTEX_INITIALIZER,
                               .some = PTHREAD_COND_INITIALIZER } };
    int rc = ctr_cli_args(cli, 1, 1, err);
    if (!rc)
        rc = check_options(cli, err);
    return rc ? rc : serve(cli, &v, err);
}

const struct ctr_tool ctr_tool = {
    .name = "ctr-serve",
    .summary = "answer requests for scores and rankings over HTTP",
    .synopsis = "MODEL\n--check MODEL",
    .opts = opts,
    .flags = CTR_TOOL_MEMORY | CTR_TOOL_SEED,
    .run = run,
};
