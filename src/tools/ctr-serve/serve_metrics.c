/* SPDX-License-Identifier: Apache-2.0
 *
 * serve_metrics: counts of what was served, as text for Prometheus. A request adds to them once, at its end. */
#include "tools/ctr-serve/serve.h"

#include <math.h>
#include <stdlib.h>

static const int codes[] = { 200, 400, 404, 405, 408, 411, 413, 414, 415, 431, 500, 503, 504, 505 };
static const double bounds[SERVE_BUCKETS] = { .0001, .00025, .0005, .001, .0025, .005, .01,
                                              .025,  .05,    .1,    .25,  .5,    1,    2.5 };
static const char *const stages[SERVE_STAGES] = { "wait", "parse", "score", "total" };

void serve_metrics_code(struct serve_metrics *m, int status)
{
    size_t i = 0;
    while (i + 1 < CTR_COUNT(codes) && codes[i] != status)
        i++;
    pthread_mutex_lock(&m->lock);
    m->code[i]++;
    pthread_mutex_unlock(&m->lock);
}

void serve_metrics_request(struct serve_metrics *m, const int64_t ns[SERVE_STAGES], int64_t scores, double sum)
{
    pthread_mutex_lock(&m->lock);
    for (int s = 0; s < SERVE_STAGES; s++) {
        const double seconds = (double)ns[s] * 1e-9;
        int b = 0;
        if (ns[s] < 0)
            continue;
        while (b < SERVE_BUCKETS && seconds > bounds[b])
            b++;
        m->bucket[s][b]++;
        m->count[s]++;
        m->seconds[s] += seconds;
    }
    m->scored += scores;
    m->score_sum += sum;
    pthread_mutex_unlock(&m->lock);
}

int serve_metrics_table(struct serve_metrics *m, const char *name, int64_t keys, int64_t unknown, struct ctr_err *err)
{
    int i = 0, rc = 0;
    pthread_mutex_lock(&m->lock);
    while (i < m->tables && strcmp(m->table[i].name, name) != 0)
        i++;
    if (i == m->tables && !(rc = ctr_array_grow(&m->table, i, &m->cap, sizeof *m->table, err))) {
        m->table[i] = (struct serve_table){ 0 };
        rc = ctr_strdup(&m->table[i].name, name, err);
        m->tables += !rc;
    }
    if (!rc) {
        m->table[i].keys += keys;
        m->table[i].unknown += unknown;
    }
    pthread_mutex_unlock(&m->lock);
    return rc;
}

void serve_metrics_free(struct serve_metrics *m)
{
    for (int i = 0; i < m->tables; i++)
        free(m->table[i].name);
    free(m->table);
    m->table = NULL;
    m->tables = 0;
}

/* ---- text ---- */

struct metric {
    const char *name, *kind, *help;
    double value; /* NaN: there is none */
};

static void put_metrics(struct ctr_say *out, const struct metric *m, size_t n)
{
    char text[CTR_NUM_MAX];
    for (size_t i = 0; i < n; i++) {
        const int digits = (int)ctr_fmt_f64(text, m[i].value);
        if (!isnan(m[i].value))
            ctr_say(out, "# HELP %s %s\n# TYPE %s %s\n%s %.*s\n", m[i].name, m[i].help, m[i].name, m[i].kind, m[i].name,
                    digits, text);
    }
}

static void histogram(struct ctr_say *out, const struct serve_metrics *m, int s)
{
    int64_t sum = 0;
    for (int b = 0; b <= SERVE_BUCKETS; b++) {
        char text[CTR_NUM_MAX + 1] = "+Inf";
        if (b < SERVE_BUCKETS)
            text[ctr_fmt_f64(text, bounds[b])] = 0;
        sum += m->bucket[s][b];
        ctr_say(out, "ctr_serve_seconds_bucket{stage=\"%s\",le=\"%s\"} %lld\n", stages[s], text, (long long)sum);
    }
    ctr_say(out, "ctr_serve_seconds_sum{stage=\"%s\"} %.9f\nctr_serve_seconds_count{stage=\"%s\"} %lld\n", stages[s],
            m->seconds[s], stages[s], (long long)m->count[s]);
}

/* A label's value: backslash, quote and newline are escaped. */
static void label(struct ctr_say *out, const char *text)
{
    for (; *text; text++)
        if (*text == '\n')
            ctr_say(out, "\\n");
        else
            ctr_say(out, "%s%c", *text == '"' || *text == '\\' ? "\\" : "", *text);
}

static void tables_text(struct ctr_say *out, const struct serve_metrics *m, bool unknown)
{
    const char *name = unknown ? "ctr_serve_unknown_keys_total" : "ctr_serve_keys_total";
    ctr_say(out, "# HELP %s Keys of scored rows%s, by table.\n# TYPE %s counter\n", name,
            unknown ? " that the model does not hold" : "", name);
    for (int i = 0; i < m->tables; i++) {
        ctr_say(out, "%s{table=\"", name);
        label(out, m->table[i].name);
        ctr_say(out, "\"} %lld\n", (long long)(unknown ? m->table[i].unknown : m->table[i].keys));
    }
}

static void counts_text(struct ctr_say *out, const struct serve_metrics *m)
{
    ctr_say(out, "# HELP ctr_serve_requests_total Answers, by status.\n"
                 "# TYPE ctr_serve_requests_total counter\n");
    for (size_t i = 0; i < CTR_COUNT(codes); i++)
        if (m->code[i] || codes[i] == 200)
            ctr_say(out, "ctr_serve_requests_total{code=\"%d\"} %lld\n", codes[i], (long long)m->code[i]);
    ctr_say(out, "# HELP ctr_serve_seconds Time of a scoring request, by stage.\n"
                 "# TYPE ctr_serve_seconds histogram\n");
    for (int s = 0; s < SERVE_STAGES; s++)
        histogram(out, m, s);
    const struct metric counts[] = {
        { "ctr_serve_ads_total", "counter", "Ads scored.", (double)m->scored },
        { "ctr_serve_score_sum", "counter", "Sum of all scores.", m->score_sum },
        { "ctr_serve_loads_total", "counter", "Models, maps and files taken.", (double)m->loads },
        { "ctr_serve_bad_loads_total", "counter", "Models, maps and files refused.", (double)m->bad_loads },
        { "ctr_serve_unknown_users_total", "counter", "Keys that --users does not have.", (double)m->no_user },
        { "ctr_serve_unknown_ads_total", "counter", "Keys that --ads does not have.", (double)m->no_ad },
        { "ctr_serve_unknown_vectors_total", "counter", "Ads that --vectors does not have.", (double)m->no_vector },
        { "ctr_serve_images_total", "counter", "Photographs taken.", (double)m->images },
        { "ctr_serve_bad_images_total", "counter", "Photographs refused.", (double)m->bad_images },
    };
    put_metrics(out, counts, CTR_COUNT(counts));
    tables_text(out, m, false);
    tables_text(out, m, true);
}

/* Do clicks come as the scores say? Of the requests that are kept. */
static void clicks_text(struct serve *s, struct ctr_say *out)
{
    struct serve_clicks_state c;
    serve_clicks_get(s->clicks, &c);
    const struct metric m[] = {
        { "ctr_serve_clicks_total", "counter", "Clicks on ads whose scores were kept.", (double)c.clicks },
        { "ctr_serve_clicks_unknown_total", "counter", "Clicks on requests or ads that are not kept.",
          (double)c.unknown },
        { "ctr_serve_clicks_repeated_total", "counter", "Clicks on ads that had one already.", (double)c.repeated },
        { "ctr_serve_kept_ads", "gauge", "Ads whose scores are kept for clicks.", (double)c.ads },
        { "ctr_serve_kept_clicks", "gauge", "Of these, those with a click.", (double)c.clicked },
        { "ctr_serve_mean_score", "gauge", "Mean of the scores that are kept.",
          c.ads ? c.score_sum / (double)c.ads : NAN },
        { "ctr_serve_calibration_ratio", "gauge", "Clicks over the sum of scores, of the ads that are kept.",
          c.clicks && c.score_sum > 0 ? (double)c.clicked / c.score_sum : NAN },
    };
    put_metrics(out, m, CTR_COUNT(m));
}

static void state_text(struct serve *s, struct ctr_say *out)
{
    const struct ctr_http_stats http = ctr_http_stats(s->http);
    struct serve_generation *g = serve_models_hold(s->models);
    pthread_mutex_lock(&s->lock);
    const double queue = (double)s->under_way;
    pthread_mutex_unlock(&s->lock);
    const struct metric state[] = {
        { "ctr_serve_under_way", "gauge", "Scoring requests that wait or are at work.", queue },
        { "ctr_serve_connections", "gauge", "Open connections.", (double)http.connections },
        { "ctr_serve_connections_refused_total", "counter", "Connections beyond --connections.", (double)http.refused },
        { "ctr_serve_slow_total", "counter", "Connections cut off for slowness.", (double)http.cut },
        { "ctr_serve_held_bytes", "gauge", "Memory of requests and answers under way.", (double)http.held_bytes },
        { "ctr_serve_log_lost_total", "counter", "Rows that --log could not write.",
          s->log ? (double)serve_log_lost(s->log) : NAN },
        { "ctr_serve_clicks_log_lost_total", "counter", "Clicks that --clicks-log could not write.",
          s->clicks_log ? (double)serve_log_lost(s->clicks_log) : NAN },
    };
    const struct metric age = { "ctr_serve_model_age_seconds", "gauge", "Time since the model or map was taken.",
                                (double)(ctr_clock_ms() - g->loaded_ms) / 1000 };
    put_metrics(out, state, CTR_COUNT(state));
    if (s->clicks)
        clicks_text(s, out);
    put_metrics(out, &age, 1);
    ctr_say(out,
            "# HELP ctr_serve_model_info The model and map of now.\n"
            "# TYPE ctr_serve_model_info gauge\n"
            "ctr_serve_model_info{model=\"%s\",map=\"%s\"} 1\n",
            g->model->digest, g->map ? g->map->digest : "");
    serve_generation_release(g);
}

int serve_metrics_text(struct serve *s, struct ctr_buf *to, struct ctr_err *err)
{
    struct ctr_say out = { to, err, 0 };
    pthread_mutex_lock(&s->metrics.lock);
    counts_text(&out, &s->metrics);
    pthread_mutex_unlock(&s->metrics.lock);
    state_text(s, &out);
    return out.rc;
}
