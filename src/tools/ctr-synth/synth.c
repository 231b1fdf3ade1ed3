/* SPDX-License-Identifier: Apache-2.0
 *
 * synth: the synthetic world. Streams of random numbers are numbered by enum draw, so that adding one changes no
 * other. */
#include "tools/ctr-synth/synth.h"
#include "tools/ctr-synth/synth_photos.h"

#include <stdio.h>
#include <stdlib.h>

enum { CATEGORIES = 20, CITIES = 200, OSES = 4, POSITIONS = 4, AGE_BANDS = 6, REFERRERS = 1 << 20, BIAS_SAMPLE = 4096 };
enum { QUERY_BYTES = 64 };

/* The random quantities; each has its own stream of random numbers. */
enum draw {
    USER_GENDER,
    USER_AGE,
    USER_CITY,
    USER_INTERESTS,
    USER_EFFECT,
    AD_CAMPAIGN,
    AD_CATEGORY,
    AD_TITLE,
    AD_PRICE,
    AD_FORMAT,
    AD_EFFECT,
    CAMPAIGN_NAME,
    CAMPAIGN_BUDGET,
    CAMPAIGN_EFFECT,
    ROW_USER,
    ROW_AD,
    ROW_TIME,
    ROW_POSITION,
    ROW_OS,
    ROW_REFERRER,
    ROW_SLOT,
    ROW_CLICK,
    ROW_DELAY,
    HOUR_EFFECT,
    OS_EFFECT,
    REFERRER_EFFECT,
    PAIR_GENDER,
    PAIR_AGE,
    PAIR_CITY,
    ROW_QUERY,
    ROW_MATCH,
    ROW_TOPIC,
};

static const char *const categories[CATEGORIES] = { "autos",   "beauty",  "books",  "cameras", "fashion",
                                                    "finance", "food",    "games",  "garden",  "health",
                                                    "hotels",  "jewelry", "kids",   "movies",  "music",
                                                    "office",  "pets",    "phones", "sports",  "travel" };
static const char *const oses[OSES] = { "android", "ios", "windows", "linux" };
static const char *const words[] = { "new",  "best", "sale",  "free",   "today", "city",  "smart", "great",
                                     "easy", "last", "offer", "winter", "gold",  "quick", "green", "classic" };
static const char *const formats[] = { "banner", "native", "video" };

const char *const ctr_synth_files[CTR_SYNTH_NFILES] = { "users.tsv",  "ads.jsonl", "campaigns.tsv", "impressions.tsv",
                                                        "clicks.tsv", "basic.tsv", "photos.jsonl",  "photos.tar" };

int ctr_synth_nfiles(const struct ctr_synth_opts *opts)
{
    return opts->photos ? CTR_SYNTH_NFILES : CTR_SYNTH_PHOTOS;
}

struct user {
    int gender; /* 0 f, 1 m, 2 unknown */
    int age;    /* 0: unknown */
    int city;
    uint32_t interests; /* one bit per category */
};
struct ad {
    int64_t campaign;
    int category;
};
struct impression {
    int64_t row, time_ms, user, ad, referrer;
    int position, os, slot;
    double p, effects; /* effects: the log-odds of p without the bias */
};
struct click {
    int64_t time_ms, row, user, ad;
};

struct ctr_synth {
    struct ctr_synth_opts o;
    double bias;
    struct click *pending; /* heap by time: clicks not yet written */
    int64_t npending, pending_cap, clicks;
};

/* Nothing is drawn in sequence: each quantity is a function of the seed, its stream and its number. The user of row 7
 * is ctr_random01(seed, ROW_USER, 7), skewed to, say, u3; the age of u3 is number 3 of USER_AGE, wherever it is asked
 * for.
 * So impression_of(row) makes any row alone, as set_bias does for its sample, and tables of users and ads are never in
 * memory.
 *
 * Only clicks need order. Row 7 at 10:00:00 with a click after 35 s is pushed to the heap; impressions go on, and the
 * first row at 10:00:35 or later pops it:
 *
 *     impressions.tsv    7 10:00:00   8 10:00:12   9 10:00:40
 *     clicks.tsv                                   7 10:00:35     in the order of time */

/* ---- random numbers ---- */

static double uniform(const struct ctr_synth *s, enum draw what, int64_t of)
{
    return ctr_random01(s->o.seed, (uint64_t)what, (uint64_t)of);
}

static int64_t below(const struct ctr_synth *s, enum draw what, int64_t of, int64_t n)
{
    return (int64_t)(uniform(s, what, of) * (double)n);
}

/* Long-tailed: the density of x/n is proportional to its power -2/3. */
static int64_t skewed(const struct ctr_synth *s, enum draw what, int64_t of, int64_t n)
{
    double u = uniform(s, what, of);

    return (int64_t)(u * u * u * (double)n);
}

static double gauss(const struct ctr_synth *s, enum draw what, int64_t of)
{
    return ctr_synth_gauss(s->o.seed, (int)what, of);
}

/* ---- the world ---- */

static struct user user_of(const struct ctr_synth *s, int64_t id)
{
    double gender = uniform(s, USER_GENDER, id), age = uniform(s, USER_AGE, id);
    uint64_t bits = ctr_random64(s->o.seed, USER_INTERESTS, (uint64_t)id);
    struct user u = { .gender = gender < .46 ? 0 : gender < .9 ? 1 : 2, .city = (int)skewed(s, USER_CITY, id, CITIES) };

    u.age = age < .15 ? 0 : 16 + (int)((age - .15) / .85 * (age - .15) / .85 * 60);
    for (int i = 0; i < (int)(bits & 3); i++)
        u.interests |= 1u << ((bits >> (8 + 8 * i) & 255) % CATEGORIES);
    return u;
}

static struct ad ad_of(const struct ctr_synth *s, int64_t id)
{
    return (struct ad){ .campaign = skewed(s, AD_CAMPAIGN, id, s->o.campaigns),
                        .category = (int)skewed(s, AD_CATEGORY, id, CATEGORIES) };
}

/* Traffic by hour of the day: the inverse of a piecewise linear cumulative curve that is low at night. */
static double day_warp(double u)
{
    static const double cumulative[] = { 0, .08, .2, .48, .8, 1 }; /* at 0, 6, 9, 14, 20, 24 o'clock */
    static const double hour[] = { 0, 6, 9, 14, 20, 24 };
    int i = 0;

    while (i < 4 && u >= cumulative[i + 1])
        i++;
    return (hour[i] + (hour[i + 1] - hour[i]) * (u - cumulative[i]) / (cumulative[i + 1] - cumulative[i])) / 24;
}

static int64_t row_time(const struct ctr_synth *s, int64_t row)
{
    double days = ((double)row + uniform(s, ROW_TIME, row)) / (double)s->o.rows * (double)s->o.days;
    int64_t day = (int64_t)days;

    return s->o.start_ms + (int64_t)(((double)day + day_warp(days - (double)day)) * 86400e3);
}

/* The ad of a row. With photos a fifth of the ads is active at a time, in a window that moves through the ids. */
static int64_t row_ad(const struct ctr_synth *s, int64_t row)
{
    int64_t shown = CTR_MAX(s->o.ads / 5, 1);

    if (!s->o.photos)
        return skewed(s, ROW_AD, row, s->o.ads);
    return (int64_t)((double)row / (double)s->o.rows * (double)(s->o.ads - shown + 1)) + below(s, ROW_AD, row, shown);
}

static double appeal(const struct ctr_synth *s, int64_t user, int64_t ad, int category)
{
    double look[CTR_LOOK];

    if (!s->o.photos)
        return 0;
    ctr_synth_look(s->o.seed, ad, look);
    return ctr_synth_appeal(s->o.seed, user, category, look);
}

static double truth(const struct ctr_synth *s, const struct impression *m, const struct user *u, const struct ad *a)
{
    int band = u->age ? CTR_MIN((u->age - 10) / 10, AGE_BANDS - 1) : AGE_BANDS;
    int hour = (int)(m->time_ms / 3600000 % 24);

    return s->bias + .4 * gauss(s, USER_EFFECT, m->user) + .5 * gauss(s, AD_EFFECT, m->ad) +
           .3 * gauss(s, CAMPAIGN_EFFECT, a->campaign) + .4 * gauss(s, REFERRER_EFFECT, m->referrer) +
           .2 * gauss(s, HOUR_EFFECT, hour) + .3 * gauss(s, OS_EFFECT, m->os) - .35 * m->position +
           (u->interests >> a->category & 1 ? 1.2 : 0) +
           .4 * gauss(s, PAIR_GENDER, u->gender * CATEGORIES + a->category) +
           .4 * gauss(s, PAIR_AGE, band * CATEGORIES + a->category) +
           .4 * gauss(s, PAIR_CITY, u->city * CATEGORIES + a->category) + appeal(s, m->user, m->ad, a->category);
}

static struct impression impression_of(const struct ctr_synth *s, int64_t row, struct user *u, struct ad *a)
{
    struct impression m = { .row = row,
                            .time_ms = row_time(s, row),
                            .user = skewed(s, ROW_USER, row, s->o.users),
                            .ad = row_ad(s, row),
                            .position = (int)below(s, ROW_POSITION, row, POSITIONS),
                            .os = (int)skewed(s, ROW_OS, row, OSES + 1),
                            .referrer = skewed(s, ROW_REFERRER, row, REFERRERS),
                            .slot = (int)below(s, ROW_SLOT, row, 6) };

    /* half of the traffic comes from a few pages, the rest from a long tail of which most are seen once */
    if (uniform(s, ROW_REFERRER, row + s->o.rows) < .5)
        m.referrer %= 50;
    *u = user_of(s, m.user);
    *a = ad_of(s, m.ad);
    m.effects = truth(s, &m, u, a);
    m.p = ctr_sigmoid(m.effects);
    m.effects -= s->bias;
    return m;
}

/* The words before and after the category in the title of an ad. */
static const char *title_word(const struct ctr_synth *s, int64_t ad, int which)
{
    return words[(ctr_random64(s->o.seed, AD_TITLE, (uint64_t)ad) >> 8 * which) % CTR_COUNT(words)];
}

/* What the user of a row looks for: the category of the ad (a match), else mostly an interest, or any category. A match
 * is the more probable, the larger the log-odds of the click are. So the query tells of effects that no other column
 * shows, and it changes no probability. */
static int topic_of(const struct ctr_synth *s, const struct impression *m, const struct user *u, const struct ad *a,
                    bool *match)
{
    const uint64_t bits = ctr_random64(s->o.seed, ROW_TOPIC, (uint64_t)m->row);
    int topic = (int)((bits >> 8) % CATEGORIES);

    *match = uniform(s, ROW_MATCH, m->row) < ctr_sigmoid(m->effects);
    if (*match)
        return a->category;
    while (u->interests && bits & 3 && !(u->interests >> topic & 1))
        topic = (topic + 1) % CATEGORIES;
    return topic;
}

/* The text of a query: the topic alone, or with a word of titles (of a match often the ad's own) and the city of the
 * user. An eighth is empty, a quarter of the others begins with a capital. */
static void query_of(const struct ctr_synth *s, const struct impression *m, const struct user *u, const struct ad *a,
                     char query[QUERY_BYTES])
{
    uint64_t bits = ctr_random64(s->o.seed, ROW_QUERY, (uint64_t)m->row);
    bool match;
    const char *topic = categories[topic_of(s, m, u, a, &match)], *word = words[(bits >> 16) % CTR_COUNT(words)];

    query[0] = 0;
    if (!(bits & 7))
        return;
    if (match && bits >> 3 & 1)
        word = title_word(s, m->ad, (int)(bits >> 4 & 1));
    switch (bits >> 5 & 3) {
    case 0: snprintf(query, QUERY_BYTES, "%s", topic); break;
    case 1: snprintf(query, QUERY_BYTES, "%s %s", word, topic); break;
    case 2: snprintf(query, QUERY_BYTES, "%s %s", topic, word); break;
    default: snprintf(query, QUERY_BYTES, "%s %s city%03d", word, topic, u->city);
    }
    if (!(bits >> 7 & 3))
        query[0] = (char)(query[0] - 'a' + 'A');
}

/* Find by bisection the bias for which the mean probability of a sample is the click rate. */
static void set_bias(struct ctr_synth *s)
{
    double lo = -20, hi = 20;

    for (int step = 0; step < 40; step++) {
        double sum = 0;
        int64_t n = CTR_MIN(s->o.rows, BIAS_SAMPLE);
        s->bias = (lo + hi) / 2;
        for (int64_t i = 0; i < n; i++) {
            struct user u;
            struct ad a;
            sum += impression_of(s, i * (s->o.rows / n), &u, &a).p;
        }
        if (sum / (double)n < s->o.click_rate)
            lo = s->bias;
        else
            hi = s->bias;
    }
}

int ctr_synth_new(struct ctr_synth **out, const struct ctr_synth_opts *opts, struct ctr_err *err)
{
    struct ctr_synth *s = calloc(1, sizeof *s);

    if (!s)
        return ctr_fail_nomem(err, sizeof *s);
    s->o = *opts;
    set_bias(s);
    *out = s;
    return 0;
}

void ctr_synth_free(struct ctr_synth *s)
{
    if (s)
        free(s->pending);
    free(s);
}

int64_t ctr_synth_clicks(const struct ctr_synth *s)
{
    return s->clicks;
}

/* ---- text ---- */

static int write_users(const struct ctr_synth *s, struct ctr_out *out, struct ctr_err *err)
{
    int rc = ctr_out_printf(out, err, "user_id\tgender\tage\tcity\tinterests\n");

    for (int64_t i = 0; !rc && i < s->o.users; i++) {
        struct user u = user_of(s, i);
        char interests[64] = "", age[16] = "";
        size_t n = 0;
        for (int c = 0; c < CATEGORIES; c++)
            if (u.interests >> c & 1)
                n += (size_t)snprintf(interests + n, sizeof interests - n, "%s%s", n ? "|" : "", categories[c]);
        if (u.age)
            snprintf(age, sizeof age, "%d", u.age);
        rc = ctr_out_printf(out, err, "u%lld\t%s\t%s\tcity%03d\t%s\n", (long long)i,
                            u.gender == 0   ? "f"
                            : u.gender == 1 ? "m"
                                            : "",
                            age, u.city, interests);
    }
    return rc;
}

static int write_ads(const struct ctr_synth *s, struct ctr_out *out, struct ctr_err *err)
{
    int rc = 0;

    for (int64_t i = 0; !rc && i < s->o.ads; i++) {
        struct ad a = ad_of(s, i);
        uint64_t bits = ctr_random64(s->o.seed, AD_TITLE, (uint64_t)i);
        double price = (double)(1 + skewed(s, AD_PRICE, i, 50000)) / 100;
        const char *format = formats[below(s, AD_FORMAT, i, (int64_t)CTR_COUNT(formats))];
        rc = ctr_out_printf(out, err,
                            "{\"ad_id\":%lld,\"campaign_id\":%lld,\"title\":\"%s %s %s\",\"category\":\"%s\","
                            "\"creative\":{\"format\":\"%s\",\"width\":%d,\"height\":%d}%s",
                            (long long)i, (long long)a.campaign, title_word(s, i, 0), categories[a.category],
                            title_word(s, i, 1), categories[a.category], format, format[0] == 'b' ? 300 : 320,
                            format[0] == 'b' ? 250 : 180, bits >> 16 & 7 ? "" : ",\"price\":null}\n");
        if (!rc && (bits >> 16 & 7))
            rc = ctr_out_printf(out, err, ",\"price\":%.2f}\n", price);
    }
    return rc;
}

static int write_campaigns(const struct ctr_synth *s, struct ctr_out *out, struct ctr_err *err)
{
    int rc = ctr_out_printf(out, err, "campaign_id\tadvertiser\tdaily_budget\n");

    for (int64_t i = 0; !rc && i < s->o.campaigns; i++)
        rc = ctr_out_printf(out, err, "%lld\tadvertiser%lld\t%lld\n", (long long)i,
                            (long long)skewed(s, CAMPAIGN_NAME, i, CTR_MAX(s->o.campaigns / 3, 1)),
                            (long long)(100 + 10 * skewed(s, CAMPAIGN_BUDGET, i, 1000)));
    return rc;
}

/* A photograph of each ad: its colours as a vector, (colour - 128) / 64, and the picture. */
static int write_photos(const struct ctr_synth *s, struct ctr_out *vectors, struct ctr_out *pictures,
                        struct ctr_err *err)
{
    uint8_t colour[CTR_PHOTO_COLOURS];
    char number[CTR_NUM_MAX], name[40];
    int rc = 0;

    for (int64_t i = 0; !rc && i < s->o.ads; i++) {
        ctr_synth_photo(s->o.seed, i, ad_of(s, i).category, colour);
        rc = ctr_out_printf(vectors, err, "{\"photo\":%lld,\"vector\":[", (long long)i);
        for (int k = 0; !rc && k < CTR_PHOTO_COLOURS; k++) {
            number[ctr_fmt_f64(number, (colour[k] - 128) / 64.)] = 0;
            rc = ctr_out_printf(vectors, err, "%s%s", k ? "," : "", number);
        }
        if (!rc)
            rc = ctr_out_printf(vectors, err, "]}\n");
        snprintf(name, sizeof name, "%lld.png", (long long)i);
        if (!rc)
            rc = ctr_synth_photo_tar(pictures, name, colour, err);
    }
    return rc ? rc : ctr_synth_tar_end(pictures, err);
}

static int write_impression(struct ctr_out *out, const struct impression *m, const char *query, struct ctr_err *err)
{
    char time[40], p[CTR_NUM_MAX];

    time[ctr_time_iso(time, m->time_ms)] = 0;
    p[ctr_fmt_f64(p, m->p)] = 0;
    return ctr_out_printf(
        out, err, "%lld\t%s\tu%lld\t%lld\t%d\t%s\tsite%lld.example\t{\"slot\":%d,\"test\":\"%c\"}\t%s\t%s\n",
        (long long)m->row, time, (long long)m->user, (long long)m->ad, m->position, m->os < OSES ? oses[m->os] : "",
        (long long)m->referrer, m->slot, 'a' + (int)(m->user % 2), p, query);
}

static int write_basic(struct ctr_out *out, const struct impression *m, struct ctr_err *err)
{
    return ctr_out_printf(out, err, "%lld\t%s\tsite%lld\n", (long long)m->row, m->os < OSES ? oses[m->os] : "",
                          (long long)m->referrer);
}

static int write_click(struct ctr_synth *s, struct ctr_out *out, const struct click *c, struct ctr_err *err)
{
    char time[40];

    time[ctr_time_iso(time, c->time_ms)] = 0;
    s->clicks++;
    return ctr_out_printf(out, err, "%s\t%lld\tu%lld\t%lld\n", time, (long long)c->row, (long long)c->user,
                          (long long)c->ad);
}

/* ---- clicks wait in a heap until their time has come ---- */

static bool earlier(const struct click *a, const struct click *b)
{
    return a->time_ms != b->time_ms ? a->time_ms < b->time_ms : a->row < b->row;
}

static int pending_push(struct ctr_synth *s, struct click c, struct ctr_err *err)
{
    int64_t i = s->npending;

    if (s->npending == s->pending_cap) {
        int64_t cap = CTR_MAX(s->pending_cap * 2, 1024);
        struct click *p = realloc(s->pending, (size_t)cap * sizeof *p);
        if (!p)
            return ctr_fail_nomem(err, (size_t)cap * sizeof *p);
        s->pending = p;
        s->pending_cap = cap;
    }
    s->npending++;
    for (; i && earlier(&c, &s->pending[(i - 1) / 2]); i = (i - 1) / 2)
        s->pending[i] = s->pending[(i - 1) / 2];
    s->pending[i] = c;
    return 0;
}

static struct click pending_pop(struct ctr_synth *s)
{
    struct click top = s->pending[0], last = s->pending[--s->npending];
    int64_t i = 0;

    for (;;) {
        int64_t child = 2 * i + 1;
        if (child + 1 < s->npending && earlier(&s->pending[child + 1], &s->pending[child]))
            child++;
        if (child >= s->npending || !earlier(&s->pending[child], &last))
            break;
        s->pending[i] = s->pending[child];
        i = child;
    }
    if (s->npending)
        s->pending[i] = last;
    return top;
}

/* Most clicks come within a minute, one in a hundred after half an hour. */
static int64_t click_delay(const struct ctr_synth *s, int64_t row)
{
    double u = uniform(s, ROW_DELAY, row), u2 = u * u, u4 = u2 * u2;

    return 800 + (int64_t)(20e3 * u) + (int64_t)(2400e3 * u4 * u4 * u4 * u4 * u4 * u4 * u4 * u4);
}

static int write_log(struct ctr_synth *s, struct ctr_out *out[CTR_SYNTH_NFILES],
                     void (*progress)(void *ctx, int64_t rows), void *ctx, struct ctr_err *err)
{
    struct ctr_out *views = out[CTR_SYNTH_IMPRESSIONS], *clicks = out[CTR_SYNTH_CLICKS], *basic = out[CTR_SYNTH_BASIC];
    char query[QUERY_BYTES];
    int rc = ctr_out_printf(views, err,
                            "impression_id\ttime\tuser_id\tad_id\tposition\tos\treferrer\tcontext\tp_true\tquery\n");

    if (!rc)
        rc = ctr_out_printf(clicks, err, "click_time\timpression_id\tuser_id\tad_id\n");
    if (!rc)
        rc = ctr_out_printf(basic, err, "impression_id\tbasic_os\tbasic_site\n");
    for (int64_t i = 0; !rc && i < s->o.rows; i++) {
        struct user u;
        struct ad a;
        struct impression m = impression_of(s, i, &u, &a);
        query_of(s, &m, &u, &a, query);
        rc = write_impression(views, &m, query, err);
        if (!rc)
            rc = write_basic(basic, &m, err);
        if (!rc && uniform(s, ROW_CLICK, i) < m.p)
            rc = pending_push(s, (struct click){ m.time_ms + click_delay(s, i), i, m.user, m.ad }, err);
        while (!rc && s->npending && s->pending[0].time_ms <= m.time_ms) {
            struct click c = pending_pop(s);
            rc = write_click(s, clicks, &c, err);
        }
        if (progress && !(i & 4095))
            progress(ctx, i);
    }
    while (!rc && s->npending) {
        struct click c = pending_pop(s);
        rc = write_click(s, clicks, &c, err);
    }
    return rc;
}

int ctr_synth_write(struct ctr_synth *s, struct ctr_out *out[CTR_SYNTH_NFILES],
                    void (*progress)(void *ctx, int64_t rows), void *ctx, struct ctr_err *err)
{
    int rc = write_users(s, out[CTR_SYNTH_USERS], err);

    if (!rc)
        rc = write_ads(s, out[CTR_SYNTH_ADS], err);
    if (!rc)
        rc = write_campaigns(s, out[CTR_SYNTH_CAMPAIGNS], err);
    if (!rc && s->o.photos)
        rc = write_photos(s, out[CTR_SYNTH_PHOTOS], out[CTR_SYNTH_PICTURES], err);
    return rc ? rc : write_log(s, out, progress, ctx, err);
}
