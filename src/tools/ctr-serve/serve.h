/* SPDX-License-Identifier: Apache-2.0
 *
 * serve: what ctr-serve does with a request. The parts, in the order in which a request meets them:
 *
 * - http.h: bytes to a request
 * - serve_queue.c: the queue, the threads, the deadline
 * - serve_model.c: which model: a generation is a model, its map and its files of users, ads and vectors, all of one
 * moment. A request holds one from beginning to end, so no answer is of two.
 * - serve_rows.c: the body to a batch of raw columns: JSON, or a stream
 * - serve_stream.c: what a stream leaves out
 * - serve_requests.c: which rows of a stream are one request
 * - serve_prerank.c: of many ads the best (serve_prerank.h)
 * - serve_lane.c: the batch to scores: the objects of ctr-extract, ctr-predict and ctr-calibrate, one after another
 * - serve_log.c: what was asked and answered, and clicks, as streams
 * - serve_clicks.c: clicks join the scores of late
 * - serve_inbox.c: photographs (serve_images.h)
 * - serve_metrics.c: counts for GET /metrics
 */
#ifndef CTR_SERVE_H
#define CTR_SERVE_H

#include "common/metric/calmap.h"
#include "common/model/model.h"
#include "common/plan/plan.h"
#include "common/rows/rank.h"
#include "common/text/text.h"
#include "tools/ctr-serve/http.h"

#include <stdatomic.h>

/* ---- counts: serve_metrics.c ---- */

enum serve_stage { SERVE_WAIT, SERVE_PARSE, SERVE_SCORE, SERVE_TOTAL, SERVE_STAGES };
enum { SERVE_BUCKETS = 14, SERVE_CODES = 16 };
struct serve_table {
    char *name;
    int64_t keys, unknown;
};
struct serve_metrics {
    pthread_mutex_t lock;
    int64_t code[SERVE_CODES];
    int64_t bucket[SERVE_STAGES][SERVE_BUCKETS + 1], count[SERVE_STAGES];
    double seconds[SERVE_STAGES];
    int64_t scored;
    double score_sum;
    int64_t loads, bad_loads;
    int64_t no_user, no_ad;     /* keys that --users, --ads do not have */
    int64_t no_vector;          /* of ads, that --vectors does not have */
    int64_t images, bad_images; /* photographs that were taken, refused */
    struct serve_table *table;
    int tables, cap;
};
void serve_metrics_code(struct serve_metrics *m, int status);
/* ns[stage], -1: the request did not come so far. */
void serve_metrics_request(struct serve_metrics *m, const int64_t ns[SERVE_STAGES], int64_t scores, double sum);
int serve_metrics_table(struct serve_metrics *m, const char *name, int64_t keys, int64_t unknown,
                        struct ctr_err *err) CTR_MUST;
void serve_metrics_free(struct serve_metrics *m);

/* ---- models: serve_model.c ---- */

struct serve_inbox;
struct serve_files {
    const char *model, *map, *users, *ads, *images, *key_seed; /* all but the model may be NULL */
    const char *tower, *vectors;                               /* both or none */
    int64_t top;                                               /* ads that the pre-rank keeps */
    struct serve_inbox *inbox;                                 /* serve_images.h; or NULL */
    bool uncertainty;                                          /* of each score, which a model may lack */
};

/* How /v1/rank orders: options of ctr-rank. */
struct serve_rank {
    const char *bid, *order, *floor; /* or NULL */
    enum ctr_rank_price price;
    int64_t top;
    const struct ctr_rank_slots *slots;
    const struct ctr_rank_exploring *explore;
    uint64_t seed;
};

/* A keyed file of users or of ads: whose columns fill in what a request leaves out. */
struct serve_keyed {
    atomic_int owners;
    char *path; /* /proc/self/fd/N: the same file, whatever has its name now */
    int fd;
    struct ctr_schema schema; /* no column encoded */
    int key;
};

struct serve_model {
    atomic_int owners;
    struct ctr_plan *plan;
    struct ctr_loaded *loaded;
    char digest[33];
    struct serve_inbox *inbox;
    const char *images; /* the name of its file, borrowed; opened as, whatever has its name now: */
    char images_path[40];
    int images_fd;        /* or -1 */
    pthread_mutex_t bind; /* binding a program to the plan is one thread's at a time */
};

/* In an error, name the file of images as the user does. */
void serve_model_rename(const struct serve_model *m, struct ctr_err *err);

struct serve_map {
    atomic_int owners;
    struct ctr_cal_map *map;
    char digest[33];
};

struct serve_desk;
struct serve_vectors; /* serve_prerank.h, as these: */
struct serve_prerank;
struct serve_cut;
struct serve_generation {
    atomic_int owners;
    struct serve_model *model;
    struct serve_map *map;           /* or NULL */
    struct serve_keyed *users, *ads; /* or NULL */
    struct serve_model *tower;       /* of the pre-rank, or NULL, and so are: */
    struct serve_vectors *vectors;
    struct serve_prerank *prerank;
    struct ctr_schema schema;   /* what a request gives: the plan's columns, then those that it does not read */
    struct ctr_schema rows;     /* the plan's alone */
    int columns;                /* of these */
    int user_key, ad_key;       /* columns of the schema, or -1 */
    struct ctr_strs query;      /* raw columns that the plan makes the role query of */
    int *from_users, *from_ads; /* by column of the schema: column of the file, or -1 */
    const struct serve_rank *rank;
    struct ctr_text_opts text;
    void *jsonl; /* state of the format */
    struct ctr_schema jsonl_schema;
    int64_t loaded_ms; /* ctr_clock_ms */
    pthread_mutex_t lock;
    struct serve_desk *desk; /* those that no thread has */
};

struct serve_models; /* the generation of now, and what watches the files */
struct serve_models_opts {
    struct serve_files files;
    struct serve_rank rank;
    int threads;
    struct serve_metrics *metrics;
    void (*note)(void *ctx, const char *text); /* a generation has been replaced, or a file is bad */
    void (*warn)(void *ctx, const char *text);
    void (*look)(void *ctx); /* each time that it looks at the files */
    void *ctx;
};
int serve_models_open(struct serve_models **s, const struct serve_models_opts *o, struct ctr_err *err) CTR_MUST;
int serve_models_watch(struct serve_models *s, struct ctr_err *err) CTR_MUST; /* from now on, on a thread */
void serve_models_free(struct serve_models *s);
struct serve_generation *serve_models_hold(struct serve_models *s); /* the generation of now */
/* Keep some bodies (JSON) of late, with which the next generation warms up. */
void serve_models_remember(struct serve_models *s, const uint8_t *body, size_t n);
void serve_generation_release(struct serve_generation *g);
/* A desk of the generation for this thread, until it is given back. */
int serve_desk_take(struct serve_generation *g, struct serve_desk **d, struct ctr_err *err) CTR_MUST;
void serve_desk_give(struct serve_generation *g, struct serve_desk *d);

/* ---- rows: serve_rows.c ---- */

enum { SERVE_LANES = 8 };
struct serve_lane;
/* What one thread needs for requests of one generation. */
struct serve_desk {
    struct serve_desk *next;
    struct serve_generation *g; /* which owns the desk */
    struct ctr_text_job user, context, ads;
    struct ctr_buf lines;
    struct ctr_keyed *users_file, *ads_file;
    struct ctr_batchbuf users_rows, ads_rows;
    struct ctr_buf zeros, found;
    bool *common;               /* by column: one value for all rows, which a dictionary of one entry says */
    struct ctr_col *col, *view; /* of the plan's columns; entries of dictionaries */
    struct ctr_batch batch;
    struct serve_lane *lane[SERVE_LANES]; /* the last used first */
    int lanes;
    struct serve_cut *cut;             /* the pre-rank, or NULL */
    int64_t no_user, no_ad, no_vector; /* in this request */
};
int serve_desk_new(struct serve_desk **d, struct serve_generation *g, struct ctr_err *err) CTR_MUST;
void serve_desk_free(struct serve_desk *d);
/* The rows of a JSON body, one an ad, in d->batch, whose columns are those of the plan. CTR_EDATA: the request is
 * wrong. */
int serve_rows_json(struct serve_desk *d, uint8_t *body, size_t n, int64_t most_rows, struct ctr_err *err) CTR_MUST;

/* Column k is none of the request and of no file. */
int serve_fail_missing(const struct serve_generation *g, int k, struct ctr_err *err) CTR_MUST;

/* As ctr_keyed_get_many; keys that the file does not have are counted. */
int serve_look_up(struct ctr_keyed *file, struct ctr_batchbuf *rows, const struct ctr_col *keys, struct ctr_buf *found,
                  int64_t *missed, struct ctr_err *err) CTR_MUST;

/* ---- streams: serve_stream.c ---- */

/* *rows becomes the source of rows with all columns: those that the stream lacks are looked up, and rows are cut by the
 * pre-rank. *each: wanted, and set if each batch is then a request of its own, because the ranking has no role query.
 * CTR_EDATA: the stream is wrong; CTR_ELARGE: it has more than `most` rows, or they take more than `most_bytes` without
 * dictionaries. */
int serve_stream_complete(struct serve_desk *d, struct ctr_batch_source *rows, int64_t most, int64_t most_bytes,
                          bool *each, struct ctr_err *err) CTR_MUST;

/* Of each row of a batch the first row of its request, until the next call. at: of each column of the generation's
 * schema the column of b, or -1. */
struct serve_requests {
    struct ctr_buf first; /* int64_t */
    struct ctr_index index;
};
int serve_requests_find(struct serve_requests *r, const struct serve_generation *g, const struct ctr_batch *b,
                        const int *at, const int64_t **first, struct ctr_err *err) CTR_MUST;
bool serve_requests_differ(const struct serve_generation *g, const int *at); /* may there be more than one? */
void serve_requests_free(struct serve_requests *r);

/* The parser takes a line: line ends between values become blanks. False: one is in a text. */
bool serve_join_lines(uint8_t *body, size_t n);

/* ---- scores: serve_lane.c ---- */

/* A pipe of ctr-extract, ctr-predict and ctr-calibrate for one schema. The desk's own; valid until its next. */
int serve_lane_of(struct serve_desk *d, const struct ctr_schema *s, struct serve_lane **lane,
                  struct ctr_err *err) CTR_MUST;
int serve_lane_common(struct serve_desk *d, struct serve_lane **lane, struct ctr_err *err) CTR_MUST; /* by d->common */
typedef int serve_sink(void *ctx, const struct ctr_batch *scored, const double *score, struct ctr_err *err);
int serve_lane_run(struct serve_lane *l, const struct ctr_batch *b, serve_sink *sink, void *ctx,
                   struct ctr_err *err) CTR_MUST;
const struct ctr_schema *serve_lane_schema(const struct serve_lane *l); /* of the result */
/* The same, then ctr-rank: the sink gets the rows that are kept, the best first. With the rows of serve_rows_json the
 * result has a last column before those of ctr-rank, SERVE_AD: the place of the ad in the request, from 0. `seen` (or
 * NULL) gets the rows before. */
#define SERVE_AD "(ad)"
/* The id of the request, which is its name unless the plan has a column of role query: ctr-rank --by request. */
int serve_lane_call(struct serve_lane *l, const char *id, struct ctr_err *err) CTR_MUST;
int serve_lane_ranks(struct serve_desk *d, struct serve_lane *l, struct ctr_err *err) CTR_MUST; /* before the first */
const struct ctr_schema *serve_lane_rank_schema(const struct serve_lane *l);
int serve_lane_rank(struct serve_lane *l, const struct ctr_batch *b /* or NULL */, bool last, serve_sink *seen,
                    serve_sink *sink, void *ctx, struct ctr_err *err) CTR_MUST;
/* Its rows so far were nobody's: they are in no count. */
void serve_lane_forget(struct serve_lane *l);
/* Count its keys since the last time. */
int serve_lane_count(struct serve_lane *l, struct serve_metrics *m, struct ctr_err *err) CTR_MUST;
void serve_lane_free(struct serve_lane *l);
/* After an error, which may have left the lane in the middle of its rows: the desk drops it. */
void serve_lane_drop(struct serve_desk *d, struct serve_lane *l);

/* ---- the log: serve_log.c ---- */

struct serve_log;
struct serve_log_opts {
    const char *path;
    int64_t every_ms, bytes; /* when a file ends and the next one begins */
    bool check;              /* nothing will be written */
    const char *option;      /* in messages, "--log" */
    bool clicks;             /* rows of serve_log_clicks */
    void (*warn)(void *ctx, const char *text);
    void *ctx;
};
struct serve_logged {
    const char *id; /* of the request */
    int64_t served_ms;
    const struct serve_desk *desk; /* which may have left ads of the request out */
    int64_t row;                   /* of the first one, among those that are scored */
    /* By place in the request: the rank in the answer, from 1; 0: not in it. NULL: no ranking, or one of a stream */
    const int64_t *rank;
    const double *propensity; /* the same of the ads that the answer has, with --explore */
};
/* stdout and a FIFO are opened now, which waits for the reader of a FIFO. */
int serve_log_open(struct serve_log **l, const struct serve_log_opts *o, const struct serve_generation *g,
                   struct ctr_err *err) CTR_MUST;
/* The columns of its rows; CTR_EUSAGE: the plan reads one of the names that the log adds. */
int serve_log_schema(const struct serve_generation *g, struct ctr_schema *s, struct ctr_err *err) CTR_MUST;
/* Rows and their scores. An error is the request's: a column that is not as the
 * log wants it. What the disk refuses is told and counted. */
int serve_log_write(struct serve_log *l, const struct serve_generation *g, const struct ctr_batch *b,
                    const double *score, const struct serve_logged *q, struct ctr_err *err) CTR_MUST;
struct serve_click;
void serve_log_clicks(struct serve_log *l, const struct serve_click *click, int64_t n, int64_t now_ms);
void serve_log_look(struct serve_log *l); /* now and then, on one thread: is the file full or its time over? */
int64_t serve_log_lost(struct serve_log *l);
void serve_log_close(struct serve_log *l); /* the last file is whole; no more rows */
void serve_log_free(struct serve_log *l);

/* ---- clicks: serve_clicks.c ---- */

struct serve_shown {
    int64_t place; /* of the ad in the request, from 0 */
    double score;
};
struct serve_click {
    char id[64]; /* of the request */
    int64_t place;
};
struct serve_clicks_state {
    int64_t clicks, unknown, repeated; /* so far */
    int64_t ads, clicked;              /* of the requests that are kept */
    double score_sum;
};
struct serve_clicks;
int serve_clicks_new(struct serve_clicks **c, int64_t rows, struct ctr_err *err) CTR_MUST; /* rows: the most scores */
void serve_clicks_free(struct serve_clicks *c);
/* The scores of a request that was answered. */
void serve_clicks_keep(struct serve_clicks *c, const char *id, const struct serve_shown *row, int64_t n);
void serve_clicks_get(struct serve_clicks *c, struct serve_clicks_state *to);
/* The body of /v1/clicks: struct serve_click. CTR_ELARGE: there are more than `most`. */
int serve_clicks_read(uint8_t *body, size_t n, int64_t most, struct ctr_buf *clicks, struct ctr_err *err) CTR_MUST;

/* ---- requests: serve_score.c, serve_queue.c ---- */

struct serve {
    struct serve_models *models;
    struct serve_metrics metrics;
    struct ctr_http *http;
    struct serve_log *log;       /* or NULL */
    struct serve_clicks *clicks; /* or NULL; and their log: */
    struct serve_log *clicks_log;
    struct serve_inbox *inbox;    /* or NULL */
    uint64_t series;              /* of this process, random: ids of requests begin with it */
    atomic_ullong requests;       /* that had no id */
    int64_t deadline_ms;          /* 0: none */
    int64_t most_ads, most_bytes; /* of a request; bytes of its body, or of a stream's rows without dictionaries */
    int threads;
    int64_t queue; /* requests that wait */
    pthread_mutex_t lock;
    pthread_cond_t some;
    struct ctr_http_request *first, **last;
    int64_t under_way; /* waiting or at work */
    bool stopping;
    pthread_t *thread;
    int started;
};
void serve_score(struct serve *s, struct ctr_http_request *q); /* /v1/score, /v1/rank, on a thread of the queue */
void serve_click(struct serve *s, struct ctr_http_request *q); /* /v1/clicks */
int serve_metrics_text(struct serve *s, struct ctr_buf *out, struct ctr_err *err) CTR_MUST;
int serve_queue_start(struct serve *s, struct ctr_err *err) CTR_MUST;
bool serve_queue_add(struct serve *s, struct ctr_http_request *q);      /* false: it is full */
bool serve_too_late(const struct serve *s, struct ctr_http_request *q); /* then it has been refused */
void serve_queue_stop(struct serve *s);                                 /* what has begun ends, what waits does not */

#endif
