/* SPDX-License-Identifier: Apache-2.0
 *
 * queued: runs a source on its own thread, a few batches ahead of its caller. The batches are in a ring: `head` of them
 * were made and `tail` released; slot i mod slots belongs to the thread until it is made, then to the caller. A full
 * ring stops the thread, which limits its lead; so do, with --memory, large batches. */
#include "common/stream/arrow.h"
#include "common/base/memory.h"

#include <pthread.h>
#include <stdlib.h>

/* A batch's dictionary belongs to the source, which changes it for the next batch: what is made ahead has copies. One
 * is kept for the batches that have the same dictionary. Only the thread makes, counts and frees them. */
struct copy {
    uint64_t id;
    int uses; /* slots, and queued.last */
    struct ctr_colbuf values;
    const struct ctr_col *view;
};

struct slot {
    struct copy **copy; /* by column */
    struct ctr_batchbuf rows;
    struct ctr_batch view;
    const char *name; /* of the current file */
    int64_t bytes;    /* with --memory: of its values, while it is made and not released */
    int rc;           /* the source's result; err has the reason */
    struct ctr_err err;
};

struct queued {
    struct ctr_batch_source below;
    struct ctr_stage_times *times;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t made, given_back;
    struct slot *slot;
    int slots;
    struct copy **last; /* by column: of the dictionary that came last, if its id is known */
    int64_t head, tail;
    int64_t held, most; /* bytes of all slots, and how many they may have when another batch is made */
    bool stop, has;     /* has: the caller uses slot tail */
    const char *name;
};

/* From `from` until now nothing was done. */
static void waited(int64_t from_ns, int64_t *sum_ns, struct ctr_stage_waits *w)
{
    const int64_t now_ns = ctr_clock_ns();
    *sum_ns += now_ns - from_ns;
    if (!w || w->n == CTR_STAGE_WAITS)
        return;
    w->from_ns[w->n] = from_ns;
    w->to_ns[w->n++] = now_ns;
}

/* *at refers to c, or to nothing, from now on. */
static void refer(struct copy **at, struct copy *c)
{
    struct copy *before = *at;
    if (c)
        c->uses++;
    *at = c;
    if (!before || --before->uses)
        return;
    ctr_colbuf_free(&before->values);
    free(before);
}

static int copy_dictionary(struct copy **at, const struct ctr_field *f, const struct ctr_col *dict, struct ctr_err *err)
{
    struct ctr_field plain = *f;
    struct copy *c = calloc(1, sizeof *c);
    if (!c)
        return ctr_fail_nomem(err, sizeof *c);
    refer(at, c);
    plain.dict = false;
    int rc = ctr_colbuf_init(&c->values, &plain, err);
    if (!rc)
        rc = ctr_colbuf_range(&c->values, dict, 0, dict->rows, err);
    c->view = ctr_colbuf_view(&c->values);
    c->id = c->values.view.id = dict->id;
    return rc;
}

static int own_dictionaries(struct queued *q, struct slot *s, struct ctr_err *err)
{
    const struct ctr_schema *schema = s->rows.schema;
    int rc = 0;
    for (int i = 0; i < schema->n && !rc; i++) {
        struct ctr_colbuf *c = &s->rows.col[i];
        if (!c->dict || !schema->f[i].dict)
            continue;
        if (c->dict->id && q->last[i] && q->last[i]->id == c->dict->id)
            refer(&s->copy[i], q->last[i]);
        else
            rc = copy_dictionary(&s->copy[i], &schema->f[i], c->dict, err);
        if (!rc && s->copy[i]->id)
            refer(&q->last[i], s->copy[i]);
        c->dict = rc ? NULL : s->copy[i]->view;
    }
    return rc;
}

static void make(struct queued *q, struct slot *s)
{
    const struct ctr_batch *b;
    s->rc = s->rows.schema ? 0 : ctr_batchbuf_init(&s->rows, ctr_batch_source_schema(&q->below), &s->err);
    if (s->rc)
        return;
    ctr_batchbuf_clear(&s->rows);
    for (int i = 0; i < s->rows.schema->n; i++) { /* those of the batch before */
        refer(&s->copy[i], NULL);
        s->rows.col[i].dict = NULL;
    }
    s->rc = ctr_batch_source_next(&q->below, &b, &s->err);
    s->name = ctr_batch_source_name(&q->below);
    if (s->rc <= 0)
        return;
    int rc = ctr_batchbuf_range(&s->rows, b, 0, b->rows, &s->err);
    if (!rc)
        rc = own_dictionaries(q, s, &s->err);
    s->rc = rc ? rc : s->rc;
    s->view = *ctr_batchbuf_view(&s->rows);
    s->view.first_row = b->first_row;
    s->bytes = q->most < INT64_MAX ? ctr_batch_bytes(b) : 0;
}

/* A large batch leaves no memory behind. */
static void release(struct queued *q, struct slot *s)
{
    q->held -= s->bytes;
    if (s->bytes > q->most / q->slots)
        ctr_batchbuf_free(&s->rows);
    s->bytes = 0;
    q->tail++;
    q->has = false;
    pthread_cond_signal(&q->given_back);
}

static bool is_full(const struct queued *q)
{
    return q->head - q->tail == q->slots || (q->head > q->tail && q->held > q->most);
}

static void *run(void *arg)
{
    struct queued *q = arg;
    const int64_t start = ctr_clock_ns();
    bool last = false;
    (void)ctr_float_mode(CTR_FLOAT_IEEE);
    if (q->times)
        q->times->start_ns = start;
    while (!last) {
        pthread_mutex_lock(&q->lock);
        const int64_t before = is_full(q) ? ctr_clock_ns() : 0;
        while (is_full(q) && !q->stop)
            pthread_cond_wait(&q->given_back, &q->lock);
        if (before && q->times)
            waited(before, &q->times->blocked_ns, q->times->blocked);
        struct slot *s = &q->slot[q->head % q->slots];
        const bool stop = q->stop;
        pthread_mutex_unlock(&q->lock);
        if (stop)
            break;
        make(q, s);
        last = s->rc <= 0;
        pthread_mutex_lock(&q->lock);
        q->head++;
        q->held += s->bytes;
        if (last && q->times)
            q->times->ran_ns = ctr_clock_ns() - start;
        pthread_cond_signal(&q->made);
        pthread_mutex_unlock(&q->lock);
    }
    return NULL;
}

/* After the end, further calls return the same result, an error or none. */
static int queued_next(void *source, const struct ctr_batch **b, struct ctr_err *err)
{
    struct queued *q = source;
    pthread_mutex_lock(&q->lock);
    if (q->has)
        release(q, &q->slot[q->tail % q->slots]);
    const int64_t before = q->head == q->tail ? ctr_clock_ns() : 0;
    while (q->head == q->tail)
        pthread_cond_wait(&q->made, &q->lock);
    if (before && q->times)
        waited(before, &q->times->starved_ns, q->times->starved);
    const struct slot *s = &q->slot[q->tail % q->slots];
    pthread_mutex_unlock(&q->lock);
    q->name = s->name;
    q->has = s->rc > 0;
    *b = &s->view;
    if (s->rc < 0)
        *err = s->err;
    return s->rc;
}

static const char *queued_name(const void *source)
{
    return ((const struct queued *)source)->name;
}

static void free_slots(struct queued *q)
{
    const int n = ctr_batch_source_schema(&q->below)->n;
    for (int i = 0; q->slot && i < q->slots; i++) {
        for (int k = 0; q->slot[i].copy && k < n; k++)
            refer(&q->slot[i].copy[k], NULL);
        free(q->slot[i].copy);
        ctr_batchbuf_free(&q->slot[i].rows);
    }
    for (int k = 0; q->last && k < n; k++)
        refer(&q->last[k], NULL);
    free(q->last);
    free(q->slot);
    pthread_mutex_destroy(&q->lock);
    pthread_cond_destroy(&q->made);
    pthread_cond_destroy(&q->given_back);
    free(q);
}

static int queued_leave(void *source, const struct ctr_leave *l, const char **why, struct ctr_err *err)
{
    struct ctr_leave leave = *l;
    leave.unwanted = "a queue copies them";
    return ctr_batch_source_leave(&((struct queued *)source)->below, &leave, why, err);
}

static void queued_close(void *source)
{
    struct queued *q = source;
    pthread_mutex_lock(&q->lock);
    q->stop = true;
    pthread_cond_signal(&q->given_back);
    pthread_mutex_unlock(&q->lock);
    pthread_join(q->thread, NULL);
    struct ctr_batch_source below = q->below;
    free_slots(q); /* they use its schema */
    ctr_batch_source_close(&below);
}

struct ctr_stage_text ctr_stage_text(const char *name, int64_t ran_ns, int64_t waited_ns, int64_t blocked_ns)
{
    struct ctr_stage_text t;
    const double all = (double)CTR_MAX(ran_ns, (int64_t)1), waited = 100 * (double)waited_ns / all,
                 blocked = 100 * (double)blocked_ns / all;
    ctr_format(t.s, sizeof t.s, "stage %.80s: %.0f%% busy, %.0f%% waiting, %.0f%% blocked of %.2f s", name,
               CTR_MAX(100 - waited - blocked, 0.0), CTR_MIN(waited, 100.0), blocked, (double)ran_ns / 1e9);
    return t;
}

int ctr_batch_source_queue(struct ctr_batch_source *s, int slots, struct ctr_stage_times *times, struct ctr_err *err)
{
    static const struct ctr_batch_source_ops ops = { NULL, queued_next, queued_name, queued_close, NULL, queued_leave };
    struct queued *q = calloc(1, sizeof *q);
    if (!q)
        return ctr_fail_nomem(err, sizeof *q);
    *q = (struct queued){ .below = *s, .times = times, .slots = slots, .name = ctr_batch_source_name(s) };
    q->most = ctr_memory_part();
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->made, NULL);
    pthread_cond_init(&q->given_back, NULL);
    q->slot = calloc((size_t)slots, sizeof *q->slot);
    const size_t columns = (size_t)ctr_batch_source_schema(s)->n + 1;
    q->last = calloc(columns, sizeof *q->last);
    int rc = q->slot && q->last ? 0 : ctr_fail_nomem(err, (size_t)slots * sizeof *q->slot);
    for (int i = 0; !rc && i < slots; i++)
        if (!(q->slot[i].copy = calloc(columns, sizeof *q->slot[i].copy)))
            rc = ctr_fail_nomem(err, columns * sizeof *q->slot[i].copy);
    for (int i = 0; !rc && i < slots; i++)
        rc = ctr_batchbuf_init(&q->slot[i].rows, ctr_batch_source_schema(s), err);
    if (!rc && ctr_thread_start(&q->thread, run, q))
        rc = ctr_fail(err, CTR_ENOMEM, "no thread can be started");
    if (rc) {
        free_slots(q);
        return rc;
    }
    *s = (struct ctr_batch_source){ &ops, q };
    return 0;
}
