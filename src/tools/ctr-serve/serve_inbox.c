/* SPDX-License-Identifier: Apache-2.0
 *
 * serve_inbox: see serve_images.h. A photograph is answered once its vector is on the disk and in the tables: what was
 * answered with 200 outlives the server. Invariant: under the lock, each table that is attached has all of DIR. */
#include "tools/ctr-serve/serve_images.h"

#ifdef CTR_IMAGES

#include "common/deep/image_table.h"
#include "common/deep/model_tower.h"
#include "common/image/image.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

enum { MOST_WAITING = 16, MOST_PIXELS = 64 << 20, ROOM = 1 << 16 };

/* A model that gets the images. */
struct table {
    const struct serve_model *model;
    struct ctr_image_table *images;
    struct ctr_model_tower *tower; /* or NULL: the table has vectors, no values of a tower */
};

struct serve_inbox {
    struct serve_inbox_opts o;
    int dir; /* locked: two servers would give one number to two files */
    struct ctr_dev *dev;
    struct ctr_tower *network;
    enum ctr_preprocess preprocess;
    bool known, integers;   /* of the keys, once a table is known */
    float *pixels, *vector; /* of the photograph at work */
    float *read, *value;    /* of a file, of a table: under the lock */
    size_t value_bytes;
    struct ctr_buf text; /* the network's name */
    int64_t number;      /* of the last file */
    struct table *table;
    int tables, cap;
    pthread_mutex_t lock; /* of the tables, DIR and all above */
    struct serve *s;
    pthread_t thread;
    bool started, stopping;
    pthread_mutex_t queue_lock;
    pthread_cond_t some;
    struct ctr_http_request *first, **last;
    int64_t waiting;
};

/* PUT /v1/images/42 with a photograph, while DIR has 000001.arrows and 000002.arrows:
 *
 *     serve_inbox_add    by the HTTP thread: into the queue, unless MOST_WAITING wait
 *     embed              by the inbox's thread, without the lock: decoded, resized, through the network: i->vector
 *     keep               under the lock: has each table room? Then 000003.arrows, one row (42, vector), is written and
 *                        renamed into place; then each table gets the image: the vector, or what its tower makes of it
 *     answer             {"width":4096}
 *
 * A generation that loads meanwhile waits for the lock in serve_inbox_attach, and then reads all files of DIR into its
 * table, in the order of their numbers: the last vector of a key is the one that is found. */

/* ---- files ---- */

static void path_of(const struct serve_inbox *i, int64_t number, char path[4200])
{
    snprintf(path, 4200, "%.4000s/%06lld.arrows", i->o.dir, (long long)number);
}

/* The numbers of the files, in order. */
static int list(const struct serve_inbox *i, struct ctr_buf *numbers, struct ctr_err *err)
{
    DIR *d = opendir(i->o.dir);
    int rc = d ? 0 : ctr_fail_sys(err, "cannot look into it");
    for (const struct dirent *e; !rc && (e = readdir(d));) {
        const char *dot = strchr(e->d_name, '.');
        int64_t number;
        if (dot && !strcmp(dot, ".arrows") && ctr_parse_i64(e->d_name, (size_t)(dot - e->d_name), &number) &&
            number > 0)
            rc = ctr_buf_append(numbers, &number, sizeof number, err);
    }
    if (d)
        closedir(d);
    if (numbers->len)
        qsort(numbers->data, numbers->len / sizeof(int64_t), sizeof(int64_t), ctr_by_i64);
    return rc;
}

static int schema_of(const struct serve_inbox *i, struct ctr_schema *s, struct ctr_err *err)
{
    const struct ctr_field vector = { .name = (char *)(uintptr_t) "vector",
                                      .type = CTR_FIXED,
                                      .item = CTR_F32,
                                      .width = (int32_t)ctr_tower_width(i->network) };
    int rc = ctr_schema_add(s, "key", i->integers ? CTR_I64 : CTR_UTF8, err);
    if (!rc)
        rc = ctr_field_set_role(&s->f[0], CTR_ROLE_ID, err);
    if (!rc)
        rc = ctr_schema_add_field(s, &vector, NULL, err);
    if (!rc)
        rc = ctr_meta_set(&s->meta, CTR_META_NETWORK, (const char *)i->text.data, err);
    return rc ? rc : ctr_schema_provenance(s, "ctr-serve", "", err);
}

static int write_rows(struct ctr_batchbuf *rows, struct ctr_out *out, struct ctr_err *err)
{
    struct ctr_writer *w = NULL;
    int rc = ctr_writer_open(&w, out, rows->schema, NULL, err);
    if (!rc)
        rc = ctr_writer_batch(w, ctr_batchbuf_view(rows), err);
    if (!rc)
        rc = ctr_writer_finish(w, err);
    ctr_writer_free(w);
    return rc ? rc : ctr_out_commit(out, err);
}

static int write_file(struct serve_inbox *i, const char *key, struct ctr_err *err)
{
    char path[4200];
    struct ctr_schema s = { 0 };
    struct ctr_batchbuf rows = { 0 };
    struct ctr_image_loss loss = { 0 };
    struct ctr_out *out = NULL;
    path_of(i, i->number + 1, path);
    int rc = schema_of(i, &s, err);
    if (!rc)
        rc = ctr_batchbuf_init(&rows, &s, err);
    if (!rc)
        rc = ctr_image_put(&rows, key, i->vector, ctr_tower_width(i->network), &loss, err);
    if (!rc)
        rc = ctr_out_open(&out, path, CTR_OUT_BINARY, err);
    if (!rc)
        rc = write_rows(&rows, out, err);
    ctr_out_free(out);
    ctr_batchbuf_free(&rows);
    ctr_schema_free(&s);
    i->number += !rc;
    return rc;
}

/* ---- tables ---- */

static int add_image(struct serve_inbox *i, const struct table *t, struct ctr_str key, const float *vector,
                     struct ctr_err *err)
{
    int rc = t->tower ? ctr_model_tower_rows(t->tower, vector, 1, i->value, err) : 0;
    return rc ? rc : ctr_image_table_add(t->images, key, t->tower ? i->value : vector, err);
}

static int add_file(struct serve_inbox *i, const struct table *t, int64_t number, struct ctr_err *err)
{
    char path[4200], *const paths[] = { path }, text[CTR_NUM_MAX];
    struct ctr_reader *r = NULL;
    const struct ctr_batch *b;
    int columns[3];
    int32_t width = 0;
    path_of(i, number, path);
    int rc = ctr_reader_open(&r, paths, 1, NULL, err);
    const struct ctr_schema *s = rc ? NULL : ctr_reader_schema(r);
    const char *network = rc ? NULL : ctr_meta_get(&s->meta, CTR_META_NETWORK);
    if (!rc)
        rc = ctr_image_columns(s, columns, &width, err);
    if (!rc && (width != ctr_tower_width(i->network) || !network || strcmp(network, (const char *)i->text.data) != 0))
        rc = ctr_fail(err, CTR_EDATA, "its vectors are by %.200s, those of the inbox by %.200s: empty the inbox",
                      network ? network : "something unknown", (const char *)i->text.data);
    while (!rc && (rc = ctr_reader_next(r, &b, err)) > 0) {
        rc = 0;
        for (int64_t k = 0; k < b->rows && !rc; k++) {
            const struct ctr_str key = ctr_image_key(&b->col[columns[0]], k, text);
            rc = ctr_image_vector(&b->col[columns[1]], ctr_image_scale(b, columns), k, &width, key, b->first_row + k,
                                  i->read, err);
            if (!rc)
                rc = add_image(i, t, key, i->read, err);
        }
    }
    if (rc)
        ctr_err_file(err, path);
    ctr_reader_free(r);
    return rc;
}

/* Are the vectors of the file and those of photographs by one network? "tower=… of NETWORK" is what a tower made of
 * them. */
static int same_network(struct serve_inbox *i, const struct ctr_image_table *t, struct ctr_err *err)
{
    const char *was = ctr_image_table_network(t);
    const char *of = was && ctr_image_table_tower(t) ? strstr(was, " of ") : NULL;
    was = of ? of + 4 : was;
    if (was && !i->known && strstr(was, "preprocess=caffe"))
        i->preprocess = CTR_PREPROCESS_CAFFE;
    ctr_buf_clear(&i->text);
    int rc = ctr_tower_text(i->network, i->preprocess, &i->text, err);
    if (!rc)
        rc = ctr_buf_append(&i->text, "", 1, err);
    if (!rc && was && strcmp(was, "vectors of unknown make") != 0 && strcmp(was, (const char *)i->text.data) != 0)
        rc = ctr_fail(err, CTR_EUSAGE,
                      "its vectors are by %.200s, those of photographs would be by %.200s: they are "
                      "not comparable (--image-weights)",
                      was, (const char *)i->text.data);
    if (!rc && i->known && i->integers != ctr_image_table_integers(t))
        rc = ctr_fail(err, CTR_EUSAGE, "its keys are of another type than those of the inbox: empty the inbox");
    if (!rc && !i->known) { /* constant from here on: photographs that are at work read it without the lock */
        i->known = true;
        i->integers = ctr_image_table_integers(t);
    }
    if (rc)
        ctr_err_file(err, ctr_image_table_path(t));
    return rc;
}

static int open_table(struct serve_inbox *i, struct table *t, const char *path, struct ctr_err *err)
{
    const struct ctr_model_tower_opts to = { .threads = 1 };
    int rc = same_network(i, t->images, err);
    if (!rc && ctr_image_table_tower(t->images))
        rc = ctr_model_tower_open(&t->tower, path, &to, err);
    const int64_t takes = rc ? 0 : t->tower ? ctr_model_tower_inputs(t->tower) : ctr_image_table_width(t->images);
    if (!rc && takes != ctr_tower_width(i->network)) {
        rc = ctr_fail(err, CTR_EUSAGE,
                      "its images are vectors of %lld numbers, the network gives %lld: they are of another one "
                      "(--image-weights)",
                      (long long)takes, (long long)ctr_tower_width(i->network));
        ctr_err_file(err, path);
    }
    const size_t bytes = (size_t)ctr_image_table_width(t->images) * sizeof *i->value;
    float *more = rc || bytes <= i->value_bytes ? i->value : realloc(i->value, bytes);
    if (!rc && !more)
        return ctr_fail_nomem(err, bytes);
    i->value = more;
    i->value_bytes = CTR_MAX(bytes, i->value_bytes);
    return rc;
}

static int fill(struct serve_inbox *i, struct table *t, const char *path, struct ctr_err *err)
{
    struct ctr_buf numbers = { 0 };
    int rc = open_table(i, t, path, err);
    if (!rc && (rc = list(i, &numbers, err)))
        ctr_err_file(err, i->o.dir);
    const int64_t files = (int64_t)(numbers.len / sizeof(int64_t)),
                  *number = (const int64_t *)(const void *)numbers.data;
    if (!rc)
        rc = ctr_image_table_room(t->images, files + ROOM, err);
    for (int64_t k = 0; k < files && !rc; k++)
        rc = add_file(i, t, number[k], err);
    if (files)
        i->number = CTR_MAX(i->number, number[files - 1]);
    ctr_buf_free(&numbers);
    return rc;
}

int serve_inbox_attach(struct serve_inbox *i, struct serve_model *m, const char *path, struct ctr_err *err)
{
    struct table t = { .model = m, .images = i ? ctr_loaded_images(m->loaded) : NULL };
    if (!t.images)
        return 0;
    pthread_mutex_lock(&i->lock);
    int rc = ctr_array_grow(&i->table, i->tables, &i->cap, sizeof *i->table, err);
    if (!rc)
        rc = fill(i, &t, path, err);
    if (!rc)
        i->table[i->tables++] = t;
    else
        ctr_model_tower_free(t.tower);
    pthread_mutex_unlock(&i->lock);
    return rc;
}

void serve_inbox_detach(struct serve_inbox *i, struct serve_model *m)
{
    if (!i)
        return;
    pthread_mutex_lock(&i->lock);
    for (int k = i->tables - 1; k >= 0; k--)
        if (i->table[k].model == m) {
            ctr_model_tower_free(i->table[k].tower);
            i->table[k] = i->table[--i->tables];
        }
    pthread_mutex_unlock(&i->lock);
}

/* ---- a photograph ---- */

static int embed(struct serve_inbox *i, const struct ctr_http_request *q, struct ctr_err *err)
{
    struct ctr_image image = { 0 };
    int rc = ctr_image_decode(&image, q->body, (size_t)q->head.body_bytes, MOST_PIXELS, err);
    if (!rc)
        rc = ctr_image_prepare(&image, ctr_tower_side(i->network), i->preprocess, i->pixels, err);
    ctr_image_free(&image);
    if (!rc)
        rc = ctr_tower_forward(i->network, i->pixels, 1, i->vector, err);
    for (int64_t k = 0; k < ctr_tower_width(i->network) && !rc; k++)
        if (!(fabsf(i->vector[k]) < INFINITY))
            rc = ctr_fail(err, CTR_EDATA, "the vector is not finite: the weights are too large");
    return rc;
}

/* The name of a key as it is hashed: integers in decimal. */
static int name_key(const struct serve_inbox *i, char key[SERVE_KEY_BYTES], struct ctr_err *err)
{
    int64_t number;
    if (!i->integers)
        return 0;
    if (!ctr_parse_i64(key, strlen(key), &number))
        return ctr_fail(err, CTR_EDATA, "keys of images are integers, and '%.80s' is none", key);
    key[ctr_fmt_i64(key, number)] = 0;
    return 0;
}

static int64_t room_of(const struct ctr_image_table *t)
{
    return ctr_image_table_rows(t) - ctr_image_table_images(t) - 1;
}

static int keep(struct serve_inbox *i, const char *key, struct ctr_err *err)
{
    int rc = 0;
    pthread_mutex_lock(&i->lock);
    for (int k = 0; k < i->tables && !rc; k++)
        if (ctr_image_table_now(i->table[k].images) >= room_of(i->table[k].images))
            rc = ctr_fail(err, CTR_ELARGE, "the inbox is full until the model or the file of images is replaced");
    if (!rc)
        rc = write_file(i, key, err);
    for (int k = 0; k < i->tables && !rc; k++)
        rc = add_image(i, &i->table[k], (struct ctr_str){ key, strlen(key) }, i->vector, err);
    pthread_mutex_unlock(&i->lock);
    return rc;
}

static void refuse(struct serve_inbox *i, struct ctr_http_request *q, int rc, const struct ctr_err *err)
{
    pthread_mutex_lock(&i->s->metrics.lock);
    i->s->metrics.bad_images++;
    pthread_mutex_unlock(&i->s->metrics.lock);
    ctr_http_refuse(q,
                    rc == CTR_EDATA                        ? 400
                    : rc == CTR_ELARGE || rc == CTR_ENOMEM ? 503
                                                           : 500,
                    "%s", ctr_err_text(err).s);
}

static void take(struct serve_inbox *i, struct ctr_http_request *q)
{
    char key[SERVE_KEY_BYTES];
    struct ctr_err err = { 0 };
    if (serve_too_late(i->s, q))
        return;
    (void)serve_image_key(q->head.path, key); /* it was looked at */
    int rc = name_key(i, key, &err);
    if (!rc)
        rc = embed(i, q, &err);
    if (!rc)
        rc = keep(i, key, &err);
    if (!rc)
        rc = ctr_buf_printf(&q->answer, &err, "{\"width\":%lld}\n", (long long)ctr_tower_width(i->network));
    if (rc) {
        refuse(i, q, rc, &err);
        return;
    }
    pthread_mutex_lock(&i->s->metrics.lock);
    i->s->metrics.images++;
    pthread_mutex_unlock(&i->s->metrics.lock);
}

static struct ctr_http_request *next(struct serve_inbox *i)
{
    pthread_mutex_lock(&i->queue_lock);
    while (!i->first && !i->stopping)
        pthread_cond_wait(&i->some, &i->queue_lock);
    struct ctr_http_request *q = i->stopping ? NULL : i->first;
    if (q && !(i->first = q->next))
        i->last = &i->first;
    pthread_mutex_unlock(&i->queue_lock);
    return q;
}

static void *work(void *arg)
{
    struct serve_inbox *i = arg;
    for (struct ctr_http_request *q; (q = next(i));) {
        take(i, q);
        pthread_mutex_lock(&i->queue_lock);
        i->waiting--;
        pthread_mutex_unlock(&i->queue_lock);
        ctr_http_done(i->s->http, q);
    }
    return NULL;
}

bool serve_inbox_add(struct serve_inbox *i, struct ctr_http_request *q)
{
    pthread_mutex_lock(&i->queue_lock);
    const bool room = i->waiting <= MOST_WAITING; /* and one that is at work */
    if (room) {
        i->waiting++;
        q->next = NULL;
        *i->last = q;
        i->last = &q->next;
        pthread_cond_signal(&i->some);
    }
    pthread_mutex_unlock(&i->queue_lock);
    return room;
}

int serve_inbox_start(struct serve_inbox *i, struct serve *s, struct ctr_err *err)
{
    i->s = s;
    if (ctr_thread_start(&i->thread, work, i))
        return ctr_fail_sys(err, "cannot start a thread");
    i->started = true;
    return 0;
}

void serve_inbox_stop(struct serve_inbox *i)
{
    if (!i || !i->started)
        return;
    pthread_mutex_lock(&i->queue_lock);
    i->stopping = true;
    pthread_cond_broadcast(&i->some);
    pthread_mutex_unlock(&i->queue_lock);
    pthread_join(i->thread, NULL);
    i->started = false;
}

/* ---- opening ---- */

static int open_all(struct serve_inbox *i, struct ctr_err *err)
{
    const struct ctr_dev_want want = { .device = "cpu", .threads = 1 };
    i->dir = ctr_open(i->o.dir, O_RDONLY | O_DIRECTORY, 0);
    int rc = i->dir < 0 ? ctr_fail_sys(err, "cannot open the folder") : 0;
    if (!rc && !i->o.check && flock(i->dir, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        rc = ctr_fail(err, CTR_ESYS, "another server fills this inbox: give it another folder");
    if (rc) {
        ctr_err_file(err, i->o.dir);
        return rc;
    }
    rc = ctr_dev_open(&i->dev, &want, err);
    if (!rc)
        rc = ctr_tower_open(&i->network, i->o.weights, i->dev, err);
    if (rc)
        return rc;
    const size_t side = (size_t)ctr_tower_side(i->network), width = (size_t)ctr_tower_width(i->network);
    i->pixels = malloc(side * side * 3 * sizeof *i->pixels);
    i->vector = malloc(width * sizeof *i->vector);
    i->read = malloc(width * sizeof *i->read);
    return i->pixels && i->vector && i->read ? 0 : ctr_fail_nomem(err, side * side * 3 * sizeof *i->pixels);
}

int serve_inbox_open(struct serve_inbox **out, const struct serve_inbox_opts *o, struct ctr_err *err)
{
    struct serve_inbox *i = *out = calloc(1, sizeof *i);
    if (!i)
        return ctr_fail_nomem(err, sizeof *i);
    i->o = *o;
    i->dir = -1;
    i->last = &i->first;
    pthread_mutex_init(&i->lock, NULL);
    pthread_mutex_init(&i->queue_lock, NULL);
    pthread_cond_init(&i->some, NULL);
    const int rc = open_all(i, err);
    if (rc) {
        serve_inbox_free(i);
        *out = NULL;
    }
    return rc;
}

void serve_inbox_free(struct serve_inbox *i)
{
    if (!i)
        return;
    ctr_tower_free(i->network);
    ctr_dev_free(i->dev);
    if (i->dir >= 0)
        close(i->dir);
    ctr_buf_free(&i->text);
    pthread_mutex_destroy(&i->lock);
    pthread_mutex_destroy(&i->queue_lock);
    pthread_cond_destroy(&i->some);
    free(i->table);
    free(i->pixels);
    free(i->vector);
    free(i->read);
    free(i->value);
    free(i);
}

#else

int serve_inbox_open(struct serve_inbox **i, const struct serve_inbox_opts *o, struct ctr_err *err)
{
    (void)o;
    *i = NULL;
    return ctr_fail(err, CTR_EUSAGE, "--image-inbox: this program was built without libjpeg and libpng");
}

int serve_inbox_attach(struct serve_inbox *i, struct serve_model *m, const char *path, struct ctr_err *err)
{
    (void)i, (void)m, (void)path, (void)err;
    return 0;
}

int serve_inbox_start(struct serve_inbox *i, struct serve *s, struct ctr_err *err)
{
    (void)i, (void)s, (void)err;
    return 0;
}

bool serve_inbox_add(struct serve_inbox *i, struct ctr_http_request *q)
{
    (void)i, (void)q;
    return false;
}

void serve_inbox_detach(struct serve_inbox *i, struct serve_model *m)
{
    (void)i, (void)m;
}

void serve_inbox_stop(struct serve_inbox *i)
{
    (void)i;
}

void serve_inbox_free(struct serve_inbox *i)
{
    (void)i;
}

#endif
