/* SPDX-License-Identifier: Apache-2.0
 *
 * parquet_ahead: spans of row groups as batches, by threads ahead of the one that takes them. A task is one column of
 * one batch; the batches of a column follow each other, columns wait for no other one. A thread takes a task of the
 * first span that has one, so that later spans are begun only where the columns of the first are not enough to do.
 *
 * Invariants: what a span's column holds belongs to the thread that has its task (`busy`). A batch belongs to the tasks
 * that fill it until all have, then to the caller. Everything else changes with the lock held. The threads are not of a
 * ctr_pool, which has its caller wait. */
#include "common/base/memory.h"
#include "common/parquet/parquet_ahead.h"

#include <pthread.h>
#include <stdlib.h>

/* Batches of the first span that may be there whatever the others take; bytes of batches a thread may be ahead; what
 * pages and dictionary of a column take about at most; what a thread wants of ctr_memory_batch, an eighth of --memory.
 */
enum { AHEAD = 2, AHEAD_BYTES = 4 << 20, COLUMN_BYTES = 2 << 20, THREAD_BYTES = 4 << 20 };

/* The rows of a column in one batch. */
struct rows {
    struct ctr_colbuf out, mixed, converted, weights;
    struct ctr_col dict, pairs[2];
};

struct batch {
    int64_t number, rows, bytes;
    int left; /* columns that are not there yet */
    int rc;   /* of the first column that failed */
    int failed;
    struct ctr_err err;
    struct rows *col;
    struct ctr_col *view;
    struct batch *next;
};

/* How far a column is. */
struct place {
    struct batch *batch; /* the one to fill; NULL: not made, or not known */
    int64_t done;        /* batches */
    int64_t left;        /* rows of the row group that was begun */
    int group;           /* the next one to begin */
    bool busy, failed;
};

struct part {
    struct pq_span span;
    int64_t batches, taken;
    struct pq_column *column;
    struct place *at;
    int turn; /* the column to look at first */
    struct batch *first, *last;
};

struct task {
    struct part *part;
    int column;
    struct batch *batch;
};

struct pq_ahead {
    const struct ctr_schema *schema;
    struct ctr_text_column *const *as;
    int64_t want, read, span_bytes;
    int64_t budget, bytes,
        free_bytes;    /* of batches: that may be used, that are, and of those that wait to be used again */
    struct part *part; /* a ring: n of `jobs`, from `head` on */
    int jobs, head, n, opened;
    struct batch *lent, *free;
    int rc; /* no memory for a batch */
    struct ctr_err err;
    pthread_mutex_t lock;
    pthread_cond_t work, done; /* there may be a task; a batch may be whole */
    pthread_t *thread;
    int threads, asleep;
    bool stop;
};

/* A span of two row groups, of 1,500 and 500 rows, with the columns user and ad, in batches of 1,000 rows has four
 * tasks. Two threads may end them in this order:
 *
 *     task      reads                                place of the column after it     batch
 *     user, 0   rows 0 to 999 of group 0             done 1, left 500, group 1        0: left 1
 *     user, 1   rows 1,000 to 1,499, then group 1    done 2, left 0, group 2          1: left 1
 *     ad, 0     as user, 0                           done 1, left 500, group 1        0: left 0, to the caller
 *     ad, 1     as user, 1                           done 2, left 0, group 2          1: left 0
 *
 * A task exchanges the buffers of column and batch (swap_rows), so that rows are read where the caller will see them,
 * and the column keeps what goes from batch to batch: its page, its dictionary, its place. */

/* ---- rows of a column, in the buffers of a batch ---- */

static void swap(struct ctr_colbuf *a, struct ctr_colbuf *b)
{
    const struct ctr_colbuf was = *a;
    *a = *b;
    *b = was;
}

/* Exchange the buffers of column and batch. */
static void swap_rows(struct pq_column *c, struct rows *r)
{
    swap(&c->out, &r->out);
    swap(&c->mixed, &r->mixed);
    if (c->from != PQ_FROM_PATH) /* which has its value there */
        swap(&c->converted, &r->converted);
    if (c->weights)
        swap(&c->weights->out, &r->weights);
}

/* An empty column of this type. */
static int fit(struct ctr_colbuf *b, const struct ctr_field *f, struct ctr_err *err)
{
    const bool list = ctr_type_list(f->type) && !f->dict;
    if (b->type == f->type && b->is_dict == f->dict && b->width == f->width &&
        (list ? b->item && b->item->type == f->item : !b->item)) {
        ctr_colbuf_clear(b);
        return 0;
    }
    ctr_colbuf_free(b);
    return ctr_colbuf_init(b, f, err);
}

static int begin_rows(struct pq_column *c, struct ctr_err *err)
{
    static const struct ctr_field text = { .type = CTR_UTF8 };
    int rc = fit(&c->out, &c->form, err);
    if (!rc && c->dict)
        rc = fit(&c->mixed, &text, err);
    if (!rc && (c->converts || c->fixes))
        rc = fit(&c->converted, &c->as->type, err);
    if (!rc && c->weights)
        rc = fit(&c->weights->out, &c->weights->form, err);
    c->is_mixed = false;
    return rc;
}

static int64_t bytes_of(const struct ctr_colbuf *b)
{
    return (int64_t)(b->data.cap + b->valid.cap + b->offsets.cap + b->weight.cap) + (b->item ? bytes_of(b->item) : 0);
}

static int64_t bytes_of_rows(const struct rows *r)
{
    return bytes_of(&r->out) + bytes_of(&r->mixed) + bytes_of(&r->converted) + bytes_of(&r->weights);
}

/* The rows as they are handed out: nothing of the view lies in the column. */
static void end_rows(struct pq_column *c, struct rows *r, const struct ctr_col *from, struct ctr_col *view)
{
    *view = *from;
    if (c->weights) {
        r->pairs[1] = c->pairs[1];
        view->item = &r->pairs[1];
    }
    if (view->dict) {
        r->dict = *view->dict;
        view->dict = &r->dict;
    }
}

/* Up to `rows` rows of column i. A row group ends when its last row is read; groups without rows behind the last batch
 * are begun and ended, too. */
static int read_groups(const struct part *s, int i, int64_t rows, bool last, struct ctr_err *err)
{
    struct pq_column *c = &s->column[i];
    struct place *at = &s->at[i];
    const struct pq_file *f = s->span.file;
    int rc = 0;
    while (!rc && (rows || (last && at->group < s->span.group + s->span.groups))) {
        if (!at->left) {
            const struct pq_group *g = &f->footer.group[at->group++];
            at->left = g->rows;
            rc = ctr_pq_column_start(c, f->fd, f->size, g->chunk, err);
        }
        const int64_t n = CTR_MIN(rows, at->left);
        if (!rc && n)
            rc = ctr_pq_column_read(c, n, err);
        rows -= n;
        at->left -= n;
        if (!rc && !at->left)
            rc = ctr_pq_column_finish(c, err);
    }
    return rc;
}

/* ---- tasks: with the lock held ---- */

static struct part *part_at(const struct pq_ahead *a, int k)
{
    return &a->part[(a->head + k) % a->jobs];
}

static void free_batch(struct batch *b, int columns)
{
    for (int i = 0; b && b->col && i < columns; i++) {
        ctr_colbuf_free(&b->col[i].out);
        ctr_colbuf_free(&b->col[i].mixed);
        ctr_colbuf_free(&b->col[i].converted);
        ctr_colbuf_free(&b->col[i].weights);
    }
    if (b) {
        free(b->col);
        free(b->view);
    }
    free(b);
}

static struct batch *new_batch(struct pq_ahead *a)
{
    const size_t n = (size_t)a->schema->n + 1;
    struct batch *b = a->free;
    if (b) {
        a->free = b->next;
        a->free_bytes -= b->bytes;
        a->bytes += b->bytes;
        return b;
    }
    b = calloc(1, sizeof *b);
    if (b) {
        b->col = calloc(n, sizeof *b->col);
        b->view = calloc(n, sizeof *b->view);
    }
    if (!b || !b->col || !b->view) {
        free_batch(b, 0);
        a->rc = ctr_fail_nomem(&a->err, n * sizeof *b->col);
        return NULL;
    }
    return b;
}

/* The batch of this number, which is there or comes next. */
static struct batch *batch_at(struct pq_ahead *a, struct part *s, int64_t number)
{
    struct batch *b = s->first;
    while (b && b->number != number)
        b = b->next;
    if (b || !(b = new_batch(a)))
        return b;
    b->number = number;
    b->rows = CTR_MIN(a->want, s->span.rows - number * a->want);
    b->left = b->failed = a->schema->n;
    b->rc = 0;
    b->next = NULL;
    if (s->last)
        s->last->next = b;
    else
        s->first = b;
    s->last = b;
    return b;
}

/* A task of the first span that has one. */
static bool take(struct pq_ahead *a, struct task *t)
{
    const bool ahead = a->threads && a->bytes < a->budget;
    for (int k = 0; k < a->n && !a->rc; k++) {
        struct part *s = part_at(a, k);
        const int64_t most = ahead ? s->batches : k ? 0 : CTR_MIN(s->batches, s->taken + (a->threads ? AHEAD : 1));
        for (int i = 0; most && i < a->schema->n; i++) {
            const int column = s->turn;
            struct place *at = &s->at[column];
            s->turn = column + 1 == a->schema->n ? 0 : column + 1;
            if (at->busy || at->failed || at->done >= most)
                continue;
            if (!at->batch)
                at->batch = batch_at(a, s, at->done);
            if (!at->batch)
                return false;
            at->busy = true;
            *t = (struct task){ s, column, at->batch };
            return true;
        }
    }
    return false;
}

/* Do the task: the lock is held before and after. */
static void run(struct pq_ahead *a, const struct task *t)
{
    struct part *s = t->part;
    struct pq_column *c = &s->column[t->column];
    struct batch *b = t->batch;
    struct rows *r = &b->col[t->column];
    struct ctr_err err = { 0 };
    const struct ctr_col *view = NULL;
    pthread_mutex_unlock(&a->lock);
    const int64_t had = bytes_of_rows(r);
    swap_rows(c, r);
    int rc = begin_rows(c, &err);
    if (!rc)
        rc = read_groups(s, t->column, b->rows, b->number + 1 == s->batches, &err);
    if (!rc)
        rc = ctr_pq_column_view(c, &view, &err);
    if (!rc)
        end_rows(c, r, view, &b->view[t->column]);
    ctr_pq_column_skip(c, b->rows);
    swap_rows(c, r);
    const int64_t bytes = bytes_of_rows(r) - had;
    const int64_t read = ctr_pq_column_bytes(c);
    c->bytes_read = 0;
    if (c->weights)
        c->weights->bytes_read = 0;
    pthread_mutex_lock(&a->lock);
    struct place *at = &s->at[t->column];
    a->read += read;
    a->bytes += bytes;
    b->bytes += bytes;
    if (rc && t->column < b->failed) {
        b->failed = t->column;
        b->rc = rc;
        b->err = err;
    }
    at->busy = false;
    at->failed = rc != 0;
    at->done++;
    at->batch = b->next;
    if (!--b->left)
        pthread_cond_signal(&a->done);
    if (a->asleep)
        pthread_cond_signal(&a->work);
}

static void *thread_main(void *arg)
{
    struct pq_ahead *a = arg;
    struct task t;
    ctr_float_mode(CTR_FLOAT_IEEE);
    pthread_mutex_lock(&a->lock);
    while (!a->stop) {
        if (take(a, &t)) {
            run(a, &t);
            continue;
        }
        a->asleep++;
        pthread_cond_wait(&a->work, &a->lock);
        a->asleep--;
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

/* ---- spans ---- */

int ctr_pq_ahead_new(struct pq_ahead **out, const struct ctr_schema *s, struct ctr_text_column *const *as, int jobs,
                     int64_t want, struct ctr_err *err)
{
    struct pq_ahead *a = calloc(1, sizeof *a);
    *out = NULL;
    jobs = (int)CTR_MAX(CTR_MIN(jobs, ctr_memory_batch() / THREAD_BYTES), 1);
    if (a) {
        a->part = calloc((size_t)jobs, sizeof *a->part);
        a->thread = calloc((size_t)jobs, sizeof *a->thread);
    }
    if (!a || !a->part || !a->thread) {
        if (a) {
            free(a->part);
            free(a->thread);
        }
        free(a);
        return ctr_fail_nomem(err, (size_t)jobs * sizeof *a->part);
    }
    a->schema = s;
    a->as = as;
    a->jobs = jobs;
    a->want = want;
    a->budget = CTR_MIN(ctr_memory_batch(), (int64_t)jobs * AHEAD_BYTES);
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->work, NULL);
    pthread_cond_init(&a->done, NULL);
    *out = a;
    return 0;
}

int ctr_pq_ahead_spans(const struct pq_ahead *a)
{
    return a->n;
}

bool ctr_pq_ahead_room(const struct pq_ahead *a)
{
    /* half of --memory, of which ctr_memory_batch is an eighth */
    return !a->n || (a->n < a->jobs && (a->n + 1) * a->span_bytes / 4 <= ctr_memory_batch());
}

/* About what the columns of a span take while they are read. */
static int64_t reading_bytes(const struct pq_ahead *a, const struct part *s)
{
    const struct pq_group *g = &s->span.file->footer.group[s->span.group];
    int64_t bytes = 0;
    for (int i = 0; i < a->schema->n; i++)
        if (s->column[i].from == PQ_FROM_FILE) {
            const int64_t n = g->chunk[s->column[i].leaf->column].bytes;
            bytes += CTR_MIN(n, PQ_WINDOW) + CTR_MIN(CTR_MIN(n, COLUMN_BYTES) * 4, COLUMN_BYTES);
        }
    return bytes;
}

static int open_columns(struct pq_ahead *a, struct part *s, struct ctr_err *err)
{
    const size_t n = (size_t)a->schema->n + 1;
    int rc = 0;
    if (s->column)
        return 0;
    s->at = calloc(n, sizeof *s->at);
    s->column = s->at ? calloc(n, sizeof *s->column) : NULL;
    if (!s->column)
        return ctr_fail_nomem(err, n * sizeof *s->column);
    for (int i = 0; !rc && i < a->schema->n; i++)
        rc = ctr_pq_column_open(&s->column[i], a->schema, i, a->as[i], err);
    return rc;
}

static int set_columns(struct pq_ahead *a, struct part *s, const struct pq_column *columns, struct ctr_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < a->schema->n; i++) {
        struct pq_column *c = &s->column[i];
        const struct pq_column *like = &columns[i];
        if (like->from == PQ_FROM_PATH)
            rc = ctr_pq_column_constant(c, (const char *)like->text.data, err);
        else
            rc = ctr_pq_column_file(c, like->leaf, err);
        if (!rc && c->weights)
            rc = ctr_pq_column_file(c->weights, like->weights->leaf, err);
        ctr_pq_column_skip(c, s->span.row);
        s->at[i] = (struct place){ .group = s->span.group };
    }
    return rc;
}

/* Fewer threads than were asked for give the same batches. */
static void start_threads(struct pq_ahead *a)
{
    while (a->threads + 1 < a->jobs && !ctr_thread_start(&a->thread[a->threads], thread_main, a))
        a->threads++;
    a->jobs = CTR_MAX(a->threads + 1, a->n);
}

int ctr_pq_ahead_give(struct pq_ahead *a, const struct pq_span *span, const struct pq_column *columns,
                      struct ctr_err *err)
{
    struct part *s = part_at(a, a->n); /* which no thread knows yet */
    s->span = *span;
    s->batches = span->rows ? (span->rows - 1) / a->want + 1 : 1;
    s->taken = 0;
    s->turn = 0;
    int rc = open_columns(a, s, err);
    if (!rc)
        rc = set_columns(a, s, columns, err);
    if (rc)
        return rc;
    a->span_bytes = CTR_MAX(a->span_bytes, reading_bytes(a, s));
    pthread_mutex_lock(&a->lock);
    if (!a->opened++ && a->jobs > 1)
        start_threads(a);
    span->file->spans++;
    a->n++;
    pthread_cond_broadcast(&a->work);
    pthread_mutex_unlock(&a->lock);
    return 0;
}

const struct pq_file *ctr_pq_ahead_file(const struct pq_ahead *a)
{
    return a->n ? part_at(a, 0)->span.file : NULL;
}

/* ---- batches ---- */

static void give_back(struct pq_ahead *a)
{
    struct batch *b = a->lent;
    if (!b)
        return;
    a->lent = NULL;
    a->bytes -= b->bytes;
    if (a->bytes + a->free_bytes + b->bytes > a->budget && a->free) {
        free_batch(b, a->schema->n);
    } else {
        a->free_bytes += b->bytes;
        b->next = a->free;
        a->free = b;
    }
    if (a->asleep)
        pthread_cond_broadcast(&a->work);
}

/* The next batch, once it is whole; the caller works, too. NULL: a->rc. */
static struct batch *wait_for(struct pq_ahead *a, struct part *s)
{
    struct batch *b = batch_at(a, s, s->taken);
    struct task t;
    while (b && b->left && !a->rc)
        if (take(a, &t))
            run(a, &t);
        else if (!a->rc)
            pthread_cond_wait(&a->done, &a->lock);
    return a->rc ? NULL : b;
}

int ctr_pq_ahead_next(struct pq_ahead *a, struct ctr_batch *out, struct ctr_err *err)
{
    struct part *s = part_at(a, 0);
    const enum ctr_float_mode before = ctr_float_mode(CTR_FLOAT_IEEE);
    int rc = 0;
    pthread_mutex_lock(&a->lock);
    give_back(a);
    if (s->taken < s->batches) {
        struct batch *b = wait_for(a, s);
        rc = b ? b->rc : a->rc;
        if (rc) {
            *err = b ? b->err : a->err;
        } else {
            s->first = b->next;
            s->last = s->first ? s->last : NULL;
            s->taken++;
            a->lent = b;
            *out = (struct ctr_batch){ .schema = a->schema, .rows = b->rows, .col = b->view };
            rc = 1;
        }
    }
    pthread_mutex_unlock(&a->lock);
    ctr_float_mode(before);
    return rc;
}

/* Losses of a span, added in the order of spans, so that the first value is the first of all. */
static void add_losses(struct pq_column *to, struct pq_column *from, int i)
{
    struct ctr_text_losses *a = to->job.loss, *b = from->job.loss;
    to->lost += from->lost;
    from->lost = 0;
    for (int k = 0; a && b && k < CTR_NLOSSES; k++) {
        if (!a[i].n[k])
            a[i].first[k] = b[i].first[k];
        a[i].n[k] += b[i].n[k];
        b[i].n[k] = 0;
    }
}

struct pq_file *ctr_pq_ahead_done(struct pq_ahead *a, struct pq_column *columns)
{
    struct part *s = part_at(a, 0);
    pthread_mutex_lock(&a->lock);
    give_back(a);
    a->head = (a->head + 1) % a->jobs;
    a->n--;
    pthread_mutex_unlock(&a->lock);
    for (int i = 0; i < a->schema->n; i++)
        add_losses(&columns[i], &s->column[i], i);
    s->span.file->spans--;
    return s->span.file;
}

int64_t ctr_pq_ahead_bytes(struct pq_ahead *a)
{
    pthread_mutex_lock(&a->lock);
    const int64_t read = a->read;
    pthread_mutex_unlock(&a->lock);
    return read;
}

void ctr_pq_ahead_stop(struct pq_ahead *a)
{
    pthread_mutex_lock(&a->lock);
    a->stop = true;
    pthread_cond_broadcast(&a->work);
    pthread_mutex_unlock(&a->lock);
    for (int i = 0; i < a->threads; i++)
        pthread_join(a->thread[i], NULL);
    a->threads = 0;
}

void ctr_pq_ahead_free(struct pq_ahead *a)
{
    if (!a)
        return;
    ctr_pq_ahead_stop(a);
    give_back(a);
    for (int k = 0; k < a->jobs; k++) {
        struct part *s = &a->part[k];
        for (int i = 0; s->column && i < a->schema->n; i++)
            ctr_pq_column_free(&s->column[i]);
        for (struct batch *b = s->first, *next; b; b = next) {
            next = b->next;
            free_batch(b, a->schema->n);
        }
        free(s->column);
        free(s->at);
    }
    for (struct batch *b = a->free, *next; b; b = next) {
        next = b->next;
        free_batch(b, a->schema->n);
    }
    pthread_cond_destroy(&a->work);
    pthread_cond_destroy(&a->done);
    pthread_mutex_destroy(&a->lock);
    free(a->thread);
    free(a->part);
    free(a);
}
